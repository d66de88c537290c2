"""What goes in and comes out of the coordinator: requests with their client, and answers.

Bodies are mappings under Kafka's own field names in snake case, nested as Kafka's schemas nest them; durations are
milliseconds, bytes are base64, an error code is its name in lower case and None where there is no error. A field that
is left out of a request has the schema's default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fsm.kafka.error_codes import ErrorCode


class Request(NamedTuple):
    """One request as it reaches the coordinator."""

    token: int
    """Names the request in answers: it may be answered in a later step."""
    client_id: str
    client_host: str
    """As Kafka prints an address: `/127.0.0.1`."""
    api: str
    """`ConsumerGroupHeartbeat`, `JoinGroup`, `OffsetCommit`, ..."""
    version: int
    body: Mapping[str, Any]
    fresh_id: str = ""
    """The random part of a member id that the broker would make: used only where one is needed."""


class Answer(NamedTuple):
    """The answer to a request, with every field of its schema."""

    token: int
    body: Mapping[str, Any]


class Refused(Exception):  # noqa: N818  # an answer, not a fault of this program
    """A check failed: the answer is this error, and nothing changes. Never leaves the coordinator."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        self.code = code
        self.message = message
        super().__init__(f"{code.name}: {message}")


def error_name(code: ErrorCode) -> str | None:
    """The code as it stands in a body.

    >>> error_name(ErrorCode.FENCED_MEMBER_EPOCH), error_name(ErrorCode.NONE)
    ('fenced_member_epoch', None)
    """
    return None if code is ErrorCode.NONE else code.name.lower()
