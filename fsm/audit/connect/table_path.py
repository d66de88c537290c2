"""Checks whether the lines of a Connect worker are a path through its table.

A log shows some of a worker's steps: its joins, completed rounds, starts of work. Between two lines the worker may take
steps that it does not print. So the worker is followed as the set of possible states: before each line hidden steps are
taken any number of times, then the line's own step, from every state that has it. If no state is left, the table does
not allow the line.

Steps that are printed only at DEBUG count as hidden, so that the same rules apply to INFO logs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from fsm.audit.findings import Finding, FindingKind, finding
from fsm.audit.rows import Known, Place
from fsm.tables.connect_worker import TABLE, Event, State
from fsm.trace import Kind, TraceRecord

States = frozenset[State]
EVERY = frozenset(State)
UP = EVERY - {State.DOWN}
E, S = Event, State

JOIN_DUE = frozenset({E.JOIN_DUE_EAGER, E.JOIN_DUE_EAGER_EMPTY_HANDED, E.JOIN_DUE_COOPERATIVE})
JOINED = frozenset({E.JOINED_FOLLOWER, E.JOINED_LEADER})
SYNCED = frozenset(event for event in Event if event.name.startswith("SYNCED_"))
REVOKED = frozenset(event for event in Event if event.name.startswith("REVOKED_"))
STARTED = frozenset(event for event in Event if event.name.startswith("STARTED"))
CAUGHT_UP = frozenset(event for event in Event if event.name.startswith("CAUGHT_UP"))
TIMED_OUT = frozenset(event for event in Event if event.name.startswith("CATCH_UP_TIMED_OUT"))
ALONE = frozenset({E.START, E.STOP, E.COORDINATOR_LOST, E.FATAL_ERROR, E.POLL_TIMEOUT, E.DISCOVERY_FAILED_HOLDING})
PRINTED = JOIN_DUE | JOINED | SYNCED | REVOKED | STARTED | CAUGHT_UP | TIMED_OUT | ALONE
HIDDEN = frozenset(Event) - PRINTED | {E.CATCH_UP_TIMED_OUT_AGAIN_EXHAUSTED}
"""Steps that may not be printed at INFO."""
STEPS: Mapping[Kind | str, frozenset[Event]] = {
    Kind.JOINED: JOINED,
    Kind.SYNCED: SYNCED,  # the next line may be a result, a revocation, or another join
    Kind.FATAL: frozenset({E.FATAL_ERROR}),
    "STARTED": STARTED,
    "CATCH_UP_TIMED_OUT": TIMED_OUT,
    "POLL_TIMEOUT": frozenset({E.POLL_TIMEOUT}),
    "DISCOVERY_FAILED_HOLDING": frozenset({E.DISCOVERY_FAILED_HOLDING}),
}
"""The events of lines that are one of them and nothing else: by kind, or by the event of a transition."""


@cache
def _follow_hidden(states: States) -> States:
    found, todo = set(states), list(states)
    while todo:
        cells = TABLE.compiled.by_state.get(todo.pop(), {})
        for event, cell in cells.items():
            if event in HIDDEN and cell.target not in found:
                found.add(cell.target)
                todo.append(cell.target)
    return frozenset(found)


@cache
def _after(states: States, events: frozenset[Event]) -> States:
    """The states after hidden steps and one of the events."""
    cells = TABLE.compiled.by_state
    return frozenset(
        cells[state][event].target
        for state in _follow_hidden(states)
        for event in events
        if event in cells.get(state, {})
    )


def follow(states: States, record: TraceRecord) -> States:
    """The possible states after the record; empty if the table does not allow it."""
    events = STEPS.get(record.event if record.kind is Kind.TRANSITION else record.kind)
    if events is not None:
        return _after(states, events)
    match record.kind:
        case Kind.STARTED | Kind.CLOSE_BEGIN:
            return frozenset({S.DOWN})
        case Kind.TRANSITION:
            return _take_step(states, record)
        case Kind.JOINING if record.event:
            return _after(states, JOIN_DUE | {E.JOIN_UNKNOWN_MEMBER})
        case Kind.TARGET if record.revoked:
            return _after(states, REVOKED) or _same(states, UP - {S.REVOKING})
        case Kind.TARGET:
            return _same(states, UP - {S.REVOKING, S.DISCONNECTED})
        case Kind.COORDINATOR_LOST:
            return _after(states, frozenset({E.COORDINATOR_LOST})) | (states & {S.DISCONNECTED})
        case Kind.LEAVE_SENT:
            return states if "closed" in record.detail else _same(states, UP)
    return states


def _take_step(states: States, record: TraceRecord) -> States:
    match record.event, record.next_state:
        case "START", _:
            return _after(frozenset({S.DOWN}), frozenset({E.START}))
        case "MISMATCH", _:
            return _same(states, frozenset({S.UNJOINED})) or _after(states, CAUGHT_UP)
        case _, "STARTING":
            # While a delay runs the herder repeats STARTING with nothing to start.
            again = {S.STARTING} if S.DELAYED in _follow_hidden(states) else set()
            return _same(states | _after(states, CAUGHT_UP), frozenset({S.STARTING})) | again
        case _, "CATCHING_UP":
            return _same(states, frozenset({S.CATCHING_UP}))
    # The config topic was read to its end: after a timeout, or at the start, no other line shows what follows.
    return states | _after(states, CAUGHT_UP)


def _same(states: States, allowed: States) -> States:
    """The states, after hidden steps, in which the line can be printed."""
    return _follow_hidden(states) & allowed


class TablePath:
    """Follows one worker; a process without a logged start may first be in any state."""

    def __init__(self, group: str, member: str) -> None:
        self.group, self.member = group, member
        self.states: States = UP
        self.stopping = False
        self.last: tuple[str, Place] | None = None
        self.steps = 0
        """Lines so far that are, or should be, steps of the table."""

    def see(self, known: Known) -> Iterator[Finding]:
        """A finding if the table does not allow the record; the worker may then be in any state."""
        record, place = known.record, known.at.place
        self.stopping = record.kind is not Kind.STARTED and (self.stopping or record.kind is Kind.CLOSE_BEGIN)
        if self.stopping and record.kind is not Kind.CLOSE_BEGIN:
            return  # the herder's thread finishes its current work
        after = follow(self.states, record)
        if not after:
            yield self._illegal(record, place)
            after = UP
        if after is not self.states:
            self.steps += 1
            self.last = (record.event or record.kind.value, place)
        self.states = after

    def _illegal(self, record: TraceRecord, place: Place) -> Finding:
        names = ", ".join(state.name for state in State if state in self.states)
        what = record.event or record.next_state or record.kind.value
        about = self.group, self.member, record.ts_ms, record.ts_ms
        summary = f"{self.member} printed {what} where the table {TABLE.name} has no way to it: it was in {names}"
        places = [place] if self.last is None else [self.last[1], place]
        return finding(FindingKind.ILLEGAL_TRANSITION, *about, summary, places)
