"""A consumer group while one step is worked into it: what was decided, and the tables obeyed.

A step first decides, over the group as it is stored; then it names its decisions as events, and the rows of the tables
`consumer-group` and `consumer-group-member` say what is written, armed and cancelled, in which order. Nothing else in
the coordinator of consumer groups writes a record or touches a timer.

A `Draft` lives for one step and never leaves it. `group` is the group as far as it is worked in; `stored` is the one
of before, which answers who holds what: a request does not see its own records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from fsm.coordinator import group_records as write
from fsm.coordinator.consumer_group import ConsumerGroup, Resolution
from fsm.coordinator.context import Context
from fsm.coordinator.dialect import Choice
from fsm.coordinator.group_metadata import SubscribedMetadata
from fsm.coordinator.hash_order import state_order, string_hash
from fsm.coordinator.members import AWAY, GroupMember
from fsm.coordinator.messages import Answer
from fsm.coordinator.records import Record, RecordType, ResolvedRegularExpression
from fsm.coordinator.step import Happened, Step
from fsm.coordinator.timers import Timer, TimerKind
from fsm.errors import FsmError
from fsm.kafka.assignment import TopicPartitions
from fsm.table import Symbol
from fsm.tables import consumer_group, consumer_group_member
from fsm.tables.consumer_group import Effect as GroupEffect
from fsm.tables.consumer_group import Event as GroupEvent
from fsm.tables.consumer_group_member import Effect, Event, State

GROUP_CELLS = consumer_group.TABLE.compiled
MEMBER_CELLS = consumer_group_member.TABLE.compiled


@dataclass(slots=True)
class Draft:
    """One step at work. The fields after `context` hold decisions, which the effects of the tables carry out."""

    stored: ConsumerGroup
    group: ConsumerGroup
    context: Context
    unused_patterns: tuple[str, ...] = ()
    """Regular expressions that nobody subscribes to any more."""
    metadata: SubscribedMetadata | None = None
    """What the subscribed topics look like now, where that was looked at."""
    targets: Mapping[str, TopicPartitions] | None = None
    """A computed target: the entries that differ, in the order of their records."""
    resolution: Resolution | None = None
    regexes: Mapping[str, ResolvedRegularExpression] = field(default_factory=dict)
    """Resolved regular expressions to be written."""
    session_timeout_ms: int = 0
    records: list[Record] = field(default_factory=list)
    happened: list[Happened] = field(default_factory=list)
    state: Symbol = consumer_group.State.EMPTY
    """The group's state as the table has it so far."""

    @property
    def group_id(self) -> str:
        """The group's id."""
        return self.group.group_id

    def on_group(self, event: GroupEvent) -> None:
        """Steps the group's table and does what its row orders."""
        cell = GROUP_CELLS[self.state, event]
        self.happened.append(Happened("", self.state, event, cell.target))
        for effect in cell.effects:
            _GROUP_EFFECTS[effect](self)
        self.state = cell.target

    def on_member(self, state: State, event: Event, member: GroupMember) -> None:
        """Steps a member's table; `member` is the member as it is afterwards, or as it goes."""
        cell = MEMBER_CELLS[state, event]
        self.happened.append(Happened(member.member_id, state, event, cell.target))
        for effect in cell.effects:
            _MEMBER_EFFECTS[effect](self, member)

    def keep(self, member: GroupMember) -> None:
        """The group has this member, new or changed."""
        if self.group.members.by_id.get(member.member_id) is not member:
            self.group = self.group.with_member(member, self.context.dialect)

    def done(self, answers: tuple[Answer, ...] = ()) -> Step[ConsumerGroup]:
        """The step. Raises `FsmError` where epochs and members contradict the rows that were taken."""
        if self.group.state is not self.state:
            taken = ", ".join(happened.event.name for happened in self.happened)
            raise FsmError(f"{self.group_id} is {self.group.state.name}, by the table {self.state.name}, after {taken}")
        return Step(self.group, answers, tuple(self.records), tuple(self.happened))


def draft_of(group: ConsumerGroup, context: Context) -> Draft:
    """A step that begins."""
    return Draft(group, group, context, state=group.state)


def _remove_unused_regexes(draft: Draft) -> None:
    for pattern in draft.unused_patterns:
        draft.records.append(write.regex_tombstone(draft.group_id, pattern))


def _bump_group_epoch(draft: Draft) -> None:
    found = draft.metadata
    if found is None:
        raise FsmError(f"{draft.group_id}: a bump without a look at the metadata")
    changed = found != draft.group.metadata
    draft.group = replace(draft.group, epoch=draft.group.epoch + 1, metadata=found)
    if changed and Choice.METADATA_HASH not in draft.context.dialect:
        draft.group = replace(draft.group, has_metadata_record=True)
        draft.records.append(write.metadata_record(draft.group))
    draft.records.append(write.epoch_record(draft.group))


def _compute_target(draft: Draft) -> None:
    group = draft.group
    timed = Choice.ASSIGNMENT_INTERVAL in draft.context.dialect
    for member_id, target in (draft.targets or {}).items():
        draft.records.append(write.target_record(draft.group_id, member_id, target))
    draft.group = replace(
        group,
        targets=group.targets.merged(draft.targets or {}),
        target_epoch=group.epoch,
        target_time_ms=draft.context.now_ms if timed else 0,
    )
    draft.records.append(write.target_epoch_record(draft.group))


def _level_target_epoch(draft: Draft) -> None:
    """Before 4.4 the target epoch of an emptied group stays behind."""
    if Choice.EMPTIED_GROUP_SETS_TARGET_EPOCH in draft.context.dialect:
        draft.group = replace(draft.group, target_epoch=draft.group.epoch, target_time_ms=0)
        draft.records.append(write.target_epoch_record(draft.group))


def _set_metadata_deadline(draft: Draft) -> None:
    """Also the end of a record of type 4 that an older broker left."""
    if draft.group.metadata_due:
        draft.group = replace(draft.group, metadata_due=False)
    if draft.group.has_metadata_record and Choice.METADATA_HASH in draft.context.dialect:
        draft.group = replace(draft.group, has_metadata_record=False)
        kind = RecordType.CONSUMER_GROUP_PARTITION_METADATA
        draft.records.append(write.group_tombstone(kind, draft.group_id))


def _clear_metadata_deadline(draft: Draft) -> None:
    draft.group = replace(draft.group, metadata_due=True)


def _resolve_regexes(draft: Draft) -> None:
    draft.group = replace(draft.group, resolution=draft.resolution)


def _write_regexes(draft: Draft) -> None:
    for pattern, resolved in draft.regexes.items():
        draft.records.append(write.regex_record(draft.group_id, pattern, resolved))
    draft.group = replace(draft.group, regexes=draft.group.regexes.merged(draft.regexes))


def _write_converted_group(draft: Draft) -> None:
    """Epochs of a group that was a classic one, and what its topics look like, in releases that fill that in."""
    if draft.group.has_metadata_record:
        draft.records.append(write.metadata_record(draft.group))
    draft.records.extend((write.epoch_record(draft.group), write.target_epoch_record(draft.group)))


def _remove_group_records(draft: Draft) -> None:
    """The end of a type 4 is written whether or not there was one."""
    draft.records.append(write.group_tombstone(RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, draft.group_id))
    for pattern in state_order(draft.stored.regexes, string_hash):
        draft.records.append(write.regex_tombstone(draft.group_id, pattern))
    draft.records.append(write.group_tombstone(RecordType.CONSUMER_GROUP_PARTITION_METADATA, draft.group_id))
    draft.records.append(write.group_tombstone(RecordType.CONSUMER_GROUP_METADATA, draft.group_id))


def _done_by_classic_group(draft: Draft) -> None:
    """The classic group that takes the place begins with a row of its own table."""


def _done_by_members(draft: Draft) -> None:
    """`move_target` has moved the entry; the copy's own row writes it."""


_GROUP_EFFECTS: Mapping[object, Callable[[Draft], None]] = {
    GroupEffect.REMOVE_UNUSED_REGEXES: _remove_unused_regexes,
    GroupEffect.WRITE_REGEXES: _write_regexes,
    GroupEffect.BUMP_GROUP_EPOCH: _bump_group_epoch,
    GroupEffect.COMPUTE_TARGET: _compute_target,
    GroupEffect.LEVEL_TARGET_EPOCH: _level_target_epoch,
    GroupEffect.MOVE_TARGET_ENTRY: _done_by_members,
    GroupEffect.SET_METADATA_DEADLINE: _set_metadata_deadline,
    GroupEffect.CLEAR_METADATA_DEADLINE: _clear_metadata_deadline,
    GroupEffect.RESOLVE_REGEXES: _resolve_regexes,
    GroupEffect.WRITE_CONVERTED_GROUP: _write_converted_group,
    GroupEffect.REMOVE_GROUP_RECORDS: _remove_group_records,
    GroupEffect.CREATE_CLASSIC_GROUP: _done_by_classic_group,
    GroupEffect.REBALANCE_CLASSIC_GROUP: _done_by_classic_group,
    GroupEffect.CREATE_EMPTY_CLASSIC_GROUP: _done_by_classic_group,
}


def _write_member(draft: Draft, member: GroupMember) -> None:
    draft.records.append(write.member_record(draft.group_id, member))


def _write_target_entry(draft: Draft, member: GroupMember) -> None:
    target = draft.group.targets.get(member.member_id, ())
    draft.records.append(write.target_record(draft.group_id, member.member_id, target))


def _write_current_assignment(draft: Draft, member: GroupMember) -> None:
    draft.records.append(write.current_record(draft.group_id, member, draft.context.dialect))


def _void(draft: Draft, member: GroupMember) -> None:
    """CLEAR_PENDING: `away` gives the member without what was pending."""


def _tombstone(kind: RecordType) -> Callable[[Draft, GroupMember], None]:
    def write_tombstone(draft: Draft, member: GroupMember) -> None:
        draft.records.append(write.member_tombstone(kind, draft.group_id, member.member_id))

    return write_tombstone


def _arm(draft: Draft, kind: TimerKind, member: GroupMember, timeout_ms: int) -> None:
    timer = Timer(draft.context.now_ms + timeout_ms, member.epoch if kind is TimerKind.REBALANCE else 0)
    draft.group = replace(draft.group, timers=draft.group.timers.armed(kind, member.member_id, timer))


def _arm_session_timer(draft: Draft, member: GroupMember) -> None:
    classic = member.metadata.classic_member_metadata
    own = draft.context.config.session_timeout_ms(draft.group_id)
    _arm(draft, TimerKind.SESSION, member, classic.session_timeout_ms if classic else own)


def _arm_rebalance_timer(draft: Draft, member: GroupMember) -> None:
    if not member.is_classic:
        _arm(draft, TimerKind.REBALANCE, member, member.metadata.rebalance_timeout_ms)


def _arm_join_timer(draft: Draft, member: GroupMember) -> None:
    if not draft.group.timers.is_running(TimerKind.JOIN, member.member_id):
        _arm(draft, TimerKind.JOIN, member, member.metadata.rebalance_timeout_ms)


def _arm_sync_timer(draft: Draft, member: GroupMember) -> None:
    _arm(draft, TimerKind.SYNC, member, member.metadata.rebalance_timeout_ms)


def _cancel(*kinds: TimerKind) -> Callable[[Draft, GroupMember], None]:
    def cancel(draft: Draft, member: GroupMember) -> None:
        timers = draft.group.timers.cancelled(member.member_id, *kinds)
        if timers is not draft.group.timers:
            draft.group = replace(draft.group, timers=timers)

    return cancel


def _cancel_rebalance_timer(draft: Draft, member: GroupMember) -> None:
    if not member.is_classic:
        _CANCEL_REBALANCE(draft, member)


_CANCEL_REBALANCE = _cancel(TimerKind.REBALANCE)

_MEMBER_EFFECTS: Mapping[object, Callable[[Draft, GroupMember], None]] = {
    Effect.WRITE_MEMBER: _write_member,
    Effect.WRITE_TARGET_ENTRY: _write_target_entry,
    Effect.WRITE_CURRENT_ASSIGNMENT: _write_current_assignment,
    Effect.CLEAR_PENDING: _void,
    Effect.REMOVE_CURRENT_ASSIGNMENT: _tombstone(RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT),
    Effect.REMOVE_TARGET_ENTRY: _tombstone(RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER),
    Effect.REMOVE_MEMBER: _tombstone(RecordType.CONSUMER_GROUP_MEMBER_METADATA),
    Effect.ARM_SESSION_TIMER: _arm_session_timer,
    Effect.ARM_REBALANCE_TIMER: _arm_rebalance_timer,
    Effect.CANCEL_REBALANCE_TIMER: _cancel_rebalance_timer,
    Effect.ARM_JOIN_TIMER: _arm_join_timer,
    Effect.CANCEL_JOIN_TIMER: _cancel(TimerKind.JOIN),
    Effect.ARM_SYNC_TIMER: _arm_sync_timer,
    Effect.CANCEL_SYNC_TIMER: _cancel(TimerKind.SYNC),
    Effect.CANCEL_ALL_TIMERS: _cancel(*TimerKind),
}


def away(member: GroupMember, dialect_keeps_epochs: bool) -> GroupMember:
    """A static member that leaves for a while: nothing pending, what is assigned counts as assigned long ago."""
    assigned = tuple((partition, 0) for partition, _ in member.current.assigned) if dialect_keeps_epochs else None
    current = replace(member.current, epoch=AWAY, pending=(), assigned=assigned or member.current.assigned)
    return replace(member, current=current)
