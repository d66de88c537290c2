"""Scenarios: YAML files that are run step by step, every expectation compared, under any dialect of their machines.

* `replay`, `replay_document`: the scenarios of a file, or of a document that was read already, as they go
* `compare`: the same beside what they expect, or beside themselves under another dialect
* `Replay`, `Step`, `Expected`, `Difference`, `Comparison`: what a run came to
* `report`, `draw`: a comparison as text, a run as a picture
* `list_kinds`, `Kind`: every kind of scenario there is, and what the module of a kind offers
* `Stage`, `Act`, `Seen`, `play`, `read_steps`: how the steps of a kind are run

`kinds` has a module for each kind, found by what a document holds: a conversation leads one member
(`conversation`), requests go to a coordinator (`broker`), a migration is run as the document and as Kafka tell it
(`migration`), rounds of Connect go through its assignor, and stimuli lead a whole group of consumers or cluster of
workers. All of them are run by `story`.

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
