"""Captured packets give the exchanges that the proxy saw, whatever became of the packets.

`session.pcap.xz` was captured on loopback between the proxy and Apache Kafka 4.4 while librdkafka and kafka-python
shared a topic, `session.jsonl.xz` is what the proxy wrote meanwhile.
"""

from __future__ import annotations

import io
import lzma
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import dpkt
import pytest
from patience import PATIENCE_S

from fsm.capture import reassembly
from fsm.capture.packets import read_packets
from fsm.capture.reassembly import Reassembly, Segment
from fsm.cli import main
from fsm.errors import InputError
from fsm.wire import Exchange, Note, read_lines

HERE = Path(__file__).parent
PCAP = lzma.decompress((HERE / "session.pcap.xz").read_bytes())
TRACE = lzma.decompress((HERE / "session.jsonl.xz").read_bytes()).decode().splitlines()
PACKETS: list[tuple[float, bytes]] = list(dpkt.pcap.Reader(io.BytesIO(PCAP)))
Summary = tuple[Any, ...]


def segments_of(pcap: bytes = PCAP) -> list[Segment]:
    return [packet.segment for packet in read_packets(io.BytesIO(pcap), "test.pcap") if packet.segment]


SEGMENTS = segments_of()
PORT = Counter(port for one in SEGMENTS for port in (one.source[1], one.target[1])).most_common(1)[0][0]
"""The broker's."""


def seen_in(segments: Iterable[Segment], ports: Sequence[int] = (PORT,)) -> list[Exchange | Note]:
    reassembly = Reassembly(ports)
    seen = [one for segment in segments for one in reassembly.take(segment)]
    return [*seen, *reassembly.end(0)]


def summarize(seen: Iterable[Exchange | Note]) -> Counter[Summary]:
    """What was said, without times and numbers of connections."""
    return Counter(
        (one.client_id, one.api, one.version, one.correlation_id, repr(one.request), repr(one.response))
        for one in seen
        if isinstance(one, Exchange)
    )


def of_the_session(seen: Iterable[Exchange | Note]) -> list[Exchange]:
    """Without the proxy's own question, and the one request that it did not wait for when it ended."""
    return [
        one
        for one in seen
        if isinstance(one, Exchange)
        and one.client_id != "fsm capture"
        and (one.client_id, one.api, one.correlation_id) != ("k1", "Fetch", 13)
    ]


SUMMARIES = summarize(seen_in(SEGMENTS))


def pcap_of(packets: Iterable[tuple[float, bytes]], link: int = 1, **fields: Any) -> bytes:
    file = io.BytesIO()
    writer = dpkt.pcap.Writer(file, linktype=link, **fields)
    for at_s, raw in packets:
        writer.writepkt(raw, at_s)
    return file.getvalue()


def test_packets_give_the_exchanges_that_the_proxy_saw() -> None:
    by_proxy = of_the_session(read_lines(TRACE, "session.jsonl"))
    assert summarize(of_the_session(seen_in(SEGMENTS))) == summarize(by_proxy)
    assert len(by_proxy) == 126
    times = {(one.client_id, one.api, one.correlation_id): one for one in by_proxy}
    for one in of_the_session(seen_in(SEGMENTS)):
        proxied = times[one.client_id, one.api, one.correlation_id]
        assert abs(one.at_ms - proxied.at_ms) < 1_000


def test_connections_are_found_by_what_they_begin_with() -> None:
    assert summarize(seen_in(SEGMENTS, ports=())) == SUMMARIES


def test_what_is_not_kafka_is_passed_over() -> None:
    web = [
        one._replace(data=b"GET / HTTP/1.1\r\n\r\n" if one.data else b"", target=("10.0.0.1", 80))
        for one in SEGMENTS
        if one.target[1] == PORT
    ]
    assert seen_in(web) == []
    assert summarize(seen_in([*web, *SEGMENTS], ports=())) == SUMMARIES


def _ip(raw: bytes) -> bytes:
    return raw[14:]


def _six(raw: bytes) -> bytes:
    """The same segment in IPv6, behind a header of destination options."""
    tcp = bytes(dpkt.ip.IP(_ip(raw)).data)
    options = bytes([6, 0, 1, 4, 0, 0, 0, 0])
    ends = b"\0" * 15 + b"\1"
    return b"\x60\0\0\0" + (len(tcp) + 8).to_bytes(2, "big") + b"\x3c\x40" + ends + ends + options + tcp


LINKS = {
    "ethernet with a tag": (1, lambda raw: raw[:12] + b"\x81\0\0\x07" + raw[12:]),
    "ethernet, padded": (1, lambda raw: raw.ljust(60, b"\0")),
    "loopback of BSD": (0, lambda raw: b"\2\0\0\0" + _ip(raw)),
    "loopback of OpenBSD": (108, lambda raw: b"\0\0\0\2" + _ip(raw)),
    "IP": (101, _ip),
    "IPv6": (101, _six),
    "ethernet with IPv6": (1, lambda raw: raw[:12] + b"\x86\xdd" + _six(raw)),
    "cooked": (113, lambda raw: b"\0\0\3\4\0\6" + b"\0" * 8 + b"\x08\0" + _ip(raw)),
    "cooked, version 2": (276, lambda raw: b"\x08\0\0\0\0\0\0\1\3\4\0\6" + b"\0" * 8 + _ip(raw)),
}


@pytest.mark.parametrize("name", LINKS)
def test_every_link_gives_the_same(name: str) -> None:
    link, dress = LINKS[name]
    pcap = pcap_of(((at_s, dress(raw)) for at_s, raw in PACKETS), link)
    assert summarize(seen_in(segments_of(pcap))) == SUMMARIES


def test_every_file_format_gives_the_same() -> None:
    file = io.BytesIO()
    writer = dpkt.pcapng.Writer(file)
    for at_s, raw in PACKETS:
        writer.writepkt(raw, at_s)
    nano = pcap_of(PACKETS, nano=True)
    big = io.BytesIO(b"\xa1\xb2\xc3\xd4\0\2\0\4" + bytes(8) + b"\0\4\0\0\0\0\0\1")
    big.seek(0, io.SEEK_END)
    for at_s, raw in PACKETS:
        head = (int(at_s), int(at_s % 1 * 1e6), len(raw), len(raw))
        big.write(b"".join(number.to_bytes(4, "big") for number in head) + raw)
    for pcap in (file.getvalue(), nano, big.getvalue()):
        found = segments_of(pcap)
        assert summarize(seen_in(found)) == SUMMARIES
        assert [round(one.at_ms) for one in found] == pytest.approx([round(one.at_ms) for one in SEGMENTS], abs=1)


def _halves(segment: Segment, at: int, overlap: int) -> list[Segment]:
    data = segment.data
    if len(data) < 2:
        return [segment]
    at = at % (len(data) - 1) + 1
    start = max(0, at - overlap)
    first = segment._replace(data=data[:at], closes=False)
    return [first, segment._replace(data=data[start:], seq=segment.seq + start & 0xFFFFFFFF)]


@pytest.mark.parametrize("seed", range(5))
def test_segments_come_twice_late_overlapping_and_in_pieces(seed: int) -> None:
    """What is captured of a lossy network: all of it is there in the end, in some order, before it is acknowledged."""
    random = Random(seed)  # noqa: S311
    pieces = [half for one in SEGMENTS for half in _halves(one, random.randrange(10_000), random.randrange(20))]
    segments: list[Segment] = []
    late: list[Segment] = []
    for one in pieces:
        if late and (random.random() < 0.5 or _opposes(one, late)):
            segments += late
            late = []
        if one.data and random.random() < 0.2:
            late.insert(0, one)
        else:
            segments.append(one)
        if random.random() < 0.1:
            segments.append(random.choice(segments[-9:]))
    assert summarize(seen_in([*segments, *late])) == SUMMARIES


def _opposes(segment: Segment, late: Sequence[Segment]) -> bool:
    """Whether it may tell that what is late has arrived, or ends its connection."""
    mine = {segment.source, segment.target}
    return any(mine == {one.source, one.target} and (segment.source != one.source or segment.closes) for one in late)


@pytest.mark.parametrize("seed", range(5))
def test_what_was_not_captured_is_told_and_the_rest_is_right(seed: int) -> None:
    """Nothing is made up: what is read was said. Most is read."""
    random = Random(seed)  # noqa: S311
    dropped = set(random.sample([i for i, one in enumerate(SEGMENTS) if one.data], 10))
    seen = seen_in(one for i, one in enumerate(SEGMENTS) if i not in dropped)
    exchanges = [one for one in seen if isinstance(one, Exchange)]
    for exchange in summarize(exchanges):
        assert any(all(mine in (whole, "None") for mine, whole in zip(exchange, one, strict=True)) for one in SUMMARIES)
    assert len(exchanges) >= SUMMARIES.total() - 10
    lost = [one.about["why"] for one in seen if isinstance(one, Note) and one.event == "lost"]
    assert lost


def test_packets_that_were_cut_still_tell_which_requests_there_were() -> None:
    """As with `tcpdump -s 100`: bodies are opaque, but for those that are short."""
    file = io.BytesIO(PCAP[:24])
    file.seek(0, io.SEEK_END)
    for at_s, raw in PACKETS:
        head = (int(at_s), int(at_s % 1 * 1e6), min(len(raw), 100), len(raw))
        file.write(b"".join(number.to_bytes(4, "little") for number in head) + raw[:100])
    seen = [one for one in seen_in(segments_of(file.getvalue())) if isinstance(one, Exchange)]
    assert Counter(one.api for one in seen) <= Counter(exchange[1] for exchange in SUMMARIES.elements())
    assert len(seen) > SUMMARIES.total() - 10  # several in one packet
    assert all(one.is_answered for one in seen)
    assert 50 < sum(one.response is None for one in seen) < len(seen)


@pytest.mark.parametrize("first", range(40, 440, 50))
def test_a_capture_may_begin_amid_connections(first: int) -> None:
    """What was asked after it began is read."""
    seen = summarize(seen_in(SEGMENTS[first:]))
    assert seen <= SUMMARIES
    assert seen.total() > SUMMARIES.total() * (1 - first / len(SEGMENTS)) * 0.8


def test_numbers_of_a_connection_wrap_around() -> None:
    def moved(one: Segment) -> Segment:
        by = -SEGMENTS[0].seq - 30
        return one._replace(seq=one.seq + by & 0xFFFFFFFF, ack=None if one.ack is None else one.ack + by & 0xFFFFFFFF)

    assert summarize(seen_in(map(moved, SEGMENTS))) == SUMMARIES


def test_whoever_was_silent_for_longest_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reassembly, "MOST_CONNECTIONS", 3)
    seen = seen_in(SEGMENTS)
    assert "given_up" in {one.event for one in seen if isinstance(one, Note)}
    monkeypatch.setattr(reassembly, "MOST_CONNECTIONS", 10_000)
    monkeypatch.setattr(reassembly, "MOST_BYTES", 1_000)
    opens = Segment(1, ("10.0.0.1", 5), ("10.0.0.2", PORT), 100, opens=True)
    early = opens._replace(opens=False, seq=200, data=bytes(2_000))
    assert [one.event for one in seen_in([opens, early]) if isinstance(one, Note)] == [
        "connected", "given_up", "lost", "disconnected",
    ]  # fmt: skip


def test_a_segment_far_away_stalls_nothing() -> None:
    """A stray one, or a pause of the capture: the count begins anew."""
    at = next(i for i, one in enumerate(SEGMENTS) if one.data and one.target[1] == PORT)
    stray = SEGMENTS[at]._replace(seq=SEGMENTS[at].seq + (1 << 30) & 0xFFFFFFFF)
    seen = summarize(seen_in([*SEGMENTS[: at + 1], stray, *SEGMENTS[at + 1 :]]))
    assert (seen & SUMMARIES).total() >= SUMMARIES.total() - 1


def test_the_command_reads_files_and_writes_the_same_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A capture in two files is one; so is one from stdin."""
    before = signal.getsignal(signal.SIGTERM)
    half = len(PACKETS) // 2
    for name, packets in (("1.pcap", PACKETS[:half]), ("2.pcap", PACKETS[half:]), ("all.pcap", PACKETS)):
        (tmp_path / name).write_bytes(pcap_of(packets))
    files = [str(tmp_path / name) for name in ("1.pcap", "2.pcap")]
    assert main(["capture", "--read", *files, "-o", str(tmp_path / "two.jsonl"), "--port-of-broker", str(PORT)]) == 0
    printed = capsys.readouterr().out
    assert (
        f"\n{len(PACKETS)} packets, 0 of them not TCP, 0 damaged\n128 exchanges on 15 connections, 0 without an"
        in printed
    )
    assert "\nSHOULD C6 (3 times): " in printed
    assert "g-kpy: k0 (k0-" in printed
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((tmp_path / "all.pcap").read_bytes())))
    assert main(["capture", "--read", "-", "-o", str(tmp_path / "one.jsonl"), "--port-of-broker", str(PORT)]) == 0
    assert signal.getsignal(signal.SIGTERM) is before
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()
    assert summarize(read_lines((tmp_path / "one.jsonl").read_text().splitlines(), "one")) == SUMMARIES


def test_packets_from_a_pipe_are_told_as_they_come(tmp_path: Path) -> None:
    """As `tcpdump -U -w - | fsm capture --read -`; whoever stops it gets the summary."""
    command = [sys.executable, "-m", "fsm", "capture", "--read", "-", "-o", str(tmp_path / "trace.jsonl")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as capture:
        assert capture.stdin
        assert capture.stdout
        capture.stdin.write(PCAP)
        capture.stdin.flush()
        assert b"joined at epoch" in capture.stdout.readline()
        capture.send_signal(signal.SIGTERM)
        output, problems = capture.communicate(timeout=PATIENCE_S)
    assert (capture.returncode, problems) == (0, b"")
    assert b"exchanges on" in output


EMPTY = pcap_of([])


@pytest.mark.parametrize(
    ("pcap", "words"),
    [
        (b"", "is not a packet capture"),
        (b"hello, this is a log\n" * 10, "is not a packet capture: invalid tcpdump header"),
        (PCAP[:20], "is not a packet capture"),
        (EMPTY[:20] + b"\x69\0\0\0", "link type 105 is not supported"),
        (EMPTY + b"\0" * 8 + b"\xff" * 8, "a block of 4294967295 bytes"),
        (b"\x0a\x0d\x0d\x0a\0\0\0\1\x1a\x2b\x3c\x4d", "is not a packet capture"),
    ],
)
def test_what_is_no_capture_is_refused_on_one_line(
    pcap: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "test.pcap"
    file.write_bytes(pcap)
    assert main(["capture", "--read", str(file)]) == 2
    problem = capsys.readouterr().err
    assert problem.startswith(f"fsm: {file}: {words}")
    assert problem.count("\n") == 1


def test_a_capture_whose_end_is_missing_is_read_to_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "test.pcap"
    file.write_bytes(PCAP[:-7] + b"\0\0\0")
    assert main(["capture", "--read", str(file)]) == 0
    file.write_bytes(pcap_of(PACKETS[:50]) + b"\0\0\0")
    assert main(["capture", "--read", str(file)]) == 0
    assert "51 packets, 0 of them not TCP, 1 damaged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("captures", "seed"), [pytest.param(150, 7, id="6k"), pytest.param(25_000, 9, id="1M", marks=pytest.mark.slow)]
)
def test_a_hostile_capture_raises_nothing_but_a_refusal(captures: int, seed: int) -> None:
    """Bytes changed, cut and put in anywhere, in files and in segments, of forty packets each."""
    random = Random(seed)  # noqa: S311
    refused = read = 0
    for _ in range(captures):
        some = random.randrange(len(PACKETS) - 40)
        damaged = bytearray(pcap_of(PACKETS[some : some + 40]))
        for _ in range(random.randrange(1, 30)):
            at = random.randrange(len(damaged)) if random.random() < 0.9 else random.randrange(60)
            match random.randrange(3):
                case 0:
                    damaged[at] = random.randrange(256)
                case 1:
                    del damaged[at : at + random.randrange(1, 6)]
                case _:
                    damaged[at:at] = random.randbytes(random.randrange(1, 6))
        try:
            seen_in(segments_of(bytes(damaged)))
            read += 1
        except InputError:
            refused += 1
    assert min(refused, read) > 10


def test_hostile_segments_hold_no_more_than_they_may() -> None:
    """Segments of nonsense, of every connection at any place: what is held stays within its bounds."""
    random = Random(8)  # noqa: S311
    ends = [("10.0.0.1", port) for port in range(20)]
    reassembly = Reassembly((9092,), held=1 << 16)
    for number in range(20_000):
        source, target = random.choice(ends), ("10.0.0.2", 9092)
        if random.random() < 0.5:
            source, target = target, source
        data = random.choice(
            (b"", random.randbytes(random.randrange(1_000)), b"\0\0\xff\xff" + bytes(random.randrange(1_400)))
        )
        seq = random.choice((random.randrange(5_000_000), random.randrange(1 << 32)))
        flags = [random.random() < 0.02 for _ in range(3)]
        list(reassembly.take(Segment(number, source, target, seq, random.randrange(1 << 32), data, 0, *flags)))
    held = sum(one.holds for one in reassembly._open.values())
    assert held == reassembly._bytes < 20 * 2 * ((1 << 20) + (1 << 16) + 2_000)
