"""What consumers of a classic group tell each other through the coordinator, which passes it on as bytes.

The bytes are a version and one of two structs. A version above 3 is read as 3 and what follows is passed over, as a
Java consumer does.

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
T = TypeVar("T")


class TopicPartition(NamedTuple):
    """Partitions of one topic."""

    topic: str
    partitions: tuple[int, ...]


class ConsumerProtocolSubscription(NamedTuple):
    """A subscription as it is sent."""

    topics: tuple[str, ...]
    user_data: bytes | None
    owned_partitions: Annotated[tuple[TopicPartition, ...], Wire(since=1)] = ()
    generation_id: Annotated[int, Wire(since=2)] = -1
    rack_id: Annotated[str | None, Wire(since=3)] = None


class ConsumerProtocolAssignment(NamedTuple):
    """An assignment as it is sent."""

    assigned_partitions: tuple[TopicPartition, ...]
    user_data: bytes | None


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member wants and holds, as it joins."""

    topics: tuple[str, ...]
    """Sorted."""
    user_data: bytes | None = None
    """The assignor's own, for itself in the leader."""
    owned_partitions: Partitions = ()
    """Since version 1. An eager member owns nothing when it joins."""
    generation_id: int = -1
    """Since version 2: the generation in which it came to own them."""
    rack_id: str | None = None
    """Since version 3."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader gives to a member."""

    partitions: Partitions
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription, version: int = HIGHEST_VERSION) -> bytes:
    """The bytes of one version; what the version does not know is left out."""
    s = subscription
    owned = _by_topic(s.owned_partitions)
    sent = ConsumerProtocolSubscription(s.topics, s.user_data, owned, s.generation_id, s.rack_id)
    return encode_as(sent, version, False, version.to_bytes(2, "big"))


def decode_subscription(data: bytes) -> Subscription:
    """Raises `RemoteProtocolError` where the bytes end early or a length makes no sense."""
    _, found = read(ConsumerProtocolSubscription, data)
    owned = partitions(flatten(found.owned_partitions))
    return Subscription(tuple(sorted(found.topics)), found.user_data, owned, found.generation_id, found.rack_id)


def encode_assignment(assignment: Assignment, version: int = HIGHEST_VERSION) -> bytes:
    """The bytes of one version; all four are alike."""
    sent = ConsumerProtocolAssignment(_by_topic(assignment.partitions), assignment.user_data)
    return encode_as(sent, version, False, version.to_bytes(2, "big"))


def decode_assignment(data: bytes) -> Assignment:
    """Raises `RemoteProtocolError` where the bytes end early, as those of no assignment do."""
    _, found = read(ConsumerProtocolAssignment, data)
    return Assignment(partitions(flatten(found.assigned_partitions)), found.user_data)


def read(cls: type[T], data: bytes) -> tuple[int, T]:
    """The version, as far as it is known, and the struct. Raises `RemoteProtocolError` for bytes that are none."""
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
