"""Logs of Kafka Connect workers in distributed mode, 3.x and 4.x, at INFO and DEBUG.

Read are the lines of the herder, the group member, the worker that runs units, and the answers to requests that
configure a connector. Lines about units and requests name no worker: they belong to the only worker that writes to
their file. A round's result is a `TARGET` whose `full` is all that the
worker holds after it, with `leader`, `offset`, `error`, `version` and `delay_ms` as settings. What a leader computed
from what stands in its DEBUG lines, which `fsm.connect.recorded` reads.

Units are (connector, task), the instance of a connector being task -1. Every record has the machine `connect-worker`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import Any, NamedTuple
from urllib.parse import unquote

from fsm.logs import Format
from fsm.logs.java_layouts import KAFKA_HEADER, Message, kafka
from fsm.logs.java_messages import record
from fsm.trace import Kind, Partition, TraceRecord

MACHINE = "connect-worker"
INSTANCE = -1
"""Task number that stands for the instance of a connector."""

Records = Sequence[TraceRecord]
Build = Callable[[Message, "re.Match[str]"], "Records | None"]

ASSIGNMENT = (
    r"Assignment\{error=(?P<error>\d+), leader='(?P<leader>[^']*)', leaderUrl='(?P<url>[^']*)', "
    r"offset=(?P<offset>-?\d+), connectorIds=\[(?P<connectors>[^\]]*)\], taskIds=\[(?P<tasks>[^\]]*)\]"
    r"(?:, revokedConnectorIds=\[(?P<revoked_connectors>[^\]]*)\], revokedTaskIds=\[(?P<revoked_tasks>[^\]]*)\], "
    r"delay=(?P<delay_ms>\d+))?\}"
)
"""An assignment as every class of Connect prints it; the eager one has no revocations and no delay."""
_CONTEXT = re.compile(r"\[[^\]\n]{1,500}\|[^\]\n]{1,60}\] ")
"""What Connect's layout puts before the lines of connectors and tasks."""


class Rule(NamedTuple):
    """A message and what it means."""

    pattern: re.Pattern[str]
    build: Build


def partitions(connectors: str, tasks: str) -> tuple[Partition, ...]:
    """The units of two printed lists, in their order; connectors' names may hold hyphens, the last one ends them."""
    found = [(name, INSTANCE) for name in connectors.split(", ") if name]
    for text in tasks.split(", "):
        connector, _, number = text.rpartition("-")
        if connector and number.isdecimal():
            found.append((connector, int(number)))
    return tuple(found)


def _record(message: Message, kind: Kind, **fields: Any) -> Records:
    return (record(message, kind, machine=MACHINE, **fields),)


def _says(kind: Kind, **fields: Any) -> Build:
    """One record; named groups of the pattern fill `member_id`, `epoch` and `detail`."""

    def build(message: Message, match: re.Match[str]) -> Records:
        named: dict[str, Any] = {name: text for name, text in match.groupdict().items() if text is not None}
        if "epoch" in named:
            named["epoch"] = int(named["epoch"])
        return _record(message, kind, **named, **fields)

    return build


def _goes(event: str, state: str = "", next_state: str = "") -> Build:
    """A step of the worker's table, as far as the line tells."""
    return _says(Kind.TRANSITION, event=event, state=state, next_state=next_state)


def _unit(kind: Kind, **fields: Any) -> Build:
    """A record about the unit that the pattern names as `connector` or as `task`."""

    def build(message: Message, match: re.Match[str]) -> Records | None:
        named = match.groupdict()
        found = partitions(named.get("connector") or "", named.get("task") or "")
        detail = {"detail": message.error} if message.error else {}
        return _record(message, kind, partitions=found, **{**detail, **fields}) if found else None

    return build


def _round(message: Message, match: re.Match[str]) -> Records:
    """What the worker holds after a round; the units it lost to others come as revoked."""
    settings = {name: match[name] or "0" for name in ("error", "leader", "offset", "version", "delay_ms")}
    return _record(
        message,
        Kind.TARGET,
        epoch=int(match["epoch"]),
        full=partitions(match["connectors"], match["tasks"]),
        revoked=partitions(match["revoked_connectors"] or "", match["revoked_tasks"] or ""),
        settings=settings,
    )


def _joined(message: Message, match: re.Match[str]) -> Records:
    epoch, protocol = int(match["epoch"]), {"protocol": match["protocol"]}
    return _record(message, Kind.JOINED, epoch=epoch, member_id=match["member_id"], settings=protocol)


def _config(event: str) -> Build:
    """What a record of the config topic says."""

    def build(message: Message, match: re.Match[str]) -> Records:
        named = match.groupdict()
        tasks = partitions("", named.get("tasks") or "")
        connectors = {name for name, _ in tasks} | ({named["connector"]} if "connector" in named else set())
        return _record(message, Kind.CONFIG_TOPIC, event=event, topics=tuple(sorted(connectors)), partitions=tasks)

    return build


def _answered(message: Message, match: re.Match[str]) -> Records:
    """A request that configures a connector was granted; a new one may be named in its body alone."""
    named = match.groupdict()
    topics = (unquote(named["connector"]),) if named.get("connector") else ()
    settings = {"took_ms": match["took_ms"]}
    return _record(message, Kind.CONFIG_TOPIC, event="answered", topics=topics, settings=settings)


def _producer_closes(message: Message, _match: re.Match[str]) -> Records | None:
    """A source task's thread closes its producer, whose client id is the only name in the line."""
    task = partitions("", message.client_id.removeprefix("connector-producer-"))
    if not task or not message.client_id.startswith("connector-producer-"):
        return ()
    of_worker = message._replace(client="", group="", client_id="")
    return _record(of_worker, Kind.UNITS_STOPPED, event="producer", partitions=task)


def _settings(message: Message, _match: re.Match[str]) -> Records:
    """The settings a worker prints when it starts."""
    found = dict(_SETTING.findall(message.text))
    kept = {name: value for name, value in found.items() if name in SETTINGS}
    return _record(message, Kind.SETTINGS, settings=kept)


def _connector_settings(message: Message, _match: re.Match[str]) -> Records | None:
    """How many tasks a connector may have, as its worker prints it before the connector starts."""
    found = dict(_SETTING.findall(message.text))
    if "name" not in found or "tasks.max" not in found:
        return ()
    settings = {"tasks.max": found["tasks.max"]}
    return _record(message, Kind.SETTINGS, topics=(found["name"],), settings=settings)


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


def _rules(*pairs: tuple[str, Build]) -> tuple[Rule, ...]:
    return tuple(Rule(re.compile(pattern, re.ASCII), build) for pattern, build in pairs)


_ID = r"(?P<member_id>[^']{0,300})"
_COORDINATOR = _rules(
    (r"Discovered group coordinator ", _says(Kind.COORDINATOR_FOUND)),
    (
        r"Group coordinator .{0,300}? is unavailable or invalid due to cause: (?P<detail>.{0,400}?)\. isDisconnected",
        _says(Kind.COORDINATOR_LOST),
    ),
    (r"Rebalance started", _says(Kind.JOINING, event="JOIN_DUE")),
    (r"\(Re-\)joining group", _says(Kind.JOINING)),
    (
        r"Successfully joined group with generation Generation\{generationId=(?P<epoch>-?\d{1,9}), memberId='"
        + _ID
        + r"', protocol='(?P<protocol>[^']*)'",
        _joined,
    ),
    (
        r"Successfully synced group in generation Generation\{generationId=(?P<epoch>-?\d{1,9}), memberId='" + _ID,
        _says(Kind.SYNCED),
    ),
    (
        r"Sending Heartbeat request with generation (?P<epoch>-?\d{1,9}) and member id (?P<member_id>\S{0,300}) to ",
        _says(Kind.HEARTBEAT_SENT),
    ),
    (r"Received successful Heartbeat response", _says(Kind.HEARTBEAT_OK)),
    (
        r"Broker coordinator was unreachable for \d+ms\. Revoking previous assignment",
        _goes("DISCOVERY_FAILED_HOLDING", "DISCONNECTED", "DISCONNECTED"),
    ),
    (
        r"Member (?P<member_id>\S{1,300}) sending LeaveGroup request to coordinator .{0,300}? due to (?P<detail>.*)",
        _says(Kind.LEAVE_SENT),
    ),
    (r"Resetting generation (?:and member id )?due to: (?P<detail>.{0,400})", _says(Kind.GENERATION_RESET)),
    (r"Request joining group due to: rebalance failed due to (?P<detail>.{0,400})", _says(Kind.ERROR)),
)
_HERDER = _rules(
    (r"Herder starting", _goes("START", "DOWN", "DISCONNECTED")),
    (
        r"Joined group at generation (?P<epoch>-?\d{1,9}) with protocol version (?P<version>\d+) and got assignment: "
        + ASSIGNMENT,
        _round,
    ),
    (r"Joined group at generation ", lambda _message, _match: None),
    (r"Finished stopping tasks in preparation for rebalance", _says(Kind.REVOKE_END)),
    (r"Starting connectors and tasks using config offset ", _goes("", "", "STARTING")),
    (r"Starting connector (?P<connector>.{1,300})$", _unit(Kind.UNITS_STARTED, event="asked")),
    (r"Starting task (?P<task>.{1,300})$", _unit(Kind.UNITS_STARTED, event="asked")),
    (r"Finished starting connectors and tasks", _goes("STARTED", "STARTING")),
    (r"Catching up to assignment's config offset\.", _goes("", "", "CATCHING_UP")),
    (r"Finished reading to end of log and updated config snapshot", _says(Kind.TRANSITION, detail="read to end")),
    (r"Didn't reach end of config log quickly enough", _goes("CATCH_UP_TIMED_OUT", "CATCHING_UP")),
    (
        r"Current config state offset (?P<detail>-?\d+ does not match group assignment -?\d+)\. Forcing rebalance",
        _goes("MISMATCH", "", "UNJOINED"),
    ),
    (r"worker poll timeout has expired", _goes("POLL_TIMEOUT")),
    (r"Requesting rebalance because scheduled rebalance timeout", _goes("DELAY_REACHED")),
    (r"Connector (?P<connector>.{1,300}) config updated$", _config("config")),
    (r"Connector (?P<connector>.{1,300}) config removed$", _config("removed")),
    (r"Connector (?P<connector>.{1,300}) target state change$", _config("target")),
    (r"Tasks \[(?P<tasks>[^\]]*)\] configs updated", _config("tasks")),
    (r"Herder stopping", _says(Kind.CLOSE_BEGIN)),
    (r"Herder stopped", _says(Kind.CLOSE_END)),
    (r"Uncaught exception in herder work thread", _says(Kind.FATAL)),
    (
        r"(?:Failed to start connector|Couldn't instantiate connector) '?(?P<connector>[^']{1,300})'?",
        _unit(Kind.UNITS_FAILED, event="start"),
    ),
)
_WORKER = _rules(
    (r"Finished creating connector (?P<connector>.{1,300})$", _unit(Kind.UNITS_STARTED)),
    (r"Stopping connector (?P<connector>.{1,300})$", _unit(Kind.UNITS_STOPPING)),
    (r"Stopping task (?P<task>.{1,300})$", _unit(Kind.UNITS_STOPPING)),
    (r"Graceful stop of task (?P<task>.{1,300}) failed\.", _unit(Kind.UNITS_FAILED, event="stop")),
)
_UNITS = _rules(
    (
        r"Worker\w{1,40}Task\{id=(?P<task>[^}]{1,300})\} \w+ task finished initialization and start",
        _unit(Kind.UNITS_STARTED),
    ),
    (
        r"Worker\w{1,40}Task\{id=(?P<task>[^}]{1,300})\} Task threw an uncaught and unrecoverable exception",
        _unit(Kind.UNITS_FAILED, event="task"),
    ),
    (
        r"WorkerConnector\{id=(?P<connector>[^}]{1,300})\} Error while starting connector",
        _unit(Kind.UNITS_FAILED, event="start"),
    ),
    (r"Completed shutdown for WorkerConnector\{id=(?P<connector>[^}]{1,300})\}", _unit(Kind.UNITS_STOPPED)),
)
# The admin client and the consumer of a task are closed when its thread ends; its producer may go before.
_APP_INFO = _rules(
    (
        r"App info kafka\.\S{1,20} for connector-(?:adminclient|consumer)-(?P<task>.{1,300}) unregistered",
        _unit(Kind.UNITS_STOPPED),
    ),
)
_BEGIN = _rules(
    (r"Kafka Connect worker initializing", _says(Kind.STARTED)),
    (r"DistributedConfig values:", _settings),
    (r"S(?:ource|ink)ConnectorConfig values:", _connector_settings),
)
_REQUEST = (
    r'"(?:PUT /connectors/(?P<connector>[^/?" ]{1,900})/config|POST /connectors/?)(?:\?[^" ]{0,900})? HTTP/[\d.]{1,5}"'
)
_REST = _rules(
    (
        r"\S{1,300} \S{1,300} \S{1,300} \[[^\]]{1,60}\] "
        + _REQUEST
        + r" 20[01] \S{1,20} .{0,900} (?P<took_ms>\d{1,9})$",
        _answered,
    ),
)
_PRODUCER = _rules((r"Closing the Kafka producer", _producer_closes))

RULES = {
    "WorkerCoordinator": _COORDINATOR,
    "DistributedHerder": _HERDER,
    "Worker": _WORKER,
    "WorkerConnector": _UNITS,
    "WorkerTask": _UNITS,
    "AbstractWorkerSourceTask": _UNITS,
    "WorkerSourceTask": _UNITS,
    "ExactlyOnceWorkerSourceTask": _UNITS,
    "WorkerSinkTask": _UNITS,
    "AbstractConnectCli": _BEGIN,
    "ConnectDistributed": _BEGIN,
    "AbstractConfig": _BEGIN,
    "AppInfoParser": _APP_INFO,
    "KafkaProducer": _PRODUCER,
    "RestServer": _REST,
}
"""What the lines of each class mean; other lines of these classes have no bearing."""

_CANDIDATE = re.compile(  # begins with a literal: the search runs over every line of every log
    rb" \(org\.apache\.kafka\.(?:connect\.(?:runtime|cli)\.(?:distributed\.|rest\.)?(?:"
    + "|".join(sorted(RULES)).encode()
    + rb")|common\.(?:config\.AbstractConfig|utils\.AppInfoParser)|clients\.producer\.KafkaProducer)"
    rb"(?::\d{1,6})?\)(?:\n|\Z)"
)


def parse(entry: str, zone: tzinfo) -> Records | None:
    """The records of an entry: none where the line has no bearing, None where it is one that was not understood."""
    message = kafka(entry, zone)
    if message is None:
        return None
    text = _CONTEXT.sub("", message.text, count=1) if message.text.startswith("[") else message.text
    for rule in RULES.get(message.logger, ()):
        match = rule.pattern.match(text)
        if match:
            return rule.build(message, match)
    return ()


FORMATS = (Format("connect", "kafka", b"[", KAFKA_HEADER, _CANDIDATE, parse),)
