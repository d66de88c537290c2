"""`fsm audit --compare`: compares two results, before and after a change."""

from __future__ import annotations

import argparse
from pathlib import Path

from fsm.cli.audit_summary import print_text
from fsm.cli.output import write
from fsm.errors import InputError
from fsm.render.wording import many

EXAMPLES = """
  fsm audit --compare before after -o compared       what is worse and what is better in a later audit"""
PAGE = "compare.html"
NEVER_THEN = (
    "follow", "json", "junit", "sarif", "group", "since", "until", "baseline", "lag", "lag_from", "layout",
    "tls", "cafile", "user", "password_file", "trigger_ms", "expire_ms", "close_ms", "stop_ms", "exec",
)  # fmt: skip
"""Options of an audit that a comparison does not take."""


def add_options(command: argparse.ArgumentParser) -> None:
    """Registers the options of a comparison."""
    command.add_argument(
        "--compare",
        action="store_true",
        help=f"compare the results of two audits, given as PATHs: write {PAGE}, and print what is worse and better",
    )


def run_compare(args: argparse.Namespace) -> int:
    """Writes the page; returns 1 if a group is worse than before. Raises `InputError` for folders without results."""
    from fsm.render.report.compare import render_comparison
    from fsm.spark.compare import compare

    if len(args.paths) != 2:
        raise InputError(
            "needs two results", "--compare", "give the folder of the older audit, then that of the newer one"
        )
    given = [f"--{name.replace('_', '-')}" for name in NEVER_THEN if getattr(args, name)]
    if given:
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
