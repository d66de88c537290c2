"""Colours of a report: the classes of the style sheet for states, members and marks.

A colour never stands alone: states and members are also written in their bars and tool tips, states in which a member
owns nothing have a pattern, and marks differ in shape.
"""

from __future__ import annotations

from collections.abc import Iterable

_GOOD = {"STABLE", "STEADY", "RUNNING"}
_BAD = {"FENCED", "FATAL", "STALE", "FAILED", "DEAD"}
_AWAY = {"UNSUBSCRIBED", "UNJOINED", "INIT", "EMPTY", "CLOSED", "UNASSIGNED", "PAUSED", "STOPPED", "DESTROYED"}
SHADES = {"good": 2, "moving": 5, "leaving": 2, "bad": 3, "away": 2}
"""Families of states -> the number of shades in the style sheet."""

GLYPHS = {
    "bad": "M-5,-5L5,5M-5,5L5,-5",
    "poll": "M0,-5L5,4H-5Z",
    "leave": "M-4,-5V5M-4,0H5M1,-4L5,0L1,4",
    "callback": "M0,-5L5,0L0,5L-5,0Z",
    "other": "M-3,0A3,3 0 1 0 3,0A3,3 0 1 0 -3,0Z",
}
"""Shapes of marks, around (0, 0)."""
GLYPH_NAMES = {
    "bad": "fenced, lost or failed",
    "poll": "poll deadline",
    "leave": "leave or close",
    "callback": "callback",
    "other": "other",
}


def family(state: str) -> str:
    """The family of a state: `good`, `moving`, `leaving`, `bad` or `away`."""
    word = state[:64].upper().replace("-", "_")
    for name, words in (("good", _GOOD), ("bad", _BAD), ("away", _AWAY)):
        if word in words:
            return name
    return "leaving" if any(part in word for part in ("LEAV", "UNASSIGN", "UNSUBSCRIB", "CLOSING")) else "moving"


def state_classes(states: Iterable[str]) -> dict[str, str]:
    """A class for each state, in the order of their names, so that the same states look the same in every report."""
    classes: dict[str, str] = {}
    used = dict.fromkeys(SHADES, 0)
    for state in sorted(set(states)):
        kind = family(state)
        classes[state] = f"{kind}{used[kind] % SHADES[kind]}"
        used[kind] += 1
    return classes


def glyph(kind: str) -> str:
    """The shape of a mark, as a key of `GLYPHS`."""
    word = kind[:64].lower()
    if any(part in word for part in ("fenc", "fatal", "lost", "fail", "error", "drop", "reset")):
        return "bad"
    if "poll" in word:
        return "poll"
    if any(part in word for part in ("leave", "left", "close", "unsubscrib")):
        return "leave"
    return "callback" if any(part in word for part in ("assign", "revoke", "callback")) else "other"
