"""Offsets inside transactions: who may commit them, when they count, and what they hold up meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from classic_scene import ClassicScene
from consumer_scene import IDS, START_MS, Scene

from fsm.coordinator.storage.replay import replay_segment
from fsm.protocol.record_batches import CONTROL, TRANSACTIONAL, Batch, LogRecord, batch_of, write_batch

WEEK_MS = 7 * 24 * 3_600_000


def commit(scene: Scene, offset: int, producer_id: int = 5, *, version: int = 3, **fields: Any) -> Any:
    """The error of a TxnOffsetCommit for foo 0."""
    partitions = [
        {"partition_index": fields.pop("partition", 0), "committed_offset": offset, **fields.pop("extra", {})}
    ]
    topic = fields.pop("topic", "foo")
    named = {"topic_id": IDS.get(topic, topic)} if version >= 6 else {"name": topic}
    topics = [{**named, "partitions": partitions}]
    body = {"transactional_id": "t", "producer_id": producer_id, "producer_epoch": 0, "topics": topics, **fields}
    answer = scene.send("TxnOffsetCommit", version, body)
    return answer["topics"][0]["partitions"][0]["error_code"]


def plain(scene: Scene, offset: int) -> Any:
    """The error of an OffsetCommit for foo 0 by nobody."""
    topics = [{"name": "foo", "partitions": [{"partition_index": 0, "committed_offset": offset}]}]
    return scene.send("OffsetCommit", 9, {"topics": topics})["topics"][0]["partitions"][0]["error_code"]


def fetched(scene: Scene, **fields: Any) -> tuple[int, str | None]:
    """Offset and error of an OffsetFetch for foo 0."""
    asked = [{"group_id": "g", "topics": [{"name": "foo", "partition_indexes": [0]}]}]
    (group,) = scene.send("OffsetFetch", 9, {"groups": asked, **fields})["groups"]
    (partition,) = group["topics"][0]["partitions"]
    return partition["committed_offset"], partition["error_code"]


def end(scene: Scene, producer_id: int = 5, *, committed: bool = True) -> None:
    """The transaction of the producer ends."""
    scene.end_transaction(producer_id, commits=committed)


@pytest.mark.parametrize(("committed", "expected"), [(True, 8), (False, 3)])
def test_an_offset_of_a_transaction_counts_with_its_end(committed: bool, expected: int) -> None:
    """Until then the one before is told, and to who asks for stable ones that there is none yet (8.7)."""
    scene = Scene()
    assert (plain(scene, 3), commit(scene, 8)) == (None, None)
    assert (scene.records, scene.last.producer_id) == (["1 foo 0"], 5)
    assert (fetched(scene), fetched(scene, require_stable=True)) == ((3, None), (-1, "unstable_offset_commit"))
    end(scene, committed=committed)
    assert fetched(scene, require_stable=True) == (expected, None)
    assert not scene.state.transactions


def test_the_end_of_another_transaction_is_nothing_to_it() -> None:
    """Each producer has its own; one that has committed no offset has none to end."""
    scene = Scene()
    commit(scene, 8, 5)
    commit(scene, 9, 6, partition=1)
    end(scene, 7)
    end(scene, 6)
    assert fetched(scene, require_stable=True) == (-1, "unstable_offset_commit")
    assert list(scene.state.offsets["g"]) == [("foo", 1)]


def test_what_is_written_later_stays() -> None:
    """An offset committed behind that of a transaction is not overwritten as the transaction commits (8.7)."""
    scene = Scene()
    commit(scene, 8)
    plain(scene, 3)
    end(scene)
    assert fetched(scene) == (3, None)


@pytest.mark.parametrize(("first", "expected"), [(5, 9), (6, 9)])
def test_of_two_transactions_the_later_offset_stays(first: int, expected: int) -> None:
    """Whichever of them commits first; the order in which they were written decides."""
    scene = Scene()
    commit(scene, 8, 5)
    commit(scene, 9, 6)
    end(scene, first)
    end(scene, 11 - first)
    assert fetched(scene) == (expected, None)


def test_an_aborted_transaction_passes_nobody() -> None:
    """Its later offset never was there."""
    scene = Scene()
    commit(scene, 8, 5)
    commit(scene, 9, 6)
    end(scene, 6, committed=False)
    end(scene, 5)
    assert fetched(scene) == (8, None)


def test_an_offset_said_twice_in_a_transaction_is_the_last_one() -> None:
    """And it stands where it was said last: behind an offset that another producer wrote meanwhile."""
    scene = Scene()
    commit(scene, 8, 5)
    commit(scene, 9, 6)
    commit(scene, 10, 5)
    end(scene, 5)
    end(scene, 6)
    assert fetched(scene) == (10, None)


@pytest.mark.parametrize(
    ("release", "version", "expected"),
    [("4.4.0", 6, "group_id_not_found"), ("4.4.0", 5, "illegal_generation"), ("4.3.1", 6, "illegal_generation")],
)
def test_a_group_that_is_not_there(release: str, version: int, expected: str) -> None:
    """F27: told as such from version 6 on in 4.4, as another generation before; without generation one is made."""
    scene = Scene(release)
    assert commit(scene, 8, version=version, generation_id=1, member_id="m") == expected
    assert not scene.state.groups
    assert commit(scene, 8, version=version) is None
    assert scene.state.groups["g"].is_empty


@pytest.mark.parametrize(
    ("release", "version", "expected"),
    [("4.4.0", 6, "stale_member_epoch"), ("4.4.0", 5, "illegal_generation"), ("4.2.0", 6, "illegal_generation")],
)
def test_a_stale_member_epoch(release: str, version: int, expected: str) -> None:
    """F27: as with a group that is not there."""
    scene = Scene(release)
    scene.join("m1", "foo")
    epoch = scene.group.members["m1"].epoch
    assert commit(scene, 8, version=version, generation_id=epoch + 1, member_id="m1") == expected
    assert commit(scene, 8, version=version, generation_id=epoch, member_id="m1") is None
    assert commit(scene, 8, version=version, generation_id=epoch, member_id="x") == "unknown_member_id"


def test_an_older_epoch_may_commit_what_it_was_assigned_at() -> None:
    """Row 7 of 3.11 holds for transactions, too: m1 has foo 0 since epoch 2 and is at 3 now (F8)."""
    scene = Scene()
    scene.join("m1", "foo")
    scene.join("m2", "bar")
    scene.settle()
    assert scene.group.members["m1"].epoch == 3
    assert commit(scene, 8, version=6, generation_id=2, member_id="m1") is None
    assert commit(scene, 8, version=6, generation_id=1, member_id="m1") == "stale_member_epoch"


def test_nobody_in_particular_may_commit_in_a_transaction() -> None:
    """A producer that says neither member nor generation is let into a group with members (row 2 of 3.11)."""
    scene = Scene()
    scene.join("m1", "foo")
    assert plain(scene, 3) == "unknown_member_id"
    assert commit(scene, 8) is None
    assert commit(scene, 8, group_instance_id="i") == "unknown_member_id"


def test_a_member_of_a_rebalancing_classic_group_may() -> None:
    """Its generation is enough, and its session is not kept alive by it (5.5)."""
    scene = ClassicScene()
    leader, _ = scene.enter("a", "b")
    deadline_ms = scene.classic.heartbeat_deadlines_ms[leader]
    scene.wait(1_000)
    assert scene.states == "CompletingRebalance"
    assert commit(scene, 8, generation_id=1, member_id=leader) is None
    assert commit(scene, 8, generation_id=2, member_id=leader) == "illegal_generation"
    assert scene.classic.heartbeat_deadlines_ms[leader] == deadline_ms


def test_partitions_are_refused_one_by_one() -> None:
    """One that does not exist, one whose metadata is too long; a blank group id refuses them all."""
    scene = Scene()
    assert commit(scene, 8, partition=7) == "unknown_topic_or_partition"
    assert commit(scene, 8, extra={"committed_metadata": "x" * 4_097}) == "offset_metadata_too_large"
    assert commit(scene, 8, group_id="") == "invalid_group_id"
    assert (scene.records, scene.last.producer_id) == ([], None)


def test_a_partition_with_too_much_metadata_is_not_asked_for_its_epoch() -> None:
    """It is refused on its own; the rest of the request counts (by Kafka's order of checks)."""
    scene = Scene()
    scene.join("m1", "foo")
    scene.join("m2", "bar")
    scene.settle()
    long = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "x" * 4_097}
    topics = [
        {"name": "bar", "partitions": [long]},
        {"name": "foo", "partitions": [{"partition_index": 0, "committed_offset": 1}]},
    ]
    body = {"generation_id_or_member_epoch": 2, "member_id": "m1", "topics": topics}
    answer = scene.send("OffsetCommit", 9, body)
    codes = [topic["partitions"][0]["error_code"] for topic in answer["topics"]]
    assert codes == ["offset_metadata_too_large", None]


def test_a_deleted_offset_is_not_pending_any_more() -> None:
    """OffsetDelete and DeleteGroups end what waits; a partition that has both offsets gets one tombstone."""
    scene = Scene()
    plain(scene, 3)
    commit(scene, 8)
    commit(scene, 9, partition=1)
    scene.send("OffsetDelete", 0, {"topics": [{"name": "foo", "partitions": [{"partition_index": 1}]}]})
    assert scene.records == ["1t foo 1"]
    assert fetched(scene, require_stable=True) == (-1, "unstable_offset_commit")
    scene.send("DeleteGroups", 2, {"groups_names": ["g"]})
    assert scene.records == ["1t foo 0", "2t"]
    end(scene)
    assert not scene.state.offsets
    assert not scene.state.transactions


def test_pending_offsets_of_a_deleted_topic_go() -> None:
    """Each producer's, and the committed one before them."""
    scene = Scene()
    plain(scene, 3)
    commit(scene, 8, 5)
    commit(scene, 9, 6)
    scene.topic("foo", 0)
    assert scene.records == ["1t foo 0", "1t foo 0", "1t foo 0"]
    end(scene, 5)
    assert not scene.state.offsets


def cleaned(scene: Scene) -> list[str]:
    """The records of a clean-up after a week."""
    return scene.clean_up(START_MS + WEEK_MS)


def test_an_offset_does_not_expire_under_a_transaction() -> None:
    """Nor does its group; with the end of the transaction both may go."""
    scene = Scene()
    plain(scene, 3)
    commit(scene, 8)
    assert cleaned(scene) == []
    end(scene, committed=False)
    assert cleaned(scene) == ["1t foo 0", "2t"]


@pytest.mark.parametrize(("release", "keeps"), [("4.0.0", False), ("4.0.1", True), ("4.4.0", True)])
def test_a_group_with_nothing_but_pending_offsets(release: str, keeps: bool) -> None:
    """F26: 4.0.0 takes it for one without offsets and ends it."""
    scene = Scene(release)
    commit(scene, 8)
    assert (cleaned(scene) == []) is keeps
    assert ("g" in scene.state.groups) is keeps
    end(scene)
    assert scene.state.offsets["g"]["foo", 0].offset == 8


def marker(base: int, producer_id: int, *, committed: bool) -> Batch:
    """The control batch that ends a transaction."""
    record = LogRecord(base, START_MS, b"\0\0" + int(committed).to_bytes(2, "big"), b"\0\0\0\0\0\0")
    return Batch(base, (record,), attributes=TRANSACTIONAL | CONTROL, producer_id=producer_id)


def test_a_log_cut_inside_a_transaction_says_so() -> None:
    """What is replayed is what was known at that batch, also what waits and what was passed (8.5, 8.7)."""
    scene, batches, seen = Scene(), list[Batch](), [Scene().state]
    steps: list[Mapping[str, Any]] = [
        {"offset": 8, "producer_id": 5}, {"offset": 3}, {"offset": 9, "producer_id": 6}, {"ends": 6}, {"ends": 5},
    ]  # fmt: skip
    for at, step in enumerate(steps):
        if "ends" in step:
            end(scene, step["ends"])
            batches.append(marker(at, step["ends"], committed=True))
        else:
            commit(scene, **step) if "producer_id" in step else plain(scene, step["offset"])
            mine = {"producer_id": step["producer_id"], "attributes": TRANSACTIONAL} if "producer_id" in step else {}
            batches.append(batch_of(at, scene.last.records, START_MS, **mine))
        seen.append(scene.state)
    for cut, expected in enumerate(seen):
        found = replay_segment(b"".join(map(write_batch, batches[:cut])), scene.context.dialect).state
        assert (found.offsets, found.transactions) == (expected.offsets, expected.transactions)
        assert list(found.groups) == list(expected.groups)
        rest = replay_segment(b"".join(map(write_batch, batches[cut:])), scene.context.dialect, found).state
        assert rest.offsets == seen[-1].offsets
    assert seen[-1].offsets["g"]["foo", 0].offset == 9
    assert seen[3].transactions["g"]["foo", 0][1].commit is not None


def test_from_version_6_on_topics_come_by_id() -> None:
    """KIP-1319: the answer has the id, too; one that nobody knows is told as such, for each of its partitions."""
    scene = Scene()
    topic = {"topic_id": IDS["foo"], "partitions": [{"partition_index": 0, "committed_offset": 8}]}
    unknown = {"topic_id": "_" * 22, "partitions": [{"partition_index": 1, "committed_offset": 8}]}
    body = {"transactional_id": "t", "producer_id": 5, "producer_epoch": 0, "topics": [topic, unknown]}
    answer = scene.send("TxnOffsetCommit", 6, body)["topics"]
    assert [(found["topic_id"], found["partitions"][0]["error_code"]) for found in answer] == [
        ("_" * 22, "unknown_topic_id"),
        (IDS["foo"], None),
    ]
    end(scene, 5)
    assert fetched(scene) == (8, None)


@pytest.mark.parametrize(("version", "strange"), [(5, "unknown_topic_or_partition"), (6, "unknown_topic_id")])
def test_a_refused_commit_tells_what_does_not_exist(version: int, strange: str) -> None:
    """Only what exists has the error of the group, whether topics come by name or by id."""
    scene = Scene()
    scene.join("m1", "foo")
    assert commit(scene, 8, version=version, topic="_" * 22, generation_id=2, member_id="m9") == strange
    assert commit(scene, 8, version=version, partition=7, member_id="m9") == "unknown_topic_or_partition"
    assert commit(scene, 8, version=version, generation_id=2, member_id="m9") == "unknown_member_id"
    assert not scene.state.transactions
