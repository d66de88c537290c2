"""Pictures of tables: one model of a picture (`graph`), and DOT, SVG, PNG, Mermaid, PlantUML and Markdown from it.

No renderer knows a table by name. `FORMS` lists what can be drawn, `shipped` gives the drawings that come with
the package, which need neither the `graphviz` package nor the `dot` program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsm.errors import InputError

if TYPE_CHECKING:
    from fsm.table import Table

FORMS = {"dot": "dot", "svg": "svg", "png": "png", "mermaid": "mmd", "plantuml": "puml", "markdown": "md"}
"""What can be drawn -> the suffix of its files."""
SHIPPED = ("dot", "svg", "mermaid", "plantuml", "markdown")
"""The forms that the package carries for each of its tables."""


def render(table: Table, form: str) -> bytes:
    """The table in one of `FORMS`. Raises `InputError` where a program or package that the form needs is missing."""
    if form == "markdown":
        from fsm.render.markdown import markdown

        return markdown(table).encode()
    from fsm.render.graph import picture

    if form == "mermaid":
        from fsm.render.mermaid import mermaid

        return mermaid(picture(table, regions=False)).encode()
    if form == "plantuml":
        from fsm.render.plantuml import plantuml

        return plantuml(picture(table)).encode()
    from fsm.render.dot import dot
    from fsm.render.svg import draw, svg

    if form == "svg":
        return svg(picture(table)).encode()
    text = dot(picture(table))
    return draw(text, "png") if form == "png" else text.encode()


def shipped(name: str, suffix: str) -> str:
    """The drawing of a table that came with the package, such as `shipped("consumer-member", "svg")`.

    Raises `InputError` where the package has none.
    """
    from importlib.resources import files
    from pathlib import Path

    file = f"{name}.{suffix}"
    checkout = Path(__file__).parents[2] / "diagrams"
    for folder in (files("fsm") / "diagrams", checkout):
        found = folder / file
        if Path(file).name == file and found.is_file():
            return found.read_text(encoding="utf-8")
    raise InputError(f"no diagram {file} comes with this package", remedy="`fsm tables` lists the tables")
