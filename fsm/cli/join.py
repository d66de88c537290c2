"""`fsm join`: runs our member in a group of any cluster and shows its steps."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, TextIO

from fsm.cli import add_command, at_least, out
from fsm.cli.arguments import add_security_options, read_security
from fsm.errors import InputError, refuse_os_errors

if TYPE_CHECKING:
    from contextlib import ExitStack

    from fsm.join.run import Stop
    from fsm.protocol.config import ConsumerConfig
    from fsm.trace import TraceRecord

EXAMPLES = """examples:
  fsm join --bootstrap 127.0.0.1:9092 --group shop --topics orders        join, and print steps and messages
  fsm join --bootstrap 127.0.0.1:9092 --group shop --topics orders --protocol classic
  fsm join --bootstrap 127.0.0.1:9092 --group shop --pattern 'orders-.*'  topics that match
  fsm join --bootstrap 127.0.0.1:9092 --group shop --topics orders -n 10 --quiet   print ten messages, nothing else
  fsm join --bootstrap 127.0.0.1:9092 --group shop --topics orders --trace run.jsonl
  fsm audit --format trace run.jsonl --master none -o out                 audit the trace

It is an ordinary member: it shares the partitions with the other members of the group, commits what it has printed
(every --commit-ms, before it gives up partitions, and at the end), and leaves on SIGINT or SIGTERM. Times are UTC. It
connects without TLS unless --tls is given, and authenticates (SASL/PLAIN) only with --user. It reads records that are
compressed with gzip; snappy, lz4 and zstd need pyarrow (extra codecs). Batches that cannot be read are skipped and
reported.

exit status: 0 it has left the group; 2 no broker can be reached, or the membership ended with an error"""


def add(commands: Any) -> None:
    """Registers the command."""
    command = add_command(
        commands, "join", "run our member in a group of any cluster, and print its steps", EXAMPLES, run
    )
    option = command.add_argument
    option("--bootstrap", required=True, metavar="HOST:PORT,...", help="bootstrap brokers")
    option("--group", required=True, metavar="ID", help="the group to join")
    option("--topics", metavar="LIST", default="", help="topics to subscribe to, separated by commas")
    option("--pattern", metavar="RE", help="subscribe by this pattern instead of --topics")
    option("--protocol", choices=("consumer", "classic"), default="consumer", help="group protocol (%(default)s)")
    option(
        "--assignor", metavar="NAME", help="assignor: group.remote.assignor, or that of a classic member, such as range"
    )
    option("--dialect", metavar="RELEASE", default="", help="behave as the Java client of this release (latest)")
    option("--instance", metavar="ID", help="group.instance.id, for a static member")
    option("--client-id", metavar="ID", default="", help="client.id, which brokers log")
    option("--rack", metavar="ID", help="client.rack")
    option("--asyncio", action="store_true", help="run on one event loop instead of threads")
    option("--from", dest="start", choices=("earliest", "latest"), default="earliest", help=START)
    option("-n", "--messages", type=at_least(1), metavar="N", help="end after N messages")
    option("--commit-ms", type=at_least(0), default=5_000, metavar="MS", help="auto.commit.interval.ms (%(default)s)")
    option("--max-poll-ms", type=at_least(1), default=300_000, metavar="MS", help=MAX_POLL)
    option("--session-ms", type=at_least(2), metavar="MS", help="session.timeout.ms of a classic member")
    add_security_options(command)
    option("--trace", metavar="OUT.jsonl", help="append its trace to this file, for fsm audit")
    option("--quiet", action="store_true", help="print only messages")
    option("--json", action="store_true", help="print one JSON object per line")


START = "where to begin in a partition without a committed offset (%(default)s)"
MAX_POLL = "max.poll.interval.ms, which is also its rebalance timeout (%(default)s)"


def run(args: argparse.Namespace) -> int:
    """Runs the member until a signal or a limit stops it."""
    import asyncio
    from contextlib import ExitStack
    from functools import partial

    from fsm.join.consumer import AsyncMessageConsumer, MessageConsumer, ReadingOptions
    from fsm.join.fetcher import EARLIEST, LATEST
    from fsm.join.run import printers, stopping, watch, watch_on_asyncio
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

        config, to = _config(args), _subscription(args)
        about: dict[str, Any] = {
            "dialect": args.dialect or releases.LATEST,
            "trace": on_record,
            "reading": ReadingOptions(EARLIEST if args.start == "earliest" else LATEST, tell=_print_problem),
            "security": read_security(args),
        }
        rest = to, lambda message: printed.add(show_message(message)), args.messages or sys.maxsize, stop
        if args.asyncio:
            asyncio.run(watch_on_asyncio(partial(AsyncMessageConsumer, args.bootstrap, config, **about), *rest))
        else:
            watch(partial(MessageConsumer, args.bootstrap, config, **about), *rest)
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
            raise InputError(
                "is for --protocol classic", "--session-ms", "the broker sets the session timeout of consumer groups"
            )
        return ConsumerConfig(args.group, group_remote_assignor=args.assignor, **common)
    from fsm.member.classic.state import ClassicConfig

    if args.dialect:
        raise InputError("is for --protocol consumer", "--dialect", "classic members do not differ by release")
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
        raise InputError("give either --topics or --pattern", "--topics", "for example --topics orders,invoices")
    if topics:
        return topics
    if args.protocol == "consumer":
        from fsm.member import SubscriptionPattern

        return SubscriptionPattern(args.pattern)
    import re

    try:
        return re.compile(args.pattern)
    except re.error as problem:
        raise InputError(
            f"is not a regular expression: {problem}", "--pattern", "see the re module of Python"
        ) from None


def _open(name: str | None, stack: ExitStack) -> TextIO | None:
    from pathlib import Path

    if name is None:
        return None
    with refuse_os_errors("cannot be written", name, "choose another --trace"):
        return stack.enter_context(Path(name).open("a", buffering=1, encoding="utf-8"))


def _print_problem(line: str) -> None:
    sys.stderr.write(f"fsm: {line}\n")
    sys.stderr.flush()
