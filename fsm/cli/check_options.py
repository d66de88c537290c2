"""The options of `fsm check`, and the model that they define; `fsm explore` has those of the model, too."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsm.check.catalog import SHIPPED, make_model
from fsm.cli import at_least
from fsm.cli.arguments import counts, name_option
from fsm.errors import InputError

if TYPE_CHECKING:
    from fsm.check import Model
    from fsm.simulate.machines.deployment import Part

ENGINES = ("memory", "disk", "spark")
"""Where a search keeps its states."""
# fmt: off
GROUPS = {
    "consumer-group": (
        "members", "topics", "client", "coordinator", "static", "commits", "pattern", "client_pattern",
        "assignment_interval", "search", "topic_changes", "compaction", "loading", "equivariant",
    ),
    "classic-group": (
        "members", "topics", "protocol", "client", "coordinator", "static", "commits", "search", "topic_changes",
        "compaction", "loading", "max_size",
    ),
    "mixed-group": (
        "members", "classic", "topics", "protocol", "policy", "client", "coordinator", "static", "commits", "pattern",
        "assignment_interval", "search", "compaction", "loading",
    ),
    "connect": (
        "members", "connectors", "protocol", "delay", "coordinator", "profile", "scenario", "settled", "loading",
    ),
}
# fmt: on
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
    option = group.add_argument
    option("--members", type=at_least(1), metavar="N", help="number of members (2)")
    option("--topics", type=counts, metavar="LIST", help="topics and their partition counts (foo:2)")
    option("--client", metavar="DIALECT", help="dialect of all members, or of each one: 4.0,4.4 (latest release)")
    option("--coordinator", metavar="DIALECT", help="dialect of the coordinator (latest release)")
    option(
        "--protocol",
        metavar="NAME",
        help="classic members: eager, cooperative, both or either; Connect: connect.protocol",
    )
    option("--classic", type=at_least(0), metavar="N", help="number of classic members (1)")
    option("--policy", metavar="NAME", help="migration policy: disabled, upgrade, downgrade, bidirectional")


def _add_what_they_do(group: Any) -> None:
    option = group.add_argument
    option("--static", action="store_true", help="members have instance ids")
    option("--commits", action="store_true", help="members commit before a revocation and on close")
    option("--pattern", metavar="REGEX", help="members subscribe by this pattern, which the coordinator resolves")
    option("--client-pattern", metavar="REGEX", help="members subscribe by this pattern, which they resolve themselves")
    option(
        "--assignment-interval",
        action="store_true",
        help="the coordinator waits for the assignment interval between targets",
    )
    option("--search", action="store_true", help="members send FindCoordinator, and the coordinator can move")
    option("--topic-changes", action="store_true", help="topics can be created, extended, deleted and recreated")
    option("--equivariant", action="store_true", help="assignments do not depend on member ids, as --symmetry needs")
    option("--compaction", action="store_true", help="after a failover the log may have been compacted")
    option(
        "--loading",
        action="store_true",
        help="after a failover the coordinator refuses requests until it has loaded its log",
    )
    option("--max-size", type=at_least(1), metavar="N", help="group.max.size (no limit)")


def _add_connect(group: Any) -> None:
    group.add_argument("--connectors", type=counts, metavar="LIST", help="connectors and their task counts (A:2)")
    group.add_argument("--delay", type=at_least(0), metavar="MS", help="scheduled.rebalance.max.delay.ms (300000)")
    group.add_argument("--profile", metavar="NAME", help="rules of Connect's assignor: shipped, document")
    group.add_argument(
        "--scenario",
        metavar="NAME",
        help="an example of KIP-415, from three settled workers with A:2,B:1: worker_leaves, ...",
    )
    group.add_argument("--settled", action="store_true", help="begin with workers that have settled")


def _add_tables(tables: Any) -> None:
    repeated = partial(tables.add_argument, action="append", default=[])
    repeated("--with", dest="others", metavar="TABLE", help="a further table; repeatable")
    repeated("--never", metavar="PLACES", help="states that must never hold at once: door.OPEN,lift.MOVING")
    tables.add_argument("--goal", default="", metavar="PLACES", help="states that can always be reached: door.SHUT")


def _add_questions(command: Any) -> None:
    option = command.add_argument
    repeated = partial(option, action="append", default=[])
    repeated("--disturb", metavar="LIST", help="kinds of disturbance that may happen, or all; repeatable")
    option(
        "--disturbances",
        type=at_least(0),
        metavar="K",
        help="at most this many disturbances (1 with --disturb, else 0)",
    )
    repeated("--known", metavar="LIST", help="known hazards to count; the search does not go beyond them; repeatable")
    repeated(
        "--property",
        metavar="NAME",
        help="check only this property (and all invariants of steps), or only this invariant of steps, by its number "
        "or text; repeatable; for a name that is unknown, those of the model are listed",
    )
    option("--every", action="store_true", help="continue after a counterexample: find one for each property")


def _add_search(command: Any) -> None:
    option = command.add_argument
    option("--max-states", type=at_least(1), metavar="N", help="stop after this many states (200 million)")
    option(
        "--max-memory",
        type=_size,
        metavar="BYTES",
        help="stop when states, keys and tables take more than this (6G); the process may take four times as much",
    )
    option("--engine", choices=ENGINES, help="where states are kept (memory; with --dir, on disk when memory is full)")
    option(
        "--master",
        metavar="URL",
        help="a Spark master, used when memory is full, or at once with --engine spark (local[*])",
    )
    option(
        "--dir",
        type=Path,
        metavar="DIR",
        help="where an engine keeps its files; a search that was killed resumes from them",
    )
    option("--symmetry", default="", metavar="LIST", help="components that are interchangeable, which is verified")
    option("--memo", type=Path, metavar="DIR", help="cache of computed steps, for the next run")
    option(
        "--jobs",
        type=at_least(1),
        default=1,
        metavar="N",
        help="processes that execute steps; worthwhile if a step takes milliseconds (1)",
    )
    option("-o", dest="folder", type=Path, metavar="DIR", help="write counterexamples here, as pictures and texts")
    option(
        "--mutate",
        nargs="?",
        const="",
        metavar="LIST",
        help="mutation testing: change tables and rules one at a time, and report the mutants that no property kills; "
        "LIST is of OPERATOR or OPERATOR:ROW, also of all rows of a table (all)",
    )
    option("--json", action="store_true", help="print one JSON document")


def _size(text: str) -> int:
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
    try:
        return at_least(1)(text[:-1] if factor > 1 else text) * factor
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"write a size as 6G, 512M, 100K or a number of bytes, not {text!r}") from None


# The model that they define.


OWNERS = {**GROUPS, "tables": ("others", "never", "goal")}
"""Options of each kind of model."""


def refuse_options(args: argparse.Namespace, mine: Collection[str] = ()) -> None:
    """Raises `InputError` for the first given option of models that is not in `mine`."""
    for options in OWNERS.values():
        for option in options:
            if _is_given(getattr(args, option)) and option not in mine:
                *others, last = (owner for owner, its in OWNERS.items() if option in its)
                whose = f"{', '.join(others)} and {last}" if others else last
                raise InputError(f"{name_option(option)} is for {whose}", args.model, "leave it out")


def read_model(args: argparse.Namespace) -> Model:
    """The model of the arguments. Raises `InputError` for options of another kind of model."""
    return find_maker(args)()


def find_maker(args: argparse.Namespace) -> Callable[[], Model]:
    """A function that builds the model repeatedly; files are read once."""
    if args.model in SHIPPED:
        refuse_options(args, OWNERS.get(args.model, ()))
        if args.scenario and (args.members or args.connectors):
            problem = f"the scenario {args.scenario} has its own three workers and two connectors"
            raise InputError(problem, args.model, "leave --members and --connectors out")
        return partial(make_model, args.model, **_list_given(args))
    from fsm.scenario import own_models
    from fsm.tables.files import is_python

    is_own = is_python(args.model) or own_models.is_table(args.model)
    refuse_options(args, OWNERS["tables"] if is_own else ())
    if is_own:
        return own_models.find_maker(args.model, args.others, args.never, args.goal)
    if Path(args.model).is_dir():
        raise InputError("is a folder", args.model, "name a file in it")
    if Path(args.model).suffix == ".py":
        raise InputError("a Python file may have several models", args.model, f"name one: {args.model}:MODEL")
    from fsm.nodes import nearest
    from fsm.tables import ALL

    others = f"choose from {', '.join(SHIPPED)}, FILE.py:NAME, or a table as YAML"
    known = [*SHIPPED, *(table.name for table in ALL)]
    raise InputError(f"unknown model {args.model!r}", "", nearest(args.model, known, others=others))


def refuse_kinds(args: argparse.Namespace, kinds: Iterable[str], known: Collection[str]) -> None:
    """Raises `InputError` for the first kind of disturbance that the model would know with one option more."""
    options, given = GROUPS.get(args.model, ()), _list_given(args)
    more: dict[str, dict[str, Any]] = {}
    for option in options:
        if getattr(args, option) is False:
            more[name_option(option)] = {option: True}
    if "topics" in options:
        more["--topics with two topics"] = {"topics": {"foo": 1, "bar": 1}}
    for kind in kinds:
        for named, its in more.items() if kind not in known else ():
            if kind in make_model(args.model, **given | its).kinds:
                raise InputError(f"--disturb {kind} needs {named}", args.model, "give that, or leave the kind out")


def _list_given(args: argparse.Namespace) -> dict[str, Any]:
    """The given options of a shipped model, by name."""
    values = {option: getattr(args, option) for option in OWNERS.get(args.model, ())}
    return {option: value for option, value in values.items() if _is_given(value)}


def list_machines(args: argparse.Namespace) -> tuple[Part, ...]:
    """The parts of a deployment, if the model is one; they have their own files."""
    if args.model in SHIPPED:
        return ()
    from fsm.scenario.own_models import read_machines

    found = read_machines(args.model)
    return () if found is None else found.parts


def _is_given(value: Any) -> bool:
    """Whether an option was given; 0 is a value."""
    return value is not None and value is not False and value not in ("", [])
