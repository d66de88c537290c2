"""Requests of admin clients: topics are created, changed and described; settings are described and changed.

Source: `ControllerApis`, `ReplicationControlManager`, `KRaftMetadataCache.describeTopicResponse`, `GroupConfig`,
`GroupCoordinatorConfig`, `ConfigResource` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from fsm.coordinator.model.context import NO_SETTINGS, BrokerConfig
from fsm.coordinator.model.persistent import PersistentMap
from fsm.errors import InputError
from fsm.nodes import nearest, short
from fsm.protocol import messages as m
from fsm.protocol.assignment import NO_TOPIC_ID, TopicId
from fsm.protocol.error_codes import ErrorCode
from fsm.serve.requests import RequestContext
from fsm.serve.topics import MOST_PARTITIONS, OFFSETS_TOPIC, TooManyError, Topics, check_name

MOST_DESCRIBED = 2_000
"""Partitions in one answer to DescribeTopicPartitions: `max.request.partition.size.limit`."""


def create_topics(topics: Topics, request: m.CreateTopicsRequest, context: RequestContext) -> m.CreateTopicsResponse:
    """Creates topics, each independently of the others."""

    def one(wanted: m.CreatableTopic) -> m.CreatableTopicResult:
        def refuse(code: ErrorCode, why: str | None = None) -> m.CreatableTopicResult:
            return m.CreatableTopicResult(wanted.name, error_code=code, error_message=why)

        if wanted.name in topics.by_name or wanted.name == OFFSETS_TOPIC:
            return refuse(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wanted.name}' already exists.")
        partitions = len(wanted.assignments) or (1 if wanted.num_partitions == -1 else wanted.num_partitions)
        if not 1 <= partitions <= MOST_PARTITIONS:
            return refuse(ErrorCode.INVALID_PARTITIONS)
        if wanted.replication_factor not in (-1, 1) and not wanted.assignments:
            why = f"replication factor {wanted.replication_factor}: nothing is replicated here"
            return refuse(ErrorCode.INVALID_REPLICATION_FACTOR, why)
        if times[wanted.name] > 1:
            return refuse(ErrorCode.INVALID_REQUEST)
        try:
            if request.validate_only:
                check_name(wanted.name)
                return m.CreatableTopicResult(wanted.name, num_partitions=partitions, replication_factor=1)
            topics.change(wanted.name, partitions, context.now_ms, context.random)
        except InputError as problem:
            too_many = isinstance(problem, TooManyError)
            code = ErrorCode.POLICY_VIOLATION if too_many else ErrorCode.INVALID_TOPIC_EXCEPTION
            return refuse(code, str(problem))
        topic_id = topics.by_name[wanted.name].topic_id
        return m.CreatableTopicResult(wanted.name, topic_id, num_partitions=partitions, replication_factor=1)

    times = Counter(topic.name for topic in request.topics)
    return m.CreateTopicsResponse(topics=tuple(map(one, request.topics)))


def delete_topics(topics: Topics, request: m.DeleteTopicsRequest, context: RequestContext) -> m.DeleteTopicsResponse:
    """Deletes topics, by name or id."""

    def one(name: str | None, topic_id: TopicId) -> m.DeletableTopicResult:
        found = topics.names.get(topic_id) if name is None else name
        if found not in topics.by_name:
            by_id = name is None
            code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return m.DeletableTopicResult(name, topic_id, code)
        known_id = topics.by_name[found].topic_id
        topics.change(found, 0, context.now_ms, context.random)
        return m.DeletableTopicResult(found, known_id)

    return m.DeleteTopicsResponse(responses=tuple(one(*topic) for topic in request.wanted))


def create_partitions(
    topics: Topics, request: m.CreatePartitionsRequest, context: RequestContext
) -> m.CreatePartitionsResponse:
    """Adds partitions to topics."""

    def one(wanted: m.CreatePartitionsTopic) -> m.CreatePartitionsTopicResult:
        topic = topics.by_name.get(wanted.name)
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
                topics.change(wanted.name, wanted.count, context.now_ms, context.random)
            except TooManyError as problem:
                return m.CreatePartitionsTopicResult(wanted.name, ErrorCode.POLICY_VIOLATION, str(problem))
        return m.CreatePartitionsTopicResult(wanted.name)

    return m.CreatePartitionsResponse(results=tuple(map(one, request.topics)))


CHANGES: Mapping[type[Any], Callable[[Topics, Any, RequestContext], Any]] = {
    m.CreatePartitionsRequest: create_partitions,
    m.CreateTopicsRequest: create_topics,
    m.DeleteTopicsRequest: delete_topics,
}
"""Requests that may change the number of partitions."""


def describe_topics(
    request: m.DescribeTopicPartitionsRequest,
    known: Iterable[str],
    describe: Callable[[str, TopicId, int], m.MetadataResponseTopic],
) -> m.DescribeTopicPartitionsResponse:
    """Partitions, page by page; of all `known` topics if none is named. `describe` answers a version of Metadata."""
    left = max(1, min(request.response_partition_limit, MOST_DESCRIBED))
    begin = request.cursor or m.Cursor("", 0)
    topics: list[m.DescribeTopicPartitionsResponseTopic] = []
    for name in sorted({topic.name for topic in request.topics} or known):
        if name < begin.topic_name:
            continue
        if not left:
            return m.DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=m.Cursor(name, 0))
        code, _, topic_id, is_internal, found, _ = describe(name, NO_TOPIC_ID, m.APIS["Metadata"].newest)
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


TOPIC, BROKER, GROUP = 2, 4, 32
"""Types of a resource."""
OF_GROUPS = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
"""Settings that a single group may have, such as `consumer.session.timeout.ms`."""
WORDS = {
    "group_consumer_migration_policy": ("bidirectional", "upgrade", "downgrade", "disabled"),
    "group_consumer_assignors": ("uniform", "range"),
    "group_coordinator_rebalance_protocols": ("classic", "consumer", "streams", "share"),
}
"""Settings with a fixed set of values."""
STATIC, DEFAULT, OF_GROUP = 4, 5, 8
"""The sources of a value: the broker's file, Kafka's default, the group."""
INT, TEXT, LIST = 3, 2, 7
"""Types of a value."""
MOST_GROUPS = 1_000
"""The maximum number of groups with their own settings, which are stored as a whole at each change."""
SET, DELETE = 0, 1
"""The operations of IncrementalAlterConfigs."""


def broker_config(settings: Mapping[str, str]) -> BrokerConfig:
    """The broker's settings from Kafka's own keys.

    Raises `InputError` for an unknown key, an invalid value, or one with which no broker would start.
    """
    known = BrokerConfig.keys()
    for key in settings:
        if key not in known:
            raise InputError(f"unknown group setting {short(key)}", "settings", nearest(key, known))
    config = BrokerConfig.of(settings)
    for setting in OF_GROUPS:
        name = setting.replace(".", "_")
        lowest, value, highest = (getattr(config, f"group_consumer_{end}{name}") for end in ("min_", "", "max_"))
        key = f"group.consumer.{setting}"
        if value < lowest:
            raise InputError(f"{value} is below group.consumer.min.{setting}={lowest}", key, "lower that one too")
        if value > highest:
            raise InputError(f"{value} is above group.consumer.max.{setting}={highest}", key, "raise that one too")
    for name, known in WORDS.items():
        value = getattr(config, name)
        words = [value.lower()] if isinstance(value, str) else value
        if not words or not set(words) <= set(known):
            text = value if isinstance(value, str) else ",".join(value)
            raise InputError(f"cannot be {text!r}", name.replace("_", "."), f"choose from {', '.join(known)}")
    return config


def describe(
    request: m.DescribeConfigsRequest, config: BrokerConfig, topics: Mapping[str, object], brokers: Mapping[int, object]
) -> m.DescribeConfigsResponse:
    """The settings of each known resource."""

    def one(resource: m.DescribeConfigsResource) -> m.DescribeConfigsResult:
        kind, name, keys = resource
        if (kind == GROUP and not name) or (kind == BROKER and name not in {"", *map(str, brokers)}):
            return m.DescribeConfigsResult(ErrorCode.INVALID_REQUEST, "there is no such resource", kind, name)
        if kind == GROUP:
            found = _of_group(config, name, request.include_synonyms)
        elif kind == BROKER:
            found = _of_broker(config)
        elif kind == TOPIC:
            code = ErrorCode.NONE if name in topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return m.DescribeConfigsResult(code, None, kind, name)
        else:
            return m.DescribeConfigsResult(ErrorCode.INVALID_REQUEST, f"no resource type {kind} here", kind, name)
        wanted = tuple(setting for setting in found if keys is None or setting.name in keys)
        return m.DescribeConfigsResult(ErrorCode.NONE, None, kind, name, wanted)

    return m.DescribeConfigsResponse(results=tuple(map(one, request.resources)))


def _of_broker(config: BrokerConfig) -> list[m.DescribeConfigsResourceResult]:
    found = []
    for f in fields(BrokerConfig):
        if f.name == "groups":
            continue
        value = getattr(config, f.name)
        is_list = isinstance(value, tuple)
        source = DEFAULT if value == f.default else STATIC
        kind = LIST if is_list else INT if isinstance(value, int) else TEXT
        text = ",".join(value) if is_list else str(value)
        key = f.name.replace("_", ".")
        found.append(m.DescribeConfigsResourceResult(key, text, True, source, config_type=kind))
    return found


def _of_group(config: BrokerConfig, group_id: str, with_synonyms: bool) -> list[m.DescribeConfigsResourceResult]:
    own = config.groups.get(group_id, NO_SETTINGS)
    found = []
    for setting in OF_GROUPS:
        name = setting.replace(".", "_")
        key, of_broker = f"consumer.{setting}", str(getattr(config, f"group_consumer_{name}"))
        default = next(f.default for f in fields(BrokerConfig) if f.name == f"group_consumer_{name}")
        inherited = DEFAULT if of_broker == str(default) else STATIC
        synonyms = [m.DescribeConfigsSynonym(f"group.{key}", of_broker, inherited)]
        if f"consumer_{name}" in own:
            synonyms.insert(0, m.DescribeConfigsSynonym(key, str(own[f"consumer_{name}"]), OF_GROUP))
        _, value, source = synonyms[0]
        shown = tuple(synonyms) if with_synonyms else ()
        found.append(m.DescribeConfigsResourceResult(key, value, False, source, False, shown, INT))
    return found


def alter(
    request: m.IncrementalAlterConfigsRequest, config: BrokerConfig, topics: Mapping[str, object]
) -> tuple[m.IncrementalAlterConfigsResponse, BrokerConfig]:
    """The result of each resource, and the new settings: only those of groups can be changed."""
    found = []
    groups: dict[str, PersistentMap[str, int]] = dict(config.groups)
    for kind, name, changes in request.resources:
        code, why = ErrorCode.NONE, None
        if kind == TOPIC and name not in topics:
            code, why = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic"
        elif any(operation != DELETE and value is None for _, operation, value in changes):
            code, why = ErrorCode.INVALID_REQUEST, "a setting has a value"
        elif kind != GROUP or not name:
            code, why = ErrorCode.INVALID_REQUEST, "only the settings of groups can be changed here"
        else:
            try:
                own = _alter_group(config, groups, name, changes)
                if own and not request.validate_only:
                    groups[name] = own
                elif not request.validate_only:
                    groups.pop(name, None)
            except InputError as problem:
                code, why = ErrorCode.INVALID_CONFIG, str(problem)
        found.append(m.AlterConfigsResourceResponse(code, why, kind, name))
    changed = config if groups == config.groups else replace(config, groups=PersistentMap(groups))
    return m.IncrementalAlterConfigsResponse(responses=tuple(found)), changed


def _alter_group(
    config: BrokerConfig,
    groups: Mapping[str, PersistentMap[str, int]],
    group_id: str,
    changes: tuple[m.AlterableConfig, ...],
) -> PersistentMap[str, int]:
    """The group's new settings. Raises `InputError`."""
    own = dict(groups.get(group_id, NO_SETTINGS))
    if group_id not in groups and len(groups) >= MOST_GROUPS:
        raise InputError(f"{MOST_GROUPS} groups have settings of their own, which is the most here")
    for key, operation, value in changes:
        setting = key.removeprefix("consumer.")
        if setting not in OF_GROUPS or setting == key or operation not in (SET, DELETE):
            raise InputError(f"Unknown group config name: {key}")
        name = f"consumer_{setting.replace('.', '_')}"
        if operation == DELETE:
            own.pop(name, None)
            continue
        lowest, highest = (
            getattr(config, f"group_consumer_{end}_{name[len('consumer_') :]}") for end in ("min", "max")
        )
        if not value or not value.isascii() or not value.isdigit() or not lowest <= int(value) <= highest:
            raise InputError(f"{key} must be in the range {lowest} to {highest} inclusive.")
        own[name] = int(value)
    return PersistentMap(own)
