"""`fsm join`: runs our member in a group of any cluster and shows its steps."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, TextIO

from fsm.cli import add_command, at_least, out
from fsm.cli.security import add_security_options, read_security
from fsm.errors import InputError

if TYPE_CHECKING:
    from contextlib import ExitStack

    from fsm.join.run import Stop
    from fsm.protocol.config import ConsumerConfig
    from fsm.trace import TraceRecord

EXAMPLES = """examples:
  fsm join --bootstrap 127.0.0.1:9092 --group shop --topics orders        joins, and prints what it does and reads
  fsm join --bootstrap 127.0.0.1:9092 --group shop --topics orders --protocol classic
  fsm join --bootstrap 127.0.0.1:9092 --group shop --pattern 'orders-.*'  what matches, as the coordinator sees it
  fsm join --bootstrap 127.0.0.1:9092 --group shop --topics orders -n 10 --quiet   ten messages, nothing else
  fsm join --bootstrap 127.0.0.1:9092 --group shop --topics orders --trace run.jsonl
  fsm audit --format trace run.jsonl --master none -o out                 judges what it wrote down

It is a member like any other: it shares the topics with the other members of the group, commits what it has printed
(every --commit-ms, before partitions are given up, and at the end) and leaves at SIGINT or SIGTERM. Times are UTC. It
speaks plain text unless --tls says otherwise, and logs in (SASL/PLAIN) as --user. Records compressed with gzip are
read, those of snappy, lz4 and zstd with pyarrow (extra codecs); what cannot be read is passed over and told.

exit status: 0 it has left; 2 where there is nobody to join, or the membership ended with an error"""


def add(commands: Any) -> None:
    """Registers the command."""
    command = add_command(commands, "join", "our member in a group of any cluster, watched", EXAMPLES, run)
    command.add_argument("--bootstrap", required=True, metavar="HOST:PORT,...", help="brokers to ask first")
    command.add_argument("--group", required=True, metavar="ID", help="the group to join")
    command.add_argument("--topics", metavar="LIST", default="", help="topics to subscribe to, with commas")
    command.add_argument("--pattern", metavar="RE", help="a pattern of topics instead")
    command.add_argument("--protocol", choices=("consumer", "classic"), default="consumer", help="(%(default)s)")
    command.add_argument("--assignor", metavar="NAME", help="the coordinator's, or a classic member's: range, ...")
    command.add_argument("--dialect", metavar="RELEASE", default="", help="which Java client to be; the latest")
    command.add_argument("--instance", metavar="ID", help="be a static member")
    command.add_argument("--client-id", metavar="ID", default="", help="as brokers log it")
    command.add_argument("--rack", metavar="ID", help="where it runs")
    command.add_argument("--asyncio", action="store_true", help="on one event loop instead of threads")
    command.add_argument("--from", dest="start", choices=("earliest", "latest"), default="earliest", help=START)
    command.add_argument("-n", "--messages", type=at_least(1), metavar="N", help="end after so many")
    command.add_argument("--commit-ms", type=at_least(0), default=5_000, metavar="MS", help="(%(default)s)")
    command.add_argument("--max-poll-ms", type=at_least(1), default=300_000, metavar="MS", help=MAX_POLL)
    command.add_argument("--session-ms", type=at_least(2), metavar="MS", help="of a classic member")
    add_security_options(command)
    command.add_argument("--trace", metavar="OUT.jsonl", help="write down what it does, for fsm audit")
    command.add_argument("--quiet", action="store_true", help="print messages alone")
    command.add_argument("--json", action="store_true", help="print JSON, one object a line")


START = "where a partition without a commit begins (%(default)s)"
MAX_POLL = "its longest pause, and how long it may take to give up partitions (%(default)s)"


def run(args: argparse.Namespace) -> int:
    """Runs the member until a signal or a limit stops it."""
    import asyncio
    from contextlib import ExitStack

    from fsm.join.consumer import ReadingOptions
    from fsm.join.fetcher import EARLIEST, LATEST
    from fsm.join.printing import printers
    from fsm.join.run import Watched, stopping, watch, watch_on_asyncio
    from fsm.protocol import releases

    show_record, show_message = printers(as_json=args.json)
    with ExitStack() as stack:
        trace = _open(args.trace, stack)
        stop = stack.enter_context(stopping())
        printed = Printed(stop)

        def on_record(record: TraceRecord) -> None:
            if trace is not None:
                trace.write(record.to_json() + "\n")
            if not args.quiet:
                printed.add(show_record(record))

        watched = Watched(
            args.bootstrap,
            _config(args),
            _subscription(args),
            args.dialect or releases.LATEST,
            ReadingOptions(EARLIEST if args.start == "earliest" else LATEST, tell=_print_problem),
            on_record,
            lambda message: printed.add(show_message(message)),
            read_security(args),
            args.messages,
        )
        if args.asyncio:
            asyncio.run(watch_on_asyncio(watched, stop))
        else:
            watch(watched, stop)
    if printed.is_broken:
        raise BrokenPipeError
    return 0


class Printed:
    """Lines on stdout, from any thread. A closed stdout stops the member, which leaves in order."""

    def __init__(self, stop: Stop) -> None:
        self.is_broken = False
        self._stop = stop

    def add(self, line: str) -> None:
        """Prints a line at once."""
        if self.is_broken:
            return
        try:
            out(line + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            self.is_broken = self._stop.asked = True


def _config(args: argparse.Namespace) -> ConsumerConfig:
    from fsm.protocol.config import ConsumerConfig

    common = {
        "client_id": args.client_id,
        "group_instance_id": args.instance,
        "client_rack": args.rack,
        "max_poll_interval_ms": args.max_poll_ms,
        "auto_commit_interval_ms": args.commit_ms,
    }
    if args.protocol == "consumer":
        if args.session_ms is not None:
            raise InputError("is for --protocol classic", "--session-ms", "the broker rules the others' sessions")
        return ConsumerConfig(args.group, group_remote_assignor=args.assignor, **common)
    from fsm.member.classic.state import ClassicConfig

    if args.dialect:
        raise InputError("is for --protocol consumer", "--dialect", "all classic members are alike")
    more: dict[str, Any] = {}
    if args.session_ms is not None:
        more = {"session_timeout_ms": args.session_ms, "heartbeat_interval_ms": max(1, args.session_ms // 3)}
    if args.assignor is not None:
        more["assignors"] = (_assignor(args.assignor),)
    return ClassicConfig(args.group, **common, **more)


def _assignor(name: str) -> Any:
    from fsm.member.classic import assignors
    from fsm.nodes import nearest

    known = {one.name: one for one in vars(assignors).values() if isinstance(one, assignors.ClientAssignor)}
    if name not in known:
        raise InputError(f"no assignor {name!r} of classic members", "--assignor", nearest(name, list(known)))
    return known[name]


def _subscription(args: argparse.Namespace) -> Any:
    topics = [name.strip() for name in args.topics.split(",") if name.strip()]
    if bool(topics) == (args.pattern is not None):
        raise InputError("give --topics or --pattern", "--topics", "for example --topics orders,invoices")
    if topics:
        return topics
    if args.protocol == "consumer":
        from fsm.member import SubscriptionPattern

        return SubscriptionPattern(args.pattern)
    import re

    try:
        return re.compile(args.pattern)
    except re.error as problem:
        raise InputError(f"no regular expression: {problem}", "--pattern") from None


def _open(name: str | None, stack: ExitStack) -> TextIO | None:
    from pathlib import Path

    if name is None:
        return None
    try:
        return stack.enter_context(Path(name).open("a", buffering=1, encoding="utf-8"))
    except OSError as problem:
        raise InputError(f"cannot be written: {problem.strerror}", name, "choose another --trace") from None


def _print_problem(line: str) -> None:
    sys.stderr.write(f"fsm: {line}\n")
    sys.stderr.flush()
