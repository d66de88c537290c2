"""The HTML report: complete, bounded, harmless whatever a log line says, and readable without anything beside it."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from fsm.audit.findings import Cause, FindingKind
from fsm.render import glossary
from fsm.render.report import (
    Count,
    Dwell,
    EdgeCount,
    EvidenceLine,
    FindingView,
    GroupView,
    Inputs,
    KindTotal,
    MachineView,
    Mark,
    MemberView,
    OwnedSpan,
    PartitionView,
    RebalanceView,
    Report,
    StateSpan,
    Stretch,
    Unreadable,
    render,
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
)
INCIDENT = Report(
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
    findings_total=(
        KindTotal("double_ownership", "error", 1),
        KindTotal("lost_without_callback", "error", 1),
        KindTotal("unowned_partition", "warning", 41),
    ),
    findings=(OVERLAP, SILENT, HOLE),
    groups=(GROUP,),
    groups_hidden=2,
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
EMPTY = Report("Audit", Inputs(), 0, 0)


def crowd(members: int, partitions: int, findings: int) -> Report:
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
    totals = tuple(KindTotal(f.kind, f.severity, findings // 3) for f in (found(0), found(1), found(2)))
    inputs = Inputs(files=members, bytes=10**9, lines=10**7, records=10**6)
    return Report("Crowd", inputs, T, T + span, totals, tuple(views), (group,), 0, ())


def quiet_night() -> Report:
    """Three hours in which nothing happens but two seconds of two owners."""
    end = T + 3 * 3_600_000
    at = T + 6_000_000
    a = MemberView("night-a", states=(StateSpan("JOINING", T, T + 800), StateSpan("STABLE", T + 800, end)))
    b = MemberView("night-b", states=(StateSpan("JOINING", at - 700, at), StateSpan("STABLE", at, end)))
    spans = (OwnedSpan("night-a", T + 800, at + 2000, "lost"), OwnedSpan("night-b", at, end, "log_ended"))
    p = PartitionView("orders", 0, spans, overlaps=(Stretch(at, at + 2000),))
    found = replace(OVERLAP, group="night", member="night-a", start_ms=at, end_ms=at + 2000)
    group = GroupView("night", T, end, (a, b), 0, (p,))
    total = (KindTotal("double_ownership", "error", 1),)
    return Report("Night", Inputs(files=2, lines=900, records=12), T, end, total, (found,), (group,))
