"""The consumer member as a drawing of the design notes has it, from NOT_IN_GROUP on. Kept as drawn, mistakes included.

Source: the client's design notes on KIP-848, the diagram of the states NOT_IN_GROUP, UNJOINED, STABLE and so on. One
row stands for one arrow. There are no ignores: what is not drawn is illegal. To compare it with what shipped, see
`fsm.tables.consumer_member`.

Drawn wrongly or not clearly, and kept:

* No initial marker. NOT_IN_GROUP is taken, since only its name can come first.
* No arrow leads *into* NOT_IN_GROUP: a member that unsubscribes goes to UNJOINED, which would join again.
* STABLE -> RECONCILING carries two labels, a new assignment and unsubscribe(). What RECONCILIATION_COMPLETE means then
  depends on how one came there, and the drawing does not keep it: after an unsubscribe() the heartbeat with the full
  assignment is as legal as the arrow back to UNJOINED.
* RECONCILIATION_COMPLETE -> STABLE is drawn twice with the same label: one row.
* The three arrows into FATAL have no label; the event is called FATAL_ERROR here. RELEASING_ASSIGNMENT -> FATAL cannot
  happen: no heartbeat is sent there that could fail.
* UNJOINED -> STABLE happens on sending the first heartbeat, not on its answer.
* Labels are partly what happens and partly what is done. An interval timer that is reset, an epoch that is reset and
  callbacks that are triggered are effects; the heartbeat in the same label is the event, named as sent.

Missing, and not added: leave heartbeats, fencing outside STABLE, fatal errors while RECONCILING, a new assignment while
RECONCILING, waiting for metadata, and an application that does not poll.
"""

from __future__ import annotations

from fsm.table import Symbol, Table, row


class State(Symbol):
    """The eight states drawn; the final marker after FATAL is that FATAL is terminal."""

    NOT_IN_GROUP = "No subscription, no group."
    UNJOINED = "Subscribed, and no heartbeat with epoch 0 has succeeded."
    STABLE = "A member that heartbeats."
    RECONCILING = "Callbacks run, for a new assignment or for an unsubscribe()."
    RECONCILIATION_COMPLETE = "The callbacks are done, the coordinator has not been told."
    RELEASING_ASSIGNMENT = "Fenced; the lost callback runs."
    RELEASING_ASSIGNMENT_COMPLETE = "Fenced; the lost callback is done and the member has to join again."
    FATAL = "The end."


class Event(Symbol):
    """The parts of the arrows' labels that happen to the member."""

    SUBSCRIBED = "Consumer.subscribe()"
    HEARTBEAT_RETRIED = "A heartbeat that joins was sent again."
    JOIN_HEARTBEAT_SENT = "The heartbeat with epoch 0 was sent."
    HEARTBEAT_SENT = "A heartbeat, nothing more is said."
    ASSIGNMENT_RECEIVED = "A new assignment arrived."
    UNSUBSCRIBED = "Consumer.unsubscribe(); at the second place the label says unsubscribe() only."
    MEMBER_FENCED = "A heartbeat was answered with a fencing error."
    CALLBACK_COMPLETED = "The callback of a reconciliation is complete."
    FULL_HEARTBEAT_SENT = "The heartbeat with the full assignment was sent."
    LOST_CALLBACK_COMPLETED = "The onLost callback is complete."
    OUT_OF_INTERVAL_HEARTBEAT_SENT = "A heartbeat was sent without waiting for the interval."
    FATAL_ERROR = "Our name for the arrows into FATAL, which are drawn without a label."


class Effect(Symbol):
    """The parts of the arrows' labels that the member does."""

    TRIGGER_CALLBACKS = "Have the application's callbacks called."
    RESET_EPOCH = "Set the member epoch back."
    RESET_INTERVAL_TIMER = "Restart the heartbeat timer with heartbeat.interval.ms."


S, E, F = State, Event, Effect

# fmt: off
TABLE = Table(
    name="consumer-member-draft",
    initial=S.NOT_IN_GROUP,
    terminal=(S.FATAL,),
    effects=Effect,
    title="KIP-848 consumer member, the design notes' drawing",
    source="KIP-848 client design notes, the diagram that begins at NOT_IN_GROUP",
    doc="As drawn. The drawing has no initial marker (NOT_IN_GROUP is taken) and no arrow into NOT_IN_GROUP: "
        "unsubscribe() ends in UNJOINED. unsubscribe() and a new assignment both lead from STABLE to RECONCILING, "
        "so that RECONCILIATION_COMPLETE does not know which of its two ways out is due. RECONCILIATION_COMPLETE "
        "to STABLE is drawn twice alike and is one row. The arrows into FATAL have no label; FATAL_ERROR is our "
        "name. Leaving, fencing outside STABLE, and a fatal error, a fencing or a newer assignment while "
        "RECONCILING are missing and stay illegal.",
    rows=(
        #   in state                   on event                     goes to                    and then does
        row(S.NOT_IN_GROUP,            E.SUBSCRIBED,                S.UNJOINED, clause="drawing 1"),

        row(S.UNJOINED,                E.HEARTBEAT_RETRIED,         S.UNJOINED, clause="drawing 2"),
        row(S.UNJOINED,                E.JOIN_HEARTBEAT_SENT,       S.STABLE, clause="drawing 3",
            note="on sending; the answer may still refuse the member"),
        row(S.UNJOINED,                E.FATAL_ERROR,               S.FATAL, clause="drawing 4, no label"),

        row(S.STABLE,                  E.ASSIGNMENT_RECEIVED,       S.RECONCILING,             F.TRIGGER_CALLBACKS,
            clause="drawing 5"),
        row(S.STABLE,                  E.UNSUBSCRIBED,              S.RECONCILING, clause="drawing 6",
            note="the label orders no callbacks here, yet only CALLBACK_COMPLETED leads on"),
        row(S.STABLE,                  E.MEMBER_FENCED,             S.RELEASING_ASSIGNMENT,    F.RESET_EPOCH,
                                                                                               F.TRIGGER_CALLBACKS,
            clause="drawing 7"),
        row(S.STABLE,                  E.FATAL_ERROR,               S.FATAL, clause="drawing 8, no label"),
        row(S.STABLE,                  E.HEARTBEAT_SENT,            S.STABLE, clause="drawing 9"),

        row(S.RECONCILING,             E.HEARTBEAT_SENT,            S.RECONCILING, clause="drawing 10"),
        row(S.RECONCILING,             E.CALLBACK_COMPLETED,        S.RECONCILIATION_COMPLETE, clause="drawing 11"),

        row(S.RECONCILIATION_COMPLETE, E.FULL_HEARTBEAT_SENT,       S.STABLE,                  F.RESET_INTERVAL_TIMER,
            clause="drawing 12 and 13", note="drawn twice, word for word"),
        row(S.RECONCILIATION_COMPLETE, E.UNSUBSCRIBED,              S.UNJOINED, clause="drawing 14",
            note="UNJOINED joins again; NOT_IN_GROUP was probably meant"),

        row(S.RELEASING_ASSIGNMENT,  E.LOST_CALLBACK_COMPLETED,   S.RELEASING_ASSIGNMENT_COMPLETE, clause="drawing 15"),
        row(S.RELEASING_ASSIGNMENT_COMPLETE,
                                       E.OUT_OF_INTERVAL_HEARTBEAT_SENT,
                                                                    S.UNJOINED, clause="drawing 16",
            note="the heartbeat comes before the state that sends it; shipped turns the two round"),
        row(S.RELEASING_ASSIGNMENT,    E.FATAL_ERROR,               S.FATAL, clause="drawing 17, no label",
            note="cannot happen: nothing is sent in RELEASING_ASSIGNMENT"),
        # drawing 18, FATAL to the final marker: FATAL is terminal.
    ),
)
# fmt: on
