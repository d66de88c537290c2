"""What happens to a cluster: consumers come, stall, change their minds and die, as a seeded chance has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fsm.cluster.channel import NONE, Faults
from fsm.cluster.cluster import TOPICS, Cluster

MOST_CLIENTS = 5
PAUSE_MS = (100, 3_000)
SETTLES_MS = 60_000
"""Longer than every timeout of a cluster together."""


def disturb(cluster: Cluster, spoken: Sequence[str], until_ms: int) -> None:
    """One disturbance after the other up to that time; consumers speak these dialects."""
    while cluster.now_ms < until_ms:
        act = cluster.chance.choice(ACTS) if cluster.clients else _joins
        act(cluster, spoken)
        cluster.run(cluster.now_ms + cluster.chance.randint(*PAUSE_MS))


def settle(cluster: Cluster) -> list[str]:
    """A quiet and fair time, and what is not as it should be after it."""
    cluster.quiet()
    cluster.run(cluster.now_ms + SETTLES_MS)
    return cluster.unsettled()


def _topics(cluster: Cluster) -> list[str]:
    names = sorted(TOPICS)
    found: list[str] = cluster.chance.sample(names, cluster.chance.randint(1, len(names)))
    return found


def _somebody(cluster: Cluster) -> str:
    name: str = cluster.chance.choice(sorted(cluster.clients))
    return name


def _joins(cluster: Cluster, spoken: Sequence[str]) -> None:
    if len(cluster.clients) < MOST_CLIENTS:
        cluster.join(f"c{cluster.steps}", cluster.chance.choice(spoken), _topics(cluster))


def _dies(cluster: Cluster, _spoken: Sequence[str]) -> None:
    cluster.kill(_somebody(cluster))


def _freezes(cluster: Cluster, _spoken: Sequence[str]) -> None:
    cluster.clients[_somebody(cluster)].thawed_ms = cluster.now_ms + cluster.chance.randint(500, 5_000)


def _calls_back_slowly(cluster: Cluster, _spoken: Sequence[str]) -> None:
    cluster.clients[_somebody(cluster)].slow_ms = cluster.chance.randint(100, 6_000)


def _stops_polling(cluster: Cluster, _spoken: Sequence[str]) -> None:
    cluster.clients[_somebody(cluster)].next_poll_ms = cluster.now_ms + cluster.chance.randint(1_000, 7_000)


def _changes_its_mind(cluster: Cluster, _spoken: Sequence[str]) -> None:
    cluster.clients[_somebody(cluster)].subscribe(_topics(cluster))


def _weather_changes(cluster: Cluster, _spoken: Sequence[str]) -> None:
    cluster.channel.faults = cluster.chance.choice(WEATHER)


STORM = Faults(loses=0.08, latest_ms=400)
"""A request never arrives twice, as on a connection: a member that is answered its duplicate may miss an assignment."""
WEATHER = (NONE, Faults(latest_ms=300), Faults(loses=0.1, latest_ms=50), STORM)
ACTS: tuple[Callable[[Cluster, Sequence[str]], None], ...] = (
    _joins,
    _joins,
    _joins,
    _dies,
    _freezes,
    _calls_back_slowly,
    _stops_polling,
    _changes_its_mind,
    _weather_changes,
)
