"""One audit on Spark of as many lines as wanted: time by stage, lines a second, peak memory.

    python tests/bench/scale.py --lines 100000000 --chatter 9 --scratch DIR

The logs are the recorded ones over and over, under fresh names (`fleet.py`): DEBUG logs of clients and nothing else,
unless `--chatter` mixes in lines of the application, as the log of a service has them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))

import fleet
import measure
import recordings

ROUND = 1_000_000
"""Lines of the mix that is repeated."""


def main() -> None:
    """Writes the logs, runs the job, prints what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=10_000_000, help="about so many lines (default: %(default)s)")
    parser.add_argument(
        "--chatter", type=int, default=0, help="lines of the application before each entry of its client"
    )
    parser.add_argument("--scratch", type=Path, help="where the logs go: some 250 MB for a million lines")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.scratch, prefix="fsm-scale-") as work:
        made = lay_out(Path(work), options.lines, options.chatter)
        print(
            f"{made.lines:,} lines, {made.size / 1e6:,.0f} MB, {made.files:,} files, {made.groups:,} groups", flush=True
        )
        took = measure.run("audit-spark", made.folder, Path(work) / "out")
    print(f"{took.seconds:,.0f} s, {made.lines / took.seconds:,.0f} lines/s on {len(os.sched_getaffinity(0))} cores, ")
    print(f"CPU seconds {took.cpu_seconds:,.0f}, findings above info {took.inner['findings']:,}")
    for name, seconds in took.inner["stages"]:
        print(f"  {seconds:9,.1f} s  {name}")
    print("peak MB: " + ", ".join(f"{part} {mb:,.0f}" for part, mb in took.peak_mb.items()))


def lay_out(work: Path, lines: int, chatter: int) -> fleet.Fleet:
    """A mix of all scenarios, as often as it takes."""
    lines //= chatter + 1
    roots = recordings.unpacked(recordings.DATA, work / "recordings")
    chosen = fleet.mix(recordings.scenarios(roots), min(lines, ROUND))
    return fleet.write(chosen, max(1, round(lines / ROUND)), work / "logs", chatter)


if __name__ == "__main__":
    main()
