"""A classic group during one step: the effects of its table.

A `ClassicGroupDraft` exists for one step. The code that decides on an event first sets its attributes (the member, the
content of the request, the error code); `take_row` then executes the event's row. This module makes no protocol
decisions.

Source: `GroupMetadataManager`, `ClassicGroup` and `ClassicGroupMember` of apache/kafka, branch 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from fsm.coordinator.classic import responses
from fsm.coordinator.model import classic_group
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.persistent import PersistentSet
from fsm.coordinator.model.step import Answer, Happened, Request, ResponseBody, Step
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import HeartbeatResponse, JoinGroupResponse, SyncGroupResponse
from fsm.protocol.records import Record
from fsm.step import Draft
from fsm.table import Symbol
from fsm.tables.classic_group import TABLE, Effect, Event

CELLS = TABLE.compiled
Given = TypeVar("Given")


class ClassicGroupDraft(Draft[classic_group.ClassicGroup], classic_group.ClassicGroup, effects=Effect):
    """A group to be changed, with one method for each effect of the table."""

    member_id: str = ""
    """The member of the event."""
    joining: classic_group.ClassicGroupMember | None = None
    """The member as its JoinGroup describes it."""
    replaced: classic_group.ClassicGroupMember | None = None
    """The replaced static member, as it was."""
    old_leader: str = ""
    """The member id of the leader before that."""
    late: Mapping[str, classic_group.ClassicGroupMember] = MappingProxyType({})
    """Static members that have not joined, by id, whose subscriptions name all that they own."""
    removed: Collection[str] = ()
    """The ids that leave: of members, or pending ids."""
    response: ResponseBody = HeartbeatResponse()
    """The body of the answers of ANSWER_OK and ANSWER_ERROR."""
    assignments: Mapping[str, bytes] | None = None
    """The leader's assignment for each member."""
    code: ErrorCode = ErrorCode.NONE
    """Why the log did not take the record."""

    def __init__(self, group: classic_group.ClassicGroup, context: Context, request: Request | None = None) -> None:
        super().__init__(group)
        self.context = context
        self.request = request
        self.answers: list[Answer] = []
        self.records: list[Record] = []
        self.happened: list[Happened] = []

    def take_row(self, event: Event) -> None:
        """Executes the event's row. Raises `IllegalTransition` for an event without a row in this state."""
        cell = CELLS.by_state[self.state][event]
        self.happened.append(Happened("", self.state, event, cell.target))
        self.perform(CELLS, cell.steps)

    def enter(self, state: Symbol) -> None:
        """Goes to a state of the table."""
        self.state, self.previous_state = state, self.state
        self.state_since_ms = self.context.now_ms

    def step(self) -> Step[classic_group.ClassicGroup]:
        """The outcome of the whole step."""
        if self.records:
            self.stored_generation = responses.keep_static(self.records[-1].value, self.context.dialect)
        return Step(self.close(), tuple(self.answers), tuple(self.records), tuple(self.happened))

    @property
    def asked(self) -> Request:
        """The request of this step. Raises `ValueError` if a timer caused it."""
        return _require(self.request)

    def answer(self, body: ResponseBody) -> None:
        """Answers the request of this step."""
        self.answers.append(Answer(_require(self.request).token, body))

    # Members

    def add_member(self) -> None:
        member = _require(self.joining)
        if not self.members:
            self.protocol_type = self.asked.body.protocol_type
        self.members = self.members.set(member)
        self.new_members = self.new_members.add(member.member_id)
        self.leader = self.leader or member.member_id
        self.pending_join_members = self.pending_join_members.without(member.member_id)

    def update_member(self) -> None:
        new, old = _require(self.joining), self.members[self.member_id]
        values = (new.protocols, new.rebalance_timeout_ms, new.session_timeout_ms)
        if values != (old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms) or old.is_late:
            protocols, rebalance_ms, session_ms = values
            member = replace(old, protocols=protocols, rebalance_timeout_ms=rebalance_ms, session_timeout_ms=session_ms)
            self.members = self.members.set(replace(member, is_late=False) if old.is_late else member)

    def replace_member(self) -> None:
        old = _require(self.replaced)
        self.old_leader = self.leader or ""
        if join := self.delayed_joins.get(old.member_id):
            refusal = responses.refuse_join(ErrorCode.FENCED_INSTANCE_ID, old.member_id, join.version)
            self.answers.append(Answer(join.token, refusal))
        if sync := self.delayed_syncs.get(old.member_id):
            self.answers.append(Answer(sync.token, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID)))
        self._swap(old.member_id, replace(old, member_id=self.member_id))

    def _swap(self, gone: str, member: classic_group.ClassicGroupMember) -> None:
        """Puts the member in the other one's place; a pending sync stays under the old id."""
        self.members = self.members.without(gone).set(member)
        self._stop_waiting((gone,))
        if self.leader == gone:
            self.leader = member.member_id

    def revert_replacement(self) -> None:
        generation = (self.generation, self.protocol_type, self.protocol_name)
        self.answer(JoinGroupResponse(*generation, self.old_leader, error_code=self.code))
        old = _require(self.replaced)
        self._swap(self.member_id, old)
        self.member_id = old.member_id

    def remember_id(self) -> None:
        self.pending_join_members = self.pending_join_members.add(self.member_id)

    def remove_id(self) -> None:
        self._remove((self.member_id,))

    def remove_members(self) -> None:
        for member_id in self.removed:
            if join := self.delayed_joins.get(member_id):
                refusal = responses.refuse_join(ErrorCode.UNKNOWN_MEMBER_ID, "", join.version)
                self.answers.append(Answer(join.token, refusal))
        self._remove(self.removed)

    def remove_unjoined_members(self) -> None:
        joined = self.delayed_joins
        unjoined = [i for i, member in self.members.items() if member.instance_id is None and i not in joined]
        self._remove(unjoined)
        self.heartbeat_deadlines_ms = self.heartbeat_deadlines_ms.without(*unjoined)

    def keep_owned(self) -> None:
        self.members = self.members.merge(self.late)

    def remove_unsynced_members(self) -> None:
        self.removed = sorted(self.pending_sync_members)
        self._remove(self.removed)

    def _remove(self, ids: Collection[str]) -> None:
        """Removes members and pending ids; if the leader is among them, the first remaining member leads."""
        self.members = self.members.without(*ids)
        self.pending_join_members = self.pending_join_members.without(*ids)
        self.pending_sync_members = self.pending_sync_members.without(*ids)
        self._stop_waiting(ids)
        if self.leader in ids:
            self.leader = next(iter(self.members.order), None)

    def _stop_waiting(self, ids: Collection[str]) -> None:
        self.new_members = self.new_members.without(*ids)
        self.delayed_joins = self.delayed_joins.without(*ids)
        self.delayed_syncs = self.delayed_syncs.without(*ids)

    def note_new_member(self) -> None:
        self.new_member_added = True

    def clear_new_member_note(self) -> None:
        self.new_member_added = False

    def elect_leader(self) -> None:
        if self.leader is not None and self.leader not in self.delayed_joins:
            self.leader = next((i for i in self.members.order if i in self.delayed_joins), self.leader)

    # Delayed requests and answers

    def park_join(self) -> None:
        self.delayed_joins = self.delayed_joins.set(self.member_id, self._delay())

    def park_sync(self) -> None:
        self.delayed_syncs = self.delayed_syncs.set(self.member_id, self._delay())

    def _delay(self) -> classic_group.DelayedRequest:
        asked = self.asked
        return classic_group.DelayedRequest(asked.token, asked.version)

    def take_assignment(self) -> None:
        given = dict[str, bytes](self.asked.body.assignments)
        self.assignments = {member_id: given.get(member_id, b"") for member_id in self.members}

    def answer_member_id_required(self) -> None:
        self.answer(responses.refuse_join(ErrorCode.MEMBER_ID_REQUIRED, self.member_id, self.asked.version))

    def answer_join(self) -> None:
        """Answers a join; tells a returned static leader to skip the assignment, if its version has that field."""
        leader, skip = self.leader or "", False
        if self.replaced is not None and self.asked.version < responses.SKIPS_ASSIGNMENT_SINCE:
            leader = self.old_leader
        elif self.replaced is not None:
            skip = self.leader == self.member_id
        self.answer(responses.join_response(self, self.member_id, leader, skip=skip))
        self.delayed_joins = self.delayed_joins.without(self.member_id)

    def answer_joins(self) -> None:
        self._answer_joins(lambda member_id, _: responses.join_response(self, member_id, self.leader or ""))

    def answer_joins_rebalance(self) -> None:
        self._refuse_joins(ErrorCode.REBALANCE_IN_PROGRESS)

    def answer_joins_not_coordinator(self) -> None:
        self._refuse_joins(ErrorCode.NOT_COORDINATOR)

    def _refuse_joins(self, code: ErrorCode) -> None:
        self._answer_joins(lambda member_id, version: responses.refuse_join(code, member_id, version))

    def _answer_joins(self, body: Callable[[str, int], JoinGroupResponse]) -> None:
        for member_id in self._in_order(self.delayed_joins):
            token, version = self.delayed_joins[member_id]
            self.answers.append(Answer(token, body(member_id, version)))
        self.delayed_joins = classic_group.NONE_DELAYED

    def _in_order(self, delayed: Mapping[str, classic_group.DelayedRequest]) -> Iterable[str]:
        return (member_id for member_id in self.members.order if member_id in delayed) if delayed else ()

    def answer_sync(self) -> None:
        self.answer(responses.sync_response(self, self.members[self.member_id].assignment))

    def answer_syncs(self) -> None:
        self._assign(self.assignments or {})
        self._answer_syncs(lambda member_id: responses.sync_response(self, self.members[member_id].assignment))

    def answer_syncs_error(self) -> None:
        self._assign({})
        self._refuse_syncs(self.code)

    def answer_syncs_rebalance(self) -> None:
        self._refuse_syncs(ErrorCode.REBALANCE_IN_PROGRESS)

    def answer_syncs_not_coordinator(self) -> None:
        self._refuse_syncs(ErrorCode.NOT_COORDINATOR)

    def _refuse_syncs(self, code: ErrorCode) -> None:
        self._answer_syncs(lambda _: SyncGroupResponse(error_code=code))

    def _answer_syncs(self, body: Callable[[str], SyncGroupResponse]) -> None:
        """Answers delayed syncs and restarts the sessions of their members, which do not expire while waiting."""
        waiting = tuple(self._in_order(self.delayed_syncs))
        self.answers.extend(Answer(self.delayed_syncs[member_id].token, body(member_id)) for member_id in waiting)
        self._arm_sessions(map(self.members.__getitem__, waiting))
        self.delayed_syncs = classic_group.NONE_DELAYED

    def answer_ok(self) -> None:
        self.answer(self.response)

    def answer_rebalance_in_progress(self) -> None:
        self.answer(responses.refuse(self.asked, ErrorCode.REBALANCE_IN_PROGRESS))

    answer_error = answer_ok

    # Generation

    def clear_assignments(self) -> None:
        self._assign({})

    def _assign(self, assignments: Mapping[str, bytes]) -> None:
        """Sets every member's assignment, empty if it has none here."""
        pairs = ((member, assignments.get(i, b"")) for i, member in self.members.items())
        changed = {m.member_id: replace(m, assignment=given) for m, given in pairs if m.assignment != given}
        self.members = self.members.merge(changed)

    def bump_generation(self) -> None:
        self.generation += 1

    def select_protocol(self) -> None:
        self.protocol_name = self.members.elected_protocol()
        self.subscribed_topics = classic_group.consumer_topics(self)

    def clear_protocol(self) -> None:
        self.protocol_name = None
        self.subscribed_topics = classic_group.consumer_topics(self)

    def await_syncs(self) -> None:
        self.pending_sync_members = PersistentSet(self.members)
        self.new_members = classic_group.NO_IDS

    def forget_sync(self) -> None:
        self.pending_sync_members = self.pending_sync_members.without(self.member_id)

    def forget_syncs(self) -> None:
        self.pending_sync_members = classic_group.NO_IDS

    def write_new_id(self) -> None:
        member, stored = _require(self.joining), _require(self.stored_generation)
        self.records.append(responses.replacement_record(self, stored, member))

    def write_group(self) -> None:
        self.records.append(responses.group_record(self, self.assignments))

    def remove_group(self) -> None:
        self.records.append(responses.tombstone(self))

    # Timers

    def _arm(self, member_id: str, timeout_ms: int) -> None:
        deadlines_ms = self.heartbeat_deadlines_ms
        self.heartbeat_deadlines_ms = deadlines_ms.set(member_id, self.context.now_ms + timeout_ms)

    def _arm_sessions(self, members: Iterable[classic_group.ClassicGroupMember]) -> None:
        now_ms = self.context.now_ms
        deadlines_ms = {member.member_id: now_ms + member.session_timeout_ms for member in members}
        self.heartbeat_deadlines_ms = self.heartbeat_deadlines_ms.set_all(deadlines_ms)

    def arm_new_member_timer(self) -> None:
        self._arm(self.member_id, classic_group.NEW_MEMBER_JOIN_TIMEOUT_MS)

    def reset_heartbeat_timer(self) -> None:
        member = self.members.by_id.get(self.member_id) or _require(self.joining)
        self._arm(self.member_id, member.session_timeout_ms)

    def reset_heartbeat_timers(self) -> None:
        self._arm_sessions(self.members.in_order())

    def cancel_heartbeat_timers(self) -> None:
        self.heartbeat_deadlines_ms = self.heartbeat_deadlines_ms.without(*self.removed)

    def arm_initial_delay(self) -> None:
        delay_ms = self.context.config.group_initial_rebalance_delay_ms
        remaining_ms = max(self.rebalance_timeout_ms - delay_ms, 0)
        self.join_phase = classic_group.JoinPhase(self.context.now_ms + delay_ms, True, delay_ms, remaining_ms)

    def extend_initial_delay(self) -> None:
        last = _require(self.join_phase)
        delay_ms = min(self.context.config.group_initial_rebalance_delay_ms, last.remaining_ms)
        remaining_ms = max(last.remaining_ms - last.delay_ms, 0)
        self.join_phase = classic_group.JoinPhase(self.context.now_ms + delay_ms, True, delay_ms, remaining_ms)

    def arm_join_timer(self) -> None:
        self.join_phase = classic_group.JoinPhase(self.context.now_ms + self.rebalance_timeout_ms)

    def cancel_join_timer(self) -> None:
        self.join_phase = None

    def arm_sync_timer(self) -> None:
        self.sync_phase = classic_group.SyncPhase(self.context.now_ms + self.rebalance_timeout_ms, self.generation)

    def cancel_sync_timer(self) -> None:
        self.sync_phase = None


def _require(value: Given | None) -> Given:
    """The attribute that the decision must have set. Raises `ValueError` if it did not."""
    if value is None:
        raise ValueError("the event was decided without saying whom or what it is about")
    return value
