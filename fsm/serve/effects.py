"""The effects of the brokers: bytes to send, connections to end, logs to write."""

from __future__ import annotations

from typing import NamedTuple


class Send(NamedTuple):
    """Bytes go to the client of this connection."""

    connection: int
    data: bytes


class HangUp(NamedTuple):
    """The connection ends, as if the broker had gone: bytes sent before still arrive."""

    connection: int


class ReadOn(NamedTuple):
    """The waiting frames of this connection are being handled: there is room for more."""

    connection: int


class Append(NamedTuple):
    """Bytes are appended to a log, and are durable before any later effect is sent."""

    log: str
    data: bytes


class Replace(NamedTuple):
    """A log is replaced by these bytes, atomically."""

    log: str
    data: bytes


Effect = Send | HangUp | ReadOn | Append | Replace
