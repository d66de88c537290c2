"""Members that go on from where they were: a batch costs what it brings, and the findings are the batch audit's."""

from __future__ import annotations

import pickle
import re
import zlib
from itertools import pairwise
from pathlib import Path

import pytest
import recordings
from followed import ARCHIVES, EVERY, Live, by_time, found_at_once, growth, scenarios

from fsm.audit.findings import FindingKind
from fsm.audit.live import blobs
from fsm.audit.live.group_state import GroupState
from fsm.audit.member.member_follower import MemberFollower
from fsm.audit.rows import Place

LATE_MS = 2000
STEPS = 15


@pytest.mark.parametrize(
    "archive", ["librdkafka", "old", *(pytest.param(one, marks=pytest.mark.deep) for one in ("java", "client"))]
)
@pytest.mark.loop(1)
def test_records_are_dropped_and_the_findings_are_those_of_the_batch_audit(archive: str, tmp_path: Path) -> None:
    """Where the lines of all files come as they were printed."""
    assert judge(scenarios(archive, tmp_path)[::EVERY]) > 0


@pytest.mark.slow
@pytest.mark.parametrize("archive", ARCHIVES)
def test_that_holds_on_every_recording(archive: str, tmp_path: Path) -> None:
    """The same for all of them."""
    assert judge(scenarios(archive, tmp_path)) > 5


def judge(chosen: list[recordings.Scenario]) -> int:
    """Follows each recording and compares; gives of how many some records were dropped."""
    count = 0
    for scenario in chosen:
        live, logs = Live(late_ms=LATE_MS), scenario.logs
        for live.now_ms, batch in by_time(logs, STEPS):
            live.read(*batch)
        live.read(*(growth(path, path.stat().st_size) for path in logs))
        assert live.found == found_at_once(logs), scenario.name
        count += any(not one.is_whole for state in groups(live) for one in state.members)
    return count


def groups(live: Live) -> list[GroupState]:
    """What is kept of each group."""
    return [blobs.unpack(data) for key, data in live.groups.items() if not key.startswith("\0")]


def files(name: str, folder: Path) -> dict[str, Path]:
    """The logs of a recording of Java clients."""
    found = {}
    for file, data in recordings.logs("java")[name].items():
        found[file] = folder / file
        found[file].write_bytes(data)
    return found


def follow(live: Live, logs: list[Path], steps: int = STEPS) -> None:
    """All that files hold, as it was printed."""
    for live.now_ms, batch in by_time(logs, steps):
        live.read(*batch)
    live.read(*(growth(path, path.stat().st_size) for path in logs))


def test_a_batch_takes_the_records_that_it_brings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many came before: each is taken twice at most, on the average."""
    taken = []
    see = MemberFollower.see
    monkeypatch.setattr(MemberFollower, "see", lambda self, seen, **more: taken.append(1) or see(self, seen, **more))
    logs = list(files("j07_maxpoll", tmp_path).values())
    follow(Live(late_ms=LATE_MS), logs, 60)
    often = len(taken)
    taken.clear()
    found_at_once(logs)
    assert often < 2.5 * len(taken)


def test_what_is_kept_does_not_grow_with_what_was(tmp_path: Path) -> None:
    """The members of a group do the same again and again, every five minutes, and each time it is found."""
    logs = files("j07_maxpoll", tmp_path)
    data = {path: path.read_bytes() for path in logs.values()}
    for path in data:
        path.write_bytes(b"")
    live = Live(late_ms=LATE_MS, settle_ms=60_000)
    sizes = []
    for number in range(9):
        for part in (1, 2):
            for path, said in data.items():
                half = said.index(b"\n", len(said) // 2) + 1
                with path.open("ab") as out:
                    out.write(later(said[:half] if part == 1 else said[half:], 5 * number))
            live.read(*(growth(path, path.stat().st_size) for path in data))
        sizes.append(len(live.groups["g-j07-maxpoll"]))
    assert max(sizes[5:]) < 1.2 * max(sizes[1:5])
    lost = sorted(one.start_ms for one in live.found if one.kind is FindingKind.PARTITIONS_LOST)
    assert {after - before for before, after in pairwise(lost)} == {300_000}
    assert len(lost) == len(sizes)
    (state,) = (one for one in groups(live) if one.key == "g-j07-maxpoll")
    assert len(state.versions) < len(live.found) / 2


@pytest.mark.deep
def test_files_of_long_ago_are_forgotten(tmp_path: Path) -> None:
    """A log that is rotated again and again: what its member's files tell is kept for as long as members are."""
    logs = files("j07_maxpoll", tmp_path)
    data = {path: path.read_bytes() for path in logs.values()}
    live = Live(late_ms=LATE_MS, settle_ms=60_000, expire_ms=1_200_000)
    many, sizes = [], []
    for number in range(12):
        for path, said in data.items():
            path.write_bytes(later(said, 5 * number))
        live.read(*(growth(path, path.stat().st_size) for path in data))
        for path in data:
            older = path.rename(f"{path}.2026-11-21-{number:02}00")
            live.read(growth(older, older.stat().st_size, was=str(path)))
        (state,) = (one for one in groups(live) if one.key == "g-j07-maxpoll")
        many.append(sum(map(len, (member.sources for member in state.members))))
        sizes.append(len(live.groups["g-j07-maxpoll"]))
    assert max(many) == many[5] == many[-1]
    assert sizes[-1] < 1.2 * sizes[6]
    assert len([one for one in live.found if one.kind is FindingKind.PARTITIONS_LOST]) == len(many)


def later(said: bytes, minutes: int) -> bytes:
    """The same lines so much later, by their stamps."""

    def move(found: re.Match[bytes]) -> bytes:
        minute = int(found[1]) * 60 + int(found[2]) + minutes
        return b"%02d:%02d" % (minute // 60, minute % 60)

    return re.sub(rb"(?<=2026-11-21[ T])(\d\d):(\d\d)", move, said)


def test_a_line_that_is_late_is_taken_in_its_place(tmp_path: Path) -> None:
    """A second file of the same member comes with every batch, but later than the first."""
    first, second = split(tmp_path)
    live = Live(late_ms=20_000)
    for live.now_ms, batch in by_time([first], STEPS):
        live.read(
            *batch, growth(second, max(1, second.stat().st_size * (batch[0].size - 2000) // first.stat().st_size))
        )
    live.read(growth(first, first.stat().st_size), growth(second, second.stat().st_size))
    assert live.found == found_at_once([first, second])


def test_a_line_that_is_too_late_is_counted_and_left_out(tmp_path: Path) -> None:
    """It is said once, with the first of them."""
    first, second = split(tmp_path)
    live = Live(late_ms=1000)
    follow(live, [first])
    live.read(growth(second, second.stat().st_size))
    (late,) = (one for one in live.found if "judged for good" in one.summary)
    assert late.kind is FindingKind.UNPARSED_LINES
    assert late.summary[0].isdigit()
    assert late.evidence[0].file == str(second)
    assert late.evidence[0].text


@pytest.mark.parametrize("minutes", [-60, 60])
def test_a_clock_that_is_set_back_blinds_nobody(minutes: int, tmp_path: Path) -> None:
    """A member that was ahead, or is late from there on by an hour, is followed anew, and found to lose partitions."""
    logs = files("j07_maxpoll", tmp_path)
    path = logs["B.log"]
    first = path.read_bytes()
    path.write_bytes(first if minutes < 0 else later(first, minutes))
    live = Live(late_ms=LATE_MS)
    follow(live, [path])
    lost = [one.start_ms for one in live.found if one.kind is FindingKind.PARTITIONS_LOST]
    with path.open("ab") as out:
        out.write(later(first, minutes) if minutes < 0 else first)
    for size in (path.stat().st_size - len(first) // 2, path.stat().st_size):
        live.read(growth(path, size))
    again = [one.start_ms for one in live.found if one.kind is FindingKind.PARTITIONS_LOST]
    assert sorted(again) == sorted([*lost, *(ms - abs(minutes) * 60_000 for ms in lost)])
    (back,) = (one for one in live.found if "went back by" in one.summary)
    assert back.evidence[0].text
    assert not any("judged for good" in one.summary for one in live.found)


def split(folder: Path) -> tuple[Path, Path]:
    """The log of one member, dealt out to two files."""
    lines = recordings.logs("java")["j07_maxpoll"]["B.log"].splitlines(keepends=True)
    paths = folder / "part-0.log", folder / "part-1.log"
    for number, path in enumerate(paths):
        path.write_bytes(b"".join(lines[number::2]))
    return paths


def test_a_file_that_is_rotated_goes_on_under_its_new_name(tmp_path: Path) -> None:
    """Also in what is kept of its member, of which records were dropped by then."""
    logs = files("j07_maxpoll", tmp_path)
    data = logs["B.log"].read_bytes()
    half = data.index(b"\n", len(data) // 2) + 1
    older = tmp_path / "B.log.1"
    logs["B.log"].write_bytes(data[:half])
    live = Live(late_ms=LATE_MS)
    follow(live, [logs["B.log"]])
    logs["B.log"].rename(older)
    logs["B.log"].write_bytes(data[half:])
    live.read(growth(older, half, was=str(logs["B.log"])))
    follow(live, list(logs.values()))
    assert live.found == found_at_once([*logs.values(), older])
    assert not any(one.is_whole for state in groups(live) for one in state.members if one.key.member.endswith("-B"))


def test_a_member_keeps_its_name_when_another_one_has_its_client_id(tmp_path: Path) -> None:
    """Where some of its records were dropped; the other one is called by its file."""
    logs = files("i_j07_maxpoll", tmp_path)
    live = Live(late_ms=500)
    follow(live, [logs["A.log"]])
    (name,) = (one.key.member for state in groups(live) for one in state.members)
    live.read(growth(logs["B.log"], logs["B.log"].stat().st_size))
    assert {one.key.member for state in groups(live) for one in state.members} == {name, f"{name} (B.log)"}


def test_a_file_that_turns_out_to_hold_two_members_is_followed_anew(tmp_path: Path) -> None:
    """What its first process did stands under its name; from there on the two are told apart."""
    logs = files("i_j07_maxpoll", tmp_path)
    live, both = Live(late_ms=500), logs["A.log"]
    follow(live, [both])
    first = [one for one in live.found if one.kind is not FindingKind.UNOWNED_PARTITION]
    with both.open("ab") as out:
        out.write(logs["B.log"].read_bytes())
    live.read(growth(both, both.stat().st_size))
    assert {one.key.shared for state in groups(live) for one in state.members} == {False, True}
    assert {one.id for one in first} <= {one.id for one in live.found}


def test_only_the_audits_own_classes_are_loaded() -> None:
    """A checkpoint that names others is refused, and values come back with the lines that they name."""
    place = Place("a.log", 7)
    lines: blobs.Lines = {}
    assert blobs.load(blobs.dump([place], {place: (3, "text"), ("b.log", 1): (1, "other")}), lines) == [place]
    assert lines == {place: (3, "text")}
    with pytest.raises(Exception, match="no part of what is kept"):
        blobs.load(blobs.dump([Path("x")], {}), {})
    for name in ("fsm.audit.live.blobs", "io.open"), ("fsm.audit.live.blobs", "zlib.compress"), ("os", "system"):
        by_name = b"\x80\x04" + b"".join(b"\x8c" + bytes([len(one)]) + one.encode() for one in name) + b"\x93."
        with pytest.raises(pickle.UnpicklingError):
            blobs.load(zlib.compress(by_name), {})
