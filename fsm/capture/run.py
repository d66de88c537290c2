"""The proxy as a program: listens, writes what it saw, shows it, and ends on SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

from fsm.capture.frames import HELD
from fsm.capture.probe import probe
from fsm.capture.proxy import HERE, Proxy, now_ms
from fsm.capture.watch import Watch
from fsm.wire.exchange import Exchange, Note, to_line

TICK_S = 0.25
"""How often what was seen is written and shown."""
MOST_NEWS = 20
"""Lines of news below the table."""
CLEAR = "\x1b[H\x1b[J"


class Options(NamedTuple):
    """How a capture is to run."""

    host: str
    port: int
    at: int = 0
    """The port on loopback at which clients find the broker; 0: any that is free."""
    tls: ssl.SSLContext | None = None
    passes_tls: bool = False
    held: int = HELD


class Log:
    """Takes what was seen, and tells it: to a trace, and to whoever looks on."""

    def __init__(self, trace: TextIO | None, show: Callable[[str], None], columns: int | None = None) -> None:
        """`columns` is how wide the terminal is; None: there is none, and news is printed as it comes."""
        self.watch = Watch()
        self._trace, self._show, self._columns = trace, show, columns
        self._new: list[Exchange | Note] = []
        self._news: deque[str] = deque(maxlen=MOST_NEWS)

    def take(self, seen: Exchange | Note) -> None:
        """Something was seen; it is told at the next tick."""
        self._new.append(seen)

    def tick(self, at_ms: float) -> None:
        """Tells what is new."""
        new, self._new = self._new, []
        for seen in new:
            if self._trace:
                self._trace.write(f"{to_line(seen)}\n")
            self._news += (news := self.watch.take(seen))
            if self._columns is None:
                self._show("".join(f"{line}\n" for line in news))
        if self._trace:
            self._trace.flush()
        if self._columns:
            told = "".join(f"{line[: self._columns]}\n" for line in self._news)
            self._show(f"{CLEAR}{self.watch.table(at_ms, self._columns)}\n{told}")


def run_proxy(options: Options, log: Log, show: Callable[[str], None]) -> None:
    """Runs until SIGTERM or SIGINT. Raises `InputError` where it cannot begin."""
    asyncio.run(_run(options, log, show))


async def _run(options: Options, log: Log, show: Callable[[str], None]) -> None:
    if not options.passes_tls:
        await probe(options.host, options.port, options.tls)
    proxy = Proxy(log.take, options.tls, passes_tls=options.passes_tls, held=options.held)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: log.take(_problem(context)))
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, stopped.set)
    try:
        here = proxy.listen(options.host, options.port, options.at)
        show(f"listening on {HERE}:{here}\n")
        if options.passes_tls:
            show("TLS is passed on untouched: nothing can be read, and clients learn the brokers' own addresses\n")
        while not stopped.is_set():
            log.tick(now_ms())
            await asyncio.wait([stopping := asyncio.ensure_future(stopped.wait())], timeout=TICK_S)
            stopping.cancel()
    finally:
        await proxy.close()
        log.tick(now_ms())


def _problem(context: dict[str, Any]) -> Note:
    return Note(now_ms(), "problem", {"why": str(context.get("exception") or context.get("message"))})
