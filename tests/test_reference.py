"""`diagrams/dialects.md`, `hazards.md` and `clauses.md`: every number that code, tests and tables cite has an entry."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from fsm.coordinator.model.dialect import Choice
from fsm.kit.checks import CHECKS
from fsm.protocol.releases import LATEST
from fsm.reference import CLAUSES, SECTIONS, pages, parts
from fsm.reference.entries import HAZARDS
from fsm.tables import ALL

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"\b[FHIAGW]\d{1,2}[a-d]?\b")
ROWS = {"A0", "A1", "G9"}
"""Units of Connect and rows of the consumer member's table, which have such names, too."""


def texts(path: Path) -> Iterator[str]:
    """Comments, docstrings, strings that are nothing but numbers, and numbers in brackets in any string."""
    source = path.read_text(encoding="utf-8")
    if not NUMBER.search(source):
        return
    yield from re.findall(r"(?:^|\s)# (.*)", source)
    nodes = list(ast.walk(ast.parse(source)))
    docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and NUMBER.search(node.value):
            is_data = "tables" not in path.parts and re.fullmatch(rf"({NUMBER.pattern} ?)+", node.value)
            yield node.value if id(node) in docs or is_data else " ".join(re.findall(r"\(([HFW]\d+)\)", node.value))


@cache
def explained() -> set[str]:
    """The numbers that have an entry, or are those of a check of the kit."""
    flags = {flag.number for part in parts() for flag in part.flags}
    return flags | set(CHECKS) | {entry.number for section in SECTIONS for entry in section.entries}


def test_every_number_that_is_cited_has_an_entry() -> None:
    """Docstrings, comments and numbers as data, in the package and in its tests."""
    modules = [path for folder in ("fsm", "tests") for path in sorted((ROOT / folder).rglob("*.py"))]
    cited = {(n, str(m.relative_to(ROOT))) for m in modules for text in texts(m) for n in NUMBER.findall(text)}
    assert len({number for number, _ in cited}) > 80
    assert sorted((n, module) for n, module in cited if n not in explained() | ROWS) == []


def test_every_entry_is_shown_by_a_test_there_is() -> None:
    """Each flag, hazard, weak spot and invariant names a function of this folder, itself or with its section."""
    shown = [(flag.name, flag.tests) for part in parts() for flag in part.flags]
    shown += [(entry.number, (*section.tests, *entry.tests)) for section in SECTIONS for entry in section.entries]
    for name, tests in shown:
        assert tests, name
        for test in tests:
            path, _, function = test.partition("::")
            assert f"\ndef {function}(" in (ROOT / path).read_text(encoding="utf-8"), (name, test)


def test_hazards_hold_for_the_releases_that_their_tests_show() -> None:
    """A test's mark gives the first and the last release with the hazard, none where it is open; so does the page."""
    module = ast.parse((ROOT / "tests/member/test_hazards.py").read_text(encoding="utf-8"))
    marks: dict[str, set[tuple[str, str]]] = {}
    for test in (node for node in module.body if isinstance(node, ast.FunctionDef)):
        for mark in test.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.hazard":
                first, last = (*(ast.literal_eval(argument) for argument in mark.args), LATEST)[:2]
                marks.setdefault(test.name.split("_")[1].upper().replace("B", "b"), set()).add((first, last))
    releases = {entry.number: {(entry.first, entry.last)} for entry in HAZARDS.entries if entry.last}
    assert marks == releases


def test_every_flag_of_the_coordinator_is_there() -> None:
    """With its ticket and what held before."""
    page = pages()["dialects.md"].decode()
    for choice in Choice:
        line = next(line for line in page.splitlines() if f"`{choice.name}`" in line)
        assert choice.ticket in line
        assert f'<a id="{choice.flag.lower()}"></a>' in page


def test_anchors_are_unique_and_links_lead_to_them() -> None:
    """What one page says of the other is found there; so are the files of tests."""
    found = {name: page.decode() for name, page in pages().items()}
    anchors = {name: re.findall(r'<a id="([^"]+)">', page) for name, page in found.items()}
    for name, page in found.items():
        assert len(set(anchors[name])) == len(anchors[name])
        for target in re.findall(r"\]\(([^)]+)\)", page):
            file, _, anchor = target.partition("#")
            assert (ROOT / "diagrams" / file).is_file(), target
            assert not anchor or anchor in anchors[file], target


def test_numbers_known_to_others_have_their_anchors() -> None:
    """Anchors that documents and other modules link to."""
    page = pages()["hazards.md"].decode()
    for anchor in ("h17", "h2b", "w3", "i12", "g2", "a5", "group-16", "connect-i4", "connect-w6"):
        assert f'<a id="{anchor}"></a>' in page


def test_every_clause_of_the_coordinators_tables_is_explained() -> None:
    """A clause names several rules; the later ones may leave out the section of the one before."""
    for table in (t for t in ALL if "group" in t.name):
        known = {n for c in CLAUSES if table.name in c.tables for e in c.entries for n in e.number.split(", ")}
        for clause in {line.clause for _, line in table.lines()}:
            before = ""
            for rule in re.split("[,;/] ?", clause):
                number = rule.partition(" ")[0]
                forms = (rule, number, f"{before} {rule}", f"{before}-{rule}")
                assert rule == "EMPTY" or any(form in known for form in forms), (table.name, clause, rule)
                before = number.partition("-")[0] if number[0].isdigit() else before
