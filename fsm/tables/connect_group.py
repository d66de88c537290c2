"""The group of Connect workers on its coordinator: the classic group as far as Connect uses it.

Source: KIP-415 and `GroupMetadataManager` of apache/kafka
1eb7644 for members without static membership; unchanged in 4.4.

This is the same machine as the table `classic-group`, seen from a worker: no static members, no migration, no end of
the object, and every decision an event of its own. What `classic-group` does in one step (the only member rejoins and
its join phase completes at once) is two events here, LEADER_REJOINED and ALL_JOINED. Its hops between states are those
of `classic-group` without DEAD and without a group that is built STABLE.

Which member becomes leader when the old one is gone is nobody's rule: any joined member. A worker that restarts is a
new member, whose predecessor is waited for until the rebalance timeout. The name on the state is that of the classic
group.

The clauses are explained in `diagrams/clauses.md`.
"""

from __future__ import annotations

from fsm.table import Symbol, Table, row


class State(Symbol):
    """The state of the group, as DescribeGroups prints it."""

    EMPTY = "No workers."
    PREPARING_REBALANCE = "Joins are delayed until all known workers have joined or the time is up."
    COMPLETING_REBALANCE = "The generation has begun; the leader's assignments are awaited."
    STABLE = "Every worker has its assignment, or can fetch it."


class Event(Symbol):
    """What reached the coordinator, or what it decided."""

    MEMBER_ID_GIVEN = "A worker without member id is given one and told to join with it."
    NEW_MEMBER_JOINED = "A worker that is not yet a member joined."
    FOLLOWER_REJOINED = "A known follower joined with unchanged metadata."
    LEADER_REJOINED = "The leader joined with unchanged metadata."
    FOLLOWER_CHANGED = "A known follower joined with changed metadata."
    LEADER_CHANGED = "The leader joined with changed metadata."
    ALL_JOINED = "Every known member's join is delayed."
    REBALANCE_TIMED_OUT = "The rebalance timeout ran out and at least one join is delayed."
    LAST_MEMBER_LEFT = "The member that left or expired was the last one, or none joined in time."
    FOLLOWER_SYNCED = "A follower's SyncGroup came with the present generation."
    LEADER_SYNCED = "The leader's SyncGroup came with the present generation."
    SYNC_TIMED_OUT = "Some member's SyncGroup did not come in time."
    HEARTBEAT = "A heartbeat of a known member with the present generation."
    MEMBER_LEFT = "A member left."
    SESSION_EXPIRED = "No heartbeat of a member within its session timeout."
    REQUEST_REFUSED = "A request with another generation, an unknown member id or no common protocol."


class Effect(Symbol):
    """What the coordinator does, in this order."""

    GIVE_MEMBER_ID = "Answer MEMBER_ID_REQUIRED with a new id."
    ADD_MEMBER = "Add the member; the first one becomes leader."
    UPDATE_MEMBER = "Take the metadata of the request."
    DROP_MEMBERS = "Remove the members that left, expired or did not sync."
    DROP_UNJOINED = "Remove the members that did not rejoin."
    PARK_JOIN = "The join is answered when all have joined."
    PARK_SYNC = "The sync is answered when the leader's is stored."
    WAIT_INITIAL_DELAY = "Wait for the initial delay, extended by each joiner up to the rebalance timeout."
    WAIT_FOR_JOINS = "Wait for all members up to the largest rebalance timeout among them."
    ELECT_LEADER = "Keep the leader if it joined, else take any joined member."
    ELECT_PROTOCOL = "The highest version that every member advertises."
    BUMP_GENERATION = "Generation + 1."
    ANSWER_JOIN = "Answer with the present generation."
    ANSWER_JOINS = "Answer every delayed join with the new generation; only the leader gets the members."
    STORE_ASSIGNMENTS = "Store the assignments; members the leader left out get empty bytes."
    ANSWER_SYNC = "Answer with the stored assignment."
    ANSWER_SYNCS = "Answer every delayed sync with its assignment."
    FAIL_SYNCS = "Answer every delayed sync REBALANCE_IN_PROGRESS."
    ANSWER_OK = "Answer without error."
    ANSWER_REBALANCE_IN_PROGRESS = "Answer REBALANCE_IN_PROGRESS."
    ANSWER_ERROR = "Answer ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID or INCONSISTENT_GROUP_PROTOCOL."


S, E, F = State, Event, Effect
PREPARING, COMPLETING = S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE
KNOWN = (E.FOLLOWER_REJOINED, E.LEADER_REJOINED)
CHANGED = (E.FOLLOWER_CHANGED, E.LEADER_CHANGED)
COMPLETE = (F.DROP_UNJOINED, F.ELECT_LEADER, F.BUMP_GENERATION, F.ELECT_PROTOCOL, COMPLETING, F.ANSWER_JOINS)
PREPARE = (PREPARING, F.WAIT_FOR_JOINS)
CUT_IN = (F.FAIL_SYNCS, *PREPARE)

# fmt: off
TABLE = Table(
    name="connect-group",
    title="Group of Connect workers on the coordinator",
    source="KIP-415; GroupMetadataManager of apache/kafka 1eb7644, for groups of type connect",
    doc=__doc__,
    initial=S.EMPTY,
    effects=Effect,
    rows=(
        row(tuple(State), E.MEMBER_ID_GIVEN, F.GIVE_MEMBER_ID,
            clause="1.2 below the table", note="a restarted worker is a new member id"),
        row(tuple(State), E.REQUEST_REFUSED, F.ANSWER_ERROR,   clause="1.2-17, 1.1 admission"),

        row(S.EMPTY,    E.NEW_MEMBER_JOINED,    F.ADD_MEMBER, F.PARK_JOIN, PREPARING, F.WAIT_INITIAL_DELAY,
            clause="1.2-1"),

        row(PREPARING,  E.NEW_MEMBER_JOINED,    F.ADD_MEMBER, F.PARK_JOIN,       clause="1.2-2"),
        row(PREPARING,  (*KNOWN, *CHANGED),     F.UPDATE_MEMBER, F.PARK_JOIN,    clause="1.2-2"),
        row(PREPARING,  (E.ALL_JOINED, E.REBALANCE_TIMED_OUT), *COMPLETE,
            clause="1.2-3", note="the timeout drops a crashed worker's old id, for which the others waited"),
        row(PREPARING,  E.MEMBER_LEFT,          F.DROP_MEMBERS, F.ANSWER_OK,     clause="1.2-4",
            note="ALL_JOINED or LAST_MEMBER_LEFT may follow"),
        row(PREPARING,  E.SESSION_EXPIRED,      F.DROP_MEMBERS,                  clause="1.2-4",
            note="ALL_JOINED or LAST_MEMBER_LEFT may follow"),
        row(PREPARING,  E.LAST_MEMBER_LEFT,     F.BUMP_GENERATION, S.EMPTY,      clause="1.2-4"),
        row(PREPARING,  E.HEARTBEAT,            F.ANSWER_REBALANCE_IN_PROGRESS,  clause="1.2-5"),
        row(PREPARING,  (E.FOLLOWER_SYNCED, E.LEADER_SYNCED), F.ANSWER_REBALANCE_IN_PROGRESS, clause="1.2-6"),

        row(COMPLETING, E.FOLLOWER_SYNCED,      F.PARK_SYNC,                                        clause="1.2-7"),
        row(COMPLETING, E.LEADER_SYNCED,        F.STORE_ASSIGNMENTS, F.ANSWER_SYNCS, S.STABLE,      clause="1.2-8"),
        row(COMPLETING, KNOWN,                  F.ANSWER_JOIN,                                      clause="1.2-9"),
        row(COMPLETING, CHANGED,                F.UPDATE_MEMBER, F.PARK_JOIN, *CUT_IN,              clause="1.2-10"),
        row(COMPLETING, E.NEW_MEMBER_JOINED,    F.ADD_MEMBER, F.PARK_JOIN, *CUT_IN,                 clause="1.2-10"),
        row(COMPLETING, E.MEMBER_LEFT,          F.DROP_MEMBERS, *CUT_IN, F.ANSWER_OK,               clause="1.2-10"),
        row(COMPLETING, (E.SESSION_EXPIRED, E.SYNC_TIMED_OUT), F.DROP_MEMBERS, *CUT_IN,             clause="1.2-10"),
        row(COMPLETING, E.HEARTBEAT,            F.ANSWER_OK,                                        clause="1.2-11"),

        row(S.STABLE,   E.HEARTBEAT,            F.ANSWER_OK,                                        clause="1.2-12"),
        row(S.STABLE,   (E.LEADER_REJOINED, E.LEADER_CHANGED, E.FOLLOWER_CHANGED), F.UPDATE_MEMBER, F.PARK_JOIN,
            *PREPARE, clause="1.2-13, 14", note="the leader with any metadata"),
        row(S.STABLE,   E.FOLLOWER_REJOINED,    F.ANSWER_JOIN,                                      clause="1.2-15"),
        row(S.STABLE,   (E.FOLLOWER_SYNCED, E.LEADER_SYNCED), F.ANSWER_SYNC,
            clause="1.2-15", note="the stored assignment again"),
        row(S.STABLE,   E.NEW_MEMBER_JOINED,    F.ADD_MEMBER, F.PARK_JOIN, *PREPARE,                clause="1.2-16"),
        row(S.STABLE,   E.MEMBER_LEFT,          F.DROP_MEMBERS, *PREPARE, F.ANSWER_OK,              clause="1.2-16"),
        row(S.STABLE,   (E.SESSION_EXPIRED, E.SYNC_TIMED_OUT), F.DROP_MEMBERS, *PREPARE,            clause="1.2-16"),
    ),
)
# fmt: on
