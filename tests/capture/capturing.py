"""The command before a broker, as tests of real clients start and stop it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from patience import PATIENCE_S

from fsm.wire import Exchange, Note, read_lines


class Capture:
    """The command before a broker."""

    def __init__(self, bootstrap: str, trace: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "fsm", "capture", "--broker", bootstrap.partition(",")[0], "-o", str(trace)]
        self.process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.bootstrap = self.process.stdout.readline().rpartition(" ")[2].strip()
        self.trace = trace
        self.output = ""

    def stop(self) -> list[Exchange | Note]:
        """Ends it, and gives what it has seen."""
        self.process.send_signal(signal.SIGTERM)
        self.output, _ = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0
        return list(read_lines(self.trace.read_text().splitlines(), str(self.trace)))
