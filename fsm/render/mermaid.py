"""Mermaid from a picture: a `stateDiagram-v2`, which GitHub and many wikis draw by themselves.

Mermaid reads a good deal into a label, so everything but plain words goes in as a character code. It cannot draw
an edge between the insides of two frames; such an edge ends at the frame, which is entered by the same state.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from fsm.render.graph import Cluster, Kind, Label, Node, Picture, identifiers, lines, spelled, where
from fsm.render.plain import plain

RESERVED = frozenset(
    (
        "accdescr",
        "acctitle",
        "as",
        "choice",
        "class",
        "classdef",
        "click",
        "default",
        "direction",
        "end",
        "fork",
        "hide",
        "href",
        "join",
        "left",
        "note",
        "of",
        "right",
        "root",
        "scale",
        "start",
        "state",
        "statediagram",
        "style",
        "title",
    )
)
_OTHER = re.compile(r"[^A-Za-z0-9_ ,.()/+]")
COLOURS = {Kind.INITIAL: "#d9f2e3", Kind.PASSING: "#ffffff", Kind.TERMINAL: "#e4e7eb"}


def mermaid(picture: Picture) -> str:
    """The picture as Mermaid text. Draw pictures without regions: their edges cross frames."""
    words = identifiers(picture, RESERVED)
    return "\n".join([*_head(picture), *_body(picture, words), *_classes(picture, words), ""])


def _head(picture: Picture) -> Iterator[str]:
    yield from ("---", f"title: {json.dumps(plain(picture.title), ensure_ascii=False)}", "---")
    yield "stateDiagram-v2"


def _body(picture: Picture, words: Mapping[str, str]) -> Iterator[str]:
    for node in picture.nodes:
        yield from _node(node, words, "    ")
    for cluster in picture.clusters:
        yield from _cluster(cluster, words, "    ")
    yield f"    [*] --> {words[picture.initial]}"
    ends = _ends(picture)
    for edge in picture.edges:
        label = _texts(edge.labels)
        if edge.count is not None:
            label = f"{edge.count} times<br/>{label}"
        target = ends.get(edge.source, {}).get(edge.target, edge.target)
        yield f"    {words[edge.source]} --> {words[target]} : {label}"
    for name in picture.terminal:
        yield f"    {words[name]} --> [*]"
    yield from _notes(picture, words)


def _node(node: Node, words: Mapping[str, str], indent: str) -> Iterator[str]:
    word = words[node.name]
    yield f'{indent}state "{_escaped(node.name)}" as {word}'
    yield from (f"{indent}{word} : {_escaped(text)}" for text in lines(node.stays))
    yield from (f"{indent}{word} : ignores {_escaped(text)}" for text in lines(node.ignored))


def _cluster(cluster: Cluster, words: Mapping[str, str], indent: str) -> Iterator[str]:
    yield f'{indent}state "{_escaped(cluster.name)}" as {words[cluster.name]} {{'
    for node in cluster.nodes:
        yield from _node(node, words, indent + "    ")
    for inner in cluster.clusters:
        yield from _cluster(inner, words, indent + "    ")
    if cluster.entry:
        yield f"{indent}    [*] --> {words[cluster.entry]}"
    yield f"{indent}}}"


def _ends(picture: Picture) -> dict[str, dict[str, str]]:
    """state -> target -> the frame to draw the edge to, where both lie in frames that are strangers."""
    ends: dict[str, dict[str, str]] = {}
    for cluster in picture.clusters:
        inside = {*cluster.members(), *(c.name for c in _within(cluster)), cluster.name}
        for other in picture.clusters:
            if other is not cluster:
                for state in inside:
                    ends.setdefault(state, {}).update(dict.fromkeys(other.members(), other.name))
    return ends


def _within(cluster: Cluster) -> Iterator[Cluster]:
    for inner in cluster.clusters:
        yield inner
        yield from _within(inner)


def _notes(picture: Picture, words: Mapping[str, str]) -> Iterator[str]:
    said = [
        f"{'ignored' if note.ignored else 'stays'} {where(note, picture.states)}: {spelled(note.label)}"
        for note in picture.notes
    ]
    for cluster in picture.all_clusters():
        said.extend(f"{cluster.name} stays on {spelled(label)}" for label in cluster.stays)
        said.extend(f"{cluster.name} ignores {spelled(label)}" for label in cluster.ignored)
    if said:
        yield f"    note left of {words[picture.initial]}"
        yield from (f"        {_escaped(line)}" for line in said)
        yield "    end note"


def _classes(picture: Picture, words: Mapping[str, str]) -> Iterator[str]:
    for kind, colour in COLOURS.items():
        members = [words[node.name] for node in picture.all_nodes() if node.kind is kind]
        if members:
            yield f"    classDef {kind.value}State fill:{colour}"
            yield f"    class {','.join(members)} {kind.value}State"


def _texts(labels: tuple[Label, ...]) -> str:
    return "<br/>".join(map(_escaped, lines(labels)))


def _escaped(text: str) -> str:
    coded = _OTHER.sub(lambda m: f"#{ord(m[0])};", plain(text))
    return re.sub(r"(?i)\bend note\b", "end#32;note", coded)
