"""The coordinator of this project as a Connect worker's broker: its typed requests in, its typed answers out.

Nothing about Connect is known to the coordinator: a worker is a member of a classic group of protocol type `connect`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fsm.coordinator.coordinator import Coordinator, describe, handle, handle_timer, next_deadline_ms
from fsm.coordinator.model.context import BrokerConfig, Context
from fsm.coordinator.model.step import Request
from fsm.protocol.codec import API_OF
from fsm.protocol.messages import ClassicRequest, ClassicResponse, DescribedConsumerGroup, DescribedGroup


class Asked(NamedTuple):
    """Who sent a request: the coordinator may answer it later."""

    worker: str
    process: int
    number: int


class Answering(NamedTuple):
    """An answer and whom it is for."""

    asked: Asked
    response: ClassicResponse


@dataclass
class Broker:
    """One coordinator and the requests it has not answered yet."""

    config: BrokerConfig = field(default_factory=BrokerConfig)
    state: Coordinator = field(default_factory=Coordinator)
    tokens: int = 0
    open: dict[int, Asked] = field(default_factory=dict)

    def receive(self, worker: str, process: int, number: int, body: ClassicRequest, now_ms: int) -> list[Answering]:
        """The answers that are due after the request."""
        self.tokens += 1
        self.open[self.tokens] = Asked(worker, process, number)
        version = API_OF[type(body)].newest
        request = Request(self.tokens, f"connect-{worker}", "/127.0.0.1", version, body, f"{self.tokens:08d}")
        step = handle(self.state, request, self._context(now_ms))
        self.state = step.state
        return self._answered(step.answers)

    def tick(self, now_ms: int) -> list[Answering]:
        """The answers that timers give."""
        step = handle_timer(self.state, self._context(now_ms))
        self.state = step.state
        return self._answered(step.answers)

    def due_ms(self) -> int | None:
        """When the next timer is due."""
        return next_deadline_ms(self.state)

    def describe(self, group: str, now_ms: int) -> DescribedConsumerGroup | DescribedGroup | None:
        """The group as its description tells."""
        return describe(self.state, group, self._context(now_ms))

    def forget_requests(self, worker: str) -> None:
        """The connection of a worker is gone."""
        self.open = {token: asked for token, asked in self.open.items() if asked.worker != worker}

    def _context(self, now_ms: int) -> Context:
        return Context(now_ms, config=self.config)

    def _answered(self, answers: tuple[Any, ...]) -> list[Answering]:
        known = [(self.open.pop(answer.token), answer.body) for answer in answers if answer.token in self.open]
        return [Answering(asked, body) for asked, body in known]
