"""`fsm dialects`: lists the dialects of the protocols and the rules in which they differ."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fsm.cli import add_command, as_json, out

if TYPE_CHECKING:
    from fsm.reference.dialects import Flag, Part

EXAMPLES = """examples:
  fsm dialects             every dialect of every component, and each flag: its releases, its ticket, what it changes
  fsm dialects 4.2         the flags that Kafka 4.2 (its latest patch) has, and those that it lacks
  fsm dialects document    the rules of the design document
  fsm dialects --json      the same as one JSON document

Every command that runs a dialect runs one with other rules: 4.4+F29 has one more, fixed-F29-F31 lacks two.

exit status: 0 success; 2 no dialect has that name"""

WIDTH = 118


def add(commands: Any) -> None:
    """Registers the command."""
    command = add_command(commands, "dialects", "list dialects (releases and profiles) and their flags", EXAMPLES, run)
    command.add_argument("name", nargs="?", metavar="NAME", help="a dialect: a release, or the name of a profile")
    command.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Prints the dialects; returns 0."""
    from fsm.reference.dialects import parts, parts_with

    if args.name is None:
        document = {"parts": [part.as_document() for part in parts()]}
        lines = (line for part in parts() for line in _part(part))
    else:
        found = parts_with(args.name)
        document = {"parts": [_document(part, full) for part, full in found]}
        lines = (line for part, full in found for line in _dialect(part, full))
    out(as_json(document) if args.json else "\n".join(lines))
    return 0


def _part(part: Part) -> Iterator[str]:
    yield f"{part.name}: {', '.join(part.dialects)}"
    yield ""
    for flag in part.flags:
        yield from _flag(flag)
    yield ""


def _dialect(part: Part, full: str) -> Iterator[str]:
    has = [flag for flag in part.flags if full in flag.dialects]
    lacks = [flag for flag in part.flags if full not in flag.dialects]
    yield f"{part.name} as of {full}: {len(has)} of {len(part.flags)} flags"
    yield ""
    for flag in has:
        yield from _flag(flag)
    if lacks:
        yield from ("", "without")
        for flag in lacks:
            yield from _flag(flag)
    yield ""


def _flag(flag: Flag) -> Iterator[str]:
    from textwrap import wrap

    origin = ", ".join(text for text in (_when(flag), flag.ticket) if text)
    yield f"  {flag.name}" + (f"  ({origin})" if origin else "")
    older = (f"; without it, {flag.older}",) if flag.older else ()
    yield from wrap("".join((flag.rule, *older)), WIDTH, initial_indent="      ", subsequent_indent="      ")


def _when(flag: Flag) -> str:
    if not flag.since or not flag.since[0][0].isdigit():
        return f"in {', '.join(flag.dialects)}"
    since = f"since {' and '.join(flag.since)}"
    return f"{since}, until {flag.until}" if flag.until else since


def _document(part: Part, full: str) -> dict[str, Any]:
    flags = [{**flag.as_document(), "has": full in flag.dialects} for flag in part.flags]
    return {"part": part.name, "dialect": full, "flags": flags}
