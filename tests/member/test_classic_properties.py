"""What always holds of a classic member, whatever the coordinator answers and the application does.

A random coordinator and a random application drive one member: answers of every kind in any order, answers that never
come, callbacks that raise, commits, polls that stay away, topics that change. After every step the invariants hold.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from classic_lives import CODES, CONFIGS, OFFSETS, PARTITIONS, USUAL, World
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fsm.member.classic.state import (
    ClassicConfig,
    ClassicInput,
    Close,
    EnforceRebalance,
    PartitionCountsUpdated,
)
from fsm.member.classic.step import due_ms, poll_wanted_ms, step
from fsm.member.events import (
    AsyncPollEvent,
    SyncCommitEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.member.inputs import CoordinatorFound, CoordinatorLost, Tick
from fsm.member.timers import NEVER
from fsm.protocol.assignment import Partitions, partitions
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    OffsetCommitRequest,
    SyncGroupRequest,
)
from fsm.tables.classic_member import TABLE, State


class Anything(RuleBasedStateMachine):
    """The member under every answer and every call."""

    @initialize(config=st.sampled_from(CONFIGS))
    def begin(self, config: ClassicConfig) -> None:
        self.world = World(config)
        self.world.give(TopicSubscriptionChangeEvent(("t",)))
        self.world.give(CoordinatorFound())

    @rule(wait_ms=st.sampled_from((0, 1, 100, 700)))
    def poll(self, wait_ms: int) -> None:
        self.world.now_ms += wait_ms
        self.world.give(AsyncPollEvent(consumed=OFFSETS))

    @rule(wait_ms=st.sampled_from((0, 100, 700)))
    def tick(self, wait_ms: int) -> None:
        self.world.now_ms += wait_ms
        self.world.give(Tick())

    @precondition(lambda self: self.world.open)
    @rule(
        number=st.integers(0, 3),
        code=st.just(ErrorCode.NONE) | st.sampled_from(CODES),
        given=st.sets(st.sampled_from(PARTITIONS)).map(partitions),
        lead=st.booleans(),
    )
    def answer(self, number: int, code: ErrorCode, given: Partitions, lead: bool) -> None:
        self.world.answer(number, code, given, lead)

    @precondition(lambda self: self.world.member.awaited)
    @rule(error=st.sampled_from((None, None, "boom")))
    def end_callback(self, error: str | None) -> None:
        self.world.end_callback(error)

    @rule(topics=st.sampled_from((("t",), ("u",), ("t", "u"))))
    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.world.give(TopicSubscriptionChangeEvent(topics))

    @rule(count=st.integers(1, 4))
    def grow(self, count: int) -> None:
        self.world.give(PartitionCountsUpdated((("t", count), ("u", 3))))

    @rule(found=st.booleans())
    def coordinator(self, found: bool) -> None:
        self.world.give(CoordinatorFound() if found else CoordinatorLost())

    @rule(kind=st.sampled_from(("commit", "unsubscribe", "enforce")))
    def call(self, kind: str) -> None:
        world = self.world
        world.calls += 1
        match kind:
            case "commit":
                world.give(SyncCommitEvent(OFFSETS[:1], call=world.calls))
            case "unsubscribe":
                world.give(UnsubscribeEvent(call=world.calls))
            case _:
                world.give(EnforceRebalance(call=world.calls))

    @rule(timeout_ms=st.sampled_from((0, 500)))
    def close(self, timeout_ms: int) -> None:
        self.world.calls += 1
        self.world.give(Close(call=self.world.calls, timeout_ms=timeout_ms))

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        """However it got here: the callback ends, answers stay away, and close() returns by its timeout."""
        if not hasattr(self, "world"):
            return
        world = self.world
        if world.member.awaited is not None:
            world.end_callback(None)
        while world.member.awaited is not None:
            world.end_callback(None)
        if world.member.closing is None:
            world.give(Close(call=1_000, timeout_ms=500))
        world.now_ms += 1_000
        world.give(Tick())
        while world.member.awaited is not None:
            world.end_callback(None)
            world.give(Tick())
        assert world.member.closed
        assert due_ms(world.member) == NEVER


TestAnything = Anything.TestCase
TestAnything.settings = settings(max_examples=60, stateful_step_count=60)


def walk(seed: int, steps: int) -> set[tuple[State, object]]:
    """Members one after the other, under a coordinator that mostly answers well, so that they get everywhere.

    Gives the cells of the table that were taken.
    """
    random = Random(seed)  # noqa: S311  # a seeded walk
    taken: set[tuple[State, object]] = set()
    world = World(CONFIGS[seed % len(CONFIGS)])
    for _ in range(steps):
        _random_step(world, random)
        world.check()
        if world.member.closed or world.member.commit_fenced is not None:
            taken |= world.taken
            world = World(CONFIGS[seed % len(CONFIGS)])
    return taken | world.taken


def _random_step(world: World, random: Random) -> None:
    world.now_ms += random.choice((0, 0, 20, 100))
    roll = random.random()
    if world.member.awaited is not None and roll < 0.5:
        world.end_callback("boom" if random.random() < 0.1 else None)
    elif world.open and roll < 0.5:
        number = _next(world, random)
        often = 0.6 if isinstance(world.open[number].body, OffsetCommitRequest) else 0.3
        code = random.choice(random.choice((CODES, USUAL, USUAL))) if random.random() < often else ErrorCode.NONE
        topics = world.member.topics or ("t",)
        given = partitions(p for p in PARTITIONS if p[0] in topics and random.random() < 0.5)
        world.answer(number, code, given, random.random() < 0.5)
    elif roll < 0.97:
        _application(world, random)
    else:
        rare: list[ClassicInput] = [
            EnforceRebalance(),
            CoordinatorLost(),
            UnsubscribeEvent(),
            TopicSubscriptionChangeEvent(random.choice((("t",), ("t", "u")))),
            PartitionCountsUpdated((("t", random.randrange(1, 4)), ("u", 3))),
        ]
        world.give(random.choice(rare))
        if random.random() < 0.02:
            world.give(Close(timeout_ms=300))


def _next(world: World, random: Random) -> int:
    """Which request is answered: commits and syncs are often slow, so that much else happens before."""
    slow = OffsetCommitRequest | SyncGroupRequest
    weights = [1 if isinstance(request.body, slow) else 4 for request in world.open]
    return random.choices(range(len(world.open)), weights)[0]


def _application(world: World, random: Random) -> None:
    if world.member.topics is None and random.random() < 0.5:
        world.give(TopicSubscriptionChangeEvent(("t",)))
    elif not world.member.coordinator_known:
        world.give(CoordinatorFound())
    elif random.random() < 0.35:
        world.give(SyncCommitEvent(OFFSETS[:1]))
    elif random.random() < 0.5:
        world.give(AsyncPollEvent(consumed=OFFSETS))
    else:
        world.now_ms = max(world.now_ms, min(due_ms(world.member), world.now_ms + random.choice((100, 900))))
        world.give(Tick())


NEVER_TAKEN = {
    # A thread of Java's may be reset between its look at the state and its look at the timer; one step here is whole.
    ("UNJOINED", "POLL_TIMEOUT"),
    ("UNJOINED", "POLL_TIMEOUT_STATIC"),
    # The answer to a sync is not read for its assignment once the generation is gone.
    ("UNJOINED", "SYNC_OK_REVOKING"),
}


REACHING = (0, 2, 8, 16, 26, 27, 28, 40, 43, 45, 48, 52)
"""Of the first eighty seeds those that together take every row; if walks change, others do."""


def test_walks_take_every_row_of_the_table() -> None:
    """Seeded walks hold the invariants and reach every cell of the table that the code can name."""
    taken = {pair for seed in REACHING for pair in walk(seed, 1_000)}
    assert {(s.name, e.name) for (s, e) in TABLE.compiled if (s, e) not in taken} == NEVER_TAKEN


@pytest.mark.slow
def test_a_million_steps_hold_the_invariants() -> None:
    """The same walks, longer."""
    steps = 0
    seed = 1_000
    while steps < 1_000_000:
        walk(seed, 2_000)
        steps += 2_000
        seed += 1


def test_a_poll_that_is_not_wanted_only_shows_that_the_application_is_alive() -> None:
    """`poll_wanted_ms` leaves out no poll that would do something."""
    for seed in range(30):
        random = Random(seed)  # noqa: S311  # a seeded walk
        world = World(CONFIGS[seed % len(CONFIGS)])
        world.give(TopicSubscriptionChangeEvent(("t",)))
        for _ in range(200):
            _random_step(world, random)
            member = world.member
            if poll_wanted_ms(member) > world.now_ms and not member.closed:
                polled = step(member, AsyncPollEvent(consumed=member.consumed), world.now_ms)
                alive = member.heartbeats.poll(member.config, world.now_ms)
                quiet = member.awaited is not None or member.closing is not None or member.topics is None
                assert polled.member == (member if quiet else replace(member, heartbeats=alive))
                assert polled.effects == ()


def test_a_tick_before_its_time_does_nothing() -> None:
    """`due_ms` leaves out no tick that would do something."""
    for seed in range(30):
        random = Random(seed)  # noqa: S311  # a seeded walk
        world = World(CONFIGS[seed % len(CONFIGS)])
        world.give(TopicSubscriptionChangeEvent(("t",)))
        for _ in range(200):
            _random_step(world, random)
            if due_ms(world.member) > world.now_ms and not world.member.closed:
                ticked = step(world.member, Tick(), world.now_ms)
                stopped = world.member.heartbeats.stop()
                assert ticked.effects == ()
                assert ticked.member in (world.member, replace(world.member, heartbeats=stopped))
