"""A consumer group during one step: the decisions, and the rows of the tables that execute them.

A step first decides, from the stored group; then it expresses its decisions as events, and the rows of the tables
`consumer-group` and `consumer-group-member` order records and timers. No other code for consumer groups writes a record
or sets a timer.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from fsm.coordinator.consumer import group_records as write
from fsm.coordinator.model.consumer_group import ConsumerGroup, GroupMember, Resolution, derive_state
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.hash_order import state_order, string_hash
from fsm.coordinator.model.persistent import PersistentMap
from fsm.coordinator.model.step import Answer, Happened, Step
from fsm.coordinator.model.subscribed_metadata import SubscribedMetadata
from fsm.coordinator.model.timers import TimerKind
from fsm.errors import FsmError
from fsm.protocol.assignment import TopicPartitions
from fsm.protocol.records import Record, RecordType, ResolvedRegularExpression
from fsm.step import Draft
from fsm.tables import consumer_group, consumer_group_member
from fsm.tables.consumer_group import Effect as GroupEffect
from fsm.tables.consumer_group import Event as GroupEvent
from fsm.tables.consumer_group import State as GroupState
from fsm.tables.consumer_group_member import Effect, Event, State

GROUP_CELLS = consumer_group.TABLE.compiled
MEMBER_CELLS = consumer_group_member.TABLE.compiled


class RegexChange(Enum):
    """The effect of a request on its member's regular expression."""

    NONE = 0
    UNRESOLVED = 1
    """A new one, which matches no topic yet."""
    RESOLVED = 2
    """A new one that the group has already resolved, or none any more."""


NO_CHANGE, DROPS_OLD_INSTANCE = RegexChange.NONE, Choice.INSTANCE_CHANGE_DROPS_MAPPING
SESSION, REBALANCE = TimerKind.SESSION, TimerKind.REBALANCE


class ConsumerGroupDraft(Draft[ConsumerGroup], ConsumerGroup, effects=(GroupEffect, Effect)):
    """A group within one step, with a method for each effect of the group's table and of its members'.

    `stored` is the group before the step, by which partition holders are looked up: a request does not see its own
    records.
    """

    state: GroupState = GroupState.EMPTY
    """The state after the rows taken so far; that of a stored group follows from epochs and members."""

    is_loading: bool = False
    """Whether a new coordinator loads the group: a classic member then gets the same timers as the others."""

    # The decisions, for the effects.
    is_new: bool = False
    """Whether the request's member joins the group without replacing another one."""
    names_changed: bool = False
    """Whether the request changes its member's subscribed names."""
    regex_change: RegexChange = RegexChange.NONE
    elects_another: bool = False
    """Whether the stored votes elect another assignor than those with the request's, in dialects where that counts."""
    unused_patterns: tuple[str, ...] = ()
    """Regular expressions without any subscriber left."""
    seen_metadata: SubscribedMetadata | None = None
    """The current metadata of the subscribed topics, if the step has checked them."""
    new_targets: Mapping[str, TopicPartitions] | None = None
    """The changed entries of a computed target, in the order of their records."""
    new_resolution: Resolution | None = None
    resolved: Mapping[str, ResolvedRegularExpression] = PersistentMap()
    """Resolved regular expressions to be written."""

    context: Context
    records: list[Record]
    happened: list[Happened]

    @property
    def subscription_changed(self) -> bool:
        """Whether the request changes names or regular expression."""
        return self.names_changed or self.regex_change is not NO_CHANGE

    def take_group_row(self, event: GroupEvent) -> None:
        """Takes a row of the group's table."""
        cell = GROUP_CELLS.by_state[self.state][event]
        self.happened.append(Happened("", self.state, event, cell.target))
        if cell.effects:
            self.perform(GROUP_CELLS, cell.effects)
        self.state = cell.target

    def take_member_row(self, state: State, event: Event, member: GroupMember) -> None:
        """Takes a row of a member's table; `member` is the member afterwards, or the removed one."""
        cell = MEMBER_CELLS.by_state[state][event]
        self.happened.append(Happened(member.member_id, state, event, cell.target))
        if cell.effects:
            self.perform(MEMBER_CELLS, cell.effects, member)

    def set_member(self, member: GroupMember) -> None:
        """Adds or replaces the member."""
        if self.members.by_id.get(member.member_id) is not member:
            drops = DROPS_OLD_INSTANCE in self.context.dialect.choices
            self.members = self.members.set(member, drops_old_instance=drops)

    def drop_member(self, member_id: str) -> None:
        """Removes the member and its part of the target."""
        self.members, self.targets = self.members.without(member_id), self.targets.without(member_id)

    def finish(self, *answers: Answer) -> Step[ConsumerGroup]:
        """The result of the step. Raises `FsmError` if epochs and members contradict the rows that were taken."""
        follows = derive_state(self.members, self.epoch, self.target_epoch)
        if follows is not self.state:
            taken = ", ".join(happened.event.name for happened in self.happened)
            raise FsmError(f"{self.group_id} is {follows.name}, by the table {self.state.name}, after {taken}")
        return Step(self.close(), answers, tuple(self.records), tuple(self.happened))

    # Effects of the group's table

    def remove_unused_regexes(self) -> None:
        self.records += [write.regex_tombstone(self.group_id, pattern) for pattern in self.unused_patterns]

    def bump_group_epoch(self) -> None:
        found = self.seen_metadata
        if found is None:
            raise FsmError(f"{self.group_id}: a bump without a look at the metadata")
        changed = found != self.metadata
        self.epoch, self.metadata = self.epoch + 1, found
        if changed and Choice.METADATA_HASH not in self.context.dialect:
            self.has_metadata_record = True
            self.records.append(write.metadata_record(self))
        self.records.append(write.epoch_record(self))

    def compute_target(self) -> None:
        found = self.new_targets or {}
        self.records += [write.target_record(self.group_id, i, target) for i, target in found.items()]
        self.targets, self.target_epoch = self.targets.merge(found), self.epoch
        timed = Choice.ASSIGNMENT_INTERVAL in self.context.dialect
        self.target_time_ms = self.context.now_ms if timed else 0
        self.records.append(write.target_epoch_record(self))

    def level_target_epoch(self) -> None:
        """Before 4.4 an emptied group keeps its old target epoch."""
        if Choice.EMPTIED_GROUP_SETS_TARGET_EPOCH in self.context.dialect:
            self.target_epoch, self.target_time_ms = self.epoch, 0
            self.records.append(write.target_epoch_record(self))

    def move_target_entry(self) -> None:
        """Does nothing: the code that replaces the member moves the entry, and the copy's own row writes it."""

    def set_metadata_deadline(self) -> None:
        """Also writes the tombstone of a record of type 4 from an older broker."""
        self.metadata_due = False
        if self.has_metadata_record and Choice.METADATA_HASH in self.context.dialect:
            self.has_metadata_record = False
            self._end_group(RecordType.CONSUMER_GROUP_PARTITION_METADATA)

    def clear_metadata_deadline(self) -> None:
        self.metadata_due = True

    def resolve_regexes(self) -> None:
        self.resolution = self.new_resolution

    def write_regexes(self) -> None:
        self.records += [write.regex_record(self.group_id, pattern, one) for pattern, one in self.resolved.items()]
        self.regexes = self.regexes.merge(self.resolved)

    def write_converted_group(self) -> None:
        """The epochs of a converted classic group, and its topic metadata in releases that fill it in."""
        if self.has_metadata_record:
            self.records.append(write.metadata_record(self))
        self.records += (write.epoch_record(self), write.target_epoch_record(self))

    def remove_group_records(self) -> None:
        """The tombstone of type 4 is written even without such a record."""
        self._end_group(RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA)
        for pattern in state_order(self.stored.regexes, string_hash):
            self.records.append(write.regex_tombstone(self.group_id, pattern))
        self._end_group(RecordType.CONSUMER_GROUP_PARTITION_METADATA)
        self._end_group(RecordType.CONSUMER_GROUP_METADATA)

    def _end_group(self, kind: RecordType) -> None:
        self.records.append(write.group_tombstone(kind, self.group_id))

    def create_classic_group(self) -> None:
        """Does nothing: a row of the classic group's table does it, as for the next two effects."""

    rebalance_classic_group = create_empty_classic_group = create_classic_group

    # Effects of a member's table

    def write_member(self, member: GroupMember) -> None:
        self.records.append(write.member_record(self.group_id, member))

    def write_target_entry(self, member: GroupMember) -> None:
        target = self.targets.get(member.member_id, ())
        self.records.append(write.target_record(self.group_id, member.member_id, target))

    def write_current_assignment(self, member: GroupMember) -> None:
        self.records.append(write.current_record(self.group_id, member, self.context.dialect))

    def clear_pending(self, _member: GroupMember) -> None:
        """Does nothing: the given member already has nothing pending."""

    def remove_current_assignment(self, member: GroupMember) -> None:
        self._end_member(RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, member)

    def remove_target_entry(self, member: GroupMember) -> None:
        self._end_member(RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, member)

    def remove_member(self, member: GroupMember) -> None:
        self._end_member(RecordType.CONSUMER_GROUP_MEMBER_METADATA, member)

    def _end_member(self, kind: RecordType, member: GroupMember) -> None:
        self.records.append(write.member_tombstone(kind, self.group_id, member.member_id))

    def arm_session_timer(self, member: GroupMember) -> None:
        classic, context = member.metadata.classic_member_metadata, self.context
        if classic is None or self.is_loading:
            timeout_ms = context.config.session_timeout_ms(self.group_id)
        else:
            timeout_ms = classic.session_timeout_ms
        self.timers = self.timers.set((SESSION, member.member_id), context.now_ms + timeout_ms)

    def arm_rebalance_timer(self, member: GroupMember) -> None:
        if self.is_loading or not member.is_classic:
            self._arm(REBALANCE, member, member.metadata.rebalance_timeout_ms)

    def arm_join_timer(self, member: GroupMember) -> None:
        if (TimerKind.JOIN, member.member_id) not in self.timers:
            self._arm(TimerKind.JOIN, member, member.metadata.rebalance_timeout_ms)

    def arm_sync_timer(self, member: GroupMember) -> None:
        self._arm(TimerKind.SYNC, member, member.metadata.rebalance_timeout_ms)

    def _arm(self, kind: TimerKind, member: GroupMember, timeout_ms: int) -> None:
        epoch = member.epoch if kind is REBALANCE else 0
        self.timers = self.timers.set((kind, member.member_id), self.context.now_ms + timeout_ms, epoch)

    def cancel_rebalance_timer(self, member: GroupMember) -> None:
        if not member.is_classic:
            self._cancel(member, REBALANCE)

    def cancel_join_timer(self, member: GroupMember) -> None:
        self._cancel(member, TimerKind.JOIN)

    def cancel_sync_timer(self, member: GroupMember) -> None:
        self._cancel(member, TimerKind.SYNC)

    def cancel_all_timers(self, member: GroupMember) -> None:
        self._cancel(member, *TimerKind)

    def _cancel(self, member: GroupMember, *kinds: TimerKind) -> None:
        running = [(kind, member.member_id) for kind in kinds if (kind, member.member_id) in self.timers]
        if running:
            self.timers = self.timers.without(*running)


def open_group(group: ConsumerGroup, context: Context, state: GroupState | None = None) -> ConsumerGroupDraft:
    """A draft of the group for one step, in its own state or in a given one."""
    draft: ConsumerGroupDraft = ConsumerGroupDraft.of(group)
    draft.context = context
    draft.state = derive_state(group.members, group.epoch, group.target_epoch) if state is None else state
    draft.records, draft.happened = [], []
    return draft
