"""SyncGroup, Heartbeat, LeaveGroup and commits in a classic group."""

from __future__ import annotations

import pytest
from classic_scene import ClassicScene, given

from fsm.coordinator.classic.join import join
from fsm.coordinator.classic.requests import note_commit, refuse_commit, refuse_deletion, sync
from fsm.coordinator.model.step import Refused, Request
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import JoinGroupRequest, JoinGroupRequestProtocol, SyncGroupRequest
from fsm.protocol.records import ClassicGroup


def test_syncs_wait_for_the_leader() -> None:
    """A follower's is delayed; the leader's brings the record, both answers, and the group is stable."""
    scene = ClassicScene()
    leader, follower = scene.enter("a", "b")
    assert scene.share(follower, 1) is None
    own = scene.share(leader, 1, assigns={leader: {"foo": [0]}, follower: {"foo": [1]}})
    assert given(own["assignment"]) == {"foo": [0]}
    assert given(scene.answered[f"sync {follower}"]["assignment"]) == {"foo": [1]}
    assert (scene.records, scene.states) == (["2"], "Stable")


def test_the_record_has_generation_leader_and_assignments() -> None:
    """It is the only regular place where a generation reaches the log; whom the leader left out gets nothing."""
    scene = ClassicScene()
    leader, follower = scene.enter("a", "b")
    scene.share(leader, 1, assigns={leader: {"foo": [0, 1]}})
    (record,) = scene.last.records
    assert isinstance(record.value, ClassicGroup)
    assert (record.version, record.value.generation, record.value.leader) == (3, 1, leader)
    assert {m.member_id: bool(m.assignment) for m in record.value.members} == {leader: True, follower: False}


def test_a_sync_to_a_stable_group_is_answered_with_the_present_assignment() -> None:
    """Whoever asks late, or twice."""
    scene = ClassicScene()
    _, follower = scene.stable("a", "b")
    assert given(scene.share(follower, 1)["assignment"]) == {"foo": [1]}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": "nobody"}, "unknown_member_id"),
        ({"generation_id": 2}, "illegal_generation"),
        ({"protocol_type": "connect"}, "inconsistent_group_protocol"),
        ({"protocol_name": "roundrobin"}, "inconsistent_group_protocol"),
        ({"group_instance_id": "i1"}, "unknown_member_id"),
        ({"group_id": ""}, "invalid_group_id"),
    ],
)
def test_a_sync_that_fails_a_check_changes_nothing(fields: dict[str, object], code: str) -> None:
    """Type and name of the protocol are only looked at where they are given."""
    scene = ClassicScene()
    (leader,) = scene.enter("a")
    before = scene.state
    assert scene.share(leader, 1, fields)["error_code"] == code
    assert (scene.state, scene.records) == (before, [])
    assert scene.share(leader, 1, protocol_type=None, protocol_name=None)["error_code"] is None


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
@pytest.mark.parametrize(("version", "code"), [(5, "inconsistent_group_protocol"), (4, "unknown_member_id")])
def test_a_sync_names_its_protocol(missing: str, version: int, code: str) -> None:
    """From version 5 on, one that lacks type or name is refused before anybody asks who sends it to which group."""
    scene = ClassicScene()
    named = {"protocol_type": "consumer", "protocol_name": "range", missing: None}
    body = {"member_id": "nobody", "generation_id": 1, "group_instance_id": None, "assignments": [], **named}
    assert scene.send("SyncGroup", version, body)["error_code"] == code


def test_syncs_that_wait_learn_of_a_rebalance() -> None:
    """A new member comes before the leader has assigned."""
    scene = ClassicScene()
    _, follower = scene.enter("a", "b")
    scene.share(follower, 1)
    scene.come(scene.come(fresh_id="c")["member_id"])
    refused = scene.answered[f"sync {follower}"]
    assert (refused["error_code"], refused["assignment"]) == ("rebalance_in_progress", "")
    assert scene.share(follower, 1)["error_code"] == "rebalance_in_progress"


def test_an_assignment_that_could_not_be_stored_is_nobody_s() -> None:
    """Every delayed sync gets the error, and the group rebalances; nothing is written."""
    scene = ClassicScene()
    leader, follower = scene.enter("a", "b")
    scene.share(follower, 1)
    request = Request(99, "client", "/127.0.0.1", 5, SyncGroupRequest("g", 1, leader))
    step = sync(scene.classic, request, scene.context, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert {answer.body.error_code for answer in step.answers} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert (len(step.answers), step.records, step.state.state.name) == (2, (), "PREPARING_REBALANCE")


def test_an_exchange_that_could_not_be_stored_is_undone() -> None:
    """The old id is the member again, with its session; the joiner gets the error."""
    scene = ClassicScene()
    scene.come(name="s", fresh_id="x", group_instance_id="i1")
    scene.wait(3_000)
    scene.share("i1-x", 1, assigns={"i1-x": {"foo": [0]}}, group_instance_id="i1")
    protocols = tuple(JoinGroupRequestProtocol(*one) for one in scene.classic.members["i1-x"].protocols)
    body = JoinGroupRequest("g", 10_000, 60_000, "", "i1", "consumer", protocols)
    request = Request(99, "client", "/127.0.0.1", 9, body, "y")
    step = join(scene.classic, request, scene.context, ErrorCode.NOT_COORDINATOR)
    (answer,) = step.answers
    assert (answer.body.error_code, answer.body.member_id, step.records) == (ErrorCode.NOT_COORDINATOR, "", ())
    assert (list(step.state.members), step.state.leader) == (["i1-x"], "i1-x")


def test_who_comes_back_in_a_round_and_could_not_be_stored_is_refused() -> None:
    """F43: nothing has changed."""
    scene = ClassicScene("fixed")
    scene.come(name="s", fresh_id="x", group_instance_id="i1")
    scene.wait(3_000)
    scene.share("i1-x", 1, assigns={"i1-x": {"foo": [0]}}, group_instance_id="i1")
    scene.come(scene.come(fresh_id="b")["member_id"])
    protocols = tuple(JoinGroupRequestProtocol(*one) for one in scene.classic.members["i1-x"].protocols)
    body = JoinGroupRequest("g", 10_000, 60_000, "", "i1", "consumer", protocols)
    step = join(
        scene.classic, Request(99, "client", "/127.0.0.1", 9, body, "y"), scene.context, ErrorCode.NOT_COORDINATOR
    )
    assert ([one.body.error_code for one in step.answers], step.records) == ([ErrorCode.NOT_COORDINATOR], ())
    assert step.state == scene.classic


@pytest.mark.parametrize(
    ("member_id", "generation", "code"),
    [("client-a", 1, None), ("client-a", 0, "illegal_generation"), ("nobody", 1, "unknown_member_id")],
)
def test_heartbeats_name_member_and_generation(member_id: str, generation: int, code: str | None) -> None:
    """In a stable group."""
    scene = ClassicScene()
    scene.stable("a")
    assert scene.pulse(member_id, generation) == code


def test_heartbeats_are_answered_while_syncs_are_awaited() -> None:
    """A client may begin with them as soon as it has joined."""
    scene = ClassicScene()
    (leader,) = scene.enter("a")
    assert scene.pulse(leader, 1) is None


def test_a_group_that_nobody_knows_has_no_members() -> None:
    """Sync and Heartbeat are refused, and so is every entry of a LeaveGroup."""
    scene = ClassicScene()
    assert scene.share("m", 1)["error_code"] == "unknown_member_id"
    assert scene.pulse("m", 1) == "unknown_member_id"
    assert scene.go("m", ("", "i1")) == ["unknown_member_id", "unknown_member_id"]


def test_the_last_leave_empties_the_group() -> None:
    """The generation goes up and is stored, without members and without a protocol."""
    scene = ClassicScene()
    (leader,) = scene.stable("a")
    assert scene.go(leader) == [None]
    (record,) = scene.last.records
    assert isinstance(record.value, ClassicGroup)
    assert (record.value.generation, record.value.protocol, record.value.members) == (2, None, ())
    assert (scene.states, scene.described["protocol_type"]) == ("Empty", "consumer")


def test_a_batch_of_leaves_is_one_rebalance() -> None:
    """Each entry has its own error; a second entry of the same member finds it gone."""
    scene = ClassicScene()
    first, second, third = scene.stable("a", "b", "c")
    assert scene.go(first, "nobody", second, first) == [None, "unknown_member_id", None, "unknown_member_id"]
    assert (scene.states, scene.classic.leader) == ("PreparingRebalance", third)
    assert scene.come(third)["generation_id"] == 2


def test_an_administrator_removes_a_static_member_by_its_instance_id() -> None:
    """Without its member id; an unknown instance id is refused, a wrong member id fenced."""
    scene = ClassicScene()
    scene.come(name="s", fresh_id="x", group_instance_id="i1")
    scene.wait(3_000)
    assert scene.go(("", "i2"), ("other", "i1")) == ["unknown_member_id", "fenced_instance_id"]
    assert scene.go(("", "i1")) == [None]
    assert scene.states == "Empty"


def test_a_member_that_leaves_while_its_join_waits_is_told_so() -> None:
    """UNKNOWN_MEMBER_ID without an id, so that it starts anew if it still lives."""
    scene = ClassicScene()
    scene.come(name="s", fresh_id="x", group_instance_id="i1")
    scene.go(("", "i1"))
    refused = scene.answered["s"]
    assert (refused["error_code"], refused["member_id"]) == ("unknown_member_id", "")


def test_an_initial_rebalance_goes_on_when_everybody_left() -> None:
    """Only its timer ends it, with an empty generation."""
    scene = ClassicScene()
    member_id = scene.come(fresh_id="a")["member_id"]
    scene.come(member_id)
    scene.go(member_id)
    assert (scene.states, scene.records) == ("PreparingRebalance", [])
    assert scene.wait(3_000) == ["2"]
    assert (scene.states, scene.classic.generation) == ("Empty", 1)


def test_an_id_that_was_given_out_may_leave() -> None:
    """In a stable group that is reason enough for a rebalance."""
    scene = ClassicScene()
    scene.stable("a")
    given_out = scene.come(fresh_id="b")["member_id"]
    assert scene.go(given_out) == [None]
    assert scene.states == "PreparingRebalance"


def test_before_version_3_a_leave_names_one_member() -> None:
    """Its error is the answer's."""
    scene = ClassicScene()
    scene.stable("a")
    body = {"member_id": "nobody"}
    assert scene.ask("leave", "LeaveGroup", 2, body) == {"error_code": "unknown_member_id"}
    assert scene.ask("leave", "LeaveGroup", 2, {"member_id": "client-a"}) == {"error_code": None}


@pytest.mark.parametrize(
    ("identity", "code"),
    [
        (("client-a", 1), None),
        (("client-a", 0), ErrorCode.ILLEGAL_GENERATION),
        (("nobody", 1), ErrorCode.UNKNOWN_MEMBER_ID),
        (("", -1), ErrorCode.UNKNOWN_MEMBER_ID),
        (("client-a", -1), ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_commits_in_a_stable_group(identity: tuple[str, int], code: ErrorCode | None) -> None:
    """They name member and generation; what names neither is for empty groups."""
    scene = ClassicScene()
    scene.stable("a")
    assert refusal(scene, *identity) is code


def refusal(scene: ClassicScene, member_id: str, generation: int, *, transactional: bool = False) -> ErrorCode | None:
    """With what the group refuses a commit; None where it takes it."""
    try:
        refuse_commit(scene.classic, member_id, None, generation, transactional=transactional)
    except Refused as refused:
        return refused.code
    return None


def test_no_commit_while_syncs_are_awaited() -> None:
    """The member may no longer own what it commits for; a transaction's commit is taken all the same."""
    scene = ClassicScene()
    (leader,) = scene.enter("a")
    assert refusal(scene, leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert refusal(scene, leader, 1, transactional=True) is None
    assert refusal(scene, leader, 0, transactional=True) is ErrorCode.ILLEGAL_GENERATION


def test_an_empty_group_takes_commits_of_those_who_are_no_members() -> None:
    """An administrator's, or a consumer's that assigns to itself."""
    scene = ClassicScene()
    scene.go(*scene.stable("a"))
    assert refusal(scene, "", -1) is None
    assert refusal(scene, "", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_is_a_sign_of_life() -> None:
    """It begins the session anew, as a heartbeat does."""
    scene = ClassicScene()
    (leader,) = scene.stable("a")
    scene.wait(9_000)
    group = note_commit(scene.classic, leader, scene.context)
    assert group.heartbeat_deadlines_ms[leader] == scene.context.now_ms + 10_000


def test_only_an_empty_group_is_deleted() -> None:
    """With members it is NON_EMPTY_GROUP."""
    scene = ClassicScene()
    (leader,) = scene.stable("a")
    with pytest.raises(Refused, match="NON_EMPTY_GROUP"):
        refuse_deletion(scene.classic)
    scene.go(leader)
    refuse_deletion(scene.classic)
