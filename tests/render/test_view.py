"""Parts of a table: some events or states, one way through it, a state that is lit; and graphs for notebooks."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path
from typing import Any

import pytest

import fsm.render
from fsm.errors import InputError
from fsm.machine import bind
from fsm.render import Graph, get_graph
from fsm.render.tables.graph import lines, picture
from fsm.render.tables.view import View
from fsm.table import Table
from fsm.tables import ALL, HAPPY_PATHS


def drawn(table: Table, view: View) -> tuple[set[str], dict[tuple[str, str], tuple[str, ...]]]:
    found = picture(table, regions=False, view=view)
    return set(found.states), {(e.source, e.target): lines(e.labels, effects=view.effects) for e in found.edges}


def test_some_events_leave_the_states_that_they_meet(door: Table) -> None:
    """Pushing opens the door, and is answered in LOCKED; nothing is said of BROKEN."""
    states, edges = drawn(door, View(events=("PUSHED",)))
    assert states == {"CLOSED", "AJAR", "WIDE", "LOCKED"}
    assert edges == {("CLOSED", "AJAR"): ("PUSHED (D1)",), ("AJAR", "WIDE"): ("PUSHED (D2)",)}


def test_some_states_keep_what_happens_between_them(door: Table) -> None:
    """AJAR and WIDE alone: their frame stays, without a way in from outside."""
    found = picture(door, view=View(states=("AJAR", "WIDE")))
    assert [(e.source, e.target) for e in found.edges] == [("AJAR", "WIDE"), ("WIDE", "AJAR")]
    assert (found.initial, [cluster.name for cluster in found.clusters]) == ("", ["OPEN"])


def test_a_path_keeps_the_cells_that_it_takes(door: Table) -> None:
    """Opened, closed again and locked: no other event of these states is drawn."""
    _, edges = drawn(door, View(path=("PUSHED", "PULLED", "KEY_TURNED")))
    assert edges == {
        ("CLOSED", "AJAR"): ("PUSHED (D1)",),
        ("AJAR", "CLOSED"): ("PULLED (D10)",),
        ("CLOSED", "LOCKED"): ("KEY_TURNED (D6)",),
    }


def test_effects_stand_behind_the_events_that_order_them(door: Table) -> None:
    """Also where a row stays."""
    _, edges = drawn(door, View(effects=True))
    assert edges["CLOSED", "AJAR"] == ("PUSHED (D1) / CREAK", "KEY_TURNED (D7), from LOCKED / CREAK")
    assert "PUSHED (D8) / RATTLE" in get_graph(door, effects=True).render("dot").decode()


@pytest.mark.parametrize("table", ALL, ids=lambda t: t.name)
def test_edges_with_other_effects_are_no_edge_of_a_frame(table: Table) -> None:
    """Drawn with effects, an edge of a frame has one list of them for each event, whichever state it leaves."""
    for edge in picture(table, view=View(effects=True)).edges:
        by_event: dict[str, set[tuple[str, ...]]] = {}
        for state, target in edge.pairs:
            for (at, event), cell in table.compiled.items():
                if at.name == state and cell.path and cell.path[0].name == target:
                    by_event.setdefault(event.name, set()).add(tuple(effect.name for effect in cell.effects))
        assert all(len(effects) == 1 for effects in by_event.values()), (edge.source, edge.target, by_event)


def test_a_lit_state_and_its_ways_out_are_marked(door: Table) -> None:
    """In each language by its own means."""
    graph = get_graph(door, lit=door.terminal[0])
    assert [e for e in picture(door, view=graph.view).edges if e.highlighted] == []
    graph = get_graph(door, lit="WIDE")
    marked = {(e.source, e.target) for e in picture(door, view=graph.view).edges if e.highlighted}
    assert marked == {("WIDE", "CLOSED"), ("WIDE", "AJAR"), ("any of CLOSED or AJAR or WIDE or LOCKED", "BROKEN")}
    assert 'fillcolor="#ffe08a"' in graph.render("dot").decode()
    assert "class WIDE litState" in graph.render("mermaid").decode()
    assert 'state "WIDE" as WIDE #FFE08A' in graph.render("plantuml").decode()


def test_the_state_of_a_bound_model_is_lit(door: Table) -> None:
    """`machine.get_graph()` draws the table with the state of the model, of its only one where none is named."""

    class Model:
        state: Any

        def on_effect(self, effect: object) -> None: ...

    model, other = Model(), Model()
    machine = bind(door, model)
    machine.dispatch("pushed")
    drawing = get_graph(door, lit=model.state).render("mermaid")
    assert "class AJAR litState" in drawing.decode()
    assert machine.get_graph().render("mermaid") == drawing
    machine.add_model(other)
    assert machine.get_graph(model).render("mermaid") == drawing != machine.get_graph(other).render("mermaid")
    assert "litState" not in machine.get_graph(effects=True).render("mermaid").decode()


def test_a_bound_model_draws_itself(door: Table) -> None:
    """As one of the library's `GraphMachine` does; a method that the model has stays its own."""

    class Model:
        def on_effect(self, effect: object) -> None: ...

    class Painter(Model):
        def get_graph(self) -> str:
            return "mine"

    model, painter = Model(), Painter()
    machine = bind(door, model)
    machine.add_model(painter)
    assert model.get_graph(effects=True) == machine.get_graph(model, effects=True)  # type: ignore[attr-defined]
    assert model.get_graph(title="T").render("mermaid").startswith(b'---\ntitle: "T"')  # type: ignore[attr-defined]
    assert painter.get_graph() == "mine"


def test_a_drawing_is_written_to_a_file(door: Table, tmp_path: Path) -> None:
    """As one of the library: the form is that of the file's suffix, or said; without a file the drawing is returned."""
    graph = get_graph(door, title="My door", lit="WIDE")
    assert graph.draw(tmp_path / "door.png", prog="dot") is None
    assert (tmp_path / "door.png").read_bytes().startswith(b"\x89PNG\r\n")
    for name, form in (("a.mmd", None), ("b.mermaid", None), ("c.txt", "mermaid")):
        graph.draw(str(tmp_path / name), form)
        assert (tmp_path / name).read_bytes() == graph.draw(None, format="mermaid") == graph.render("mermaid")
    assert b'title: "My door"' in graph.render("mermaid")
    assert repr(graph) == "<Graph of door, lit='WIDE'>"
    for options, message in (
        ({"filename": tmp_path / "door.gif"}, "door.gif: no form 'gif' of a drawing; choose from dot, svg"),
        ({"filename": None}, "no form '' of a drawing"),
        ({"filename": None, "format": "svg", "prog": "neato"}, "neato lays out no drawing of a table"),
    ):
        with pytest.raises(InputError, match=message):
            graph.draw(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [{}, {"locked": True}, {"asynchronous": True}])
def test_a_notebook_shows_a_machine(door: Table, monkeypatch: pytest.MonkeyPatch, kind: dict[str, bool]) -> None:
    """As SVG, or without Graphviz as Mermaid, with the state of its only model lit."""

    class Model:
        def on_effect(self, effect: object) -> None: ...

    machine = bind(door, Model(), **kind)  # type: ignore[arg-type]
    assert machine._repr_svg_() == machine.get_graph()._repr_svg_() != None  # noqa: E711
    assert machine._repr_markdown_() is None
    monkeypatch.setitem(sys.modules, "graphviz", None)
    assert machine._repr_svg_() is None
    assert "litState" in (machine._repr_markdown_() or "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"events": ["PUSHD"]}, "door has no event 'PUSHD'; did you mean PUSHED?"),
        ({"states": ["AJARR"]}, "door has no state 'AJARR'; did you mean AJAR?"),
        ({"lit": "OPEN"}, "door has no state 'OPEN'"),
        ({"path": ["PUSHED", "KEY_TURNED"]}, "no such path: door: KEY_TURNED is illegal in AJAR"),
    ],
)
def test_what_the_table_does_not_have_is_refused(door: Table, options: dict[str, object], message: str) -> None:
    """At once, not as the graph is drawn; a state that holds a table is none that a machine is in."""
    with pytest.raises(InputError) as refused:
        get_graph(door, **options)  # type: ignore[arg-type]
    assert message in str(refused.value)


@pytest.mark.parametrize("table", ALL, ids=lambda t: t.name)
def test_every_table_has_a_happy_path(table: Table) -> None:
    """Its events are legal one after the other, it meets half of the states at least, and it draws these alone."""
    events = HAPPY_PATHS[table.name].split()
    graph = get_graph(table, path=events)
    states, edges = drawn(table, graph.view)
    assert len(states) * 2 >= len(table.leaves())
    labels = [label for edge in picture(table, regions=False, view=graph.view).edges for label in edge.labels]
    assert {event for label in labels for event in label.events} <= set(events)
    assert len(edges) <= len(events)
    whole = {event for _, event in table.compiled}
    assert len(edges) < len(picture(table, regions=False).edges) or len(set(events)) == len(whole)
    assert graph.render("svg").startswith(b"<?xml")


def test_a_notebook_shows_svg_and_without_graphviz_mermaid(door: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the two; a base install breaks nothing."""
    graph = get_graph(door)
    assert isinstance(graph, Graph)
    assert "<svg" in (graph._repr_svg_() or "")
    assert graph._repr_markdown_() is None
    monkeypatch.setitem(sys.modules, "graphviz", None)
    assert graph._repr_svg_() is None
    assert (graph._repr_markdown_() or "").startswith("```mermaid\n---\ntitle:")


def test_the_examples_of_the_package_run() -> None:
    """What the docstring of `fsm.render` shows."""
    assert doctest.testmod(fsm.render) == (0, 4)
