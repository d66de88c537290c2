"""A cluster over time as one picture: where every unit ran, when rounds were, while which delays.

`svg` draws a `Picture`; `of_cluster` makes one of a simulated cluster, `fsm.audit.connect_picture` of recorded logs.
A row stands for a unit, a bar for a process that ran it, in that worker's shade; the hatched ground is a scheduled
delay, a thin line a round. Same picture, same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import NamedTuple

from fsm.connect.cluster import Cluster
from fsm.connect.units import Unit

ROW, TOP, LEFT, WIDTH = 22, 58, 90, 960
SHADES = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#bab0ac")

HATCH = (
    '<defs><pattern id="delay" width="6" height="6" patternTransform="rotate(45)" patternUnits="userSpaceOnUse">'
    '<rect width="2" height="6" fill="#e0c080"/></pattern></defs>'
)


class Bar(NamedTuple):
    """A unit that ran on a worker."""

    unit: Unit
    worker: str
    start_ms: int
    end_ms: int


class Delay(NamedTuple):
    """A time in which lost work waited."""

    start_ms: int
    end_ms: int


class Mark(NamedTuple):
    """A round, or a process that came or went."""

    at_ms: int
    text: str


class Picture(NamedTuple):
    """What is drawn."""

    start_ms: int
    end_ms: int
    bars: tuple[Bar, ...]
    delays: tuple[Delay, ...] = ()
    marks: tuple[Mark, ...] = ()


def of_cluster(cluster: Cluster, start_ms: int = 0) -> Picture:
    """A simulated cluster from an instant on."""
    now_ms = cluster.now_ms
    bars = [Bar(r.unit, r.worker, r.start_ms, now_ms if r.end_ms is None else r.end_ms) for r in cluster.ran]
    rounds = [r for r in cluster.rounds if r.now_ms >= start_ms]
    return Picture(
        start_ms,
        now_ms,
        tuple(sorted(bar for bar in bars if bar.end_ms >= start_ms)),
        delays((r.now_ms, r.delay_ms) for r in rounds),
        tuple(Mark(r.now_ms, f"round {r.generation}, {r.leader} leads") for r in rounds),
    )


def delays(rounds: Iterable[tuple[int, int]]) -> tuple[Delay, ...]:
    """The stretches of time in which a delay ran, from rounds as (instant, delay announced), in their order.

    A delay begins with the first round that announces it and ends with the first that does not.
    """
    found, begun = [], None
    for at_ms, delay_ms in rounds:
        if delay_ms > 0 and begun is None:
            begun = at_ms
        elif delay_ms == 0 and begun is not None:
            found.append(Delay(begun, at_ms))
            begun = None
    return tuple(found)


def svg(picture: Picture, title: str) -> str:
    """The picture as a document of its own."""
    units = sorted({bar.unit for bar in picture.bars})
    workers = sorted({bar.worker for bar in picture.bars})
    height = TOP + ROW * len(units) + 30
    size = f'width="{LEFT + WIDTH + 20}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        HATCH,
        f'<text x="8" y="18" font-size="14">{escape(title)}</text>',
        *_legend(workers),
        *(_delay(picture, each, height) for each in picture.delays),
        *(_mark(picture, mark, height) for mark in picture.marks),
        *_rows(picture, units, workers),
        *_axis(picture, height),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _x(picture: Picture, at_ms: int) -> float:
    span = max(1, picture.end_ms - picture.start_ms)
    within = min(max(at_ms, picture.start_ms), picture.end_ms)
    return LEFT + WIDTH * (within - picture.start_ms) / span


def _legend(workers: list[str]) -> Iterable[str]:
    for number, worker in enumerate(workers):
        x = LEFT + 150 * number
        yield f'<rect x="{x}" y="28" width="12" height="12" fill="{SHADES[number % len(SHADES)]}"/>'
        yield f'<text x="{x + 17}" y="38">{escape(worker)}</text>'


def _delay(picture: Picture, delay: Delay, height: int) -> str:
    left, right = _x(picture, delay.start_ms), _x(picture, delay.end_ms)
    lasted = (delay.end_ms - delay.start_ms) / 1000
    return (
        f'<rect x="{left:.1f}" y="{TOP - 6}" width="{right - left:.1f}" height="{height - TOP - 18}" '
        f'fill="url(#delay)"><title>scheduled delay, {lasted:.1f} s</title></rect>'
    )


def _mark(picture: Picture, mark: Mark, height: int) -> str:
    x = _x(picture, mark.at_ms)
    return f'<path d="M{x:.1f},{TOP - 8}V{height - 24}" stroke="#888"><title>{escape(mark.text)}</title></path>'


def _rows(picture: Picture, units: list[Unit], workers: list[str]) -> Iterable[str]:
    for number, unit in enumerate(units):
        top = TOP + ROW * number
        yield f'<text x="8" y="{top + 13}">{escape(str(unit))}</text>'
        for bar in sorted(b for b in picture.bars if b.unit == unit):
            left, right = _x(picture, bar.start_ms), _x(picture, bar.end_ms)
            shade = SHADES[workers.index(bar.worker) % len(SHADES)]
            yield (
                f'<rect x="{left:.1f}" y="{top + 2}" width="{max(1.0, right - left):.1f}" height="{ROW - 7}" '
                f'fill="{shade}" fill-opacity=".85"><title>{escape(f"{unit} on {bar.worker}")}</title></rect>'
            )


def _axis(picture: Picture, height: int) -> Iterable[str]:
    for tenth in range(0, 11, 2):
        at_ms = picture.start_ms + (picture.end_ms - picture.start_ms) * tenth // 10
        x = _x(picture, at_ms)
        yield f'<path d="M{x:.1f},{height - 24}v5" stroke="#444"/>'
        yield f'<text x="{x - 12:.1f}" y="{height - 6}">{(at_ms - picture.start_ms) / 1000:.0f} s</text>'
