"""The picture of a counterexample that the checker found by itself."""

from __future__ import annotations

from collections.abc import Iterator

from fsm.check.catalog import make_model
from fsm.check.story import diagram
from fsm.check.verdict import check
from fsm.render import sequence

PICTURES = ("late-request",)
"""Pictures that come with the package: of the shortest way in which a late request swallows a grant."""


def shipped_pictures() -> Iterator[tuple[str, bytes]]:
    """(file name, content) of each. A second of search."""
    verdict = check(make_model("consumer-group"), disturb=["late"], disturbances=1, properties=["the group settles"])
    drawing = diagram(verdict.violations[0])
    for suffix, draw in ((".svg", sequence.svg), (".mmd", sequence.mermaid), (".puml", sequence.plantuml)):
        yield f"{PICTURES[0]}{suffix}", draw(drawing).encode()
