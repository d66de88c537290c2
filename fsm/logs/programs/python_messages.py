"""Messages that the two Python clients share; one is derived from the other."""

from __future__ import annotations

import re
from dataclasses import replace

from fsm.logs.message import Message
from fsm.logs.programs.client_words import (
    EPOCH,
    FENCING_ERRORS,
    GROUP,
    LAST_GROUP,
    Build,
    Meaning,
    Records,
    Values,
    Words,
    error_name,
    record,
)
from fsm.trace import Kind

_SHARED = re.compile(
    r"(?:Revoking previously assigned partitions set\(\) for group |Setting newly assigned partitions "
    r"|\(Re-\)joining group |Discovered coordinator \d"
    r"|Heartbeat failed for group .{1,300}: generation id is not {1,2}current|Heartbeat session expired"
    r"|Heartbeat: |Received successful heartbeat response )"
)
"""Texts that both clients log verbatim. Without its logger such a line may belong to another client in the same
file."""
HEARTBEAT_MARKS = (b"Heartbeat: ", b"heartbeat response for group")
_DEBUG_LEVELS = frozenset({"DEBUG", "D", "TRACE", "NOTSET"})


def read_known(words: Words, package: str, strict: tuple[str, ...], message: Message) -> Records | None:
    """The records of a message of the client whose loggers begin with `package`.

    None if a message begins like a known one and ends differently, or if a logger in `strict` logs a message without a
    rule above DEBUG; these loggers only log about the membership.
    """
    logger = message.logger
    if logger and logger != package and not logger.startswith(f"{package}."):
        return ()
    found = words.read(message)
    if found is None:
        is_severe = logger in strict and message.level.upper() not in _DEBUG_LEVELS
        return None if is_severe or words.begin(message) else ()
    if not logger and _SHARED.match(message.text):
        return tuple(replace(one, client_id="") for one in found)
    return found


def read_subscribed(client: str, message: Message, values: Values) -> Records:
    """Parses the topics of a printed set or list."""
    topics = tuple(sorted(set(_QUOTED.findall(values["topics"]))))
    return (record(client, message, Kind.SUBSCRIBED if topics else Kind.UNSUBSCRIBED, topics=topics),)


_QUOTED = re.compile(r"'([^']{1,249})'")


def on_fenced(error: str) -> Build:
    """The coordinator does not know the member any more."""

    def build(client: str, message: Message, values: Values) -> Records:
        return (record(client, message, Kind.FENCED, detail=error, **values),)

    return build


def read_refused_commit(client: str, message: Message, values: Values) -> Records:
    """A rejected commit may be the first sign that the coordinator does not know the member any more."""
    name = error_name(values["code"])
    kind = Kind.FENCED if name in FENCING_ERRORS else Kind.COMMIT_FAILED
    return (record(client, message, kind, group=values.get("group", ""), detail=name),)


def listener_failed(callback: str = "") -> Build:
    """A callback raised; if `callback` is empty, the pattern names it."""

    def build(client: str, message: Message, values: Values) -> Records:
        fields = {**values, "event": callback or values.get("event", "")}
        return (record(client, message, Kind.CALLBACK_FAILED, detail=message.error, **fields),)

    return build


ERROR_CODE = r"\[Error (?P<code>\d{1,5})\]"
MEMBER_ID = r"(?P<member_id>[^\s)]{1,500})"

# fmt: off
SHARED: tuple[tuple[str, Meaning], ...] = (
    (rf"Setting newly assigned partitions (?P<partitions>.*) for group {LAST_GROUP}\Z",  Kind.ASSIGN_BEGIN),
    (rf"\(Re-\)joining group {LAST_GROUP}\Z",                                            Kind.JOINING),
    (rf"Heartbeat failed for group {GROUP}: generation id is not {{1,2}}current",      on_fenced("ILLEGAL_GENERATION")),
    (rf"Heartbeat failed for group {GROUP}: (?P<detail>coordinator .*)",                 Kind.COORDINATOR_LOST),
    (r"Heartbeat session expired",                                                       Kind.COORDINATOR_LOST),
    (rf"User provided subscription listener .{{1,400}}? for group {GROUP} failed on_partitions_revoked",
                                                                                         listener_failed("revoked")),
    (rf"User provided listener .{{1,400}}? for group {GROUP} failed on partition assignment: (?P<partitions>.*)",
                                                                                         listener_failed("assigned")),
    (r"Elected group leader",                                                            None),
    (r"Error sending \w{1,60} to node ",                                                 None),
    # At DEBUG, kafka-python up to 2.0.
    (rf"Heartbeat: {GROUP}\[{EPOCH}\] (?P<member_id>\S{{1,500}})\Z",                     Kind.HEARTBEAT_SENT),
    (rf"Received successful heartbeat response for group {LAST_GROUP}\Z",                Kind.HEARTBEAT_OK),
)
# fmt: on
