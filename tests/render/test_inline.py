"""State diagrams inside a page: several of them side by side, nothing in them that acts or leads outside."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from fsm.render.tables.svg import draw_counted, inline

DRAWING = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="75pt"
 height="30pt" viewBox="0 0 75 30" onload="alert(1)"><metadata>{}</metadata><script>alert(2)</script>
<defs><linearGradient id="fade"/><marker id="tip"/></defs>
<g id="node1"><rect fill="url(#fade)" width="9" height="9"/><a xlink:href="#tip"><text>STABLE</text></a>
<a xlink:href="https://example.org/"><text>out</text></a></g><foreignObject><b>x</b></foreignObject></svg>"""


def test_ids_of_two_drawings_do_not_collide() -> None:
    """Each drawing has ids of its own, and what refers to them follows."""
    first, second = inline(DRAWING, "d1-"), inline(DRAWING, "d2-")
    assert re.findall(r' id="([^"]*)"', first) == ["d1-fade", "d1-tip", "d1-node1"]
    assert not set(re.findall(r' id="([^"]*)"', first)) & set(re.findall(r' id="([^"]*)"', second))
    assert 'fill="url(#d1-fade)"' in first
    assert 'href="#d1-tip"' in first


def test_nothing_in_a_drawing_acts_or_leads_outside() -> None:
    """Scripts, handlers, foreign elements, metadata and links to other places are gone; texts stay."""
    drawn = inline(DRAWING, "d1-")
    for gone in ("script", "alert", "onload", "foreignObject", "metadata", "example.org"):
        assert gone not in drawn
    assert "".join(ET.fromstring(drawn).itertext()).split() == ["STABLE", "out"]  # noqa: S314


def test_a_drawing_keeps_its_size_in_pixels() -> None:
    """75 points are 100 pixels; the page may make it smaller, its shape stays."""
    root = ET.fromstring(inline(DRAWING, "d1-"))  # noqa: S314
    assert (root.get("style"), root.get("viewBox"), root.get("width")) == ("width:100px", "0 0 75 30", None)


def test_a_table_without_drawing_gives_none() -> None:
    """An unknown table and a name that is a path give no drawing and no error."""
    assert draw_counted("no-such-table", {}, "d1-") == ""
    assert draw_counted("../../etc/passwd", {}, "d1-") == ""
    assert draw_counted("a\0b", {}, "d1-") == ""


def test_the_packaged_drawing_carries_the_traffic() -> None:
    """The drawing of the consumer member comes with the package and shows how often an edge was taken."""
    drawn = draw_counted("consumer-member", {("JOINING", "RECONCILING"): 1207}, "d1-")
    ids = re.findall(r' id="([^"]*)"', drawn)
    assert ids
    assert all(name.startswith("d1-") for name in ids)
    assert "1,207" in "".join(ET.fromstring(drawn).itertext())  # noqa: S314
