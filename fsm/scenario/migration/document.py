"""A group in migration under the rules of the design document, which differ from Kafka's.

* A member that returns with the consumer protocol takes its old place at once: epoch and partitions stay, without a
  rebalance.
* A bumped group epoch and the target that goes with it are two steps; the target is scripted, and the coordinator
  installs it by itself. Until then the old one remains, with members in it that have left.
* A member that joins is at epoch 0 before its first assignment.

Otherwise a member follows `fsm.coordinator.consumer.reconciliation`, without the choices of later releases.

Source: the section "Online Migration" of the design document, which `tests/cases/seed_migration.yaml` has as data, its
misprints corrected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fsm.coordinator.consumer.reconciliation import Reconciliation, reconcile
from fsm.coordinator.model.consumer_group import FREE, CurrentAssignment
from fsm.coordinator.model.dialect import Dialect
from fsm.errors import LocalProtocolError
from fsm.protocol.assignment import TopicPartitions, topic_partitions
from fsm.scenario.migration.view import MemberView, Numbers, View
from fsm.tables.consumer_group_member import State

RULES = Dialect("document", frozenset())


@dataclass(frozen=True, slots=True)
class DocumentMember:
    """A member of the group; for a classic one also whether its SyncGroup is missing."""

    is_classic: bool
    current: CurrentAssignment
    syncs: bool = False


@dataclass(frozen=True, slots=True)
class DocumentGroup:
    """The group of one topic."""

    topic: str
    epoch: int
    members: Mapping[str, DocumentMember]
    is_classic: bool = True
    target_epoch: int | None = None
    targets: Mapping[str, Numbers] | None = None

    def with_member(self, name: str, member: DocumentMember) -> DocumentGroup:
        """The group with this member added or replaced."""
        return replace(self, members={**self.members, name: member})

    def member(self, name: str) -> DocumentMember:
        """The member. Raises `LocalProtocolError` if there is none."""
        if name not in self.members:
            raise LocalProtocolError(f"{name} is not a member of the group")
        return self.members[name]

    def target_of(self, name: str) -> Numbers:
        """A member's part of the target."""
        return (self.targets or {}).get(name, ())


def begin(topic: str, generation: int, holds: Mapping[str, Numbers]) -> DocumentGroup:
    """A stable classic group."""
    members = {
        name: DocumentMember(is_classic=True, current=_assign_at(topic, generation, p)) for name, p in holds.items()
    }
    return DocumentGroup(topic, generation, members)


def _assign_at(topic: str, epoch: int, numbers: Numbers) -> CurrentAssignment:
    return CurrentAssignment(State.STABLE, epoch, epoch, tuple(((topic, n), 0) for n in sorted(numbers)))


def upgrade_member(group: DocumentGroup, name: str) -> DocumentGroup:
    """A member returns with the consumer protocol; the first one converts the group.

    The generation becomes the epoch, the assignment of the group its target and the members' assignment.
    """
    upgraded = replace(group.member(name), is_classic=False, syncs=False)
    if not group.is_classic:
        return group.with_member(name, upgraded)
    targets = {each: _numbers(member.current.assigned) for each, member in group.members.items()}
    converted = replace(group, is_classic=False, target_epoch=group.epoch, targets=targets)
    return converted.with_member(name, upgraded)


def leave(group: DocumentGroup, name: str) -> DocumentGroup:
    """A member is removed and the epoch bumped; the target stays. Raises `LocalProtocolError` for a classic group."""
    group.member(name)
    if group.is_classic:
        raise LocalProtocolError("the document does not say what a leave does to a classic group")
    return replace(group, epoch=group.epoch + 1, members={n: m for n, m in group.members.items() if n != name})


def install_target(group: DocumentGroup, targets: Mapping[str, Numbers]) -> DocumentGroup:
    """Installs a target for the current group epoch."""
    return replace(group, target_epoch=group.epoch, targets={n: tuple(sorted(p)) for n, p in targets.items()})


def send_heartbeat(
    group: DocumentGroup, name: str, epoch: int, owned: Numbers | None
) -> tuple[DocumentGroup, dict[str, object]]:
    """Handles a heartbeat of the consumer protocol; an unknown member at epoch 0 joins.

    Raises `LocalProtocolError` for a member at another epoch, and for a group that is not converted.
    """
    if group.is_classic:
        raise LocalProtocolError("the group is not converted")
    if name not in group.members and epoch == 0:
        joined = DocumentMember(is_classic=False, current=CurrentAssignment())
        return replace(group, epoch=group.epoch + 1).with_member(name, joined), {"epoch": 0, "assignment": ()}
    before = group.member(name)
    if before.is_classic or before.current.epoch != epoch:
        raise LocalProtocolError(f"{name} is at epoch {before.current.epoch} and sends {epoch}")
    after = _reconcile(group, name, owned)
    news = epoch == 0 or after.current.assigned != before.current.assigned
    answer: dict[str, object] = {
        "epoch": after.current.epoch,
        "assignment": _numbers(after.current.assigned) if news else None,
    }
    return group.with_member(name, after), answer


def send_classic_heartbeat(group: DocumentGroup, name: str) -> dict[str, object]:
    """The answer to a heartbeat of the classic protocol."""
    rejoins = not group.is_classic and _phase(group, name, group.member(name)) == "PreparingRebalance"
    return {"error": "REBALANCE_IN_PROGRESS" if rejoins else "NONE"}


def join_group(group: DocumentGroup, name: str, owned: Numbers) -> tuple[DocumentGroup, dict[str, object]]:
    """A classic member rejoins, and reports its owned partitions; its generation is its new epoch."""
    after = replace(_reconcile(group, name, owned), syncs=True)
    return group.with_member(name, after), {"generation": after.current.epoch}


def sync_group(group: DocumentGroup, name: str) -> tuple[DocumentGroup, dict[str, object]]:
    """A classic member fetches its assignment."""
    after = replace(group.member(name), syncs=False)
    return group.with_member(name, after), {"assignment": _numbers(after.current.assigned)}


def _reconcile(group: DocumentGroup, name: str, owned: Numbers | None) -> DocumentMember:
    member = group.member(name)
    holders = {p: m.current.epoch for m in group.members.values() for p in m.current.held}
    given = Reconciliation(
        target_epoch=group.target_epoch or 0,
        target=_partitions(group.topic, group.target_of(name)),
        owned=None if owned is None else _partitions(group.topic, owned),
        partition_epoch=lambda topic, number: holders.get((topic, number), FREE),
        subscribed={group.topic},
        names_topics=True,
        subscription_changed=False,
        dialect=RULES,
    )
    return replace(member, current=reconcile(member.current, given).member)


def _partitions(topic: str, numbers: Numbers) -> TopicPartitions:
    return topic_partitions({topic: numbers})


def _numbers(held: tuple[tuple[tuple[str, int], int], ...]) -> Numbers:
    return tuple(number for (_, number), _ in held)


# View


def make_view(group: DocumentGroup) -> View:
    """The group in the document's format."""
    members = {name: _member_view(group, name, member) for name, member in group.members.items()}
    return View(group.topic, group.is_classic, group.epoch, members, group.target_epoch, group.targets or {})


def _member_view(group: DocumentGroup, name: str, member: DocumentMember) -> MemberView:
    assigned, lacking = _numbers(member.current.assigned), State.UNRELEASED_PARTITIONS
    waits = member.current.state is lacking
    waiting = tuple(n for n in group.target_of(name) if n not in assigned) if waits else ()
    phase = _phase(group, name, member) if member.is_classic else ""
    return MemberView(
        member.is_classic, member.current.epoch, assigned, _numbers(member.current.pending), waiting, phase
    )


def _phase(group: DocumentGroup, name: str, member: DocumentMember) -> str:
    if member.syncs:
        return "CompletingRebalance"
    return "PreparingRebalance" if _must_rejoin(group, name, member) else "Stable"


def _must_rejoin(group: DocumentGroup, name: str, member: DocumentMember) -> bool:
    current = member.current
    if current.epoch < (group.target_epoch or 0) or current.state is State.UNREVOKED_PARTITIONS:
        return True
    held = {number for each in group.members.values() for _, number in each.current.held}
    waits = current.state is State.UNRELEASED_PARTITIONS
    return waits and not held & set(group.target_of(name)) - set(_numbers(current.assigned))
