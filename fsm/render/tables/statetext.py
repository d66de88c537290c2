"""State diagrams as text, in Mermaid (`stateDiagram-v2`, which GitHub draws by itself) and in PlantUML.

Both interpret many characters of a label, so everything except plain words is escaped as a character code. Mermaid
cannot draw an edge between the insides of two frames: such an edge ends at the frame. PlantUML draws edges that go back
upwards, so its diagram is read from top to bottom like every other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from fsm.render.tables.graph import COLOURS, LIT, Cluster, Edge, Kind, Label, Node, Picture, identifiers, lines, where
from fsm.render.wording import plain


def mermaid(picture: Picture) -> str:
    """The picture as Mermaid text. Draw pictures without regions: their edges cross frames."""
    return _Mermaid(picture).text()


def plantuml(picture: Picture) -> str:
    """The picture as PlantUML text."""
    return _PlantUml(picture).text()


class _Writer:
    """The common part of both languages."""

    reserved: frozenset[str]
    coded: re.Pattern[str]
    """Characters that are escaped in any text."""
    code = ""
    """The form of a character code, for `format`."""
    margin, indent, line_break = "", "", ""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self.words = identifiers(picture, self.reserved)

    def text(self) -> str:
        return "\n".join([*self.head(), *self.body(), *self.tail(), ""])

    def head(self) -> Iterator[str]:
        raise NotImplementedError

    def tail(self) -> Iterator[str]:
        raise NotImplementedError

    def state(self, node: Node) -> str:
        return f'state "{self.escape(node.name)}" as {self.words[node.name]}'

    def title(self, cluster: Cluster) -> str:
        return cluster.name

    def edge(self, edge: Edge) -> str:
        raise NotImplementedError

    def escape(self, text: str) -> str:
        return self.coded.sub(lambda m: self.code.format(ord(m[0])), plain(text))

    def body(self) -> Iterator[str]:
        picture, margin = self.picture, self.margin
        yield from self.states(picture.nodes, picture.clusters, margin)
        if picture.initial:
            yield f"{margin}[*] --> {self.words[picture.initial]}"
        for edge in picture.edges:
            texts = map(self.escape, lines(edge.labels, effects=picture.effects))
            count = () if edge.count is None else (f"{edge.count} times",)
            yield f"{margin}{self.edge(edge)} : {self.line_break.join((*count, *texts))}"
        yield from (f"{margin}{self.words[name]} --> [*]" for name in picture.terminal)

    def states(self, nodes: Sequence[Node], clusters: Sequence[Cluster], pad: str) -> Iterator[str]:
        for node in nodes:
            yield f"{pad}{self.state(node)}"
            yield from self.inside(self.words[node.name], node.stays, node.ignored, pad)
        for cluster in clusters:
            yield f'{pad}state "{self.escape(self.title(cluster))}" as {self.words[cluster.name]} {{'
            yield from self.states(cluster.nodes, cluster.clusters, pad + self.indent)
            if cluster.entry:
                yield f"{pad}{self.indent}[*] --> {self.words[cluster.entry]}"
            yield f"{pad}}}"
            yield from self.below(cluster, pad)

    def below(self, cluster: Cluster, pad: str) -> Iterator[str]:
        """The lines of a frame: rows without leaving it, and ignores."""
        return self.inside(self.words[cluster.name], cluster.stays, cluster.ignored, pad)

    def inside(self, word: str, stays: Sequence[Label], ignored: Sequence[Label], pad: str) -> Iterator[str]:
        yield from (f"{pad}{word} : {self.escape(text)}" for text in lines(stays, effects=self.picture.effects))
        yield from (f"{pad}{word} : ignores {self.escape(text)}" for text in lines(ignored))

    def label(self, label: Label) -> str:
        return lines([label], effects=self.picture.effects)[0]


_MERMAID_WORDS = (
    "accdescr acctitle as choice class classdef click default direction end fork hide href join left note of right "
    "root scale start state statediagram style title"
)


class _Mermaid(_Writer):
    reserved = frozenset(_MERMAID_WORDS.split())
    coded = re.compile(r"[^A-Za-z0-9_ ,.()/+]")
    code = "#{};"
    margin, indent, line_break = "    ", "    ", "<br/>"

    def __init__(self, picture: Picture) -> None:
        super().__init__(picture)
        self.home = {name: cluster.name for cluster in picture.clusters for name in _names(cluster)}

    def head(self) -> Iterator[str]:
        yield from ("---", f"title: {json.dumps(plain(self.picture.title), ensure_ascii=False)}", "---")
        yield "stateDiagram-v2"

    def edge(self, edge: Edge) -> str:
        homes = {self.home.get(edge.source, ""), self.home.get(edge.target, "")} - {""}
        target = self.home[edge.target] if len(homes) == 2 else edge.target
        return f"{self.words[edge.source]} --> {self.words[target]}"

    def below(self, cluster: Cluster, pad: str) -> Iterator[str]:  # noqa: ARG002  Mermaid has no texts in frames
        return iter(())

    def tail(self) -> Iterator[str]:
        picture = self.picture
        notes = [
            f"{'ignored' if note.ignored else 'stays'} {where(note, picture.states)}: {self.label(note.label)}"
            for note in picture.notes
        ]
        for cluster in picture.all_clusters():
            notes.extend(f"{cluster.name} stays on {self.label(label)}" for label in cluster.stays)
            notes.extend(f"{cluster.name} ignores {self.label(label)}" for label in cluster.ignored)
        if notes:
            yield f"    note left of {self.words[picture.states[0]]}"
            yield from (f"        {self.escape(line)}" for line in notes)
            yield "    end note"
        for kind in (Kind.INITIAL, Kind.PASSING, Kind.TERMINAL):  # the others have the theme's colour
            members = [self.words[node.name] for node in picture.all_nodes() if node.kind is kind]
            if members:
                yield f"    classDef {kind.value}State fill:{COLOURS[kind]}"
                yield f"    class {','.join(members)} {kind.value}State"
        if picture.lit:
            yield from (f"    classDef litState fill:{LIT}", f"    class {self.words[picture.lit]} litState")

    def escape(self, text: str) -> str:
        return re.sub(r"(?i)\bend note\b", "end#32;note", super().escape(text))


def _names(cluster: Cluster) -> Iterator[str]:
    yield from (cluster.name, *(node.name for node in cluster.nodes))
    for inner in cluster.clusters:
        yield from _names(inner)


_PLANTUML_WORDS = "as end endlegend enduml hide legend note scale skinparam start state title"


class _PlantUml(_Writer):
    reserved = frozenset(_PLANTUML_WORDS.split())
    coded = re.compile(r"[^A-Za-z0-9_ ,.()/:;'+-]|(?<=([_./-]))\1|^'")
    code = "<U+{:04X}>"
    indent, line_break = "  ", r"\n"

    def head(self) -> Iterator[str]:
        yield from ("@startuml", f"title {self.escape(self.picture.title)}", "hide empty description")

    def state(self, node: Node) -> str:
        colour = LIT if node.name == self.picture.lit else COLOURS[node.kind]
        return f"{super().state(node)} {colour.upper()}"

    def title(self, cluster: Cluster) -> str:
        return cluster.name if cluster.holder else "in any of these"

    def edge(self, edge: Edge) -> str:
        up = "up" if edge.goes_back and edge.source != edge.target else ""
        arrow = f"-{up}{'[bold]' if edge.highlighted else ''}->"
        return f"{self.words[edge.source]} {arrow} {self.words[edge.target]}"

    def tail(self) -> Iterator[str]:
        if self.picture.notes:
            yield "legend bottom left"
            for note in self.picture.notes:
                verb = "Ignored" if note.ignored else "Stays"
                states = self.escape(where(note, self.picture.states))
                yield f"{verb} {states}: {self.escape(self.label(note.label))}"
            yield "endlegend"
        yield "@enduml"
