"""`make connect-rounds`: recorded Connect clusters held against the assignor and the worker's table.

Every round that a recorded leader computed is computed again from what its DEBUG log says it was given; every worker's
lines are followed through the table `connect-worker`. Differences come out as scenario, worker, time, expected, got.
"""

from __future__ import annotations

import argparse
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from fsm.audit.connect_path import illegal_steps
from fsm.audit.rows import Place, Seen
from fsm.connect.recorded import differences, rounds_of
from fsm.logs.connect_worker import FORMATS
from fsm.logs.entries import records_of
from fsm.logs.pieces import WHOLE, Piece, PieceReader, is_gzip

RECORDINGS = Path(__file__).parent / "connect" / "recordings.tar.xz"


def main() -> int:
    """Prints differences and totals; gives 0 without differences, 1 with some, 2 without recordings."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("data", type=Path, nargs="?", default=RECORDINGS, help="folder or archive of scenarios")
    data = arguments.parse_args().data
    with tempfile.TemporaryDirectory() as work:
        logs = sorted(unpacked(data, Path(work)).rglob("W*.log"))
        if not logs:
            print(f"connect-rounds: no logs W*.log below {data}", file=sys.stderr)
            return 2
        return report(logs)


def unpacked(data: Path, work: Path) -> Path:
    if data.is_dir():
        return data
    with tarfile.open(data) as archive:
        archive.extractall(work, filter="data")
    return work


def report(logs: list[Path]) -> int:
    cooperative = eager = steps = found = 0
    for log in logs:
        with log.open(encoding="utf-8", errors="replace") as lines:
            rounds = list(rounds_of(lines))
        eager += sum(r.is_eager for r in rounds)
        cooperative += sum(not r.is_eager for r in rounds)
        for difference in differences(rounds):
            found += 1
            say(log, difference.time_ms, difference.what, difference.expected, difference.got)
        seen = list(records(log))
        steps += len(seen)
        for illegal in illegal_steps("", log.stem, seen):
            found += 1
            say(log, illegal.start_ms, "step", "a row of the table", illegal.summary)
    print(f"{len(logs)} logs: {cooperative} cooperative rounds, {eager} eager rounds, {steps} records of workers;")
    print(f"{found} differences")
    return 1 if found else 0


def records(log: Path) -> Iterator[Seen]:
    reader = PieceReader(Piece(str(log), 0, WHOLE, is_gzip(log)), FORMATS)
    for entry in reader.entries():
        for record in records_of(entry, UTC) or ():
            yield Seen(record, Place(str(log), entry.offset))


def say(log: Path, time_ms: int, what: str, expected: object, got: object) -> None:
    at = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    print(f"{log.parent.name} {log.stem} {at} {what}: expected {expected}, got {got}")


if __name__ == "__main__":
    sys.exit(main())
