"""States in which a member stays longer than its configuration allows, or in which it cannot have ended.

Every state on the way to an assignment, or out of the group, is left within the rebalance timeout: the
coordinator throws a member out that takes longer. Where a classic member waits for the others it is the longest timeout
in the group that counts; this log tells only its own, so the others are taken to have Kafka's default at least. Resting
states, and STALE (the application does not poll), last as long as they last.

A consumer that was closed has left its group: where the last line of its chain says otherwise, lines are missing.
"""

from __future__ import annotations

from collections.abc import Iterator

from fsm.audit.chain import Chain
from fsm.audit.findings import Cause, Finding, FindingKind, finding
from fsm.audit.life import Living
from fsm.audit.limits import DEFAULT_MAX_POLL_INTERVAL_MS
from fsm.audit.rows import Hop, Place
from fsm.audit.wording import seconds

PASSING = frozenset(
    {
        "JOINING",
        "RECONCILING",
        "ACKNOWLEDGING",
        "PREPARE_LEAVING",
        "LEAVING",
        "FENCED",
        "PREPARING_REBALANCE",
        "COMPLETING_REBALANCE",
        "WAIT_JOIN",
        "WAIT_METADATA",
        "WAIT_SYNC",
        "WAIT_ASSIGN_CALL",
        "WAIT_UNASSIGN_CALL",
        "WAIT_UNASSIGN_TO_COMPLETE",
        "WAIT_INCR_UNASSIGN_TO_COMPLETE",
    }
)
"""States that a healthy member only passes through, as the tables name them."""
FOR_OTHERS = frozenset({"PREPARING_REBALANCE", "COMPLETING_REBALANCE", "WAIT_JOIN", "WAIT_SYNC"})
"""States in which a classic member waits until every member has joined, or until the leader has assigned."""


def stuck_before(hop: Hop, living: Living) -> Iterator[Finding]:
    """The finding for the state that this hop leaves, if it was held too long."""
    if hop.dwell_ms is not None:
        yield from _judge(hop.state, hop.ts_ms - hop.dwell_ms, hop.ts_ms, hop.place, living)


def stuck_at_end(chain: Chain, living: Living) -> Iterator[Finding]:
    """The findings for the states in which a life ends, if they were held too long."""
    for link in chain.links.values():
        yield from _judge(link.state, link.since_ms, living.last_ms, living.last, living)


RESTING = frozenset({"UNSUBSCRIBED", "FATAL", "STALE", "UNJOINED", "INIT"})
"""States in which recordings of closed consumers end."""


def closed_in_between(chain: Chain, living: Living) -> Iterator[Finding]:
    """The findings for machines that were on their way when their consumer was closed."""
    for machine, link in chain.links.items():
        if living.stays or link.state in RESTING or link.moved or not living.unbroken(link.file, living.last.file):
            continue
        yield finding(
            FindingKind.ILLEGAL_TRANSITION,
            living.group,
            living.member,
            living.last_ms,
            living.last_ms,
            summary=f"{living.member} was closed, but its last step left it {link.state}; "
            f"lines of {machine} are missing",
            places=[living.last],
        )


def _judge(state: str, start_ms: int, end_ms: int, place: Place, living: Living) -> Iterator[Finding]:
    waits = state in FOR_OTHERS
    limit_ms = max(living.rebalance_timeout_ms, DEFAULT_MAX_POLL_INTERVAL_MS if waits else 0)
    if state not in PASSING or end_ms - start_ms <= limit_ms:
        return
    yield finding(
        FindingKind.STUCK_STATE,
        living.group,
        living.member,
        start_ms,
        end_ms,
        summary=f"{living.member} was {state} for {seconds(end_ms - start_ms)}; "
        + (f"the group waits {seconds(limit_ms)}" if waits else f"its rebalance timeout is {seconds(limit_ms)}"),
        cause=Cause.UNKNOWN,
        places=[place],
    )
