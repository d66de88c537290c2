"""What Connect workers tell each other through the coordinator: metadata in a join, an assignment in a sync.

Version 0 is the eager protocol, 1 and 2 the cooperative ones, which are alike on the wire. A trailing field that is
missing reads as empty, so the bytes of each version can be read by the readers of the others; a version above 2 is
read as if it were known.

Source: `ConnectProtocol` and `IncrementalCooperativeConnectProtocol` of apache/kafka at 1eb7644.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from fsm.connect.units import Unit, Units, kinds
from fsm.connect.worker.config import Mode
from fsm.errors import RemoteProtocolError
from fsm.protocol.encoding import Unreadable, codec_of, encode_as
from fsm.protocol.schema import Int16, Int64

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


class ConnectorTasks(NamedTuple):
    """Units of one connector; its instance is task -1."""

    connector: str | None
    tasks: tuple[int, ...] | None


class MetadataHead(NamedTuple):
    """What metadata of every version begins with."""

    version: Int16
    url: str | None
    offset: Int64


class Allocation(NamedTuple):
    """What is held, since version 1."""

    assignment: bytes | None


class AssignmentHead(NamedTuple):
    """What an assignment of every version begins with."""

    version: Int16
    error: Int16
    leader: str | None
    leader_url: str | None
    offset: Int64
    assigned: tuple[ConnectorTasks, ...] | None


class Revoked(NamedTuple):
    """What is revoked, since version 1."""

    revoked: tuple[ConnectorTasks, ...] | None


class Delay(NamedTuple):
    """The scheduled delay, since version 1."""

    delay_ms: int


def encode_metadata(metadata: WorkerMetadata, version: int) -> bytes:
    """The bytes of one version; version 0 does not say what is held."""
    head = encode_as(MetadataHead(version, metadata.url, metadata.offset), 0, False)
    if version == 0:
        return head
    held = metadata.held
    return encode_as(Allocation(None if held is None else encode_assignment(held, version)), 0, False, head)


def decode_metadata(data: bytes) -> WorkerMetadata:
    """Raises `RemoteProtocolError` where the version is negative, or the bytes end early."""
    head, rest = _read("metadata", data, MetadataHead, Allocation)
    held = rest[0].assignment if rest else None
    return WorkerMetadata(head.url or "", head.offset, decode_assignment(held) if held else None)


def encode_assignment(assignment: Assignment, version: int) -> bytes:
    """The bytes of one version; version 0 has neither revocations nor a delay."""
    one = assignment
    head = AssignmentHead(version, one.error, one.leader, one.leader_url, one.offset, _by_connector(one.assigned))
    data = encode_as(head, 0, False)
    if version == 0:
        return data
    return encode_as(Delay(one.delay_ms), 0, False, encode_as(Revoked(_by_connector(one.revoked)), 0, False, data))


def decode_assignment(data: bytes) -> Assignment:
    """Raises `RemoteProtocolError` where the version is negative, or the bytes end early."""
    head, rest = _read("assignment", data, AssignmentHead, Revoked, Delay)
    revoked = _units(rest[0].revoked) if rest else ()
    delay_ms = rest[1].delay_ms if rest[1:] else 0
    leader, url = head.leader or "", head.leader_url or ""
    return Assignment(head.version, leader, url, head.offset, _units(head.assigned), revoked, delay_ms, head.error)


def _read(what: str, data: bytes, head: type[Any], *optional: type[Any]) -> tuple[Any, list[Any]]:
    """The head, and of the structs that may follow as many as there are bytes for."""
    place = f"{what} of a Connect worker cannot be read at byte"
    if int.from_bytes(data[:2], "big", signed=True) < 0:
        raise RemoteProtocolError(f"{place} 0: version {int.from_bytes(data[:2], 'big', signed=True)}")
    found: list[Any] = []
    at = 0
    try:
        for cls in (head, *optional):
            if found and at == len(data):
                break
            one, at = codec_of(cls, 0, False).read(data, at)
            found.append(one)
    except Unreadable as problem:
        raise RemoteProtocolError(f"{place} {problem.at}: {problem}") from None
    return found[0], found[1:]


def _by_connector(units: Iterable[Unit]) -> tuple[ConnectorTasks, ...]:
    """Grouped by connector in the order in which they come up, instances before tasks."""
    numbers: dict[str, tuple[int, ...]] = {}
    for kind in kinds(units):
        for unit in kind:
            numbers[unit.connector] = (*numbers.get(unit.connector, ()), unit.number)
    return tuple(ConnectorTasks(name, tasks) for name, tasks in numbers.items())


def _units(given: tuple[ConnectorTasks, ...] | None) -> Units:
    """The connectors, then the tasks, each in the order of the bytes."""
    connectors, tasks = kinds(Unit(name or "", number) for name, numbers in given or () for number in numbers or ())
    return (*connectors, *tasks)
