"""The picture of a recorded Connect cluster: who was there, where its units ran, and while which delays they waited."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import as_file, files
from pathlib import Path

from fsm.audit.group import Rows
from fsm.audit.local import Options, audit_records, read_files
from fsm.audit.rows import Seen
from fsm.audit.wording import UNIT, unit
from fsm.connect.drawing import svg
from fsm.connect.picture import Bar, Mark, Picture, Stay, delays
from fsm.connect.units import Unit
from fsm.logs.connect_worker import MACHINE
from fsm.trace import Kind

PICTURES = ("connect-bounced-worker-recorded",)
"""Pictures that come with the package, drawn from the lines in a folder of that name beside this module."""
TITLES = {PICTURES[0]: "A worker bounces, as Kafka 4.3.1 did it (scheduled.rebalance.max.delay.ms=9000)"}
MARGIN_MS = 2_000
"""What is seen before and after the delay."""
_NUMBER = re.compile(r"(?:-[0-9a-f]+){5}$")
"""What a member id has beyond the client id."""


def of_files(paths: Iterable[Path], options: Options | None = None) -> dict[str, Picture]:
    """The picture of every group of workers in some log files. Raises OSError for a file that cannot be read."""
    options = options or Options()
    read = read_files(paths, options)
    told = [seen for seen in read.seen if seen.record.machine == MACHINE]
    groups = sorted({seen.record.group for seen in told if seen.record.group})
    audit = audit_records(read, options.limits)
    return {group: of_logs(group, audit.rows[group], told) for group in groups if group in audit.rows}


def of_logs(group: str, rows: Rows, told: Sequence[Seen]) -> Picture:
    """The picture of one group, from its rows and from the records of workers."""
    told = [seen for seen in told if seen.record.group == group]
    clients = {seen.record.client_id for seen in told}
    lives = [life for life in rows.lives if life.client_id in clients]
    workers = {life.member for life in lives}
    bars = sorted(
        Bar(Unit(*unit((row.topic, row.partition))), _name(row.member), row.start_ms, row.end_ms)
        for row in rows.intervals
        if row.topic.startswith(UNIT) and row.member in workers  # others stand for what should have run
    )
    stays = sorted(Stay(_name(life.member), life.start_ms, life.end_ms) for life in lives)
    marks = tuple(_rounds(told))
    instants = [mark.at_ms for mark in marks]
    instants += [at_ms for stay in stays for at_ms in (stay.start_ms, stay.end_ms)]
    instants += [at_ms for bar in bars for at_ms in (bar.start_ms, bar.end_ms)]
    end_ms = max(instants, default=0)
    waits = delays(((mark.at_ms, mark.delay_ms) for mark in marks), end_ms)
    return Picture(min(instants, default=0), end_ms, tuple(bars), waits, marks, tuple(stays))


def shipped_pictures() -> Iterator[tuple[str, bytes]]:
    """(file name, content) of every picture that comes with the package."""
    for name in PICTURES:
        with as_file(files(__package__) / name) as folder:
            (picture,) = of_files(sorted(folder.glob("*.log"))).values()
        yield f"{name}.svg", svg(picture.close_up(MARGIN_MS), TITLES[name]).encode()


def _rounds(told: Iterable[Seen]) -> Iterator[Mark]:
    """Each generation once, at the instant at which the first worker told of it."""
    first: dict[int, Mark] = {}
    for record, _ in told:
        if record.kind is Kind.TARGET and record.epoch is not None:
            settings = record.settings
            leader = _name(_NUMBER.sub("", settings.get("leader", "")))
            mark = Mark(record.ts_ms, record.epoch, leader, int(settings.get("delay_ms", "0")))
            first[record.epoch] = min(mark, first.get(record.epoch, mark))
    yield from (first[generation] for generation in sorted(first))


def _name(text: str) -> str:
    """A worker by its address."""
    return text.removeprefix("connect-")
