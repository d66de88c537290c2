"""Lines out of the order of their times: they were moved, or the clock was set back.

Records come by time, so the offsets within one file should rise. One thread prints the transitions of a machine: they
are in order to the millisecond. Others may differ by `CLOCK_MS`.

A file whose lines were shuffled has no order. It shows in lines that are out of order among those that are out of
order: after a clock was set back there are none. Where a member's lines are spread over several files, a file holds too
few of them to see that, so only few lines may be out of order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from fsm.audit.findings import Finding, FindingKind, finding
from fsm.audit.hygiene.rotation import rotations
from fsm.audit.limits import CLOCK_MS
from fsm.audit.rows import Place, Seen
from fsm.audit.wording import seconds
from fsm.trace import Kind

_HELD = 256
"""Lines of each file that are kept, to find the one that stands too early."""
_SHOWN = 5
"""Lines out of order that are shown."""
_SHUFFLED = 0.25
"""A file with a larger share of lines out of order has no order."""


@dataclass(slots=True)
class _File:
    furthest: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_HELD))
    """(offset, time) of lines further down than all that are older; both rise."""
    furthest_step: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_HELD))
    """The same of transitions."""
    lines: int = 0
    misplaced: int = 0
    """Lines that are younger than one that stands after them, if only by a millisecond."""
    furthest_misplaced: int = -1
    misplaced_twice: int = 0
    """Those that are out of order among themselves."""
    moved: int = 0
    """Those that must have been moved, or whose clock was."""
    start_ms: int = 0
    end_ms: int = 0
    back_ms: int = 0
    places: list[Place] = field(default_factory=list)

    @property
    def shuffled(self) -> bool:
        return self.misplaced_twice > _SHUFFLED * self.lines


class LineOrder:
    """Follows the files of one member; records come by time."""

    def __init__(self, group: str, member: str) -> None:
        self.group = group
        self.member = member
        self.files: dict[str, _File] = {}
        self.last = ""
        """The file of the last record."""
        self.scattered = False
        """A file that another one had followed went on."""

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
                _note(known, seen, back_ms)
        else:
            _reach(known.furthest, record.ts_ms, place.offset)
        if is_step:
            _reach(known.furthest_step, record.ts_ms, place.offset)

    def forget(self, files: Container[str]) -> None:
        """Nothing more comes from other files: what is known of them goes, if it is not to be told."""
        self.files = {name: known for name, known in self.files.items() if known.moved or name in files}

    def findings(self) -> Iterator[Finding]:
        interleaved = self.scattered and not rotations(self.files)
        for known in self.files.values():
            too_many = known.misplaced > _SHUFFLED * known.lines if interleaved else known.shuffled
            if known.moved and not too_many:
                yield self._finding(known)

    def jumps(self, file: str) -> bool:
        """Whether lines of the file stand far before older ones."""
        return self.files[file].back_ms > CLOCK_MS

    def knows(self, seen: Seen) -> bool:
        return seen.place.file in self.files

    def is_shuffled(self, file: str) -> bool:
        return self.files[file].shuffled

    def _finding(self, known: _File) -> Finding:
        which = "a line stands" if known.moved == 1 else f"{known.moved} lines stand"
        return finding(
            FindingKind.ILLEGAL_TRANSITION,
            self.group,
            self.member,
            known.start_ms,
            known.end_ms,
            summary=f"in the file of {self.member} {which} before what is up to {seconds(known.back_ms)} older: "
            "lines were moved, or its clock was set back",
            places=known.places,
        )


def _note(known: _File, seen: Seen, back_ms: int) -> None:
    record, place = seen
    if not known.moved:
        known.start_ms = record.ts_ms - back_ms
    known.moved += 1
    known.end_ms = record.ts_ms
    known.back_ms = max(known.back_ms, back_ms)
    if len(known.places) < _SHOWN:
        known.places.append(place)


def _back_ms(furthest: deque[tuple[int, int]], ts_ms: int, offset: int) -> int:
    """By how much the line is younger than one that stands after it; 0 where it is in order."""
    if not furthest or offset >= furthest[-1][0]:
        return 0
    return ts_ms - furthest[bisect_right(furthest, (offset, ts_ms))][1]


def _reach(furthest: deque[tuple[int, int]], ts_ms: int, offset: int) -> None:
    if not furthest or offset > furthest[-1][0]:
        furthest.append((offset, ts_ms))
