"""Dialects of the consumer member: named sets of choices, one for each release of Kafka and two beside them.

A choice is one rule in which dialects differ: what it says, since which dialect, its ticket, the hazards it is about.
Code asks `choice in dialect`; nothing else in the member knows a version. The dialects are a line: each has what those
before it have, less what it gives up. After the releases stand

* `fixed`: the latest release without any hazard that a client can avoid;
* `document`: the rules of the design documents where they say otherwise, on `fixed` where they are silent.

`custom` makes a dialect of your own, to see the effect of adding or removing a choice. `fsm.member.dialect.amendments`
has the rows of choices that change the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property

from fsm.errors import InputError
from fsm.member.dialect.amendments import amend
from fsm.member.dialect.choices import Choice
from fsm.protocol.releases import LATEST, RELEASES
from fsm.table import Compiled, Table

FIXED, DOCUMENT = "fixed", "document"
DIALECTS = (*RELEASES, FIXED, DOCUMENT)
"""Every dialect by name, in their line."""


@dataclass(frozen=True, eq=False)
class Dialect:
    """A named set of choices and the table they run on."""

    name: str
    choices: frozenset[Choice] = field(repr=False)
    table: Table = field(repr=False)

    def __contains__(self, choice: Choice) -> bool:
        return choice in self.choices

    @cached_property
    def cells(self) -> Compiled:
        """The table, made for stepping."""
        return self.table.compiled

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return custom, (self.name, tuple(sorted(self.choices, key=lambda choice: choice.value)))


def choices_of(name: str) -> frozenset[Choice]:
    """The choices of a dialect: of those before it in the line, and its own, less what was given up by then."""
    at = DIALECTS.index(name)
    return frozenset(
        c for c in Choice if DIALECTS.index(c.since) <= at and not (c.until and DIALECTS.index(c.until) <= at)
    )


def custom(name: str, choices: Iterable[Choice]) -> Dialect:
    """A dialect of your own, with the table of its choices; the same arguments return the same object."""
    return _make(name, frozenset(choices))


@cache
def _make(name: str, choices: frozenset[Choice]) -> Dialect:
    return Dialect(name, choices, amend(choices))


def dialect(name: str = LATEST) -> Dialect:
    """The dialect of that name; `4.2` is its latest patch. Raises `InputError` naming the dialects there are."""
    matching = [d for d in DIALECTS if d == name or d.rpartition(".")[0] == name]
    if not name or not matching:
        raise InputError(f"unknown dialect {name!r}", remedy="one of " + ", ".join(DIALECTS))
    return custom(matching[-1], choices_of(matching[-1]))
