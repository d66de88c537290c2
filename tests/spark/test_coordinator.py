"""The broker's side beside the clients': evidence, causes, and members whose logs are missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import recordings as recorded
from page_data import groups_of
from pyspark.sql import SparkSession

from fsm.audit import local

from .conftest import Told, as_told, run, without_unparsed

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

TOPIC = "8s1lnmxkSK2e4GljFsdRJw"


def stored(offset: int, type_: int, key: dict[str, object], value: object) -> str:
    """A record of `__consumer_offsets` about the group `alone` as a JSON line."""
    at = {"partition": 0, "offset": offset, "timestamp": 1_795_247_715_932 + 1000 * offset}
    line = {**at, "type": type_, "key": {"groupId": "alone", **key}, "value": value}
    return json.dumps(line, separators=(",", ":"))


def owned(*numbers: int) -> list[dict[str, object]]:
    """Partitions of the only topic."""
    return [{"topicId": TOPIC, "partitions": list(numbers)}]


M = {"memberId": "m"}
STORED = (
    stored(0, 3, {}, {"epoch": 2, "metadataHash": 1}),
    stored(1, 7, M, {"topicPartitions": owned(0, 1)}),
    stored(2, 8, M, {"memberEpoch": 2, "state": 0, "assignedPartitions": owned(0), "partitionsPendingRevocation": []}),
    stored(3, 7, {"memberId": "\u202e" + "x" * 9000}, {"topicPartitions": owned(7)}),
    stored(4, 8, {"memberId": 5}, None),
    stored(9, 3, {}, None),
)
"""A group that no client's log names, with a topic that nothing names, and garbage."""
SCENARIOS = ("i_j09_kill9", "i_j13_dup_instance", "x09_coop_sigstop", "j07_maxpoll")


@pytest.fixture(scope="module")
def both_sides(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clients' logs and the broker's, a folder for each scenario; of one of them a member's log is missing."""
    folder = tmp_path_factory.mktemp("both-sides")
    with recorded.opened(recorded.DATA / "broker-logs.tar.xz") as packed:
        for name in SCENARIOS:
            shutil.copytree(recordings / name, folder / name)
            packed.extract(f"{name}/broker.log", folder)
    (folder / "j07_maxpoll" / "B.log").unlink()
    (folder / "stored.log").write_text("".join(line + "\n" for line in STORED), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the result is written."""
    return tmp_path_factory.mktemp("heard") / "out"


@pytest.fixture(scope="module")
def audited(both_sides: Path, result: Path) -> tuple[Told, dict[str, Told]]:
    """The document of one audit of all of it, and what its report says of each group."""
    return run([both_sides], result), groups_of(result)


def test_the_pipeline_hears_what_one_process_hears(audited: tuple[Told, dict[str, Told]], both_sides: Path) -> None:
    """The same findings, causes, words and lines."""
    expected = local.audit_files(both_sides.rglob("*.log")).findings
    assert without_unparsed(audited[0]["findings"]) == [as_told(one) for one in expected]


def test_the_brokers_lines_are_evidence(audited: tuple[Told, dict[str, Told]]) -> None:
    """The coordinator says why a member was out, and its line is shown with its number."""
    found = without_unparsed(audited[0]["findings"])
    told = [one for one in found if "the coordinator says that its session expired" in one["summary"]]
    assert {one["group"] for one in told} >= {"g-i-j09-kill9"}
    lines = [e for one in told for e in one["evidence"] if e["file"].endswith("broker.log")]
    assert lines
    assert all(e["line"] > 0 and "GroupCoordinator" in e["text"] for e in lines)


def test_members_without_logs_are_counted(audited: tuple[Told, dict[str, Told]]) -> None:
    """Only the coordinator names them; where every log is there, nobody is missing."""
    missing = {group["group"]: group["members_without_logs"] for group in audited[0]["groups"]}
    assert missing["g-j07-maxpoll"] >= 1
    assert missing["g-i-j09-kill9"] == 0


def test_a_group_that_only_the_coordinator_names_is_there(audited: tuple[Told, dict[str, Told]]) -> None:
    """From its first stored record to its last, without members of whom a log tells."""
    (group,) = (group for group in audited[0]["groups"] if group["group"] == "alone")
    assert (group["start_ms"], group["end_ms"]) == (1_795_247_715_932, 1_795_247_724_932)
    assert (group["members"], group["members_without_logs"], group["coverage"]) == (0, 2, "unknown")
    alone = audited[1]["alone"]
    assert alone["unlogged"] == 2
    assert "id:8s1lnmxk…-[0]" in [span[6] for lane in alone["lanes"] for span in lane.get("current", ())]
    assert [lane["label"][:7] for lane in alone["lanes"] if lane["what"] == "unlogged"] == ["m", "\\u202ex"]


def test_garbage_is_counted(audited: tuple[Told, dict[str, Told]]) -> None:
    """One stored record is none as Kafka writes it."""
    assert audited[0]["inputs"]["not_understood"] == 1


def test_assignments_are_written(audited: tuple[Told, dict[str, Told]], spark: SparkSession, result: Path) -> None:
    """Target and current assignment of each member, with names of topics where the broker tells them."""
    frame = spark.read.parquet(str(result / "assignments.parquet"))
    rows = frame.where("`group` = 'alone'").orderBy("start_ms", "which").collect()
    shown = [(r.member, r.member_id[:5], r.which, r.label, r.epoch, r.until) for r in rows]
    assert shown == [
        ("", "m", "target", "id:8s1lnmxk…-[0, 1]", None, "removed"),
        ("", "m", "current", "id:8s1lnmxk…-[0]", 2, "removed"),
        ("", "\u202exxxx", "target", "id:8s1lnmxk…-[7]", None, "removed"),
    ]
    named = frame.where("`group` = 'g-j07-maxpoll'").select("member", "which", "state", "label", "giving_up")
    found = {tuple(row) for row in named.collect()}
    assert (
        "g-j07-maxpoll-A",
        "current",
        "UNREVOKED_PARTITIONS",
        "j07-maxpoll-foo-[0..2]",
        "j07-maxpoll-foo-[3..5]",
    ) in found
    assert ("", "target", "", "j07-maxpoll-foo-[3..5]", "") in found
    lanes = [lane for group in audited[1].values() for lane in group["lanes"]]
    assert sum(bool(lane.get("target")) for lane in lanes) >= 2


def test_whose_a_partition_was_when_no_log_tells(audited: tuple[Told, dict[str, Told]]) -> None:
    """With the log of its owner missing it seems to be nobody's; the coordinator knows better."""
    gaps = [f for f in audited[0]["findings"] if f["group"] == "g-j07-maxpoll" and f["kind"] == "unowned_partition"]
    assert gaps
    assert {gap["severity"] for gap in gaps} == {"info"}
    assert all("whose log is missing, as the owner" in gap["summary"] for gap in gaps)


def test_the_report_draws_the_coordinators_words(audited: tuple[Told, dict[str, Told]]) -> None:
    """A lane of its own in the timeline of each group of which a coordinator speaks."""
    whats = [lane["what"] for group in audited[1].values() for lane in group["lanes"]]
    assert whats.count("coordinator") >= len(SCENARIOS)
