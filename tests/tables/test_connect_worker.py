"""The Connect worker: the whole grid, 33 rows of the sources with corrections, stories with their effects."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fsm.table import Ignore, Row
from fsm.tables.connect_worker import TABLE, Effect, Event, State

# Columns: DOWN DISCONNECTED UNJOINED JOINING LEADING SYNCING REVOKING CATCHING_UP STARTING ASSIGNED DELAYED BACKING_OFF
GRID = """
START                              D . . . . . . . . . . .
STOP                               . W W W W W W W W W W W
FATAL_ERROR                        . W W W W W W W W W W W
COORDINATOR_LOST                   . - D D L D R C T D D -
COORDINATOR_FOUND                  . U . . . . . . . . . .
COORDINATOR_FOUND_STILL_ASSIGNED   . A . . . . . . . . . .
COORDINATOR_FOUND_STILL_DELAYED    . Y . . . . . . . . . .
DISCOVERY_FAILED_HOLDING           . D . . . . . . . . . .
DISCOVERY_FAILED_UNFINISHED        . D . . . . . . . . . .
DISCOVERY_FAILED_EMPTY_HANDED      . - . . . . . . . . . .
JOIN_DUE_EAGER                     . . J . . . . . . . . .
JOIN_DUE_EAGER_EMPTY_HANDED        . . J . . . . . . . . .
JOIN_DUE_COOPERATIVE               . . J . . . . . . . . .
JOIN_DUE_AGAIN                     . . J . . . . . . . . .
JOINED_FOLLOWER                    . . . S . . . . . . . .
JOINED_LEADER                      . . . L . . . . . . . .
JOIN_NEEDS_MEMBER_ID               . . . J . . . . . . . .
JOIN_UNKNOWN_MEMBER                . . . J . . . . . . . .
JOIN_REBALANCE_IN_PROGRESS         . . . J . . . . . . . .
JOIN_LOADING                       . . . U . . . . . . . .
ANSWER_STALE                       . . . U . U . . . . . .
ASSIGNOR_DONE                      . . . . S . . . . . . .
ASSIGNOR_FAILED_RETRIABLE          . . . . U . . . . . . .
SYNCED_REVOKING                    . . . . . R . . . . . .
SYNCED_READY                       . . . . . T . . . . . .
SYNCED_BEHIND                      . . . . . C . . . . . .
SYNCED_AHEAD                       . . . . . U . . . . . .
SYNCED_DELAY_OVER                  . . . . . U . . . . . .
SYNCED_FAILED                      . . . . . U . . . . . .
SYNCED_FAILED_CATCH_UP             . . . . . C . . . . . .
SYNC_REBALANCE_IN_PROGRESS         . . . . . U . . . . . .
SYNC_ILLEGAL_GENERATION            . . . . . U . . . . . .
SYNC_UNKNOWN_MEMBER                . . . . . U . . . . . .
REVOKED_READY                      . . . . . . T . . . . .
REVOKED_BEHIND                     . . . . . . C . . . . .
REVOKED_AHEAD                      . . . . . . U . . . . .
REVOKED_DELAY_OVER                 . . . . . . U . . . . .
CAUGHT_UP                          . . . . . . . T . . . .
CAUGHT_UP_MISMATCH                 . . . . . . . U . . . .
CAUGHT_UP_FAILED                   . . . . . . . U . . . .
CAUGHT_UP_DELAY_OVER               . . . . . . . U . . . .
CAUGHT_UP_OUTSIDE                  . . . . . . . U . . . .
CATCH_UP_TIMED_OUT_EAGER           . . . . . . . B . . . .
CATCH_UP_TIMED_OUT_RETRY           . . . . . . . B . . . .
CATCH_UP_TIMED_OUT_AGAIN_EAGER     . . . . . . . B . . . .
CATCH_UP_TIMED_OUT_AGAIN_RETRY     . . . . . . . B . . . .
CATCH_UP_TIMED_OUT_AGAIN_EXHAUSTED . . . . . . . C . . . .
BACKOFF_ELAPSED                    . . . . . . . . . . . C
STARTED_REVOKED_BEFORE             . . . . . . . . U . . .
STARTED                            . . . . . . . . A . . .
STARTED_DELAYED                    . . . . . . . . Y . . .
STARTED_REJOIN                     . . . . . . . . U . . .
STARTED_COORDINATOR_LOST           . . . . . . . . D . . .
DELAY_REACHED                      . D - - - - - - - . U -
CONNECTORS_CHANGED                 . D . . . . . . . U U .
TASKS_RECONFIGURED_EAGER           . D . . . . . . . U U .
TASKS_RECONFIGURED_COOPERATIVE     . D . . . . . . . U U .
CONNECTOR_CONFIG_CHANGED           . D . . . . . . . A Y .
TARGET_STATE_CHANGED               . D . . . . . . . A Y .
CONNECTOR_STOPPED                  . D . . . . . . . U U .
HEARTBEAT_REBALANCE                . - - - - - R C T U U -
HEARTBEAT_ILLEGAL_GENERATION       . - U J L S R C T U U -
HEARTBEAT_UNKNOWN_MEMBER           . - U J L S R C T U U -
HEARTBEAT_STALE                    . - - - - - - - - - - -
POLL_TIMEOUT                       . . U . L S R C T U U .
"""
CELLS = dict(line.split(maxsplit=1) for line in GRID.strip().splitlines())


@pytest.mark.parametrize("event", Event, ids=lambda event: event.name)
def test_every_pair_is_what_the_grid_says(event: Event, codes: Callable[..., str]) -> None:
    """All 780 pairs of a state and an event lead where the grid says, are ignored, or are illegal."""
    assert codes(TABLE, "WDUJLSRCTAYB", event) == CELLS[event.name]


def test_the_grid_names_every_event_once() -> None:
    """The grid has one line for each event, in the order of the enum."""
    assert list(CELLS) == [event.name for event in Event]


def test_counts_are_pinned() -> None:
    """The size of the table changes only on purpose."""
    assert TABLE.counts() == {
        "states": 12,
        "events": 65,
        "effects": 37,
        "rows": 74,
        "ignores": 7,
        "row_cells": 132,
        "ignored_cells": 32,
        "illegal_cells": 616,
    }


def test_every_row_says_where_it_comes_from() -> None:
    """Each row names its clause, each ignore its reason."""
    assert [line for line in TABLE.rows if isinstance(line, Row) and not line.clause] == []
    assert [line for line in TABLE.rows if isinstance(line, Ignore) and not line.why] == []


# `DistributedHerder` and `WorkerCoordinator`, row by row: number, from, event, to. Rows 12 and 13 have no ending of
# their own: rows 14 to 17 are theirs.
ROWS = """
1  DOWN         START                              DISCONNECTED
2  DISCONNECTED COORDINATOR_FOUND                  UNJOINED
3  DISCONNECTED DISCOVERY_FAILED_HOLDING           DISCONNECTED
4  UNJOINED     COORDINATOR_LOST                   DISCONNECTED
4  JOINING      COORDINATOR_LOST                   DISCONNECTED
4  SYNCING      COORDINATOR_LOST                   DISCONNECTED
4  ASSIGNED     COORDINATOR_LOST                   DISCONNECTED
4  DELAYED      COORDINATOR_LOST                   DISCONNECTED
5  UNJOINED     JOIN_DUE_EAGER                     JOINING
5  UNJOINED     JOIN_DUE_EAGER_EMPTY_HANDED        JOINING
6  UNJOINED     JOIN_DUE_COOPERATIVE               JOINING
7  JOINING      JOINED_FOLLOWER                    SYNCING
8  JOINING      JOINED_LEADER                      LEADING
9  LEADING      ASSIGNOR_DONE                      SYNCING
10 LEADING      ASSIGNOR_FAILED_RETRIABLE          UNJOINED
11 SYNCING      SYNCED_REVOKING                    REVOKING
14 SYNCING      SYNCED_FAILED_CATCH_UP             CATCHING_UP
14 SYNCING      SYNCED_FAILED                      UNJOINED
15 SYNCING      SYNCED_BEHIND                      CATCHING_UP
15 REVOKING     REVOKED_BEHIND                     CATCHING_UP
16 SYNCING      SYNCED_AHEAD                       UNJOINED
16 REVOKING     REVOKED_AHEAD                      UNJOINED
17 SYNCING      SYNCED_READY                       STARTING
17 REVOKING     REVOKED_READY                      STARTING
18 CATCHING_UP  CAUGHT_UP_FAILED                   UNJOINED
19 CATCHING_UP  CAUGHT_UP                          STARTING
20 CATCHING_UP  CATCH_UP_TIMED_OUT_RETRY           BACKING_OFF
20 CATCHING_UP  CATCH_UP_TIMED_OUT_EAGER           BACKING_OFF
21 BACKING_OFF  BACKOFF_ELAPSED                    CATCHING_UP
22 BACKING_OFF  BACKOFF_ELAPSED                    CATCHING_UP
23 CATCHING_UP  CATCH_UP_TIMED_OUT_AGAIN_EXHAUSTED CATCHING_UP
24 STARTING     STARTED_REVOKED_BEFORE             UNJOINED
25 STARTING     STARTED                            ASSIGNED
26 STARTING     STARTED_DELAYED                    DELAYED
27 DELAYED      DELAY_REACHED                      UNJOINED
28 DELAYED      HEARTBEAT_REBALANCE                UNJOINED
28 ASSIGNED     HEARTBEAT_REBALANCE                UNJOINED
29 DELAYED      CONNECTORS_CHANGED                 UNJOINED
29 ASSIGNED     CONNECTORS_CHANGED                 UNJOINED
29 DELAYED      TASKS_RECONFIGURED_COOPERATIVE     UNJOINED
29 ASSIGNED     TASKS_RECONFIGURED_EAGER           UNJOINED
30 DELAYED      CONNECTOR_CONFIG_CHANGED           DELAYED
30 ASSIGNED     CONNECTOR_CONFIG_CHANGED           ASSIGNED
30 ASSIGNED     TARGET_STATE_CHANGED               ASSIGNED
31 ASSIGNED     POLL_TIMEOUT                       UNJOINED
31 DELAYED      POLL_TIMEOUT                       UNJOINED
32 ASSIGNED     STOP                               DOWN
32 BACKING_OFF  STOP                               DOWN
33 JOINING      FATAL_ERROR                        DOWN
33 SYNCING      FATAL_ERROR                        DOWN
33 DELAYED      FATAL_ERROR                        DOWN
"""

# What the recordings or the sources say instead of that reading.
CORRECTED = """
2  DISCONNECTED COORDINATOR_FOUND_STILL_ASSIGNED ASSIGNED
4  STARTING     COORDINATOR_LOST                 STARTING
19 CATCHING_UP  CAUGHT_UP_MISMATCH               UNJOINED
19 CATCHING_UP  CAUGHT_UP_OUTSIDE                UNJOINED
30 ASSIGNED     CONNECTOR_STOPPED                UNJOINED
31 REVOKING     POLL_TIMEOUT                     REVOKING
"""

# Section 1.4: what a member does about an error, in reply to what.
GROUP_ERRORS = """
JOINING  JOIN_NEEDS_MEMBER_ID         JOINING      TAKE_MEMBER_ID SEND_JOIN
JOINING  JOIN_UNKNOWN_MEMBER          JOINING      RESET_MEMBERSHIP SEND_JOIN
JOINING  JOIN_REBALANCE_IN_PROGRESS   JOINING      SEND_JOIN
JOINING  JOIN_LOADING                 UNJOINED     WAIT_RETRY_BACKOFF REQUEST_REJOIN
JOINING  COORDINATOR_LOST             DISCONNECTED MARK_COORDINATOR_UNKNOWN FIND_COORDINATOR
SYNCING  COORDINATOR_LOST             DISCONNECTED MARK_COORDINATOR_UNKNOWN FIND_COORDINATOR
DELAYED  COORDINATOR_LOST             DISCONNECTED MARK_COORDINATOR_UNKNOWN FIND_COORDINATOR
JOINING  FATAL_ERROR                  DOWN         END_HERDER
SYNCING  SYNC_REBALANCE_IN_PROGRESS   UNJOINED     REQUEST_REJOIN
SYNCING  SYNC_UNKNOWN_MEMBER          UNJOINED     RESET_MEMBERSHIP REQUEST_REJOIN
SYNCING  SYNC_ILLEGAL_GENERATION      UNJOINED     RESET_GENERATION REQUEST_REJOIN
SYNCING  ANSWER_STALE                 UNJOINED     REQUEST_REJOIN
ASSIGNED HEARTBEAT_REBALANCE          UNJOINED     REQUEST_REJOIN
ASSIGNED HEARTBEAT_ILLEGAL_GENERATION UNJOINED     RESET_GENERATION REQUEST_REJOIN
ASSIGNED HEARTBEAT_UNKNOWN_MEMBER     UNJOINED     RESET_MEMBERSHIP REQUEST_REJOIN
"""


def lines(text: str) -> list[list[str]]:
    return [line.split(maxsplit=3) for line in text.strip().splitlines()]


@pytest.mark.parametrize(("number", "state", "event", "target"), lines(ROWS) + lines(CORRECTED))
def test_every_row_of_the_reference_is_here(number: str, state: str, event: str, target: str) -> None:
    """Each of the rows, as corrected, leads where it says, under a clause that names its number."""
    cell = TABLE.compiled[State[state], Event[event]]
    assert cell.target.name == target
    assert number in cell.source.clause.replace(",", " ").split()


def test_no_row_number_of_the_reference_is_missing() -> None:
    """Rows 1 to 33 are all named in clauses of the table."""
    named = {
        int(word)
        for line in TABLE.rows
        for part in line.clause.split(", ")
        for word in part.split()
        if word.isdigit() and not part.startswith("logs")
    }
    assert named >= set(range(1, 34))


@pytest.mark.parametrize(("state", "event", "target", "effects"), lines(GROUP_ERRORS))
def test_group_errors_are_answered_as_the_reference_says(state: str, event: str, target: str, effects: str) -> None:
    """Each error of section 1.4 resets what it resets and leads to where the next join or search begins."""
    cell = TABLE.compiled[State[state], Event[event]]
    assert (cell.target.name, " ".join(effect.name for effect in cell.effects)) == (target, effects)


def test_units_stop_only_where_the_reference_stops_them() -> None:
    """Section 1.4: beside revocations only rows 3, 5, 23, 29 and 32 stop running units."""
    stopping = {e for e in Effect if e.name.startswith("STOP_")}
    assert {event.name for (_, event), cell in TABLE.compiled.items() if stopping & set(cell.effects)} == {
        "SYNCED_REVOKING",
        "DISCOVERY_FAILED_HOLDING",
        "JOIN_DUE_EAGER",
        "CATCH_UP_TIMED_OUT_AGAIN_EXHAUSTED",
        "TASKS_RECONFIGURED_COOPERATIVE",
        "STOP",
    }


def test_units_start_only_on_the_way_into_starting() -> None:
    """Invariant W4: nothing is started but by a round whose config offset was found equal."""
    assert {event.name for (_, event), cell in TABLE.compiled.items() if Effect.START_ASSIGNED in cell.effects} == {
        "SYNCED_READY",
        "REVOKED_READY",
        "CAUGHT_UP",
    }


def test_a_member_that_leaves_forgets_its_membership() -> None:
    """Every LeaveGroup is followed by the reset, and only then does anything else happen."""
    leaving = [cell.steps for cell in TABLE.compiled.values() if Effect.LEAVE_GROUP in cell.steps]
    assert len(leaving) == 21
    for steps in leaving:
        assert steps[steps.index(Effect.LEAVE_GROUP) + 1] is Effect.RESET_MEMBERSHIP


def test_the_busy_thread_finishes_its_work() -> None:
    """What the heartbeat thread learns never takes a busy worker out of its state."""
    learnt = (Event.COORDINATOR_LOST, Event.POLL_TIMEOUT, Event.HEARTBEAT_ILLEGAL_GENERATION, Event.HEARTBEAT_REBALANCE)
    for state in (State.LEADING, State.REVOKING, State.CATCHING_UP, State.STARTING):
        assert [TABLE.compiled[state, event].target for event in learnt] == [state] * 4


def test_a_round_that_takes_work_away_is_followed_by_another(
    take_events: Callable[..., list[tuple[str, str, str]]],
) -> None:
    """Stops come before starts, and the worker joins again at once (row 24)."""
    steps = take_events(TABLE, (
        Event.START,
        Event.COORDINATOR_FOUND,
        Event.JOIN_DUE_COOPERATIVE,
        Event.JOIN_NEEDS_MEMBER_ID,
        Event.JOINED_FOLLOWER,
        Event.SYNCED_READY,
        Event.STARTED,
        Event.HEARTBEAT_REBALANCE,
        Event.JOIN_DUE_COOPERATIVE,
        Event.JOINED_LEADER,
        Event.ASSIGNOR_DONE,
        Event.SYNCED_REVOKING,
        Event.REVOKED_READY,
        Event.STARTED_REVOKED_BEFORE,
    ))  # fmt: skip
    assert steps == [
        ("START", "READ_INTERNAL_TOPICS REQUEST_REJOIN FIND_COORDINATOR", "DISCONNECTED"),
        ("COORDINATOR_FOUND", "", "UNJOINED"),
        ("JOIN_DUE_COOPERATIVE", "DROP_LEADER_STATE SEND_JOIN", "JOINING"),
        ("JOIN_NEEDS_MEMBER_ID", "TAKE_MEMBER_ID SEND_JOIN", "JOINING"),
        ("JOINED_FOLLOWER", "ENABLE_HEARTBEATS SET_GENERATION SEND_SYNC", "SYNCING"),
        ("SYNCED_READY", "ADOPT_PROTOCOL ADOPT_ASSIGNMENT SET_DEADLINE START_ASSIGNED", "STARTING"),
        ("STARTED", "RECORD_RUNNING", "ASSIGNED"),
        ("HEARTBEAT_REBALANCE", "REQUEST_REJOIN", "UNJOINED"),
        ("JOIN_DUE_COOPERATIVE", "DROP_LEADER_STATE SEND_JOIN", "JOINING"),
        ("JOINED_LEADER", "ENABLE_HEARTBEATS SET_GENERATION RUN_ASSIGNOR", "LEADING"),
        ("ASSIGNOR_DONE", "SEND_SYNC_AS_LEADER", "SYNCING"),
        ("SYNCED_REVOKING", "ADOPT_PROTOCOL STOP_REVOKED", "REVOKING"),
        ("REVOKED_READY", "FLUSH_STATUSES ADOPT_ASSIGNMENT SET_DEADLINE START_ASSIGNED", "STARTING"),
        ("STARTED_REVOKED_BEFORE", "RECORD_RUNNING CLEAR_REVOKED REQUEST_REJOIN", "UNJOINED"),
    ]


AT_WORK = (
    Event.START,
    Event.COORDINATOR_FOUND,
    Event.JOIN_DUE_COOPERATIVE,
    Event.JOINED_FOLLOWER,
    Event.SYNCED_READY,
    Event.STARTED_DELAYED,
)


def test_a_delayed_round_comes_at_its_deadline(take_events: Callable[..., list[tuple[str, str, str]]]) -> None:
    """The worker waits in DELAYED, through local changes, and joins when the deadline has come (rows 26, 27, 30)."""
    assert take_events(TABLE, (*AT_WORK, Event.TARGET_STATE_CHANGED, Event.DELAY_REACHED))[-3:] == [
        ("STARTED_DELAYED", "RECORD_RUNNING", "DELAYED"),
        ("TARGET_STATE_CHANGED", "APPLY_TARGET_STATE", "DELAYED"),
        ("DELAY_REACHED", "CLEAR_DEADLINE REQUEST_REJOIN", "UNJOINED"),
    ]


def test_a_short_outage_needs_no_round_and_a_long_one_stops_the_work(
    take_events: Callable[..., list[tuple[str, str, str]]],
) -> None:
    """Found again in time the worker is where it was; without a coordinator it gives all up and joins afresh."""
    outage = (Event.COORDINATOR_LOST, Event.COORDINATOR_FOUND_STILL_DELAYED, Event.COORDINATOR_LOST)
    assert take_events(TABLE, (*AT_WORK, *outage, Event.DISCOVERY_FAILED_HOLDING, Event.COORDINATOR_FOUND))[-5:] == [
        ("COORDINATOR_LOST", "MARK_COORDINATOR_UNKNOWN FIND_COORDINATOR", "DISCONNECTED"),
        ("COORDINATOR_FOUND_STILL_DELAYED", "", "DELAYED"),
        ("COORDINATOR_LOST", "MARK_COORDINATOR_UNKNOWN FIND_COORDINATOR", "DISCONNECTED"),
        ("DISCOVERY_FAILED_HOLDING", "STOP_HELD FORGET_HELD", "DISCONNECTED"),
        ("COORDINATOR_FOUND", "", "UNJOINED"),
    ]


def test_a_worker_that_cannot_catch_up_leaves_once_and_pauses(
    take_events: Callable[..., list[tuple[str, str, str]]],
) -> None:
    """One leave, a pause for each retry, then everything is stopped; once caught up it joins (rows 20 to 23)."""
    again = (Event.BACKOFF_ELAPSED, Event.CATCH_UP_TIMED_OUT_AGAIN_RETRY)
    steps = take_events(TABLE, (
        *AT_WORK[:-2],
        Event.SYNCED_BEHIND,
        Event.CATCH_UP_TIMED_OUT_RETRY,
        *again,
        Event.BACKOFF_ELAPSED,
        Event.CATCH_UP_TIMED_OUT_AGAIN_EXHAUSTED,
        Event.CAUGHT_UP_OUTSIDE,
    ))  # fmt: skip
    assert steps[4:] == [
        ("SYNCED_BEHIND", "ADOPT_PROTOCOL ADOPT_ASSIGNMENT SET_DEADLINE READ_CONFIG_TO_END", "CATCHING_UP"),
        (
            "CATCH_UP_TIMED_OUT_RETRY",
            "LEAVE_GROUP RESET_MEMBERSHIP REQUEST_REJOIN PAUSE_DELAY_FRACTION",
            "BACKING_OFF",
        ),
        ("BACKOFF_ELAPSED", "READ_CONFIG_TO_END", "CATCHING_UP"),
        ("CATCH_UP_TIMED_OUT_AGAIN_RETRY", "PAUSE_DELAY_FRACTION", "BACKING_OFF"),
        ("BACKOFF_ELAPSED", "READ_CONFIG_TO_END", "CATCHING_UP"),
        ("CATCH_UP_TIMED_OUT_AGAIN_EXHAUSTED", "STOP_RUNNING RESET_RETRIES READ_CONFIG_TO_END", "CATCHING_UP"),
        ("CAUGHT_UP_OUTSIDE", "RESET_RETRIES REQUEST_REJOIN", "UNJOINED"),
    ]


def test_a_dead_herder_stops_nothing_and_a_stopped_worker_everything() -> None:
    """Both end in DOWN; only a stop stops the units, and it does so before it leaves the group."""
    assert TABLE.compiled[State.ASSIGNED, Event.FATAL_ERROR].effects == (Effect.END_HERDER,)
    assert TABLE.compiled[State.ASSIGNED, Event.STOP].effects == (
        Effect.STOP_ALL,
        Effect.LEAVE_GROUP,
        Effect.RESET_MEMBERSHIP,
    )


def test_what_runs_changes_by_few_rows_alone() -> None:
    """W5 of section 4: under a cooperative protocol only rows 3, 23, 29 and 32, and a round, stop or start units."""
    touching = {
        Effect.STOP_HELD,
        Effect.STOP_REVOKED,
        Effect.STOP_RUNNING,
        Effect.STOP_ALL,
        Effect.STOP_RECONFIGURED_TASKS,
        Effect.START_ASSIGNED,
        Effect.RESTART_CONNECTOR,
        Effect.APPLY_TARGET_STATE,
    }
    by_row = {
        "3": {Event.DISCOVERY_FAILED_HOLDING},
        "23": {Event.CATCH_UP_TIMED_OUT_AGAIN_EXHAUSTED},
        "29": {
            Event.TASKS_RECONFIGURED_COOPERATIVE,
            Event.CONNECTOR_CONFIG_CHANGED,
            Event.TARGET_STATE_CHANGED,
            Event.CONNECTOR_STOPPED,
        },
        "32": {Event.STOP},
        "round": {Event.SYNCED_REVOKING, Event.SYNCED_READY, Event.REVOKED_READY, Event.CAUGHT_UP},
        "eager": {Event.JOIN_DUE_EAGER},
    }
    found = {event for (_, event), cell in TABLE.compiled.items() if touching.intersection(cell.effects)}
    assert found == set().union(*by_row.values())
