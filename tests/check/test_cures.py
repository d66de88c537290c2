"""What releases suffer in groups, and that each cure of the dialect `fixed` ends its own part of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from models import MESSAGES_AND_TIMERS, classic_group, consumer_group, mixed_group

from fsm.check import Verdict, Walk, check
from fsm.check.kafka.topics import CHANGES
from fsm.check.model import Model
from fsm.coordinator.model.dialect import Choice as Coordinator
from fsm.coordinator.model.dialect import Dialect as Rules
from fsm.coordinator.model.dialect import dialect as coordinator_dialect
from fsm.errors import LocalProtocolError
from fsm.member.dialect.choices import Choice
from fsm.member.dialect.dialect import Dialect, choices_of, custom

ALL_BUT_LATE = [kind for kind in MESSAGES_AND_TIMERS if kind != "late"]


def checked(kinds: Sequence[str], disturbances: int = 1, **options: Any) -> Verdict:
    return check(consumer_group(**options), disturb=kinds, disturbances=disturbances, every=True)


def lengths(verdict: Verdict) -> dict[str, int]:
    """Each broken property, and the steps of its shortest path."""
    return {one.property: one.doomed_at or len(one.path) for one in verdict.violations}


def without(cure: Choice) -> Dialect:
    return custom(f"fixed but for {cure.name}", choices_of("fixed") - {cure})


def broker_without(cure: Coordinator) -> Rules:
    return coordinator_dialect("fixed").without_choices(cure)


FIXED = coordinator_dialect("fixed")


@pytest.mark.deep
def test_what_is_being_assigned_is_released_by_a_report() -> None:
    """W1 and W9: one lost heartbeat, and two applications use a partition in good standing."""
    verdict = checked(["lose"])
    assert lengths(verdict) == {"members use only assigned partitions": 13, "no partition has two users": 20}
    assert all(one.replayed is not None and not one.replayed.differs for one in verdict.violations)


@pytest.mark.deep
@pytest.mark.parametrize(("topics", "states"), [({"foo": 1}, 77_799), ({"foo": 2}, 210_953)], ids=str)
def test_fixed_members_are_clean(topics: dict[str, int], states: int) -> None:
    """One disturbance of every kind but `late`, anywhere; nothing is cut off."""
    verdict = checked(ALL_BUT_LATE, client="fixed", topics=topics)
    assert (verdict.word, verdict.states, verdict.cut) == ("holds", states, {})


def test_reports_of_what_is_assigned_end_double_use() -> None:
    """Without that cure `fixed` has W1 and W9 as releases have them."""
    verdict = checked(["lose"], client=without(Choice.REPORTS_WHAT_IS_ASSIGNED))
    assert lengths(verdict) == {"members use only assigned partitions": 13, "no partition has two users": 20}


@pytest.mark.deep
def test_full_heartbeats_end_a_swallowed_grant() -> None:
    """Without that cure a group of `fixed` members does not settle (W8); no client ends that of a late join (W6)."""
    assert "the group settles" in lengths(checked(["late"], client=without(Choice.FULL_WHILE_IN_DOUBT)))
    assert lengths(checked(["late"], client="fixed")) == {
        "members use only assigned partitions": 12,
        "no partition has two users": 19,
    }


@pytest.mark.parametrize(
    ("kinds", "topics", "states"),
    [
        (["late"], {"foo": 1}, 8_407),
        pytest.param(["late"], {"foo": 2}, 23_919, marks=pytest.mark.deep),
        pytest.param(MESSAGES_AND_TIMERS, {"foo": 2}, 215_293, marks=pytest.mark.deep),
    ],
)
def test_a_fixed_group_is_clean(kinds: Sequence[str], topics: dict[str, int], states: int) -> None:
    """With a `fixed` coordinator one disturbance of every kind, `late` too, does no harm: nothing is cut off."""
    verdict = checked(kinds, client="fixed", coordinator="fixed", topics=topics)
    assert (verdict.word, verdict.states, verdict.cut) == ("holds", states, {})


@pytest.mark.deep
def test_a_fixed_coordinator_handles_no_abandoned_request_after_its_repetition() -> None:
    """W8 ends there for clients of releases, too; what is left after a late request are W1 and H17, the client's."""
    assert "the group settles" in lengths(checked(["late"]))
    assert lengths(checked(["late"], coordinator="fixed")) == {
        "members use only assigned partitions": 13,
        "no partition has two users": 20,
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dialect", "coordinator", "kinds"), [("fixed", "4.4.0", ALL_BUT_LATE), ("fixed", "fixed", MESSAGES_AND_TIMERS)]
)
def test_fixed_groups_are_clean_for_two_disturbances(dialect: str, coordinator: str, kinds: Sequence[str]) -> None:
    """Two of these kinds, anywhere: the whole space, some 60 CPU seconds with `late`."""
    verdict = checked(kinds, 2, client=dialect, coordinator=coordinator)
    assert (verdict.word, verdict.cut, verdict.stopped) == ("holds", {}, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "states"), [({"assignment_interval": True}, 120_193), ({"pattern": "fo.*"}, 280_559)]
)
def test_late_requests_do_no_harm_with_an_interval_or_a_pattern(options: dict[str, Any], states: int) -> None:
    """Targets that wait for their interval, and topics that are still to be resolved."""
    verdict = checked(["late", "lose", "unanswered"], client="fixed", coordinator="fixed", **options)
    assert (verdict.word, verdict.states, verdict.cut) == ("holds", states, {})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "states"),
    [
        ({"static": True}, 479_841),
        ({}, 747_375),
        ({"topics": {"foo": 1, "bar": 1}}, 796_825),
        ({"search": True}, 775_097),
        ({"compaction": True}, 1_091_335),
        ({"topic_changes": True}, 2_287_119),
    ],
)
def test_fixed_groups_are_clean_for_one_disturbance_of_all_kinds(options: dict[str, Any], states: int) -> None:
    """Kinds of applications, of callbacks, of commits and of the search for the coordinator, too."""
    model = consumer_group(client="fixed", coordinator="fixed", **options)
    known = ["unreleased"] if options.get("static") else []  # it is killed, and back too soon
    verdict = check(model, disturb=model.kinds, disturbances=1, known=known, every=True)
    assert (verdict.word, verdict.states, verdict.cut.keys()) == ("holds", states, set(known))


LATE: dict[str, Callable[[str | Rules], Model]] = {
    "W10": lambda rules: consumer_group(client="fixed", coordinator=rules),
    "W19": lambda rules: consumer_group(client="fixed", coordinator=rules, static=True),
    "W20": lambda rules: mixed_group(client="fixed", coordinator=rules),
    "W21": lambda rules: classic_group(coordinator=rules),
    "W24": lambda rules: consumer_group(3, {"foo": 6}, client="fixed", coordinator=rules),
}
"""The models of the paths on which an abandoned request is handled after its repetition."""


def read_steps(number: str) -> list[str]:
    """The path of a weak spot."""
    return Path(__file__).with_name("paths").joinpath(f"{number}.txt").read_text(encoding="utf-8").splitlines()


def take_steps(model: Model, steps: Sequence[str]) -> Walk:
    """Takes the steps, which live objects take, too."""
    walk = Walk(model)
    for step in steps:
        walk.take(step)
    assert model.replay is not None
    assert model.replay(walk.path).differs == ""
    return walk


@pytest.mark.parametrize(
    "rules", ["4.4.0", broker_without(Coordinator.OLDER_CONNECTION_IS_CLOSED)], ids=["4.4.0", "fixed but for it"]
)
@pytest.mark.parametrize(
    "number", ["W10", "W24", *(pytest.param(one, marks=pytest.mark.deep) for one in ("W19", "W20"))]
)
@pytest.mark.loop(2)
def test_a_late_request_gives_up_what_was_assigned_since(number: str, rules: str | Rules) -> None:
    walk = take_steps(LATE[number](rules), read_steps(number))
    assert walk.list_broken() == ["members use only assigned partitions", "no partition has two users"]


@pytest.mark.parametrize("number", LATE)
@pytest.mark.loop(2)
def test_a_fixed_coordinator_closes_the_older_connection(number: str) -> None:
    """The late request of these paths is not handled there."""
    steps = read_steps(number)
    late = next(i for i, step in enumerate(steps) if ", late: " in step)
    walk = take_steps(LATE[number]("fixed"), steps[:late])
    assert walk.list_broken() == []
    with pytest.raises(LocalProtocolError, match="no such step here"):
        walk.take(steps[late])


# Static members. A join that comes too soon is cut off.

STATIC = ("unreleased",)
UNSYNCED, WAITING = Coordinator.CONVERSION_IN_REBALANCE_BUMPS, Coordinator.REPLACEMENT_REBALANCES_IF_WAITING


def converted(rules: Rules, members: int = 2, disturbances: int = 1, **options: Any) -> Verdict:
    model = mixed_group(members, client="fixed", coordinator=rules, static=True, **options)
    return check(model, disturb=["convert"], disturbances=disturbances, known=STATIC, every=True)


@pytest.mark.parametrize(
    ("rules", "states", "doomed_at"),
    [
        (FIXED, 570_242, {}),
        (broker_without(Coordinator.OWED_JOIN_REBALANCES), 601_226, {"the group settles": 24}),
    ],
)
@pytest.mark.slow
def test_who_takes_the_place_of_one_that_owes_a_join_rebalances(rules: Rules, states: int, doomed_at: dict) -> None:
    """W13 ends there."""
    model = classic_group(protocol="cooperative", static=True, coordinator=rules)
    verdict = check(model, disturb=["restart"], disturbances=1, every=True)
    assert (lengths(verdict), verdict.states) == (doomed_at, states)


@pytest.mark.deep
def test_a_conversion_within_a_rebalance_computes_a_target() -> None:
    """W14 ends there; a second conversion does no harm either."""
    assert lengths(converted(broker_without(UNSYNCED), 1))["the group settles"] == 8
    assert (converted(FIXED, 1, 2).word, converted(FIXED, 1, 2).states) == ("holds", 1_390)


@pytest.mark.deep
@pytest.mark.parametrize(("protocol", "states"), [("eager", 396_042), ("cooperative", 544_025)])
def test_a_downgrade_lets_nobody_wait(protocol: str, states: int) -> None:
    """W15 ends there."""
    assert lengths(converted(broker_without(WAITING), protocol=protocol))["the group settles"] == 13
    verdict = converted(FIXED, protocol=protocol)
    assert (verdict.word, verdict.states) == ("holds", states)


CONVERTED_TWICE = """
a subscribes
b subscribes
b polls
broker receives from b: JoinGroup, owns nothing
broker initial rebalance delay is over
a polls
b receives from broker: generation 1 as b-instance-b0, leads
b polls
b heartbeat interval is over
broker receives from b: SyncGroup of generation 1, gives b-instance-b0: foo-0, foo-1
broker receives from a: joins, owns nothing
b receives from broker: is assigned foo-0, foo-1
b polls
broker receives from b: Heartbeat of generation 1
b receives from broker: REBALANCE_IN_PROGRESS
b returns from its callback
a is killed and starts again, and speaks the other protocol
a subscribes
broker session of a0 expires
broker receives from b: JoinGroup as b-instance-b0, owns foo-0, foo-1
b receives from broker: generation 3 as b-instance-b0, leads
b polls
a is killed and starts again, and speaks the other protocol
a subscribes
a polls
broker receives from a: joins, owns nothing
"""


@pytest.mark.parametrize(
    ("rules", "broken", "message"),
    [
        (FIXED, [], "UNRELEASED_PARTITIONS at 5: nothing; b0 STABLE at 3: foo-0, foo-1"),
        (
            broker_without(Coordinator.CONVERSION_KEEPS_HELD),
            ["members use only assigned partitions"],
            "STABLE at 5: foo-1; b0 STABLE at 3: foo-0",
        ),
        (
            coordinator_dialect("4.4.0"),
            ["members use only assigned partitions"],
            "STABLE at 4: foo-1; b0 STABLE at 3: foo-0",
        ),
    ],
    ids=["fixed", "without it", "4.4.0"],
)
def test_a_group_that_is_converted_keeps_what_is_used(rules: Rules, broken: list[str], message: str) -> None:
    """W16: b uses both partitions, and was left one of them. Live objects take that path, too."""
    walk = Walk(mixed_group(protocol="cooperative", client="fixed", coordinator=rules, static=True))
    for step in CONVERTED_TWICE.strip().splitlines():
        walk.take(step)
    assert walk.list_broken() == broken
    assert walk.state()["broker"].endswith(message)
    assert walk.model.replay is not None
    assert walk.model.replay(walk.path).differs == ""


@pytest.mark.deep
def test_a_group_that_is_converted_in_a_round_has_one_user_of_each_partition() -> None:
    """W16, undisturbed: the third member, which comes with the consumer protocol, waits for what is used."""
    model = mixed_group(3, 2, client="fixed", protocol="cooperative", coordinator=FIXED)
    verdict = check(model, every=True)
    assert (verdict.word, verdict.states) == ("holds", 3_211_310)


def test_a_static_member_whose_answer_is_lost_joins_again() -> None:
    """W17 ends there: it is itself."""
    rules = broker_without(Coordinator.STATIC_MEMBER_JOINS_AGAIN)
    assert lengths(checked(["unanswered"], members=1, static=True, client="fixed", coordinator=rules)) == {
        "no error ends an application": 8
    }
    assert checked(["late", "unanswered"], members=1, static=True, client="fixed", coordinator="fixed").word == "holds"


def test_a_member_whose_group_became_a_classic_one_is_ended() -> None:
    """W18, without its cure: it is told GROUP_ID_NOT_FOUND, where a group that kept its type had let it join again."""
    rules = broker_without(Coordinator.MEMBER_OF_NO_GROUP_IS_UNKNOWN)
    model = mixed_group(client="fixed", coordinator=rules)
    (found,) = check(model, disturb=["expire"], disturbances=1, known=["early"]).violations
    assert (found.property, len(found.path)) == ("no error ends an application", 12)
    assert "GROUP_ID_NOT_FOUND" in found.path[-2].message
    assert found.replayed is not None
    assert not found.replayed.differs


@pytest.mark.deep
@pytest.mark.parametrize(("static", "states"), [(False, 226_580), (True, 248_748)])
def test_a_member_whose_group_became_a_classic_one_joins_again(static: bool, states: int) -> None:
    model = mixed_group(client="fixed", coordinator=FIXED, static=static)
    verdict = check(model, disturb=["expire"], disturbances=1, known=STATIC, every=True)
    assert (verdict.word, verdict.states) == ("holds", states)


# Classic members of groups of both protocols: nothing is cut off


@pytest.mark.parametrize("protocol", ["eager", "cooperative"])
def test_a_group_is_converted_before_its_first_generation(protocol: str) -> None:
    """W12 ends there: whoever waits to join is told to do so once more."""
    model = mixed_group(client="fixed", coordinator=FIXED, protocol=protocol, topics={"foo": 1})
    assert check(model, every=True).word == "holds"


@pytest.mark.deep
def test_a_member_that_was_removed_goes_on_with_nothing() -> None:
    """W2 ends there: it is unknown, and joins as another one."""
    asked = ["members use only assigned partitions"]

    def with_rules(rules: Rules) -> Verdict:
        model = mixed_group(client="fixed", protocol="cooperative", coordinator=rules)
        return check(model, disturb=["rebalance_timeout"], disturbances=1, properties=asked)

    assert lengths(with_rules(broker_without(Coordinator.REMOVED_MEMBER_IS_UNKNOWN))) == {asked[0]: 23}
    assert with_rules(FIXED).word == "holds"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "options", "states"),
    [
        ("eager", {}, 4_224_550),
        ("cooperative", {}, 5_511_695),
        ("eager", {"search": True}, 4_293_633),
        ("cooperative", {"search": True}, 5_593_529),
        ("eager", {"compaction": True}, 5_097_488),
        ("cooperative", {"compaction": True}, 6_628_256),
    ],
)
def test_mixed_groups_are_clean_for_one_disturbance_of_all_kinds(
    protocol: str, options: dict[str, Any], states: int
) -> None:
    model = mixed_group(client="fixed", coordinator=FIXED, protocol=protocol, **options)
    verdict = check(model, disturb=model.kinds, disturbances=1, every=True)
    assert (verdict.word, verdict.states, verdict.cut) == ("holds", states, {})


@pytest.mark.deep
@pytest.mark.parametrize(("protocol", "states"), [("eager", 189_498), ("cooperative", 223_645)])
def test_the_rebalance_of_a_downgrade_outlives_its_broker(protocol: str, states: int) -> None:
    """W28 ends there: the next broker loads a classic group in which partitions are assigned to nobody."""

    def left(rules: Rules) -> Verdict:
        model = mixed_group(client="fixed", protocol=protocol, coordinator=rules)
        return check(model, disturb=["failover", "leave"], disturbances=2, every=True)

    without_it = left(broker_without(Coordinator.OUTDATED_REBALANCES_ON_LOAD))
    assert lengths(without_it) == {"the group settles": 12}
    assert [one.replayed and one.replayed.differs for one in without_it.violations] == [""]
    assert (left(FIXED).word, left(FIXED).states) == ("holds", states)


def test_assignments_of_a_lost_round_are_taken() -> None:
    """W21: a failover lost the round, and its number is that of the next one. Live objects take the path, too."""
    walk = take_steps(classic_group(coordinator="4.4.0"), read_steps("W21"))
    assert walk.state()["broker"] == "STABLE, generation 2; a0 has foo-0; b1 has nothing"


@pytest.mark.parametrize(
    "rules", ["4.4.0", broker_without(Coordinator.REPLACED_ID_IS_STORED)], ids=["4.4.0", "fixed but for it"]
)
def test_who_takes_a_place_in_a_round_that_is_lost_is_fenced(rules: str | Rules) -> None:
    """W29: the log has the member id of its earlier process. Live objects take the path, too."""
    walk = take_steps(classic_group(static=True, coordinator=rules), read_steps("W29"))
    assert walk.list_broken() == ["no error ends an application"]


def test_who_takes_a_place_in_a_round_that_is_lost_joins_again() -> None:
    """W29 ends there: the log has its new id."""
    *steps, _, _ = read_steps("W29")
    walk = take_steps(
        classic_group(static=True, coordinator="fixed"), [*steps, "a receives from broker: ILLEGAL_GENERATION"]
    )
    assert walk.list_broken() == []
    assert walk.state()["broker"].startswith("STABLE, generation 1; a1 has foo-0, foo-1")


@pytest.mark.slow
def test_who_restarts_in_a_round_that_is_lost_goes_on() -> None:
    """W29 for a failover and a restart, anywhere: some 30 CPU seconds."""
    model = classic_group(static=True, coordinator=FIXED)
    verdict = check(model, disturb=["failover", "restart"], disturbances=2, known=["restarts"], every=True)
    assert (verdict.word, verdict.states, verdict.stopped) == ("holds", 4_198_883, "")


KILLED = """
a subscribes
a polls
a is killed and starts again
a subscribes
a polls
broker receives from a: joins, owns nothing
a receives from broker: epoch 2, is assigned foo-0, foo-1
a heartbeat interval is over
broker session of a-1 expires
broker receives from a, late: joins, owns nothing
broker receives from a: heartbeat at epoch 2
a receives from broker: FENCED_INSTANCE_ID
a polls
"""


def test_the_join_of_a_killed_process_takes_the_place_of_the_next_one() -> None:
    """W30; its cure is that of W25."""
    steps = KILLED.strip().splitlines()
    rules = broker_without(Coordinator.OLDER_CONNECTION_IS_CLOSED)
    walk = take_steps(consumer_group(static=True, client="fixed", coordinator=rules), steps)
    assert walk.list_broken() == ["no error ends an application"]
    walk = take_steps(consumer_group(static=True, client="fixed", coordinator="fixed"), steps[:9])
    with pytest.raises(LocalProtocolError, match="no such step here"):
        walk.take(steps[9])


@pytest.mark.parametrize(
    ("rules", "word", "states"),
    [
        pytest.param(FIXED, "holds", 51_612, marks=pytest.mark.deep),
        (broker_without(Coordinator.FULL_REFUSAL_ENDS_PHASE), "violated", 0),
    ],
    ids=["fixed", "fixed but for it"],
)
def test_a_full_group_does_not_wait_for_whom_it_refuses(rules: Rules, word: str, states: int) -> None:
    """W34: three members start, two have room."""
    verdict = check(classic_group(3, max_size=2, coordinator=rules), properties=["a join phase waits for somebody"])
    assert (verdict.word, states in (0, verdict.states)) == (word, True)
    assert all(one.replayed is not None and not one.replayed.differs for one in verdict.violations)


@pytest.mark.deep
def test_a_refused_join_leaves_an_empty_group() -> None:
    """W33: a classic member comes with its id as the last member of the consumer protocol has gone."""
    cures = (FIXED, broker_without(Coordinator.REFUSED_JOIN_KEEPS_GROUP))
    found, without_it = (
        check(mixed_group(coordinator=rules, client="fixed"), disturb=["leave"], disturbances=1, every=True)
        for rules in cures
    )
    assert (found.word, found.states) == ("holds", 36_399)
    assert lengths(without_it) == {"a group that is gone is gone from the log": 11}


@pytest.mark.parametrize(
    ("rules", "protocol", "word", "states"),
    [
        pytest.param(FIXED, "eager", "holds", 129_211, marks=pytest.mark.deep),
        pytest.param(FIXED, "cooperative", "holds", 140_953, marks=pytest.mark.deep),
        pytest.param(broker_without(Coordinator.OUTDATED_REBALANCES), "eager", "violated", 0, marks=pytest.mark.deep),
    ],
    ids=["fixed", "fixed cooperative", "fixed but for it"],
)
def test_topics_change_while_a_static_leader_is_away(rules: Rules, protocol: str, word: str, states: int) -> None:
    """W32: they change in every way, and late joins are not cut off."""
    model = classic_group(1, static=True, topics={"foo": 1}, topic_changes=True, protocol=protocol, coordinator=rules)
    verdict = check(model, disturb=["restart", *CHANGES], disturbances=2, every=not states)
    assert (verdict.word, "the group settles" in lengths(verdict)) == (word, not states)
    assert states in (0, verdict.states)


@pytest.mark.parametrize("protocol", ["eager", "cooperative"])
def test_a_sync_that_meets_a_loading_coordinator_joins_again(protocol: str) -> None:
    """W36 ends there."""

    def synced(rules: Rules) -> Verdict:
        model = classic_group(1, loading=True, topics={"foo": 1}, protocol=protocol, coordinator=rules)
        return check(model, disturb=["failover"], disturbances=1, every=True)

    assert synced(FIXED).word == "holds"
    assert lengths(synced(broker_without(Coordinator.LOADING_SYNC_JOINS_AGAIN))) == {"no error ends an application": 13}


@pytest.mark.parametrize(
    ("protocol", "states"), [("eager", 7_612), pytest.param("cooperative", 7_810, marks=pytest.mark.deep)]
)
def test_a_static_member_returns_with_another_subscription(protocol: str, states: int) -> None:
    """W35 ends there; without its cure the group is stable, and nobody uses the new topic."""

    def returned(rules: Rules) -> Verdict:
        model = classic_group(1, static=True, topics={"foo": 1, "bar": 1}, protocol=protocol, coordinator=rules)
        return check(model, disturb=["resubscribe", "restart"], disturbances=2, every=True)

    assert (returned(FIXED).word, returned(FIXED).states) == ("holds", states)
    without_it = returned(broker_without(Coordinator.NEW_SUBSCRIPTION_REBALANCES))
    assert lengths(without_it) == {"no stable member is assigned an unsubscribed topic": 11, "the group settles": 11}
    assert [one.replayed and one.replayed.differs for one in without_it.violations] == ["", ""]


@pytest.mark.slow
def test_a_topic_grows_while_one_of_two_static_members_is_away() -> None:
    """W32 in a group of two: 140 CPU seconds."""
    model = classic_group(static=True, topics={"foo": 1}, topic_changes=True, coordinator=FIXED)
    verdict = check(model, disturb=["restart", "topic_grown"], disturbances=2, known=["restarts"], every=True)
    assert (verdict.word, verdict.states, verdict.stopped) == ("holds", 47_704_254, "")


@pytest.mark.deep
@pytest.mark.parametrize(
    ("rules", "word", "states"),
    [
        (FIXED, "holds", 108_299),
        (broker_without(Coordinator.LATE_MEMBER_KEEPS_OWNED), "violated", 0),
    ],
    ids=["fixed", "fixed but for it"],
)
def test_a_member_that_is_too_late_keeps_what_it_owns(rules: Rules, word: str, states: int) -> None:
    """W31: a cooperative static one."""
    model = classic_group(static=True, protocol="cooperative", coordinator=rules)
    verdict = check(model, disturb=["rebalance_timeout"], disturbances=1, every=not states)
    assert (verdict.word, "no partition has two users" in lengths(verdict)) == (word, not states)
    assert states in (0, verdict.states)


@pytest.mark.slow
def test_a_member_that_is_too_late_when_its_coordinator_moves() -> None:
    """W31: 60 CPU seconds."""
    model = classic_group(static=True, protocol="cooperative", coordinator=FIXED)
    verdict = check(model, disturb=["failover", "rebalance_timeout"], disturbances=2, every=True)
    assert (verdict.word, verdict.states, verdict.stopped) == ("holds", 3_907_950, "")


@pytest.mark.slow
def test_classic_groups_are_clean_for_a_failover_and_a_late_request() -> None:
    """W21: it takes both; some ten CPU seconds."""
    model = classic_group(coordinator=FIXED)
    verdict = check(model, disturb=["failover", "late"], disturbances=2, every=True)
    assert (verdict.word, verdict.states, verdict.cut) == ("holds", 762_016, {})


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "states"), [("eager", 38_242_931), ("cooperative", 72_022_696)])
def test_a_second_conversion_does_no_harm(protocol: str, states: int) -> None:
    """W15 and W16 for two conversions, anywhere: the whole space, some 150 and 330 CPU seconds."""
    verdict = converted(FIXED, disturbances=2, protocol=protocol)
    assert (verdict.word, verdict.states, verdict.stopped) == ("holds", states, "")
