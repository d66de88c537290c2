"""The bugs of Connect in the bug zoo: each one planted in the code that runs, in its smallest configuration.

Every test first shows that the invariant holds as the code stands, then that it breaks with the mutation. What is
planted replaces one function, or one order of the worker's table; nothing else is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from connect_scene import A0, A1, A, Scene, find_doubles, find_outdated

from fsm.connect.assignor import incremental as assignor
from fsm.connect.assignor.incremental import Derived, LostWork, Memory, Revocation, Round, assign
from fsm.connect.assignor.leader import ConfigSnapshot
from fsm.connect.simulation.cluster import Cluster
from fsm.connect.simulation.invariants import Computation, Group, broken_at_rest, broken_in_round
from fsm.connect.simulation.process import Latencies
from fsm.connect.units import Unit, Units, UnitsByWorker
from fsm.connect.worker import step as worker
from fsm.connect.worker.config import ConnectConfig
from fsm.connect.worker.effects import WorkerDraft
from fsm.connect.worker.inputs import ReadToEnd, StopUnits, UnitsStarted
from fsm.tables.connect_worker import Effect, Event

SNAPSHOT_COUNTS = (("A", 2), ("B", 1))
TASKS = tuple(Unit("A", n) for n in range(6))


def computed(memory: Memory, owned: UnitsByWorker, configured: Units, max_delay_ms: int = 300_000) -> Computation:
    """One round of the assignor as it stands now."""
    known = Round(1_000, 2, frozenset(configured), owned, last_completed_generation=memory.previous_generation)
    return Computation(memory, known, assign(memory, known, max_delay_ms), max_delay_ms)


def derive_with(monkeypatch: pytest.MonkeyPatch, change: Callable[[Memory, Round, Derived], Derived]) -> None:
    """The assignor derives its sets wrongly; the invariants go on deriving them well."""
    right = assignor.derive
    monkeypatch.setattr(assignor, "derive", lambda memory, round_: change(memory, round_, right(memory, round_)))


def pair(max_delay_ms: int = 300_000, **latencies: int) -> Cluster:
    """Two workers that share A with two tasks, at rest."""
    found = Cluster(ConnectConfig("g", scheduled_rebalance_max_delay_ms=max_delay_ms), Latencies(**latencies))
    found.start("W1")
    found.start("W2")
    found.run_for(8_000)
    found.create("A", tasks=2)
    assert found.settle()
    return found


def settled(owned: UnitsByWorker, join: dict[int, str], max_delay_ms: int = 300_000) -> tuple[list[str], list[int]]:
    """What a group breaks when it has come to rest, and its delays: rounds follow at deadlines and after revocations.

    `join` says which worker joins before which round, counted from 1.
    """
    configured = frozenset(unit for units in owned.values() for unit in units)
    memory = Memory(previous=configured, previous_members=frozenset(owned), previous_generation=0)
    now_ms, holds, delays = 1_000, dict(owned), []
    for number in range(1, 12):
        holds |= {join[number]: ()} if number in join else {}
        known = Round(now_ms, number, configured, dict(sorted(holds.items())), number - 1)
        outcome = assign(memory, known, max_delay_ms)
        holds, memory = dict(outcome.after), outcome.memory
        delays.append(outcome.delay_ms)
        if not any(outcome.revoked.values()) and not outcome.delay_ms and number >= max(join):
            break
        now_ms = memory.deadline_ms or now_ms
    return list(broken_at_rest(Group(configured, holds, holds))), delays


# ------------------------------------------------------------------------------------------------ the assignor


def test_kafka_9841_doubled_tasks_are_not_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A zombie returns with a task that another worker runs: unless both copies are revoked, both stay (I4)."""
    memory = Memory(frozenset({A0}), previous_members=frozenset({"W1", "W2"}), previous_generation=1)
    assert broken_in_round(computed(memory, {"W1": (A0,), "W2": (A0,)}, (A0,))) == []
    derive_with(monkeypatch, lambda _m, _r, derived: derived._replace(duplicated=frozenset()))
    assert "I4 single owner" in broken_in_round(computed(memory, {"W1": (A0,), "W2": (A0,)}, (A0,)))


def test_kafka_8463_a_new_leader_hands_out_running_tasks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory is empty: what runs must not count as new (I2)."""
    owned = {"W2": (A0, A1), "W3": ()}
    assert broken_in_round(computed(Memory(), owned, (A0, A1))) == []
    derive_with(monkeypatch, lambda m, r, derived: derived._replace(created=r.configured - m.previous))
    assert "I2 revoke before assign" in broken_in_round(computed(Memory(), owned, (A0, A1)))


def test_kafka_15693_delay_0_leaves_lost_tasks_unassigned(monkeypatch: pytest.MonkeyPatch) -> None:
    """With delays disabled lost work must be placed in the round that finds it (I15)."""
    memory = Memory(frozenset({A0, A1}), previous_members=frozenset({"W1", "W2"}), previous_generation=1)
    assert broken_in_round(computed(memory, {"W1": (A0,)}, (A0, A1), max_delay_ms=0)) == []
    right = assignor.handle_lost

    def withheld(*given: Any, max_delay_ms: int, **more: Any) -> LostWork:
        return right(*given, max_delay_ms=max_delay_ms, **more)._replace(to_place=())

    monkeypatch.setattr(assignor, "handle_lost", withheld)
    assert "I15 delays disabled" in broken_in_round(computed(memory, {"W1": (A0,)}, (A0, A1), max_delay_ms=0))


def test_kafka_10413_two_workers_join_and_one_stays_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """2.3.0 took no more than the average, and only while somebody was empty: the group rests at 4, 1, 1 (G1)."""
    owned, join = {"W1": TASKS, "W2": (), "W3": ()}, {1: "W2"}
    assert settled(owned, join)[0] == []

    def at_most_average(total: int, held: UnitsByWorker, walk: list[str]) -> dict[str, int]:
        if all(held.values()):
            return {}
        loaded = max(walk, key=lambda each: len(held[each]))
        return {loaded: total // len(held)} if total else {}

    monkeypatch.setattr(assignor, "_count_excess", at_most_average)
    assert settled(owned, join)[0] == ["G1 balance of tasks"]


def test_kafka_12495_no_revocation_after_a_revocation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that joins in the follow-up round stays short of work for ever (G1); the mended leader comes back."""
    owned, join = {"W1": TASKS}, {1: "W2", 2: "W3"}
    broken, delays = settled(owned, join)
    assert (broken, 40 in delays) == ([], True)
    right = assignor.revoke_for_balance

    def never_twice(memory: Memory, *given: Any, **more: Any) -> Revocation:
        if memory.revoked_last:
            return Revocation(replace(memory, revoked_last=False), {})
        return right(memory, *given, **more)

    monkeypatch.setattr(assignor, "revoke_for_balance", never_twice)
    assert settled(owned, join)[0] == ["G1 balance of tasks"]


def test_kafka_12309_everybody_keeps_the_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """2 and 2 units and a third worker: with ceil(4/3) = 2 for each nothing moves (G1)."""
    owned, join = {"W1": TASKS[:2], "W2": TASKS[2:4]}, {1: "W3"}
    assert settled(owned, join)[0] == []

    def ceiling(total: int, held: UnitsByWorker, walk: list[str]) -> dict[str, int]:
        cap = -(-total // len(held))
        return {each: len(held[each]) - cap for each in walk if len(held[each]) > cap}

    monkeypatch.setattr(assignor, "_count_excess", ceiling)
    assert settled(owned, join)[0] == ["G1 balance of tasks"]


@pytest.mark.parametrize(("now_ms", "delay_ms"), [(1_030, 20), (1_060, 0)])
def test_pr_14000_one_clock_for_two_delays(now_ms: int, delay_ms: int) -> None:
    """Still so in what is shipped, and here: who leaves during the pause of 40 ms is not waited for any longer."""
    units = (A, *TASKS)
    memory = Memory(frozenset(units), previous_members=frozenset({"W1"}), previous_generation=0)
    holds: dict[str, Units] = {"W1": units}
    for at_ms, name in ((1_000, "W2"), (1_010, "W3")):
        holds[name] = ()
        generation = memory.previous_generation + 1
        outcome = assign(memory, Round(at_ms, generation, frozenset(units), holds, generation - 1), 300_000)
        holds, memory = dict(outcome.after), outcome.memory
    assert (memory.delay_ms, memory.deadline_ms) == (40, 1_050)
    gone = holds.pop("W2")
    outcome = assign(memory, Round(now_ms, 3, frozenset(units), holds, 2), 300_000)
    assert outcome.delay_ms == delay_ms
    assert gone
    quiet = replace(memory, delay_ms=0, deadline_ms=None, revoked_last=False)
    assert assign(quiet, Round(now_ms, 3, frozenset(units), holds, 2), 300_000).delay_ms == 300_000


# -------------------------------------------------------------------------------------------------- the worker


def test_kafka_9184_a_worker_cut_off_keeps_its_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers, one without the coordinator for longer than session and delay: it must have stopped (W6)."""

    def cut_off() -> Cluster:
        found = pair(max_delay_ms=5_000)
        found.cut("W1")
        found.run_for(60_000)
        return found

    right = cut_off()
    assert (find_doubles(right), right.broken) == (set(), [])
    monkeypatch.setattr(worker, "_fail_discovery", lambda _draft: None)
    assert find_doubles(cut_off()) != set()


def test_kafka_9184_a_delay_is_kept_although_its_work_came_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other half of the bug: W2 is back with its task before the deadline, and nobody has to wait any longer."""
    memory = Memory(
        frozenset({A0, A1}),
        previous_members=frozenset({"W1"}),
        previous_generation=1,
        deadline_ms=60_000,
        delay_ms=59_000,
    )
    returned = {"W1": (A0,), "W2": (A1,)}
    right = computed(memory, returned, (A0, A1))
    assert (broken_in_round(right), right.outcome.delay_ms) == ([], 0)
    monkeypatch.setattr(assignor, "_settle", lambda memory: memory)
    assert "L0 nothing waits for nothing" in broken_in_round(computed(memory, returned, (A0, A1)))


def test_kafka_9851_tasks_given_back_are_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker stopped of itself must leave its record of what runs, or it holds work that it never starts."""

    def outage() -> list[str]:
        found = Cluster(ConnectConfig("g", scheduled_rebalance_max_delay_ms=0))
        found.start("W1")
        found.run_for(8_000)
        found.create("A", tasks=1)
        assert found.settle()
        found.broker_down()
        found.run_for(20_000)
        found.broker_back()
        found.run_for(20_000)
        return found.find_problems()

    assert outage() == []

    def stop_only(draft: WorkerDraft) -> None:
        draft.effects.append(StopUnits(draft.holds))

    monkeypatch.setitem(WorkerDraft.methods, Effect.STOP_HELD, stop_only)
    assert outage() == ["W what W1 holds is what it runs"]


def test_kafka_8449_reconfigured_tasks_are_not_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that stay where they are must run with their new configs after the round."""

    def reconfigured() -> set[Unit]:
        found = pair()
        found.reconfigure("A")
        assert found.settle()
        return find_outdated(found)

    assert reconfigured() == set()
    monkeypatch.setitem(WorkerDraft.methods, Effect.STOP_RECONFIGURED_TASKS, lambda _draft: None)
    assert reconfigured() == {A0, A1}


def test_kafka_13719_a_restart_starts_tasks_of_others_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each worker restarts of a plan what is its own (W6)."""

    def restarted() -> Cluster:
        found = pair()
        found.restart("A")
        found.run_for(1_000)
        return found

    right = restarted()
    assert (find_doubles(right), right.broken) == (set(), [])
    assert all(start_ms > 18_000 for p in right.processes.values() for start_ms in p.running.values())
    monkeypatch.setattr(worker, "_mine", lambda _draft, units: units)
    wrong = restarted()
    assert find_doubles(wrong) == {A, A0, A1}
    assert wrong.broken


def test_kafka_9849_a_worker_that_cannot_read_sleeps_with_its_tasks_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """It must have given up its work before the delay is over and others start it."""

    def unreadable() -> set[Unit]:
        found = pair()
        found.unreadable.add("W2")  # a leader that is behind fails every round, without any pause
        found.create("B", tasks=1)
        seen: set[Unit] = set()
        for _ in range(40):
            found.run_for(10_000)
            seen |= find_doubles(found)
        return seen

    assert unreadable() == set()

    def sleeps(draft: WorkerDraft) -> None:
        again, draft.outside = draft.outside, True
        draft.decide(Event.CATCH_UP_TIMED_OUT_AGAIN_EAGER if again else Event.CATCH_UP_TIMED_OUT_EAGER)

    monkeypatch.setattr(worker, "_time_out_catch_up", sleeps)
    assert unreadable() != set()


def test_kafka_12476_slow_work_delays_the_scheduled_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """W3: a worker that starts its units for 8 s comes back 10 s after the sync, not 10 s after the starts."""

    def came_back_ms() -> int:
        scene = Scene().start().joined().synced((A,), delay_ms=10_000)
        synced_ms = scene.now_ms
        scene.now_ms += 8_000
        scene.give(UnitsStarted())
        while "DELAY_REACHED" not in scene.took():
            scene.wait(500)
        return scene.now_ms - synced_ms

    assert came_back_ms() == 10_000
    right = WorkerDraft.methods[Effect.RECORD_RUNNING]

    def waits_from_here(draft: WorkerDraft) -> None:
        right(draft)
        held = draft.held
        draft.deadline_ms = draft.now_ms + held.delay_ms if held else None

    monkeypatch.setitem(WorkerDraft.methods, Effect.RECORD_RUNNING, waits_from_here)
    assert came_back_ms() == 18_000


def test_kafka_10218_the_config_topic_is_read_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After one read that took too long, a later one that does not must lead to work, not to another join."""

    def later() -> list[str]:
        scene = Scene().start().joined().synced((A,), offset=7)
        scene.wait(3_000)
        scene.wait(1_200)
        scene.give(ReadToEnd(ConfigSnapshot(7, SNAPSHOT_COUNTS)))
        scene.joined(generation=2).synced((A,), offset=9)
        scene.took()
        scene.give(ReadToEnd(ConfigSnapshot(9, SNAPSHOT_COUNTS)))
        return scene.took()

    assert later() == ["CAUGHT_UP"]
    right = worker.HANDLERS[ReadToEnd]

    def forgetful(draft: WorkerDraft, given: ReadToEnd) -> None:
        outside = draft.outside or draft.retries < 5
        right(draft, given)
        draft.outside = outside

    monkeypatch.setitem(worker.HANDLERS, ReadToEnd, forgetful)
    assert later() == ["CAUGHT_UP_OUTSIDE", "JOIN_DUE_COOPERATIVE"]
