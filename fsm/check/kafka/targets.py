"""Target assignments: what is asked of one, and a rule by which members are interchangeable.

A target, or a classic leader's assignment, deals partitions evenly, and nobody loses any of its share. Both are asked
where all members subscribe to the same topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from fsm.coordinator.assignors import Assignments, GroupSpec
from fsm.coordinator.model.consumer_group import ConsumerGroup, find_topics
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice
from fsm.member.classic.assignors import COOPERATIVE_STICKY, PartitionCounts
from fsm.protocol.assignment import TopicPartition, flatten, numbers_by_topic, topic_partitions
from fsm.protocol.consumer_protocol import decode_assignment, decode_subscription
from fsm.protocol.messages import JoinGroupResponse, SyncGroupRequest

IS_EQUIVARIANT = "Kafka's assignors: targets do not depend on member ids"


def equivariant_target(_assignor: str, group: GroupSpec, _found: Assignments) -> Assignments:
    """A balanced and sticky target that does not depend on member ids, for `Context.adopt`.

    Kafka's assignors iterate over members in the order of a hash of their ids. This rule keeps the previous target
    where it can, gives free partitions to the member with the fewest, and balances. Of two members with equally many
    partitions the one with the lower partitions comes first. Members without partitions and with the same subscription
    differ only by their ids, which decide then: `Symmetry` refuses such a step.
    """
    members = group.members.items()
    topics = {topic: {name for name, member in members if topic in member.subscribed} for topic in group.topics}
    everything = [(topic, number) for topic in sorted(topics) for number in range(group.topics[topic])]
    had = ((one, name) for name, member in members for one in flatten(member.previous))
    owner = {one: name for one, name in had if name in topics.get(one[0], ())}

    def rank(name: str) -> Any:
        has = sorted(one for one in everything if owner.get(one) == name)
        return len(has), has, sorted(group.members[name].subscribed), name

    def count(name: str) -> int:
        return int(rank(name)[0])

    for one in everything:
        if one not in owner and topics[one[0]]:
            owner[one] = min(topics[one[0]], key=rank)
    while gains := [
        (one, least) for one in owner if count(least := min(topics[one[0]], key=rank)) + 1 < count(owner[one])
    ]:
        one, least = min(gains, key=lambda gain: (-count(owner[gain[0]]), gain[0]))
        owner[one] = least
    return {
        name: topic_partitions(numbers_by_topic(one for one in everything if owner.get(one) == name))
        for name in group.members
    }


EVEN, STICKY = "partitions are dealt evenly", "who has no more than its share keeps it"
Shares = Mapping[str, AbstractSet[TopicPartition]]
"""Partitions by member id."""


def ask_target(before: ConsumerGroup | None, after: ConsumerGroup, context: Context) -> Iterator[str]:
    """What a new target breaks."""
    if after.is_empty or context.adopt is not None or (before and before.target_epoch == after.target_epoch):
        return
    members, topics = after.members.values(), context.image.topics
    if len({find_topics(after.names_of(one), topics) for one in members}) > 1:
        return
    given = {who: set(flatten(after.targets.get(who, ()))) for who in after.members}
    if after.preferred_assignor(context.default_assignor) == "range":
        yield from [] if all(map(_is_even, _split_by_topic(given))) else [EVEN]
        return
    yield from [] if _is_even(given) else [EVEN]
    if before is not None and Choice.EXTRA_SLOT_STAYS in context.dialect:
        had = {one.member_id: before.target_of(one.member_id, one.instance_id) for one in members}
        exist = {topics[name].topic_id: topics[name].partitions for name in after.subscribed_names() if name in topics}
        owned = {who: {p for p in flatten(mine) if p[1] < exist.get(p[0], 0)} for who, mine in had.items()}
        yield from [] if _keep_their_shares(owned, given) else [STICKY]


def ask_leader(joined: JoinGroupResponse | None, sent: SyncGroupRequest, metadata: PartitionCounts) -> Iterator[str]:
    """What the assignments of a classic leader with this metadata break; of a cooperative one those of partitions that
    nobody gives up. Of several members that claim a partition the one of the latest generation owns it.
    """
    if joined is None or not sent.assignments:
        return
    wants = {one.member_id: decode_subscription(one.metadata) for one in joined.members}
    if len({one.topics for one in wants.values()}) > 1:
        return
    given = {who: {*decode_assignment(data).partitions} for who, data in sent.assignments}
    if joined.protocol_name != COOPERATIVE_STICKY.name:
        yield from [] if all(map(_is_even, _split_by_topic(given))) else [EVEN]
        return
    exist = dict(metadata)
    claimed: dict[TopicPartition, list[int]] = {}
    for one in wants.values():
        for p in one.owned_partitions:
            if p[1] < exist.get(p[0], 0):
                claimed.setdefault(p, []).append(one.generation_id)
    holds = {p: max(found) for p, found in claimed.items() if found.count(max(found)) == 1}
    owned = {who: {p for p in one.owned_partitions if holds.get(p) == one.generation_id} for who, one in wants.items()}
    total = len({*claimed}.union(*given.values()))
    yield from [] if max(map(len, given.values())) <= -(-total // len(given)) else [EVEN]
    yield from [] if _keep_their_shares(owned, given, total) else [STICKY]


def _split_by_topic(given: Shares) -> Iterator[Shares]:
    topics = sorted({topic for mine in given.values() for topic, _ in mine})
    return ({who: {p for p in mine if p[0] == topic} for who, mine in given.items()} for topic in topics)


def _is_even(given: Shares) -> bool:
    sizes = [len(mine) for mine in given.values()]
    return max(sizes) - min(sizes) <= 1


def _keep_their_shares(owned: Shares, given: Shares, total: int | None = None) -> bool:
    """Whether nobody loses any of its share; of those with more, as many keep one more as there are left over."""
    total = sum(map(len, given.values())) if total is None else total
    low, more = divmod(total, len(given))
    kept = {who: len(mine & given[who]) for who, mine in owned.items()}
    if any(count < min(low, len(owned[who])) for who, count in kept.items()):
        return False
    return sum(count > low for count in kept.values()) >= min(more, sum(len(mine) > low for mine in owned.values()))
