"""What happens to a cluster: consumers come, stall, change their minds, leave and die, as a seeded chance has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fsm.cluster.channel import NONE, Faults
from fsm.cluster.cluster import TOPICS, Cluster
from fsm.cluster.speech import CLASSIC
from fsm.member.classic.state import EnforceRebalance

MOST_CLIENTS = 5
PAUSE_MS = (100, 3_000)
SETTLES_MS = 60_000
"""Longer than every timeout of a cluster together."""
INSTANCES = (None, None, None, "i-1", "i-2")
"""Who starts with an instance id may find it in use."""


def leave_to_the_classic(cluster: Cluster) -> None:
    """The last that happens: members of the consumer protocol go, and the classic ones stay among themselves."""
    cluster.quiet()
    _are_left_to_the_classic(cluster, ())


def disturb(cluster: Cluster, spoken: Sequence[str], until_ms: int) -> None:
    """One disturbance after the other up to that time; consumers speak these dialects or classic assignors."""
    while cluster.now_ms < until_ms:
        act = cluster.chance.choice(ACTS) if cluster.clients else _joins
        act(cluster, spoken)
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
    cluster.quiet()
    cluster.run(cluster.now_ms + SETTLES_MS)
    problems, stranded = cluster.unsettled(), cluster.stranded
    if problems or stranded is None or not cluster.clients:
        return Settled(problems)
    rejoin(cluster)
    cluster.run(cluster.now_ms + SETTLES_MS)
    again = [] if cluster.stranded is None else [f"stranded again: {cluster.stranded}"]
    return Settled(cluster.unsettled() + again, stranded)


def rejoin(cluster: Cluster) -> None:
    """The application of a classic member asks for a rebalance."""
    name = min(name for name, client in cluster.clients.items() if client.spoken in CLASSIC)
    cluster.clients[name].member.submit(EnforceRebalance())


def _topics(cluster: Cluster) -> list[str]:
    names = sorted(TOPICS)
    found: list[str] = cluster.chance.sample(names, cluster.chance.randint(1, len(names)))
    return found


def _somebody(cluster: Cluster) -> str:
    name: str = cluster.chance.choice(sorted(cluster.clients))
    return name


def _joins(cluster: Cluster, spoken: Sequence[str]) -> None:
    if len(cluster.clients) < MOST_CLIENTS:
        speaks, instance_id = cluster.chance.choice(spoken), cluster.chance.choice(INSTANCES)
        commits = cluster.chance.random() < 0.5
        cluster.join(f"c{cluster.steps}", speaks, _topics(cluster), instance_id, commits=commits)


def _restarts(cluster: Cluster, spoken: Sequence[str]) -> None:
    """A new process in the place of one that dies, with its instance id if it has one."""
    name = _somebody(cluster)
    instance_id = cluster.clients[name].member.config.group_instance_id
    cluster.kill(name)
    cluster.join(f"c{cluster.steps}", cluster.chance.choice(spoken), _topics(cluster), instance_id)


def _closes(cluster: Cluster, _spoken: Sequence[str]) -> None:
    client = cluster.clients[_somebody(cluster)]
    if not client.closing:
        client.close(cluster.now_ms)


def _are_left_to_the_classic(cluster: Cluster, _spoken: Sequence[str]) -> None:
    """Where both protocols are spoken, everybody closes who speaks that of KIP-848."""
    if any(client.spoken in CLASSIC for client in cluster.clients.values()):
        for client in cluster.clients.values():
            if client.spoken not in CLASSIC and not client.closing:
                client.close(cluster.now_ms)


def _dies(cluster: Cluster, _spoken: Sequence[str]) -> None:
    cluster.kill(_somebody(cluster))


def _freezes(cluster: Cluster, _spoken: Sequence[str]) -> None:
    cluster.clients[_somebody(cluster)].freeze(cluster.now_ms + cluster.chance.randint(500, 5_000))


def _calls_back_slowly(cluster: Cluster, _spoken: Sequence[str]) -> None:
    cluster.clients[_somebody(cluster)].slow_ms = cluster.chance.randint(100, 6_000)


def _stops_polling(cluster: Cluster, _spoken: Sequence[str]) -> None:
    cluster.clients[_somebody(cluster)].next_poll_ms = cluster.now_ms + cluster.chance.randint(1_000, 7_000)


def _changes_its_mind(cluster: Cluster, _spoken: Sequence[str]) -> None:
    client = cluster.clients[_somebody(cluster)]
    if not client.closing:
        client.subscribe(_topics(cluster))


def _weather_changes(cluster: Cluster, _spoken: Sequence[str]) -> None:
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
