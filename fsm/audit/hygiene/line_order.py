"""Finds lines that are not in the order of their timestamps: they were moved, or the clock was set back.

Records are given by time, so offsets within one file should rise. One thread prints the transitions of a machine, so
these are in order to the millisecond. Other lines may differ by `CLOCK_MS`.

A file with shuffled lines has no order. Its misplaced lines are out of order among themselves; after a clock was set
back they are not. If a member's lines are spread over several files, a file has too few of them for this test, so only
a small share of lines may be misplaced.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from fsm.audit.findings import Finding, FindingKind, finding
from fsm.audit.hygiene.rotation import are_rotations
from fsm.audit.limits import CLOCK_MS
from fsm.audit.rows import Place, Seen
from fsm.audit.wording import seconds
from fsm.trace import Kind

_HELD = 256
"""Lines kept per file, to find how far a line is misplaced."""
_SHOWN = 5
"""Most misplaced lines in a finding."""
_SHUFFLED = 0.25
"""A file with a larger share of misplaced lines has no order."""


@dataclass(slots=True)
class _File:
    furthest: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_HELD))
    """(offset, time) of lines below all older lines; both rise."""
    furthest_step: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_HELD))
    """The same for transitions."""
    lines: int = 0
    misplaced: int = 0
    """Lines above an older line, even if only by a millisecond."""
    furthest_misplaced: int = -1
    misplaced_twice: int = 0
    """Misplaced lines that are out of order among themselves."""
    moved: int = 0
    """Misplaced lines beyond the tolerance: the line was moved, or the clock set back."""
    start_ms: int = 0
    end_ms: int = 0
    back_ms: int = 0
    places: list[Place] = field(default_factory=list)

    @property
    def shuffled(self) -> bool:
        return self.misplaced_twice > _SHUFFLED * self.lines


class LineOrder:
    """Follows the files of one member; records are given by time."""

    def __init__(self, group: str, member: str) -> None:
        self.group = group
        self.member = member
        self.files: dict[str, _File] = {}
        self.last = ""
        """The file of the last record."""
        self.scattered = False
        """A file continued after a record of another file."""

    def see(self, seen: Seen) -> None:
        record, place = seen
        known = self.files.get(place.file)
        if place.file != self.last:
            self.scattered = self.scattered or known is not None
            self.last = place.file
        if known is None:
            known = self.files[place.file] = _File()
        is_step = record.kind is Kind.TRANSITION
        known.lines += 1
        if known.furthest and place.offset < known.furthest[-1][0]:
            back_ms = _back_ms(known.furthest, record.ts_ms, place.offset)
            if back_ms <= CLOCK_MS:
                back_ms = _back_ms(known.furthest_step, record.ts_ms, place.offset) if is_step else 0
            known.misplaced += 1
            known.misplaced_twice += place.offset < known.furthest_misplaced
            known.furthest_misplaced = max(known.furthest_misplaced, place.offset)
            if back_ms > 0:
                _add_moved(known, seen, back_ms)
        else:
            _extend(known.furthest, record.ts_ms, place.offset)
        if is_step:
            _extend(known.furthest_step, record.ts_ms, place.offset)

    def forget(self, files: Container[str]) -> None:
        """Drops all other files, unless they have a finding; no more records of them are given."""
        self.files = {name: known for name, known in self.files.items() if known.moved or name in files}

    def findings(self) -> Iterator[Finding]:
        interleaved = self.scattered and not are_rotations(self.files)
        for known in self.files.values():
            too_many = known.misplaced > _SHUFFLED * known.lines if interleaved else known.shuffled
            if known.moved and not too_many:
                yield self._finding(known)

    def has_jump(self, file: str) -> bool:
        """Whether a line of the file is above a line that is older by more than `CLOCK_MS`."""
        return self.files[file].back_ms > CLOCK_MS

    def is_shuffled(self, file: str) -> bool:
        return self.files[file].shuffled

    def _finding(self, known: _File) -> Finding:
        which = "a line stands" if known.moved == 1 else f"{known.moved} lines stand"
        about = self.group, self.member, known.start_ms, known.end_ms
        what = f"in the file of {self.member} {which} before what is up to {seconds(known.back_ms)} older"
        summary = f"{what}: lines were moved, or its clock was set back"
        return finding(FindingKind.ILLEGAL_TRANSITION, *about, summary, known.places)


def _add_moved(known: _File, seen: Seen, back_ms: int) -> None:
    record, place = seen
    if not known.moved:
        known.start_ms = record.ts_ms - back_ms
    known.moved += 1
    known.end_ms = record.ts_ms
    known.back_ms = max(known.back_ms, back_ms)
    if len(known.places) < _SHOWN:
        known.places.append(place)


def _back_ms(furthest: deque[tuple[int, int]], ts_ms: int, offset: int) -> int:
    """By how many ms the line is younger than a line below it; 0 if it is in order."""
    if not furthest or offset >= furthest[-1][0]:
        return 0
    return ts_ms - furthest[bisect_right(furthest, (offset, ts_ms))][1]


def _extend(furthest: deque[tuple[int, int]], ts_ms: int, offset: int) -> None:
    if not furthest or offset > furthest[-1][0]:
        furthest.append((offset, ts_ms))
