"""How a bug of the zoo is planted: one small patch each, on production rules or rows of tables, undone after."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from fsm.check.kafka import consumer_group

Patches = list[AbstractContextManager[Any]]
PLANTS: dict[str, Callable[[], Patches]] = {}
"""What each plant patches, by the id of the bug."""


def plant(bug: str) -> Callable[[Callable[[], Patches]], Callable[[], Patches]]:
    """Registers a function that gives the patches of a bug."""

    def register(patches: Callable[[], Patches]) -> Callable[[], Patches]:
        assert bug not in PLANTS, f"{bug} is planted twice"
        PLANTS[bug] = patches
        return patches

    return register


def planted(bug: str) -> ExitStack:
    """The bug is there until the `with` ends."""
    stack = ExitStack()
    for one in PLANTS[bug]():
        stack.enter_context(one)
    return stack


def broker_settings(changed: dict[str, Any]) -> AbstractContextManager[Any]:
    """No part of a bug: another assignor makes targets turn back more often, a small group is soon full."""
    known = {name: tuple(value) if isinstance(value, list) else value for name, value in changed.items()}
    return patch.object(consumer_group, "SETTINGS", replace(consumer_group.SETTINGS, **known))
