"""The member of a classic group as the Java client runs it: join, sync, heartbeat.

Sources: `AbstractCoordinator` (its `MemberState` has these four states) and `ConsumerCoordinator` of apache/kafka at
00b63173cd0a; the reactions to errors are those that a Connect worker has too, which runs the same class. Checked
against the logs of Java consumers 4.0 to 4.4, classic and during a migration: 3,324 steps in 228 logs, ten changes of
state, each legal here, and no change is legal that was not seen.

The client prints no state. Four lines of its log imply it: a join is sent (PREPARING_REBALANCE), a join succeeded
(COMPLETING_REBALANCE), a sync succeeded (STABLE), the generation is reset (UNJOINED).

How to read a row:

* A failed join or sync does not change the state at once. The client stays in PREPARING_REBALANCE or
  COMPLETING_REBALANCE, asks itself to rejoin, and sends the next join from there; so JOIN_SENT is legal in every
  state.
* RESET_GENERATION without RESET_MEMBER_ID keeps the member id, as after ILLEGAL_GENERATION: the coordinator may still
  know it, and a join under it replaces the old membership instead of waiting for its end.
* The reset is done by the thread that detects the error, often the heartbeat thread. The partitions stay with the
  application until its next poll prepares the join and finds the generation reset: JOIN_PREPARED_LOST. So a member
  that left by POLL_TIMEOUT owns its partitions, by its own view, until it polls.
* Before a join, an eager member revokes everything, a cooperative one only what is not subscribed any more. This
  happens once for each rebalance, however many joins that takes.
* A response is judged by the generation of its request. An error in response to an older generation is ANSWER_STALE.

Discrepancies. The reaction to errors that a commit meets is part of the machine, as it resets the state. A member that
leaves while a rebalance is under way gets the lost callback, not the revoked one, without any error. A fatal error
is thrown to the application and asks for a rejoin all the same, so that it returns on every poll.
"""

from __future__ import annotations

from fsm.table import Symbol, Table, ignore, row


class State(Symbol):
    """The four states of `MemberState`."""

    UNJOINED = "No generation: at the start, after a reset, after leaving. No heartbeats."
    PREPARING_REBALANCE = "JoinGroup was sent; also while a failed one waits to be sent again. No heartbeats."
    COMPLETING_REBALANCE = "The join succeeded and SyncGroup was sent; also while a failed one waits for a new join."
    STABLE = "The generation is agreed; heartbeats."


class Event(Symbol):
    """What happened to the member, decisions included."""

    # Before and during a round
    REJOIN_REQUESTED = "Metadata or subscription changed, or the application asks for a rebalance."
    JOIN_PREPARED_EAGER = "A poll prepares the join of an eager member that still has its generation."
    JOIN_PREPARED_COOPERATIVE = "A poll prepares the join of a cooperative member that still has its generation."
    JOIN_PREPARED_LOST = "A poll prepares a join and the generation or the member id is gone."
    JOIN_SENT = "JoinGroup was sent."
    JOIN_OK_LEADER = "JoinGroup succeeded and made this member the leader."
    JOIN_OK_FOLLOWER = "JoinGroup succeeded and another member leads."
    SYNC_OK = "SyncGroup succeeded; the assignment takes nothing away that is owned."
    SYNC_OK_REVOKING = "SyncGroup succeeded; the assignment of a cooperative member takes partitions away."
    ASSIGNMENT_OUTDATED = "The generation was reset between the successful sync and the assigned callback."
    # Errors of a join
    JOIN_MEMBER_ID_REQUIRED = "MEMBER_ID_REQUIRED: the coordinator gave an id and wants the join repeated with it."
    JOIN_UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID, generation unchanged since the request."
    JOIN_REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS: the coordinator could not store the group yet."
    JOIN_LOAD_IN_PROGRESS = "COORDINATOR_LOAD_IN_PROGRESS."
    JOIN_COORDINATOR_LOST = "NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, or the connection broke."
    JOIN_FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID: another process holds the instance id."
    JOIN_FATAL = "INCONSISTENT_GROUP_PROTOCOL, GROUP_AUTHORIZATION_FAILED, GROUP_MAX_SIZE_REACHED and the like."
    # Errors of a sync
    SYNC_REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS: the next rebalance has begun."
    SYNC_UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID, generation unchanged since the request."
    SYNC_ILLEGAL_GENERATION = "ILLEGAL_GENERATION, generation unchanged since the request."
    SYNC_COORDINATOR_LOST = "NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, or the connection broke."
    SYNC_FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID: another process holds the instance id."
    SYNC_FATAL = "Another protocol than the elected one, no authorization, or an unexpected error."
    # Heartbeats
    HEARTBEAT_OK = "A heartbeat was answered without error."
    HEARTBEAT_REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS: all members have to rejoin."
    HEARTBEAT_UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID, generation unchanged since the request."
    HEARTBEAT_ILLEGAL_GENERATION = "ILLEGAL_GENERATION, generation unchanged since the request."
    HEARTBEAT_FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID, generation unchanged since the request."
    # Commits
    COMMIT_REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS for a commit."
    COMMIT_UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID for a commit."
    COMMIT_ILLEGAL_GENERATION = "ILLEGAL_GENERATION for a commit."
    COMMIT_FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID for a commit."
    ANSWER_STALE = "An error that answers a request of an older generation."
    # Time, connection, application
    COORDINATOR_LOST = "A heartbeat or commit says NOT_COORDINATOR, or the connection broke, or the session timed out."
    COORDINATOR_FOUND = "The coordinator is known again."
    POLL_TIMEOUT = "max.poll.interval.ms passed without a poll; a dynamic member."
    POLL_TIMEOUT_STATIC = "The same for a static member."
    LEAVE_CALLED = "unsubscribe() or close() by a dynamic member."
    LEAVE_CALLED_STATIC = "unsubscribe() or close() by a static member."


class Effect(Symbol):
    """What the client does."""

    REVOKE_ALL_PARTITIONS = "Revoked callback for everything owned, which is then given up."
    REVOKE_UNSUBSCRIBED_TOPICS = "Revoked callback for partitions of topics that are not subscribed any more."
    REVOKE_PARTITIONS = "Revoked callback for what is owned and not in the new assignment."
    LOSE_ALL_PARTITIONS = "Lost callback for everything owned, which is then given up; none is called for nothing."
    ASSIGN_PARTITIONS = "Take over the assignment; assigned callback for what is new."
    RUN_ASSIGNOR = "Compute the assignment of every member."
    SEND_SYNC_GROUP = "Send SyncGroup; the leader's carries all assignments."
    SEND_LEAVE_GROUP = "Send LeaveGroup, where there is a member id and a coordinator; nobody waits for the answer."
    ADOPT_GENERATION = "Take generation, member id and protocol from the join's answer."
    ADOPT_MEMBER_ID = "Take the member id from the join's answer; there is no generation yet."
    RESET_GENERATION = "Forget the generation and its protocol."
    RESET_MEMBER_ID = "Forget the member id."
    REQUEST_REJOIN = "Have the next poll join again."
    START_HEARTBEATS = "Wake the heartbeat thread, with its timeouts restarted."
    STOP_HEARTBEATS = "Suspend the heartbeat thread."
    FORGET_COORDINATOR = "Drop the coordinator and its connection, and look for it again."
    RESET_SESSION_TIMER = "Restart the session timeout."
    RAISE_ERROR = "Throw the error from the poll or commit of the application."


S, E, F = State, Event, Effect
ALL = tuple(State)
HEARTBEATING = (S.COMPLETING_REBALANCE, S.STABLE)
REBALANCING = (S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE)
ANSWERED = (*REBALANCING, S.STABLE)
"""States in which a heartbeat of the current generation may be answered."""
JOIN_OUT = (S.UNJOINED, S.PREPARING_REBALANCE)
"""States in which a join may be answered; UNJOINED if the member was reset while it was in flight."""
SYNC_OUT = (S.UNJOINED, S.COMPLETING_REBALANCE)
"""States in which a sync may be answered; UNJOINED if the member was reset while it was in flight."""
OTHERS_THAN_STABLE = (S.UNJOINED, S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE)
RESET_ALL = (F.RESET_GENERATION, F.RESET_MEMBER_ID, F.REQUEST_REJOIN)
"""Effects of a complete reset of the membership."""
KEEP_MEMBER_ID = (F.RESET_GENERATION, F.REQUEST_REJOIN)

# fmt: off
TABLE = Table(
    name="classic-member",
    initial=S.UNJOINED,
    effects=Effect,
    title="Member of a classic group, Java client",
    source="apache/kafka 00b63173cd0a AbstractCoordinator, ConsumerCoordinator; logs of Java consumers 4.0 to 4.4",
    doc="A failed join or sync leaves the state as it is; the next join is sent from there, so a join may begin in "
        "every state. Resetting the generation does not take the partitions from the application: the next poll "
        "does, with the lost callback. ILLEGAL_GENERATION keeps the member id, UNKNOWN_MEMBER_ID and "
        "FENCED_INSTANCE_ID do not. No state is terminal: the same consumer may subscribe again after it left.",
    rows=(
        #   in state                    on event                    goes to                 and then does, in this order
        row(ALL,                        E.REJOIN_REQUESTED,                                    F.REQUEST_REJOIN,
            clause="requestRejoin, requestRejoinIfNecessary"),
        row(S.STABLE,                   E.JOIN_PREPARED_EAGER,                                 F.REVOKE_ALL_PARTITIONS,
            clause="onJoinPrepare"),
        row(S.STABLE,                   E.JOIN_PREPARED_COOPERATIVE,                       F.REVOKE_UNSUBSCRIBED_TOPICS,
            clause="onJoinPrepare"),
        row(S.UNJOINED,                 E.JOIN_PREPARED_LOST,                                  F.LOSE_ALL_PARTITIONS,
            clause="onJoinPrepare", note="the first join too, with nothing to lose"),
        row(ALL,                        E.JOIN_SENT,                   S.PREPARING_REBALANCE,  F.STOP_HEARTBEATS,
            clause="initiateJoinGroup; logs"),

        row(S.PREPARING_REBALANCE,      E.JOIN_OK_LEADER,              S.COMPLETING_REBALANCE, F.START_HEARTBEATS,
                                                          F.ADOPT_GENERATION, F.RUN_ASSIGNOR, F.SEND_SYNC_GROUP,
            clause="JoinGroupResponseHandler, onLeaderElected; logs"),
        row(S.PREPARING_REBALANCE,      E.JOIN_OK_FOLLOWER,            S.COMPLETING_REBALANCE, F.START_HEARTBEATS,
                                                                             F.ADOPT_GENERATION, F.SEND_SYNC_GROUP,
            clause="JoinGroupResponseHandler, onJoinFollower; logs"),
        row(S.UNJOINED,                 (E.JOIN_OK_LEADER, E.JOIN_OK_FOLLOWER),                F.REQUEST_REJOIN,
            clause="JoinGroupResponseHandler (UnjoinedGroupException)",
            note="the member left, or was reset, meanwhile"),
        row(S.COMPLETING_REBALANCE,     E.SYNC_OK,                     S.STABLE,               F.ASSIGN_PARTITIONS,
            clause="SyncGroupResponseHandler, onJoinComplete; logs"),
        row(S.COMPLETING_REBALANCE,     E.SYNC_OK_REVOKING,            S.STABLE,               F.REVOKE_PARTITIONS,
                                                                                 F.REQUEST_REJOIN, F.ASSIGN_PARTITIONS,
            clause="SyncGroupResponseHandler, onJoinComplete; logs",
            note="the second round gives the partitions to others"),
        row(S.UNJOINED,                 (E.SYNC_OK, E.SYNC_OK_REVOKING),                       F.REQUEST_REJOIN,
            clause="SyncGroupResponseHandler", note="the generation was reset meanwhile: taken for ILLEGAL_GENERATION"),
        row(S.UNJOINED,                 E.ASSIGNMENT_OUTDATED,         S.UNJOINED,             *RESET_ALL,
            clause="joinGroupIfNeeded"),

        # Errors of a join.
        row(JOIN_OUT,                   E.JOIN_MEMBER_ID_REQUIRED,                             F.ADOPT_MEMBER_ID,
                                                                                               F.REQUEST_REJOIN,
            clause="JoinGroupResponseHandler; logs"),
        row(JOIN_OUT,                   E.JOIN_UNKNOWN_MEMBER_ID,      S.UNJOINED,             *RESET_ALL,
            clause="JoinGroupResponseHandler, resetStateOnResponseError; logs"),
        row(JOIN_OUT,                   (E.JOIN_REBALANCE_IN_PROGRESS, E.JOIN_LOAD_IN_PROGRESS),
                                                                                               F.REQUEST_REJOIN,
            clause="JoinGroupResponseHandler, joinGroupIfNeeded; logs"),
        row(JOIN_OUT,                   E.JOIN_COORDINATOR_LOST,                               F.FORGET_COORDINATOR,
                                                                                               F.REQUEST_REJOIN,
            clause="JoinGroupResponseHandler, joinGroupIfNeeded; logs"),
        row(JOIN_OUT,                   (E.JOIN_FENCED_INSTANCE_ID, E.JOIN_FATAL),             F.REQUEST_REJOIN,
                                                                                               F.RAISE_ERROR,
            clause="JoinGroupResponseHandler, joinGroupIfNeeded; logs", note="comes back at every poll"),

        # Errors of a sync.
        row(SYNC_OUT,                   E.SYNC_REBALANCE_IN_PROGRESS,                          F.REQUEST_REJOIN,
            clause="SyncGroupResponseHandler, joinGroupIfNeeded; logs", note="generation and member id are kept"),
        row(S.COMPLETING_REBALANCE,     E.SYNC_UNKNOWN_MEMBER_ID,      S.UNJOINED,             *RESET_ALL,
            clause="SyncGroupResponseHandler, resetStateOnResponseError"),
        row(S.COMPLETING_REBALANCE,     E.SYNC_ILLEGAL_GENERATION,     S.UNJOINED,             *KEEP_MEMBER_ID,
            clause="SyncGroupResponseHandler, resetStateOnResponseError"),
        row(SYNC_OUT,                   E.SYNC_COORDINATOR_LOST,                               F.FORGET_COORDINATOR,
                                                                                               F.REQUEST_REJOIN,
            clause="SyncGroupResponseHandler, joinGroupIfNeeded"),
        row(SYNC_OUT,                   (E.SYNC_FENCED_INSTANCE_ID, E.SYNC_FATAL),             F.REQUEST_REJOIN,
                                                                                               F.RAISE_ERROR,
            clause="SyncGroupResponseHandler, joinGroupIfNeeded"),

        # Heartbeats. Answers may still come in PREPARING_REBALANCE.
        ignore(ALL, E.HEARTBEAT_OK,
            why="keeps the session alive, which is the timer's affair", clause="HeartbeatResponseHandler"),
        row(S.STABLE,                   E.HEARTBEAT_REBALANCE_IN_PROGRESS,                     F.REQUEST_REJOIN,
            clause="HeartbeatResponseHandler; logs"),
        ignore(OTHERS_THAN_STABLE, E.HEARTBEAT_REBALANCE_IN_PROGRESS,
            why="a join is under way already, or due", clause="HeartbeatResponseHandler"),
        row(ANSWERED,                   E.HEARTBEAT_UNKNOWN_MEMBER_ID, S.UNJOINED,             *RESET_ALL,
            clause="HeartbeatResponseHandler, resetStateOnResponseError; logs"),
        row(ANSWERED,                   E.HEARTBEAT_ILLEGAL_GENERATION, S.UNJOINED,            *KEEP_MEMBER_ID,
            clause="HeartbeatResponseHandler, resetStateOnResponseError"),
        row(ANSWERED,                   E.HEARTBEAT_FENCED_INSTANCE_ID, S.UNJOINED,            *RESET_ALL,
                                                                                                F.RAISE_ERROR,
            clause="HeartbeatResponseHandler, HeartbeatThread; logs",
            note="the heartbeat thread ends; the next poll throws, the one after it joins again"),

        # Commits.
        row(ALL,                        E.COMMIT_REBALANCE_IN_PROGRESS,                        F.REQUEST_REJOIN,
                                                                                               F.RAISE_ERROR,
            clause="OffsetCommitResponseHandler"),
        row(ALL,                        E.COMMIT_UNKNOWN_MEMBER_ID,    S.UNJOINED,             *RESET_ALL,
                                                                                               F.RAISE_ERROR,
            clause="OffsetCommitResponseHandler, resetStateOnResponseError; logs"),
        row(ALL,                        E.COMMIT_ILLEGAL_GENERATION,   S.UNJOINED,             *KEEP_MEMBER_ID,
                                                                                               F.RAISE_ERROR,
            clause="OffsetCommitResponseHandler, resetStateOnResponseError"),
        row(ALL,                        E.COMMIT_FENCED_INSTANCE_ID,                           F.RAISE_ERROR,
            clause="OffsetCommitResponseHandler", note="resets nothing; the next heartbeat will"),
        ignore(ALL, E.ANSWER_STALE, why="the generation moved on since the request",
            clause="HeartbeatResponseHandler, OffsetCommitResponseHandler"),

        # Connection.
        row(ALL,                        E.COORDINATOR_LOST,                                    F.FORGET_COORDINATOR,
            clause="markCoordinatorUnknown; logs", note="the membership stands until a coordinator says otherwise"),
        row(ALL,                        E.COORDINATOR_FOUND,                                   F.RESET_SESSION_TIMER,
            clause="FindCoordinatorResponseHandler; logs"),

        # Time and application. UNJOINED: the same run of the heartbeat thread has just met a reset.
        row(HEARTBEATING,               E.POLL_TIMEOUT,                F.SEND_LEAVE_GROUP, S.UNJOINED, *RESET_ALL,
            clause="handlePollTimeoutExpiry, maybeLeaveGroup; logs", note="the partitions stay until the next poll"),
        row(HEARTBEATING,               E.POLL_TIMEOUT_STATIC,         S.UNJOINED,             *RESET_ALL,
            clause="handlePollTimeoutExpiry, maybeLeaveGroup",
            note="the coordinator keeps the member until its session ends"),
        row(S.UNJOINED,                 (E.POLL_TIMEOUT, E.POLL_TIMEOUT_STATIC), S.UNJOINED,   *RESET_ALL,
            clause="HeartbeatThread, maybeLeaveGroup"),
        row(S.STABLE,                   E.LEAVE_CALLED,                F.REVOKE_ALL_PARTITIONS, F.SEND_LEAVE_GROUP,
                                                                       S.UNJOINED,             *RESET_ALL,
            clause="onLeavePrepare, maybeLeaveGroup; logs",
            note="a rejoin is asked for on every leave, and goes unheard"),
        row(REBALANCING,                E.LEAVE_CALLED,                F.LOSE_ALL_PARTITIONS, F.SEND_LEAVE_GROUP,
                                                                       S.UNJOINED,             *RESET_ALL,
            clause="onLeavePrepare, maybeLeaveGroup; logs", note="lost, not revoked: a rebalance is under way"),
        row(S.STABLE,                   E.LEAVE_CALLED_STATIC,                                 F.REVOKE_ALL_PARTITIONS,
                                                                       S.UNJOINED,             *RESET_ALL,
            clause="onLeavePrepare, maybeLeaveGroup; logs"),
        row(REBALANCING,                E.LEAVE_CALLED_STATIC,                                 F.LOSE_ALL_PARTITIONS,
                                                                       S.UNJOINED,             *RESET_ALL,
            clause="onLeavePrepare, maybeLeaveGroup"),
        row(S.UNJOINED,                 (E.LEAVE_CALLED, E.LEAVE_CALLED_STATIC),               F.LOSE_ALL_PARTITIONS,
                                                                       S.UNJOINED,             *RESET_ALL,
            clause="onLeavePrepare, maybeLeaveGroup; logs",
            note="no leave request: the coordinator knows of no membership"),
    ),
)
# fmt: on
