"""Incidents: the findings of a group by what caused them, one sentence each.

An incident says who, what, since when, which setting to look at with the value that the logs tell, and what to try
next. Every finding is in exactly one. `find_incidents` is a pure function of the audit of one group: it runs in the
tasks of Spark, in memory and live alike. Its id is that of its first finding behind an `i`: it stays while further
findings come to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fsm.audit.findings import Cause, Finding, FindingKind, Severity
from fsm.audit.findings import rank as rank_finding
from fsm.audit.group_audit import GroupAudit
from fsm.audit.limits import CLASSIC_HEARTBEAT_INTERVAL_MS
from fsm.audit.next_steps import (
    BROKER_SETTINGS,
    HEARTBEAT_INTERVAL,
    INSTANCE_ID,
    MAX_POLL_INTERVAL,
    SESSION_TIMEOUT,
    step_of,
)
from fsm.audit.rows import Ended, Life
from fsm.logs import facts_of
from fsm.logs.client_facts import JAVA

_SEVERITIES, _KINDS = list(Severity), list(FindingKind)
_NUMBERED = re.compile(r"(?:: |\()(W\d+)\b")
"""A weak spot as `fsm.audit.weak_spots` names it at the end of a summary."""
_WEAK_SPOTS = (Cause.LEFT_OUT, Cause.LATE_REQUEST, Cause.UNTOLD, Cause.STRANDED, Cause.EARLY_JOIN)
CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class Incident:
    """What happened to one group, once, however many findings show it."""

    id: str
    group: str
    severity: Severity
    """That of its worst finding."""
    kind: FindingKind
    """That of the finding that shows its cause best."""
    sentence: str
    who: tuple[str, ...]
    """Members, those that should have done otherwise first."""
    since_ms: int
    until_ms: int | None
    """None where it is still so at the end of the log."""
    cause: Cause
    setting: str
    """The setting to look at; empty where none is to blame."""
    value: str | None
    """What the logs say it is; None where they do not."""
    next_step: str
    hazard: str
    """Anchor in diagrams/hazards.md; empty where it is none of them."""
    findings: tuple[str, ...]
    """Their ids, in the order of findings."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def find_incidents(audit: GroupAudit) -> list[Incident]:
    """The incidents of one group, in their order."""
    return _incidents(audit.findings, audit.rows.lives)


def of_files(findings: Iterable[Finding]) -> list[Incident]:
    """The incidents of findings that are about files: one each."""
    return _incidents(list(findings), ())


def rank(incident: Incident) -> tuple[str, int, str]:
    """The key of the order of incidents: group, begin, id."""
    return incident.group, incident.since_ms, incident.id


def badness(incident: Incident) -> tuple[Any, ...]:
    """The key that puts the worst first: severity, still so, kind, then how long it lasted."""
    lasted_ms = (incident.until_ms or incident.since_ms) - incident.since_ms
    worst = _SEVERITIES.index(incident.severity), incident.until_ms is not None, _KINDS.index(incident.kind)
    return (*worst, -lasted_ms, *rank(incident))


def _incidents(findings: Sequence[Finding], lives: Sequence[Life]) -> list[Incident]:
    known = _Lives(lives)
    return sorted((_incident(one, [one], known) for one in findings), key=rank)


class _Lives:
    """The lives of a group's members, for what they tell of settings and ends."""

    def __init__(self, lives: Sequence[Life]) -> None:
        self.by_member: dict[str, list[Life]] = {}
        for life in sorted(lives, key=lambda one: one.number):
            self.by_member.setdefault(life.member, []).append(life)
        self.end_ms = max((life.end_ms for life in lives), default=0)

    def at(self, member: str, ts_ms: int) -> Life | None:
        """The life of a member at a time, or its last one before."""
        begun = [life for life in self.by_member.get(member, ()) if life.start_ms <= ts_ms]
        return begun[-1] if begun else next(iter(self.by_member.get(member, ())), None)

    def is_open(self, found: Finding) -> bool:
        """Whether what was found lasts to the end of the group's logs, or of those of its member that went silent."""
        if found.end_ms == found.start_ms:
            return False
        own = self.by_member.get(found.member, [])
        silent = bool(own) and own[-1].ended is Ended.LOG_ENDED and found.end_ms >= own[-1].end_ms
        return found.end_ms >= self.end_ms or (silent and found.kind in OF_ONE_MEMBER)


OF_ONE_MEMBER = (FindingKind.MEMBER_OUT_FOR_GOOD, FindingKind.STUCK_STATE, FindingKind.HEARTBEAT_GAP)
"""What lasts as long as its member's log."""


def _incident(root: Finding, findings: Sequence[Finding], lives: _Lives) -> Incident:
    own = sorted(findings, key=rank_finding)
    step = step_of(root.kind, root.cause)
    life = lives.at(root.member, root.start_ms)
    consumer = life is not None and life.protocol == CONSUMER
    setting = BROKER_SETTINGS.get(step.setting, step.setting) if consumer else step.setting
    if setting == INSTANCE_ID and (life is None or not life.instance_id):
        setting = ""
    return Incident(
        id=f"i{own[0].id}",
        group=root.group,
        severity=min((one.severity for one in own), key=_SEVERITIES.index),
        kind=root.kind,
        sentence=root.summary,
        who=tuple(dict.fromkeys(name for one in (root, *own) for name in (one.member, *one.others) if name)),
        since_ms=own[0].start_ms,
        until_ms=None if any(map(lives.is_open, own)) else max(one.end_ms for one in own),
        cause=root.cause,
        setting=setting,
        value=_value(setting, life),
        next_step=step.sentence.format(setting=setting or step.setting),
        hazard=_hazard(root, step.hazard, life),
        findings=tuple(one.id for one in own),
    )


def _value(setting: str, life: Life | None) -> str | None:
    """What the log of a member says of a setting, as it was when that life began."""
    if life is None:
        return None
    own = life.heartbeat_interval_ms
    told = {
        MAX_POLL_INTERVAL: life.max_poll_interval_ms,
        SESSION_TIMEOUT: life.session_timeout_ms,
        HEARTBEAT_INTERVAL: None if own == CLASSIC_HEARTBEAT_INTERVAL_MS else own,  # which may just be the default
        INSTANCE_ID: life.instance_id,
    }.get(setting)
    return str(told) if told else None


def _hazard(root: Finding, usual: str, life: Life | None) -> str:
    """What the finding names, or what Java clients of that protocol do."""
    if root.cause in _WEAK_SPOTS:
        numbers = _NUMBERED.findall(root.summary)
        return numbers[-1].lower() if numbers else "w1" if root.cause is Cause.LEFT_OUT else ""
    java = life is not None and life.protocol == CONSUMER and facts_of(life.client_id).name == JAVA
    return usual if java else ""
