"""Alarms, and the command that is run for each: one at a time, in a thread; the audit does not wait for it.

An alarm is written to a journal before its batch counts as written, and removed when its command has ended, with any
status. So each alarm is sent at least once, in order; if the audit is killed during a command, that alarm is sent
again, with the same id and version.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from fsm.audit.live.changes import Change

COMMAND_S = 30
WAITING = 1000
"""Most waiting alarms; further ones are counted and dropped."""


class Alarms:
    """The journal, and the thread that runs the command."""

    def __init__(self, journal: Path, command: Sequence[str], command_s: float = COMMAND_S) -> None:
        self.journal = journal
        self.command = tuple(command)
        self.command_s = command_s
        self.dropped = 0
        self._new = threading.Event()
        self._ends = threading.Event()
        with self._open() as store:
            store.execute("create table if not exists alarm (number integer primary key, told text)")
            store.execute("create table if not exists batch (last integer)")
        self._thread = threading.Thread(target=self._run_all, name="alarms", daemon=True)
        self._new.set()  # alarms of a process that was killed
        self._thread.start()

    def add(self, batch: int, alarms: Sequence[Change]) -> None:
        """Adds the alarms of a batch, once. Raises `sqlite3.Error` if they cannot be written."""
        with self._open() as store:
            (last,) = store.execute("select max(last) from batch").fetchone()
            if not alarms or (last is not None and batch <= last):
                return
            room = WAITING - self._count(store)
            store.executemany(
                "insert into alarm (told) values (?)", [(json.dumps(a.to_json()),) for a in alarms[:room]]
            )
            store.execute("delete from batch")
            store.execute("insert into batch values (?)", (batch,))
        if len(alarms) > room:
            self.dropped += len(alarms) - room
            self._print(f"{len(alarms) - room} alarms are not told: {WAITING} others wait")
        self._new.set()

    @property
    def waiting(self) -> int:
        """Number of alarms whose command has not ended yet."""
        with self._open() as store:
            return self._count(store)

    def close(self) -> None:
        """Waits for the rest, at most as long as one command may take; others are sent when the audit continues."""
        self._ends.set()
        self._new.set()
        self._thread.join(self.command_s)
        if left := self.waiting:
            self._print(f"{left} alarms wait, and are told when the same command goes on")

    # -- in its thread --------------------------------------------------------------------------------------

    def _run_all(self) -> None:
        with suppress(sqlite3.Error):  # the next write reports it
            while True:
                self._new.wait()
                self._new.clear()
                for number, alarm in self._first():
                    self._run(alarm)
                    with self._open() as store:
                        store.execute("delete from alarm where number = ?", (number,))
                if self._ends.is_set():
                    return

    def _first(self) -> Iterator[tuple[int, str]]:
        while True:
            with self._open() as store:
                found = store.execute("select number, told from alarm order by number limit 1").fetchone()
            if found is None:
                return
            yield found

    def _run(self, alarm: str) -> None:
        """Runs the command with the change as JSON on stdin. A failure is printed."""
        try:
            process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # Ctrl-C does not reach it
            )
        except OSError as problem:
            self._print(str(problem.strerror))
            return
        try:
            process.communicate(alarm, self.command_s)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._print(f"took longer than {self.command_s:g} s")
        else:
            if process.returncode:
                self._print(f"ended with status {process.returncode}")

    # -- both -----------------------------------------------------------------------------------------------

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The journal in one transaction, because several threads use it."""
        store = sqlite3.connect(self.journal, timeout=self.command_s)
        try:
            with store:
                yield store
        finally:
            store.close()

    @staticmethod
    def _count(store: sqlite3.Connection) -> int:
        (count,) = store.execute("select count(*) from alarm").fetchone()
        return int(count)

    def _print(self, text: str) -> None:
        print(f"fsm: --exec {self.command[0]}: {text}", file=sys.stderr)  # noqa: T201
