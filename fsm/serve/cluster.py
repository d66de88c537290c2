"""What the brokers share: topics, coordinators, settings; and the answers that need nothing but these.

Source: `KafkaApis`, `ControllerApis` of apache/kafka 4.4.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from fsm.coordinator.model.context import BrokerConfig, Context, Image, Topic
from fsm.coordinator.model.dialect import dialect
from fsm.coordinator.model.persistent import FrozenMap
from fsm.errors import InputError
from fsm.protocol import messages as m
from fsm.protocol.assignment import NO_TOPIC_ID, TopicId
from fsm.protocol.error_codes import ErrorCode
from fsm.serve import settings
from fsm.serve.asked import Asked
from fsm.serve.coordinators import Coordinators
from fsm.serve.effects import Append, Replace
from fsm.serve.group_log import GROWTH, GROWTH_WHEN_FULL, GroupLog
from fsm.serve.refusals import GROUPS_SINCE
from fsm.serve.topics import ANSWERED, OFFSETS_TOPIC, Topics
from fsm.serve.versions import spoken

CLUSTER_ID = "fsm-serve"
GROUP_KEY, TRANSACTION_KEY = 0, 1
"""Of FindCoordinator: what is asked for is a group's coordinator, or a transaction's."""
LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
MOST_PARTITIONS = 10_000
"""Of one topic."""
MOST_PARTITIONS_IN_ALL = 20_000
"""Of all topics: a client that asks for all of them gets an answer within some tenths of a second."""
MOST_DESCRIBED = 2_000
"""Partitions in one answer to DescribeTopicPartitions: `max.request.partition.size.limit`."""
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
"""What a client calls itself and its version."""
METADATA = "metadata"
"""The log that has topics and settings, as one JSON document."""
OFFSETS_TOPIC_ID = "X19jb25zdW1lcl9vZmZzZQ"


class TooManyError(InputError):
    """More partitions than all topics may have."""


@dataclass(frozen=True, slots=True)
class Served:
    """What is served: topics and their partitions, whose rules, and how."""

    topics: Mapping[str, int]
    release: str = "4.4"
    settings: Mapping[str, str] = field(default_factory=dict)
    """Kafka's own keys of a broker."""
    brokers: int = 1
    records_a_second: float = 0.0
    """Made up in each partition to which nobody has produced."""
    offsets_partitions: int = 50
    """Of `__consumer_offsets`, as `offsets.topic.num.partitions` has it."""


class Cluster:
    """Topics, groups and settings, and where each broker listens."""

    def __init__(
        self, served: Served, now_ms: float, keep: Callable[[Append | Replace], None], kept: Mapping[str, bytes]
    ) -> None:
        """`kept` has the logs of an earlier run, by name. Raises `InputError` for settings with which no broker would
        start, for topics that cannot be, and for what is no log of an earlier run.
        """
        self.served = served
        self.endpoints: dict[int, tuple[str, int]] = {}
        """Where each broker listens; whoever binds the sockets says so."""
        self.versions = spoken(served.release)
        """What is spoken: as a broker of that release advertises."""
        self.topics = Topics(served.brokers, served.records_a_second)
        self._keep = keep
        self._news: list[Any] = []
        self._producer_ids = 0
        self._coordinates = any(name.startswith(OFFSETS_TOPIC) for name in kept)
        """Whether anybody has asked for a coordinator, with which the topic of offsets comes into being."""
        config = settings.broker_config(served.settings)
        if METADATA in kept:
            groups = self._restore_topics(kept[METADATA])
            config = replace(config, groups=groups)
        self._image_version = len(self.topics.by_name)
        context = Context(int(now_ms), dialect(served.release), config, self._image())
        leaders = [1 + number % served.brokers for number in range(served.offsets_partitions)]
        self.coordinators = Coordinators(context, leaders, self._append)
        self.topics.offsets = self._offsets_log
        for partition in range(served.offsets_partitions):
            if (name := f"{OFFSETS_TOPIC}-{partition}") in kept:
                self.coordinators.load(partition, GroupLog.of(kept[name])[0], int(now_ms))
        ids = Random(CLUSTER_ID)  # noqa: S311  # the same topics have the same ids in every run
        for name, partitions in sorted(served.topics.items()):
            known = self.topics.by_name.get(name)
            if known is None or known.partitions != partitions:
                self.change_topic(name, partitions, int(now_ms), ids)

    # Logs

    def _keep_metadata(self) -> None:
        """Topics, and the settings of groups."""
        topics = [[*one, self.topics.since_ms(one[0])] for one in self.topics.described()]
        groups = {group_id: dict(own) for group_id, own in sorted(self._config.groups.items())}
        self._keep(Replace(METADATA, json.dumps({"topics": topics, "groups": groups}).encode()))

    def _restore_topics(self, data: bytes) -> FrozenMap[str, FrozenMap[str, int]]:
        """The topics of an earlier run; gives the settings of its groups."""
        try:
            said = json.loads(data)
            for name, topic_id, partitions, since_ms in said["topics"]:
                self.topics.set(str(name), Topic(str(topic_id), int(partitions)), float(since_ms))
            return FrozenMap({str(group): FrozenMap(own) for group, own in said["groups"].items()})
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise InputError(f"not what a broker has written: {problem!r}", METADATA, "give another --data") from None

    def _image(self) -> Image:
        return Image(FrozenMap(dict(self.topics.by_name)), self._image_version)

    def _append(self, partition: int, data: bytes) -> None:
        self._keep(Append(f"{OFFSETS_TOPIC}-{partition}", data))
        log = self.coordinators.logs[partition]
        if log.compact(GROWTH_WHEN_FULL if self.coordinators.is_full else GROWTH):
            self._keep(Replace(f"{OFFSETS_TOPIC}-{partition}", log.segment()))

    def _offsets_log(self, partition: int) -> tuple[int, GroupLog] | None:
        if not 0 <= partition < len(self.coordinators.leaders):
            return None
        log = self.coordinators.logs.get(partition)
        return self.coordinators.leaders[partition], log if log is not None else GroupLog()

    # Topics

    def take_news(self) -> list[Any]:
        """The topics after each change since this was last asked."""
        news, self._news = self._news, []
        return news

    def change_topic(self, name: str, partitions: int, now_ms: int, random: Random) -> None:
        """The topic is made, grows, or with 0 partitions is deleted. Raises `InputError` for what cannot be."""
        self._set_topic(name, partitions, now_ms, random)
        self._update_topics(now_ms)

    def _set_topic(self, name: str, partitions: int, now_ms: int, random: Random) -> None:
        """What `change_topic` does, before anybody hears of it."""
        check_name(name)
        if not 0 <= partitions <= MOST_PARTITIONS:
            raise InputError(f"a topic has 1 to {MOST_PARTITIONS} partitions, not {partitions}", name)
        topic = self.topics.by_name.get(name)
        if partitions == 0:
            if topic is None:
                raise InputError("there is no such topic", name)
            self.topics.delete(name)
        elif partitions - (topic.partitions if topic else 0) > MOST_PARTITIONS_IN_ALL - self.topics.partitions:
            raise TooManyError(f"all topics have at most {MOST_PARTITIONS_IN_ALL} partitions", name)
        elif topic is None:
            made = urlsafe_b64encode(random.randbytes(16)).decode().rstrip("=")
            self.topics.set(name, Topic(made, partitions), now_ms)
        elif partitions <= topic.partitions:
            raise InputError(f"it has {topic.partitions} partitions; it can only get more", name)
        else:
            self.topics.set(name, Topic(topic.topic_id, partitions), now_ms)

    def _update_topics(self, now_ms: int) -> None:
        """The coordinators hear of the topics, which are written down."""
        self._image_version += 1
        self.coordinators.update(now_ms, image=self._image())
        self._keep_metadata()

    # Coordinators

    def move(self, group_id: str, broker: int | None, now_ms: int) -> tuple[int, int]:
        """The group's partition moves to this broker, or to the next one; gives both. Raises `InputError`."""
        partition = self.coordinators.partition_of(group_id)
        if broker is None:
            broker = self.coordinators.leaders[partition] % self.served.brokers + 1
        if not 1 <= broker <= self.served.brokers:
            raise InputError(f"there is no broker {broker}", "broker", f"1 to {self.served.brokers}")
        self.coordinators.lead(partition, broker, now_ms)
        return partition, broker

    # Answers

    def answer(self, request: Any, asked: Asked) -> Any:
        """The answer to a request that concerns no single group and waits for nothing."""
        if type(request) in ANSWERED:
            return ANSWERED[type(request)](self.topics, request, asked.broker, asked.now_ms)
        return _ANSWERS[type(request)](self, request, asked)

    def api_versions(self, version: int, code: ErrorCode = ErrorCode.NONE) -> m.ApiVersionsResponse:
        """What is spoken; an error comes with the versions of ApiVersions alone (KIP-511).

        Clients before version 4 cannot read a feature that may be at level 0 (KAFKA-17011), so they are not told of it.
        """
        keys = tuple(m.ApiVersion(key, *self.versions[key]) for key in sorted(self.versions))
        if code:
            keys = tuple(one for one in keys if one.api_key == m.APIS["ApiVersions"].key)
        return m.ApiVersionsResponse(
            code,
            keys,
            supported_features=(m.SupportedFeatureKey("group.version", 0, 1),) if version >= 4 else (),
            finalized_features_epoch=1,
            finalized_features=(m.FinalizedFeatureKey("group.version", 1, 1),),
        )

    def _answer_api_versions(self, request: m.ApiVersionsRequest, asked: Asked) -> m.ApiVersionsResponse:
        names = (request.client_software_name, request.client_software_version) if asked.version >= 3 else ()
        if not all(map(SOFTWARE.fullmatch, names)):
            return m.ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
        return self.api_versions(asked.version)

    def _metadata(self, request: m.MetadataRequest, asked: Asked) -> m.MetadataResponse:
        wanted = request.topics
        if wanted is None or (asked.version == 0 and not wanted):
            names = sorted([*self.topics.by_name, *([OFFSETS_TOPIC] if self._coordinates else [])])
            wanted = tuple(m.MetadataRequestTopic(name=name) for name in names)
        brokers = tuple(m.MetadataResponseBroker(i, *self.endpoints[i]) for i in sorted(self.endpoints))
        topics = tuple(self._describe_topic(one.name, one.topic_id, asked.version) for one in dict.fromkeys(wanted))
        return m.MetadataResponse(brokers=brokers, cluster_id=CLUSTER_ID, controller_id=1, topics=topics)

    def _describe_topic(self, name: str | None, topic_id: TopicId, version: int) -> m.MetadataResponseTopic:
        if topic_id != NO_TOPIC_ID:
            name = None  # whoever has an id may send an empty name with it, as Java does
        found_name = self.topics.names.get(topic_id) if name is None else name
        if found_name == OFFSETS_TOPIC:
            leaders = self.coordinators.leaders
            parts = tuple(_led(number, leader) for number, leader in enumerate(leaders))
            return m.MetadataResponseTopic(ErrorCode.NONE, OFFSETS_TOPIC, OFFSETS_TOPIC_ID, True, parts)
        topic = self.topics.by_name.get(found_name) if found_name else None
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name is not None else ErrorCode.UNKNOWN_TOPIC_ID
            if name is not None and not LEGAL_TOPIC.fullmatch(name):
                code = ErrorCode.INVALID_TOPIC_EXCEPTION
            return m.MetadataResponseTopic(code, name if name is not None or version >= 12 else "", topic_id)
        parts = tuple(_led(number, self.topics.leader(number)) for number in range(topic.partitions))
        return m.MetadataResponseTopic(ErrorCode.NONE, found_name, topic.topic_id, False, parts)

    def _find_coordinator(self, request: m.FindCoordinatorRequest, asked: Asked) -> m.FindCoordinatorResponse:
        def one(key: str) -> m.Coordinator:
            if request.key_type == TRANSACTION_KEY:  # an error that no producer tries again
                why = "transactions are not served"
                return m.Coordinator(key, -1, "", -1, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, why)
            if request.key_type != GROUP_KEY:
                return m.Coordinator(key, -1, "", -1, ErrorCode.INVALID_REQUEST)
            self._coordinates = True
            broker = self.coordinators.leader_of(key)
            return m.Coordinator(key, broker, *self.endpoints[broker])

        if asked.version >= GROUPS_SINCE[m.FindCoordinatorRequest]:
            return m.FindCoordinatorResponse(coordinators=tuple(map(one, request.coordinator_keys)))
        _, node_id, host, port, code, why = one(request.key)
        return m.FindCoordinatorResponse(node_id=node_id, host=host, port=port, error_code=code, error_message=why)

    def _describe_cluster(self) -> m.DescribeClusterResponse:
        brokers = tuple(m.DescribeClusterBroker(i, *self.endpoints[i]) for i in sorted(self.endpoints))
        return m.DescribeClusterResponse(cluster_id=CLUSTER_ID, controller_id=1, brokers=brokers)

    def _describe_configs(self, request: m.DescribeConfigsRequest) -> m.DescribeConfigsResponse:
        return settings.describe(request, self._config, self.topics.by_name, self.endpoints)

    def _alter_configs(
        self, request: m.IncrementalAlterConfigsRequest, asked: Asked
    ) -> m.IncrementalAlterConfigsResponse:
        response, config = settings.alter(request, self._config, self.topics.by_name)
        if config is not self._config:
            self.coordinators.update(int(asked.now_ms), config=config)
            self._keep_metadata()
        return response

    @property
    def _config(self) -> BrokerConfig:
        return self.coordinators.context.config

    def _list_config_resources(
        self, request: m.ListConfigResourcesRequest, asked: Asked
    ) -> m.ListConfigResourcesResponse:
        known = (
            *((name, settings.TOPIC) for name in sorted(self.topics.by_name)),
            *((str(broker), settings.BROKER) for broker in sorted(self.endpoints)),
            *((group_id, settings.GROUP) for group_id in sorted(self._config.groups)),
        )
        wanted = request.resource_types
        found = (
            m.ConfigResource(name, kind) for name, kind in known if asked.version and (not wanted or kind in wanted)
        )
        return m.ListConfigResourcesResponse(config_resources=tuple(found))

    def _create_topics(self, request: m.CreateTopicsRequest, asked: Asked) -> m.CreateTopicsResponse:
        def one(wanted: m.CreatableTopic) -> m.CreatableTopicResult:
            if wanted.name in self.topics.by_name or wanted.name == OFFSETS_TOPIC:
                code, why = ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wanted.name}' already exists."
                return m.CreatableTopicResult(wanted.name, error_code=code, error_message=why)
            partitions = len(wanted.assignments) or (1 if wanted.num_partitions == -1 else wanted.num_partitions)
            if not 1 <= partitions <= MOST_PARTITIONS:
                return m.CreatableTopicResult(wanted.name, error_code=ErrorCode.INVALID_PARTITIONS)
            if wanted.replication_factor not in (-1, 1) and not wanted.assignments:
                why = f"replication factor {wanted.replication_factor}: nothing is replicated here"
                code = ErrorCode.INVALID_REPLICATION_FACTOR
                return m.CreatableTopicResult(wanted.name, error_code=code, error_message=why)
            if times[wanted.name] > 1:
                return m.CreatableTopicResult(wanted.name, error_code=ErrorCode.INVALID_REQUEST)
            try:
                if request.validate_only:
                    check_name(wanted.name)
                    return m.CreatableTopicResult(wanted.name, num_partitions=partitions, replication_factor=1)
                self._set_topic(wanted.name, partitions, int(asked.now_ms), asked.random)
            except InputError as problem:
                too_many = isinstance(problem, TooManyError)
                code = ErrorCode.POLICY_VIOLATION if too_many else ErrorCode.INVALID_TOPIC_EXCEPTION
                return m.CreatableTopicResult(wanted.name, error_code=code, error_message=str(problem))
            topic_id = self.topics.by_name[wanted.name].topic_id
            return m.CreatableTopicResult(wanted.name, topic_id, num_partitions=partitions, replication_factor=1)

        times = Counter(topic.name for topic in request.topics)
        before = self.topics.partitions
        made = tuple(map(one, request.topics))
        self._tell_topics(before, asked)
        return m.CreateTopicsResponse(topics=made)

    def _tell_topics(self, before: int, asked: Asked) -> None:
        """Once for all topics of a request, where there are more or fewer partitions than before."""
        if self.topics.partitions != before:
            self._update_topics(int(asked.now_ms))
            self._news.append(self.topics.described())

    def _delete_topics(self, request: m.DeleteTopicsRequest, asked: Asked) -> m.DeleteTopicsResponse:
        def one(name: str | None, topic_id: TopicId) -> m.DeletableTopicResult:
            found = self.topics.names.get(topic_id) if name is None else name
            if found not in self.topics.by_name:
                by_id = name is None
                code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                return m.DeletableTopicResult(name, topic_id, code)
            known_id = self.topics.by_name[found].topic_id
            self._set_topic(found, 0, int(asked.now_ms), asked.random)
            return m.DeletableTopicResult(found, known_id)

        by_name = ((name, NO_TOPIC_ID) for name in request.topic_names)
        wanted = [*((topic.name, topic.topic_id) for topic in request.topics), *by_name]
        before = self.topics.partitions
        gone = tuple(one(name, topic_id) for name, topic_id in wanted)
        self._tell_topics(before, asked)
        return m.DeleteTopicsResponse(responses=gone)

    def _create_partitions(self, request: m.CreatePartitionsRequest, asked: Asked) -> m.CreatePartitionsResponse:
        def one(wanted: m.CreatePartitionsTopic) -> m.CreatePartitionsTopicResult:
            topic = self.topics.by_name.get(wanted.name)
            if topic is None:
                return m.CreatePartitionsTopicResult(wanted.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if not topic.partitions < wanted.count <= MOST_PARTITIONS:
                why = f"The topic {wanted.name} currently has {topic.partitions} partition(s); "
                why += f"{wanted.count} would not be an increase."
                if wanted.count > MOST_PARTITIONS:
                    why = f"a topic has up to {MOST_PARTITIONS} partitions"
                return m.CreatePartitionsTopicResult(wanted.name, ErrorCode.INVALID_PARTITIONS, why)
            if not request.validate_only:
                try:
                    self._set_topic(wanted.name, wanted.count, int(asked.now_ms), asked.random)
                except TooManyError as problem:
                    return m.CreatePartitionsTopicResult(wanted.name, ErrorCode.POLICY_VIOLATION, str(problem))
            return m.CreatePartitionsTopicResult(wanted.name)

        before = self.topics.partitions
        grown = tuple(map(one, request.topics))
        self._tell_topics(before, asked)
        return m.CreatePartitionsResponse(results=grown)

    def _describe_topics(self, request: m.DescribeTopicPartitionsRequest) -> m.DescribeTopicPartitionsResponse:
        left = max(1, min(request.response_partition_limit, MOST_DESCRIBED))
        begin = request.cursor or m.Cursor("", 0)
        topics: list[m.DescribeTopicPartitionsResponseTopic] = []
        for name in sorted({topic.name for topic in request.topics} or self.topics.by_name):
            if name < begin.topic_name:
                continue
            if not left:
                return m.DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=m.Cursor(name, 0))
            code, _, topic_id, is_internal, found, _ = self._describe_topic(
                name, NO_TOPIC_ID, m.APIS["Metadata"].newest
            )
            first = begin.partition_index if name == begin.topic_name else 0
            parts = tuple(
                m.DescribeTopicPartitionsResponsePartition(
                    one.error_code, one.partition_index, one.leader_id, 0, one.replica_nodes, one.isr_nodes, (), ()
                )
                for one in found[first : first + left]
            )
            topics.append(m.DescribeTopicPartitionsResponseTopic(code, name, topic_id, is_internal, parts))
            left -= len(parts)
            if first + len(parts) < len(found):
                after = m.Cursor(name, first + len(parts))
                return m.DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=after)
        return m.DescribeTopicPartitionsResponse(topics=tuple(topics))

    def _init_producer_id(self, request: m.InitProducerIdRequest) -> m.InitProducerIdResponse:
        if request.transactional_id is not None:
            return m.InitProducerIdResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        self._producer_ids += 1
        return m.InitProducerIdResponse(producer_id=self._producer_ids)


def check_name(name: str) -> None:
    """Raises `InputError` for what cannot be the name of a topic."""
    if not LEGAL_TOPIC.fullmatch(name) or name in (".", "..", OFFSETS_TOPIC):
        raise InputError(f"{name!r} cannot be the name of a topic", "topic")


def _led(number: int, leader: int) -> m.MetadataResponsePartition:
    return m.MetadataResponsePartition(ErrorCode.NONE, number, leader, 0, (leader,), (leader,))


_ANSWERS: Mapping[type[Any], Callable[[Cluster, Any, Asked], Any]] = {
    m.ApiVersionsRequest: Cluster._answer_api_versions,
    m.CreatePartitionsRequest: Cluster._create_partitions,
    m.CreateTopicsRequest: Cluster._create_topics,
    m.DeleteTopicsRequest: Cluster._delete_topics,
    m.DescribeClusterRequest: lambda self, _request, _asked: self._describe_cluster(),
    m.DescribeConfigsRequest: lambda self, request, _asked: self._describe_configs(request),
    m.DescribeTopicPartitionsRequest: lambda self, request, _asked: self._describe_topics(request),
    m.FindCoordinatorRequest: Cluster._find_coordinator,
    m.IncrementalAlterConfigsRequest: Cluster._alter_configs,
    m.InitProducerIdRequest: lambda self, request, _asked: self._init_producer_id(request),
    m.ListConfigResourcesRequest: Cluster._list_config_resources,
    m.MetadataRequest: Cluster._metadata,
}
