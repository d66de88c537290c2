"""The consumer member of Kafka 4.4 against the reading of its sources: relation, rows, the whole grid, stories.

The data below are transcribed from that reading, not from the table: the relation of `MemberState`, the states
that each row of the lifecycle goes through, and the grid of all 480 pairs.
"""

from __future__ import annotations

import pytest

from fsm.errors import IllegalTransition
from fsm.table import Ignore, Kind, Row, Symbol
from fsm.tables.consumer_member import TABLE, Effect, Event, State

# Target: legal sources. A change of a state to itself is always legal.
LEGAL_CHANGES = {
    "UNSUBSCRIBED": "PREPARE_LEAVING LEAVING FENCED",
    "JOINING": "FENCED UNSUBSCRIBED STALE",
    "RECONCILING": "STABLE JOINING ACKNOWLEDGING RECONCILING",
    "ACKNOWLEDGING": "RECONCILING",
    "STABLE": "JOINING ACKNOWLEDGING RECONCILING",
    "FENCED": "JOINING STABLE RECONCILING ACKNOWLEDGING PREPARE_LEAVING LEAVING",
    "PREPARE_LEAVING": "JOINING STABLE RECONCILING ACKNOWLEDGING UNSUBSCRIBED",
    "LEAVING": "PREPARE_LEAVING",
    "FATAL": "JOINING STABLE RECONCILING ACKNOWLEDGING PREPARE_LEAVING LEAVING UNSUBSCRIBED",
    "STALE": "LEAVING",
}
LEGAL = {(source, target) for target, sources in LEGAL_CHANGES.items() for source in sources.split()}

NEVER_TAKEN = {
    ("JOINING", "STABLE"),
    ("PREPARE_LEAVING", "FENCED"),
    ("LEAVING", "FENCED"),
    ("PREPARE_LEAVING", "UNSUBSCRIBED"),
    ("UNSUBSCRIBED", "PREPARE_LEAVING"),
}

# Performed self transitions: three are rows of their own (R1, X3, G9), two stand in the grid only.
SELF_HOPS = {
    ("RECONCILING", "RECONCILING"): {"RESP_NEW"},
    ("FATAL", "FATAL"): {"ERR_FATAL"},
    ("LEAVING", "LEAVING"): {"LEAVE_CB_DONE"},
    ("FENCED", "FENCED"): {"ERR_FENCE"},
    ("PREPARE_LEAVING", "PREPARE_LEAVING"): {"POLL_EXPIRED"},
}

# Row: states it goes through; rows that stay are not listed.
PATHS = {
    "U1": "JOINING",
    "U7": "FATAL",
    "U8": "FATAL",
    "J2": "RECONCILING",
    "M1": "FENCED",
    "M2": "FATAL",
    "M5": "PREPARE_LEAVING LEAVING STALE",
    "M6": "PREPARE_LEAVING LEAVING",
    "M7": "PREPARE_LEAVING",
    "M8": "PREPARE_LEAVING LEAVING",
    "R1": "RECONCILING",
    "R2": "ACKNOWLEDGING",
    "R7": "ACKNOWLEDGING",
    "R10": "STABLE",
    "A1": "STABLE",
    "A2": "RECONCILING",
    "A3": "RECONCILING",
    "S1": "RECONCILING",
    "F1": "JOINING",
    "F2": "UNSUBSCRIBED",
    "P1": "LEAVING",
    "P2": "LEAVING UNSUBSCRIBED",
    "P3": "FATAL",
    "L1": "UNSUBSCRIBED",
    "L2": "UNSUBSCRIBED",
    "L3": "UNSUBSCRIBED",
    "L4": "FATAL",
    "L5": "UNSUBSCRIBED",
    "X3": "FATAL",
    "Z1": "JOINING",
    "Z4": "JOINING",
    "G9": "LEAVING",
    "M1/FENCED": "FENCED",
    "M5/PREPARE_LEAVING": "PREPARE_LEAVING LEAVING STALE",
}

# A row's id; n: illegal; i1 i2 i3: ignored; ILL: a transition is attempted, refused and swallowed.
# fmt: off
GRID = """
                        UNSUBSCRIBED JOINING RECONCILING ACKNOWLEDGING STABLE FENCED    PREPARE_LEAVING    LEAVING FATAL STALE
subscribe               G1           G1      G1          G1            G1     G1        G1                 G1      G1    G1
poll_join               U1           n       n           n             n      n         n                  n       n     n
poll_flag_lost          n            G2      G2          G2            G2     G2        G2                 G2      G2    G2
poll_late               G3           G3      G3          G3            G3     G3        G3                 G3      G3    n
poll_late_released      n            n       n           n             n      n         n                  n       n     Z1
poll_late_pending       n            n       n           n             n      n         n                  n       n     Z2
unsubscribe             U2           n       n           n             n      F2        P5                 P5      X2    Z5
unsubscribe_cb          n            M7      M7          M7            M7     n         n                  n       n     n
unsubscribe_nocb        n            M6      M6          M6            M6     n         n                  n       n     n
close_leave             U2           M8      M8          M8            M8     F2        P5                 P5      X2    Z5
apply_assignment        G4           G4      G4          n             n      G4        G4                 G4      G4    G4
apply_rejected          G5           G5      G5          n             n      G5        G5                 G5      G5    G5
rec_none                n            n       i3          n             n      n         n                  n       n     n
rec_busy                n            n       i3          n             n      n         n                  n       n     n
rec_waiting             n            n       i3          n             n      n         n                  n       n     n
rec_deferred            n            n       i3          n             n      n         n                  n       n     n
rec_partial_ack         n            n       R2          n             n      n         n                  n       n     n
rec_start               n            n       R3          n             n      n         n                  n       n     n
commit_done_revoke      n            n       R4          n             n      n         n                  n       n     n
commit_done_assign      n            n       R5          n             n      n         n                  n       n     n
revoked_ok              n            n       R6          n             n      n         n                  n       n     n
assigned_ok             n            n       R7          n             n      n         n                  n       n     n
run_failed              G7           G7      R8          n             n      G7        G7                 G7      G7    G7
run_step_stale          G6           G6      G6          n             n      G6        G6                 G6      G6    G6
leave_cb_done           U9           ILL     ILL         ILL           ILL    ILL       P1                 G9      X4    ILL
lost_done_fence         G8           G8      G8          G8            G8     F1        G8                 G8      G8    G8
lost_done_fatal         n            n       n           n             n      n         n                  n       X1    n
lost_done_stale         n            n       n           n             n      n         n                  n       n     Z3
lost_done_stale_rejoin  n            n       n           n             n      n         n                  n       n     Z4
tick_skip               i3           i3      i3          i3            i3     i3        i3                 n       i3    i3
leave_skipped           n            n       n           n             n      n         n                  L2      n     n
poll_expired            n            M5      M5          M5            M5     n         M5/PREPARE_LEAVING ILL     n     n
hb_idle                 n            i3      i3          i3            i3     n         i3                 i3      n     n
hb_sent                 n            J1      R9          n             R9     n         P4                 n       n     n
ack_sent                n            n       n           A1            n      n         n                  n       n     n
ack_sent_target_moved   n            n       n           A2            n      n         n                  n       n     n
leave_sent              n            n       n           n             n      n         n                  L1      n     n
close_flush_leave       n            n       n           n             n      n         P8                 L5      n     n
resp_leave_done         U3           n       n           n             n      n         n                  n       n     n
resp_negative           i1           M9      M9          M9            M9     i1        P7                 i2      i1    i1
resp_epoch              i1           M10     M10         M10           M10    i1        P6                 i2      i1    i1
resp_same               i1           n       R10         A4            A4     i1        P6                 i2      i1    i1
resp_new                i1           J2      R1          A3            S1     i1        P6                 i2      i1    i1
err_fence               U4           M1      M1          M1            M1     M1/FENCED P2                 L3      ILL   ILL
err_fatal               U7           M2      M2          M2            M2     ILL       P3                 L4      X3    ILL
err_fatal_late          U8           n       n           n             n      n         n                  n       n     n
err_retry               U5           M3      M3          M3            M3     M3        M3                 M3      M3    M3
err_topic_auth          U6           M4      M4          M4            M4     M4        M4                 M4      M4    M4
"""  # noqa: E501
# fmt: on


def _grid() -> list[tuple[State, Event, str]]:
    head, *lines = (line.split() for line in GRID.strip("\n").splitlines())
    return [
        (State[state], Event[event.upper()], entry)
        for event, *entries in lines
        for state, entry in zip(head, entries, strict=True)
    ]


CELLS = _grid()
HANDLED = [cell for cell in CELLS if cell[2][0].isupper()]


def _hops() -> dict[tuple[str, str], set[str]]:
    columns = TABLE.columns
    return {
        (columns.states[a], columns.states[b]): {columns.events[event] for event in by} for a, b, by in columns.edges
    }


def _names(steps: tuple[object, ...]) -> str:
    return " ".join(step.name for step in steps if isinstance(step, (State, Effect)))


def _cited(state: State, event: Event) -> str:
    """What a cell of the grid says of a pair, by the table."""
    try:
        source = TABLE.compiled[state, event].source
    except IllegalTransition:
        return "n"
    assert isinstance(source, Ignore) is (source.clause in {"i1", "i2", "i3"})
    return "ILL" if source.clause == f"ILL/{event.name.lower()}" else source.clause


class TestGrid:
    """Every (state, event) pair is what the reading of the client says."""

    def test_the_grid_is_whole(self) -> None:
        """The transcription names each of the 10 x 48 pairs once."""
        assert len({(state, event) for state, event, _ in CELLS}) == 480

    def test_every_cell(self) -> None:
        """A handled pair cites its row and an ignored one its reason; any other pair raises."""
        found = {(state, event): _cited(state, event) for state, event, _ in CELLS}
        assert found == {(state, event): entry for state, event, entry in CELLS}

    def test_every_path(self) -> None:
        """A row goes through the states its lifecycle line names, and a refused transition through none."""
        found = {(state, event): _names(TABLE.compiled[state, event].path) for state, event, _ in HANDLED}
        assert found == {(state, event): PATHS.get(entry, "") for state, event, entry in HANDLED}

    def test_counts(self) -> None:
        """The table has 80 rows and 8 ignores, which handle 193 pairs, ignore 39 and leave 248 illegal."""
        assert TABLE.counts() == {
            "states": 10,
            "events": 48,
            "effects": 52,
            "rows": 80,
            "ignores": 8,
            "row_cells": 193,
            "ignored_cells": 39,
            "illegal_cells": 248,
        }

    def test_ignores_differ_in_their_reasons(self) -> None:
        """Each of the eight ignores says something of its own."""
        assert len({line.why for line in TABLE.rows if isinstance(line, Ignore)}) == 8

    def test_every_member_has_a_meaning_of_its_own(self) -> None:
        """No state, event or effect shares its meaning with another."""
        meanings = [member.meaning for enum in (State, Event, Effect) for member in enum]
        assert len(set(meanings)) == len(meanings) == 110


class TestRelation:
    """The table's single hops against the relation that `MemberState` allows."""

    def test_the_relation_has_34_pairs(self) -> None:
        """One of the 34 allowed pairs is a self change; five are never taken; 28 remain."""
        assert len(LEGAL) == 34
        assert NEVER_TAKEN < LEGAL
        assert len({(a, b) for a, b in LEGAL - NEVER_TAKEN if a != b}) == 28

    def test_exactly_the_reachable_changes_are_made(self) -> None:
        """The hops between different states are the 28 that the client can make, no more and no fewer."""
        hops = {(a, b) for a, b in _hops() if a != b}
        assert hops == {(a, b) for a, b in LEGAL - NEVER_TAKEN if a != b}

    def test_self_transitions(self) -> None:
        """A state is entered from itself in five places, each by one event."""
        assert {pair: by for pair, by in _hops().items() if pair[0] == pair[1]} == SELF_HOPS

    def test_fatal_is_final(self) -> None:
        """FATAL is the terminal state: whatever is handled there ends there."""
        assert TABLE.terminal == (State.FATAL,)
        assert {cell.target for (state, _), cell in TABLE.compiled.items() if state is State.FATAL} == {State.FATAL}


ERRORS = (Event.ERR_FENCE, Event.ERR_FATAL, Event.ERR_FATAL_LATE, Event.ERR_RETRY, Event.ERR_TOPIC_AUTH)


class TestOrder:
    """Rules for the order of effects that hold in every row."""

    @pytest.mark.parametrize(
        ("state", "event", "entry"),
        [cell for cell in HANDLED if cell[1] in ERRORS],
        ids=lambda value: getattr(value, "name", value),
    )
    def test_failed_heartbeats(self, state: State, event: Event, entry: str) -> None:
        """A failed heartbeat begins with the request's failure and ends with the hook, unless an exception cut it."""
        effects = TABLE.compiled[state, event].effects
        assert effects[:2] == (Effect.WIPE_SENT, Effect.FAIL_REQUEST)
        assert (effects[-1] is Effect.RUN_FAILURE_HOOK) == (entry != "ILL")

    @pytest.mark.parametrize(
        ("state", "before", "after"),
        [
            (State.JOINING, "MARK_REJOINED RESET_EPOCH", "DROP_TARGET"),
            (State.LEAVING, "SET_LEAVE_EPOCH DROP_CURRENT", ""),
            (State.STALE, "SEND_LEAVE_HEARTBEAT_UNWATCHED", "RELEASE_LOST_STALE"),
            (State.FENCED, "WIPE_SENT FAIL_REQUEST", "RESET_EPOCH RELEASE_LOST_FENCE"),
            (State.FATAL, "ENQUEUE_ERROR", "NOTIFY_NO_EPOCH"),
        ],
        ids=lambda value: getattr(value, "name", None),
    )
    def test_what_surrounds_an_entry(self, state: State, before: str, after: str) -> None:
        """Wherever the state is entered, the same effects come right before and right after."""
        entries = [_names(cell.steps).split() for cell in TABLE.compiled.values() if state in cell.path]
        assert entries
        for steps in entries:
            at = steps.index(state.name)
            assert steps[:at][at - len(before.split()) :] == before.split()
            assert steps[at + 1 :][: len(after.split())] == after.split()

    def test_close_stores_its_operation_first(self) -> None:
        """In every state the membership operation is stored before anything else that close() asks for."""
        closing = [cell.steps[0] for (_, event), cell in TABLE.compiled.items() if event is Event.CLOSE_LEAVE]
        assert closing == [Effect.STORE_OPERATION] * 10


def _story(text: str) -> list[tuple[str, str, str]]:
    """(event, steps, state afterwards) for each line `EVENT: steps > STATE`."""
    lines = []
    for line in text.strip().splitlines():
        event, rest = line.strip().split(":")
        steps, state = rest.split(">")
        lines.append((event, steps.strip(), state.strip()))
    return lines


def _play(start: State, events: list[str]) -> list[tuple[str, str, str]]:
    state: Symbol = start
    steps = []
    for name in events:
        cell = TABLE.compiled[state, Event[name]]
        state = cell.target
        steps.append((name, _names(cell.steps), state.name))
    return steps


STORIES = {
    "join, reconcile with a revocation, acknowledge, leave": (
        State.UNSUBSCRIBED,
        """
        SUBSCRIBE: STORE_SUBSCRIPTION FLAG_SUBSCRIPTION > UNSUBSCRIBED
        POLL_JOIN: MARK_REJOINED RESET_EPOCH JOINING DROP_TARGET > JOINING
        HB_SENT: SEND_FULL_HEARTBEAT > JOINING
        RESP_NEW: ADOPT_EPOCH BUMP_TARGET RECONCILING > RECONCILING
        REC_START: OPEN_RUN MARK_REVOKED COMMIT_CONSUMED > RECONCILING
        COMMIT_DONE_ASSIGN: MARK_REVOKED ENQUEUE_ASSIGNED PRUNE_NAMES > RECONCILING
        APPLY_ASSIGNMENT: SET_OWNED MARK_ADDED NOTIFY_ASSIGNMENT > RECONCILING
        ASSIGNED_OK: ADOPT_CURRENT RESET_AUTO_COMMIT ACKNOWLEDGING END_RUN ENABLE_ASSIGNED > ACKNOWLEDGING
        ACK_SENT: SEND_ACK_HEARTBEAT STABLE > STABLE
        RESP_SAME: ADOPT_EPOCH > STABLE
        HB_IDLE: > STABLE
        HB_SENT: SEND_DELTA_HEARTBEAT > STABLE
        RESP_NEW: ADOPT_EPOCH BUMP_TARGET RECONCILING > RECONCILING
        REC_DEFERRED: > RECONCILING
        REC_START: OPEN_RUN MARK_REVOKED COMMIT_CONSUMED > RECONCILING
        REC_BUSY: > RECONCILING
        COMMIT_DONE_REVOKE: MARK_REVOKED ENQUEUE_REVOKED > RECONCILING
        REVOKED_OK: ENQUEUE_ASSIGNED PRUNE_NAMES > RECONCILING
        APPLY_ASSIGNMENT: SET_OWNED MARK_ADDED NOTIFY_ASSIGNMENT > RECONCILING
        ASSIGNED_OK: ADOPT_CURRENT RESET_AUTO_COMMIT ACKNOWLEDGING END_RUN ENABLE_ASSIGNED > ACKNOWLEDGING
        ACK_SENT: SEND_ACK_HEARTBEAT STABLE > STABLE
        RESP_EPOCH: ADOPT_EPOCH > STABLE
        UNSUBSCRIBE_CB: PREPARE_LEAVING CREATE_LEAVE MARK_OWNED ENQUEUE_REMOVED_LEAVE > PREPARE_LEAVING
        LEAVE_CB_DONE: UNSUBSCRIBE_ALL CLEAR_ASSIGNMENT SET_LEAVE_EPOCH DROP_CURRENT LEAVING > LEAVING
        LEAVE_SENT: SEND_LEAVE_HEARTBEAT UNSUBSCRIBED > UNSUBSCRIBED
        RESP_LEAVE_DONE: COMPLETE_LEAVE > UNSUBSCRIBED
        """,
    ),
    "a target that moves while the member acknowledges": (
        State.RECONCILING,
        """
        RESP_NEW: ADOPT_EPOCH BUMP_TARGET RECONCILING > RECONCILING
        ASSIGNED_OK: ADOPT_CURRENT RESET_AUTO_COMMIT ACKNOWLEDGING END_RUN ENABLE_ASSIGNED > ACKNOWLEDGING
        ACK_SENT_TARGET_MOVED: SEND_ACK_HEARTBEAT RECONCILING > RECONCILING
        REC_PARTIAL_ACK: ADOPT_CURRENT ACKNOWLEDGING > ACKNOWLEDGING
        ACK_SENT: SEND_ACK_HEARTBEAT STABLE > STABLE
        """,
    ),
    "fenced while a run is open, and back": (
        State.RECONCILING,
        """
        ERR_FENCE: WIPE_SENT FAIL_REQUEST FENCED RESET_EPOCH RELEASE_LOST_FENCE RESET_REQUEST RUN_FAILURE_HOOK > FENCED
        TICK_SKIP: > FENCED
        RUN_STEP_STALE: END_RUN > FENCED
        LOST_DONE_FENCE: CLEAR_ASSIGNMENT MARK_REJOINED RESET_EPOCH JOINING DROP_TARGET > JOINING
        """,
    ),
    "too late for poll, and back when the callback is done": (
        State.STABLE,
        """
        POLL_EXPIRED: NOTE_POLL_EXPIRED PREPARE_LEAVING SET_LEAVE_EPOCH DROP_CURRENT LEAVING \
SEND_LEAVE_HEARTBEAT_UNWATCHED STALE RELEASE_LOST_STALE RESET_REQUEST WIPE_SENT > STALE
        RESP_NEGATIVE: > STALE
        POLL_LATE_PENDING: REGISTER_REJOIN > STALE
        LOST_DONE_STALE_REJOIN: CLEAR_ASSIGNMENT COMPLETE_STALE_RELEASE MARK_REJOINED RESET_EPOCH JOINING \
DROP_TARGET > JOINING
        """,
    ),
    "too late for poll, and back after the callback": (
        State.JOINING,
        """
        POLL_EXPIRED: NOTE_POLL_EXPIRED PREPARE_LEAVING SET_LEAVE_EPOCH DROP_CURRENT LEAVING \
SEND_LEAVE_HEARTBEAT_UNWATCHED STALE RELEASE_LOST_STALE RESET_REQUEST WIPE_SENT > STALE
        LOST_DONE_STALE: CLEAR_ASSIGNMENT COMPLETE_STALE_RELEASE > STALE
        POLL_LATE_RELEASED: MARK_REJOINED RESET_EPOCH JOINING DROP_TARGET > JOINING
        """,
    ),
    "an error that ends the membership": (
        State.STABLE,
        """
        ERR_FATAL: WIPE_SENT FAIL_REQUEST ENQUEUE_ERROR FATAL NOTIFY_NO_EPOCH RELEASE_LOST_FATAL \
RUN_FAILURE_HOOK > FATAL
        LOST_DONE_FATAL: CLEAR_ASSIGNMENT > FATAL
        CLOSE_LEAVE: STORE_OPERATION UNSUBSCRIBE_ALL NOTIFY_EMPTY_ASSIGNMENT COMPLETE_CALL > FATAL
        """,
    ),
    "closed with the coordinator unknown": (
        State.STABLE,
        """
        CLOSE_LEAVE: STORE_OPERATION PREPARE_LEAVING CREATE_LEAVE UNSUBSCRIBE_ALL CLEAR_ASSIGNMENT SET_LEAVE_EPOCH \
DROP_CURRENT LEAVING > LEAVING
        LEAVE_SKIPPED: UNSUBSCRIBED COMPLETE_LEAVE > UNSUBSCRIBED
        """,
    ),
    "fenced while the revoked callback runs; its end wipes the next subscription (H2)": (
        State.PREPARE_LEAVING,
        """
        ERR_FENCE: WIPE_SENT FAIL_REQUEST SET_LEAVE_EPOCH DROP_CURRENT LEAVING UNSUBSCRIBED COMPLETE_LEAVE \
RESET_REQUEST RUN_FAILURE_HOOK > UNSUBSCRIBED
        SUBSCRIBE: STORE_SUBSCRIPTION FLAG_SUBSCRIPTION > UNSUBSCRIBED
        POLL_JOIN: MARK_REJOINED RESET_EPOCH JOINING DROP_TARGET > JOINING
        LEAVE_CB_DONE: UNSUBSCRIBE_ALL CLEAR_ASSIGNMENT SET_LEAVE_EPOCH DROP_CURRENT > JOINING
        """,
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str) -> None:
    """The story's events take the member through these states, with these effects in this order."""
    start, text = STORIES[name]
    steps = _story(text)
    assert _play(start, [event for event, _, _ in steps]) == steps


# The lines that no story passes: state, event, steps.
OTHER_LINES = """
UNSUBSCRIBED UNSUBSCRIBE: UNSUBSCRIBE_ALL NOTIFY_EMPTY_ASSIGNMENT COMPLETE_CALL
UNSUBSCRIBED CLOSE_LEAVE: STORE_OPERATION UNSUBSCRIBE_ALL NOTIFY_EMPTY_ASSIGNMENT COMPLETE_CALL
RECONCILING RESP_SAME: ADOPT_EPOCH BUMP_TARGET STABLE
UNSUBSCRIBED ERR_FENCE: WIPE_SENT FAIL_REQUEST RESET_REQUEST RUN_FAILURE_HOOK
UNSUBSCRIBED ERR_RETRY: WIPE_SENT FAIL_REQUEST FORGET_COORDINATOR RUN_FAILURE_HOOK
UNSUBSCRIBED ERR_TOPIC_AUTH: WIPE_SENT FAIL_REQUEST ENQUEUE_ERROR RUN_FAILURE_HOOK
UNSUBSCRIBED ERR_FATAL: WIPE_SENT FAIL_REQUEST ENQUEUE_ERROR FATAL NOTIFY_NO_EPOCH COMPLETE_LEAVE RUN_FAILURE_HOOK
UNSUBSCRIBED ERR_FATAL_LATE: WIPE_SENT FAIL_REQUEST ENQUEUE_ERROR FATAL NOTIFY_NO_EPOCH RELEASE_LOST_FATAL \
RUN_FAILURE_HOOK
UNSUBSCRIBED LEAVE_CB_DONE: UNSUBSCRIBE_ALL CLEAR_ASSIGNMENT
RECONCILING RUN_FAILED: END_RUN
ACKNOWLEDGING RESP_NEW: ADOPT_EPOCH BUMP_TARGET RECONCILING
STABLE ERR_RETRY: WIPE_SENT FAIL_REQUEST FORGET_COORDINATOR RUN_FAILURE_HOOK
STABLE ERR_TOPIC_AUTH: WIPE_SENT FAIL_REQUEST ENQUEUE_ERROR RUN_FAILURE_HOOK
STABLE UNSUBSCRIBE_NOCB: PREPARE_LEAVING CREATE_LEAVE MARK_OWNED UNSUBSCRIBE_ALL CLEAR_ASSIGNMENT SET_LEAVE_EPOCH \
DROP_CURRENT LEAVING
STABLE RESP_NEGATIVE: COMPLETE_LEAVE
FENCED UNSUBSCRIBE: CLEAR_ASSIGNMENT UNSUBSCRIBED UNSUBSCRIBE_ALL NOTIFY_EMPTY_ASSIGNMENT COMPLETE_CALL
FENCED CLOSE_LEAVE: STORE_OPERATION CLEAR_ASSIGNMENT UNSUBSCRIBED UNSUBSCRIBE_ALL NOTIFY_EMPTY_ASSIGNMENT COMPLETE_CALL
FENCED ERR_FENCE: WIPE_SENT FAIL_REQUEST FENCED RESET_EPOCH RELEASE_LOST_FENCE RESET_REQUEST RUN_FAILURE_HOOK
FENCED ERR_FATAL: WIPE_SENT FAIL_REQUEST ENQUEUE_ERROR
PREPARE_LEAVING ERR_FATAL: WIPE_SENT FAIL_REQUEST ENQUEUE_ERROR FATAL NOTIFY_NO_EPOCH COMPLETE_LEAVE RUN_FAILURE_HOOK
PREPARE_LEAVING HB_SENT: SEND_DELTA_HEARTBEAT
PREPARE_LEAVING UNSUBSCRIBE: AWAIT_LEAVE
PREPARE_LEAVING CLOSE_LEAVE: STORE_OPERATION AWAIT_LEAVE
PREPARE_LEAVING RESP_NEW: ADOPT_EPOCH
PREPARE_LEAVING RESP_NEGATIVE: COMPLETE_LEAVE
PREPARE_LEAVING CLOSE_FLUSH_LEAVE: SEND_HEARTBEAT_UNWATCHED
PREPARE_LEAVING POLL_EXPIRED: NOTE_POLL_EXPIRED PREPARE_LEAVING SET_LEAVE_EPOCH DROP_CURRENT LEAVING \
SEND_LEAVE_HEARTBEAT_UNWATCHED STALE RELEASE_LOST_STALE RESET_REQUEST WIPE_SENT
LEAVING ERR_FENCE: WIPE_SENT FAIL_REQUEST UNSUBSCRIBED COMPLETE_LEAVE RESET_REQUEST RUN_FAILURE_HOOK
LEAVING ERR_FATAL: WIPE_SENT FAIL_REQUEST ENQUEUE_ERROR FATAL NOTIFY_NO_EPOCH COMPLETE_LEAVE RUN_FAILURE_HOOK
LEAVING CLOSE_FLUSH_LEAVE: SEND_LEAVE_HEARTBEAT_UNWATCHED UNSUBSCRIBED
LEAVING LEAVE_CB_DONE: UNSUBSCRIBE_ALL CLEAR_ASSIGNMENT SET_LEAVE_EPOCH DROP_CURRENT LEAVING
LEAVING POLL_EXPIRED: NOTE_POLL_EXPIRED
FATAL UNSUBSCRIBE: UNSUBSCRIBE_ALL NOTIFY_EMPTY_ASSIGNMENT COMPLETE_CALL
FATAL ERR_FATAL: WIPE_SENT FAIL_REQUEST ENQUEUE_ERROR FATAL NOTIFY_NO_EPOCH RELEASE_LOST_FATAL RUN_FAILURE_HOOK
FATAL LEAVE_CB_DONE: UNSUBSCRIBE_ALL CLEAR_ASSIGNMENT
FATAL ERR_FENCE: WIPE_SENT FAIL_REQUEST
STALE UNSUBSCRIBE: UNSUBSCRIBE_ALL NOTIFY_EMPTY_ASSIGNMENT COMPLETE_CALL
STALE CLOSE_LEAVE: STORE_OPERATION UNSUBSCRIBE_ALL NOTIFY_EMPTY_ASSIGNMENT COMPLETE_CALL
LEAVING POLL_FLAG_LOST:
FENCED POLL_LATE:
UNSUBSCRIBED APPLY_REJECTED: REJECT_ASSIGNMENT
STALE RUN_FAILED: END_RUN
JOINING LOST_DONE_FENCE: CLEAR_ASSIGNMENT
"""
OTHERS = [tuple(line.split(":")) for line in OTHER_LINES.strip().splitlines()]


@pytest.mark.parametrize(("pair", "steps"), OTHERS, ids=[pair for pair, _ in OTHERS])
def test_steps(pair: str, steps: str) -> None:
    """The line does these steps in this order; where a transition is refused, only those before it."""
    state, event = pair.split()
    assert _names(TABLE.compiled[State[state], Event[event]].steps) == steps.strip()


def test_every_row_is_walked() -> None:
    """Between them the stories and the other lines pass every row of the table."""
    walked = {id(TABLE.compiled[State[s], Event[e]].source) for s, e in (pair.split() for pair, _ in OTHERS)}
    for start, text in STORIES.values():
        state: Symbol = start
        for event, _, after in _story(text):
            walked.add(id(TABLE.compiled[state, Event[event]].source))
            state = State[after]
    assert [line.clause for line in TABLE.rows if isinstance(line, Row) and id(line) not in walked] == []


def test_every_hazard_named_in_a_note_is_one_that_4_4_has() -> None:
    """H1, H3, H8, H9, H11 and H19 are closed in 4.4; no row claims them."""
    text = " ".join(line.note for line in TABLE.rows if isinstance(line, Row))
    assert not [h for h in ("H1", "H3", "H8", "H9", "H11", "H19") if f"({h})" in text]
    assert [h for h in ("H2", "H2b", "H4", "H5", "H6", "H7", "H10", "H12", "H13") if f"({h})" not in text] == []
    assert [h for h in ("H14", "H15", "H16", "H17", "H18", "H20") if f"({h})" not in text] == []


@pytest.mark.parametrize("state", State, ids=lambda state: state.name)
def test_no_state_is_deaf(state: State) -> None:
    """Every state handles a new subscription and knows the failure of a heartbeat that was sent earlier."""
    assert TABLE.kind(state, Event.SUBSCRIBE) is Kind.ROW
    assert TABLE.kind(state, Event.ERR_RETRY) is Kind.ROW
