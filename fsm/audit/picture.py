"""Pictures of recorded groups by time: partitions over consumers; units over Connect workers, with scheduled delays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import as_file, files
from operator import attrgetter
from pathlib import Path

from fsm.audit.local import audit_files
from fsm.audit.report.highlights import MEMBER_ID_END
from fsm.audit.rows import GroupRows, Seen, group_by
from fsm.audit.wording import UNIT, unit
from fsm.connect.units import Unit
from fsm.logs.programs.connect_worker import MACHINE
from fsm.render.timeline.ownership import Bar, Mark, Partition, Picture, Stay, picture, svg
from fsm.trace import Kind

PICTURES = ("connect-bounced-worker-recorded",)
"""Pictures in the package, drawn from the logs in the folder of that name beside this module."""
TITLES = {PICTURES[0]: "A worker bounces, as Kafka 4.3.1 did it (scheduled.rebalance.max.delay.ms=9000)"}
MARGIN_MS = 2_000
"""Time shown before and after the delay."""


def of_files(paths: Iterable[Path]) -> dict[str, Picture]:
    """The picture of every group in some log files. Raises `OSError` for a file that cannot be read."""
    audit = audit_files(paths)
    connect = [seen for seen in audit.seen if seen.record.machine == MACHINE]
    workers = {seen.record.group for seen in connect}
    rows = audit.rows
    found = {g: of_workers(g, rows[g], connect) if g in workers else of_consumers(rows[g]) for g in sorted(rows)}
    return {group: made for group, made in found.items() if made.stays or made.bars}


def of_consumers(rows: GroupRows) -> Picture:
    """The picture of one group of consumers, as their applications saw it; each epoch when it was first printed."""
    bars = (Bar(Partition(r.topic, r.partition), r.member, r.start_ms, r.end_ms) for r in rows.intervals)
    stays = (Stay(life.member, life.start_ms, life.end_ms) for life in rows.lives)
    word = "epoch" if any(life.protocol == "consumer" for life in rows.lives) else "generation"
    marks = (Mark(one.start_ms, one.epoch, word=word) for one in rows.rebalances if one.epoch is not None)
    return picture(bars, stays, _first(marks), workers_head="Consumers", units_head="Partitions")


def of_workers(group: str, rows: GroupRows, records: Sequence[Seen]) -> Picture:
    """The picture of one group, from its rows and from the records of workers."""
    records = [seen for seen in records if seen.record.group == group]
    clients = {seen.record.client_id for seen in records}
    lives = [life for life in rows.lives if life.client_id in clients]
    workers = {life.member for life in lives}
    bars = [
        Bar(Unit(*unit((row.topic, row.partition))), _name(row.member), row.start_ms, row.end_ms)
        for row in rows.intervals
        if row.topic.startswith(UNIT) and row.member in workers  # others are intervals without owner
    ]
    stays = [Stay(_name(life.member), life.start_ms, life.end_ms) for life in lives]
    return picture(bars, stays, _first(_rounds(records)))


def shipped_pictures() -> Iterator[tuple[str, bytes]]:
    """(file name, content) of every picture in the package."""
    for name in PICTURES:
        with as_file(files(__package__) / name) as folder:
            audit = audit_files(folder.glob("*.log"))
        records = [seen for seen in audit.seen if seen.record.machine == MACHINE]
        ((group, rows),) = audit.rows.items()
        made = of_workers(group, rows, records).close_up(MARGIN_MS)
        yield f"{name}.svg", svg(made, TITLES[name], dated=True).encode()


def _rounds(records: Iterable[Seen]) -> Iterator[Mark]:
    for record, _ in records:
        if record.kind is Kind.TARGET and record.epoch is not None:
            settings = record.settings
            leader = _name(MEMBER_ID_END.sub("", settings.get("leader", "")))
            yield Mark(record.ts_ms, record.epoch, leader, int(settings.get("delay_ms", "0")))


def _first(marks: Iterable[Mark]) -> list[Mark]:
    """Each generation once, when the first worker or consumer printed it."""
    by_generation = group_by(marks, attrgetter("generation"))
    return [min(own) for _, own in sorted(by_generation.items())]


def _name(text: str) -> str:
    return text.removeprefix("connect-")
