"""Values inside librdkafka's texts: errors by their words, lists of partitions, subscriptions."""

from __future__ import annotations

import re

from fsm.trace import DETAIL_LIMIT, Partition, by_partition

ERRORS = {
    "API version not supported": "UNSUPPORTED_VERSION",
    "Consumer group has reached maximum size": "GROUP_MAX_SIZE_REACHED",
    "Coordinator load in progress": "COORDINATOR_LOAD_IN_PROGRESS",
    "Coordinator not available": "COORDINATOR_NOT_AVAILABLE",
    "Group authorization failed": "GROUP_AUTHORIZATION_FAILED",
    "Group member needs a valid member ID": "MEMBER_ID_REQUIRED",
    "Group rebalance in progress": "REBALANCE_IN_PROGRESS",
    "Inconsistent group protocol": "INCONSISTENT_GROUP_PROTOCOL",
    "Invalid group.id": "INVALID_GROUP_ID",
    "Invalid request": "INVALID_REQUEST",
    "Invalid session timeout": "INVALID_SESSION_TIMEOUT",
    "Not coordinator": "NOT_COORDINATOR",
    "Request timed out": "REQUEST_TIMED_OUT",
    "Specified group generation id is not valid": "ILLEGAL_GENERATION",
    "Static consumer fenced by other consumer with same group.instance.id": "FENCED_INSTANCE_ID",
    "The assignor or its version range is not supported by the consumer group": "UNSUPPORTED_ASSIGNOR",
    "The group id does not exist": "GROUP_ID_NOT_FOUND",
    "The instance ID is still used by another member in the consumer group": "UNRELEASED_INSTANCE_ID",
    "The member epoch is fenced by the group coordinator": "FENCED_MEMBER_EPOCH",
    "The member epoch is stale": "STALE_MEMBER_EPOCH",
    "The regular expression is not valid": "INVALID_REGULAR_EXPRESSION",
    "Topic authorization failed": "TOPIC_AUTHORIZATION_FAILED",
    "Unknown member": "UNKNOWN_MEMBER_ID",
}
"""Kafka's error names by the words librdkafka prints for them (`rd_kafka_err_descs`)."""

_BROKER_ERROR = re.compile(r"Broker: ([^:]*)")
_NO_VALUE = ("NULL", "(null)")
"""A field that was not sent, and one that was sent as null."""
_ITEM = re.compile(r"(.+)\((?:\(null\)|[^()]*)\)\[(\d{1,9})\](?:@-?\d{1,19})?", re.ASCII)
"""`topic(topic id)[partition]@offset`"""
_SUBSCRIBED_ITEM = "((null))[-1]"
"""What follows each topic or pattern of a subscription."""


def error_name(text: str) -> str:
    """The name of the broker's error that the text begins with, or the text."""
    broker = _BROKER_ERROR.match(text)
    return ERRORS.get(broker[1], text[:DETAIL_LIMIT]) if broker else text[:DETAIL_LIMIT]


def sent(text: str) -> str:
    """The value of a field of a request, empty where it was not sent."""
    return "" if text in _NO_VALUE else text


def partitions(text: str) -> tuple[Partition, ...] | None:
    """The partitions of a list, None where it was not sent, is cut (`...`), or holds a topic without a name."""
    if text in _NO_VALUE:
        return None
    found: list[Partition] = []
    for item in text.split(", ") if text else ():
        match = _ITEM.fullmatch(item)
        if match is None or match[1] in _NO_VALUE:
            return None
        found.append((match[1], int(match[2])))
    return by_partition(found)


def subscription(text: str) -> tuple[tuple[str, ...], str]:
    """The topics of a subscription list and one pattern for all its patterns; of a cut list what is readable."""
    names = [name.removeprefix(", ") for name in text.split(_SUBSCRIBED_ITEM)[:-1]]
    topics = sorted({name for name in names if not name.startswith("^")})
    return tuple(topics), "|".join(name for name in names if name.startswith("^"))
