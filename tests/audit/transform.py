"""What happens to logs on their way to an auditor, done to whole scenarios: pure, and the same every time.

A scenario is a mapping of file names to bytes. Entries (a first line with its continuation) stay whole.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from memory import parsed

Files = Mapping[str, bytes]

_RDKAFKA = re.compile(rb"(?:%\d\|)?(\d{9,11})\.(\d{3})\|")
_ISO = re.compile(rb"[^\d]{0,20}(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)[.,](\d{3})")


def when_ms(entry: bytes) -> int:
    """The time stamp an entry begins with, zones read as UTC; 0 where it has none."""
    epoch = _RDKAFKA.match(entry)
    if epoch:
        return int(epoch[1]) * 1000 + int(epoch[2])
    iso = _ISO.match(entry)
    if iso is None:
        return 0
    moment = datetime.fromisoformat(f"{iso[1].decode()}T{iso[2].decode()}").replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1000 + int(iso[3])


def entries(data: bytes) -> list[bytes]:
    """The entries of a file."""
    return [entry.data for entry in parsed(data)]


def _joined(parts: list[bytes]) -> bytes:
    return b"".join(part + b"\n" for part in parts)


def _middle_ms(files: Files) -> float:
    times = [t for data in files.values() for e in entries(data) if (t := when_ms(e))]
    return (min(times) + max(times)) / 2


def first_half_dropped(files: Files) -> dict[str, bytes]:
    """Every file begins in the middle of the scenario's time, as after a log retention."""
    middle_ms = _middle_ms(files)
    return {n: _joined([e for e in entries(d) if when_ms(e) >= middle_ms]) for n, d in files.items()}


def last_half_dropped(files: Files) -> dict[str, bytes]:
    """Every file ends in the middle of the scenario's time, as if it was collected then."""
    middle_ms = _middle_ms(files)
    return {n: _joined([e for e in entries(d) if when_ms(e) < middle_ms]) for n, d in files.items()}


def each_file_from_its_middle(files: Files) -> dict[str, bytes]:
    """Every file lost the first half of its entries: they begin at different times."""
    return {n: _joined(all_[len(all_) // 2 :]) for n, d in files.items() for all_ in [entries(d)]}


def each_file_to_its_middle(files: Files) -> dict[str, bytes]:
    """Every file lost the last half of its entries: they end at different times."""
    return {n: _joined(all_[: len(all_) // 2]) for n, d in files.items() for all_ in [entries(d)]}


def rotated(files: Files) -> dict[str, bytes]:
    """Every file in three: `A.log.2` is the oldest, `A.log` the newest."""
    out = {}
    for name, data in files.items():
        all_ = entries(data)
        cuts = [0, len(all_) // 3, 2 * len(all_) // 3, len(all_)]
        for i, suffix in enumerate((".2", ".1", "")):
            out[name + suffix] = _joined(all_[cuts[i] : cuts[i + 1]])
    return out


def _by_time(files: Files) -> list[bytes]:
    return sorted((e for _, data in sorted(files.items()) for e in entries(data)), key=when_ms)


def merged(files: Files) -> dict[str, bytes]:
    """All entries of all files in one file, by time, as a collector writes them."""
    return {"all.log": _joined(_by_time(files))}


def dealt(files: Files) -> dict[str, bytes]:
    """All entries dealt out to two files at random (always the same way)."""
    chance = random.Random(20261121)  # noqa: S311
    hands: tuple[list[bytes], list[bytes]] = ([], [])
    for entry in _by_time(files):
        hands[chance.randrange(2)].append(entry)
    return {"left.log": _joined(hands[0]), "right.log": _joined(hands[1])}


WHOLE: dict[str, Callable[[Files], dict[str, bytes]]] = {"rotated": rotated, "merged": merged, "dealt": dealt}
"""Nothing is lost: the findings must stay right."""
CUT: dict[str, Callable[[Files], dict[str, bytes]]] = {
    "first half dropped": first_half_dropped,
    "last half dropped": last_half_dropped,
    "each from its middle": each_file_from_its_middle,
    "each to its middle": each_file_to_its_middle,
}
"""Half is lost: nothing may be invented."""
