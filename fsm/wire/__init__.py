"""The wire: connections to brokers as frames of bytes on sockets, and their exchanges as values.

* `Connection`, `Arrived`: a socket to one broker, and an answer that has arrived on it
* `Dialogue`: the same without the socket, for your own connection
* `receive_any`: the answers that have arrived on any of several connections
* `Exchange`, `Note`, `read_lines`, `to_line`: exchanges and notes as values and as JSON lines
* `PeerError`: the broker closed the connection, did not answer, or sent an invalid answer
"""

from __future__ import annotations

from fsm.wire.connection import Connection, receive_any
from fsm.wire.dialogue import Arrived, Dialogue, PeerError
from fsm.wire.exchange import Exchange, Note, read_lines, to_line

__all__ = ["Arrived", "Connection", "Dialogue", "Exchange", "Note", "PeerError", "read_lines", "receive_any", "to_line"]
