"""The output of a running capture: its trace, and lines or a table on the terminal."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TextIO

from fsm.capture.judging import Judging
from fsm.capture.watch import Watch
from fsm.wire.exchange import Exchange, Note, to_line

MOST_NEWS = 20
"""How many lines of news are shown below the table."""
REDRAWING_MS = 200
CLEAR = "\x1b[H\x1b[J"


class Log:
    """Writes exchanges and notes to a trace, and shows news."""

    def __init__(self, trace: TextIO | None, show: Callable[[str], None], columns: int | None = None) -> None:
        """`columns` is the width of the terminal; None without one: then news is printed immediately."""
        self.watch, self.judging = Watch(), Judging()
        self._trace, self._show, self._columns = trace, show, columns
        self._new: list[Exchange | Note] = []
        self._drawn_ms = 0.0
        self._news: deque[str] = deque(maxlen=MOST_NEWS)

    def take(self, seen: Exchange | Note) -> None:
        """Adds an exchange or a note; the next tick writes it."""
        self._new.append(seen)

    def tick(self, at_ms: float) -> None:
        """Writes what is new; redraws the table periodically."""
        new, self._new = self._new, []
        for seen in new:
            if self._trace:
                self._trace.write(f"{to_line(seen)}\n")
            self.judging.take(seen)
            self.show_news(self.watch.take(seen))
        if self._trace and new:
            self._trace.flush()
        if self._columns and abs(at_ms - self._drawn_ms) >= REDRAWING_MS:
            self._drawn_ms = at_ms
            text = "".join(f"{line[: self._columns]}\n" for line in self._news)
            self._show(f"{CLEAR}{self.watch.table(at_ms, self._columns)}\n{text}")

    def show_news(self, news: Sequence[str]) -> None:
        """Shows lines, at once or with the table."""
        self._news += news
        if news and self._columns is None:
            self._show("".join(f"{line}\n" for line in news))

    def end(self, at_ms: float) -> None:
        """Writes what is new for the last time."""
        self._drawn_ms = 0.0
        self.tick(at_ms)
        self.judging.end()

    def summary(self) -> str:
        """The totals and findings at the end."""
        return f"{self.watch.summary()}{self.judging.summary()}"
