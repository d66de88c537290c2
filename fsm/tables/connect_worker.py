"""A worker of a distributed Connect cluster: a classic member whose assignment is connectors and tasks.

Source: KIP-415 and `DistributedHerder`, `WorkerCoordinator`, `AbstractCoordinator` of apache/kafka at 1eb7644, held
against recordings of 4.3.1 workers; unchanged in 4.4. Clauses "row n" number the transitions that a reading of these
classes gave (`tests/tables/test_connect_worker.py` lists them), "1.4" are the errors of the group's requests
(`diagrams/clauses.md`), "logs n" corrections by the recordings, "code" is what only the sources tell.

Guards are names here: whether a round revokes, how the config offset compares, which protocol rules, how many retries
remain. What is data of an effect is not: ADOPT_ASSIGNMENT replaces or merges as the elected protocol says, and
SET_DEADLINE sets none for a delay of 0.

One thread does all the work, a second one sends heartbeats. In LEADING, REVOKING, CATCHING_UP and STARTING the first is
busy: what the second learns (coordinator lost, poll timeout, heartbeat errors) changes membership at once and the
work in hand goes on. STARTED_REJOIN and STARTED_COORDINATOR_LOST are the ways out of such a round; rows 4 and 31 of the
reading went to UNJOINED or DISCONNECTED at once.

Where this table follows the recordings or the sources instead of that reading:

* Rows 15, 19: after a read to the end the check is not repeated; an offset that still differs, either way, means
  rejoin, without any pause. With two config topics in one group this is an endless loop of joins.
* Rows 14, 18: a failed assignment rejoins from inside the coordinator's poll. The herder's own path (catch up first)
  is in the sources and was never recorded; it is SYNCED_FAILED_CATCH_UP.
* Rows 19 to 23: a worker that timed out has left the group. Once it has caught up it joins; it does not go back to the
  checks. It leaves once, however often it times out, and has its five retries when it does.
* Row 2: a coordinator found again needs no join if the assignment was kept and nobody asked for a round.
* Row 3 is no guarantee: the thread that would notice may be busy, or blocked flushing statuses.
* Row 10: only a retriable exception of the assignor rejoins. Any other ends the herder, as every fatal error does.
* Row 16: a deadline that passes before the check also rejoins, starting nothing.
* Row 29: the rejoin is requested first; then tasks of changed connectors are stopped (cooperative only).
* Row 30: STOPPED is no pause. It empties the task set, which takes a round; the connector instance stays assigned.
* Fatal errors (1.4) end the herder thread. DOWN then means "no herder": the units were not stopped by it, and a
  recorded process still lived 16 s later. Only a new process starts again.

Not here: what a leader does beside the assignor (write privileges, session keys, deleting statuses).
"""

from __future__ import annotations

from fsm.table import Symbol, Table, ignore, row


class State(Symbol):
    """The state of a worker. The names are this table's: Connect has no such enumeration."""

    DOWN = "Not running, or its herder thread has ended."
    DISCONNECTED = "The group's coordinator is unknown; units keep running for now."
    UNJOINED = "A round is wanted; the join has not been sent."
    JOINING = "JoinGroup was sent."
    LEADING = "Elected leader; the assignor runs."
    SYNCING = "SyncGroup was sent."
    REVOKING = "Stopping the revoked units, before anything else of the round."
    CATCHING_UP = "Reading the config topic to its end."
    STARTING = "Starting the assigned units."
    ASSIGNED = "Runs all that it holds; no delayed round is due."
    DELAYED = "The same, and a delayed round is due at its deadline."
    BACKING_OFF = "Out of the group, pausing after a read of the config topic that took too long."


class Event(Symbol):
    """What happened to the worker, decisions included."""

    START = "The worker process starts."
    STOP = "The worker is asked to stop."
    FATAL_ERROR = "An error that a retry cannot fix: refused by the group, or an exception in the worker's thread."
    # Coordinator
    COORDINATOR_LOST = "Connection lost, not the coordinator, not available, or no heartbeat answered in the session."
    COORDINATOR_FOUND = "The coordinator is known and a round is wanted or owed."
    COORDINATOR_FOUND_STILL_ASSIGNED = "It is known again; assignment and membership stand, no deadline."
    COORDINATOR_FOUND_STILL_DELAYED = "It is known again; assignment and membership stand, a deadline is set."
    DISCOVERY_FAILED_HOLDING = "No coordinator for a heartbeat interval, and the worker holds a good assignment."
    DISCOVERY_FAILED_UNFINISHED = "The same, eager, and the last round's work was never finished."
    DISCOVERY_FAILED_EMPTY_HANDED = "No coordinator for a heartbeat interval, and there is nothing to give up."
    # Join
    JOIN_DUE_EAGER = "Time to join; the last round was eager and the worker holds a good assignment."
    JOIN_DUE_EAGER_EMPTY_HANDED = "The same, but nothing is held, or the last round's work was never finished."
    JOIN_DUE_COOPERATIVE = "Time to join; the last round was cooperative."
    JOIN_DUE_AGAIN = "Time to join again: the last join was prepared and led to no completed sync."
    JOINED_FOLLOWER = "JoinGroup succeeded; another member leads."
    JOINED_LEADER = "JoinGroup succeeded; this worker leads."
    JOIN_NEEDS_MEMBER_ID = "JoinGroup was answered MEMBER_ID_REQUIRED with an id."
    JOIN_UNKNOWN_MEMBER = "JoinGroup was answered UNKNOWN_MEMBER_ID."
    JOIN_REBALANCE_IN_PROGRESS = "JoinGroup was answered REBALANCE_IN_PROGRESS."
    JOIN_LOADING = "JoinGroup was answered COORDINATOR_LOAD_IN_PROGRESS."
    ANSWER_STALE = "JoinGroup or SyncGroup was answered after the generation had been reset or left."
    # Leader
    ASSIGNOR_DONE = "The assignor returned assignments for all members."
    ASSIGNOR_FAILED_RETRIABLE = "The assignor raised an exception that may be retried."
    # Sync; the check of the config offset follows at once unless units have to be stopped first
    SYNCED_REVOKING = "SyncGroup succeeded, cooperative, and takes units away."
    SYNCED_READY = "SyncGroup succeeded, takes nothing away, and the config offset equals the assignment's."
    SYNCED_BEHIND = "The same, but the config offset is lower."
    SYNCED_AHEAD = "The same, but the config offset is higher."
    SYNCED_DELAY_OVER = "The same, but its delay has already passed."
    SYNCED_FAILED = "SyncGroup succeeded with a failed assignment: the leader lacked configs."
    SYNCED_FAILED_CATCH_UP = "The same, and the herder got to see it: it leads or is behind."
    SYNC_REBALANCE_IN_PROGRESS = "SyncGroup was answered REBALANCE_IN_PROGRESS."
    SYNC_ILLEGAL_GENERATION = "SyncGroup was answered ILLEGAL_GENERATION."
    SYNC_UNKNOWN_MEMBER = "SyncGroup was answered UNKNOWN_MEMBER_ID."
    REVOKED_READY = "The stops have ended, in time or not; the config offset equals the assignment's."
    REVOKED_BEHIND = "The stops have ended; the config offset is lower."
    REVOKED_AHEAD = "The stops have ended; the config offset is higher."
    REVOKED_DELAY_OVER = "The stops have ended; the delay of the round has passed meanwhile."
    # Catching up
    CAUGHT_UP = "Read to the end in time; the config offset equals the assignment's."
    CAUGHT_UP_MISMATCH = "Read to the end in time; the config offset still differs, either way."
    CAUGHT_UP_FAILED = "Read to the end in time, for an assignment that had failed."
    CAUGHT_UP_DELAY_OVER = "Read to the end in time, but the delay of the round has passed."
    CAUGHT_UP_OUTSIDE = "Read to the end in time, having left the group before."
    CATCH_UP_TIMED_OUT_EAGER = "The read took too long, in the group, under the eager protocol."
    CATCH_UP_TIMED_OUT_RETRY = "The read took too long, in the group, under a cooperative protocol."
    CATCH_UP_TIMED_OUT_AGAIN_EAGER = "The read took too long again, out of the group, eager."
    CATCH_UP_TIMED_OUT_AGAIN_RETRY = "The read took too long again, out of the group, cooperative, retries remain."
    CATCH_UP_TIMED_OUT_AGAIN_EXHAUSTED = "The read took too long again, cooperative, and no retry remains."
    BACKOFF_ELAPSED = "The pause is over."
    # Starting
    STARTED_REVOKED_BEFORE = "The starts have ended; the round had taken units away from this worker."
    STARTED = "The starts have ended; nothing was taken away and no delay is set."
    STARTED_DELAYED = "The starts have ended; nothing was taken away and a delay is set."
    STARTED_REJOIN = "The starts have ended; meanwhile a round was announced or the membership lost."
    STARTED_COORDINATOR_LOST = "The starts have ended; meanwhile the coordinator was lost."
    # Settled
    DELAY_REACHED = "The deadline of the delayed round has come."
    CONNECTORS_CHANGED = "The config topic brought a new connector or removed one."
    TASKS_RECONFIGURED_EAGER = "The config topic brought task configs, under the eager protocol."
    TASKS_RECONFIGURED_COOPERATIVE = "The config topic brought task configs, under a cooperative protocol."
    CONNECTOR_CONFIG_CHANGED = "The config topic brought a new config for an existing connector."
    TARGET_STATE_CHANGED = "The user paused or resumed a connector."
    CONNECTOR_STOPPED = "The user stopped a connector: its task set becomes empty."
    # Heartbeat thread
    HEARTBEAT_REBALANCE = "A heartbeat was answered REBALANCE_IN_PROGRESS."
    HEARTBEAT_ILLEGAL_GENERATION = "A heartbeat of the present generation was answered ILLEGAL_GENERATION."
    HEARTBEAT_UNKNOWN_MEMBER = "A heartbeat of the present generation was answered UNKNOWN_MEMBER_ID."
    HEARTBEAT_STALE = "One of these two came for a generation that is over."
    POLL_TIMEOUT = "The worker's thread did not poll within the rebalance timeout."


class Effect(Symbol):
    """What the worker does, in this order."""

    # Units
    STOP_HELD = "Stop all held units, each within the graceful timeout; wait until status updates are stored."
    STOP_REVOKED = "Stop the units taken away, each within the graceful timeout; a task may outlive it."
    STOP_RUNNING = "Stop every running unit."
    STOP_ALL = "Stop every connector and task of the process."
    STOP_RECONFIGURED_TASKS = "Stop the tasks of changed connectors; they restart if still held after the round."
    START_ASSIGNED = "Start what is held and not running, tasks to restart included."
    RESTART_CONNECTOR = "Restart the connector with its new config, if it runs here."
    APPLY_TARGET_STATE = "Hand the target state to the connector and its tasks here."
    FLUSH_STATUSES = "Wait until status updates are stored."
    # Assignment
    FORGET_HELD = "Nothing is held any more; the next join reports nothing."
    ADOPT_PROTOCOL = "protocol := the elected one."
    ADOPT_ASSIGNMENT = "held := assigned if eager, else (held - revoked) + assigned; the generation is completed."
    SET_DEADLINE = "deadline := now + delay, none for a delay of 0."
    CLEAR_DEADLINE = "deadline := none."
    RECORD_RUNNING = "running := held; empty under the eager protocol."
    CLEAR_REVOKED = "The held assignment's list of revoked units becomes empty."
    # Group
    FIND_COORDINATOR = "Look for the coordinator."
    MARK_COORDINATOR_UNKNOWN = "The coordinator is unknown from here on."
    REQUEST_REJOIN = "Flag that a round is wanted."
    DROP_LEADER_STATE = "Forget what this worker knew as leader."
    SEND_JOIN = "JoinGroup with a fresh config snapshot's offset and, unless its mode is eager, what is held."
    TAKE_MEMBER_ID = "Keep the id that was given."
    ENABLE_HEARTBEATS = "The heartbeat thread runs."
    SET_GENERATION = "generation and member id := those of the answer."
    RUN_ASSIGNOR = "Compute the assignments of all members, with the elected protocol."
    SEND_SYNC = "SyncGroup without assignments."
    SEND_SYNC_AS_LEADER = "SyncGroup with the assignments of all members."
    RESET_GENERATION = "Forget the generation, keep the member id."
    RESET_MEMBERSHIP = "Forget generation and member id."
    LEAVE_GROUP = "LeaveGroup, if the coordinator is known and there is a member id."
    WAIT_RETRY_BACKOFF = "The next join waits for the retry backoff."
    # Config topic and process
    READ_INTERNAL_TOPICS = "Read config, status and offset topics to their ends."
    READ_CONFIG_TO_END = "Read the config topic to its end, within the sync timeout."
    RESET_RETRIES = "retries := 5."
    PAUSE_UNSYNC_BACKOFF = "Pause for worker.unsync.backoff.ms."
    PAUSE_DELAY_FRACTION = "Pause for max delay / 10 / retries, integer division each time; retries -= 1."
    END_HERDER = "The herder thread ends; nothing is stopped by it and no leave is sent."


S, E, F = State, Event, Effect
BUSY = (S.LEADING, S.REVOKING, S.CATCHING_UP, S.STARTING)
IN_ROUND = (S.UNJOINED, S.JOINING, S.SYNCING, *BUSY)
SETTLED = (S.ASSIGNED, S.DELAYED)
UP = tuple(state for state in State if state is not S.DOWN)
BOTH_ERRORS = (E.HEARTBEAT_ILLEGAL_GENERATION, E.HEARTBEAT_UNKNOWN_MEMBER)
LOST = (F.MARK_COORDINATOR_UNKNOWN, S.DISCONNECTED, F.FIND_COORDINATOR)
ADOPT = (F.ADOPT_PROTOCOL, F.ADOPT_ASSIGNMENT, F.SET_DEADLINE)
MERGE = (F.FLUSH_STATUSES, F.ADOPT_ASSIGNMENT, F.SET_DEADLINE)
START = (S.STARTING, F.START_ASSIGNED)
READ = (S.CATCHING_UP, F.READ_CONFIG_TO_END)
REJOIN = (F.REQUEST_REJOIN, S.UNJOINED)
LEAVE = (F.LEAVE_GROUP, F.RESET_MEMBERSHIP, F.REQUEST_REJOIN)

# fmt: off
TABLE = Table(
    name="connect-worker",
    title="Connect worker",
    source="KIP-415; DistributedHerder, WorkerCoordinator and AbstractCoordinator of apache/kafka 1eb7644, 4.3.1 logs",
    doc=__doc__,
    initial=S.DOWN,
    effects=Effect,
    rows=(
        # Process
        row(S.DOWN, E.START,       F.READ_INTERNAL_TOPICS, F.REQUEST_REJOIN, S.DISCONNECTED, F.FIND_COORDINATOR,
            clause="row 1"),
        row(UP,     E.STOP,        F.STOP_ALL, F.LEAVE_GROUP, F.RESET_MEMBERSHIP, S.DOWN, clause="row 32"),
        row(UP,     E.FATAL_ERROR, F.END_HERDER, S.DOWN,
            clause="row 33, 1.4, logs 3",
            note="running units are left as they are; the process is asked to exit and was seen alive 16 s later"),

        # Coordinator
        row(S.DISCONNECTED, E.COORDINATOR_FOUND,                S.UNJOINED, clause="row 2"),
        row(S.DISCONNECTED, E.COORDINATOR_FOUND_STILL_ASSIGNED, S.ASSIGNED,
            clause="row 2, code", note="no join, though a first reading of the classes expected one"),
        row(S.DISCONNECTED, E.COORDINATOR_FOUND_STILL_DELAYED,  S.DELAYED,
            clause="row 2, code", note="no join, though a first reading of the classes expected one"),
        row(S.DISCONNECTED, E.DISCOVERY_FAILED_HOLDING,         F.STOP_HELD, F.FORGET_HELD,
            clause="row 3, logs 5", note="quick, about a heartbeat interval; may block on a broker that is gone"),
        row(S.DISCONNECTED, E.DISCOVERY_FAILED_UNFINISHED,      F.FORGET_HELD,              clause="row 3, code",
            note="an eager worker stops only work it had got to start"),
        ignore(S.DISCONNECTED, E.DISCOVERY_FAILED_EMPTY_HANDED,
            why="nothing to give up; the search goes on", clause="row 3"),
        row((S.UNJOINED, S.JOINING, S.SYNCING, *SETTLED), E.COORDINATOR_LOST, *LOST,
            clause="row 4, 1.4", note="units go on running"),
        row(BUSY, E.COORDINATOR_LOST, F.MARK_COORDINATOR_UNKNOWN,
            clause="row 4, code", note="noticed when the work in hand is done"),
        ignore((S.DISCONNECTED, S.BACKING_OFF), E.COORDINATOR_LOST,
            why="known to be unknown, or out of the group: it will be looked for before the next join", clause="row 4"),

        # Join
        row(S.UNJOINED, E.JOIN_DUE_EAGER,              F.DROP_LEADER_STATE, F.STOP_HELD, F.SEND_JOIN, S.JOINING,
            clause="row 5"),
        row(S.UNJOINED, E.JOIN_DUE_EAGER_EMPTY_HANDED, F.DROP_LEADER_STATE, F.SEND_JOIN, S.JOINING,
            clause="row 5"),
        row(S.UNJOINED, E.JOIN_DUE_COOPERATIVE,        F.DROP_LEADER_STATE, F.SEND_JOIN, S.JOINING,
            clause="row 6", note="everything keeps running"),
        row(S.UNJOINED, E.JOIN_DUE_AGAIN,              F.SEND_JOIN, S.JOINING,
            clause="code", note="a round is prepared once, however often its join is sent"),
        row(S.JOINING,  E.JOINED_FOLLOWER,             F.ENABLE_HEARTBEATS, F.SET_GENERATION, F.SEND_SYNC, S.SYNCING,
            clause="row 7"),
        row(S.JOINING,  E.JOINED_LEADER,               F.ENABLE_HEARTBEATS, F.SET_GENERATION, S.LEADING, F.RUN_ASSIGNOR,
            clause="row 8"),
        row(S.JOINING,  E.JOIN_NEEDS_MEMBER_ID,        F.TAKE_MEMBER_ID, F.SEND_JOIN, S.JOINING,   clause="1.4 join"),
        row(S.JOINING,  E.JOIN_UNKNOWN_MEMBER,         F.RESET_MEMBERSHIP, F.SEND_JOIN, S.JOINING, clause="1.4 join"),
        row(S.JOINING,  E.JOIN_REBALANCE_IN_PROGRESS,  F.SEND_JOIN, S.JOINING,                     clause="1.4 join"),
        row(S.JOINING,  E.JOIN_LOADING,                F.WAIT_RETRY_BACKOFF, *REJOIN,              clause="1.4 join"),
        row((S.JOINING, S.SYNCING), E.ANSWER_STALE,    *REJOIN,
            clause="1.4 sync, code"),

        # Leader
        row(S.LEADING,  E.ASSIGNOR_DONE,               F.SEND_SYNC_AS_LEADER, S.SYNCING, clause="row 9"),
        row(S.LEADING,  E.ASSIGNOR_FAILED_RETRIABLE,   *REJOIN,                          clause="row 10, code"),

        # Sync
        row(S.SYNCING,  E.SYNCED_REVOKING,        F.ADOPT_PROTOCOL, S.REVOKING, F.STOP_REVOKED,
            clause="row 11", note="also when the last round's work was never finished; may name units it never had"),
        row(S.SYNCING,  E.SYNCED_READY,           *ADOPT, *START,
            clause="rows 12, 17",
            note="a step from a cooperative to an eager round stops nothing here, so moved units run twice "
                 "(KAFKA-13816)"),
        row(S.SYNCING,  E.SYNCED_BEHIND,          *ADOPT, *READ,                      clause="rows 12, 15"),
        row(S.SYNCING,  E.SYNCED_AHEAD,           *ADOPT, *REJOIN,                    clause="rows 12, 16"),
        row(S.SYNCING,  E.SYNCED_DELAY_OVER,      *ADOPT, F.CLEAR_DEADLINE, *REJOIN,  clause="row 12, code"),
        row(S.SYNCING,  E.SYNCED_FAILED,          *ADOPT, *REJOIN,
            clause="rows 12, 14, logs 1", note="within 1 or 2 ms, without pause; kept units go on running"),
        row(S.SYNCING,  E.SYNCED_FAILED_CATCH_UP, *ADOPT, *READ,
            clause="rows 12, 14", note="in the sources, in no recording"),
        row(S.SYNCING,  E.SYNC_REBALANCE_IN_PROGRESS, *REJOIN,
            clause="1.4 sync", note="the generation is kept"),
        row(S.SYNCING,  E.SYNC_ILLEGAL_GENERATION, F.RESET_GENERATION, *REJOIN,       clause="1.4 sync"),
        row(S.SYNCING,  E.SYNC_UNKNOWN_MEMBER,     F.RESET_MEMBERSHIP, *REJOIN,       clause="1.4 sync"),
        row(S.REVOKING, E.REVOKED_READY,          *MERGE, *START,                     clause="rows 13, 17"),
        row(S.REVOKING, E.REVOKED_BEHIND,         *MERGE, *READ,                      clause="rows 13, 15"),
        row(S.REVOKING, E.REVOKED_AHEAD,          *MERGE, *REJOIN,                    clause="rows 13, 16"),
        row(S.REVOKING, E.REVOKED_DELAY_OVER,     *MERGE, F.CLEAR_DEADLINE, *REJOIN,  clause="row 13, code"),

        # Catching up with the config topic
        row(S.CATCHING_UP, E.CAUGHT_UP,            F.RESET_RETRIES, *START,                    clause="rows 17, 19"),
        row(S.CATCHING_UP, E.CAUGHT_UP_MISMATCH,   F.RESET_RETRIES, *REJOIN,
            clause="row 19, logs 1", note="may repeat for ever, dozens of joins a second"),
        row(S.CATCHING_UP, E.CAUGHT_UP_FAILED,     F.RESET_RETRIES, *REJOIN,                   clause="row 18"),
        row(S.CATCHING_UP, E.CAUGHT_UP_DELAY_OVER, F.CLEAR_DEADLINE, F.RESET_RETRIES, *REJOIN, clause="code"),
        row(S.CATCHING_UP, E.CAUGHT_UP_OUTSIDE,    F.RESET_RETRIES, *REJOIN,
            clause="row 19, logs 11, code"),
        row(S.CATCHING_UP, E.CATCH_UP_TIMED_OUT_EAGER,       *LEAVE, S.BACKING_OFF, F.PAUSE_UNSYNC_BACKOFF,
            clause="rows 20, 21"),
        row(S.CATCHING_UP, E.CATCH_UP_TIMED_OUT_RETRY,       *LEAVE, S.BACKING_OFF, F.PAUSE_DELAY_FRACTION,
            clause="rows 20, 22", note="with the default delay 6 s, then 7.5, 10, 15 and 30 s"),
        row(S.CATCHING_UP, E.CATCH_UP_TIMED_OUT_AGAIN_EAGER, S.BACKING_OFF, F.PAUSE_UNSYNC_BACKOFF,
            clause="row 21, logs 11"),
        row(S.CATCHING_UP, E.CATCH_UP_TIMED_OUT_AGAIN_RETRY, S.BACKING_OFF, F.PAUSE_DELAY_FRACTION,
            clause="row 22, logs 11"),
        row(S.CATCHING_UP, E.CATCH_UP_TIMED_OUT_AGAIN_EXHAUSTED, S.BACKING_OFF, F.STOP_RUNNING, F.RESET_RETRIES, *READ,
            clause="row 23, logs 11", note="no pause"),
        row(S.BACKING_OFF, E.BACKOFF_ELAPSED,                *READ,
            clause="rows 21, 22"),

        # Starting
        row(S.STARTING, E.STARTED_REVOKED_BEFORE,   F.RECORD_RUNNING, F.CLEAR_REVOKED, *REJOIN, clause="row 24"),
        row(S.STARTING, E.STARTED,                  F.RECORD_RUNNING, S.ASSIGNED,               clause="row 25"),
        row(S.STARTING, E.STARTED_DELAYED,          F.RECORD_RUNNING, S.DELAYED,                clause="row 26"),
        row(S.STARTING, E.STARTED_REJOIN,           F.RECORD_RUNNING, F.CLEAR_REVOKED, S.UNJOINED,
            clause="rows 28, 31, code"),
        row(S.STARTING, E.STARTED_COORDINATOR_LOST, F.RECORD_RUNNING, F.CLEAR_REVOKED, S.DISCONNECTED,
            F.FIND_COORDINATOR, clause="row 4, code"),

        # Settled
        row(S.DELAYED,      E.DELAY_REACHED,                  F.CLEAR_DEADLINE, *REJOIN,
            clause="row 27"),
        row(S.DISCONNECTED, E.DELAY_REACHED,                  F.CLEAR_DEADLINE, F.REQUEST_REJOIN,
            clause="row 27, code"),
        ignore((S.UNJOINED, S.JOINING, S.LEADING, S.SYNCING, S.REVOKING), E.DELAY_REACHED,
            why="a round is under way; its sync sets the deadline anew", clause="row 28"),
        ignore((S.CATCHING_UP, S.STARTING, S.BACKING_OFF), E.DELAY_REACHED,
            why="the thread is busy; the deadline stays and is looked at when it is done", clause="code"),
        row(SETTLED,        E.CONNECTORS_CHANGED,             *REJOIN,
            clause="row 29"),
        row(SETTLED,        E.TASKS_RECONFIGURED_EAGER,       *REJOIN,
            clause="row 29", note="the join stops everything"),
        row(SETTLED,        E.TASKS_RECONFIGURED_COOPERATIVE, F.REQUEST_REJOIN, F.STOP_RECONFIGURED_TASKS, S.UNJOINED,
            clause="row 29"),
        row(SETTLED,        E.CONNECTOR_CONFIG_CHANGED,       F.RESTART_CONNECTOR,
            clause="row 30"),
        row(SETTLED,        E.TARGET_STATE_CHANGED,           F.APPLY_TARGET_STATE,
            clause="row 30"),
        row(SETTLED,        E.CONNECTOR_STOPPED,              F.REQUEST_REJOIN, F.APPLY_TARGET_STATE, S.UNJOINED,
            clause="row 30, logs 4", note="resuming brings task configs, hence one more round"),
        row(S.DISCONNECTED, (E.CONNECTORS_CHANGED, E.TASKS_RECONFIGURED_EAGER), F.REQUEST_REJOIN,
            clause="row 29, code", note="the herder goes on with config changes; the round waits for the coordinator"),
        row(S.DISCONNECTED, E.TASKS_RECONFIGURED_COOPERATIVE, F.REQUEST_REJOIN, F.STOP_RECONFIGURED_TASKS,
            clause="row 29, code"),
        row(S.DISCONNECTED, E.CONNECTOR_CONFIG_CHANGED,       F.RESTART_CONNECTOR,
            clause="row 30, code"),
        row(S.DISCONNECTED, E.TARGET_STATE_CHANGED,           F.APPLY_TARGET_STATE,
            clause="row 30, code"),
        row(S.DISCONNECTED, E.CONNECTOR_STOPPED,              F.REQUEST_REJOIN, F.APPLY_TARGET_STATE,
            clause="logs 4, code"),

        # Heartbeat thread
        row(SETTLED, E.HEARTBEAT_REBALANCE,          *REJOIN, clause="row 28, 1.4 heartbeat"),
        row((S.REVOKING, S.CATCHING_UP, S.STARTING), E.HEARTBEAT_REBALANCE, F.REQUEST_REJOIN,
            clause="row 28, code", note="joined since the sync; the round follows the work in hand"),
        ignore((S.UNJOINED, S.JOINING, S.LEADING, S.SYNCING), E.HEARTBEAT_REBALANCE,
            why="about to join, or in the middle of that round", clause="1.4 heartbeat"),
        row(SETTLED, E.HEARTBEAT_ILLEGAL_GENERATION, F.RESET_GENERATION, *REJOIN, clause="1.4 heartbeat"),
        row(SETTLED, E.HEARTBEAT_UNKNOWN_MEMBER,     F.RESET_MEMBERSHIP, *REJOIN, clause="1.4 heartbeat"),
        row(IN_ROUND, E.HEARTBEAT_ILLEGAL_GENERATION, F.RESET_GENERATION, F.REQUEST_REJOIN,
            clause="1.4 heartbeat, code", note="a join or sync in flight comes back stale"),
        row(IN_ROUND, E.HEARTBEAT_UNKNOWN_MEMBER,     F.RESET_MEMBERSHIP, F.REQUEST_REJOIN,
            clause="1.4 heartbeat, code", note="a join or sync in flight comes back stale"),
        ignore((S.DISCONNECTED, S.BACKING_OFF), (E.HEARTBEAT_REBALANCE, *BOTH_ERRORS),
            why="an answer that was on its way when the coordinator was lost or the group left",
            clause="1.4 heartbeat"),
        ignore(UP,   E.HEARTBEAT_STALE, why="the generation has moved on since it was sent", clause="1.4 heartbeat"),
        row(SETTLED,                         E.POLL_TIMEOUT, *LEAVE, S.UNJOINED,
            clause="row 31", note="running units are not stopped"),
        row((S.UNJOINED, S.SYNCING, *BUSY),  E.POLL_TIMEOUT, *LEAVE,
            clause="row 31, code",
            note="the thread is busy stopping, assigning, reading or starting; it rejoins when done"),
    ),
)
# fmt: on
