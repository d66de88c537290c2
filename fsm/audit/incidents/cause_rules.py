"""Rules that group findings by cause, tried from the top.

The findings of a rule's `core` that follow each other within a time are one incident, in the whole group, or per
member, connector or `group.instance.id`. The incident also takes consequences without a known cause that overlap it in
time: those in `also` if they are about one of its members, those in `around` about any member. A finding belongs to the
first rule that takes it; one that no rule takes is an incident by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from fsm.audit.findings import Cause, FindingKind
from fsm.audit.incidents.next_steps import HEARTBEAT_INTERVAL, MAX_POLL_INTERVAL, REBALANCE_DELAY, SESSION_TIMEOUT

K, C = FindingKind, Cause
What = FindingKind | Cause | tuple[FindingKind, Cause]
"""Findings of a kind, of a cause, or of both."""


class Scope(StrEnum):
    GROUP = "group"
    MEMBER = "member"
    CONNECTOR = "connector"
    INSTANCE = "instance"
    """Members that shared a group.instance.id, during that time."""
    COORDINATOR = "coordinator"
    """Members that knew no coordinator, during that time."""
    SEESAW = "seesaw"
    """Two members that took partitions from each other, each more than once."""


class Rule(NamedTuple):
    scope: Scope
    core: tuple[What, ...]
    sentence: str = ""
    """The incident's sentence, with `{who}` and `{setting}`; empty for the summary of the worst finding."""
    within: str = ""
    """The setting whose value limits the time between two core findings; empty for `SETTLED_MS`."""
    also: tuple[What, ...] = ()
    around: tuple[What, ...] = ()
    cause: Cause | None = None
    """The incident's cause; None for that of its worst core finding."""


def _without_cause(kinds: Iterable[FindingKind]) -> tuple[What, ...]:
    return tuple((kind, cause) for kind in kinds for cause in (C.NONE, C.UNKNOWN))


FOLLOWS = _without_cause(
    (
        K.DOUBLE_OWNERSHIP,
        K.UNOWNED_PARTITION,
        K.LOST_WITHOUT_CALLBACK,
        K.PARTITIONS_LOST,
        K.MEMBERSHIP_LOST,
        K.COMMIT_REFUSED,
        K.CALLBACK_NOT_OWNED,
        K.LATE_LEAVE,
        K.FENCING_LOOP,
        K.STUCK_STATE,
        K.HEARTBEAT_GAP,
        K.REBALANCE_STORM,
    )
)
"""Consequences whose cause is not in the logs."""
LOSSES = (C.NO_POLL, C.SESSION_EXPIRED, C.FENCED)
"""Causes for which a blocked member is removed."""
OTHERS_WAIT = _without_cause([K.STUCK_STATE])
"""A rebalance waits for all members; a waiting member's log does not show for which."""
WAITED: tuple[What, ...] = ((K.UNASSIGNED_WORK, C.REVOKED), (K.UNASSIGNED_WORK, C.HEARTBEAT_INTERVAL))
"""Work of Connect that was revoked and waited for the round that reassigned it."""

WEAK_SPOTS = (
    *(C.LEFT_OUT, C.LATE_REQUEST, C.UNTOLD, C.STRANDED, C.EARLY_JOIN, C.OWED_JOIN, C.NO_TARGET, C.FORGOTTEN, C.DELETED),
    *(C.LOST_ROUND, C.INTERRUPTED),
)
"""Causes with a number in `diagrams/hazards.md`."""

RULES = (
    Rule(
        Scope.INSTANCE,
        (C.FENCED, (K.MEMBER_OUT_FOR_GOOD, C.FATAL_ERROR)),
        "{who} had one {setting} at the same time, and only one of them can be a member",
        SESSION_TIMEOUT,
        (*FOLLOWS, C.FATAL_ERROR),
        cause=C.SHARED_INSTANCE,
    ),
    # The same for clients that do not print their instance ids.
    Rule(
        Scope.SEESAW,
        tuple((K.DOUBLE_OWNERSHIP, cause) for cause in (C.FENCED, C.SESSION_EXPIRED, C.UNKNOWN)),
        "{who} took partitions from each other again and again, as two processes with one {setting} do",
        SESSION_TIMEOUT,
        (*FOLLOWS, C.FENCED, C.SESSION_EXPIRED),
        cause=C.SHARED_INSTANCE,
    ),
    # Hazards with a number.
    *(Rule(Scope.GROUP, (cause,)) for cause in WEAK_SPOTS),
    Rule(
        Scope.COORDINATOR,
        (C.COORDINATOR_LOST, C.SESSION_EXPIRED, C.FENCED),
        "{who} could not reach the group's coordinator",
        SESSION_TIMEOUT,
        around=(*FOLLOWS, *WAITED, K.TASK_ZOMBIE, C.SESSION_EXPIRED, (K.UNASSIGNED_WORK, C.SCHEDULED_DELAY)),
        cause=C.COORDINATOR_LOST,
    ),
    # A member that is removed repeatedly, for several reasons.
    Rule(
        Scope.MEMBER,
        ((K.FENCING_LOOP, C.UNKNOWN),),
        "{who} lost its place in the group again and again",
        also=(*FOLLOWS, *LOSSES, C.SLOW_CALLBACK, K.SLOW_CALLBACK),
    ),
    Rule(
        Scope.GROUP,
        (K.TASK_ZOMBIE, (K.RAN_TWICE, C.SLOW_CALLBACK)),
        "tasks on {who} did not stop within {setting}",
        MAX_POLL_INTERVAL,
        around=WAITED,
    ),
    Rule(
        Scope.GROUP,
        (K.SLOW_CALLBACK, C.SLOW_CALLBACK),
        "rebalance callbacks of {who} took longer than {setting}",
        MAX_POLL_INTERVAL,
        (*FOLLOWS, *LOSSES, (K.UNOWNED_PARTITION, C.REVOKED)),
        OTHERS_WAIT,
        cause=C.SLOW_CALLBACK,
    ),
    Rule(Scope.GROUP, (C.NO_POLL,), "{who} did not poll within {setting}", MAX_POLL_INTERVAL, FOLLOWS, OTHERS_WAIT),
    Rule(
        Scope.GROUP,
        (C.SESSION_EXPIRED, K.HEARTBEAT_GAP),
        "the coordinator heard nothing from {who} within {setting}",
        SESSION_TIMEOUT,
        FOLLOWS,
        cause=C.SESSION_EXPIRED,
    ),
    Rule(Scope.CONNECTOR, ((K.UNASSIGNED_WORK, C.FATAL_ERROR),), within=REBALANCE_DELAY),
    Rule(Scope.MEMBER, (C.FATAL_ERROR,), also=(*FOLLOWS, (K.LOST_WITHOUT_CALLBACK, C.CLOSE_HANGS))),
    Rule(
        Scope.GROUP,
        (C.FENCED,),
        "the coordinator put {who} out of the group",
        SESSION_TIMEOUT,
        FOLLOWS,
    ),
    Rule(Scope.MEMBER, (C.CLOSE_HANGS,), "close() of {who} did not come back"),
    # Connect: the work of a worker that is away.
    Rule(Scope.MEMBER, (C.WORKER_FROZEN,), "{who} stood still", MAX_POLL_INTERVAL),
    Rule(Scope.GROUP, (C.DOWNGRADED,), "the group went back to the eager protocol", REBALANCE_DELAY),
    Rule(
        Scope.GROUP,
        tuple((K.UNASSIGNED_WORK, cause) for cause in (C.SCHEDULED_DELAY, C.WORKER_STOPPED, C.KILLED)),
        "{who} went away",
        around=WAITED,
    ),
    Rule(Scope.GROUP, (C.NEW_WORK,), "new work was not started at once"),
    Rule(
        Scope.MEMBER,
        (K.CONFIG_LAG,),
        "{who} could not catch up with the config topic",
        REBALANCE_DELAY,
        (K.REBALANCE_STORM, K.UNASSIGNED_WORK),
    ),
    Rule(
        Scope.GROUP,
        WAITED,
        "{who} had to let go, and the next workers took long",
    ),
    # Hand-overs of consumers.
    Rule(Scope.GROUP, (C.KILLED,), "the logs of {who} end without a close"),
    Rule(Scope.GROUP, (C.STATIC_MEMBER_AWAY,), "{who}, as static members, left what they had for their return"),
    Rule(Scope.GROUP, (C.TOPIC_DELETED,), "the topic of what {who} had was deleted, and created again"),
    Rule(Scope.GROUP, (C.REVOKED,), "{who} gave partitions up when asked, and the next owners took long"),
    Rule(
        Scope.GROUP,
        (C.HEARTBEAT_INTERVAL,),
        "{who} gave partitions up when asked, and the next owners heard of it later",
    ),
    # Kinds that are their own cause, or without a known one.
    Rule(
        Scope.GROUP,
        (K.LISTENER_ERROR,),
        "rebalance callbacks of {who} raised errors",
        MAX_POLL_INTERVAL,
        _without_cause((K.CALLBACK_NOT_OWNED, K.STUCK_STATE)),
    ),
    Rule(
        Scope.GROUP, (K.STUCK_STATE,), "{who} waited in one state for longer than {setting}", MAX_POLL_INTERVAL, FOLLOWS
    ),
    Rule(Scope.GROUP, (K.LOST_WITHOUT_CALLBACK,), "no callback told {who} of what was taken", MAX_POLL_INTERVAL),
    Rule(
        Scope.MEMBER,
        (K.ILLEGAL_TRANSITION,),
        "steps of {who} are missing, or are none that its table has",
        SESSION_TIMEOUT,
    ),
    *(Rule(Scope.MEMBER, (kind,), within=HEARTBEAT_INTERVAL) for kind in K if kind is not K.UNPARSED_LINES),
)
