"""What the topics that a group subscribes to look like: the value that tells a group that they changed.

From 4.1 on it is a hash inside the group's record (F12), before that a record of its own with partition counts.

Source: section 7.2 of the coordinator reference; `Utils.computeGroupHash` and `computeTopicHash` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from fsm.coordinator.context import Context, Topic
from fsm.coordinator.dialect import Choice
from fsm.coordinator.records import TopicMetadata


class SubscribedMetadata(NamedTuple):
    """One of the two forms; the other one is empty."""

    digest: int = 0
    """From 4.1 on; 0 where no subscribed topic exists."""
    topics: tuple[TopicMetadata, ...] = ()
    """Before 4.1."""


NOTHING = SubscribedMetadata()


def subscribed_metadata(names: Iterable[str], context: Context) -> SubscribedMetadata:
    """Of the topics among these names that exist."""
    existing = [(name, context.image.topics[name]) for name in sorted(names) if name in context.image.topics]
    if Choice.METADATA_HASH not in context.dialect:
        return SubscribedMetadata(topics=tuple(TopicMetadata(t.topic_id, name, t.partitions) for name, t in existing))
    if not existing:
        return NOTHING
    return SubscribedMetadata(_digest(b"".join(_topic_digest(name, topic) for name, topic in existing)))


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little", signed=True)


@lru_cache(maxsize=4096)
def _topic_digest(name: str, topic: Topic) -> bytes:
    text = f"{topic.topic_id}\0{name}\0{topic.partitions}\0{topic.racks}"
    return blake2b(text.encode(), digest_size=8).digest()
