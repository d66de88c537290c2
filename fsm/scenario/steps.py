"""What a run of a scenario came to: its steps, what was seen in each, and where that differs from what was expected.

Everything seen is text under a name, so that any two of them can be compared, shown and written as JSON: a step of
one dialect with the same step of another, a step with what the file expects of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fsm.render.sequence import Arrow

NOTHING = "none"
"""How a value is written that is not there."""


class Expected(NamedTuple):
    """What a file says a field of a step is to be."""

    field: str
    value: str
    where: str
    """`file:line`"""
    implied: bool = False
    """The file need not say it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a scenario as it went."""

    title: str
    where: str
    seen: Mapping[str, str]
    """Every field that can be compared, in a fixed order."""
    expected: tuple[Expected, ...] = ()
    lines: tuple[str, ...] = ()
    """How the step is printed below its title."""
    arrows: tuple[Arrow, ...] = ()
    """Who told whom what in it, for a picture."""
    note: str = ""
    """What the file says about it."""


class Difference(NamedTuple):
    """One field of one step that is not what it was to be."""

    step: int
    """From 1."""
    title: str
    where: str
    field: str
    expected: str
    got: str


@dataclass(frozen=True, slots=True)
class Replay:
    """A scenario that was run under one dialect."""

    file: str
    kind: str
    title: str
    dialect: str
    steps: tuple[Step, ...]

    @property
    def expectations(self) -> int:
        """How many fields the file speaks of."""
        return sum(not expected.implied for step in self.steps for expected in step.expected)

    def differences(self) -> tuple[Difference, ...]:
        """Where the run is not what the file expects, in the order of the file."""
        return tuple(
            Difference(number, step.title, e.where, e.field, e.value, step.seen.get(e.field, NOTHING))
            for number, step in enumerate(self.steps, 1)
            for e in step.expected
            if step.seen.get(e.field, NOTHING) != e.value
        )

    def parts_from(self, other: Replay) -> tuple[Difference, ...]:
        """Where the same scenario went otherwise under another dialect: `expected` is ours, `got` the other's."""
        return tuple(
            Difference(number, ours.title, ours.where, *found)
            for number, (ours, theirs) in enumerate(_paired(self.steps, other.steps), 1)
            for found in _fields_that_differ(ours.seen, theirs.seen)
        )

    def as_document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "file": self.file,
            "kind": self.kind,
            "title": self.title,
            "dialect": self.dialect,
            "steps": [{"title": s.title, "where": s.where, "seen": dict(s.seen)} for s in self.steps],
            "expectations": self.expectations,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run beside what was expected of it: by its file, or by a run under another dialect."""

    ours: Replay
    theirs: Replay | None
    differences: tuple[Difference, ...]

    def as_document(self) -> dict[str, Any]:
        """For JSON."""
        against = {} if self.theirs is None else {"against": self.theirs.dialect}
        return {**self.ours.as_document(), **against, "differences": [d._asdict() for d in self.differences]}


_ABSENT = Step("the scenario has ended", "", {})


def _paired(ours: Sequence[Step], theirs: Sequence[Step]) -> Iterator[tuple[Step, Step]]:
    for index in range(max(len(ours), len(theirs))):
        yield (ours[index] if index < len(ours) else _ABSENT, theirs[index] if index < len(theirs) else _ABSENT)


def _fields_that_differ(ours: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """A field such as `sent 1 member_epoch` is a detail of `sent`: of no interest where that differs already."""
    differing: set[str] = set()
    for field in dict.fromkeys((*ours, *theirs)):
        mine, other = ours.get(field, NOTHING), theirs.get(field, NOTHING)
        if mine != other and field.partition(" ")[0] not in differing:
            differing.add(field)
            yield field, mine, other
