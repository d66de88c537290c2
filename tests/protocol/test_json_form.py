"""Messages and records as JSON documents: all that was recorded survives, and what is wrong is named."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from fsm.errors import InputError
from fsm.protocol.codec import decode, encode
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.json_form import from_printed, from_recorded, to_printed, to_recorded
from fsm.protocol.messages import (
    APIS,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    OffsetFetchRequest,
)
from fsm.protocol.records import ClassicMember, GroupEpoch, Member

ORACLE = Path(__file__).parent.parent / "cases" / "oracle"
FOO = "AAAAAAAAAAAAAAAAAAAAAQ"
PROTOCOL = JoinGroupRequestProtocol("range", b"\0\1")


def lines(name: str, every: int) -> Iterator[Iterator[dict[str, Any]]]:
    """The lines of each n-th recording of an archive."""
    with tarfile.open(ORACLE / name) as archive:
        for member in islice((one for one in archive if one.name.endswith(".jsonl")), 0, None, every):
            file = archive.extractfile(member)
            assert file is not None
            yield (json.loads(line) for line in file)


def recorded_by_coordinators() -> Iterator[tuple[str, str, int, dict[str, Any]]]:
    """API, kind, version and body of each message."""
    for recording in lines("coordinator.tar.xz", every=11):
        asked = {}
        for line in recording:
            if "request" in line:
                asked[line["n"]] = line["api"], line["version"]
                yield line["api"], "request", line["version"], line["request"]
            for answer in line.get("responses", ()):
                api, version = asked[answer["to"]]
                yield api, "response", version, answer["response"]


def recorded_by_members() -> Iterator[tuple[str, str, int, dict[str, Any]]]:
    for recording in lines("member.tar.xz", every=5):
        yield from ((one["api"], one["wire"], one["version"], one["body"]) for one in recording if "wire" in one)


@pytest.mark.parametrize("recorded", [recorded_by_coordinators, recorded_by_members])
@pytest.mark.loop(1)
def test_what_was_recorded_survives(recorded: Any) -> None:
    """Every body of real Kafka becomes a message, the message gives the body again, and so do its bytes."""
    count = 0
    for api, kind, version, body in recorded():
        message = from_recorded(getattr(APIS[api], kind), body, version)
        assert to_recorded(message, version) == body
        assert decode(type(message), encode(message, version), version) == message
        count += 1
    assert count > 1_000


def test_recordings_have_names_of_their_own() -> None:
    """Durations without `_ms`, errors by name in lower case, bytes in base64, no throttle time."""
    request = JoinGroupRequest("g", 10, 20, protocols=(PROTOCOL,))
    assert to_recorded(request, 1) == {
        "group_id": "g",
        "session_timeout": 10,
        "rebalance_timeout": 20,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": "AAE="}],
    }
    response = ConsumerGroupHeartbeatResponse(
        3, 5_000, ((FOO, (0, 2)),), error_code=ErrorCode.FENCED_MEMBER_EPOCH, throttle_time_ms=7
    )
    body = {
        "error_code": "fenced_member_epoch",
        "error_message": None,
        "member_id": None,
        "member_epoch": 3,
        "heartbeat_interval": 5_000,
        "assignment": {"topic_partitions": [{"topic_id": FOO, "partitions": [0, 2]}]},
    }
    assert to_recorded(response, 1) == body
    assert to_recorded(HeartbeatResponse(ErrorCode(5000)), 4) == {"error_code": 5000}
    assert from_recorded(ConsumerGroupHeartbeatResponse, {**body, "throttle_time": 7}, 1) == response


def test_what_is_left_out_has_kafkas_default() -> None:
    """A request says what it has to."""
    found = from_recorded(ConsumerGroupHeartbeatRequest, {"group_id": "g", "member_id": "m", "member_epoch": 0}, 1)
    assert found == ConsumerGroupHeartbeatRequest("g", "m", 0)
    assert from_recorded(OffsetFetchRequest, {"group_id": "g"}, 1) == OffsetFetchRequest("g")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"group_id": "g"}, "JoinGroupRequest.session_timeout: missing"),
        ({"reason": "why"}, "JoinGroupRequest: version 5 has no field 'reason'"),
        ({"session_timeout_ms": 1}, "JoinGroupRequest: version 5 has no field 'session_timeout_ms'"),
        ({"group_id": None}, "JoinGroupRequest.group_id: must be text, not None"),
        (
            {"group_id": "g", "session_timeout": "1"},
            ".session_timeout: must be a whole number, not '1'",
        ),
        ({"group_id": "g", "session_timeout": True}, ".session_timeout: must be a whole number, not True"),
        ({"protocols": "range"}, "JoinGroupRequest.protocols: must be a list, not 'range'"),
        ({"protocols": ["range"]}, "JoinGroupRequest.protocols: must be a mapping of fields, not 'range'"),
        ({"protocols": [{"name": "range", "metadata": "?"}]}, ".protocols.metadata: must be base64, not '?'"),
    ],
)
def test_a_body_that_is_no_message(body: dict[str, Any], message: str) -> None:
    """The error names the field and what is wrong with it."""
    given = {"group_id": "g", "session_timeout": 1, **body} if "group_id" not in body else body
    with pytest.raises(InputError) as caught:
        from_recorded(JoinGroupRequest, given, 5)
    assert message in str(caught.value)


@pytest.mark.parametrize("code", ["fenced", 1 << 15, True, 1.5])
def test_an_error_that_kafka_does_not_have(code: Any) -> None:
    """A name or a number of two bytes."""
    with pytest.raises(InputError, match=r"HeartbeatResponse\.error_code: must be the name of a Kafka error"):
        from_recorded(HeartbeatResponse, {"error_code": code}, 4)


def test_tools_print_camel_case_and_want_every_field() -> None:
    """A tagged field at its default is left out; None of a member of the consumer protocol is not its default."""
    member = Member("i", None, "c", "/h", ("foo",), None)
    assert to_printed(member, 0) == {
        "instanceId": "i",
        "rackId": None,
        "clientId": "c",
        "clientHost": "/h",
        "subscribedTopicNames": ["foo"],
        "subscribedTopicRegex": None,
        "rebalanceTimeoutMs": -1,
        "serverAssignor": None,
        "classicMemberMetadata": None,
    }
    assert from_printed(Member, to_printed(member, 0), 0) == member
    assert "classicMemberMetadata" not in to_printed(
        Member("i", None, "c", "/h", (), None, -1, None, ClassicMember(0, ())), 0
    )
    assert to_printed(GroupEpoch(4), 0) == {"epoch": 4}
    with pytest.raises(InputError, match=r"GroupEpoch\.epoch: missing"):
        from_printed(GroupEpoch, {"metadataHash": 1}, 0)
