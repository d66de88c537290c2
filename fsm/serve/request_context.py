"""The context of a request: its broker, client, version and time."""

from __future__ import annotations

from random import Random
from typing import NamedTuple


class RequestContext(NamedTuple):
    """The inputs of a response besides the request."""

    token: int
    """Identifies the request, whose answer may be sent later."""
    broker: int
    connection: int
    """The number of the connection; a later one has a higher number."""
    client_id: str
    client_host: str
    """The client's host as Kafka prints it: `/127.0.0.1`."""
    version: int
    now_ms: float
    random: Random
    """The source of new ids."""
