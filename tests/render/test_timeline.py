"""What timelines are made of: shapes and colours, partitions with one history, what happened over time."""

from __future__ import annotations

from random import Random

import pytest

from fsm.render.report.details import group_alike, pack
from fsm.render.timeline.shades import SHADES, family, glyph, state_classes
from fsm.render.timeline.trend import STEPS, Step, Trend
from fsm.render.timeline.views import GroupView, MemberView, OwnedSpan, PartitionView, StateSpan, Stretch


def test_partitions_with_the_same_history_share_a_lane() -> None:
    """Neighbours and others of one topic are one lane; another topic, or another history, is not."""
    one, other = (OwnedSpan("a", 0, 5, "lost"),), (OwnedSpan("b", 0, 5, "lost"),)
    views = [PartitionView("t", n, one) for n in (4, 0, 1, 2)] + [
        PartitionView("t", 3, other),
        PartitionView("u", 0, one),
    ]
    alike = [[(view.topic, view.partition) for view in lane] for lane in group_alike(views)]
    assert alike == [[("t", 0), ("t", 1), ("t", 2), ("t", 4)], [("t", 3)], [("u", 0)]]


def test_a_connector_and_its_tasks_do_not_share_a_lane() -> None:
    """Tasks with one history do, as partitions do."""
    ran = (OwnedSpan("a", 0, 5, "revoked"),)
    lanes = group_alike([PartitionView("A", number, ran) for number in (-1, 0, 1)])
    assert [[view.partition for view in lane] for lane in lanes] == [[-1], [0, 1]]


def test_members_keep_their_number_everywhere() -> None:
    """Members are numbered by lane, then those that appear only as owners."""
    view = GroupView("g", 0, 9, (MemberView("b"),), 1, (PartitionView("t", 0, (OwnedSpan("a", 0, 9, "lost"),)),))
    details = pack(view, ()).details
    assert '"names":["b","a"]' in details
    assert '"owners":[[2,0,9,"lost"]]' in details


def test_lanes_in_trouble_come_first() -> None:
    """A hundred members and partitions: the fenced one and the one without owner are in the first piece."""
    fenced = (StateSpan("FENCED", 0, 5),)
    members = [MemberView(f"m{i:03}", states=fenced if i == 70 else (StateSpan("STABLE", 0, 9),)) for i in range(100)]
    owned = [PartitionView("t", i, (OwnedSpan(f"m{i:03}", i, 9, "lost"),)) for i in range(100)]
    owned[50] = PartitionView("t", 50, gaps=(Stretch(0, 5),))
    details = pack(GroupView("g", 0, 9, tuple(members), partitions=tuple(owned)), ()).details
    lanes = details[details.index('"lanes":') :]
    assert lanes.index('"m070"') < lanes.index('"t-50"') < lanes.index('"m000"')


def test_a_lane_says_what_it_leaves_out() -> None:
    """A member that went on to further states, a partition with further owners."""
    member = MemberView("a", states=(StateSpan("JOINING", 0, 9),), states_hidden=True)
    owned = PartitionView("t", 0, (OwnedSpan("a", 0, 9, "lost"),), spans_hidden=7)
    details = pack(GroupView("g", 0, 9, (member,), partitions=(owned,)), ()).details
    assert "only its first 1 states are drawn" in details
    assert "only its first 1 owners are drawn" in details


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("STABLE", "good"),
        ("steady", "good"),
        ("FENCED", "bad"),
        ("UNJOINED", "away"),
        ("PREPARE_LEAVING", "leaving"),
        ("wait-unassign-call", "leaving"),
        ("PREPARING_REBALANCE", "moving"),
        ("no such state", "moving"),
    ],
)
def test_states_of_every_client_have_a_family(state: str, expected: str) -> None:
    """Spelling of Java and of librdkafka; what is not known counts as passing."""
    assert family(state) == expected


def test_shades_do_not_depend_on_order() -> None:
    """The same states have the same classes however they come, and never one the style sheet lacks."""
    names = [f"STATE_{i}" for i in range(9)]
    assert state_classes(names) == state_classes(reversed(names))
    assert set(state_classes(names).values()) == {f"moving{i}" for i in range(SHADES["moving"])}


def test_marks_differ_in_shape() -> None:
    """What hurts is a cross, a missed poll a triangle, a callback a diamond."""
    kinds = ("fenced", "lost_begin", "poll_expired", "leave_sent", "revoke_end", "joined")
    assert [glyph(k) for k in kinds] == ["bad", "bad", "poll", "leave", "callback", "other"]


def test_a_trend_is_bounded_and_loses_nothing() -> None:
    """A rebalance a second for a week: few steps, and every one is counted; the longest time stays the longest."""
    trend = Trend()
    for second in range(0, 7 * 86_400, 60):
        trend.add(second * 1000, 1, 2, second)
    assert STEPS / 2 <= len(trend.steps) <= STEPS
    assert sum(step.rebalances for step in trend.steps.values()) == 7 * 1440
    assert sum(step.moved for step in trend.steps.values()) == 2 * 7 * 1440
    assert max(step.unowned_ms for step in trend.steps.values()) == 7 * 86_400 - 60


def test_a_trend_does_not_depend_on_who_counted_what() -> None:
    """Added in any order and merged from any parts, the steps are the same."""
    chance = Random(7)  # noqa: S311
    samples = [(chance.randrange(10**7), 1, chance.randrange(9), chance.randrange(9000)) for _ in range(500)]
    whole, parts = Trend(), [Trend() for _ in range(5)]
    for one in samples:
        whole.add(*one)
    for one in sorted(samples, reverse=True):
        parts[one[2] % 5].add(*one)
    merged = Trend()
    for part in parts:
        merged.merge(part)
    assert merged.to_json() == whole.to_json()
    early, late = Trend(), Trend()
    for at in range(3):
        early.add(at * 1000, 1)
        late.add(10**12 + at * 10**7, 1)
    early.merge(late)
    instants = [*(at * 1000 for at in range(3)), *(10**12 + at * 10**7 for at in range(3))]
    assert sorted(early.steps) == sorted({at // early.step_ms for at in instants})
    few = Trend()
    few.add(5_000, 1, 3, 40)
    few.add(5_999, unowned_ms=90)
    assert few.steps == {5: Step(1, 3, 90)}


def test_hostile_times_have_a_trend() -> None:
    """Times beyond any calendar end in one of a few steps."""
    trend = Trend()
    for ts_ms in (-(1 << 62), 0, 1 << 62):
        trend.add(ts_ms, 1)
    assert sum(step.rebalances for step in trend.steps.values()) == 3
