"""`fsm audit`: from paths and options to a folder with the result.

Nothing is collected to the driver but what is bounded: totals, and the worst incidents. Groups are written for the
report by the tasks that judge them.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsm.audit.reading.certainty import Understood
from fsm.errors import InputError
from fsm.render.wording import many, utc
from fsm.spark.options import IN_PROCESS, Options
from fsm.spark.progress import Progress
from fsm.spark.result import MARK, STDIN_LOG, put_in_place, workplace

if TYPE_CHECKING:
    from fsm.spark.pipeline import Plan
    from fsm.spark.sources import Inputs, Job
    from fsm.spark.totals import ReportedIncident, Totals

MOST = 40
"""Unreadable files and older results that the document names; it counts the rest."""
NAMED = 5
"""Groups that an error names."""
LAST_PART = 99_999
"""The part of a table that the driver writes."""


@dataclass(frozen=True, slots=True)
class Result:
    """What an audit found, bounded; all of it is in the folder."""

    inputs: dict[str, Any]
    metrics: dict[str, Any]
    master: str = ""
    """Where it was computed, as `Options.master`."""
    incidents: tuple[ReportedIncident, ...] = ()
    """The worst incidents, each with the worst of its findings."""

    @property
    def understood(self) -> Understood:
        """How much of what clients say was understood."""
        return Understood(self.inputs["understood"], self.inputs["not_understood"] + self.inputs["suspects"])

    @property
    def enough(self) -> bool:
        """So much was understood, of all files and of each, that the verdict counts."""
        enough: bool = self.inputs["enough"]
        return enough

    @property
    def bad(self) -> bool:
        return any(total["severity"] != "info" for total in self.metrics["findings"])


def audit_logs(
    paths: Sequence[Path], out: Path, options: Options, *, stdin: bool = False, progress: Progress | None = None
) -> Result:
    """Audits the logs below `paths` into the folder `out`, on the active Spark session or on one of its own.

    With `stdin` what is piped in is a log, too; the result keeps it, so that evidence can be opened.

    Raises `InputError` where nothing can be read or `out` holds something else, and `FsmError` where Spark fails; `out`
    is then as it was.
    """
    from fsm.spark import session, sources

    kept, out = str(out / STDIN_LOG), out.resolve()
    found = sources.find(paths, by_folder=options.by_folder, leave_out=out) if paths or not stdin else None
    say = progress or Progress(StringIO())
    with say.show(), workplace(out) as work:
        inputs = sources.add_stdin(found, work / STDIN_LOG, kept) if stdin or found is None else found
        if options.master == IN_PROCESS:
            from fsm.spark import pipeline

            bins = sources.bins(inputs, options.split_bytes, 1, sources.list_formats(options))
            plan = _plan(inputs, bins, options, work)
            totals = pipeline.in_process(bins, plan, say)
        else:
            say("starting Spark")
            with session.session(options.master, input_bytes=inputs.size, scratch=work / "scratch") as spark:
                from fsm.spark import pipeline

                cores = spark.sparkContext.defaultParallelism
                bins = sources.bins(inputs, options.split_bytes, cores, sources.list_formats(options))
                plan = _plan(inputs, bins, options, work)
                with session.plainly(lambda: say.doing, pipeline.stage_of):
                    totals = pipeline.on_spark(spark, bins, plan, inputs.size, say)
            shutil.rmtree(work / "scratch", ignore_errors=True)
        say("writing the report")
        result = _write_up(inputs, totals, plan)
        put_in_place(work, out)
    return result


def _plan(inputs: Inputs, bins: Sequence[Sequence[Job]], options: Options, work: Path) -> Plan:
    from fsm.audit.hygiene.rotation import missing
    from fsm.spark.pipeline import Plan

    gone = missing(source.name for source in inputs.sources)
    cut = sum(map(len, bins)) > len(inputs.sources)
    return Plan(str(work), options, gone, cut)


def _write_up(inputs: Inputs, totals: Totals, plan: Plan) -> Result:
    """The document, the report and the tables that are not written yet. Raises `InputError` where nothing was read."""
    from fsm.audit.reading import unparsed
    from fsm.audit.report import report
    from fsm.render.report.folder import write_page
    from fsm.spark import document, pipeline, tables

    work, options = Path(plan.work), plan.options
    if not totals.sums["records"]:
        raise explain_nothing(len(inputs.sources), inputs.first, totals, options)
    if totals.others and not totals.sums["groups"]:
        there = f"there are {', '.join(totals.others[:NAMED])}" + (" and others" if totals.others[NAMED:] else "")
        raise InputError("no such group in these logs", " ".join(options.groups), there)
    _check_time(totals, options)
    with tables.Tables(work, LAST_PART) as driver:
        pipeline.add_of_files(map(unparsed.report_unreadable, inputs.unreadable), plan, totals, driver)
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
        "known_findings": totals.sums["known"],
    }
    metrics = totals.metrics()
    document.write(
        work / MARK,
        read,
        metrics,
        pipeline.overviews(work),
        incidents=pipeline.incidents(work),
        findings=pipeline.findings(work),
        coordinators=coordinators,
    )
    write_page(work, report(read, metrics, totals.trend, totals.sums["end_unknown"]), top=options.top)
    shutil.rmtree(work / "names", ignore_errors=True)
    return Result(read, metrics, options.master, tuple(totals.incidents))


def _check_time(totals: Totals, options: Options) -> None:
    """Raises `InputError` where no line is of the time that was chosen: that nothing is found would tell nothing."""
    first_ms, last_ms = totals.start_ms, totals.end_ms
    if not first_ms or last_ms is None:  # logs without a clock are of any time
        return
    there = f"they are from {utc(first_ms)} to {utc(last_ms)} UTC"
    if options.since_ms is not None and options.since_ms > last_ms:
        raise InputError("these logs end before", f"--since {utc(options.since_ms)}", there)
    if options.until_ms is not None and options.until_ms < first_ms:
        raise InputError("these logs begin after", f"--until {utc(options.until_ms)}", there)


def explain_nothing(files: int, first: str, totals: Totals, options: Options) -> InputError:
    """Why nothing was understood in so many files, of which one is named."""
    wrote = "no known client" if options.format == "auto" else f"no {options.format} log"
    if totals.not_learned:
        file, tried = totals.not_learned[0]
        problem = f"clients speak, but no layout could be learned; tried: {' | '.join(tried)}"
        return InputError(problem, file, "state the layout with --layout")
    if totals.damaged:
        file, error = totals.damaged[0]
        return InputError(f"cannot be read: {error}", file, "nor does any other file help")
    if missed := totals.sums["not_understood"] + totals.sums["suspects"]:
        problem = f"{many(missed, 'line')} like those of clients, and none was understood"
        return InputError(problem, first, "the lines may be cut, or of a release that is not known")
    return InputError(
        f"{wrote} wrote any of the {files} files (the first is {first})",
        remedy="see `fsm audit --help` for what can be read",
    )
