"""`fsm audit` in this process: what is known is left out, and the files that other tools read."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import recordings

from fsm import cli
from fsm.cli.broker_lag import read_broker_lag
from fsm.protocol.messages import (
    FindCoordinatorRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from fsm.testing import LiveBroker
from fsm.wire import Connection


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A group with one incident, and another one with two processes that have one instance id."""
    folder = tmp_path_factory.mktemp("logs")
    for scenario in ("j07_maxpoll", "x05_range_fenced_static"):
        write(folder / scenario, recordings.logs("java")[scenario])
    return folder


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    """A folder of files."""
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)


def audit(capsys: pytest.CaptureFixture[str], logs: Path, out: Path, *more: str | Path) -> tuple[int, str, str]:
    """Exit status and what was printed."""
    status = cli.main(["audit", str(logs), "-o", str(out), "--master", "none", *map(str, more)])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def document(out: Path) -> dict[str, Any]:
    """The document of a result."""
    found: dict[str, Any] = json.loads((out / "audit.json").read_text())
    return found


# -- incidents --------------------------------------------------------------------------------------------------


def test_a_single_finding_is_told_with_its_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the sentence does not tell the value, the line below it does; the finding is not told twice."""
    write(tmp_path / "logs", recordings.logs("java")["j42_close_while_stale"])
    status, out, _ = audit(capsys, tmp_path / "logs", tmp_path / "out")
    assert status == 1
    (sentence, when, place) = out.splitlines()[2:5]
    assert sentence.startswith(
        "error: g-j42-close-while-stale: g-j42-close-while-stale-B and g-j42-close-while-stale-A "
    )
    assert re.fullmatch(r"  from \S+ \S+ to \S+ UTC; max\.poll\.interval\.ms is 3000; to try: Let every poll .*", when)
    assert re.fullmatch(r"  .*/logs/B\.log:\d+", place)


# -- baselines --------------------------------------------------------------------------------------------------


def test_what_is_known_is_counted_and_not_told(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Against the audit of the same logs nothing is left, and the exit status says so."""
    status, _, _ = audit(capsys, logs, tmp_path / "first")
    assert status == 1
    status, out, _ = audit(capsys, logs, tmp_path / "second", "--baseline", tmp_path / "first")
    assert status == 0
    assert out.splitlines()[1:3] == ["  nothing found", "known by the baseline, and not told: 13 findings"]
    found = document(tmp_path / "second")
    assert (found["findings"], found["incidents"], found["inputs"]["known_findings"]) == ([], [], 13)
    assert len(document(tmp_path / "first")["findings"]) == 13


def test_what_is_new_is_told(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The id of an incident stands for its findings; the exit status is that of the rest."""
    audit(capsys, logs, tmp_path / "first")
    static, polls = sorted(document(tmp_path / "first")["incidents"], key=lambda one: -len(one["findings"]))
    known = tmp_path / "known.txt"
    known.write_text(f"{static['id']}  # until the deployment is repaired\n")
    status, out, _ = audit(capsys, logs, tmp_path / "second", "--baseline", known)
    assert status == 1
    assert "known by the baseline, and not told: 11 findings" in out
    assert document(tmp_path / "second")["incidents"] == [polls]


def test_a_bad_baseline_is_refused_before_anything_is_read(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, exit status 2, no result."""
    (tmp_path / "bad").write_text("what?\n")
    status, out, err = audit(capsys, logs, tmp_path / "out", "--baseline", tmp_path / "bad")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"{tmp_path}/bad:1: 'what?' is not an id" in err
    assert not (tmp_path / "out").exists()


# -- other tools ------------------------------------------------------------------------------------------------


def test_forms_of_other_tools_hold_what_the_document_holds(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A failed case for each incident, a result for each finding."""
    forms = ("--junit", tmp_path / "ci" / "junit.xml", "--sarif", tmp_path / "found.sarif")
    status, _, _ = audit(capsys, logs, tmp_path / "out", *forms)
    assert status == 1
    found = document(tmp_path / "out")
    suites = ET.parse(tmp_path / "ci" / "junit.xml").getroot()  # noqa: S314  our own
    assert sorted(case.get("name", "").split()[-1] for case in suites.iter("testcase") if len(case)) == sorted(
        one["id"] for one in found["incidents"]
    )
    results = json.loads((tmp_path / "found.sarif").read_text())["runs"][0]["results"]
    assert {one["partialFingerprints"]["findingId/v1"] for one in results} == {one["id"] for one in found["findings"]}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ci", "found.sarif", "out"]


@pytest.mark.parametrize("form", ["--junit", "--sarif"])
def test_a_form_that_cannot_be_written(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    """One line, exit status 2; the result is there."""
    (tmp_path / "file").write_text("")
    status, out, err = audit(capsys, logs, tmp_path / "out", form, tmp_path / "file" / "x")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "file/x: cannot be written: " in err
    assert (tmp_path / "out" / "audit.json").exists()


# -- lag --------------------------------------------------------------------------------------------------------

GAP_MS = 1_795_221_058_016, 1_795_221_064_658
"""When nobody owned t1-[4, 5, 6, 7] in the recording."""
STAMP = re.compile(rb"\|(\d{10}\.\d{3})\|")
GROUP = "g1"


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """Logs of a group with that gap."""
    write_group(tmp_path / "group", 0)
    return tmp_path / "group"


def write_group(folder: Path, later_ms: int) -> None:
    """The logs as if all had happened later."""
    logs = recordings.logs("librdkafka")["x04_range_static"]

    def move(data: bytes) -> bytes:
        return STAMP.sub(lambda found: b"|%.3f|" % (float(found[1]) + later_ms / 1000), data)

    write(folder, {name: move(data) for name, data in logs.items()})


def unowned(out: Path) -> dict[str, Any]:
    """The finding about that gap."""
    (found,) = (one for one in document(out)["findings"] if ["t1", 4] in one["partitions"])
    return found


def test_what_piled_up_stands_beside_the_time_without_owner(
    group: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the finding, in the sentence of its incident and on the terminal, from and to."""
    lags = ((GAP_MS[0] - 3000, 5), (GAP_MS[0] + 3000, 400), (GAP_MS[1] + 3000, 905))
    lines = ({"ts_ms": t, "group": GROUP, "topic": "t1", "partition": n, "lag": lag} for t, lag in lags for n in (4, 5))
    (tmp_path / "lag.jsonl").write_text("\n".join(map(json.dumps, lines)))
    _, out, _ = audit(capsys, group, tmp_path / "out", "--lag", tmp_path / "lag.jsonl")
    found = unowned(tmp_path / "out")
    assert found["piled_up"] == 1800
    expected = "; 1,800 records piled up, from a lag of 10 at 00:30:55 to 1,810 at 00:31:07 UTC"
    assert found["summary"].endswith(expected)
    (incident,) = (one for one in document(tmp_path / "out")["incidents"] if found["id"] in one["findings"])
    assert "had no owner for up to 6.6 s, and 1,800 records piled up" in incident["sentence"]
    assert incident["sentence"] in out


def test_a_broker_is_asked_for_the_lag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a gap that ended just now: committed offsets against the ends of logs, over real connections."""
    with LiveBroker({"t1": 8}, records_a_second=200.0, brokers=2) as broker:
        client = Connection("127.0.0.1", broker.port, "test")
        coordinator = client.call(FindCoordinatorRequest(coordinator_keys=(GROUP,))).coordinators[0]
        commit = Connection(coordinator.host, coordinator.port, "test")
        offsets = tuple(OffsetCommitRequestPartition(number, 0) for number in (4, 5))
        response = commit.call(OffsetCommitRequest(GROUP, topics=(OffsetCommitRequestTopic("t1", partitions=offsets),)))
        assert not response.errors
        write_group(tmp_path / "group", int(time.time() * 1000) - GAP_MS[1])
        asked = "--lag-from", f"127.0.0.1:{broker.port}"
        audit(capsys, tmp_path / "group", tmp_path / "out", *asked, "--group", GROUP)
        lag = read_broker_lag("127.0.0.1", broker.port, [GROUP], now_s=lambda: 9.0)
        client.close()
        commit.close()
    found = re.search(r"; their lag was ([\d,]+) at \d\d:\d\d:\d\d UTC$", unowned(tmp_path / "out")["summary"])
    assert found is not None
    assert int(found[1].replace(",", "")) > 0
    assert sorted(lag[GROUP]) == [("t1", 4), ("t1", 5)]
    assert all(one.ts_ms == 9000 and one.lag > 0 for own in lag[GROUP].values() for one in own)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--lag=gone.txt", "gone.txt: the lag cannot be read: No such file"),
        ("--lag=empty.txt", "empty.txt: holds no lag; give what kafka-consumer-groups --describe prints"),
        ("--lag-from=nowhere", "--lag-from: must be HOST:PORT, not 'nowhere'"),
        ("--lag-from=127.0.0.1:1", "--lag-from 127.0.0.1:1: 127.0.0.1:1: cannot connect: "),
    ],
)
def test_lag_that_cannot_be_had(
    group: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, option: str, message: str
) -> None:
    """One line, exit status 2, no result."""
    monkeypatch.chdir(group.parent)
    Path("empty.txt").write_text("")
    status, out, err = audit(capsys, group, Path("out"), option)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not Path("out").exists()


@pytest.mark.parametrize("option", ["--junit=a.xml", "--sarif=a.sarif"])
def test_what_a_followed_audit_does_not_write(
    group: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    """It is refused, and nothing is begun."""
    status, out, err = audit(capsys, group, tmp_path / "out", "--follow", option)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"{option.partition('=')[0]}: is not for --follow" in err
    assert not (tmp_path / "out").exists()
