"""A Connect cluster over time: who was there and who led, where every unit ran, and while which delays.

`of_cluster` makes a `Picture` of a simulated cluster, `fsm.audit.connect_picture` of recorded logs; `drawing` draws it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fsm.connect.cluster import Cluster
from fsm.connect.units import Unit


class Bar(NamedTuple):
    """A unit that ran on a worker."""

    unit: Unit
    worker: str
    start_ms: int
    end_ms: int


class Stay(NamedTuple):
    """A process that was there."""

    worker: str
    start_ms: int
    end_ms: int


class Delay(NamedTuple):
    """A time in which lost work waited."""

    start_ms: int
    end_ms: int


class Mark(NamedTuple):
    """A round."""

    at_ms: int
    generation: int
    leader: str
    delay_ms: int

    @property
    def text(self) -> str:
        """What its flag says."""
        delay = f", delay {seconds(self.delay_ms)}" if self.delay_ms else ""
        return f"generation {self.generation}: {self.leader} leads{delay}"


class Picture(NamedTuple):
    """What is drawn."""

    start_ms: int
    end_ms: int
    bars: tuple[Bar, ...]
    delays: tuple[Delay, ...] = ()
    marks: tuple[Mark, ...] = ()
    stays: tuple[Stay, ...] = ()

    def close_up(self, margin_ms: int) -> Picture:
        """The time around its delays; the whole where there is none."""
        if not self.delays:
            return self
        start_ms = max(self.start_ms, self.delays[0].start_ms - margin_ms)
        end_ms = min(self.end_ms, self.delays[-1].end_ms + margin_ms)
        return self._replace(start_ms=start_ms, end_ms=end_ms)

    @property
    def workers(self) -> list[str]:
        """All of them, in the order of their rows."""
        ran = {bar.worker for bar in self.bars if self.shows(bar.start_ms, bar.end_ms)}
        return sorted(ran | {stay.worker for stay in self.stays if self.shows(stay.start_ms, stay.end_ms)})

    @property
    def units(self) -> list[Unit]:
        """All that ran at some time of the picture, in the order of their rows."""
        return sorted({bar.unit for bar in self.bars if self.shows(bar.start_ms, bar.end_ms)})

    def shows(self, start_ms: int, end_ms: int) -> bool:
        """Whether some of this time is seen."""
        return end_ms >= self.start_ms and start_ms <= self.end_ms


def of_cluster(cluster: Cluster, start_ms: int = 0) -> Picture:
    """A simulated cluster from an instant on."""
    now_ms, rounds = cluster.now_ms, cluster.rounds
    bars = (Bar(r.unit, r.worker, r.start_ms, now_ms if r.end_ms is None else r.end_ms) for r in cluster.ran)
    stays = (Stay(s.worker, s.start_ms, now_ms if s.end_ms is None else s.end_ms) for s in cluster.stays)
    return Picture(
        start_ms,
        now_ms,
        tuple(sorted(bars)),
        delays(((r.now_ms, r.delay_ms) for r in rounds), now_ms),
        tuple(Mark(r.now_ms, r.generation, r.leader, r.delay_ms) for r in rounds),
        tuple(sorted(stays)),
    )


def delays(rounds: Iterable[tuple[int, int]], end_ms: int) -> tuple[Delay, ...]:
    """The stretches of time in which a delay ran, from rounds as (instant, delay announced), in their order.

    A delay begins with the first round that announces it and ends with the first that does not, or else at `end_ms`.
    """
    found, begun = [], None
    for at_ms, delay_ms in rounds:
        if delay_ms > 0 and begun is None:
            begun = at_ms
        elif delay_ms == 0 and begun is not None:
            found.append(Delay(begun, at_ms))
            begun = None
    return (*found, *([] if begun is None else [Delay(begun, end_ms)]))


def seconds(ms: int) -> str:
    """A length of time as a picture shows it."""
    return f"{ms / 1000:.1f} s".replace(".0 s", " s")
