"""The end of a layout's lines, behind the message: a logger or thread in brackets, a closing quote, constant words, an
object of fields."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise

from fsm.logs import Client, Message
from fsm.logs.layouts import fields as structured
from fsm.logs.layouts import stamps
from fsm.logs.layouts.headers import CLOSING, HEADER_LIMIT, SLOTS, Header, Token, find_commonest, score_logger, split
from fsm.logs.reading.entries import CONTINUES
from fsm.trace import TraceRecord

_MOST_LOOKS = 200


def find_end(lines: Sequence[str], headers: Sequence[Header]) -> Header | None:
    """The common end of the lines: a logger or thread in brackets, the same words in each line, or both, behind what
    closes a message.
    """
    texts = [line[_find_begin(line, headers) :] for line in _sample_entries(lines, headers)]
    found = _find_behind(texts, headers)
    rest = texts if found is None else [strip_end(found.tokens, text) for text in texts]
    if found is not None and (dash := _find_dash(rest)):
        found = Header((_BLANK, Token("text", dash), *found.tokens), found.roles)
        rest = [strip_end(found.tokens, text) for text in texts]
    if found is not None and (closing := _find_closing(headers, rest)):
        return Header((Token("text", closing), *found.tokens), found.roles)
    bare = [tail[0] if (tail := structured.end_fields(text)) else text for text in rest]
    closing = _find_closing(headers, bare) if bare != rest else ""
    return Header((Token("text", closing),), ()) if closing else found


def closes_before_fields(after: Header | None) -> bool:
    """Whether this end only closes a message, so that fields may follow."""
    return after is not None and not after.roles and re.search(r"[\w\s]", after.describe()) is None


def _find_behind(texts: Sequence[str], headers: Sequence[Header]) -> Header | None:
    """The end of the texts without what closes a message."""
    if not any("time" in header.roles for header in headers) and (time := _find_time(texts)) is not None:
        inner = _find_behind([strip_end(time.tokens, text) for text in texts], [*headers, time])
        return Header((*inner.tokens, *time.tokens), (*inner.roles, *time.roles)) if inner is not None else time
    best = _find_bracketed(texts) or _find_known(texts)
    if best is not None:
        return best
    closing = _find_markup(texts) or _find_closing(headers, texts)
    tail = _find_varying(texts, (Token("text", closing),)) if closing else find_tail(texts)
    if not tail and len(texts) >= _FEWEST_CLOSED and sum(text.endswith(" ") for text in texts) > 0.9 * len(texts):
        tail = (Token("text", " "),)
    best = _find_bracketed([strip_end(tail, text) for text in texts]) if tail else None
    tokens = (*(best.tokens if best else ()), *tail)
    roles = (*(best.roles if best else ()), *_find_roles(tail, texts))
    return Header(tokens, roles) if tokens else None


def _find_roles(tail: tuple[Token, ...], texts: Sequence[str]) -> Iterator[str]:
    """Of the slots of an end, that of the logger has a role."""
    rows = [match.groups() for text in texts if (match := compile_end(tail).search(text))] if tail else []
    slots = [token for token in tail if token.kind in SLOTS]
    for i, slot in enumerate(slots):
        is_logger = slot.kind == "word" and score_logger([row[i] for row in rows]) > 0
        yield "logger" if is_logger else "word"


def _find_dash(texts: Sequence[str]) -> str:
    """The dash or bar that separates nearly all of the messages from what stands behind them; empty if there is
    none."""
    found = Counter(match[1] for text in texts if (match := _ENDS_IN_DASH.search(text[-_MOST_DASHES:])))
    dash, count = found.most_common(1)[0] if found else ("", 0)
    return dash if count >= max(_FEWEST_CLOSED, 0.9 * len(texts)) else ""


def _find_begin(line: str, headers: Sequence[Header]) -> int:
    """The position at which the message begins."""
    return next((match.end() for header in headers if (match := header.pattern.match(line))), 0)


def strip_end(tokens: tuple[Token, ...], line: str) -> str:
    """The line without this end, if it has it."""
    return compile_end(tokens).sub("", line) if tokens else line


@lru_cache(maxsize=256)
def compile_end(tokens: tuple[Token, ...], roles: tuple[str, ...] = ()) -> re.Pattern[str]:
    """The pattern of the end of a line."""
    return re.compile(Header(tokens, roles).regex + r"[ \t]*\Z", re.ASCII)


@lru_cache(maxsize=64)
def words_of(client: Client) -> tuple[str, ...]:
    """The marks of a client as text."""
    return tuple(mark.decode() for mark in client.marks)


def understand(client: Client, message: Message) -> Sequence[TraceRecord] | None:
    """The records of a message. If the client does not understand it, tries again without what only some lines of a
    layout have before or behind the message: fields and ids, such as trace ids, and blanks."""
    records, text = client.understand(message), message.text
    if records:
        return records
    before = _CONTEXT_BEFORE.match(text, 0, _LONGEST_CONTEXT)
    if before is not None and message.level.upper() not in _WARNING_LEVELS:
        behind = text[before.end() :]
        if any(word in behind[:_NEAR] for word in words_of(client)):
            message = message._replace(text=behind)
            records = client.understand(message)
    if records is None:
        texts = chain([text.rstrip(" \t")] if text.endswith((" ", "\t")) else (), strip_context(text))
        return next(filter(None, (client.understand(message._replace(text=one)) for one in texts)), None)
    return records


def strip_context(text: str) -> Iterator[str]:
    """Yields the text without the field, id, remark or source position at its end, at most `_MOST_CONTEXT` times."""
    first, last = text[:-_LONGEST_CONTEXT], text[-_LONGEST_CONTEXT:]
    for _ in range(_MOST_CONTEXT):
        found = _SOURCE_PLACE.search(last)
        tail = structured.json_tail(last) if last.endswith("}") else None
        if found:
            shorter = last[: found.start()]
        elif remark := _LIST.search(text) is None and _REMARK.match(last):
            shorter = remark[1]
        else:
            shorter = tail[0].rstrip() if tail and tail[1] else strip_end(_find_last_unit(last, behind=()), last)
        if shorter == last or _MESSAGE_END.match(last, len(shorter)):
            return
        last = shorter
        yield first + last


_LONGEST_CONTEXT, _MOST_CONTEXT, _NEAR = 200, 3, 60
_WARNING_LEVELS = frozenset({"WARN", "WARNING", "ERROR", "FATAL", "CRITICAL", "SEVERE"})
"""Levels at which an application is more likely to quote a client's message than the client is to report ownership."""
_PAIR, _ID = r"[A-Za-z][\w.-]{0,60}=(?:\"[^\"\n]*\"|[^\s\"\[\]]+)", r"[0-9a-fA-F]{8,64}(?:-[0-9a-fA-F]{2,32}){0,8}"
_DASH = r"(?:-{1,2}|[|~\u2013\u2014]|//|::)"
_ENDS_IN_DASH, _MOST_DASHES = re.compile(rf"[ \t]({_DASH})[ \t]*\Z"), 20
_CONTEXT_BEFORE = re.compile(rf"(?:(?:{_PAIR}|{_ID}|\[(?:{_PAIR}|{_ID})(?:,? (?:{_PAIR}|{_ID}))*\])[ \t]+)+")
_SOURCE_PLACE = re.compile(r"[ \t]+[(\[]?[\w$]+\.[a-z]{1,5}:\d+[)\]]?[ \t]*\Z")
_REMARK = re.compile(rf"(.*\S)[ \t]+{_DASH}[ \t]+[^\[\](){{}},:|\n]{{1,80}}\Z")
_LIST = re.compile(r"(?i)partition|topic")
"""Words of messages that end with a list: what stands behind a dash there may belong to it, or say that it was cut."""
_MESSAGE_END = re.compile(r"(?i)[,:]|[ \t]*[#\[({<]?\d{1,7}[\])}>]?[ \t]*\Z|[ \t]*\W?(?:trunc|cut|more|omit)", re.ASCII)
"""Likely part of the message itself: the next item of a list, a short number, a word that marks a list as truncated."""


def find_tail(texts: Sequence[str]) -> tuple[Token, ...]:
    """The common end of most of the texts, constant or varying."""
    markup = _find_markup(texts)
    found = _find_varying(texts, (Token("text", markup),) if markup else ())
    common = () if found else _find_common_end(texts)
    return _find_varying(texts, common) if common else found


def _find_varying(texts: Sequence[str], found: tuple[Token, ...]) -> tuple[Token, ...]:
    """The common end, with the varying parts that precede it in nearly all of the texts (fields, ids, columns) and the
    words between those."""
    some = texts[:: max(1, len(texts) // _MOST_TEXTS)]
    rest = [strip_end(found, _strip_fields(one).rstrip())[-_LONGEST_TAIL:] for one in some]
    for _ in range(_MOST_UNITS):
        unit = _find_shared_unit(rest, found)
        if not unit:
            break
        found = (*unit, *found)
        rest = [strip_end(unit, one) for one in rest]
    return found


def _find_shared_unit(texts: Sequence[str], behind: tuple[Token, ...]) -> tuple[Token, ...]:
    """The unit with which nearly all of the texts end; empty if there is none, which mostly the first few tell."""
    units: Counter[tuple[Token, ...]] = Counter()
    least = max(_FEWEST_CLOSED, 0.9 * len(texts))
    for left, text in zip(reversed(range(len(texts))), texts, strict=True):
        if unit := _find_barred(text) or _find_last_unit(text, behind):
            units[unit] += 1
        if max(units.values(), default=0) + left < least:
            return ()
    return max(units, key=units.__getitem__, default=())


def _find_last_unit(text: str, behind: tuple[Token, ...]) -> tuple[Token, ...]:
    """The field, id or column at the end of a text, or a word that precedes a varying part."""
    whole = text.rstrip()
    last = whole[-1:]
    blank = max(whole.rfind(" "), whole.rfind("\t"), 1) - 1
    for ends, opens, unit, pattern in _UNITS:
        if ends in ("", last) and pattern.search(text, max(0, whole.rfind(opens) - 1) if opens else blank):
            return unit
    # Only a quoted field contains blanks.
    begin = 0 if last == '"' else blank
    if field := _FIELD.search(text, begin):
        before = (Token("text", field[1]), _BLANK) if field[1] else (_BLANK,)
        closes = (Token("text", '"'),) if field[3] else ()
        return *before, Token("text", field[2] + (field[3] or "")), Token("inner", field[3] or "="), *closes
    if _LOGGER.search(text, begin):
        return _BLANK, Token("word", "")
    if behind and (bracket := _BRACKET.search(text)):
        opens = bracket[1] or bracket[2]
        return _BLANK, Token("text", opens), Token("inner", opens), Token("text", CLOSING[opens])
    word = _WORD.search(text) if behind else None
    return (_BLANK, Token("text", word[1])) if word else ()


def _find_barred(text: str) -> tuple[Token, ...]:
    """The word at the end of a text behind a bar, as of a level, a logger or a place in a source file: ` | INFO`,
    ` @consumer`, ` | poll:268`."""
    found = _BARRED.search(text, max(0, len(text) - _CLOSING_LENGTH))
    if found is None:
        return ()
    last = Token("inner", "@") if found[3] else Token("word", "")
    return _BLANK, Token("text", found[1]), *([_BLANK] if found[2] else ()), last


_BARRED = re.compile(
    r"[ \t]([|~@#>\u2013\u2014-]{1,3}|<-|//|::)([ \t]*)[\w.$-]*[A-Za-z][\w.$-]*([:@]\d{1,7})?[ \t]*\Z", re.ASCII
)
_BLANK = Token("blank", " ")
_UNITS = tuple(
    (closes, opens, unit, compile_end(unit))
    for closes, opens, unit in (
        ("", "\t", (Token("text", "\t"), Token("inner", "\t"))),
        ("", "", (_BLANK, Token("inner", "#"))),
        *(("", "", (Token("text", sign), _BLANK, Token("inner", ":"))) for sign in ",;"),
        ("", "", (_BLANK, Token("inner", ":"))),
        *(
            (closes, opens, (_BLANK, Token("text", opens), Token("inner", what), Token("text", closes)))
            for opens, closes in CLOSING.items()
            for what in ("#", ":", f"{opens}=", f"{opens}!")
        ),
    )
)
"""The last character of a unit, its first one, if they are always the same, the unit, and its pattern."""
_FIELD = re.compile(r'([,:;]?)[ \t]([A-Za-z][\w.-]{0,60}=)(?:(")[^"\n]*"|[^\s"]*)[ \t]*\Z', re.ASCII)
_DOTTED = r"[A-Za-z_][\w$-]{0,60}(?:\.[A-Za-z_$][\w$-]{0,60}){1,20}"
_LOGGER = re.compile(rf"[ \t](?:{_DOTTED}|[A-Z][a-z0-9]{{1,60}}(?:[A-Z][\w$]{{0,60}}){{1,9}})[ \t]*\Z", re.ASCII)
_BRACKET = re.compile(r"[ \t](?:(\[)[^\[\]\n]{1,120}\]|(<)[^<>\n]{1,120}>)[ \t]*\Z")
_WORD = re.compile(r"[ \t]([^\s=(]{1,60})[ \t]*\Z")
_MOST_UNITS, _MOST_TEXTS, _LONGEST_TAIL = 12, 60, 400


def _sample_entries(lines: Sequence[str], headers: Sequence[Header]) -> list[str]:
    """A sample of the first lines of entries, with the second line if headers have two. Those of messages that go on
    below have other ends: they are left out if there are enough others."""
    step = max(1, len(lines) // _MOST_LOOKS)
    if headers and len(headers[0].lines) > 1:
        return [both for above, line in pairwise(lines) if _begins(both := f"{above}\n{line}", headers)]
    places = [i for i in range(0, len(lines), step) if _begins(lines[i], headers)]
    whole = [lines[i] for i in places if not goes_on(lines, i) or _begins(lines[i + 1], headers)]
    return whole if len(whole) >= _FEWEST_CLOSED else [lines[i] for i in places]


def _begins(line: str, headers: Sequence[Header]) -> bool:
    return any(header.pattern.match(line) for header in headers)


def goes_on(lines: Sequence[str], i: int) -> bool:
    """Whether the line below a line is indented, as that of a message of several lines is."""
    return i + 1 < len(lines) and lines[i + 1][:1] in ("\t", " ") and bool(lines[i + 1].strip())


def _find_bracketed(whole: Sequence[str]) -> Header | None:
    """A logger or thread in brackets at the end of most lines."""
    closed = [line for line in map(str.rstrip, whole) if line.endswith((")", "]", ">"))]
    for last in _LAST if len(closed) >= max(3, 0.4 * len(whole)) else ():
        tails = [match[0] for line in closed if (match := last.search(line, max(0, len(line) - HEADER_LIMIT)))]
        if len(tails) < max(3, 0.4 * len(whole)):
            continue
        best = find_commonest(map(split, tails), most=1)[0]
        first = [_OPENS.sub("", tail.split()[0]).rstrip(">") for tail in tails]
        if {"logger", "thread"} & set(best.roles) or score_logger(first):  # a class and its method
            return best
    return None


def _find_known(whole: Sequence[str]) -> Header | None:
    """An end of `_KNOWN` that enough of the lines have."""
    for pattern, share, header in _KNOWN:
        ended = sum(pattern.search(line[-_CLOSING_LENGTH:]) is not None for line in whole)
        if ended >= max(_FEWEST_CLOSED, share * len(whole)):
            return header
    return None


def _find_time(whole: Sequence[str]) -> Header | None:
    """A time at the end of nearly all lines, of which it is the only one."""
    tails = [tail for line in whole if (tail := _cut_time(line.rstrip()[-_CLOSING_LENGTH:]))]
    if len(tails) < max(_FEWEST_CLOSED, 0.9 * len(whole)):
        return None
    best = find_commonest(map(split, tails), most=1)[0]
    return best if "time" in best.roles else None


def _cut_time(text: str) -> str:
    """The time at the end of a text, with what separates it from the message; empty if there is none."""
    found = next((match for match in stamps.find(text) if _CLOSES_TIME.match(text, match.end())), None)
    opened = _OPENS_TIME.search(text[: found.start()]) if found is not None else None
    return text[opened.start() :] if opened is not None else ""


def _find_markup(whole: Sequence[str]) -> str:
    """The HTML tags that end most lines, the dollar sign of `cat -A`, or the end of SAP records; empty if there is
    none."""
    closed = [line for line in whole if line.rstrip().endswith((">", "$", "|"))]
    ends = Counter(match[0] for line in closed if (match := _MARKUP.search(line[-_CLOSING_LENGTH:])))
    text, count = ends.most_common(1)[0] if ends else ("", 0)
    text = text if text.endswith(" |") else text.strip()  # Markdown tables have a blank before each bar
    return text if count >= max(_FEWEST_CLOSED, 0.6 * len(whole)) else ""


_CLOSES_TIME = re.compile(r"[\])>\"']{0,2}\Z")
_OPENS_TIME = re.compile(rf"[ \t]+(?:(?:@|at|on|{_DASH})[ \t]*)?(?:\w{{1,20}}=)?[\[(<\"']{{0,2}}\Z")
ELAPSED = re.compile(r" \+\d+(?:ms|[smhd])[ \t]*\Z", re.ASCII)
_KNOWN = (
    (re.compile(r"\t1\d{9,18}\Z", re.ASCII), 0.9, Header((Token("blank", ""), Token("time", "epoch")), ("time",))),
    (ELAPSED, 0.6, Header((Token("blank", ""), Token("text", "+"), Token("word", "")), ("word",))),
)
"""Ends, and the share of lines that have them: an epoch after a tab, as in the output of `aws logs`; the time since the
line above, as written by Node's `debug`: ` +3ms`."""
_MARKUP = re.compile(r"(?:\s*(?:</[a-z]\w{0,20}>|<br ?/?>))+\s*\Z| ?[$|]\Z", re.IGNORECASE)


def _find_common_end(whole: Sequence[str]) -> tuple[Token, ...]:
    """The text, starting at a blank, at the end of nearly all lines, whatever numbers and loggers are in it, or else
    the constant one of most lines; empty if there is none."""
    if len(whole) < _FEWEST_CLOSED:
        return ()
    texts = [_strip_fields(one)[-_CLOSING_LENGTH:] for one in whole]
    ends = Counter("" if (last := text[-1:]).isalnum() or last in "_$" else last for text in texts)
    masked: Sequence[str] = ()
    if max(ends.values()) > 0.9 * len(texts):  # else they have no common end, masked or not
        masked = [_VARIES.sub(lambda found: _MASKS[found.lastindex or 0], text) for text in texts]
    for its, share in ((masked, 0.95), (texts, 0.7)):
        text = _find_shared(its, max(_FEWEST_CLOSED, share * len(whole)))
        blank = text.find(" ")
        blank -= blank > 0 and text[blank - 1] in ",:;"
        if blank >= 0 and len(text) - blank > 2:
            parts = re.split(f"([{''.join(_TOKEN_OF)}])", text[blank:])
            return tuple(_TOKEN_OF.get(part) or Token("text", part) for part in parts if part)
    return ()


_VARIES = re.compile(r"(?<![\w.-])([A-Za-z_][\w$]*(?:\.[A-Za-z_$][\w$]*)+)(?![\w.-])|((?<![\d-])\d+)", re.ASCII)
"""A logger or a number, unless it is that of a partition."""
_MASKS = ("", "\1", "\2")
_TOKEN_OF = {" ": _BLANK, "\1": Token("word", ""), "\2": Token("inner", "#")}


def _strip_fields(line: str) -> str:
    tail = structured.json_tail(line)
    return tail[0] if tail and tail[1] else line.rstrip()


def _find_shared(texts: Sequence[str], least: float) -> str:
    """The longest suffix shared by at least this many of the texts."""
    common, same = "", texts
    while chars := Counter(text[-len(common) - 1] for text in same if len(text) > len(common)):
        char, count = chars.most_common(1)[0]
        if count < least:
            break
        common = char + common
        same = [text for text in same if text.endswith(common)]
    return common


def _find_closing(headers: Sequence[Header], whole: Sequence[str]) -> str:
    """The constant text that closes the quotes, brackets or columns around messages; empty if there is none."""
    if len(whole) < _FEWEST_CLOSED or not headers:
        return ""
    opened = "".join(token.what for token in headers[0].tokens if token.kind == "text")
    closers = {column for column in "|;~^│┃" if opened.count(column) > 1}.union(
        close
        for begin, close in (("[", "]"), ("(", ")"), ("{", "}"), ("<", ">"), ('"', '"'), ("'", "'"))
        if (opened.count(begin) % 2 if begin == close else _stays_open(opened, begin, close))
    )
    ends = [
        text[-_CLOSING_LENGTH:]
        for text in map(str.rstrip, whole)
        if closers.intersection(text[len(text.rstrip(_CLOSERS)) :])
    ]
    if not closers or len(ends) < 0.6 * len(whole):  # the first lines of multi-line messages have other ends
        return ""
    common = _find_shared(ends, 0.8 * len(ends))
    place = next((i for i, c in enumerate(common) if c in closers), -1)
    return common[place:] if place >= 0 else ""


def _stays_open(text: str, begin: str, close: str) -> bool:
    """Whether a bracket is open at the end of a text. One that closes before it opens is a mark of quotes in mails."""
    depth = 0
    for character in text:
        depth = depth + 1 if character == begin else max(0, depth - (character == close))
    return depth > 0


_FEWEST_CLOSED, _CLOSING_LENGTH = 5, 120
_CLOSERS = "|;~^│┃])}>\"',"


def find_line_end(
    lines: Sequence[str], headers: Sequence[Header], after: Header | None, repeated: re.Pattern[str] | None
) -> re.Pattern[str] | None:
    """The end of every line of a message, not only of the last one; None if there is none."""
    if after is None:
        return None
    continues = repeated.match if repeated is not None else lambda line: CONTINUES(line[:_CLOSING_LENGTH].encode())
    firsts, others = list[str](), list[str]()
    for line in filter(str.strip, lines):
        if any(header.pattern.match(line) for header in headers):
            firsts.append(line[-HEADER_LIMIT:])
        elif continues(line):
            others.append(line[-HEADER_LIMIT:])
    for ends in map(compile_end, _list_parts(after.tokens)):
        known = {_mask(match) for line in firsts if (match := ends.search(line))}
        ended = sum(_mask(match) in known for line in others if (match := ends.search(line)))
        if ended > 1 and ended > 0.8 * len(others):
            return ends
    return None


def _mask(match: re.Match[str]) -> str:
    """The end of a line, with numbers and ids alike: a list at the end of a line of a message is none of other lines'
    ends."""
    return _NUMBER_OR_ID.sub("0", match[0].strip())


_NUMBER_OR_ID = re.compile(r"[0-9a-f]*[0-9][0-9a-f]*")


def _list_parts(tokens: tuple[Token, ...]) -> Iterator[tuple[Token, ...]]:
    """Possible ends of each line, given the end of the last line of a message: all of it, or the part after the
    logger."""
    for i, token in enumerate(tokens):
        if i == 0 or token.kind == "blank" or token.what == "\t":
            yield tokens[i:]
    last = tokens[-1]
    if last.kind == "text" and (len(last.what) > 1 or last.what in _ALONE):
        yield (last,)


_ALONE = "$|│┃\"'"


def have_end_fields(lines: Sequence[str], headers: Sequence[Header], after: Header | None) -> bool:
    """Whether lines end with their fields, possibly followed by the common end."""
    whole = _sample_entries(lines, headers) if headers else [line for line in lines if line.strip()]
    ends = compile_end(after.tokens, after.roles) if after is not None else None
    found = [structured.end_fields(line if ends is None else ends.sub("", line)) for line in whole]
    if closes_before_fields(after):
        found = [structured.end_fields(line) or tail for line, tail in zip(whole, found, strict=True)]
    return sum(bool(tail and tail[1]) for tail in found) > 0.3 * len(whole)


_BRACKETED = r"[ \t]+(?:\([^()\s]{1,200}(?: \w{1,60})?\)|\[[^\[\]\n]{1,120}\]|<\w{1,20}:[^<>\s]{1,200}>)"
_LAST = tuple(re.compile(rf"(?:{_BRACKETED}){{1,{most}}}\Z") for most in (2, 1))
"""The last two brackets, or only the last one: the other one may belong to the message."""
_OPENS = re.compile(r"\A[\[(<]+(?:\w+:(?=\D))?")
