"""Rows that wait in a file: read as often as one likes, in their order, as if all were held."""

from __future__ import annotations

import random
from operator import attrgetter

import pytest

from fsm.audit.group import judge, rebalances
from fsm.audit.reading.records import spool
from fsm.audit.rows import GroupRows, SortedRows


@pytest.fixture
def few(monkeypatch):
    """Runs of some rows, in chunks of fewer."""
    monkeypatch.setattr("fsm.audit.rows.RUN", 10)
    monkeypatch.setattr("fsm.audit.rows._CHUNK", 3)


@pytest.mark.usefixtures("few")
def test_rows_are_read_by_their_key_as_often_as_one_likes():
    """Runs in the file and what is held are merged; another order of the same rows waits in the same file."""
    given = [(number % 7, number) for number in range(95)]
    random.Random(2).shuffle(given)  # noqa: S311
    with spool() as held:
        rows = SortedRows(lambda row: row, given, held)
        assert list(rows) == list(rows) == sorted(given)
        assert list(rows.by(lambda row: row[1])) == sorted(given, key=lambda row: row[1])
        rows.append((3, 1000))
        assert (len(rows), max(rows)) == (96, (6, 90))
        assert held.tell() > 0


@pytest.mark.usefixtures("few")
def test_a_group_is_judged_alike_where_its_rows_wait_in_a_file(interval, life, want):
    """The same findings and rebalances, of rows that come in any order."""
    owned = [
        interval(f"m{number % 3}", 5000 * number + 100 * (number % 7), 5000 * (number + 1), partition=number % 4)
        for number in range(60)
    ]
    lives = [life(f"m{number}", 0, 400_000) for number in range(3)]
    wants = [want(f"m{number}", 0, 400_000) for number in range(3)]
    expected = GroupRows(owned, wants, lives)
    random.Random(3).shuffle(owned)  # noqa: S311
    with spool() as held:
        rows = GroupRows(owned, wants, lives, spool=held)
        assert judge("g", rows) == judge("g", expected) != []
        assert rebalances("g", rows) == rebalances("g", expected)
        assert list(rows.intervals) == sorted(
            owned, key=attrgetter("topic", "partition", "start_ms", "end_ms", "member")
        )
