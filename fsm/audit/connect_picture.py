"""The picture of a recorded Connect cluster: where its units ran, and while which delays they waited."""

from __future__ import annotations

from collections.abc import Iterable

from fsm.audit.connect import MACHINE
from fsm.audit.rows import NOBODY, Interval, Seen
from fsm.audit.wording import UNIT, unit
from fsm.connect.picture import Bar, Mark, Picture, delays
from fsm.connect.units import Unit
from fsm.trace import Kind


def of_logs(intervals: Iterable[Interval], seen: Iterable[Seen]) -> Picture:
    """The picture of one group, from its intervals and its records."""
    bars = sorted(
        Bar(Unit(*unit((row.topic, row.partition))), row.member, row.start_ms, row.end_ms)
        for row in intervals
        if row.topic.startswith(UNIT) and row.begun not in NOBODY
    )
    rounds: dict[int, tuple[int, int]] = {}
    for record, _ in seen:
        if record.kind is Kind.TARGET and record.machine == MACHINE and record.epoch is not None:
            told = (record.ts_ms, int(record.settings.get("delay_ms", "0")))
            rounds[record.epoch] = min(told, rounds.get(record.epoch, told))
    in_order = [rounds[generation] for generation in sorted(rounds)]
    instants = [at_ms for at_ms, _ in in_order] + [at for bar in bars for at in (bar.start_ms, bar.end_ms)]
    marks = tuple(Mark(rounds[generation][0], f"round {generation}") for generation in sorted(rounds))
    return Picture(min(instants, default=0), max(instants, default=0), tuple(bars), delays(in_order), marks)
