"""Scenarios in virtual time, in this process: brokers without sockets, our own member, and a clock that jumps.

A minute of a scenario takes a fraction of a second, and the same scenario gives the same trace.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from random import Random
from typing import Any
from unittest import mock

from fsm.kit.play import OnMessage, OurBrokers, Stage, play, serve
from fsm.kit.scenario import GROUP, Options, Scenario
from fsm.member import AsyncConsumer, AsyncConsumerRebalanceListener, ClassicConfig, ConsumerConfig
from fsm.member.classic.assignors import COOPERATIVE_STICKY, RANGE
from fsm.protocol.assignment import Partitions, TopicNames
from fsm.protocol.codec import API_OF, decode_response, encode_request
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    DISCONNECTED,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    FindCoordinatorRequest,
    JoinGroupRequest,
    MetadataRequest,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    TransportFailure,
)
from fsm.serve.brokers import Brokers
from fsm.serve.effects import Effect, HangUp, Send
from fsm.wire.exchange import Exchange, Note

BEGIN_MS = 1_000_000.0
LATENCY_S = 0.0005
VERSIONS = {"Fetch": 12, "OffsetFetch": 9, "OffsetCommit": 9, "Metadata": 12, "FindCoordinator": 4}
REQUEST_TIMEOUT_MS = 3_000
FETCH_WAIT_MS = 500


class _Selector(selectors.DefaultSelector):
    """Moves the clock where it would wait."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if not found:
            assert timeout is not None, "nothing will ever happen"
            self.loop.now_s += max(timeout, 0)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock of its own, which runs only while nothing else does."""

    def __init__(self) -> None:
        selector = _Selector()
        selector.loop = self
        self.now_s = BEGIN_MS / 1000
        super().__init__(selector)

    def time(self) -> float:
        return self.now_s

    def now_ms(self) -> float:
        """In milliseconds."""
        return round(self.now_s * 1000, 3)


class Network:
    """Carries frames between clients and brokers."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.brokers: Brokers
        self.links: dict[int, Link] = {}
        self._numbers = 0
        self._timer: asyncio.TimerHandle | None = None

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """What brokers want done; what is due later comes in its time."""
        for effect in effects:
            if isinstance(effect, Send) and effect.connection in self.links:
                link = self.links[effect.connection]
                link.inbox.append(effect.data[4:])
                self.loop.call_later(LATENCY_S, link.arrive)
            elif isinstance(effect, HangUp) and effect.connection in self.links:
                self.loop.call_later(LATENCY_S, self.links.pop(effect.connection).lose)
        if self._timer is not None:
            self._timer.cancel()
        due_ms = self.brokers.next_deadline_ms()
        if due_ms is not None:
            self._timer = self.loop.call_at(max(due_ms / 1000, self.loop.time()), self._advance)

    def _advance(self) -> None:
        self.carry_out(self.brokers.advance(self.loop.now_ms()))

    def connect(self, broker: int, client: str) -> Link:
        """A connection to a broker."""
        self._numbers += 1
        link = self.links[self._numbers] = Link(self, self._numbers, client)
        self.brokers.connect(self._numbers, broker, "127.0.0.1", self.loop.now_ms())
        return link

    def receive(self, number: int, frame: bytes) -> None:
        """A frame arrives at the brokers."""
        self.carry_out(self.brokers.receive(number, frame, self.loop.now_ms()))

    def disconnect(self, number: int) -> None:
        """A client hangs up."""
        if self.links.pop(number, None) is not None:
            self.carry_out(self.brokers.disconnect(number, self.loop.now_ms()))


class Link:
    """One connection of a client."""

    def __init__(self, network: Network, number: int, client: str) -> None:
        self.network, self.number, self.client = network, number, client
        self.is_closed = False
        self._waiting: deque[tuple[Any, int, Callable[[Any], None], asyncio.TimerHandle]] = deque()
        self._sent = 0
        self.inbox: deque[bytes] = deque()
        self._outbox: deque[bytes] = deque()

    def send(
        self,
        request: Any,
        then: Callable[[Any], None],
        timeout_ms: float = REQUEST_TIMEOUT_MS,
        version: int | None = None,
    ) -> None:
        """A request goes out; its answer, or DISCONNECTED, comes to `then`. One that hangs ends the connection."""
        api = API_OF[type(request)]
        version = VERSIONS.get(api.name, api.newest) if version is None else version
        self._sent += 1
        self._outbox.append(encode_request(request, version, self._sent, self.client))
        timer = self.network.loop.call_later(timeout_ms / 1000, self.close)
        self._waiting.append((api, version, then, timer))
        self.network.loop.call_later(LATENCY_S, self._reach)

    def _reach(self) -> None:
        """The oldest frame under way arrives."""
        self.network.receive(self.number, self._outbox.popleft())

    def arrive(self) -> None:
        """The oldest answer under way."""
        frame = self.inbox.popleft()
        if self._waiting and not self.is_closed:
            api, version, then, timer = self._waiting.popleft()
            timer.cancel()
            then(decode_response(api.response, frame, version)[1])

    def lose(self) -> None:
        """The connection is gone: so are the answers."""
        self.is_closed = True
        while self._waiting:
            _, _, then, timer = self._waiting.popleft()
            timer.cancel()
            then(DISCONNECTED)

    def close(self) -> None:
        """This side hangs up."""
        self.network.disconnect(self.number)
        self.lose()


class Client:
    """Our member with what a consumer has around it: connections, a fetcher, an application that polls.

    It is a client as an adapter makes one, and the network of its member. Subclasses break rules.
    """

    dialect = "4.4"
    versions: Mapping[str, int] = {}
    """Of requests that shall not have the usual one."""

    def __init__(self, network: Network, name: str, protocol: str, options: Options, on_message: OnMessage) -> None:
        self.network, self.name, self.options = network, name, options
        self.classic = protocol == "classic"
        self._on_message = on_message
        self.commands: asyncio.Queue[str] = asyncio.Queue()
        self.links: dict[tuple[str, int], Link] = {}
        self.coordinator = 0
        """The broker that coordinates the group; 0 while it is not known."""
        self.positions: dict[tuple[str, int], int] = {}
        self.asking = False
        self.fetching = False
        self.paused = False
        self.is_called = False
        """Its revoked callback runs."""
        self.throttled_until_s = 0.0
        self.stops = False
        self.is_over = False
        self.tasks: set[asyncio.Task[None]] = set()
        self.task = asyncio.ensure_future(self.run())

    # As a process

    def send_command(self, line: str) -> None:
        self.commands.put_nowait(line)

    def kill(self) -> None:
        self.is_over = True
        self.task.cancel()
        for link in [*self.links.values()]:
            link.close()

    async def wait(self) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.shield(self.task)

    def report_event(self, event: str, partitions: Iterable[tuple[str, int]] = (), error: str = "") -> None:
        """The application is told something."""
        message: dict[str, Any] = {"ev": event}
        if event != "close_end" and not error:
            message["partitions"] = [list(one) for one in sorted(partitions)]
        self._on_message({**message, "error": error} if error else message)

    # As the network of the member

    def link(self, kind: str, broker: int) -> Link:
        """The connection for this purpose."""
        link = self.links.get((kind, broker))
        if link is None or link.is_closed:
            link = self.links[kind, broker] = self.network.connect(broker, self.name)
        return link

    def find_coordinator(self, found: Callable[[TransportFailure | None], None]) -> None:
        def take(answer: Any) -> None:
            if isinstance(answer, TransportFailure):
                return found(answer)
            (one,) = answer.coordinators
            if one.error_code is not ErrorCode.NONE:
                return found(TransportFailure(one.error_code.name))
            self.coordinator = one.node_id
            return found(None)

        self.dispatch("bootstrap", 1, FindCoordinatorRequest(coordinator_keys=(GROUP,)), take)

    def update_metadata(self, learnt: Callable[[Any], None]) -> None:
        def take(answer: Any) -> None:
            if isinstance(answer, TransportFailure):
                return learnt(answer)
            known = [topic for topic in answer.topics if topic.error_code is ErrorCode.NONE and not topic.is_internal]
            if self.classic:
                return learnt(tuple(sorted((topic.name, len(topic.partitions)) for topic in known)))
            return learnt(TopicNames({topic.topic_id: topic.name for topic in known}))

        self.dispatch("bootstrap", 1, MetadataRequest(), take)

    def send(self, request: Any, answered: Callable[[Any], None]) -> None:
        if not self.coordinator:
            return answered(DISCONNECTED)

        self.dispatch("group", self.coordinator, request, answered)
        return None

    def dispatch(self, kind: str, broker: int, request: Any, take: Callable[[Any], None]) -> None:
        """A request goes out, if need be once the time is over for which the broker wants silence."""
        if self.is_over:
            return
        if (wait_s := self.throttled_until_s - self.network.loop.time()) > 0:
            self.network.loop.call_later(wait_s, self.dispatch, kind, broker, request, take)
            return

        def obey(answer: Any) -> None:
            if throttle_ms := getattr(answer, "throttle_time_ms", 0):
                self.throttled_until_s = self.network.loop.time() + throttle_ms / 1000
            take(answer)

        timeout_ms = 600_000 if isinstance(request, JoinGroupRequest) else REQUEST_TIMEOUT_MS
        version = self.versions.get(API_OF[type(request)].name)
        self.link(kind, broker).send(request, obey, timeout_ms, version)

    # As an application

    def config(self) -> ConsumerConfig:
        """The member's settings."""
        options = self.options
        common: dict[str, Any] = {
            "client_id": self.name,
            "group_instance_id": options.instance or None,
            "max_poll_interval_ms": options.max_poll_ms,
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
            "auto_commit_interval_ms": 1_000,
        }
        if not self.classic:
            return ConsumerConfig(GROUP, **common)
        assignors = (COOPERATIVE_STICKY,) if "cooperative" in options.assignor else (RANGE,)
        return ClassicConfig(
            GROUP, session_timeout_ms=options.session_ms, heartbeat_interval_ms=1_000, assignors=assignors, **common
        )

    def consumer(self) -> AsyncConsumer:
        """The member."""
        named: dict[str, Any] = {"jitter": lambda: 0.0}
        if not self.classic:
            named |= {"member_id": self.member_id(), "dialect": self.dialect}
        return AsyncConsumer(self.config(), self, **named)  # type: ignore[arg-type]

    def member_id(self) -> str:
        """A new one for each process."""
        return f"{self.name}-{self.network.loop.now_ms():.0f}"

    async def run(self) -> None:
        """The application."""
        listener = _Listener(self)
        async with self.consumer() as consumer:
            self.member = consumer
            await consumer.subscribe(self.options.topics.split(","), listener)
            while not self.stops:
                while not self.commands.empty():
                    await self.obey(self.commands.get_nowait(), consumer, listener)
                if not self.stops:
                    await self.turn(consumer)
            await consumer.close(consumed=self.consumed(consumer))
        self.is_over = True
        self.report_event("close_end")
        for link in [*self.links.values()]:
            link.close()

    async def turn(self, consumer: AsyncConsumer) -> None:
        """One round of the application: poll, and read."""
        if self.paused or not consumer._member.is_subscribed:
            await asyncio.sleep(0.05)
            return
        try:
            fetchable = await consumer.poll(100, self.consumed(consumer))
        except Exception as problem:
            self.report_event("error", error=str(problem) or type(problem).__name__)
            self.stops |= self.classic  # poll() of a classic consumer fails with what it cannot cure
            await asyncio.sleep(0.2)
            return
        await self.read(fetchable, consumer)

    def consumed(self, consumer: AsyncConsumer) -> tuple[tuple[tuple[str, int], int], ...]:
        """How far it has read what it owns."""
        owned = consumer.assignment()
        return tuple(sorted((p, at) for p, at in self.positions.items() if p in owned and at > 0))

    async def obey(self, line: str, consumer: AsyncConsumer, listener: Any) -> None:
        """Does what it is told."""
        verb, _, rest = line.partition(" ")
        if verb == "close":
            self.stops = True
        elif verb in ("pause", "resume"):
            self.paused = verb == "pause"
        elif verb == "subscribe":
            await consumer.subscribe(rest.split(","), listener)
        elif verb == "unsubscribe":
            await consumer.unsubscribe()

    # As a fetcher

    async def read(self, fetchable: Partitions, consumer: AsyncConsumer) -> None:
        """Asks for committed offsets of what is new, and for records."""
        for gone in self.positions.keys() - set(fetchable):
            if gone not in consumer.assignment():
                del self.positions[gone]
        new = tuple(p for p in fetchable if p not in self.positions)
        if new and self.coordinator and not self.asking:
            self.asking = True
            self.spawn(self.learn(new, consumer))
        ready = {p: self.positions[p] for p in fetchable if p in self.positions}
        if ready and not self.fetching:
            self.fetching = True
            self.spawn(self.fetch(ready))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Does something meanwhile."""
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def learn(self, new: Partitions, consumer: AsyncConsumer) -> None:
        """Where to begin."""
        names = sorted({topic for topic, _ in new})
        topics = tuple(OffsetFetchRequestTopics(t, partition_indexes=tuple(n for x, n in new if x == t)) for t in names)
        member, epoch = (None, -1) if self.classic else self.identity(consumer)
        request = OffsetFetchRequest(
            groups=(OffsetFetchRequestGroup(GROUP, member, epoch, topics),), require_stable=True
        )
        answer = await self.ask("group", self.coordinator, request)
        codes = (
            []
            if answer is None
            else [answer.groups[0].error_code, *(p.error_code for t in answer.groups[0].topics for p in t.partitions)]
        )
        if answer is None or any(code is not ErrorCode.NONE for code in codes):
            await asyncio.sleep(0.1)
        else:
            owned = () if self.stops else consumer.assignment()
            for topic in answer.groups[0].topics:
                for one in topic.partitions:
                    if (topic.name, one.partition_index) in owned:
                        self.positions[topic.name, one.partition_index] = max(one.committed_offset, 0)
        self.asking = False

    def identity(self, consumer: AsyncConsumer) -> tuple[str | None, int]:
        """Who asks for offsets."""
        member = consumer._member.member  # type: ignore[attr-defined]
        return (member.member_id, member.epoch) if member.epoch > 0 else (None, -1)

    async def fetch(self, ready: Mapping[tuple[str, int], int]) -> None:
        """Records: whatever there is, has been read."""
        names = sorted({topic for topic, _ in ready})
        topics = tuple(
            FetchTopic(
                t,
                partitions=tuple(
                    FetchPartition(n, fetch_offset=at, partition_max_bytes=1 << 20)
                    for (x, n), at in sorted(ready.items())
                    if x == t
                ),
            )
            for t in names
        )
        answer = await self.ask("data", 1, FetchRequest(max_wait_ms=FETCH_WAIT_MS, min_bytes=1, topics=topics))
        if answer is None:
            await asyncio.sleep(0.1)
        for topic in () if answer is None else answer.responses:
            for one in topic.partitions:
                where = topic.topic, one.partition_index
                if self.positions.get(where) == ready.get(where) and one.records:
                    self.positions[where] = one.high_watermark
        self.fetching = False

    async def ask(self, kind: str, broker: int, request: Any) -> Any:
        """A request of the fetcher, and its answer; None where there is none."""
        answered: asyncio.Future[Any] = self.network.loop.create_future()

        def take(answer: Any) -> None:
            if not answered.done():
                answered.set_result(None if isinstance(answer, TransportFailure) else answer)

        if self.is_over:
            return None
        self.dispatch(kind, broker, request, take)
        return await answered


class _Listener(AsyncConsumerRebalanceListener):
    def __init__(self, client: Client) -> None:
        self.client = client

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        self.client.report_event("assign", partitions)
        await asyncio.sleep(self.client.options.assign_delay_ms / 1000)
        self.client.report_event("assigned", partitions)

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        self.client.report_event("revoke", partitions)
        self.client.is_called = True
        await asyncio.sleep(self.client.options.revoke_delay_ms / 1000)
        self.client.is_called = False
        self.client.report_event("revoked", partitions)

    async def on_partitions_lost(self, partitions: Partitions) -> None:
        self.client.report_event("lost", partitions)


def run(scenario: Scenario, mutant: type[Client] = Client) -> list[Exchange | Note]:
    """Plays a scenario; A is the mutant, all others are our member as it is."""
    loop = VirtualLoop()
    network = Network(loop)
    trace: list[Exchange | Note] = []
    network.brokers = Brokers(serve(scenario), BEGIN_MS, Random(1), on_event=trace.append)  # noqa: S311
    for broker in range(1, scenario.brokers + 1):
        network.brokers.cluster.endpoints[broker] = ("127.0.0.1", 9_091 + broker)

    async def launch(name: str, options: Options, on_message: OnMessage) -> Client:
        await asyncio.sleep(0.05)
        return (mutant if name == "A" else Client)(network, name, scenario.protocol, options, on_message)

    async def main() -> list[Exchange | Note]:
        network.carry_out(network.brokers.start(loop.now_ms()))
        place = OurBrokers(network.brokers, network.carry_out, loop.now_ms)
        return await play(Stage(scenario, place, launch, trace))

    clock = partial(_whole_ms, loop)
    with ExitStack() as patched:
        for module in ("threads", "asyncio_runtime"):
            patched.enter_context(mock.patch(f"fsm.member.runtime.{module}.clock_ms", clock))
        try:
            return loop.run_until_complete(main())
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()


def _whole_ms(loop: VirtualLoop) -> int:
    return int(loop.time() * 1000 + 1e-6)
