"""Layouts as user-defined patterns: `%{time} %{level} [%{thread}] %{logger} - %{message}`.

Slots are `time`, `level`, `thread`, `logger`, `message`, `word` (without blanks) and `skip` (anything). The text
between them is literal; a blank matches several. Patterns of logback and log4j (`%d %-5p [%t] %c{1} - %m%n`), of
Python's logging (`%(asctime)s %(levelname)s %(message)s`) and of grok (`%{TIMESTAMP_ISO8601:time} ...`) are accepted,
too. Frames (containers' JSON, CRI, colours) are removed first; a pattern describes their content.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from fsm.errors import InputError
from fsm.logs import Format
from fsm.logs.layouts.headers import Header, Token

_ROLES = {
    "time": "time timestamp date datetime asctime d timestamp_iso8601 syslogtimestamp ts created",
    "level": "level p le loglevel levelname severity",
    "thread": "thread t threadname tn",
    "logger": "logger c lo class javaclass name category caller",
    "message": "message m msg greedydata",
    "skip": "skip data x mdc",
    "word": (
        "word w pid l line f file method notspace number int ip iporhost hostname host marker contextname cn "
        "process tid threadid relative r sn sequencenumber property processid lineno funcname module"
    ),
    "": "n ex exception throwable xex xexception rex wex nopex nopexception xthrowable rootexception",
}
"""The names of each role's slots. Slots without a role print nothing."""
ROLE_OF = {name: role for role, names in _ROLES.items() for name in names.split()}
_SLOT = re.compile(
    r"%\{(?P<grok>\w+)(?::(?P<as>[\w.\[\]@-]+))?\}"
    r"|%\((?P<python>\w+)\)[-\d.]*[sdf]"
    r"|%-?[\d.-]*(?P<java>[A-Za-z]+)(?:\{[^{}]*\})*"
)
_COLOURS = re.compile(r"%-?[\d.]*(?:clr|highlight|style|cyan|gray|magenta|yellow|red|green|blue|white|black|bold\w*)\(")
_KINDS = {"time": "time", "thread": "lazy", "skip": "lazy"}


def parse_pattern(text: str) -> tuple[Header, Header | None]:
    """The headers before and behind the message. Raises InputError if there is no message or an unknown slot."""
    tokens: list[Token] = []
    roles: list[str] = []
    before: Header | None = None
    place = 0
    plain = _strip_colours(text)
    for match in _SLOT.finditer(plain):
        tokens += _split_literal(plain[place : match.start()])
        place = match.end()
        role = _find_role(match)
        if role == "message":
            if before is not None:
                raise InputError("the pattern has two messages", "--layout")
            before, tokens, roles = Header(tuple(tokens), tuple(roles)), [], []
        elif role:
            tokens.append(Token(_KINDS.get(role, "word"), ""))
            roles.append(role if role != "skip" else "word")
    tokens += _split_literal(plain[place:])
    if before is None:
        raise InputError("the pattern has no %{message}", "--layout", "such as '%{time} %{level} %{logger} %{message}'")
    return before, Header(tuple(tokens), tuple(roles)) if roles else None


def in_layout(formats: Sequence[Format], pattern: str) -> tuple[Format, ...]:
    """The formats, with the given layout for clients instead of a learned one.

    Raises InputError if the pattern is invalid.
    """
    parse_pattern(pattern)
    return tuple(replace(one, layout=pattern) if one.client is not None else one for one in formats)


def _find_role(match: re.Match[str]) -> str:
    for name in (match["as"], match["grok"], match["python"], match["java"]):
        if name and name.lower().strip("[]@") in ROLE_OF:
            return ROLE_OF[name.lower().strip("[]@")]
    name = match["as"] or match["grok"] or match["python"] or match["java"]
    known = ", ".join(name for name in _ROLES if name)
    raise InputError(f"unknown slot {name!r} in the pattern", "--layout", f"slots are {known}")


def _split_literal(text: str) -> list[Token]:
    parts = re.findall(r"[ \t]+|[^ \t]+", text.replace("\\t", "\t").replace("%%", "%"))
    return [Token("blank", "") if part.isspace() else Token("text", part) for part in parts]


def _strip_colours(text: str) -> str:
    """The pattern without `%clr(...){faint}` and similar wrappers."""
    while match := _COLOURS.search(text):
        depth, end = 1, match.end()
        while end < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        rest = re.sub(r"\A\{[^{}]*\}", "", text[end:])
        text = text[: match.start()] + text[match.end() : end - 1] + rest
    return text
