"""Failures of a request that got no response."""

from __future__ import annotations

from fsm.step import value


@value
class TransportFailure:
    """Why a request got no response."""

    name: str
    """Kafka's exception: `DisconnectException`."""
    retriable: bool = True
    disconnected: bool = False
    """Whether the connection was closed, so that the coordinator must be found again."""


DISCONNECTED = TransportFailure("DisconnectException", disconnected=True)
TIMED_OUT = TransportFailure("TimeoutException")
UNSUPPORTED_VERSION = TransportFailure("UnsupportedVersionException", retriable=False)
