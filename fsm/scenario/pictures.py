"""Runs as pictures: sequence diagrams of consumers and coordinators, timelines of groups and clusters.

`PICTURES` are shipped: each is a scenario beside this module, redrawn and compared by `fsm draw`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING

from fsm.errors import InputError
from fsm.nodes import yaml_node
from fsm.render.sequence import Diagram, Part, mermaid, plantuml, svg
from fsm.scenario.conversation import record
from fsm.scenario.files import ROLE, replay_document
from fsm.scenario.story import Replay

if TYPE_CHECKING:
    from fsm.render.timeline.ownership import Picture

LANES = (record.APPLICATION, record.APPLICATION_QUEUE, record.BACKGROUND, record.BACKGROUND_QUEUE)
"""The lanes of a conversation, from left to right; the coordinator is the rightmost."""
QUEUES = frozenset((record.APPLICATION_QUEUE, record.BACKGROUND_QUEUE))
FORMS = {".svg": svg, ".mmd": mermaid, ".puml": plantuml}
"""Suffix -> renderer."""
PICTURES = ("reconciliation-threads", "connect-bounced-worker")
"""Scenarios of this package with shipped pictures."""


def draw(replay: Replay, suffix: str, *, noted: bool = False) -> str:
    """The run as a diagram in the form of the suffix; with `noted`, only steps with a note.

    A group or a cluster is drawn as a timeline. Raises `InputError` for an unknown suffix or one without such a
    picture, and for a run without messages.
    """
    if replay.timeline is not None:
        return _draw_timeline(replay.timeline, replay.title, suffix)
    if suffix not in FORMS:
        raise InputError(f"unknown picture format {suffix!r}", remedy="name it FILE.svg, FILE.mmd or FILE.puml")
    return FORMS[suffix](make_diagram(replay, noted=noted))


def _draw_timeline(timeline: Picture, title: str, suffix: str) -> str:
    if suffix != ".svg":
        raise InputError(f"a timeline cannot be drawn as {suffix!r}", remedy="name it FILE.svg")
    from fsm.render.timeline.ownership import svg as draw_svg  # noqa: PLC0415

    return draw_svg(timeline, title)


def make_diagram(replay: Replay, *, noted: bool = False) -> Diagram:
    """The diagram for `draw`, without empty lanes; the steps of a whole run are numbered."""
    steps = [(n, step) for n, step in enumerate(replay.steps, 1) if step.note or (step.arrows and not noted)]
    parts = tuple(
        Part(f"{'' if noted else f'{n}: '}{step.note or step.title.strip()}", step.arrows) for n, step in steps
    )
    used = dict.fromkeys(lane for part in parts for arrow in part.arrows for lane in (arrow.source, arrow.target))
    if not used:
        raise InputError("nothing to draw", replay.file, "pictures are drawn of conversations and requests")
    members = (lane for lane in used if lane != record.COORDINATOR)
    lanes = tuple(lane for lane in dict.fromkeys((*LANES, *members, record.COORDINATOR)) if lane in used)
    return Diagram(replay.title, lanes, parts, QUEUES & used.keys())


def shipped_pictures() -> Iterator[tuple[str, bytes]]:
    """(file name, content) of every shipped picture."""
    for name in PICTURES:
        text = (files(__package__) / f"{name}.yaml").read_text(encoding="utf-8")
        (run,) = replay_document(yaml_node(text, f"{name}.yaml", ROLE), f"{name}.yaml")
        for suffix in FORMS if run.timeline is None else (".svg",):
            yield f"{name}{suffix}", draw(run, suffix, noted=True).encode()
