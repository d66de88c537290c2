"""W4 on a real Kafka: a fenced member that comes back with its id, which releases before 4.2 refuse.

The checker's latest release has no path to it, so the requests stand here. What is expected follows from the rules of
the release that runs.
"""

from __future__ import annotations

import time
import uuid

from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.dialect import dialect as coordinator_dialect
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from fsm.wire.connection import Connection

NUMBER = "W4"
SESSION_S, BEAT_S = 45, 1.0
"""Kafka's default session timeout, and how often a member sends heartbeats here."""
REBALANCE_MS = 300_000
AHEAD = 100
"""An epoch that no group here comes to."""


Owned = tuple[tuple[str, tuple[int, ...]], ...] | None
"""Partitions by the ids of their topics."""


class _Member:
    """A member on a connection of its own, which owns an assignment as soon as it receives it."""

    def __init__(self, connection: Connection, group: str, topic: str) -> None:
        self.connection, self.group, self.topic = connection, group, topic
        self.member_id, self.epoch = uuid.uuid4().hex, 0

    def join(self) -> ConsumerGroupHeartbeatResponse:
        self.epoch = 0
        return self._send(REBALANCE_MS, (self.topic,), ())

    def beat(self) -> None:
        """Sends a heartbeat, and acknowledges a new assignment."""
        response = self._send(-1, None, None)
        if response.assignment is not None:
            self._send(-1, None, response.assignment)

    def be_fenced(self) -> ErrorCode:
        """The broker's error for an epoch that the member does not have."""
        ahead = ConsumerGroupHeartbeatRequest(self.group, self.member_id, self.epoch + AHEAD)
        return ErrorCode(self.connection.call(ahead).error_code)

    def _send(self, rebalance_ms: int, topics: tuple[str, ...] | None, owned: Owned) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(
            self.group, self.member_id, self.epoch, None, None, rebalance_ms, topics, topic_partitions=owned
        )
        response: ConsumerGroupHeartbeatResponse = self.connection.call(request)
        self.epoch = self.epoch if response.error_code else response.member_epoch
        return response


def confirm_rejoining(
    connections: tuple[Connection, Connection], group: str, topic: str, release: str
) -> tuple[bool, list[str]]:
    """Whether the broker admits a fenced member as its release does: at once, or after its session has expired."""
    takes_back = Choice.EPOCH_ZERO_ALWAYS_PASSES in coordinator_dialect(release)
    first, second = (_Member(connection, group, topic) for connection in connections)
    for member in (first, second, first, first, second):  # the first one's epoch moves: its previous one is not 0
        member.beat() if member.epoch else member.join()
    fenced, began, answers = first.be_fenced(), time.monotonic(), [ErrorCode(first.join().error_code)]
    while answers[-1] is not ErrorCode.NONE and time.monotonic() - began < 2 * SESSION_S:
        time.sleep(BEAT_S)
        second.beat()
        answers.append(ErrorCode(first.join().error_code))
    lasted_s = time.monotonic() - began
    refused = set(answers[:-1]) == {ErrorCode.FENCED_MEMBER_EPOCH} and lasted_s > SESSION_S - 2 * BEAT_S
    as_told = len(answers) == 1 if takes_back else refused
    names = ", ".join(dict.fromkeys(answer.name for answer in answers))
    lines = [
        f"by its rules {release} {'takes it back at once' if takes_back else 'refuses it until its session expires'}",
        f"an epoch that is not its own: {fenced.name}; {len(answers)} joins: {names}, within {lasted_s:.1f} s",
    ]
    return fenced is ErrorCode.FENCED_MEMBER_EPOCH and answers[-1] is ErrorCode.NONE and as_told, lines
