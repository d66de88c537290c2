"""Writes trace records as logs of Connect workers: the inverse of `connect_worker`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fsm.logs.message import Message
from fsm.logs.programs.connect_worker import INSTANCE
from fsm.logs.writing.java_writing import NODE, Words
from fsm.trace import Kind, Partition, TraceRecord

RUNTIME = "org.apache.kafka.connect.runtime."
HERDER, COORDINATOR = f"{RUNTIME}distributed.DistributedHerder", f"{RUNTIME}distributed.WorkerCoordinator"
"""These classes put the worker's name before their messages."""


_COMMON = "org.apache.kafka.common."
_CONNECTOR, _TASK = "connector", "task"
_GENERATION = "Generation{{generationId={epoch}, memberId='{member_id}', protocol='{protocol}'}}"
_ASSIGNMENT = (
    "Assignment{{error={error}, leader='{leader}', leaderUrl='', offset={offset}, connectorIds=[{connectors}], "
    "taskIds=[{tasks}], revokedConnectorIds=[{revoked_connectors}], revokedTaskIds=[{revoked_tasks}], "
    "delay={delay_ms}}}"
)
_UNAVAILABLE = (
    f"Group coordinator {NODE} is unavailable or invalid due to cause: null. isDisconnected: true. "
    "Rediscovery will be attempted."
)
# fmt: off
RECORDS: dict[tuple[Kind, str], Words] = {(kind, event): Words(*words) for kind, event, *words in (
    (Kind.STARTED, "", "INFO", "org.apache.kafka.connect.cli.AbstractConnectCli",
     "Kafka Connect worker initializing ..."),
    (Kind.SETTINGS, "", "INFO", f"{_COMMON}config.AbstractConfig", "DistributedConfig values: {settings}\n"),
    (Kind.COORDINATOR_FOUND, "", "INFO", COORDINATOR, f"Discovered group coordinator {NODE}"),
    (Kind.COORDINATOR_LOST, "", "INFO", COORDINATOR, _UNAVAILABLE),
    (Kind.JOINING, "JOIN_DUE", "INFO", COORDINATOR, "Rebalance started"),
    (Kind.JOINING, "", "INFO", COORDINATOR, "(Re-)joining group"),
    (Kind.JOINED, "", "INFO", COORDINATOR, f"Successfully joined group with generation {_GENERATION}"),
    (Kind.SYNCED, "", "INFO", COORDINATOR, f"Successfully synced group in generation {_GENERATION}"),
    (Kind.HEARTBEAT_SENT, "", "DEBUG", COORDINATOR,
     "Sending Heartbeat request with generation {epoch} and member id {member_id} to coordinator"),
    (Kind.HEARTBEAT_OK, "", "DEBUG", COORDINATOR, "Received successful Heartbeat response"),
    (Kind.LEAVE_SENT, "", "INFO", COORDINATOR,
     f"Member {{member_id}} sending LeaveGroup request to coordinator {NODE} due to {{detail}}"),
    (Kind.TARGET, "", "INFO", HERDER,
     f"Joined group at generation {{epoch}} with protocol version {{version}} and got assignment: {_ASSIGNMENT}"),
    (Kind.REVOKE_END, "", "INFO", HERDER, "Finished stopping tasks in preparation for rebalance"),
    (Kind.TRANSITION, "START", "INFO", HERDER, "Herder starting"),
    (Kind.TRANSITION, "STARTED", "INFO", HERDER, "Finished starting connectors and tasks"),
    (Kind.TRANSITION, "POLL_TIMEOUT", "WARN", HERDER, "worker poll timeout has expired."),
    (Kind.TRANSITION, "DELAY_REACHED", "DEBUG", HERDER,
     "Requesting rebalance because scheduled rebalance timeout has been reached"),
    (Kind.TRANSITION, "MISMATCH", "INFO", HERDER,
     "Current config state offset -1 does not match group assignment {offset}. Forcing rebalance."),
    (Kind.TRANSITION, "CATCH_UP_TIMED_OUT", "WARN", HERDER, "Didn't reach end of config log quickly enough"),
    (Kind.TRANSITION, "DISCOVERY_FAILED_HOLDING", "INFO", COORDINATOR,
     "Broker coordinator was unreachable for 3000ms. Revoking previous assignment"),
    (Kind.TRANSITION, "to STARTING", "INFO", HERDER, "Starting connectors and tasks using config offset {offset}"),
    (Kind.TRANSITION, "to CATCHING_UP", "WARN", HERDER, "Catching up to assignment's config offset."),
    (Kind.CONFIG_TOPIC, "config", "INFO", HERDER, "Connector {topics} config updated"),
    (Kind.CONFIG_TOPIC, "removed", "INFO", HERDER, "Connector {topics} config removed"),
    (Kind.CONFIG_TOPIC, "target", "INFO", HERDER, "Connector {topics} target state change"),
    (Kind.CONFIG_TOPIC, "tasks", "INFO", HERDER, "Tasks [{added_tasks}] configs updated"),
    (Kind.CLOSE_BEGIN, "", "INFO", HERDER, "Herder stopping"),
    (Kind.CLOSE_END, "", "INFO", HERDER, "Herder stopped"),
    (Kind.FATAL, "", "ERROR", HERDER, "Uncaught exception in herder work thread, exiting: {detail}"),
)}
"""By kind and event; for a step of the worker's table without an event, by its target state."""

UNITS: dict[tuple[Kind, str, str], Words] = {
    (kind, event, what): Words("INFO", logger, text) for kind, event, what, logger, text in (
    (Kind.UNITS_STARTED, "asked", _CONNECTOR, HERDER, "Starting connector {unit}"),
    (Kind.UNITS_STARTED, "asked", _TASK, HERDER, "Starting task {unit}"),
    (Kind.UNITS_STARTED, "", _CONNECTOR, f"{RUNTIME}Worker", "Finished creating connector {unit}"),
    (Kind.UNITS_STARTED, "", _TASK, f"{RUNTIME}AbstractWorkerSourceTask",
     "WorkerSourceTask{{id={unit}}} Source task finished initialization and start"),
    (Kind.UNITS_STOPPING, "", _CONNECTOR, f"{RUNTIME}Worker", "Stopping connector {unit}"),
    (Kind.UNITS_STOPPING, "", _TASK, f"{RUNTIME}Worker", "Stopping task {unit}"),
    (Kind.UNITS_STOPPED, "", _CONNECTOR, f"{RUNTIME}WorkerConnector",
     "Completed shutdown for WorkerConnector{{id={unit}}}"),
    (Kind.UNITS_STOPPED, "", _TASK, f"{_COMMON}utils.AppInfoParser",
     "App info kafka.admin.client for connector-adminclient-{unit} unregistered"),
)}
"""By kind, event and type of unit."""
# fmt: on


def write_connect(records: Iterable[TraceRecord]) -> Iterator[Message]:
    """The messages of the records of one worker's name, whose processes run one after another."""
    protocol, offset = "", "-1"
    for record in records:
        protocol = record.settings.get("protocol", protocol)
        if record.kind is Kind.TARGET:
            offset = record.settings["offset"]
        values = _collect_values(record, protocol, offset)
        words = _find_words(record)
        if words is not None:
            yield _make_message(record, words, values)
        if record.kind in _ABOUT_UNITS:
            for unit in record.partitions:
                what = _CONNECTOR if unit[1] == INSTANCE else _TASK
                own = UNITS.get((record.kind, record.event, what))
                if own is not None:
                    yield _make_message(record, own, {"unit": _format_name(unit)}, _get_context(unit))


def _find_words(record: TraceRecord) -> Words | None:
    is_state = record.kind is Kind.TRANSITION and not record.event
    return RECORDS.get((record.kind, f"to {record.next_state}" if is_state else record.event))


_ABOUT_UNITS = frozenset(kind for kind, _, _ in UNITS)


def _make_message(record: TraceRecord, words: Words, values: dict[str, object], context: str = "") -> Message:
    prefix = f"[Worker clientId={record.client_id}, groupId={record.group}] "
    before = prefix if words.logger in (HERDER, COORDINATOR) else context
    return Message(record.ts_ms, before + words.text.format_map(values), words.level, words.logger)


def _collect_values(record: TraceRecord, protocol: str, offset: str) -> dict[str, object]:
    """The values of all placeholders."""
    full = record.full or ()
    return {
        **record.settings,
        "epoch": record.epoch,
        "member_id": record.member_id,
        "detail": record.detail,
        "protocol": protocol,
        "offset": offset,
        "topics": ", ".join(record.topics),
        "settings": "".join(f"\n\t{name} = {value}" for name, value in sorted(record.settings.items())),
        "connectors": _format_names(full, is_task=False),
        "tasks": _format_names(full, is_task=True),
        "revoked_connectors": _format_names(record.revoked, is_task=False),
        "revoked_tasks": _format_names(record.revoked, is_task=True),
        "added_tasks": _format_names(record.partitions, is_task=True),
    }


def _format_names(units: Iterable[Partition], *, is_task: bool) -> str:
    return ", ".join(_format_name(unit) for unit in units if (unit[1] != INSTANCE) == is_task)


def _format_name(unit: Partition) -> str:
    return unit[0] if unit[1] == INSTANCE else f"{unit[0]}-{unit[1]}"


def _get_context(unit: Partition) -> str:
    """The context that Connect's layout puts before the lines of a unit."""
    return f"[{unit[0]}|{'worker' if unit[1] == INSTANCE else f'task-{unit[1]}'}] "
