"""Routes the content of pieces of files to groups: plain functions from rows to rows, for Spark tasks and for loops."""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import IO, Any, NamedTuple

from fsm.audit.hygiene.identity import Facts, by_home, find_homeless, find_homes, merge
from fsm.audit.reading import unparsed
from fsm.audit.reading.certainty import FileFacts
from fsm.audit.reading.piece import PieceRecords, PieceSummary
from fsm.audit.reading.records import Chunk, GroupRecords, Source

SUMMARY, FACTS, MEMBER, COORDINATOR = range(4)
"""Kinds of rows: summary of a piece; facts about its members; chunk of members' records; chunk of a coordinator's."""
OF_FILE = "\0"
"""Prefix of the key of rows that belong to no group and are counted by file."""
BY_FILE = ("file", "kind", "piece")
"""The order in which `route` reads rows."""
BY_GROUP = ("key", "kind", "file", "piece", "group", "client_id", "program", "first_ms", "first_offset")
"""The order in which groups receive rows, the same in every run."""


class Sent(NamedTuple):
    """A row from the first stage to the second. Its key is a group, `OF_FILE` and a file, or empty."""

    key: str
    kind: int
    chunk: Chunk
    """For other kinds than records: the file, the piece, and marshalled values."""


def in_order_of(rows: Iterable[Sent], order: Sequence[str]) -> list[Sent]:
    """The rows sorted by these columns, as Spark sorts them."""
    return sorted(rows, key=attrgetter(*(name if name in Sent._fields else f"chunk.{name}" for name in order)))


def send(found: PieceRecords) -> Iterator[Sent]:
    """The content of a piece as rows keyed by its file."""
    file, piece = found.summary.file, found.summary.piece
    yield row_of(file, SUMMARY, file, piece, found.summary.values())
    yield row_of(file, FACTS, file, piece, list(map(tuple, found.facts)))
    yield from (Sent(file, MEMBER, chunk) for chunk in found.members)
    yield from (Sent(file, COORDINATOR, chunk) for chunk in found.coordinators)


def row_of(key: str, kind: int, file: str, piece: int, values: list[Any]) -> Sent:
    """A row with plain values."""
    return Sent(key, kind, Chunk("", "", file, "", piece, 0, 0, 0, 0, marshal.dumps(values)))


def values_of(sent: Sent) -> list[Any]:
    values: list[Any] = marshal.loads(sent.chunk.packed)  # noqa: S302  written by a task of this audit
    return values


def summary_of(sent: Sent) -> PieceSummary:
    return PieceSummary(*values_of(sent))


def route(rows: Iterable[Sent], min_understood: float) -> Iterator[Sent]:
    """The rows of whole files, sorted by `BY_FILE`, keyed by their groups.

    If less than the share `min_understood` of a client's lines was understood, `FileFacts.too_little` names the client.
    """
    for file, own in groupby(rows, key=attrgetter("chunk.file")):
        pieces: list[PieceSummary] = []
        lines, lines_before = 0, dict[int, int]()
        where: Mapping[Source, str] = {}
        for kind, some in groupby(own, key=attrgetter("kind")):
            if kind == SUMMARY:
                for row in some:
                    pieces.append(summary_of(row))
                    lines_before[row.chunk.piece] = lines
                    lines += pieces[-1].lines
                    yield row._replace(key=OF_FILE + file)
            elif kind == FACTS:
                facts = merge(Facts(*values) for row in some for values in values_of(row))
                where = find_homes(facts)
                about_file = describe_file(pieces, min_understood)
                for group, its in sorted(by_home(facts, where).items()):
                    about_group = about_file.for_clients(one.client_id for one in its)
                    yield row_of(group, FACTS, file, 0, [tuple(about_group), *map(tuple, its)])
                if homeless := find_homeless(facts, where):
                    yield row_of(OF_FILE + file, FACTS, file, 0, list(map(tuple, homeless)))
            else:
                for row in some:
                    chunk = row.chunk._replace(lines_before=lines_before[row.chunk.piece])
                    home = chunk.group if kind == COORDINATOR else where.get(chunk.source, "")
                    yield Sent(home, kind, chunk)


def describe_file(pieces: Sequence[PieceSummary], min_understood: float) -> FileFacts:
    lost = sorted({name for one in pieces for name in one.lost})
    doubted = (one.client for one in unparsed.find_too_little(pieces, min_understood))
    since: dict[str, int] = {}
    for client_id, ms in (noted for one in pieces for noted in one.missed_since.items()):
        since[client_id] = min(ms, since.get(client_id, ms))
    return FileFacts(sum(one.missed for one in pieces), tuple(lost), tuple(doubted), tuple(sorted(since.items())))


class Received(NamedTuple):
    """What was read of one group."""

    records: GroupRecords
    facts: Sequence[Facts]
    """About its members."""
    files: Mapping[str, FileFacts]


def receive(rows: Iterable[Sent], held: IO[bytes]) -> Received:
    """The content of the rows of one group; its records are stored in `held`."""
    records = GroupRecords(held)
    facts: list[Facts] = []
    files: dict[str, FileFacts] = {}
    for row in rows:
        if row.kind == FACTS:
            about_file, *about_members = values_of(row)
            facts += [Facts(*values) for values in about_members]
            files[row.chunk.file] = FileFacts(*about_file)
        else:
            records.add(row.chunk, coordinator=row.kind == COORDINATOR)
    return Received(records, facts, files)
