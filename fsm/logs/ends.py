"""What stands behind the messages of a layout: a logger or a thread in brackets, what closes a quote, the same words in
each line, an object of fields."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, takewhile

from fsm.logs import fields as structured
from fsm.logs.headers import HEADER_LIMIT, Header, Token, as_logger, commonest, header_of, split

_MOST_LOOKS = 200


def find_end(lines: Sequence[str], headers: Sequence[Header]) -> Header | None:
    """What stands at the end of the lines: a logger or a thread in brackets, the same words in each, or both."""
    whole = _whole(lines, headers)
    best = _bracketed(whole)
    if best is not None:
        return best
    text = _closing(headers, whole) or _common_end(whole)
    if not text and len(whole) >= _FEWEST_CLOSED and sum(line.endswith(" ") for line in whole) > 0.9 * len(whole):
        text = " "
    if not text:
        return None
    best = _bracketed([line.rstrip().removesuffix(text) for line in whole])
    return header_of((*(best.tokens if best else ()), Token("text", text)), best.roles if best else ())


def _whole(lines: Sequence[str], headers: Sequence[Header]) -> list[str]:
    """Some of the first lines of entries, with the second one where headers have two."""
    some = lines[:: max(1, len(lines) // _MOST_LOOKS)]
    if headers and len(headers[0].lines) > 1:
        some = [f"{above}\n{line}" for above, line in pairwise(lines)]
    return [line for line in some if any(header.pattern.match(line) for header in headers)]


def _bracketed(whole: Sequence[str]) -> Header | None:
    """The logger or the thread in brackets at the end of most lines."""
    tails = [match[0] for line in whole if (match := _LAST.search(line.rstrip(), max(0, len(line) - HEADER_LIMIT)))]
    if len(tails) < max(3, 0.4 * len(whole)):
        return None
    best = commonest(map(split, tails), most=1)[0]
    first = [tail.split()[0].lstrip("[(") for tail in tails]
    return best if {"logger", "thread"} & set(best.roles) or as_logger(first) else None  # a class and its method


def _common_end(whole: Sequence[str]) -> str:
    """What stands behind a blank at the end of most lines, the same in each; empty where nothing does."""
    texts = (line.rstrip() if (tail := structured.json_tail(line)) is None else tail[0] for line in whole)
    same, common = [text[-_CLOSING_LENGTH:] for text in texts], ""
    while len(same) >= max(_FEWEST_CLOSED, 0.7 * len(whole)):
        text = common
        chars = Counter(line[-len(text) - 1] for line in same if len(line) > len(text))
        if not chars:
            break
        common = chars.most_common(1)[0][0] + text
        same = [line for line in same if line.endswith(common)]
    blank = text.find(" ") if len(whole) >= _FEWEST_CLOSED else -1
    return text[blank:] if blank >= 0 and len(text) - blank > 2 else ""


def _closing(headers: Sequence[Header], whole: Sequence[str]) -> str:
    """What closes the quotes, brackets, columns around messages, the same in every line; empty where they have none."""
    if len(whole) < _FEWEST_CLOSED or not headers:
        return ""
    opened = "".join(token.what for token in headers[0].tokens if token.kind == "text")
    closers = {column for column in "|;~^" if opened.count(column) > 1}.union(
        close
        for begin, close in (("[", "]"), ("(", ")"), ("{", "}"), ("<", ">"), ('"', '"'), ("'", "'"))
        if (opened.count(begin) % 2 if begin == close else opened.count(begin) > opened.count(close))
    )
    ends = [line.rstrip()[-_CLOSING_LENGTH:] for line in whole if line.rstrip()[-1:] in closers]
    if not closers or len(ends) < 0.6 * len(whole):  # the first lines of long messages end otherwise
        return ""
    same = takewhile(lambda chars: len(set(chars)) == 1, zip(*(end[::-1] for end in ends), strict=False))
    common = "".join(chars[0] for chars in same)[::-1]
    place = next((i for i, c in enumerate(common) if c in closers), -1)
    return common[place:] if place >= 0 else ""


_FEWEST_CLOSED, _CLOSING_LENGTH = 5, 120


def end_with_fields(lines: Sequence[str], headers: Sequence[Header], after: Header | None) -> bool:
    """Whether lines end with an object of their fields, perhaps before what stands behind each message."""
    whole = _whole(lines, headers)
    ends = re.compile(after.pattern.pattern + r"[ \t]*\Z", re.ASCII) if after is not None else None
    whole = [ends.sub("", line) if ends is not None else line for line in whole]
    return sum(structured.json_tail(line) is not None for line in whole) > 0.3 * len(whole)


_LAST = re.compile(r"(?:[ \t]+(?:\([^()\s]{1,200}\)|\[[^\[\]\n]{1,120}\])){1,2}\Z")
