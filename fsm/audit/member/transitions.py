"""The transitions of one consumer instance: in which order, for how long in which state, and where it got stuck.

**Order.** Within one file the lines of one thread are in order. Where a member's lines are spread over several files,
those of one moment may come in any order: transitions wait for `REORDER_MS`, and if they do not follow each other as
they stand, but do in another order, they are taken in that one. A transition that does not fit keeps its place, and
its row says which state the member was in before, unless that stands in another file and a file between the two may be
missing. A source that tells only where a machine went (classic Java members) is taken to come from where it was.
Several machines of a member (librdkafka prints two) are followed separately.

**Stuck.** Every state on the way to an assignment, or out of the group, is left within the rebalance timeout: the
coordinator removes a member that takes longer. A classic member that waits for others waits for the longest timeout in
the group; the log tells only its own, so the others are taken to have Kafka's default at least. Resting states, and
STALE (the application does not poll), may last. A closed consumer has left its group: where its last transition says
otherwise, lines are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from fsm.audit.conformance import initial
from fsm.audit.findings import Cause, Finding, FindingKind
from fsm.audit.limits import DEFAULT_MAX_POLL_INTERVAL_MS, REORDER_MS
from fsm.audit.member.consumer_instance import ConsumerInstance
from fsm.audit.rows import ObservedTransition, Place, Seen
from fsm.audit.wording import seconds

TRANSIENT = frozenset(
    {
        "JOINING",
        "RECONCILING",
        "ACKNOWLEDGING",
        "PREPARE_LEAVING",
        "LEAVING",
        "FENCED",
        "PREPARING_REBALANCE",
        "COMPLETING_REBALANCE",
        "WAIT_JOIN",
        "WAIT_METADATA",
        "WAIT_SYNC",
        "WAIT_ASSIGN_CALL",
        "WAIT_UNASSIGN_CALL",
        "WAIT_UNASSIGN_TO_COMPLETE",
        "WAIT_INCR_UNASSIGN_TO_COMPLETE",
    }
)
"""States that a healthy member only passes through, as the tables name them."""
WAITS_FOR_OTHERS = frozenset({"PREPARING_REBALANCE", "COMPLETING_REBALANCE", "WAIT_JOIN", "WAIT_SYNC"})
"""States in which a classic member waits until every member has joined, or until the leader has assigned."""
CLOSED_IN = frozenset({"UNSUBSCRIBED", "FATAL", "STALE", "UNJOINED", "INIT"})
"""States in which recordings of closed consumers end."""

Rows = Iterator[ObservedTransition | Finding]


@dataclass(slots=True)
class MachineState:
    state: str = ""
    """Empty until the first transition."""
    since_ms: int = 0
    file: str = ""
    """File of its last transition."""
    several_files: bool = False
    """Its transitions stand in several files, between which something may be missing."""
    waiting: list[Seen] = field(default_factory=list)


class TransitionTracker:
    def __init__(self, consumer: ConsumerInstance) -> None:
        self.consumer = consumer
        self.machines: dict[str, MachineState] = {}

    def see(self, seen: Seen) -> Rows:
        """The transitions whose order is known now, and states held too long; `seen` is a transition."""
        machine = self.machines.get(seen.record.machine)
        if machine is None:
            machine = self.machines[seen.record.machine] = self._first_seen(seen)
        if machine.waiting and seen.record.ts_ms - machine.waiting[0].record.ts_ms > REORDER_MS:
            yield from self._take(machine)
        machine.waiting.append(seen)

    def _first_seen(self, first: Seen) -> MachineState:
        """A machine whose instance started in this file is in its table's initial state."""
        start = self.consumer.start.file if self.consumer.whole_start else ""
        state = initial(first.record.machine) if self.consumer.unbroken(start, first.place.file) else ""
        return MachineState(state, self.consumer.start_ms, start)

    def end(self, *, closed: bool) -> Rows:
        """The transitions that still waited, and what is wrong with the states in which the machines end."""
        consumer = self.consumer
        for machine in self.machines.values():
            yield from self._take(machine)
        for machine in self.machines.values():
            yield from self._stuck(machine.state, machine.since_ms, consumer.last_ms, consumer.last)
        if closed and not consumer.stays_in_group and consumer.tells_last_step:
            for name, machine in self.machines.items():
                if machine.state not in CLOSED_IN and not machine.several_files:
                    yield from self._closed_in_between(name, machine)

    def _take(self, machine: MachineState) -> Rows:
        waiting, machine.waiting = machine.waiting, []
        unbroken = self.consumer.unbroken
        several = self.consumer.shuffled or any(not unbroken(a.place.file, b.place.file) for a, b in pairwise(waiting))
        for seen in (_in_sequence(machine.state, waiting) or waiting) if several else waiting:
            transition = self._transition(seen, machine, sure=bool(seen.record.state) or not several)
            yield transition
            if transition.dwell_ms is not None:
                start_ms = transition.ts_ms - transition.dwell_ms
                yield from self._stuck(transition.state, start_ms, transition.ts_ms, transition.place)
            if machine.file and not unbroken(machine.file, seen.place.file):
                machine.several_files = True
            machine.state, machine.since_ms, machine.file = seen.record.next_state, seen.record.ts_ms, seen.place.file

    def _transition(self, seen: Seen, machine: MachineState, sure: bool) -> ObservedTransition:
        """The row; where it came from is not sure if only the order of lines tells, and several files hold them."""
        record, place = seen
        came_from = record.state or (machine.state if sure else "")
        fits = bool(machine.state) and came_from == machine.state
        return ObservedTransition(
            group=self.consumer.group,
            member=self.consumer.member,
            machine=record.machine,
            state=came_from,
            next_state=record.next_state,
            event=record.event,
            ts_ms=record.ts_ms,
            dwell_ms=max(0, record.ts_ms - machine.since_ms) if fits else None,
            previous=machine.state if fits or self.consumer.unbroken(machine.file, place.file) else "",
            place=place,
        )

    def _stuck(self, state: str, start_ms: int, end_ms: int, place: Place) -> Iterator[Finding]:
        waits = state in WAITS_FOR_OTHERS
        limit_ms = max(self.consumer.rebalance_timeout_ms, DEFAULT_MAX_POLL_INTERVAL_MS if waits else 0)
        if state in TRANSIENT and end_ms - start_ms > limit_ms:
            limit = f"the group waits {seconds(limit_ms)}" if waits else f"its rebalance timeout is {seconds(limit_ms)}"
            yield self.consumer.finding(
                FindingKind.STUCK_STATE,
                start_ms,
                end_ms,
                f"{self.consumer.member} was {state} for {seconds(end_ms - start_ms)}; {limit}",
                [place],
                cause=Cause.UNKNOWN,
            )

    def _closed_in_between(self, name: str, machine: MachineState) -> Iterator[Finding]:
        consumer = self.consumer
        if consumer.unbroken(machine.file, consumer.last.file):
            summary = (
                f"{consumer.member} was closed, but its last step left it {machine.state}; lines of {name} are missing"
            )
            yield consumer.finding(
                FindingKind.ILLEGAL_TRANSITION, consumer.last_ms, consumer.last_ms, summary, [consumer.last]
            )


def _in_sequence(state: str, waiting: Sequence[Seen]) -> list[Seen] | None:
    """The transitions in an order in which each begins where the one before it ended; None if there is none.

    As they stand, if that is such an order; else a trail through all of them (Hierholzer), which prefers the order
    they have. Transitions that do not say where they come from fit anywhere, so they are left as they stand.
    """
    if any(not seen.record.state for seen in waiting):
        return None
    for start in [state] if state else dict.fromkeys(seen.record.state for seen in waiting):
        trail = _trail(start, waiting)
        if trail is not None:
            return trail
    return None


def _trail(start: str, waiting: Sequence[Seen]) -> list[Seen] | None:
    ways: dict[str, list[Seen]] = {}
    for seen in reversed(waiting):
        ways.setdefault(seen.record.state, []).append(seen)
    path: list[tuple[str, Seen | None]] = [(start, None)]
    trail: list[Seen] = []
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
