"""Compressed records: what every codec made is read, and nothing that is hostile takes more memory than it may."""

from __future__ import annotations

import gzip
import tracemalloc

import pyarrow
import pytest
from join_scene import batch_of_values, compress, repack

from fsm.errors import InputError
from fsm.join.compression import XERIAL, inflate
from fsm.protocol.record_batches import CODECS, GZIP, HEAD, LARGEST_INFLATED, OPAQUE, read_records

NAMES = [CODECS[number] for number in OPAQUE]
TEXT = b"the quick brown fox " * 100


def xerial(*blocks: bytes) -> bytes:
    """As snappy's Java library writes them."""
    packed = [pyarrow.compress(block, "snappy", asbytes=True) for block in blocks]
    return XERIAL + bytes([0, 0, 0, 1]) * 2 + b"".join(len(one).to_bytes(4, "big") + one for one in packed)


@pytest.mark.parametrize("codec", NAMES)
def test_what_was_compressed_comes_back(codec: str) -> None:
    """Up to the last byte that is allowed."""
    packed = compress(TEXT, CODECS.index(codec))
    assert inflate(codec, packed, len(TEXT)) == TEXT
    for most in (len(TEXT) - 1, 100):
        with pytest.raises(InputError, match=f"^the records exceed {most} bytes$"):
            inflate(codec, packed, most)


def test_snappy_in_blocks() -> None:
    """As Java producers send it."""
    assert inflate("snappy", xerial(TEXT, b"", b"end"), 1 << 20) == TEXT + b"end"
    with pytest.raises(InputError, match="the records exceed 2001 bytes"):
        inflate("snappy", xerial(TEXT, TEXT), len(TEXT) + 1)


@pytest.mark.parametrize("codec", NAMES)
@pytest.mark.parametrize("cut", [1, 5, 20])
def test_what_is_cut_or_is_none_is_refused(codec: str, cut: int) -> None:
    """By a line that names the codec."""
    packed = compress(TEXT, CODECS.index(codec))
    for data in (packed[:-cut], b"whatever it is" * 3, xerial(TEXT)[:-cut] if codec == "snappy" else b"?"):
        with pytest.raises(InputError, match=f"^no {codec}: "):
            inflate(codec, data, 1 << 20)


@pytest.mark.parametrize("codec", [GZIP, *(pytest.param(codec, marks=pytest.mark.deep) for codec in OPAQUE)])
def test_a_bomb_is_refused_and_takes_little(codec: int) -> None:
    """A few kilobytes that would be 256 MiB, or say that they are."""
    plain = batch_of_values([b"a"])
    bombs = (
        [compress(bytes(256 << 20), codec)] if codec != 2 else [xerial(*[bytes(1 << 20)] * 256), b"\xff" * 4 + b"\x0f"]
    )
    for bomb in bombs:
        before = pyarrow.total_allocated_bytes()
        tracemalloc.start()
        with pytest.raises(InputError, match="exceed 16777216 bytes"):
            list(read_records(repack(plain, codec, bomb), inflate))
        assert tracemalloc.get_traced_memory()[1] < 4 * LARGEST_INFLATED
        tracemalloc.stop()
        assert pyarrow.total_allocated_bytes() - before < 4 * LARGEST_INFLATED


def test_many_records_of_a_bomb_are_not_made_at_once() -> None:
    """Two million records of seven bytes are read one by one; they stand in a few kilobytes."""
    count = 1 << 21
    record = bytes([12, 0, 0, 0, 1, 1, 0])
    plain = bytearray(repack(batch_of_values([b"a"]), GZIP, gzip.compress(record * count)))
    plain[HEAD.size - 4 : HEAD.size] = count.to_bytes(4, "big")
    tracemalloc.start()
    records = read_records(bytes(plain), inflate)
    assert [next(records).offset for _ in range(1_000)] == [0] * 1_000
    assert tracemalloc.get_traced_memory()[1] < 4 * LARGEST_INFLATED
    tracemalloc.stop()
