"""Changes between two judgements of a group: findings that were opened, updated, closed and withdrawn.

A finding keeps its id while later lines change its end, severity, summary or cause. The last versions of all ids,
except the withdrawn ones, are the findings of a batch audit of the same lines.
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
    """Later lines changed it; a closed finding is open again."""
    CLOSED = "closed"
    """It ended some time ago, by the timestamps of its group."""
    WITHDRAWN = "withdrawn"
    """Later lines show that it is no finding, or part of another one."""


@dataclass(frozen=True, slots=True)
class Change:
    """A version of a finding."""

    version: int
    """Counted from 1."""
    status: Status
    finding: Finding

    @property
    def id(self) -> str:
        return self.finding.id

    def close(self) -> Change:
        """The next version, with status `CLOSED`."""
        return Change(self.version + 1, Status.CLOSED, self.finding)

    def to_json(self) -> dict[str, Any]:
        return {"version": self.version, "status": self.status.value} | self.finding.to_json()


Versions = dict[str, Change]
"""The last version of each finding that was not withdrawn, by id."""


def compare(known: Versions, found: Iterable[Finding], closed_before_ms: int) -> tuple[Versions, list[Change]]:
    """(last versions, changes) after a judgement of a group or a file.

    Findings that ended before `closed_before_ms` are closed. A new one is opened first even then, so that every finding
    has an `OPENED` change.
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
    """The inverse of `Change.to_json`, which has no offsets."""
    values = {f.name: document[f.name] for f in fields(Finding)}
    values |= {name: kind(values[name]) for name, kind in _ENUMS.items()}
    values["partitions"] = tuple((topic, number) for topic, number in values["partitions"])
    values["others"] = tuple(values["others"])
    values["evidence"] = tuple(Evidence(one["file"], -1, one["line"], one["text"]) for one in values["evidence"])
    return Change(document["version"], Status(document["status"]), Finding(**values))


_ENUMS: Mapping[str, type[StrEnum]] = {"kind": FindingKind, "severity": Severity, "cause": Cause}


def standing(known: Mapping[str, Change], changes: Iterable[Change]) -> Versions:
    """The last version of every finding after the changes, without the withdrawn ones."""
    now = dict(known)
    for change in changes:
        if change.status is Status.WITHDRAWN:
            now.pop(change.id, None)
        else:
            now[change.id] = change
    return now
