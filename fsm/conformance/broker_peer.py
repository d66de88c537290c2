"""A broker on a socket as the peer of a walk, with one connection per client, because a delayed join blocks its own.

In a cluster a group is walked on its coordinator, at the address in the metadata.

Settings are read by DescribeConfigs, topics by Metadata, records by Fetch of the group's partition of
`__consumer_offsets`, the group's description by ConsumerGroupDescribe, else DescribeGroups. What the broker does not
support is left out and reported.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

from fsm.conformance.families import SEVERAL_VERSIONS, TOPICS
from fsm.conformance.follower import Expectation
from fsm.conformance.peer import Observed
from fsm.conformance.steps import Response, TopicChange, WalkRequest, record_group
from fsm.coordinator.model.hash_order import partition_of
from fsm.errors import InputError
from fsm.protocol import messages as m
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.json_form import error_name
from fsm.protocol.record_batches import LogRecord, read_batches
from fsm.protocol.records import OtherKey, Record, to_dump_json
from fsm.wire.connection import Connection, receive_any
from fsm.wire.dialogue import VERSIONS, PeerError
from fsm.wire.login import PLAINTEXT, Security

NEEDED = ("Metadata", "FindCoordinator")
"""APIs that every walk needs."""

BROKER = 4
"""The resource type of a broker's settings."""
READY_S, DELAYED_S, MEANWHILE_S = 60.0, 0.03, 0.003
PASSING = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
SETTLED_MS = 250
"""Usual delay until the coordinator knows a change of topics that the broker's metadata shows."""


class Broker:
    """One broker, for consecutive walks."""

    def __init__(
        self,
        host: str,
        port: int,
        release: str,
        settings: Mapping[str, str],
        timeout_s: float = 10.0,
        *,
        security: Security = PLAINTEXT,
        reads_log: bool = True,
    ) -> None:
        """Connects and reads the settings of groups; `settings` override those of the broker.

        Raises `PeerError` if it does not answer like a broker, `InputError` if it lacks what a walk needs.
        """
        self.release = release
        self.host, self.port, self.timeout_s, self.security = host, port, timeout_s, security
        self.group = ""
        self._clients: dict[str, Connection] = {}
        self._log: OffsetsLog | None = None
        self._started = time.monotonic()
        self._control = self._coordinator = self._connect(host, port, "conform")
        self.unsupported = self._find_unsupported()
        self._nodes = metadata(self._control).brokers
        self.settings = {**self._read_configs(), **settings}
        self._topics = Topics(self._control)
        for name, partitions in TOPICS.items():
            self._topics.ensure(name, partitions)
        self.topics: Mapping[str, TopicChange] = self._topics.all()
        self.keeps_log = reads_log and "Fetch" not in self.unsupported

    def now_ms(self) -> int:
        return round((time.monotonic() - self._started) * 1000)

    # What it is.

    def _find_unsupported(self) -> dict[str, str]:
        answer = self._control.call(m.ApiVersionsRequest())
        if answer.error_code:
            refusal = f"ApiVersions is refused: {error_name(answer.error_code)}"
            raise InputError(f"the broker cannot be tested: {refusal}", self._control.peer)
        ranges = {api.api_key: range(api.min_version, api.max_version + 1) for api in answer.api_keys}
        wanted = {name: range(version, version + 1) for name, version in VERSIONS.items()}
        wanted |= {name: range(m.APIS[name].oldest, m.APIS[name].newest + 1) for name in SEVERAL_VERSIONS}
        found = {name: _explain_lack(ranges.get(m.APIS[name].key), versions) for name, versions in wanted.items()}
        self.versions = {
            name: _common(ranges[m.APIS[name].key], wanted[name]) for name in SEVERAL_VERSIONS if not found[name]
        }
        lacks = {name: why for name, why in found.items() if why}
        for name in NEEDED:
            if name in lacks:
                raise InputError(f"the broker cannot be tested: {name} {lacks[name]}", self._control.peer)
        return lacks

    def _read_configs(self) -> dict[str, str]:
        if "DescribeConfigs" in self.unsupported:
            return {}
        node = next((node for node in self._nodes if _address(node) == (self.host, self.port)), self._nodes[0])
        self._turn_to(*_address(node))
        request = m.DescribeConfigsRequest((m.DescribeConfigsResource(BROKER, str(node.node_id)),))
        found = self._coordinator.call(request).results
        if not found or found[0].error_code:
            refusal = error_name(found[0].error_code) if found else "no answer"
            self.unsupported["DescribeConfigs"] = f"is refused: {refusal}"
            return {}
        return {config.name: config.value for config in found[0].configs if config.value is not None}

    def administer(self, action: str, topic: str, partitions: int) -> TopicChange:
        settled = self._topics.change(action, topic, partitions)
        time.sleep(SETTLED_MS / 1000)
        return settled

    # A walk.

    def begin(self, group: str) -> str:
        for client in self._clients.values():
            client.close()
        self.group, self._clients, self._started = group, {}, time.monotonic()
        if self._control.is_closed:
            self._control = self._topics.connection = self._connect(self.host, self.port, "conform")
        self.topics = self._topics.all()
        self._find_coordinator()
        for again in count(2):
            left = any(name.startswith(f"{self.group}-") for name in self.topics)  # topics of an earlier walk
            if self._describe() is None and not left:
                break
            self.group = f"{group}.{again}"
            self._find_coordinator()
        partitions = self._topics.partitions(OFFSETS_TOPIC)
        self.keeps_log = self.keeps_log and partitions > 0
        self._log = OffsetsLog(self._coordinator, self.group, partitions) if self.keeps_log else None
        return self.group

    def _find_coordinator(self) -> None:
        """Waits until the group has a coordinator, and connects to it."""
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            found = self._control.call(m.FindCoordinatorRequest(coordinator_keys=(self.group,))).coordinators
            if found and not found[0].error_code:
                self._turn_to(*_address(found[0]))
                if self._is_loaded():
                    return
            time.sleep(0.1)
        raise PeerError(f"{self._control.peer}: no coordinator for {self.group} within {READY_S:g} s")

    def _turn_to(self, host: str, port: int) -> None:
        """Selects the broker to send requests to. A single broker keeps the given address, not the advertised one."""
        if len(self._nodes) == 1:
            host, port = self.host, self.port
        if self._coordinator.is_closed or (self._coordinator.host, self._coordinator.port) != (host, port):
            if self._coordinator is not self._control:
                self._coordinator.close()
            is_control = (host, port) == (self.host, self.port)
            self._coordinator = self._control if is_control else self._connect(host, port, "c")

    def _connect(self, host: str, port: int, client_id: str) -> Connection:
        return Connection(host, port, client_id, self.timeout_s, self.security)

    def _is_loaded(self) -> bool:
        if "DescribeGroups" in self.unsupported:
            return True
        return self._describe_classic().error_code not in PASSING

    def ask(self, n: int, request: WalkRequest, expected: Expectation) -> Observed:
        connection = self._choose_connection(request.client)
        connection.send(request.message, n, request.version)
        return self._observe(self._collect(n, expected.answered), expected.records)

    def _choose_connection(self, name: str) -> Connection:
        """A connection of the client without a request in flight."""
        for suffix in range(len(self._clients) + 1):
            key = f"{name}/{suffix}"
            if key not in self._clients:
                self._clients[key] = self._connect(self._coordinator.host, self._coordinator.port, f"c-{name}")
            if not self._clients[key].is_waiting:
                return self._clients[key]
        raise AssertionError("a new connection waits for nothing")

    def _collect(self, n: int, expected: frozenset[int]) -> list[Response]:
        """Receives responses until all expected ones have arrived, and others that arrive meanwhile.

        Expected responses that do not arrive in time are missing in the result.
        """
        found: list[Response] = []
        until = time.monotonic() + self.timeout_s
        while not expected <= {response.to for response in found} and time.monotonic() < until:
            found += self._receive(0.001)
        is_answered = any(response.to == n for response in found)
        until = time.monotonic() + (MEANWHILE_S if is_answered else DELAYED_S)
        while self._find_waiting() and time.monotonic() < until:
            found += self._receive(0.001)
        return found

    def _find_waiting(self) -> list[Connection]:
        return [client for client in self._clients.values() if client.is_waiting]

    def _receive(self, timeout_s: float) -> list[Response]:
        arrived = receive_any(self._find_waiting(), timeout_s)
        return [Response(one.tag, self.now_ms(), one.response) for one in arrived]

    def wait(self, wait_ms: int) -> Observed:
        until = time.monotonic() + wait_ms / 1000
        found: list[Response] = []
        while (left := until - time.monotonic()) > 0:
            if self._find_waiting():
                found += self._receive(min(left, 0.01))
            else:
                time.sleep(left)
        return self._observe(found, 0)

    def _observe(self, responses: list[Response], records: int) -> Observed:
        """The current log and description, consistent with each other if a timer fires in between."""
        read = self._read_log(records)
        described = self._describe()
        while more := self._read_log(0):
            read += more
            described = self._describe()
        return Observed(tuple(responses), read, described)

    def _describe(self) -> Mapping[str, Any] | None:
        """The broker's description of the group; None if it has no such group.

        ConsumerGroupDescribe is sent first; a group that is unknown to it may be a classic one.
        """
        if "ConsumerGroupDescribe" not in self.unsupported:
            described = self._coordinator.call(m.ConsumerGroupDescribeRequest((self.group,))).groups[0]
            if not described.error_code:
                return record_group(described)
        if "DescribeGroups" in self.unsupported:
            return None
        group = self._describe_classic()
        return None if group.error_code or group.group_state == "Dead" else record_group(group)

    def _describe_classic(self) -> m.DescribedGroup:
        found: m.DescribedGroup = self._coordinator.call(m.DescribeGroupsRequest((self.group,))).groups[0]
        return found

    def _read_log(self, count: int) -> tuple[Mapping[str, Any], ...]:
        """The appended records; they may come a little after the response that belongs to them."""
        if self._log is None:
            return ()
        found = self._log.read()
        until = time.monotonic() + self.timeout_s
        while len(found) < count and time.monotonic() < until:
            time.sleep(0.001)
            found += self._log.read()
        return found

    def close(self) -> None:
        if not self._control.is_closed:
            with suppress(PeerError):  # the broker may be gone by now
                self._topics.remove_made()
        for connection in (self._control, self._coordinator, *self._clients.values()):
            connection.close()


def _address(node: m.MetadataResponseBroker | m.Coordinator) -> tuple[str, int]:
    return node.host, node.port


def _common(one: range, other: range) -> range:
    return range(max(one.start, other.start), min(one.stop, other.stop))


def _explain_lack(supported: range | None, wanted: range) -> str:
    if supported is None:
        return "is not spoken"
    if _common(supported, wanted):
        return ""
    several = f"{wanted.start}" if len(wanted) == 1 else f"{wanted.start} to {wanted.stop - 1}"
    return f"is spoken in versions {supported.start} to {supported.stop - 1}, not in {several}"


# Topics, and the records of a group

TIMEOUT_MS = 10_000


class Topics:
    """The topics of one broker."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.made: list[str] = []
        """Topics that walks created and did not delete."""

    def all(self) -> dict[str, TopicChange]:
        """Every topic by name: a regular expression may match any of them."""
        found = [topic for topic in metadata(self.connection).topics if not topic.error_code]
        return {t.name: TopicChange("create", t.name, t.topic_id, len(t.partitions)) for t in found if t.name}

    def partitions(self, name: str) -> int:
        """The number of partitions of the topic; 0 if there is no such topic."""
        found = self._find(name)
        return len(found.partitions) if found else 0

    def ensure(self, name: str, partitions: int) -> None:
        """Creates the topic if it is missing.

        Raises `PeerError` if the broker refuses, `InputError` if the topic has another number of partitions.
        """
        found = self.partitions(name)
        if not found:
            self._ask("create", name, partitions)
            self._wait_until_settled("create", name, partitions)
        elif found != partitions:
            what = f"topic {name} has {found} partitions, a walk needs {partitions}"
            raise InputError(what, self.connection.peer, "delete it; it is recreated")

    def change(self, action: str, name: str, partitions: int) -> TopicChange:
        """Creates, grows or deletes a topic. Raises `PeerError` if the broker refuses."""
        self._ask(action, name, partitions)
        if action == "create":
            self.made.append(name)
        elif action == "delete":
            self.made.remove(name)
        return self._wait_until_settled(action, name, partitions)

    def remove_made(self) -> None:
        """Deletes the topics left by walks. Raises `PeerError` if the broker refuses."""
        for name in list(self.made):
            self.change("delete", name, 0)

    def _find(self, name: str) -> m.MetadataResponseTopic | None:
        return next((topic for topic in metadata(self.connection, name).topics if not topic.error_code), None)

    def _wait_until_settled(self, action: str, name: str, partitions: int) -> TopicChange:
        """The topic, when the broker's metadata shows the change. Raises `PeerError` after `READY_S`."""
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            found = self._find(name)
            if len(found.partitions) == partitions if found else action == "delete":
                return TopicChange(action, name, found.topic_id if found else "", partitions)
            time.sleep(0.05)
        raise PeerError(f"{self.connection.peer}: topic {name} is not ready {READY_S:g} s after: {action}")

    def _ask(self, action: str, name: str, partitions: int) -> None:
        call = self.connection.call
        if action == "create":
            results = call(m.CreateTopicsRequest((m.CreatableTopic(name, partitions, 1),), TIMEOUT_MS)).topics
        elif action == "grow":
            results = call(m.CreatePartitionsRequest((m.CreatePartitionsTopic(name, partitions),), TIMEOUT_MS)).results
        else:
            results = call(m.DeleteTopicsRequest(topic_names=(name,), timeout_ms=TIMEOUT_MS)).responses
        if error := results[0].error_code:
            raise PeerError(f"{self.connection.peer}: cannot {action} topic {name}: {error_name(error)}")


def metadata(connection: Connection, *names: str) -> m.MetadataResponse:
    """The Metadata response for these topics, or for all."""
    topics = tuple(m.MetadataRequestTopic(name=name) for name in names) if names else None
    found: m.MetadataResponse = connection.call(m.MetadataRequest(topics, allow_auto_topic_creation=False))
    return found


OFFSETS_TOPIC = "__consumer_offsets"
FETCHED_BYTES = 4 << 20


class OffsetsLog:
    """The tail of one partition: each `read` returns a group's records since the previous one."""

    def __init__(self, connection: Connection, group_id: str, partitions: int) -> None:
        self.connection = connection
        self.group_id = group_id
        self.partition = partition_of(group_id, partitions)
        self.offset = 0
        self.offset = self._fetch().high_watermark

    def read(self) -> tuple[Mapping[str, Any], ...]:
        """The group's new records in the form of Kafka's tools. Raises `PeerError` if the log cannot be read."""
        found: list[Mapping[str, Any]] = []
        while (fetched := self._fetch()).high_watermark > self.offset:
            entries = list(self._entries(fetched.records or b""))
            if not entries:
                raise PeerError(f"{self.connection.peer}: nothing is read of {OFFSETS_TOPIC} at offset {self.offset}")
            self.offset = entries[-1].offset + 1
            found += [to_dump_json(record) for entry in entries if self._is_ours(record := entry.decode())]
        return tuple(found)

    def _entries(self, data: bytes) -> Iterator[LogRecord]:
        try:
            for batch in read_batches(data):
                yield from (entry for entry in batch.records if entry.offset >= self.offset)
        except InputError as problem:
            raise PeerError(f"{self.connection.peer}: {OFFSETS_TOPIC}: {problem}") from None

    def _is_ours(self, record: Record) -> bool:
        return not isinstance(record.key, OtherKey) and record.key[1] == self.group_id

    def _fetch(self) -> m.PartitionData:
        wanted = m.FetchPartition(self.partition, fetch_offset=self.offset, partition_max_bytes=FETCHED_BYTES)
        request = m.FetchRequest(max_bytes=FETCHED_BYTES, topics=(m.FetchTopic(OFFSETS_TOPIC, partitions=(wanted,)),))
        found: m.PartitionData = self.connection.call(request).responses[0].partitions[0]
        if found.error_code:
            raise PeerError(f"{self.connection.peer}: cannot read {OFFSETS_TOPIC}: {error_name(found.error_code)}")
        return found
