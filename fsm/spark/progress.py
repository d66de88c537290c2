"""The progress line of a long audit on stderr."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

LINE_S = 30
"""Interval of lines if the stream is no terminal."""
_POLL_S = 0.5
_TOO_EARLY = 0.05
"""Below this share of the work no end is estimated."""
_TOO_LATE = 0.99
"""Nor above this one, because one large group may still be judged."""


class Progress:
    """Prints the current step, the time passed and the time left: in place on a terminal, else in lines."""

    def __init__(self, stream: TextIO = sys.stderr, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream = stream
        self.clock = clock
        self.doing = "starting"
        self._share: float | None = None
        self._look: Callable[[], tuple[str, float] | None] = lambda: None
        self._printing = threading.Lock()
        self._on_terminal = stream.isatty()
        self._start_s = self._shown_s = clock()

    def __call__(self, doing: str, share: float | None = None) -> None:
        """Prints the current step; `share` is the completed share of all work, from 0 to 1."""
        with self._printing:
            self.doing, self._share = doing, share
            now_s = self.clock()
            if self._on_terminal:
                self.stream.write(f"\r\x1b[Kfsm audit: {self._text(now_s)}")
                self.stream.flush()
            elif now_s - self._shown_s >= LINE_S:
                self._shown_s = now_s
                self.stream.write(f"fsm audit: {self._text(now_s)}\n")
                self.stream.flush()

    def _text(self, now_s: float) -> str:
        passed_s, share = now_s - self._start_s, self._share
        if share is None or not _TOO_EARLY < share < _TOO_LATE:
            return f"{self.doing}, {_minutes(passed_s)}"
        left = _minutes(passed_s * (1 - share) / share)
        return f"{self.doing}, {share:.0%}, {_minutes(passed_s)}, about {left} left"

    @contextmanager
    def show(self) -> Iterator[None]:
        """Updates the line every `_POLL_S` while the block runs, and clears it when the block ends."""
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(_POLL_S):
                try:
                    shown = self._look()
                except Exception:  # Spark may have stopped
                    shown = None
                self(*(shown or (self.doing, self._share)))

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(timeout=2)
            self.clear()

    def clear(self) -> None:
        if self._on_terminal:
            self.stream.write("\r\x1b[K")
            self.stream.flush()

    @contextmanager
    def watch(self, look: Callable[[], tuple[str, float] | None]) -> Iterator[None]:
        """Takes the current step from `look` while the block runs; None means unchanged."""
        self._look = look
        try:
            yield
        finally:
            self._look = lambda: None


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
