"""Two tables to draw: a small one that has everything a picture can show, and one whose names are attacks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fsm.table import Symbol, Table, ignore, row

sys.path.insert(0, str(Path(__file__).parent))


class Door(Symbol):
    CLOSED = "shut, not locked"
    OPEN = "one can pass"
    AJAR = "a hand fits through"
    WIDE = "a piano fits through"
    LOCKED = "shut, and the bolt is out"
    BROKEN = "off its hinges"


class Hand(Symbol):
    PUSHED = "someone pushed"
    PULLED = "someone pulled"
    SLAMMED = "the wind took it"
    KEY_TURNED = "the key was turned"
    KICKED = "someone was in a hurry"


class Sound(Symbol):
    CREAK = "the hinge complains"
    RATTLE = "the bolt holds"
    BANG = "everybody looks up"


@pytest.fixture(scope="session")
def door() -> Table:
    """A door: a nested table, a row that passes through a state, a loop, a stay, an ignore, a region, an end."""
    s, e, f = Door, Hand, Sound
    inside = Table(
        name="door-open",
        initial=s.AJAR,
        rows=(
            row(s.AJAR, e.PUSHED, s.WIDE, clause="D2"),
            row(s.WIDE, e.PULLED, s.AJAR, clause="D3"),
            row(s.AJAR, e.PULLED, s.CLOSED, clause="D10"),
        ),
        exits=(s.CLOSED,),
        effects=Sound,
    )
    return Table(
        name="door",
        title="A door",
        source="the hall",
        doc="Drawn by hand first.\n\nThe spring is not drawn.",
        initial=s.CLOSED,
        terminal=(s.BROKEN,),
        effects=Sound,
        nested={s.OPEN: inside},
        rows=(
            row(s.CLOSED, e.PUSHED, s.OPEN, f.CREAK, clause="D1"),
            row(s.CLOSED, e.PULLED, s.CLOSED, clause="D4"),
            row(s.OPEN, e.SLAMMED, f.BANG, s.CLOSED, clause="D5"),
            row(s.CLOSED, e.KEY_TURNED, s.LOCKED, clause="D6"),
            row(s.LOCKED, e.KEY_TURNED, s.CLOSED, f.CREAK, s.OPEN, clause="D7", note="The spring opens it."),
            row(s.LOCKED, e.PUSHED, f.RATTLE, clause="D8"),
            row((s.CLOSED, s.OPEN, s.LOCKED), e.KICKED, s.BROKEN, clause="D9"),
            ignore(s.LOCKED, (e.PULLED, e.SLAMMED), why="shut already"),
        ),
    )


ATTACKS = (
    'A"B',
    "end note",
    "x:y;z#1",
    "<b>&amp;</b>",
    "back\\slash\\",
    "-->",
    "%%c",
    "日本",
    "state",
    "{x}",
    "[*]",
    "a|b`c`",
    "a__u__b",
    "\x01bell\nline",
    "END",
    "!include x",
    "start",
)


@pytest.fixture(scope="session")
def hostile() -> Table:
    """A ring of states, events, clauses, notes and titles that are markup in some diagram language."""
    states = list(Symbol("Hostile", {text: f"means {text} ]]></svg>" for text in ATTACKS}))  # type: ignore[arg-type]
    events = list(Symbol("Attack", {f"on {text}": f"when {text}" for text in ATTACKS}))  # type: ignore[arg-type]
    ring = zip(states, events, [*states[1:], states[0]], strict=True)
    rows = [row(a, on, b, clause=f".{a.name[:3]}", note=a.name) for a, on, b in ring]
    return Table(
        name='ho"st <x>',
        title='"T" --- </title> {x} \\N \\',
        initial=states[0],
        rows=(*rows, ignore(states[1:], events[0], why='\\"></svg> end note @enduml')),
    )
