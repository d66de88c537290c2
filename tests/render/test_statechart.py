"""SCXML and XState forms: they step as the table does, cell by cell, and are what their tools demand of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from fsm.errors import InputError
from fsm.render import TEXTS, render
from fsm.render.tables.view import View
from fsm.table import Table
from fsm.tables import ALL

SCXML = "{http://www.w3.org/2005/07/scxml}"
NCNAME = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*")
TABLES = pytest.mark.parametrize("table", ALL, ids=lambda t: t.name)
Step = tuple[str, tuple[str, ...]]
Steps = dict[tuple[str, str], Step]


def stepped(table: Table) -> Steps:
    """(state, event) -> the state afterwards and the effects, by the table itself."""
    return {
        (s.name, e.name): (cell.target.name, tuple(effect.name for effect in cell.effects))
        for (s, e), cell in table.compiled.items()
    }


def nodes_of(config: dict[str, Any], above: tuple[dict[str, Any], ...] = ()) -> Iterator[tuple[dict[str, Any], ...]]:
    """Each state of an XState configuration with all that hold it, innermost first."""
    for node in config.get("states", {}).values():
        yield (node, *above)
        yield from nodes_of(node, (node, *above))


def by_xstate(table: Table) -> Steps:
    """The same by the rules of XState: the innermost state that knows the event decides."""
    chains = list(nodes_of(json.loads(render(table, "xstate"))))
    by_id = {chain[0]["id"]: chain[0] for chain in chains}

    def leaf(node: dict[str, Any]) -> str:
        return leaf(node["states"][node["initial"]]) if "states" in node else node["id"]

    found: Steps = {}
    for chain in chains:
        if "states" in chain[0]:
            continue
        for event in {event for node in chain for event in node.get("on", {})}:
            taken = next(node["on"][event] for node in chain if event in node.get("on", {}))
            target = leaf(by_id[taken["target"].removeprefix("#")]) if "target" in taken else chain[0]["id"]
            found[chain[0]["id"], event] = target, tuple(taken.get("actions", ()))
    return found


def by_scxml(table: Table) -> Steps:
    """The same by the rules of SCXML."""
    root = ET.fromstring(render(table, "scxml"))  # noqa: S314
    above = {child: parent for parent in root.iter() for child in parent}
    states = {
        element.get("id", ""): element for element in root.iter() if element.tag in {f"{SCXML}state", f"{SCXML}final"}
    }

    def leaf(element: ET.Element) -> str:
        return leaf(states[element.get("initial", "")]) if element.get("initial") else element.get("id", "")

    found: Steps = {}
    for name, element in states.items():
        at: ET.Element | None = element
        while at is not None and not element.get("initial"):
            for transition in at.findall(f"{SCXML}transition"):
                raised = (each.get("event", "").removeprefix("effect.") for each in transition)
                target = leaf(states[transition.get("target", "")]) if transition.get("target") else name
                found.setdefault((name, transition.get("event", "")), (target, tuple(raised)))
            at = above.get(at)
    return found


@TABLES
@pytest.mark.parametrize("read", [by_xstate, by_scxml])
def test_the_exported_chart_steps_as_the_table_does(table: Table, read: Any) -> None:
    """Every cell, with its effects in their order; ignored events stay, and no event is known that the table lacks."""
    assert read(table) == stepped(table)


def test_nested_tables_step_alike_where_holders_speak_for_their_states(door: Table) -> None:
    """AJAR is kicked by a row of OPEN, and slammed by a row of OPEN whose effect comes first."""
    assert by_xstate(door) == by_scxml(door) == stepped(door)


@TABLES
def test_scxml_is_what_the_recommendation_demands(table: Table) -> None:
    """Ids are names, unique; initial states are children; targets exist; a final state has no transitions."""
    root = ET.fromstring(render(table, "scxml"))  # noqa: S314
    assert (root.tag, root.get("version"), root.get("datamodel")) == (f"{SCXML}scxml", "1.0", "null")
    assert re.fullmatch(r"[\w.:-]+", root.get("name", ""))
    states = [element for element in root.iter() if element.tag in {f"{SCXML}state", f"{SCXML}final"}]
    ids = [element.get("id", "") for element in states]
    assert len(set(ids)) == len(ids)
    assert all(NCNAME.fullmatch(name) for name in ids)
    for parent in [root, *(element for element in states if element.get("initial"))]:
        assert parent.get("initial") in [child.get("id") for child in parent]
    for transition in root.iter(f"{SCXML}transition"):
        assert re.fullmatch(r"[A-Za-z0-9_]+", transition.get("event", ""))
        assert transition.get("target", ids[0]) in ids
        assert all(child.tag == f"{SCXML}raise" for child in transition)
    assert not [element for element in states if element.tag == f"{SCXML}final" and len(element)]
    assert {element.get("id") for element in states if element.tag == f"{SCXML}final"} == {
        state.name for state in table.terminal if not any(pair[0] is state for pair in table.compiled)
    }


def test_what_is_passed_through_is_kept_beside_the_transition(door: Table) -> None:
    """LOCKED goes through CLOSED to OPEN in one step; neither language has that, both keep the name."""
    turned = json.loads(render(door, "xstate"))["states"]["LOCKED"]["on"]["KEY_TURNED"]
    assert turned == {
        "target": "#OPEN",
        "actions": ["CREAK"],
        "description": "D7: The spring opens it.",
        "meta": {"via": ["CLOSED"]},
    }
    assert b'<transition event="KEY_TURNED" target="OPEN" fsm:via="CLOSED" fsm:note="D7: ' in render(door, "scxml")


def test_a_performed_self_transition_is_entered_again(door: Table) -> None:
    """XState would stay inside without being told."""
    pulled = json.loads(render(door, "xstate"))["states"]["CLOSED"]["on"]["PULLED"]
    assert (pulled["target"], pulled["reenter"]) == ("#CLOSED", True)


@pytest.mark.parametrize("form", ["scxml", "xstate"])
def test_hostile_names_stay_names(hostile: Table, form: str) -> None:
    """Markup, quotes and control characters in names, notes and titles leave both documents whole."""
    text = render(hostile, form).decode()
    if form == "xstate":
        ids = [chain[0]["id"] for chain in nodes_of(json.loads(text))]
    else:
        ids = [element.get("id", "") for element in ET.fromstring(text).iter(f"{SCXML}state")]  # noqa: S314
    assert len(set(ids)) == len(hostile.leaves())
    assert all(NCNAME.fullmatch(name) for name in ids)


@pytest.mark.parametrize("form", ["markdown", "scxml", "xstate"])
def test_a_part_of_a_table_is_no_document(door: Table, form: str) -> None:
    """What other tools run, and the page that cuts nothing, are of the whole table."""
    assert form in TEXTS
    with pytest.raises(InputError, match=f"{form} has the whole table"):
        render(door, form, View(events=("PUSHED",)))
