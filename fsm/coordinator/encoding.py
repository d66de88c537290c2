"""Kafka's binary encoding as data: kinds of fields, and structs of them in their versions.

A `Struct` says for each field its name, its kind, the versions that have it and, for a tagged field, its tag; it reads
and writes any Python object with attributes of those names. Bytes that a struct wrote are those that Kafka writes:
fields in wire order, tags ascending, a tagged field at its default left out. Unknown tags are skipped.

Source: the message format of apache/kafka (`clients/src/main/resources/common/message/README.md`).
"""

from __future__ import annotations

from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from fsm.errors import InputError

Bytes = bytes | memoryview


class Reader:
    """Bytes read from front to back. Raises `InputError` naming the place where they end too early or make no sense."""

    __slots__ = ("at", "data")

    def __init__(self, data: Bytes) -> None:
        self.data = memoryview(data)
        self.at = 0

    def take(self, count: int) -> memoryview:
        """The next bytes."""
        end = self.at + count
        if count < 0 or end > len(self.data):
            raise InputError(f"{count} bytes wanted, {len(self.data) - self.at} left", f"byte {self.at}")
        taken, self.at = self.data[self.at : end], end
        return taken

    def number(self, size: int) -> int:
        """A signed big-endian number of so many bytes."""
        return int.from_bytes(self.take(size), "big", signed=True)

    def varint(self) -> int:
        """An unsigned number of variable length."""
        found = shift = 0
        while shift < 70:
            byte = self.take(1)[0]
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7
        raise InputError("a number of variable length does not end", f"byte {self.at}")

    def zigzag(self) -> int:
        """A signed number of variable length, as records of a batch have it."""
        found = self.varint()
        return found >> 1 ^ -(found & 1)

    def text(self, length: int) -> str:
        """UTF-8 of so many bytes."""
        place = self.at
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError:
            raise InputError("not UTF-8", f"byte {place}") from None

    def end(self) -> None:
        """Refuses bytes that nobody read."""
        if self.at != len(self.data):
            raise InputError(f"{len(self.data) - self.at} bytes too many", f"byte {self.at}")


def varint(value: int) -> bytes:
    """An unsigned number of variable length."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> bytes:
    """A signed number of variable length."""
    return varint((value << 1 ^ value >> 63) & 0xFFFFFFFFFFFFFFFF)


class Kind(Protocol):
    """What a field holds."""

    def read(self, reader: Reader, version: int, flexible: bool) -> Any:
        """The next value."""

    def write(self, out: bytearray, value: Any, version: int, flexible: bool) -> None:
        """Appends a value."""

    def to_json(self, value: Any, version: int) -> Any:
        """The value as Kafka's tools print it."""

    def from_json(self, value: Any, version: int) -> Any:
        """The value that was printed so."""


class Plain:
    """A kind that JSON shows as it is."""

    def to_json(self, value: Any, _version: int) -> Any:
        return value

    def from_json(self, value: Any, _version: int) -> Any:
        return value


@dataclass(frozen=True)
class Int(Plain):
    """A signed number."""

    size: int

    def read(self, reader: Reader, _version: int, _flexible: bool) -> int:
        return reader.number(self.size)

    def write(self, out: bytearray, value: int, _version: int, _flexible: bool) -> None:
        out += value.to_bytes(self.size, "big", signed=True)


INT8, INT16, INT32, INT64 = Int(1), Int(2), Int(4), Int(8)


@dataclass(frozen=True)
class Sized:
    """A kind with its length in front: `prefix` bytes, or in a flexible version a varint of the length plus one."""

    prefix: int
    nullable: bool = False

    def length(self, reader: Reader, flexible: bool) -> int | None:
        found = reader.varint() - 1 if flexible else reader.number(self.prefix)
        if found >= 0:
            return found
        if not self.nullable:
            raise InputError("null where a value is needed", f"byte {reader.at}")
        return None

    def head(self, length: int | None, flexible: bool) -> bytes:
        if length is None and not self.nullable:
            raise InputError("null where a value is needed", type(self).__name__)
        size = -1 if length is None else length
        return varint(size + 1) if flexible else size.to_bytes(self.prefix, "big", signed=True)


@dataclass(frozen=True)
class Text(Sized, Plain):
    """A string."""

    prefix: int = 2

    def read(self, reader: Reader, _version: int, flexible: bool) -> str | None:
        length = self.length(reader, flexible)
        return None if length is None else reader.text(length)

    def write(self, out: bytearray, value: str | None, _version: int, flexible: bool) -> None:
        raw = None if value is None else value.encode()
        out += self.head(None if raw is None else len(raw), flexible)
        out += raw or b""


@dataclass(frozen=True)
class Blob(Sized):
    """Bytes; base64 in JSON."""

    prefix: int = 4

    def read(self, reader: Reader, _version: int, flexible: bool) -> bytes | None:
        length = self.length(reader, flexible)
        return None if length is None else bytes(reader.take(length))

    def write(self, out: bytearray, value: bytes | None, _version: int, flexible: bool) -> None:
        out += self.head(None if value is None else len(value), flexible)
        out += value or b""

    def to_json(self, value: bytes | None, _version: int) -> str | None:
        return None if value is None else b64encode(value).decode()

    def from_json(self, value: str | None, _version: int) -> bytes | None:
        return None if value is None else b64decode(value)


@dataclass(frozen=True)
class Uuid(Plain):
    """A topic id, as its base64 text."""

    def read(self, reader: Reader, _version: int, _flexible: bool) -> str:
        return urlsafe_b64encode(reader.take(16)).decode().rstrip("=")

    def write(self, out: bytearray, value: str, _version: int, _flexible: bool) -> None:
        out += urlsafe_b64decode(value + "==")


@dataclass(frozen=True)
class Array(Sized):
    """Several values of one kind; a tuple."""

    prefix: int = 4
    of: Kind = INT32

    def read(self, reader: Reader, version: int, flexible: bool) -> tuple[Any, ...] | None:
        length = self.length(reader, flexible)
        return None if length is None else tuple(self.of.read(reader, version, flexible) for _ in range(length))

    def write(self, out: bytearray, value: tuple[Any, ...] | None, version: int, flexible: bool) -> None:
        out += self.head(None if value is None else len(value), flexible)
        for one in value or ():
            self.of.write(out, one, version, flexible)

    def to_json(self, value: tuple[Any, ...] | None, version: int) -> list[Any] | None:
        return None if value is None else [self.of.to_json(one, version) for one in value]

    def from_json(self, value: list[Any] | None, version: int) -> tuple[Any, ...] | None:
        return None if value is None else tuple(self.of.from_json(one, version) for one in value)


TEXT, OPTIONAL_TEXT, BLOB, OPTIONAL_BLOB = Text(), Text(nullable=True), Blob(), Blob(nullable=True)
UUID = Uuid()


@dataclass(frozen=True)
class Field:
    """One field of a struct."""

    name: str
    kind: Kind
    since: int = 0
    until: int = 1 << 15
    """The last version that has it."""
    tag: int | None = None
    default: Any = None
    """What a version without the field, or a message without the tag, means."""

    def is_in(self, version: int) -> bool:
        return self.since <= version <= self.until

    @property
    def label(self) -> str:
        """The name in JSON."""
        first, *rest = self.name.split("_")
        return first + "".join(word.capitalize() for word in rest)


class _Layout(NamedTuple):
    """The fields of a struct in one version."""

    plain: tuple[Field, ...]
    tagged: dict[int, Field]
    absent: dict[str, Any]
    """Values of what the version or the message leaves out."""


@dataclass(frozen=True)
class Struct:
    """Fields in wire order, and what is made of them."""

    make: Callable[..., Any]
    fields: tuple[Field, ...]
    flexible_since: int = 0
    _layouts: dict[int, _Layout] = field(default_factory=dict, init=False, repr=False, compare=False)

    def read(self, reader: Reader, version: int, _flexible: bool = False) -> Any:
        """What `make` gives for the next values. Raises `InputError` for bytes that are none."""
        flexible = version >= self.flexible_since
        values = dict(self._layout(version).absent)
        for f in self._layout(version).plain:
            values[f.name] = f.kind.read(reader, version, flexible)
        if flexible:
            values.update(self._read_tags(reader, version))
        return self.make(**values)

    def write(self, out: bytearray, value: Any, version: int, _flexible: bool = False) -> None:
        """Appends the fields that the version has. Raises `InputError` where a field it needs is None."""
        flexible = version >= self.flexible_since
        for f in self._layout(version).plain:
            f.kind.write(out, getattr(value, f.name), version, flexible)
        if flexible:
            self._write_tags(out, value, version)

    def _layout(self, version: int) -> _Layout:
        if version not in self._layouts:
            here = [f for f in self.fields if f.is_in(version)]
            plain = tuple(f for f in here if f.tag is None)
            tagged = {f.tag: f for f in here if f.tag is not None}
            absent = {f.name: f.default for f in self.fields if f not in plain}
            self._layouts[version] = _Layout(plain, dict(sorted(tagged.items())), absent)
        return self._layouts[version]

    def _read_tags(self, reader: Reader, version: int) -> dict[str, Any]:
        known, found = self._layout(version).tagged, {}
        for _ in range(reader.varint()):
            tag = reader.varint()
            inside = Reader(reader.take(reader.varint()))
            if tag in known:
                found[known[tag].name] = known[tag].kind.read(inside, version, True)
        return found

    def _write_tags(self, out: bytearray, value: Any, version: int) -> None:
        tagged = [(tag, f) for tag, f in self._layout(version).tagged.items() if getattr(value, f.name) != f.default]
        out += varint(len(tagged))
        for tag, f in tagged:
            inside = bytearray()
            f.kind.write(inside, getattr(value, f.name), version, True)
            out += varint(tag) + varint(len(inside)) + inside

    def to_json(self, value: Any, version: int) -> dict[str, Any]:
        """The value as Kafka's tools print it: lower camel case, tagged fields at their default left out."""
        shown = {f: getattr(value, f.name) for f in self.fields if f.is_in(version)}
        return {f.label: f.kind.to_json(one, version) for f, one in shown.items() if f.tag is None or one != f.default}

    def from_json(self, value: Mapping[str, Any], version: int) -> Any:
        """The value that was printed so. Raises `InputError` naming a field that is missing."""
        values = {f.name: f.default for f in self.fields}
        for f in self.fields:
            if f.label in value:
                values[f.name] = f.kind.from_json(value[f.label], version)
            elif f.tag is None and f.is_in(version):
                raise InputError("missing", f.label)
        return self.make(**values)


@dataclass(frozen=True)
class OptionalStruct:
    """A tagged struct that may be null: a byte in front tells."""

    of: Struct

    def read(self, reader: Reader, version: int, _flexible: bool) -> Any:
        return self.of.read(reader, version) if reader.varint() else None

    def write(self, out: bytearray, value: Any, version: int, _flexible: bool) -> None:
        out += varint(value is not None)
        if value is not None:
            self.of.write(out, value, version)

    def to_json(self, value: Any, version: int) -> dict[str, Any] | None:
        return None if value is None else self.of.to_json(value, version)

    def from_json(self, value: Mapping[str, Any] | None, version: int) -> Any:
        return None if value is None else self.of.from_json(value, version)
