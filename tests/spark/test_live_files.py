"""What happens to files while they are followed: they grow, are rotated, packed, cut, replaced, and go."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import recordings

from fsm.audit.live.changes import from_json, standing
from fsm.audit.local import audit_files
from fsm.spark import options, sources
from fsm.spark.live import plan
from fsm.spark.live.local import LocalBatches
from fsm.spark.live.sink import Sink


class Followed:
    """A folder of logs that is followed in this process, a batch when it is asked for."""

    def __init__(self, root: Path) -> None:
        self.meanwhile: Callable[[], None] | None = None
        """What happens once, when a batch is planned and nothing of it is read yet."""
        self.logs, self.out = root / "logs", root / "out"
        self.logs.mkdir()
        (self.out / "checkpoint").mkdir(parents=True)
        followed = options.Followed((), self.out, options.Options(master=options.IN_PROCESS), options.Follow())
        self.batches = LocalBatches(followed, Sink(self.out), self._at)

    def _at(self, point: str) -> None:
        if point == "begun" and self.meanwhile is not None:
            happens, self.meanwhile = self.meanwhile, None
            happens()

    def run(self) -> None:
        """Batches until nothing is new."""
        while self.batches.run(sources.look([self.logs])[0]) is not None:
            pass

    def look(self) -> None:
        """One batch, if anything is new."""
        self.batches.run(sources.look([self.logs])[0])

    @property
    def amiss(self) -> list[object]:
        """What was ever told of lines, also for a while."""
        return [one["summary"] for one in written(self.out) if one["kind"] == "unparsed_lines"]

    @property
    def found(self) -> list[str]:
        """The summaries of what stands about groups, by what was written."""
        told = standing({}, map(from_json, written(self.out)))
        return sorted(one.finding.summary for one in told.values() if one.finding.group)

    @property
    def happened(self) -> list[str]:
        """What is told about files."""
        told = standing({}, map(from_json, written(self.out)))
        return sorted(one.finding.summary for one in told.values() if "while it was followed" in one.finding.summary)


def written(out: Path) -> list[dict[str, object]]:
    """All lines that a sink wrote."""
    files = sorted((out / "findings").glob("*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    """A folder that is followed, empty."""
    return Followed(tmp_path)


@pytest.fixture(scope="module")
def logs() -> dict[str, bytes]:
    """A recording in which two members own partitions at once."""
    return recordings.logs("java")["j07_maxpoll"]


@pytest.fixture(scope="module")
def expected(logs: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the batch audit finds in it."""
    folder = tmp_path_factory.mktemp("expected")
    for name, data in logs.items():
        (folder / name).write_bytes(data)
    found = sorted(one.summary for one in audit_files(folder.iterdir()).findings)
    assert len(found) >= 2
    return found


def halves(data: bytes) -> tuple[bytes, bytes]:
    """A log in two, at a line."""
    at = data.index(b"\n", len(data) // 2) + 1
    return data[:at], data[at:]


def begin(followed: Followed, logs: dict[str, bytes]) -> bytes:
    """The first half of what B says, and all of A, are read; gives the second half."""
    first, second = halves(logs["B.log"])
    (followed.logs / "A.log").write_bytes(logs["A.log"])
    (followed.logs / "B.log").write_bytes(first)
    followed.run()
    return second


def test_a_file_that_grows(followed: Followed, logs: dict[str, bytes], expected: list[str]) -> None:
    """Also by half a line, which is read when the rest of it comes, or when the file stands still."""
    second = begin(followed, logs)
    for start in range(0, len(second), 1 + len(second) // 7):
        with (followed.logs / "B.log").open("ab") as out:
            out.write(second[start : start + 1 + len(second) // 7])
        followed.run()
    assert followed.found == expected


def test_a_file_that_is_rotated_by_its_name(followed: Followed, logs: dict[str, bytes], expected: list[str]) -> None:
    """Twice, while other files rotate as well: no line is read twice and none is lost."""
    second = begin(followed, logs)
    (followed.logs / "B.log").rename(followed.logs / "B.log.1")
    first, rest = halves(second)
    (followed.logs / "B.log").write_bytes(first)
    followed.run()
    (followed.logs / "B.log.1").rename(followed.logs / "B.log.2")
    (followed.logs / "B.log").rename(followed.logs / "B.log.1")
    (followed.logs / "B.log").write_bytes(rest)
    followed.run()
    assert followed.found == expected
    assert not followed.happened


def test_a_file_that_is_rotated_by_copying(followed: Followed, logs: dict[str, bytes], expected: list[str]) -> None:
    """The copy is known by how it begins, and what stands in the file from then on is new."""
    second = begin(followed, logs)
    shutil.copy(followed.logs / "B.log", followed.logs / "B.log.1")
    (followed.logs / "B.log").write_bytes(b"")
    followed.run()
    (followed.logs / "B.log").write_bytes(second)
    followed.run()
    assert followed.found == expected
    assert not followed.happened


def test_a_file_that_is_rotated_and_packed(followed: Followed, logs: dict[str, bytes], expected: list[str]) -> None:
    """Its lines count once."""
    second = begin(followed, logs)
    (followed.logs / "B.log.1.gz").write_bytes(gzip.compress((followed.logs / "B.log").read_bytes()))
    (followed.logs / "B.log").unlink()
    (followed.logs / "B.log").write_bytes(second)
    followed.run()
    assert followed.found == expected


@pytest.mark.parametrize("name", ["B.log.1", "B-2026-11-21.log"])
def test_a_copy_that_is_still_written(
    followed: Followed, logs: dict[str, bytes], expected: list[str], name: str
) -> None:
    """Seen empty, in part and whole before its original is emptied: its lines count once, and nothing is told of it."""
    second = begin(followed, logs)
    whole = (followed.logs / "B.log").read_bytes()
    for size in (0, 40, len(whole) // 3, len(whole) // 2, len(whole)):
        (followed.logs / name).write_bytes(whole[:size])
        followed.look()
    (followed.logs / "B.log").write_bytes(b"")
    followed.run()
    (followed.logs / "B.log").write_bytes(second)
    followed.run()
    assert followed.found == expected
    assert not followed.happened
    assert not followed.amiss


def test_a_packed_copy_that_is_still_written(followed: Followed, logs: dict[str, bytes], expected: list[str]) -> None:
    """The same of what gzip writes beside the file that it then removes."""
    second = begin(followed, logs)
    (followed.logs / "B.log").rename(followed.logs / "B.log.1")
    (followed.logs / "B.log").write_bytes(second)
    followed.run()
    packed = gzip.compress((followed.logs / "B.log.1").read_bytes())
    for size in (0, 10, len(packed) // 2, len(packed)):
        (followed.logs / "B.log.1.gz").write_bytes(packed[:size])
        followed.look()
    (followed.logs / "B.log.1").unlink()
    followed.run()
    assert followed.found == expected
    assert not followed.happened
    assert not followed.amiss


def test_a_copy_that_stands_still_is_read_as_one(followed: Followed, logs: dict[str, bytes]) -> None:
    """As the batch audit reads it. When its original goes later it takes that one's place."""
    begin(followed, logs)
    once = followed.found
    shutil.copy(followed.logs / "B.log", followed.logs / "B.log.1")
    followed.run()
    assert followed.found == sorted(one.summary for one in audit_files(followed.logs.iterdir()).findings)
    assert any("as if a log had been collected twice" in told for told in followed.found)
    (followed.logs / "B.log").unlink()
    followed.run()
    assert followed.found == once
    assert not followed.happened


def test_a_rotation_in_the_middle_of_a_look(followed: Followed, logs: dict[str, bytes], expected: list[str]) -> None:
    """What was listed is emptied, or another file by now, and where it went was not listed: that is seen later."""
    second = begin(followed, logs)
    listed = sources.look([followed.logs])[0]
    (followed.logs / "B.log").rename(followed.logs / "B.log.1")
    (followed.logs / "B.log").write_bytes(second)
    followed.batches.run(listed)
    followed.run()
    assert followed.found == expected


def test_a_file_whose_beginning_others_share(followed: Followed, logs: dict[str, bytes], expected: list[str]) -> None:
    """A banner makes no rotation of a new file, and no copy: what follows it is read."""
    banner = b"#" * 600 + b"\n"
    (followed.logs / "A.log").write_bytes(logs["A.log"])
    first, second = halves(logs["B.log"])
    (followed.logs / "B.log.1").write_bytes(banner + first)
    (followed.logs / "B.log").write_bytes(banner)
    followed.run()
    (followed.logs / "B.log").write_bytes(banner + second)
    followed.run()
    assert followed.found == expected
    (followed.logs / "B.log.1").unlink()
    followed.run()
    assert followed.found == expected


def test_a_file_that_is_packed_before_it_is_read(
    followed: Followed, logs: dict[str, bytes], expected: list[str]
) -> None:
    """Its lines are read from what it was packed into."""
    second = begin(followed, logs)

    def pack() -> None:
        data = (followed.logs / "B.log").read_bytes()
        (followed.logs / "B.log.1.gz").write_bytes(gzip.compress(data))
        (followed.logs / "B.log").unlink()

    followed.meanwhile = pack
    with (followed.logs / "B.log").open("ab") as out:
        out.write(second)
    followed.run()
    assert followed.found == expected
    assert not followed.happened


@pytest.mark.parametrize("magic", [b"ustar", b""])
def test_a_tar_is_no_text(followed: Followed, logs: dict[str, bytes], magic: bytes) -> None:
    """It is refused as one that is compressed; one of before POSIX is told by its checksum."""
    head = tarfile.TarInfo("B.log")
    head.size = len(logs["B.log"])
    data = bytearray(head.tobuf(tarfile.USTAR_FORMAT))
    data[257:265] = magic.ljust(8, b"\0")
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data)
    (followed.logs / "B.tar").write_bytes(bytes(data) + logs["B.log"])
    followed.run()
    (summary,) = followed.batches.kept.summaries(followed.batches.offsets)
    assert summary.error == "an archive of tar; unpack it first"


def test_files_that_are_cut_and_gone_are_bounded(
    followed: Followed, logs: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """How far they were read, and the names that they are told by."""
    monkeypatch.setattr(plan, "MOST_GONE", 5)
    first, _ = halves(logs["B.log"])
    for number in range(12):
        (followed.logs / "B.log").write_bytes(b"# run %d\n" % number + first)
        followed.run()
    names = list(followed.batches.offsets)
    assert len(names) == 6
    assert max(map(len, names)) <= len(str(followed.logs / "B.log")) + len(".10.0")


def test_a_file_that_is_cut(followed: Followed, logs: dict[str, bytes], expected: list[str]) -> None:
    """What it held before stands under a name of its own, and a finding says so."""
    second = begin(followed, logs)
    os.truncate(followed.logs / "B.log", 0)
    followed.run()
    with (followed.logs / "B.log").open("ab") as out:
        out.write(second)
    followed.run()
    assert followed.found == expected
    (told,) = followed.happened
    assert "B.log was replaced or cut while it was followed: what it held before is told as " in told


def test_a_file_that_is_replaced(followed: Followed, logs: dict[str, bytes], expected: list[str]) -> None:
    """By a larger one in the same place on the disk: it is known by how it begins."""
    second = begin(followed, logs)
    with (followed.logs / "B.log").open("r+b") as out:
        out.write(second + b"\n" * len(logs["B.log"]))
    followed.run()
    assert followed.found == expected
    assert len(followed.happened) == 1


def test_a_file_that_goes_and_comes_back(followed: Followed, logs: dict[str, bytes], expected: list[str]) -> None:
    """What was read of it stands, it is said once, and it goes on where it was."""
    second = begin(followed, logs)
    before = followed.found
    (followed.logs / "B.log").rename(followed.logs.parent / "away.log")
    followed.run()
    assert followed.found == before
    assert [told.partition(" while")[0] for told in followed.happened] == [f"{followed.logs / 'B.log'} is gone"]
    (followed.logs.parent / "away.log").rename(followed.logs / "B.log")
    with (followed.logs / "B.log").open("ab") as out:
        out.write(second)
    followed.run()
    assert followed.found == expected


def test_a_file_that_is_rotated_before_it_is_read(
    followed: Followed, logs: dict[str, bytes], expected: list[str]
) -> None:
    """Its lines are read where they are by then, and not those that stand under its old name."""
    second = begin(followed, logs)
    first, rest = halves(second)
    file = followed.logs / "B.log"

    def rotate() -> None:
        file.rename(followed.logs / "B.log.1")
        file.write_bytes(rest + b"\n" * len(logs["B.log"]))

    followed.meanwhile = rotate
    with file.open("ab") as out:
        out.write(first)
    followed.run()
    assert followed.meanwhile is None
    assert followed.found == expected
    assert not followed.happened


def test_a_file_that_goes_before_it_is_read(followed: Followed, logs: dict[str, bytes]) -> None:
    """It is said what was not read, and what was read before stands."""
    second = begin(followed, logs)
    before = followed.found
    followed.meanwhile = (followed.logs / "B.log").unlink
    with (followed.logs / "B.log").open("ab") as out:
        out.write(second)
    followed.run()
    assert followed.found == before
    assert any("were not read" in told for told in followed.happened)


def test_a_clock_that_jumps(followed: Followed, logs: dict[str, bytes]) -> None:
    """Lines that are an hour older than those before are a finding, the same as in the batch audit."""
    second = begin(followed, logs).replace(b"2026-11-21 07:", b"2026-11-21 06:")
    with (followed.logs / "B.log").open("ab") as out:
        out.write(second)
    followed.run()
    once = sorted(one.summary for one in audit_files(followed.logs.iterdir()).findings)
    assert followed.found == once
    assert any("its clock was set back" in told for told in once)


def test_a_copy_of_a_topic_that_was_read_and_removed_is_not_said(followed: Followed, logs: dict[str, bytes]) -> None:
    """What was read of it stands."""
    copies = followed.out / "checkpoint" / "topics" / "h+1+t"
    copies.mkdir(parents=True)
    for name, data in logs.items():
        (copies / name).write_bytes(data)

    def run() -> None:
        found = [sources.Source(path, str(path), "", path.stat().st_size) for path in sorted(copies.iterdir())]
        followed.batches.run(found)

    run()
    before = followed.found
    (copies / "B.log").unlink()
    run()
    assert before
    assert followed.found == before
    assert not followed.happened


def test_nothing_new_is_no_batch(followed: Followed, logs: dict[str, bytes]) -> None:
    """Nor is a folder that is empty."""
    assert followed.batches.run(sources.look([followed.logs])[0]) is None
    begin(followed, logs)
    assert followed.batches.run(sources.look([followed.logs])[0]) is None


def test_offsets_are_plain_values(followed: Followed, logs: dict[str, bytes]) -> None:
    """As Spark keeps them, in JSON."""
    begin(followed, logs)
    offsets = plan.advance({}, sources.look([followed.logs])[0])
    assert plan.from_json(json.loads(json.dumps(plan.to_json(offsets)))) == offsets


def test_a_group_of_which_nothing_comes_any_more_leaves_the_page(
    followed: Followed, logs: dict[str, bytes], expected: list[str]
) -> None:
    """What was found in it is closed and stays written; another group goes on."""
    for name, data in logs.items():
        (followed.logs / name).write_bytes(data)
    followed.run()
    pages = set((followed.out / "report").glob("*.js"))
    assert pages
    later_ms = followed.batches.now_ms() + followed.batches.followed.follow.expire_ms + 1
    followed.batches.now_ms = lambda: later_ms
    (followed.logs / "C.log").write_bytes(logs["A.log"].replace(b"j07-maxpoll", b"another"))
    followed.run()
    assert pages.isdisjoint((followed.out / "report").glob("*.js"))
    assert set(expected) <= set(followed.found)
    assert {one["status"] for one in written(followed.out) if one["group"] == "g-j07-maxpoll"} == {"opened", "closed"}
