"""Runs one job in a process of its own: seconds, CPU seconds, and the memory of its whole family while it ran.

Linux only: /proc tells which processes belong together and what each holds. Memory that processes share is divided
among them (PSS), so that a forked Python worker does not count what it has from its parent twice.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JOBS = Path(__file__).parent / "jobs.py"
EVERY_S = 0.1
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Measured:
    """What one job took, and what it says itself."""

    seconds: float
    """From the start of its process to its end."""
    cpu_seconds: float
    peak_mb: dict[str, float]
    """`all` at once; `driver` (the process itself), `jvm` and `workers` (Python below the JVM) each at its own peak."""
    inner: dict[str, Any]


def run(job: str, logs: Path, out: Path) -> Measured:
    """Runs a job of `jobs.py` to its end. Raises `SystemExit` where it fails."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    begun = time.perf_counter()
    with subprocess.Popen([sys.executable, JOBS, job, logs, out], stdout=subprocess.PIPE, env=environment) as child:
        watch = Watch(child.pid)
        watch.start()
        said, _ = child.communicate()
        seconds = time.perf_counter() - begun
        watch.done.set()
        watch.join()
    if child.returncode:
        raise SystemExit(f"{job} failed with {child.returncode}")
    return Measured(seconds, sum(watch.cpu.values()), watch.peak_mb, json.loads(said.splitlines()[-1]))


@dataclass(slots=True)
class Process:
    """A line of /proc."""

    pid: int
    parent: int
    program: str
    cpu_seconds: float


class Watch(threading.Thread):
    """Looks at a process and its descendants every `EVERY_S` seconds."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.root = root
        self.done = threading.Event()
        self.cpu: dict[int, float] = {}
        self.peak_mb = dict.fromkeys(("all", "driver", "jvm", "workers"), 0.0)

    def run(self) -> None:
        """Until it is told that the process has ended."""
        while not self.done.wait(EVERY_S):
            held = dict.fromkeys(self.peak_mb, 0.0)
            for one in family(self.root):
                self.cpu[one.pid] = one.cpu_seconds
                mine = memory_mb(one.pid)
                held["all"] += mine
                held["driver" if one.pid == self.root else "jvm" if one.program == "java" else "workers"] += mine
            for part, mb in held.items():
                self.peak_mb[part] = max(self.peak_mb[part], mb)


def family(root: int) -> list[Process]:
    """The process and all its descendants that live."""
    children: dict[int, list[Process]] = {}
    found = []
    for one in _processes():
        children.setdefault(one.parent, []).append(one)
        if one.pid == root:
            found.append(one)
    for one in found:  # grows while it is walked
        # A JVM starts programs through a child that is the JVM itself for a moment, memory and all.
        found += [child for child in children.get(one.pid, ()) if not (one.program == child.program == "java")]
    return found


def _processes() -> Iterator[Process]:
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                values = (path / "stat").read_text().rpartition(")")[2].split()
                program = (path / "exe").readlink().name
            except OSError:
                continue  # it has just ended, or is none of ours
            cpu_s = (int(values[11]) + int(values[12])) / TICKS
            yield Process(int(path.name), int(values[1]), program, cpu_s)


def memory_mb(pid: int) -> float:
    """Proportional memory of a process; none where it has just ended."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0
