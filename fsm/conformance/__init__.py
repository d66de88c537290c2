"""Compares a coordinator with Kafka's rules: seeded walks of groups, each step compared with our coordinator.

Ours follows the peer, which supplies what no rule decides: ids, instants, completion of background tasks.

* `compare`, `WalkResult`, `FirstDifference`: walks a peer; the result of each walk
* `Broker`, `OwnCoordinator`, `Peer`: a broker on a socket, our coordinator in this process, and their interface
* `FAMILIES`, `Family`: kinds of walks
* `lines`, `document`: results as text and as a JSON document
"""

from typing import TYPE_CHECKING

from fsm.exports import on_demand

if TYPE_CHECKING:
    from fsm.conformance.broker_peer import Broker
    from fsm.conformance.families import FAMILIES, Family
    from fsm.conformance.peer import OwnCoordinator, Peer
    from fsm.conformance.walk import FirstDifference, WalkResult, compare, document, lines

__all__ = [
    "FAMILIES",
    "Broker",
    "Family",
    "FirstDifference",
    "OwnCoordinator",
    "Peer",
    "WalkResult",
    "compare",
    "document",
    "lines",
]

__getattr__, __dir__ = on_demand(
    __name__,
    {
        "broker_peer": ("Broker",),
        "families": ("FAMILIES", "Family"),
        "peer": ("OwnCoordinator", "Peer"),
        "walk": ("FirstDifference", "WalkResult", "compare", "document", "lines"),
    },
)
