"""Fleets of seeds: a run and a row for each, and the totals. In a loop, in processes, or on Spark."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from signal import SIG_DFL, SIGINT, signal
from typing import Any, NamedTuple

from fsm.simulate.deployment import Deployment
from fsm.simulate.machines.deployment import Machines
from fsm.simulate.meter import SERIES
from fsm.simulate.outcome import name_all, show, table
from fsm.simulate.run import simulate

MEASURES = (*SERIES, "longest_unowned_ms")
"""The measures that all groups have."""
MOST_FAILED = 20
"""How many failed seeds are named."""
AHEAD = 16
"""How many seeds each process gets in advance."""


class Row(NamedTuple):
    """The result of one seed."""

    seed: int
    measures: dict[str, int]
    hazards: dict[str, int]
    violations: tuple[str, ...]


def run_seed(deployment: Deployment | Machines, seed: int) -> Row:
    outcome = simulate(deployment, seed)
    usual = {} if isinstance(deployment, Machines) else dict.fromkeys(MEASURES, 0)
    measures = usual | {name: int(value) for name, value in outcome.totals().items()}
    return Row(seed, measures, outcome.hazards(), tuple(violation.what for _, violation in outcome.violations))


def run_seeds(deployment: Deployment | Machines, seeds: Iterable[int], jobs: int = 1) -> Iterator[Row]:
    """Runs all of them, in this many processes; rows come in the order of the seeds."""
    run = partial(run_seed, deployment)
    return map(run, seeds) if jobs == 1 else _run_in_processes(run, seeds, jobs)


def _run_in_processes(run: Callable[[int], Row], seeds: Iterable[int], jobs: int) -> Iterator[Row]:
    """Submits a few seeds at a time, so that an iteration that ends early, or an interrupt, waits for few."""
    pool = ProcessPoolExecutor(jobs, initializer=signal, initargs=(SIGINT, SIG_DFL))
    waiting: deque[Future[Row]] = deque()
    try:
        for seed in seeds:
            waiting.append(pool.submit(run, seed))
            if len(waiting) == AHEAD * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass
class Measured:
    """One measure over all seeds."""

    total: int = 0
    least: int = 0
    most: int = 0


@dataclass
class Fleet:
    """The totals of all rows."""

    runs: int = 0
    measures: dict[str, Measured] = field(default_factory=dict)
    hazards: Counter[str] = field(default_factory=Counter)
    violations: Counter[str] = field(default_factory=Counter)
    """The number of runs with each violation."""
    failed: list[int] = field(default_factory=list)
    """The first seeds that failed."""
    failures: int = 0

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Fleet:
        found = cls()
        for row in rows:
            found.add(row)
        return found

    def add(self, row: Row) -> None:
        measures = {name: Measured(value, value, value) for name, value in row.measures.items()}
        failed = [row.seed] if row.violations else []
        self.merge(Fleet(1, measures, Counter(row.hazards), Counter({*row.violations}), failed, len(failed)))

    def merge(self, other: Fleet) -> None:
        for name, its in other.measures.items():
            one = self.measures.setdefault(name, Measured(0, its.least, its.most))
            one.total, one.least, one.most = one.total + its.total, min(one.least, its.least), max(one.most, its.most)
        self.hazards.update(other.hazards)
        self.violations.update(other.violations)
        self.runs += other.runs
        self.failures += other.failures
        self.failed = sorted([*self.failed, *other.failed])[:MOST_FAILED]

    def totals(self) -> dict[str, int]:
        """Sums over all runs."""
        return {name: one.total for name, one in self.measures.items()}

    def as_document(self) -> dict[str, Any]:
        return {
            "runs": self.runs,
            "measures": {
                name: {"mean": one.total / self.runs, "least": one.least, "most": one.most}
                for name, one in sorted(self.measures.items())
            },
            "hazards": dict(sorted(self.hazards.items())),
            "violations": dict(sorted(self.violations.items())),
            "failures": self.failures,
            "failed": self.failed,
        }

    def text(self) -> str:
        rows = [("mean", "least", "most", "")]
        for name, words in name_all(self.measures).items():
            one = self.measures[name]
            rows.append((show(name, one.total / self.runs), show(name, one.least), show(name, one.most), words))
        lines = [f"{self.runs} runs\n", table(rows)]
        lines += [f"known hazard: {name} ({count} times)\n" for name, count in sorted(self.hazards.items())]
        lines += [f"VIOLATED in {count} runs: {what}\n" for what, count in sorted(self.violations.items())]
        if self.failed:
            lines.append(f"seeds that failed: {', '.join(map(str, self.failed))}; see --shrink\n")
        else:
            lines.append("every invariant held in every run\n")
        return "".join(lines)
