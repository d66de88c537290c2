"""How many steps of recorded walks of Apache Kafka our coordinator takes exactly as Kafka did: `make conformance`.

    python tests/conformance.py [DATA] [--only 4.4.0/plain] [--jobs N] [--show N]

DATA is a folder of recordings (`*.jsonl`, as they are, as `.xz`, or inside `.tar.xz`); without it, those that lie
beside the tests. Printed are, per version and family: walks, steps, steps equal up to the first difference of each
walk, and how many of them needed a freedom that the rules leave (a tie of an assignor, the order
of a hash map, an instant near a deadline, metadata before a change of topics that the coordinator did not know yet).
Below stand the first differences: request, field, expected, got. Exit status 1 if there are any.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from recorded_walks import Outcome, follow, is_recording, read

HERE = Path(__file__).parent


class Result(NamedTuple):
    """One walk, followed as far as it went."""

    release: str
    family: str
    name: str
    steps: int
    outcome: Outcome | None
    text: str
    """The first difference, or what was raised."""


def recordings(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The recorded walks below the folder, as their bytes, by name."""
    spec = importlib.util.spec_from_file_location("case_files", HERE / "cases" / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    cases = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = cases
    spec.loader.exec_module(cases)
    for file in cases.case_files(folder):
        if file.kind == "json lines" and is_recording(file.head):
            yield file.name, file.content


def followed(named: tuple[str, bytes]) -> Result:
    """One walk against our coordinator."""
    here = ("?", "?", named[0], 0)
    try:
        recording = read(json.loads(line) for line in named[1].splitlines() if line.strip())
        here = (recording.release, recording.family, recording.name, len(recording.steps))
        outcome = follow(recording)
    except Exception:  # a fault of ours, shown like a difference
        return Result(*here, None, traceback.format_exc(limit=-4))
    return Result(*here, outcome, str(outcome.difference or ""))


def main(arguments: list[str]) -> int:
    """Prints the table and the first differences."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, default=HERE / "cases" / "oracle")
    parser.add_argument("--only", default="", help="walks whose name begins so: 4.4.0/plain, 4.0.0/, 4.4.0/plain-1")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", type=int, default=5, help="how many differences to print in full")
    given = parser.parse_args(arguments)
    walks = [walk for walk in recordings(given.data) if given.only in walk[0]]
    if not walks:
        print(f"conformance: no recorded walk below {given.data}", file=sys.stderr)
        return 2
    return report(list(each(walks, given.jobs)), given.show)


def each(walks: list[tuple[str, bytes]], jobs: int) -> Iterable[Result]:
    """Every walk, in order, in as many processes as allowed."""
    if jobs < 2 or len(walks) < 4:
        return map(followed, walks)
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(followed, walks, chunksize=4))


def report(results: list[Result], show: int) -> int:
    """The table, one row per version and family, then the first differences."""
    rows: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        rows.setdefault((result.release, result.family), []).append(result)
    columns = ("walks", "whole", "steps", "equal", "ties", "order", "clock", "image")
    print(f"{'kafka':7} {'family':15} {' '.join(f'{name:>6}' for name in columns)}")
    for (release, family), found in sorted(rows.items()):
        print(f"{release:7} {family:15} {line(found)}")
    print(f"{'all':23} {line(results)}")
    wrong = [result for result in results if result.text]
    for result in wrong[:show]:
        print(f"\n{result.name}\n{result.text}" if result.outcome is None else f"\n{result.text}")
    if wrong[show:]:
        print(f"\n{len(wrong) - show} more walks differ: {' '.join(result.name for result in wrong[show : show + 40])}")
    return int(bool(wrong))


def line(found: list[Result]) -> str:
    """Walks, walks without a difference, steps, steps equal, steps that needed a freedom."""
    outcomes = [result.outcome for result in found if result.outcome]
    whole = sum(not result.text for result in found)
    steps = sum(result.steps for result in found)
    equal = sum(outcome.equal for outcome in outcomes)
    freedoms = (sum(counts) for counts in zip(*(outcome.freedoms for outcome in outcomes), strict=True))
    return " ".join(f"{number:6}" for number in (len(found), whole, steps, equal, *freedoms))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
