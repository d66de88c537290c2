"""`fsm audit`: the pipeline over real logs."""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fsm.audit.limits import Limits
from fsm.cli import add_command, at_least, audit_follow, interruptible
from fsm.cli.arguments import (
    SCHEME,
    SECURITY,
    add_security_options,
    address,
    list_given,
    read_security,
    write,
    write_pieces,
)
from fsm.cli.audit_summary import check_understood, print_summary, print_text
from fsm.errors import FsmError, InputError
from fsm.logs import formats
from fsm.render.wording import many
from fsm.spark.options import IN_PROCESS, Options

if TYPE_CHECKING:
    from fsm.audit.findings import Finding
    from fsm.audit.incidents import Incident
    from fsm.audit.lag import Lag

EXAMPLES = """examples:
  fsm audit logs/ -o out                             every log below logs/, formats detected
  fsm audit app.log.gz other.log -o out --json       print the findings as one JSON document
  fsm audit must-gather.tar.gz -o out                the files of an archive: tar, tar.gz, tar.zst, zip, ...
  kubectl logs shop-0 --timestamps | fsm audit - -o out
  fsm audit logs/ -o out --group orders --since 2026-11-21T07:00Z
  fsm audit logs/ -o out --format java --timezone Europe/Berlin
  fsm audit logs/ -o out --layout "%d{HH:mm:ss} %p %c{1} %m%n"
  fsm audit logs/ -o out --master "local[4]" --clock-skew-ms 50
  fsm audit logs/ -o out --baseline known.txt --junit audit.xml
  fsm audit logs/ -o out --lag lag.txt               output of kafka-consumer-groups --describe in a loop
  fsm audit a.log b.log -o out --master none         in this process, without Spark: faster for a few files"""
COMPARISON = """
  fsm audit --compare before after -o compared       what is worse and what is better in a later audit"""
EXIT = """

exit status: 0 no finding above info; 1 findings; 2 nothing can be read, too little was understood, or Spark cannot
start; 130 stopped by Ctrl-C or another signal: no result was written"""


def add(commands: Any) -> None:
    """Registers the command."""
    command = add_command(
        commands,
        "audit",
        "audit logs of real clients for rebalance problems, on Spark",
        EXAMPLES + audit_follow.EXAMPLES + COMPARISON + EXIT,
        run,
    )
    option = command.add_argument
    option(
        "paths",
        nargs="+",
        metavar="PATH",
        help="log files and folders, plain, packed (gzip, bzip2, xz, zstd, lz4) or in archives (tar, zip); - is stdin",
    )
    option(
        "-o", dest="folder", metavar="DIR", type=Path, required=True, help="write the report, findings and Parquet here"
    )
    usual = Options()
    option("--format", metavar="NAME", type=_format, default=usual.format, help="format of the logs (detected)")
    option(
        "--layout",
        metavar="PATTERN",
        default=usual.layout,
        help="layout of the lines, such as '%%{time} %%{level} [%%{thread}] %%{logger} - %%{message}', or a pattern of "
        "logback, log4j or Python's logging (learned from each file)",
    )
    option(
        "--master",
        default=usual.master,
        help="a Spark master, or none to use this process only (the cores of this machine)",
    )
    option("--timezone", default=usual.timezone, help="zone of time stamps without one (%(default)s)")
    option("--cluster-by-folder", action="store_true", help="each folder directly below a PATH is a cluster of its own")
    option("--group", action="append", default=[], metavar="NAME", help="audit only this group; repeatable")
    option("--since", metavar="TIME", help="omit findings that end before this time, such as 2026-11-21T07:00Z")
    option("--until", metavar="TIME", help="omit findings that begin after this time")
    option("--baseline", metavar="FILE", type=Path, help="omit known findings: an earlier audit.json, or a list of ids")
    lag = command.add_mutually_exclusive_group()
    lag.add_argument(
        "--lag", metavar="FILE", type=Path, help="output of kafka-consumer-groups --describe over time, with dates"
    )
    lag.add_argument("--lag-from", metavar="HOST:PORT", help="ask a broker for the current lag of the groups")
    add_security_options(command)
    option(
        "--top",
        type=at_least(1),
        default=usual.top,
        metavar="N",
        help="groups in the page of a large report itself; the others are in files beside it (%(default)s)",
    )
    option(
        "--min-understood",
        type=_percent,
        default=usual.min_understood,
        metavar="PERCENT",
        help="give no verdict if less than this share of the clients' log entries was understood: in total, in any "
        f"file, or of any client in a file ({100 * usual.min_understood:.0f} %%)",
    )
    _add_limits(command, usual.limits)
    option(
        "--split-bytes",
        type=at_least(1),
        default=usual.split_bytes,
        metavar="N",
        help="bytes of a file that one task reads",
    )
    option("--json", action="store_true", help="print the findings as one JSON document")
    option("--junit", metavar="FILE", type=Path, help="write incidents as JUnit XML")
    option("--sarif", metavar="FILE", type=Path, help="write findings as SARIF 2.1.0")
    _add_comparison(command)
    audit_follow.add_options(command)


def _add_limits(command: argparse.ArgumentParser, usual: Limits) -> None:
    limits = (
        ("--clock-skew-ms", usual.clock_skew_ms, "largest difference between the clocks of two hosts"),
        ("--tolerance-ms", usual.tolerance_ms, "ignore double ownership that is not longer than this"),
        ("--unowned-ms", usual.unowned_ms, "ignore partitions without an owner for no longer than this"),
        (
            "--window-ms",
            usual.window_ms,
            "a member that loses its membership repeatedly within this time is in a fencing loop",
        ),
    )
    for option, default, meaning in limits:
        command.add_argument(option, type=at_least(0), default=default, metavar="MS", help=f"{meaning} ({default})")


def run(args: argparse.Namespace) -> int:
    """Audits, prints a summary or JSON, returns the exit status. Raises `InputError` for unusable input."""
    from fsm.audit.incidents.baseline import read_baseline
    from fsm.spark.audit import audit_logs
    from fsm.spark.progress import Progress
    from fsm.spark.result import MARK
    from fsm.spark.sources import STDIN

    if args.compare:
        return _compare(args)
    _refuse_addresses(args)
    options = Options(
        format=args.format,
        layout=_layout(args.layout),
        master=args.master,
        timezone=_zone(args.timezone),
        split_bytes=args.split_bytes,
        by_folder=args.cluster_by_folder,
        groups=tuple(args.group),
        since_ms=_instant_ms("--since", args.since, args.timezone),
        until_ms=_instant_ms("--until", args.until, args.timezone),
        known=read_baseline(args.baseline) if args.baseline else frozenset(),
        lag=_lag(args),
        top=args.top,
        min_understood=args.min_understood,
        limits=Limits(
            tolerance_ms=args.tolerance_ms,
            clock_skew_ms=args.clock_skew_ms,
            unowned_ms=args.unowned_ms,
            window_ms=args.window_ms,
        ),
    )
    if options.master == IN_PROCESS:
        from fsm.spark.columns import skip_pandas

        skip_pandas()
    if options.since_ms is not None and options.until_ms is not None and options.since_ms > options.until_ms:
        raise InputError("is after --until", f"--since {args.since}", "give a time before it")
    given = list_given(args, SECURITY)
    if given and not args.lag_from and not any(path.startswith(SCHEME) for path in args.paths):
        raise InputError("is for --lag-from, and for topics that are followed", given[0])
    if args.follow:
        options = replace(options, lag={})  # it grows, too: it is read again for each group
        return audit_follow.run_follow(args, options)
    audit_follow.refuse_options(args)
    with _stoppable():
        paths = [Path(path) for path in args.paths if path != STDIN]
        stdin = STDIN in args.paths
        result = audit_logs(paths, args.folder, options, stdin=stdin, progress=Progress(sys.stderr))
    _write_forms(args)
    if args.json:
        with (args.folder / MARK).open(encoding="utf-8") as document:
            shutil.copyfileobj(document, sys.stdout)
    else:
        print_summary(result, args.folder)
    check_understood(result, args.folder)
    return 1 if result.bad else 0


def _refuse_addresses(args: argparse.Namespace) -> None:
    """Raises `InputError` for an address in place of a path, except that of a topic that is followed."""
    for path in args.paths:
        if path.startswith(SCHEME) and not args.follow:
            raise InputError("a topic can only be followed", path, "give --follow")
        if re.match(r"[a-z][a-z0-9+.-]*://", path, re.IGNORECASE) and not path.startswith(SCHEME):
            raise InputError("only files are read", path, "mount the store, or download the logs, and give the path")


def _write_forms(args: argparse.Namespace) -> None:
    """Writes the result in the requested formats of other tools (JUnit, SARIF)."""
    if not args.junit and not args.sarif:
        return
    from fsm.audit.report.tool_formats import junit, sarif
    from fsm.spark import pipeline

    def read_result() -> tuple[Iterator[Incident], Iterator[Finding]]:
        return pipeline.incidents(args.folder), pipeline.findings(args.folder)

    if args.junit:
        groups = (one.group for one in pipeline.overviews(args.folder))
        write_pieces(args.junit, map(str.encode, junit(groups, *read_result())))
    if args.sarif:
        write_pieces(args.sarif, map(str.encode, sarif(*read_result())))


@contextmanager
def _stoppable() -> Iterator[None]:
    with interruptible(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as received:
        try:
            yield
        except (KeyboardInterrupt, FsmError) as stopped:
            # An interrupted job may look like an error of Spark, and pyspark itself handles Ctrl-C for some time.
            if not received and isinstance(stopped, FsmError):
                raise
            print("fsm: stopped; no result was written", file=sys.stderr)  # noqa: T201
            raise KeyboardInterrupt("said") from None


def _format(name: str) -> str:
    """The name of a format. Formats are loaded when the option is given, not when the parser is built."""
    known = ("auto", *sorted({one.name for one in formats()}))
    if name not in known:
        raise argparse.ArgumentTypeError(f"invalid choice: {name!r} (choose from {', '.join(map(repr, known))})")
    return name


def _layout(pattern: str) -> str:
    if pattern:
        from fsm.logs.layouts.pattern import parse_pattern

        parse_pattern(pattern)
    return pattern


def _lag(args: argparse.Namespace) -> Lag:
    """The lag of groups, from the file of `--lag` or the broker of `--lag-from`."""
    if args.lag:
        from fsm.audit.lag import read_lag

        zone = _zone(args.timezone)
        return read_lag(args.lag, UTC if zone == "UTC" else ZoneInfo(zone))
    if args.lag_from:
        from fsm.cli.broker_lag import read_broker_lag

        return read_broker_lag(*address(args.lag_from, "--lag-from"), args.group, security=read_security(args))
    return {}


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(f"unknown time zone {name!r}", "--timezone", "give one such as Europe/Berlin") from None
    return name


def _instant_ms(option: str, text: str | None, zone: str) -> int | None:
    """Epoch milliseconds of an instant in ISO 8601 or epoch milliseconds."""
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{text!r} is not a time", option, "give one such as 2026-11-21T07:00Z") from None
    return int((instant if instant.tzinfo else instant.replace(tzinfo=ZoneInfo(zone))).timestamp() * 1000)


def _percent(text: str) -> float:
    percent = at_least(0)(text.removesuffix("%"))
    if percent > 100:
        raise argparse.ArgumentTypeError(f"{text!r} is more than 100 %")
    return percent / 100


# Comparing two results, before and after a change.


PAGE = "compare.html"
NEVER_THEN = (
    "follow", "json", "junit", "sarif", "group", "since", "until", "baseline", "lag", "lag_from", "layout",
    "tls", "cafile", "user", "password_file", "trigger_ms", "expire_ms", "close_ms", "stop_ms", "exec",
)  # fmt: skip
"""Options of an audit that a comparison does not take."""


def _add_comparison(command: argparse.ArgumentParser) -> None:
    """Registers the options of a comparison."""
    command.add_argument(
        "--compare",
        action="store_true",
        help=f"compare the results of two audits, given as PATHs: write {PAGE}, and print what is worse and better",
    )


def _compare(args: argparse.Namespace) -> int:
    """Writes the page; returns 1 if a group is worse than before. Raises `InputError` for folders without results."""
    from fsm.render.report.compare import render_comparison
    from fsm.spark.compare import compare

    if len(args.paths) != 2:
        raise InputError(
            "needs two results", "--compare", "give the folder of the older audit, then that of the newer one"
        )
    if given := list_given(args, NEVER_THEN):
        raise InputError("compares existing results", "--compare", f"leave out {', '.join(given)}")
    changes = compare(*map(Path, args.paths))
    page = args.folder / PAGE
    write(page, render_comparison(changes).encode())
    counts = ("errors", "warnings", "rebalances", "moved")
    for name in counts:
        before, after = getattr(changes.before.counts, name), getattr(changes.after.counts, name)
        print_text(f"  {name.replace('moved', 'partitions moved'):18} {before:8} -> {after}\n")
    for change in changes.worse[:5]:
        more = ", ".join(f"{count} {kind}{f' ({cause})' if cause else ''}" for kind, cause, count in change.came)
        print_text(f"worse: {change.group}{f': more of {more}' if more else ''}\n")
    summary = (
        f"{many(changes.worse_count, 'group')} worse, {changes.better_count} better, {changes.same_count} as before"
    )
    print_text(f"{summary}; page: {page}\n")
    return 1 if changes.worse_count else 0
