"""The effects of the brokers: bytes to send, connections to end, logs to write."""

from __future__ import annotations

from typing import NamedTuple


class Send(NamedTuple):
    """Bytes go to the client of this connection."""

    connection: int
    data: bytes


class HangUp(NamedTuple):
    """The connection ends, as if the broker had gone: what was sent before still arrives."""

    connection: int


class ReadOn(NamedTuple):
    """The waiting frames of this connection are being handled: there is room for more."""

    connection: int


class Append(NamedTuple):
    """Bytes go to the end of a log and are there to stay before anything is sent that comes after."""

    log: str
    data: bytes


class Replace(NamedTuple):
    """A log is these bytes from now on, whole or not at all."""

    log: str
    data: bytes


Effect = Send | HangUp | ReadOn | Append | Replace
