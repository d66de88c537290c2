"""What adapters in Python share: the options, what they print, and the commands that they read."""

from __future__ import annotations

import argparse
import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

ENDS = {"assign": "assigned", "revoke": "revoked"}
"""What is printed when a callback has returned."""


def options() -> argparse.Namespace:
    """As `fsm kit run` gives them."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "group", "topics"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--protocol", choices=("consumer", "classic"), default="classic")
    for name in ("assignor", "instance"):
        parser.add_argument(f"--{name}", default="")
    for name, default in (("session", 45_000), ("max-poll", 300_000), ("revoke-delay", 0), ("assign-delay", 0)):
        parser.add_argument(f"--{name}-ms", type=int, default=default)
    return parser.parse_args()


o = options()


def print_line(event: str, partitions: Iterable[tuple[str, int]] | None = None, error: object = "") -> None:
    """One line on stdout."""
    message: dict[str, Any] = {"ev": event}
    if partitions is not None:
        message["partitions"] = sorted([topic, number] for topic, number in partitions)
    if error:
        message["error"] = str(error) or type(error).__name__
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def call_back(event: str, partitions: Iterable[Any]) -> None:
    """The application's callback `assign`, `revoke` or `lost`, which takes as long as it is to."""
    found = [(one[0], one[1]) for one in partitions]
    print_line(event, found)
    if event in ENDS:
        time.sleep(getattr(o, f"{event}_delay_ms") / 1000)
        print_line(ENDS[event], found)


def commands() -> queue.SimpleQueue[str]:
    """What comes on stdin; its end is `close`."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            waiting.put(line.strip())
        waiting.put("close")

    threading.Thread(target=listen, daemon=True).start()
    return waiting


def drive(
    poll: Callable[[], Any],
    obey: dict[str, Callable[[str], Any]],
    *,
    goes_on: bool = False,
    sleep: Callable[[float], Any] = time.sleep,
) -> None:
    """Polls, and obeys commands, until it is to close; an error of a poll ends it, unless it `goes_on`."""
    waiting, paused, going = commands(), False, True
    while going:
        while not waiting.empty():
            verb, _, rest = waiting.get().partition(" ")
            if verb == "close":
                going = False
            elif verb in ("pause", "resume"):
                paused = verb == "pause"
            elif verb in obey:
                try:
                    obey[verb](rest)
                except Exception as problem:
                    print_line("error", error=problem)
            else:
                print_line("error", error=f"unsupported: {verb}")
        if paused:
            sleep(0.05)
        elif going:
            try:
                poll()
            except Exception as problem:
                print_line("error", error=problem)
                sleep(0.2)
                going = goes_on
