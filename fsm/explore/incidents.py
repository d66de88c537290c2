"""What an audit says of a file, where it says it: while an incident lasts, that is what does not hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path

from fsm.audit.findings import Severity
from fsm.audit.incidents import Incident
from fsm.audit.local import audit_files
from fsm.explore.recording import Moment
from fsm.logs.exchanges import WIRE


def mark(moments: Iterable[Moment], file: Path, group: str = "") -> Iterator[Moment]:
    """These moments, which come by their time, with what an audit of the file says is wrong then."""
    found = (one for one in audit_files([file]).incidents if one.severity is not Severity.INFO)
    waiting = sorted((one for one in found if group in ("", one.group)), key=attrgetter("since_ms"), reverse=True)
    lasting: list[Incident] = []
    for moment in moments:
        now_ms = moment.at_ms or 0
        while waiting and waiting[-1].since_ms <= now_ms:
            lasting.append(waiting.pop())
        lasting = [one for one in lasting if one.until_ms is None or one.until_ms >= now_ms]
        yield moment._replace(broken=tuple(one.sentence.replace(WIRE, "") for one in lasting))
