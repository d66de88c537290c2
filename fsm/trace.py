"""`TraceRecord`: one observed action of a machine or its application.

A record is one JSON object on one line. Bound machines write records through structlog, the parsers in `fsm.logs`
extract them from logs, and the audit reads them. Fields that a source does not have keep their default, and defaults
are left out of the JSON. `SCHEMA` numbers the format; a reader refuses a newer one.

A record holds what was *seen*. Conclusions are the audit's.
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
"""Version of the JSON format. Incremented when a field changes its meaning, not for new optional fields."""

Partition = tuple[str, int]
"""(topic, partition)"""


class Kind(StrEnum):
    """What a record is about. Callbacks run on the application's thread, all else on the background thread."""

    TRANSITION = "transition"
    """A machine went from `state` to `next_state` (equal for a self transition), on `event` if the source has it."""
    STARTED = "started"
    """A consumer was created: a new incarnation of (group, client_id). `settings` holds the printed configuration."""
    VERSION = "version"
    """The client library's version in `settings["version"]`; often without group or client_id."""
    MEMBER_ID = "member_id"
    """The member's id is `member_id` from here on (it may change in classic groups)."""
    SUBSCRIBED = "subscribed"
    """The application subscribed to `topics` and to the pattern in `detail`."""
    EFFECTIVE_TOPICS = "effective_topics"
    """Existing topics that match the subscription (librdkafka's classic members print topics only this way). An empty
    `topics` resets the list, others add to it."""
    UNSUBSCRIBED = "unsubscribed"
    """The application unsubscribed."""
    JOINING = "joining"
    """A join was sent or scheduled, for the reason in `detail`."""
    JOINED = "joined"
    """The coordinator accepted the member; `epoch` is the member epoch or the generation."""
    SYNCED = "synced"
    """Classic only: generation `epoch` was synchronised."""
    HEARTBEAT_SENT = "heartbeat_sent"
    """A heartbeat request with `epoch` was sent."""
    HEARTBEAT_OK = "heartbeat_ok"
    """A heartbeat was answered without error, with `epoch`."""
    HEARTBEAT_GIVEN_UP = "heartbeat_given_up"
    """The client gave up a heartbeat in flight: the connection ended or the request timed out."""
    TARGET = "target"
    """The coordinator sent a new target assignment; `full` if it is readable."""
    RECONCILING = "reconciling"
    """A reconciliation begins: `full` is the resulting assignment, `partitions` are added, `revoked` are removed."""
    REVOKE_DECIDED = "revoke_decided"
    """The background thread decided to revoke `partitions`; the callback has not run yet."""
    REVOKE_BEGIN = "revoke_begin"
    """The revoked callback starts for `partitions`."""
    REVOKE_END = "revoke_end"
    """The revoked callback returned; `partitions` if the source repeats them."""
    ASSIGN_BEGIN = "assign_begin"
    """The assigned callback starts for the added `partitions`: the application owns them from here."""
    ASSIGN_END = "assign_end"
    """The assigned callback returned."""
    LOST_DECIDED = "lost_decided"
    """The client counts its assignment as lost, for the reason in `detail`. The callback has not run yet: if no
    `LOST_END` follows, there was none."""
    LOST_BEGIN = "lost_begin"
    """The lost callback starts for `partitions`."""
    LOST_END = "lost_end"
    """The lost callback returned."""
    OWNED = "owned"
    """The application owns exactly `full` now, regardless of earlier records."""
    ADDED = "added"
    """`partitions` entered the client's own assignment, after the assigned callback."""
    DROPPED = "dropped"
    """`partitions` left the client's own assignment, with or without a callback."""
    CALLBACK_FAILED = "callback_failed"
    """The callback named in `event` (`assigned`, `revoked`, `lost`) raised; `detail` is its error."""
    POLL_EXPIRED = "poll_expired"
    """max.poll.interval passed without a poll, and the client acts on it."""
    POLL_LATE = "poll_late"
    """The application polls again after its poll interval expired."""
    FENCED = "fenced"
    """The coordinator no longer knows this member or its epoch; `detail` is the error name."""
    FATAL = "fatal"
    """An error that ends the membership for good; `detail` is the error name."""
    ERROR = "error"
    """Any other error that concerns the membership, named in `detail`."""
    COORDINATOR_LOST = "coordinator_lost"
    COORDINATOR_FOUND = "coordinator_found"
    GENERATION_RESET = "generation_reset"
    """Classic only: generation and usually member id were reset, for the reason in `detail`."""
    LEAVE_BEGIN = "leave_begin"
    """The client starts to leave the group, for the reason in `detail`."""
    LEAVE_SENT = "leave_sent"
    """The leave request was sent."""
    LEFT = "left"
    """The coordinator confirmed the leave, or the client no longer counts itself as a member."""
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
    """Coordinator: the member is in `next_state` at `epoch`, with `full` assigned and `revoked` pending revocation;
    topics are ids if the source has no names."""
    TOPIC_NAMES = "topic_names"
    """Coordinator: `settings` maps topic ids, as used in other records, to names."""
    GROUP_STATE = "group_state"
    """Coordinator: the group runs `machine` and is in `next_state`, if the source has it; `epoch` is its epoch or
    generation, `detail` the reason."""
    UNITS_STARTED = "units_started"
    """Connect: `partitions` were started. The topic is the connector, the number the task or -1 for the connector."""
    UNITS_STOPPING = "units_stopping"
    """Connect: `partitions` are being stopped."""
    UNITS_STOPPED = "units_stopped"
    """Connect: `partitions` have stopped."""
    UNITS_FAILED = "units_failed"
    """Connect: `partitions` failed, did not stop in time, or could not be started, as `event` says; see `detail`."""
    CONFIG_TOPIC = "config_topic"
    """Connect: the config topic has an `event` for the connectors in `topics` or the tasks in `partitions`."""
    SETTINGS = "settings"
    """Connect: the `settings` of a process that has started."""


@dataclass(slots=True)
class TraceRecord:
    """One observation. Times are epoch milliseconds; partitions are (topic, number).

    Treat records as immutable. The class is not frozen, because then creating one takes five times as long, and an
    audit creates two of each.
    """

    ts_ms: int
    kind: Kind
    group: str = ""
    client_id: str = ""
    """As printed; several processes may share it."""
    member_id: str = ""
    instance_id: str = ""
    """`group.instance.id` of a static member."""
    thread: str = ""
    """`app`, `background`, `coordinator`, or empty if the source does not have it."""
    machine: str = ""
    """Name of the table of `state`, `event` and `next_state`."""
    state: str = ""
    event: str = ""
    next_state: str = ""
    effects: tuple[str, ...] = ()
    epoch: int | None = None
    partitions: tuple[Partition, ...] = ()
    revoked: tuple[Partition, ...] = ()
    full: tuple[Partition, ...] | None = None
    """The whole assignment; None if the line does not print it."""
    topics: tuple[str, ...] = ()
    detail: str = ""
    """Reason or error, at most `DETAIL_LIMIT` characters."""
    settings: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """The record as one JSON line: `v` first, keys in field order, defaults left out."""
        return json.dumps({"v": SCHEMA, **to_dict(self)}, ensure_ascii=False, separators=(",", ":"))


DETAIL_LIMIT = 500
"""Maximum length of `detail` in characters; writers cut longer texts."""

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
    """The record of a line that `to_json` wrote.

    Raises `InputError` naming the field for other JSON, an unknown kind or field, or another schema.
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
    """Raises `InputError` for half of a surrogate pair, which JSON can escape and UTF-8 cannot encode."""
    for name, value in to_dict(record).items():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise InputError("not valid text: half of a surrogate pair", name) from None


def from_dict(data: Mapping[str, Any]) -> TraceRecord:
    """The record of a dict that `to_dict` returned. Raises `InputError` naming the invalid field."""
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
    """Whether the value is an int of that many bits after the sign; booleans are not."""
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
    """Sorted, without duplicates: the order of partitions in reports."""
    return tuple(sorted(set(partitions)))


def as_trace(_logger: object, _name: str, entry: Mapping[str, Any]) -> str:
    """A structlog processor, the last of its chain: formats a record's entry as `TraceRecord.to_json` does.

    The time is `ts_ms`, or else structlog's `timestamp` (seconds or ISO text), or else 0. Keys without a field of a
    record (a host, a log level) go into `settings`. An entry without `kind` is no record; it becomes a plain JSON
    object, which `from_json` refuses.
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
