"""What a computation of the target costs, as a group grows, beside Kafka's own assignors.

    python tests/bench/assignors.py [--rounds N]

One process; 100 topics, every member subscribed to all of them, ten partitions for each member: `empty` has no last
target, `join` has one and a member more. A figure is the best of the rounds, as Kafka's are: those were taken from the
Java classes of 4.4.0, warm, best of five, on two shared cores, so the ratio compares programs and machines at once.
The growth is our time against that of a tenth of the members. Nobody passes or fails here: the figures are for reading.
"""

import argparse
import gc
import time
from collections.abc import Callable

from fsm.coordinator.assignors import GroupSpec, MemberSpec, range_assignor, uniform_assignor

TOPICS = 100
KAFKA_MS = {
    ("uniform", "empty", 100): 11.0,
    ("uniform", "join", 100): 1.4,
    ("uniform", "empty", 1_000): 65.0,
    ("uniform", "join", 1_000): 39.0,
    ("uniform", "empty", 10_000): 263.0,
    ("uniform", "join", 10_000): 181.0,
    ("range", "empty", 10_000): 52.0,
}
"""Milliseconds that the Java classes took."""


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5, help="the best of so many counts (default: %(default)s)")
    rounds = parser.parse_args().rounds
    print(
        f"{'assignor':<22}{'case':<7}{'members':>8}{'partitions':>12}{'ms':>9}{'growth':>8}{'Kafka ms':>10}{'ratio':>7}"
    )
    for assignor, case in (("uniform", "empty"), ("uniform", "join"), ("range", "empty"), ("two halves", "empty")):
        before = None
        for members in (100, 1_000, 10_000):
            ours = best(run(assignor, case, members), rounds)
            theirs = KAFKA_MS.get((assignor, case, members))
            growth = "" if before is None else f"x{ours / before:.1f}"
            print(f"{assignor:<22}{case:<7}{members:>8}{10 * members:>12}{ours:>9.1f}{growth:>8}{beside(theirs, ours)}")
            before = ours


def beside(theirs: float | None, ours: float) -> str:
    """Kafka's figure and the ratio to it, where it was measured."""
    return "" if theirs is None else f"{theirs:>10.1f}{ours / theirs:>7.2f}"


def run(assignor: str, case: str, members: int) -> Callable[[], object]:
    """The call that is measured."""
    if assignor == "two halves":
        group = halves(members)
        return lambda: uniform_assignor(group)
    group = fleet(members)
    if case == "join":
        group = joined(group)
    call = uniform_assignor if assignor == "uniform" else range_assignor
    return lambda: call(group)


def fleet(members: int) -> GroupSpec:
    """Members without a last target, all subscribed to every topic."""
    topics = {f"topic-{i:03}": members // 10 for i in range(TOPICS)}
    subscribed = tuple(topics)
    return GroupSpec({f"member-{i:05}": MemberSpec(subscribed) for i in range(members)}, topics, homogeneous=True)


def joined(group: GroupSpec) -> GroupSpec:
    """The settled group and a member more."""
    assigned = uniform_assignor(group)
    members = {m: MemberSpec(spec.subscribed, assigned[m]) for m, spec in group.members.items()}
    newcomer = MemberSpec(tuple(group.topics))
    return GroupSpec({**members, "newcomer": newcomer}, group.topics, homogeneous=True)


def halves(members: int) -> GroupSpec:
    """Members of which one half subscribes to the first two thirds of the topics, the other to the last two."""
    topics = {f"topic-{i:03}": members // 10 for i in range(TOPICS)}
    first, last = tuple(topics)[: 2 * TOPICS // 3], tuple(topics)[TOPICS // 3 :]
    specs = {f"member-{i:05}": MemberSpec(last if i % 2 else first) for i in range(members)}
    return GroupSpec(specs, topics, homogeneous=False)


def best(call: Callable[[], object], rounds: int) -> float:
    """Milliseconds of the quickest round; the collector rests while it runs, as it would between requests."""
    times = []
    for _ in range(rounds):
        gc.collect()
        gc.disable()
        start = time.perf_counter()
        call()
        times.append(1000 * (time.perf_counter() - start))
        gc.enable()
    return min(times)


if __name__ == "__main__":
    main()
