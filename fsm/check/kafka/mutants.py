"""Mutation subjects of Kafka's groups besides their tables: rules that are functions, and choices of dialects."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import FunctionType

from fsm.check.model import Model
from fsm.check.mutation_operators import Dialects, find_rules
from fsm.check.mutation_score import Subject
from fsm.connect import dialect as profiles
from fsm.coordinator.model import dialect as coordinators
from fsm.member.dialect import dialect as members
from fsm.member.dialect.choices import Choice as MemberChoice

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
    return Subject(make, rules_of(name), COMPUTING.get(name, ()), _DIALECTS)


def rules_of(name: str) -> list[FunctionType]:
    """The functions of a model that decide, check or are about an epoch."""
    return find_rules(map(import_module, RULES[name]), map(import_module, COMPUTING.get(name, ())))


_DIALECTS = (
    Dialects("profile", profiles.Rule, profiles.profile, "rules"),
    Dialects("client", MemberChoice, members.dialect, make=members.custom),
    Dialects("coordinator", coordinators.Choice, coordinators.dialect),
)
