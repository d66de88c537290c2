"""What one entry of a log says, whatever wrote it down.

Layouts turn entries into messages, clients turn messages into records; neither knows the other. A message holds what
the application handed to its logger: time stamps, levels, thread names and the frames of log collectors stand in
fields of their own or are gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Message(NamedTuple):
    """One log event."""

    ts_ms: int
    """Epoch milliseconds; 0 where nothing in the log tells a time."""
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
    """What a structured layout has beside the message, by its names: attributes of a JSON line (a nested object is a
    mapping, or comes under its dotted name where the line spells it so) or of a logfmt line."""
    cut: bool = False
    """The end is missing."""


class NoBearing(tuple[Any, ...]):
    """No records."""

    __slots__ = ()


NO_BEARING = NoBearing()
"""What a client answers to a message that has no bearing whatever its digits are, and whenever it was printed."""
