"""`fsm replay`: runs scenarios and compares each step with its expectation, or two dialects with each other."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsm.cli import add_command, out
from fsm.cli.output import write
from fsm.errors import InputError

if TYPE_CHECKING:
    from fsm.scenario.story import Comparison

EXAMPLES = """examples:
  fsm replay talk.yaml                             each step, what it did, and where it differs from what is expected
  fsm replay talk.yaml --dialect 4.0               the same under another release
  fsm replay talk.yaml --dialect 4.0 --against 4.4 the steps and fields in which two releases part, side by side
  fsm replay scenarios/*.yaml --quiet              differences only, and a line for each scenario
  fsm replay talk.yaml --picture talk.svg          who told whom what, as a sequence diagram (.svg, .mmd, .puml)

What a file holds (a conversation with a member, requests to a coordinator, a whole consumer group, the trace of a
migration, rounds of Connect, a whole Connect cluster) shows in its content; --kinds says how each is written, `fsm
dialects` what it can be run under. With --against nothing is compared with the file: what the first dialect does is
what is expected of the second. The picture of a group or a cluster is a timeline (.svg): who was there, who used or ran
what, what waited for a delay.

exit status: 0 as expected; 1 a difference; 2 where a file cannot be used or a dialect is unknown"""


def add(commands: Any) -> None:
    """Registers the command."""
    command = add_command(commands, "replay", "run scenarios step by step and compare", EXAMPLES, run)
    command.add_argument("files", nargs="+", metavar="SCENARIO", type=Path, help="YAML files")
    command.add_argument("--dialect", metavar="NAME", help="run under this dialect, not under the file's own")
    command.add_argument("--against", metavar="NAME", help="run under this one as well, and compare the two runs")
    command.add_argument("--quiet", action="store_true", help="leave out what went as expected")
    command.add_argument("--picture", metavar="FILE", type=Path, help="draw the only scenario there is")
    command.add_argument("--json", action="store_true", help="print one JSON document")
    command.add_argument("--kinds", action=_Kinds, nargs=0, help="say how each kind of scenario is written, and exit")


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
        _print_json(found)
    else:
        from fsm.scenario.printing import report

        out("".join(report(c, quiet=args.quiet) for c in found))
    return 1 if any(c.differences for c in found) else 0


def _print_json(found: list[Comparison]) -> None:
    import json

    total = sum(len(c.differences) for c in found)
    document = {"scenarios": [c.as_document() for c in found], "differences": total}
    out(json.dumps(document, ensure_ascii=False, indent=2) + "\n")


def _draw(path: Path, found: list[Comparison]) -> None:
    from fsm.scenario.pictures import draw

    if len(found) != 1:
        raise InputError(f"{len(found)} scenarios", str(path), "--picture draws one")
    if not path.parent.is_dir():
        raise InputError("no such folder", str(path.parent), "make it first")
    write(path, draw(found[0].ours, path.suffix).encode())
