"""Seeded walks of a worker through whatever may happen to it: no step is illegal, and every way is taken."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from random import Random

from connect_scene import A0, A1, B0, NAMES, SNAPSHOT, A, B, Scene

from fsm.connect.assignor.leader import ConfigSnapshot
from fsm.connect.protocol import Assignment, encode_assignment
from fsm.connect.worker.inputs import (
    Answered,
    Change,
    ConfigChange,
    ConfigTopicAdvanced,
    ReadToEnd,
    Start,
    StartUnits,
    Stop,
    Taken,
    UnitsStarted,
    UnitsStopped,
    WorkerInput,
)
from fsm.connect.worker.state import canonicalize, new_worker
from fsm.connect.worker.step import due_ms, step
from fsm.member.inputs import CoordinatorFound, CoordinatorLost
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import DISCONNECTED, TIMED_OUT, HeartbeatResponse, JoinGroupResponse, SyncGroupResponse
from fsm.tables.connect_worker import Event, State

UNITS = (A, A0, A1, B, B0)
JOIN = [None] * 8 + [
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
]
SYNC = [None] * 12 + [
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
]
BEAT = [ErrorCode.NONE] * 3 + [
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
]
RARE = {"CAUGHT_UP_DELAY_OVER"}
"""Test of its own in `test_worker`."""
NOT_REACHED = {
    "SYNCED_DELAY_OVER",
    "REVOKED_DELAY_OVER",
    "SYNCED_FAILED_CATCH_UP",
    "ASSIGNOR_FAILED_RETRIABLE",
    "CAUGHT_UP_FAILED",
}


class Walk(Scene):
    """A scene in which chance plays everybody but the worker."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311
        modes = ("eager", "compatible", "sessioned")
        super().__init__(self.random.choice(modes), rebalance_timeout_ms=self.random.choice((4_000, 60_000)))
        self.generation = 0
        self.restart()

    def restart(self) -> None:
        self.worker = new_worker(self.worker.config, self.worker.url)
        self.give(Start(self.snapshot))

    def some(self, units: tuple[object, ...], most: int) -> tuple[object, ...]:
        return tuple(self.random.sample(units, self.random.randint(0, min(most, len(units)))))

    def go(self) -> None:
        if self.state is State.DOWN:
            self.restart()
        else:
            self.random.choice((self.time, self.reply, self.reply, self.reply, self.work, self.work, self.chance))()

    def time(self) -> None:
        """Some time, or up to when the worker wants to be asked."""
        due_in_ms = due_ms(self.worker) - self.now_ms
        if due_in_ms < 400_000 and self.random.random() < 0.6:
            self.wait(max(0, due_in_ms))
        else:
            self.wait(self.random.choice((1, 100, 1_000, 3_000, 11_000)))

    def reply(self) -> None:
        worker = self.worker
        if worker.heartbeat_sent[0] and (not worker.awaited or self.random.random() < 0.5):
            answer = self.random.choice((*(HeartbeatResponse(error) for error in BEAT), TIMED_OUT))
            self.give(Answered(worker.heartbeat_sent[0], answer))
        elif self.state is State.JOINING:
            self.reply_join()
        elif self.state is State.SYNCING:
            self.reply_sync()

    def reply_join(self) -> None:
        error = self.random.choice(JOIN)
        if error is not None:
            self.answer(JoinGroupResponse(member_id="m1", error_code=error))
            return
        self.generation += 1
        version = self.random.choice([v for v, n in NAMES.items() if n in self.worker.config.mode.names])
        self.joined(version, self.generation, self.random.choice(("m1", "m2")))

    def reply_sync(self) -> None:
        error = self.random.choice(SYNC)
        if error is not None or self.random.random() < 0.02:
            self.answer(DISCONNECTED if error is None else SyncGroupResponse(error_code=error))
            return
        held = self.worker.holds
        assignment = Assignment(
            0,
            "m2",
            "u",
            self.random.choice([self.worker.configs.offset] * 4 + [self.snapshot.offset, 4]),
            self.some(tuple(u for u in UNITS if u not in held), 3),
            self.some(held, 1),
            self.random.choice((0, 1, 5_000)),
            self.random.choice((0, 0, 0, 0, 0, 1)),
        )
        version = {name: number for number, name in NAMES.items()}[self.worker.elected]
        data = encode_assignment(replace(assignment, version=version), version)
        self.answer(SyncGroupResponse(data, protocol_type="connect", protocol_name=self.worker.elected))

    def work(self) -> None:
        match self.state:
            case State.REVOKING:
                self.give(UnitsStopped())
            case State.STARTING:
                self.give(UnitsStarted())
            case State.CATCHING_UP if self.random.random() < 0.2:
                self.now_ms += self.random.choice((0, 5))
                self.give(ReadToEnd(self.snapshot))
            case State.DISCONNECTED:
                self.give(CoordinatorFound())

    def chance(self) -> None:
        what = self.random.random()
        if what < 0.3:
            self.give(CoordinatorLost())
        elif what < 0.33:
            self.give(Stop())
        else:
            offset = self.snapshot.offset + 1
            self.snapshot = ConfigSnapshot(offset, (*SNAPSHOT.task_counts, *((("C", 1),) if offset % 3 == 0 else ())))
            changes = self.some(tuple(Change), 2)
            self.give(
                ConfigTopicAdvanced(
                    self.snapshot,
                    tuple(ConfigChange(self.random.choice("ABC"), c) for c in changes),  # type: ignore[arg-type]
                )
            )


def check(walk: Walk) -> None:
    """W1 and W4 as far as one worker shows them, and what must be so in every state."""
    worker = walk.worker
    for effect in walk.effects:
        if isinstance(effect, StartUnits):
            assert worker.held is not None
            assert worker.configs.offset == worker.held.offset
            assert set(effect.units) <= set(worker.holds)
    assert (worker.state is State.DELAYED) <= (worker.deadline_ms is not None)
    assert worker.state is State.DOWN or (worker.state in {State.JOINING, State.SYNCING}) == (worker.awaited > 0)
    assert len(set(worker.holds)) == len(worker.holds)
    assert 0 <= worker.retries <= 5
    hash(worker)


def walked(seed: int, steps: int) -> Counter[str]:
    walk = Walk(seed)
    for _ in range(steps):
        walk.go()
        check(walk)
    return Counter(walk.took())


def test_no_step_is_illegal_and_every_way_is_taken() -> None:
    """Two dozen walks of 400 steps: the table has a cell for all that happens, and every event happens but the five
    that the worker says it does not reach."""
    taken: Counter[str] = Counter()
    for seed in range(24):
        taken += walked(seed, 400)
    assert {event.name for event in Event} - taken.keys() - RARE == NOT_REACHED


def test_the_same_seed_takes_the_same_way() -> None:
    """A walk depends on its seed alone."""
    assert walked(7, 200) == walked(7, 200)


LATER_MS = 7_000_000


class TwinWalk(Walk):
    """A walk beside which a twin goes on a later clock; each step is also taken from the canonical worker."""

    def restart(self) -> None:
        self.twin = new_worker(self.worker.config, self.worker.url)
        super().restart()

    def give(self, *inputs: WorkerInput) -> list[object]:
        for given in inputs:
            before = self.worker
            effects = list(super().give(given))
            self.twin = step(self.twin, given, self.now_ms + LATER_MS).worker
            mine = canonicalize(self.worker, self.now_ms, {})
            assert mine == canonicalize(self.twin, self.now_ms + LATER_MS, {})
            done = step(canonicalize(before, self.now_ms, {}), given, 0)
            assert canonicalize(done.worker, 0, {}) == mine
            assert [e for e in done.effects if not isinstance(e, Taken)] == effects
            others = {"m1": "one", "m2": "two"}
            renamed = canonicalize(self.worker, self.now_ms, others)
            assert not {"'m1'", "'m2'"} & {*re.findall("'[^']*'", repr(renamed))}
            assert canonicalize(renamed, 0, {other: name for name, other in others.items()}) == mine
        return self.effects


def test_workers_that_differ_only_by_ids_and_instants_become_equal() -> None:
    """And equal ones go on alike: the state is fit to be searched."""
    for seed in range(16):
        walk = TwinWalk(seed)
        for _ in range(250):
            walk.go()


def test_numbers_of_requests_are_few() -> None:
    """A number is free again when its answer came: no state counts what was sent."""
    walk = Walk(3)
    numbers = set()
    for _ in range(2_000):
        walk.go()
        numbers.add(walk.worker.awaited)
        for number in walk.worker.unanswered:
            walk.give(Answered(number, TIMED_OUT))
    assert max(numbers) <= 4
