"""Whole clusters: the document's scenarios from stimuli alone, and everything else that may happen to one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from connect_lives import G1_HELD, idles_with_deleted_units
from connect_scene import A0, A1, B0, A, B, find_doubles

from fsm.connect.dialect import DOCUMENT, SHIPPED, Profile
from fsm.connect.simulation.cluster import Cluster
from fsm.connect.simulation.process import SeenRound
from fsm.connect.units import Unit, Units
from fsm.connect.worker.config import ConnectConfig
from fsm.errors import InputError
from fsm.scenario.files import read, replay_document
from fsm.scenario.kinds.connect import read_unit
from fsm.scenario.story import Replay
from fsm.tables.connect_worker import State

DOCUMENTED = Path(__file__).parent.parent / "cases" / "seed_connect.yaml"
INITIAL: Mapping[str, Units] = {"W1": (A, A0), "W2": (A1, B), "W3": (B0,)}
PROFILES = pytest.mark.parametrize("profile", [DOCUMENT, SHIPPED], ids=lambda p: p.name)


def cluster(assignments: Mapping[str, Units], profile: Profile = SHIPPED, protocol: str = "compatible") -> Cluster:
    """A settled cluster in which W1 leads and the workers hold this."""
    found = Cluster(ConnectConfig("g", protocol, profile=profile))
    found.begin({"A": 2, "B": 1}, offset=5)
    for name, units in assignments.items():
        found.start(name, holding=units)
    assert found.settle()
    assert found.assignments() == assignments
    assert found.rounds[-1].leader == "W1"
    found.rounds.clear()
    return found


def documented(scenario: str, profile: Profile) -> Replay:
    """The scenario of the document, as `fsm replay` runs it."""
    document = read(DOCUMENTED)
    names = [each.mapping()["id"][1].text() for each in document.mapping()["scenarios"][1].items()]
    return replay_document(document, str(DOCUMENTED), profile.name)[names.index(scenario)]


def ours(units: str) -> set[Unit]:
    """The document counts tasks from 1."""
    found = map(read_unit, units.strip("[]").split(", ") if units != "[]" else ())
    return {unit if unit.is_connector else Unit(unit.connector, unit.number - 1) for unit in found}


def check(found: Cluster, scenario: str, profile: Profile) -> None:
    """Round by round: who is in it, what each holds and gives up, and one delay that only gets shorter."""
    steps = documented(scenario, profile).steps
    assert len(found.rounds) == len(steps)
    deadline_ms = 0
    for seen, step in zip(found.rounds, steps, strict=True):
        workers = [field.removesuffix(" delay") for field in step.seen if field.endswith(" delay")]
        assert sorted(seen.assigned) == sorted(workers)
        for worker in workers:
            assert set(seen.after(worker)) == ours(step.seen[f"{worker} assigned"]), (step.title, worker)
            assert set(seen.revoked[worker]) == ours(step.seen[f"{worker} revoked"]), (step.title, worker)
        symbol = step.lines[-1].partition("(delay: ")[2].partition(",")[0]
        assert (seen.delay_ms > 0) == (symbol != "0"), step.title
        if symbol == "d":
            assert seen.delay_ms == 300_000
            deadline_ms = seen.now_ms + seen.delay_ms
        elif seen.delay_ms:
            assert abs(seen.now_ms + seen.delay_ms - deadline_ms) <= 5
    assert found.broken == []
    assert found.find_problems() == [] or profile == SHIPPED


@PROFILES
def test_non_first_new_member_joins(profile: Profile) -> None:
    """Scenario 1: W2 joins, W3 joins while the rebalance is active; one round revokes, the next assigns."""
    found = cluster({"W1": (A, A0, A1, B, B0)}, profile)
    found.start("W2")
    found.run_for(100)
    found.start("W3")
    found.settle()
    check(found, "non_first_new_member_joins", profile)


@PROFILES
def test_worker_leaves(profile: Profile) -> None:
    """Scenario 2: nothing moves for d, then the rest take the work."""
    found = cluster(INITIAL, profile)
    found.stop("W2")
    found.settle()
    check(found, "worker_leaves", profile)


@PROFILES
def test_worker_bounces(profile: Profile) -> None:
    """Scenario 3: it is back after 100 s, and gets its work when the delay is over."""
    found = cluster(INITIAL, profile)
    found.bounce("W2", away_ms=100_000)
    found.settle()
    check(found, "worker_bounces", profile)


@PROFILES
def test_leader_leaves(profile: Profile) -> None:
    """Scenario 4: a leader's departure starts no delay; whoever leads next places its work at once."""
    found = cluster(INITIAL, profile)
    found.stop("W1")
    found.settle()
    check(found, "leader_leaves", profile)
    assert found.rounds[0].leader in {"W2", "W3"}


@PROFILES
def test_leader_bounces(profile: Profile) -> None:
    """Scenario 5: in the document the delay outlives the leader, round by round; as shipped it is forgotten."""
    found = cluster(INITIAL, profile)
    found.bounce("W2", away_ms=50_000)
    found.run_for(100_000)
    found.bounce("W1", away_ms=50_000)
    found.run_for(60_000)
    found.settle()
    check(found, "leader_bounces", profile)
    assert [r.delay_ms > 0 for r in found.rounds] == (
        [True, True, True, True, False] if profile == DOCUMENT else [True, True, False, False, False]
    )


def test_the_documents_initial_state_arises_by_itself() -> None:
    """W1, then W2 and W3, connector A with two tasks, then B with one: the state from which the scenarios begin."""
    found = Cluster(ConnectConfig("g"))
    found.start("W1")
    found.run_for(5_000)
    found.start("W2")
    found.start("W3")
    found.run_for(20_000)
    found.create("A", tasks=2)
    found.run_for(10_000)
    found.create("B", tasks=1)
    assert found.settle()
    assert {name: set(units) for name, units in found.assignments().items()} == {n: set(u) for n, u in INITIAL.items()}
    assert (found.find_problems(), found.broken) == ([], [])


# ------------------------------------------------------------------------------------------ what else may happen


def test_a_crashed_worker_is_waited_for_twice() -> None:
    """Its session has to end first, then the delay: what it ran is dark for both."""
    found = cluster(INITIAL)
    found.crash("W2")
    at_ms = found.now_ms
    found.run_for(20_000)
    found.settle()
    first, last = found.rounds
    assert 7_000 <= first.now_ms - at_ms <= 14_000
    assert (first.delay_ms, last.delay_ms) == (300_000, 0)
    restarted = min(r.start_ms for r in found.ran if r.unit == B and r.worker != "W2")
    assert restarted - at_ms > 300_000
    assert (found.find_problems(), found.broken) == ([], [])


def test_a_frozen_worker_is_a_zombie_until_its_units_are_revoked() -> None:
    """It runs on what the others got meanwhile; its duplicates are gone two rounds after it is back (I4)."""
    found = Cluster(ConnectConfig("g", scheduled_rebalance_max_delay_ms=2_000))
    for name in INITIAL:
        found.start(name)
    found.run_for(10_000)
    found.create("A", tasks=2)
    found.create("B", tasks=1)
    found.settle()
    found.freeze("W2")
    found.run_for(30_000)
    held = [u for name, units in found.assignments().items() if name != "W2" for u in units]
    assert set(held) == found.topic.units
    assert set(found.processes["W2"].running) & set(held)
    before = len(found.rounds)
    found.thaw("W2")
    assert found.settle()
    assert [bool(any(r.revoked.values())) for r in found.rounds[before : before + 2]] == [True, False]
    assert (found.find_problems(), found.broken) == ([], [])


def test_a_task_that_does_not_stop_runs_twice() -> None:
    """Logs 2: after the graceful timeout the round goes on, and the task runs where it was and where it went."""
    found = cluster({"W1": (A, A0, A1, B, B0)})
    found.stubborn.add(A0)
    found.start("W2")
    found.settle()
    running = [name for name, process in found.processes.items() if A0 in process.running]
    assert running == ["W1", "W2"]
    assert found.broken == []  # W1 counts as a zombie


def test_without_a_coordinator_all_work_stops_and_all_is_delayed_afterwards() -> None:
    """Row 3, logs 6: the members are unknown afterwards, the leader remembers, and a full delay is announced."""
    found = cluster(INITIAL)
    found.broker_down()
    found.run_for(30_000)
    assert [p.running for p in found.processes.values()] == [{}, {}, {}]
    assert {p.worker.state for p in found.processes.values()} == {State.DISCONNECTED}
    found.broker_back()
    found.settle()
    assert (found.find_problems(), found.broken) == ([], [])


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        (lambda c: c.create("C", tasks=3), {"C", "C-0", "C-1", "C-2"}),
        (lambda c: c.scale("A", tasks=4), {"A-2", "A-3"}),
    ],
)
def test_new_work_starts_without_waiting_for_a_delay(change: Callable[[Cluster], None], asked: set[str]) -> None:
    """I7: created during a delay, placed in the next round, while lost work still waits."""
    found = cluster(INITIAL)
    found.stop("W2")
    found.run_for(20_000)
    change(found)
    found.run_for(20_000)
    assert asked <= {str(u) for units in found.assignments().values() for u in units}
    assert found.rounds[-1].delay_ms > 0
    assert found.settle()
    assert (found.find_problems(), found.broken) == ([], [])


def test_a_deleted_connector_is_stopped_everywhere() -> None:
    """One round revokes its units, nobody has them afterwards, and the rest is balanced."""
    found = cluster(INITIAL)
    found.delete("A")
    assert found.settle()
    assert {u.connector for units in found.assignments().values() for u in units} == {"B"}
    assert (found.find_problems(), found.broken) == ([], [])


def test_a_stopped_connector_keeps_its_instance() -> None:
    """Logs 4: its tasks go, its instance stays assigned."""
    found = cluster(INITIAL)
    found.stop_connector("A")
    assert found.settle()
    assert {str(u) for units in found.assignments().values() for u in units} == {"A", "B", "B-0"}
    assert (found.find_problems(), found.broken) == ([], [])


def test_a_stopped_connector_gets_its_tasks_back_when_it_is_resumed() -> None:
    """Logs 4: stop and resume take rounds; what was asked for before is asked for again."""
    found = cluster(INITIAL)
    found.stop_connector("A")
    assert found.settle()
    found.rounds.clear()
    found.resume("A")
    assert found.settle()
    assert found.rounds
    assert found.topic.units == {A, A0, A1, B, B0}
    assert (found.find_problems(), found.broken) == ([], [])


def test_pause_and_resume_take_no_round() -> None:
    """Logs 4: everything keeps its place."""
    found = cluster(INITIAL)
    found.pause("A")
    found.run_for(5_000)
    found.resume("A")
    assert found.settle()
    assert found.rounds == []
    assert found.assignments() == INITIAL


def test_another_config_for_a_connector_there_is_changes_the_number_of_its_tasks() -> None:
    """A user puts A again with three tasks: no task is lost meanwhile, the instance restarts and asks for the third."""
    found = cluster(INITIAL)
    found.create("A", tasks=3)
    found.run_for(5)
    assert found.topic.units == {A, A0, A1, B, B0}
    assert found.settle()
    assert found.topic.units == {A, A0, A1, Unit("A", 2), B, B0}
    assert [(r.worker, r.end_ms is None) for r in found.ran if r.unit == A] == [("W1", False), ("W1", True)]
    assert (found.find_problems(), found.broken) == ([], [])


def test_tasks_asked_for_while_the_instance_is_dark_are_published_when_it_starts() -> None:
    """W1 with the instance of A is gone, A is to have four tasks: they come once the delay is over and A runs again."""
    found = cluster(INITIAL)
    found.stop("W2")
    found.run_for(20_000)
    found.scale("B", tasks=3)
    found.run_for(20_000)
    assert found.topic.units == {A, A0, A1, B, B0}
    assert found.settle()
    assert found.topic.units == {A, A0, A1, B, B0, Unit("B", 1), Unit("B", 2)}
    assert (found.find_problems(), found.broken) == ([], [])


def test_a_worker_whose_thread_died_goes_on_with_its_units() -> None:
    """Row 33, logs 3: its group waits for its session and the delay, then its units run twice; nothing else does."""
    found = cluster(INITIAL)
    found.fail("W2")
    assert found.settle()
    assert found.processes["W2"].worker.state is State.DOWN
    assert set(found.processes["W2"].running) == {A1, B}
    assert find_doubles(found) == {A1, B}
    assert found.broken == []  # W2 counts as a zombie


def test_a_cluster_is_not_settled_before_a_dead_members_session_has_ended() -> None:
    """W2 dies between its join and its sync: the round goes on with it, and the next one is 10 s away."""
    found = Cluster(ConnectConfig("g", scheduled_rebalance_max_delay_ms=0))
    for name in INITIAL:
        found.start(name)
    found.run_for(10_000)
    found.create("A", tasks=2)
    assert found.settle()
    found.start("W4")
    while found.processes["W2"].worker.state is not State.SYNCING:
        found.run_for(1)
    found.crash("W2")
    assert found.settle()
    assert (found.find_problems(), found.broken) == ([], [])
    assert "W2" not in found.rounds[-1].assigned


def test_a_new_leader_does_not_see_a_deletion() -> None:
    """2.8, G3: without history nothing counts as deleted, so the unit stays where it is until one more round."""
    found = Cluster(ConnectConfig("g", scheduled_rebalance_max_delay_ms=0))
    found.start("W1")
    found.run_for(5_000)
    found.start("W2")
    found.run_for(10_000)
    found.create("A", tasks=2)
    assert found.settle()
    assert (found.rounds[-1].leader, found.assignments()["W2"]) == ("W1", (A1,))
    found.crash("W1")
    found.delete("A")
    assert found.settle()
    assert found.find_problems() == [G1_HELD]
    assert idles_with_deleted_units(found)
    found.start("W3")
    assert found.settle()
    assert (found.find_problems(), found.broken) == ([], [])


# -------------------------------------------------------------------------------------------------- protocols


def versions(found: Cluster) -> list[int]:
    """The versions of the rounds, each once where they repeat."""
    out: list[int] = []
    for each in found.rounds:
        out += [each.version] if out[-1:] != [each.version] else []
    return out


def migrated(first: str, bounces: tuple[str, ...]) -> Cluster:
    found = Cluster(ConnectConfig("g", first, profile=DOCUMENT, scheduled_rebalance_max_delay_ms=1_000))
    for name in INITIAL:
        found.start(name)
    found.run_for(10_000)
    found.create("A", tasks=2)
    found.create("B", tasks=1)
    found.settle()
    for protocol in bounces:
        for name in INITIAL:
            found.stop(name)
            found.run_for(10_000)
            found.start(name, protocol)
            assert found.settle()
    return found


def test_a_migration_in_one_bounce() -> None:
    """Shipped: eager to sessioned directly; the version steps up when the last eager worker is gone."""
    found = migrated("eager", ("sessioned",))
    assert versions(found) == [0, 2]
    assert (found.find_problems(), found.broken) == ([], [])


def test_a_migration_in_two_bounces() -> None:
    """The document: compatible everywhere, then cooperative everywhere; no worker is refused."""
    found = migrated("eager", ("compatible", "cooperative"))
    assert versions(found) == [0, 1, 2]
    assert all(p.herder for p in found.processes.values())
    assert (found.find_problems(), found.broken) == ([], [])


def test_a_cooperative_worker_is_refused_by_an_eager_group() -> None:
    """1.1: no protocol in common; the late one's herder ends, the others do not notice."""
    found = migrated("eager", ())
    generations = [r.generation for r in found.rounds]
    found.start("W4", "cooperative")
    found.run_for(30_000)
    assert found.processes["W4"].worker.state is State.DOWN
    assert not found.processes["W4"].herder
    assert [r.generation for r in found.rounds] == generations


def test_an_eager_worker_is_refused_by_a_cooperative_group() -> None:
    """1.1: the same the other way round, which is why the second bounce must not begin before the first has ended."""
    found = migrated("cooperative", ())
    found.start("W4", "eager")
    found.run_for(30_000)
    assert not found.processes["W4"].herder
    assert versions(found) == [2]
    assert (found.find_problems(), found.broken) == ([], [])


def test_one_compatible_worker_holds_a_sessioned_group_at_version_1() -> None:
    """The highest version that all have: it steps down with the worker's join and up when it has left."""
    found = migrated("sessioned", ())
    found.start("W4", "compatible")
    assert found.settle()
    found.stop("W4")
    assert found.settle()
    assert versions(found) == [2, 1, 2]
    assert (found.find_problems(), found.broken) == ([], [])


@pytest.mark.parametrize("protocol", ["compatible", "sessioned"])
def test_a_restart_within_the_delay_moves_no_unit_to_another_worker(protocol: str) -> None:
    """1.1, logs 8: while it is not the leader that is restarted, units come back to where they were."""
    found = Cluster(ConnectConfig("g", protocol))
    found.begin({"A": 2, "B": 1}, offset=5)
    for name, units in INITIAL.items():
        found.start(name, holding=units)
    assert found.settle()
    for name in ("W2", "W3"):
        found.bounce(name, away_ms=20_000)
        assert found.settle()
    assert {name: set(units) for name, units in found.assignments().items()} == {n: set(u) for n, u in INITIAL.items()}
    assert {(r.unit, r.worker) for r in found.ran} == {(u, name) for name, units in INITIAL.items() for u in units}


@PROFILES
def test_a_step_down_to_eager(profile: Profile) -> None:
    """W7, KAFKA-13816: as shipped, units that the eager leader moves run twice; mended in the document's profile."""
    found = cluster({"W1": (A, A0, A1, B, B0)}, profile)
    found.start("W2", "eager")
    found.run_for(30_000)
    assert found.rounds[-1].version == 0
    twice = {u for u in found.topic.units if sum(u in p.running for p in found.processes.values()) > 1}
    assert bool(twice) == (profile == SHIPPED)
    assert bool(found.broken) == (profile == SHIPPED)


def test_stimuli_that_make_no_sense_are_refused() -> None:
    """Starting who runs, stopping who does not, scaling what is not there."""
    found = Cluster(ConnectConfig("g"))
    found.start("W1")
    found.create("orders", tasks=1)
    with pytest.raises(InputError, match="W1 is running; stop it or let it crash first"):
        found.start("W1")
    with pytest.raises(InputError, match="no worker W2 is running; start it first"):
        found.stop("W2")
    for ask in (found.delete, found.stop_connector, found.pause, found.resume, found.reconfigure, found.restart):
        with pytest.raises(InputError, match=r"there is no connector order; did you mean orders\?"):
            ask("order")
    with pytest.raises(InputError, match="orders cannot have -1 tasks; 0 or more"):
        found.scale("orders", -1)
    assert found.topic.offset == 1


def test_a_round_says_what_each_worker_holds_after_it() -> None:
    """Under the eager protocol the assignment is everything, else it adds to what was kept."""
    seen = SeenRound(0, 1, "W1", 1, 0, 0, {"W1": (A, A0)}, {"W1": (B,)}, {"W1": (A0,)})
    assert seen.after("W1") == (A, B)
    assert seen._replace(version=0).after("W1") == (B,)
