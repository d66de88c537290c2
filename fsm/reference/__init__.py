"""The meaning of numbers in code and tests: dialect rules, hazards, weak spots, facts of real logs and invariants.

* `parts`, `parts_with`, `Part`, `Flag`: the dialects of each part of the protocols, and their rules
* `SECTIONS`, `Section`, `Entry`: the numbered facts, each with its releases and tests
* `CLAUSES`, `Clauses`, `Clause`: the rules that rows of the coordinator's tables cite
* `pages`: `dialects.md`, `hazards.md`, `clauses.md` and `clients.md`, which `fsm draw` writes

A number is an anchor on its page: `diagrams/dialects.md#f18`, `diagrams/hazards.md#h17`.
"""

from typing import TYPE_CHECKING

from fsm.exports import on_demand
from fsm.reference.clauses import CLAUSES, Clause, Clauses
from fsm.reference.entries import SECTIONS, Entry, Section

if TYPE_CHECKING:
    from fsm.reference.dialects import Flag, Part, parts, parts_with
    from fsm.reference.markdown import pages

__all__ = [
    "CLAUSES",
    "SECTIONS",
    "Clause",
    "Clauses",
    "Entry",
    "Flag",
    "Part",
    "Section",
    "pages",
    "parts",
    "parts_with",
]

__getattr__, __dir__ = on_demand(
    __name__, {"dialects": ("Flag", "Part", "parts", "parts_with"), "markdown": ("pages",)}
)
