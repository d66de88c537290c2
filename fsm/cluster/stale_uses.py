"""Partitions that clients use although the coordinator does not count them as theirs: causes of double ownership.

A use of a partition is *stale* from the step in which the coordinator stops counting it as its user's, or from its
beginning if it was never counted, until the use ends or the partition is assigned to that user again. The cause is that
of the step: a timer, a request, a change of the group's type. Two applications may use one partition only if the uses
of all but one of them are stale, for a known cause.

A classic group does not know the owners of partitions: its members count if they take part in every generation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fsm.cluster.client import Client
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import JOIN_GROUP_MEMBER_EPOCH, ConsumerGroup, GroupMember
from fsm.coordinator.model.context import Image
from fsm.coordinator.model.groups import Group
from fsm.coordinator.model.persistent import PersistentMap
from fsm.coordinator.model.timers import TimerKind
from fsm.protocol.assignment import Partitions, TopicPartition, partitions
from fsm.protocol.consumer_protocol import decode_assignment, decode_subscription
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest, JoinGroupRequest, LeaveGroupRequest
from fsm.tables.classic_group import State

CAUSES: Mapping[str, str] = {
    "A5": "it left at its poll timeout, and its application has not noticed",
    "A7": "its callback outlived the rebalance timeout, and its coordinator removed it",
    "expired": "nothing was heard of it for a session",
    "late join": "it was told to join again and did not in time: its callback outlived the rebalance timeout",
    "late sync": "it joined, and did not fetch its assignment in time",
    "replaced": "another process took its instance id",
    "upgraded": "the group became a consumer group while it still used what its last classic assignment lacks",
    "downgraded": "the group became a classic group while it still used what it was to give up",
    "W1": "it began to use what it had left out of a report, whose answer it has not heard",
    "W2": "removed, and made anew without a word when it joined with its old id",
    "W6": "a late duplicate of its join acknowledged what it still used",
    "untold": "its member gave the partition up, and the application was never called back: a fault of the client",
}
NOBODY: PersistentMap[str, Any] = PersistentMap()
Predicate = Callable[[TopicPartition], bool]
TIMERS = {
    TimerKind.SESSION: "expired",
    TimerKind.REBALANCE: "A7",
    TimerKind.JOIN: "late join",
    TimerKind.SYNC: "late sync",
}


class Change(NamedTuple):
    """One step of the coordinator."""

    before: Group | None
    after: Group | None
    image: Image
    now_ms: int
    client: str = ""
    """The sender of the request; empty for a timer."""
    token: int = 0
    request: Any = None
    """The request; None for a timer."""
    is_duplicate: bool = False
    """Whether it is a late duplicate."""

    @property
    def is_join(self) -> bool:
        """Whether it is a JoinGroup."""
        return isinstance(self.request, JoinGroupRequest)

    @property
    def is_shown(self) -> bool:
        """Whether the description of the group changes."""
        old, new = self.before, self.after
        return old is None or new is None or old.members is not new.members or old.state is not new.state


@dataclass
class StaleUses:
    """The stale uses of all clients."""

    causes: dict[str, dict[TopicPartition, str | None]] = field(default_factory=dict)
    """By the client's name, the partitions and the causes."""
    removed: dict[str, str | None] = field(default_factory=dict)
    """By member id, why the coordinator removed it."""
    released: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    """By the client's name, partitions that its last reports left out because it did not use them, which the
    coordinator freed at once. Each with the token of the report, until an answer to it or to a later one is received.
    """
    swapped: int | None = None
    """The generation in which a static member returned with another subscription without a rebalance."""

    def note_step(self, change: Change, clients: Iterable[Client]) -> None:
        """Notes a step of the coordinator that changed the group."""
        gone, come = _compare_members(change.before, change.after)
        self.swapped = _find_swap(change, self.swapped, is_exchange=bool(gone and come))
        for member_id in sorted(gone):
            self.removed[member_id] = _why_removed(change, member_id)
        returned = {member_id for member_id in come if member_id in self.removed}
        for client in clients:
            if client.using or client.name in self.causes:
                self._judge(client, change)
            if change.client == client.name:
                self._note_released(client, change)
            if client.member_id in returned and isinstance(change.after, ConsumerGroup) and change.is_join:
                self.causes[client.name] = dict.fromkeys(self.causes.get(client.name, ()), "W2")
        for member_id in returned:
            del self.removed[member_id]

    def _judge(self, client: Client, change: Change) -> None:
        found = self.causes.setdefault(client.name, {})
        is_out_of_step, loses = _is_out_of_step(client, change), _loses(client, change)
        gives = _assigns(change.after, client.member_id, change.image)
        for one in client.using:
            if is_out_of_step or loses(one):
                found[one] = self._why(client, change)
            if one in found and gives(one):
                del found[one]

    def _note_released(self, client: Client, change: Change) -> None:
        sent = change.request
        if isinstance(sent, ConsumerGroupHeartbeatRequest) and sent.topic_partitions is not None:
            before, after = (_list_owned(g, client.member_id, change.image) for g in (change.before, change.after))
            lost = before - after - {*client.using}
            self.released.setdefault(client.name, {}).update(dict.fromkeys(lost, change.token))

    def note_answer(self, name: str, token: int) -> None:
        """Notes that the client receives the response to this request."""
        self.released[name] = {one: sent for one, sent in self.released.get(name, {}).items() if sent > token}

    def _why(self, client: Client, change: Change) -> str | None:
        if client.member_id in self.removed:
            return self.removed[client.member_id]
        if type(change.before) is not type(change.after):
            return "upgraded" if isinstance(change.after, ConsumerGroup) else "downgraded"
        if _is_out_of_step(client, change):
            return "late join"
        return _why_removed(change, client.member_id)

    def note_use(self, client: Client, before: Iterable[TopicPartition], group: Group | None, image: Image) -> None:
        """Notes a change of the client's partitions in use."""
        found = self.causes.setdefault(client.name, {})
        for one in found.keys() - {*client.using}:
            del found[one]
        counts = _owns(group, client.member_id, image)
        for one in {*client.using} - {*before}:
            if not counts(one):
                waits = one in self.released.get(client.name, ()) and client.member_id not in self.removed
                found[one] = "W1" if waits else self.removed.get(client.member_id)

    def forget(self, name: str) -> None:
        """Forgets a client that has ended."""
        self.causes.pop(name, None)
        self.released.pop(name, None)

    def explain(self, one: TopicPartition, users: Iterable[Client]) -> str | None:
        """Why several clients use the partition: the cause of the first stale use; None unless all but one
        are stale.
        """
        stale, right = [], 0
        for client in users:
            if one in self.causes.get(client.name, ()):
                unnoticed = None if one in client.member.owned else "untold"
                stale.append(self.causes[client.name][one] or unnoticed)
            else:
                right += 1
        return None if right > 1 or None in stale else stale[0]


# Owners for the coordinator


def _compare_members(before: Group | None, after: Group | None) -> tuple[set[str], set[str]]:
    old, new = (NOBODY if group is None else group.members.by_id for group in (before, after))
    changed = new.differing(old)
    return {i for i in changed if i not in new}, {i for i in changed if i not in old}


def _list_owned(group: Group | None, member_id: str, image: Image) -> set[TopicPartition]:
    """The partitions that a consumer group counts as this member's."""
    member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
    return set() if member is None else {(image.names[topic_id], number) for topic_id, number in member.current.held}


def _owns(group: Group | None, member_id: str, image: Image) -> Predicate:
    """A predicate for the partitions that count as this member's; a classic group knows only its members."""
    if isinstance(group, ClassicGroup):
        is_member = member_id in group.members
        return lambda _: is_member
    return _list_owned(group, member_id, image).__contains__


def _assigns(group: Group | None, member_id: str, image: Image) -> Predicate:
    """A predicate for the partitions that the coordinator assigns to the member."""
    if not isinstance(group, ClassicGroup):
        return _owns(group, member_id, image)
    given = {*find_assigned(group, member_id, image)} if group.state is State.STABLE else set()
    return given.__contains__


def find_assigned(group: Group, member_id: str, image: Image) -> Partitions:
    """The last assignment of a member, by topic name."""
    member = group.members.get(member_id)
    if isinstance(member, GroupMember):
        return partitions((image.names[topic_id], number) for (topic_id, number), _ in member.current.assigned)
    return decode_assignment(member.assignment).partitions if member and member.assignment else ()


def _loses(client: Client, change: Change) -> Predicate:
    """A predicate for the partitions that were the client's before the step and are not afterwards."""
    before, after, member_id, image = change.before, change.after, client.member_id, change.image
    had, has = _owns(before, member_id, image), _owns(after, member_id, image)
    if isinstance(before, ConsumerGroup) and isinstance(after, ClassicGroup):
        has = {*find_assigned(after, member_id, image)}.__contains__
    return lambda one: had(one) and not has(one)


def _is_out_of_step(client: Client, change: Change) -> bool:
    """Whether a generation of a classic group began without the join of this static member, which stays a member."""
    old, new, member_id = change.before, change.after, client.member_id
    if not isinstance(old, ClassicGroup) or not isinstance(new, ClassicGroup) or new.generation == old.generation:
        return False
    joins = change.is_join and change.client == client.name
    return not joins and member_id in old.members and member_id in new.members and member_id not in old.delayed_joins


def _find_swap(change: Change, until_now: int | None, *, is_exchange: bool) -> int | None:
    """Finds a replacement without a rebalance: Kafka compares only the protocol that would be chosen."""
    old, new = change.before, change.after
    if not isinstance(new, ClassicGroup) or new.state is not State.STABLE:
        return None
    if not isinstance(old, ClassicGroup) or old.generation != new.generation or len(old.members) != len(new.members):
        return until_now
    return new.generation if is_exchange and _topics(new) != _topics(old) else until_now


def _topics(group: ClassicGroup) -> set[tuple[str, ...]]:
    return {decode_subscription(m.metadata(group.protocol_name)).topics for m in group.members.values()}


# Causes of a step


def _why_removed(change: Change, member_id: str) -> str | None:
    """Why a member was removed, or lost partitions, without a report of its own; None for no known reason."""
    sent = change.request
    if sent is None:
        return next(_due(change, member_id), None)
    if isinstance(sent, LeaveGroupRequest):
        return "A5" if member_id in {who.member_id for who in sent.members} else None
    epoch = getattr(sent, "member_epoch", JOIN_GROUP_MEMBER_EPOCH)
    if epoch < JOIN_GROUP_MEMBER_EPOCH:
        return "A5" if sent.member_id == member_id else None
    if change.is_duplicate and epoch == JOIN_GROUP_MEMBER_EPOCH and sent.member_id == member_id:
        return "W6"
    member = None if change.before is None else change.before.members.get(member_id)
    if member is None or member.instance_id is None:
        return None
    brings = {getattr(sent, "instance_id", None), getattr(sent, "group_instance_id", None)}
    return "replaced" if member.instance_id in brings else None


def _due(change: Change, member_id: str) -> Iterator[str]:
    """The expired timers of this member, then those of its group."""
    old, now_ms = change.before, change.now_ms
    if isinstance(old, ConsumerGroup):
        running = ((deadline_ms, kind) for (kind, whose), deadline_ms in old.timers.items() if whose == member_id)
        for deadline_ms, kind in sorted(running, key=lambda one: one[0]):
            if deadline_ms <= now_ms:
                yield TIMERS[kind]
    elif isinstance(old, ClassicGroup):
        if old.heartbeat_deadlines_ms.get(member_id, now_ms + 1) <= now_ms:
            yield "expired"
        if old.join_phase is not None and old.join_phase.deadline_ms <= now_ms:
            yield "late join"
        if old.sync_phase is not None and old.sync_phase.deadline_ms <= now_ms:
            yield "late sync"
