"""The group of Connect workers: the whole grid, its rows, and how it agrees with the classic group."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fsm.table import Ignore, Row, Table
from fsm.tables import classic_group
from fsm.tables.connect_group import TABLE, Event, State

# Columns: EMPTY PREPARING_REBALANCE COMPLETING_REBALANCE STABLE
GRID = """
MEMBER_ID_GIVEN     E P C S
NEW_MEMBER_JOINED   P P P P
FOLLOWER_REJOINED   . P C S
LEADER_REJOINED     . P C P
FOLLOWER_CHANGED    . P P P
LEADER_CHANGED      . P P P
ALL_JOINED          . C . .
REBALANCE_TIMED_OUT . C . .
LAST_MEMBER_LEFT    . E . .
FOLLOWER_SYNCED     . P C S
LEADER_SYNCED       . P S S
SYNC_TIMED_OUT      . . P P
HEARTBEAT           . P C S
MEMBER_LEFT         . P P P
SESSION_EXPIRED     . P P P
REQUEST_REFUSED     E P C S
"""
CELLS = dict(line.split(maxsplit=1) for line in GRID.strip().splitlines())


@pytest.mark.parametrize("event", Event, ids=lambda event: event.name)
def test_every_pair_is_what_the_grid_says(event: Event, codes: Callable[..., str]) -> None:
    """All 64 pairs of a state and an event lead where the grid says, are ignored, or are illegal."""
    assert codes(TABLE, "EPCS", event) == CELLS[event.name]


def test_the_grid_names_every_event_once() -> None:
    """The grid has one line for each event, in the order of the enum."""
    assert list(CELLS) == [event.name for event in Event]


def test_counts_are_pinned() -> None:
    """The size of the table changes only on purpose."""
    assert TABLE.counts() == {
        "states": 4,
        "events": 16,
        "effects": 21,
        "rows": 26,
        "ignores": 0,
        "row_cells": 44,
        "ignored_cells": 0,
        "illegal_cells": 20,
    }


def test_every_row_says_where_it_comes_from() -> None:
    """Each row names its clause, each ignore its reason."""
    assert [line for line in TABLE.rows if isinstance(line, Row) and not line.clause] == []
    assert [line for line in TABLE.rows if isinstance(line, Ignore) and not line.why] == []


# By `GroupMetadataManager` of apache/kafka 4.4: number, from, event, to, effects.
ROWS = """
1  EMPTY      NEW_MEMBER_JOINED   PREPARING  ADD_MEMBER PARK_JOIN WAIT_INITIAL_DELAY
2  PREPARING  NEW_MEMBER_JOINED   PREPARING  ADD_MEMBER PARK_JOIN
2  PREPARING  FOLLOWER_REJOINED   PREPARING  UPDATE_MEMBER PARK_JOIN
2  PREPARING  LEADER_CHANGED      PREPARING  UPDATE_MEMBER PARK_JOIN
3  PREPARING  ALL_JOINED          COMPLETING DROP_UNJOINED ELECT_LEADER BUMP_GENERATION ELECT_PROTOCOL ANSWER_JOINS
3  PREPARING  REBALANCE_TIMED_OUT COMPLETING DROP_UNJOINED ELECT_LEADER BUMP_GENERATION ELECT_PROTOCOL ANSWER_JOINS
4  PREPARING  LAST_MEMBER_LEFT    EMPTY      BUMP_GENERATION
5  PREPARING  HEARTBEAT           PREPARING  ANSWER_REBALANCE_IN_PROGRESS
6  PREPARING  FOLLOWER_SYNCED     PREPARING  ANSWER_REBALANCE_IN_PROGRESS
7  COMPLETING FOLLOWER_SYNCED     COMPLETING PARK_SYNC
8  COMPLETING LEADER_SYNCED       STABLE     STORE_ASSIGNMENTS ANSWER_SYNCS
9  COMPLETING FOLLOWER_REJOINED   COMPLETING ANSWER_JOIN
9  COMPLETING LEADER_REJOINED     COMPLETING ANSWER_JOIN
10 COMPLETING FOLLOWER_CHANGED    PREPARING  UPDATE_MEMBER PARK_JOIN FAIL_SYNCS WAIT_FOR_JOINS
10 COMPLETING NEW_MEMBER_JOINED   PREPARING  ADD_MEMBER PARK_JOIN FAIL_SYNCS WAIT_FOR_JOINS
10 COMPLETING MEMBER_LEFT         PREPARING  DROP_MEMBERS FAIL_SYNCS WAIT_FOR_JOINS ANSWER_OK
10 COMPLETING SESSION_EXPIRED     PREPARING  DROP_MEMBERS FAIL_SYNCS WAIT_FOR_JOINS
10 COMPLETING SYNC_TIMED_OUT      PREPARING  DROP_MEMBERS FAIL_SYNCS WAIT_FOR_JOINS
11 COMPLETING HEARTBEAT           COMPLETING ANSWER_OK
12 STABLE     HEARTBEAT           STABLE     ANSWER_OK
13 STABLE     LEADER_REJOINED     PREPARING  UPDATE_MEMBER PARK_JOIN WAIT_FOR_JOINS
14 STABLE     FOLLOWER_CHANGED    PREPARING  UPDATE_MEMBER PARK_JOIN WAIT_FOR_JOINS
15 STABLE     FOLLOWER_REJOINED   STABLE     ANSWER_JOIN
16 STABLE     NEW_MEMBER_JOINED   PREPARING  ADD_MEMBER PARK_JOIN WAIT_FOR_JOINS
16 STABLE     MEMBER_LEFT         PREPARING  DROP_MEMBERS WAIT_FOR_JOINS ANSWER_OK
16 STABLE     SESSION_EXPIRED     PREPARING  DROP_MEMBERS WAIT_FOR_JOINS
16 STABLE     SYNC_TIMED_OUT      PREPARING  DROP_MEMBERS WAIT_FOR_JOINS
17 STABLE     REQUEST_REFUSED     STABLE     ANSWER_ERROR
"""
FULL = {"PREPARING": "PREPARING_REBALANCE", "COMPLETING": "COMPLETING_REBALANCE"}


@pytest.mark.parametrize("line", [line.split(maxsplit=4) for line in ROWS.strip().splitlines()], ids=" ".join)
def test_every_row_of_the_reference_is_here(line: list[str]) -> None:
    """Each of the 17 rows leads where it says, with its actions in order, under a clause that names its number."""
    number, state, event, target, effects = line
    cell = TABLE.compiled[State[FULL.get(state, state)], Event[event]]
    assert cell.target.name == FULL.get(target, target)
    assert " ".join(effect.name for effect in cell.effects) == effects
    assert number in cell.source.clause.replace("1.2-", "").replace(",", " ").split()


def test_its_hops_are_those_of_the_classic_group() -> None:
    """Without DEAD and without the group that is built STABLE, the classic group moves just as this one."""

    def hops(table: Table) -> set[tuple[str, str]]:
        columns = table.columns
        return {(columns.states[a], columns.states[b]) for a, b, _ in columns.edges}

    classic = {(a, b) for a, b in hops(classic_group.TABLE) if b != "DEAD"} - {("EMPTY", "STABLE")}
    assert hops(TABLE) == classic


def test_a_worker_bounces(take_events: Callable[..., list[tuple[str, str, str]]]) -> None:
    """It leaves, comes back as a new member while the others rejoin, and the leader assigns again."""
    steps = take_events(TABLE, (
        Event.MEMBER_ID_GIVEN,
        Event.NEW_MEMBER_JOINED,
        Event.NEW_MEMBER_JOINED,
        Event.ALL_JOINED,
        Event.FOLLOWER_SYNCED,
        Event.LEADER_SYNCED,
        Event.MEMBER_LEFT,
        Event.NEW_MEMBER_JOINED,
        Event.LEADER_REJOINED,
        Event.ALL_JOINED,
        Event.LEADER_SYNCED,
    ))  # fmt: skip
    assert [state for _, _, state in steps] == [
        "EMPTY",
        "PREPARING_REBALANCE",
        "PREPARING_REBALANCE",
        "COMPLETING_REBALANCE",
        "COMPLETING_REBALANCE",
        "STABLE",
        "PREPARING_REBALANCE",
        "PREPARING_REBALANCE",
        "PREPARING_REBALANCE",
        "COMPLETING_REBALANCE",
        "STABLE",
    ]


def test_the_last_worker_leaves(take_events: Callable[..., list[tuple[str, str, str]]]) -> None:
    """The group prepares a rebalance first and finds out then that nobody is left; the generation moves on."""
    assert take_events(TABLE, (
        Event.NEW_MEMBER_JOINED,
        Event.ALL_JOINED,
        Event.LEADER_SYNCED,
        Event.MEMBER_LEFT,
        Event.LAST_MEMBER_LEFT,
    ))[-2:] == [
        ("MEMBER_LEFT", "DROP_MEMBERS WAIT_FOR_JOINS ANSWER_OK", "PREPARING_REBALANCE"),
        ("LAST_MEMBER_LEFT", "BUMP_GENERATION", "EMPTY"),
    ]  # fmt: skip
