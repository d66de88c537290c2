"""Events for security tools: ArcSight's CEF and QRadar's LEEF, a header between bars and then `key=value` pairs."""

from __future__ import annotations

import re
from typing import Any

_CEF = re.compile(r"CEF:\d\|" + r"((?:\\.|[^|\\])*+)\|" * 6)
_CEF_NAMES = ("vendor", "product", "version", "signature", "name", "severity")
_KEY = re.compile(
    r"(?:(?<=\|)|\s)(rt|cat|msg|sev|dvc\w*|device\w+|[sd](?:host|rc|st|pt|user|proc|pid)|externalId|fname"
    r"|(?:cs|cn|cfp|c6a|flexString|flexDate)\d(?:Label)?|level|logger|thread)="
)
"""A key of CEF's dictionary that is no word of messages, which may have pairs of their own; or a logger's field."""
_FIELDS = ("level", "logger", "thread")
"""Loggers' fields, which stand before the message: in it they are words."""
_LEEF = re.compile(r"LEEF:(?:1\.0\|(?:[^|]*\|){4}|2\.0\|(?:[^|]*\|){4}(?P<mark>[^|]?|0?x[0-9a-fA-F]{2,4})\|)")
_ATTRIBUTE = re.compile(r"([\w.-]{1,64})=", re.ASCII)


def cef(line: str) -> tuple[str, dict[str, Any]] | None:
    """The text before an event in CEF, and its fields by the names of its dictionary."""
    head = _CEF.search(line)
    if head is None:
        return None
    fields: dict[str, Any] = dict(zip(_CEF_NAMES, head.groups(), strict=True))
    keys = list(_KEY.finditer(line, head.end()))
    message = next((i for i, one in enumerate(keys) if one[1] == "msg"), len(keys))
    keys[message:] = [one for one in keys[message:] if one[1] not in _FIELDS]
    for found, end in zip(keys, [*(one.start() for one in keys[1:]), len(line)], strict=True):
        fields[found[1]] = line[found.end() : end]
    return line[: head.start()], fields


def leef(line: str) -> tuple[str, dict[str, Any]] | None:
    """The text before an event in LEEF, and its attributes. A part without a key belongs to the value before it."""
    head = _LEEF.search(line)
    if head is None:
        return None
    mark = head["mark"] or "\t"
    mark = chr(int(mark.partition("x")[2], 16)) if len(mark) > 1 else mark
    fields: dict[str, Any] = {}
    last = ""
    for part in line[head.end() :].split(mark):
        if found := _ATTRIBUTE.match(part):
            last, fields[found[1]] = found[1], part[found.end() :]
        elif last:
            fields[last] += mark + part
    return line[: head.start()], fields
