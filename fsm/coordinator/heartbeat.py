"""ConsumerGroupHeartbeat: the request as it was sent, what is checked before any group is looked at, and the answers.

Source: sections 3.2 and 3.7 of the coordinator reference; `GroupCoordinatorService` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from fsm.coordinator.context import Context
from fsm.coordinator.dialect import Choice
from fsm.coordinator.members import AWAY, LEFT
from fsm.coordinator.messages import Answer, Refused, Request
from fsm.kafka.assignment import TopicPartitions, topic_partitions
from fsm.kafka.error_codes import ErrorCode

JOINING = 0
"""The epoch of a member that joins, or joins again."""


class Heartbeat(NamedTuple):
    """The fields of the request; None is Kafka's null, which leaves a value as it was."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    """-1 where it is not said."""
    names: tuple[str, ...] | None
    """Sorted, each once."""
    regex: str | None
    server_assignor: str | None
    owned: TopicPartitions | None

    @property
    def is_full(self) -> bool:
        """Whether it says everything: its sender may have missed an answer."""
        subscribes = self.names is not None or self.regex is not None
        return self.rebalance_timeout_ms != -1 and subscribes and self.owned is not None

    @property
    def leaves(self) -> bool:
        """Whether the member goes, for good or for a while."""
        return self.member_epoch in {LEFT, AWAY}


def heartbeat_of(body: Mapping[str, Any]) -> Heartbeat:
    """The request in this body."""
    names, owned = body.get("subscribed_topic_names"), body.get("topic_partitions")
    return Heartbeat(
        body["group_id"],
        body["member_id"],
        body["member_epoch"],
        body.get("instance_id"),
        body.get("rack_id"),
        body.get("rebalance_timeout", -1),
        None if names is None else tuple(sorted(set(names))),
        body.get("subscribed_topic_regex"),
        body.get("server_assignor"),
        None if owned is None else _owned(owned),
    )


def _owned(topics: Iterable[Mapping[str, Any]]) -> TopicPartitions:
    """A topic that comes twice counts with all its partitions."""
    found: dict[str, list[int]] = {}
    for topic in topics:
        found.setdefault(topic["topic_id"], []).extend(topic["partitions"])
    return topic_partitions(found)


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
        _must(sent.regex is None, "this release takes no subscription by regular expression")


def _epoch_fits(_request: Request, sent: Heartbeat, context: Context) -> None:
    if sent.member_epoch == JOINING:
        _joiner_says_everything(sent, context)
    _must(sent.member_epoch != AWAY or sent.instance_id is not None, "only a static member leaves for a while")
    _must(sent.member_epoch >= AWAY, "no such member epoch")


def _joiner_says_everything(sent: Heartbeat, context: Context) -> None:
    _must(sent.rebalance_timeout_ms != -1, "a joining member must give its rebalance timeout")
    _must(sent.owned == (), "a joining member must own nothing")
    if Choice.CLIENT_MAKES_MEMBER_ID in context.dialect:
        _must(sent.names is not None or sent.regex is not None, "a joining member must give its subscription")
    else:
        _must(bool(sent.names), "a joining member must subscribe to topics")


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
    assignment = None if assigned is None else {"topic_partitions": [_topic(*topic) for topic in assigned]}
    body = {
        "error_code": None,
        "error_message": None,
        "member_id": member_id,
        "member_epoch": epoch,
        "heartbeat_interval": interval_ms,
        "assignment": assignment,
    }
    return Answer(request.token, body)


def _topic(topic_id: str, partitions: tuple[int, ...]) -> dict[str, Any]:
    return {"topic_id": topic_id, "partitions": list(partitions)}


def refusal(error: str, message: str) -> dict[str, Any]:
    """The body of an error answer."""
    nothing = {"member_id": None, "member_epoch": 0, "heartbeat_interval": 0, "assignment": None}
    return {"error_code": error, "error_message": message, **nothing}
