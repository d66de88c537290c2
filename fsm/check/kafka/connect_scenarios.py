"""The five scenarios of KIP-415, each from a cluster that has settled: what its workers do, each when it pleases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fsm.check.model import Model, Path
from fsm.check.walk import Walk
from fsm.errors import InputError

CONNECTORS = {"A": 2, "B": 1}
"""With their tasks, in each of the scenarios."""


class Scenario(NamedTuple):
    """Who is there at first, the leader first, and what some of the three workers do, once and undisturbed."""

    there: str
    story: Mapping[str, str]
    delayed: str = ""
    """Who does it while a delay of its own is in progress."""


SCENARIOS = {
    "non_first_new_member_joins": Scenario("a", {"b": "starts", "c": "starts"}),
    "worker_leaves": Scenario("abc", {"b": "stops"}),
    "worker_bounces": Scenario("abc", {"b": "is bounced"}),
    "leader_leaves": Scenario("abc", {"a": "stops"}),
    "leader_bounces": Scenario("abc", {"a": "is bounced", "b": "is bounced"}, "a"),
}
LAST = "initial rebalance delay is over"
"""First everybody joins."""
NOT_NOW = ("starts", "stops", "is bounced", "heartbeat interval is over")


def scenario_of(name: str) -> Scenario:
    """The scenario of that name. Raises `InputError` where there is none."""
    if name not in SCENARIOS:
        raise InputError(f"no scenario {name!r}", "--scenario", f"choose from {', '.join(SCENARIOS)}")
    return SCENARIOS[name]


def settle(model: Model, there: str) -> Path:
    """A way on which these workers come to rest, undisturbed; the first of them leads."""
    walk = Walk(model)
    for name in there:
        walk.take(f"{name} starts")
    while free := [one for one in walk.options() if not one.disturbance and one.action not in NOT_NOW]:
        walk.take(str(next((one for one in free if one.action != LAST), free[0])))
    return walk.path
