"""The pipeline's first stage without Spark: what is found, how it is dealt out, what a piece gives."""

from __future__ import annotations

import random
from datetime import UTC
from pathlib import Path

import pytest
from pyarrow import parquet

from fsm.audit.reading.piece import read_piece
from fsm.audit.reading.records import unpack
from fsm.errors import InputError
from fsm.logs import formats
from fsm.logs.reading.pieces import WHOLE, Piece
from fsm.spark import sources
from fsm.spark.sources import find, pack_bins
from fsm.spark.tables import Tables

BIN_BYTES, PIECE_BYTES = 1 << 14, 1 << 16
"""Smaller than those of an audit, which are of some megabytes."""


def files(root: Path, *names: str) -> None:
    """Small files."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{name}\n")


def found(*paths: Path, by_folder: bool = False, leave_out: Path | None = None) -> list[tuple[str, str]]:
    """Names and clusters of what is found."""
    sources = find(paths, by_folder=by_folder, leave_out=leave_out).sources
    return [(str(s.path.relative_to(paths[0])), s.cluster) for s in sources]


def test_files_are_found_in_the_order_of_their_paths(tmp_path: Path) -> None:
    """Hidden files and those of deeper folders too, whatever the order of the arguments."""
    files(tmp_path, "b.log", "a/x.log", "a/.hidden", "_c")
    expected = [("_c", ""), ("a/.hidden", ""), ("a/x.log", ""), ("b.log", "")]
    assert found(tmp_path) == expected
    assert found(tmp_path, tmp_path / "b.log", tmp_path / "a") == expected


def test_a_file_with_two_names_counts_once(tmp_path: Path) -> None:
    """Links would double every record of a member; the first name in order is kept. Linked folders are followed."""
    files(tmp_path, "logs/a.log", "elsewhere/b.log")
    (tmp_path / "logs" / "link.log").symlink_to(tmp_path / "logs" / "a.log")
    (tmp_path / "logs" / "hard.log").hardlink_to(tmp_path / "logs" / "a.log")
    (tmp_path / "logs" / "more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "up").symlink_to(tmp_path / "logs")
    assert found(tmp_path / "logs") == [("a.log", ""), ("more/b.log", "")]


def test_the_folder_of_the_result_is_not_read(tmp_path: Path) -> None:
    """An older result below the logs is no log."""
    files(tmp_path, "a.log", "out/audit.json", "out/records.parquet/x", "output/b.log")
    assert found(tmp_path, leave_out=tmp_path / "out") == [("a.log", ""), ("output/b.log", "")]


def written(folder: Path) -> Path:
    """A folder that looks as what an audit wrote."""
    for name in ("findings.parquet/part-0.parquet", "audit.json", "report.html"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("[2026-11-21 08:19:42,138] INFO hello\n")
    return folder


def test_what_an_audit_wrote_is_left_out_and_said(tmp_path: Path) -> None:
    """An older result quotes log lines, which are no log; a folder that has only some of its files is read."""
    (tmp_path / "a.log").write_text("x\n")
    result = written(tmp_path / "deep" / "out")
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "report.html").write_text("x\n")
    inputs = find([tmp_path])
    assert [source.path.name for source in inputs.sources] == ["a.log", "report.html"]
    assert inputs.results == (str(result),)


def test_nothing_but_an_older_result(tmp_path: Path) -> None:
    """There is nothing to audit, and the reason is said."""
    with pytest.raises(InputError, match="nothing but the result of an audit"):
        find([written(tmp_path / "out")])


def test_folders_directly_below_a_path_are_clusters(tmp_path: Path) -> None:
    """What lies deeper belongs to them; a file directly below belongs to the folder given, or to its own."""
    root = tmp_path / "logs"
    files(root, "a.log", "east/b.log", "east/deep/c.log", "west/d.log")
    assert found(root, by_folder=True) == [
        ("a.log", "logs"),
        ("east/b.log", "east"),
        ("east/deep/c.log", "east"),
        ("west/d.log", "west"),
    ]
    assert [s.cluster for s in find([root / "west" / "d.log"], by_folder=True).sources] == ["west"]


@pytest.mark.parametrize(
    ("content", "binary"),
    [
        (b"\x7fELF\x02\x01\x01" + bytes(range(200)) * 9, True),
        (b"PAR1\x15\x04\x15\x10\x15\x14L\x15\x02\x15\x00\x12\x00\x00" * 40, True),
        (b"\0" * 9000 + b"[2026-11-21 07:55:00,123] INFO a\n", False),
        (b"\x1b[32mINFO\x1b[0m ready\n" * 90, False),
        ("zażółć gęślą jaźń\n".encode("iso-8859-2") * 90, False),
        ("[2026-11-21 07:55:00,123] INFO a\n".encode("utf-16"), False),
    ],
)
def test_binary_files_are_told_by_control_characters(tmp_path: Path, content: bytes, binary: bool) -> None:
    """Programs and tables are refused; colours, foreign encodings and logs that begin with NUL are read."""
    files(tmp_path, "good.log")
    (tmp_path / "file").write_bytes(content)
    refused = find([tmp_path]).unreadable
    assert [(u.file, u.reason) for u in refused] == ([(str(tmp_path / "file"), "binary file")] if binary else [])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of some kilobytes are cut."""
    monkeypatch.setattr(sources, "BIN_BYTES", BIN_BYTES)
    monkeypatch.setattr(sources, "PIECE_BYTES", PIECE_BYTES)


@pytest.mark.usefixtures("small")
def test_pieces_are_dealt_out_by_size(tmp_path: Path) -> None:
    """No task gets much more than another, and what is small gets one task; every piece has its place."""
    for number, size in enumerate((5, 1, 1, 3, 2)):
        with (tmp_path / f"{number}.log").open("wb") as out:
            out.truncate(size * BIN_BYTES)
    inputs = find([tmp_path])
    dealt = pack_bins(inputs, BIN_BYTES, cores=1)
    assert [sum(job.weight for job in own) // BIN_BYTES for own in dealt] == [3, 3, 3, 3]
    jobs = sorted((job.piece.file, job.piece.start) for own in dealt for job in own)
    assert len(jobs) == 12
    assert jobs == sorted(set(jobs))
    assert [len(own) for own in pack_bins(inputs, 1 << 40, cores=1)] == [1, 1, 2, 2]
    files(tmp_path / "small", "a", "b", "c")
    assert [len(own) for own in pack_bins(find([tmp_path / "small"]), 1000, cores=64)] == [3]


@pytest.mark.deep
@pytest.mark.usefixtures("small")
def test_one_large_file_is_work_for_every_core(tmp_path: Path) -> None:
    """It is cut into more pieces than there are cores, unless they would be small; none exceeds what is asked for."""
    with (tmp_path / "large.log").open("wb") as out:
        out.truncate(100 * PIECE_BYTES)
    inputs = find([tmp_path])

    def sizes(split_bytes: int, cores: int) -> list[int]:
        return [job.piece.end - job.piece.start for own in pack_bins(inputs, split_bytes, cores) for job in own]

    assert sizes(1 << 40, cores=5) == [5 * PIECE_BYTES] * 20
    assert sizes(1 << 40, cores=1000) == [PIECE_BYTES] * 100
    assert sizes(2 * PIECE_BYTES, cores=5) == [2 * PIECE_BYTES] * 50


@pytest.mark.deep
def test_no_byte_of_a_real_log_breaks_a_task(recordings: Path, tmp_path: Path) -> None:
    """Recorded logs with bytes changed, lines torn and joined are read into records that Parquet takes, or refused."""
    chance = random.Random(4711)  # noqa: S311
    path, read = tmp_path / "a.log", 0
    for log in sorted(recordings.rglob("*.log"))[::3]:
        data = bytearray(log.read_bytes()[:60_000])
        for _ in range(len(data) // 1000):
            at = chance.randrange(len(data))
            data[at : at + chance.randint(0, 2)] = chance.choice(
                (b"", b"\0", b"\xff", b"\n", b"9", b"[", b'"', b"\\ud800")
            )
        path.write_bytes(data)
        found = read_piece(Piece(str(path), 0, WHOLE), formats(), UTC)
        with Tables(tmp_path, read) as tables:
            tables.add("files", [found.summary])
            for chunk in (*found.members, *found.coordinators):
                tables.add_records("", chunk, unpack(chunk.packed), None)
        read += found.summary.records
    assert read > 500
    assert parquet.read_table(tmp_path / "records.parquet").num_rows == read
