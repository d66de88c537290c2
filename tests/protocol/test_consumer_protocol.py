"""Subscriptions and assignments of consumers as bytes, in all versions."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm.errors import RemoteProtocolError
from fsm.protocol.assignment import partitions
from fsm.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

JAVA_SUBSCRIPTION = "AAMAAAABABN4MDEtY29vcC1zZWNvbmQtZm9vAAAABP////8AAAAA////////"
"""What a Java consumer 4.4.0 with the cooperative-sticky assignor sends as it joins for the first time."""
JAVA_ASSIGNMENT = "AAMAAAABABN4MDEtY29vcC1zZWNvbmQtZm9vAAAABgAAAAAAAAABAAAAAgAAAAMAAAAEAAAABf////8="
FULL = Subscription(("a", "b"), b"\x01", (("a", 0), ("a", 2), ("b", 1)), 7, "r")
texts = st.text(max_size=8)
owned = st.lists(st.tuples(texts, st.integers(0, 2**31 - 1)), max_size=6).map(partitions)
subscriptions = st.builds(
    Subscription,
    st.lists(texts, max_size=4).map(lambda found: tuple(sorted(found))),
    st.none() | st.binary(max_size=9),
    owned,
    st.integers(-1, 2**31 - 1),
    st.none() | texts,
)


def test_bytes_of_a_java_consumer() -> None:
    """Read, and written again byte by byte."""
    data = base64.b64decode(JAVA_SUBSCRIPTION)
    read = Subscription(("x01-coop-second-foo",), b"\xff\xff\xff\xff", (), -1, None)
    assert decode_subscription(data) == read
    assert encode_subscription(read) == data
    given = base64.b64decode(JAVA_ASSIGNMENT)
    assert decode_assignment(given) == Assignment(tuple(("x01-coop-second-foo", n) for n in range(6)))
    assert encode_assignment(decode_assignment(given)) == given


@pytest.mark.parametrize(
    ("version", "known"),
    [
        (0, Subscription(("a", "b"), b"\x01")),
        (1, Subscription(("a", "b"), b"\x01", FULL.owned_partitions)),
        (2, Subscription(("a", "b"), b"\x01", FULL.owned_partitions, 7)),
        (3, FULL),
    ],
)
def test_each_version_carries_what_it_knows(version: int, known: Subscription) -> None:
    """Owned partitions since 1, the generation since 2, the rack since 3."""
    assert decode_subscription(encode_subscription(FULL, version)) == known


def test_later_version_is_read_as_the_latest_known() -> None:
    """A newer member may add fields at the end."""
    data = encode_subscription(FULL)
    assert decode_subscription(b"\x00\x09" + data[2:] + b"more") == FULL


@given(subscriptions)
def test_subscription_comes_back(subscription: Subscription) -> None:
    """Whatever is written in the latest version is read."""
    assert decode_subscription(encode_subscription(subscription)) == subscription


@given(owned, st.none() | st.binary(max_size=9), st.integers(0, 3))
def test_assignment_comes_back(given: tuple[tuple[str, int], ...], user_data: bytes | None, version: int) -> None:
    """In every version."""
    assignment = Assignment(given, user_data)
    assert decode_assignment(encode_assignment(assignment, version)) == assignment


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Nothing else than `RemoteProtocolError` is raised, whatever a member sends."""
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(data)
        except RemoteProtocolError as error:
            assert "cannot be read at byte" in str(error)  # noqa: PT017  # the other way out is to succeed


@pytest.mark.parametrize("cut", [0, 1, 5, 12, 30])
def test_cut_bytes_are_refused(cut: int) -> None:
    """With the place where they end."""
    with pytest.raises(RemoteProtocolError, match="ConsumerProtocolSubscription cannot be read at byte"):
        decode_subscription(encode_subscription(FULL)[:cut])


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\xff\xff", "at byte 0: its version is ffff"),
        (b"\x00\x00\x7f\xff\xff\xff", "an array of 2147483647"),
        (b"\x00\x00\x00\x00\x00\x01\xff\xff\x00", "topics|null where a value is needed"),
        (b"\x00\x00\x00\x00\x00\x01\x00\x01\xff\x00", "not UTF-8"),
    ],
)
def test_senseless_bytes_are_refused_before_memory_is_taken(data: bytes, what: str) -> None:
    """A length that cannot be true is not tried."""
    with pytest.raises(RemoteProtocolError, match=what):
        decode_subscription(data)
