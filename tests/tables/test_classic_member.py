"""The classic member of the Java client: the grid, the changes that real logs show, stories."""

from __future__ import annotations

import re
import tarfile
from collections import Counter
from pathlib import Path

import pytest
from tables.grid import IGNORED, differing

from fsm.tables.classic_member import TABLE, Effect, Event, State

S, E, F = State, Event, Effect
RESET = (F.RESET_GENERATION, F.RESET_MEMBER_ID, F.REQUEST_REJOIN)
DATA = Path(__file__).parents[1] / "data"

# fmt: off
CELLS: dict[State, dict[Event, tuple[State | Effect, ...] | str]] = {
    S.UNJOINED: {
        E.REJOIN_REQUESTED: (F.REQUEST_REJOIN,),
        E.JOIN_PREPARED_LOST: (F.LOSE_ALL_PARTITIONS,),
        E.JOIN_SENT: (S.PREPARING_REBALANCE, F.STOP_HEARTBEATS),
        E.JOIN_OK_LEADER: (F.REQUEST_REJOIN,),
        E.JOIN_OK_FOLLOWER: (F.REQUEST_REJOIN,),
        E.SYNC_OK: (F.REQUEST_REJOIN,),
        E.SYNC_OK_REVOKING: (F.REQUEST_REJOIN,),
        E.ASSIGNMENT_OUTDATED: (S.UNJOINED, *RESET),
        E.JOIN_MEMBER_ID_REQUIRED: (F.ADOPT_MEMBER_ID, F.REQUEST_REJOIN),
        E.JOIN_UNKNOWN_MEMBER_ID: (S.UNJOINED, *RESET),
        E.JOIN_REBALANCE_IN_PROGRESS: (F.REQUEST_REJOIN,),
        E.JOIN_LOAD_IN_PROGRESS: (F.REQUEST_REJOIN,),
        E.JOIN_COORDINATOR_LOST: (F.FORGET_COORDINATOR, F.REQUEST_REJOIN),
        E.JOIN_FENCED_INSTANCE_ID: (F.REQUEST_REJOIN, F.RAISE_ERROR),
        E.JOIN_FATAL: (F.REQUEST_REJOIN, F.RAISE_ERROR),
        E.SYNC_REBALANCE_IN_PROGRESS: (F.REQUEST_REJOIN,),
        E.SYNC_COORDINATOR_LOST: (F.FORGET_COORDINATOR, F.REQUEST_REJOIN),
        E.SYNC_FENCED_INSTANCE_ID: (F.REQUEST_REJOIN, F.RAISE_ERROR),
        E.SYNC_FATAL: (F.REQUEST_REJOIN, F.RAISE_ERROR),
        E.HEARTBEAT_OK: IGNORED,
        E.HEARTBEAT_REBALANCE_IN_PROGRESS: IGNORED,
        E.COMMIT_REBALANCE_IN_PROGRESS: (F.REQUEST_REJOIN, F.RAISE_ERROR),
        E.COMMIT_UNKNOWN_MEMBER_ID: (S.UNJOINED, *RESET, F.RAISE_ERROR),
        E.COMMIT_ILLEGAL_GENERATION: (S.UNJOINED, F.RESET_GENERATION, F.REQUEST_REJOIN, F.RAISE_ERROR),
        E.COMMIT_FENCED_INSTANCE_ID: (F.RAISE_ERROR,),
        E.ANSWER_STALE: IGNORED,
        E.COORDINATOR_LOST: (F.FORGET_COORDINATOR,),
        E.COORDINATOR_FOUND: (F.RESET_SESSION_TIMER,),
        E.POLL_TIMEOUT: (S.UNJOINED, *RESET),
        E.POLL_TIMEOUT_STATIC: (S.UNJOINED, *RESET),
        E.LEAVE_CALLED: (F.LOSE_ALL_PARTITIONS, S.UNJOINED, *RESET),
        E.LEAVE_CALLED_STATIC: (F.LOSE_ALL_PARTITIONS, S.UNJOINED, *RESET),
    },
    S.PREPARING_REBALANCE: {
        E.REJOIN_REQUESTED: (F.REQUEST_REJOIN,),
        E.JOIN_SENT: (S.PREPARING_REBALANCE, F.STOP_HEARTBEATS),
        E.JOIN_OK_LEADER:
            (S.COMPLETING_REBALANCE, F.START_HEARTBEATS, F.ADOPT_GENERATION, F.RUN_ASSIGNOR, F.SEND_SYNC_GROUP),
        E.JOIN_OK_FOLLOWER: (S.COMPLETING_REBALANCE, F.START_HEARTBEATS, F.ADOPT_GENERATION, F.SEND_SYNC_GROUP),
        E.JOIN_MEMBER_ID_REQUIRED: (F.ADOPT_MEMBER_ID, F.REQUEST_REJOIN),
        E.JOIN_UNKNOWN_MEMBER_ID: (S.UNJOINED, *RESET),
        E.JOIN_REBALANCE_IN_PROGRESS: (F.REQUEST_REJOIN,),
        E.JOIN_LOAD_IN_PROGRESS: (F.REQUEST_REJOIN,),
        E.JOIN_COORDINATOR_LOST: (F.FORGET_COORDINATOR, F.REQUEST_REJOIN),
        E.JOIN_FENCED_INSTANCE_ID: (F.REQUEST_REJOIN, F.RAISE_ERROR),
        E.JOIN_FATAL: (F.REQUEST_REJOIN, F.RAISE_ERROR),
        E.HEARTBEAT_OK: IGNORED,
        E.HEARTBEAT_REBALANCE_IN_PROGRESS: IGNORED,
        E.HEARTBEAT_UNKNOWN_MEMBER_ID: (S.UNJOINED, *RESET),
        E.HEARTBEAT_ILLEGAL_GENERATION: (S.UNJOINED, F.RESET_GENERATION, F.REQUEST_REJOIN),
        E.HEARTBEAT_FENCED_INSTANCE_ID: (S.UNJOINED, *RESET, F.RAISE_ERROR),
        E.COMMIT_REBALANCE_IN_PROGRESS: (F.REQUEST_REJOIN, F.RAISE_ERROR),
        E.COMMIT_UNKNOWN_MEMBER_ID: (S.UNJOINED, *RESET, F.RAISE_ERROR),
        E.COMMIT_ILLEGAL_GENERATION: (S.UNJOINED, F.RESET_GENERATION, F.REQUEST_REJOIN, F.RAISE_ERROR),
        E.COMMIT_FENCED_INSTANCE_ID: (F.RAISE_ERROR,),
        E.ANSWER_STALE: IGNORED,
        E.COORDINATOR_LOST: (F.FORGET_COORDINATOR,),
        E.COORDINATOR_FOUND: (F.RESET_SESSION_TIMER,),
        E.LEAVE_CALLED: (F.LOSE_ALL_PARTITIONS, F.SEND_LEAVE_GROUP, S.UNJOINED, *RESET),
        E.LEAVE_CALLED_STATIC: (F.LOSE_ALL_PARTITIONS, S.UNJOINED, *RESET),
    },
    S.COMPLETING_REBALANCE: {
        E.REJOIN_REQUESTED: (F.REQUEST_REJOIN,),
        E.JOIN_SENT: (S.PREPARING_REBALANCE, F.STOP_HEARTBEATS),
        E.SYNC_OK: (S.STABLE, F.ASSIGN_PARTITIONS),
        E.SYNC_OK_REVOKING: (S.STABLE, F.REVOKE_PARTITIONS, F.REQUEST_REJOIN, F.ASSIGN_PARTITIONS),
        E.SYNC_REBALANCE_IN_PROGRESS: (F.REQUEST_REJOIN,),
        E.SYNC_UNKNOWN_MEMBER_ID: (S.UNJOINED, *RESET),
        E.SYNC_ILLEGAL_GENERATION: (S.UNJOINED, F.RESET_GENERATION, F.REQUEST_REJOIN),
        E.SYNC_COORDINATOR_LOST: (F.FORGET_COORDINATOR, F.REQUEST_REJOIN),
        E.SYNC_FENCED_INSTANCE_ID: (F.REQUEST_REJOIN, F.RAISE_ERROR),
        E.SYNC_FATAL: (F.REQUEST_REJOIN, F.RAISE_ERROR),
        E.HEARTBEAT_OK: IGNORED,
        E.HEARTBEAT_REBALANCE_IN_PROGRESS: IGNORED,
        E.HEARTBEAT_UNKNOWN_MEMBER_ID: (S.UNJOINED, *RESET),
        E.HEARTBEAT_ILLEGAL_GENERATION: (S.UNJOINED, F.RESET_GENERATION, F.REQUEST_REJOIN),
        E.HEARTBEAT_FENCED_INSTANCE_ID: (S.UNJOINED, *RESET, F.RAISE_ERROR),
        E.COMMIT_REBALANCE_IN_PROGRESS: (F.REQUEST_REJOIN, F.RAISE_ERROR),
        E.COMMIT_UNKNOWN_MEMBER_ID: (S.UNJOINED, *RESET, F.RAISE_ERROR),
        E.COMMIT_ILLEGAL_GENERATION: (S.UNJOINED, F.RESET_GENERATION, F.REQUEST_REJOIN, F.RAISE_ERROR),
        E.COMMIT_FENCED_INSTANCE_ID: (F.RAISE_ERROR,),
        E.ANSWER_STALE: IGNORED,
        E.COORDINATOR_LOST: (F.FORGET_COORDINATOR,),
        E.COORDINATOR_FOUND: (F.RESET_SESSION_TIMER,),
        E.POLL_TIMEOUT: (F.SEND_LEAVE_GROUP, S.UNJOINED, *RESET),
        E.POLL_TIMEOUT_STATIC: (S.UNJOINED, *RESET),
        E.LEAVE_CALLED: (F.LOSE_ALL_PARTITIONS, F.SEND_LEAVE_GROUP, S.UNJOINED, *RESET),
        E.LEAVE_CALLED_STATIC: (F.LOSE_ALL_PARTITIONS, S.UNJOINED, *RESET),
    },
    S.STABLE: {
        E.REJOIN_REQUESTED: (F.REQUEST_REJOIN,),
        E.JOIN_PREPARED_EAGER: (F.REVOKE_ALL_PARTITIONS,),
        E.JOIN_PREPARED_COOPERATIVE: (F.REVOKE_UNSUBSCRIBED_TOPICS,),
        E.JOIN_SENT: (S.PREPARING_REBALANCE, F.STOP_HEARTBEATS),
        E.HEARTBEAT_OK: IGNORED,
        E.HEARTBEAT_REBALANCE_IN_PROGRESS: (F.REQUEST_REJOIN,),
        E.HEARTBEAT_UNKNOWN_MEMBER_ID: (S.UNJOINED, *RESET),
        E.HEARTBEAT_ILLEGAL_GENERATION: (S.UNJOINED, F.RESET_GENERATION, F.REQUEST_REJOIN),
        E.HEARTBEAT_FENCED_INSTANCE_ID: (S.UNJOINED, *RESET, F.RAISE_ERROR),
        E.COMMIT_REBALANCE_IN_PROGRESS: (F.REQUEST_REJOIN, F.RAISE_ERROR),
        E.COMMIT_UNKNOWN_MEMBER_ID: (S.UNJOINED, *RESET, F.RAISE_ERROR),
        E.COMMIT_ILLEGAL_GENERATION: (S.UNJOINED, F.RESET_GENERATION, F.REQUEST_REJOIN, F.RAISE_ERROR),
        E.COMMIT_FENCED_INSTANCE_ID: (F.RAISE_ERROR,),
        E.ANSWER_STALE: IGNORED,
        E.COORDINATOR_LOST: (F.FORGET_COORDINATOR,),
        E.COORDINATOR_FOUND: (F.RESET_SESSION_TIMER,),
        E.POLL_TIMEOUT: (F.SEND_LEAVE_GROUP, S.UNJOINED, *RESET),
        E.POLL_TIMEOUT_STATIC: (S.UNJOINED, *RESET),
        E.LEAVE_CALLED: (F.REVOKE_ALL_PARTITIONS, F.SEND_LEAVE_GROUP, S.UNJOINED, *RESET),
        E.LEAVE_CALLED_STATIC: (F.REVOKE_ALL_PARTITIONS, S.UNJOINED, *RESET),
    },
}
# fmt: on


def test_every_cell_of_the_grid() -> None:
    """Each pair of state and event does exactly what the grid says, is ignored, or is illegal."""
    assert differing(TABLE, Event, CELLS) == []


def test_counts_are_pinned() -> None:
    """4 states by 39 events: 92 rows, 11 ignored, 53 illegal cells."""
    assert TABLE.counts() == {
        "states": 4,
        "events": 39,
        "effects": 18,
        "rows": 40,
        "ignores": 3,
        "row_cells": 92,
        "ignored_cells": 11,
        "illegal_cells": 53,
    }


# Four lines of the log that tell the state, and how often the recordings show each change of it.
LINES = {
    re.compile(rb"\(Re-\)joining group"): S.PREPARING_REBALANCE,
    re.compile(rb"Successfully joined group with"): S.COMPLETING_REBALANCE,
    re.compile(rb"Successfully synced group"): S.STABLE,
    re.compile(rb"Resetting generation"): S.UNJOINED,
}
CLIENT = re.compile(rb"clientId=([^,\]]+)")
SEEN = {
    (S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE): 926,
    (S.COMPLETING_REBALANCE, S.STABLE): 887,
    (S.STABLE, S.PREPARING_REBALANCE): 625,
    (S.PREPARING_REBALANCE, S.PREPARING_REBALANCE): 315,
    (S.UNJOINED, S.PREPARING_REBALANCE): 270,
    (S.STABLE, S.UNJOINED): 253,
    (S.COMPLETING_REBALANCE, S.PREPARING_REBALANCE): 37,
    (S.PREPARING_REBALANCE, S.UNJOINED): 6,
    (S.UNJOINED, S.UNJOINED): 3,
    (S.COMPLETING_REBALANCE, S.UNJOINED): 2,
}


def changes_of(lines: list[bytes]) -> Counter[tuple[State, State]]:
    """Changes of state in one log; its clients are told apart."""
    found: Counter[tuple[State, State]] = Counter()
    at: dict[bytes, State] = {}
    for line in lines:
        entered = next((state for pattern, state in LINES.items() if pattern.search(line)), None)
        if entered is not None:
            client = CLIENT.search(line)
            key = client.group(1) if client else b""
            found[at.get(key, S.UNJOINED), entered] += 1
            at[key] = entered
    return found


def test_real_logs_show_ten_changes_of_state() -> None:
    """Classic Java members, alone, beside others and during a migration: the changes and how often they come."""
    found: Counter[tuple[State, State]] = Counter()
    with tarfile.open(DATA / "java-logs.tar.xz") as recording:
        for member in recording:
            content = recording.extractfile(member) if member.name.endswith(".log") else None
            if content is not None and not member.name.endswith("broker.log"):
                found += changes_of(content.read().splitlines())
    assert dict(found) == SEEN


def test_the_legal_changes_are_those_seen() -> None:
    """The table makes each of the ten changes of state and no other one."""
    hops = {(state, entered) for (state, _), cell in TABLE.compiled.items() for entered in cell.path}
    assert all(len(cell.path) <= 1 for cell in TABLE.compiled.values())
    assert hops == set(SEEN)


def play(*events: Event) -> tuple[list[State], list[Effect]]:
    """The states after each event, and all effects, from the beginning."""
    state, states, effects = TABLE.compiled.initial, [], []
    for event in events:
        cell = TABLE.compiled[state, event]
        state = cell.target
        states.append(state)
        effects.extend(cell.effects)
    return states, effects


FIRST_JOIN = (
    E.COORDINATOR_FOUND,
    E.JOIN_PREPARED_LOST,
    E.JOIN_SENT,
    E.JOIN_MEMBER_ID_REQUIRED,
    E.JOIN_SENT,
    E.JOIN_OK_LEADER,
    E.SYNC_OK,
)


def test_a_member_joins_with_the_id_it_is_given() -> None:
    """The first join is refused with an id, the second one makes the member the leader, the sync brings partitions."""
    states, effects = play(*FIRST_JOIN)
    assert states[2:] == [S.PREPARING_REBALANCE] * 3 + [S.COMPLETING_REBALANCE, S.STABLE]
    assert effects == [
        F.RESET_SESSION_TIMER,
        F.LOSE_ALL_PARTITIONS,
        F.STOP_HEARTBEATS,
        F.ADOPT_MEMBER_ID,
        F.REQUEST_REJOIN,
        F.STOP_HEARTBEATS,
        F.START_HEARTBEATS,
        F.ADOPT_GENERATION,
        F.RUN_ASSIGNOR,
        F.SEND_SYNC_GROUP,
        F.ASSIGN_PARTITIONS,
    ]


def test_an_eager_member_revokes_before_the_join() -> None:
    """The heartbeat asks for a rejoin; everything is revoked, then the join is sent."""
    _, effects = play(*FIRST_JOIN, E.HEARTBEAT_REBALANCE_IN_PROGRESS, E.JOIN_PREPARED_EAGER, E.JOIN_SENT)
    assert effects[-3:] == [F.REQUEST_REJOIN, F.REVOKE_ALL_PARTITIONS, F.STOP_HEARTBEATS]


def test_a_cooperative_member_revokes_after_the_sync_and_joins_a_second_time() -> None:
    """Nothing is revoked before the join; what the assignment takes away is, and that asks for the second round."""
    round_one = (E.HEARTBEAT_REBALANCE_IN_PROGRESS, E.JOIN_PREPARED_COOPERATIVE, E.JOIN_SENT, E.JOIN_OK_FOLLOWER)
    round_two = (E.JOIN_PREPARED_COOPERATIVE, E.JOIN_SENT, E.JOIN_OK_FOLLOWER, E.SYNC_OK)
    states, effects = play(*FIRST_JOIN, *round_one, E.SYNC_OK_REVOKING, *round_two)
    assert states[-1] is S.STABLE
    assert F.REVOKE_ALL_PARTITIONS not in effects
    second = effects.index(F.REVOKE_PARTITIONS)
    assert effects[second : second + 4] == [
        F.REVOKE_PARTITIONS,
        F.REQUEST_REJOIN,
        F.ASSIGN_PARTITIONS,
        F.REVOKE_UNSUBSCRIBED_TOPICS,
    ]


def test_a_sync_that_meets_the_next_rebalance_keeps_generation_and_id() -> None:
    """REBALANCE_IN_PROGRESS for a sync: no reset, and the next join leaves from COMPLETING_REBALANCE."""
    states, effects = play(E.JOIN_SENT, E.JOIN_OK_FOLLOWER, E.SYNC_REBALANCE_IN_PROGRESS, E.JOIN_SENT)
    assert states[-2:] == [S.COMPLETING_REBALANCE, S.PREPARING_REBALANCE]
    assert F.RESET_GENERATION not in effects


@pytest.mark.parametrize("state", [S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE, S.STABLE])
@pytest.mark.parametrize(
    ("event", "forgets_id"),
    [
        (E.HEARTBEAT_UNKNOWN_MEMBER_ID, True),
        (E.HEARTBEAT_FENCED_INSTANCE_ID, True),
        (E.HEARTBEAT_ILLEGAL_GENERATION, False),
        (E.COMMIT_UNKNOWN_MEMBER_ID, True),
        (E.COMMIT_ILLEGAL_GENERATION, False),
    ],
)
def test_illegal_generation_alone_keeps_the_member_id(state: State, event: Event, forgets_id: bool) -> None:
    """Each of these errors resets the generation; only ILLEGAL_GENERATION leaves the member id."""
    cell = TABLE.compiled[state, event]
    assert cell.target is S.UNJOINED
    assert F.RESET_GENERATION in cell.effects
    assert (F.RESET_MEMBER_ID in cell.effects) is forgets_id


def test_a_member_that_does_not_poll_keeps_its_partitions_until_it_does() -> None:
    """The timeout leaves the group and resets; the partitions are lost only when the next poll prepares the join."""
    _, effects = play(*FIRST_JOIN, E.POLL_TIMEOUT)
    assert effects[-4:] == [F.SEND_LEAVE_GROUP, *RESET]
    _, effects = play(*FIRST_JOIN, E.POLL_TIMEOUT, E.JOIN_PREPARED_LOST, E.JOIN_SENT)
    assert effects[-2:] == [F.LOSE_ALL_PARTITIONS, F.STOP_HEARTBEATS]


@pytest.mark.parametrize("event", [E.POLL_TIMEOUT_STATIC, E.LEAVE_CALLED_STATIC])
def test_a_static_member_never_sends_a_leave_request(event: Event) -> None:
    """A static member resets itself in silence, wherever it stands."""
    cells = [cell for (_, e), cell in TABLE.compiled.items() if e is event]
    assert len(cells) in {3, 4}
    assert all(F.SEND_LEAVE_GROUP not in cell.effects for cell in cells)


@pytest.mark.parametrize(
    ("state", "callback"),
    [
        (S.STABLE, F.REVOKE_ALL_PARTITIONS),
        (S.PREPARING_REBALANCE, F.LOSE_ALL_PARTITIONS),
        (S.COMPLETING_REBALANCE, F.LOSE_ALL_PARTITIONS),
        (S.UNJOINED, F.LOSE_ALL_PARTITIONS),
    ],
)
def test_closing_revokes_only_when_stable(state: State, callback: Effect) -> None:
    """close() during a rebalance calls the lost callback, not the revoked one."""
    assert TABLE.compiled[state, E.LEAVE_CALLED].effects[0] is callback


def test_an_answer_after_a_reset_is_no_join() -> None:
    """A join or sync that succeeds after the member was reset only asks for the next join."""
    for event in (E.JOIN_OK_LEADER, E.JOIN_OK_FOLLOWER, E.SYNC_OK, E.SYNC_OK_REVOKING):
        cell = TABLE.compiled[S.UNJOINED, event]
        assert (cell.target, cell.effects) == (S.UNJOINED, (F.REQUEST_REJOIN,))


@pytest.mark.parametrize("state", list(State))
def test_a_join_may_begin_in_every_state(state: State) -> None:
    """Whatever failed before, the next join is sent from there."""
    assert TABLE.compiled[state, E.JOIN_SENT].target is S.PREPARING_REBALANCE
