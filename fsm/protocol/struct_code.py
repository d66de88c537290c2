"""Generates the reader and writer of a struct as Python source and compiles them, as `dataclass` does with methods.

That is three times as fast as a loop over the fields of each value. Short values, nearly all, are handled inline;
everything else calls functions of `primitives`. For the string `group_id` and the nullable string `instance_id` the
reader is

    def read(data, at):
        end = len(data)
        try:
            place = 'group_id'
            size = data[at]
            if 0 < size < 0x80 and at + size <= end:
                group_id = data[at + 1 : at + size].decode()
                at += size
            else:
                group_id, at = read_group_id(data, at)
            place = 'instance_id'
            size = data[at]
            if size == 0:
                instance_id = None
                at += 1
            elif 0 < size < 0x80 and at + size <= end:
            ...
        except PROBLEMS as problem:
            raise unreadable(problem, at, place) from None
        return cls(group_id, instance_id), at
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from fsm.protocol.primitives import CODES, Codec, Read, Unreadable, Write, read_varint, varint
from fsm.protocol.schema import Field, Kind, Struct
from fsm.step import compile_function

OWN_NAMES = frozenset({"at", "cls", "data", "end", "given", "new", "out", "place", "problem", "raw", "size"})
"""Names used by generated code, which no field may have."""


class Numbers(NamedTuple):
    """Consecutive fields of fixed size, read and written in one call."""

    fields: tuple[Field, ...]
    layout: struct.Struct

    @property
    def least(self) -> int:
        """Size in bytes."""
        return self.layout.size


class One(NamedTuple):
    """A single field of variable size."""

    fields: tuple[Field]
    codec: Codec
    null: int | None = None
    """The byte that marks null."""
    is_compact: bool = False
    """Whether it is a string or bytes with a compact length."""

    @property
    def least(self) -> int:
        """Minimum size in bytes."""
        return self.codec.least


Part = Numbers | One


class Tagged(NamedTuple):
    tag: int
    field: Field
    codec: Codec


# Reading.


def reader(declared: Struct, parts: Sequence[Part], tagged: Sequence[Tagged] | None) -> Read:
    """Compiles the reader of a struct; `tagged` is None in versions without tags."""
    if taken := OWN_NAMES.intersection(field.name for field in declared.fields):
        raise TypeError(f"a field cannot be called {min(taken)}")
    names: dict[str, Any] = {"cls": declared.cls, "new": tuple.__new__, "CODES": CODES}
    names |= {"PROBLEMS": PROBLEMS, "unreadable": _unreadable}
    names |= {f"default_{field.name}": field.default for field in declared.fields}
    body = [] if parts else [f"place = {_first(declared)!r}"]
    for part in parts:
        body += [f"place = {part.fields[0].name!r}", *_generate_read(part, names)]
    if tagged is not None:
        body += [f"place = {parts[-1].fields[-1].name!r}"] if parts and len(parts[-1].fields) > 1 else []
        body += _generate_read_tags(tagged, names)
    found = {field.name for part in parts for field in part.fields} | {one.field.name for one in tagged or ()}
    lines = [
        "end = len(data)",
        "try:",
        *_indent(body),
        "except PROBLEMS as problem:",
        "    raise unreadable(problem, at, place) from None",
        f"return {_build_value(declared, found)}, at",
    ]
    read: Read = compile_function("read(data, at)", lines, names)
    return read


PROBLEMS = (Unreadable, struct.error, IndexError, UnicodeDecodeError)


def _unreadable(problem: Exception, at: int, place: str) -> Unreadable:
    """The problem with the field in which it was found; `at` is -1 for a value that is to be written."""
    if isinstance(problem, Unreadable):
        problem.fields.append(place)
        return problem
    if at < 0:
        return Unreadable(f"this cannot be written: {problem}", at, place)
    return Unreadable("not UTF-8" if isinstance(problem, UnicodeDecodeError) else "the bytes end too early", at, place)


def _generate_read(part: Part, names: dict[str, Any]) -> Iterator[str]:
    name = part.fields[0].name
    if isinstance(part, Numbers):
        names[f"unpack_{name}"] = part.layout.unpack_from
        yield f"{_join(field.name for field in part.fields)} = unpack_{name}(data, at)"
        yield f"at += {part.layout.size}"
        yield from (f"{f.name} = CODES[{f.name}]" for f in part.fields if f.type.kind is Kind.CODE)
        return
    names[f"read_{name}"] = part.codec.read
    cases = []
    if part.null is not None:
        cases.append((f"size == {part.null}", [f"{name} = None", "at += 1"]))
    if part.is_compact:
        load = ".decode()" if part.fields[0].type.kind is Kind.STRING else ""
        short = [f"{name} = data[at + 1 : at + size]{load}", "at += size"]
        cases.append(("0 < size < 0x80 and at + size <= end", short))
    if cases:
        yield "size = data[at]"
    yield from _choice(cases, [f"{name}, at = read_{name}(data, at)"])


def _generate_read_tags(tagged: Sequence[Tagged], names: dict[str, Any]) -> Iterator[str]:
    names |= {"read_tags": _tags_reader(tagged), "defaults": tuple(one.field.default for one in tagged)}
    found = _join(one.field.name for one in tagged) if tagged else "_"
    none = ["at += 1", f"{found} = defaults"] if tagged else ["at += 1"]
    yield from _choice([("data[at] == 0", none)], [f"{found}, at = read_tags(data, at)"])


def _tags_reader(tagged: Sequence[Tagged]) -> Read:
    place_of = {one.tag: (i, one.codec.read) for i, one in enumerate(tagged)}
    defaults = [one.field.default for one in tagged]

    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        values = defaults.copy()
        count, at = read_varint(data, at)
        for _ in range(count):
            tag, at = read_varint(data, at)
            size, at = read_varint(data, at)
            end = at + size
            if end > len(data):
                raise Unreadable(f"{size} bytes wanted, {len(data) - at} left", at)
            if tag in place_of:
                i, read_one = place_of[tag]
                values[i], at = read_one(data, at)
                if at > end:
                    raise Unreadable(f"tag {tag} is longer than its {size} bytes", at)
            at = end
        return values, at

    return read


def _build_value(declared: Struct, found: Iterable[str]) -> str:
    values = [field.name if field.name in found else f"default_{field.name}" for field in declared.fields]
    if declared.cls is None:
        return values[0]
    if declared.cls is tuple:
        return _join(values)
    if not is_dataclass(declared.cls):
        return f"new(cls, {_join(values)})"
    named = sorted(zip(fields(declared.cls), values, strict=True), key=lambda one: one[0].kw_only is True)
    return f"cls({', '.join(f'{field.name}={value}' if field.kw_only is True else value for field, value in named)})"


# Writing.


def writer(declared: Struct, parts: Sequence[Part], tagged: Sequence[Tagged] | None) -> Write:
    """Compiles the writer of a struct; `tagged` is None in versions without tags."""
    names: dict[str, Any] = {"UNFIT": UNFIT, "unreadable": _unreadable, "text": str.encode, "varint": varint}
    of = {field.name: _spell_field(declared, field.name) for field in declared.fields}
    body = [f"place = {_first(declared)!r}"]
    if declared.fields and isinstance(declared.cls, type) and issubclass(declared.cls, tuple):
        body.append(f"{_join(of)} = value")
    for part in parts:
        body += [f"place = {part.fields[0].name!r}", *_generate_write(part, of, names)]
    if tagged:
        names |= {"write_tags": _tags_writer(tagged), "defaults": tuple(one.field.default for one in tagged)}
        given = _join(of[one.field.name] for one in tagged)
        body += _choice([(f"{given} == defaults", ["out.append(0)"])], [f"write_tags(out, {given})"])
    elif tagged is not None:
        body.append("out.append(0)")
    lines = ["try:", *_indent(body), "except UNFIT as problem:", "    raise unreadable(problem, -1, place) from None"]
    write: Write = compile_function("write(out, value)", lines, names)
    return write


UNFIT = (Unreadable, struct.error, AttributeError, TypeError, ValueError, IndexError)


def _spell_field(declared: Struct, name: str) -> str:
    """The expression for a field of the value in the writer."""
    if declared.cls is None:
        return "value"
    return f"value.{name}" if is_dataclass(declared.cls) else name


def _generate_write(part: Part, of: Mapping[str, str], names: dict[str, Any]) -> Iterator[str]:
    name = part.fields[0].name
    if isinstance(part, Numbers):
        names[f"pack_{name}"] = part.layout.pack
        yield f"out += pack_{name}({', '.join(of[field.name] for field in part.fields)})"
        return
    yield f"given = {of[name]}"
    cases = [] if part.null is None else [("given is None", [f"out.append({part.null})"])]
    if part.is_compact:
        dump = "text" if part.fields[0].type.kind is Kind.STRING else "memoryview"
        lines = [
            f"raw = {dump}(given)",
            "if len(raw) < 0x7F:",
            "    out.append(len(raw) + 1)",
            "else:",
            "    out += varint(len(raw) + 1)",
            "out += raw",
        ]
    else:
        names[f"write_{name}"] = part.codec.write
        lines = [f"write_{name}(out, given)"]
    yield from _choice(cases, lines)


def _tags_writer(tagged: Sequence[Tagged]) -> Write:
    """A function that writes the tag section without fields at their default."""

    def write(out: bytearray, values: Any) -> None:
        found = [(one, value) for one, value in zip(tagged, values, strict=True) if value != one.field.default]
        out += varint(len(found))
        for one, value in found:
            inside = bytearray()
            one.codec.write(inside, value)
            out += varint(one.tag) + varint(len(inside)) + inside

    return write


# Both.


def _first(declared: Struct) -> str:
    return declared.fields[0].name if declared.fields else ""


def _choice(cases: Sequence[tuple[str, Sequence[str]]], otherwise: Sequence[str]) -> Iterator[str]:
    word = "if"
    for test, lines in cases:
        yield f"{word} {test}:"
        yield from _indent(lines)
        word = "elif"
    if not cases:
        yield from otherwise
        return
    yield "else:"
    yield from _indent(otherwise)


def _join(names: Iterable[str]) -> str:
    return f"({''.join(f'{name}, ' for name in names).removesuffix(' ')})"


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)
