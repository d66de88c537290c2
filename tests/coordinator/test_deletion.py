"""DeleteGroups and OffsetDelete."""

from __future__ import annotations

from typing import Any

from classic_scene import ClassicScene


def commit(scene: ClassicScene, **topics: int) -> None:
    """Offsets of one partition each, by nobody's member."""
    body = {
        "member_id": "",
        "generation_id_or_member_epoch": -1,
        "topics": [
            {"name": name, "partitions": [{"partition_index": number, "committed_offset": 5}]}
            for name, number in topics.items()
        ],
    }
    answer = scene.ask("commit", "OffsetCommit", 9, body)
    assert answer["topics"][0]["partitions"][0]["error_code"] is None


def delete(scene: ClassicScene, *group_ids: str) -> dict[str, Any]:
    """The error of each group."""
    answer = scene.ask("delete", "DeleteGroups", 2, {"groups_names": list(group_ids)})
    return {result["group_id"]: result["error_code"] for result in answer["results"]}


def forget(scene: ClassicScene, **topics: int) -> dict[str, Any]:
    """The error of each topic's partition."""
    sent = [{"name": name, "partitions": [{"partition_index": number}]} for name, number in topics.items()]
    answer = scene.ask("forget", "OffsetDelete", 0, {"topics": sent})
    return {t["name"]: t["partitions"][0]["error_code"] for t in answer["topics"]} or answer["error_code"]


def test_an_empty_consumer_group_is_deleted_with_its_offsets() -> None:
    """Offsets first, then the group's own records."""
    scene = ClassicScene()
    scene.join("m1", "foo")
    scene.beat("m1", -1)
    commit(scene, foo=1)
    assert delete(scene, "g") == {"g": None}
    assert [record.split()[0] for record in scene.records] == ["1t", "6t", "4t", "3t"]
    assert ("g" in scene.state.groups, "g" in scene.state.offsets) == (False, False)


def test_an_empty_classic_group_is_deleted() -> None:
    """A simple one, too, that only ever held offsets."""
    scene = ClassicScene()
    commit(scene, foo=0, bar=0)
    assert delete(scene, "g", "other") == {"g": None, "other": "group_id_not_found"}
    assert [record.split()[0] for record in scene.records] == ["1t", "1t", "2t"]


def test_groups_with_members_stay() -> None:
    """Of either type."""
    scene = ClassicScene()
    scene.join("m1", "foo")
    assert delete(scene, "g") == {"g": "non_empty_group"}
    classic = ClassicScene()
    classic.stable("a")
    assert delete(classic, "g") == {"g": "non_empty_group"}
    assert (classic.records, classic.states) == ([], "Stable")


def test_offsets_of_topics_that_somebody_reads_stay() -> None:
    """Those of others go; of what was never committed there is nothing to write."""
    scene = ClassicScene(topics={"foo": 2, "bar": 1})
    commit(scene, foo=0, bar=0)
    scene.join("m1", "foo")
    assert forget(scene, foo=0, bar=0, baz=0) == {
        "foo": "group_subscribed_to_topic",
        "bar": None,
        "baz": "unknown_topic_or_partition",
    }
    assert [record.split()[0] for record in scene.records] == ["1t"]
    assert forget(scene, bar=0) == {"bar": None}
    assert scene.records == []


def test_a_classic_group_knows_its_topics_while_it_can_read_them() -> None:
    """Consumers are read; a group of another type must be empty."""
    scene = ClassicScene()
    scene.stable("a")
    assert forget(scene, foo=0, bar=0) == {"foo": "group_subscribed_to_topic", "bar": None}
    worker = ClassicScene()
    protocols = [{"name": "default", "metadata": "AAE="}]
    member_id = worker.come(fresh_id="w", protocol_type="connect", protocols=protocols)["member_id"]
    worker.come(member_id, protocol_type="connect", protocols=protocols)
    assert forget(worker, foo=0) == "non_empty_group"


def test_offsets_of_an_unknown_group_cannot_go() -> None:
    """GROUP_ID_NOT_FOUND on top of the answer."""
    assert forget(ClassicScene(), foo=0) == "group_id_not_found"
