"""`fsm audit`: from paths and options to a folder with the result.

Only bounded data is collected to the driver: totals, and the worst incidents. The tasks that judge groups write them
for the report.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import Any, TextIO

from fsm.audit.hygiene.rotation import find_missing
from fsm.audit.reading import unparsed
from fsm.audit.reading.certainty import Understood
from fsm.audit.report import report
from fsm.audit.report.group_views import Overview
from fsm.errors import InputError
from fsm.render.report.folder import write_page
from fsm.render.wording import many, utc
from fsm.spark import pipeline, session, sources, tables
from fsm.spark.options import IN_PROCESS, Options
from fsm.spark.pipeline import Plan
from fsm.spark.progress import Progress
from fsm.spark.result import MARK, STDIN_LOG, create_workspace, publish
from fsm.spark.sources import Inputs, Job
from fsm.spark.totals import ReportedIncident, Totals
from fsm.spark.unpacking import unpack

MOST = 40
"""Most unreadable files and older results listed in the document; the rest is counted."""
NAMED = 5
"""Most groups listed in an error."""
_UNPACKED = "unpacked"
"""The folder of the members of archives, which no result has."""
LAST_PART = 99_999
"""Number of the part of a table that the driver writes."""


@dataclass(frozen=True, slots=True)
class Result:
    """A bounded summary of an audit; the folder has everything."""

    inputs: dict[str, Any]
    metrics: dict[str, Any]
    master: str = ""
    """As `Options.master`."""
    incidents: tuple[ReportedIncident, ...] = ()
    """The worst incidents, each with the worst of its findings."""

    @property
    def understood(self) -> Understood:
        """How many of the clients' entries were understood."""
        return Understood(self.inputs["understood"], self.inputs["not_understood"] + self.inputs["suspects"])

    @property
    def enough(self) -> bool:
        """Whether enough was understood, of all files and of each, for a verdict."""
        return bool(self.inputs["enough"])

    @property
    def bad(self) -> bool:
        return any(total["severity"] != "info" for total in self.metrics["findings"])


def audit_logs(
    paths: Sequence[Path], out: Path, options: Options, *, stdin: bool = False, progress: Progress | None = None
) -> Result:
    """Audits the logs below `paths` into the folder `out`, on the active Spark session or on one of its own.

    With `stdin`, stdin is a log too, and the result keeps a copy, for evidence.

    Raises `InputError` if nothing can be read or `out` is not the result of an audit, and `FsmError` if Spark fails;
    `out` is unchanged then.
    """
    kept, out = str(out / STDIN_LOG), out.resolve()
    by_folder = options.by_folder
    found = sources.find(paths, by_folder=by_folder, leave_out=out, archives=True) if paths or not stdin else None
    progress = progress or Progress(StringIO())
    with progress.show(), create_workspace(out) as work:
        inputs = sources.add_stdin(found, work / STDIN_LOG, kept) if stdin or found is None else found
        progress("unpacking")
        inputs = unpack(inputs, work / _UNPACKED, by_folder=by_folder)
        if options.master == IN_PROCESS:
            bins = sources.pack_bins(inputs, options.split_bytes, 1, sources.list_formats(options))
            plan = _plan(inputs, bins, options, work)
            totals = pipeline.run_in_process(bins, plan, progress)
        else:
            progress("starting Spark")
            with session.session(options.master, input_bytes=inputs.size, scratch=work / "scratch") as spark:
                cores = spark.sparkContext.defaultParallelism
                bins = sources.pack_bins(inputs, options.split_bytes, cores, sources.list_formats(options))
                plan = _plan(inputs, bins, options, work)
                with session.convert_errors(lambda: progress.doing, pipeline.find_stage):
                    totals = pipeline.run_on_spark(spark, bins, plan, inputs.size, progress)
            shutil.rmtree(work / "scratch", ignore_errors=True)
        shutil.rmtree(work / _UNPACKED, ignore_errors=True)
        progress("writing the report")
        result = _write_result(inputs, totals, plan)
        publish(work, out)
    return result


def _plan(inputs: Inputs, bins: Sequence[Sequence[Job]], options: Options, work: Path) -> Plan:
    gone = find_missing(source.name for source in inputs.sources)
    cut = sum(map(len, bins)) > len(inputs.sources)
    return Plan(str(work), options, gone, cut)


def _write_result(inputs: Inputs, totals: Totals, plan: Plan) -> Result:
    """Writes the document, the report and the missing tables. Raises `InputError` if nothing was read."""
    work, options = Path(plan.work), plan.options
    if not totals.sums["records"]:
        cut = next((one for one in inputs.unreadable if one.begun), None)
        if cut is not None:
            raise InputError(f"cannot be read: {cut.reason}", cut.file, "nothing before that was understood")
        raise explain_nothing(len(inputs.sources), inputs.first, totals, options)
    if totals.others and not totals.sums["groups"]:
        there = f"there are {', '.join(totals.others[:NAMED])}" + (" and others" if totals.others[NAMED:] else "")
        raise InputError("no such group in these logs", " ".join(options.groups), there)
    if totals.groupless and not totals.sums["groups"]:
        raise InputError("no line tells the group of what was read", totals.groupless[0], "add logs of its beginning")
    _check_time(totals, options)
    with tables.Tables(work, LAST_PART) as driver:
        pipeline.add_file_findings(map(unparsed.report_unreadable, inputs.unreadable), plan, totals, driver)
        driver.add("dwell", totals.dwell_times())
    totals.add_unread(one.file for one in inputs.unreadable if one.packed)
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
    _write_document(work, read, metrics, coordinators=coordinators)
    write_page(work, report(read, metrics, totals.trend, totals.sums["end_unknown"]), top=options.top)
    shutil.rmtree(work / "names", ignore_errors=True)
    return Result(read, metrics, options.master, tuple(totals.incidents))


def _check_time(totals: Totals, options: Options) -> None:
    """Raises `InputError` if no line is within the selected time, because then no finding would mean nothing."""
    first_ms, last_ms = totals.start_ms, totals.end_ms
    if not first_ms or last_ms is None:  # logs without timestamps are of any time
        return
    there = f"they are from {utc(first_ms)} to {utc(last_ms)} UTC"
    if options.since_ms is not None and options.since_ms > last_ms:
        raise InputError("these logs end before", f"--since {utc(options.since_ms)}", there)
    if options.until_ms is not None and options.until_ms < first_ms:
        raise InputError("these logs begin after", f"--until {utc(options.until_ms)}", there)


def explain_nothing(files: int, first: str, totals: Totals, options: Options) -> InputError:
    """The error for `files` files, the first of them `first`, in which nothing was understood."""
    wrote = "no known client" if options.format == "auto" else f"no {options.format} log"
    if totals.not_learned:
        file, tried = totals.not_learned[0]
        problem = f"clients speak, but no layout could be learned; tried: {' | '.join(tried)}"
        return InputError(problem, file, "state the layout with --layout")
    if totals.damaged:
        file, error = totals.damaged[0]
        return InputError(f"cannot be read: {error}", file, "no other file can be audited either")
    if missed := totals.sums["not_understood"] + totals.sums["suspects"]:
        problem = f"{many(missed, 'line')} like those of clients, and none was understood"
        return InputError(problem, first, "the lines may be cut, or of a release that is not known")
    return InputError(
        f"{wrote} wrote any of the {files} files (the first is {first})",
        remedy="see `fsm audit --help` for what can be read",
    )


# `audit.json`, streamed, in a fixed order.


def _write_document(work: Path, inputs: Mapping[str, Any], metrics: Mapping[str, Any], *, coordinators: bool) -> None:
    """Writes `{"inputs": {...}, "groups": [...], "incidents": [...], "findings": [...], "metrics": {...}}`.

    Members without logs are counted only if there are records of coordinators.
    """
    groups = (_describe_group(one, coordinators=coordinators) for one in pipeline.overviews(work))
    with (work / MARK).open("w", encoding="utf-8") as out:
        out.write('{"inputs": ' + json.dumps(inputs))
        _write_list(out, "groups", groups)
        _write_list(out, "incidents", (one.to_json() for one in pipeline.incidents(work)))
        _write_list(out, "findings", (one.to_json() for one in pipeline.findings(work)))
        out.write(',\n"metrics": ' + json.dumps(metrics) + "}\n")


def _write_list(out: TextIO, name: str, items: Iterable[Mapping[str, Any]]) -> None:
    out.write(f',\n"{name}": [')
    out.writelines((",\n " if number else "\n ") + json.dumps(item) for number, item in enumerate(items))
    out.write("]")


def _describe_group(one: Overview, *, coordinators: bool) -> Mapping[str, Any]:
    document = asdict(one)
    if not coordinators:
        del document["members_without_logs"]
    return document
