"""Files that grow and groups that are judged again: after the last line the findings are the batch audit's."""

from __future__ import annotations

from pathlib import Path

import pytest
import recordings
from followed import ARCHIVES, EVERY, LATER_MS, Live, by_time, cut, found_at_once, growth, scenarios

from fsm.audit.findings import with_ids
from fsm.audit.live import blobs
from fsm.audit.live.changes import Status, compare, from_json
from fsm.audit.reading import unparsed


@pytest.mark.parametrize(
    "archive", ["librdkafka", "old", *(pytest.param(name, marks=pytest.mark.deep) for name in ("java", "client"))]
)
def test_after_the_last_line_the_findings_are_those_of_the_batch_audit(archive: str, tmp_path: Path) -> None:
    """However the lines were cut into batches: in the middle of an entry, of a line, of a character."""
    judge(scenarios(archive, tmp_path)[::EVERY])


@pytest.mark.slow
@pytest.mark.parametrize("archive", ARCHIVES)
def test_that_holds_on_every_recording(archive: str, tmp_path: Path) -> None:
    """The same for all of them."""
    assert judge(scenarios(archive, tmp_path)) > 10


def judge(chosen: list[recordings.Scenario]) -> int:
    """Follows each recording and compares; gives how many findings there were."""
    count = 0
    for scenario in chosen:
        live, logs = Live(), scenario.logs
        for batch in cut(logs, scenario.name):
            live.read(*batch)
        assert live.found == found_at_once(logs), scenario.name
        count += len(live.found)
    return count


# -- what happens to files ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def maxpoll() -> dict[str, bytes]:
    """A recording in which two members own partitions at once."""
    return recordings.logs("java")["j07_maxpoll"]


def test_a_file_keeps_what_it_told_under_the_name_that_rotation_gives_it(
    maxpoll: dict[str, bytes], tmp_path: Path
) -> None:
    """The members and findings are those of the batch audit of the rotated files."""
    lines = maxpoll["B.log"].splitlines(keepends=True)
    half = len(lines) // 2
    a, b, older = tmp_path / "A.log", tmp_path / "B.log", tmp_path / "B.log.1"
    a.write_bytes(maxpoll["A.log"])
    b.write_bytes(b"".join(lines[:half]))
    live = Live()
    live.read(growth(a, a.stat().st_size), growth(b, b.stat().st_size))
    b.rename(older)
    b.write_bytes(b"".join(lines[half:]))
    live.read(growth(older, older.stat().st_size, was=str(b)), growth(b, b.stat().st_size))
    assert live.found == found_at_once([a, b, older])
    assert any("B.log.1" in line.file for one in live.found for line in one.evidence)


def test_what_a_file_told_is_kept_when_it_is_gone(maxpoll: dict[str, bytes], tmp_path: Path) -> None:
    """Nothing that was read is lost, and that it is gone is a finding of its own."""
    paths = []
    for name in ("A.log", "B.log"):
        paths.append(tmp_path / name)
        paths[-1].write_bytes(maxpoll[name])
    live = Live()
    live.read(*(growth(path, path.stat().st_size) for path in paths))
    before = live.found
    size = growth(paths[1], paths[1].stat().st_size)
    paths[1].unlink()
    live.read(size._replace(over=True, note="it is gone"))
    (gone,) = [one for one in live.found if one not in before]
    assert gone.summary == "it is gone"
    assert all(one in live.found for one in before)


def test_a_layout_that_is_learned_late_counts_from_the_first_line(tmp_path: Path) -> None:
    """What was read as lines of nobody is read again, and what was told of it is withdrawn."""
    logs = recordings.logs("client")
    name = next(one for one in sorted(logs) if "aiokafka" in one or "kafkajs" in one)
    paths = []
    for file, data in logs[name].items():
        paths.append(tmp_path / file)
        paths[-1].write_bytes(data)
    live = Live()
    for path in paths:
        for size in (40, 400, 4000, path.stat().st_size):
            live.read(growth(path, min(size, path.stat().st_size)))
    assert live.found == found_at_once(paths)


# -- versions -------------------------------------------------------------------------------------------------


def test_versions_of_a_finding_rise_by_one(maxpoll: dict[str, bytes], tmp_path: Path) -> None:
    """It is opened first, keeps its id, and no version is told twice."""
    paths = []
    for name in ("A.log", "B.log"):
        paths.append(tmp_path / name)
        paths[-1].write_bytes(maxpoll[name])
    live = Live()
    for part in range(1, 41):
        live.read(*(growth(path, path.stat().st_size * part // 40) for path in paths))
    versions: dict[str, int] = {}
    for one in live.changes:
        assert one.version == versions.get(one.id, 0) + 1
        assert (one.status is Status.OPENED) == (one.version == 1)
        versions[one.id] = 0 if one.status is Status.WITHDRAWN else one.version
    assert max(one.version for one in live.changes) > 2


def test_a_finding_is_closed_when_the_lines_have_gone_on_for_long_enough() -> None:
    """And opened before, though it is over when it is first seen; it is updated, not opened, when it goes on."""
    one = with_ids([unparsed.report_event("a.log", 1000, "it is gone")])[0]
    told, changes = compare({}, [one], 2000)
    assert [change.status for change in changes] == [Status.OPENED, Status.CLOSED]
    told, changes = compare(told, [one], 3000)
    assert not changes
    told, changes = compare(told, [], 3000)
    assert [(change.status, change.version) for change in changes] == [(Status.WITHDRAWN, 3)]
    assert not told


def test_a_change_is_the_same_when_it_was_put_away(maxpoll: dict[str, bytes], tmp_path: Path) -> None:
    """As plain values, and as the JSON that the sink writes, but for offsets."""
    path = tmp_path / "B.log"
    path.write_bytes(maxpoll["B.log"])
    live = Live()
    live.read(growth(path, path.stat().st_size))
    assert live.changes
    for one in live.changes:
        assert blobs.unpack(blobs.pack(one)) == one
        assert from_json(one.to_json()).to_json() == one.to_json()


# -- what expires ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "j03_rolling3",
        *(pytest.param(name, marks=pytest.mark.deep) for name in ("x02_coop_rolling", "m_coop_upgrade_down")),
    ],
)
def test_members_that_are_gone_are_let_go(name: str, tmp_path: Path) -> None:
    """Their records are no longer kept, what was found about them stands, and what is found of others is the same."""
    logs = []
    for file, data in recordings.logs("java")[name].items():
        logs.append(tmp_path / file)
        logs[-1].write_bytes(data)
    live = Live(expire_ms=20_000)
    for live.now_ms, batch in by_time(logs, 40):
        live.read(*batch)
    (kept,) = (blobs.unpack(data) for key, data in live.groups.items() if key.startswith("g-"))
    assert len(kept.files) < len(logs)
    assert kept.expired_ms
    found = {(one.kind, one.member, one.start_ms) for one in live.found if one.group}
    assert found == {(one.kind, one.member, one.start_ms) for one in found_at_once(logs) if one.group}


def test_a_member_whose_clock_is_ahead_lets_nobody_expire(maxpoll: dict[str, bytes], tmp_path: Path) -> None:
    """By a day: the others are as they were."""
    a, b = tmp_path / "A.log", tmp_path / "B.log"
    a.write_bytes(maxpoll["A.log"])
    b.write_bytes(maxpoll["B.log"].replace(b"2026-11-21", b"2026-11-22"))
    live = Live(expire_ms=3_600_000)
    for part in (1, 2, 3):
        live.read(*(growth(path, path.stat().st_size * part // 3) for path in (a, b)))
    assert len(blobs.unpack(live.groups["g-j07-maxpoll"]).files) == 2
    assert live.found == found_at_once([a, b])


def ahead(data: bytes, name: bytes) -> bytes:
    """What B says, as another member says it whose clock is 400 days ahead."""
    return data.replace(b"2026-11-21", b"2027-12-26").replace(b"maxpoll-B", b"maxpoll-" + name)


def follow_with(maxpoll: dict[str, bytes], work: Path, *others: bytes) -> Live:
    """What A and B say is followed as it happens, and `others` beside them whose clocks are ahead."""
    work.mkdir()
    logs = []
    for file in ("A.log", "B.log"):
        logs.append(work / file)
        logs[-1].write_bytes(maxpoll[file])
    live = Live(expire_ms=20_000)
    for live.now_ms, batch in by_time(logs, 20):
        for name in others:
            path = work / f"{name.decode()}.log"
            path.write_bytes(ahead(maxpoll["B.log"][: batch[1].size], name))
            batch.append(growth(path, path.stat().st_size))
        live.read(*batch)
    return live


def test_clocks_that_are_ahead_neither_expire_nor_close_anything(maxpoll: dict[str, bytes], tmp_path: Path) -> None:
    """However many there are: what is found of the members whose clocks are right changes as it does without them."""
    alone = follow_with(maxpoll, tmp_path / "alone")
    beside = follow_with(maxpoll, tmp_path / "beside", b"X", b"Y", b"Z")

    def of_b(live: Live) -> list[tuple[str, str, int]]:
        right = (one for one in live.changes if one.finding.kind == "partitions_lost")
        return [
            (one.status, one.finding.member, one.finding.start_ms) for one in right if one.finding.member[-1] == "B"
        ]

    assert of_b(alone)
    assert of_b(beside) == of_b(alone)
    (kept,) = (blobs.unpack(data) for key, data in beside.groups.items() if key.startswith("g-"))
    assert {Path(name).name for name in kept.files} == {"A.log", "B.log", "X.log", "Y.log", "Z.log"}
    assert kept.expired_ms < beside.now_ms


def test_the_time_of_a_group_is_that_of_its_newest_line_unless_a_clock_is_ahead(
    maxpoll: dict[str, bytes], tmp_path: Path
) -> None:
    """Where all are ahead by hours, they tell the time of another zone: what is over is closed all the same."""
    live = follow_with(maxpoll, tmp_path / "logs")
    (kept,) = (blobs.unpack(data) for key, data in live.groups.items() if key.startswith("g-"))
    newest_ms = kept.reached_ms(LATER_MS)
    assert kept.reached_ms(newest_ms + 1) == newest_ms
    assert newest_ms - 60_000 < kept.reached_ms(newest_ms - 7_200_000) <= newest_ms
    assert kept.reached_ms(newest_ms - 86_400_000) == newest_ms - 86_400_000


def test_a_member_whose_clock_is_late_is_kept_while_it_sends(maxpoll: dict[str, bytes], tmp_path: Path) -> None:
    """By a year; what is found of it stands."""
    logs = []
    for file in ("A.log", "B.log"):
        logs.append(tmp_path / file)
        logs[-1].write_bytes(maxpoll[file])
    live = Live(expire_ms=20_000)
    late = tmp_path / "L.log"
    for live.now_ms, batch in by_time(logs, 20):
        said = maxpoll["B.log"][: batch[1].size]
        late.write_bytes(said.replace(b"2026-11-21", b"2025-11-21").replace(b"maxpoll-B", b"maxpoll-L"))
        live.read(*batch, growth(late, late.stat().st_size))
    assert any(one.member.endswith("-L") and one.kind == "partitions_lost" for one in live.found)
