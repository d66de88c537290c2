"""Consumer groups beyond messages and timers: what applications, processes, topics and brokers do besides."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, partialmethod
from typing import Any

import pytest
from models import consumer_group, replayed

from fsm.check import Verdict, check
from fsm.check.kafka.consumer import coordinator
from fsm.check.search import Search
from fsm.coordinator.consumer import subscriptions
from fsm.errors import InputError
from fsm.member.consumer.effects import Effects
from fsm.member.dialect.choices import Choice
from fsm.member.dialect.dialect import choices_of, custom

COUNTS: list[Any] = [
    pytest.param({}, "close", 18_677, 55_630, marks=pytest.mark.deep),
    ({"members": 1}, "hanging", 29, 40),
    pytest.param({}, "hanging", 11_229, 31_988, marks=pytest.mark.deep),
    ({"members": 1}, "raising", 20, 32),
    pytest.param({}, "raising", 5_387, 19_034, marks=pytest.mark.deep),
    ({"members": 1}, "failover_losing", 38, 58),
    pytest.param({}, "failover_losing", 20_393, 65_386, marks=pytest.mark.deep),
    pytest.param({"client": "4.0,4.4"}, "", 2_893, 8_774, marks=pytest.mark.deep),
    pytest.param({"client": "4.0,4.4"}, "failover_losing", 20_393, 65_386, marks=pytest.mark.deep),
    ({"members": 1, "static": True}, "restart", 129, 262),
    pytest.param({"static": True}, "restart", 186_317, 707_796, marks=pytest.mark.deep),
    ({"members": 1, "static": True}, "close", 65, 105),
    pytest.param({"static": True}, "close", 28_553, 86_240, marks=pytest.mark.deep),
    ({"members": 1, "commits": True}, "close", 237, 508),
    pytest.param({"commits": True}, "", 38_677, 149_986, marks=pytest.mark.deep),
    pytest.param({"commits": True}, "close", 301_397, 1_171_988, marks=pytest.mark.deep),
    pytest.param({"topics": {"foo": 1}, "assignment_interval": True}, "", 6_065, 20_366, marks=pytest.mark.deep),
    pytest.param({"assignment_interval": True}, "", 13_113, 46_218, marks=pytest.mark.deep),
    pytest.param({"search": True}, "", 2_893, 8_774, marks=pytest.mark.deep),
    ({"members": 1, "search": True}, "move", 52, 88),
    pytest.param({"search": True}, "move", 37_745, 119_104, marks=pytest.mark.deep),
    pytest.param({"topic_changes": True}, "", 2_893, 8_774, marks=pytest.mark.deep),
    pytest.param({"topic_changes": True}, "topic_created", 141_433, 551_517, marks=pytest.mark.deep),
    pytest.param({"topic_changes": True}, "topic_deleted", 132_369, 533_229, marks=pytest.mark.deep),
    pytest.param({"topic_changes": True}, "topic_grown", 131_413, 548_103, marks=pytest.mark.deep),
    pytest.param({"pattern": "fo.*"}, "", 39_421, 144_438, marks=pytest.mark.deep),
    ({"members": 1, "pattern": ".*", "topic_changes": True}, "topic_created", 1_533, 4_252),
    ({"members": 1, "client_pattern": ".*", "topic_changes": True}, "topic_created", 288, 569),
    ({"members": 1, "topic_changes": True}, "topic_recreated", 319, 651),
    ({"members": 1}, "commit_async", 34, 54),
    pytest.param({}, "commit_async", 10_259, 34_666, marks=pytest.mark.deep),
    ({"members": 1}, "commit_sync", 34, 54),
    pytest.param({}, "commit_sync", 7_579, 24_238, marks=pytest.mark.deep),
    pytest.param({"commits": True}, "commit_sync", 139_543, 575_920, marks=pytest.mark.deep),
    pytest.param({"topics": {"foo": 1, "bar": 1}}, "resubscribe", 57_009, 183_820, marks=pytest.mark.deep),
    ({"members": 1, "topics": {"foo": 1, "bar": 1}, "pattern": ".*"}, "resubscribe", 141, 282),
    ({}, "interrupted", 4_121, 13_602),
    ({"members": 1}, "close_timeout", 42, 70),
    pytest.param({}, "close_timeout", 12_351, 39_132, marks=pytest.mark.deep),
    ({"members": 1, "commits": True, "compaction": True}, "failover_compacted", 171, 499),
]


@pytest.mark.parametrize(("options", "kind", "states", "transitions"), COUNTS)
@pytest.mark.loop(8)
def test_groups_have_so_many_states(options: dict[str, Any], kind: str, states: int, transitions: int) -> None:
    """And live objects take any path of them, to the same states."""
    kinds = frozenset({kind} - {""})
    search = Search(consumer_group(**options), kinds, len(kinds), every=True).run()
    assert (search.states.size, search.transitions, search.exact) == (states, transitions, True)
    assert not any(one.differs for one in replayed(search, 15))


def checked(kind: str = "", **options: Any) -> Verdict:
    return check(consumer_group(**options), disturb=[kind] if kind else [], disturbances=int(bool(kind)), every=True)


def lengths(verdict: Verdict) -> dict[str, int]:
    return {one.property: one.doomed_at or len(one.path) for one in verdict.violations}


@pytest.mark.deep
def test_an_acknowledgement_under_way_gives_up_what_is_being_assigned() -> None:
    """No failure at all: a second target comes while the first is acknowledged, and its callback takes its time.

    A topic that grows does it, or a regular expression that is resolved after a join. The dialect `fixed` is clean.
    """
    verdict = checked(pattern="fo.*")
    assert lengths(verdict) == {"members use only assigned partitions": 15, "no partition has two users": 22}
    assert all(one.replayed is not None and not one.replayed.differs for one in verdict.violations)
    assert "owns nothing" in verdict.violations[0].path[13].message
    assert checked(pattern="fo.*", client="fixed").word == "holds"


@pytest.mark.parametrize("kind", [pytest.param("commit_async", marks=pytest.mark.deep), "commit_sync"])
def test_an_application_commits_what_it_uses(kind: str) -> None:
    """With the epoch of its member; a broker of 4.0 refuses an owner whose next epoch is under way."""
    assert checked(kind).word == "holds"
    assert lengths(checked(kind, topics={"foo": 1}, coordinator="4.0.0")) == {coordinator.OWNER: 12}


def test_a_stale_commit_is_tried_again_until_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before the answer with the next epoch is there; an epoch that the client never uses is for ever."""

    def commit(original: Any, member: Any, *asked: Any) -> None:
        original(member, *asked)
        sent = member.effects.pop()
        member.effects.append(replace(sent, body=replace(sent.body, generation_id_or_member_epoch=1)))

    original = Effects._send_commit
    monkeypatch.setattr(Effects, "_send_commit", partialmethod(partial(commit, original)))
    verdict = checked("commit_sync", topics={"foo": 1}, coordinator="4.0.0")
    assert set(lengths(verdict)) == {
        coordinator.OWNER,
        "the group settles",
    }


@pytest.mark.deep
def test_a_topic_that_is_made_anew_is_used_before_it_is_assigned() -> None:
    """A client fetches by name: once it knows the new id, from what the coordinator may give to somebody else (W23).

    Beyond that it harms no group, but by the acknowledgement under way that a second target meets (W11). A client that
    keeps the ids of what it is assigned ends it under any coordinator.
    """
    client = custom("fixed but for W23", choices_of("fixed") - {Choice.ANOTHER_ID_IS_ANOTHER_TOPIC})
    verdict = checked("topic_recreated", topic_changes=True, client=client)
    assert lengths(verdict) == {"members use only assigned partitions": 8, "no partition has two users": 16}
    assert all(one.hazards == ("anew",) for one in verdict.violations)
    verdict = checked("topic_recreated", topic_changes=True, client="fixed")
    assert (verdict.word, verdict.states) == ("holds", 235_859)
    model = consumer_group(topic_changes=True)
    verdict = check(model, disturb=["topic_recreated"], disturbances=1, known=["anew", "W1"], every=True)
    assert lengths(verdict) == {"members use only assigned partitions": 21}


@pytest.mark.deep
def test_a_member_is_restarted_twice() -> None:
    """Its third process finds the first two in the group, whose sessions end in their time."""
    verdict = check(consumer_group(1, {"foo": 1}, client="fixed"), disturb=["restart"], disturbances=2, every=True)
    assert (verdict.word, verdict.states) == ("holds", 15_923)


def test_a_killed_static_member_cannot_come_back_at_once() -> None:
    """Its instance id is still in use: UNRELEASED_INSTANCE_ID is fatal, until the session of the old one expires."""
    verdict = checked("restart", members=1, static=True)
    found = next(one for one in verdict.violations if one.property == "no error ends an application")
    assert (found.disturbances, len(found.path)) == (1, 9)
    assert any("UNRELEASED_INSTANCE_ID" in step.message for step in found.path)


@pytest.mark.slow
def test_a_closed_static_member_comes_back_to_what_it_had() -> None:
    """And all that two such steps lead to, timers of members included whose place another one took."""
    model = consumer_group(static=True, client="fixed", coordinator="fixed")
    verdict = check(model, disturb=["close", "restart"], disturbances=2, every=True)
    assert (lengths(verdict), verdict.stopped) == ({"no error ends an application": 9}, "")


@pytest.mark.slow
def test_fixed_groups_are_clean_for_two_disturbances() -> None:
    kinds = ["close", "failover_losing", "hanging", "raising"]
    verdict = check(consumer_group(client="fixed", coordinator="fixed"), disturb=kinds, disturbances=2, every=True)
    assert (verdict.word, verdict.states) == ("holds", 313_083)


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        *(("close", 1), ("failover_losing", 1), ("hanging", 2), ("raising", 2), ("restart", 1)),
        *(pytest.param(kind, 2, marks=pytest.mark.deep) for kind in ("close", "failover_losing", "restart")),
    ],
)
@pytest.mark.loop(2)
def test_fixed_groups_are_clean(kind: str, members: int) -> None:
    assert checked(kind, client="fixed", members=members).word == "holds"


def test_members_that_do_not_search_do_not_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that says it is not the coordinator, to a member that asks it for ever."""
    monkeypatch.setattr(coordinator, "FIND", "asks somebody else")
    assert "the group settles" in lengths(checked("move", search=True, members=1))


@pytest.mark.deep
def test_a_commit_of_a_former_owner_that_is_accepted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a coordinator that takes every commit as one of its members'."""
    monkeypatch.setattr("fsm.coordinator.offsets.offsets._check_commit", lambda *_, **__: None)
    verdict = check(
        consumer_group(commits=True),
        disturb=["late"],
        disturbances=1,
        properties=[coordinator.FORMER_OWNER],
    )
    assert set(lengths(verdict)) == {coordinator.FORMER_OWNER}


@pytest.mark.parametrize(
    ("release", "steps"),
    [
        ("4.2.0", 14),
        ("4.3.0", 0),
        *(pytest.param(*other, marks=pytest.mark.deep) for other in (("4.0.0", 14), ("4.4.0", 0))),
    ],
)
def test_a_commit_while_the_next_epoch_is_under_way(release: str, steps: int) -> None:
    """KIP-1251: refused as stale, though its sender owns what it commits; 4.3 looks at when it was assigned."""
    verdict = checked(topics={"foo": 1}, commits=True, coordinator=release)
    assert lengths(verdict) == ({coordinator.OWNER: steps} if steps else {})


def test_a_subscription_has_one_pattern() -> None:
    with pytest.raises(InputError, match="leave out --pattern"):
        consumer_group(pattern="a", client_pattern="b")
    with pytest.raises(InputError, match="give a regular expression"):
        consumer_group(client_pattern="(")


@pytest.mark.parametrize("option", ["pattern", "client_pattern"])
@pytest.mark.parametrize("pattern", ["fo+", "none"])
def test_a_pattern_asks_for_what_it_matches_alone(option: str, pattern: str) -> None:
    """Nobody has to use a topic that matches no pattern, nor one that is created."""
    options = {option: pattern, "members": 1, "topics": {"foo": 1, "bar": 1}, "client": "fixed", "topic_changes": True}
    verdict = checked("topic_created", **options)
    assert verdict.word == "holds"


def test_nobody_uses_a_topic_that_its_pattern_does_not_match(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator that resolves `foo` as `fo`, which matches a part of the name, assigns it."""
    monkeypatch.setattr(subscriptions, "select", lambda pattern, names: tuple(one for one in names if pattern in one))
    verdict = checked(members=1, topics={"foo": 1}, pattern="fo")
    assert "members use only subscribed topics" in lengths(verdict)


def test_too_many_dialects_are_refused() -> None:
    with pytest.raises(InputError, match="3 dialects for 2 members"):
        consumer_group(client="4.0,4.2,4.4")


@pytest.mark.deep
def test_who_hangs_as_it_unsubscribes_keeps_what_it_has() -> None:
    """W22: the poll timer does not count while it leaves. One that hangs in another callback is out at last."""
    client = custom("fixed but for W22", choices_of("fixed") - {Choice.POLL_TIMER_WHILE_LEAVING})
    model = consumer_group(client=client, coordinator="fixed")
    (found,) = check(model, disturb=["hanging", "leave"], disturbances=2, every=True).violations
    assert (found.property, found.doomed_at) == ("the group settles", 17)
    assert found.path[16].action == "hangs in its callback"
    assert found.path[16].state["a"].startswith("hangs in its callback; PREPARE_LEAVING at epoch 2, uses foo-0")


@pytest.mark.parametrize(
    ("kinds", "states"),
    [
        pytest.param(["hanging", "leave"], 63_872, marks=pytest.mark.deep),
        pytest.param(["leave", "poll_timeout", "rejoin"], 20_065_879, marks=pytest.mark.slow),
    ],
)
def test_who_unsubscribes_and_does_not_return_in_time_is_out(kinds: list[str], states: int) -> None:
    """W22 ends there, and who returns later, and subscribes again, does no harm."""
    model = consumer_group(client="fixed", coordinator="fixed")
    verdict = check(model, disturb=kinds, disturbances=len(kinds), every=True)
    assert (verdict.word, verdict.states) == ("holds", states)


@pytest.mark.deep
def test_who_is_out_of_the_group_and_hangs_is_gone() -> None:
    model = consumer_group(client="fixed", coordinator="fixed")
    verdict = check(model, disturb=["expire", "hanging"], disturbances=2, every=True)
    assert (verdict.word, verdict.states) == ("holds", 843_854)


@pytest.mark.deep
def test_a_commit_names_the_topic_that_was_assigned() -> None:
    """By name, a former owner's commit is stored for the topic that was made anew, and is another one's (W23)."""
    options = {"topic_changes": True, "topics": {"foo": 1}, "commits": True, "coordinator": "fixed"}
    client = custom("fixed but for W23", choices_of("fixed") - {Choice.ANOTHER_ID_IS_ANOTHER_TOPIC})
    disturbed = {"disturb": ["topic_recreated"], "disturbances": 1}
    verdict = check(consumer_group(client=client, **options), **disturbed, properties=[coordinator.FORMER_OWNER])
    assert lengths(verdict) == {coordinator.FORMER_OWNER: 15}
    verdict = check(consumer_group(client="fixed", **options), **disturbed)
    assert (verdict.word, verdict.states) == ("holds", 1_335_936)


def test_an_application_does_not_commit_again_what_no_topic_has() -> None:
    """It would wait for its commit, and no poll would revoke the topic that was deleted."""
    model = consumer_group(1, {"foo": 1}, client="fixed", coordinator="fixed", topic_changes=True)
    verdict = check(model, disturb=["commit_sync", "topic_recreated"], disturbances=2, every=True)
    assert verdict.word == "holds"
