"""What Connect workers tell each other through the coordinator: metadata in a join, an assignment in a sync.

Version 0 is the eager protocol, 1 and 2 the cooperative ones, which are alike on the wire. A trailing field that is
missing reads as empty, so the bytes of each version can be read by the readers of the others; a version above 2 is
read as if it were known.

Source: `ConnectProtocol` and `IncrementalCooperativeConnectProtocol` of apache/kafka at 1eb7644.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from fsm.connect.units import Unit, Units, kinds
from fsm.connect.worker.config import Mode
from fsm.errors import RemoteProtocolError

PROTOCOL_TYPE = "connect"
NO_ERROR = 0
CONFIG_MISMATCH = 1
"""The leader lacks configs that a member has: nothing is assigned and everybody joins again."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a sync brings to a worker, and, as what it holds, what it says in its next join."""

    version: int
    leader: str
    """Member id."""
    leader_url: str
    offset: int
    """Of the config topic, as the leader read it."""
    assigned: Units = ()
    """In a sync of version 1 or 2, what is new."""
    revoked: Units = ()
    delay_ms: int = 0
    error: int = NO_ERROR

    @property
    def failed(self) -> bool:
        """Whether the leader could not assign."""
        return self.error != NO_ERROR


@dataclass(frozen=True, slots=True)
class WorkerMetadata:
    """What a worker says in its join."""

    url: str
    offset: int
    """Up to where it has read the config topic."""
    held: Assignment | None = None
    """None for a worker that holds nothing it knows of, and in version 0."""


def protocols(mode: Mode, metadata: WorkerMetadata) -> tuple[tuple[str, bytes], ...]:
    """The protocols that a join advertises, each with its metadata, the most preferred first."""
    return tuple((name, encode_metadata(metadata, version)) for name, version in mode.value)


def encode_metadata(metadata: WorkerMetadata, version: int) -> bytes:
    """The bytes of one version; version 0 does not say what is held."""
    head = _short(version) + _string(metadata.url) + _long(metadata.offset)
    if version == 0:
        return head
    held = metadata.held
    return head + (_int(-1) if held is None else _bytes(encode_assignment(held, version)))


def decode_metadata(data: bytes) -> WorkerMetadata:
    """Raises `RemoteProtocolError` where the version is negative, or the bytes end early."""
    read = _Reader(data, "metadata of a Connect worker")
    read.version()
    url, offset = read.text(), read.long()
    held = read.blob() if read.more else None
    return WorkerMetadata(url, offset, decode_assignment(held) if held else None)


def encode_assignment(assignment: Assignment, version: int) -> bytes:
    """The bytes of one version; version 0 has neither revocations nor a delay."""
    head = _short(version) + _short(assignment.error) + _string(assignment.leader) + _string(assignment.leader_url)
    body = head + _long(assignment.offset) + _units(assignment.assigned)
    return body if version == 0 else body + _units(assignment.revoked) + _int(assignment.delay_ms)


def decode_assignment(data: bytes) -> Assignment:
    """Raises `RemoteProtocolError` where the version is negative, or the bytes end early."""
    read = _Reader(data, "assignment of a Connect worker")
    version, error = read.version(), read.short()
    leader, leader_url, offset = read.text(), read.text(), read.long()
    assigned = read.units()
    revoked = read.units() if read.more else ()
    delay_ms = read.integer() if read.more else 0
    return Assignment(version, leader, leader_url, offset, assigned, revoked, delay_ms, error)


def _short(value: int) -> bytes:
    return struct.pack(">h", value)


def _int(value: int) -> bytes:
    return struct.pack(">i", value)


def _long(value: int) -> bytes:
    return struct.pack(">q", value)


def _string(value: str) -> bytes:
    data = value.encode()
    return _short(len(data)) + data


def _bytes(value: bytes) -> bytes:
    return _int(len(value)) + value


def _units(units: Iterable[Unit]) -> bytes:
    """Grouped by connector in the order in which they come up, instances before tasks."""
    numbers: dict[str, list[int]] = {}
    for kind in kinds(units):
        for unit in kind:
            numbers.setdefault(unit.connector, []).append(unit.number)
    parts = [_string(name) + _int(len(each)) + b"".join(map(_int, each)) for name, each in numbers.items()]
    return _int(len(parts)) + b"".join(parts)


class _Reader:
    """Reads one value after the other; what is missing or makes no sense is named with its place."""

    def __init__(self, data: bytes, what: str) -> None:
        self.data, self.what, self.at = data, what, 0

    @property
    def more(self) -> bool:
        return self.at < len(self.data)

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise self.error(f"{size} bytes wanted, {len(self.data) - self.at} left")
        self.at += size
        return self.data[self.at - size : self.at]

    def short(self) -> int:
        return int(struct.unpack(">h", self.take(2))[0])

    def integer(self) -> int:
        return int(struct.unpack(">i", self.take(4))[0])

    def long(self) -> int:
        return int(struct.unpack(">q", self.take(8))[0])

    def version(self) -> int:
        version = self.short()
        if version < 0:
            raise self.error(f"version {version}")
        return version

    def text(self) -> str:
        size = self.short()
        try:
            return "" if size == -1 else self.take(size).decode()
        except UnicodeDecodeError:
            raise self.error("text that is no UTF-8") from None

    def blob(self) -> bytes | None:
        size = self.integer()
        return None if size == -1 else self.take(size)

    def length(self) -> int:
        """Of an array, where null is empty; one that cannot fit into what is left is refused at once."""
        size = self.integer()
        if not -1 <= size <= len(self.data) - self.at:
            raise self.error(f"an array of {size}")
        return max(size, 0)

    def units(self) -> Units:
        """The connectors, then the tasks, each in the order of the bytes."""
        found: list[Unit] = []
        for _ in range(self.length()):
            connector = self.text()
            found.extend(Unit(connector, self.integer()) for _ in range(self.length()))
        connectors, tasks = kinds(found)
        return (*connectors, *tasks)

    def error(self, what: str) -> RemoteProtocolError:
        return RemoteProtocolError(f"{self.what} cannot be read at byte {self.at}: {what}")
