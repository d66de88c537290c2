"""Messages and records as JSON documents, in two forms: messages of recordings, and records printed by Kafka's tools.

In both, bytes are base64, a topic id is its base64 text, an array is a list, and a tagged field at its default is left
out. Recordings have Kafka's names in snake case, durations without `_ms`, error codes as lower-case names (None for no
error), and no throttle time. Kafka's tools print lower camel case.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fsm.errors import InputError
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.schema import Kind, Struct, Type, struct_of

T = TypeVar("T")
Label = Callable[[str], str]
THROTTLE = "throttle_time"


def to_recorded(message: Any, version: int) -> dict[str, Any]:
    """A message in the form of recordings: the fields of this version."""
    body = _dump_struct(struct_of(type(message)), message, version, recorded_label)
    body.pop(THROTTLE, None)
    return body


def from_recorded(cls: type[T], body: Mapping[str, Any], version: int) -> T:
    """The message of a recorded body; missing fields have Kafka's default.

    Raises `InputError` naming a field that the version does not have, that is required, or that has another type.
    """
    found: T = _load_struct(struct_of(cls), body, version, recorded_label, cls.__name__, complete=False)
    return found


def to_printed(value: Any, version: int) -> dict[str, Any]:
    """A record's value in the form of Kafka's tools."""
    return _dump_struct(struct_of(type(value)), value, version, printed_label)


def from_printed(cls: type[T], body: Mapping[str, Any], version: int) -> T:
    """The value that was printed. Raises `InputError` naming a field that is missing or has another type."""
    found: T = _load_struct(struct_of(cls), body, version, printed_label, cls.__name__, complete=True)
    return found


def recorded_label(name: str) -> str:
    """`session_timeout_ms` is `session_timeout`."""
    return name.removesuffix("_ms")


def printed_label(name: str) -> str:
    """`session_timeout_ms` is `sessionTimeoutMs`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def error_name(code: ErrorCode) -> str | int | None:
    """An error code in the form of recordings; an unknown code is a number.

    >>> error_name(ErrorCode.FENCED_MEMBER_EPOCH), error_name(ErrorCode.NONE), error_name(ErrorCode(5000))
    ('fenced_member_epoch', None, 5000)
    """
    if code is ErrorCode.NONE:
        return None
    return code.name.lower() if code.name in ErrorCode.__members__ else int(code)


def _dump_struct(declared: Struct, value: Any, version: int, label: Label) -> dict[str, Any]:
    found = {}
    for i, field in enumerate(declared.fields):
        if field.is_in(version):
            one = (
                value if declared.cls is None else value[i] if isinstance(value, tuple) else getattr(value, field.name)
            )
            if field.wire.tag is None or one != field.default:
                found[label(field.name)] = _dump(field.type, one, version, label)
    return found


def _dump(declared: Type, value: Any, version: int, label: Label) -> Any:
    if value is None:
        return None
    match declared.kind:
        case Kind.STRUCT if declared.struct:
            return _dump_struct(declared.struct, value, version, label)
        case Kind.ARRAY if declared.element:
            return [_dump(declared.element, one, version, label) for one in value]
        case Kind.BYTES:
            return b64encode(value).decode()
        case Kind.CODE:
            return error_name(value)
    return value


def _load_struct(declared: Struct, body: Any, version: int, label: Label, place: str, *, complete: bool) -> Any:
    if not isinstance(body, Mapping):
        raise InputError(f"must be a mapping of fields, not {body!r:.60}", place)
    here = {label(field.name) if field.is_in(version) else None for field in declared.fields}
    if not complete and (strange := [name for name in body if name not in here]):
        raise InputError(f"version {version} has no field {strange[0]!r:.60}", place)
    values = []
    for field in declared.fields:
        name = label(field.name)
        if field.is_in(version) and name in body:
            inside = f"{place}.{name}"
            values.append(_load(field.type, body[name], version, label, inside, complete=complete))
        elif field.is_in(version) and field.wire.tag is None and (complete or field.is_required):
            raise InputError("missing", f"{place}.{name}")
        else:
            values.append(field.default)
    if declared.cls is None:
        return values[0]
    names = (field.name for field in declared.fields)
    return tuple(values) if declared.cls is tuple else declared.cls(**dict(zip(names, values, strict=True)))


def _load(declared: Type, value: Any, version: int, label: Label, place: str, *, complete: bool) -> Any:
    if declared.kind is Kind.CODE:
        return _load_code(value, place)
    if value is None and declared.is_nullable:
        return None
    match declared.kind:
        case Kind.STRUCT if declared.struct:
            return _load_struct(declared.struct, value, version, label, place, complete=complete)
        case Kind.ARRAY if declared.element and isinstance(value, list | tuple):
            one = declared.element
            return tuple(_load(one, each, version, label, place, complete=complete) for each in value)
        case Kind.BYTES if isinstance(value, str):
            try:
                return b64decode(value, validate=True)
            except ValueError:
                raise InputError(f"must be base64, not {value!r:.60}", place) from None
    wanted = _TYPES.get(declared.kind, int)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise InputError(f"must be {_WORDS[wanted]}, not {value!r:.60}", place)
    return value


def _load_code(value: Any, place: str) -> ErrorCode:
    if value is None:
        return ErrorCode.NONE
    if isinstance(value, str) and value.upper() in ErrorCode.__members__:
        return ErrorCode[value.upper()]
    if isinstance(value, int) and not isinstance(value, bool) and -(1 << 15) <= value < 1 << 15:
        return ErrorCode(value)
    raise InputError(f"must be the name of a Kafka error, not {value!r:.60}", place)


_TYPES: Mapping[Kind, type[Any]] = {
    Kind.BOOL: bool,
    Kind.STRING: str,
    Kind.UUID: str,
    Kind.BYTES: str,
    Kind.ARRAY: list,
}
_WORDS: Mapping[type[Any], str] = {bool: "true or false", int: "a whole number", str: "text", list: "a list"}
