"""Checks a message's values against its declared types, for messages that come from a user's code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.schema import Kind, Struct, Type, struct_of


class Fault(NamedTuple):
    """A value that does not have its field's declared type."""

    field: str
    """Path of the field: `topics[0].partitions`."""
    value: Any
    expected: str

    def __str__(self) -> str:
        return f"{self.field} is {self.value!r}; give {self.expected}"


Check = Callable[[Any], Fault | None]


def find_fault(message: Any) -> Fault | None:
    """The first fault of a message of `fsm.protocol.messages`, in field order; None for a valid message."""
    cls = type(message)
    if cls not in _CHECKS:
        _CHECKS[cls] = _check_of_struct(struct_of(cls))
    return _CHECKS[cls](message)


_CHECKS: dict[type[Any], Check] = {}


def _check_of_struct(struct: Struct) -> Check:
    if struct.cls is None:
        return _check_of(struct.fields[0].type)
    checks = tuple((field.name, _check_of(field.type)) for field in struct.fields)
    is_plain, cls, expected = struct.cls is tuple, struct.cls, f"({', '.join(name for name, _ in checks)})"

    def check(value: Any) -> Fault | None:
        if not isinstance(value, cls) or (is_plain and len(value) != len(checks)):
            return Fault("", value, expected if is_plain else cls.__name__)
        for at, (name, check_field) in enumerate(checks):
            fault = check_field(value[at] if is_plain else getattr(value, name))
            if fault is not None:
                return fault._replace(field=f".{name}{fault.field}")
        return None

    return check


def _check_of(declared: Type) -> Check:
    if declared.element is not None:
        check = _check_of_array(_check_of(declared.element))
    elif declared.struct is not None:
        check = _check_of_struct(declared.struct)
    else:
        check = _check_of_value(declared.kind)
    if not declared.is_nullable:
        return check

    def check_nullable(value: Any) -> Fault | None:
        fault = None if value is None else check(value)
        return fault._replace(expected=f"{fault.expected} or None") if fault and not fault.field else fault

    return check_nullable


def _check_of_array(check_element: Check) -> Check:
    def check(value: Any) -> Fault | None:
        if not isinstance(value, tuple):
            return Fault("", value, "a tuple")
        for at, element in enumerate(value):
            fault = check_element(element)
            if fault is not None:
                return fault._replace(field=f"[{at}]{fault.field}")
        return None

    return check


_BITS = {Kind.INT8: 7, Kind.INT16: 15, Kind.INT32: 31, Kind.INT64: 63}
_TYPES = {Kind.BOOL: bool, Kind.CODE: ErrorCode, Kind.UUID: str, Kind.STRING: str, Kind.BYTES: bytes}


def _check_of_value(kind: Kind) -> Check:
    if kind in _BITS:
        end = 1 << _BITS[kind]

        def check_number(value: Any) -> Fault | None:
            if type(value) is int and -end <= value < end:
                return None
            return Fault("", value, f"int of {_BITS[kind] + 1} bits" if type(value) is int else "int")

        return check_number
    cls = _TYPES[kind]

    def check(value: Any) -> Fault | None:
        if isinstance(value, cls):
            return None
        return Fault("", value, f"an ErrorCode, as ErrorCode({value!r})" if cls is ErrorCode else cls.__name__)

    return check


def quick_check(cls: type[Any]) -> Callable[[Any], bool]:
    """A cheap check: True means that a message has no fault, False that `find_fault` must decide.

    The function is generated for the class, as `dataclass` does, and does not look into arrays and structs.
    """
    tests = " and ".join(_quick_test(f"m.{field.name}", field.type) for field in struct_of(cls).fields)
    check: Callable[[Any], bool] = eval(f"lambda m: {tests or 'True'}", {"ErrorCode": ErrorCode})  # noqa: S307  # names of fields, which are identifiers
    return check


def _quick_test(value: str, declared: Type) -> str:
    if declared.kind in _BITS:
        end = 1 << _BITS[declared.kind]
        test = f"type({value}) is int and {-end} <= {value} < {end}"
    elif declared.kind in _TYPES:
        test = f"type({value}) is {_TYPES[declared.kind].__name__}"
    else:
        test = f"{value} == ()"
    return f"({value} is None or {test})" if declared.is_nullable else f"({test})"
