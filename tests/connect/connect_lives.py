"""Lives of clusters in which chance plays operator and machines: `Fate`, and `Misfortune`, which plays rougher."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from fsm.connect.dialect import DOCUMENT, SHIPPED
from fsm.connect.simulation.cluster import Cluster
from fsm.connect.simulation.process import Latencies
from fsm.connect.worker.config import ConnectConfig

G1_HELD = "G1 everything configured is held, and nothing else"
WORKERS = ("W1", "W2", "W3", "W4", "W5")
Act = Callable[[], None]


def idles_with_deleted_units(found: Cluster) -> bool:
    """G3's exception: somebody holds what had been deleted before the last round, and its leader had not known of it.

    What is deleted is taken from workers as a difference to the leader's last assignment: to nothing where this is its
    first round, and without the units of a worker that had been out of the group when they were deleted.
    """
    deleted = {unit for units in found.assignments().values() for unit in units} - found.topic.units
    if len(found.rounds) < 2 or not deleted:
        return False
    before, last = found.rounds[-2:]
    return before.leader != last.leader or deleted.isdisjoint(
        unit for units in before.assigned.values() for unit in units
    )


class Fate:
    """Workers come, go and die; connectors are created, scaled and deleted."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311
        self.cluster = Cluster(self.config(), self.latencies())
        for name in ("W1", "W2", "W3"):
            self.cluster.start(name)
        self.cluster.run_for(8_000)

    def config(self) -> ConnectConfig:
        delay_ms = self.random.choice((0, 1_000, 20_000))
        profile = self.random.choice((SHIPPED, DOCUMENT))
        return ConnectConfig("g", "compatible", scheduled_rebalance_max_delay_ms=delay_ms, profile=profile)

    def latencies(self) -> Latencies:
        return Latencies()

    def living(self) -> list[str]:
        return sorted(n for n, p in self.cluster.processes.items() if p.alive)

    def acts(self) -> list[Act]:
        c, living = self.cluster, self.living()
        away = [n for n in WORKERS if n not in living]
        connectors = sorted(c.connectors.wanted)
        acts: list[Act] = [lambda: c.create(self.random.choice("ABCD"), self.random.randint(0, 4))]
        acts += [lambda: c.start(self.random.choice(away))] * 3 if away else []
        acts += [lambda: c.stop(self.random.choice(living)), lambda: c.crash(self.random.choice(living))] * (
            len(living) > 1
        )
        acts += [lambda: c.scale(self.random.choice(connectors), self.random.randint(0, 5))] * bool(connectors)
        acts += [lambda: c.delete(self.random.choice(connectors))] * bool(connectors)
        return acts

    def end(self) -> None:
        """What has to be put right before a cluster can come to rest."""

    def live(self, acts: int) -> Cluster:
        for _ in range(acts):
            self.random.choice(self.acts())()
            self.cluster.run_for(self.random.choice((10, 500, 3_000, 15_000, 40_000)))
        self.end()
        assert self.cluster.settle(), self.cluster.now_ms
        if idles_with_deleted_units(self.cluster):
            self.cluster.start("W6")
            assert self.cluster.settle(), self.cluster.now_ms
        return self.cluster


class Misfortune(Fate):
    """Besides, processes freeze and lose their connections, the broker goes away, users pause, stop and restart, and
    everything may take its time."""

    def latencies(self) -> Latencies:
        pick = self.random.choice
        return Latencies(
            network_ms=pick((1, 20, 150, 700)),
            start_ms=pick((5, 800, 4_000)),
            stop_ms=pick((5, 500, 3_000)),
            read_ms=pick((5, 300, 2_500)),
            task_configs_ms=pick((10, 400, 3_000)),
        )

    def acts(self) -> list[Act]:
        return self.random.choice((super().acts, self.rough))()

    def rough(self) -> list[Act]:
        c, pick = self.cluster, self.random.choice
        frozen = [n for n in self.living() if c.processes[n].frozen]
        cut = [n for n in self.living() if c.processes[n].cut]
        hearing = [n for n in self.living() if n not in frozen]
        acts: list[Act] = [c.broker_down if c.broker_up else c.broker_back]
        acts += [lambda: c.freeze(pick(hearing)), lambda: c.cut(pick(hearing))] * bool(hearing)
        acts += [lambda: c.thaw(pick(frozen))] * 2 * bool(frozen)
        acts += [lambda: c.heal(pick(cut))] * 2 * bool(cut)
        names = sorted(c.connectors.wanted)
        for ask in (c.pause, self.resume, c.stop_connector, c.reconfigure, c.restart) if names else ():
            acts.append(lambda ask=ask: ask(pick(names)))  # type: ignore[misc]
        return acts

    def resume(self, connector: str) -> None:
        """Nothing happens to one that goes on already."""
        connectors = self.cluster.connectors
        if connector in connectors.paused | connectors.stopped:
            self.cluster.resume(connector)

    def end(self) -> None:
        if not self.cluster.broker_up:
            self.cluster.broker_back()
        for name in self.living():
            if self.cluster.processes[name].frozen:
                self.cluster.thaw(name)
            if self.cluster.processes[name].cut:
                self.cluster.heal(name)
