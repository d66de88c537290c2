"""`fsm conform`: compares a broker, or our own coordinator, with Kafka's rules, step by step."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from fsm.cli import StatusLine, add_command, at_least, out
from fsm.cli.arguments import add_security_options, address, read_security, setting
from fsm.errors import InputError

if TYPE_CHECKING:
    from fsm.conformance.peer import Peer

EXAMPLES = """examples:
  fsm conform                                          our own coordinator, over its wire and log formats
  fsm conform --broker 127.0.0.1:9092                  every family of walks, on a broker of the latest release
  fsm conform --broker 127.0.0.1:9092 --dialect 4.2 --family plain,static --steps 2000 --seed 7
  fsm conform --broker 127.0.0.1:9092 --set group.consumer.session.timeout.ms=6000
  fsm conform --broker 127.0.0.1:9092 --no-records     for a broker that does not store groups as Kafka does
  fsm conform --against 4.2                            how our coordinator of 4.2 differs from the latest Kafka
  fsm conform --broker 127.0.0.1:9092 --json           one JSON document: families, first differences, requests

A walk is a seeded sequence of requests. A family is a kind of walk. The broker's settings come from DescribeConfigs;
--set overrides them. The command creates topics foo, bar and baz if they do not exist, and one group for each family.
Topics that a walk creates are deleted at the end. A walk ends at its first difference. Requests that the broker does
not support are reported, and the families that need them are left out.

Families: {families}.

exit status: 0 every step equal; 1 a difference; 2 the broker cannot be reached, or supports no family"""


def add(commands: Any) -> None:
    """Registers the command."""
    from fsm.conformance.families import FAMILIES

    details = EXAMPLES.replace("{families}", ", ".join(FAMILIES))
    command = add_command(commands, "conform", "compare a coordinator with Kafka's rules, step by step", details, run)
    option = command.add_argument
    option("--broker", metavar="HOST:PORT", help="the broker to test (our own coordinator)")
    option("--dialect", metavar="RELEASE", default="", help="the release whose rules are expected (latest)")
    option(
        "--against", metavar="RELEASE", default="", help="without --broker: the release that our coordinator follows"
    )
    option("--family", metavar="LIST", default="", help="families of walks (all)")
    option("--seed", type=int, default=1, metavar="N", help="the same seed gives the same walk (%(default)s)")
    option("--steps", type=at_least(1), default=500, metavar="N", help="steps of each family (%(default)s)")
    option(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a setting of the broker; repeatable"
    )
    slack = "this close to a deadline, both outcomes are accepted (%(default)s)"
    option("--slack-ms", type=at_least(1), default=150, metavar="MS", help=slack)
    option("--timeout-s", type=at_least(1), default=10, metavar="S", help="timeout of one request (%(default)s)")
    option("--no-records", action="store_true", help="compare only responses, not the records that the broker stores")
    add_security_options(command)
    option("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Walks every family; returns 1 if one differs."""
    from fsm.conformance.families import choose
    from fsm.conformance.walk import compare, document, lines

    families = choose(args.family)
    peer, line = _peer(args), StatusLine()

    def show(family: str, step: int) -> None:
        if step % 100 == 0:
            line.show(f"{family:15} {step:6} steps")

    try:
        results = compare(peer, families, args.seed, args.steps, slack_ms=args.slack_ms, progress=show)
    finally:
        line.show()
        peer.close()
    if all(one.unsupported for one in results):
        lacks = ", ".join(sorted({f"{api} {why}" for one in results for api, why in one.unsupported.items()}))
        raise InputError(f"no family can be walked: {lacks}", args.broker, "choose another --family")
    if args.json:
        out(json.dumps(document(peer, results, args.seed), indent=2, default=str) + "\n")
    else:
        out("".join(f"{text}\n" for text in lines(peer, results, args.seed)))
    return int(any(one.difference for one in results))


def _peer(args: argparse.Namespace) -> Peer:
    from fsm.coordinator.model.dialect import dialect
    from fsm.protocol.releases import LATEST

    settings = dict(setting(text) for text in args.set)
    release = dialect(args.dialect or LATEST).name
    if args.broker is None:
        from fsm.conformance.peer import OwnCoordinator

        if args.no_records:
            raise InputError("is only for brokers", "--no-records", "add --broker")
        return OwnCoordinator(release, settings, dialect(args.against).name if args.against else release)
    if args.against:
        raise InputError("does not go with --broker", "--against", "use --dialect")
    from fsm.conformance.broker_peer import Broker
    from fsm.wire.dialogue import PeerError, suggest_remedy

    host, port = address(args.broker)
    security = read_security(args)
    try:
        return Broker(host, port, release, settings, args.timeout_s, security=security, reads_log=not args.no_records)
    except PeerError as problem:
        raise InputError(str(problem), "--broker", suggest_remedy(problem)) from None
