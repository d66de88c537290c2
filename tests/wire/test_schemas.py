"""The bytes of requests and answers: what Kafka's schemas say, field by field."""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64encode
from dataclasses import fields, is_dataclass
from datetime import timedelta
from importlib import import_module
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from kio.schema import errors as kio_errors
from kio.serial import entity_reader, entity_writer

from fsm.coordinator.encoding import Array, Struct
from fsm.errors import InputError
from fsm.wire.schemas import APIS, BASE64, CODE, FLAG, THROTTLE, Nullable

HEARTBEAT = {
    "group_id": "g",
    "member_id": "m",
    "member_epoch": 2,
    "instance_id": None,
    "rack_id": None,
    "rebalance_timeout": -1,
    "subscribed_topic_names": ["foo"],
    "subscribed_topic_regex": None,
    "server_assignor": None,
    "topic_partitions": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [0, 1]}],
}


def test_a_heartbeat_is_written_as_its_schema_says() -> None:
    """Compact strings and lists with lengths plus one, null as 0, tags after every struct."""
    assert APIS["ConsumerGroupHeartbeat"].write_request(HEARTBEAT).hex(" ") == (
        "02 67 02 6d 00 00 00 02 00 00 ff ff ff ff 02 04 66 6f 6f 00 00 "
        "02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01 03 00 00 00 00 00 00 00 01 00 00"
    )


def test_an_answer_with_an_assignment_is_read() -> None:
    """The error as a name, the throttle time left out, the assignment behind the byte that says that it is there."""
    data = bytes.fromhex(
        "00000000 0000 00 026d 00000003 00001388 01 02 00000000000000000000000000000001 02 00000005 00 00 00"
    )
    assert APIS["ConsumerGroupHeartbeat"].read_answer(data) == {
        "error_code": None,
        "error_message": None,
        "member_id": "m",
        "member_epoch": 3,
        "heartbeat_interval": 5000,
        "assignment": {"topic_partitions": ({"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": (5,)},)},
    }


def test_an_error_without_assignment_is_read() -> None:
    """An absent assignment is -1; an unknown error stays a number."""
    head, tail = bytes.fromhex("00000000"), bytes.fromhex("00 00 00000000 00000000 ff 00")
    assert APIS["ConsumerGroupHeartbeat"].read_answer(head + b"\x00\x6e" + tail)["error_code"] == "fenced_member_epoch"
    assert APIS["ConsumerGroupHeartbeat"].read_answer(head + b"\x7f\xff" + tail)["error_code"] == 32767


def test_the_older_kind_has_no_tags() -> None:
    """Fetch v4: lengths of two and four bytes, nothing behind a struct."""
    wanted = {"partition": 2, "fetch_offset": 7, "partition_max_bytes": 9}
    body = {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 8,
        "isolation_level": 0,
        "topics": [{"topic": "t", "partitions": [wanted]}],
    }
    assert APIS["Fetch"].write_request(body).hex() == (
        "ffffffff00000000000000000000000800000000010001740000000100000002000000000000000700000009"
    )


def sample(kind: Any, n: int) -> Any:
    """Some value of this kind."""
    if isinstance(kind, Struct):
        return {field.name: sample(field.kind, n + i) for i, field in enumerate(kind.fields)}
    if isinstance(kind, Nullable):
        return sample(kind.of, n) if n % 2 else None
    if isinstance(kind, Array):
        return None if kind.nullable and n % 3 == 0 else tuple(sample(kind.of, n + i) for i in range(n % 3))
    if kind is CODE:
        return (None, "unknown_member_id", "invalid_request")[n % 3]
    if kind is FLAG:
        return n % 2 == 0
    if kind is BASE64:
        return ("", "AAE=")[n % 2]
    name = type(kind).__name__
    return {"Int": n % 100 - 1, "Uuid": "AAAAAAAAAAAAAAAAAAAAAQ", "Text": f"text {n}"}[name]


@pytest.mark.parametrize("name", list(APIS))
@pytest.mark.parametrize("seed", range(6))
def test_what_is_written_is_read(name: str, seed: int) -> None:
    """Requests and answers of every API survive their bytes."""
    api = APIS[name]
    request, answer = sample(api.request, seed), sample(api.answer, seed)
    assert api.read_request(api.write_request(request)) == request
    assert api.read_answer(api.write_answer(answer)) == {k: v for k, v in answer.items() if k != THROTTLE}


def judge(name: str, kind: str) -> Any:
    """The entity that kio has made of Kafka's own schema."""
    module = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    return getattr(import_module(f"kio.schema.{module}.v{APIS[name].version}.{kind}"), name + kind.title())


def told(value: Any) -> Any:
    """What kio has read, as a body of ours."""
    if is_dataclass(value):
        return {one.name: told(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, tuple):
        return tuple(told(one) for one in value)
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, kio_errors.ErrorCode):
        return None if value is kio_errors.ErrorCode.none else value.name
    return urlsafe_b64encode(value.bytes).decode().rstrip("=") if isinstance(value, UUID) else value


@pytest.mark.parametrize("kind", ["request", "response"])
@pytest.mark.parametrize("name", list(APIS))
def test_kio_reads_and_writes_the_same(name: str, kind: str) -> None:
    """Our bytes, read with what kio generated from Kafka's schemas, say what we wrote; and kio writes them so, too."""
    api, entity = APIS[name], judge(name, kind)
    layout, write = (api.request, api.write_request) if kind == "request" else (api.answer, api.write_answer)
    assert (entity.__api_key__, entity.__version__, entity.__flexible__) == (api.key, api.version, api.flexible)
    for seed in range(6):
        body = sample(layout, seed)
        data = write(body)
        found, size = entity_reader(entity)(data, 0)
        assert (told(found), size) == (body, len(data))
        out = BytesIO()
        entity_writer(entity)(out, found)
        assert out.getvalue() == data


@pytest.mark.parametrize("name", list(APIS))
def test_every_cut_is_refused(name: str) -> None:
    """An answer that ends too early, or goes on, is an `InputError`, whatever is missing."""
    api = APIS[name]
    data = api.write_answer(sample(api.answer, 5))
    for end in range(len(data)):
        with pytest.raises(InputError):
            api.read_answer(data[:end])
    with pytest.raises(InputError, match="too many"):
        api.read_answer(data + b"\0")


def test_a_missing_field_is_named() -> None:
    """A request without one of its fields cannot be written."""
    body = {name: value for name, value in HEARTBEAT.items() if name != "rack_id"}
    with pytest.raises(InputError, match="rack_id"):
        APIS["ConsumerGroupHeartbeat"].write_request(body)


def test_unknown_tags_are_skipped() -> None:
    """A newer broker may add tagged fields: here tag 9 with two bytes behind a Heartbeat answer."""
    assert APIS["Heartbeat"].read_answer(bytes.fromhex("00000000 0000 01 09 02 abcd")) == {"error_code": None}
