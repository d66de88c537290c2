"""Dialects of the consumer member: named sets of choices, one for each release of Kafka and two beside them.

A choice is one rule in which dialects differ: what it says, since which dialect, its ticket, the hazards it is about.
Code asks `choice in dialect`; nothing else in the member knows a version. The dialects are a line: each has what those
before it have, less what it gives up. After the releases stand

* `fixed`: the latest release without any hazard that a client can avoid;
* `document`: the rules of the design documents where they say otherwise, on `fixed` where they are silent.

A set of one's own is made with `custom`: to leave a choice out, or to take one in, is to see what it changes. Where a
choice means other rows, `fsm.member.amendments` has them.

Source: the membership classes of each release, compared with branch 4.4 at 87943b2ff874; the hazards H1 to H20 of its
analysis; A5 to A21 of real logs; the design notes of the consumer threading refactor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property
from typing import Self

from fsm.errors import InputError
from fsm.table import Cell, Symbol, Table

RELEASES = ("4.0.0", "4.0.1", "4.0.2", "4.1.0", "4.1.1", "4.1.2", "4.2.0", "4.2.1", "4.3.0", "4.3.1", "4.4.0")
"""Releases with the consumer protocol, in their order."""

LATEST = RELEASES[-1]
FIXED, DOCUMENT = "fixed", "document"
DIALECTS = (*RELEASES, FIXED, DOCUMENT)
"""Every dialect by name, in their line."""


class Choice(Enum):
    """One rule in which dialects differ; the values of a member are its attributes."""

    meaning: str
    since: str
    """The first dialect that has it."""
    ticket: str
    about: str
    """The hazards that it ends; for what a release brought in, the hazard that it brought."""
    until: str
    """The dialect that gives it up again; empty where none does."""

    def __new__(cls, meaning: str, since: str, ticket: str = "", about: str = "", until: str = "") -> Self:
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
        "KAFKA-15818",
        "",
        "document",
    )
    OPERATION = ("close() carries a membership operation, and it decides what is sent", "4.1.0", "KIP-1092")
    RACK = ("a joining heartbeat names the client's rack", "4.1.0")
    LEAVE_ENDED_BY_NEGATIVE_EPOCH = (
        "only a response with a negative epoch ends a leave, and such an epoch is never adopted",
        "4.1.0",
        "KAFKA-19335",
        "H1",
    )
    FATAL_ENDS_LEAVE = (
        "a fatal error in UNSUBSCRIBED ends the leave, or releases what is assigned",
        "4.1.0",
        "KAFKA-19300",
        "H19",
    )
    STATIC_REMAIN_LEAVES = ("a static member closed with REMAIN_IN_GROUP counts as leaving", "4.2.0")
    JITTER = (
        "the backoff varies by a fifth; before, by the poll interval: mostly it was nothing at all or its cap",
        "4.2.0",
        "KAFKA-19813",
    )
    ASYNC_POLL = ("poll() does not wait for the background thread", "4.2.0")
    REVOKE_IN_POLL = ("a run that revokes starts in a poll only, also without auto-commit", "4.2.1")
    LATE_GROUP_NOT_FOUND = ("GROUP_ID_NOT_FOUND is no error once the member has left", "4.2.1")
    APPLY_IN_APPLICATION = (
        "the application applies an assignment inside poll(), after being sent it; before, the background did",
        "4.3.0",
        "KAFKA-20106",
        "H17",
    )
    UNHEARD_AT_ONCE = (
        "without a listener the application's thread itself ends a step of a run, past its own queue",
        "4.3.0",
        "",
        "H18",
        "fixed",
    )
    MARK_LOST = ("partitions are marked before they are lost", "4.3.0")
    UNSUBSCRIBED_WAITS = ("an application out of the group is not woken by heartbeats", "4.3.0")
    COLLECT_GATE = ("no records are handed out while a reconciliation may be about to revoke", "4.3.1")
    WAIT_GUARD = ("an unknown coordinator makes the application wait for an interval, not spin", "4.4.0", "KAFKA-20253")
    ONE_PARTIAL_ACK = ("what can be resolved is acknowledged once per local epoch", "4.4.0", "KAFKA-20145", "H3")

    # What `fixed` has beside them: tickets are not known of any
    JOIN_AFTER_RELEASES = (
        "a join waits for the callbacks of the membership before, and so does unsubscribe() where it is fenced",
        "fixed",
        "",
        "H2 H2b",
    )
    HELD_IS_OWNED = ("an assignment counts as held only where exactly it is owned", "fixed", "", "H4")
    LEAVE_AT_SHUTDOWN = (
        "a background thread that stops sends the leave, also where a callback is still open",
        "fixed",
        "",
        "H5",
    )
    LAST_SUBSCRIPTION_COUNTS = (
        "a subscription made while leaving is kept; one that was taken back is forgotten, also in STALE",
        "fixed",
        "",
        "H6 H10",
    )
    KEPT_IS_UNMARKED = ("what a later target keeps is not pending revocation any more", "fixed", "", "H7")
    ANSWERS_NUMBERED = (
        "only the answer to the last heartbeat counts, and only while it is waited for",
        "fixed",
        "",
        "H12 H14 H15",
    )
    BACKOFF_WHEN_JOINING = ("joining and acknowledging wait for the backoff after a failure", "fixed", "", "H13")
    REMAIN_IS_SILENT = ("a dynamic member closed to remain in the group sends no leave", "fixed", "", "H16")
    OUTDATED_IS_SKIPPED = (
        "an assignment of a run that is over is neither applied nor called back for",
        "fixed",
        "",
        "H17",
    )
    REMOVED_ONCE = (
        "no partition is called back twice for its removal: what a run revokes is given up when its callback ends",
        "fixed",
        "",
        "A7 A21",
    )
    RAISED_IS_CALLED = (
        "a callback that raised has been called: poll() throws, and the run goes on",
        "fixed",
        "",
        "A11",
    )
    CLOSE_ASKS_MEMBER = (
        "close() calls back for what the application holds, lost where the membership is gone",
        "fixed",
        "",
        "H20 A21",
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
        "leaving and being fenced cancel a reconciliation; else it goes on to its next step and ends there",
        "document",
    )
    COMMIT_ON_UNSUBSCRIBE = ("unsubscribe() commits what was consumed, if commits are automatic", "document")


@dataclass(frozen=True, eq=False)
class Dialect:
    """A named set of choices and the table they run on."""

    name: str
    choices: frozenset[Choice] = field(repr=False)
    table: Table = field(repr=False)

    def __contains__(self, choice: Choice) -> bool:
        return choice in self.choices

    @cached_property
    def cells(self) -> Mapping[Symbol, Mapping[Symbol, Cell]]:
        """The table by state and event, made for stepping."""
        return self.table.compiled.by_state

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return custom, (self.name, tuple(sorted(self.choices, key=lambda choice: choice.value)))


def choices_of(name: str) -> frozenset[Choice]:
    """The choices of a dialect: of those before it in the line, and its own, less what was given up by then."""
    at = DIALECTS.index(name)
    return frozenset(
        c for c in Choice if DIALECTS.index(c.since) <= at and not (c.until and DIALECTS.index(c.until) <= at)
    )


def custom(name: str, choices: Iterable[Choice]) -> Dialect:
    """A dialect of one's own, on the table that its choices mean; the same arguments give the same dialect."""
    return _made(name, frozenset(choices))


@cache
def _made(name: str, choices: frozenset[Choice]) -> Dialect:
    from fsm.member.amendments import amended  # noqa: PLC0415  # amendments are written in terms of choices

    return Dialect(name, choices, amended(choices))


def dialect(name: str = LATEST) -> Dialect:
    """The dialect of that name; `4.2` is its latest patch. Raises `InputError` naming the dialects there are."""
    matching = [d for d in DIALECTS if d == name or d.rpartition(".")[0] == name]
    if not name or not matching:
        raise InputError(f"unknown dialect {name!r}", remedy="one of " + ", ".join(DIALECTS))
    return custom(matching[-1], choices_of(matching[-1]))
