"""The text of a run: each step, two dialects side by side, the first difference in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from textwrap import wrap

from fsm.scenario.story import Comparison, Difference, Step, pair

WIDTH = 58
"""The width of one of two columns."""
INDENT = " " * 16


def report(found: Comparison, *, quiet: bool) -> str:
    """The run, or the two runs, as text that ends with a verdict and a newline."""
    lines = [*_head(found), *([] if quiet else _steps(found)), *_verdict(found), ""]
    return "\n".join(lines) + "\n"


def _head(found: Comparison) -> Iterator[str]:
    dialects = found.ours.dialect if found.theirs is None else f"{found.ours.dialect} against {found.theirs.dialect}"
    yield f"{found.ours.title} ({found.ours.kind}, {dialects})"


def _steps(found: Comparison) -> Iterator[str]:
    for number, (ours, other) in enumerate(_both(found), 1):
        yield f"{number:>4}  {' | '.join(dict.fromkeys(step.title for step in (ours, other) if step))}"
        yield from _beside(ours, other)
        yield from (f"{INDENT}! {_show_difference(d, found)}" for d in found.differences if d.step == number)


def _both(found: Comparison) -> Iterable[tuple[Step | None, Step | None]]:
    if found.theirs is None:
        return ((step, step) for step in found.ours.steps)
    return pair(found.ours.steps, found.theirs.steps)


def _beside(ours: Step | None, other: Step | None) -> Iterator[str]:
    left, right = (step.lines if step is not None else () for step in (ours, other))
    for tag, i, j, m, n in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from (INDENT + line for line in left[i:j])
            continue
        for a, b in zip_longest(_wrap_lines(left[i:j]), _wrap_lines(right[m:n]), fillvalue=""):
            yield f"{INDENT}{a:<{WIDTH}}  | {b}".rstrip()


def _wrap_lines(lines: Sequence[str]) -> list[str]:
    return [part for line in lines for part in wrap(line, WIDTH, subsequent_indent="  ") or [""]]


def _show_difference(difference: Difference, found: Comparison) -> str:
    if found.theirs is None:
        return f"{difference.field}: expected {difference.expected}, got {difference.got}"
    ours, theirs = found.ours.dialect, found.theirs.dialect
    return f"{difference.field}: {ours} {difference.expected}, {theirs} {difference.got}"


def _verdict(found: Comparison) -> Iterator[str]:
    count = len(found.ours.steps)
    steps = f"{count} step{'s' if count != 1 else ''}"
    if not found.differences:
        held = "no difference" if found.theirs else f"{found.ours.expectations} expectations, all met"
        yield f"{steps}, {held}"
        return
    first = found.differences[0]
    more = len(found.differences) - 1
    rest = f"; {more} more" if more else ""
    yield f"{first.where}: step {first.step} ({first.title.strip()}): {_show_difference(first, found)}{rest}"
