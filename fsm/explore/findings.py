"""The findings of an audit of a file as violations at the steps during which they last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path

from fsm.audit.findings import Finding, Severity
from fsm.audit.local import audit_files
from fsm.explore.recording import Moment, Recording
from fsm.logs.programs.exchanges import WIRE


def mark(recording: Recording, file: Path, group: str = "") -> Recording:
    """The recording, with the findings of an audit of its file at each step; steps are sorted by time."""
    recording.moments = list(_mark(recording.moments, file, group))
    return recording


def _mark(moments: Iterable[Moment], file: Path, group: str) -> Iterator[Moment]:
    found = (one for one in audit_files([file]).findings if one.severity is not Severity.INFO)
    waiting = sorted((one for one in found if group in ("", one.group)), key=attrgetter("start_ms"), reverse=True)
    lasting: list[Finding] = []
    for moment in moments:
        now_ms = round(moment.at_ms or 0)
        while waiting and waiting[-1].start_ms <= now_ms:
            lasting.append(waiting.pop())
        lasting = [one for one in lasting if one.end_ms >= now_ms]
        yield moment._replace(broken=tuple(one.summary.replace(WIRE, "") for one in lasting))
