"""What heartbeats carry, when they are tried again, and the dialects' names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsm.member.consumer.effects import build_heartbeat
from fsm.member.consumer.state import Member, SentFields, new_member
from fsm.member.consumer.subscription import Subscription, SubscriptionType
from fsm.member.dialect.dialect import dialect
from fsm.member.timers import IDLE, backoff_ms
from fsm.protocol.assignment import NONE, LocalAssignment
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest
from fsm.tables.consumer_member import State

HELD = LocalAssignment(0, (("T", (0,)),))
TOPICS = Subscription(SubscriptionType.AUTO_TOPICS, ("t",))
UNSAID = {"sent": None}


def member(state: State, release: str = "4.4.0", **fields: object) -> Member:
    config = ConsumerConfig("g", group_remote_assignor="uniform", client_rack="r1", group_instance_id="i")
    made = new_member(config, "M", dialect(release), 0)
    made = replace(made, state=state, epoch=3, current=HELD, subscription=TOPICS)
    return replace(made, **{"sent": SentFields(TOPICS, HELD), **fields})  # type: ignore[arg-type]


def test_full_while_joining() -> None:
    """A joining heartbeat says everything, whatever was sent before, and owns nothing."""
    request = build_heartbeat(member(State.JOINING, epoch=0))
    assert request == ConsumerGroupHeartbeatRequest("g", "M", 0, "i", "r1", 300_000, ("t",), None, "uniform", ())


def test_rack_is_named_since_4_1() -> None:
    """4.0 does not name the rack; others do, and only while joining."""
    assert build_heartbeat(member(State.JOINING, "4.0.2")).rack_id is None
    assert build_heartbeat(member(State.JOINING, "4.1.0")).rack_id == "r1"
    assert build_heartbeat(member(State.STABLE, **UNSAID)).rack_id is None


def test_plain_when_nothing_changed() -> None:
    """A member that has said everything sends what identifies it."""
    assert build_heartbeat(member(State.STABLE)) == ConsumerGroupHeartbeatRequest("g", "M", 3, "i")


def test_everything_again_after_a_failure() -> None:
    """With nothing remembered as sent, every field is repeated, the owned partitions too."""
    request = build_heartbeat(member(State.STABLE, **UNSAID))
    assert request == ConsumerGroupHeartbeatRequest(
        "g", "M", 3, "i", None, 300_000, ("t",), None, "uniform", (("T", (0,)),)
    )


def test_acknowledgement_carries_what_is_held() -> None:
    """A current assignment under another local epoch is said again, also where the partitions are the same."""
    again = HELD._replace(local_epoch=2)
    assert build_heartbeat(member(State.ACKNOWLEDGING, current=again)).topic_partitions == (("T", (0,)),)
    assert build_heartbeat(member(State.ACKNOWLEDGING, current=LocalAssignment(1, ()))).topic_partitions == ()


def test_leave_gives_everything_back() -> None:
    """A leave says that nothing is subscribed or owned any more, as far as it was said before."""
    leaving = member(State.LEAVING, epoch=-2, current=NONE, subscription=Subscription())
    assert build_heartbeat(leaving) == ConsumerGroupHeartbeatRequest(
        "g", "M", -2, "i", subscribed_topic_names=(), topic_partitions=()
    )
    unsaid = replace(leaving, sent=SentFields(Subscription(), NONE))
    assert build_heartbeat(unsaid) == ConsumerGroupHeartbeatRequest("g", "M", -2, "i")


def test_pattern_is_said_and_taken_back() -> None:
    """The coordinator's pattern is said while joining and when it changes; an empty text takes it back."""
    pattern = Subscription(SubscriptionType.AUTO_PATTERN_RE2J, regex="t.*")
    request = build_heartbeat(member(State.JOINING, subscription=pattern))
    assert (request.subscribed_topic_regex, request.subscribed_topic_names) == ("t.*", ())
    sent = SentFields(pattern, HELD)
    assert build_heartbeat(member(State.STABLE, subscription=pattern, sent=sent)).subscribed_topic_regex is None
    gone = pattern.clear()
    assert gone.regex == "t.*"
    assert build_heartbeat(member(State.LEAVING, subscription=gone, sent=sent)).subscribed_topic_regex == ""


@pytest.mark.parametrize(
    ("attempts", "jitter", "wait"), [(0, 0.0, 100), (1, 0.0, 200), (3, 0.0, 800), (4, 0.0, 1_000), (9, 0.0, 1_000),
                                     (1, 1.0, 240), (1, -1.0, 160), (4, 1.0, 1_000), (4, -1.0, 800)]
)  # fmt: skip
def test_backoff_doubles_to_its_cap(attempts: int, jitter: float, wait: int) -> None:
    """The wait doubles with each failure; jitter moves it by a fifth, and never over the cap."""
    assert backoff_ms(ConsumerConfig("g"), dialect("4.4.0").choices, attempts, jitter) == wait


def test_backoff_before_4_2_is_nothing_or_the_cap() -> None:
    """The poll interval went in where the jitter belonged."""
    old = dialect("4.1.2")
    assert [backoff_ms(ConsumerConfig("g"), old, 1, jitter) for jitter in (-0.5, 0.0, 0.5)] == [0, 200, 1_000]


def test_request_waits_while_one_is_in_flight_and_after_failure() -> None:
    """Nothing is sent while one is in flight, nor before the backoff is over."""
    sent = IDLE.send()
    assert (IDLE.may_send(0), sent.may_send(9_999)) == (True, False)
    failed = sent.fail(1_000, 200)
    assert (failed.attempts, failed.may_send(1_199), failed.may_send(1_200)) == (1, False, True)
