"""Profiles of the leader's assignor: what Kafka ships, and what the document's scenarios say.

The scenarios of the design document under-determine an algorithm. Named rules close the gap: `SHIPPED` has none of
them and is Kafka's code; `DOCUMENT` has them all and gives every round of the document exactly. Code asks
`Rule.X in profile`; nothing else knows a profile.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fsm.errors import InputError


class Rule(Enum):
    """One rule in which the document differs from what is shipped; the value is what holds with it."""

    DELAY_SURVIVES_LEADER = "a leader without memory goes on with the delay that the members report as remaining"
    """Shipped: it knows nothing, so all that nobody owns is new and placed at once. The rule needs members that report
    the time that remains; shipped ones report the delay of their last assignment, not when they got it."""
    TOTAL_BALANCE = "a worker's load is the number of its units of either kind"
    """Shipped: connectors and tasks are balanced apart."""
    TAIL_REVOKED = "a worker keeps the first units in config order and gives up the rest"
    """Shipped: it gives up the front of its list."""
    TASKS_PLACED_FIRST = "tasks are placed before connectors, each on the worker with the fewest units, ties by id"
    """Shipped: connectors first, dealt in the order of the workers' initial counts of that kind."""
    EAGER_STEP_STOPS = "a step from a cooperative to an eager round stops what the worker does not hold any more"
    """Shipped: it goes on running beside the worker that got it (KAFKA-13816). With the rule it may still run on both
    until the last worker has synced: nobody waits for the others' stops in an eager round."""


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
        raise InputError(f"no profile {name!r} of Connect", remedy=f"choose from {', '.join(found)}")
    return found[name]
