"""A cluster as one client sees it: its brokers, the latest topic metadata, and connections of three kinds.

Requests for any broker have one connection, requests of the group another to its coordinator, and fetches one to each
leader: so a fetch that waits for records, or a join that waits for others, blocks no other request. Calls of a
connection are sent at once, each waits for its own answer. A call without an answer in time closes the connection,
because later calls would wait behind it as well; so does an invalid answer. All waiting calls then fail.

`check_cluster` checks once before the start whether the cluster can be joined: each problem is one clear line.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, NamedTuple, Self

from fsm.errors import InputError
from fsm.protocol import messages as m
from fsm.protocol.assignment import NO_TOPIC_ID, TopicPartition
from fsm.protocol.codec import API_OF
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.json_form import error_name
from fsm.protocol.messages import ApiVersionsRequest
from fsm.wire.dialogue import Dialogue, PeerError, explain_failure, show_address, suggest_remedy
from fsm.wire.login import LONGEST_ANSWER, PLAINTEXT, Security, log_in


class Link(asyncio.Protocol):
    """A connection that is open until `is_closed`; made by `Link.open`, used on the loop it was made on."""

    def __init__(self, host: str, port: int, client_id: str) -> None:
        self.peer = show_address(host, port)
        self.versions: dict[int, range] = {}
        """The broker's versions, by API key."""
        self._dialogue = Dialogue(self.peer, client_id)
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._last = 0
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, host: str, port: int, client_id: str, timeout_s: float, security: Security = PLAINTEXT) -> Self:
        """Connects, logs in, and asks for versions.

        Raises `PeerError` for a missing peer, one that is no broker, or a refused login.
        """
        link = cls(host, port, client_id)
        try:
            async with asyncio.timeout(timeout_s):
                await link._connect(host, port, client_id, security)
                answer = await link._ask(ApiVersionsRequest(), 0)
        except TimeoutError:
            link.close()
            raise link._fail(f"no answer within {timeout_s:g} s") from None
        except OSError as problem:
            link.close()
            raise link._fail(explain_failure(problem, tls=security.tls is not None)) from None
        except BaseException:
            link.close()
            raise
        if answer.error_code:
            link.close()
            raise link._fail(f"ApiVersions is refused: {error_name(answer.error_code)}")
        link.versions = {api.api_key: range(api.min_version, api.max_version + 1) for api in answer.api_keys}
        return link

    async def _connect(self, host: str, port: int, client_id: str, security: Security) -> None:
        loop = asyncio.get_running_loop()
        if not security.user:
            await loop.create_connection(lambda: self, host, port, ssl=security.tls)
            return
        reader = asyncio.StreamReader()
        first = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.create_connection(lambda: first, host, port, ssl=security.tls)
        self.connection_made(transport)
        if why := await _log_in(security, client_id, reader, transport):
            raise self._fail(why)
        transport.set_protocol(self)

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._transport is None

    def version(self, message: type[Any], newest: int | None = None) -> int:
        """The newest version of a request that both sides support, up to this one. Raises `InputError` if there is
        none.
        """
        api = API_OF[message]
        supported = self.versions.get(api.key, range(0))
        newest = min(api.newest if newest is None else newest, supported.stop - 1)
        if newest < max(api.oldest, supported.start):
            raise InputError(f"it does not support the versions of {api.name} that we do", self.peer)
        return newest

    async def call(self, request: Any, timeout_s: float, newest: int | None = None) -> Any:
        """The answer to a request, which is sent in a version up to this one.

        Raises `PeerError` without an answer, `InputError` for an API or version that the broker does not support.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await self._ask(request, self.version(type(request), newest))
        except TimeoutError:
            self.close()
            raise self._fail(f"no answer to {API_OF[type(request)].name} within {timeout_s:g} s") from None

    async def _ask(self, request: Any, version: int) -> Any:
        if self._transport is None:
            raise self._fail("the connection is closed")
        self._last += 1
        data = self._dialogue.ask(request, self._last, version)
        self._calls[self._last] = answer = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return await answer

    def close(self) -> None:
        """Closes the connection; calls that wait fail."""
        if self._transport is not None:
            self._transport.abort()
        self._end(self._fail("the connection is closed"))

    def _fail(self, why: str) -> PeerError:
        return self._dialogue.fail(why)

    def _end(self, why: PeerError) -> None:
        self._transport = None
        calls, self._calls = self._calls, {}
        for call in calls.values():
            if not call.done():
                call.set_exception(why)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  # create_connection makes no other
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Bytes of the peer: passes answers to waiting calls; ignores those of cancelled ones."""
        self._dialogue.take(data)
        try:
            while self._transport is not None and (arrived := self._dialogue.next_answer()) is not None:
                call = self._calls.pop(arrived.tag, None)
                if call is not None and not call.done():
                    call.set_result(arrived.response)
        except PeerError as problem:
            if self._transport is not None:
                self._transport.abort()
            self._end(problem)

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer or we have closed the connection."""
        why = getattr(exc, "strerror", None) or exc
        self._end(self._fail(f"the connection broke: {why}" if why else "the peer closed the connection"))


async def _log_in(
    security: Security, client_id: str, reader: asyncio.StreamReader, transport: asyncio.WriteTransport
) -> str:
    """Logs in; returns the reason of a failure, or an empty text."""
    login = log_in(security, client_id)
    try:
        request = next(login)
        while True:
            transport.write(request)
            size = int.from_bytes(await reader.readexactly(4), "big")
            request = login.send(await reader.readexactly(size) if size <= LONGEST_ANSWER else b"")
    except StopIteration as done:
        return str(done.value)
    except asyncio.IncompleteReadError:
        return "the peer closed the connection at the login"


CONNECTING_S = 10.0
"""How long a connection may take, the broker's first answer included."""


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int


class Purpose(Enum):
    """The purpose of a connection."""

    CONTROL = "what any broker can answer"
    COORDINATOR = "requests of the group"
    FETCHES = "records"

    __hash__ = object.__hash__


class Network:
    """Connections to the brokers of one cluster, opened when they are needed; used on one event loop."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        client_id: str,
        request_timeout_s: float = 30.0,
        security: Security = PLAINTEXT,
    ) -> None:
        self.bootstrap = tuple(bootstrap)
        self.client_id, self.security = client_id, security
        self.request_timeout_s = request_timeout_s
        self.brokers: dict[int, Address] = {}
        """By node id, from the last metadata."""
        self.leaders: dict[TopicPartition, Address] = {}
        self.ids: dict[str, str] = {}
        """Topic ids by name; empty for a cluster without them."""
        self._links: dict[tuple[Purpose, Address], Link] = {}
        self._opening: dict[tuple[Purpose, Address], asyncio.Task[Link]] = {}
        self._control: Address | None = None

    async def link(self, purpose: Purpose, address: Address) -> Link:
        """The connection for this purpose, opened if there is none. Raises `PeerError` if that fails."""
        key = purpose, address
        found = self._links.get(key)
        if found is not None and not found.is_closed:
            return found
        if key not in self._opening:
            self._opening[key] = asyncio.create_task(self._open(key))
            self._opening[key].add_done_callback(_look)
        return await asyncio.shield(self._opening[key])  # it continues for other waiting calls

    async def _open(self, key: tuple[Purpose, Address]) -> Link:
        try:
            timeout_s = min(CONNECTING_S, self.request_timeout_s)
            found = self._links[key] = await Link.open(*key[1], self.client_id, timeout_s, self.security)
            return found
        finally:
            del self._opening[key]

    async def call(self, purpose: Purpose, address: Address, request: Any, timeout_s: float | None = None) -> Any:
        """The answer of one broker; requests about offsets use known topic ids, their answers have names.

        Raises `PeerError` without an answer, `InputError` for an API or version that the broker does not support.
        """
        link = await self.link(purpose, address)
        identified, newest = identify(request, self.ids)
        answer = await link.call(identified, timeout_s or self.request_timeout_s, newest)
        return name_topics(answer, self.ids)

    async def call_any(self, request: Any) -> Any:
        """The answer of any broker: the last one, or the next reachable one.

        Raises the `PeerError` of the first if no broker answers.
        """
        known = [self._control, *self.bootstrap, *(address for _, address in sorted(self.brokers.items()))]
        first: PeerError | None = None
        for address in dict.fromkeys(one for one in known if one is not None):
            try:
                answer = await self.call(Purpose.CONTROL, address, request)
            except PeerError as problem:
                first = first or problem
                self._control = None
            else:
                self._control = address
                return answer
        assert first is not None  # noqa: S101  # there is a bootstrap address at least
        raise first

    async def learn(self, topics: Sequence[str] | None) -> m.MetadataResponse:
        """Metadata of these topics, None for all; remembers brokers, leaders and ids. Raises as `call_any` does."""
        asked = None if topics is None else tuple(m.MetadataRequestTopic(name=name) for name in topics)
        answer: m.MetadataResponse = await self.call_any(m.MetadataRequest(asked, allow_auto_topic_creation=False))
        self.brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        for topic in answer.topics:
            if topic.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic.name is not None:
                self._forget(topic.name)
            elif not topic.error_code and topic.name is not None:
                self.ids[topic.name] = topic.topic_id
                for one in topic.partitions:
                    partition = (topic.name, one.partition_index)
                    if one.leader_id in self.brokers:
                        self.leaders[partition] = self.brokers[one.leader_id]
                    else:
                        self.leaders.pop(partition, None)
        return answer

    def _forget(self, topic: str) -> None:
        self.ids.pop(topic, None)
        self.leaders = {one: leader for one, leader in self.leaders.items() if one[0] != topic}

    async def find_coordinator(self, group_id: str) -> Address | ErrorCode:
        """Finds and connects the group's coordinator, or returns the error. Raises `PeerError` if unreachable."""
        answer = await self.call_any(m.FindCoordinatorRequest(key=group_id, coordinator_keys=(group_id,)))
        alone = m.Coordinator(
            group_id, answer.node_id, answer.host, answer.port, answer.error_code, answer.error_message
        )
        found = next((one for one in answer.coordinators if one.key == group_id), alone)
        if found.error_code:
            return found.error_code
        address = Address(found.host, found.port)
        for (purpose, other), link in self._links.items():
            if purpose is Purpose.COORDINATOR and other != address:
                link.close()
        await self.link(Purpose.COORDINATOR, address)
        return address

    async def close(self) -> None:
        """Closes all connections, and cancels those being opened."""
        await cancel(self._opening.values())
        for link in self._links.values():
            link.close()


def _look(task: asyncio.Task[Any]) -> None:
    """Retrieves the exception: its waiting call may be cancelled, and asyncio warns of unretrieved exceptions."""
    if not task.cancelled():
        task.exception()


async def cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels these tasks, and returns when they have ended."""
    ended = [*tasks]
    for task in ended:
        task.cancel()
    await asyncio.gather(*ended, return_exceptions=True)


LAST_BY_NAME: Mapping[type[Any], int] = {m.OffsetCommitRequest: 9, m.OffsetFetchRequest: 9}
"""The newest versions of requests with topic names."""


def identify(request: Any, ids: Mapping[str, str]) -> tuple[Any, int | None]:
    """The request with topic ids, and the newest version in which it can be sent; None: any. Its own ids remain.

    >>> from fsm.protocol.messages import OffsetCommitRequest, commit_topics
    >>> asked = OffsetCommitRequest("g", topics=commit_topics(((("foo", 0), 7),)))
    >>> request, newest = identify(asked, {"foo": "some id"})
    >>> request.topics[0].topic_id, newest
    ('some id', None)
    >>> identify(request, {"foo": "another id"})[0] == request
    True
    >>> identify(asked, {})[1]
    9
    """
    if type(request) not in LAST_BY_NAME:
        return request, None
    unknown = []

    def add_id(topic: Any) -> Any:
        topic_id = topic.topic_id if topic.topic_id != NO_TOPIC_ID else ids.get(topic.name, NO_TOPIC_ID)
        if topic_id == NO_TOPIC_ID:
            unknown.append(topic.name)
        return topic._replace(topic_id=topic_id)

    identified = _change_topics(request, add_id)
    return identified, LAST_BY_NAME[type(request)] if unknown else None


def name_topics(answer: Any, ids: Mapping[str, str]) -> Any:
    """The answer with topic names instead of ids."""
    if not isinstance(answer, m.OffsetCommitResponse | m.OffsetFetchResponse):
        return answer
    names = {topic_id: name for name, topic_id in ids.items()}
    return _change_topics(answer, lambda topic: topic._replace(name=topic.name or names.get(topic.topic_id, "")))


def _change_topics(message: Any, change: Callable[[Any], Any]) -> Any:
    """The message about offsets with each of its topics changed; those of OffsetFetch are in its groups."""

    def change_all(topics: tuple[Any, ...] | None) -> tuple[Any, ...]:
        return tuple(map(change, topics or ()))

    if type(message) in (m.OffsetCommitRequest, m.OffsetCommitResponse):
        return replace(message, topics=change_all(message.topics))
    return replace(message, groups=tuple(group._replace(topics=change_all(group.topics)) for group in message.groups))


ALL = (
    m.FindCoordinatorRequest,
    m.MetadataRequest,
    m.OffsetCommitRequest,
    m.OffsetFetchRequest,
    m.FetchRequest,
    m.ListOffsetsRequest,
)
CONSUMER = (m.ConsumerGroupHeartbeatRequest,)
CLASSIC = (m.JoinGroupRequest, m.SyncGroupRequest, m.HeartbeatRequest, m.LeaveGroupRequest)
OLDEST = {m.MetadataRequest: 4, m.LeaveGroupRequest: 3}
"""The oldest usable versions: earlier ones create topics on request, or lack a list of leaving members."""


async def check_cluster(network: Network, topics: Sequence[str] | None, *, is_classic: bool) -> m.MetadataResponse:
    """The metadata of these topics, None for all.

    Raises `InputError` if there is no broker, if it requires something unsupported, and for unknown topics.
    """
    place = " or ".join(f"{host}:{port}" for host, port in network.bootstrap)
    first: InputError | None = None
    for address in network.bootstrap:
        try:
            link = await network.link(Purpose.CONTROL, address)
        except PeerError as problem:
            first = first or InputError(str(problem), remedy=suggest_remedy(problem))
            continue
        for message in (*ALL, *(CLASSIC if is_classic else CONSUMER)):
            _check_version(message, link.versions.get(API_OF[message].key), link.peer)
        break
    else:
        assert first is not None  # noqa: S101  # there is an address at least
        raise first
    metadata = await _learn(network, topics)
    for topic in metadata.topics if topics is not None else ():
        if topic.error_code:
            known = "create it first" if topic.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else ""
            raise InputError(f"topic {topic.name}: {error_name(topic.error_code)}", place, known)
    return metadata


async def _learn(network: Network, topics: Sequence[str] | None) -> m.MetadataResponse:
    """Fetches metadata in two attempts, because a connection may break once; a broker that requires a login breaks it
    each time.
    """
    try:
        return await network.learn(topics)
    except PeerError:
        try:
            return await network.learn(topics)
        except PeerError as problem:
            why = f"{problem} when it was asked for topics"
            raise InputError(why, remedy="if it requires SASL, add --user, or choose a listener without one") from None


def _check_version(message: type[Any], supported: range | None, peer: str) -> None:
    api = API_OF[message]
    oldest = max(api.oldest, OLDEST.get(message, 0))
    if supported and range(max(oldest, supported.start), min(api.newest + 1, supported.stop)):
        return
    if message is m.ConsumerGroupHeartbeatRequest:
        remedy = "Kafka has it since 4.0; --protocol classic needs none"
        raise InputError(f"the broker is too old: it does not support {api.name}", peer, remedy)
    raise InputError(f"it does not support {api.name} in versions {oldest} to {api.newest}", peer)
