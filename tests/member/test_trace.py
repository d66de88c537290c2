"""A member's trace: the records that a parser finds in a consumer's log, fit to be audited like one."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from runtime_scene import Noted, within
from structlog.testing import capture_logs

from fsm.audit.findings import Finding, FindingKind, Severity
from fsm.audit.local import Options, audit_files
from fsm.logs import formats
from fsm.member import AsyncConsumer, ClassicConfig, Consumer, ConsumerConfig, ConsumerMember
from fsm.member.events import AsyncPollEvent, TopicSubscriptionChangeEvent
from fsm.member.inputs import Answered, CoordinatorFound, MetadataUpdated
from fsm.protocol.assignment import Partitions, TopicNames
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest as Heartbeat
from fsm.protocol.messages import ConsumerGroupHeartbeatResponse as Response
from fsm.testing.classic_coordinator import ScriptedClassicCoordinator
from fsm.testing.coordinator import ScriptedCoordinator
from fsm.trace import Kind, TraceRecord, from_json

A, B = ("t", 0), ("t", 1)
TRACE = tuple(f for f in formats() if f.name == "trace")


def findings(*paths: Path) -> list[Finding]:
    """What the audit finds in traces, above information."""
    found = audit_files(paths, Options(formats=TRACE)).findings
    return [f for f in found if f.severity is not Severity.INFO]


def read(path: Path) -> list[TraceRecord]:
    """The records of a trace; every line is whole."""
    text = path.read_text()
    assert text.endswith("\n")
    return [from_json(line) for line in text.splitlines()]


def poll_until(consumer: Consumer, done: Callable[[], bool]) -> None:
    """Polls until something is so."""

    def poll() -> None:
        while not done():
            consumer.poll(timeout_ms=10)

    within(poll)


@pytest.mark.parametrize("listener", [Noted(), None])
def test_a_clean_run_has_no_findings(tmp_path: Path, listener: Noted | None) -> None:
    """Two members, a rebalance between them, a close: both are in one file, and the audit has nothing to say."""
    path = tmp_path / "run.jsonl"
    group = ScriptedCoordinator(["t"], heartbeat_interval_ms=5)
    group.give({"M": [A, B]})
    with Consumer(ConsumerConfig("g"), group, member_id="M", trace=path) as first:
        first.subscribe(["t"], listener)
        poll_until(first, lambda: first.assignment() == (A, B))
        with Consumer(ConsumerConfig("g", client_id="other"), group, member_id="N", trace=path) as second:
            group.give({"M": [A], "N": [B]})
            second.subscribe(["t"], listener)
            poll_until(first, lambda: first.assignment() == (A,))
            poll_until(second, lambda: second.assignment() == (B,))
        group.give({"M": [A, B]})
        poll_until(first, lambda: first.assignment() == (A, B))
    assert findings(path) == []
    records = read(path)
    assert {r.client_id for r in records if r.member_id == "N"} == {"other"}
    seen = [r.kind for r in records if r.member_id == "M"]
    assert (seen[0], seen[-1]) == (Kind.STARTED, Kind.CLOSE_END)
    assert {Kind.SUBSCRIBED, Kind.JOINED, Kind.TARGET, Kind.RECONCILING, Kind.LEAVE_SENT, Kind.LEFT} <= {*seen}
    called = {Kind.ASSIGN_BEGIN, Kind.ASSIGN_END, Kind.REVOKE_BEGIN, Kind.REVOKE_END}
    assert called & {*seen} == (called if listener else set())
    assert (Kind.OWNED in seen) is (listener is None)


@pytest.mark.parametrize("listener", [Noted(), None])
def test_a_clean_classic_run_has_no_findings(tmp_path: Path, listener: Noted | None) -> None:
    """The same of a classic member: joins, generations, heartbeats, a rebalance, a leave."""
    path = tmp_path / "run.jsonl"
    group = ScriptedClassicCoordinator({"t": 2})
    config = ClassicConfig("g", heartbeat_interval_ms=5, retry_backoff_ms=1)
    with Consumer(config, group, trace=path) as consumer:
        consumer.subscribe(["t"], listener)
        poll_until(consumer, lambda: consumer.assignment() == (A, B))
        group.rebalance()
        poll_until(consumer, lambda: group.generation_id == 2)
        poll_until(consumer, lambda: Kind.HEARTBEAT_OK in {r.kind for r in read(path)})
    assert findings(path) == []
    records = read(path)
    hops = [(r.state, r.next_state) for r in records if r.kind is Kind.TRANSITION]
    rebalance = ["UNJOINED", "PREPARING_REBALANCE", "COMPLETING_REBALANCE", "STABLE"]
    assert hops[:3] == [*itertools.pairwise(rebalance)]
    kinds = {r.kind for r in records}
    assert {Kind.MEMBER_ID, Kind.JOINING, Kind.JOINED, Kind.SYNCED, Kind.HEARTBEAT_OK, Kind.LEAVE_SENT} <= kinds
    assert (Kind.OWNED in kinds) is (listener is None)


@pytest.mark.parametrize(("dialect", "found"), [("4.4.0", ["callback_not_owned", "partitions_lost"]), ("fixed", [])])
def test_a_hazard_shows_in_the_audit(tmp_path: Path, dialect: str, found: list[str]) -> None:
    """H20: close() after unsubscribe() calls back once more for what was given up; the fixed dialect does not."""
    path = tmp_path / "run.jsonl"
    group = ScriptedCoordinator(["t"], heartbeat_interval_ms=5)
    group.give({"M": [A]})
    with Consumer(ConsumerConfig("g"), group, member_id="M", dialect=dialect, trace=path) as consumer:
        consumer.subscribe(["t"], Noted())
        poll_until(consumer, lambda: consumer.assignment() == (A,))
        consumer.unsubscribe()
    assert sorted(f.kind for f in findings(path)) == found


class Scene:
    """A member on a clock of literal times; its coordinator says what the test says."""

    def __init__(self, to: Any, client_id: str, dialect: str = "4.4.0") -> None:
        config = ConsumerConfig("g", client_id=client_id, enable_auto_commit=False)
        self.listener = Noted()
        self.member = ConsumerMember(config, member_id=client_id, now_ms=0, dialect=dialect, trace=to)
        self.member.receive(CoordinatorFound(), 0)
        self.member.receive(MetadataUpdated(TopicNames({"T": "t"})), 0)
        self.member.submit(TopicSubscriptionChangeEvent(("t",), listener=True))

    def turn(self, now_ms: int, *answers: Response) -> None:
        """Polls, calls back, and answers what is sent until nothing is."""
        given = list(answers)
        for _ in range(6):
            if not self.member.closed:
                self.member.submit(AsyncPollEvent())
            for request in self.member.poll(now_ms).unsent_requests:
                leaves = isinstance(request.body, Heartbeat) and request.body.member_epoch < 0
                answer = given.pop(0) if given else Response(-1 if leaves else 1, 1_000)
                self.member.receive(Answered(request, answer), now_ms)
            self.member.run_callbacks(self.listener, now_ms)

    def close(self, now_ms: int) -> None:
        """close(), to its end."""
        self.member.close(now_ms)
        self.turn(now_ms)
        assert self.member.closed


def given(*numbers: int) -> Response:
    """A target of that many partitions of `t`."""
    return Response(1, 1_000, (("T", numbers),) if numbers else ())


def test_two_owners_at_once_are_found(tmp_path: Path) -> None:
    """A coordinator that gives a partition away before it is given up: the traces of both members show it."""
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    a, b = Scene(paths[0], "a"), Scene(paths[1], "b")
    a.turn(1_000, given(0, 1))
    b.turn(2_000, given(1))
    a.turn(5_000, given(0))
    for scene in (a, b):
        scene.close(6_000)
    (found,) = findings(*paths)
    assert (found.kind, found.partitions) == (FindingKind.DOUBLE_OWNERSHIP, (B,))
    assert (found.start_ms, found.end_ms) == (2_000, 5_000)


def test_a_member_that_is_fenced_again_and_again_is_found(tmp_path: Path) -> None:
    """Each fencing takes what the member owned; the third within a minute is a loop."""
    path = tmp_path / "a.jsonl"
    scene = Scene(path, "a")
    scene.turn(1_000, given(0))
    for round_ in range(1, 4):
        scene.turn(1_000 + 2_000 * round_, Response(error_code=ErrorCode.FENCED_MEMBER_EPOCH), given(0))
    scene.close(9_000)
    kinds = [f.kind for f in findings(path)]
    assert kinds.count(FindingKind.PARTITIONS_LOST) == 3
    assert kinds.count(FindingKind.FENCING_LOOP) == 1


def test_a_listener_that_raises_is_found(tmp_path: Path) -> None:
    """The trace says which callback failed, and with what."""
    path = tmp_path / "a.jsonl"
    scene = Scene(path, "a")

    def fail(method: str, _partitions: Partitions) -> None:
        if method == "revoked":
            scene.listener.does = None
            raise ValueError("no disk")

    scene.turn(1_000, given(0, 1))
    scene.listener.does = fail
    with pytest.raises(Exception, match="no disk"):
        scene.turn(2_000, given(0))
    scene.turn(3_000)
    scene.close(4_000)
    (failed,) = [r for r in read(path) if r.kind is Kind.CALLBACK_FAILED]
    assert (failed.event, failed.partitions, failed.detail) == (
        "revoked",
        (B,),
        "the rebalance listener raised: no disk",
    )
    assert FindingKind.LISTENER_ERROR in [f.kind for f in findings(path)]


def test_a_trace_may_go_to_a_function() -> None:
    """A function takes each record as it is; the offset makes epoch milliseconds of the caller's clock."""
    records: list[TraceRecord] = []
    config = ConsumerConfig("g", group_instance_id="i-1")
    ConsumerMember(config, member_id="M", now_ms=5, trace=records.append, trace_offset_ms=1_000)
    (started,) = records
    assert (started.ts_ms, started.kind, started.client_id, started.member_id) == (
        1_005,
        Kind.STARTED,
        "consumer-g-i-1",
        "M",
    )
    assert started.settings["group.protocol"] == "consumer"


def test_a_dialect_with_other_rows_is_not_judged_by_those_of_a_release() -> None:
    """The design notes' table has steps that no release has; the machine's name says whose they are."""
    for dialect, machine in (("4.2.0", "consumer-member"), ("document", "consumer-member/document")):
        records: list[TraceRecord] = []
        Scene(records.append, "a", dialect).turn(1_000, given(0))
        assert {r.machine for r in records if r.kind is Kind.TRANSITION} == {machine}


def test_lines_of_many_threads_stay_whole(tmp_path: Path) -> None:
    """Consumers of one process may share a file: each record is one line, whoever else writes."""
    path = tmp_path / "run.jsonl"
    group = ScriptedCoordinator(["t"], heartbeat_interval_ms=1)
    consumers = [Consumer(ConsumerConfig("g"), group, trace=path) for _ in range(4)]
    for consumer in consumers:
        consumer.subscribe(["t"])
        poll_until(consumer, lambda: len(group.requests) > 40)
    for consumer in consumers:
        consumer.close()
    records = read(path)
    assert len({r.client_id for r in records}) == 4
    assert [r.kind for r in records].count(Kind.CLOSE_END) == 4


def test_a_trace_that_cannot_be_written_ends_alone() -> None:
    """A full disk ends the trace with a warning, not the member; a path that cannot be opened is refused at once."""
    with capture_logs() as logged:
        scene = Scene("/dev/full", "a")
        scene.turn(1_000, given(0))
    assert scene.member.owned == (A,)
    assert [line["event"] for line in logged] == ["the trace could not be written and ends here"]
    with pytest.raises(OSError, match="nowhere"):
        Scene("/nowhere/run.jsonl", "a")


def test_on_asyncio(tmp_path: Path) -> None:
    """The same argument."""
    path = tmp_path / "run.jsonl"

    async def run() -> None:
        group = ScriptedCoordinator(["t"], heartbeat_interval_ms=5)
        group.give({"M": [A]})
        async with AsyncConsumer(ConsumerConfig("g"), group, member_id="M", trace=path) as consumer:
            await consumer.subscribe(["t"], Noted())
            while consumer.assignment() != (A,):
                await consumer.poll(timeout_ms=10)

    asyncio.run(run())
    assert findings(path) == []
    assert kinds_of(read(path), "app") >= {Kind.SUBSCRIBED, Kind.ASSIGN_BEGIN, Kind.ASSIGN_END, Kind.CLOSE_END}


def kinds_of(records: Iterable[TraceRecord], thread: str) -> set[Kind]:
    """The kinds of a thread's records."""
    return {r.kind for r in records if r.thread == thread}
