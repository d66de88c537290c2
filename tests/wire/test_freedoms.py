"""What a recording cannot fix, and how much of it is allowed: ties, orders of hash maps, instants near a deadline."""

from __future__ import annotations

from typing import Any

import pytest

from fsm.coordinator.assignors import GroupSpec, MemberSpec
from fsm.coordinator.comparison import FieldDifference, Hashes, Shown, differences, in_runs, label, labels
from fsm.coordinator.consumer_group import ConsumerGroup
from fsm.coordinator.recording import Asked, RecordedStep, Recording, Response
from fsm.coordinator.ties import Ties
from fsm.coordinator.walk import Foreseen, Walk, begin
from fsm.wire.own import Own
from fsm.wire.peer import Observed

NOTHING_FORESEEN = Foreseen(frozenset(), 0)
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
    return list(differences(expected, got, hashes or Hashes()))


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
    hashes = Hashes().knowing([record(3, epoch=1, metadataHash=7)], [record(3, epoch=1, metadataHash=70)])
    assert (
        found(written(record(3, epoch=2, metadataHash=7)), written(record(3, epoch=2, metadataHash=70)), hashes) == []
    )
    for expected, got in ((7, 71), (8, 70), (0, 70), (7, 0)):
        pair = (written(record(3, epoch=2, metadataHash=h)) for h in (expected, got))
        assert [d.field for d in found(*pair, hashes)] == ["records[0] 3.metadataHash"], (expected, got)


def test_hashes_that_are_kafkas_stay_kafkas() -> None:
    """Once one was the same to the bit, another number is a difference, also one that was never seen before."""
    kafkas = Hashes().knowing([record(3, epoch=1, metadataHash=7)], [record(3, epoch=1, metadataHash=7)])
    own = Hashes().knowing([record(3, epoch=1, metadataHash=7)], [record(3, epoch=1, metadataHash=70)])
    later = [written(record(3, epoch=2, metadataHash=h)) for h in (8, 80)]
    assert found(*later, own) == []
    assert [d.field for d in found(*later, kafkas)] == ["records[0] 3.metadataHash"]
    assert found(later[0], later[0], kafkas) == []


def test_records_of_one_type_come_in_any_order() -> None:
    """A run of records of one type is sorted; a record in another place of the sequence is a difference."""
    one = [record(5, "a", epoch=1), target("a", 0), target("b", 1), record(8, "a", memberEpoch=1)]
    other = [one[0], one[2], one[1], one[3]]
    assert found(written(*one), written(*other)) == []
    assert labels(in_runs(other)) == ["5 a", "7 a", "7 b", "8 a"]
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


def join(peer: Own, n: int = 1, **fields: Any) -> RecordedStep:
    """The first step: a member joins."""
    body = {
        "group_id": TEST,
        "member_id": "m1",
        "member_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": ["foo"],
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [],
        **fields,
    }
    asked = Asked("m1", "ConsumerGroupHeartbeat", 1, body, "join")
    return recorded(n, 0, asked, peer.ask(n, asked, NOTHING_FORESEEN))


def recorded(n: int, t_ms: int, asked: Asked | None, observed: Observed) -> RecordedStep:
    return RecordedStep(n, t_ms, asked, 0, None, observed.responses, observed.records, observed.described)


def joined() -> tuple[Own, Walk]:
    """A peer with one member, and a walk that has followed so far."""
    peer = Own("4.4.0", {})
    peer.begin(TEST)
    walk = begin(Recording("w", "4.4.0", "timers", TEST, peer.settings, True, peer.topics, ()))
    first = join(peer)
    assert walk.step(first, 3, first.responses[0].body) == []
    return peer, walk


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
    peer, walk = joined()
    peer.wait(DEADLINE_MS - 100)
    step = recorded(2, 10, None, peer.wait(200) if fired else peer.wait(0))
    assert (walk.step(step, until_ms, None) == []) is follows
    assert walk.early_or_late == freedoms


@pytest.mark.parametrize("changed_ms", [45_002, 45_004, 45_008], ids=["before both", "between", "after both"])
def test_sessions_may_end_before_a_change_of_topics_is_known(changed_ms: int) -> None:
    """Two of them end about then: the hashes tell what the coordinator knew when it threw a member out."""
    peer, walk = joined()
    for n, member_id in ((2, "m2"), (3, "m3")):
        step = join(peer, n, member_id=member_id)
        assert walk.step(step, peer.now_ms(), step.responses[0].body) == []
        peer.wait(10_000 if n == 2 else 0)
    grown = recorded(4, peer.now_ms(), None, peer.wait(0))._replace(admin=peer.administer("grow", "foo", 7))
    assert walk.step(grown, peer.now_ms(), None) == []
    early = peer.wait(changed_ms - peer.now_ms())
    admin = peer.administer("grow", "foo", 8)
    late = peer.wait(45_600 - peer.now_ms())
    seen = Observed((), (*early.records, *late.records), late.described)
    assert [record["key"]["type"] for record in seen.records] == [8, 7, 5, 3, 8, 7, 5, 3]
    assert walk.step(recorded(5, 45_000, None, seen)._replace(admin=admin), 45_600, None) == []
    theirs, ours = (state.groups[TEST] for state in (peer.state, walk.state))
    assert isinstance(theirs, ConsumerGroup)
    assert isinstance(ours, ConsumerGroup)
    assert ours.metadata == theirs.metadata


@pytest.mark.parametrize(
    ("at_ms", "unsure_ms"),
    [(9_852, 0), (9_853, 301), (10_003, 151), (10_153, 1), (10_154, 0), (599_852, 0), (600_003, 151), (600_154, 0)],
)
def test_a_resolution_is_unsure_around_two_instants(at_ms: int, unsure_ms: int) -> None:
    """10 s after the patterns were resolved, at 3 ms, a new one is; after ten minutes all are: 150 ms around, wait."""
    peer = Own("4.4.0", {})
    peer.begin(TEST)
    walk = begin(Recording("w", "4.4.0", "regex", TEST, peer.settings, True, peer.topics, ()))
    first = join(peer, subscribed_topic_names=None, subscribed_topic_regex="fo+")
    assert walk.step(first, 3, first.responses[0].body) == []
    assert walk.unsure_ms(at_ms) == unsure_ms


def test_nothing_changes_where_a_step_differs() -> None:
    """After a difference the walk stands where it stood; what our tables decided is kept to be told."""
    peer, walk = joined()
    before = walk.state
    peer.wait(DEADLINE_MS)
    wrong = recorded(2, 10, None, peer.wait(0))._replace(responses=(Response(1, 20, {"error_code": None}),))
    assert "answer to 1" in {difference.field for difference in walk.step(wrong, 100, None)}
    assert walk.state is before
