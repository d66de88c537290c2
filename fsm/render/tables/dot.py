"""DOT from a picture; the same table gives the same bytes, with nothing installed.

The drawing is read from top to bottom. An edge leaves a state in the middle of its lower side and arrives in the
middle of the upper side; an edge that goes back leaves in the middle of the right side and arrives at the lower right
corner. So no arrow ends where another begins. A loop leads to its label on the left and away from it on the right.
The label of an edge, and the title of a frame, is a node of its own: `dot` leads no line through a node.

Every node and edge has an `id` of the table's name and its states, by which `fsm.render.tables.svg` finds it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import log10

from fsm.render.tables.graph import (
    COLOURS,
    LIT,
    Cluster,
    Edge,
    Kind,
    Label,
    Node,
    Pair,
    Picture,
    identifiers,
    lines,
    where,
)
from fsm.render.wording import plain

WRAP = 38
"""Characters in a line of a label."""

INK, FAINT, LINE, MARK = "#1f2933", "#6b7785", "#52606d", "#d64545"
BORDERS = {Kind.INITIAL: "#2f9e62", Kind.RESTING: "#3d7cc9", Kind.PASSING: "#8a99a8", Kind.TERMINAL: "#3e4c59"}
FONT = "Helvetica"
RESERVED = frozenset(("node", "edge", "graph", "digraph", "subgraph", "strict", "start"))


def dot(picture: Picture) -> str:
    """The picture in DOT."""
    return _Drawing(picture).text()


def edge_ids(picture: Picture) -> dict[str, list[Pair]]:
    """The `id` of each edge in DOT and SVG -> its hops."""
    drawing = _Drawing(picture)
    return {drawing.edge_id(edge): list(edge.pairs) for edge in picture.edges}


class _Html(str):
    """A label in the markup of DOT."""

    __slots__ = ()


class _Drawing:
    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self.words = identifiers(picture, RESERVED)
        self.table = "".join(c if c.isascii() and c.isalnum() else "-" for c in picture.name)
        self.members = {cluster.name: cluster.members() for cluster in picture.all_clusters()}
        self.inside: dict[str, list[Edge]] = {}
        """Edges by the innermost frame around both of their ends; the empty name is for no frame."""
        for edge in picture.edges:
            self.inside.setdefault(self._frame_around(edge), []).append(edge)
        self.lines: list[str] = []
        self.depth = 0

    def text(self) -> str:
        self._open("digraph")
        self._add("graph", self._graph_attributes())
        box = {"shape": "box", "style": "rounded,filled", "fontname": FONT, "fontsize": "12", "margin": "0.14,0.08"}
        self._add("node", box)
        self._add("edge", {"color": LINE, "arrowsize": "0.8"})
        for node in self.picture.nodes:
            self._add_node(node)
        for cluster in self.picture.clusters:
            self._add_cluster(cluster)
        self._add_labels("")
        if self.picture.initial:
            self._add_start(self.words[self.picture.initial])
        for edge in self.picture.edges:
            self._add_edge(edge)
        self._close()
        return "".join(self.lines)

    def _add(self, what: str, attributes: Mapping[str, str]) -> None:
        values = (f"{key}={_value(value)}" for key, value in attributes.items())
        self.lines.append(f"{'  ' * self.depth}{what} [{' '.join(values)}]\n")

    def _open(self, what: str) -> None:
        self.lines.append(f"{'  ' * self.depth}{what} {{\n")
        self.depth += 1

    def _close(self) -> None:
        self.depth -= 1
        self.lines.append(f"{'  ' * self.depth}}}\n")

    def _same_rank(self, rank: str, *names: str) -> None:
        self.lines.append(f"{'  ' * self.depth}{{ rank={rank}; {'; '.join(names)} }}\n")

    def _frame_around(self, edge: Edge) -> str:
        ends = {state for state, _ in edge.pairs} | {edge.target}
        around = [c.name for c in self.picture.all_clusters() if c.name != edge.source and ends <= {*c.members()}]
        return min(around, key=lambda name: len(self.members[name]), default="")

    def _graph_attributes(self) -> dict[str, str]:
        return {
            "id": self.table,
            "label": _heading(self.picture),
            "labelloc": "t",
            "fontname": FONT,
            "fontsize": "11",
            "fontcolor": INK,
            "compound": "true",
            "newrank": "true",
            "rankdir": "TB",
            "nodesep": "0.3",
            "ranksep": "0.25",
            "pad": "0.3",
            "bgcolor": "white",
            "tooltip": _escape([self.picture.title]),
        }

    def _add_node(self, node: Node) -> None:
        word, lit = self.words[node.name], node.name == self.picture.lit
        attributes = {
            "label": _Html(f"<B>{_html(node.name)}</B><BR/>{self._lists(node.stays, node.ignored)}"),
            "id": f"{self.table}.{word}",
            "fillcolor": LIT if lit else COLOURS[node.kind],
            "color": MARK if lit else BORDERS[node.kind],
            "fontcolor": INK,
            "tooltip": _tooltip([f"{node.name}: {node.meaning}"], node.stays, node.ignored),
        }
        if node.kind is Kind.TERMINAL:
            attributes["peripheries"] = "2"
        if node.kind is Kind.PASSING:
            attributes["style"] = "rounded,filled,dashed"
        if lit:
            attributes["penwidth"] = "3"
        self._add(word, attributes)

    def _lists(self, stays: Sequence[Label], ignored: Sequence[Label]) -> str:
        texts = list(lines(stays, effects=self.picture.effects))
        if ignored:
            texts.append(plain(f"ignores {', '.join(event for label in ignored for event in label.events)}"))
        return "".join(_small(line) for text in texts for line in _wrap(text))

    def _add_cluster(self, cluster: Cluster) -> None:
        """A frame; its title is next to its first state."""
        word = self.words[cluster.name]
        meaning = f"{cluster.name}: {cluster.meaning}" if cluster.holder else cluster.name
        title = f'<B>{_html(cluster.name)}</B><BR ALIGN="LEFT"/>' if cluster.holder else _small("in any of these")
        first = self.words[min(cluster.members(), key=self.picture.states.index)]
        self._open(f"subgraph cluster_{word}")
        frame = {
            "label": "",
            "id": f"{self.table}.{word}",
            "style": "rounded,filled" if cluster.holder else "rounded,dashed",
            "color": BORDERS[Kind.RESTING] if cluster.holder else FAINT,
            "fillcolor": "#f5f8fc",
            "margin": "10",
            "tooltip": _tooltip([meaning], cluster.stays, cluster.ignored),
        }
        self._add("graph", frame)
        text = _Html(title + self._lists(cluster.stays, cluster.ignored))
        self._add(f"title_{word}", {"label": text, "shape": "plaintext", "style": "", "margin": "0", "fontcolor": INK})
        for node in cluster.nodes:
            self._add_node(node)
        for inner in cluster.clusters:
            self._add_cluster(inner)
        self._add_labels(cluster.name)
        self._same_rank("same", f"title_{word}", first)
        self._add(f"title_{word} -> {first}", {"style": "invis"})
        self._close()

    def _add_labels(self, frame: str) -> None:
        for edge in self.inside.get(frame, ()):
            name = self.edge_id(edge)
            count = "" if edge.count is None else f"<B>{edge.count:,}</B><BR/>"
            texts = lines(edge.labels, effects=self.picture.effects)
            text = "".join(f'{_html(line)}<BR ALIGN="LEFT"/>' for t in texts for line in _wrap(t))
            attributes = {
                "label": _Html(count + text),
                "id": f"{name}.label",
                "shape": "plaintext",
                "style": "",
                "fontsize": "10",
                "fontcolor": MARK if edge.highlighted else INK,
                "margin": "0.03,0.01",
                "width": "0",
                "height": "0",
                "tooltip": self._edge_tooltip(edge),
            }
            self._add(f'"{name}"', attributes)

    def _add_start(self, initial: str) -> None:
        """The entry at the top of the drawing; next to the initial state, unless that is inside a frame."""
        circle = {"shape": "circle", "style": "filled", "fillcolor": INK, "width": "0.16", "tooltip": "start"}
        self._add("start", {"label": "", **circle})
        self._add(f"start -> {initial}", {"tooltip": "start", "weight": "10"})
        if any(node.name == self.picture.initial for node in self.picture.nodes):
            self._same_rank("source", "start", initial)

    def _add_edge(self, edge: Edge) -> None:
        """Two lines, from the source to the label and on to the target; both lead down for `dot`, for good ranks."""
        name = self.edge_id(edge)
        style = {"tooltip": self._edge_tooltip(edge)}
        if edge.count is not None:
            style["penwidth"] = f"{thickness(edge.count):.2f}"
        if edge.count == 0:
            style["style"] = "dashed"
        if edge.highlighted:
            style |= {"color": MARK, "penwidth": style.get("penwidth", "2.50")}
        states = sorted((state for state, _ in edge.pairs), key=self.picture.states.index)
        source, target = self.words[states[0 if edge.goes_back else -1]], self.words[edge.target]
        arrow, line = {"id": name, **style}, {"id": f"{name}.from", "arrowhead": "none", **style}
        port = {False: ":s", True: ":e"}[edge.goes_back and edge.source != edge.target]
        if edge.source in self.members:  # the line is cut where it meets the frame
            port = ""
            line["lhead" if edge.goes_back else "ltail"] = f"cluster_{self.words[edge.source]}"
        if not edge.goes_back:
            self._add(f'{source}{port} -> "{name}"', line)
            self._add(f'"{name}" -> {target}:n', arrow)
        elif edge.source == edge.target:
            self._add(f'{source}{port} -> "{name}":w', line)
            self._add(f'{target}:se -> "{name}":e', {**arrow, "dir": "back"})
        else:
            self._add(f'{target}:se -> "{name}"', {**arrow, "dir": "back"})
            self._add(f'"{name}" -> {source}{port}', line)

    def edge_id(self, edge: Edge) -> str:
        """The `id` of the line with the arrow; the line from the source to the label has `.from` behind it."""
        return f"{self.table}.{self.words[edge.source]}.{self.words[edge.target]}"

    def _edge_tooltip(self, edge: Edge) -> str:
        return _tooltip([f"{edge.source} to {edge.target}"], edge.labels, ())


def thickness(count: int) -> float:
    """Width of the line of an edge taken so often, in points: one more for each power of ten."""
    return 1.0 + (log10(count) if count > 0 else 0.0)


def _heading(picture: Picture) -> _Html:
    sizes = picture.sizes
    facts = f"{picture.name}: {sizes['states']} states, {sizes['events']} events, {sizes['rows']} rows"
    heading = [f'<B><FONT POINT-SIZE="17">{_html(picture.title)}</FONT></B><BR/>', _small(facts, "<BR/>")]
    heading.extend(_small(line) for line in _note_lines(picture))
    return _Html("".join(heading))


def _note_lines(picture: Picture) -> list[str]:
    """Notes of one kind with the same states together, wrapped."""
    by_states: dict[str, list[Label]] = {}
    for note in sorted(picture.notes, key=lambda note: note.ignored):
        verb = "Ignored" if note.ignored else "Stays"
        by_states.setdefault(f"{verb} {where(note, picture.states)}", []).append(note.label)
    texts = (f"{states}: {', '.join(lines(labels, effects=picture.effects))}" for states, labels in by_states.items())
    return [line for text in texts for line in _wrap(text, 110, "    ")]


def _wrap(text: str, width: int = WRAP, indent: str = "  ") -> list[str]:
    """Wraps a text into lines; bracketed parts stay together if possible."""
    glued = re.sub(r"\([^()]*\)", lambda m: m[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
    found = textwrap.wrap(glued, width, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in found]


def _small(text: str, end: str = '<BR ALIGN="LEFT"/>') -> str:
    """A small line; `dot` sets it as tight as its letters, so that a space of the size of labels holds lines apart."""
    return f'<FONT POINT-SIZE="9" COLOR="{FAINT}">{_html(text)}</FONT><FONT POINT-SIZE="11"> </FONT>{end}'


def _html(line: str) -> str:
    text = plain(line)
    return "&#160;" * (len(line) - len(line.lstrip())) + escape(text) if text else ""


def _value(text: str) -> str:
    return f"<{text}>" if isinstance(text, _Html) else '"' + text.replace('"', '\\"') + '"'


def _tooltip(head: Iterable[str], stays: Sequence[Label], ignored: Sequence[Label]) -> str:
    return _escape([*head, *map(_explain, stays), *(f"ignores {_explain(label)}" for label in ignored)])


def _explain(label: Label) -> str:
    text = f"{', '.join(label.events)} [{label.clause}]" if label.clause else ", ".join(label.events)
    if label.origin:
        text += f", from {' or '.join(label.origin)}"
    if label.effects:
        text += f" / {', '.join(label.effects)}"
    return f"{text}: {label.note}" if label.note else text


def _escape(texts: Iterable[str]) -> str:
    """Lines of text for a plain attribute, in which a backslash begins an escape."""
    return "\\n".join(plain(line).replace("\\", "\\\\") for line in texts)
