"""A consumer group as its coordinator keeps it, and what can be asked of it.

A `ConsumerGroup` is a value: every step gives another one. What is persistent stands in its records; what is soft -
timers, a running resolution of regular expressions, whether the metadata is to be checked - is kept here all the same
and rebuilt when the group is loaded.

Source: section 1 of the coordinator reference; `ConsumerGroup` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import NamedTuple

from fsm.coordinator.context import Image
from fsm.coordinator.dialect import Choice, Dialect
from fsm.coordinator.election import preferred
from fsm.coordinator.frozen import FrozenMap
from fsm.coordinator.group_metadata import NOTHING, SubscribedMetadata
from fsm.coordinator.hash_order import state_order, string_hash
from fsm.coordinator.members import NOBODY, GroupMember, Members
from fsm.coordinator.records import ResolvedRegularExpression
from fsm.coordinator.timers import NO_TIMERS, Timers
from fsm.kafka.assignment import TopicId, TopicPartitions
from fsm.tables.consumer_group import State

NO_TARGETS: FrozenMap[str, TopicPartitions] = FrozenMap()
NO_REGEXES: FrozenMap[str, ResolvedRegularExpression] = FrozenMap()


class Resolution(NamedTuple):
    """Regular expressions that a background task is resolving, and what it will find."""

    requested_by: str
    """The member whose request started it."""
    found: FrozenMap[str, ResolvedRegularExpression]


@dataclass(frozen=True)
class ConsumerGroup:
    """One group of type consumer."""

    group_id: str
    epoch: int
    target_epoch: int
    target_time_ms: int = 0
    """When the target was computed; 0 is unknown, and lets the next one be computed at once."""
    metadata: SubscribedMetadata = NOTHING
    has_metadata_record: bool = False
    """Whether a record of type 4 stands in the log."""
    members: Members = NOBODY
    targets: FrozenMap[str, TopicPartitions] = NO_TARGETS
    regexes: FrozenMap[str, ResolvedRegularExpression] = NO_REGEXES
    timers: Timers = NO_TIMERS
    metadata_due: bool = True
    """Whether the next heartbeat or classic JoinGroup checks the metadata."""
    resolution: Resolution | None = None

    @property
    def state(self) -> State:
        """The state that follows from epochs and members: section 1.2 of the reference."""
        if not self.members:
            return State.EMPTY
        if self.epoch > self.target_epoch:
            return State.ASSIGNING
        return State.STABLE if self.members.all_settled_at(self.target_epoch) else State.RECONCILING

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    def target_of(self, member_id: str, instance_id: str | None) -> TopicPartitions:
        """A member's part of the target; that of an instance id belongs to whoever has it."""
        owner = member_id if instance_id is None else self.members.static.get(instance_id)
        found: TopicPartitions = self.targets.get(owner, ())
        return found

    def preferred_assignor(self, default: str) -> str:
        """The assignor that the stored votes elect."""
        return preferred(self.stored_votes()) or default

    def stored_votes(self) -> dict[str, int]:
        """Votes by assignor, as the coordinator walks its map of them."""
        votes = self.members.votes
        return {assignor: votes[assignor] for assignor in state_order(votes, string_hash)}

    def subscribed_names(self) -> AbstractSet[str]:
        """Topics that somebody names or whose regular expression is resolved to them."""
        found = set(self.members.names)
        for resolved in self.regexes.values():
            found.update(resolved.topics)
        return found

    def names_of(self, member: GroupMember) -> Iterable[str]:
        """Topics that one member subscribes to, by name and by a resolved regular expression; some may come twice."""
        names = member.metadata.subscribed_topic_names
        resolved = self.regexes.get(member.pattern) if member.pattern else None
        return (*names, *resolved.topics) if resolved else names

    def topics_of(self, member: GroupMember, image: Image) -> AbstractSet[TopicId]:
        """The existing topics among them."""
        return existing(self.names_of(member), image)

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics, as far as Kafka looks: section 3.9."""
        members = self.members
        if not members.patterns:
            return all(count == len(members) for count in members.names.values())
        return len(members.patterns) == 1 and not members.names and sum(members.patterns.values()) == len(members)

    def resolved_in_order(self) -> Iterable[ResolvedRegularExpression]:
        """What is resolved, as the coordinator walks its map of it."""
        return [self.regexes[pattern] for pattern in state_order(self.regexes, string_hash)]

    def with_member(self, member: GroupMember, dialect: Dialect) -> ConsumerGroup:
        """With this member, new or changed."""
        drops = Choice.INSTANCE_CHANGE_DROPS_MAPPING in dialect
        return replace(self, members=self.members.having(member, drops_old_instance=drops))

    def without_member(self, member_id: str) -> ConsumerGroup:
        """Without the member and its part of the target."""
        return replace(self, members=self.members.without(member_id), targets=self.targets.without(member_id))


def existing(names: Iterable[str], image: Image) -> AbstractSet[TopicId]:
    """Ids of the topics among these names that exist."""
    topics = image.topics
    return frozenset(topics[name].topic_id for name in names if name in topics)


def fresh(group_id: str, dialect: Dialect) -> ConsumerGroup:
    """A group that is just being created."""
    epoch = 1 if Choice.FRESH_EPOCH_IS_ONE in dialect else 0
    return ConsumerGroup(group_id, epoch, epoch)
