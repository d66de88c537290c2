"""The input and result of one step of the coordinator: a request; the new state, answers and records.

Every request is one atomic step. With an error answer the state is unchanged and there are no records. Requests and
answers carry the messages of `fsm.protocol.messages`; the type of the message determines the API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from fsm.protocol import messages
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.records import Record
from fsm.table import Symbol

State = TypeVar("State", covariant=True)  # noqa: PLC0105
Other = TypeVar("Other")
if TYPE_CHECKING:  # `Request` alone is a request of any API
    from typing_extensions import TypeVar as TypeVarWithDefault

    Body = TypeVarWithDefault("Body", default=Any)
else:
    Body = TypeVar("Body")

RequestBody = (
    messages.ConsumerGroupHeartbeatRequest
    | messages.JoinGroupRequest
    | messages.SyncGroupRequest
    | messages.HeartbeatRequest
    | messages.LeaveGroupRequest
    | messages.OffsetCommitRequest
    | messages.TxnOffsetCommitRequest
    | messages.OffsetFetchRequest
    | messages.OffsetDeleteRequest
    | messages.DeleteGroupsRequest
)

ResponseBody = (
    messages.ConsumerGroupHeartbeatResponse
    | messages.JoinGroupResponse
    | messages.SyncGroupResponse
    | messages.HeartbeatResponse
    | messages.LeaveGroupResponse
    | messages.OffsetCommitResponse
    | messages.TxnOffsetCommitResponse
    | messages.OffsetFetchResponse
    | messages.OffsetDeleteResponse
    | messages.DeleteGroupsResponse
)


class Request(NamedTuple, Generic[Body]):
    """One request to the coordinator."""

    token: int
    """Identifies the request in answers, which may belong to a later step."""
    client_id: str
    client_host: str
    """The address of the client, as Kafka prints it: `/127.0.0.1`."""
    version: int
    """The version of the API, on which some answers depend."""
    body: Body
    made_id: str | None = None
    """The random part of a member id that the broker creates if needed; None: derived from the token."""

    @property
    def fresh_id(self) -> str:
        """The random part of a member id that the broker creates."""
        return f"{self.token:032x}" if self.made_id is None else self.made_id


class Answer(NamedTuple):
    """The answer to a request."""

    token: int
    body: ResponseBody | messages.TransportFailure
    """The response, or that the connection is closed without one."""


class Refused(Exception):  # noqa: N818  # an answer, not a fault of this program
    """A check failed: the answer is this error, and nothing changes. Never leaves the coordinator."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        self.code = code
        self.message = message
        super().__init__(f"{code.name}: {message}")


class Happened(NamedTuple):
    """One step of a table that the coordinator took."""

    member_id: str
    """The member that took the row; empty for a row of the group's own table."""
    state: Symbol
    event: Symbol
    target: Symbol


class Step(NamedTuple, Generic[State]):
    """The outcome of a step; a batch of records is stored whole or not at all."""

    state: State
    answers: tuple[Answer, ...] = ()
    """Answers that are due now, to this request or earlier ones, in no particular order."""
    records: tuple[Record, ...] = ()
    happened: tuple[Happened, ...] = ()
    """The rows of the tables taken, in order."""
    producer_id: int | None = None
    """The producer whose transaction the records belong to, as a separate transactional batch. None outside a
    transaction.
    """

    def with_state(self, state: Other) -> Step[Other]:
        """The step with another state."""
        return Step(state, self.answers, self.records, self.happened, self.producer_id)

    def after(self, earlier: Step[Other]) -> Step[State]:
        """This step with the results of an earlier one before its own."""
        return Step(
            self.state,
            (*earlier.answers, *self.answers),
            (*earlier.records, *self.records),
            (*earlier.happened, *self.happened),
        )
