"""`fsm capture`: records exchanges of real clients and brokers, through a proxy or from captured packets."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fsm.cli import add_command, at_least, out
from fsm.cli.arguments import address
from fsm.cli.security import read_authorities
from fsm.errors import InputError

if TYPE_CHECKING:
    import ssl

    from fsm.capture.log import Log

EXAMPLES = """examples:
  fsm capture --broker 127.0.0.1:9092 -o trace.jsonl         clients are given the address that it prints
  fsm capture --broker kafka.example:9093 --tls --cafile ca.pem
  fsm capture --broker kafka.example:9093 --pass-tls         TLS goes through as it is; nothing of it can be read
  fsm capture --read one.pcap two.pcap -o trace.jsonl        nothing between: packets that tcpdump has captured
  tcpdump -i any -U -w - port 9092 | fsm capture --read -

Clients stay behind it: it listens for each broker that it hears of, and puts those addresses into the answers of
Metadata, FindCoordinator, DescribeCluster, Fetch and Produce. ApiVersions tells clients of no version of these that
cannot be read. All else goes through byte for byte; what is not known, or larger than --hold, is opaque and counted.
On a terminal it shows groups and members, else a line for everything that is news. Clients are held to the checks of
fsm kit meanwhile. SIGTERM or Ctrl-C ends it with a summary, an audit and the judgement.

In captures (pcap, pcapng; Ethernet, loopback, Linux cooked) connections of Kafka are found by --port-of-broker or by
what they begin with. Bytes that were not captured are counted, and reading goes on where the next frame begins.

exit status: 0; 2 where the port is taken, the broker cannot be reached or is none, or a capture cannot be read"""


def add(commands: Any) -> None:
    """Registers the command."""
    command = add_command(commands, "capture", "watch real clients and brokers talk, as exchanges", EXAMPLES, run)
    command.add_argument("--broker", metavar="HOST:PORT", help="a broker of the cluster, to stand before")
    command.add_argument("--read", metavar="PCAP", nargs="+", help="captured packets to read instead; - is stdin")
    ports = "port of brokers in captured packets, several times for several (9092)"
    command.add_argument("--port-of-broker", type=at_least(1), action="append", metavar="N", help=ports)
    command.add_argument(
        "--port", type=at_least(0), default=0, metavar="N", help="to listen at on loopback; any free one"
    )
    command.add_argument("-o", dest="trace", metavar="OUT.jsonl", type=Path, help="exchanges, one JSON object a line")
    command.add_argument("--tls", action="store_true", help="speak TLS to the brokers; clients speak plain text here")
    command.add_argument("--cafile", metavar="FILE", type=Path, help="who may have signed their certificates (PEM)")
    command.add_argument("--pass-tls", action="store_true", help="clients speak TLS with the brokers themselves")
    hold = "bytes of a frame that are held at most, to be read (%(default)s)"
    command.add_argument("--hold", type=at_least(1 << 16), default=8 << 20, metavar="BYTES", help=hold)


def run(args: argparse.Namespace) -> int:
    """Captures until a signal, or until the end of the packets."""
    if bool(args.broker) == bool(args.read):
        raise InputError("give either --broker or --read", remedy="see fsm capture --help")
    (_read if args.read else _run_proxy)(args)
    return 0


def _run_proxy(args: argparse.Namespace) -> None:
    from fsm.capture.run import Options, check_broker, run_proxy

    host, port = address(args.broker)
    if args.port >= 1 << 16:
        raise InputError(f"{args.port} is no port", "--port")
    options = Options(host, port, args.port, _tls(args), args.pass_tls, args.hold)
    check_broker(options)
    with _log(args) as log:
        run_proxy(options, log, _show)
        out(log.summary())


def _read(args: argparse.Namespace) -> None:
    try:
        from fsm.capture.reading import read_captures
    except ImportError:
        remedy = "install rebalance-fsm[capture]"
        raise InputError("captured packets are read by dpkt, which is missing", "--read", remedy) from None
    with ExitStack() as opened:
        files = [(name, _packets(name, opened)) for name in args.read]
        log = opened.enter_context(_log(args))
        out(read_captures(files, args.port_of_broker or [9092], log, args.hold) + log.summary())


def _packets(name: str, opened: ExitStack) -> BinaryIO:
    if name == "-":
        return sys.stdin.buffer
    try:
        return opened.enter_context(Path(name).open("rb"))
    except OSError as problem:
        raise InputError(f"cannot be read: {problem.strerror}", name) from None


def _tls(args: argparse.Namespace) -> ssl.SSLContext | None:
    if args.tls and args.pass_tls:
        raise InputError("--tls and --pass-tls exclude each other", "--pass-tls")
    if not args.tls:
        if args.cafile:
            raise InputError("is for --tls", "--cafile")
        return None
    return read_authorities(args.cafile)


@contextmanager
def _log(args: argparse.Namespace) -> Iterator[Log]:
    """A log that writes the trace, if one was requested."""
    from fsm.capture.log import Log

    if args.trace is None:
        yield Log(None, _show, _columns())
        return
    try:
        trace = args.trace.open("w", encoding="utf-8")
    except OSError as problem:
        raise InputError(f"cannot be written: {problem.strerror}", str(args.trace)) from None
    with trace:
        yield Log(trace, _show, _columns())


def _show(text: str) -> None:
    out(text)
    sys.stdout.flush()


def _columns() -> int | None:
    """The width of the terminal; None if stdout is none."""
    return os.get_terminal_size().columns if sys.stdout.isatty() else None
