"""Sequence diagrams: Mermaid to the letter, and an SVG that is well-formed, complete and always the same."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from fsm.render.sequence import Arrow, Diagram, Look, Part, mermaid, plantuml, svg

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


def test_a_part_without_a_title_has_no_empty_note() -> None:
    diagram = Diagram("A talk", ("a", "b"), (Part("", (Arrow("a", "b", "hello"),)),))
    assert mermaid(diagram).splitlines()[-1] == "    L0->>L1: hello"
    assert "Note" not in mermaid(diagram)


def test_plantuml_to_the_letter() -> None:
    """As in Kafka's design notes: participants and queues, calls, dashed arrows out of a queue, notes in lanes."""
    assert plantuml(TALK).splitlines() == [
        "@startuml",
        "hide footbox",
        "skinparam maxMessageSize 220",
        "title A talk; one <U+0026> all",
        "",
        'participant "thread" as L0',
        'queue "queue" as L1',
        'participant "broker" as L2',
        "",
        "== First ==",
        "note over L0: poll()",
        "L0 -> L1: PollEvent(timeout=1)",
        "L1 --> L2: PollEvent",
        "hnote over L2 #D9F2E3: STABLE",
        "L2 -> L0: answer <U+003C><U+0026><U+003E>",
        "note over L0 #FDE4E4: raises 'x'; ends",
        "@enduml",
    ]


def test_nothing_in_a_text_is_markup_of_plantuml() -> None:
    """Directives, links, struck and bold texts, ends of the diagram and quotes become codes."""
    attacks = (
        'end" as X',
        "[[http://x]]",
        "--struck--",
        "**bold**",
        "@enduml",
        "!include x",
        "' comment",
        "== x ==",
        "%date()",
    )
    talk = Diagram(attacks[0], attacks, (Part(attacks[7], tuple(Arrow(a, attacks[0], a) for a in attacks)),))
    lines = plantuml(talk).splitlines()
    assert [line for line in lines if line.startswith(("@", "!"))] == ["@startuml", "@enduml"]
    assert not re.search(r"\[\[|\*\*|--struck|%|!include", "\n".join(lines))
    assert all(line.count('"') in {0, 2} for line in lines)


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
