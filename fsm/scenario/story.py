"""A story in steps: each does one thing, what is seen afterwards is compared with what the step expects.

A kind of story is a `Stage`: how a step is done, what is seen, and how an expectation is written. The form of a step is
the same everywhere: `- verb`, or `- verb: value`, with `expect` and `note` beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from fsm.errors import FsmError, InputError, LocalProtocolError
from fsm.nodes import Node, nearest
from fsm.render.sequence import Arrow
from fsm.scenario.steps import NOTHING, Expected, Step
from fsm.scenario.words import one_line

STEPS_LIMIT = 2_000
"""More steps than that are no story."""
REFUSED = "refused"
"""The field that says why a step could not be done, on stages where that is seen."""
_BESIDE = ("expect", "note")


class Act(NamedTuple):
    """What one step does."""

    verb: str
    value: Node
    where: str
    """`file:line` of the verb."""
    beside: Mapping[str, Node]
    """What stands beside the verb."""


class Seen(NamedTuple):
    """What a step showed: fields to compare, lines to print, arrows to draw."""

    fields: Mapping[str, str]
    lines: Iterable[str]
    arrows: tuple[Arrow, ...] = ()


class Stage(Protocol):
    """Where a kind of story is played."""

    @property
    def verbs(self) -> Collection[str]:
        """What a step can do."""

    @property
    def beside(self) -> tuple[str, ...]:
        """Keys that may stand beside a verb, other than `expect` and `note`."""

    @property
    def implied(self) -> Mapping[str, str]:
        """Fields that every step is held against, unless it says otherwise."""

    @property
    def now_ms(self) -> int:
        """The time of the story."""

    def do(self, act: Act) -> None:
        """Does it. Raises `LocalProtocolError` for what cannot be done now, `InputError` for what makes no sense."""

    def see(self) -> Seen:
        """What came of it: everything since the last step."""

    def expected(self, node: Node, seen: Mapping[str, str]) -> Iterable[Expected]:
        """What a step expects. Raises `InputError` with the line for a field that does not exist."""


def play(stage: Stage, steps: Node, limit: int = STEPS_LIMIT) -> tuple[Step, ...]:
    """The steps as they went. Raises `InputError` with the line for what is no step."""
    items = steps.items()
    if not 0 < len(items) <= limit:
        raise InputError(f"{len(items)} steps", steps.where, f"1 to {limit}")
    return tuple(_step(stage, item) for item in items)


def _step(stage: Stage, item: Node) -> Step:
    act = _act(stage, item)
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
    expected = tuple(stage.expected(act.beside["expect"], fields)) if "expect" in act.beside else ()
    named = {each.field for each in expected}
    implied = (Expected(f, v, act.where, implied=True) for f, v in stage.implied.items() if f not in named)
    note = act.beside["note"].text() if "note" in act.beside else ""
    before = [f"# {note}"] if note else []
    if refused:
        before.append(f"cannot be done: {refused}")
    title = f"{begun_ms:>6} ms  {_title(act)}"
    return Step(title, act.where, fields, (*implied, *expected), (*before, *lines), arrows, note)


def _act(stage: Stage, item: Node) -> Act:
    beside = (*_BESIDE, *stage.beside)
    if isinstance(item.value, str):
        _check_verb(stage, item)
        return Act(item.value, Node("", item.where, item.label, plain=True), item.where, {})
    mapping = item.mapping()
    verbs = [pair for name, pair in mapping.items() if name not in beside]
    for key, _ in verbs:
        _check_verb(stage, key)
    if len(verbs) != 1:
        raise InputError(f"a step does one thing, not {len(verbs)}", item.where, "one of " + ", ".join(stage.verbs))
    key, value = verbs[0]
    return Act(key.text(), value, item.where, {name: mapping[name][1] for name in beside if name in mapping})


def _check_verb(stage: Stage, verb: Node) -> None:
    if verb.text() not in stage.verbs:
        raise InputError(f"unknown step {verb.text()[:60]!r}", verb.where, nearest(verb.text(), tuple(stage.verbs)))


def _title(act: Act) -> str:
    sender = f"{act.beside['from'].text()} sends " if "from" in act.beside else ""
    return f"{sender}{act.verb}" + ("" if act.value.is_null else f" {one_line(act.value)}")
