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

from fsm.coordinator.classic_members import NOBODY, ClassicGroupMember, ClassicMembers
from fsm.coordinator.frozen import FrozenSet
from fsm.coordinator.timers import Deadlines
from fsm.errors import RemoteProtocolError
from fsm.kafka.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from fsm.tables.classic_group import State

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long the join of a new member stays parked: it has no id yet that it could send heartbeats with."""


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
NO_IDS: FrozenSet[str] = FrozenSet()


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
    members: ClassicMembers = NOBODY
    given_ids: FrozenSet[str] = NO_IDS
    """Member ids that were given out and not joined with yet."""
    awaited_syncs: FrozenSet[str] = NO_IDS
    """Ids whose sync is still missing; one that was replaced meanwhile stays awaited."""
    subscribed_topics: frozenset[str] | None = None
    """Of consumers, as of the present generation; None where the coordinator cannot know."""
    new_member_added: bool = False
    """Whether a member came since the initial delay began."""
    heartbeat_deadlines_ms: Deadlines[str] = NO_DEADLINES
    """By member id or given-out id."""
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
        return max(self.members.rebalance_timeouts_ms, default=0)

    @property
    def has_all_joined(self) -> bool:
        """Whether every member's join is parked and no given-out id is outstanding."""
        return not self.given_ids and self.members.joins == len(self.members)

    @property
    def parked_joins(self) -> int:
        """How many members wait for the next generation."""
        return self.members.joins

    def in_order(self) -> Iterator[ClassicGroupMember]:
        """Members as the coordinator walks its map of them."""
        return self.members.in_order()

    def static_member_id(self, instance_id: str) -> str | None:
        """The member that has this instance id."""
        found: str | None = self.members.static.get(instance_id)
        return found

    def is_leader(self, member_id: str) -> bool:
        """Whether this member leads."""
        return self.leader == member_id

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member that offers these can be in the group: one of them must suit every member."""
        offered = tuple(names)
        if self.state is State.EMPTY:
            return bool(protocol_type and offered)
        return self.protocol_type == protocol_type and any(self.members.are_all_supporting(name) for name in offered)

    def elected_protocol(self) -> str:
        """Each member votes for the first of its protocols that all support; most votes win.

        Raises `ValueError` where there is none: the checks of a join keep one in common.
        """
        elected = self.members.elected_protocol()
        if elected is None:
            raise ValueError(f"no protocol of group {self.group_id} is supported by all members")
        return elected

    def with_member(self, member: ClassicGroupMember) -> ClassicGroup:
        """With this member in place of the one of its id, or new."""
        return replace(self, members=self.members.set(member))


def consumer_topics(group: ClassicGroup) -> frozenset[str] | None:
    """What consumers of the group subscribe to under its protocol; None for other types, or where it is unreadable."""
    if group.protocol_type != PROTOCOL_TYPE or (group.members and group.protocol_name is None):
        return None
    try:
        found = (decode_subscription(m.metadata(group.protocol_name)).topics for m in group.members.values())
        return frozenset(topic for topics in found for topic in topics)
    except RemoteProtocolError:
        return None
