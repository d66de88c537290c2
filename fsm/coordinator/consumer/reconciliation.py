"""The coordinator's side of reconciliation: one member of a consumer group in one request.

`reconcile` is a pure function over frozen values. It returns its decision, an event of the table
`consumer-group-member`, and the resulting member; the caller writes a record if the decision's row orders one. The
rules are named as in the `clause` of the table's rows: by the member's state (S, V, L, K), then the trim (U) or the
computation (C).

Source: `CurrentAssignmentBuilder` of apache/kafka 4.4 (87943b2ff874). Membership, targets and authorization are decided
elsewhere.
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
"""The member epoch of a partition's holder before this request, -1 if it has none."""


class Reconciliation(NamedTuple):
    """The inputs of one request beside the member itself."""

    target_epoch: int
    """Epoch of the target that the request works towards; with a delayed computation below the group epoch."""
    target: TopicPartitions
    owned: TopicPartitions | None
    """Partitions reported in this request: None if the field is absent, () if it is empty."""
    partition_epoch: PartitionEpoch
    subscribed: AbstractSet[TopicId]
    """Existing topics among the member's names and the resolved topics of its regular expression."""
    names_topics: bool
    """Whether the subscription has any topic, existing or not, as Kafka's `TopicIds.isEmpty` checks."""
    subscription_changed: bool
    """Whether this request changed names or regular expression."""
    dialect: Dialect

    @property
    def filters(self) -> bool:
        """Whether partitions are filtered by the subscription."""
        return FILTERS in self.dialect.choices

    @property
    def changed(self) -> bool:
        """Whether the subscription changed, in dialects that check it."""
        return self.subscription_changed and self.filters

    def owns_any(self, partitions: Container[Partition]) -> bool:
        """Whether one of them is reported as owned, or nothing is reported at all."""
        return self.owned is None or any(partition in partitions for partition in flatten(self.owned))


class Decision(NamedTuple):
    """The decision, and the resulting member; the same object if nothing changes."""

    event: Event
    member: CurrentAssignment


def reconcile(member: CurrentAssignment, given: Reconciliation) -> Decision:
    """The decision about a member and the member it leads to.

    `UNKNOWN_STATE_FENCED` stands for the error FENCED_MEMBER_EPOCH: the member is then unchanged.

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
    """A STABLE member moves to a newer target; at the same epoch only a changed subscription revokes partitions."""
    if member.epoch != given.target_epoch:
        return _compute(member, given, member.epoch)
    return _trim(member, given) if given.changed else Decision(Event.SAME, member)


def _reconcile_unrevoked(member: CurrentAssignment, given: Reconciliation) -> Decision:
    """An UNREVOKED_PARTITIONS member continues once it reports no partition that it must revoke."""
    if given.owns_any(dict(member.pending)):
        if given.changed:
            return _trim(member, given)
        return Decision(Event.REVOCATION_NOT_REPORTED if given.owned is None else Event.REVOCATION_INCOMPLETE, member)
    stays = Choice.REVOKES_AGAIN_AT_OWN_EPOCH in given.dialect
    return _compute(member, given, member.epoch if stays else member.epoch + 1)


def _reconcile_unreleased(member: CurrentAssignment, given: Reconciliation) -> Decision:
    """An UNRELEASED_PARTITIONS member tries again to get partitions of others."""
    return _compute(member, given, member.epoch)


def _reconcile_unknown(member: CurrentAssignment, given: Reconciliation) -> Decision:
    """An UNKNOWN member is fenced unless it reports an empty ownership."""
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
    """Revokes partitions that are no longer subscribed, if no new ones may be granted yet."""
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
    """The decision if nothing is revoked. Kafka still writes a record for a member without topics and partitions."""
    if given.names_topics or member.held or rewritten == member:
        return Decision(Event.TRIM_NOTHING, member)
    return Decision(Event.TRIM_NOTHING_REWRITTEN, rewritten)


def _compute(member: CurrentAssignment, given: Reconciliation, base: int) -> Decision:
    """The next step towards the target; `base` is the member epoch if partitions must be revoked first."""
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
    """The free partitions. Those that the member itself must still revoke are not free."""
    is_own = dict(member.pending) if member.pending and OWN_PENDING_NEVER_BLOCKS in given.dialect.choices else ()
    return [partition for partition in wanted if given.partition_epoch(*partition) == FREE or partition in is_own]


def freeze(epochs: Mapping[Partition, int]) -> Held:
    """The frozen form of partitions with their assignment epochs."""
    return tuple(sorted(epochs.items()))
