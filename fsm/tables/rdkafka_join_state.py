"""librdkafka's join-state machine, for the classic and the consumer protocol: the legal sequences of `CGRPJOINSTATE`.

Sources: rdkafka_cgrp.c of librdkafka at 4c3b017c3de8 (2.15 line), every place that sets the join state and every path
to it; and recordings of librdkafka 2.16.0 (classic and consumer protocol, against test brokers, against Apache Kafka,
and beside Java members). A clause names the function, and the protocols for which the step was seen in the recordings:
`seen: classic`, `seen: consumer`, `seen: both`, or `read` if it is known from the source only. 25 changes of state were
seen (11 with the consumer protocol, 22 with the classic one, 8 of them with both); reading adds 5:

* WAIT_UNASSIGN_CALL to STEADY, if the client itself cannot carry out the call for an application without callbacks;
* INIT, WAIT_INCR_UNASSIGN_TO_COMPLETE to WAIT_UNASSIGN_CALL, and WAIT_ASSIGN_CALL, WAIT_UNASSIGN_CALL to INIT, if the
  application unsubscribes or closes, or metadata changes, during a rebalance.

How to read the table. The log prints states only; events are the reasons, at the points where the code decides. The
suffix of an event is the outcome of a decision: `_REVOKE` if the application must first revoke partitions, `_REJOIN` if
not. WAIT_JOIN, WAIT_METADATA and WAIT_SYNC belong to the classic protocol only. A change to the current state prints
nothing. The join state has no terminal state: closing ends the *other* machine of the same group, whose state becomes
`term`, with any join state.

Neither machine alone is a member's lifecycle, which also depends on flags. `LIFECYCLE` maps a join state and a
condition to states of `fsm.tables.consumer_member`.

The table does not distinguish the two protocols, because a table per protocol would call some logs of a client of
unknown configuration illegal, nor share consumers, which use the same names. Before 1.6.0 the join states had other
names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fsm.errors import InputError
from fsm.table import Symbol, Table, ignore, row
from fsm.tables.consumer_member import State as Member


class State(Symbol):
    """The join states, as librdkafka names them; `PRINTED` has the spelling of the log."""

    INIT = "Not joining. Consumer protocol: also a member that has no assignment yet."
    WAIT_JOIN = "Classic: JoinGroup sent."
    WAIT_METADATA = "Classic: metadata requested, before a join or, as the leader, before the assignor runs."
    WAIT_SYNC = "Classic: SyncGroup sent."
    WAIT_ASSIGN_CALL = "The application was told of partitions to add and has not called assign yet."
    WAIT_UNASSIGN_CALL = "The application was told of partitions to give up and has not called unassign yet."
    WAIT_UNASSIGN_TO_COMPLETE = "All partitions are being given up: fetchers stop, offsets are committed."
    WAIT_INCR_UNASSIGN_TO_COMPLETE = "Some partitions are being given up, one rebalance step at a time."
    STEADY = "Nothing to do; heartbeats."


PRINTED = {
    "init": State.INIT,
    "wait-join": State.WAIT_JOIN,
    "wait-metadata": State.WAIT_METADATA,
    "wait-sync": State.WAIT_SYNC,
    "wait-assign-call": State.WAIT_ASSIGN_CALL,
    "wait-unassign-call": State.WAIT_UNASSIGN_CALL,
    "wait-unassign-to-complete": State.WAIT_UNASSIGN_TO_COMPLETE,
    "wait-incr-unassign-to-complete": State.WAIT_INCR_UNASSIGN_TO_COMPLETE,
    "steady": State.STEADY,
}
"""State by its spelling in the log."""


def from_printed(text: str) -> State:
    """The state printed as `text` in the log. Raises `InputError` for any other text."""
    try:
        return PRINTED[text]
    except KeyError:
        raise InputError(
            f"librdkafka does not print the join state {text!r}", remedy="known: " + ", ".join(PRINTED)
        ) from None


class Event(Symbol):
    """Why a join state changes."""

    # Classic: one round of join and sync
    METADATA_REQUESTED = "Topics of the subscription are not in the cache: metadata must come before the (re)join."
    JOIN_SENT = "JoinGroup was sent."
    JOIN_OK_LEADER = "JoinGroup succeeded and made this member the leader."
    JOIN_OK_FOLLOWER = "JoinGroup succeeded and another member leads."
    JOIN_FAILED_REJOIN = "JoinGroup failed; nothing is owned, or an eager member has given everything up already."
    JOIN_FAILED_REVOKE = "JoinGroup failed so that a cooperative member loses what it owns."
    ASSIGNOR_DONE = "The leader's assignor has run, SyncGroup was sent."
    ASSIGNOR_FAILED = "The leader's assignor failed, or its metadata did not come."
    SYNC_FAILED_REJOIN = "SyncGroup failed; what is owned may be kept, or there is nothing."
    SYNC_FAILED_REVOKE = "SyncGroup failed so that a cooperative member loses what it owns."
    # An assignment, from SyncGroup or from a heartbeat
    ASSIGNMENT_TO_ADD = "A new assignment takes nothing away; it may be empty."
    ASSIGNMENT_TO_REVOKE = "A new assignment takes partitions away, which comes first."
    # Calls of the application, and their results
    ASSIGN_CALLED = "assign() or incremental_assign(), by the application or in its place."
    ASSIGN_REFUSED = "assign() by a consumer that closes or has met a fatal error: taken for an unassign()."
    UNASSIGN_CALLED = "unassign(), or any call of a consumer that closes or has met a fatal error."
    INCREMENTAL_UNASSIGN_CALLED = "incremental_unassign(), by the application or in its place."
    CALL_FAILED = "The client made the call in the application's place and failed: everything goes, then a rejoin."
    UNASSIGN_DONE = "All partitions are given up."
    INCREMENTAL_UNASSIGN_DONE_ASSIGN = "Partitions are given up and the rest of the assignment is to be added."
    INCREMENTAL_UNASSIGN_DONE_REJOIN = (
        "Partitions are given up, and the member joins again or takes a new subscription."
    )
    INCREMENTAL_UNASSIGN_DONE = "Partitions are given up, and nothing is to follow."
    REJOIN_DUE = "Steady, with a rejoin flagged after a cooperative revocation, or a postponed subscription to apply."
    # Reasons that come from outside a round
    REBALANCING_REVOKE = "Classic heartbeat: the group rebalances, and this member is eager."
    REBALANCING_REJOIN = "Classic heartbeat: the group rebalances; cooperative, or nothing was assigned."
    MEMBERSHIP_LOST_REVOKE = "Fenced, unknown, expired, or poll interval exceeded, with partitions owned."
    MEMBERSHIP_LOST_REJOIN = "The same without partitions."
    FATAL_ERROR = "A fatal error is set. No callback follows: partitions owned go without the application."
    METADATA_CHANGED_REVOKE = "Classic: subscribed topics changed, and partitions have to be given up for it."
    METADATA_CHANGED_REJOIN = "Classic: subscribed topics changed, and there is nothing to give up first."
    SUBSCRIPTION_CHANGED_REVOKE = "A new subscription drops topics of which partitions are owned."
    SUBSCRIPTION_CHANGED_REJOIN = "A new subscription needs a rejoin and nothing given up first."
    UNSUBSCRIBED_REVOKE = "unsubscribe() or close() with partitions owned."
    UNSUBSCRIBED_REJOIN = "unsubscribe() or close() without, or by an eager member whose callback is pending."


class Effect(Symbol):
    """What librdkafka does on a change of join state."""

    SEND_JOIN_GROUP = "Send JoinGroup."
    SEND_SYNC_GROUP = "Send SyncGroup; a leader's carries all assignments."
    REQUEST_METADATA = "Request metadata of the topics concerned."
    DELEGATE_ASSIGN = "Tell the application of the partitions to add; without a callback, assign in its place."
    DELEGATE_REVOKE = "Tell the application of the partitions to give up; without a callback, unassign in its place."
    MARK_LOST = "Mark the assignment as lost, so that the application can tell loss from revocation."
    STOP_PARTITIONS = "Stop fetchers and commit the stored offsets of the partitions given up."
    UNASSIGN_ALL = "Remove the whole assignment without telling the application."
    START_POLL_TIMER = "Start to watch max.poll.interval.ms."
    LEAVE_IF_FLAGGED = "Send the leave request, where one was held back until partitions were given up."
    REPORT_ERROR = "Log the error; give it to the application where it is permanent."


S, E, F = State, Event, Effect
EDGE_OF_ROUND = (S.INIT, S.STEADY)
IN_CALLBACK_OR_AFTER = (
    S.WAIT_ASSIGN_CALL,
    S.WAIT_UNASSIGN_CALL,
    S.WAIT_UNASSIGN_TO_COMPLETE,
    S.WAIT_INCR_UNASSIGN_TO_COMPLETE,
)
REBALANCING = (S.WAIT_SYNC, *IN_CALLBACK_OR_AFTER)
"""States in which most external reasons are postponed until the rebalance is over."""
JOINING = (S.WAIT_JOIN, S.WAIT_METADATA)
CLASSIC_ONLY = (S.WAIT_JOIN, S.WAIT_METADATA, S.WAIT_SYNC)
"""States of the classic protocol only."""

# fmt: off
TABLE = Table(
    name="rdkafka-join-state",
    initial=S.INIT,
    effects=Effect,
    title="librdkafka join state, classic and consumer protocol",
    source="librdkafka 4c3b017c3de8 rdkafka_cgrp.c; recordings of librdkafka 2.16.0",
    doc="The log prints states only; events are the reasons behind them. 30 changes of state are legal: 11 were "
        "seen with the consumer protocol, 22 with the classic one (25 together), 5 are by reading. wait-join, "
        "wait-metadata and wait-sync belong to the classic protocol. No state is terminal: closing ends the group "
        "state machine beside this one.",
    rows=(
        #   in state                          on event                 goes to                  and then does
        row(S.INIT,                           E.METADATA_REQUESTED,    S.WAIT_METADATA,         F.REQUEST_METADATA,
            clause="rd_kafka_cgrp_join; seen: classic"),
        row(S.STEADY,                         E.METADATA_REQUESTED,    S.WAIT_METADATA,         F.REQUEST_METADATA,
            clause="rd_kafka_cgrp_modify_subscription; seen: classic"),
        row(S.INIT,                           E.JOIN_SENT,             S.WAIT_JOIN,             F.SEND_JOIN_GROUP,
            clause="rd_kafka_cgrp_join; seen: classic"),
        row(S.WAIT_JOIN,                      E.JOIN_OK_LEADER,        S.WAIT_METADATA,         F.REQUEST_METADATA,
            clause="rd_kafka_cgrp_handle_JoinGroup; seen: classic"),
        row(S.WAIT_JOIN,                      E.JOIN_OK_FOLLOWER,      S.WAIT_SYNC,             F.SEND_SYNC_GROUP,
            clause="rd_kafka_cgrp_handle_JoinGroup; seen: classic"),
        row(S.WAIT_JOIN,                      E.JOIN_FAILED_REJOIN,    S.INIT,                  F.REPORT_ERROR,
            clause="rd_kafka_cgrp_handle_JoinGroup; seen: classic"),
        row(S.WAIT_JOIN,                      E.JOIN_FAILED_REVOKE,    S.WAIT_UNASSIGN_CALL,    F.REPORT_ERROR,
                                                                                                F.MARK_LOST,
                                                                                                F.DELEGATE_REVOKE,
            clause="rd_kafka_cgrp_handle_JoinGroup; read", note="the same change of state was seen for a close()"),
        row(S.WAIT_METADATA,                  E.ASSIGNOR_DONE,         S.WAIT_SYNC,             F.SEND_SYNC_GROUP,
            clause="rd_kafka_cgrp_assignor_run; seen: classic"),
        row(S.WAIT_METADATA,                  E.ASSIGNOR_FAILED,       S.INIT,                  F.REPORT_ERROR,
            clause="rd_kafka_cgrp_assignor_run; read", note="the same change of state was seen for metadata"),
        row(S.WAIT_SYNC,                      E.SYNC_FAILED_REJOIN,    S.INIT,                  F.REPORT_ERROR,
            clause="rd_kafka_cgrp_handle_SyncGroup_memberstate; seen: classic"),
        row(S.WAIT_SYNC,                      E.SYNC_FAILED_REVOKE,    S.WAIT_UNASSIGN_CALL,    F.REPORT_ERROR,
                                                                                                F.MARK_LOST,
                                                                                                F.DELEGATE_REVOKE,
            clause="rd_kafka_cgrp_handle_SyncGroup_memberstate; read",
            note="the same change of state was seen for an assignment"),

        row(S.WAIT_SYNC,                      E.ASSIGNMENT_TO_ADD,     S.WAIT_ASSIGN_CALL,      F.DELEGATE_ASSIGN,
            clause="rd_kafka_cgrp_handle_assignment; seen: classic"),
        row(EDGE_OF_ROUND,                    E.ASSIGNMENT_TO_ADD,     S.WAIT_ASSIGN_CALL,      F.DELEGATE_ASSIGN,
            clause="rd_kafka_cgrp_consumer_handle_next_assignment; seen: consumer"),
        row(S.WAIT_SYNC,                      E.ASSIGNMENT_TO_REVOKE,  S.WAIT_UNASSIGN_CALL,    F.DELEGATE_REVOKE,
            clause="rd_kafka_cgrp_handle_assignment_cooperative; seen: classic"),
        row(S.STEADY,                         E.ASSIGNMENT_TO_REVOKE,  S.WAIT_UNASSIGN_CALL,    F.DELEGATE_REVOKE,
            clause="rd_kafka_cgrp_consumer_handle_next_assignment; seen: consumer"),

        row(S.WAIT_ASSIGN_CALL,               E.ASSIGN_CALLED,         S.STEADY,                F.START_POLL_TIMER,
            clause="rd_kafka_cgrp_assign, rd_kafka_cgrp_incremental_assign; seen: both"),
        row(S.WAIT_ASSIGN_CALL,               E.ASSIGN_REFUSED,        S.WAIT_UNASSIGN_CALL,
                                                                       S.WAIT_UNASSIGN_TO_COMPLETE, F.STOP_PARTITIONS,
            clause="rd_kafka_cgrp_handle_assign_op; read", note="two lines at once"),
        row(S.WAIT_UNASSIGN_CALL,             E.UNASSIGN_CALLED,       S.WAIT_UNASSIGN_TO_COMPLETE, F.STOP_PARTITIONS,
            clause="rd_kafka_cgrp_unassign; seen: both"),
        row(S.WAIT_UNASSIGN_CALL,             E.INCREMENTAL_UNASSIGN_CALLED,
                                                                       S.WAIT_INCR_UNASSIGN_TO_COMPLETE,
                                                                                                F.STOP_PARTITIONS,
            clause="rd_kafka_cgrp_incremental_unassign; seen: both"),
        row((S.WAIT_ASSIGN_CALL, S.WAIT_UNASSIGN_CALL),
                                              E.CALL_FAILED,           S.STEADY,         F.REPORT_ERROR, F.UNASSIGN_ALL,
            clause="rd_kafka_rebalance_op, rd_kafka_rebalance_op_incr; read"),
        row(S.WAIT_UNASSIGN_TO_COMPLETE,      E.UNASSIGN_DONE,         F.LEAVE_IF_FLAGGED,      S.INIT,
            clause="rd_kafka_cgrp_unassign_done; seen: both"),
        row(S.WAIT_INCR_UNASSIGN_TO_COMPLETE, E.INCREMENTAL_UNASSIGN_DONE_ASSIGN,
                                                                       S.WAIT_ASSIGN_CALL,      F.DELEGATE_ASSIGN,
            clause="rd_kafka_cgrp_incr_unassign_done, rd_kafka_cgrp_consumer_incr_unassign_done; seen: both"),
        row(S.WAIT_INCR_UNASSIGN_TO_COMPLETE, E.INCREMENTAL_UNASSIGN_DONE_REJOIN,
                                                                       F.LEAVE_IF_FLAGGED,      S.INIT,
            clause="rd_kafka_cgrp_incr_unassign_done, rd_kafka_cgrp_consumer_incr_unassign_done; seen: both"),
        row(S.WAIT_INCR_UNASSIGN_TO_COMPLETE, E.INCREMENTAL_UNASSIGN_DONE, S.STEADY,            F.START_POLL_TIMER,
            clause="rd_kafka_cgrp_incr_unassign_done, rd_kafka_cgrp_consumer_incr_unassign_done; seen: classic",
            note="a classic member gave up partitions of a topic that is gone and did not lead"),
        row(S.STEADY,                         E.REJOIN_DUE,            S.INIT,
            clause="rd_kafka_cgrp_assignment_done, rd_kafka_cgrp_consumer_assignment_done; seen: both",
            note="consumer protocol: seen only after a fatal error"),

        # A classic heartbeat is answered with REBALANCE_IN_PROGRESS.
        row(S.STEADY,                         E.REBALANCING_REVOKE,    S.WAIT_UNASSIGN_CALL,    F.DELEGATE_REVOKE,
            clause="rd_kafka_cgrp_group_is_rebalancing; seen: classic"),
        row(S.STEADY,                         E.REBALANCING_REJOIN,    S.INIT,
            clause="rd_kafka_cgrp_group_is_rebalancing; seen: classic"),
        ignore((S.INIT, *JOINING, S.WAIT_SYNC), (E.REBALANCING_REVOKE, E.REBALANCING_REJOIN),
            why="an outdated answer: the join that it asks for is under way", clause="rd_kafka_cgrp_handle_Heartbeat"),
        ignore(IN_CALLBACK_OR_AFTER,
               (E.REBALANCING_REVOKE, E.REBALANCING_REJOIN),
            why="a rebalance is under way",
            clause="rd_kafka_cgrp_handle_Heartbeat, rd_kafka_cgrp_group_is_rebalancing"),

        # The membership is lost; postponed while a rebalance is under way.
        row((*EDGE_OF_ROUND, *JOINING),       E.MEMBERSHIP_LOST_REVOKE, S.WAIT_UNASSIGN_CALL,   F.MARK_LOST,
                                                                                                F.DELEGATE_REVOKE,
            clause="rd_kafka_cgrp_revoke_all_rejoin_maybe, rd_kafka_cgrp_consumer_serve; "
                   "seen: both (STEADY), read (others)",
            note="WAIT_JOIN and WAIT_METADATA count as a rebalance only while the member has an id"),
        row((*EDGE_OF_ROUND, *JOINING),       E.MEMBERSHIP_LOST_REJOIN, S.INIT,
            clause="rd_kafka_cgrp_revoke_all_rejoin_maybe, rd_kafka_cgrp_consumer_serve; read"),
        ignore(REBALANCING, (E.MEMBERSHIP_LOST_REVOKE, E.MEMBERSHIP_LOST_REJOIN),
            why="a rebalance is under way: a consumer-protocol member acts on it afterwards, a classic one fails in it",
            clause="rd_kafka_cgrp_revoke_all_rejoin_maybe, rd_kafka_cgrp_consumer_serve"),

        # A fatal error releases the partitions; the join state stays; REJOIN_DUE follows if a rejoin was flagged.
        row(EDGE_OF_ROUND,                    E.FATAL_ERROR,                                    F.REPORT_ERROR,
                                                                                                F.UNASSIGN_ALL,
            clause="rd_kafka_rebalance_op, rd_kafka_rebalance_op_incr; seen: consumer (STEADY), read (others)",
            note="no line: the state does not change"),
        row((*JOINING, *REBALANCING),         E.FATAL_ERROR,                                    F.REPORT_ERROR,
            clause="rd_kafka_cgrp_handle_assign_op; read", note="calls the application makes from now on are refused"),

        # Metadata shows other topics for the subscription (classic). Not postponed during a rebalance.
        row((S.INIT, *CLASSIC_ONLY, S.WAIT_ASSIGN_CALL, S.WAIT_INCR_UNASSIGN_TO_COMPLETE, S.STEADY),
                                              E.METADATA_CHANGED_REVOKE, S.WAIT_UNASSIGN_CALL,  F.MARK_LOST,
                                                                                                F.DELEGATE_REVOKE,
            clause="rd_kafka_cgrp_metadata_update_check; seen: classic (WAIT_METADATA), read (others)",
            note="marked as lost by a cooperative member only"),
        row(S.WAIT_UNASSIGN_CALL,             E.METADATA_CHANGED_REVOKE,                        F.MARK_LOST,
                                                                                                F.DELEGATE_REVOKE,
            clause="rd_kafka_cgrp_metadata_update_check; read", note="no line: the state does not change"),
        row(tuple(State),                     E.METADATA_CHANGED_REJOIN, S.INIT,
            clause="rd_kafka_cgrp_metadata_update_check; seen: classic (WAIT_METADATA), read (others)"),

        # The application changes its subscription; postponed while a rebalance is under way.
        row(EDGE_OF_ROUND,                    E.SUBSCRIPTION_CHANGED_REVOKE, S.WAIT_UNASSIGN_CALL, F.DELEGATE_REVOKE,
            clause="rd_kafka_cgrp_modify_subscription, rd_kafka_cgrp_subscribe; seen: classic (STEADY), read (INIT)"),
        row((*EDGE_OF_ROUND, *JOINING),       E.SUBSCRIPTION_CHANGED_REJOIN, S.INIT,
            clause="rd_kafka_cgrp_modify_subscription, rd_kafka_cgrp_subscribe; read"),
        ignore(JOINING, E.SUBSCRIPTION_CHANGED_REVOKE,
            why="who owns partitions has joined, and then the subscription waits for the end of the rebalance",
            clause="rd_kafka_cgrp_subscribe"),
        ignore(REBALANCING, (E.SUBSCRIPTION_CHANGED_REVOKE, E.SUBSCRIPTION_CHANGED_REJOIN),
            why="postponed until the rebalance is over; REJOIN_DUE or INCREMENTAL_UNASSIGN_DONE_REJOIN applies it",
            clause="rd_kafka_cgrp_subscribe"),

        # unsubscribe() and close().
        row((S.INIT, *CLASSIC_ONLY, S.WAIT_ASSIGN_CALL, S.WAIT_INCR_UNASSIGN_TO_COMPLETE, S.STEADY),
                                              E.UNSUBSCRIBED_REVOKE,   S.WAIT_UNASSIGN_CALL,    F.DELEGATE_REVOKE,
            clause="rd_kafka_cgrp_unsubscribe, rd_kafka_cgrp_consumer_unsubscribe, rd_kafka_cgrp_terminate0; "
                   "seen: both (STEADY), classic (WAIT_JOIN), consumer (WAIT_ASSIGN_CALL), read (others)"),
        row(S.WAIT_UNASSIGN_CALL,             E.UNSUBSCRIBED_REVOKE,                            F.DELEGATE_REVOKE,
            clause="rd_kafka_cgrp_unsubscribe, rd_kafka_cgrp_consumer_unsubscribe; read",
            note="no line: the state does not change"),
        row(tuple(State),                     E.UNSUBSCRIBED_REJOIN,   F.LEAVE_IF_FLAGGED,      S.INIT,
            clause="rd_kafka_cgrp_unsubscribe, rd_kafka_cgrp_consumer_unsubscribe, rd_kafka_cgrp_terminate0; "
                   "seen: classic (WAIT_JOIN), read (others)"),
    ),
)
# fmt: on


class Condition(Enum):
    """What determines a consumer-protocol member's lifecycle state beside its join state."""

    NOT_SUBSCRIBED = "no subscription"
    SUBSCRIBED = "a subscription, epoch 0"
    JOINED = "epoch above 0, no assignment received"
    TARGET_PENDING = "a next target is set and WAIT_ACK is clear: topic names are missing"
    WAIT_ACK = "WAIT_ACK is set: a target is being reconciled or acknowledged"
    ACKED = "WAIT_ACK is clear and no next target is set"
    WAIT_REJOIN = "WAIT_REJOIN or WAIT_REJOIN_TO_COMPLETE is set: fenced, to be acted on after a rebalance under way"
    LEAVE_ON_UNASSIGN_DONE = "LEAVE_ON_UNASSIGN_DONE is set, nothing is lost: unsubscribe() or close() is under way"
    WAIT_LEAVE = "WAIT_LEAVE is set: the leave heartbeat is out"
    MAX_POLL_EXCEEDED = "MAX_POLL_EXCEEDED is set"
    FATAL_ERROR = "a fatal error is set"


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The lifecycle states of a join state under a condition."""

    join_states: tuple[State, ...]
    condition: Condition
    members: tuple[Member, ...]
    """States of `consumer-member`; several if the log does not distinguish them."""
    line: str
    """Facility of the log line at the entry, empty if there is none."""


_GIVING_UP = (S.WAIT_UNASSIGN_CALL, S.WAIT_INCR_UNASSIGN_TO_COMPLETE, S.WAIT_UNASSIGN_TO_COMPLETE)
_RUNNING = (S.WAIT_UNASSIGN_CALL, S.WAIT_INCR_UNASSIGN_TO_COMPLETE, S.WAIT_ASSIGN_CALL)
_USED = (S.INIT, *_RUNNING, S.WAIT_UNASSIGN_TO_COMPLETE, S.STEADY)

# Java acknowledges when the heartbeat is sent, librdkafka when it is answered; so no log line marks STABLE at the send.
# fmt: off
LIFECYCLE = (
    Lifecycle((S.INIT,),          Condition.NOT_SUBSCRIBED,         (Member.UNSUBSCRIBED,),    "NOREJOIN"),
    Lifecycle((S.INIT,),          Condition.SUBSCRIBED,             (Member.JOINING,),         "REJOIN"),
    Lifecycle((S.INIT,),          Condition.JOINED,                 (Member.JOINING,),         "HEARTBEAT"),
    Lifecycle(EDGE_OF_ROUND,      Condition.TARGET_PENDING,         (Member.RECONCILING,),     "HEARTBEAT"),
    Lifecycle(_RUNNING,           Condition.WAIT_ACK,               (Member.RECONCILING,),     "HEARTBEAT"),
    Lifecycle((S.STEADY,),        Condition.WAIT_ACK,               (Member.ACKNOWLEDGING,),   "HEARTBEAT"),
    Lifecycle((S.STEADY,),        Condition.ACKED,                  (Member.STABLE,),          "HEARTBEAT"),
    Lifecycle(_USED,              Condition.WAIT_REJOIN,            (Member.FENCED,),          "HEARTBEAT"),
    Lifecycle(_GIVING_UP,         Condition.LEAVE_ON_UNASSIGN_DONE, (Member.PREPARE_LEAVING,), "UNSUBSCRIBE"),
    Lifecycle((S.INIT, S.WAIT_UNASSIGN_TO_COMPLETE, S.WAIT_INCR_UNASSIGN_TO_COMPLETE),
                                  Condition.WAIT_LEAVE,             (Member.LEAVING,),         "LEAVE"),
    Lifecycle(_USED,              Condition.MAX_POLL_EXCEEDED,      (Member.STALE,),           "MAXPOLL"),
    Lifecycle(_USED,              Condition.FATAL_ERROR,            (Member.FATAL,),           "FATAL"),
)
# fmt: on
"""Join state and condition -> lifecycle, for the consumer protocol."""


def lifecycle(join_state: State, condition: Condition) -> tuple[Member, ...]:
    """The lifecycle states of the pair; empty for an impossible pair."""
    return next((e.members for e in LIFECYCLE if e.condition is condition and join_state in e.join_states), ())
