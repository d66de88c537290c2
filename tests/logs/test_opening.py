"""Files in zstd and lz4, which pyarrow decompresses: several frames, cut off, damaged, and as bombs."""

from __future__ import annotations

import gzip
import random
import sys
from hashlib import sha256
from pathlib import Path

import pyarrow
import pytest

from fsm.logs.reading.opening import READ_ERRORS, DamageTolerant, PackedError, open_packed

TEXT = b"".join(b"line %d %s\n" % (i, sha256(b"%d" % i).hexdigest().encode()) for i in range(6000))

both = pytest.mark.parametrize("codec", ["zstd", "lz4"])


def pack(codec: str, data: bytes = TEXT) -> bytes:
    packed: bytes = pyarrow.compress(data, codec=codec, asbytes=True)
    return packed


def read(path: Path, data: bytes) -> tuple[bytes, Exception | None]:
    """The text, and the damage that ended it."""
    path.write_bytes(data)
    with open_packed(str(path)) as handle:
        until = DamageTolerant(handle)
        return b"".join(iter(lambda: until.read(1 << 16), b"")), until.problem


@both
def test_every_frame_of_a_file_is_read(tmp_path: Path, codec: str) -> None:
    """Programs append to a file frame by frame; some write frames that are skipped."""
    skipped = b"\x50\x2a\x4d\x18\4\0\0\0skip"
    data = pack(codec) + pack(codec, b"") + skipped + pack(codec, b"more\n")
    assert read(tmp_path / "a.log", data) == (TEXT + b"more\n", None)


@both
def test_what_stands_before_damage_is_read(tmp_path: Path, codec: str) -> None:
    """Whole blocks, of 128 KB at most, and the damage is a problem."""
    data = pack(codec)
    for end in (*range(4, len(data), len(data) // 8), len(data) - 1):
        text, problem = read(tmp_path / "a.log", data[:end])
        assert TEXT.startswith(text)
        assert len(text) > len(TEXT) * end / len(data) - (150 << 10)
        assert str(problem) == "Truncated compressed stream"
    text, problem = read(tmp_path / "a.log", data + b"no frame")
    assert TEXT.startswith(text)
    assert len(text) > len(TEXT) - (8 << 10)
    assert isinstance(problem, OSError)


@both
def test_reads_are_large_except_close_to_damage(tmp_path: Path, codec: str) -> None:
    """A reader pays for every part; only the last parts before damage are small, also of a file that is packed
    again."""
    path = tmp_path / "a.log"
    for data, most in ((pack(codec), len(TEXT) // (1 << 16) + 2), (pack(codec) + b"no frame", 40)):
        path.write_bytes(data)
        with open_packed(str(path)) as handle:
            until = DamageTolerant(handle)
            parts = list(iter(lambda one=until: one.read(1 << 16), b""))
        assert len(parts) <= most
        assert len(b"".join(parts)) > len(TEXT) - (4 << 10)
    text, problem = read(path, pack(codec, gzip.compress(TEXT)) + b"no frame")
    assert TEXT.startswith(text)
    assert len(text) > len(TEXT) - (16 << 10)
    assert problem is not None


@both
def test_no_bytes_break_a_decompressor(tmp_path: Path, codec: str) -> None:
    """Changed bytes change the text, or are a problem."""
    chance = random.Random(5)  # noqa: S311
    whole = pack(codec, TEXT[:5000])
    for _ in range(30):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 3, 20))):
            data[chance.randrange(4, len(data))] = chance.randrange(256)
        _, problem = read(tmp_path / "a.log", bytes(data))
        assert problem is None or isinstance(problem, READ_ERRORS)


@both
def test_a_bomb_takes_no_memory(tmp_path: Path, codec: str) -> None:
    """However much is decompressed."""
    (tmp_path / "a.log").write_bytes(pack(codec, bytes(1 << 20)) * 50)
    before, size = pyarrow.total_allocated_bytes(), 0
    with open_packed(str(tmp_path / "a.log")) as handle:
        while part := handle.read(1 << 16):
            size += len(part)
            assert pyarrow.total_allocated_bytes() - before < 2 << 20
    assert size == 50 << 20
    assert pyarrow.total_allocated_bytes() == before


@both
def test_without_pyarrow_a_file_is_refused(tmp_path: Path, codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.log").write_bytes(pack(codec))
    said = rf"^compressed with {codec}; install pyarrow \(extra codecs\) to read it$"
    with pytest.raises(PackedError, match=said), open_packed(str(tmp_path / "a.log")):
        pass
