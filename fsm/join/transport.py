"""The three methods of `fsm.member.Transport` and `ClassicTransport`, over connections to a real cluster.

Everything runs on one event loop, whichever thread a member calls from, and callbacks are called there. A request
without an answer in time gets a `TransportFailure`; its connection is then closed and the next request opens another. A
later answer is ignored.
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
"""The share of the member's request timeout that is used here: the member sees a lost connection, as Kafka's does,
before its own timeout, and looks up its coordinator again.
"""
LAST_S = 0.5
"""How long closing waits for pending answers, so that a leave arrives."""
FATAL = {ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_GROUP_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
"""Errors of a look-up that a retry does not resolve."""


Work = Callable[[], Coroutine[Any, Any, Any]]


class WireTransport(Generic[Metadata]):
    """The network of one member, on sockets. `read` converts the cluster's answer to the member's metadata."""

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
        """The topics whose metadata are fetched; None for all."""
        self.coordinator: Address | None = None
        self._loop = loop
        self._read: Callable[[MetadataResponse], Metadata] = read
        self._refresh_s = refresh_s
        self._known: Metadata | None = None
        self._on_metadata: Callable[[Metadata | TransportFailure], None] | None = None
        """The callback for changes."""
        self._refreshing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def find_coordinator(self, on_coordinator_found: Callable[[TransportFailure | None], None]) -> None:
        """Finds the group's coordinator and connects to it."""
        self._start(self._find, on_coordinator_found)

    def update_metadata(self, on_metadata: Callable[[Metadata | TransportFailure], None]) -> None:
        """Fetches the topics now, and calls back for later changes."""
        self._start(partial(self._learn, on_metadata), on_metadata)

    def send(self, request: Any, on_response: Callable[[Any], None]) -> None:
        """Sends a request to the coordinator."""
        self._start(partial(self._send, request), on_response)

    async def close(self) -> None:
        """Waits briefly for pending answers, then closes all connections; on the loop, like everything below."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LAST_S)
        await cancel([*self._tasks, *filter(None, [self._refreshing])])  # also what the last answer began
        await self.network.close()

    def _start(self, work: Work, answer: Callable[[Any], None]) -> None:
        """Runs the work on the loop. Raises `OSError` if that is closed."""
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
        while metadata is None or asked != self.topics:  # after a new subscription the old answer is not wanted
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
        """Takes metadata from another source; calls back if they have changed."""
        found = self._read(metadata)
        if self._on_metadata is not None and found != self._known:
            self._known = found
            self._on_metadata(found)

    async def _refresh(self) -> None:
        """Fetches metadata periodically, as clients do."""
        while True:
            await asyncio.sleep(self._refresh_s)
            with suppress(PeerError):  # the next attempt may succeed
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
    """The failure under the name of Kafka's exception: `CoordinatorNotAvailableException`."""
    return TransportFailure(f"{code.name.title().replace('_', '')}Exception", retriable=code not in FATAL)


def read_names(metadata: MetadataResponse) -> TopicNames:
    """Topic names by their ids, for a member of KIP-848."""
    return TopicNames({topic.topic_id: topic.name for topic in metadata.topics if topic.name and not topic.error_code})


def read_counts(metadata: MetadataResponse) -> PartitionCounts:
    """Partition counts by topic, for a classic member."""
    counts = ((topic.name, len(topic.partitions)) for topic in metadata.topics if topic.name and not topic.error_code)
    return tuple(sorted(counts))
