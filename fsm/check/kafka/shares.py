"""How a target or a leader's assignment deals partitions: evenly, and so that nobody loses any of its share.

Both are asked where all members subscribe to the same topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from fsm.coordinator.model.consumer_group import ConsumerGroup, find_topics
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice
from fsm.member.classic.assignors import COOPERATIVE_STICKY, PartitionCounts
from fsm.protocol.assignment import TopicPartition, flatten
from fsm.protocol.consumer_protocol import decode_assignment, decode_subscription
from fsm.protocol.messages import JoinGroupResponse, SyncGroupRequest

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
    nobody gives up.
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
    claimed = [p for one in wants.values() for p in one.owned_partitions if p[1] < exist.get(p[0], 0)]
    owned = {who: {p for p in one.owned_partitions if claimed.count(p) == 1} for who, one in wants.items()}
    total = len(set(claimed).union(*given.values()))
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
