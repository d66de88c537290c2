"""A consumer prototype as somebody else would write it, and how to ruin it.

`Consumer` follows the list of states in the design notes, by hand: no table, statuses that are strings, a method for
each thing that can happen, orders that wait in a queue until the status changes, a timer that is a number. It knows
nothing of `fsm`. Below it stand its ruined kin, each with one mistake that people make; `tests/testing/adapter.py`
reaches them all.
"""

from __future__ import annotations

from collections import deque

HEARTBEAT_INTERVAL = 3_000
MEMBER = ("joining", "stable", "reconciling", "acking")


class ConfusedError(Exception):
    """Something that cannot happen here."""


class Consumer:
    """One member. `world` obeys: `world.commit()`, `world.call("revoked")` and so on."""

    first_status = "idle"

    def __init__(self, world):
        self.world = world
        self.status = self.first_status
        self.todo = deque()
        self.now = 0
        self.next_heartbeat = None
        self.topics = ()
        self.run = 0  # the reconciliation under way; callbacks carry the number they were started with

    # What the application does

    def subscribe(self, *topics):
        self.only_in("idle")
        self.order("store", topics)
        self.become("joining")
        self.wake_up()

    def resubscribe(self, *topics):
        if self.status == "dead":
            return
        self.only_in("fenced", *MEMBER)
        self.order("store", topics)
        self.become(self.status)

    def unsubscribe(self):
        if self.status in ("idle", "leaving", "dead"):
            return
        if self.status not in ("joining", "fenced"):
            self.give_back()
        self.order("leave")
        self.become("leaving")

    def give_back(self):
        self.order("call", "revoked")
        self.order("commit")

    # What the network does

    def sent(self, epoch):
        if epoch == 0:
            self.only_in("joining")
            self.become("stable")
        else:
            self.only_in("stable", "reconciling")
        self.next_heartbeat = self.now + HEARTBEAT_INTERVAL

    def woken(self):
        self.only_in("acking")
        self.become("stable")

    def left(self):
        self.only_in("leaving")
        self.become("idle")

    def received(self, response):
        if "error" not in response:
            self.assigned(response["assignment"])
        elif response["error"] in ("FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"):
            self.fenced()
        else:
            self.fatal(response["error"])

    def assigned(self, partitions):
        if self.status not in ("stable", "reconciling", "acking"):
            return
        self.order("aim", partitions)
        self.order("reconcile")
        self.become("reconciling")
        self.run += 1

    def fenced(self):
        if self.status not in MEMBER:
            return
        self.order("reset")
        self.order("call", "lost")
        self.become("fenced")

    def fatal(self, error):
        if self.status != "dead":
            self.order("throw", error)
            self.become("dead")

    # What callbacks report

    def reconciled(self, run):
        if run != self.run:
            self.stale()
            return
        self.only_in("reconciling")
        self.become("acking")
        self.wake_up()

    def stale(self):
        if self.status == "dead":
            return
        self.only_in("idle", "joining", "stable", "reconciling", "leaving", "fenced")
        self.order("forget")
        if self.status == "reconciling":
            self.order("reconcile")
        self.become(self.status)

    def lost_told(self):
        if self.status in ("idle", "leaving", "dead"):
            return
        self.only_in("fenced")
        self.become("joining")
        self.wake_up()

    # How it is done

    def only_in(self, *statuses):
        if self.status not in statuses:
            raise ConfusedError(f"not while {self.status}")

    def wake_up(self):
        self.next_heartbeat = self.now

    def order(self, what, *details):
        self.todo.append((what, details))

    def become(self, status):
        """Has the world obey, then changes; if the world cannot, nothing has changed."""
        try:
            while self.todo:
                what, details = self.todo.popleft()
                getattr(self.world, what)(*details)
        finally:
            self.todo.clear()
        self.status = status


class MissingRow(Consumer):
    """Nobody thought of a heartbeat while reconciling."""

    def sent(self, epoch):
        if epoch:
            self.only_in("stable")
        super().sent(epoch)


class WrongTarget(Consumer):
    """Once the loss was told it believes to be a member again; nobody asked the coordinator."""

    def become(self, status):
        super().become("stable" if (self.status, status) == ("fenced", "joining") else status)


class LostEffect(Consumer):
    """Fenced while it acknowledges, it keeps the epoch that was fenced."""

    def order(self, what, *details):
        if (self.status, what) != ("acking", "reset"):
            super().order(what, *details)


class ForgottenTimer(Consumer):
    """After a reconciliation it waits for the interval instead of acknowledging at once."""

    def reconciled(self, run):
        before = self.next_heartbeat
        super().reconciled(run)
        if self.status == "acking":
            self.next_heartbeat = before


class ReorderedQueue(Consumer):
    """Takes what waits longest last: it commits only after the partitions are gone."""

    def become(self, status):
        self.todo.reverse()
        super().become(status)


class EffectTwice(Consumer):
    """Leaving while reconciling it commits in its own step and in the one it took over."""

    def give_back(self):
        super().give_back()
        if self.status == "reconciling":
            self.order("commit")


class NotRestored(Consumer):
    """Changes first and has the world obey afterwards."""

    def become(self, status):
        self.status = status
        super().become(status)


class WrongInitial(Consumer):
    """Begins as if the application had subscribed."""

    first_status = "joining"


class IgnoredEventActs(Consumer):
    """Fenced while leaving, it tells of a loss and goes on to join the group it was told to leave."""

    def fenced(self):
        if self.status == "leaving":
            self.order("reset")
            self.order("call", "lost")
            self.become("fenced")
        else:
            super().fenced()


class StaleCallback(Consumer):
    """Takes the callback of an older reconciliation for that of the one under way."""

    def reconciled(self, run):
        super().reconciled(self.run if self.status == "reconciling" else run)


class AcceptsAnything(Consumer):
    """A wake-up makes it stable, whatever it was."""

    def woken(self):
        self.become("stable")


class SecondTime(Consumer):
    """Joins at once the first time; who comes back after leaving waits for the interval."""

    been_here = False

    def left(self):
        super().left()
        self.been_here = True

    def wake_up(self):
        if self.status != "joining" or not self.been_here:
            super().wake_up()
