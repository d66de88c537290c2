"""A recording, step by step; unlike a model it has only one path."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fsm.check.model import Look
from fsm.errors import InputError
from fsm.explore.documents import MOST_STEPS, WHOLE_EVERY, Document, show_component, show_who
from fsm.table import Table

MOST_MOMENTS = 200_000
"""The maximum number of steps of a recording."""
MOST_LANES = 100
"""The maximum number of components: more do not fit side by side."""


class Part(NamedTuple):
    """A component of a recording."""

    name: str
    role: str = "component"
    tables: tuple[Table, ...] = ()


class Shown(NamedTuple):
    """A component at one moment."""

    text: str = ""
    look: Look = Look()


class Moment(NamedTuple):
    """A step with its changes."""

    text: str
    at_ms: float | None = None
    actor: str = ""
    action: str = ""
    sender: str = ""
    receiver: str = ""
    message: str = ""
    is_disturbance: bool = False
    components: Mapping[str, Shown] = {}
    wires: Mapping[tuple[str, str], tuple[str, ...]] = {}
    """Messages in flight after it, by sender and receiver; unlisted wires are unchanged."""
    broken: tuple[str, ...] = ()


def check_size(steps: int, source: str) -> None:
    """Raises `InputError` for more steps than a recording may have."""
    if steps > MOST_MOMENTS:
        raise InputError(f"holds more than {MOST_MOMENTS:,} steps", source, "give a part of it")


def check_members(count: int, source: str) -> None:
    """Raises `InputError` for more members than a recording may have."""
    if count > MOST_LANES:
        raise InputError(f"holds {count} members", source, f"give at most {MOST_LANES}: choose a --group")


class Recording:
    """A session that goes forward and back."""

    def __init__(self, title: str, source: str, parts: Sequence[Part], moments: Sequence[Moment]) -> None:
        """Raises `InputError` for an empty recording, and for one above the limits."""
        if not moments:
            raise InputError("holds no step", source, "give a trace, a capture, a scenario or a model")
        check_size(len(moments), source)
        check_members(sum(part.role != "coordinator" for part in parts), source)
        self.title, self.source, self.parts, self.moments = title, source, parts, moments
        self.missing: list[str] = []
        """Missing parts of the file, one line each."""
        self._of_parts: dict[str, list[int]] = {part.name: [] for part in parts}
        self._of_wires: dict[tuple[str, str], list[int]] = {}
        """The steps at which each component and each wire changes."""
        for at, moment in enumerate(moments):
            if moment.sender:
                self._of_wires.setdefault((moment.sender, moment.receiver), [])
            for name in moment.components:
                self._of_parts[name].append(at)
            for ends in moment.wires:
                self._of_wires.setdefault(ends, []).append(at)

    def opening(self) -> Document:
        """The components, the diagrams of their tables, and the first position."""
        return {
            "title": self.title,
            "source": self.source,
            "kind": "recording",
            **show_who(self.parts, sorted(self._of_wires)),
            "kinds": [],
            "properties": {},
            "start": self._position(0),
            "can_branch": False,
            "length": len(self.moments),
            "missing": self.missing,
        }

    def steps(self, start: int, count: int) -> Document:
        """Some steps, and the position before the first of them."""
        begin = max(0, min(start, len(self.moments)))
        end = min(begin + max(0, min(count, MOST_STEPS)), len(self.moments))
        return {"position": self._position(begin), "steps": [self._step(at) for at in range(begin, end)]}

    def _step(self, at: int) -> Document:
        moment = self.moments[at]
        document = {
            "text": moment.text,
            "actor": moment.actor,
            "action": moment.action or moment.text,
            "disturbance": "disturbance" if moment.is_disturbance else "",
            "sender": moment.sender,
            "receiver": moment.receiver,
            "message": moment.message,
            "at_ms": moment.at_ms,
            "delta": {
                "components": {name: show_component(*shown) for name, shown in moment.components.items()},
                "wires": {_name(ends): _messages(texts) for ends, texts in moment.wires.items()},
                "broken": list(moment.broken),
                "disturbances": 0,
            },
        }
        if (at + 1) % WHOLE_EVERY == 0:
            document["position"] = self._position(at + 1)
        return document

    def _position(self, many: int) -> Document:
        """The position after this many steps."""

        def find_last(places: Sequence[int]) -> Moment:
            last = bisect_right(places, many - 1)
            return self.moments[places[last - 1]] if last else Moment("")

        return {
            "components": {
                name: show_component(*find_last(places).components.get(name, Shown()))
                for name, places in self._of_parts.items()
            },
            "wires": {
                _name(ends): _messages(find_last(places).wires.get(ends, ())) for ends, places in self._of_wires.items()
            },
            "broken": list(self.moments[many - 1].broken if many else ()),
            "disturbances": 0,
        }


def _name(ends: tuple[str, str]) -> str:
    return ">".join(ends)


def _messages(texts: Sequence[str]) -> list[dict[str, Any]]:
    return [{"text": text, "late": False} for text in texts]
