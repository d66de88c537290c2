"""Recorded messages in layouts that nobody wrote down: what they say does not change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from logs.drawn import draw
from logs.test_layouts import CLIENTS, events, read, said, write

KINDS = ("java", "classic", "info", "librdkafka")
ONCE_LOST = {"librdkafka": (1032, 1149, 1158), "java": (1002, 1176), "throws": (1021,)}
"""Drawings of which records, or their times, were once lost."""


@pytest.mark.parametrize(
    ("kind", "seeds"),
    [
        *((kind, range(4)) for kind in KINDS),
        *(pytest.param(kind, range(4, 200), marks=pytest.mark.deep) for kind in KINDS),
        *ONCE_LOST.items(),
    ],
    ids=str,
)
@pytest.mark.loop(4)
def test_a_drawn_layout_changes_nothing_but_what_it_loses(kind: str, seeds: Sequence[int], tmp_path: Path) -> None:
    """Threads are left out: words without brackets are none."""
    client, told = CLIENTS["librdkafka" if kind == "librdkafka" else "java"], events(kind)
    for seed in seeds:
        text = draw(seed)(told)
        found, layouts = read(write(tmp_path / f"{seed}.log", text, told), client)
        lost = {what for one in layouts for what in one.lost}
        assert "time" not in lost
        records = [replace(record, thread="") for record in found]
        assert records == [replace(record, thread="") for record in said(client, told, lost)], (seed, text[:400])
