"""Lines with clients' words: which ones they are, a few of each shape, and where the messages in them begin."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from fsm.logs import Client, Message
from fsm.logs.exports.tables import Table
from fsm.logs.layouts import fields as structured
from fsm.logs.layouts import stamps
from fsm.logs.layouts.ends import ELAPSED, find_tail, goes_on, strip_end, words_of
from fsm.logs.layouts.frames import Frame
from fsm.logs.layouts.headers import HEADER_LIMIT
from fsm.logs.layouts.layout import marks_of, unescape
from fsm.logs.reading.blocks import DIGITS, join

MOST_SAMPLES = 120
"""Lines with a client's message from which a layout is learned."""
ENOUGH_SAMPLES = 40


class Sample(NamedTuple):
    """Lines of a file, in order, and properties of the file."""

    lines: tuple[str, ...]
    clock: stamps.Clock
    table: Table | None = None
    """The table whose rows, rather than lines, are the entries."""
    cut: bool = False
    """Long lines are truncated at a fixed number of bytes."""


@dataclass(frozen=True)
class MarkedLines:
    """Lines behind some frames, and the indices of those with client messages."""

    lines: Sequence[str]
    marked: Sequence[int]
    clients: tuple[Client, ...]
    sample: Sample
    frames: tuple[Frame, ...] = ()

    @cached_property
    def some(self) -> Sequence[int]:
        return sample_shapes(self.lines, self.marked, MOST_SAMPLES)

    def choose(self, part: Sequence[int]) -> MarkedLines:
        """Only these lines."""
        marked = frozenset(self.marked)
        places = [place for place, i in enumerate(part) if i in marked]
        return replace(self, lines=[self.lines[i] for i in part], marked=places)


def find_marks(line: str, clients: tuple[Client, ...]) -> list[tuple[Client, int]]:
    """The clients that have a mark in a line, with the position of the first one."""
    if not marks_of(clients).search(line.encode("utf-8", "replace")):
        return []
    out = []
    for client in clients:
        places = [place for mark in words_of(client) if (place := line.find(mark)) >= 0]
        if places:
            out.append((client, min(places)))
    return out


def find_marked(lines: Sequence[str], clients: tuple[Client, ...]) -> list[int]:
    """The indices of the lines with marks."""
    marked: list[int] = marks_of(clients).lines(*join(encode(lines))).tolist()
    return marked


def encode(lines: Sequence[str]) -> list[bytes]:
    return [line.encode("utf-8", "replace") for line in lines]


def sample_shapes(lines: Sequence[str] | Sequence[bytes], chosen: Sequence[int], most: int) -> list[int]:
    """Some of the chosen lines, in order: the first ones of each shape. The shape of a line is its text without the
    values of digits."""
    if len(chosen) <= most:
        return list(chosen)
    seen: Counter[str | bytes] = Counter()
    ranks: list[tuple[int, int]] = []
    for i in chosen:
        line = lines[i][:_SHAPE]
        shape = line.translate(_TEXT_DIGITS) if isinstance(line, str) else line.translate(DIGITS)
        seen[shape] += 1
        ranks.append((seen[shape], i))
    firsts = [i for rank, i in ranks if rank == 1]
    return firsts[:: -(-len(firsts) // most)] if len(firsts) > most else sorted(i for _, i in sorted(ranks)[:most])


_SHAPE = 300
_TEXT_DIGITS = str.maketrans("123456789", "000000000")


def find_hits(seen: MarkedLines) -> list[tuple[int, str]]:
    """Lines with messages, and the text before those. A message begins at the last boundary from which a client
    understands the rest."""
    out: list[tuple[int, str]] = []
    found = {i: find_marks(seen.lines[i], seen.clients) for i in seen.some}
    behind = {i: seen.lines[i][min(mark for _, mark in marks) :] for i, marks in found.items() if marks}
    tail = find_tail([text for i, text in behind.items() if not goes_on(seen.lines, i)] or list(behind.values()))
    for i, marks in found.items():
        if len(out) == ENOUGH_SAMPLES:
            break
        for text in dict.fromkeys((strip_end(tail, seen.lines[i]), seen.lines[i])):
            begins = [find_begin(text, mark, client) for client, mark in marks if mark < len(text)]
            places = [place for place in begins if place is not None and place <= HEADER_LIMIT]
            if places:  # the client that understands more: its message may contain words of another client
                out.append((i, text[: min(places)]))
                break
    return out


_TAIL = re.compile(r"(?:\s*(?:\([^()\s]*\)|\[[^\[\]]*\]|[\"'}>]|\]\]|,|\+\d+(?:ms|[smhd])))[ \t]*\Z")
_BEFORE_MESSAGES = frozenset("#< \t\n\"':|,;>)]}[({=-")


def find_begin(line: str, mark: int, client: Client) -> int | None:
    """Where the message that has the mark begins: the last boundary from which the client understands the rest."""
    tail = structured.end_fields(ELAPSED.sub("", line) if " +" in line else line)
    fields = tail[1] if tail is not None else {}
    ends = [line if tail is None or len(tail[0]) <= mark else tail[0]]
    for _ in range(2):
        end = _TAIL.search(ends[-1], max(0, len(ends[-1]) - HEADER_LIMIT))
        if end is None or end.start() <= mark:
            break
        ends.append(line[: end.start()])
    for text in ends:
        for place in range(mark, max(-1, mark - HEADER_LIMIT), -1):
            if (place and text[place - 1] not in _BEFORE_MESSAGES) or (place < mark and text[place] in " \t"):
                continue
            message = Message(1, text[place:], fields=fields)
            found = client.understand(message)
            if found is None and not fields:  # it needs the fields of a frame
                return place
            if found or ("\\" in text and client.understand(message._replace(text=unescape(message.text)))):
                return place
    return None
