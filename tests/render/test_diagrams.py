"""The folder of diagrams: current, and every way in which it can fail to be."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from fsm import reference
from fsm.audit import picture as audit_picture
from fsm.check import catalog as check_catalog
from fsm.errors import InputError
from fsm.kit import documents as kit_documents
from fsm.render import SHIPPED
from fsm.render.tables import diagrams
from fsm.render.tables.diagrams import Difference, differences, drawings, index
from fsm.scenario import pictures
from fsm.simulate import picture as simulate_picture
from fsm.table import Table
from fsm.tables import ALL

TEXTS = ("dot", "mermaid", "plantuml", "markdown")
FOLDER = Path(__file__).parents[2] / "diagrams"
PLACES = (pictures, audit_picture, check_catalog, kit_documents, simulate_picture)
PICTURES = tuple(name for place in PLACES for name in place.PICTURES)


def fill(folder: Path, table: Table) -> None:
    for name, content in [*drawings([table], SHIPPED), *index([table], SHIPPED)]:
        (folder / name).write_bytes(content)


@pytest.mark.deep  # `make check` draws them all
def test_the_projects_diagrams_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables and pictures are drawn as they are now, and nothing else lies in `diagrams/`; if not: make diagrams."""
    monkeypatch.setattr(diagrams, "render", cache(diagrams.render))
    pages = reference.pages()
    drawn = (one for place in PLACES for one in place.shipped_pictures())
    further = dict((*drawn, *pages.items()))
    assert differences(FOLDER, ALL, SHIPPED, whole=True, further=further, pictures=PICTURES, pages=tuple(pages)) == []
    broken = {**further, "reconciliation-threads.svg": b"", "other.mmd": b""}
    assert differences(FOLDER, ALL, SHIPPED, whole=True, further=broken, pictures=PICTURES, pages=tuple(pages)) == [
        Difference("other.mmd", "missing"),
        Difference("reconciliation-threads.svg", "stale"),
    ]
    assert differences(FOLDER, ALL, SHIPPED, whole=True, further=further) == [Difference("README.md", "stale")]


def test_a_folder_just_drawn_has_no_difference(tmp_path: Path, door: Table) -> None:
    """What `drawings` gives is what `differences` wants."""
    fill(tmp_path, door)
    assert differences(tmp_path, [door], SHIPPED, whole=True) == []


@pytest.mark.parametrize("suffix", ["dot", "mmd", "puml", "md"])
def test_a_text_is_stale_from_one_byte_on(tmp_path: Path, door: Table, suffix: str) -> None:
    """A byte added at the very end is found."""
    fill(tmp_path, door)
    with (tmp_path / f"door.{suffix}").open("ab") as file:
        file.write(b"\n")
    assert differences(tmp_path, [door], SHIPPED, whole=True) == [Difference(f"door.{suffix}", "stale")]


def test_an_svg_is_compared_by_the_dot_it_was_drawn_from(tmp_path: Path, door: Table) -> None:
    """Another release of `dot` draws other bytes, which is no difference; another DOT is."""
    fill(tmp_path, door)
    drawing = tmp_path / "door.svg"
    text = drawing.read_text(encoding="utf-8")
    drawing.write_text(text.replace("</svg>", "<!-- moved a little --></svg>"), encoding="utf-8")
    assert differences(tmp_path, [door], SHIPPED, whole=True) == []
    drawing.write_text(text.replace('"dot_sha256":"', '"dot_sha256":"0')[:-1], encoding="utf-8")
    assert differences(tmp_path, [door], SHIPPED, whole=True) == [Difference("door.svg", "stale")]


def test_missing_and_surplus_files_are_all_listed(tmp_path: Path, door: Table) -> None:
    """A page gone, the index gone, a stranger there: three differences, sorted; hidden files do not count."""
    fill(tmp_path, door)
    (tmp_path / "door.md").unlink()
    (tmp_path / "README.md").unlink()
    (tmp_path / "window.dot").write_text("digraph {}", encoding="utf-8")
    (tmp_path / ".gitkeep").touch()
    assert differences(tmp_path, [door], SHIPPED, whole=True) == [
        Difference("README.md", "missing"),
        Difference("door.md", "missing"),
        Difference("window.dot", "surplus"),
    ]


def test_some_tables_alone_find_nothing_surplus(tmp_path: Path, door: Table) -> None:
    """Asked about one table, the others' files are none of its business."""
    fill(tmp_path, door)
    (tmp_path / "window.dot").write_text("digraph {}", encoding="utf-8")
    assert differences(tmp_path, [door], TEXTS, whole=False) == []


def test_a_name_that_is_no_file_name_is_refused(hostile: Table) -> None:
    """A table called `../x` would be written elsewhere."""
    climbing = Table("../x", hostile.initial, hostile.rows)
    with pytest.raises(InputError, match=r"\.\./x.*cannot be the name of a file"):
        list(drawings([climbing], TEXTS))
