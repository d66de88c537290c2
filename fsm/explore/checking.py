"""What could go wrong from here: the checker, started at the position of a walk, with limits on states and time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fsm.check import Limits, Model, Verdict, check
from fsm.errors import InputError
from fsm.explore.documents import Document, read_number, read_path

USUAL_STATES, MOST_STATES = 200_000, 2_000_000
MOST_MEMORY = 1 << 30
MOST_DISTURBANCES = 9
LONGEST_S = 60.0


class Question(NamedTuple):
    """A request for a check."""

    path: tuple[int, ...]
    """The path to the start of the check."""
    disturb: tuple[str, ...]
    """Kinds of disturbance; `all` for every one."""
    disturbances: int
    """The maximum number of disturbances from there on."""
    max_states: int


def read_question(asked: Mapping[str, Any]) -> Question:
    """Parses a page's request. Raises `InputError` for an invalid one, and for one above the limits."""
    kinds, path = asked.get("disturb", []), read_path(asked.get("path", ""))
    if not isinstance(kinds, list) or not all(isinstance(one, str) for one in kinds):
        raise InputError("no list of kinds", "disturb", 'write it as ["crash", "late"]')
    disturbances = read_number(asked, "disturbances", int(bool(kinds)))
    if disturbances > MOST_DISTURBANCES:
        raise InputError(f"{disturbances} disturbances", "disturbances", f"give at most {MOST_DISTURBANCES}")
    states = read_number(asked, "max_states", USUAL_STATES)
    if not 0 < states <= MOST_STATES:
        raise InputError(f"{states} states", "max_states", f"give 1 to {MOST_STATES:,}")
    return Question(path, tuple(kinds), disturbances, states)


class _TooLongError(Exception):
    """A check exceeded its time limit."""


def ask(model: Model, question: Question, clock: Callable[[], float]) -> tuple[Verdict | None, Document]:
    """The verdict on a model that starts at the question's path, and its summary without violations.

    The verdict is None if the check exceeds the time limit by the `clock`, in seconds.
    """
    end_s, seen = clock() + LONGEST_S, [0]

    def watch(states: int, _transitions: int, _depth: int) -> None:
        seen[0] = states
        if clock() > end_s:
            raise _TooLongError

    kinds = model.kinds if "all" in question.disturb else question.disturb
    try:
        verdict = check(
            model,
            disturb=kinds,
            disturbances=question.disturbances if kinds else 0,
            limits=Limits(question.max_states, MOST_MEMORY),
            progress=watch,
        )
    except _TooLongError:
        return None, {"word": "stopped", "states": seen[0], "stopped": f"more than {LONGEST_S:.0f} s"}
    summary = {"word": verdict.word, "states": verdict.states, "stopped": verdict.stopped}
    return verdict, {**summary, "checked": list(verdict.checked), "never": list(verdict.never)}
