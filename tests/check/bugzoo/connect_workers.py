"""Bugs of Connect: what a worker stops and forgets, and what the leader's assignor gives and takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bugzoo.planting import Patches, plant
from fsm.check.mutation import cell_of, replace_function, rewrite_cells
from fsm.connect.assignor import incremental, leader
from fsm.connect.assignor.incremental import Derived, LostWork, Revocation
from fsm.connect.units import kinds
from fsm.connect.worker import step
from fsm.connect.worker.effects import WorkerDraft
from fsm.connect.worker.inputs import StopUnits
from fsm.protocol.messages import TransportFailure
from fsm.table import Symbol
from fsm.tables.connect_worker import TABLE, Effect, Event, State


def row(state: State, event: Event, *steps: Symbol) -> Patches:
    """What an event does in a state."""
    return [rewrite_cells(TABLE.compiled, {(state, event): cell_of(state, steps)})]


# Workers


@plant("KAFKA-9184")
def keeps_running_unreachable() -> Patches:
    return row(State.DISCONNECTED, Event.DISCOVERY_FAILED_HOLDING)


@plant("KAFKA-9851")
def believes_that_it_runs_on() -> Patches:
    def stop(original: Any, worker: Any) -> None:
        running = worker.running
        original(worker)
        worker.running = running

    return [replace_function(WorkerDraft.stop_held, stop)]


@plant("KAFKA-13719")
def restarts_what_others_hold() -> Patches:
    return [replace_function(step._mine, lambda _original, _worker, units: units)]


@plant("KAFKA-8449")
def does_not_stop_for_new_configs() -> Patches:
    return row(State.ASSIGNED, Event.TASKS_RECONFIGURED_COOPERATIVE, Effect.REQUEST_REJOIN, State.UNJOINED)


@plant("KAFKA-9849")
def sleeps_with_its_tasks_running() -> Patches:
    first = (Effect.LEAVE_GROUP, Effect.RESET_MEMBERSHIP, Effect.REQUEST_REJOIN)
    sleeps = (State.BACKING_OFF, Effect.PAUSE_UNSYNC_BACKOFF)
    return [
        *row(State.CATCHING_UP, Event.CATCH_UP_TIMED_OUT_RETRY, *first, *sleeps),
        *row(State.CATCHING_UP, Event.CATCH_UP_TIMED_OUT_AGAIN_RETRY, *sleeps),
    ]


@plant("KAFKA-10763")
def stops_only_what_it_has_started() -> Patches:
    """What a round revokes before the work of the last one is done is not stopped."""

    def stop(original: Any, worker: Any) -> None:
        if worker.resolved:
            original(worker)
        else:
            worker.effects.append(StopUnits((), wait=True))

    return [replace_function(WorkerDraft.stop_revoked, stop)]


@plant("KAFKA-3459")
def no_tasks_are_no_change() -> Patches:
    return [one for state in (State.ASSIGNED, State.DELAYED) for one in row(state, Event.CONNECTOR_STOPPED)]


@plant("KAFKA-14311")
def leaves_with_its_units_running() -> Patches:
    return [replace_function(WorkerDraft.stop_all, lambda _original, _worker: None)]


@plant("brod-578")
def awaits_a_heartbeat_that_failed() -> Patches:
    def end(original: Any, worker: Any, given: Any) -> None:
        sent = worker.heartbeat_sent
        original(worker, given)
        if isinstance(given.answer, TransportFailure):
            worker.heartbeat_sent = sent

    return [replace_function(step._end_heartbeat, end)]


# The assignor


def derives(found: dict[str, Any]) -> Patches:
    """Other sets of a round; each by a function of the round's memory and the round."""

    def derive(original: Any, memory: Any, round_: Any) -> Derived:
        return original(memory, round_)._replace(**{name: made(memory, round_) for name, made in found.items()})

    return [replace_function(incremental.derive, derive)]


@plant("KAFKA-9841")
def looks_for_no_doubles() -> Patches:
    return derives({"duplicated": lambda _memory, _round: frozenset()})


@plant("KAFKA-8463")
def what_runs_is_created() -> Patches:
    return derives({"created": lambda memory, round_: round_.configured - memory.previous})


@plant("KAFKA-9848")
def what_is_lost_waits_though_everybody_is_there() -> Patches:
    def handle_lost(original: Any, memory: Any, *rest: Any, **named: Any) -> LostWork:
        found = original(replace(memory, previous_members=memory.previous_members | {"another"}), *rest, **named)
        return found._replace(memory=replace(found.memory, previous_members=memory.previous_members))

    return [replace_function(incremental.handle_lost, handle_lost)]


@plant("KAFKA-15693")
def no_delay_is_for_ever() -> Patches:
    """A delay of 0 is waited for like any other."""

    def handle_lost(original: Any, memory: Any, lost: Any, loads: Any, *, max_delay_ms: int, **rest: Any) -> LostWork:
        departed = not memory.previous_members <= loads.keys()
        if lost and max_delay_ms == 0 and departed:
            return LostWork(memory, loads, ())
        return original(memory, lost, loads, max_delay_ms=max_delay_ms, **rest)

    return [replace_function(incremental.handle_lost, handle_lost)]


@plant("KAFKA-12495")
def never_revokes_twice() -> Patches:
    def revoke(original: Any, memory: Any, *rest: Any, **named: Any) -> Revocation:
        if memory.revoked_last:
            return Revocation(replace(memory, revoked_last=False), {})
        return original(memory, *rest, **named)

    return [replace_function(incremental.revoke_for_balance, revoke)]


@plant("KAFKA-12309")
def everybody_keeps_the_ceiling() -> Patches:
    def count(_original: Any, total: int, held: Any, walk: Any) -> dict[str, int]:
        most = -(-total // len(held))
        return {worker: len(held[worker]) - most for worker in walk if len(held[worker]) > most}

    return [replace_function(incremental._count_excess, count)]


@plant("KAFKA-10413")
def takes_the_average_and_no_more() -> Patches:
    """As before 2.8: of each worker at most the average, once for those who are new, and not in the next round."""

    def revoke(original: Any, memory: Any, configured: Any, *rest: Any, **named: Any) -> Revocation:
        if memory.revoked_last:
            return Revocation(replace(memory, revoked_last=False), {})
        found = original(memory, configured, *rest, **named)
        averages = [len(units) // len(rest[0]) for units in kinds(configured)]
        capped = {w: _first(units, averages) for w, units in found.revoked.items()}
        return found._replace(revoked={w: units for w, units in capped.items() if units})

    return [replace_function(incremental.revoke_for_balance, revoke)]


def _first(units: Any, counts: list[int]) -> Any:
    return tuple(one for part, count in zip(kinds(units), counts, strict=True) for one in part[:count])


@plant("KAFKA-4553")
def tasks_begin_with_the_first_worker_again() -> Patches:
    def assign(_original: Any, configured: Any, members: Any) -> Any:
        order = sorted(members)
        dealt = [(order[at % len(order)], one) for part in kinds(sorted(configured)) for at, one in enumerate(part)]
        return {who: tuple(one for taker, one in dealt if taker == who) for who in order}

    return [replace_function(leader.assign_eagerly, assign)]


@plant("kafka-PR-7097")
def all_tasks_are_reconfigured() -> Patches:
    """New configs for the tasks of one connector stop those of all connectors."""

    def stop(original: Any, worker: Any) -> None:
        worker.connectors = tuple(sorted({unit.connector for unit in worker.holds}))
        original(worker)

    return [replace_function(WorkerDraft.stop_reconfigured_tasks, stop)]
