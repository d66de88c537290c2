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

SHOWN = 5
"""Findings that the command prints; the report holds the rest."""
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
    from fsm.spark import session
    from fsm.spark.read import sources

    out = out.resolve()
    _check_target(out)
    inputs = sources.find(paths, by_folder=options.by_folder, leave_out=out)
    say = _Progress(progress)
    with _workplace(out) as work:
        with session.session(options.master, input_bytes=inputs.size, scratch=work / "scratch") as spark:
            from fsm.spark.stages import Stages

            with session.plainly(lambda: say.text):
                known, shown = Stages(spark, inputs, options, work, say).run(work / "report.html", work / MARK)
        shutil.rmtree(work / "scratch", ignore_errors=True)
        _replace(work, out)
    say.done()
    return Result(known["inputs"], known["metrics"], shown.findings)


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
