"""Pictures of recorded groups: partitions over consumers, or units over Connect workers, by time."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fsm.audit.connect.picture import of_workers
from fsm.audit.local import Options, audit_files
from fsm.audit.rows import GroupRows
from fsm.logs.programs.connect_worker import MACHINE
from fsm.render.timeline.ownership import Bar, Mark, Partition, Picture, Stay, picture


def of_files(paths: Iterable[Path], options: Options | None = None) -> dict[str, Picture]:
    """The picture of every group in some log files. Raises `OSError` for a file that cannot be read."""
    audit = audit_files(paths, options)
    connect = [seen for seen in audit.seen if seen.record.machine == MACHINE]
    workers = {seen.record.group for seen in connect}
    rows = audit.rows
    found = {g: of_workers(g, rows[g], connect) if g in workers else of_consumers(rows[g]) for g in sorted(rows)}
    return {group: made for group, made in found.items() if made.stays or made.bars}


def of_consumers(rows: GroupRows) -> Picture:
    """The picture of one group of consumers, as their applications saw it; each epoch when it was first printed."""
    bars = (Bar(Partition(r.topic, r.partition), r.member, r.start_ms, r.end_ms) for r in rows.intervals)
    stays = (Stay(life.member, life.start_ms, life.end_ms) for life in rows.lives)
    first: dict[int, Mark] = {}
    word = "epoch" if any(life.protocol == "consumer" for life in rows.lives) else "generation"
    for one in rows.rebalances:
        if one.epoch is not None:
            mark = Mark(one.start_ms, one.epoch, word=word)
            first[one.epoch] = min(mark, first.get(one.epoch, mark))
    marks = (first[epoch] for epoch in sorted(first))
    return picture(bars, stays, marks, workers_head="Consumers", units_head="Partitions")
