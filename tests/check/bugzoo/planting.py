"""How a bug of the zoo is planted: one small patch each, on production rules or rows of tables, undone after."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from fsm.check.kafka.classic import group as classic_group
from fsm.check.kafka.consumer import group as consumer_group
from fsm.check.kafka.mixed import group as mixed_group

CLASSIC = "CLASSIC_SETTINGS"

Patches = list[AbstractContextManager[Any]]
PLANTS: dict[str, Callable[[], Patches]] = {}
"""What each plant patches, by the id of the bug."""


BESIDE: dict[str, Callable[[], Patches]] = {}
"""What a bug needs beside itself to show, and the model bears without it: another client's fault, say."""
CURES: dict[str, Callable[[], Patches]] = {}
"""Of bugs that the rules have, what mends them; there is nothing to plant."""


Registers = Callable[[Callable[[], Patches]], Callable[[], Patches]]


def plant(bug: str) -> Registers:
    """Registers a function that gives the patches of a bug."""
    return _in(PLANTS, bug)


def beside(name: str) -> Registers:
    """Registers what bugs need beside themselves."""
    return _in(BESIDE, name)


def cure(bug: str) -> Registers:
    """Registers what mends a bug that the rules have."""
    return _in(CURES, bug)


def _in(registered: dict[str, Callable[[], Patches]], name: str) -> Registers:
    def register(patches: Callable[[], Patches]) -> Callable[[], Patches]:
        assert name not in registered, f"{name} is there twice"
        registered[name] = patches
        return patches

    return register


def planted(bug: str) -> ExitStack:
    """The bug is there until the `with` ends."""
    return _all(PLANTS.get(bug, list))


def around(how: dict[str, Any], bug: str | None) -> ExitStack:
    """What else is changed as a bug is caught so, or, where there is none, as the model is held against it."""
    stack = ExitStack()
    if "beside" in how:
        stack.enter_context(_all(BESIDE[how["beside"]]))
    if "cure" in how and bug is None:
        stack.enter_context(_all(CURES[how["cure"]]))
    return stack


def _all(patches: Callable[[], Patches]) -> ExitStack:
    stack = ExitStack()
    for one in patches():
        stack.enter_context(one)
    return stack


def broker_settings(changed: dict[str, Any]) -> ExitStack:
    """No part of a bug: another assignor makes targets turn back more often, a small group is soon full."""
    known = {name: tuple(value) if isinstance(value, list) else value for name, value in changed.items()}
    stack = ExitStack()
    for module, name in ((consumer_group, "SETTINGS"), (classic_group, CLASSIC), (mixed_group, CLASSIC)):
        stack.enter_context(patch.object(module, name, replace(getattr(module, name), **known)))
    return stack
