"""The header of entries in a text log: time, level, thread, logger and constant text in any order, followed by the
message.

A header is inferred by comparing lines: the text before the message is split into tokens, tokens are slots or constant
text, and the values of a slot determine its role. A header can also be given as a pattern.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from fsm.logs import MAYBE
from fsm.logs.layouts import stamps

ENOUGH_TIMES = 10
"""A time that has not changed after this many entries is not a timestamp, if another one has."""
HEADER_LIMIT = 600
"""Most characters of a header."""
_LEVELS = (
    "TRCE TRACE DEBUG INFO WARN WARNING ERROR FATAL CRITICAL SEVERE CONFIG FINE FINER FINEST NOTICE ALERT EMERG PANIC "
    "ERR CRIT INFORMATION INFORMATIONAL VERBOSE TRC DBG DBUG INF WRN FTL VRB FAIL D I W E F DEBUG1 DEBUG2 EMERGENCY"
)
LEVELS = frozenset(_LEVELS.split())
_LEVEL = "(?i:" + "|".join(sorted(LEVELS, reverse=True)) + ")"
_THREAD = re.compile(
    r"(?i)\A(?!.*=\")(?=.*\Z)(?:main|.*(?:thread|pool|executor|dispatcher|scheduler|worker-?\d|vert\.x|eventloop|http-|nio-|task-).*"
    r"|.*-C-\d+|.*\d-consumer|.*kafka-coordinator.*|.*connector-.*)\Z"
)
_BACKGROUND = re.compile(r"kafka-coordinator-heartbeat-thread(?: \| [^\s\]\)>\"]+)?")
_CLASS = re.compile(
    r"(?:(?:[\w$-]{1,60}\.){1,20}[A-Z][\w$]{2,100}|[A-Z][a-z0-9]+(?:[A-Z][\w$]{1,100})+)(?::\d{1,6})?\Z", re.ASCII
)
"""May be followed by a line number."""
_DOTTED = re.compile(
    r"(?!\w+\.[a-z]{1,5}:|\S*\.\d+\Z)[A-Za-z_][\w-]{0,60}(?:\.[\w-]{1,60}){1,10}(?::\d{1,6})?\Z", re.ASCII
)
"""May be followed by a line number, which a file in a source tree is not; a process (`worker.1`) ends with a number."""
CLOSING = {"[": "]", "(": ")", "<": ">", "{": "}"}
_INNER = {"[": r"[^\[\]\n]*", "(": r"[^()\n]*", "<": r"[^<>\n]*", "{": r"[^{}\n]*"}
_INNERS = tuple(_INNER.items())
_FIELDS = {f"{opens}=": rf"[A-Za-z][\w.-]{{0,60}}(?:=|: ){inner}" for opens, inner in _INNER.items()}
_INNER |= {**_FIELDS, "{=": f"(?:{_FIELDS['{=']})?"}  # log4j prints the braces even if no field is set
_INNER |= {"\t": r"[^\t\n{]*", "=": r"[^\s\"]*", '"': r"[^\"\n]*"}  # a column, a value, a quoted value
_LED = rf"(?:{_LEVEL}|(?:{'|'.join(sorted(LEVELS, reverse=True))})\W%s)"
_INNER |= {f"{opens}!": _LED % inner for opens, inner in _INNERS}  # a level, or one in capitals and more
_INNER[":"] = r"[\w$]{1,100}\.[a-z]{1,5}:\d{1,7}"  # a place in a source file
_INNER["@"] = r"[\w.$-]{1,100}[:@]\d{1,7}"  # a function and its line
_INNER["#"] = r"#?\d{1,20}|[0-9a-fA-F]{8,64}(?:-[0-9a-fA-F]{2,32}){0,8}"  # a number, an id
_PLAIN = r"[^\s\[\]()<>{}|\"'=,;:#]+"
_ANY_WORD = rf"{_PLAIN}(?:#(?=(?:consumer|producer)-\d){_PLAIN})*"
"""`#` separates columns, but is part of the names of librdkafka's instances."""
_WORD = re.compile(_ANY_WORD)
_BLANK = re.compile(r"[ \t]+")


class Token(NamedTuple):
    kind: str
    """`time`, `word`, `inner` (between brackets), `lazy` (anything), `blank` or `text`."""
    what: str
    """For a time the timestamp format, for an inner its key in `_INNER`, for text the constant. For a blank: that it is
    mandatory, or its length, if continuation lines have a longer one."""


class Split(NamedTuple):
    tokens: tuple[Token, ...]
    values: tuple[str, ...]
    """The values of the slots: times, words and inners."""


_DAY_FIRST, _MONTH_FIRST = Token("time", "day_month_year"), Token("time", "month_day_year")
SLOTS = ("time", "word", "inner", "lazy")


def split(text: str) -> Split:
    """The tokens of the text before a message."""
    tokens: list[Token] = []
    values: list[str] = []
    place, found = 0, {m.start(): m for m in stamps.find(text)}
    taken = sorted((m.start(), m.end()) for m in found.values())
    while place < len(text):
        if place in found:
            stamp = found[place]
            tokens.append(Token("time", stamp.lastgroup or ""))
            values.append(stamp[0])
            place = stamp.end()
        elif blank := _BLANK.match(text, place):
            tokens.append(Token("blank", ""))
            place = blank.end()
        elif (closes := _find_closing(text, place)) and not any(place < start < closes for start, _ in taken):
            tokens += [Token("text", text[place]), Token("inner", text[place]), Token("text", text[closes])]
            values.append(text[place + 1 : closes])
            place = closes + 1
        elif word := _BACKGROUND.match(text, place) or _WORD.match(text, place):
            end = min((start for start, _ in taken if place < start < word.end()), default=word.end())
            if end == len(text) > place + 1 and text[-1] == "-":  # before the message
                end -= 1
            value = text[place:end]
            if any(map(str.isalnum, value)):
                tokens.append(Token("word", ""))
                values.append(value)
            else:
                tokens.append(Token("text", value))
            place = end
        else:
            tokens.append(Token("text", text[place]))
            place += 1
    return Split(tuple(tokens), tuple(values))


def _find_closing(text: str, place: int) -> int:
    """The position of the bracket that closes the one at `place`, without another inside; 0 if there is none."""
    if text[place] not in CLOSING:
        return 0
    match = re.compile(_INNER[text[place]]).match(text, place + 1)
    end = match.end() if match else 0
    return end if text[end : end + 1] == CLOSING[text[place]] else 0


@dataclass(frozen=True)
class Header:
    """The shape of the text before (or behind) a message, and the roles of its slots."""

    tokens: tuple[Token, ...]
    roles: tuple[str, ...]
    """`time`, `level`, `thread`, `logger` or `word` for each slot."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern; compiled at first use, since learning creates many headers and matches few."""
        return _compile(self.regex)

    @property
    def regex(self) -> str:
        """The source of the pattern."""
        return _build_regex(self.tokens, self.roles)

    def begins(self, behind: int = 0) -> re.Pattern[str]:
        """The part up to the first timestamp behind the given number of tokens, which identifies the first line of an
        entry; the whole header if it has none."""
        line = self.lines[0]
        places = (i for i, token in enumerate(line[: behind + 16]) if i >= behind and token.kind == "time")
        return _compile(_build_regex(line[: next(places, len(line)) + 1], self.roles))

    @property
    def repeated(self) -> bool:
        """Whether every line of a message has the header, and continuation lines are recognised by the text after
        it."""
        return bool(self.tokens) and self.tokens[-1].kind == "blank" and self.tokens[-1].what.isdigit()

    @property
    def rows(self) -> tuple[str, ...]:
        """The timestamp format of each slot; empty for other slots."""
        return tuple(token.what if token.kind == "time" else "" for token in self.tokens if token.kind in SLOTS)

    @property
    def lines(self) -> tuple[tuple[Token, ...], ...]:
        """The tokens of each line of the header."""
        ends = [i for i, token in enumerate(self.tokens) if token.what == "\n"]
        starts = [0, *(end + 1 for end in ends)]
        return tuple(self.tokens[a:b] for a, b in zip(starts, [*ends, len(self.tokens)], strict=True))

    def describe(self) -> str:
        """The header as a pattern: `%{time} %{level} [%{thread}] `."""
        roles = iter(self.roles)
        return "".join(
            f"%{{{next(roles, 'word')}}}" if token.kind in SLOTS else token.what if token.kind == "text" else " "
            for token in self.tokens
        )


@lru_cache(maxsize=512)
def _compile(regex: str) -> re.Pattern[str]:
    return re.compile(regex, re.ASCII)


def _build_regex(tokens: tuple[Token, ...], roles: tuple[str, ...]) -> str:
    out, slot = "", 0
    opened = False  # after a lazy slot, which ends at the first match of what follows
    for i, (kind, what) in enumerate(tokens):
        if kind == "blank" and what.isdigit():
            out += rf"[ \t]{{{what}}}(?![ \t])"
        elif kind == "blank":
            # The first token may be right-aligned, and a level may fill its column.
            free = (i == 0 and not what) or _is_beside_level(tokens, roles, i, slot)
            out += r"[ \t]*" if free else r"(?:[ \t]+|\Z)" if i == len(tokens) - 1 else r"[ \t]+"
        elif kind == "text":
            out += re.escape(what)
        else:
            out += ")" if opened else ""
            opened = kind == "lazy" and i + 1 < len(tokens) and tokens[i + 1].kind in ("blank", "text")
            found = _build_slot(kind, what, roles[slot] if slot < len(roles) else "word")
            out += f"(?>({found})" if opened else r"(\S*)" if kind == "lazy" else f"({found})"
            slot += 1
    return out + (")" if opened else "")


def _is_beside_level(tokens: tuple[Token, ...], roles: tuple[str, ...], i: int, slot: int) -> bool:
    """Whether a blank, before the given slot, separates a level from constant text."""
    around = [token.kind for token in tokens[max(0, i - 1) : i + 2]]
    near = slot - 1 if around[0] == "word" else slot
    return sorted(around) == ["blank", "text", "word"] and 0 <= near < len(roles) and roles[near] == "level"


def _build_slot(kind: str, what: str, role: str) -> str:
    if kind == "lazy":
        return r"[^\n]{0,400}?"
    if kind == "time" and not what:
        return stamps.ANY_TEXT
    if kind == "time":
        return stamps.without_names(stamps.BY_NAME[what].pattern)
    if kind == "inner":
        return _INNER[what]
    if role == "level":
        return _LEVEL
    return (_BACKGROUND.pattern + "|" if role == "thread" else "") + _ANY_WORD


def roles_of(tokens: Sequence[Token], rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The role of each slot, inferred from its values in several lines."""
    columns = list(zip(*rows, strict=True))
    slots = [token for token in tokens if token.kind in SLOTS]
    same = [len(values) >= ENOUGH_TIMES and len(set(values)) == 1 for values in columns]
    moves = any(slot.kind == "time" and not still for slot, still in zip(slots, same, strict=True))
    roles = [
        "time" if slot.kind == "time" and not (moves and still) else "word"
        for slot, still in zip(slots, same, strict=True)
    ]
    for i, values in enumerate(columns):
        if roles[i] == "word" and all(value.strip().upper() in LEVELS for value in values) and "level" not in roles:
            roles[i] = "level"
    for role, score in (("logger", score_logger), ("thread", _score_thread)):
        ranked = [(score(values), i) for i, values in enumerate(columns) if roles[i] == "word"]
        best = max(ranked, default=(0.0, 0))
        if best[0] > 0:
            roles[best[1]] = role
    return tuple(roles)


class Names(NamedTuple):
    """The fields or slots that name the process that printed a line."""

    places: tuple[str, ...]
    is_certain: bool
    """They name a pod or a container. Others may be names of something else, such as the host of a relay."""


def find_program(paths: Iterable[str]) -> Names:
    """The fields that name a pod, or else a container, or else a host, a unit and a process id; journald knows the
    process for certain."""
    named = sorted(paths)
    for pattern in (_POD, _CONTAINER, _JOURNALD, _PROCESS):
        if found := tuple(path for path in named if pattern.fullmatch(path.lower().rstrip("_"))):
            return Names(found, pattern is not _PROCESS)
    return Names((), False)


_POD = re.compile(r"(?:.*[._])?pod(?:[._ ]?(?:name|id|uid))?|.*podname|dyno")
_CONTAINER = re.compile(
    r"(?:.*[._])?container(?:[._ ]?(?:name|id))?|(?:.*[._@])?log_?stream(?:_?name)?|(?:.*[._])?alloc(?:ation)?[._]?id"
    r"|(?:.*[._])?service[._]instance[._]id"
)
_JOURNALD = re.compile("_pid|_hostname")
_PROCESS = re.compile(
    r"(?:(?:resource|attributes|labels|fields|agent|process|_around|stream|event|syslog|cloud)[._])*"
    r"(?:_?(?:source_?)?host(?:[._]?(?:host)?name)?|_?pid|process_?id|_systemd_unit|roleinstance|instance(?:[._]?id)?"
    r"|_stream|(?:log[._])?file[._]path|source)"
)


def find_program_slots(header: Header, lines: Iterable[str], *, timed: bool = False) -> tuple[tuple[int, bool], ...]:
    """The slots in which a collector names the process that printed a line, each with whether that is certain, as in
    `Names`: what looks like the name of a pod, a container or a host before the last time of the header, or anywhere if
    the time is `timed`, elsewhere in the line; syslog's host, and the process id behind its tag; labels."""
    kinds = [token.kind for token in header.tokens if token.kind in SLOTS]
    last = len(kinds) if timed else max((i for i, kind in enumerate(kinds) if kind == "time"), default=0)
    rows = [match.groups() for line in lines if kinds and (match := header.pattern.match(line))]
    syslog, procfile = _find_syslog_slots(header), _find_procfile_slots(header)
    found: list[tuple[int, bool]] = []
    for i, role in enumerate(header.roles):
        values = [row[i].strip() for row in rows] if role in ("word", "logger") else []
        if sum('="' in value and bool(find_program(_read_labels(value)).places) for value in values) > len(values) / 2:
            found.append((i, False))
        elif (
            i < last
            and (
                _measure_share(values, _POD_NAME) > 0.5
                or (i == 0 and _is_column(header, values))
                or (i in procfile and _measure_share(values, _PROCFILE_NAME) > 0.5)
            )
        ) or _measure_share(values, _TASK_NAME) > 0.5:
            found.append((i, True))
        elif (i < last and _measure_share(values, _PROCESS_NAME) > 0.5) or (i in syslog and values):
            found.append((i, False))
    return tuple(found)


_POD_NAME = re.compile(
    r"pod/\S+\Z|(?:[a-z0-9-]{1,63}/)?[a-z][a-z0-9.-]{0,200}-[a-z0-9]{6,10}-[a-z0-9]{5}(?:[/ ]\S+)?\Z", re.ASCII
)
"""As `kubectl` writes it, or as a deployment names it, with its namespace or container."""
_PROCFILE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,60}\.\d{1,4}\Z", re.ASCII)
"""As processes of a Procfile are named: `worker.1`."""
_TASK_NAME = re.compile(r"[\w.-]{1,100}\.\d{1,5}\.[a-z0-9]{25}(?:@\S{1,100})?\Z", re.ASCII)
"""As Docker names the tasks of a service, wherever it stands: `orders.1.` and an id, perhaps with the node."""
_PROCESS_NAME = re.compile(
    r"(?=\S*\d)(?:[a-zA-Z][a-zA-Z0-9]*[-_.@/][\w.@/-]+|[0-9a-f]{12}(?:[0-9a-f]{52})?)\Z", re.ASCII
)
"""A name with a number, or the id of a container."""


def _find_procfile_slots(header: Header) -> set[int]:
    """The slots before a blank and a bar, as foreman prints the process, or between brackets, as Heroku does."""
    tokens = header.tokens
    slots = [i for i, token in enumerate(tokens) if token.kind in SLOTS]
    return {
        number
        for number, i in enumerate(slots)
        if tokens[i].kind == "inner"
        or ([token.kind for token in tokens[i + 1 : i + 3]] == ["blank", "text"] and tokens[i + 2].what == "|")
    }


def _is_column(header: Header, values: Sequence[str]) -> bool:
    """Whether the line begins with a word before a bar, as `docker compose` prints the container, with a number between
    bars, as `pm2` does, or with the name of a file and a colon, as `grep` does, or a blank."""
    word, *behind = [(token.kind, token.what if token.kind == "text" else "") for token in header.tokens[:5]]
    if word != ("word", ""):
        return False
    is_bar = sorted(behind[:2]) == [("blank", ""), ("text", "|")] or (
        behind == [("text", "|"), ("word", ""), ("blank", ""), ("text", "|")] and _measure_share(values, _NUMBER) > 0.5
    )
    is_apart = behind[:1] in ([("text", ":")], [("blank", "")])
    return is_bar or (is_apart and _measure_share(values, _FILE_NAME) > 0.5)


_NUMBER = re.compile(r"\d{1,4}\Z")
_FILE_NAME = re.compile(r"\S+\.(?:log|txt|out|json)(?:\.\d{1,4})?\Z")


def _find_syslog_slots(header: Header) -> set[int]:
    """The slots of the host and of the process id behind the tag in syslog: `TIME HOST TAG[4711]:`."""
    tokens = header.tokens
    first = next((token.what for token in tokens if token.kind == "time"), "")
    if not first.startswith("syslog") and tokens[:1] != (Token("text", "<"),):
        return set()
    found = set[int]()
    slot = times = 0
    for i, token in enumerate(tokens):
        kinds = [one.kind for one in tokens[max(0, i - 2) : i + 1]]
        texts = [one.what for one in tokens[i + 1 : i + 3]]
        is_host = times == 1 and kinds == ["time", "blank", "word"] and texts[:1] == [""]
        is_id = times == 1 and token == ("inner", "[") and kinds[:1] == ["word"] and texts == ["]", ":"]
        found |= {slot} if is_host or is_id else set()
        times += token.kind == "time"
        slot += token.kind in SLOTS
    return found


def find_program_end(header: Header, slots: Sequence[tuple[int, bool]]) -> int:
    """How many tokens a collector puts before each line of the programs that it names in these slots: up to the blank
    before the program's own time, or behind the name if that is last; 0 if it names none."""
    if not slots:
        return 0
    places = [i for i, token in enumerate(header.tokens) if token.kind in SLOTS]
    last = max(places[slot] for slot, _ in slots)
    own = next((i for i in reversed(places) if i > last and header.tokens[i].kind == "time"), None)
    blanks = [i for i, token in enumerate(header.tokens) if token.kind == "blank" and i > last]
    if own is not None:
        return max((i for i in blanks if i < own), default=0)
    return min(blanks, default=0)


def name_program(value: str, is_certain: bool) -> str:
    """The name of a process in the value of a slot: the value, or its labels about the process. `MAYBE` precedes a name
    that is not certain.

    >>> name_program('app="orders", pod="orders-1"', False), name_program("node-1", False)
    ('orders-1', '~node-1')
    >>> name_program("orders-7d9f8c6b5d-x2k4z", False)  # however the field is called
    'orders-7d9f8c6b5d-x2k4z'
    """
    labels = _read_labels(value)
    names = find_program(labels)
    if names.places:
        value, is_certain = " ".join(labels[name] for name in names.places), names.is_certain
    return value if is_certain or not value or _POD_NAME.match(value) else f"{MAYBE}{value}"


def join_programs(names: Iterable[str]) -> str:
    """The certain ones of these names, or else all of them as one that is not certain; at most `HEADER_LIMIT`
    characters."""
    given = [name for name in names if name]
    certain = [name for name in given if not name.startswith(MAYBE)]
    joined = " ".join(certain) or (MAYBE + " ".join(name.removeprefix(MAYBE) for name in given) if given else "")
    return joined[:HEADER_LIMIT]


def _read_labels(value: str) -> dict[str, str]:
    return dict(_LABEL.findall(value)) if '="' in value else {}


_LABEL = re.compile(r'([\w.]{1,60})="([^"]{0,200})"')


def _measure_share(values: Sequence[str], fits: re.Pattern[str]) -> float:
    return sum(fits.match(value.strip()) is not None for value in values) / max(1, len(values))


def score_logger(values: Sequence[str]) -> float:
    """How much the values look like names of classes or modules; 0 if they do not."""
    threads = _measure_share(values, _THREAD)
    names = [value.strip() for value in values]
    roots = {name.partition(".")[0] for name in names if _DOTTED.match(name)}  # `kafka` is above `kafka.cluster`
    dotted = [name for name in names if name in roots or _DOTTED.match(name)]
    for weight, share in ((2.0, _measure_share(values, _CLASS)), (1.0, len(dotted) / max(1, len(values)))):
        if share >= 0.6 and share > threads:
            return weight * share + min(0.5, 0.01 * len(set(values)))
    return 0.0


def _score_thread(values: Sequence[str]) -> float:
    share = _measure_share(values, _THREAD)
    return share if share >= 0.6 else 0.0


def find_commonest(splits: Iterable[Split], most: int = 8, least: float = 0.03) -> list[Header]:
    """The most common headers of these texts, most common first. A header that only extends a more common one is
    dropped: its additional part may belong to the message."""
    rows: dict[tuple[Token, ...], list[tuple[str, ...]]] = {}
    for tokens, values in splits:
        rows.setdefault(tokens, []).append(values)
    for tokens in [one for one in rows if _DAY_FIRST in one]:  # ambiguous dates are read month first
        rows[tokens] += rows.pop(tuple(_MONTH_FIRST if token == _DAY_FIRST else token for token in tokens), [])
    total = sum(map(len, rows.values()))
    ranked = Counter({tokens: len(found) for tokens, found in rows.items()}).most_common(most)
    kept: list[tuple[Token, ...]] = []
    for tokens, count in ranked:
        extends = any(tokens[: len(other)] == other for other in kept)
        if not kept or (count >= max(2, least * total) and not extends):
            kept.append(tokens)
    return [Header(tokens, roles_of(tokens, rows[tokens])) for tokens in kept]
