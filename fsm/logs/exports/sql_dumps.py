"""SQL dumps of tables, as written by `pg_dump --inserts`, `mysqldump` and phpMyAdmin: `INSERT` with one row or with
many."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

_INSERT = re.compile(rb"INSERT (?:IGNORE )?INTO [^\s(]{1,200}\s*(?:\(([^()]{1,2000})\)\s*)?VALUES\b\s*", re.IGNORECASE)
_COLUMNS = re.compile(rb"CREATE TABLE [^(]{1,200}\(\r?\n(.*?)\r?\n\)", re.DOTALL | re.IGNORECASE)
_COLUMN = re.compile(rb"\s*[`\"]?(\w{1,60})[`\"]?\s+[a-z]", re.IGNORECASE)
_NO_COLUMN = re.compile(rb"\s*(?:PRIMARY|UNIQUE|FULLTEXT|KEY|INDEX|CONSTRAINT|FOREIGN|CHECK)\b", re.IGNORECASE)
_PLAIN = r"'(?:[^']|'')*'"
_ESCAPED = r"'(?:[^'\\]|\\.|'')*'"
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "", "Z": ""}


class Inserts(NamedTuple):
    """Rows in `INSERT` statements."""

    names: tuple[str, ...]
    """The column names; empty if unknown."""
    escapes: bool
    """Whether a backslash escapes, as in MySQL."""

    def count_open(self, before: int, line: bytes) -> int:
        """As `Csv.count_open`; other lines than rows open none."""
        if not (before or line.startswith((b"INSERT", b"insert", b"(", b"  ("))):
            return 0
        bare = re.sub(rb"\\.", b"", line) if self.escapes else line
        return (before + bare.count(b"'")) % 2

    def rows(self, text: bytes) -> list[bytes]:
        """The rows as lines of JSON; the text itself if there are none."""
        begin = _INSERT.match(text)
        if begin is None and text.lstrip()[:1] != b"(":
            return [text]
        body = text[begin.end() if begin else 0 :].decode("utf-8", "replace")
        literal = _ESCAPED if self.escapes else _PLAIN
        values = re.compile(rf"[EN]?({literal})|([^\s',()][^',()]*(?:\([^()]*\))?)", re.DOTALL)
        out = []
        for row in re.finditer(rf"\(((?:{literal}|[^'()]|\([^()]*\))*)\)", body, re.DOTALL):
            cells = [self._parse_value(cell[1], cell[2]) for cell in values.finditer(row[1])]
            named = self.names if len(self.names) == len(cells) else tuple(map(str, range(len(cells))))
            out.append(json.dumps(dict(zip(named, cells, strict=True))).encode())
        return out or [text]

    def _parse_value(self, quoted: str | None, bare: str | None) -> str | int | None:
        if quoted is None:
            word = (bare or "").strip()
            return None if word.upper() == "NULL" else int(word) if re.fullmatch(r"-?\d{1,18}", word) else word
        text = quoted[1:-1].replace("''", "'")
        return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text, flags=re.DOTALL) if self.escapes else text


def find_inserts(head: bytes) -> Inserts | None:
    """The table of a text that is such a dump, else None."""
    if b"INSERT INTO" not in head and b"insert into" not in head:
        return None
    first = next((match for line in head.split(b"\n") if (match := _INSERT.match(line))), None)
    if first is None:
        return None
    columns: Sequence[bytes] = first[1].split(b",") if first[1] else ()
    if not columns and (table := _COLUMNS.search(head)) is not None:
        lines = [line for line in table[1].split(b"\n") if not _NO_COLUMN.match(line)]
        columns = [match[1] for line in lines if (match := _COLUMN.match(line))]
    names = tuple(name.strip(b' `"\r\n').decode("utf-8", "replace") for name in columns)
    return Inserts(names, escapes=b"`" in first[0] or b"MySQL dump" in head or b"MariaDB dump" in head)
