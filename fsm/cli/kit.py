"""`fsm kit`: the conformance suite for clients."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsm.cli import Help, StatusLine, add_command, as_json, at_least, out
from fsm.cli.arguments import check_folder, write
from fsm.errors import InputError, refuse_os_errors

if TYPE_CHECKING:
    from fsm.kit.processes import MakePlace, Result
    from fsm.kit.scenario import Scenario
    from fsm.wire.exchange import Exchange, Note

EXAMPLES = """examples:
  fsm kit run "python adapter.py"      run a client through every scenario, against our brokers
  fsm kit run "java -jar adapter.jar" --protocol consumer --json
  fsm kit run ./adapter --scenario fenced lost_leave --html > report.html
  fsm kit run ./adapter --broker 127.0.0.1:9092      run the scenarios that a real cluster allows, through a proxy
  fsm kit scenarios                    list the scenarios
  fsm kit checks                       list the rules that clients must follow
  fsm kit judge trace.jsonl            check the clients in a trace of exchanges

exit status: 0 no MUST failed; 1 a MUST failed; 2 unusable input"""

CONTRACT = """An adapter is a program that embeds a client. The kit starts it as

  COMMAND --bootstrap HOST:PORT --group G --topics T[,T] --protocol consumer|classic [--assignor A] [--instance ID]
          [--session-ms N] [--max-poll-ms N] [--revoke-delay-ms N] [--assign-delay-ms N]

It subscribes to the topics (one that begins with ^ is a pattern) and polls. The delays are how long its callbacks for
revoked and assigned partitions take. It reads commands from stdin, one per line: close, pause and resume (polling),
subscribe T[,T], unsubscribe, commit. It writes events to stdout as they happen, one JSON object per line:

  {"ev": "assign", "partitions": [["foo", 0]]}   the callback begins; "assigned" when it has returned
  {"ev": "revoke", "partitions": [...]}          the callback begins; "revoked" when it has returned
  {"ev": "lost", "partitions": [...]}            the callback for lost partitions begins
  {"ev": "error", "error": "..."}                an error that the client reports to its application;
                                                 "unsupported: ..." if the client cannot carry out a command
  {"ev": "close_end"}                            the client has closed; then the adapter exits with status 0

exit status: 0 no MUST failed; 1 a MUST failed; 2 the command cannot be run"""


def add(commands: Any) -> None:
    """Registers the command."""
    command = add_command(commands, "kit", "test clients against the rules of the group protocols", EXAMPLES, run)
    kinds = command.add_subparsers(metavar="WHAT", required=True, dest="what")
    add_kind = partial(kinds.add_parser, formatter_class=Help, allow_abbrev=False)
    checks = add_kind("checks", help="list the checks")
    judge = add_kind("judge", help="check the clients in traces of exchanges")
    ran = add_kind("run", help="run a client through scenarios", epilog=CONTRACT)
    option = ran.add_argument
    option("adapter", metavar="COMMAND", help="the command that starts the client's adapter (see below)")
    option("--scenario", action="extend", nargs="+", default=[], metavar="NAME", help="run only these scenarios")
    option("--protocol", choices=("consumer", "classic"), default="", help="run only scenarios of this protocol")
    option(
        "--jobs",
        type=at_least(1),
        default=4,
        metavar="N",
        help="number of scenarios that run at the same time (%(default)s)",
    )
    option("--broker", metavar="HOST:PORT", help="use these brokers instead of ours; a proxy injects the faults")
    option("--keep", type=Path, metavar="DIR", help="write the trace of each scenario here")
    forms = ran.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="print one JSON document")
    forms.add_argument("--junit", action="store_true", help="print JUnit XML")
    forms.add_argument("--html", action="store_true", help="print a page with a picture of each failure")
    scenarios = add_kind("scenarios", help="list the scenarios")
    judge.add_argument(
        "traces", nargs="+", type=Path, metavar="TRACE.jsonl", help="exchanges, one JSON object per line"
    )
    for one in (checks, judge, scenarios):
        one.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Runs a subcommand; returns 1 if a MUST failed."""
    return _RUNS[args.what](args)


def _checks(args: argparse.Namespace) -> int:
    from fsm.kit.checks import CHECKS
    from fsm.kit.judge import check_lines

    if args.json:
        fields = ("id", "protocol", "clause", "rule")
        listed = [
            {**{name: getattr(check, name) for name in fields}, "grade": check.grade.value} for check in CHECKS.values()
        ]
        out(as_json({"checks": listed}))
    else:
        out("".join(f"{line}\n" for line in check_lines()))
    return 0


def _judge(args: argparse.Namespace) -> int:
    from fsm.kit.judge import finding_document, judge, report_lines, status, verdicts

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
        out(as_json({"traces": listed}))
    else:
        for path, report in reports:
            out(f"{path}\n" + "".join(f"  {line}\n" for line in report_lines(report)))
    return status([report for _, report in reports])


def _read(path: Path) -> list[Exchange | Note]:
    from fsm.wire.exchange import read_lines

    try:
        with (
            refuse_os_errors("cannot be read", path, "give a trace of exchanges"),
            path.open(encoding="utf-8") as lines,
        ):
            found = list(read_lines(lines, str(path)))
    except UnicodeDecodeError:
        raise InputError("is not text", str(path), "give a trace of exchanges, one JSON object per line") from None
    if not found:
        raise InputError("has no exchanges", str(path), "give a trace of exchanges, one JSON object per line")
    return found


def _scenarios(args: argparse.Namespace) -> int:
    from fsm.kit.scenarios import SCENARIOS

    if args.json:
        listed = [{"name": one.name, "protocol": one.protocol, "about": one.about} for one in SCENARIOS.values()]
        out(as_json({"scenarios": listed}))
    else:
        out("".join(f"{one.name:28} {one.protocol:8} {one.about}\n" for one in SCENARIOS.values()))
    return 0


def _run(args: argparse.Namespace) -> int:
    import asyncio

    from fsm.kit import documents
    from fsm.kit.judge import status
    from fsm.kit.processes import OurPlace, run_all
    from fsm.kit.scenarios import find_scenarios

    try:
        command = shlex.split(args.adapter)
    except ValueError as problem:
        raise InputError(f"{problem}", "COMMAND", "quote it as for a shell") from None
    if not command:
        raise InputError("is empty", "COMMAND", "give a command that starts an adapter")
    scenarios = find_scenarios(args.scenario, args.protocol)
    if not scenarios:
        raise InputError(f"none of these scenarios is for {args.protocol} groups", "--scenario", "leave --protocol out")
    make_place: MakePlace = OurPlace
    if args.broker:
        scenarios, make_place = _elsewhere(args, scenarios)
    if args.keep is not None:
        check_folder(args.keep, "--keep")
    line = StatusLine()
    progress = _progress(len(scenarios), args.keep, line)
    results = asyncio.run(run_all(command, scenarios, args.jobs, progress, make_place))
    line.show()
    client = documents.software(results, args.adapter)
    if args.json:
        out(as_json(documents.as_document(results, client)))
    elif args.junit:
        out(documents.as_junit(results, client))
    elif args.html:
        out(documents.as_html(results, client))
    else:
        out("".join(f"{text}\n" for text in documents.as_text(results, client)))
    return status([result.report for result in results])


def _elsewhere(args: argparse.Namespace, scenarios: Sequence[Scenario]) -> tuple[list[Scenario], MakePlace]:
    """The scenarios that can run on any cluster, and the factory of their places."""
    import time

    from fsm.capture.real_brokers import RealPlace, can_be_played, isolate
    from fsm.join.consumer import read_addresses

    left_out = [one.name for one in scenarios if not can_be_played(one)]
    if left_out and args.scenario:
        remedy = "leave it out, or leave --broker out"
        raise InputError(f"{left_out[0]} needs faults that only our brokers have", "--scenario", remedy)
    if left_out:
        sys.stderr.write(f"left out, because only our brokers have the faults they need: {', '.join(left_out)}\n")
    place = partial(RealPlace, read_addresses(args.broker))
    began = f"{time.time_ns() // 1_000_000_000:x}"
    return [isolate(one, f"{one.name}-{began}") for one in scenarios if can_be_played(one)], place


def _progress(count: int, folder: Path | None, line: StatusLine) -> Callable[[Result], None]:
    """A function that shows the progress on a terminal and writes the traces."""
    from fsm.wire import to_line

    done: list[str] = []

    def show(result: Result) -> None:
        done.append(result.scenario.name)
        if folder is not None:
            text = "".join(f"{to_line(one)}\n" for one in result.trace)
            write(folder / f"{result.scenario.name}.jsonl", text.encode())
        line.show(f"{len(done)} of {count}: {result.scenario.name}")

    return show


_RUNS = {"checks": _checks, "judge": _judge, "run": _run, "scenarios": _scenarios}
