"""Lanes of a timeline as pieces of SVG: the states of a member, the owners of a partition.

What would be thinner than two pixels is drawn two pixels wide, and what would then lie on top of each other is bunched
into one bar that says how much it stands for. A lane is therefore bounded by its width, however much happened in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple, TypeVar

from fsm.render import wording
from fsm.render.timeline.scale import Scale
from fsm.render.timeline.shades import GLYPHS, MEMBERS, family, glyph
from fsm.render.timeline.views import AssignedSpan, Mark, MemberView, OwnedSpan, PartitionView, StateSpan, Stretch

MEMBER_HEIGHT = 34
BAR = 16
ROW = 15
"""Height of a row of the coordinator's, below the states of a member."""
_THINNEST = 2.0
_MOST_OWNERS = 4
"""Owners of one partition at a time that get a bar of their own."""

Item = TypeVar("Item")


class Lane(NamedTuple):
    """One row of a timeline."""

    label: str
    note: str
    """Small print below the label."""
    tip: str
    number: int
    """Number of the member it is about; 0 for a partition."""
    height: int
    svg: str
    troubled: bool
    stands_for: int = 1
    """How many partitions share the lane."""
    rows: tuple[str, ...] = ()
    """Small print beside the rows below the first one."""


class Style(NamedTuple):
    """What lanes must know of the whole: classes of states, numbers of members."""

    states: Mapping[str, str]
    members: Mapping[str, int]

    def owner(self, member: str) -> tuple[str, int]:
        """Class and number of a member."""
        number = self.members.get(member, 0)
        return (f"m{(number - 1) % MEMBERS}" if number else "mx"), number


def text(value: str) -> str:
    """A text for an SVG element, harmless."""
    return escape(wording.show(value, 300), quote=True)


def px(value: float) -> str:
    """A coordinate."""
    return f"{value:.1f}".removesuffix(".0")


def bar(left: float, right: float, top: int, height: int, *, cls: str, tip: str, label: str = "") -> str:
    """A rectangle with a tool tip, and a label where it fits."""
    width = max(_THINNEST, right - left)
    title = f"<title>{text(tip)}</title>" if tip else ""
    drawn = f'<rect class="{cls}" x="{px(left)}" y="{top}" width="{px(width)}" height="{height}">{title}</rect>'
    if label and _fits(label, width):
        drawn += f'<text class="in" x="{px(left + 4)}" y="{top + height - 4}">{text(label)}</text>'
    return drawn


def _fits(label: str, width: float) -> bool:
    return width >= 6.4 * len(label) + 8


def bunch_thin(items: Iterable[Item], scale: Scale, ends: Callable[[Item], tuple[int, int]]) -> Iterator[list[Item]]:
    """Items on the axis in the order of their begins; those too thin to be told apart together."""
    visible = sorted((i for i in items if scale.meets(*ends(i))), key=ends)
    bunch: list[Item] = []
    edge = 0.0
    for item in visible:
        left, right = (scale.x(ts) for ts in ends(item))
        thin = right - left < _THINNEST
        if bunch and thin and left < edge:
            bunch.append(item)
            continue
        if bunch:
            yield bunch
        bunch = [item]
        edge = left + 3 * _THINNEST if thin else 0.0
    if bunch:
        yield bunch


def _ends(span: StateSpan | OwnedSpan | AssignedSpan | Stretch) -> tuple[int, int]:
    return span.start_ms, max(span.start_ms, span.end_ms)


def _at(mark: Mark) -> tuple[int, int]:
    return mark.ts_ms, mark.ts_ms


# A member: its states, and marks above them.


def draw_member(member: MemberView, scale: Scale, style: Style) -> Lane:
    """States as bars, marks above them, and below them what the coordinator assigned to it."""
    parts = [_state_bar(bunch, scale, style) for bunch in bunch_thin(member.states, scale, _ends)]
    parts += [_mark_shape(bunch, scale) for bunch in bunch_thin(member.marks, scale, _at)]
    shown = [(name, own) for name, own in (("target", member.target), ("current", member.current)) if own]
    for row, (name, own) in enumerate(shown):
        for bunch in bunch_thin(own, scale, _ends):
            parts.append(_assigned_bar(bunch, name, member.target, scale, MEMBER_HEIGHT + row * ROW))
    known = (member.coverage, member.client, f"{member.protocol} {member.version}".strip())
    note = " · ".join(wording.name(part) for part in known if part)
    number = style.members.get(member.member, 0)
    tip = f"{wording.name(member.member)}\n{note}"
    height = MEMBER_HEIGHT + len(shown) * ROW + (2 if shown else 0)
    rows = tuple(_ROWS[name] for name, _ in shown)
    return Lane(member.member, note, tip, number, height, "".join(parts), is_in_trouble(member), rows=rows)


_ROWS = {"target": "coordinator: target", "current": "coordinator: assigned"}


def is_in_trouble(member: MemberView) -> bool:
    """Whether it was in a state from which a member comes only after an error."""
    return any(family(span.state) == "bad" for span in member.states)


def _state_bar(bunch: Sequence[StateSpan], scale: Scale, style: Style) -> str:
    start, end = bunch[0].start_ms, max(span.end_ms for span in bunch)
    names = list(dict.fromkeys(wording.name(span.state) for span in bunch))
    left, right = scale.x(start), scale.x(end)
    if len(bunch) > 1:
        cls = "st busy" + (" hurt" if any(family(span.state) == "bad" for span in bunch) else "")
        tip = (
            f"{len(bunch)} states within {wording.lasting(end - start)}: {', '.join(names[:8])}\n{wording.clock(start)}"
        )
        return bar(left, right, 14, BAR, cls=cls, tip=tip)
    label = names[0] if right - left >= 6.4 * len(names[0]) + 8 else names[0][:3]
    tip = f"{names[0]}\n{wording.span(start, end)}"
    return bar(left, right, 14, BAR, cls=f"st {style.states.get(bunch[0].state, 'moving0')}", tip=tip, label=label)


def _assigned_bar(
    bunch: Sequence[AssignedSpan], name: str, targets: Sequence[AssignedSpan], scale: Scale, top: int
) -> str:
    start, end = bunch[0].start_ms, max(span.end_ms for span in bunch)
    left, right = scale.x(start), scale.x(end)
    if len(bunch) > 1:
        tip = f"{_ROWS[name]}, {len(bunch)} times within {wording.lasting(end - start)}\n{wording.clock(start)}"
        return bar(left, right, top, ROW - 3, cls="as busy", tip=tip)
    span = bunch[0]
    cls = f"as {name}" + (f" {_SHADES[span.state]}" if span.state in _SHADES else "")
    label = next((text for text in _labels(span) if _fits(text, right - left)), "")
    return bar(left, right, top, ROW - 3, cls=cls, tip="\n".join(_tip_lines(span, name, targets)), label=label)


_SHADES = {"UNREVOKED_PARTITIONS": "unrevoked", "UNRELEASED_PARTITIONS": "unreleased"}


def _labels(span: AssignedSpan) -> Iterator[str]:
    """What a bar may say, the longest first: the partitions with their topics, without, their number."""
    owned = wording.name(
        span.partitions or ("waits for others" if span.state == "UNRELEASED_PARTITIONS" else "nothing")
    )
    given = wording.name(span.giving_up)
    texts = [f"{owned}, gives up {given}" if given else owned]
    if not given:
        texts += [_numbers(owned), str(span.size)]
    for text in dict.fromkeys(texts):
        yield from (f"{span.epoch}: {text}", text) if span.epoch else (text,)
    yield from (f"gives up {given}", f"gives up {_numbers(given)}", "gives up") if given else ()


def _numbers(partitions: str) -> str:
    """`[0..2]` of `orders-[0..2]`; partitions of several topics as they are."""
    return partitions if partitions.count("-[") != 1 else partitions[partitions.index("-[") + 1 :]


def _tip_lines(span: AssignedSpan, name: str, targets: Sequence[AssignedSpan]) -> list[str]:
    """Lines of the tool tip: what, when, and how long after the target had moved."""
    known = [_ROWS[name], *(part for part in (span.epoch, wording.name(span.state)) if part)]
    lines = [", ".join(known), f"{wording.many(span.size, 'partition')} {wording.name(span.partitions)}".rstrip()]
    lines += [f"to give up: {wording.name(span.giving_up)}"] if span.giving_up else []
    lines.append(wording.span(span.start_ms, span.end_ms))
    moved = [target.start_ms for target in targets if target.start_ms <= span.start_ms]
    if name == "current" and moved:
        lines.append(f"{wording.lasting(span.start_ms - max(moved))} after its target moved")
    return lines


def _mark_shape(bunch: Sequence[Mark], scale: Scale) -> str:
    shapes = [glyph(mark.kind) for mark in bunch]
    shape = min(shapes, key=list(GLYPHS).index)
    lines = [f"{wording.clock(mark.ts_ms)} {wording.name(mark.kind)} {mark.text}".strip() for mark in bunch[:6]]
    more = [f"and {len(bunch) - 6} more"] if len(bunch) > 6 else []
    tip = "\n".join(line[:200] for line in lines + more)
    place = f"translate({px(scale.x(bunch[0].ts_ms))},7)"
    return f'<path class="mk {shape}" transform="{place}" d="{GLYPHS[shape]}"><title>{text(tip)}</title></path>'


# Partitions with the same history: their owners, gaps and overlaps.


def group_alike(partitions: Iterable[PartitionView]) -> list[list[PartitionView]]:
    """Partitions of one topic with the same history together, by topic and number."""
    found: dict[tuple[object, ...], list[PartitionView]] = {}
    for p in sorted(partitions, key=lambda p: (p.topic, p.partition)):
        found.setdefault((p.topic, p.partition < 0, p.spans, p.gaps, p.overlaps, p.waits), []).append(p)
    return list(found.values())


def draw_partition(same: Sequence[PartitionView], scale: Scale, style: Style, *, is_unit: bool = False) -> Lane:
    """Owners as bars, one below the other while there are several; gaps hatched, overlaps framed.

    A connector or task `is_unit`: it runs, and a delay for which it waits is a line below its gap.
    """
    first = same[0]
    rows = _pack(first.spans) if first.overlaps else [list(first.spans)]
    parts: list[str] = []
    for i, row in enumerate(rows):
        parts += [_owner_bar(bunch, scale, style, 4 + i * (BAR + 1)) for bunch in bunch_thin(row, scale, _ends)]
    height = 8 + len(rows) * (BAR + 1)
    words = ("runs nowhere", "runs twice") if is_unit else ("no owner", "several owners")
    parts += [_trouble_bar(bunch, scale, "gap", height, words[0]) for bunch in bunch_thin(first.gaps, scale, _ends)]
    parts += [_wait_bar(wait, scale, height) for wait in _cut_to(first.waits, first.gaps)]
    parts += [
        _trouble_bar(bunch, scale, "overlap", height, words[1]) for bunch in bunch_thin(first.overlaps, scale, _ends)
    ]
    label = f"{wording.name(first.topic)}-[{wording.numbers([p.partition for p in same])}]"
    if len(same) == 1:
        label = f"{wording.name(first.topic)}-{first.partition}"
    if first.partition < 0:
        label = f"connector {wording.name(first.topic)}"
    return Lane(label, "", label, 0, height, "".join(parts), bool(first.gaps or first.overlaps), len(same))


def _pack(spans: Iterable[OwnedSpan]) -> list[list[OwnedSpan]]:
    """Spans that overlap in rows of their own."""
    rows: list[list[OwnedSpan]] = []
    for span in sorted(spans, key=_ends):
        free = next((row for row in rows if row[-1].end_ms <= span.start_ms), None)
        if free is None and len(rows) >= _MOST_OWNERS:
            free = rows[-1]
        if free is None:
            rows.append([span])
        else:
            free.append(span)
    return rows or [[]]


def _owner_bar(bunch: Sequence[OwnedSpan], scale: Scale, style: Style, top: int) -> str:
    start, end = bunch[0].start_ms, max(span.end_ms for span in bunch)
    left, right = scale.x(start), scale.x(end)
    if len(bunch) > 1:
        owners = len({span.member for span in bunch})
        tip = f"owned {len(bunch)} times by {wording.many(owners, 'member')}\n{wording.span(start, end)}"
        return bar(left, right, top, BAR, cls="ow busy", tip=tip)
    span = bunch[0]
    cls, number = style.owner(span.member)
    owner = wording.name(span.member)
    tip = f"{number or '?'} {owner}\n{wording.span(start, end)}, {wording.name(span.ended)}"
    label = f"{number} {owner}" if number else owner
    if right - left < 6.4 * len(label) + 8:
        label = str(number) if number else "?"
    drawn = bar(left, right, top, BAR, cls=f"ow {cls}", tip=tip, label=label)
    if span.ended in ("lost", "dropped", "restarted", "log_ended", "closed") and scale.start_ms < end < scale.end_ms:
        drawn += f'<path class="end {span.ended}" d="M{px(right)},{top - 2}v{BAR + 4}"/>'
    return drawn


def _cut_to(stretches: Iterable[Stretch], gaps: Iterable[Stretch]) -> Iterator[Stretch]:
    """The parts of the stretches that lie in a gap."""
    given = list(gaps)
    for stretch in stretches:
        for gap in given:
            start_ms, end_ms = max(stretch.start_ms, gap.start_ms), min(stretch.end_ms, gap.end_ms)
            if start_ms < end_ms:
                yield Stretch(start_ms, end_ms)


def _wait_bar(wait: Stretch, scale: Scale, height: int) -> str:
    tip = f"waits for a scheduled delay\n{wording.span(wait.start_ms, wait.end_ms)}"
    return bar(scale.x(wait.start_ms), scale.x(wait.end_ms), height - 6, 4, cls="wait", tip=tip)


def _trouble_bar(bunch: Sequence[Stretch], scale: Scale, cls: str, height: int, what: str) -> str:
    start, end = bunch[0].start_ms, max(stretch.end_ms for stretch in bunch)
    left, right = scale.x(start), scale.x(end)
    tip = f"{what}\n{wording.span(start, end)}" + (f", {len(bunch)} times" if len(bunch) > 1 else "")
    top = 4 if cls == "gap" else 1
    label = f"{what} {wording.lasting(end - start)}" if cls == "gap" else ""
    drawn = bar(left, right, top, height - 2 * top, cls=cls, tip=tip, label=label)
    if right - left >= 12:
        return drawn
    if cls == "overlap":
        drawn += f'<path class="alarm" d="M{px(left + 1)},{height - 10}l6,10h-12z"/>'
    else:
        drawn += f'<path class="void" d="M{px((left + right) / 2)},{height - 5}l4,5h-8z"/>'
    return drawn
