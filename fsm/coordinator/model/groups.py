"""The groups of a coordinator, with aggregates over them: the next timer, running resolutions."""

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
    """Groups by id. The other fields are derived from them and ignored by comparisons."""

    by_id: PersistentMap[str, Group] = NO_GROUPS_BY_ID
    deadlines: Chunks = ()
    """The next deadline of each group with its id, sorted."""
    resolving: frozenset[str] = frozenset()
    """Ids of groups whose regular expressions a background task is resolving."""

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Groups) and self.by_id == other.by_id)

    def __hash__(self) -> int:
        return hash(self.by_id)

    def set(self, group: Group) -> Groups:
        """The groups with this one added or replaced."""
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
        """The groups without these; itself if it has none of them."""
        deadlines = self.deadlines
        for group_id in dict.fromkeys(group_ids):
            group = self.by_id.get(group_id)
            if group is not None and group.next_deadline_ms is not None:
                deadlines = remove(deadlines, (group.next_deadline_ms, group_id))
        by_id = self.by_id.without(*group_ids)
        return self if by_id is self.by_id else Groups(by_id, deadlines, self.resolving.difference(group_ids))

    def next_deadline_ms(self) -> int | None:
        """The next deadline of any group; None without a timer."""
        return self.deadlines[0][0][0] if self.deadlines else None

    def next_due(self, now_ms: int) -> Group | None:
        """The group with the earliest timer that is due; of equal deadlines, the first by id."""
        if not self.deadlines or self.deadlines[0][0][0] > now_ms:
            return None
        return self.by_id[self.deadlines[0][0][1]]


NO_GROUPS = Groups()
