"""The embedded consumer protocol: subscriptions and assignments of a classic group, opaque bytes to the coordinator.

The bytes are a version and one of two structs. A version above 3 is read as 3 and trailing bytes are ignored, as by a
Java consumer.

Source: `ConsumerProtocolSubscription.json` and `ConsumerProtocolAssignment.json`, versions 0 to 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, NamedTuple, TypeVar

from fsm.errors import RemoteProtocolError
from fsm.protocol.assignment import Partitions, flatten, partitions
from fsm.protocol.encoding import codec_of, encode_as
from fsm.protocol.primitives import Unreadable
from fsm.protocol.schema import Wire

PROTOCOL_TYPE = "consumer"
HIGHEST_VERSION = 3
GENERATION_SINCE = 2
"""The version of a subscription from which on it names the generation of what is owned."""
T = TypeVar("T")


class TopicPartition(NamedTuple):
    """Partitions of one topic."""

    topic: str
    partitions: tuple[int, ...]


class ConsumerProtocolSubscription(NamedTuple):
    """Wire form of `Subscription`."""

    topics: tuple[str, ...]
    user_data: bytes | None
    owned_partitions: Annotated[tuple[TopicPartition, ...], Wire(since=1)] = ()
    generation_id: Annotated[int, Wire(since=2)] = -1
    rack_id: Annotated[str | None, Wire(since=3)] = None


class ConsumerProtocolAssignment(NamedTuple):
    """Wire form of `Assignment`."""

    assigned_partitions: tuple[TopicPartition, ...]
    user_data: bytes | None


@dataclass(frozen=True, slots=True)
class Subscription:
    """A joining member's topics and owned partitions."""

    topics: tuple[str, ...]
    """Sorted."""
    user_data: bytes | None = None
    """The assignor's own data, for the assignor of the leader."""
    owned_partitions: Partitions = ()
    """Since version 1. An eager member owns nothing when it joins."""
    generation_id: int = -1
    """Since version 2: the generation of the owned partitions."""
    rack_id: str | None = None
    """Since version 3."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The leader's assignment for a member."""

    partitions: Partitions
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription, version: int = HIGHEST_VERSION) -> bytes:
    """The bytes of a version; fields that it does not have are left out."""
    s = subscription
    owned = _by_topic(s.owned_partitions)
    sent = ConsumerProtocolSubscription(s.topics, s.user_data, owned, s.generation_id, s.rack_id)
    return encode_as(sent, version, False, version.to_bytes(2, "big"))


def decode_subscription(data: bytes) -> Subscription:
    """The subscription in these bytes. Raises `RemoteProtocolError` for truncated bytes and invalid lengths."""
    _, found = read(ConsumerProtocolSubscription, data)
    owned = partitions(flatten(found.owned_partitions))
    return Subscription(tuple(sorted(found.topics)), found.user_data, owned, found.generation_id, found.rack_id)


def add_owned(subscription: bytes, assignment: bytes, generation: int) -> bytes:
    """The subscription of a member that owns what it was assigned, too, in this generation.

    It has version 2, or its own one if that is higher: older ones have no generation, without which the claim of a
    member of a later one wins. Raises `RemoteProtocolError` for bytes of either that cannot be read, and for a version
    above `HIGHEST_VERSION`, of which fields would be lost.
    """
    if int.from_bytes(subscription[:2], "big", signed=True) > HIGHEST_VERSION:
        raise RemoteProtocolError("the subscription has a version that is not known")
    version, found = read(ConsumerProtocolSubscription, subscription)
    owned = (*flatten(found.owned_partitions), *decode_assignment(assignment).partitions)
    added = found._replace(owned_partitions=_by_topic(owned), generation_id=generation)
    version = max(version, GENERATION_SINCE)
    return encode_as(added, version, False, version.to_bytes(2, "big"))


def encode_assignment(assignment: Assignment, version: int = HIGHEST_VERSION) -> bytes:
    """The bytes of a version; all four have the same fields."""
    sent = ConsumerProtocolAssignment(_by_topic(assignment.partitions), assignment.user_data)
    return encode_as(sent, version, False, version.to_bytes(2, "big"))


def decode_assignment(data: bytes) -> Assignment:
    """The assignment in these bytes. Raises `RemoteProtocolError` for truncated bytes, empty ones included."""
    _, found = read(ConsumerProtocolAssignment, data)
    return Assignment(partitions(flatten(found.assigned_partitions)), found.user_data)


def read(cls: type[T], data: bytes) -> tuple[int, T]:
    """The version, at most `HIGHEST_VERSION`, and the struct. Raises `RemoteProtocolError` for invalid bytes."""
    version = min(int.from_bytes(data[:2], "big", signed=True), HIGHEST_VERSION)
    if len(data) < 2 or version < 0:
        raise RemoteProtocolError(
            f"{cls.__name__} cannot be read at byte 0: its version is {data[:2].hex() or 'missing'}"
        )
    try:
        found: T = codec_of(cls, version, False).read(data, 2)[0]
    except Unreadable as problem:
        raise RemoteProtocolError(f"{cls.__name__} cannot be read at byte {problem.at}: {problem}") from None
    return version, found


def _by_topic(given: Partitions) -> tuple[TopicPartition, ...]:
    topics = groupby(partitions(given), key=lambda one: one[0])
    return tuple(TopicPartition(topic, tuple(number for _, number in found)) for topic, found in topics)
