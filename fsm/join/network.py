"""A cluster as one client sees it: its brokers, the latest topic metadata, and connections of three kinds.

Requests for any broker have one connection, requests of the group another to its coordinator, and fetches one to each
leader: so a fetch that waits for records, or a join that waits for others, blocks no other request.

`check_cluster` checks once before the start whether the cluster can be joined: each problem is one clear line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, NamedTuple

from fsm.errors import InputError
from fsm.join.link import Link
from fsm.protocol import messages as m
from fsm.protocol.assignment import NO_TOPIC_ID, TopicPartition
from fsm.protocol.codec import API_OF
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.json_form import error_name
from fsm.wire.dialogue import PeerError, suggest_remedy
from fsm.wire.login import PLAINTEXT, Security

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

    >>> from fsm.protocol.messages import commit_topics
    >>> offsets = ((("foo", 0), 7),)
    >>> request, newest = identify(OffsetCommitRequest("g", topics=commit_topics(offsets)), {"foo": "some id"})
    >>> request.topics[0].topic_id, newest
    ('some id', None)
    >>> identify(request, {"foo": "another id"})[0] == request
    True
    >>> identify(request, {})[1]
    9
    """

    def add_ids(topics: tuple[Any, ...] | None) -> tuple[Any, ...]:
        return tuple(
            topic._replace(topic_id=ids.get(topic.name, NO_TOPIC_ID)) if topic.topic_id == NO_TOPIC_ID else topic
            for topic in topics or ()
        )

    if isinstance(request, m.OffsetCommitRequest):
        request = replace(request, topics=add_ids(request.topics))
        topics = request.topics
    elif isinstance(request, m.OffsetFetchRequest):
        groups = tuple(group._replace(topics=add_ids(group.topics)) for group in request.groups)
        request = replace(request, groups=groups)
        topics = tuple(topic for group in groups for topic in group.topics or ())
    else:
        return request, None
    is_known = all(topic.topic_id != NO_TOPIC_ID for topic in topics)
    return request, None if is_known else LAST_BY_NAME[type(request)]


def name_topics(answer: Any, ids: Mapping[str, str]) -> Any:
    """The answer with topic names instead of ids."""
    if not isinstance(answer, m.OffsetCommitResponse | m.OffsetFetchResponse):
        return answer
    names = {topic_id: name for name, topic_id in ids.items()}

    def rename(topics: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(topic._replace(name=topic.name or names.get(topic.topic_id, "")) for topic in topics)

    if isinstance(answer, m.OffsetCommitResponse):
        return replace(answer, topics=rename(answer.topics))
    groups = tuple(group._replace(topics=rename(group.topics)) for group in answer.groups)
    return replace(answer, groups=groups)


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
