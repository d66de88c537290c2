"""Texts of a report: hostile texts made harmless, times, durations and counts.

It does not escape HTML. It writes invisible characters, and those that change the reading direction, as `\\u202e`, and
shortens texts.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html import escape

NAME_LIMIT = 120
"""The maximum length of the name of a group, member, topic, file or state."""
TEXT_LIMIT = 600
"""The maximum length of a sentence or log line."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MS = 86_400_000


def show(text: str, limit: int = TEXT_LIMIT) -> str:
    r"""The text in a form that may be shown: bounded, without invisible characters. Line ends and tabs stay.

    >>> show("a\u202eb\0c"), show("abcdef", 3)
    ('a\\u202eb\\x00c', 'abc… (6 characters)')
    """
    cut = text[:limit]
    if not cut.isprintable():
        cut = "".join(c if c.isprintable() or c in "\n\t" else _escape(c) for c in cut)
    return cut if len(text) <= limit else f"{cut}… ({len(text):,} characters)"


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def show_line(text: str) -> str:
    """A whole text in a form that may be shown, on one line."""
    return " ".join(show(text, len(text)).split())


def name(text: str) -> str:
    """A name in a form that may be shown, on one line."""
    return " ".join(show(text, NAME_LIMIT).split())


def utc(ms: int) -> str:
    """An instant with its date, in UTC.

    >>> utc(1_700_000_000_120)
    '2023-11-14 22:13:20.120'
    """
    try:
        at = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:  # no log line has such a time, but a trace record may hold any number
        return f"{ms} ms since 1970"
    return f"{at:%Y-%m-%d %H:%M:%S}.{ms % 1000:03d}"


def date(ms: int) -> str:
    """The day of an instant, in UTC."""
    return utc(ms).split(" ")[0]


def clock(ms: int, *, exact: bool = True) -> str:
    """The time of day in UTC, with milliseconds where `exact`."""
    time = ms % _DAY_MS // 1000
    text = f"{time // 3600:02d}:{time // 60 % 60:02d}:{time % 60:02d}"
    return f"{text}.{ms % 1000:03d}" if exact else text


def lasting(ms: int) -> str:
    """A duration in readable units.

    >>> lasting(740), lasting(3858), lasting(95_000), lasting(5_400_000), lasting(200_000_000)
    ('740 ms', '3.9 s', '1 min 35 s', '1 h 30 min', '2 d 7 h')
    """
    if ms < 1000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s".replace(".0 s", " s")
    for unit, part, size, parts in (("min", "s", 60_000, 1000), ("h", "min", 3_600_000, 60_000)):
        if ms < size * (60 if unit == "min" else 48):
            rest = ms % size // parts
            return f"{ms // size} {unit}" + (f" {rest} {part}" if rest else "")
    days, hours = ms // _DAY_MS, ms % _DAY_MS // 3_600_000
    return f"{days:,} d" + (f" {hours} h" if hours else "")


def since(ms: int) -> str:
    """The time since the beginning, for ticks.

    >>> since(0), since(12_500), since(6_001_000)
    ('+0 s', '+12.5 s', '+1:40:01')
    """
    part = f".{ms % 1000:03d}".rstrip("0").rstrip(".")
    if ms < 60_000:
        return f"+{ms // 1000}{part} s"
    return f"+{ms // 3_600_000}:{ms // 60_000 % 60:02d}:{ms // 1000 % 60:02d}{part}"


def many(count: int, one: str, more: str = "") -> str:
    """A count with its noun.

    >>> many(1, "member"), many(2_000, "member"), many(0, "entry", "entries")
    ('1 member', '2,000 members', '0 entries')
    """
    return f"{count:,} {one}" if count == 1 else f"{count:,} {more or one + 's'}"


def size(count: int) -> str:
    """A number of bytes.

    >>> size(999), size(12_300), size(5_000_000_000)
    ('999 bytes', '12.3 kB', '5.0 GB')
    """
    value, unit = float(count), "bytes"
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{count} bytes" if unit == "bytes" else f"{value:,.1f} {unit}"


def numbers(values: list[int]) -> str:
    """Whole numbers with consecutive ones joined.

    >>> numbers([0, 1, 2, 5, 7, 8])
    '0..2, 5, 7, 8'
    """
    runs: list[list[int]] = []
    for value in sorted(set(values)):
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    parts = (f"{r[0]}..{r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in runs)
    return ", ".join(parts)


def plain(text: str) -> str:
    """The text on one line, without characters that are illegal in documents."""
    kept = "".join(c if c.isprintable() or c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return " ".join(kept.split())


def markup(text: str) -> str:
    """The plain text, escaped for SVG."""
    return escape(plain(text), quote=True)
