"""A classic group as its coordinator keeps it, its members, and what can be asked of it.

A `ClassicGroup` is a value: every step gives another one. Requests that are answered later are delayed: a join until
the join phase is complete, a sync until the leader's assignment is stored. What members say of themselves is bytes
here, whatever their protocol type: a group of consumers and one of Connect workers are the same.

What a coordinator asks of all members at every join (which protocols all support, the longest rebalance timeout, who
has an instance id) is counted as they come, change and go, so that no join walks the group.

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
from fsm.protocol.records import ClassicProtocol
from fsm.step import frozen
from fsm.tables.classic_group import State


@frozen
class ClassicGroupMember:
    """A member: what its JoinGroup said, and what the leader assigned to it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]
    """In the order of its preference."""
    assignment: bytes = b""

    def supports(self, protocol: str | None) -> bool:
        """Whether the protocol is one of its own."""
        for name, _ in self.protocols:  # noqa: SIM110  # every join asks every member, and `any` takes twice as long
            if name == protocol:
                return True
        return False

    def metadata(self, protocol: str | None) -> bytes:
        """What it said under this protocol. Raises `KeyError` where it does not support it."""
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
    """Members by id. What is counted follows from the members and is no part of the value."""

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
        """Ids as the coordinator walks its map of members."""
        return tuple(map_order(self.by_id, string_hash))

    def in_order(self) -> Iterator[ClassicGroupMember]:
        """Members as the coordinator walks its map of them."""
        return map(self.by_id.__getitem__, self.order)

    def set(self, member: ClassicGroupMember) -> ClassicMembers:
        """With this member, new or in place of the one with its id."""
        old = self.by_id.get(member.member_id)
        return self._recount(self.by_id.set(member.member_id, member), () if old is None else (old,), (member,))

    def merge(self, members: Mapping[str, ClassicGroupMember]) -> ClassicMembers:
        """With all these members, by their ids."""
        before = [self.by_id[member_id] for member_id in members if member_id in self.by_id]
        return self._recount(self.by_id.merge(members), before, tuple(members.values()))

    def without(self, *member_ids: str) -> ClassicMembers:
        """Without these members; itself where it has none of them."""
        left = self.by_id.without(*member_ids)
        if left is self.by_id:
            return self
        gone = [self.by_id[member_id] for member_id in dict.fromkeys(member_ids) if member_id in self.by_id]
        return self._recount(left, gone, ())

    def _recount(
        self, by_id: PersistentMap[str, ClassicGroupMember], before: Members, after: Members
    ) -> ClassicMembers:
        """The members `by_id`, with counts brought up to date where some were as `before` and are as `after`."""
        static, offers, timeouts_ms = self.static, self.offers, self.rebalance_timeouts_ms
        if any(member.instance_id is not None for member in (*before, *after)):
            static = _rename_static(static, before, after)
        if len(before) != len(after) or any(a.protocols != b.protocols for a, b in zip(before, after, strict=True)):
            offers = count(offers, tuple(map(_offer, before)), tuple(map(_offer, after)))
        had, have = (tuple(member.rebalance_timeout_ms for member in members) for members in (before, after))
        timeouts_ms = count(timeouts_ms, had, have)
        return ClassicMembers(by_id, static, offers, timeouts_ms)

    def are_all_supporting(self, protocol: str | None) -> bool:
        """Whether the protocol is one of everybody's."""
        return all(protocol in offer for offer in self.offers)

    def elected_protocol(self) -> str:
        """Each member votes for the first of its protocols that all support; most votes win.

        Raises `ValueError` where there is none: the checks of a join keep one in common.
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
        """Protocols that members vote for, as the coordinator walks its map of them: who votes first decides a tie."""
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
"""How long the join of a new member is delayed at most: it has no id yet that it could send heartbeats with."""


class DelayedRequest(NamedTuple):
    """A request that a later step answers."""

    token: int
    version: int


class JoinPhase(NamedTuple):
    """The timer of the join phase. In an initial rebalance it may be extended as long as time remains."""

    deadline_ms: int
    is_initial: bool = False
    delay_ms: int = 0
    remaining_ms: int = 0


class SyncPhase(NamedTuple):
    """The timer of the sync phase, and whose generation it belongs to."""

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
    """Members whose first join is not answered yet: their sessions may expire although they wait."""
    delayed_joins: PersistentMap[str, DelayedRequest] = NONE_DELAYED
    """By member id, as the next two."""
    delayed_syncs: PersistentMap[str, DelayedRequest] = NONE_DELAYED
    pending_join_members: PersistentSet[str] = NO_IDS
    """Member ids that were given out and not joined with yet."""
    pending_sync_members: PersistentSet[str] = NO_IDS
    """Ids whose sync is still missing; one that was replaced meanwhile stays among them."""
    subscribed_topics: frozenset[str] | None = None
    """The topics that consumers subscribe to in the present generation; None where the coordinator cannot know."""
    new_member_added: bool = False
    """Whether a member came since the initial delay began."""
    heartbeat_deadlines_ms: Deadlines[str] = NO_DEADLINES
    """By member id or pending id."""
    join_phase: JoinPhase | None = None
    sync_phase: SyncPhase | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it is in EMPTY: other types of group may take its place."""
        return self.state is State.EMPTY

    @property
    def next_deadline_ms(self) -> int | None:
        """When its next timer is due; None where none runs."""
        first_ms = self.heartbeat_deadlines_ms.next_deadline_ms
        if self.join_phase is not None and (first_ms is None or self.join_phase.deadline_ms < first_ms):
            first_ms = self.join_phase.deadline_ms
        if self.sync_phase is not None and (first_ms is None or self.sync_phase.deadline_ms < first_ms):
            first_ms = self.sync_phase.deadline_ms
        return first_ms

    @property
    def is_simple(self) -> bool:
        """Whether it only holds offsets and never had a member."""
        return self.protocol_type is None and self.is_empty and not self.pending_join_members

    @property
    def is_initial_rebalance(self) -> bool:
        """Whether its join phase waits for the initial delay to run out."""
        return self.state is State.PREPARING_REBALANCE and self.previous_state is State.EMPTY

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest among the members'."""
        return max(self.members.rebalance_timeouts_ms, default=0)

    def has_all_joined(self, without: Collection[str] = ()) -> bool:
        """Whether every member's join is delayed and no id is pending, some of both left out."""
        here, joins, pending = self.members, self.delayed_joins, self.pending_join_members
        members = len(here) - sum(i in here for i in without)
        return members == len(joins) - sum(i in joins for i in without) and len(pending) == sum(
            i in pending for i in without
        )

    def is_waiting(self, member_id: str) -> bool:
        """Whether the member cannot be expected to send heartbeats, because it waits for an answer."""
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
        """Whether a member that offers these can be in the group: one of them must suit every member."""
        if self.state is State.EMPTY:
            return bool(protocol_type and names)
        return self.protocol_type == protocol_type and any(map(self.members.are_all_supporting, names))


def consumer_topics(group: ClassicGroup) -> frozenset[str] | None:
    """What consumers of the group subscribe to under its protocol; None for other types, or where it is unreadable."""
    if group.protocol_type != PROTOCOL_TYPE or (group.members and group.protocol_name is None):
        return None
    try:
        subscriptions = {member.metadata(group.protocol_name) for member in group.members.values()}
        return frozenset(topic for metadata in subscriptions for topic in decode_subscription(metadata).topics)
    except RemoteProtocolError:
        return None
