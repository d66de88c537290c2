"""Trace files as a log format: one JSON object of `TraceRecord` per line, in any valid spelling, so that a trace can be
audited.

A line belongs to this format if it has a number under the key `v`. Lines of a later schema and truncated lines are not
understood.
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
        header=re.compile(rb'\{(?=[^\n]*"v"[ \t]*:[ \t]*\d)'),
        # Other programs may use a `v`, too, but not as the first key, nor together with both of the other two.
        candidate=re.compile(rb'\A\{[ \t]*"v"|\A(?=[^\n]*"kind"[ \t]*:)[^\n]*"ts_ms"[ \t]*:'),
        parse=_parse,
        needles=(b'"v"',),
    ),
)
