"""Log formats: what real Kafka clients print, read into `TraceRecord`s.

A client is one module of this package with `CLIENT = Client(...)`: what its messages mean, in whatever layout they
stand. A module may also have a `FORMATS` tuple of `Format`s, the layouts that are known without looking. Modules are
found by themselves. Parsing is pure and knows one entry at a time: an entry (a log line with its continuation lines)
carries all that may be used, so a file can be read in pieces and in any order.

* `Message`: what one entry says, whatever wrote it down.
* `Client`, `clients`: how a client's messages are known and what they mean, and all clients that there are.
* `ClientFacts`, `facts_of`, `all_facts`: what an audit has to know of a client beside its words; those of all clients.
* `Format`, `formats`: one layout of one kind of log, and all that there are.
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
    """What the messages of one client mean."""

    name: str
    """What `--format` calls it."""
    marks: tuple[bytes, ...]
    """Every line with a bearing contains one of these. A search for them runs at the speed of memory, so they should
    be rare in the lines of others. JSON must not escape them: no quotes, no backslash, no slash, ASCII."""
    understand: Callable[[Message], Sequence[TraceRecord] | None]
    """The records of a message, `()` where it has no bearing, None where it should have been understood and was
    not. The message may be any program's; logger and thread may be missing. `NO_BEARING` says that no message with
    other digits has a bearing either: it is not asked again."""
    facts: ClientFacts | None = None
    """How it tells what happens; None where it has no consumers."""
    everyday: frozenset[bytes] = frozenset()
    """Those of the marks that other programs use as well: alone they do not make a line look like this client's."""


class Header(Protocol):
    """A pattern over bytes, or what answers like one."""

    def match(self, line: bytes, /) -> object: ...


class Search(Protocol):
    """A pattern over bytes, or what answers like one."""

    def search(self, data: bytes, /) -> object: ...


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """One layout of one kind of log."""

    name: str
    """What `--format` calls it (several layouts of one client share a name)."""
    layout: str
    """Which layout, for the report: `kafka`, `spring`, `json`, ..."""
    first: bytes
    """Bytes an entry may begin with: the quick test."""
    header: Header
    """Matches at the start of an entry's first line. Formats may share a header: each is asked, in their order."""
    candidate: Search
    """Searched in the raw entry. Without a hit the entry has no bearing on this format."""
    parse: Callable[[str, tzinfo], Sequence[TraceRecord] | None]
    """The records of one entry (head and continuation lines joined by newlines), `()` where it has no bearing,
    None where it is a candidate that was not understood; `NO_BEARING` as of a client. The zone is for time stamps
    that carry none."""
    needles: tuple[bytes, ...] = ()
    """Every entry that gives records, or that should have been understood, contains one of these: a search for them may
    skip all others, and to `candidate` one digit is like another. Empty where every entry has to be asked."""
    reach: int = 0
    """How many bytes of a line its header reads at most, at which one digit is like another. 0 where it may read all of
    the line; then a needle stands in the first line of each entry."""
    client: Client | None = None
    """Whose messages are looked for in layouts that are learned from the file itself; `first` is empty then, and this
    format stands for those that the reader makes."""


LEARNED = "learned"
"""What `Format.layout` says where the layout is learned."""


@cache
def _modules() -> tuple[ModuleType, ...]:
    """The modules of `programs`, in the order of their names."""
    names = sorted(m.name for m in pkgutil.iter_modules([f"{__path__[0]}/programs"]))
    return tuple(importlib.import_module(f"{__name__}.programs.{name}") for name in names)


@cache
def clients() -> tuple[Client, ...]:
    """The `CLIENT` of each module that has one, in the order of module names."""
    return tuple(module.CLIENT for module in _modules() if hasattr(module, "CLIENT"))


@cache
def all_facts() -> tuple[ClientFacts, ...]:
    """The `FACTS` of each module that has some, in the order of module names."""
    return tuple(module.FACTS for module in _modules() if hasattr(module, "FACTS"))


@lru_cache(maxsize=1024)
def facts_of(client_id: str) -> ClientFacts:
    """The facts of the client that has consumers of this client id; Java's where nothing tells.

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
    """Every layout that is known, in the order of module names and, inside, as the module lists them; then one format
    for each client that stands for the layouts that are learned."""
    known = [one for module in _modules() for one in getattr(module, "FORMATS", ())]
    return (*known, *map(_format_of, clients()))


def _format_of(client: Client) -> Format:
    marks = re.compile(b"|".join(map(re.escape, client.marks)))
    return Format(client.name, LEARNED, b"", _NEVER, marks, lambda _entry, _zone: (), client.marks, client=client)


_NEVER = re.compile(rb"(?!)")
