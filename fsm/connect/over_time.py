"""What holds from one round of Connect to the next, and in a worker between its inputs.

The other half of `invariants`, by the same numbers of the reference on Connect, section 4: G4 to G6 for the rounds of
a group, W2 to W4 for a worker that starts units or waits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from fsm.connect.process import SeenRound
from fsm.connect.state import Worker
from fsm.connect.units import Unit
from fsm.tables.connect_worker import State


def broken_between(
    before: SeenRound | None, now: SeenRound, advertised: Mapping[str, Collection[int]]
) -> Iterator[str]:
    """What a round breaks, given the round that was sent before it and the versions that each worker can speak.

    A leader that asks again before it has sent its sync computes the same generation again.
    """
    if now.leader not in now.assigned:
        yield "G5 the leader is a member"
    if any(now.version not in advertised[worker] for worker in now.assigned):
        yield "G5 everybody speaks the elected protocol"
    if before is None:
        return
    if now.generation < before.generation or (now.generation == before.generation and now.leader != before.leader):
        yield "G4 generations increase"
    if before.leader_id in now.member_ids and before.leader_id != now.leader_id:
        yield "G6 a leader that is there stays leader"


def broken_by_start(worker: Worker, running: Collection[Unit], stubborn: Collection[Unit]) -> Iterator[str]:
    """What a worker breaks that is about to start units. A task that outlives its stop is not its fault."""
    held = worker.held
    if held is None or held.failed:
        yield "W4 nothing starts without a good assignment"
        return
    if worker.configs.offset != held.offset:
        yield "W4 nothing starts before the configs agree"
    if not (set(held.revoked) & set(running)).issubset(stubborn):
        yield "W2 stops come before starts"


def broken_in_step(before: Worker, after: Worker, now_ms: int) -> Iterator[str]:
    """What a worker breaks that has just taken an input."""
    if before.state is State.DELAYED and before.deadline_ms is not None and before.deadline_ms < now_ms:
        yield "W3 a delay is not waited for any longer"
    if after.held is not None and not set(after.held.revoked).isdisjoint(after.held.assigned):
        yield "W2 a join reports nothing that was revoked"
    if after.is_member and after.last_completed_generation > after.generation:
        yield "G4 no generation is completed before it was joined"
