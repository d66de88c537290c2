"""What holds between rounds: each invariant is broken once by a planted bug or by a history that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from connect_scene import A0, A1, A

from fsm.connect.assignor.incremental import Memory, Round, assign
from fsm.connect.protocol import Assignment
from fsm.connect.simulation import wiring
from fsm.connect.simulation.cluster import Cluster
from fsm.connect.simulation.invariants import broken_between
from fsm.connect.simulation.process import SeenRound
from fsm.connect.units import Unit, Units, list_configured
from fsm.connect.worker import step as worker_step
from fsm.connect.worker.config import ConnectConfig
from fsm.connect.worker.effects import WorkerDraft
from fsm.connect.worker.inputs import StopUnits
from fsm.connect.worker.state import Worker
from fsm.connect.worker.step import due_ms
from fsm.tables.connect_worker import Effect, Event

SPEAKS = {"W1": {0, 1, 2}, "W2": {0, 1, 2}}
BEFORE = SeenRound(0, 5, "W1", 1, 0, 0, {}, {"W1": (), "W2": ()}, {}, "m1", frozenset({"m1", "m2"}))


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({"generation": 6}, []),
        ({"generation": 6, "leader": "W2", "leader_id": "m2", "member_ids": frozenset({"m2", "m3"})}, []),
        ({}, []),
        ({"generation": 4}, ["G4 generations increase"]),
        ({"leader": "W2", "leader_id": "m2", "member_ids": frozenset({"m2"})}, ["G4 generations increase"]),
        ({"generation": 6, "leader": "W3"}, ["G5 the leader is a member"]),
        ({"generation": 6, "version": 3}, ["G5 everybody speaks the elected protocol"]),
        ({"generation": 6, "leader": "W2", "leader_id": "m2"}, ["G6 a leader that is there stays leader"]),
    ],
)
def test_rounds_that_follow_one_another(change: dict[str, object], broken: list[str]) -> None:
    """Generations go up, the leader is one of those who joined, speaks what all speak, and stays while it is there."""
    assert list(broken_between(BEFORE, BEFORE._replace(**change), SPEAKS)) == broken  # type: ignore[arg-type]


def lived() -> set[str]:
    """What a cluster breaks in which W2 joins, is waited for while it is away, and reads no configs when it is back."""
    found = Cluster(ConnectConfig("g", scheduled_rebalance_max_delay_ms=10_000))
    found.begin({"A": 2}, offset=1)
    found.start("W1", holding=(A, A0, A1))
    found.run_for(10_000)
    found.start("W2")
    found.run_for(20_000)
    found.stop("W2")
    found.run_for(5_000)
    found.create("B", tasks=1)
    found.run_for(30_000)
    found.start("W2")
    found.run_for(10_000)
    found.unreadable.add("W2")
    found.create("C", tasks=1)
    found.run_for(2_000)
    return {what for _, what in found.broken}


ADOPT = WorkerDraft.methods[Effect.ADOPT_ASSIGNMENT]


def adopt_and_keep(draft: WorkerDraft) -> None:
    """What is held after a round still has what the round took away."""
    ADOPT(draft)
    held = draft.held
    if held is not None:
        draft.held = replace(held, assigned=(*held.assigned, *held.revoked))


def stop_nothing(draft: WorkerDraft) -> None:
    """The stops are said to have ended, and nothing was stopped."""
    draft.effects.append(StopUnits((), wait=True))


RIGHT = worker_step.decide_synced


def careless(worker: Worker, incoming: Assignment) -> Event:
    """A worker that does not care for being behind with its configs."""
    event = RIGHT(worker, incoming)
    return Event.SYNCED_READY if event is Event.SYNCED_BEHIND else event


def without_deadline(worker: Worker) -> int:
    """When a worker wants to be asked that has forgotten its delay."""
    return due_ms(replace(worker, deadline_ms=None))


@pytest.mark.parametrize(
    ("plant", "broken"),
    [
        (
            lambda patch: patch.setitem(WorkerDraft.methods, Effect.STOP_REVOKED, stop_nothing),
            "W2 stops come before starts",
        ),
        (
            lambda patch: patch.setitem(WorkerDraft.methods, Effect.ADOPT_ASSIGNMENT, adopt_and_keep),
            "W2 a join reports nothing that was revoked",
        ),
        (lambda patch: patch.setattr(wiring, "due_ms", without_deadline), "W3 a delay is not waited for any longer"),
        (
            lambda patch: patch.setattr(worker_step, "decide_synced", careless),
            "W4 nothing starts before the configs agree",
        ),
    ],
    ids=["W2-start", "W2-join", "W3", "W4"],
)
def test_a_planted_bug_breaks_its_invariant(
    plant: Callable[[pytest.MonkeyPatch], None], broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster keeps all as it stands; with the bug, this one breaks."""
    assert lived() == set()
    plant(monkeypatch)
    assert broken in lived()


# Convergence


def to_rest(seed: int) -> list[bool]:
    """Whether each round worked, from some state of a group on, until one does nothing: workers come back after a
    revocation and at the deadline, and nothing else happens."""
    random = Random(seed)  # noqa: S311
    counts = {name: random.randint(0, 4) for name in "ABC"[: random.randint(1, 3)]}
    units = sorted(list_configured(counts))
    holds: dict[str, Units] = {f"W{n}": () for n in range(random.randint(1, 4))}
    for unit in units:
        if random.random() < 0.8:
            owner = random.choice(sorted(holds))
            holds[owner] = (*holds[owner], unit)
    previous: frozenset[Unit] = frozenset(units) if random.random() < 0.7 else frozenset()
    members = frozenset({*holds, *(["gone"] if random.random() < 0.5 else [])})
    memory = Memory(previous, previous_members=members, previous_generation=0, revoked_last=random.random() < 0.3)
    now_ms, worked = 1_000, []
    for generation in range(1, 12):
        outcome = assign(memory, Round(now_ms, generation, frozenset(units), holds, generation - 1), 60_000)
        moves = any((*outcome.assigned.values(), *outcome.revoked.values())) or outcome.delay_ms > 0
        worked.append(moves)
        if not moves:
            return worked
        holds, memory = dict(outcome.after), outcome.memory
        now_ms = memory.deadline_ms or now_ms
    return worked


def test_a_group_left_alone_comes_to_rest() -> None:
    """G3: in 400 groups no more than so many working rounds come before one that does nothing, and one always comes."""
    runs = [to_rest(seed) for seed in range(400)]
    assert all(run[-1] is False for run in runs)
    assert max(sum(run) for run in runs) == 3
