"""What an embedded member is to its runtime, whichever protocol it speaks; and what a runtime is to an application.

`fsm.member.runtime.background` and `fsm.member.runtime.calls` know a member by `EmbeddedMember` alone:
`fsm.member.runtime.consumer_shell` has the one
of KIP-848, `fsm.member.runtime.classic_shell` that of the classic protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from fsm.member.classic.assignors import PartitionCounts
from fsm.member.effects import CallCompleted
from fsm.member.events import ApplicationEvent, BackgroundEvent, GroupMembershipOperation, KafkaError
from fsm.member.runtime.queues import InvokeListener, KafkaException
from fsm.member.timers import NEVER
from fsm.protocol.assignment import Partitions, TopicNames
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.messages import ClassicRequest, ClassicResponse, ConsumerRequest, ConsumerResponse, Offsets

Request = ConsumerRequest | ClassicRequest
Response = ConsumerResponse | ClassicResponse
Metadata = TopicNames | PartitionCounts
"""Which topics there are: their names by id for a member of KIP-848; for a classic one, which may lead its group, how
many partitions each has."""


class ConsumerRebalanceListener(Protocol):
    """The application's callbacks; each may raise. A subclass that has no lost callback gets the revoked one."""

    def on_partitions_assigned(self, partitions: Partitions) -> None:
        """These were added."""

    def on_partitions_revoked(self, partitions: Partitions) -> None:
        """These are given up; their positions can still be committed."""

    def on_partitions_lost(self, partitions: Partitions) -> None:
        """These belong to others already."""
        self.on_partitions_revoked(partitions)


class Order(Protocol):
    """A request that a member wants sent; the answer is given back together with it."""

    @property
    def body(self) -> Request: ...


@dataclass(frozen=True, slots=True)
class PollResult:
    """What a turn of the loop came to."""

    unsent_requests: tuple[Any, ...]
    """To be sent to the coordinator, in order: `UnsentRequest` or `UnsentClassicRequest`."""
    time_until_next_poll_ms: int
    """Call `poll` again after this time, or earlier when something happens."""
    completed_calls: tuple[CallCompleted, ...] = ()
    coordinator_needed: bool = False
    """The coordinator was forgotten: find it, then hand in `CoordinatorFound`."""
    metadata_needed: bool = False
    """Topics that the metadata does not know: update it, then hand it in."""
    notices: tuple[Any, ...] = ()
    """What the member went through, for logs and traces."""


class EmbeddedMember(Protocol):
    """A member, its queues and the loop that a runtime turns."""

    @property
    def config(self) -> ConsumerConfig:
        """Its settings."""

    @property
    def member_id(self) -> str:
        """Its name in the group; empty as long as it has none."""

    @property
    def closed(self) -> bool:
        """Whether close() is over: the loop need not be turned any more."""

    @property
    def seeks_coordinator(self) -> bool:
        """Whether a coordinator is to be found."""

    @property
    def is_subscribed(self) -> bool:
        """Whether there is something to poll for."""

    @property
    def owned(self) -> Partitions:
        """What it owns now."""

    def fetchable(self, *, checked: bool) -> Partitions:
        """What records may be taken from; `checked` where the poll under way has made its attempt to reconcile."""

    @property
    def poll_wanted_ms(self) -> int:
        """From when on another poll would move it."""

    @property
    def pending_background_events(self) -> int:
        """How many events wait for the application."""

    def next_background_event(self) -> BackgroundEvent | None:
        """The next one."""

    def submit(self, event: ApplicationEvent, deadline_ms: int = NEVER) -> int:
        """Adds an application event; gives the number of the call."""

    def report(self, event: ApplicationEvent, now_ms: int) -> int:
        """Adds an event of a pass over background events; the number of the call that has to be waited for, or 0."""

    def answered(self, order: Any, answer: Any, jitter: float, now_ms: int) -> None:
        """The answer to a request, or why there is none. Raises `RemoteProtocolError` where it answers nothing."""

    def found_coordinator(self, now_ms: int) -> None:
        """There is a coordinator to send to."""

    def lost_coordinator(self, error: KafkaError, now_ms: int) -> None:
        """The search for one failed for good."""

    def learn(self, metadata: Any, now_ms: int) -> bool:
        """Which topics there are; whether that is news."""

    def fail_metadata(self, error: KafkaError, now_ms: int) -> None:
        """The metadata cannot be had."""

    def backoff_ms(self, attempts: int, jitter: float) -> int:
        """How long to wait after so many failures."""

    def timeout_ms(self, request: Any) -> int:
        """How long an answer may take."""

    def poll(self, now_ms: int, jitter: float = 0.0) -> PollResult:
        """One turn of the loop."""

    def close(
        self, now_ms: int, *, operation: GroupMembershipOperation, timeout_ms: int, consumed: Offsets | None
    ) -> None:
        """Begins to close."""


def invoke(
    listener: ConsumerRebalanceListener | None, asked: InvokeListener
) -> tuple[KafkaError | None, BaseException | None]:
    """Runs a callback; gives what it raised, as the application will see it, and the interrupt, if it was one.

    A callback that Ctrl-C ends has ended, too: whoever lets the interrupt through reports that end first.
    """
    if listener is None:
        return None, None
    try:
        getattr(listener, asked.method.value)(asked.partitions)
    except BaseException as raised:  # whatever a listener raises is the membership's business
        return callback_error(raised), None if isinstance(raised, Exception) else raised
    return None, None


def callback_error(raised: BaseException) -> KafkaError:
    """What the application sees of an exception of its listener: a Kafka error as it is, anything else wrapped."""
    if isinstance(raised, KafkaException):
        return raised.error
    return KafkaError("KafkaException", f"the rebalance listener raised: {raised}")
