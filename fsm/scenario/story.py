"""The scenario runner: a kind's stage executes step after step, and the fields after each are compared.

A kind of scenario is a `Stage`: it parses a step, executes it with a coordinator's host, a member or a cluster, and
shows the resulting fields. `play` runs the steps and returns the data for printing, comparison and pictures, which is
the same for every kind. All fields are named texts, so that a step can be compared with that of another dialect, and
with the expectations of the file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from fsm.errors import FsmError, InputError, LocalProtocolError
from fsm.nodes import Node, nearest
from fsm.render.sequence import Arrow
from fsm.scenario.texts import NOTHING, read_text, show_node

if TYPE_CHECKING:
    from fsm.render.timeline.ownership import Picture

STEPS_LIMIT = 2_000
"""The maximum number of steps."""
REFUSED = "refused"
"""The field with the reason why a step could not be done, on stages that have it."""

# Results of a run


class Expected(NamedTuple):
    """An expected value of a field of a step."""

    field: str
    value: str
    where: str
    """`file:line`"""
    implied: bool = False
    """Whether it is expected by default."""
    got: str | None = None
    """Its actual value, if the step has no such field."""

    def got_in(self, step: Step) -> str:
        """The step's actual value of this field."""
        return step.seen.get(self.field, NOTHING) if self.got is None else self.got


@dataclass(frozen=True, slots=True)
class Step:
    """One executed step of a scenario."""

    title: str
    where: str
    seen: Mapping[str, str]
    """All fields for comparison, in a fixed order."""
    expected: tuple[Expected, ...] = ()
    lines: tuple[str, ...] = ()
    """The text of the step below its title."""
    arrows: tuple[Arrow, ...] = ()
    """Its messages, for a picture."""
    note: str = ""
    """What the file says about it."""
    key: str = ""
    """Identifies the step across dialects with different steps; empty if they have the same ones."""


class Difference(NamedTuple):
    """A difference in one field of one step."""

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
    """The timeline of a group or a cluster: processes, and what they used or ran."""

    @property
    def expectations(self) -> int:
        """The number of expected fields."""
        return sum(not expected.implied for step in self.steps for expected in step.expected)

    def differences(self) -> tuple[Difference, ...]:
        """The differences from the file's expectations, in the order of the file."""
        return tuple(
            Difference(number, step.title, e.where, e.field, e.value, e.got_in(step))
            for number, step in enumerate(self.steps, 1)
            for e in step.expected
            if e.got_in(step) != e.value
        )

    def differences_from(self, other: Replay) -> tuple[Difference, ...]:
        """The differences from the same scenario under another dialect: `expected` is ours, `got` the other's."""
        return tuple(
            Difference(number, ours.title, ours.where, *found)
            for number, (ours, theirs) in enumerate(pair(self.steps, other.steps), 1)
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
    """A run compared with its file's expectations, or with a run under another dialect."""

    ours: Replay
    theirs: Replay | None
    differences: tuple[Difference, ...]

    def as_document(self) -> dict[str, Any]:
        """For JSON."""
        against = {} if self.theirs is None else {"against": self.theirs.dialect}
        return {**self.ours.as_document(), **against, "differences": [d._asdict() for d in self.differences]}


def pair(ours: Sequence[Step], theirs: Sequence[Step]) -> Iterator[tuple[Step | None, Step | None]]:
    """The paired steps of two runs: by key, or one by one without keys."""
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
    """The differing fields.

    A field such as `sent 1 member_epoch` is a detail of `sent`, and is skipped if that already differs. Different
    scenarios have different fields, so only common ones are compared then.
    """
    differing: set[str] = set()
    for field in dict.fromkeys((*ours.seen, *theirs.seen)):
        mine, other = ours.seen.get(field, NOTHING), theirs.seen.get(field, NOTHING)
        shown = not ours.key or (field in ours.seen and field in theirs.seen)
        if mine != other and shown and field.partition(" ")[0] not in differing:
            differing.add(field)
            yield field, mine, other


# Running steps


class Act(NamedTuple):
    """A parsed step of the file."""

    verb: str
    """Its verb; empty on stages with a single kind of step."""
    value: Node
    where: str
    """`file:line` of the step."""
    beside: Mapping[str, Node] = {}
    """The other keys of the step."""
    expect: Node | None = None
    """Its expectations."""
    note: str = ""
    """What the file says about it."""
    remarks: tuple[str, ...] = ()
    """Additional lines to be printed first."""
    key: str = ""
    """The key of the step, as in `Step`."""


class Seen(NamedTuple):
    """The result of a step: fields to compare, lines to print, arrows to draw."""

    fields: Mapping[str, str]
    lines: Iterable[str]
    arrows: tuple[Arrow, ...] = ()


class Stage(ABC):
    """Executes a kind of scenario.

    By default a step is `- verb`, or `- verb: value`, with optional `expect` and `note`.
    """

    verbs: Collection[str] = ()
    """The possible verbs of steps."""
    beside: tuple[str, ...] = ()
    """Allowed keys beside a verb, other than `expect` and `note`."""
    implied: Mapping[str, str] = {}
    """The default expectations of every step."""

    @property
    def now_ms(self) -> int:
        """The time of the scenario."""
        return 0

    def parse(self, item: Node) -> Act:
        """Parses a step. Raises `InputError` with the line for an invalid one."""
        return parse_step(item, self.verbs, self.beside)

    def title(self, act: Act, begun_ms: int) -> str:
        """The title of an executed step that began then."""
        sender = f"{act.beside['from'].text()} sends " if "from" in act.beside else ""
        return f"{begun_ms:>6} ms  {sender}{act.verb}" + ("" if act.value.is_null else f" {show_node(act.value)}")

    @abstractmethod
    def do(self, act: Act) -> None:
        """Executes a step. Raises `LocalProtocolError` if it is impossible now, `InputError` for an invalid one."""

    @abstractmethod
    def see(self) -> Seen:
        """The result: everything since the last step."""

    @abstractmethod
    def expect(self, node: Node, seen: Mapping[str, str]) -> Iterable[Expected]:
        """The expectations of a step. Raises `InputError` with the line for an unknown field."""


class RoundStage(Stage):
    """A stage whose steps are rounds of Connect."""

    now_ms = 0
    """The instant of the last round."""

    def parse(self, item: Node) -> Act:
        return Act("round", item, item.where, expect=item)

    def title(self, act: Act, _begun_ms: int) -> str:
        return f"round {act.value.mapping()['round'][1].number()} at {self.now_ms} ms"


def play(stage: Stage, items: Iterable[Node]) -> tuple[Step, ...]:
    """Executes the steps. Raises `InputError` with the line for an invalid one."""
    return tuple(_play_step(stage, stage.parse(item)) for item in items)


def read_steps(steps: Node, limit: int = STEPS_LIMIT) -> list[Node]:
    """The steps of a scenario. Raises `InputError` for an empty list and above the limit."""
    items = steps.items()
    if not 0 < len(items) <= limit:
        raise InputError(f"{len(items)} steps", steps.where, f"1 to {limit}")
    return items


def _play_step(stage: Stage, act: Act) -> Step:
    begun_ms, refused = stage.now_ms, None
    try:
        stage.do(act)
    except InputError:
        raise
    except FsmError as problem:
        if REFUSED not in stage.implied or not isinstance(problem, LocalProtocolError):
            raise InputError(str(problem), act.where) from None
        refused = str(problem)
    fields, lines, arrows = stage.see()
    if REFUSED in stage.implied:
        fields = {REFUSED: refused or NOTHING, **fields}
    expected = tuple(stage.expect(act.expect, fields)) if act.expect is not None else ()
    named = {each.field for each in expected}
    implied = (Expected(f, v, act.where, implied=True) for f, v in stage.implied.items() if f not in named)
    before = [f"# {text}" for text in (act.note, *act.remarks) if text]
    if refused:
        before.append(f"cannot be done: {refused}")
    title = stage.title(act, begun_ms)
    return Step(title, act.where, fields, (*implied, *expected), (*before, *lines), arrows, act.note, act.key)


def parse_step(item: Node, verbs: Collection[str], beside: tuple[str, ...] = ()) -> Act:
    """Parses a step in its usual form. Raises `InputError` with the line for one with no known verb, or with two."""
    if isinstance(item.value, str):
        _check_verb(item, verbs)
        return Act(item.value, Node("", item.where, item.label, plain=True), item.where)
    mapping = item.mapping()
    others = ("expect", "note", *beside)
    found = [pair for name, pair in mapping.items() if name not in others]
    for key, _ in found:
        _check_verb(key, verbs)
    if len(found) != 1:
        raise InputError(f"a step does one thing, not {len(found)}", item.where, "one of " + ", ".join(verbs))
    key, value = found[0]
    given = {name: mapping[name][1] for name in others if name in mapping}
    return Act(key.text(), value, item.where, given, given.get("expect"), read_text(given, "note", ""))


def _check_verb(verb: Node, verbs: Collection[str]) -> None:
    if verb.text() not in verbs:
        raise InputError(f"unknown step {verb.text()[:60]!r}", verb.where, nearest(verb.text(), tuple(verbs)))
