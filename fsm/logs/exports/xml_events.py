"""XML logs: one element per event, on one line or over several, as written by `java.util.logging` and log4j.

Elements are parsed one by one, without document types, so that nothing in them is resolved or fetched.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple
from xml.etree import ElementTree

_OPENS = re.compile(rb"[ \t]*<([A-Za-z_][\w.:-]{0,60})(?=[\s>])")
_PREFIX = re.compile(r"(</?|\s)[A-Za-z_][\w.-]{0,60}:(?=[A-Za-z_])")
_TAG = re.compile(r"(<!\[CDATA\[.*?\]\]>|<[^>]*>)", re.DOTALL)
_MOST_FIELDS = 200
_FEWEST = 2
"""The minimum number of closed elements in an XML text."""


class XmlEvents(NamedTuple):
    """Elements with this name, each an event."""

    tag: bytes

    def count_open(self, before: int, line: bytes) -> int:
        """As `Csv.count_open`, of elements."""
        return before + len(_compile_begin(self.tag).findall(line)) - line.count(b"</%b>" % self.tag)

    def rows(self, text: bytes) -> list[bytes]:
        """The elements of a text; the text itself if there are none."""
        name = re.escape(self.tag)
        return re.findall(rb"<%b[\s>].*?</%b>" % (name, name), text, re.DOTALL) or [text]

    def read(self, line: str) -> tuple[str, dict[str, Any]] | None:
        """The texts and attributes of an element, by dotted paths; None if it is not such an element."""
        text = line.strip()
        name = self.tag.decode()
        if not text.startswith(f"<{name}") or "<!DOCTYPE" in text:
            return None
        try:
            # Namespace prefixes are declared outside of the element, if at all.
            found = ElementTree.fromstring(_strip_prefixes(text))  # noqa: S314  # no document type, so no entities
        except ElementTree.ParseError:
            return None
        return "", _collect_fields(found)


@lru_cache(maxsize=16)
def _compile_begin(tag: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"<%b[\s>]" % re.escape(tag))


def _strip_prefixes(text: str) -> str:
    """Removes the namespace prefixes in tags, but not in texts or CDATA."""
    parts = _TAG.split(text)
    return "".join(
        _PREFIX.sub(r"\1", part) if part.startswith("<") and not part.startswith("<![") else part for part in parts
    )


def _collect_fields(element: ElementTree.Element) -> dict[str, Any]:
    found: dict[str, Any] = {}
    stack: list[tuple[str, ElementTree.Element]] = [("", element)]
    while stack and len(found) < _MOST_FIELDS:
        path, one = stack.pop()
        prefix = f"{path}." if path else ""
        for name, value in one.attrib.items():
            found.setdefault(f"{prefix}{name}", value)
        if path and one.text and one.text.strip():
            found.setdefault(path, one.text)
        stack += [(f"{prefix}{child.tag}", child) for child in reversed(one)]
    return found


def find_xml(head: bytes) -> XmlEvents | None:
    """The element name of a text that consists of events: the outermost recurring element that begins a line."""
    lines = head.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not lines[0].lstrip().startswith(b"<"):
        return None
    opened = dict.fromkeys(found[1] for line in lines if (found := _OPENS.match(line)))
    opened |= dict.fromkeys(found[1] for found in _TAGS.finditer(head[:_HEAD]))
    return next((XmlEvents(tag) for tag in opened if head.count(b"</" + tag + b">") >= _FEWEST), None)


_TAGS = re.compile(rb"<([A-Za-z_][\w.:-]{0,60})(?=[\s>])")
_HEAD = 1 << 16
