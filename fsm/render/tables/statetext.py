"""A table as text of other tools: diagrams of Mermaid and PlantUML, statecharts of SCXML and XState (version 5).

Mermaid (`stateDiagram-v2`, which GitHub draws by itself) and PlantUML interpret many characters of a label, so
everything except plain words is escaped as a character code. Mermaid cannot draw an edge between the insides of two
frames: such an edge ends at the frame. PlantUML draws edges that go back upwards, so its diagram is read from top to
bottom like every other.

SCXML and XState step as the table does: a nested table is a compound state whose own transitions come first, an ignored
event is a transition without target or action, an event without a cell is left to the tool (which drops it). They
cannot express a state that is passed through within one step: its name is kept beside the transition. There are no
guards. A terminal state is `final` only if it handles no event, because a final state may have no transitions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

from fsm.render.tables.graph import (
    COLOURS,
    LIT,
    Cluster,
    Edge,
    Kind,
    Label,
    Node,
    Picture,
    identifiers,
    lines,
    unique_words,
    where,
)
from fsm.render.wording import plain
from fsm.table import Row, Symbol, Table


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


# Statecharts


class Transition(NamedTuple):
    """A transition by one line of a table on one event."""

    event: str
    target: Symbol | None
    """None if the machine stays without leaving."""
    effects: tuple[str, ...]
    via: tuple[str, ...]
    """States passed through on the way."""
    note: str


def transitions(table: Table, state: Symbol) -> Iterator[Transition]:
    """The transitions of a state of this table, without those of a table that it holds."""
    for line in table.rows:
        if state not in line.states:
            continue
        if isinstance(line, Row):
            entered, ordered, remark = line.path, line.effects, line.note
        else:
            entered, ordered, remark = (), (), f"ignored: {line.why}"
        note = ": ".join(plain(text) for text in (line.clause, remark) if text)
        target, via = (entered[-1] if entered else None), tuple(s.name for s in entered[:-1])
        for event in line.events:
            yield Transition(event.name, target, tuple(effect.name for effect in ordered), via, note)


def xstate(table: Table) -> str:
    """The table as JSON for XState's `createMachine`."""
    words = unique_words({state.name: state.name for state in table.all_states()})
    head = {"id": table.name, **({"description": plain(table.title)} if table.title else {})}
    return json.dumps(head | _xstate_level(table, words), ensure_ascii=False, indent=2) + "\n"


def _xstate_level(table: Table, words: Mapping[str, str]) -> dict[str, Any]:
    return {
        "initial": words[table.initial.name],
        "states": {words[state.name]: _xstate_state(table, state, words) for state in table.states},
    }


def _xstate_state(table: Table, state: Symbol, words: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"id": words[state.name], "description": plain(state.meaning)}
    on = {t.event: _xstate_transition(t, state, words) for t in transitions(table, state)}
    if state in table.terminal:
        found["tags"] = ["terminal"]
        if not on:
            found["type"] = "final"
    if on:
        found["on"] = on
    return found | (_xstate_level(table.nested[state], words) if state in table.nested else {})


def _xstate_transition(transition: Transition, state: Symbol, words: Mapping[str, str]) -> dict[str, Any]:
    found = {
        "target": transition.target and f"#{words[transition.target.name]}",
        "reenter": transition.target is state,
        "actions": transition.effects,
        "description": transition.note,
        "meta": transition.via and {"via": transition.via},
    }
    return {key: value for key, value in found.items() if value}


def scxml(table: Table) -> str:
    """The table as an SCXML document without data model; an effect is raised as the event `effect.NAME`."""
    enums = (table.all_states(), table.alphabet, table.effects or ())
    words = _Words(*(unique_words({member.name: member.name for member in enum}) for enum in enums))
    spaces = 'xmlns="http://www.w3.org/2005/07/scxml" xmlns:fsm="urn:rebalance-fsm"'
    (name,) = unique_words({"": table.name}).values()  # a name is one token, and some tools generate a function from it
    head = f'version="1.0" datamodel="null" name="{name}" initial="{words.states[table.initial.name]}"'
    body = _scxml_level(table, words, "  ")
    return "\n".join(('<?xml version="1.0" encoding="UTF-8"?>', f"<scxml {spaces} {head}>", *body, "</scxml>", ""))


class _Words(NamedTuple):
    states: Mapping[str, str]
    events: Mapping[str, str]
    effects: Mapping[str, str]


def _scxml_level(table: Table, words: _Words, indent: str) -> Iterator[str]:
    for state in table.states:
        found = list(transitions(table, state))
        tag = "final" if state in table.terminal and not found else "state"
        nested = table.nested.get(state)
        initial = f' initial="{words.states[nested.initial.name]}"' if nested else ""
        yield f'{indent}<{tag} id="{words.states[state.name]}"{initial} fsm:meaning={_attribute(state.meaning)}>'
        for transition in found:
            yield from _scxml_transition(transition, words, indent + "  ")
        if nested:
            yield from _scxml_level(nested, words, indent + "  ")
        yield f"{indent}</{tag}>"


def _scxml_transition(transition: Transition, words: _Words, indent: str) -> Iterator[str]:
    target = f' target="{words.states[transition.target.name]}"' if transition.target else ""
    via = f' fsm:via="{" ".join(words.states[name] for name in transition.via)}"' if transition.via else ""
    note = f" fsm:note={_attribute(transition.note)}" if transition.note else ""
    head = f'{indent}<transition event="{words.events[transition.event]}"{target}{via}{note}'
    if not transition.effects:
        yield f"{head}/>"
        return
    yield f"{head}>"
    yield from (f'{indent}  <raise event="effect.{words.effects[name]}"/>' for name in transition.effects)
    yield f"{indent}</transition>"


def _attribute(text: str) -> str:
    return quoteattr(plain(text))
