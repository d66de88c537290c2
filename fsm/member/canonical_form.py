"""One form of members that differ by their ids and by time only, for whoever searches them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from fsm.member.classic import state as classic
from fsm.member.consumer import state as consumer

AnyMember = TypeVar("AnyMember", consumer.Member, classic.ClassicMember)


def canonicalize(member: AnyMember, now_ms: int, ids: Mapping[str, str] = consumer.SAME_IDS) -> AnyMember:
    """The member as it would be if its clock began now, under other ids, its waiting calls numbered from 1 on."""
    if isinstance(member, classic.ClassicMember):
        return classic.canonicalize(member, now_ms, ids)
    return consumer.canonicalize(member, now_ms, ids)
