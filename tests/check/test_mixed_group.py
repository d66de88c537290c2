"""Groups of both protocols: how many states there are, and the weak spots of migration that the checker finds."""

from __future__ import annotations

from typing import Any

import pytest
from models import classic_group, consumer_group, mixed_group, replayed

from fsm.check import Limits, Verdict, Violation, check
from fsm.check.kafka.application import ASSIGNS_NEW
from fsm.check.kafka.classic.promises import ANSWERED_ONCE
from fsm.check.kafka.consumer.group import DUPLICATES
from fsm.check.kafka.consumer.shell import LEAVES, ONE_HEARTBEAT
from fsm.check.kafka.topics import CHANGES
from fsm.check.search import Search
from fsm.errors import InputError

KNOWN = ("early", "refused", "W33")
"""W33 is found wherever the last consumer goes."""


@pytest.mark.parametrize(
    ("options", "states", "transitions"),
    [
        ({}, 4_527, 13_949),
        pytest.param({"policy": "upgrade"}, 4_527, 13_949, marks=pytest.mark.deep),
        ({"policy": "downgrade"}, 2_467, 7_496),
        ({"policy": "disabled"}, 153, 258),
        ({"protocol": "cooperative", "coordinator": "4.0.0"}, 5_043, 15_587),
    ],
)
@pytest.mark.loop(2)
def test_groups_have_so_many_states(options: dict, states: int, transitions: int) -> None:
    """Whoever changes a member's, the coordinator's or the migration's behaviour sees it here."""
    found = Search(mixed_group(**options), known=KNOWN, every=True).run()
    assert (found.states.size, found.transitions, found.found) == (states, transitions, {})


def test_the_invariants_of_its_members_are_those_of_either_group() -> None:
    """Each can be chosen, and is silent where another one is."""
    mixed = mixed_group()
    of_others = {*consumer_group().asked_of_steps, *classic_group().asked_of_steps}
    assert {LEAVES, ONE_HEARTBEAT, ASSIGNS_NEW, ANSWERED_ONCE} <= {*mixed.asked_of_steps} & of_others


@pytest.mark.parametrize(
    ("options", "kinds", "states"),
    [
        ({"static": True}, (), 3_298),
        pytest.param({"commits": True, "topics": {"foo": 1}}, (), 8_900, marks=pytest.mark.deep),
        pytest.param({"commits": True}, (), 37_391, marks=pytest.mark.deep),
        ({"topics": {"foo": 1}}, ("commit_sync",), 4_976),
        pytest.param({}, ("commit_sync",), 10_289, marks=pytest.mark.deep),
        pytest.param({}, ("raising",), 6_146, marks=pytest.mark.deep),
    ],
)
@pytest.mark.loop(1)
def test_static_members_commits_and_callbacks_that_raise(options: dict, kinds: tuple[str, ...], states: int) -> None:
    model = mixed_group(client="fixed", **options)
    found = check(model, disturb=kinds, disturbances=len(kinds), known=KNOWN, every=True)
    assert (found.word, found.states) == ("holds", states)


KINDS: list[Any] = [
    pytest.param({}, "failover_losing", 28_723, 87_450, marks=pytest.mark.deep),
    pytest.param({}, "hanging", 9_509, 28_308, marks=pytest.mark.deep),
    pytest.param({}, "close_timeout", 25_210, 76_526, marks=pytest.mark.deep),
    pytest.param({}, "interrupted", 3_193, 10_777, marks=pytest.mark.deep),
    pytest.param({"search": True}, "move", 39_816, 119_966, marks=pytest.mark.deep),
    ({"search": True}, "session_timeout", 3_525, 10_720),
    pytest.param({"compaction": True}, "failover_compacted", 10_771, 37_028, marks=pytest.mark.deep),
    pytest.param(
        {"compaction": True, "protocol": "cooperative", "topics": {"foo": 2}},
        "failover_compacted",
        24_778,
        87_811,
        marks=pytest.mark.deep,
    ),
    pytest.param(
        {"search": True, "protocol": "cooperative", "topics": {"foo": 2}},
        "move",
        84_399,
        261_990,
        marks=pytest.mark.deep,
    ),
]
"""Kinds beyond messages and sessions, of applications and of the broker."""


@pytest.mark.parametrize(("options", "kind", "states", "transitions"), KINDS)
def test_applications_and_brokers_disturb_a_mixed_group(
    options: dict[str, Any], kind: str, states: int, transitions: int
) -> None:
    """It is safe and settles; live objects take any path, to the same states."""
    model = mixed_group(**{"topics": {"foo": 1}, **options}, client="fixed", coordinator="fixed")
    search = Search(model, frozenset({kind}), 1, every=True).run()
    assert (search.found, search.states.size, search.transitions) == ({}, states, transitions)
    assert not any(one.differs for one in replayed(search, 15))


def with_one(kind: str, **options: str) -> Verdict:
    return check(mixed_group(**options), disturb=[kind], disturbances=1, known=KNOWN, every=True)


def broken(verdict: Verdict) -> dict[str, Violation]:
    """What is broken."""
    assert not any(one.replayed and one.replayed.differs for one in verdict.violations)
    return {one.property: one for one in verdict.violations}


@pytest.mark.parametrize(
    ("protocol", "coordinator"),
    [
        pytest.param("eager", "4.3.0", marks=pytest.mark.deep),
        pytest.param("cooperative", "4.4.0", marks=pytest.mark.deep),
    ],
)
def test_partitions_are_stranded_after_a_refused_downgrade(protocol: str, coordinator: str) -> None:
    """W5: the last consumer leaves, the policy keeps the group from becoming classic; nobody is told to join."""
    found = broken(with_one("leave", policy="upgrade", protocol=protocol, coordinator=coordinator))
    assert {name: one.doomed_at for name, one in found.items()} == {"the group settles": 20}
    (stranded,) = found.values()
    assert any(step.state.get("broker", "").startswith("ASSIGNING, epoch 3, target 2") for step in stranded.path[20:])


@pytest.mark.deep
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"policy": "bidirectional"}, marks=pytest.mark.deep),
        {"policy": "upgrade", "coordinator": "4.2.0"},
    ],
)
def test_what_strands_them_is_the_policy_with_the_rules_since_4_3(options: dict) -> None:
    assert broken(with_one("leave", **options)) == {}


def test_a_consumer_that_joins_before_the_first_generation_is_ended() -> None:
    """The classic group has no protocol yet, which its conversion wants: UNKNOWN_SERVER_ERROR, undisturbed."""
    found = broken(check(mixed_group(), every=True))
    assert set(found) == {"no error ends an application"}
    ended = found["no error ends an application"]
    assert (ended.disturbances, len(ended.path), ended.path[9].message) == (0, 11, "UNKNOWN_SERVER_ERROR")


@pytest.mark.parametrize(
    ("policy", "message"), [("downgrade", "GROUP_ID_NOT_FOUND"), ("disabled", "INCONSISTENT_GROUP_PROTOCOL")]
)
def test_whom_the_policy_does_not_let_in_is_ended(policy: str, message: str) -> None:
    found = check(mixed_group(policy=policy), known=["early"])
    assert [one.property for one in found.violations] == ["no error ends an application"]
    assert message in [step.message for step in found.violations[0].path]


def test_a_group_that_is_converted_before_its_assignment_stays_empty() -> None:
    """W14: nothing changes for the coordinator, so nobody computes a target."""
    found = broken(check(mixed_group(1, static=True), disturb=["convert"], disturbances=1, every=True))
    assert len(found["10 a group at rest holds every subscribed partition"].path) == 8
    assert found["the group settles"].doomed_at == 8


@pytest.mark.deep
def test_a_downgrade_forgets_who_waits() -> None:
    """W15: whoever waited for a partition is assigned it in the same generation, and not told."""
    found = broken(converted("early", "late_join", "W14"))
    assert {name: (one.doomed_at, len(one.path)) for name, one in found.items()} == {"the group settles": (13, 22)}


@pytest.mark.deep
def test_a_downgrade_harms_in_no_other_way() -> None:
    assert converted("early", "late_join", "W14", "W15").word == "holds"


def converted(*known: str) -> Verdict:
    model = mixed_group(client="fixed", static=True)
    return check(model, disturb=["convert"], disturbances=1, known=["W33", *known], every=True)


@pytest.mark.parametrize(
    ("members", "kind", "states"),
    [
        (1, "close", 66),
        pytest.param(2, "close", 32_166, marks=pytest.mark.deep),
        pytest.param(2, "restart", 2_410_440, marks=pytest.mark.slow),
        pytest.param(2, "convert", 2_525_074, marks=pytest.mark.slow),
    ],
)
def test_members_close_restart_and_come_back_with_the_other_protocol(members: int, kind: str, states: int) -> None:
    found = check(mixed_group(members, client="fixed"), disturb=[kind], disturbances=1, known=KNOWN, every=True)
    assert (broken(found), found.states, found.stopped) == ({}, states, "")


@pytest.mark.deep
def test_a_removed_cooperative_member_comes_back_with_what_it_used() -> None:
    """W2: it is too late to join, joins under its old id as if nothing were, and uses its partitions until it syncs."""
    found = broken(with_one("rebalance_timeout", client="fixed", protocol="cooperative"))
    assert len(found["members use only assigned partitions"].path) == 23
    assert len(found["no partition has two users"].path) == 30
    assert "no partition has two users" not in broken(with_one("rebalance_timeout", client="fixed", protocol="eager"))


@pytest.mark.deep
@pytest.mark.parametrize("topics", [{"foo": 1}, pytest.param({"foo": 2}, marks=pytest.mark.deep)], ids=str)
def test_other_single_disturbances_harm_no_migration_in_both_directions(topics: dict[str, int]) -> None:
    model = mixed_group(topics=topics, client="fixed", protocol="cooperative")
    kinds = ["crash", "failover", "leave", "lose", "rejoin", "unanswered"]
    found = check(model, disturb=kinds, disturbances=1, known=KNOWN, every=True)
    assert (broken(found), found.stopped) == ({}, "")


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        pytest.param({"policy": "upgrade"}, ("late", "leave"), marks=pytest.mark.deep),
        pytest.param({"protocol": "cooperative"}, ("expire", "failover", "rebalance_timeout"), marks=pytest.mark.deep),
        pytest.param({"members": 3, "classic": 2, "coordinator": "4.1.0"}, ("crash", "leave"), marks=pytest.mark.deep),
        ({"members": 1, "static": True}, ("close", "convert", "restart")),
        pytest.param({"static": True}, ("close", "convert", "restart"), marks=pytest.mark.deep),
        pytest.param(
            {"static": True, "topics": {"foo": 1, "bar": 1}, "pattern": ".*"},
            ("convert", "resubscribe"),
            marks=pytest.mark.deep,
        ),
        pytest.param({"assignment_interval": True}, ("leave",), marks=pytest.mark.deep),
    ],
)
def test_paths_are_taken_by_live_objects_too(options: dict, kinds: tuple[str, ...]) -> None:
    search = Search(mixed_group(**options), frozenset(kinds), 1, KNOWN, every=True, limits=Limits(6_000)).run()
    assert not any(one.differs for one in replayed(search, 30))


@pytest.mark.parametrize(
    "options", [{"members": 0}, {"classic": 3}, {"policy": "sideways"}, {"protocol": "sticky"}, {"members": 9}]
)
def test_unusable_questions_are_refused(options: dict) -> None:
    with pytest.raises(InputError, match=r"--members|--classic|--policy|--protocol"):
        mixed_group(**options)


def test_a_topic_that_matches_no_pattern_is_asked_of_nobody_but_classic_members() -> None:
    """The one of KIP-848 alone need not use it."""
    model = mixed_group(members=1, classic=0, topics={"foo": 1, "bar": 1}, pattern="fo+")
    assert check(model, disturb=["leave", "rejoin"], disturbances=2).word == "holds"


def test_what_other_groups_do_not_have_is_named() -> None:
    """Kinds of `consumer-group` only, as the README names them; each model says what it leaves out."""
    topics = {"foo": 1, "bar": 1}
    first = consumer_group(topics=topics, search=True, compaction=True, topic_changes=True)
    classic = classic_group(topics=topics, search=True, compaction=True, topic_changes=True)
    mixed = mixed_group(topics=topics, search=True, compaction=True)
    assert set(first.kinds) - set(classic.kinds) == set()
    assert set(classic.kinds) - set(first.kinds) == {"session_timeout"}
    assert set(first.kinds) - set(mixed.kinds) == set(CHANGES)
    assert set(mixed.kinds) - set(first.kinds) == {"convert", "session_timeout"}
    assert "pattern subscriptions" in classic.not_modelled
    assert "pattern subscriptions of classic members" in mixed.not_modelled
    assert mixed_group(pattern="fo.*").not_modelled == mixed.not_modelled
    for model in (first, classic, mixed):
        assert DUPLICATES in model.not_modelled
