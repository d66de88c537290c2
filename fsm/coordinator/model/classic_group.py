"""A classic group and its members in the coordinator, with their queries.

A `ClassicGroup` is a value: every step returns a new one. Requests may be delayed: a join until the join phase is
complete, a sync until the leader's assignment is stored. The metadata of members are opaque bytes, so groups of
consumers and of Connect workers are the same.

Aggregates over all members that a join needs (commonly supported protocols, the longest rebalance timeout, holders of
instance ids) are updated with each change of a member, so that no join iterates over the group.

Source: `ClassicGroup` and `ClassicGroupMember` of apache/kafka, branch 4.4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from fsm.coordinator.model.hash_order import map_order, string_hash
from fsm.coordinator.model.persistent import ById, Counts, PersistentMap, PersistentSet, count
from fsm.coordinator.model.timers import Deadlines
from fsm.errors import RemoteProtocolError
from fsm.protocol.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from fsm.protocol.records import ClassicGroup as StoredGroup
from fsm.protocol.records import ClassicProtocol
from fsm.step import frozen
from fsm.tables.classic_group import State


@frozen
class ClassicGroupMember:
    """A member: the fields of its JoinGroup, and its assignment from the leader."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]
    """In the order of its preference."""
    assignment: bytes = b""
    is_late: bool = False
    """Whether it has not joined the current generation, and what it owns was completed for it (F44).

    The log does not have it: after a load, a late member may join unchanged, or sync with the generation that it has.
    """

    def supports(self, protocol: str | None) -> bool:
        for name, _ in self.protocols:  # noqa: SIM110  # every join asks every member, and `any` takes twice as long
            if name == protocol:
                return True
        return False

    def metadata(self, protocol: str | None) -> bytes:
        """Its metadata for this protocol. Raises `KeyError` for an unsupported one."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise KeyError(protocol)


Offer = tuple[str, ...]
"""Names of protocols in the order of a member's preference."""

Members = Sequence[ClassicGroupMember]

_NOBODY: PersistentMap[str, ClassicGroupMember] = PersistentMap()
_NO_STATIC: PersistentMap[str, str] = PersistentMap()
_NO_OFFERS: Counts[Offer] = PersistentMap()
_NO_TIMEOUTS: Counts[int] = PersistentMap()


@dataclass(frozen=True, eq=False)
class ClassicMembers(ById[ClassicGroupMember]):
    """Members by id. The counts are derived from the members and ignored by comparisons."""

    by_id: PersistentMap[str, ClassicGroupMember] = _NOBODY
    static: PersistentMap[str, str] = _NO_STATIC
    """Member ids by instance id."""
    offers: Counts[Offer] = _NO_OFFERS
    """Members by the protocols that they list."""
    rebalance_timeouts_ms: Counts[int] = _NO_TIMEOUTS
    """Members by their rebalance timeout."""

    @classmethod
    def of(cls, members: Iterable[ClassicGroupMember]) -> ClassicMembers:
        """These members, in this order."""
        return cls().merge({member.member_id: member for member in members})

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, ClassicMembers) and self.by_id == other.by_id and self.order == other.order

    def __hash__(self) -> int:
        return hash(self.by_id)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Ids in the order of the coordinator's map of members."""
        return tuple(map_order(self.by_id, string_hash))

    def in_order(self) -> Iterator[ClassicGroupMember]:
        """Members in the order of the coordinator's map."""
        return map(self.by_id.__getitem__, self.order)

    def set(self, member: ClassicGroupMember) -> ClassicMembers:
        """The members with this one added or replaced."""
        old = self.by_id.get(member.member_id)
        return self._recount(self.by_id.set(member.member_id, member), () if old is None else (old,), (member,))

    def merge(self, members: Mapping[str, ClassicGroupMember]) -> ClassicMembers:
        """The members with all of these added or replaced."""
        before = [self.by_id[member_id] for member_id in members if member_id in self.by_id]
        return self._recount(self.by_id.merge(members), before, tuple(members.values()))

    def without(self, *member_ids: str) -> ClassicMembers:
        """The members without these; itself if it has none of them."""
        left = self.by_id.without(*member_ids)
        if left is self.by_id:
            return self
        gone = [self.by_id[member_id] for member_id in dict.fromkeys(member_ids) if member_id in self.by_id]
        return self._recount(left, gone, ())

    def _recount(
        self, by_id: PersistentMap[str, ClassicGroupMember], before: Members, after: Members
    ) -> ClassicMembers:
        """The members `by_id`, with counts updated for members that changed from `before` to `after`."""
        static, offers, timeouts_ms = self.static, self.offers, self.rebalance_timeouts_ms
        if any(member.instance_id is not None for member in (*before, *after)):
            static = _rename_static(static, before, after)
        if len(before) != len(after) or any(a.protocols != b.protocols for a, b in zip(before, after, strict=True)):
            offers = count(offers, tuple(map(_offer, before)), tuple(map(_offer, after)))
        had, have = (tuple(member.rebalance_timeout_ms for member in members) for members in (before, after))
        timeouts_ms = count(timeouts_ms, had, have)
        return ClassicMembers(by_id, static, offers, timeouts_ms)

    def are_all_supporting(self, protocol: str | None) -> bool:
        """Whether all members support the protocol."""
        return all(protocol in offer for offer in self.offers)

    def elected_protocol(self) -> str:
        """The elected protocol: each member votes for the first of its protocols that all support; most votes win.

        Raises `ValueError` if there is none, which the checks of a join prevent.
        """
        candidates = {name for offer in self.offers for name in offer if self.are_all_supporting(name)}
        votes: dict[str, int] = {}
        for offer, members in self.offers.items():
            vote = next((name for name in offer if name in candidates), None)
            if vote is not None:
                votes[vote] = votes.get(vote, 0) + members
        if not votes:
            raise ValueError("no protocol is supported by all members")
        most = max(votes.values())
        ties = [name for name, count in votes.items() if count == most]
        return ties[0] if len(ties) == 1 else next(name for name in self._walk_votes(votes) if name in ties)

    def _walk_votes(self, votes: Iterable[str]) -> list[str]:
        """The votes of members, in the order of the coordinator's map: the first vote decides a tie."""
        known = set(votes)
        firsts = (next((name for name, _ in member.protocols if name in known), None) for member in self.in_order())
        return map_order((name for name in firsts if name is not None), string_hash)


def _offer(member: ClassicGroupMember) -> Offer:
    return tuple(name for name, _ in member.protocols)


def _rename_static(static: PersistentMap[str, str], before: Members, after: Members) -> PersistentMap[str, str]:
    given = {member.instance_id: member.member_id for member in after if member.instance_id is not None}
    lost = [m.instance_id for m in before if m.instance_id is not None and static.get(m.instance_id) == m.member_id]
    return static.without(*(instance_id for instance_id in lost if instance_id not in given)).merge(given)


NOBODY = ClassicMembers()

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""The maximum delay of a new member's join: it has no id yet to send heartbeats with."""


class DelayedRequest(NamedTuple):
    """A request that a later step answers."""

    token: int
    version: int


class JoinPhase(NamedTuple):
    """The timer of the join phase. In an initial rebalance it may be extended while time remains."""

    deadline_ms: int
    is_initial: bool = False
    delay_ms: int = 0
    remaining_ms: int = 0


class SyncPhase(NamedTuple):
    """The timer of the sync phase, and its generation."""

    deadline_ms: int
    generation: int


NO_DEADLINES: Deadlines[str] = Deadlines()
NO_IDS: PersistentSet[str] = PersistentSet()
NONE_DELAYED: PersistentMap[str, DelayedRequest] = PersistentMap()


@frozen
class ClassicGroup:
    """One group of type classic."""

    group_id: str
    state: State = State.EMPTY
    previous_state: State = State.DEAD
    """EMPTY while an initial rebalance waits for more members."""
    state_since_ms: int = -1
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: ClassicMembers = NOBODY
    new_members: PersistentSet[str] = NO_IDS
    """Members whose first join is not answered yet: their sessions may expire while they wait."""
    delayed_joins: PersistentMap[str, DelayedRequest] = NONE_DELAYED
    """By member id, as the next two."""
    delayed_syncs: PersistentMap[str, DelayedRequest] = NONE_DELAYED
    pending_join_members: PersistentSet[str] = NO_IDS
    """Member ids from MEMBER_ID_REQUIRED answers whose members have not joined yet."""
    pending_sync_members: PersistentSet[str] = NO_IDS
    """Ids whose sync is still missing, including ids replaced meanwhile."""
    subscribed_topics: frozenset[str] | None = None
    """The topics that consumers subscribe to in the current generation; None if unknown."""
    new_member_added: bool = False
    """Whether a member joined since the initial delay began."""
    heartbeat_deadlines_ms: Deadlines[str] = NO_DEADLINES
    """By member id or pending id."""
    join_phase: JoinPhase | None = None
    sync_phase: SyncPhase | None = None
    stored_generation: StoredGroup | None = None
    """Its last record, which has another generation during a rebalance; None without static members or F43."""

    @property
    def is_empty(self) -> bool:
        """Whether it is EMPTY: a group of another type may replace it."""
        return self.state is State.EMPTY

    @property
    def next_deadline_ms(self) -> int | None:
        """Its next deadline; None without a timer."""
        first_ms = self.heartbeat_deadlines_ms.next_deadline_ms
        if self.join_phase is not None and (first_ms is None or self.join_phase.deadline_ms < first_ms):
            first_ms = self.join_phase.deadline_ms
        if self.sync_phase is not None and (first_ms is None or self.sync_phase.deadline_ms < first_ms):
            first_ms = self.sync_phase.deadline_ms
        return first_ms

    @property
    def is_simple(self) -> bool:
        """Whether it only has offsets and never had a member."""
        return self.protocol_type is None and self.is_empty and not self.pending_join_members

    @property
    def is_initial_rebalance(self) -> bool:
        """Whether its join phase waits for the end of the initial delay."""
        return self.state is State.PREPARING_REBALANCE and self.previous_state is State.EMPTY

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest among the members'."""
        return max(self.members.rebalance_timeouts_ms, default=0)

    def has_all_joined(self, without: Collection[str] = ()) -> bool:
        """Whether all members have a delayed join and no id is pending, ignoring some of both."""
        here, joins, pending = self.members, self.delayed_joins, self.pending_join_members
        members = len(here) - sum(i in here for i in without)
        return members == len(joins) - sum(i in joins for i in without) and len(pending) == sum(
            i in pending for i in without
        )

    def is_waiting(self, member_id: str) -> bool:
        """Whether the member waits for an answer, and so need not send heartbeats."""
        waits = member_id in self.delayed_joins or member_id in self.delayed_syncs
        return waits and member_id not in self.new_members

    def static_member_id(self, instance_id: str) -> str | None:
        """The member that has this instance id."""
        found: str | None = self.members.static.get(instance_id)
        return found

    def is_leader(self, member_id: str) -> bool:
        """Whether this member leads."""
        return self.leader == member_id

    def supports(self, protocol_type: str, names: Sequence[str]) -> bool:
        """Whether a member with these protocols can be in the group: all members must support one of them."""
        if self.state is State.EMPTY:
            return bool(protocol_type and names)
        return self.protocol_type == protocol_type and any(map(self.members.are_all_supporting, names))


def consumer_topics(group: ClassicGroup) -> frozenset[str] | None:
    """The topics that the group's consumers subscribe to; None for other types, or if a subscription cannot be
    decoded.
    """
    if group.protocol_type != PROTOCOL_TYPE or (group.members and group.protocol_name is None):
        return None
    try:
        subscriptions = {member.metadata(group.protocol_name) for member in group.members.values()}
        return frozenset(topic for metadata in subscriptions for topic in decode_subscription(metadata).topics)
    except RemoteProtocolError:
        return None
