"""`TraceRecord`: one thing a machine or its application did, as logs tell it and as `bind` writes it.

One record is one JSON object on one line. The same record comes from our own machines (through structlog),
from every log parser in `fsm.logs`, and goes into the audit. Fields that a source cannot tell keep their
default, and defaults are left out of the JSON. `SCHEMA` numbers the form; a reader refuses a newer one.

A record says what was *seen*. It does not say what follows from it: that is the audit's work.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from fsm.errors import InputError

SCHEMA = 1
"""Version of the JSON form. Raised when a field changes its meaning; new optional fields do not raise it."""

Partition = tuple[str, int]
"""(topic, partition)"""


class Kind(StrEnum):
    """What a record is about. `thread` matters: callbacks are the application's, the rest the background's."""

    TRANSITION = "transition"
    """A machine went from `state` to `next_state` (equal for a self transition); `event` where the source tells."""
    STARTED = "started"
    """A consumer object came into being: a new incarnation of (group, client_id). `settings` holds what was printed."""
    VERSION = "version"
    """The client library's version in `settings["version"]`; often without group or client_id."""
    MEMBER_ID = "member_id"
    """The member's id is `member_id` from here on (it may change in classic groups)."""
    SUBSCRIBED = "subscribed"
    """The application subscribed: to `topics`, and to what the pattern in `detail` matches."""
    EFFECTIVE_TOPICS = "effective_topics"
    """Existing topics that the subscription means (librdkafka's classic members name topics this way alone): an empty
    `topics` starts the list anew, others add to it."""
    UNSUBSCRIBED = "unsubscribed"
    """The application unsubscribed."""
    JOINING = "joining"
    """A join was sent, or decided on, for the reason in `detail`."""
    JOINED = "joined"
    """The coordinator accepted the member; `epoch` is the member epoch or the generation."""
    SYNCED = "synced"
    """Classic only: the generation `epoch` is agreed."""
    HEARTBEAT_SENT = "heartbeat_sent"
    """A heartbeat request left with `epoch`."""
    HEARTBEAT_OK = "heartbeat_ok"
    """A heartbeat was answered without error, with `epoch`."""
    HEARTBEAT_GIVEN_UP = "heartbeat_given_up"
    """The client gave up a heartbeat that was on its way: its connection ended, or nothing answered in time."""
    TARGET = "target"
    """The coordinator gave a new target assignment; `full` where it is readable."""
    RECONCILING = "reconciling"
    """A reconciliation begins: `full` is what will be owned, `partitions` is added, `revoked` is taken away."""
    REVOKE_DECIDED = "revoke_decided"
    """The background thread decided to revoke `partitions`; the application has not been told yet."""
    REVOKE_BEGIN = "revoke_begin"
    """The revoked callback starts for `partitions`."""
    REVOKE_END = "revoke_end"
    """The revoked callback returned; `partitions` where the source repeats them."""
    ASSIGN_BEGIN = "assign_begin"
    """The assigned callback starts for the added `partitions`: the application owns them from here."""
    ASSIGN_END = "assign_end"
    """The assigned callback returned."""
    LOST_DECIDED = "lost_decided"
    """The client counts its assignment as lost, for the reason in `detail`. The application has not been told yet, and
    may never be: where no `LOST_END` follows, there was no callback."""
    LOST_BEGIN = "lost_begin"
    """The lost callback starts for `partitions`."""
    LOST_END = "lost_end"
    """The lost callback returned."""
    OWNED = "owned"
    """The application owns exactly `full` now, whatever was said before."""
    ADDED = "added"
    """`partitions` entered the assignment inside the client, once the application had accepted them."""
    DROPPED = "dropped"
    """`partitions` left the assignment inside the client; a callback may or may not have told the application."""
    CALLBACK_FAILED = "callback_failed"
    """The callback named in `event` (`assigned`, `revoked`, `lost`) raised; `detail` is its error."""
    POLL_EXPIRED = "poll_expired"
    """max.poll.interval passed without a poll and the client acts on it."""
    POLL_LATE = "poll_late"
    """The application polls again after that."""
    FENCED = "fenced"
    """The coordinator no longer knows this member or its epoch; `detail` is the error name."""
    FATAL = "fatal"
    """An error that ends the membership for good; `detail` is the error name."""
    ERROR = "error"
    """Any other error that concerns the membership; `detail` says which."""
    COORDINATOR_LOST = "coordinator_lost"
    COORDINATOR_FOUND = "coordinator_found"
    GENERATION_RESET = "generation_reset"
    """Classic only: generation and, mostly, member id are given up, for the reason in `detail`."""
    LEAVE_BEGIN = "leave_begin"
    """The client says that it leaves the group, for the reason in `detail`."""
    LEAVE_SENT = "leave_sent"
    """The leave request left."""
    LEFT = "left"
    """The coordinator confirmed, or the client counts itself out of the group."""
    COMMIT_FAILED = "commit_failed"
    """An offset commit was refused or timed out; `detail` is the error."""
    CLOSE_BEGIN = "close_begin"
    """The application closes its consumer."""
    CLOSE_END = "close_end"
    """The consumer is closed."""
    GROUP_EPOCH = "group_epoch"
    """Coordinator: the group's epoch is `epoch` from here on."""
    TARGET_COMPUTED = "target_computed"
    """Coordinator: the target assignment for `epoch` was computed by the assignor in `detail`."""
    MEMBER_STATE = "member_state"
    """Coordinator: it counts the member in `next_state` at `epoch`, with `full` assigned and `revoked` still to be
    given up; topics by their ids where the source knows no names."""
    TOPIC_NAMES = "topic_names"
    """Coordinator: `settings` names topics by their ids, by which it calls them elsewhere."""
    GROUP_STATE = "group_state"
    """Coordinator: the group is one of `machine` and, where the source tells, in `next_state`; `epoch` is its epoch or
    generation, `detail` the reason."""
    UNITS_STARTED = "units_started"
    """Connect: `partitions` run from here; the connector is the topic, a task its number, the instance -1."""
    UNITS_STOPPING = "units_stopping"
    """Connect: `partitions` were told to stop."""
    UNITS_STOPPED = "units_stopped"
    """Connect: `partitions` do not run any more."""
    UNITS_FAILED = "units_failed"
    """Connect: `partitions` failed, did not stop in time, or could not be started, as `event` says; see `detail`."""
    CONFIG_TOPIC = "config_topic"
    """Connect: the config topic says what `event` names of the connectors in `topics` or the tasks in `partitions`."""
    SETTINGS = "settings"
    """Connect: the `settings` of a process that has started."""


@dataclass(slots=True)
class TraceRecord:
    """One thing seen. Times are epoch milliseconds; partitions are (topic, number).

    Nobody changes a record. It is not frozen, because then it takes five times as long to make one, and an audit makes
    two of each.
    """

    ts_ms: int
    kind: Kind
    group: str = ""
    client_id: str = ""
    """As printed; several processes may share one."""
    member_id: str = ""
    instance_id: str = ""
    """`group.instance.id` of a static member."""
    thread: str = ""
    """`app`, `background`, `coordinator`, or empty where the source does not tell."""
    machine: str = ""
    """Name of the table that `state`, `event` and `next_state` belong to."""
    state: str = ""
    event: str = ""
    next_state: str = ""
    effects: tuple[str, ...] = ()
    epoch: int | None = None
    partitions: tuple[Partition, ...] = ()
    revoked: tuple[Partition, ...] = ()
    full: tuple[Partition, ...] | None = None
    """The whole assignment where the line prints it; None where it does not."""
    topics: tuple[str, ...] = ()
    detail: str = ""
    """Reason or error, at most `DETAIL_LIMIT` characters."""
    settings: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """The record as one JSON line, keys in field order, defaults left out, `v` first."""
        return json.dumps({"v": SCHEMA, **to_dict(self)}, ensure_ascii=False, separators=(",", ":"))


DETAIL_LIMIT = 500
"""Longest `detail`, in characters; longer texts are cut by their writers."""

_DEFAULTS: dict[str, Any] = {f.name: f.default for f in fields(TraceRecord) if f.name != "settings"}
_PARTITIONS = ("partitions", "revoked", "full")
_STRINGS = tuple(f.name for f in fields(TraceRecord) if f.type == "str")


def to_dict(record: TraceRecord) -> dict[str, Any]:
    """The record's fields that differ from their defaults, ready for JSON."""
    out: dict[str, Any] = {}
    for name, default in _DEFAULTS.items():
        value = getattr(record, name)
        if value != default:
            out[name] = [list(p) for p in value] if name in _PARTITIONS else value
    if record.settings:
        out["settings"] = dict(sorted(record.settings.items()))
    return out


def from_json(line: str) -> TraceRecord:
    """The record that `to_json` wrote.

    Raises `InputError` naming the field for anything else: other JSON, an unknown kind or field, a newer schema.
    """
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise InputError(f"not JSON: {problem}") from None
    if not isinstance(data, dict):
        raise InputError("a trace record is a JSON object")
    version = data.pop("v", None)
    if version != SCHEMA:
        raise InputError(f"trace schema {version!r}, this release reads {SCHEMA}", "v")
    record = from_dict(data)
    if "\\ud" in line.lower():
        _refuse_half_characters(record)
    return record


def _refuse_half_characters(record: TraceRecord) -> None:
    """JSON can escape half of a UTF-16 pair, which no file can be written with."""
    for name, value in to_dict(record).items():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise InputError("not text: half of a surrogate pair", name) from None


def from_dict(data: Mapping[str, Any]) -> TraceRecord:
    """The record that `to_dict` gave. Raises `InputError` naming the field that does not fit."""
    values = dict(data)
    for name in sorted(values.keys() - _DEFAULTS.keys() - {"settings"}):
        raise InputError("no such field in a trace record", name)
    try:
        values["kind"] = Kind(values.get("kind", ""))
    except ValueError:
        raise InputError(f"unknown kind {values.get('kind')!r}", "kind") from None
    if not _whole(values.get("ts_ms"), 63):
        raise InputError("must be epoch milliseconds", "ts_ms")
    if values.get("epoch") is not None and not _whole(values["epoch"], 31):
        raise InputError("must be a whole number of 32 bits", "epoch")
    for name in _STRINGS:
        if not isinstance(values.get(name, ""), str):
            raise InputError("must be text", name)
    for name in _PARTITIONS:
        if name in values and not (name == "full" and values[name] is None):
            values[name] = _partitions(values[name], name)
    for name in ("topics", "effects"):
        if name in values:
            values[name] = _texts(values[name], name)
    values["settings"] = _settings(values.get("settings", {}))
    return TraceRecord(**values)


def _whole(value: object, bits: int) -> bool:
    """Whether the value is a number that fits Kafka's and Arrow's integers; True and False are none."""
    return type(value) is int and -(1 << bits) <= value < 1 << bits


def _partitions(value: object, name: str) -> tuple[Partition, ...]:
    found: list[Partition] = []
    for pair in value if isinstance(value, list | tuple) else (None,):
        match pair:
            case [str(topic), int(number)] if _whole(number, 31):
                found.append((topic, number))
            case _:
                raise InputError('must be a list of ["topic", partition]', name)
    return tuple(found)


def _texts(value: object, name: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
        raise InputError("must be a list of texts", name)
    return tuple(value)


def _settings(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(v, str) for kv in value.items() for v in kv):
        raise InputError("must map names to texts", "settings")
    return dict(value)


def by_partition(partitions: Iterable[Partition]) -> tuple[Partition, ...]:
    """Sorted, without repeats: the order in which partitions are reported."""
    return tuple(sorted(set(partitions)))


def as_trace(_logger: object, _name: str, entry: Mapping[str, Any]) -> str:
    """A structlog processor, the last of its chain: the entry of a record as the line of `TraceRecord.to_json`.

    The time is `ts_ms`, or else structlog's `timestamp` (a number of seconds or an ISO text), or else 0. What a
    logger was bound to and a record has no field for (a host, a log level) goes into `settings`. An entry that is no
    record, having no `kind`, becomes a plain JSON object: `from_json` refuses it.
    """
    if "kind" not in entry:
        return json.dumps(dict(entry), ensure_ascii=False, separators=(",", ":"), default=str)
    known = {name: value for name, value in entry.items() if name in _DEFAULTS or name == "settings"}
    known.setdefault("ts_ms", _epoch_ms(entry.get("timestamp", 0)))
    others = entry.keys() - known.keys() - {"timestamp"}
    known["settings"] = {**known.get("settings", {}), **{str(name): str(entry[name]) for name in sorted(others)}}
    return from_dict(known).to_json()


def _epoch_ms(stamp: object) -> int:
    seconds = datetime.fromisoformat(stamp).timestamp() if isinstance(stamp, str) else stamp
    return round(1000 * seconds) if isinstance(seconds, int | float) else 0
