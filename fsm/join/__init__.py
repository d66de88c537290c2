"""Our member on real sockets: in any cluster's groups, beside any other client.

* `MessageConsumer`, `AsyncMessageConsumer`: members of a group that also give the records of what they own
* `Message`, `ReadingOptions`, `EARLIEST`, `LATEST`: a record, and where reading begins
* `WireTransport`, `Network`, `Address`: the sockets below, for a `fsm.member.Consumer` of your own
"""

from __future__ import annotations

from fsm.join.consumer import AsyncMessageConsumer, MessageConsumer, ReadingOptions
from fsm.join.fetcher import EARLIEST, LATEST, Message
from fsm.join.network import Address, Network
from fsm.join.transport import WireTransport

__all__ = [
    "EARLIEST",
    "LATEST",
    "Address",
    "AsyncMessageConsumer",
    "Message",
    "MessageConsumer",
    "Network",
    "ReadingOptions",
    "WireTransport",
]
