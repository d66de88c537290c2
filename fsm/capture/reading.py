"""Reads captured packets as a program: one file after the other, until they end or a signal arrives."""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterable, Iterator
from typing import BinaryIO, Self

from fsm.capture.frames import HELD
from fsm.capture.log import Log
from fsm.capture.packets import Packet, read_packets
from fsm.capture.reassembly import Reassembly
from fsm.render.wording import many
from fsm.wire.exchange import Note

STDIN = "-"
"""The name for stdin, which is read as it grows; findings are reported meanwhile."""


def read_captures(files: Iterable[tuple[str, BinaryIO]], ports: Collection[int], log: Log, held: int = HELD) -> str:
    """Passes the content of all captures to the log, and prints a line about the input.

    Raises `InputError` for an invalid capture. SIGTERM and SIGINT end it.
    """
    reassembly, at_ms, packets, damaged, others = Reassembly(ports, held), 0.0, 0, 0, 0
    with _Stop() as stop:
        try:
            for name, file in files:
                for packet in stop.before(read_packets(file, name)):
                    packets, damaged = packets + 1, damaged + packet.is_damaged
                    if packet.segment is None:
                        others += 1
                        continue
                    at_ms = packet.segment.at_ms
                    for seen in reassembly.take(packet.segment):
                        log.take(seen)
                    log.tick(at_ms)
                    news = log.judging.news(at_ms)
                    if name == STDIN:
                        log.show_news(news)
        finally:
            for seen in reassembly.end(at_ms):
                log.take(seen)
            if damaged:
                log.take(Note(at_ms, "damaged", {"packets": damaged}))
            log.end(at_ms)
    return f"{many(packets, 'packet')}, {others - damaged} of them not TCP, {damaged} damaged\n"


class _Stop:
    """A context in which SIGTERM and SIGINT only interrupt the wait for a packet."""

    def __init__(self) -> None:
        self._asked = self._waits = False

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, *_: object) -> None:
        self._asked = True
        if self._waits:
            self._waits = False
            raise KeyboardInterrupt

    def before(self, packets: Iterator[Packet]) -> Iterator[Packet]:
        """The packets before a signal."""
        try:
            while not self._asked:
                self._waits = True
                packet = None if self._asked else next(packets, None)
                self._waits = False
                if packet is None:
                    return
                yield packet
        except KeyboardInterrupt:
            pass
        finally:
            self._waits = False
