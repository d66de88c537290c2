"""The five scenarios of KIP-415, each beginning with a stable cluster; workers act in any order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fsm.check.model import Model, Path
from fsm.check.walk import Walk
from fsm.errors import InputError

CONNECTORS = {"A": 2, "B": 1}
"""The connectors of each scenario, with their numbers of tasks."""


class Scenario(NamedTuple):
    """The workers at the beginning, the leader first, and the single action of some of the three workers."""

    there: str
    story: Mapping[str, str]
    delayed: str = ""
    """The worker that acts while its scheduled rebalance delay is in progress."""


SCENARIOS = {
    "non_first_new_member_joins": Scenario("a", {"b": "starts", "c": "starts"}),
    "worker_leaves": Scenario("abc", {"b": "stops"}),
    "worker_bounces": Scenario("abc", {"b": "is bounced"}),
    "leader_leaves": Scenario("abc", {"a": "stops"}),
    "leader_bounces": Scenario("abc", {"a": "is bounced", "b": "is bounced"}, "a"),
}
LAST = "initial rebalance delay is over"
"""The step that is taken last, so that all workers have joined before."""
NOT_NOW = ("starts", "stops", "is bounced", "heartbeat interval is over")


def scenario_of(name: str) -> Scenario:
    """The scenario of that name. Raises `InputError` if there is none."""
    if name not in SCENARIOS:
        raise InputError(f"no scenario {name!r}", "--scenario", f"choose from {', '.join(SCENARIOS)}")
    return SCENARIOS[name]


def settle(model: Model, there: str) -> Path:
    """A path without disturbances to a stable cluster of these workers, led by the first one."""
    walk = Walk(model)
    for name in there:
        walk.take(f"{name} starts")
    while free := [one for one in walk.options() if not one.disturbance and one.action not in NOT_NOW]:
        walk.take(str(next((one for one in free if one.action != LAST), free[0])))
    return walk.path
