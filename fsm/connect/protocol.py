"""The messages between Connect workers through the coordinator: metadata in a join, an assignment in a sync.

Version 0 is the eager protocol, 1 and 2 the cooperative ones, which are alike on the wire. A trailing field that is
missing reads as empty, so the bytes of each version can be read by the readers of the others; a version above 2 is
read as if it were known.

Source: `ConnectProtocol` and `IncrementalCooperativeConnectProtocol` of apache/kafka at 1eb7644.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, NamedTuple, TypeVar, cast

from fsm.connect.units import Unit, Units, kinds
from fsm.connect.worker.config import Mode
from fsm.errors import RemoteProtocolError
from fsm.protocol.encoding import codec_of, encode_as
from fsm.protocol.primitives import Unreadable
from fsm.protocol.schema import Int16, Int64, Wire

PROTOCOL_TYPE = "connect"
T = TypeVar("T")
NO_ERROR = 0
CONFIG_MISMATCH = 1
"""The leader lacks configs that a member has: nothing is assigned and all members join again."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The assignment in a sync, and, as held units, in the worker's next join."""

    version: int
    leader: str
    """The member id of the leader."""
    leader_url: str
    offset: int
    """The offset of the config topic up to which the leader has read."""
    assigned: Units = ()
    """In a sync of version 1 or 2, the new units."""
    revoked: Units = ()
    delay_ms: int = 0
    error: int = NO_ERROR

    @property
    def failed(self) -> bool:
        """Whether the leader could not assign."""
        return self.error != NO_ERROR


@dataclass(frozen=True, slots=True)
class WorkerMetadata:
    """A worker's metadata in its join."""

    url: str
    offset: int
    """The offset up to which it has read the config topic."""
    held: Assignment | None = None
    """None for a worker without an assignment, and in version 0."""


def protocols(mode: Mode, metadata: WorkerMetadata) -> tuple[tuple[str, bytes], ...]:
    """The protocols that a join advertises, each with its metadata, the most preferred first."""
    return tuple((name, encode_metadata(metadata, version)) for name, version in mode.value)


class ConnectorTasks(NamedTuple):
    """Units of one connector as they are sent; its instance is task -1."""

    connector: str | None
    tasks: tuple[int, ...] | None


ALL = 2
"""With every optional field; a version of the protocol has all of them or none."""


class SentMetadata(NamedTuple):
    """Metadata in its encoded form."""

    version: Int16
    url: str | None
    offset: Int64
    held: Annotated[bytes | None, Wire(since=1)] = None


class SentAssignment(NamedTuple):
    """An assignment in its encoded form."""

    version: Int16
    error: Int16
    leader: str | None
    leader_url: str | None
    offset: Int64
    assigned: tuple[ConnectorTasks, ...] | None
    revoked: Annotated[tuple[ConnectorTasks, ...] | None, Wire(since=1)] = ()
    delay_ms: Annotated[int, Wire(since=2)] = 0


def encode_metadata(metadata: WorkerMetadata, version: int) -> bytes:
    """The bytes of one version; version 0 lacks the held units."""
    held = None if metadata.held is None else encode_assignment(metadata.held, version)
    return encode_as(SentMetadata(version, metadata.url, metadata.offset, held), ALL if version else 0, False)


def decode_metadata(data: bytes) -> WorkerMetadata:
    """Raises `RemoteProtocolError` where the version is negative, or the bytes end early."""
    found = _read(SentMetadata, data, "metadata")
    return WorkerMetadata(found.url or "", found.offset, decode_assignment(found.held) if found.held else None)


def encode_assignment(assignment: Assignment, version: int) -> bytes:
    """The bytes of one version; version 0 has neither revocations nor a delay."""
    one = assignment
    assigned, revoked = _by_connector(one.assigned), _by_connector(one.revoked)
    sent = SentAssignment(version, one.error, one.leader, one.leader_url, one.offset, assigned, revoked, one.delay_ms)
    return encode_as(sent, ALL if version else 0, False)


def decode_assignment(data: bytes) -> Assignment:
    """Raises `RemoteProtocolError` where the version is negative, or the bytes end early."""
    one = _read(SentAssignment, data, "assignment")
    assigned, revoked = _units(one.assigned), _units(one.revoked)
    leader, url = one.leader or "", one.leader_url or ""
    return Assignment(one.version, leader, url, one.offset, assigned, revoked, one.delay_ms, one.error)


def _read(cls: type[T], data: bytes, what: str) -> T:
    """The struct with as many of its optional fields as there are bytes for, whatever its version."""
    place, version = f"{what} of a Connect worker cannot be read at byte", int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise RemoteProtocolError(f"{place} 0: version {version}")
    try:
        for count in range(ALL):
            found, end = codec_of(cls, count, False).read(data, 0)
            if end == len(data):
                return cast("T", found)
        return cast("T", codec_of(cls, ALL, False).read(data, 0)[0])
    except Unreadable as problem:
        raise RemoteProtocolError(f"{place} {problem.at}: {problem}") from None


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
