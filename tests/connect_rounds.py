"""`make connect-rounds`: recorded Connect clusters held against the assignor and the worker's table.

Every round that a recorded leader computed is computed again from what its DEBUG log says it was given; every worker's
lines are followed through the table `connect-worker`. A line for each scenario says how many rounds came out equal and
how many of the workers' steps the table has; differences follow as scenario, worker, time, expected, got.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "connect")]

import recordings
from recorded_rounds import differences, rounds_of

from fsm.audit.connect.table_path import TablePath as WorkerPath
from fsm.audit.rows import At, Known, Place
from fsm.logs.programs.connect_worker import FORMATS
from fsm.logs.reading.entries import records_of
from fsm.logs.reading.pieces import WHOLE, Piece, reader_of

RECORDINGS = recordings.DATA / "connect-logs.tar.xz"


class Compared(NamedTuple):
    """Logs held against the program; of several logs the sums."""

    equal: int = 0
    """Rounds whose outputs came out."""
    differing: int = 0
    legal: int = 0
    """Steps of workers that the table has."""
    illegal: int = 0
    lines: tuple[str, ...] = ()
    """Every difference."""

    def __or__(self, other: Compared) -> Compared:
        return Compared(
            self.equal + other.equal,
            self.differing + other.differing,
            self.legal + other.legal,
            self.illegal + other.illegal,
            self.lines + other.lines,
        )

    @property
    def clean(self) -> bool:
        """True where nothing differs."""
        return not (self.differing or self.illegal)


def main() -> int:
    """Prints table and differences; gives 0 without differences, 1 with some, 2 without recordings."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("data", type=Path, nargs="?", default=RECORDINGS, help="folder or archive of scenarios")
    data = arguments.parse_args().data
    if not data.exists():
        print(f"connect-rounds: {data}: there is no such file or folder", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as work:
        logs = sorted(log for root in recordings.unpacked(data, Path(work)) for log in logs_below(root))
        if not logs:
            print(f"connect-rounds: no logs of workers below {data}", file=sys.stderr)
            return 2
        return report(logs)


def logs_below(root: Path) -> Iterator[Path]:
    """The logs of workers; brokers write theirs beside them."""
    return (log for log in root.rglob("*.log") if log.name != recordings.BROKER)


def report(logs: list[Path]) -> int:
    """Prints a line for each scenario, their sum, and what differs."""
    print(f"{'scenario':<36} {'rounds equal':>12} {'differing':>9} {'steps legal':>12} {'illegal':>8}")
    total = Compared()
    done = 0
    for folder, mine in groupby(logs, key=lambda log: log.parent):
        here = Compared()
        for log in mine:
            done += 1
            watched(f"{done} of {len(logs)} logs, {folder.name}")
            here |= compared(log)
        watched("")
        print(line(folder.name, here), flush=True)
        total |= here
    print(line(f"all {len(logs)} logs", total))
    print(f"\ndifferences: {len(total.lines)}", *total.lines, sep="\n  ")
    return 0 if total.clean else 1


def watched(text: str) -> None:
    """What is being read, where somebody watches."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{f'connect-rounds: {text}' if text else ''}")
        sys.stderr.flush()


def line(name: str, sums: Compared) -> str:
    """A line of the table."""
    return f"{name:<36} {sums.equal:>12} {sums.differing:>9} {sums.legal:>12} {sums.illegal:>8}"


def compared(log: Path) -> Compared:
    """One worker's log."""
    with log.open(encoding="utf-8", errors="replace") as text:
        rounds = list(rounds_of(text))
    found = list(differences(rounds))
    differing = len({difference.time_ms for difference in found})
    lines = [describe(log, d.time_ms, f"round, {d.what}", d.expected, d.got) for d in found]
    worker = WorkerPath("", log.stem)
    illegal = [each for seen in records(log) for each in worker.see(seen)]
    lines += [describe(log, each.start_ms, "step", "one that the table has", each.summary) for each in illegal]
    return Compared(len(rounds) - differing, differing, worker.steps - len(illegal), len(illegal), tuple(lines))


def records(log: Path) -> Iterable[Known]:
    """What the lines of one worker say, in order."""
    reader = reader_of(Piece(str(log), 0, WHOLE), FORMATS)
    for entry in reader.entries():
        for record in records_of(entry, UTC) or ():
            yield Known(record, At(record.ts_ms, Place(str(log), entry.offset)))


def describe(log: Path, time_ms: int, what: str, expected: object, got: object) -> str:
    """A difference as a line."""
    at = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return f"{log.parent.name} {log.stem} {at} {what}: expected {expected}, got {got}"


if __name__ == "__main__":
    sys.exit(main())
