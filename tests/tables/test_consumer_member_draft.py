"""The design notes' drawing from NOT_IN_GROUP on: every arrow, nothing else, mistakes included."""

from __future__ import annotations

import pytest
from tables.grid import differing

from fsm.errors import IllegalTransition
from fsm.table import Row
from fsm.tables.consumer_member_draft import TABLE, Effect, Event, State

S, E, F = State, Event, Effect

# The arrows in the order of the drawing, the one that stands there twice included; the last one is the final marker.
ARROWS = """
NOT_IN_GROUP UNJOINED
UNJOINED UNJOINED
UNJOINED STABLE
UNJOINED FATAL
STABLE RECONCILING
STABLE RECONCILING
STABLE RELEASING_ASSIGNMENT
STABLE FATAL
STABLE STABLE
RECONCILING RECONCILING
RECONCILING RECONCILIATION_COMPLETE
RECONCILIATION_COMPLETE STABLE
RECONCILIATION_COMPLETE STABLE
RECONCILIATION_COMPLETE UNJOINED
RELEASING_ASSIGNMENT RELEASING_ASSIGNMENT_COMPLETE
RELEASING_ASSIGNMENT_COMPLETE UNJOINED
RELEASING_ASSIGNMENT FATAL
FATAL [*]
"""

# fmt: off
CELLS: dict[State, dict[Event, tuple[State | Effect, ...] | str]] = {
    S.NOT_IN_GROUP: {
        E.SUBSCRIBED: (S.UNJOINED,),
    },
    S.UNJOINED: {
        E.HEARTBEAT_RETRIED: (S.UNJOINED,),
        E.JOIN_HEARTBEAT_SENT: (S.STABLE,),
        E.FATAL_ERROR: (S.FATAL,),
    },
    S.STABLE: {
        E.HEARTBEAT_SENT: (S.STABLE,),
        E.ASSIGNMENT_RECEIVED: (S.RECONCILING, F.TRIGGER_CALLBACKS),
        E.UNSUBSCRIBED: (S.RECONCILING,),
        E.MEMBER_FENCED: (S.RELEASING_ASSIGNMENT, F.RESET_EPOCH, F.TRIGGER_CALLBACKS),
        E.FATAL_ERROR: (S.FATAL,),
    },
    S.RECONCILING: {
        E.HEARTBEAT_SENT: (S.RECONCILING,),
        E.CALLBACK_COMPLETED: (S.RECONCILIATION_COMPLETE,),
    },
    S.RECONCILIATION_COMPLETE: {
        E.UNSUBSCRIBED: (S.UNJOINED,),
        E.FULL_HEARTBEAT_SENT: (S.STABLE, F.RESET_INTERVAL_TIMER),
    },
    S.RELEASING_ASSIGNMENT: {
        E.LOST_CALLBACK_COMPLETED: (S.RELEASING_ASSIGNMENT_COMPLETE,),
        E.FATAL_ERROR: (S.FATAL,),
    },
    S.RELEASING_ASSIGNMENT_COMPLETE: {
        E.OUT_OF_INTERVAL_HEARTBEAT_SENT: (S.UNJOINED,),
    },
    S.FATAL: {},
}
# fmt: on


def test_every_cell_of_the_grid() -> None:
    """Each pair of state and event does exactly what the grid says, is ignored, or is illegal."""
    assert differing(TABLE, Event, CELLS) == []


def test_counts_are_pinned() -> None:
    """16 rows, no ignores, 80 illegal cells of 96."""
    assert TABLE.counts() == {
        "states": 8,
        "events": 12,
        "effects": 3,
        "rows": 16,
        "ignores": 0,
        "row_cells": 16,
        "ignored_cells": 0,
        "illegal_cells": 80,
    }


def test_the_rows_are_the_arrows_in_their_order() -> None:
    """Row by row the arrows of the drawing; the arrow drawn twice is one row, the final marker is none."""
    drawn = [tuple(line.split()) for line in ARROWS.strip().splitlines()]
    repeated = drawn.index(("RECONCILIATION_COMPLETE", "STABLE")) + 1
    assert drawn.pop(repeated) == ("RECONCILIATION_COMPLETE", "STABLE")
    assert drawn.pop() == ("FATAL", "[*]")
    rows = [line for line in TABLE.rows if isinstance(line, Row)]
    arrows = [(line.states[0].name, line.steps[0].name) for line in rows]
    assert arrows == drawn


def test_each_row_names_its_place_in_the_drawing() -> None:
    """Clauses count the drawing's 18 lines through: 17 stand in rows, the last is the final marker."""
    numbers = [word for line in TABLE.rows for word in line.clause.replace(",", "").split() if word.isdigit()]
    assert numbers == [str(number) for number in range(1, 18)]


def test_unsubscribing_ends_in_unjoined_and_never_outside() -> None:
    """As drawn, a member that unsubscribes comes to UNJOINED, where it joins again; nothing leads to NOT_IN_GROUP."""
    state = S.STABLE
    for event in (E.UNSUBSCRIBED, E.CALLBACK_COMPLETED, E.UNSUBSCRIBED):
        state = TABLE.compiled[state, event].target
    assert state is S.UNJOINED
    assert TABLE.compiled[state, E.JOIN_HEARTBEAT_SENT].target is S.STABLE
    assert S.NOT_IN_GROUP not in {cell.target for cell in TABLE.compiled.values()}


def test_an_unsubscribe_may_end_as_an_acknowledgement() -> None:
    """As drawn, RECONCILIATION_COMPLETE has both ways out whatever led there."""
    for cause in (E.ASSIGNMENT_RECEIVED, E.UNSUBSCRIBED):
        reconciling = TABLE.compiled[S.STABLE, cause].target
        complete = TABLE.compiled[reconciling, E.CALLBACK_COMPLETED].target
        assert TABLE.compiled[complete, E.FULL_HEARTBEAT_SENT].target is S.STABLE
        assert TABLE.compiled[complete, E.UNSUBSCRIBED].target is S.UNJOINED


def test_a_fenced_member_rejoins() -> None:
    """Fencing resets the epoch before the callbacks are triggered; the member joins after the lost callback."""
    fenced = TABLE.compiled[S.STABLE, E.MEMBER_FENCED]
    assert fenced.effects == (F.RESET_EPOCH, F.TRIGGER_CALLBACKS)
    state = fenced.target
    for event in (E.LOST_CALLBACK_COMPLETED, E.OUT_OF_INTERVAL_HEARTBEAT_SENT, E.JOIN_HEARTBEAT_SENT):
        state = TABLE.compiled[state, event].target
    assert state is S.STABLE


@pytest.mark.parametrize("state", [S.UNJOINED, S.RECONCILING, S.RECONCILIATION_COMPLETE])
def test_fencing_is_drawn_for_stable_only(state: State) -> None:
    """What the drawing misses stays illegal."""
    with pytest.raises(IllegalTransition):
        TABLE.compiled[state, E.MEMBER_FENCED]
