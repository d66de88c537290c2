"""The timeline of a group: findings and time above, a lane for each member, a lane for partitions with one history.

`chart` draws the whole group, `close_up` the surroundings of one finding. What comes back is SVG by sections with the
labels of their lanes beside it; all sections of one chart share one scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fsm.render import wording
from fsm.render.lanes import Lane, Style, alike, bar, bunched, member_lane, partition_lane, px, text
from fsm.render.timescale import DAY, Scale, Tick, scale
from fsm.render.views import FindingView, GroupView, PartitionView, RebalanceView, Stretch

FLAG_ROWS = 5
"""Rows of flags above the axis; findings that find no room there share one flag."""
_FLAG, _AXIS, _TURNS = 18, 36, 16
_OPEN_LANES = 40
"""Lanes without trouble that are shown without being asked for."""
_CLOSE_UP_LANES = 6
_SEVERITIES = ("error", "warning", "info")


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
        return self.finding.severity if self.finding.severity in _SEVERITIES else "info"


@dataclass(frozen=True, slots=True)
class Section:
    """Lanes under one heading."""

    title: str
    lanes: tuple[Lane, ...]
    svg: str
    height: int
    open: bool
    hidden: int
    """How many more there are than lanes tell."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A timeline in parts, to be put beside its labels."""

    width: int
    flags: int
    """Height of the rows of flags; 0 without findings."""
    turns: int
    """Height of the row of rebalances; 0 without any."""
    head: str
    head_height: int
    sections: tuple[Section, ...]
    anchors: Mapping[int, str]
    """Number of a finding -> the id of its flag."""

    @property
    def size(self) -> int:
        """Characters of SVG and labels, about."""
        lanes = (lane for section in self.sections for lane in section.lanes)
        return len(self.head) + sum(len(s.svg) for s in self.sections) + sum(300 + len(lane.tip) for lane in lanes)


def style_of(group: GroupView, states: Mapping[str, str]) -> Style:
    """Members numbered in the order of their lanes, then those that only own partitions."""
    owners = (span.member for p in group.partitions for span in p.spans)
    names = dict.fromkeys([*(m.member for m in group.members), *owners])
    return Style(states, {name: number for number, name in enumerate(names, 1)})


def chart(group: GroupView, findings: Sequence[Numbered], style: Style, budget: int) -> Chart:
    """The whole group in at most about `budget` characters of lanes; what does not fit is counted as hidden."""
    axis = scale(_instants(group), group.start_ms, group.end_ms)
    head, heights, anchors = _head(axis, group, findings)
    bands = _bands(axis, findings)
    noted = {n.finding.member for n in findings if n.finding.severity == "error"}
    members = [_noted(member_lane(m, axis, style), m.member in noted) for m in group.members]
    kept = _fitting(members, budget // 2)
    partitions = [(partition_lane(same, axis, style), len(same)) for same in alike(group.partitions)]
    kept_partitions = _fitting_partitions(partitions, budget - sum(_cost(lane) for lane in kept))
    hidden = group.partitions_hidden + sum(n for _, n in partitions) - sum(n for _, n in kept_partitions)
    sections = [
        *_sections("members", kept, group.members_hidden + len(members) - len(kept), axis, bands),
        *_sections("partitions", [lane for lane, _ in kept_partitions], hidden, axis, bands),
    ]
    return Chart(round(axis.width), *heights, head, sum(heights) + _AXIS, tuple(sections), anchors)


def _noted(lane: Lane, noted: bool) -> Lane:
    return lane._replace(troubled=lane.troubled or noted)


def _instants(group: GroupView) -> Iterator[int]:
    for member in group.members:
        yield from (ts for state in member.states for ts in (state.start_ms, state.end_ms))
        yield from (mark.ts_ms for mark in member.marks)
    for partition in group.partitions:
        for spans in (partition.spans, partition.gaps, partition.overlaps):
            yield from (ts for span in spans for ts in (span.start_ms, span.end_ms))


def _cost(lane: Lane) -> int:
    return len(lane.svg) + len(lane.tip) + 300


def _fitting(lanes: Sequence[Lane], budget: int) -> list[Lane]:
    """The first lanes that fit, those with trouble before the others, in the order given."""
    kept: set[int] = set()
    for i in sorted(range(len(lanes)), key=lambda i: not lanes[i].troubled):
        budget -= _cost(lanes[i])
        if budget < 0:
            break
        kept.add(i)
    return [lanes[i] for i in sorted(kept)]


def _fitting_partitions(lanes: Sequence[tuple[Lane, int]], budget: int) -> list[tuple[Lane, int]]:
    fitting = {id(lane) for lane in _fitting([lane for lane, _ in lanes], budget)}
    return [(lane, count) for lane, count in lanes if id(lane) in fitting]


def _sections(what: str, lanes: Sequence[Lane], hidden: int, axis: Scale, bands: str) -> Iterator[Section]:
    """Few lanes are one section. Of many, those with trouble come first and the rest waits to be opened."""
    troubled = [lane for lane in lanes if lane.troubled]
    quiet = [lane for lane in lanes if not lane.troubled]
    if len(lanes) <= _OPEN_LANES or not troubled or not quiet:
        yield _section(what.capitalize(), lanes, hidden, axis, bands, is_open=len(lanes) <= 3 * _OPEN_LANES)
        return
    yield _section(f"{what.capitalize()} with findings, gaps or errors", troubled, 0, axis, bands)
    yield _section(f"Other {what}", quiet, hidden, axis, bands, is_open=len(quiet) <= _OPEN_LANES)


def _section(
    title: str, lanes: Sequence[Lane], hidden: int, axis: Scale, bands: str, *, is_open: bool = True
) -> Section:
    height = sum(lane.height for lane in lanes)
    parts = [_background(axis, height), bands.replace("{height}", str(height))]
    top = 0
    for lane in lanes:
        parts.append(
            f'<g transform="translate(0,{top})"><path class="floor" d="M0,.5H{px(axis.width)}"/>{lane.svg}</g>'
        )
        top += lane.height
    return Section(title, tuple(lanes), "".join(parts), height, is_open, hidden)


def _background(axis: Scale, height: int) -> str:
    lines = "".join(f"M{px(tick.x)},0V{height}" for tick in axis.ticks())
    breaks = "".join(
        f'<rect class="quiet" x="{px(p.left)}" y="0" width="{px(p.right - p.left)}" height="{height}"/>'
        for p in axis.pieces
        if p.quiet
    )
    return f'{breaks}<path class="grid" d="{lines}"/>'


def _bands(axis: Scale, findings: Iterable[Numbered]) -> str:
    """Faint columns where errors are, to be filled in with a height."""
    errors = [Stretch(n.finding.start_ms, n.finding.end_ms) for n in findings if n.severity == "error"]
    drawn: list[str] = []
    for bunch in bunched(errors, axis, lambda s: (s.start_ms, max(s.start_ms, s.end_ms))):
        left, right = axis.x(bunch[0].start_ms), axis.x(max(s.end_ms for s in bunch))
        size = f'x="{px(left)}" y="0" width="{px(max(2, right - left))}"'
        drawn.append(f'<rect class="band" {size} height="{{height}}"/>')
    return "".join(drawn[:200])


# Above the lanes: flags of findings, the axis, rebalances.


def _head(axis: Scale, group: GroupView, findings: Sequence[Numbered]) -> tuple[str, tuple[int, int], dict[int, str]]:
    rows, anchors = _flags(axis, findings)
    flags = _FLAG * len(rows) + (4 if rows else 0)
    turns = _TURNS if group.rebalances else 0
    parts = [flag for row in rows for flag in row]
    parts += [_tick(tick, last, group.start_ms, flags) for tick, last in _with_last(axis.ticks())]
    parts += [_break(piece.left, piece.end_ms - piece.start_ms, flags) for piece in axis.pieces if piece.quiet]
    top = flags + _AXIS
    for bunch in bunched(group.rebalances, axis, lambda r: (r.start_ms, max(r.start_ms, r.end_ms))):
        parts.append(_turn(axis, bunch, top))
    return "".join(parts), (flags, turns), anchors


def _flags(axis: Scale, findings: Iterable[Numbered]) -> tuple[list[list[str]], dict[int, str]]:
    """Rows of flags, each flag as far left as its finding begins; what has no room joins the flag before it."""
    placed: list[tuple[int, float, list[Numbered]]] = []
    edges: list[float] = []
    for found in sorted(findings, key=lambda n: (n.finding.start_ms, n.number)):
        width = 7.5 * len(found.ref) + 10
        left = min(axis.x(found.finding.start_ms), axis.width - width - 30)
        row = next((i for i, edge in enumerate(edges) if edge <= left), len(edges))
        if row == FLAG_ROWS:
            placed[-1][2].append(found)
            continue
        edges[row : row + 1] = [left + width + (30 if row == FLAG_ROWS - 1 else 3)]
        placed.append((row, left, [found]))
    rows: list[list[str]] = [[] for _ in edges]
    anchors: dict[int, str] = {}
    for row, left, together in placed:
        rows[row].append(_flag(axis, row, left, together))
        anchors.update((n.number, f"t{together[0].number}") for n in together)
    return rows, anchors


def _flag(axis: Scale, row: int, left: float, together: Sequence[Numbered]) -> str:
    first, top = together[0], row * _FLAG
    found = first.finding
    worst = min((n.severity for n in together), key=_SEVERITIES.index)
    more = f"+{len(together) - 1}" if len(together) > 1 else ""
    label = first.ref + more
    tips = [f"{n.ref} {wording.name(n.finding.kind)}: {wording.shown(n.finding.summary, 120)}" for n in together[:6]]
    begin, end = axis.x(found.start_ms), axis.x(found.end_ms)
    stem = f'<path class="stem" d="M{px(begin)},{top + 15}H{px(max(end, begin + 2))}"/>'
    size = f'x="{px(left)}" y="{top}" width="{px(7.5 * len(label) + 8)}" height="14" rx="3"'
    names = f'href="#f{first.number}" id="t{first.number}" class="flag {worst}"'
    return (
        f"<a {names}><title>{text(chr(10).join(tips))}</title>"
        f'{stem}<rect {size}/><text x="{px(left + 4)}" y="{top + 11}">{label}</text></a>'
    )


def _with_last(ticks: Iterable[Tick]) -> Iterator[tuple[Tick, Tick | None]]:
    last: Tick | None = None
    for tick in ticks:
        yield tick, last
        last = tick


def _tick(tick: Tick, last: Tick | None, start_ms: int, top: int) -> str:
    new_day = last is not None and tick.ts_ms // DAY != last.ts_ms // DAY
    after = f"+{wording.lasting(max(0, tick.ts_ms - start_ms))}"
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
        f'<rect x="0" y="0" width="46" height="{_AXIS}"/><text x="23" y="13">quiet</text>'
        f'<text x="23" y="26">{quiet.split(" ")[0]} {quiet.split(" ")[1]}</text></g>'
    )


def _turn(axis: Scale, bunch: Sequence[RebalanceView], top: int) -> str:
    start, end = bunch[0].start_ms, max(turn.end_ms for turn in bunch)
    if len(bunch) > 1:
        tip = f"{len(bunch)} rebalances\n{wording.span(start, end)}"
    else:
        turn = bunch[0]
        who = f"{wording.many(turn.members, 'member')}, {wording.many(turn.moved, 'partition')} moved"
        tip = f"rebalance {wording.name(turn.cause)}\n{wording.span(start, end)}\n{who}"
    return bar(axis.x(start), axis.x(end), top + 2, 10, cls="turn", tip=tip)


# The surroundings of one finding.


def close_up(group: GroupView, found: Numbered, style: Style) -> Chart | None:
    """The lanes a finding is about, around its time; None where the chart of the group shows it as well."""
    start, end = found.finding.start_ms, max(found.finding.start_ms, found.finding.end_ms)
    margin = max(1000, (end - start) // 2)
    begin, until = max(group.start_ms, start - margin), min(group.end_ms, end + margin)
    if until <= begin or (until - begin) * 2 > group.end_ms - group.start_ms:
        return None
    partitions = _concerned(group.partitions, found.finding, begin, until)
    owners = {s.member for p in partitions for s in p.spans if s.start_ms <= until and s.end_ms >= begin}
    if found.finding.member:
        owners = {found.finding.member} | (owners if found.finding.severity == "error" else set())
    members = [m for m in group.members if m.member in owners][:_CLOSE_UP_LANES]
    if not members and not partitions:
        return None
    near = GroupView(group.group, begin, until, tuple(members), 0, tuple(partitions))
    axis = scale(_instants(near), begin, until)
    head, heights, _ = _head(axis, near, ())
    lanes = [member_lane(m, axis, style) for m in members]
    lanes += [partition_lane(same, axis, style) for same in alike(partitions)][:_CLOSE_UP_LANES]
    band = _bands(axis, [Numbered(found.number, found.finding)])
    return Chart(round(axis.width), *heights, head, _AXIS, (_section("", lanes, 0, axis, band),), {})


def _concerned(partitions: Iterable[PartitionView], found: FindingView, begin: int, until: int) -> list[PartitionView]:
    """Partitions in trouble while it lasts; where none is, those that its member got or gave then."""

    def within(stretches: Iterable[Stretch]) -> bool:
        return any(s.start_ms <= found.end_ms and s.end_ms >= found.start_ms for s in stretches)

    given = list(partitions)
    hurt = [p for p in given if within(p.overlaps)] if found.severity == "error" else []
    hurt = hurt or [p for p in given if within(p.gaps)]
    if hurt or not found.member:
        return hurt
    return [
        p
        for p in given
        if any(_changes(span.start_ms, span.end_ms, begin, until) and span.member == found.member for span in p.spans)
    ]


def _changes(start_ms: int, end_ms: int, begin: int, until: int) -> bool:
    return begin <= start_ms <= until or begin <= end_ms <= until
