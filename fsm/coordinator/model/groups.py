"""The groups of a coordinator, with what it asks of all of them: whose timer is due next, what is being resolved."""

from __future__ import annotations

from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.coordinator.model.persistent import ById, PersistentMap
from fsm.coordinator.model.timers import Chunks, insert, remove
from fsm.step import value

Group = ConsumerGroup | ClassicGroup
NO_GROUPS_BY_ID: PersistentMap[str, Group] = PersistentMap()


@value
class Groups(ById[Group]):
    """Groups by id. What is kept beside them follows from them and is no part of the value."""

    by_id: PersistentMap[str, Group] = NO_GROUPS_BY_ID
    deadlines: Chunks = ()
    """When each group's next timer is due, and its id, sorted."""
    resolving: frozenset[str] = frozenset()
    """Ids of groups whose regular expressions a background task is resolving."""

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Groups) and self.by_id == other.by_id)

    def __hash__(self) -> int:
        return hash(self.by_id)

    def set(self, group: Group) -> Groups:
        """With this group, new or in place of the one with its id."""
        group_id = group.group_id
        old = self.by_id.get(group_id)
        if old is group:
            return self
        resolving = self.resolving
        if (isinstance(group, ConsumerGroup) and group.resolution is not None) != (group_id in resolving):
            resolving ^= {group_id}
        before_ms, after_ms = None if old is None else old.next_deadline_ms, group.next_deadline_ms
        deadlines = self.deadlines
        if before_ms != after_ms:
            if before_ms is not None:
                deadlines = remove(deadlines, (before_ms, group_id))
            if after_ms is not None:
                deadlines = insert(deadlines, (after_ms, group_id))
        return Groups(self.by_id.set(group_id, group), deadlines, resolving)

    def without(self, *group_ids: str) -> Groups:
        """Without these groups; itself where it has none of them."""
        deadlines = self.deadlines
        for group_id in dict.fromkeys(group_ids):
            group = self.by_id.get(group_id)
            if group is not None and group.next_deadline_ms is not None:
                deadlines = remove(deadlines, (group.next_deadline_ms, group_id))
        by_id = self.by_id.without(*group_ids)
        return self if by_id is self.by_id else Groups(by_id, deadlines, self.resolving.difference(group_ids))

    def next_deadline_ms(self) -> int | None:
        """When the next timer of any group is due; None where none runs."""
        return self.deadlines[0][0][0] if self.deadlines else None

    def next_due(self, now_ms: int) -> Group | None:
        """The group with the earliest timer that is due; of equal deadlines, the first by id."""
        if not self.deadlines or self.deadlines[0][0][0] > now_ms:
            return None
        return self.by_id[self.deadlines[0][0][1]]


NO_GROUPS = Groups()
