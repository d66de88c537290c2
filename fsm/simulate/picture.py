"""A picture of a run: its measures over time, its faults and violations. Same run, same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files

from fsm.render.wording import markup
from fsm.simulate.outcome import NAMES, Outcome, name_all, show
from fsm.simulate.reading import read
from fsm.simulate.run import simulate
from fsm.simulate.values import show_ms
from fsm.simulate.variants import vary

WIDTH, LEFT, RIGHT, TOP, HEIGHT, GAP = 960, 60, 16, 54, 74, 34
"""In pixels: the picture, its margins, a measure's chart, and what is between two."""
DRAWN = ("unowned_ms", "shared_ms", "moves", "rebalances", "heartbeats")
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2")
MARKS = {
    "crash": "#e45756", "restart": "#54a24b", "pause": "#b279a2", "slow": "#9d755d", "cut": "#f58518",
    "lose": "#f58518", "fail_over": "#4c78a8", "upgrade": "#4c78a8", "clock_back": "#4c78a8", "grow": "#72b7b2",
    "stop": "#54a24b", "begin": "#54a24b", "event": "#72b7b2",
}  # fmt: skip
STYLE = (
    "text{font:11px Helvetica,Arial,sans-serif;fill:#1f2933}.title{font-size:15px;font-weight:bold}"
    ".head{font-weight:bold;fill:#52606d}.end{text-anchor:end}.mid{text-anchor:middle}.axis{stroke:#9aa5b1}"
    ".violated{stroke:#d64545;stroke-width:1.5}"
)


PICTURES = ("simulated-upgrade",)
"""Shipped pictures: the cost of `upgrade.yaml` in this directory under either protocol."""
SIDES = ("protocol=classic", "protocol=consumer")


def shipped_pictures() -> Iterator[tuple[str, bytes]]:
    """(file name, content) of each."""
    text = files("fsm.simulate").joinpath("upgrade.yaml").read_text(encoding="utf-8")
    deployment = read(text, "upgrade.yaml")
    runs = [simulate(vary(deployment, side), deployment.seed) for side in SIDES]
    yield f"{PICTURES[0]}.svg", draw(runs, SIDES).encode()


def draw(outcomes: Sequence[Outcome], names: Sequence[str] = ()) -> str:
    """Runs of equal length as SVG, overlaid; `names` label them."""
    return "\n".join(_draw(outcomes, names)) + "\n"


def _draw(outcomes: Sequence[Outcome], names: Sequence[str]) -> Iterator[str]:
    first = outcomes[0]
    drawn = _list_charts(outcomes)
    height = TOP + (HEIGHT + GAP) * len(drawn) + 30
    yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">'
    yield f"<style>{STYLE}</style>"
    yield f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
    title = f"{first.deployment}: {show_ms(first.lasts_ms)}, seed {first.seed}"
    yield f'<text class="title" x="{LEFT}" y="22">{markup(title)}</text>'
    yield from _legend(outcomes, names)
    for row, (name, words) in enumerate(drawn.items()):
        yield from _chart(outcomes, name, words, TOP + (HEIGHT + GAP) * row + GAP)
    yield from _axis(first, height - 14)
    yield "</svg>"


def _list_charts(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """The measures that have a chart, in words."""
    known = dict.fromkeys(name for outcome in outcomes for group in outcome.groups for name in group.series)
    return {name: words for name, words in name_all(known).items() if name in DRAWN or name not in NAMES}


def _legend(outcomes: Sequence[Outcome], names: Sequence[str]) -> Iterator[str]:
    x = LEFT
    for i, name in enumerate(names):
        yield f'<rect x="{x}" y="32" width="10" height="10" fill="{COLOURS[i]}"/>'
        yield f'<text x="{x + 14}" y="41">{markup(name)}</text>'
        x += 30 + 7 * len(name)
    for what in sorted({deed.what for deed in outcomes[0].deeds}):
        yield f'<path d="M{x} 32h10l-5 9z" fill="{MARKS[what]}"/>'
        yield f'<text x="{x + 14}" y="41">{what.replace("_", " ")}</text>'
        x += 30 + 7 * len(what)
    if any(outcome.violations for outcome in outcomes):
        yield f'<path class="violated" d="M{x + 5} 32v10"/>'
        yield f'<text x="{x + 14}" y="41">violated</text>'


def _chart(outcomes: Sequence[Outcome], name: str, words: str, top: int) -> Iterator[str]:
    """One measure as steps, with the faults above it and the violations across it."""
    width = WIDTH - LEFT - RIGHT
    series = [[group.series[name] for group in o.groups if name in group.series] or [[0]] for o in outcomes]
    rows = [[sum(parts) for parts in zip(*values, strict=True)] for values in series]
    most = max([1, *(value for row in rows for value in row)])
    yield f'<text class="head" x="{LEFT}" y="{top - 9}">{markup(words)}, in each {show_ms(outcomes[0].width_ms)}</text>'
    yield f'<text class="end" x="{LEFT - 6}" y="{top + 9}">{show(name, most)}</text>'
    yield f'<text class="end" x="{LEFT - 6}" y="{top + HEIGHT}">0</text>'
    for deed in outcomes[0].deeds:
        x = LEFT + width * deed.at_ms / outcomes[0].lasts_ms
        yield f'<path d="M{x - 3:.1f} {top - 4}h6l-3 5z" fill="{MARKS[deed.what]}"/>'
    for i, row in enumerate(rows):
        step = width / len(row)
        points = [f"M{LEFT} {top + HEIGHT}"]
        for k, value in enumerate(row):
            points.append(f"V{top + HEIGHT - HEIGHT * value / most:.1f}H{LEFT + step * (k + 1):.1f}")
        path = "".join(points) + f"V{top + HEIGHT}z"
        yield f'<path d="{path}" fill="{COLOURS[i]}" fill-opacity="0.45" stroke="{COLOURS[i]}"/>'
    for at_ms in sorted({violation.at_ms for outcome in outcomes for _, violation in outcome.violations}):
        x = LEFT + width * at_ms / outcomes[0].lasts_ms
        yield f'<path class="violated" d="M{x:.1f} {top}v{HEIGHT}"/>'
    yield f'<path class="axis" d="M{LEFT} {top + HEIGHT}h{width}"/>'


def _axis(outcome: Outcome, y: int) -> Iterator[str]:
    width = WIDTH - LEFT - RIGHT
    for part in range(7):
        x = LEFT + width * part / 6
        place = "end" if part == 6 else "mid"
        yield f'<text class="{place}" x="{x:.1f}" y="{y}">{show_ms(outcome.lasts_ms * part // 6)}</text>'
