"""The effects of a step: orders to the runtime, and notices about the member.

The runtime carries out the first group. The second group is what Kafka's members write into their logs and report to
their listeners: no decision depends on it, tests and traces read it.
"""

from __future__ import annotations

from enum import Enum

from fsm.member.events import BackgroundEvent, KafkaError
from fsm.protocol.assignment import LocalAssignment, Partitions, TopicId
from fsm.protocol.messages import ConsumerRequest
from fsm.step import value
from fsm.tables.consumer_member import Event, State


class Purpose(Enum):
    """Why a request is sent; it decides how its answer is handled."""

    HEARTBEAT = "the answer is an event of the member"
    UNWATCHED = "a heartbeat whose answer is logged and nothing more"
    RUN_COMMIT = "the commit before a reconciliation changes anything"
    INTERVAL_COMMIT = "the automatic commit; its answer changes nothing"
    CALL_COMMIT = "a commit that the application waits for"

    __hash__ = object.__hash__


@value
class UnsentRequest:
    """Send `body` to the coordinator, and give the answer back together with this."""

    body: ConsumerRequest
    purpose: Purpose
    call: int = 0
    number: int = 0
    """Which attempt of its kind it is, where the dialect numbers them."""


@value
class Enqueued:
    """Add an event to the background queue."""

    event: BackgroundEvent


@value
class CallCompleted:
    """The call of an application event is complete; `error` is its failure, if any."""

    call: int
    error: KafkaError | None = None


@value
class CoordinatorForgotten:
    """Find the coordinator again."""


@value
class CoordinatorSearchStopped:
    """Do not look for a coordinator any more."""


@value
class MetadataNeeded:
    """Update the metadata: these topic ids have no name."""

    topic_ids: tuple[TopicId, ...]


@value
class Transition:
    """The member went from `source` to `target`; `epoch` is the one its log line shows."""

    source: State
    target: State
    epoch: int
    event: Event


@value
class EpochUpdated:
    """For epoch listeners: the member epoch, or None where there is none."""

    epoch: int | None


@value
class AssignmentUpdated:
    """Updates the application's own record of its assignment."""

    partitions: Partitions


@value
class TargetUpdated:
    """The coordinator named another target."""

    source: LocalAssignment
    target: LocalAssignment


@value
class Marked:
    """These partitions are pending revocation: they are not fetched, and their positions do not move."""

    partitions: Partitions


@value
class RunStarted:
    """A reconciliation began."""

    resolved: LocalAssignment
    added: Partitions
    revoked: Partitions


@value
class CommitEnded:
    """The commit before a run's changes has ended, without (None) or with an error; the run continues."""

    error: KafkaError | None


@value
class RunEnded:
    """A run ended without being acknowledged: its callback failed, or it is outdated."""

    error: str | None


# For logs and metrics alone.


@value
class HeartbeatFailed:
    """A heartbeat got an error, or no answer."""

    error: KafkaError


@value
class PollTimerExpired:
    """The application has not polled in time, and the member acts on it."""


@value
class PolledLate:
    """The application polls again after that."""


Order = UnsentRequest | Enqueued | CallCompleted | CoordinatorForgotten | CoordinatorSearchStopped | MetadataNeeded
Notice = Transition | EpochUpdated | AssignmentUpdated | TargetUpdated | Marked | RunStarted | CommitEnded | RunEnded
LogLine = HeartbeatFailed | PollTimerExpired | PolledLate
MemberEffect = Order | Notice | LogLine
