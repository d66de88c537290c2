"""The leader's assignor: what one round gives to and takes from each worker, a pure function with explicit memory.

Source: `IncrementalCooperativeAssignor` of apache/kafka at 1eb7644, unchanged from 3.7 to 4.4, in the shipped profile;
KIP-415's scenarios in the other one.

    outcome = assign(Memory(), Round(now_ms=0, generation=1, configured=..., owned={"w1": ()}), 300_000)
    outcome.assigned["w1"], outcome.revoked["w1"], outcome.delay_ms, outcome.memory
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from fsm.connect.assignor.balance import revoke_for_balance
from fsm.connect.assignor.lost_work import handle_lost
from fsm.connect.assignor.memory import Memory, Order
from fsm.connect.assignor.placement import place
from fsm.connect.dialect import SHIPPED, Profile, Rule
from fsm.connect.units import Holdings, Unit, Units, without


@dataclass(frozen=True)
class Round:
    """What a leader knows when it computes a round."""

    now_ms: int
    generation: int
    configured: frozenset[Unit]
    """What the config topic calls for."""
    owned: Holdings
    """What each member said it holds when it joined."""
    last_completed_generation: int = -1
    """Of the leader's own worker: the generation of the last sync it completed."""
    remaining_delay_ms: int = 0
    """What the members say is left of a running delay; only the document's profile asks."""


class Outcome(NamedTuple):
    """What a round decides. The three mappings have exactly the members of the round, in their order."""

    assigned: Mapping[str, Units]
    """Units that are new to the worker."""
    revoked: Mapping[str, Units]
    after: Mapping[str, Units]
    """What the worker holds when it has done both."""
    delay_ms: int
    memory: Memory


class Derived(NamedTuple):
    """The sets that a round is about."""

    active: frozenset[Unit]
    """Units that somebody holds."""
    deleted: frozenset[Unit]
    """Units of the memory that are not configured any more."""
    duplicated: frozenset[Unit]
    """Units that two or more workers hold."""
    lost: frozenset[Unit]
    """Units of the memory that nobody holds."""
    created: frozenset[Unit]
    """Configured units that neither the memory nor a worker has."""


def assign(
    memory: Memory, round_: Round, max_delay_ms: int, profile: Profile = SHIPPED, order: Order | None = None
) -> Outcome:
    """The outcome of a round. Nothing given is changed.

    Args:
        memory: of the leader's process; `Memory()` for a process that leads for the first time.
        order: tie-breaks; sorted where none is given.
    """
    order = order or Order()
    memory = recalled(memory, round_, profile)
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


def recalled(memory: Memory, round_: Round, profile: Profile = SHIPPED) -> Memory:
    """The memory as far as it can be trusted in this round.

    What was assigned is forgotten if the generation it was meant for is not the last that this worker completed. If a
    revocation was not carried out, what the workers hold is believed instead.
    """
    if memory == Memory() and Rule.DELAY_SURVIVES_LEADER in profile and round_.remaining_delay_ms > 0:
        return _resumed(round_)
    if memory.previous_generation != round_.last_completed_generation:
        memory = replace(memory, previous=frozenset())
    active = frozenset(unit for units in round_.owned.values() for unit in units)
    if memory.previous_revocation & active:
        memory = replace(memory, previous=active)
    return replace(memory, previous_revocation=frozenset())


def _resumed(round_: Round) -> Memory:
    """A leader without memory that goes on with a delay: everything configured was placed once."""
    left_ms = round_.remaining_delay_ms
    return Memory(previous=round_.configured, deadline_ms=round_.now_ms + left_ms, delay_ms=left_ms)


def derive(memory: Memory, round_: Round) -> Derived:
    """The sets of the round, from a memory that was `recalled`."""
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
    taken = frozenset(unit for units in revoked.values() for unit in units)
    held = frozenset(unit for units in loads.values() for unit in units)
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
