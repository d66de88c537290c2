"""Recorded walks of Apache Kafka's group coordinator: ours takes every step as Kafka did.

Every answer, every record in order, every description, in the dialect of the release; what a recording cannot fix - a
tie of an assignor, the order of a hash map, an instant near a deadline - is adopted and counted (`make conformance`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from recorded_walks import follow, is_recording, read

ONE_IN_SO_MANY = 12


def reads(head: Any) -> bool:
    """The first line names walk, family, group and config."""
    return is_recording(head)


def cases(file: Any) -> Iterator[tuple[str, bytes]]:
    """The walk is one case."""
    yield "walk", file.content


@pytest.mark.loop(20)
def test_every_step_is_kafkas(case: bytes) -> None:
    """The walk is followed to its end; the first difference tells request, field, expected and got."""
    outcome = follow(read(json.loads(line) for line in case.splitlines() if line.strip()))
    assert outcome.difference is None, f"\n{outcome.difference}"
    assert outcome.equal == outcome.steps > 0


@pytest.mark.our_copies
def test_our_walks_are_all_there(files: Any) -> None:
    """Recordings of five releases in eighteen families, 35,894 steps."""
    heads = [file for file in files if reads(file.head)]
    assert Counter(file.head["config"]["kafka"] for file in heads) == {
        "4.0.0": 64,
        "4.1.1": 50,
        "4.2.0": 50,
        "4.3.1": 64,
        "4.4.0": 188,
    }
    assert len({file.head["family"] for file in heads}) == 18
    assert sum(len(file.content.splitlines()) - 2 for file in heads) == 35_894
