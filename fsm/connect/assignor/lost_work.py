"""Work that nobody reports any more: held back while a delay runs, then given to who came back, or placed.

Source: `handleLostAssignments` of `IncrementalCooperativeAssignor`, apache/kafka 1eb7644.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import cycle
from typing import NamedTuple

from fsm.connect.assignor.memory import Memory, Order
from fsm.connect.units import Holdings, Unit, Units, kinds


class LostWork(NamedTuple):
    """What became of the lost work in one round."""

    memory: Memory
    loads: Mapping[str, Units]
    to_place: Units
    """Lost units that are placed like new ones, sorted."""


def handle_lost(
    memory: Memory, lost: Collection[Unit], loads: Holdings, *, now_ms: int, max_delay_ms: int, order: Order
) -> LostWork:
    """What happens to the lost units in this round, by the first row that applies.

    `loads` has an entry for every present member. The rows also apply with nothing lost where the last round revoked.
    """
    running = memory.deadline_ms is not None
    if not lost and not memory.revoked_last:  # L0
        return LostWork(_settled(memory), loads, ())
    if not running and memory.previous_members <= loads.keys():  # L1: nobody departed
        return LostWork(memory, loads, tuple(sorted(lost)))
    if max_delay_ms == 0:  # L2
        return LostWork(memory, loads, tuple(sorted(lost)))
    if memory.deadline_ms is not None and now_ms >= memory.deadline_ms:  # L3
        return _expired(memory, lost, loads)
    return LostWork(_delayed(memory, loads, now_ms, max_delay_ms, order), loads, ())


def _settled(memory: Memory) -> Memory:
    return replace(memory, candidates=(), deadline_ms=None, delay_ms=0)


def _delayed(memory: Memory, loads: Holdings, now_ms: int, max_delay_ms: int, order: Order) -> Memory:
    """L4, a delay goes on; or L5, a member departed and one begins."""
    due_ms = memory.deadline_ms
    delay_ms = max_delay_ms if due_ms is None else min(due_ms - now_ms, max_delay_ms)
    fresh = order.candidates(w for w, load in loads.items() if not load and w not in memory.candidates)
    candidates = (*memory.candidates, *fresh)
    return replace(memory, candidates=candidates, delay_ms=delay_ms, deadline_ms=now_ms + delay_ms)


def _expired(memory: Memory, lost: Collection[Unit], loads: Holdings) -> LostWork:
    present = tuple(worker for worker in memory.candidates if worker in loads)
    settled = replace(_settled(memory), revoked_last=False)
    if not present:
        return LostWork(settled, loads, tuple(sorted(lost)))
    return LostWork(settled, _dealt(lost, loads, present), ())


def _dealt(lost: Collection[Unit], loads: Holdings, candidates: tuple[str, ...]) -> Mapping[str, Units]:
    """Connectors in turn to the candidates, then tasks in turn from the first one again, whatever they hold."""
    given: dict[str, list[Unit]] = {worker: list(load) for worker, load in loads.items()}
    for units in kinds(sorted(lost)):
        for worker, unit in zip(cycle(candidates), units):  # endless on one side
            given[worker].append(unit)
    return {worker: tuple(units) for worker, units in given.items()}
