"""Logs of Kafka Connect workers in distributed mode, 3.x and 4.x, at INFO and DEBUG.

Covers the herder, the group member, the worker that runs units, and the responses to requests that configure a
connector. Lines about units and requests do not name the worker: they belong to the only worker that writes to their
file. The result of a round is a `TARGET`: `full` is everything that the worker has afterwards, and the settings are
`leader`, `offset`, `error`, `version` and `delay_ms`. The leader's inputs are in its DEBUG lines, which
`tests/connect/recorded_rounds.py` parses.

Units are (connector, task); the instance of a connector is task -1. Every record has the machine `connect-worker`.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any
from urllib.parse import unquote

from fsm.logs import Client, Format, Message
from fsm.logs.layouts.java_layouts import KAFKA_HEADER, KAFKA_REACH, kafka, reading
from fsm.logs.message import NO_BEARING
from fsm.logs.programs.java_messages import (
    Build,
    JavaMessage,
    Records,
    Rule,
    by_word,
    compile_rules,
    emit,
    ignore,
    of_word,
    parse_message,
    record,
)
from fsm.trace import Kind, Partition

MACHINE = "connect-worker"
INSTANCE = -1
"""The task number of a connector's instance."""

ASSIGNMENT = (
    r"Assignment\{error=(?P<error>\d+), leader='(?P<leader>[^']*)', leaderUrl='(?P<url>[^']*)', "
    r"offset=(?P<offset>-?\d+), connectorIds=\[(?P<connectors>[^\]]*)\], taskIds=\[(?P<tasks>[^\]]*)\]"
    r"(?:, revokedConnectorIds=\[(?P<revoked_connectors>[^\]]*)\], revokedTaskIds=\[(?P<revoked_tasks>[^\]]*)\], "
    r"delay=(?P<delay_ms>\d+))?\}"
)
"""An assignment as printed by all of Connect's classes; the eager one has no revocations and no delay."""
_CONTEXT = re.compile(r"\[[^\]\n]{1,500}\|[^\]\n]{1,60}\] ")
"""The context that Connect's layout puts before the lines of connectors and tasks."""


def partitions(connectors: str, tasks: str) -> tuple[Partition, ...]:
    """The units of two printed lists, in order. A connector's name may contain hyphens; the last one separates the
    task."""
    found = [(name, INSTANCE) for name in connectors.split(", ") if name]
    for text in tasks.split(", "):
        connector, _, number = text.rpartition("-")
        if connector and number.isdecimal():
            found.append((connector, int(number)))
    return tuple(found)


def _make_record(message: JavaMessage, kind: Kind, **fields: Any) -> Records:
    return (record(message, kind, machine=MACHINE, **fields),)


_emit = partial(emit, machine=MACHINE)
_compile = partial(compile_rules, machine=MACHINE)


def _read_step(event: str, state: str = "", next_state: str = "") -> Build:
    """A step of the worker's table, as far as the line shows it."""
    return _emit(Kind.TRANSITION, event=event, state=state, next_state=next_state)


def _read_unit(kind: Kind, **fields: Any) -> Build:
    """A record about the unit in the pattern's group `connector` or `task`."""

    def build(message: JavaMessage, match: re.Match[str]) -> Records | None:
        groups = match.groupdict()
        found = partitions(groups.get("connector") or "", groups.get("task") or "")
        detail = {"detail": message.error} if message.error else {}
        return _make_record(message, kind, partitions=found, **detail, **fields) if found else None

    return build


def _read_round(message: JavaMessage, match: re.Match[str]) -> Records:
    """The worker's units after a round. Those it lost to other workers are recorded as revoked."""
    return _make_record(
        message,
        Kind.TARGET,
        epoch=int(match["epoch"]),
        full=partitions(match["connectors"], match["tasks"]),
        revoked=partitions(match["revoked_connectors"] or "", match["revoked_tasks"] or ""),
        settings={name: match[name] or "0" for name in ("error", "leader", "offset", "version", "delay_ms")},
    )


def _read_join(message: JavaMessage, match: re.Match[str]) -> Records:
    epoch, protocol = int(match["epoch"]), {"protocol": match["protocol"]}
    return _make_record(message, Kind.JOINED, epoch=epoch, member_id=match["member_id"], settings=protocol)


def _read_agreed(message: JavaMessage, match: re.Match[str]) -> Records:
    """Up to Kafka 2.4, a single line reports the join when the generation is synced."""
    epoch = int(match["epoch"])
    return tuple(record(message, kind, machine=MACHINE, epoch=epoch) for kind in (Kind.JOINED, Kind.SYNCED))


def _read_config(event: str) -> Build:
    """A record of the config topic."""

    def build(message: JavaMessage, match: re.Match[str]) -> Records:
        groups = match.groupdict()
        tasks = partitions("", groups.get("tasks") or "")
        connectors = {name for name, _ in tasks} | ({groups["connector"]} if "connector" in groups else set())
        return _make_record(message, Kind.CONFIG_TOPIC, event=event, topics=tuple(sorted(connectors)), partitions=tasks)

    return build


def _read_answer(message: JavaMessage, match: re.Match[str]) -> Records:
    """A successful request that configures a connector; a new connector may be named only in its body."""
    topics = (unquote(match["connector"]),) if match["connector"] else ()
    settings = {"took_ms": match["took_ms"]}
    return _make_record(message, Kind.CONFIG_TOPIC, event="answered", topics=topics, settings=settings)


def _read_producer_close(message: JavaMessage, _match: re.Match[str]) -> Records:
    """A source task's thread closes its producer, whose client id is the only name in the line."""
    prefix = "connector-producer-"
    task = partitions("", message.client_id.removeprefix(prefix)) if message.client_id.startswith(prefix) else ()
    of_worker = message._replace(client="", group="", client_id="")
    return _make_record(of_worker, Kind.UNITS_STOPPED, event="producer", partitions=task) if task else ()


def _read_settings(message: JavaMessage, _match: re.Match[str]) -> Records:
    found = dict(_SETTING.findall(message.text))
    return _make_record(message, Kind.SETTINGS, settings={name: found[name] for name in found if name in SETTINGS})


def _read_connector_settings(message: JavaMessage, _match: re.Match[str]) -> Records:
    """The maximum number of tasks of a connector, which its worker logs before the connector starts."""
    found = dict(_SETTING.findall(message.text))
    if "name" not in found or "tasks.max" not in found:
        return ()
    settings = {"tasks.max": found["tasks.max"]}
    return _make_record(message, Kind.SETTINGS, topics=(found["name"],), settings=settings)


def _reject(_message: JavaMessage, _match: re.Match[str]) -> None:
    return None


_SETTING = re.compile(r"\n\t([a-z.]{1,80}) = ([^\n]{0,200})")
SETTINGS = frozenset(
    {
        "connect.protocol",
        "group.id",
        "heartbeat.interval.ms",
        "rebalance.timeout.ms",
        "scheduled.rebalance.max.delay.ms",
        "session.timeout.ms",
        "task.shutdown.graceful.timeout.ms",
        "worker.sync.timeout.ms",
    }
)
_EPOCH = r"(?P<epoch>-?\d{1,9})"
_GENERATION = rf"Generation\{{generationId={_EPOCH}, memberId='(?P<member_id>[^']{{0,300}})'"
_CONNECTOR, _TASK = r"(?P<connector>.{1,300})", r"(?P<task>.{1,300})"
_NODE = r".{0,300}?"
_WORKER_TASK = r"Worker\w{1,40}Task\{id=(?P<task>[^}]{1,300})\}"
_WORKER_CONNECTOR = r"WorkerConnector\{id=(?P<connector>[^}]{1,300})\}"

# fmt: off
_COORDINATOR = _compile((
    (r"Discovered group coordinator ", Kind.COORDINATOR_FOUND),
    (rf"Group coordinator {_NODE} is unavailable or invalid due to cause: (?P<detail>.{{0,400}}?)\. ?isDisconnected",
     Kind.COORDINATOR_LOST),
    (rf"Group coordinator {_NODE} is unavailable or invalid, will attempt ", Kind.COORDINATOR_LOST),
    (r"Rebalance started", _emit(Kind.JOINING, event="JOIN_DUE")),
    (r"\(Re-\)joining group", Kind.JOINING),
    (rf"Successfully joined group with generation {_GENERATION}, protocol='(?P<protocol>[^']*)'", _read_join),
    (rf"Successfully joined group with generation {_EPOCH}$", _read_agreed),
    (rf"Successfully synced group in generation {_GENERATION}", Kind.SYNCED),
    (rf"Sending Heartbeat request with generation {_EPOCH} and member id (?P<member_id>\S{{0,300}}) to ",
     Kind.HEARTBEAT_SENT),
    (r"Received successful Heartbeat response", Kind.HEARTBEAT_OK),
    (r"Broker coordinator was unreachable for \d+ms\. Revoking previous assignment",
     _read_step("DISCOVERY_FAILED_HOLDING", "DISCONNECTED", "DISCONNECTED")),
    (rf"Member (?P<member_id>\S{{1,300}}) sending LeaveGroup request to coordinator {_NODE} due to (?P<detail>.*)",
     Kind.LEAVE_SENT),
    (r"Resetting generation (?:and member id )?due to: (?P<detail>.{0,400})", Kind.GENERATION_RESET),
    (r"Request joining group due to: rebalance failed due to (?P<detail>.{0,400})", Kind.ERROR),
))
_HERDER = _compile((
    (r"Herder starting", _read_step("START", "DOWN", "DISCONNECTED")),
    (rf"Joined group at generation {_EPOCH} with protocol version (?P<version>\d+) and got assignment: {ASSIGNMENT}",
     _read_round),
    (r"Joined group (?:at generation|and got assignment)", _reject),
    (r"Finished stopping tasks in preparation for rebalance", Kind.REVOKE_END),
    (r"Starting connectors and tasks using config offset ", _read_step("", "", "STARTING")),
    (rf"Starting connector {_CONNECTOR}$", _read_unit(Kind.UNITS_STARTED, event="asked")),
    (rf"Starting task {_TASK}$", _read_unit(Kind.UNITS_STARTED, event="asked")),
    (r"Finished starting connectors and tasks", _read_step("STARTED", "STARTING")),
    (r"Catching up to assignment's config offset\.", _read_step("", "", "CATCHING_UP")),
    (r"Finished reading to end of log and updated config snapshot", _emit(Kind.TRANSITION, detail="read to end")),
    (r"Didn't reach end of config log quickly enough", _read_step("CATCH_UP_TIMED_OUT", "CATCHING_UP")),
    (r"Current config state offset (?P<detail>-?\d+ does not match group assignment -?\d+)\. Forcing rebalance",
     _read_step("MISMATCH", "", "UNJOINED")),
    (r"worker poll timeout has expired", _read_step("POLL_TIMEOUT")),
    (r"Requesting rebalance because scheduled rebalance timeout", _read_step("DELAY_REACHED")),
    (rf"Connector {_CONNECTOR} config updated$", _read_config("config")),
    (rf"Connector {_CONNECTOR} config removed$", _read_config("removed")),
    (rf"Connector {_CONNECTOR} target state change$", _read_config("target")),
    (r"Tasks \[(?P<tasks>[^\]]*)\] configs updated", _read_config("tasks")),
    (r"Herder stopping", Kind.CLOSE_BEGIN),
    (r"Herder stopped", Kind.CLOSE_END),
    (r"Uncaught exception in herder work thread", Kind.FATAL),
    (r"(?:Failed to start connector|Couldn't instantiate connector) '?(?P<connector>[^']{1,300})'?",
     _read_unit(Kind.UNITS_FAILED, event="start")),
))
_WORKER = _compile((
    (rf"Finished creating connector {_CONNECTOR}$", _read_unit(Kind.UNITS_STARTED)),
    (rf"Stopping connector {_CONNECTOR}$", _read_unit(Kind.UNITS_STOPPING)),
    (rf"Stopping task {_TASK}$", _read_unit(Kind.UNITS_STOPPING)),
    (rf"Graceful stop of task {_TASK} failed\.", _read_unit(Kind.UNITS_FAILED, event="stop")),
))
_UNITS = _compile((
    (rf"{_WORKER_TASK} \w+ task finished initialization and start", _read_unit(Kind.UNITS_STARTED)),
    (rf"{_WORKER_TASK} Task threw an uncaught and unrecoverable exception",
     _read_unit(Kind.UNITS_FAILED, event="task")),
    (rf"{_WORKER_CONNECTOR} Error while starting connector", _read_unit(Kind.UNITS_FAILED, event="start")),
    (rf"Completed shutdown for {_WORKER_CONNECTOR}", _read_unit(Kind.UNITS_STOPPED)),
))
# A task's admin client and consumer are closed when its thread ends; its producer may be closed earlier.
_APP_INFO = _compile((
    (rf"App info kafka\.\S{{1,20}} for connector-(?:adminclient|consumer)-{_TASK} unregistered",
     _read_unit(Kind.UNITS_STOPPED)),
))
_START = _compile((
    (r"Kafka Connect worker initializing", Kind.STARTED),
    (r"DistributedConfig values:", _read_settings),
    (r"S(?:ource|ink)ConnectorConfig values:", _read_connector_settings),
))
_REST = _compile((
    *ignore(r'\S{1,300} \S{1,300} \S{1,300} \[[^\]]{1,60}\] "GET '),
    ((r"\S{1,300} \S{1,300} \S{1,300} \[[^\]]{1,60}\] "
      r'"(?:PUT /connectors/(?P<connector>[^/?" ]{1,900})/config|POST /connectors/?)(?:\?[^" ]{0,900})? '
      r'HTTP/[\d.]{1,5}" 20[01] \S{1,20} .{0,900} (?P<took_ms>\d{1,9})$'), _read_answer),
))
# fmt: on

RULES: dict[str, tuple[Rule, ...]] = {
    "AbstractCoordinator": _COORDINATOR,  # up to Kafka 2.8
    "WorkerCoordinator": _COORDINATOR,
    "DistributedHerder": _HERDER,
    "Worker": _WORKER,
    "WorkerConnector": _UNITS,
    "WorkerTask": _UNITS,
    "AbstractWorkerSourceTask": _UNITS,
    "WorkerSourceTask": _UNITS,
    "ExactlyOnceWorkerSourceTask": _UNITS,
    "WorkerSinkTask": _UNITS,
    "AbstractConnectCli": _START,
    "ConnectDistributed": _START,
    "AbstractConfig": _START,
    "AppInfoParser": _APP_INFO,
    "KafkaProducer": _compile([(r"Closing the Kafka producer", _read_producer_close)]),
    "RestServer": _REST,
}
"""The rules for each class; other lines of these classes are ignored."""

_BY_WORD = {name: by_word(rules) for name, rules in RULES.items()}

_CANDIDATE = re.compile(  # a literal prefix makes the search fast, which runs over every line
    rb" \(org\.apache\.kafka\.(?:clients\.consumer\.internals\.AbstractCoordinator"
    rb"|connect\.(?:runtime|cli)\.(?:distributed\.|rest\.)?(?:"
    + "|".join(sorted(RULES)).encode()
    + rb")|common\.(?:config\.AbstractConfig|utils\.AppInfoParser)|clients\.producer\.KafkaProducer)"
    rb"(?::\d{1,6})?\)"
)


def understand(entry: Message) -> Records | None:
    """The records of a message: `()` if it is ignored, None if it was not understood."""
    message = parse_message(entry)
    text = _CONTEXT.sub("", message.text, count=1) if message.text.startswith("[") else message.text
    if message.client not in {"", _PREFIXES.get(message.logger, message.client)}:
        return NO_BEARING
    unknown = not message.logger and not message.cut  # the layout has no loggers
    rules = _BY_PREFIX.get(message.client, ()) if unknown else of_word(_BY_WORD.get(message.logger, {}), text)
    for one in rules:
        match = one.pattern.match(text)
        if match:
            return one.build(message, match)
    return () if unknown or message.logger == "RestServer" else NO_BEARING


_PREFIXES = {
    "AbstractCoordinator": "Worker",
    "WorkerCoordinator": "Worker",
    "DistributedHerder": "Worker",
    "KafkaProducer": "Producer",
}
"""The name in the log prefix of a class's messages; other classes have no prefix."""
_BY_PREFIX = {
    prefix: tuple(dict.fromkeys(one for name in RULES if _PREFIXES.get(name, "") == prefix for one in RULES[name]))
    for prefix in ("Worker", "Producer", "")
}

CLIENT = Client(
    "connect",
    (
        b"App info kafka.",
        b"ConnectorConfig values:",
        b"Couldn't instantiate connector ",
        b"DistributedConfig values:",
        b"Failed to start connector ",
        b"Finished creating connector ",
        b"Graceful stop of task ",
        b"Kafka Connect worker initializing",
        b"Producer clientId=connector-producer-",
        b"Task{id=",
        b"Worker clientId=",
        b"WorkerConnector{id=",
    ),
    understand,
    everyday_marks=(b"Stopping connector ", b"Stopping task ", b"connectors"),
)

_NEEDLES = tuple(f".{name}".encode() for name in RULES)
FORMATS = (Format("connect", "kafka", b"[", KAFKA_HEADER, _CANDIDATE, reading(kafka, CLIENT), _NEEDLES, KAFKA_REACH),)
