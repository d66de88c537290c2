"""`fsm tables`: lists the tables, or prints one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fsm.cli import add_command, as_json, out

if TYPE_CHECKING:
    from fsm.table import Table

FORMATS = ("text", "markdown", "json", "yaml", "stub")
EXAMPLES = """examples:
  fsm tables                                   list the tables
  fsm tables consumer-member                   print one table with all its rows
  fsm tables consumer-member --format yaml     print it as YAML; edit that and pass the file instead of the name
  fsm tables ./mine.yaml                       check and print a table of your own; mine.py:TABLE for a Python file
  fsm tables --grammar                         describe the file format, with an example
  fsm tables --json                            list the tables as JSON
  fsm tables --format stub                     typed base classes for bind(), as in fsm/tables/models.pyi

exit status: 0 success; 2 the table is unknown, or the file does not hold a table"""


def add(commands: Any) -> None:
    """Registers the command."""
    command = add_command(commands, "tables", "list the state tables, or print one", EXAMPLES, run)
    command.add_argument(
        "name", nargs="?", metavar="NAME", help="a table by name, in a .yaml or .json file, or as FILE.py:NAME"
    )
    command.add_argument("--grammar", action=_Grammar, nargs=0, help="describe the file format of tables and exit")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--format", choices=FORMATS, default="text", help="output format (text)")
    form.add_argument("--json", action="store_const", const="json", dest="format", help="same as --format json")


class _Grammar(argparse.Action):
    """Prints the docstring of `fsm.document`."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from fsm import document

        out(f"{document.__doc__}")
        parser.exit()


def run(args: argparse.Namespace) -> int:
    """Prints the list or a table; returns 0."""
    if args.name is None:
        from fsm.tables import ALL

        out(_listing(ALL, args.format))
    else:
        from fsm.tables.files import find_table

        out(_one(find_table(args.name), args.format))
    return 0


def _listing(tables: Sequence[Table], form: str) -> str:
    if form == "markdown":
        from fsm.render.tables.markdown import index

        return index(tables)
    if form in ("text", "stub"):
        from fsm.render.tables.text import listing, stub

        return listing(tables) if form == "text" else stub(tables)
    entries = [_entry(table) for table in tables]
    if form == "json":
        return as_json(entries)
    import yaml

    return str(yaml.safe_dump(entries, sort_keys=False, allow_unicode=True))


def _entry(table: Table) -> dict[str, object]:
    ends = [state.name for state in table.terminal]
    begins = table.compiled.initial.name
    facts = {"name": table.name, "title": table.title, "source": table.source, "initial": begins, "terminal": ends}
    return {**facts, "counts": table.counts()}


def _one(table: Table, form: str) -> str:
    if form == "markdown":
        from fsm.render.tables.markdown import markdown

        return markdown(table)
    if form in ("text", "stub"):
        from fsm.render.tables.text import stub, text

        return text(table) if form == "text" else stub((table,))
    from fsm.document import to_json, to_yaml

    return to_json(table) if form == "json" else to_yaml(table)
