"""Clusters as the tests of this folder begin them."""

from __future__ import annotations

import random
from dataclasses import replace

from fsm.cluster.channel import NONE, Faults
from fsm.cluster.cluster import SETTINGS, Cluster
from fsm.member.dialect.dialect import FIXED
from fsm.protocol.assignment import Partitions

LATEST = "4.4.0"
FOO = tuple(("foo", i) for i in range(4))


def cluster(seed: int = 1, release: str = LATEST, faults: Faults = NONE, policy: str = "bidirectional") -> Cluster:
    """A coordinator of that release, with nobody in its group."""
    config = replace(SETTINGS, group_consumer_migration_policy=policy)
    return Cluster(random.Random(seed), release, faults, config)  # noqa: S311  # runs are to be repeated


def two(found: Cluster, first: str = FIXED, second: str = FIXED) -> None:
    """Two settled consumers of one topic, two partitions each."""
    found.join("a", first, ("foo",))
    found.join("b", second, ("foo",))
    found.run(8_000)
    assert found.unsettled() == []
    assert {name: len(client.using) for name, client in found.clients.items()} == {"a": 2, "b": 2}


def of(found: Cluster, name: str) -> Partitions:
    """What the application of this client uses."""
    return found.clients[name].using


def causes(found: Cluster) -> set[str | None]:
    """Those of all double ownership so far."""
    return {double.cause for double in found.doubles}


def kinds(found: Cluster) -> set[str]:
    """Who is in the cluster: "classic", "consumer"."""
    return {"classic" if client.is_classic else "consumer" for client in found.clients.values()}


def without_callback(found: Cluster) -> list[str]:
    """Clients whose applications use other partitions than their members own: some callback never came."""
    clients = (found.clients[name] for name in sorted(found.clients))
    return [client.name for client in clients if client.using != client.member.owned]
