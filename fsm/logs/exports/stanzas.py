"""Records over several lines with one field per line, as printed by journald, psql, MySQL's `\\G`, SQLite, PowerShell
and OpenTelemetry's collector, or written in YAML or TOML. Each style is a row of a table."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fsm.logs.layouts import stamps


class Style(NamedTuple):
    """One style of records."""

    name: str
    opens: re.Pattern[bytes]
    """The first line of a record; a timestamp in it counts as a field."""
    field: re.Pattern[str]
    """A line with a field: its indentation, its name (empty on continuation lines) and its value."""
    folds: bool = False
    """Fields are nested by indentation, and long values are folded, as in YAML."""
    indents: bool = False
    """Only indented lines continue a value."""
    quotes: bool = False
    """Texts are in quotes, as in TOML."""


_NAME = r"([A-Za-z_@][\w.@ /-]{0,60}?)"
STYLES = (
    Style(
        "otel",
        re.compile(rb"LogRecord #\d+"),
        re.compile(
            r"( *)(?:-> )?(ObservedTimestamp|Timestamp|SeverityText|SeverityNumber|EventName|Body|Attributes"
            r"|Trace ID|Span ID|Flags|(?<=-> )[\w./-]{1,80}): ?(.*)"
        ),
    ),
    Style("mysql", re.compile(rb"\*{5,} \d+\. row \*{5,}"), re.compile(rf"(\s*){_NAME}: ?(.*)")),
    Style("clickhouse", re.compile(rb"Row \d+:"), re.compile(rf"(\s*){_NAME}: *(.*)")),
    Style("psql", re.compile(rb"-\[ RECORD \d+ \]"), re.compile(r"( *)((?:[\w.@-][\w.@ -]{0,60}?)?) *\| ?(.*)")),
    Style("journal", re.compile(rb"__CURSOR="), re.compile(r"()([A-Z_][A-Z0-9_]{0,60})=(.*)")),
    Style(
        "journal verbose",
        re.compile(rb"[A-Z][a-z]{2} \d{4}-\d\d-\d\d [\d:.]+ \S+ \[s="),
        re.compile(r"( {4})([A-Z_][A-Z0-9_]{0,60})=(.*)"),
    ),
    Style("windows event", re.compile(rb"Event\[\d+\]"), re.compile(r"( {2})([A-Z][\w ]{1,40}): ?(.*)")),
    Style("powershell", re.compile(rb"TimeCreated +: "), re.compile(r"()([A-Z]\w{0,40}) *: (.*)"), indents=True),
    Style("yaml", re.compile(rb"---\s*\Z"), re.compile(r"( *)([\w.@/\"'-]{1,80}):(?: +(.*)|\Z)"), folds=True),
    Style(
        "yaml list",
        re.compile(rb"- [\w.@-]{1,80}:(?: |\Z)"),
        re.compile(r"((?:- )? *)([\w.@/\"'-]{1,80}):(?: +(.*)|\Z)"),
        folds=True,
    ),
    Style(
        "toml",
        re.compile(rb"\[\[?[\w.\"'-]{1,80}\]\]?[ \t]*\Z"),
        re.compile(r"( *)([\w.\"'-]{1,80}) = (.*)"),
        quotes=True,
    ),
)
"""All known styles."""


class Stanzas(NamedTuple):
    """Records in one style."""

    style: Style
    names: frozenset[str]
    """The recurring field names. Other lines that look like a field belong to the field above."""

    def begins(self, _row: Sequence[bytes], line: bytes) -> bool:
        """Whether a line is the first of a record."""
        return self.style.opens.match(line) is not None

    def rows(self, text: bytes) -> list[bytes]:
        """A record as one line of JSON, followed by the lines after it that do not belong to it; the text itself if it
        is not a record."""
        lines = text.decode("utf-8", "replace").split("\n")
        if not self.begins((), text.split(b"\n", 1)[0]):
            return text.split(b"\n")
        end = next((i for i in range(1, len(lines)) if self._is_past_end(lines[i - 1], lines[i])), len(lines))
        rest = [line.encode() for line in lines[end:] if line.strip()]
        lines = lines[:end]
        found = dict(_fold(lines, self.style) if self.style.folds else self._read_flat(lines))
        time = None if self.style.field.match(lines[0]) else next(stamps.find(lines[0]), None)
        return [json.dumps({**({"time": time[0]} if time else {}), **found}).encode(), *rest]

    def _is_past_end(self, above: str, line: str) -> bool:
        """Whether a line is past the end of the record."""
        if not line.strip() or line[0] in " \t" or (above.strip() and not (self.style.indents or self.style.folds)):
            return False
        match = self.style.field.match(line)
        return match is None or (not self.style.folds and match[2] not in self.names)

    def _read_flat(self, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
        name, values = "", list[str]()
        for line in lines:
            match = self.style.field.match(line)
            if match is not None and match[2] in self.names:
                if name:
                    yield name, self._join_value(values)
                name, values = match[2], [match[3]]
            elif name:
                is_continuation = match is not None and not match[2]
                values.append(match[3] if match is not None and is_continuation else line)
                if is_continuation:
                    values[-2] = values[-2].rstrip(" ").removesuffix("+")
        if name:
            yield name, self._join_value(values)

    def _join_value(self, values: list[str]) -> str:
        text = _join_lines(values)
        return _unquote(text) if self.style.quotes else text


_TYPED = re.compile(r"(?:Str|Map|Slice|Int|Double|Bool|Bytes)\((.*)\)", re.DOTALL)


def _join_lines(values: list[str]) -> str:
    """A value of several lines, with the indentation of all but the first one removed."""
    while len(values) > 1 and not values[-1].strip():
        values.pop()
    indents = [len(line) - len(line.lstrip(" ")) for line in values[1:] if line.strip()]
    text = "\n".join([values[0], *(line[min(indents, default=0) :] for line in values[1:])]).strip("\n")
    typed = _TYPED.fullmatch(text.rstrip())
    return typed[1] if typed else text


def _unquote(text: str) -> str:
    """A text of TOML, possibly of several lines, without its quotes."""
    for quotes in ('"""', "'''", '"', "'"):
        if len(text) >= 2 * len(quotes) and text.startswith(quotes) and text.endswith(quotes):
            inner = text[len(quotes) : -len(quotes)].removeprefix("\n")
            return _ESCAPE.sub(lambda found: str(json.loads(f'"{found[0]}"')), inner) if quotes[0] == '"' else inner
    return text


_ESCAPE = re.compile(r'\\(?:[bfnrt"\\]|u[0-9a-fA-F]{4})')


def _fold(lines: Sequence[str], style: Style) -> Iterator[tuple[str, str]]:
    """The scalars of YAML by their dotted paths."""
    above: list[tuple[int, str]] = []
    i = 0
    while i < len(lines):
        match = style.field.match(lines[i])
        i += 1
        if match is None:
            continue
        indent = len(match[1])
        while above and above[-1][0] >= indent:
            above.pop()
        above.append((indent, match[2].strip("\"'")))
        more: list[str] = []
        while i < len(lines) and (not lines[i].strip() or len(lines[i]) - len(lines[i].lstrip(" ")) > indent):
            value = match[3] or ""
            if not value and style.field.match(lines[i]):
                break
            more.append(lines[i])
            i += 1
        if match[3]:
            yield ".".join(name for _, name in above), _parse_scalar(match[3], more)


def _parse_scalar(first: str, more: list[str]) -> str:
    """A YAML scalar: quoted, literal (`|`), folded or plain."""
    while more and not more[-1].strip():
        more.pop()
    if re.fullmatch(r"[|>][+-]?\d?", first):
        indent = min((len(line) - len(line.lstrip(" ")) for line in more if line.strip()), default=0)
        return ("\n" if first[0] == "|" else " ").join(line[indent:] for line in more)
    text = first
    for line in map(str.strip, more):
        broken = text.endswith("\\") and first.startswith('"')
        text = text[:-1] + _BLANK.sub("", line) if broken else f"{text}\n" if not line else f"{text.rstrip(' ')} {line}"
    text = text.replace("\n ", "\n").strip()
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text, strict=False))
        except ValueError:
            return text[1:-1]
    return text


_BLANK = re.compile(r"\A\\(?= )")
"""What keeps the blank at the beginning of a line."""


def find_stanzas(head: bytes) -> Stanzas | None:
    """The style of a text that consists of records, at least two, with recurring fields; None for any other text."""
    first = _FIRST_FIELD.match(head)
    if first is None and not _BEGINS.search(head[:_HEAD]):
        return None
    lines = head.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").split(b"\n")[:_MOST_LINES]
    sqlite = [Style("sqlite", re.compile(re.escape(first[0])), re.compile(rf"( *){_NAME} = (.*)"))] if first else []
    for style in (*sqlite, *STYLES):
        opened = [i for i, line in enumerate(lines) if style.opens.match(line)]
        if len(opened) < _FEWEST or opened[0] > _LATEST:
            continue
        texts = [line.decode("utf-8", "replace") for line in lines[opened[0] :]]
        names = Counter(match[2] for line in texts if (match := style.field.match(line)) is not None)
        often = frozenset(name for name, count in names.items() if name and count >= len(opened) / 2)
        if sum(names[name] for name in often) >= _FEWEST * len(opened):
            return Stanzas(style, often)
    return None


_FIRST_FIELD = re.compile(rb" *[A-Za-z_][\w.]{0,60} = ")
"""How a record of `sqlite3 -line` begins: with its first column, since names are right-aligned."""
_BEGINS = re.compile(rb"(?m)^(?:" + b"|".join(style.opens.pattern.replace(rb"\Z", b"$") for style in STYLES) + b")")
_MOST_LINES, _LATEST, _FEWEST, _HEAD = 4000, 100, 2, 1 << 16
