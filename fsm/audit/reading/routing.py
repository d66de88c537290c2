"""From what pieces of files hold to the groups they are about: plain functions from rows to rows.

They run in the tasks of Spark, in a loop, and in memory alike.
"""

from __future__ import annotations

import marshal
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from operator import attrgetter
from typing import IO, Any, NamedTuple

from fsm.audit.hygiene.identity import Facts, homes, merge
from fsm.audit.reading import unparsed
from fsm.audit.reading.certainty import FileFacts
from fsm.audit.reading.piece import PieceRecords, PieceSummary
from fsm.audit.reading.records import Chunk, GroupRecords, Source

SUMMARY, FACTS, MEMBER, COORDINATOR = range(4)
"""What is sent: the summary of a piece; which members it tells of; a chunk of their records; one of a coordinator's."""
OF_FILE = "\0"
"""Begins the key of what is sent to nobody's group but counted by file."""
BY_FILE = ("file", "kind", "piece")
"""The order in which what is sent by way of whole files is sent on."""
BY_GROUP = ("key", "kind", "file", "piece", "group", "client_id", "first_ms", "first_offset")
"""The order in which groups get what was sent: the same in every run."""


class Sent(NamedTuple):
    """What the first stage sends to the second, under a key: a group, a file, or nobody's."""

    key: str
    kind: int
    chunk: Chunk
    """Where it is of another kind than records, the file and the piece that it is about, and its values."""


def in_order_of(rows: Iterable[Sent], order: Sequence[str]) -> list[Sent]:
    """The rows as Spark sorts them by these columns."""
    return sorted(rows, key=attrgetter(*(name if name in Sent._fields else f"chunk.{name}" for name in order)))


def send(found: PieceRecords) -> Iterator[Sent]:
    """What a piece holds, to its file."""
    file, piece = found.summary.file, found.summary.piece
    yield to_file(SUMMARY, file, piece, [getattr(found.summary, f.name) for f in fields(PieceSummary)])
    yield to_file(FACTS, file, piece, list(map(tuple, found.facts)))
    yield from (Sent(file, MEMBER, chunk) for chunk in found.members)
    yield from (Sent(file, COORDINATOR, chunk) for chunk in found.coordinators)


def to_file(kind: int, file: str, piece: int, values: Sequence[Any]) -> Sent:
    plain = [dict(value) if isinstance(value, dict) else value for value in values]
    return Sent(file, kind, Chunk("", "", file, piece, 0, 0, 0, 0, marshal.dumps(plain)))


def values_of(sent: Sent) -> list[Any]:
    values: list[Any] = marshal.loads(sent.chunk.packed)  # noqa: S302  written by a task of this audit
    return values


def summary_of(sent: Sent) -> PieceSummary:
    return PieceSummary(*values_of(sent))


def route(rows: Iterable[Sent], min_understood: float) -> Iterator[Sent]:
    """What was sent to whole files, sorted by file, kind and piece, is sent on to the groups it is about.

    Below the share `min_understood` of what a client says, findings that rest on the file are doubted.
    """
    for file, own in groupby(rows, key=attrgetter("chunk.file")):
        pieces: list[PieceSummary] = []
        lines, lines_before = 0, dict[int, int]()
        where: Mapping[Source, tuple[str, str]] = {}
        for kind, some in groupby(own, key=attrgetter("kind")):
            if kind == SUMMARY:
                for row in some:
                    pieces.append(summary_of(row))
                    lines_before[row.chunk.piece] = lines
                    lines += pieces[-1].lines
                    yield row._replace(key=OF_FILE + file)
            elif kind == FACTS:
                facts = merge(Facts(*values) for row in some for values in values_of(row))
                where = homes(facts)
                yield from _send_facts(facts, where, worth_of(pieces, min_understood))
            else:
                for row in some:
                    chunk = row.chunk._replace(lines_before=lines_before[row.chunk.piece])
                    home = chunk.group if kind == COORDINATOR else where.get(chunk.source, ("", ""))[0]
                    yield Sent(home, kind, chunk)


def worth_of(pieces: Sequence[PieceSummary], min_understood: float) -> FileFacts:
    lost = sorted({name for one in pieces for name in one.lost})
    doubted = (one.client for one in unparsed.too_little(pieces, min_understood))
    missed, named = sum(one.missed for one in pieces), sum((Counter(one.missed_of) for one in pieces), Counter[str]())
    clients = sorted({*named, *([""] if missed > named.total() else [])})
    return FileFacts(missed, tuple(lost), tuple(doubted), tuple(clients))


def _send_facts(facts: Iterable[Facts], where: Mapping[Source, tuple[str, str]], worth: FileFacts) -> Iterator[Sent]:
    by_home: dict[str, list[Facts]] = {}
    for one in facts:
        home = where.get((one.group, one.client_id, one.file))
        if home is not None:
            by_home.setdefault(home[0], []).append(one)
    for home_group, own in sorted(by_home.items()):
        about = worth.about(one.client_id for one in own)
        yield to_file(FACTS, own[0].file, 0, [tuple(about), *map(tuple, own)])._replace(key=home_group)


def receive(rows: Iterable[Sent], held: IO[bytes]) -> tuple[GroupRecords, list[Facts], dict[str, FileFacts]]:
    """What was sent to one group: its records, which are held in a file; who tells of it; what the files are worth."""
    records = GroupRecords(held)
    facts: list[Facts] = []
    files: dict[str, FileFacts] = {}
    for row in rows:
        if row.kind == FACTS:
            worth, *facts_of_file = values_of(row)
            facts += [Facts(*values) for values in facts_of_file]
            files[row.chunk.file] = FileFacts(*worth)
        else:
            records.add(row.chunk, coordinator=row.kind == COORDINATOR)
    return records, facts, files
