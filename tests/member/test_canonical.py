"""States fit for search: members that differ only by ids and instants become equal, and equal ones go on alike.

Held on random walks of real members: beside each goes a twin with another id, other call numbers and a later clock;
and each step is also taken from the canonical member, whose clock begins at that moment.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from classic_lives import CODES, CONFIGS, OFFSETS, PARTITIONS, USUAL, World
from member_lives import Life

from fsm.member import canonicalize
from fsm.member.classic import state as classic
from fsm.member.classic import step as classic_step
from fsm.member.classic.state import ClassicAnswered, ClassicConfig, Close, EnforceRebalance, UnsentClassicRequest
from fsm.member.consumer.step import step
from fsm.member.dialect.dialect import dialect
from fsm.member.effects import CallCompleted, UnsentRequest
from fsm.member.events import (
    ApplicationEvent,
    AsyncPollEvent,
    SyncCommitEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.member.inputs import Answered, CoordinatorFound, CoordinatorLost, Tick
from fsm.protocol.assignment import partitions
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import JoinGroupResponse

LATER_MS, MORE_CALLS = 7_000_000, 40
TWIN = {"N": "M"}


class TwinLife(Life):
    """A member of a walk, its twin, and the canonical form of both."""

    def __init__(self, rules: Any, **how: bool) -> None:
        self.twin: Any = None
        self.requests: list[tuple[UnsentRequest, UnsentRequest]] = []
        super().__init__(rules, **how)

    def do(self, given: Any) -> Any:
        before = self.member
        if self.twin is None:
            poll_due_ms = before.poll_due_ms + LATER_MS
            commits = before.auto_commit
            if before.settings.config.enable_auto_commit:
                commits = replace(commits, due_ms=commits.due_ms + LATER_MS)
            self.twin = replace(before, member_id="N", poll_due_ms=poll_due_ms, auto_commit=commits)
        effects = super().do(given)
        theirs = step(self.twin, self.to_twin(given), self.now_ms + LATER_MS)
        self.twin = theirs.member
        sent = [[e for e in one if isinstance(e, UnsentRequest)] for one in (effects, theirs.effects)]
        self.requests += zip(*sent, strict=True)
        mine = canonicalize(self.member, self.now_ms, {})
        assert mine == canonicalize(self.twin, self.now_ms + LATER_MS, TWIN)
        assert hash(mine) == hash(canonicalize(self.twin, self.now_ms + LATER_MS, TWIN))
        done = step(canonicalize(before, self.now_ms, {}), given, 0)
        assert canonicalize(done.member, 0, {}) == mine
        assert [uncalled(e) for e in done.effects] == [uncalled(e) for e in effects]
        return effects

    def to_twin(self, given: Any) -> Any:
        if isinstance(given, Answered):
            request = next((b for a, b in self.requests if a is given.request), given.request)
            return replace(given, request=request)
        if isinstance(given, ApplicationEvent) and given.call:
            return replace(given, call=given.call + MORE_CALLS)
        return given


def uncalled(effect: Any) -> Any:
    """The effect without the number of its call."""
    return replace(effect, call=0) if isinstance(effect, CallCompleted) else effect


@pytest.mark.parametrize("name", ["4.0.0", "4.4.0", "fixed", "document"])
@pytest.mark.loop(2)
def test_a_consumer_member_and_its_twin(name: str) -> None:
    """Thousands of steps of every kind, in the first and last release and in both dialects beside them."""
    for seed in range(12):
        random = Random(seed)  # noqa: S311
        life = TwinLife(dialect(name), listener=seed % 3 > 0, auto_commit=seed % 2 > 0, static=seed % 5 == 0)
        for _ in range(250):
            life.act(random)


def test_numbers_of_requests_are_few() -> None:
    """Where answers are numbered, a number is free again when its answer came: no state counts what was sent."""
    life, random = TwinLife(dialect("fixed")), Random(3)  # noqa: S311
    most = 0
    for _ in range(2_000):
        life.act(random)
        while len(life.asked) > 3:
            life.answer(random)
        most = max(most, life.member.heartbeat_number, *life.member.unanswered, 0)
    assert 0 < most <= 6


class TwinWorld(World):
    """The same for a classic member."""

    def __init__(self, config: ClassicConfig) -> None:
        self.twin = classic.new_member(config)
        self.ids = {}
        self.requests: list[tuple[UnsentClassicRequest, UnsentClassicRequest]] = []
        super().__init__(config)

    def give(self, given: Any) -> None:
        before = self.member
        open_before = len(self.open) + (isinstance(given, ClassicAnswered))
        super().give(given)
        theirs = classic_step.step(self.twin, self.to_twin(given), self.now_ms + LATER_MS)
        self.twin = theirs.member
        sent = [e for e in theirs.effects if isinstance(e, UnsentClassicRequest)]
        mine_sent = self.open[len(self.open) - len(sent) :]
        assert len(self.open) - (open_before - isinstance(given, ClassicAnswered)) == len(sent)
        self.requests += zip(mine_sent, sent, strict=True)
        mine = canonicalize(self.member, self.now_ms, {})
        assert mine == canonicalize(self.twin, self.now_ms + LATER_MS, self.ids)
        hash(mine)
        done = classic_step.step(canonicalize(before, self.now_ms, {}), given, 0)
        assert canonicalize(done.member, 0, {}) == mine

    def to_twin(self, given: Any) -> Any:
        if isinstance(given, ClassicAnswered):
            request, answer = next(b for a, b in self.requests if a is given.request), given.answer
            if isinstance(answer, JoinGroupResponse) and answer.member_id:
                self.ids["twin-" + answer.member_id] = answer.member_id
                members = tuple(m._replace(member_id="twin-" + m.member_id) for m in answer.members)
                leader = "twin-" + answer.leader if answer.leader == answer.member_id else answer.leader
                answer = replace(answer, member_id="twin-" + answer.member_id, leader=leader, members=members)
            return replace(given, request=request, answer=answer)
        if isinstance(given, ApplicationEvent) and given.call:
            return replace(given, call=given.call + MORE_CALLS)
        return given


@pytest.mark.parametrize("config", CONFIGS)
def test_a_classic_member_and_its_twin(config: ClassicConfig) -> None:
    """Joins, syncs, heartbeats, commits and leaves, with every error a coordinator answers."""
    for seed in range(12):
        random, world = Random(seed), TwinWorld(config)  # noqa: S311
        world.give(TopicSubscriptionChangeEvent(("t",)))
        world.give(CoordinatorFound())
        for _ in range(120):
            act(world, random)


def act(world: TwinWorld, random: Random) -> None:
    """One thing that happens to a classic member."""
    world.now_ms += random.choice((0, 0, 1, 100, 700))
    member, chance = world.member, random.random()
    if world.open and chance < 0.45:
        code = random.choice((ErrorCode.NONE,) * 9 + (random.choice(USUAL), random.choice(CODES)))
        given = partitions(random.sample(PARTITIONS, random.randint(0, 4)))
        world.answer(random.randrange(4), code, given, random.random() < 0.5)
    elif member.awaited is not None and chance < 0.7:
        world.end_callback(random.choice((None, None, "boom")))
    elif chance < 0.9:
        world.give(random.choice((AsyncPollEvent(consumed=OFFSETS), Tick())))
    elif chance < 0.97:
        world.calls += 1
        topics = random.choice((("t",), ("u",), ("t", "u")))
        world.give(
            random.choice(
                (
                    TopicSubscriptionChangeEvent(topics, call=world.calls),
                    EnforceRebalance(call=world.calls),
                    SyncCommitEvent(OFFSETS, call=world.calls),
                    CoordinatorFound(),
                    CoordinatorLost(),
                )
            )
        )
    elif member.closing is None and member.awaited is None and member.unsubscribing is None:
        world.calls += 1
        leaving = UnsubscribeEvent(call=world.calls) if chance < 0.995 else Close(call=world.calls)
        world.give(leaving)


def test_instants_that_have_passed_and_long_failures_make_no_difference() -> None:
    """Two members whose backoff is over, or as long as it gets, are one for a search."""
    life = TwinLife(dialect("4.4.0"))
    member = replace(life.member, heartbeat_ready_ms=10, heartbeat_attempts=9)
    other = replace(life.member, heartbeat_ready_ms=70, heartbeat_attempts=30)
    assert member != other
    assert canonicalize(member, 100, {}) == canonicalize(other, 100, {})
    assert canonicalize(member, 50, {}) != canonicalize(other, 50, {})
