"""`make zoo`: plants every bug of the zoo that a model can express, and says what catches it.

One bug after the other on each of two processes. What is caught otherwise than `tests/check/bugzoo/bugs.yaml` says ends
with status 1; `--write` puts what is found there.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "check"))

from bugzoo.catalogue import ENDS, FILE, Counterexample, bugs, caught, explore, shortest


def catch(bug: str, how: dict[str, Any]) -> tuple[str, Counterexample | None, float]:
    """What one planted bug comes to, and the CPU seconds that it took."""
    began_s = time.process_time()
    return bug, shortest(explore(bug, how)), time.process_time() - began_s


def main() -> int:
    """Prints a line for each bug and the sums; gives 1 where something differs from what is pinned."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("ids", nargs="*", help="only these bugs")
    arguments.add_argument("--jobs", type=int, default=2, help="how many at once (2)")
    arguments.add_argument("--write", action="store_true", help="pin what is found")
    chosen = arguments.parse_args()
    pinned = caught()
    ids, differs, made = chosen.ids or list(pinned), 0, {}
    with ProcessPoolExecutor(chosen.jobs, mp_context=get_context("spawn")) as pool:
        for bug, found, cpu_s in pool.map(catch, ids, [pinned[bug] for bug in ids]):
            right = found is not None and found._asdict() == pinned[bug]["found"]
            lines = (
                f"{found.property}, {found.disturbances} disturbances, {found.steps} steps" if found else "not caught"
            )
            print(f"{'ok' if right else 'DIFFERS':<8}{bug:<24}{cpu_s:5.1f} CPU s  {lines}", flush=True)
            differs += not right
            if found and not right:
                made[bug] = found
    for bug, found in made.items() if chosen.write else ():
        write(bug, found)
    counts = Counter(end for bug in bugs() for end in ENDS if end in bug)
    print(f"{counts['caught']} caught, {counts['unseen']} that no property of such a model sees")
    return int(bool(differs) and not chosen.write)


def write(bug: str, found: Counterexample) -> None:
    """Pins a counterexample in the file."""
    entry = re.compile(rf"(- id: {re.escape(bug)}\n(?:  .*\n)*?    found: ).*\n")
    pinned = f"{{property: {found.property!r}, disturbances: {found.disturbances}, steps: {found.steps}}}"
    FILE.write_text(entry.sub(lambda match: f"{match[1]}{pinned}\n", FILE.read_text()))


if __name__ == "__main__":
    sys.exit(main())
