"""The consumer member as a list of states in the design notes describes it, with the notes' open questions as choices.

Source: the client's design notes on KIP-848, the list of eight states that the document marks as one reviewer's
notes, and the two questions below it. The list is prose: it names states and transitions. This module turns each
sentence into rows and notes where a sentence was not sufficient.

The notes leave three questions open. Each is a field of `Choices`, `table(choices)` builds the resulting machine, and
`TABLE` has the answers of shipped Kafka:

* Is a changed subscription sent at once? Kafka: no, the next interval heartbeat carries it. (librdkafka and
  franz-go chose yes.)
* Does a changed subscription lead out of FATAL? Kafka: no, FATAL is terminal.
* How is a running reconciliation stopped when the member unsubscribes or is fenced? Kafka: it is not. The current step
  ends, its result is dropped, and a new reconciliation waits for that.

Differences between the list, which is kept, and shipped Kafka:

* JOINING ends when the first heartbeat is *sent*, so there is no waiting for an answer and no retry in JOINING;
  shipped, the member stays until the response and goes to RECONCILING first.
* Any assignment leads to RECONCILING, even if it is already owned.
* UNSUBSCRIBING is one state (shipped: PREPARE_LEAVING, LEAVING) and is entered from FENCED too.
* There is no state for a member whose application does not poll (shipped: STALE).
* ACK leads to STABLE even if the target has changed meanwhile; a newer assignment must come as an event of its own.

Where two sentences contradict each other, the narrower one wins: unsubscribing and fencing may come at any time, but
FATAL is without recovery, so both are ignored there; and a member that is fenced while UNSUBSCRIBING continues to
leave, as otherwise the fencing would make it join a group that the application has left. The notes do not define what
happens to the partitions in FATAL, so no effect is ordered; shipped Kafka calls the lost callback.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import product

from fsm.table import Ignore, Row, Symbol, Table, ignore, row


class State(Symbol):
    """The eight states of the list."""

    UNSUBSCRIBED = "Neither topics nor a regex are subscribed: the consumer belongs to no group."
    JOINING = "There is a subscription; the heartbeat with epoch 0 that joins the group has not been sent yet."
    STABLE = "A member that only sends heartbeats."
    RECONCILING = "An assignment arrived: offsets are committed, partitions revoked and assigned, callbacks called."
    ACK = "The reconciliation is done and the heartbeat manager has not yet handled the request to report it at once."
    UNSUBSCRIBING = "unsubscribe() or close() was called: partitions are given back, then a last heartbeat leaves."
    FENCED = "The coordinator fenced the member; the application is told that all partitions are lost."
    FATAL = "An unrecoverable error."


SEED_NAMES = {
    State.UNSUBSCRIBED: "UNSUBSCRIBE",
    State.JOINING: "JOINING",
    State.STABLE: "STABLE",
    State.RECONCILING: "RECONCILE_ASSIGNMENT",
    State.ACK: "ACK_ASSIGNMENT",
    State.UNSUBSCRIBING: "UNSUBSCRIBING",
    State.FENCED: "FENCED",
    State.FATAL: "FATAL",
}
"""The document's own spelling of each state."""


class Event(Symbol):
    """What happens to the member."""

    SUBSCRIBED = "The application subscribes, by names or by a regex, and had no subscription."
    SUBSCRIPTION_CHANGED = "The application replaces the subscription it has, or had when the member became FATAL."
    JOIN_HEARTBEAT_SENT = "The heartbeat with epoch 0 left."
    HEARTBEAT_SENT = "An interval heartbeat left."
    ASSIGNMENT_RECEIVED = "A heartbeat response carries an assignment."
    RECONCILED = "The running reconciliation is complete, callbacks included."
    ABANDONED_STEP_ENDED = "A reconciliation that the member had already left behind reports the end of its last step."
    ACK_SIGNALLED = "The heartbeat manager took the order to heartbeat without waiting for the interval."
    UNSUBSCRIBE_CALLED = "The application calls unsubscribe() or close()."
    LEFT = "Partitions are given back, offsets committed, and the last heartbeat left."
    MEMBER_FENCED = "A heartbeat response says that the coordinator does not know this member or its epoch."
    PARTITIONS_LOST_HANDLED = "The lost callback returned."
    FATAL_ERROR = "Any error after which the member cannot continue."


class Effect(Symbol):
    """What the member does."""

    UPDATE_SUBSCRIPTION = "Store the new subscription; the next heartbeat carries it."
    HEARTBEAT_NOW = "Heartbeat in the next run of the event loop, whatever the interval says."
    SET_TARGET = "Remember the assignment just received as the target."
    RECONCILE = "Begin to reconcile towards the target, as soon as no older step is running."
    DROP_RECONCILIATION = (
        "Give up the reconciliation: what it has not done yet stays undone, its result counts no more."
    )
    REVOKE_PARTITIONS = "Have the revoked callback called for everything owned, then give it up."
    COMMIT_OFFSETS = "Commit the consumed offsets."
    LEAVE_GROUP = "Send the last heartbeat, the one that leaves the group, when the orders before it are done."
    RESET_EPOCH = "Set the member epoch to 0."
    LOSE_PARTITIONS = "Have the lost callback called for everything owned, then give it up."
    RAISE_ERROR = "Give the error to the application."


class Running(Enum):
    """How a running reconciliation ends when the member unsubscribes or is fenced."""

    CANCEL = "cancel"
    """It is cancelled at once, and its later results are ignored."""
    FINISH = "finish"
    """The current step ends first, and the next reconciliation waits for that."""


@dataclass(frozen=True, slots=True)
class Choices:
    """One answer to each question of the notes. The defaults are what Kafka shipped."""

    heartbeat_on_subscription_change: bool = False
    """Send the next heartbeat immediately when the subscription changes."""
    fatal_resubscribes: bool = False
    """A changed subscription leads from FATAL to UNSUBSCRIBED, which makes FATAL non-terminal."""
    running_reconciliation: Running = Running.FINISH


DEFAULT = Choices()
ALL_CHOICES = tuple(Choices(now, again, how) for now, again, how in product((False, True), (False, True), Running))
"""Every combination, in a fixed order."""

S, E, F = State, Event, Effect
IN_GROUP = (S.JOINING, S.STABLE, S.RECONCILING, S.ACK)
LATE = "answers a heartbeat sent before the member came to this state"


def table(choices: Choices) -> Table[State, Event, Effect]:
    """The table of the notes for these choices. All 8 combinations build."""
    lines = (*_common(), *_subscription(choices), *_fatal(choices), *_running(choices.running_reconciliation))
    return Table(
        name="consumer-member-notes",
        initial=S.UNSUBSCRIBED,
        terminal=() if choices.fatal_resubscribes else (S.FATAL,),
        rows=lines,
        effects=Effect,
        title="KIP-848 consumer member, the design notes' list of states",
        source="KIP-848 client design notes, list of states and the questions under it",
        doc=_DOC,
    )


_DOC = (
    "Prose made into rows. Open questions are choices: a changed subscription may order a heartbeat at once, may lead "
    "out of FATAL, and a running reconciliation is cancelled or left to finish its step when the member unsubscribes "
    "or is fenced. Unlike shipped Kafka, JOINING ends when its heartbeat is sent, UNSUBSCRIBING is one state, and "
    "there is no state for an application that does not poll. Unsubscribing and fencing can happen at any time by the "
    "notes; in FATAL both are ignored, and a member fenced while UNSUBSCRIBING goes on leaving."
)


def _common() -> tuple[Row | Ignore, ...]:
    # fmt: off
    return (
        #   in state                  on event                    goes to           and then does, in this order
        row(S.UNSUBSCRIBED,           E.SUBSCRIBED,               S.JOINING,        F.UPDATE_SUBSCRIPTION,
                                                                                    F.HEARTBEAT_NOW,
            clause="list: JOINING"),
        row(S.JOINING,                E.JOIN_HEARTBEAT_SENT,      S.STABLE, clause="list: JOINING"),
        row((S.STABLE, S.RECONCILING), E.HEARTBEAT_SENT, clause="list: STABLE",
            note="the list names it for STABLE; the interval runs on while RECONCILING"),
        row((S.STABLE, S.RECONCILING, S.ACK),
                                      E.ASSIGNMENT_RECEIVED,      S.RECONCILING,    F.SET_TARGET, F.RECONCILE,
            clause="list: RECONCILE_ASSIGNMENT",
            note="whenever an assignment is received, equal to what is owned or not"),
        row(S.RECONCILING,            E.RECONCILED,               S.ACK,            F.HEARTBEAT_NOW,
            clause="list: RECONCILE_ASSIGNMENT, ACK_ASSIGNMENT"),
        row(S.ACK,                    E.ACK_SIGNALLED,            S.STABLE, clause="list: ACK_ASSIGNMENT"),

        row(S.JOINING,                E.UNSUBSCRIBE_CALLED,       S.UNSUBSCRIBING,  F.LEAVE_GROUP,
            clause="list: UNSUBSCRIBING", note="nothing is owned yet"),
        row((S.STABLE, S.ACK),        E.UNSUBSCRIBE_CALLED,       S.UNSUBSCRIBING,  F.REVOKE_PARTITIONS,
                                                                                    F.COMMIT_OFFSETS,
                                                                                    F.LEAVE_GROUP,
            clause="list: UNSUBSCRIBING"),
        row(S.FENCED,                 E.UNSUBSCRIBE_CALLED,       S.UNSUBSCRIBING,  F.LEAVE_GROUP,
            clause="list: UNSUBSCRIBING",
            note="everything owned is lost already; shipped goes to UNSUBSCRIBED directly"),
        row(S.UNSUBSCRIBING,          E.LEFT,                     S.UNSUBSCRIBED, clause="list: UNSUBSCRIBING"),

        row((S.JOINING, S.STABLE, S.ACK),
                                      E.MEMBER_FENCED,            S.FENCED,         F.RESET_EPOCH, F.LOSE_PARTITIONS,
            clause="list: FENCED"),
        row(S.FENCED,             E.PARTITIONS_LOST_HANDLED,  S.JOINING,        F.HEARTBEAT_NOW, clause="list: FENCED"),

        ignore((S.UNSUBSCRIBED, S.UNSUBSCRIBING),
                                      E.UNSUBSCRIBE_CALLED, why="already outside, or on the way out"),
        ignore((S.UNSUBSCRIBED, S.JOINING, S.UNSUBSCRIBING, S.FENCED, S.FATAL),
                                      E.ASSIGNMENT_RECEIVED, why=LATE),
        ignore((S.UNSUBSCRIBED, S.FATAL), E.MEMBER_FENCED, why=LATE),
        ignore(S.UNSUBSCRIBING,       E.MEMBER_FENCED, why="it leaves anyway; FENCED would lead back to JOINING"),
        ignore(S.FENCED,              E.MEMBER_FENCED, why="a second response that says the same"),
        ignore((S.UNSUBSCRIBED, S.UNSUBSCRIBING, S.FATAL),
                                      E.PARTITIONS_LOST_HANDLED, why="the member was fenced before it came here"),
    )
    # fmt: on


def _subscription(choices: Choices) -> tuple[Row | Ignore, ...]:
    """Rows of a changed subscription: sent at once or with the next interval heartbeat."""
    at_once = (F.HEARTBEAT_NOW,) if choices.heartbeat_on_subscription_change else ()
    return (
        row(
            (S.STABLE, S.RECONCILING),
            E.SUBSCRIPTION_CHANGED,
            F.UPDATE_SUBSCRIPTION,
            *at_once,
            clause="question 1: next heartbeat at once",
        ),
        row(
            (S.JOINING, S.ACK, S.FENCED),
            E.SUBSCRIPTION_CHANGED,
            F.UPDATE_SUBSCRIPTION,
            clause="list: JOINING, ACK_ASSIGNMENT, FENCED",
            note="a heartbeat is due at once in any case, or none may be sent before the member joins again",
        ),
    )


def _fatal(choices: Choices) -> tuple[Row | Ignore, ...]:
    """Rows into FATAL, and out of it if chosen."""
    changed: Row | Ignore = ignore(
        S.FATAL,
        E.SUBSCRIPTION_CHANGED,
        why="FATAL is not recoverable, not even by a better regex",
        clause="question 2: FATAL to UNSUBSCRIBE",
    )
    if choices.fatal_resubscribes:
        changed = row(
            S.FATAL,
            E.SUBSCRIPTION_CHANGED,
            S.UNSUBSCRIBED,
            F.UPDATE_SUBSCRIPTION,
            clause="question 2: FATAL to UNSUBSCRIBE",
            note="the application reacted to the error; SUBSCRIBED is due next, as the subscription stands",
        )
    return (
        row(
            (S.UNSUBSCRIBED, *IN_GROUP, S.UNSUBSCRIBING, S.FENCED),
            E.FATAL_ERROR,
            S.FATAL,
            F.RAISE_ERROR,
            clause="list: FATAL",
            note="whenever one is met; of the partitions the list says nothing",
        ),
        changed,
        ignore(S.FATAL, E.FATAL_ERROR, why="already fatal"),
        ignore(S.FATAL, E.UNSUBSCRIBE_CALLED, why="not recoverable; only the local subscription is cleared"),
    )


def _running(how: Running) -> Iterator[Row | Ignore]:
    """Rows of a reconciliation during which the member unsubscribes or is fenced."""
    cancelled = (F.DROP_RECONCILIATION,) if how is Running.CANCEL else ()
    given_back = (F.REVOKE_PARTITIONS, F.COMMIT_OFFSETS, F.LEAVE_GROUP)
    question = "list: UNSUBSCRIBING, FENCED (how to cancel)"
    yield row(S.RECONCILING, E.UNSUBSCRIBE_CALLED, S.UNSUBSCRIBING, *cancelled, *given_back, clause=question)
    yield row(S.RECONCILING, E.MEMBER_FENCED, S.FENCED, *cancelled, F.RESET_EPOCH, F.LOSE_PARTITIONS, clause=question)
    yield ignore(S.FATAL, E.ABANDONED_STEP_ENDED, why="nothing follows a fatal error")
    behind = (S.UNSUBSCRIBED, S.JOINING, S.STABLE, S.UNSUBSCRIBING, S.FENCED)
    if how is Running.CANCEL:
        why = "it was cancelled when the member left it"
        yield ignore((*behind, S.RECONCILING, S.ACK), E.ABANDONED_STEP_ENDED, why=why, clause=question)
        return
    # ACK stays illegal: only a new reconciliation leads there, and it has waited for the old step.
    yield row(behind, E.ABANDONED_STEP_ENDED, F.DROP_RECONCILIATION, clause=question)
    yield row(
        S.RECONCILING,
        E.ABANDONED_STEP_ENDED,
        F.DROP_RECONCILIATION,
        F.RECONCILE,
        clause=question,
        note="the new reconciliation waited for this",
    )


TABLE = table(DEFAULT)
