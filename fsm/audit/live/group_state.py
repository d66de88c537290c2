"""What is kept of one group: the state of each member, the findings as they were told last, and records for a while.

A group is judged again when something new came. Members go on from where they were (`member_state`); what they told is
held against each other. What is over for `settle_ms` by the clock of the lines is judged no more (`settling`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from fsm.audit.findings import Finding, with_ids
from fsm.audit.group_audit import GroupAudit, Observer, follower_of, judge_rows
from fsm.audit.hygiene.identity import Facts, Key, identify
from fsm.audit.hygiene.rotation import Missing, stem
from fsm.audit.limits import Limits
from fsm.audit.live import blobs, settling
from fsm.audit.live.changes import Change, Status, Versions, compare
from fsm.audit.live.member_state import Follow, Item, Kept, MemberState, keep
from fsm.audit.reading import unparsed
from fsm.audit.reading.certainty import FileFacts
from fsm.audit.reading.piece import PieceSummary
from fsm.audit.reading.records import GroupRecords, Source, spool
from fsm.audit.reading.routing import BY_GROUP, COORDINATOR, FACTS, OF_FILE, SUMMARY, Sent, in_order_of, values_of
from fsm.audit.rows import Seen

FURTHEST_ZONE_MS = 14 * 3_600_000
"""How far the time of a zone is ahead of UTC at most."""
LATE_MS = 60_000
"""A line of a member may come so much later, by its time, than one that follows it."""
SETTLE_MS = 900_000
"""What is over for so long is judged no more, nor what ended before it twice as long ago."""


@dataclass(slots=True)
class FileOfGroup:
    """What one file tells of a group."""

    file_facts: FileFacts
    gone: tuple[int, ...]
    settled: int = 0
    """What stands from here on, in bytes, is replaced when the file is read on."""
    facts: list[Facts] = field(default_factory=list)
    updated_ms: dict[str, int] = field(default_factory=dict)
    """When something new of a client id came last, by the clock of who follows."""

    def rename(self, name: str) -> FileOfGroup:
        return replace(self, facts=[one._replace(file=name) for one in self.facts])

    def hear(self, facts: list[Facts], unknown_ms: int, now_ms: int) -> None:
        """Notes of whom `facts`, which take the place of those before, tell something new: a later line than before,
        or than `unknown_ms` where nothing of them is kept."""
        before = _newest(self.facts)
        new = {client: now_ms for client, ms in _newest(facts).items() if ms > before.get(client, unknown_ms)}
        self.updated_ms |= new


def _newest(facts: Iterable[Facts]) -> dict[str, int]:
    """The last time of each client id."""
    found: dict[str, int] = {}
    for one in facts:
        found[one.client_id] = max(one.last_ms, found.get(one.client_id, 0))
    return found


@dataclass(slots=True)
class GroupState:
    """One group; or one file, under its own key, with what was not understood in it."""

    key: str
    files: dict[str, FileOfGroup] = field(default_factory=dict)
    members: list[MemberState] = field(default_factory=list)
    kept: dict[Source, list[Kept]] = field(default_factory=dict)
    """Records of members that may be needed again."""
    coordinators: list[Kept] = field(default_factory=list)
    past: bytes = b""
    """Rows of members that are over and count still."""
    versions: Versions = field(default_factory=dict)
    summary: list[Any] = field(default_factory=list)
    """Of the file, as plain values."""
    notes: list[str] = field(default_factory=list)
    """What happened to the file while it was followed."""
    expired_ms: int = 0
    """What ended before is judged no more."""
    judged_ms: dict[str, int] = field(default_factory=dict)
    """The same for findings about a member; for others under the empty name."""
    settled_ms: int = 0
    """Up to when rows were dropped."""
    names: int = 0
    """How many names of topics there were."""
    touched: dict[Source, int] = field(default_factory=dict)
    """Since when records of a source changed in this batch."""

    def take(self, rows: Iterable[Sent], now_ms: int) -> None:
        """Takes what was sent in one batch; `now_ms` is the clock of who follows.

        What was there before it was followed comes with the first batch, and tells of nobody that it still sends.
        """
        is_first = not self.files
        about: list[tuple[Sent, list[Any]]] = []
        rest: list[Sent] = []
        for row in in_order_of(rows, BY_GROUP):
            if row.kind == SUMMARY:
                note, *self.summary = values_of(row)
                self.notes += [note] if note else []
            elif row.kind == FACTS:
                about.append((row, values_of(row)))
            else:
                rest.append(row)
        self._rename({values[0]: row.chunk.file for row, values in about if values[0]})
        for row, (_, file_facts, gone, settled, *facts) in about:
            known = self.files.setdefault(row.chunk.file, FileOfGroup(FileFacts(*file_facts), ()))
            if known.gone != tuple(gone):
                self._judge_anew(stem(row.chunk.file))
            known.file_facts, known.gone, known.settled = FileFacts(*file_facts), tuple(gone), settled
            new_facts = [Facts(*one) for one in facts]
            if not is_first:
                known.hear(new_facts, self.expired_ms, now_ms)
            known.facts = new_facts
            self._replace(row.chunk.file, row.chunk.piece)
        for row in rest:
            one = keep(row.chunk, is_open=row.chunk.piece >= self.files[row.chunk.file].settled)
            if row.kind == COORDINATOR:
                self.coordinators.append(one)
            else:
                self._touch(one)
                self.kept.setdefault(row.chunk.source, []).append(one)
        self._drop_empty()

    def _judge_anew(self, name: str) -> None:
        """Members of whose log, by its name without rotation, another file is missing now, or none any more."""
        for member in self.members:
            if any(stem(file) == name for _, _, file in member.sources):
                member.start_again()

    def _touch(self, one: Kept) -> None:
        source, first_ms = one.chunk.source, one.chunk.first_ms
        self.touched[source] = min(first_ms, self.touched.get(source, first_ms))

    def _replace(self, file: str, since: int) -> None:
        """What was sent of a file from some byte on is sent again."""
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
        """Drops what files tell of sources that have expired, and files that tell nothing."""
        there = {source for member in self.members for source in member.sources}
        there |= {source for source, own in self.kept.items() if own}
        for one in self.files.values():
            one.facts = [fact for fact in one.facts if fact.last_ms >= self.expired_ms or fact[:3] in there]
            one.updated_ms = {name: one.updated_ms[name] for name in _newest(one.facts) if name in one.updated_ms}
        saying = {one.chunk.file for one in self.coordinators}
        self.files = {name: one for name, one in sorted(self.files.items()) if one.facts or name in saying}
        self.kept = {source: own for source, own in sorted(self.kept.items()) if own}

    def _rename(self, names: Mapping[str, str]) -> None:
        names = {old: new for old, new in names.items() if old in self.files}
        if not names:
            return
        for name in sorted(set(names.values()) & self.files.keys() - names.keys()):
            self._replace(name, -1)  # the file that has the name from here on takes its place
        moved = {new: self.files.pop(old).rename(new) for old, new in names.items()}
        self.files |= moved
        kept: dict[Source, list[Kept]] = {}
        for own in self.kept.values():
            for one in _rename(own, names):
                kept.setdefault(one.chunk.source, []).append(one)
        self.kept, self.coordinators = kept, _rename(self.coordinators, names)
        for member in self.members:
            member.rename(names)
        self.past = blobs.rename(self.past, names) if self.past else b""

    # -- judgement ----------------------------------------------------------------------------------------------

    def audit(self, limits: Limits, names: Mapping[str, str], observer: Observer, late_ms: int = LATE_MS) -> GroupAudit:
        """The judgement of the group; `names` are those of topics by their ids."""
        facts = [fact for one in self.files.values() for fact in one.facts]
        lines: blobs.Lines = {}
        keys = self._find_members(identify(facts), lines)
        gone: Missing = {stem(name): frozenset(one.gone) for name, one in self.files.items() if one.gone}
        follow = Follow(partial(follower_of, limits=limits, gone=gone), gone, names, late_ms)
        for number, member in enumerate(self.members):
            if member.nameless and len(names) != self.names:
                member.start_again()
            since = [self.touched[source] for source in member.sources if source in self.touched]
            if since and min(since) <= member.dropped_ms and member.is_set_back(self.kept):
                self.members.append(member)
                member = self.members[number] = member.begin_anew(self.kept, lines)  # noqa: PLW2901
            if since or (member.sources and not member.rest):
                member.take(self.kept, min(since, default=member.dropped_ms + 1), follow, lines)
                member.drop(self.kept)
        self.names, self.touched = len(names), {}
        with spool() as held:
            records = GroupRecords(held)
            for one in self.coordinators:
                records.add(one.chunk._replace(packed=zlib.decompress(one.chunk.packed)), coordinator=True)
            return judge_rows(
                self.key,
                self._rows(observer, lines),
                limits,
                keys=keys,
                facts=facts,
                records=records,
                names=names,
                files={name: one.file_facts for name, one in self.files.items()},
                observer=observer,
                known_lines=lines,
            )

    def _rows(self, observer: Observer, lines: blobs.Lines) -> Iterator[Any]:
        """What members told, and who observes it sees the rest."""
        if self.past:
            yield from blobs.load(self.past, lines)
        for member in self.members:
            for item in member.items(lines):
                if isinstance(item, Seen):
                    observer.see(member.key.member, item)
                else:
                    yield item

    def _find_members(self, keys: Mapping[Source, Key], lines: blobs.Lines) -> dict[Source, Key]:
        """Finds the members to whom the records belong, and by which keys.

        A member some of whose records were dropped keeps its name. Where it turns out to be several, or a part of
        another one, what it told stands, and others begin where it was.
        """
        owned: dict[Key, dict[Source, int]] = {}
        for source, key in keys.items():
            owned.setdefault(key._replace(rank=0), {})[source] = key.rank
        homes = [
            sorted({keys[source]._replace(rank=0) for source in one.sources if source in keys}) for one in self.members
        ]
        claims = [key for own, one in zip(homes, self.members, strict=True) if not one.is_whole for key in own]
        going: dict[Key, MemberState] = {}
        ended: list[MemberState] = []
        began_ms: dict[Key, int] = {}
        for own, one in zip(homes, self.members, strict=True):
            if one.is_whole:
                if own == [one.key] and one.key not in claims:
                    going[one.key] = one
            elif len(own) == 1 and claims.count(own[0]) == 1 and own[0].shared == one.key.shared:
                going[own[0]] = one
            else:
                for key in own:
                    began_ms[key] = max(one.reached_ms, began_ms.get(key, -1))
                if one.sources and one.states:
                    one.end(lines)
                if not one.sources:
                    ended.append(one)
        for key, sources in owned.items():
            one = going.setdefault(key, MemberState(key, sources, dropped_ms=began_ms.get(key, -1)))
            if one.is_whole and any(sources.get(source) != rank for source, rank in one.sources.items()):
                one.start_again()
            one.sources = sources
        self.members = sorted([*ended, *going.values()], key=lambda one: (one.key, not one.sources))
        named = {key: one.key for key, one in going.items()}
        return {source: named[key._replace(rank=0)]._replace(rank=key.rank) for source, key in keys.items()}

    def tell(self, found: Iterable[Finding], close_ms: int, now_ms: int) -> list[Change]:
        """What changed in what is wrong. What ended `close_ms` before `reached_ms` is closed.

        What ended before anything expired stands as it was told last.
        """
        done = {key: one for key, one in self.versions.items() if self._is_done(one.finding)}
        open_ones = {key: one for key, one in self.versions.items() if key not in done}
        still = (one for one in found if not self._is_done(one))
        self.versions, changes = compare(open_ones, still, self.reached_ms(now_ms) - close_ms)
        return [*changes, *(one.close() for one in done.values() if one.status is not Status.CLOSED)]

    def _is_done(self, found: Finding) -> bool:
        """Whether it was over before what is judged still."""
        return found.end_ms < max(self.expired_ms, self.judged_ms.get(found.member, 0))

    def end(self) -> list[Change]:
        """What is closed when nothing more is expected."""
        return [one.close() for one in self.versions.values() if one.status is not Status.CLOSED]

    def expire(self, audit: GroupAudit, expire_ms: int, now_ms: int) -> None:
        """Lets go of members that have said nothing for so long while others did, and on whom no finding rests that
        is not over; and of what coordinators said before.

        The clock is `reached_ms`, and one member that is ahead of all others does not move it. It waits for members
        that still send, however late their clocks are: they are not let go, nor is what is found of them.
        """
        last, sending = self._last(audit, now_ms - expire_ms // 2)
        clock_ms = self._clock_ms(last, now_ms)
        # What the absence of their records would change is over soon after they went: half the time is left for that.
        judged_ms = min([clock_ms - expire_ms // 2, *(last[member] for member in sending)])
        horizon_ms = judged_ms - expire_ms // 2
        gone = {member for member, ms in last.items() if ms < horizon_ms}
        rests = {line.file for one in audit.findings if one.end_ms >= judged_ms for line in one.evidence}
        gone -= {key.member for (*_, file), key in audit.members.items() if file in rests}
        over_ms = clock_ms - expire_ms
        old = {member for member, ms in last.items() if ms < over_ms}
        for one in self.files.values():  # those of files of long ago go, while their member lives
            one.facts = [
                fact
                for fact in one.facts
                if fact.last_ms >= over_ms
                or self.kept.get(fact[:3])
                or fact[:3] not in audit.members
                or audit.members[fact[:3]].member in old
            ]
        if gone:
            over = {source for one in self.members if one.key.member in gone for source in one.sources}
            self.members = [one for one in self.members if one.key.member not in gone]
            self.kept = {source: own for source, own in self.kept.items() if source not in over}
            self.expired_ms = max(self.expired_ms, judged_ms)
            self._drop_empty()

    def settle(self, audit: GroupAudit, settle_ms: int, now_ms: int) -> None:
        """Lets go of what is over for `settle_ms`, and of rows that ended as long before that.

        Members that send are waited for, unless they are far behind: those are judged by their own clocks.
        """
        last, sending = self._last(audit, now_ms - settle_ms)
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
        still = settling.that_count(old, audit.rows)
        self.past = blobs.dump(still, lines) if still else b""

    def _last(self, audit: GroupAudit, since_ms: int) -> tuple[dict[str, int], set[str]]:
        """When each member said something last, and those of whom something new was heard since a time."""
        last: dict[str, int] = {}
        sending: set[str] = set()
        for one in self.files.values():
            for fact in one.facts:
                key = audit.members.get(fact[:3])
                if key is not None:
                    last[key.member] = max(fact.last_ms, last.get(key.member, 0))
                    if one.updated_ms.get(fact.client_id, 0) >= max(1, since_ms):
                        sending.add(key.member)
        return last, sending

    def _clock_ms(self, last: Mapping[str, int], now_ms: int) -> int:
        """The clock of the group, which no member that is ahead of all others moves alone."""
        return min([self.reached_ms(now_ms), *sorted(last.values())[-2:]])

    @property
    def is_file(self) -> bool:
        return self.key.startswith(OF_FILE)

    def of_file(self) -> list[Finding]:
        """What is wrong with the file, where it is one."""
        pieces = [PieceSummary(*self.summary)] if self.summary else []
        found = list(unparsed.report_file(pieces)) if pieces else []
        file, at_ms = self.key.removeprefix(OF_FILE), max((one.last_ms or 0 for one in pieces), default=0)
        return with_ids([*found, *(unparsed.report_event(file, at_ms, note) for note in self.notes)])

    def reached_ms(self, now_ms: int) -> int:
        """The time of the newest record, but none after `now_ms`, the clock of who follows: some clocks are ahead.

        Where those of most are ahead by no more than a time zone can be, the lines tell the time of another zone, and
        it is theirs. 0 where there is no record.
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
"""A member that sends and is behind the others by more than so many times `settle_ms` is not waited for."""


def _rename(own: Iterable[Kept], names: Mapping[str, str]) -> list[Kept]:
    return [one._replace(chunk=one.chunk._replace(file=names.get(one.chunk.file, one.chunk.file))) for one in own]
