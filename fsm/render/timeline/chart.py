"""The timeline of a group: findings and time above, a lane for each member, a lane for partitions with one history.

`draw_chart` draws the whole group, `draw_close_up` the surroundings of one finding. What comes back is SVG by sections
with the labels of their lanes beside it; all sections of one chart share one scale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fsm.render import wording
from fsm.render.timeline.lanes import (
    Item,
    Lane,
    Style,
    bar,
    bunch_thin,
    draw_member,
    draw_partition,
    group_alike,
    is_in_trouble,
    px,
    text,
)
from fsm.render.timeline.scale import BREAK, DAY, Scale, Tick, scale
from fsm.render.timeline.views import FindingView, GroupView, MemberView, PartitionView, RebalanceView, Stretch

FLAG_ROWS = 5
"""Rows of flags above the axis; findings that find no room there share one flag."""
_FLAG, _AXIS, _REBALANCES = 18, 36, 16
_OPEN_LANES = 40
"""Lanes without trouble that are shown without being asked for."""
_MOST_BANDS = 40
_CLOSE_UP_LANES = 6
_CLOSE_UP_WIDTH = 960
_LABELS, _PAGE, _ZOOM = 258, 1030, 0.75
"""Pixels of the labels, of a printed page, and the largest scale on it."""
SEVERITIES = ("error", "warning", "info")


class Numbered(NamedTuple):
    """A finding with the number it has in this report."""

    number: int
    finding: FindingView

    @property
    def ref(self) -> str:
        """How the report calls it, as in `E12`."""
        return f"{self.severity[0].upper()}{self.number}"

    @property
    def severity(self) -> str:
        """The severity as a class of the style sheet."""
        return self.finding.severity if self.finding.severity in SEVERITIES else "info"


@dataclass(frozen=True, slots=True)
class Section:
    """Lanes under one heading."""

    title: str
    """With how many there are; empty for the only section of a close-up."""
    lanes: tuple[Lane, ...]
    svg: str
    height: int
    open: bool


@dataclass(frozen=True, slots=True)
class Chart:
    """A timeline in parts, to be put beside its labels."""

    width: int
    flags: int
    """Height of the rows of flags; 0 without findings."""
    rebalances: int
    """Height of the row of rebalances; 0 without any."""
    head: str
    head_height: int
    sections: tuple[Section, ...]
    anchors: Mapping[int, str]
    """Number of a finding -> the id of its flag."""

    @property
    def zoom(self) -> str:
        """By how much it shrinks on paper, labels included, to be no wider than a page."""
        return f"{min(_ZOOM, _PAGE / (self.width + _LABELS)):.2f}"

    @property
    def size(self) -> int:
        """Bytes of SVG and labels, about."""
        lanes = (lane for section in self.sections for lane in section.lanes)
        drawn = (self.head, *(section.svg for section in self.sections))
        return sum(len(part.encode()) for part in drawn) + sum(_label_cost(lane) for lane in lanes)


def number_members(group: GroupView, states: Mapping[str, str]) -> Style:
    """Members numbered in the order of their lanes, then those that only own partitions."""
    owners = (span.member for p in group.partitions for span in p.spans)
    names = dict.fromkeys([*(m.member for m in group.members), *owners])
    return Style(states, {name: number for number, name in enumerate(names, 1)})


def draw_chart(group: GroupView, findings: Sequence[Numbered], style: Style, budget: int) -> Chart:
    """The whole group in at most about `budget` bytes of lanes; what does not fit is counted as hidden."""
    axis = scale(_instants(group), group.start_ms, group.end_ms)
    head, heights, anchors = _head(axis, group, findings, group.start_ms)
    bands = _error_bands(axis, findings)
    accused = {n.finding.member for n in findings if n.severity == "error"}

    def of_member(member: MemberView) -> Lane:
        lane = draw_member(member, axis, style)
        return lane._replace(troubled=lane.troubled or member.member in accused)

    troubled = [m.member in accused or is_in_trouble(m) for m in group.members]
    kept = _fit(group.members, troubled, of_member, budget // 2)
    left = budget - sum(map(_cost, kept))
    unlogged = _fit(group.unlogged, [False] * len(group.unlogged), of_member, left // 4)
    left -= sum(map(_cost, unlogged))
    histories = group_alike(group.partitions)
    troubled = [bool(same[0].gaps or same[0].overlaps) for same in histories]
    is_unit = any(p.partition < 0 for p in group.partitions)
    owned = "connectors and tasks" if is_unit else "partitions"
    kept_partitions = _fit(histories, troubled, lambda same: draw_partition(same, axis, style, is_unit=is_unit), left)
    of_coordinator = [draw_member(group.coordinator, axis, style)] if group.coordinator else []
    members, unread = len(group.members) + group.members_hidden, len(group.unlogged) + group.unlogged_hidden
    sections = [
        *(_section("The coordinator's own words", [lane], axis, bands) for lane in of_coordinator),
        *(_sections("members", kept, members, axis, bands) if members or not unread else ()),
        *(_sections("members without logs", unlogged, unread, axis, bands) if unread else ()),
        *_sections(
            owned,
            kept_partitions,
            len(group.partitions) + group.partitions_hidden,
            axis,
            bands,
        ),
    ]
    return Chart(round(axis.width), *heights, head, sum(heights) + _AXIS, tuple(sections), anchors)


def _instants(group: GroupView) -> Iterator[int]:
    for member in (*group.members, *group.unlogged, *filter(None, [group.coordinator])):
        yield from (ts for state in member.states for ts in (state.start_ms, state.end_ms))
        yield from (ts for span in (*member.target, *member.current) for ts in (span.start_ms, span.end_ms))
        yield from (mark.ts_ms for mark in member.marks)
    for partition in group.partitions:
        for spans in (partition.spans, partition.gaps, partition.overlaps):
            yield from (ts for span in spans for ts in (span.start_ms, span.end_ms))


def _cost(lane: Lane) -> int:
    return len(lane.svg.encode()) + _label_cost(lane)


def _label_cost(lane: Lane) -> int:
    return 2 * len(lane.tip.encode()) + 200


def _fit(items: Sequence[Item], troubled: Sequence[bool], draw: Callable[[Item], Lane], budget: int) -> list[Lane]:
    """The first lanes that fit, those with trouble before the others, in the order given."""
    kept: dict[int, Lane] = {}
    for i in sorted(range(len(items)), key=lambda i: not troubled[i]):
        lane = draw(items[i])
        budget -= _cost(lane)
        if budget < 0:
            break
        kept[i] = lane
    return [kept[i] for i in sorted(kept)]


def _sections(what: str, lanes: Sequence[Lane], total: int, axis: Scale, bands: str) -> Iterator[Section]:
    """Few lanes are one section. Of many, those with trouble come first and the rest waits to be opened."""
    troubled = [lane for lane in lanes if lane.troubled]
    quiet = [lane for lane in lanes if not lane.troubled]
    hidden = total - sum(lane.stands_for for lane in lanes)
    if len(lanes) <= _OPEN_LANES or not troubled or not quiet:
        title = _title(what.capitalize(), lanes, hidden)
        yield _section(title, lanes, axis, bands, is_open=len(lanes) <= 3 * _OPEN_LANES)
        return
    title = _title(f"{what.capitalize()} in trouble", troubled, 0)
    yield _section(title, troubled, axis, bands)
    title = _title(f"Other {what}", quiet, hidden)
    yield _section(title, quiet, axis, bands, is_open=len(quiet) <= _OPEN_LANES)


def _title(what: str, lanes: Sequence[Lane], hidden: int) -> str:
    count = sum(lane.stands_for for lane in lanes)
    merged = f" in {wording.many(len(lanes), 'lane')}" if len(lanes) < count else ""
    return f"{what}: {count:,}{merged}" + (f", and {hidden:,} more not shown" if hidden else "")


def _section(title: str, lanes: Sequence[Lane], axis: Scale, bands: str, *, is_open: bool = True) -> Section:
    height = sum(lane.height for lane in lanes)
    parts = [_background(axis, height), bands.replace("{height}", str(height))]
    top = 0
    for lane in lanes:
        parts.append(
            f'<g transform="translate(0,{top})"><path class="floor" d="M0,.5H{px(axis.width)}"/>{lane.svg}</g>'
        )
        top += lane.height
    return Section(title, tuple(lanes), "".join(parts), height, is_open)


def _background(axis: Scale, height: int) -> str:
    lines = "".join(f"M{px(tick.x)},0V{height}" for tick in axis.ticks())
    breaks = "".join(
        f'<rect class="quiet" x="{px(p.left)}" y="0" width="{px(p.right - p.left)}" height="{height}"/>'
        for p in axis.pieces
        if p.quiet
    )
    return f'{breaks}<path class="grid" d="{lines}"/>'


def _error_bands(axis: Scale, findings: Iterable[Numbered]) -> str:
    """Faint columns where errors are, to be filled in with a height; none where they would cover everything."""
    errors = [Stretch(n.finding.start_ms, n.finding.end_ms) for n in findings if n.severity == "error"]
    drawn: list[str] = []
    for bunch in bunch_thin(errors, axis, lambda s: (s.start_ms, max(s.start_ms, s.end_ms))):
        left, right = axis.x(bunch[0].start_ms), axis.x(max(s.end_ms for s in bunch))
        size = f'x="{px(left)}" y="0" width="{px(max(2, right - left))}"'
        drawn.append(f'<rect class="band" {size} height="{{height}}"/>')
    return "".join(drawn) if len(drawn) <= _MOST_BANDS else ""


# Above the lanes: flags of findings, the axis, rebalances


def _head(
    axis: Scale, group: GroupView, findings: Sequence[Numbered], origin_ms: int
) -> tuple[str, tuple[int, int], dict[int, str]]:
    rows, anchors = _flags(axis, findings)
    flags = _FLAG * len(rows) + (4 if rows else 0)
    rebalances = _REBALANCES if group.rebalances else 0
    parts = [flag for row in rows for flag in row]
    parts += [_tick(tick, last, origin_ms, flags) for tick, last in _pair_with_last(axis.ticks())]
    parts += [_break(piece.left, piece.end_ms - piece.start_ms, flags) for piece in axis.pieces if piece.quiet]
    top = flags + _AXIS
    for bunch in bunch_thin(group.rebalances, axis, lambda r: (r.start_ms, max(r.start_ms, r.end_ms))):
        parts.append(_rebalance_bar(axis, bunch, top))
    return "".join(parts), (flags, rebalances), anchors


def _flags(axis: Scale, findings: Iterable[Numbered]) -> tuple[list[list[str]], dict[int, str]]:
    """Rows of flags, each where its finding begins; what has no room joins the last flag of the lowest row."""
    placed: list[tuple[int, float, list[Numbered]]] = []
    crowded: list[Numbered] = []
    edges: list[float] = []
    for found in sorted(findings, key=lambda n: (n.finding.start_ms, n.number)):
        width = 7.5 * len(found.ref) + 10
        left = min(axis.x(found.finding.start_ms), axis.width - width - 30)
        row = next((i for i, edge in enumerate(edges) if edge <= left), len(edges))
        if row == FLAG_ROWS:
            crowded.append(found)
            continue
        edges[row : row + 1] = [left + width + (30 if row == FLAG_ROWS - 1 else 3)]
        together = [found]
        placed.append((row, left, together))
        crowded = together if row == FLAG_ROWS - 1 else crowded
    rows: list[list[str]] = [[] for _ in edges]
    anchors: dict[int, str] = {}
    for row, left, together in placed:
        rows[row].append(_flag(axis, row, left, together))
        anchors.update((n.number, f"t{together[0].number}") for n in together)
    return rows, anchors


def _flag(axis: Scale, row: int, left: float, together: Sequence[Numbered]) -> str:
    first, top = together[0], row * _FLAG
    found = first.finding
    worst = min((n.severity for n in together), key=SEVERITIES.index)
    more = f"+{len(together) - 1}" if len(together) > 1 else ""
    label = first.ref + more
    tips = [f"{n.ref} {wording.name(n.finding.kind)}: {wording.show(n.finding.summary, 120)}" for n in together[:6]]
    begin, end = axis.x(found.start_ms), axis.x(found.end_ms)
    stem = f'<path class="stem" d="M{px(begin)},{top + 15}H{px(max(end, begin + 2))}"/>'
    size = f'x="{px(left)}" y="{top}" width="{px(7.5 * len(label) + 8)}" height="14" rx="3"'
    names = f'href="#f{first.number}" id="t{first.number}" class="flag {worst}"'
    return (
        f"<a {names}><title>{text(chr(10).join(tips))}</title>"
        f'{stem}<rect {size}/><text x="{px(left + 4)}" y="{top + 11}">{label}</text></a>'
    )


def _pair_with_last(ticks: Iterable[Tick]) -> Iterator[tuple[Tick, Tick | None]]:
    last: Tick | None = None
    for tick in ticks:
        yield tick, last
        last = tick


def _tick(tick: Tick, last: Tick | None, origin_ms: int, top: int) -> str:
    new_day = last is not None and tick.ts_ms // DAY != last.ts_ms // DAY
    after = wording.since(max(0, tick.ts_ms - origin_ms))
    below = wording.date(tick.ts_ms) if new_day else after
    x = px(tick.x)
    return (
        f'<path class="tick" d="M{x},{top + 30}v6"/><text class="time" x="{x}" y="{top + 13}">'
        f'{wording.clock(tick.ts_ms, exact=tick.exact)}</text><text class="after{" day" if new_day else ""}" x="{x}" '
        f'y="{top + 26}">{below}</text>'
    )


def _break(left: float, length_ms: int, top: int) -> str:
    quiet = wording.lasting(length_ms)
    place = f'class="break" transform="translate({px(left)},{top})"'
    return (
        f"<g {place}><title>{quiet} in which nothing begins or ends</title>"
        f'<rect x="0" y="0" width="{BREAK}" height="{_AXIS}"/><text x="{BREAK // 2}" y="13">quiet</text>'
        f'<text x="{BREAK // 2}" y="26">{quiet}</text></g>'
    )


def _rebalance_bar(axis: Scale, bunch: Sequence[RebalanceView], top: int) -> str:
    start, end = bunch[0].start_ms, max(each.end_ms for each in bunch)
    if len(bunch) > 1:
        tip = f"{len(bunch)} rebalances\n{wording.span(start, end)}"
    else:
        turn = bunch[0]
        who = f"{wording.many(turn.members, 'member')}, {wording.many(turn.moved, 'partition')} moved"
        tip = f"rebalance {wording.name(turn.cause)}\n{wording.span(start, end)}\n{who}"
    return bar(axis.x(start), axis.x(end), top + 2, 10, cls="turn", tip=tip)


# The surroundings of one finding.


def draw_close_up(group: GroupView, found: Numbered, style: Style) -> Chart | None:
    """The lanes a finding is about, around its time; None where the chart of the group shows it as well."""
    start, end = found.finding.start_ms, max(found.finding.start_ms, found.finding.end_ms)
    margin = max(3000, (end - start) // 2)
    begin, until = max(group.start_ms, start - margin), min(group.end_ms, end + margin)
    if until <= begin or (until - begin) * 2 > group.end_ms - group.start_ms:
        return None
    partitions = _find_concerned(group.partitions, found.finding, begin, until)
    owners = {s.member for p in partitions for s in p.spans if s.start_ms <= until and s.end_ms >= begin}
    if found.finding.member:
        owners = {found.finding.member} | (owners if found.finding.severity == "error" else set())
    members = [m for m in group.members if m.member in owners][:_CLOSE_UP_LANES]
    if not members and not partitions:
        return None
    near = GroupView(group.group, begin, until, tuple(members), partitions=tuple(partitions))
    axis = scale(_instants(near), begin, until, _CLOSE_UP_WIDTH)
    head, heights, _ = _head(axis, near, (), group.start_ms)
    lanes = [draw_member(m, axis, style) for m in members]
    is_unit = any(p.partition < 0 for p in group.partitions)
    lanes += [draw_partition(same, axis, style, is_unit=is_unit) for same in group_alike(partitions)][:_CLOSE_UP_LANES]
    band = _error_bands(axis, [Numbered(found.number, found.finding)])
    return Chart(round(axis.width), *heights, head, _AXIS, (_section("", lanes, axis, band),), {})


def _find_concerned(
    partitions: Iterable[PartitionView], found: FindingView, begin: int, until: int
) -> list[PartitionView]:
    """Partitions in trouble while it lasts; where none is, those that its member got or gave then."""

    def within(stretches: Iterable[Stretch]) -> bool:
        return any(s.start_ms <= found.end_ms and s.end_ms >= found.start_ms for s in stretches)

    given = list(partitions)
    troubled = [p for p in given if within(p.overlaps)] if found.severity == "error" else []
    troubled = troubled or [p for p in given if within(p.gaps)]
    if troubled or not found.member:
        return troubled
    return [
        p
        for p in given
        if any(_changes(span.start_ms, span.end_ms, begin, until) and span.member == found.member for span in p.spans)
    ]


def _changes(start_ms: int, end_ms: int, begin: int, until: int) -> bool:
    return begin <= start_ms <= until or begin <= end_ms <= until
