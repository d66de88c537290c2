"""What it costs to step a population of machines at once with NumPy, beside NumPy's own gather.

    python tests/bench/population.py [--machines N] [--rounds N]

A gather that has nothing to compute, `np.take` over places that are ready, is what a step cannot be faster than: it
computes these places from states and events, looks whether all codes are known, and whether a cell is illegal. Every
variant takes its turn in each round; a figure is the median of the rounds, in CPU time, a ratio the median of the
rounds' ratios to the gather. Each must give what the gather gives.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from fsm.table import Table
from fsm.tables import classic_member, consumer_member

Variants = dict[str, Callable[[], object]]


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--machines", type=int, default=1_000_000, help="how many (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=41, help="rounds of all variants (default: %(default)s)")
    options = parser.parse_args()
    for table in (consumer_member.TABLE, classic_member.TABLE):
        print(f"{table.name}: {options.machines:,} machines, {options.rounds} rounds")
        report(measure(variants(table, options.machines), options.rounds), options.machines)


def variants(table: Table, count: int) -> Variants:
    """Steps of machines in states that are drawn once, by events that are legal there. Raises where two differ."""
    columns = table.columns
    target = np.frombuffer(columns.target, np.int16)
    places = np.random.default_rng(1).choice(np.flatnonzero(target >= 0), count)
    states, events = (codes.astype(np.int16) for codes in divmod(places, len(columns.events)))
    grid, out, own = target.reshape(len(columns.states), -1), states.copy(), states.copy()

    def in_place() -> np.ndarray:
        np.copyto(own, states)  # each round begins where the others do; the copy counts
        return columns.step(own, events, out=own)

    found: Variants = {
        "np.take(target, places)": lambda: np.take(target, places),
        "grid[states, events]": lambda: grid[states, events],
        "columns.step(states, events)": lambda: columns.step(states, events),
        "columns.step(states, events, out=other)": lambda: columns.step(states, events, out=out),
        "columns.step(states, events, out=states)": in_place,
        "columns.order(states, events)": lambda: columns.order(states, events),
    }
    expected = np.take(target, places)
    for name, run in found.items():
        if "order" not in name and not np.array_equal(run(), expected):
            raise SystemExit(f"{name} gives something else")
    return found


def measure(runs: Variants, rounds: int) -> dict[str, list[float]]:
    """CPU seconds per variant and round."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.process_time()
            run()
            seconds[name].append(time.process_time() - start)
    return seconds


def report(seconds: dict[str, list[float]], count: int) -> None:
    """One line per variant; the first one is what the others are compared with."""
    reference = next(iter(seconds.values()))
    print(f"{'':42} {'machines/s':>15} {'x gather':>9}")
    for name, times in seconds.items():
        ratio = statistics.median(theirs / mine for mine, theirs in zip(times, reference, strict=True))
        print(f"{name:42} {count / statistics.median(times):15,.0f} {ratio:9.2f}")


if __name__ == "__main__":
    main()
