"""What a watched consumer prints: words for whatever a member can do, and messages of any bytes."""

from __future__ import annotations

import ast
import doctest
import inspect
import json

import pytest

from fsm.join import Message, run
from fsm.join.run import CALLBACKS, PLAIN, json_of_message, line_of, line_of_message
from fsm.member.runtime import trace
from fsm.trace import Kind, TraceRecord


def test_the_examples_hold() -> None:
    """In the docstrings."""
    assert doctest.testmod(run) == (0, 2)


def test_there_are_words_for_all_that_a_member_writes_down() -> None:
    """Every kind of record that the trace of a member names."""
    named = {
        Kind[node.attr]
        for node in ast.walk(ast.parse(inspect.getsource(trace)))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Kind"
    }
    assert len(named) > 20
    assert named <= {Kind.TRANSITION, *CALLBACKS, *PLAIN}


def test_what_a_run_is_about_is_told_in_full() -> None:
    """Partitions by topic, what is added and what is given up; an empty assignment is nothing."""
    a, b = ("foo", 2), ("foo", 10)
    run = TraceRecord(0, Kind.RECONCILING, full=(a, ("bar", 0)), partitions=(("bar", 0),), revoked=(b,))
    assert line_of(run) == "00:00:00.000  reconciles to bar-[0], foo-[2]  adds bar-[0]  gives up foo-[10]"
    assert line_of(TraceRecord(0, Kind.TARGET, full=())) == "00:00:00.000  target: nothing"
    assert line_of(TraceRecord(0, Kind.ERROR, detail="because")) == "00:00:00.000  error  because"


@pytest.mark.parametrize(
    ("value", "line", "plain"),
    [
        (b"text", "text", "text"),
        ("ä€".encode(), "ä€", "ä€"),
        (b"two\nlines", r"two\nlines", "two\nlines"),
        (b"\xff\x00", r"\\xff\x00", {"base64": "/wA="}),
        (None, "(null)", None),
    ],
)
def test_values_of_any_bytes_are_one_line(value: bytes | None, line: str, plain: object) -> None:
    """Text as it is, other bytes escaped, in JSON as base64."""
    message = Message("foo", 0, 1, 0, b"k", value)
    assert line_of_message(message) == f"00:00:00.000  foo-0 @1  k: {line}"
    assert json.loads(json_of_message(message))["value"] == plain
