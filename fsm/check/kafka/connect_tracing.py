"""What a live Connect worker writes while a path is replayed: the records that one of a simulated cluster writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fsm.check.kafka.connect_process import Process
from fsm.connect.simulation.trace import WorkerTrace
from fsm.connect.units import Units, without
from fsm.connect.worker.inputs import RestartUnits, Stop, UnitsStopped, WorkerEffect, WorkerInput
from fsm.connect.worker.state import Worker
from fsm.trace import Kind, TraceRecord


class _Writer(NamedTuple):
    """Who a record is about."""

    name: str
    worker: Worker
    running: Units


class StepTrace:
    """Gives each record of one worker to `take`."""

    def __init__(self, name: str, take: Callable[[TraceRecord], None]) -> None:
        self.name, self.trace = name, WorkerTrace(take, 0)

    def step(
        self, before: Process, given: WorkerInput, effects: tuple[WorkerEffect, ...], after: Process, now_ms: int
    ) -> None:
        """A step of the worker, and what stops and starts in its process by it; a stop that has ended comes before."""
        writer = _Writer(self.name, after.worker, before.running)
        anew = {unit for one in effects if isinstance(one, RestartUnits) for unit in one.units}
        stopped = [unit for unit in before.running if unit not in after.running or unit in anew]
        if not isinstance(given, UnitsStopped):
            self.trace.step(writer, before.worker, given, effects, now_ms)
        for unit in stopped:
            self.trace.stop_unit(writer, unit, now_ms)
        if isinstance(given, UnitsStopped):
            self.trace.step(writer, before.worker, given, effects, now_ms)
        for unit in without(after.running, without(before.running, tuple(stopped))):
            self.trace.start_unit(writer, unit, now_ms)
        if isinstance(given, Stop):
            self.trace.write(writer, Kind.CLOSE_END, now_ms)
