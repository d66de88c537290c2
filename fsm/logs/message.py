"""One log event, independent of its layout.

Layouts turn entries into messages, and clients turn messages into records; they do not depend on each other. A message
holds what the application passed to its logger. Timestamp, level and thread name have their own fields; the frames of
log collectors are removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Message(NamedTuple):
    """One log event."""

    ts_ms: int
    """Epoch milliseconds; 0 if the log has no time."""
    text: str
    """The message with its continuation lines, without the stack trace."""
    level: str = ""
    """As printed."""
    logger: str = ""
    """As printed: in full, abbreviated (`o.a.k.c.c.i.ConsumerCoordinator`), cut from the left, or empty."""
    thread: str = ""
    """As printed; empty where the layout has none."""
    error: str = ""
    """First line of the stack trace: exception and its text."""
    pid: str = ""
    fields: Mapping[str, Any] = NOTHING
    """The other fields of a structured layout, by name: attributes of a JSON line (a nested object is a mapping, or has
    a dotted name if the line spells it so) or of a logfmt line."""
    cut: bool = False
    """The end of the message is missing."""


class NoBearing(tuple[Any, ...]):
    """No records."""

    __slots__ = ()


NO_BEARING = NoBearing()
"""Returned by a client if the message is irrelevant whatever its digits and its time are."""
