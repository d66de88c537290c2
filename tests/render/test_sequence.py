"""Sequence diagrams: Mermaid to the letter, and an SVG that is well-formed, complete and always the same."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from fsm.render.sequence import Arrow, Diagram, Look, Part, mermaid, svg

TALK = Diagram(
    "A talk; one & all",
    ("thread", "queue", "broker"),
    (
        Part(
            "First",
            (
                Arrow("thread", "thread", "poll()", Look.NOTE),
                Arrow("thread", "queue", "PollEvent(timeout=1)"),
                Arrow("queue", "broker", "PollEvent", Look.TAKE),
                Arrow("broker", "broker", "STABLE", Look.STATE),
                Arrow("broker", "thread", "answer <&>"),
                Arrow("thread", "thread", "raises 'x'; ends", Look.RAISE),
            ),
        ),
    ),
    frozenset({"queue"}),
)


def test_mermaid_to_the_letter() -> None:
    """Participants, notes, full arrows for telling, dashed ones for taking; what Mermaid would read is a code."""
    assert mermaid(TALK).splitlines() == [
        "---",
        'title: "A talk; one & all"',
        "---",
        "sequenceDiagram",
        "    participant L0 as thread",
        "    participant L1 as queue",
        "    participant L2 as broker",
        "    Note over L0,L2: First",
        "    Note over L0: poll()",
        "    L0->>L1: PollEvent(timeout=1)",
        "    L1-->>L2: PollEvent",
        "    Note over L2: state STABLE",
        "    L2->>L0: answer #60;#38;>",
        "    Note over L0: raises #39;x#39;#59; ends",
    ]


def texts(drawn: str) -> list[str]:
    return [e.text or "" for e in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314


def test_svg_says_everything_that_was_said() -> None:
    """Title, lanes, headline and every text, and nothing that could break out of the document."""
    assert texts(svg(TALK)) == [
        "A talk; one & all", "thread", "queue", "broker", "First", "poll()", "PollEvent(timeout=1)", "PollEvent",
        "STABLE", "answer <&>", "raises 'x'; ends",
    ]  # fmt: skip


def test_svg_draws_arrows_between_their_lanes() -> None:
    """Each arrow goes from the line of its source to that of its target; what is taken is dashed."""
    arrows = re.findall(r'class="(arrow[ a-z]*)" marker-end="[^"]*" d="M(\d+),\d+H(\d+)"', svg(TALK))
    assert arrows == [("arrow", "116", "334"), ("arrow take", "334", "552"), ("arrow", "552", "116")]


def test_svg_stays_inside_its_frame() -> None:
    """Nothing is drawn below or beside the picture, however much is told."""
    long = Part("x " * 300, tuple(Arrow("thread", "queue", "word " * 80) for _ in range(20)))
    drawn = svg(TALK._replace(parts=(long,)))
    height = int(re.search(r'height="(\d+)"', drawn)[1])  # type: ignore[index]
    ys = [float(y) for y in re.findall(r' y="([\d.]+)"', drawn)]
    assert 0 <= min(ys) < max(ys) < height


def test_long_names_break_between_their_humps() -> None:
    """A name that has no room between two lanes goes on in the next line, at a capital."""
    name = "ConsumerRebalanceListenerCallbackCompletedEvent"
    drawn = svg(TALK._replace(parts=(Part("", (Arrow("thread", "queue", name),)),)))
    assert texts(drawn)[4:] == ["ConsumerRebalanceListener", "CallbackCompletedEvent"]


def test_texts_of_no_room_and_no_humps_are_cut() -> None:
    """Whatever a text is, it is drawn whole."""
    drawn = svg(TALK._replace(parts=(Part("", (Arrow("thread", "queue", "x" * 200),)),)))
    assert "".join(texts(drawn)[4:]) == "x" * 200
    assert all(len(text) <= 40 for text in texts(drawn)[4:])


def test_same_diagram_gives_same_bytes() -> None:
    """Two drawings are equal."""
    assert svg(TALK) == svg(TALK)
    assert mermaid(TALK) == mermaid(TALK)
