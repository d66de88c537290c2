"""The inputs of a consumer member, beside the application events of `fsm.member.events`."""

from __future__ import annotations

from fsm.member.effects import UnsentRequest
from fsm.member.events import ApplicationEvent, KafkaError
from fsm.protocol.assignment import TopicNames
from fsm.protocol.messages import ConsumerResponse, TransportFailure
from fsm.step import value


@value
class Tick:
    """One loop of the background thread after its queue is drained: commits, heartbeat, reconciliation."""

    jitter: float = 0.0


@value
class Answered:
    """The answer to a request, or why there is none. `jitter` is from -1 to 1 and spreads the next attempt."""

    request: UnsentRequest
    answer: ConsumerResponse | TransportFailure
    jitter: float = 0.0


@value
class CoordinatorFound:
    """There is a coordinator to send to."""


@value
class CoordinatorLost:
    """There is no coordinator any more; `error` is a fatal error of the lookup that the application must see."""

    error: KafkaError | None = None


@value
class MetadataUpdated:
    """The client's metadata has exactly these topics."""

    names: TopicNames


@value
class MetadataFailed:
    """The metadata has an error, with which the next poll fails."""

    error: KafkaError


@value
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
