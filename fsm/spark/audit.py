"""`fsm audit`: the stages in their order, each written down before the next reads it.

    files -> pieces -> records -> members -> rows of each member -> groups -> findings, metrics, report

Every stage is a Parquet folder below a working folder beside the result; the result is renamed into place when it is
complete. Nothing is collected to the driver but what is bounded: totals, and the worst findings and busiest groups
that the report shows.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fsm.audit.limits import Limits
from fsm.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from fsm.render.views import FindingView
    from fsm.spark.sources import Inputs

KEPT = ("records", "transitions", "intervals", "wants", "lives", "turns", "rebalances", "findings", "files", "dwell")
"""Parquet folders of a result."""
SHOWN = 10
"""Findings that the command prints; the report holds the rest."""
MARK = "audit.json"
"""A folder that holds this file is a result of ours and may be replaced."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for."""

    format: str = "auto"
    master: str = "local[*]"
    timezone: str = "UTC"
    split_bytes: int = 64 << 20
    by_folder: bool = False
    """Folders directly below a path are clusters of their own: their groups are named `folder:group`."""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Result:
    """What an audit found, bounded; all of it is in the folder."""

    inputs: dict[str, Any]
    metrics: dict[str, Any]
    worst: tuple[FindingView, ...]
    """The worst findings, as the report shows them."""

    @property
    def bad(self) -> bool:
        """True where a finding is above info."""
        return any(total["severity"] != "info" for total in self.metrics["findings"])


def run_audit(args: argparse.Namespace) -> int:
    """The command: audits, prints a summary or JSON, gives the exit status. Raises `InputError` for unusable input."""
    options = Options(
        format=args.format,
        master=args.master or "local[*]",
        timezone=_zone(args.timezone),
        split_bytes=args.split_bytes or Options().split_bytes,
        by_folder=args.cluster_by_folder,
        limits=Limits(
            tolerance_ms=args.tolerance_ms,
            clock_skew_ms=args.clock_skew_ms,
            unowned_ms=args.unowned_ms,
            window_ms=args.window_ms,
        ),
    )
    result = audit([Path(p) for p in args.paths], args.folder, options, progress=sys.stderr.isatty())
    if args.json:
        _print_json(args.folder)
    else:
        _print_summary(result, args.folder)
    return 1 if result.bad else 0


def _print_json(out: Path) -> None:
    with (out / MARK).open(encoding="utf-8") as document:
        shutil.copyfileobj(document, sys.stdout)


def _print_summary(result: Result, out: Path) -> None:
    """What was read, what was found, the worst of it, and where the rest is."""
    say = sys.stdout.write
    say(f"read {result.inputs['lines']} lines of {result.inputs['files']} files\n")
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


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(f"unknown time zone {name!r}", "--timezone", "give one such as Europe/Berlin") from None
    return name


def audit(paths: Sequence[Path], out: Path, options: Options, *, progress: bool = False) -> Result:
    """Audits the logs below `paths` into the folder `out`.

    Raises `InputError` where nothing can be read or `out` holds something else; `out` is then as it was.
    """
    from fsm.spark import sources  # noqa: PLC0415  pyspark is loaded here and not before
    from fsm.spark.session import session  # noqa: PLC0415

    _check_target(out)
    inputs = sources.find(paths, by_folder=options.by_folder)
    say = _Progress(progress)
    with _workplace(out) as work:
        with session(options.master, input_bytes=inputs.size, scratch=work / "scratch") as spark:
            result = Stages(spark, inputs, options, work, say).run()
        shutil.rmtree(work / "scratch", ignore_errors=True)
        _replace(work, out)
    say.done()
    return result


class _Progress:
    """Says on stderr which stage runs, where somebody watches."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted

    def __call__(self, text: str) -> None:
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
        raise InputError(f"cannot be written: {problem.strerror}", str(out.parent)) from None
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


class Stages:
    """One audit on one session."""

    def __init__(self, spark: SparkSession, inputs: Inputs, options: Options, work: Path, say: _Progress) -> None:
        self.spark = spark
        self.inputs = inputs
        self.options = options
        self.work = work
        self.say = say
        self.stages: dict[str, DataFrame] = {}

    def run(self) -> Result:
        """All stages."""
        self._parse()
        self._fold()
        self._groups()
        self._findings()
        return self._report()

    def read(self, name: str) -> DataFrame:
        """A stage that is written."""
        return self.stages[name]

    def write(self, frame: DataFrame, name: str) -> DataFrame:
        """Writes a stage and reads it back, so that no stage is computed twice."""
        folder = str(self.work / f"{name}.parquet")
        frame.write.parquet(folder)
        # Spark would start a job to learn the schema that is known here.
        self.stages[name] = self.spark.read.schema(frame.schema).parquet(folder)
        return self.stages[name]

    def _parse(self) -> None:
        from pyspark.sql import functions as F  # noqa: PLC0415, N812

        from fsm.spark import members, parse, schema, sources  # noqa: PLC0415

        self.say(f"reading {len(self.inputs.sources)} files, {self.inputs.size / 1e6:.0f} MB")
        pieces = sources.frame(self.spark, self.inputs, self.options.split_bytes)
        worker = parse.parser(self.options.format, self.options.timezone)
        parsed = self.write(pieces.mapInArrow(worker, schema.PARSED), "parsed")
        self.write(members.keyed(parsed.where(F.col("record").isNotNull()).select("record.*")), "records")
        self.write(parsed.where(F.col("seen").isNotNull()).select("seen.*"), "files")
        shutil.rmtree(self.work / "parsed.parquet")
        if self.read("records").isEmpty():
            first = self.inputs.sources[0].path
            wanted = "no known client" if self.options.format == "auto" else f"no {self.options.format} log"
            raise InputError(
                f"{wanted} wrote any of the {len(self.inputs.sources)} files (the first is {first})",
                remedy="see `fsm audit --help` for what can be read",
            )

    def _fold(self) -> None:
        from fsm.audit.member import fold  # noqa: PLC0415
        from fsm.spark import conformance  # noqa: PLC0415
        from fsm.spark.fold import folded  # noqa: PLC0415
        from fsm.spark.groups import only  # noqa: PLC0415

        self.say("following each member")
        limits = self.options.limits
        told = self.write(
            folded(self.read("records"), lambda group, member, seen: fold(group, member, seen, limits)),
            "folded",
        )
        for name, stage in _FOLDED.items():
            self.write(only(told, name), stage)
        self.write(conformance.judged(self.spark, only(told, "hop")), "transitions")
        self.write(conformance.dwell(self.read("transitions")), "dwell")
        shutil.rmtree(self.work / "folded.parquet")

    def _groups(self) -> None:
        from fsm.spark import groups  # noqa: PLC0415

        self.say("comparing members")
        intervals, wants = self.read("intervals"), self.read("wants")
        covered = self.write(groups.coverage(self.read("bare_lives"), intervals), "lives")
        shutil.rmtree(self.work / "bare_lives.parquet")
        known = groups.facts(covered)
        parts = self.write(groups.partitions(intervals, wants, covered, known, self.options.limits), "partitions")
        self.write(groups.rebalances(self.read("turns"), parts), "rebalances")

    def _findings(self) -> None:
        from pyspark.sql import DataFrame  # noqa: PLC0415

        from fsm.spark import conformance, evidence, groups  # noqa: PLC0415

        self.say("collecting evidence")
        parts = self.read("partitions")
        found = [
            self.read("member_findings"),
            groups.findings(parts),
            conformance.illegal(self.read("transitions")),
            groups.storms(self.read("turns"), self.options.limits),
            self._unparsed(),
        ]
        together = self.write(reduce(DataFrame.unionByName, found), "raw_findings")
        shown = evidence.with_lines(together, self.read("records"), self.read("files"))
        self.write(evidence.in_order(shown), "findings")
        for stage in ("partitions", "member_findings", "raw_findings"):
            shutil.rmtree(self.work / f"{stage}.parquet")

    def _unparsed(self) -> DataFrame:
        from fsm.spark import unparsed  # noqa: PLC0415

        return unparsed.findings(self.spark, self.read("files"), self.inputs.unreadable)

    def _report(self) -> Result:
        from fsm.render.report import render  # noqa: PLC0415
        from fsm.spark import document, report  # noqa: PLC0415

        self.say("writing the report")
        known = document.write(self, self.work / MARK)
        page = report.contents(self, known)
        (self.work / "report.html").write_text(render(page), encoding="utf-8")
        return Result(known["inputs"], known["metrics"], page.findings)


_FOLDED: dict[str, str] = {
    "interval": "intervals",
    "want": "wants",
    "life": "bare_lives",
    "turn": "turns",
    "finding": "member_findings",
}
"""Rows of the fold and the stage they are kept as."""
