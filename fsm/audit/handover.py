"""How the coordinator handed a partition over: to whom, when, and what it knew of the one who had it before.

Two members that own one partition at once have each been told so. Whether the first had said that it gave it up, was
removed from the group, or still counted as the owner, decides whose fault it is, and only the coordinator can tell.
A partition that no log's member owned may have belonged to one whose log is missing: that, too, only it can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from fsm.audit.assignments import Assignment, Until, Which
from fsm.audit.coordinator import AFTER_MS, BEFORE_MS
from fsm.audit.findings import Evidence, Finding, FindingKind, Severity
from fsm.audit.rows import Place
from fsm.audit.wording import names
from fsm.render.wording import lasting
from fsm.trace import Partition

KINDS = (FindingKind.DOUBLE_OWNERSHIP, FindingKind.UNOWNED_PARTITION)
"""Findings about who had a partition."""
HELD = 50
"""Assignments of one partition that are looked at for one finding: the last ones."""


class Holding(NamedTuple):
    """A current assignment as one of its partitions saw it."""

    start_ms: int
    end_ms: int | None
    member: str
    member_id: str
    until: Until
    giving_up: bool
    """The member had been told to give the partition up, and had not said yet that it did."""
    start: Place
    end: Place


def partition_of(found: Finding) -> Partition | None:
    """The partition that is followed: the first, which stands for all that were handed over together."""
    return found.partitions[0] if found.kind in KINDS and found.partitions else None


def holdings(own: Iterable[Assignment], found: Finding, skew_ms: int) -> list[Holding]:
    """The assignments that concern a finding. `own` are those of its group."""
    wanted = partition_of(found)
    first_ms, last_ms = around(found, skew_ms)
    held = [
        Holding(a.start_ms, a.end_ms, a.member, a.member_id, a.until, wanted in a.revoked, a.start, a.end)
        for a in own
        if a.which is Which.CURRENT and (wanted in a.partitions or wanted in a.revoked)
    ]
    near = (h for h in held if h.start_ms <= last_ms and (h.end_ms is None or h.end_ms >= first_ms))
    return sorted(near, key=_order)[-HELD:]


def _order(held: Holding) -> tuple[int, str, bool, int]:
    return held.start_ms, held.member_id, held.end_ms is None, held.end_ms or 0


def around(found: Finding, skew_ms: int) -> tuple[int, int]:
    """When the coordinator handed over what was owned twice from the finding's begin on, or what nobody owned."""
    last_ms = found.start_ms + AFTER_MS if found.kind is FindingKind.DOUBLE_OWNERSHIP else found.end_ms
    return found.start_ms - BEFORE_MS - skew_ms, last_ms + skew_ms


def handed(found: Finding, held: Iterable[Holding], skew_ms: int) -> Finding:
    """The finding with what the coordinator knows of its partition. `held` is what `holdings` gives, in any order."""
    own = sorted(held, key=_order)
    told = _given(found, own, skew_ms) if found.kind is FindingKind.DOUBLE_OWNERSHIP else _elsewhere(found, own)
    return found if told is None else told


def _given(found: Finding, own: Sequence[Holding], skew_ms: int) -> Finding | None:
    """How the partition came to the other member."""
    first_ms, last_ms = around(found, skew_ms)
    gifts = [h for h in own if h.member != found.member and first_ms <= h.start_ms <= last_ms and _is_gift(h, own)]
    if not gifts:
        return None
    gift = gifts[-1]
    before = next((h for h in reversed(own) if h.member == found.member and h.start_ms <= gift.start_ms), None)
    ended = before is not None and before.end_ms is not None and before.end_ms <= gift.start_ms
    places = [before.end, gift.start] if before is not None and ended else [gift.start]
    return _with(found, _sentence(found, gift, before), places)


def _elsewhere(found: Finding, own: Sequence[Holding]) -> Finding | None:
    """Somebody whose log is missing had it for most of the time in which it seemed to be nobody's."""
    length_ms = found.end_ms - found.start_ms
    theirs = [h for h in own if not h.member and not h.giving_up and 2 * _within(h, found) > length_ms]
    if not theirs:
        return None
    owner = f"the coordinator counted {theirs[0].member_id}, whose log is missing, as the owner"
    told = _with(found, owner, [theirs[0].start])
    return replace(told, severity=Severity.INFO)


def _within(held: Holding, found: Finding) -> int:
    """For how much of a finding's time it stood."""
    end_ms = found.end_ms if held.end_ms is None else min(held.end_ms, found.end_ms)
    return end_ms - max(held.start_ms, found.start_ms)


def _with(found: Finding, sentence: str, places: Sequence[Place]) -> Finding:
    known = {(e.file, e.offset) for e in found.evidence}
    more = tuple(Evidence(*p) for p in dict.fromkeys(places) if (p.file, p.offset) not in known)
    return replace(found, summary=f"{found.summary}; {sentence}", evidence=found.evidence + more)


def _is_gift(held: Holding, own: Iterable[Holding]) -> bool:
    """Whether its member did not have the partition before."""
    return not held.giving_up and not any(h.member_id == held.member_id and h.end_ms == held.start_ms for h in own)


def _sentence(found: Finding, gift: Holding, before: Holding | None) -> str:
    what = names(found.partitions[:1])
    gave = f"the coordinator gave {what} to {gift.member or f'{gift.member_id}, whose log is missing'}"
    if before is None:
        return gave
    if before.end_ms is None or before.end_ms > gift.start_ms:
        return f"{gave} while it counted {found.member} as its owner"
    later = f"{gave} {lasting(gift.start_ms - before.end_ms)} after"
    if before.until is Until.REMOVED:
        return f"{later} {found.member} was no member any more"
    if before.giving_up:
        return f"{later} {found.member} had acknowledged giving it up"
    return f"{gave} in the place of {found.member}"
