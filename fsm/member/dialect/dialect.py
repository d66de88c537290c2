"""Dialects of the consumer member: named sets of choices, one for each release of Kafka and two beside them.

A choice is one rule in which dialects differ: what it says, since which dialect, its ticket, the hazards it is about.
Code asks `choice in dialect`; nothing else in the member knows a version. The dialects are a line: each has what those
before it have, less what it gives up. After the releases stand

* `fixed`: the latest release without any hazard that a client can avoid;
* `document`: the rules of the design documents where they say otherwise, on `fixed` where they are silent.

`custom` makes a dialect of your own, to see the effect of adding or removing a choice; `4.4+RAISED_IS_CALLED` is the
name of one.

Some choices change the table. An amendment names rows of `fsm.tables.consumer_member` by their clause, and their
replacements. Differences beyond rows are decided in `fsm.member.consumer.decisions`, or done by an effect, which asks
for the choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from fsm.errors import InputError
from fsm.member.dialect.choices import Choice
from fsm.protocol.releases import LATEST, RELEASES, change_choices, split_dialect
from fsm.table import Compiled, Row, Table, row
from fsm.tables.consumer_member import (
    BEGIN_JOIN,
    ENTER_FATAL_LEAVING,
    ENTER_LEAVING,
    FAILED,
    GIVE_UP,
    NOT_A_MEMBER,
    TABLE,
    Effect,
    Event,
    State,
)


@dataclass(frozen=True, slots=True)
class Amendment:
    """What a choice changes in the table."""

    rows: Mapping[str, tuple[Row, ...]]
    """The replacements for the rows of each clause; under a clause without rows, additional rows."""
    when: bool = True
    """Whether it applies if the dialect has the choice, or if it lacks it."""
    ends_fatal: bool = False
    """Whether FATAL may be left."""


S, E, F = State, Event, Effect
_EVERYWHERE_BUT = {left_out: tuple(s for s in State if s is not left_out) for left_out in (S.STALE, S.FATAL)}

# fmt: off
AMENDMENTS: Mapping[Choice, Amendment] = {
    Choice.FATAL_ENDS_LEAVE: Amendment({
        "U7": (row(S.UNSUBSCRIBED, E.ERR_FATAL, *(step for step in ENTER_FATAL_LEAVING if step is not F.COMPLETE_LEAVE),
                   clause="U7", note="The leave stays open: unsubscribe() waits its full time (H19)."),),
    }, when=False),
    Choice.JOIN_AFTER_RELEASES: Amendment({
        "U1": (row(S.UNSUBSCRIBED, E.POLL_JOIN, F.COMPLETE_LEAVE, *BEGIN_JOIN,
                   clause="U1", note="A leave whose answer never came is over, too."),),
        "P2": (row(S.PREPARE_LEAVING, E.ERR_FENCE, *FAILED, F.RUN_FAILURE_HOOK, *GIVE_UP, *ENTER_LEAVING,
                   S.UNSUBSCRIBED, F.RESET_REQUEST,
                   clause="P2", note="Given up at once; the leave stays open until its callback is back."),),
        "U9": (row(S.UNSUBSCRIBED, E.LEAVE_CB_DONE, F.COMPLETE_LEAVE, clause="U9"),),
    }),
    Choice.LEAVE_AT_SHUTDOWN: Amendment({
        "P8": (row(S.PREPARE_LEAVING, E.CLOSE_FLUSH_LEAVE, *GIVE_UP, *ENTER_LEAVING, F.SEND_HEARTBEAT_UNWATCHED,
                   S.UNSUBSCRIBED,
                   clause="P8", note="The current epoch is that of a leave by then."),),
    }),
    Choice.LAST_SUBSCRIPTION_COUNTS: Amendment({
        "Z5": (row(S.STALE, E.UNSUBSCRIBE, F.CLEAR_ASSIGNMENT, S.UNSUBSCRIBED, *NOT_A_MEMBER, clause="Z5"),
               row(S.STALE, E.CLOSE_LEAVE, F.STORE_OPERATION, F.CLEAR_ASSIGNMENT, S.UNSUBSCRIBED, *NOT_A_MEMBER,
                   clause="Z5"),
               row(_EVERYWHERE_BUT[S.STALE], (E.LOST_DONE_STALE, E.LOST_DONE_STALE_REJOIN),
                   F.CLEAR_ASSIGNMENT, F.COMPLETE_STALE_RELEASE,
                   clause="Z5/late", note="The release of one who left while it was stale.")),
    }),
    Choice.STABLE_WHEN_SENT: Amendment({
        "J1": (row(S.JOINING, E.HB_SENT, F.SEND_FULL_HEARTBEAT, S.STABLE,
                   clause="J1", note="The answer finds the member STABLE, and with epoch 0."),
               # A run of the last membership may still be open here; otherwise RECONCILING comes first, and waits.
               row(S.STABLE, E.APPLY_ASSIGNMENT, F.SET_OWNED, F.MARK_ADDED, F.NOTIFY_ASSIGNMENT, clause="G4/STABLE"),
               row(S.STABLE, E.APPLY_REJECTED, F.REJECT_ASSIGNMENT, clause="G5/STABLE"),
               row(S.STABLE, (E.RUN_STEP_STALE, E.RUN_FAILED), F.END_RUN, clause="G6/STABLE")),
    }),
    Choice.POLL_TIMER_WHILE_LEAVING: Amendment({
        "M5/PREPARE_LEAVING": (
            row(S.PREPARE_LEAVING, E.POLL_EXPIRED, F.NOTE_POLL_EXPIRED, *GIVE_UP, *ENTER_LEAVING,
                F.SEND_LEAVE_HEARTBEAT_UNWATCHED, S.UNSUBSCRIBED, F.RESET_REQUEST, F.WIPE_SENT,
                clause="M5/PREPARE_LEAVING",
                note="The leave stays open until its callback is back, which JOIN_AFTER_RELEASES waits for."),),
    }),
    Choice.SUBSCRIBE_ENDS_FATAL: Amendment({
        "G1": (row(_EVERYWHERE_BUT[S.FATAL], E.SUBSCRIBE, F.STORE_SUBSCRIPTION, F.FLAG_SUBSCRIPTION, clause="G1"),
               row(S.FATAL, E.SUBSCRIBE, F.STORE_SUBSCRIPTION, F.FLAG_SUBSCRIPTION, F.CLEAR_ASSIGNMENT, F.RESET_EPOCH,
                   S.UNSUBSCRIBED,
                   clause="G1/FATAL",
                   note="The application may have mended what the error was about, an invalid pattern say.")),
        "X1": (row(S.FATAL, E.LOST_DONE_FATAL, F.CLEAR_ASSIGNMENT, clause="X1"),
               row(_EVERYWHERE_BUT[S.FATAL], E.LOST_DONE_FATAL, F.CLEAR_ASSIGNMENT,
                   clause="X1/late", note="The release of one who has subscribed anew.")),
    }, ends_fatal=True),
}
# fmt: on


def _amend(choices: frozenset[Choice]) -> Table:
    """The table of a dialect: that of the latest release, with the amendments of its choices."""
    held = [change for choice, change in AMENDMENTS.items() if (choice in choices) is change.when]
    if not held:
        return TABLE
    changed = {clause: rows for change in held for clause, rows in change.rows.items()}
    lines = [line for line in TABLE.rows if line.clause not in changed]
    lines += [line for rows in changed.values() for line in rows]
    terminal = () if any(change.ends_fatal for change in held) else TABLE.terminal
    return replace(TABLE, rows=tuple(lines), terminal=terminal)


FIXED, DOCUMENT = "fixed", "document"
DIALECTS = (*RELEASES, FIXED, DOCUMENT)
"""Every dialect by name, in their line."""


@dataclass(frozen=True, eq=False)
class Dialect:
    """A named set of choices and the table they run on."""

    name: str
    choices: frozenset[Choice] = field(repr=False)
    table: Table = field(repr=False)

    def __contains__(self, choice: Choice) -> bool:
        return choice in self.choices

    @cached_property
    def cells(self) -> Compiled:
        """The table, made for stepping."""
        return self.table.compiled

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return custom, (self.name, tuple(sorted(self.choices, key=lambda choice: choice.value)))


def choices_of(name: str) -> frozenset[Choice]:
    """The choices of a dialect: of those before it in the line, and its own, less what was given up by then."""
    at = DIALECTS.index(name)
    return frozenset(
        c for c in Choice if DIALECTS.index(c.since) <= at and not (c.until and DIALECTS.index(c.until) <= at)
    )


def custom(name: str, choices: Iterable[Choice]) -> Dialect:
    """A dialect of your own, with the table of its choices; the same arguments return the same object."""
    return _make(name, frozenset(choices))


@cache
def _make(name: str, choices: frozenset[Choice]) -> Dialect:
    return Dialect(name, choices, _amend(choices))


def dialect(name: str = LATEST) -> Dialect:
    """The dialect of that name; `4.2` is its latest patch, `4.2+JITTER-RACK` has one rule more and lacks one.

    Raises `InputError` for an unknown name.
    """
    base, changes = split_dialect(name)
    matching = [d for d in DIALECTS if d == base or d.rpartition(".")[0] == base]
    if not base or not matching:
        raise InputError(f"unknown dialect {name!r}", remedy="one of " + ", ".join(DIALECTS))
    found = matching[-1]
    return custom(found + name[len(base) :], change_choices(choices_of(found), changes, Choice.__members__))
