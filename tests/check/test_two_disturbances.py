"""Two disturbances in groups of the dialect `fixed`: any two kinds at once, or pair by pair where that is too much."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from models import MESSAGES_AND_TIMERS, classic_group, consumer_group, mixed_group

from fsm.check import check

KINDS = frozenset(consumer_group(client="fixed", coordinator="fixed").kinds) - {"restart"}
"""All but one that leads to a hundred million states by itself."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "states"),
    [
        ({}, 9_699_166),
        ({"search": True}, 12_090_610),
        ({"compaction": True}, 12_718_807),
        ({"topics": {"foo": 1, "bar": 1}}, 14_385_046),
    ],
)
def test_two_disturbances_of_any_kind_harm_no_fixed_group(options: dict[str, Any], states: int) -> None:
    """Of any kind but `restart`, up to 45 CPU seconds."""
    model = consumer_group(client="fixed", coordinator="fixed", **options)
    kinds = set(model.kinds) - {"restart"}
    verdict = check(model, disturb=sorted(kinds), disturbances=2, every=True)
    assert (verdict.word, verdict.states, verdict.stopped, verdict.cut) == ("holds", states, "", {})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "states"),
    [
        ("close", 3_386_714),
        ("close_timeout", 2_694_909),
        ("commit_async", 2_417_682),
        ("commit_sync", 2_102_422),
        ("crash", 1_100_945),
        ("expire", 13_489_826),
        ("failover", 1_142_626),
        ("failover_losing", 4_727_321),
        ("hanging", 2_010_216),
        ("interrupted", 658_090),
        ("late", 7_574_826),
        ("leave", 2_903_531),
        ("lose", 3_711_974),
        ("poll_timeout", 23_052_683),
        ("raising", 735_758),
        ("rebalance_timeout", 3_787_004),
        ("rejoin", 658_090),
        ("unanswered", 5_920_555),
    ],
)
def test_a_restart_and_one_disturbance_more(kind: str, states: int) -> None:
    """Its two processes are members until the session of the first one ends."""
    model = consumer_group(client="fixed", coordinator="fixed")
    verdict = check(model, disturb=[kind, "restart"], disturbances=2, known=["restarts"], every=True)
    assert (verdict.word, verdict.states, verdict.stopped, verdict.cut) == ("holds", states, "", {"restarts": 173_509})


@pytest.mark.slow
def test_two_restarts() -> None:
    """Here of members with one partition, 85 CPU seconds: up to four processes are members at once."""
    model = consumer_group(topics={"foo": 1}, client="fixed", coordinator="fixed")
    verdict = check(model, disturb=["restart"], disturbances=2, every=True)
    assert (verdict.word, verdict.states, verdict.stopped) == ("holds", 27_911_287, "")


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted((KINDS | {"topic_created", "topic_deleted", "topic_grown"}) - {"rejoin"}))
def test_a_topic_that_is_made_anew_and_one_disturbance_more(kind: str) -> None:
    """W23 ends there: up to 9.6 million states."""
    model = consumer_group(client="fixed", coordinator="fixed", topic_changes=True)
    verdict = check(model, disturb=[kind, "topic_recreated"], disturbances=2, every=True)
    assert (verdict.word, verdict.stopped, verdict.cut) == ("holds", "", {})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "topics", "states"),
    [
        ("topic_grown", {"foo": 2}, 1_104_237),
        ("topic_created", {"foo": 2}, 1_225_673),
        ("topic_deleted", {"foo": 2}, 1_286_177),
        ("resubscribe", {"foo": 1, "bar": 1}, 782_723),
    ],
)
def test_a_late_request_while_topics_change(kind: str, topics: dict[str, int], states: int) -> None:
    """W24 ends there."""
    changes = kind.startswith("topic_")
    model = consumer_group(topics=topics, client="fixed", coordinator="fixed", topic_changes=changes)
    verdict = check(model, disturb=["late", kind], disturbances=2, every=True)
    assert (verdict.word, verdict.states, verdict.stopped, verdict.cut) == ("holds", states, "", {})


@pytest.mark.slow
@pytest.mark.parametrize("pair", [*combinations(MESSAGES_AND_TIMERS, 2)], ids="-".join)
def test_two_disturbances_of_messages_and_timers_harm_no_static_group(pair: tuple[str, str]) -> None:
    """W17 and W19 end there: up to 5.3 million states."""
    model = consumer_group(client="fixed", coordinator="fixed", static=True)
    verdict = check(model, disturb=pair, disturbances=2, every=True)
    assert (verdict.word, verdict.stopped, verdict.cut) == ("holds", "", {})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "states"),
    [
        ("close", 1_978_367),
        ("close_timeout", 3_670_791),
        ("commit_async", 626_117),
        ("commit_sync", 551_551),
        ("crash", 1_090_355),
        ("expire", 10_117_812),
        ("failover", 3_886_758),
        ("failover_losing", 5_451_487),
        ("hanging", 916_101),
        ("interrupted", 490_696),
        ("late", 6_078_385),
        ("leave", 2_231_620),
        ("lose", 1_058_276),
        ("poll_timeout", 10_515_718),
        ("raising", 490_696),
        ("rebalance_timeout", 7_005_936),
        ("rejoin", 379_654),
        ("unanswered", 2_902_225),
    ],
)
def test_a_restart_and_one_disturbance_more_in_a_classic_group(kind: str, states: int) -> None:
    model = classic_group(client="fixed", coordinator="fixed")
    verdict = check(model, disturb=[kind, "restart"], disturbances=2, known=["restarts"], every=True)
    assert (verdict.word, verdict.states, verdict.stopped, verdict.cut) == ("holds", states, "", {"restarts": 138_240})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "states"),
    [
        ("close", 5_146_800),
        ("close_timeout", 10_442_370),
        ("commit_async", 2_094_452),
        ("commit_sync", 1_629_327),
        ("crash", 2_877_893),
        ("failover", 9_592_588),
        ("hanging", 2_473_760),
        ("interrupted", 1_215_027),
        ("leave", 5_736_000),
        ("lose", 2_873_814),
        ("raising", 1_215_027),
        ("rejoin", 949_170),
    ],
)
def test_a_restart_and_one_disturbance_more_in_a_cooperative_group(kind: str, states: int) -> None:
    model = classic_group(client="fixed", coordinator="fixed", protocol="cooperative")
    verdict = check(model, disturb=[kind, "restart"], disturbances=2, known=["restarts"], every=True)
    assert (verdict.word, verdict.states, verdict.stopped, verdict.cut) == ("holds", states, "", {"restarts": 364_071})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "static", "states"),
    [
        ("expire", False, 14_885_567),
        ("failover_losing", False, 6_905_827),
        ("failover_losing", True, 8_249_895),
        ("late", False, 8_167_618),
        ("poll_timeout", False, 14_922_144),
        ("rebalance_timeout", False, 9_549_607),
        ("unanswered", False, 3_989_033),
    ],
)
def test_a_restart_and_one_disturbance_more_in_a_cooperative_group_of_one_partition(
    kind: str, static: bool, states: int
) -> None:
    model = classic_group(topics={"foo": 1}, client="fixed", coordinator="fixed", static=static, protocol="cooperative")
    verdict = check(model, disturb=[kind, "restart"], disturbances=2, known=["restarts"], every=True)
    assert (verdict.word, verdict.states, verdict.stopped) == ("holds", states, "")


@pytest.mark.slow
@pytest.mark.parametrize(("static", "states"), [(False, 19_831_139), (True, 19_195_932)])
def test_two_restarts_in_a_classic_group(static: bool, states: int) -> None:
    """Of eager members with one partition, 155 CPU seconds."""
    model = classic_group(topics={"foo": 1}, client="fixed", coordinator="fixed", static=static)
    verdict = check(model, disturb=["restart"], disturbances=2, every=True)
    assert (verdict.word, verdict.states, verdict.stopped) == ("holds", states, "")


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "states"), [("eager", 12_731_268), ("cooperative", 32_892_040)])
def test_two_disturbances_of_any_kind_harm_no_classic_group(protocol: str, states: int) -> None:
    """Of any kind but `restart`: some 60 and 220 CPU seconds."""
    model = classic_group(client="fixed", coordinator="fixed", protocol=protocol)
    kinds = set(model.kinds) - {"restart"}
    verdict = check(model, disturb=sorted(kinds), disturbances=2, every=True)
    assert (verdict.word, verdict.states, verdict.stopped) == ("holds", states, "")


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "states"), [("eager", 33_827_932), ("cooperative", 48_340_863)])
def test_two_disturbances_of_any_kind_harm_no_mixed_group(protocol: str, states: int) -> None:
    """Of any kind but `restart` and `convert`: some 120 and 170 CPU seconds."""
    model = mixed_group(client="fixed", coordinator="fixed", protocol=protocol)
    kinds = set(model.kinds) - {"restart", "convert"}
    verdict = check(model, disturb=sorted(kinds), disturbances=2, every=True)
    assert (verdict.word, verdict.states, verdict.stopped) == ("holds", states, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "states"),
    [
        (("convert", "close"), 9_558_974),
        (("convert", "close_timeout"), 13_676_431),
        (("convert", "commit_async"), 3_555_781),
        (("convert", "commit_sync"), 3_363_508),
        (("convert", "crash"), 3_987_993),
        (("convert", "expire"), 56_755_987),
        (("convert", "failover"), 10_966_522),
        (("convert", "failover_losing"), 19_506_514),
        (("convert", "hanging"), 4_384_070),
        (("convert", "interrupted"), 2_345_113),
        (("convert", "late"), 115_209_825),
        (("convert", "leave"), 10_243_546),
        (("convert", "lose"), 7_019_262),
        (("convert", "raising"), 2_349_740),
        (("convert", "rebalance_timeout"), 23_395_353),
        (("convert", "rejoin"), 1_843_720),
        (("convert", "unanswered"), 28_840_466),
        (("restart", "close"), 7_741_308),
        (("restart", "close_timeout"), 8_619_978),
        (("restart", "commit_async"), 3_143_266),
        (("restart", "commit_sync"), 3_064_759),
        (("restart", "convert"), 4_219_799),
        (("restart", "crash"), 2_660_406),
        (("restart", "expire"), 49_333_209),
        (("restart", "failover"), 4_706_454),
        (("restart", "failover_losing"), 12_604_763),
        (("restart", "hanging"), 4_043_388),
        (("restart", "interrupted"), 1_669_205),
        (("restart", "late"), 22_697_560),
        (("restart", "leave"), 7_480_030),
        (("restart", "lose"), 6_833_575),
        (("restart", "poll_timeout"), 64_287_863),
        (("restart", "raising"), 1_687_497),
        (("restart", "rebalance_timeout"), 9_348_735),
        (("restart", "rejoin"), 1_433_274),
        (("restart", "unanswered"), 13_120_354),
    ],
    ids=str,
)
def test_a_restart_or_a_conversion_and_one_disturbance_more_in_a_mixed_group(kinds: list[str], states: int) -> None:
    """Of members with one partition; `convert` and `poll_timeout` have more than 150 million states. 50 million take
    ten CPU minutes.
    """
    model = mixed_group(topics={"foo": 1}, client="fixed", coordinator="fixed")
    verdict = check(model, disturb=kinds, disturbances=2, known=["restarts"], every=True)
    assert (verdict.word, verdict.states, verdict.stopped) == ("holds", states, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "states"),
    [
        (("convert", "close"), 11_751_818),
        (("convert", "close_timeout"), 19_916_006),
        (("convert", "commit_async"), 4_552_451),
        (("convert", "commit_sync"), 4_239_542),
        (("convert", "crash"), 5_599_156),
        (("convert", "expire"), 73_159_112),
        (("convert", "failover"), 13_099_035),
        (("convert", "failover_losing"), 22_948_496),
        (("convert", "hanging"), 5_384_608),
        (("convert", "interrupted"), 2_941_614),
        (("convert", "leave"), 12_633_233),
        (("convert", "lose"), 8_203_390),
        (("convert", "raising"), 2_946_241),
        (("convert", "rebalance_timeout"), 29_471_297),
        (("convert", "rejoin"), 2_287_242),
        (("convert", "unanswered"), 36_362_252),
        (("restart", "close"), 8_450_595),
        (("restart", "close_timeout"), 9_652_018),
        (("restart", "commit_async"), 3_495_424),
        (("restart", "commit_sync"), 3_383_715),
        (("restart", "convert"), 5_131_166),
        (("restart", "crash"), 2_974_003),
        (("restart", "expire"), 56_309_832),
        (("restart", "failover"), 4_991_165),
        (("restart", "failover_losing"), 13_355_902),
        (("restart", "hanging"), 4_278_055),
        (("restart", "interrupted"), 1_831_209),
        (("restart", "late"), 24_981_107),
        (("restart", "leave"), 8_127_826),
        (("restart", "lose"), 7_286_648),
        (("restart", "poll_timeout"), 73_404_096),
        (("restart", "raising"), 1_851_006),
        (("restart", "rebalance_timeout"), 10_103_385),
        (("restart", "rejoin"), 1_570_430),
        (("restart", "unanswered"), 14_293_775),
    ],
    ids=str,
)
def test_a_restart_or_a_conversion_and_one_disturbance_more_in_a_cooperative_mixed_group(
    kinds: list[str], states: int
) -> None:
    """Of members with one partition; `convert` with `late` or `poll_timeout` is not explored. 50 million states take
    ten CPU minutes.
    """
    model = mixed_group(topics={"foo": 1}, client="fixed", coordinator="fixed", protocol="cooperative")
    verdict = check(model, disturb=kinds, disturbances=2, known=["restarts"], every=True)
    assert (verdict.word, verdict.states, verdict.stopped) == ("holds", states, "")


@pytest.mark.slow
def test_two_conversions_in_a_mixed_group() -> None:
    """Of eager members with one partition."""
    model = mixed_group(topics={"foo": 1}, client="fixed", coordinator="fixed")
    verdict = check(model, disturb=["convert"], disturbances=2, known=["restarts"], every=True)
    assert (verdict.word, verdict.states, verdict.stopped) == ("holds", 1_843_720, "")


@pytest.mark.slow
def test_two_disturbances_of_any_kind_harm_no_static_group() -> None:
    """Of any kind but `restart`: some 45 CPU seconds."""
    model = consumer_group(client="fixed", coordinator="fixed", static=True)
    verdict = check(model, disturb=sorted(KINDS), disturbances=2, known=["unreleased"], every=True)
    assert (verdict.word, verdict.states, verdict.stopped) == ("holds", 14_531_752, "")


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_restart_and_one_disturbance_more_in_a_static_group(kind: str) -> None:
    """W30 ends there: up to 3.6 million states."""
    model = consumer_group(client="fixed", coordinator="fixed", static=True)
    known = ["restarts", "unreleased"]
    verdict = check(model, disturb=[kind, "restart"], disturbances=2, known=known, every=True)
    assert (verdict.word, verdict.stopped) == ("holds", "")


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "states"), [("eager", 16_476_388), ("cooperative", 44_915_932)])
def test_two_disturbances_of_any_kind_harm_no_static_classic_group(protocol: str, states: int) -> None:
    """Of any kind but `restart`: W31 ends there, too; up to six CPU minutes."""
    model = classic_group(client="fixed", coordinator="fixed", static=True, protocol=protocol)
    kinds = sorted(set(model.kinds) - {"restart"})
    verdict = check(model, disturb=kinds, disturbances=2, every=True)
    assert (verdict.word, verdict.states, verdict.stopped) == ("holds", states, "")


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_restart_and_one_disturbance_more_in_a_static_classic_group(kind: str) -> None:
    """Eager: W29 ends there; up to 15 million states."""
    model = classic_group(client="fixed", coordinator="fixed", static=True)
    known = ["late_join", "restarts"]
    verdict = check(model, disturb=[kind, "restart"], disturbances=2, known=known, every=True)
    assert (verdict.word, verdict.stopped) == ("holds", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "states"),
    [
        ("close", 4_634_011),
        ("close_timeout", 10_433_753),
        ("commit_async", 2_140_983),
        ("commit_sync", 1_675_119),
        ("crash", 4_228_366),
        ("expire", 28_815_457),
        ("failover", 11_779_278),
        ("hanging", 2_723_859),
        ("interrupted", 1_225_823),
        ("late", 21_650_805),
        ("leave", 5_469_218),
        ("lose", 3_494_999),
        ("poll_timeout", 48_687_314),
        ("raising", 1_225_823),
        ("rebalance_timeout", 26_849_825),
        ("rejoin", 920_667),
        ("unanswered", 15_287_272),
    ],
)
def test_a_restart_and_one_disturbance_more_in_a_cooperative_static_group(kind: str, states: int) -> None:
    """Up to six CPU minutes each."""
    model = classic_group(client="fixed", coordinator="fixed", static=True, protocol="cooperative")
    verdict = check(model, disturb=[kind, "restart"], disturbances=2, known=["restarts"], every=True)
    assert (verdict.word, verdict.states, verdict.stopped) == ("holds", states, "")


@pytest.mark.slow
def test_static_members_return_with_another_subscription() -> None:
    """W35 ends there, three disturbances, 47 CPU seconds: both have one topic, and a follower returns with another."""
    model = classic_group(client="fixed", coordinator="fixed", static=True, topics={"foo": 1, "bar": 1})
    verdict = check(model, disturb=["resubscribe", "restart"], disturbances=3, known=["restarts"], every=True)
    assert (verdict.word, verdict.states, verdict.stopped) == ("holds", 8_735_272, "")
