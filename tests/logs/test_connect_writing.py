"""What is written of a Connect worker's record is read back as that record."""

from __future__ import annotations

from datetime import UTC

import pytest

from fsm.logs import formats
from fsm.logs.layouts.java_layouts import kafka_line
from fsm.logs.programs.connect_worker import MACHINE
from fsm.logs.writing.connect_writing import RECORDS, UNITS, write_connect
from fsm.trace import Kind, TraceRecord, to_dict

CONNECT = next(one for one in formats() if one.name == "connect" and one.layout == "kafka")
ROUND = {"error": "0", "leader": "w-1", "offset": "7", "version": "2", "delay_ms": "60000"}
WITHOUT_NAME = frozenset({Kind.STARTED, Kind.SETTINGS, Kind.UNITS_STARTED, Kind.UNITS_STOPPING, Kind.UNITS_STOPPED})
"""What their lines tell belongs to the only worker of their file."""


def read(record: TraceRecord) -> list[TraceRecord]:
    """What the audit makes of what is written of a record."""
    found: list[TraceRecord] = []
    for message in write_connect([record]):
        entry = kafka_line(message)
        assert CONNECT.header.match(entry.encode())
        assert CONNECT.candidate.search(entry.encode())
        found += CONNECT.parse(entry.rstrip("\n"), UTC) or ()
    return found


@pytest.mark.parametrize(("kind", "event"), sorted(RECORDS))
def test_every_line_is_read_back(kind: Kind, event: str) -> None:
    """The kind and event come back, and no field that the record does not have."""
    is_state = event.startswith("to ")
    given = TraceRecord(
        1_700_000_000_123,
        kind,
        "shop",
        "connect-w-1",
        "connect-w-1-0815",
        machine=MACHINE,
        state={"START": "DOWN", "STARTED": "STARTING", "CATCH_UP_TIMED_OUT": "CATCHING_UP"}.get(event, ""),
        event="" if is_state else event,
        next_state=event.removeprefix("to ")
        if is_state
        else {"START": "DISCONNECTED", "MISMATCH": "UNJOINED"}.get(event, ""),
        epoch=4,
        partitions=(("a-b", 0), ("a-b", 12)) if kind is Kind.CONFIG_TOPIC and event == "tasks" else (),
        full=(("a-b", -1), ("c", -1), ("a-b", 0), ("a-b", 12)),
        revoked=(("c", -1), ("c", 1)),
        topics=("a-b",),
        detail="the worker is stopped",
        settings=ROUND if kind is Kind.TARGET else {"protocol": "sessioned"} if kind is Kind.JOINED else {},
    )
    if event == "DISCOVERY_FAILED_HOLDING":
        given.state = given.next_state = "DISCONNECTED"
    [found] = read(given)
    got, had = to_dict(found), to_dict(given)
    assert (found.kind, found.event) == (kind, given.event)
    if kind in (Kind.COORDINATOR_LOST, Kind.FATAL) or event == "MISMATCH":  # its own words for why
        got.pop("detail", None)
    assert {name: had.get(name) for name in got} == got
    assert bool(found.client_id) == (kind not in WITHOUT_NAME)


@pytest.mark.parametrize(("kind", "event", "what"), sorted(UNITS))
def test_every_line_about_a_unit_is_read_back(kind: Kind, event: str, what: str) -> None:
    """One line for each unit of the record."""
    units = (("a-b", -1), ("c", -1)) if what == "connector" else (("a-b", 0), ("c", 12))
    found = read(TraceRecord(0, kind, "shop", "connect-w-1", machine=MACHINE, event=event, partitions=units))
    assert [(one.kind, one.event, one.partitions) for one in found] == [(kind, event, (unit,)) for unit in units]
