"""A client of brokers without sockets: frames in, answers out, at instants that the test says."""

from __future__ import annotations

from random import Random
from typing import Any

from fsm.protocol.codec import API_OF, decode_response, encode_request
from fsm.serve.brokers import Brokers
from fsm.serve.cluster import Served
from fsm.serve.effects import Append, Effect, HangUp, ReadOn, Replace, Send
from fsm.serve.faults import Rule
from fsm.wire import Exchange, Note

SHORT = {
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
}


class Scene:
    """Brokers, their clock, and what they did."""

    def __init__(self, *rules: Rule, topics: dict[str, int] | None = None, **fields: Any) -> None:
        kept = fields.pop("kept", None)
        served = Served(topics or {"foo": 4}, settings={**SHORT, **fields.pop("settings", {})}, **fields)
        self.now_ms = 1_000_000.0
        self.seen: list[Exchange | Note] = []
        self.rules = list(rules)
        random = Random(1)  # noqa: S311
        self.brokers = Brokers(served, self.now_ms, random, rules=self.rules, on_event=self.seen.append, kept=kept)
        self.kept: dict[str, bytes] = dict(kept or {})
        self.closed: set[int] = set()
        self.replaced: list[str] = []
        self.answers: dict[int, list[bytes]] = {}
        self._numbers = 0
        for broker in range(1, served.brokers + 1):
            self.brokers.cluster.endpoints[broker] = ("127.0.0.1", 9_091 + broker)
        self.do(self.brokers.start(self.now_ms))

    def client(self, client_id: str = "A", broker: int = 1) -> Client:
        """A new connection."""
        self._numbers += 1
        self.brokers.connect(self._numbers, broker, "127.0.0.1", self.now_ms)
        self.answers[self._numbers] = []
        return Client(self, self._numbers, client_id)

    def do(self, effects: tuple[Effect, ...]) -> None:
        """Notes what the brokers wanted done."""
        for effect in effects:
            if isinstance(effect, Send):
                assert effect.connection not in self.closed
                self.answers[effect.connection].append(effect.data[4:])
            elif isinstance(effect, HangUp):
                self.closed.add(effect.connection)
            elif isinstance(effect, Append):
                self.kept[effect.log] = self.kept.get(effect.log, b"") + effect.data
            elif not isinstance(effect, ReadOn):
                assert isinstance(effect, Replace)
                self.kept[effect.log] = effect.data
                self.replaced.append(effect.log)

    def wait(self, for_ms: float) -> None:
        """Time passes; what is due happens at its own instant."""
        until_ms = self.now_ms + for_ms
        while (due_ms := self.brokers.next_deadline_ms()) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.do(self.brokers.advance(self.now_ms))
        self.now_ms = until_ms

    def notes(self, event: str) -> list[Note]:
        """What was seen of this kind."""
        return [one for one in self.seen if isinstance(one, Note) and one.event == event]

    def exchanges(self, api: str) -> list[Exchange]:
        """Exchanges of this API that have ended."""
        return [one for one in self.seen if isinstance(one, Exchange) and one.api == api]


class Client:
    """One connection of one client."""

    def __init__(self, scene: Scene, number: int, client_id: str) -> None:
        self.scene, self.number, self.client_id = scene, number, client_id
        self._sent = 0
        self.waiting: list[tuple[Any, int]] = []

    def send(self, request: Any, version: int | None = None) -> None:
        """A request goes out."""
        api = API_OF[type(request)]
        version = api.newest if version is None else version
        self._sent += 1
        self.waiting.append((api, version))
        self.send_frame(encode_request(request, version, self._sent, self.client_id))

    def send_frame(self, frame: bytes) -> None:
        """Any bytes go out as a frame."""
        self.scene.do(self.scene.brokers.receive(self.number, frame, self.scene.now_ms))

    def take(self) -> Any:
        """The next answer; None where none has come."""
        if not self.scene.answers[self.number]:
            return None
        api, version = self.waiting.pop(0)
        return decode_response(api.response, self.scene.answers[self.number].pop(0), version)[1]

    def ask(self, request: Any, version: int | None = None) -> Any:
        """A request, and its answer if it is there at once."""
        self.send(request, version)
        return self.take()

    @property
    def is_closed(self) -> bool:
        """Whether the broker closed the connection."""
        return self.number in self.scene.closed
