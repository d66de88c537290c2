"""`make run`: audits real logs on Spark, checks a consumer group and the pictures, says where everything is."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import recordings

from fsm import cli

# fmt: off
SHOWN = [
    "c02_two", "c06_maxpoll", "c10_sigstop", "c11_slow_revoke", "f06_unsupported_assignor", "k_x01_coop_rolling",
    "x03_range_maxpoll", "j02_second_joins", "i_j04_slow_revoke", "j07_maxpoll", "i_j09_kill9", "j10_static_restart",
    "i_j13_dup_instance", "j24_commit_fail_revoke", "j05_throw_revoke", "m_coop_static", "m_range_upgrade_down",
    "r01_java_rdk", "x01_range_second", "x03_coop_maxpoll", "x05_range_fenced_static", "x13_coop_close_in_rebalance",
    "spring_j07_maxpoll", "json_j36_stall_loop",
]
"""Scenarios of the recorded sets that show what the audit is for; `make audit-truth` takes them all."""
# fmt: on
ROOT = Path(__file__).parent.parent


def main() -> int:
    """Gives 0 when the audit ran and the pictures are current."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, required=True, help="folder for logs and result")
    out: Path = arguments.parse_args().out
    logs, result = out / "logs", out / "audit"
    shutil.rmtree(logs, ignore_errors=True)
    roots = recordings.unpacked(recordings.DATA, out / "recordings")
    chosen = [s for s in recordings.scenarios(roots) if s.folder.name in SHOWN]
    recordings.lay_out(chosen, logs)
    say(f"auditing the logs of {len(chosen)} scenarios of real clients on Spark ...")
    status = cli.main(["audit", str(logs), "-o", str(result), "--cluster-by-folder"])
    if status not in (0, 1):
        return status
    say("a late request anywhere, in every order of events:")
    status = cli.main(["check", "consumer-group", "--disturb", "late", "-o", str(out / "check")])
    if status != 1:  # a known weak spot is found
        return 2
    stale = cli.main(["draw", "--check", "-o", str(ROOT / "diagrams")])
    if not stale:
        say(f"pictures of every state table are current: {ROOT / 'diagrams' / 'README.md'}")
    say(f"open {result.resolve() / 'report.html'}, and the counterexample in {(out / 'check').resolve()}")
    return stale


def say(text: str) -> None:
    """One line, at once."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
