"""The design notes' list of states: the grid of the default, the cells each choice changes, stories."""

from __future__ import annotations

import pytest
from tables.grid import IGNORED, differing

from fsm.tables.consumer_member_notes import (
    ALL_CHOICES,
    DEFAULT,
    SEED_NAMES,
    TABLE,
    Choices,
    Effect,
    Event,
    Running,
    State,
    table,
)

S, E, F = State, Event, Effect

# fmt: off
CELLS: dict[State, dict[Event, tuple[State | Effect, ...] | str]] = {
    S.UNSUBSCRIBED: {
        E.SUBSCRIBED: (S.JOINING, F.UPDATE_SUBSCRIPTION, F.HEARTBEAT_NOW),
        E.ASSIGNMENT_RECEIVED: IGNORED,
        E.ABANDONED_STEP_ENDED: (F.DROP_RECONCILIATION,),
        E.UNSUBSCRIBE_CALLED: IGNORED,
        E.MEMBER_FENCED: IGNORED,
        E.PARTITIONS_LOST_HANDLED: IGNORED,
        E.FATAL_ERROR: (S.FATAL, F.RAISE_ERROR),
    },
    S.JOINING: {
        E.SUBSCRIPTION_CHANGED: (F.UPDATE_SUBSCRIPTION,),
        E.JOIN_HEARTBEAT_SENT: (S.STABLE,),
        E.ASSIGNMENT_RECEIVED: IGNORED,
        E.ABANDONED_STEP_ENDED: (F.DROP_RECONCILIATION,),
        E.UNSUBSCRIBE_CALLED: (S.UNSUBSCRIBING, F.LEAVE_GROUP),
        E.MEMBER_FENCED: (S.FENCED, F.RESET_EPOCH, F.LOSE_PARTITIONS),
        E.FATAL_ERROR: (S.FATAL, F.RAISE_ERROR),
    },
    S.STABLE: {
        E.SUBSCRIPTION_CHANGED: (F.UPDATE_SUBSCRIPTION,),
        E.HEARTBEAT_SENT: (),
        E.ASSIGNMENT_RECEIVED: (S.RECONCILING, F.SET_TARGET, F.RECONCILE),
        E.ABANDONED_STEP_ENDED: (F.DROP_RECONCILIATION,),
        E.UNSUBSCRIBE_CALLED: (S.UNSUBSCRIBING, F.REVOKE_PARTITIONS, F.COMMIT_OFFSETS, F.LEAVE_GROUP),
        E.MEMBER_FENCED: (S.FENCED, F.RESET_EPOCH, F.LOSE_PARTITIONS),
        E.FATAL_ERROR: (S.FATAL, F.RAISE_ERROR),
    },
    S.RECONCILING: {
        E.SUBSCRIPTION_CHANGED: (F.UPDATE_SUBSCRIPTION,),
        E.HEARTBEAT_SENT: (),
        E.ASSIGNMENT_RECEIVED: (S.RECONCILING, F.SET_TARGET, F.RECONCILE),
        E.RECONCILED: (S.ACK, F.HEARTBEAT_NOW),
        E.ABANDONED_STEP_ENDED: (F.DROP_RECONCILIATION, F.RECONCILE),
        E.UNSUBSCRIBE_CALLED: (S.UNSUBSCRIBING, F.REVOKE_PARTITIONS, F.COMMIT_OFFSETS, F.LEAVE_GROUP),
        E.MEMBER_FENCED: (S.FENCED, F.RESET_EPOCH, F.LOSE_PARTITIONS),
        E.FATAL_ERROR: (S.FATAL, F.RAISE_ERROR),
    },
    S.ACK: {
        E.SUBSCRIPTION_CHANGED: (F.UPDATE_SUBSCRIPTION,),
        E.ASSIGNMENT_RECEIVED: (S.RECONCILING, F.SET_TARGET, F.RECONCILE),
        E.ACK_SIGNALLED: (S.STABLE,),
        E.UNSUBSCRIBE_CALLED: (S.UNSUBSCRIBING, F.REVOKE_PARTITIONS, F.COMMIT_OFFSETS, F.LEAVE_GROUP),
        E.MEMBER_FENCED: (S.FENCED, F.RESET_EPOCH, F.LOSE_PARTITIONS),
        E.FATAL_ERROR: (S.FATAL, F.RAISE_ERROR),
    },
    S.UNSUBSCRIBING: {
        E.ASSIGNMENT_RECEIVED: IGNORED,
        E.ABANDONED_STEP_ENDED: (F.DROP_RECONCILIATION,),
        E.UNSUBSCRIBE_CALLED: IGNORED,
        E.LEFT: (S.UNSUBSCRIBED,),
        E.MEMBER_FENCED: IGNORED,
        E.PARTITIONS_LOST_HANDLED: IGNORED,
        E.FATAL_ERROR: (S.FATAL, F.RAISE_ERROR),
    },
    S.FENCED: {
        E.SUBSCRIPTION_CHANGED: (F.UPDATE_SUBSCRIPTION,),
        E.ASSIGNMENT_RECEIVED: IGNORED,
        E.ABANDONED_STEP_ENDED: (F.DROP_RECONCILIATION,),
        E.UNSUBSCRIBE_CALLED: (S.UNSUBSCRIBING, F.LEAVE_GROUP),
        E.MEMBER_FENCED: IGNORED,
        E.PARTITIONS_LOST_HANDLED: (S.JOINING, F.HEARTBEAT_NOW),
        E.FATAL_ERROR: (S.FATAL, F.RAISE_ERROR),
    },
    S.FATAL: {
        E.SUBSCRIPTION_CHANGED: IGNORED,
        E.ASSIGNMENT_RECEIVED: IGNORED,
        E.ABANDONED_STEP_ENDED: IGNORED,
        E.UNSUBSCRIBE_CALLED: IGNORED,
        E.MEMBER_FENCED: IGNORED,
        E.PARTITIONS_LOST_HANDLED: IGNORED,
        E.FATAL_ERROR: IGNORED,
    },
}
# fmt: on


def test_every_cell_of_the_grid() -> None:
    """Each pair of state and event does exactly what the grid says, is ignored, or is illegal."""
    assert differing(TABLE, Event, CELLS) == []


def cells(choices: Choices) -> dict[tuple[str, str], tuple[str, ...] | str]:
    """Every cell by the names of its state and event: the names of its steps, or that it is ignored."""
    return {
        (state.name, event.name): IGNORED if cell.ignored else tuple(step.name for step in cell.steps)
        for (state, event), cell in table(choices).compiled.items()
    }


def changed(choices: Choices) -> dict[tuple[str, str], tuple[str, ...] | str | None]:
    """The cells in which `choices` differs from the default: what it has there, None where it is illegal."""
    default, other = cells(DEFAULT), cells(choices)
    return {
        pair: other.get(pair) for pair in sorted(default.keys() | other.keys()) if default.get(pair) != other.get(pair)
    }


NOW = {
    ("RECONCILING", "SUBSCRIPTION_CHANGED"): ("UPDATE_SUBSCRIPTION", "HEARTBEAT_NOW"),
    ("STABLE", "SUBSCRIPTION_CHANGED"): ("UPDATE_SUBSCRIPTION", "HEARTBEAT_NOW"),
}
AGAIN = {("FATAL", "SUBSCRIPTION_CHANGED"): ("UNSUBSCRIBED", "UPDATE_SUBSCRIPTION")}
CANCELLED = {
    ("ACK", "ABANDONED_STEP_ENDED"): IGNORED,
    ("FENCED", "ABANDONED_STEP_ENDED"): IGNORED,
    ("JOINING", "ABANDONED_STEP_ENDED"): IGNORED,
    ("RECONCILING", "ABANDONED_STEP_ENDED"): IGNORED,
    ("STABLE", "ABANDONED_STEP_ENDED"): IGNORED,
    ("UNSUBSCRIBED", "ABANDONED_STEP_ENDED"): IGNORED,
    ("UNSUBSCRIBING", "ABANDONED_STEP_ENDED"): IGNORED,
    ("RECONCILING", "MEMBER_FENCED"): ("FENCED", "DROP_RECONCILIATION", "RESET_EPOCH", "LOSE_PARTITIONS"),
    ("RECONCILING", "UNSUBSCRIBE_CALLED"): (
        "UNSUBSCRIBING",
        "DROP_RECONCILIATION",
        "REVOKE_PARTITIONS",
        "COMMIT_OFFSETS",
        "LEAVE_GROUP",
    ),
}


def test_the_default_is_what_kafka_shipped() -> None:
    """No heartbeat out of turn for a subscription, FATAL for good, and a running reconciliation is not cancelled."""
    assert Choices(False, False, Running.FINISH) == DEFAULT
    assert cells(DEFAULT) == {
        (state.name, event.name): IGNORED if steps == IGNORED else tuple(step.name for step in steps)
        for state, row in CELLS.items()
        for event, steps in row.items()
    }
    assert TABLE.terminal == (S.FATAL,)


@pytest.mark.parametrize("choices", ALL_CHOICES, ids=str)
def test_each_choice_changes_its_own_cells_and_no_others(choices: Choices) -> None:
    """Whatever the two other answers are, an answer changes the same cells in the same way."""
    expected: dict[tuple[str, str], tuple[str, ...] | str] = {}
    if choices.heartbeat_on_subscription_change:
        expected |= NOW
    if choices.fatal_resubscribes:
        expected |= AGAIN
    if choices.running_reconciliation is Running.CANCEL:
        expected |= CANCELLED
    assert changed(choices) == expected


def test_there_are_eight_combinations() -> None:
    """Three questions with two answers each, every combination once."""
    assert len(ALL_CHOICES) == len(set(ALL_CHOICES)) == 8
    assert DEFAULT in ALL_CHOICES


@pytest.mark.parametrize(
    ("again", "how", "sizes"),
    [
        (False, Running.FINISH, (38, 18, 48)),
        (True, Running.FINISH, (39, 17, 48)),
        (False, Running.CANCEL, (32, 25, 47)),
        (True, Running.CANCEL, (33, 24, 47)),
    ],
)
@pytest.mark.parametrize("now", [False, True])
def test_counts_are_pinned(now: bool, again: bool, how: Running, sizes: tuple[int, int, int]) -> None:
    """8 states by 13 events are 104 cells: rows, ignored, illegal; the heartbeat's choice changes effects only."""
    counts = table(Choices(now, again, how)).counts()
    assert (counts["states"], counts["events"], counts["effects"]) == (8, 13, 11)
    assert (counts["row_cells"], counts["ignored_cells"], counts["illegal_cells"]) == sizes


@pytest.mark.parametrize("choices", ALL_CHOICES, ids=str)
def test_fatal_is_terminal_unless_a_subscription_leads_out_of_it(choices: Choices) -> None:
    """FATAL is left on SUBSCRIPTION_CHANGED under one answer, and never left under the other."""
    built = table(choices)
    ways_out = {
        event for (state, event), cell in built.compiled.items() if state is S.FATAL and cell.target is not state
    }
    assert ways_out == ({E.SUBSCRIPTION_CHANGED} if choices.fatal_resubscribes else set())
    assert built.terminal == (() if choices.fatal_resubscribes else (S.FATAL,))


def test_the_documents_spelling_is_kept() -> None:
    """Every state has the name that the document gives it, each once."""
    assert [SEED_NAMES[state] for state in State] == [
        "UNSUBSCRIBE",
        "JOINING",
        "STABLE",
        "RECONCILE_ASSIGNMENT",
        "ACK_ASSIGNMENT",
        "UNSUBSCRIBING",
        "FENCED",
        "FATAL",
    ]


def play(choices: Choices, *events: Event) -> tuple[list[State], list[Effect]]:
    """The states after each event, and all effects, from the beginning."""
    compiled = table(choices).compiled
    state, states, effects = compiled.initial, [], []
    for event in events:
        cell = compiled[state, event]
        state = cell.target
        states.append(state)
        effects.extend(cell.effects)
    return states, effects


def test_a_member_joins_reconciles_and_leaves() -> None:
    """From the subscription through an acknowledged assignment back to UNSUBSCRIBED."""
    states, effects = play(
        DEFAULT,
        E.SUBSCRIBED,
        E.JOIN_HEARTBEAT_SENT,
        E.ASSIGNMENT_RECEIVED,
        E.HEARTBEAT_SENT,
        E.RECONCILED,
        E.ACK_SIGNALLED,
        E.UNSUBSCRIBE_CALLED,
        E.LEFT,
    )
    assert states == [
        S.JOINING,
        S.STABLE,
        S.RECONCILING,
        S.RECONCILING,
        S.ACK,
        S.STABLE,
        S.UNSUBSCRIBING,
        S.UNSUBSCRIBED,
    ]
    assert effects == [
        F.UPDATE_SUBSCRIPTION,
        F.HEARTBEAT_NOW,
        F.SET_TARGET,
        F.RECONCILE,
        F.HEARTBEAT_NOW,
        F.REVOKE_PARTITIONS,
        F.COMMIT_OFFSETS,
        F.LEAVE_GROUP,
    ]


def test_a_new_reconciliation_waits_for_the_step_that_was_left_behind() -> None:
    """Fenced while reconciling and rejoined: the old step's end drops the old run and begins the new one."""
    rejoined = (
        E.SUBSCRIBED,
        E.JOIN_HEARTBEAT_SENT,
        E.ASSIGNMENT_RECEIVED,
        E.MEMBER_FENCED,
        E.PARTITIONS_LOST_HANDLED,
        E.JOIN_HEARTBEAT_SENT,
        E.ASSIGNMENT_RECEIVED,
        E.ABANDONED_STEP_ENDED,
    )
    states, effects = play(DEFAULT, *rejoined)
    assert states[-2:] == [S.RECONCILING, S.RECONCILING]
    assert effects[-2:] == [F.DROP_RECONCILIATION, F.RECONCILE]
    _, cancelled = play(Choices(running_reconciliation=Running.CANCEL), *rejoined)
    assert cancelled.index(F.DROP_RECONCILIATION) < cancelled.index(F.LOSE_PARTITIONS)
    assert cancelled.count(F.RECONCILE) == 2


def test_a_better_regex_helps_only_where_it_is_chosen() -> None:
    """After a fatal error a new subscription leads back into a group under one answer and nowhere under the other."""
    broken = (E.SUBSCRIBED, E.JOIN_HEARTBEAT_SENT, E.FATAL_ERROR, E.SUBSCRIPTION_CHANGED)
    assert play(DEFAULT, *broken)[0][-1] is S.FATAL
    states, _ = play(Choices(fatal_resubscribes=True), *broken, E.SUBSCRIBED, E.JOIN_HEARTBEAT_SENT)
    assert states[-3:] == [S.UNSUBSCRIBED, S.JOINING, S.STABLE]
