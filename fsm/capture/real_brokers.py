"""Scenarios of the kit on external brokers, with faults injected by a proxy (`fsm kit run --broker`).

Each scenario has its own group and topics there, so that several may be played at once. The faults are those of
`fsm.serve.faults` that do not need access to the broker: errors in its place, lost, late, muted or rewritten answers,
lost requests.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any, Self

from fsm.capture.addresses import Place, with_places
from fsm.capture.conversation import DecodedResponse, PendingRequest
from fsm.capture.frames import Frame
from fsm.capture.link import Link, Passed
from fsm.capture.proxy import Proxy, Record
from fsm.coordinator.model.context import Context
from fsm.errors import InputError, RemoteProtocolError
from fsm.join.network import Address, Network, Purpose
from fsm.kit import processes
from fsm.kit.client_history import CONSUMER
from fsm.kit.scenario import (
    INTERVAL_MS,
    SESSION_MS,
    Command,
    Expire,
    Fault,
    Move,
    Scenario,
    Start,
    Step,
    Topic,
    UnknownTopic,
)
from fsm.protocol import messages as m
from fsm.protocol.codec import encode_response
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.json_form import error_name
from fsm.protocol.record_batches import Batch, LogRecord, write_batch
from fsm.serve.edge import now_ms
from fsm.serve.faults import Do, Rule, Seen
from fsm.serve.refusals import refusal
from fsm.wire.dialogue import START_BROKER, PeerError
from fsm.wire.exchange import Exchange, Note

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
                self._refused[correlation_id] = Frame.of(encode_response(answer, version, correlation_id))
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
                if rule.do is Do.THROTTLE:
                    self.paused_until_ms = self._now_ms + rule.ms
                return Frame.of(encode_response(response, answered.version, correlation_id)).raw
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


GROUP_RESOURCE = 32
LOOK_S, PRODUCE_S, SETTLED_S, TIMEOUT_MS = 0.1, 0.5, 30.0, 10_000
NAMES = re.compile(r"\b(foo|bar|later)\b")
"""Topics of scenarios."""


def can_be_played(scenario: Scenario) -> bool:
    """Whether a scenario needs only what any broker can do, and faults that a proxy can inject."""
    rules = [step.rule for step in scenario.steps if isinstance(step, Fault)]
    moves = any(isinstance(step, Expire | Move) for step in scenario.steps)
    special = moves or scenario.hidden or scenario.settings or scenario.brokers > 1
    return not special and all(rule.do in ON_THE_WAY for rule in rules)


def isolate(scenario: Scenario, name: str) -> Scenario:
    """The same scenario in a group and with topics of its own.

    >>> isolate(Scenario("one", "", (Command("subscribe foo,bar"),)), "x").steps[0].line
    'subscribe foo-x,bar-x'
    """

    def rename(text: str) -> str:
        return NAMES.sub(rf"\1-{name}", text)

    def rename_in(step: Step) -> Step:
        match step:
            case Start(_, options):
                return step._replace(options=options._replace(topics=rename(options.topics)))
            case Command(line):
                return step._replace(line=rename(line))
            case Topic(topic):
                return step._replace(name=rename(topic))
            case UnknownTopic(without):
                return step._replace(without=rename(without))
        return step

    topics = {rename(topic): partitions for topic, partitions in scenario.topics.items()}
    return scenario._replace(steps=tuple(map(rename_in, scenario.steps)), topics=topics, group=f"kit-{name}")


class RealPlace(processes.Place):
    """External brokers as the place of one scenario: nobody ends sessions or moves groups there.

    Raises `InputError` where they cannot be used.
    """

    def __init__(self, brokers: Sequence[Address], scenario: Scenario, record: Record) -> None:
        """`record` is called with every exchange; the scenario is one of `isolate`."""
        self.rules: list[Rule] = []
        self._scenario, self._record = scenario, record
        self._network = Network(brokers, "fsm-kit")
        self._topics: dict[str, tuple[str, int]] = {}
        self._described: Any = None
        self._doors: list[FaultyProxy] = []
        self._numbers = count(1)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        try:
            if self._scenario.protocol == CONSUMER:
                await self._shorten()
            for name, partitions in self._scenario.topics.items():
                await self.change_topic(name, partitions)
        except PeerError as problem:
            await self._network.close()
            remedy = f"{START_BROKER} and wants neither TLS nor a login"
            raise InputError(str(problem), "--broker", remedy) from None
        self._tasks = [asyncio.ensure_future(_repeat(work, every)) for work, every in (
            (self._describe_group, LOOK_S), (self._produce, PRODUCE_S))]  # fmt: skip
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for door in self._doors:
            await door.close()
        with suppress(PeerError, InputError):
            for name in [*self._topics]:
                await self.change_topic(name, 0)
        await self._network.close()

    def open_door(self, client: str) -> str:
        script = Script(client, self.rules, lambda: {i: name for name, (i, _) in self._topics.items()})
        door = FaultyProxy(self._record, script, self._numbers)
        self._doors.append(door)
        return f"127.0.0.1:{door.listen(*self._network.bootstrap[0])}"

    # Events of scenarios

    def clock(self) -> float:
        return now_ms()

    def describe(self) -> Any:
        return self._described

    def topics(self) -> Iterable[Sequence[Any]]:
        return [(name, i, partitions) for name, (i, partitions) in sorted(self._topics.items())]

    async def change_topic(self, name: str, partitions: int) -> None:
        """Returns when metadata show the change."""
        if not partitions:
            states = (m.DeleteTopicState(name),)
            results = (await self._network.call_any(m.DeleteTopicsRequest(states, (name,), TIMEOUT_MS))).responses
        elif name in self._topics:
            wanted = (m.CreatePartitionsTopic(name, partitions),)
            results = (await self._network.call_any(m.CreatePartitionsRequest(wanted, TIMEOUT_MS))).results
        else:
            topic = m.CreatableTopic(name, partitions, 1)
            results = (await self._network.call_any(m.CreateTopicsRequest((topic,), TIMEOUT_MS))).topics
        if results[0].error_code:
            raise InputError(f"topic {name} cannot be changed: {error_name(results[0].error_code)}", "--broker")
        until_ms = now_ms() + SETTLED_S * 1000
        while not await self._is_settled(name, partitions):
            if now_ms() > until_ms:
                raise InputError(f"topic {name} was not ready within {SETTLED_S:g} s", "--broker")
            await asyncio.sleep(LOOK_S)
        self._record(Note(now_ms(), "topics", {"topics": [[*one] for one in self.topics()]}))

    async def _is_settled(self, name: str, partitions: int) -> bool:
        (topic,) = (await self._network.learn([name])).topics
        self._topics.pop(name, None)
        if topic.error_code:
            return not partitions
        self._topics[name] = topic.topic_id, len(topic.partitions)
        return len(topic.partitions) == partitions and all(one.leader_id >= 0 for one in topic.partitions)

    # Background work

    async def _shorten(self) -> None:
        """Sessions and intervals of the group are those of scenarios."""
        wanted = {"consumer.session.timeout.ms": SESSION_MS, "consumer.heartbeat.interval.ms": INTERVAL_MS}
        settings = tuple(m.AlterableConfig(name, 0, str(value)) for name, value in wanted.items())
        resource = m.AlterConfigsResource(GROUP_RESOURCE, self._scenario.group, settings)
        (result,) = (await self._network.call_any(m.IncrementalAlterConfigsRequest((resource,)))).responses
        if result.error_code:
            limits = "group.consumer.min.session.timeout.ms and group.consumer.min.heartbeat.interval.ms"
            why = result.error_message or error_name(result.error_code)
            raise InputError(f"groups cannot have short sessions: {why}", "--broker", f"lower {limits} of the broker")

    async def _describe_group(self) -> None:
        """Describes the group by a request to a broker."""
        group = self._scenario.group
        coordinator = await self._network.find_coordinator(group)
        if isinstance(coordinator, ErrorCode):
            return
        request = m.ConsumerGroupDescribeRequest if self._scenario.protocol == CONSUMER else m.DescribeGroupsRequest
        response = await self._network.call(Purpose.COORDINATOR, coordinator, request((group,)))
        self._described = None if response.groups[0].error_code else response.groups[0]

    async def _produce(self) -> None:
        """Produces some records to each partition."""
        each = max(1, round(self._scenario.records_a_second * PRODUCE_S))
        at_ms = int(now_ms())
        records = [LogRecord(number, at_ms, None, b"kit") for number in range(each)]
        batch = write_batch(Batch.of(records))
        for leader in sorted(set(self._network.leaders.values())):
            led = ((name, i, [n for n in range(many) if self._network.leaders.get((name, n)) == leader])
                   for name, i, many in self.topics())  # fmt: skip
            topics = tuple(
                m.TopicProduceData(name, i, tuple(m.PartitionProduceData(number, batch) for number in numbers))
                for name, i, numbers in led
                if numbers
            )
            if topics:
                await self._network.call(Purpose.FETCHES, leader, m.ProduceRequest(acks=1, topic_data=topics))


async def _repeat(work: Callable[[], Coroutine[Any, Any, None]], every_s: float) -> None:
    """Repeats some work; a failure is retried the next time."""
    while True:
        with suppress(PeerError, InputError):
            await work()
        await asyncio.sleep(every_s)
