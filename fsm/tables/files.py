"""Resolves the name of a table: a shipped table, a YAML or JSON file, or `FILE.py:NAME`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType

from fsm import tables
from fsm.document import from_json, from_yaml
from fsm.errors import FsmError, InputError
from fsm.nodes import read_text, yaml_node
from fsm.table import Table

SUFFIXES = (".yaml", ".yml", ".json")
"""Suffixes of table files."""
MOST_LISTED = 20
"""How many names an error lists."""


def find_table(name: str, folder: Path | None = None) -> Table:
    """The table of that name. File names are relative to the folder, by default the working directory.

    Raises `InputError` for an unknown name, with similar names, and for a file that is no table.
    """
    if is_python(name):
        file, _, attribute = name.rpartition(":")
        found = pick(run_file(file, folder), attribute, file, (Table,))
        assert isinstance(found, Table)  # noqa: S101  # `pick` gives nothing else
        return found
    return _read((folder or Path()) / name) if is_file(name, folder) else tables.find(name)


def is_file(name: str, folder: Path | None = None) -> bool:
    """Whether the name is that of a file, or of an object in a Python file."""
    path = (folder or Path()) / name
    return is_python(name) or path.suffix.lower() in SUFFIXES or "/" in name or path.is_file()


def has_key(name: str, key: str, folder: Path | None = None) -> bool:
    """Whether the name is that of a YAML file whose document has this key: `deployment`, or `fsm` for a table."""
    path = (folder or Path()) / name
    if not path.is_file():
        return False
    try:
        return key in yaml_node(read_text(path, "it", "a document"), name, "document").mapping()
    except FsmError:
        return False


def is_python(name: str) -> bool:
    """Whether the name has the form `FILE.py:NAME`."""
    return ".py:" in name


def run_file(file: str, folder: Path | None = None) -> dict[str, object]:
    """Runs a Python file and returns what it defines. Raises `InputError` if it cannot be run."""
    import runpy  # noqa: PLC0415  # not needed for shipped tables

    path = str((folder or Path()) / file)
    try:
        sys.path.insert(0, str(Path(path).resolve().parent))  # as Python does for a script
        return runpy.run_path(path)
    except InputError:
        raise
    except (Exception, SystemExit) as problem:  # whatever the user's own file raises
        raise InputError(f"cannot be run: {type(problem).__name__}: {problem}", path, "fix the file") from None


def pick(
    defined: Mapping[str, object], name: str, where: str, kinds: tuple[type, ...], *, or_function: bool = False
) -> object:
    """The object of that name among those that a file or module defines.

    Raises `InputError` if it is not defined or of none of these kinds, with the names of those that are. `or_function`:
    a function, whose result is of such a kind, will do.
    """
    if isinstance(defined.get(name), kinds) or (or_function and callable(defined.get(name))):
        return defined[name]
    words = [kind.__name__ for kind in kinds]
    fitting = [f"{one} ({type(value).__name__})" for one, value in defined.items() if isinstance(value, kinds)]
    if or_function:
        functions = ((one, value) for one, value in defined.items() if isinstance(value, FunctionType))
        own = (one for one, value in functions if value.__module__ == defined.get("__name__") and _takes_nothing(value))
        fitting += [f"{one} (function)" for one in own]
    remedy = f"choose from {', '.join(fitting[:MOST_LISTED])}" if fitting else f"it has no {' and no '.join(words)}"
    is_not = f"is not a {' or a '.join(words)}" if name in defined else "is not defined"
    raise InputError(f"{name} {is_not}" if name else "no name follows the colon", where, remedy)


def _takes_nothing(function: FunctionType) -> bool:
    positional = function.__code__.co_argcount == len(function.__defaults__ or ())
    return positional and function.__code__.co_kwonlyargcount == len(function.__kwdefaults__ or ())


def _read(path: Path) -> Table:
    if path.exists() and not (path.is_file() or path.is_dir()):  # reading a pipe would block
        raise InputError("not a regular file", str(path), "give a table's name or file")
    if path.suffix == ".py":
        raise InputError("a Python file may have several tables", str(path), f"name one: {path}:TABLE")
    read = from_json if path.suffix.lower() == ".json" else from_yaml
    return read(read_text(path, "the table", "a table's name or file"), str(path))
