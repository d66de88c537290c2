"""The classic group on its coordinator: the whole grid, Kafka's two relations, stories with their effects."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fsm.table import Ignore, Row
from fsm.tables.classic_group import TABLE, Effect, Event, State

# Columns: EMPTY PREPARING_REBALANCE COMPLETING_REBALANCE STABLE DEAD
GRID = """
GROUP_CREATED                    E . . . .
MEMBER_ID_GIVEN                  E P C S .
MEMBER_JOINED                    P P P P .
MEMBER_JOINED_INITIALLY          . P . . .
MEMBER_JOINED_ALL_JOINED         . C . . .
FOLLOWER_REJOINED                . P C S .
FOLLOWER_REJOINED_ALL_JOINED     . C . . .
LEADER_REJOINED                  . P C P .
LEADER_REJOINED_ALL_JOINED       . C . C .
MEMBER_CHANGED                   . P P P .
MEMBER_CHANGED_ALL_JOINED        . C C C .
STATIC_REPLACED                  . P P P .
STATIC_REPLACED_ALL_JOINED       . C C C .
STATIC_REPLACED_SAME_PROTOCOL    . . . S .
STORED_ID_REPLACED               . P C S .
STATIC_SWAP_STORED               - P - S -
STATIC_SWAP_FAILED               - P C S -
JOIN_REFUSED                     E P C S D
JOIN_REFUSED_FULL                . P C S .
JOIN_REFUSED_FULL_ALL_JOINED     . C . . .
FOLLOWER_SYNCED                  . P C S .
FOLLOWER_SYNCED_LAST             . . C S .
LEADER_SYNCED                    . P C S .
LEADER_SYNCED_LAST               . . C S .
ASSIGNMENT_STORED                . . S . .
ASSIGNMENT_STORE_FAILED          . . P . .
ASSIGNMENT_STORE_LATE            - - - - -
SYNC_REFUSED                     E P C S D
HEARTBEAT                        . P C S .
HEARTBEAT_REFUSED                E P C S D
MEMBERS_LEFT                     E P P P .
MEMBERS_LEFT_ALL_JOINED          . C . . .
MEMBERS_LEFT_NOBODY_LEFT         . E E E .
LEAVE_REFUSED                    E P C S D
SESSION_EXPIRED                  . P P P -
SESSION_EXPIRED_ALL_JOINED       . C . . .
SESSION_EXPIRED_NOBODY_LEFT      . E E E .
SESSION_EXCUSED                  - - - - -
PENDING_EXPIRED                  E P C S -
PENDING_EXPIRED_ALL_JOINED       . C . . .
PENDING_EXPIRED_NOBODY_LEFT      . E . . .
INITIAL_DELAY_EXTENDED           . P . . -
JOIN_PHASE_EXPIRED               . C . . -
STATIC_MEMBERS_LATE              . P . . .
JOIN_PHASE_EXPIRED_NOBODY_JOINED . P . . .
JOIN_PHASE_EXPIRED_NOBODY_LEFT   . E . . .
SYNC_PHASE_EXPIRED               - - P P -
SYNC_PHASE_EXPIRED_NOBODY_LEFT   . . E . .
SYNC_PHASE_EXPIRED_STALE         - - - - -
LOADED_WITH_MEMBERS              S . . . .
LOADED_OVER_CAPACITY             P . . . .
DOWNGRADED_BY_REMOVAL            P . . . .
DOWNGRADED_BY_REPLACEMENT        S . . . .
DOWNGRADED_BY_REPLACEMENT_STALE  P . . . .
UPGRADED                         . D D D .
UPGRADE_REFUSED                  . P C S .
UPGRADE_REFUSED_LATE             . P C S .
CONSUMER_JOIN_TO_EMPTY           D . . . .
ASSIGNMENTS_OUTDATED             . . . P .
DELETED                          D . . . .
UNLOADED                         D D D D D
"""
CELLS = dict(line.split(maxsplit=1) for line in GRID.strip().splitlines())


@pytest.mark.parametrize("event", Event, ids=lambda event: event.name)
def test_every_pair_is_what_the_grid_says(event: Event, codes: Callable[..., str]) -> None:
    """All 305 pairs of a state and an event lead where the grid says, are ignored, or are illegal."""
    assert codes(TABLE, "EPCSD", event) == CELLS[event.name]


def test_the_grid_names_every_event_once() -> None:
    """The grid has one line for each event, in the order of the enum."""
    assert list(CELLS) == [event.name for event in Event]


def test_counts_are_pinned() -> None:
    """The size of the table changes only on purpose."""
    assert TABLE.counts() == {
        "states": 5,
        "events": 61,
        "effects": 49,
        "rows": 91,
        "ignores": 9,
        "row_cells": 131,
        "ignored_cells": 27,
        "illegal_cells": 147,
    }


def test_every_row_says_where_it_comes_from() -> None:
    """Each row names its clause, each ignore its reason."""
    assert [line for line in TABLE.rows if isinstance(line, Row) and not line.clause] == []
    assert [line for line in TABLE.rows if isinstance(line, Ignore) and not line.why] == []


# `ClassicGroupState` of apache/kafka 4.4: legal transitions, by the state they lead to.
LEGAL = {
    "EMPTY": "PREPARING_REBALANCE",
    "PREPARING_REBALANCE": "STABLE COMPLETING_REBALANCE EMPTY",
    "COMPLETING_REBALANCE": "PREPARING_REBALANCE",
    "STABLE": "COMPLETING_REBALANCE",
    "DEAD": "EMPTY PREPARING_REBALANCE COMPLETING_REBALANCE STABLE DEAD",
}

# `GroupMetadataManager` of apache/kafka 4.4, event by state. Letters: states a step may end in (`PC`: stays to wait, or
# completes),
# `!` an error that the state gives whoever asks, `-` ignored, `.` nothing said. A step through PREPARING may complete
# at once, written as PCE there, as far as a join can be all, a removal nobody.
EVENT_BY_STATE = """
join-new          P  PC    P   P   !
join-same         !  PC    C   PCS !
join-changed      !  PC    PC  PC  !
sync              !  P     C   S   !
heartbeat         !  P     C   S   !
leave             !  PCE   PE  PE  !
session-expired   .  PCE   PE  PE  -
pending-expired   E  PCE   C   S   -
join-phase-timer  .  PCE   .   .   -
sync-phase-timer  -  -     PE  P   -
unload            D  D     D   D   D
"""
NAMED = {
    "join-new": "MEMBER_JOINED MEMBER_JOINED_INITIALLY MEMBER_JOINED_ALL_JOINED",
    "join-same": "FOLLOWER_REJOINED FOLLOWER_REJOINED_ALL_JOINED LEADER_REJOINED LEADER_REJOINED_ALL_JOINED",
    "join-changed": "MEMBER_CHANGED MEMBER_CHANGED_ALL_JOINED",
    "sync": "FOLLOWER_SYNCED FOLLOWER_SYNCED_LAST LEADER_SYNCED LEADER_SYNCED_LAST",
    "heartbeat": "HEARTBEAT",
    "leave": "MEMBERS_LEFT MEMBERS_LEFT_ALL_JOINED MEMBERS_LEFT_NOBODY_LEFT",
    "session-expired": "SESSION_EXPIRED SESSION_EXPIRED_ALL_JOINED SESSION_EXPIRED_NOBODY_LEFT",
    "pending-expired": "PENDING_EXPIRED PENDING_EXPIRED_ALL_JOINED PENDING_EXPIRED_NOBODY_LEFT",
    "join-phase-timer": "INITIAL_DELAY_EXTENDED JOIN_PHASE_EXPIRED JOIN_PHASE_EXPIRED_NOBODY_JOINED "
    "JOIN_PHASE_EXPIRED_NOBODY_LEFT",
    "sync-phase-timer": "SYNC_PHASE_EXPIRED SYNC_PHASE_EXPIRED_NOBODY_LEFT",
    "unload": "UNLOADED",
}
REFUSALS = {"join": "JOIN_REFUSED", "sync": "SYNC_REFUSED", "heartbeat": "HEARTBEAT_REFUSED", "leave": "LEAVE_REFUSED"}
LETTERS = dict(zip(State, "EPCSD", strict=True))


def outcomes(events: str, state: State) -> str:
    cells = [TABLE.compiled.get((state, Event[name])) for name in events.split()]
    ends = {"-" if cell.ignored else LETTERS[cell.target] for cell in cells if cell is not None}
    return "".join(sorted(ends, key="EPCSD-".index)) or "."


def event_by_state() -> list[tuple[str, State, str]]:
    return [
        (event, state, code)
        for event, *row in map(str.split, EVENT_BY_STATE.strip().splitlines())
        for state, code in zip(State, row, strict=True)
    ]


@pytest.mark.parametrize(("event", "state", "code"), event_by_state())
def test_the_reference_s_event_by_state_table_holds(event: str, state: State, code: str) -> None:
    """Every cell has just the endings that the coordinator gives it."""
    if code != "!":
        assert outcomes(NAMED[event], state) == "".join(sorted(code, key="EPCSD-.".index))
        return
    refusal = TABLE.compiled[state, Event[REFUSALS[event.split("-", maxsplit=1)[0]]]]
    assert (refusal.target, refusal.effects) == (state, (Effect.ANSWER_ERROR,))
    assert outcomes(NAMED[event], state) == ("E" if (event, state) == ("leave", State.EMPTY) else ".")


def test_hops_are_kafka_s_legal_transitions_and_one_more() -> None:
    """The table moves as Kafka's relation allows, nowhere else; only a group built STABLE is no transition there."""
    states = TABLE.columns.states
    hops = {(states[a], states[b]) for a, b, _ in TABLE.columns.edges}
    legal = {(source, target) for target, sources in LEGAL.items() for source in sources.split()}
    assert len(legal) == 11
    assert hops - legal == {("EMPTY", "STABLE")}
    assert legal - hops == set()


def test_only_loading_and_downgrades_build_a_group_in_stable() -> None:
    """The one hop beyond the relation belongs to groups that did not grow up here."""
    built = {
        event.name
        for (state, event), cell in TABLE.compiled.items()
        if state is State.EMPTY and State.STABLE in cell.path
    }
    assert built == {
        "LOADED_WITH_MEMBERS",
        "LOADED_OVER_CAPACITY",
        "DOWNGRADED_BY_REMOVAL",
        "DOWNGRADED_BY_REPLACEMENT",
        "DOWNGRADED_BY_REPLACEMENT_STALE",
    }


def test_whoever_enters_the_join_phase_arms_its_timer_or_ends_it() -> None:
    """A step that stops in PREPARING from elsewhere has armed a join-phase timer; one that passes has cancelled it."""
    arming = {Effect.ARM_JOIN_TIMER, Effect.ARM_INITIAL_DELAY}
    entered = [cell for cell in TABLE.compiled.values() if State.PREPARING_REBALANCE in cell.path]
    assert len(entered) == 29
    for cell in entered:
        waits = cell.target is State.PREPARING_REBALANCE
        assert bool(arming & set(cell.effects)) == waits
        assert (Effect.CANCEL_JOIN_TIMER in cell.effects) == (not waits)


def test_leaving_the_sync_phase_answers_the_parked_syncs() -> None:
    """No way out of COMPLETING leaves a sync without an answer."""
    answers = {
        Effect.ANSWER_SYNCS,
        Effect.ANSWER_SYNCS_REBALANCE,
        Effect.ANSWER_SYNCS_NOT_COORDINATOR,
    }
    left = [c for (s, _), c in TABLE.compiled.items() if s is State.COMPLETING_REBALANCE and c.path]
    assert len(left) == 15
    assert [cell for cell in left if not answers & set(cell.effects)] == []


def test_a_generation_begins_with_every_step_into_the_sync_phase() -> None:
    """COMPLETING is entered with a new generation, the joins answered and the sync-phase timer armed after it."""
    for cell in TABLE.compiled.values():
        if State.COMPLETING_REBALANCE in cell.path:
            at = cell.steps.index(State.COMPLETING_REBALANCE)
            assert Effect.BUMP_GENERATION in cell.steps[:at]
            answer = [one for one in (Effect.ANSWER_OK, Effect.ANSWER_ERROR) if one in cell.steps]
            assert cell.steps[at:] == (
                State.COMPLETING_REBALANCE,
                Effect.ANSWER_JOINS,
                Effect.RESET_HEARTBEAT_TIMERS,
                Effect.AWAIT_SYNCS,
                Effect.ARM_SYNC_TIMER,
                *answer,
            )


def test_a_group_grows_and_empties(take_events: Callable[..., list[tuple[str, str, str]]]) -> None:
    """Two members within the initial delay, a generation, the leader's assignment, two leaves."""
    begin = (
        "CANCEL_JOIN_TIMER REMOVE_UNJOINED_MEMBERS ELECT_LEADER BUMP_GENERATION SELECT_PROTOCOL "
        "ANSWER_JOINS RESET_HEARTBEAT_TIMERS AWAIT_SYNCS ARM_SYNC_TIMER"
    )
    assert take_events(TABLE, (
        Event.MEMBER_ID_GIVEN,
        Event.MEMBER_JOINED,
        Event.MEMBER_JOINED_INITIALLY,
        Event.INITIAL_DELAY_EXTENDED,
        Event.JOIN_PHASE_EXPIRED,
        Event.FOLLOWER_SYNCED,
        Event.LEADER_SYNCED_LAST,
        Event.ASSIGNMENT_STORED,
        Event.HEARTBEAT,
        Event.MEMBERS_LEFT,
        Event.LEADER_REJOINED_ALL_JOINED,
        Event.MEMBERS_LEFT_NOBODY_LEFT,
        Event.DELETED,
    )) == [
        ("MEMBER_ID_GIVEN", "REMEMBER_ID RESET_HEARTBEAT_TIMER ANSWER_MEMBER_ID_REQUIRED", "EMPTY"),
        ("MEMBER_JOINED", ("ADD_MEMBER PARK_JOIN ARM_NEW_MEMBER_TIMER FORGET_SYNCS CANCEL_SYNC_TIMER "
                          "ARM_INITIAL_DELAY"), "PREPARING_REBALANCE"),
        ("MEMBER_JOINED_INITIALLY", "NOTE_NEW_MEMBER ADD_MEMBER PARK_JOIN ARM_NEW_MEMBER_TIMER", "PREPARING_REBALANCE"),
        ("INITIAL_DELAY_EXTENDED", "CLEAR_NEW_MEMBER_NOTE EXTEND_INITIAL_DELAY", "PREPARING_REBALANCE"),
        ("JOIN_PHASE_EXPIRED", begin, "COMPLETING_REBALANCE"),
        ("FOLLOWER_SYNCED", "PARK_SYNC FORGET_SYNC", "COMPLETING_REBALANCE"),
        ("LEADER_SYNCED_LAST", "PARK_SYNC FORGET_SYNC CANCEL_SYNC_TIMER TAKE_ASSIGNMENT WRITE_GROUP",
         "COMPLETING_REBALANCE"),
        ("ASSIGNMENT_STORED", "ANSWER_SYNCS", "STABLE"),
        ("HEARTBEAT", "RESET_HEARTBEAT_TIMER ANSWER_OK", "STABLE"),
        ("MEMBERS_LEFT", ("CANCEL_HEARTBEAT_TIMERS REMOVE_MEMBERS FORGET_SYNCS CANCEL_SYNC_TIMER ARM_JOIN_TIMER "
                         "ANSWER_OK"), "PREPARING_REBALANCE"),
        ("LEADER_REJOINED_ALL_JOINED", "UPDATE_MEMBER PARK_JOIN " + begin, "COMPLETING_REBALANCE"),
        ("MEMBERS_LEFT_NOBODY_LEFT", ("CANCEL_HEARTBEAT_TIMERS REMOVE_MEMBERS CLEAR_ASSIGNMENTS ANSWER_SYNCS_REBALANCE "
                                     "FORGET_SYNCS CANCEL_SYNC_TIMER CANCEL_JOIN_TIMER REMOVE_UNJOINED_MEMBERS "
                                     "BUMP_GENERATION CLEAR_PROTOCOL WRITE_GROUP ANSWER_OK"), "EMPTY"),
        ("DELETED", "REMOVE_GROUP", "DEAD"),
    ]  # fmt: skip


def test_the_only_member_s_rejoin_completes_at_once() -> None:
    """A leader alone passes through PREPARING in the step of its own join."""
    cell = TABLE.compiled[State.STABLE, Event.LEADER_REJOINED_ALL_JOINED]
    assert cell.path == (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE)


def test_a_static_member_is_swapped_without_a_rebalance(take_events: Callable[..., list[tuple[str, str, str]]]) -> None:
    """In STABLE with the same protocol the record is rewritten first; the join is answered when it is stored."""
    assert take_events(TABLE, (
        Event.LOADED_WITH_MEMBERS,
        Event.STATIC_REPLACED_SAME_PROTOCOL,
        Event.STATIC_SWAP_STORED,
        Event.STATIC_REPLACED_SAME_PROTOCOL,
        Event.STATIC_SWAP_FAILED,
    )) == [
        ("LOADED_WITH_MEMBERS", "RESET_HEARTBEAT_TIMERS", "STABLE"),
        ("STATIC_REPLACED_SAME_PROTOCOL", "REPLACE_MEMBER RESET_HEARTBEAT_TIMER UPDATE_MEMBER PARK_JOIN WRITE_GROUP",
         "STABLE"),
        ("STATIC_SWAP_STORED", "ANSWER_JOIN", "STABLE"),
        ("STATIC_REPLACED_SAME_PROTOCOL", "REPLACE_MEMBER RESET_HEARTBEAT_TIMER UPDATE_MEMBER PARK_JOIN WRITE_GROUP",
         "STABLE"),
        ("STATIC_SWAP_FAILED", "REVERT_REPLACEMENT RESET_HEARTBEAT_TIMER", "STABLE"),
    ]  # fmt: skip


def test_a_downgraded_group_rebalances_and_an_upgraded_one_is_gone(
    take_events: Callable[..., list[tuple[str, str, str]]],
) -> None:
    """A downgrade by removal is built STABLE and prepares at once; an upgrade answers the delayed joins first."""
    assert take_events(TABLE, (Event.DOWNGRADED_BY_REMOVAL, Event.UPGRADE_REFUSED_LATE, Event.UPGRADED)) == [
        ("DOWNGRADED_BY_REMOVAL", "WRITE_GROUP RESET_HEARTBEAT_TIMERS FORGET_SYNCS CANCEL_SYNC_TIMER ARM_JOIN_TIMER",
         "PREPARING_REBALANCE"),
        ("UPGRADE_REFUSED_LATE", "ANSWER_JOINS_REBALANCE ANSWER_ERROR", "PREPARING_REBALANCE"),
        ("UPGRADED", "ANSWER_JOINS_REBALANCE REMOVE_GROUP", "DEAD"),
    ]  # fmt: skip
    assert TABLE.compiled[State.EMPTY, Event.DOWNGRADED_BY_REMOVAL].path == (State.STABLE, State.PREPARING_REBALANCE)
