"""What is kept of one group: the records that files told it, packed, and the findings as they were told last.

A group is judged again when something new came, from what is kept.
"""

from __future__ import annotations

import marshal
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fsm.audit import unparsed
from fsm.audit.certainty import FileFacts
from fsm.audit.findings import Finding, with_ids
from fsm.audit.group_audit import GroupAudit, Observer, audit_group
from fsm.audit.hygiene.identity import Facts
from fsm.audit.hygiene.rotation import Missing, stem
from fsm.audit.limits import Limits
from fsm.audit.live.changes import Change, Status, Told, compare, from_values, to_values
from fsm.audit.reading import PieceSummary
from fsm.audit.records import TIME, Chunk, GroupRecords, spool, unpack
from fsm.audit.routing import BY_GROUP, COORDINATOR, FACTS, OF_FILE, SUMMARY, Sent, in_order_of, values_of

FURTHEST_ZONE_MS = 14 * 3_600_000
"""How far the time of a zone is ahead of UTC at most."""


@dataclass(slots=True)
class FileOfGroup:
    """What one file tells of a group."""

    worth: FileFacts
    gone: tuple[int, ...]
    facts: list[Facts] = field(default_factory=list)
    chunks: list[tuple[int, Chunk]] = field(default_factory=list)
    """Of records, with who tells them: members or coordinators."""
    heard: dict[str, int] = field(default_factory=dict)
    """When something new of a client id came last, by the clock of who follows."""

    def renamed(self, name: str) -> FileOfGroup:
        return replace(
            self,
            facts=[one._replace(file=name) for one in self.facts],
            chunks=[(kind, one._replace(file=name)) for kind, one in self.chunks],
        )

    def hear(self, facts: list[Facts], unknown_ms: int, now_ms: int) -> None:
        """Notes of whom `facts`, which take the place of those before, tell something new: a later line than before,
        or than `unknown_ms` where nothing of them is kept."""
        before = _newest(self.facts)
        new = {client: now_ms for client, ms in _newest(facts).items() if ms > before.get(client, unknown_ms)}
        self.heard |= new


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
    told: Told = field(default_factory=dict)
    summary: list[Any] = field(default_factory=list)
    """Of the file, as plain values."""
    notes: list[str] = field(default_factory=list)
    """What happened to the file while it was followed."""
    expired_ms: int = 0
    """What ended before is judged no more."""

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
        for row, (_, worth, gone, *facts) in about:
            known = self.files.setdefault(row.chunk.file, FileOfGroup(FileFacts(*worth), ()))
            known.worth, known.gone = FileFacts(*worth), tuple(gone)
            told = [Facts(*one) for one in facts]
            if not is_first:
                known.hear(told, self.expired_ms, now_ms)
            known.facts = told
            known.chunks = [one for one in known.chunks if one[1].piece < row.chunk.piece]
        for row in rest:
            self.files[row.chunk.file].chunks.append((row.kind, row.chunk))
        self._drop_empty()

    def _drop_empty(self) -> None:
        """Drops what files tell of sources that have expired, and files that tell nothing."""
        for one in self.files.values():
            there = {chunk.source for _, chunk in one.chunks}
            one.facts = [fact for fact in one.facts if fact.last_ms >= self.expired_ms or fact[:3] in there]
            one.heard = {name: one.heard[name] for name in _newest(one.facts) if name in one.heard}
        self.files = {name: one for name, one in sorted(self.files.items()) if one.facts or one.chunks}

    def _rename(self, names: Mapping[str, str]) -> None:
        moved = {new: self.files.pop(old).renamed(new) for old, new in names.items() if old in self.files}
        self.files |= moved

    def audit(self, limits: Limits, names: Mapping[str, str], observer: Observer) -> GroupAudit:
        """The judgement of the group; `names` are those of topics by their ids."""
        with spool() as held:
            records = GroupRecords(held)
            for one in self.files.values():
                for kind, chunk in one.chunks:
                    records.add(chunk, coordinator=kind == COORDINATOR)
            facts = [fact for one in self.files.values() for fact in one.facts]
            files = {name: one.worth for name, one in self.files.items()}
            return audit_group(
                self.key, facts, records, limits, gone=self._gone, names=names, files=files, observer=observer
            )

    @property
    def _gone(self) -> Missing:
        return {stem(name): frozenset(one.gone) for name, one in self.files.items() if one.gone}

    def tell(self, found: Iterable[Finding], close_ms: int, now_ms: int) -> list[Change]:
        """What changed in what is wrong. What ended `close_ms` before `reached_ms` is closed.

        What ended before anything expired stands as it was told last.
        """
        done = {key: one for key, one in self.told.items() if one.finding.end_ms < self.expired_ms}
        told = {key: one for key, one in self.told.items() if key not in done}
        still = (one for one in found if one.end_ms >= self.expired_ms)
        self.told, changes = compare(told, still, self.reached_ms(now_ms) - close_ms)
        return [*changes, *(one.closed() for one in done.values() if one.status is not Status.CLOSED)]

    def end(self) -> list[Change]:
        """What is closed when nothing more is expected."""
        return [one.closed() for one in self.told.values() if one.status is not Status.CLOSED]

    def expire(self, audit: GroupAudit, expire_ms: int, now_ms: int) -> None:
        """Lets go of members that have said nothing for so long while others did, and on whom no finding rests that
        is not over; and of what coordinators said before.

        The clock is `reached_ms`, and one member that is ahead of all others does not move it. It waits for members
        that still send, however late their clocks are: they are not let go, nor is what is found of them.
        """
        last: dict[str, int] = {}
        sending: set[str] = set()
        for one in self.files.values():
            for fact in one.facts:
                key = audit.members.get(fact[:3])
                if key is not None:
                    last[key.member] = max(fact.last_ms, last.get(key.member, 0))
                    if one.heard.get(fact.client_id, 0) >= max(1, now_ms - expire_ms // 2):
                        sending.add(key.member)
        clock_ms = min([self.reached_ms(now_ms), *sorted(last.values())[-2:]])
        # What the absence of their records would change is over soon after they went: half the time is left for that.
        judged_ms = min([clock_ms - expire_ms // 2, *(last[member] for member in sending)])
        horizon_ms = judged_ms - expire_ms // 2
        gone = {member for member, ms in last.items() if ms < horizon_ms}
        rests = {line.file for one in audit.findings if one.end_ms >= judged_ms for line in one.evidence}
        gone -= {key.member for (*_, file), key in audit.members.items() if file in rests}
        dropped = 0
        for one in self.files.values():
            kept = [known for known in one.chunks if not self._is_over(*known, gone, audit, horizon_ms)]
            dropped += len(one.chunks) - len(kept)
            one.chunks = kept
        if dropped:
            self.expired_ms = max(self.expired_ms, judged_ms)
            self._drop_empty()

    @staticmethod
    def _is_over(kind: int, chunk: Chunk, gone: Container[str], audit: GroupAudit, horizon_ms: int) -> bool:
        if kind == COORDINATOR:
            return chunk.first_ms < horizon_ms and unpack(chunk.packed)[-1][TIME] < horizon_ms
        key = audit.members.get(chunk.source)
        return key is not None and key.member in gone

    @property
    def is_file(self) -> bool:
        return self.key.startswith(OF_FILE)

    def of_file(self) -> list[Finding]:
        """What is wrong with the file, where it is one."""
        pieces = [PieceSummary(*self.summary)] if self.summary else []
        found = list(unparsed.of_file(pieces)) if pieces else []
        file, at_ms = self.key.removeprefix(OF_FILE), max((one.last_ms or 0 for one in pieces), default=0)
        return with_ids([*found, *(unparsed.happened(file, at_ms, note) for note in self.notes)])

    def reached_ms(self, now_ms: int) -> int:
        """The time of the newest record, but none after `now_ms`, the clock of who follows: some clocks are ahead.

        Where those of most are ahead by no more than a time zone can be, the lines tell the time of another zone, and
        it is theirs. 0 where there is no record.
        """
        times = sorted(fact.last_ms for one in self.files.values() for fact in one.facts)
        if not times:
            return 0
        middle_ms = times[len(times) // 2]
        if now_ms < middle_ms <= now_ms + FURTHEST_ZONE_MS:
            return middle_ms
        return min(times[-1], now_ms)

    def dump(self) -> bytes:
        """As plain values."""
        files = [
            (
                name,
                tuple(one.worth),
                one.gone,
                list(map(tuple, one.facts)),
                [(kind, tuple(chunk)) for kind, chunk in one.chunks],
                one.heard,
            )
            for name, one in self.files.items()
        ]
        told = list(map(to_values, self.told.values()))
        return zlib.compress(marshal.dumps((self.key, files, told, self.summary, self.notes, self.expired_ms)), 1)

    @classmethod
    def load(cls, data: bytes) -> GroupState:
        """What `dump` wrote."""
        values = marshal.loads(zlib.decompress(data))  # noqa: S302  written by `dump` of this audit
        key, files, told, summary, notes, expired_ms = values
        changes = map(from_values, told)
        return cls(key, dict(_files(files)), {one.id: one for one in changes}, summary, notes, expired_ms)


def _files(values: Iterable[Any]) -> Iterator[tuple[str, FileOfGroup]]:
    for name, worth, gone, facts, chunks, heard in values:
        yield (
            name,
            FileOfGroup(
                FileFacts(*worth),
                tuple(gone),
                [Facts(*one) for one in facts],
                [(kind, Chunk(*chunk)) for kind, chunk in chunks],
                heard,
            ),
        )
