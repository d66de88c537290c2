"""Sequence diagrams as Mermaid, PlantUML, and SVG, deterministic.

A diagram is lanes from left to right and arrows from top to bottom. An arrow from a lane to itself is a note on that
lane about an action or state. The module is independent of the meaning of lanes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from textwrap import wrap
from typing import NamedTuple

from fsm.render.wording import markup, plain


class Look(Enum):
    """The kind of an arrow, which decides how it is drawn."""

    CALL = "somebody asks or tells something"
    TAKE = "something is taken out of a queue"
    NOTE = "something happens in a lane"
    STATE = "a lane is in another state from here on"
    DELAY = "what goes from one lane to another is held up on its way"
    RAISE = "something ends with an error; what goes from one lane to another does not arrive"

    __hash__ = object.__hash__


class Arrow(NamedTuple):
    """One line of the diagram."""

    source: str
    target: str
    """Equal to `source` for a note."""
    text: str
    look: Look = Look.CALL


class Part(NamedTuple):
    """Arrows under a headline."""

    title: str
    arrows: tuple[Arrow, ...]


class Diagram(NamedTuple):
    """A whole picture."""

    title: str
    lanes: tuple[str, ...]
    parts: tuple[Part, ...]
    queues: frozenset[str] = frozenset()
    """Lanes that are queues."""


# Mermaid

_OTHER = re.compile(r"[^A-Za-z0-9_ ,.()/+=\[\]:>-]")


def mermaid(diagram: Diagram) -> str:
    """The diagram as a `sequenceDiagram`. Characters with a meaning in Mermaid are escaped as codes."""
    names = {lane: f"L{number}" for number, lane in enumerate(diagram.lanes)}
    lines = ["---", f"title: {_quote(diagram.title)}", "---", "sequenceDiagram"]
    lines += [f"    participant {names[lane]} as {_encode(lane)}" for lane in diagram.lanes]
    everyone = f"{names[diagram.lanes[0]]},{names[diagram.lanes[-1]]}"
    for part in diagram.parts:
        if part.title:
            lines.append(f"    Note over {everyone}: {_encode(part.title)}")
        lines += [f"    {_mermaid_line(arrow, names)}" for arrow in part.arrows]
    return "\n".join([*lines, ""])


def _mermaid_line(arrow: Arrow, names: dict[str, str]) -> str:
    if arrow.source == arrow.target:
        state = "state " if arrow.look is Look.STATE else ""
        return f"Note over {names[arrow.source]}: {state}{_encode(arrow.text)}"
    line = {Look.TAKE: "-->>", Look.DELAY: "--)", Look.RAISE: "-x"}.get(arrow.look, "->>")
    return f"{names[arrow.source]}{line}{names[arrow.target]}: {_encode(arrow.text)}"


def _encode(text: str) -> str:
    return _OTHER.sub(lambda m: f"#{ord(m[0])};", plain(text))


def _quote(text: str) -> str:
    escaped = plain(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# PlantUML, in the form of Kafka's design notes

_MARKUP = re.compile(r"[^A-Za-z0-9_ ,.()/:;'+=\[\]-]|(?<=([_./=\[-]))\1|^['=]")
_COLOURS = {Look.STATE: " #D9F2E3", Look.RAISE: " #FDE4E4"}


def plantuml(diagram: Diagram) -> str:
    """The diagram as PlantUML text."""
    names = {lane: f"L{number}" for number, lane in enumerate(diagram.lanes)}
    lines = ["@startuml", "hide footbox", "skinparam maxMessageSize 220", f"title {_escape(diagram.title)}", ""]
    kinds = {lane: "queue" if lane in diagram.queues else "participant" for lane in diagram.lanes}
    lines += [f'{kinds[lane]} "{_escape(lane)}" as {names[lane]}' for lane in diagram.lanes]
    for part in diagram.parts:
        lines += ["", f"== {_break_lines(part.title, 90)} =="] if part.title else [""]
        lines += [_plantuml_line(arrow, names) for arrow in part.arrows]
    return "\n".join([*lines, "@enduml", ""])


def _plantuml_line(arrow: Arrow, names: dict[str, str]) -> str:
    if arrow.source == arrow.target:
        kind = "hnote" if arrow.look is Look.STATE else "note"
        return f"{kind} over {names[arrow.source]}{_COLOURS.get(arrow.look, '')}: {_break_lines(arrow.text, ROOM)}"
    line = {Look.TAKE: "-->", Look.DELAY: "-->o", Look.RAISE: "->x"}.get(arrow.look, "->")
    return f"{names[arrow.source]} {line} {names[arrow.target]}: {_escape(arrow.text)}"


def _escape(text: str) -> str:
    return _MARKUP.sub(lambda m: f"<U+{ord(m[0]):04X}>", plain(text))


def _break_lines(text: str, room: int) -> str:
    return r"\n".join(map(_escape, _wrap(text, room)))


# SVG

PITCH, MARGIN, TOP = 218, 116, 64
CHARACTER, BOLD, LINE = 5.9, 7.6, 13
"""The width of a letter, of a bold capital, and the height of a line of small print, in pixels."""
ROOM = 35
"""The distance of two neighbouring lanes, in letters."""

STYLE = """
text{font:11px Helvetica,Arial,sans-serif;fill:#1f2933}
.title{font-size:15px;font-weight:bold}
.lane{font-size:12px;font-weight:bold;text-anchor:middle}
.head{fill:#e8eef6;stroke:#52606d}
.queue{fill:#fdf3dc;stroke:#52606d}
.life{stroke:#9aa5b1;stroke-dasharray:3,3}
.part{fill:#f3f5f8}
.part-text{font-weight:bold;fill:#52606d}
.arrow{stroke:#1f2933;stroke-width:1.2;fill:none}
.take{stroke-dasharray:5,3}
.lost{stroke:#d64545;stroke-width:1.2;stroke-dasharray:2,3}
.cross{stroke:#d64545;stroke-width:1.8;fill:none}
.held{stroke:#b7791f;stroke-width:1.2;stroke-dasharray:2,3}
.dot{stroke:#b7791f;stroke-width:1.8;fill:#fff}
.told{text-anchor:middle;paint-order:stroke;stroke:#fff;stroke-width:3px}
.note{fill:#fff;stroke:#9aa5b1}
.state{fill:#d9f2e3;stroke:#2f855a}
.raise{fill:#fde4e4;stroke:#d64545}
.in{text-anchor:middle}
.bold{font-weight:bold}
""".replace("\n", "")


TIP = (
    '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0,0L8,4L0,8z" fill="#1f2933"/></marker>'
)


def svg(diagram: Diagram) -> str:
    """The diagram as SVG text: no program and no font metrics are needed, so the bytes are the same everywhere."""
    x = {lane: MARGIN + PITCH * number for number, lane in enumerate(diagram.lanes)}
    width = 2 * MARGIN + PITCH * (len(diagram.lanes) - 1)
    y = TOP + 44
    body: list[str] = []
    for part in diagram.parts:
        y = _draw_part(part, x, width, y, body)
    height = y + 16
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<title>{markup(diagram.title)}</title>",
        f"<style>{STYLE}</style><defs>{TIP}</defs>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text class="title" x="16" y="28">{markup(diagram.title)}</text>',
    ]
    return "\n".join([*head, *_lanes(diagram, x, height), *body, "</svg>", ""])


def _lanes(diagram: Diagram, x: dict[str, int], height: int) -> Iterator[str]:
    for lane in diagram.lanes:
        yield f'<path class="life" d="M{x[lane]},{TOP + 28}V{height - 12}"/>'
    for lane in diagram.lanes:
        cls = "queue" if lane in diagram.queues else "head"
        yield f'<rect class="{cls}" x="{x[lane] - 92}" y="{TOP - 20}" width="184" height="30" rx="4"/>'
        if lane in diagram.queues:  # entries in a row
            bars = "".join(f"M{x[lane] + 70 + 6 * n},{TOP - 20}v30" for n in range(3))
            yield f'<path class="arrow" d="{bars}"/>'
        left = x[lane] - (12 if lane in diagram.queues else 0)
        yield f'<text class="lane" x="{left}" y="{TOP}">{markup(lane)}</text>'


def _draw_part(part: Part, x: dict[str, int], width: int, y: int, body: list[str]) -> int:
    """Draws a part from `y` on; returns the beginning of the next one."""
    if part.title:
        lines = wrap(part.title, width // 6)
        body.append(f'<rect class="part" x="8" y="{y - 14}" width="{width - 16}" height="{LINE * len(lines) + 7}"/>')
        body.extend(_text("part-text", 16, y + LINE * n, line) for n, line in enumerate(lines))
        y += LINE * len(lines) + 12
    for arrow in part.arrows:
        y = _note(arrow, x, y, body) if arrow.source == arrow.target else _arrow(arrow, x, y, body)
    return y + 12


def _arrow(arrow: Arrow, x: dict[str, int], y: int, body: list[str]) -> int:
    left, right = sorted((x[arrow.source], x[arrow.target]))
    lines = _wrap(arrow.text, ROOM * (right - left) // PITCH)
    body.extend(_text("told", (left + right) / 2, y + LINE * n, line) for n, line in enumerate(lines))
    y += LINE * len(lines) - 6
    start, end = x[arrow.source], x[arrow.target]
    if arrow.look in (Look.RAISE, Look.DELAY):  # it ends halfway, with a cross or a circle
        end = start + (end - start) * 3 // 4
        body.append(f'<path class="{"lost" if arrow.look is Look.RAISE else "held"}" d="M{start},{y}H{end}"/>')
        if arrow.look is Look.RAISE:
            body.append(f'<path class="cross" d="M{end - 4},{y - 4}l8,8m0,-8l-8,8"/>')
        else:
            body.append(f'<circle class="dot" cx="{end}" cy="{y}" r="4"/>')
    else:
        cls = "arrow take" if arrow.look is Look.TAKE else "arrow"
        body.append(f'<path class="{cls}" marker-end="url(#tip)" d="M{start},{y}H{end}"/>')
    return y + 20


def _note(arrow: Arrow, x: dict[str, int], y: int, body: list[str]) -> int:
    cls = {Look.STATE: "state", Look.RAISE: "raise"}.get(arrow.look, "note")
    letter = BOLD if arrow.look is Look.STATE else CHARACTER
    lines = _wrap(arrow.text, int(ROOM * CHARACTER / letter))
    wide = max(44, max(len(line) for line in lines) * letter + 18)
    high = LINE * len(lines) + 7
    rounded = 9 if arrow.look is Look.STATE else 3
    at = f'x="{x[arrow.source] - wide / 2:.1f}" y="{y - 12}" width="{wide:.1f}" height="{high}" rx="{rounded}"'
    body.append(f'<rect class="{cls}" {at}/>')
    style = "in bold" if arrow.look is Look.STATE else "in"
    body.extend(_text(style, x[arrow.source], y + 1 + LINE * n, line) for n, line in enumerate(lines))
    return y + high + 10


def _text(cls: str, x: float, y: float, text: str) -> str:
    return f'<text class="{cls}" x="{x:g}" y="{y:g}">{markup(text)}</text>'


def _wrap(text: str, room: int) -> list[str]:
    """Lines of at most `room` letters; a long word breaks after its bracket, or else within its camel case."""
    lines = [""]
    for word in plain(text).split():
        for number, piece in enumerate(_pieces(word, room)):
            gap = " " if number == 0 and lines[-1] else ""
            if len(lines[-1]) + len(gap) + len(piece) <= room:
                lines[-1] += gap + piece
            else:
                lines.append(piece)
    return lines


def _pieces(word: str, room: int) -> list[str]:
    if len(word) <= room // 2:
        return [word]
    parts = re.findall(r"[^(]+\(?|\(", word)
    return [piece for part in parts for piece in ([part] if len(part) <= room else _humps(part, room))]


def _humps(word: str, room: int) -> list[str]:
    """Splits a camel-case word near the middle, repeatedly if needed."""
    humps = [m.start() for m in re.finditer(r"(?<=[a-z0-9_])[A-Z]|(?<=_)[a-z]", word)] or [len(word) // 2]
    if len(word) <= room:
        return [word]
    at = min(humps, key=lambda h: abs(h - len(word) // 2))
    return _humps(word[:at], room) + _humps(word[at:], room)
