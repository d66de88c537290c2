"""Our member on real sockets: in any cluster's groups, beside any other client.

* `MessageConsumer`, `AsyncMessageConsumer`: members of a group that also return the records of their partitions
* `Message`, `ReadingOptions`, `EARLIEST`, `LATEST`: a record, and options of reading
* `WireTransport`, `Network`, `Address`: the sockets below, for a `fsm.member.Consumer` or `AsyncConsumer` of your own
* `read_names`, `read_counts`: the metadata for a member of either protocol
* `LoopThread`: an event loop for connections in its own thread
"""

from __future__ import annotations

from fsm.join.consumer import AsyncMessageConsumer, LoopThread, MessageConsumer, ReadingOptions
from fsm.join.fetcher import EARLIEST, LATEST, Message
from fsm.join.network import Address, Network
from fsm.join.transport import WireTransport, read_counts, read_names

__all__ = [
    "EARLIEST",
    "LATEST",
    "Address",
    "AsyncMessageConsumer",
    "LoopThread",
    "Message",
    "MessageConsumer",
    "Network",
    "ReadingOptions",
    "WireTransport",
    "read_counts",
    "read_names",
]
