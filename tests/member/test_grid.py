"""Every cell of the consumer member's table, reached through `step`: the decision, the way it goes, where it ends.

For each event there is one input that brings it about, and what a member must be like for it. The table is the
oracle: what a step goes through is the path of its cell, and every cell has its test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from member_values import changed

from fsm.errors import LocalProtocolError
from fsm.member.consumer.state import (
    AutoCommit,
    Awaited,
    Commit,
    Member,
    Origin,
    Run,
    Settings,
    StaleRelease,
    new_member,
)
from fsm.member.consumer.step import MemberDraft, step
from fsm.member.consumer.subscription import OWNS_NOTHING, Ownership, Subscription, SubscriptionType
from fsm.member.dialect.dialect import dialect
from fsm.member.effects import Purpose, Transition, UnsentRequest
from fsm.member.events import (
    ApplyAssignmentEvent,
    AsyncPollEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    GroupMembershipOperation,
    LeaveGroupOnCloseEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.member.inputs import Answered, CloseFlush, MemberInput, Tick
from fsm.protocol.assignment import NONE, LocalAssignment, TopicNames
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, OffsetCommitResponse
from fsm.tables.consumer_member import TABLE, Effect, Event, State

S, E = State, Event
LATER = 1_000_000
T0 = (("t", 0),)
HELD, MORE = LocalAssignment(0, (("T", (0,)),)), LocalAssignment(1, (("T", (0, 1)),))
EPOCHS = {S.UNSUBSCRIBED: -1, S.JOINING: 0, S.FENCED: 0, S.LEAVING: -1, S.STALE: -1}
MANUAL = Subscription(SubscriptionType.USER_ASSIGNED)
RUN = Run(MORE, (("t", 0), ("t", 1)), (("t", 1),), ())
REVOKING = Run(LocalAssignment(1, ()), (), (), T0)
REMAIN = GroupMembershipOperation.REMAIN_IN_GROUP
UNNAMED = (("T", (0,)), ("X", (0,)))


def member_in(state: State) -> Member:
    """A member with one partition, a listener, a coordinator, and nothing due."""
    target, current = {S.RECONCILING: (MORE, HELD), S.JOINING: (NONE, NONE)}.get(state, (HELD, HELD))
    if state in (S.LEAVING, S.STALE, S.UNSUBSCRIBED):
        current = NONE
    return changed(
        new_member(ConsumerConfig("g"), "M", dialect("4.4.0"), 0),
        state=state,
        epoch=EPOCHS.get(state, 3),
        target=target,
        current=current,
        metadata=TopicNames({"T": "t"}),
        subscription=Subscription(SubscriptionType.AUTO_TOPICS, ("t",), listener=True),
        ownership=Ownership(T0),
        poll_due_ms=LATER,
        auto_commit=AutoCommit(LATER),
        coordinator_known=True,
    )


def heartbeat_answer(**fields: Any) -> Answered:
    request = UnsentRequest(ConsumerGroupHeartbeatRequest("g", "M", 3), Purpose.HEARTBEAT)
    return Answered(request, ConsumerGroupHeartbeatResponse(**fields))


def failed(code: ErrorCode) -> Answered:
    return heartbeat_answer(error_code=code)


DONE = ConsumerRebalanceListenerCallbackCompletedEvent(1)
COMMITTED = Answered(
    UnsentRequest(ConsumerGroupHeartbeatRequest("g", "M", 3), Purpose.RUN_COMMIT), OffsetCommitResponse()
)
APPLY = ApplyAssignmentEvent(1, (("t", 0), ("t", 1)), (("t", 1),))


def waits(origin: Origin, **others: Any) -> dict[str, Any]:
    return {"awaited": (Awaited(1, origin),), **others}


SENDS = {S.LEAVING: {"operation": REMAIN}, S.PREPARE_LEAVING: {"operation": REMAIN}}
IN_FLIGHT = {"heartbeat_in_flight": True, "heartbeat_due_ms": LATER}

Recipe = tuple[MemberInput, Callable[[State], dict[str, Any]]]


def like(**changes: Any) -> Callable[[State], dict[str, Any]]:
    return lambda _state: changes


# A poll of one who reconciles would begin a run: an open one keeps it from doing so.
BUSY = {"run": RUN}
RECIPES: dict[Event, Recipe] = {
    E.SUBSCRIBE: (TopicSubscriptionChangeEvent(("u",)), like()),
    E.POLL_JOIN: (AsyncPollEvent(), like(updated=True)),
    E.POLL_FLAG_LOST: (AsyncPollEvent(), like(updated=True, **BUSY)),
    E.POLL_LATE: (AsyncPollEvent(), like(poll_due_ms=0, **BUSY)),
    E.POLL_LATE_RELEASED: (AsyncPollEvent(), like(poll_due_ms=0, stale_release=StaleRelease.DONE)),
    E.POLL_LATE_PENDING: (AsyncPollEvent(), like(poll_due_ms=0, stale_release=StaleRelease.OPEN)),
    E.UNSUBSCRIBE: (UnsubscribeEvent(), like()),
    E.UNSUBSCRIBE_CB: (UnsubscribeEvent(), like()),
    E.UNSUBSCRIBE_NOCB: (UnsubscribeEvent(), like(ownership=OWNS_NOTHING)),
    E.CLOSE_LEAVE: (LeaveGroupOnCloseEvent(), like()),
    E.APPLY_ASSIGNMENT: (APPLY, like(**waits(Origin.RUN_ASSIGNED))),
    E.APPLY_REJECTED: (APPLY, like(**waits(Origin.RUN_ASSIGNED, subscription=MANUAL))),
    E.REC_NONE: (AsyncPollEvent(), like(target=HELD)),
    E.REC_BUSY: (AsyncPollEvent(), like(**BUSY)),
    E.REC_WAITING: (AsyncPollEvent(), like(target=LocalAssignment(1, UNNAMED), current=HELD._replace(local_epoch=1))),
    E.REC_PARTIAL_ACK: (AsyncPollEvent(), like(target=LocalAssignment(1, UNNAMED))),
    E.REC_DEFERRED: (Tick(), like(heartbeat_due_ms=LATER)),
    E.REC_START: (AsyncPollEvent(), like()),
    E.COMMIT_DONE_REVOKE: (COMMITTED, like(run=REVOKING, commit=Commit(LATER))),
    E.COMMIT_DONE_ASSIGN: (COMMITTED, like(run=RUN, commit=Commit(LATER))),
    E.REVOKED_OK: (DONE, like(**waits(Origin.RUN_REVOKED, **BUSY))),
    E.ASSIGNED_OK: (DONE, like(**waits(Origin.RUN_ASSIGNED, **BUSY))),
    E.RUN_FAILED: (
        ConsumerRebalanceListenerCallbackCompletedEvent(1, "threw"),
        like(**waits(Origin.RUN_ASSIGNED, **BUSY)),
    ),
    E.RUN_STEP_STALE: (DONE, like(**waits(Origin.RUN_ASSIGNED, run=replace(RUN, rejoined=True)))),
    E.LEAVE_CB_DONE: (DONE, like(**waits(Origin.LEAVE))),
    E.LOST_DONE_FENCE: (DONE, like(**waits(Origin.FENCE))),
    E.LOST_DONE_FATAL: (DONE, like(**waits(Origin.FATAL))),
    E.LOST_DONE_STALE: (DONE, like(**waits(Origin.STALE, stale_release=StaleRelease.OPEN))),
    E.LOST_DONE_STALE_REJOIN: (DONE, like(**waits(Origin.STALE, stale_release=StaleRelease.REJOIN))),
    E.TICK_SKIP: (Tick(), like(coordinator_known=False, **BUSY)),
    E.LEAVE_SKIPPED: (Tick(), like(coordinator_known=False)),
    E.POLL_EXPIRED: (Tick(), lambda state: {"poll_due_ms": 0, **SENDS.get(state, {})}),
    E.HB_IDLE: (Tick(), lambda state: {**IN_FLIGHT, **BUSY, **SENDS.get(state, {})}),
    E.HB_SENT: (Tick(), like(**BUSY)),
    E.ACK_SENT: (Tick(), like()),
    E.ACK_SENT_TARGET_MOVED: (Tick(), like(target=MORE)),
    E.LEAVE_SENT: (Tick(), like()),
    E.CLOSE_FLUSH_LEAVE: (CloseFlush(), like()),
    E.RESP_LEAVE_DONE: (heartbeat_answer(member_epoch=-1), like(calls=(5,))),
    E.RESP_NEGATIVE: (heartbeat_answer(member_epoch=-1), like()),
    E.RESP_EPOCH: (heartbeat_answer(member_epoch=4), like()),
    E.RESP_SAME: (heartbeat_answer(member_epoch=4, assignment=HELD.partitions), like(target=HELD, current=HELD)),
    E.RESP_NEW: (heartbeat_answer(member_epoch=4, assignment=(("T", (0, 1, 2)),)), like()),
    E.ERR_FENCE: (failed(ErrorCode.FENCED_MEMBER_EPOCH), like()),
    E.ERR_FATAL: (failed(ErrorCode.UNRELEASED_INSTANCE_ID), lambda s: {"calls": (5,)} if s is S.UNSUBSCRIBED else {}),
    E.ERR_FATAL_LATE: (failed(ErrorCode.GROUP_AUTHORIZATION_FAILED), like()),
    E.ERR_RETRY: (failed(ErrorCode.NOT_COORDINATOR), like()),
    E.ERR_TOPIC_AUTH: (failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED), like()),
}

# The fast way of a tick: the member is given back as it is, without a look at the table.
QUIET = {E.TICK_SKIP, E.HB_IDLE}
CELLS = [(state, event) for state, event in TABLE.compiled]


class Looked:
    """A dialect that tells which cells of its table were looked at."""

    def __init__(self) -> None:
        rules = dialect("4.4.0")
        self.choices, self.table, self.name = rules.choices, rules.table, rules.name
        self.at: list[tuple[State, Event]] = []
        by_state = {state: self.Of(state, cells, self.at) for state, cells in rules.cells.by_state.items()}
        self.cells = SimpleNamespace(by_state=by_state)

    def __contains__(self, choice: Any) -> bool:
        return choice in self.choices

    class Of(dict[Any, Any]):
        def __init__(self, state: Any, cells: Any, at: list[Any]) -> None:
            super().__init__(cells)
            self.state, self.at = state, at

        def __getitem__(self, event: Any) -> Any:
            self.at.append((self.state, event))
            return super().__getitem__(event)


@pytest.mark.parametrize("event", list(Event), ids=lambda event: event.name)
def test_cell_is_what_a_step_does(event: Event) -> None:
    """The input of an event brings it about in every state that handles it, and the step goes the way of its cell."""
    states = [state for state, handled in CELLS if handled is event]
    assert states
    for state in states:
        _goes_the_way_of_its_cell(state, event)


def _goes_the_way_of_its_cell(state: State, event: Event) -> None:
    given, changes = RECIPES[event]
    looked = Looked()
    before = changed(member_in(state), **changes(state))
    before = changed(before, settings=Settings(before.settings.config, looked))  # type: ignore[arg-type]
    after, effects = step(before, given, 10)
    cell = TABLE.compiled[state, event]
    if event in QUIET and state is not S.RECONCILING:
        assert (after, effects, cell.target) == (before, (), state)
        return
    assert looked.at.count((state, event)) == 1
    entered = tuple(e.target for e in effects if isinstance(e, Transition) and e.event is event)
    assert entered == cell.path
    if looked.at == [(state, event)]:
        assert after.state is cell.target


def test_every_event_has_an_input() -> None:
    """No event of the table is without its input, and no effect without its function."""
    assert set(RECIPES) == set(Event)
    assert set(MemberDraft.methods) == set(Effect)
    assert len(CELLS) == 232


def test_refused_step_changes_nothing() -> None:
    """An assignment is applied only while it waits to be: a second time is the application's error."""
    before = changed(member_in(S.RECONCILING), **waits(Origin.RUN_ASSIGNED, **BUSY))
    done = step(before, DONE, 0).member
    with pytest.raises(LocalProtocolError, match="no assignment is pending under ticket 1"):
        step(done, APPLY, 0)
    with pytest.raises(LocalProtocolError, match="each is completed once"):
        step(done, DONE, 0)


def test_application_that_applies_out_of_turn_is_refused() -> None:
    """What the table calls illegal is refused with its own words, and names the application."""
    before = changed(member_in(S.STABLE), **waits(Origin.RUN_ASSIGNED, **BUSY))
    with pytest.raises(LocalProtocolError, match="APPLY_ASSIGNMENT is illegal in STABLE"):
        step(before, APPLY, 0)
