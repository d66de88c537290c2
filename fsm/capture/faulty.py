"""Scripted faults between a client and an unmodified broker.

They are the faults of `fsm.serve.faults` that do not need access to the broker: errors in its place, lost, late, muted
or rewritten answers, lost requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from fsm.capture.addresses import Place, with_places
from fsm.capture.conversation import DecodedResponse, PendingRequest
from fsm.capture.frames import Frame
from fsm.capture.link import Link, Passed
from fsm.capture.proxy import Proxy, Record
from fsm.coordinator.model.context import Context
from fsm.errors import RemoteProtocolError
from fsm.protocol.codec import encode_response
from fsm.serve.faults import Do, Rule, Seen
from fsm.serve.refusals import refusal
from fsm.wire.exchange import Exchange

ON_THE_WAY = frozenset(
    {Do.REFUSE, Do.LOSE, Do.MUTE, Do.SWALLOW, Do.DELAY, Do.DELAY_ANSWER, Do.CLOSE, Do.REWRITE, Do.THROTTLE}
)
"""The faults that a proxy can inject."""
UNANSWERED = frozenset({Do.LOSE, Do.MUTE, Do.SWALLOW, Do.CLOSE})


class Script:
    """The scripted faults for the requests of one client."""

    def __init__(self, client: str, rules: list[Rule], names: Callable[[], Mapping[str, str]]) -> None:
        """`client` is its name in rules and exchanges; `names` returns topic names by id."""
        self.client = client
        self._rules, self._names = rules, names

    def find(self, asked: PendingRequest) -> Rule | None:
        """Finds the rule that applies to a request."""
        if asked.request is None or asked.api is None:
            return None
        seen = Seen(asked.api.name, asked.header.api_version, self.client, asked.request, 0.0, self._names())
        return next((rule for rule in self._rules if rule.meets(seen)), None)


class FaultyLink(Link):
    """A link with a script."""

    def __init__(self, connection: int, place: Place, broker: int, script: Script) -> None:
        super().__init__(connection, place, broker)
        self._script = script
        self._matched: dict[int, Rule] = {}
        """The rule of each request in flight, by correlation id."""
        self._drops_everything = False
        """Whether everything that either side sends is dropped."""
        self._now_ms = 0.0

    def from_client(self, data: bytes, now_ms: float) -> Passed:
        """Passes bytes of the client on, unless the connection drops everything."""
        self._now_ms, self.wait_s = now_ms, 0.0
        return Passed() if self._drops_everything else super().from_client(data, now_ms)

    def from_broker(self, data: bytes, now_ms: float) -> Passed:
        """Passes bytes of the broker on, unless the connection drops everything."""
        self._now_ms, self.wait_s = now_ms, 0.0
        return Passed() if self._drops_everything else super().from_broker(data, now_ms)

    def _forward(self, frame: Frame, asked: PendingRequest, now_ms: float) -> bytes:
        rule = self._script.find(asked)
        if rule is None:
            return frame.raw
        _, version, correlation_id, _ = asked.header
        self._matched[correlation_id] = rule
        match rule.do:
            case Do.REFUSE:
                answer = refusal(asked.request, version, rule.code, Context(int(now_ms)))
                data = encode_response(answer, version, correlation_id)
                self._refused[correlation_id] = Frame(len(data), data)
                return b""
            case Do.SWALLOW:
                self._drops_everything = True
                return b""
            case Do.CLOSE:
                self._conversation.end()
                raise RemoteProtocolError("scripted: the connection is closed")
            case Do.DELAY:
                self.wait_s = rule.ms / 1000
        return frame.raw

    def _rewrite(self, frame: Frame, answered: DecodedResponse) -> bytes:
        correlation_id = answered.asked.header.correlation_id
        rule = self._matched.get(correlation_id)
        match rule.do if rule else None:
            case Do.LOSE:
                raise RemoteProtocolError("scripted: the answer is lost")
            case Do.MUTE:
                self._drops_everything = True
                return b""
            case Do.REWRITE | Do.THROTTLE if rule and answered.response is not None:
                response = with_places(_rewrite(rule, answered.response), self._place)
                data = encode_response(response, answered.version, correlation_id)
                if rule.do is Do.THROTTLE:
                    self.paused_until_ms = self._now_ms + rule.ms
                return Frame(len(data), data).raw
            case Do.DELAY_ANSWER if rule:
                self.wait_s = rule.ms / 1000
        return super()._rewrite(frame, answered)

    def take_exchanges(self) -> list[Exchange]:
        """Takes the exchanges that have ended, with the client's name and the injected fault."""
        return [*map(self._mark_fault, super().take_exchanges())]

    def _mark_fault(self, seen: Exchange) -> Exchange:
        seen = seen._replace(client_id=self._script.client)
        rule = self._matched.get(seen.correlation_id)
        if rule is None:
            return seen
        seen = seen._replace(fault=rule.name or rule.do.value)
        if rule.do in UNANSWERED:
            return seen._replace(answered_ms=None)
        if rule.do is Do.DELAY_ANSWER and seen.answered_ms is not None:
            return seen._replace(answered_ms=seen.answered_ms + rule.ms)
        return seen if seen.response is None else seen._replace(response=_rewrite(rule, seen.response))


def _rewrite(rule: Rule, response: object) -> object:
    fields = {"throttle_time_ms": rule.ms} if rule.do is Do.THROTTLE else rule.fields
    return replace(response, **fields) if fields else response  # type: ignore[type-var]  # all are dataclasses


class FaultyProxy(Proxy):
    """A proxy in front of the brokers for one client, which injects the faults of a script."""

    def __init__(self, record: Record, script: Script, numbers: Iterator[int]) -> None:
        """`numbers` are for connections."""
        super().__init__(record)
        self._script, self._numbers = script, numbers

    def _link(self, connection: int, broker: int) -> FaultyLink:
        return FaultyLink(connection, self._place, broker, self._script)
