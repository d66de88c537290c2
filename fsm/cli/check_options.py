"""The options of `fsm check`: the model, the properties and disturbances, the limits of the search, and its engine."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fsm.cli import at_least
from fsm.errors import InputError

if TYPE_CHECKING:
    from fsm.check import Memo

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
    group = command.add_argument_group(f"options of {', '.join(GROUPS)}")
    _add_members(group)
    _add_what_they_do(group)
    _add_connect(group)
    _add_tables(command.add_argument_group("options of tables"))


def _add_members(group: Any) -> None:
    group.add_argument("--members", type=at_least(1), metavar="N", help="number of members (2)")
    group.add_argument("--topics", type=_topics, metavar="LIST", help="topics and their partition counts (foo:2)")
    group.add_argument(
        "--client", metavar="DIALECT", help="dialect of all members, or of each one: 4.0,4.4 (latest release)"
    )
    group.add_argument("--coordinator", metavar="DIALECT", help="dialect of the coordinator (latest release)")
    group.add_argument(
        "--protocol",
        metavar="NAME",
        help="classic members: eager, cooperative, both or either; Connect: connect.protocol",
    )
    group.add_argument("--classic", type=at_least(0), metavar="N", help="number of classic members (1)")
    group.add_argument("--policy", metavar="NAME", help="migration policy: disabled, upgrade, downgrade, bidirectional")


def _add_what_they_do(group: Any) -> None:
    group.add_argument("--static", action="store_true", help="members have instance ids")
    group.add_argument("--commits", action="store_true", help="members commit before a revocation and on close")
    group.add_argument(
        "--pattern", metavar="REGEX", help="members subscribe by this pattern, which the coordinator resolves"
    )
    group.add_argument(
        "--client-pattern", metavar="REGEX", help="members subscribe by this pattern, which they resolve themselves"
    )
    group.add_argument(
        "--assignment-interval",
        action="store_true",
        help="the coordinator waits for the assignment interval between targets",
    )
    group.add_argument(
        "--search", action="store_true", help="members send FindCoordinator, and the coordinator can move"
    )
    group.add_argument(
        "--topic-changes", action="store_true", help="topics can be created, extended, deleted and recreated"
    )
    group.add_argument(
        "--equivariant", action="store_true", help="assignments do not depend on member ids, as --symmetry needs"
    )
    group.add_argument("--compaction", action="store_true", help="after a failover the log may have been compacted")


def _add_connect(group: Any) -> None:
    group.add_argument("--connectors", type=_topics, metavar="LIST", help="connectors and their task counts (A:2)")
    group.add_argument("--delay", type=at_least(0), metavar="MS", help="scheduled.rebalance.max.delay.ms (300000)")
    group.add_argument("--profile", metavar="NAME", help="rules of Connect's assignor: shipped, document")
    group.add_argument(
        "--scenario",
        metavar="NAME",
        help="an example of KIP-415, from three settled workers with A:2,B:1: worker_leaves, ...",
    )
    group.add_argument("--settled", action="store_true", help="begin with workers that have settled")


def _add_tables(tables: Any) -> None:
    tables.add_argument(
        "--with", dest="others", action="append", default=[], metavar="TABLE", help="a further table; repeatable"
    )
    tables.add_argument(
        "--never",
        action="append",
        default=[],
        metavar="PLACES",
        help="states that must never hold at once: door.OPEN,lift.MOVING",
    )
    tables.add_argument("--goal", default="", metavar="PLACES", help="states that can always be reached: door.SHUT")


def _add_questions(command: Any) -> None:
    command.add_argument(
        "--disturb",
        action="append",
        default=[],
        metavar="LIST",
        help="kinds of disturbance that may happen, or all; repeatable",
    )
    command.add_argument(
        "--disturbances",
        type=at_least(0),
        metavar="K",
        help="at most this many disturbances (1 with --disturb, else 0)",
    )
    command.add_argument(
        "--known",
        action="append",
        default=[],
        metavar="LIST",
        help="known hazards to count; the search does not go beyond them; repeatable",
    )
    command.add_argument(
        "--property",
        action="append",
        default=[],
        metavar="NAME",
        help="check only this property (and all invariants of steps), or only this invariant of steps, by its number "
        "or text; repeatable; for a name that is unknown, those of the model are listed",
    )
    command.add_argument(
        "--every", action="store_true", help="continue after a counterexample: find one for each property"
    )


def _add_search(command: Any) -> None:
    command.add_argument(
        "--max-states", type=at_least(1), metavar="N", help="stop after this many states (200 million)"
    )
    command.add_argument(
        "--max-memory", type=_size, metavar="BYTES", help="stop when the search takes more memory than this (6G)"
    )
    command.add_argument(
        "--engine", choices=ENGINES, help="where states are kept (memory; with --dir, on disk when memory is full)"
    )
    command.add_argument(
        "--master",
        metavar="URL",
        help="a Spark master, used when memory is full, or at once with --engine spark (local[*])",
    )
    command.add_argument(
        "--dir",
        type=Path,
        metavar="DIR",
        help="where an engine keeps its files; a search that was killed resumes from them",
    )
    command.add_argument(
        "--symmetry", default="", metavar="LIST", help="components that are interchangeable, which is verified"
    )
    command.add_argument("--memo", type=Path, metavar="DIR", help="cache of computed steps, for the next run")
    command.add_argument(
        "--jobs",
        type=at_least(1),
        default=1,
        metavar="N",
        help="processes that execute steps; worthwhile if a step takes milliseconds (1)",
    )
    command.add_argument(
        "-o", dest="folder", type=Path, metavar="DIR", help="write counterexamples here, as pictures and texts"
    )
    command.add_argument(
        "--mutate",
        nargs="?",
        const="",
        metavar="LIST",
        help="mutation testing: change tables and rules one at a time, and report the mutants that no property kills; "
        "LIST is of OPERATOR or OPERATOR:ROW (all)",
    )
    command.add_argument("--json", action="store_true", help="print one JSON document")


def _size(text: str) -> int:
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
    try:
        return at_least(1)(text[:-1] if factor > 1 else text) * factor
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"write a size as 6G, 512M, 100K or a number of bytes, not {text!r}") from None


def _topics(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in text.split(","):
        name, _, count = one.strip().partition(":")
        if not name or name in found:
            raise argparse.ArgumentTypeError(f"write topics as foo:2,bar:1, not {text!r}")
        found[name] = at_least(1)(count or "1")
    return found


# Where states are kept: in memory, in files, or on Spark.


ENGINES = ("memory", "disk", "spark")
LOCAL = "local[*]"


class Choice(NamedTuple):
    """The engine of a search."""

    first: str
    then: str = ""
    """The engine to continue with when the memory limit is reached; "" to stop then."""


def choose(engine: str | None, *, has_folder: bool, master: str | None, began_on_spark: bool) -> Choice:
    """The choice of engine for these options.

    Memory is fastest while it suffices, and files of one process are faster than Spark on one machine. So Spark is used
    by default only with `--master`, and with `--dir`, a folder that its workers and this process share.
    `began_on_spark`: the folder already has a search of Spark. Raises `InputError` for contradictory options.
    """
    if engine is not None and has_folder != (engine != "memory"):
        raise InputError("--engine disk or spark and --dir belong together", "--engine", "give --dir DIR, or neither")
    if master is not None and engine in ("memory", "disk"):
        raise InputError("--master is for Spark", f"--engine {engine}", "leave one of them out")
    if master is not None and not has_folder:
        raise InputError(
            "--master and --dir belong together", "--master", "give --dir DIR, a folder that all workers share"
        )
    if engine is not None:
        return Choice(engine)
    if master is not None:
        return Choice("spark") if began_on_spark else Choice("memory", "spark")
    return Choice("memory", "disk" if has_folder else "")


def choice_of(args: argparse.Namespace) -> Choice:
    """The choice of engine for the options of a command."""
    began = args.dir is not None and (args.dir / "met").is_dir()
    return choose(args.engine, has_folder=args.dir is not None, master=args.master, began_on_spark=began)


@contextmanager
def making(engine: str, then: str, memo: Memo | None, master: str | None) -> Iterator[dict[str, Any]]:
    """Keyword arguments of `check` for an engine whose files are in the folder of `memo`."""
    if memo is not None and engine == "spark":
        from fsm.spark.search import SparkSearch
        from fsm.spark.session import convert_errors, session

        with session(master or LOCAL, input_bytes=1 << 30) as spark, convert_errors(lambda: "searching"):
            yield {"engine": partial(SparkSearch, spark=spark, memo=memo)}
    elif memo is not None and "disk" in (engine, then):
        from fsm.check import Disk

        yield {"disk": Disk(memo, at_once=engine == "disk")}
    else:
        yield {}
