"""What always holds of a classic member, whatever the coordinator answers and the application does.

A random coordinator and a random application drive one member: answers of every kind in any order, answers that never
come, callbacks that raise, commits, polls that stay away, topics that change. After every step the invariants hold.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fsm.member.classic.assignors import COOPERATIVE_STICKY, RANGE
from fsm.member.classic.state import (
    ClassicAnswered,
    ClassicConfig,
    ClassicInput,
    ClassicMember,
    Close,
    EnforceRebalance,
    PartitionCountsUpdated,
    Taken,
    UnsentClassicRequest,
    new_member,
)
from fsm.member.classic.step import due_ms, poll_wanted_ms, step
from fsm.member.effects import CallCompleted, Enqueued
from fsm.member.events import (
    AsyncPollEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
    SyncCommitEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.member.inputs import CoordinatorFound, CoordinatorLost, Tick
from fsm.member.timers import NEVER
from fsm.protocol.assignment import Partitions, partitions
from fsm.protocol.consumer_protocol import Assignment, decode_subscription, encode_assignment
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    DISCONNECTED,
    TIMED_OUT,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
    SyncGroupResponse,
    commit_results,
)
from fsm.tables.classic_member import HEARTBEATING, TABLE, State

EAGER = ClassicConfig(
    "g", session_timeout_ms=600, heartbeat_interval_ms=100, max_poll_interval_ms=900, assignors=(RANGE,)
)
CONFIGS = (
    EAGER,
    replace(EAGER, assignors=(COOPERATIVE_STICKY,)),
    replace(EAGER, group_instance_id="i", max_poll_interval_ms=300),
    replace(EAGER, assignors=(COOPERATIVE_STICKY,), group_instance_id="i", enable_auto_commit=False),
    replace(EAGER, assignors=(RANGE, COOPERATIVE_STICKY), leave_group_on_close=False),
)
CODES = tuple(
    map(ErrorCode, (-1, 0, 3, 7, 12, *range(14, 18), *range(22, 32), 35, 42, 68, 69, 79, 81, 82, 86, 88, 100))
) + tuple(map(ErrorCode, (*range(110, 114), 128)))
"""What coordinators answer."""
USUAL = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.MEMBER_ID_REQUIRED,
)
"""What tells of the membership."""
PARTITIONS = tuple((topic, n) for topic in "tu" for n in range(3))
OFFSETS = tuple((p, 7) for p in PARTITIONS)


class World:
    """A member, what is open, and what its listener was told."""

    def __init__(self, config: ClassicConfig) -> None:
        self.member = new_member(config)
        self.now_ms = 0
        self.open: list[UnsentClassicRequest] = []
        self.held: set[tuple[str, int]] = set()
        """By the callbacks that have ended."""
        self.generation = 0
        self.calls = 0
        self.completed: list[int] = []
        self.taken: set[tuple[State, object]] = set()
        self.give(PartitionCountsUpdated((("t", 3), ("u", 3))))

    def give(self, given: ClassicInput) -> None:
        before = self.member
        after = step(before, given, self.now_ms)
        assert after == step(before, given, self.now_ms), "the same step gives the same"
        hash(after.member)
        self.member = after.member
        for effect in after.effects:
            if isinstance(effect, UnsentClassicRequest):
                self.sent(before, effect)
            elif isinstance(effect, CallCompleted) and effect.call:
                self.completed.append(effect.call)
            elif isinstance(effect, Taken):
                self.taken.add((effect.source, effect.event))
            elif isinstance(effect, Enqueued):
                self.asked(before, given, effect)

    def sent(self, before: ClassicMember, request: UnsentClassicRequest) -> None:
        self.open.append(request)
        body, member = request.body, self.member
        if isinstance(body, JoinGroupRequest):
            owned = {decode_subscription(p.metadata).owned_partitions for p in body.protocols}
            assert owned == {member.owned}
            assert member.config.is_cooperative or owned == {()}, "an eager member owns nothing when it joins"
        elif isinstance(body, HeartbeatRequest):
            assert before.state in HEARTBEATING
            assert (body.generation_id, body.member_id) == before.generation[:2]
            assert body.generation_id >= 0
        elif isinstance(body, LeaveGroupRequest):
            assert body.members[0].member_id
            assert not member.config.is_static, "a static member keeps its place"
        elif isinstance(body, OffsetCommitRequest):
            assert body.generation_id_or_member_epoch >= 0 or before.topics is None
        joins = [r for r in self.open if isinstance(r.body, JoinGroupRequest | SyncGroupRequest)]
        assert len(joins) <= 1, "one join at a time"

    def asked(self, before: ClassicMember, given: ClassicInput, effect: Enqueued) -> None:
        match effect.event:
            case PartitionsRemovedEvent(_, _, gone):
                assert set(gone) <= self.held, "only what was assigned is taken away"
            case PartitionsAssignedEvent(_, full, added):
                assert not set(added) & self.held, "nothing is assigned twice"
                assert set(full) == self.held | set(added)
            case _:
                return
        ends = isinstance(given, ConsumerRebalanceListenerCallbackCompletedEvent | Close)
        assert before.awaited is None or ends, "one callback at a time"

    def end_callback(self, error: str | None) -> None:
        awaited = self.member.awaited
        assert awaited is not None
        if awaited.method.name == "ASSIGNED":
            self.held |= set(awaited.partitions)
        else:
            self.held -= set(awaited.partitions)
        self.give(ConsumerRebalanceListenerCallbackCompletedEvent(awaited.ticket, error))

    def answer(self, number: int, code: ErrorCode, given: Partitions, lead: bool) -> None:
        request = self.open.pop(number % len(self.open))
        self.give(ClassicAnswered(request, self.response(request, code, given, lead)))

    def response(self, request: UnsentClassicRequest, code: ErrorCode, given: Partitions, lead: bool) -> object:
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            return DISCONNECTED if lead else TIMED_OUT
        ok = code is ErrorCode.NONE
        match request.body:
            case JoinGroupRequest() as body:
                self.generation += not lead or self.generation == 0
                member_id = body.member_id or f"m{self.generation}"
                members = (JoinGroupResponseMember(member_id, metadata=body.protocols[0].metadata),) if lead else ()
                name = body.protocols[0].name
                generation_id = self.generation if ok else -1
                leader = member_id if lead else "other"
                return JoinGroupResponse(generation_id, "consumer", name, leader, member_id, members, error_code=code)
            case SyncGroupRequest():
                return SyncGroupResponse(encode_assignment(Assignment(given)) if ok else b"", error_code=code)
            case HeartbeatRequest():
                return HeartbeatResponse(code)
            case LeaveGroupRequest():
                return LeaveGroupResponse(code)
        return OffsetCommitResponse(commit_results(() if ok else ((PARTITIONS[0], code),)))

    def check(self) -> None:
        """What holds between any two steps."""
        member = self.member
        assert member.in_flight == len(self.open)
        joins = any(isinstance(r.body, JoinGroupRequest | SyncGroupRequest) for r in self.open)
        assert member.closed or member.join_out == (joins or member.unread is not None)
        if member.state in HEARTBEATING:
            assert not member.generation.is_reset
        if member.state is State.UNJOINED:
            assert member.generation.generation_id == -1
            assert member.generation.protocol_name is None
        if member.awaited is None:
            assert set(member.owned) == self.held, "the listener was told of all that is owned"
        assert not (member.heartbeats.enabled and member.closed)
        assert len(self.completed) == len(set(self.completed)), "a call ends once"


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


def test_walks_take_every_row_of_the_table() -> None:
    """Seeded walks hold the invariants and reach every cell of the table that the code can name."""
    taken = {pair for seed in range(80) for pair in walk(seed, 1_000)}
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
                alive = member.heartbeats.polled(member.config, world.now_ms)
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
                stopped = world.member.heartbeats.stopped()
                assert ticked.effects == ()
                assert ticked.member in (world.member, replace(world.member, heartbeats=stopped))
