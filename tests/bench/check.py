"""What a check costs: states and transitions a CPU second, and what one step at a time would cost."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "check"))

from naive_search import Naive

from fsm.check import Model
from fsm.check.examples.two_phase_commit import two_phase_commit
from fsm.check.kafka.consumer_group import consumer_group
from fsm.check.search import Search

TEN_KINDS = (
    "crash",
    "expire",
    "failover",
    "late",
    "leave",
    "lose",
    "poll_timeout",
    "rebalance_timeout",
    "rejoin",
    "unanswered",
)


def measure(title: str, model: Model, most: int = 0) -> None:
    """One line: a search that fills its tables, and the same once more with full ones."""
    search = Search(model, frozenset(model.kinds).intersection(TEN_KINDS), most, every=True)
    began = time.process_time()
    search.run()
    cold = time.process_time() - began
    again = Search(model, frozenset(model.kinds).intersection(TEN_KINDS), most, every=True)
    again.space = search.space
    began = time.process_time()
    again.run()
    warm = time.process_time() - began
    states, transitions = search.states.size, search.transitions
    each = search.nbytes / states
    print(
        f"{title:<42} {states:>9,} {transitions:>11,} {cold:>6.2f} {states / cold:>9,.0f} {warm:>6.2f} "
        f"{states / warm:>9,.0f} {transitions / warm:>11,.0f} {each:>6.0f}"
    )


def main() -> None:
    """Prints the table."""
    columns = f"{'states':>9} {'transitions':>11} {'cold s':>6} {'states/s':>9} {'warm s':>6} {'states/s':>9}"
    print(f"{'':<42} {columns} {'transitions/s':>11} {'bytes':>6}")
    measure("two-phase commit of 7", two_phase_commit(7))
    measure("consumer group, undisturbed", consumer_group())
    measure("consumer group, 2 topics, 10 kinds, one", consumer_group(topics={"foo": 1, "bar": 1}), 1)
    measure("consumer group of 3, undisturbed", consumer_group(3))
    began = time.process_time()
    states = len(Naive(consumer_group()).cost)
    print(f"one state at a time: {states / (time.process_time() - began):,.0f} states a CPU second")


if __name__ == "__main__":
    main()
