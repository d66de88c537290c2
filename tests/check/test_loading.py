"""A coordinator that loads its log after a take-over: it refuses requests for any time, and no timer of it runs."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from models import classic_group, connect, consumer_group, mixed_group, replayed

from fsm.check import Model, Walk, check
from fsm.check.kafka.application import NOW
from fsm.check.kafka.consumer.coordinator import FAILS_OVER, LOADED, CoordinatorModel, refuse
from fsm.check.search import Search
from fsm.check.verdict import states_on
from fsm.coordinator.model.context import Context
from fsm.member.consumer import decisions
from fsm.protocol import messages as m
from fsm.protocol.error_codes import ErrorCode

FIXED_BROKER = {"coordinator": "fixed"}
FIXED = {"client": "fixed", **FIXED_BROKER}
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
SYNC = ("loading",)
"""The hazard of a SyncGroup that comes to a coordinator that loads."""
choices = CoordinatorModel.choices
CASES: list[Any] = [
    (consumer_group, {"members": 1}, "failover", (), (86, 168)),
    (consumer_group, {"members": 1, "search": True}, "move", (), (122, 238)),
    pytest.param(consumer_group, FIXED, "failover", (), (41_011, 141_356), marks=pytest.mark.deep),
    pytest.param(consumer_group, {**FIXED, "search": True}, "move", (), (94_417, 321_050), marks=pytest.mark.deep),
    (classic_group, {"members": 1, "commits": True}, "failover", SYNC, (105, 191)),
    (classic_group, {"members": 1, "search": True}, "move", (), (182, 332)),
    pytest.param(classic_group, {"search": True}, "move", (), (64_618, 196_772), marks=pytest.mark.deep),
    pytest.param(classic_group, {}, "failover", SYNC, (27_180, 78_986), marks=pytest.mark.deep),
    pytest.param(classic_group, FIXED_BROKER, "failover", (), (46_628, 138_334), marks=pytest.mark.deep),
    pytest.param(
        classic_group, {"protocol": "cooperative"}, "failover_losing", SYNC, (88_467, 261_433), marks=pytest.mark.deep
    ),
    pytest.param(
        classic_group, {"compaction": True}, "failover_compacted", SYNC, (27_180, 80_525), marks=pytest.mark.deep
    ),
    pytest.param(
        mixed_group, {**FIXED, "topics": {"foo": 1}}, "failover", (), (36_929, 120_593), marks=pytest.mark.deep
    ),
    (connect, {"settled": True}, "failover", (), (27, 72)),
    pytest.param(connect, FIXED_BROKER, "failover", (), (115_225, 334_102), marks=pytest.mark.deep),
]


@pytest.mark.parametrize(("make", "options", "kind", "known", "size"), CASES)
def test_groups_settle_though_their_coordinator_loads(
    make: Any, options: dict[str, Any], kind: str, known: tuple[str, ...], size: tuple[int, int]
) -> None:
    """But for a SyncGroup to a broker that loads anew and is not `fixed`; live objects take any path."""
    search = Search(make(**options, loading=True), frozenset({kind}), 1, known, every=True).run()
    assert (search.found, (search.states.size, search.transitions)) == ({}, size)
    last = states_on(search, search.states.size - 1)
    assert LOADED in [action.what for action, _ in last]
    assert not any(one.differs for one in replayed(search, 15))


@pytest.mark.usefixtures("timed")
@pytest.mark.parametrize(
    ("make", "options", "broken", "steps"),
    [
        (classic_group, {"members": 1}, "no error ends an application", 13),
        pytest.param(
            classic_group, {"protocol": "cooperative"}, "no error ends an application", 13, marks=pytest.mark.deep
        ),
        (connect, {"connectors": {"A": 1}, "members": 1}, "no error ends a worker", 12),
    ],
)
def test_a_client_is_ended_by_the_answer_to_its_sync(
    make: Any, options: dict[str, Any], broken: str, steps: int
) -> None:
    """COORDINATOR_LOAD_IN_PROGRESS, which AbstractCoordinator's SyncGroupResponseHandler of 4.4 does not expect."""
    model, given = make(**options, loading=True), {"disturb": ["failover"], "disturbances": 1}
    found, *_ = check(model, **given).violations
    assert (found.property, len(found.path)) == (broken, steps)
    assert LOADING.name in {step.message for step in found.path}
    assert found.replayed is not None
    assert (found.replayed.differs, len(found.replayed.times_ms)) == ("", steps)
    assert check(model, **given, known=SYNC).word == "holds"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "consumers", "classic"),
    [
        ("close", 763_783, 573_769),
        ("commit_sync", 317_529, 264_462),
        ("crash", 172_618, 306_810),
        ("late", 752_365, 688_426),
        ("lose", 494_047, 343_688),
        ("unanswered", 514_161, 480_527),
    ],
)
def test_a_second_disturbance_breaks_nothing(kind: str, consumers: int, classic: int) -> None:
    """Before the coordinator loads its log, meanwhile or after."""
    given: dict[str, Any] = {"disturb": ["failover", kind], "disturbances": 2, "every": True}
    found = check(consumer_group(**FIXED, topics={"foo": 1}, commits=True, loading=True), **given)
    assert (found.word, found.states) == ("holds", consumers)
    known = ["interrupted", "late_join", *SYNC]
    found = check(classic_group(**FIXED, commits=True, loading=True), **given, known=known)
    assert (found.word, found.states) == ("holds", classic)


def one_member() -> Model:
    return consumer_group(members=1, topics={"foo": 1}, loading=True)


def lasting(model: Model) -> dict[str, int]:
    """The disturbances of each violation after a failover."""
    verdict = check(model, disturb=["failover"], disturbances=1, every=True)
    return {one.property: one.disturbances for one in verdict.violations}


def test_a_member_that_takes_the_error_for_fatal_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lasting(one_member()) == {}
    monkeypatch.delitem(decisions.RETRIED, LOADING)
    assert lasting(one_member())["no error ends an application"] == 1


def test_a_group_does_not_settle_if_its_log_is_never_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The member asks again and again: nothing but the end of the load lets its group settle."""
    monkeypatch.setattr(CoordinatorModel, "choices", lambda self, at: () if at.loading else choices(self, at))
    assert lasting(one_member())["the group settles"] == 1


def test_no_timer_runs_while_the_log_is_loaded() -> None:
    """A session may expire before and after it."""
    walk = Walk(one_member())
    for step in ("a subscribes", "a polls", "broker receives from a: joins, owns nothing"):
        walk.take(step)
    expires = "session of a expires"

    def of_broker() -> list[str]:
        return [one.action for one in walk.options() if one.actor == "broker" and not one.sender]

    assert of_broker() == [expires, FAILS_OVER]
    walk.take(f"broker {FAILS_OVER}")
    assert of_broker() == [LOADED]  # another take-over changes nothing
    assert walk.state()["broker"].endswith("; still loads")
    walk.take(f"broker {LOADED}")
    assert of_broker() == [expires, FAILS_OVER]


class Order(NamedTuple):
    """A request as a client sends it."""

    body: Any


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (m.ConsumerGroupHeartbeatRequest("g", "a", 1), LOADING),
        (m.JoinGroupRequest("g", 10_000, 10_000), LOADING),
        (m.SyncGroupRequest("g", 1, "a"), LOADING),
        (m.LeaveGroupRequest("g"), LOADING),
        (m.HeartbeatRequest("g", 1, "a"), ErrorCode.NONE),
    ],
    ids=lambda given: type(given).__name__,
)
def test_it_answers_as_kafka_does(body: Any, code: ErrorCode) -> None:
    """`GroupCoordinatorService`: every request is refused, but a heartbeat, which gets no error."""
    context = Context(NOW)
    assert refuse(Order(body), LOADING, context).error_code is code
    assert refuse(Order(body), ErrorCode.NOT_COORDINATOR, context).error_code is ErrorCode.NOT_COORDINATOR
