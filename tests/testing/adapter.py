"""How the table of the design notes' member reaches the prototype: about as much as a user writes for theirs."""

from __future__ import annotations

from fsm.tables.consumer_member_notes import Effect, Event, State
from fsm.testing.trial import Adapter

from .prototype import ConfusedError, Consumer

E, F = Event, Effect
STATUS = {
    "idle": State.UNSUBSCRIBED,
    "joining": State.JOINING,
    "stable": State.STABLE,
    "reconciling": State.RECONCILING,
    "acking": State.ACK,
    "leaving": State.UNSUBSCRIBING,
    "fenced": State.FENCED,
    "dead": State.FATAL,
}


HAPPENS = {
    E.SUBSCRIBED: lambda consumer: consumer.subscribe("orders"),
    E.SUBSCRIPTION_CHANGED: lambda consumer: consumer.resubscribe("orders", "returns"),
    E.JOIN_HEARTBEAT_SENT: lambda consumer: consumer.sent(epoch=0),
    E.HEARTBEAT_SENT: lambda consumer: consumer.sent(epoch=1),
    E.ASSIGNMENT_RECEIVED: lambda consumer: consumer.received({"assignment": [("orders", 0)]}),
    E.RECONCILED: lambda consumer: consumer.reconciled(consumer.run),
    E.ABANDONED_STEP_ENDED: lambda consumer: consumer.reconciled(consumer.run - 1),
    E.ACK_SIGNALLED: lambda consumer: consumer.woken(),
    E.UNSUBSCRIBE_CALLED: lambda consumer: consumer.unsubscribe(),
    E.LEFT: lambda consumer: consumer.left(),
    E.MEMBER_FENCED: lambda consumer: consumer.received({"error": "FENCED_MEMBER_EPOCH"}),
    E.PARTITIONS_LOST_HANDLED: lambda consumer: consumer.lost_told(),
    E.FATAL_ERROR: lambda consumer: consumer.received({"error": "GROUP_AUTHORIZATION_FAILED"}),
}


class UnreachableError(Exception):
    """The world does not obey."""


class World:
    """Notes what it is told to do; may refuse."""

    def __init__(self):
        self.effects = []
        self.broken = False

    def _obey(self, effect):
        if self.broken:
            raise UnreachableError(effect.name)
        self.effects.append(effect)

    def store(self, _topics):
        self._obey(F.UPDATE_SUBSCRIPTION)

    def aim(self, _partitions):
        self._obey(F.SET_TARGET)

    def reconcile(self):
        self._obey(F.RECONCILE)

    def forget(self):
        self._obey(F.DROP_RECONCILIATION)

    def call(self, listener):
        self._obey({"revoked": F.REVOKE_PARTITIONS, "lost": F.LOSE_PARTITIONS}[listener])

    def commit(self):
        self._obey(F.COMMIT_OFFSETS)

    def leave(self):
        self._obey(F.LEAVE_GROUP)

    def reset(self):
        self._obey(F.RESET_EPOCH)

    def throw(self, _error):
        self._obey(F.RAISE_ERROR)


class PrototypeAdapter(Adapter):
    """One prototype and its world. Time goes on by 1 ms with each event."""

    refuses = (ConfusedError,)
    injects = (UnreachableError,)
    fallible = frozenset(Effect) - {F.HEARTBEAT_NOW}  # the timer is the prototype's own

    consumer_type = Consumer

    def __init__(self):
        self.world = World()
        self.consumer = self.consumer_type(self.world)

    def send(self, event):
        self.consumer.now += 1
        self.world.effects = []
        HAPPENS[event](self.consumer)
        due_now = self.consumer.next_heartbeat == self.consumer.now
        return [*self.world.effects, *([F.HEARTBEAT_NOW] if due_now else [])]

    def send_failing(self, event):
        self.world.broken = True
        try:
            self.send(event)
        finally:
            self.world.broken = False

    def state(self):
        return STATUS[self.consumer.status]
