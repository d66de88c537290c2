"""What a request passes on its way through the coordinator, which is what it costs."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

from fsm.coordinator import Context, Host, Image, PersistentMap, Topic
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest

HERE = str(Path(sys.modules["fsm.coordinator"].__file__ or "").parents[1])


def passed(host: Host, request: ConsumerGroupHeartbeatRequest) -> set[str]:
    """The functions of ours that the request passes, from the host to its answer."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith((HERE, "<fsm>")):
            found.add(frame.f_code.co_qualname)

    sys.setprofile(note)
    host.send("client", request)
    sys.setprofile(None)
    return found


def test_an_idle_heartbeat_passes_few_functions() -> None:
    """Nothing is new and nothing is due: the session goes on, and nothing else is looked at twice."""
    host = Host(Context(1_000, image=Image(PersistentMap({"foo": Topic("AAAAAAAAAAEAAAAAAAAAAQ", 4)}), 1)))
    for member_id in ("a", "b"):
        joins = ConsumerGroupHeartbeatRequest(
            "g", member_id, 0, rebalance_timeout_ms=9_000, subscribed_topic_names=("foo",), topic_partitions=()
        )
        host.send("client", joins)
        host.advance(host.now_ms + 1_000)
    for member_id in ("a", "b") * 3:
        member = host.state.groups["g"].members[member_id]
        host.send(
            "client", ConsumerGroupHeartbeatRequest("g", member_id, member.epoch, topic_partitions=member.assigned)
        )
    idle = ConsumerGroupHeartbeatRequest("g", "a", host.state.groups["g"].members["a"].epoch)
    found = passed(host, idle)
    assert 20 < len(found) <= 32, sorted(found)
