"""What one group of a million records takes, on two cores: read from /proc while the command runs."""

from __future__ import annotations

import json
import re
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import recordings as recorded

from fsm.logs import formats
from fsm.logs.reading.entries import parse_entry
from fsm.logs.reading.pieces import from_bytes
from fsm.spark.result import MARK

sys.path.append(str(Path(__file__).parents[1] / "bench"))

import measure

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("spark")]
RECORDS = 1_000_000
_STAMP = re.compile(rb"^\[(.{19})(?=,\d{3}\])", re.MULTILINE)
_LONG = 20
"""Lines of an entry that is written once: configurations."""


def prolong(log: bytes, copies: int, step: timedelta) -> bytes:
    """What the log says, over and over, each time later."""
    entries = [entry.data for entry in from_bytes(log, formats()) if parse_entry(entry, None)[1]]  # type: ignore[arg-type]
    short = b"\n".join(data for data in entries if data.count(b"\n") < _LONG) + b"\n"
    begin, *parts = _STAMP.split(short)
    told = [(datetime.fromisoformat(at.decode()), rest) for at, rest in zip(parts[::2], parts[1::2], strict=True)]
    out = [begin]
    for number in range(copies):
        later = number * step
        out += [b"[" + (at + later).isoformat(" ").encode() + rest for at, rest in told]
    return b"".join(out)


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of two members of one group that rebalances all the time."""
    folder = tmp_path_factory.mktemp("group")
    logs = recorded.logs("java")["j02_second_joins"]
    once = sum(len(parse_entry(e, None)[1] or ()) for log in logs.values() for e in from_bytes(log, formats()))  # type: ignore[arg-type]
    for name, log in logs.items():
        (folder / name).write_bytes(prolong(log, 1 + RECORDS // (once - 10), timedelta(minutes=1)))
    return folder


@pytest.mark.parametrize(
    ("master", "most_mb"),
    [
        ("none", {"driver": 700}),
        ("local[2]", {"driver": 220, "jvm": 900, "workers": 1000}),
    ],
)
def test_a_group_of_a_million_records(group: Path, tmp_path: Path, master: str, most_mb: dict[str, int]) -> None:
    """Nothing holds its lines or records; the driver, where it does not judge itself, is as large as without."""
    took = measure.run((sys.executable, "-m", "fsm", "audit", group, "-o", tmp_path / "out", "--master", master))
    read = json.loads((tmp_path / "out" / MARK).read_text())["inputs"]
    assert read["records"] >= RECORDS
    assert {part: round(took.peak_mb[part]) for part, most in most_mb.items() if took.peak_mb[part] > most} == {}
