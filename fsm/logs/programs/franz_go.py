"""Logs of franz-go's group consumer: classic eager, classic cooperative, KIP-848. Message texts of 1.2 to 1.22.2,
logged at INFO.

A line is a message with keys: as a suffix `; key: value, key: value` (`kgo.BasicLogger`), or as fields of a structured
line (slog, zap). The client calls its callbacks in its own loop: `new group session begun` precedes
OnPartitionsAssigned. OnPartitionsLost has no line at INFO; it has been called, for all owned partitions, when the group
loop ends with an error, and is about to be called when a KIP-848 member abandons its assignment. The return of
OnPartitionsRevoked is implied by the next join; in KIP-848 it is not visible. A close revokes without a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from fsm.logs import Client, Message
from fsm.logs.programs.client_facts import ClientFacts
from fsm.logs.programs.client_words import (
    FENCING_ERRORS,
    INSTANCE_TAKEN,
    NOTHING_OWNED,
    Records,
    by_topic,
    error_name,
    go_partitions,
    number,
    plain,
    record,
)
from fsm.trace import Kind, Partition, TraceRecord

FACTS = ClientFacts(
    name="franz-go",
    supported_protocols="classic, KIP-848",
    ownership_lines="each session: added, lost",
    not_logged="at INFO: the lost callback (inferred: everything), the end of a callback in KIP-848, subscriptions",
    close_is_unlogged=True,
    close_callback_is_unlogged=True,
    identifies_members=False,
    shows_callback_return=False,
    logs_subscription=False,
)

Fields = Mapping[str, Any]
_Read = Callable[[Message, Fields], "Records | None"]


def _make_record(message: Message, fields: Fields, kind: Kind, **values: Any) -> TraceRecord:
    instance = plain(fields.get("instance_id"))
    values = {
        "group": plain(fields.get("group")),
        "member_id": plain(fields.get("member_id")),
        "instance_id": "" if _NO_INSTANCE.fullmatch(instance) else instance,
        **values,
    }
    return record(FACTS.name, message, kind, **values)


_NO_INSTANCE = re.compile(r"(?:<nil>|null|0x[0-9a-f]+)?")
"""How a missing instance id is printed; some loggers print this for an existing one, too."""


# -- partitions ---------------------------------------------------------------------------------------------


def _parse_partitions(value: object) -> tuple[Partition, ...] | None:
    """The partitions of a text or a JSON object; None for anything else."""
    return go_partitions(value) if isinstance(value, str) else by_topic(value)


# -- messages -----------------------------------------------------------------------------------------------


def _emit(*kinds: Kind, **values: Any) -> _Read:
    return lambda message, fields: tuple(_make_record(message, fields, kind, **values) for kind in kinds)


def _read_join(message: Message, fields: Fields) -> Records | None:
    """Other programs also log `joined`, so the fields decide."""
    if "generation" not in fields:
        return ()
    epoch = number(fields["generation"])
    return None if epoch is None else (_make_record(message, fields, Kind.JOINED, epoch=epoch),)


def _read_joining(message: Message, fields: Fields) -> Records:
    """Java's members log `(Re-)joining group`."""
    return (_make_record(message, fields, Kind.JOINING),) if "group" in fields else ()


def _read_start(protocol: str) -> _Read:
    return _emit(Kind.STARTED, settings={"client": FACTS.name, "group.protocol": protocol})


def _read_list(kind: Kind, key: str, name: str = "partitions") -> _Read:
    def read(message: Message, fields: Fields) -> Records | None:
        found = _parse_partitions(fields.get(key))
        return None if found is None else (_make_record(message, fields, kind, **{name: found}),)

    return read


def _find_error(fields: Fields) -> str:
    """Kafka's name of an error, or its text."""
    text = plain(fields.get("err"))
    name = _ERROR.search(text)
    return name[1] if name else text


_ERROR = re.compile(r"(?:^|[ :])([A-Z]+(?:_[A-Z]+)+)(?=:|$)")
_ORDINARY = ("REBALANCE_IN_PROGRESS", "context canceled")


def _read_error(message: Message, fields: Fields) -> Records:
    """A request of the group loop failed."""
    error = _find_error(fields)
    if error in _ORDINARY:
        return ()
    kind = Kind.FATAL if error in INSTANCE_TAKEN else Kind.FENCED if error in FENCING_ERRORS else Kind.ERROR
    return (_make_record(message, fields, kind, detail=error),)


def _read_lost(message: Message, fields: Fields) -> Records:
    """All owned partitions are lost; if no Kafka error is the cause, the coordinator was unreachable."""
    error = _find_error(fields)
    known = error in FENCING_ERRORS or error in INSTANCE_TAKEN
    lost = _make_record(
        message, fields, Kind.LOST_BEGIN, full=NOTHING_OWNED, detail=error if known else "COORDINATOR_NOT_AVAILABLE"
    )
    return (lost, _make_record(message, fields, Kind.FATAL, detail=error)) if error in INSTANCE_TAKEN else (lost,)


def _read_cleared(message: Message, fields: Fields) -> Records:
    """The set of fetched partitions changes; one of the reasons concerns the membership."""
    closes = plain(fields.get("why")).startswith("invalidating all assignments in LeaveGroup")
    return (_make_record(message, fields, Kind.CLOSE_BEGIN),) if closes else ()


def _read_rejoin(message: Message, fields: Fields) -> Records:
    revoked = "after revoking" in plain(fields.get("why"))
    return (_make_record(message, fields, Kind.REVOKE_END),) if revoked else ()


def _read_close(message: Message, fields: Fields) -> Records | None:
    revoked = _read_list(Kind.REVOKE_BEGIN, "revoking")(message, fields)
    return None if revoked is None else (_make_record(message, fields, Kind.CLOSE_BEGIN), *revoked)


def _read_commit(message: Message, fields: Fields) -> Records:
    error = _ERROR.search(plain(fields.get("error")))
    detail = error[1] if error else error_name(fields.get("error_code"))
    return (_make_record(message, fields, Kind.COMMIT_FAILED, detail=detail),)


_MESSAGES: dict[str, _Read] = {
    "beginning to manage the group lifecycle": _read_start("classic"),
    "beginning to manage the next-gen group lifecycle": _read_start("consumer"),
    "joining group": _read_joining,
    "join returned MemberIDRequired, rejoining with response's MemberID": _emit(Kind.MEMBER_ID),
    "join returned UnknownMemberID, rejoining without a member id": _emit(Kind.FENCED, detail="UNKNOWN_MEMBER_ID"),
    "join group failed": _read_error,
    "sync group failed": _read_error,
    "joined": _read_join,
    "joined, balancing group": _read_join,
    "consumer group initial heartbeat received assignment": _read_join,
    "consumer group heartbeat detected an updated assignment; exited heartbeat loop to assign & reentering": _read_list(
        Kind.TARGET, "now_assigned", "full"
    ),
    "new group session begun": _read_list(Kind.ASSIGN_BEGIN, "added"),
    "calling onRevoke at the end of a session": _read_list(Kind.REVOKE_BEGIN, "lost"),
    # Before 1.19.
    "cooperative consumer calling onRevoke": _read_list(Kind.REVOKE_BEGIN, "lost"),
    "cooperative consumer calling onRevoke at the end of a session even though no partitions were lost": _emit(),
    "join and sync loop errored": _read_lost,
    "eager consumer revoking prior assigned partitions": _read_list(Kind.REVOKE_BEGIN, "revoking"),
    "cooperative consumer revoking prior assigned partitions because leaving group": _read_close,
    "heartbeat errored": _read_error,
    "heartbeat errored again while waiting for user revoke to finish": _read_error,
    "heartbeat hit retryable error, retrying": _emit(Kind.COORDINATOR_LOST),
    "heartbeating": _emit(Kind.HEARTBEAT_SENT),
    "consumer group heartbeat error, abandoning assignment and rejoining with new member id": _read_lost,
    "group manage loop errored": _read_lost,
    "assigning partitions": _read_cleared,
    "forced rejoin quitting heartbeat loop": _read_rejoin,
    "leaving group": _emit(Kind.CLOSE_BEGIN, Kind.LEFT),
    "leaving next-gen group": _emit(Kind.CLOSE_BEGIN, Kind.LEFT),
    "unable to commit offset for topic partition": _read_commit,
    "in default commit: unable to commit offsets for topic partition": _read_commit,
}
_UNRELEASED, _read_unreleased = "UnreleasedInstanceID after", _emit(Kind.FATAL, detail="UNRELEASED_INSTANCE_ID")
_BEGINNINGS = tuple(f"{text} " for text in _MESSAGES if text.count(" ") > 2)
"""A message of several words that begins like this but ends differently was not understood."""


# -- keys ---------------------------------------------------------------------------------------------------

_KEY = re.compile(
    r"(?:^|, )(group|member_id|instance_id|generation|leader|balance_protocol|protocol_type|protocol|assigned"
    r"|now_assigned|added|lost|stage|revoking|err|error|error_code|consecutive_errors|backoff|why|how|input|topic"
    r"|partition|commit_from|commit_to|commit_epoch|instance|is848|method|tries):(?: |\Z)"
)
"""Values contain commas and colons, so a value ends only at the next known key; an empty one is last on its line."""
_SEPARATOR = "; "


def _split_keys(text: str) -> tuple[str, Fields]:
    """The message and the keys of a line of BasicLogger; a message may contain the separator itself."""
    at = text.find(_SEPARATOR)
    while at >= 0:
        if text[:at] in _MESSAGES:
            pieces = _KEY.split(text[at + len(_SEPARATOR) :])
            fields: dict[str, str] = {}
            for key, value in zip(pieces[1::2], pieces[2::2], strict=True):
                fields.setdefault(key, value.strip())
            return text[:at], fields
        at = text.find(_SEPARATOR, at + 1, _LONGEST)
    return text, {}


_LONGEST = max(map(len, _MESSAGES)) + len(_SEPARATOR)


def understand(message: Message) -> Records | None:
    """The records of a message of franz-go's group consumer."""
    line = message.text.partition("\n")[0]
    text, fields = (line, message.fields) if line in _MESSAGES else _split_keys(line)
    read = _MESSAGES.get(text)
    if read is not None:
        return read(message, {**message.fields, **fields})
    if text.startswith(_UNRELEASED):
        return _read_unreleased(message, message.fields)
    return None if text.startswith(_BEGINNINGS) else ()


CLIENT = Client(
    FACTS.name,
    (
        b"UnknownMemberID",
        b"join group failed",
        b"sync group failed",
        b"group session begun",
        b"revoking prior assigned partitions",
        b"heartbeat errored",
        b"heartbeat hit retryable error",
        b"group manage loop errored",
        b"and sync loop errored",
        b"assigning partitions",
        b"quitting heartbeat loop",
        b"unable to commit offset",
        b"UnreleasedInstanceID after",
    ),
    understand,
    everyday_marks=(b"group lifecycle", b"joining group", b"member_id", b"onRevoke", b"heartbeating", b"leaving group"),
)
