"""The events between the two threads of a consumer: application events one way, background events the other.

Source: package `org.apache.kafka.clients.consumer.internals.events`; names are its own. An event is a frozen value. One
that a caller waits for is *completable*: it carries the number of the call, and the member reports that call as
completed. A background event that requests a callback carries a `ticket`, which the answer repeats.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from fsm.protocol.assignment import Partitions
from fsm.protocol.messages import Offsets
from fsm.step import value


class GroupMembershipOperation(Enum):
    """What close() is to do with the membership."""

    DEFAULT = "a dynamic member leaves, a static member keeps its place"
    LEAVE_GROUP = "leave, also as a static member"
    REMAIN_IN_GROUP = "keep the place until the session times out"


class ListenerMethod(Enum):
    """The methods of a `ConsumerRebalanceListener`, by their names in Python."""

    REVOKED = "on_partitions_revoked"
    ASSIGNED = "on_partitions_assigned"
    LOST = "on_partitions_lost"


@value
class KafkaError:
    """An error on its way to the application: Kafka's name of it and the broker's words."""

    name: str
    message: str = ""


OUTDATED = KafkaError("AssignmentOutdated", "the membership that was given this assignment is over")
"""The failure of an outdated assignment, in dialects that check it; the application does not see it."""


@value
class ApplicationEvent:
    """A request of the application to the background thread; `call` is the number of the waiting call, 0 for none."""

    call: int = field(default=0, kw_only=True)


@value
class AsyncPollEvent(ApplicationEvent):
    """The application polls. `consumed` are its current positions."""

    consumed: Offsets = ()


@value
class TopicSubscriptionChangeEvent(ApplicationEvent):
    """subscribe(topics); `listener` says whether the call has one."""

    topics: tuple[str, ...]
    listener: bool = False


@value
class TopicPatternSubscriptionChangeEvent(ApplicationEvent):
    """subscribe(java.util.regex.Pattern): matched by the client against the topics it knows."""

    pattern: str
    listener: bool = False


@value
class TopicRe2JPatternSubscriptionChangeEvent(ApplicationEvent):
    """subscribe(SubscriptionPattern): matched by the coordinator."""

    pattern: str
    listener: bool = False


@value
class UpdatePatternSubscriptionEvent(ApplicationEvent):
    """The topics that the client's pattern matches may have changed."""


@value
class AssignmentChangeEvent(ApplicationEvent):
    """assign(partitions): the application assigns itself."""

    partitions: Partitions


@value
class UnsubscribeEvent(ApplicationEvent):
    """unsubscribe(): leave the group, callbacks first."""


@value
class LeaveGroupOnCloseEvent(ApplicationEvent):
    """close() has run its callback and leaves the group."""

    operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT


@value
class StopFindCoordinatorOnCloseEvent(ApplicationEvent):
    """close(): a coordinator unknown from here on stays unknown."""


@value
class CommitOnCloseEvent(ApplicationEvent):
    """close(): no automatic commit any more."""


@value
class SyncCommitEvent(ApplicationEvent):
    """commitSync(offsets), as close() does it under auto-commit."""

    offsets: Offsets


@value
class ApplyAssignmentEvent(ApplicationEvent):
    """Inside poll(), the application applies the assignment that it received."""

    ticket: int
    full: Partitions
    added: Partitions


@value
class ConsumerRebalanceListenerCallbackCompletedEvent(ApplicationEvent):
    """The callback of `ticket` returned, or raised `error`; also reported without a listener."""

    ticket: int
    error: str | None = None


@value
class BackgroundEvent:
    """An event of the background thread for the application."""


@value
class ErrorEvent(BackgroundEvent):
    """poll() is to throw this."""

    error: KafkaError


@value
class PartitionsRemovedEvent(BackgroundEvent):
    """Run the revoked or the lost callback over `partitions`, then report the end.

    Without `call_back` no callback is run: only the end is reported, in its turn.
    """

    ticket: int
    method: ListenerMethod
    partitions: Partitions
    call_back: bool = True


@value
class PartitionsAssignedEvent(BackgroundEvent):
    """Apply `full`, then run the assigned callback over `added` (even if empty), then report the end.

    Kafka before 4.3 has already applied it, in the background: `apply` is False, and only the callback runs.
    """

    ticket: int
    full: Partitions
    added: Partitions
    apply: bool = True
