"""The rules in which dialects of the consumer member differ, one name for each.

Which dialect has which, and the rows of the table that some of them change, is in `fsm.member.dialect.dialect`.

Source: the membership classes of each release, compared with branch 4.4 at 87943b2ff874; the design notes of the
consumer threading refactor. `diagrams/dialects.md` lists the choices, `diagrams/hazards.md` the hazards H1 to H20 and
what real logs show (A5 to A21).
"""

from __future__ import annotations

from enum import Enum
from typing import Self


class Choice(Enum):
    """One rule in which dialects differ; the values of a member are its attributes."""

    meaning: str
    since: str
    """The first dialect that has it."""
    about: str
    """The hazards that it ends; for what a release brought in, the hazard that it brought."""
    ticket: str
    until: str
    """The dialect that gives it up again; empty where none does."""

    def __new__(cls, meaning: str, since: str, about: str = "", ticket: str = "", until: str = "") -> Self:
        member = object.__new__(cls)
        member._value_ = len(cls.__members__)
        member.meaning, member.since, member.ticket = meaning, since, ticket
        member.about, member.until = about, until
        return member

    __hash__ = object.__hash__

    # Releases
    POLL_TIMER = (
        "a member whose application does not poll in time leaves, and joins again at its next poll",
        "4.0.0",
        "",
        "KAFKA-15818",
        "document",
    )
    OPERATION = ("close() carries a membership operation, which decides what is sent", "4.1.0", "", "KIP-1092")
    RACK = ("a joining heartbeat names the client's rack", "4.1.0")
    LEAVE_ENDED_BY_NEGATIVE_EPOCH = (
        "only a response with a negative epoch ends a leave, and such an epoch is never adopted",
        "4.1.0",
        "H1",
        "KAFKA-19335",
    )
    FATAL_ENDS_LEAVE = (
        "a fatal error in UNSUBSCRIBED ends the leave, or releases what is assigned",
        "4.1.0",
        "H19",
        "KAFKA-19300",
    )
    STATIC_REMAIN_LEAVES = ("a static member closed with REMAIN_IN_GROUP counts as leaving", "4.2.0")
    JITTER = (
        "the backoff varies by 20 %; before, it varied by the poll interval, and was mostly zero or its maximum",
        "4.2.0",
        "",
        "KAFKA-19813",
    )
    ASYNC_POLL = ("poll() does not wait for the background thread", "4.2.0")
    REVOKE_IN_POLL = ("a reconciliation that revokes starts only in a poll, also without auto-commit", "4.2.1")
    LATE_GROUP_NOT_FOUND = ("GROUP_ID_NOT_FOUND is no error once the member has left", "4.2.1")
    APPLY_IN_APPLICATION = (
        "the application's thread applies an assignment inside poll(); before, the background thread did",
        "4.3.0",
        "H17",
        "KAFKA-20106",
    )
    UNHEARD_AT_ONCE = (
        "without a listener the application's thread itself completes a step of a reconciliation, bypassing the queue",
        "4.3.0",
        "H18",
        "",
        "fixed",
    )
    MARK_LOST = ("partitions are marked before they are lost", "4.3.0")
    UNSUBSCRIBED_WAITS = ("an application outside the group is not woken by heartbeats", "4.3.0")
    COLLECT_GATE = ("poll() returns no records while a reconciliation may be about to revoke", "4.3.1")
    WAIT_GUARD = (
        "while the coordinator is unknown, the application waits for an interval instead of spinning",
        "4.4.0",
        "",
        "KAFKA-20253",
    )
    ONE_PARTIAL_ACK = (
        "the resolvable part of an assignment is acknowledged once per local epoch",
        "4.4.0",
        "H3",
        "KAFKA-20145",
    )

    # What `fixed` has beside them: tickets are not known of any
    JOIN_AFTER_RELEASES = (
        "a join waits for the callbacks of the previous membership, and so does unsubscribe() of a fenced member",
        "fixed",
        "H2 H2b",
    )
    HELD_IS_OWNED = ("an assignment counts as held only if exactly its partitions are owned", "fixed", "H4")
    LEAVE_AT_SHUTDOWN = (
        "a background thread that stops sends the leave, even if a callback is still running",
        "fixed",
        "H5",
    )
    LAST_SUBSCRIPTION_COUNTS = (
        "a subscription made while leaving is kept; one that was withdrawn is forgotten, also in STALE",
        "fixed",
        "H6 H10",
    )
    KEPT_IS_UNMARKED = ("partitions that a later target keeps are no longer pending revocation", "fixed", "H7")
    ANSWERS_NUMBERED = (
        "only the response to the last heartbeat counts, and only while it is awaited",
        "fixed",
        "H12 H14 H15",
    )
    BACKOFF_WHEN_JOINING = ("joining and acknowledging wait for the backoff after a failure", "fixed", "H13")
    REMAIN_IS_SILENT = ("a dynamic member closed to remain in the group sends no leave", "fixed", "H16")
    OUTDATED_IS_SKIPPED = (
        "an assignment of a reconciliation that is over is neither applied nor passed to a callback",
        "fixed",
        "H17",
    )
    REMOVED_ONCE = (
        "no partition is passed to two removal callbacks: a revoked partition is given up when its callback ends",
        "fixed",
        "A7 A21",
    )
    RAISED_IS_CALLED = (
        "a callback that throws counts as called: poll() throws, and the reconciliation continues",
        "fixed",
        "A11",
    )
    CLOSE_ASKS_MEMBER = (
        "close() runs a callback for what the application holds; the lost one if the membership has ended",
        "fixed",
        "H20 A21",
    )

    REPORTS_WHAT_IS_ASSIGNED = ("a list of owned partitions also names those that are being assigned", "fixed", "W1 W9")
    FULL_WHILE_IN_DOUBT = ("heartbeats are full as long as one that timed out may still be handled", "fixed", "W8")
    ANOTHER_ID_IS_ANOTHER_TOPIC = (
        "a topic recreated under another id is not fetched until it is assigned; commits name the ids assigned",
        "fixed",
        "W23",
    )
    POLL_TIMER_WHILE_LEAVING = (
        "unsubscribe() resets the poll timer, which keeps running: a member whose callback takes longer leaves",
        "fixed",
        "W22",
    )

    INTERRUPTED_IS_CALLED = (
        "a classic member's callback that an interrupt or a wakeup ends counts as called, as one that throws does",
        "fixed",
        "W27",
    )

    # What the design notes decide otherwise, or ask
    JOIN_ON_SUBSCRIBE = ("subscribe() joins, without waiting for a poll", "document")
    STABLE_WHEN_SENT = ("a member is STABLE once its joining heartbeat is generated", "document")
    HEARTBEAT_ON_CHANGE = (
        "a changed subscription is sent at once, not with the next heartbeat on the interval",
        "document",
    )
    SUBSCRIBE_ENDS_FATAL = ("another subscription takes a member out of FATAL: it may try again", "document")
    CANCEL_RUN = (
        "leaving and being fenced cancel a reconciliation; otherwise it continues to its next step and ends there",
        "document",
    )
    COMMIT_ON_UNSUBSCRIBE = ("unsubscribe() commits what was consumed, if commits are automatic", "document")
