"""Captured packets read as a program does: one file after the other, until they end or somebody stops it."""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterable
from typing import BinaryIO

from fsm.capture.frames import HELD
from fsm.capture.log import Log
from fsm.capture.packets import read_packets
from fsm.capture.reassembly import Reassembly
from fsm.render.wording import many

STDIN = "-"
"""The name of a capture that is read as it grows; what clients break is told meanwhile."""


def read_captures(files: Iterable[tuple[str, BinaryIO]], ports: Collection[int], log: Log, held: int = HELD) -> str:
    """Tells the log of all that is in the captures, as of one, and says what was read, on one line.

    Raises `InputError` for what is no capture. SIGTERM and SIGINT end it.
    """
    reassembly, at_ms, packets, damaged, others = Reassembly(ports, held), 0.0, 0, 0, 0
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for name, file in files:
            for packet in read_packets(file, name):
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
                    log.tell(news)
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
        for seen in reassembly.end(at_ms):
            log.take(seen)
        log.end(at_ms)
    return f"{many(packets, 'packet')}, {others - damaged} of them no TCP, {damaged} damaged\n"
