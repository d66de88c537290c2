"""The hash of topic metadata, as others compute it."""

from __future__ import annotations

import pytest

from fsm.coordinator.model.xxh3 import xxh3_64


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", 0x2D06800538D394C2),
        (b"abc", 0x78AF5F94892F3950),
        (b"abcdefgh", 0x6F45A76842A96483),
        (bytes(range(16)), 0x8355E3A6F61770DB),
        (bytes(range(100)), 0x4E4F921A64BD1C),
        (bytes(range(200)), 0xF42A8864FEAF0703),
        (bytes(range(256)) * 4 + b"x", 0xFCF42DFEE36DBDA9),
        (bytes(range(256)) * 9, 0x5703BD07D242EA32),
    ],
    ids=lambda given: f"{len(given)} bytes" if isinstance(given, bytes) else "",
)
def test_each_length_has_its_way(data: bytes, digest: int) -> None:
    """What the reference implementation gives for inputs of every kind of length."""
    assert xxh3_64(data) == digest
