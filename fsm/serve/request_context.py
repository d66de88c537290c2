"""What stands around a request: where it arrived, from whom, in which version, when."""

from __future__ import annotations

from random import Random
from typing import NamedTuple


class RequestContext(NamedTuple):
    """What an answer depends on besides the request."""

    token: int
    """Names the request: its answer may come later."""
    broker: int
    client_id: str
    client_host: str
    """As Kafka prints it: `/127.0.0.1`."""
    version: int
    now_ms: float
    random: Random
    """Gives ids where some are made."""
