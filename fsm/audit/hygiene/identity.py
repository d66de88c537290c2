"""Decides which member a record belongs to.

A member is (group, client id), as long as that is one process at a time. Several processes of a group may have the same
client id: Java clients without `client.id` are all called `consumer-<group>-1`. Then they are distinguished by log: a
file, or what one program printed in a file, if a collector names the program (pod, container, host) beside each line.
One process may have several logs: rotated ones, or lines that a collector spread over files.

`identify` decides this from a few facts per (group, client id, file, program, member id), which can be aggregated on a
cluster:

0. A file has one log for each program that wrote to it under the client id: a pod or a container, or what may be one
   (`MAYBE`: a host may be a relay's) if it has a member id of its own while another one has another id. It has only one
   log if a member id is in the lines of several programs, because then it is not the process that is named. If neither
   is known of a client that prints no client id, the log may be that of several members.
1. A record without a group belongs to the only group of its client id in its log or else in its file, else to none; one
   without a client id to the only member that writes there, of its group if it has one.
2. Two member ids of one (group, client id) in use at the same time are two processes. Consecutive ids may be one
   process (a classic member gets a new id when it rejoins).
3. Logs are one process if they share a member id, or if they are rotations of one name (of one program) and do not
   overlap in time. Programs of different files may have equal names. Sets of logs that are several processes by this
   rule, and overlap in time, are several members: the file or the program becomes part of the member's name. Sets that
   do not overlap are one member that was restarted; all logs are one member if only one process was ever started and no
   two ids are in use at the same time. Clients that print no client id are called by the name of the client: there,
   each set is a member.
4. Two processes at the same time in one log, or in one set of logs that share ids, share their client id:
   `shared_client_id.SharedClientId` separates their records.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeVar

from fsm.audit.hygiene.rotation import count_rotations, stem
from fsm.audit.limits import REORDER_MS, UNDATED_MS
from fsm.audit.reading.records import KIND, MEMBER_ID, TIME, Row, Source
from fsm.audit.rows import group_by
from fsm.logs import MAYBE
from fsm.logs import facts_of as client_facts_of
from fsm.trace import Kind


class Facts(NamedTuple):
    """Aggregates of the records of one (group, client id, file, program, member id)."""

    group: str
    client_id: str
    file: str
    program: str
    """As in `Source`."""
    member_id: str
    """Empty for records without a member id."""
    first_ms: int
    last_ms: int
    starts: int = 0
    """Number of logged process starts."""
    changes: int = 0
    """Number of records about membership and partitions."""

    @property
    def source(self) -> Source:
        return self.group, self.client_id, self.file, self.program


class _Log(NamedTuple):
    """What one program printed in a file."""

    file: str
    program: str
    """Empty if the programs of the file are not distinguished."""


class Key(NamedTuple):
    """The member that the records of a source belong to."""

    group: str
    member: str
    shared: bool = False
    """Several members, which `SharedClientId` separates."""
    rank: int = 0
    """Position of the log among the member's logs, oldest first. Lines with the same timestamp are ordered by rank,
    then by offset."""


class _Span(NamedTuple):
    first_ms: int
    last_ms: int

    def overlaps(self, other: _Span) -> bool:
        return min(self.last_ms, other.last_ms) - max(self.first_ms, other.first_ms) > REORDER_MS


def facts_of(sources: Mapping[Source, Iterable[Row]]) -> list[Facts]:
    """The facts of the rows of one file; sorted."""
    found: list[Facts] = []
    for source, rows in sources.items():
        times: dict[str, list[int]] = {}
        starts, changes = Counter[str](), Counter[str]()
        for row in rows:
            times.setdefault(row[MEMBER_ID], []).append(row[TIME])
            starts[row[MEMBER_ID]] += row[KIND] == _STARTED
            changes[row[MEMBER_ID]] += row[KIND] in _CHANGES
        found += [Facts(*source, id_, min(own), max(own), starts[id_], changes[id_]) for id_, own in times.items()]
    return sorted(found)


_STARTED = Kind.STARTED.value
_CHANGES = frozenset(
    kind.value
    for kind in (
        *(Kind.TRANSITION, Kind.JOINING, Kind.JOINED, Kind.TARGET, Kind.OWNED, Kind.ADDED, Kind.DROPPED),
        *(Kind.ASSIGN_BEGIN, Kind.REVOKE_DECIDED, Kind.REVOKE_BEGIN, Kind.LOST_DECIDED, Kind.LOST_BEGIN),
        *(Kind.FENCED, Kind.LEAVE_BEGIN, Kind.LEAVE_SENT, Kind.LEFT),
    )
)


def merge(facts: Iterable[Facts]) -> list[Facts]:
    """Merges the facts of several pieces of a file, one per key; sorted."""
    merged = []
    for (source, id_), own in group_by(facts, lambda one: (one.source, one.member_id)).items():
        *_, first_ms, last_ms, starts, changes = zip(*own, strict=True)
        merged.append(Facts(*source, id_, min(first_ms), max(last_ms), sum(starts), sum(changes)))
    return sorted(merged)


def find_homes(facts: Sequence[Facts]) -> dict[Source, str]:
    """The group that the records of each source of one file belong to; sources of no group are missing.

    Records without a group belong to the group of their client id in the file, those without a client id to the only
    client that writes there.
    """
    find_group = _find_groups(facts)
    homes = {one.source: (group, one.client_id) for one in facts if one.client_id and (group := find_group(one))}
    return {source: group for source, (group, _) in (homes | _find_writers(facts, homes)).items()}


def by_home(facts: Iterable[Facts], homes: Mapping[Source, str]) -> dict[str, list[Facts]]:
    return group_by((one for one in facts if one.source in homes), lambda one: homes[one.source])


def find_homeless(facts: Iterable[Facts], homes: Mapping[Source, object]) -> list[Facts]:
    """Those of one file with records about membership and partitions that belong to no group."""
    return [one for one in facts if one.changes and one.source not in homes]


def identify(facts: Iterable[Facts]) -> dict[Source, Key]:
    known = sorted(facts)
    find_group = _find_groups(known)
    by_client = group_by(known, lambda fact: (find_group(fact), fact.client_id))
    keys: dict[Source, Key] = {}
    for (group, client_id), own in sorted(by_client.items()):
        if not (group and client_id):
            continue
        logs = _find_logs(own)
        found = members(group, client_id, own, logs)
        keys |= {fact.source: found[logs[fact.source]] for fact in own}
    return keys | _find_writers(known, keys)


def list_sources(keys: Mapping[Source, Key]) -> dict[Key, dict[Source, int]]:
    """The sources of each member, whose key here has no rank, with the ranks of their logs."""
    own = group_by(keys, lambda source: keys[source]._replace(rank=0))
    return {member: {source: keys[source].rank for source in sources} for member, sources in own.items()}


_EMBEDDED = re.compile(r"^connector-(?:consumer|adminclient)-|-(?:configs|offsets|statuses)$")
"""Client ids of clients inside a Connect worker. Records without a client id belong to other writers of the file, if
there are any."""
ASSIGNS_ITSELF = re.compile(r"-(?:configs|offsets|statuses)$")
"""Client ids of consumers of Connect's internal topics: they print its group and are no members."""


_T = TypeVar("_T")
_OfGroup = TypeVar("_OfGroup", bound=tuple[Any, ...])
"""A group, and what is known of a member in it."""


def _find_writers(facts: Iterable[Facts], known: Mapping[Source, _OfGroup]) -> dict[Source, _OfGroup]:
    """What is known of the only client, of the group if they have one, that writes to a log, or else to its file, for
    records without a client id."""
    writers: dict[_Log, set[_OfGroup]] = {}
    hosts: dict[_Log, set[_OfGroup]] = {}
    for (_, client_id, file, program), its in known.items():
        for log in {_Log(file, program), _Log(file, "")}:
            writers.setdefault(log, set()).add(its)
            if not _EMBEDDED.search(client_id):
                hosts.setdefault(log, set()).add(its)
    chosen = writers | hosts
    found: dict[Source, _OfGroup] = {}
    for fact in facts:
        own = chosen.get(_Log(fact.file, fact.program)) or chosen.get(_Log(fact.file, ""), set())
        of_group = [one for one in own if fact.group in ("", one[0])]
        if not fact.client_id and len(of_group) == 1:
            found[fact.source] = of_group[0]
    return found


def _find_groups(facts: Sequence[Facts]) -> Callable[[Facts], str]:
    """The group of a fact, or else the only one of its client id in its log, or else in its file; empty if there is
    none."""
    groups: dict[tuple[str, _Log], set[str]] = {}
    for fact in facts:
        for program in {fact.program, ""} if fact.group else ():
            groups.setdefault((fact.client_id, _Log(fact.file, program)), set()).add(fact.group)

    def find_group(fact: Facts) -> str:
        if fact.group:
            return fact.group
        in_log = groups.get((fact.client_id, _Log(fact.file, fact.program)))
        named = in_log or groups.get((fact.client_id, _Log(fact.file, "")), set())
        return next(iter(named)) if len(named) == 1 else ""

    return find_group


def _find_logs(facts: Sequence[Facts]) -> dict[Source, _Log]:
    apart = {file for file, own in group_by(facts, attrgetter("file")).items() if _are_processes(own)}
    return {fact.source: _Log(fact.file, fact.program if fact.file in apart else "") for fact in facts}


def _are_processes(facts: Sequence[Facts]) -> bool:
    """Whether the programs of a file are processes of their own."""
    if not _may_be_processes(facts):
        return False
    ids = _ids_of_programs(facts)
    spans = _spans_of_ids(facts)
    certain = not any(fact.program.startswith(MAYBE) for fact in facts)
    enclosed = _is_nameless(facts[0].client_id)
    return certain or (
        _at_once(spans, spans, enclosed=enclosed)
        and not any(_at_once(own, spans, enclosed=enclosed) for own in ids.values())
    )


def _may_be_processes(facts: Sequence[Facts]) -> bool:
    """Whether several programs are named, and no member id is in the lines of two of them."""
    ids = _ids_of_programs(facts).values()
    is_few = 1 < len({fact.program for fact in facts} - {""}) <= _MOST_PROGRAMS
    return is_few and sum(map(len, ids)) == len(set().union(*ids))


def _ids_of_programs(facts: Sequence[Facts]) -> dict[str, set[str]]:
    named = group_by((fact for fact in facts if fact.member_id), attrgetter("program"))
    return {program: {fact.member_id for fact in own} for program, own in named.items()}


_MOST_PROGRAMS = 1000
"""Programs of one client id in one file that are distinguished."""


def members(group: str, client_id: str, facts: Sequence[Facts], log_of: Mapping[Source, _Log]) -> dict[_Log, Key]:
    facts_of = group_by(facts, lambda fact: log_of[fact.source])
    logs, ids = _spans(facts_of), _spans_of_ids(facts)
    holds = {log: {fact.member_id for fact in own} - {""} for log, own in facts_of.items()}
    nameless = _is_nameless(client_id)
    shared = {log for log in logs if _at_once(holds[log], ids, enclosed=nameless)}
    if nameless:
        shared |= {log for log in logs if not log.program and _may_share(facts_of[log])}
    joined = _join_logs(logs, holds)
    apart = len(joined) > 1 and (shared or nameless or _overlap(joined, logs))
    started_once = not nameless and sum(f.starts for f in facts) == 1 and not _at_once(set(ids), ids)
    if not apart or started_once:
        return _rank_logs({log: Key(group, client_id, shared=bool(shared)) for log in logs}, logs)
    labelled = zip(joined, _label([own[0] for own in joined]), strict=True)
    named = ((own, Key(group, f"{client_id} ({label})", not shared.isdisjoint(own))) for own, label in labelled)
    return _rank_logs({log: key for own, key in named for log in own}, logs)


def _may_share(facts: Sequence[Facts]) -> bool:
    """Whether the programs of a log may be processes that ran at the same time."""
    programs = _spans(group_by((fact for fact in facts if fact.program), attrgetter("program")))
    return _may_be_processes(facts) and _at_once(programs, programs)


def _is_nameless(client_id: str) -> bool:
    """Whether this is the name of a client that prints no client id."""
    return client_facts_of(client_id).name == client_id


def _rank_logs(keys: Mapping[_Log, Key], logs: Mapping[_Log, _Span]) -> dict[_Log, Key]:
    in_time = sorted(keys, key=lambda one: (logs[one], -count_rotations(one.file), one))
    by_member = group_by(in_time, lambda log: keys[log].member)
    return {log: keys[log]._replace(rank=rank) for own in by_member.values() for rank, log in enumerate(own)}


def _spans(named: Mapping[_T, Sequence[Facts | _Span]]) -> dict[_T, _Span]:
    return {
        name: _Span(min(one.first_ms for one in own), max(one.last_ms for one in own)) for name, own in named.items()
    }


def _spans_of_ids(facts: Iterable[Facts]) -> dict[str, _Span]:
    return _spans(group_by((fact for fact in facts if fact.member_id), attrgetter("member_id")))


def _at_once(names: Iterable[_T], spans: Mapping[_T, _Span], *, enclosed: bool = False) -> bool:
    """Whether two of the names are in use at the same time. With `enclosed`, a name that is used only before the last
    use of an earlier one counts too; of two that begin in one whole second, either may follow the other."""
    open_: _Span | None = None
    for span in sorted((spans[name] for name in names), key=lambda one: (one.first_ms, -one.last_ms)):
        if open_ is not None:
            between = span.last_ms < open_.last_ms and (open_.first_ms < span.first_ms or span.first_ms % 1000 > 0)
            if (enclosed and between) or open_.overlaps(span):
                return True
        if open_ is None or span.last_ms > open_.last_ms:
            open_ = span
    return False


def _overlap(joined: Sequence[Sequence[_Log]], logs: Mapping[_Log, _Span]) -> bool:
    """Whether two of the sets overlap in time; logs without timestamps may always overlap."""
    if any(logs[log].last_ms == UNDATED_MS for own in joined for log in own):
        return True
    spans = _spans({own[0]: [logs[log] for log in own] for own in joined})
    return _at_once(spans, spans)


def _join_logs(logs: Mapping[_Log, _Span], holds: Mapping[_Log, set[str]]) -> list[list[_Log]]:
    """The logs in sets, each of one process or of processes that share a client id."""
    leader = {log: log for log in logs}

    def root(log: _Log) -> _Log:
        while leader[log] != log:
            leader[log] = log = leader[leader[log]]
        return log

    for a, b in (*_sharing(holds), *_following(logs)):
        leader[max(root(a), root(b))] = min(root(a), root(b))
    return sorted(group_by(sorted(logs), root).values())


def _sharing(holds: Mapping[_Log, set[str]]) -> Iterator[tuple[_Log, _Log]]:
    first: dict[str, _Log] = {}
    for log in sorted(holds):
        for member_id in sorted(holds[log]):
            yield first.setdefault(member_id, log), log


def _following(logs: Mapping[_Log, _Span]) -> Iterator[tuple[_Log, _Log]]:
    """Pairs of logs with the same `stem`, the second of which begins after the end of the first."""
    latest: dict[tuple[str, str], _Log] = {}
    for log in sorted(logs, key=lambda one: (logs[one], one)):
        name = stem(log.file), log.program
        before = latest.get(name)
        if before is not None and not logs[before].overlaps(logs[log]):
            yield before, log
        if before is None or logs[log].last_ms >= logs[before].last_ms:
            latest[name] = log


def _label(logs: Sequence[_Log]) -> list[str]:
    """The shortest suffix of each log's path that no other log has; behind a file stands the program."""
    every = [
        (*PurePosixPath(log.file).parts, *([log.program.removeprefix(MAYBE)] if log.program else [])) for log in logs
    ]
    counts: Counter[tuple[str, ...]] = Counter()
    for parts in every:
        counts.update(parts[-length:] for length in range(1, len(parts) + 1))
    return [
        "/".join(next((end for length in range(1, len(parts)) if counts[end := parts[-length:]] == 1), parts))
        for parts in every
    ]
