"""Dialects of the consumer member: the releases of Kafka as sets of named choices.

A choice is one way in which releases differ, with the release that brought it and its ticket where one is known.
Code asks `choice in dialect`; nothing else in the member knows a version. A new release is a line of `RELEASES`, a
new difference a member of `Choice`. Where a release has other rows, `EDITS` names them by their clause.

Source: the membership classes of each release, compared with branch 4.4 at 87943b2ff874.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache, cached_property
from typing import Self

from fsm.errors import InputError
from fsm.table import Cell, Row, Symbol, Table, row
from fsm.tables.consumer_member import ENTER_FATAL_LEAVING, TABLE, Effect, Event, State


class Choice(Enum):
    """One rule that differs between releases: what it is, since which release, the ticket."""

    meaning: str
    since: str | None
    ticket: str

    def __new__(cls, meaning: str, since: str | None, ticket: str = "") -> Self:
        member = object.__new__(cls)
        member._value_ = len(cls.__members__)
        member.meaning, member.since, member.ticket = meaning, since, ticket
        return member

    __hash__ = object.__hash__

    OPERATION = "close() carries a membership operation, and it decides what is sent", "4.1.0", "KIP-1092"
    RACK = "a joining heartbeat names the client's rack", "4.1.0"
    LEAVE_ENDED_BY_NEGATIVE_EPOCH = (
        "only a response with a negative epoch ends a leave, and such an epoch is never adopted",
        "4.1.0",
        "KAFKA-19335",
    )
    FATAL_ENDS_LEAVE = (
        "a fatal error in UNSUBSCRIBED ends the leave, or releases what is assigned",
        "4.1.0",
        "KAFKA-19300",
    )
    STATIC_REMAIN_LEAVES = "a static member closed with REMAIN_IN_GROUP counts as leaving", "4.2.0"
    JITTER = (
        "the backoff varies by a fifth; before, by the poll interval: mostly it was nothing at all or its cap",
        "4.2.0",
        "KAFKA-19813",
    )
    ASYNC_POLL = "poll() does not wait for the background thread", "4.2.0"
    REVOKE_IN_POLL = "a run that revokes starts in a poll only, also without auto-commit", "4.2.1"
    LATE_GROUP_NOT_FOUND = "GROUP_ID_NOT_FOUND is no error once the member has left", "4.2.1"
    APPLY_IN_APPLICATION = (
        "the application applies an assignment inside poll(), after being sent it; before, the background did",
        "4.3.0",
        "KAFKA-20106",
    )
    MARK_LOST = "partitions are marked before they are lost", "4.3.0"
    UNSUBSCRIBED_WAITS = "an application out of the group is not woken by heartbeats", "4.3.0"
    COLLECT_GATE = "no records are handed out while a reconciliation may be about to revoke", "4.3.1"
    WAIT_GUARD = "an unknown coordinator makes the application wait for an interval, not spin", "4.4.0", "KAFKA-20253"
    ONE_PARTIAL_ACK = "what can be resolved is acknowledged once per local epoch", "4.4.0", "KAFKA-20145"


@dataclass(frozen=True, eq=False)
class Dialect:
    """A named set of choices and the table they run on."""

    name: str
    choices: frozenset[Choice] = field(repr=False)
    table: Table = field(default=TABLE, repr=False)

    def __contains__(self, choice: Choice) -> bool:
        return choice in self.choices

    @cached_property
    def cells(self) -> Mapping[Symbol, Mapping[Symbol, Cell]]:
        """The table by state and event, made for stepping."""
        return self.table.compiled.by_state

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return dialect, (self.name,)


RELEASES = ("4.0.0", "4.0.1", "4.0.2", "4.1.0", "4.1.1", "4.1.2", "4.2.0", "4.2.1", "4.3.0", "4.3.1", "4.4.0")
"""Releases with the consumer protocol, in their order."""

LATEST = RELEASES[-1]

EDITS: Mapping[Choice, Mapping[str, Row]] = {
    Choice.FATAL_ENDS_LEAVE: {
        "U7": row(
            State.UNSUBSCRIBED,
            Event.ERR_FATAL,
            *(step for step in ENTER_FATAL_LEAVING if step is not Effect.COMPLETE_LEAVE),
            clause="U7",
            note="The leave stays open: unsubscribe() waits its full time (H19).",
        )
    }
}
"""Rows of a dialect that lacks the choice, by the clause of the row they stand for."""


def _table(choices: frozenset[Choice]) -> Table:
    rows: dict[str, Row] = {}
    for choice, edits in EDITS.items():
        if choice not in choices:
            rows.update(edits)
    if not rows:
        return TABLE
    return replace(TABLE, rows=tuple(rows.get(line.clause, line) for line in TABLE.rows))


def _order(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def choices_of(release: str) -> frozenset[Choice]:
    """The choices that a release has."""
    return frozenset(c for c in Choice if c.since is not None and _order(c.since) <= _order(release))


def custom(name: str, choices: Iterable[Choice]) -> Dialect:
    """A dialect of one's own, on the table that its choices mean."""
    chosen = frozenset(choices)
    return Dialect(name, chosen, _table(chosen))


@cache
def _release(release: str) -> Dialect:
    return custom(release, choices_of(release))


def dialect(name: str = LATEST) -> Dialect:
    """The dialect of a release; `4.2` is its latest patch. Raises `InputError` naming the releases there are."""
    matching = [r for r in RELEASES if r == name or r.rpartition(".")[0] == name]
    if not matching:
        raise InputError(f"unknown dialect {name!r}", remedy="one of " + ", ".join(RELEASES))
    return _release(matching[-1])
