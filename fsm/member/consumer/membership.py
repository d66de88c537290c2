"""Effects of the consumer member on its epoch, its subscription, its releases and its leave.

Each method carries out the effect of its name; `fsm.tables.consumer_member.Effect` says what that is. One that finds
nothing to wait for returns the event that is then due within the row.

Source: `AbstractMembershipManager`, `SubscriptionState`.
"""

from __future__ import annotations

from dataclasses import replace

from fsm.member.consumer.decisions import decide_stale_done, has_someone_to_tell, leave_epoch, to_be_removed
from fsm.member.consumer.state import Awaited, MemberStep, Origin, StaleRelease
from fsm.member.consumer.subscription import OWNS_NOTHING
from fsm.member.dialect.choices import Choice
from fsm.member.effects import (
    AssignmentUpdated,
    CallCompleted,
    Enqueued,
    EpochUpdated,
    Marked,
    PollTimerExpired,
    TargetUpdated,
)
from fsm.member.events import ErrorEvent, KafkaError, ListenerMethod, PartitionsRemovedEvent
from fsm.protocol.assignment import NO_NAMES, NONE, Partitions
from fsm.tables.consumer_member import Event


class Membership(MemberStep):
    """The effects of this module."""

    # Epoch

    def set_epoch(self, epoch: int) -> None:
        """Takes an epoch; listeners hear of a change, and of none where it is not positive."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.effects.append(EpochUpdated(epoch if epoch > 0 else None))

    def adopt_epoch(self) -> None:
        if self.response.member_epoch != self.epoch:
            self.set_epoch(self.response.member_epoch)

    def reset_epoch(self) -> None:
        self.set_epoch(0)

    def set_leave_epoch(self) -> None:
        self.set_epoch(leave_epoch(self))

    def notify_no_epoch(self) -> None:
        self.effects.append(EpochUpdated(None))

    # Subscription and assignment

    def store_subscription(self) -> None:
        self.subscription = self.subscription_asked
        self.complete_call()

    def flag_subscription(self) -> None:
        self.updated = True

    def unsubscribe_all(self) -> None:
        self.ownership = OWNS_NOTHING
        if not (self.updated and Choice.LAST_SUBSCRIPTION_COUNTS in self.settings.choices):
            self.subscription = self.subscription.clear()
        if Choice.CLOSE_ASKS_MEMBER in self.settings.choices:
            self.notify_empty_assignment()

    def clear_assignment(self) -> None:
        if self.subscription.kind.is_auto:
            self.ownership = OWNS_NOTHING
            self.notify_empty_assignment()
        self.current = self.target = NONE
        self.names = NO_NAMES

    def notify_empty_assignment(self) -> None:
        self.effects.append(AssignmentUpdated(()))

    def bump_target(self) -> None:
        received = self.response.assignment
        updated = self.target if received is None else self.target.updated(received)
        if updated is not self.target:
            self.effects.append(TargetUpdated(self.target, updated))
            self.target = updated

    def drop_target(self) -> None:
        self.target, self.names = NONE, NO_NAMES

    def drop_current(self) -> None:
        self.current = NONE

    def mark_rejoined(self) -> None:
        if self.run is not None:
            self.run = replace(self.run, rejoined=True)

    # Releases

    def await_callback(self, origin: Origin) -> int:
        """Gives the lowest free ticket to a callback of that origin."""
        taken = {a.ticket for a in self.awaited}
        ticket = next(n for n in range(1, len(taken) + 2) if n not in taken)
        self.awaited = (*self.awaited, Awaited(ticket, origin))
        return ticket

    def enqueue_removed(self, method: ListenerMethod, origin: Origin, removed: Partitions) -> None:
        """Asks for the revoked or the lost callback."""
        ticket = self.await_callback(origin)
        self.effects.append(Enqueued(PartitionsRemovedEvent(ticket, method, removed, call_back=bool(removed))))

    def mark(self, revoked: Partitions) -> None:
        """Flags partitions as pending revocation; tells so even if there are none."""
        self.ownership = self.ownership.mark_revoked(revoked)
        self.effects.append(Marked(revoked))

    def mark_owned(self) -> None:
        if self.epoch > 0 and self.ownership.owned:
            self.mark(self.ownership.owned)

    def enqueue_removed_leave(self) -> None:
        method = ListenerMethod.REVOKED if self.epoch > 0 else ListenerMethod.LOST
        self.enqueue_removed(method, Origin.LEAVE, to_be_removed(self))

    def _release_lost(self, origin: Origin) -> bool:
        """Asks for the lost callback; whether there is anybody to ask."""
        if Choice.MARK_LOST in self.settings.choices:
            self.mark(self.ownership.owned)
        if not has_someone_to_tell(self):
            return False
        self.enqueue_removed(ListenerMethod.LOST, origin, to_be_removed(self))
        return True

    def release_lost_fence(self) -> Event | None:
        return None if self._release_lost(Origin.FENCE) else Event.LOST_DONE_FENCE

    def release_lost_fatal(self) -> Event | None:
        return None if self._release_lost(Origin.FATAL) else Event.LOST_DONE_FATAL

    def release_lost_stale(self) -> Event | None:
        self._set_stale_release(StaleRelease.OPEN)
        return None if self._release_lost(Origin.STALE) else decide_stale_done(self)

    def register_rejoin(self) -> None:
        self._set_stale_release(StaleRelease.REJOIN)

    def complete_stale_release(self) -> None:
        self._set_stale_release(StaleRelease.DONE)

    def _set_stale_release(self, reached: StaleRelease) -> None:
        self.leaving = replace(self.leaving, stale_release=reached)

    # Leaving and calls

    def store_operation(self) -> None:
        if Choice.OPERATION in self.settings.choices:
            self.leaving = replace(self.leaving, operation=self.operation_asked)

    def create_leave(self) -> None:
        self._set_calls((self.call,) if self.call else ())

    def await_leave(self) -> None:
        if self.leaving.calls is None:
            self.effects.append(CallCompleted(self.call, KafkaError("NoSuchElementException", "no leave is open")))
        elif self.call:
            self._set_calls((*self.leaving.calls, self.call))

    def complete_leave(self) -> None:
        if self.leaving.calls is not None:
            self.effects.extend(CallCompleted(call) for call in self.leaving.calls)
            self._set_calls(None)

    def _set_calls(self, calls: tuple[int, ...] | None) -> None:
        self.leaving = replace(self.leaving, calls=calls)

    def complete_call(self) -> None:
        if self.call:
            self.effects.append(CallCompleted(self.call))

    def note_poll_expired(self) -> None:
        self.effects.append(PollTimerExpired())

    def enqueue_error(self) -> None:
        self.effects.append(Enqueued(ErrorEvent(self.failure.error)))
