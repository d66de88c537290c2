"""The consumer group on its coordinator: a state that nobody sets, derived from epochs and members.

Source: KIP-848 and `ConsumerGroup` of apache/kafka, branch 4.4 at 87943b2ff874. First match wins: no members is
EMPTY, a group epoch ahead of the target epoch is ASSIGNING, a member that is not STABLE at the target epoch is
RECONCILING, anything else is STABLE.

Since the state is derived, an event names what happened and what follows from it. An event is the outcome of one
atomic step of the coordinator: one request, timer or background result. What the step does to the members is in
the table `consumer-group-member`; what it answers is the step's return value. Three prefixes come before the
event of the same step, so the state they lead to is never committed: MEMBER_REPLACED (before a heartbeat, a join
or a downgrade), CLASSIC_GROUP_CONVERTED (before the join that caused the upgrade) and, in a downgrade by
replacement, SUBSCRIPTION_CHANGED_TARGET_STALE. Notices that change no epoch (METADATA_UNCHANGED,
REGEX_RESOLUTION_DUE) come after it.

Suffixes: `_TARGET_STALE`, the group epoch is ahead and the assignment interval has not elapsed; `_RECONCILING`,
the target is current and somebody is behind; `_ALL_STABLE`, the target is current and nobody is behind. A join,
heartbeat or pattern change that bumps nothing computes the target exactly when it leaves ASSIGNING. A computed
target has a new epoch, which leaves every other member behind: so only a group of one can go from there to STABLE.

DEAD is no state of a Kafka consumer group. Kafka's enumeration has it as a metrics label and as the answer of the
classic DescribeGroups for an id that is no classic group; it is never assigned. Here it stands for the group object
being gone: deleted, converted to a classic group, replaced by one, or unloaded from this coordinator. EMPTY is also
where a group stands before its first member, a fresh one (epochs 1) and one that waits to be loaded.

The rows are those of Kafka 4.4; a note names the flag where an older release differs. Two rows exist for groups that
an older coordinator left behind: up to 4.3 the last removal leaves the target epoch behind the group epoch (flag F4),
so the next join into EMPTY may compute a target, or wait for the interval, without bumping anything.

The clauses are explained in `diagrams/clauses.md`.
"""

from __future__ import annotations

from fsm.table import Symbol, Table, ignore, row


class State(Symbol):
    """The state of a consumer group, as ConsumerGroupDescribe prints it."""

    EMPTY = "No members; the group and its epochs are kept."
    ASSIGNING = "The group epoch is ahead of the target epoch: the target has not been computed yet."
    RECONCILING = "The target is current; at least one member has not reached it."
    STABLE = "The target is current and every member has reached it."
    DEAD = "The group object is gone: deleted, converted or unloaded. Kafka never assigns this state."


class Event(Symbol):
    """What one step of the coordinator did to the group, and the resulting state."""

    # A request that bumps the group epoch; of several reasons, the first in this order determines the event
    MEMBER_JOINED_TARGET_STALE = "A new member with a subscription joined; the interval delays the target."
    MEMBER_JOINED_RECONCILING = "A new member with a subscription joined; the others are behind the new target."
    MEMBER_JOINED_ALL_STABLE = "The first member joined with a subscription and got its target at once."
    SUBSCRIPTION_CHANGED_TARGET_STALE = "A member's names, or its resolved or cleared pattern, changed; target delayed."
    SUBSCRIPTION_CHANGED_RECONCILING = "As before, but the target was computed and somebody is behind it."
    SUBSCRIPTION_CHANGED_ALL_STABLE = "As before, but the target was computed and the only member has reached it."
    ASSIGNOR_CHANGED_TARGET_STALE = "A vote changed the elected assignor; the interval delays the target."
    ASSIGNOR_CHANGED_RECONCILING = "A vote changed the elected assignor; the target was computed, somebody is behind."
    ASSIGNOR_CHANGED_ALL_STABLE = "A vote changed the elected assignor; the only member has reached the target."
    METADATA_CHANGED_TARGET_STALE = "The metadata hash of the subscribed topics changed; the interval delays it."
    METADATA_CHANGED_RECONCILING = "The metadata hash changed; the target was computed and somebody is behind it."
    METADATA_CHANGED_ALL_STABLE = "The metadata hash changed; the only member has reached the computed target."
    # A request that bumps nothing
    UNSUBSCRIBED_JOINED_TARGET_STALE = "A member without names or resolved pattern joined; the target is still behind."
    UNSUBSCRIBED_JOINED_RECONCILING = "A member without names or resolved pattern joined; others are behind."
    UNSUBSCRIBED_JOINED_ALL_STABLE = "A member without names or resolved pattern joined; nobody is behind."
    REGEX_UNRESOLVED_TARGET_STALE = "A member switched to a pattern not yet resolved; the target is still behind."
    REGEX_UNRESOLVED_RECONCILING = "A member switched to a pattern not yet resolved; it or another is behind."
    REGEX_UNRESOLVED_ALL_STABLE = "A member switched to a pattern not yet resolved and nobody is behind."
    HEARTBEAT_TARGET_STALE = "A heartbeat or classic JoinGroup with nothing new; the interval still delays the target."
    HEARTBEAT_RECONCILING = "A heartbeat or classic JoinGroup with nothing new; somebody is behind the target."
    HEARTBEAT_ALL_STABLE = "A heartbeat or classic JoinGroup with nothing new; nobody is behind any more."
    MEMBER_REPLACED = "A new id took over a static member, at epoch 0; what it asks for follows as an event of its own."
    STATIC_MEMBER_LEFT = "A static member went away with epoch -2 and keeps its place until its session ends."
    # Removals: leave, session, rebalance, join or sync timeout, LeaveGroup; one event for all members of one step
    MEMBERS_REMOVED = "Members were removed and others remain."
    LAST_MEMBERS_REMOVED = "Members were removed and nobody remains."
    # Topics and patterns
    TOPICS_UPDATED = "The broker's metadata update touched a subscribed topic."
    METADATA_UNCHANGED = "A request checked the metadata hash and found it unchanged, and bumped nothing else."
    REGEX_RESOLUTION_DUE = "A request found that the patterns have to be resolved, and no such task is running."
    REGEX_RESULT_CHANGED = "The resolution came back with other topics, or with another metadata hash."
    REGEX_RESULT_SAME = "The resolution came back with the same topics and the same metadata hash."
    REGEX_RESOLUTION_FAILED = "The resolution of the patterns failed."
    ASSIGNOR_FAILED = "The assignor raised; the whole request is undone and answered UNKNOWN_SERVER_ERROR."
    # Birth, loading and end of the object
    CLASSIC_GROUP_CONVERTED = "A classic group was upgraded; the joiner that caused it follows as an event of its own."
    LOADED_EMPTY = "This coordinator loaded the group and found no members."
    LOADED_ASSIGNING = "This coordinator loaded the group with its target behind."
    LOADED_RECONCILING = "This coordinator loaded the group with a current target and a member behind it."
    LOADED_STABLE = "This coordinator loaded the group with every member at the target."
    DOWNGRADED_BY_REMOVAL = "The last consumer-protocol members left; classic ones remain and the policy allows it."
    DOWNGRADED_BY_REPLACEMENT = "The last consumer-protocol member was replaced by a static classic one."
    CLASSIC_JOIN_TO_EMPTY = "A classic JoinGroup reached a group without members."
    GROUP_DELETED = "DeleteGroups, or the cleanup of a group without offsets."
    UNLOADED = "Another coordinator owns the group's partition now."


class Effect(Symbol):
    """What the step does to the group, in the order of its records."""

    REMOVE_UNUSED_REGEXES = "Tombstone (record type 16) for every pattern that no member subscribes to any more."
    WRITE_REGEXES = "Record (type 16) for every pattern still subscribed: its topics, image version and time."
    BUMP_GROUP_EPOCH = "Group epoch + 1, with the metadata hash of the present subscriptions (record type 3)."
    COMPUTE_TARGET = "Run the assignor; write changed target entries, target epoch := group epoch, time (types 7, 6)."
    LEVEL_TARGET_EPOCH = "Target epoch := group epoch, time := 0, which lets the next join compute at once (type 6)."
    MOVE_TARGET_ENTRY = "The target entry of the replaced member goes to the new id."
    SET_METADATA_DEADLINE = "The metadata is checked again only after the broker reports a change."
    CLEAR_METADATA_DEADLINE = "The next heartbeat or classic JoinGroup of any member checks the metadata."
    RESOLVE_REGEXES = "Start the background task that resolves every subscribed pattern."
    WRITE_CONVERTED_GROUP = "Group and target epoch := generation, time := 0, members and targets of the classic group."
    REMOVE_GROUP_RECORDS = "Tombstones of all the group's records (types 8, 7, 6, 5, 16, 4, 3, as far as they exist)."
    CREATE_CLASSIC_GROUP = "A STABLE classic group with the members' targets; generation := old group epoch (type 2)."
    REBALANCE_CLASSIC_GROUP = "That classic group prepares a rebalance at once."
    CREATE_EMPTY_CLASSIC_GROUP = "An EMPTY classic group replaces it; the join continues there (type 2)."


S, E, F = State, Event, Effect
LIVE = (S.ASSIGNING, S.RECONCILING, S.STABLE)
CURRENT = (S.RECONCILING, S.STABLE)
JOINED = (F.BUMP_GROUP_EPOCH, F.SET_METADATA_DEADLINE)
BUMPED = (F.REMOVE_UNUSED_REGEXES, *JOINED)
RETARGETED = (*BUMPED, F.COMPUTE_TARGET)
DOWNGRADED = (F.REMOVE_GROUP_RECORDS, F.CREATE_CLASSIC_GROUP)
F13 = "before 4.4 a change of the elected assignor bumps nothing (F13)"
DELAY = "4.3 on; before, the interval is 0 and the target is computed in the request that bumps (F3)"
LEFT_BEHIND = "a group emptied before 4.4, whose target epoch stayed behind (F4)"

# fmt: off
TABLE = Table(
    name="consumer-group",
    title="Consumer group on the coordinator",
    source="KIP-848; ConsumerGroup and GroupMetadataManager of apache/kafka 4.4 (87943b2ff874)",
    doc=__doc__,
    initial=S.EMPTY,
    terminal=(S.DEAD,),
    effects=Effect,
    rows=(
        # Requests that bump the group epoch
        row(S.EMPTY, E.MEMBER_JOINED_TARGET_STALE,        S.ASSIGNING,   *JOINED,
            clause="1.2 EMPTY, 7.1", note="4.3; in 4.4 only for " + LEFT_BEHIND),
        row(S.EMPTY, E.MEMBER_JOINED_ALL_STABLE,          S.STABLE,      *JOINED, F.COMPUTE_TARGET,
            clause="1.2 (none), EMPTY", note="a fresh group goes to epoch 2, before 4.3 to 1 (F1)"),
        row(LIVE,    E.MEMBER_JOINED_TARGET_STALE,        S.ASSIGNING,   *JOINED,
            clause="1.2, 3.8, 7.1", note=DELAY),
        row(LIVE,    E.MEMBER_JOINED_RECONCILING,         S.RECONCILING, *JOINED, F.COMPUTE_TARGET, clause="1.2, 3.8"),
        row(LIVE,    E.SUBSCRIPTION_CHANGED_TARGET_STALE, S.ASSIGNING,   *BUMPED,
            clause="1.2, 3.8, 7.1", note=DELAY + "; clearing a pattern bumps from 4.1.2 and 4.2.0 on (F10c)"),
        row(LIVE,    E.SUBSCRIPTION_CHANGED_RECONCILING,  S.RECONCILING, *RETARGETED, clause="1.2, 3.8"),
        row(LIVE,    E.SUBSCRIPTION_CHANGED_ALL_STABLE,   S.STABLE,      *RETARGETED, clause="1.2, 3.8"),
        row(LIVE,    E.ASSIGNOR_CHANGED_TARGET_STALE,     S.ASSIGNING,   *BUMPED,     clause="1.2, 3.8, 7.1", note=F13),
        row(LIVE,    E.ASSIGNOR_CHANGED_RECONCILING,      S.RECONCILING, *RETARGETED, clause="1.2, 3.8", note=F13),
        row(LIVE,    E.ASSIGNOR_CHANGED_ALL_STABLE,       S.STABLE,      *RETARGETED, clause="1.2, 3.8", note=F13),
        row(LIVE,    E.METADATA_CHANGED_TARGET_STALE,     S.ASSIGNING,   *BUMPED,
            clause="1.2, 3.8, 7.1", note=DELAY + "; a change of racks counts from 4.1 on (F12)"),
        row(LIVE,    E.METADATA_CHANGED_RECONCILING,      S.RECONCILING, *RETARGETED, clause="1.2, 3.8"),
        row(LIVE,    E.METADATA_CHANGED_ALL_STABLE,       S.STABLE,      *RETARGETED, clause="1.2, 3.8"),

        # Requests that bump nothing
        row(S.EMPTY,       E.UNSUBSCRIBED_JOINED_TARGET_STALE, S.ASSIGNING,
            clause="1.2 EMPTY, 7.1", note="only for " + LEFT_BEHIND),
        row(S.EMPTY,       E.UNSUBSCRIBED_JOINED_ALL_STABLE,   S.STABLE,
            clause="1.2 (none)",
            note="4.0 to 4.2 bump a fresh group all the same (F2); " + LEFT_BEHIND + ", computes its target here"),
        row(S.ASSIGNING,   E.UNSUBSCRIBED_JOINED_TARGET_STALE,
            clause="1.2 ASSIGNING, 3.8", note="the joiner is reconciled towards the old target, where it has nothing"),
        row(S.ASSIGNING,   E.UNSUBSCRIBED_JOINED_RECONCILING,  S.RECONCILING, F.COMPUTE_TARGET,
            clause="1.2 ASSIGNING, 3.8"),
        row(S.RECONCILING, E.UNSUBSCRIBED_JOINED_RECONCILING,
            clause="3.8", note="the joiner itself is STABLE at the target epoch, with nothing assigned"),
        row(S.STABLE,      E.UNSUBSCRIBED_JOINED_ALL_STABLE,                                    clause="3.8"),
        row(S.ASSIGNING,   E.REGEX_UNRESOLVED_TARGET_STALE,                   F.REMOVE_UNUSED_REGEXES,
            clause="7.3", note="patterns exist from 4.0 on (F10)"),
        row(S.ASSIGNING,   E.REGEX_UNRESOLVED_RECONCILING,     S.RECONCILING, F.REMOVE_UNUSED_REGEXES, F.COMPUTE_TARGET,
            clause="7.3, 1.2 ASSIGNING"),
        row(S.ASSIGNING,   E.REGEX_UNRESOLVED_ALL_STABLE,      S.STABLE,      F.REMOVE_UNUSED_REGEXES, F.COMPUTE_TARGET,
            clause="7.3, 1.2 ASSIGNING"),
        row(S.RECONCILING, E.REGEX_UNRESOLVED_RECONCILING,                    F.REMOVE_UNUSED_REGEXES,
            clause="7.3"),
        row(S.RECONCILING, E.REGEX_UNRESOLVED_ALL_STABLE,      S.STABLE,      F.REMOVE_UNUSED_REGEXES,
            clause="7.3"),
        row(S.STABLE,      E.REGEX_UNRESOLVED_RECONCILING,     S.RECONCILING, F.REMOVE_UNUSED_REGEXES,
            clause="1.2 STABLE, 7.3",
            note="from 4.2 on: what the new pattern does not match yet is taken back at once (F7)"),
        row(S.STABLE,      E.REGEX_UNRESOLVED_ALL_STABLE,                     F.REMOVE_UNUSED_REGEXES,
            clause="7.3"),
        row(S.ASSIGNING,   E.HEARTBEAT_RECONCILING,            S.RECONCILING, F.COMPUTE_TARGET,
            clause="1.2 ASSIGNING", note="no timer computes the target: the next request after the interval does"),
        row(S.ASSIGNING,   E.HEARTBEAT_ALL_STABLE,             S.STABLE,      F.COMPUTE_TARGET,
            clause="1.2 ASSIGNING"),
        row(S.RECONCILING, E.HEARTBEAT_ALL_STABLE,             S.STABLE,
            clause="1.2 RECONCILING"),
        ignore(S.ASSIGNING,   E.HEARTBEAT_TARGET_STALE,
            why="inside the interval members go on towards the old target", clause="1.2 ASSIGNING"),
        ignore(S.RECONCILING, E.HEARTBEAT_RECONCILING,
            why="the group waits for its last member; one more step of one member changes nothing", clause="1.2"),
        ignore(S.STABLE,      E.HEARTBEAT_ALL_STABLE,
            why="nothing new and nobody behind: no record is written", clause="8.4"),

        # Static members
        row(S.ASSIGNING, E.MEMBER_REPLACED,                   F.MOVE_TARGET_ENTRY,
            clause="3.4 R4'", note="before 4.4 an id that changes its instance id keeps the old mapping too (F15)"),
        row(CURRENT,     E.MEMBER_REPLACED,    S.RECONCILING, F.MOVE_TARGET_ENTRY,
            clause="3.4 R4'", note="the new id starts at epoch 0, behind any target"),
        row(S.ASSIGNING, E.STATIC_MEMBER_LEFT,                                     clause="3.6"),
        row(CURRENT,     E.STATIC_MEMBER_LEFT, S.RECONCILING,
            clause="1.2 STABLE, 3.6", note="until it returns or its session expires; epochs do not move"),

        # Removals
        row(LIVE, E.MEMBERS_REMOVED,      S.ASSIGNING, F.REMOVE_UNUSED_REGEXES, F.BUMP_GROUP_EPOCH,
            clause="1.2, 3.10", note="one bump however many go"),
        row(LIVE, E.LAST_MEMBERS_REMOVED, S.EMPTY,     F.REMOVE_UNUSED_REGEXES, F.BUMP_GROUP_EPOCH,
            F.LEVEL_TARGET_EPOCH, clause="1.2 any, 3.10", note="before 4.4 the target epoch stays behind (F4)"),

        # Topics and patterns
        row(LIVE, E.TOPICS_UPDATED,                     F.CLEAR_METADATA_DEADLINE,             clause="7.2"),
        row(LIVE, E.METADATA_UNCHANGED,                 F.SET_METADATA_DEADLINE,               clause="3.4 R7, 7.2"),
        row(LIVE, E.REGEX_RESOLUTION_DUE,               F.RESOLVE_REGEXES,
            clause="7.3", note="resolved patterns are refreshed by age from 4.1 on (F10b)"),
        row(LIVE, E.REGEX_RESULT_CHANGED,  S.ASSIGNING, F.WRITE_REGEXES, F.BUMP_GROUP_EPOCH,
            clause="1.2, 7.3", note="a result never computes the target"),
        row(LIVE, E.REGEX_RESULT_SAME,                  F.WRITE_REGEXES,                       clause="7.3"),
        ignore((S.EMPTY, S.DEAD), (E.REGEX_RESULT_CHANGED, E.REGEX_RESULT_SAME),
            why="the result came too late: nobody subscribes to a pattern any more", clause="7.3"),
        ignore(tuple(State), E.REGEX_RESOLUTION_FAILED,
            why="logged only; the next request may start it again", clause="7.3"),
        ignore((S.EMPTY, *LIVE), E.ASSIGNOR_FAILED,
            why="nothing of the request persists, not even the bump", clause="3.4 R8"),

        # Birth, loading and end
        row(S.EMPTY, E.CLASSIC_GROUP_CONVERTED, S.STABLE,      F.WRITE_CONVERTED_GROUP, F.CLEAR_METADATA_DEADLINE,
            clause="6.3 U-3",
            note="the metadata hash is filled from 4.0.1 on; before, the next heartbeat always bumps (F21b)"),
        row(S.EMPTY, E.LOADED_EMPTY,                           F.CLEAR_METADATA_DEADLINE, clause="7.2, 8.5"),
        row(S.EMPTY, E.LOADED_ASSIGNING,        S.ASSIGNING,   F.CLEAR_METADATA_DEADLINE, clause="7.2, 8.5"),
        row(S.EMPTY, E.LOADED_RECONCILING,      S.RECONCILING, F.CLEAR_METADATA_DEADLINE, clause="7.2, 8.5"),
        row(S.EMPTY, E.LOADED_STABLE,           S.STABLE,      F.CLEAR_METADATA_DEADLINE, clause="7.2, 8.5"),
        row(LIVE,    E.DOWNGRADED_BY_REMOVAL,   S.DEAD, *DOWNGRADED, F.REBALANCE_CLASSIC_GROUP,
            clause="1.2 any, 6.5 A",
            note="the October 2024 sources convert only when a consumer-protocol member goes alone (F19)"),
        row(S.ASSIGNING, E.DOWNGRADED_BY_REPLACEMENT, S.DEAD, *DOWNGRADED, F.REBALANCE_CLASSIC_GROUP,
            clause="6.5 B",
            note="stale target; 4.0.2 and 4.1.1 to 4.2 rebalance only if the joiner changed the subscription, 4.0.0, "
                 "4.0.1 and 4.1.0 never (F20)"),
        row(CURRENT,     E.DOWNGRADED_BY_REPLACEMENT, S.DEAD, *DOWNGRADED,
            clause="6.5 B", note="the target is current, so the classic group stays STABLE"),
        row(S.EMPTY, E.CLASSIC_JOIN_TO_EMPTY,   S.DEAD, F.REMOVE_GROUP_RECORDS, F.CREATE_EMPTY_CLASSIC_GROUP,
            clause="1.2 EMPTY, 6.1", note="whatever the migration policy"),
        row(S.EMPTY, E.GROUP_DELETED,           S.DEAD, F.REMOVE_GROUP_RECORDS,
            clause="1.2 EMPTY", note="cleanup spares groups with pending transactional offsets from 4.0.1 on (F26)"),
        row((S.EMPTY, *LIVE), E.UNLOADED,       S.DEAD,
            clause="9.6", note="nothing is written; the next coordinator loads the group"),
    ),
)
# fmt: on
