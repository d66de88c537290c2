"""What stands behind the messages of a layout: a logger or a thread in brackets, what closes a quote, the same words in
each line, an object of fields."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from fsm.logs import fields as structured
from fsm.logs.entries import CONTINUES
from fsm.logs.headers import HEADER_LIMIT, Header, Token, as_logger, commonest, header_of, split

_MOST_LOOKS = 200


def find_end(lines: Sequence[str], headers: Sequence[Header]) -> Header | None:
    """What stands at the end of the lines: a logger or a thread in brackets, the same words in each, or both."""
    whole = _whole(lines, headers)
    best = _find_bracketed(whole) or _find_stamp(whole) or _find_elapsed(whole)
    if best is not None:
        return best
    text = _markup(whole) or _closing(headers, whole) or _common_end(whole)
    if not text and len(whole) >= _FEWEST_CLOSED and sum(line.endswith(" ") for line in whole) > 0.9 * len(whole):
        text = " "
    if not text:
        return None
    best = _find_bracketed([line.rstrip().removesuffix(text) for line in whole])
    return header_of((*(best.tokens if best else ()), Token("text", text)), best.roles if best else ())


def _whole(lines: Sequence[str], headers: Sequence[Header]) -> list[str]:
    """Some of the first lines of entries, with the second one where headers have two."""
    some = lines[:: max(1, len(lines) // _MOST_LOOKS)]
    if headers and len(headers[0].lines) > 1:
        some = [f"{above}\n{line}" for above, line in pairwise(lines)]
    return [line for line in some if any(header.pattern.match(line) for header in headers)]


def _find_bracketed(whole: Sequence[str]) -> Header | None:
    """The logger or the thread in brackets at the end of most lines."""
    closed = [line for line in whole if line.rstrip().endswith((")", "]"))]
    tails = [match[0] for line in closed if (match := _LAST.search(line.rstrip(), max(0, len(line) - HEADER_LIMIT)))]
    if len(tails) < max(3, 0.4 * len(whole)):
        return None
    best = commonest(map(split, tails), most=1)[0]
    first = [tail.split()[0].lstrip("[(") for tail in tails]
    return best if {"logger", "thread"} & set(best.roles) or as_logger(first) else None  # a class and its method


def _find_stamp(whole: Sequence[str]) -> Header | None:
    """An epoch behind a tab at the end of all lines, as in texts of `aws logs`."""
    ended = sum(_EPOCH_BEHIND.search(line[-_CLOSING_LENGTH:]) is not None for line in whole)
    fits = ended >= max(_FEWEST_CLOSED, 0.9 * len(whole))
    return header_of((Token("blank", ""), Token("time", "epoch")), ("time",)) if fits else None


def _find_elapsed(whole: Sequence[str]) -> Header | None:
    """The time since the line before at the end of most lines, as Node's `debug` writes it: ` +3ms`."""
    ended = sum(_SINCE.search(line[-_CLOSING_LENGTH:]) is not None for line in whole)
    tokens = (Token("blank", ""), Token("text", "+"), Token("word", ""))
    return header_of(tokens, ("word",)) if ended >= max(_FEWEST_CLOSED, 0.6 * len(whole)) else None


def _markup(whole: Sequence[str]) -> str:
    """The tags of HTML that end most lines, the dollar sign that `cat -A` puts there, what ends records of SAP; empty
    where none do."""
    closed = [line for line in whole if line.rstrip().endswith((">", "$", "|"))]
    ends = Counter(match[0] for line in closed if (match := _MARKUP.search(line[-_CLOSING_LENGTH:])))
    text, count = ends.most_common(1)[0] if ends else ("", 0)
    text = text if text.endswith(" |") else text.strip()  # in tables of Markdown a blank stands before each bar
    return text if count >= max(_FEWEST_CLOSED, 0.6 * len(whole)) else ""


_EPOCH_BEHIND = re.compile(r"\t1\d{9,18}\Z", re.ASCII)
_SINCE = re.compile(r" \+\d+(?:ms|[smhd])[ \t]*\Z", re.ASCII)
_MARKUP = re.compile(r"(?:\s*(?:</[a-z]\w{0,20}>|<br ?/?>))+\s*\Z| ?[$|]\Z", re.IGNORECASE)


def _common_end(whole: Sequence[str]) -> str:
    """What stands behind a blank at the end of nearly all lines, or else of most, the same in each; empty where nothing
    does."""
    if len(whole) < _FEWEST_CLOSED:
        return ""
    texts = [line.rstrip() if (tail := structured.json_tail(line)) is None else tail[0] for line in whole]
    for share in (0.95, 0.7):
        text = _find_shared([text[-_CLOSING_LENGTH:] for text in texts], max(_FEWEST_CLOSED, share * len(whole)))
        blank = text.find(" ")
        blank -= blank > 0 and text[blank - 1] in ",:;"
        if blank >= 0 and len(text) - blank > 2:
            return text[blank:]
    return ""


def _find_shared(texts: Sequence[str], least: float) -> str:
    """The longest end that so many of the texts have."""
    common, same = "", texts
    while chars := Counter(text[-len(common) - 1] for text in same if len(text) > len(common)):
        char, count = chars.most_common(1)[0]
        if count < least:
            break
        common = char + common
        same = [text for text in same if text.endswith(common)]
    return common


def _closing(headers: Sequence[Header], whole: Sequence[str]) -> str:
    """What closes the quotes, brackets, columns around messages, the same in every line; empty where they have none."""
    if len(whole) < _FEWEST_CLOSED or not headers:
        return ""
    opened = "".join(token.what for token in headers[0].tokens if token.kind == "text")
    closers = {column for column in "|;~^│┃" if opened.count(column) > 1}.union(
        close
        for begin, close in (("[", "]"), ("(", ")"), ("{", "}"), ("<", ">"), ('"', '"'), ("'", "'"))
        if (opened.count(begin) % 2 if begin == close else opened.count(begin) > opened.count(close))
    )
    ends = [line.rstrip()[-_CLOSING_LENGTH:] for line in whole if line.rstrip()[-1:] in closers]
    if not closers or len(ends) < 0.6 * len(whole):  # the first lines of long messages end otherwise
        return ""
    common = _find_shared(ends, 0.8 * len(ends))
    place = next((i for i, c in enumerate(common) if c in closers), -1)
    return common[place:] if place >= 0 else ""


_FEWEST_CLOSED, _CLOSING_LENGTH = 5, 120


def line_end(
    lines: Sequence[str], headers: Sequence[Header], after: Header | None, repeated: re.Pattern[str] | None
) -> re.Pattern[str] | None:
    """What stands behind each line of a message, not only behind the last one; None where nothing does."""
    if after is None:
        return None
    goes_on = repeated.match if repeated is not None else lambda line: CONTINUES(line[:_CLOSING_LENGTH].encode())
    others = [line for line in lines if line.strip() and not any(header.pattern.match(line) for header in headers)]
    others = [line for line in others if goes_on(line)]
    for pattern in _parts_of(after.tokens):
        ends = re.compile(pattern + r"[ \t]*\Z", re.ASCII)
        ended = sum(ends.search(line[-HEADER_LIMIT:]) is not None for line in others)
        if ended > 1 and ended > 0.8 * len(others):
            return ends
    return None


def _parts_of(tokens: tuple[Token, ...]) -> Iterator[str]:
    """Patterns of what may stand behind each line, where these tokens stand behind the last one of a message: all of
    it, or what is behind the logger."""
    last = tokens[-1]
    if last.kind == "text" and (len(last.what) > 1 or last.what in _ALONE):
        yield re.escape(last.what)
        return
    for i, token in enumerate(tokens):
        if i == 0 or token.kind == "blank":
            yield header_of(tokens[i:], ()).pattern.pattern


_ALONE = "$|│┃\"'"


def end_with_fields(lines: Sequence[str], headers: Sequence[Header], after: Header | None) -> bool:
    """Whether lines end with an object of their fields, perhaps before what stands behind each message."""
    whole = _whole(lines, headers)
    ends = re.compile(after.pattern.pattern + r"[ \t]*\Z", re.ASCII) if after is not None else None
    whole = [ends.sub("", line) if ends is not None else line for line in whole]
    return sum(structured.json_tail(line) is not None for line in whole) > 0.3 * len(whole)


_LAST = re.compile(r"(?:[ \t]+(?:\([^()\s]{1,200}(?: \w{1,60})?\)|\[[^\[\]\n]{1,120}\])){1,2}\Z")
