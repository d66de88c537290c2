"""A member made to order: `changed(member, field=value)`, wherever in the member the field stands."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from fsm.member.consumer.state import AutoCommit, Client, Leaving, Member

PARTS = {"leaving": Leaving, "client": Client, "auto_commit": AutoCommit}
PLACES = {f.name: part for part, cls in PARTS.items() for f in fields(cls)}


def changed(member: Member, **given: Any) -> Member:
    """The member with other values of some fields; a field of a part (`leaving`, ...) goes by its own name, too."""
    own = {name: value for name, value in given.items() if name not in PLACES}
    for part in PARTS:
        inner = {name: value for name, value in given.items() if PLACES.get(name) == part}
        if inner:
            own[part] = replace(own.get(part, getattr(member, part)), **inner)
    return replace(member, **own)
