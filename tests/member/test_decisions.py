"""Every decision of the consumer member: when it gives which event."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from member_values import changed

from fsm.member.consumer import decisions as decide
from fsm.member.consumer.state import Forgets, Member, Run, StaleRelease, new_member
from fsm.member.consumer.subscription import OWNS_NOTHING, Ownership, Subscription, SubscriptionType
from fsm.member.dialect.dialect import dialect
from fsm.member.events import GroupMembershipOperation
from fsm.protocol.assignment import NONE, LocalAssignment
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import DISCONNECTED, TIMED_OUT, UNSUPPORTED_VERSION, ConsumerGroupHeartbeatResponse
from fsm.tables.consumer_member import MEMBER, Event, State

S, E, Op = State, Event, GroupMembershipOperation
T0, T1 = (("t", 0),), (("t", 1),)
HELD, MORE = LocalAssignment(0, (("T", (0,)),)), LocalAssignment(1, (("T", (0, 1)),))
RUN = Run(MORE, (("t", 0), ("t", 1)), T1, ())
TELLING = {
    "subscription": Subscription(SubscriptionType.AUTO_TOPICS, ("t",), listener=True),
    "ownership": Ownership(T0),
}


def member(
    state: State, release: str = "4.4.0", *, static: bool = False, commits: bool = True, **fields: Any
) -> Member:
    config = ConsumerConfig("g", group_instance_id="i" if static else None, enable_auto_commit=commits)
    made = new_member(config, "M", dialect(release), 0)
    return changed(made, state=state, coordinator_known=True, poll_due_ms=1_000, **fields)


@pytest.mark.parametrize(
    ("static", "operation", "release", "epoch"),
    [
        (False, Op.DEFAULT, "4.4.0", -1),
        (True, Op.DEFAULT, "4.4.0", -2),
        (True, Op.LEAVE_GROUP, "4.4.0", -1),
        (True, Op.REMAIN_IN_GROUP, "4.4.0", -2),
        (False, Op.REMAIN_IN_GROUP, "4.4.0", -1),
        (True, Op.LEAVE_GROUP, "4.0.2", -2),
    ],
)
def test_leave_epoch(static: bool, operation: GroupMembershipOperation, release: str, epoch: int) -> None:
    """-2 keeps a static member's place unless it leaves for good; 4.0 knows no such wish."""
    assert decide.leave_epoch(member(S.LEAVING, release, static=static, operation=operation)) == epoch


@pytest.mark.parametrize(
    ("state", "static", "operation", "release", "leaving"),
    [
        (S.LEAVING, False, Op.DEFAULT, "4.4.0", True),
        (S.PREPARE_LEAVING, False, Op.REMAIN_IN_GROUP, "4.4.0", False),
        (S.PREPARE_LEAVING, True, Op.REMAIN_IN_GROUP, "4.4.0", True),
        (S.PREPARE_LEAVING, True, Op.REMAIN_IN_GROUP, "4.1.2", False),
        (S.PREPARE_LEAVING, False, Op.REMAIN_IN_GROUP, "4.0.0", True),
        (S.STABLE, False, Op.DEFAULT, "4.4.0", False),
    ],
)
def test_is_leaving(
    state: State, static: bool, operation: GroupMembershipOperation, release: str, leaving: bool
) -> None:
    """On its way out, and not closed to remain; 4.1 counted static members among those that remain."""
    assert decide.is_leaving(member(state, release, static=static, operation=operation)) is leaving


def test_flag_of_a_subscription() -> None:
    """A poll that sees the flag joins from UNSUBSCRIBED and loses it anywhere else; without it nothing happens."""
    assert decide.decide_flag(member(S.UNSUBSCRIBED)) is None
    assert decide.decide_flag(member(S.UNSUBSCRIBED, updated=True)) is E.POLL_JOIN
    others = {decide.decide_flag(member(s, updated=True)) for s in State if s is not S.UNSUBSCRIBED}
    assert others == {E.POLL_FLAG_LOST}


@pytest.mark.parametrize(
    ("state", "now_ms", "release", "event"),
    [
        (S.STABLE, 999, StaleRelease.NONE, None),
        (S.STABLE, 1_000, StaleRelease.NONE, E.POLL_LATE),
        (S.STALE, 999, StaleRelease.DONE, None),
        (S.STALE, 1_000, StaleRelease.DONE, E.POLL_LATE_RELEASED),
        (S.STALE, 1_000, StaleRelease.OPEN, E.POLL_LATE_PENDING),
        (S.STALE, 1_000, StaleRelease.REJOIN, E.POLL_LATE_PENDING),
    ],
)
def test_late_poll(state: State, now_ms: int, release: StaleRelease, event: Event | None) -> None:
    """A poll is late from the instant the poll timer runs out; in STALE it matters how far the release is."""
    assert decide.decide_late_poll(member(state, stale_release=release), now_ms) is event


def test_unsubscribe() -> None:
    """A member with partitions and a listener has to tell; one without either need not; others are no members."""
    for state in MEMBER:
        assert decide.decide_unsubscribe(member(state, **TELLING)) is E.UNSUBSCRIBE_CB
        nobody = {**TELLING, "subscription": Subscription(SubscriptionType.AUTO_TOPICS, ("t",))}
        assert decide.decide_unsubscribe(member(state, **nobody)) is E.UNSUBSCRIBE_NOCB
        nothing = {**TELLING, "ownership": OWNS_NOTHING}
        assert decide.decide_unsubscribe(member(state, **nothing)) is E.UNSUBSCRIBE_NOCB
    others = {decide.decide_unsubscribe(member(s, **TELLING)) for s in State if s not in MEMBER}
    assert others == {E.UNSUBSCRIBE}


@pytest.mark.parametrize("kind", list(SubscriptionType))
def test_apply_looks_at_the_subscription_alone(kind: SubscriptionType) -> None:
    """What the group assigns is applied in every state; what it does not assign is rejected."""
    wanted = E.APPLY_ASSIGNMENT if kind.name.startswith("AUTO") else E.APPLY_REJECTED
    assert {decide.decide_apply(member(s, subscription=Subscription(kind))) for s in State} == {wanted}


TICKS: list[tuple[State, dict[str, Any], int, Event]] = [
    (S.LEAVING, {"coordinator_known": False}, 0, E.LEAVE_SKIPPED),
    (S.STABLE, {"coordinator_known": False}, 5_000, E.TICK_SKIP),
    (S.STALE, {}, 5_000, E.TICK_SKIP),
    (S.STABLE, {}, 1_000, E.POLL_EXPIRED),
    (S.LEAVING, {}, 1_000, E.LEAVE_SENT),
    (S.LEAVING, {"operation": Op.REMAIN_IN_GROUP}, 1_000, E.POLL_EXPIRED),
    (S.LEAVING, {"heartbeat_in_flight": True}, 0, E.LEAVE_SENT),
    (S.LEAVING, {"heartbeat_in_flight": True, "operation": Op.REMAIN_IN_GROUP}, 0, E.HB_IDLE),
    (S.JOINING, {"heartbeat_due_ms": 900, "heartbeat_ready_ms": 900}, 0, E.HB_SENT),
    (S.JOINING, {"heartbeat_in_flight": True}, 0, E.HB_IDLE),
    (S.STABLE, {"heartbeat_due_ms": 900}, 899, E.HB_IDLE),
    (S.STABLE, {"heartbeat_due_ms": 900}, 900, E.HB_SENT),
    (S.STABLE, {"heartbeat_ready_ms": 900}, 899, E.HB_IDLE),
    (S.STABLE, {"heartbeat_in_flight": True}, 900, E.HB_IDLE),
    (S.PREPARE_LEAVING, {"heartbeat_due_ms": 900}, 5_000, E.HB_SENT),
    (S.ACKNOWLEDGING, {"target": HELD, "current": HELD, "heartbeat_due_ms": 900}, 0, E.ACK_SENT),
    (S.ACKNOWLEDGING, {"target": MORE, "current": HELD}, 0, E.ACK_SENT_TARGET_MOVED),
    (S.ACKNOWLEDGING, {"target": MORE, "current": HELD, "heartbeat_in_flight": True}, 900, E.HB_IDLE),
]


@pytest.mark.parametrize(("state", "fields", "now_ms", "event"), TICKS)
def test_tick(state: State, fields: dict[str, Any], now_ms: int, event: Event) -> None:
    """A tick is exactly one event, looked for in a fixed order."""
    fields = {"coordinator_known": True, **fields}
    assert decide.decide_tick(changed(member(state), **fields), now_ms) is event


def test_close_flush() -> None:
    """Only one who is on the way out sends a last heartbeat."""
    flushing = {s for s in State if decide.decide_close_flush(member(s)) is E.CLOSE_FLUSH_LEAVE}
    assert flushing == {S.PREPARE_LEAVING, S.LEAVING}
    assert decide.decide_close_flush(member(S.LEAVING, operation=Op.REMAIN_IN_GROUP)) is None


@pytest.mark.parametrize(
    ("state", "fields", "release", "answer", "event"),
    [
        (S.UNSUBSCRIBED, {"calls": ()}, "4.4.0", (-1, None), E.RESP_LEAVE_DONE),
        (S.UNSUBSCRIBED, {"calls": ()}, "4.4.0", (3, None), E.RESP_EPOCH),
        (S.UNSUBSCRIBED, {"calls": ()}, "4.0.0", (3, None), E.RESP_LEAVE_DONE),
        (S.UNSUBSCRIBED, {}, "4.4.0", (-1, None), E.RESP_NEGATIVE),
        (S.JOINING, {}, "4.4.0", (-2, None), E.RESP_NEGATIVE),
        (S.JOINING, {}, "4.0.0", (-1, None), E.RESP_EPOCH),
        (S.STABLE, {}, "4.4.0", (3, None), E.RESP_EPOCH),
        (S.STABLE, {"target": HELD, "current": HELD}, "4.4.0", (3, HELD.partitions), E.RESP_SAME),
        (S.STABLE, {"target": HELD, "current": HELD}, "4.4.0", (3, ()), E.RESP_NEW),
        (S.JOINING, {}, "4.4.0", (3, ()), E.RESP_NEW),
        (S.RECONCILING, {"target": MORE, "current": HELD}, "4.4.0", (3, HELD.partitions), E.RESP_NEW),
    ],
)
def test_response(state: State, fields: dict[str, Any], release: str, answer: Any, event: Event) -> None:
    """By its epoch, its assignment, and whether that leaves the target where the member is; 4.0 ends leaves early."""
    epoch, assignment = answer
    response = ConsumerGroupHeartbeatResponse(epoch, 1_000, assignment)
    assert decide.decide_response(member(state, release, **fields), response) is event


@pytest.mark.parametrize(
    ("code", "event"),
    [
        (ErrorCode.NOT_COORDINATOR, E.ERR_RETRY),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, E.ERR_RETRY),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, E.ERR_RETRY),
        (ErrorCode.FENCED_MEMBER_EPOCH, E.ERR_FENCE),
        (ErrorCode.UNKNOWN_MEMBER_ID, E.ERR_FENCE),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, E.ERR_TOPIC_AUTH),
        (ErrorCode.GROUP_ID_NOT_FOUND, E.ERR_FATAL),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, E.ERR_FATAL),
        (ErrorCode.INVALID_REQUEST, E.ERR_FATAL),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, E.ERR_FATAL),
        (ErrorCode.UNSUPPORTED_ASSIGNOR, E.ERR_FATAL),
        (ErrorCode.INVALID_REGULAR_EXPRESSION, E.ERR_FATAL),
        (ErrorCode.UNSUPPORTED_VERSION, E.ERR_FATAL),
        (ErrorCode.UNRELEASED_INSTANCE_ID, E.ERR_FATAL),
        (ErrorCode.FENCED_INSTANCE_ID, E.ERR_FATAL),
        (ErrorCode.UNKNOWN_SERVER_ERROR, E.ERR_FATAL),
    ],
)
def test_error_of_a_member(code: ErrorCode, event: Event) -> None:
    """Retried, fencing, shown, or fatal; whatever is not named is fatal."""
    assert {decide.decide_error(member(s), code) for s in MEMBER} == {event}


@pytest.mark.parametrize(
    ("release", "leave", "code", "event"),
    [
        ("4.4.0", None, ErrorCode.GROUP_ID_NOT_FOUND, E.ERR_RETRY),
        ("4.2.1", None, ErrorCode.GROUP_ID_NOT_FOUND, E.ERR_RETRY),
        ("4.2.0", None, ErrorCode.GROUP_ID_NOT_FOUND, E.ERR_FATAL_LATE),
        ("4.4.0", (), ErrorCode.INVALID_REQUEST, E.ERR_FATAL),
        ("4.4.0", None, ErrorCode.INVALID_REQUEST, E.ERR_FATAL_LATE),
        ("4.0.2", None, ErrorCode.INVALID_REQUEST, E.ERR_FATAL),
    ],
)
def test_error_after_the_leave(release: str, leave: Any, code: ErrorCode, event: Event) -> None:
    """Out of the group, a group that is gone is no error since 4.2.1, and a fatal error may come too late."""
    assert decide.decide_error(member(S.UNSUBSCRIBED, release, calls=leave), code) is event


def test_failure_of_the_transport() -> None:
    """What passes is tried again; what does not is fatal."""
    assert decide.decide_failure(member(S.STABLE), DISCONNECTED) is E.ERR_RETRY
    assert decide.decide_failure(member(S.STABLE), TIMED_OUT) is E.ERR_RETRY
    assert decide.decide_failure(member(S.STABLE), UNSUPPORTED_VERSION) is E.ERR_FATAL
    assert decide.decide_failure(member(S.UNSUBSCRIBED), UNSUPPORTED_VERSION) is E.ERR_FATAL_LATE


def test_what_a_failure_says_of_the_coordinator() -> None:
    """The wrong coordinator is forgotten, a lost connection too; one that loads is where it was."""
    assert decide.read_error(ErrorCode.NOT_COORDINATOR, None).forgets is Forgets.COORDINATOR
    assert decide.read_error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None).forgets is Forgets.NOTHING
    assert decide.read_failure(DISCONNECTED).forgets is Forgets.CONNECTION
    assert decide.read_failure(TIMED_OUT).forgets is Forgets.NOTHING


def test_unknown_version_is_explained() -> None:
    """Whether the client or the coordinator finds out, the error says what to do; the coordinator's words go first."""
    for error in (
        decide.read_failure(UNSUPPORTED_VERSION).error,
        decide.read_error(ErrorCode.UNSUPPORTED_VERSION, None).error,
    ):
        assert error.message.endswith("a member of the classic protocol may join")
    assert decide.read_error(ErrorCode.UNSUPPORTED_VERSION, "too new").error.message == "too new"


def test_invalid_pattern_is_explained() -> None:
    """The broker's words about a pattern follow a sentence on where it comes from."""
    error = decide.read_error(ErrorCode.INVALID_REGULAR_EXPRESSION, "missing )").error
    assert error.message.startswith("The coordinator cannot read the regular expression given to subscribe(). ")
    assert error.message.endswith("missing )")


PART = LocalAssignment(1, HELD.partitions)


def attempted(resolved: LocalAssignment, *, revokes: bool = False) -> Run:
    return Run(resolved, (), (), T0 if revokes else ())


ATTEMPTS: list[tuple[dict[str, Any], LocalAssignment | None, bool, bool, Event]] = [
    ({"target": HELD, "current": HELD}, None, False, True, E.REC_NONE),
    ({"target": MORE, "current": HELD, "run": RUN}, None, False, True, E.REC_BUSY),
    ({"target": MORE, "current": PART}, PART, False, True, E.REC_WAITING),
    ({"target": MORE, "current": HELD}, PART, False, False, E.REC_PARTIAL_ACK),
    ({"target": MORE, "current": NONE}, LocalAssignment(1, ()), False, True, E.REC_START),
    ({"target": MORE, "current": HELD}, MORE, False, False, E.REC_DEFERRED),
    ({"target": MORE, "current": HELD}, MORE, False, True, E.REC_START),
]


@pytest.mark.parametrize(("fields", "resolved", "revokes", "can_commit", "event"), ATTEMPTS)
def test_attempt(
    fields: dict[str, Any], resolved: LocalAssignment | None, revokes: bool, can_commit: bool, event: Event
) -> None:
    """An attempt to reconcile is one event, looked for in a fixed order."""
    reconciling = member(S.RECONCILING, **fields)
    run = None if resolved is None else attempted(resolved, revokes=revokes)
    assert decide.decide_reconciliation(reconciling, run, can_commit=can_commit) is event


@pytest.mark.parametrize(
    ("release", "commits", "revokes", "event"),
    [
        ("4.4.0", False, False, E.REC_START),
        ("4.4.0", False, True, E.REC_DEFERRED),
        ("4.2.0", False, True, E.REC_START),
        ("4.2.1", False, True, E.REC_DEFERRED),
        ("4.0.0", True, False, E.REC_DEFERRED),
    ],
)
def test_attempt_of_a_tick(release: str, commits: bool, revokes: bool, event: Event) -> None:
    """Outside a poll nothing is committed, and since 4.2.1 nothing is revoked."""
    reconciling = member(S.RECONCILING, release, commits=commits, target=MORE, current=HELD)
    assert decide.decide_reconciliation(reconciling, attempted(MORE, revokes=revokes), can_commit=False) is event


def test_partial_acknowledgement_is_repeated_before_4_4() -> None:
    """What is acknowledged under the target's local epoch already is acknowledged again and again."""
    waiting = {"target": MORE, "current": PART}
    older = member(S.RECONCILING, "4.3.1", **waiting)
    assert decide.decide_reconciliation(older, attempted(PART), can_commit=False) is E.REC_PARTIAL_ACK


def test_end_of_the_commit() -> None:
    """A revocation is told where there is a listener and something owned; else the run goes on to assign."""
    revoking = replace(RUN, revoked=T0)
    telling = member(S.RECONCILING, **TELLING)
    assert decide.decide_commit_done(telling, revoking) is E.COMMIT_DONE_REVOKE
    assert decide.decide_commit_done(telling, RUN) is E.COMMIT_DONE_ASSIGN
    silent = changed(telling, subscription=Subscription(SubscriptionType.AUTO_TOPICS, ("t",)))
    assert decide.decide_commit_done(silent, revoking) is E.COMMIT_DONE_ASSIGN
    gone = changed(telling, ownership=Ownership(T1))
    assert decide.decide_commit_done(gone, revoking) is E.COMMIT_DONE_ASSIGN
    assert decide.decide_commit_done(telling, replace(revoking, rejoined=True)) is E.RUN_STEP_STALE
    assert decide.decide_commit_done(member(S.FENCED), revoking) is E.RUN_STEP_STALE


def test_end_of_a_callback_of_a_run() -> None:
    """An error fails the run wherever the member is; without one, only a current run goes on."""
    here = member(S.RECONCILING)
    assert decide.decide_run_step(here, RUN, E.REVOKED_OK, None) is E.REVOKED_OK
    assert decide.decide_run_step(here, RUN, E.ASSIGNED_OK, "threw") is E.RUN_FAILED
    assert decide.decide_run_step(here, replace(RUN, rejoined=True), E.ASSIGNED_OK, None) is E.RUN_STEP_STALE
    assert decide.decide_run_step(member(S.JOINING), RUN, E.ASSIGNED_OK, None) is E.RUN_STEP_STALE
    assert decide.decide_run_step(member(S.JOINING), RUN, E.ASSIGNED_OK, "threw") is E.RUN_FAILED


def test_end_of_a_stale_release() -> None:
    """Whether a late poll has asked to rejoin."""
    assert decide.decide_stale_done(member(S.STALE, stale_release=StaleRelease.OPEN)) is E.LOST_DONE_STALE
    rejoin = member(S.STALE, stale_release=StaleRelease.REJOIN)
    assert decide.decide_stale_done(rejoin) is E.LOST_DONE_STALE_REJOIN
