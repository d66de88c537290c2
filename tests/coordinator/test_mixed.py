"""Classic members inside a consumer group: sections 6.2 of the reference, and the weak spots that are theirs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from classic_scene import ClassicScene, assignment, subscribed

from fsm.coordinator.migration.classic_members import phase


def mixed(release: str = "4.4.0", **settings: object) -> tuple[ClassicScene, str]:
    """m1 speaks the consumer protocol, the returned member the classic one; each has a partition of foo."""
    scene = ClassicScene(release, **settings)
    scene.join("m1", "foo")
    classic = scene.mixed_in("c")
    scene.ack("m1")
    scene.ack("m1")
    scene.mix(classic)
    scene.fetch(classic)
    assert scene.described["state"] == "Stable"
    return scene, classic


def phase_of(scene: ClassicScene, member_id: str) -> str:
    """Where the member would be in a classic group."""
    return phase(scene.group, scene.group.members[member_id], scene.context.dialect).value


def test_a_dynamic_member_is_given_an_id_that_nobody_remembers() -> None:
    """MEMBER_ID_REQUIRED changes nothing: the id is as good as any other."""
    scene = ClassicScene()
    scene.join("m1", "foo")
    before = scene.state
    answer = scene.mix("", fresh_id="c")
    assert (answer["error_code"], answer["member_id"]) == ("member_id_required", "c")
    assert (scene.state, scene.records) == (before, [])


def test_a_join_brings_the_target_epoch_and_no_leader() -> None:
    """The coordinator assigns, so there are no members in the answer; the assignment comes with SyncGroup."""
    scene = ClassicScene()
    scene.join("m1", "foo")
    answer = scene.mix("c")
    assert (answer["generation_id"], answer["leader"], answer["members"]) == (3, "", [])
    assert (answer["protocol_type"], answer["protocol_name"], answer["skip_assignment"]) == ("consumer", "range", False)
    targets = ["7 c foo[1]", "7 m1 foo[0]", f"6 epoch 3 at {scene.context.now_ms}"]
    assert scene.records == ["5 c", "3 epoch 3", *targets, "8 c 0->3 "]


def test_what_a_client_assigns_is_not_looked_at() -> None:
    """SyncGroup answers with what the coordinator gave."""
    scene, classic = mixed()
    body = {"assignments": [{"member_id": classic, "assignment": assignment(foo=[0, 1])}]}
    answer = scene.share(classic, scene.group.members[classic].epoch, body)
    assert answer["assignment"] == assignment(foo=[1])


def test_an_eager_member_rejoins_once() -> None:
    """It gives everything up before it joins, so it gets the new epoch at once, and what is free with it."""
    scene, classic = mixed()
    scene.beat("m1", -1)
    scene.join("m2", "foo")
    assert scene.beat_of(classic) == "rebalance_in_progress"
    answer = scene.mix(classic)
    assert answer["generation_id"] == scene.group.target_epoch
    assert scene.fetch(classic) == {"foo": [1]}


def test_a_cooperative_member_joins_twice_to_give_something_up() -> None:
    """First with all it owns, at its old epoch; then without what it had to revoke."""
    scene = ClassicScene()
    classic = _alone_with_everything(scene)
    epoch = scene.group.members[classic].epoch
    scene.join("m1", "foo")
    first = scene.mix(classic, owned={"foo": [0, 1]})
    assert (first["generation_id"], scene.fetch(classic)) == (epoch, {"foo": [0]})
    assert scene.beat_of(classic) == "rebalance_in_progress"
    second = scene.mix(classic, owned={"foo": [0]})
    assert (second["generation_id"], scene.fetch(classic)) == (scene.group.target_epoch, {"foo": [0]})
    assert scene.beat_of(classic) is None


def _alone_with_everything(scene: ClassicScene) -> str:
    """A consumer group whose only member speaks the classic protocol and has foo 0 and 1."""
    scene.join("m1", "foo", "bar")
    classic = scene.mixed_in("c")
    scene.beat("m1", 2, subscribed_topic_names=["bar"], rebalance_timeout=30_000, owned={"bar": [0]})
    scene.ack("m1")
    scene.mix(classic)
    scene.fetch(classic)
    assert scene.fetch(classic) == {"foo": [0, 1]}
    return classic


def test_a_member_that_waits_is_told_when_everything_is_free() -> None:
    """As long as another holds one missing partition, its heartbeats say nothing."""
    scene = ClassicScene()
    scene.join("m1", "foo")
    classic = scene.mixed_in("c")
    assert (scene.fetch(classic), scene.beat_of(classic)) == ({}, None)
    scene.ack("m1")
    assert scene.beat_of(classic) is None
    scene.beat("m1", 2, owned={"foo": [0]})
    assert scene.beat_of(classic) == "rebalance_in_progress"
    scene.mix(classic)
    assert scene.fetch(classic) == {"foo": [1]}


@pytest.mark.parametrize(
    ("member_id", "generation", "code"),
    [("nobody", 4, "unknown_member_id"), ("m1", 3, "unknown_member_id"), ("c", 2, "illegal_generation")],
)
def test_heartbeats_are_for_classic_members_in_their_generation(member_id: str, generation: int, code: str) -> None:
    """The generation of a member is its epoch."""
    scene, _ = mixed()
    assert scene.pulse(member_id, generation) == code


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({"protocol_type": "connect"}, "inconsistent_group_protocol"),
        ({"protocol_name": "roundrobin"}, "inconsistent_group_protocol"),
        ({"generation_id": 1}, "illegal_generation"),
        ({"member_id": "m1"}, "unknown_member_id"),
    ],
)
def test_syncs_are_checked(sent: dict[str, object], code: str) -> None:
    """Against what the member joined with."""
    scene, classic = mixed()
    assert scene.share(classic, scene.group.members[classic].epoch, sent)["error_code"] == code


def test_a_sync_that_is_behind_is_told_to_rejoin() -> None:
    """And has its rebalance timeout to do so."""
    scene, classic = mixed()
    scene.join("m2", "foo")
    assert scene.share(classic, scene.group.members[classic].epoch)["error_code"] == "rebalance_in_progress"
    assert scene.described["members"].keys() == {"m1", "m2", classic}
    for _ in range(10):
        scene.ack("m1")
        scene.ack("m2")
        scene.wait(5_999)
        scene.beat_of(classic)
    scene.wait(100)
    assert classic not in scene.group.members


def test_who_does_not_sync_after_a_join_is_out() -> None:
    """Its sync timer runs one rebalance timeout, whatever else it sends."""
    scene, classic = mixed()
    scene.mix(classic)
    assert phase_of(scene, classic) == "CompletingRebalance"
    for _ in range(12):
        scene.ack("m1")
        scene.wait(5_000)
        if classic in scene.group.members:
            scene.beat_of(classic)
    assert list(scene.group.members) == ["m1"]


def test_a_classic_member_has_its_own_session_timeout() -> None:
    """Ten seconds, where the group's is 45."""
    scene, classic = mixed()
    scene.wait(9_999)
    assert classic in scene.group.members
    scene.wait(1)
    assert classic not in scene.group.members


def test_the_phase_of_a_classic_member_is_derived() -> None:
    """Joined and not synced; at rest; behind the target."""
    scene, classic = mixed()
    assert phase_of(scene, classic) == "Stable"
    scene.join("m2", "foo")
    assert phase_of(scene, classic) == "PreparingRebalance"
    scene.mix(classic)
    assert phase_of(scene, classic) == "CompletingRebalance"


@pytest.mark.parametrize(("release", "error"), [("4.4.0", None), ("4.2.0", "rebalance_in_progress")])
def test_who_is_behind_is_measured_by_the_target(release: str, error: str | None) -> None:
    """After a leave there is no target yet; before 4.3 the group epoch counted (F18)."""
    scene, classic = mixed(release)
    scene.join("m2", "foo")
    for _ in range(3):
        for member_id in ("m1", "m2"):
            scene.ack(member_id)
        scene.mix(classic)
        scene.fetch(classic)
    scene.beat("m2", -1)
    assert scene.beat_of(classic) == error


def test_leaving_members_go_in_one_step_whatever_they_speak() -> None:
    """One bump for the batch; the answer echoes what was asked, member by member."""
    scene, classic = mixed()
    scene.join("m2", "foo")
    epoch = scene.group.epoch
    assert scene.go(classic, "nobody", "m2") == [None, "unknown_member_id", None]
    assert (scene.group.epoch, list(scene.group.members)) == (epoch + 1, ["m1"])


def test_a_static_member_is_removed_by_its_instance_id() -> None:
    """Without a member id it is an administrator who asks; a wrong one is fenced."""
    scene, _ = mixed()
    scene.join("s1", "foo", instance_id="i1")
    assert scene.go(("x", "i1"), ("", "i2"), ("", "i1")) == ["fenced_instance_id", "unknown_member_id", None]
    assert "s1" not in scene.group.members


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"protocol_type": "connect"}, "inconsistent_group_protocol"),
        ({"protocols": [{"name": "sticky", "metadata": subscribed("foo")}]}, "inconsistent_group_protocol"),
        ({"protocols": []}, "inconsistent_group_protocol"),
        ({"member_id": "x", "group_instance_id": "i1"}, "unknown_member_id"),
        ({"member_id": "x", "protocols": [{"name": "range", "metadata": "AAE="}]}, "inconsistent_group_protocol"),
    ],
)
def test_a_join_is_checked(fields: dict[str, object], code: str) -> None:
    """One protocol must suit all classic members; the error names no member, and nothing changes."""
    scene, _ = mixed()
    before = scene.state
    answer = scene.come(name="it", fresh_id="c2", **fields)
    assert (answer["error_code"], answer["member_id"]) == (code, "")
    assert scene.state == before


def test_before_4_4_a_malformed_subscription_is_the_servers_error() -> None:
    """UNKNOWN_SERVER_ERROR instead of INCONSISTENT_GROUP_PROTOCOL (F17)."""
    scene, _ = mixed("4.3.1")
    answer = scene.come("x", protocols=[{"name": "range", "metadata": "AAE="}])
    assert answer["error_code"] == "unknown_server_error"


@pytest.mark.parametrize(
    ("release", "code"), [("4.4.0", "inconsistent_group_protocol"), ("4.3.0", "member_id_required")]
)
def test_policy_disabled_refuses_classic_members(release: str, code: str) -> None:
    """In a group with members; before 4.3.1 the policy was not looked at (F16)."""
    scene = ClassicScene(release, group_consumer_migration_policy="disabled")
    scene.join("m1", "foo")
    assert scene.mix("", fresh_id="c")["error_code"] == code


def test_a_full_group_takes_no_classic_member_either() -> None:
    """The limit is that of consumer groups."""
    scene = ClassicScene(group_consumer_max_size=1)
    scene.join("m1", "foo")
    assert scene.mix("c")["error_code"] == "group_max_size_reached"


def test_a_member_changes_its_protocol_under_its_id() -> None:
    """A JoinGroup makes it classic, a consumer heartbeat makes it what it was; epochs do not move for that."""
    scene, _ = mixed()
    epoch = scene.group.epoch
    scene.mix("m1")
    assert scene.described["members"]["m1"]["classic"]
    scene.fetch("m1")
    scene.beat("m1", epoch)
    assert not scene.described["members"]["m1"]["classic"]
    assert scene.group.epoch == epoch


@pytest.mark.parametrize(("release", "regex", "bumps"), [("4.4.0", None, 1), ("4.1.1", "fo+", 0)])
def test_a_classic_join_gives_up_the_regular_expression(release: str, regex: str | None, bumps: int) -> None:
    """From 4.0.2, 4.1.2 and 4.2 on, with a bump; before, the static member's expression went on (F10d)."""
    scene = ClassicScene(release)
    scene.join("m1", "bar")
    scene.join("s1", subscribed_topic_names=None, subscribed_topic_regex="fo+", instance_id="i1")
    scene.resolve()
    scene.ack("s1")
    epoch = scene.group.epoch
    scene.beat("s1", -2, instance_id="i1")
    body = {"group_instance_id": "i1", "fresh_id": "s2", "protocols": [{"name": "range", "metadata": subscribed()}]}
    scene.come(name="s2", **body)
    assert scene.described["members"]["s2"]["regex"] == regex
    assert scene.group.epoch == epoch + bumps


def test_a_static_member_is_replaced_whatever_protocol_it_speaks() -> None:
    """It need not have left: the newcomer gets target and partitions of its place."""
    scene, _ = mixed()
    scene.join("s1", "foo", instance_id="i1")
    scene.come(name="s2", fresh_id="s2", group_instance_id="i1")
    assert ("s1" in scene.group.members, scene.group.members["s2"].instance_id) == (False, "i1")


# Weak spots: diagrams/hazards.md#w2


def test_weak_spot_2_a_member_that_was_removed_is_made_anew_without_a_word() -> None:
    """W2: a classic client that lost its membership and joins with its old id is a member again, in a valid generation.

    It is told nothing of the loss before its SyncGroup, while another uses what it had.
    """
    scene, classic = mixed()
    assert scene.group.members[classic].assigned != ()
    scene.wait(10_000)
    assert classic not in scene.group.members
    scene.ack("m1")
    answer = scene.mix(classic, owned={"foo": [1]})
    assert answer["error_code"] is None
    assert scene.group.members["m1"].assigned[0][1] == (0, 1)
    assert scene.fetch(classic) == {}


@pytest.mark.parametrize(
    ("release", "error", "partitions"), [("4.4.0", None, [1]), ("4.2.0", "rebalance_in_progress", [0, 1])]
)
def test_weak_spot_5_classic_members_among_themselves_strand_partitions(
    release: str, error: str | None, partitions: list[int]
) -> None:
    """W5: the last consumer member goes, the downgrade is refused, and nobody computes the next target.

    Heartbeats say nothing, so no classic member rejoins; before 4.3 they were told, and the first one got everything.
    """
    scene, classic = mixed(release, group_consumer_migration_policy="upgrade")
    scene.beat("m1", -1)
    assert (scene.described["type"], scene.described["state"]) == ("consumer", "Assigning")
    for _ in range(6):
        scene.wait(5_000)
        found = scene.beat_of(classic)
        assert found in {None, error}
        if found:
            scene.mix(classic)
        scene.fetch(classic)
    assert scene.fetch(classic) == {"foo": partitions}
    assert scene.described["state"] == ("Assigning" if error is None else "Stable")


def test_who_joins_inside_the_interval_waits_for_the_next_target() -> None:
    """Its generation is the old target's, with nothing assigned; Heartbeats say nothing until somebody computes."""
    scene = ClassicScene(group_consumer_assignment_interval_ms=1_000)
    scene.join("m1", "foo")
    answer = scene.mix("c")
    assert (answer["generation_id"], scene.group.epoch, scene.group.target_epoch) == (2, 3, 2)
    assert (scene.fetch("c"), scene.beat_of("c")) == ({}, None)
    scene.wait(999)
    scene.ack("m1")
    assert scene.beat_of("c") is None
    scene.wait(1)
    assert scene.beat_of("c") is None
    scene.ack("m1")
    assert (scene.group.target_epoch, scene.beat_of("c")) == (3, "rebalance_in_progress")


def test_a_clock_that_goes_back_keeps_the_target() -> None:
    """W7: the next target waits for the time of the last one; without an interval it does not."""
    scene = ClassicScene(group_consumer_assignment_interval_ms=1_000)
    scene.join("m1", "foo")
    scene.context = replace(scene.context, now_ms=scene.context.now_ms - 60_000)
    assert scene.mix("c")["generation_id"] == 2
    instant = ClassicScene(group_consumer_assignment_interval_ms=0)
    instant.join("m1", "foo")
    instant.context = replace(instant.context, now_ms=instant.context.now_ms - 60_000)
    assert instant.mix("c")["generation_id"] == 3
