"""What is wrong with a file: the findings of an audit, at the steps during which they last, and its missing parts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path

from fsm.audit.findings import Finding, Severity
from fsm.audit.local import audit_files
from fsm.explore.recording import Moment, Recording
from fsm.logs.programs.exchanges import WIRE
from fsm.render.wording import many


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


_DAMAGED = re.compile(r'^\{"event": "damaged",.*"packets": (\d+)')
_LOST = re.compile(
    r'^\{"event": "lost",.*"why": "(\d+) bytes were not captured or read, (\d+) answers have no request"'
)


class Missing:
    """Counts missing parts, line by line."""

    def __init__(self) -> None:
        self.is_cut = False
        """Whether the last line so far is truncated."""
        self._connections = self._bytes = self._answers = self._packets = 0

    def take(self, line: str) -> None:
        """Takes the next line; only the last one may be truncated."""
        self.is_cut = line.startswith('{"') and not line.endswith("\n") and not _is_json(line)
        if found := _LOST.search(line):
            self._connections += 1
            self._bytes += int(found[1])
            self._answers += int(found[2])
        elif found := _DAMAGED.search(line):
            self._packets += int(found[1])

    def describe(self) -> list[str]:
        """One line of text for each kind of missing part."""
        where = f"of {many(self._connections, 'connection')}"
        lines = {
            f"{many(self._packets, 'packet')} damaged or cut": self._packets,
            f"{many(self._bytes, 'byte')} {where} not captured or not read": self._bytes,
            f"{many(self._answers, 'answer')} {where} without a request": self._answers,
            "1 line left out: it is the last one, and was cut": self.is_cut,
        }
        return [line for line, is_so in lines.items() if is_so]


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
