"""What a recording cannot fix, and how much of it is allowed: ties, hash maps, instants near a deadline, metadata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from late_metadata import Late

from fsm.conformance.comparison import FieldDifference, Hashes, Shown, Ties, find_differences, label, labels, sort_runs
from fsm.conformance.follower import IMAGE_KNOWN_MS, RESOLVED_MS, Expectation, Follower
from fsm.conformance.peer import Observed, OwnCoordinator
from fsm.conformance.steps import Response, WalkRequest, WalkStep
from fsm.coordinator.assignors import GroupSpec, MemberSpec
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

NOTHING_EXPECTED = Expectation(frozenset(), 0)
T = "AAAAAAAAAAAAAAAAAAAAAQ"
TEST = "g"


def record(kind: int, member_id: str | None = None, **value: Any) -> dict[str, Any]:
    """A record as Kafka's tools print it; without fields, a tombstone."""
    who = {} if member_id is None else {"memberId": member_id}
    return {"key": {"type": kind, "groupId": TEST, **who}, "value": {"version": 0, **value} if value else None}


def target(member_id: str, *partitions: int) -> dict[str, Any]:
    topics = [{"topicId": T, "partitions": list(partitions)}] if partitions else []
    return record(7, member_id, topicPartitions=topics)


def found(expected: Shown, got: Shown, hashes: Hashes | None = None) -> list[FieldDifference]:
    return list(find_differences(expected, got, hashes or Hashes()))


def written(*records: dict[str, Any]) -> Shown:
    return Shown({}, records, None)


def answered(**body: Any) -> Shown:
    return Shown({3: body}, (), None)


# Comparison.


def test_texts_of_errors_are_not_compared() -> None:
    """Everything else of an answer is, by step and field."""
    assert found(answered(error_message="a", member_epoch=1), answered(error_message="b", member_epoch=2)) == [
        FieldDifference("answer to 3.member_epoch", 1, 2)
    ]


def test_an_answer_too_few_or_too_many_differs() -> None:
    """A request that is answered on one side only is a difference of that step."""
    one = Shown({3: {"error_code": None}}, (), None)
    assert [d.got for d in found(one, Shown({}, (), None))] == ["(absent)"]
    assert [d.expected for d in found(Shown({}, (), None), one)] == ["(absent)"]


def test_topics_of_an_assignment_are_a_set() -> None:
    """Order of topics and partitions says nothing; a partition more does."""
    one = [{"topic_id": "b", "partitions": [1, 0]}, {"topic_id": "a", "partitions": [2]}]
    other = [{"topic_id": "a", "partitions": [2]}, {"topic_id": "b", "partitions": [0, 1]}]
    assert found(answered(topic_partitions=one), answered(topic_partitions=other)) == []
    assert found(answered(topic_partitions=one), answered(topic_partitions=other[:1])) != []


def test_epochs_travel_with_their_partitions() -> None:
    """Assignment epochs are compared partition by partition."""
    one = record(8, "m", assignedPartitions=[{"topicId": T, "partitions": [1, 0], "assignmentEpochs": [5, 3]}])
    same = record(8, "m", assignedPartitions=[{"topicId": T, "partitions": [0, 1], "assignmentEpochs": [3, 5]}])
    other = record(8, "m", assignedPartitions=[{"topicId": T, "partitions": [0, 1], "assignmentEpochs": [5, 3]}])
    assert found(written(one), written(same)) == []
    assert len(found(written(one), written(other))) == 2


def test_instants_count_as_known_or_unknown() -> None:
    """Two computations at different times are equal; a time against none is not (F3, F4)."""
    early, late = (
        record(6, assignmentEpoch=2, assignmentTimestamp=5),
        record(6, assignmentEpoch=2, assignmentTimestamp=9),
    )
    assert found(written(early), written(late)) == []
    assert found(written(early), written(record(6, assignmentEpoch=2))) != []


def test_hashes_are_equal_where_the_others_are() -> None:
    """A hash of our own stands for the recorded one, always the same one; 0, nothing subscribed, stands for itself."""
    hashes = Hashes().learn([record(3, epoch=1, metadataHash=7)], [record(3, epoch=1, metadataHash=70)])
    assert (
        found(written(record(3, epoch=2, metadataHash=7)), written(record(3, epoch=2, metadataHash=70)), hashes) == []
    )
    for expected, got in ((7, 71), (8, 70), (0, 70), (7, 0)):
        pair = (written(record(3, epoch=2, metadataHash=h)) for h in (expected, got))
        assert [d.field for d in found(*pair, hashes)] == ["records[0] 3.metadataHash"], (expected, got)


def test_hashes_that_are_kafkas_stay_kafkas() -> None:
    """Once one was the same to the bit, another number is a difference, also one that was never seen before."""
    kafkas = Hashes().learn([record(3, epoch=1, metadataHash=7)], [record(3, epoch=1, metadataHash=7)])
    own = Hashes().learn([record(3, epoch=1, metadataHash=7)], [record(3, epoch=1, metadataHash=70)])
    later = [written(record(3, epoch=2, metadataHash=h)) for h in (8, 80)]
    assert found(*later, own) == []
    assert [d.field for d in found(*later, kafkas)] == ["records[0] 3.metadataHash"]
    assert found(later[0], later[0], kafkas) == []


def test_records_of_one_type_come_in_any_order() -> None:
    """A run of records of one type is sorted; a record in another place of the sequence is a difference."""
    one = [record(5, "a", epoch=1), target("a", 0), target("b", 1), record(8, "a", memberEpoch=1)]
    other = [one[0], one[2], one[1], one[3]]
    assert found(written(*one), written(*other)) == []
    assert labels(sort_runs(other)) == ["5 a", "7 a", "7 b", "8 a"]
    (difference,) = found(written(*one), written(*one[1:], one[0]))
    assert difference.expected == "5 a, 7 a, 7 b, 8 a"


def test_a_tombstone_is_no_value() -> None:
    """The end of a record and a record are two things, though their keys are equal."""
    assert label(record(8, "a")) == "8t a"
    assert found(written(record(8, "a")), written(record(8, "a", memberEpoch=1))) != []


# Ties.


def spec(*member_ids: str) -> GroupSpec:
    return GroupSpec({member_id: MemberSpec((T,)) for member_id in member_ids}, {T: 3}, homogeneous=True)


COMPUTED = {"a": ((T, (0,)),), "b": ((T, (1, 2)),)}
"""What uniform gives where `a` comes first."""


@pytest.mark.parametrize(
    ("recorded", "adopted"),
    [
        ((target("a", 1, 2), target("b", 0)), 1),
        ((target("a", 0), target("b", 1, 2)), 0),
        ((target("a", 0, 1, 2), target("b")), 0),
        ((target("a", 0, 1), target("b", 1)), 0),
        ((target("a", 0), target("b", 2)), 0),
        ((), 0),
    ],
    ids=["the other way", "the same", "not level", "twice", "one missing", "nothing recorded"],
)
def test_a_target_is_adopted_if_another_order_gives_it(recorded: tuple[dict[str, Any], ...], adopted: int) -> None:
    """A recorded target counts only if uniform gives exactly it for some order of its members or topics."""
    ties = Ties(recorded)
    found = ties.adopt("uniform", spec("a", "b"), COMPUTED)
    assert ties.adopted == adopted
    assert (found == COMPUTED) is not bool(adopted)


def test_range_has_no_ties() -> None:
    """The order of range is that of the members' names."""
    ties = Ties((target("a", 1), target("b", 0, 2)))
    assert ties.adopt("range", spec("a", "b"), COMPUTED) == COMPUTED
    assert ties.adopted == 0


# The clock.

DEADLINE_MS = 45_003
"""A member that joined at 3 ms is thrown out then."""


JOIN = ConsumerGroupHeartbeatRequest(
    TEST, "m1", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=("foo",), topic_partitions=()
)
"""A member joins."""


def request_of(message: ConsumerGroupHeartbeatRequest) -> WalkRequest:
    return WalkRequest("m1", message, 1, "")


def join(peer: OwnCoordinator, n: int = 1, **fields: Any) -> WalkStep:
    """The first step: a member joins."""
    request = request_of(replace(JOIN, **fields))
    return recorded(n, 0, request, peer.ask(n, request, NOTHING_EXPECTED))


def recorded(n: int, t_ms: int, request: WalkRequest | None, observed: Observed) -> WalkStep:
    return WalkStep(n, t_ms, request, 0, None, observed.responses, observed.records, observed.described)


def joined(peer: OwnCoordinator | None = None) -> tuple[OwnCoordinator, Follower]:
    """A peer with one member, and ours that has followed so far."""
    peer = peer or OwnCoordinator("4.4.0", {})
    peer.begin(TEST)
    follower = Follower(TEST, "4.4.0", peer.settings, peer.topics)
    first = join(peer)
    assert follower.follow(first, 3, first.answer) == ()
    return peer, follower


@pytest.mark.parametrize(
    ("until_ms", "fired", "follows", "freedoms"),
    [
        (DEADLINE_MS + 10, True, True, 0),
        (DEADLINE_MS - 10, False, True, 0),
        (DEADLINE_MS - 140, True, True, 1),
        (DEADLINE_MS + 140, False, True, 1),
        (DEADLINE_MS - 160, True, False, 0),
        (DEADLINE_MS + 160, False, False, 0),
    ],
    ids=["due", "not due", "early", "late", "too early", "too late"],
)
def test_a_timer_may_fire_150_ms_off(until_ms: int, fired: bool, follows: bool, freedoms: int) -> None:
    """A session that ends within 150 ms of its deadline is right either way, and counted; beyond that it differs."""
    peer, follower = joined()
    peer.wait(DEADLINE_MS - 100)
    step = recorded(2, 10, None, peer.wait(200) if fired else peer.wait(0))
    assert (follower.follow(step, until_ms, None) == ()) is follows
    assert follower.freedoms.early_or_late == freedoms


@pytest.mark.parametrize("changed_ms", [45_002, 45_004, 45_008], ids=["before both", "between", "after both"])
def test_sessions_may_end_before_a_change_of_topics_is_known(changed_ms: int) -> None:
    """Two of them end about then: the hashes tell what the coordinator knew when it threw a member out."""
    peer, follower = joined()
    for n, member_id in ((2, "m2"), (3, "m3")):
        step = join(peer, n, member_id=member_id)
        assert follower.follow(step, peer.now_ms(), step.answer) == ()
        peer.wait(10_000 if n == 2 else 0)
    grown = recorded(4, peer.now_ms(), None, peer.wait(0))._replace(admin=peer.administer("grow", "foo", 7))
    assert follower.follow(grown, peer.now_ms(), None) == ()
    early = peer.wait(changed_ms - peer.now_ms())
    admin = peer.administer("grow", "foo", 8)
    late = peer.wait(45_600 - peer.now_ms())
    seen = Observed((), (*early.records, *late.records), late.described)
    assert [record["key"]["type"] for record in seen.records] == [8, 7, 5, 3, 8, 7, 5, 3]
    assert follower.follow(recorded(5, 45_000, None, seen)._replace(admin=admin), 45_600, None) == ()
    theirs, ours = (host.state.groups[TEST] for host in (peer.host, follower.host))
    assert isinstance(theirs, ConsumerGroup)
    assert isinstance(ours, ConsumerGroup)
    assert ours.metadata == theirs.metadata


def test_nothing_changes_where_a_step_differs() -> None:
    """After a difference the walk stands where it stood; what our tables decided is kept to be told."""
    peer, follower = joined()
    before = follower.candidates
    peer.wait(DEADLINE_MS)
    wrong = recorded(2, 10, None, peer.wait(0))._replace(responses=(Response(1, 20, ConsumerGroupHeartbeatResponse()),))
    assert "answer to 1" in {difference.field for difference in follower.follow(wrong, 100, None)}
    assert follower.candidates is before


@pytest.mark.parametrize(("later_ms", "follows"), [(RESOLVED_MS - 10, True), (RESOLVED_MS + 10, False)])
def test_a_resolution_is_done_within_five_seconds(later_ms: int, follows: bool) -> None:
    """Regular expressions may be resolved in a later step than the one that asks for it, but not never."""

    class Unresolving(OwnCoordinator):
        def _run_background(self) -> None:
            """Nothing is ever done."""

    peer = Unresolving("4.4.0", {})
    peer.begin(TEST)
    follower = Follower(TEST, "4.4.0", peer.settings, peer.topics)
    first = join(peer, subscribed_topic_names=None, subscribed_topic_regex="fo+")
    assert follower.follow(first, 3, first.answer) == ()
    later = recorded(2, 10, None, peer.wait(later_ms))
    assert [one.field for one in follower.follow(later, 3 + later_ms, None)][:1] == ([] if follows else ["records"])


# Metadata.


def beat(peer: Late, follower: Follower, n: int, **fields: Any) -> Sequence[FieldDifference]:
    """The member's next heartbeat, followed."""
    t_ms = peer.now_ms()
    full = {"subscribed_topic_names": None, "topic_partitions": None, **fields}
    request = request_of(replace(JOIN, member_epoch=epoch_of(peer), rebalance_timeout_ms=-1, **full))
    step = recorded(n, t_ms, request, peer.ask(n, request, NOTHING_EXPECTED))
    return follower.follow(step, peer.now_ms(), step.answer)


def epoch_of(peer: OwnCoordinator) -> int:
    described = peer.wait(0).described
    assert described is not None
    epoch: int = described["members"]["m1"]["epoch"]
    return epoch


def grown(topic: str = "foo", partitions: int = 7) -> tuple[Late, Follower]:
    """A peer that has not handed over that a topic has more partitions, and ours that has followed so far."""
    peer = Late()
    _, follower = joined(peer)
    admin = peer.administer("grow", topic, partitions)
    step = recorded(2, peer.now_ms(), None, peer.wait(0))._replace(admin=admin)
    assert follower.follow(step, peer.now_ms(), None) == ()
    assert follower.freedoms.old_images == 0
    return peer, follower


def test_a_coordinator_may_answer_from_the_metadata_before_a_change() -> None:
    """Up to the bound it may not know the topic's new partition, each such step is counted, and then it knows."""
    peer, follower = grown()
    assert beat(peer, follower, 3) == ()
    peer.wait(IMAGE_KNOWN_MS - 10)
    assert beat(peer, follower, 4) == ()
    assert (follower.freedoms.old_images, len(follower.candidates)) == (2, 2)
    peer.hand_over()
    assert beat(peer, follower, 5) == ()
    assert (follower.freedoms.old_images, len(follower.candidates)) == (2, 1)
    assert follower.host.state.groups == peer.host.state.groups


def test_after_the_bound_old_metadata_is_a_difference() -> None:
    """What is expected then is the new epoch that comes with the new partition."""
    peer, follower = grown()
    peer.wait(IMAGE_KNOWN_MS + 10)
    found = {one.field: (one.expected, one.got) for one in beat(peer, follower, 3)}
    assert found["answer to 3.member_epoch"] == (2, 3)
    assert follower.freedoms.old_images == 0


def test_a_coordinator_never_goes_back_to_old_metadata() -> None:
    """Once it has shown that it knows of the change, an answer that does not is a difference."""
    peer, follower = grown()
    before = peer.host.fork()
    peer.hand_over()
    assert beat(peer, follower, 3) == ()
    assert follower.freedoms.old_images == 0
    peer.host = before
    assert beat(peer, follower, 4) != ()


def test_a_step_that_shows_nothing_decides_nothing() -> None:
    """Steps that are the same with and without the change leave both possible, and are not counted."""
    peer, follower = grown("bar", 4)
    assert beat(peer, follower, 3) == ()
    assert (follower.freedoms.old_images, len(follower.candidates)) == (0, 2)
    assert beat(peer, follower, 4, subscribed_topic_names=("foo", "bar")) == ()
    assert (follower.freedoms.old_images, len(follower.candidates)) == (1, 2)
    peer.hand_over()
    assert beat(peer, follower, 5) == ()
    assert follower.freedoms.old_images == 1


def test_a_deleted_topic_may_be_described_a_little_longer() -> None:
    """The description names topics by the metadata that the coordinator knows."""
    peer = Late()
    _, follower = joined(peer)
    admin = peer.administer("delete", "foo", 0)
    described = peer.wait(0)
    assert described.described is not None
    assert "foo" in described.described["members"]["m1"]["assigned"]
    assert follower.follow(recorded(2, 10, None, described)._replace(admin=admin), 10, None) == ()
    assert follower.freedoms.old_images == 1
    peer.hand_over()
    assert follower.follow(recorded(3, 10, None, peer.wait(0)), 10, None) == ()
    assert (follower.freedoms.old_images, len(follower.candidates)) == (1, 1)


@pytest.mark.parametrize(("later_ms", "follows"), [(140, True), (160, False)])
def test_an_answer_may_be_in_flight_for_150_ms(later_ms: int, follows: bool) -> None:
    """It is seen in the next step, and counted; one that is on its way for longer is missing."""
    peer, follower = joined()
    request = request_of(replace(JOIN, member_epoch=2, topic_partitions=None))
    t_ms, observed = peer.now_ms(), peer.ask(2, request, NOTHING_EXPECTED)
    unseen = recorded(2, t_ms, request, observed._replace(responses=()))
    assert follower.follow(unseen, peer.now_ms(), None) == ()
    assert follower.freedoms.early_or_late == 1
    later = recorded(3, peer.now_ms(), None, peer.wait(later_ms))
    found = follower.follow(later, peer.now_ms(), None)
    assert [one.field for one in found] == ([] if follows else ["answer to 2"])
    seen = later._replace(responses=observed.responses)
    assert follower.follow(seen, peer.now_ms(), None) == ()
