"""TCP segments from captured packets: files of tcpdump and similar tools (pcap, pcapng), or their output to a pipe; and
the program that reads them, one file after the other, until they end or a signal arrives.

Needs the package dpkt, which is in the extra `capture`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, BinaryIO, NamedTuple

import dpkt
import dpkt.pcapng

from fsm.capture.frames import HELD
from fsm.capture.log import Log
from fsm.capture.reassembly import Reassembly, Segment
from fsm.errors import InputError
from fsm.join.run import handle_signals
from fsm.render.wording import many
from fsm.wire.exchange import Note

LARGEST_PACKET = 1 << 24
"""Bytes of the largest packet or block that is read."""
PCAPNG = b"\x0a\x0d\x0d\x0a"
MOST_HEADERS = 8
"""Headers between the link and TCP: tags, IPv6's own."""


class Packet(NamedTuple):
    """A captured packet: a segment, or None for another or an unreadable packet."""

    segment: Segment | None
    is_damaged: bool = False


def read_packets(file: BinaryIO, name: str) -> Iterator[Packet]:
    """The packets of a capture, in order, as they arrive.

    Raises `InputError` for a file that is no capture or cannot be read further, and for an unknown link type.
    """
    source = _Bounded(file, name)
    try:
        reader: Any = (dpkt.pcapng if source.peek() == PCAPNG else dpkt.pcap).Reader(source)
        link = int(reader.datalink())
    except InputError:
        raise
    except Exception as problem:  # dpkt raises any exception for invalid bytes
        raise InputError(
            f"is not a packet capture: {_reason(problem)}", name, "give a capture of tcpdump, or -"
        ) from None
    parse = _parsers().get(link)
    if parse is None:
        raise InputError(f"link type {link} is not supported", name, "capture on Ethernet or a loopback")
    packets = iter(reader)
    while True:
        try:
            at_s, raw = next(packets)
        except StopIteration:
            return
        except InputError:
            raise
        except dpkt.NeedData:  # its writer was stopped
            yield Packet(None, is_damaged=True)
            return
        except Exception as problem:
            raise InputError(f"the rest of the capture cannot be read: {_reason(problem)}", name) from None
        yield _packet(parse, float(at_s) * 1000, bytes(raw))


class _Bounded(io.RawIOBase):
    """A file that limits the sizes of reads, because lengths in it are not trusted."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        super().__init__()
        self._file, self.name, self._first = file, name, b""

    def peek(self) -> bytes:
        """The first bytes of the file."""
        self._first = self._file.read(4)
        return self._first

    def read(self, size: int = -1) -> bytes:
        """Reads so many bytes, fewer at the end."""
        if not 0 <= size <= LARGEST_PACKET:
            raise InputError(f"a block of {size} bytes", self.name, "the capture is damaged")
        first, self._first = self._first[:size], self._first[size:]
        return first + self._file.read(size - len(first))


Parse = Callable[[bytes], Any]


def _parsers() -> Mapping[int, Parse]:
    """The parser of packets of each link type."""

    def raw(packet: bytes) -> Any:
        return dpkt.ip6.IP6(packet) if packet[:1] >= b"\x60" else dpkt.ip.IP(packet)

    return {
        1: dpkt.ethernet.Ethernet,
        113: dpkt.sll.SLL,
        276: dpkt.sll2.SLL2,
        **dict.fromkeys((0, 108), dpkt.loopback.Loopback),
        **dict.fromkeys((12, 14, 101, 228, 229), raw),
    }


def _packet(parse: Parse, at_ms: float, raw: bytes) -> Packet:
    try:
        found = parse(raw)
        for _ in range(MOST_HEADERS):
            if hasattr(found, "sport") and hasattr(found, "seq"):
                break
            network, found = found, found.data
            if isinstance(found, bytes):
                return Packet(None)
        else:
            return Packet(None)
        return Packet(_segment(at_ms, network, found))
    except Exception:  # dpkt raises any exception for invalid bytes
        return Packet(None, is_damaged=True)


def _segment(at_ms: float, network: Any, tcp: Any) -> Segment:
    data = bytes(tcp.data)
    if len(network.src) == 4:
        length = network.len - 4 * network.hl
    else:
        length = network.plen - sum(one.length for one in network.all_extension_headers)
    missing = max(0, length - 4 * tcp.off - len(data)) if length > 0 else 0
    syn, fin, rst, ack = (bool(tcp.flags & bit) for bit in (2, 1, 4, 16))
    ends = (_host(network.src), tcp.sport), (_host(network.dst), tcp.dport)
    return Segment(round(at_ms, 3), *ends, tcp.seq, tcp.ack if ack else None, data, missing, syn, fin, rst)


@lru_cache(1 << 12)
def _host(address: bytes) -> str:
    return str(ip_address(address))


def _reason(problem: Exception) -> str:
    return str(problem) or type(problem).__name__


STDIN = "-"
"""The name for stdin, which is read as it grows; findings are reported meanwhile."""


def read_captures(files: Iterable[tuple[str, BinaryIO]], ports: Collection[int], log: Log, held: int = HELD) -> str:
    """Passes the content of all captures to the log, and prints a line about the input.

    Raises `InputError` for an invalid capture. SIGTERM and SIGINT end it.
    """
    reassembly, at_ms, packets, damaged, others = Reassembly(ports, held), 0.0, 0, 0, 0
    stop = _Stop()
    with handle_signals(stop.ask):
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
    """A handler of SIGTERM and SIGINT that only interrupts the wait for a packet."""

    def __init__(self) -> None:
        self._asked = self._waits = False

    def ask(self, *_: object) -> None:
        """Requests the end."""
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
