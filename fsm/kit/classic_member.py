"""The state of a member of a classic group according to its requests and the responses.

Source: KIP-62, KIP-394 (member ids), KIP-345 (static members), KIP-429 (cooperative rebalancing), KIP-814
(a static leader that comes back); `AbstractCoordinator`, `ConsumerCoordinator`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from fsm.errors import RemoteProtocolError
from fsm.kit.application import NEVER_MS, Held
from fsm.kit.consumer_member import NO_REFUSAL, Refusal
from fsm.protocol.consumer_protocol import Subscription, decode_assignment, decode_subscription
from fsm.protocol.error_codes import ErrorCode
from fsm.wire.exchange import Exchange

NO_GENERATION = -1
REJOIN = frozenset((ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID))
FATAL = frozenset(
    (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.FENCED_INSTANCE_ID,
    )
)
"""`JoinGroupResponseHandler` fails the join for good."""


class Stage(Enum):
    """The phase of a member."""

    OUT = "out"
    JOINING = "joining"
    JOINED = "joined"
    """It has a generation and no assignment yet."""
    STABLE = "stable"

    __hash__ = object.__hash__


@dataclass(slots=True)
class ClassicMember:
    """One member, across its generations."""

    stage: Stage = Stage.OUT
    member_id: str = ""
    """Its member id; empty while it has none."""
    given_id: str = ""
    """The member id of MEMBER_ID_REQUIRED, to be used in the next join."""
    earlier_ids: set[str] = field(default_factory=set)
    instance_id: str | None = None
    generation: int = NO_GENERATION
    generation_ms: float = NEVER_MS
    leads: bool = False
    protocol: str = ""
    cooperates: bool = False
    """Whether all of its protocols are cooperative ones."""
    group: dict[str, bytes] = field(default_factory=dict)
    """The metadata of each member in the leader's JoinGroup response."""
    skips: bool = False
    """Whether the leader's response says to skip the assignment."""
    session_ms: float = 0
    rebalance_ms: float = 0
    assignment: Held = frozenset()
    assignment_ms: float = NEVER_MS
    surrender: Held = frozenset()
    """The partitions that the last assignment revoked from a cooperative member, until it rejoins."""
    refusal: Refusal = NO_REFUSAL
    searched: bool = False
    rebalance_asked_ms: float | None = None
    """When a rejoin was requested; None after the rejoin."""
    beats_since: list[float] = field(default_factory=list)
    """The times of its heartbeats since then."""
    join: Exchange | None = None
    sent: Exchange | None = None
    """Its last request of the group."""
    committed_ms: float = NEVER_MS
    """When its last commit was accepted, which restarts its session."""
    fatal: Refusal = NO_REFUSAL
    left: Exchange | None = None
    out_ms: float = NEVER_MS

    # Requests

    def send_join(self, exchange: Exchange) -> None:
        """A JoinGroup."""
        request = exchange.request
        self.instance_id = request.group_instance_id
        self.session_ms, self.rebalance_ms = request.session_timeout_ms, request.rebalance_timeout_ms
        names = [protocol.name for protocol in request.protocols]
        self.cooperates = bool(names) and all("cooperative" in name.lower() for name in names)
        self.rebalance_asked_ms, self.beats_since, self.surrender = None, [], frozenset()
        if self.stage is Stage.OUT:
            self.left, self.fatal = None, NO_REFUSAL
        self.stage, self.join = Stage.JOINING, exchange
        self.send(exchange)

    def send_beat(self, exchange: Exchange) -> None:
        """A Heartbeat."""
        if self.rebalance_asked_ms is not None:
            self.beats_since.append(exchange.at_ms)
        self.send(exchange)

    def send_leave(self, exchange: Exchange) -> None:
        """A LeaveGroup that it sent itself."""
        self.left = exchange
        self.send(exchange)
        self._end(exchange.at_ms)

    def send(self, exchange: Exchange) -> None:
        """Any of these, or a SyncGroup."""
        self.sent, self.searched, self.refusal = exchange, False, NO_REFUSAL

    def _end(self, at_ms: float) -> None:
        if self.stage is not Stage.OUT:
            self.out_ms = at_ms
        self.earlier_ids.add(self.member_id)
        self.stage, self.generation, self.member_id, self.assignment = Stage.OUT, NO_GENERATION, "", frozenset()

    # Answers

    def take_join(self, exchange: Exchange) -> None:
        """The answer to a JoinGroup."""
        response = exchange.response
        code: ErrorCode = response.error_code
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.given_id = response.member_id
        if code is not ErrorCode.NONE:
            return self._refuse(exchange, code)
        self.given_id = ""
        self.member_id, self.generation = response.member_id, response.generation_id
        self.generation_ms = exchange.ended_ms
        self.leads, self.protocol = response.leader == response.member_id, response.protocol_name or ""
        self.group = {member.member_id: member.metadata for member in response.members}
        self.skips, self.stage = response.skip_assignment, Stage.JOINED
        return None

    def take_sync(self, exchange: Exchange) -> None:
        """The answer to a SyncGroup."""
        response = exchange.response
        if response.error_code is not ErrorCode.NONE:
            return self._refuse(exchange, response.error_code)
        if exchange.request.generation_id != self.generation:
            return None
        now = read_assignment(response.assignment)
        self.surrender = self.assignment - now if self.cooperates else frozenset()
        self.assignment, self.assignment_ms = now, exchange.ended_ms
        self.stage = Stage.STABLE
        return None

    def take_beat(self, exchange: Exchange) -> None:
        """The answer to a Heartbeat, or to anything else that may be refused as one."""
        if exchange.response.error_code is not ErrorCode.NONE:
            self._refuse(exchange, exchange.response.error_code)

    def _refuse(self, exchange: Exchange, code: ErrorCode) -> None:
        at_ms = exchange.ended_ms
        self.refusal = Refusal(code, at_ms, exchange.request)
        if code in REJOIN and self.rebalance_asked_ms is None and self.left is None:
            self.rebalance_asked_ms, self.beats_since = at_ms, []
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._end(at_ms)
        elif code in FATAL:
            self.fatal = self.refusal
            self._end(at_ms)

    @property
    def is_member(self) -> bool:
        """Whether it has a generation."""
        return self.stage in (Stage.JOINED, Stage.STABLE)


def read_assignment(data: bytes) -> Held:
    """The partitions in it; none where it is empty or another protocol's."""
    try:
        return frozenset(decode_assignment(data).partitions) if data else frozenset()
    except RemoteProtocolError:
        return frozenset()


def read_subscription(data: bytes) -> Subscription | None:
    """The subscription of a member; None if it cannot be read."""
    try:
        return decode_subscription(data)
    except RemoteProtocolError:
        return None


def identity(request: Any) -> str:
    """The member id of a request about a group; empty where it has none."""
    if members := getattr(request, "members", ()):
        return str(members[0].member_id)
    return str(getattr(request, "member_id", "") or "")
