"""The host of a coordinator: time, answers that come later, topics, the log, fail-over, forks."""

from __future__ import annotations

from typing import Any

import pytest

import fsm.coordinator
from fsm.coordinator import BrokerConfig, Context, Host, Image, PersistentMap, Step, Topic, dialect
from fsm.errors import InputError
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    DISCONNECTED,
    ConsumerGroupHeartbeatRequest,
    DescribedConsumerGroup,
    DescribedGroup,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

FOO = "AAAAAAAAAAEAAAAAAAAAAQ"
SETTINGS = BrokerConfig(group_consumer_assignment_interval_ms=0, group_initial_rebalance_delay_ms=3_000)


def a_host(partitions: int = 2, release: str = "4.4.0") -> Host:
    image = Image(PersistentMap({"foo": Topic(FOO, partitions)}), 1)
    return Host(Context(1_000_000, dialect(release), SETTINGS, image))


def joining(member_id: str, regex: str | None = None) -> ConsumerGroupHeartbeatRequest:
    names = ("foo",) if regex is None else None
    return ConsumerGroupHeartbeatRequest("g", member_id, 0, None, None, 30_000, names, regex, topic_partitions=())


def described(host: Host) -> DescribedConsumerGroup:
    group = host.describe("g")
    assert isinstance(group, DescribedConsumerGroup)
    return group


def test_a_request_is_answered_under_its_token() -> None:
    """Each has another one, and the member id that a broker would make follows from it."""
    host = a_host()
    first, second = host.send("c", joining("m1")), host.send("c", joining("m2"), now_ms=1_000_500)
    assert (first.token, second.token) == (1, 2)
    assert [answer.token for answer in second.answers] == [2]
    assert first.answers[0].body.assignment == ((FOO, (0, 1)),)
    assert host.now_ms == 1_000_500


def test_time_runs_from_deadline_to_deadline() -> None:
    """Each timer fires at its own instant, and the clock then stands where it was to go; it never goes back."""
    host = a_host()
    host.send("c", joining("m1"))
    host.send("c", joining("m2"), now_ms=1_002_000)
    fired: list[int] = []
    host.on_step = lambda _: fired.append(host.now_ms)
    assert host.next_deadline_ms() == 1_045_000
    host.advance(1_100_000)
    assert fired == [1_045_000, 1_047_000]
    assert (host.now_ms, host.next_deadline_ms(), described(host).members) == (1_100_000, None, ())
    host.advance(5)
    assert host.now_ms == 1_100_000


def test_a_delayed_answer_comes_with_time() -> None:
    """A JoinGroup waits for the initial delay, and is answered by `advance` under its token."""
    host = a_host()
    protocols = (JoinGroupRequestProtocol("range", b"\0\1\0\0\0\1\0\3foo\xff\xff\xff\xff\0\0\0\0"),)
    first = host.send("c", JoinGroupRequest("g", 10_000, 60_000, protocols=protocols), fresh_id="x")
    assert first.answers[0].body.error_code is ErrorCode.MEMBER_ID_REQUIRED
    waits = host.send("c", JoinGroupRequest("g", 10_000, 60_000, first.answers[0].body.member_id, protocols=protocols))
    assert waits.answers == ()
    (answer,) = host.advance(host.now_ms + 3_000)
    assert isinstance(answer.body, JoinGroupResponse)
    assert (answer.token, answer.body.leader) == (waits.token, "c-x")
    group = host.describe("g")
    assert isinstance(group, DescribedGroup)
    assert group.group_state == "CompletingRebalance"


def test_changed_topics_are_looked_at_with_the_next_heartbeat() -> None:
    """A topic that grew moves the group epoch; offsets of one that is gone are deleted in the log."""
    host = a_host()
    host.send("c", joining("m1"))
    host.change_topics({"foo": Topic(FOO, 3)})
    (answer,) = host.send("c", joining("m1")).answers
    assert answer.body.assignment == ((FOO, (0, 1, 2)),)
    topic = OffsetCommitRequestTopic("foo", partitions=(OffsetCommitRequestPartition(0, 17),))
    host.send("c", OffsetCommitRequest("g", answer.body.member_epoch, "m1", topics=(topic,)), 9)
    host.change_topics({})
    assert host.records[-1].value is None
    assert host.state.offsets == PersistentMap()


def test_a_metadata_image_may_reach_the_coordinator_later_than_another_one() -> None:
    """`update` takes an image as it is, so that two hosts that get to know it at different times have the same."""
    early, image = a_host(), Image(PersistentMap({"foo": Topic(FOO, 3)}), 7)
    early.send("c", joining("m1"))
    late = early.fork()
    early.update(image)
    heartbeat = ConsumerGroupHeartbeatRequest("g", "m1", described(late).group_epoch)
    assert early.send("c", heartbeat).answers[0].body.member_epoch == heartbeat.member_epoch + 1
    assert late.send("c", heartbeat).answers[0].body.member_epoch == heartbeat.member_epoch
    late.update(image)
    assert (late.context.image.version, late.context.image) == (7, early.context.image)


def test_regular_expressions_are_resolved_at_once_or_when_asked() -> None:
    """The background task is a step of its own."""
    host = a_host()
    host.send("c", joining("m1", "fo+"))
    assert len(described(host).members) == 1
    assert host.state.groups["g"].regexes["fo+"].topics == ("foo",)
    later = a_host()
    later.resolves = False
    later.send("c", joining("m1", "fo+"))
    assert not later.state.groups["g"].regexes
    later.fork().fail_to_resolve()
    later.resolve()
    assert later.state.groups["g"].regexes == host.state.groups["g"].regexes


def test_another_coordinator_knows_what_the_log_says() -> None:
    """Members, targets, offsets and open transactions survive a fail-over; sessions begin anew."""
    host = a_host()
    (answer,) = host.send("c", joining("m1")).answers
    topic = TxnOffsetCommitRequestTopic("foo", partitions=(TxnOffsetCommitRequestPartition(1, 5),))
    commit = TxnOffsetCommitRequest("t", "g", 7, 0, answer.body.member_epoch, "m1", topics=(topic,))
    host.send("c", commit, 5, now_ms=1_010_000)
    before = described(host)
    assert host.fail_over().remarks == ()
    assert described(host) == before
    assert host.next_deadline_ms() == 1_055_000
    fetch = OffsetFetchRequest(groups=(OffsetFetchRequestGroup("g"),))
    assert host.send("c", fetch, 9).answers[0].body.groups[0].topics == ()
    host.end_transaction(7, commits=True)
    assert host.fail_over().remarks == ()
    (found,) = host.send("c", fetch, 9).answers[0].body.groups[0].topics
    assert (found.name, found.partitions[0].committed_offset) == ("foo", 5)


def test_a_member_that_uses_a_later_connection_has_given_up_the_one_before() -> None:
    """F29: a request on that one does nothing; other members, and heartbeats of classic ones, may still use it."""
    host = a_host(release="fixed")

    def is_refused(member_id: str, connection: int | None) -> bool:
        (answer,) = host.send(member_id, joining(member_id), connection=connection).answers
        return answer.body is DISCONNECTED

    assert not is_refused("a", 3)
    before = host.state
    assert is_refused("a", 1)
    assert host.state == before
    assert not is_refused("b", 1)
    assert not is_refused("a", 3)
    assert not is_refused("a", None)
    (answer,) = host.send("a", HeartbeatRequest("g", 1, "a"), connection=1).answers
    assert answer.body is not DISCONNECTED
    other = host.fork()
    assert not is_refused("a", 4)
    assert is_refused("a", 3)
    host = other
    assert not is_refused("a", 3)
    host.fail_over()
    assert not is_refused("a", 1)  # the connections are those of another broker


@pytest.mark.parametrize(
    ("join", "goes_on"),
    [
        (
            lambda name: ConsumerGroupHeartbeatRequest(
                "g", name, 0, instance_id="i", rebalance_timeout_ms=1_000, topic_partitions=()
            ),
            ConsumerGroupHeartbeatRequest("g", "old", 1, instance_id="i"),
        ),
        (lambda _: JoinGroupRequest("g", 10_000, 60_000, "", "i"), JoinGroupRequest("g", 10_000, 60_000, "old", "i")),
    ],
    ids=["consumer", "classic"],
)
def test_a_process_that_has_joined_on_a_later_connection_is_the_last_one(join: Any, goes_on: Any) -> None:
    """F29: of static members a join of an earlier process does nothing; what else that sends is refused as ever."""
    host = a_host(release="fixed")

    def is_closed(message: Any, connection: int) -> bool:
        return any(answer.body is DISCONNECTED for answer in host.send("c", message, connection=connection).answers)

    assert not is_closed(join("new"), 3)
    assert is_closed(join("old"), 1)
    assert not is_closed(goes_on, 1)
    assert not is_closed(goes_on, 5)
    assert not is_closed(join("newer"), 4)  # no request of a zombie closes another one's connection


def test_the_latest_connections_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many members those are forgotten whose connections are oldest."""
    monkeypatch.setattr("fsm.coordinator.host._MOST_CONNECTIONS", 4)
    host = a_host(release="fixed")
    for number in range(1, 6):
        host.send("c", ConsumerGroupHeartbeatRequest("g", f"m{number}", 7), connection=number)

    def is_refused(number: int) -> bool:
        (answer,) = host.send("c", ConsumerGroupHeartbeatRequest("g", f"m{number}", 7), connection=0).answers
        return answer.body is DISCONNECTED

    assert [is_refused(number) for number in (5, 4, 3, 2, 1)] == [True, True, True, False, False]


def test_forks_go_their_own_ways() -> None:
    """What one does the other does not see: state, clock, tokens and log."""
    host = a_host()
    host.send("c", joining("m1"))
    other, log = host.fork(), host.list_appends()
    other.send("c", joining("m2"), now_ms=1_001_000)
    assert (host.now_ms, host.list_appends(), len(described(host).members)) == (1_000_000, log, 1)
    assert other.list_appends()[: len(log)] == log
    assert host.send("c", joining("m3")).token == 2


def test_every_step_can_be_watched() -> None:
    """Requests, timers and background tasks alike."""
    host, seen = a_host(), list[Step[object]]()
    host.on_step = seen.append
    host.send("c", joining("m1", "fo+"))
    assert [bool(step.answers) for step in seen] == [True, False]


def test_what_is_public_is_there() -> None:
    """Each name of `__all__`, sorted."""
    assert sorted(fsm.coordinator.__all__) == fsm.coordinator.__all__
    assert all(hasattr(fsm.coordinator, name) for name in fsm.coordinator.__all__)


WRONG_NAMES = ConsumerGroupHeartbeatRequest("g", "m", 0, subscribed_topic_names="orders")  # type: ignore[arg-type]
WRONG_EPOCH = ConsumerGroupHeartbeatRequest("g", "m", "0")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("message", "version", "expected"),
    [
        ({"group": 1}, None, "not a request of the group coordinator: {'group': 1}; send one of ConsumerGroup"),
        (ConsumerGroupHeartbeatRequest, None, "not a request of the group coordinator: <class"),
        (WRONG_NAMES, None, "subscribed_topic_names is 'orders'; give a tuple or None"),
        (WRONG_EPOCH, None, "Request.member_epoch is '0'; give int"),
        (ConsumerGroupHeartbeatRequest("g", "m", 0), -1, "version: -1 is not a version"),
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused_and_nothing_happens(message: object, version: int | None, expected: str) -> None:
    """One clear line; the host goes on as if nothing had been sent."""
    host = Host()
    with pytest.raises(InputError) as refused:
        host.send("app", message, version, now_ms=7)
    assert expected in str(refused.value)
    assert (host.now_ms, host.send("app", ConsumerGroupHeartbeatRequest("g", "m", 0)).token) == (0, 1)


def test_topics_that_are_none_are_refused_and_nothing_happens() -> None:
    """The image stays what it was."""
    host = Host()
    with pytest.raises(InputError, match="topics: 'x' is 3; give a Topic for each name"):
        host.change_topics({"x": 3})  # type: ignore[dict-item]
    assert not host.context.image.topics
