"""`fsm simulate`: runs whole deployments in virtual time, with faults."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsm.cli import StatusLine, add_command, as_json, at_least, out
from fsm.cli.arguments import check_folder, list_given
from fsm.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsm.simulate.deployment import Deployment
    from fsm.simulate.fleet import Fleet
    from fsm.simulate.machines.deployment import Machines

EXAMPLES = """examples:
  fsm simulate shop.yaml                             one run: its cost for each group, and the hazards that occurred
  fsm simulate shop.yaml --seed 7 -o out             also write out/metrics.json and out/picture.svg
  fsm simulate shop.yaml -o out --trace              also write out/trace.jsonl for fsm audit, and out/truth.json
  fsm simulate shop.yaml -o out --logs info          also write out/logs/ for fsm audit, one log per process
  fsm simulate shop.yaml --compare 4.0 4.4           the effect of an upgrade; other variants are below
  fsm simulate shop.yaml --seeds 1-200 --jobs 2      one run per seed, in two processes; --master local[2]: on Spark
  fsm simulate shop.yaml --seed 3 --shrink -o out    reduce a run that fails to a small one: out/shrunk.yaml
  fsm simulate door.yaml --with lift.yaml --never door.OPEN,lift.MOVING
                                                     tables of your own, one machine of each, for an hour

A deployment (all of its fields are in fsm/simulate/README.md):

  deployment: shop
  lasts: 1h
  topics: {orders: 24}
  services:
    checkout: {topics: [orders], processes: 6, release: 4.0}
  plans:
  - {at: 10m, restart: checkout, each: 30s, away: 10s, with: {release: 4.4}}
  faults:
  - {every: 20m, pause: any, for: 1s..60s}

A deployment of your own machines (fsm/simulate/README.md, TUTORIAL.md):

  deployment: lift and doors
  lasts: 1h
  machines:
    door: {table: door.yaml, count: 3, happens: {PUSHED: 20s}}
    lift: {table: lift.py:TABLE, happens: {ARRIVED: 2s..8s}}
  network: {loses: 1%, duplicates: 0.1%}
  never: [door.OPEN, lift.MOVING]
  faults:
  - {every: 10m, crash: any, for: 1s..20s}

A variant is a comma-separated list of: a release (of brokers and clients), client=4.0, broker=4.4, protocol=classic,
assignor=range, static=yes, or any setting of Kafka, such as session.timeout.ms=10000.
For your own machines: lift=fixed.yaml (another table), loses=5% (the network).

exit status: 0 every invariant held, apart from documented hazards; 1 an invariant was violated; 2 unusable input;
130 Ctrl-C: the seeds so far are summed up on stderr, and the smallest deployment so far is written"""


def add(commands: Any) -> None:
    """Registers the command."""
    summary = "run whole deployments in virtual time, with faults"
    command = add_command(commands, "simulate", summary, EXAMPLES, run)
    option = command.add_argument
    option("deployment", metavar="DEPLOYMENT", help="a YAML file; or a table, by name or file")
    option("--with", dest="others", action="append", default=[], metavar="TABLE", help="a further table; repeatable")
    option("--never", action="append", default=[], metavar="PLACES", help="states that must never hold at once")
    option("--goal", default="", metavar="PLACES", help="states that the run must reach once faults have ended")
    option("--lasts", metavar="TIME", help="virtual time that tables run for (1h)")
    option("--seed", type=at_least(0, (1 << 63) - 1), metavar="N", help="seed of the run (that of the file, or 0)")
    option("--seeds", metavar="A-B", help="one run per seed, with mean, minimum and maximum")
    option("--jobs", type=at_least(1, 256), default=1, metavar="N", help="processes for --seeds")
    option("--master", metavar="MASTER", help="run --seeds on this Spark master, for example local[2]")
    option("--compare", nargs=2, metavar="VARIANT", help="run two variants, and print their ratios")
    option("--shrink", action="store_true", help="reduce a run that fails to a small deployment that still fails")
    option("--trace", action="store_true", help="also write the members' trace; needs -o")
    levels = ("info", "debug")
    option(
        "--logs", choices=levels, metavar="LEVEL", help="also write the clients' logs at level info or debug; needs -o"
    )
    option("--step", action="store_true", help="execute every single heartbeat: slower, with the same result")
    option("-o", dest="folder", type=Path, metavar="DIR", help="write metrics and pictures here")
    option("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Runs the deployment; returns 1 if something was violated."""
    _check(args)
    deployment = _deployment(args)
    if args.seed is not None:
        deployment = replace(deployment, seed=args.seed)
    if args.shrink:
        return _shrink(deployment, args)
    if args.compare:
        return _compare(deployment, args)
    return _run_fleet(deployment, args) if args.seeds else _run_one(deployment, args)


def _deployment(args: argparse.Namespace) -> Deployment | Machines:
    """The deployment of the file, or one with a machine of each named table."""
    from fsm.simulate.machines.reading import of_tables
    from fsm.simulate.reading import read_file
    from fsm.tables.files import has_key, is_file, is_python

    name, path = args.deployment, Path(args.deployment)
    if is_python(name) or not is_file(name) or path.suffix.lower() in (".json", ".py") or has_key(name, "fsm"):
        return of_tables([name, *args.others], args.lasts or "1h", tuple(args.never), args.goal)
    for option in list_given(args, ("others", "never", "goal", "lasts")):
        raise InputError(f"{option} is for tables", name, "state it in the deployment")
    return read_file(path)


def _check(args: argparse.Namespace) -> None:
    """Raises `InputError` for contradictory options."""
    for option, is_given in (("--trace", args.trace), ("--logs", args.logs)):
        if is_given and args.folder is None:
            raise InputError("needs a folder", option, "add -o DIR")
        if is_given and (args.seeds or args.compare or args.shrink):
            raise InputError("is for a single run", option, "leave out --seeds, --compare and --shrink")
    if args.shrink and (args.seeds or args.compare):
        raise InputError("needs a single run that fails", "--shrink", "give its --seed, without --seeds and --compare")
    if args.folder is not None:
        check_folder(args.folder)
    if args.master and not args.seeds:
        raise InputError("is for many runs", "--master", "add --seeds, for example --seeds 1-200")


def _run_one(deployment: Deployment | Machines, args: argparse.Namespace) -> int:
    from fsm.simulate.machines.deployment import Machines
    from fsm.simulate.outcome import Truth, report
    from fsm.simulate.run import simulate

    if args.logs and isinstance(deployment, Machines):
        raise InputError("is for Kafka's clients", "--logs", "use --trace for your own machines")
    truth = Truth() if args.trace or args.logs else None
    outcome = simulate(deployment, deployment.seed, skips=not args.step, truth=truth, progress=_progress())
    document, text = outcome.as_document(), report(outcome)
    if args.folder is not None:
        from fsm.simulate.picture import draw

        _write(args.folder, {"metrics.json": as_json(document), "metrics.txt": text, "picture.svg": draw([outcome])})
    if truth is not None:
        from fsm.simulate.outcome import trace_lines, truth_document

        _write(args.folder, {"truth.json": as_json(truth_document(outcome, truth))})
        if args.trace:
            _write(args.folder, {"trace.jsonl": trace_lines(truth)})
        if args.logs and not isinstance(deployment, Machines):
            from fsm.simulate.logs import log_files

            _write(args.folder / "logs", dict(log_files(deployment, truth, args.logs)))
    out(as_json(document) if args.json else text)
    return 1 if outcome.violations else 0


def _run_fleet(deployment: Deployment | Machines, args: argparse.Namespace) -> int:
    fleet = _fleet(deployment, args, "")
    if args.folder is not None:
        _write(args.folder, {"fleet.json": as_json(fleet.as_document()), "fleet.txt": fleet.text()})
    out(as_json(fleet.as_document()) if args.json else fleet.text())
    return 1 if fleet.failures else 0


def _fleet(deployment: Deployment | Machines, args: argparse.Namespace, variant: str) -> Fleet:
    from fsm.simulate.fleet import Fleet, run_seeds

    first, last = _seeds(args.seeds)
    if args.master:
        from fsm.spark.simulate import run_on_spark

        try:
            return run_on_spark(deployment, first, last, args.master)
        except KeyboardInterrupt:
            raise _tell_stop("before Spark had returned the results") from None
    show = _progress()
    seeds = f"{last - first + 1} seeds{variant and f' of {variant}'}"
    fleet = Fleet()
    try:
        for row in run_seeds(deployment, range(first, last + 1), args.jobs):
            fleet.add(row)
            if show is not None:
                show(seeds, fleet.runs / (last - first + 1))
    except KeyboardInterrupt:
        failed = f": {', '.join(map(str, fleet.failed))}" if fleet.failed else ""
        raise _tell_stop(f"after {fleet.runs} of {seeds}; {fleet.failures} failed{failed}") from None
    return fleet


def _tell_stop(when: str) -> KeyboardInterrupt:
    """The interrupt, after a line on stderr that says what was done so far."""
    sys.stderr.write(f"{chr(10) if sys.stderr.isatty() else ''}fsm: stopped {when}\n")
    return KeyboardInterrupt("said")


def _seeds(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,18})-(\d{1,18})", text, re.ASCII)
    if found is None or int(found[1]) > int(found[2]):
        raise InputError(f"{text!r} is not a range of seeds", "--seeds", "for example 1-200")
    return int(found[1]), int(found[2])


def _compare(deployment: Deployment | Machines, args: argparse.Namespace) -> int:
    from fsm.simulate.outcome import format_judgement, side_by_side
    from fsm.simulate.run import simulate
    from fsm.simulate.variants import vary

    names, variants = args.compare, [vary(deployment, variant) for variant in args.compare]
    runs: list[Any]
    if args.seeds:
        runs, files = [_fleet(one, args, name) for one, name in zip(variants, names, strict=True)], {}
        verdicts = [[f"{fleet.failures} of {fleet.runs} runs failed"] for fleet in runs]
        failed, seeds = sum(fleet.failures for fleet in runs), runs[0].runs
    else:
        from fsm.simulate.picture import draw

        runs = [simulate(one, one.seed, skips=not args.step, progress=_progress()) for one in variants]
        files = {"picture.svg": draw(runs, names)}
        verdicts = [list(format_judgement(one.hazards(), one.violations)) for one in runs]
        failed, seeds = sum(len(one.violations) for one in runs), 1
    document = {"variants": names, "runs": [one.as_document() for one in runs]}
    first, second = (one.totals() for one in runs)
    text = side_by_side(names, (first, second), seeds)
    text += "".join(f"{name}: {line}\n" for name, lines in zip(names, verdicts, strict=True) for line in lines)
    if args.folder is not None:
        _write(args.folder, {"compared.json": as_json(document), "compared.txt": text, **files})
    out(as_json(document) if args.json else text)
    return 1 if failed else 0


def _shrink(deployment: Deployment | Machines, args: argparse.Namespace) -> int:
    from fsm.simulate.machines.deployment import Machines
    from fsm.simulate.outcome import report
    from fsm.simulate.run import simulate
    from fsm.simulate.shrink import Shrink
    from fsm.simulate.writing import write, write_machines

    def show(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    search, is_complete = None, True
    try:
        search = Shrink(deployment, deployment.seed, show if sys.stderr.isatty() else None)
        search.run()
    except KeyboardInterrupt:
        if search is None:
            raise _tell_stop("in the first run, before anything could be left out") from None
        is_complete = False
    if not search.what:
        out(f"seed {deployment.seed} violates nothing\n")
        return 0
    found = search.found
    text = write_machines(found, args.folder or Path()) if isinstance(found, Machines) else write(found)
    if args.folder is not None:
        _write(args.folder, {"shrunk.yaml": text})
    if not is_complete:
        where = args.folder / "shrunk.yaml" if args.folder is not None else "on stdout"
        shrunk = {"runs": search.runs, "deployment": text}
        out(as_json(shrunk) if args.json else "" if args.folder is not None else text)
        raise _tell_stop(f"after {search.runs} runs; the smallest deployment so far that fails is {where}")
    outcome = simulate(found, found.seed)
    shrunk = {"runs": search.runs, "deployment": text, "outcome": outcome.as_document()}
    out(as_json(shrunk) if args.json else f"{text}\n{report(outcome)}")
    return 1


def _write(folder: Path, files: dict[str, str] | dict[str, bytes]) -> None:
    from fsm.cli.arguments import write

    for name, content in files.items():
        write(folder / name, content.encode() if isinstance(content, str) else content)


def _progress() -> Callable[[str, float], None] | None:
    """A function that shows the progress of each group on a terminal; None without one."""
    line = StatusLine()

    def show(group: str, share: float) -> None:
        line.show(f"{group}: {share:.0%}" + "\n" * (share >= 1))

    return show if line.is_shown else None
