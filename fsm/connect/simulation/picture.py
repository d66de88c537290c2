"""A simulated Connect cluster over time, to be drawn: `fsm.audit.connect.picture` makes the same of recorded logs."""

from __future__ import annotations

from fsm.connect.simulation.cluster import Cluster
from fsm.render.timeline.ownership import Bar, Mark, Picture, Stay, delays


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
