"""Log formats: parses the log lines of real Kafka clients into `TraceRecord`s.

A client is one module of this package with `CLIENT = Client(...)`, which defines what its messages mean in any layout.
A module may also have a tuple `FORMATS` of `Format`s, the layouts known in advance, and `FACTS`, the properties of the
logging of its consumers. Modules are found automatically.
Parsing is pure and handles one entry at a time: an entry (a log line with its continuation lines) contains all the
input, so a file can be read in pieces and in any order.

* `Message`: one log event, independent of its layout.
* `Client`, `clients`: how the messages of a client are recognised and interpreted, and all clients.
* `ClientFacts`, `facts_of`, `all_facts`: the properties of a client's logging that an audit depends on, and those of
  all clients.
* `Format`, `formats`: one layout of one kind of log, and all of them.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import cache, lru_cache
from types import ModuleType
from typing import Protocol

from fsm.logs.message import Message
from fsm.logs.programs.client_facts import JAVA, ClientFacts
from fsm.trace import TraceRecord

__all__ = ["Client", "ClientFacts", "Format", "Message", "all_facts", "clients", "facts_of", "formats"]


@dataclass(frozen=True, slots=True, eq=False)
class Client:
    """How the messages of one client are recognised and interpreted."""

    name: str
    """The client's value of `--format`."""
    own_marks: tuple[bytes, ...]
    """The `marks` that no other program uses, and by which lines are recognised as this client's."""
    understand: Callable[[Message], Sequence[TraceRecord] | None]
    """Returns the records of a message, `()` if the message is irrelevant, None if it should have been understood but
    was not. The message may come from any program; logger and thread may be missing. `NO_BEARING` means that messages
    which differ only in their digits are irrelevant, too; the caller does not ask again."""
    everyday_marks: tuple[bytes, ...] = ()
    """The `marks` that other programs use, too."""

    @property
    def marks(self) -> tuple[bytes, ...]:
        """Every relevant line contains at least one of these. They are found by a fast byte search, so they should be
        rare in the lines of other programs. JSON must not escape them: ASCII, no quotes, backslashes or slashes."""
        return self.own_marks + self.everyday_marks


class Header(Protocol):
    """A bytes pattern, or an object with the same `match`."""

    def match(self, line: bytes, /) -> object: ...


class Search(Protocol):
    """A bytes pattern, or an object with the same `search`."""

    def search(self, data: bytes, /) -> object: ...


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """One layout of one kind of log."""

    name: str
    """The value of `--format` (several layouts of one client share a name)."""
    layout: str
    """The layout's name in reports: `kafka`, `spring`, `json`, ..."""
    first: bytes
    """The bytes that an entry may begin with: a quick first test."""
    header: Header
    """Matches at the start of an entry's first line. Several formats may share a header; they are tried in order."""
    candidate: Search
    """Searched in the raw entry. An entry without a hit is irrelevant to this format."""
    parse: Callable[[str, tzinfo], Sequence[TraceRecord] | None]
    """Returns the records of one entry (head and continuation lines joined by newlines), `()` if it is irrelevant, None
    if it is a candidate that was not understood; `NO_BEARING` as in `Client.understand`. The zone applies to timestamps
    without one."""
    needles: tuple[bytes, ...] = ()
    """Every entry that yields records, or should have, contains one of these, so that a search can skip all others;
    `candidate` then treats all digits alike. Empty if every entry has to be parsed."""
    reach: int = 0
    """The most bytes of a line that the header reads; it treats all digits alike. 0 if it may read the whole line; then
    the first line of each entry contains a needle."""
    client: Client | None = None
    """The client whose messages are searched for in layouts learned from the file itself. `first` is then empty, and
    this format is a placeholder for those that the reader creates."""
    end: bytes = b""
    """The last byte of every whole entry without a stack trace; one that was cut before it may have no needle."""
    find_program: Callable[[str], str] | None = None
    """The process that printed an entry, as a collector names it: a pod or a container, or behind `MAYBE` a host or a
    process id; None if nothing in this layout names it."""


MAYBE = "~"
"""Begins what may be the name of a process or of something else (`Format.find_program`)."""
LEARNED = "learned"
"""`Format.layout` of learned layouts."""


@cache
def _load_modules() -> tuple[ModuleType, ...]:
    """The modules of `programs`, sorted by name."""
    names = sorted(m.name for m in pkgutil.iter_modules([f"{__path__[0]}/programs"]))
    return tuple(importlib.import_module(f"{__name__}.programs.{name}") for name in names)


@cache
def clients() -> tuple[Client, ...]:
    """The `CLIENT` of each module that has one, sorted by module name."""
    return tuple(module.CLIENT for module in _load_modules() if hasattr(module, "CLIENT"))


@cache
def all_facts() -> tuple[ClientFacts, ...]:
    """The `FACTS` of each module that has them, sorted by module name."""
    return tuple(module.FACTS for module in _load_modules() if hasattr(module, "FACTS"))


@lru_cache(maxsize=1024)
def facts_of(client_id: str) -> ClientFacts:
    """The facts of the client that uses this client id; Java's if the id identifies no client.

    >>> facts_of("orders#consumer-1").name
    'librdkafka'
    """
    known = all_facts()
    for facts in known:
        if client_id == facts.name or (facts.mark and facts.mark in client_id):
            return facts
    return next(facts for facts in known if facts.name == JAVA)


@cache
def formats() -> tuple[Format, ...]:
    """All known layouts, sorted by module name and in the module's order; then one placeholder for the learned layouts
    of each client."""
    known = [one for module in _load_modules() for one in getattr(module, "FORMATS", ())]
    return (*known, *map(_make_placeholder, clients()))


def _make_placeholder(client: Client) -> Format:
    marks = re.compile(b"|".join(map(re.escape, client.marks)))
    return Format(client.name, LEARNED, b"", _NEVER, marks, lambda _entry, _zone: (), client.marks, client=client)


_NEVER = re.compile(rb"(?!)")
