"""ConsumerGroupHeartbeat: the request as it was sent, what is checked before any group is looked at, and the answers.

Source: sections 3.2 and 3.7 of the coordinator reference; `GroupCoordinatorService` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Callable

from fsm.coordinator.model.consumer_group import AWAY, LEFT
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.step import Answer, Refused, Request
from fsm.protocol.assignment import TopicPartitions
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

JOINING = 0
"""The epoch of a member that joins, or joins again."""


Heartbeat = ConsumerGroupHeartbeatRequest


def is_full(sent: Heartbeat) -> bool:
    """Whether the request says everything: its sender may have missed an answer."""
    subscribes = sent.subscribed_topic_names is not None or sent.subscribed_topic_regex is not None
    return sent.rebalance_timeout_ms != -1 and subscribes and sent.topic_partitions is not None


def leaves(sent: Heartbeat) -> bool:
    """Whether the member goes, for good or for a while."""
    return sent.member_epoch in {LEFT, AWAY}


def check(request: Request, sent: Heartbeat, context: Context) -> None:
    """Every check that needs no group, in Kafka's order. Raises `Refused` for the first that fails."""
    for one in _CHECKS:
        one(request, sent, context)


def _protocol_is_on(_request: Request, _sent: Heartbeat, context: Context) -> None:
    if "consumer" not in context.config.group_coordinator_rebalance_protocols:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION)


def _member_id_is_given(request: Request, sent: Heartbeat, context: Context) -> None:
    """Before 4.0 the coordinator makes the ids; later it still does for version 0 of the request."""
    client_makes_it = request.version >= 1 and Choice.CLIENT_MAKES_MEMBER_ID in context.dialect
    if client_makes_it or sent.member_epoch > 0 or sent.member_epoch == LEFT:
        _not_blank("MemberId", sent.member_id)


def _ids_are_not_blank(_request: Request, sent: Heartbeat, _context: Context) -> None:
    _not_blank("GroupId", sent.group_id)
    _not_blank("InstanceId", sent.instance_id)
    _not_blank("RackId", sent.rack_id)


def _regex_is_known(_request: Request, sent: Heartbeat, context: Context) -> None:
    if Choice.REGEX_SUBSCRIPTIONS not in context.dialect:
        _must(sent.subscribed_topic_regex is None, "this release takes no subscription by regular expression")


def _epoch_fits(_request: Request, sent: Heartbeat, context: Context) -> None:
    if sent.member_epoch == JOINING:
        _joiner_says_everything(sent, context)
    _must(sent.member_epoch != AWAY or sent.instance_id is not None, "only a static member leaves for a while")
    _must(sent.member_epoch >= AWAY, "no such member epoch")


def _joiner_says_everything(sent: Heartbeat, context: Context) -> None:
    _must(sent.rebalance_timeout_ms != -1, "a joining member must give its rebalance timeout")
    owned = sent.topic_partitions
    _must(owned is not None and not any(numbers for _, numbers in owned), "a joining member must own nothing")
    if Choice.CLIENT_MAKES_MEMBER_ID in context.dialect:
        subscribes = sent.subscribed_topic_names is not None or sent.subscribed_topic_regex is not None
        _must(subscribes, "a joining member must give its subscription")
    else:
        _must(bool(sent.subscribed_topic_names), "a joining member must subscribe to topics")


def _assignor_is_known(_request: Request, sent: Heartbeat, context: Context) -> None:
    if sent.server_assignor is not None and sent.server_assignor not in context.config.group_consumer_assignors:
        raise Refused(ErrorCode.UNSUPPORTED_ASSIGNOR, f"no assignor {sent.server_assignor!r}")


_CHECKS: tuple[Callable[[Request, Heartbeat, Context], None], ...] = (
    _protocol_is_on,
    _member_id_is_given,
    _ids_are_not_blank,
    _regex_is_known,
    _epoch_fits,
    _assignor_is_known,
)


def _not_blank(name: str, text: str | None) -> None:
    _must(text is None or bool(text.strip()), f"{name} must not be empty")


def _must(holds: bool, message: str) -> None:
    if not holds:
        raise Refused(ErrorCode.INVALID_REQUEST, message)


def answer(
    request: Request, member_id: str, epoch: int, interval_ms: int = 0, assigned: TopicPartitions | None = None
) -> Answer:
    """The answer to a heartbeat that was accepted; without an assignment nothing changed."""
    body = ConsumerGroupHeartbeatResponse(epoch, interval_ms, assigned, member_id=member_id)
    return Answer(request.token, body)


def refusal(code: ErrorCode, message: str) -> ConsumerGroupHeartbeatResponse:
    """The body of an error answer."""
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)
