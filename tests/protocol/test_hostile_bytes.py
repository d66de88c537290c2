"""Frames that a hostile peer may send are read or refused, and take no more memory than their size allows.

A `MemoryError`, a `RecursionError` or any other exception than `InputError` fails these tests.
"""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hostile_bytes import Vector, change, dense_messages, read_vectors, smallest_message

from fsm.errors import InputError, RemoteProtocolError
from fsm.protocol import records
from fsm.protocol.codec import decode, decode_request, decode_response, encode, encode_request, encode_response
from fsm.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from fsm.protocol.messages import APIS
from fsm.protocol.primitives import CODES

MOST, BESIDE = 48, 10_000
"""Bytes of memory for a byte of a frame, and beside that: an empty struct takes two bytes, and in Python a tuple."""


@pytest.fixture(scope="module")
def frames() -> tuple[Vector, ...]:
    """The vectors with their headers."""
    return tuple(Vector(v.cls, v.version, frame(v)) for v in read_vectors())


def frame(vector: Vector) -> bytes:
    """A vector with a header."""
    message = decode(vector.cls, vector.data, vector.version)
    if vector.cls.__name__.endswith("Request"):
        return encode_request(message, vector.version, 7, "client")
    return encode_response(message, vector.version, 7)


def read(vector: Vector, data: bytes) -> tuple[Any, int]:
    """What the bytes say, and in which version. A request says itself what it is."""
    if vector.cls.__name__.endswith("Request"):
        header, message = decode_request(data)
        return message, header.api_version
    return decode_response(vector.cls, data, vector.version)[1], vector.version


@pytest.mark.parametrize(
    ("count", "seed"), [pytest.param(20_000, 1, id="20k"), pytest.param(1_000_000, 2, id="1M", marks=pytest.mark.slow)]
)
def test_changed_frames_are_read_or_refused(frames: tuple[Vector, ...], count: int, seed: int) -> None:
    """Cut, longer, with other bytes and other lengths; what can be read is a message that is written again."""
    random = Random(seed)  # noqa: S311  # the same seed, the same frames
    readable = 0
    for _ in range(count):
        vector = random.choice(frames)
        data = change(vector.data, random.choice(frames).data, random)
        try:
            message, version = read(vector, data)
        except InputError:
            continue
        readable += 1
        assert decode(type(message), encode(message, version), version) == message, data.hex()
    assert count // 10 < readable < count // 2


def test_changed_frames_take_no_more_memory_than_others(frames: tuple[Vector, ...]) -> None:
    """Whatever they claim."""
    random = Random(3)  # noqa: S311
    read_all_error_codes()
    for _ in range(1_000):
        vector = random.choice(frames)
        data = change(vector.data, random.choice(frames).data, random)
        assert peak(vector, data) <= MOST * len(data) + BESIDE, (vector.cls, data.hex())


def read_all_error_codes() -> None:
    """Codes that nobody knows are kept once they were read."""
    assert all(int(CODES[number]) == number for number in range(-(1 << 15), 1 << 15))


def peak(vector: Vector, data: bytes) -> int:
    """Memory that it takes to read the bytes."""
    tracemalloc.start()
    try:
        read(vector, data)
    except InputError:
        pass
    finally:
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return found


@pytest.mark.parametrize("api", list(APIS))
@pytest.mark.loop(10)
def test_no_array_takes_more_memory_than_its_bytes_allow(api: str) -> None:
    """Not even one that is full of the smallest elements."""
    version = APIS[api].newest
    for cls in (APIS[api].request, APIS[api].response):
        for message in dense_messages(cls, version, 700):
            vector = Vector(cls, version, encode(message, version))
            data = frame(vector)
            assert decode(cls, vector.data, version) == message
            assert peak(vector, data) <= MOST * len(data) + BESIDE


def test_changed_records_of_the_coordinator_are_read_or_refused() -> None:
    """Keys and values of every type and version, each with one element in one array or none."""
    random = Random(4)  # noqa: S311
    vectors = [
        records.encode(records.Record(smallest_message(form.key, 0)._replace(type=kind), value, version))
        for kind, form in records.FORMATS.items()
        for version in range(form.newest + 1)
        for value in (smallest_message(form.value, version), *dense_messages(form.value, version, 1))
    ]
    readable = 0
    for _ in range(10_000):
        key, value = random.choice(vectors)
        if random.random() < 0.3:
            key = change(key, key, random)
        else:
            value = change(value or b"", key, random)
        try:
            found = records.decode(key, value)
        except InputError:
            continue
        readable += 1
        assert records.decode(*records.encode(found)) == found
    assert readable > 500


def test_changed_metadata_of_members_are_read_or_refused() -> None:
    """What members tell each other passes through the coordinator as bytes, and reaches whoever leads or converts."""
    random = Random(5)  # noqa: S311
    owned = (("a", 1), ("a", 2), ("b", 0))
    for version in range(4):
        wants = encode_subscription(Subscription(("a", "b"), b"x", owned, 3, "r"), version)
        given = encode_assignment(Assignment(owned, b"x"), version)
        for _ in range(2_000):
            with suppress(RemoteProtocolError):
                decode_subscription(change(wants, given, random))
            with suppress(RemoteProtocolError):
                decode_assignment(change(given, wants, random))
