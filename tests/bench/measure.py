"""Runs a program to its end: seconds, CPU seconds and memory of it and of all that it starts.

Linux only. CPU and memory are sampled in /proc: the kernel adds up the CPU of children that are waited for, and those
who fork Spark's Python workers do not wait for them. Memory that processes share is divided among them (PSS), so that
a forked worker does not count what it has from its parent twice.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

EVERY_S = 0.1
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Measured:
    """What one program took."""

    seconds: float
    """From the start of its process to its end."""
    cpu_seconds: float
    peak_mb: dict[str, float]
    """`all` at once; `driver` (the process itself), `jvm` and `workers` (Python below the JVM) each at its own peak."""
    printed: str


def run(command: Sequence[str | Path], **environment: str) -> Measured:
    """Runs a command to its end. Raises `SystemExit` where it fails: exit status 1 is that of an audit that found."""
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    begun = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=settings, text=True) as child:
        watch = Watch(child.pid)
        watch.start()
        printed, _ = child.communicate()
        seconds = time.perf_counter() - begun
        watch.done.set()
        watch.join()
    if child.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(map(str, command))} failed with {child.returncode}")
    return Measured(seconds, sum(watch.cpu_s.values()), watch.peak_mb, printed)


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
        self.cpu_s: dict[int, float] = {}
        self.peak_mb = dict.fromkeys(("all", "driver", "jvm", "workers"), 0.0)

    def run(self) -> None:
        """Until it is told that the process has ended."""
        while not self.done.wait(EVERY_S):
            held = dict.fromkeys(self.peak_mb, 0.0)
            for one in family(self.root):
                self.cpu_s[one.pid] = one.cpu_seconds
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
