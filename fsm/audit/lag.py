"""The growth of lag while a partition had no owner, from lag as `kafka-consumer-groups --describe` prints it over time.

A file holds the output of a loop,

    while sleep 30; do date; kafka-consumer-groups --bootstrap-server HOST:PORT --describe --all-groups; done > lag.txt

The time of a block is the last timestamp above it; the output of a single call needs none, its time is that of the
file. A line may also be JSON, `{"ts_ms": 0, "group": "g", "topic": "t", "partition": 0, "lag": 7}`.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from fsm.audit.findings import Finding, FindingKind
from fsm.errors import InputError, refuse_os_errors
from fsm.logs.layouts import stamps
from fsm.render.wording import clock, many
from fsm.trace import Partition

NEAR_MS = 300_000
"""Lag measured longer than this before or after a time without owner is not used for it."""
COLUMNS = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
_MOST = 10**15
"""Above every lag, partition and time in ms."""
_DIGITS = re.compile(r"\d{1,15}", re.ASCII)
_REMEDY = "give what kafka-consumer-groups --describe prints, with a time stamp above each block"


class Measured(NamedTuple):
    """The lag of a partition: by how many records the committed offset was behind the log end offset."""

    ts_ms: int
    lag: int


Lag = Mapping[str, Mapping[Partition, Sequence[Measured]]]
"""By group and partition, in order of time."""


class _Row(NamedTuple):
    ts_ms: int | None
    group: str
    partition: Partition
    lag: int


# -- reading ------------------------------------------------------------------------------------------------------


def read_lag(path: Path, zone: tzinfo) -> Lag:
    """The lag in a file; `zone` is that of timestamps without one. Raises `InputError` if the file has no lag."""
    try:
        with refuse_os_errors("the lag cannot be read", path, _REMEDY):
            text = path.read_text(encoding="utf-8")
            written_ms = path.stat().st_mtime_ns // 1_000_000
    except UnicodeDecodeError:
        raise InputError("holds no lag: it is not text", str(path), _REMEDY) from None
    rows = list(_rows(text, stamps.Clock(zone, written_ms), path))
    if not rows:
        raise InputError("holds no lag", str(path), _REMEDY)
    timeless = [row for row in rows if row.ts_ms is None]
    if timeless and (len(timeless) < len(rows) or len({row[1:3] for row in rows}) < len(rows)):
        lines = f"{many(len(timeless), 'line')} of lag without a time stamp above"
        raise InputError(f"{lines}, the first of {timeless[0].group}", str(path), "print one above each block, as date")
    return by_group((row.group, row.partition, written_ms if row.ts_ms is None else row.ts_ms, row.lag) for row in rows)


def by_group(measured: Iterable[tuple[str, Partition, int, int]]) -> Lag:
    """Lag by group and partition, from (group, partition, time in ms, lag)."""
    found: dict[str, dict[Partition, list[Measured]]] = {}
    for group, partition, ts_ms, lag in measured:
        found.setdefault(group, {}).setdefault(partition, []).append(Measured(ts_ms, lag))
    for partitions in found.values():
        for own in partitions.values():
            own.sort()
    return found


def _rows(text: str, clock_: stamps.Clock, path: Path) -> Iterator[_Row]:
    ts_ms: int | None = None
    header = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            header = ""
        elif line.lstrip().startswith("{"):
            yield _of_json(line, f"{path}:{number}")
        elif set(COLUMNS) <= set(line.split()):
            header = line
        elif header and (row := _row(line, header, ts_ms)) is not None:
            if row.lag >= 0:
                yield row
        elif (found := next(stamps.find(line), None)) and (time := stamps.read(found[0], clock_)):
            ts_ms = time.ms


def _row(line: str, header: str, ts_ms: int | None) -> _Row | None:
    """A line of a table, with lag -1 if it has none; None for another line.

    Values are read by the positions of their column names, because group names may contain spaces; if that fails, by
    splitting at spaces, because runs of spaces may have been squeezed.
    """
    names = header.split()
    starts = [header.index(name) for name in names]
    below = [line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=False)]
    squeezed = line.split()
    for values in (below, squeezed if len(squeezed) == len(names) else below):
        found = dict(zip(names, values, strict=True))
        group, topic, *numbers = (found[name] for name in COLUMNS)
        if all(_DIGITS.fullmatch(number) or number == "-" for number in numbers) and numbers[0] != "-":
            return _Row(ts_ms, group, (topic, int(numbers[0])), int(numbers[-1]) if numbers[-1] != "-" else -1)
    return None


def _of_json(line: str, where: str) -> _Row:
    wanted = {"ts_ms": int, "group": str, "topic": str, "partition": int, "lag": int}
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError("holds no lag: its JSON is incomplete", where, _REMEDY) from None
    for name, kind in wanted.items():
        value = document.get(name)
        if type(value) is not kind or (type(value) is int and not 0 <= value < _MOST):
            what = "text" if kind is str else f"a whole number below {_MOST}"
            raise InputError(f"holds no lag: {name} must be {what}", where, _REMEDY)
    return _Row(document["ts_ms"], document["group"], (document["topic"], document["partition"]), document["lag"])


# -- beside ownership ---------------------------------------------------------------------------------------------


def add_lag(findings: Iterable[Finding], lag: Mapping[Partition, Sequence[Measured]]) -> list[Finding]:
    """The findings of a group; those of partitions without owner get the growth of lag, if it was measured."""
    return [_with_lag(one, lag) if one.kind is FindingKind.UNOWNED_PARTITION else one for one in findings]


def _with_lag(found: Finding, lag: Mapping[Partition, Sequence[Measured]]) -> Finding:
    spans = [span for one in found.partitions if (span := _span(lag.get(one, ()), found.start_ms, found.end_ms))]
    if not spans:
        return found
    before, after = (sum(one.lag for one in ends) for ends in zip(*spans, strict=True))
    from_ms, to_ms = min(a.ts_ms for a, _ in spans), max(b.ts_ms for _, b in spans)
    if from_ms == to_ms:
        return replace(found, summary=f"{found.summary}; their lag was {after:,} at {_at(to_ms)} UTC")
    piled = max(0, after - before)
    grown = f"from a lag of {before:,} at {_at(from_ms)} to {after:,} at {_at(to_ms)} UTC"
    growth = f"{many(piled, 'record')} piled up, {grown}"
    return replace(found, summary=f"{found.summary}; {growth}", piled_up=piled)


def _span(measured: Sequence[Measured], start_ms: int, end_ms: int) -> tuple[Measured, Measured] | None:
    """The last lag before a time, else the first one in it; and the largest lag up to the first one after it."""
    near = [one for one in measured if start_ms - NEAR_MS <= one.ts_ms <= end_ms + NEAR_MS]
    first = max(0, bisect_right(near, start_ms, key=itemgetter(0)) - 1)
    last = bisect_right(near, end_ms, key=itemgetter(0)) + 1
    shown = near[first:last]
    return (shown[0], max(shown, key=lambda one: (one.lag, one.ts_ms))) if shown else None


def _at(ts_ms: int) -> str:
    return clock(ts_ms, exact=False)
