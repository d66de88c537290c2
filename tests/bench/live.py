"""How much a followed audit keeps up with: clients at DEBUG, whose lines come at a rate, and how far it lags behind.

    python tests/bench/live.py [--rate LINES_A_SECOND] [--seconds N] [--master MASTER] [--trigger-ms MS] [--lasting]

The logs are the recorded ones over and over, under fresh names (`fleet.py`). A round of them begins as soon as the one
before is half written, so that several are growing at any time; each file grows once a second, by whole lines. What is
counted is CPU of the command with all its processes, from its start to the batch that has read everything.

With `--lasting` the groups of the first round go on for ever: what a later round says stands in the same files, five
minutes later by its stamps. Each member starts, rebalances and ends once in every round.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).parent.parent))

import fleet
import measure
import recordings

ROUND = 300_000
"""Lines of a round."""
SPAN_S = 10.0
"""How long a file grows, in so many parts, where groups do not last."""
PARTS_OF_FILE = 10
ROUND_MIN = 5
"""How much later a round is than the one before where groups last: longer than any recording."""
_STAMP = re.compile(rb"(?<![\d.])(1[78]\d{8})(?=\.\d{3}\|)|(?<=20\d\d.\d\d.\d\d[ T])(\d\d):(\d\d)(?=:\d\d)")
LOOK_S = 0.2
PARTS = 6
"""Of a run, for which is told what a line takes."""


class Sample(NamedTuple):
    """When a batch had ended: how much was written and read by then, in bytes, and what that took."""

    at_s: float
    offered: int
    read: int
    cpu_s: float


def main() -> None:
    """Writes at a rate, and waits until everything was read."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=100_000, help="lines a second (%(default)s)")
    parser.add_argument("--seconds", type=int, default=60, help="for how long (%(default)s)")
    parser.add_argument("--master", default="local[2]", help="a Spark master, or none (%(default)s)")
    parser.add_argument("--trigger-ms", type=int, default=5000, help="(%(default)s)")
    parser.add_argument("--lasting", action="store_true", help="the groups of the first round go on")
    options = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} cores, load before {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="fsm-bench-") as made:
        work = Path(made)
        roots = recordings.unpacked(recordings.DATA, work / "recordings")
        chosen = fleet.mix(recordings.scenarios(roots), ROUND)
        lines = sum(log.read_bytes().count(b"\n") for scenario in chosen for log in scenario.logs)
        rounds = max(1, round(options.rate * options.seconds / lines))
        (work / "logs").mkdir()
        if options.lasting:
            prepared = [prepare(chosen, 0, work)] * rounds
        else:
            prepared = [prepare(chosen, number, work) for number in range(rounds)]
        run(options, work, prepared, lines)


Prepared = list[tuple[Path, bytes]]


def prepare(chosen: list[recordings.Scenario], number: int, work: Path) -> Prepared:
    """The files of a round and what they will hold."""
    found = []
    for place, scenario in enumerate(chosen):
        for log in scenario.logs:
            data = fleet.renamed(log.read_bytes(), scenario.folder.name, f"r{number}.{place}.")
            found.append((work / "logs" / f"{number:03}.{place:03}.{log.name}", data))
    return found


def later(data: bytes, number: int) -> bytes:
    """The same lines in another round, by their time stamps; a day begins anew at its end."""
    minutes = ROUND_MIN * number

    def move(found: re.Match[bytes]) -> bytes:
        if found[1]:
            return b"%d" % (int(found[1]) + 60 * minutes)
        minute = int(found[2]) * 60 + int(found[3]) + minutes
        return b"%02d:%02d" % (minute // 60 % 24, minute % 60)

    return _STAMP.sub(move, data) if number else data


def run(options: argparse.Namespace, work: Path, prepared: list[Prepared], lines: int) -> None:
    """Starts the command, grows the logs, prints what it took."""
    command = [sys.executable, "-m", "fsm", "audit", str(work / "logs"), "-o", str(work / "out"), "--follow"]
    command += ["--master", options.master, "--trigger-ms", str(options.trigger_ms)]
    size = sum(len(data) for one in prepared for _, data in one)
    every_s = lines / options.rate
    planned = schedule(prepared, every_s, every_s if options.lasting else SPAN_S)
    parts = sorted(planned, key=lambda one: (one[0], one[1]))
    following = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    watch = measure.Watch(following.pid)
    watch.start()
    begun_s = time.monotonic()
    offered, samples = 0, [Sample(0.0, 0, 0, 0.0)]

    def look() -> int:
        """Notes what a batch took, and gives how much is read."""
        has = read_bytes(work / "out")
        if has > samples[-1].read:
            samples.append(Sample(time.monotonic() - begun_s, offered, has, sum(watch.cpu_s.values())))
        return has

    try:
        looked_s = begun_s
        for due_s, number, path, data in parts:
            shifted = later(data, number) if options.lasting else data
            time.sleep(max(0.0, begun_s + due_s - time.monotonic()))
            with path.open("ab") as out:
                out.write(shifted)
            offered += len(shifted)
            if time.monotonic() - looked_s > LOOK_S:
                looked_s = time.monotonic()
                look()
        written_s = time.monotonic()
        behind = size - read_bytes(work / "out")
        while look() < size and following.poll() is None:
            time.sleep(LOOK_S)
        peak_mb = watch.peak_mb["all"]
        done_s = time.monotonic()
        cpu_s = sum(watch.cpu_s.values())
    finally:
        watch.done.set()
        following.terminate()
        following.wait(60)
    count = lines * len(prepared)
    files = len({path for one in prepared for path, _ in one})
    took_s = written_s - begun_s
    print(f"{count:,} lines of {files:,} files in {took_s:.1f} s: {count / took_s:,.0f} a second")
    print(f"read {done_s - written_s:.1f} s after the last, of which {100 * behind / size:.0f} % were left then")
    print(f"CPU {cpu_s:.1f} s: {1e6 * cpu_s / count:.1f} us a line, {count / cpu_s:,.0f} lines a CPU second")
    print(f"at most {peak_mb:,.0f} MB")
    print_samples(samples, count / size)


def print_samples(samples: list[Sample], lines_a_byte: float) -> None:
    """What a line took in each part of a run, by batches."""
    print("    until s  lines offered   left to read  us a line")
    before, shown = samples[0], 0
    for sample in samples[1:]:
        if sample.read * PARTS < samples[-1].read * (shown + 1):
            continue
        took_us = 1e6 * (sample.cpu_s - before.cpu_s) / ((sample.read - before.read) * lines_a_byte)
        offered, left = sample.offered * lines_a_byte, (sample.offered - sample.read) * lines_a_byte
        print(f"{sample.at_s:11.0f} {offered:14,.0f} {left:14,.0f} {took_us:10.1f}")
        before, shown = sample, sample.read * PARTS // samples[-1].read


Part = tuple[float, int, Path, bytes]
"""When it is written, in which round, where, and what."""


def schedule(prepared: list[Prepared], every_s: float, span_s: float) -> Iterator[Part]:
    """The parts of each file."""
    for number, files in enumerate(prepared):
        for path, data in files:
            start = 0
            for part in range(1, PARTS_OF_FILE + 1):
                end = (
                    len(data) if part == PARTS_OF_FILE else data.rfind(b"\n", 0, len(data) * part // PARTS_OF_FILE) + 1
                )
                if end > start:
                    yield number * every_s + part * span_s / PARTS_OF_FILE, number, path, data[start:end]
                    start = end


def read_bytes(out: Path) -> int:
    """How much the last batch had read."""
    try:
        found = re.search(r"^fsm_audit_read_bytes (\d+)$", (out / "metrics.prom").read_text(), re.MULTILINE)
    except FileNotFoundError:
        return 0
    return int(found[1]) if found else 0


if __name__ == "__main__":
    main()
