"""What consumers of a classic group tell each other through the coordinator, which passes it on as bytes.

Source: `ConsumerProtocolSubscription.json` and `ConsumerProtocolAssignment.json`, versions 0 to 3, each after two
bytes of version. A version above 3 is read as 3 and what follows is passed over, as a Java consumer does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from fsm.errors import RemoteProtocolError
from fsm.kafka.assignment import Partitions, TopicPartition, partitions

PROTOCOL_TYPE = "consumer"
HIGHEST_VERSION = 3


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
    parts = [_short(version), _array([_string(t) for t in subscription.topics]), _bytes(subscription.user_data)]
    if version >= 1:
        parts.append(_partitions(subscription.owned_partitions))
    if version >= 2:
        parts.append(_int(subscription.generation_id))
    if version >= 3:
        parts.append(_string(subscription.rack_id))
    return b"".join(parts)


def decode_subscription(data: bytes) -> Subscription:
    """Raises `RemoteProtocolError` where the bytes end early or a length makes no sense."""
    read = _Reader(data, "ConsumerProtocolSubscription")
    version = read.version()
    topics = tuple(read.text() for _ in range(read.length()))
    user_data = read.blob()
    owned = read.partitions() if version >= 1 else ()
    generation_id = read.integer() if version >= 2 else -1
    rack_id = read.nullable_text() if version >= 3 else None
    return Subscription(tuple(sorted(topics)), user_data, owned, generation_id, rack_id)


def encode_assignment(assignment: Assignment, version: int = HIGHEST_VERSION) -> bytes:
    """The bytes of one version; all four are alike."""
    return _short(version) + _partitions(assignment.partitions) + _bytes(assignment.user_data)


def decode_assignment(data: bytes) -> Assignment:
    """Raises `RemoteProtocolError` where the bytes end early, as those of no assignment do."""
    read = _Reader(data, "ConsumerProtocolAssignment")
    read.version()
    return Assignment(read.partitions(), read.blob())


def _short(value: int) -> bytes:
    return struct.pack(">h", value)


def _int(value: int) -> bytes:
    return struct.pack(">i", value)


def _string(value: str | None) -> bytes:
    if value is None:
        return _short(-1)
    data = value.encode()
    return _short(len(data)) + data


def _bytes(value: bytes | None) -> bytes:
    return _int(-1) if value is None else _int(len(value)) + value


def _array(items: Iterable[bytes]) -> bytes:
    found = tuple(items)
    return _int(len(found)) + b"".join(found)


def _partitions(given: Partitions) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions(given):
        topics.setdefault(topic, []).append(number)
    return _array(_string(topic) + _array(_int(n) for n in numbers) for topic, numbers in topics.items())


class _Reader:
    """Reads one value after the other; what is missing or negative is named with its place."""

    def __init__(self, data: bytes, what: str) -> None:
        self.data, self.what, self.at = data, what, 0

    def version(self) -> int:
        version = self.short()
        if version < 0:
            raise self.error(f"version {version}")
        return min(version, HIGHEST_VERSION)

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise self.error(f"{size} bytes wanted, {len(self.data) - self.at} left")
        self.at += size
        return self.data[self.at - size : self.at]

    def short(self) -> int:
        return int(struct.unpack(">h", self.take(2))[0])

    def integer(self) -> int:
        return int(struct.unpack(">i", self.take(4))[0])

    def length(self) -> int:
        """Of an array; one that cannot fit into what is left is refused before anything is made of it."""
        size = self.integer()
        if not 0 <= size <= len(self.data) - self.at:
            raise self.error(f"an array of {size}")
        return size

    def nullable_text(self) -> str | None:
        size = self.short()
        if size == -1:
            return None
        try:
            return self.take(size).decode()
        except UnicodeDecodeError:
            raise self.error("text that is no UTF-8") from None

    def text(self) -> str:
        found = self.nullable_text()
        if found is None:
            raise self.error("null for a name")
        return found

    def blob(self) -> bytes | None:
        size = self.integer()
        return None if size == -1 else self.take(size)

    def partitions(self) -> Partitions:
        found: list[TopicPartition] = []
        for _ in range(self.length()):
            topic = self.text()
            found.extend((topic, self.integer()) for _ in range(self.length()))
        return partitions(found)

    def error(self, what: str) -> RemoteProtocolError:
        return RemoteProtocolError(f"{self.what} cannot be read at byte {self.at}: {what}")
