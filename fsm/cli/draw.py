"""`fsm draw`: draws diagrams of tables and timelines of groups, and checks whether those in a folder are current."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsm.cli import add_command, as_json, out, word_list
from fsm.cli.arguments import write
from fsm.errors import InputError
from fsm.render import FORMS, SHIPPED
from fsm.render.tables.view import WHOLE, View

if TYPE_CHECKING:
    from fsm.render.timeline.ownership import Picture
    from fsm.table import Table

EXAMPLES = """examples:
  fsm draw -o diagrams                              every table, in every format except png, scxml and xstate
  fsm draw consumer-member -o out --format svg,png  one table
  fsm draw ./mine.yaml -o out --format mermaid      a table of your own; mine.py:TABLE for a Python file
  fsm draw consumer-member -o out --path happy      only the happy path; or your own: --path SUBSCRIBE,POLL_JOIN
  fsm draw connect-group -o out --effects           with the effects of each row
  fsm draw classic-group -o out --states STABLE,EMPTY --lit STABLE
                                                    two states, with STABLE and its outgoing transitions highlighted
  fsm draw rebalance-notes -o out --format xstate   for stately.ai and XState's createMachine; likewise scxml
  fsm draw --check -o diagrams                      report stale, missing and surplus files; write nothing
  fsm draw --timeline a.log b.log -o out            timelines from logs: group-GROUP.svg for each consumer group,
                                                    connect-GROUP.svg for each group of Connect workers
  fsm draw --timeline logs/ -o out                  the same from every log below logs/

dot, mermaid, plantuml, markdown, scxml and xstate need no other software. svg and png need the graphviz package (in a
checkout: pip install '.[diagrams]') and its program dot. --check needs neither: each SVG records the DOT text that it
was drawn from.

exit status: 0 success; 1 --check found a difference; 2 a table is unknown, or the folder cannot be used"""


def add(commands: Any) -> None:
    """Registers the command."""
    command = add_command(commands, "draw", "draw diagrams of the state tables", EXAMPLES, run)
    option = command.add_argument
    option("names", nargs="*", metavar="NAME", help="tables by name, in files, or as FILE.py:NAME (all)")
    option(
        "--timeline",
        nargs="+",
        metavar="PATH",
        type=Path,
        help="draw members and their partitions over time, from these logs",
    )
    option("-o", dest="folder", metavar="DIR", type=Path, required=True, help="output folder")
    forms = ",".join(SHIPPED)
    option("--format", type=word_list(tuple(FORMS)), metavar="LIST", help=f"any of {','.join(FORMS)} ({forms})")
    option("--effects", action="store_true", help="show effects next to events")
    option("--events", type=_names, default=(), metavar="LIST", help="draw only these events")
    option("--states", type=_names, default=(), metavar="LIST", help="draw only these states")
    option(
        "--path",
        type=_names,
        default=(),
        metavar="LIST",
        help="draw only the path of these events, or `happy` for the happy path",
    )
    option("--lit", default="", metavar="STATE", help="highlight this state and its outgoing transitions")
    option("--check", action="store_true", help="compare with the files in DIR instead of writing them")
    option("--json", action="store_true", help="print one JSON document")


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def run(args: argparse.Namespace) -> int:
    """Draws, or compares; returns 1 if a difference was found."""
    if args.timeline:
        return _timelines(args)
    view = View(args.events, args.states, args.path, args.effects, args.lit)
    if view != WHOLE and (args.check or not args.names):
        raise InputError(
            "options that draw part of a table need a table", "draw", "name a table, and leave out --check"
        )
    args.format = args.format or (SHIPPED if view == WHOLE else tuple(f for f in SHIPPED if f != "markdown"))
    tables = _tables(args.names)
    return _check(tables, args) if args.check else _draw(tables, args, view)


def _tables(names: list[str]) -> tuple[Table, ...]:
    if not names:
        from fsm.tables import ALL

        return ALL
    from fsm.tables.files import find_table

    tables = tuple(find_table(name) for name in dict.fromkeys(names))
    by_name: dict[str, str] = {}
    for given, table in zip(dict.fromkeys(names), tables, strict=True):
        if table.name in by_name:
            raise InputError(f"holds {table.name!r}, as {by_name[table.name]} does", given, "draw them one by one")
        by_name[table.name] = given
    return tables


def _draw(tables: tuple[Table, ...], args: argparse.Namespace, view: View) -> int:
    from fsm.render.tables.diagrams import drawings, index

    further, names = _beside(args)
    drawn = [file for table in tables for file in drawings([table], args.format, view=_resolve(view, table))]
    if not args.names:
        drawn += [*index(tables, args.format, **names), *further.items()]
    return _write_files({args.folder / file: content for file, content in drawn}, args)


def _resolve(view: View, table: Table) -> View:
    """The view, with the path `happy` replaced by the table's normal course."""
    if view.path != ("happy",):
        return view
    from fsm.tables import HAPPY_PATHS

    if table.name not in HAPPY_PATHS:
        raise InputError(f"no happy path of {table.name} is known", "draw", "give its events: --path EVENT,EVENT")
    return replace(view, path=tuple(HAPPY_PATHS[table.name].split()))


def _write_files(files: dict[Path, bytes], args: argparse.Namespace) -> int:
    for file, content in files.items():
        write(file, content)
    if args.json:
        out(as_json({"files": list(map(str, files))}))
    else:
        out("".join(f"{file}\n" for file in files))
    return 0


def _timelines(args: argparse.Namespace) -> int:
    from fsm.audit.picture import of_files
    from fsm.render.timeline.ownership import svg

    if args.names or args.check:
        raise InputError("--timeline draws logs alone", "draw", "leave out --check and the names of tables")
    if args.format and "svg" not in args.format:
        raise InputError("a timeline is drawn as svg", "draw", "leave out --format")
    try:
        found = of_files(_logs(args.timeline))
    except OSError as problem:
        raise InputError(f"cannot be read: {problem.strerror}", str(problem.filename), "give files of logs") from None
    if not found:
        what = "no line of a consumer or a Connect worker"
        raise InputError(what, str(args.timeline[0]), "give the logs of all members of a group")
    drawn = {
        f"{_file_name(group, made)}.svg": svg(made, group, dated=made.start_ms > 0) for group, made in found.items()
    }
    return _write_files({args.folder / name: content.encode() for name, content in drawn.items()}, args)


def _logs(paths: list[Path]) -> list[Path]:
    """The log files among the paths and below folders, as `fsm audit` finds them; other files there are skipped.

    Raises `InputError` for a missing path, for a file among the paths that is no log, and if there is no log at all.
    """
    from fsm.logs.reading.pieces import Unreadable
    from fsm.render.wording import show_line
    from fsm.spark.sources import find

    inputs = find(paths, archives=True)
    named = set(map(str, paths))
    archives = [Unreadable(one.name, "an archive; unpack it first") for one in inputs.sources if one.archive]
    for one in (*inputs.unreadable, *archives):
        if one.file in named:
            raise InputError(one.reason, one.file, "give files of logs")
        print(f"fsm: {show_line(f'{one.file}: passed over: {one.reason}')}", file=sys.stderr)  # noqa: T201
    return [source.path for source in inputs.sources if not source.archive]


def _file_name(group: str, made: Picture) -> str:
    """A file name for a group's timeline; characters of the group's name that are unsafe in files become `_`."""
    kind = "group" if made.workers_head == "Consumers" else "connect"
    return kind + "-" + "".join(c if c.isalnum() or c in "-_." else "_" for c in group.removeprefix(f"{kind}-"))


def _check(tables: tuple[Table, ...], args: argparse.Namespace) -> int:
    from fsm.render.tables.diagrams import differences

    if not args.folder.is_dir():
        raise InputError("no such folder", str(args.folder), f"draw it with: fsm draw -o {args.folder}")
    further, names = _beside(args)
    found = differences(args.folder, tables, args.format, whole=not args.names, further=further, **names)
    if args.json:
        out(as_json({"differences": [difference._asdict() for difference in found]}))
    else:
        out("".join(f"{d.problem}: {args.folder / d.file}\n" for d in found))
        out(f"redraw with: fsm draw -o {args.folder}\n" if found else "")
    return 1 if found else 0


def _beside(args: argparse.Namespace) -> tuple[dict[str, bytes], dict[str, tuple[str, ...]]]:
    """Files drawn beside the tables when all tables are drawn, and the names that the index lists."""
    if args.names:
        return {}, {}
    from fsm import reference
    from fsm.audit import picture as audit_picture
    from fsm.check import catalog as check_catalog
    from fsm.kit import documents as kit_documents
    from fsm.scenario import pictures
    from fsm.simulate import picture as simulate_picture

    pages = reference.pages()
    suffixes = {f".{FORMS[form]}" for form in args.format}
    places = (pictures, audit_picture, check_catalog, kit_documents, simulate_picture)
    pictured = places if suffixes & {".svg", ".mmd", ".puml"} else ()  # each needs a search or a run
    drawn = (*(one for place in pictured for one in place.shipped_pictures()), *pages.items())
    further = {file: content for file, content in drawn if Path(file).suffix in suffixes}
    return further, {"pictures": tuple(name for place in places for name in place.PICTURES), "pages": tuple(pages)}
