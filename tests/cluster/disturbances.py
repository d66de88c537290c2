"""What happens to a cluster: consumers come, stall, change their minds, leave and die, as a seeded chance has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fsm.cluster.cluster import TOPICS, Cluster
from fsm.cluster.network import NONE, Faults
from fsm.member.classic.state import EnforceRebalance

MOST_CLIENTS = 5
PAUSE_MS = (100, 3_000)
SETTLES_MS = 60_000
"""Longer than every timeout of a cluster together."""
INSTANCES = (None, None, None, "i-1", "i-2")
"""Who starts with an instance id may find it in use."""


def leave_to_the_classic(cluster: Cluster) -> None:
    """The last that happens: members of the consumer protocol go, and the classic ones stay among themselves."""
    cluster.stop_faults()
    _are_left_to_the_classic(cluster, ())


def disturb(cluster: Cluster, dialects: Sequence[str], until_ms: int) -> None:
    """One disturbance after the other up to that time; members are of these dialects, or classic."""
    while cluster.now_ms < until_ms:
        act = cluster.chance.choice(ACTS) if cluster.clients else _joins
        act(cluster, dialects)
        cluster.run(cluster.now_ms + cluster.chance.randint(*PAUSE_MS))


class Settled(NamedTuple):
    """What a quiet time came to."""

    problems: list[str]
    stranded: str | None = None
    """Why the group stranded partitions until one of its members joined."""


def settle(cluster: Cluster) -> Settled:
    """A quiet and fair time, and what is not as it should be after it.

    A stranded group is left as it is for that time; then one of its members joins, and there is another such time.
    """
    cluster.stop_faults()
    cluster.run(cluster.now_ms + SETTLES_MS)
    problems, stranded = cluster.find_unsettled(), cluster.stranded
    if problems or stranded is None or not cluster.clients:
        return Settled(problems)
    rejoin(cluster)
    cluster.run(cluster.now_ms + SETTLES_MS)
    again = [] if cluster.stranded is None else [f"stranded again: {cluster.stranded}"]
    return Settled(cluster.find_unsettled() + again, stranded)


def rejoin(cluster: Cluster) -> None:
    """The application of a classic member asks for a rebalance."""
    name = min(name for name, client in cluster.clients.items() if client.is_classic)
    cluster.clients[name].member.submit(EnforceRebalance())


def _topics(cluster: Cluster) -> list[str]:
    names = sorted(TOPICS)
    found: list[str] = cluster.chance.sample(names, cluster.chance.randint(1, len(names)))
    return found


def _somebody(cluster: Cluster) -> str:
    name: str = cluster.chance.choice(sorted(cluster.clients))
    return name


def _joins(cluster: Cluster, dialects: Sequence[str]) -> None:
    if len(cluster.clients) < MOST_CLIENTS:
        dialect, instance_id = cluster.chance.choice(dialects), cluster.chance.choice(INSTANCES)
        commits = cluster.chance.random() < 0.5
        cluster.join(f"c{cluster.steps}", dialect, _topics(cluster), instance_id, commits=commits)


def _restarts(cluster: Cluster, dialects: Sequence[str]) -> None:
    """A new process in the place of one that dies, with its instance id if it has one."""
    name = _somebody(cluster)
    instance_id = cluster.clients[name].member.config.group_instance_id
    cluster.kill(name)
    cluster.join(f"c{cluster.steps}", cluster.chance.choice(dialects), _topics(cluster), instance_id)


def _closes(cluster: Cluster, _dialects: Sequence[str]) -> None:
    client = cluster.clients[_somebody(cluster)]
    if not client.closing:
        client.close(cluster.now_ms)


def _are_left_to_the_classic(cluster: Cluster, _dialects: Sequence[str]) -> None:
    """Where both protocols are in use, everybody closes whose member is not classic."""
    if any(client.is_classic for client in cluster.clients.values()):
        for client in cluster.clients.values():
            if not client.is_classic and not client.closing:
                client.close(cluster.now_ms)


def _dies(cluster: Cluster, _dialects: Sequence[str]) -> None:
    cluster.kill(_somebody(cluster))


def _freezes(cluster: Cluster, _dialects: Sequence[str]) -> None:
    cluster.clients[_somebody(cluster)].freeze(cluster.now_ms + cluster.chance.randint(500, 5_000))


def _calls_back_slowly(cluster: Cluster, _dialects: Sequence[str]) -> None:
    cluster.clients[_somebody(cluster)].slow_ms = cluster.chance.randint(100, 6_000)


def _stops_polling(cluster: Cluster, _dialects: Sequence[str]) -> None:
    cluster.clients[_somebody(cluster)].next_poll_ms = cluster.now_ms + cluster.chance.randint(1_000, 7_000)


def _changes_its_mind(cluster: Cluster, _dialects: Sequence[str]) -> None:
    client = cluster.clients[_somebody(cluster)]
    if not client.closing:
        client.subscribe(_topics(cluster))


def _weather_changes(cluster: Cluster, _dialects: Sequence[str]) -> None:
    cluster.channel.faults = cluster.chance.choice(WEATHER)


STORM = Faults(loses=0.08, latest_ms=400)
"""A request never arrives twice, as on a connection: a member that is answered its duplicate may miss an assignment."""
WEATHER = (NONE, Faults(latest_ms=300), Faults(loses=0.1, latest_ms=50), STORM)
ACTS: tuple[Callable[[Cluster, Sequence[str]], None], ...] = (
    _joins,
    _joins,
    _joins,
    _restarts,
    _closes,
    _are_left_to_the_classic,
    _dies,
    _freezes,
    _calls_back_slowly,
    _stops_polling,
    _changes_its_mind,
    _weather_changes,
)
