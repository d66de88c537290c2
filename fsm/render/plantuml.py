"""PlantUML from a picture, as a state diagram. What PlantUML would read as markup goes in as a character code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from fsm.render.graph import Cluster, Kind, Label, Node, Picture, identifiers, lines, spelled, where
from fsm.render.plain import plain

RESERVED = frozenset(
    ("as", "end", "endlegend", "enduml", "hide", "legend", "note", "scale", "skinparam", "start", "state", "title")
)
_OTHER = re.compile(r"[^A-Za-z0-9_ ,.()/:;'+-]|(?<=([_./-]))\1|^'")
COLOURS = {Kind.INITIAL: "#D9F2E3", Kind.RESTING: "#E3EEFC", Kind.PASSING: "#FFFFFF", Kind.TERMINAL: "#E4E7EB"}


def plantuml(picture: Picture) -> str:
    """The picture as PlantUML text."""
    words = identifiers(picture, RESERVED)
    return "\n".join(["@startuml", *_body(picture, words), *_legend(picture), "@enduml", ""])


def _body(picture: Picture, words: Mapping[str, str]) -> Iterator[str]:
    yield f"title {_escaped(picture.title)}"
    yield "hide empty description"
    for node in picture.nodes:
        yield from _node(node, words, "")
    for cluster in picture.clusters:
        yield from _cluster(cluster, words, "")
    yield f"[*] --> {words[picture.initial]}"
    for edge in picture.edges:
        label = r"\n".join(map(_escaped, lines(edge.labels)))
        if edge.count is not None:
            label = rf"{edge.count} times\n{label}"
        arrow = "-[bold]->" if edge.highlighted else "-->"
        yield f"{words[edge.source]} {arrow} {words[edge.target]} : {label}"
    for name in picture.terminal:
        yield f"{words[name]} --> [*]"


def _node(node: Node, words: Mapping[str, str], indent: str) -> Iterator[str]:
    yield f'{indent}state "{_escaped(node.name)}" as {words[node.name]} {COLOURS[node.kind]}'
    yield from _said(words[node.name], node.stays, node.ignored, indent)


def _said(word: str, stays: Sequence[Label], ignored: Sequence[Label], indent: str) -> Iterator[str]:
    yield from (f"{indent}{word} : {_escaped(text)}" for text in lines(stays))
    yield from (f"{indent}{word} : ignores {_escaped(text)}" for text in lines(ignored))


def _cluster(cluster: Cluster, words: Mapping[str, str], indent: str) -> Iterator[str]:
    title = cluster.name if cluster.holder else "in any of these"
    yield f'{indent}state "{_escaped(title)}" as {words[cluster.name]} {{'
    for node in cluster.nodes:
        yield from _node(node, words, indent + "  ")
    for inner in cluster.clusters:
        yield from _cluster(inner, words, indent + "  ")
    if cluster.entry:
        yield f"{indent}  [*] --> {words[cluster.entry]}"
    yield f"{indent}}}"
    yield from _said(words[cluster.name], cluster.stays, cluster.ignored, indent)


def _legend(picture: Picture) -> Iterator[str]:
    if picture.notes:
        yield "legend bottom left"
        for note in picture.notes:
            verb = "Ignored" if note.ignored else "Stays"
            yield f"{verb} {_escaped(where(note, picture.states))}: {_escaped(spelled(note.label))}"
        yield "endlegend"


def _escaped(text: str) -> str:
    return _OTHER.sub(lambda m: f"<U+{ord(m[0]):04X}>", plain(text))
