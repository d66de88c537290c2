"""The classic group on its coordinator: joins are delayed until all are there, syncs until the leader has assigned.

Source: `ClassicGroup`, `ClassicGroupState` and `GroupMetadataManager` of apache/kafka, branch 4.4 at 87943b2ff874; the
order of effects read at 1eb7644. The machine means the same in every release since 3.7.

What a step finds out before it acts is in the event. The endings are those of a rebalance that the step prepares, or
of the join phase it tries to complete:

    (none)         the join phase stays or becomes open, with its timer armed
    `_ALL_JOINED`  every member's join is delayed and no given-out member id is outstanding: the generation begins
    `_NOBODY_LEFT` no member and no given-out id remains: the next generation is empty

After EMPTY the first join phase is an initial rebalance: a join or a leave does not complete it, its timer does; only
the session expiry of a member or of a given-out id may end it early. So in an initial rebalance joins are the plain
events, with MEMBER_JOINED_INITIALLY for those that extend the delay. Where a plain event and an ending differ only by
what the coordinator counted, the function that counts names the event.

Requests that fail a check before the state is looked at, or that EMPTY and DEAD refuse whoever sends them, are the
four `*_REFUSED` events: the error code is data of the answer. In DEAD that code is COORDINATOR_NOT_AVAILABLE (for a
leave on top of the answer, not per member), in EMPTY it is UNKNOWN_MEMBER_ID.

Kafka's relation of legal transitions has eleven hops (any state to DEAD counts as five). This table has those and one
more, EMPTY to STABLE, which is no transition there: a group that is loaded with members, or made by a downgrade, is
built STABLE. Two ends of the object do not set DEAD in Kafka, the upgrade and the deletion: the object just goes.
DEAD stands for that here too; after it Kafka answers as if the group were unknown or of another type. Where the
comment of Kafka's enumeration says that nothing leaves DEAD, its relation allows DEAD to DEAD: unloading twice.

Flags: a join to a consumer group is another table's (F16); an unreadable subscription is refused with
INCONSISTENT_GROUP_PROTOCOL from 4.4 on, before with UNKNOWN_SERVER_ERROR (F17), which is data here as well.

The clauses are explained in `diagrams/clauses.md`.
"""

from __future__ import annotations

from fsm.table import Symbol, Table, ignore, row


class State(Symbol):
    """The state of a classic group, as DescribeGroups prints it (Empty, PreparingRebalance, ...)."""

    EMPTY = "No members; member ids may have been given out."
    PREPARING_REBALANCE = "The join phase: joins are delayed until all members have joined or the time is up."
    COMPLETING_REBALANCE = "The sync phase: the generation has begun, syncs are delayed until the leader's is stored."
    STABLE = "Every member can have its assignment."
    DEAD = "The object is no longer used: unloaded, deleted or converted."


class Event(Symbol):
    """What happened to the group, decisions included."""

    # JoinGroup
    GROUP_CREATED = "A JoinGroup without member id named a group that did not exist."
    MEMBER_ID_GIVEN = "A dynamic member without id, at version 4 or later, is given one and told to join with it."
    MEMBER_JOINED = "A new member's join was accepted."
    MEMBER_JOINED_INITIALLY = "A new member's join was accepted while the initial rebalance waits for more."
    MEMBER_JOINED_ALL_JOINED = "A new member's join was accepted and it was the last that was missing."
    FOLLOWER_REJOINED = "A follower sent JoinGroup with the protocols it had."
    FOLLOWER_REJOINED_ALL_JOINED = "The same, and it was the last that was missing."
    LEADER_REJOINED = "The leader sent JoinGroup with the protocols it had."
    LEADER_REJOINED_ALL_JOINED = "The same, and nobody else is missing."
    MEMBER_CHANGED = "A known member sent JoinGroup with other protocols, or was late for the last round (F44)."
    MEMBER_CHANGED_ALL_JOINED = "The same, and nobody else is missing."
    STATIC_REPLACED = (
        "A new id took over a static member's instance id; its protocols, if looked at, change the choice."
    )
    STATIC_REPLACED_ALL_JOINED = "The same, and nobody else is missing."
    STATIC_REPLACED_SAME_PROTOCOL = "A new id took over a static member and the protocol to be chosen stays the same."
    STORED_ID_REPLACED = "A static member joins under another id than the stored generation has for it."
    STATIC_SWAP_STORED = "The record of that exchange was stored."
    STATIC_SWAP_FAILED = "The record of that exchange could not be stored."
    JOIN_REFUSED = "A JoinGroup failed a check."
    JOIN_REFUSED_FULL = "A JoinGroup came to a group at its maximum size."
    JOIN_REFUSED_FULL_ALL_JOINED = "The same, and all others have joined."
    # SyncGroup
    FOLLOWER_SYNCED = "A follower's SyncGroup passed the checks; others are still missing."
    FOLLOWER_SYNCED_LAST = "The same, and everybody has synced now, or had before."
    LEADER_SYNCED = "The leader's SyncGroup passed the checks; others are still missing."
    LEADER_SYNCED_LAST = "The same, and everybody has synced now, or had before."
    ASSIGNMENT_STORED = "The record with the leader's assignment was stored, in the same generation."
    ASSIGNMENT_STORE_FAILED = "It could not be stored, in the same generation."
    ASSIGNMENT_STORE_LATE = "Its result came when the group had moved on to another state or generation."
    SYNC_REFUSED = "A SyncGroup failed a check."
    # Heartbeat
    HEARTBEAT = "A member's Heartbeat passed the checks."
    HEARTBEAT_REFUSED = "A Heartbeat failed a check."
    # LeaveGroup, one event for the batch
    MEMBERS_LEFT = "Members left, or ids that were only given out; at least one entry was valid."
    MEMBERS_LEFT_ALL_JOINED = "The same, and those who remain have all joined."
    MEMBERS_LEFT_NOBODY_LEFT = "The same, and nobody remains."
    LEAVE_REFUSED = "A LeaveGroup had no valid entry."
    # Timers
    SESSION_EXPIRED = "No sign of a member within its session timeout, or of a new one within five minutes."
    SESSION_EXPIRED_ALL_JOINED = "The same, and those who remain have all joined."
    SESSION_EXPIRED_NOBODY_LEFT = "The same, and nobody remains."
    SESSION_EXCUSED = "The timer of a member ran out whose join or sync is delayed, or who is gone already."
    PENDING_EXPIRED = "An id that was given out was not used within the session timeout."
    PENDING_EXPIRED_ALL_JOINED = "The same, and all members have joined."
    PENDING_EXPIRED_NOBODY_LEFT = "The same, and there are no members."
    INITIAL_DELAY_EXTENDED = "The initial delay ran out, new members came meanwhile and rebalance timeout remains."
    JOIN_PHASE_EXPIRED = "The join phase ran out, or the last initial delay; somebody's join is delayed."
    STATIC_MEMBERS_LATE = "The join phase ran out, and static members have not joined."
    JOIN_PHASE_EXPIRED_NOBODY_JOINED = "The join phase ran out; static members remain and no join is delayed."
    JOIN_PHASE_EXPIRED_NOBODY_LEFT = "The join phase ran out and nobody remains."
    SYNC_PHASE_EXPIRED = "The sync phase ran out, in its generation; some members never synced, others remain."
    SYNC_PHASE_EXPIRED_NOBODY_LEFT = "The same, and no member remains without them."
    SYNC_PHASE_EXPIRED_STALE = "A sync phase ran out that is over: all synced, or an old generation."
    # Birth and end
    LOADED_WITH_MEMBERS = "This coordinator loaded a group with members."
    LOADED_OVER_CAPACITY = "This coordinator loaded a group with more members than it allows."
    DOWNGRADED_BY_REMOVAL = "A consumer group was converted because its last consumer-protocol members left."
    DOWNGRADED_BY_REPLACEMENT = "A consumer group was converted by a static classic member; its target was current."
    DOWNGRADED_BY_REPLACEMENT_STALE = "The same, but its target was behind the group epoch."
    UPGRADED = "A consumer-protocol member joined, and the group becomes a consumer group."
    UPGRADE_REFUSED = "A consumer-protocol member tried to join; policy, type or size forbid the upgrade."
    UPGRADE_REFUSED_LATE = "The same, but embedded data turned out unreadable or carried an assignor's user data."
    CONSUMER_JOIN_TO_EMPTY = "A consumer-protocol member joined a group without members, which it replaces."
    ASSIGNMENTS_OUTDATED = "The broker's topics changed: partitions are assigned to nobody, or are gone."
    DELETED = "DeleteGroups, or the cleanup of a group without offsets."
    UNLOADED = "Another coordinator owns the group's partition now."


class Effect(Symbol):
    """What the coordinator does, in this order."""

    # Members
    ADD_MEMBER = "Add the member as new; the first becomes leader."
    UPDATE_MEMBER = "Take protocols and timeouts from the request."
    REPLACE_MEMBER = "The new id takes over leadership, slot and assignment; delayed answers get FENCED_INSTANCE_ID."
    REVERT_REPLACEMENT = "The old id is the member again; the join is answered with the error of the store."
    REMEMBER_ID = "Keep the id that was given out; its timer is the session timeout."
    REMOVE_ID = "Forget an id: the member of that name, or the id that was given out."
    REMOVE_MEMBERS = "Remove them; a delayed join gets UNKNOWN_MEMBER_ID, a gone leader is replaced by any member."
    REMOVE_UNJOINED_MEMBERS = "Remove the dynamic members whose join is not delayed; static ones stay."
    KEEP_OWNED = "What static members that have not joined were assigned counts as owned by them."
    REMOVE_UNSYNCED_MEMBERS = "Remove the members that have not synced."
    NOTE_NEW_MEMBER = "Set the flag that lets the initial delay be extended."
    CLEAR_NEW_MEMBER_NOTE = "Clear that flag."
    ELECT_LEADER = "If the leader's join is not delayed, any member whose join is becomes leader."
    # Delayed requests and answers
    PARK_JOIN = "The join is answered when the join phase completes."
    PARK_SYNC = "The sync is answered when the assignment is stored, or a rebalance cuts in."
    TAKE_ASSIGNMENT = "Complete the leader's assignment with empty ones for members it left out."
    ANSWER_MEMBER_ID_REQUIRED = "Answer MEMBER_ID_REQUIRED with the id."
    ANSWER_JOIN = "Answer with the present generation; the member list only for the leader."
    ANSWER_JOINS = "Answer every delayed join with the new generation; the member list only for the leader."
    ANSWER_JOINS_REBALANCE = "Answer every delayed join REBALANCE_IN_PROGRESS."
    ANSWER_JOINS_NOT_COORDINATOR = "Answer every delayed join NOT_COORDINATOR."
    ANSWER_SYNC = "Answer with the member's present assignment."
    ANSWER_SYNCS = "Answer every delayed sync with its assignment, and restart the heartbeat timers of those."
    ANSWER_SYNCS_ERROR = "Clear all assignments; answer every delayed sync with the error of the store."
    ANSWER_SYNCS_REBALANCE = "Answer every delayed sync REBALANCE_IN_PROGRESS."
    ANSWER_SYNCS_NOT_COORDINATOR = "Answer every delayed sync NOT_COORDINATOR."
    ANSWER_OK = "Answer without error."
    ANSWER_REBALANCE_IN_PROGRESS = "Answer REBALANCE_IN_PROGRESS."
    ANSWER_ERROR = "Answer with the error code of the failed check."
    CLEAR_ASSIGNMENTS = "All assignments become empty."
    # Generation
    BUMP_GENERATION = "Generation + 1."
    SELECT_PROTOCOL = "Choose the protocol: each member votes for its first one that all support."
    CLEAR_PROTOCOL = "No protocol is chosen."
    AWAIT_SYNCS = "Every member's sync is awaited and no member is new any more."
    FORGET_SYNC = "The member's sync is no longer awaited."
    FORGET_SYNCS = "No sync is awaited any more."
    WRITE_NEW_ID = "Store the last stored generation again, with the joining id in place of the old one."
    WRITE_GROUP = "Store the group with members and assignments (record type 2)."
    REMOVE_GROUP = "Tombstone of the group (record type 2)."
    # Timers
    ARM_NEW_MEMBER_TIMER = "Heartbeat timer of the member := 5 minutes."
    RESET_HEARTBEAT_TIMER = "Heartbeat timer of the member := its session timeout."
    RESET_HEARTBEAT_TIMERS = "Heartbeat timers of all members := their session timeouts."
    CANCEL_HEARTBEAT_TIMERS = "Cancel the heartbeat timers of those removed."
    ARM_INITIAL_DELAY = "Join-phase timer := initial delay d; remaining := max(rebalance timeout - d, 0)."
    EXTEND_INITIAL_DELAY = "Join-phase timer := min(d, remaining); remaining := max(remaining - last delay, 0)."
    ARM_JOIN_TIMER = "Join-phase timer := the group's rebalance timeout."
    CANCEL_JOIN_TIMER = "Cancel the join-phase timer."
    ARM_SYNC_TIMER = "Sync-phase timer := the group's rebalance timeout, with the generation."
    CANCEL_SYNC_TIMER = "Cancel the sync-phase timer."


S, E, F = State, Event, Effect
PREPARING, COMPLETING = S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE
OPEN = (S.EMPTY, PREPARING, COMPLETING, S.STABLE)

# The end of the join phase, with and without members
BEGIN = (
    F.CANCEL_JOIN_TIMER, F.REMOVE_UNJOINED_MEMBERS, F.ELECT_LEADER, F.BUMP_GENERATION, F.SELECT_PROTOCOL, COMPLETING,
    F.ANSWER_JOINS, F.RESET_HEARTBEAT_TIMERS, F.AWAIT_SYNCS, F.ARM_SYNC_TIMER,
)  # fmt: skip
END = (F.CANCEL_JOIN_TIMER, F.REMOVE_UNJOINED_MEMBERS, F.BUMP_GENERATION, F.CLEAR_PROTOCOL, S.EMPTY, F.WRITE_GROUP)

# Preparing a rebalance, by the state it starts in
FROM_STABLE = (F.FORGET_SYNCS, F.CANCEL_SYNC_TIMER, PREPARING)
FROM_COMPLETING = (F.CLEAR_ASSIGNMENTS, F.ANSWER_SYNCS_REBALANCE, *FROM_STABLE)
FROM_EMPTY = (F.FORGET_SYNCS, F.CANCEL_SYNC_TIMER, F.ARM_INITIAL_DELAY, PREPARING)

REBALANCE = (*FROM_STABLE, F.ARM_JOIN_TIMER)
CONVERTED = (F.WRITE_GROUP, F.RESET_HEARTBEAT_TIMERS)

NEW = (F.ADD_MEMBER, F.PARK_JOIN, F.ARM_NEW_MEMBER_TIMER)
KNOWN = (F.UPDATE_MEMBER, F.PARK_JOIN)
SWAPPED = (F.REPLACE_MEMBER, F.RESET_HEARTBEAT_TIMER, F.UPDATE_MEMBER, F.PARK_JOIN)
LEFT = (F.CANCEL_HEARTBEAT_TIMERS, F.REMOVE_MEMBERS)
REJOINED_LAST = (E.FOLLOWER_REJOINED_ALL_JOINED, E.LEADER_REJOINED_ALL_JOINED, E.MEMBER_CHANGED_ALL_JOINED)
STORE = (F.TAKE_ASSIGNMENT, F.WRITE_GROUP)
UNSYNCED = (F.REMOVE_UNSYNCED_MEMBERS, F.CANCEL_HEARTBEAT_TIMERS)

# fmt: off
TABLE = Table(
    name="classic-group",
    title="Classic group on the coordinator",
    source="ClassicGroup and GroupMetadataManager of apache/kafka 4.4 (87943b2ff874), 1eb7644 for the order of effects",
    doc=__doc__,
    initial=S.EMPTY,
    terminal=(S.DEAD,),
    effects=Effect,
    rows=(
        # JoinGroup of a new member
        row(S.EMPTY,    E.GROUP_CREATED,            F.WRITE_GROUP,
            clause="5.2-3, 8.4", note="generation 0, no protocol type; only if the join added nothing else to the log"),
        row(OPEN,       E.MEMBER_ID_GIVEN,          F.REMEMBER_ID, F.RESET_HEARTBEAT_TIMER, F.ANSWER_MEMBER_ID_REQUIRED,
            clause="5.2-7"),
        row(S.EMPTY,    E.MEMBER_JOINED,            *NEW, *FROM_EMPTY,
            clause="5.3 Join new, 5.4"),
        row(PREPARING,  E.MEMBER_JOINED,            *NEW,                                      clause="5.3 Join new"),
        row(PREPARING,  E.MEMBER_JOINED_INITIALLY,  F.NOTE_NEW_MEMBER, *NEW,
            clause="5.3 Join new", note="previous_state is EMPTY"),
        row(PREPARING,  E.MEMBER_JOINED_ALL_JOINED, *NEW, *BEGIN,
            clause="5.3 Join new, try complete"),
        row(COMPLETING, E.MEMBER_JOINED,            *NEW, *FROM_COMPLETING, F.ARM_JOIN_TIMER,
            clause="5.3 Join new", note="the joins of the others are never delayed, so never all joined"),
        row(S.STABLE,   E.MEMBER_JOINED,            *NEW, *FROM_STABLE, F.ARM_JOIN_TIMER,      clause="5.3 Join new"),

        # JoinGroup of a known member
        row(PREPARING,  (E.FOLLOWER_REJOINED, E.LEADER_REJOINED, E.MEMBER_CHANGED), *KNOWN, clause="5.3 Join known"),
        row(PREPARING,  REJOINED_LAST, *KNOWN, *BEGIN,
            clause="5.3 Join known, try complete"),
        row(COMPLETING, (E.FOLLOWER_REJOINED, E.LEADER_REJOINED), F.ANSWER_JOIN,
            clause="5.3 Join known same", note="the answer to its first join may have been lost"),
        row(S.STABLE,   E.FOLLOWER_REJOINED,          F.ANSWER_JOIN,
            clause="5.3 Join known same"),
        row(S.STABLE,   E.LEADER_REJOINED,            *KNOWN, *FROM_STABLE, F.ARM_JOIN_TIMER,
            clause="5.3 Join known same", note="a leader rejoins because what it assigns from has changed"),
        row(S.STABLE,   E.LEADER_REJOINED_ALL_JOINED, *KNOWN, *FROM_STABLE, *BEGIN,
            clause="5.3 Join known same, 5.4", note="the only member"),
        row(COMPLETING, E.MEMBER_CHANGED,             *KNOWN, *FROM_COMPLETING, F.ARM_JOIN_TIMER,
            clause="5.3 Join known changed"),
        row(COMPLETING, E.MEMBER_CHANGED_ALL_JOINED,  *KNOWN, *FROM_COMPLETING, *BEGIN,
            clause="5.3 Join known changed, 5.4", note="the only member"),
        row(S.STABLE,   E.MEMBER_CHANGED,             *KNOWN, *FROM_STABLE, F.ARM_JOIN_TIMER,
            clause="5.3 Join known changed"),
        row(S.STABLE,   E.MEMBER_CHANGED_ALL_JOINED,  *KNOWN, *FROM_STABLE, *BEGIN,
            clause="5.3 Join known changed, 5.4", note="the only member"),

        # JoinGroup of a new id under a known instance id
        row(PREPARING,  E.STATIC_REPLACED,               *SWAPPED,
            clause="5.6 PREPARING"),
        row(PREPARING,  E.STATIC_REPLACED_ALL_JOINED,    *SWAPPED, *BEGIN,
            clause="5.6 PREPARING, try complete"),
        row(COMPLETING, E.STATIC_REPLACED,               *SWAPPED, *FROM_COMPLETING, F.ARM_JOIN_TIMER,
            clause="5.6 COMPLETING", note="the leader may assign to the old id"),
        row(COMPLETING, E.STATIC_REPLACED_ALL_JOINED,    *SWAPPED, *FROM_COMPLETING, *BEGIN,
            clause="5.6 COMPLETING, 5.4", note="the only member"),
        row(S.STABLE,   E.STATIC_REPLACED,               *SWAPPED, *FROM_STABLE, F.ARM_JOIN_TIMER,
            clause="5.6 STABLE"),
        row(S.STABLE,   E.STATIC_REPLACED_ALL_JOINED,    *SWAPPED, *FROM_STABLE, *BEGIN,
            clause="5.6 STABLE, 5.4", note="the only member"),
        row(S.STABLE,   E.STATIC_REPLACED_SAME_PROTOCOL, *SWAPPED, F.WRITE_GROUP,
            clause="5.6 STABLE"),
        row((PREPARING, COMPLETING, S.STABLE), E.STORED_ID_REPLACED, F.WRITE_NEW_ID,
            clause="5.6", note="`fixed` (F43), before the row of the join"),
        row((S.STABLE, PREPARING), E.STATIC_SWAP_STORED, F.ANSWER_JOIN,
            clause="5.6 STABLE",
            note="from version 9 on with the real leader, whom it tells to skip the assignment; older ones hear of "
                 "the old leader id"),
        row((S.STABLE, PREPARING, COMPLETING), E.STATIC_SWAP_FAILED, F.REVERT_REPLACEMENT, F.RESET_HEARTBEAT_TIMER,
            clause="5.6 STABLE", note="by reading: Kafka does not look at the state"),
        ignore(COMPLETING, E.STATIC_SWAP_STORED,
            why="the next generation has answered the join already", clause="5.6 STABLE"),
        ignore((S.EMPTY, S.DEAD), (E.STATIC_SWAP_STORED, E.STATIC_SWAP_FAILED),
            why="the member went before the store came back", clause="5.6 STABLE"),

        # Joins that are refused
        row(tuple(State), E.JOIN_REFUSED,      F.ANSWER_ERROR,              clause="5.2, 5.3 EMPTY and DEAD"),
        row((PREPARING, COMPLETING, S.STABLE), E.JOIN_REFUSED_FULL, F.REMOVE_ID, F.ANSWER_ERROR,
            clause="5.2-4", note="EMPTY and DEAD are never full"),
        row(PREPARING, E.JOIN_REFUSED_FULL_ALL_JOINED, F.REMOVE_ID, *BEGIN, F.ANSWER_ERROR,
            clause="5.2-4", note="`fixed` (F47)"),

        # SyncGroup
        row(PREPARING,  (E.FOLLOWER_SYNCED, E.LEADER_SYNCED), F.ANSWER_REBALANCE_IN_PROGRESS, clause="5.3 Sync"),
        row(COMPLETING, E.FOLLOWER_SYNCED,         F.PARK_SYNC, F.FORGET_SYNC,
            clause="5.3 Sync, 5.5"),
        row(COMPLETING, E.FOLLOWER_SYNCED_LAST,    F.PARK_SYNC, F.FORGET_SYNC, F.CANCEL_SYNC_TIMER,
            clause="5.3 Sync, 5.5"),
        row(COMPLETING, E.LEADER_SYNCED,           F.PARK_SYNC, F.FORGET_SYNC, *STORE,
            clause="5.3 Sync, 5.5"),
        row(COMPLETING, E.LEADER_SYNCED_LAST,      F.PARK_SYNC, F.FORGET_SYNC, F.CANCEL_SYNC_TIMER, *STORE,
            clause="5.3 Sync, 5.5"),
        row(S.STABLE,   (E.FOLLOWER_SYNCED, E.LEADER_SYNCED), F.FORGET_SYNC, F.ANSWER_SYNC, clause="5.3 Sync"),
        row(S.STABLE,   (E.FOLLOWER_SYNCED_LAST, E.LEADER_SYNCED_LAST), F.FORGET_SYNC, F.CANCEL_SYNC_TIMER,
            F.ANSWER_SYNC, clause="5.3 Sync",
            note="the sync phase may still run in STABLE, for members that have not synced"),
        row(COMPLETING, E.ASSIGNMENT_STORED,       F.ANSWER_SYNCS, S.STABLE,
            clause="5.5"),
        row(COMPLETING, E.ASSIGNMENT_STORE_FAILED, F.ANSWER_SYNCS_ERROR, *FROM_COMPLETING, F.ARM_JOIN_TIMER,
            clause="5.5"),
        ignore(tuple(State), E.ASSIGNMENT_STORE_LATE,
            why="the group moved on while the record was being stored", clause="5.5"),
        row(tuple(State), E.SYNC_REFUSED,          F.ANSWER_ERROR, clause="5.5, 5.3 EMPTY and DEAD"),

        # Heartbeat
        row(PREPARING,              E.HEARTBEAT,   F.RESET_HEARTBEAT_TIMER, F.ANSWER_REBALANCE_IN_PROGRESS,
            clause="5.3 Heartbeat"),
        row((COMPLETING, S.STABLE), E.HEARTBEAT,   F.RESET_HEARTBEAT_TIMER, F.ANSWER_OK,
            clause="5.3 Heartbeat"),
        row(tuple(State), E.HEARTBEAT_REFUSED,     F.ANSWER_ERROR, clause="5.5, 5.3 EMPTY and DEAD"),

        # LeaveGroup: one reaction for the batch
        row(S.EMPTY,    E.MEMBERS_LEFT,             *LEFT, F.ANSWER_OK,
            clause="5.5 Leave", note="only ids that were given out"),
        row(PREPARING,  E.MEMBERS_LEFT,             *LEFT, F.ANSWER_OK,
            clause="5.3 Leave"),
        row(PREPARING,  E.MEMBERS_LEFT_ALL_JOINED,  *LEFT, *BEGIN, F.ANSWER_OK,
            clause="5.3 Leave, try complete"),
        row(PREPARING,  E.MEMBERS_LEFT_NOBODY_LEFT, *LEFT, *END, F.ANSWER_OK,
            clause="5.3 Leave, try complete", note="not in an initial rebalance, which waits for its timer"),
        row(COMPLETING, E.MEMBERS_LEFT,             *LEFT, *FROM_COMPLETING, F.ARM_JOIN_TIMER, F.ANSWER_OK,
            clause="5.3 Leave"),
        row(COMPLETING, E.MEMBERS_LEFT_NOBODY_LEFT, *LEFT, *FROM_COMPLETING, *END, F.ANSWER_OK,
            clause="5.3 Leave, 5.4"),
        row(S.STABLE,   E.MEMBERS_LEFT,             *LEFT, *FROM_STABLE, F.ARM_JOIN_TIMER, F.ANSWER_OK,
            clause="5.3 Leave", note="an id that was only given out counts: its leaving rebalances too"),
        row(S.STABLE,   E.MEMBERS_LEFT_NOBODY_LEFT, *LEFT, *FROM_STABLE, *END, F.ANSWER_OK,
            clause="5.3 Leave, 5.4"),
        row(tuple(State), E.LEAVE_REFUSED,          F.ANSWER_ERROR, clause="5.5, 5.3 EMPTY and DEAD"),

        # Member timers
        row(PREPARING,  E.SESSION_EXPIRED,             F.REMOVE_MEMBERS,
            clause="5.3 session"),
        row(PREPARING,  E.SESSION_EXPIRED_ALL_JOINED,  F.REMOVE_MEMBERS, *BEGIN,
            clause="5.3 session", note="also in an initial rebalance"),
        row(PREPARING,  E.SESSION_EXPIRED_NOBODY_LEFT, F.REMOVE_MEMBERS, *END,
            clause="5.3 session", note="also in an initial rebalance"),
        row(COMPLETING, E.SESSION_EXPIRED,             F.REMOVE_MEMBERS, *FROM_COMPLETING, F.ARM_JOIN_TIMER,
            clause="5.3 session"),
        row(COMPLETING, E.SESSION_EXPIRED_NOBODY_LEFT, F.REMOVE_MEMBERS, *FROM_COMPLETING, *END,
            clause="5.3 session, 5.4"),
        row(S.STABLE,   E.SESSION_EXPIRED,             F.REMOVE_MEMBERS, *FROM_STABLE, F.ARM_JOIN_TIMER,
            clause="5.3 session"),
        row(S.STABLE,   E.SESSION_EXPIRED_NOBODY_LEFT, F.REMOVE_MEMBERS, *FROM_STABLE, *END,
            clause="5.3 session, 5.4"),
        ignore(OPEN, E.SESSION_EXCUSED,
            why="a delayed join or sync excuses it unless it is new; or the id is no member any more", clause="5.3"),
        ignore(S.DEAD, (E.SESSION_EXPIRED, E.SESSION_EXCUSED), why="the group is gone", clause="5.3 session"),
        row((S.EMPTY, PREPARING, COMPLETING, S.STABLE), E.PENDING_EXPIRED, F.REMOVE_ID,
            clause="5.3 pending", note="no rebalance, unlike a leave"),
        row(PREPARING,  E.PENDING_EXPIRED_ALL_JOINED,  F.REMOVE_ID, *BEGIN,
            clause="5.3 pending", note="also in an initial rebalance"),
        row(PREPARING,  E.PENDING_EXPIRED_NOBODY_LEFT, F.REMOVE_ID, *END,
            clause="5.3 pending", note="also in an initial rebalance"),
        ignore(S.DEAD, E.PENDING_EXPIRED, why="the group is gone", clause="5.3 pending"),

        # Group timers
        row(PREPARING,  E.INITIAL_DELAY_EXTENDED,           F.CLEAR_NEW_MEMBER_NOTE, F.EXTEND_INITIAL_DELAY,
            clause="5.4"),
        row(PREPARING,  E.JOIN_PHASE_EXPIRED,               *BEGIN,
            clause="5.3 join-phase timer, 5.4"),
        row(PREPARING,  E.STATIC_MEMBERS_LATE,              F.KEEP_OWNED,
            clause="5.4", note="`fixed` (F44), before the row of the expiry"),
        row(PREPARING,  E.JOIN_PHASE_EXPIRED_NOBODY_JOINED, F.CANCEL_JOIN_TIMER, F.REMOVE_UNJOINED_MEMBERS,
            F.ARM_JOIN_TIMER, clause="5.4", note="until their sessions expire"),
        row(PREPARING,  E.JOIN_PHASE_EXPIRED_NOBODY_LEFT,   *END,
            clause="5.3 join-phase timer, 5.4"),
        ignore(S.DEAD, (E.INITIAL_DELAY_EXTENDED, E.JOIN_PHASE_EXPIRED),
            why="the group is gone", clause="5.3 join-phase timer"),
        row(COMPLETING, E.SYNC_PHASE_EXPIRED,               *UNSYNCED, *FROM_COMPLETING, F.ARM_JOIN_TIMER,
            clause="5.3 sync-phase timer"),
        row(COMPLETING, E.SYNC_PHASE_EXPIRED_NOBODY_LEFT,   *UNSYNCED, *FROM_COMPLETING, *END,
            clause="5.3 sync-phase timer, 5.4"),
        row(S.STABLE,   E.SYNC_PHASE_EXPIRED,               *UNSYNCED, *FROM_STABLE, F.ARM_JOIN_TIMER,
            clause="5.3 sync-phase timer"),
        ignore((S.EMPTY, PREPARING, S.DEAD), E.SYNC_PHASE_EXPIRED,
            why="the sync phase it belonged to is over", clause="5.3 sync-phase timer"),
        ignore(tuple(State), E.SYNC_PHASE_EXPIRED_STALE,
            why="everybody synced, or the generation is another", clause="5.3 sync-phase timer"),

        # Birth and end
        row(S.EMPTY, E.LOADED_WITH_MEMBERS,             S.STABLE, F.RESET_HEARTBEAT_TIMERS, clause="5.1"),
        row(S.EMPTY, E.LOADED_OVER_CAPACITY,            S.STABLE, F.RESET_HEARTBEAT_TIMERS, *REBALANCE,
            clause="4, 5.1", note="`fixed` also if assignments are outdated (F42)"),
        row(S.EMPTY, E.DOWNGRADED_BY_REMOVAL,           S.STABLE, *CONVERTED, *REBALANCE,
            clause="6.5 A"),
        row(S.EMPTY, E.DOWNGRADED_BY_REPLACEMENT,       S.STABLE, *CONVERTED,
            clause="6.5 B", note="4.0.0, 4.0.1 and 4.1.0 always (F20)"),
        row(S.EMPTY, E.DOWNGRADED_BY_REPLACEMENT_STALE, S.STABLE, *CONVERTED, *REBALANCE,
            clause="6.5 B", note="4.0.2 and 4.1.1 to 4.2 iff the joiner changed the subscription (F20)"),
        row(PREPARING,  E.UPGRADED,                     F.ANSWER_JOINS_REBALANCE, F.REMOVE_GROUP, S.DEAD,
            clause="6.3 U-1, U-2"),
        row(COMPLETING, E.UPGRADED,                     F.ANSWER_SYNCS_REBALANCE, F.REMOVE_GROUP, S.DEAD,
            clause="6.3 U-1, U-2"),
        row(S.STABLE,   E.UPGRADED,                     F.REMOVE_GROUP, S.DEAD, clause="6.3 U-2"),
        row(PREPARING,  E.UPGRADE_REFUSED_LATE,         F.ANSWER_JOINS_REBALANCE, F.ANSWER_ERROR,
            clause="6.3 U-1", note="delayed joins are answered although the group stays"),
        row(COMPLETING, E.UPGRADE_REFUSED_LATE,         F.ANSWER_SYNCS_REBALANCE, F.ANSWER_ERROR,
            clause="6.3 U-1", note="delayed syncs are answered although the group stays"),
        row(S.STABLE,   E.UPGRADE_REFUSED_LATE,         F.ANSWER_ERROR, clause="6.3"),
        row((PREPARING, COMPLETING, S.STABLE), E.UPGRADE_REFUSED, F.ANSWER_ERROR,
            clause="6.3", note="GROUP_ID_NOT_FOUND for the joiner"),
        row(S.EMPTY, E.CONSUMER_JOIN_TO_EMPTY,          F.REMOVE_GROUP, S.DEAD, clause="6.1"),
        row(S.STABLE, E.ASSIGNMENTS_OUTDATED, *REBALANCE, clause="5.3", note="`fixed` (F45)"),
        row(S.EMPTY, E.DELETED,                         F.REMOVE_GROUP, S.DEAD,
            clause="8.4", note="cleanup spares groups with pending transactional offsets from 4.0.1 on (F26)"),
        row(S.EMPTY,    E.UNLOADED, S.DEAD, clause="5.3 unload"),
        row(PREPARING,  E.UNLOADED, S.DEAD, F.ANSWER_JOINS_NOT_COORDINATOR, clause="5.3 unload"),
        row(COMPLETING, E.UNLOADED, S.DEAD, F.ANSWER_SYNCS_NOT_COORDINATOR, clause="5.3 unload"),
        row(S.STABLE,   E.UNLOADED, S.DEAD, F.ANSWER_SYNCS_NOT_COORDINATOR,
            clause="5.3 unload", note="no sync is delayed in STABLE, so nobody hears of it"),
        row(S.DEAD,     E.UNLOADED, S.DEAD, clause="5.1, 5.3 unload"),
    ),
)
# fmt: on
