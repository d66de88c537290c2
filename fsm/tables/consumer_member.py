"""The KIP-848 consumer member as the Java client of Kafka 4.4 runs it: every state, every way between states.

Source: `ConsumerMembershipManager`, `AbstractMembershipManager`, `MemberState`, `ConsumerHeartbeatRequestManager`,
`AbstractHeartbeatRequestManager` and the `events` package of apache/kafka, branch 4.4 at 87943b2ff874.

How to read a row. The steps are the client's own, in its order: a state among them is a transition made at that
point, an effect is carried out in the state that holds there. Three conventions keep a cell complete:

* The effects of every failed heartbeat are in every row of an `ERR_*` event: first `WIPE_SENT`, `FAIL_REQUEST`,
  at the end `RUN_FAILURE_HOOK`. Only if a transition is refused are the later steps missing, since an exception skips
  them in Kafka, too.
* What is decided before an event exists belongs to its emission and is part of the event's meaning, not of rows: a
  poll renews the poll timer and consumes the subscription flag; a successful response adopts the heartbeat interval
  and closes the request, even if the membership then drops it; a tick without a coordinator passes on a fatal error
  of the search for one; an attempt to reconcile requests the missing topic names. Ignored cells have no effect at all.
* Some effects need nothing from the application if there is nothing to release or to commit. The event that reports
  their end is then due inside the row, before its next step: `LOST_DONE_FENCE`, `LOST_DONE_FATAL`,
  `LOST_DONE_STALE` after the three `RELEASE_LOST_*`, `COMMIT_DONE_*` after `COMMIT_CONSUMED`.

Log lines are not effects. A row without effects still handles its event; its note says how.

Kafka attempts some transitions that its own relation forbids. The exception is swallowed and the steps before it
remain done: these cells are rows that stay, with the clause `ILL/...`.

Clauses: U J R A S F P L X Z are rows of one state (UNSUBSCRIBED, JOINING, RECONCILING, ACKNOWLEDGING, STABLE,
FENCED, PREPARE_LEAVING, LEAVING, FATAL, STALE), M those of a member, G those of nearly every state. Notes name
hazards H2 to H20, probably unintended behaviour of 4.4; the table keeps it.
"""

from __future__ import annotations

from fsm.table import Symbol, Table, ignore, row


class State(Symbol):
    """The state of the member; the names are those of `MemberState`."""

    UNSUBSCRIBED = "Not in the group: never joined, or left. The leave response may still be in flight."
    JOINING = "Joins with heartbeats of epoch 0, one after the other, until the coordinator answers."
    RECONCILING = "A member whose target differs from what it holds: it commits, revokes and assigns step by step."
    ACKNOWLEDGING = "The reconciliation is over; the next heartbeat reports at once what is now owned."
    STABLE = "A member that holds its target and sends heartbeats at the interval."
    FENCED = "Fenced by the coordinator; waits until the lost callback has returned, then rejoins."
    PREPARE_LEAVING = "Leaving; the application's callback for the release has not returned; still sends heartbeats."
    LEAVING = "All partitions are given up; the leave heartbeat is sent next."
    FATAL = "An error ended the membership permanently; only a new consumer can join."
    STALE = "Left because the application did not poll in time; rejoins on a poll after the lost callback."


class Event(Symbol):
    """What happened to the member, decisions included."""

    # Application queue
    SUBSCRIBE = "The application changed or repeated its subscription, or a poll re-evaluated its pattern."
    POLL_JOIN = "A poll consumed the flag of an updated subscription, in UNSUBSCRIBED."
    POLL_FLAG_LOST = "A poll consumed that flag in any other state."
    POLL_LATE = "A poll came after the poll timer had run out, in a state other than STALE; the poll renews the timer."
    POLL_LATE_RELEASED = "A poll came after the poll timer had run out, in STALE with the release done."
    POLL_LATE_PENDING = "A poll came after the poll timer had run out, in STALE with the release still open."
    UNSUBSCRIBE = "unsubscribe() of a consumer that is not an active member (any state but the four of a member)."
    UNSUBSCRIBE_CB = "unsubscribe() by a member that owns partitions and has a listener."
    UNSUBSCRIBE_NOCB = "unsubscribe() by a member without partitions or without a listener."
    CLOSE_LEAVE = "close() asks to leave and carries the membership operation; its callbacks ran before."
    APPLY_ASSIGNMENT = "Inside poll() the application asks to apply the assignment it was sent; no state is checked."
    APPLY_REJECTED = "The application asks for that under a subscription whose partitions the group does not assign."
    # Reconciliation: one attempt in each tick, and one in each poll, which alone may commit and revoke
    REC_NONE = "An attempt finds target and current assignment equal."
    REC_BUSY = "An attempt finds a run open."
    REC_WAITING = "An attempt resolves only what is held and acknowledged already; names of the rest are missing."
    REC_DEFERRED = "An attempt in a tick would have to commit or revoke, which only a poll may start."
    REC_PARTIAL_ACK = "An attempt resolves exactly the partitions held, under a local epoch not acknowledged yet."
    REC_START = "An attempt finds work it may do."
    COMMIT_DONE_REVOKE = "The commit before a run ended, successfully or not; a listener is called first."
    COMMIT_DONE_ASSIGN = "The commit before a run ended, successfully or not; no revoked callback is needed."
    REVOKED_OK = "The run's revoked callback returned without error; still RECONCILING and not rejoined."
    ASSIGNED_OK = "The run's assignment was applied and its callback returned; still RECONCILING and not rejoined."
    RUN_FAILED = "A callback of the run threw, applying failed, or unsubscribe() skipped the assignment event."
    RUN_STEP_STALE = "A step of a run ended well, but the member is not RECONCILING any more or has rejoined since."
    # Releases
    LEAVE_CB_DONE = "The callback for the release before leaving returned, with or without an error."
    LOST_DONE_FENCE = "The release after fencing is over: the lost callback returned, or none was needed."
    LOST_DONE_FATAL = "The release after a fatal error is over."
    LOST_DONE_STALE = "The release after the poll expiry is over, and no late poll has asked to rejoin."
    LOST_DONE_STALE_REJOIN = "The release after the poll expiry is over, and a late poll has asked to rejoin."
    # Heartbeat tick: exactly one of these in each loop of the background thread; close() adds the last
    TICK_SKIP = "No coordinator is known, or the member is in a state that sends no heartbeat."
    LEAVE_SKIPPED = "No coordinator is known while LEAVING."
    POLL_EXPIRED = "The poll timer ran out, and the member is not leaving already."
    HB_IDLE = "No heartbeat is due: interval or backoff not over, or one is in flight."
    HB_SENT = "A heartbeat is generated in a state that has no event of its own for it."
    ACK_SENT = "A heartbeat is generated in ACKNOWLEDGING, and the target is what is held."
    ACK_SENT_TARGET_MOVED = "A heartbeat is generated in ACKNOWLEDGING, but the target has moved on."
    LEAVE_SENT = "The leave heartbeat is generated in LEAVING."
    CLOSE_FLUSH_LEAVE = "The background thread shuts down before a pending leave was sent."
    # Responses without error; the response adopted the heartbeat interval and ended its request
    RESP_LEAVE_DONE = "A response with a negative epoch in UNSUBSCRIBED, with the leave still pending."
    RESP_NEGATIVE = "A response with a negative epoch anywhere else."
    RESP_EPOCH = "A response with an epoch of 0 or more and no assignment."
    RESP_SAME = "A response whose assignment leaves the target equal to what is held."
    RESP_NEW = "A response whose assignment makes the target differ from what is held."
    # Failed heartbeats
    ERR_FENCE = "FENCED_MEMBER_EPOCH or UNKNOWN_MEMBER_ID."
    ERR_FATAL = "An error that a retry cannot fix, of the broker or of the transport (other than ERR_FATAL_LATE)."
    ERR_FATAL_LATE = "An error that a retry cannot fix, in UNSUBSCRIBED with no leave pending."
    ERR_RETRY = "A retriable error of the coordinator or transport; GROUP_ID_NOT_FOUND in UNSUBSCRIBED too."
    ERR_TOPIC_AUTH = "TOPIC_AUTHORIZATION_FAILED: shown to the application, and retried."


class Effect(Symbol):
    """What the client does."""

    # Epoch
    ADOPT_EPOCH = "Take the member epoch of the response; tell the epoch listeners if it differs."
    RESET_EPOCH = "Set the epoch to 0; tell the epoch listeners 'none' if it differs."
    SET_LEAVE_EPOCH = "Set the epoch to -1, or -2 for a static member that keeps its place; tell 'none' if it differs."
    NOTIFY_NO_EPOCH = "Tell the epoch listeners 'none'; epoch and member id keep their values."
    # Subscription and assignment
    STORE_SUBSCRIPTION = "Store the topics or the pattern of the subscription."
    FLAG_SUBSCRIPTION = "Raise the flag of an updated subscription, for the next poll."
    UNSUBSCRIBE_ALL = "Empty the subscription: topics, pattern, owned partitions, published topic ids, type."
    CLEAR_ASSIGNMENT = (
        "Forget current and target assignment and the learnt topic names. Under a group subscription also "
        "empty the owned partitions and tell the assignment listener (after UNSUBSCRIBE_ALL: no notice, H20)."
    )
    NOTIFY_EMPTY_ASSIGNMENT = "Tell the assignment listener that nothing is assigned."
    BUMP_TARGET = (
        "If the received partitions differ, store them as target under the next local epoch; publish their ids."
    )
    DROP_TARGET = "Forget the target assignment and the learnt topic names."
    ADOPT_CURRENT = "What was resolved is now the current assignment, under the target's local epoch."
    DROP_CURRENT = "Forget the current assignment."
    PRUNE_NAMES = "Keep only the topic names that the assignment needs."
    SET_OWNED = "Own the full set of the assignment; partitions owned before keep their flags."
    MARK_ADDED = "Flag the added partitions as pending their assigned callback: not fetchable yet."
    NOTIFY_ASSIGNMENT = "Tell the assignment listener the full set."
    REJECT_ASSIGNMENT = "Fail the application's call; it reports RUN_FAILED and poll() throws."
    ENABLE_ASSIGNED = "Clear the flag that MARK_ADDED sets, on the whole resolved set and not only on what was added."
    # A reconciliation run
    OPEN_RUN = "A run is open, and nothing has rejoined since."
    MARK_REVOKED = "Flag the run's revoked partitions as pending revocation: not fetchable from here."
    COMMIT_CONSUMED = (
        "With auto-commit, commit all consumed offsets with retries until the rebalance timeout; COMMIT_DONE_* "
        "reports the end, at once where nothing is to be sent."
    )
    ENQUEUE_REVOKED = "Ask the application for the revoked callback over the run's revoked partitions that are owned."
    ENQUEUE_ASSIGNED = "Send the application the full and the added set; sent even if nothing is added."
    RESET_AUTO_COMMIT = "Restart the auto-commit interval."
    END_RUN = "No run is open."
    MARK_REJOINED = "If a run is open, note that the member rejoined since it began."
    # Releases
    MARK_OWNED = "If the epoch is positive, flag every owned partition as pending revocation."
    ENQUEUE_REMOVED_LEAVE = (
        "Ask the application to release what is owned before leaving: the revoked callback with a positive "
        "epoch, else the lost one; LEAVE_CB_DONE reports its end."
    )
    RELEASE_LOST_FENCE = (
        "Flag every owned partition as pending revocation and ask for the lost callback over them; "
        "LOST_DONE_FENCE reports the end, at once where nothing is owned or nobody listens."
    )
    RELEASE_LOST_FATAL = "Release in the way of RELEASE_LOST_FENCE; LOST_DONE_FATAL reports the end."
    RELEASE_LOST_STALE = (
        "Release in the way of RELEASE_LOST_FENCE and remember it as the stale release; "
        "LOST_DONE_STALE or LOST_DONE_STALE_REJOIN reports the end."
    )
    REGISTER_REJOIN = "When the stale release ends, rejoin."
    COMPLETE_STALE_RELEASE = "The stale release is done: a late poll need not wait for it."
    # Leaving
    STORE_OPERATION = (
        "Store the membership operation of close(); it decides the leave epoch and what counts as leaving."
    )
    CREATE_LEAVE = "Open the leave: the caller waits for its end."
    AWAIT_LEAVE = "Let the caller wait for the end of the leave that is open."
    COMPLETE_LEAVE = "End the open leave, if there is one: its callers return."
    COMPLETE_CALL = "The caller returns at once; there is nothing to wait for."
    NOTE_POLL_EXPIRED = "Note that the poll timer is why the member leaves."
    # Heartbeats
    SEND_FULL_HEARTBEAT = "Generate a heartbeat with every field and nothing owned, whatever was sent before."
    SEND_DELTA_HEARTBEAT = "Generate a heartbeat with the current epoch and only what changed since the last."
    SEND_ACK_HEARTBEAT = "Generate a heartbeat with the current epoch, what changed, and so the current assignment."
    SEND_LEAVE_HEARTBEAT = "Generate the heartbeat with the leave epoch."
    SEND_LEAVE_HEARTBEAT_UNWATCHED = (
        "Generate the leave heartbeat, even with another in flight; its response is logged and is no event."
    )
    SEND_HEARTBEAT_UNWATCHED = "Generate a heartbeat with the current epoch; its response is logged and is no event."
    WIPE_SENT = "Forget the content of the last heartbeat: the next one is full."
    FAIL_REQUEST = "Count a failed attempt: none in flight, longer backoff, heartbeat timer at 0."
    RESET_REQUEST = "Nothing in flight, no attempts counted, no backoff left."
    FORGET_COORDINATOR = (
        "Where the error says that the coordinator is wrong or away, forget it and reset the request; a "
        "disconnect forgets it and keeps the backoff."
    )
    ENQUEUE_ERROR = "Send the application the error; poll() throws it."
    RUN_FAILURE_HOOK = (
        "Unless the failure is retriable, count a failed rebalance if one is open; then, in UNSUBSCRIBED, end the "
        "open leave if there is one."
    )


S, E, F = State, Event, Effect

MEMBER = (S.JOINING, S.RECONCILING, S.ACKNOWLEDGING, S.STABLE)
NOT_IN_GROUP = (S.UNSUBSCRIBED, S.FENCED, S.FATAL, S.STALE)
ON_THE_WAY_OUT = (S.PREPARE_LEAVING, S.LEAVING)


def _but(*left_out: State) -> tuple[State, ...]:
    return tuple(s for s in State if s not in left_out)


# Sequences that the client has in one place, too.
FAILED = (F.WIPE_SENT, F.FAIL_REQUEST)
BEGIN_JOIN = (F.MARK_REJOINED, F.RESET_EPOCH, S.JOINING, F.DROP_TARGET)
NEW_TARGET = (F.ADOPT_EPOCH, F.BUMP_TARGET, S.RECONCILING)
GIVE_UP = (F.UNSUBSCRIBE_ALL, F.CLEAR_ASSIGNMENT)
ENTER_LEAVING = (F.SET_LEAVE_EPOCH, F.DROP_CURRENT, S.LEAVING)
NOT_A_MEMBER = (F.UNSUBSCRIBE_ALL, F.NOTIFY_EMPTY_ASSIGNMENT, F.COMPLETE_CALL)
SEND_LAST = (F.NOTE_POLL_EXPIRED, S.PREPARE_LEAVING, *ENTER_LEAVING, F.SEND_LEAVE_HEARTBEAT_UNWATCHED)
ENTER_STALE = (*SEND_LAST, S.STALE, F.RELEASE_LOST_STALE, F.RESET_REQUEST, F.WIPE_SENT)
ENTER_FENCED = (*FAILED, S.FENCED, F.RESET_EPOCH, F.RELEASE_LOST_FENCE, F.RESET_REQUEST, F.RUN_FAILURE_HOOK)
ENTER_FATAL = (*FAILED, F.ENQUEUE_ERROR, S.FATAL, F.NOTIFY_NO_EPOCH, F.RELEASE_LOST_FATAL, F.RUN_FAILURE_HOOK)
ENTER_FATAL_LEAVING = (*FAILED, F.ENQUEUE_ERROR, S.FATAL, F.NOTIFY_NO_EPOCH, F.COMPLETE_LEAVE, F.RUN_FAILURE_HOOK)
RETRY_LATER = (*FAILED, F.FORGET_COORDINATOR, F.RUN_FAILURE_HOOK)
SURFACE_ERROR = (*FAILED, F.ENQUEUE_ERROR, F.RUN_FAILURE_HOOK)

# fmt: off
TABLE = Table(
    name="consumer-member",
    title="Consumer member, KIP-848, as in Kafka 4.4",
    source="ConsumerMembershipManager, ConsumerHeartbeatRequestManager and their bases; "
           "apache/kafka, branch 4.4 at 87943b2ff874",
    doc="The member of the consumer group protocol (KIP-848) inside the Java client. States change on the background "
        "thread; the application's polls, calls and finished callbacks reach it as events of a queue. "
        "Clauses are rows of the client's lifecycle: U J R A S F P L X Z for one state, M for the four states of a "
        "member, G for nearly all; ILL where Kafka attempts a transition that its own relation forbids and swallows "
        "the exception. MemberState also allows six changes that are never made: JOINING and RECONCILING to STABLE, "
        "PREPARE_LEAVING and LEAVING to FENCED, PREPARE_LEAVING to UNSUBSCRIBED, UNSUBSCRIBED to PREPARE_LEAVING. "
        "A self transition JOINING to JOINING is possible (two late polls that both wait for one lost callback); "
        "it is the second rejoin of that callback's end and no row of its own.",
    initial=S.UNSUBSCRIBED,
    terminal=(S.FATAL,),
    effects=Effect,
    events=Event,
    rows=(
    #   in state            on event                    does, in this order, and goes through

    # UNSUBSCRIBED
    row(S.UNSUBSCRIBED,     E.POLL_JOIN,                *BEGIN_JOIN, clause="U1"),
    row(S.UNSUBSCRIBED,     E.UNSUBSCRIBE,              *NOT_A_MEMBER, clause="U2",
        note="The flag of an updated subscription is not cleared: the next poll may join without one (H10)."),
    row(S.UNSUBSCRIBED,     E.CLOSE_LEAVE,              F.STORE_OPERATION, *NOT_A_MEMBER, clause="U2"),
    row(S.UNSUBSCRIBED,     E.RESP_LEAVE_DONE,          F.COMPLETE_LEAVE, clause="U3"),
    row(S.UNSUBSCRIBED,     E.ERR_FENCE,                *FAILED, F.RESET_REQUEST, F.RUN_FAILURE_HOOK, clause="U4",
        note="The hook ends the leave: it failed, but the member is out."),
    row(S.UNSUBSCRIBED,     E.ERR_RETRY,                *RETRY_LATER, clause="U5", note="The hook ends the leave."),
    row(S.UNSUBSCRIBED,     E.ERR_TOPIC_AUTH,           *SURFACE_ERROR, clause="U6", note="The hook ends the leave."),
    row(S.UNSUBSCRIBED,     E.ERR_FATAL,                *ENTER_FATAL_LEAVING, clause="U7", note="No callback."),
    row(S.UNSUBSCRIBED,     E.ERR_FATAL_LATE,           *ENTER_FATAL, clause="U8",
        note="Releases whatever is assigned, partitions that the application assigned by hand too, which then stay "
             "pending revocation for good (H15)."),
    row(S.UNSUBSCRIBED,     E.LEAVE_CB_DONE,            *GIVE_UP, clause="U9",
        note="The member was fenced out while the callback ran; a subscription made since is wiped (H2)."),

    # JOINING
    row(S.JOINING,          E.HB_SENT,                  F.SEND_FULL_HEARTBEAT, clause="J1",
        note="As soon as none is in flight; interval and backoff are not looked at (H13)."),
    row(S.JOINING,          E.RESP_NEW,                 *NEW_TARGET, clause="J2",
        note="Responses carry no incarnation: one from before a leave is believed too (H12)."),

    # RECONCILING
    row(S.RECONCILING,      E.RESP_NEW,                 *NEW_TARGET, clause="R1",
        note="A transition onto itself, logged as one; an open run goes on and acknowledges its own set."),
    row(S.RECONCILING,      E.REC_PARTIAL_ACK,          F.ADOPT_CURRENT, S.ACKNOWLEDGING, clause="R2",
        note="Compares with the current assignment, not with what is owned: after a failed assigned callback and a "
             "target that went back, it acknowledges less than is owned (H4)."),
    row(S.RECONCILING,      E.REC_START,                F.OPEN_RUN, F.MARK_REVOKED, F.COMMIT_CONSUMED, clause="R3",
        note="Marked before the commit, so that positions stand still while it runs. Nobody clears the flag of a "
             "partition that a later target keeps (H7)."),
    row(S.RECONCILING,      E.COMMIT_DONE_REVOKE,       F.MARK_REVOKED, F.ENQUEUE_REVOKED, clause="R4"),
    row(S.RECONCILING,      E.COMMIT_DONE_ASSIGN,       F.MARK_REVOKED, F.ENQUEUE_ASSIGNED, F.PRUNE_NAMES, clause="R5",
        note="Marks only where partitions are revoked without a callback."),
    row(S.RECONCILING,      E.REVOKED_OK,               F.ENQUEUE_ASSIGNED, F.PRUNE_NAMES, clause="R6",
        note="Without a listener this runs on the application's thread (H18)."),
    row(S.RECONCILING,      E.ASSIGNED_OK,
        F.ADOPT_CURRENT, F.RESET_AUTO_COMMIT, S.ACKNOWLEDGING, F.END_RUN, F.ENABLE_ASSIGNED, clause="R7",
        note="One step: nothing comes between acknowledging and enabling. Without a listener it runs on the "
             "application's thread (H18)."),
    row(S.RECONCILING,      E.RUN_FAILED,               F.END_RUN, clause="R8",
        note="Added partitions that are owned by now stay not fetchable until a run succeeds; the next attempt starts "
             "from the beginning."),
    row((S.RECONCILING, S.STABLE), E.HB_SENT,           F.SEND_DELTA_HEARTBEAT, clause="R9"),
    row(S.RECONCILING,      E.RESP_SAME,                F.ADOPT_EPOCH, F.BUMP_TARGET, S.STABLE, clause="R10",
        note="A late callback of an earlier life had made what is held equal to this target (H2b)."),

    # ACKNOWLEDGING and STABLE
    row(S.ACKNOWLEDGING,    E.ACK_SENT,                 F.SEND_ACK_HEARTBEAT, S.STABLE, clause="A1",
        note="The state ends when the heartbeat is generated, not when it is answered; backoff is not looked at "
             "(H13)."),
    row(S.ACKNOWLEDGING,    E.ACK_SENT_TARGET_MOVED,    F.SEND_ACK_HEARTBEAT, S.RECONCILING, clause="A2"),
    row(S.ACKNOWLEDGING,    E.RESP_NEW,                 *NEW_TARGET, clause="A3",
        note="The acknowledgement is not lost: it goes out with the next heartbeat on the interval."),
    row((S.ACKNOWLEDGING, S.STABLE), E.RESP_SAME,       F.ADOPT_EPOCH, clause="A4"),
    row(S.STABLE,           E.RESP_NEW,                 *NEW_TARGET, clause="S1"),

    # Any of the four states of a member
    # The coordinator has already reassigned the partitions: they are lost, not revoked.
    row(MEMBER,             E.ERR_FENCE,                *ENTER_FENCED, clause="M1",
        note="The transition is logged with the old epoch. Where nothing has to be released, LOST_DONE_FENCE takes "
             "the member to JOINING before the request is reset."),
    row(MEMBER,             E.ERR_FATAL,                *ENTER_FATAL, clause="M2",
        note="An assignment that waits in the queue is applied later and stays (H17)."),
    row(_but(S.UNSUBSCRIBED), E.ERR_RETRY,              *RETRY_LATER, clause="M3"),
    row(_but(S.UNSUBSCRIBED), E.ERR_TOPIC_AUTH,         *SURFACE_ERROR, clause="M4",
        note="Tried again after the backoff, for as long as the error lasts."),
    row(MEMBER,             E.POLL_EXPIRED,             *ENTER_STALE, clause="M5",
        note="Three transitions in one step; the leave heartbeat is generated between them."),
    row(MEMBER,             E.UNSUBSCRIBE_NOCB,
        S.PREPARE_LEAVING, F.CREATE_LEAVE, F.MARK_OWNED, *GIVE_UP, *ENTER_LEAVING, clause="M6"),
    row(MEMBER,             E.UNSUBSCRIBE_CB,
        S.PREPARE_LEAVING, F.CREATE_LEAVE, F.MARK_OWNED, F.ENQUEUE_REMOVED_LEAVE, clause="M7"),
    row(MEMBER,             E.CLOSE_LEAVE,
        F.STORE_OPERATION, S.PREPARE_LEAVING, F.CREATE_LEAVE, *GIVE_UP, *ENTER_LEAVING, clause="M8",
        note="No callback and no commit here: close() has done both. The application's record of its assignment is "
             "not emptied (H20)."),
    row(MEMBER,             E.RESP_NEGATIVE,            F.COMPLETE_LEAVE, clause="M9",
        note="The epoch is not adopted."),
    row(MEMBER,             E.RESP_EPOCH,               F.ADOPT_EPOCH, clause="M10",
        note="In JOINING the epoch becomes positive without an assignment; a late response from an earlier "
             "incarnation does the same (H12)."),

    # FENCED
    row(S.FENCED,           E.LOST_DONE_FENCE,          F.CLEAR_ASSIGNMENT, *BEGIN_JOIN, clause="F1"),
    row(S.FENCED,           E.UNSUBSCRIBE,              F.CLEAR_ASSIGNMENT, S.UNSUBSCRIBED, *NOT_A_MEMBER, clause="F2"),
    row(S.FENCED,           E.CLOSE_LEAVE,
        F.STORE_OPERATION, F.CLEAR_ASSIGNMENT, S.UNSUBSCRIBED, *NOT_A_MEMBER, clause="F2"),
    row(S.FENCED,           E.ERR_FENCE,                *ENTER_FENCED, clause="M1/FENCED",
        note="A transition onto itself that releases again. Derived: it needs two requests outstanding and was never "
             "observed."),

    # PREPARE_LEAVING
    row(S.PREPARE_LEAVING,  E.LEAVE_CB_DONE,            *GIVE_UP, *ENTER_LEAVING, clause="P1"),
    row(S.PREPARE_LEAVING,  E.ERR_FENCE,
        *FAILED, *ENTER_LEAVING, S.UNSUBSCRIBED, F.COMPLETE_LEAVE, F.RESET_REQUEST, F.RUN_FAILURE_HOOK, clause="P2",
        note="No leave heartbeat and no lost callback; what is owned stays until U9. unsubscribe() returns while its "
             "callback may still be queued (H2)."),
    row(S.PREPARE_LEAVING,  E.ERR_FATAL,                *ENTER_FATAL_LEAVING, clause="P3", note="No further callback."),
    row(S.PREPARE_LEAVING,  E.HB_SENT,                  F.SEND_DELTA_HEARTBEAT, clause="P4"),
    row(ON_THE_WAY_OUT,     E.UNSUBSCRIBE,              F.AWAIT_LEAVE, clause="P5",
        note="After P7 there is no leave left to wait for, and the call fails."),
    row(ON_THE_WAY_OUT,     E.CLOSE_LEAVE,              F.STORE_OPERATION, F.AWAIT_LEAVE, clause="P5"),
    row(S.PREPARE_LEAVING,  (E.RESP_EPOCH, E.RESP_NEW, E.RESP_SAME), F.ADOPT_EPOCH, clause="P6",
        note="An assignment is not looked at."),
    row(S.PREPARE_LEAVING,  E.RESP_NEGATIVE,            F.COMPLETE_LEAVE, clause="P7",
        note="Ends the leave early, on a response that does not belong to it."),
    row(S.PREPARE_LEAVING,  E.CLOSE_FLUSH_LEAVE,        F.SEND_HEARTBEAT_UNWATCHED, clause="P8",
        note="Carries the current epoch, so it is not a leave (H5)."),
    row(S.PREPARE_LEAVING,  E.POLL_EXPIRED,             *ENTER_STALE, clause="M5/PREPARE_LEAVING",
        note="Begins with a transition onto itself. Only for a dynamic member closed with REMAIN_IN_GROUP after an "
             "unsubscribe() was abandoned."),

    # LEAVING
    row(S.LEAVING,          E.LEAVE_SENT,               F.SEND_LEAVE_HEARTBEAT, S.UNSUBSCRIBED, clause="L1",
        note="The leave stays open until the response. A dynamic member closed with REMAIN_IN_GROUP sends it too, "
             "though only with none in flight (H16)."),
    row(S.LEAVING,          E.LEAVE_SKIPPED,            S.UNSUBSCRIBED, F.COMPLETE_LEAVE, clause="L2"),
    row(S.LEAVING,          E.ERR_FENCE,
        *FAILED, S.UNSUBSCRIBED, F.COMPLETE_LEAVE, F.RESET_REQUEST, F.RUN_FAILURE_HOOK, clause="L3"),
    row(S.LEAVING,          E.ERR_FATAL,                *ENTER_FATAL_LEAVING, clause="L4"),
    row(S.LEAVING,          E.CLOSE_FLUSH_LEAVE,        F.SEND_LEAVE_HEARTBEAT_UNWATCHED, S.UNSUBSCRIBED, clause="L5"),
    row(S.LEAVING,          E.LEAVE_CB_DONE,            *GIVE_UP, *ENTER_LEAVING, clause="G9",
        note="A transition onto itself; rare."),

    # FATAL
    row(S.FATAL,            E.LOST_DONE_FATAL,          F.CLEAR_ASSIGNMENT, clause="X1"),
    row(S.FATAL,            E.UNSUBSCRIBE,              *NOT_A_MEMBER, clause="X2"),
    row(S.FATAL,            E.CLOSE_LEAVE,              F.STORE_OPERATION, *NOT_A_MEMBER, clause="X2"),
    row(S.FATAL,            E.ERR_FATAL,                *ENTER_FATAL, clause="X3",
        note="A transition onto itself that releases again."),
    row(S.FATAL,            E.LEAVE_CB_DONE,            *GIVE_UP, clause="X4", note="No leave is sent."),

    # STALE
    row(S.STALE,            E.POLL_LATE_RELEASED,       *BEGIN_JOIN, clause="Z1"),
    row(S.STALE,            E.POLL_LATE_PENDING,        F.REGISTER_REJOIN, clause="Z2"),
    row(S.STALE,            E.LOST_DONE_STALE,          F.CLEAR_ASSIGNMENT, F.COMPLETE_STALE_RELEASE, clause="Z3"),
    row(S.STALE,            E.LOST_DONE_STALE_REJOIN,
        F.CLEAR_ASSIGNMENT, F.COMPLETE_STALE_RELEASE, *BEGIN_JOIN, clause="Z4",
        note="It is the completed release that starts the join."),
    row(S.STALE,            E.UNSUBSCRIBE,              *NOT_A_MEMBER, clause="Z5",
        note="Stays STALE: a later poll joins again, without a subscription (H10)."),
    row(S.STALE,            E.CLOSE_LEAVE,              F.STORE_OPERATION, *NOT_A_MEMBER, clause="Z5"),

    # Nearly every state
    row(_but(),             E.SUBSCRIBE,                F.STORE_SUBSCRIPTION, F.FLAG_SUBSCRIPTION, clause="G1",
        note="A member sends the change with its next heartbeat on the interval."),
    row(_but(S.UNSUBSCRIBED), E.POLL_FLAG_LOST,         clause="G2",
        note="Orders nothing, and the flag is gone: one who subscribed while leaving never joins (H6)."),
    row(_but(S.STALE),      E.POLL_LATE,                clause="G3", note="Orders nothing; a warning is logged."),
    row(_but(S.ACKNOWLEDGING, S.STABLE), E.APPLY_ASSIGNMENT,
        F.SET_OWNED, F.MARK_ADDED, F.NOTIFY_ASSIGNMENT, clause="G4",
        note="Outside RECONCILING it is an assignment of the past that is applied all the same (H17)."),
    row(_but(S.ACKNOWLEDGING, S.STABLE), E.APPLY_REJECTED, F.REJECT_ASSIGNMENT, clause="G5"),
    row(_but(S.ACKNOWLEDGING, S.STABLE), E.RUN_STEP_STALE, F.END_RUN, clause="G6",
        note="Nothing of the run is applied. Without a listener it runs on the application's thread (H18)."),
    row(_but(S.RECONCILING, S.ACKNOWLEDGING, S.STABLE), E.RUN_FAILED, F.END_RUN, clause="G7"),
    row(_but(S.FENCED),     E.LOST_DONE_FENCE,          F.CLEAR_ASSIGNMENT, clause="G8",
        note="Late: the state has changed, yet a newer target and what is owned by now are wiped (H2b)."),

    # Transitions that Kafka attempts and refuses itself
    row((*MEMBER, S.FENCED, S.STALE), E.LEAVE_CB_DONE,  *GIVE_UP, F.SET_LEAVE_EPOCH, F.DROP_CURRENT,
        clause="ILL/leave_cb_done",
        note="The change to LEAVING is refused in silence; subscription and assignment are wiped and the epoch is "
             "negative, in the old state (H2)."),
    row(S.LEAVING,          E.POLL_EXPIRED,             F.NOTE_POLL_EXPIRED, clause="ILL/poll_expired",
        note="The change to PREPARE_LEAVING is refused and logged in every loop. Only for a dynamic member closed with "
             "REMAIN_IN_GROUP (H16)."),
    row((S.FATAL, S.STALE), E.ERR_FENCE,                *FAILED, clause="ILL/err_fence",
        note="The change to FENCED is refused in silence; neither reset nor hook follows (H14)."),
    row((S.FENCED, S.STALE), E.ERR_FATAL,               *FAILED, F.ENQUEUE_ERROR, clause="ILL/err_fatal",
        note="The change to FATAL is refused in silence; the application gets the error all the same (H14)."),

    # Expected, without effect
    ignore(NOT_IN_GROUP,    (E.RESP_NEGATIVE, E.RESP_EPOCH, E.RESP_SAME, E.RESP_NEW), clause="i1",
           why="a late response: not in the group any more"),
    ignore(S.LEAVING,       (E.RESP_NEGATIVE, E.RESP_EPOCH, E.RESP_SAME, E.RESP_NEW), clause="i2",
           why="a late response: the member is leaving already"),
    ignore(S.RECONCILING,   E.REC_NONE, clause="i3", why="the target is held already"),
    ignore(S.RECONCILING,   E.REC_BUSY, clause="i3", why="one run at a time; the open one is not interrupted"),
    ignore(S.RECONCILING,   E.REC_WAITING, clause="i3",
           why="what can be resolved is acknowledged; the rest waits for metadata"),
    ignore(S.RECONCILING,   E.REC_DEFERRED, clause="i3", why="commits and revocations start in a poll, not in a tick"),
    ignore(_but(S.LEAVING), E.TICK_SKIP, clause="i3", why="nobody to send a heartbeat to, or no reason to send one"),
    ignore((*MEMBER, *ON_THE_WAY_OUT), E.HB_IDLE, clause="i3", why="the heartbeat is not due yet"),
    ),
)
# fmt: on
