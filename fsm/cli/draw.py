"""`fsm draw`: diagrams of tables, timelines of Connect clusters, and whether those in a folder are current."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsm.cli import add_command, listed, out
from fsm.cli.chosen import chosen
from fsm.cli.output import write
from fsm.errors import InputError
from fsm.render import FORMS, SHIPPED

if TYPE_CHECKING:
    from fsm.table import Table

EXAMPLES = """examples:
  fsm draw -o diagrams                              every table, in every form but png
  fsm draw consumer-member -o out --format svg,png  one table
  fsm draw ./mine.yaml -o out --format mermaid      a table of your own; needs neither dot nor graphviz
  fsm draw --check -o diagrams                      what is stale, missing or surplus there; writes nothing
  fsm draw --timeline W1.log W2.log W3.log -o out   logs of Connect workers: connect-GROUP.svg for each group
  fsm draw --timeline logs/ -o out                  the same of every log below logs/

svg and png need the program dot (Graphviz). --check does not: an SVG names the DOT it was drawn from.

exit status: 0; 1 where --check finds a difference; 2 where a table is unknown or the folder cannot be used"""


def add(commands: Any) -> None:
    """Registers the command."""
    command = add_command(commands, "draw", "draw diagrams of the state tables", EXAMPLES, run)
    command.add_argument("names", nargs="*", metavar="NAME", help="tables, or files that hold one; all by default")
    command.add_argument(
        "--timeline", nargs="+", metavar="PATH", type=Path, help="draw who was there, what ran and what waited in logs"
    )
    command.add_argument("-o", dest="folder", metavar="DIR", type=Path, required=True, help="where the files go")
    forms = ",".join(SHIPPED)
    command.add_argument(
        "--format", type=listed(tuple(FORMS)), default=SHIPPED, metavar="LIST", help=f"of {','.join(FORMS)}; {forms}"
    )
    command.add_argument("--check", action="store_true", help="compare instead of writing")
    command.add_argument("--json", action="store_true", help="report as one JSON document")


def run(args: argparse.Namespace) -> int:
    """Draws, or compares; gives 1 where a difference was found."""
    if args.timeline:
        return _timelines(args)
    tables = _tables(args.names)
    return _check(tables, args) if args.check else _draw(tables, args)


def _tables(names: list[str]) -> tuple[Table, ...]:
    if not names:
        from fsm.tables import ALL

        return ALL
    tables = tuple(chosen(name) for name in dict.fromkeys(names))
    by_name: dict[str, str] = {}
    for given, table in zip(dict.fromkeys(names), tables, strict=True):
        if table.name in by_name:
            raise InputError(f"holds {table.name!r}, as {by_name[table.name]} does", given, "draw them one by one")
        by_name[table.name] = given
    return tables


def _draw(tables: tuple[Table, ...], args: argparse.Namespace) -> int:
    from fsm.render.diagrams import drawings

    written = []
    further, pictures = _pictures(args)
    drawn = drawings(tables, args.format, index=not args.names, pictures=pictures)
    for file, content in [*drawn, *further.items()]:
        write(args.folder / file, content)
        written.append(str(args.folder / file))
    if args.json:
        _print_json({"files": written})
    else:
        out("".join(f"{file}\n" for file in written))
    return 0


def _timelines(args: argparse.Namespace) -> int:
    from fsm.audit.connect_picture import of_files
    from fsm.connect.drawing import svg

    if args.names or args.check:
        raise InputError("--timeline draws logs alone", "draw", "leave out --check and the names of tables")
    if "svg" not in args.format:
        raise InputError("a timeline is drawn as svg", "draw", "leave out --format")
    try:
        found = of_files(_logs(args.timeline))
    except OSError as problem:
        raise InputError(f"cannot be read: {problem.strerror}", str(problem.filename), "give files of logs") from None
    if not found:
        raise InputError(
            "no line of a Connect worker", str(args.timeline[0]), "give the logs of all workers of a group"
        )
    files = {args.folder / f"connect-{_file_name(group)}.svg": svg(picture, group) for group, picture in found.items()}
    for file, content in files.items():
        write(file, content.encode())
    if args.json:
        _print_json({"files": list(map(str, files))})
    else:
        out("".join(f"{file}\n" for file in files))
    return 0


def _logs(paths: list[Path]) -> list[Path]:
    """The files, and those below the folders, as `fsm audit` finds them; what is no log there is passed over.

    Raises `InputError` for a path that is not there, for a file given by its name that is no log, and for none at all.
    """
    from fsm.spark.sources import find

    inputs = find(paths)
    named = set(map(str, paths))
    for file, reason in inputs.unreadable:
        if file in named:
            raise InputError(reason, file, "give files of logs")
        print(f"fsm: {file}: passed over: {reason}", file=sys.stderr)  # noqa: T201
    return [source.path for source in inputs.sources]


def _file_name(group: str) -> str:
    """A group may be called anything; a file may not."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in group.removeprefix("connect-"))


def _check(tables: tuple[Table, ...], args: argparse.Namespace) -> int:
    from fsm.render.diagrams import differences

    if not args.folder.is_dir():
        raise InputError("no such folder", str(args.folder), f"draw it with: fsm draw -o {args.folder}")
    further, pictures = _pictures(args)
    found = differences(args.folder, tables, args.format, whole=not args.names, further=further, pictures=pictures)
    if args.json:
        _print_json({"differences": [difference._asdict() for difference in found]})
    else:
        out("".join(f"{d.problem}: {args.folder / d.file}\n" for d in found))
        out(f"redraw with: fsm draw -o {args.folder}\n" if found else "")
    return 1 if found else 0


def _pictures(args: argparse.Namespace) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Files and names of what is drawn beside tables, where all of them are."""
    if args.names:
        return {}, ()
    from fsm.audit import connect_picture
    from fsm.scenario import pictures

    suffixes = {f".{FORMS[form]}" for form in args.format}
    drawn = (*pictures.shipped_pictures(), *connect_picture.shipped_pictures())
    further = {file: content for file, content in drawn if Path(file).suffix in suffixes}
    return further, (*pictures.PICTURES, *connect_picture.PICTURES)


def _print_json(document: object) -> None:
    import json

    out(json.dumps(document, ensure_ascii=False, indent=2) + "\n")
