"""One form for all states that differ only by names and time, for a search.

    canonicalize(state, context.now_ms, {"consumer-7f3a": "a"}, tokens={17: 0})

Equal states behave alike, except for the order of tombstones of several groups or partitions in one batch. A state has
no irrelevant history, like the number of timers ever set. The only traces of its history are the ids of its members,
the tokens of delayed requests, and the time. Maps are iterated by the hash codes of ids. So the form behaves as a state
with the new ids: where their order decides - a tie of an assignor, the next leader - the original state may behave
differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.model.classic_group import ClassicGroup, ClassicMembers, DelayedRequest
from fsm.coordinator.model.consumer_group import ConsumerGroup, Members
from fsm.coordinator.model.groups import NO_GROUPS, Group, Groups
from fsm.coordinator.model.persistent import PersistentMap, PersistentSet
from fsm.coordinator.model.timers import Deadlines
from fsm.coordinator.offsets.offsets import OfGroup
from fsm.coordinator.offsets.transactions import OfGroup as OpenOnes
from fsm.errors import InputError
from fsm.protocol.records import ClassicGroup as StoredGroup
from fsm.protocol.records import OffsetCommit, ResolvedRegularExpression
from fsm.tables.classic_group import State

Value = TypeVar("Value")
AnyMembers = TypeVar("AnyMembers", Members, ClassicMembers)
SAME_IDS: Mapping[str, str] = PersistentMap()
SAME_TOKENS: Mapping[int, int] = PersistentMap()
CLOCK_MS = 1 << 50
"""The time of every canonical state: instants of the distant past must stay above 0, which means none."""


def canonicalize(
    state: Coordinator, now_ms: int, ids: Mapping[str, str] = SAME_IDS, *, tokens: Mapping[int, int] = SAME_TOKENS
) -> Coordinator:
    """The state with its clock at `CLOCK_MS` and with other member ids and tokens of requests.

    Ids that are not mapped stay; the mapping must be injective. Raises `InputError` if an instant would not stay above
    0, which means none.
    """
    return _Renaming(ids, tokens, CLOCK_MS - now_ms).rename(state)


@dataclass(frozen=True)
class _Renaming:
    ids: Mapping[str, str]
    tokens: Mapping[int, int]
    shift_ms: int

    def rename(self, state: Coordinator) -> Coordinator:
        return replace(
            state,
            groups=self._groups(state.groups),
            offsets=PersistentMap({group_id: self._offsets(found) for group_id, found in state.offsets.items()}),
            transactions=PersistentMap(
                {group_id: self._pending(found) for group_id, found in state.transactions.items()}
            ),
            unstored=self._groups(state.unstored),
        )

    def _offsets(self, offsets: OfGroup) -> OfGroup:
        return PersistentMap({place: self._commit(commit) for place, commit in offsets.items()})

    def _pending(self, open_ones: OpenOnes) -> OpenOnes:
        return PersistentMap(
            {
                place: tuple(one._replace(commit=one.commit and self._commit(one.commit)) for one in pending)
                for place, pending in open_ones.items()
            }
        )

    def _groups(self, groups: Groups) -> Groups:
        found = NO_GROUPS
        for group in groups.values():
            renamed: Group = self._consumer(group) if isinstance(group, ConsumerGroup) else self._classic(group)
            found = found.set(renamed)
        return found

    def _consumer(self, group: ConsumerGroup) -> ConsumerGroup:
        resolution = group.resolution
        return replace(
            group,
            target_time_ms=group.target_time_ms and self._later(group.target_time_ms),
            members=self._members(group.members),
            targets=self._keys(group.targets),
            regexes=PersistentMap({pattern: self._rename_resolved(found) for pattern, found in group.regexes.items()}),
            timers=Deadlines(
                ((kind, self._id(i)), self._later(ms), epoch) for (kind, i), ms, epoch in group.timers.in_order()
            ),
            resolution=resolution
            and resolution._replace(
                requested_by=self._id(resolution.requested_by),
                found=tuple((pattern, self._rename_resolved(found)) for pattern, found in resolution.found),
            ),
        )

    def _classic(self, group: ClassicGroup) -> ClassicGroup:
        join_phase, sync_phase = group.join_phase, group.sync_phase
        is_preparing = group.state is State.PREPARING_REBALANCE
        sessions = ((self._id(i), self._later(ms), epoch) for i, ms, epoch in group.heartbeat_deadlines_ms.in_order())
        return replace(
            group,
            previous_state=group.previous_state if is_preparing else State.DEAD,  # nothing else asks for it
            state_since_ms=self._since(group.state_since_ms),
            leader=None if group.leader is None else self._id(group.leader),
            members=self._members(group.members),
            new_members=PersistentSet(map(self._id, group.new_members)),
            delayed_joins=self._rename_delayed(group.delayed_joins),
            delayed_syncs=self._rename_delayed(group.delayed_syncs),
            pending_join_members=PersistentSet(map(self._id, group.pending_join_members)),
            pending_sync_members=PersistentSet(map(self._id, group.pending_sync_members)),
            heartbeat_deadlines_ms=Deadlines(sessions),
            join_phase=join_phase and join_phase._replace(deadline_ms=self._later(join_phase.deadline_ms)),
            sync_phase=sync_phase and sync_phase._replace(deadline_ms=self._later(sync_phase.deadline_ms)),
            stored_generation=group.stored_generation and self._rename_stored(group.stored_generation),
        )

    def _rename_stored(self, last: StoredGroup) -> StoredGroup:
        return replace(
            last,
            leader=None if last.leader is None else self._id(last.leader),
            current_state_timestamp=self._since(last.current_state_timestamp),
            members=tuple(replace(one, member_id=self._id(one.member_id)) for one in last.members),
        )

    def _members(self, members: AnyMembers) -> AnyMembers:
        return replace(
            members,
            by_id=PersistentMap({self._id(i): replace(m, member_id=self._id(i)) for i, m in members.items()}),
            static=PersistentMap({instance_id: self._id(i) for instance_id, i in members.static.items()}),
        )

    def _id(self, member_id: str) -> str:
        return self.ids.get(member_id, member_id)

    def _since(self, at_ms: int) -> int:
        return self._later(at_ms) if at_ms >= 0 else -1

    def _later(self, at_ms: int) -> int:
        if at_ms + self.shift_ms <= 0:
            raise InputError(f"{at_ms} ms and {self.shift_ms} ms are not a valid instant", "now_ms")
        return at_ms + self.shift_ms

    def _keys(self, found: PersistentMap[str, Value]) -> PersistentMap[str, Value]:
        return PersistentMap({self._id(member_id): value for member_id, value in found.items()})

    def _rename_delayed(self, requests: PersistentMap[str, DelayedRequest]) -> PersistentMap[str, DelayedRequest]:
        return self._keys(
            PersistentMap({i: one._replace(token=self.tokens.get(one.token, one.token)) for i, one in requests.items()})
        )

    def _rename_resolved(self, found: ResolvedRegularExpression) -> ResolvedRegularExpression:
        return replace(found, timestamp=self._later(found.timestamp))

    def _commit(self, commit: OffsetCommit) -> OffsetCommit:
        expires_ms = commit.expire_timestamp
        return replace(
            commit,
            commit_timestamp=self._later(commit.commit_timestamp),
            expire_timestamp=expires_ms if expires_ms < 0 else self._later(expires_ms),
        )
