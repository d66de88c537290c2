"""What the numbers in code and tests mean: dialect rules, hazards, weak spots, facts of real logs and invariants.

* `parts`, `parts_with`, `Part`, `Flag`: the dialects of each part of the protocols, and the rules that make them
* `SECTIONS`, `Section`, `Entry`: the numbered facts, each with its releases and the tests that show it
* `pages`: `dialects.md` and `hazards.md`, which `fsm draw` writes

A number is an anchor on its page: `diagrams/dialects.md#f18`, `diagrams/hazards.md#h17`.
"""

from fsm.reference.dialects import Flag, Part, parts, parts_with
from fsm.reference.entries import SECTIONS, Entry, Section
from fsm.reference.pages import pages

__all__ = ["SECTIONS", "Entry", "Flag", "Part", "Section", "pages", "parts", "parts_with"]
