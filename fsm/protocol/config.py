"""Validated settings of a consumer, named like Kafka's keys in snake case.

Source: `ConsumerConfig` and further checks of Kafka's consumers. Durations are milliseconds and end with `_ms`, as
their keys end with `.ms`. Bounds are Kafka's; upper bounds are those of its integers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from fsm.errors import InputError


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """Settings of a group member. Raises `InputError` naming the invalid setting."""

    group_id: str
    client_id: str = ""
    group_instance_id: str | None = None
    """Set for a static member."""
    group_remote_assignor: str | None = None
    """Requested server-side assignor; None leaves the choice to the coordinator."""
    client_rack: str | None = None
    """None if unknown; an empty text, Kafka's default, becomes None."""
    max_poll_interval_ms: int = 300_000
    """Maximum time between two polls; also the rebalance timeout that the member sends."""
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000

    def __post_init__(self) -> None:
        for field in fields(self):
            check_kind(field.name, str(field.type), getattr(self, field.name))
        if not self.group_id.strip():
            raise InputError("must not be empty or blank", "group_id")
        if self.group_remote_assignor == "":
            raise InputError("must not be empty; None leaves the choice to the coordinator", "group_remote_assignor")
        if self.group_instance_id is not None:
            _check_instance_id(self.group_instance_id)
        for name, (least, most) in _BOUNDS.items():
            check_bounds(name, getattr(self, name), least, most)
        object.__setattr__(self, "client_rack", self.client_rack or None)

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> ConsumerConfig:
        """From Kafka's own keys (`group.id`, `max.poll.interval.ms`); keys without a field here are ignored.

        Raises `InputError` naming the key whose value is invalid, or `group.id` if it is missing.
        """
        if "group.id" not in settings:
            raise InputError("missing", "group.id")
        known = {f.name.replace("_", "."): f for f in fields(cls)}
        return cls(**{known[k].name: read_setting(k, str(known[k].type), v) for k, v in settings.items() if k in known})


INT_MAX, LONG_MAX = (1 << 31) - 1, (1 << 63) - 1

_BOUNDS = {
    "max_poll_interval_ms": (1, INT_MAX),
    "auto_commit_interval_ms": (0, INT_MAX),
    "retry_backoff_ms": (0, LONG_MAX),
    "retry_backoff_max_ms": (0, LONG_MAX),
    "request_timeout_ms": (0, INT_MAX),
    "default_api_timeout_ms": (0, INT_MAX),
}
LEGAL_NAME = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")
"""The name of a topic, and the id of a static member (`Topic.validate` of Kafka)."""


_KINDS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "int": (int, "a whole number"),
    "bool": (bool, "True or False"),
    "str": (str, "text"),
    "tuple": ((tuple, list), "a tuple"),
}


def check_kind(name: str, annotation: str, value: object) -> None:
    """Raises `InputError` if a setting's value does not have the annotated type."""
    base, _, null = annotation.partition(" | ")
    kind, words = _KINDS.get(base.partition("[")[0], (object, ""))
    if null and value is None:
        return
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InputError(f"must be {words}, not {value!r}", name)


def check_bounds(name: str, value: int, least: int, most: int) -> None:
    """Raises `InputError` for a duration outside its bounds."""
    if value < least:
        raise InputError(f"must be at least {least} ms, not {value}", name)
    if value > most:
        raise InputError(f"must be at most {most} ms, not {value}", name)


def _check_instance_id(text: str) -> None:
    """Raises `InputError` unless the id satisfies the rules of topic names."""
    if not LEGAL_NAME.fullmatch(text):
        rule = "1 to 249 ASCII letters, digits, '.', '_' and '-', and neither '.' nor '..'"
        raise InputError(f"must be {rule}, not {text!r}", "group_instance_id")


def read_setting(key: str, annotation: str, text: str) -> Any:
    """The value of one of Kafka's settings, parsed as annotated. Raises `InputError` if it cannot be parsed."""
    text, kind = str(text), annotation.partition("[")[0]
    if kind == "tuple":
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if kind == "bool":
        if text.lower() not in ("true", "false"):
            raise InputError(f"must be true or false, not {text!r}", key)
        return text.lower() == "true"
    if kind != "int":
        return text
    try:
        return int(text)
    except ValueError:
        raise InputError(f"must be a whole number, not {text!r}", key) from None
