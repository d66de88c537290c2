"""What is wrong with one partition, before it is merged with the like of others into a finding."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fsm.audit.findings import Cause
from fsm.audit.rows import Place
from fsm.trace import Partition


class Overlap(NamedTuple):
    """One partition with two owners."""

    old: str
    new: str
    start_ms: int
    end_ms: int
    partition: Partition
    cause: Cause
    places: tuple[Place, ...]
    sure: bool
    apart_ms: int | None
    """By how much the clocks of two files differ if nothing else is wrong; None where something is."""


class Gap(NamedTuple):
    """One wanted partition without owner."""

    old: str
    new: str
    start_ms: int
    end_ms: int
    partition: Partition
    cause: Cause
    places: tuple[Place, ...]
    wanted_ms: int
    sure: bool
    why: str = ""
    """How it came, in words, where its kind has words of its own."""


def union(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same times as disjoint, ordered spans."""
    out: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out
