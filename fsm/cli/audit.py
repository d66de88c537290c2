"""`fsm audit`: the Spark pipeline over real logs. Spark is imported when the command runs, not before."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fsm.audit.limits import Limits
from fsm.cli import add_command
from fsm.logs import formats
from fsm.spark.options import Options

EXAMPLES = """examples:
  fsm audit logs/ -o out                             every log below logs/, formats found by themselves
  fsm audit app.log.gz other.log -o out --json       findings as one JSON document on stdout
  fsm audit logs/ -o out --format java --timezone Europe/Berlin
  fsm audit logs/ -o out --master "local[4]" --clock-skew-ms 50

exit status: 0 no finding above info; 1 findings; 2 where nothing can be read or Spark cannot start"""


def _format(name: str) -> str:
    """The name of a format; they are looked up when one is asked for, not whenever the command line is built."""
    known = ("auto", *sorted({one.name for one in formats()}))
    if name not in known:
        raise argparse.ArgumentTypeError(f"invalid choice: {name!r} (choose from {', '.join(map(repr, known))})")
    return name


def add(commands: Any) -> None:
    """Registers the command."""
    command = add_command(
        commands, "audit", "audit real logs of clients for rebalance problems, on Spark", EXAMPLES, run
    )
    command.add_argument("paths", nargs="+", metavar="PATH", help="log files and folders, plain or .gz")
    command.add_argument("-o", dest="folder", metavar="DIR", type=Path, required=True, help="report, findings, Parquet")
    usual = Options()
    command.add_argument(
        "--format", metavar="NAME", type=_format, default=usual.format, help="what the logs are; found out by default"
    )
    command.add_argument("--master", default=usual.master, help="a Spark master; the cores of this machine by default")
    command.add_argument(
        "--timezone", default=usual.timezone, help="zone of time stamps that carry none (default %(default)s)"
    )
    command.add_argument(
        "--cluster-by-folder", action="store_true", help="folders directly below a PATH are clusters of their own"
    )
    _add_limits(command, usual.limits)
    command.add_argument(
        "--split-bytes",
        type=_positive,
        default=usual.split_bytes,
        metavar="N",
        help="how much of a file one task reads",
    )
    command.add_argument("--json", action="store_true", help="print the findings as one JSON document")


def _add_limits(command: argparse.ArgumentParser, usual: Limits) -> None:
    limits = (
        ("--clock-skew-ms", usual.clock_skew_ms, "how far the clocks of two hosts may differ"),
        ("--tolerance-ms", usual.tolerance_ms, "double ownership up to this long is no finding"),
        ("--unowned-ms", usual.unowned_ms, "a partition may be without an owner so long"),
        ("--window-ms", usual.window_ms, "memberships lost again within this time make a fencing loop"),
    )
    for option, default, meaning in limits:
        command.add_argument(option, type=_milliseconds, default=default, metavar="MS", help=f"{meaning} ({default})")


def run(args: argparse.Namespace) -> int:
    """Runs the pipeline; gives 1 where it found something."""
    from fsm.spark.audit import run_audit

    return int(run_audit(args))


def _milliseconds(text: str) -> int:
    return _at_least(0, text)


def _positive(text: str) -> int:
    return _at_least(1, text)


def _at_least(least: int, text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least}")
    return int(text)
