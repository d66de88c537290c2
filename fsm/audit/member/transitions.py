"""The transitions of one consumer instance: their order, the time in each state, and states that last too long.

**Order.** Within one stretch the lines of one thread are in order. Lines with one timestamp in several stretches may
have any order: transitions are held for `REORDER_MS`, and if they do not form a chain as printed, but do in another
order, that order is used. A transition that does not fit keeps its position, and its row has the member's previous
state, unless lines between the two may be missing. A transition without source state (classic Java members) is taken to
start in the previous state. Several machines of a member (librdkafka prints two) are followed separately.

**Stuck.** Every state on the way to an assignment, or out of the group, is left within the rebalance timeout: the
coordinator removes a member that takes longer. A classic member that waits for others waits for the longest timeout in
the group; the log has only its own, so the others are taken to have at least Kafka's default. Resting states, and STALE
(the application does not poll), may last. A closed consumer has left its group: if its last transition shows otherwise,
lines are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from fsm.audit.conformance import initial
from fsm.audit.findings import Cause, FindingKind
from fsm.audit.follower import Rows, on
from fsm.audit.limits import DEFAULT_MAX_POLL_INTERVAL_MS, REORDER_MS
from fsm.audit.member.consumer_instance import InstanceFollower
from fsm.audit.rows import At, Ended, Known, ObservedTransition, Order, group_by
from fsm.audit.wording import seconds
from fsm.trace import Kind

TRANSIENT = frozenset({
    "JOINING", "RECONCILING", "ACKNOWLEDGING", "PREPARE_LEAVING", "LEAVING", "FENCED", "PREPARING_REBALANCE",
    "COMPLETING_REBALANCE", "WAIT_JOIN", "WAIT_METADATA", "WAIT_SYNC", "WAIT_ASSIGN_CALL", "WAIT_UNASSIGN_CALL",
    "WAIT_UNASSIGN_TO_COMPLETE", "WAIT_INCR_UNASSIGN_TO_COMPLETE",
})  # fmt: skip
"""States that a healthy member only passes through, as the tables name them."""
WAITS_FOR_OTHERS = frozenset({"PREPARING_REBALANCE", "COMPLETING_REBALANCE", "WAIT_JOIN", "WAIT_SYNC"})
"""States in which a classic member waits until all members have joined, or for the leader's assignment."""
CLOSED_IN = frozenset({"UNSUBSCRIBED", "FATAL", "STALE", "UNJOINED", "INIT"})
"""States in which recordings of closed consumers end."""


@dataclass(slots=True)
class MachineState:
    state: str = ""
    """Empty until the first transition."""
    since_ms: int = 0
    at: At | None = None
    """Its last transition; the start of its instance if it has none."""
    broken: bool = False
    """Lines may be missing between its transitions."""
    waiting: list[Known] = field(default_factory=list)


@dataclass
class Transitions(InstanceFollower):
    machines: dict[str, MachineState] = field(default_factory=dict)

    @on(Kind.TRANSITION)
    def _see(self, known: Known) -> Rows:
        """Rows of the transitions whose order is known now, and findings for states that lasted too long."""
        machine = self.machines.get(known.record.machine)
        if machine is None:
            machine = self.machines[known.record.machine] = self._first_seen(known)
        if machine.waiting and known.at.ts_ms - machine.waiting[0].at.ts_ms > REORDER_MS:
            yield from self._take(machine)
        machine.waiting.append(known)

    def _first_seen(self, first: Known) -> MachineState:
        """The machine before its first transition; in its initial state if its instance started in this stretch."""
        start = self.consumer.start
        if not self.consumer.whole_start:
            return MachineState("", start.ts_ms)
        state = initial(first.record.machine) if first.at.joins(start) else ""
        return MachineState(state, start.ts_ms, start)

    def finish(self) -> Rows:
        """Rows of the transitions that were held, and findings about the last states."""
        consumer = self.consumer
        for machine in self.machines.values():
            yield from self._take(machine)
        for machine in self.machines.values():
            yield from self._stuck(machine.state, machine.since_ms, consumer.last)
        if consumer.ended is Ended.CLOSED and not consumer.stays_in_group and consumer.tells_last_step:
            for name, machine in self.machines.items():
                if machine.state not in CLOSED_IN and not machine.broken:
                    yield from self._close_in_between(name, machine)

    def _take(self, machine: MachineState) -> Rows:
        waiting, machine.waiting = machine.waiting, []
        mixed = self.consumer.order is Order.NONE or any(not b.at.joins(a.at) for a, b in pairwise(waiting))
        for known in (_in_sequence(machine.state, waiting) or waiting) if mixed else waiting:
            record, at = known.record, known.at
            transition = self._transition(known, machine, sure=bool(record.state) or not mixed)
            yield transition
            if transition.dwell_ms is not None:
                yield from self._stuck(transition.state, transition.ts_ms - transition.dwell_ms, at)
            if machine.at is not None and not at.joins(machine.at):
                machine.broken = True
            machine.state, machine.since_ms, machine.at = record.next_state, record.ts_ms, at

    def _transition(self, known: Known, machine: MachineState, sure: bool) -> ObservedTransition:
        """The row. If the record has no source state, it is the previous state, unless the order is not `sure`."""
        record, at = known.record, known.at
        source = record.state or (machine.state if sure else "")
        fits = bool(machine.state) and source == machine.state
        joins = machine.at is not None and at.joins(machine.at)
        return ObservedTransition(
            group=self.consumer.group,
            member=self.consumer.member,
            machine=record.machine,
            state=source,
            next_state=record.next_state,
            event=record.event,
            ts_ms=record.ts_ms,
            dwell_ms=max(0, record.ts_ms - machine.since_ms) if fits else None,
            previous=machine.state if fits or joins else "",
            place=at.place,
        )

    def _stuck(self, state: str, start_ms: int, end: At) -> Rows:
        waits = state in WAITS_FOR_OTHERS
        limit_ms = max(self.consumer.rebalance_timeout_ms, DEFAULT_MAX_POLL_INTERVAL_MS if waits else 0)
        if state in TRANSIENT and end.ts_ms - start_ms > limit_ms:
            limit = f"the group waits {seconds(limit_ms)}" if waits else f"its rebalance timeout is {seconds(limit_ms)}"
            summary = f"{self.consumer.member} was {state} for {seconds(end.ts_ms - start_ms)}; {limit}"
            kind, cause = FindingKind.STUCK_STATE, Cause.UNKNOWN
            yield self.consumer.finding(kind, summary, [end], start_ms=start_ms, cause=cause)

    def _close_in_between(self, name: str, machine: MachineState) -> Rows:
        member, last = self.consumer.member, self.consumer.last
        if machine.at is not None and last.joins(machine.at):
            summary = f"{member} was closed, but its last step left it {machine.state}; lines of {name} are missing"
            yield self.consumer.finding(FindingKind.ILLEGAL_TRANSITION, summary, [last])


def _in_sequence(state: str, waiting: Sequence[Known]) -> list[Known] | None:
    """The transitions in an order in which they form a chain; None if there is none.

    The given order is preferred; else a trail through all of them (Hierholzer). None if a transition has no source
    state, because it would fit anywhere.
    """
    if any(not known.record.state for known in waiting):
        return None
    for start in [state] if state else dict.fromkeys(known.record.state for known in waiting):
        trail = _trail(start, waiting)
        if trail is not None:
            return trail
    return None


def _trail(start: str, waiting: Sequence[Known]) -> list[Known] | None:
    ways = group_by(reversed(waiting), lambda known: known.record.state)
    path: list[tuple[str, Known | None]] = [(start, None)]
    trail: list[Known] = []
    while path:
        state, reached = path[-1]
        if ways.get(state):
            onward = ways[state].pop()
            path.append((onward.record.next_state, onward))
        else:
            path.pop()
            if reached is not None:
                trail.append(reached)
    trail.reverse()
    at = start
    for step in trail:
        if step.record.state != at:
            return None
        at = step.record.next_state
    return trail if len(trail) == len(waiting) else None
