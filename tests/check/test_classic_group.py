"""Groups of the classic protocol: how many states there are, what holds of them, and that each question can fail."""

from __future__ import annotations

from typing import Any

import pytest
from models import classic_group, list_disturbances, replayed

from fsm.check import Limits, Verdict, check
from fsm.check.kafka.application import CLOSE_NOW, CLOSE_OVER
from fsm.check.kafka.classic.member import ASSIGNORS, CALLBACK_INTERRUPTED, SESSION_OVER
from fsm.check.kafka.classic.promises import NEVER_FALLS
from fsm.check.kafka.consumer.compaction import FROM_COMPACTED
from fsm.check.kafka.consumer.coordinator import FORMER_OWNER, MOVES
from fsm.check.search import Search
from fsm.check.verdict import states_on
from fsm.coordinator.classic.draft import ClassicGroupDraft
from fsm.errors import InputError
from fsm.member.classic.assignors import ClientAssignor, assign_range
from fsm.tables.classic_group import Effect


@pytest.mark.parametrize(
    ("options", "kinds", "states", "transitions"),
    [
        ({}, (), 1_548, 4_496),
        pytest.param({"topics": {"foo": 1, "bar": 1}}, (), 1_548, 4_496, marks=pytest.mark.deep),
        ({"protocol": "cooperative"}, (), 3_040, 8_964),
        pytest.param({"coordinator": "4.0.0"}, (), 1_548, 4_496, marks=pytest.mark.deep),
        pytest.param({}, ("crash", "unanswered"), 21_262, 68_214, marks=pytest.mark.deep),
        pytest.param({"protocol": "cooperative"}, ("leave", "rejoin"), 32_020, 87_486, marks=pytest.mark.deep),
        ({"static": True}, (), 1_419, 4_184),
        pytest.param(
            {"static": True, "protocol": "cooperative"}, ("close", "leave"), 48_373, 138_002, marks=pytest.mark.deep
        ),
        ({"commits": True}, (), 2_094, 6_342),
        pytest.param({"commits": True, "protocol": "cooperative"}, (), 4_436, 13_828, marks=pytest.mark.deep),
        pytest.param({"commits": True}, ("close",), 23_946, 69_476, marks=pytest.mark.deep),
        ({}, ("commit_sync",), 2_706, 8_410),
        ({"protocol": "cooperative", "topics": {"foo": 1}}, ("commit_async",), 3_218, 10_406),
        pytest.param({"protocol": "cooperative"}, ("commit_async",), 7_708, 25_900, marks=pytest.mark.deep),
        ({}, ("raising",), 2_422, 7_992),
        pytest.param({"protocol": "cooperative"}, ("raising",), 4_764, 16_116, marks=pytest.mark.deep),
    ],
)
@pytest.mark.loop(3)
def test_groups_have_so_many_states(options: dict, kinds: tuple[str, ...], states: int, transitions: int) -> None:
    """Whoever changes a member's or the coordinator's behaviour sees it here."""
    found = Search(classic_group(**options), frozenset(kinds), int(bool(kinds)), (), every=True).run()
    assert found.found == {}
    assert (found.states.size, found.transitions, found.exact) == (states, transitions, True)


LOST, HANGS = "lost", "hangs in its callback"
KINDS: list[Any] = [
    ({"members": 1}, ("failover_losing",), LOST, 78, 112),
    pytest.param({}, ("failover_losing",), LOST, 33_197, 95_704, marks=pytest.mark.deep),
    pytest.param({"protocol": "cooperative"}, ("failover_losing",), LOST, 67_597, 196_780, marks=pytest.mark.deep),
    ({"members": 1}, ("hanging",), HANGS, 37, 60),
    ({"members": 1, "static": True}, ("hanging",), HANGS, 33, 55),
    pytest.param({}, ("hanging",), HANGS, 6_030, 19_076, marks=pytest.mark.deep),
    pytest.param({"protocol": "cooperative"}, ("hanging",), HANGS, 13_376, 42_758, marks=pytest.mark.deep),
    ({"members": 1}, ("close_timeout",), CLOSE_NOW, 91, 154),
    ({"members": 1, "commits": True}, ("close", "close_timeout"), CLOSE_OVER, 206, 417),
    pytest.param({}, ("close_timeout",), CLOSE_NOW, 27_960, 84_268, marks=pytest.mark.deep),
    pytest.param({"protocol": "cooperative"}, ("close_timeout",), CLOSE_NOW, 58_276, 177_334, marks=pytest.mark.deep),
    ({"members": 1}, ("interrupted",), CALLBACK_INTERRUPTED, 29, 47),
    ({"client": "fixed"}, ("interrupted",), CALLBACK_INTERRUPTED, 2_422, 7_992),
    ({"client": "fixed", "commits": True}, ("interrupted",), CALLBACK_INTERRUPTED, 3_118, 10_504),
    pytest.param(
        {"protocol": "cooperative"}, ("interrupted",), CALLBACK_INTERRUPTED, 4_662, 15_756, marks=pytest.mark.deep
    ),
    pytest.param({"search": True}, (), "", 1_548, 4_496, marks=pytest.mark.deep),
    ({"members": 1, "search": True}, ("move",), MOVES, 109, 167),
    pytest.param({"search": True}, ("move",), MOVES, 42_243, 119_651, marks=pytest.mark.deep),
    pytest.param(
        {"search": True, "protocol": "cooperative"}, ("move",), MOVES, 85_099, 245_801, marks=pytest.mark.deep
    ),
    pytest.param({"members": 1, "search": True}, ("move", "move"), MOVES, 262, 408, marks=pytest.mark.deep),
    pytest.param({"search": True}, ("move", "move"), MOVES, 420_475, 1_181_776, marks=pytest.mark.deep),
    pytest.param({"search": True}, ("session_timeout",), SESSION_OVER, 2_498, 7_626, marks=pytest.mark.deep),
    ({"members": 1, "compaction": True}, ("failover_compacted",), FROM_COMPACTED, 71, 111),
    pytest.param({"compaction": True}, ("failover_compacted",), FROM_COMPACTED, 21_597, 62_766, marks=pytest.mark.deep),
]
"""Kinds beyond messages and sessions, of applications and of the broker, and a step that shows the last one."""


@pytest.mark.parametrize(("options", "kinds", "shows", "states", "transitions"), KINDS)
@pytest.mark.loop(3)
def test_applications_and_brokers_disturb_a_classic_group(
    options: dict[str, Any], kinds: tuple[str, ...], shows: str, states: int, transitions: int
) -> None:
    """It is safe and settles; the disturbance happens, and live objects take any path, to the same states."""
    search = Search(classic_group(**options), frozenset(kinds), len(kinds), every=True).run()
    assert (search.found, search.states.size, search.transitions) == ({}, states, transitions)
    assert {shows} - {""} <= list_disturbances(search, 150)
    assert not any(one.differs for one in replayed(search, 15))


@pytest.mark.deep
def test_who_is_interrupted_as_it_gives_partitions_up_joins_with_them() -> None:
    """W27: an eager member of the Java client uses them until its SyncGroup is answered. Nothing else comes of it.

    With automatic commits it does not use them any more, nor what it is left of them. In `fixed` neither happens: see
    the group disturbed by `interrupted` above.
    """
    disturbed = {"disturb": ["interrupted"], "disturbances": 1, "every": True}
    (found,) = check(classic_group(), **disturbed).violations
    assert (found.property, len(found.path), found.hazards) == ("no partition has two users", 34, ("interrupted",))
    assert found.path[22].action == CALLBACK_INTERRUPTED
    assert found.replayed is not None
    assert found.replayed.differs == ""
    verdict = check(classic_group(), **disturbed, known=["interrupted"])
    assert (verdict.word, verdict.states) == ("holds", 2_434)
    (found,) = check(classic_group(commits=True), **disturbed).violations
    assert (found.property, found.doomed_at) == ("the group settles", 23)
    verdict = check(classic_group(commits=True), **disturbed, known=["interrupted"])
    assert (verdict.word, verdict.states) == ("holds", 3_130)


def test_members_that_do_not_search_do_not_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that says it is not the coordinator, to a member that asks it for ever."""
    monkeypatch.setattr("fsm.check.kafka.consumer.coordinator.FIND", "asks somebody else")
    verdict = check(classic_group(search=True, members=1), disturb=["move"], disturbances=1, every=True)
    assert "the group settles" in {one.property for one in verdict.violations}


@pytest.mark.parametrize(
    ("protocol", "kinds"),
    [
        ("eager", ("failover", "lose")),
        pytest.param("eager", ("crash", "unanswered"), marks=pytest.mark.deep),
        pytest.param("cooperative", ("crash", "failover", "lose", "unanswered"), marks=pytest.mark.deep),
    ],
)
def test_a_classic_group_is_safe_and_settles(protocol: str, kinds: tuple[str, ...]) -> None:
    assert check(classic_group(protocol=protocol), disturb=kinds, disturbances=1, every=True).word == "holds"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "states"),
    [
        ({}, 519_952),
        ({"protocol": "cooperative"}, 1_252_958),
    ],
)
def test_one_disturbance_of_any_kind_harms_no_classic_group(options: dict[str, Any], states: int) -> None:
    """But an interrupt of an eager member (W27)."""
    model = classic_group(**options)
    found = check(model, disturb=model.kinds, disturbances=1, known=["interrupted"], every=True)
    assert (found.word, found.states) == ("holds", states)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "states"),
    [
        ({}, 467_977),
        ({"protocol": "cooperative"}, 1_077_149),
        ({"search": True}, 499_505),
        ({"search": True, "protocol": "cooperative"}, 1_131_655),
        ({"compaction": True}, 468_901),
        ({"compaction": True, "protocol": "cooperative"}, 1_080_853),
        ({"static": True}, 471_072),
        ({"static": True, "protocol": "cooperative"}, 1_124_478),
    ],
)
def test_one_disturbance_of_any_kind_harms_no_fixed_classic_group(options: dict[str, Any], states: int) -> None:
    model = classic_group(client="fixed", coordinator="fixed", **options)
    found = check(model, disturb=model.kinds, disturbances=1, every=True)
    assert (found.word, found.states, found.cut) == ("holds", states, {})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "states", "doomed_at"), [("eager", 440_611, {}), ("cooperative", 1_163_765, {"the group settles": 24})]
)
def test_a_static_member_is_restarted(protocol: str, states: int, doomed_at: dict[str, int]) -> None:
    """It takes the place of its old process, but a join of that one may come late, and fences it.

    A cooperative one that was to give a partition up takes what the round left it, and nobody asks for the round that
    would give that partition to somebody.
    """
    found = check(classic_group(protocol=protocol, static=True), disturb=["restart"], disturbances=1, every=True)
    violations = {one.property: one.doomed_at or len(one.path) for one in found.violations}
    assert (violations, found.states) == ({"no error ends an application": 9, **doomed_at}, states)
    assert "FENCED_INSTANCE_ID" in found.violations[0].path[-2].message
    assert not any(one.replayed and one.replayed.differs for one in found.violations)


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        ({}, ("late", "rebalance_timeout")),
        pytest.param({"protocol": "cooperative"}, ("leave", "rejoin", "crash", "failover"), marks=pytest.mark.deep),
        pytest.param({"protocol": "both"}, ("expire", "poll_timeout"), marks=pytest.mark.deep),
        pytest.param(
            {"commits": True, "protocol": "cooperative"}, ("close", "commit_sync", "raising"), marks=pytest.mark.deep
        ),
        ({"members": 1, "static": True}, ("close", "leave", "restart")),
        pytest.param({"static": True}, ("close", "leave", "restart"), marks=pytest.mark.deep),
        pytest.param({"topics": {"foo": 1, "bar": 1}}, ("resubscribe",), marks=pytest.mark.deep),
        pytest.param(
            {"topics": {"foo": 1}, "topic_changes": True},
            ("topic_created", "topic_deleted", "topic_grown"),
            marks=pytest.mark.deep,
        ),
        pytest.param({"protocol": "either,eager"}, (), marks=pytest.mark.deep),
    ],
)
@pytest.mark.loop(1)
def test_paths_are_taken_by_live_objects_too(options: dict, kinds: tuple[str, ...]) -> None:
    """Members with clocks, a host with tokens and a log: after each step of any path all is as the model says."""
    search = Search(classic_group(**options), frozenset(kinds), 1, every=True, limits=Limits(6_000)).run()
    assert not any(one.differs for one in replayed(search, 30))


def test_a_path_that_live_objects_do_not_take_is_told() -> None:
    search = Search(classic_group(1), frozenset(), 0).run()
    path = states_on(search, search.states.size - 1)
    action, after = path[-1]
    elsewhere = {**after, "a": after["a"]._replace(using=(("foo", 9),))}
    assert search.model.replay is not None
    assert search.model.replay([*path[:-1], (action, elsewhere)]).differs.startswith(f"step {len(path)}, ")


# Each question can fail


def asked(monkeypatch: pytest.MonkeyPatch, assignor: ClientAssignor) -> Verdict:
    monkeypatch.setitem(ASSIGNORS, "mine", (assignor,))
    return check(classic_group(protocol="mine"), every=True)


def broken(verdict: Verdict) -> set[str]:
    assert not any(one.replayed and one.replayed.differs for one in verdict.violations)
    return {one.property for one in verdict.violations}


@pytest.mark.deep
def test_an_eager_assignor_in_cooperative_members_makes_two_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """It hands on what its owner has not given up yet."""
    hasty = ClientAssignor("hasty", assign_range, cooperative=True)
    assert broken(asked(monkeypatch, hasty)) == {"no partition has two users"}


def test_an_assignor_that_gives_everything_to_everybody_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def assign_all(members, counts):
        return {one.member_id: tuple((topic, n) for topic, count in counts for n in range(count)) for one in members}

    assert broken(asked(monkeypatch, ClientAssignor("all", assign_all, cooperative=False))) == {
        "no partition is assigned twice",
        "no partition has two users",
    }


def test_an_assignor_that_forgets_a_partition_keeps_the_group_from_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    def assign_some(members, counts):
        return assign_range(members, tuple((topic, count - 1) for topic, count in counts))

    assert broken(asked(monkeypatch, ClientAssignor("some", assign_some, cooperative=False))) == {"the group settles"}


def test_an_assignor_that_raises_ends_its_application(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_members, _counts):
        raise ValueError("no idea")

    assert "no error ends an application" in broken(asked(monkeypatch, ClientAssignor("none", fail, cooperative=False)))


def test_a_join_that_nobody_answers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ClassicGroupDraft.methods, Effect.ANSWER_JOINS, lambda _: None)
    assert "no deadlock" in broken(check(classic_group(1), every=True))


def test_a_generation_that_falls_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def fall(draft: ClassicGroupDraft) -> None:
        draft.generation -= 1

    monkeypatch.setitem(ClassicGroupDraft.methods, Effect.BUMP_GENERATION, fall)
    assert NEVER_FALLS in broken(check(classic_group(1), every=True))


def test_a_promise_of_the_group_that_a_step_breaks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        ClassicGroupDraft.methods, Effect.ELECT_LEADER, lambda draft: setattr(draft, "leader", "nobody")
    )
    found = check(classic_group(1), every=True)
    assert "the leader is a member and an empty group has none" in broken(found)


@pytest.mark.deep
def test_a_commit_of_a_former_owner_that_is_accepted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a coordinator that takes every commit as one of its members'."""
    monkeypatch.setattr("fsm.coordinator.classic.requests.refuse_commit", lambda *_, **__: None)
    verdict = check(
        classic_group(topics={"foo": 1}, commits=True), disturb=["late"], disturbances=1, properties=[FORMER_OWNER]
    )
    assert {one.property for one in verdict.violations} == {FORMER_OWNER}


def test_unusable_questions_are_refused() -> None:
    with pytest.raises(InputError, match="choose from eager, cooperative, both"):
        classic_group(protocol="sticky")
    with pytest.raises(InputError, match="give 1 to 6"):
        classic_group(9)


@pytest.mark.parametrize(
    "kind",
    [*(pytest.param(kind, marks=pytest.mark.deep) for kind in ("topic_created", "topic_deleted")), "topic_grown"],
)
def test_a_static_leader_takes_changed_topics_as_assigned(kind: str) -> None:
    """W32: KIP-814 lets it skip the assignment. Live objects take the path, too."""
    model = classic_group(1, static=True, topics={"foo": 1}, topic_changes=True)
    asked = {"known": ["late_join"], "properties": ["the group settles"]}
    (found,) = check(model, disturb=["restart", kind], disturbances=2, **asked).violations
    assert found.doomed_at == 13
    assert found.replayed is not None
    assert not found.replayed.differs


@pytest.mark.deep
def test_a_cooperative_static_member_is_too_late_for_a_round() -> None:
    """W31: it keeps its place, and what it owns, which is another one's."""
    asked = ["no partition has two users"]
    model = classic_group(static=True, protocol="cooperative")
    (found,) = check(model, disturb=["rebalance_timeout"], disturbances=1, properties=asked).violations
    assert (found.property, len(found.path)) == (asked[0], 32)
    assert found.replayed is not None
    assert not found.replayed.differs
