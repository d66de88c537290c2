"""The wire: connections to brokers, as frames of bytes on sockets.

* `Connection`, `Arrived`: a socket to one broker, and an answer that has arrived on it
* `receive_any`: the answers that have arrived on any of several connections
* `PeerError`: the broker closed the connection, was silent, or sent what is no answer
"""

from __future__ import annotations

from fsm.wire.connection import Arrived, Connection, PeerError, receive_any

__all__ = ["Arrived", "Connection", "PeerError", "receive_any"]
