"""The metadata of the topics that a group subscribes to, by which it detects their changes.

From 4.1 on it is a hash inside the group's record (F12), before that a record of its own with partition counts. The
hash is the one that Kafka computes, to the bit.

Source: KAFKA-17747; `Utils.computeGroupHash` and `computeTopicHash` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from xxhash import xxh3_64_digest, xxh3_64_intdigest

from fsm.coordinator.model.context import Context, Topic
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.hash_order import uuid_rank
from fsm.coordinator.model.persistent import PersistentMap
from fsm.protocol.records import TopicMetadata


class SubscribedMetadata(NamedTuple):
    """One of the two forms; the other one is empty."""

    digest: int = 0
    """From 4.1 on; 0 where no subscribed topic exists."""
    topics: tuple[TopicMetadata, ...] = ()
    """Before 4.1."""


NOTHING = SubscribedMetadata()


def subscribed_metadata(names: Iterable[str], context: Context) -> SubscribedMetadata:
    """The metadata of those topics among these names that exist."""
    return _look_at(frozenset(names), context.image.topics, Choice.METADATA_HASH in context.dialect.choices)


@lru_cache(maxsize=1024)
def _look_at(names: frozenset[str], topics: PersistentMap[str, Topic], hashes: bool) -> SubscribedMetadata:
    existing = [(name, topics[name]) for name in sorted(names) if name in topics]
    if not hashes:
        return SubscribedMetadata(topics=tuple(TopicMetadata(t.topic_id, name, t.partitions) for name, t in existing))
    if not existing:
        return NOTHING
    return SubscribedMetadata(_digest(b"".join(_topic_digest(name, topic) for name, topic in existing)))


def _digest(data: bytes) -> int:
    """The hash as a signed number, as in Java."""
    found = xxh3_64_intdigest(data)
    return found - (found >> 63 << 64)


@lru_cache(maxsize=4096)
def _topic_digest(name: str, topic: Topic) -> bytes:
    """The topic's hash: over its id, its name, and each partition with the racks of its replicas."""
    most, least = uuid_rank(topic.topic_id)
    data = bytearray(b"\0" + _long(most) + _long(least) + _text(name) + _int(topic.partitions))
    for partition in range(topic.partitions):
        data += _int(partition)
        for rack in sorted(topic.racks[partition] if topic.racks else ()):
            data += _int(len(rack)) + _text(rack)
    return xxh3_64_digest(bytes(data))[::-1]


def _int(number: int) -> bytes:
    return number.to_bytes(4, "little")


def _long(number: int) -> bytes:
    return number.to_bytes(8, "little", signed=True)


def _text(text: str) -> bytes:
    """Its UTF-16 units, then how many there are."""
    units = text.encode("utf-16-le")
    return units + _int(len(units) // 2)
