"""The three methods of `fsm.member.Transport` and `ClassicTransport`, over connections to a real cluster.

Everything happens on one event loop, whichever thread a member calls from, and the answers are given there. What a
broker does not answer, or not in time, is a `TransportFailure`; the connection is then gone and the next request opens
another. An answer that comes after its request was given up has nobody who waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from fsm.errors import InputError
from fsm.join.network import Address, Network, Purpose, cancel
from fsm.member.classic.assignors import PartitionCounts
from fsm.protocol.assignment import TopicNames
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    DISCONNECTED,
    UNSUPPORTED_VERSION,
    JoinGroupRequest,
    MetadataResponse,
    TransportFailure,
)
from fsm.wire.dialogue import PeerError

Metadata = TypeVar("Metadata", TopicNames, PartitionCounts)

JOIN_GRACE_S = 5.0
"""How much longer than its rebalance timeout a join may take (`AbstractCoordinator.JOIN_GROUP_TIMEOUT_LAPSE`)."""
PATIENCE = 0.95
"""Of the time that the member gives a request: it hears that the connection is gone, as Kafka's own does, before it
would give up by itself, and looks for its coordinator anew."""
LAST_S = 0.5
"""How long the end waits for answers that are due, so that a leave is heard."""
FATAL = {ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_GROUP_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
"""Answers to a look-up that another attempt does not change."""


Work = Callable[[], Coroutine[Any, Any, Any]]


class WireTransport(Generic[Metadata]):
    """The network of one member, on sockets. `read` makes the member's metadata of the cluster's answer."""

    def __init__(
        self,
        network: Network,
        group_id: str,
        loop: asyncio.AbstractEventLoop,
        read: Callable[[MetadataResponse], Metadata],
        refresh_s: float = 300.0,
    ) -> None:
        self.network = network
        self.group_id = group_id
        self.topics: Sequence[str] | None = None
        """The topics that metadata are asked for; None for all."""
        self.coordinator: Address | None = None
        self._loop = loop
        self._read: Callable[[MetadataResponse], Metadata] = read
        self._refresh_s = refresh_s
        self._known: Metadata | None = None
        self._on_metadata: Callable[[Metadata | TransportFailure], None] | None = None
        """Who is told of changes."""
        self._refreshing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def find_coordinator(self, on_coordinator_found: Callable[[TransportFailure | None], None]) -> None:
        """Finds the group's coordinator and connects to it."""
        self._start(self._find, on_coordinator_found)

    def update_metadata(self, on_metadata: Callable[[Metadata | TransportFailure], None]) -> None:
        """Asks the cluster for its topics now; tells changes of them from then on."""
        self._start(partial(self._learn, on_metadata), on_metadata)

    def send(self, request: Any, on_response: Callable[[Any], None]) -> None:
        """Sends a request to the coordinator."""
        self._start(partial(self._send, request), on_response)

    async def close(self) -> None:
        """Waits a moment for what is under way, then closes all connections; on the loop, like everything below."""
        await cancel([] if self._refreshing is None else [self._refreshing])
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LAST_S)
        await cancel(self._tasks)
        await self.network.close()

    def _start(self, work: Work, answer: Callable[[Any], None]) -> None:
        """Runs the work on the loop. Raises `OSError` where that is closed."""
        try:
            self._loop.call_soon_threadsafe(self._begin, work, answer)
        except RuntimeError:
            raise ConnectionError("the network is closed") from None

    def _begin(self, work: Work, answer: Callable[[Any], None]) -> None:
        task = self._loop.create_task(_give(work, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _find(self) -> TransportFailure | None:
        found = await self.network.find_coordinator(self.group_id)
        if isinstance(found, ErrorCode):
            return _failure(found)
        self.coordinator = found
        return None

    async def _send(self, request: Any) -> Any:
        if self.coordinator is None:
            return DISCONNECTED
        timeout_s = self.network.request_timeout_s
        if isinstance(request, JoinGroupRequest):
            timeout_s = max(timeout_s, request.rebalance_timeout_ms / 1000 + JOIN_GRACE_S)
        return await self.network.call(Purpose.COORDINATOR, self.coordinator, request, PATIENCE * timeout_s)

    async def _learn(self, on_metadata: Callable[[Metadata | TransportFailure], None]) -> Metadata | TransportFailure:
        metadata, asked = None, self.topics
        while metadata is None or asked != self.topics:  # who subscribes meanwhile does not want the answer of before
            asked = self.topics
            metadata = await self.network.learn(asked)
        refused = next((topic.error_code for topic in metadata.topics if topic.error_code in FATAL), None)
        if refused is not None:
            return _failure(refused)
        if self._refreshing is None:
            self._refreshing = self._loop.create_task(self._refresh())
        self._on_metadata, self._known = on_metadata, self._read(metadata)
        return self._known

    def hand_in(self, metadata: MetadataResponse) -> None:
        """Metadata that were learned otherwise; the member is told if they are news."""
        found = self._read(metadata)
        if self._on_metadata is not None and found != self._known:
            self._known = found
            self._on_metadata(found)

    async def _refresh(self) -> None:
        """Asks again from time to time, as clients do."""
        while True:
            await asyncio.sleep(self._refresh_s)
            with suppress(PeerError):  # the next one may be answered
                self.hand_in(await self.network.learn(self.topics))


async def _give(work: Work, answer: Callable[[Any], None]) -> None:
    """Runs the work and returns its result."""
    try:
        found = await work()
    except PeerError:
        found = DISCONNECTED
    except InputError:
        found = UNSUPPORTED_VERSION
    answer(found)


def _failure(code: ErrorCode) -> TransportFailure:
    """Under the name of Kafka's exception: `CoordinatorNotAvailableException`."""
    return TransportFailure(f"{code.name.title().replace('_', '')}Exception", retriable=code not in FATAL)


def read_names(metadata: MetadataResponse) -> TopicNames:
    """Topic names by their ids, for a member of KIP-848."""
    return TopicNames({topic.topic_id: topic.name for topic in metadata.topics if topic.name and not topic.error_code})


def read_counts(metadata: MetadataResponse) -> PartitionCounts:
    """How many partitions each topic has, for a classic member."""
    counts = ((topic.name, len(topic.partitions)) for topic in metadata.topics if topic.name and not topic.error_code)
    return tuple(sorted(counts))
