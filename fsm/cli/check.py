"""`fsm check`: explores every state of a model and finds shortest counterexamples."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fsm.check.catalog import SHIPPED, require_numpy
from fsm.cli import StatusLine, add_command, as_json, interruptible, out
from fsm.cli.arguments import check_folder, list_given, write
from fsm.cli.check_options import GROUPS, add_options, find_maker, list_machines, refuse_kinds
from fsm.document import to_json
from fsm.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fsm.check import Limits, Memo, Model, Verdict

EXAMPLES = """examples:
  fsm check consumer-group                                  two members, one topic, no disturbance
  fsm check consumer-group --disturb lose,expire --disturbances 1
  fsm check consumer-group --disturb all --disturbances 1 --client fixed --known W1
  fsm check consumer-group --members 3 --topics foo:2,bar:1 --client 4.1 --coordinator 4.4
  fsm check consumer-group --static --disturb close,restart --disturbances 2
  fsm check consumer-group --disturb late -o out            write the counterexample to out/ (.svg, .mmd, .puml, .txt,
                                                            .yaml for replay and explore)
  fsm replay out/1-*.yaml --dialect fixed                   replay its path under another dialect
  fsm audit --format trace out/1-*.trace.jsonl -o audit     audit its trace
  fsm check classic-group --protocol cooperative --disturb all
  fsm check lock --disturb expire --disturbances 1          a small example that fails; fenced-lock does not
  fsm check my_model.py:MODEL                               a model of your own: a Model, or a function that returns one
  fsm check door.yaml --with lift.yaml --never door.OPEN,lift.MOVING
  fsm check crossing.yaml                                   the machines of a deployment, as fsm simulate runs them
  fsm check consumer-group --client fixed --mutate lose,never     mutation testing: which mutants survive?

The whole state space of the model is explored: every order of messages and choices, with at most --disturbances
disturbances. For a property that does not hold, the counterexample has the fewest disturbances, and among those the
fewest steps. Where tables are checked together, an effect of one that has the name of another's event is a message to
it; all other events come from the environment.

Models: {models}.

exit status: 0 everything holds; 1 a counterexample; 2 unusable input, or a limit ended the search early;
130 Ctrl-C or another signal; with --mutate: 0 every mutant is killed; 1 one survives; 2 as above"""

MAKES = {"model", "others", "never", "goal", *(option for options in GROUPS.values() for option in options)}
"""Options that define a model."""
PROGRESS_EVERY_S = 0.2
LINES_AFTER_S = 30
"""When the results of mutants begin to be printed on a stderr that is no terminal, and how often the progress is."""
COLLECTING = 50_000
"""Threshold of the garbage collector. Tables consist of many long-lived objects."""
VERDICT = "verdict.json"
_OWN_FILE = re.compile(r"\d+-.*\.(svg|mmd|puml|txt|yaml|trace\.jsonl)")
FORMS = {".svg": "svg", ".mmd": "mermaid", ".puml": "plantuml"}


def add(commands: Any) -> None:
    """Registers the command."""
    details = EXAMPLES.replace("{models}", ", ".join(SHIPPED))
    command = add_command(commands, "check", "explore every state of a model, prove or refute properties", details, run)
    command.add_argument(
        "model",
        metavar="MODEL",
        help="a model by name; FILE.py:NAME (a Model or a Table); or a table or deployment as YAML",
    )
    add_options(command)


def run(args: argparse.Namespace) -> int:
    """Checks, prints the verdict, returns the exit status. Raises `InputError` for an unknown model."""
    import gc

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads are not used, and their start takes time
    require_numpy()
    gc.disable()  # objects created here live until the end
    try:
        from fsm.check import Limits, check, lines

        make = find_maker(args)
        model = make()
    finally:
        gc.freeze()
        gc.set_threshold(COLLECTING)
        gc.enable()
    named = ((model.kinds if word == "all" else (word,)) for word in _split(",".join(args.disturb)))
    kinds = tuple(dict.fromkeys(kind for some in named for kind in some))
    refuse_kinds(args, kinds, model.kinds)
    usual = Limits()
    limits = Limits(args.max_states or usual.max_states, args.max_memory or usual.max_memory)
    most = args.disturbances if args.disturbances is not None else int(bool(kinds))
    if most and not kinds:
        raise InputError(
            "no kind of disturbance is enabled", "--disturb", f"choose from {', '.join(model.kinds)}, or all"
        )
    if args.mutate is not None:
        return _mutate(args, make, kinds, most, limits)
    choice, progress = choice_of(args), _Progress()
    if args.folder is not None:
        check_folder(args.folder)

    def explore(engine: str, then: str) -> Verdict:
        with making(engine, then, args.dir and _memo(args, args.dir), args.master) as how:
            return check(
                model,
                disturb=kinds,
                disturbances=most,
                known=_split(",".join(args.known)),
                properties=args.property,
                symmetry=_split(args.symmetry),
                limits=limits,
                every=args.every,
                memo=args.memo and _memo(args, args.memo),
                jobs=args.jobs,
                clock=lambda: sum(os.times()[:4]),
                progress=progress.show,
                **how,
            )

    try:
        with interruptible(signal.SIGTERM, signal.SIGHUP):
            verdict = explore(*choice)
            if choice.then == "spark" and verdict.stopped == limits.beyond_memory:
                verdict = explore("spark" if verdict.exact else "disk", "")  # Spark needs exact keys
    except KeyboardInterrupt:
        progress.line.show()
        later = "the same command continues" if choice.first != "memory" else "--engine disk --dir DIR can be continued"
        sys.stderr.write(f"fsm: stopped after {progress.text}, without a verdict; {later}\n")
        raise KeyboardInterrupt("said") from None
    progress.line.show()
    out(as_json(verdict.document()) if args.json else "".join(f"{line}\n" for line in lines(verdict)))
    written = _draw(verdict, args.folder) if args.folder else []
    if not args.json:
        out("".join(f"{path}\n" for path in written))
    return {"holds": 0, "violated": 1, "stopped": 2}[verdict.word]


def _mutate(
    args: argparse.Namespace, make: Callable[[], Model], kinds: Sequence[str], most: int, limits: Limits
) -> int:
    """Tries mutants of the model's tables and rules; returns 1 if one survives, 2 if a limit stopped one."""
    from fsm.check.kafka.mutants import subject
    from fsm.check.mutation_score import Outcome, describe, lines, score

    for option in list_given(args, ("memo", "engine", "dir", "folder", "every", "symmetry")):
        raise InputError(f"{option} does not go with --mutate", args.model, "leave it out")

    line, known, began_s = StatusLine(), list[str](), time.monotonic()

    def show(done: int, of: int, name: str) -> None:
        line.show(f"fsm check: {f'mutant {done} of {of}, ' if of else ''}{name}"[:200])

    def report(one: Outcome) -> None:
        known.extend([f"{describe(one)}\n"] if one.word != "not met" else [])
        if known and (line.is_shown or time.monotonic() - began_s >= LINES_AFTER_S):
            line.show()
            sys.stderr.write("".join(known))
            sys.stderr.flush()
            known.clear()

    with interruptible(signal.SIGTERM, signal.SIGHUP):
        found = score(
            subject(args.model, make),
            _split(args.mutate),
            disturb=kinds,
            disturbances=most,
            known=_split(",".join(args.known)),
            properties=args.property,
            limits=limits,
            progress=show,
            report=report,
        )
    line.show()
    if not found.tried and not found.untried:
        counts = f"no step of {found.count('same')} mutants differs, {found.count('not met')} are of what is never met"
        raise InputError(
            f"{args.mutate or 'it'} changes nothing: {counts}",
            "--mutate",
            "name others, or enable more with --disturb",
        )
    if args.json:
        out(as_json(found.document()))
    else:
        out("".join(f"{text}\n" for text in lines(found)))
    if found.untried:
        raise KeyboardInterrupt("said")
    return 1 if found.count("survived") else 2 if found.count("stopped") else 0


def _memo(args: argparse.Namespace, folder: Path) -> Memo:
    """The store of step tables in the folder, keyed by the model's options and files."""
    from fsm.check import Memo

    made_of = {name: value for name, value in vars(args).items() if name in MAKES and value}
    files = (Path(name.rpartition(":")[0] or name) for name in (args.model, *args.others))
    texts = [path.read_bytes().hex() for path in files if path.is_file()]
    texts += [to_json(part.table) for part in list_machines(args)]
    return Memo(folder, json.dumps([made_of, texts], sort_keys=True))


def _draw(verdict: Verdict, folder: Path) -> list[Path]:
    """Writes each counterexample as a sequence diagram and a text, and as a scenario and a trace if possible.

    Returns the files.
    """
    from fsm.check import diagram, scenario, tell
    from fsm.render import sequence
    from fsm.scenario.own_models import name_from

    files: dict[str, str] = {}
    for number, one in enumerate(verdict.violations, 1):
        words = "".join(c if c.isalnum() else "-" for c in one.property)[:60].strip("-")
        name = f"{number}-{words}"
        for suffix, form in FORMS.items():
            files[f"{name}{suffix}"] = getattr(sequence, form)(diagram(one))
        files[f"{name}.txt"] = "".join(f"{line}\n" for line in tell(one))
        if verdict.made_by:
            files[f"{name}.yaml"] = scenario(one, name_from(folder, verdict.made_by))
        if one.replayed is not None and one.replayed.trace:
            files[f"{name}.trace.jsonl"] = "".join(f"{line}\n" for line in one.replayed.trace)
    earlier = _list_written(folder / VERDICT)
    document = verdict.document() | {"files": sorted(files)}
    for name, text in (*files.items(), (VERDICT, as_json(document))):
        write(folder / name, text.encode())
    for name in sorted(earlier - files.keys()):
        (folder / name).unlink(missing_ok=True)
    return [folder / name for name in (*files, VERDICT)]


def _list_written(path: Path) -> set[str]:
    """The files of an earlier check, which are obsolete."""
    try:
        files = json.loads(path.read_bytes())["files"]
        return {name for name in files if Path(name).name == name and _OWN_FILE.fullmatch(name)}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


class _Progress:
    """How far the search is."""

    def __init__(self) -> None:
        self.text = "0 states"
        self.line = StatusLine()
        self._printed_s = 0.0 if self.line.is_shown else time.monotonic()

    def show(self, states: int, transitions: int, depth: int) -> None:
        """Takes the numbers so far."""
        self.text = f"{states:,} states, {transitions:,} transitions, depth {depth}"
        now_s = time.monotonic()
        if now_s - self._printed_s >= (PROGRESS_EVERY_S if self.line.is_shown else LINES_AFTER_S):
            self._printed_s = now_s
            if self.line.is_shown:
                self.line.show(f"fsm check: {self.text}")
            else:
                sys.stderr.write(f"fsm check: {self.text}\n")
                sys.stderr.flush()


def _split(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


# Where states are kept: in memory, in files, or on Spark.


LOCAL = "local[*]"


class Choice(NamedTuple):
    """The engine of a search."""

    first: str
    then: str = ""
    """The engine to continue with when the memory limit is reached; "" to stop then."""


def choose(engine: str | None, *, has_folder: bool, master: str | None, began_on_spark: bool) -> Choice:
    """The choice of engine for these options.

    Memory is fastest while it suffices, and files of one process are faster than Spark on one machine. So Spark is used
    by default only with `--master`, and with `--dir`, a folder that its workers and this process share.
    `began_on_spark`: the folder already has a search of Spark. Raises `InputError` for contradictory options.
    """
    if engine is not None and has_folder != (engine != "memory"):
        raise InputError("--engine disk or spark and --dir belong together", "--engine", "give --dir DIR, or neither")
    if master is not None and engine in ("memory", "disk"):
        raise InputError("--master is for Spark", f"--engine {engine}", "leave one of them out")
    if master is not None and not has_folder:
        raise InputError(
            "--master and --dir belong together", "--master", "give --dir DIR, a folder that all workers share"
        )
    if engine is not None:
        return Choice(engine)
    if master is not None:
        return Choice("spark") if began_on_spark else Choice("memory", "spark")
    return Choice("memory", "disk" if has_folder else "")


def choice_of(args: argparse.Namespace) -> Choice:
    """The choice of engine for the options of a command."""
    began = args.dir is not None and (args.dir / "met").is_dir()
    return choose(args.engine, has_folder=args.dir is not None, master=args.master, began_on_spark=began)


@contextmanager
def making(engine: str, then: str, memo: Memo | None, master: str | None) -> Iterator[dict[str, Any]]:
    """Keyword arguments of `check` for an engine whose files are in the folder of `memo`."""
    if memo is not None and engine == "spark":
        from fsm.spark.search import SparkSearch
        from fsm.spark.session import convert_errors, session

        with session(master or LOCAL, input_bytes=1 << 30) as spark, convert_errors(lambda: "searching"):
            yield {"engine": partial(SparkSearch, spark=spark, memo=memo)}
    elif memo is not None and "disk" in (engine, then):
        from fsm.check import Disk

        yield {"disk": Disk(memo, at_once=engine == "disk")}
    else:
        yield {}
