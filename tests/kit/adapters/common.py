"""What adapters in Python share: the options, what they print, and the lines that they are told."""

from __future__ import annotations

import argparse
import json
import queue
import sys
import threading
from collections.abc import Iterable
from typing import Any


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


def say(event: str, partitions: Iterable[tuple[str, int]] | None = None, error: str = "") -> None:
    """One line on stdout."""
    said: dict[str, Any] = {"ev": event}
    if partitions is not None:
        said["partitions"] = sorted([topic, number] for topic, number in partitions)
    if error:
        said["error"] = error
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def commands() -> queue.SimpleQueue[str]:
    """What comes on stdin; its end is `close`."""
    told: queue.SimpleQueue[str] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            told.put(line.strip())
        told.put("close")

    threading.Thread(target=listen, daemon=True).start()
    return told
