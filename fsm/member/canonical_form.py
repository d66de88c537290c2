"""One canonical form for all members that differ only by their ids and by time, for a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from fsm.member.classic import state as classic
from fsm.member.consumer import state as consumer

AnyMember = TypeVar("AnyMember", consumer.Member, classic.ClassicMember)


def canonicalize(member: AnyMember, now_ms: int, ids: Mapping[str, str] = consumer.SAME_IDS) -> AnyMember:
    """The member with its clock starting now, with other ids, and with its waiting calls numbered from 1."""
    if isinstance(member, classic.ClassicMember):
        return classic.canonicalize(member, now_ms, ids)
    return consumer.canonicalize(member, now_ms, ids)
