"""What a check costs: states and transitions a CPU second, bytes a state, and what one state at a time would cost.

Two-phase commit is the spec of J. Gray and L. Lamport, with the states that the test of Stateright's `examples/2pc.rs`
counts; TLC is not published where packages come from, so it is not run here. Warm is the same search with the tables
of the cold one, as `--memo` keeps them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "check"))

from naive_search import Naive

from fsm.check import Disk, Memo, Model
from fsm.check.examples.two_phase_commit import two_phase_commit
from fsm.check.kafka.consumer.group import consumer_group
from fsm.check.liveness import find_doomed
from fsm.check.search import Search
from fsm.check.space import Space

KINDS = ["crash", "expire", "failover", "late", "leave", "lose", "poll_timeout", "rebalance_timeout", "unanswered"]
"""Of disturbance, in a consumer group."""
PUBLISHED = {3: 288, 5: 8_832}
"""Distinct states of two-phase commit by the number of resource managers."""
COLUMNS = ("states", "transitions", "CPU s", "states/s", "transitions/s", "goal s", "bytes")
WIDTHS = (11, 12, 7, 11, 14, 7, 6)


def measure(
    title: str, model: Model, most: int = 0, *, tables: Space | None = None, disk: Disk | None = None
) -> Search:
    """One line: the search, and then the question that is asked of all its states."""
    kinds = frozenset(KINDS if most else ())
    search = Search(model, kinds, most, every=True, tables=tables)
    began = time.process_time()
    with nullcontext() if disk is None else disk.keeping(search):
        search.run()
    took_s = time.process_time() - began
    each, states, transitions = search.nbytes / search.met, search.met, search.transitions
    began = time.process_time()
    find_doomed(search)
    goal_s = time.process_time() - began
    show(
        title,
        f"{states:,}",
        f"{transitions:,}",
        f"{took_s:.2f}",
        *rates(took_s, states, transitions),
        f"{goal_s:.2f}",
        f"{each:.0f}",
    )
    return search


def measure_command(title: str, folder: str, model: Model) -> None:
    """One line: `fsm check` with one disturbance of the kinds and with all that it asks, from its start to its end."""
    arguments = ["consumer-group", "--topics", "foo:1,bar:1", "--disturb", ",".join(KINDS), "--every", "--memo", folder]
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-m", "fsm", "check", *arguments, "--json"], capture_output=True, check=False
    )
    after = os.times()
    took_s = after.children_user + after.children_system - before.children_user - before.children_system
    document = json.loads(done.stdout)
    if document["model"] != model.name:
        raise SystemExit(f"the command checks {document['model']}, not {model.name}")
    counts = document["states"], document["transitions"]
    show(title, *(f"{count:,}" for count in counts), f"{took_s:.2f}", *rates(took_s, *counts))


def rates(took_s: float, *counts: int) -> list[str]:
    """So many a second each."""
    return [f"{count / max(took_s, 1e-3):,.0f}" for count in counts]


def show(title: str, *cells: str) -> None:
    """A line of the table."""
    print(f"{title:<42}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=False)))


def main() -> None:
    """Prints the table. Fails where two-phase commit has other states than are published."""
    show("", *COLUMNS)
    for managers, states in PUBLISHED.items():
        found = measure(f"two-phase commit of {managers}, cold", two_phase_commit(managers))
        if found.met != states:
            raise SystemExit(f"two-phase commit of {managers}: {found.met:,} states, published are {states:,}")
    measure("two-phase commit of 7, cold", two_phase_commit(7))
    for title, model, most in (
        ("consumer group, undisturbed", consumer_group(), 0),
        ("consumer group, 2 topics, 1 disturbance", consumer_group(topics={"foo": 1, "bar": 1}), 1),
        ("consumer group of 3, undisturbed", consumer_group(3), 0),
    ):
        cold = measure(f"{title}, cold", model, most)
        measure(f"{title}, warm", model, most, tables=cold.space)
    with tempfile.TemporaryDirectory() as folder:
        model = consumer_group(topics={"foo": 1, "bar": 1})
        measure("the same, 1 disturbance, on disk, cold", model, 1, disk=Disk(Memo(Path(folder) / "d", "bench")))
        measure_command("the same, whole command, cold", folder, model)
        measure_command("the same, whole command, warm", folder, model)
    for title, model in (
        ("two-phase commit of 5", two_phase_commit(5)),
        ("consumer group, undisturbed", consumer_group()),
    ):
        began = time.process_time()
        naive = Naive(model)
        took_s = time.process_time() - began
        show(
            f"{title}, one state at a time",
            f"{len(naive.cost):,}",
            "",
            f"{took_s:.2f}",
            *rates(took_s, len(naive.cost)),
        )


if __name__ == "__main__":
    main()
