"""What a consumer member does to its epoch, its subscription, its releases and its leave.

One short function carries out one effect of the table; their table is in `fsm.member.consumer`. A function returns
the event that is due within the row where there is nothing to wait for, else nothing.

Source: `AbstractMembershipManager`, `SubscriptionState`.
"""

from __future__ import annotations

from fsm.kafka.assignment import NO_NAMES, NONE
from fsm.kafka.events import ErrorEvent, KafkaError, ListenerMethod, PartitionsRemovedEvent
from fsm.member.choices import Choice
from fsm.member.decisions import decide_stale_done, has_someone_to_tell, leave_epoch, to_be_removed
from fsm.member.effects import AssignmentUpdated, CallCompleted, Enqueued, EpochUpdated, Marked, TargetUpdated
from fsm.member.state import Awaited, Draft, Origin, StaleRelease
from fsm.member.subscription import OWNS_NOTHING
from fsm.tables.consumer_member import Event

# Epoch


def set_epoch(d: Draft, epoch: int) -> None:
    """Takes an epoch; listeners hear of a change, and of none where it is not positive."""
    if epoch == d.epoch:
        return
    d.epoch = epoch
    d.effects.append(EpochUpdated(epoch if epoch > 0 else None))


def adopt_epoch(d: Draft) -> None:
    """The epoch of the response."""
    set_epoch(d, d.response.member_epoch)


def reset_epoch(d: Draft) -> None:
    """Epoch 0, to join with."""
    set_epoch(d, 0)


def set_leave_epoch(d: Draft) -> None:
    """The epoch that tells the coordinator of the leave."""
    set_epoch(d, leave_epoch(d))


def notify_no_epoch(d: Draft) -> None:
    """Listeners hear that there is no epoch; it keeps its value."""
    d.effects.append(EpochUpdated(None))


# Subscription and assignment


def store_subscription(d: Draft) -> None:
    """The subscription that was asked for; its call is answered."""
    d.subscription = d.subscription_asked
    complete_call(d)


def flag_subscription(d: Draft) -> None:
    """For the next poll."""
    d.updated = True


def unsubscribe_all(d: Draft) -> None:
    """Nothing subscribed, nothing owned; a subscription made since the leave began may stay."""
    d.ownership = OWNS_NOTHING
    if not (d.updated and Choice.LAST_SUBSCRIPTION_COUNTS in d.settings.dialect):
        d.subscription = d.subscription.emptied()
    if Choice.CLOSE_ASKS_MEMBER in d.settings.dialect:
        notify_empty_assignment(d)


def clear_assignment(d: Draft) -> None:
    """Nothing assigned; what the application assigned itself stays."""
    if d.subscription.kind.is_auto:
        d.ownership = OWNS_NOTHING
        notify_empty_assignment(d)
    d.current = d.target = NONE
    d.names = NO_NAMES


def notify_empty_assignment(d: Draft) -> None:
    """The application's record of its assignment is empty."""
    d.effects.append(AssignmentUpdated(()))


def bump_target(d: Draft) -> None:
    """The response's assignment as target, if it is another one."""
    received = d.response.assignment
    updated = d.target if received is None else d.target.updated(received)
    if updated is d.target:
        return
    d.effects.append(TargetUpdated(d.target, updated))
    d.target = updated


def drop_target(d: Draft) -> None:
    """No target, no names of its topics."""
    d.target, d.names = NONE, NO_NAMES


def drop_current(d: Draft) -> None:
    """Nothing is held any more that heartbeats could tell of."""
    d.current = NONE


def mark_rejoined(d: Draft) -> None:
    """A run that is open concerns an earlier membership from here on."""
    if d.run is not None:
        d.run = d.run._replace(rejoined=True)


# Releases


def await_callback(d: Draft, origin: Origin) -> int:
    """The lowest ticket that is free, given to a callback of that origin."""
    taken = {a.ticket for a in d.awaited}
    ticket = next(n for n in range(1, len(taken) + 2) if n not in taken)
    d.awaited = (*d.awaited, Awaited(ticket, origin))
    return ticket


def enqueue_removed(d: Draft, method: ListenerMethod, origin: Origin, removed: tuple[tuple[str, int], ...]) -> None:
    """Asks for the revoked or the lost callback."""
    d.effects.append(Enqueued(PartitionsRemovedEvent(await_callback(d, origin), method, removed, heard=bool(removed))))


def mark(d: Draft, revoked: tuple[tuple[str, int], ...]) -> None:
    """Flags partitions as pending revocation; said even if there are none."""
    d.ownership = d.ownership.mark_revoked(revoked)
    d.effects.append(Marked(revoked))


def mark_owned(d: Draft) -> None:
    """Before a release that revokes; what was lost already is not marked."""
    if d.epoch > 0 and d.ownership.owned:
        mark(d, d.ownership.owned)


def enqueue_removed_leave(d: Draft) -> None:
    """The callback before a leave: revoked for a member in good standing, else lost."""
    method = ListenerMethod.REVOKED if d.epoch > 0 else ListenerMethod.LOST
    enqueue_removed(d, method, Origin.LEAVE, to_be_removed(d))


def _release_lost(d: Draft, origin: Origin) -> bool:
    """Whether somebody has to be told, and then asks for it."""
    if Choice.MARK_LOST in d.settings.dialect:
        mark(d, d.ownership.owned)
    if not has_someone_to_tell(d):
        return False
    enqueue_removed(d, ListenerMethod.LOST, origin, to_be_removed(d))
    return True


def release_lost_fence(d: Draft) -> Event | None:
    """After fencing."""
    return None if _release_lost(d, Origin.FENCE) else Event.LOST_DONE_FENCE


def release_lost_fatal(d: Draft) -> Event | None:
    """After a fatal error."""
    return None if _release_lost(d, Origin.FATAL) else Event.LOST_DONE_FATAL


def release_lost_stale(d: Draft) -> Event | None:
    """After the poll timer ran out; remembered, since a late poll asks how far it is."""
    d.stale_release = StaleRelease.OPEN
    return None if _release_lost(d, Origin.STALE) else decide_stale_done(d)


def register_rejoin(d: Draft) -> None:
    """The end of the stale release rejoins."""
    d.stale_release = StaleRelease.REJOIN


def complete_stale_release(d: Draft) -> None:
    """A later poll need not wait."""
    d.stale_release = StaleRelease.DONE


# Leaving and calls


def store_operation(d: Draft) -> None:
    """What close() was told, where the dialect knows such a thing."""
    if Choice.OPERATION in d.settings.dialect:
        d.operation = d.operation_asked


def create_leave(d: Draft) -> None:
    """The caller waits for the end."""
    d.leave = (d.call,) if d.call else ()


def await_leave(d: Draft) -> None:
    """Another caller waits for the same end; where none is open, its call fails."""
    if d.leave is None:
        error = KafkaError("NoSuchElementException", "no leave is open")
        d.effects.append(CallCompleted(d.call, error))
    elif d.call:
        d.leave = (*d.leave, d.call)


def complete_leave(d: Draft) -> None:
    """Everybody who waits for the leave goes on."""
    if d.leave is not None:
        d.effects.extend(CallCompleted(call) for call in d.leave)
        d.leave = None


def complete_call(d: Draft) -> None:
    """The caller goes on at once."""
    if d.call:
        d.effects.append(CallCompleted(d.call))


def note_poll_expired(d: Draft) -> None:
    """Why the member leaves."""
    d.poll_expired = True


def enqueue_error(d: Draft) -> None:
    """The application is to throw it."""
    d.effects.append(Enqueued(ErrorEvent(d.failure.error)))
