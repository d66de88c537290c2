"""librdkafka's join states: the grid, the changes that recordings show, the lifecycle they stand for."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest
from tables.grid import IGNORED, differing

from fsm.errors import InputError
from fsm.table import Row
from fsm.tables.consumer_member import State as Member
from fsm.tables.rdkafka_join_state import (
    CLASSIC_ONLY,
    LIFECYCLE,
    PRINTED,
    TABLE,
    Condition,
    Effect,
    Event,
    State,
    from_printed,
    lifecycle,
)

S, E, F = State, Event, Effect
DATA = Path(__file__).parents[1] / "data"

# Changes of state, as the log prints them: seen with the consumer protocol, with the classic one, in the source only.
CONSUMER = """
init wait-assign-call
wait-assign-call steady
wait-assign-call wait-unassign-call
wait-unassign-call wait-unassign-to-complete
wait-unassign-call wait-incr-unassign-to-complete
wait-unassign-to-complete init
wait-incr-unassign-to-complete init
wait-incr-unassign-to-complete wait-assign-call
steady init
steady wait-assign-call
steady wait-unassign-call
"""
CLASSIC = """
init wait-join
init wait-metadata
wait-join init
wait-join wait-metadata
wait-join wait-sync
wait-join wait-unassign-call
wait-metadata init
wait-metadata wait-sync
wait-metadata wait-unassign-call
wait-sync init
wait-sync wait-assign-call
wait-sync wait-unassign-call
wait-assign-call steady
wait-unassign-call wait-unassign-to-complete
wait-unassign-call wait-incr-unassign-to-complete
wait-unassign-to-complete init
wait-incr-unassign-to-complete init
wait-incr-unassign-to-complete wait-assign-call
wait-incr-unassign-to-complete steady
steady init
steady wait-metadata
steady wait-unassign-call
"""
READ = """
init wait-unassign-call
wait-assign-call init
wait-unassign-call init
wait-unassign-call steady
wait-incr-unassign-to-complete wait-unassign-call
"""


def changes(text: str) -> set[tuple[State, State]]:
    """The pairs of a block above."""
    return {(PRINTED[a], PRINTED[b]) for a, b in (line.split() for line in text.split("\n") if line)}


def legal_changes() -> set[tuple[State, State]]:
    """Changes of state that some row of the table makes on its way."""
    found = set()
    for (state, _), cell in TABLE.compiled.items():
        here = state
        for entered in cell.path:
            found.add((here, entered))
            here = entered
    return {(a, b) for a, b in found if a is not b}


# fmt: off
CELLS: dict[State, dict[Event, tuple[State | Effect, ...] | str]] = {
    S.INIT: {
        E.METADATA_REQUESTED: (S.WAIT_METADATA, F.REQUEST_METADATA),
        E.JOIN_SENT: (S.WAIT_JOIN, F.SEND_JOIN_GROUP),
        E.ASSIGNMENT_TO_ADD: (S.WAIT_ASSIGN_CALL, F.DELEGATE_ASSIGN),
        E.REBALANCING_REVOKE: IGNORED,
        E.REBALANCING_REJOIN: IGNORED,
        E.MEMBERSHIP_LOST_REVOKE: (S.WAIT_UNASSIGN_CALL, F.MARK_LOST, F.DELEGATE_REVOKE),
        E.MEMBERSHIP_LOST_REJOIN: (S.INIT,),
        E.FATAL_ERROR: (F.REPORT_ERROR, F.UNASSIGN_ALL),
        E.METADATA_CHANGED_REVOKE: (S.WAIT_UNASSIGN_CALL, F.MARK_LOST, F.DELEGATE_REVOKE),
        E.METADATA_CHANGED_REJOIN: (S.INIT,),
        E.SUBSCRIPTION_CHANGED_REVOKE: (S.WAIT_UNASSIGN_CALL, F.DELEGATE_REVOKE),
        E.SUBSCRIPTION_CHANGED_REJOIN: (S.INIT,),
        E.UNSUBSCRIBED_REVOKE: (S.WAIT_UNASSIGN_CALL, F.DELEGATE_REVOKE),
        E.UNSUBSCRIBED_REJOIN: (F.LEAVE_IF_FLAGGED, S.INIT),
    },
    S.WAIT_JOIN: {
        E.JOIN_OK_LEADER: (S.WAIT_METADATA, F.REQUEST_METADATA),
        E.JOIN_OK_FOLLOWER: (S.WAIT_SYNC, F.SEND_SYNC_GROUP),
        E.JOIN_FAILED_REJOIN: (S.INIT, F.REPORT_ERROR),
        E.JOIN_FAILED_REVOKE: (S.WAIT_UNASSIGN_CALL, F.REPORT_ERROR, F.MARK_LOST, F.DELEGATE_REVOKE),
        E.REBALANCING_REVOKE: IGNORED,
        E.REBALANCING_REJOIN: IGNORED,
        E.MEMBERSHIP_LOST_REVOKE: (S.WAIT_UNASSIGN_CALL, F.MARK_LOST, F.DELEGATE_REVOKE),
        E.MEMBERSHIP_LOST_REJOIN: (S.INIT,),
        E.FATAL_ERROR: (F.REPORT_ERROR,),
        E.METADATA_CHANGED_REVOKE: (S.WAIT_UNASSIGN_CALL, F.MARK_LOST, F.DELEGATE_REVOKE),
        E.METADATA_CHANGED_REJOIN: (S.INIT,),
        E.SUBSCRIPTION_CHANGED_REVOKE: IGNORED,
        E.SUBSCRIPTION_CHANGED_REJOIN: (S.INIT,),
        E.UNSUBSCRIBED_REVOKE: (S.WAIT_UNASSIGN_CALL, F.DELEGATE_REVOKE),
        E.UNSUBSCRIBED_REJOIN: (F.LEAVE_IF_FLAGGED, S.INIT),
    },
    S.WAIT_METADATA: {
        E.ASSIGNOR_DONE: (S.WAIT_SYNC, F.SEND_SYNC_GROUP),
        E.ASSIGNOR_FAILED: (S.INIT, F.REPORT_ERROR),
        E.REBALANCING_REVOKE: IGNORED,
        E.REBALANCING_REJOIN: IGNORED,
        E.MEMBERSHIP_LOST_REVOKE: (S.WAIT_UNASSIGN_CALL, F.MARK_LOST, F.DELEGATE_REVOKE),
        E.MEMBERSHIP_LOST_REJOIN: (S.INIT,),
        E.FATAL_ERROR: (F.REPORT_ERROR,),
        E.METADATA_CHANGED_REVOKE: (S.WAIT_UNASSIGN_CALL, F.MARK_LOST, F.DELEGATE_REVOKE),
        E.METADATA_CHANGED_REJOIN: (S.INIT,),
        E.SUBSCRIPTION_CHANGED_REVOKE: IGNORED,
        E.SUBSCRIPTION_CHANGED_REJOIN: (S.INIT,),
        E.UNSUBSCRIBED_REVOKE: (S.WAIT_UNASSIGN_CALL, F.DELEGATE_REVOKE),
        E.UNSUBSCRIBED_REJOIN: (F.LEAVE_IF_FLAGGED, S.INIT),
    },
    S.WAIT_SYNC: {
        E.SYNC_FAILED_REJOIN: (S.INIT, F.REPORT_ERROR),
        E.SYNC_FAILED_REVOKE: (S.WAIT_UNASSIGN_CALL, F.REPORT_ERROR, F.MARK_LOST, F.DELEGATE_REVOKE),
        E.ASSIGNMENT_TO_ADD: (S.WAIT_ASSIGN_CALL, F.DELEGATE_ASSIGN),
        E.ASSIGNMENT_TO_REVOKE: (S.WAIT_UNASSIGN_CALL, F.DELEGATE_REVOKE),
        E.REBALANCING_REVOKE: IGNORED,
        E.REBALANCING_REJOIN: IGNORED,
        E.MEMBERSHIP_LOST_REVOKE: IGNORED,
        E.MEMBERSHIP_LOST_REJOIN: IGNORED,
        E.FATAL_ERROR: (F.REPORT_ERROR,),
        E.METADATA_CHANGED_REVOKE: (S.WAIT_UNASSIGN_CALL, F.MARK_LOST, F.DELEGATE_REVOKE),
        E.METADATA_CHANGED_REJOIN: (S.INIT,),
        E.SUBSCRIPTION_CHANGED_REVOKE: IGNORED,
        E.SUBSCRIPTION_CHANGED_REJOIN: IGNORED,
        E.UNSUBSCRIBED_REVOKE: (S.WAIT_UNASSIGN_CALL, F.DELEGATE_REVOKE),
        E.UNSUBSCRIBED_REJOIN: (F.LEAVE_IF_FLAGGED, S.INIT),
    },
    S.WAIT_ASSIGN_CALL: {
        E.ASSIGN_CALLED: (S.STEADY, F.START_POLL_TIMER),
        E.ASSIGN_REFUSED: (S.WAIT_UNASSIGN_CALL, S.WAIT_UNASSIGN_TO_COMPLETE, F.STOP_PARTITIONS),
        E.CALL_FAILED: (S.STEADY, F.REPORT_ERROR, F.UNASSIGN_ALL),
        E.REBALANCING_REVOKE: IGNORED,
        E.REBALANCING_REJOIN: IGNORED,
        E.MEMBERSHIP_LOST_REVOKE: IGNORED,
        E.MEMBERSHIP_LOST_REJOIN: IGNORED,
        E.FATAL_ERROR: (F.REPORT_ERROR,),
        E.METADATA_CHANGED_REVOKE: (S.WAIT_UNASSIGN_CALL, F.MARK_LOST, F.DELEGATE_REVOKE),
        E.METADATA_CHANGED_REJOIN: (S.INIT,),
        E.SUBSCRIPTION_CHANGED_REVOKE: IGNORED,
        E.SUBSCRIPTION_CHANGED_REJOIN: IGNORED,
        E.UNSUBSCRIBED_REVOKE: (S.WAIT_UNASSIGN_CALL, F.DELEGATE_REVOKE),
        E.UNSUBSCRIBED_REJOIN: (F.LEAVE_IF_FLAGGED, S.INIT),
    },
    S.WAIT_UNASSIGN_CALL: {
        E.UNASSIGN_CALLED: (S.WAIT_UNASSIGN_TO_COMPLETE, F.STOP_PARTITIONS),
        E.INCREMENTAL_UNASSIGN_CALLED: (S.WAIT_INCR_UNASSIGN_TO_COMPLETE, F.STOP_PARTITIONS),
        E.CALL_FAILED: (S.STEADY, F.REPORT_ERROR, F.UNASSIGN_ALL),
        E.REBALANCING_REVOKE: IGNORED,
        E.REBALANCING_REJOIN: IGNORED,
        E.MEMBERSHIP_LOST_REVOKE: IGNORED,
        E.MEMBERSHIP_LOST_REJOIN: IGNORED,
        E.FATAL_ERROR: (F.REPORT_ERROR,),
        E.METADATA_CHANGED_REVOKE: (F.MARK_LOST, F.DELEGATE_REVOKE),
        E.METADATA_CHANGED_REJOIN: (S.INIT,),
        E.SUBSCRIPTION_CHANGED_REVOKE: IGNORED,
        E.SUBSCRIPTION_CHANGED_REJOIN: IGNORED,
        E.UNSUBSCRIBED_REVOKE: (F.DELEGATE_REVOKE,),
        E.UNSUBSCRIBED_REJOIN: (F.LEAVE_IF_FLAGGED, S.INIT),
    },
    S.WAIT_UNASSIGN_TO_COMPLETE: {
        E.UNASSIGN_DONE: (F.LEAVE_IF_FLAGGED, S.INIT),
        E.REBALANCING_REVOKE: IGNORED,
        E.REBALANCING_REJOIN: IGNORED,
        E.MEMBERSHIP_LOST_REVOKE: IGNORED,
        E.MEMBERSHIP_LOST_REJOIN: IGNORED,
        E.FATAL_ERROR: (F.REPORT_ERROR,),
        E.METADATA_CHANGED_REJOIN: (S.INIT,),
        E.SUBSCRIPTION_CHANGED_REVOKE: IGNORED,
        E.SUBSCRIPTION_CHANGED_REJOIN: IGNORED,
        E.UNSUBSCRIBED_REJOIN: (F.LEAVE_IF_FLAGGED, S.INIT),
    },
    S.WAIT_INCR_UNASSIGN_TO_COMPLETE: {
        E.INCREMENTAL_UNASSIGN_DONE_ASSIGN: (S.WAIT_ASSIGN_CALL, F.DELEGATE_ASSIGN),
        E.INCREMENTAL_UNASSIGN_DONE_REJOIN: (F.LEAVE_IF_FLAGGED, S.INIT),
        E.INCREMENTAL_UNASSIGN_DONE: (S.STEADY, F.START_POLL_TIMER),
        E.REBALANCING_REVOKE: IGNORED,
        E.REBALANCING_REJOIN: IGNORED,
        E.MEMBERSHIP_LOST_REVOKE: IGNORED,
        E.MEMBERSHIP_LOST_REJOIN: IGNORED,
        E.FATAL_ERROR: (F.REPORT_ERROR,),
        E.METADATA_CHANGED_REVOKE: (S.WAIT_UNASSIGN_CALL, F.MARK_LOST, F.DELEGATE_REVOKE),
        E.METADATA_CHANGED_REJOIN: (S.INIT,),
        E.SUBSCRIPTION_CHANGED_REVOKE: IGNORED,
        E.SUBSCRIPTION_CHANGED_REJOIN: IGNORED,
        E.UNSUBSCRIBED_REVOKE: (S.WAIT_UNASSIGN_CALL, F.DELEGATE_REVOKE),
        E.UNSUBSCRIBED_REJOIN: (F.LEAVE_IF_FLAGGED, S.INIT),
    },
    S.STEADY: {
        E.METADATA_REQUESTED: (S.WAIT_METADATA, F.REQUEST_METADATA),
        E.ASSIGNMENT_TO_ADD: (S.WAIT_ASSIGN_CALL, F.DELEGATE_ASSIGN),
        E.ASSIGNMENT_TO_REVOKE: (S.WAIT_UNASSIGN_CALL, F.DELEGATE_REVOKE),
        E.REJOIN_DUE: (S.INIT,),
        E.REBALANCING_REVOKE: (S.WAIT_UNASSIGN_CALL, F.DELEGATE_REVOKE),
        E.REBALANCING_REJOIN: (S.INIT,),
        E.MEMBERSHIP_LOST_REVOKE: (S.WAIT_UNASSIGN_CALL, F.MARK_LOST, F.DELEGATE_REVOKE),
        E.MEMBERSHIP_LOST_REJOIN: (S.INIT,),
        E.FATAL_ERROR: (F.REPORT_ERROR, F.UNASSIGN_ALL),
        E.METADATA_CHANGED_REVOKE: (S.WAIT_UNASSIGN_CALL, F.MARK_LOST, F.DELEGATE_REVOKE),
        E.METADATA_CHANGED_REJOIN: (S.INIT,),
        E.SUBSCRIPTION_CHANGED_REVOKE: (S.WAIT_UNASSIGN_CALL, F.DELEGATE_REVOKE),
        E.SUBSCRIPTION_CHANGED_REJOIN: (S.INIT,),
        E.UNSUBSCRIBED_REVOKE: (S.WAIT_UNASSIGN_CALL, F.DELEGATE_REVOKE),
        E.UNSUBSCRIBED_REJOIN: (F.LEAVE_IF_FLAGGED, S.INIT),
    },
}
# fmt: on


def test_every_cell_of_the_grid() -> None:
    """Each pair of state and event does exactly what the grid says, is ignored, or is illegal."""
    assert differing(TABLE, Event, CELLS) == []


def test_counts_are_pinned() -> None:
    """9 states by 33 events: 86 rows, 38 ignored, 173 illegal cells."""
    assert TABLE.counts() == {
        "states": 9,
        "events": 33,
        "effects": 11,
        "rows": 39,
        "ignores": 5,
        "row_cells": 86,
        "ignored_cells": 38,
        "illegal_cells": 173,
    }


def test_the_legal_changes_are_those_seen_and_those_read() -> None:
    """30 changes of state: 11 seen with the consumer protocol, 22 with the classic one, 25 together, 5 read only."""
    consumer, classic, read = changes(CONSUMER), changes(CLASSIC), changes(READ)
    assert (len(consumer), len(classic), len(consumer | classic), len(read)) == (11, 22, 25, 5)
    assert not read & (consumer | classic)
    assert legal_changes() == consumer | classic | read


def recorded(archive: str, protocol: str) -> set[tuple[State, State]]:
    """Changes of state in the member logs of a recording whose member speaks that protocol."""
    line = re.compile(rb"changed join state (\S+) -> (\S+) \(state")
    found = set()
    with tarfile.open(DATA / archive) as recording:
        for member in recording:
            content = recording.extractfile(member) if member.name.endswith(".log") else None
            data = content.read() if content else b""
            speaks = "consumer" if b"ConsumerGroupHeartbeat" in data else "classic"
            if speaks == protocol:
                found.update((from_printed(a.decode()), from_printed(b.decode())) for a, b in line.findall(data))
    return found


def test_real_consumer_protocol_logs_show_the_eleven_changes() -> None:
    """Against test brokers and Apache Kafka, members of the consumer protocol show these changes and no others."""
    assert recorded("librdkafka-logs.tar.xz", "consumer") == changes(CONSUMER)


def test_real_classic_logs_show_the_twenty_two_changes() -> None:
    """The same for members of the classic protocol, range and cooperative."""
    assert recorded("librdkafka-logs.tar.xz", "classic") == changes(CLASSIC)


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_members_beside_java_members_show_no_other_change(protocol: str) -> None:
    """In groups that librdkafka shares with Java members, migrated ones too, every change is one of those."""
    seen = recorded("java-logs.tar.xz", protocol)
    assert len(seen) >= 9
    assert seen <= changes(CONSUMER if protocol == "consumer" else CLASSIC)


def test_the_consumer_protocol_never_enters_the_classic_states() -> None:
    """wait-join, wait-metadata and wait-sync stand in no change seen with the consumer protocol."""
    assert CLASSIC_ONLY == (S.WAIT_JOIN, S.WAIT_METADATA, S.WAIT_SYNC)
    assert not {state for pair in changes(CONSUMER) for state in pair} & set(CLASSIC_ONLY)


def test_every_row_says_whether_it_was_seen() -> None:
    """Each clause names a function and says `seen` or `read`."""
    rows = [line for line in TABLE.rows if isinstance(line, Row)]
    assert all(line.clause.startswith("rd_kafka_") for line in rows)
    assert all("; seen: " in line.clause or "; read" in line.clause for line in rows)


def test_every_change_that_was_seen_has_a_row_that_says_so() -> None:
    """A change in a recording is made by at least one row whose clause says `seen`."""
    seen = set()
    for (state, _), cell in TABLE.compiled.items():
        if "seen: " in cell.source.clause and len(cell.path) == 1:
            seen.add((state, cell.target))
    assert changes(CONSUMER) | changes(CLASSIC) <= seen


@pytest.mark.parametrize(
    ("text", "state"),
    [("init", S.INIT), ("wait-incr-unassign-to-complete", S.WAIT_INCR_UNASSIGN_TO_COMPLETE), ("steady", S.STEADY)],
)
def test_a_printed_state_is_read(text: str, state: State) -> None:
    """The spelling of the log gives the state."""
    assert from_printed(text) is state


def test_every_state_has_one_spelling() -> None:
    """The nine spellings, in the order of the states."""
    assert tuple(PRINTED.values()) == tuple(State)
    assert [text.replace("-", "_").upper() for text in PRINTED] == [state.name for state in State]


def test_an_unknown_spelling_is_refused() -> None:
    """A join state of another release raises, and the error lists the known ones."""
    with pytest.raises(
        InputError, match="librdkafka does not print the join state 'wait-assign-rebalance_cb'; known: init, wait-join"
    ):
        from_printed("wait-assign-rebalance_cb")


def walk(state: State, *events: Event) -> list[State]:
    """Every state entered from `state`, those on the way included."""
    entered: list[State] = []
    for event in events:
        cell = TABLE.compiled[state, event]
        entered.extend(cell.path)
        state = cell.target
    return entered


def test_a_consumer_protocol_member_joins_and_revokes() -> None:
    """Join, then an assignment that takes partitions away: the printed sequence of both."""
    assert walk(S.INIT, E.ASSIGNMENT_TO_ADD, E.ASSIGN_CALLED) == [S.WAIT_ASSIGN_CALL, S.STEADY]
    assert walk(
        S.STEADY,
        E.ASSIGNMENT_TO_REVOKE,
        E.INCREMENTAL_UNASSIGN_CALLED,
        E.INCREMENTAL_UNASSIGN_DONE_ASSIGN,
        E.ASSIGN_CALLED,
    ) == [S.WAIT_UNASSIGN_CALL, S.WAIT_INCR_UNASSIGN_TO_COMPLETE, S.WAIT_ASSIGN_CALL, S.STEADY]


def test_a_fenced_member_gives_everything_up_and_joins_again() -> None:
    """Fenced: partitions marked lost, given up, INIT, and the next assignment."""
    assert TABLE.compiled[S.STEADY, E.MEMBERSHIP_LOST_REVOKE].effects == (F.MARK_LOST, F.DELEGATE_REVOKE)
    assert walk(
        S.STEADY,
        E.MEMBERSHIP_LOST_REVOKE,
        E.INCREMENTAL_UNASSIGN_CALLED,
        E.INCREMENTAL_UNASSIGN_DONE_REJOIN,
        E.ASSIGNMENT_TO_ADD,
        E.ASSIGN_CALLED,
    ) == [S.WAIT_UNASSIGN_CALL, S.WAIT_INCR_UNASSIGN_TO_COMPLETE, S.INIT, S.WAIT_ASSIGN_CALL, S.STEADY]


def test_a_classic_leader_and_an_eager_rebalance() -> None:
    """An eager member gives up everything before the join; as the leader it waits for metadata before the sync."""
    assert walk(
        S.STEADY,
        E.REBALANCING_REVOKE,
        E.UNASSIGN_CALLED,
        E.UNASSIGN_DONE,
        E.JOIN_SENT,
        E.JOIN_OK_LEADER,
        E.ASSIGNOR_DONE,
        E.ASSIGNMENT_TO_ADD,
        E.ASSIGN_CALLED,
    ) == [
        S.WAIT_UNASSIGN_CALL,
        S.WAIT_UNASSIGN_TO_COMPLETE,
        S.INIT,
        S.WAIT_JOIN,
        S.WAIT_METADATA,
        S.WAIT_SYNC,
        S.WAIT_ASSIGN_CALL,
        S.STEADY,
    ]


def test_closing_gives_everything_up_before_the_leave_request() -> None:
    """close(): all partitions are given up, then the leave request goes out, then the member is in INIT."""
    assert walk(S.STEADY, E.UNSUBSCRIBED_REVOKE, E.UNASSIGN_CALLED, E.UNASSIGN_DONE) == [
        S.WAIT_UNASSIGN_CALL,
        S.WAIT_UNASSIGN_TO_COMPLETE,
        S.INIT,
    ]
    assert TABLE.compiled[S.WAIT_UNASSIGN_TO_COMPLETE, E.UNASSIGN_DONE].steps == (F.LEAVE_IF_FLAGGED, S.INIT)


def test_an_assign_that_is_refused_prints_two_lines() -> None:
    """A consumer that closes takes assign() for unassign(): both changes happen in one step."""
    assert walk(S.WAIT_ASSIGN_CALL, E.ASSIGN_REFUSED) == [S.WAIT_UNASSIGN_CALL, S.WAIT_UNASSIGN_TO_COMPLETE]


def test_a_fatal_error_takes_the_partitions_without_a_callback() -> None:
    """STEADY stays, nothing is delegated to the application, and the member drops to INIT."""
    assert TABLE.compiled[S.STEADY, E.FATAL_ERROR].steps == (F.REPORT_ERROR, F.UNASSIGN_ALL)
    assert walk(S.STEADY, E.FATAL_ERROR, E.REJOIN_DUE) == [S.INIT]


@pytest.mark.parametrize(
    ("join_state", "condition", "members"),
    [
        (S.INIT, Condition.NOT_SUBSCRIBED, (Member.UNSUBSCRIBED,)),
        (S.INIT, Condition.SUBSCRIBED, (Member.JOINING,)),
        (S.INIT, Condition.JOINED, (Member.JOINING,)),
        (S.INIT, Condition.TARGET_PENDING, (Member.RECONCILING,)),
        (S.STEADY, Condition.TARGET_PENDING, (Member.RECONCILING,)),
        (S.WAIT_UNASSIGN_CALL, Condition.WAIT_ACK, (Member.RECONCILING,)),
        (S.WAIT_INCR_UNASSIGN_TO_COMPLETE, Condition.WAIT_ACK, (Member.RECONCILING,)),
        (S.WAIT_ASSIGN_CALL, Condition.WAIT_ACK, (Member.RECONCILING,)),
        (S.STEADY, Condition.WAIT_ACK, (Member.ACKNOWLEDGING,)),
        (S.STEADY, Condition.ACKED, (Member.STABLE,)),
        (S.WAIT_UNASSIGN_CALL, Condition.WAIT_REJOIN, (Member.FENCED,)),
        (S.WAIT_UNASSIGN_TO_COMPLETE, Condition.LEAVE_ON_UNASSIGN_DONE, (Member.PREPARE_LEAVING,)),
        (S.INIT, Condition.WAIT_LEAVE, (Member.LEAVING,)),
        (S.STEADY, Condition.MAX_POLL_EXCEEDED, (Member.STALE,)),
        (S.INIT, Condition.FATAL_ERROR, (Member.FATAL,)),
        (S.STEADY, Condition.NOT_SUBSCRIBED, ()),
        (S.WAIT_JOIN, Condition.SUBSCRIBED, ()),
    ],
    ids=str,
)
def test_a_join_state_and_a_condition_give_the_lifecycle(
    join_state: State, condition: Condition, members: tuple[Member, ...]
) -> None:
    """A join state and a flag together place a member; a pair that cannot be gives nothing."""
    assert lifecycle(join_state, condition) == members


def test_the_lifecycle_is_covered() -> None:
    """Every lifecycle state and every condition has a line, no pair has two, no classic state has any."""
    assert {member for line in LIFECYCLE for member in line.members} == set(Member)
    assert {line.condition for line in LIFECYCLE} == set(Condition)
    pairs = [(state, line.condition) for line in LIFECYCLE for state in line.join_states]
    assert len(pairs) == len(set(pairs)) == 34
    assert not {state for line in LIFECYCLE for state in line.join_states} & set(CLASSIC_ONLY)
