"""Decides which member a record belongs to.

A member is (group, client id), as long as that is one process at a time. Several processes of a group may have the same
client id: Java clients without `client.id` are all called `consumer-<group>-1`. Then they are distinguished by log
file, unless they share a file too. One process may have several files: rotated ones, or lines that a collector spread
over files.

`identify` decides this from a few facts per (group, client id, file, member id), which can be aggregated on a cluster:

1. A record without a group belongs to the only group of its client id in its file, else to none; one without a client
   id to the only member that writes to its file.
2. Two member ids of one (group, client id) in use at the same time are two processes. Consecutive ids may be one
   process (a classic member gets a new id when it rejoins).
3. Files are one process if they share a member id, or if they are rotations of one name and do not overlap in time.
   Sets of files that are several processes by this rule, and overlap in time, are several members: the file becomes
   part of the member's name. Sets that do not overlap are one member that was restarted; all files are one member if
   only one process was ever started and no two ids are in use at the same time. Clients that print no client id are
   called by the name of the client: there, each set is a member.
4. Two processes at the same time in one file, or in one set of files that share ids, share their client id:
   `shared_client_id.SharedClientId` separates their records.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from fsm.audit.hygiene.rotation import count_rotations, stem
from fsm.audit.limits import REORDER_MS, UNDATED_MS
from fsm.audit.reading.records import KIND, MEMBER_ID, TIME, Row, Source
from fsm.logs import facts_of as client_facts_of
from fsm.trace import Kind


class Facts(NamedTuple):
    """Aggregates of the records of one (group, client id, file, member id)."""

    group: str
    client_id: str
    file: str
    member_id: str
    """Empty for records without a member id."""
    first_ms: int
    last_ms: int
    starts: int = 0
    """Number of logged process starts."""


class Key(NamedTuple):
    """The member that the records of a source belong to."""

    group: str
    member: str
    shared: bool = False
    """Several members, which `SharedClientId` separates."""
    rank: int = 0
    """Position of the file among the member's files, oldest first. Lines with the same timestamp are ordered by rank,
    then by offset."""


class _Span(NamedTuple):
    first_ms: int
    last_ms: int

    def overlaps(self, other: _Span) -> bool:
        return min(self.last_ms, other.last_ms) - max(self.first_ms, other.first_ms) > REORDER_MS


def facts_of(sources: Mapping[tuple[str, str], Iterable[Row]], file: str) -> list[Facts]:
    """The facts of the rows of one file, given by group and client id; sorted."""
    found: list[Facts] = []
    for (group, client_id), rows in sources.items():
        times: dict[str, list[int]] = {}
        starts: Counter[str] = Counter()
        for row in rows:
            times.setdefault(row[MEMBER_ID], []).append(row[TIME])
            if row[KIND] == _STARTED:
                starts[row[MEMBER_ID]] += 1
        found += [Facts(group, client_id, file, id_, min(own), max(own), starts[id_]) for id_, own in times.items()]
    return sorted(found)


_STARTED = Kind.STARTED.value


def merge(facts: Iterable[Facts]) -> list[Facts]:
    """Merges the facts of several pieces of a file, one per key; sorted."""
    found: dict[tuple[str, str, str, str], Facts] = {}
    for one in facts:
        known = found.get(one[:4], one)
        first_ms, last_ms = min(known.first_ms, one.first_ms), max(known.last_ms, one.last_ms)
        starts = one.starts + (known.starts if known is not one else 0)
        found[one[:4]] = Facts(*one[:4], first_ms, last_ms, starts)
    return sorted(found.values())


def find_homes(facts: Sequence[Facts]) -> dict[Source, tuple[str, str]]:
    """(group, client id) that the records of each source of one file belong to; sources of no group are missing.

    Records without a group belong to the group of their client id in the file, those without a client id to the only
    client that writes there.
    """
    by_client = _find_groups(facts)
    found: dict[Source, tuple[str, str]] = {}
    for one in facts:
        group = one.group or by_client.get((one.client_id, one.file), "")
        if group and one.client_id:
            found[one.group, one.client_id, one.file] = group, one.client_id
    hosts = {home for home in found.values() if not _EMBEDDED.search(home[1])}
    chosen = hosts or set(found.values())
    if facts and len(chosen) == 1:
        found["", "", facts[0].file] = next(iter(chosen))
    return found


def identify(facts: Iterable[Facts]) -> dict[Source, Key]:
    known = sorted(facts)
    groups = _find_groups(known)
    by_client: dict[tuple[str, str], list[Facts]] = {}
    for fact in known:
        group = fact.group or groups.get((fact.client_id, fact.file), "")
        if group and fact.client_id:
            by_client.setdefault((group, fact.client_id), []).append(fact)
    keys: dict[Source, Key] = {}
    for (group, client_id), own in sorted(by_client.items()):
        files = members(group, client_id, own)
        for fact in own:
            keys[fact.group, client_id, fact.file] = files[fact.file]
    return keys | _nameless(keys)


_EMBEDDED = re.compile(r"^connector-(?:consumer|adminclient)-|-(?:configs|offsets|statuses)$")
"""Client ids of clients inside a Connect worker. Records without a client id belong to other writers of the file, if
there are any."""
ASSIGNS_ITSELF = re.compile(r"-(?:configs|offsets|statuses)$")
"""Client ids of consumers of Connect's internal topics: they print its group and are no members."""


def _nameless(keys: Mapping[Source, Key]) -> dict[Source, Key]:
    """The member of each file's records without a client id: the only member that writes there, if there is one."""
    writers: dict[str, set[Key]] = {}
    hosts: dict[str, set[Key]] = {}
    for (_, client_id, file), key in keys.items():
        writers.setdefault(file, set()).add(key)
        if not _EMBEDDED.search(client_id):
            hosts.setdefault(file, set()).add(key)
    chosen = writers | hosts
    return {("", "", file): next(iter(own)) for file, own in chosen.items() if len(own) == 1}


def _find_groups(facts: Sequence[Facts]) -> dict[tuple[str, str], str]:
    """The group of each (client id, file), if it has only one."""
    groups: dict[tuple[str, str], set[str]] = {}
    for fact in facts:
        if fact.group:
            groups.setdefault((fact.client_id, fact.file), set()).add(fact.group)
    return {where: next(iter(named)) for where, named in groups.items() if len(named) == 1}


def members(group: str, client_id: str, facts: Sequence[Facts]) -> dict[str, Key]:
    files = _spans((f.file, f) for f in facts)
    ids = _spans((f.member_id, f) for f in facts if f.member_id)
    holds: dict[str, set[str]] = {file: set() for file in files}
    for fact in facts:
        holds[fact.file] |= {fact.member_id} - {""}
    nameless = client_facts_of(client_id).name == client_id
    shared = {file for file in files if _at_once(holds[file], ids, enclosed=nameless)}
    joined = _join_files(files, holds)
    apart = len(joined) > 1 and (shared or nameless or _overlap(joined, files))
    started_once = not nameless and sum(f.starts for f in facts) == 1 and not _at_once(set(ids), ids)
    if not apart or started_once:
        return _rank_files({file: Key(group, client_id, shared=bool(shared)) for file in files}, files)
    keys = {}
    for own in joined:
        label = _label(own[0], [other[0] for other in joined])
        for file in own:
            keys[file] = Key(group, f"{client_id} ({label})", shared=not shared.isdisjoint(own))
    return _rank_files(keys, files)


def _rank_files(keys: Mapping[str, Key], files: Mapping[str, _Span]) -> dict[str, Key]:
    ranks: dict[str, int] = {}
    out = {}
    for file in sorted(keys, key=lambda name: (files[name], -count_rotations(name), name)):
        key = keys[file]
        ranks[key.member] = ranks.get(key.member, -1) + 1
        out[file] = key._replace(rank=ranks[key.member])
    return out


def _spans(named: Iterable[tuple[str, Facts]]) -> dict[str, _Span]:
    found: dict[str, _Span] = {}
    for name, fact in named:
        span = found.get(name, _Span(fact.first_ms, fact.last_ms))
        found[name] = _Span(min(span.first_ms, fact.first_ms), max(span.last_ms, fact.last_ms))
    return found


def _at_once(names: set[str], spans: Mapping[str, _Span], *, enclosed: bool = False) -> bool:
    """Whether two of the names are in use at the same time. With `enclosed`, a name that is used only between two uses
    of another one counts too."""
    open_: _Span | None = None
    for span in sorted(spans[name] for name in names):
        if open_ is not None:
            between = open_.first_ms < span.first_ms and span.last_ms < open_.last_ms
            if (enclosed and between) or open_.overlaps(span):
                return True
        if open_ is None or span.last_ms > open_.last_ms:
            open_ = span
    return False


def _overlap(joined: Sequence[Sequence[str]], files: Mapping[str, _Span]) -> bool:
    """Whether two of the sets overlap in time; files without timestamps may always overlap."""
    if any(files[file].last_ms == UNDATED_MS for own in joined for file in own):
        return True
    spans = {own[0]: _Span(min(files[f].first_ms for f in own), max(files[f].last_ms for f in own)) for own in joined}
    return _at_once(set(spans), spans)


def _join_files(files: Mapping[str, _Span], holds: Mapping[str, set[str]]) -> list[list[str]]:
    """The files in sets, each of one process or of processes that share a client id."""
    leader = {file: file for file in files}

    def root(file: str) -> str:
        while leader[file] != file:
            leader[file] = file = leader[leader[file]]
        return file

    for a, b in (*_sharing(holds), *_following(files)):
        leader[max(root(a), root(b))] = min(root(a), root(b))
    sets: dict[str, list[str]] = {}
    for file in sorted(files):
        sets.setdefault(root(file), []).append(file)
    return sorted(sets.values())


def _sharing(holds: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
    first: dict[str, str] = {}
    for file in sorted(holds):
        for member_id in sorted(holds[file]):
            yield first.setdefault(member_id, file), file


def _following(files: Mapping[str, _Span]) -> Iterator[tuple[str, str]]:
    """Pairs of files with the same `stem`, the second of which begins after the end of the first."""
    latest: dict[str, str] = {}
    for file in sorted(files, key=lambda name: (files[name], name)):
        before = latest.get(stem(file))
        if before is not None and not files[before].overlaps(files[file]):
            yield before, file
        if before is None or files[file].last_ms >= files[before].last_ms:
            latest[stem(file)] = file


def _label(file: str, others: Sequence[str]) -> str:
    """The shortest suffix of the path that no other file has."""
    parts = PurePosixPath(file).parts
    for length in range(1, len(parts) + 1):
        end = parts[-length:]
        if sum(PurePosixPath(other).parts[-length:] == end for other in others) == 1:
            return "/".join(end)
    return file
