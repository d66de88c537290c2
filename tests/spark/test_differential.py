"""The pipeline says what the audit in one process says: on recordings of real clients and on generated traces."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import parquet

from fsm.audit import local
from fsm.audit.findings import FindingKind
from fsm.audit.group import Rebalance
from fsm.audit.rows import Hop
from fsm.spark import columns
from fsm.tables import ALL
from fsm.trace import Kind, Partition, TraceRecord

from .conftest import SCENARIOS, Told, as_told, run, without_unparsed

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def by_scenario(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Told]]:
    """What one audit of all scenarios, each a cluster of its own, finds in each."""
    found = run([recordings], tmp_path_factory.mktemp("by-scenario") / "out", by_folder=True)["findings"]
    return {name: [one for one in without_unparsed(found) if one["group"].startswith(f"{name}:")] for name in SCENARIOS}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_recording_gives_the_findings_of_one_process(
    scenario: str, recordings: Path, by_scenario: dict[str, list[Told]]
) -> None:
    """Kind, severity, member, times, partitions, cause, words and lines of evidence, all in the same order."""
    found = local.audit_files(sorted((recordings / scenario).glob("*.log"))).findings
    assert by_scenario[scenario] == [as_told(one, scenario) for one in found]


def test_the_recordings_hold_something_to_find(by_scenario: dict[str, list[Told]]) -> None:
    """The comparison is about many kinds of findings, and some scenarios have none."""
    kinds = Counter(one["kind"] for found in by_scenario.values() for one in found)
    assert len(kinds) >= 8
    assert kinds.total() >= 30
    assert not all(by_scenario.values())


def test_one_crowd_of_all_recordings(recordings: Path, tmp_path: Path) -> None:
    """Read as one cluster, recordings share groups and client ids: members must be told apart by their files."""
    found = run([recordings], tmp_path / "out")["findings"]
    expected = local.audit_files(recordings.rglob("*.log"))
    assert len(expected.findings) > 30
    assert without_unparsed(found) == [as_told(one) for one in expected.findings]
    assert_same_rows(tmp_path / "out", expected)


def assert_same_rows(out: Path, expected: local.Audit) -> None:
    """What the findings rest on is the same as well: every interval, want, life, turn, transition and rebalance."""
    for name in ("intervals", "wants", "lives", "turns"):
        rows = [row for own in expected.rows.values() for row in getattr(own, name)]
        assert rows_of(out, name, type(rows[0])) == Counter(rows), name
    assert rows_of(out, "transitions", Hop) == Counter(expected.hops)
    assert rows_of(out, "rebalances", Rebalance) == Counter(expected.rebalances)
    ends = Counter((c.group, c.member, c.life, c.end) for c in expected.coverage)
    lives = parquet.read_table(out / "lives.parquet").to_pylist()
    assert Counter((row["group"], row["member"], row["number"], row["end_known"]) for row in lives) == ends


def rows_of(out: Path, stage: str, cls: type) -> Counter[object]:
    """The rows of a stage as instances, counted."""
    return Counter(map(columns.reader(cls), parquet.read_table(out / f"{stage}.parquet").to_pylist()))


# -- generated traces -----------------------------------------------------------------------------------------

GROUPS = 18
TOPICS = ("orders", "payments")
PARTITIONS: tuple[Partition, ...] = tuple((topic, number) for topic in TOPICS for number in range(3))


def test_generated_traces(tmp_path: Path) -> None:
    """Logs of members that do anything in any order: restarts, shared client ids, equal and disordered times."""
    logs = tmp_path / "logs"
    for seed in range(GROUPS):
        write_group(logs, seed)
    found = run([logs], tmp_path / "out", format="trace")["findings"]
    expected = local.audit_files(logs.rglob("*.jsonl"))
    kinds = {one.kind for one in expected.findings}
    assert len({one.group for one in expected.findings}) > GROUPS // 2
    assert {FindingKind.DOUBLE_OWNERSHIP, FindingKind.UNOWNED_PARTITION, FindingKind.ILLEGAL_TRANSITION} <= kinds
    assert without_unparsed(found) == [as_told(one) for one in expected.findings]
    assert_same_rows(tmp_path / "out", expected)


def write_group(logs: Path, seed: int) -> None:
    """A group of two to four members, a file each; in every third group two of them share their client id."""
    chance = random.Random(seed)  # noqa: S311
    for number in range(chance.randint(2, 4)):
        client = "consumer-1" if seed % 3 == 0 and number < 2 else f"consumer-{number + 1}"
        path = logs / f"g{seed}" / f"{number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [one.to_json() for one in records_of_a_member(chance, f"g{seed}", client, f"id-{number}")]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def records_of_a_member(chance: random.Random, group: str, client: str, member_id: str) -> Iterator[TraceRecord]:
    """A life that begins well and then goes anywhere."""
    ts_ms = 1_700_000_000_000 + chance.randrange(20_000)
    born = chance.random() < 0.8
    for kind in (Kind.STARTED, Kind.SUBSCRIBED, Kind.MEMBER_ID) if born else ():
        yield TraceRecord(ts_ms, kind, group, client, member_id, topics=TOPICS if kind is Kind.SUBSCRIBED else ())
    for _ in range(chance.randint(5, 60)):
        ts_ms += chance.choice((0, 0, 1, 7, 300, 900, 2500, 12_000, 70_000))
        record = anything(chance, ts_ms, group, client, member_id)
        disordered = record.kind in DISORDERED and chance.random() < 0.3
        yield replace(record, ts_ms=ts_ms - 20) if disordered else record


CALLBACKS = (Kind.ASSIGN_BEGIN, Kind.ASSIGN_END, Kind.REVOKE_BEGIN, Kind.REVOKE_END, Kind.LOST_BEGIN, Kind.LOST_END)


DISORDERED = (Kind.TRANSITION, Kind.ERROR, Kind.FENCED, Kind.JOINED, Kind.HEARTBEAT_OK, Kind.LEFT, Kind.POLL_EXPIRED)
"""Records of the background thread, whose lines may be late."""


def anything(chance: random.Random, ts_ms: int, group: str, client: str, member_id: str) -> TraceRecord:
    """Any record: callbacks and transitions more often than others. Some name no group, some not even a client."""
    kind = chance.choice((*Kind, *CALLBACKS * 4, *[Kind.TRANSITION] * 12))
    named = chance.random()
    record = TraceRecord(
        ts_ms,
        kind,
        group if named < 0.95 else "",
        client if named < 0.98 else "",
        member_id if chance.random() < 0.6 else "",
        instance_id="static" if chance.random() < 0.05 else "",
        thread=chance.choice(("app", "background", "")),
        epoch=chance.choice((None, 0, 3)),
        partitions=some(chance),
        revoked=some(chance) if kind is Kind.RECONCILING else (),
        full=some(chance) if chance.random() < 0.1 else None,
        topics=TOPICS if kind is Kind.SUBSCRIBED else (),
        detail=chance.choice(("", "FENCED_MEMBER_EPOCH", "^ord.*", "pay.+")),
        settings={"session.timeout.ms": "6000"} if kind is Kind.STARTED else {},
    )
    return step(chance, record) if kind is Kind.TRANSITION else record


def step(chance: random.Random, record: TraceRecord) -> TraceRecord:
    """A transition of any table, with or without its event, half of them legal."""
    table = chance.choice(ALL)
    (state, event), cell = chance.choice(list(table.compiled.items()))
    target = cell.target if chance.random() < 0.5 else chance.choice(table.states)
    told = event.name if chance.random() < 0.5 else ""
    return replace(record, machine=table.name, state=state.name, next_state=target.name, event=told)


def some(chance: random.Random) -> tuple[Partition, ...]:
    """A few partitions."""
    return tuple(sorted(chance.sample(PARTITIONS, chance.randint(0, 3))))
