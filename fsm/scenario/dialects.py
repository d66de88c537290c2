"""Every dialect there is, part by part, with the flags it is made of: the member's, the coordinator's, Connect's.

Each part keeps its dialects as data of its own; here they are brought into one shape, to be listed and compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from fsm.connect import dialect as connect
from fsm.coordinator import dialect as coordinator
from fsm.errors import InputError
from fsm.member import dialect as member
from fsm.member.choices import Choice
from fsm.nodes import nearest


@dataclass(frozen=True, slots=True)
class Flag:
    """One rule in which dialects of a part differ."""

    name: str
    rule: str
    """What holds with it."""
    older: str
    """What holds without it, where that is said apart."""
    since: tuple[str, ...]
    """The first dialect that has it, of each branch of releases; empty where that is not told."""
    until: str
    """The dialect that gave it up; empty where it stands."""
    ticket: str
    """Kafka's ticket, or the hazards that the flag ends."""
    dialects: tuple[str, ...]
    """All that have it, oldest first."""

    def as_document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "rule": self.rule,
            "older": self.older,
            "since": list(self.since),
            "until": self.until or None,
            "ticket": self.ticket or None,
            "dialects": list(self.dialects),
        }


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the protocols, with its dialects and flags in their order."""

    name: str
    dialects: tuple[str, ...]
    flags: tuple[Flag, ...]

    def as_document(self) -> dict[str, Any]:
        """For JSON."""
        flags = [flag.as_document() for flag in self.flags]
        return {"part": self.name, "dialects": list(self.dialects), "flags": flags}

    def resolved(self, name: str) -> str | None:
        """The dialect that a name means, as `4.2` means its latest patch; None where it means none."""
        matching = [d for d in self.dialects if d == name or d.rpartition(".")[0] == name]
        return matching[-1] if matching else None


def parts() -> tuple[Part, ...]:
    """Every part that has dialects."""
    return _member(), _coordinator(), _connect()


def parts_with(name: str) -> tuple[tuple[Part, str], ...]:
    """The parts that know a dialect of that name, with its full name. Raises `InputError` where none does."""
    found = tuple((part, full) for part in parts() if (full := part.resolved(name)) is not None)
    if not found:
        known = tuple(dict.fromkeys(dialect for part in parts() for dialect in part.dialects))
        raise InputError(f"no dialect {name[:60]!r}", remedy=nearest(name, known))
    return found


def _member() -> Part:
    names = member.DIALECTS
    choices = {name: frozenset[Enum](member.dialect(name).choices) for name in names}
    flags = (Flag(c.name, c.meaning, "", (c.since,), c.until, c.ticket or c.about, _having(c, choices)) for c in Choice)
    return Part("consumer member", names, tuple(flags))


def _coordinator() -> Part:
    choices = {each.name: frozenset[Enum](each.choices) for each in coordinator.presets()}
    flags = (
        Flag(f"{c.flag} {c.name}", c.rule, c.older, c.since, c.until, c.ticket, _having(c, choices))
        for c in coordinator.Choice
    )
    return Part("coordinator", tuple(choices), tuple(flags))


def _connect() -> Part:
    rules = {each.name: frozenset[Enum](each.rules) for each in (connect.SHIPPED, connect.DOCUMENT)}
    flags = (Flag(r.name, r.value, "", (), "", "", _having(r, rules)) for r in connect.Rule)
    return Part("Connect's assignor", tuple(rules), tuple(flags))


def _having(flag: Enum, choices: Mapping[str, frozenset[Enum]]) -> tuple[str, ...]:
    return tuple(name for name, chosen in choices.items() if flag in chosen)
