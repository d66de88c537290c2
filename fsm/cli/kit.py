"""`fsm kit`: the conformance suite for clients."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsm.cli import Help, add_command, out
from fsm.errors import InputError

if TYPE_CHECKING:
    from fsm.wire.exchange import Exchange, Note

EXAMPLES = """examples:
  fsm kit checks                       every rule that clients are held to
  fsm kit judge trace.jsonl            what a trace of exchanges says of the clients in it

exit status: 0 no MUST failed; 1 some did; 2 what was given cannot be used"""


def add(commands: Any) -> None:
    """Registers the command."""
    command = add_command(commands, "kit", "hold clients to the rules of the group protocols", EXAMPLES, run)
    kinds = command.add_subparsers(metavar="WHAT", required=True, dest="what")
    checks = kinds.add_parser("checks", help="list the checks", formatter_class=Help, allow_abbrev=False)
    judge = kinds.add_parser("judge", help="judge traces of exchanges", formatter_class=Help, allow_abbrev=False)
    judge.add_argument("traces", nargs="+", type=Path, metavar="TRACE.jsonl", help="exchanges, one JSON object a line")
    for one in (checks, judge):
        one.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Does what is asked for; 1 where a MUST failed."""
    return _RUNS[args.what](args)


def _checks(args: argparse.Namespace) -> int:
    from fsm.kit.checks import CHECKS
    from fsm.kit.report import check_lines

    if args.json:
        fields = ("id", "protocol", "clause", "rule")
        listed = [
            {**{name: getattr(check, name) for name in fields}, "grade": check.grade.value} for check in CHECKS.values()
        ]
        out(json.dumps({"checks": listed}, indent=2) + "\n")
    else:
        out("".join(f"{line}\n" for line in check_lines()))
    return 0


def _judge(args: argparse.Namespace) -> int:
    from fsm.kit.judge import judge
    from fsm.kit.report import finding_document, report_lines, status, verdicts

    traces = [(path, _read(path)) for path in args.traces]
    reports = [(path, judge(seen)) for path, seen in traces]
    if args.json:
        listed = [
            {
                "trace": str(path),
                "findings": [finding_document(finding, report.start_ms) for finding in report.findings],
                "checks": verdicts(report),
            }
            for path, report in reports
        ]
        out(json.dumps({"traces": listed}, indent=2) + "\n")
    else:
        for path, report in reports:
            out(f"{path}\n" + "".join(f"  {line}\n" for line in report_lines(report)))
    return status([report for _, report in reports])


def _read(path: Path) -> list[Exchange | Note]:
    from fsm.wire.exchange import read_lines

    try:
        with path.open(encoding="utf-8") as lines:
            found = list(read_lines(lines, str(path)))
    except OSError as problem:
        raise InputError(f"cannot be read: {problem.strerror}", str(path), "give a trace of exchanges") from None
    except UnicodeDecodeError:
        raise InputError("no text", str(path), "give a trace of exchanges, one JSON object a line") from None
    if not found:
        raise InputError("no exchanges", str(path), "give a trace of exchanges, one JSON object a line")
    return found


_RUNS = {"checks": _checks, "judge": _judge}
