"""The explorer's page as text, and the diagrams that it lights: what they hold, and what they allow."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from fsm.check.catalog import make_model
from fsm.document import from_yaml
from fsm.explore import ModelSession
from fsm.explore.documents import diagram, page
from fsm.table import Symbol, Table, row
from fsm.tables import ALL, find

TWO_STATES = """
fsm: 1
name: {name}
states: {{OPEN: one can pass, SHUT: nobody can}}
events: {{PUSHED: somebody pushed}}
initial: SHUT
rows:
  - {{states: [SHUT], events: [PUSHED], steps: [OPEN]}}
  - {{states: [OPEN], events: [PUSHED], steps: [SHUT]}}
"""
HOSTILE = "</script><script>document.body.dataset.pwned = 1</script>{{key}}"


def opening(**fields: Any) -> dict[str, Any]:
    """An opening of a real model, with some of it otherwise."""
    return {**ModelSession(make_model("lock")).opening(), **fields}


def held(html: str) -> Any:
    """The documents in a page."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    return json.loads(text)


def parts(html: str) -> dict[str, str]:
    """The policy, style and script of a page."""
    found = {
        "policy": r'http-equiv="Content-Security-Policy" content="([^"]*)"',
        "style": r"<style>(.*?)</style>",
        "script": r"<script>(.*?)</script>",
    }
    return {name: re.findall(pattern, html, re.DOTALL)[0] for name, pattern in found.items()}


@pytest.mark.parametrize("made", [page(key="k3y"), page(opening())], ids=["served", "a file"])
def test_the_policy_allows_this_style_and_this_script_only(made: str) -> None:
    """Both stand by their hashes, nothing runs from an attribute, and nothing of the page leads elsewhere."""
    found = parts(made)
    for what in ("style", "script"):
        digest = b64encode(sha256(found[what].encode()).digest()).decode()
        assert f"{what}-src 'sha256-{digest}'" in found["policy"]
    assert "unsafe" not in found["policy"]
    assert ("connect-src 'self'" in found["policy"]) is (held(made) is None)
    markup = re.sub(r"<(style|script)[^>]*>.*?</\1>", "", made, flags=re.DOTALL)
    assert not re.findall(r"\s(?:on\w+|style|src|action)=", markup)
    assert re.findall(r"href=\"([^\"]*)\"", markup) == ["data:,"]
    assert set(re.findall(r"https?://[\w./-]*", found["script"] + found["style"])) == {"http://www.w3.org/2000/svg"}


def test_the_same_documents_give_the_same_page_and_nothing_in_them_ends_its_script() -> None:
    """A title may hold anything: it is text, and no place to be filled."""
    made = page(opening(title=HOSTILE), key="k3y")
    assert made == page(opening(title=HOSTILE), key="k3y")
    assert held(made)["opening"]["title"] == HOSTILE
    assert made.count("<script") == 2
    assert "<title>&lt;/script&gt;" in made
    assert made.count("k3y") == 1


def test_a_file_has_its_steps_without_positions_and_nothing_can_be_chosen_in_it() -> None:
    """A position on the way is for those who ask a server; a file adds up what the steps changed."""
    session = ModelSession(make_model("lock"), [0, 0])
    steps = session.steps(0, 9)["steps"]
    made = held(page(session.opening(), [{**step, "position": {}} for step in steps]))
    assert made["steps"] == steps
    assert (made["opening"]["can_branch"], made["opening"]["length"]) == (False, 2)


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
def test_a_diagram_names_every_state_and_every_hop(table: Table) -> None:
    """The page finds what it lights by the table's own names, in all copies of a drawing."""
    drawn = diagram(table)
    root = ET.fromstring(drawn)  # noqa: S314
    states = [each.get("data-state") for each in root.iter() if each.get("data-state")]
    assert sorted(states) == sorted(state.name for state in table.leaves())
    hops = {tuple(pair) for each in root.iter() for pair in json.loads(each.get("data-hops", "[]"))}
    taken = {(state.name, cell.path[0].name) for (state, _), cell in table.compiled.items() if cell.path}
    assert {(a, b) for a, b in taken if a != b} <= hops
    assert not re.findall(r"\s(?:id|style|href|on\w+)=|<(?:script|style|metadata|a)\b|xlink", drawn)


def test_a_diagram_of_a_table_with_hostile_names_is_well_formed_and_has_them() -> None:
    """Names that are markup, or break out of an attribute, stand in the drawing as they are."""
    names = ['A"B', "<b>&amp;</b>", "]]></svg><script>", "\\N", "日本", "start", "a\u202eb"]
    states = list(Symbol("Hostile", {name: name for name in names}))  # type: ignore[arg-type]
    events = list(Symbol("Attack", {f"on {name}": name for name in names}))  # type: ignore[arg-type]
    ring = zip(states, events, [*states[1:], states[0]], strict=True)
    drawn = diagram(Table(name='ho"st', initial=states[0], rows=tuple(row(a, on, b) for a, on, b in ring)))
    root = ET.fromstring(drawn)  # noqa: S314
    assert sorted(each.get("data-state") or "" for each in root.iter() if each.get("data-state")) == sorted(names)
    assert not any(each.tag.endswith("script") for each in root.iter())


def test_a_users_table_with_the_name_of_a_shipped_one_is_drawn_as_it_is() -> None:
    """What came with the package is taken only where it is of this very table."""
    mine = diagram(from_yaml(TWO_STATES.format(name="consumer-member")))
    assert sorted(re.findall(r'data-state="(\w+)"', mine)) == ["OPEN", "SHUT"]
    assert len(diagram(find("consumer-member"))) > 5 * len(mine)


def test_without_the_dot_program_only_what_came_with_the_package_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of one's own then has no diagram, and the page names its states."""
    monkeypatch.setenv("PATH", "/nowhere")
    assert diagram(from_yaml(TWO_STATES.format(name="door"))) == ""
    assert "data-state" in diagram(find("connect-worker"))
