"""The design notes' nested rebalance machine: leaves, entries, exits, and closing from every step."""

from __future__ import annotations

import pytest
from tables.grid import differing

from fsm.tables.rebalance_notes import ASSIGNING, REVOKING, SEED_NAMES, TABLE, Effect, Event, State

S, E, F = State, Event, Effect

# fmt: off
CELLS: dict[State, dict[Event, tuple[State | Effect, ...] | str]] = {
    S.STABLE: {
        E.REVOCATION_NEEDED: (S.R1,),
        E.ASSIGNMENT_NEEDED: (S.A1,),
        E.CLOSE_CALLED: (S.CLOSING,),
    },
    S.R1: {
        E.CALLBACK_NEEDED: (S.R2, F.INVOKE_CALLBACK),
        E.NO_CALLBACK: (F.MAKE_LOCAL_CHANGES, S.R3),
        E.CLOSE_CALLED: (S.CLOSING,),
    },
    S.R2: {
        E.CALLBACK_DONE: (F.MAKE_LOCAL_CHANGES, S.R3),
        E.CLOSE_CALLED: (S.CLOSING,),
    },
    S.R3: {
        E.HEARTBEAT_SENT: (S.STABLE,),
        E.HEARTBEAT_SENT_ASSIGNMENT_DUE: (S.A1,),
        E.CLOSE_CALLED: (S.CLOSING,),
    },
    S.A1: {
        E.CALLBACK_NEEDED: (S.A2, F.INVOKE_CALLBACK),
        E.NO_CALLBACK: (F.MAKE_LOCAL_CHANGES, S.A3),
        E.CLOSE_CALLED: (S.CLOSING,),
    },
    S.A2: {
        E.CALLBACK_DONE: (F.MAKE_LOCAL_CHANGES, S.A3),
        E.CLOSE_CALLED: (S.CLOSING,),
    },
    S.A3: {
        E.HEARTBEAT_SENT: (S.STABLE,),
        E.CLOSE_CALLED: (S.CLOSING,),
    },
    S.CLOSING: {
        E.CLOSE_DONE: (S.CLOSED,),
    },
    S.CLOSED: {},
}
# fmt: on


def test_every_cell_of_the_grid() -> None:
    """Each pair of state and event does exactly what the grid says, is ignored, or is illegal."""
    assert differing(TABLE, Event, CELLS) == []


def test_counts_are_pinned() -> None:
    """13 rows of three tables give 19 cells of 81; nothing is ignored."""
    assert TABLE.counts() == {
        "states": 9,
        "events": 9,
        "effects": 2,
        "rows": 13,
        "ignores": 0,
        "row_cells": 19,
        "ignored_cells": 0,
        "illegal_cells": 62,
    }


def test_holders_are_no_places_to_be() -> None:
    """A machine is in a step, never in REVOKING or ASSIGNING themselves."""
    assert TABLE.leaves() == (S.STABLE, S.R1, S.R2, S.R3, S.A1, S.A2, S.A3, S.CLOSING, S.CLOSED)
    assert TABLE.states == (S.STABLE, S.REVOKING, S.ASSIGNING, S.CLOSING, S.CLOSED)
    assert REVOKING.leaves() == (S.R1, S.R2, S.R3)
    assert ASSIGNING.leaves() == (S.A1, S.A2, S.A3)


def test_a_phase_is_entered_at_its_first_step() -> None:
    """From STABLE and from R3 the machine comes to R1 or A1, whichever holder the arrow leads to."""
    assert TABLE.compiled[S.STABLE, E.REVOCATION_NEEDED].target is S.R1
    assert TABLE.compiled[S.STABLE, E.ASSIGNMENT_NEEDED].target is S.A1
    assert TABLE.compiled[S.R3, E.HEARTBEAT_SENT_ASSIGNMENT_DUE].target is S.A1
    assert TABLE.enter(S.REVOKING) is S.R1
    assert TABLE.enter(S.ASSIGNING) is S.A1


@pytest.mark.parametrize("leaf", [S.STABLE, S.R1, S.R2, S.R3, S.A1, S.A2, S.A3])
def test_closing_is_reached_from_every_step(leaf: State) -> None:
    """The holders' arrow to Closing holds in each of their steps."""
    assert TABLE.compiled[leaf, E.CLOSE_CALLED].target is S.CLOSING


def test_the_two_heartbeats_of_r3_part_there_and_nowhere_else() -> None:
    """R3 answers both heartbeats, each with another state; no other step knows the second one."""
    assert TABLE.compiled[S.R3, E.HEARTBEAT_SENT].target is S.STABLE
    assert [state for state, event in TABLE.compiled if event is E.HEARTBEAT_SENT_ASSIGNMENT_DUE] == [S.R3]


def test_revoking_then_assigning_then_closing() -> None:
    """A whole rebalance with a callback for the revocation and none for the assignment."""
    state, seen, effects = TABLE.compiled.initial, [], []
    for event in (
        E.REVOCATION_NEEDED,
        E.CALLBACK_NEEDED,
        E.CALLBACK_DONE,
        E.HEARTBEAT_SENT_ASSIGNMENT_DUE,
        E.NO_CALLBACK,
        E.HEARTBEAT_SENT,
        E.CLOSE_CALLED,
        E.CLOSE_DONE,
    ):
        cell = TABLE.compiled[state, event]
        state = cell.target
        seen.append(state)
        effects.extend(cell.effects)
    assert seen == [S.R1, S.R2, S.R3, S.A1, S.A3, S.STABLE, S.CLOSING, S.CLOSED]
    assert effects == [F.INVOKE_CALLBACK, F.MAKE_LOCAL_CHANGES, F.MAKE_LOCAL_CHANGES]
    assert TABLE.terminal == (S.CLOSED,)


def test_the_documents_spelling_is_kept() -> None:
    """Every state has the name that the drawing gives it."""
    names = ["Stable", "Revoking", "R1", "R2", "R3", "Assigning", "A1", "A2", "A3", "Closing", "[*]"]
    assert [SEED_NAMES[state] for state in State] == names
