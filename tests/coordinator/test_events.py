"""Which events of its tables the coordinator names: all, beside a few that cannot come up in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from fsm.coordinator.consumer import member_update
from fsm.table import Symbol
from fsm.tables import classic_group, consumer_group, consumer_group_member

FOLDER = Path(member_update.__file__).parents[1]
REFUSED = "a refusal undoes the whole step, the rows it took too: there is nothing to tell"
UNLOADED = "a consumer group delays no request, so nobody is answered when it goes from memory: there is no step"
UNNAMED: Mapping[type[Symbol], Mapping[str, str]] = {
    classic_group.Event: {
        "ASSIGNMENT_STORE_LATE": "a step and its records are one here: nothing happens while a record is being stored",
    },
    consumer_group.Event: {"ASSIGNOR_FAILED": REFUSED, "UNLOADED": UNLOADED},
    consumer_group_member.Event: {
        "HEARTBEAT_REFUSED": REFUSED,
        "REBALANCE_TIMEOUT_STALE": "a timer that finds another epoch is dropped before any table is asked",
        "UNLOADED": UNLOADED,
    },
}
"""What no step of the coordinator tells, by the tables' events, and why."""


def spelled(events: type[Symbol]) -> Iterator[str]:
    """Events that the coordinator's code names as members of this enumeration, under whatever name it imports it."""
    for path in sorted(FOLDER.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        imports = [one for one in nodes if isinstance(one, ast.ImportFrom) and one.module == events.__module__]
        known = {name.asname or name.name for one in imports for name in one.names if name.name == "Event"}
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
                yield node.attr


def composed() -> Iterator[str]:
    """Events of the group that are put together from what happened and the state that follows."""
    return (event.name for by_state in member_update._EVENTS.values() for event in by_state.values())


@pytest.mark.parametrize("events", UNNAMED, ids=lambda events: events.__module__.rpartition(".")[2])
def test_every_event_is_named_or_told_why_not(events: type[Symbol]) -> None:
    """An event that no code names is a row that no step takes: it stands above with its reason, and no other does."""
    named = {*spelled(events), *(composed() if events is consumer_group.Event else ())}
    assert {event.name for event in events} - named == UNNAMED[events].keys()
