"""The rebalance of the design notes: Stable, Revoking and Assigning with three steps each, Closing.

Source: the client's design notes on KIP-848, the drawing titled rebalance state machine. It is the one machine of the
document that nests: REVOKING holds R1 to R3, ASSIGNING holds A1 to A3, and the arrow to Closing leaves the holders, so
it holds in every step.

No arrow of the drawing has a label. The steps are described in the states: an entry point, a callback to invoke if
there is one, and, after local changes were made, waiting for a heartbeat. The events are named after those
descriptions. From R3 two arrows leave, to Stable and to Assigning, and the only trigger the drawing gives for either
is that same heartbeat. A table is a map from (state, event), so the code must say which heartbeat it was:
`HEARTBEAT_SENT` where the revocation was all there was to do, `HEARTBEAT_SENT_ASSIGNMENT_DUE` where partitions are to
be assigned next. What decides is whether the target holds partitions that are not owned, which is known before R1.

Different in shipped Kafka: one state RECONCILING with a flag for the run under way; no heartbeat between revoking and
assigning, and the assigning phase runs even for no partitions, so neither way out of R3 exists; a commit and a wait
for metadata come first. Closing is PREPARE_LEAVING and LEAVING there, serves unsubscribe() too, and does not end the
machine. Joining, fencing, fatal errors and an application that does not poll are not drawn. The two lines of text
that the drawing gives to Stable are placeholders and are dropped.
"""

from __future__ import annotations

from fsm.table import Symbol, Table, row


class State(Symbol):
    """The states drawn; CLOSED is the final marker."""

    STABLE = "Nothing to revoke or to assign."
    REVOKING = "Partitions are being revoked; holds R1, R2 and R3."
    R1 = "Revoking begins."
    R2 = "The application's revoked callback is invoked."
    R3 = "The local changes of the revocation are made; a heartbeat has to tell the coordinator."
    ASSIGNING = "Partitions are being assigned; holds A1, A2 and A3."
    A1 = "Assigning begins."
    A2 = "The application's assigned callback is invoked."
    A3 = "The local changes of the assignment are made; a heartbeat has to tell the coordinator."
    CLOSING = "The consumer closes."
    CLOSED = "The end."


SEED_NAMES = {
    State.STABLE: "Stable",
    State.REVOKING: "Revoking",
    State.R1: "R1",
    State.R2: "R2",
    State.R3: "R3",
    State.ASSIGNING: "Assigning",
    State.A1: "A1",
    State.A2: "A2",
    State.A3: "A3",
    State.CLOSING: "Closing",
    State.CLOSED: "[*]",
}
"""The document's own spelling of each state."""


class Event(Symbol):
    """Names for arrows without labels; the module docstring explains the two heartbeats."""

    REVOCATION_NEEDED = "The new assignment takes partitions away."
    ASSIGNMENT_NEEDED = "The new assignment only adds partitions."
    CALLBACK_NEEDED = "The application has a callback for this step."
    NO_CALLBACK = "The application has none."
    CALLBACK_DONE = "The callback returned."
    HEARTBEAT_SENT = "The heartbeat that reports the local changes was sent, and nothing is left to do."
    HEARTBEAT_SENT_ASSIGNMENT_DUE = (
        "The heartbeat that reports the revocation was sent; partitions are to be added next."
    )
    CLOSE_CALLED = "The application closes the consumer."
    CLOSE_DONE = "Closing is complete."


class Effect(Symbol):
    """The actions in the descriptions of the steps."""

    INVOKE_CALLBACK = "Have the application's callback called."
    MAKE_LOCAL_CHANGES = "Take the partitions out of the local assignment, or put them in."


S, E, F = State, Event, Effect

# fmt: off
REVOKING = Table(
    name="rebalance-notes-revoking",
    initial=S.R1,
    exits=(S.STABLE, S.ASSIGNING),
    effects=Effect,
    rows=(
        row(S.R1, E.CALLBACK_NEEDED,               S.R2, F.INVOKE_CALLBACK, clause="drawing: R1 -> R2"),
        row(S.R1, E.NO_CALLBACK,                   F.MAKE_LOCAL_CHANGES, S.R3, clause="drawing: R1 -> R3"),
        row(S.R2, E.CALLBACK_DONE,                 F.MAKE_LOCAL_CHANGES, S.R3, clause="drawing: R2 -> R3"),
        row(S.R3, E.HEARTBEAT_SENT,                S.STABLE, clause="drawing: R3 -> Stable",
            note="shipped has no such way out: the assigning phase always runs"),
        row(S.R3, E.HEARTBEAT_SENT_ASSIGNMENT_DUE, S.ASSIGNING, clause="drawing: R3 -> Assigning",
            note="shipped sends no heartbeat in between"),
    ),
)
"""The steps of a revocation."""

ASSIGNING = Table(
    name="rebalance-notes-assigning",
    initial=S.A1,
    exits=(S.STABLE,),
    effects=Effect,
    rows=(
        row(S.A1, E.CALLBACK_NEEDED,               S.A2, F.INVOKE_CALLBACK, clause="drawing: A1 -> A2"),
        row(S.A1, E.NO_CALLBACK,                   F.MAKE_LOCAL_CHANGES, S.A3, clause="drawing: A1 -> A3"),
        row(S.A2, E.CALLBACK_DONE,                 F.MAKE_LOCAL_CHANGES, S.A3, clause="drawing: A2 -> A3"),
        row(S.A3, E.HEARTBEAT_SENT,                S.STABLE, clause="drawing: A3 -> Stable"),
    ),
)
"""The steps of an assignment."""

TABLE = Table(
    name="rebalance-notes",
    initial=S.STABLE,
    terminal=(S.CLOSED,),
    nested={S.REVOKING: REVOKING, S.ASSIGNING: ASSIGNING},
    effects=Effect,
    title="Rebalance of a consumer, the design notes' nested machine",
    source="KIP-848 client design notes, the diagram of Stable, Revoking, Assigning and Closing",
    doc="The arrows have no labels in the drawing; events are named after the descriptions of the steps. R3 waits "
        "for a heartbeat and has two ways out, so two events say whether partitions are still to be assigned. "
        "Shipped Kafka has one state for both phases, no heartbeat between them, and no end after closing. "
        "Joining, fencing and fatal errors are not drawn and therefore illegal.",
    rows=(
        row(S.STABLE,                            E.REVOCATION_NEEDED, S.REVOKING, clause="drawing: Stable -> Revoking"),
        row(S.STABLE,                          E.ASSIGNMENT_NEEDED, S.ASSIGNING, clause="drawing: Stable -> Assigning"),
        row((S.STABLE, S.REVOKING, S.ASSIGNING), E.CLOSE_CALLED,      S.CLOSING,
            clause="drawing: Stable, Revoking, Assigning -> Closing", note="in every step of the two phases"),
        row(S.CLOSING,                           E.CLOSE_DONE,        S.CLOSED, clause="drawing: Closing -> [*]"),
    ),
)
# fmt: on
