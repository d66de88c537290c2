"""The trace itself as a log: the JSON lines of `TraceRecord.to_json`, so that what was recorded can be audited.

Lines that a later schema wrote, or that were cut, are candidates not understood.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import tzinfo

from fsm.errors import InputError
from fsm.logs import Format
from fsm.trace import TraceRecord, from_json


def _parse(entry: str, _zone: tzinfo) -> Sequence[TraceRecord] | None:
    line, _, _ = entry.partition("\n")
    try:
        return (from_json(line),)
    except InputError:
        return None


FORMATS = (
    Format(
        name="trace",
        layout="json",
        first=b"{",
        header=re.compile(rb'\{"v":\d'),
        candidate=re.compile(rb'\A\{"v":'),
        parse=_parse,
    ),
)
