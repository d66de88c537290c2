"""The state of one followed group: its members' states, the last versions of its findings, and recent records.

A group is judged again when it gets new records. Members continue from their saved states (`member_state`), and their
rows are compared. Events that ended `settle_ms` ago, by the timestamps of the lines, are final. Of their rows those
stay that later judgements need: the last owners of partitions, their lives, and later subscriptions.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any

from fsm.audit.findings import Finding, with_ids
from fsm.audit.group_audit import GroupAudit, Observer, follower_of, judge_rows
from fsm.audit.hygiene.identity import Facts, Key, identify, list_sources
from fsm.audit.hygiene.rotation import Missing, stem
from fsm.audit.intervals import group_by_partition, merge_spans
from fsm.audit.limits import Limits
from fsm.audit.live import blobs
from fsm.audit.live.changes import Change, Status, Versions, compare
from fsm.audit.live.member_state import Follow, Item, Kept, MemberState, keep
from fsm.audit.reading import unparsed
from fsm.audit.reading.certainty import FileFacts
from fsm.audit.reading.piece import PieceSummary
from fsm.audit.reading.records import GroupRecords, Source, spool
from fsm.audit.reading.routing import (
    BY_GROUP,
    COORDINATOR,
    FACTS,
    OF_FILE,
    SUMMARY,
    Received,
    Sent,
    in_order_of,
    values_of,
)
from fsm.audit.rows import Begun, Ended, GroupRows, Interval, Life, Seen, Subscription, group_by

FURTHEST_ZONE_MS = 14 * 3_600_000
"""Largest offset of a time zone ahead of UTC."""
LATE_MS = 60_000
"""A member's line that arrives late is inserted if it is older than the newest one by less than this."""
SETTLE_MS = 900_000
"""Findings that ended this long ago are final; rows that ended twice as long ago are dropped."""


@dataclass(slots=True)
class FileOfGroup:
    file_facts: FileFacts
    gone: tuple[int, ...]
    settled: int = 0
    """Records from this byte on are replaced when the file is read further."""
    facts: list[Facts] = field(default_factory=list)
    updated_ms: dict[str, int] = field(default_factory=dict)
    """When each client id last had new lines, by the auditing machine's clock."""

    def rename(self, name: str) -> FileOfGroup:
        return replace(self, facts=[one._replace(file=name) for one in self.facts])

    def note_updates(self, facts: list[Facts], unknown_ms: int, now_ms: int) -> None:
        """Sets `updated_ms` for the client ids that have a later line in `facts` than in the previous facts, or than
        `unknown_ms` if there are none."""
        before = _newest(self.facts)
        new = {client: now_ms for client, ms in _newest(facts).items() if ms > before.get(client, unknown_ms)}
        self.updated_ms |= new


def _newest(facts: Iterable[Facts]) -> dict[str, int]:
    """The last timestamp of each client id."""
    by_client = group_by(facts, attrgetter("client_id"))
    return {client: max(one.last_ms for one in own) for client, own in by_client.items()}


@dataclass(slots=True)
class GroupState:
    """The state of one group; or of one file, under its own key, with its unparsed lines."""

    key: str
    files: dict[str, FileOfGroup] = field(default_factory=dict)
    members: list[MemberState] = field(default_factory=list)
    kept: dict[Source, list[Kept]] = field(default_factory=dict)
    """Records of members that may be needed again."""
    coordinators: list[Kept] = field(default_factory=list)
    past: bytes = b""
    """Old rows of members that are still needed (`select_needed`)."""
    versions: Versions = field(default_factory=dict)
    summary: list[Any] = field(default_factory=list)
    """Of the file, as plain values."""
    homeless: list[Facts] = field(default_factory=list)
    """Of the file: of no group."""
    notes: list[str] = field(default_factory=list)
    """Events of the file, such as its truncation."""
    expired_ms: int = 0
    """Findings that ended before are final."""
    judged_ms: dict[str, int] = field(default_factory=dict)
    """The same for findings about a member; for others under the empty name."""
    settled_ms: int = 0
    """Up to when rows were dropped."""
    names: int = 0
    """Number of known topic names."""
    touched: dict[Source, int] = field(default_factory=dict)
    """Since when records of a source changed in this batch."""

    def take(self, rows: Iterable[Sent], now_ms: int) -> None:
        """Takes the rows of one batch; `now_ms` is the auditing machine's clock.

        The first batch has the old content of files, so it does not show which clients still send.
        """
        is_first = not self.files
        by_kind = group_by(in_order_of(rows, BY_GROUP), attrgetter("kind"))
        for row in by_kind.pop(SUMMARY, ()):
            note, homeless, *self.summary = values_of(row)
            self.homeless = [Facts(*one) for one in homeless]
            self.notes += [note] if note else []
        about = [(row, values_of(row)) for row in by_kind.pop(FACTS, ())]
        self._rename({values[0]: row.chunk.file for row, values in about if values[0]})
        for row, (_, file_facts, gone, settled, *facts) in about:
            known = self.files.setdefault(row.chunk.file, FileOfGroup(FileFacts(*file_facts), ()))
            if known.gone != tuple(gone):
                self._restart_members(stem(row.chunk.file))
            known.file_facts, known.gone, known.settled = FileFacts(*file_facts), tuple(gone), settled
            new_facts = [Facts(*one) for one in facts]
            if not is_first:
                known.note_updates(new_facts, self.expired_ms, now_ms)
            known.facts = new_facts
            self._replace(row.chunk.file, row.chunk.piece)
        for row in chain.from_iterable(by_kind.values()):
            one = keep(row.chunk, is_open=row.chunk.piece >= self.files[row.chunk.file].settled)
            if row.kind == COORDINATOR:
                self.coordinators.append(one)
            else:
                self._touch(one)
                self.kept.setdefault(row.chunk.source, []).append(one)
        self._drop_empty()

    def _restart_members(self, name: str) -> None:
        """Restarts the members of a log, by its `stem`, whose missing rotations have changed."""
        for member in self.members:
            if any(stem(file) == name for _, _, file, _ in member.sources):
                member.restart()

    def _touch(self, one: Kept) -> None:
        source, first_ms = one.chunk.source, one.chunk.first_ms
        self.touched[source] = min(first_ms, self.touched.get(source, first_ms))

    def _replace(self, file: str, since: int) -> None:
        """Drops the records of a file from byte `since` on, which are sent again."""
        self.coordinators = [one for one in self.coordinators if one.chunk.file != file or one.chunk.piece < since]
        for source, own in self.kept.items():
            if source[2] == file:
                for one in own:
                    if one.chunk.piece >= since:
                        self._touch(one)
                self.kept[source] = [one for one in own if one.chunk.piece < since]
        for member in self.members if since == 0 else ():
            if any(source[2] == file for source in member.dropped):
                member.forget()

    def _drop_empty(self) -> None:
        """Drops the facts of expired sources, and files without facts and records."""
        needed = {source for member in self.members for source in member.sources}
        needed |= {source for source, own in self.kept.items() if own}
        for one in self.files.values():
            one.facts = [fact for fact in one.facts if fact.last_ms >= self.expired_ms or fact.source in needed]
            one.updated_ms = {name: one.updated_ms[name] for name in _newest(one.facts) if name in one.updated_ms}
        of_coordinators = {one.chunk.file for one in self.coordinators}
        self.files = {name: one for name, one in sorted(self.files.items()) if one.facts or name in of_coordinators}
        self.kept = {source: own for source, own in sorted(self.kept.items()) if own}

    def _rename(self, names: Mapping[str, str]) -> None:
        names = {old: new for old, new in names.items() if old in self.files}
        if not names:
            return
        for name in sorted(set(names.values()) & self.files.keys() - names.keys()):
            self._replace(name, -1)  # another file has this name now
        moved = {new: self.files.pop(old).rename(new) for old, new in names.items()}
        self.files |= moved
        renamed = (one for own in self.kept.values() for one in _rename(own, names))
        self.kept = group_by(renamed, attrgetter("chunk.source"))
        self.coordinators = _rename(self.coordinators, names)
        for member in self.members:
            member.rename(names)
        self.past = blobs.rename(self.past, names) if self.past else b""

    # -- judgement ----------------------------------------------------------------------------------------------

    def audit(self, limits: Limits, names: Mapping[str, str], observer: Observer, late_ms: int = LATE_MS) -> GroupAudit:
        """Judges the group; `names` are topic names by topic id."""
        facts = [fact for one in self.files.values() for fact in one.facts]
        lines: blobs.Lines = {}
        keys = self._find_members(identify(facts), lines)
        gone: Missing = {stem(name): frozenset(one.gone) for name, one in self.files.items() if one.gone}
        follow = Follow(partial(follower_of, limits=limits, gone=gone), gone, names, late_ms)
        for number, member in enumerate(self.members):
            if member.nameless and len(names) != self.names:
                member.restart()
            since = [self.touched[source] for source in member.sources if source in self.touched]
            if since and min(since) <= member.dropped_ms and member.is_set_back(self.kept):
                self.members.append(member)
                member = self.members[number] = member.split_at_set_back(self.kept, lines)  # noqa: PLW2901
            if since or (member.sources and not member.rest):
                member.take(self.kept, min(since, default=member.dropped_ms + 1), follow, lines)
                member.drop(self.kept)
        self.names, self.touched = len(names), {}
        with spool() as held:
            records = GroupRecords(held)
            for one in self.coordinators:
                records.add(one.chunk._replace(packed=zlib.decompress(one.chunk.packed)), coordinator=True)
            read = Received(records, facts, {name: one.file_facts for name, one in self.files.items()})
            rows = self._rows(observer, lines)
            return judge_rows(self.key, rows, read, keys, limits, names=names, observer=observer, known_lines=lines)

    def _rows(self, observer: Observer, lines: blobs.Lines) -> Iterator[Any]:
        """The rows of all members; their records go to the observer."""
        if self.past:
            yield from blobs.load(self.past, lines)
        for member in self.members:
            for item in member.items(lines):
                if isinstance(item, Seen):
                    observer.see(member.key.member, item)
                else:
                    yield item

    def _find_members(self, keys: Mapping[Source, Key], lines: blobs.Lines) -> dict[Source, Key]:
        """Updates `members`, and returns the member of each source.

        A member with dropped records keeps its name. If it turns out to be several members, or part of another one, its
        rows so far stay, and the other members begin where it ended.
        """
        homes = [
            sorted({keys[source]._replace(rank=0) for source in one.sources if source in keys}) for one in self.members
        ]
        claims = [key for own, one in zip(homes, self.members, strict=True) if not one.is_whole for key in own]
        active: dict[Key, MemberState] = {}
        ended: list[MemberState] = []
        began_ms: dict[Key, int] = {}
        for own, one in zip(homes, self.members, strict=True):
            if one.is_whole:
                if own == [one.key] and one.key not in claims:
                    active[one.key] = one
            elif len(own) == 1 and claims.count(own[0]) == 1 and own[0].shared == one.key.shared:
                active[own[0]] = one
            else:
                for key in own:
                    began_ms[key] = max(one.reached_ms, began_ms.get(key, -1))
                if one.sources and one.states:
                    one.end(lines)
                if not one.sources:
                    ended.append(one)
        for key, sources in list_sources(keys).items():
            one = active.setdefault(key, MemberState(key, sources, dropped_ms=began_ms.get(key, -1)))
            if one.is_whole and any(sources.get(source) != rank for source, rank in one.sources.items()):
                one.restart()
            one.sources = sources
        self.members = sorted([*ended, *active.values()], key=lambda one: (one.key, not one.sources))
        named = {key: one.key for key, one in active.items()}
        return {source: named[key._replace(rank=0)]._replace(rank=key.rank) for source, key in keys.items()}

    def update_findings(self, found: Iterable[Finding], close_ms: int, now_ms: int) -> list[Change]:
        """The changes of findings. Those that ended `close_ms` before `reached_ms` are closed; final ones stay as they
        are."""
        final = {key: one for key, one in self.versions.items() if self._is_final(one.finding)}
        open_ones = {key: one for key, one in self.versions.items() if key not in final}
        judged = (one for one in found if not self._is_final(one))
        self.versions, changes = compare(open_ones, judged, self.reached_ms(now_ms) - close_ms)
        return [*changes, *(one.close() for one in final.values() if one.status is not Status.CLOSED)]

    def _is_final(self, found: Finding) -> bool:
        """Whether it ended before the time that is still judged."""
        return found.end_ms < max(self.expired_ms, self.judged_ms.get(found.member, 0))

    def end(self) -> list[Change]:
        """Closes all open findings when no more records are expected."""
        return [one.close() for one in self.versions.values() if one.status is not Status.CLOSED]

    def expire(self, audit: GroupAudit, expire_ms: int, now_ms: int) -> None:
        """Drops members without lines for `expire_ms` while others had some, unless an open finding needs them.

        The clock is `reached_ms`, not moved by a single member ahead of all others. It waits for members that still
        send, however late their clocks are: neither they nor their findings expire.
        """
        last, sending = self._find_last_lines(audit, now_ms - expire_ms // 2)
        clock_ms = self._clock_ms(last, now_ms)
        # Findings that would change without the records of an expired member end soon after it, within half the time.
        judged_ms = min([clock_ms - expire_ms // 2, *(last[member] for member in sending)])
        horizon_ms = judged_ms - expire_ms // 2
        gone = {member for member, ms in last.items() if ms < horizon_ms}
        needed = {line.file for one in audit.findings if one.end_ms >= judged_ms for line in one.evidence}
        gone -= {key.member for (_, _, file, _), key in audit.members.items() if file in needed}
        over_ms = clock_ms - expire_ms
        old = {member for member, ms in last.items() if ms < over_ms}
        for one in self.files.values():  # facts of old files expire before their member
            one.facts = [
                fact
                for fact in one.facts
                if fact.last_ms >= over_ms
                or self.kept.get(fact.source)
                or fact.source not in audit.members
                or audit.members[fact.source].member in old
            ]
        if gone:
            over = {source for one in self.members if one.key.member in gone for source in one.sources}
            self.members = [one for one in self.members if one.key.member not in gone]
            self.kept = {source: own for source, own in self.kept.items() if source not in over}
            self.expired_ms = max(self.expired_ms, judged_ms)
            self._drop_empty()

    def settle(self, audit: GroupAudit, settle_ms: int, now_ms: int) -> None:
        """Makes findings final that ended `settle_ms` ago, and drops rows that ended as long before that.

        The clock waits for members that send, unless they are far behind: those have their own clocks.
        """
        last, sending = self._find_last_lines(audit, now_ms - settle_ms)
        clock_ms = self._clock_ms(last, now_ms)
        far_ms = clock_ms - _BEHIND * settle_ms
        far = {member for member in sending if last[member] < far_ms}
        reached_ms = min([clock_ms, *(last[member] for member in sending - far)])
        judged_ms = max(self.judged_ms.get("", 0), reached_ms - settle_ms)
        members = {one.finding.member for one in self.versions.values()} - last.keys()
        of_members = {
            member: max(min(judged_ms, ms - settle_ms), judged_ms - settle_ms // 2) for member, ms in last.items()
        }
        of_members |= {member: last[member] - settle_ms for member in far} | dict.fromkeys(["", *members], judged_ms)
        self.judged_ms = {member: max(ms, self.judged_ms.get(member, 0)) for member, ms in sorted(of_members.items())}
        until_ms = judged_ms - settle_ms
        if until_ms - self.settled_ms < settle_ms // 4:
            return
        self.settled_ms = until_ms
        self.coordinators = [one for one in self.coordinators if one.is_open or one.last_ms >= until_ms]
        lines: blobs.Lines = {}
        old: list[Item] = blobs.load(self.past, lines) if self.past else []
        for one in self.members:
            member = one.key.member
            old += one.settle(self.judged_ms[member] - settle_ms if member in far else until_ms, lines)
        self.members = [one for one in self.members if one.sources or one.emitted]
        needed = select_needed(old, audit.rows)
        self.past = blobs.dump(needed, lines) if needed else b""

    def _find_last_lines(self, audit: GroupAudit, since_ms: int) -> tuple[dict[str, int], set[str]]:
        """The last timestamp of each member, and the members with new lines since a time."""
        last: dict[str, int] = {}
        sending: set[str] = set()
        for one in self.files.values():
            for fact in one.facts:
                key = audit.members.get(fact.source)
                if key is not None:
                    last[key.member] = max(fact.last_ms, last.get(key.member, 0))
                    if one.updated_ms.get(fact.client_id, 0) >= max(1, since_ms):
                        sending.add(key.member)
        return last, sending

    def _clock_ms(self, last: Mapping[str, int], now_ms: int) -> int:
        """The clock of the group in epoch ms; a single member ahead of all others does not move it."""
        return min([self.reached_ms(now_ms), *sorted(last.values())[-2:]])

    @property
    def is_file(self) -> bool:
        return self.key.startswith(OF_FILE)

    def report_file(self) -> list[Finding]:
        pieces = [PieceSummary(*self.summary)] if self.summary else []
        found = list(unparsed.report_file(pieces, self.homeless)) if pieces else []
        file, at_ms = self.key.removeprefix(OF_FILE), max((one.last_ms or 0 for one in pieces), default=0)
        return with_ids([*found, *(unparsed.report_event(file, at_ms, note) for note in self.notes)])

    def reached_ms(self, now_ms: int) -> int:
        """The time of the newest record, at most `now_ms` (the auditing machine's clock), as some clocks are ahead.

        If the median is ahead by no more than a time zone, the timestamps are of another zone: then it is the median.
        0 without records.
        """
        times = sorted(fact.last_ms for one in self.files.values() for fact in one.facts)
        times = times or sorted(one.last_ms for one in self.coordinators)
        if not times:
            return 0
        middle_ms = times[len(times) // 2]
        if now_ms < middle_ms <= now_ms + FURTHEST_ZONE_MS:
            return middle_ms
        return min(times[-1], now_ms)


_BEHIND = 4
"""The clock does not wait for a sending member that is behind by more than this many `settle_ms`."""


def _rename(own: Iterable[Kept], names: Mapping[str, str]) -> list[Kept]:
    return [one._replace(chunk=one.chunk._replace(file=names.get(one.chunk.file, one.chunk.file))) for one in own]


def select_needed(old: Iterable[Item], rows: GroupRows) -> list[Item]:
    """The rows of `old` that later judgements may need; `rows` are all rows, including `old`.

    The last owners of each partition, with their lives; of each member the first life, and the first one after which
    its log is uncertain; merged subscriptions since the earliest end of those owners.
    """
    known = list(old)
    owners = list(_last_owners(row for row in known if isinstance(row, Interval)))
    owning = {(one.member, one.life) for one in (*rows.intervals, *owners)}
    since_ms = min((one.end_ms for one in owners), default=0)
    wanted = [row for row in known if isinstance(row, Subscription) and row.end_ms >= since_ms] if owners else []
    lives = _select_lives((row for row in known if isinstance(row, Life)), owning)
    return [*owners, *lives, *_merge(wanted)]


def _last_owners(intervals: Iterable[Interval]) -> Iterator[Interval]:
    in_order = sorted(intervals, key=lambda one: (one.topic, one.partition, one.start_ms, one.end_ms, one.member))
    for own in group_by_partition(in_order):
        end_ms = max((one.end_ms for one in own if one.begun is not Begun.PENDING), default=0)
        yield from (one for one in own if one.end_ms >= end_ms)


def _select_lives(lives: Iterable[Life], owning: set[tuple[str, int]]) -> Iterator[Life]:
    uncertain: set[str] = set()
    for one in sorted(lives, key=lambda life: (life.member, life.number)):
        is_first = one.member not in uncertain and (one.ended is Ended.HOLE or one.doubtful_ms is not None)
        if is_first:
            uncertain.add(one.member)
        if is_first or one.number == 0 or (one.member, one.number) in owning:
            yield one


def _merge(subscriptions: Iterable[Subscription]) -> Iterator[Subscription]:
    """One subscription for each stretch of time in which any member was subscribed to a topic or a pattern."""
    for (topic, pattern), own in sorted(group_by(subscriptions, lambda one: (one.topic, one.pattern)).items()):
        first = own[0]
        for start_ms, end_ms in merge_spans((one.start_ms, one.end_ms) for one in own):
            yield Subscription(first.group, first.member, topic, pattern, start_ms, end_ms, first.place)
