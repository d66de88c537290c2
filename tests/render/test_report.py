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
        StateSpan("STABLE", T + 1400, T + 21_000),
        StateSpan("STALE", T + 21_000, T + 27_500),
        StateSpan("FENCED", T + 27_500, T + 27_640),
        StateSpan("JOINING", T + 27_640, T + 29_000),
        StateSpan("STABLE", T + 29_000, T + 60_000),
    ),
    marks=(
        Mark(T + 1200, "assign_begin", "orders-[0..5]"),
        Mark(T + 21_000, "poll_expired", "max.poll.interval.ms passed"),
        Mark(T + 27_500, "fenced", "FENCED_MEMBER_EPOCH"),
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
            OwnedSpan("orders-a", T + 1200, T + 25_700, "lost"),
            OwnedSpan("orders-b", T + 22_500, T + 50_000, "log_ended"),
        ),
        overlaps=(Stretch(T + 22_500, T + 25_700),),
    )
    for number in (0, 1, 2)
)
KEPT = tuple(
    PartitionView("orders", number, spans=(OwnedSpan("orders-a", T + 1200, T + 60_000, "log_ended"),)) for number in (3, 4, 5)
)
GAP = PartitionView(
    "refunds",
    0,
    spans=(
        OwnedSpan("orders-a", T + 1200, T + 10_000, "revoked"),
        OwnedSpan("orders-b", T + 18_000, T + 50_000, "log_ended"),
    ),
    gaps=(Stretch(T + 10_000, T + 18_000), Stretch(T + 50_000, T + 60_000)),
)
OVERLAP = FindingView(
    kind="double_ownership",
    severity="error",
    group="orders",
    member="orders-a",
    start_ms=T + 22_500,
    end_ms=T + 25_700,
    partitions="orders-[0, 1, 2]",
    cause="no_poll",
    summary="orders-a and orders-b both owned orders-[0, 1, 2] for 3.2 s: orders-a had not polled and went on working",
    evidence=(
        EvidenceLine("a/app.log", 1201, "02:00:21,000 WARN consumer poll timeout has expired"),
        EvidenceLine("b/app.log", 88, "02:00:22,500 INFO Adding newly assigned partitions: orders-0, orders-1, orders-2"),
    ),
)
SILENT = FindingView(
    kind="lost_without_callback",
    severity="error",
    group="orders",
    member="orders-a",
    start_ms=T + 27_500,
    end_ms=T + 27_500,
    partitions="orders-[0, 1, 2]",
    cause="fenced",
    summary="orders-a lost orders-[0, 1, 2] without any callback",
    evidence=(EvidenceLine("a/app.log", 1222, "02:00:27,500 INFO transitioned to FENCED state"),),
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
    partitions=(*SHARED, *KEPT, GAP),
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
                EdgeCount("JOINING", "STABLE", 14, illegal=False),
                EdgeCount("JOINING", "RECONCILING", 7, illegal=False),
                EdgeCount("RECONCILING", "ACKNOWLEDGING", 7, illegal=False),
                EdgeCount("STABLE", "STALE", 2, illegal=False),
                EdgeCount("STALE", "STABLE", 1, illegal=True),
            ),
            dwell=(Dwell("JOINING", 21, 950, 1400, 1500), Dwell("STABLE", 14, 20_000, 61_000, 61_200)),
        ),
    ),
)
EMPTY = Report("Audit", Inputs(), 0, 0)
