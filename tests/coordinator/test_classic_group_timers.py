"""The timers of a classic group, and its beginning and end without a request."""

from __future__ import annotations

from dataclasses import replace

from classic_scene import ClassicScene

from fsm.coordinator.classic.timers import delete, load, unload
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.context import BrokerConfig
from fsm.protocol.error_codes import ErrorCode


def test_a_silent_member_is_out_after_its_session_timeout() -> None:
    """Ten seconds after the last sign of it, and the group rebalances."""
    scene = ClassicScene()
    first, second = scene.stable("a", "b")
    scene.wait(5_000)
    scene.pulse(first, 1)
    scene.wait(4_999)
    assert scene.states == "Stable"
    scene.wait(1)
    assert (scene.states, list(scene.classic.members)) == ("PreparingRebalance", [first])
    assert second not in scene.classic.members


def test_the_last_session_to_expire_empties_the_group() -> None:
    """The empty generation is stored."""
    scene = ClassicScene()
    scene.stable("a")
    assert scene.wait(10_000) == ["2"]
    assert scene.states == "Empty"


def test_who_waits_for_an_answer_cannot_send_heartbeats() -> None:
    """A delayed join excuses a member from its session, until it is answered."""
    scene = ClassicScene()
    first, second = scene.stable("a", "b")
    third = scene.come(fresh_id="c")["member_id"]
    scene.come(third)
    scene.come(first)
    for _ in range(4):
        scene.pulse(second, 1)
        scene.wait(5_000)
    assert set(scene.classic.members) == {first, second, third}


def test_a_sync_that_waits_excuses_too() -> None:
    """The leader takes twenty seconds to assign, and its follower is still there; then the session begins anew."""
    scene = ClassicScene()
    leader, follower = scene.enter("a", "b")
    scene.share(follower, 1)
    for _ in range(4):
        scene.wait(5_000)
        scene.pulse(leader, 1)
    scene.share(leader, 1, assigns={follower: {"foo": [0]}})
    scene.wait(9_999)
    assert follower in scene.classic.members


def test_a_new_member_is_not_excused_for_ever() -> None:
    """Its client may be gone and cannot be seen: the join of a new member waits five minutes."""
    scene = ClassicScene()
    (first,) = scene.stable("a")
    scene.come(name="joins", fresh_id="x", group_instance_id="i1", rebalance_timeout=900_000)
    for _ in range(60):
        scene.pulse(first, 1)
        scene.wait(5_000)
    assert scene.answered["joins"]["error_code"] == "unknown_member_id"
    assert list(scene.classic.members) == [first]


def test_an_id_that_nobody_uses_is_forgotten() -> None:
    """After the session timeout of the request that got it; nobody rebalances for that."""
    scene = ClassicScene()
    (first,) = scene.stable("a")
    scene.come(fresh_id="b")
    scene.pulse(first, 1)
    scene.wait(9_999)
    assert scene.classic.pending_join_members == {"client-b"}
    scene.pulse(first, 1)
    scene.wait(1)
    assert (scene.classic.pending_join_members, scene.states) == (frozenset(), "Stable")


def test_a_session_that_expires_completes_the_join_phase() -> None:
    """The others had all joined; also in an initial rebalance."""
    scene = ClassicScene()
    first, second = scene.stable("a", "b")
    scene.pulse(first, 1)
    scene.wait(1_000)
    scene.pulse(first, 1)
    third = scene.come(fresh_id="c")["member_id"]
    scene.come(third)
    scene.come(first)
    assert scene.states == "PreparingRebalance"
    scene.wait(9_000)
    assert second not in scene.classic.members
    assert scene.answered[first]["generation_id"] == 2


def test_who_does_not_sync_in_time_is_out() -> None:
    """The sync phase lasts one rebalance timeout, also when the leader's assignment has been stored."""
    scene = ClassicScene()
    leader, follower = scene.enter("a", "b")
    scene.share(leader, 1)
    for _ in range(12):
        scene.pulse(leader, 1)
        scene.pulse(follower, 1)
        scene.wait(5_000)
    assert (scene.states, list(scene.classic.members)) == ("PreparingRebalance", [leader])


def test_when_nobody_syncs_the_group_is_empty() -> None:
    """All of them are removed."""
    scene = ClassicScene()
    (leader,) = scene.enter("a")
    for _ in range(12):
        scene.pulse(leader, 1)
        scene.wait(5_000)
    assert (scene.states, scene.classic.generation) == ("Empty", 2)


def test_a_sync_phase_that_everybody_finished_has_no_timer() -> None:
    """The last sync cancels it."""
    scene = ClassicScene()
    scene.stable("a", "b")
    assert scene.classic.sync_phase is None


def test_without_a_single_join_the_join_phase_goes_on() -> None:
    """Static members that are silent stay until their sessions end."""
    scene = ClassicScene()
    long = {"session_timeout": 300_000}
    scene.come(name="s", fresh_id="x", group_instance_id="i1", **long)
    scene.come(name="t", fresh_id="y", group_instance_id="i2", **long)
    scene.wait(6_000)
    scene.share("i1-x", 1, group_instance_id="i1")
    scene.share("i2-y", 1, group_instance_id="i2")
    scene.come("i1-x", group_instance_id="i1", protocols=[{"name": "range", "metadata": "AAA="}], **long)
    scene.come(name="again", fresh_id="z", group_instance_id="i1", **long)
    assert scene.states == "PreparingRebalance"
    scene.go(("", "i1"))
    assert scene.states == "PreparingRebalance"
    scene.wait(60_000)
    assert (scene.states, list(scene.classic.members)) == ("PreparingRebalance", ["i2-y"])


def test_unloading_tells_who_waits() -> None:
    """Delayed joins and syncs get NOT_COORDINATOR; nothing is written."""
    scene = ClassicScene()
    _, follower = scene.enter("a", "b")
    scene.share(follower, 1)
    step = unload(scene.classic, scene.context)
    assert [answer.body.error_code for answer in step.answers] == [ErrorCode.NOT_COORDINATOR]
    assert (step.state.state.name, step.records) == ("DEAD", ())


def test_a_loaded_group_goes_on() -> None:
    """It is stable, and its members' sessions begin now."""
    scene = ClassicScene()
    first, second = scene.stable("a", "b")
    group = scene.classic
    rebuilt = ClassicGroup(
        "g",
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader,
        members=group.members,
    )
    step = load(rebuilt, scene.context)
    assert (step.state.state.name, step.records) == ("STABLE", ())
    assert set(step.state.heartbeat_deadlines_ms.values()) == {scene.context.now_ms + 10_000}
    assert set(step.state.members) == {first, second}


def test_a_loaded_group_that_is_too_large_rebalances() -> None:
    """So that its members can commit before the last of them are left out."""
    scene = ClassicScene()
    scene.stable("a", "b")
    small = replace(scene.context, config=BrokerConfig(group_max_size=1))
    rebuilt = ClassicGroup("g", generation=1, members=scene.classic.members, leader=scene.classic.leader)
    assert load(rebuilt, small).state.state.name == "PREPARING_REBALANCE"


def test_an_empty_group_ends_with_its_tombstone() -> None:
    """Deleted, or cleaned up."""
    scene = ClassicScene()
    scene.go(*scene.stable("a"))
    step = delete(scene.classic, scene.context)
    assert [(int(record.key[0]), record.value) for record in step.records] == [(2, None)]


def test_who_synced_stays_when_the_sync_phase_runs_out() -> None:
    """Its delayed sync learns of the rebalance; the leader, who never assigned, is out."""
    scene = ClassicScene()
    leader, follower = scene.enter("a", "b")
    scene.share(follower, 1)
    for _ in range(12):
        scene.pulse(leader, 1)
        scene.wait(5_000)
    assert scene.answered[f"sync {follower}"]["error_code"] == "rebalance_in_progress"
    assert (list(scene.classic.members), scene.classic.leader) == ([follower], follower)


def test_unloading_a_group_in_its_join_phase() -> None:
    """Delayed joins are told under the ids of their members."""
    scene = ClassicScene()
    member_id = scene.come(fresh_id="a")["member_id"]
    scene.come(member_id)
    (answer,) = unload(scene.classic, scene.context).answers
    assert (answer.body.error_code, answer.body.member_id) == (ErrorCode.NOT_COORDINATOR, member_id)


def test_a_group_that_is_gone_refuses_everybody() -> None:
    """COORDINATOR_NOT_AVAILABLE, for a leave on top of the answer: clients look for the coordinator anew."""
    scene = ClassicScene()
    (leader,) = scene.stable("a")
    scene.state = scene.state.with_group(unload(scene.classic, scene.context).state)
    assert scene.pulse(leader, 1) == "coordinator_not_available"
    assert scene.share(leader, 1)["error_code"] == "coordinator_not_available"
    assert scene.come(leader)["error_code"] == "coordinator_not_available"
    left = scene.ask("leave", "LeaveGroup", 5, {"members": [{"member_id": leader}]})
    assert left == {"error_code": "coordinator_not_available", "members": []}
