"""Members and their coordinator as one system: the production machines, a lossy channel, one virtual clock.

* `Cluster`, `Double`: one group, driven by its caller, and its violation: a partition that two applications use;
* `Client`: one consumer of it with its application;
* `CLASSIC`, `CAUSES`: the members of the classic protocol by their assignors, and the causes of a `Double`;
* `Faults`, `NONE`, `LOSSY`: the faults of the channel between them;
* `SETTINGS`, `TOPICS`: the broker's defaults;
* `Change`, `Story`, `Event`: a step of the coordinator for observers, and the last events.
"""

from __future__ import annotations

from fsm.cluster.client import CLASSIC, Client
from fsm.cluster.cluster import SETTINGS, TOPICS, Cluster, Double
from fsm.cluster.network import LOSSY, NONE, Faults
from fsm.cluster.stale_uses import CAUSES, Change
from fsm.cluster.story import Event, Story

__all__ = [
    "CAUSES",
    "CLASSIC",
    "LOSSY",
    "NONE",
    "SETTINGS",
    "TOPICS",
    "Change",
    "Client",
    "Cluster",
    "Double",
    "Event",
    "Faults",
    "Story",
]
