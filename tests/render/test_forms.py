"""Each text form of a table, byte for byte, and what it does to names that are markup."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from fsm.errors import InputError
from fsm.render import FORMS, read_drawing, render
from fsm.render.tables.dot import dot
from fsm.render.tables.graph import picture
from fsm.render.tables.markdown import index
from fsm.render.tables.svg import annotate, dot_hash, draw, read_dot_hash, svg
from fsm.table import Table
from fsm.tables import ALL

GOLDEN = Path(__file__).with_name("golden")
SVG = "{http://www.w3.org/2000/svg}"


def parsed(text: str | bytes) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314


@pytest.mark.parametrize("form", ["dot", "mermaid", "plantuml", "markdown"])
def test_the_door_in_each_form(door: Table, form: str) -> None:
    """The text is the reviewed one; `golden/` is changed by hand or by `fsm draw`, and read before it is committed."""
    assert render(door, form).decode() == (GOLDEN / f"door.{FORMS[form]}").read_text(encoding="utf-8")


@pytest.mark.parametrize("form", ["dot", "mermaid", "plantuml", "markdown"])
@pytest.mark.parametrize("table", ALL, ids=lambda t: t.name)
def test_the_same_table_gives_the_same_bytes(table: Table, form: str) -> None:
    """Drawn twice, a table gives one text, which ends in one newline."""
    first = render(table, form)
    assert first == render(table, form)
    assert first.endswith(b"\n")
    assert not first.endswith(b"\n\n")


def test_hostile_names_stay_inside_an_svg(hostile: Table) -> None:
    """`dot` accepts the names, the SVG is well formed, and every name is there as text, not as markup."""
    root = parsed(render(hostile, "svg"))
    texts = {element.text for element in root.iter(f"{SVG}text")}
    assert {"<b>&amp;</b>", 'A"B', "back\\slash\\", "-->", "日本", "[*]", "\N{REPLACEMENT CHARACTER}bell line"} <= texts
    drawn = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert drawn <= {"svg", "metadata", "g", "a", "title", "text", "path", "polygon", "polyline", "ellipse"}


def test_hostile_names_stay_inside_mermaid(hostile: Table) -> None:
    """Outside the title every line is words, codes and the few marks of the grammar; a note ends once."""
    lines = render(hostile, "mermaid").decode().splitlines()
    assert lines[0] == lines[2] == "---"
    assert json.loads(lines[1].removeprefix("title: ")) == '"T" --- </title> {x} \\N \\'
    plain = re.compile(r'(?:[A-Za-z0-9_ ,.()/+.]|#\d+;|<br/>|-->|\[\*\]|^ +state "[^"]*" as \w+$|(?<=\w) : |fill:#)*')
    for line in lines[4:]:
        assert plain.fullmatch(line), line
    assert sum(line.strip() == "end note" for line in lines) == 1


def test_hostile_names_stay_inside_plantuml(hostile: Table) -> None:
    """No line starts a directive or ends the diagram early; quotes, angles and percent signs are codes."""
    text = render(hostile, "plantuml").decode()
    lines = text.splitlines()
    assert [line for line in lines if line.startswith(("@", "!"))] == ["@startuml", "@enduml"]
    assert not re.search(r"%|<(?!U\+[0-9A-F]{4,6}>)", text)
    assert all(line.count('"') in {0, 2} for line in lines)


def test_hostile_names_stay_inside_their_markdown_cell(hostile: Table) -> None:
    """Every line of a grid has as many cells as its head: no name splits a cell or ends a row."""
    width = 0
    for line in render(hostile, "markdown").decode().splitlines():
        if not line.startswith("|"):
            width = 0
            continue
        cells = len(re.findall(r"(?<!\\)\|", line))
        width = width or cells
        assert cells == width, line
        assert "<b>" not in re.sub(r"`[^`]*`", "", line)


def test_the_index_lists_every_table() -> None:
    """One line for each table with links to its page and its files."""
    text = index(ALL)
    for table in ALL:
        assert f"[{table.name}]({table.name}.md)" in text
        assert f"[svg]({table.name}.svg)" in text


def test_markdown_cuts_nothing() -> None:
    """Every clause, note and reason of every table is on its page."""
    for table in ALL:
        page = re.sub(r"\\(.)", r"\1", render(table, "markdown").decode())
        for _, line in table.lines():
            for remark in (line.clause, getattr(line, "note", ""), getattr(line, "why", "")):
                assert " ".join(remark.split()) in page


def test_counts_and_marks_are_drawn(door: Table) -> None:
    """A count stands in bold on its edge and thickens it; an edge without traffic is dashed, a marked one is red."""
    lines = dot(picture(door, {("AJAR", "WIDE"): 1000}, [("WIDE", "AJAR")])).splitlines()
    label, *busy = [line for line in lines if 'id="door.AJAR.WIDE' in line]
    assert "<B>1,000</B>" in label
    assert all('penwidth="4.00"' in line for line in busy)
    _, *idle = [line for line in lines if 'id="door.WIDE.AJAR' in line]
    assert len(busy) == len(idle) == 2
    assert all('style="dashed"' in line and 'color="#d64545"' in line for line in idle)


def test_an_svg_names_the_dot_it_was_drawn_from(door: Table) -> None:
    """The hash is that of the DOT form; a drawing of anything else carries another or none."""
    assert read_dot_hash(svg(picture(door))) == dot_hash(render(door, "dot").decode())
    assert read_dot_hash("<svg></svg>") == ""


def test_without_the_dot_program_svg_and_png_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty PATH gives one line that names the program and the forms that do without it."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match=r"the dot program is not on PATH, and svg needs it; install Graphviz, or"):
        draw("digraph {}", "svg")


def test_what_dot_refuses_is_one_line() -> None:
    """A text that is no DOT gives the first line of what the program said."""
    with pytest.raises(InputError, match=r"^dot refused the diagram: .*syntax error[^\n]*$"):
        draw("digraph {", "svg")


def counted(text: str) -> dict[str, str]:
    """Edge id -> the count written on it."""
    groups = [g for g in parsed(text).iter(f"{SVG}g") if g.get("class") == "edge"]
    badges = {g.get("id", ""): [b for b in g.iter(f"{SVG}g") if b.get("class") == "count"] for g in groups}
    return {name: "".join(t.text or "" for t in found[0].iter(f"{SVG}text")) for name, found in badges.items() if found}


def test_annotate_writes_a_count_on_every_edge(door: Table) -> None:
    """Edges get their counts, the frame's edge the sum of its states', every other edge a zero."""
    counts = {("AJAR", "WIDE"): 12345, ("AJAR", "BROKEN"): 3, ("LOCKED", "BROKEN"): 1}
    found = counted(annotate(svg(picture(door)), counts))
    assert (found["door.AJAR.WIDE"], found["door.any_1.BROKEN"], found["door.WIDE.AJAR"]) == ("12,345", "4", "0")
    assert len(found) == len(picture(door).edges)


def test_annotate_lists_hops_that_the_table_lacks(door: Table) -> None:
    """LOCKED to WIDE is no edge of the door: it is written below, and the drawing grows to hold it."""
    before = svg(picture(door))
    root = parsed(annotate(before, {("LOCKED", "WIDE"): 7}))
    assert [t.text for t in root if t.tag == f"{SVG}text"] == ["Not in this table:", "LOCKED to WIDE: 7"]
    height = float(root.get("viewBox", "").split()[3])
    assert height > float(parsed(before).get("viewBox", "").split()[3])


def test_annotated_counts_cover_no_label_of_a_calm_drawing(door: Table) -> None:
    """The badge of an edge keeps clear of every text where its line leaves room."""
    root = parsed(annotate(svg(picture(door)), {}))
    badges = {
        "".join(t.text or "" for t in g.iter(f"{SVG}text")) for g in root.iter(f"{SVG}g") if g.get("class") == "count"
    }
    assert badges == {"0"}
    rects = [{k: float(r.get(k, "0")) for k in ("x", "y", "width", "height")} for r in root.iter(f"{SVG}rect")]
    for one in rects:
        overlapping = [
            other
            for other in rects
            if abs(one["x"] - other["x"]) < one["width"] and abs(one["y"] - other["y"]) < one["height"]
        ]
        assert overlapping == [one]


def test_annotate_refuses_what_was_not_drawn_here() -> None:
    """No XML, an SVG of others, and metadata of another shape are unusable input, not a traceback."""
    for text in ("no xml", "<svg xmlns='http://www.w3.org/2000/svg'/>", "<svg><metadata>{}</metadata></svg>"):
        with pytest.raises(InputError, match="not a diagram drawn by `fsm draw`"):
            annotate(text, {})


@pytest.mark.parametrize("table", ALL, ids=lambda t: t.name)
def test_shipped_drawings_can_be_annotated(table: Table) -> None:
    """The packaged SVG of every table takes a count for each of its hops and lists none as a stranger."""
    columns = table.columns
    counts = {(columns.states[a], columns.states[b]): 2 for a, b, _ in columns.edges}
    text = annotate(read_drawing(table.name, "svg"), counts)
    total = sum(int(count) for count in counted(text).values())
    assert total == 2 * len(counts)
    assert "Not in this table" not in text


def test_shipped_refuses_what_is_not_there_and_what_is_elsewhere() -> None:
    """An unknown name, and a name that climbs out of the folder."""
    for name in ("no-such-table", "../fsm/table", "../README"):
        with pytest.raises(InputError, match="comes with this package"):
            read_drawing(name, "md")
