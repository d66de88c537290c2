"""Mutants of our member: each breaks one rule, in a scenario that shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from fsm.kit.scenario import Scenario
from fsm.kit.scenarios import SCENARIOS
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    TransportFailure,
)
from fsm.protocol.messages.offsets import OffsetCommitResponsePartition, OffsetCommitResponseTopic
from tests.kit.virtual import Client

Take = Callable[[Any], None]


class Mutant(Client):
    """Our member, with hooks at what it sends and what it is told."""

    sent_beats = 0
    """Heartbeats of its member so far."""
    owned: Any = ()
    """What its member reported last."""
    join: Any = None
    """How its member joined."""
    epoch = 0
    last: Mapping[type[Any], Any] = {}
    """Its last request of each kind."""
    repeats_owned = False
    """The next heartbeat reports what is owned."""

    def dispatch(self, kind: str, broker: int, request: Any, take: Take) -> None:
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            request = self._note_beat(request)
        changed = self.change(request)
        self.last = {**self.last, type(request): request}
        if changed is None:
            self.network.loop.call_later(0.001, take, self.pretend(request))
        else:
            self.post(kind, broker, changed, lambda answer: self._deliver(request, answer, take))

    def _note_beat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatRequest:
        self.sent_beats += 1
        if request.member_epoch == 0:
            self.join = request
            self.owned = ()
        if request.topic_partitions is not None:
            self.owned = request.topic_partitions
        elif self.repeats_owned and request.member_epoch > 0:
            request = replace(request, topic_partitions=self.owned)
            self.repeats_owned = False
        return request

    def _deliver(self, request: Any, answer: Any, take: Take) -> None:
        if isinstance(answer, ConsumerGroupHeartbeatResponse) and answer.error_code is ErrorCode.NONE:
            self.epoch = answer.member_epoch
        self.deliver(request, answer, take)

    def post(self, kind: str, broker: int, request: Any, take: Take) -> None:
        """A request goes out as it is."""
        super().dispatch(kind, broker, request, take)

    def resend(self, request: Any, take: Take, after_s: float = 0.0) -> None:
        """A request of the group goes out, later."""
        self.network.loop.call_later(after_s, self.post, "group", self.coordinator, request, take)

    # What a mutant changes

    def change(self, request: Any) -> Any:
        """What goes out instead; None: nothing, and its sender is told that all is well."""
        return request

    def deliver(self, _request: Any, answer: Any, take: Take) -> None:
        """The answer to what the member sent."""
        take(answer)

    def pretend(self, request: Any) -> Any:
        """The answer of a coordinator that has no news."""
        match request:
            case ConsumerGroupHeartbeatRequest():
                epoch = request.member_epoch
                return ConsumerGroupHeartbeatResponse(epoch, 1_000, member_id=request.member_id)
            case HeartbeatRequest():
                return HeartbeatResponse()
            case LeaveGroupRequest():
                return LeaveGroupResponse()
            case OffsetCommitRequest():
                return OffsetCommitResponse(
                    topics=tuple(
                        OffsetCommitResponseTopic(
                            topic.name,
                            partitions=tuple(
                                OffsetCommitResponsePartition(p.partition_index) for p in topic.partitions
                            ),
                        )
                        for topic in request.topics
                    )
                )
        raise TypeError(type(request).__name__)


REFUSABLE = ConsumerGroupHeartbeatRequest | HeartbeatRequest | JoinGroupRequest


def code_of(answer: Any) -> ErrorCode | None:
    """The error of an answer; None where there is no answer."""
    return None if isinstance(answer, TransportFailure) else answer.error_code


class Refused(Mutant):
    """What it does when a heartbeat or a join is refused."""

    code = ErrorCode.NONE

    def deliver(self, request: Any, answer: Any, take: Take) -> None:
        if isinstance(request, REFUSABLE) and code_of(answer) is self.code:
            self.refused(request, answer, take)
        else:
            self.accepted(request)
            take(answer)

    def refused(self, request: Any, answer: Any, take: Take) -> None:
        """It is told the error."""

    def accepted(self, request: Any) -> None:
        """It is told anything else."""


class Planted(NamedTuple):
    """A mutant, the check that is to find it, and the scenario that shows it."""

    check: str
    scenario: Scenario
    mutant: type[Client]

    @property
    def name(self) -> str:
        """For tests."""
        return f"{self.check}-{self.mutant.__name__}"


PLANTED: list[Planted] = []


def breaks(check: str, scenario: str | Scenario) -> Callable[[type[Client]], type[Client]]:
    """Declares a mutant."""

    def declare(mutant: type[Client]) -> type[Client]:
        played = SCENARIOS[scenario] if isinstance(scenario, str) else scenario
        PLANTED.append(Planted(check, played, mutant))
        return mutant

    return declare


def beats_changed(
    check: str, scenario: str | Scenario, name: str, change: Callable[[Any, ConsumerGroupHeartbeatRequest], Any]
) -> None:
    """Declares a mutant whose heartbeats are changed."""

    def changed(self: Any, request: Any) -> Any:
        return change(self, request) if isinstance(request, ConsumerGroupHeartbeatRequest) else request

    breaks(check, scenario)(type(name, (Mutant,), {"change": changed}))


def requests_changed(
    check: str, scenario: str | Scenario, name: str, kind: type[Any], change: Callable[[Any, Any], Any]
) -> None:
    """Declares a mutant whose requests of one kind are changed."""

    def changed(self: Any, request: Any) -> Any:
        return change(self, request) if isinstance(request, kind) else request

    breaks(check, scenario)(type(name, (Mutant,), {"change": changed}))


def is_keepalive(request: Any) -> bool:
    """Whether it is a heartbeat that says nothing new."""
    return (
        isinstance(request, ConsumerGroupHeartbeatRequest)
        and request.member_epoch > 0
        and request.topic_partitions is None
        and request.subscribed_topic_names is None
    )
