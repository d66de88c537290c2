"""Messages that somebody else made, looked at before anything is done with them."""

from __future__ import annotations

from typing import Any

import pytest

from fsm.protocol.check import find_fault
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    OffsetCommitRequest,
)

ID = "8s1lnmxkSK2e4GljFsdRJw"


def beat(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(**{"group_id": "g", "member_id": "m", "member_epoch": 0, **fields})


@pytest.mark.parametrize(
    "message",
    [
        beat(),
        beat(subscribed_topic_names=("a", "b"), topic_partitions=((ID, (0, 1)),)),
        JoinGroupRequest("g", 45_000, protocol_type="consumer", protocols=(JoinGroupRequestProtocol("range", b""),)),
        ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH),
        ConsumerGroupHeartbeatResponse(member_epoch=1, heartbeat_interval_ms=5, assignment=((ID, (0,)),)),
    ],
    ids=lambda message: type(message).__name__,
)  # fmt: skip
def test_a_good_message_has_no_fault(message: Any) -> None:
    """With every kind of field, given and null."""
    assert find_fault(message) is None


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (beat(group_id=None), ".group_id is None; give str"),
        (beat(member_epoch="0"), ".member_epoch is '0'; give int"),
        (beat(member_epoch=True), ".member_epoch is True; give int"),
        (beat(member_epoch=1 << 31), ".member_epoch is 2147483648; give int of 32 bits"),
        (beat(subscribed_topic_names="orders"), ".subscribed_topic_names is 'orders'; give a tuple or None"),
        (beat(subscribed_topic_names=["orders"]), ".subscribed_topic_names is ['orders']; give a tuple or None"),
        (beat(topic_partitions=((ID, "0"),)), ".topic_partitions[0].partitions is '0'; give a tuple"),
        (beat(topic_partitions=((ID,),)), f".topic_partitions[0] is ('{ID}',); give (topic_id, partitions)"),
        (OffsetCommitRequest("g", topics=((),)), ".topics[0] is (); give OffsetCommitRequestTopic"),  # type: ignore[arg-type]
        (ConsumerGroupHeartbeatResponse(error_code=25), ".error_code is 25; give an ErrorCode, as ErrorCode(25)"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_the_first_fault_says_where_what_and_what_to_give(message: Any, fault: str) -> None:
    """By the path of the field, in wire order."""
    assert str(find_fault(message)) == fault
