"""JSON documents with many log entries each: responses of search engines and clouds, batches of collectors. Entries are
objects in an array, rows below named columns, or lists of names and values. Fields around the array (stream, resource)
belong to each of its entries."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple

from fsm.logs.layouts import stamps
from fsm.logs.layouts.fields import DEPTH

Path = tuple[str, ...]
"""The path of an array; `[]` is an item of another array."""


class Document(NamedTuple):
    """JSON with entries in an array; one document per line, or one for the whole file."""

    path: Path
    over_lines: bool = False

    def count_open(self, before: int, line: bytes) -> int:
        """As `Csv.count_open`, of brackets."""
        return before + _count_open(line) if self.over_lines else 0

    def rows(self, text: bytes) -> list[bytes]:
        """The entries of a document, one line each; the text itself if there are none."""
        found = _sort_streams(_find_arrays(_load(text.decode("utf-8", "replace"))).get(self.path, []))
        return [json.dumps(one).encode() for one in found] or [text]

    def is_cut(self, text: bytes) -> bool:
        """Whether a document ends in the middle."""
        return text.lstrip()[:1] in (b"{", b"[") and _count_open(text) > 0


def _sort_streams(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sorts the entries of streams, which Loki returns one after another, each newest first, by time; also those of
    one, because the beginning of a document may have no other. Leaves other entries in order."""
    if not any(row.get(AROUND, {}).get("stream") for row in rows):
        return rows
    times = [int(time) if isinstance(time := row.get("time"), str) and time.isdecimal() else -1 for row in rows]
    if -1 in times:
        return rows
    falls = sum(a > b for a, b in pairwise(times)) > sum(a < b for a, b in pairwise(times))
    order = range(len(rows))
    return [rows[i] for i in sorted(reversed(order) if falls else order, key=times.__getitem__)]


_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*+"')


def _count_open(line: bytes) -> int:
    bare = _QUOTED.sub(b"", line)
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")


_BATCHES = (b'{"resourceLogs":', b'{"streams":', b'{"messageType":', b'[{"')
"""How lines with several entries begin, even if the first ones contain few."""
_SHORTEST, _FEWEST, _FIRST_LINES, _BEFORE = 2000, 3, 50, 200


def find_document(head: bytes) -> Document | None:
    """The document layout of a text that consists mostly of entries in arrays: one document per line, or one over all
    lines that is more than a list of objects."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    lines = text.split(b"\n", _FIRST_LINES)[:_FIRST_LINES]
    if text[:1] in (b"{", b"[") and _count_open(lines[0]) > 0 and len(lines[0]) < _SHORTEST:
        arrays = _find_arrays(_load(text.decode("utf-8", "replace")))
        path = _choose_array({path: (len(found), _measure_weight(found)) for path, found in arrays.items()})
        found = arrays.get(path, [])
        structured = "[]" in path or any(name in path for name in (_COLUMNS_MARK, _LINES_MARK))
        return Document(path, over_lines=True) if structured and len(found) >= _FEWEST else None
    weights: Counter[Path] = Counter()
    counts: Counter[Path] = Counter()
    length = 0
    for line in lines:
        if not line.startswith(_BATCHES) and (len(line) < _SHORTEST or not _BEGINS.match(line)):
            continue
        length += len(line)
        for path, found in _find_arrays(_load(line.decode("utf-8", "replace"))).items():
            weights[path] += _measure_weight(found)
            counts[path] += len(found)
    path = _choose_array({path: (counts[path], weights[path]) for path in counts})
    batches = path[-1:] == ("logRecords",)
    large = weights[path] > length / 2 and length > sum(map(len, lines)) / 2
    return Document(path) if batches or (counts[path] >= _FEWEST and large) else None


def _choose_array(paths: Mapping[Path, tuple[int, int]]) -> Path:
    """The array with the most entries, among those about as large as the largest one."""
    most = max((weight for _, weight in paths.values()), default=0)
    large = {path: count for path, (count, weight) in paths.items() if weight > most / 4}
    return max(large, key=lambda path: large[path], default=())


_BEGINS = re.compile(rb"[^{\[]{0,%d}(?:\[[^{\[]{1,60}\] => )?[{\[]" % _BEFORE)


def _measure_weight(found: Sequence[Mapping[str, Any]]) -> int:
    return sum(len(json.dumps({k: v for k, v in one.items() if k != AROUND})) for one in found)


# -- loading ------------------------------------------------------------------------------------------------

_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[][{}]|(?<=[]}]),', re.DOTALL)


def _load(text: str) -> list[object]:
    """The concatenated documents of a text; an incomplete last one as far as it goes."""
    start = next((i for i in range(min(len(text), _BEFORE)) if text[i] in "{[" and _is_json(text[i : i + 3])), 0)
    text = text[start:]
    found: list[object] = []
    place = 0
    while place < len(text):
        try:
            one, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            break
        found.append(one)
        place = next((i for i in range(place, len(text)) if not text[i].isspace() and text[i] != ","), len(text))
    if place < len(text):
        found.append(_cut(text[place:]))
    return found


def _is_json(start: str) -> bool:
    return re.match(r'\{\s*["}]|\{\s*\Z|\[\s*(?:["{\[\d-]|\Z)', start) is not None


def _cut(text: str) -> object:
    stack: list[str] = []
    end, closing = 0, ""
    for token in _BRACKETS.finditer(text):
        if token[0] in "[{":
            stack.append("]" if token[0] == "[" else "}")
        elif token[0] in "]}" and stack:
            stack.pop()
        elif token[0] == "," and len(stack) <= 2 * DEPTH:
            end, closing = token.start(), "".join(reversed(stack))
    try:
        return _DECODER.decode(text[:end] + closing)
    except (ValueError, RecursionError):
        return None


_VALUES = frozenset({"stringValue", "intValue", "doubleValue", "boolValue", "bytesValue"})
_NAMES = ("field", "key", "name", "Name", "Key", "Field")
_VALUE = frozenset({"value", "Value", "content"})
_MOST_PROPERTIES = 4
"""Of a value: its name, and perhaps a type or its place in a text."""


def _simplify(found: dict[str, Any]) -> Any:
    """An object in which the name-value lists of OpenTelemetry, AWS and VMware are replaced by plain JSON."""
    if len(found) == 1:
        (name, value), *_ = found.items()
        if name in _VALUES and not isinstance(value, dict | list):
            return value
        if name in ("arrayValue", "kvlistValue") and isinstance(value, dict) and len(value) == 1:
            return next(iter(value.values()))
    return {name: _read_name_values(value) if isinstance(value, list) else value for name, value in found.items()}


def _read_name_values(values: list[Any]) -> Any:
    """A list of names and values as an object."""
    if not values or not all(
        isinstance(one, dict) and 2 <= len(one) <= _MOST_PROPERTIES and len(_VALUE & one.keys()) == 1 for one in values
    ):
        return [_read_name_values(one) if isinstance(one, list) else one for one in values]
    name = next((name for name in _NAMES if name in values[0]), "")
    if not name or not all(isinstance(one.get(name), str) for one in values):
        return values
    value = next(iter(_VALUE & values[0].keys()))
    return {one[name]: one.get(value) for one in values}


_DECODER = json.JSONDecoder(strict=False, object_hook=_simplify)


# -- entries ------------------------------------------------------------------------------------------------

AROUND = "_around"
"""The field of an entry that holds the fields around its array."""
_COLUMNS_MARK, _LINES_MARK, _DOCUMENTS_MARK = "(columns)", "(lines)", "(documents)"
_COLUMN_NAMES = ("columns", "meta", "fields", "schema", "headers", "columnNames")
_LARGEST_AROUND, _LONGEST_AROUND, _MOST_AROUND = 2000, 200, 200
"""Limits for the fields around entries: bytes of a nested object, characters of a text, fields of an object."""


def _find_arrays(documents: Sequence[object]) -> dict[Path, list[dict[str, Any]]]:
    """Entries by the paths of their arrays."""
    out: dict[Path, list[dict[str, Any]]] = {}
    if len(documents) > 1:
        out[(_DOCUMENTS_MARK,)] = [one for one in documents if isinstance(one, dict)]
    stack: list[_Place] = [_Place((), one, {}) for one in reversed(documents) if isinstance(one, dict | list)]
    while stack:
        place = stack.pop()
        if len(place.path) >= 2 * DEPTH:
            continue
        look = _read_object if isinstance(place.value, dict) else _read_list
        stack += reversed(list(look(place, out)))
    return out


class _Place(NamedTuple):
    path: Path
    value: Any
    around: Mapping[str, Any]


_Found = dict[Path, list[dict[str, Any]]]


def _read_object(place: _Place, out: _Found) -> Iterator[_Place]:
    """The values of an object; rows below named columns are entries."""
    path, one, around = place
    own = {name: item for name, item in one.items() if _is_small(item)} if len(one) <= _MOST_AROUND else {}
    for name, item in one.items():
        lines = _split_log(item) if isinstance(item, str) else []
        if not (lines or isinstance(item, dict | list)):
            continue
        shared = {**around, **{key: value for key, value in own.items() if key != name}}
        rows = _read_columns(one, item)
        if lines:
            out.setdefault((*path, name, _LINES_MARK), []).extend(
                _add_surroundings({"line": line}, _drop_times(shared)) for line in lines
            )
        elif rows:
            out.setdefault((*path, name, _COLUMNS_MARK), []).extend(_add_surroundings(row, shared) for row in rows)
        else:
            yield _Place((*path, name), item, shared)


def _read_list(place: _Place, out: _Found) -> Iterator[_Place]:
    """The items of a list: objects, pairs of a time and a text, and long texts are entries."""
    path, items, around = place
    for item in items:
        if isinstance(item, list) and len(item) == 2 and isinstance(item[1], str):
            out.setdefault(path, []).append(_add_surroundings({"time": item[0], "line": item[1]}, around))
        elif isinstance(item, str) and len(item) > _SHORTEST_LINE:
            out.setdefault((*path, _LINES_MARK), []).append(_add_surroundings({"line": item}, _drop_times(around)))
        elif isinstance(item, dict | list):
            if isinstance(item, dict):
                out.setdefault(path, []).append(_add_surroundings(item, around))
            yield _Place((*path, "[]"), item, around)


_SHORTEST_LINE, _FEWEST_STAMPED = 20, 3


def _split_log(text: str) -> list[str]:
    """The lines of a text that is a log, such as the output of a build step; empty for any other text."""
    lines = text.replace("\r\n", "\n").strip("`\n").split("\n")  # Slack messages have it in backquotes
    stamped = (line for line in lines if stamps.ANY.search(line, 0, stamps.WITHIN))
    return lines if sum(1 for _ in islice(stamped, _FEWEST_STAMPED)) == _FEWEST_STAMPED else []


def _drop_times(around: Mapping[str, Any]) -> Mapping[str, Any]:
    """The surrounding fields, without those that are the times of all lines together."""
    return {name: value for name, value in around.items() if not stamps.ANY.search(f"{value}")}


def _is_small(item: object) -> bool:
    if isinstance(item, list) or (isinstance(item, str) and len(item) > _LONGEST_AROUND):
        return False
    return not isinstance(item, dict) or len(json.dumps(item)) <= _LARGEST_AROUND


def _add_surroundings(row: dict[str, Any], around: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, AROUND: around} if around else row


def _read_columns(one: Mapping[str, Any], item: object) -> list[dict[str, Any]]:
    """Rows of cells, or columns of them, by the names beside them."""
    if isinstance(item, dict) and isinstance(item.get("values"), list):
        names = _find_column_names(one)
        columns = item["values"]
        if names and len(names) == len(columns) and all(isinstance(column, list) for column in columns):
            return [dict(zip(names, cells, strict=False)) for cells in zip(*columns, strict=False)]
    if not isinstance(item, list) or not item or not all(isinstance(row, list) for row in item):
        return []
    names = _find_column_names(one)
    return [dict(zip(names, row, strict=False)) for row in item if len(row) == len(names)] if names else []


def _find_column_names(one: Mapping[str, Any]) -> list[str]:
    for key in _COLUMN_NAMES:
        listed = one.get(key)
        if isinstance(listed, dict):
            listed = listed.get("fields")
        if isinstance(listed, list) and listed:
            names = [item.get("name") if isinstance(item, dict) else item for item in listed]
            if all(isinstance(name, str) for name in names):
                return [str(name) for name in names]
    return []
