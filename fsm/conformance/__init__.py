"""A coordinator compared with Kafka's rules: seeded walks of groups, each step compared with our coordinator.

Ours follows the peer: what is not a rule's decision (ids, instants, when a background task is done) comes from there.

* `compare`, `WalkResult`, `FirstDifference`: walks of a peer, and how far each went
* `Broker`, `OwnCoordinator`, `Peer`: a broker on a socket, our coordinator in this process, and what both are
* `FAMILIES`, `Family`: what walks are made of
* `lines`, `document`: results as text and as a JSON document
"""

from typing import TYPE_CHECKING

from fsm.exports import on_demand

if TYPE_CHECKING:
    from fsm.conformance.broker_peer import Broker
    from fsm.conformance.families import FAMILIES, Family
    from fsm.conformance.peer import OwnCoordinator, Peer
    from fsm.conformance.report import document, lines
    from fsm.conformance.walk import FirstDifference, WalkResult, compare

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

__getattr__ = on_demand(
    __name__,
    {
        "broker_peer": ("Broker",),
        "families": ("FAMILIES", "Family"),
        "peer": ("OwnCoordinator", "Peer"),
        "report": ("document", "lines"),
        "walk": ("FirstDifference", "WalkResult", "compare"),
    },
)
