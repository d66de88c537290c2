"""`fsm audit`: from paths and options to a folder with the result, and the exit status.

The result is made in a folder beside it and renamed into place when it is complete. Nothing is collected to the driver
but what is bounded: totals, and the worst findings and busiest groups that the report shows.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fsm.audit.limits import Limits
from fsm.errors import InputError
from fsm.spark.options import Options

if TYPE_CHECKING:
    from fsm.render.timeline.views import FindingView
    from fsm.spark.pipeline import Plan
    from fsm.spark.sources import Inputs, Job
    from fsm.spark.totals import Totals

SHOWN = 5
"""Findings that the command prints; the report holds the rest."""
MOST = 40
"""Unreadable files and older results that the document names; it counts the rest."""
IN_PROCESS = "none"
"""The master that stands for this process."""
LAST_PART = 99_999
"""The part of a table that the driver writes."""
MARK = "audit.json"
"""A folder that holds this file is a result of ours and may be replaced."""


@dataclass(frozen=True, slots=True)
class Result:
    """What an audit found, bounded; all of it is in the folder."""

    inputs: dict[str, Any]
    metrics: dict[str, Any]
    worst: tuple[FindingView, ...]
    """The worst findings, as the report shows them."""

    @property
    def bad(self) -> bool:
        return any(total["severity"] != "info" for total in self.metrics["findings"])


def run_audit(args: argparse.Namespace) -> int:
    """The command: audits, prints a summary or JSON, gives the exit status. Raises `InputError` for unusable input."""
    options = Options(
        format=args.format,
        master=args.master,
        timezone=_zone(args.timezone),
        split_bytes=args.split_bytes,
        by_folder=args.cluster_by_folder,
        limits=Limits(
            tolerance_ms=args.tolerance_ms,
            clock_skew_ms=args.clock_skew_ms,
            unowned_ms=args.unowned_ms,
            window_ms=args.window_ms,
        ),
    )
    result = audit_logs([Path(p) for p in args.paths], args.folder, options, progress=sys.stderr.isatty())
    if args.json:
        _print_json(args.folder)
    else:
        print_summary(result, args.folder)
    return 1 if result.bad else 0


def _print_json(out: Path) -> None:
    with (out / MARK).open(encoding="utf-8") as document:
        shutil.copyfileobj(document, sys.stdout)


def print_summary(result: Result, out: Path) -> None:
    """What was read, what was found, the worst of it, and where the rest is."""
    say = _say
    say(f"read {result.inputs['lines']} lines of {result.inputs['files']} files\n")
    if older := result.inputs["older_results"]:
        say(f"left out what an audit wrote itself: {', '.join(older)}\n")
    for total in result.metrics["findings"]:
        say(f"  {total['severity']:8}{total['count']:6}  {total['kind']}\n")
    if not result.metrics["findings"]:
        say("  nothing found\n")
    shown = [f for f in result.worst if f.severity != "info"]
    for found in shown[:SHOWN]:
        say(f"{found.severity}: {found.group}: {found.summary}\n")
        for evidence in found.evidence[:1]:
            say(f"  {evidence.file}:{evidence.line}\n")
    if len(shown) > SHOWN:
        say("and more; ")
    say(f"report: {out / 'report.html'}\n")


def _say(text: str) -> None:
    """Writes to stdout. Names come from logs: what no terminal should obey, or can show, is written with its code."""
    shown = "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(shown.encode(encoding, "backslashreplace").decode(encoding))


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(f"unknown time zone {name!r}", "--timezone", "give one such as Europe/Berlin") from None
    return name


def audit_logs(paths: Sequence[Path], out: Path, options: Options, *, progress: bool = False) -> Result:
    """Audits the logs below `paths` into the folder `out`, on the active Spark session or on one of its own.

    Raises `InputError` where nothing can be read or `out` holds something else, and `FsmError` where Spark fails; `out`
    is then as it was.
    """
    from fsm.spark import session, sources

    out = out.resolve()
    _check_target(out)
    inputs = sources.find(paths, by_folder=options.by_folder, leave_out=out)
    say = _Progress(progress)
    with _workplace(out) as work:
        if options.master == IN_PROCESS:
            from fsm.spark import pipeline

            bins = sources.bins(inputs, options.split_bytes, 1)
            totals = pipeline.in_process(bins, _plan(inputs, bins, options, work), say)
        else:
            with session.session(options.master, input_bytes=inputs.size, scratch=work / "scratch") as spark:
                from fsm.spark import pipeline

                bins = sources.bins(inputs, options.split_bytes, spark.sparkContext.defaultParallelism)
                plan = _plan(inputs, bins, options, work)
                with session.plainly(lambda: say.text):
                    totals = pipeline.on_spark(spark, bins, plan, inputs.size, say)
            shutil.rmtree(work / "scratch", ignore_errors=True)
        say("writing the report")
        result = _write_up(work, inputs, totals, options)
        _replace(work, out)
    say.done()
    return result


def _plan(inputs: Inputs, bins: Sequence[Sequence[Job]], options: Options, work: Path) -> Plan:
    from fsm.audit.attribution.rotation import missing
    from fsm.spark.pipeline import Plan

    gone = missing(str(source.path) for source in inputs.sources)
    cut = sum(map(len, bins)) > len(inputs.sources)
    return Plan(str(work), options.format, options.timezone, options.limits, gone, cut)


def _write_up(work: Path, inputs: Inputs, totals: Totals, options: Options) -> Result:
    """The document, the report and the tables that are not written yet. Raises `InputError` where nothing was read."""
    from fsm.audit import unparsed
    from fsm.audit.findings import in_order
    from fsm.audit.report import report
    from fsm.render.report.page import render
    from fsm.spark import document, pipeline, tables

    if not totals.sums["records"]:
        raise _nothing(inputs, totals, options)
    refused = in_order(map(unparsed.refused, inputs.unreadable))
    totals.add_findings(refused)
    driver = tables.Tables(work, LAST_PART)
    driver.add("findings", refused)
    driver.close()
    tables.write_whole(work, "dwell", totals.dwell_times())
    coordinators = totals.sums["coordinators"] > 0
    tables.complete(work, coordinators=coordinators)
    unreadable = sorted([[u.file, u.reason] for u in inputs.unreadable] + [list(one) for one in totals.damaged])
    read = {
        "files": len(inputs.sources),
        "bytes": inputs.size,
        **totals.inputs(),
        "unreadable": unreadable[:MOST],
        "unreadable_files": len(inputs.unreadable) + totals.sums["damaged_files"],
        "older_results": list(inputs.results[:MOST]),
    }
    metrics = totals.metrics()
    told = pipeline.overviews(work), pipeline.findings(work)
    document.write(work / MARK, read, metrics, *told, coordinators=coordinators)
    hidden, unknown_ends = totals.sums["groups"] - len(totals.groups), totals.sums["end_unknown"]
    groups = [view for _, view in totals.groups]
    shown = report(read, metrics, totals.worst, groups, groups_hidden=hidden, unknown_ends=unknown_ends)
    (work / "report.html").write_text(render(shown), encoding="utf-8")
    shutil.rmtree(work / "names", ignore_errors=True)
    return Result(read, metrics, shown.findings)


def _nothing(inputs: Inputs, totals: Totals, options: Options) -> InputError:
    wrote = "no known client" if options.format == "auto" else f"no {options.format} log"
    if totals.damaged:
        file, error = totals.damaged[0]
        return InputError(f"cannot be read: {error}", file, "nor does any other file help")
    return InputError(
        f"{wrote} wrote any of the {len(inputs.sources)} files (the first is {inputs.first})",
        remedy="see `fsm audit --help` for what can be read",
    )


class _Progress:
    """Says on stderr which stage runs, where somebody watches."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        self.text = "starting"

    def __call__(self, text: str) -> None:
        self.text = text
        if self.wanted:
            sys.stderr.write(f"\r\x1b[Kfsm audit: {text}")
            sys.stderr.flush()

    def done(self) -> None:
        if self.wanted:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _check_target(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise InputError("is a file", str(out), "give a folder for the result")
    if out.is_dir() and any(out.iterdir()) and not (out / MARK).exists():
        raise InputError("the folder holds something that is no audit", str(out), "give a new or empty folder")


@contextmanager
def _workplace(out: Path) -> Iterator[Path]:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as problem:
        raise InputError(f"cannot be written: {problem.strerror}", str(out.parent), "give another folder") from None
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _replace(work: Path, out: Path) -> None:
    """The finished result takes the place of an older one."""
    work.chmod(0o755)
    if out.exists():
        old = work.with_name(work.name + "-old")
        out.rename(old)
        work.rename(out)
        shutil.rmtree(old, ignore_errors=True)
    else:
        work.rename(out)
