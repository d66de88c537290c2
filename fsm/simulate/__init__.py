"""Whole deployments in virtual time: seeded runs with faults, of the production objects, under their invariants.

    deployment = read_file(Path("shop.yaml"))
    outcome = simulate(deployment, seed=1)
    outcome.totals(), outcome.hazards(), outcome.violations

* `read`, `read_file`, `write`, `write_machines`: deployments as YAML;
* `Deployment`, `Service`, `Broker`, `Deed`, `Rate`: their parts;
* `Machines`, `Part`, `Delay`: a deployment of your own machines;
* `simulate`, `Outcome`, `GroupOutcome`, `Truth`, `Violation`: a run, and its outcome.
"""

from __future__ import annotations

from fsm.simulate.deployment import Broker, Deed, Deployment, Rate, Service
from fsm.simulate.machines.deployment import Delay, Machines, Part
from fsm.simulate.outcome import GroupOutcome, Outcome, Truth, Violation
from fsm.simulate.reading import read, read_file
from fsm.simulate.run import simulate
from fsm.simulate.writing import write, write_machines

__all__ = [
    "Broker",
    "Deed",
    "Delay",
    "Deployment",
    "GroupOutcome",
    "Machines",
    "Outcome",
    "Part",
    "Rate",
    "Service",
    "Truth",
    "Violation",
    "read",
    "read_file",
    "simulate",
    "write",
    "write_machines",
]
