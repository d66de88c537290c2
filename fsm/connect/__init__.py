"""Kafka Connect in distributed mode: workers, the leader's assignor, a whole cluster.

A worker is a classic member of a classic group: `worker` steps the table `connect-worker`, `simulation` runs workers on
the coordinator of this project. `assignor` is the leader's computation in each round, a pure function with explicit
memory; `dialect` distinguishes Kafka's rules from those of the design document.

* `assign`, `Memory`, `Round`, `Outcome`: one round of the incremental cooperative assignor
* `assign_eagerly`: one round of the eager one
* `perform`, `Election`, `ConfigSnapshot`: a leader's work between its join and its sync
* `Unit`, `list_configured`: connector instances and tasks, and those configured in a config topic
* `Profile`, `SHIPPED`, `DOCUMENT`: sets of rules
* `ConnectConfig`, `new_worker`, `step`, `due_ms`: a worker, its step on an input, its next tick
* `canonicalize`: one form for all workers that differ only by ids and time, for a search
* `Cluster`, `Latencies`: workers, their broker and their config topic under a virtual clock

Source: KIP-415 and KIP-507; `IncrementalCooperativeAssignor`, `EagerAssignor`, `WorkerCoordinator`, `DistributedHerder`
of apache/kafka at 1eb7644, held against recordings of 4.3.1.
"""

from typing import TYPE_CHECKING

from fsm.exports import on_demand

if TYPE_CHECKING:
    from fsm.connect.assignor.incremental import Memory, Outcome, Round, assign
    from fsm.connect.assignor.leader import ConfigSnapshot, Election, assign_eagerly, perform
    from fsm.connect.dialect import DOCUMENT, SHIPPED, Profile
    from fsm.connect.simulation.cluster import Cluster
    from fsm.connect.simulation.process import Latencies
    from fsm.connect.units import Unit, list_configured
    from fsm.connect.worker.config import ConnectConfig
    from fsm.connect.worker.state import canonicalize, new_worker
    from fsm.connect.worker.step import due_ms, step

__all__ = [
    "DOCUMENT",
    "SHIPPED",
    "Cluster",
    "ConfigSnapshot",
    "ConnectConfig",
    "Election",
    "Latencies",
    "Memory",
    "Outcome",
    "Profile",
    "Round",
    "Unit",
    "assign",
    "assign_eagerly",
    "canonicalize",
    "due_ms",
    "list_configured",
    "new_worker",
    "perform",
    "step",
]

__getattr__, __dir__ = on_demand(
    __name__,
    {
        "assignor.incremental": ("Memory", "Outcome", "Round", "assign"),
        "assignor.leader": ("ConfigSnapshot", "Election", "assign_eagerly", "perform"),
        "dialect": ("DOCUMENT", "SHIPPED", "Profile"),
        "simulation.cluster": ("Cluster",),
        "simulation.process": ("Latencies",),
        "units": ("Unit", "list_configured"),
        "worker.config": ("ConnectConfig",),
        "worker.state": ("canonicalize", "new_worker"),
        "worker.step": ("due_ms", "step"),
    },
)
