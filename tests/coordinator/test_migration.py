"""Online migration: upgrade, downgrade, policies. Sections 6.1 and 6.3 to 6.7 of the reference."""

from __future__ import annotations

from base64 import b64encode

import pytest
from classic_scene import ClassicScene, given, subscribed

from fsm.protocol.consumer_protocol import Assignment, encode_assignment
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.records import ClassicGroup


def upgraded(release: str = "4.4.0") -> ClassicScene:
    """A classic group of a and b in generation 1, into which m1 came with the consumer protocol."""
    scene = ClassicScene(release)
    scene.stable("a", "b")
    scene.join("m1", "foo")
    return scene


def test_an_upgrade_and_its_joiner_are_one_step() -> None:
    """The generation is the epoch of the conversion; the joiner bumps it, so 1 is only seen in the records."""
    scene = upgraded()
    time = scene.context.now_ms
    assert scene.records[0] == "2t"
    assert [r for r in scene.records if r.startswith(("3", "6"))] == [
        "3 epoch 1", "6 epoch 1 at 0", "3 epoch 2", f"6 epoch 2 at {time}",
    ]  # fmt: skip
    kinds = [r.split()[0] for r in scene.records]
    assert kinds[:9] == ["2t", "5", "5", "3", "7", "7", "6", "8", "8"]
    assert (kinds[9:11], kinds[-2:], set(kinds[11:-2])) == (["5", "3"], ["6", "8"], {"7"})


def test_classic_members_keep_what_they_have_through_an_upgrade() -> None:
    """At the epoch of their generation, which stays valid until they are told to rejoin."""
    scene = upgraded()
    members = scene.described["members"]
    assert {i: (m["epoch"], m["assigned"], m["classic"]) for i, m in members.items() if i != "m1"} == {
        "client-a": (1, {"foo": [0]}, True),
        "client-b": (1, {"foo": [1]}, True),
    }
    assert scene.pulse("client-a", 1) == "rebalance_in_progress"


def test_a_static_member_takes_its_place_without_a_bump() -> None:
    """The first step of the design document: nothing changes but the protocol. In 4.0.0 the group is bumped (F21b)."""
    scene = _static_group("4.4.0")
    answer = scene.join("m1", "foo", instance_id="i1")
    assert (answer["member_epoch"], scene.group.epoch, scene.group.target_epoch) == (1, 1, 1)
    assert scene.described["members"]["m1"]["assigned"] == {"foo": [0]}
    older = _static_group("4.0.0")
    assert older.join("m1", "foo", instance_id="i1")["member_epoch"] == 2


def _static_group(release: str) -> ClassicScene:
    """A classic group of the static member i1, that has foo 0, and the dynamic member b."""
    scene = ClassicScene(release)
    scene.come(name="s", fresh_id="a", group_instance_id="i1")
    member_id = scene.come(fresh_id="b")["member_id"]
    scene.come(member_id)
    scene.wait(6_000)
    scene.share(member_id, 1)
    scene.share("i1-a", 1, assigns={"i1-a": {"foo": [0]}, member_id: {"foo": [1]}}, group_instance_id="i1")
    return scene


def test_members_that_wait_are_told_to_rejoin() -> None:
    """A delayed join of the classic group gets REBALANCE_IN_PROGRESS when the group is converted."""
    scene = ClassicScene()
    first, second = scene.stable("a", "b")
    scene.come(first)
    assert first not in scene.answered or scene.answered[first]["generation_id"] == 1
    scene.join("m1", "foo")
    assert scene.answered[first]["error_code"] == "rebalance_in_progress"
    assert scene.described["members"].keys() == {first, second, "m1"}


def test_an_empty_classic_group_makes_way_whatever_the_policy() -> None:
    """Its generation is forgotten."""
    scene = ClassicScene(group_consumer_migration_policy="disabled")
    scene.go(*scene.stable("a"))
    answer = scene.join("m1", "foo")
    assert (answer["member_epoch"], scene.records[0], scene.described["type"]) == (2, "2t", "consumer")


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ("disabled", "group_id_not_found"),
        ("downgrade", "group_id_not_found"),
        ("something", "group_id_not_found"),
        ("upgrade", None),
        ("Bidirectional", None),
    ],
)
def test_the_policy_says_whether_a_group_is_upgraded(policy: str, code: str | None) -> None:
    """An unknown one is none; case does not matter."""
    scene = ClassicScene(group_consumer_migration_policy=policy)
    scene.stable("a")
    assert scene.join("m1", "foo")["error_code"] == code
    assert scene.described["type"] == ("consumer" if code is None else "classic")


def test_only_a_join_upgrades() -> None:
    """A heartbeat at another epoch finds no consumer group."""
    scene = ClassicScene()
    scene.stable("a")
    assert scene.beat("m1", 1)["error_code"] == "group_id_not_found"


def test_a_group_of_another_protocol_type_is_not_upgraded() -> None:
    """What its members say means nothing to the coordinator."""
    scene = ClassicScene()
    worker = {"protocol_type": "connect", "protocols": [{"name": "range", "metadata": subscribed("foo")}]}
    scene.come(scene.come(fresh_id="w", **worker)["member_id"], **worker)
    assert scene.join("m1", "foo")["error_code"] == "group_id_not_found"


def test_a_group_that_is_too_large_is_not_upgraded() -> None:
    """The size limit of consumer groups counts; a member whose join is delayed is not told anything."""
    scene = ClassicScene(group_consumer_max_size=1)
    first, _ = scene.stable("a", "b")
    scene.come(first)
    scene.join("m1", "foo")
    assert scene.last.answers[0].body.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert len(scene.last.answers) == 1


def test_an_assignor_with_state_in_assignments_forbids_the_upgrade() -> None:
    """Its user data would be lost (F21). A member whose join was delayed has been told to rejoin all the same."""
    scene = ClassicScene()
    first, second = scene.enter("a", "b")
    scene.share(second, 1)
    data = b64encode(encode_assignment(Assignment((("foo", 0),), b"mine"), 1)).decode()
    scene.share(first, 1, {"assignments": [{"member_id": first, "assignment": data}]})
    scene.come(second, protocols=[{"name": "range", "metadata": subscribed("bar")}])
    assert scene.join("m1", "foo")["error_code"] == "group_id_not_found"
    assert scene.answered[second]["error_code"] == "rebalance_in_progress"
    assert (scene.described["type"], scene.records) == ("classic", [])


def test_a_group_without_a_generation_has_nothing_to_upgrade() -> None:
    """No protocol is chosen yet, and Kafka stumbles over that."""
    scene = ClassicScene()
    scene.come(scene.come(fresh_id="a")["member_id"])
    assert scene.join("m1", "foo")["error_code"] == "unknown_server_error"
    assert scene.described["state"] == "PreparingRebalance"


def test_the_last_consumer_member_leaves_a_classic_group_behind() -> None:
    """Its generation is the group epoch; everybody holds the target as bytes, and a rebalance begins."""
    scene = _mixed_pair()
    epoch = scene.group.epoch
    scene.beat("m1", -1)
    assert [r.split()[0] for r in scene.records] == ["8t", "8t", "7t", "7t", "6t", "5t", "5t", "4t", "3t", "2"]
    (written,) = [record.value for record in scene.last.records if isinstance(record.value, ClassicGroup)]
    assert (written.generation, written.protocol, written.leader) == (epoch, "range", "c")
    assert given(scene.described["members"]["c"]["assignment"]) == {"foo": [1]}
    assert scene.states == "PreparingRebalance"


def _mixed_pair(release: str = "4.4.0", **settings: object) -> ClassicScene:
    """A consumer group of m1, which speaks the consumer protocol, and c, which does not; each has one of foo."""
    scene = ClassicScene(release, **settings)
    scene.join("m1", "foo")
    scene.mixed_in("c")
    scene.ack("m1")
    scene.ack("m1")
    scene.mix("c")
    scene.fetch("c")
    return scene


def test_classic_members_go_on_after_a_downgrade() -> None:
    """The next JoinGroup completes the rebalance, one generation on."""
    scene = _mixed_pair()
    epoch = scene.group.epoch
    scene.beat("m1", -1)
    assert scene.pulse("c", epoch) == "rebalance_in_progress"
    assert scene.come("c")["generation_id"] == epoch + 1


def test_a_session_that_expires_downgrades_too() -> None:
    """Every way of removing a member does."""
    scene = _mixed_pair()
    for _ in range(9):
        scene.beat_of("c")
        scene.wait(5_000)
    assert (scene.described["type"], scene.states) == ("classic", "PreparingRebalance")


@pytest.mark.parametrize(
    ("policy", "kind"), [("upgrade", "consumer"), ("downgrade", "classic"), ("disabled", "consumer")]
)
def test_the_policy_says_whether_a_group_is_downgraded(policy: str, kind: str) -> None:
    """Else it stays a consumer group of classic members."""
    release = "4.3.0"  # the policy `disabled` lets classic members in, still
    scene = _mixed_pair(release, group_consumer_migration_policy=policy)
    scene.beat("m1", -1)
    assert scene.described["type"] == kind


def test_a_group_that_is_too_large_is_not_downgraded() -> None:
    """The size limit of classic groups counts for those who remain."""
    scene = _mixed_pair(group_max_size=1)
    scene.mixed_in("d")
    scene.beat("m1", -1)
    assert scene.described["type"] == "consumer"
    scene.go("d")
    assert scene.described["type"] == "classic"


def test_the_last_member_of_all_leaves_an_empty_consumer_group() -> None:
    """Nobody is left to speak the classic protocol."""
    scene = ClassicScene()
    scene.join("m1", "foo")
    scene.beat("m1", -1)
    assert (scene.described["type"], scene.described["state"]) == ("consumer", "Empty")


def test_a_static_leave_for_a_while_does_not_downgrade() -> None:
    """Only when its session is over."""
    scene = ClassicScene()
    scene.join("s1", "foo", instance_id="i1")
    scene.mixed_in("c")
    scene.beat("s1", -2, instance_id="i1")
    assert scene.described["type"] == "consumer"


@pytest.mark.parametrize(
    ("release", "state", "generation"),
    [("4.4.0", "PreparingRebalance", 0), ("4.2.0", "PreparingRebalance", 0), ("4.0.0", "Stable", 3)],
)
def test_a_replacement_of_the_last_consumer_member_downgrades(release: str, state: str, generation: int) -> None:
    """Its place goes to the classic joiner, here with another subscription (F20).

    From 4.3 on it rebalances where the target is behind, in 4.0.2 and 4.1.1 to 4.2 where the joiner changed the
    subscription: it has no generation then. In 4.0.0 the target is computed first, and nobody rebalances.
    """
    scene = _static_pair(release)
    answer = scene.come(name="s2", fresh_id="s2", group_instance_id="i1", protocols=_range("foo", "bar"))
    assert (scene.described["type"], scene.states) == ("classic", state)
    assert answer["generation_id"] == generation
    assert {m["instance"] for m in scene.described["members"].values()} == {"i1", None}


def _static_pair(release: str) -> ClassicScene:
    """A consumer group of the static member i1, which speaks the consumer protocol, and c, which does not."""
    scene = ClassicScene(release)
    scene.join("s1", "foo", instance_id="i1")
    scene.mixed_in("c")
    scene.ack("s1")
    return scene


def _range(*topics: str) -> list[dict[str, str]]:
    return [{"name": "range", "metadata": subscribed(*topics)}]


def test_a_replacement_without_news_leaves_a_stable_classic_group() -> None:
    """Target and subscription are what they were: the joiner syncs in the generation it was told."""
    scene = _static_pair("4.4.0")
    scene.ack("s1")
    epoch = scene.group.epoch
    answer = scene.come(name="s2", fresh_id="s2", group_instance_id="i1", protocols=_range("foo"))
    assert (scene.states, answer["generation_id"], scene.classic.generation) == ("Stable", epoch, epoch)
    assert given(scene.share("s2", epoch, group_instance_id="i1")["assignment"]) == {"foo": [0]}


def test_an_empty_consumer_group_makes_way_for_a_classic_member() -> None:
    """Its tombstones and the empty classic group stand in one batch."""
    scene = ClassicScene()
    scene.join("m1", "foo")
    scene.beat("m1", -1)
    assert scene.come(fresh_id="a")["error_code"] == "member_id_required"
    assert [r.split()[0] for r in scene.records] == ["6t", "4t", "3t", "2"]
    assert scene.described["type"] == "classic"


def test_a_refused_member_drops_an_empty_consumer_group_from_memory() -> None:
    """It brings an id, so it creates nothing; what is described goes on until somebody writes."""
    scene = ClassicScene()
    scene.join("m1", "foo")
    scene.beat("m1", -1)
    assert scene.come("somebody")["error_code"] == "unknown_member_id"
    assert (scene.records, scene.described["type"]) == ([], "consumer")
    scene.come(fresh_id="a")
    assert (scene.records, scene.described["type"]) == (["2"], "classic")


@pytest.mark.parametrize("api", ["Heartbeat", "SyncGroup"])
def test_an_empty_consumer_group_has_no_classic_members(api: str) -> None:
    """UNKNOWN_MEMBER_ID."""
    scene = ClassicScene()
    scene.join("m1", "foo")
    scene.beat("m1", -1)
    answer = scene.ask("it", api, 4, {"member_id": "x", "generation_id": 1})
    assert answer["error_code"] == "unknown_member_id"


def test_a_refused_upgrade_tells_parked_syncs_all_the_same() -> None:
    """The leader has not assigned yet, the joiner fails a check after that."""
    scene = ClassicScene(group_consumer_max_size=2)
    _, second = scene.enter("a", "b")
    scene.share(second, 1)
    assert scene.join("m1", "foo")["error_code"] == "group_max_size_reached"
    assert scene.answered[f"sync {second}"]["error_code"] == "rebalance_in_progress"
    assert (scene.described["state"], scene.records) == ("CompletingRebalance", [])


def test_members_without_the_last_protocol_cannot_be_converted() -> None:
    """They came with another strategy while the join phase is open, and Kafka stumbles over that."""
    scene = ClassicScene()
    first, second = scene.stable("a", "b")
    both = [*_range("foo"), {"name": "roundrobin", "metadata": subscribed("foo")}]
    scene.come(second, protocols=both)
    scene.come(first, protocols=both)
    scene.share(second, 2)
    scene.share(first, 2)
    scene.come(second, protocols=[both[1]])
    assert scene.states == "PreparingRebalance"
    assert scene.join("m1", "foo")["error_code"] == "unknown_server_error"


def test_a_first_join_phase_that_everybody_left_is_converted_too() -> None:
    """There is nobody to convert, but the group is not empty before its timer says so: two group epochs are written."""
    scene = ClassicScene()
    member_id = scene.come(fresh_id="a")["member_id"]
    scene.come(member_id)
    scene.go(member_id)
    scene.join("m1", "foo")
    assert [r for r in scene.records if r[0] in "236"] == [
        "2t", "3 epoch 0", "6 epoch 0 at 0", "3 epoch 1", f"6 epoch 1 at {scene.context.now_ms}",
    ]  # fmt: skip
