"""A classic group as its coordinator keeps it, and what can be asked of it.

A `ClassicGroup` is a value: every step gives another one. Requests that are answered later - a join until the join
phase is complete, a sync until the leader has assigned - are parked with their member. What members say of themselves
is bytes here, whatever their protocol type: a group of consumers and one of Connect workers are the same.

Source: section 5 of the coordinator reference; `ClassicGroup` and `ClassicGroupMember` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from fsm.coordinator.election import preferred
from fsm.coordinator.frozen import FrozenMap
from fsm.coordinator.hash_order import map_order, string_hash
from fsm.coordinator.records import ClassicProtocol
from fsm.errors import RemoteProtocolError
from fsm.kafka.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from fsm.tables.classic_group import State

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long the join of a new member stays parked: it has no id yet that it could send heartbeats with."""


class Parked(NamedTuple):
    """A request that is answered in a later step."""

    token: int
    version: int


@dataclass(frozen=True, slots=True)
class ClassicGroupMember:
    """A member: what it said when it joined, what it was assigned, and what it waits for."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]
    """In the order of its preference."""
    assignment: bytes = b""
    is_new: bool = False
    """Until its first join is answered: its session may expire although it waits."""
    join: Parked | None = None
    sync: Parked | None = None

    @property
    def is_excused(self) -> bool:
        """Whether it cannot be expected to send heartbeats, because it waits for an answer."""
        return not self.is_new and (self.join is not None or self.sync is not None)

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


NO_MEMBERS: FrozenMap[str, ClassicGroupMember] = FrozenMap()
NO_DEADLINES: FrozenMap[str, int] = FrozenMap()
NO_IDS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
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
    members: FrozenMap[str, ClassicGroupMember] = NO_MEMBERS
    given_ids: frozenset[str] = NO_IDS
    """Member ids that were given out and not joined with yet."""
    awaited_syncs: frozenset[str] = NO_IDS
    """Ids whose sync is still missing; one that was replaced meanwhile stays awaited."""
    subscribed_topics: frozenset[str] | None = None
    """Of consumers, as of the present generation; None where the coordinator cannot know."""
    new_member_added: bool = False
    """Whether a member came since the initial delay began."""
    heartbeat_deadlines_ms: FrozenMap[str, int] = NO_DEADLINES
    """By member id or given-out id, in the order in which they were armed."""
    join_phase: JoinPhase | None = None
    sync_phase: SyncPhase | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it is in EMPTY: other types of group may take its place."""
        return self.state is State.EMPTY

    @property
    def is_simple(self) -> bool:
        """Whether it only holds offsets and never had a member."""
        return self.protocol_type is None and self.is_empty and not self.given_ids

    @property
    def is_initial_rebalance(self) -> bool:
        """Whether its join phase waits for the initial delay to run out."""
        return self.state is State.PREPARING_REBALANCE and self.previous_state is State.EMPTY

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest among the members'."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_joined(self) -> bool:
        """Whether every member's join is parked and no given-out id is outstanding."""
        return not self.given_ids and all(member.join for member in self.members.values())

    @property
    def parked_joins(self) -> int:
        """How many members wait for the next generation."""
        return sum(member.join is not None for member in self.members.values())

    def in_order(self) -> Iterator[ClassicGroupMember]:
        """Members as the coordinator walks its map of them."""
        return (self.members[member_id] for member_id in map_order(self.members, string_hash))

    def static_member_id(self, instance_id: str) -> str | None:
        """The member that has this instance id."""
        return next((m.member_id for m in self.members.values() if m.instance_id == instance_id), None)

    def is_leader(self, member_id: str) -> bool:
        """Whether this member leads."""
        return self.leader == member_id

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member that offers these can be in the group: one of them must suit every member."""
        offered = tuple(names)
        if self.state is State.EMPTY:
            return bool(protocol_type and offered)
        return self.protocol_type == protocol_type and any(self._is_supported_by_all(name) for name in offered)

    def _is_supported_by_all(self, name: str) -> bool:
        return all(member.supports(name) for member in self.members.values())

    def elected_protocol(self) -> str:
        """Each member votes for the first of its protocols that all support; most votes win.

        Raises `ValueError` where there is none: the checks of a join keep one in common.
        """
        candidates = {name for member in self.members.values() for name, _ in member.protocols}
        candidates = {name for name in sorted(candidates) if self._is_supported_by_all(name)}
        votes: dict[str, int] = {}
        for member in self.in_order():
            vote = next((name for name, _ in member.protocols if name in candidates), None)
            if vote is not None:
                votes[vote] = votes.get(vote, 0) + 1
        elected = preferred({name: votes[name] for name in map_order(votes, string_hash)})
        if elected is None:
            raise ValueError(f"no protocol of group {self.group_id} is supported by all members")
        return elected

    def with_member(self, member: ClassicGroupMember) -> ClassicGroup:
        """With this member in place of the one of its id, or new."""
        return replace(self, members=self.members.set(member.member_id, member))


def consumer_topics(group: ClassicGroup) -> frozenset[str] | None:
    """What consumers of the group subscribe to under its protocol; None for other types, or where it is unreadable."""
    if group.protocol_type != PROTOCOL_TYPE or (group.members and group.protocol_name is None):
        return None
    try:
        found = (decode_subscription(m.metadata(group.protocol_name)).topics for m in group.members.values())
        return frozenset(topic for topics in found for topic in topics)
    except RemoteProtocolError:
        return None
