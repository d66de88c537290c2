"""`fsm serve`: runs our coordinator as a broker for real clients."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from fsm.cli import add_command, at_least, out
from fsm.cli.arguments import counts, setting
from fsm.errors import InputError, refuse_os_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fsm.serve.edge import Edge
    from fsm.serve.faults import Rule
    from fsm.serve.page import Recent
    from fsm.serve.store import Store
    from fsm.wire import Exchange, Note

COLLECTING = (10_000, 50, 50)
"""Thresholds of the garbage collector. Collections are rare, since each visits all groups, which have no cycles."""
EXAMPLES = """examples:
  fsm serve --topics foo:4,bar:2                     prints its address, for any Kafka client
  fsm serve --topics foo:4 --port 9092 --dialect 4.0
  fsm serve --topics foo:4 --set group.consumer.heartbeat.interval.ms=1000 \\
            --set group.consumer.min.heartbeat.interval.ms=500
  fsm serve --topics foo:4 --trace run.jsonl         write every exchange, one JSON object per line
  fsm serve --topics foo:4 --data folder             groups and commits survive restarts, even kill -9
  fsm serve --topics foo:4 --page                    a live page of the groups, with a button for each fault
  fsm serve --topics foo:4 --brokers 3               several brokers in one process; coordinators can move
  fsm serve --topics foo:4 --faults rules.yaml       inject scripted faults

A fault rule does one thing to the requests that it matches:

  - refuse: UNKNOWN_MEMBER_ID      # or: lose, mute, swallow, close, duplicate, expire, move: yes;
    api: ConsumerGroupHeartbeat    #     delay_ms, delay_answer_ms, throttle_ms, pause_ms: N; rewrite: {FIELD: VALUE}
    client: A                      # also: version, group, member, epoch, full: yes or no, partition: foo-0, after_ms
    nth: 2                         # begin with the second match
    times: 3                       # at most this often, or always; once by default

Groups behave as in the Kafka release that --dialect names. The broker generates --records records a second in each
partition until a client produces to the topic. Records are held in bounded memory, not on disk. There are no
transactions, replicas or authorization: it is for tests, not for data.

exit status: 0 ended by SIGTERM or Ctrl-C; 2 it could not start, or a file could not be written"""


def add(commands: Any) -> None:
    """Registers the command."""
    command = add_command(commands, "serve", "run our coordinator as a broker for real clients", EXAMPLES, run)
    option = command.add_argument
    option(
        "--topics",
        type=counts,
        action="append",
        required=True,
        metavar="LIST",
        help="topics and their partition counts: foo:4,bar:2; repeatable",
    )
    option("--dialect", default="", metavar="RELEASE", help="the release whose rules groups follow (latest)")
    option("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (%(default)s)")
    option("--port", type=at_least(0, 65_535), default=0, metavar="N", help="port of the first broker (any free port)")
    option("--brokers", type=at_least(1, 100), default=1, metavar="N", help="number of brokers (%(default)s)")
    option("--set", action="append", default=[], metavar="KEY=VALUE", help="a broker setting of groups; repeatable")
    option("--faults", metavar="FILE", help="fault rules as YAML (see below)")
    option("--trace", metavar="FILE", help="write every exchange here, as JSON lines")
    option("--data", metavar="DIR", help="store groups, commits and topics here")
    generated = "records generated per second in each partition (%(default)s)"
    page = "a live page of groups and exchanges, with a button for each fault; on loopback, at port N (any free port)"
    option("--page", type=at_least(0, 65_535), nargs="?", const=0, metavar="N", help=page)
    option("--records", type=at_least(0), default=1, metavar="N", help=generated)
    option("--seed", type=int, metavar="N", help="generate the same ids in every run with this seed")


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or Ctrl-C."""
    import asyncio
    import gc
    from contextlib import ExitStack
    from random import Random, SystemRandom

    from fsm.protocol.releases import LATEST
    from fsm.serve.brokers import Brokers
    from fsm.serve.cluster import Served
    from fsm.serve.edge import Edge, event_loop, now_ms

    _check_host(args.host)
    served = Served(
        _merge(args.topics),
        _release(args.dialect or LATEST),
        dict(setting(text) for text in args.set),
        args.brokers,
        args.records,
    )
    random = SystemRandom() if args.seed is None else Random(args.seed)  # noqa: S311
    with ExitStack() as stack:
        store = _open_store(args.data, stack)
        watchers = [_open_trace(args.trace, stack)] if args.trace is not None else []
        recent = None
        if args.page is not None:
            from fsm.serve.page import Recent

            recent = Recent()
            watchers.append(recent)
        on_event = _to_all(watchers)
        kept = store.read() if store else None
        for file, size in (store.cuts if store else {}).items():
            sys.stderr.write(f"fsm serve: {file}: {size} bytes of an incomplete batch at its end were truncated\n")
        rules = _read_rules(args.faults) if args.faults else []
        brokers = Brokers(served, now_ms(), random, rules=rules, on_event=on_event, kept=kept)
        edge = Edge(brokers, store, on_trouble=lambda line: sys.stderr.write(f"fsm serve: {line}\n"))
        gc.freeze()  # objects created so far live until the end
        stack.callback(gc.set_threshold, *gc.get_threshold())
        gc.set_threshold(*COLLECTING)
        with asyncio.Runner(loop_factory=event_loop) as runner:
            runner.run(_serve(edge, args, recent))
    return 0


async def _serve(edge: Edge, args: argparse.Namespace, recent: Recent | None) -> None:
    import asyncio
    from signal import SIGINT, SIGTERM

    from fsm.wire.dialogue import show_address

    listening = await edge.start(args.host, args.port)
    ended = asyncio.Event()
    for signal in (SIGINT, SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signal, ended.set)
    page = None
    if recent is not None:
        from fsm.serve.page import Page

        page = Page(edge, recent, args.page)
    out(f"listening on {show_address(args.host, listening)}\n")
    if page is not None:
        out(f"page on http://{page.host}/\n")
    sys.stdout.flush()
    waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(ended.wait()), edge.failed]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    if page is not None:
        await asyncio.to_thread(page.close)
    await edge.stop()
    if edge.failed.done():
        edge.failed.result()


def _to_all(watchers: list[Callable[[Exchange | Note], None]]) -> Callable[[Exchange | Note], None] | None:
    """A function that calls all watchers; None without watchers, so that no exchanges are created."""
    if len(watchers) < 2:
        return watchers[0] if watchers else None

    def notify(seen: Exchange | Note) -> None:
        for watch in watchers:
            watch(seen)

    return notify


def _check_host(host: str) -> None:
    """Raises `InputError` for a wildcard address: clients get this address in Metadata and connect to it."""
    if host in ("0.0.0.0", "::", ""):  # noqa: S104  # refused
        raise InputError(
            f"clients cannot connect to the address {host!r}, which Metadata gives them",
            "--host",
            "name an address of this machine",
        )


def _release(name: str) -> str:
    from fsm.coordinator.model.dialect import dialect
    from fsm.protocol.releases import RELEASES, split_dialect

    found = dialect(name).name
    if split_dialect(found)[0] not in RELEASES:
        raise InputError(f"{name} is not a release", "--dialect", f"choose from {', '.join(RELEASES)}")
    return found


def _merge(given: Sequence[dict[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for topics in given:
        for name in topics:
            if name in found:
                raise InputError(f"names {name} twice", "--topics", "name each topic once")
        found |= topics
    return found


def _read_rules(name: str) -> list[Rule]:
    from pathlib import Path

    from fsm.nodes import read_text
    from fsm.serve.faults import read_rules

    return read_rules(read_text(Path(name), "it", "a file of fault rules"), name)


def _open_store(folder: str | None, stack: Any) -> Store | None:
    from pathlib import Path

    from fsm.serve.store import Store

    if folder is None:
        return None
    store = Store(Path(folder))
    stack.callback(store.close)
    return store


def _open_trace(name: str, stack: Any) -> Callable[[Exchange | Note], None]:
    from pathlib import Path

    from fsm.wire import to_line

    path = Path(name)
    with refuse_os_errors("cannot be written", name, "choose another --trace"):
        file = stack.enter_context(path.open("w", buffering=1, encoding="utf-8"))

    def write(seen: Exchange | Note) -> None:
        with refuse_os_errors("cannot be written", name, "free some space, and start again"):
            file.write(to_line(seen) + "\n")

    return write
