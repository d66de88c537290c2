"""Profiles of the leader's assignor: Kafka's rules, and those of the document's scenarios.

The scenarios of the design document under-determine an algorithm. Named rules close the gap: `SHIPPED` has none of them
and is Kafka's code; `DOCUMENT` has all of them and reproduces every round of the document. Code checks `Rule.X in
profile`; nothing else depends on a profile.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fsm.errors import InputError


class Rule(Enum):
    """One rule in which the document differs from Kafka; the value is the text of the rule."""

    DELAY_SURVIVES_LEADER = "a leader without memory goes on with the delay that the members report as remaining"
    """Shipped: it has no memory, so all unowned units are new and placed at once. The rule needs members that report
    the remaining time; Kafka's report the delay of their last assignment, not when they got it.
    """
    TOTAL_BALANCE = "a worker's load is the number of its units of either kind"
    """Shipped: connectors and tasks are balanced separately."""
    TAIL_REVOKED = "a worker keeps the first units in config order and gives up the rest"
    """Shipped: it loses the front of its list."""
    TASKS_PLACED_FIRST = "tasks are placed before connectors, each on the worker with the fewest units, ties by id"
    """Shipped: connectors first, dealt in the order of the workers' initial counts of that kind."""
    EAGER_STEP_STOPS = "a step from a cooperative to an eager round stops what the worker does not hold any more"
    """Shipped: it keeps running beside the worker that got it (KAFKA-13816). With the rule it may still run on both
    until the last worker has synced: in an eager round no worker waits for the others' stops.
    """


@dataclass(frozen=True, slots=True)
class Profile:
    """A named set of rules."""

    name: str
    rules: frozenset[Rule]

    def __contains__(self, rule: Rule) -> bool:
        return rule in self.rules


SHIPPED = Profile("shipped", frozenset())
"""Kafka 3.7 to 4.4."""
DOCUMENT = Profile("document", frozenset(Rule))
"""The five scenarios of the design document, round by round."""


def profile(name: str = SHIPPED.name) -> Profile:
    """The profile of that name.

    Raises:
        InputError: there is none; the text names those there are.
    """
    found = {each.name: each for each in (SHIPPED, DOCUMENT)}
    if name not in found:
        raise InputError(f"unknown profile {name!r} of Connect", remedy=f"choose from {', '.join(found)}")
    return found[name]
