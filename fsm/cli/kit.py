"""`fsm kit`: the conformance suite for clients."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsm.cli import Help, add_command, at_least, out
from fsm.errors import InputError

if TYPE_CHECKING:
    from fsm.kit.processes import MakePlace, Result
    from fsm.kit.scenario import Scenario
    from fsm.wire.exchange import Exchange, Note

EXAMPLES = """examples:
  fsm kit run "python adapter.py"      a client in every scenario, against brokers of ours
  fsm kit run "java -jar adapter.jar" --protocol consumer --json
  fsm kit run ./adapter --scenario fenced lost_leave --html > report.html
  fsm kit run ./adapter --broker 127.0.0.1:9092      what can be played on a real cluster, through a proxy
  fsm kit scenarios                    what clients are driven through
  fsm kit checks                       every rule that they are held to
  fsm kit judge trace.jsonl            what a trace of exchanges says of the clients in it

exit status: 0 no MUST failed; 1 some did; 2 what was given cannot be used"""

CONTRACT = """An adapter is a program around a client. It is started as

  COMMAND --bootstrap HOST:PORT --group G --topics T[,T] --protocol consumer|classic [--assignor A] [--instance ID]
          [--session-ms N] [--max-poll-ms N] [--revoke-delay-ms N] [--assign-delay-ms N]

subscribes to the topics (one that begins with ^ is a pattern) and polls. A delay is how long a callback of its
application takes. On stdin it is told, a line each: close, pause, resume (polling), subscribe T[,T], unsubscribe,
commit. On stdout it prints one JSON object a line, as it happens:

  {"ev": "assign", "partitions": [["foo", 0]]}   a callback begins; "assigned" when it has returned
  {"ev": "revoke", "partitions": [...]}          the same; "revoked" when it has returned
  {"ev": "lost", "partitions": [...]}
  {"ev": "error", "error": "..."}                what the client told its application; "unsupported: ..." where it
                                                 cannot do what it was told
  {"ev": "close_end"}                            after close; then it exits with status 0

exit status: 0 no MUST failed; 1 some did; 2 the command cannot be run"""


def add(commands: Any) -> None:
    """Registers the command."""
    command = add_command(commands, "kit", "hold clients to the rules of the group protocols", EXAMPLES, run)
    kinds = command.add_subparsers(metavar="WHAT", required=True, dest="what")
    checks = kinds.add_parser("checks", help="list the checks", formatter_class=Help, allow_abbrev=False)
    judge = kinds.add_parser("judge", help="judge traces of exchanges", formatter_class=Help, allow_abbrev=False)
    details: dict[str, Any] = {"formatter_class": Help, "allow_abbrev": False}
    ran = kinds.add_parser("run", help="drive a client through scenarios", epilog=CONTRACT, **details)
    ran.add_argument("adapter", metavar="COMMAND", help="starts an adapter of the client (below)")
    ran.add_argument("--scenario", action="extend", nargs="+", default=[], metavar="NAME", help="only these")
    ran.add_argument("--protocol", choices=("consumer", "classic"), default="", help="only scenarios of this protocol")
    ran.add_argument("--jobs", type=at_least(1), default=4, metavar="N", help="scenarios at once (%(default)s)")
    ran.add_argument("--broker", metavar="HOST:PORT", help="on these brokers instead of ours, with faults on the way")
    ran.add_argument("--keep", type=Path, metavar="DIR", help="write the trace of each scenario here")
    forms = ran.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="print one JSON document")
    forms.add_argument("--junit", action="store_true", help="print JUnit's XML")
    forms.add_argument("--html", action="store_true", help="print a page with a picture of each failure")
    scenarios = kinds.add_parser("scenarios", help="list the scenarios", **details)
    judge.add_argument("traces", nargs="+", type=Path, metavar="TRACE.jsonl", help="exchanges, one JSON object a line")
    for one in (checks, judge, scenarios):
        one.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Runs a subcommand; returns 1 if a MUST failed."""
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


def _scenarios(args: argparse.Namespace) -> int:
    from fsm.kit.scenarios import SCENARIOS

    if args.json:
        listed = [{"name": one.name, "protocol": one.protocol, "about": one.about} for one in SCENARIOS.values()]
        out(json.dumps({"scenarios": listed}, indent=2) + "\n")
    else:
        out("".join(f"{one.name:28} {one.protocol:8} {one.about}\n" for one in SCENARIOS.values()))
    return 0


def _run(args: argparse.Namespace) -> int:
    import asyncio

    from fsm.kit import documents
    from fsm.kit.processes import OurPlace, run_all
    from fsm.kit.report import status
    from fsm.kit.scenarios import find_scenarios

    try:
        command = shlex.split(args.adapter)
    except ValueError as problem:
        raise InputError(f"{problem}", "COMMAND", "quote it as a shell wants it") from None
    if not command:
        raise InputError("empty", "COMMAND", "give a command that starts an adapter")
    scenarios = find_scenarios(args.scenario, args.protocol)
    if not scenarios:
        raise InputError(f"no scenario of these is for {args.protocol} groups", "--scenario", "leave --protocol out")
    make_place: MakePlace = OurPlace
    if args.broker:
        scenarios, make_place = _elsewhere(args, scenarios)
    progress = _progress(len(scenarios), args.keep)
    results = asyncio.run(run_all(command, scenarios, args.jobs, progress, make_place))
    client = documents.software(results, args.adapter)
    if args.json:
        out(json.dumps(documents.as_document(results, client), indent=2) + "\n")
    elif args.junit:
        out(documents.as_junit(results, client))
    elif args.html:
        out(documents.as_html(results, client))
    else:
        out("".join(f"{line}\n" for line in documents.as_text(results, client)))
    return status([result.report for result in results])


def _elsewhere(args: argparse.Namespace, scenarios: Sequence[Scenario]) -> tuple[list[Scenario], MakePlace]:
    """The scenarios that can run on any cluster, and the factory of their places."""
    import time
    from functools import partial

    from fsm.capture.real_brokers import RealPlace, can_be_played, isolate
    from fsm.join.consumer import read_addresses

    left_out = [one.name for one in scenarios if not can_be_played(one)]
    if left_out and args.scenario:
        remedy = "leave it out, or leave --broker out"
        raise InputError(f"{left_out[0]} needs what only our brokers do", "--scenario", remedy)
    if left_out:
        sys.stderr.write(f"left out, for only our brokers do what they need: {', '.join(left_out)}\n")
    place = partial(RealPlace, read_addresses(args.broker))
    began = f"{time.time_ns() // 1_000_000_000:x}"
    return [isolate(one, f"{one.name}-{began}") for one in scenarios if can_be_played(one)], place


def _progress(count: int, folder: Path | None) -> Callable[[Result], None]:
    """A function that shows the progress on a terminal and writes the traces."""
    from fsm.cli.output import write
    from fsm.wire import to_line

    done: list[str] = []

    def show(result: Result) -> None:
        done.append(result.scenario.name)
        if folder is not None:
            text = "".join(f"{to_line(one)}\n" for one in result.trace)
            write(folder / f"{result.scenario.name}.jsonl", text.encode())
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{len(done)} of {count}: {result.scenario.name:30}")

    return show


_RUNS = {"checks": _checks, "judge": _judge, "run": _run, "scenarios": _scenarios}
