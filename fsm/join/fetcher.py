"""A small fetcher: the records of a member's fetchable partitions, in their order.

It starts at the committed offset, or without one at one end of the log. It sends one fetch at a time to each leader,
and buffers batches as they come until the application takes them. It fetches no more of a partition with buffered
records. It skips and reports unreadable batches.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from fsm.errors import InputError
from fsm.join.compression import inflate
from fsm.join.network import Address, Network, Purpose, cancel
from fsm.join.transport import WireTransport
from fsm.member.runtime.threads import ConsumerRuntime
from fsm.protocol import messages as m
from fsm.protocol.assignment import NO_TOPIC_ID, TopicPartition, numbers_by_topic
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.json_form import error_name
from fsm.protocol.record_batches import CONTROL, BatchHead, LogRecord, read_records, split_batches
from fsm.wire.dialogue import PeerError

EARLIEST, LATEST = -2, -1
"""Timestamps of ListOffsets for the ends of a log."""
MAX_WAIT_MS, MAX_BYTES, MAX_PARTITION_BYTES = 500, 4 << 20, 1 << 20
RETRY_S = 0.2
"""The delay before a retry."""
TOPIC_IDS_SINCE = 13
"""The version of Fetch that names topics by id."""
PASSING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.OFFSET_NOT_AVAILABLE,
}
"""Errors that a retry with newer metadata resolves; they are not reported."""


class Message(NamedTuple):
    """One record of a topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class _Log:
    """The state of one partition while the member owns it."""

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.position: int | None = None
        """The offset of the next message for the application; None while it is unknown."""
        self.fetch_at = 0
        self.batches: deque[tuple[BatchHead, bytes]] = deque()
        """Batches that are not read yet."""
        self.reading: tuple[BatchHead, Iterator[LogRecord]] | None = None
        """The current batch, and its remaining records."""
        self.is_busy = False
        """A request about it is in flight."""

    @property
    def has_more(self) -> bool:
        """Whether it has records that the application has not taken."""
        return bool(self.batches) or self.reading is not None

    def go_to(self, offset: int) -> None:
        """Sets the position."""
        self.position = self.fetch_at = offset


Work = Callable[[list[_Log]], Coroutine[Any, Any, None]]


class Fetcher:
    """The records of one member; used on the event loop of its network."""

    def __init__(
        self, network: Network, transport: WireTransport[Any], group_id: str, start: int, report: Callable[[str], None]
    ) -> None:
        """`start` is the start of a partition without a committed offset; `report` gets a line for each problem."""
        self._network = network
        self._transport = transport
        self._group_id = group_id
        self._start = start
        self._report = report
        self.member: ConsumerRuntime | None = None
        """The member that requests committed offsets while it is in the group; None for a request without member."""
        self._logs: dict[TopicPartition, _Log] = {}
        self._arrived = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._reported: set[str] = set()

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drops partitions that the member no longer owns; ignores answers for them."""
        for partition in partitions:
            self._logs.pop(partition, None)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The application's position in each partition, for commits."""
        known = ((log.partition, log.position) for log in self._logs.values())
        return {partition: position for partition, position in sorted(known) if position is not None}

    async def take(self, partitions: Sequence[TopicPartition], wait_s: float, most: int) -> list[Message]:
        """At most this many messages of these partitions; waits this long for the first, and continues fetching."""
        logs = [self._logs.setdefault(partition, _Log(partition)) for partition in partitions]
        self._arrived.clear()
        self._ask(logs)
        if not any(log.has_more for log in logs):
            try:
                async with asyncio.timeout(wait_s):
                    await self._arrived.wait()
            except TimeoutError:
                return []
        taken: list[Message] = []
        for log in sorted(logs, key=lambda log: log.reading is None):  # decompressed batches first, to hold few
            taken += islice(self._read(log), most - len(taken))
        self._ask(logs)
        return taken

    async def close(self) -> None:
        """Cancels requests in flight."""
        await cancel(self._tasks)

    def _ask(self, logs: Iterable[_Log]) -> None:
        """Requests what these partitions lack: a position, or records."""
        idle = [log for log in logs if not log.is_busy and not log.has_more]
        lost = [log for log in idle if log.position is None]
        if lost:
            self._begin(self._position, lost)
        by_leader: dict[Address, list[_Log]] = {}
        for log in idle:
            leader = self._network.leaders.get(log.partition)
            if log.position is not None and leader is not None:
                by_leader.setdefault(leader, []).append(log)
        for leader, led in by_leader.items():
            self._begin(partial(self._fetch, leader), led)
        if leaderless := [log for log in idle if log.position is not None and not log.is_busy]:
            self._begin(self._find_leaders, leaderless)

    def _begin(self, work: Work, logs: list[_Log]) -> None:
        for log in logs:
            log.is_busy = True
        task = asyncio.get_running_loop().create_task(self._do(work, logs))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _do(self, work: Work, logs: list[_Log]) -> None:
        """Runs a request; after a failure it is retried after a delay, if still needed."""
        try:
            await work(logs)
        except PeerError:
            await asyncio.sleep(RETRY_S)
        except InputError as problem:
            self._report_once(str(problem))
            await asyncio.sleep(RETRY_S)
        finally:
            for log in logs:
                log.is_busy = False
            self._arrived.set()

    def _report_error(self, what: str, code: ErrorCode) -> None:
        if code not in PASSING:
            self._report_once(f"{what}: {error_name(code)}")

    def _report_once(self, line: str) -> None:
        if line not in self._reported:
            self._reported.add(line)
            self._report(line)

    # Positions

    async def _position(self, logs: list[_Log]) -> None:
        committed = await self._read_committed(logs)
        if committed is None:
            await asyncio.sleep(RETRY_S)
            return
        for log in logs:
            offset = committed.get(log.partition, -1)
            if offset >= 0:
                log.go_to(offset)
        await self._go_to_end([log for log in logs if log.position is None])

    async def _read_committed(self, logs: list[_Log]) -> dict[TopicPartition, int] | None:
        """Committed offsets; None if they are not available now, or not with the member's epoch."""
        coordinator = self._transport.coordinator
        if coordinator is None:
            return None
        topics = tuple(
            m.OffsetFetchRequestTopics(topic, partition_indexes=tuple(numbers))
            for topic, numbers in numbers_by_topic(sorted(log.partition for log in logs)).items()
        )
        member = self.member
        epoch = -1 if member is None else member.member_epoch
        group = m.OffsetFetchRequestGroup(self._group_id, topics=topics)
        if member is not None and epoch > 0:
            group = group._replace(member_id=member.member_id, member_epoch=epoch)
        request = m.OffsetFetchRequest(self._group_id, topics, (group,), require_stable=True)
        response = await self._network.call(Purpose.COORDINATOR, coordinator, request)
        answer = next(iter(response.groups), response)
        found = [(topic.name, one) for topic in answer.topics for one in topic.partitions]
        codes = [code for code in (answer.error_code, *(one.error_code for _, one in found)) if code]
        if codes:
            self._report_error("committed offsets cannot be read", codes[0])
            return None
        return {(name, one.partition_index): one.committed_offset for name, one in found}

    async def _go_to_end(self, logs: list[_Log]) -> None:
        """Partitions without a committed offset begin at one end of their log."""
        by_leader: dict[Address, list[_Log]] = {}
        for log in logs:
            leader = self._network.leaders.get(log.partition)
            if leader is None:
                await self._find_leaders(logs)
                return
            by_leader.setdefault(leader, []).append(log)
        for leader, led in by_leader.items():
            topics = tuple(
                m.ListOffsetsTopic(
                    topic, tuple(m.ListOffsetsPartition(number, timestamp=self._start) for number in numbers)
                )
                for topic, numbers in numbers_by_topic(sorted(log.partition for log in led)).items()
            )
            answer = await self._network.call(Purpose.FETCHES, leader, m.ListOffsetsRequest(topics=topics))
            found = {(topic.name, one.partition_index): one for topic in answer.topics for one in topic.partitions}
            for log in led:
                one = found.get(log.partition)
                if one is not None and one.error_code:
                    self._report_error(f"{_name(log)} has no end that can be found", one.error_code)
                elif one is not None and one.offset >= 0:
                    log.go_to(one.offset)
        if any(log.position is None for log in logs):
            await self._find_leaders(logs)

    async def _find_leaders(self, logs: list[_Log]) -> None:
        await asyncio.sleep(RETRY_S)
        await self._network.learn(sorted({log.partition[0] for log in logs}))

    # Records

    async def _fetch(self, leader: Address, logs: list[_Log]) -> None:
        link = await self._network.link(Purpose.FETCHES, leader)
        by_id = link.version(m.FetchRequest) >= TOPIC_IDS_SINCE
        at = {log.partition: log.fetch_at for log in logs}
        ids = {topic: self._network.ids.get(topic, NO_TOPIC_ID) for topic, _ in at}
        names = {topic_id: topic for topic, topic_id in ids.items()}
        topics = tuple(
            m.FetchTopic(topic, ids[topic], tuple(_fetch_from(number, at[topic, number]) for number in numbers))
            for topic, numbers in numbers_by_topic(sorted(at)).items()
        )
        request = m.FetchRequest(max_wait_ms=MAX_WAIT_MS, min_bytes=1, max_bytes=MAX_BYTES, topics=topics)
        answer = await self._network.call(Purpose.FETCHES, leader, request)
        if answer.error_code:
            self._report_error("nothing can be fetched", answer.error_code)
        found = {
            (names.get(topic.topic_id) if by_id else topic.topic, one.partition_index): one
            for topic in answer.responses
            for one in topic.partitions
        }
        amiss = [log for log in logs if not self._take_in(log, found.get(log.partition))]
        if amiss:
            await self._find_leaders(amiss)

    def _take_in(self, log: _Log, data: m.PartitionData | None) -> bool:
        """Takes the records of an answer; returns False if the partition may have moved to another broker."""
        if self._logs.get(log.partition) is not log:
            return True
        if data is None:
            return False
        if data.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._report_once(f"{_name(log)}: there is no offset {log.fetch_at}; it begins anew")
            log.position = None
            return True
        if data.error_code:
            self._report_error(f"{_name(log)} cannot be fetched", data.error_code)
            return False
        try:
            for head, batch in split_batches(data.records or b""):
                log.batches.append((head, batch))
                log.fetch_at = max(log.fetch_at, head.base_offset + head.last_offset_delta + 1)
        except InputError as problem:
            if log.batches or problem.what == "the segment ends inside a batch":
                return True  # the rest is fetched again
            self._report_once(f"{_name(log)}: records from offset {log.fetch_at} cannot be read: {problem.what}")
        return True

    def _read(self, log: _Log) -> Iterator[Message]:
        """The records from the position on; unreadable ones are skipped."""
        while log.position is not None and log.has_more:
            if log.reading is None:
                head, batch = log.batches.popleft()
                log.reading = head, iter(()) if head.attributes & CONTROL else read_records(batch, inflate)
            head, records = log.reading
            end = head.base_offset + head.last_offset_delta + 1
            try:
                for one in records:
                    if one.offset >= log.position:
                        log.position = one.offset + 1
                        yield Message(*log.partition, one.offset, one.timestamp_ms, one.key, one.value, one.headers)
            except InputError as problem:
                first = max(log.position, head.base_offset)
                self._report_once(f"{_name(log)}: offsets {first} to {end - 1} are passed over: {problem}")
            log.reading, log.position = None, max(log.position, end)


def _fetch_from(number: int, offset: int) -> m.FetchPartition:
    return m.FetchPartition(number, fetch_offset=offset, partition_max_bytes=MAX_PARTITION_BYTES)


def _name(log: _Log) -> str:
    return "-".join(map(str, log.partition))
