"""`fsm replay`: runs scenarios and compares each step with its expectation, or two dialects with each other."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsm.cli import add_command, as_json, out
from fsm.cli.arguments import write
from fsm.errors import InputError

if TYPE_CHECKING:
    from fsm.scenario.story import Comparison

EXAMPLES = """examples:
  fsm replay talk.yaml                             each step, its result, and how it differs from the expectation
  fsm replay talk.yaml --dialect 4.0               the same under another release
  fsm replay talk.yaml --dialect 4.0 --against 4.4 the steps and fields in which two releases differ, side by side
  fsm replay scenarios/*.yaml --quiet              only differences, and one line per scenario
  fsm replay talk.yaml --picture talk.svg          a sequence diagram of the messages (.svg, .mmd, .puml)

The kind of a scenario follows from its content: a conversation with a member, requests to a coordinator, a whole
consumer group, the trace of a migration, rounds of Connect, or a whole Connect cluster. --kinds describes the format of
each kind; `fsm dialects` lists the dialects. With --against, the expectations of the file are ignored: the run under
the first dialect is the expectation for the second. The picture of a group or a cluster is a timeline (.svg): the
members, the partitions or tasks that each one had, and the delays.

exit status: 0 as expected; 1 a difference; 2 a file cannot be used, or a dialect is unknown"""


def add(commands: Any) -> None:
    """Registers the command."""
    command = add_command(commands, "replay", "run scenarios step by step and compare the results", EXAMPLES, run)
    command.add_argument("files", nargs="+", metavar="SCENARIO", type=Path, help="a YAML file")
    command.add_argument("--dialect", metavar="NAME", help="run under this dialect instead of the file's own")
    command.add_argument("--against", metavar="NAME", help="also run under this dialect, and compare the two runs")
    command.add_argument("--quiet", action="store_true", help="omit steps that went as expected")
    command.add_argument("--picture", metavar="FILE", type=Path, help="draw the scenario; there must be only one")
    command.add_argument("--json", action="store_true", help="print one JSON document")
    command.add_argument(
        "--kinds", action=_Kinds, nargs=0, help="describe the format of each kind of scenario and exit"
    )


class _Kinds(argparse.Action):
    """Prints the docstrings of the kinds of scenario."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from inspect import getdoc

        from fsm.scenario.files import list_kinds

        out("\n\n".join(f"== {kind.NAME} ==\n\n{getdoc(kind)}" for kind in list_kinds()) + "\n")
        parser.exit()


def run(args: argparse.Namespace) -> int:
    """Runs every file; returns 1 if something differs."""
    from fsm.scenario.files import compare

    found = [c for file in args.files for c in compare(file, args.dialect, args.against)]
    if args.picture:
        _draw(args.picture, found)
    if args.json:
        total = sum(len(c.differences) for c in found)
        out(as_json({"scenarios": [c.as_document() for c in found], "differences": total}))
    else:
        from fsm.scenario.printing import report

        out("".join(report(c, quiet=args.quiet) for c in found))
    return 1 if any(c.differences for c in found) else 0


def _draw(path: Path, found: list[Comparison]) -> None:
    from fsm.scenario.pictures import draw

    if len(found) != 1:
        raise InputError(f"--picture draws one scenario, not {len(found)}", str(path), "replay a file that holds one")
    if not path.parent.is_dir():
        raise InputError("no such folder", str(path.parent), "create it first")
    write(path, draw(found[0].ours, path.suffix).encode())
