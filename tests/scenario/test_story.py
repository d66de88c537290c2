"""The runner of scenarios, on a stage that knows no Kafka: how steps are read, done, seen and compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from fsm.errors import InputError, LocalProtocolError
from fsm.nodes import Node, yaml_node
from fsm.scenario import Act, Expected, Replay, Seen, Stage, play, read_steps


class Counter(Stage):
    """Counts up to three."""

    verbs = ("add", "wait")
    beside = ("from",)
    implied: Mapping[str, str] = {"refused": "none"}
    now_ms = 0

    def __init__(self) -> None:
        self.count = 0

    def do(self, act: Act) -> None:
        if act.verb == "wait":
            self.now_ms += act.value.number()
        elif self.count == 3:
            raise LocalProtocolError("that is enough")
        else:
            self.count += 1

    def see(self) -> Seen:
        return Seen({"count": str(self.count)}, [f"{self.count} so far"])

    def expect(self, node: Node, seen: Mapping[str, str]) -> Iterator[Expected]:
        for name, value in node.fields(tuple(seen)).items():
            yield Expected(name, value.text(), value.where)


def run(text: str) -> Replay:
    """The steps of a text as they went."""
    steps = yaml_node(text, "count.yaml", "scenario")
    return Replay("count.yaml", "counter", "a count", "any", play(Counter(), read_steps(steps)))


def test_steps_are_done_seen_and_compared() -> None:
    """Each with its instant, its sender and its note; what is expected is compared, and so is what is implied."""
    found = run("- add\n- wait: 20\n- {add: one, from: A, note: the second, expect: {count: 3}}\n")
    first, _, last = found.steps
    assert (first.title, last.title) == ("     0 ms  add", "    20 ms  A sends add one")
    assert (first.where, last.where) == ("count.yaml:1", "count.yaml:3")
    assert last.lines == ("# the second", "2 so far")
    assert last.seen == {"refused": "none", "count": "2"}
    assert found.expectations == 1
    assert [(d.step, d.field, d.expected, d.got) for d in found.differences()] == [(3, "count", "3", "2")]


def test_a_step_that_cannot_be_done_is_a_difference() -> None:
    """The scenario goes on; where a step expects the refusal, it is none."""
    found = run("- add\n- add\n- add\n- add\n- {add: , expect: {refused: that is enough}}\n")
    assert found.steps[3].lines == ("cannot be done: that is enough", "3 so far")
    assert [(d.step, d.field, d.got) for d in found.differences()] == [(4, "refused", "that is enough")]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[]", "count.yaml:1: 0 steps; 1 to 2000"),
        ("- subtract", "count.yaml:1: unknown step 'subtract'; choose from add, wait"),
        ("- {add: , wait: 1}", "count.yaml:1: a step does one thing, not 2; one of add, wait"),
        ("- {from: A}", "count.yaml:1: a step does one thing, not 0; one of add, wait"),
        ("- wait: soon", "count.yaml:1: 'soon' is not a whole number"),
        ("- {add: , expect: {cuont: 1}}", "count.yaml:1: unknown key 'cuont'; did you mean count?"),
    ],
)
def test_what_is_no_step_is_one_line(text: str, error: str) -> None:
    """The file, the line, and what to write instead."""
    with pytest.raises(InputError) as refused:
        run(text)
    assert str(refused.value) == error
