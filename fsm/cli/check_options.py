"""The options of `fsm check`: the model, the properties and disturbances, and the limits of the search."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fsm.cli import at_least
from fsm.cli.check_engine import ENGINES

GROUPS = {
    "consumer-group": (
        "members",
        "topics",
        "client",
        "coordinator",
        "static",
        "commits",
        "pattern",
        "client_pattern",
        "assignment_interval",
        "search",
        "topic_changes",
        "compaction",
        "equivariant",
    ),
    "classic-group": (
        "members",
        "topics",
        "protocol",
        "coordinator",
        "static",
        "commits",
        "search",
        "topic_changes",
        "compaction",
    ),
    "mixed-group": (
        "members",
        "classic",
        "topics",
        "protocol",
        "policy",
        "client",
        "coordinator",
        "static",
        "commits",
        "pattern",
        "assignment_interval",
        "search",
        "compaction",
    ),
    "connect": ("members", "connectors", "protocol", "delay", "coordinator", "profile", "scenario", "settled"),
}
"""Models of Kafka's groups, with their options."""


def add_options(command: argparse.ArgumentParser) -> None:
    """Registers all options."""
    add_model_options(command)
    _add_questions(command)
    _add_search(command)


def add_model_options(command: argparse.ArgumentParser) -> None:
    """Registers the options that define the model."""
    group = command.add_argument_group(f"groups: {', '.join(GROUPS)}")
    _add_members(group)
    _add_what_they_do(group)
    _add_connect(group)
    _add_tables(command.add_argument_group("tables"))


def _add_members(group: Any) -> None:
    group.add_argument("--members", type=at_least(1), metavar="N", help="how many members (2)")
    group.add_argument("--topics", type=_topics, metavar="LIST", help="topics with their partitions (foo:2)")
    group.add_argument(
        "--client", metavar="DIALECT", help="the rules of the members, or of each (4.0,4.4); the latest release"
    )
    group.add_argument("--coordinator", metavar="DIALECT", help="the rules of the coordinator; the latest release")
    group.add_argument("--protocol", metavar="NAME", help="of classic members, or connect.protocol")
    group.add_argument("--classic", type=at_least(0), metavar="N", help="how many of them are classic (1)")
    group.add_argument("--policy", metavar="NAME", help="of migration: disabled, upgrade, downgrade, bidirectional")


def _add_what_they_do(group: Any) -> None:
    group.add_argument("--static", action="store_true", help="members have instance ids")
    group.add_argument("--commits", action="store_true", help="members commit before a revocation, and as they close")
    group.add_argument("--pattern", metavar="REGEX", help="members subscribe to what it matches")
    group.add_argument("--client-pattern", metavar="REGEX", help="members subscribe to what they match themselves")
    group.add_argument("--assignment-interval", action="store_true", help="targets keep their distance in time")
    group.add_argument("--search", action="store_true", help="the coordinator is searched for, and can move")
    group.add_argument("--topic-changes", action="store_true", help="topics come, grow, go and are made anew")
    group.add_argument("--equivariant", action="store_true", help="targets do not depend on member ids, for --symmetry")
    group.add_argument("--compaction", action="store_true", help="another broker may read a compacted log")


def _add_connect(group: Any) -> None:
    group.add_argument("--connectors", type=_topics, metavar="LIST", help="with their numbers of tasks (A:2)")
    group.add_argument("--delay", type=at_least(0), metavar="MS", help="scheduled.rebalance.max.delay.ms (300000)")
    group.add_argument("--profile", metavar="NAME", help="of Connect's assignor: shipped, document")
    group.add_argument(
        "--scenario", metavar="NAME", help="of KIP-415: three workers, A:2,B:1, settled: worker_leaves, ..."
    )
    group.add_argument("--settled", action="store_true", help="begin where the workers of Connect have settled")


def _add_tables(tables: Any) -> None:
    tables.add_argument("--with", dest="others", action="append", default=[], metavar="TABLE", help="beside it")
    tables.add_argument(
        "--never", action="append", default=[], metavar="PLACES", help="not at once: door.OPEN,lift.MOVING"
    )
    tables.add_argument("--goal", default="", metavar="PLACES", help="can always be reached: door.SHUT")


def _add_questions(command: Any) -> None:
    command.add_argument("--disturb", default="", metavar="LIST", help="kinds of disturbance, or all")
    command.add_argument(
        "--disturbances", type=at_least(0), metavar="K", help="at most so many; 1 where kinds are given"
    )
    command.add_argument("--known", default="", metavar="LIST", help="known hazards: cut off where they show, counted")
    command.add_argument(
        "--property",
        action="append",
        default=[],
        metavar="NAME",
        help="ask this one only: of states, with all that steps break, or an invariant of steps; repeatable",
    )
    command.add_argument("--every", action="store_true", help="go on after a counterexample: one for each property")


def _add_search(command: Any) -> None:
    command.add_argument("--max-states", type=at_least(1), metavar="N", help="stop beyond so many (200 million)")
    command.add_argument("--max-memory", type=_size, metavar="BYTES", help="stop beyond so much, as 6G (6G)")
    command.add_argument(
        "--engine", choices=ENGINES, help="where states are; in memory, and with --dir on disk when memory would not do"
    )
    command.add_argument(
        "--master", metavar="URL", help="of Spark, which is used when memory would not do, or at once (local[*])"
    )
    command.add_argument("--dir", type=Path, metavar="DIR", help="of an engine: a search that was killed goes on there")
    command.add_argument("--symmetry", default="", metavar="LIST", help="interchangeable components; that is checked")
    command.add_argument("--memo", type=Path, metavar="DIR", help="keep tables of steps here for the next run")
    command.add_argument(
        "--jobs",
        type=at_least(1),
        default=1,
        metavar="N",
        help="processes that execute steps (1); for steps of some ms",
    )
    command.add_argument("-o", dest="folder", type=Path, metavar="DIR", help="counterexamples as pictures and texts")
    command.add_argument(
        "--mutate",
        nargs="?",
        const="",
        metavar="LIST",
        help="change tables and rules, one at a time: what kills the mutants? All, or OPERATOR, OPERATOR:ROW",
    )
    command.add_argument("--json", action="store_true", help="print one JSON document")


def _size(text: str) -> int:
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
    return at_least(1)(text[:-1] if factor > 1 else text) * factor


def _topics(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in text.split(","):
        name, _, count = one.strip().partition(":")
        if not name or name in found:
            raise argparse.ArgumentTypeError(f"write topics as foo:2,bar:1, not {text!r}")
        found[name] = at_least(1)(count or "1")
    return found
