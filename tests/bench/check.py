"""What a check costs: states and transitions a CPU second, bytes a state, and what one state at a time would cost.

Two-phase commit is the spec of J. Gray and L. Lamport, with the states that the test of Stateright's `examples/2pc.rs`
counts. With its jar, TLC, the checker of TLA+, checks the same (`TwoPhaseCommit.tla`) and has to find as many. Warm is
the same search with the tables of the cold one, as `--memo` keeps them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
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
LARGEST = 7
SPEC = Path(__file__).with_name("TwoPhaseCommit.tla")
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


def measure_tlc(jar: str, managers: int, states: int) -> None:
    """One line: TLC with two workers, from the start of its Java to its end. Fails if it finds another number."""
    names = ", ".join(f'"resource-{i}"' for i in range(1, managers + 1))
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "two.cfg"
        config.write_text(f"SPECIFICATION Spec\nINVARIANT Agree\nCONSTANT Resources = {{{names}}}\n")
        command = ["java", "-XX:+UseParallelGC", "-cp", jar, "tlc2.TLC", "-workers", "2", "-deadlock"]
        before = os.times()
        done = subprocess.run(
            [*command, "-metadir", folder, "-config", str(config), str(SPEC)],
            capture_output=True,
            text=True,
            check=False,
        )
        after = os.times()
    found = re.search(r"^(\d+) states generated, (\d+) distinct states found, 0 states left", done.stdout, re.MULTILINE)
    if found is None:
        raise SystemExit(f"{jar}: {(done.stdout or done.stderr).strip().splitlines()[-1]}")
    if int(found[2]) != states:
        raise SystemExit(f"two-phase commit of {managers}: {states:,} states, TLC finds {int(found[2]):,}")
    took_s = after.children_user + after.children_system - before.children_user - before.children_system
    counts = int(found[2]), int(found[1])
    show(f"two-phase commit of {managers}, TLC", *(f"{n:,}" for n in counts), f"{took_s:.2f}", *rates(took_s, *counts))


def rates(took_s: float, *counts: int) -> list[str]:
    """So many a second each."""
    return [f"{count / max(took_s, 1e-3):,.0f}" for count in counts]


def show(title: str, *cells: str) -> None:
    """A line of the table."""
    print(f"{title:<42}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=False)))


def main() -> None:
    """Prints the table. Fails where two-phase commit has other states than are published or than TLC finds."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--tlc", metavar="JAR", help="class path of TLC, such as tla2tools.jar")
    tlc = parser.parse_args().tlc
    show("", *COLUMNS)
    for managers, states in PUBLISHED.items():
        found = measure(f"two-phase commit of {managers}, cold", two_phase_commit(managers))
        if found.met != states:
            raise SystemExit(f"two-phase commit of {managers}: {found.met:,} states, published are {states:,}")
    largest = measure(f"two-phase commit of {LARGEST}, cold", two_phase_commit(LARGEST))
    measure(f"two-phase commit of {LARGEST}, warm", two_phase_commit(LARGEST), tables=largest.space)
    if tlc:
        for managers, states in (PUBLISHED | {LARGEST: largest.met}).items():
            measure_tlc(tlc, managers, states)
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
