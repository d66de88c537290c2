"""What to try next: a sentence for each cause and kind of finding, with the setting to check.

`STEPS` is looked up by (kind, cause), then by cause, then by kind. `{setting}` is the name of the setting in the
member's protocol: in consumer groups (KIP-848) brokers set the session and the heartbeats.
"""

from __future__ import annotations

from typing import NamedTuple

from fsm.audit.findings import Cause, Finding, FindingKind


class Step(NamedTuple):
    sentence: str
    setting: str = ""
    """Its name in the classic protocol; empty if there is none."""
    hazard: str = ""
    """Anchor in diagrams/hazards.md of the behaviour of a Java client of KIP-848; empty if there is none."""


MAX_POLL_INTERVAL = "max.poll.interval.ms"
SESSION_TIMEOUT = "session.timeout.ms"
HEARTBEAT_INTERVAL = "heartbeat.interval.ms"
INSTANCE_ID = "group.instance.id"
CONNECT_PROTOCOL = "connect.protocol"
REBALANCE_DELAY = "scheduled.rebalance.max.delay.ms"
SHUTDOWN_TIMEOUT = "task.shutdown.graceful.timeout.ms"
BROKER_SETTINGS = {
    SESSION_TIMEOUT: "group.consumer.session.timeout.ms",
    HEARTBEAT_INTERVAL: "group.consumer.heartbeat.interval.ms",
}
"""The settings of consumer groups that replace classic ones."""

K, C = FindingKind, Cause
_STOP_IN_TIME = Step("Let the task's stop() end its work within {setting}", SHUTDOWN_TIMEOUT)
_SHORTEN_CALLBACK = Step(
    "Shorten the rebalance callback: commit and clean up outside of it, for the group waits no longer than {setting}",
    MAX_POLL_INTERVAL,
    "a7",
)

STEPS: dict[FindingKind | Cause | tuple[FindingKind, Cause], Step] = {
    # -- for any kind --
    C.NO_POLL: Step(
        "Let every poll come back within {setting}: fetch less at once (max.poll.records) or hand the work to another "
        "thread; raise {setting} only for work that has to take so long",
        MAX_POLL_INTERVAL,
        "a5",
    ),
    C.SLOW_CALLBACK: _SHORTEN_CALLBACK,
    C.SESSION_EXPIRED: Step(
        "See why the process was silent (garbage collection, a host that stood still, the network); raise {setting} "
        "only if such pauses are to be survived",
        SESSION_TIMEOUT,
    ),
    C.SHARED_INSTANCE: Step(
        "Give each process a {setting} of its own: while two have one, each puts the other out of the group",
        INSTANCE_ID,
    ),
    C.FENCED: Step(
        "See in the broker's log why the coordinator refused the member, and whether another process has its {setting}",
        INSTANCE_ID,
    ),
    C.FATAL_ERROR: Step("Put right what the error names, then restart the process: it does not come back by itself"),
    C.EARLY_JOIN: Step(
        "Restart the member, and start members of the consumer protocol only when the classic ones have their first "
        "generation",
        "group.protocol",
    ),
    C.CLOSE_HANGS: Step("Take a thread dump of the process that hangs in close(), end it, and give close() a timeout"),
    C.COORDINATOR_LOST: Step(
        "Look at the brokers first: the group's coordinator went away or could not be reached, and members cannot "
        "help that"
    ),
    C.LEFT_OUT: Step("Keep the assigned callback short and restore state outside of it; restart the former owner"),
    C.LATE_REQUEST: Step("Restart the member that the coordinator names as the owner: nothing else ends this"),
    C.UNTOLD: Step("Restart the member that the coordinator names as the owner, if its lag goes on growing"),
    C.STRANDED: Step(
        "Restart any member of the group now; keep {setting} at bidirectional", "group.consumer.migration.policy"
    ),
    C.OWED_JOIN: Step("Restart any member of the group now, or scale it: nothing else begins the next round"),
    C.NO_TARGET: Step("Restart the member once more, or remove it by its {setting}", INSTANCE_ID),
    C.FORGOTTEN: Step("Restart any member of the group now: nothing tells the one that waits"),
    C.LOST_ROUND: Step("Restart any member of the group now: nothing else begins the lost round again"),
    C.INTERRUPTED: Step(
        "Close the consumer after a WakeupException or InterruptException, or use a cooperative assignor",
        "partition.assignment.strategy",
    ),
    C.KILLED: Step(
        "See why the process ended without a close (out of memory, a forced stop); others wait for {setting} then",
        SESSION_TIMEOUT,
    ),
    C.STATIC_MEMBER_AWAY: Step(
        "Start the static member again within {setting}, or let it leave the group when it is gone for good",
        SESSION_TIMEOUT,
    ),
    C.HEARTBEAT_INTERVAL: Step("Nothing is wrong; a shorter {setting} shortens the hand-over", HEARTBEAT_INTERVAL),
    C.TOPIC_DELETED: Step("The group did as it should: find out who deleted the topic and created it again"),
    C.REVOKED: Step(
        "See what the next owner did between its heartbeats: a member takes part in a rebalance when it polls, at the "
        "latest after {setting}",
        MAX_POLL_INTERVAL,
    ),
    # -- Connect --
    C.SCHEDULED_DELAY: Step(
        "Bring the worker back before the delay is over, or lower {setting} where work must move sooner",
        REBALANCE_DELAY,
    ),
    C.NEW_WORK: Step("Wait for the workers to start it; if they do not, look at the connector's own log"),
    C.WORKER_STOPPED: Step("Set {setting} above the time of a restart if the work is to wait for it", REBALANCE_DELAY),
    C.WORKER_FROZEN: Step(
        "See why the worker's process stood still (garbage collection, its host); others take over after {setting}",
        SESSION_TIMEOUT,
    ),
    C.DELETED: Step("Restart the worker that runs it, now: nothing else tells it to stop, and REST knows no such task"),
    C.DOWNGRADED: Step("Set {setting} alike on all workers: one with eager takes the group back", CONNECT_PROTOCOL),
    K.CONFIG_LAG: Step(
        "See why the worker cannot read the config topic to its end within {setting}", "worker.sync.timeout.ms"
    ),
    **dict.fromkeys((K.TASK_ZOMBIE, (K.TASK_ZOMBIE, C.SLOW_CALLBACK), (K.RAN_TWICE, C.SLOW_CALLBACK)), _STOP_IN_TIME),
    (K.UNASSIGNED_WORK, C.FATAL_ERROR): Step("Put right what the connector's error names, then restart what failed"),
    (K.UNASSIGNED_WORK, C.REVOKED): Step(
        "See what the next worker did meanwhile: a task that does not stop holds a round up for {setting}",
        SHUTDOWN_TIMEOUT,
    ),
    # -- without a known cause, or if the kind is the cause --
    K.DOUBLE_OWNERSHIP: Step(
        "Put the broker's log or __consumer_offsets beside: they say to whom the coordinator gave the partitions"
    ),
    K.UNOWNED_PARTITION: Step("Put the broker's log beside: it says whom the coordinator gave the partitions"),
    K.LOST_WITHOUT_CALLBACK: Step(
        "Reset what the application keeps of these partitions itself: no callback told it to; a newer client may"
    ),
    K.PARTITIONS_LOST: Step("See in the broker's log why the coordinator removed the member"),
    K.MEMBERSHIP_LOST: Step("Collect its log at INFO: it says what the member owned, and what became of it"),
    K.COMMIT_REFUSED: Step(
        "See in the log above why the consumer was no longer a member, and process records twice safely"
    ),
    K.CALLBACK_NOT_OWNED: Step(
        "Let the callback pass over partitions that the application does not have: it is called for them all the same",
        "",
        "a21",
    ),
    K.LATE_LEAVE: Step(
        "Let the application poll while it leaves: until the leave is sent nobody else gets its partitions"
    ),
    K.MEMBER_OUT_FOR_GOOD: Step("Put right what the error names, then restart the process", "", "a15"),
    (K.MEMBER_OUT_FOR_GOOD, C.FATAL_ERROR): Step(
        "Put right what the error names, then restart the process: it does not come back by itself", "", "a15"
    ),
    K.FENCING_LOOP: Step("See in the broker's log why the coordinator refuses the member again and again"),
    K.LISTENER_ERROR: Step("Repair the rebalance callback: the client goes on without what it left undone", "", "a11"),
    K.SLOW_CALLBACK: _SHORTEN_CALLBACK,
    K.RAN_TWICE: Step("Look at the workers' lines around it: which one was not told to stop"),
    K.UNASSIGNED_WORK: Step("Look at the leader's rounds around it: which worker it gave the work to"),
    K.STUCK_STATE: Step(
        "Find the member that the group waited for: one whose callback runs, or that did not poll, within {setting}",
        MAX_POLL_INTERVAL,
    ),
    K.REBALANCE_STORM: Step(
        "Find what changes so often: members that restart, subscriptions, or topics that come and go"
    ),
    K.HEARTBEAT_GAP: Step(
        "See why the client was silent (garbage collection, a host that stood still, the network) for longer than "
        "{setting}",
        SESSION_TIMEOUT,
    ),
    K.ILLEGAL_TRANSITION: Step("Collect the lines that are missing around it, from a rotated file or at a lower level"),
    K.UNPARSED_LINES: Step(
        "Collect what is missing, and each log once; where lines are not understood, state their layout with --layout"
    ),
}
"""Every kind has a step, and every cause except the unknown ones."""


ERRORS = {
    "UNRELEASED_INSTANCE_ID": Step(
        "Stop the other process that has this {setting}, or wait for the end of its session before the restart",
        INSTANCE_ID,
        "a15",
    ),
    "FENCED_INSTANCE_ID": Step(
        "Give each process a {setting} of its own, and restart this one: another process took its place",
        INSTANCE_ID,
        "a15",
    ),
    "UNSUPPORTED_ASSIGNOR": Step("Name an assignor in {setting} that the broker has", "group.remote.assignor", "a15"),
    "GROUP_MAX_SIZE_REACHED": Step("Start fewer members, or raise {setting} on the brokers", "group.max.size", "a15"),
    "UNSUPPORTED_VERSION": Step("Set {setting} to what the brokers support", "group.protocol", "a15"),
    "AUTHORIZATION_FAILED": Step("Give the member's principal the rights that the error names, then restart it"),
}
"""Steps after fatal errors, by a part of the error's name."""


def step_of(found: Finding, cause: Cause) -> Step:
    if cause is Cause.FATAL_ERROR and found.kind is FindingKind.MEMBER_OUT_FOR_GOOD:
        named = next((step for error, step in ERRORS.items() if error in found.summary), None)
        if named is not None:
            return named
    return STEPS.get((found.kind, cause)) or STEPS.get(cause) or STEPS[found.kind]
