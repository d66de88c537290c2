"""JoinGroup to a classic group: two steps, checks, the initial delay, the join phase, votes, static members."""

from __future__ import annotations

from base64 import b64encode

import pytest
from classic_scene import ClassicScene, given, subscribed

RANGE = {"name": "range", "metadata": subscribed("foo")}
ROUND_ROBIN = {"name": "roundrobin", "metadata": subscribed("foo")}


def test_the_first_join_gives_an_id_and_stores_the_empty_group() -> None:
    """MEMBER_ID_REQUIRED carries the id; the group's record names no protocol type yet."""
    scene = ClassicScene()
    answer = scene.come(fresh_id="a")
    assert (answer["error_code"], answer["member_id"]) == ("member_id_required", "client-a")
    assert scene.records == ["2"]
    assert (scene.described["state"], scene.described["protocol_type"]) == ("Empty", "")


def test_before_version_4_a_member_joins_in_one_step() -> None:
    """Its join is delayed at once; version 0 has no rebalance timeout but its session timeout."""
    scene = ClassicScene()
    assert scene.come(fresh_id="a", version=0, rebalance_timeout=-1) is None
    assert scene.classic.members["client-a"].rebalance_timeout_ms == 10_000
    scene.wait(3_000)
    assert scene.answered["a"]["leader"] == "client-a"


def test_the_first_generation_waits_for_the_initial_delay() -> None:
    """A member that is alone is answered after three seconds, as the leader, with the members."""
    scene = ClassicScene()
    scene.come(fresh_id="a")
    assert scene.come("client-a") is None
    scene.wait(2_999)
    assert (scene.states, "client-a" in scene.answered) == ("PreparingRebalance", False)
    scene.wait(1)
    answer = scene.answered["client-a"]
    assert (answer["generation_id"], answer["leader"], answer["protocol_name"]) == (1, "client-a", "range")
    assert [member["member_id"] for member in answer["members"]] == ["client-a"]
    assert scene.states == "CompletingRebalance"


def test_members_that_come_meanwhile_extend_the_initial_delay() -> None:
    """Each time by another three seconds, as long as members keep coming."""
    scene = ClassicScene()
    ids = [scene.come(fresh_id=name)["member_id"] for name in "ab"]
    scene.come(ids[0])
    scene.wait(1_000)
    scene.come(ids[1])
    scene.wait(4_999)
    assert scene.states == "PreparingRebalance"
    scene.wait(1)
    assert {scene.answered[i]["generation_id"] for i in ids} == {1}


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    """Three seconds, then two, of a rebalance timeout of five, however many come."""
    scene = ClassicScene()
    ids = [scene.come(fresh_id=name)["member_id"] for name in "abc"]
    scene.come(ids[0], rebalance_timeout=5_000)
    scene.wait(1_000)
    scene.come(ids[1], rebalance_timeout=5_000)
    scene.wait(3_000)
    scene.come(ids[2], rebalance_timeout=5_000)
    scene.wait(999)
    assert scene.states == "PreparingRebalance"
    scene.wait(1)
    assert scene.states == "CompletingRebalance"


def test_followers_are_not_told_the_members() -> None:
    """The list is the leader's, who assigns."""
    scene = ClassicScene()
    leader, follower = scene.enter("a", "b")
    assert len(scene.answered[leader]["members"]) == 2
    assert (scene.answered[follower]["members"], scene.answered[follower]["leader"]) == ([], leader)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"session_timeout": 5_999}, "invalid_session_timeout"),
        ({"session_timeout": 1_800_001}, "invalid_session_timeout"),
        ({"group_id": ""}, "invalid_group_id"),
        ({"member_id": "nobody"}, "unknown_member_id"),
    ],
)
def test_a_join_that_fails_a_check_makes_no_group(fields: dict[str, object], code: str) -> None:
    """The answer names the member that asked; nothing is stored."""
    scene = ClassicScene()
    answer = scene.come(name="it", **fields)
    assert (answer["error_code"], answer["member_id"]) == (code, fields.get("member_id", ""))
    assert (scene.records, "g" in scene.state.groups) == ([], False)


def test_a_group_is_stored_although_its_first_join_is_refused() -> None:
    """A member without protocols joins nothing, but the group it would have created is there."""
    scene = ClassicScene()
    assert scene.come(name="it", protocols=[])["error_code"] == "inconsistent_group_protocol"
    assert (scene.records, scene.states) == (["2"], "Empty")


@pytest.mark.parametrize("fields", [{"protocol_type": "connect"}, {"protocols": [ROUND_ROBIN]}, {"protocols": []}])
def test_who_shares_no_protocol_with_the_group_is_refused(fields: dict[str, object]) -> None:
    """Another type, or none of the strategies that all members have."""
    scene = ClassicScene()
    scene.stable("a")
    assert scene.come(name="it", **fields)["error_code"] == "inconsistent_group_protocol"
    assert scene.states == "Stable"


def test_every_member_votes_for_its_first_protocol_that_all_have() -> None:
    """Two of three prefer `roundrobin`."""
    scene = ClassicScene()
    ids = [scene.come(fresh_id=name)["member_id"] for name in "abc"]
    for member_id, protocols in zip(
        ids, ([RANGE, ROUND_ROBIN], [ROUND_ROBIN, RANGE], [ROUND_ROBIN, RANGE]), strict=True
    ):
        scene.come(member_id, protocols=protocols)
    scene.wait(6_000)
    assert {scene.answered[i]["protocol_name"] for i in ids} == {"roundrobin"}


def test_a_new_member_makes_the_others_rejoin() -> None:
    """The generation begins when all have joined, before any timer."""
    scene = ClassicScene()
    (first,) = scene.stable("a")
    second = scene.come(fresh_id="b")["member_id"]
    assert scene.come(second) is None
    assert (scene.states, scene.pulse(first, 1)) == ("PreparingRebalance", "rebalance_in_progress")
    scene.come(first)
    assert {scene.answered[i]["generation_id"] for i in (first, second)} == {2}


def test_an_id_that_was_given_out_is_waited_for() -> None:
    """Everybody has joined only when the new id has, too, or its session is over."""
    scene = ClassicScene()
    (first,) = scene.stable("a")
    scene.come(fresh_id="b")
    assert scene.come(first) is None
    scene.wait(9_999)
    assert scene.states == "PreparingRebalance"
    scene.wait(1)
    assert scene.answered[first]["generation_id"] == 2


def test_who_does_not_rejoin_in_time_is_out() -> None:
    """A dynamic member is removed when the join phase ends; the leader's place is taken."""
    scene = ClassicScene()
    leader, follower = scene.stable("a", "b")
    third = scene.come(fresh_id="c")["member_id"]
    scene.come(third)
    scene.come(follower)
    for _ in range(12):
        scene.pulse(leader, 1)
        scene.wait(5_000)
    assert set(scene.classic.members) == {follower, third}
    assert scene.answered[third]["leader"] in {follower, third}


def test_a_static_member_that_does_not_rejoin_keeps_its_place() -> None:
    """The generation begins without it, and it is still a member."""
    scene = ClassicScene()
    scene.come(name="s", fresh_id="x", group_instance_id="i1")
    scene.wait(3_000)
    second = scene.come(fresh_id="b")["member_id"]
    scene.come(second)
    for _ in range(12):
        scene.pulse("i1-x", 1, group_instance_id="i1")
        scene.wait(5_000)
    assert scene.answered[second]["generation_id"] == 2
    assert set(scene.classic.members) == {"i1-x", second}


@pytest.mark.parametrize(
    ("metadata", "protocol_type", "code"),
    [
        (subscribed("foo"), "consumer", "rebalance_in_progress"),
        ("AAEA", "consumer", None),
        (subscribed("foo"), "connect", None),
    ],
    ids=["subscription", "not to be read", "of a worker"],
)
def test_a_static_member_that_is_late_has_to_join(metadata: str, protocol_type: str, code: str | None) -> None:
    """F44: what it owns was completed in its subscription, and stays so until it joins; that begins a rebalance."""
    scene = ClassicScene("fixed")
    offered = {"protocol_type": protocol_type, "protocols": [{"name": "range", "metadata": metadata}]}
    scene.come(name="s", fresh_id="x", group_instance_id="i1", session_timeout=100_000, **offered)
    scene.wait(3_000)
    static = {"group_instance_id": "i1", "protocol_type": protocol_type}
    scene.share("i1-x", 1, assigns={"i1-x": {"foo": [0, 1]}}, **static)
    second = scene.come(fresh_id="b", **offered)["member_id"]
    scene.come(second, session_timeout=100_000, **offered)
    scene.wait(60_000)
    late = scene.answered[second]["generation_id"] == 2 and scene.classic.members["i1-x"].is_late
    assert late == (code is not None)
    scene.share("i1-x", 2, **static)
    assert scene.answered.get("sync i1-x", {"error_code": None})["error_code"] == code
    scene.come("i1-x", group_instance_id="i1", session_timeout=100_000, **offered)
    assert not scene.classic.members["i1-x"].is_late
    assert scene.states == ("PreparingRebalance" if late else "CompletingRebalance")


def test_a_leader_that_joins_again_begins_a_rebalance() -> None:
    """Alone, it is answered at once with the next generation."""
    scene = ClassicScene()
    (leader,) = scene.stable("a")
    assert scene.come(leader)["generation_id"] == 2


def test_a_follower_that_joins_again_unchanged_is_answered_at_once() -> None:
    """It lost its answer: it gets the present generation, without members."""
    scene = ClassicScene()
    _, follower = scene.stable("a", "b")
    answer = scene.come(follower)
    assert (answer["generation_id"], answer["members"], scene.states) == (1, [], "Stable")


def test_a_follower_that_changed_begins_a_rebalance() -> None:
    """Its subscription is what the leader assigns from."""
    scene = ClassicScene()
    _, follower = scene.stable("a", "b")
    assert scene.come(follower, protocols=[{"name": "range", "metadata": subscribed("bar")}]) is None
    assert scene.states == "PreparingRebalance"


def test_a_rejoin_while_syncs_are_awaited_is_answered_with_the_generation() -> None:
    """The leader gets the members once more."""
    scene = ClassicScene()
    leader, follower = scene.enter("a", "b")
    assert len(scene.come(leader)["members"]) == 2
    assert scene.come(follower)["generation_id"] == 1
    assert scene.states == "CompletingRebalance"


def test_a_full_group_refuses_and_forgets_the_id() -> None:
    """The answer names no member; the id that was given out is dropped."""
    scene = ClassicScene(group_max_size=1)
    scene.stable("a")
    refused = scene.come(fresh_id="b")
    assert (refused["error_code"], refused["member_id"]) == ("group_max_size_reached", "")
    assert scene.classic.pending_join_members == frozenset()


def test_a_full_join_phase_leaves_out_who_comes_last() -> None:
    """While joins come in, those delayed are counted: a member that is late loses its place."""
    scene = ClassicScene(group_max_size=1)
    ids = [scene.come(fresh_id=name)["member_id"] for name in "ab"]
    scene.come(ids[0])
    assert scene.come(ids[1])["error_code"] == "group_max_size_reached"
    assert scene.classic.pending_join_members == frozenset()


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    """Under a new id it has its assignment again; as the leader it is told to leave it alone."""
    scene = ClassicScene()
    scene.come(name="s", fresh_id="x", group_instance_id="i1")
    scene.wait(3_000)
    scene.share("i1-x", 1, assigns={"i1-x": {"foo": [0, 1]}}, group_instance_id="i1")
    answer = scene.come(name="again", fresh_id="y", group_instance_id="i1")
    assert (answer["member_id"], answer["generation_id"], answer["leader"]) == ("i1-y", 1, "i1-y")
    assert (answer["skip_assignment"], len(answer["members"])) == (True, 1)
    assert (scene.records, scene.states) == (["2"], "Stable")


def test_before_version_9_it_hears_of_the_old_leader() -> None:
    """So it does not take itself for the leader, whose assignment would be ignored."""
    scene = ClassicScene()
    scene.come(name="s", fresh_id="x", group_instance_id="i1")
    scene.wait(3_000)
    scene.share("i1-x", 1, assigns={"i1-x": {"foo": [0]}}, group_instance_id="i1")
    answer = scene.come(name="again", fresh_id="y", group_instance_id="i1", version=8)
    assert (answer["leader"], answer["members"]) == ("i1-x", [])


def test_a_static_member_that_changes_the_protocol_begins_a_rebalance() -> None:
    """What would be chosen with it is not what is."""
    scene = ClassicScene()
    scene.come(name="s", fresh_id="x", group_instance_id="i1", protocols=[RANGE, ROUND_ROBIN])
    scene.wait(3_000)
    scene.share("i1-x", 1, assigns={}, group_instance_id="i1")
    answer = scene.come(name="again", fresh_id="y", group_instance_id="i1", protocols=[ROUND_ROBIN, RANGE])
    assert (answer["generation_id"], answer["protocol_name"]) == (2, "roundrobin")


def test_the_parked_join_of_a_replaced_member_is_fenced() -> None:
    """The old id learns that another has its place."""
    scene = ClassicScene()
    scene.come(name="old", fresh_id="x", group_instance_id="i1")
    assert scene.come(name="new", fresh_id="y", group_instance_id="i1") is None
    refused = scene.answered["old"]
    assert (refused["error_code"], refused["member_id"]) == ("fenced_instance_id", "i1-x")


def test_an_instance_id_of_another_member_is_fenced() -> None:
    """The member id does not belong to the instance id."""
    scene = ClassicScene()
    scene.come(name="old", fresh_id="x", group_instance_id="i1")
    assert scene.come("somebody", group_instance_id="i1")["error_code"] == "fenced_instance_id"
    assert scene.come("somebody", group_instance_id="i2")["error_code"] == "unknown_member_id"


def test_a_group_of_workers_is_like_any_other() -> None:
    """What they say is bytes that the coordinator never reads."""
    scene = ClassicScene()
    worker = {"protocol_type": "connect", "protocols": [{"name": "sessioned", "metadata": "AAECAw=="}]}
    member_id = scene.come(fresh_id="w", **worker)["member_id"]
    scene.come(member_id, **worker)
    scene.wait(3_000)
    leader = scene.answered[member_id]
    assert (leader["protocol_type"], leader["members"][0]["metadata"]) == ("connect", "AAECAw==")
    body = {"assignments": [{"member_id": member_id, "assignment": "/w=="}]}
    synced = scene.share(member_id, 1, protocol_type="connect", protocol_name="sessioned", **body)
    assert (synced["assignment"], scene.classic.subscribed_topics) == ("/w==", None)


def with_static(scene: ClassicScene) -> str:
    """The static member i1 leads, in the sync phase; the id of a dynamic member beside it."""
    scene.come(name="s", fresh_id="x", group_instance_id="i1")
    member_id = str(scene.come(fresh_id="b")["member_id"])
    scene.come(member_id)
    scene.wait(6_000)
    return member_id


def test_a_static_member_that_comes_back_in_the_sync_phase_begins_a_rebalance() -> None:
    """The leader may be assigning to the old id; syncs that wait learn of it."""
    scene = ClassicScene()
    other = with_static(scene)
    scene.share(other, 1)
    assert scene.come(name="again", fresh_id="y", group_instance_id="i1") is None
    assert scene.answered[f"sync {other}"]["error_code"] == "rebalance_in_progress"
    assert scene.states == "PreparingRebalance"


@pytest.mark.parametrize("expires", [False, True], ids=["in its place", "after its session"])
def test_a_fixed_log_has_the_id_of_who_comes_back_in_a_round(expires: bool) -> None:
    """F43: in the generation that is stored, with what that assigns; also if its place in the group was lost."""
    scene = ClassicScene("fixed")
    leader = scene.come(name="s", fresh_id="x", group_instance_id="i1") or "i1-x"
    scene.wait(3_000)
    scene.share(leader, 1, assigns={leader: {"foo": [0]}}, group_instance_id="i1")
    other = scene.come(fresh_id="b")["member_id"]
    scene.come(other, session_timeout=60_000)
    if expires:
        scene.wait(10_000)
    assert scene.states == ("CompletingRebalance" if expires else "PreparingRebalance")
    scene.come(name="s2", fresh_id="y", group_instance_id="i1")
    assert scene.classic.generation == 2
    scene.host.fail_over()
    (member,) = scene.classic.members.values()
    assert (scene.classic.generation, scene.classic.leader, member.member_id) == (1, "i1-y", "i1-y")
    assert given(b64encode(member.assignment).decode()) == {"foo": [0]}


def test_a_static_member_that_changes_the_protocol_waits_for_the_others() -> None:
    """In a stable group of two it is the first whose join is delayed."""
    scene = ClassicScene()
    other = with_static(scene)
    scene.share(other, 1)
    scene.share("i1-x", 1, group_instance_id="i1")
    protocols = [{"name": "roundrobin", "metadata": subscribed("foo")}, RANGE]
    scene.come(name="again", fresh_id="y", group_instance_id="i1", protocols=protocols)
    assert scene.states == "Stable"
    scene.come(other, protocols=[ROUND_ROBIN, RANGE])
    scene.come("i1-y", group_instance_id="i1", protocols=[ROUND_ROBIN, RANGE])
    assert scene.classic.protocol_name == "roundrobin"
    scene.share(other, 2, {"protocol_name": None})
    scene.share(str(scene.classic.leader), 2, {"protocol_name": None, "group_instance_id": _instance(scene)})
    assert scene.states == "Stable"
    assert scene.come(name="last", fresh_id="z", group_instance_id="i1", protocols=[RANGE, ROUND_ROBIN]) is None
    assert scene.states == "PreparingRebalance"


def _instance(scene: ClassicScene) -> str | None:
    return scene.classic.members[str(scene.classic.leader)].instance_id
