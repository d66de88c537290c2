"""The leader's assignor: the units that one round assigns and revokes, a pure function with explicit memory.

    outcome = assign(Memory(), Round(now_ms=0, generation=1, configured=..., owned={"w1": ()}), 300_000)
    outcome.assigned["w1"], outcome.revoked["w1"], outcome.delay_ms, outcome.memory

Lost units, which no worker reports any more, are held back while a delay runs, then assigned to returning workers, or
placed. Units are revoked for balance, with a pause between two such rounds.

Source: `IncrementalCooperativeAssignor` of apache/kafka at 1eb7644, unchanged from 3.7 to 4.4, in the shipped profile;
KIP-415's scenarios in the other one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, takewhile
from typing import NamedTuple

from fsm.connect.dialect import SHIPPED, Profile, Rule
from fsm.connect.units import Unit, Units, UnitsByWorker, kinds, list_all, without

BACKOFF_BASE = 40
"""Not configurable in Kafka, and without jitter."""

Loads = dict[str, list[Unit]]


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one leader process. A fresh process has none of it; losing the lead keeps it.

    `delay_ms > 0` if and only if `deadline_ms` is set.
    """

    previous: frozenset[Unit] = frozenset()
    """Units believed to be placed, and those still lost."""
    previous_revocation: frozenset[Unit] = frozenset()
    """Units that the last output revoked."""
    previous_members: frozenset[str] = frozenset()
    previous_generation: int = -1
    deadline_ms: int | None = None
    """When a delayed rebalance is due, on this leader's clock."""
    delay_ms: int = 0
    candidates: tuple[str, ...] = ()
    """Workers that had no units while a delay ran, in order of appearance: they get the lost units."""
    revoked_last: bool = False
    """Whether the last round revoked units for balance, or postponed that."""
    successive: int = 0
    """The number of consecutive rounds with a revocation for balance."""


class Order(NamedTuple):
    """Tie-breaks: orders that Kafka takes from its hash maps. Sorted by default."""

    revocation: Callable[[Iterable[str]], Sequence[str]] = sorted
    """The order of workers that decides which of them keep one unit more."""
    candidates: Callable[[Iterable[str]], Sequence[str]] = sorted
    """The order in which workers without units become candidates in one round."""


SORTED = Order()
AS_GIVEN = Order(tuple, tuple)
"""The given order of the workers, as in a recording."""


@dataclass(frozen=True)
class Round:
    """The input of a leader's round."""

    now_ms: int
    generation: int
    configured: frozenset[Unit]
    """The units configured in the config topic."""
    owned: UnitsByWorker
    """The units that each member reported in its join."""
    last_completed_generation: int = -1
    """The generation of the last sync that the leader's own worker completed."""
    remaining_delay_ms: int = 0
    """The remaining delay reported by the members; only for the document's profile."""


class Outcome(NamedTuple):
    """The result of a round. The three mappings have exactly the members of the round, in their order."""

    assigned: Mapping[str, Units]
    """Units that are new to the worker."""
    revoked: Mapping[str, Units]
    after: Mapping[str, Units]
    """The worker's units after both."""
    delay_ms: int
    memory: Memory


class Derived(NamedTuple):
    """The sets of units of a round."""

    active: frozenset[Unit]
    """Units that a worker holds."""
    deleted: frozenset[Unit]
    """Units of the memory that are not configured any more."""
    duplicated: frozenset[Unit]
    """Units that two or more workers hold."""
    lost: frozenset[Unit]
    """Units of the memory that no worker holds."""
    created: frozenset[Unit]
    """Configured units that neither the memory nor a worker has."""


def assign(
    memory: Memory, round_: Round, max_delay_ms: int, profile: Profile = SHIPPED, order: Order = SORTED
) -> Outcome:
    """The outcome of a round. Nothing given is changed.

    Args:
        memory: of the leader's process; `Memory()` for a process that leads for the first time.
        order: tie-breaks.
    """
    memory = recall(memory, round_, profile)
    derived = derive(memory, round_)
    gone = derived.deleted | derived.duplicated
    revoked = {w: tuple(u for u in units if u in gone) for w, units in round_.owned.items()}
    loads = {w: without(units, gone) for w, units in round_.owned.items()}
    now_ms = round_.now_ms
    lost = handle_lost(memory, derived.lost, loads, now_ms=now_ms, max_delay_ms=max_delay_ms, order=order)
    balanced = revoke_for_balance(
        lost.memory,
        round_.configured,
        lost.loads,
        now_ms=now_ms,
        max_delay_ms=max_delay_ms,
        profile=profile,
        order=order,
    )
    revoked = {w: (*units, *balanced.revoked.get(w, ())) for w, units in revoked.items()}
    loads = {w: without(units, revoked[w]) for w, units in lost.loads.items()}
    loads = place(loads, (*sorted(derived.created), *lost.to_place), profile)
    return _outcome(balanced.memory, round_, derived, loads, revoked)


def recall(memory: Memory, round_: Round, profile: Profile = SHIPPED) -> Memory:
    """The valid part of the memory in this round.

    The assignment is dropped if its generation is not the last one that this worker completed. If a revocation was not
    executed, the units that the workers hold count instead.
    """
    if memory == Memory() and Rule.DELAY_SURVIVES_LEADER in profile and round_.remaining_delay_ms > 0:
        return _resume(round_)
    if memory.previous_generation != round_.last_completed_generation:
        memory = replace(memory, previous=frozenset())
    active = list_all(round_.owned)
    if memory.previous_revocation & active:
        memory = replace(memory, previous=active)
    return replace(memory, previous_revocation=frozenset())


def _resume(round_: Round) -> Memory:
    """The memory of a new leader that continues a delay: all configured units count as placed before."""
    left_ms = round_.remaining_delay_ms
    return Memory(previous=round_.configured, deadline_ms=round_.now_ms + left_ms, delay_ms=left_ms)


def derive(memory: Memory, round_: Round) -> Derived:
    """The sets of the round, from a memory as `recall` gives it."""
    holders = Counter(unit for units in round_.owned.values() for unit in units)
    active = frozenset(holders)
    deleted = memory.previous - round_.configured
    return Derived(
        active=active,
        deleted=deleted,
        duplicated=frozenset(unit for unit, count in holders.items() if count > 1),
        lost=memory.previous - active - deleted,
        created=round_.configured - memory.previous - active,
    )


def _outcome(
    memory: Memory, round_: Round, derived: Derived, loads: Mapping[str, Units], revoked: Mapping[str, Units]
) -> Outcome:
    taken, held = list_all(revoked), list_all(loads)
    assigned = {w: without(loads[w], without(owned, derived.deleted)) for w, owned in round_.owned.items()}
    remembered = replace(
        memory,
        previous=(held - taken) | derived.lost,
        previous_revocation=taken,
        previous_members=frozenset(round_.owned),
        previous_generation=round_.generation,
    )
    after = {w: without(loads[w], revoked[w]) for w in round_.owned}
    return Outcome(assigned, revoked, after, memory.delay_ms, remembered)


# Lost work: `handleLostAssignments`


class LostWork(NamedTuple):
    """The result for lost units in one round."""

    memory: Memory
    loads: Mapping[str, Units]
    to_place: Units
    """Lost units that are placed like new ones, sorted."""


def handle_lost(
    memory: Memory, lost: Collection[Unit], loads: UnitsByWorker, *, now_ms: int, max_delay_ms: int, order: Order
) -> LostWork:
    """Handles the lost units of this round by the first rule that applies: `handleLostAssignments` of Kafka.

    `loads` has an entry for every present member. The rules L0 to L5 also apply with nothing lost where the last round
    revoked.
    """
    running = memory.deadline_ms is not None
    if not lost and not memory.revoked_last:  # L0: nothing to wait for
        return LostWork(_settle(memory), loads, ())
    if not running and memory.previous_members <= loads.keys():  # L1: nobody departed, so place at once
        return LostWork(memory, loads, tuple(sorted(lost)))
    if max_delay_ms == 0:  # L2: no delay is configured
        return LostWork(memory, loads, tuple(sorted(lost)))
    if memory.deadline_ms is not None and now_ms >= memory.deadline_ms:  # L3: the delay is over
        return _expire(memory, lost, loads)
    return LostWork(_delay(memory, loads, now_ms, max_delay_ms, order), loads, ())


def _settle(memory: Memory) -> Memory:
    return replace(memory, candidates=(), deadline_ms=None, delay_ms=0)


def _delay(memory: Memory, loads: UnitsByWorker, now_ms: int, max_delay_ms: int, order: Order) -> Memory:
    """L4: a running delay continues. L5: a member departed, and a delay begins."""
    due_ms = memory.deadline_ms
    delay_ms = max_delay_ms if due_ms is None else min(due_ms - now_ms, max_delay_ms)
    fresh = order.candidates(w for w, load in loads.items() if not load and w not in memory.candidates)
    candidates = (*memory.candidates, *fresh)
    return replace(memory, candidates=candidates, delay_ms=delay_ms, deadline_ms=now_ms + delay_ms)


def _expire(memory: Memory, lost: Collection[Unit], loads: UnitsByWorker) -> LostWork:
    present = tuple(worker for worker in memory.candidates if worker in loads)
    settled = replace(_settle(memory), revoked_last=False)
    if not present:
        return LostWork(settled, loads, tuple(sorted(lost)))
    return LostWork(settled, _deal_in_turn(lost, loads, present), ())


def _deal_in_turn(lost: Collection[Unit], loads: UnitsByWorker, candidates: tuple[str, ...]) -> Mapping[str, Units]:
    """Deals connectors round-robin to the candidates, then tasks from the first candidate again."""
    given: dict[str, list[Unit]] = {worker: list(load) for worker, load in loads.items()}
    for units in kinds(sorted(lost)):
        for worker, unit in zip(cycle(candidates), units):  # endless on one side
            given[worker].append(unit)
    return {worker: tuple(units) for worker, units in given.items()}


# Balance: `performLoadBalancingRevocations`


class Revocation(NamedTuple):
    """The units that one round revokes for balance."""

    memory: Memory
    revoked: Mapping[str, Units]
    """Only workers that lose units."""


def revoke_for_balance(
    memory: Memory,
    configured: Collection[Unit],
    loads: UnitsByWorker,
    *,
    now_ms: int,
    max_delay_ms: int,
    profile: Profile,
    order: Order,
) -> Revocation:
    """The revocation of this round; none while a delay runs or if the last such round is too recent."""
    if memory.delay_ms > 0:
        return Revocation(replace(memory, revoked_last=False), {})
    excess = find_excess(configured, loads, profile, order)
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


def find_excess(configured: Collection[Unit], loads: UnitsByWorker, profile: Profile, order: Order) -> dict[str, Units]:
    """The units of each worker above its share of the configured ones, without workers that lose none.

    The share counts units that are placed in the same round.
    """
    if not configured or not any(loads.values()):
        return {}
    found: dict[str, Units] = {}
    for total, held in _split_by_kind(configured, loads, profile):
        for worker, excess in _count_excess(total, held, order.revocation(held)).items():
            victims = sorted(held[worker])[-excess:] if Rule.TAIL_REVOKED in profile else held[worker][:excess]
            found[worker] = (*found.get(worker, ()), *victims)
    return found


def _split_by_kind(
    configured: Collection[Unit], loads: UnitsByWorker, profile: Profile
) -> Sequence[tuple[int, Mapping[str, Units]]]:
    """The groups of units that are balanced separately: their number, and their holders."""
    if Rule.TOTAL_BALANCE in profile:
        return ((len(configured), loads),)
    split = {worker: kinds(load) for worker, load in loads.items()}
    totals = [len(units) for units in kinds(configured)]
    return [(totals[kind], {worker: parts[kind] for worker, parts in split.items()}) for kind in (0, 1)]


def _count_excess(total: int, held: Mapping[str, Units], walk: Sequence[str]) -> dict[str, int]:
    """The number of excess units of each worker; the first ones in the order may keep one more."""
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


# Placement: `assignConnectors` and `assignTasks`


def place(loads: UnitsByWorker, units: Iterable[Unit], profile: Profile) -> dict[str, Units]:
    """The loads with every unit placed, each kind in the order given."""
    placed = {worker: list(load) for worker, load in loads.items()}
    connectors, tasks = kinds(units)
    if Rule.TASKS_PLACED_FIRST in profile:
        _place_one_by_one(placed, (*tasks, *connectors))
    else:
        _deal(placed, connectors)
        _deal(placed, tasks)
    return {worker: tuple(load) for worker, load in placed.items()}


def _place_one_by_one(loads: Loads, units: Units) -> None:
    """Places each unit at the worker with the fewest units, the first by id in a tie."""
    for unit in units:
        loads[min(loads, key=lambda worker: (len(loads[worker]), worker))].append(unit)


def _deal(loads: Loads, units: Units) -> None:
    """Deals units of one kind to the workers with the fewest of that kind.

    The workers are sorted only once, by count and id: a tie goes to the worker that had fewer at the start.
    """
    if not units:
        return
    counts = {worker: sum(u.is_connector == units[0].is_connector for u in load) for worker, load in loads.items()}
    ranked = sorted(counts, key=lambda worker: (counts[worker], worker))
    for unit, worker in zip(units, _turns(counts, ranked), strict=False):  # endless on one side
        loads[worker].append(unit)


def _turns(counts: dict[str, int], ranked: list[str]) -> Iterator[str]:
    """An endless sequence of turns: the leading workers with as few units as the first one, repeatedly."""
    while True:
        lowest = counts[ranked[0]]
        for worker in list(takewhile(lambda worker: counts[worker] == lowest, ranked)):  # noqa: B023  # used at once
            counts[worker] += 1
            yield worker
