"""The HTML report: complete, bounded, harmless whatever a log line says, and readable without anything beside it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from page_data import Whole, beside, data, groups_of, render

from fsm.audit.findings import Cause, FindingKind
from fsm.errors import InputError
from fsm.render.report import glossary
from fsm.render.report.details import key_of, pack
from fsm.render.report.folder import FOLDER, remove_group, write_group, write_page
from fsm.render.timeline.views import (
    AssignedSpan,
    Count,
    Dwell,
    EdgeCount,
    EvidenceLine,
    FindingView,
    GroupView,
    IncidentView,
    Inputs,
    MachineView,
    Mark,
    MemberView,
    OwnedSpan,
    PartitionView,
    RebalanceView,
    StateSpan,
    Stretch,
    Unreadable,
)

T = 1_772_330_400_000
"""2026-03-01 02:00:00 UTC."""
VOID = {"meta", "input", "br", "link", "img", "hr"}

ALICE = MemberView(
    member="orders-a",
    client="consumer-orders-1",
    protocol="consumer",
    version="4.0.0",
    coverage="whole log",
    states=(
        StateSpan("JOINING", T, T + 900),
        StateSpan("RECONCILING", T + 900, T + 1400),
        StateSpan("ACKNOWLEDGING", T + 1400, T + 1450),
        StateSpan("STABLE", T + 1450, T + 21_000),
        StateSpan("PREPARE_LEAVING", T + 21_000, T + 21_015),
        StateSpan("LEAVING", T + 21_015, T + 21_040),
        StateSpan("STALE", T + 21_040, T + 27_500),
        StateSpan("JOINING", T + 27_500, T + 29_000),
        StateSpan("RECONCILING", T + 29_000, T + 29_700),
        StateSpan("STABLE", T + 29_700, T + 40_000),
        StateSpan("FENCED", T + 40_000, T + 40_640),
        StateSpan("JOINING", T + 40_640, T + 60_000),
    ),
    marks=(
        Mark(T + 1200, "assign_begin", "orders-[0..2]"),
        Mark(T + 21_000, "poll_expired", "max.poll.interval.ms passed"),
        Mark(T + 27_500, "lost_begin", "orders-[0..2]"),
        Mark(T + 40_000, "fenced", "FENCED_MEMBER_EPOCH"),
    ),
    target=(AssignedSpan("", "epoch 4", "orders-[0..2]", 3, "", T + 1000, T + 21_040),),
    current=(
        AssignedSpan("UNRELEASED_PARTITIONS", "epoch 4", "", 0, "", T + 1000, T + 1200),
        AssignedSpan("UNREVOKED_PARTITIONS", "epoch 4", "orders-[0, 1]", 2, "orders-[2]", T + 1200, T + 21_040),
    ),
)
STRANGER = MemberView(
    "dsCB7DPHBsqWIz3np1ulug",
    coverage="no log of it was read",
    marks=(Mark(T + 50_000, "left", ""),),
    current=(AssignedSpan("STABLE", "epoch 5", "id:8s1lnmxk…-[7]", 1, "", T + 30_000, T + 50_000),),
)
BOB = MemberView(
    member="orders-b",
    client="consumer-orders-2",
    protocol="consumer",
    version="4.0.0",
    coverage="log ends without a close",
    states=(
        StateSpan("UNSUBSCRIBED", T, T + 4000),
        StateSpan("JOINING", T + 4000, T + 5000),
        StateSpan("STABLE", T + 5000, T + 22_500),
        StateSpan("ACKNOWLEDGING", T + 22_500, T + 23_200),
        StateSpan("STABLE", T + 23_200, T + 48_000),
        StateSpan("PREPARE_LEAVING", T + 48_000, T + 50_000),
    ),
    marks=(Mark(T + 22_500, "assign_begin", "orders-[0..2]"), Mark(T + 48_000, "leave_begin", "close")),
)
SHARED = tuple(
    PartitionView(
        "orders",
        number,
        spans=(
            OwnedSpan("orders-a", T + 1200, T + 27_500, "lost"),
            OwnedSpan("orders-b", T + 22_500, T + 50_000, "log_ended"),
        ),
        overlaps=(Stretch(T + 22_500, T + 27_500),),
    )
    for number in (0, 1, 2)
)
OTHERS = tuple(
    PartitionView("orders", n, spans=(OwnedSpan("orders-b", T + 5000, T + 50_000, "log_ended"),)) for n in (3, 4, 5)
)
DROPPED = PartitionView(
    "refunds",
    0,
    spans=(
        OwnedSpan("orders-b", T + 5000, T + 10_000, "revoked"),
        OwnedSpan("orders-a", T + 18_000, T + 40_000, "dropped"),
        OwnedSpan("orders-b", T + 40_900, T + 50_000, "log_ended"),
    ),
    gaps=(Stretch(T + 10_000, T + 18_000), Stretch(T + 50_000, T + 60_000)),
)
OVERLAP = FindingView(
    kind="double_ownership",
    severity="error",
    group="orders",
    member="orders-a",
    start_ms=T + 22_500,
    end_ms=T + 27_500,
    partitions="orders-[0, 1, 2]",
    cause="no_poll",
    summary="orders-a and orders-b both owned orders-[0, 1, 2] for 5 s: orders-a had not polled and went on working",
    evidence=(
        EvidenceLine("a/app.log", 1201, "02:00:21,000 WARN consumer poll timeout has expired"),
        EvidenceLine(
            "b/app.log", 88, "02:00:22,500 INFO Adding newly assigned partitions: orders-0, orders-1, orders-2"
        ),
    ),
)
SILENT = FindingView(
    kind="lost_without_callback",
    severity="error",
    group="orders",
    member="orders-a",
    start_ms=T + 40_000,
    end_ms=T + 40_000,
    partitions="refunds-[0]",
    cause="fenced",
    summary="orders-a lost refunds-[0] without any callback",
    evidence=(EvidenceLine("a/app.log", 1222, "02:00:40,000 INFO transitioned to FENCED state"),),
)
HOLE = FindingView(
    kind="unowned_partition",
    severity="warning",
    group="orders",
    member="",
    start_ms=T + 10_000,
    end_ms=T + 18_000,
    partitions="refunds-[0]",
    cause="revoked",
    summary="refunds-[0] had no owner for 8 s: given up in time, and its next owner took long",
)
GROUP = GroupView(
    "orders",
    T,
    T + 60_000,
    members=(ALICE, BOB),
    members_hidden=3,
    partitions=(*SHARED, *OTHERS, DROPPED),
    partitions_hidden=4,
    rebalances=(
        RebalanceView(T, T + 1400, "joined", 1, 7, 0),
        RebalanceView(T + 22_000, T + 29_000, "no_poll", 2, 3, 0),
    ),
    rebalances_hidden=12,
    coordinator=MemberView("coordinator", states=(StateSpan("epoch 4", T, T + 60_000),)),
    unlogged=(STRANGER,),
    unlogged_hidden=2,
)
INCIDENT = Whole(
    title="Audit of orders, 1 March",
    inputs=Inputs(
        files=3,
        bytes=1_204_332,
        lines=10_402,
        records=811,
        orphans=7,
        not_understood=2,
        layouts=(Count("kafka", 2), Count("spring", 1)),
        levels=(Count("INFO", 10_001), Count("DEBUG", 401)),
        gzipped_files=1,
        unreadable=(Unreadable("c/app.log.gz", "not a gzip file"),),
        shapes=(Count("Member <id> did something new", 2),),
        notes=("Only INFO lines in a/app.log: targets, the end of callbacks and heartbeats cannot be seen.",),
    ),
    start_ms=T,
    end_ms=T + 60_000,
    findings=(OVERLAP, SILENT, HOLE),
    groups=(GROUP,),
    machines=(
        MachineView(
            "consumer-member",
            edges=(
                EdgeCount("UNSUBSCRIBED", "JOINING", 4, illegal=False),
                EdgeCount("JOINING", "RECONCILING", 1_207, illegal=False),
                EdgeCount("RECONCILING", "ACKNOWLEDGING", 1_207, illegal=False),
                EdgeCount("ACKNOWLEDGING", "STABLE", 1_207, illegal=False),
                EdgeCount("STABLE", "FENCED", 2, illegal=False),
                EdgeCount("STALE", "STABLE", 1, illegal=True),
            ),
            dwell=(Dwell("JOINING", 21, 950, 1400, 1500), Dwell("STABLE", 14, 20_000, 61_000, 61_200)),
        ),
    ),
)
EMPTY = Whole("Audit", Inputs(), 0, 0)


def crowd(members: int, partitions: int, findings: int) -> Whole:
    """A group of many members that pass partitions on every minute, with gaps and overlaps, as literal arithmetic."""
    span = 20 * 60_000

    def member(i: int) -> MemberView:
        begin = T + i * 700
        states = [StateSpan("JOINING", begin, begin + 400)]
        for turn in range(8):
            at = begin + 400 + turn * 60_000
            states += [StateSpan("STABLE", at, at + 58_000), StateSpan("RECONCILING", at + 58_000, at + 60_000)]
        marks = [Mark(begin + 60_400 * k, "assign_begin", "moved") for k in range(8)]
        return MemberView(
            f"member-{i:05d}", f"client-{i}", "consumer", "4.0.0", "whole log", tuple(states), tuple(marks)
        )

    def partition(i: int) -> PartitionView:
        owned = [
            OwnedSpan(
                f"member-{(i + k) % members:05d}", T + i * 500 + k * 150_000, T + i * 500 + (k + 1) * 150_000, "revoked"
            )
            for k in range(6)
        ]
        gaps = (Stretch(T + i * 500 + 900_000, T + span),) if i % 7 == 0 else ()
        overlaps = (Stretch(T + i * 500 + 150_000, T + i * 500 + 152_000),) if i % 11 == 0 else ()
        return PartitionView("events", i, tuple(owned), gaps, overlaps)

    def found(i: int) -> FindingView:
        lines = tuple(
            EvidenceLine(
                f"host-{i % 50}/app.log", 100 * i + k, "2026-03-01 02:00:00,000 INFO [Consumer clientId=c] " + "x" * 120
            )
            for k in range(3)
        )
        severity, kind = (("error", "double_ownership"), ("warning", "unowned_partition"), ("info", "unparsed_lines"))[
            i % 3
        ]
        who = f"member-{i % members:05d}"
        start = T + i * 1100
        text = f"{who} and another both owned events-[{i}] for 2 s"
        return FindingView(kind, severity, "crowd", who, start, start + 2000, f"events-[{i}]", "unknown", text, lines)

    group = GroupView(
        "crowd", T, T + span, tuple(map(member, range(members))), 0, tuple(map(partition, range(partitions)))
    )
    views = sorted(map(found, range(findings)), key=lambda f: ("error", "warning", "info").index(f.severity))
    inputs = Inputs(files=members, bytes=10**9, lines=10**7, records=10**6)
    return Whole("Crowd", inputs, T, T + span, findings=tuple(views), groups=(group,))


def quiet_night() -> Whole:
    """Three hours in which nothing happens but two seconds of two owners."""
    end = T + 3 * 3_600_000
    at = T + 6_000_000
    a = MemberView("night-a", states=(StateSpan("JOINING", T, T + 800), StateSpan("STABLE", T + 800, end)))
    b = MemberView("night-b", states=(StateSpan("JOINING", at - 700, at), StateSpan("STABLE", at, end)))
    spans = (OwnedSpan("night-a", T + 800, at + 2000, "lost"), OwnedSpan("night-b", at, end, "log_ended"))
    p = PartitionView("orders", 0, spans, overlaps=(Stretch(at, at + 2000),))
    found = replace(OVERLAP, group="night", member="night-a", start_ms=at, end_ms=at + 2000)
    group = GroupView("night", T, end, (a, b), 0, (p,))
    return Whole("Night", Inputs(files=2, lines=900, records=12), T, end, findings=(found,), groups=(group,))


# Reading a page.


class Page(HTMLParser):
    """Elements, attributes and texts of a page; `stack` is empty at the end of a well-formed one."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.broken: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self.stack or self.stack.pop() != tag:
            self.broken.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def attributes(self, name: str) -> list[str]:
        return [attributes[name] for _, attributes in self.elements if name in attributes]


def drawings(html: str) -> Iterator[ET.Element]:
    """Every SVG of a page, read as XML."""
    for piece in re.findall(r"<svg.*?</svg>", html, re.DOTALL):
        yield ET.fromstring(piece)  # noqa: S314


def with_text(value: object, text: str) -> object:
    """The same value with every text in it replaced, save the severities, by which findings are sorted."""
    if isinstance(value, str):
        return value if value in ("error", "warning", "info") else text
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: with_text(getattr(value, f.name), text) for f in fields(value)})
    if isinstance(value, tuple):
        items = [with_text(item, text) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


def hostile(text: str) -> str:
    """The page of the incident when every log line was written by an enemy."""
    report = with_text(INCIDENT, text)
    assert isinstance(report, Whole)
    return render(report)


def texts_of(value: object) -> list[str]:
    """Every text in some data."""
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    names = list(value) if isinstance(value, dict) else []
    return [text for one in [*names, *inside] for text in texts_of(one)]


# What stands on the page.


def test_the_page_is_well_formed() -> None:
    """Every element is closed in its turn, every SVG is XML, no id is used twice."""
    html = render(INCIDENT)
    page = Page(html)
    assert (page.stack, page.broken) == ([], [])
    assert len(list(drawings(html))) > 10
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert html.startswith("<!DOCTYPE html>")


def test_every_section_is_there() -> None:
    """Verdict, incidents, groups, machines and what was read; without a script the worst incidents all the same."""
    page = Page(render(INCIDENT))
    assert {"summary", "now", "groups", "machines", "inputs"} <= set(page.attributes("id"))
    for text in (
        "2 errors and 1 warning",
        "811 records of 5 members in 1 group, from 10,402 lines in 3 files (1.2 MB)",
        "2026-03-01 02:00:00.000 to 2026-03-01 02:01:00.000 UTC, 1 min",
        "Only INFO lines in a/app.log: targets, the end of callbacks and heartbeats cannot be seen.",
        "1 file could not be read, or not to the end: which .",
        "2 entries about membership were not understood",
        "error: orders-a and orders-b both owned orders-[0, 1, 2] for 5 s",
        "3,628 steps, 1 not in the table",
        "STALE STABLE 1 not in the table",
        "JOINING 21 950 ms 1.4 s 1.5 s",
        "Member <id> did something new 2",
        "c/app.log.gz not a gzip file",
        "kafka 2",
    ):
        assert text in page.text, text


def test_without_a_script_an_incident_has_its_time_its_place_and_what_to_try(tmp_path: Path) -> None:
    """What a preview of a mail shows: whose, since when, for how long, why, where, and what to do, each by itself."""
    members = tuple(f"orders-{i}" for i in range(20))
    one = IncidentView(
        "i1", "error", ("double_ownership",), members, ("orders",), T + 22_500, T + 27_500, "no_poll", "two"
    )
    one = replace(one, next_step="Let every poll come back", findings=("b", "a"), still=True)
    silent = replace(SILENT, id="b", evidence=())
    write_group(
        tmp_path, pack(GROUP, [replace(OVERLAP, id="a"), silent], [one, replace(one, id="i2", findings=("b",))])
    )
    write_page(tmp_path, INCIDENT, top=12)
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    static = html[html.index("<noscript>") : html.index("</noscript>")]
    who = "group orders · members orders-0, orders-1, orders-2 and 17 more"
    told = f"{who} · since 2026-03-01 02:00:22 UTC · for 5 s and still so · cause no poll"
    what, remedy = "<b>error: two</b>", "Try: Let every poll come back"
    said = re.findall(r"<p[^>]*>(.*?)</p>", static)[1:]
    assert said == [what, f"{told} · a/app.log:1201", remedy, what, told, remedy]


def test_the_data_of_the_page_is_whole() -> None:
    """Incidents with their findings and lines, lanes, and how much of everything is left out."""
    summary, details = data(render(INCIDENT))
    ((key, group),) = details.items()
    assert [row["id"] for row in summary["rows"]] == ["1", "2", "3"]
    assert [entry["key"] for entry in summary["entries"]] == [key]
    assert summary["totals"][2] == ["unowned_partition", "warning", 1]
    assert group["findings"][0]["lines"][0] == [
        "a/app.log",
        1201,
        "02:00:21,000 WARN consumer poll timeout has expired",
    ]
    assert [lane["label"] for lane in group["lanes"]] == [
        *("coordinator", "orders-a", "orders-[0..2]", "refunds-0"),  # in trouble, or said to be
        *("orders-b", "dsCB7DPHBsqWIz3np1ulug", "orders-[3..5]"),
    ]
    hidden = {name: count for name, count in group["hidden"].items() if count}
    assert hidden == {"members": 3, "unlogged": 2, "partitions": 4, "rebalances": 12}
    assert (summary["entries"][0]["members"], summary["entries"][0]["rebalances"]) == (5, 14)


def test_incidents_stand_by_severity() -> None:
    """Errors before warnings; what goes on still before what is over."""
    over = IncidentView("a", "error", ("double_ownership",), (), (), T, T + 9000, "", "over")
    still = replace(over, id="b", end_ms=T + 1000, still=True)
    known = (replace(over, id="c", severity="warning"), over, still)
    rows = pack(GROUP, (), known).index_entry["rows"]
    assert [row["id"] for row in rows] == ["b", "a", "c"]


def test_every_link_leads_somewhere_on_the_page() -> None:
    """Links are fragments only, and each has its target."""
    page = Page(render(INCIDENT))
    links = page.attributes("href") + page.attributes("xlink:href")
    assert {"#now", "#groups", "#inputs"} <= set(links)
    assert all(link.startswith("#") for link in links)
    assert {link[1:] for link in links} <= set(page.attributes("id"))


def test_nothing_is_fetched() -> None:
    """No source, no style sheet from outside, no address but the names of XML's vocabularies."""
    html = render(INCIDENT)
    page = Page(html)
    assert page.attributes("src") == []
    assert not {"link", "img", "iframe", "object", "base"} & {tag for tag, _ in page.elements}
    addresses = set(re.findall(r"https?://[^\s\"'<]+", html))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "@import" not in html
    assert set(re.findall(r"url\(([^)]{2})", html)) == {"#p"}


def test_the_policy_allows_this_script_and_no_other() -> None:
    """The content policy names the hash of the one script there is, and nothing else may load or run."""
    html = render(INCIDENT)
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert len(scripts) == 1
    digest = b64encode(sha256(scripts[0].encode()).digest()).decode()
    policies = [a["content"] for tag, a in Page(html).elements if a.get("http-equiv") == "Content-Security-Policy"]
    allowed = f"style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert policies == [f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"]


# Verdicts.


def test_a_page_without_records_claims_nothing() -> None:
    """Where no line was understood, the page does not say that all is well."""
    text = Page(render(EMPTY)).text
    assert "Nothing was recognised: this says nothing about the group" in text
    assert "Nothing is wrong" not in text
    assert "No findings." in text


def test_a_clean_log_is_said_to_be_clean() -> None:
    """No finding above information: the page says that nothing is wrong, in what, and what was looked for."""
    inputs = Inputs(files=2, bytes=5000, lines=90, records=12)
    clean = replace(INCIDENT, findings=(replace(HOLE, severity="info"),), inputs=inputs)
    text = Page(render(clean)).text
    assert "Nothing is wrong in what these logs show" in text
    assert "12 records of 5 members in 1 group, from 90 lines in 2 files (5.0 kB)" in text
    assert "Checked: partitions with two owners or none" in text


@pytest.mark.parametrize(
    ("more", "headline"),
    [
        ({"ownerless_groups": 1}, "No verdict on ownership: no line tells who owned its partitions"),
        (
            {"unreadable": (Unreadable("a.gz", "cut"),)},
            "Nothing is wrong in what was read, but 1 file was not read, or",
        ),
        ({"unreadable": (Unreadable("a.gz", "cut"),), "unreadable_hidden": 2}, "but 3 files were not read, or not to"),
    ],
)
def test_a_verdict_is_no_better_than_what_was_read(more: dict[str, Any], headline: str) -> None:
    text = Page(render(replace(INCIDENT, findings=(), inputs=Inputs(files=2, records=12, **more)))).text
    assert headline in text
    assert "Nothing is wrong in what these logs show" not in text


def test_warnings_alone_are_no_errors() -> None:
    """The headline says that there are no errors."""
    page = Page(render(replace(INCIDENT, findings=(HOLE,))))
    assert "No errors, 1 warning" in page.text


# Hostile texts.

ATTACKS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title></style></svg></pre><svg onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "]]><!--",
    'javascript:alert(1)//" href="https://example.org/',
)


@pytest.mark.parametrize("attack", ATTACKS)
def test_texts_from_logs_stay_texts(attack: str) -> None:
    """Whatever every single text is, the page has the elements and attributes it has with letters alone."""
    harmless, page = Page(hostile("x" * len(attack))), Page(hostile(attack))
    harmless_scripts = hostile("x" * len(attack)).count("</script>")
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in harmless.elements]
    assert [sorted(a) for _, a in page.elements] == [sorted(a) for _, a in harmless.elements]
    assert (page.stack, page.broken) == ([], [])
    assert all(link.startswith("#") for link in page.attributes("href"))
    summary, details = data(hostile(attack))
    assert sum(attack in text for text in texts_of([summary, details])) > 40
    assert page.text.count(attack) > 8
    assert hostile(attack).count("</script>") == harmless_scripts
    assert not [text for text in texts_of([summary, details]) if text.startswith("49")]


@pytest.mark.parametrize(
    ("text", "seen"),
    [("a\u202eb", "a\\u202eb"), ("a\0b", "a\\x00b"), ("\u200f\u2066", "\\u200f\\u2066"), ("\ud800", "\\ud800")],
)
def test_invisible_characters_are_written_out(text: str, seen: str) -> None:
    """Marks of direction, control characters and halves of pairs appear nowhere as such, and the page is UTF-8."""
    html = hostile(text)
    assert not [c for c in text if not c.isalpha() and c in html]
    assert not [one for one in texts_of([*data(html)]) if set(one) & {c for c in text if not c.isalpha()}]
    assert sum(seen in one for one in texts_of([*data(html)])) > 30
    assert html.encode()


def test_names_of_a_megabyte_are_cut() -> None:
    """Every text a million characters long: the page stays small and says what it cut."""
    html = hostile("é" * 1_000_000)
    assert len(html.encode()) < 300_000
    assert sum("(1,000,000 characters)" in text for text in texts_of([*data(html)])) > 50


def test_hostile_times_draw_all_the_same() -> None:
    """Ends before begins and times beyond any calendar give a page."""
    wild = replace(GROUP, start_ms=-(1 << 62), end_ms=1 << 62)
    backwards = replace(GROUP, group="b", start_ms=T + 60_000, end_ms=T)
    found = replace(OVERLAP, start_ms=1 << 62, end_ms=-(1 << 62))
    html = render(replace(INCIDENT, groups=(wild, backwards), findings=(found,), start_ms=1 << 62, end_ms=0))
    assert "4611686018427387904 ms since 1970" in html
    assert [group["start"] for group in data(html)[1].values()] == [-(1 << 62), T + 60_000]


# Size and repetition.


@pytest.mark.deep
def test_ten_thousand_members_stay_below_three_megabytes(tmp_path: Path) -> None:
    """The page is bounded whatever is put in, and everything else is beside it: every member and every finding."""
    report = crowd(10_000, 2_000, 6_000)
    write_group(tmp_path, pack(report.groups[0], report.findings))
    write_page(tmp_path, report, top=12)
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert len(html.encode()) < 3_000_000
    group = groups_of(tmp_path)["crowd"]
    assert len([lane for lane in group["lanes"] if lane["what"] == "member"]) == 10_000
    assert sum(lane.get("count", 0) for lane in group["lanes"]) == 2_000
    assert (len(group["findings"]), len(group["rows"])) == (6_000, 6_000)
    assert all(path.stat().st_size < 1_600_000 for path in (tmp_path / FOLDER).iterdir())
    assert (group["incidents"]["error"], group["kinds"]["error"]) == (2_000, {"double_ownership": 2_000})


@pytest.mark.deep
def test_many_groups_and_machines_stay_below_three_megabytes(tmp_path: Path) -> None:
    """Three hundred groups and fifty machines with hundreds of steps: every group is listed, machines are counted."""
    one = crowd(20, 40, 3).groups[0]
    for i in range(300):
        write_group(tmp_path, pack(replace(one, group=f"group-{i:03d}", rebalances=GROUP.rebalances * 200), ()))
    edges = tuple(EdgeCount(f"S{i}", f"S{i + 1}", i, illegal=i % 2 == 0) for i in range(500))
    machines = tuple(MachineView(f"machine-{i}", edges, ()) for i in range(50))
    write_page(tmp_path, replace(INCIDENT, machines=machines), top=3)
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert len(html.encode()) < 3_000_000
    summary, details = data(html)
    assert (summary["groups"], len(summary["entries"]), len(details)) == (300, 300, 3)
    drawn = html.count("No drawing of this table")
    assert f"and {50 - drawn} more machines" in html


def test_a_small_result_is_one_page(tmp_path: Path) -> None:
    """Details and names stand in the page, and nothing is left beside it."""
    for group in ("one", "two"):
        write_group(tmp_path, pack(replace(GROUP, group=group), [replace(OVERLAP, group=group)]))
    write_page(tmp_path, INCIDENT, top=1)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    summary, details = data((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert (len(details), len(summary["names"]), summary["shards"]) == (2, 2, 0)
    assert summary["names"][key_of("one")] == [
        ["orders-a", "orders-b", "dsCB7DPHBsqWIz3np1ulug"],
        ["orders", "refunds"],
    ]


def test_only_groups_that_changed_are_written_again(tmp_path: Path) -> None:
    """The same group leaves its files alone; a page that refreshes itself has a file with the index beside it."""
    packed = pack(GROUP, [OVERLAP])
    assert write_group(tmp_path, packed)
    assert not write_group(tmp_path, packed)
    assert write_group(tmp_path, pack(GROUP, [OVERLAP, SILENT]))
    write_page(tmp_path, INCIDENT, top=12, refresh_s=5)
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert data(html)[0]["refresh"] == 5
    assert beside(tmp_path, "now")["entries"] == data(html)[0]["entries"]
    assert [one["key"] for one in beside(tmp_path, "now")["rows"]] == [key_of("orders")] * 2
    write_page(tmp_path, INCIDENT, top=12, refresh_s=5)
    assert beside(tmp_path, "now")["totals"] == [
        ["double_ownership", "error", 1],
        ["lost_without_callback", "error", 1],
    ]
    assert beside(tmp_path, "now")["verdict"] == ["error", "2 errors"]
    remove_group(tmp_path, "orders")
    write_page(tmp_path, INCIDENT, top=12, refresh_s=5)
    assert (beside(tmp_path, "now")["entries"], beside(tmp_path, "now")["groups"]) == ([], 0)
    assert "script-src 'sha256-" in html and " 'self' file:;" in html  # noqa: PT018


def test_a_page_that_refreshes_itself_may_be_written_before_any_group(tmp_path: Path) -> None:
    """Nothing is found yet."""
    write_page(tmp_path, INCIDENT, top=12, refresh_s=5)
    assert sorted(path.name for path in (tmp_path / FOLDER).iterdir()) == ["index-1.js", "now.js"]


def test_the_same_report_gives_the_same_bytes() -> None:
    """In one process and in two with other hash seeds."""
    assert render(INCIDENT) == render(INCIDENT)
    code = (
        "from page_data import Whole, render; from fsm.render.timeline.views import *;"
        "from hashlib import sha256;"
        "spans = tuple(OwnedSpan(m, 0, 9000, 'lost') for m in 'abcdef');"
        "p = PartitionView('t', 0, spans, overlaps=(Stretch(100, 900),));"
        "members = tuple(MemberView(m, states=tuple(StateSpan(s, 0, 9000) for s in 'XYZ')) for m in 'abcdef');"
        "f = FindingView('double_ownership', 'error', 'g', 'a', 100, 900, 't-0', '', 'twice');"
        "g = GroupView('g', 0, 99000, members, 0, (p,));"
        "r = Whole('t', Inputs(records=1), 0, 99000, findings=(f,), groups=(g,));"
        "print(sha256(render(r).encode()).hexdigest())"
    )
    root = str(Path(__file__).parents[2])
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{root}:{root}/tests"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(digests) == 1


# What stands beside it.


def test_every_kind_and_cause_is_explained() -> None:
    """The glossary knows what the audit can report, and nothing else."""
    assert list(glossary.KINDS) == [kind.value for kind in FindingKind]  # the worst first, in both
    assert set(glossary.CAUSES) == {cause.value for cause in Cause if cause.value}


def test_without_jinja2_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package runs without jinja2; only a report needs it, and says how to get it."""
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(InputError, match=r"needs the jinja2 package; in a checkout: pip install '\.\[spark\]'"):
        render(EMPTY)
