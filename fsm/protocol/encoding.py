"""Kafka's binary encoding, for the wire and for `__consumer_offsets`: compiled once for each struct and version.

A reader takes bytes and a place in them, and gives a value and the place behind it; a writer appends a value. Unknown
tagged fields are skipped. Bytes are not trusted: a length is held against what is left before anything is made of it,
and what cannot be read is refused with its field and its place.

Source: the message format of apache/kafka (`clients/src/main/resources/common/message/README.md`).
"""

from __future__ import annotations

import struct
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from fsm.errors import InputError
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.schema import Field, Kind, Struct, Type, struct_of

T = TypeVar("T")
Read = Callable[[bytes, int], tuple[Any, int]]
Write = Callable[[bytearray, Any], None]


class Codec(NamedTuple):
    """How values of one type are read and written."""

    read: Read
    write: Write
    least: int = 1
    """The fewest bytes that a value takes."""


class Unreadable(Exception):  # noqa: N818  # becomes an `InputError` where it is known what is read
    """Bytes or a value that are none of this type: what is wrong, where, and in which fields, the innermost first."""

    def __init__(self, what: str, at: int = -1, *fields: str) -> None:
        super().__init__(what)
        self.at = at
        self.fields = [*fields]

    def refusal(self, name: str) -> InputError:
        """The error for whoever gave it."""
        place = "" if self.at < 0 else f", byte {self.at}"
        return InputError(str(self), ".".join([name, *reversed(self.fields)]) + place)


def decode_as(cls: type[T], data: bytes, version: int, flexible: bool, at: int = 0) -> tuple[T, int]:
    """The value that begins at a place, and the place behind it. Raises `InputError` for bytes that are none."""
    try:
        found: tuple[T, int] = codec_of(cls, version, flexible).read(data, at)
    except Unreadable as problem:
        raise problem.refusal(cls.__name__) from None
    return found


def decode_all(cls: type[T], data: bytes, version: int, flexible: bool, at: int = 0) -> T:
    """The value that takes all the bytes from a place on. Raises `InputError` for bytes that are none."""
    found, end = decode_as(cls, data, version, flexible, at)
    if end != len(data):
        raise InputError(f"{len(data) - end} bytes too many", f"{cls.__name__}, byte {end}")
    return found


def encode_as(value: Any, version: int, flexible: bool, head: bytes = b"") -> bytes:
    """The bytes of a value, behind a head. Raises `InputError` naming a field that cannot be written."""
    out = bytearray(head)
    try:
        codec_of(type(value), version, flexible).write(out, value)
    except Unreadable as problem:
        raise problem.refusal(type(value).__name__) from None
    return bytes(out)


def codec_of(cls: type[Any], version: int, flexible: bool) -> Codec:
    """How a message or record is read and written in one version."""
    key = cls, version, flexible
    if key not in _CODECS:
        _CODECS[key] = _struct(struct_of(cls), version, flexible)
    return _CODECS[key]


_CODECS: dict[tuple[type[Any], int, bool], Codec] = {}


# Numbers.


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number of variable length."""
    found = shift = 0
    for end in range(at + 1, at + 11):
        byte = data[end - 1]
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, end
        shift += 7
    raise Unreadable("a number of variable length does not end", at)


def varint(value: int) -> bytes:
    """An unsigned number of variable length."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(form: str) -> Codec:
    """One fixed number."""
    layout = struct.Struct(f">{form}")
    unpack, pack, size = layout.unpack_from, layout.pack, layout.size

    def read(data: bytes, at: int) -> tuple[Any, int]:
        return unpack(data, at)[0], at + size

    def write(out: bytearray, value: Any) -> None:
        out += pack(value)

    return Codec(read, write, size)


def _numbers(form: str) -> Codec:
    """Several fixed numbers behind each other."""
    layout = struct.Struct(f">{form}")
    unpack, pack, size = layout.unpack_from, layout.pack, layout.size

    def read(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        return unpack(data, at), at + size

    def write(out: bytearray, values: Sequence[Any]) -> None:
        out += pack(*values)

    return Codec(read, write, size)


# Lengths in front of strings, bytes and arrays; -1 is null.


def _read_compact_length(data: bytes, at: int) -> tuple[int, int]:
    found = data[at]
    if found < 0x80:
        return found - 1, at + 1
    found, at = read_varint(data, at)
    return found - 1, at


def _write_compact_length(out: bytearray, length: int) -> None:
    if length < 0x7F:
        out.append(length + 1)
    else:
        out += varint(length + 1)


_INT16, _INT32 = _number("h"), _number("i")
_COMPACT = Codec(_read_compact_length, _write_compact_length)


def _sized(length: Codec, is_nullable: bool, load: Callable[[bytes], Any], dump: Callable[[Any], bytes]) -> Codec:
    """Strings and bytes."""
    read_length, write_length, least = length

    def read(data: bytes, at: int) -> tuple[Any, int]:
        size, begin = read_length(data, at)
        if size < 0:
            if is_nullable:
                return None, begin
            raise Unreadable("null where a value is needed", at)
        end = begin + size
        if end > len(data):
            raise Unreadable(f"{size} bytes wanted, {len(data) - begin} left", begin)
        return load(data[begin:end]), end

    def write(out: bytearray, value: Any) -> None:
        if value is None and is_nullable:
            write_length(out, -1)
        else:
            raw = dump(value)
            write_length(out, len(raw))
            out += raw

    if length is not _COMPACT:
        return Codec(read, write, least)

    # The same for what is short, which nearly everything is.

    def read_short(data: bytes, at: int) -> tuple[Any, int]:
        end = at + data[at]
        if at < end < at + 0x80 and end <= len(data):
            return load(data[at + 1 : end]), end
        return read(data, at)

    def write_short(out: bytearray, value: Any) -> None:
        raw = b"" if value is None else dump(value)
        if value is not None and len(raw) < 0x7F:
            out.append(len(raw) + 1)
            out += raw
        else:
            write(out, value)

    return Codec(read_short, write_short)


def _array(length: Codec, is_nullable: bool, element: Codec, number: str = "") -> Codec:
    """An array; one of fixed numbers is read and written at once."""
    read_length, write_length, _ = length
    read_one, write_one, least = element

    def read(data: bytes, at: int) -> tuple[Any, int]:
        count, at = read_length(data, at)
        if count < 0:
            if is_nullable:
                return None, at
            raise Unreadable("null where a value is needed", at)
        if count * least > len(data) - at:
            raise Unreadable(f"an array of {count}, {len(data) - at} bytes left", at)
        if number:
            return struct.unpack_from(f">{count}{number}", data, at), at + count * least
        found = []
        for _ in range(count):
            one, at = read_one(data, at)
            found.append(one)
        return tuple(found), at

    def write(out: bytearray, value: Any) -> None:
        if value is None and is_nullable:
            write_length(out, -1)
            return
        write_length(out, len(value))
        if number:
            out += struct.pack(f">{len(value)}{number}", *value)
            return
        for one in value:
            write_one(out, one)

    return Codec(read, write, length.least)


def _read_uuid(data: bytes, at: int) -> tuple[str, int]:
    end = at + 16
    if end > len(data):
        raise Unreadable(f"16 bytes wanted, {len(data) - at} left", at)
    return b2a_base64(data[at:end]).translate(_TO_URL)[:22].decode(), end


def _write_uuid(out: bytearray, value: str) -> None:
    raw = a2b_base64(value.encode().translate(_FROM_URL) + b"==")
    if len(value) != 22 or len(raw) != 16:
        raise ValueError(f"{value!r:.60} is no topic id")
    out += raw


_TO_URL, _FROM_URL = bytes.maketrans(b"+/", b"-_"), bytes.maketrans(b"-_", b"+/")


_read_int16, _CODES = _INT16.read, {int(code): code for code in ErrorCode}


def _read_code(data: bytes, at: int) -> tuple[ErrorCode, int]:
    number, at = _read_int16(data, at)
    return _CODES.get(number) or ErrorCode(number), at


_FIXED = frozenset({Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.BOOL})
_CODE, _UUID = Codec(_read_code, _INT16.write, 2), Codec(_read_uuid, _write_uuid, 16)


def _typed(declared: Type, version: int, flexible: bool, is_nullable: bool = False, in_tag: bool = False) -> Codec:
    """How a value of this type is read and written."""
    match declared.kind:
        case Kind.CODE:
            return _CODE
        case Kind.UUID:
            return _UUID
        case Kind.STRING:
            return _sized(_COMPACT if flexible else _INT16, is_nullable, bytes.decode, str.encode)
        case Kind.BYTES:
            return _sized(_COMPACT if flexible else _INT32, is_nullable, bytes, bytes)
        case Kind.ARRAY if declared.element:
            one = declared.element
            element = _typed(one, version, flexible, one.is_nullable)
            return _array(
                _COMPACT if flexible else _INT32, is_nullable, element, one.kind.value if one.kind in _FIXED else ""
            )
        case Kind.STRUCT if declared.struct:
            whole = _struct(declared.struct, version, flexible)
            return _nullable(whole, 0 if in_tag else 0xFF) if is_nullable else whole
    return _number(declared.kind.value)


def _nullable(whole: Codec, null: int) -> Codec:
    """A struct behind a byte that says whether it is there."""
    read_whole, write_whole, _ = whole

    def read(data: bytes, at: int) -> tuple[Any, int]:
        return (None, at + 1) if data[at] == null else read_whole(data, at + 1)

    def write(out: bytearray, value: Any) -> None:
        out.append(null if value is None else 1)
        if value is not None:
            write_whole(out, value)

    return Codec(read, write)


# Structs. A list has the values of all fields while one is read.

Index = int | slice
Step = tuple[Any, Codec]
"""An index into the values, and how they are read and written."""
Tags = Mapping[int, tuple[int, Any, Codec]]
"""Tagged fields: their index, their default, how they are read and written."""


def _struct(declared: Struct, version: int, flexible: bool) -> Codec:
    """How a struct is read and written in one version."""
    steps = tuple(_steps(declared.fields, version, flexible))
    tags = _tags(declared.fields, version) if flexible else None
    least = sum(codec.least for _, codec in steps) + flexible
    return Codec(_struct_reader(declared, steps, tags), _struct_writer(declared, steps, tags), least)


def _struct_reader(declared: Struct, steps: Sequence[Step], tags: Tags | None) -> Read:
    reads = tuple((index, codec.read) for index, codec in steps)
    defaults = [field.default for field in declared.fields]
    make = _making(declared)
    read_tags = None if tags is None else _tags_reader(tags)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        values = defaults.copy()
        index: Index = -1
        try:
            for index, read_one in reads:
                values[index], at = read_one(data, at)
            if read_tags:
                at = read_tags(data, at, values)
        except Unreadable as problem:
            problem.fields.append(_name(declared, index))
            raise
        except (struct.error, IndexError):
            raise Unreadable("the bytes end too early", at, _name(declared, index)) from None
        except UnicodeDecodeError:
            raise Unreadable("not UTF-8", at, _name(declared, index)) from None
        return make(values), at

    return read


def _struct_writer(declared: Struct, steps: Sequence[Step], tags: Tags | None) -> Write:
    writes = tuple((index, codec.write) for index, codec in steps)
    take = _taking(declared)
    write_tags = None if tags is None else _tags_writer(tags)

    def write(out: bytearray, value: Any) -> None:
        index: Index = -1
        try:
            values = take(value)
            for index, write_one in writes:
                write_one(out, values[index])
            if write_tags:
                write_tags(out, values)
        except Unreadable as problem:
            problem.fields.append(_name(declared, index))
            raise
        except (struct.error, AttributeError, TypeError, ValueError, IndexError) as problem:
            raise Unreadable(f"this cannot be written: {problem}", -1, _name(declared, index)) from None

    return write


def _name(declared: Struct, index: Index) -> str:
    return declared.fields[index.start if isinstance(index, slice) else index].name if declared.fields else ""


def _steps(fields: Sequence[Field], version: int, flexible: bool) -> Iterator[Step]:
    """Which values are read next, and how; numbers behind each other are read at once."""
    plain = [i for i, field in enumerate(fields) if field.is_in(version) and field.wire.tag is None]
    while plain:
        run = 0
        while run < len(plain) and plain[run] == plain[0] + run and fields[plain[run]].type.kind in _FIXED:
            run += 1
        if run > 1:
            form = "".join(fields[i].type.kind.value for i in plain[:run])
            yield slice(plain[0], plain[0] + run), _numbers(form)
        else:
            yield plain[0], _of_field(fields[plain[0]], version, flexible)
        del plain[: run or 1]


def _of_field(field: Field, version: int, flexible: bool, in_tag: bool = False) -> Codec:
    is_nullable = field.type.is_nullable and version >= field.wire.null_since
    return _typed(field.type, version, flexible, is_nullable, in_tag)


def _tags(fields: Sequence[Field], version: int) -> Tags:
    here = sorted((f.wire.tag, i, f) for i, f in enumerate(fields) if f.wire.tag is not None and f.is_in(version))
    return {tag: (i, f.default, _of_field(f, version, True, in_tag=True)) for tag, i, f in here}


def _tags_reader(tags: Tags) -> Callable[[bytes, int, list[Any]], int]:
    def read(data: bytes, at: int, values: list[Any]) -> int:
        count, at = read_varint(data, at)
        for _ in range(count):
            tag, at = read_varint(data, at)
            size, at = read_varint(data, at)
            end = at + size
            if end > len(data):
                raise Unreadable(f"{size} bytes wanted, {len(data) - at} left", at)
            if tag in tags:
                i, _, codec = tags[tag]
                values[i], at = codec.read(data, at)
                if at > end:
                    raise Unreadable(f"tag {tag} is longer than its {size} bytes", at)
            at = end
        return at

    return read


def _tags_writer(tags: Tags) -> Callable[[bytearray, Sequence[Any]], None]:
    """A tagged field at its default is left out."""

    def write(out: bytearray, values: Sequence[Any]) -> None:
        found = [(tag, i, codec) for tag, (i, default, codec) in tags.items() if values[i] != default]
        out += varint(len(found))
        for tag, i, codec in found:
            inside = bytearray()
            codec.write(inside, values[i])
            out += varint(tag) + varint(len(inside)) + inside

    return write


def _making(declared: Struct) -> Callable[[list[Any]], Any]:
    """What is made of the values of all fields."""
    cls = declared.cls
    if cls is None:
        return lambda values: values[0]
    if cls is tuple:
        return tuple
    if not is_dataclass(cls):
        return partial(tuple.__new__, cls)  # a NamedTuple
    new = object.__new__
    stores = [getattr(cls, field.name).__set__ for field in declared.fields]

    def make(values: list[Any]) -> Any:
        made = new(cls)
        for store, value in zip(stores, values, strict=False):
            store(made, value)
        return made

    return make


def _taking(declared: Struct) -> Callable[[Any], Sequence[Any]]:
    """The values of all fields."""
    cls = declared.cls
    if cls is None:
        return lambda value: (value,)
    if not is_dataclass(cls):
        return lambda value: value
    if len(declared.fields) == 1:
        get = attrgetter(declared.fields[0].name)
        return lambda value: (get(value),)
    return attrgetter(*(field.name for field in declared.fields)) if declared.fields else lambda _: ()
