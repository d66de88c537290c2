"""The requests that the group protocols need, as data: fields of each request and answer, in one version of each.

Bodies are dicts under Kafka's field names in snake case, as recorded walks have them: bytes are base64, error codes are
names in lower case (None where there is no error), and durations are milliseconds without a suffix. Unknown tagged
fields are skipped.

Source: `clients/src/main/resources/common/message/*.json` of apache/kafka 4.4.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from fsm.coordinator.encoding import (
    INT8,
    INT16,
    INT32,
    INT64,
    OPTIONAL_TEXT,
    TEXT,
    UUID,
    Array,
    Blob,
    Field,
    Kind,
    Plain,
    Reader,
    Struct,
)
from fsm.errors import InputError
from fsm.kafka.error_codes import ErrorCode

NEVER = 1 << 15
"""A first flexible version that no version reaches."""


@dataclass(frozen=True)
class Flag(Plain):
    """A boolean."""

    def read(self, reader: Reader, _version: int, _flexible: bool) -> bool:
        return reader.number(1) != 0

    def write(self, out: bytearray, value: bool, _version: int, _flexible: bool) -> None:
        out.append(value)


@dataclass(frozen=True)
class Code(Plain):
    """An error code, by its name in lower case; a number where the name is not known."""

    def read(self, reader: Reader, _version: int, _flexible: bool) -> str | int | None:
        number = reader.number(2)
        try:
            return ErrorCode(number).name.lower() if number else None
        except ValueError:
            return number

    def write(self, out: bytearray, value: str | int | None, _version: int, _flexible: bool) -> None:
        number = ErrorCode[value.upper()].value if isinstance(value, str) else value or 0
        out += number.to_bytes(2, "big", signed=True)


@dataclass(frozen=True)
class Base64(Blob):
    """Bytes as base64 text; null bytes are the empty text."""

    nullable: bool = True

    def read(self, reader: Reader, version: int, flexible: bool) -> Any:
        return b64encode(super().read(reader, version, flexible) or b"").decode()

    def write(self, out: bytearray, value: Any, version: int, flexible: bool) -> None:
        super().write(out, b64decode(value), version, flexible)


@dataclass(frozen=True)
class Nullable(Plain):
    """A struct that may be null: a byte in front tells."""

    of: Struct

    def read(self, reader: Reader, version: int, _flexible: bool) -> Any:
        return self.of.read(reader, version) if reader.number(1) >= 0 else None

    def write(self, out: bytearray, value: Any, version: int, _flexible: bool) -> None:
        out += b"\xff" if value is None else b"\x01"
        if value is not None:
            self.of.write(out, value, version)


FLAG, CODE, BASE64 = Flag(), Code(), Base64()
THROTTLE = "throttle_time"


class Api(NamedTuple):
    """One request in the version that is spoken here."""

    key: int
    version: int
    flexible: bool
    request: Struct
    answer: Struct

    def read_answer(self, data: bytes | memoryview) -> dict[str, Any]:
        """The body of an answer. Raises `InputError` for bytes that are none."""
        return _read(self.answer, data)

    def read_request(self, data: bytes | memoryview) -> dict[str, Any]:
        """The body of a request. Raises `InputError` for bytes that are none."""
        return _read(self.request, data)

    def write_request(self, body: Mapping[str, Any]) -> bytes:
        """The bytes of a request. Raises `InputError` naming a field that is missing."""
        return _write(self.request, body)

    def write_answer(self, body: Mapping[str, Any]) -> bytes:
        """The bytes of an answer."""
        return _write(self.answer, {THROTTLE: 0, **body})


def _read(layout: Struct, data: bytes | memoryview) -> dict[str, Any]:
    reader = Reader(data)
    body: dict[str, Any] = layout.read(reader, 0)
    reader.end()
    body.pop(THROTTLE, None)
    return body


def _write(layout: Struct, body: Mapping[str, Any]) -> bytes:
    out = bytearray()
    try:
        layout.write(out, _View(body), 0)
    except (AttributeError, TypeError, OverflowError, KeyError) as problem:
        raise InputError(f"a body that cannot be written: {problem}") from None
    return bytes(out)


class _View:
    """A body whose fields are attributes, as the encoding wants them."""

    __slots__ = ("_body",)

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = body

    def __getattr__(self, name: str) -> Any:
        try:
            return _seen(self._body[name])
        except KeyError:
            raise AttributeError(f"field {name} is missing") from None


def _seen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _View(value)
    return [_seen(one) for one in value] if isinstance(value, list | tuple) else value


def flexible(**fields: Kind) -> Struct:
    """A struct with tagged fields at its end."""
    return Struct(dict, tuple(Field(name, kind) for name, kind in fields.items()))


def plain(**fields: Kind) -> Struct:
    """A struct of the older kind."""
    return Struct(dict, tuple(Field(name, kind) for name, kind in fields.items()), flexible_since=NEVER)


def listed(**fields: Kind) -> Array:
    """A list of flexible structs."""
    return Array(of=flexible(**fields))


def plainly(**fields: Kind) -> Array:
    """A list of structs of the older kind."""
    return Array(of=plain(**fields))


def optional(array: Array) -> Array:
    """The list, or null."""
    return replace(array, nullable=True)


TEXTS, INTS = Array(of=TEXT), Array(of=INT32)
OPTIONAL_TEXTS = Array(nullable=True, of=TEXT)
_BY_ID: dict[str, Kind] = {"topic_id": UUID, "partitions": INTS}
_NAMED: dict[str, Kind] = {"topic_id": UUID, "topic_name": TEXT, "partitions": INTS}
_WHO: dict[str, Kind] = {"member_id": TEXT, "group_instance_id": OPTIONAL_TEXT}
_CLIENT: dict[str, Kind] = {"client_id": TEXT, "client_host": TEXT}


def _describing(key: int, version: int, asked: str, **group: Kind) -> Api:
    """A request that describes groups, of either protocol."""
    request = flexible(**{asked: TEXTS}, include_authorized_operations=FLAG)
    groups = listed(error_code=CODE, **group, authorized_operations=INT32)
    return Api(key, version, True, request, flexible(throttle_time=INT32, groups=groups))


APIS: Mapping[str, Api] = {
    "ConsumerGroupHeartbeat": Api(
        68,
        1,
        True,
        flexible(
            group_id=TEXT,
            member_id=TEXT,
            member_epoch=INT32,
            instance_id=OPTIONAL_TEXT,
            rack_id=OPTIONAL_TEXT,
            rebalance_timeout=INT32,
            subscribed_topic_names=OPTIONAL_TEXTS,
            subscribed_topic_regex=OPTIONAL_TEXT,
            server_assignor=OPTIONAL_TEXT,
            topic_partitions=optional(listed(**_BY_ID)),
        ),
        flexible(
            throttle_time=INT32,
            error_code=CODE,
            error_message=OPTIONAL_TEXT,
            member_id=OPTIONAL_TEXT,
            member_epoch=INT32,
            heartbeat_interval=INT32,
            assignment=Nullable(flexible(topic_partitions=listed(**_BY_ID))),
        ),
    ),
    "JoinGroup": Api(
        11,
        9,
        True,
        flexible(
            group_id=TEXT,
            session_timeout=INT32,
            rebalance_timeout=INT32,
            member_id=TEXT,
            group_instance_id=OPTIONAL_TEXT,
            protocol_type=TEXT,
            protocols=listed(name=TEXT, metadata=BASE64),
            reason=OPTIONAL_TEXT,
        ),
        flexible(
            throttle_time=INT32,
            error_code=CODE,
            generation_id=INT32,
            protocol_type=OPTIONAL_TEXT,
            protocol_name=OPTIONAL_TEXT,
            leader=TEXT,
            skip_assignment=FLAG,
            member_id=TEXT,
            members=listed(**_WHO, metadata=BASE64),
        ),
    ),
    "SyncGroup": Api(
        14,
        5,
        True,
        flexible(
            group_id=TEXT,
            generation_id=INT32,
            **_WHO,
            protocol_type=OPTIONAL_TEXT,
            protocol_name=OPTIONAL_TEXT,
            assignments=listed(member_id=TEXT, assignment=BASE64),
        ),
        flexible(
            throttle_time=INT32,
            error_code=CODE,
            protocol_type=OPTIONAL_TEXT,
            protocol_name=OPTIONAL_TEXT,
            assignment=BASE64,
        ),
    ),
    "Heartbeat": Api(
        12,
        4,
        True,
        flexible(group_id=TEXT, generation_id=INT32, **_WHO),
        flexible(throttle_time=INT32, error_code=CODE),
    ),
    "LeaveGroup": Api(
        13,
        5,
        True,
        flexible(group_id=TEXT, members=listed(**_WHO, reason=OPTIONAL_TEXT)),
        flexible(throttle_time=INT32, error_code=CODE, members=listed(**_WHO, error_code=CODE)),
    ),
    "OffsetCommit": Api(
        8,
        9,
        True,
        flexible(
            group_id=TEXT,
            generation_id_or_member_epoch=INT32,
            **_WHO,
            topics=listed(
                name=TEXT,
                partitions=listed(
                    partition_index=INT32,
                    committed_offset=INT64,
                    committed_leader_epoch=INT32,
                    committed_metadata=OPTIONAL_TEXT,
                ),
            ),
        ),
        flexible(
            throttle_time=INT32,
            topics=listed(name=TEXT, partitions=listed(partition_index=INT32, error_code=CODE)),
        ),
    ),
    "OffsetFetch": Api(
        9,
        9,
        True,
        flexible(
            groups=listed(
                group_id=TEXT,
                member_id=OPTIONAL_TEXT,
                member_epoch=INT32,
                topics=optional(listed(name=TEXT, partition_indexes=INTS)),
            ),
            require_stable=FLAG,
        ),
        flexible(
            throttle_time=INT32,
            groups=listed(
                group_id=TEXT,
                topics=listed(
                    name=TEXT,
                    partitions=listed(
                        partition_index=INT32,
                        committed_offset=INT64,
                        committed_leader_epoch=INT32,
                        metadata=OPTIONAL_TEXT,
                        error_code=CODE,
                    ),
                ),
                error_code=CODE,
            ),
        ),
    ),
    "ConsumerGroupDescribe": _describing(
        69,
        1,
        "group_ids",
        error_message=OPTIONAL_TEXT,
        group_id=TEXT,
        group_state=TEXT,
        group_epoch=INT32,
        assignment_epoch=INT32,
        assignor_name=TEXT,
        members=listed(
            member_id=TEXT,
            instance_id=OPTIONAL_TEXT,
            rack_id=OPTIONAL_TEXT,
            member_epoch=INT32,
            **_CLIENT,
            subscribed_topic_names=TEXTS,
            subscribed_topic_regex=OPTIONAL_TEXT,
            assignment=flexible(topic_partitions=listed(**_NAMED)),
            target_assignment=flexible(topic_partitions=listed(**_NAMED)),
            member_type=INT8,
        ),
    ),
    "DescribeGroups": _describing(
        15,
        5,
        "groups",
        group_id=TEXT,
        group_state=TEXT,
        protocol_type=TEXT,
        protocol_data=TEXT,
        members=listed(**_WHO, **_CLIENT, member_metadata=BASE64, member_assignment=BASE64),
    ),
    "ApiVersions": Api(
        18,
        0,
        False,
        plain(),
        plain(error_code=CODE, api_keys=plainly(api_key=INT16, min_version=INT16, max_version=INT16)),
    ),
    "Metadata": Api(
        3,
        12,
        True,
        flexible(
            topics=optional(listed(topic_id=UUID, name=OPTIONAL_TEXT)),
            allow_auto_topic_creation=FLAG,
            include_topic_authorized_operations=FLAG,
        ),
        flexible(
            throttle_time=INT32,
            brokers=listed(node_id=INT32, host=TEXT, port=INT32, rack=OPTIONAL_TEXT),
            cluster_id=OPTIONAL_TEXT,
            controller_id=INT32,
            topics=listed(
                error_code=CODE,
                name=OPTIONAL_TEXT,
                topic_id=UUID,
                is_internal=FLAG,
                partitions=listed(
                    error_code=CODE,
                    partition_index=INT32,
                    leader_id=INT32,
                    leader_epoch=INT32,
                    replica_nodes=INTS,
                    isr_nodes=INTS,
                    offline_replicas=INTS,
                ),
                topic_authorized_operations=INT32,
            ),
        ),
    ),
    "FindCoordinator": Api(
        10,
        4,
        True,
        flexible(key_type=INT8, coordinator_keys=TEXTS),
        flexible(
            throttle_time=INT32,
            coordinators=listed(
                key=TEXT, node_id=INT32, host=TEXT, port=INT32, error_code=CODE, error_message=OPTIONAL_TEXT
            ),
        ),
    ),
    "Fetch": Api(
        1,
        4,
        False,
        plain(
            replica_id=INT32,
            max_wait=INT32,
            min_bytes=INT32,
            max_bytes=INT32,
            isolation_level=INT8,
            topics=plainly(
                topic=TEXT,
                partitions=plainly(partition=INT32, fetch_offset=INT64, partition_max_bytes=INT32),
            ),
        ),
        plain(
            throttle_time=INT32,
            responses=plainly(
                topic=TEXT,
                partitions=plainly(
                    partition_index=INT32,
                    error_code=CODE,
                    high_watermark=INT64,
                    last_stable_offset=INT64,
                    aborted_transactions=optional(plainly(producer_id=INT64, first_offset=INT64)),
                    records=BASE64,
                ),
            ),
        ),
    ),
    "CreateTopics": Api(
        19,
        4,
        False,
        plain(
            topics=plainly(
                name=TEXT,
                num_partitions=INT32,
                replication_factor=INT16,
                assignments=plainly(partition_index=INT32, broker_ids=INTS),
                configs=plainly(name=TEXT, value=OPTIONAL_TEXT),
            ),
            timeout=INT32,
            validate_only=FLAG,
        ),
        plain(throttle_time=INT32, topics=plainly(name=TEXT, error_code=CODE, error_message=OPTIONAL_TEXT)),
    ),
    "DeleteTopics": Api(
        20,
        3,
        False,
        plain(topic_names=TEXTS, timeout=INT32),
        plain(throttle_time=INT32, responses=plainly(name=TEXT, error_code=CODE)),
    ),
    "CreatePartitions": Api(
        37,
        1,
        False,
        plain(
            topics=plainly(name=TEXT, count=INT32, assignments=optional(plainly(broker_ids=INTS))),
            timeout=INT32,
            validate_only=FLAG,
        ),
        plain(throttle_time=INT32, results=plainly(name=TEXT, error_code=CODE, error_message=OPTIONAL_TEXT)),
    ),
    "DescribeConfigs": Api(
        32,
        1,
        False,
        plain(
            resources=plainly(resource_type=INT8, resource_name=TEXT, configuration_keys=OPTIONAL_TEXTS),
            include_synonyms=FLAG,
        ),
        plain(
            throttle_time=INT32,
            results=plainly(
                error_code=CODE,
                error_message=OPTIONAL_TEXT,
                resource_type=INT8,
                resource_name=TEXT,
                configs=plainly(
                    name=TEXT,
                    value=OPTIONAL_TEXT,
                    read_only=FLAG,
                    config_source=INT8,
                    is_sensitive=FLAG,
                    synonyms=plainly(name=TEXT, value=OPTIONAL_TEXT, source=INT8),
                ),
            ),
        ),
    ),
}
"""Every request by Kafka's name for it."""
