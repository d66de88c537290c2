"""Lines of Connect workers, as 4.3.1 and older ones print them, and the records they become."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest

from fsm.logs import formats
from fsm.logs.programs.connect_worker import FORMATS, partitions
from fsm.logs.reading.entries import Entry, records_of
from fsm.trace import Kind, to_dict

STAMP = "[2026-11-21 08:02:06,210]"
CTX = "[Worker clientId=connect-127.0.0.1:8083, groupId=g] "
HERDER = "org.apache.kafka.connect.runtime.distributed.DistributedHerder:2650"
COORDINATOR = "org.apache.kafka.connect.runtime.distributed.WorkerCoordinator:1"
WORKER = "org.apache.kafka.connect.runtime.Worker:676"
TASK = "org.apache.kafka.connect.runtime.WorkerTask:234"
NAMED = {"group": "g", "client_id": "connect-127.0.0.1:8083"}


def said(text: str, logger: str, level: str = "INFO", after: str = "") -> list[dict[str, Any]]:
    """What a line says, without its time and machine."""
    entry = f"{STAMP} {level} {text} ({logger}){after}"
    records = records_of(Entry(0, 1, formats_of(entry), entry.encode(), False), UTC)
    assert records is not None
    assert {(r.ts_ms, r.machine) for r in records} <= {(1795248126210, "connect-worker")}
    return [{k: v for k, v in to_dict(r).items() if k not in {"ts_ms", "machine"}} for r in records]


def formats_of(entry: str) -> tuple[Any, ...]:
    return tuple(f for f in formats() if f.header.match(entry.encode()))


ROUND = (
    "Joined group at generation 7 with protocol version 2 and got assignment: Assignment{error=0, leader='m-1', "
    "leaderUrl='http://127.0.0.1:8083/', offset=12, connectorIds=[my-conn], taskIds=[my-conn-0, my-conn-10], "
    "revokedConnectorIds=[B], revokedTaskIds=[B-0], delay=5000} with rebalance delay: 5000"
)
EAGER = (
    "Joined group at generation 3 with protocol version 0 and got assignment: Assignment{error=1, leader='m-1', "
    "leaderUrl='http://127.0.0.1:8083/', offset=-1, connectorIds=[], taskIds=[]} with rebalance delay: 0"
)


def test_a_round_is_a_target_with_all_that_is_held() -> None:
    """Generation, assignment, revocations, leader, offset and delay; names of connectors may hold hyphens."""
    assert said(CTX + ROUND, HERDER) == [
        {
            "kind": Kind.TARGET,
            **NAMED,
            "epoch": 7,
            "full": [["my-conn", -1], ["my-conn", 0], ["my-conn", 10]],
            "revoked": [["B", -1], ["B", 0]],
            "settings": {"delay_ms": "5000", "error": "0", "leader": "m-1", "offset": "12", "version": "2"},
        }
    ]


def test_an_eager_round_has_no_delay() -> None:
    """Assignments without the cooperative fields are read, too; a failed one says so."""
    (record,) = said(CTX + EAGER, HERDER)
    assert (record["full"], record["settings"]["error"], record["settings"]["delay_ms"]) == ([], "1", "0")


@pytest.mark.parametrize(
    ("text", "logger", "expected"),
    [
        (CTX + "Rebalance started", COORDINATOR, {"kind": "joining", "event": "JOIN_DUE", **NAMED}),
        (
            CTX + "Successfully joined group with generation Generation{generationId=4, memberId='m-1', "
            "protocol='sessioned'}",
            COORDINATOR,
            {"kind": "joined", "epoch": 4, "member_id": "m-1", "settings": {"protocol": "sessioned"}, **NAMED},
        ),
        (
            "[A|task-0] WorkerSourceTask{id=A-0} Source task finished initialization and start",
            "org.apache.kafka.connect.runtime.AbstractWorkerSourceTask:289",
            {"kind": "units_started", "partitions": [["A", 0]]},
        ),
        ("[A|worker] Finished creating connector A", WORKER, {"kind": "units_started", "partitions": [["A", -1]]}),
        ("[A|task-1] Stopping task A-1", WORKER, {"kind": "units_stopping", "partitions": [["A", 1]]}),
        (
            "[A|worker] Completed shutdown for WorkerConnector{id=A}",
            "org.apache.kafka.connect.runtime.WorkerConnector:318",
            {"kind": "units_stopped", "partitions": [["A", -1]]},
        ),
        (
            "App info kafka.admin.client for connector-adminclient-A-1 unregistered",
            "org.apache.kafka.common.utils.AppInfoParser:89",
            {"kind": "units_stopped", "partitions": [["A", 1]]},
        ),
        (
            CTX + "Tasks [A-1, A-0] configs updated",
            HERDER,
            {"kind": "config_topic", "event": "tasks", "topics": ("A",), "partitions": [["A", 1], ["A", 0]], **NAMED},
        ),
        (
            CTX + "Connector A config removed",
            HERDER,
            {"kind": "config_topic", "event": "removed", "topics": ("A",), **NAMED},
        ),
        (
            CTX + "Current config state offset 4 does not match group assignment 6. Forcing rebalance.",
            HERDER,
            {
                "kind": "transition",
                "event": "MISMATCH",
                "next_state": "UNJOINED",
                "detail": "4 does not match group assignment 6",
                **NAMED,
            },
        ),
        (
            "Kafka Connect worker initializing ...",
            "org.apache.kafka.connect.cli.AbstractConnectCli:114",
            {"kind": "started"},
        ),
    ],
)
def test_a_line_is_this_record(text: str, logger: str, expected: dict[str, Any]) -> None:
    """Lines about the group name their worker; those about units do not."""
    assert said(text, logger) == [expected]


def test_up_to_2_8_a_worker_speaks_with_the_logger_of_its_coordinator() -> None:
    """A sink's consumer does, too; up to 2.4 a single line reports join and synchronisation."""
    logger, agreed = "org.apache.kafka.clients.consumer.internals.AbstractCoordinator", "joined group with generation 7"
    records = [{"kind": kind, **NAMED, "epoch": 7} for kind in (Kind.JOINED, Kind.SYNCED)]
    assert said(f"{CTX}Successfully {agreed}", logger) == records
    lost = "Group coordinator b:9092 (id: 1 rack: null) is unavailable or invalid, will attempt rediscovery"
    assert said(CTX + lost, logger) == [{"kind": Kind.COORDINATOR_LOST, **NAMED}]
    entry = f"{STAMP} INFO [Consumer clientId=c, groupId=g] Successfully {agreed} ({logger})"
    (connect,) = (one for one in formats_of(entry) if one.name == "connect")
    assert connect.parse(entry, UTC) == ()


def test_a_failed_task_tells_its_error() -> None:
    """The first line of the stack trace is the detail."""
    text = "[F|task-0] WorkerSourceTask{id=F-0} Task threw an uncaught and unrecoverable exception. Task"
    trace = "\norg.apache.kafka.connect.errors.ConnectException: planned\n\tat x.Y.z(Y.java:1)"
    (record,) = said(text, TASK, "ERROR", trace)
    assert (record["kind"], record["event"], record["partitions"]) == ("units_failed", "task", [["F", 0]])
    assert record["detail"].endswith("ConnectException: planned")


def test_settings_are_kept_from_the_dump() -> None:
    """Of the settings a worker prints, those that rule its rebalances; the logger ends the dump on its own line."""
    entry = (
        f"{STAMP} INFO DistributedConfig values: \n\tgroup.id = g\n\tsession.timeout.ms = 6000\n\tplugin.path = [x]\n "
        "(org.apache.kafka.common.config.AbstractConfig:384)"
    )
    (record,) = FORMATS[0].parse(entry, UTC) or ()
    assert (record.kind, dict(record.settings)) == (Kind.SETTINGS, {"group.id": "g", "session.timeout.ms": "6000"})


def test_other_lines_have_no_bearing_and_broken_rounds_are_not_understood() -> None:
    """A line of the same class that says nothing of the group, and a result that was cut."""
    assert said(CTX + "Ensuring group membership is still active", HERDER, "DEBUG") == []
    assert (
        FORMATS[0].parse(f"{STAMP} INFO {CTX}Joined group at generation 7 with protocol version 2 and ({HERDER})", UTC)
        is None
    )
    assert FORMATS[0].parse("no time stamp at all", UTC) is None


def test_units_of_two_printed_lists() -> None:
    """Connectors are instances; a task's number stands behind the last hyphen; what has none is passed over."""
    assert partitions("A, b-c", "b-c-0, odd") == (("A", -1), ("b-c", -1), ("b-c", 0))
    assert partitions("", "") == ()


REST = "org.apache.kafka.connect.runtime.rest.RestServer:57"
ACCESS = '127.0.0.1 - - [21/Nov/2026:08:09:27 +0000] "{}" 201 212 "" "Python-urllib/3.11" 3813'


@pytest.mark.parametrize(
    ("request_line", "topics"),
    [
        ("PUT /connectors/my%20conn/config HTTP/1.1", ("my conn",)),
        ("PUT /connectors/A/config?forward=true HTTP/1.1", ("A",)),
        ("POST /connectors HTTP/1.1", None),
    ],
)
def test_the_answer_to_who_configured_a_connector(request_line: str, topics: tuple[str, ...] | None) -> None:
    """Granted requests name the connector, except for one that is named in the body; and how long they took."""
    (record,) = said(ACCESS.format(request_line), REST)
    assert (record["kind"], record["event"], record.get("topics")) == (Kind.CONFIG_TOPIC, "answered", topics)
    assert record["settings"] == {"took_ms": "3813"}


@pytest.mark.parametrize(
    "text",
    [
        ACCESS.format("GET /connectors/A/config HTTP/1.1"),
        ACCESS.format("POST /connectors/A/tasks HTTP/1.1"),
        ACCESS.format("PUT /connectors/A/config HTTP/1.1").replace(" 201 ", " 409 "),
    ],
)
def test_other_requests_have_no_bearing(text: str) -> None:
    """Reads, what workers tell each other, and refusals."""
    assert said(text, REST) == []


def test_a_tasks_producer_is_named_by_its_client_id() -> None:
    """The line belongs to the worker, whose name it does not hold."""
    text = "[A|task-1] [Producer clientId=connector-producer-A-1] Closing the Kafka producer with timeoutMillis = 0 ms."
    assert said(text, "org.apache.kafka.clients.producer.KafkaProducer:1394") == [
        {"kind": Kind.UNITS_STOPPED, "event": "producer", "partitions": [["A", 1]]}
    ]
    other = text.replace("connector-producer-A-1", "orders-7").removeprefix("[A|task-1] ")
    assert said(other, "org.apache.kafka.clients.producer.KafkaProducer:1394") == []


def test_what_the_herder_is_about_to_start_and_how_many_tasks_there_may_be() -> None:
    """An intention is told apart from a start; a connector's settings name it."""
    assert said(CTX + "Starting task my-conn-3", HERDER) == [
        {"kind": Kind.UNITS_STARTED, **NAMED, "event": "asked", "partitions": [["my-conn", 3]]}
    ]
    dump = "[A|worker] SourceConnectorConfig values: \n\tname = A\n\ttasks.max = 2\n\ttasks.max.enforce = true\n"
    assert said(dump, "org.apache.kafka.common.config.AbstractConfig:384") == [
        {"kind": Kind.SETTINGS, "topics": ("A",), "settings": {"tasks.max": "2"}}
    ]
