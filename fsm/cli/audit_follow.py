"""`fsm audit --follow`: audits logs while they grow."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from signal import SIGTERM
from typing import TYPE_CHECKING

from fsm.cli import at_least, interruptible
from fsm.cli.arguments import SCHEME, address, list_given, name_option, read_security
from fsm.cli.audit_summary import check_understood, print_change
from fsm.errors import InputError
from fsm.logs.reading.opening import is_archive
from fsm.spark.options import CHECKPOINT, TOPICS, Follow, Followed, Options

if TYPE_CHECKING:
    from fsm.audit.live.changes import Change
    from fsm.cli.topic_copy import Place, TopicCopy
    from fsm.spark.live.known_files import Offsets

EXAMPLES = """
  fsm audit logs/ -o live --follow                   report problems as they happen, until Ctrl-C; later runs resume
  fsm audit logs/ -o live --follow --exec ./page-me  run a command for each alarm, with JSON on its stdin
  fsm audit kafka://localhost:9092/logs -o live --follow      a topic of logs, each record one or more lines
  fsm audit logs/ -o live --follow --master none --stop-ms 60000"""
NEVER_THEN = ("junit", "sarif")
ONLY_THEN = ("trigger_ms", "expire_ms", "close_ms", "exec", "stop_ms")


def add_options(command: argparse.ArgumentParser) -> None:
    """Registers the options of a followed audit."""
    usual = Follow()
    command.add_argument(
        "--follow",
        action="store_true",
        help="keep reading new lines; write findings/*.jsonl, findings.parquet and report.html after each batch",
    )
    times = (
        ("--trigger-ms", usual.trigger_ms, "how often --follow looks for new lines"),
        ("--expire-ms", usual.expire_ms, "forget members and groups that logged nothing for this long"),
        ("--close-ms", usual.close_ms, "close a finding that ended this long before the newest line"),
        ("--stop-ms", None, "end --follow after this long without new lines (never)"),
    )
    for option, default, meaning in times:
        shown = f"{meaning} ({default})" if default else meaning
        command.add_argument(option, type=at_least(1), metavar="MS", help=shown)
    command.add_argument(
        "--exec",
        metavar="COMMAND",
        help="command that --follow runs, without a shell, for each alarm, with JSON on its stdin",
    )


def refuse_options(args: argparse.Namespace) -> None:
    """Raises `InputError` for an option that needs `--follow`."""
    for name in ONLY_THEN:
        if getattr(args, name) is not None:
            raise InputError("needs --follow", name_option(name), "add it, or leave this out")


def run_follow(args: argparse.Namespace, options: Options) -> int:
    """Follows until it is stopped; returns the exit status. Raises `InputError` for input that cannot be followed."""
    from fsm.cli.broker_lag import LagWatch  # loads the client side of the protocol
    from fsm.cli.topic_copy import TopicCopy, TopicFiles, place_of
    from fsm.spark.live.lag_kept import TABLE, KeptLag
    from fsm.spark.live.run import follow_logs

    _refuse_other_input(args)
    out, usual = Path(args.folder).absolute(), Follow()
    lag = out / CHECKPOINT / TABLE if args.lag_from else args.lag and args.lag.absolute()
    follow = Follow(
        trigger_ms=args.trigger_ms or usual.trigger_ms,
        expire_ms=args.expire_ms or usual.expire_ms,
        close_ms=args.close_ms or usual.close_ms,
        command=_command(args.exec),
        lag=str(lag or ""),
        stop_ms=args.stop_ms,
    )
    topics = {path: place_of(path) for path in args.paths if path.startswith(SCHEME)}
    paths = tuple(str(_copy_path(out, topics[path])) if path in topics else path for path in args.paths)
    followed = Followed(paths, out, options, follow)
    print(f"fsm: following {', '.join(args.paths)} into {args.folder}; Ctrl-C ends", file=sys.stderr)  # noqa: T201
    security = read_security(args)
    copies: list[TopicCopy] = []
    watches: list[LagWatch] = []

    def look(offsets: Offsets) -> None:
        if topics and not copies:
            marks, idle_s = out / CHECKPOINT / "copied", follow.expire_ms / 1000
            copies.extend(
                TopicCopy(one, TopicFiles(_copy_path(out, one), marks / one.folder, idle_s), security)
                for one in topics.values()
            )
        if args.lag_from and not watches:
            where = address(args.lag_from, "--lag-from")
            watches.append(LagWatch(*where, KeptLag(Path(follow.lag)), args.group, security=security))
        read = {name: one.size for name, one in offsets.items() if not one.is_away} if copies else {}
        for copy in copies:
            copy.copy(read)

    try:
        with interruptible(SIGTERM):
            result = follow_logs(followed, _make_alarm_printer(args.json), look)
    finally:
        for copy in copies:
            copy.close()
        for watch in watches:
            watch.close()
    check_understood(result, args.folder)
    return 1 if result.bad else 0


def _refuse_other_input(args: argparse.Namespace) -> None:
    """Raises `InputError` for an option that is not for `--follow`, and for input that does not grow."""
    from fsm.spark.sources import STDIN

    for option in list_given(args, NEVER_THEN):
        raise InputError("is not for --follow", option, "leave it out, or audit what there is without --follow")
    if STDIN in args.paths:
        raise InputError("cannot be followed", "-", "write it to a file and follow that")
    for path in args.paths:
        if Path(path).is_file() and is_archive(path):
            raise InputError("is an archive, which does not grow", path, "audit it without --follow")


def _copy_path(out: Path, topic: Place) -> Path:
    """The folder of a topic's copy."""
    return out / CHECKPOINT / TOPICS / topic.folder


def _make_alarm_printer(as_json: bool) -> Callable[[Sequence[Change]], None]:
    def print_alarms(alarms: Sequence[Change]) -> None:
        for one in alarms:
            if as_json:
                sys.stdout.write(json.dumps(one.to_json()) + "\n")
            else:
                print_change(one)
        sys.stdout.flush()

    return print_alarms


def _command(text: str | None) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text or ""))
    except ValueError as problem:
        raise InputError(f"is no command: {problem}", f"--exec {text}", "quote it as in a shell") from None
    if text is not None and (not words or shutil.which(words[0]) is None):
        raise InputError("no such command", f"--exec {text}", "give a program that can be run")
    return words
