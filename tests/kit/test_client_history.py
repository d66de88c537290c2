"""Who is who in a trace, and when what was known: exchanges made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fsm.kit import judge
from fsm.kit.check import Grade
from fsm.kit.client_history import What, follow
from fsm.kit.documents import format_story, picture
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from fsm.wire import Exchange, Note

FOO = "6NXPbd4PXneao5EJPN-_Yg"
TOPICS = Note(0, "topics", {"topics": [["foo", FOO, 4]]})
JOIN = ConsumerGroupHeartbeatRequest(
    "g", "m-1", 0, rebalance_timeout_ms=300_000, subscribed_topic_names=("foo",), topic_partitions=()
)
KEEPALIVE = ConsumerGroupHeartbeatRequest("g", "m-1", 1)
ALL = ((FOO, (0, 1)),)


def beat(at_ms: float, request: Any, client: str = "app", connection: int = 1, **answer: Any) -> Exchange:
    """A heartbeat that is answered at once, as all is well."""
    epoch = answer.pop("epoch", max(request.member_epoch, 1))
    response = ConsumerGroupHeartbeatResponse(epoch, 1_000, member_id=request.member_id, **answer)
    return Exchange(at_ms, connection, client, "ConsumerGroupHeartbeat", 1, request, at_ms, response)


def application(at_ms: float, event: str, client: str = "app") -> Note:
    """What its application says."""
    return Note(at_ms, "application", {"client": client, "ev": event, "partitions": [["foo", 0], ["foo", 1]]})


def broken(*seen: Exchange | Note) -> set[str]:
    """The checks that fail."""
    return {finding.check.id for finding in judge(seen).findings}


def test_clients_that_share_a_client_id_are_told_apart() -> None:
    """By their member ids, since they live at the same time; each is judged by itself."""
    other = {"client": "app", "connection": 2}
    seen = [
        beat(0, JOIN),
        beat(300, replace(JOIN, member_id="m-2"), **other),
        *(beat(1_000 * n, KEEPALIVE) for n in range(1, 4)),
        *(beat(1_000 * n + 300, replace(KEEPALIVE, member_id="m-2"), **other) for n in range(1, 4)),
    ]
    assert {moment.client.name for moment in follow(seen)} == {"app/m-1", "app/m-2"}
    assert broken(*seen) == set()


def test_one_client_after_the_other_is_one_client() -> None:
    """A process that was restarted has another member id and other connections; that breaks nothing."""
    goodbye = beat(1_000, replace(KEEPALIVE, member_epoch=-1), epoch=-1)
    again = beat(2_000, replace(JOIN, member_id="m-2"), connection=2)
    seen = [beat(0, JOIN), goodbye, Note(1_001, "disconnected", {"connection": 1}), again]
    assert {moment.client.name for moment in follow(seen)} == {"app"}
    assert broken(*seen) == set()


def test_a_trace_may_begin_in_its_midst() -> None:
    """What was before is not known, so nothing is held against it."""
    owner = replace(KEEPALIVE, member_epoch=7)
    seen = [beat(1_000 * n, owner, epoch=7) for n in range(4)]
    assert broken(*seen, beat(4_000, replace(owner, topic_partitions=ALL), epoch=7)) == set()
    assert broken(*seen, beat(4_000, replace(owner, member_epoch=9), epoch=9)) == {"H5"}


def test_an_answer_comes_before_what_follows_at_the_same_instant() -> None:
    """The order of the trace counts where times are the same."""
    given = beat(0, JOIN, assignment=ALL)
    acknowledged = beat(0, replace(KEEPALIVE, topic_partitions=ALL))
    assert broken(TOPICS, given, acknowledged) == set()
    assert broken(TOPICS, acknowledged, given) != set()


def test_what_an_application_says_may_be_heard_late() -> None:
    """A little; an acknowledgement long before the callback has returned breaks a rule."""
    given = beat(0, JOIN, assignment=ALL)
    acknowledged = beat(10, replace(KEEPALIVE, topic_partitions=ALL))
    soon, late = application(90, "assigned"), application(900, "assigned")
    assert broken(TOPICS, given, application(5, "assign"), acknowledged, soon) == set()
    assert broken(TOPICS, given, application(5, "assign"), acknowledged, late) == {"R7"}


def test_a_connection_that_was_given_up_is_not_waited_for() -> None:
    """A broker learns late that it was: a heartbeat on another one may follow, on the same one it may not."""
    late = beat(1_000, KEEPALIVE)._replace(answered_ms=3_500.0)
    assert broken(TOPICS, beat(0, JOIN), late, beat(3_000, KEEPALIVE, connection=2)) - {"E2"} == set()
    assert "H4" in broken(TOPICS, beat(0, JOIN), late, beat(3_000, KEEPALIVE))


def test_a_fetch_under_way_may_bring_what_was_to_be_read() -> None:
    """Offsets that were committed are told meanwhile: the next fetch begins behind it, but no further fetch does."""
    given = beat(0, JOIN, assignment=((FOO, (0,)),))
    acknowledged = beat(0, replace(KEEPALIVE, topic_partitions=((FOO, (0,)),)))

    def fetch(at_ms: float, offset: int, answered_ms: float) -> Exchange:
        topics = (FetchTopic("foo", FOO, (FetchPartition(0, fetch_offset=offset),)),)
        return Exchange(at_ms, 2, "app", "Fetch", 16, FetchRequest(topics=topics), answered_ms, FetchResponse())

    asked = OffsetFetchRequestGroup("g", "m-1", 1, (OffsetFetchRequestTopics("foo", partition_indexes=(0,)),))
    group = OffsetFetchResponseGroup(
        "g", (OffsetFetchResponseTopics("foo", FOO, (OffsetFetchResponsePartitions(0, 22),)),)
    )
    request, response = OffsetFetchRequest(groups=(asked,), require_stable=True), OffsetFetchResponse(groups=(group,))
    exchange = Exchange(200, 1, "app", "OffsetFetch", 9, request, 200, response)
    assert broken(TOPICS, given, acknowledged, fetch(100, 22, 300), exchange, fetch(310, 23, 400)) == set()
    assert broken(TOPICS, given, acknowledged, fetch(100, 21, 300), exchange, fetch(310, 23, 400)) == {"F4"}


def test_a_finding_has_its_story() -> None:
    """What was said around it, in order, with the finding in its place; as text and as a picture."""
    refused = beat(1_000, KEEPALIVE, error_code=ErrorCode.FENCED_MEMBER_EPOCH, epoch=0)
    seen = [TOPICS, beat(0, JOIN), refused, beat(2_000, KEEPALIVE)]
    report = judge(seen)
    (finding,) = [one for one in report.findings if one.check.id == "E4"]
    assert finding.check.grade is Grade.MUST
    lines = list(format_story(finding, seen, 0))
    assert [line.split(maxsplit=1)[1] for line in lines] == [
        "-> Heartbeat epoch 0 with rebalance timeout, topics, 0 owned partitions",
        "<- epoch 1",
        "-> Heartbeat epoch 1",
        "<- FENCED_MEMBER_EPOCH",
        "-> Heartbeat epoch 1",
        "<- epoch 1",
        "!! E4: expected epoch 0 after FENCED_MEMBER_EPOCH; got epoch 1",
    ]
    assert "FENCED_MEMBER_EPOCH" in picture(finding, seen, 0)


def test_a_story_begins_with_the_heartbeat_that_was_not_answered() -> None:
    """However long the client waited for it."""
    muted = beat(1_000, KEEPALIVE)._replace(answered_ms=None, response=None)
    seen = [TOPICS, beat(0, JOIN), muted, beat(9_000, KEEPALIVE)]
    (finding,) = [one for one in judge(seen).findings if one.check.id == "E2"]
    assert [line.split(maxsplit=1)[1] for line in format_story(finding, seen, 0)][:2] == [
        "-> Heartbeat epoch 1",
        "!! no answer",
    ]


def test_the_end_is_a_moment_of_every_client() -> None:
    """What was left undone is seen there."""
    seen = [beat(0, JOIN), beat(0, replace(JOIN, member_id="m-2"), client="other", connection=2)]
    ends = [moment.client.name for moment in follow(seen) if moment.what is What.END]
    assert ends == ["app", "other"]
    assert list(follow([])) == []


def test_who_was_looking_for_the_coordinator_already_need_not_ask_again() -> None:
    """The answer to what was asked before comes after it is told that it asks the wrong broker.

    Or it asks at once with the next request, over another connection, of which the other one may be seen first.
    """

    def search(at_ms: float, answered_ms: float) -> Exchange:
        request, response = FindCoordinatorRequest(coordinator_keys=("g",)), FindCoordinatorResponse()
        return Exchange(at_ms, 2, "app", "FindCoordinator", 6, request, answered_ms, response)

    def classic(at_ms: float, code: ErrorCode = ErrorCode.NONE) -> Exchange:
        request, response = HeartbeatRequest("g", 1, "m-1"), HeartbeatResponse(error_code=code)
        return Exchange(at_ms, 1, "app", "Heartbeat", 4, request, at_ms + 10, response)

    refused = classic(1_000, ErrorCode.NOT_COORDINATOR)
    assert broken(refused, classic(1_200)) == {"K14"}
    assert broken(search(990, 995), refused, classic(1_200)) == {"K14"}
    assert broken(search(990, 1_100), refused, classic(1_200)) == set()
    assert broken(refused, search(1_020, 1_100), classic(1_200)) == set()
    assert broken(refused, classic(1_200), search(1_201, 1_300)) == set()
    assert broken(refused, classic(1_200), search(1_220, 1_300)) == {"K14"}


def test_the_end_of_a_callback_needs_no_partitions() -> None:
    """An adapter may report only that the callback has returned."""
    end = {"client": "app"}
    revoke = Note(20, "application", end | {"ev": "revoke", "partitions": [["foo", 1]]})
    notes = [application(10, "assign"), Note(11, "application", end | {"ev": "assigned"})]
    notes += [revoke, Note(21, "application", end | {"ev": "revoked"})]
    *_, last = follow([TOPICS, beat(5, JOIN, assignment=ALL), *notes, beat(30, KEEPALIVE)])
    assert last.application.holding == {("foo", 0)}
