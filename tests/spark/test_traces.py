"""Traces through the pipeline: members that do anything, every row of a table, a group that fills the report."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from page_data import groups_of
from pyspark.sql import SparkSession

from fsm.audit import local
from fsm.audit.conformance import list_steps
from fsm.audit.findings import FindingKind
from fsm.tables import ALL
from fsm.tables.consumer_member import TABLE
from fsm.trace import Kind, Partition, TraceRecord

from .conftest import Told, as_told, run, without_unparsed
from .test_differential import assert_same_rows

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

GROUPS = 18
TOPICS = ("orders", "payments")
PARTITIONS: tuple[Partition, ...] = tuple((topic, number) for topic in TOPICS for number in range(3))
MEMBERS = 500
START_MS = 1_700_000_000_000


class Traces(NamedTuple):
    """One audit of all traces, and the same in one process."""

    out: Path
    found: Told
    expected: local.Audit


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Traces:
    """Generated groups, one with every row of a table, and a large one."""
    logs = tmp_path_factory.mktemp("traces") / "logs"
    for seed in range(GROUPS):
        for number, records in enumerate(generated_group(seed)):
            write_trace(logs / f"g{seed}" / f"{number}.jsonl", records)
    write_trace(logs / "rows.jsonl", rows_of_a_table(), spelled_otherwise=True)
    for part in range(4):
        records = [record for number in range(part, MEMBERS, 4) for record in life(number)]
        write_trace(logs / "large" / f"{part}.jsonl", records)
    out = logs.parent / "out"
    found = run([logs], out, format="trace")
    return Traces(out, found, local.audit_files(logs.rglob("*.jsonl")))


def write_trace(path: Path, records: list[TraceRecord], *, spelled_otherwise: bool = False) -> None:
    """A trace as this project writes it, or as any other writer of JSON may."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [record.to_json() for record in records]
    if spelled_otherwise:
        lines = [json.dumps(json.loads(line), sort_keys=number % 2 == 0) for number, line in enumerate(lines)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.mark.deep
def test_the_pipeline_finds_what_one_process_finds(traces: Traces) -> None:
    """Members that do anything in any order: restarts, shared client ids, equal and disordered times."""
    expected = traces.expected
    generated = [one for one in expected.findings if one.group.startswith("g") and one.group != "rows"]
    assert len({one.group for one in generated}) > GROUPS // 2
    kinds = {one.kind for one in generated}
    assert {FindingKind.DOUBLE_OWNERSHIP, FindingKind.UNOWNED_PARTITION, FindingKind.ILLEGAL_TRANSITION} <= kinds
    assert without_unparsed(traces.found["findings"]) == [as_told(one) for one in expected.findings]
    assert_same_rows(traces.out, expected)


# -- members that do anything ---------------------------------------------------------------------------------


def generated_group(seed: int) -> Iterator[list[TraceRecord]]:
    """A group of two to four members; in every third group two of them share their client id."""
    chance = random.Random(seed)  # noqa: S311
    for number in range(chance.randint(2, 4)):
        client = "consumer-1" if seed % 3 == 0 and number < 2 else f"consumer-{number + 1}"
        yield list(records_of_a_member(chance, f"g{seed}", client, f"id-{number}"))


def records_of_a_member(chance: random.Random, group: str, client: str, member_id: str) -> Iterator[TraceRecord]:
    """A life that begins well and then goes anywhere."""
    ts_ms = START_MS + chance.randrange(20_000)
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


# -- rows of a table ------------------------------------------------------------------------------------------

ROWS = [(s, e, c.target) for (s, e), c in TABLE.compiled.items() if not c.ignored]


def rows_of_a_table() -> list[TraceRecord]:
    """Each row in one record of a member of its own; member `x` names an event that its state does not have."""
    wrong = next(e for e in TABLE.event_type if (ROWS[0][0], e) not in TABLE.compiled)
    steps = [(f"c-{i}", row) for i, row in enumerate(ROWS)] + [("x", (ROWS[0][0], wrong, ROWS[0][2]))]
    return [
        TraceRecord(
            1000 * i, Kind.TRANSITION, group="rows", client_id=client, machine=TABLE.name,
            state=s.name, event=e.name, next_state=t.name,
        )
        for i, (client, (s, e, t)) in enumerate(steps)
    ]  # fmt: skip


@pytest.mark.deep
def test_rows_that_name_their_event_are_judged_whole(traces: Traces, spark: SparkSession) -> None:
    """Every row of a table has no illegal step; one with a wrong event has one. JSON may have spaces in any place."""
    found = [f for f in traces.found["findings"] if f["group"] == "rows" and f["severity"] == "error"]
    assert [(f["member"], f["kind"]) for f in found] == [("x", "illegal_transition")]
    frame = spark.read.parquet(str(traces.out / "transitions.parquet")).where("`group` = 'rows'")
    assert frame.where("allowed_by is null").count() == 1
    assert frame.where("judged").count() == len(ROWS) + 1


def test_the_allowed_steps_of_a_table_are_its_hops_and_its_rows() -> None:
    """Single steps for logs, whole rows for records of our own machines, each once."""
    assert sum(map(len, list_steps(TABLE.name, whole=True).values())) == len(TABLE.compiled)
    assert len(list_steps(TABLE.name)) == len(TABLE.columns.edges)


# -- a large group --------------------------------------------------------------------------------------------


def life(number: int) -> list[TraceRecord]:
    """A member of one large group: it loses its membership, and owns the partition of the next one beside it."""
    client, at_ms = f"consumer-{number:04}", START_MS + 10 * number
    mine, next_one = (("orders", number),), (("orders", (number + 1) % MEMBERS),)

    def record(after_ms: int, kind: Kind, **fields: object) -> TraceRecord:
        return TraceRecord(at_ms + after_ms, kind, "large", client, f"id-{number}", thread="app", **fields)  # type: ignore[arg-type]

    return [
        record(0, Kind.STARTED),
        record(1, Kind.SUBSCRIBED, topics=("orders",)),
        record(50, Kind.ASSIGN_BEGIN, partitions=mine),
        record(51, Kind.ASSIGN_END, partitions=mine),
        record(20_000, Kind.LOST_BEGIN, partitions=mine),
        record(20_001, Kind.LOST_END),
        record(30_000, Kind.ASSIGN_BEGIN, partitions=next_one),
        record(60_000, Kind.CLOSE_BEGIN),
        record(60_900, Kind.CLOSE_END),
    ]


def test_a_group_of_many_members_gives_a_small_page(traces: Traces) -> None:
    """The page is bounded; every member, partition and finding of the group is in it or beside it."""
    (group,) = (group for group in traces.found["groups"] if group["group"] == "large")
    assert (group["members"], group["partitions"]) == (MEMBERS, MEMBERS)
    found = {f["id"] for f in traces.found["findings"] if f["group"] == "large"}
    assert len(found) > 400
    assert 50_000 < (traces.out / "report.html").stat().st_size < 3_000_000
    told = groups_of(traces.out)["large"]
    assert (told["members"], told["partitions"], told["hidden"]["members"]) == (MEMBERS, MEMBERS, 0)
    assert len([lane for lane in told["lanes"] if lane["what"] == "member"]) == MEMBERS
    assert sum(lane["count"] for lane in told["lanes"] if lane["what"] == "partition") == MEMBERS
    assert {f["id"] for f in told["findings"]} == found
    assert {f for row in told["rows"] for f in row["findings"]} == found


def test_the_page_counts_what_the_document_counts(traces: Traces) -> None:
    """Incidents by severity and members of each group, listed or not."""
    told = groups_of(traces.out)
    for group in traces.found["groups"]:
        one = told[group["group"]]
        its = (incident for incident in traces.found["incidents"] if incident["group"] == group["group"])
        assert one.get("incidents", {}) == Counter(incident["severity"] for incident in its)
        assert (one.get("members", 0), one["rebalances"]) == (group["members"], group["rebalances"])
