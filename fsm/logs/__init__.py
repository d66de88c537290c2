"""Log formats: what real Kafka clients print, read into `TraceRecord`s.

A format is one module of this package with a `FORMATS` tuple of `Format`s; a new module is found by itself.
Parsing is pure and knows one entry at a time: an entry (a log line with its continuation lines) carries all a
format may use, so a file can be read in pieces and in any order.

* `Format`, `formats`: one layout of one kind of log, and all that there are.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import cache

from fsm.trace import TraceRecord

__all__ = ["Format", "formats"]


@dataclass(frozen=True, slots=True)
class Format:
    """One layout of one kind of log."""

    name: str
    """What `--format` calls it (several layouts of one client share a name)."""
    layout: str
    """Which layout, for the report: `kafka`, `spring`, `json`, ..."""
    first: bytes
    """Bytes an entry may begin with: the quick test."""
    header: re.Pattern[bytes]
    """Matches at the start of an entry's first line. Formats may share a header: each is asked, in their order."""
    candidate: re.Pattern[bytes]
    """Searched in the raw entry. Without a hit the entry has no bearing on this format."""
    parse: Callable[[str, tzinfo], Sequence[TraceRecord] | None]
    """The records of one entry (head and continuation lines joined by newlines), `()` where it has no bearing,
    None where it is a candidate that was not understood. The zone is for time stamps that carry none."""


@cache
def formats() -> tuple[Format, ...]:
    """Every format of this package, in the order of module names and, inside, as the module lists them."""
    found: list[Format] = []
    for module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
        found.extend(getattr(importlib.import_module(f"{__name__}.{module}"), "FORMATS", ()))
    return tuple(found)
