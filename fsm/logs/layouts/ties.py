"""Recognizes a file with the newest lines first, and finds the order of its lines of one time.

A store that sorts by time alone leaves them as they were printed; another one reverses them, too.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise

from fsm.logs.layouts import stamps

_STEP = re.compile(r"\b([A-Za-z][\w-]{1,40}) (?:->|to) ([A-Za-z][\w-]{1,40})")
"""A message about a step of a state machine: the second state is the first one of its next step."""
_PRINTED_TOGETHER = (
    ("Kafka version: ", "Kafka commitId: ", "Kafka startTimeMs: "),
    ("Resetting generation", "Request joining group due to", "(Re-)joining group"),
    ("Updating assignment with", "Notifying assignor about the new", "Adding newly assigned partitions"),
)
"""What Java clients often print within one millisecond, in this order."""
_PLACES = {words: (row, i) for row in _PRINTED_TOGETHER for i, words in enumerate(row)}
_WORDS = re.compile("|".join(map(re.escape, _PLACES)))
_NUMBER = re.compile(r"(\[\d+\])|\d")
"""Of what steps, the number in brackets of a partition tells it from others; other numbers may count its steps."""
_SEARCHED = 1000
"""Characters of a line that are searched."""


def do_fall(times: Sequence[int]) -> bool:
    """Whether times fall: most of them, or, of a few, all that differ."""
    falls = sum(below < above for above, below in pairwise(times))
    rises = sum(below > above for above, below in pairwise(times))
    return falls > 2 * rises + 2 or falls > rises == 0


def are_ties_in_order(lines: Iterable[str]) -> bool:
    """Whether messages of one time that lead to each other stand downwards rather than upwards."""
    last: dict[tuple[str, Hashable], tuple[Hashable, Hashable]] = {}
    down = up = 0
    for line in lines:
        text = line[:_SEARCHED]
        stamp, found = next(stamps.find(text), None), _find_step(text)
        if stamp is None or found is None:
            continue
        key, before, after = found
        above = last.get((stamp[0], key))
        if above is not None:
            down += above[1] == before
            up += above[0] == after
        last[stamp[0], key] = before, after
    return down > up


def _find_step(text: str) -> tuple[Hashable, Hashable, Hashable] | None:
    """(what steps, its state before, its state after)."""
    if (words := _WORDS.search(text)) is not None:
        row, place = _PLACES[words[0]]
        return row, place, place + 1
    step = _STEP.search(text)
    return None if step is None else (_NUMBER.sub(r"\1", text[: step.start()]), step[1], step[2])
