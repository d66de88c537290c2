"""Lines with named fields: any JSON, logfmt, CSV. The role of a field is inferred from its name and its values."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from fsm.logs.layouts import headers, stamps

Fields = Mapping[str, Any]
DEPTH = 6
MOST_FIELDS = 400

_TIME_NAMES = [
    "@timestamp",
    "timestamp",
    "@t",
    "time",
    "ts",
    "t",
    "asctime",
    "datetime",
    "date_time",
    "date",
    "eventtime",
    "event_time",
    "log_time",
    "logtime",
    "timemillis",
    "time_ms",
    "millis",
    "timestamp_ms",
    "instant.epochsecond",
    "instant",
    "created",
    "epoch",
    "syslog_timestamp",
    "_source_realtime_timestamp",
    "__realtime_timestamp",
    "ingestiontime",
    "receivedtimestamp",
    "inserttimestamp",
]
"""Field names of timestamps, most specific first; other fields qualify if their values are timestamps."""


class Roles(NamedTuple):
    """The fields of a line by role: dotted paths, empty if there is none."""

    text: str
    time: str = ""
    level: str = ""
    thread: str = ""
    logger: str = ""
    error: str = ""
    pid: str = ""
    stream: tuple[str, ...] = ()
    """The fields that distinguish the programs that share a file."""
    time_row: str = ""
    """The timestamp format, if a single line is ambiguous."""
    program: headers.Names = headers.Names((), False)
    """The fields that name the process."""


def flatten(fields: object) -> dict[str, Any]:
    """Scalars by their dotted paths, in the order of the line; a list of one item counts as that item, a list of tags
    (`pod_name:orders-1`) as a mapping. Bounded by `DEPTH` and `MOST_FIELDS`."""
    out: dict[str, Any] = {}
    stack: list[tuple[str, object, int]] = [("", fields, 0)]
    while stack and len(out) < MOST_FIELDS:
        path, value, depth = stack.pop()
        if isinstance(value, list):
            value = _read_tags(value) or (value[0] if len(value) == 1 else value)
        if isinstance(value, Mapping):
            if depth < DEPTH:
                inner = [(f"{path}.{name}" if path else str(name), one, depth + 1) for name, one in value.items()]
                stack += reversed(inner)
        elif not isinstance(value, list):
            out[path] = value
        elif _is_bytes(value):
            out[path] = bytes(value).decode("utf-8", "replace")
    return out


def value_at(fields: Fields, path: str) -> Any:
    """The scalar that `flatten` returns for a path; None if there is none."""
    value = fields.get(path)
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, list):
        value = value[0] if len(value) == 1 else bytes(value).decode("utf-8", "replace") if _is_bytes(value) else None
    if value is not None:
        return value if not isinstance(value, dict | list) else None
    for dot in (i for i, c in enumerate(path) if c == "."):
        inner = fields.get(path[:dot])
        if isinstance(inner, list):
            inner = _read_tags(inner) or (inner[0] if len(inner) == 1 else None)
        if isinstance(inner, dict) and (value := value_at(inner, path[dot + 1 :])) is not None:
            return value
    return None


def beside(fields: Fields, path: str) -> Fields:
    """The fields of a line with those beside the one at a path, which may be in nested objects or in groups of names
    (`kafka.group`), by their own names: the closer ones count."""
    near = fields
    while path not in near:
        dots = [i for i, c in enumerate(path) if c == "."]
        inner = next(((near[path[:dot]], path[dot + 1 :]) for dot in dots if path[:dot] in near), None)
        if inner is None or not isinstance(inner[0], dict):
            break
        near, path = inner
    nested = {path.rpartition(".")[2]: value for path, value in near.items() if "." in path}
    level = near
    for _ in range(DEPTH):
        level = {name: value for one in level.values() if isinstance(one, dict) for name, value in one.items()}
        nested = {**level, **nested}
    return {**nested, **fields, **near} if nested or near is not fields else fields


def _read_tags(value: list[Any]) -> dict[str, str]:
    """The tags of a list by name; empty if it has anything else."""
    pairs = [one.partition(":") for one in value if isinstance(one, str)] if len(value) > 1 else []
    named = {name: text for name, colon, text in pairs if colon and name.isidentifier()}
    return named if len(named) == len(value) else {}


def _is_bytes(value: list[Any]) -> bool:
    """Whether the value is a text as a list of bytes, which journald exports for texts with control characters."""
    return len(value) > 1 and all(type(one) is int and 0 <= one < 256 for one in value)


def fill(template: str, arguments: object) -> str:
    """A template of SLF4J with its arguments, which Logback's `JsonEncoder` writes beside it; the template if they do
    not fit.

    >>> fill("Revoke {} of {}", ["a-0", "g"]), fill("Revoke {}", None)
    ('Revoke a-0 of g', 'Revoke {}')
    """
    first, *others = template.split("{}")
    if not isinstance(arguments, list) or len(arguments) < len(others):
        return template
    return first + "".join(f"{text_of(one)}{part}" for one, part in zip(arguments, others, strict=False))


def text_of(value: object) -> str:
    """A scalar as text; empty for None and booleans. Lone surrogates, which JSON can spell, cannot be encoded: they are
    replaced."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, bool) or value is None:
        return ""
    return str(value) if isinstance(value, int) and abs(value) < 1 << 63 else ""


def json_object(line: str) -> tuple[str, dict[str, Any]] | None:
    """The text around the JSON object of a line, behind which only a few words may stand, and the object. Commas and
    brackets of a surrounding array are dropped. What Ruby, Node and Python print of an object is read like JSON."""
    found = _find_last_object(line)
    if found is None and _RUBY_PAIR.search(line):
        return _find_last_object(_convert_ruby(line))
    if found is None and _PRINTED_PAIR.search(line):
        return _find_last_object(_convert_printed(line))
    return found


def _find_last_object(line: str) -> tuple[str, dict[str, Any]] | None:
    start = line.find("{")
    while 0 <= start <= headers.HEADER_LIMIT:
        try:
            found, end = _DECODER.raw_decode(line, start)
        except (ValueError, RecursionError):
            start = line.find("{", start + 1)
            continue
        if isinstance(found, dict) and (behind := _BEHIND.match(line, end)):
            return line[:start].lstrip("[, ") + (behind[1] or ""), found
        if found and _ANOTHER.match(line, end):
            return None
        start = line.find("{", max(end, start + 1))
    return None


_BEHIND = re.compile(r"[\s,\]]*+(?:(?<=\s)([^\s{}\"][^{}\"\n]{0,120}))?\s*+\Z")
_ANOTHER = re.compile(r"(?:,\s{0,9})?\{")
"""What stands between objects of which none is that of the line."""


def _convert_ruby(line: str) -> str:
    """The line with its Ruby hash, as printed by Logstash's codec rubydebug, converted to JSON."""

    def token(found: re.Match[str]) -> str:
        if found[1]:
            inner = re.sub(r'(?<!\\)"', r"\"", found[1][1:-1])
            return '"' + inner.replace("\\#", "#").replace("\\e", "\\u001b") + '"'
        if found[2]:
            return json.dumps(found[2]) if found[2] not in ("true", "false", "nil") else found[2].replace("nil", "null")
        return ":" if found[0] == "=>" else ""

    start = max(0, line.find("{"))
    return line[:start] + _RUBY.sub(token, line[start:])


_RUBY_PAIR = re.compile(r'\{\s*"[^"\\]{1,80}"\s{0,3}=>')
_RUBY = re.compile(
    r'("(?:[^"\\]|\\.|"(?!\s*(?:=>|[,}\]]|\Z)))*+")|=>|\[\d+\](?= )|((?=\d{4}-\d|nil|true|false)[\w.:+-]+)', re.DOTALL
)
"""A string, which may contain unescaped quotes (Fluent Bit); an arrow; the index of an array item; a time or a word."""


def _convert_printed(line: str) -> str:
    """The line with its object, as printed by Node's console or by Python, converted to JSON. Node prints long texts in
    parts with a plus sign between them."""
    begin = '"'

    def token(found: re.Match[str]) -> str:
        nonlocal begin
        if found[1] or found[5]:
            inner = _PRINTED_CHARACTER.sub(
                lambda one: _PRINTED_CHARACTERS.get(one[0], one[0]), (found[1] or found[5])[1:-1]
            )
            text, begin = begin + inner + ("" if found[2] else '"'), "" if found[2] else '"'
            return text
        if found[3] or found[4]:
            return json.dumps(found[3] or found[4])
        if found[6]:
            return found[6]
        return found[0] if found[0].startswith("\\") else "null"

    start = max(0, line.find("{"))
    return line[:start] + _PRINTED.sub(token, line[start:])


_PRINTED_PAIR = re.compile(r"\{\s*(?:[A-Za-z_$][\w$]{0,60}|'[\w .@$-]{1,60}'): ")
_PRINTED = re.compile(
    r"""('(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|`(?:[^`\\]|\\.)*+`)(\s*\+\s*)?"""
    r"|(?<![\w$])([A-Za-z_$][\w$]{0,60})(?=: )|(?<!\w)((?=\d{4}-\d)[\w.:+-]+)"
    r"""|(?<![\w$])[A-Z]\w{1,30}\((?:('(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")|(\d[\d.]*))\)"""
    r"|\[(?:Object|Array|Function|Circular)\b[^\]\n]{0,200}\]|\b(?:undefined|None|True|False)\b|\\.",
    re.DOTALL,
)
"""A text, possibly one that goes on; a name; a time; what MongoDB's shell writes around a value; a value that is not
shown; what opens no text."""
_PRINTED_CHARACTER = re.compile(r"\\.|\"", re.DOTALL)
_PRINTED_CHARACTERS = {'"': '\\"', "\\'": "'", "\\`": "`", "\\x": "\\u00"}


def json_array(line: str) -> tuple[str, dict[str, Any]] | None:
    """The items of a line that is a JSON array, by index, as written by asciinema and ClickHouse's
    JSONCompactEachRow."""
    if line[:1] != "[" or line.rstrip()[-1:] != "]":
        return None
    try:
        found = json.loads(line, strict=False)
    except (ValueError, RecursionError):
        return None
    rows = len(found) < 2 or isinstance(found[0], dict | list)  # part of a document
    return None if rows else ("", {str(i): item for i, item in enumerate(found)})


def json_string(line: str) -> tuple[str, dict[str, Any]] | None:
    """The text of a line that is a JSON or YAML string; a trailing comma and a leading dash belong to a list."""
    text = line.strip(" \t\r\n,").removeprefix("- ")
    if len(text) > 1 and text[0] == text[-1] == "'":
        return "", {"text": text[1:-1].replace("''", "'")}
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return None
    try:
        return "", {"text": json.loads(text, strict=False)}
    except ValueError:
        return None


def json_tail(line: str) -> tuple[str, dict[str, Any]] | None:
    """The text before the JSON object at the end of a text, and the object."""
    text = line.rstrip()
    if not text.endswith("}"):
        return None
    for match in islice(_TAIL.finditer(text), _MOST_TRIES):
        try:
            found, end = _DECODER.raw_decode(text, match.end() - 1)
        except (ValueError, RecursionError):
            continue
        if end == len(text) and isinstance(found, dict):
            return text[: match.start()], found
    return None


def end_fields(line: str) -> tuple[str, dict[str, Any]] | None:
    """The text before the fields at the end of a text, a JSON object or pairs, and the fields."""
    return json_tail(line) or _pairs_tail(line)


def _pairs_tail(line: str) -> tuple[str, dict[str, Any]] | None:
    text, fields = line.rstrip(), dict[str, Any]()
    last = max(text.rfind(" "), text.rfind("\t")) + 1
    # Only a quoted value contains blanks.
    ends = text.endswith('"') or ((pair := _END_PAIR.match(text, last)) and pair.end() == len(text))
    pairs = list(_END_PAIR.finditer(text)) if ends else []
    end = len(text)
    for pair in reversed(pairs):
        if text[pair.end() : end].strip():
            break
        end = pair.start()
        fields[pair[1][:-1]] = _parse_value(pair[2])
    return (text[:end].rstrip().removesuffix(":"), fields) if fields else None


def lines_tail(text: str) -> tuple[str, dict[str, Any]] | None:
    """The first line of a text whose other lines are fields, `name: value` or `name=value`, and the fields: indented
    alike or to the right, possibly as a list or a tree; or one indented object. An object or a list may have further
    lines, as printed by pino-pretty."""
    line, _, rest = text.rstrip().partition("\n")
    first = _FIELD_LINE.match(rest)
    if first is None or line.rstrip().endswith(":"):  # the settings of a Java client
        whole = json_object(rest) if rest[:1] in (" ", "\t") else None
        return (line, dict(whole[1])) if whole is not None and not whole[0].strip() else None
    values: dict[str, str] = {}
    name = ""
    for row in rest.split("\n"):
        found = _FIELD_LINE.match(row)
        if found is not None and (found.start(2) <= first.start(2) or found.end(2) == first.end(2)):
            name = found[2]
            values[name] = row[found.end() :]
        elif row[: first.start(2) + 1].strip(" \t}]"):
            return None
        else:
            values[name] += f"\n{row}"
    return line, {name: _parse_value(value.strip()) for name, value in values.items()}


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text) if text[:1] in ("{", "[") else _unquote(text)
    except (ValueError, RecursionError):
        return text


_TAIL = re.compile(r"[ \t]+\{(?=[\"}])")
_MOST_TRIES = 20
_DECODER = json.JSONDecoder(strict=False)
_NAME = r"[A-Za-z_@][\w.@/-]{0,80}="
_ENDS = rf"(?=[ \t]*+[,}})\]/>]*+[ \t]*+(?:\Z|\n|(?:[,;][ \t]++|(?<=[ \t])){_NAME}))"
_VALUES = (
    r'"(?:[^"\\\n]|\\.)*"(?![^\s,})\]/>])',
    rf'"(?:[^"\\]|\\.|"(?!{_ENDS}))*+(?:"|\Z)',
    rf"'(?:[^'\\\n]|\\.)*'{_ENDS}",
    # a time, which has a blank
    r"\d[\d./-]{5,11}[ T]\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|[+-]\d\d:?\d\d))?(?![^\s,})\]])",
    r'[^\s",]*',
)
_END_PAIR = re.compile(
    rf"(?<=[ \t])({_NAME})({_VALUES[0]}|(?:map)?[\[{{]\S*[\]}}](?=\s|\Z)|[^\s\"',()\[\]{{}}]*(?=\s|\Z))"
)
"""A pair behind a message: brackets, if any, are around the whole value, or around that of a map of Go."""
_FIELD_LINE = re.compile(
    r"[ \t]+(?:([│┃├└╰─↳•*>-]{1,3})[ \t]*)?\"?([A-Za-z_][\w.@/-]{0,80})\"?[ \t]*(?:=|:(?=[ \t]|\Z|\n))", re.ASCII
)
_PAIR = re.compile(rf"(?:^|(?<=[\s,{{(]))({_NAME})({'|'.join(_VALUES)})")
"""A pair. A value may contain unescaped quotes and line feeds."""


def logfmt(line: str) -> tuple[str, dict[str, Any]] | None:
    """The text before the first `key=value` of a line, and the pairs; None if there are fewer than two."""
    pairs = list(_PAIR.finditer(line)) if line.count("=") > 1 else ()
    if len(pairs) < 2 or pairs[0].start() > headers.HEADER_LIMIT:
        return None
    return line[: pairs[0].start()], {m[1][:-1]: _unquote(m[2]) for m in pairs}


_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def _unquote(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return re.sub(r"\\([nrt'\\])", lambda found: _ESCAPES.get(found[1], found[1]), text[1:-1])
    if not text.startswith('"'):
        return text
    try:
        return str(json.loads(text, strict=False))
    except ValueError:
        return text[1:].removesuffix('"').replace('\\"', '"')


_SERVICE_MESSAGE = re.compile(r"##teamcity\[(\w+)\s+(.*)\][ \t]*\Z", re.DOTALL)
_ATTRIBUTE = re.compile(r"(?:(\w+)\s*=\s*)?'((?:[^|']|\|.)*+)'", re.DOTALL)
_BARRED = re.compile(r"\|(?:0x([0-9a-fA-F]{4})|(.))", re.DOTALL)
_BARS = {"n": "\n", "r": "\r", "x": "\x85", "l": "\u2028", "p": "\u2029"}


def service_message(line: str) -> tuple[str, dict[str, Any]] | None:
    """The text before a TeamCity service message in a line, and its attributes, unescaped."""
    found = _SERVICE_MESSAGE.search(line)
    if found is None:
        return None
    values = {
        name or "text": _BARRED.sub(lambda bar: chr(int(bar[1], 16)) if bar[1] else _BARS.get(bar[2], bar[2]), value)
        for name, value in _ATTRIBUTE.findall(found[2])
    }
    return line[: found.start()], values


class Csv(NamedTuple):
    """A table: its column names (indices if it has no header row) and delimiter."""

    names: tuple[str, ...]
    delimiter: str
    named: bool
    """Whether the first row has the column names."""

    def read(self, line: str) -> tuple[str, dict[str, Any]] | None:
        """The cells of a row by column."""
        rows = list(_read_rows([line], self.delimiter))
        if len(rows) != 1 or len(rows[0]) != len(self.names) or tuple(rows[0]) == self.names:
            return None
        cells = dict(zip(self.names, rows[0], strict=True))
        return "", cells | {name: _read_labels(cells[name]) for name in _LABELS if name in cells}

    def count_open(self, before: int, line: bytes) -> int:
        """How many quotes are open behind a line of a row, given how many were before it."""
        return (before + line.count(b'"')) % 2


_LABELS = ("labels", "tags", "attributes")


def _read_labels(cell: str) -> object:
    """The labels in a cell, as Grafana writes those of Loki: an object."""
    try:
        return json.loads(cell) if cell.startswith("{") else cell
    except (ValueError, RecursionError):
        return cell


class Pretty(NamedTuple):
    """JSON objects over several lines. The closing brace has the same indentation as the first line."""

    indent: bytes

    def rows(self, text: bytes) -> list[bytes]:
        """The object on one line; the text itself if it is not an object."""
        begin = max(0, text.find(b"{"))
        try:
            found = json.loads(text[begin:].strip(b" \t\r\n,]"), strict=False)
        except (ValueError, RecursionError):
            return [text]
        return [text[:begin].lstrip(b", ") + json.dumps(found).encode()]

    def count_open(self, before: int, line: bytes) -> int:
        """As `Csv.count_open`, of braces: 1 inside of an object."""
        if not before:
            found = _OPENS.match(line)
            return int(found is not None and found[1] == self.indent)
        return int(line.rstrip(b" \t\r,]") != self.indent + b"}")


_ENDS_OPEN = re.compile(rb"\{[^\S\n]*(?:\n|\Z)")
_OPENS = re.compile(rb"(?:, |\S[^{\n]{0,200}[ \t])?([ \t]*)\{\s*\Z")


def find_pretty(head: bytes) -> Pretty | None:
    """The indentation of a text of objects over several lines, from the most common one; None for any other text. Other
    lines may precede them if several objects are opened and closed."""
    head = head.removeprefix(b"\xef\xbb\xbf")
    if _ENDS_OPEN.search(head) is None:
        return None
    lines = head.split(b"\n")
    indents = Counter(found[1] for line in lines if (found := _OPENS.match(line)))
    if not indents:
        return None
    indent = min(indents, key=lambda indent: (-indents[indent], len(indent)))
    closed = sum(line.rstrip(b" \t\r,]") == indent + b"}" for line in lines)
    begins = _OPENS.match(lines[0]) is not None or lines[0].strip() == b"["
    return Pretty(indent) if begins or closed >= max(_FEWEST_OBJECTS, 0.9 * indents[indent] - 1) else None


_FEWEST_OBJECTS = 3


def _read_rows(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader((line.replace("\0", "") for line in lines), delimiter=delimiter, strict=True)
    except csv.Error:
        return


def find_csv(text: str) -> Csv | None:
    """The table at the beginning of a text: rows of equal length with quoted cells or a header row; None if it is no
    table."""
    text = _SEPARATOR.sub("", text.removeprefix("\ufeff"))
    for delimiter in (",", ";", "\t"):
        if f'"{delimiter}"' not in text and f'{delimiter}"' not in text:
            continue
        rows = [row for row in _read_rows(text.splitlines(keepends=True), delimiter) if row]
        rows = rows[: 1 + max(1, len(rows) - 1)]
        if len(rows) > 1 and len(rows[1]) == len(rows[0]) + 1:  # the Windows Event Viewer does not name the last column
            rows[0] = [*rows[0], "Message"]
        width = len(rows[0]) if rows else 0
        if width < 2 or len(rows) < 2 or sum(len(row) == width for row in rows[:-1]) < 0.98 * (len(rows) - 1):
            continue
        named = all(re.fullmatch(r"[@\w .:/()\[\]#\"-]{1,80}", cell) for cell in rows[0]) and len(set(rows[0])) == width
        named = named and not any(stamps.ANY.search(cell) for cell in rows[0])
        if not named and len(rows) + sum(cell.count("\n") for row in rows for cell in row) <= text.count("\n") / 2:
            continue  # what follows is no table
        return Csv(tuple(rows[0]) if named else tuple(map(str, range(width))), delimiter, named)
    return _find_column(text)


def _find_column(text: str) -> Csv | None:
    """A table of one column, all of whose cells are quoted: some contain quotes, which are doubled, or line feeds."""
    lines = text.splitlines(keepends=True)
    if len(lines) < 2 or not lines[1].startswith('"'):
        return None
    cells = [row[0] for row in _read_rows(lines, ",") if len(row) == 1]
    quoted = sum(line.startswith('"') for line in lines)
    is_whole = sum(cell.count("\n") + 1 for cell in cells) > 0.8 * len(lines) and quoted >= len(cells) - 1
    if not is_whole or not any('"' in cell or "\n" in cell for cell in cells):
        return None
    named = re.fullmatch(r"[@\w .:/()\[\]#-]{1,80}", cells[0]) is not None and stamps.ANY.search(cells[0]) is None
    return Csv((cells[0] if named else "0",), ",", named)


_SEPARATOR = re.compile(r"sep=.\r?\n")
"""The line that declares the delimiter to Excel."""

Reader = Callable[[str], tuple[str, dict[str, Any]] | None]
"""The signature of `json_object`, `logfmt` and `Csv.read`."""


def roles_of(samples: Sequence[dict[str, Any]], text: str, clock: stamps.Clock) -> Roles:
    """The roles of the fields of these lines; `text` is the path of the message."""
    columns: dict[str, list[Any]] = {}
    for sample in samples:
        for path, value in sample.items():
            columns.setdefault(path, []).append(value)
    rare = max(1, len(samples) // 2)
    often = {path: values for path, values in columns.items() if len(values) >= rare and path != text}
    time = _choose_field(often, lambda path, values: _score_time(path, values, clock))
    read = [str(value) for value in often.get(time, ())]
    return Roles(
        text,
        time,
        _choose_field(often, _score_level),
        _choose_field(often, _score_thread),
        _choose_field(often, _score_logger),
        _choose_field({path: values for path, values in columns.items() if path != text}, _score_error),
        _choose_field(often, _score_pid),
        tuple(sorted(path for path in often if _STREAM.fullmatch(path.lower()))),
        "day_month_year" if any(_is_day_first(one, clock) for one in read) else "",
        headers.find_program(often),
    )


_STREAM = re.compile(
    r"(?:.*[._])?(?:stream|container_?(?:id|name)|pod_?(?:id|name)?|kubernetes\.pod\.name|host\.?name|_hostname|_pid"
    r"|logstream(?:name)?|log_stream|unit|_systemd_unit|syslog_identifier)"
)


def _is_day_first(text: str, clock: stamps.Clock) -> bool:
    return bool(stamps.read(text, clock, ("day_month_year",))) and not stamps.read(text, clock, ("month_day_year",))


def _choose_field(columns: Mapping[str, list[Any]], score: Callable[[str, list[Any]], float]) -> str:
    ranked = [(score(path, values), -i, path) for i, (path, values) in enumerate(columns.items())]
    best = max(ranked, default=(0.0, 0, ""))
    return best[2] if best[0] > 0 else ""


def _get_last_name(path: str) -> str:
    return path.lower().rpartition(".")[2]


def find_time(values: Fields) -> object:
    """The value of the field with the most specific timestamp name, else of one below such a field; None if there is
    none."""
    named = {name.lower(): value for name, value in values.items()}
    below = {part: value for name, value in named.items() for part in name.split(".")}
    return next((found[name] for found in (named, below) for name in _TIME_NAMES if name in found), None)


def time_of(value: object, clock: stamps.Clock, row: str = "") -> stamps.Time | None:
    """The time in a field, in the given timestamp format or in any."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return stamps.read_number(value)
    if isinstance(value, str) and len(value) <= 60:
        text = value.strip()
        if re.fullmatch(r"1\d{9,18}(?:\.\d{1,9})?", text):
            return stamps.read(text, clock, ("epoch",))
        return (stamps.read(text, clock, (row,)) if row else None) or stamps.read(text, clock)
    return None


_LEAST = 0.01
"""The score of a timestamp that is used only if there is no other."""


def _score_time(path: str, values: list[Any], clock: stamps.Clock) -> float:
    read = [time_of(value, clock) for value in values[:50]]
    good = [one for one in read if one is not None]
    if len(good) < 0.9 * len(read):
        return 0.0
    lost = frozenset().union(*(one.lost for one in good))
    whole = path.lower()
    named = next((i for i, name in enumerate(_TIME_NAMES) if name in (whole, _get_last_name(path))), None)
    if len(values) >= headers.ENOUGH_TIMES and len(set(map(str, values))) == 1:
        return _LEAST
    score = 1.0 + (3.0 - 0.03 * named if named is not None else 0.5 if "time" in whole or "date" in whole else 0.0)
    return score - 2.0 * ("date" in lost) - 0.5 * ("milliseconds" in lost and len(good) > 3) - 0.2 * ("zone" in lost)


def _score_level(path: str, values: list[Any]) -> float:
    names = ("level", "severity", "lvl", "levelname", "@l", "loglevel", "log_level", "priority", "syslog_level")
    words = sum(text_of(value).strip().upper() in headers.LEVELS for value in values) / len(values)
    return words + (0.5 if _get_last_name(path) in names else 0.0) if words >= 0.8 else 0.0


def _score_thread(path: str, values: list[Any]) -> float:
    last, whole = _get_last_name(path), path.lower()
    if "thread" not in whole or any(isinstance(value, int | float) for value in values):
        return 0.0
    return 2.0 - (0.5 if last.endswith("id") or "priority" in last else 0.0) + 0.2 * ("name" in last)


def _score_logger(path: str, values: list[Any]) -> float:
    whole, last = path.lower(), _get_last_name(path)
    if "fqcn" in whole or "thread" in whole or "exception" in whole or "host" in whole:
        return 0.0
    texts = [text_of(value) for value in values]
    looks = headers.score_logger(texts)
    if last in ("logger", "logger_name", "loggername", "_logger", "log.logger") or whole.endswith("log.logger"):
        return 3.0 + looks if any(texts) else 0.0
    named = any(name in whole for name in ("logger", "category", "source", "target", "class", "name", "scope"))
    return looks * (1.0 if named else 0.5) if looks >= 1.0 else 0.0


def _score_error(path: str, values: list[Any]) -> float:
    whole = path.lower()
    if not any(isinstance(value, str) and value for value in values):
        return 0.0
    scores = ("stack_trace", 5), ("stacktrace", 5), ("stack", 4), ("exception", 3), ("throwable", 3), ("thrown", 3)
    return float(next((score for name, score in scores if name in whole), 0))


def _score_pid(path: str, values: list[Any]) -> float:
    digits = all(re.fullmatch(r"\d{1,10}", text_of(value)) for value in values)
    return 1.0 if digits and _get_last_name(path) in ("pid", "_pid", "process_id", "processid") else 0.0
