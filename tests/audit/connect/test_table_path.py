"""A Connect worker's lines as a way through its table: what is allowed, what is not, what is not judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from fsm.audit.connect.table_path import UP, TablePath, follow
from fsm.audit.findings import Finding
from fsm.audit.rows import At, Known, Life, Place
from fsm.tables.connect_worker import State
from fsm.trace import Kind, TraceRecord


def illegal_steps(records: Iterable[Known]) -> Iterator[Finding]:
    """The lines of one worker, in order, that its table does not allow."""
    path = TablePath("g", "w")
    for known in records:
        yield from path.see(known)


def lines(*given: tuple[Kind, str, str]) -> Iterable[Known]:
    """Records by kind, event and next state, one a second."""
    for number, (kind, event, next_state) in enumerate(given):
        record = TraceRecord(
            1_000 * number, kind, "g", "w", machine="connect-worker", event=event, next_state=next_state
        )
        yield Known(record, At(record.ts_ms, Place("w.log", number)))


BORN = (
    (Kind.STARTED, "", ""),
    (Kind.TRANSITION, "START", "DISCONNECTED"),
    (Kind.COORDINATOR_FOUND, "", ""),
    (Kind.JOINING, "JOIN_DUE", ""),
    (Kind.JOINING, "", ""),
    (Kind.JOINED, "", ""),
)
ROUND = ((Kind.SYNCED, "", ""), (Kind.TARGET, "", ""))
WORK = ((Kind.TRANSITION, "", "STARTING"), (Kind.TRANSITION, "STARTED", ""))


def test_a_life_is_a_way_through_the_table() -> None:
    """It starts, joins, gets work, joins again when told, and stops; what it prints while it stops is not judged."""
    again = ((Kind.JOINING, "JOIN_DUE", ""), (Kind.JOINED, "", ""), *ROUND, *WORK)
    end = ((Kind.CLOSE_BEGIN, "", ""), (Kind.TRANSITION, "STARTED", ""), (Kind.CLOSE_END, "", ""))
    assert list(illegal_steps(lines(*BORN, *ROUND, *WORK, *again, *end))) == []


def test_work_without_a_round_is_illegal() -> None:
    """Starts before any sync: the finding shows both lines, and names where the worker can have been."""
    (found,) = illegal_steps(lines(*BORN, *WORK[:1]))
    assert found.kind.value == "illegal_transition"
    assert "w printed STARTING where the table connect-worker has no way to it: it was in SYNCING, LEADING" in (
        found.summary.replace("LEADING, SYNCING", "SYNCING, LEADING")
    )
    assert [e.offset for e in found.evidence] == [5, 6]


@pytest.mark.parametrize("missing", [Kind.JOINED, Kind.SYNCED, Kind.TRANSITION])
def test_a_step_that_is_left_out_is_noticed(missing: Kind) -> None:
    """Without the answer to the join, the sync or the start of the process there is no way to the starts' end."""
    whole = [line for line in (*BORN, *ROUND, *WORK) if line[0] is not missing or line == WORK[1]]
    assert list(illegal_steps(lines(*whole)))


def test_a_delayed_worker_goes_through_its_starts_again() -> None:
    """Recorded: with a delay set, every tick of the herder prints its starts, without any round."""
    assert list(illegal_steps(lines(*BORN, *ROUND, *WORK, *WORK, *WORK))) == []


def test_a_log_that_begins_in_mid_life_is_judged_from_its_first_step() -> None:
    """Anything may have gone before; a second join in a row without an answer is still possible."""
    record = TraceRecord(0, Kind.JOINED, machine="connect-worker")
    assert follow(UP, record) == {State.SYNCING, State.LEADING}
    assert list(illegal_steps(lines(*ROUND, *WORK))) == []


def test_a_worker_keeps_what_its_process_printed_before_its_name(log: Any) -> None:
    """The settings come before the herder's first line, which begins no other process; the next such line does."""
    log.client_id = ""  # a pipeline knows the group of a line that names no worker
    log(0, Kind.STARTED, machine="connect-worker")
    log(5, Kind.SETTINGS, machine="connect-worker", settings={"session.timeout.ms": "6000"})
    log.client_id = "w"
    log(10, Kind.TRANSITION, machine="connect-worker", event="START", next_state="DISCONNECTED")
    log(20, Kind.TRANSITION, machine="connect-worker", event="START", next_state="DISCONNECTED")
    assert [(life.start_ms, life.whole_start, life.session_timeout_ms) for life in log.rows(Life)] == [
        (0, True, 6000),
        (20, True, None),
    ]
