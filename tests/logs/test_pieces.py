"""`fsm.logs.reading.pieces`: files cut into byte ranges and read in them, whatever the bytes are."""

from __future__ import annotations

import base64
import bz2
import gzip
import lzma
import random
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm.logs import Format
from fsm.logs.reading.entries import ENTRY_LIMIT, LINE_LIMIT, Entry
from fsm.logs.reading.opening import DamageTolerant, open_packed
from fsm.logs.reading.pieces import CHUNK, WHOLE, Piece, PieceReader, cut, from_bytes, reader_of

HASH = Format("hash", "test", b"#", re.compile(b"# "), re.compile(b""), lambda _entry, _zone: ())
SMALL = b"# one\n  more\n  also its own.\n# two\n\n# three"


def read(piece: Piece) -> tuple[list[Entry], int]:
    """The entries of one piece and the lines it counted."""
    reader = PieceReader(piece, (HASH,))
    return list(reader.entries()), reader.lines


def in_pieces(path: Path, split_bytes: int) -> tuple[list[tuple[int, int, bytes, bool]], int]:
    """(offset, line number in the file, data, cut) of all pieces, numbers resolved by the lines of earlier pieces."""
    found, before = [], 0
    for piece in cut(path, split_bytes):
        entries, lines = read(piece)
        found += [(one.offset, before + one.number, one.data, one.cut) for one in entries]
        before += lines
    return found, before


def test_a_file_is_cut_into_ranges_that_cover_it(tmp_path: Path) -> None:
    """Pieces follow one another without gap, the last one is the rest; an empty file is one empty piece."""
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * 25)
    assert [(p.start, p.end) for p in cut(path, 10)] == [(0, 10), (10, 20), (20, 25)]
    path.write_bytes(b"")
    assert list(cut(path, 10)) == [Piece(str(path), 0, 0, gzipped=False)]


def test_gzip_is_known_by_its_content_and_never_cut(tmp_path: Path) -> None:
    """A compressed file is one piece whatever its name, and a text named `.gz` is text."""
    packed, text = tmp_path / "packed.log", tmp_path / "text.gz"
    packed.write_bytes(gzip.compress(SMALL))
    text.write_bytes(SMALL)
    assert list(cut(packed, 10)) == [Piece(str(packed), 0, WHOLE, gzipped=True)]
    assert len(list(cut(text, 10))) == 5


@pytest.mark.parametrize("encode", [gzip.compress, base64.encodebytes], ids=["gzip", "base64"])
def test_a_reader_knows_an_encoded_file(tmp_path: Path, encode: Callable[[bytes], bytes]) -> None:
    """It is read whole, whether the driver saw that it is encoded, because it is large, or not."""
    path = tmp_path / "a.log"
    path.write_bytes(encode(SMALL * 10 + b"\n"))
    assert list(cut(path, 10)) == [Piece(str(path), 0, WHOLE, gzipped=True)]
    for found in (next(cut(path, WHOLE)), Piece(str(path), 0, path.stat().st_size)):
        reader = reader_of(found, (HASH,))
        assert isinstance(reader, PieceReader)
        assert reader.piece == Piece(str(path), 0, WHOLE, gzipped=True)
        assert len(list(reader.entries())) == 21
        assert reader.lines == 10 * SMALL.count(b"\n") + 1


def test_entries_of_a_whole_file(tmp_path: Path) -> None:
    """Offsets are bytes, numbers count lines from 1, the last line needs no line end."""
    path = tmp_path / "a.log"
    path.write_bytes(SMALL)
    assert read(Piece(str(path), 0, WHOLE)) == (
        [
            Entry(0, 1, (HASH,), b"# one\n  more\n  also its own.", False),
            Entry(29, 4, (HASH,), b"# two\n", False),
            Entry(36, 6, (HASH,), b"# three", False),
        ],
        6,
    )


@pytest.mark.parametrize("split_bytes", [1, 2, 7, 29, 30, 36, 1000])
def test_small_pieces_give_what_the_whole_gives(tmp_path: Path, split_bytes: int) -> None:
    """Wherever a file is cut, each entry comes once, as a whole and with its line number."""
    path = tmp_path / "a.log"
    path.write_bytes(SMALL)
    assert in_pieces(path, split_bytes) == in_pieces(path, WHOLE)


PARTS = st.sampled_from(
    [b"# head", b"\n", b"\n\n", b"\r\n", b"tail ", b" more", b"\0", b"\xff\xfe", b"x" * 999, b"#", b"# \n"]
)


@settings(max_examples=60)
@given(parts=st.lists(PARTS, max_size=30), split_bytes=st.integers(1, 3000))
def test_any_bytes_in_any_pieces(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], split_bytes: int
) -> None:
    """Empty lines, bare carriage returns, NUL and broken UTF-8 change nothing about that."""
    path = tmp_path_factory.mktemp("any") / "a.log"
    path.write_bytes(b"".join(parts))
    assert in_pieces(path, split_bytes) == in_pieces(path, WHOLE)


@pytest.mark.parametrize("split_bytes", [ENTRY_LIMIT // 3, ENTRY_LIMIT, CHUNK + 1])
def test_long_lines_and_long_entries_in_pieces(tmp_path: Path, split_bytes: int) -> None:
    """Lines longer than what is kept, and entries longer than their limit, come out the same from any pieces."""
    path = tmp_path / "a.log"
    lines = [
        b"# a",
        b" " * (LINE_LIMIT + 5),
        b"# b",
        b"\t" * (ENTRY_LIMIT - 6),
        b"\tnea",
        b"far",
        b"# c" + b"z" * LINE_LIMIT,
    ]
    path.write_bytes(b"\n".join([*lines, b"# d"]))
    found, count = in_pieces(path, split_bytes)
    assert (found, count) == in_pieces(path, WHOLE)
    assert count == 8
    assert [(number, len(data), was_cut) for _, number, data, was_cut in found] == [
        (1, 4 + LINE_LIMIT, True),
        (3, ENTRY_LIMIT - 2 + 5, False),
        (6, 3, False),
        (7, LINE_LIMIT, True),
        (8, 3, False),
    ]


def test_a_hundred_megabytes_without_a_line_end_cost_little_memory(tmp_path: Path) -> None:
    """A line is read by chunks and only its beginning is kept; the line behind it has its right place."""
    path = tmp_path / "a.log"
    with path.open("wb") as out:
        out.write(b"# ")
        for _ in range(100):
            out.write(b"x" * 1_000_000)
        out.write(b"\n# end\n")
    tracemalloc.start()
    entries, lines = read(Piece(str(path), 0, WHOLE))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [(one.offset, one.number, len(one.data), one.cut) for one in entries] == [
        (0, 1, LINE_LIMIT, True),
        (100_000_003, 2, 5, False),
    ]
    assert lines == 2
    assert peak < 12 * CHUNK


def test_windows_line_ends_and_byte_order_marks_are_no_content(tmp_path: Path) -> None:
    """The carriage return before a line end and the mark before the first line are left out; offsets count them."""
    path = tmp_path / "a.log"
    path.write_bytes(b"\xef\xbb\xbf# one\r\n  more\r\n# two\r\n")
    assert [(one.offset, one.data) for one in read(Piece(str(path), 0, WHOLE))[0]] == [
        (0, b"# one\n  more"),
        (18, b"# two"),
    ]


def test_what_a_damaged_gzip_file_can_still_give_is_read(tmp_path: Path) -> None:
    """Every line before the damage comes out before the error does, the line in which it happens cut short."""
    path = tmp_path / "a.log.gz"
    text = b"".join(b"# line %d\n" % number for number in range(5000))
    packed = gzip.compress(text, mtime=0)
    path.write_bytes(packed[: len(packed) // 2])
    reader = PieceReader(Piece(str(path), 0, WHOLE, gzipped=True), (HASH,))
    found: list[bytes] = []
    with pytest.raises(EOFError):
        found.extend(one.data for one in reader.entries())
    lines = text.split(b"\n")
    assert len(found) > 2000
    assert found[:-1] == lines[: len(found) - 1]
    assert lines[len(found) - 1].startswith(found[-1])


def test_entries_of_a_text_in_memory() -> None:
    """A text needs no file; its lines are numbered from 1."""
    assert [(one.offset, one.number) for one in from_bytes(SMALL, (HASH,))] == [(0, 1), (29, 4), (36, 6)]


def in_small_blocks(text: bytes) -> bytes:
    return bz2.compress(text, 1)


@pytest.mark.parametrize("pack", [gzip.compress, in_small_blocks, lzma.compress])
def test_what_stands_before_the_damage_in_a_packed_file_is_read(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """As of one that was cut short: bytes in its middle were written over."""
    chosen = random.Random(7)  # noqa: S311
    text = b"".join(b"line %d %d\n" % (i, chosen.getrandbits(64)) for i in range(20_000))
    data = bytearray(pack(text))
    half = len(data) // 2
    data[half : half + 64] = bytes(64)
    path = tmp_path / "a.log.packed"
    path.write_bytes(data)
    with open_packed(str(path)) as handle:
        until = DamageTolerant(handle)
        found = b"".join(iter(lambda: until.read(1 << 20), b""))
    assert until.problem is not None
    assert len(found) > len(text) / 4
    assert text.startswith(found[: len(text) // 4])
