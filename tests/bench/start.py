"""How much longer `fsm tables` takes than a bare Python: whole processes, turn by turn.

python tests/bench/start.py [TIMES]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

COMMANDS = {"python -c pass": ("-c", "pass"), "python -m fsm tables": ("-m", "fsm", "tables")}


def main() -> None:
    """Prints the medians and their difference, in milliseconds."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    took: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(times):
        for name, arguments in COMMANDS.items():
            begun = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
            took[name].append(time.perf_counter() - begun)
    bare, tables = (1000 * statistics.median(own) for own in took.values())
    print(f"python -c pass {bare:.0f} ms, fsm tables {tables:.0f} ms: {tables - bare:.0f} ms more (medians of {times})")


if __name__ == "__main__":
    main()
