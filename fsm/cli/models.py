"""Builds the model that a command's arguments define."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsm.check.catalog import SHIPPED, make_model
from fsm.cli.check_options import GROUPS
from fsm.errors import InputError

if TYPE_CHECKING:
    from fsm.check import Model
    from fsm.simulate.machines.deployment import Machines, Part


OWNERS = {**GROUPS, "tables": ("others", "never", "goal")}
"""Options of each kind of model."""


def refuse_options(args: argparse.Namespace, mine: Collection[str] = ()) -> None:
    """Raises `InputError` for the first given option of models that is not in `mine`."""
    for options in OWNERS.values():
        for option in options:
            if _is_given(getattr(args, option)) and option not in mine:
                whose = " and ".join(owner for owner, its in OWNERS.items() if option in its)
                named = "with" if option == "others" else option.replace("_", "-")
                raise InputError(f"--{named} is for {whose}", args.model, "leave it out")


def read_model(args: argparse.Namespace) -> Model:
    """The model of the arguments. Raises `InputError` for options of another kind of model."""
    return find_maker(args)()


def find_maker(args: argparse.Namespace) -> Callable[[], Model]:
    """A function that builds the model repeatedly; files are read once."""
    from fsm.cli.arguments import find_table, has_key
    from fsm.table import Table
    from fsm.tables.files import is_python, run_file

    own = run_file(args.model) if is_python(args.model) else None
    kind = args.model if args.model in GROUPS else "tables" if isinstance(own, Table) or _is_table(args.model) else ""
    mine = OWNERS.get(kind, ())
    refuse_options(args, mine)
    if kind == "tables":
        from fsm.check import compose

        if own is None and has_key(args.model, "deployment"):
            machines = _read_machines(args)
            return partial(compose, machines.exchange.roles, machines.never, machines.goal)
        tables = [own if isinstance(own, Table) else find_table(args.model), *map(find_table, args.others)]
        return partial(compose, tables, args.never, args.goal)
    if args.model in SHIPPED:
        given = {option: getattr(args, option) for option in mine}
        return partial(make_model, args.model, **{option: value for option, value in given.items() if _is_given(value)})
    if is_python(args.model):
        return partial(_load_own, args.model, own)
    if Path(args.model).is_dir():
        raise InputError("is a folder", args.model, "name a file in it")
    from fsm.nodes import nearest
    from fsm.tables import ALL

    others = f"choose from {', '.join(SHIPPED)}, FILE.py:NAME, or a table as YAML"
    known = [*SHIPPED, *(table.name for table in ALL)]
    raise InputError(f"unknown model {args.model!r}", "", nearest(args.model, known, others=others))


def _read_machines(args: argparse.Namespace) -> Machines:
    """The machines of a deployment, which has its own `never` and `goal`."""
    from fsm.simulate.machines.deployment import Machines
    from fsm.simulate.reading import read_file

    for option in ("others", "never", "goal"):
        if _is_given(getattr(args, option)):
            name = "with" if option == "others" else option
            raise InputError(f"--{name} is for tables", args.model, "state it in the deployment")
    found = read_file(Path(args.model))
    if not isinstance(found, Machines):
        raise InputError("has no `machines`", args.model, f"for Kafka's groups choose from {', '.join(SHIPPED)}")
    return found


def list_machines(args: argparse.Namespace) -> tuple[Part, ...]:
    """The parts of a deployment, if the model is one; they have their own files."""
    from fsm.cli.arguments import has_key

    return _read_machines(args).parts if _is_table(args.model) and has_key(args.model, "deployment") else ()


def _is_given(value: Any) -> bool:
    """Whether an option was given; 0 is a value."""
    return value is not None and value is not False and value not in ("", [])


def _is_table(name: str) -> bool:
    from fsm.tables import ALL
    from fsm.tables.files import SUFFIXES

    return (
        any(table.name == name and table.name not in SHIPPED for table in ALL) or Path(name).suffix.lower() in SUFFIXES
    )


def _load_own(name: str, found: object) -> Model:
    """A model from a Python file, or the result of a function there."""
    from fsm.check import Model

    path, _, attribute = name.rpartition(":")
    try:
        model = found() if callable(found) else found
    except InputError:
        raise
    except Exception as problem:  # whatever the user's own function raises
        raise InputError(f"cannot be run: {type(problem).__name__}: {problem}", path, "fix the file") from None
    if not isinstance(model, Model):
        raise InputError(f"{attribute} is not a Model", path, "name a Model, a function that returns one, or a Table")
    return model
