"""The state that brokers share: topics, coordinators, settings; and the responses that need only these.

Source: `KafkaApis`, `ControllerApis` of apache/kafka 4.4.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from fsm.coordinator.model.context import BrokerConfig, Context, Image, Topic
from fsm.coordinator.model.dialect import dialect
from fsm.coordinator.model.persistent import PersistentMap
from fsm.errors import InputError
from fsm.protocol import messages as m
from fsm.protocol.assignment import NO_TOPIC_ID, TopicId
from fsm.protocol.config import LEGAL_NAME
from fsm.protocol.error_codes import ErrorCode
from fsm.serve import admin
from fsm.serve.coordinators import Coordinators
from fsm.serve.effects import Append, Replace
from fsm.serve.partition_logs import GROWTH, GROWTH_WHEN_FULL, GroupLog
from fsm.serve.refusals import GROUPS_SINCE
from fsm.serve.requests import RequestContext, list_versions
from fsm.serve.topics import ANSWERED, OFFSETS_TOPIC, Topics

CLUSTER_ID = "fsm-serve"
GROUP_KEY, TRANSACTION_KEY = 0, 1
"""The key types of FindCoordinator: groups and transactions."""
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
"""The pattern of a client's software name and version."""
METADATA = "metadata"
"""The log that has topics and settings, as one JSON document."""
OFFSETS_TOPIC_ID = "X19jb25zdW1lcl9vZmZzZQ"


@dataclass(frozen=True, slots=True)
class Served:
    """The options of the brokers: topics, the dialect, and settings."""

    topics: Mapping[str, int]
    release: str = "4.4"
    settings: Mapping[str, str] = field(default_factory=dict)
    """Kafka's own keys of a broker."""
    brokers: int = 1
    records_a_second: float = 0.0
    """The rate of generated records in each partition without a producer."""
    offsets_partitions: int = 50
    """The partition count of `__consumer_offsets`: `offsets.topic.num.partitions`."""


class Cluster:
    """Topics, groups and settings, and where each broker listens."""

    def __init__(
        self, served: Served, now_ms: float, keep: Callable[[Append | Replace], None], kept: Mapping[str, bytes]
    ) -> None:
        """`kept` has the logs of an earlier run, by name. Raises `InputError` for settings with which no broker would
        start, for invalid topics, and for an invalid log of an earlier run.
        """
        self.served = served
        self.endpoints: dict[int, tuple[str, int]] = {}
        """The address of each broker; set by the code that binds the sockets."""
        self.versions = list_versions(served.release)
        """The advertised versions, as a broker of that release has them."""
        self.topics = Topics(served.brokers, served.records_a_second)
        self._keep = keep
        self._news: list[Any] = []
        self._producer_ids = 0
        self._coordinates = any(name.startswith(OFFSETS_TOPIC) for name in kept)
        """Whether a client has searched for a coordinator, which creates the topic of offsets."""
        config = admin.broker_config(served.settings)
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
                self.coordinators.load(partition, GroupLog.of(kept[name])[0], now_ms)
        ids = Random(CLUSTER_ID)  # noqa: S311  # the same topics have the same ids in every run
        for name, partitions in sorted(served.topics.items()):
            known = self.topics.by_name.get(name)
            if known is None or known.partitions != partitions:
                self.change_topic(name, partitions, now_ms, ids)

    # Logs

    def _keep_metadata(self) -> None:
        """Logs topics, and the settings of groups."""
        topics = [[*one, self.topics.since_ms(one[0])] for one in self.topics.describe()]
        groups = {group_id: dict(own) for group_id, own in sorted(self._config.groups.items())}
        self._keep(Replace(METADATA, json.dumps({"topics": topics, "groups": groups}).encode()))

    def _restore_topics(self, data: bytes) -> PersistentMap[str, PersistentMap[str, int]]:
        """Restores the topics of an earlier run; returns the settings of its groups."""
        try:
            document = json.loads(data)
            for name, topic_id, partitions, since_ms in document["topics"]:
                self.topics.set(str(name), Topic(str(topic_id), int(partitions)), float(since_ms))
            return PersistentMap({str(group): PersistentMap(own) for group, own in document["groups"].items()})
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise InputError(f"was not written by fsm serve: {problem!r}", METADATA, "give another --data") from None

    def _image(self) -> Image:
        return Image(PersistentMap(dict(self.topics.by_name)), self._image_version)

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
        """Takes the topics after each change since the last call."""
        news, self._news = self._news, []
        return news

    def change_topic(self, name: str, partitions: int, now_ms: float, random: Random) -> None:
        """Creates or extends a topic, or deletes it for 0 partitions. Raises `InputError` for an impossible change."""
        self.topics.change(name, partitions, now_ms, random)
        self._update_topics(now_ms)

    def _update_topics(self, now_ms: float) -> None:
        """Passes the topics to the coordinators, and logs them."""
        self._image_version += 1
        self.coordinators.update(now_ms, image=self._image())
        self._keep_metadata()

    # Coordinators

    def move(self, group_id: str, broker: int | None, now_ms: float) -> tuple[int, int]:
        """Moves the group's partition to this broker, or to the next one; returns the old and new one. Raises
        `InputError`.
        """
        partition = self.coordinators.partition_of(group_id)
        if broker is None:
            broker = self.coordinators.leaders[partition] % self.served.brokers + 1
        if not 1 <= broker <= self.served.brokers:
            raise InputError(f"there is no broker {broker}", "broker", f"1 to {self.served.brokers}")
        self.coordinators.lead(partition, broker, now_ms)
        return partition, broker

    # Answers

    def answer(self, request: Any, context: RequestContext) -> Any:
        """The answer to a request that concerns no single group and waits for nothing."""
        if type(request) in ANSWERED:
            return ANSWERED[type(request)](self.topics, request, context.broker, context.now_ms)
        if type(request) in admin.CHANGES:
            return self._change_topics(request, context)
        return _ANSWERS[type(request)](self, request, context)

    def api_versions(self, version: int, code: ErrorCode = ErrorCode.NONE) -> m.ApiVersionsResponse:
        """The supported versions; an error has only those of ApiVersions (KIP-511).

        Clients before version 4 cannot read a feature that may be at level 0 (KAFKA-17011), so their responses omit it.
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

    def _answer_api_versions(self, request: m.ApiVersionsRequest, context: RequestContext) -> m.ApiVersionsResponse:
        names = (request.client_software_name, request.client_software_version) if context.version >= 3 else ()
        if not all(map(SOFTWARE.fullmatch, names)):
            return m.ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
        return self.api_versions(context.version)

    def _metadata(self, request: m.MetadataRequest, context: RequestContext) -> m.MetadataResponse:
        wanted = request.topics
        if wanted is None or (context.version == 0 and not wanted):
            names = sorted([*self.topics.by_name, *([OFFSETS_TOPIC] if self._coordinates else [])])
            wanted = tuple(m.MetadataRequestTopic(name=name) for name in names)
        brokers = tuple(m.MetadataResponseBroker(i, *self.endpoints[i]) for i in sorted(self.endpoints))
        topics = tuple(self.describe_topic(one.name, one.topic_id, context.version) for one in dict.fromkeys(wanted))
        return m.MetadataResponse(brokers=brokers, cluster_id=CLUSTER_ID, controller_id=1, topics=topics)

    def describe_topic(self, name: str | None, topic_id: TopicId, version: int) -> m.MetadataResponseTopic:
        """A topic in this version of Metadata."""
        if topic_id != NO_TOPIC_ID:
            name = None  # a request with an id may have an empty name, as Java's
        found_name = self.topics.names.get(topic_id) if name is None else name
        if found_name == OFFSETS_TOPIC:
            leaders = self.coordinators.leaders
            parts = tuple(_describe_partition(number, leader) for number, leader in enumerate(leaders))
            return m.MetadataResponseTopic(ErrorCode.NONE, OFFSETS_TOPIC, OFFSETS_TOPIC_ID, True, parts)
        topic = self.topics.by_name.get(found_name) if found_name else None
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name is not None else ErrorCode.UNKNOWN_TOPIC_ID
            if name is not None and not LEGAL_NAME.fullmatch(name):
                code = ErrorCode.INVALID_TOPIC_EXCEPTION
            return m.MetadataResponseTopic(code, name if name is not None or version >= 12 else "", topic_id)
        parts = tuple(_describe_partition(number, self.topics.leader(number)) for number in range(topic.partitions))
        return m.MetadataResponseTopic(ErrorCode.NONE, found_name, topic.topic_id, False, parts)

    def _change_topics(self, request: Any, context: RequestContext) -> Any:
        """Applies a request that changes topics; the coordinators get all changes of partitions at once."""
        before = self.topics.partitions
        response = admin.CHANGES[type(request)](self.topics, request, context)
        if self.topics.partitions != before:
            self._update_topics(context.now_ms)
            self._news.append(self.topics.describe())
        return response

    def _find_coordinator(
        self, request: m.FindCoordinatorRequest, context: RequestContext
    ) -> m.FindCoordinatorResponse:
        def one(key: str) -> m.Coordinator:
            if request.key_type == TRANSACTION_KEY:  # an error that no producer retries
                why = "transactions are not served"
                return m.Coordinator(key, -1, "", -1, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, why)
            if request.key_type != GROUP_KEY:
                return m.Coordinator(key, -1, "", -1, ErrorCode.INVALID_REQUEST)
            self._coordinates = True
            broker = self.coordinators.leader_of(key)
            return m.Coordinator(key, broker, *self.endpoints[broker])

        if context.version >= GROUPS_SINCE[m.FindCoordinatorRequest]:
            return m.FindCoordinatorResponse(coordinators=tuple(map(one, request.coordinator_keys)))
        _, node_id, host, port, code, why = one(request.key)
        return m.FindCoordinatorResponse(node_id=node_id, host=host, port=port, error_code=code, error_message=why)

    def _describe_cluster(self) -> m.DescribeClusterResponse:
        brokers = tuple(m.DescribeClusterBroker(i, *self.endpoints[i]) for i in sorted(self.endpoints))
        return m.DescribeClusterResponse(cluster_id=CLUSTER_ID, controller_id=1, brokers=brokers)

    def _alter_configs(
        self, request: m.IncrementalAlterConfigsRequest, context: RequestContext
    ) -> m.IncrementalAlterConfigsResponse:
        response, config = admin.alter(request, self._config, self.topics.by_name)
        if config is not self._config:
            self.coordinators.update(context.now_ms, config=config)
            self._keep_metadata()
        return response

    @property
    def _config(self) -> BrokerConfig:
        return self.coordinators.context.config

    def _list_config_resources(
        self, request: m.ListConfigResourcesRequest, context: RequestContext
    ) -> m.ListConfigResourcesResponse:
        known = (
            *((name, admin.TOPIC) for name in sorted(self.topics.by_name)),
            *((str(broker), admin.BROKER) for broker in sorted(self.endpoints)),
            *((group_id, admin.GROUP) for group_id in sorted(self._config.groups)),
        )
        wanted = request.resource_types
        found = (
            m.ConfigResource(name, kind) for name, kind in known if context.version and (not wanted or kind in wanted)
        )
        return m.ListConfigResourcesResponse(config_resources=tuple(found))

    def _init_producer_id(self, request: m.InitProducerIdRequest) -> m.InitProducerIdResponse:
        if request.transactional_id is not None:
            return m.InitProducerIdResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        self._producer_ids += 1
        return m.InitProducerIdResponse(producer_id=self._producer_ids)


def _describe_partition(number: int, leader: int) -> m.MetadataResponsePartition:
    return m.MetadataResponsePartition(ErrorCode.NONE, number, leader, 0, (leader,), (leader,))


_ANSWERS: Mapping[type[Any], Callable[[Cluster, Any, RequestContext], Any]] = {
    m.ApiVersionsRequest: Cluster._answer_api_versions,
    m.DescribeClusterRequest: lambda self, _request, _asked: self._describe_cluster(),
    m.DescribeConfigsRequest: lambda self, request, _asked: admin.describe(
        request, self._config, self.topics.by_name, self.endpoints
    ),
    m.DescribeTopicPartitionsRequest: lambda self, request, _asked: admin.describe_topics(
        request, self.topics.by_name, self.describe_topic
    ),
    m.FindCoordinatorRequest: Cluster._find_coordinator,
    m.IncrementalAlterConfigsRequest: Cluster._alter_configs,
    m.InitProducerIdRequest: lambda self, request, _asked: self._init_producer_id(request),
    m.ListConfigResourcesRequest: Cluster._list_config_resources,
    m.MetadataRequest: Cluster._metadata,
}
