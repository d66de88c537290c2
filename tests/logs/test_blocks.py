"""Words are found in the lines that hold them, and lines are known by their beginnings."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fsm.logs import clients
from fsm.logs.layouts.layout import marks_of
from fsm.logs.reading.beginnings import LONGEST, Beginnings
from fsm.logs.reading.blocks import Words, line_bounds
from fsm.logs.reading.entries import CANNOT_CONTINUE, CONTINUES

FEW = (b".Worker", b") (org", b"[Group", b"_HEARTBEAT ", b".WorkerTask", b"|JOIN|")
"""Some of them are parts of others; all marks together are searched in several parts."""
SOME_LINES = st.lists(
    st.lists(st.sampled_from([*FEW, b"W", b"orker", b"a.b", b"\r", b" "]), max_size=4).map(b"".join),
    min_size=1,
    max_size=8,
)


@given(SOME_LINES, st.sampled_from([FEW, FEW[:1], (), tuple(mark for one in clients() for mark in one.marks)]))
def test_words_are_found_in_the_lines_that_hold_them(lines: list[bytes], some: tuple[bytes, ...]) -> None:
    """Each line once, by its number, whatever the words are."""
    data = b"\n".join(lines)
    held = [i for i, line in enumerate(lines) if any(word in line for word in some)]
    assert Words(some).lines(data, line_bounds(data)).tolist() == held
    assert Words(some).search(data) == bool(held)


def test_lines_outside_of_the_bounds_are_left_out() -> None:
    """Before them and behind them."""
    data = b"[thrd:\n[thrd:\nno\n[thrd:\n[thrd:"
    assert marks_of(clients()).lines(data, line_bounds(data)[1:4]).tolist() == [0]


LINES = st.lists(st.one_of(st.from_regex(rb"[A-Z]{1,3}[0-9]{1,3}[a-z ]{0,3}", fullmatch=True), st.binary(max_size=9)))


def kind_of(line: bytes) -> int:
    return 0 if line[:1].isdigit() else sum(line[:1]) % 7


@pytest.mark.parametrize("reach", [3, 8, 30])
@given(blocks=st.lists(LINES, min_size=1, max_size=3))
def test_lines_with_one_beginning_are_of_one_kind(reach: int, blocks: list[list[bytes]]) -> None:
    """Digits are alike, lines may be shorter, and what holds for one line alone is not kept."""
    known = Beginnings(reach)
    for some in blocks:
        data = b"\n".join(some)
        lines = data.split(b"\n")

        def ask(i: int, lines: list[bytes] = lines) -> tuple[int, bool]:
            return kind_of(lines[i]), not lines[i].startswith(b"B")

        cells = np.frombuffer(data + b"\n" * LONGEST, np.uint8)
        assert known.classify(cells, line_bounds(data)[:-1], ask).tolist() == list(map(kind_of, lines))


def test_a_beginning_is_asked_for_once() -> None:
    """Of many lines in several blocks, and of those that share their place in the table."""
    known, asked = Beginnings(8), list[bytes]()
    lines = [b"%c%c%d" % (65 + i % 26, 65 + i % 25, i % 10) for i in range(20_000)]
    data = b"\n".join(lines)
    cells = np.frombuffer(data + b"\n" * LONGEST, np.uint8)

    def ask(i: int) -> tuple[int, bool]:
        asked.append(lines[i][:2])
        return lines[i][0] % 5, True

    for _ in range(2):
        assert known.classify(cells, line_bounds(data)[:-1], ask).tolist() == [line[0] % 5 for line in lines]
    assert len(asked) == 26 * 25 + 1  # what follows the last line is another


CONTINUING = re.compile(
    rb"(?:Caused by: |Suppressed: |Following [a-z]{3}\(s\) |[\s{(*]|a\.b(?:Error|Exception)(?:: x| ?))[a-z :.]{0,40}"
)


@given(st.one_of(st.binary(max_size=60), st.from_regex(CONTINUING, fullmatch=True)), st.integers(32, 64))
@example(b"a.bException:", 32)
@example(b"a.bException \t", 32)
@example(b"org.apache.kafka.common.errors.DisconnectException: x", 32)
@example(b"Following topic(s) are", 32)
def test_what_begins_anew_continues_nothing(line: bytes, reach: int) -> None:
    """However much of the line is looked at."""
    assert not (CANNOT_CONTINUE(line, 0, reach) and CONTINUES(line))


@pytest.mark.parametrize("line", [b"2026-11-21 08:00:00", b"Nov 21 08:00:00 host", b"<6>a", b'"a"', b"12:00:01.5 a"])
def test_most_lines_of_others_begin_anew(line: bytes) -> None:
    """By their first bytes."""
    assert CANNOT_CONTINUE(line, 0, 32)
