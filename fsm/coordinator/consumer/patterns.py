"""Topic patterns: which are valid, and which topics they match in full. Kafka's are those of RE2/J.

A pattern is read piece by piece and written again for Python: what RE2 does not have is refused, what both have means
the same. Topic names are letters, digits, dots, dashes and underscores of ASCII, so a Unicode class is written as
those of them that belong to it.

Source: KIP-848, "Regex based subscription"; the syntax of RE2 (https://github.com/google/re2/wiki/Syntax).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from string import ascii_letters, digits

from fsm.coordinator.model.step import Refused
from fsm.protocol.error_codes import ErrorCode

LEGAL = ascii_letters + digits + "._-"
"""What a topic name is made of."""

MOST_REPEATED = 1_000
"""RE2 refuses larger counts."""

_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
"""Of brackets, by name: ranges as both syntaxes write them."""

_KEPT = re.compile(r"\\(?:[dDsSwWbBAafnrtv]|x[0-9A-Fa-f]{2}|[^\w\s])")
"""Escapes that mean the same in both, for ASCII."""
_UNICODE = re.compile(r"\\([pP])(?:\{(\^?)(\w+)\}|(\w))")
_HEX = re.compile(r"\\x\{([0-9A-Fa-f]{1,6})\}")
_OCTAL = re.compile(r"\\(0[0-7]{0,2}|[1-7][0-7]{1,2})")
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
_GROUP = re.compile(r"\((\?(?:P?<(\w+)>|([imsU]*)(?:-([imsU]+))?([:)])))?")
_REPEAT = re.compile(r"(?:[*+?]|\{(\d+)(?:(,)(\d*))?\})(\??)")
_NAMED = re.compile(r"\[:(\^?)(\w+):\]")


def check(pattern: str) -> None:
    """Raises `Refused` for a pattern that does not compile."""
    try:
        _compiled(pattern)
    except (re.error, OverflowError) as problem:
        raise Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern!r}: {problem}") from None


def matching(pattern: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names that the pattern matches in full, sorted; none for one that does not compile."""
    try:
        compiled = _compiled(pattern)
    except (re.error, OverflowError):
        return ()
    return tuple(sorted(name for name in names if compiled.fullmatch(name)))


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(_Reading(pattern).translated(), re.ASCII)


class _Reading:
    """One pattern, read from front to back. Raises `re.error` for what RE2 does not have."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.found: list[str] = []
        self.may_repeat = False
        self.open: list[int] = []
        """Groups of Python that stand open for each open group of the pattern."""
        self.names: set[str] = set()

    def translated(self) -> str:
        """The same for Python."""
        self.open.append(0)
        while self.at < len(self.pattern):
            _PIECES.get(self.pattern[self.at], _Reading._literal)(self)
        if len(self.open) != 1:
            raise re.error("missing )")
        return "".join(self.found) + ")" * self.open[0]

    def _take(self, text: str, *, length: int, repeats: bool = True) -> None:
        self.at += length
        self.found.append(text)
        self.may_repeat = repeats

    def _literal(self) -> None:
        character = self.pattern[self.at]
        self._take(re.escape(character) if character in "{}]#" else character, length=1)

    def _anchor(self) -> None:
        """A dollar is the end of the text alone: names have one line."""
        self._take("(?:^)" if self.pattern[self.at] == "^" else r"(?:\Z)", length=1)

    def _alternative(self) -> None:
        self._take("|", length=1, repeats=False)

    def _group(self) -> None:
        match = _GROUP.match(self.pattern, self.at)
        if match is None or (match[1] is None and self.pattern.startswith("(?", self.at)):
            raise re.error("not a group of RE2")
        _, name, on, off, end = match.groups()
        if name is not None:
            self._name(name)
        length = match.end() - match.start()
        if end is None or (end == ":" and not (on or off)):
            self.open.append(0)
            self._take("(?:" if end else "(", length=length, repeats=False)
            return
        self._flags(on or "", off or "", end, length)

    def _name(self, name: str) -> None:
        if name in self.names:
            raise re.error(f"group {name!r} comes twice")
        self.names.add(name)

    def _flags(self, on: str, off: str, end: str, length: int) -> None:
        """Flags hold to the end of their group, so the rest of it becomes a group of its own. U changes no match."""
        if end == ")" and not (on or off):
            raise re.error("no flags")
        on, off = ("".join(sorted(set(flags) - {"U"})) for flags in (on, off))
        if set(on) & set(off):
            raise re.error("a flag both on and off")
        flags = f"(?{on}{'-' + off if off else ''}:" if on or off else "(?:"
        if end == ")":
            self.open[-1] += 1
        else:
            self.open.append(0)
        self._take(flags, length=length, repeats=False)

    def _close(self) -> None:
        if len(self.open) == 1:
            raise re.error("unexpected )")
        self._take(")" * (1 + self.open.pop()), length=1)

    def _repeat(self) -> None:
        match = _REPEAT.match(self.pattern, self.at)
        if match is None:  # a brace that is no count is a literal
            self._literal()
            return
        if not self.may_repeat:
            raise re.error("nothing to repeat")
        least, most = int(match[1] or 0), int(match[3] or match[1] or 0)
        if max(least, most) > MOST_REPEATED or least > most:
            raise re.error("bad count")
        self._take(match[0], length=len(match[0]), repeats=False)

    def _escape(self) -> None:
        quoted = _QUOTED.match(self.pattern, self.at)
        if quoted is not None:
            self._take(re.escape(quoted[1]) or "(?:)", length=len(quoted[0]))
            return
        if self.pattern.startswith(r"\z", self.at):
            self._take(r"(?:\Z)", length=2)
            return
        if self.pattern.startswith(r"\C", self.at):
            self._take(r"[\s\S]", length=2)
            return
        is_class = _UNICODE.match(self.pattern, self.at) is not None
        text, length = self._escaped()
        self._take(f"[{text}]" if is_class else f"(?:{text})", length=length)

    def _escaped(self) -> tuple[str, int]:
        """An escape, as it may also stand in brackets, and how long it is."""
        unicode_class = _UNICODE.match(self.pattern, self.at)
        if unicode_class is not None:
            return _unicode_class(unicode_class), len(unicode_class[0])
        for syntax, base in ((_HEX, 16), (_OCTAL, 8)):
            number = syntax.match(self.pattern, self.at)
            if number is not None:
                return re.escape(_character(int(number[1], base))), len(number[0])
        kept = _KEPT.match(self.pattern, self.at)
        if kept is None:
            raise re.error("no such escape")
        return kept[0], len(kept[0])

    def _brackets(self) -> None:
        begun = self.at
        self.at += 2 if self.pattern.startswith("[^", self.at) else 1
        parts: list[str] = []
        while not parts or not self.pattern.startswith("]", self.at):
            if self.at >= len(self.pattern):
                raise re.error("missing ]")
            parts.append(self._bracketed())
        inside = "".join(parts)
        negated = self.pattern.startswith("[^", begun)
        self._take(f"[{'^' if negated else ''}{inside}]", length=1)

    def _bracketed(self) -> str:
        """One character, class or range between brackets."""
        named = _NAMED.match(self.pattern, self.at)
        if named is not None:
            self.at += len(named[0])
            return _named_class(named)
        low = self._one()
        if not self.pattern.startswith("-", self.at) or self.pattern.startswith("-]", self.at):
            return low
        self.at += 1
        return f"{low}-{self._one()}"

    def _one(self) -> str:
        if self.at >= len(self.pattern):
            raise re.error("missing ]")
        if self.pattern[self.at] == "\\":
            text, length = self._escaped()
            if text in {r"\b", r"\B", r"\A"}:
                raise re.error("no such escape in brackets")
            self.at += length
            return text
        self.at += 1
        return re.escape(self.pattern[self.at - 1])


_PIECES: dict[str, Callable[[_Reading], None]] = {
    "\\": _Reading._escape,
    "[": _Reading._brackets,
    "(": _Reading._group,
    ")": _Reading._close,
    "|": _Reading._alternative,
    "*": _Reading._repeat,
    "+": _Reading._repeat,
    "?": _Reading._repeat,
    "{": _Reading._repeat,
    "^": _Reading._anchor,
    "$": _Reading._anchor,
}


def _character(code: int) -> str:
    if code > 0x10FFFF:
        raise re.error("no such character")
    return chr(code)


def _unicode_class(match: re.Match[str]) -> str:
    """The legal characters of a general category or a script, as they stand in brackets."""
    negated = (match[1] == "P") != (match[2] == "^")
    name = match[3] or match[4]
    if name != "Any" and name not in _CATEGORIES and name not in _SCRIPTS:
        raise re.error(f"no class {name!r}")
    members = [c for c in LEGAL if (name == "Any" or _belongs(c, name)) is not negated]
    return "".join(map(re.escape, members)) or r"\x00"


def _belongs(character: str, name: str) -> bool:
    if name in _SCRIPTS:
        return ("Latin" if character.isalpha() else "Common") == name
    return unicodedata.category(character).startswith(name)


def _named_class(match: re.Match[str]) -> str:
    if match[2] not in _CLASSES:
        raise re.error(f"no class {match[2]!r}")
    ranges = _CLASSES[match[2]]
    if not match[1]:
        return ranges
    others = [c for c in LEGAL if not re.fullmatch(f"[{ranges}]", c)]
    return "".join(map(re.escape, others)) or r"\x00"


_CATEGORIES = frozenset(re.findall(r"\w+", "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No"))
_CATEGORIES |= frozenset(re.findall(r"\w+", "P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs"))
_SCRIPTS = frozenset(
    re.findall(r"\w+", "Arabic Armenian Common Cyrillic Greek Han Hangul Hebrew Hiragana Katakana Latin")
)
"""Scripts that are known by name; of ASCII only Latin and Common have any."""
