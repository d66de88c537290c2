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
    from fsm.simulate.machines.deployment import Part


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
    if args.model in SHIPPED:
        mine = OWNERS.get(args.model, ())
        refuse_options(args, mine)
        given = {option: getattr(args, option) for option in mine}
        return partial(make_model, args.model, **{option: value for option, value in given.items() if _is_given(value)})
    from fsm.scenario import own_models
    from fsm.tables.files import is_python

    is_own = is_python(args.model) or own_models.is_table(args.model)
    refuse_options(args, OWNERS["tables"] if is_own else ())
    if is_own:
        return own_models.find_maker(args.model, args.others, args.never, args.goal)
    if Path(args.model).is_dir():
        raise InputError("is a folder", args.model, "name a file in it")
    from fsm.nodes import nearest
    from fsm.tables import ALL

    others = f"choose from {', '.join(SHIPPED)}, FILE.py:NAME, or a table as YAML"
    known = [*SHIPPED, *(table.name for table in ALL)]
    raise InputError(f"unknown model {args.model!r}", "", nearest(args.model, known, others=others))


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
