"""The walk of an idle heartbeat: from the member's queue to the coordinator's answer, and back, with both deadlines."""

from __future__ import annotations

import sys
from types import FrameType

from fsm.coordinator import BrokerConfig, Context, Host, Image, PersistentMap, Topic
from fsm.member import ConsumerConfig, ConsumerMember
from fsm.member.events import AsyncPollEvent, TopicSubscriptionChangeEvent
from fsm.member.inputs import CoordinatorFound, MetadataUpdated
from fsm.protocol.assignment import TopicNames
from fsm.tables.consumer_member import State

TOPIC = "AAAAAAAAAAEAAAAAAAAAAQ"
INTERVAL_MS = 5_000


def beat(member: ConsumerMember, host: Host, now_ms: int) -> int:
    """One turn of the member's loop with an answer to all that it sends; how many requests that was."""
    member.submit(AsyncPollEvent())
    sent = member.poll(now_ms).unsent_requests
    for request in sent:
        (answer,) = host.send("app", request.body, now_ms=now_ms).answers
        member.receive_answer(request, answer.body, 0.0, now_ms)
    return len(sent)


def test_an_idle_heartbeat_passes_at_most_sixty_functions() -> None:
    """Whoever debugs one can read all of it, the question of the next deadline included."""
    settings = BrokerConfig(group_consumer_heartbeat_interval_ms=INTERVAL_MS)
    host = Host(Context(0, config=settings, image=Image(PersistentMap({"orders": Topic(TOPIC, 2)}), 1)))
    member = ConsumerMember(ConsumerConfig("shop", enable_auto_commit=False), member_id="m-1", now_ms=0)
    member.receive(CoordinatorFound(), 0)
    member.receive(MetadataUpdated(TopicNames({TOPIC: "orders"})), 0)
    member.submit(TopicSubscriptionChangeEvent(("orders",)))
    now_ms = 0
    for _ in range(6):
        beat(member, host, now_ms := now_ms + INTERVAL_MS)
        member.run_callbacks(None, now_ms)
    assert (member.member.state, len(member.owned)) == (State.STABLE, 2)
    passed: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and ("/fsm/" in code.co_filename or code.co_filename == "<fsm>"):
            passed.add((code.co_filename, code.co_qualname))

    sys.setprofile(note)
    sent, due_ms = beat(member, host, now_ms + INTERVAL_MS), host.next_deadline_ms()
    sys.setprofile(None)
    assert (sent, due_ms) == (1, now_ms + INTERVAL_MS + 45_000)
    assert 40 < len(passed) <= 60, sorted(passed)
