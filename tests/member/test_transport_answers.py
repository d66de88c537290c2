"""What a transport hands in is checked where it comes in: a wrong kind of value is one clear error at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from patience import PATIENCE_S

from fsm.errors import RemoteProtocolError
from fsm.member import (
    BackgroundFailed,
    ClassicConfig,
    ClassicConsumerMember,
    Consumer,
    ConsumerConfig,
    ConsumerMember,
)
from fsm.member.events import AsyncPollEvent, TopicSubscriptionChangeEvent
from fsm.member.inputs import Answered, CoordinatorFound, MetadataUpdated
from fsm.member.runtime.answers import check_answer
from fsm.protocol.assignment import TopicNames
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    DISCONNECTED,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest as Request
from fsm.protocol.messages import ConsumerGroupHeartbeatResponse as Response


class Scripted:
    """A transport of a prototype: it answers at once, with what the test says."""

    def __init__(self, answer: object, metadata: object) -> None:
        self.answer, self.metadata = answer, metadata

    def find_coordinator(self, on_coordinator_found: Callable[[None], None]) -> None:
        on_coordinator_found(None)

    def update_metadata(self, on_metadata: Callable[[Any], None]) -> None:
        on_metadata(self.metadata)

    def send(self, _request: Any, on_response: Callable[[Any], None]) -> None:
        on_response(self.answer)


NAMES = TopicNames({"id-of-orders": "orders"})


@pytest.mark.parametrize(
    ("answer", "metadata", "message"),
    [
        (Response(1, 5_000, error_code=25), NAMES, "error_code is 25; give an ErrorCode, as ErrorCode(25)"),
        (Response(1, 5_000, (("orders", (0,)),)), NAMES, "names topic 'orders'; give its id, 'id-of-orders'"),
        (Response(1, 5_000, {"id-of-orders": [0]}), NAMES, "assignment is {'id-of-orders': [0]}; give topic ids, as "),
        (Response(1, 5_000, (("id-of-orders", [0]),)), NAMES, "give topic ids, as ((topic_id, (0, 1)),)"),
        (Response(1, 5_000, (("id-of-orders", (-1,)),)), NAMES, "give topic ids, as ((topic_id, (0, 1)),)"),
        (Response(1, 5_000), {"id": "orders"}, "update_metadata was answered with dict; give TopicNames, or "),
        ({"member_epoch": 1}, NAMES, "dict does not answer ConsumerGroupHeartbeatRequest"),
    ],
)
def test_a_value_of_the_wrong_kind_ends_the_consumer_with_the_reason(answer: Any, metadata: Any, message: str) -> None:
    """The next call raises `BackgroundFailed`, whose cause says what was given and what to give."""
    consumer = Consumer(ConsumerConfig("g"), Scripted(answer, metadata), member_id="M")

    def run() -> None:
        consumer.subscribe(["orders"])
        consumer.poll(timeout_ms=60_000)

    with pytest.raises(BackgroundFailed) as failed:
        run()
    assert isinstance(failed.value.__cause__, RemoteProtocolError)
    assert message in str(failed.value.__cause__)


def test_what_is_right_is_taken() -> None:
    """The same transport with values of the right kind has the partition assigned."""
    answer = Response(1, 5_000, (("id-of-orders", (0,)),), error_code=ErrorCode.NONE)
    with Consumer(ConsumerConfig("g"), Scripted(answer, NAMES), member_id="M") as consumer:
        consumer.subscribe(["orders"])
        deadline_s = time.monotonic() + PATIENCE_S
        while not consumer.assignment() and time.monotonic() < deadline_s:
            consumer.poll(timeout_ms=10)
        assert consumer.assignment() == (("orders", 0),)
        consumer.close(timeout_ms=100)  # the commit and the leave get answers that are none


@pytest.mark.parametrize(
    ("request_", "answer", "message"),
    [
        (JoinGroupRequest("g", 1), JoinGroupResponse("1"), "JoinGroupResponse.generation_id is '1'; give int"),
        (JoinGroupRequest("g", 1), JoinGroupResponse(1, leader=None), "JoinGroupResponse.leader is None; give str"),
        (SyncGroupRequest("g", 1, "M"), SyncGroupResponse("x"), "SyncGroupResponse.assignment is 'x'; give bytes"),
        (HeartbeatRequest("g", 1, "M"), HeartbeatResponse(25), "error_code is 25; give an ErrorCode, as ErrorCode(25)"),
        (HeartbeatRequest("g", 1, "M"), SyncGroupResponse(), "SyncGroupResponse does not answer HeartbeatRequest"),
        (Request("g", "M", 0), Response(True, 5_000), "member_epoch is True; give int"),
        (Request("g", "M", 0), Response(1, 5_000, error_message=7), "error_message is 7; give str or None"),
        (Request("g", "M", 0), None, "NoneType does not answer ConsumerGroupHeartbeatRequest"),
    ],
)
def test_every_field_of_an_answer_is_checked(request_: Any, answer: Any, message: str) -> None:
    """Of either protocol: the error names the field, what was given, and what to give."""
    with pytest.raises(RemoteProtocolError) as refused:
        check_answer(request_, answer, dict)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Response(1, 5_000, error_code=25), "error_code is 25; give an ErrorCode, as ErrorCode(25)"),
        (Response(1, 5_000, (("orders", (0,)),)), "names topic 'orders'; give its id, 'id-of-orders'"),
        (Response(1, 5_000, {"id-of-orders": [0]}), "assignment is {'id-of-orders': [0]}; give topic ids, as "),
        (HeartbeatResponse(), "HeartbeatResponse does not answer ConsumerGroupHeartbeatRequest"),
    ],
)
@pytest.mark.parametrize("how", ["receive", "receive_answer"])
def test_an_embedded_member_refuses_what_is_no_answer(answer: Any, message: str, how: str) -> None:
    """Whoever embeds `ConsumerMember` hears of it where the answer is handed in; the member is as before."""
    member = ConsumerMember(ConsumerConfig("g"), member_id="M", now_ms=0)
    member.receive(CoordinatorFound(), 0)
    member.receive(MetadataUpdated(NAMES), 0)
    member.submit(TopicSubscriptionChangeEvent(("orders",)))
    member.submit(AsyncPollEvent())
    (request,) = member.poll(0).unsent_requests
    before = member.member
    hand_in = {
        "receive": lambda: member.receive(Answered(request, answer), 1),
        "receive_answer": lambda: member.receive_answer(request, answer, 0.0, 1),
    }[how]
    with pytest.raises(RemoteProtocolError) as refused:
        hand_in()
    assert message in str(refused.value)
    assert member.member is before


def test_an_embedded_member_refuses_what_are_no_names() -> None:
    """A dict is no value: it cannot be hashed, and may change."""
    member = ConsumerMember(ConsumerConfig("g"), member_id="M", now_ms=0)
    with pytest.raises(RemoteProtocolError, match=r"the metadata are dict; give TopicNames\(\{topic_id: name\}\)"):
        member.receive(MetadataUpdated({"id-of-orders": "orders"}), 0)  # type: ignore[arg-type]


def test_an_embedded_classic_member_refuses_what_is_no_answer_and_no_metadata() -> None:
    """Its counts are checked, too."""
    member = ClassicConsumerMember(ClassicConfig("g"))
    with pytest.raises(RemoteProtocolError, match=r"the metadata are .*'3'\),\); give \(\(topic, partitions\)"):
        member.learn((("orders", "3"),), 0)  # type: ignore[arg-type]
    with pytest.raises(RemoteProtocolError, match=r"the metadata are {'orders': 3}; give "):
        member.learn({"orders": 3}, 0)  # type: ignore[arg-type]
    member.learn((("orders", 3),), 0)
    member.find_coordinator(0)
    member.submit(TopicSubscriptionChangeEvent(("orders",)))
    member.submit(AsyncPollEvent())
    (request,) = member.poll(0).unsent_requests
    with pytest.raises(RemoteProtocolError, match=r"JoinGroupResponse.generation_id is '1'; give int"):
        member.receive_answer(request, JoinGroupResponse("1"), 0.0, 1)  # type: ignore[arg-type]


def test_right_answers_and_failures_pass() -> None:
    """What a transport should give is given on as it is."""
    check_answer(Request("g", "M", 0), Response(1, 5_000, (("id-of-orders", (0, 1)),)), lambda: NAMES)
    check_answer(Request("g", "M", 0), DISCONNECTED, dict)
    check_answer(SyncGroupRequest("g", 1, "M"), SyncGroupResponse(b"", protocol_type="consumer"), dict)
    check_answer(OffsetCommitRequest("g"), OffsetCommitResponse(), dict)


def test_a_coordinator_that_is_found_is_told_with_none() -> None:
    """Anything else is no answer to the search."""

    class Addressed(Scripted):
        def find_coordinator(self, on_coordinator_found: Callable[[Any], None]) -> None:
            on_coordinator_found("localhost:9092")

    consumer = Consumer(ConsumerConfig("g"), Addressed(Response(1, 5_000), NAMES), member_id="M")
    with pytest.raises(BackgroundFailed, match="find_coordinator was answered with str; give None, or a TransportFail"):
        subscribe_and_poll(consumer)


def subscribe_and_poll(consumer: Consumer) -> None:
    """Until the background has failed."""
    consumer.subscribe(["orders"])
    consumer.poll(timeout_ms=60_000)
