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


@dataclass(slots=True)
class FileOfGroup:
    """What one file tells of a group."""

    worth: FileFacts
    gone: tuple[int, ...]
    facts: list[Facts] = field(default_factory=list)
    chunks: list[tuple[int, Chunk]] = field(default_factory=list)
    """Of records, with who tells them: members or coordinators."""

    def renamed(self, name: str) -> FileOfGroup:
        return replace(
            self,
            facts=[one._replace(file=name) for one in self.facts],
            chunks=[(kind, one._replace(file=name)) for kind, one in self.chunks],
        )


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

    def take(self, rows: Iterable[Sent]) -> None:
        """Takes what was sent in one batch."""
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
            known.facts = [Facts(*one) for one in facts]
            known.chunks = [one for one in known.chunks if one[1].piece < row.chunk.piece]
        for row in rest:
            self.files[row.chunk.file].chunks.append((row.kind, row.chunk))
        self._drop_empty()

    def _drop_empty(self) -> None:
        """Drops what files tell of sources that have expired, and files that tell nothing."""
        for one in self.files.values():
            there = {chunk.source for _, chunk in one.chunks}
            one.facts = [fact for fact in one.facts if fact.last_ms >= self.expired_ms or fact[:3] in there]
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

    def tell(self, found: Iterable[Finding], close_ms: int) -> list[Change]:
        """What changed in what is wrong. What ended `close_ms` before the newest line is closed.

        What ended before anything expired stands as it was told last.
        """
        done = {key: one for key, one in self.told.items() if one.finding.end_ms < self.expired_ms}
        told = {key: one for key, one in self.told.items() if key not in done}
        still = (one for one in found if one.end_ms >= self.expired_ms)
        self.told, changes = compare(told, still, self.newest_ms - close_ms)
        return [*changes, *(one.closed() for one in done.values() if one.status is not Status.CLOSED)]

    def end(self) -> list[Change]:
        """What is closed when nothing more is expected."""
        return [one.closed() for one in self.told.values() if one.status is not Status.CLOSED]

    def expire(self, audit: GroupAudit, expire_ms: int) -> None:
        """Lets go of members that have said nothing for so long while others did, and on whom no finding rests that
        is not over; and of what coordinators said before.

        The clock is that of the lines. One member whose clock is ahead of all others does not move it.
        """
        last: dict[str, int] = {}
        for fact in (fact for one in self.files.values() for fact in one.facts):
            key = audit.members.get(fact[:3])
            if key is not None:
                last[key.member] = max(fact.last_ms, last.get(key.member, 0))
        reached_ms = min(sorted(last.values())[-2:], default=0)
        horizon_ms = reached_ms - expire_ms
        gone = {member for member, ms in last.items() if ms < horizon_ms}
        # What the absence of their records would change is over soon after they went: half the time is left for that.
        judged_ms = reached_ms - expire_ms // 2
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

    @property
    def newest_ms(self) -> int:
        """The time of the newest record; 0 where there is none."""
        return max((fact.last_ms for one in self.files.values() for fact in one.facts), default=0)

    def dump(self) -> bytes:
        """As plain values."""
        files = [
            (name, tuple(one.worth), one.gone, list(map(tuple, one.facts)), [(k, tuple(c)) for k, c in one.chunks])
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
    for name, worth, gone, facts, chunks in values:
        yield (
            name,
            FileOfGroup(
                FileFacts(*worth),
                tuple(gone),
                [Facts(*one) for one in facts],
                [(kind, Chunk(*chunk)) for kind, chunk in chunks],
            ),
        )


class Nobody:
    """Observes nothing."""

    def see(self, _member: str, _seen: object) -> None:
        pass

    def see_transition(self, _transition: object) -> None:
        pass
