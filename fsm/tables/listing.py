"""The shipped tables in order, by name, and the events of their normal course."""

from __future__ import annotations

from fsm.errors import InputError
from fsm.table import Table
from fsm.tables import (
    classic_group,
    classic_member,
    connect_group,
    connect_worker,
    consumer_group,
    consumer_group_member,
    consumer_member,
    consumer_member_draft,
    consumer_member_notes,
    rdkafka_join_state,
    rebalance_notes,
)

# fmt: off
ALL: tuple[Table, ...] = (
    consumer_member.TABLE,
    consumer_member_notes.TABLE,
    consumer_member_draft.TABLE,
    rebalance_notes.TABLE,
    consumer_group.TABLE,
    consumer_group_member.TABLE,
    classic_group.TABLE,
    classic_member.TABLE,
    connect_worker.TABLE,
    connect_group.TABLE,
    rdkafka_join_state.TABLE,
)
"""Every table, in the order of listings and diagrams."""
# fmt: on

HAPPY_PATHS: dict[str, str] = {
    "consumer-member": (
        "SUBSCRIBE POLL_JOIN HB_SENT RESP_NEW REC_START COMMIT_DONE_ASSIGN ASSIGNED_OK ACK_SENT RESP_NEW REC_START "
        "COMMIT_DONE_REVOKE REVOKED_OK ASSIGNED_OK ACK_SENT UNSUBSCRIBE_CB LEAVE_CB_DONE LEAVE_SENT RESP_LEAVE_DONE"
    ),
    "consumer-member-notes": (
        "SUBSCRIBED JOIN_HEARTBEAT_SENT ASSIGNMENT_RECEIVED RECONCILED ACK_SIGNALLED UNSUBSCRIBE_CALLED LEFT"
    ),
    "consumer-member-draft": (
        "SUBSCRIBED JOIN_HEARTBEAT_SENT ASSIGNMENT_RECEIVED CALLBACK_COMPLETED FULL_HEARTBEAT_SENT HEARTBEAT_SENT"
    ),
    "rebalance-notes": (
        "REVOCATION_NEEDED CALLBACK_NEEDED CALLBACK_DONE HEARTBEAT_SENT_ASSIGNMENT_DUE CALLBACK_NEEDED "
        "CALLBACK_DONE HEARTBEAT_SENT CLOSE_CALLED CLOSE_DONE"
    ),
    "consumer-group": (
        "MEMBER_JOINED_ALL_STABLE MEMBER_JOINED_TARGET_STALE HEARTBEAT_RECONCILING HEARTBEAT_ALL_STABLE "
        "MEMBERS_REMOVED HEARTBEAT_ALL_STABLE LAST_MEMBERS_REMOVED"
    ),
    "consumer-group-member": "CREATED ALL_BLOCKED GRANTED_ALL REVOKE_NEEDED NOTHING_TO_GRANT LEFT",
    "classic-group": (
        "MEMBER_JOINED JOIN_PHASE_EXPIRED ASSIGNMENT_STORED MEMBER_JOINED FOLLOWER_REJOINED_ALL_JOINED "
        "ASSIGNMENT_STORED MEMBERS_LEFT_NOBODY_LEFT"
    ),
    "classic-member": (
        "JOIN_SENT JOIN_OK_FOLLOWER SYNC_OK HEARTBEAT_REBALANCE_IN_PROGRESS JOIN_SENT JOIN_OK_LEADER SYNC_OK "
        "LEAVE_CALLED"
    ),
    "connect-worker": (
        "START COORDINATOR_FOUND JOIN_DUE_COOPERATIVE JOINED_FOLLOWER SYNCED_READY STARTED HEARTBEAT_REBALANCE "
        "JOIN_DUE_COOPERATIVE JOINED_FOLLOWER SYNCED_REVOKING REVOKED_READY STARTED_REVOKED_BEFORE "
        "JOIN_DUE_COOPERATIVE JOINED_LEADER ASSIGNOR_DONE SYNCED_READY STARTED STOP"
    ),
    "connect-group": (
        "NEW_MEMBER_JOINED ALL_JOINED LEADER_SYNCED NEW_MEMBER_JOINED ALL_JOINED LEADER_SYNCED MEMBER_LEFT "
        "LAST_MEMBER_LEFT"
    ),
    "rdkafka-join-state": (
        "JOIN_SENT JOIN_OK_LEADER ASSIGNOR_DONE ASSIGNMENT_TO_ADD ASSIGN_CALLED ASSIGNMENT_TO_REVOKE "
        "INCREMENTAL_UNASSIGN_CALLED INCREMENTAL_UNASSIGN_DONE UNSUBSCRIBED_REVOKE UNASSIGN_CALLED UNASSIGN_DONE"
    ),
}
"""Table name -> events of the normal course, from the initial state on."""


def find(name: str) -> Table:
    """The table of that name. Raises `InputError` with similar names if there is none."""
    tables = {table.name: table for table in ALL}
    if name in tables:
        return tables[name]
    import difflib  # noqa: PLC0415  # for errors only

    near = difflib.get_close_matches(name[:60], tables, n=3)
    remedy = f"did you mean {' or '.join(near)}?" if near else "`fsm tables` lists them"
    raise InputError(f"there is no table {name[:60]!r}", remedy=remedy)
