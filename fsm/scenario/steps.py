"""What a run of a scenario came to: its steps, what was seen in each, and where that differs from what was expected.

Everything seen is text under a name, so that any two of them can be compared, shown and written as JSON: a step of
one dialect with the same step of another, a step with what the file expects of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from fsm.render.sequence import Arrow

if TYPE_CHECKING:
    from fsm.render.timeline.ownership import Picture

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
    got: str | None = None
    """What it is, where the step shows no such field."""

    def seen_in(self, step: Step) -> str:
        """What the step came to in this field."""
        return step.seen.get(self.field, NOTHING) if self.got is None else self.got


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
    key: str = ""
    """Names the step across dialects whose stories have different steps; empty where they have the same ones."""


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
    timeline: Picture | None = None
    """Of a cluster: who was there and what ran when."""

    @property
    def expectations(self) -> int:
        """How many fields the file speaks of."""
        return sum(not expected.implied for step in self.steps for expected in step.expected)

    def differences(self) -> tuple[Difference, ...]:
        """Where the run is not what the file expects, in the order of the file."""
        return tuple(
            Difference(number, step.title, e.where, e.field, e.value, e.seen_in(step))
            for number, step in enumerate(self.steps, 1)
            for e in step.expected
            if e.seen_in(step) != e.value
        )

    def parts_from(self, other: Replay) -> tuple[Difference, ...]:
        """Where the same scenario went otherwise under another dialect: `expected` is ours, `got` the other's."""
        return tuple(
            Difference(number, ours.title, ours.where, *found)
            for number, (ours, theirs) in enumerate(paired(self.steps, other.steps), 1)
            if ours is not None and theirs is not None
            for found in _fields_that_differ(ours, theirs)
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


def paired(ours: Sequence[Step], theirs: Sequence[Step]) -> Iterator[tuple[Step | None, Step | None]]:
    """The steps of two runs beside each other: by their keys, or one by one where they have none."""
    if not any(step.key for step in ours):
        yield from zip(ours, theirs, strict=True)
        return
    places = {step.key: index for index, step in enumerate(theirs) if step.key}
    at = 0
    for step in ours:
        place = places.get(step.key, -1)
        if place < at:
            yield step, None
            continue
        yield from ((None, other) for other in theirs[at:place])
        yield step, theirs[place]
        at = place + 1
    yield from ((None, other) for other in theirs[at:])


def _fields_that_differ(ours: Step, theirs: Step) -> Iterator[tuple[str, str, str]]:
    """A field such as `sent 1 member_epoch` is a detail of `sent`: of no interest where that differs already.

    Different stories show different fields, so there only those that both have are compared.
    """
    differing: set[str] = set()
    for field in dict.fromkeys((*ours.seen, *theirs.seen)):
        mine, other = ours.seen.get(field, NOTHING), theirs.seen.get(field, NOTHING)
        shown = not ours.key or (field in ours.seen and field in theirs.seen)
        if mine != other and shown and field.partition(" ")[0] not in differing:
            differing.add(field)
            yield field, mine, other
