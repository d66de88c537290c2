"""Connect clusters: how many states there are, what holds of them, and that each question can fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from models import connect, replayed

from fsm.check import Limits, Memo, Property, Verdict, check
from fsm.check.kafka.classic.promises import LEADER_STAYS
from fsm.check.kafka.connect import cluster as model_of_clusters
from fsm.check.kafka.connect.process import FEW_ROUNDS
from fsm.check.search import Search
from fsm.connect.assignor import incremental
from fsm.connect.dialect import Profile
from fsm.connect.units import Unit, Units, UnitsByWorker, without
from fsm.connect.worker.effects import WorkerDraft
from fsm.connect.worker.inputs import StartUnits, StopUnits
from fsm.coordinator.classic.draft import ClassicGroupDraft
from fsm.errors import InputError
from fsm.tables.classic_group import Effect as GroupEffect
from fsm.tables.connect_worker import Effect
from fsm.trace import Kind, from_json

KNOWN = ("zombie",)
PLACE = incremental.place


@pytest.mark.parametrize(
    ("options", "kinds", "states", "transitions"),
    [
        ({}, (), 3_455, 9_700),
        ({"protocol": "eager"}, (), 1_489, 4_120),
        ({"connectors": {"A": 1}}, (), 1_829, 5_130),
        pytest.param({}, ("crash",), 20_883, 65_016, marks=pytest.mark.deep),
        pytest.param({"connectors": {"A": 1}}, ("leave", "unanswered"), 52_612, 169_910, marks=pytest.mark.deep),
    ],
)
@pytest.mark.loop(2)
def test_clusters_have_so_many_states(options: dict, kinds: tuple[str, ...], states: int, transitions: int) -> None:
    """Whoever changes a worker's or the coordinator's behaviour sees it here."""
    found = Search(connect(**options), frozenset(kinds), int(bool(kinds)), KNOWN, every=True).run()
    assert (found.states.size, found.transitions, found.found) == (states, transitions, {})


@pytest.mark.parametrize(
    ("options", "kinds", "states"),
    [
        ({"settled": True}, ("crash", "failover", "late", "lose", "unanswered"), 212),
        ({"connectors": {"A": 1}}, ("crash",), 9_725),
    ],
)
@pytest.mark.loop(1)
def test_a_cluster_settles_again(options: dict, kinds: tuple[str, ...], states: int) -> None:
    """What a worker leaves behind that is gone comes to run elsewhere, too."""
    found = check(connect(**options), disturb=kinds, disturbances=1, known=KNOWN, every=True)
    assert (found.word, found.states) == ("holds", states)


@pytest.mark.deep
@pytest.mark.parametrize("protocol", ["eager", "sessioned"])
@pytest.mark.parametrize(
    "kinds",
    [("crash", "failover", "late", "lose", "unanswered"), ("expire", "poll_timeout", "rebalance_timeout")],
)
def test_a_cluster_is_safe_and_settles(protocol: str, kinds: tuple[str, ...]) -> None:
    """Whatever happens while it begins."""
    model = connect(connectors={"A": 1}, protocol=protocol)
    assert check(model, disturb=kinds, disturbances=1, known=KNOWN, every=True).word == "holds"


@pytest.mark.slow
def test_a_bounced_worker_or_leader_comes_back_to_work() -> None:
    found = check(connect(), disturb=["bounce"], disturbances=1, known=KNOWN, every=True)
    assert (found.word, found.states) == ("holds", 1_007_605)


def test_lost_units_wait_for_the_delay() -> None:
    """A leader remembers a delay once a worker is gone that had units, and only then."""
    idle = Property("nobody waits", lambda view: view.of("b", "remembers") == 0)
    model = replace(connect(connectors={"A": 1}), properties=[idle], goal=None)
    assert check(model).word == "holds"
    (found,) = check(model, disturb=["crash"], disturbances=1).violations
    assert [step.action for step in found.path if step.disturbance] == ["is killed"]


@pytest.mark.slow
def test_a_cluster_follows_its_config_topic() -> None:
    found = check(connect(), disturb=["config"], disturbances=1, every=True)
    assert (found.word, found.states) == ("holds", 344_297)


@pytest.mark.parametrize(
    ("kinds", "many", "states"),
    [
        pytest.param(("config",), 1, 14_632, marks=pytest.mark.deep),
        (("connector_paused", "connector_resumed"), 2, 126),
        (("connector_restarted",), 1, 84),
        pytest.param(("connector_stopped",), 1, 10_372, marks=pytest.mark.deep),
        (("freeze",), 1, 2_994),
    ],
)
@pytest.mark.loop(1)
def test_a_settled_cluster_takes_what_its_users_ask_for(kinds: tuple[str, ...], many: int, states: int) -> None:
    found = check(connect(settled=True), disturb=kinds, disturbances=many, known=KNOWN, every=True)
    assert (found.word, found.states) == ("holds", states)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "states", "rounds"), [("freeze", 410_258, 0), ("connector_paused", 305_280, 9_064), ("expire", 202_771, 0)]
)
def test_a_cluster_takes_one_disturbance_while_it_begins(kind: str, states: int, rounds: int) -> None:
    found = check(connect(), disturb=[kind], disturbances=1, known=["rounds", "zombie"], every=True)
    assert (found.word, found.states, found.cut["rounds"]) == ("holds", states, rounds)


@pytest.mark.slow
def test_a_connector_goes_on_after_a_stop() -> None:
    """Its tasks are written anew by the leader, and come to run; while one is behind, round follows round."""
    kinds = ["connector_stopped", "connector_resumed"]
    found = check(connect(settled=True), disturb=kinds, disturbances=2, known=["rounds"], every=True)
    assert (found.word, found.states, found.cut) == ("holds", 724_416, {"rounds": 13_469})


@pytest.mark.parametrize(
    ("scenario", "states"), [pytest.param("worker_leaves", 21_427, marks=pytest.mark.deep), ("leader_leaves", 3_068)]
)
def test_scenarios_end_well(scenario: str, states: int) -> None:
    """Of KIP-415: three workers that have settled."""
    found = check(connect(scenario=scenario), every=True)
    assert (found.word, found.states) == ("holds", states)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "profile", "states"),
    [
        ("non_first_new_member_joins", "shipped", 777_513),
        ("worker_bounces", "shipped", 789_691),
        ("leader_bounces", "shipped", 5_334_155),
        ("non_first_new_member_joins", "document", 1_053_256),
        ("worker_leaves", "document", 21_075),
        ("worker_bounces", "document", 881_657),
        ("leader_leaves", "document", 3_068),
    ],
)
def test_long_scenarios_end_well(scenario: str, profile: str, states: int) -> None:
    found = check(connect(scenario=scenario, profile=profile), every=True)
    assert (found.word, found.states) == ("holds", states)


@pytest.mark.parametrize(
    ("options", "kinds", "many"),
    [
        ({"connectors": {"A": 1}}, ("bounce", "crash", "late"), 1),
        pytest.param({}, ("config", "failover", "expire", "slow_read"), 2, marks=pytest.mark.deep),
        pytest.param({"protocol": "eager"}, ("leave", "unanswered"), 1, marks=pytest.mark.deep),
        pytest.param(
            {"settled": True},
            ("freeze", "connector_stopped", "connector_resumed", "connector_restarted"),
            3,
            marks=pytest.mark.deep,
        ),
        pytest.param({"scenario": "worker_bounces"}, (), 0, marks=pytest.mark.deep),
    ],
)
def test_paths_are_taken_by_live_objects_too(options: dict, kinds: tuple[str, ...], many: int) -> None:
    search = Search(connect(**options), frozenset(kinds), many, every=True, limits=Limits(6_000)).run()
    assert not any(one.differs for one in replayed(search, 30))


# Each question can fail


def broken(verdict: Verdict) -> set[str]:
    assert not any(one.replayed and one.replayed.differs for one in verdict.violations)
    return {one.property for one in verdict.violations}


@pytest.mark.deep
@pytest.mark.usefixtures("timed")
def test_a_worker_that_lost_its_membership_runs_what_is_anothers() -> None:
    """It goes on until it has settled again: a zombie, by the reference; it is in good standing before.

    Its own session timer, from the answer to its join on, would run out before the coordinator's, from its sync on.
    """
    verdict = check(connect(connectors={"A": 1}), disturb=["expire"], disturbances=1, every=True)
    assert broken(verdict) == {"no connector or task runs twice"}
    (found,) = verdict.violations
    assert (len(found.path), found.hazards) == (36, ("zombie",))
    assert found.replayed is not None
    assert "a: session, 10000 ms from step 15 on, still runs at step 21" in found.replayed.untimed
    assert "broker: session of a0 expires, 10000 ms from step 17 on, is over at step 21" in found.replayed.untimed


@pytest.mark.deep
def test_a_worker_that_stood_still_runs_what_is_anothers() -> None:
    """Its session was over, its units were given away, and it goes on."""
    verdict = check(connect(settled=True), disturb=["freeze"], disturbances=1, every=True)
    assert broken(verdict) == {"no connector or task runs twice"}
    (found,) = verdict.violations
    assert (len(found.path), found.hazards) == (23, ("zombie",))


@pytest.mark.deep
@pytest.mark.usefixtures("timed")
def test_deleted_units_run_on_where_their_leader_goes(tmp_path: Path) -> None:
    """What is deleted is taken as a difference to what the leader remembers: a new one remembers nothing."""
    asked = partial(check, disturb=["config", "crash"], disturbances=2, every=True, memo=Memo(tmp_path, "settled"))
    verdict = asked(connect(settled=True), known=KNOWN)
    assert broken(verdict) == {"the cluster settles"}
    (found,) = verdict.violations
    assert [step.action for step in found.path if step.disturbance] == ["deletes A", "is killed"]
    assert found.doomed_at == 4
    assert found.replayed is not None
    records = [from_json(line) for line in found.replayed.trace]
    targets = [one.full for one in records if one.client_id == "connect-b" and one.kind is Kind.TARGET]
    assert (targets[-1], records[-1].kind) == ((("A", 1),), Kind.HEARTBEAT_OK)
    known = asked(connect(settled=True), known=["deleted"])
    assert (known.word, known.cut) == ("holds", {"deleted": 315})


@pytest.mark.deep
def test_tasks_that_keep_their_old_configs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WorkerDraft.methods, Effect.STOP_RECONFIGURED_TASKS, lambda _: None)
    assert broken(check(connect(settled=True), disturb=["config"], disturbances=1, every=True)) == {
        "the cluster settles"
    }


def test_a_worker_that_does_not_stop_what_is_taken_away_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WorkerDraft.methods, Effect.STOP_REVOKED, lambda draft: draft._stop((), wait=True))
    assert broken(check(connect(), every=True)) >= {"no connector or task runs twice", "W2 stops come before starts"}


@pytest.mark.deep
def test_lost_units_that_nobody_comes_back_for_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(draft: WorkerDraft) -> None:
        draft.deadline_ms = draft.incoming = None

    monkeypatch.setitem(WorkerDraft.methods, Effect.SET_DEADLINE, forget)
    verdict = check(connect(connectors={"A": 1}), disturb=["crash"], disturbances=1, every=True)
    assert broken(verdict) == {"the cluster settles"}


def test_a_worker_that_is_refused_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(model_of_clusters.CLASSIC_SETTINGS, group_max_size=1)
    monkeypatch.setattr(model_of_clusters, "CLASSIC_SETTINGS", settings)
    assert "no error ends a worker" in broken(check(connect(), every=True))


def lose_the_last(loads: UnitsByWorker, units: Iterable[Unit], profile: Profile) -> dict[str, Units]:
    """Places all of the units but one."""
    return PLACE(loads, tuple(units)[:-1], profile)


def move_on(_configured: object, loads: UnitsByWorker, *_: object) -> dict[str, Units]:
    """Takes a unit from whoever has one, though all is in balance."""
    return {worker: units[:1] for worker, units in loads.items()}


def let_another_one_lead(draft: ClassicGroupDraft) -> None:
    draft.leader = next((i for i in draft.delayed_joins if i != draft.leader), draft.leader)


def stop_before_a_join(draft: WorkerDraft) -> None:
    draft.effects.append(StopUnits(draft.holds))


def start_what_is_held(draft: WorkerDraft) -> None:
    draft.effects.append(StartUnits(without(draft.holds, draft.running)))


MIXED = {"protocol": "sessioned,eager", "profile": "document"}


@pytest.mark.parametrize(
    ("plant", "options", "asked"),
    [
        (lambda patch: patch.setattr(incremental, "place", lose_the_last), {}, "G2 nothing is lost"),
        pytest.param(
            lambda patch: patch.setattr(incremental, "find_excess", move_on),
            {"delay": 0},
            FEW_ROUNDS,
            marks=pytest.mark.deep,
        ),
        pytest.param(
            lambda patch: patch.setitem(ClassicGroupDraft.methods, GroupEffect.ELECT_LEADER, let_another_one_lead),
            {},
            LEADER_STAYS,
            marks=pytest.mark.deep,
        ),
        pytest.param(
            lambda patch: patch.setitem(WorkerDraft.methods, Effect.DROP_LEADER_STATE, stop_before_a_join),
            {},
            "W5 between rounds nothing starts or stops by itself",
            marks=pytest.mark.deep,
        ),
        (
            lambda patch: patch.setitem(WorkerDraft.methods, Effect.START_ASSIGNED, start_what_is_held),
            MIXED,
            "W7 after an eager round nothing runs that is not held",
        ),
    ],
    ids=["G2", "G3", "G6", "W5", "W7"],
)
@pytest.mark.loop(1)
def test_a_promise_that_is_not_kept_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], options: dict, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G5 is of the coordinator's group: its leader is a member, and all support its protocol."""
    limits = Limits(max_states=20_000)
    assert asked not in broken(check(connect(**options), properties=[asked], limits=limits))
    plant(monkeypatch)
    assert broken(check(connect(**options), properties=[asked], limits=limits)) == {asked}


def test_a_change_that_waited_for_a_join_is_carried_out_once_that_has_failed() -> None:
    """Tasks stop then for their new configs, and not by themselves (W5)."""
    asked = "W5 between rounds nothing starts or stops by itself"
    known, limits = ("deleted", "rounds", "zombie"), Limits(max_states=20_000)
    lost = check(
        connect(settled=True),
        disturb=["config", "lose"],
        disturbances=2,
        known=known,
        properties=[asked],
        limits=limits,
    )
    assert broken(lost) == set()


@pytest.mark.parametrize(
    ("profile", "users"),
    [
        ("shipped", {"no connector or task runs twice", "the cluster settles"}),
        ("document", {"no connector or task runs twice"}),
    ],
)
@pytest.mark.loop(1)
def test_a_step_down_to_eager_leaves_units_that_run_twice(profile: str, users: set[str]) -> None:
    """KAFKA-13816: until the worker that held them has its sync, and in the shipped profile for good."""
    verdict = check(connect(protocol="sessioned,eager", profile=profile), every=True)
    assert (broken(verdict), verdict.states) == (users, 1_659)
    assert {one.doomed_at or len(one.path) for one in verdict.violations} <= {11, 28}


def test_unusable_questions_are_refused() -> None:
    with pytest.raises(InputError, match="choose from eager, compatible, sessioned"):
        connect(protocol="cooperative")
    with pytest.raises(InputError, match="3 protocols for 2 workers"):
        connect(protocol="eager,sessioned,eager")
    with pytest.raises(InputError, match="give 1 to 6"):
        connect(9)
    with pytest.raises(InputError, match="choose from non_first_new_member_joins, worker_leaves"):
        connect(scenario="a_worker_leaves")
    with pytest.raises(InputError, match="choose from shipped, document"):
        connect(profile="kip")
