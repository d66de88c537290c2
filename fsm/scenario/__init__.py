"""Scenarios: YAML files that are run step by step, every expectation compared, under any dialect of their machines.

* `replay`, `replay_document`: run the scenarios of a file, or of a parsed document
* `compare`: runs them, and compares them with expectations, or with another dialect
* `Replay`, `Step`, `Expected`, `Difference`, `Comparison`: the results of a run
* `report`, `draw`: a comparison as text, a run as a picture
* `list_kinds`, `Kind`: all kinds of scenarios, and the interface of a kind's module
* `Stage`, `Act`, `Seen`, `play`, `read_steps`: the execution of a kind's steps

`kinds` has a module for each kind, chosen by the content of a document: a conversation drives one member
(`conversation`), requests go to a coordinator (`broker`), a migration is run by the rules of the document and of Kafka
(`migration`), rounds of Connect go through its assignor, and stimuli drive a whole group of consumers or cluster of
workers. `story` runs all of them.

>>> from fsm.nodes import yaml_node
>>> from fsm.scenario import replay_document
>>> text = '''
... conversation: a member joins
... steps:
... - subscribe: [orders]
... - poll:
...   expect: {state: JOINING, sent: [ConsumerGroupHeartbeat]}
... '''
>>> run, = replay_document(yaml_node(text, "join.yaml", "scenario"), "join.yaml")
>>> run.differences(), run.steps[1].seen["epoch"]
((), '0')
"""

from typing import TYPE_CHECKING

from fsm.exports import on_demand

if TYPE_CHECKING:
    from fsm.scenario.files import Kind, compare, list_kinds, replay, replay_document
    from fsm.scenario.pictures import draw
    from fsm.scenario.printing import report
    from fsm.scenario.story import Act, Comparison, Difference, Expected, Replay, Seen, Stage, Step, play, read_steps

__all__ = [
    "Act",
    "Comparison",
    "Difference",
    "Expected",
    "Kind",
    "Replay",
    "Seen",
    "Stage",
    "Step",
    "compare",
    "draw",
    "list_kinds",
    "play",
    "read_steps",
    "replay",
    "replay_document",
    "report",
]

__getattr__, __dir__ = on_demand(
    __name__,
    {
        "files": ("Kind", "compare", "list_kinds", "replay", "replay_document"),
        "pictures": ("draw",),
        "printing": ("report",),
        "story": (
            "Act",
            "Comparison",
            "Difference",
            "Expected",
            "Replay",
            "Seen",
            "Stage",
            "Step",
            "play",
            "read_steps",
        ),
    },
)
