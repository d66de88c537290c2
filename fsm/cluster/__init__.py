"""Members and their coordinator as one system: the machines that run elsewhere, a lossy channel, one virtual clock.

* `Cluster`, `Double`: one group, driven from outside, and what went wrong in it: a partition that two applications use;
* `Client`: one consumer of it with its application;
* `CLASSIC`, `CAUSES`: the members of the classic protocol by their assignors, and what explains a `Double`;
* `Faults`, `NONE`, `LOSSY`: how the channel between them fails;
* `SETTINGS`, `TOPICS`: of the broker, where the caller names none;
* `Change`, `Story`, `Event`: a step of the coordinator for those who watch it, and the last events.
"""

from __future__ import annotations

from fsm.cluster.channel import LOSSY, NONE, Faults
from fsm.cluster.client import CLASSIC, Client
from fsm.cluster.cluster import SETTINGS, TOPICS, Cluster, Double
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
