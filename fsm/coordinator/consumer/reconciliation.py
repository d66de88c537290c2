"""What becomes of one member of a consumer group in one request: the coordinator's side of reconciliation.

A pure function over frozen values. `reconcile` names its decision, an event of the table `consumer-group-member`, and
gives the member as it is afterwards; the caller writes a record where the decision's row orders one. The rules are
named as in the `clause` of the table's rows: by the member's state (S, V, L, K), then the trim (U) or the computation
(C).

Source: `CurrentAssignmentBuilder` of apache/kafka 4.4 (87943b2ff874). Who is in the group, which target is due and who
may ask are not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import NamedTuple

from fsm.coordinator.model.consumer_group import FREE, CurrentAssignment, Held, Partition
from fsm.coordinator.model.dialect import Choice, Dialect
from fsm.protocol.assignment import TopicId, TopicPartitions, flatten
from fsm.tables.consumer_group_member import Event, State

STABLE, UNREVOKED, UNRELEASED = State.STABLE, State.UNREVOKED_PARTITIONS, State.UNRELEASED_PARTITIONS
FILTERS, KEEPS_EPOCHS = Choice.SUBSCRIPTION_FILTERS_TARGET, Choice.ASSIGNMENT_EPOCHS
OWN_PENDING_NEVER_BLOCKS, REVOKE_NEEDED = Choice.OWN_PENDING_NEVER_BLOCKS, Event.REVOKE_NEEDED

PartitionEpoch = Callable[[TopicId, int], int]
"""The member epoch of a partition's holder before this request, -1 where nobody holds it."""


class Reconciliation(NamedTuple):
    """The inputs of one request beside the member itself."""

    target_epoch: int
    """Epoch of the target that the request works towards; with a delayed computation below the group epoch."""
    target: TopicPartitions
    owned: TopicPartitions | None
    """Partitions reported in this request: None where the field is absent, () where it is empty."""
    partition_epoch: PartitionEpoch
    subscribed: AbstractSet[TopicId]
    """Existing topics among the member's names and the resolved topics of its regular expression."""
    names_topics: bool
    """Whether these name any topic, existing or not: what Kafka's `TopicIds.isEmpty` asks."""
    subscription_changed: bool
    """Whether this request changed names or regular expression."""
    dialect: Dialect

    @property
    def filters(self) -> bool:
        """Whether the subscription counts."""
        return FILTERS in self.dialect.choices

    @property
    def changed(self) -> bool:
        """Whether the subscription changed, as far as the dialect looks."""
        return self.subscription_changed and self.filters

    def owns_any(self, partitions: Container[Partition]) -> bool:
        """Whether one of them is reported as owned, or nothing is reported at all."""
        return self.owned is None or any(partition in partitions for partition in flatten(self.owned))


class Decision(NamedTuple):
    """What was decided, and the member afterwards; the same object where nothing changes."""

    event: Event
    member: CurrentAssignment


def reconcile(member: CurrentAssignment, given: Reconciliation) -> Decision:
    """The decision about a member and the member it leads to.

    `UNKNOWN_STATE_FENCED` stands for the error FENCED_MEMBER_EPOCH: the member is then as it was.

    >>> from fsm.coordinator.model.dialect import dialect
    >>> given = Reconciliation(target_epoch=2, target=(("foo", (0, 1)),), owned=(),
    ...     partition_epoch=lambda topic_id, partition: -1, subscribed={"foo"}, names_topics=True,
    ...     subscription_changed=False, dialect=dialect("4.4"))
    >>> decision = reconcile(CurrentAssignment(), given)
    >>> decision.event.name, decision.member.epoch, decision.member.assigned
    ('GRANTED_ALL', 2, ((('foo', 0), 2), (('foo', 1), 2)))
    """
    return _BY_STATE[member.state](member, given)


def _reconcile_stable(member: CurrentAssignment, given: Reconciliation) -> Decision:
    """A STABLE member goes on to a newer target; at its epoch only a changed subscription takes something from it."""
    if member.epoch != given.target_epoch:
        return _compute(member, given, member.epoch)
    return _trim(member, given) if given.changed else Decision(Event.SAME, member)


def _reconcile_unrevoked(member: CurrentAssignment, given: Reconciliation) -> Decision:
    """An UNREVOKED_PARTITIONS member goes on once it reports no partition that it must revoke."""
    if given.owns_any(dict(member.pending)):
        if given.changed:
            return _trim(member, given)
        return Decision(Event.REVOCATION_NOT_REPORTED if given.owned is None else Event.REVOCATION_INCOMPLETE, member)
    stays = Choice.REVOKES_AGAIN_AT_OWN_EPOCH in given.dialect
    return _compute(member, given, member.epoch if stays else member.epoch + 1)


def _reconcile_unreleased(member: CurrentAssignment, given: Reconciliation) -> Decision:
    """An UNRELEASED_PARTITIONS member tries again to get what others had."""
    return _compute(member, given, member.epoch)


def _reconcile_unknown(member: CurrentAssignment, given: Reconciliation) -> Decision:
    """An UNKNOWN member is fenced unless it reports that it owns nothing."""
    if given.owned is None or given.owned:
        return Decision(Event.UNKNOWN_STATE_FENCED, member)
    return _compute(member, given, given.target_epoch)


_BY_STATE: Mapping[State, Callable[[CurrentAssignment, Reconciliation], Decision]] = {
    STABLE: _reconcile_stable,
    UNREVOKED: _reconcile_unrevoked,
    UNRELEASED: _reconcile_unreleased,
    State.UNKNOWN: _reconcile_unknown,
}


def _trim(member: CurrentAssignment, given: Reconciliation) -> Decision:
    """Takes back what is no longer subscribed, where nothing new may be granted yet."""
    drop = {partition: epoch for partition, epoch in member.assigned if partition[0] not in given.subscribed}
    pending = {**dict(member.pending), **drop}
    moves = Choice.TRIM_MOVES_PREVIOUS_EPOCH in given.dialect
    trimmed = replace(
        member,
        previous_epoch=member.epoch if moves else member.previous_epoch,
        assigned=tuple(entry for entry in member.assigned if entry[0] not in drop),
    )
    if not drop:
        return _keep_all(member, trimmed, given)
    if given.owns_any(pending):
        revoking = replace(trimmed, state=UNREVOKED, pending=freeze(pending))
        return Decision(Event.TRIM_REVOKE_NEEDED, revoking)
    return Decision(Event.TRIM_RELEASED, trimmed)


def _keep_all(member: CurrentAssignment, rewritten: CurrentAssignment, given: Reconciliation) -> Decision:
    """Nothing to take back. Kafka writes a member all the same that names no topic and has nothing."""
    if given.names_topics or member.held or rewritten == member:
        return Decision(Event.TRIM_NOTHING, member)
    return Decision(Event.TRIM_NOTHING_REWRITTEN, rewritten)


def _compute(member: CurrentAssignment, given: Reconciliation, base: int) -> Decision:
    """The next step towards the target; `base` is the epoch where partitions must be revoked first."""
    kept: dict[Partition, int] = {}
    wanted: list[Partition] = []
    lost, filters = dict(member.assigned), given.filters
    for topic_id, numbers in given.target:
        if filters and topic_id not in given.subscribed:
            continue
        for number in numbers:
            partition = topic_id, number
            assigned_at = lost.pop(partition, None)
            if assigned_at is None:
                wanted.append(partition)
            else:
                kept[partition] = assigned_at
    if lost and given.owns_any(lost):
        return Decision(REVOKE_NEEDED, CurrentAssignment(UNREVOKED, base, member.epoch, freeze(kept), freeze(lost)))
    granted = _find_granted(member, given, wanted)
    kept.update(dict.fromkeys(granted, given.target_epoch if KEEPS_EPOCHS in given.dialect.choices else 0))
    blocked = len(granted) < len(wanted)
    settled = CurrentAssignment(UNRELEASED if blocked else STABLE, given.target_epoch, member.epoch, freeze(kept))
    if settled == member:
        return Decision(Event.STILL_BLOCKED, member)
    return Decision(_GRANTS[bool(granted), blocked], settled)


_GRANTS: Mapping[tuple[bool, bool], Event] = {
    (True, True): Event.GRANTED_SOME_BLOCKED,
    (True, False): Event.GRANTED_ALL,
    (False, True): Event.ALL_BLOCKED,
    (False, False): Event.NOTHING_TO_GRANT,
}
"""C2 to C5, by whether partitions are granted and whether others are blocked."""


def _find_granted(member: CurrentAssignment, given: Reconciliation, wanted: list[Partition]) -> list[Partition]:
    """Those that nobody holds. The member's own pending ones are on their way out and do not count."""
    is_own = dict(member.pending) if member.pending and OWN_PENDING_NEVER_BLOCKS in given.dialect.choices else ()
    return [partition for partition in wanted if given.partition_epoch(*partition) == FREE or partition in is_own]


def freeze(epochs: Mapping[Partition, int]) -> Held:
    """The frozen form of partitions with their assignment epochs."""
    return tuple(sorted(epochs.items()))
