"""`fsm capture`: real clients and brokers under observation, through a proxy or from captured packets."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from fsm.cli import add_command, at_least, out
from fsm.cli.chosen import address
from fsm.errors import InputError

if TYPE_CHECKING:
    import ssl

EXAMPLES = """examples:
  fsm capture --broker 127.0.0.1:9092 -o trace.jsonl         clients are given the address that it prints
  fsm capture --broker kafka.example:9093 --tls --cafile ca.pem
  fsm capture --broker kafka.example:9093 --pass-tls         TLS goes through as it is; nothing of it can be read

Clients stay behind it: it listens for each broker that it hears of, and puts those addresses into the answers of
Metadata, FindCoordinator, DescribeCluster, Fetch and Produce. ApiVersions tells clients of no version of these that
cannot be read. All else goes through byte for byte; what is not known, or larger than --hold, is opaque and counted.
On a terminal it shows groups and members, else a line for everything that is news.
SIGTERM or Ctrl-C ends it with a summary.

exit status: 0; 2 where the port is taken, or the broker cannot be reached or is none"""


def add(commands: Any) -> None:
    """Registers the command."""
    command = add_command(commands, "capture", "watch real clients and brokers talk, as exchanges", EXAMPLES, run)
    command.add_argument("--broker", metavar="HOST:PORT", required=True, help="a broker of the cluster")
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
    """Captures until it is told to stop."""
    from fsm.capture.run import Log, Options, run_proxy

    host, port = address(args.broker)
    if args.port >= 1 << 16:
        raise InputError(f"{args.port} is no port", "--port")
    options = Options(host, port, args.port, _tls(args), args.pass_tls, args.hold)
    with _opened(args.trace) as trace:
        log = Log(trace, _show, _columns())
        run_proxy(options, log, _show)
    out(log.watch.summary())
    return 0


def _tls(args: argparse.Namespace) -> ssl.SSLContext | None:
    if args.tls and args.pass_tls:
        raise InputError("--tls and --pass-tls exclude each other", "--pass-tls")
    if not args.tls:
        if args.cafile:
            raise InputError("is for --tls", "--cafile")
        return None
    import ssl

    try:
        return ssl.create_default_context(cafile=args.cafile)
    except ssl.SSLError as problem:
        raise InputError(f"no certificates: {problem.reason or problem}", str(args.cafile), "give a PEM file") from None
    except OSError as problem:
        raise InputError(f"cannot be read: {problem.strerror}", str(args.cafile)) from None


@contextmanager
def _opened(path: Path | None) -> Iterator[TextIO | None]:
    """The trace, which can be read while it grows."""
    if path is None:
        yield None
        return
    try:
        trace = path.open("w", encoding="utf-8")
    except OSError as problem:
        raise InputError(f"cannot be written: {problem.strerror}", str(path)) from None
    with trace:
        yield trace


def _show(text: str) -> None:
    out(text)
    sys.stdout.flush()


def _columns() -> int | None:
    """The width of the terminal; None where there is none."""
    return os.get_terminal_size().columns if sys.stdout.isatty() else None
