"""What the words of the two Python clients have in common: one grew out of the other."""

from __future__ import annotations

import re
from dataclasses import replace

from fsm.logs.message import Message
from fsm.logs.programs.client_words import THROWN_OUT, Build, Records, Values, Words, error_name, record
from fsm.trace import Kind

_SHARED = re.compile(
    r"(?:Revoking previously assigned partitions set\(\) for group |Setting newly assigned partitions "
    r"|\(Re-\)joining group |Heartbeat failed for group .{1,300}: generation id is not current"
    r"|Heartbeat session expired)"
)
"""What both print, word for word. Without its logger such a line belongs to whoever else writes to the file."""
_QUIET = frozenset({"DEBUG", "D", "TRACE", "NOTSET"})


def read_known(words: Words, package: str, strict: tuple[str, ...], message: Message) -> Records | None:
    """The records of a message of the client whose loggers begin with `package`.

    None where a message begins with its words and ends otherwise, and where a logger of `strict` says above DEBUG what
    no rule knows; those speak of nothing but the membership.
    """
    logger = message.logger
    if logger and logger != package and not logger.startswith(f"{package}."):
        return ()
    found = words.read(message)
    if found is None:
        loud = logger in strict and message.level.upper() not in _QUIET
        return None if loud or words.begin(message) else ()
    if not logger and _SHARED.match(message.text):
        return tuple(replace(one, group="", client_id="") for one in found)
    return found


def on_subscribed(client: str) -> Build:
    """The topics of a set or a list of texts."""

    def build(message: Message, values: Values) -> Records:
        topics = tuple(sorted(set(_QUOTED.findall(values["topics"]))))
        return (record(client, message, Kind.SUBSCRIBED if topics else Kind.UNSUBSCRIBED, topics=topics),)

    return build


_QUOTED = re.compile(r"'([^']{1,249})'")


def on_thrown_out(client: str, error: str) -> Build:
    """The coordinator does not know the member any more."""

    def build(message: Message, values: Values) -> Records:
        return (record(client, message, Kind.FENCED, detail=error, **values),)

    return build


def commit_refused(client: str) -> Build:
    """A commit may be the first to learn that the coordinator does not know the member any more."""

    def build(message: Message, values: Values) -> Records:
        name = error_name(values["code"])
        kind = Kind.FENCED if name in THROWN_OUT else Kind.COMMIT_FAILED
        return (record(client, message, kind, group=values.get("group", ""), detail=name),)

    return build


def listener_failed(client: str, callback: str = "") -> Build:
    """A callback raised; the pattern names it where `callback` does not."""

    def build(message: Message, values: Values) -> Records:
        fields = {**values, "event": callback or values.get("event", "")}
        return (record(client, message, Kind.CALLBACK_FAILED, detail=message.error, **fields),)

    return build


ERROR_CODE = r"\[Error (?P<code>\d{1,5})\]"
MEMBER_ID = r"(?P<member_id>[^\s)]{1,500})"
