"""Models of your own by name: one in a Python file, tables that work together, the machines of a deployment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsm.check.catalog import SHIPPED
from fsm.errors import InputError
from fsm.table import Table
from fsm.tables import ALL
from fsm.tables.files import SUFFIXES, find_table, has_key, is_file, is_python, pick, run_file

if TYPE_CHECKING:
    from fsm.check import Model
    from fsm.simulate.machines.deployment import Machines

OPTIONS: Mapping[str, Any] = {"with": (), "never": (), "goal": ""}
"""The options of tables, with their defaults."""


def is_table(name: str) -> bool:
    """Whether the name is that of a shipped table, or of a file with a table or a deployment."""
    is_shipped = name not in SHIPPED and any(table.name == name for table in ALL)
    return is_shipped or Path(name).suffix.lower() in SUFFIXES


def find_maker(
    name: str, others: Sequence[str] = (), never: Sequence[str] = (), goal: str = "", *, folder: Path | None = None
) -> Callable[[], Model]:
    """A function that builds the model repeatedly; files are read once. Their names are relative to the folder.

    Raises `InputError` for a file that is neither a model, a table nor a deployment of machines, and for options that
    are for tables only.
    """
    from fsm.check import Model, compose  # noqa: PLC0415  # it needs numpy

    made_by = dict(zip(("check", *OPTIONS), (name, [*others], [*never], goal), strict=True))
    of_tables = [option for option in OPTIONS if made_by[option]]
    own = None
    if is_python(name):
        file, _, attribute = name.rpartition(":")
        own = pick(run_file(file, folder), attribute, file, (Model, Table), or_function=True)
    if is_python(name) and not isinstance(own, Table):
        if of_tables:
            raise InputError(f"--{of_tables[0]} is for tables", name, "leave it out")
        return lambda: replace(_load(name, own), made_by=made_by)
    if machines := None if is_python(name) else read_machines(name, folder):
        if of_tables:
            raise InputError(f"--{of_tables[0]} is for tables", name, "state it in the deployment")
        return lambda: replace(compose(machines.exchange.roles, machines.never, machines.goal), made_by=made_by)
    tables = [own if isinstance(own, Table) else find_table(name, folder), *(find_table(one, folder) for one in others)]
    return lambda: replace(compose(tables, never, goal), made_by=made_by)


def read_machines(name: str, folder: Path | None = None) -> Machines | None:
    """The machines of a deployment; None for a name of something else.

    Raises `InputError` for an invalid deployment, and for one of Kafka's groups.
    """
    if Path(name).suffix.lower() not in SUFFIXES or not has_key(name, "deployment", folder):
        return None
    from fsm.simulate.machines.deployment import Machines  # noqa: PLC0415
    from fsm.simulate.reading import read_file  # noqa: PLC0415  # it loads the simulator

    found = read_file((folder or Path()) / name)
    if not isinstance(found, Machines):
        raise InputError("has no `machines`", name, f"for Kafka's groups choose from {', '.join(SHIPPED)}")
    return found


def _load(name: str, found: object) -> Model:
    """A model from a Python file, or the result of a function there."""
    from fsm.check import Model  # noqa: PLC0415

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


def name_from(folder: Path, made_by: Mapping[str, Any]) -> dict[str, Any]:
    """`Model.made_by` with the names of files relative to the folder, without options that were not given."""

    def name(text: str) -> str:
        return relpath(text, folder) if text not in SHIPPED and is_file(text) else text

    given = {key: value for key, value in made_by.items() if key not in OPTIONS or value}
    if "with" in given:
        given["with"] = [name(one) for one in given["with"]]
    return given | {"check": name(given["check"])}
