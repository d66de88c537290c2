"""A member as the group coordinator sees it: what it was handed, what it must give up, what it still waits for.

Source: KIP-848 and `CurrentAssignmentBuilder`, `ConsumerGroupMember`, `GroupMetadataManager` of apache/kafka, branch
4.4 at 87943b2ff874.

The events of reconciliation are the decisions of one pure function over frozen values: the member, the target and its
epoch, the owned partitions of the request, who holds what, and whether the subscription changed. Its entry row follows
from the state, so entry row and decision together are one cell; the clause names both:

    S1 S1c S2   STABLE: at the target epoch; there with a changed subscription; behind the target epoch
    V1 V2       UNREVOKED: nothing reported; a pending partition still reported (V1c, V2c: subscription changed)
    V3          UNREVOKED: everything pending is reported given up
    L1          UNRELEASED          K1 K2   UNKNOWN: something or nothing reported; an empty owned list
    U0 U1 U2    trim to the subscription: nothing to drop; must be revoked; already given up
    C1          something must be revoked first, and free partitions are withheld until it is
    C2 to C5    at the target epoch: some free and some blocked; all free; all blocked; nothing to add

The other clauses are explained in `diagrams/clauses.md`.

A request is at most three events: what becomes of the member's own record (CREATED, COPIED_*, UPDATED or none), the
decision, and what was accepted (HEARTBEAT_ACCEPTED, CLASSIC_JOIN_STORED). The group's own records (types 16, 3, 7
of other members, 6; table `consumer-group`) are written before the decision's.

Kafka gives a member that is not there no state. ABSENT and REMOVED stand for before and after; an instance of this
table is one member id. A static member that leaves with epoch -2 keeps its state, so it stays where it is here too;
only its epoch tells that it is away, and the epoch check refuses its heartbeats until a new id takes over.
UNKNOWN is only reached by loading a record whose state code this version does not know, or by copying such a member.

A rebalance timer belongs to members that speak the consumer protocol: for a classic member the two orders about it
are void. A record is written only where a field differs: STILL_BLOCKED and the other decisions that change none are
ignored. A record that is written also moves ownership: what is no longer held is free, what is held is registered
at the new member epoch. The rows are those of Kafka 4.4; a note names the flag where an older release differs.
"""

from __future__ import annotations

from fsm.table import Symbol, Table, each, ignore, row


class State(Symbol):
    """The assignment state of a member, as in its current-assignment record (type 8)."""

    ABSENT = "No such member yet. Not a state of Kafka."
    STABLE = "Has all of its target that it may have, at its member epoch."
    UNREVOKED_PARTITIONS = "Must revoke partitions before it can continue; the coordinator waits for its report."
    UNRELEASED_PARTITIONS = "At the target epoch, but other members still hold partitions of its target."
    UNKNOWN = "Loaded with a state code this version does not know; continues once it rejoins with nothing owned."
    REMOVED = "Out of the group, its records deleted. Not a state of Kafka."


class Event(Symbol):
    """What happened to the member; the decisions of reconciliation first."""

    # Decisions of reconciliation
    SAME = "Nothing to do: STABLE at the target epoch, subscription unchanged."
    REVOCATION_NOT_REPORTED = "The request says nothing about owned partitions, so what is pending stays pending."
    REVOCATION_INCOMPLETE = "The request still reports a partition that is to be given up."
    TRIM_NOTHING = "The subscription changed, but everything assigned is still subscribed."
    TRIM_NOTHING_REWRITTEN = "The same for a member that has nothing and subscribes to no topic; its prev epoch moves."
    TRIM_REVOKE_NEEDED = "Assigned partitions are no longer subscribed and must be given up."
    TRIM_RELEASED = "Assigned partitions are no longer subscribed and the request shows them given up already."
    REVOKE_NEEDED = "The target lacks assigned partitions that the member may still use."
    GRANTED_SOME_BLOCKED = "Free partitions of the target are handed out; others are still held by somebody."
    GRANTED_ALL = "All missing partitions of the target are free and handed out."
    ALL_BLOCKED = "All missing partitions of the target are held by somebody."
    STILL_BLOCKED = "The same as before in every field: nothing became free and no epoch moved."
    NOTHING_TO_GRANT = "The member has all of its target."
    UNKNOWN_STATE_FENCED = "A member in UNKNOWN reported partitions, or said nothing: FENCED_MEMBER_EPOCH."
    # Beginnings
    CREATED = "A new id joined: a blank member at epoch 0."
    COPIED_STABLE = "A new id took over a static member that was STABLE: a copy of it at epoch 0."
    COPIED_UNREVOKED = "A new id took over a static member that was UNREVOKED_PARTITIONS."
    COPIED_UNRELEASED = "A new id took over a static member that was UNRELEASED_PARTITIONS."
    COPIED_UNKNOWN = "A new id took over a static member that was UNKNOWN."
    CONVERTED = "The classic group was upgraded; its member continues here at epoch = generation."
    LOADED_STABLE = "This coordinator loaded the member as STABLE."
    LOADED_UNREVOKED = "This coordinator loaded the member as UNREVOKED_PARTITIONS."
    LOADED_UNRELEASED = "This coordinator loaded the member as UNRELEASED_PARTITIONS."
    LOADED_UNKNOWN = "This coordinator loaded the member with a state code it does not know."
    # Requests, beside reconciliation
    UPDATED = "A request changed the member's own record: subscription, rack, timeout, vote, protocol or host."
    HEARTBEAT_ACCEPTED = "A consumer heartbeat other than a leave passed every check."
    HEARTBEAT_REFUSED = "A consumer heartbeat failed a check, such as that of the epoch."
    STATIC_LEFT = "The static member leaves for a while, with epoch -2."
    CLASSIC_JOIN_STORED = "A classic member's JoinGroup was stored and answered."
    CLASSIC_SYNCED = "A classic member's SyncGroup was answered with its assignment."
    CLASSIC_SYNC_REFUSED = "A classic member's SyncGroup found the target ahead: REBALANCE_IN_PROGRESS."
    CLASSIC_HEARTBEAT_OK = "A classic member's Heartbeat found nothing to rejoin for."
    CLASSIC_HEARTBEAT_REJOIN = "A classic member's Heartbeat was told to rejoin: REBALANCE_IN_PROGRESS."
    # Ends
    LEFT = "The member leaves, with epoch -1 or through LeaveGroup."
    SESSION_EXPIRED = "No accepted heartbeat within the session timeout."
    REBALANCE_TIMEOUT_EXPIRED = "It did not give up its partitions in time; its epoch is still that of the timer."
    REBALANCE_TIMEOUT_STALE = "The rebalance timer ran out, but the member's epoch has moved since it was armed."
    JOIN_TIMEOUT_EXPIRED = "A classic member that was told to rejoin did not."
    SYNC_TIMEOUT_EXPIRED = "A classic member that joined did not send SyncGroup."
    REPLACED = "A new id took over this static member's instance id."
    GROUP_DOWNGRADED = "The group becomes a classic group, with or without this member."
    UNLOADED = "Another coordinator owns the group's partition now."


class Effect(Symbol):
    """What the coordinator writes and arms, in this order."""

    WRITE_MEMBER = "Write the member's own record (type 5)."
    WRITE_TARGET_ENTRY = "Write the member's target entry (type 7)."
    WRITE_CURRENT_ASSIGNMENT = "Write epoch, prev epoch, state, assigned and pending (type 8); ownership follows."
    CLEAR_PENDING = "Nothing is pending any more and assignment epochs are 0; assigned stays registered, at epoch -2."
    REMOVE_CURRENT_ASSIGNMENT = "Tombstone of the current assignment (type 8); all the member held is free."
    REMOVE_TARGET_ENTRY = "Tombstone of the target entry (type 7)."
    REMOVE_MEMBER = "Tombstone of the member's own record (type 5)."
    ARM_SESSION_TIMER = "(Re)arm the session timer with the session timeout of the group or of the classic member."
    ARM_REBALANCE_TIMER = "(Re)arm the rebalance timer with the member's rebalance timeout and its present epoch."
    CANCEL_REBALANCE_TIMER = "Cancel the rebalance timer if it runs."
    ARM_JOIN_TIMER = "Arm the join timer with the member's rebalance timeout, unless it runs."
    CANCEL_JOIN_TIMER = "Cancel the join timer if it runs."
    ARM_SYNC_TIMER = "(Re)arm the sync timer with the rebalance timeout of this JoinGroup."
    CANCEL_SYNC_TIMER = "Cancel the sync timer if it runs."
    CANCEL_ALL_TIMERS = "Cancel session, rebalance, join and sync timers."


S, E, F = State, Event, Effect
STABLE, UNREVOKED, UNRELEASED, UNKNOWN = S.STABLE, S.UNREVOKED_PARTITIONS, S.UNRELEASED_PARTITIONS, S.UNKNOWN
MEMBER = (STABLE, UNREVOKED, UNRELEASED, UNKNOWN)
SETTLED = (F.WRITE_CURRENT_ASSIGNMENT, F.CANCEL_REBALANCE_TIMER)
REVOKING = (F.WRITE_CURRENT_ASSIGNMENT, F.ARM_REBALANCE_TIMER)
COPY = (F.WRITE_MEMBER, F.WRITE_TARGET_ENTRY, F.WRITE_CURRENT_ASSIGNMENT)
TOMBSTONES = (F.REMOVE_CURRENT_ASSIGNMENT, F.REMOVE_TARGET_ENTRY, F.REMOVE_MEMBER)
GONE = (*TOMBSTONES, F.CANCEL_ALL_TIMERS)
EXPIRED = (
    E.SESSION_EXPIRED,
    E.REBALANCE_TIMEOUT_EXPIRED,
    E.REBALANCE_TIMEOUT_STALE,
    E.JOIN_TIMEOUT_EXPIRED,
    E.SYNC_TIMEOUT_EXPIRED,
)
TRIM = "from 4.2 on; 4.2 leaves the prev epoch as it was (F7, F7b)"

# fmt: off
TABLE = Table(
    name="consumer-group-member",
    title="Consumer group member on the coordinator",
    source="KIP-848; CurrentAssignmentBuilder and GroupMetadataManager of apache/kafka 4.4 (87943b2ff874)",
    doc=__doc__,
    initial=S.ABSENT,
    terminal=(S.REMOVED,),
    effects=Effect,
    rows=(
        # Reconciliation: decisions of the trim, when only the subscription changed
        row(STABLE,    E.TRIM_NOTHING_REWRITTEN,            *SETTLED,
            clause="S1c/U0", note="a quirk, known by reading: no partition moves, yet a record is written"),
        row(STABLE,    E.TRIM_REVOKE_NEEDED,     UNREVOKED, *REVOKING, clause="S1c/U1", note=TRIM),
        row(STABLE,    E.TRIM_RELEASED,                     *SETTLED,  clause="S1c/U2", note=TRIM),
        row(UNREVOKED, E.TRIM_REVOKE_NEEDED,     UNREVOKED, *REVOKING,
            clause="V1c, V2c/U1", note="pending grows and the timer starts anew; " + TRIM),

        # Reconciliation: decisions towards the target; prev epoch := epoch in every one
        row(STABLE,     E.REVOKE_NEEDED,        UNREVOKED,  *REVOKING,
            clause="S2/C1", note="the epoch stays where it was"),
        row(STABLE,     E.GRANTED_SOME_BLOCKED, UNRELEASED, *SETTLED,  clause="S2/C2"),
        row(STABLE,     E.GRANTED_ALL,          STABLE,     *SETTLED,  clause="S2/C3"),
        row(STABLE,     E.ALL_BLOCKED,          UNRELEASED, *SETTLED,  clause="S2/C4"),
        row(STABLE,     E.NOTHING_TO_GRANT,     STABLE,     *SETTLED,
            clause="S2/C5", note="also a joiner inside the interval: STABLE at the old target epoch with nothing"),
        row(UNREVOKED,  E.REVOKE_NEEDED,        UNREVOKED,  *REVOKING,
            clause="V3/C1",
            note="the target moved on; a new wave with the full time, at the same epoch, before 4.2 at epoch + 1 (F5)"),
        row(UNREVOKED,  E.GRANTED_SOME_BLOCKED, UNRELEASED, *SETTLED,
            clause="V3/C2",
            note="before 4.0.2, 4.1.2 and 4.2.0 the member's own pending partitions counted as blocked (F6)"),
        row(UNREVOKED,  E.GRANTED_ALL,          STABLE,     *SETTLED,
            clause="V3/C3", note="jumps to the target epoch, however far ahead"),
        row(UNREVOKED,  E.ALL_BLOCKED,          UNRELEASED, *SETTLED,  clause="V3/C4"),
        row(UNREVOKED,  E.NOTHING_TO_GRANT,     STABLE,     *SETTLED,  clause="V3/C5"),
        row(UNRELEASED, E.REVOKE_NEEDED,        UNREVOKED,  *REVOKING,
            clause="L1/C1", note="the epoch stays where it was"),
        row(UNRELEASED, E.GRANTED_SOME_BLOCKED, UNRELEASED, *SETTLED,  clause="L1/C2"),
        row(UNRELEASED, E.GRANTED_ALL,          STABLE,     *SETTLED,  clause="L1/C3"),
        row(UNRELEASED, E.ALL_BLOCKED,          UNRELEASED, *SETTLED,
            clause="L1/C4", note="the first repeat too, since the prev epoch catches up"),
        row(UNRELEASED, E.NOTHING_TO_GRANT,     STABLE,     *SETTLED,  clause="L1/C5"),
        row(UNKNOWN,    E.GRANTED_SOME_BLOCKED, UNRELEASED, *SETTLED,
            clause="K2/C2", note="C1 cannot occur: the owned list is empty"),
        row(UNKNOWN,    E.GRANTED_ALL,          STABLE,     *SETTLED,  clause="K2/C3"),
        row(UNKNOWN,    E.ALL_BLOCKED,          UNRELEASED, *SETTLED,  clause="K2/C4"),
        row(UNKNOWN,    E.NOTHING_TO_GRANT,     STABLE,     *SETTLED,  clause="K2/C5"),

        # Reconciliation: decisions that change no field
        ignore(STABLE,              E.SAME,
            why="at the target epoch with an unchanged subscription", clause="S1"),
        ignore(UNREVOKED,           E.REVOCATION_NOT_REPORTED,
            why="no owned list, no acknowledgement; the rebalance timer goes on", clause="V1"),
        ignore(UNREVOKED,           E.REVOCATION_INCOMPLETE,
            why="a pending partition is still in use; the rebalance timer goes on", clause="V2"),
        ignore((STABLE, UNREVOKED), E.TRIM_NOTHING,
            why="everything assigned is still subscribed", clause="S1c, V1c, V2c/U0"),
        ignore(UNRELEASED,          E.STILL_BLOCKED,
            why="a fixed point: no field differs, so no record is written", clause="L1/C4"),
        ignore(UNKNOWN,             E.UNKNOWN_STATE_FENCED,    why="an error answer changes no state", clause="K1"),

        # Beginnings
        row(S.ABSENT, E.CREATED,           STABLE,     F.WRITE_MEMBER, clause="3.4 R4, J5"),
        row(S.ABSENT, E.COPIED_STABLE,     STABLE,     *COPY,
            clause="3.4 R4', J5", note="epoch 0, prev epoch 0; all else is the holder's"),
        row(S.ABSENT, E.COPIED_UNREVOKED,  UNREVOKED,  *COPY,
            clause="3.4 R4', J5", note="no rebalance timer until the next wave"),
        row(S.ABSENT, E.COPIED_UNRELEASED, UNRELEASED, *COPY, clause="3.4 R4', J5"),
        row(S.ABSENT, E.COPIED_UNKNOWN,    UNKNOWN,    *COPY, clause="3.4 R4', J5"),
        row(S.ABSENT, E.CONVERTED,         STABLE,     *COPY, F.ARM_SESSION_TIMER, clause="6.3 U-3, U-4"),
        row(S.ABSENT, E.LOADED_STABLE,     STABLE,     F.ARM_SESSION_TIMER,
            clause="4", note="the consumer session timeout, also for classic members"),
        row(S.ABSENT, E.LOADED_UNREVOKED,  UNREVOKED,  F.ARM_SESSION_TIMER, F.ARM_REBALANCE_TIMER,
            clause="4", note="here even for classic members"),
        row(S.ABSENT, E.LOADED_UNRELEASED, UNRELEASED, F.ARM_SESSION_TIMER, clause="4"),
        row(S.ABSENT, E.LOADED_UNKNOWN,    UNKNOWN,    F.ARM_SESSION_TIMER, clause="2.5-11, 4"),

        # Requests, beside reconciliation
        row(MEMBER, E.UPDATED,            F.WRITE_MEMBER, clause="3.4 R5, R6; J6"),
        row(MEMBER, E.HEARTBEAT_ACCEPTED, F.ARM_SESSION_TIMER, clause="3.4 R10, 4"),
        ignore(MEMBER, E.HEARTBEAT_REFUSED,
            why="an error answer removes nobody and does not refresh the session", clause="3.5 (a)"),
        row(MEMBER, E.STATIC_LEFT,        F.CLEAR_PENDING, F.WRITE_CURRENT_ASSIGNMENT,
            clause="3.6",
            note="no timer changes: the running session removes it; assignment epochs exist from 4.3 on (F8)"),
        row(MEMBER, E.CLASSIC_JOIN_STORED, F.CANCEL_JOIN_TIMER, F.ARM_SESSION_TIMER, F.ARM_SYNC_TIMER, clause="J10, 4"),
        row(MEMBER, E.CLASSIC_SYNCED,      F.CANCEL_SYNC_TIMER, F.ARM_SESSION_TIMER, clause="6.2 SyncGroup"),
        row((STABLE, UNRELEASED, UNKNOWN), E.CLASSIC_SYNC_REFUSED, F.ARM_JOIN_TIMER,
            clause="6.2 SyncGroup",
            note="before 4.3 measured against the group epoch (F18); UNREVOKED is exempt, it must learn what to keep"),
        row((STABLE, UNRELEASED, UNKNOWN), E.CLASSIC_HEARTBEAT_OK, F.ARM_SESSION_TIMER,
            clause="6.2 Heartbeat", note="UNREVOKED must always rejoin"),
        row(MEMBER, E.CLASSIC_HEARTBEAT_REJOIN, F.ARM_SESSION_TIMER, F.ARM_JOIN_TIMER,
            clause="6.2 Heartbeat", note="before 4.3 measured against the group epoch (F18)"),

        # Ends
        *each(MEMBER, E.LEFT,             S.REMOVED, *GONE,
            clause="3.6, 3.10, 6.2 LeaveGroup", note="LeaveGroup removes consumer-protocol members from 4.0 on (F19)"),
        *each(MEMBER, E.SESSION_EXPIRED,  S.REMOVED, *GONE, clause="4 session"),
        row(UNREVOKED, E.REBALANCE_TIMEOUT_EXPIRED, S.REMOVED, *GONE, clause="4 rebalance"),
        ignore(MEMBER, E.REBALANCE_TIMEOUT_STALE,
            why="the member went on, or is away with epoch -2", clause="4 rebalance"),
        *each(MEMBER, E.JOIN_TIMEOUT_EXPIRED, S.REMOVED, *GONE, clause="4 join"),
        *each(MEMBER, E.SYNC_TIMEOUT_EXPIRED, S.REMOVED, *GONE, clause="4 sync"),
        *each(MEMBER, E.REPLACED,         S.REMOVED, *TOMBSTONES,
            clause="3.4 R4', 8.4", note="its timers go on and find no member"),
        *each(MEMBER, E.GROUP_DOWNGRADED, S.REMOVED, *TOMBSTONES,
            clause="6.5", note="its timers go on and find a group of another type"),
        *each(MEMBER, E.UNLOADED,         S.REMOVED, clause="9.6"),
        ignore(S.REMOVED, EXPIRED, why="a timer that nobody cancelled finds no member", clause="4"),
    ),
)
# fmt: on
