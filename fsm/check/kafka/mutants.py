"""Mutation subjects of Kafka's groups besides their tables: rules that are functions, and choices of dialects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from types import FunctionType
from typing import Any

from fsm.check.model import Model
from fsm.check.mutation import replace_function
from fsm.check.mutation_operators import Flips, RecordedChoices, find_rules
from fsm.check.mutation_score import Subject
from fsm.connect import dialect as profiles
from fsm.coordinator.model import dialect as coordinators
from fsm.member.dialect import choices as members
from fsm.member.dialect import dialect as member_dialects

CONSUMER = (
    "fsm.member.consumer.decisions",
    "fsm.member.consumer.effects",
    "fsm.coordinator.consumer.membership",
    "fsm.coordinator.consumer.reconciliation",
    "fsm.coordinator.consumer.heartbeat",
    "fsm.coordinator.consumer.member_update",
)
CLASSIC = (
    "fsm.member.classic.decisions",
    "fsm.coordinator.classic.join",
    "fsm.coordinator.classic.requests",
)
RULES = {
    "consumer-group": CONSUMER,
    "classic-group": CLASSIC,
    "mixed-group": (
        *CONSUMER,
        *CLASSIC,
        "fsm.coordinator.migration.classic_members",
        "fsm.coordinator.migration.conversion",
    ),
    "connect": ("fsm.connect.worker.state", "fsm.coordinator.classic.join", "fsm.coordinator.classic.requests"),
}
"""The modules with the rules of each model."""
COMPUTING = {"connect": ("fsm.connect.assignor.incremental", "fsm.connect.worker.step")}
"""The modules whose computed values are mutated as well."""


def subject(name: str, make: Callable[[], Model]) -> Subject:
    """The mutation subject of a model of the catalog, or of one of tables alone."""
    if name not in RULES:
        return Subject(make)
    return Subject(make, rules_of(name), COMPUTING.get(name, ()), _FLIPS, _record_choices)


def rules_of(name: str) -> list[FunctionType]:
    """The functions of a model that decide, check or are about an epoch."""
    return find_rules(map(import_module, RULES[name]), map(import_module, COMPUTING.get(name, ())))


def _flip_member(choice: Any) -> Any:
    def flip(original: Any, *given: Any) -> Any:
        found = original(*given)
        return member_dialects.custom(found.name, found.choices ^ {choice})

    return replace_function(member_dialects.dialect, flip)


def _flip_coordinator(choice: Any) -> Any:
    def flip(original: Any, *given: Any) -> Any:
        found = original(*given)
        return coordinators.Dialect(found.name, found.choices ^ {choice})

    return replace_function(coordinators.dialect, flip)


def _flip_profile(rule: Any) -> Any:
    def flip(original: Any, *given: Any) -> Any:
        found = original(*given)
        return profiles.Profile(found.name, found.rules ^ {rule})

    return replace_function(profiles.profile, flip)


_FLIPS = (
    Flips("profile", tuple(profiles.Rule), _flip_profile),
    Flips("client", tuple(members.Choice), _flip_member),
    Flips("coordinator", tuple(coordinators.Choice), _flip_coordinator),
)


def _record_choices(asked: dict[str, set[Any]]) -> ExitStack:
    """Makes dialects record which of their choices are read."""
    stack = ExitStack()
    stack.enter_context(_record_choices_of(asked, "client", member_dialects, member_dialects.dialect))
    stack.enter_context(_record_choices_of(asked, "coordinator", coordinators, coordinators.dialect))
    stack.enter_context(replace_function(profiles.profile, partial(_note_profile, asked)))
    return stack


def _note_profile(asked: dict[str, set[Any]], original: Any, *given: Any) -> Any:
    found = original(*given)
    rules = RecordedChoices(found.rules)
    rules.asked = asked.setdefault("profile", set())
    return profiles.Profile(found.name, rules)


@contextmanager
def _record_choices_of(asked: dict[str, set[Any]], side: str, module: Any, function: Any) -> Iterator[None]:
    def note(original: Any, *given: Any) -> Any:
        found = original(*given)
        choices = RecordedChoices(found.choices)
        choices.asked = asked.setdefault(side, set())
        rest = (found.table,) if hasattr(found, "table") else ()
        return module.Dialect(found.name, choices, *rest)

    with replace_function(function, note):
        yield
