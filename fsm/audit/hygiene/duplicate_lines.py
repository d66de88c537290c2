"""Removes duplicate lines: of a file that was collected under two names, or shipped again from its middle.

A copy has the records of its original, with the same timestamp and in the same order, but at another place: in another
file, or with lines of other timestamps between the two. Adjacent lines with one timestamp are a stretch; a stretch that
is part of another stretch with that timestamp duplicates it. Two adjacent equal lines are no duplicates, even if the
log was rotated between them: the rules for contradictions judge them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from fsm.audit.findings import Finding, FindingKind, finding
from fsm.audit.hygiene.rotation import are_adjacent
from fsm.audit.rows import Place, Seen

MANY = 64
"""With more stretches of one timestamp the lines were interleaved or shuffled, not copied."""


class DuplicateLines:
    """Removes and counts duplicates among the records of one process, which are given by time, file and offset."""

    def __init__(self, group: str, member: str) -> None:
        self.group = group
        self.member = member
        self.count = 0
        self.span: tuple[int, int] = (0, 0)
        self.first: tuple[Place, Place] | None = None
        """The first line that has a copy, and the copy."""
        self.furthest: dict[str, int] = {}
        """The last offset in each file before the current timestamp."""
        self.together: list[Seen] = []
        """Records of the current timestamp."""
        self.following: list[Seen] = []
        """Records of the next timestamp so far."""
        self.ahead: dict[str, list[int]] = {}
        """The offsets of the next timestamp in each file, in order."""

    def see(self, seen: Seen) -> Sequence[Seen]:
        """The remaining records of a timestamp, once the next timestamp is complete."""
        over = self.following and self.following[0].record.ts_ms != seen.record.ts_ms
        left = self._move_on() if over else ()
        self.following.append(seen)
        return left

    def finish(self) -> Sequence[Seen]:
        return [*self._move_on(), *self._move_on()]

    def findings(self) -> Iterator[Finding]:
        if self.first is not None:
            lines = "line stands" if self.count == 1 else "lines stand"
            what = f"{self.count} {lines} in the logs of {self.member} twice, as if a log had been collected twice"
            summary = f"{what}; each was read once"
            yield finding(FindingKind.UNPARSED_LINES, self.group, self.member, *self.span, summary, self.first)

    def _move_on(self) -> list[Seen]:
        left = self.together if len(self.together) < 2 else self._of_moment(self.together)
        for _, (file, offset) in self.together:
            if offset > self.furthest.get(file, -1):
                self.furthest[file] = offset
        self.together, self.following = self.following, []
        return left

    def _of_moment(self, together: list[Seen]) -> list[Seen]:
        self.ahead = _offsets(self.following)
        kept: list[list[Seen]] = []
        stretches = list(self._stretches(together))
        if len(stretches) > MANY:
            return together
        for stretch in stretches:
            original = next((one for one in kept if _is_part(stretch, one)), None)
            part = next((i for i, one in enumerate(kept) if _is_part(one, stretch)), None)
            if original is not None:
                self._count(original, stretch)
            elif part is not None:
                self._count(stretch, kept[part])
                kept[part] = stretch
            else:
                kept.append(stretch)
        return [seen for stretch in kept for seen in stretch]

    def _stretches(self, together: list[Seen]) -> Iterator[list[Seen]]:
        stretch = together[:1]
        for seen in together[1:]:
            if self._are_apart(stretch[-1].place, seen.place):
                yield stretch
                stretch = []
            stretch.append(seen)
        yield stretch

    def _are_apart(self, one: Place, other: Place) -> bool:
        if one.file != other.file:
            return not self._continues(one.file, other.file)
        if one.offset < self.furthest.get(one.file, -1) < other.offset:
            return True
        ahead = self.ahead.get(one.file, [])
        after = bisect_right(ahead, one.offset)
        return after < len(ahead) and ahead[after] < other.offset

    def _continues(self, file: str, other: str) -> bool:
        """Whether one file ends with this timestamp and the other, the next rotation, begins with it."""
        return are_adjacent(file, other) and any(
            old not in self.ahead and new not in self.furthest for old, new in ((file, other), (other, file))
        )

    def _count(self, original: list[Seen], copy: list[Seen]) -> None:
        ts_ms = copy[0].record.ts_ms
        self.span = (self.span[0] if self.first else ts_ms, ts_ms)
        self.count += len({seen.place for seen in copy})
        copied = next(seen for seen in original if seen.record == copy[0].record)
        self.first = self.first or (copied.place, copy[0].place)


def _offsets(moment: Iterable[Seen]) -> dict[str, list[int]]:
    offsets: dict[str, list[int]] = {}
    for _, place in moment:
        offsets.setdefault(place.file, []).append(place.offset)
    return {file: sorted(own) for file, own in offsets.items()}


def _is_part(few: list[Seen], many: list[Seen]) -> bool:
    """Whether the records of the one are a contiguous part of the other's."""
    part, whole = [seen.record for seen in few], [seen.record for seen in many]
    return any(whole[i : i + len(part)] == part for i in range(len(whole) - len(part) + 1))
