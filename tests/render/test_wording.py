"""Texts of a report: nothing invisible, nothing endless; times, durations and counts as they are read aloud."""

from __future__ import annotations

import pytest

from fsm.render import wording


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("orders-0", "orders-0"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u200fb", "a\\u200fb"),
        ("a\0b\x1b[31m", "a\\x00b\\x1b[31m"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("Grüße 群組", "Grüße 群組"),
        ("two\n\tlines", "two\n\tlines"),
    ],
)
def test_what_cannot_be_seen_is_written_out(given: str, expected: str) -> None:
    """Control characters, marks of direction and halves of pairs become escapes; letters of any script stay."""
    assert wording.show(given) == expected


def test_a_cut_text_tells_how_long_it_was() -> None:
    """A text of a million characters keeps its first 600 and says so."""
    assert wording.show("x" * 1_000_000) == "x" * 600 + "… (1,000,000 characters)"


def test_a_name_is_one_short_line() -> None:
    """Line ends in a name become blanks, and 120 characters are enough for it."""
    assert wording.name("orders\n\tgroup") == "orders group"
    assert wording.name("n" * 121) == "n" * 120 + "… (121 characters)"


@pytest.mark.parametrize(
    ("ms", "expected"),
    [
        (0, "1970-01-01 00:00:00.000"),
        (1_700_000_000_120, "2023-11-14 22:13:20.120"),
        (-1, "1969-12-31 23:59:59.999"),
        (1 << 62, "4611686018427387904 ms since 1970"),
    ],
)
def test_instants_are_in_utc(ms: int, expected: str) -> None:
    """Date and time to the millisecond; a number that is no date stays a number."""
    assert wording.utc(ms) == expected


@pytest.mark.parametrize(
    ("ms", "expected"),
    [
        (0, "0 ms"),
        (740, "740 ms"),
        (3858, "3.9 s"),
        (8000, "8 s"),
        (59_999, "60 s"),
        (95_000, "1 min 35 s"),
        (120_000, "2 min"),
        (5_400_000, "1 h 30 min"),
        (200_000_000, "2 d 7 h"),
    ],
)
def test_durations_have_two_units_at_most(ms: int, expected: str) -> None:
    """Milliseconds, seconds with one decimal, then two units."""
    assert wording.lasting(ms) == expected


@pytest.mark.parametrize(
    ("ms", "expected"), [(0, "+0 s"), (12_500, "+12.5 s"), (60_000, "+0:01:00"), (6_001_020, "+1:40:01.02")]
)
def test_ticks_count_from_the_beginning(ms: int, expected: str) -> None:
    """Seconds at first, then hours, minutes and seconds; milliseconds only where there are some."""
    assert wording.since(ms) == expected


def test_clock_times_wrap_at_midnight() -> None:
    """The time of day of an instant, with or without milliseconds, also before 1970."""
    assert wording.clock(1_700_000_000_120) == "22:13:20.120"
    assert wording.clock(-1, exact=False) == "23:59:59"


def test_counts_and_sizes() -> None:
    """A noun agrees with its count, sizes have decimal units, runs of numbers are joined."""
    assert [wording.many(n, "entry", "entries") for n in (0, 1, 2000)] == ["0 entries", "1 entry", "2,000 entries"]
    assert [wording.size(n) for n in (999, 12_300, 5_000_000_000)] == ["999 bytes", "12.3 kB", "5.0 GB"]
    assert wording.numbers([8, 0, 2, 1, 7, 5, 5]) == "0..2, 5, 7, 8"
