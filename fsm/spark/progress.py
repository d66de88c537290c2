"""What a long audit says on stderr while it runs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

LINE_S = 30
"""Where nobody watches a terminal, a line is written this often."""
_POLL_S = 0.5
_TOO_EARLY = 0.05
"""From a smaller share of the work no end is estimated."""


class Progress:
    """Says what is being done, since when, and how long it may still take: in place on a terminal, else in lines."""

    def __init__(self, stream: TextIO = sys.stderr, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream = stream
        self.clock = clock
        self.doing = "starting"
        self._on_terminal = stream.isatty()
        self._start_s = self._said_s = clock()

    def __call__(self, doing: str, share: float | None = None) -> None:
        """Says what is being done; `share` is how much of all is done, from 0 to 1."""
        new, self.doing = doing != self.doing, doing
        now_s = self.clock()
        if self._on_terminal:
            self.stream.write(f"\r\x1b[Kfsm audit: {self._text(now_s, share)}")
            self.stream.flush()
        elif now_s - self._said_s >= LINE_S and (new or share is not None):
            self._said_s = now_s
            self.stream.write(f"fsm audit: {self._text(now_s, share)}\n")
            self.stream.flush()

    def _text(self, now_s: float, share: float | None) -> str:
        passed_s = now_s - self._start_s
        if share is None or share <= _TOO_EARLY:
            return f"{self.doing}, {_minutes(passed_s)}"
        left = _minutes(passed_s * (1 - share) / share)
        return f"{self.doing}, {share:.0%}, {_minutes(passed_s)}, about {left} left"

    @contextmanager
    def shown(self) -> Iterator[None]:
        """The line is cleared when the block ends, however it ends."""
        try:
            yield
        finally:
            self.clear()

    def clear(self) -> None:
        if self._on_terminal:
            self.stream.write("\r\x1b[K")
            self.stream.flush()

    @contextmanager
    def watch(self, look: Callable[[], tuple[str, float] | None]) -> Iterator[None]:
        """Says what `look` tells, again and again while the block runs; None is nothing new."""
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(_POLL_S):
                try:
                    told = look()
                except Exception:
                    return
                if told is not None:
                    self(*told)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(timeout=2)


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
