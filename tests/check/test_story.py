"""A counterexample as a sequence diagram: its steps have the numbers and times of the text."""

from __future__ import annotations

from fsm.check.model import Replayed
from fsm.check.story import diagram, tell
from fsm.check.verdict import Violation
from fsm.check.walk import PathStep
from fsm.render.sequence import Arrow, Look, mermaid, plantuml, svg


def wire(action: str, message: str = "joins", disturbance: str = "", **state: str) -> PathStep:
    """A step of a message from `a` to `broker`."""
    actor = "broker" if action.startswith("receives") else "a"
    return PathStep(actor, action, disturbance, state, "a", "broker", message)


PATH = (
    PathStep("a", "polls", "", {"a": "JOINING"}),
    wire("late", disturbance="late"),
    wire("lost", disturbance="lose"),
    wire("late", "leaves", "late"),
    wire("receives"),
    wire("duplicated", disturbance="again"),
    wire("receives late", broker="STABLE"),
    wire("receives late"),
)
VIOLATION = Violation("nothing breaks", "It broke", 4, {"a": "new", "broker": "empty"}, PATH)
TIMED = Violation(
    "nothing breaks", "", 4, {"a": "new", "broker": "empty"}, PATH, None, Replayed(times_ms=(0, 20, 1500))
)


def arrows(violation: Violation) -> list[tuple[str, Look]]:
    """What the diagram says of each step."""
    told = (arrow for arrow in diagram(violation).parts[0].arrows if arrow.look is not Look.STATE)
    return [(arrow.text, arrow.look) for arrow in told]


def test_steps_have_their_numbers_and_a_late_message_says_where_it_is_from() -> None:
    """A lost message ends with a cross; a late one is under way until the step in which it arrives, if it does."""
    assert arrows(VIOLATION) == [
        ("1: polls", Look.NOTE),
        ("2!: late on its way, until step 7: joins", Look.DELAY),
        ("3!: lost on its way: joins", Look.RAISE),
        ("4!: late on its way: leaves", Look.DELAY),
        ("5: joins", Look.CALL),
        ("6!: duplicated on its way, until step 8: joins", Look.CALL),
        ("7: late, of step 2: joins", Look.CALL),
        ("8: late, of step 6: joins", Look.CALL),
    ]
    numbers = [line.split()[0] for line in tell(VIOLATION) if line[:5].strip().isdigit()]
    assert numbers == [text.partition(":")[0] for text, _ in arrows(VIOLATION)]


def test_steps_have_the_times_of_their_replay() -> None:
    """As far as there are any."""
    texts = [text for text, _ in arrows(TIMED)]
    assert texts[:4] == [
        "1 at 0.000 s: polls",
        "2! at 0.020 s: late on its way, until step 7: joins",
        "3! at 1.500 s: lost on its way: joins",
        "4!: late on its way: leaves",
    ]


def test_a_late_message_is_drawn_as_held_up_in_each_form() -> None:
    """With a circle in place of the cross of a lost one."""
    drawn = diagram(VIOLATION)
    assert svg(drawn).count('class="dot"') == 2
    assert svg(drawn).count('class="cross"') == 1
    assert "    L0--)L1: 2#33;: late on its way" in mermaid(drawn)
    assert "L0 -->o L1: 2" in plantuml(drawn)
    assert Arrow("broker", "broker", "STABLE", Look.STATE) in drawn.parts[0].arrows
