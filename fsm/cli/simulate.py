"""`fsm simulate`: whole deployments in virtual time, with faults."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsm.cli import add_command, at_least, out

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = """examples:
  fsm simulate shop.yaml                             one run: what it cost the group, which hazards it met
  fsm simulate shop.yaml --seed 7 --json             the same as JSON, with measures over time
"""

EXIT = """
exit status: 0 every invariant held, but for hazards that are documented; 1 one did not; 2 unusable input"""


def add(commands: Any) -> None:
    """Registers the command."""
    summary = "run whole deployments in virtual time, with faults"
    command = add_command(commands, "simulate", summary, EXAMPLES + EXIT, run)
    command.add_argument("deployment", type=Path, metavar="DEPLOYMENT", help="a YAML file (see fsm/simulate/README.md)")
    command.add_argument("--seed", type=at_least(0, (1 << 63) - 1), metavar="N", help="the file's own, or 0")
    command.add_argument("--step", action="store_true", help="step every heartbeat: slower, with the same result")
    command.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Runs the deployment; gives 1 where something was violated."""
    from fsm.simulate.reading import read_file
    from fsm.simulate.run import simulate
    from fsm.simulate.text import report

    deployment = read_file(args.deployment)
    seed = deployment.seed if args.seed is None else args.seed
    outcome = simulate(deployment, seed, rests=not args.step, progress=_progress())
    if args.json:
        _print_json(outcome.as_document())
    else:
        out(report(outcome))
    return 1 if outcome.violations else 0


def _print_json(document: Any) -> None:
    import json

    out(json.dumps(document, ensure_ascii=False, indent=2) + "\n")


def _progress() -> Callable[[str, float], None] | None:
    """Tells on a terminal how far each group is."""
    if not sys.stderr.isatty():
        return None

    def tell(group: str, share: float) -> None:
        end = "\n" if share >= 1 else ""
        sys.stderr.write(f"\r{group}: {share:.0%} of the time has passed{end}")
        sys.stderr.flush()

    return tell
