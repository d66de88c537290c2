"""Settings over the wire: DescribeConfigs of brokers, topics and groups, IncrementalAlterConfigs of groups.

Source: `GroupConfig`, `GroupCoordinatorConfig`, `ConfigResource` of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

from fsm.coordinator.model.context import NO_SETTINGS, BrokerConfig
from fsm.coordinator.model.persistent import PersistentMap
from fsm.errors import InputError
from fsm.nodes import nearest, short
from fsm.protocol import messages as m
from fsm.protocol.error_codes import ErrorCode

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
    request: m.DescribeConfigsRequest,
    config: BrokerConfig,
    topics: Mapping[str, object],
    brokers: Mapping[int, object],
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
