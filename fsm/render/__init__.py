"""Pictures of tables: for files, for notebooks and for other tools.

* `FORMS`, `TEXTS`, `SHIPPED`: all forms of drawings, those without dependencies, those shipped with the package
* `render`: a table in one of the forms
* `get_graph`, `Graph`: a table, or a part of one, as a drawing for notebooks
* `read_drawing`: a shipped drawing

No renderer knows a table by name.

>>> from fsm.render import get_graph
>>> from fsm.tables import find
>>> graph = get_graph(find("rebalance-notes"), events=["REVOCATION_NEEDED"], lit="STABLE")
>>> "STABLE --> R1 : REVOCATION_NEEDED" in graph.render("mermaid").decode()
True
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from fsm.errors import InputError

if TYPE_CHECKING:
    from os import PathLike

    from fsm.render.tables.view import View
    from fsm.table import Symbol, Table

__all__ = ["FORMS", "SHIPPED", "TEXTS", "Graph", "get_graph", "read_drawing", "render"]

FORMS = {
    "dot": "dot",
    "svg": "svg",
    "png": "png",
    "mermaid": "mmd",
    "plantuml": "puml",
    "markdown": "md",
    "scxml": "scxml",
    "xstate": "xstate.json",
}
"""Forms of drawings -> the suffix of their files."""
TEXTS = ("dot", "mermaid", "plantuml", "markdown", "scxml", "xstate")
"""The forms that need neither the `graphviz` package nor its program `dot`."""
SHIPPED = ("dot", "svg", "mermaid", "plantuml", "markdown")
"""The forms that the package carries for each of its tables."""
_WHOLE_ONLY = ("markdown", "scxml", "xstate")


def render(table: Table, form: str, view: View | None = None) -> bytes:
    """The table, or the part of it in `view`, in one of `FORMS`.

    Raises `InputError` for a missing program or package, and for a view that the table or the form cannot show.
    """
    from fsm.render.tables.view import WHOLE

    view = view or WHOLE
    if form in _WHOLE_ONLY:
        if view != WHOLE:
            given = " and ".join(part for part, value in asdict(view).items() if value)
            forms = ", ".join(other for other in FORMS if other not in _WHOLE_ONLY)
            raise InputError(f"{form} has the whole table", remedy=f"leave out {given}, or choose from {forms}")
        return _page(table, form).encode()
    from fsm.render.tables.graph import picture

    drawn = picture(table, regions=form != "mermaid", view=view)
    if form in ("mermaid", "plantuml"):
        from fsm.render.tables import statetext

        return (statetext.mermaid if form == "mermaid" else statetext.plantuml)(drawn).encode()
    from fsm.render.tables.dot import dot
    from fsm.render.tables.svg import draw, svg

    if form == "svg":
        return svg(drawn).encode()
    return draw(dot(drawn), "png") if form == "png" else dot(drawn).encode()


def _page(table: Table, form: str) -> str:
    if form == "markdown":
        from fsm.render.tables.markdown import markdown

        return markdown(table)
    from fsm.render.tables import statetext

    return statetext.scxml(table) if form == "scxml" else statetext.xstate(table)


@dataclass(frozen=True, slots=True)
class Graph:
    """A drawing of a table that a notebook displays: as SVG, or without Graphviz as Mermaid."""

    table: Table
    view: View

    def __repr__(self) -> str:
        given = "".join(f", {part}={value!r}" for part, value in asdict(self.view).items() if value)
        return f"<Graph of {self.table.name}{given}>"

    def render(self, form: str) -> bytes:
        """The drawing in one of `FORMS`. Raises `InputError` as `fsm.render.render` does."""
        return render(self.table, form, self.view)

    def draw(self, filename: str | PathLike[str] | None, format: str | None = None, prog: str = "dot") -> bytes | None:  # noqa: A002  as in `transitions`
        """Writes the drawing to a file, as the graph of a `GraphMachine` of `transitions` does; None returns it.

        `format` is one of `FORMS`, by default that of the file's suffix. Raises `InputError` as `fsm.render.render`
        does, for an unknown format, and for another program than `dot`.
        """
        from pathlib import Path

        if prog != "dot":
            raise InputError(f"{prog} lays out no drawing of a table", remedy="leave out prog, or give dot")
        ending = Path(filename or "").suffix[1:]
        form = format or {suffix.rpartition(".")[2]: form for form, suffix in FORMS.items()}.get(ending, ending)
        if form not in FORMS:
            raise InputError(f"no form {form!r} of a drawing", str(filename or ""), f"choose from {', '.join(FORMS)}")
        drawn = self.render(form)
        if filename is None:
            return drawn
        beside = Path(filename).with_name(f".{Path(filename).name}.new")
        beside.write_bytes(drawn)
        beside.replace(filename)
        return None

    def _repr_svg_(self) -> str | None:
        try:
            return self.render("svg").decode()
        except InputError:
            return None

    def _repr_markdown_(self) -> str | None:
        """Markdown only if there is no SVG, because a notebook would prefer it."""
        return None if self._repr_svg_() else f"```mermaid\n{self.render('mermaid').decode()}```\n"


def get_graph(
    table: Table,
    *,
    title: str = "",
    events: Iterable[Symbol | str] = (),
    states: Iterable[Symbol | str] = (),
    path: Iterable[Symbol | str] = (),
    effects: bool = False,
    lit: Symbol | str = "",
) -> Graph:
    """The drawing of a table.

    Args:
        table: the table to draw.
        title: in place of the table's own.
        events: only these; all by default.
        states: only these, and the rows between them; all by default.
        path: events from the initial state on; only the path that they take.
        effects: whether labels have effects.
        lit: a state to mark with its ways out, such as a model's current one.

    Raises:
        InputError: the table has no such event or state, or a path leads nowhere.
    """
    from fsm.render.tables.view import View

    def names(members: Iterable[Symbol | str]) -> tuple[str, ...]:
        return tuple(member if isinstance(member, str) else member.name for member in members)

    view = View(names(events), names(states), names(path), effects, *names((lit,)))
    view.cells(table)
    return Graph(replace(table, title=title) if title else table, view)


def read_drawing(name: str, suffix: str) -> str:
    """The shipped drawing of a table, such as `read_drawing("consumer-member", "svg")`.

    Raises `InputError` if there is none.
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
