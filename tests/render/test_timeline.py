"""Timelines: lanes, bars, gaps and overlaps, what is bunched, what is merged, where findings stand."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from fsm.render.timeline.chart import FLAG_ROWS, Chart, Numbered, draw_chart, draw_close_up, number_members
from fsm.render.timeline.lanes import MEMBER_HEIGHT, ROW, Style, draw_member, draw_partition, group_alike
from fsm.render.timeline.scale import scale
from fsm.render.timeline.shades import SHADES, family, glyph, state_classes
from fsm.render.timeline.views import (
    AssignedSpan,
    FindingView,
    GroupView,
    Mark,
    MemberView,
    OwnedSpan,
    PartitionView,
    RebalanceView,
    StateSpan,
    Stretch,
)

HOUR = 3_600_000
STYLE = Style({"STABLE": "good0", "FENCED": "bad0", "JOINING": "moving0"}, {"a": 1, "b": 2})
BUSY = scale(range(0, 3 * HOUR, 20_000), 0, 3 * HOUR, 1080)
"""Three hours on 1080 pixels: ten seconds a pixel."""


def elements(svg: str, tag: str, cls: str = "") -> list[ET.Element]:
    """Elements of a piece of SVG that have all these classes."""
    root = ET.fromstring(f"<svg>{svg}</svg>")  # noqa: S314
    return [e for e in root.iter(tag) if set(cls.split()) <= set(e.get("class", "").split())]


def texts(svg: str, tag: str) -> list[str]:
    """Texts of the elements of a piece of SVG."""
    return [e.text or "" for e in elements(svg, tag)]


def test_two_seconds_of_three_hours_can_be_seen() -> None:
    """An overlap of a fifth of a pixel is drawn two pixels wide, with a marker."""
    p = PartitionView("t", 0, (OwnedSpan("a", 0, HOUR, "lost"),), overlaps=(Stretch(HOUR, HOUR + 2000),))
    lane = draw_partition([p], BUSY, STYLE)
    (frame,) = elements(lane.svg, "rect", "overlap")
    assert frame.get("width") == "2"
    assert len(elements(lane.svg, "path", "alarm")) == 1
    assert texts(lane.svg, "title")[-1] == "several owners\n01:00:00.000 to 01:00:02.000, 2 s"


def test_two_owners_at_once_stand_one_below_the_other() -> None:
    """The lane of an overlap has two rows, and its owners are told by number and name."""
    spans = (OwnedSpan("a", 0, HOUR, "lost"), OwnedSpan("b", HOUR // 2, 3 * HOUR, "log_ended"))
    lane = draw_partition([PartitionView("t", 0, spans, overlaps=(Stretch(HOUR // 2, HOUR),))], BUSY, STYLE)
    assert [e.get("y") for e in elements(lane.svg, "rect", "ow")] == ["4", "21"]
    assert texts(lane.svg, "text") == ["1 a", "2 b"]
    assert lane.height == 42
    assert len(elements(lane.svg, "path", "end lost")) == 1


def test_owners_in_turn_share_one_row() -> None:
    """Without an overlap the lane is one row high, and a gap is hatched and labelled."""
    spans = (OwnedSpan("a", 0, HOUR, "revoked"), OwnedSpan("b", 2 * HOUR, 3 * HOUR, "log_ended"))
    lane = draw_partition([PartitionView("t", 0, spans, gaps=(Stretch(HOUR, 2 * HOUR),))], BUSY, STYLE)
    assert {e.get("y") for e in elements(lane.svg, "rect", "ow")} == {"4"}
    assert lane.height == 25
    assert texts(lane.svg, "text") == ["1 a", "2 b", "no owner 1 h"]
    assert lane.troubled


def test_no_more_than_four_rows_of_owners() -> None:
    """Seven owners at once need four rows; the last is shared."""
    spans = tuple(OwnedSpan(f"m{i}", i * 60_000, 3 * HOUR, "lost") for i in range(7))
    lane = draw_partition([PartitionView("t", 0, spans, overlaps=(Stretch(0, 1),))], BUSY, STYLE)
    assert lane.height == 8 + 4 * 17


def test_partitions_with_the_same_history_share_a_lane() -> None:
    """Neighbours and others of one topic are one lane; another topic, or another history, is not."""
    one, other = (OwnedSpan("a", 0, 5, "lost"),), (OwnedSpan("b", 0, 5, "lost"),)
    views = [PartitionView("t", n, one) for n in (4, 0, 1, 2)] + [
        PartitionView("t", 3, other),
        PartitionView("u", 0, one),
    ]
    lanes = [draw_partition(same, BUSY, STYLE) for same in group_alike(views)]
    assert [lane.label for lane in lanes] == ["t-[0..2, 4]", "t-3", "u-0"]
    assert [lane.stands_for for lane in lanes] == [4, 1, 1]


def test_states_are_named_as_far_as_there_is_room() -> None:
    """A wide bar holds the state's name, a narrow one its first letters, every one a tool tip with times."""
    states = (
        StateSpan("STABLE", 0, HOUR),
        StateSpan("JOINING", HOUR, HOUR + 300_000),
        StateSpan("FENCED", 2 * HOUR, 2 * HOUR),
    )
    lane = draw_member(MemberView("a", states=states), BUSY, STYLE)
    assert texts(lane.svg, "text") == ["STABLE", "JOI"]
    assert texts(lane.svg, "title")[2] == "FENCED\n02:00:00.000 to 02:00:00.000, 0 ms"
    assert [e.get("class") for e in elements(lane.svg, "rect")] == ["st good0", "st moving0", "st bad0"]
    assert (lane.height, lane.troubled) == (MEMBER_HEIGHT, True)


def test_a_storm_of_states_is_bunched() -> None:
    """Ten thousand states of a member are at most one bar for each six pixels, and none of them goes uncounted."""
    states = tuple(StateSpan("FENCED" if i % 2 else "JOINING", i * 1000, i * 1000 + 1000) for i in range(10_000))
    lane = draw_member(MemberView("a", states=states), BUSY, STYLE)
    titles = texts(lane.svg, "title")
    assert 100 < len(titles) <= 1080 / 6 + 1
    assert sum(int(t.split(" ")[0]) for t in titles) == 10_000
    assert len(elements(lane.svg, "rect", "busy hurt")) == len(titles)


def test_marks_at_one_place_are_one_with_the_worst_shape() -> None:
    """Three marks on one pixel show the cross of the fenced one, and all three in the tool tip."""
    marks = (Mark(0, "assign_begin", "t-0"), Mark(10, "fenced", "UNKNOWN_MEMBER_ID"), Mark(20, "poll_expired", ""))
    lane = draw_member(MemberView("a", marks=marks), BUSY, STYLE)
    assert [e.get("class") for e in elements(lane.svg, "path")] == ["mk bad"]
    assert texts(lane.svg, "title") == [
        "00:00:00.000 assign_begin t-0\n00:00:00.010 fenced UNKNOWN_MEMBER_ID\n00:00:00.020 poll_expired"
    ]


MOVED = (
    AssignedSpan("", "epoch 2", "orders-[0..5]", 6, "", 0, HOUR),
    AssignedSpan("", "epoch 3", "orders-[0..2]", 3, "", HOUR, 3 * HOUR),
)
TOLD = (
    AssignedSpan("STABLE", "epoch 2", "orders-[0..5]", 6, "", 0, HOUR + 60_000),
    AssignedSpan("UNREVOKED_PARTITIONS", "epoch 2", "orders-[0..2]", 3, "orders-[3..5]", HOUR + 60_000, 2 * HOUR),
    AssignedSpan("STABLE", "epoch 3", "orders-[0..2]", 3, "", 2 * HOUR, 3 * HOUR),
)


def test_the_coordinators_rows_stand_below_the_members_states() -> None:
    """Target, then what it counts as the member's: each with its own begin, and how long after the target moved."""
    lane = draw_member(MemberView("a", states=(StateSpan("STABLE", 0, HOUR),), target=MOVED, current=TOLD), BUSY, STYLE)
    rects = elements(lane.svg, "rect", "as")
    assert [(r.get("class"), r.get("y")) for r in rects] == [
        ("as target", "34"),
        ("as target", "34"),
        ("as current", "49"),
        ("as current unrevoked", "49"),
        ("as current", "49"),
    ]
    assert lane.rows == ("coordinator: target", "coordinator: assigned")
    assert lane.height == MEMBER_HEIGHT + 2 * ROW + 2
    assert texts(lane.svg, "title")[4] == (
        "coordinator: assigned, epoch 2, UNREVOKED_PARTITIONS\n3 partitions orders-[0..2]\n"
        "to give up: orders-[3..5]\n01:01:00.000 to 02:00:00.000, 59 min\n1 min after its target moved"
    )
    assert texts(lane.svg, "text")[1:4] == [
        "epoch 2: orders-[0..5]",
        "epoch 3: orders-[0..2]",
        "epoch 2: orders-[0..5]",
    ]


@pytest.mark.parametrize(
    ("span", "minutes", "label"),
    [
        (MOVED[0], 25, "epoch 2: orders-[0..5]"),
        (MOVED[0], 18, "orders-[0..5]"),
        (MOVED[0], 10, "[0..5]"),
        (MOVED[0], 3, "6"),
        (TOLD[1], 25, "gives up orders-[3..5]"),
        (TOLD[1], 15, "gives up"),
        (AssignedSpan("UNRELEASED_PARTITIONS", "epoch 3", "", 0, "", 0, 0), 40, "epoch 3: waits for others"),
        (AssignedSpan("STABLE", "generation 7", "", 0, "", 0, 0), 40, "generation 7: nothing"),
        (AssignedSpan("STABLE", "", "a-[0], b-[1]", 2, "", 0, 0), 4, "2"),
    ],
)
def test_an_assignment_says_as_much_as_there_is_room_for(span: AssignedSpan, minutes: int, label: str) -> None:
    """Partitions with topic and epoch, without, their numbers, how many; what is to be given up comes first."""
    lane = draw_member(MemberView("a", current=(span._replace(start_ms=0, end_ms=minutes * 60_000),)), BUSY, STYLE)
    assert texts(lane.svg, "text") == [label]


def test_a_storm_of_assignments_is_bunched() -> None:
    """Five thousand of them are at most one bar for each six pixels, and none goes uncounted."""
    spans = tuple(AssignedSpan("STABLE", "", f"t-[{n}]", 1, "", n * 2000, n * 2000 + 2000) for n in range(5000))
    lane = draw_member(MemberView("a", current=spans), BUSY, STYLE)
    counts = [t.split(", ")[1].split(" ")[0] for t in texts(lane.svg, "title")]
    assert len(counts) <= 1080 / 6 + 1
    assert sum(map(int, counts)) == 5000


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


def found(number: int, start: int, end: int, severity: str = "error", member: str = "a") -> Numbered:
    """A finding of the group below."""
    view = FindingView("double_ownership", severity, "g", member, start, end, "t-0", "no_poll", f"finding {number}")
    return Numbered(number, view)


def group(members: int = 2, partitions: int = 3) -> GroupView:
    """A group whose partition 0 has two owners from 1:00:00 to 1:00:02."""
    states = (StateSpan("JOINING", 0, 1000), StateSpan("STABLE", 1000, 3 * HOUR))
    names = ["a", "b", *(f"m{i}" for i in range(2, members))][:members]
    spans = (OwnedSpan("a", 0, HOUR + 2000, "lost"), OwnedSpan("b", HOUR, 3 * HOUR, "log_ended"))
    hurt = PartitionView("t", 0, spans, overlaps=(Stretch(HOUR, HOUR + 2000),))
    others = (
        PartitionView("t", n, (OwnedSpan(names[n % members], n, 3 * HOUR, "lost"),)) for n in range(1, partitions)
    )
    turns = (RebalanceView(HOUR - 500, HOUR + 2500, "no_poll", 2, 1, 0),)
    return GroupView("g", 0, 3 * HOUR, tuple(MemberView(m, states=states) for m in names), 5, (hurt, *others), 0, turns)


def drawn(view: GroupView, findings: list[Numbered], budget: int = 500_000) -> Chart:
    """The chart of a group."""
    return draw_chart(view, findings, number_members(view, {"STABLE": "good0", "JOINING": "moving0"}), budget)


def test_findings_stand_above_the_axis_where_they_begin() -> None:
    """A flag with number and severity, a link to its finding, and a stem as long as it lasted."""
    view = group()
    picture = drawn(view, [found(1, HOUR, HOUR + 2000)])
    (flag,) = elements(picture.head, "a")
    assert (flag.get("href"), flag.get("id"), flag.get("class")) == ("#f1", "t1", "flag error")
    assert [t.text for t in flag.iter("text")] == ["E1"]
    assert picture.anchors == {1: "t1"}
    assert len(elements(picture.head, "rect", "turn")) == 1
    assert len(elements(picture.head, "g", "break")) == 2


def test_flags_without_room_share_one() -> None:
    """Forty findings at one instant: five flags, the last of which stands for thirty-six in its worst colour."""
    crowd = [found(n, HOUR, HOUR, "info" if n < 40 else "error") for n in range(1, 41)]
    picture = drawn(group(), crowd)
    flags = elements(picture.head, "a")
    assert len(flags) == FLAG_ROWS
    assert [t.text for t in flags[-1].iter("text")] == ["I5+35"]
    assert flags[-1].get("class") == "flag error"
    assert picture.anchors == {n: f"t{min(n, 5)}" for n in range(1, 41)}


def test_few_lanes_are_one_section() -> None:
    """Members, then partitions, each with how many are not shown."""
    sections = drawn(group(), []).sections
    assert [s.title for s in sections] == ["Members: 2, and 5 more not shown", "Partitions: 3"]
    assert [[lane.label for lane in s.lanes] for s in sections] == [["a", "b"], ["t-0", "t-1", "t-2"]]


def test_members_without_logs_have_lanes_of_their_own() -> None:
    """They stand behind the members, without a number, and those that are not shown are counted."""
    unread = MemberView("XYlMC_McQSed2QEsKpro_g", current=TOLD)
    sections = drawn(replace(group(), unlogged=(unread,), unlogged_hidden=3), []).sections
    assert [s.title for s in sections][1] == "Members without logs: 1, and 3 more not shown"
    assert [(lane.label, lane.number) for lane in sections[1].lanes] == [("XYlMC_McQSed2QEsKpro_g", 0)]
    alone = GroupView("g", 0, 3 * HOUR, unlogged=(unread,))
    assert [s.title for s in drawn(alone, []).sections] == ["Members without logs: 1", "Partitions: 0"]


def test_a_wide_chart_shrinks_to_a_printed_page() -> None:
    """A chart of the usual width stays readable, one of four times that still fits between the margins."""
    view = group()
    usual = drawn(view, [])
    assert (usual.width, usual.zoom) == (1080, "0.75")
    busy = tuple(StateSpan("JOINING", n * 1000, n * 1000 + 500) for n in range(3000))
    wide = drawn(replace(view, members=(MemberView("a", states=busy),)), [])
    assert wide.width > 4000
    assert 250 * 4 < (wide.width + 258) * float(wide.zoom) < 1060


def test_of_many_lanes_those_in_trouble_come_first() -> None:
    """A hundred partitions, one of them with two owners: it stands alone and open, the others wait."""
    sections = drawn(group(4, 100), []).sections[1:]
    assert [(s.title, s.open) for s in sections] == [
        ("Partitions in trouble: 1", True),
        ("Other partitions: 99", False),
    ]


def test_the_budget_drops_quiet_lanes_and_says_so() -> None:
    """With room for some lanes only, the one with an overlap and the accused member stay, and the rest is counted."""
    picture = drawn(group(300, 300), [found(1, HOUR, HOUR, member="m250")], 20_000)
    labels = [lane.label for section in picture.sections for lane in section.lanes]
    assert "m250" in labels
    assert "t-0" in labels
    assert picture.size < 40_000
    hidden = [int(s.title.split("and ")[1].split(" ")[0]) for s in picture.sections if "more not shown" in s.title]
    assert sum(hidden) + len(labels) == 300 + 5 + 300


def test_a_close_up_shows_only_what_a_finding_is_about() -> None:
    """Six seconds around the overlap, the partition that has it, and both its owners."""
    view = group(9, 50)
    near = draw_close_up(view, found(1, HOUR, HOUR + 2000), number_members(view, {}))
    assert near is not None
    assert [lane.label for lane in near.sections[0].lanes] == ["a", "b", "t-0"]
    (frame,) = elements(near.sections[0].svg, "rect", "overlap")
    assert 200 < float(frame.get("width", "0")) < 300
    assert "+1:00:00" in texts(near.head, "text")


def test_no_close_up_where_the_chart_is_as_close() -> None:
    """A finding as long as the chart, or about nobody that has a lane, has no close-up."""
    view = group()
    style = number_members(view, {})
    assert draw_close_up(view, found(1, 0, 3 * HOUR), style) is None
    assert draw_close_up(view, found(1, 2 * HOUR, 2 * HOUR, member="nobody"), style) is None


def test_members_keep_their_number_everywhere() -> None:
    """Members are numbered by lane, then those that appear only as owners."""
    view = GroupView("g", 0, 9, (MemberView("b"),), 1, (PartitionView("t", 0, (OwnedSpan("a", 0, 9, "lost"),)),))
    assert dict(number_members(view, {}).members) == {"b": 1, "a": 2}


def test_a_connector_runs_nowhere_and_its_delay_is_a_line_inside_that_gap() -> None:
    """A connector's instance is number -1; what of a delay lies outside its gap is not drawn."""
    ran = (OwnedSpan("a", 0, HOUR, "revoked"), OwnedSpan("a", 2 * HOUR, 3 * HOUR, "log_ended"))
    gap, delay = (Stretch(HOUR, 2 * HOUR),), (Stretch(HOUR // 2, HOUR + HOUR // 2),)
    lane = draw_partition([PartitionView("A", -1, ran, gaps=gap, waits=delay)], BUSY, STYLE, is_unit=True)
    (line,) = elements(lane.svg, "rect", "wait")
    assert lane.label == "connector A"
    assert float(line.attrib["x"]) == pytest.approx(BUSY.x(HOUR), abs=0.1)
    assert float(line.attrib["width"]) == pytest.approx(BUSY.x(HOUR + HOUR // 2) - BUSY.x(HOUR), abs=0.2)
    assert any("runs nowhere" in text for text in texts(lane.svg, "title"))


def test_a_connector_and_its_tasks_do_not_share_a_lane() -> None:
    """Tasks with one history do, as partitions do."""
    ran = (OwnedSpan("a", 0, HOUR, "revoked"),)
    lanes = group_alike([PartitionView("A", number, ran) for number in (-1, 0, 1)])
    assert [[view.partition for view in lane] for lane in lanes] == [[-1], [0, 1]]
