"""What consumers of the classic protocol say in bytes, in the terms of a consumer group: topic ids instead of names.

Only what the coordinator needs: it reads subscriptions and assignments of any version, and writes assignments in the
version in which a member wrote its subscription. Topics are written in the order in which a broker walks them.

Source: section 8.6 of the coordinator reference; `ConsumerProtocol` and `Utils` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import pack, unpack_from

from fsm.coordinator.context import Image
from fsm.coordinator.hash_order import topic_order
from fsm.errors import RemoteProtocolError
from fsm.kafka.assignment import TopicPartition, TopicPartitions, topic_partitions
from fsm.kafka.consumer_protocol import HIGHEST_VERSION, Subscription, decode_assignment, decode_subscription


def subscription_of(metadata: bytes) -> Subscription:
    """What the member wants and holds. Raises `RemoteProtocolError` for bytes that are none."""
    return decode_subscription(metadata)


def assignment_of(data: bytes, image: Image) -> tuple[TopicPartitions, bytes | None]:
    """What the member was given, and what the assignor put beside it.

    Raises `RemoteProtocolError` for bytes that are no assignment.
    """
    found = decode_assignment(data)
    return by_id(found.partitions, image), found.user_data


def by_id(partitions: Iterable[TopicPartition], image: Image) -> TopicPartitions:
    """Partitions under the ids of their topics; topics that do not exist are left out."""
    found: dict[str, list[int]] = {}
    for name, number in partitions:
        if name in image.topics:
            found.setdefault(image.topics[name].topic_id, []).append(number)
    return topic_partitions(found)


def version_of(metadata: bytes) -> int:
    """The version that a member writes. Raises `RemoteProtocolError` where there is none."""
    if len(metadata) < 2:
        raise RemoteProtocolError("a subscription without its version")
    return min(int(unpack_from(">h", metadata)[0]), HIGHEST_VERSION)


def encoded(assigned: TopicPartitions, metadata: bytes, image: Image) -> bytes:
    """The assignment for a member that joined with this subscription; topics that do not exist are left out."""
    by_topic = dict(assigned)
    named = [(image.names[i], by_topic[i]) for i in topic_order(by_topic) if i in image.names]
    parts = [pack(">hi", version_of(metadata), len(named))]
    for name, numbers in named:
        data = name.encode()
        parts.append(pack(f">h{len(data)}si{len(numbers)}i", len(data), data, len(numbers), *numbers))
    return b"".join((*parts, pack(">i", -1)))
