"""The consumer group on its coordinator: the whole grid, transitions between committed states, stories."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fsm.errors import IllegalTransition
from fsm.table import Ignore, Row
from fsm.tables.consumer_group import TABLE, Effect, Event, State

# Columns: EMPTY ASSIGNING RECONCILING STABLE DEAD
GRID = """
MEMBER_JOINED_TARGET_STALE        A A A A .
MEMBER_JOINED_RECONCILING         . R R R .
MEMBER_JOINED_ALL_STABLE          S . . . .
SUBSCRIPTION_CHANGED_TARGET_STALE . A A A .
SUBSCRIPTION_CHANGED_RECONCILING  . R R R .
SUBSCRIPTION_CHANGED_ALL_STABLE   . S S S .
ASSIGNOR_CHANGED_TARGET_STALE     . A A A .
ASSIGNOR_CHANGED_RECONCILING      . R R R .
ASSIGNOR_CHANGED_ALL_STABLE       . S S S .
METADATA_CHANGED_TARGET_STALE     . A A A .
METADATA_CHANGED_RECONCILING      . R R R .
METADATA_CHANGED_ALL_STABLE       . S S S .
UNSUBSCRIBED_JOINED_TARGET_STALE  A A . . .
UNSUBSCRIBED_JOINED_RECONCILING   . R R . .
UNSUBSCRIBED_JOINED_ALL_STABLE    S . . S .
REGEX_UNRESOLVED_TARGET_STALE     . A . . .
REGEX_UNRESOLVED_RECONCILING      . R R R .
REGEX_UNRESOLVED_ALL_STABLE       . S S S .
HEARTBEAT_TARGET_STALE            . - . . .
HEARTBEAT_RECONCILING             . R - . .
HEARTBEAT_ALL_STABLE              . S S - .
MEMBER_REPLACED                   . A R R .
STATIC_MEMBER_LEFT                . A R R .
MEMBERS_REMOVED                   . A A A .
LAST_MEMBERS_REMOVED              . E E E .
TOPICS_UPDATED                    . A R S .
METADATA_UNCHANGED                . A R S .
REGEX_RESOLUTION_DUE              . A R S .
REGEX_RESULT_CHANGED              - A A A -
REGEX_RESULT_SAME                 - A R S -
REGEX_RESOLUTION_FAILED           - - - - -
ASSIGNOR_FAILED                   - - - - .
CLASSIC_GROUP_CONVERTED           S . . . .
LOADED_EMPTY                      E . . . .
LOADED_ASSIGNING                  A . . . .
LOADED_RECONCILING                R . . . .
LOADED_STABLE                     S . . . .
DOWNGRADED_BY_REMOVAL             . D D D .
DOWNGRADED_BY_REPLACEMENT         . D D D .
CLASSIC_JOIN_TO_EMPTY             D . . . .
GROUP_DELETED                     D . . . .
UNLOADED                          D D D D .
"""
CELLS = dict(line.split(maxsplit=1) for line in GRID.strip().splitlines())

# Transitions between committed states, by Kafka's `ConsumerGroup`. A group that does not exist yet is EMPTY here.
COMMITTED = [
    ("EMPTY", "STABLE", "first member joins with existing topics, all its target partitions free"),
    ("EMPTY", "STABLE", "first member joins without any subscription"),
    ("STABLE", "ASSIGNING", "the pattern of the first member is resolved"),
    ("EMPTY", "STABLE", "member joins with a subscription; epochs continue"),
    ("EMPTY", "ASSIGNING", "the same in 4.3, the last computation being younger than the interval"),
    ("EMPTY", "DEAD", "classic JoinGroup: group deleted, a classic group takes its place"),
    ("EMPTY", "DEAD", "DeleteGroups, or cleanup when no offsets remain"),
    ("STABLE", "RECONCILING", "join, subscription, topic or assignor change; somebody is left behind"),
    ("RECONCILING", "RECONCILING", "the same"),
    ("STABLE", "STABLE", "the same, nobody is left behind"),
    ("RECONCILING", "STABLE", "the same, nobody is left behind"),
    ("STABLE", "ASSIGNING", "the same, interval not elapsed"),
    ("RECONCILING", "ASSIGNING", "the same, interval not elapsed"),
    ("STABLE", "ASSIGNING", "leave, fence, LeaveGroup with members remaining"),
    ("RECONCILING", "ASSIGNING", "leave, fence, LeaveGroup with members remaining"),
    ("RECONCILING", "ASSIGNING", "regex result changes topics or metadata"),
    ("STABLE", "RECONCILING", "a member switches to an unresolved regex and must give partitions up"),
    ("STABLE", "RECONCILING", "static member leaves with -2"),
    ("ASSIGNING", "RECONCILING", "heartbeat or classic JoinGroup after the interval"),
    ("ASSIGNING", "STABLE", "heartbeat or classic JoinGroup after the interval"),
    ("RECONCILING", "STABLE", "last lagging member reaches STABLE at the target epoch"),
    ("ASSIGNING", "EMPTY", "last member removed"),
    ("RECONCILING", "EMPTY", "last member removed"),
    ("STABLE", "EMPTY", "last member removed"),
    ("ASSIGNING", "DEAD", "downgrade"),
    ("RECONCILING", "DEAD", "downgrade"),
    ("STABLE", "DEAD", "downgrade"),
]


@pytest.mark.parametrize("event", Event, ids=lambda event: event.name)
def test_every_pair_is_what_the_grid_says(event: Event, codes: Callable[..., str]) -> None:
    """All 210 pairs of a state and an event lead where the grid says, are ignored, or are illegal."""
    assert codes(TABLE, "EARSD", event) == CELLS[event.name]


def test_the_grid_names_every_event_once() -> None:
    """The grid has one line for each event, in the order of the enum."""
    assert list(CELLS) == [event.name for event in Event]


def test_counts_are_pinned() -> None:
    """The size of the table changes only on purpose."""
    assert TABLE.counts() == {
        "states": 5,
        "events": 42,
        "effects": 14,
        "rows": 51,
        "ignores": 6,
        "row_cells": 95,
        "ignored_cells": 16,
        "illegal_cells": 99,
    }


def hops() -> set[tuple[str, str]]:
    columns = TABLE.columns
    return {(columns.states[a], columns.states[b]) for a, b, _ in columns.edges}


@pytest.mark.parametrize(("source", "target", "why"), COMMITTED)
def test_each_committed_transition_is_a_hop(source: str, target: str, why: str) -> None:
    """Every transition between committed states is one hop of the table."""
    assert (source, target) in hops(), why


def test_an_interval_that_runs_on_changes_nothing() -> None:
    """A heartbeat inside the interval leaves ASSIGNING as it is: the one listed transition that is no hop."""
    cell = TABLE.compiled[State.ASSIGNING, Event.HEARTBEAT_TARGET_STALE]
    assert (cell.ignored, cell.target) == (True, State.ASSIGNING)


def test_hops_beyond_the_list_are_few_and_known() -> None:
    """Beside the listed ones there are loading, and steps that leave the group where it was."""
    assert hops() - {(a, b) for a, b, _ in COMMITTED} == {
        ("EMPTY", "RECONCILING"),
        ("ASSIGNING", "ASSIGNING"),
    }
    loading = [e.name for (s, e), c in TABLE.compiled.items() if (s, c.target) == (State.EMPTY, State.RECONCILING)]
    assert loading == ["LOADED_RECONCILING"]


def test_the_suffix_of_an_event_names_the_state_it_leads_to() -> None:
    """An event that says how the group stands afterwards leads to that state from everywhere."""
    wanted = {"TARGET_STALE": "ASSIGNING", "RECONCILING": "RECONCILING", "ALL_STABLE": "STABLE"}
    endings = {
        (event.name, state, cell.target.name)
        for (_, event), cell in TABLE.compiled.items()
        for suffix, state in wanted.items()
        if event.name.endswith(suffix)
    }
    assert len(endings) == 22
    assert {(event, state) for event, state, _ in endings} == {(event, reached) for event, _, reached in endings}


def test_a_bump_without_a_new_target_ends_in_assigning_or_empty() -> None:
    """The group epoch is ahead of the target epoch after it, unless nobody remains and both are levelled."""
    for (state, event), cell in TABLE.compiled.items():
        if Effect.BUMP_GROUP_EPOCH in cell.effects and Effect.COMPUTE_TARGET not in cell.effects:
            assert cell.target in (State.ASSIGNING, State.EMPTY), (state, event)
            assert (Effect.LEVEL_TARGET_EPOCH in cell.effects) == (cell.target is State.EMPTY), (state, event)


def test_a_target_is_computed_only_when_it_is_behind() -> None:
    """A computation follows a bump in the same step or leaves ASSIGNING, and never ends there."""
    for (state, event), cell in TABLE.compiled.items():
        if Effect.COMPUTE_TARGET in cell.effects:
            assert Effect.BUMP_GROUP_EPOCH in cell.effects or state is State.ASSIGNING, (state, event)
            assert cell.target in (State.RECONCILING, State.STABLE), (state, event)


def test_leaving_assigning_for_a_current_target_computes_it() -> None:
    """There is no way from ASSIGNING to RECONCILING or STABLE without a computation."""
    for (state, event), cell in TABLE.compiled.items():
        if state is State.ASSIGNING and cell.target in (State.RECONCILING, State.STABLE):
            assert Effect.COMPUTE_TARGET in cell.effects, event


def test_every_row_says_where_it_comes_from() -> None:
    """Each row names its clause, each ignore its reason."""
    assert [line for line in TABLE.rows if isinstance(line, Row) and not line.clause] == []
    assert [line for line in TABLE.rows if isinstance(line, Ignore) and not line.why] == []


def test_the_header_says_what_dead_means() -> None:
    """Kafka never assigns DEAD to a consumer group, and the reader is told so."""
    assert "DEAD is no state of a Kafka consumer group" in TABLE.doc


def test_a_group_lives_from_its_first_member_to_its_deletion(
    take_events: Callable[..., list[tuple[str, str, str]]],
) -> None:
    """Join, second join, reconciliation, a leave inside the interval, the delayed target, the end."""
    assert take_events(TABLE, (
        Event.MEMBER_JOINED_ALL_STABLE,
        Event.MEMBER_JOINED_RECONCILING,
        Event.HEARTBEAT_RECONCILING,
        Event.HEARTBEAT_ALL_STABLE,
        Event.MEMBERS_REMOVED,
        Event.HEARTBEAT_TARGET_STALE,
        Event.HEARTBEAT_ALL_STABLE,
        Event.LAST_MEMBERS_REMOVED,
        Event.GROUP_DELETED,
    )) == [
        ("MEMBER_JOINED_ALL_STABLE", "BUMP_GROUP_EPOCH SET_METADATA_DEADLINE COMPUTE_TARGET", "STABLE"),
        ("MEMBER_JOINED_RECONCILING", "BUMP_GROUP_EPOCH SET_METADATA_DEADLINE COMPUTE_TARGET", "RECONCILING"),
        ("HEARTBEAT_RECONCILING", "", "RECONCILING"),
        ("HEARTBEAT_ALL_STABLE", "", "STABLE"),
        ("MEMBERS_REMOVED", "REMOVE_UNUSED_REGEXES BUMP_GROUP_EPOCH", "ASSIGNING"),
        ("HEARTBEAT_TARGET_STALE", "", "ASSIGNING"),
        ("HEARTBEAT_ALL_STABLE", "COMPUTE_TARGET", "STABLE"),
        ("LAST_MEMBERS_REMOVED", "REMOVE_UNUSED_REGEXES BUMP_GROUP_EPOCH LEVEL_TARGET_EPOCH", "EMPTY"),
        ("GROUP_DELETED", "REMOVE_GROUP_RECORDS", "DEAD"),
    ]  # fmt: skip


def test_a_pattern_is_resolved_in_a_step_of_its_own(take_events: Callable[..., list[tuple[str, str, str]]]) -> None:
    """A first member with a pattern gets nothing; the result bumps; the next heartbeat computes the target."""
    assert take_events(TABLE, (
        Event.UNSUBSCRIBED_JOINED_ALL_STABLE,
        Event.REGEX_RESOLUTION_DUE,
        Event.REGEX_RESULT_CHANGED,
        Event.HEARTBEAT_ALL_STABLE,
    )) == [
        ("UNSUBSCRIBED_JOINED_ALL_STABLE", "", "STABLE"),
        ("REGEX_RESOLUTION_DUE", "RESOLVE_REGEXES", "STABLE"),
        ("REGEX_RESULT_CHANGED", "WRITE_REGEXES BUMP_GROUP_EPOCH", "ASSIGNING"),
        ("HEARTBEAT_ALL_STABLE", "COMPUTE_TARGET", "STABLE"),
    ]  # fmt: skip


def test_a_group_is_upgraded_and_downgraded(take_events: Callable[..., list[tuple[str, str, str]]]) -> None:
    """The joiner comes after the conversion; when it leaves, the classic members go back and rebalance."""
    assert take_events(TABLE, (
        Event.CLASSIC_GROUP_CONVERTED,
        Event.MEMBER_JOINED_RECONCILING,
        Event.DOWNGRADED_BY_REMOVAL,
    )) == [
        ("CLASSIC_GROUP_CONVERTED", "WRITE_CONVERTED_GROUP CLEAR_METADATA_DEADLINE", "STABLE"),
        ("MEMBER_JOINED_RECONCILING", "BUMP_GROUP_EPOCH SET_METADATA_DEADLINE COMPUTE_TARGET", "RECONCILING"),
        ("DOWNGRADED_BY_REMOVAL", "REMOVE_GROUP_RECORDS CREATE_CLASSIC_GROUP REBALANCE_CLASSIC_GROUP", "DEAD"),
    ]  # fmt: skip


def test_a_downgrade_by_replacement_rebalances_only_with_a_stale_target() -> None:
    """The state in which the conversion finds the group decides (flag F20)."""
    rebalances = {
        state.name: Effect.REBALANCE_CLASSIC_GROUP in TABLE.compiled[state, Event.DOWNGRADED_BY_REPLACEMENT].effects
        for state in (State.ASSIGNING, State.RECONCILING, State.STABLE)
    }
    assert rebalances == {"ASSIGNING": True, "RECONCILING": False, "STABLE": False}


def test_a_second_member_cannot_leave_the_group_stable() -> None:
    """A new target leaves the members that were there behind, so the join cannot end with all of them at it."""
    with pytest.raises(IllegalTransition, match="MEMBER_JOINED_ALL_STABLE is illegal in STABLE"):
        TABLE.compiled[State.STABLE, Event.MEMBER_JOINED_ALL_STABLE]
