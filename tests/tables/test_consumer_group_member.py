"""A member on its coordinator: the whole grid, the cross product of reconciliation, stories."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fsm.errors import IllegalTransition
from fsm.table import Ignore, Row
from fsm.tables.consumer_group_member import TABLE, Effect, Event, State

# Columns: ABSENT STABLE UNREVOKED_PARTITIONS UNRELEASED_PARTITIONS UNKNOWN REMOVED
GRID = """
SAME                      . - . . . .
REVOCATION_NOT_REPORTED   . . - . . .
REVOCATION_INCOMPLETE     . . - . . .
TRIM_NOTHING              . - - . . .
TRIM_NOTHING_REWRITTEN    . S . . . .
TRIM_REVOKE_NEEDED        . V V . . .
TRIM_RELEASED             . S . . . .
REVOKE_NEEDED             . V V V . .
GRANTED_SOME_BLOCKED      . L L L L .
GRANTED_ALL               . S S S S .
ALL_BLOCKED               . L L L L .
STILL_BLOCKED             . . . - . .
NOTHING_TO_GRANT          . S S S S .
UNKNOWN_STATE_FENCED      . . . . - .
CREATED                   S . . . . .
COPIED_STABLE             S . . . . .
COPIED_UNREVOKED          V . . . . .
COPIED_UNRELEASED         L . . . . .
COPIED_UNKNOWN            K . . . . .
CONVERTED                 S . . . . .
LOADED_STABLE             S . . . . .
LOADED_UNREVOKED          V . . . . .
LOADED_UNRELEASED         L . . . . .
LOADED_UNKNOWN            K . . . . .
UPDATED                   . S V L K .
HEARTBEAT_ACCEPTED        . S V L K .
HEARTBEAT_REFUSED         . - - - - .
STATIC_LEFT               . S V L K .
CLASSIC_JOIN_STORED       . S V L K .
CLASSIC_SYNCED            . S V L K .
CLASSIC_SYNC_REFUSED      . S . L K .
CLASSIC_HEARTBEAT_OK      . S . L K .
CLASSIC_HEARTBEAT_REJOIN  . S V L K .
LEFT                      . R R R R .
SESSION_EXPIRED           . R R R R -
REBALANCE_TIMEOUT_EXPIRED . . R . . -
REBALANCE_TIMEOUT_STALE   . - - - - -
JOIN_TIMEOUT_EXPIRED      . R R R R -
SYNC_TIMEOUT_EXPIRED      . R R R R -
REPLACED                  . R R R R .
GROUP_DOWNGRADED          . R R R R .
UNLOADED                  . R R R R .
"""
CELLS = dict(line.split(maxsplit=1) for line in GRID.strip().splitlines())


@pytest.mark.parametrize("event", Event, ids=lambda event: event.name)
def test_every_pair_is_what_the_grid_says(event: Event, codes: Callable[..., str]) -> None:
    """All 252 pairs of a state and an event lead where the grid says, are ignored, or are illegal."""
    assert codes(TABLE, "ASVLKR", event) == CELLS[event.name]


def test_the_grid_names_every_event_once() -> None:
    """The grid has one line for each event, in the order of the enum."""
    assert list(CELLS) == [event.name for event in Event]


def test_counts_are_pinned() -> None:
    """The size of the table changes only on purpose."""
    assert TABLE.counts() == {
        "states": 6,
        "events": 42,
        "effects": 15,
        "rows": 70,
        "ignores": 9,
        "row_cells": 92,
        "ignored_cells": 20,
        "illegal_cells": 140,
    }


def test_every_row_says_where_it_comes_from() -> None:
    """Each row names its clause, each ignore its reason."""
    assert [line for line in TABLE.rows if isinstance(line, Row) and not line.clause] == []
    assert [line for line in TABLE.rows if isinstance(line, Ignore) and not line.why] == []


# `CurrentAssignmentBuilder` of 4.4. Rows of the trim and of the computation, and the decisions that name them.
DECISIONS = {
    "U0": "TRIM_NOTHING",
    "U1": "TRIM_REVOKE_NEEDED",
    "U2": "TRIM_RELEASED",
    "C1": "REVOKE_NEEDED",
    "C2": "GRANTED_SOME_BLOCKED",
    "C3": "GRANTED_ALL",
    "C4": "ALL_BLOCKED",
    "C5": "NOTHING_TO_GRANT",
}
STATES = {"S": State.STABLE, "V": State.UNREVOKED_PARTITIONS, "L": State.UNRELEASED_PARTITIONS, "K": State.UNKNOWN}

# Entry row, then what each outcome leads to: S stable, V unrevoked, L unreleased, = the same member, . cannot occur.
PRODUCT = """
      U0 U1 U2 C1 C2 C3 C4 C5
S1c   =  V  S  .  .  .  .  .
S2    .  .  .  V  L  S  L  S
V1c   =  V  .  .  .  .  .  .
V2c   =  V  .  .  .  .  .  .
V3    .  .  .  V  L  S  L  S
L1    .  .  .  V  L  S  L  S
K2    .  .  .  .  L  S  L  S
"""


def product() -> list[tuple[str, str, str]]:
    head, *lines = PRODUCT.strip().splitlines()
    return [
        (entry, outcome, code)
        for entry, *row in map(str.split, lines)
        for outcome, code in zip(head.split(), row, strict=True)
    ]


def entries(clause: str) -> set[str]:
    return {entry.strip() for entry in clause.split("/", maxsplit=1)[0].split(",")}


@pytest.mark.parametrize(("entry", "outcome", "code"), product())
def test_reconciliation_is_the_cross_product_of_the_reference(entry: str, outcome: str, code: str) -> None:
    """Entry row and outcome lead to the state that Kafka gives the member, under the clause that names both."""
    cell = TABLE.compiled.get((STATES[entry[0]], Event[DECISIONS[outcome]]))
    named = cell is not None and cell.source.clause.endswith(outcome) and entry in entries(cell.source.clause)
    if code == ".":
        assert not named
    elif code == "=":
        assert named
        assert cell.ignored
    else:
        assert named
        assert (cell.target, cell.ignored) == (STATES[code], False)


@pytest.mark.parametrize(
    ("clause", "state", "event"),
    [
        ("S1", State.STABLE, Event.SAME),
        ("V1", State.UNREVOKED_PARTITIONS, Event.REVOCATION_NOT_REPORTED),
        ("V2", State.UNREVOKED_PARTITIONS, Event.REVOCATION_INCOMPLETE),
        ("K1", State.UNKNOWN, Event.UNKNOWN_STATE_FENCED),
    ],
)
def test_entry_rows_that_leave_the_member_alone_are_ignored(clause: str, state: State, event: Event) -> None:
    """S1, V1, V2 and K1 write nothing and arm nothing."""
    cell = TABLE.compiled[state, event]
    assert (cell.ignored, cell.source.clause) == (True, clause)


def test_a_changed_member_arms_the_rebalance_timer_exactly_in_unrevoked() -> None:
    """Each decision that writes a record arms the timer if it ends in UNREVOKED, else cancels it."""
    decided = [
        (cell.target, cell.effects)
        for (_, event), cell in TABLE.compiled.items()
        if event.code < Event.CREATED.code and not cell.ignored
    ]
    armed = (Effect.WRITE_CURRENT_ASSIGNMENT, Effect.ARM_REBALANCE_TIMER)
    cancelled = (Effect.WRITE_CURRENT_ASSIGNMENT, Effect.CANCEL_REBALANCE_TIMER)
    assert len(decided) == 23
    for target, effects in decided:
        assert effects == (armed if target is State.UNREVOKED_PARTITIONS else cancelled)


def test_unknown_is_only_loaded_or_copied() -> None:
    """No decision leads to UNKNOWN: it comes from a record, or from a static member that was in it."""
    assert {
        event.name for (state, event), cell in TABLE.compiled.items() if cell.target is State.UNKNOWN is not state
    } == {
        "LOADED_UNKNOWN",
        "COPIED_UNKNOWN",
    }


def test_a_removed_member_leaves_three_tombstones() -> None:
    """Current assignment, target entry and own record go in this order, whatever ends the member but an unload."""
    ends = {
        (event.name, cell.effects[:3])
        for (state, event), cell in TABLE.compiled.items()
        if cell.target is State.REMOVED is not state
    }
    tombstones = (Effect.REMOVE_CURRENT_ASSIGNMENT, Effect.REMOVE_TARGET_ENTRY, Effect.REMOVE_MEMBER)
    assert ends == {("UNLOADED", ())} | {
        (name, tombstones)
        for name in (
            "LEFT",
            "SESSION_EXPIRED",
            "REBALANCE_TIMEOUT_EXPIRED",
            "JOIN_TIMEOUT_EXPIRED",
            "SYNC_TIMEOUT_EXPIRED",
            "REPLACED",
            "GROUP_DOWNGRADED",
        )
    }


def test_a_member_gives_up_and_gains(take_events: Callable[..., list[tuple[str, str, str]]]) -> None:
    """A joiner waits for a partition and gets it; a newer target takes one back; it acknowledges; it leaves."""
    assert take_events(TABLE, (
        Event.CREATED,
        Event.GRANTED_SOME_BLOCKED,
        Event.HEARTBEAT_ACCEPTED,
        Event.ALL_BLOCKED,
        Event.STILL_BLOCKED,
        Event.GRANTED_ALL,
        Event.REVOKE_NEEDED,
        Event.REVOCATION_NOT_REPORTED,
        Event.REVOCATION_INCOMPLETE,
        Event.REVOKE_NEEDED,
        Event.NOTHING_TO_GRANT,
        Event.LEFT,
    )) == [
        ("CREATED", "WRITE_MEMBER", "STABLE"),
        ("GRANTED_SOME_BLOCKED", "WRITE_CURRENT_ASSIGNMENT CANCEL_REBALANCE_TIMER", "UNRELEASED_PARTITIONS"),
        ("HEARTBEAT_ACCEPTED", "ARM_SESSION_TIMER", "UNRELEASED_PARTITIONS"),
        ("ALL_BLOCKED", "WRITE_CURRENT_ASSIGNMENT CANCEL_REBALANCE_TIMER", "UNRELEASED_PARTITIONS"),
        ("STILL_BLOCKED", "", "UNRELEASED_PARTITIONS"),
        ("GRANTED_ALL", "WRITE_CURRENT_ASSIGNMENT CANCEL_REBALANCE_TIMER", "STABLE"),
        ("REVOKE_NEEDED", "WRITE_CURRENT_ASSIGNMENT ARM_REBALANCE_TIMER", "UNREVOKED_PARTITIONS"),
        ("REVOCATION_NOT_REPORTED", "", "UNREVOKED_PARTITIONS"),
        ("REVOCATION_INCOMPLETE", "", "UNREVOKED_PARTITIONS"),
        ("REVOKE_NEEDED", "WRITE_CURRENT_ASSIGNMENT ARM_REBALANCE_TIMER", "UNREVOKED_PARTITIONS"),
        ("NOTHING_TO_GRANT", "WRITE_CURRENT_ASSIGNMENT CANCEL_REBALANCE_TIMER", "STABLE"),
        ("LEFT", "REMOVE_CURRENT_ASSIGNMENT REMOVE_TARGET_ENTRY REMOVE_MEMBER CANCEL_ALL_TIMERS", "REMOVED"),
    ]  # fmt: skip


def test_a_static_member_goes_and_a_new_id_comes(take_events: Callable[..., list[tuple[str, str, str]]]) -> None:
    """Away with -2 it keeps its state; its timers are not cancelled when it is replaced, and then find nobody."""
    assert take_events(TABLE, (
        Event.CREATED,
        Event.REVOKE_NEEDED,
        Event.STATIC_LEFT,
        Event.REBALANCE_TIMEOUT_STALE,
        Event.REPLACED,
        Event.SESSION_EXPIRED,
    )) == [
        ("CREATED", "WRITE_MEMBER", "STABLE"),
        ("REVOKE_NEEDED", "WRITE_CURRENT_ASSIGNMENT ARM_REBALANCE_TIMER", "UNREVOKED_PARTITIONS"),
        ("STATIC_LEFT", "CLEAR_PENDING WRITE_CURRENT_ASSIGNMENT", "UNREVOKED_PARTITIONS"),
        ("REBALANCE_TIMEOUT_STALE", "", "UNREVOKED_PARTITIONS"),
        ("REPLACED", "REMOVE_CURRENT_ASSIGNMENT REMOVE_TARGET_ENTRY REMOVE_MEMBER", "REMOVED"),
        ("SESSION_EXPIRED", "", "REMOVED"),
    ]  # fmt: skip
    copied = take_events(TABLE, (Event.COPIED_UNREVOKED, Event.NOTHING_TO_GRANT))
    assert copied == [
        ("COPIED_UNREVOKED", "WRITE_MEMBER WRITE_TARGET_ENTRY WRITE_CURRENT_ASSIGNMENT", "UNREVOKED_PARTITIONS"),
        ("NOTHING_TO_GRANT", "WRITE_CURRENT_ASSIGNMENT CANCEL_REBALANCE_TIMER", "STABLE"),
    ]


def test_a_cooperative_classic_member_rejoins_twice(take_events: Callable[..., list[tuple[str, str, str]]]) -> None:
    """It is told to rejoin, learns what to keep, is told again because it is UNREVOKED, and settles."""
    steps = take_events(TABLE, (
        Event.CONVERTED,
        Event.CLASSIC_HEARTBEAT_REJOIN,
        Event.REVOKE_NEEDED,
        Event.CLASSIC_JOIN_STORED,
        Event.CLASSIC_SYNCED,
        Event.CLASSIC_HEARTBEAT_REJOIN,
        Event.NOTHING_TO_GRANT,
        Event.CLASSIC_JOIN_STORED,
        Event.CLASSIC_SYNCED,
        Event.CLASSIC_HEARTBEAT_OK,
    ))  # fmt: skip
    assert [effects for _, effects, _ in steps] == [
        "WRITE_MEMBER WRITE_TARGET_ENTRY WRITE_CURRENT_ASSIGNMENT ARM_SESSION_TIMER",
        "ARM_SESSION_TIMER ARM_JOIN_TIMER",
        "WRITE_CURRENT_ASSIGNMENT ARM_REBALANCE_TIMER",
        "CANCEL_JOIN_TIMER ARM_SESSION_TIMER ARM_SYNC_TIMER",
        "CANCEL_SYNC_TIMER ARM_SESSION_TIMER",
        "ARM_SESSION_TIMER ARM_JOIN_TIMER",
        "WRITE_CURRENT_ASSIGNMENT CANCEL_REBALANCE_TIMER",
        "CANCEL_JOIN_TIMER ARM_SESSION_TIMER ARM_SYNC_TIMER",
        "CANCEL_SYNC_TIMER ARM_SESSION_TIMER",
        "ARM_SESSION_TIMER",
    ]


def test_an_unrevoked_classic_member_always_has_to_rejoin() -> None:
    """Its Heartbeat never finds nothing to do, and its SyncGroup is never refused for a target that moved."""
    for event in (Event.CLASSIC_HEARTBEAT_OK, Event.CLASSIC_SYNC_REFUSED):
        with pytest.raises(IllegalTransition):
            TABLE.compiled[State.UNREVOKED_PARTITIONS, event]
