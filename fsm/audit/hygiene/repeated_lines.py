"""Removes the repetitions of a logger that prints each line several times, in one layout or in two, as one with two
appenders does. If it repeats only some line, the rules for contradictions judge that.

Of several consumers with one client id, two may print equal lines at once. The lines with a member id, which are those
of one consumer, show how many times each is printed; of equal lines without one, as many are left as were not repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter

from fsm.audit.findings import Finding, FindingKind, finding
from fsm.audit.rows import Place, Seen

_FEW, _ENOUGH = 3, 12
"""Lines of a process that show that its logger does not repeat them, and those that show that it does. A log may begin
with the second of two equal lines."""
_SHARE = 0.4
"""A larger share of lines that repeat the one before them is the logger's doing: of two equal ones it is half."""


class RepeatedLines:
    """Follows the records of one client id, given by time, file and offset; those of one timestamp together."""

    def __init__(self, group: str, member: str, *, shared: bool = False) -> None:
        self.group = group
        self.member = member
        self.shared = shared
        """These are the lines of several consumers."""
        self.times = 0
        """How many times its logger prints a line; 0 until enough of them are known."""
        self.held: list[Seen] = []
        """The records until then."""
        self.count = 0
        self.span: tuple[int, int] = (0, 0)
        self.shown: tuple[Place, ...] = ()
        """The first line that is repeated, and its repetition."""

    def see(self, given: Sequence[Seen]) -> Sequence[Seen]:
        """The remaining records, once it is known whether any is to be removed."""
        if self.times == 1:
            return given
        self.held += given
        if not self.times:
            self._decide()
        return self._release() if self.times else ()

    def finish(self, given: Iterable[Seen]) -> Sequence[Seen]:
        self.held += given
        if not self.times:
            self._decide(ended=True)
        return self._release()

    def findings(self) -> Iterator[Finding]:
        if self.count:
            what = f"the logger of {self.member} printed its lines several times"
            summary = f"{what}; {self.count} repetitions were left out"
            yield finding(FindingKind.UNPARSED_LINES, self.group, self.member, *self.span, summary, self.shown)

    def _decide(self, *, ended: bool = False) -> None:
        """Decides by the first lines; if none of them is repeated, the first few are enough."""
        lines = [line for line in _lines(self.held) if not self.shared or _is_of_one(line)]
        repeated = sum(map(_repeats, lines[1:], lines))
        if ended or len(lines) >= (_ENOUGH if repeated else _FEW):
            self.times = -(-len(lines) // (len(lines) - repeated)) if repeated > _SHARE * len(lines) else 1

    def _release(self) -> list[Seen]:
        given, self.held = self.held, []
        return [seen for line in self._keep(given) for seen in line] if self.times > 1 else given

    def _keep(self, given: Sequence[Seen]) -> list[list[Seen]]:
        """Of equal lines the first one, or the first with a thread: it may be lost in one of two layouts."""
        kept: list[list[Seen]] = []
        equal = 0
        for line in _lines(given):
            equal = equal + 1 if kept and _repeats(line, kept[-1]) else 0
            if equal == 0 or (self.shared and equal % self.times == 0 and not _is_of_one(line)):
                kept.append(line)
                continue
            ts_ms = line[0].record.ts_ms
            self.span = (self.span[0] if self.count else ts_ms, ts_ms)
            self.shown = self.shown or (kept[-1][0].place, line[0].place)
            self.count += 1
            if not kept[-1][0].record.thread:
                kept[-1] = line
        return kept


def _lines(given: Iterable[Seen]) -> list[list[Seen]]:
    return [list(line) for _, line in groupby(given, key=attrgetter("place"))]


def _is_of_one(line: Iterable[Seen]) -> bool:
    """Whether a line has a member id, which no two consumers have."""
    return any(seen.record.member_id for seen in line)


def _repeats(line: Sequence[Seen], before: Sequence[Seen]) -> bool:
    """Whether a line has the records of the line before it, of whatever thread."""
    same_file = line[0].place.file == before[0].place.file
    return same_file and len(line) == len(before) and all(map(_are_equal, line, before))


def _are_equal(one: Seen, other: Seen) -> bool:
    first, second = one.record, other.record
    alike = (first.ts_ms, first.kind) == (second.ts_ms, second.kind)
    return alike and replace(first, thread="") == replace(second, thread="")
