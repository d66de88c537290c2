"""Exhaustive checks of models: every state, every order of messages, a number of disturbances, shortest
counterexamples.

* `check`, `Verdict`, `Violation`, `PathStep`: a check, and its result
* `Model`, `Component`, `Choice`, `Step`, `Action`: the participants, and a step of a path
* `Look`, `InState`: more of a component's state than one line, for `fsm explore`
* `Wire`, `Queue`, `Disturbance`, `Fault`, `Notification`: the connections between them, and their faults
* `Received`, `Undelivered`, `Missed`: inputs of a component from a connection
* `Property`, `PairProperty`, `Goal`, `View`, `Condition`: properties
* `Limits`: limits of a check
* `Memo`, `Disk`: storage of tables between two runs; storage of a search that outgrows memory
* `Replayed`, `Path`: the result of a replay of a path by live objects
* `Walk`: a walk through a model, step by step
* `make_model`: a shipped model, by its name
* `compose`: tables that exchange messages, as a model
* `lines`, `tell`, `diagram`, `scenario`: a verdict as text; a counterexample as text, a sequence diagram, a scenario

`fsm/check/examples/two_phase_commit.py` is an example of a model, with three components.
"""

from typing import TYPE_CHECKING

from fsm.check.model import (
    Action,
    Choice,
    Component,
    Condition,
    Disturbance,
    Fault,
    Goal,
    InState,
    Look,
    Missed,
    Model,
    Notification,
    PairProperty,
    Path,
    Property,
    Queue,
    Received,
    Replayed,
    Step,
    Undelivered,
    View,
    Wire,
)
from fsm.exports import on_demand

if TYPE_CHECKING:
    from fsm.check.catalog import make_model
    from fsm.check.disk import Disk
    from fsm.check.search import Limits
    from fsm.check.story import diagram, lines, scenario, tell
    from fsm.check.table_files import Memo
    from fsm.check.tables import compose
    from fsm.check.verdict import Verdict, Violation, check
    from fsm.check.walk import PathStep, Walk

__all__ = [
    "Action",
    "Choice",
    "Component",
    "Condition",
    "Disk",
    "Disturbance",
    "Fault",
    "Goal",
    "InState",
    "Limits",
    "Look",
    "Memo",
    "Missed",
    "Model",
    "Notification",
    "PairProperty",
    "Path",
    "PathStep",
    "Property",
    "Queue",
    "Received",
    "Replayed",
    "Step",
    "Undelivered",
    "Verdict",
    "View",
    "Violation",
    "Walk",
    "Wire",
    "check",
    "compose",
    "diagram",
    "lines",
    "make_model",
    "scenario",
    "tell",
]
__getattr__, __dir__ = on_demand(
    __name__,
    {
        "search": ("Limits",),
        "walk": ("PathStep", "Walk"),
        "table_files": ("Memo",),
        "disk": ("Disk",),
        "verdict": ("Verdict", "Violation", "check"),
        "tables": ("compose",),
        "story": ("diagram", "lines", "scenario", "tell"),
        "catalog": ("make_model",),
    },
)
