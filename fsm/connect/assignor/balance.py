"""Units that are taken away so that others can have them, and the pause between two such rounds.

Source: `performLoadBalancingRevocations` of `IncrementalCooperativeAssignor`, apache/kafka 1eb7644.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from fsm.connect.assignor.memory import Memory, Order
from fsm.connect.dialect import Profile, Rule
from fsm.connect.units import Holdings, Unit, Units, kinds

BACKOFF_BASE = 40
"""Not configurable in Kafka, and without jitter."""


class Revocation(NamedTuple):
    """What one round takes away for balance."""

    memory: Memory
    revoked: Mapping[str, Units]
    """Only workers that lose something."""


def revoke_for_balance(
    memory: Memory,
    configured: Collection[Unit],
    loads: Holdings,
    *,
    now_ms: int,
    max_delay_ms: int,
    profile: Profile,
    order: Order,
) -> Revocation:
    """What is taken away in this round: nothing while a delay runs or where the last such round is too recent."""
    if memory.delay_ms > 0:
        return Revocation(replace(memory, revoked_last=False), {})
    excess = balance(configured, loads, profile, order)
    if not excess:
        successive = 0 if memory.revoked_last else memory.successive
        return Revocation(replace(memory, revoked_last=False, successive=successive), {})
    if not memory.revoked_last:
        return Revocation(replace(memory, revoked_last=True), excess)
    again = replace(memory, successive=memory.successive + 1)
    delay_ms = backoff_ms(again.successive, max_delay_ms)
    if delay_ms == 0:
        return Revocation(again, excess)
    return Revocation(replace(again, delay_ms=delay_ms, deadline_ms=now_ms + delay_ms), {})


def backoff_ms(attempt: int, max_delay_ms: int) -> int:
    """The pause before the `attempt`-th revoking round in a row, from 1.

    It is computed in floating point and cut off, as Kafka does: a maximum of 1000 gives 999.
    """
    if max_delay_ms <= 1:
        return max_delay_ms
    exponent = min(attempt, math.log(max_delay_ms) / math.log(BACKOFF_BASE))
    return min(max_delay_ms, int(math.pow(BACKOFF_BASE, exponent)))


def balance(configured: Collection[Unit], loads: Holdings, profile: Profile, order: Order) -> dict[str, Units]:
    """What each worker holds above its share of what is configured; workers that lose nothing are left out.

    The share counts units that are about to be placed in the same round.
    """
    if not configured or not any(loads.values()):
        return {}
    found: dict[str, Units] = {}
    for total, held in _measures(configured, loads, profile):
        for worker, excess in _excess(total, held, order.revocation(held)).items():
            victims = sorted(held[worker])[-excess:] if Rule.TAIL_REVOKED in profile else held[worker][:excess]
            found[worker] = (*found.get(worker, ()), *victims)
    return found


def _measures(
    configured: Collection[Unit], loads: Holdings, profile: Profile
) -> Sequence[tuple[int, Mapping[str, Units]]]:
    """What is balanced by itself: how many units there are, and who has them."""
    if Rule.TOTAL_BALANCE in profile:
        return ((len(configured), loads),)
    split = {worker: kinds(load) for worker, load in loads.items()}
    totals = [len(units) for units in kinds(configured)]
    return [(totals[kind], {worker: parts[kind] for worker, parts in split.items()}) for kind in (0, 1)]


def _excess(total: int, held: Mapping[str, Units], walk: Sequence[str]) -> dict[str, int]:
    """How many units each worker of the walk has too many; the first that may keep one more than the others do."""
    low, extra = divmod(total, len(held))
    sizes = [len(units) for units in held.values()]
    if sizes.count(low + 1) == extra and sizes.count(low) == len(held) - extra:
        return {}
    found = {}
    for worker in walk:
        size = len(held[worker])
        if size <= low:
            continue
        cap, extra = (low + 1, extra - 1) if extra else (low, 0)
        if size > cap:
            found[worker] = size - cap
    return found
