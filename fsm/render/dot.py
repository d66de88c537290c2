"""DOT from a picture, by the `graphviz` package; the same table gives the same bytes.

Lists in the drawing are cut with `+n more`; what is cut is in the tool tip of the edge or node, and in Markdown. Every
node and edge has an `id` made of the table's name and its states, so that `fsm.render.svg` finds it again.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import log10
from typing import TYPE_CHECKING

from fsm.errors import InputError
from fsm.render.graph import Cluster, Edge, Kind, Label, Node, Picture, identifiers, lines, where
from fsm.render.plain import plain

if TYPE_CHECKING:
    from graphviz import Digraph

EDGE_LINES = 7
"""Lines of an edge's label before `+n more`."""
NODE_LINES = 5
"""Lines of a node's list before `+n more`."""
WRAP = 38
"""Characters in a line of a label."""

INK, FAINT, LINE, MARK = "#1f2933", "#6b7785", "#52606d", "#d64545"
FILLS = {Kind.INITIAL: "#d9f2e3", Kind.RESTING: "#e3eefc", Kind.PASSING: "#ffffff", Kind.TERMINAL: "#e4e7eb"}
BORDERS = {Kind.INITIAL: "#2f9e62", Kind.RESTING: "#3d7cc9", Kind.PASSING: "#8a99a8", Kind.TERMINAL: "#3e4c59"}
FONT = "Helvetica"
RESERVED = frozenset(("node", "edge", "graph", "digraph", "subgraph", "strict", "start"))


def dot(picture: Picture) -> str:
    """The picture in DOT. Raises `InputError` where the `graphviz` package is not installed."""
    graph = _digraph()
    words = identifiers(picture, RESERVED)
    graph.attr("graph", **_graph_attributes(picture))
    graph.attr("node", shape="box", style="rounded,filled", fontname=FONT, fontsize="12", margin="0.14,0.08")
    graph.attr("edge", fontname=FONT, fontsize="10", color=LINE, fontcolor=INK, arrowsize="0.8")
    graph.node("start", label="", shape="circle", style="filled", fillcolor=INK, width="0.16", tooltip="start")
    for node in picture.nodes:
        _draw_node(graph, picture, node, words)
    for cluster in picture.clusters:
        _draw_cluster(graph, picture, cluster, words)
    graph.edge("start", words[picture.initial], tooltip="start", weight="10")
    free = {node.name for node in picture.nodes}  # a rank would tear a state out of its frame
    if picture.initial in free:
        _put_first(graph, ("start", words[picture.initial]))
    members = {cluster.name: cluster.members() for cluster in picture.all_clusters()}
    for edge in picture.edges:
        _draw_edge(graph, picture, edge, words, members)
    return str(graph.source)


def _digraph() -> Digraph:
    try:
        import graphviz
    except ImportError:
        raise InputError("drawing needs the graphviz package", remedy="pip install 'rebalance-fsm[diagrams]'") from None
    return graphviz.Digraph()


def edge_ids(picture: Picture) -> list[str]:
    """The `id` of each edge in DOT and SVG, in the order of `picture.edges`."""
    words = identifiers(picture, RESERVED)
    return [_edge_id(picture, edge, words) for edge in picture.edges]


def _edge_id(picture: Picture, edge: Edge, words: Mapping[str, str]) -> str:
    return f"{_table_word(picture)}.{words[edge.source]}.{words[edge.target]}"


def _table_word(picture: Picture) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in picture.name)


def _graph_attributes(picture: Picture) -> dict[str, str]:
    return {
        "id": _table_word(picture),
        "label": _heading(picture),
        "labelloc": "t",
        "fontname": FONT,
        "fontsize": "11",
        "fontcolor": INK,
        "compound": "true",
        "newrank": "true",
        "rankdir": "TB",
        "nodesep": "0.35",
        "ranksep": "0.5",
        "pad": "0.3",
        "bgcolor": "white",
        "tooltip": _attribute([picture.title]),
    }


def _heading(picture: Picture) -> str:
    sizes = picture.sizes
    facts = f"{picture.name}: {sizes['states']} states, {sizes['events']} events, {sizes['rows']} rows"
    heading = [f'<B><FONT POINT-SIZE="17">{_html(picture.title)}</FONT></B><BR/>', _small(facts, "<BR/>")]
    heading.extend(_small(line) for line in _note_lines(picture))
    return f"<{''.join(heading)}>"


def _note_lines(picture: Picture) -> list[str]:
    """Notes of one kind with the same states together, wrapped."""
    by_states: dict[str, list[Label]] = {}
    for note in sorted(picture.notes, key=lambda note: note.ignored):
        verb = "Ignored" if note.ignored else "Stays"
        by_states.setdefault(f"{verb} {where(note, picture.states)}", []).append(note.label)
    texts = (f"{states}: {', '.join(lines(labels))}" for states, labels in by_states.items())
    return [line for text in texts for line in _wrapped(text, 110, "    ")]


def _draw_node(graph: Digraph, picture: Picture, node: Node, words: Mapping[str, str]) -> None:
    graph.node(
        words[node.name],
        label=f"<<B>{_html(node.name)}</B><BR/>{_lists(node.stays, node.ignored)}>",
        id=f"{_table_word(picture)}.{words[node.name]}",
        fillcolor=FILLS[node.kind],
        color=BORDERS[node.kind],
        fontcolor=INK,
        tooltip=_tooltip([f"{node.name}: {node.meaning}"], node.stays, node.ignored),
        **({"peripheries": "2"} if node.kind is Kind.TERMINAL else {}),
        **({"style": "rounded,filled,dashed"} if node.kind is Kind.PASSING else {}),
    )


def _lists(stays: Sequence[Label], ignored: Sequence[Label]) -> str:
    """What is handled without leaving, and what is ignored, as small lines."""
    shown = _cut(lines(stays), NODE_LINES)
    events = [event for label in ignored for event in label.events]
    if events:
        shown += _ignores(events)
    return "".join(_small(line) for line in shown)


def _draw_cluster(graph: Digraph, picture: Picture, cluster: Cluster, words: Mapping[str, str]) -> None:
    meaning = f"{cluster.name}: {cluster.meaning}" if cluster.holder else cluster.name
    with graph.subgraph(name=f"cluster_{words[cluster.name]}") as frame:
        heading = f"<B>{_html(cluster.name)}</B><BR/>" if cluster.holder else _small("in any of these")
        frame.attr(
            label=f"<{heading}{_lists(cluster.stays, cluster.ignored)}>",
            id=f"{_table_word(picture)}.{words[cluster.name]}",
            style="rounded,filled" if cluster.holder else "rounded,dashed",
            color=BORDERS[Kind.RESTING] if cluster.holder else FAINT,
            fillcolor="#f5f8fc",
            fontsize="12",
            labeljust="l",
            margin="14",
            tooltip=_tooltip([meaning], cluster.stays, cluster.ignored),
        )
        for node in cluster.nodes:
            _draw_node(frame, picture, node, words)
        for inner in cluster.clusters:
            _draw_cluster(frame, picture, inner, words)


def _put_first(graph: Digraph, names: Sequence[str]) -> None:
    """The way in, at the top of the drawing."""
    with graph.subgraph() as level:
        level.attr(rank="source")
        for name in names:
            level.node(name)


def _draw_edge(
    graph: Digraph, picture: Picture, edge: Edge, words: Mapping[str, str], members: Mapping[str, tuple[str, ...]]
) -> None:
    more: dict[str, str] = {}
    tail = edge.source
    if edge.source in members:  # the edge is cut where it leaves the frame, so it begins at the state next to that
        tail = members[edge.source][0 if edge.target == picture.initial else -1]
        more["ltail"] = f"cluster_{words[edge.source]}"
    if edge.target == picture.initial and edge.source != edge.target:
        more["constraint"] = "false"  # a way back; the initial state is at the top anyway
    if edge.count is not None:
        more["penwidth"] = f"{thickness(edge.count):.2f}"
    if edge.count == 0:
        more["style"] = "dashed"
    if edge.highlighted:
        more.update(color=MARK, penwidth=more.get("penwidth", "2.50"))
    tooltip = _tooltip([f"{edge.source} to {edge.target}"], edge.labels, ())
    graph.edge(
        words[tail],
        words[edge.target],
        label=f"<{_edge_label(edge)}>",
        id=_edge_id(picture, edge, words),
        tooltip=tooltip,
        labeltooltip=tooltip,
        **more,
    )


def thickness(count: int) -> float:
    """Width of the line of an edge taken so often, in points: one more for each power of ten."""
    return 1.0 + (log10(count) if count > 0 else 0.0)


def _edge_label(edge: Edge) -> str:
    shown = _cut(lines(edge.labels), EDGE_LINES)
    counted = "" if edge.count is None else f'&#160;<B>{edge.count:,}</B><BR ALIGN="LEFT"/>'
    return counted + "".join(f'&#160;{_html(line)}<BR ALIGN="LEFT"/>' for line in shown)


def _cut(texts: Sequence[str], limit: int) -> list[str]:
    """The texts, wrapped; whole texts are left out where there would be more than so many lines."""
    shown: list[str] = []
    for position, text in enumerate(texts):
        wrapped = _wrapped(text)
        last = position == len(texts) - 1
        if shown and len(shown) + len(wrapped) > limit - (not last):
            return [*shown, f"+{len(texts) - position} more"]
        shown.extend(wrapped)
    return shown


def _ignores(events: Sequence[str]) -> list[str]:
    """As many of the events as fit into two lines, one at least."""
    for number in range(len(events), 0, -1):
        more = f" +{len(events) - number} more" if number < len(events) else ""
        wrapped = _wrapped(plain(f"ignores {', '.join(events[:number])}{more}"))
        if len(wrapped) <= 2:
            break
    return wrapped


def _wrapped(text: str, width: int = WRAP, indent: str = "  ") -> list[str]:
    """Lines of a text; what stands in brackets stays together where it can."""
    glued = re.sub(r"\([^()]*\)", lambda m: m[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
    found = textwrap.wrap(glued, width, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in found]


def _small(text: str, end: str = '<BR ALIGN="LEFT"/>') -> str:
    return f'<FONT POINT-SIZE="9" COLOR="{FAINT}">{_html(text)}</FONT>{end}'


def _html(text: str) -> str:
    return escape(plain(text)).replace("  ", "&#160; ") if text.strip() else ""


def _tooltip(head: Iterable[str], stays: Sequence[Label], ignored: Sequence[Label]) -> str:
    lines = [*head, *map(_explained, stays), *(f"ignores {_explained(label)}" for label in ignored)]
    return _attribute(lines)


def _explained(label: Label) -> str:
    text = f"{', '.join(label.events)} [{label.clause}]" if label.clause else ", ".join(label.events)
    if label.origin:
        text += f", from {' or '.join(label.origin)}"
    if label.effects:
        text += f" / {', '.join(label.effects)}"
    return f"{text}: {label.note}" if label.note else text


def _attribute(lines: Iterable[str]) -> str:
    """Lines of text for a plain attribute, which is neither HTML nor holds escapes of its own."""
    from graphviz import nohtml

    text: str = nohtml("\\n".join(plain(line).replace("\\", "\\\\") for line in lines))
    return text
