"""What changed from one judgement of a group to the next: findings that were opened, updated, closed and withdrawn.

A finding keeps its id while what it tells changes with later lines: its end, its severity, its words, its cause. The
last version of every id, without those that were withdrawn, is what the batch audit finds in the same lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

from fsm.audit.findings import Cause, Evidence, Finding, FindingKind, Severity


class Status(StrEnum):
    OPENED = "opened"
    UPDATED = "updated"
    """Later lines changed what it tells; one that was closed is open again."""
    CLOSED = "closed"
    """What it tells ended a while ago by the clock of its group's lines."""
    WITHDRAWN = "withdrawn"
    """Later lines show that it was none, or a part of another one."""


@dataclass(frozen=True, slots=True)
class Change:
    """A version of a finding."""

    version: int
    """Counted from 1."""
    status: Status
    finding: Finding

    @property
    def id(self) -> str:
        """That of the finding."""
        return self.finding.id

    def close(self) -> Change:
        """The next version, which says that it is over."""
        return Change(self.version + 1, Status.CLOSED, self.finding)

    def to_json(self) -> dict[str, Any]:
        return {"version": self.version, "status": self.status.value} | self.finding.to_json()


Versions = dict[str, Change]
"""The last version of each finding that was not withdrawn, by id."""


def compare(known: Versions, found: Iterable[Finding], closed_before_ms: int) -> tuple[Versions, list[Change]]:
    """What is told after a judgement of a group or a file, and what changed by it.

    What ended before a time is closed. It is opened first even where it is long over: whoever listens for new findings
    hears of each.
    """
    now: Versions = {}
    changes: list[Change] = []
    for one in found:
        last = known.get(one.id)
        if last is None:
            changes.append(last := Change(1, Status.OPENED, one))
        elif last.finding != one:
            changes.append(last := Change(last.version + 1, Status.UPDATED, one))
        if one.end_ms < closed_before_ms and last.status is not Status.CLOSED:
            changes.append(last := last.close())
        now[one.id] = last
    gone = (last for key, last in known.items() if key not in now)
    return now, [*changes, *(replace(last, version=last.version + 1, status=Status.WITHDRAWN) for last in gone)]


def from_json(document: Mapping[str, Any]) -> Change:
    """What `Change.to_json` gave, which has no offsets."""
    values = {f.name: document[f.name] for f in fields(Finding)}
    values |= {name: kind(values[name]) for name, kind in _ENUMS.items()}
    values["partitions"] = tuple((topic, number) for topic, number in values["partitions"])
    values["others"] = tuple(values["others"])
    values["evidence"] = tuple(Evidence(one["file"], -1, one["line"], one["text"]) for one in values["evidence"])
    return Change(document["version"], Status(document["status"]), Finding(**values))


_ENUMS: Mapping[str, type[StrEnum]] = {"kind": FindingKind, "severity": Severity, "cause": Cause}


def standing(known: Mapping[str, Change], changes: Iterable[Change]) -> Versions:
    """The last version of every finding after some changes, in which none that was withdrawn is left."""
    now = dict(known)
    for change in changes:
        if change.status is Status.WITHDRAWN:
            now.pop(change.id, None)
        else:
            now[change.id] = change
    return now
