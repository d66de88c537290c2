"""What a request may get instead of a response."""

from __future__ import annotations

from fsm.step import value


@value
class TransportFailure:
    """A request that got no response: what went wrong on the way."""

    name: str
    """Kafka's exception, as `DisconnectException`."""
    retriable: bool = True
    disconnected: bool = False
    """The connection is gone: the coordinator must be found again."""


DISCONNECTED = TransportFailure("DisconnectException", disconnected=True)
TIMED_OUT = TransportFailure("TimeoutException")
UNSUPPORTED_VERSION = TransportFailure("UnsupportedVersionException", retriable=False)
