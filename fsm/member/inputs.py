"""What can happen to a consumer member, beside the application events of `fsm.kafka.events`."""

from __future__ import annotations

from dataclasses import dataclass

from fsm.kafka.assignment import TopicNames
from fsm.kafka.events import ApplicationEvent, KafkaError
from fsm.kafka.messages import ConsumerResponse, TransportFailure
from fsm.member.effects import UnsentRequest


@dataclass(frozen=True, slots=True)
class Tick:
    """One loop of the background thread after its queue is drained: commits, heartbeat, reconciliation."""

    jitter: float = 0.0


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a request, or why there is none. `jitter` is from -1 to 1 and spreads the next attempt."""

    request: UnsentRequest
    answer: ConsumerResponse | TransportFailure
    jitter: float = 0.0


@dataclass(frozen=True, slots=True)
class CoordinatorFound:
    """There is a coordinator to send to."""


@dataclass(frozen=True, slots=True)
class CoordinatorLost:
    """There is none any more; with `error`, the search for one met a fatal error that the application must see."""

    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class MetadataUpdated:
    """The client's metadata has exactly these topics."""

    names: TopicNames


@dataclass(frozen=True, slots=True)
class MetadataFailed:
    """The metadata holds an error, which the next poll fails with."""

    error: KafkaError


@dataclass(frozen=True, slots=True)
class CloseFlush:
    """The background thread shuts down: last chance to send a leave."""


MemberInput = (
    ApplicationEvent
    | Tick
    | Answered
    | CoordinatorFound
    | CoordinatorLost
    | MetadataUpdated
    | MetadataFailed
    | CloseFlush
)
