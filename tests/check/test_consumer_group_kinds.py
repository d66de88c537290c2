"""Consumer groups beyond messages and timers: what applications, processes, topics and brokers do besides."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, partialmethod
from random import Random
from typing import Any

import pytest
from models import consumer_group

from fsm.check import Verdict, check
from fsm.check.kafka import coordinator
from fsm.check.search import Search
from fsm.check.verdict import states_on
from fsm.errors import InputError
from fsm.member.consumer.effects import Effects

COUNTS: list[tuple[dict[str, Any], str, int, int]] = [
    ({}, "close", 18_677, 55_630),
    ({}, "hanging", 11_229, 31_988),
    ({}, "raising", 5_387, 19_034),
    ({}, "failover_losing", 20_393, 65_386),
    ({"client": "4.0,4.4"}, "failover_losing", 20_393, 65_386),
    ({"static": True}, "restart", 186_317, 707_796),
    ({"static": True}, "close", 28_553, 86_240),
    ({"commits": True}, "", 38_677, 149_986),
    ({"commits": True}, "close", 301_397, 1_171_988),
    ({"assignment_interval": True}, "", 13_113, 46_218),
    ({"search": True}, "", 2_893, 8_774),
    ({"search": True}, "move", 37_745, 119_104),
    ({"topic_changes": True}, "", 2_893, 8_774),
    ({"topic_changes": True}, "topic_created", 141_433, 551_517),
    ({"topic_changes": True}, "topic_deleted", 132_369, 533_229),
    ({"topic_changes": True}, "topic_grown", 131_413, 548_103),
    ({"pattern": "fo.*"}, "", 39_421, 144_438),
    ({"members": 1, "pattern": ".*", "topic_changes": True}, "topic_created", 1_533, 4_252),
    ({"members": 1, "client_pattern": ".*", "topic_changes": True}, "topic_created", 288, 569),
    ({"members": 1, "topic_changes": True}, "topic_recreated", 319, 651),
    ({}, "commit_async", 10_259, 34_666),
    ({}, "commit_sync", 7_579, 24_238),
    ({"commits": True}, "commit_sync", 139_543, 575_920),
    ({"topics": {"foo": 1, "bar": 1}}, "resubscribe", 57_009, 183_820),
    ({"members": 1, "topics": {"foo": 1, "bar": 1}, "pattern": ".*"}, "resubscribe", 141, 282),
    ({}, "interrupted", 4_121, 13_602),
    ({}, "close_timeout", 12_351, 39_132),
    ({"members": 1, "commits": True, "compaction": True}, "failover_compacted", 171, 499),
]


@pytest.mark.parametrize(("options", "kind", "states", "transitions"), COUNTS)
def test_groups_have_so_many_states(options: dict[str, Any], kind: str, states: int, transitions: int) -> None:
    """And live objects take any path of them, to the same states."""
    kinds = frozenset({kind} - {""})
    search = Search(consumer_group(**options), kinds, len(kinds), every=True).run()
    assert (search.states.size, search.transitions, search.exact) == (states, transitions, True)
    assert search.model.replay is not None
    chance = Random(1)  # noqa: S311
    for _ in range(15):
        path = states_on(search, chance.randrange(search.states.size))
        assert search.model.replay(path).differs == ""


def checked(kind: str = "", **options: Any) -> Verdict:
    return check(consumer_group(**options), disturb=[kind] if kind else [], disturbances=int(bool(kind)), every=True)


def lengths(verdict: Verdict) -> dict[str, int]:
    return {one.property: one.doomed_at or len(one.path) for one in verdict.violations}


def test_an_acknowledgement_under_way_gives_up_what_is_being_assigned() -> None:
    """No failure at all: a second target comes while the first is acknowledged, and its callback takes its time.

    A topic that grows does it, or a regular expression that is resolved after a join. The dialect `fixed` is clean.
    """
    verdict = checked(pattern="fo.*")
    assert lengths(verdict) == {"held by the coordinator's book": 15, "one user": 22}
    assert all(one.replayed is not None and not one.replayed.differs for one in verdict.violations)
    assert "owns nothing" in verdict.violations[0].path[13].message
    assert checked(pattern="fo.*", client="fixed").word == "holds"


@pytest.mark.parametrize("kind", ["commit_async", "commit_sync"])
def test_an_application_commits_what_it_uses(kind: str) -> None:
    """With the epoch of its member; a broker of 4.0 refuses an owner whose next epoch is under way."""
    assert checked(kind).word == "holds"
    assert lengths(checked(kind, coordinator="4.0.0")) == {coordinator.OWNER: 17}


def test_a_stale_commit_is_tried_again_until_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before the answer with the next epoch is there; an epoch that the client never uses is for ever."""
    model = consumer_group(coordinator="4.0.0")
    verdict = check(model, disturb=["commit_sync"], disturbances=1, every=True)
    assert set(lengths(verdict)) == {coordinator.OWNER}

    def commit(original: Any, member: Any, *asked: Any) -> None:
        original(member, *asked)
        sent = member.effects.pop()
        member.effects.append(replace(sent, body=replace(sent.body, generation_id_or_member_epoch=1)))

    original = Effects._send_commit
    monkeypatch.setattr(Effects, "_send_commit", partialmethod(partial(commit, original)))
    verdict = check(model, disturb=["commit_sync"], disturbances=1, every=True)
    assert set(lengths(verdict)) == {coordinator.OWNER, "the group settles"}


def test_a_topic_that_is_made_anew_is_used_before_it_is_assigned() -> None:
    """A client fetches by name: once it knows the new id, from what the coordinator may give to somebody else.

    Beyond that it harms no group, but by the acknowledgement under way that a second target meets (W11).
    """
    verdict = checked("topic_recreated", topic_changes=True, client="fixed")
    assert lengths(verdict) == {"held by the coordinator's book": 8, "one user": 16}
    assert all(one.hazards == ("anew",) for one in verdict.violations)
    model = consumer_group(topic_changes=True, client="fixed")
    assert check(model, disturb=["topic_recreated"], disturbances=1, known=["anew"], every=True).word == "holds"
    model = consumer_group(topic_changes=True)
    verdict = check(model, disturb=["topic_recreated"], disturbances=1, known=["anew", "W1"], every=True)
    assert lengths(verdict) == {"held by the coordinator's book": 21}


def test_a_member_is_restarted_twice() -> None:
    """Its third process finds the first two in the group, whose sessions end in their time."""
    verdict = check(consumer_group(1, client="fixed"), disturb=["restart"], disturbances=2, every=True)
    assert (verdict.word, verdict.states) == ("holds", 22_417)


def test_a_killed_static_member_cannot_come_back_at_once() -> None:
    """Its instance id is still in use: UNRELEASED_INSTANCE_ID is fatal, until the session of the old one expires."""
    verdict = checked("restart", static=True)
    found = next(one for one in verdict.violations if one.property == "no application is ended")
    assert (found.disturbances, len(found.path)) == (1, 9)
    assert any("UNRELEASED_INSTANCE_ID" in step.message for step in found.path)


@pytest.mark.slow
def test_a_closed_static_member_comes_back_to_what_it_had() -> None:
    """And all that two such steps lead to, timers of members included whose place another one took."""
    model = consumer_group(static=True, client="fixed", coordinator="fixed")
    verdict = check(model, disturb=["close", "restart"], disturbances=2, every=True)
    assert (lengths(verdict), verdict.stopped) == ({"no application is ended": 9}, "")


@pytest.mark.slow
def test_fixed_groups_are_clean_for_two_disturbances() -> None:
    kinds = ["close", "failover_losing", "hanging", "raising"]
    verdict = check(consumer_group(client="fixed", coordinator="fixed"), disturb=kinds, disturbances=2, every=True)
    assert (verdict.word, verdict.states) == ("holds", 313_083)


@pytest.mark.parametrize("kind", ["close", "hanging", "raising", "failover_losing", "restart"])
def test_fixed_groups_are_clean(kind: str) -> None:
    assert checked(kind, client="fixed").word == "holds"


def test_members_that_do_not_search_do_not_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that says it is not the coordinator, to a member that asks it for ever."""
    monkeypatch.setattr(coordinator, "FIND", "asks somebody else")
    assert "the group settles" in lengths(checked("move", search=True, members=1))


def test_a_commit_of_a_former_owner_that_is_accepted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a coordinator that takes every commit as one of its members'."""
    monkeypatch.setattr("fsm.coordinator.offsets.offsets._check_commit", lambda *_, **__: None)
    verdict = check(
        consumer_group(commits=True), disturb=["late"], disturbances=1, properties=[coordinator.FORMER_OWNER]
    )
    assert set(lengths(verdict)) == {coordinator.FORMER_OWNER}


@pytest.mark.parametrize(("release", "steps"), [("4.0.0", 17), ("4.2.0", 17), ("4.3.0", 0), ("4.4.0", 0)])
def test_a_commit_while_the_next_epoch_is_under_way(release: str, steps: int) -> None:
    """KIP-1251: refused as stale, though its sender owns what it commits; 4.3 looks at when it was assigned."""
    assert lengths(checked(commits=True, coordinator=release)) == ({coordinator.OWNER: steps} if steps else {})


def test_a_subscription_has_one_pattern() -> None:
    with pytest.raises(InputError, match="leave out --pattern"):
        consumer_group(pattern="a", client_pattern="b")
    with pytest.raises(InputError, match="give a regular expression"):
        consumer_group(client_pattern="(")


def test_too_many_dialects_are_refused() -> None:
    with pytest.raises(InputError, match="3 dialects for 2 members"):
        consumer_group(client="4.0,4.2,4.4")
