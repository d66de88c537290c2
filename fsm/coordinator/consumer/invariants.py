"""The invariants of a consumer group, between steps and of one step: predicates with their numbers.

The numbers are those of `diagrams/hazards.md`, "Invariants of a consumer group".

Each takes a `Moment`, the group before and after one step with the request and its answer, and says whether it holds.
`find_broken` names those that do not. The predicates document exceptions that Kafka has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from fsm.coordinator.model.consumer_group import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerGroup,
    GroupMember,
    Partition,
    find_topics,
)
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.step import Answer
from fsm.coordinator.model.timers import TimerKind
from fsm.protocol.assignment import flatten
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from fsm.tables.consumer_group import State as GroupState
from fsm.tables.consumer_group_member import State


@dataclass(frozen=True)
class Moment:
    """One step of one group."""

    before: ConsumerGroup | None
    """None if the step created the group."""
    after: ConsumerGroup
    context: Context
    sent: ConsumerGroupHeartbeatRequest | None = None
    """The consumer heartbeat that was handled; None for another kind of step."""
    answer: Answer | None = None

    @cached_property
    def members(self) -> tuple[GroupMember, ...]:
        """The members after the step."""
        return tuple(self.after.members.values())

    @property
    def target_epoch(self) -> int:
        """The target epoch after the step."""
        return self.after.target_epoch

    @cached_property
    def response(self) -> ConsumerGroupHeartbeatResponse | None:
        """The answer to a consumer heartbeat."""
        body = self.answer and self.answer.body
        return body if isinstance(body, ConsumerGroupHeartbeatResponse) else None

    @cached_property
    def error(self) -> ErrorCode:
        """The answer's error."""
        return self.response.error_code if self.response else ErrorCode.NONE

    @cached_property
    def speaker(self) -> GroupMember | None:
        """The sender of an accepted request, as it is afterwards; None if it left."""
        if self.response is None or self.sent is None or self.error or self.sent.member_epoch < 0:
            return None
        found: GroupMember | None = self.after.members.by_id.get(self.response.member_id or "")
        return found

    def has(self, choice: Choice) -> bool:
        """Whether the dialect has the choice."""
        return choice in self.context.dialect

    @cached_property
    def moved(self) -> tuple[tuple[GroupMember, GroupMember], ...]:
        """Members present before and after the step that have changed."""
        if self.before is None or self.before.members is self.after.members:
            return ()
        after = self.after.members.by_id
        pairs = [(member, after.get(member_id)) for member_id, member in self.before.members.items()]
        return tuple((old, new) for old, new in pairs if new is not None and new is not old)

    @cached_property
    def held(self) -> Mapping[str, frozenset[Partition]]:
        """What each member holds after the step."""
        return {member.member_id: member.current.held for member in self.members}

    @cached_property
    def held_before(self) -> Mapping[str, frozenset[Partition]]:
        """What each member held before the step."""
        if self.before is None:
            return {}
        if self.before.members is self.after.members:
            return self.held
        return {member_id: member.current.held for member_id, member in self.before.members.items()}


def target_of(group: ConsumerGroup, member: GroupMember) -> set[Partition]:
    """A member's part of the target, one by one."""
    return set(flatten(group.targets.get(member.member_id, ())))


def list_assigned(member: GroupMember) -> set[Partition]:
    """The partitions assigned to a member, one by one."""
    return {partition for partition, _ in member.current.assigned}


def is_reconciled(member: GroupMember, target_epoch: int) -> bool:
    """Whether the member has reached that epoch and target."""
    return member.current.state is State.STABLE and member.epoch == target_epoch


def _single_holder(at: Moment) -> bool:
    held = [partition for one in at.held.values() for partition in one]
    return len(held) == len(set(held))


def _disjoint_parts(at: Moment) -> bool:
    return all(
        len(m.current.assigned) + len(m.current.pending) == len(dict((*m.current.assigned, *m.current.pending)))
        for m in at.members
    )


def _ownership_map(at: Moment) -> bool:
    return dict(at.after.members.holders) == {p: m.epoch for m in at.members for p in at.held[m.member_id]}


def _epoch_order(at: Moment) -> bool:
    ordered = at.target_epoch <= at.after.epoch
    return ordered and all(
        -1 <= m.current.previous_epoch <= m.epoch <= at.target_epoch for m in at.members if m.epoch >= 0
    )


def _pending_while_revoking(at: Moment) -> bool:
    """A static member that is away may be UNREVOKED with nothing pending."""
    highest = at.target_epoch if at.has(Choice.SUBSCRIPTION_FILTERS_TARGET) else at.target_epoch - 1
    for member in at.members:
        if member.current.state is not State.UNREVOKED_PARTITIONS:
            if member.current.pending:
                return False
        elif member.epoch >= 0 and not (member.current.pending and member.epoch <= highest):
            return False
    return True


def _is_settled(at: Moment) -> bool:
    there = [m for m in at.members if is_reconciled(m, at.target_epoch)]
    return all(list_assigned(m) <= target_of(at.after, m) for m in there)


def _waiting_means_short(at: Moment) -> bool:
    waiting = (m for m in at.members if m.current.state is State.UNRELEASED_PARTITIONS)
    return all(list_assigned(m) < target_of(at.after, m) for m in waiting if m.epoch == at.target_epoch)


def _waits_for_others(at: Moment) -> bool:
    """A member that begins or continues to wait does so for partitions that another member held.

    A static member that leaves temporarily keeps its state, and waits for nothing.
    """
    if not at.has(Choice.OWN_PENDING_NEVER_BLOCKS):
        return True
    for old, new in at.moved:
        is_away = new.epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH
        if is_away or new.current.state is not State.UNRELEASED_PARTITIONS or new.current == old.current:
            continue
        others = (held for member_id, held in at.held_before.items() if member_id != new.member_id)
        if (target_of(at.after, new) - list_assigned(new)).isdisjoint(chain.from_iterable(others)):
            return False
    return True


def _waits_at_the_target(at: Moment) -> bool:
    """A static member that leaves temporarily keeps its state."""
    waiting = (new for old, new in at.moved if new.current != old.current and new.epoch >= 0)
    return all(m.epoch == at.target_epoch for m in waiting if m.current.state is State.UNRELEASED_PARTITIONS)


def _derived_state(at: Moment) -> bool:
    """The state derived by iterating over the members; the group itself keeps counts."""
    members, group = at.members, at.after
    if not members:
        return group.state is GroupState.EMPTY
    if group.epoch > at.target_epoch:
        return group.state is GroupState.ASSIGNING
    arrived = all(m.current.state is State.STABLE and m.epoch == at.target_epoch for m in members)
    return group.state is (GroupState.STABLE if arrived else GroupState.RECONCILING)


def _size_is_limited(at: Moment) -> bool:
    before = () if at.before is None else at.before.members
    return len(at.members) <= max(len(before), at.context.config.group_consumer_max_size)


def _is_at_rest(at: Moment) -> bool:
    """STABLE, no regular expression unresolved, no topic changed unnoticed, a target that follows the subscriptions."""
    resolved = all(pattern in at.after.regexes for pattern in at.after.members.patterns)
    return at.after.state is GroupState.STABLE and resolved and not at.after.metadata_due and _target_fits(at)


def _target_fits(at: Moment) -> bool:
    """Whether each member subscribes to all topics of its target."""
    return all(
        {topic_id for topic_id, _ in target_of(at.after, m)}
        <= find_topics(at.after.names_of(m), at.context.image.topics)
        for m in at.members
    )


def _stable_has_its_target(at: Moment) -> bool:
    if at.after.state is not GroupState.STABLE:
        return True
    if at.after.epoch != at.target_epoch or not all(is_reconciled(m, at.target_epoch) for m in at.members):
        return False
    return not _is_at_rest(at) or all(list_assigned(m) == target_of(at.after, m) for m in at.members)


def _coverage(at: Moment) -> bool:
    """For assignors that assign every partition.

    A delayed target that a joiner without subscription triggers (see 12) may use the joiner's subscription, and is then
    empty.
    """
    if not _is_at_rest(at):
        return True
    if not any(at.after.targets.values()) and not all(
        find_topics(at.after.names_of(m), at.context.image.topics) for m in at.members
    ):
        return True
    topics = at.context.image.topics
    wanted = {
        (topics[name].topic_id, number)
        for name in at.after.subscribed_names()
        if name in topics
        for number in range(topics[name].partitions)
    }
    return wanted == set(at.after.members.holders)


def _targets_disjoint(at: Moment) -> bool:
    given = [p for target in at.after.targets.values() for p in flatten(target)]
    return len(given) == len(set(given)) and at.after.targets.keys() <= at.after.members.keys()


def _target_follows_subscription(at: Moment) -> bool:
    """If the request does not bump the epoch, Kafka uses the type of subscription from before it.

    So a delayed target that a joiner without subscription triggers may treat all members alike, the joiner included.
    The joiner's part is never assigned, and no member has it until the next target.
    """
    if at.before is None or at.target_epoch == at.before.target_epoch or at.after.is_empty:
        return True
    return at.after.epoch == at.before.epoch or _target_fits(at)


def _static_mapping(at: Moment) -> bool:
    static = {m.instance_id: m.member_id for m in at.members if m.instance_id is not None}
    known = dict(at.after.members.static)
    if at.has(Choice.INSTANCE_CHANGE_DROPS_MAPPING):
        return known == static
    return static.items() <= known.items()


def _common_protocol(at: Moment) -> bool:
    members = at.after.members
    return not members.classic or members.classic in members.protocols.values()


def _timers(at: Moment) -> bool:
    timers = at.after.timers
    if not all((TimerKind.SESSION, m.member_id) in timers for m in at.members):
        return False
    for (kind, member_id), _, epoch in timers.in_order():
        member = at.after.members.by_id.get(member_id)
        if kind is not TimerKind.REBALANCE or member is None or member.epoch != epoch:
            continue
        if member.current.state is not State.UNREVOKED_PARTITIONS:
            return False
    return True


def _revoking_has_a_deadline(at: Moment) -> bool:
    """A member that changed from the classic protocol while it was UNREVOKED may lack its rebalance timer."""
    revoking = (m for m in at.members if m.current.state is State.UNREVOKED_PARTITIONS and m.epoch >= 0)
    return all((TimerKind.REBALANCE, m.member_id) in at.after.timers for m in revoking if not m.is_classic)


def _assignment_epochs(at: Moment) -> bool:
    if not at.has(Choice.ASSIGNMENT_EPOCHS):
        return True
    entries = ((m, epoch) for m in at.members for _, epoch in (*m.current.assigned, *m.current.pending))
    return all(0 <= e <= at.target_epoch and (m.epoch <= 0 or e <= m.epoch) for m, e in entries)


def _target_time(at: Moment) -> bool:
    levelled = at.target_epoch == at.after.epoch or not at.has(Choice.EMPTIED_GROUP_SETS_TARGET_EPOCH)
    return 0 <= at.after.target_time_ms <= at.context.now_ms and (levelled or not at.after.is_empty)


def _epochs_never_fall(at: Moment) -> bool:
    if at.before is None:
        return True
    if at.after.epoch < at.before.epoch or at.target_epoch < at.before.target_epoch:
        return False
    return all(new.epoch >= old.epoch for old, new in at.moved if old.epoch >= 0 and new.epoch >= 0)


def _one_bump_at_most(at: Moment) -> bool:
    return at.before is None or at.sent is None or at.after.epoch - at.before.epoch in {0, 1}


def _whoever_goes_bumps(at: Moment) -> bool:
    """A static member that another process replaces does not go, and stays under its instance id."""
    if at.before is None or at.before.members is at.after.members or at.after.epoch > at.before.epoch:
        return True
    return set(map(_place, at.before.members.values())) <= set(map(_place, at.members))


def _place(member: GroupMember) -> str:
    return member.instance_id or member.member_id


def _remembers_its_epoch(at: Moment) -> bool:
    """It is accepted once more if the answer with the new one is lost."""
    moved = ((old.current, new.current) for old, new in at.moved if new.epoch > old.epoch > 0)
    return all(new.previous_epoch == old.epoch for old, new in moved)


def _targets_stay(at: Moment) -> bool:
    if at.before is None or at.target_epoch != at.before.target_epoch:
        return True
    old, new = at.before.targets, at.after.targets
    return old is new or all(old.get(m, ()) == new.get(m, ()) for m in at.before.members if m in at.after.members)


def _revoked_before_assigned(at: Moment) -> bool:
    """A member stops holding a partition only if it reported the revocation, left, or was replaced under another id."""
    if at.before is None:
        return True
    for old, _ in at.moved:
        lost = at.held_before[old.member_id] - at.held[old.member_id]
        if lost and not _gave_up(at, old, lost):
            return False
    return all(_came_free(at, member_id, held) for member_id, held in at.held.items())


def _gave_up(at: Moment, member: GroupMember, lost: Iterable[Partition]) -> bool:
    if at.sent is None or at.sent.member_id != member.member_id:
        return False
    if at.sent.member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        return set(lost) <= dict(member.current.pending).keys()
    return at.sent.topic_partitions is not None and set(lost).isdisjoint(flatten(at.sent.topic_partitions))


def _came_free(at: Moment, member_id: str, held: frozenset[Partition]) -> bool:
    """A partition that a member newly holds had no other holder before, except the member that it replaced."""
    taken = held - at.held_before.get(member_id, frozenset())
    return not taken or all(
        old_id not in at.after.members or taken.isdisjoint(old)
        for old_id, old in at.held_before.items()
        if old_id != member_id
    )


def _revoking_grants_nothing(at: Moment) -> bool:
    return all(
        list_assigned(new) <= list_assigned(old)
        for old, new in at.moved
        if new.current.state is State.UNREVOKED_PARTITIONS and new.current != old.current
    )


def _silence_means_unchanged(at: Moment) -> bool:
    if at.speaker is None or at.response is None or at.response.assignment is not None or at.before is None:
        return True
    old = at.before.members.by_id.get(at.speaker.member_id)
    return old is not None and old.current.assigned == at.speaker.current.assigned


def _answer_has_the_epoch(at: Moment) -> bool:
    if at.speaker is None or at.response is None:
        return True
    return bool(at.response.member_epoch == at.speaker.epoch >= 1)


def _joiner_hears_everything(at: Moment) -> bool:
    if at.speaker is None or at.response is None or at.sent is None or at.sent.member_epoch != JOIN_GROUP_MEMBER_EPOCH:
        return True
    return bool(at.response.assignment == at.speaker.assigned)


def _interval(at: Moment) -> bool:
    if at.before is None or at.target_epoch == at.before.target_epoch or at.after.is_empty:
        return True
    interval_ms = at.context.config.assignment_interval_ms(at.after.group_id)
    if not at.has(Choice.ASSIGNMENT_INTERVAL) or not interval_ms or not at.before.target_time_ms:
        return True
    return at.context.now_ms >= at.before.target_time_ms + interval_ms


Invariant = tuple[str, Callable[[Moment], bool]]

OF_STATES: tuple[Invariant, ...] = (
    ("1 a partition has one holder", _single_holder),
    ("2 assigned and pending are disjoint", _disjoint_parts),
    ("3 the ownership map follows from the members", _ownership_map),
    ("4 epochs are in order", _epoch_order),
    ("5 who revokes has something pending, nobody else has", _pending_while_revoking),
    ("6 who is settled has nothing beyond its target", _is_settled),
    ("7 who waits lacks something", _waiting_means_short),
    ("8 the state follows from epochs and members", _derived_state),
    ("9 a group at rest has its target", _stable_has_its_target),
    ("10 a group at rest holds every subscribed partition", _coverage),
    ("11 targets are disjoint and belong to members", _targets_disjoint),
    ("13 instance ids lead to their members", _static_mapping),
    ("15 classic members have a protocol in common", _common_protocol),
    ("18 assignment epochs are in order", _assignment_epochs),
)
"""Invariants of members, epochs, targets and topics between two steps."""

OF_STEPS: tuple[Invariant, ...] = (
    ("7 who begins to wait waits for others", _waits_for_others),
    ("7 who begins to wait has the target's epoch", _waits_at_the_target),
    ("12 a new target follows the subscriptions", _target_follows_subscription),
    ("14 a group grows up to its limit", _size_is_limited),
    ("17 sessions and rebalance timers belong to members", _timers),
    ("17 who revokes has a deadline", _revoking_has_a_deadline),
    ("19 the target's time is past", _target_time),
    ("20 epochs never fall", _epochs_never_fall),
    ("20 a member's last epoch is its previous one", _remembers_its_epoch),
    ("21 a request bumps once at most", _one_bump_at_most),
    ("33 whoever goes bumps the group epoch", _whoever_goes_bumps),
    ("22 targets change with their epoch", _targets_stay),
    ("23 partitions are revoked before they are assigned", _revoked_before_assigned),
    ("24 who must revoke is granted nothing", _revoking_grants_nothing),
    ("25 an error changes nothing", lambda at: not at.error or at.before == at.after),
    ("26 no assignment in the answer means the same one", _silence_means_unchanged),
    ("27 the answer tells the member's epoch", _answer_has_the_epoch),
    ("27 a joiner is told all it has", _joiner_hears_everything),
    ("28 targets keep their distance in time", _interval),
)
"""Invariants of a step, or of the passage of time."""

INVARIANTS = (*OF_STATES, *OF_STEPS)
"""By number: 16 needs clients; 29 to 31 are about two types of group, 32 about offsets."""


def find_broken(at: Moment, *, held_before: bool = False) -> list[str]:
    """The invariants that do not hold.

    If all held before the step, with the same topics, those of states are evaluated only if the step changed the state.
    """
    unchanged = held_before and at.before is not None and _visible(at.before) == _visible(at.after)
    return [name for name, holds in (OF_STEPS if unchanged else INVARIANTS) if not holds(at)]


def _visible(group: ConsumerGroup) -> tuple[object, ...]:
    """The parts of the group that invariants of states depend on; large ones are compared by identity."""
    large = (group.members, group.targets, group.regexes)
    return (*map(id, large), group.epoch, group.target_epoch, group.metadata_due)
