"""Real bugs, planted one at a time: each is caught as it is pinned, or it is said why none of it can be seen."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bugzoo.catalogue import ENDS, bugs, caught, explore, shortest
from bugzoo.planting import CURES, PLANTS, planted

from fsm.member.consumer import decisions
from fsm.member.dialect.dialect import dialect
from fsm.tables.consumer_member import Event, State

CAUGHT = caught()
QUICK = sorted(bug for bug, how in CAUGHT.items() if not how.get("disturbances") and how["options"].get("members") != 3)


def found(bug: str) -> dict[str, Any] | None:
    one = shortest(explore(bug, CAUGHT[bug]))
    return None if one is None else one._asdict()


def test_every_bug_has_one_end() -> None:
    """It is caught, or nothing can see it; each with a plant or a reason."""
    entries = bugs()
    assert len({bug["id"] for bug in entries}) == len(entries) == 295
    for bug in entries:
        (end,) = (one for one in ENDS if one in bug)
        assert all(bug[part] for part in (end, "what", "buggy")), bug["id"]
    assert set(PLANTS) | set(CURES) == set(CAUGHT)
    assert {how["cure"] for how in CAUGHT.values() if "cure" in how} == set(CURES)


def settings(how: dict[str, Any]) -> str:
    """What a model is explored with, without what came of it."""
    return json.dumps({name: value for name, value in how.items() if name != "found"}, sort_keys=True)


@pytest.mark.parametrize("bug", [*QUICK[:6], *(pytest.param(bug, marks=pytest.mark.deep) for bug in QUICK[6:])])
@pytest.mark.loop(3)
def test_bugs_are_caught_undisturbed(bug: str) -> None:
    assert found(bug) == CAUGHT[bug]["found"]


@pytest.mark.slow
@pytest.mark.parametrize("bug", sorted(set(CAUGHT) - set(QUICK)))
def test_bugs_are_caught(bug: str) -> None:
    assert found(bug) == CAUGHT[bug]["found"]


def holds(how: str) -> bool:
    given = json.loads(how)
    found = explore(None, given)
    return found.word == "holds" or ("room" in given and not found.violations)


@pytest.mark.deep
def test_without_bugs_everything_holds() -> None:
    """So that what is found is the bug."""
    assert all(holds(how) for how in sorted({settings(CAUGHT[bug]) for bug in QUICK}))


@pytest.mark.slow
def test_without_bugs_everything_holds_disturbed() -> None:
    assert all(holds(how) for how in sorted({settings(how) for how in CAUGHT.values()}))


def test_plants_are_taken_out() -> None:
    cells = dialect("fixed").cells
    before = dict(cells), decisions.SILENT, decisions.may_join.__code__
    for bug in sorted(PLANTS):
        with planted(bug):
            pass
    assert (dict(cells), decisions.SILENT, decisions.may_join.__code__) == before
    assert cells.by_state[State.PREPARE_LEAVING][Event.ERR_FENCE] is cells[State.PREPARE_LEAVING, Event.ERR_FENCE]
