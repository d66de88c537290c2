"""Ownership over time as SVG: units on the workers of a Connect cluster, partitions of the consumers of a group.

At the top are the rounds, each with its generation, its leader and the delay it announced; then a row for each worker,
then one for each unit. A bar is a process, or a unit that runs on a worker, in that worker's shade; two workers with a
unit at once share its row, in a red frame if that lasts. A hatched background is a scheduled delay: units of the lost
worker are dark there. Long quiet stretches are shortened and labelled with their length. Same picture, same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from fsm.render.timeline.scale import Scale, scale
from fsm.render.wording import markup, utc

WIDTH, MARGIN, LETTER, ROW = 960, 16, 5.9, 24
"""Sizes in pixels: the axis, the outer margin, a letter in small print, a lane."""
LEGEND, FLAG, MOST_FLAGS = 44, 15, 5
"""The position of the legend, the height of a row of flags, the maximum number of these rows."""
THINNEST = 2.5
"""The minimum distance of two lines in pixels."""
TO_SCALE_MS = 600_000
"""The length of a picture up to which no stretch is shortened: ten minutes."""
TWICE_MS = 100
"""Two owners at once are marked if that lasts longer: the audit's tolerance, unless it is given another one."""
TWICE = "two owners at once"
WAITS = "scheduled delay: lost work waits"
SHADES = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#bab0ac")

STYLE = """
text{font:11px Helvetica,Arial,sans-serif;fill:#1f2933}
.title{font-size:15px;font-weight:bold}
.head{font-weight:bold;fill:#52606d}
.in{fill:#fff;font-weight:bold}
.mid{text-anchor:middle}
.delay{font-weight:bold;fill:#8a6116;text-anchor:middle;paint-order:stroke;stroke:#fff;stroke-width:3px}
.flag{paint-order:stroke;stroke:#fff;stroke-width:3px}
.quiet{fill:#fff;fill-opacity:.75}
.floor{stroke:#e4e7eb}
.tick{stroke:#52606d}
.round{stroke:#52606d;stroke-dasharray:3,3}
.twice{fill:#e3001f;fill-opacity:.15;stroke:#e3001f;stroke-width:1.5}
.leads{fill:#1f2933;stroke:#fff}
""".replace("\n", "")
HATCH = (
    '<pattern id="delay" width="7" height="7" patternTransform="rotate(45)" patternUnits="userSpaceOnUse">'
    '<rect width="7" height="7" fill="#fdf3dc"/><rect width="2.5" height="7" fill="#ecc97f"/></pattern>'
)


class Partition(NamedTuple):
    """A partition as the label of a row."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


class Bar(NamedTuple):
    """A time of ownership: a unit that ran on a worker, a partition that a consumer used."""

    unit: Any
    """Printed by its name, and sorted by its value."""
    worker: str
    start_ms: int
    end_ms: int


class Stay(NamedTuple):
    """The life of a process."""

    worker: str
    start_ms: int
    end_ms: int


class Delay(NamedTuple):
    """A time in which lost work waited."""

    start_ms: int
    end_ms: int


class Mark(NamedTuple):
    """A round, or a new epoch of a group."""

    at_ms: int
    generation: int
    leader: str = ""
    """Empty without a leader."""
    delay_ms: int = 0
    word: str = "generation"
    """The name of the number."""

    @property
    def text(self) -> str:
        """The text of its flag."""
        delay = f", delay {seconds(self.delay_ms)}" if self.delay_ms else ""
        return f"{self.word} {self.generation}" + (f": {self.leader} leads{delay}" if self.leader else "")


class Picture(NamedTuple):
    """The content of a picture."""

    start_ms: int
    end_ms: int
    bars: tuple[Bar, ...]
    delays: tuple[Delay, ...] = ()
    marks: tuple[Mark, ...] = ()
    stays: tuple[Stay, ...] = ()
    workers_head: str = "Workers"
    units_head: str = "Units"

    def close_up(self, margin_ms: int) -> Picture:
        """The time around its delays; the whole picture without any."""
        if not self.delays:
            return self
        start_ms = max(self.start_ms, self.delays[0].start_ms - margin_ms)
        end_ms = min(self.end_ms, self.delays[-1].end_ms + margin_ms)
        return self._replace(start_ms=start_ms, end_ms=end_ms)

    @property
    def workers(self) -> list[str]:
        """All workers, in the order of their rows."""
        ran = {bar.worker for bar in self.bars if self.shows(bar.start_ms, bar.end_ms)}
        return sorted(ran | {stay.worker for stay in self.stays if self.shows(stay.start_ms, stay.end_ms)})

    @property
    def units(self) -> list[Any]:
        """All units that ran during the picture, in the order of their rows."""
        return sorted({bar.unit for bar in self.bars if self.shows(bar.start_ms, bar.end_ms)})

    def shows(self, start_ms: int, end_ms: int) -> bool:
        """Whether part of this time is visible."""
        return end_ms >= self.start_ms and start_ms <= self.end_ms


def picture(bars: Iterable[Bar], stays: Iterable[Stay], marks: Iterable[Mark], **more: Any) -> Picture:
    """The picture of this content, from its first instant to its last; `more` are its other fields."""
    bars, stays, marks = tuple(sorted(bars)), tuple(sorted(stays)), tuple(marks)
    instants = [mark.at_ms for mark in marks]
    instants += [at_ms for bar in bars for at_ms in (bar.start_ms, bar.end_ms)]
    instants += [at_ms for stay in stays for at_ms in (stay.start_ms, stay.end_ms)]
    end_ms = max(instants, default=0)
    waits = delays(((mark.at_ms, mark.delay_ms) for mark in marks), end_ms)
    return Picture(min(instants, default=0), end_ms, bars, waits, marks, stays, **more)


def delays(rounds: Iterable[tuple[int, int]], end_ms: int) -> tuple[Delay, ...]:
    """The times in which a delay ran, from rounds as (instant, announced delay), in order.

    A delay begins with the first round that announces it and ends with the first that does not, or else at `end_ms`.
    """
    found, begun = [], None
    for at_ms, delay_ms in rounds:
        if delay_ms > 0 and begun is None:
            begun = at_ms
        elif delay_ms == 0 and begun is not None:
            found.append(Delay(begun, at_ms))
            begun = None
    return (*found, *([] if begun is None else [Delay(begun, end_ms)]))


def seconds(ms: int, step_ms: int = 100) -> str:
    """The text of a duration, with enough decimals to distinguish times `step_ms` apart."""
    digits = 1 if step_ms >= 100 else 2 if step_ms >= 10 else 3
    return f"{ms / 1000:.{digits}f} s".replace(".0 s", " s")


def svg(picture: Picture, title: str, *, dated: bool = False) -> str:
    """The picture as an SVG document. `dated`: its instants are real ones, and that of its begin stands at the axis."""
    sheet = _Sheet(picture)
    if dated:
        sheet.height += 18
    size = f'width="{sheet.width}" height="{sheet.height}" viewBox="0 0 {sheet.width} {sheet.height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        f"<title>{markup(title)}</title><style>{STYLE}</style><defs>{HATCH}</defs>",
        f'<rect width="{sheet.width}" height="{sheet.height}" fill="#fff"/>',
        f'<text class="title" x="{MARGIN}" y="24">{markup(title)}</text>',
        *_legend(sheet),
        *_delays(sheet),
        *_rounds(sheet),
        *_delay_texts(sheet),
        *_workers(sheet),
        *_units(sheet),
        *_draw_breaks(sheet),
        *_axis(sheet),
        *(
            [f'<text x="{sheet.left}" y="{sheet.bottom + 34}">0 s is {utc(picture.start_ms)} UTC</text>']
            if dated
            else []
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


class _Sheet:
    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self.axis = scale(_instants(picture), 0, picture.end_ms - picture.start_ms, WIDTH)
        """From the beginning of the picture."""
        names = [*picture.workers, *map(str, picture.units), picture.workers_head]
        self.left = MARGIN + round(LETTER * max(map(len, names))) + 12
        self.flags = _flags(picture, self.axis)
        rows = max((row for row, _, _ in self.flags), default=-1) + 1
        self.top = LEGEND + 24 + FLAG * rows
        self.unit_top = self.top + ROW * len(picture.workers) + 30
        self.bottom = self.unit_top + ROW * len(picture.units) + 4
        self.twice = {unit: list(_find_twice(picture, unit)) for unit in picture.units}
        """Unit -> the times in which it has two owners."""
        self.width = self.left + round(self.axis.width) + 3 * MARGIN
        self.height = self.bottom + 34

    def x(self, at_ms: int) -> float:
        return self.left + self.axis.x(at_ms - self.picture.start_ms)

    def shade(self, worker: str) -> str:
        return SHADES[self.picture.workers.index(worker) % len(SHADES)]


def _instants(picture: Picture) -> Iterator[int]:
    lasts_ms = picture.end_ms - picture.start_ms
    if lasts_ms <= TO_SCALE_MS:
        yield from range(0, lasts_ms, 5_000)
    spans = [(bar.start_ms, bar.end_ms) for bar in picture.bars]
    spans += [(stay.start_ms, stay.end_ms) for stay in picture.stays]
    for span in (*spans, *picture.delays):
        yield from (at_ms - picture.start_ms for at_ms in span)
    yield from (mark.at_ms - picture.start_ms for mark in picture.marks)


def _flags(picture: Picture, axis: Scale) -> list[tuple[int, float, Mark]]:
    """(row, position, round): each flag in the first row with enough room; flags that fit nowhere are omitted."""
    ends: list[float] = []
    found = []
    for mark in picture.marks:
        if not picture.start_ms <= mark.at_ms <= picture.end_ms:
            continue
        wide = LETTER * len(mark.text) + 10
        left = axis.x(mark.at_ms - picture.start_ms)
        left -= wide if left + wide > axis.width + 2 * MARGIN else 0  # it is to the left of its line
        row = next((n for n, end in enumerate(ends) if end <= left), len(ends))
        if row < MOST_FLAGS:
            ends[row : row + 1] = [left + wide]
            found.append((row, left, mark))
    return found


def _legend(sheet: _Sheet) -> Iterator[str]:
    x = float(MARGIN)
    for worker in sheet.picture.workers:
        yield f'<rect x="{x:.1f}" y="{LEGEND - 10}" width="12" height="12" fill="{sheet.shade(worker)}"/>'
        yield f'<text x="{x + 17:.1f}" y="{LEGEND}">{markup(worker)}</text>'
        x += 17 + LETTER * len(worker) + 16
    if any(sheet.twice.values()):
        yield f'<rect class="twice" x="{x:.1f}" y="{LEGEND - 10}" width="24" height="12"/>'
        yield f'<text x="{x + 29:.1f}" y="{LEGEND}">{TWICE}</text>'
        x += 29 + LETTER * len(TWICE) + 16
    if not any(mark.leader for mark in sheet.picture.marks):
        return
    yield f'<rect x="{x:.1f}" y="{LEGEND - 10}" width="24" height="12" fill="url(#delay)" stroke="#ecc97f"/>'
    yield f'<text x="{x + 29:.1f}" y="{LEGEND}">{WAITS}</text>'
    x += 29 + 5.1 * len(WAITS) + 22
    yield _crown(x + 5, LEGEND - 4)
    yield f'<text x="{x + 15:.1f}" y="{LEGEND}">leads from here on</text>'


def _crown(x: float, y: float) -> str:
    return f'<path class="leads" d="M{x:.1f},{y - 5:.1f}l5,5l-5,5l-5,-5z"/>'


def _delays(sheet: _Sheet) -> Iterator[str]:
    for delay in sheet.picture.delays:
        if sheet.picture.shows(*delay):
            left, right = sheet.x(delay.start_ms), sheet.x(delay.end_ms)
            place = f'x="{left:.1f}" y="{sheet.top}" width="{right - left:.1f}" height="{sheet.bottom - sheet.top}"'
            yield f'<rect {place} fill="url(#delay)"><title>{_delay_text(delay)}</title></rect>'


def _delay_texts(sheet: _Sheet) -> Iterator[str]:
    for delay in sheet.picture.delays:
        left, right = sheet.x(delay.start_ms), sheet.x(delay.end_ms)
        if sheet.picture.shows(*delay) and right - left > LETTER * len(_delay_text(delay)):
            place = f'x="{(left + right) / 2:.1f}" y="{sheet.unit_top - 9}"'
            yield f'<text class="delay" {place}>{_delay_text(delay)}</text>'


def _delay_text(delay: Delay) -> str:
    return f"scheduled delay, {seconds(delay.end_ms - delay.start_ms)}"


def _rounds(sheet: _Sheet) -> Iterator[str]:
    """Lines first, so that no flag is crossed by one. Rounds too close to be told apart are one line."""
    rows = {mark: row for row, _, mark in sheet.flags}
    for bunch in _bunches(sheet):
        row = min((rows[mark] for mark in bunch if mark in rows), default=-1)
        top = LEGEND + 14 + FLAG * row if row >= 0 else sheet.top
        text = bunch[0].text if len(bunch) == 1 else f"{bunch[0].text}; {len(bunch) - 1} more rounds"
        x = sheet.x(bunch[0].at_ms)
        yield f'<path class="round" d="M{x:.1f},{top}V{sheet.bottom}"><title>{markup(text)}</title></path>'
    for row, left, mark in sheet.flags:
        place = f'x="{sheet.left + left + 4:.1f}" y="{LEGEND + 22 + FLAG * row}"'
        yield f'<text class="flag" {place}>{markup(mark.text)}</text>'


def _bunches(sheet: _Sheet) -> list[list[Mark]]:
    found: list[list[Mark]] = []
    for mark in (m for m in sheet.picture.marks if sheet.picture.shows(m.at_ms, m.at_ms)):
        if found and sheet.x(mark.at_ms) - sheet.x(found[-1][0].at_ms) < THINNEST:
            found[-1].append(mark)
        else:
            found.append([mark])
    return found


def _workers(sheet: _Sheet) -> Iterator[str]:
    yield f'<text class="head" x="{MARGIN}" y="{sheet.top - 6}">{markup(sheet.picture.workers_head)}</text>'
    led = _new_leaders(sheet.picture)
    for number, worker in enumerate(sheet.picture.workers):
        top = sheet.top + ROW * number
        yield from _lane(sheet, worker, top)
        for _, start_ms, end_ms in (s for s in sheet.picture.stays if s.worker == worker):
            yield from _draw_bar(sheet, (start_ms, end_ms), top, worker, f"{worker} is there")
        for mark in led:
            if mark.leader == worker:
                yield _crown(max(sheet.x(mark.at_ms), sheet.left + 5.0), top + ROW / 2)


def _new_leaders(picture: Picture) -> list[Mark]:
    """Visible rounds with a new leader, and the last round before them."""
    marks = [mark for mark in picture.marks if mark.at_ms <= picture.end_ms]
    led = [mark for n, mark in enumerate(marks) if not n or marks[n - 1].leader != mark.leader]
    before = [mark for mark in led if mark.at_ms < picture.start_ms]
    return [*before[-1:], *led[len(before) :]]


def _units(sheet: _Sheet) -> Iterator[str]:
    yield f'<text class="head" x="{MARGIN}" y="{sheet.unit_top - 9}">{markup(sheet.picture.units_head)}</text>'
    for number, unit in enumerate(sheet.picture.units):
        top = sheet.unit_top + ROW * number
        yield from _lane(sheet, str(unit), top)
        bars = sorted((b.start_ms, b.end_ms, b.worker) for b in sheet.picture.bars if b.unit == unit)
        shared = any(b[0] < a[1] for a, b in pairwise(bars))
        ends: list[int] = []
        for start_ms, end_ms, worker in bars:
            row = next((n for n, end in enumerate(ends) if end <= start_ms), len(ends))
            ends[row : row + 1] = [end_ms]
            half = row % 2 if shared else None
            yield from _draw_bar(sheet, (start_ms, end_ms), top, worker, f"{unit} on {worker}", half=half)
        for start_ms, end_ms in sheet.twice[unit]:
            left, right = sheet.x(start_ms), sheet.x(end_ms)
            place = f'x="{left:.1f}" y="{top + 1}" width="{max(THINNEST, right - left):.1f}" height="{ROW - 2}"'
            yield f'<rect class="twice" {place}><title>{TWICE}, {seconds(end_ms - start_ms)}</title></rect>'


def _find_twice(picture: Picture, unit: Any) -> Iterator[tuple[int, int]]:
    """The visible times longer than `TWICE_MS` in which two workers have the unit."""
    held = Bar(unit, "", 0, 0)
    for bar in sorted(
        (bar for bar in picture.bars if bar.unit == unit), key=lambda b: (b.start_ms, b.end_ms, b.worker)
    ):
        until_ms = min(bar.end_ms, held.end_ms)
        if until_ms - bar.start_ms > TWICE_MS and bar.worker != held.worker and picture.shows(bar.start_ms, until_ms):
            yield bar.start_ms, until_ms
        held = max(held, bar, key=lambda b: b.end_ms)


def _lane(sheet: _Sheet, name: str, top: int) -> Iterator[str]:
    yield f'<path class="floor" d="M{sheet.left},{top + ROW}h{sheet.axis.width:.1f}"/>'
    yield f'<text x="{MARGIN}" y="{top + 16}">{markup(name)}</text>'


def _draw_bar(
    sheet: _Sheet, span: tuple[int, int], top: int, worker: str, tip: str, *, half: int | None = None
) -> Iterator[str]:
    """A bar; in the upper or lower half of its row if others have the unit at the same time."""
    if not sheet.picture.shows(*span):
        return
    left, right = map(sheet.x, span)
    wide = max(1.5, right - left)
    y, high = (top + 4, ROW - 8) if half is None else (top + 3 + (ROW - 6) // 2 * half, (ROW - 6) // 2)
    place = f'x="{left:.1f}" y="{y}" width="{wide:.1f}" height="{high}" rx="2"'
    title = f"<title>{markup(tip)}</title>"
    yield f'<rect {place} fill="{sheet.shade(worker)}" fill-opacity=".92">{title}</rect>'
    if half is None and wide > 7.5 * len(worker) + 24:
        yield f'<text class="in" x="{left + 16:.1f}" y="{top + 16}">{markup(worker)}</text>'


def _draw_breaks(sheet: _Sheet) -> Iterator[str]:
    """Shortened stretches: a veil over each, with its length below."""
    for piece in sheet.axis.pieces:
        if piece.quiet:
            left, wide = sheet.left + piece.left, piece.right - piece.left
            high = sheet.bottom - sheet.top
            yield f'<rect class="quiet" x="{left:.1f}" y="{sheet.top}" width="{wide:.1f}" height="{high}"/>'
            lasts = seconds(piece.end_ms - piece.start_ms)
            yield f'<text class="mid" x="{left + wide / 2:.1f}" y="{sheet.bottom + 16}">… {lasts} …</text>'


def _axis(sheet: _Sheet) -> Iterator[str]:
    yield f'<path class="tick" d="M{sheet.left},{sheet.bottom}h{sheet.axis.width:.1f}"/>'
    for tick in sheet.axis.ticks():
        x = sheet.left + tick.x
        yield f'<path class="tick" d="M{x:.1f},{sheet.bottom}v5"/>'
        yield f'<text class="mid" x="{x:.1f}" y="{sheet.bottom + 16}">{seconds(tick.ts_ms, tick.step_ms)}</text>'
