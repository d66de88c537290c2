"""Settings of a consumer, under Kafka's keys in snake case, checked as they are made.

Source: `ConsumerConfig`. Durations are milliseconds and carry `_ms`, as their keys carry `.ms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from fsm.errors import InputError


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """What rules a member of a consumer group. Raises `InputError` naming the setting that cannot be used."""

    group_id: str
    client_id: str = ""
    group_instance_id: str | None = None
    """Set for a static member: its place in the group outlives its process."""
    group_remote_assignor: str | None = None
    """The coordinator's assignor to ask for; None leaves the choice to the coordinator."""
    client_rack: str | None = None
    max_poll_interval_ms: int = 300_000
    """Longest time between two polls; also the rebalance timeout that a member announces."""
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000

    def __post_init__(self) -> None:
        for name in ("group_id", "group_instance_id", "group_remote_assignor", "client_rack"):
            if getattr(self, name) == "":
                raise InputError("must not be empty", name)
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise InputError(f"must be at least 1 ms, not {getattr(self, name)}", name)
        for name in ("retry_backoff_ms", "retry_backoff_max_ms"):
            if getattr(self, name) < 0:
                raise InputError(f"must not be negative, not {getattr(self, name)}", name)

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> ConsumerConfig:
        """From Kafka's own keys (`group.id`, `max.poll.interval.ms`); keys that rule no membership are passed over.

        Raises `InputError` naming the key whose value cannot be read, or `group.id` where it is missing.
        """
        if "group.id" not in settings:
            raise InputError("missing", "group.id")
        known = {f.name.replace("_", "."): f for f in fields(cls)}
        values = {known[key].name: _read(key, str(known[key].type), settings[key]) for key in settings if key in known}
        return cls(**values)


_AT_LEAST_ONE = ("max_poll_interval_ms", "auto_commit_interval_ms", "request_timeout_ms", "default_api_timeout_ms")


def _read(key: str, kind: str, text: str) -> Any:
    text = str(text)
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
