"""State diagrams as they lie on the page: nothing struck through, no arrow with two heads, nothing left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from geometry import defects

from fsm.render import render
from fsm.render.tables.graph import picture
from fsm.render.tables.svg import svg
from fsm.render.tables.view import View
from fsm.table import Table
from fsm.tables import ALL

FOLDER = Path(__file__).parents[2] / "diagrams"
TABLES = pytest.mark.parametrize("table", ALL, ids=lambda t: t.name)


@TABLES
def test_no_line_runs_through_a_text_and_no_arrow_ends_where_another_begins(table: Table) -> None:
    """The committed drawings; the lines end at labels and keep clear of titles, loops are drawn beside the others."""
    assert list(defects((FOLDER / f"{table.name}.svg").read_text(encoding="utf-8"))) == []


def test_a_drawing_of_the_old_kind_has_such_defects() -> None:
    """A crossed label, an arrow into the beginning of another, a crossed arrow and a loop of one place are seen."""
    drawing = """<svg xmlns="http://www.w3.org/2000/svg">
    <g class="edge"><title>A-&gt;A</title><path d="M0,0C10,0 10,0 20,0"/></g>
    <text x="25" y="4" font-size="10">GO_ON</text>
    <g class="edge"><title>B-&gt;A</title><path d="M60,1C40,1 30,1 4,1"/><polygon points="4,-2 0,1 4,4 4,-2"/></g>
    <g class="edge"><title>C-&gt;t.C.C</title><path d="M100,0C100,20 100,20 100,40"/></g>
    <g class="edge"><title>C:se-&gt;t.C.C</title><path d="M110,0C110,20 103,30 102,40"/></g>
    <g class="edge"><title>D-&gt;C</title><path d="M60,15C70,15 80,15 90,15"/>
    <polygon points="90,12 95,15 90,18 90,12"/></g>
    </svg>"""
    assert list(defects(drawing)) == [
        "B->A runs through 'GO_ON'",
        "the arrow of B->A ends where A->A begins",
        "C->t.C.C runs over the arrow of D->C",
        "both lines of t.C.C meet its label in one place",
    ]


@TABLES
def test_every_event_of_every_row_is_written_out(table: Table) -> None:
    """No drawing says `+14 more`, and each event of each cell is among its texts."""
    drawing = (FOLDER / f"{table.name}.svg").read_text(encoding="utf-8")
    texts = " ".join(re.findall(r"<text[^>]*>([^<]*)<", drawing))
    assert not re.search(r"\+\d+ more", texts)
    assert {event.name for _, event in table.compiled} <= set(re.findall(r"\w+", texts))


@TABLES
def test_a_drawing_fits_a_page(table: Table) -> None:
    """None is wider than 1,920 pixels; librdkafka's was 3,115."""
    width = re.search(r'<svg width="(\d+)pt"', (FOLDER / f"{table.name}.svg").read_text(encoding="utf-8"))
    assert width
    assert int(width[1]) * 4 / 3 <= 1_920


@TABLES
def test_effects_on_edges_strike_nothing_either(table: Table) -> None:
    """With the effects behind the events labels are three times as long."""
    assert list(defects(svg(picture(table, view=View(effects=True))))) == []


def test_plantuml_draws_lines_that_go_back_upwards(door: Table) -> None:
    """The order of the table is the reading order: back to the initial state is up, on is down, a loop is neither."""
    lines = render(door, "plantuml").decode().splitlines()
    assert "AJAR -up-> CLOSED : SLAMMED (D5)\\nPULLED (D10)" in lines
    assert "AJAR --> WIDE : PUSHED (D2)" in lines
    assert "CLOSED --> CLOSED : PULLED (D4)" in lines
