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
from fsm.cli.arguments import address, read_tls
from fsm.errors import InputError, refuse_os_errors

if TYPE_CHECKING:
    from fsm.capture.log import Log

EXAMPLES = """examples:
  fsm capture --broker 127.0.0.1:9092 -o trace.jsonl         then connect clients to the address that it prints
  fsm capture --broker kafka.example:9093 --tls --cafile ca.pem
  fsm capture --broker kafka.example:9093 --pass-tls         pass TLS through; its content cannot be read
  fsm capture --read one.pcap two.pcap -o trace.jsonl        no proxy: read packets captured by tcpdump
  tcpdump -i any -U -w - port 9092 | fsm capture --read -

All connections of the clients go through the proxy: it listens on one port for each broker, and replaces the addresses
of brokers in responses of Metadata, FindCoordinator, DescribeCluster, Fetch and Produce. It removes from ApiVersions
the versions of these requests that it cannot read. Everything else passes through unchanged. Unknown requests, and
frames larger than --hold, are counted but not read. On a terminal it shows the groups and their members; otherwise it
prints a line for each change. It also applies the checks of fsm kit to the clients. On SIGTERM or Ctrl-C it prints a
summary, an audit and the results of the checks.

Captures may be pcap or pcapng files of Ethernet, loopback or Linux cooked packets. Kafka connections are recognized by
--port-of-broker or by their first bytes. Missing bytes are counted, and reading resumes at the next frame.

exit status: 0 success; 2 the port is in use, the broker cannot be reached or does not speak Kafka, or a capture cannot
be read"""


def add(commands: Any) -> None:
    """Registers the command."""
    command = add_command(
        commands, "capture", "record requests and responses of real clients and brokers", EXAMPLES, run
    )
    option = command.add_argument
    option("--broker", metavar="HOST:PORT", help="proxy this cluster, given by one of its brokers")
    option("--read", metavar="PCAP", nargs="+", help="read captured packets instead; - is stdin")
    ports = "port of brokers in captured packets; repeatable (9092)"
    option("--port-of-broker", type=at_least(1), action="append", metavar="N", help=ports)
    option("--port", type=at_least(0), default=0, metavar="N", help="port to listen on, on loopback (any free port)")
    option("-o", dest="trace", metavar="OUT.jsonl", type=Path, help="write exchanges here, one JSON object per line")
    option("--tls", action="store_true", help="connect to the brokers with TLS; clients connect to the proxy without")
    option("--cafile", metavar="FILE", type=Path, help="CA certificates to trust, as PEM (those of the system)")
    option("--pass-tls", action="store_true", help="pass the TLS of clients through to the brokers")
    hold = "the largest frame that is read (%(default)s)"
    option("--hold", type=at_least(1 << 16), default=8 << 20, metavar="BYTES", help=hold)


def run(args: argparse.Namespace) -> int:
    """Captures until a signal, or until the end of the packets."""
    if bool(args.broker) == bool(args.read):
        raise InputError("give either --broker or --read", remedy="see fsm capture --help")
    (_read if args.read else _run_proxy)(args)
    return 0


def _run_proxy(args: argparse.Namespace) -> None:
    from fsm.capture.run import Options, check_broker, run_proxy

    host, port = address(args.broker)
    if args.tls and args.pass_tls:
        raise InputError("does not go with --tls", "--pass-tls", "leave one of them out")
    if args.port >= 1 << 16:
        raise InputError(f"{args.port} is not a port", "--port", "choose one below 65536")
    options = Options(host, port, args.port, read_tls(args), args.pass_tls, args.hold)
    check_broker(options)
    with _log(args) as log:
        run_proxy(options, log, _show)
        out(log.summary())


def _read(args: argparse.Namespace) -> None:
    from fsm.capture.packets import read_captures

    with ExitStack() as opened:
        files = [(name, _packets(name, opened)) for name in args.read]
        log = opened.enter_context(_log(args))
        out(read_captures(files, args.port_of_broker or [9092], log, args.hold) + log.summary())


def _packets(name: str, opened: ExitStack) -> BinaryIO:
    if name == "-":
        return sys.stdin.buffer
    with refuse_os_errors("cannot be read", name, "name a capture file, or - for stdin"):
        return opened.enter_context(Path(name).open("rb"))


@contextmanager
def _log(args: argparse.Namespace) -> Iterator[Log]:
    """A log that writes the trace, if one was requested."""
    from fsm.capture.log import Log

    if args.trace is None:
        yield Log(None, _show, _columns())
        return
    with refuse_os_errors("cannot be written", args.trace, "choose another -o"):
        trace = args.trace.open("w", encoding="utf-8")
    with trace:
        yield Log(trace, _show, _columns())


def _show(text: str) -> None:
    out(text)
    sys.stdout.flush()


def _columns() -> int | None:
    """The width of the terminal; None if stdout is none."""
    return os.get_terminal_size().columns if sys.stdout.isatty() else None
