"""The report in a browser: what it shows first, filters, links, keys, timelines, files beside it, sizes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser import Browser
from page_data import Whole, render
from render.test_report import GROUP, HOLE, INCIDENT, OVERLAP, SILENT, T, crowd, hostile, quiet_night

from fsm.render.report.details import key_of, pack
from fsm.render.report.folder import write_group, write_page
from fsm.render.timeline.trend import Trend
from fsm.render.timeline.views import (
    AssignedSpan,
    EvidenceLine,
    FindingView,
    GroupView,
    IncidentView,
    Inputs,
    Mark,
    MemberView,
    OwnedSpan,
    PartitionView,
    StateSpan,
    Stretch,
)

pytestmark = pytest.mark.clients
HOUR = 3_600_000
ENTER, LEFT, RIGHT = 13, 37, 39


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all; each test opens its own page."""
    with Browser(tmp_path_factory.mktemp("browser")) as made:
        yield made


Opened = Callable[..., Browser]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opened]:
    """Opens a page, and wants no complaint of it in the end."""

    def go(page: str | Path, address: str = "", width: int = 1440, **fields: Any) -> Browser:
        path = page if isinstance(page, Path) else tmp_path / "report.html"
        if isinstance(page, str):
            path.write_text(page, encoding="utf-8")
        browser.resize(width, **fields)
        browser.open("about:blank")
        browser.open(f"file://{path}{address}")
        browser.wait_for("document.body?.classList.contains('running')")
        return browser

    browser.errors.clear()
    yield go
    assert browser.errors == []


def text(browser: Browser, selector: str) -> str:
    """The text of the first element that is found, on one line."""
    found: str = browser.wait_for(f"document.querySelector({json.dumps(selector)})?.innerText")
    return " ".join(found.split())


def texts(browser: Browser, selector: str) -> list[str]:
    """The texts of all elements that are found."""
    found = browser.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")
    return [" ".join(one.split()) for one in found]


def types(browser: Browser, selector: str, value: str) -> None:
    """Puts a value into a field."""
    set_value = f"e.value = {json.dumps(value)}; e.dispatchEvent(new Event('input', {{bubbles: true}}))"
    browser.run(f"(e => {{ {set_value} }})(document.querySelector({json.dumps(selector)}))")


def shown(browser: Browser) -> list[str]:
    """The sentences of the incidents that are listed."""
    return texts(browser, "#rows > .finding .say")


def drawn(browser: Browser, selector: str, timeline: str = "#group-list .chart") -> list[dict[str, Any]]:
    """Class, place and tool tip of what is drawn in a timeline."""
    found = f"[...document.querySelectorAll({json.dumps(f'{timeline} .lanes {selector}')})]"
    place = "cls: e.getAttribute('class'), y: e.getAttribute('y'), width: +e.getAttribute('width')"
    script = f"{{{place}, tip: e.parentNode.querySelector('title')?.textContent}}"
    shapes: list[dict[str, Any]] = browser.run(f"{found}.map(e => ({script}))")
    return shapes


def opens_group(browser: Browser, group: str) -> None:
    """Opens a group by its name, and waits for its timeline."""
    browser.run(f"document.querySelector('#group-list [data-key=\"{key_of(group)}\"] > summary').click()")
    sees_lanes(browser)


def sees_lanes(browser: Browser) -> None:
    """Waits for the timeline of a group, and brings it into view, where it is drawn."""
    browser.wait_for("document.querySelector('#group-list .chart')")
    browser.run("void document.querySelector('#group-list .chart').scrollIntoView()")
    browser.wait_for("document.querySelector('#group-list .chart .lanes svg path')")


def timeline_of(view: GroupView) -> str:
    """A page about one group in which nothing is wrong."""
    return render(Whole("t", Inputs(records=1), view.start_ms, view.end_ms, groups=(view,)))


def in_view(browser: Browser) -> tuple[int, int]:
    """From when to when the timeline of the open group shows its lanes."""
    found = browser.run(
        "(e => [e.timeline.from, e.timeline.until])(document.querySelector('#group-list .group[open]'))"
    )
    return round(found[0]), round(found[1])


# -- the first screen -----------------------------------------------------------------------------------------

NEXT = "Let every poll come back within max.poll.interval.ms"
STUCK = IncidentView(
    id="i1",
    severity="error",
    kinds=("double_ownership", "partitions_lost"),
    members=("orders-a", "orders-b"),
    topics=("orders",),
    start_ms=T + 22_500,
    end_ms=T + 60_000,
    cause="no_poll",
    sentence="orders-a did not poll and its partitions were given away",
    next_step=NEXT,
    setting="max.poll.interval.ms = 300000",
    hazard="Two users while a callback runs (W9, diagrams/hazards.md#w9)",
    findings=("a", "b"),
    still=True,
)
FOUND = (
    replace(OVERLAP, id="a", topics=("orders",)),
    replace(SILENT, id="b", topics=("refunds",)),
    replace(HOLE, id="c", topics=("refunds",)),
)
GAP = IncidentView(
    "i2", "warning", ("unowned_partition",), (), ("refunds",), T + 10_000, T + 18_000, "revoked", "a hole"
)
GAP = replace(GAP, findings=("c",))


@pytest.fixture
def night(tmp_path: Path) -> Path:
    """The page of two groups, one with two incidents."""
    trend = Trend()
    trend.add(T + 22_000, 1, 3, 8000)
    write_group(tmp_path, pack(replace(GROUP, trend=trend), FOUND, (GAP, STUCK)))
    night = quiet_night()
    write_group(tmp_path, pack(night.groups[0], night.findings))
    write_page(tmp_path, replace(INCIDENT, trend=trend), top=12)
    return tmp_path / "report.html"


def test_the_first_screen_says_what_is_wrong_worst_first(night: Path, opened: Opened) -> None:
    """Who, since when, how long, why, and what to try, for the worst before the others."""
    page = opened(night)
    first = text(page, "#rows > .finding > summary")
    for part in (
        "error",
        STUCK.sentence,
        "group orders",
        "members orders-a, orders-b",
        "since 2026-03-01 02:00:22 UTC",
    ):
        assert part in first
    for part in ("for 37.5 s and still so", "cause no poll", f"Try: {NEXT}"):
        assert part in first
    assert shown(page) == [STUCK.sentence, OVERLAP.summary, "a hole"]
    place = page.run("document.querySelector('#rows > .finding').getBoundingClientRect().top")
    assert place < 450


def test_an_open_incident_shows_the_moment_and_the_lines(night: Path, opened: Opened) -> None:
    """One click on `lines`: its findings with their lines, the setting, and the lanes it is about, close up."""
    page = opened(night)
    page.wait_for("document.querySelector('#rows > .finding:first-child .one')")
    page.click("#rows > .finding:nth-child(3) .jump a:last-child")
    page.wait_for("document.querySelector('#rows > .finding:nth-child(3) .one')")
    page.click("#rows > .finding .jump a:last-child")
    body = text(page, "#rows > .finding .body:has(.one)")
    for part in ("max.poll.interval.ms = 300000", STUCK.hazard, "a/app.log:1201", "consumer poll timeout"):
        assert part in body
    labels = texts(page, "#rows > .finding .lab b")
    assert labels[:3] == ["orders-a", "orders-b", "orders-[0..2]"]


def test_one_click_leads_to_the_moment_on_the_timeline(night: Path, opened: Opened) -> None:
    """The group opens, its timeline shows the incident with what was around it, and stands in view."""
    page = opened(night)
    page.wait_for("document.querySelector('#rows > .finding:first-child .one')")
    page.click("#rows > .finding:nth-child(3) .jump a")
    page.wait_for("document.querySelector('#group-list .group[open] .chart')?.getBoundingClientRect().top < 300")
    page.wait_for(f"document.querySelector('#group-list .group[open]').timeline.from === {T + 6_000}")
    assert in_view(page) == (T + 6_000, T + 22_000)
    assert page.run("document.activeElement.className") == "chart"


def test_a_quiet_night_shows_its_two_seconds(opened: Opened) -> None:
    """Of three hours they are two pixels with a marker, and in the incident some hundred."""
    page = opened(render(quiet_night()))
    opens_group(page, "night")
    (frame,) = drawn(page, "rect.overlap")
    assert frame["width"] == 2
    assert frame["tip"] == "several owners\n03:40:00.000 to 03:40:02.000, 2 s"
    assert len(drawn(page, "path.alarm")) == 1
    (near,) = drawn(page, "rect.overlap", "#rows .chart")
    assert near["width"] > 200


def test_every_number_is_that_of_the_audit(opened: Opened, tmp_path: Path) -> None:
    """Forty groups with two warnings each: all are counted and listed, though the page holds one."""
    for i in range(40):
        view = replace(
            GROUP, group=f"group-{i:02}", members=(replace(GROUP.members[0], marks=GROUP.members[0].marks * 300),)
        )
        write_group(
            tmp_path, pack(view, [replace(HOLE, group=view.group), replace(HOLE, group=view.group, member="b")])
        )
    write_page(tmp_path, INCIDENT, top=1)
    page = opened(tmp_path / "report.html")
    assert text(page, "#headline") == "No errors, 80 warnings"
    assert "of 160 members in 40 groups" in text(page, "#read")
    assert text(page, "#shown").startswith("80 of 80 incidents in 40 of 40 groups")
    assert texts(page, "#group-list > .group .n[data-name=warnings]") == ["2"] * 40
    assert texts(page, ".card") == ["80 warnings", "80 unowned partition"]


def test_equal_incidents_stand_by_group(opened: Opened, tmp_path: Path) -> None:
    """As the page lists them without a script, and by group, whatever the keys of the groups are."""
    for i in range(30):
        view = replace(GROUP, group=f"group-{i:02}")
        found = replace(HOLE, group=view.group, summary=f"a hole in {view.group}")
        write_group(tmp_path, pack(view, [found]))
    write_page(tmp_path, INCIDENT, top=1)
    page = opened(tmp_path / "report.html")
    assert shown(page) == [f"a hole in group-{i:02}" for i in range(30)]
    assert texts(page, "#group-list h3") == [f"group-{i:02}" for i in range(30)]


def test_the_headline_and_the_counters_count_what_is_listed(night: Path, opened: Opened) -> None:
    """Incidents: one of two kinds stands under both, and each counter has as many as a click on it leaves."""
    page = opened(night)
    assert text(page, "#headline") == "2 errors and 1 warning"
    counters = texts(page, ".card")
    assert counters == [
        *("2 errors", "1 warnings", "2 double ownership", "1 partitions lost", "1 unowned partition"),
    ]
    for i, counter in enumerate(counters):
        page.run(f"document.querySelectorAll('.card')[{i}].click()")
        assert len(shown(page)) == int(counter.split()[0])
        page.run(f"document.querySelectorAll('.card')[{i}].click()")
    assert texts(page, "#group-list .n[data-name=errors]") == ["1", "1"]


# -- filters --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "left"),
    [
        ("q", "GIVEN AWAY", [0]),
        ("severity", "warning", [2]),
        ("kind", "double_ownership", [0, 1]),
        ("kind", "unowned_partition", [2]),
        ("group", "nigh", [1]),
        ("member", "orders-b", [0]),
        ("topic", "refunds", [2]),
        ("from", "2026-03-01T03:00:00", [1]),
        ("until", "2026-03-01T02:00:20", [2]),
        ("q", "nothing is called so", []),
    ],
)
def test_a_filter_leaves_what_fits(night: Path, opened: Opened, field: str, value: str, left: list[int]) -> None:
    """What does not fit goes, and the address holds the choice: opened again, it shows the same."""
    page = opened(night)
    every = shown(page)
    types(page, f"#filter [name={field}]", value)
    assert shown(page) == [every[i] for i in left]
    address = page.run("location.hash")
    assert f"{field}=" in address
    assert shown(opened(night, address)) == [every[i] for i in left]
    assert page.run(f"document.querySelector('#filter [name={field}]').value.startsWith({json.dumps(value[:16])})")
    assert page.run("document.getElementById('none').hidden") is bool(left)


def test_filters_combine_and_all_go_at_once(night: Path, opened: Opened) -> None:
    """Severity and kind and group and text; `show all` ends them."""
    page = opened(night, "#severity=error&kind=double_ownership&group=orders&q=poll")
    assert shown(page) == [STUCK.sentence]
    assert texts(page, "#group-list > .group h3") == ["orders"]
    page.click("#reset")
    assert len(shown(page)) == 3
    assert page.run("location.hash") == ""


def test_a_counter_filters_by_kind_and_severity(opened: Opened) -> None:
    """A kind that is a warning here and for information there has two counters, and each shows its own."""
    finding = replace(HOLE, severity="info", summary="for information")
    page = opened(render(replace(INCIDENT, findings=(HOLE, finding))))
    page.click(".card[data-kind=unowned_partition][data-severity=info]")
    assert shown(page) == ["for information"]
    assert texts(page, ".card[aria-pressed=true]") == ["1 unowned partition info"]
    page.click(".card[data-kind=unowned_partition][data-severity=info]")
    assert len(shown(page)) == 2
    page.click(".card[data-severity=warning]")
    assert shown(page) == [HOLE.summary]


def test_going_back_leads_to_where_one_was(night: Path, opened: Opened) -> None:
    """A link is a step of the history, and leaves the filters as they are."""
    page = opened(night, "#severity=error")
    page.click("#rows > .finding .jump a")
    page.wait_for("location.hash.includes('open=')")
    assert "severity=error" in page.run("location.hash")
    page.run("history.back()")
    page.wait_for("!location.hash.includes('open=')")
    assert len(shown(page)) == 2


def test_a_deep_link_opens_a_finding_of_a_group(night: Path, opened: Opened) -> None:
    """The address of an incident in its group opens both."""
    page = opened(night, f"#open={key_of('orders')}&row={key_of('orders')}.i2")
    page.wait_for("document.querySelector('#group-list .finding[open] .one')")
    assert "a hole" in text(page, "#group-list .finding[open]")


# -- keys -----------------------------------------------------------------------------------------------------


def test_the_page_is_led_by_keys(night: Path, opened: Opened) -> None:
    """`/` searches, `j` and `k` walk through the list, Enter opens; each stop shows that it has the focus."""
    page = opened(night)
    page.press("j")
    page.press("j")
    assert page.run("document.activeElement.parentElement.dataset.row") == f"{key_of('night')}.1"
    page.press("Enter", ENTER)
    page.wait_for("document.activeElement.parentElement.open")
    assert page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.press("k")
    assert page.run("document.activeElement.parentElement.dataset.row") == f"{key_of('orders')}.i1"
    page.press("/")
    for letter in "hole":
        page.press(letter)
    assert shown(page) == ["a hole"]


def test_a_timeline_is_led_by_keys_wheel_and_hand(opened: Opened) -> None:
    """Plus and minus, arrows, 0; Ctrl and the wheel; the hand drags; the map goes where one points."""
    page = opened(timeline_of(quiet_night().groups[0]))
    opens_group(page, "night")
    begin, end = in_view(page)
    page.run("document.querySelector('#group-list .chart').focus()")
    for _ in range(4):
        page.press("+")
    assert in_view(page)[1] - in_view(page)[0] == (end - begin) // 16
    at = in_view(page)[0]
    page.press("ArrowRight", RIGHT)
    assert in_view(page)[0] > at
    page.press("ArrowLeft", LEFT)
    assert in_view(page)[0] == at
    page.press("0")
    assert in_view(page) == (begin, end)
    box = page.run("document.querySelector('#group-list .lane .plot').getBoundingClientRect().toJSON()")
    middle, height = box["x"] + box["width"] / 2, box["y"] + 8
    page.point("mouseWheel", middle, height, deltaX=0, deltaY=-400, modifiers=2)
    page.wait_for(f"document.querySelector('#group-list .group').timeline.until < {end}")
    before = in_view(page)
    page.point("mousePressed", middle, height)
    page.point("mouseMoved", middle - 200, height)
    page.point("mouseReleased", middle - 200, height)
    assert in_view(page)[0] > before[0]
    assert in_view(page)[1] - in_view(page)[0] == pytest.approx(before[1] - before[0], abs=1)
    spot = page.run("document.querySelector('#group-list .map').getBoundingClientRect().toJSON()")
    page.point("mousePressed", spot["x"] + 2, spot["y"] + 8)
    page.point("mouseReleased", spot["x"] + 2, spot["y"] + 8)
    assert in_view(page)[0] == begin
    page.wait_for(f"location.hash.includes('at={begin}-')")


def test_three_seconds_of_twenty_minutes_fill_the_chart_when_zoomed(opened: Opened) -> None:
    """A gap of three seconds is a sliver with a marker at first, and named when one zooms in."""
    end, at = T + 20 * 60_000, T + 11 * 60_000
    spans = (OwnedSpan("a", T, at, "lost"), OwnedSpan("b", at + 3000, end, "log_ended"))
    hole = PartitionView("t", 0, spans, gaps=(Stretch(at, at + 3000),))
    page = opened(
        timeline_of(GroupView("g", T, end, partitions=(hole,))), f"#open={key_of('g')}&at={at - 2000}-{at + 5000}"
    )
    page.wait_for("document.querySelector('#group-list rect.gap')")
    page.wait_for(f"document.querySelector('#group-list .group').timeline.from === {at - 2000}")
    page.wait_for("document.querySelector('#group-list rect.gap').getAttribute('width') > 400")
    assert "no owner 3 s" in texts(page, "#group-list .lanes text")
    page.click("#group-list .tools [title='show all of the time']")
    page.wait_for("document.querySelector('#group-list rect.gap').getAttribute('width') < 4")
    assert len(drawn(page, "path.void")) == 1


# -- lanes ----------------------------------------------------------------------------------------------------


def lane(opened: Opened, *members: MemberView, partitions: tuple[PartitionView, ...] = ()) -> Browser:
    """The timeline of three hours of some members and partitions, ten seconds a pixel or so."""
    page = opened(timeline_of(GroupView("g", T, T + 3 * HOUR, members, partitions=partitions)))
    opens_group(page, "g")
    return page


def test_two_owners_at_once_stand_one_below_the_other(opened: Opened) -> None:
    """The lane of an overlap has two rows, and its owners are told by number and name."""
    spans = (OwnedSpan("a", T, T + HOUR, "lost"), OwnedSpan("b", T + HOUR // 2, T + 3 * HOUR, "log_ended"))
    view = PartitionView("t", 0, spans, overlaps=(Stretch(T + HOUR // 2, T + HOUR),))
    page = lane(opened, partitions=(view,))
    assert [one["y"] for one in drawn(page, "rect.ow")] == ["4", "21"]
    assert texts(page, ".lanes text.in")[:2] == ["1 a", "2 b"]
    assert len(drawn(page, "path.end.lost")) == 1


def test_no_more_than_four_rows_of_owners(opened: Opened) -> None:
    """Seven owners at once need four rows; the last is shared."""
    spans = tuple(OwnedSpan(f"m{i}", T + i * 60_000, T + 3 * HOUR, "lost") for i in range(7))
    page = lane(opened, partitions=(PartitionView("t", 0, spans, overlaps=(Stretch(T, T + 1),)),))
    assert page.run("document.querySelector('.lanes svg').getAttribute('height')") == str(8 + 4 * 17)


def test_states_are_named_as_far_as_there_is_room(opened: Opened) -> None:
    """A wide bar holds the state's name, a narrow one nothing, every one a tool tip with times."""
    names, ends = ("STABLE", "JOINING", "FENCED"), (0, HOUR, HOUR + 450_000, HOUR + 450_000)
    states = tuple(StateSpan(names[i], T + ends[i], T + ends[i + 1]) for i in range(3))
    page = lane(opened, MemberView("a", states=states))
    assert texts(page, ".lanes text.in") == ["STABLE"]
    bars = drawn(page, "rect.st")
    assert [bar["cls"] for bar in bars] == ["st good0", "st moving0", "st bad0"]
    assert bars[2]["tip"] == "FENCED\n03:07:30.000 to 03:07:30.000, 0 ms"


def test_a_storm_is_bunched_until_one_zooms_in(opened: Opened) -> None:
    """Ten thousand states of a member are at most one bar for each six pixels, and none of them goes uncounted."""
    states = tuple(
        StateSpan("FENCED" if i % 2 else "JOINING", T + i * 1000, T + i * 1000 + 1000) for i in range(10_000)
    )
    page = lane(opened, MemberView("a", states=states))
    tips = [bar["tip"] for bar in drawn(page, "rect.st.busy.hurt")]
    assert 100 < len(tips) <= 1400 / 6
    assert sum(int(tip.split(" ")[0]) for tip in tips) == 10_000
    page.run(f"document.querySelector('#group-list .group').timeline.move({T}, {T + 20_000})")
    page.wait_for("document.querySelectorAll('#group-list rect.st').length < 30")
    assert len(drawn(page, "rect.st")) == 21
    assert drawn(page, "rect.busy") == []


def test_marks_at_one_place_are_one_with_the_worst_shape(opened: Opened) -> None:
    """Three marks on one pixel show the cross of the fenced one, and all three in the tool tip."""
    marks = (
        Mark(T, "assign_begin", "t-0"),
        Mark(T + 10, "fenced", "UNKNOWN_MEMBER_ID"),
        Mark(T + 20, "poll_expired", ""),
    )
    page = lane(opened, MemberView("a", marks=marks))
    assert texts(page, ".lanes path.mk.bad title") == [
        "02:00:00.000 assign_begin t-0 02:00:00.010 fenced UNKNOWN_MEMBER_ID 02:00:00.020 poll_expired"
    ]


def test_the_coordinators_rows_stand_below_the_members_states(opened: Opened) -> None:
    """Target, then what it counts as the member's: each with its own begin, and how long after the target moved."""
    target = (
        AssignedSpan("", "epoch 2", "orders-[0..5]", 6, "", T, T + HOUR),
        AssignedSpan("", "epoch 3", "orders-[0..2]", 3, "", T + HOUR, T + 3 * HOUR),
    )
    gives = ("UNREVOKED_PARTITIONS", "epoch 2", "orders-[0..2]", 3, "orders-[3..5]")
    current = (
        AssignedSpan("STABLE", "epoch 2", "orders-[0..5]", 6, "", T, T + HOUR + 60_000),
        AssignedSpan(*gives, T + HOUR + 60_000, T + 2 * HOUR),
        AssignedSpan("UNRELEASED_PARTITIONS", "epoch 3", "", 0, "", T + 2 * HOUR, T + 3 * HOUR),
    )
    page = lane(opened, MemberView("a", states=(StateSpan("STABLE", T, T + HOUR),), target=target, current=current))
    bars = drawn(page, "rect.as")
    assert [(bar["cls"].strip(), bar["y"]) for bar in bars] == [
        *(("as target", "34"), ("as target", "34"), ("as current", "49")),
        *(("as current unrevoked", "49"), ("as current unreleased", "49")),
    ]
    assert bars[3]["tip"] == (
        "coordinator: assigned, epoch 2, UNREVOKED_PARTITIONS\n3 partitions orders-[0..2]\n"
        "to give up: orders-[3..5]\n03:01:00.000 to 04:00:00.000, 59 min\n1 min after its target moved"
    )
    labels = texts(page, ".lanes text.in")
    assert labels[-1] == "epoch 3: waits for others"
    assert labels[-2] == "epoch 2: orders-[0..2], gives up orders-[3..5]"
    assert texts(page, ".lab .below") == ["coordinator: target", "coordinator: assigned"]


def test_a_connector_runs_nowhere_and_its_delay_is_a_line_inside_that_gap(opened: Opened) -> None:
    """A connector's instance is number -1; what of a delay lies outside its gap is not drawn."""
    ran = (OwnedSpan("a", T, T + HOUR, "revoked"), OwnedSpan("a", T + 2 * HOUR, T + 3 * HOUR, "log_ended"))
    gap, delay = (Stretch(T + HOUR, T + 2 * HOUR),), (Stretch(T + HOUR // 2, T + HOUR + HOUR // 2),)
    page = lane(opened, partitions=(PartitionView("A", -1, ran, gaps=gap, waits=delay),))
    (line,), (hole,) = drawn(page, "rect.wait"), drawn(page, "rect.gap")
    assert line["width"] == pytest.approx(hole["width"] / 2, abs=1)
    assert hole["tip"].startswith("runs nowhere")
    assert texts(page, ".lane .lab b") == ["connector A"]


def test_flags_without_room_share_one(opened: Opened) -> None:
    """Forty incidents at one instant: four flags, the last of which stands for thirty-seven in its worst colour."""
    found = [replace(OVERLAP, group="orders", severity="info" if n < 39 else "error") for n in range(40)]
    page = opened(render(replace(INCIDENT, findings=tuple(found))))
    opens_group(page, "orders")
    assert texts(page, "#group-list .flag text")[-1].endswith("+36")
    assert len(texts(page, "#group-list .flag")) == 4
    page.run("document.querySelector('#group-list .flag').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    page.wait_for("document.querySelector('#group-list .finding[open] .one')")


def test_every_member_of_a_large_group_is_reachable(opened: Opened, tmp_path: Path) -> None:
    """Of 1,460 members a hundred are drawn; more on demand, and each by its name, from files beside the page."""
    report = crowd(1_460, 300, 6)
    write_group(tmp_path, pack(report.groups[0], report.findings))
    write_page(tmp_path, report, top=1)
    page = opened(tmp_path / "report.html")
    opens_group(page, "crowd")
    assert len(texts(page, "#group-list .lane")) == 100
    types(page, "#group-list .tools input", "member-01459")
    page.wait_for("document.querySelectorAll('#group-list .lane').length === 1")
    assert texts(page, "#group-list .lane .lab b") == ["member-01459"]
    types(page, "#group-list .tools input", "")
    page.wait_for("document.querySelectorAll('#group-list .lane').length === 100")
    for _ in range(17):
        page.run("document.querySelector('#group-list .lanes > p > button')?.click()")
    labels = texts(page, "#group-list .lab b")
    assert {f"member-{i:05d}" for i in range(1_460)} <= set(labels)
    assert sum(label.startswith("events-") for label in labels) > 200


# -- many groups, files beside the page -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five thousand groups of three members; every tenth has an incident."""
    out = tmp_path_factory.mktemp("fleet")
    for i in range(5_000):
        who = f"client-{i:04}-a"
        view = replace(
            GROUP,
            group=f"payments-{i:04}",
            members=(replace(GROUP.members[0], member=who), GROUP.members[1]),
            partitions=(replace(GROUP.partitions[0], topic=f"topic-{i:04}"),),
        )
        found = [replace(OVERLAP, id=f"{i:012x}", group=view.group, member=who, topics=(f"topic-{i:04}",))]
        write_group(out, pack(view, found if i % 10 == 0 else ()))
    write_page(out, INCIDENT, top=12)
    return out / "report.html"


def test_five_thousand_groups_stay_usable(fleet: Path, opened: Opened) -> None:
    """The page is small and quick (the times are printed); every group is listed, searched and opened from its file."""
    size = fleet.stat().st_size
    assert size < 3_000_000
    page = opened(fleet)
    painted = page.wait_for("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
    listed = page.run("performance.getEntriesByName('first-list')[0].startTime")
    print(f"5,000 groups: {size:,} bytes, first paint {painted:.0f} ms, first list {listed:.0f} ms")  # noqa: T201
    assert text(page, "#headline") == "500 errors and 0 warnings" or text(page, "#headline") == "500 errors"
    assert "in 5,000 of 5,000 groups" in text(page, "#shown")
    types(page, "#filter [name=member]", "client-4999-a")
    page.wait_for("document.querySelectorAll('#group-list > .group').length === 1")
    assert texts(page, "#group-list h3") == ["payments-4999"]
    page.click("#group-list > .group > summary")
    sees_lanes(page)
    assert "topic-4999-0" in texts(page, "#group-list .lab b")


def test_incidents_beyond_those_of_the_page_are_found(fleet: Path, opened: Opened) -> None:
    """The page holds four hundred of five hundred; any filter looks through all of them."""
    page = opened(fleet)
    assert text(page, "#shown").startswith("400 of 500 incidents in 5,000 of 5,000 groups")
    page.click(".card[data-severity=error]")
    page.wait_for("document.querySelector('#shown').textContent.startsWith('500 of 500 incidents')")
    where = f"#row={key_of('payments-4990')}.{4990:012x}"
    page = opened(fleet, where)
    page.wait_for("document.querySelector('#rows .finding[open] .one')")
    assert "group payments-4990" in text(page, "#rows .finding[open] > summary")


def test_a_group_with_more_incidents_than_the_index_holds_says_so(opened: Opened, tmp_path: Path) -> None:
    """Of 560 warnings of one group the list has five hundred, counts the others, and the group has them all."""
    report = crowd(20, 40, 3)
    found = [replace(HOLE, id=f"w{i}", group="crowd", summary=f"warning {i}") for i in range(560)]
    write_group(tmp_path, pack(report.groups[0], found))
    write_page(tmp_path, report, top=1)
    page = opened(tmp_path / "report.html", "#kind=unowned_partition")
    page.wait_for("document.querySelector('#shown').textContent.includes('60 more stand in their groups')")
    assert text(page, "#shown").startswith("500 of 560 incidents")
    page = opened(tmp_path / "report.html", f"#open={key_of('crowd')}&row={key_of('crowd')}.w559")
    page.wait_for("document.querySelector('#group-list .finding[open] .one')")
    assert text(page, "#group-list .finding[open] .say") == "warning 559"


def test_a_page_without_its_folder_says_so(fleet: Path, opened: Opened, browser: Browser) -> None:
    """What is not in the page cannot be opened, and the reader is told what is missing."""
    page = opened(fleet.read_text(encoding="utf-8"), f"#open={key_of('payments-4999')}")
    content = text(page, "#problem:not(:empty), #group-list .bad")
    assert content.endswith('cannot be loaded: keep the folder "report" beside this page')
    page.run("new Promise((done) => setTimeout(done, 100))")
    browser.errors.clear()


def test_a_page_refreshes_itself_and_keeps_the_place(opened: Opened, tmp_path: Path) -> None:
    """New incidents appear, a group that changed is drawn anew; what is open, chosen and in view stays."""
    write_group(tmp_path, pack(GROUP, FOUND[:1], (replace(STUCK, findings=("a",)),)))
    write_page(tmp_path, INCIDENT, top=12, refresh_s=1)
    page = opened(tmp_path / "report.html", f"#severity=error&open={key_of('orders')}&at={T + 20_000}-{T + 30_000}")
    page.wait_for("document.querySelector('#group-list .chart .lanes rect.overlap')")
    page.click("#rows > .finding > summary")
    page.wait_for("document.querySelector('#rows .finding[open] .one')")
    page.run("scrollTo(0, 300); document.querySelector('#filter [name=q]').focus({preventScroll: true})")
    later = replace(GROUP, end_ms=T + 90_000, members=(*GROUP.members, MemberView("orders-new")))
    write_group(
        tmp_path, pack(later, FOUND, (replace(STUCK, findings=("a",)), replace(STUCK, id="i9", sentence="more")))
    )
    write_page(tmp_path, INCIDENT, top=12, refresh_s=1)
    page.wait_for("document.querySelector('#headline').textContent === '2 errors'")
    page.wait_for("[...document.querySelectorAll('#group-list .lab b')].some(e => e.textContent === 'orders-new')")
    assert shown(page) == [STUCK.sentence, "more"]
    assert page.run("document.querySelector('#rows .finding[open] .say').textContent") == STUCK.sentence
    assert in_view(page) == (T + 20_000, T + 30_000)
    assert page.run("document.activeElement.name") == "q"
    assert page.run("document.querySelector('#filter [name=severity]').value") == "error"
    assert page.run("scrollY") > 200


def test_a_page_that_refreshes_itself_draws_the_trends_of_its_groups(opened: Opened, tmp_path: Path) -> None:
    """Added up as their files tell them, anew when one of them changes."""

    def write(rebalances: int) -> None:
        trend = Trend()
        trend.add(T, rebalances, 3, 500)
        packed = pack(GROUP, FOUND[:1])
        write_group(tmp_path, packed._replace(index_entry={**packed.index_entry, "trend": trend.to_json()}))
        write_page(tmp_path, replace(INCIDENT, trend=None), top=12, refresh_s=1)

    write(2)
    page = opened(tmp_path / "report.html")
    page.wait_for("document.querySelectorAll('#trends .trend').length === 3")
    assert not page.run("document.querySelector('#trend').hidden")
    assert "at most 2 in" in text(page, "#trends figcaption")
    write(7)
    page.wait_for("document.querySelector('#trends figcaption').textContent.includes('at most 7 in')")


def test_what_is_about_a_file_has_its_lines_and_no_group(opened: Opened, tmp_path: Path) -> None:
    """Lines that were not understood are of no group: the list has them, the groups do not."""
    lines = (EvidenceLine("b.log", 7, "what nobody knows"),)
    about = FindingView("unparsed_lines", "info", "", "", 0, 0, "", "", "not understood in b.log: 1 line", lines, "7")
    write_group(tmp_path, pack(GROUP, FOUND[:1]))
    write_group(tmp_path, pack(GroupView("", 0, 0, file="b.log"), [about]))
    write_page(tmp_path, INCIDENT, top=12)
    page = opened(tmp_path / "report.html")
    assert text(page, "#shown") == "2 of 2 incidents in 1 of 1 group"
    assert texts(page, "#group-list > .group h3") == ["orders"]
    page.wait_for("document.querySelector('#rows > .finding:first-child .one')")
    page.click("#rows > .finding:nth-child(2) .jump a")
    page.wait_for("document.querySelector('#rows > .finding:nth-child(2) .one')")
    assert "b.log:7 what nobody knows" in text(page, "#rows > .finding:nth-child(2) .body")


# -- harmless, on every screen, on paper ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "attack",
    [
        "<script>document.body.dataset.pwned = 1</script>",
        '"><img src=x onerror="document.body.dataset.pwned = 1">',
        "</script><script>document.body.dataset.pwned = 1</script>",
        "<!--<script>",
        "javascript:document.body.dataset.pwned=1",
        "__proto__",
    ],
)
def test_what_logs_say_stays_text(opened: Opened, attack: str) -> None:
    """Every text is hostile: each is shown as it is, and nothing of it runs or becomes an element."""
    page = opened(hostile(attack))
    page.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.wait_for("document.querySelector('#rows .one')")
    sees_lanes(page)
    assert page.run("document.body.dataset.pwned") is None
    assert page.run("document.images.length") == 0
    assert page.run("document.querySelectorAll('script:not([type])').length") == 1
    assert attack in texts(page, "#rows .say")
    assert attack in texts(page, "#group-list .lab b")
    assert page.run("[...document.querySelectorAll('a')].every((each) => each.getAttribute('href').startsWith('#'))")


def test_hostile_times_do_not_stop_the_page(opened: Opened) -> None:
    """Times beyond any calendar are drawn, and zoomed into as far as numbers go."""
    wild = replace(GROUP, start_ms=-(1 << 62), end_ms=1 << 62)
    found = replace(OVERLAP, start_ms=1 << 62, end_ms=-(1 << 62))
    page = opened(render(replace(INCIDENT, groups=(wild,), findings=(found,), start_ms=1 << 62, end_ms=0)))
    opens_group(page, "orders")
    page.run("document.querySelector('#group-list .chart').focus()")
    for key in [*("+" * 70), "0", "+"]:
        page.press(key)
    assert "ms since 1970" in text(page, "#group-list .window")


@pytest.mark.parametrize(
    ("width", "dark"),
    [(390, False), (390, True), (330, False), (820, False), (940, False), (1440, False), (1440, True)],
)
def test_the_page_fits_its_screen(night: Path, opened: Opened, tmp_path: Path, width: int, dark: bool) -> None:
    """Nothing is wider than the screen, the chart uses it, and the colours are those that the reader likes."""
    page = opened(night, f"#open={key_of('orders')}", width, dark=dark, phone=width < 500)
    sees_lanes(page)
    assert page.run("document.documentElement.scrollWidth") <= width
    wide = page.run("document.querySelector('#group-list .lane svg').getBoundingClientRect().width")
    assert wide > (0.85 * width if width < 900 else 0.6 * width)
    rows = page.run(
        "[...document.querySelectorAll('.lane:has(.as) .below')].map(e => e.getBoundingClientRect().height)"
    )
    assert len(rows) == 3
    assert all(rows)  # which row is the target and which is assigned is said on a phone, too
    light = page.run("getComputedStyle(document.body).backgroundColor") == "rgb(246, 247, 249)"
    assert light is not dark
    picture = page.picture()
    assert picture.startswith(b"\x89PNG")
    (tmp_path / f"report-{width}{'-dark' if dark else ''}.png").write_bytes(picture)


def test_it_can_be_printed(night: Path, opened: Opened) -> None:
    """On paper stands what is open; buttons do not."""
    page = opened(night, f"#open={key_of('orders')}")
    sees_lanes(page)
    assert page.print().startswith(b"%PDF")
    page.resize(1000, media="print")
    for control in ("#filter", ".jump", ".tools", ".heads", ".map"):
        assert page.run(f"getComputedStyle(document.querySelector('{control}')).display") == "none", control
    page.resize(1000, dark=True, media="print")
    assert page.run("getComputedStyle(document.querySelector('.group')).backgroundColor") == "rgb(255, 255, 255)"
    page.run("dispatchEvent(new Event('beforeprint'))")
    assert page.run("[...document.querySelectorAll('details[open] .lane svg')].every((each) => each.childElementCount)")
    assert page.run("document.querySelector('#group-list .lane').getBoundingClientRect().height") > 20


def test_over_time_each_bar_is_a_choice_of_time(night: Path, opened: Opened) -> None:
    """Rebalances, moves and times without owner have a chart each; a click on a bar shows what was then."""
    page = opened(night)
    assert texts(page, "#trends figcaption")[0] == "rebalancesat most 1 in 1 s"
    assert len(texts(page, "#trends figure")) == 3
    page.run("document.querySelector('#trends .turn').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    assert "from=2026-03-01T02%3A00%3A22" in page.run("location.hash")
    assert shown(page) == [STUCK.sentence]
