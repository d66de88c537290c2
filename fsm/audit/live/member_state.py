"""The saved state of one member: its follower after some record, and the rows up to there.

Records are taken by time. The follower is saved as of `SLACK_MS` before the newest record, and continues from there
with the next batch, so the cost of a batch is that of its new records. For a late line it continues from one of two
earlier states, and takes the later records again. Records before the earliest state are dropped: a line that is late by
more than `late_ms` may have no state to continue from; it is counted and left out.

While no record has been dropped, everything is judged again if records turn out to belong to another member.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from fsm.audit.coordinator.assignments import ID, with_known_names
from fsm.audit.findings import Finding, FindingKind, finding
from fsm.audit.follower import Row
from fsm.audit.hygiene.identity import Key
from fsm.audit.hygiene.rotation import Missing
from fsm.audit.limits import CLOCK_MS, UNDATED_MS
from fsm.audit.live import blobs
from fsm.audit.member.member_follower import MemberFollower, SharedFollower
from fsm.audit.reading.records import NUMBER, OFFSET, SEQ, TEXT, TIME, Chunk, Source, to_seen, unpack
from fsm.audit.reading.records import Row as Packed
from fsm.audit.report.highlights import is_drawn
from fsm.audit.rows import GivenUp, ObservedTransition, Place, Seen
from fsm.audit.wording import seconds

SLACK_MS = CLOCK_MS
"""Records older than the newest one by at most this are taken again with the next batch."""
_STATES = 2
"""Saved states of a follower beside the newest."""
NEVER_MS = 1 << 60
_SHOWN = 5
"""Most late lines in the finding."""
_Ranked = tuple[int, int, int, int, Packed, str]
"""(time, rank of the file, offset, position in the entry, record, file)"""
_IN_ORDER = itemgetter(0, 1, 2, 3)
Item = Row | Seen
"""A row of a follower, or a record that is drawn."""


class Kept(NamedTuple):
    """A compressed chunk of records that may be needed again."""

    chunk: Chunk
    last_ms: int
    is_open: bool
    """It is replaced when its file is read further."""


class Follow(NamedTuple):
    make: Callable[[Key], MemberFollower | SharedFollower]
    gone: Missing
    names: Mapping[str, str]
    late_ms: int


@dataclass(slots=True)
class MemberState:
    key: Key
    sources: dict[Source, int]
    """Its sources, with the rank of each file."""
    states: list[tuple[int, bytes]] = field(default_factory=list)
    """(time, follower after all records up to it): the newest, and at most `_STATES` before that."""
    emitted: list[tuple[int, bytes]] = field(default_factory=list)
    """(time, rows from the previous time up to it)"""
    rest: bytes = b""
    """Rows since then, including those of an end of the log now."""
    dropped_ms: int = -1
    """Up to when records were dropped."""
    dropped: set[Source] = field(default_factory=set)
    seen: dict[Source, int] = field(default_factory=dict)
    """The last offset taken of each source."""
    late: tuple[int, int, int] = (0, 0, 0)
    """Number of lines that were too late, and the time of the newest record at the first and at the last of them."""
    late_lines: list[tuple[str, int, int, str]] = field(default_factory=list)
    """The first of them: file, offset, number and text."""
    nameless: bool = False
    """Some record has a topic id instead of a name."""

    @property
    def is_whole(self) -> bool:
        """Whether no record was dropped yet."""
        return self.dropped_ms < 0

    @property
    def reached_ms(self) -> int:
        """Up to when its records were taken."""
        return self.states[-1][0] if self.states else self.dropped_ms

    def restart(self) -> None:
        """Discards what was derived from the kept records, so that they are judged again."""
        self._go_back(self.dropped_ms)
        self.rest = b""

    def forget(self) -> None:
        """Resets everything, because its records are sent again from the start."""
        self.dropped_ms, self.dropped, self.seen = -1, set(), {}
        self.restart()

    def end(self, lines: blobs.Lines) -> None:
        """Finishes the follower; its rows are kept. Its records continue as another member."""
        follower = blobs.load(self.states[-1][1], lines)
        self.emitted.append((self.reached_ms, blobs.dump(list(follower.finish()), lines)))
        self.sources, self.rest = {}, b""

    def is_set_back(self, kept: Mapping[Source, Sequence[Kept]]) -> bool:
        """Whether a file continues with times before those of dropped records: its clock was set back, or was ahead."""
        for source, seen in self.seen.items() if self.states else ():
            new = (one for one in kept.get(source, ()) if one.chunk.last_offset > seen)
            _, last_ms = max(
                ((row[OFFSET], row[TIME]) for one in new for row in unpack_kept(one)), default=(0, NEVER_MS)
            )
            if last_ms <= self.dropped_ms:
                return True
        return False

    def split_at_set_back(self, kept: dict[Source, list[Kept]], lines: blobs.Lines) -> MemberState:
        """Ends this state, whose rows are kept, and returns the member from where its clock was set back."""
        fresh = MemberState(self.key, self.sources)
        for source in self.sources:
            own = kept.get(source, [])
            kept[source] = [one for one in own if one.chunk.last_offset > self.seen.get(source, -1)]
        new = min((one.chunk for source in self.sources for one in kept[source]), key=lambda one: one.first_ms)
        at_ms, group, member = self.reached_ms, self.key.group, self.key.member
        back, place = seconds(at_ms - new.first_ms), Place(new.file, new.first_offset)
        summary = f"the time stamps of {member} went back by {back}: its clock was set back, or had been ahead"
        illegal = finding(FindingKind.ILLEGAL_TRANSITION, group, member, at_ms, at_ms, summary, [place])
        fresh._rows([(one, 0) for one in kept[new.source]], lines)
        self.emitted.append((at_ms, blobs.dump([illegal], lines)))
        self.end(lines)
        return fresh

    def rename(self, names: Mapping[str, str]) -> None:
        self.sources = {_rename(source, names): rank for source, rank in self.sources.items()}
        if any(source[2] in names.values() for source in self.sources):
            self.states = [(ms, blobs.rename(data, names)) for ms, data in self.states]
            self.emitted = [(ms, blobs.rename(data, names)) for ms, data in self.emitted]
            self.rest = blobs.rename(self.rest, names) if self.rest else b""
            self.dropped = {_rename(source, names) for source in self.dropped}
            self.seen = {_rename(source, names): offset for source, offset in self.seen.items()}
            self.late_lines = [(names.get(line[0], line[0]), *line[1:]) for line in self.late_lines]

    # -- records ------------------------------------------------------------------------------------------------

    def take(self, kept: Mapping[Source, Sequence[Kept]], from_ms: int, follow: Follow, lines: blobs.Lines) -> None:
        """Takes the records of its sources, some of which are new, or were replaced, from `from_ms` on."""
        own = [(one, rank) for source, rank in self.sources.items() for one in kept.get(source, ())]
        self._go_back(from_ms)
        if from_ms <= self.dropped_ms:
            self._count_late(own)
        for one, _ in own:
            source = one.chunk.source
            self.seen[source] = max(one.chunk.last_offset, self.seen.get(source, -1))
        rows = self._rows(own, lines)
        follower = blobs.load(self.states[-1][1], lines) if self.states else follow.make(self.key)
        follower.update_files(follow.gone, {file for _, _, file, _ in self.sources})
        done = 0
        for stop_ms in self._stops(own, follow.late_ms):
            end = bisect_right(rows, stop_ms, key=itemgetter(0))
            if end > done:
                items = list(self._follow(follower, rows[done:end], follow.names))
                begun_ms = min(one.chunk.first_ms for one, _ in own)
                self._save_state(stop_ms, blobs.dump(follower, lines), begun_ms, follow.late_ms)
                self._add_emitted(items, lines)
                done = end
        rest = [*self._follow(follower, rows[done:], follow.names), *follower.finish()]
        self.rest = blobs.dump(rest, lines)

    def _go_back(self, from_ms: int) -> None:
        """Goes back to the last state before a time, or to the first one."""
        first = 0 if self.is_whole else 1
        while len(self.states) > first and self.states[-1][0] >= from_ms:
            self.states.pop()
        self.emitted = [one for one in self.emitted if one[0] <= self.reached_ms]

    def _rows(self, own: Iterable[tuple[Kept, int]], lines: blobs.Lines) -> list[_Ranked]:
        """The records that were not taken yet, by time, rank of the file, and position in it."""
        after_ms = self.reached_ms
        found: list[_Ranked] = []
        for one, rank in own:
            for row in unpack_kept(one) if one.last_ms > after_ms else ():
                if row[TIME] > after_ms:
                    place = Place(one.chunk.file, row[OFFSET])
                    lines[place] = one.chunk.lines_before + row[NUMBER], row[TEXT]
                    found.append((row[TIME], rank, row[OFFSET], row[SEQ], row, place.file))
        found.sort(key=_IN_ORDER)
        return found

    def _count_late(self, own: Sequence[tuple[Kept, int]]) -> None:
        """Counts new lines that are too late to be judged."""
        newest_ms = max((one.last_ms for one, _ in own), default=UNDATED_MS)
        for one, _ in own:
            file, seen = one.chunk.file, self.seen.get(one.chunk.source, -1)
            for row in unpack_kept(one) if one.chunk.last_offset > seen else ():
                if row[TIME] <= self.dropped_ms and row[OFFSET] > seen:
                    count, first_ms, _ = self.late
                    self.late = count + 1, first_ms or newest_ms, newest_ms
                    if len(self.late_lines) < _SHOWN:
                        self.late_lines.append((file, row[OFFSET], one.chunk.lines_before + row[NUMBER], row[TEXT]))

    def _stops(self, own: Sequence[tuple[Kept, int]], late_ms: int) -> Iterator[int]:
        """Times at which the follower is saved: before records that may be replaced, unless those are old."""
        newest_ms = max((one.last_ms for one, _ in own), default=UNDATED_MS)
        recent = (one for one, _ in own if one.is_open and one.last_ms > newest_ms - late_ms)
        last_ms = min((one.chunk.first_ms for one in recent), default=newest_ms)
        last_ms = min(last_ms, newest_ms - SLACK_MS) - 1
        for stop_ms in (last_ms - 2 * late_ms, last_ms - late_ms, last_ms):
            if stop_ms > max(self.reached_ms, UNDATED_MS):
                yield stop_ms

    def _save_state(self, at_ms: int, state: bytes, begun_ms: int, late_ms: int) -> None:
        """Saves the newest state, and keeps two before it that are `late_ms` apart. Sets `dropped_ms` to the first."""
        if self.states:
            *marks, last = self.states
            apart_ms = last[0] - (marks[-1][0] if marks else begun_ms)
            self.states = [*marks, last] if apart_ms >= late_ms or last[0] == self.dropped_ms else marks
        self.states = [*self.states[-2:], (at_ms, state)]
        if len(self.states) > _STATES:
            self.dropped_ms = self.states[0][0]

    def _add_emitted(self, items: list[Item], lines: blobs.Lines) -> None:
        """Adds the rows up to the newest state, merged with those since the state before it."""
        since_ms = self.states[-2][0] if len(self.states) > 1 else -1
        while items and self.emitted and self.emitted[-1][0] > since_ms:
            _, data = self.emitted.pop()
            items = [*blobs.load(data, lines), *items]
        if items:
            self.emitted.append((self.reached_ms, blobs.dump(items, lines)))

    def _follow(
        self, follower: MemberFollower | SharedFollower, rows: Iterable[_Ranked], names: Mapping[str, str]
    ) -> Iterator[Item]:
        for *_, row, file in rows:
            seen = to_seen(row, file)
            if seen.record.full:
                self.nameless = self.nameless or any(topic.startswith(ID) for topic, _ in seen.record.full)
                seen = seen._replace(record=with_known_names(seen.record, names))
            if is_drawn(seen.record):
                yield seen
            yield from follower.see(seen)

    def drop(self, kept: dict[Source, list[Kept]]) -> None:
        """Drops records before the first saved state."""
        for source in self.sources if not self.is_whole else ():
            own = kept.get(source, [])
            if any(one.last_ms <= self.dropped_ms and not one.is_open for one in own):
                self.dropped.add(source)
            kept[source] = [one for one in own if one.last_ms > self.dropped_ms]

    # -- rows ---------------------------------------------------------------------------------------------------

    def items(self, lines: blobs.Lines) -> Iterator[Item]:
        """All its rows and drawn records."""
        for _, data in self.emitted:
            yield from blobs.load(data, lines)
        if self.rest:
            yield from blobs.load(self.rest, lines)
        if self.late[0]:
            yield self._report_late(lines)

    def _report_late(self, lines: blobs.Lines) -> Finding:
        count, start_ms, end_ms = self.late
        shown = [Place(file, offset) for file, offset, _, _ in self.late_lines]
        lines |= {(file, offset): (number, text) for file, offset, number, text in self.late_lines}
        group, member = self.key.group, self.key.member
        which = "a line of it came" if count == 1 else f"{count} lines of it came"
        summary = (
            f"{which} so late that what follows them had been judged for good: what they say of {member} is left out"
        )
        return finding(FindingKind.UNPARSED_LINES, group, member, start_ms, end_ms, summary, shown)

    def settle(self, before_ms: int, lines: blobs.Lines) -> list[Item]:
        """Removes and returns the final rows that ended before `before_ms`."""
        settled = [one for one in self.emitted if one[0] <= self.dropped_ms or not self.sources]
        if not settled:
            return []
        items = [item for _, data in settled for item in blobs.load(data, lines)]
        left = [item for item in items if end_ms_of(item) >= before_ms]
        if len(left) == len(items):
            return []
        kept = [(settled[-1][0], blobs.dump(left, lines))] if left else []
        self.emitted = [*kept, *self.emitted[len(settled) :]]
        return [item for item in items if end_ms_of(item) < before_ms]


def end_ms_of(item: Item) -> int:
    if isinstance(item, Seen):
        return item.record.ts_ms
    if isinstance(item, ObservedTransition):
        return item.ts_ms
    return item.callback_end_ms if isinstance(item, GivenUp) else item.end_ms


def keep(chunk: Chunk, *, is_open: bool) -> Kept:
    last_ms = unpack(chunk.packed)[-1][TIME]
    return Kept(chunk._replace(packed=zlib.compress(chunk.packed, 1)), last_ms, is_open)


def unpack_kept(kept: Kept) -> list[Packed]:
    return unpack(zlib.decompress(kept.chunk.packed))


def _rename(source: Source, names: Mapping[str, str]) -> Source:
    group, client_id, file, program = source
    return group, client_id, names.get(file, file), program
