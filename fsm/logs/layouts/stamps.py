"""Timestamp formats: one row per format, with examples that are its tests.

A row is a pattern with named groups (`y` `y2` `mo` `d` `h` `mi` `s` `f` `pm` `z`, or `epoch` with its fraction `f`);
one function reads all of them. Missing parts (year, day, zone) come from a `Clock`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

DAY_MS = 86_400_000
WITHIN = 50
"""Characters at the beginning of a line in which a timestamp usually stands."""
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


class Stamp(NamedTuple):
    """One timestamp format."""

    name: str
    pattern: str
    examples: Mapping[str, str]
    """Texts with their times in UTC, for a clock in the evening of 2026-11-22."""


_MONTH = r"(?P<mo>[A-Z][a-z]{2})[a-z]{0,6}\.?"
_OTHER_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "ene gen sty oca янв",
            "fév lut şub фев",
            "mär mrt мар",
            "avr abr kwi nis апр",
            "mai maj mag mei may мая май",
            "juin giu cze haz июн",
            "juil lug lip tem июл",
            "aoû ago sie ağu авг",
            "set wrz eyl сен",
            "okt ott out paź eki окт",
            "lis kas ноя",
            "déc dez dic des gru ara дек",
        ),
        1,
    )
    for name in names.split()
}
"""Their beginnings in French, German, Spanish, Portuguese, Italian, Dutch, Norwegian, Swedish, Polish, Turkish and
Russian, if different from English."""
_ANY_MONTH = rf"(?P<mo>(?i:{'|'.join(dict.fromkeys((*MONTHS, *_OTHER_MONTHS)))}))[^\s\d.,/-]{{0,7}}\.?"
_PM = r"(?:[ \u202f]?(?P<pm>[AaPp](?:[Mm]\b|\.[ \u202f]?[Mm]\.)))?+"
_ASIAN_PM = "(?:(?P<pm>上午|下午|午前|午後|오전|오후) ?)?"
_TIME = r"(?P<h>\d{1,2}):(?P<mi>[0-5]\d):(?P<s>[0-5]\d)(?:[.,](?P<f>\d{1,9}))?"
_CLOCK = _TIME + _PM
_COLON_CLOCK = _TIME + r"(?::(?P<f2>\d{3}))?" + _PM
ZONES = {
    **dict.fromkeys(("Z", "UTC", "GMT", "WET"), 0),
    **dict.fromkeys(("WEST", "CET"), 1),
    **dict.fromkeys(("CEST", "EET", "SAST"), 2),
    **dict.fromkeys(("EEST", "MSK"), 3),
    **dict.fromkeys(("SGT", "HKT", "AWST"), 8),
    **dict.fromkeys(("JST", "KST"), 9),
    "AEST": 10,
    "AEDT": 11,
    "NZST": 12,
    "NZDT": 13,
    "BRT": -3,
    "EDT": -4,
    "HST": -10,
    "AKST": -9,
    **dict.fromkeys(("EST", "CDT"), -5),
    "MDT": -6,
    **dict.fromkeys(("MST", "PDT"), -7),
    "PST": -8,
}
"""Offsets from UTC in hours. Ambiguous names (`CST`, `IST`, `BST`) are missing: such a timestamp has no zone."""
_NAMED = "|".join(sorted(ZONES, key=lambda name: (-len(name), name)))
_OFFSET = r"[+-]\d\d:?\d\d|[+-]\d\d"
_ZONE = (
    rf"(?:[ #]?(?=[A-Z+-])(?P<z>{_OFFSET}|(?:GMT|UTC)(?:{_OFFSET}|[+-]\d(?::\d\d)?)|Z|{_NAMED})(?!\w|:\d)"
    rf"(?:(?<=\d) (?:{_NAMED})\b)?)?+"
)
"""With what may stand there or not, all of it is part of the timestamp: behind it, blanks are counted."""
_START = r"(?<![\d./-])(?<!\d:)"
_ALONE = r"(?<![\w./-])(?<!\d:)"
_BETWEEN = r"(?:[Tt]|::?|[ _]+|, ?| - |\]\[| ?\([^\s()]{1,3}\) ?)"
_END = r"(?!\d|:\d)"
_WEEKDAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?"


def _row(
    name: str, pattern: str, examples: Mapping[str, str], *, start: str = _START, end: str = _ZONE + _END
) -> Stamp:
    """A format that stands where most of them may."""
    return Stamp(name, start + pattern + end, examples)


STAMPS = (
    _row(
        "iso",
        r"(?P<y>\d{4})(?P<sep>[-/. ])(?P<mo>\d\d)(?P=sep)(?P<d>\d\d)" + _BETWEEN + _COLON_CLOCK,
        {
            "2026-11-21T07:57:36.001Z": "2026-11-21T07:57:36.001",
            "2026-11-21 07:57:36,001": "2026-11-21T07:57:36.001",
            "2026-11-21T07:57:36.001234567+01:00": "2026-11-21T06:57:36.001",
            "2026-11-21 07:57:36.1 -0330": "2026-11-21T11:27:36.100",
            "2026/11/21 07:57:36.001234": "2026-11-21T07:57:36.001",
            "2026-11-21 07:57:36": "2026-11-21T07:57:36",
            "2026-11-21 07:57:36:001": "2026-11-21T07:57:36.001",
            "2026.11.21 07:57:36": "2026-11-21T07:57:36",
            "2026-11-21T07:57:36+00": "2026-11-21T07:57:36",
            "2026-11-21 07:57:36.5 UTC": "2026-11-21T07:57:36.500",
            "2026-11-21 07:57:36 CET": "2026-11-21T06:57:36",
            "2026-11-21 07:57:36.001 +0100 CET": "2026-11-21T06:57:36.001",
            "2026 11 21 07:57:36#+01": "2026-11-21T06:57:36",
            "2026-11-21][07:57:36": "2026-11-21T07:57:36",
            "2026/11/21(土) 07:57:36.001": "2026-11-21T07:57:36.001",
        },
    ),
    _row(
        "dashed",
        r"(?P<y>\d{4})[_-](?P<mo>\d\d)[_-](?P<d>\d\d)[ _T-](?P<h>[0-2]\d)[_.-](?P<mi>[0-5]\d)[_.-](?P<s>[0-5]\d)"
        r"(?:[.,_-](?P<f>\d{3,9}))?",
        {
            "2026-11-21_07-57-36.001": "2026-11-21T07:57:36.001",
            "2026-11-21-07.57.36.001234": "2026-11-21T07:57:36.001",
            "2026_11_21_07_57_36_001": "2026-11-21T07:57:36.001",
        },
        end=_END,
    ),
    _row(
        "dotted",
        r"(?P<d>0?[1-9]|[12]\d|3[01])[./-](?P<mo>\d{1,2})[./-](?P<y>\d{4})(?:,? | klo |-)"
        r"(?P<h>\d{1,2})\.(?P<mi>[0-5]\d)\.(?P<s>[0-5]\d)(?:[.,](?P<f>\d{1,9}))?",
        {
            "21.11.2026 07.57.36,001": "2026-11-21T07:57:36.001",
            "21.11.2026 klo 7.57.36": "2026-11-21T07:57:36",
            "21/11/2026 07.57.36": "2026-11-21T07:57:36",
        },
        end=_END,
    ),
    _row(
        "chinese",
        r"(?P<y>\d{4})[年년] ?(?P<mo>\d{1,2})[月월] ?(?P<d>\d{1,2})[日일] ?"
        + _ASIAN_PM
        + r"(?P<h>\d{1,2})(?:[時时]|시 ?|:)(?P<mi>\d{1,2})(?:分|분 ?|:)(?P<s>\d{1,2})[秒초]?(?:[.,](?P<f>\d{1,9}))?",
        {
            "2026年11月21日 07:57:36.001": "2026-11-21T07:57:36.001",
            "2026年11月21日 下午7:57:36": "2026-11-21T19:57:36",
            "2026年11月21日 7時57分36秒": "2026-11-21T07:57:36",
            "2026년 11월 21일 오후 7시 57분 36초": "2026-11-21T19:57:36",
        },
    ),
    _row(
        "korean",
        r"(?P<y>\d{4})[./] ?(?P<mo>\d{1,2})[./] ?(?P<d>\d{1,2})\.? " + _ASIAN_PM.removesuffix("?") + _TIME,
        {
            "2026. 11. 21. 오후 7:57:36": "2026-11-21T19:57:36",
            "2026/11/21 午前 7:57:36.001": "2026-11-21T07:57:36.001",
        },
    ),
    _row(
        "ordinal",
        r"(?P<y>\d{4})[-.](?P<yd>[0-3]\d\d)" + _BETWEEN + _CLOCK,
        {
            "2026-325 07:57:36.001": "2026-11-21T07:57:36.001",
            "2026-325T07:57:36Z": "2026-11-21T07:57:36",
            "2026.325 07:57:36.01": "2026-11-21T07:57:36.010",
        },
    ),
    _row(
        "compact",
        r"(?P<y>20\d\d)(?P<mo>[01]\d)(?P<d>[0-3]\d)(?:T|[ _-])?"
        r"(?P<h>[0-2]\d):?(?P<mi>[0-5]\d):?(?P<s>[0-5]\d)(?:[.,]?(?P<f>\d{3,9}))?",
        {
            "20261121T075736.001Z": "2026-11-21T07:57:36.001",
            "20261121-07:57:36.001": "2026-11-21T07:57:36.001",
            "20261121 075736": "2026-11-21T07:57:36",
            "20261121075736001": "2026-11-21T07:57:36.001",
        },
    ),
    _row(
        "day_first",
        _WEEKDAY
        + r"(?P<d>\d{1,2})\.?(?P<sep>[-/ .])(?:de )?"
        + _ANY_MONTH
        + r"(?: de)?(?P=sep)(?P<y>\d{4})"
        + _BETWEEN
        + _CLOCK,
        {
            "21 Nov 2026 07:57:36,001": "2026-11-21T07:57:36.001",
            "21-Nov-2026 07:57:36.001": "2026-11-21T07:57:36.001",
            "21/Nov/2026:07:57:36 +0100": "2026-11-21T06:57:36",
            "Sat, 21 Nov 2026 07:57:36 GMT": "2026-11-21T07:57:36",
            "21 nov. 2026 07:57:36,001": "2026-11-21T07:57:36.001",
            "7 Okt. 2026 07:57:36": "2026-10-07T07:57:36",
            "7 juil. 2026 07:57:36": "2026-07-07T07:57:36",
            "21. November 2026 07:57:36,001": "2026-11-21T07:57:36.001",
            "21-Nov-2026::07:57:36.001234": "2026-11-21T07:57:36.001",
            "21 de nov. de 2026 07:57:36": "2026-11-21T07:57:36",
            "21 ноября 2026 07:57:36,001": "2026-11-21T07:57:36.001",
            "7 paź 2026 07:57:36": "2026-10-07T07:57:36",
            "7 Ağu 2026 07:57:36": "2026-08-07T07:57:36",
        },
    ),
    _row(
        "day_first_short_year",
        _WEEKDAY
        + r"(?P<d>\d{1,2})-"
        + _ANY_MONTH
        + r"-(?:(?P<y>\d{4})|(?P<y2>\d\d)) (?P<h>\d{1,2})[:.](?P<mi>[0-5]\d)[:.](?P<s>[0-5]\d)(?:[.,](?P<f>\d{1,9}))?"
        + _PM,
        {
            "21-NOV-26 07.57.36.001000 PM": "2026-11-21T19:57:36.001",
            "Saturday, 21-Nov-26 07:57:36 GMT": "2026-11-21T07:57:36",
            "21-nov-2026 7.57.36": "2026-11-21T07:57:36",
        },
    ),
    _row(
        "month_first",
        _WEEKDAY + _MONTH + r" (?P<d>\d{1,2}),? (?P<y>\d{4})(?:,? | @ )" + _CLOCK,
        {
            "Nov 21, 2026 @ 07:57:36.001": "2026-11-21T07:57:36.001",
            "Nov 21, 2026 7:57:36 AM": "2026-11-21T07:57:36",
            "Nov 21, 2026, 7:57:36.001 PM": "2026-11-21T19:57:36.001",
            "November 21, 2026 12:57:36 AM": "2026-11-21T00:57:36",
            "Sat Nov 21 2026 07:57:36 GMT+0100": "2026-11-21T06:57:36",
            "Sat, Nov 21 2026 7:57:36 pm": "2026-11-21T19:57:36",
        },
    ),
    Stamp(
        "ctime",
        _WEEKDAY.removesuffix("?")
        + _MONTH
        + r" {1,2}(?P<d>\d{1,2}) "
        + _CLOCK
        + rf"(?: (?P<z>{_NAMED}|[+-]\d{{4}})| [A-Z]{{3,4}})? (?P<y>\d{{4}})"
        + _END,
        {
            "Sat Nov 21 07:57:36 UTC 2026": "2026-11-21T07:57:36",
            "Sat Nov 21 07:57:36 2026": "2026-11-21T07:57:36",
            "Sat Nov 21 07:57:36 PST 2026": "2026-11-21T15:57:36",
            "Sat Nov 21 07:57:36 XYZ 2026": "2026-11-21T07:57:36",
            "Sat Nov  7 07:57:36.001234 2026": "2026-11-07T07:57:36.001",
        },
    ),
    _row(
        "month_day_year",
        r"(?P<mo>0?[1-9]|1[0-2])(?P<sep>[/-])(?P<d>\d{1,2})(?P=sep)(?P<y>\d{4})" + _BETWEEN + _COLON_CLOCK,
        {
            "11/21/2026 07:57:36.001": "2026-11-21T07:57:36.001",
            "11/21/2026, 7:57:36 PM": "2026-11-21T19:57:36",
            "11/21/2026, 7:57:36 PM GMT+1": "2026-11-21T18:57:36",
            "11/21/2026 7:57:36:001 PM GMT+5:30": "2026-11-21T14:27:36.001",
        },
    ),
    _row(
        "day_month_year",
        r"(?P<d>0?[1-9]|[12]\d|3[01])(?P<sep>[/.-])(?P<mo>\d{1,2})(?P=sep)(?P<y>\d{4})" + _BETWEEN + _COLON_CLOCK,
        {
            "21.11.2026 07:57:36,001": "2026-11-21T07:57:36.001",
            "21/11/2026 07:57:36": "2026-11-21T07:57:36",
            "21/11/2026 07:57:36:001": "2026-11-21T07:57:36.001",
            "21/11/2026 7:57:36:001 PM": "2026-11-21T19:57:36.001",
            "21/11/2026, 7:57:36 p. m.": "2026-11-21T19:57:36",
        },
    ),
    _row(
        "short_year",
        r"(?P<y2>[2-4]\d)(?P<sep>[-/.]?)(?P<mo>[01]\d)(?P=sep)(?P<d>[0-3]\d)[ T]" + _CLOCK,
        {
            "26/11/21 07:57:36": "2026-11-21T07:57:36",
            "26-11-21 07:57:36.001": "2026-11-21T07:57:36.001",
        },
    ),
    _row(
        "month_day_short_year",
        r"(?P<mo>0?[1-9]|1[0-2])/(?P<d>\d{1,2})/(?P<y2>\d\d)" + _BETWEEN + _COLON_CLOCK,
        {
            "11/21/26 7:57:36:001 UTC": "2026-11-21T07:57:36.001",
            "1/7/26, 7:57:36 AM": "2026-01-07T07:57:36",
        },
    ),
    _row(
        "day_month_short_year",
        r"(?P<d>0?[1-9]|[12]\d|3[01])(?P<sep>[/.])(?P<mo>0?[1-9]|1[0-2])(?P=sep)(?P<y2>\d\d)" + _BETWEEN + _COLON_CLOCK,
        {
            "21.11.26 07:57:36:001 CET": "2026-11-21T06:57:36.001",
            "21/11/26, 07:57:36": "2026-11-21T07:57:36",
        },
    ),
    Stamp(
        "syslog",
        r"(?<!\w)" + _MONTH + r" {1,2}(?P<d>\d{1,2})(?: |, ?)" + _CLOCK + _ZONE + _END,
        {
            "Nov 21 07:57:36": "2026-11-21T07:57:36",
            "Nov  7 07:57:36.001234": "2026-11-07T07:57:36.001",
            "Dec 31 23:59:59": "2025-12-31T23:59:59",
        },
    ),
    _row(
        "syslog_day_first",
        r"(?P<d>\d{1,2})[ -]" + _MONTH + r"[ ,-]{1,2}" + _CLOCK,
        {
            "21 Nov 07:57:36.001": "2026-11-21T07:57:36.001",
        },
    ),
    _row(
        "month_day",
        r"(?P<mo>[01]\d)[-/]?(?P<d>[0-3]\d)[ T]" + _CLOCK,
        {
            "11-21 07:57:36.001": "2026-11-21T07:57:36.001",
            "1121 07:57:36.001234": "2026-11-21T07:57:36.001",
        },
    ),
    _row(
        "time_first",
        r"(?P<h>[0-2]?\d):(?P<mi>[0-5]\d):(?P<s>[0-5]\d)(?:[.,](?P<f>\d{1,9}))?,? "
        r"(?P<d>0?[1-9]|[12]\d|3[01])(?P<sep>[/.-])(?P<mo>0?[1-9]|1[0-2])(?P=sep)(?:(?P<y>\d{4})|(?P<y2>\d\d))",
        {
            "07:57:36.001 21/11/26": "2026-11-21T07:57:36.001",
            "07:57:36, 21.11.2026": "2026-11-21T07:57:36",
        },
        start=_ALONE,
    ),
    _row(
        "time",
        r"(?P<h>[0-2]?\d):(?P<mi>[0-5]\d):(?P<s>[0-5]\d)(?:[.,:](?P<f>\d{1,9}))?" + _PM,
        {
            "07:57:36.001": "2026-11-22T07:57:36.001",
            "07:57:36,001": "2026-11-22T07:57:36.001",
            "23:57:36": "2026-11-21T23:57:36",
            "7:57:36 PM": "2026-11-22T19:57:36",
        },
        start=_ALONE,
    ),
    Stamp(
        "epoch",
        _ALONE
        + r"(?P<epoch>1\d{9})(?:[.,]?(?P<f>\d{9}|\d{6}|\d{3})(?:(?<=\d{13})\.\d{1,6})?|[.,](?P<f2>\d{1,9}))?"
        + r"(?![\w/-]|:\w|\.\d)",
        {
            "1795247856.001": "2026-11-21T07:57:36.001",
            "1795247856.1": "2026-11-21T07:57:36.100",
            "1795247856": "2026-11-21T07:57:36",
            "1795247856001": "2026-11-21T07:57:36.001",
            "1795247856001234": "2026-11-21T07:57:36.001",
            "1795247856001.25": "2026-11-21T07:57:36.001",
            "1795247856001234567": "2026-11-21T07:57:36.001",
        },
    ),
    Stamp(
        "epoch_in_groups",
        _ALONE + r"(?P<lead>1),(?P<tail>\d{3},\d{3},\d{3},\d{3})(?![\w:/,-]|\.\d)",
        {
            "1,795,247,856,001": "2026-11-21T07:57:36.001",
        },
    ),
    Stamp(
        "tai64n",
        r"@(?P<tai>4[0-9a-f]{15})(?P<nanos>[0-9a-f]{8})(?![0-9a-zA-Z])",
        {
            "@400000006b014efa000f4240": "2026-11-21T07:57:36.001",
        },
    ),
    Stamp(
        "epoch_power",
        _ALONE + r"(?P<lead>1)\.(?P<tail>\d{7,18})[eE]\+?0?9(?![\w.:/-])",
        {
            "1.7952478560012345e+09": "2026-11-21T07:57:36.001",
            "1.795247856e9": "2026-11-21T07:57:36",
        },
    ),
)
"""All known formats; the first one that matches at a position counts."""

BY_NAME = {row.name: row for row in STAMPS}


def without_names(pattern: str) -> str:
    """The pattern with its groups made non-capturing, so that it can be embedded in another one."""
    return re.sub(r"\(\?P<\w+>", "(?:", pattern.replace("(?P=sep)", "[-/ .]?"))


_COMPILED = {row.name: re.compile(row.pattern, re.ASCII) for row in STAMPS}
ANY = re.compile(
    r"(?=[\dA-Z@])(?:" + "|".join(f"(?P<{row.name}>{without_names(row.pattern)})" for row in STAMPS) + ")", re.ASCII
)
"""A timestamp in any format; the group is named after its row."""
ANY_TEXT = without_names(ANY.pattern)


class Clock(NamedTuple):
    """Values for the parts that timestamps leave out."""

    zone: tzinfo
    """The zone of timestamps without one."""
    now_ms: int
    """Modification time of the file: no timestamp is later by more than a day."""
    first_ms: int | None = None
    """Time of day of the file's first timestamp, if timestamps have no date; None if unknown."""
    last_ms: int | None = None
    unpadded: bool = False
    """Whether a fraction is a number of milliseconds without leading zeros, as `SimpleDateFormat` prints `ss.S` and
    Python `%(msecs)d`: `.5` is 5 ms."""


class Time(NamedTuple):
    """A parsed timestamp."""

    ms: int
    """Epoch milliseconds."""
    lost: frozenset[str]
    """The missing parts: `date`, `year`, `zone`, `milliseconds`."""


def find(text: str, start: int = 0, end: int | None = None) -> Iterator[re.Match[str]]:
    """The timestamps in a text, from left to right; `lastgroup` names the row."""
    return ANY.finditer(text, start, len(text) if end is None else end)


def read(text: str, clock: Clock, rows: Sequence[str] = ()) -> Time | None:
    """The time of a text in one of these formats; None if it is not a valid timestamp."""
    for name in rows or _COMPILED:
        match = _COMPILED[name].fullmatch(text)
        if match is not None:
            found = _read(match.groupdict(), clock)
            if found is not None and (found.ms >= _EARLIEST_MS or found.lost & {"date", "year"}):
                return found
    return None


_EARLIEST_MS = 946_684_800_000
"""The year 2000. Earlier dates are placeholders: collectors write 1970 if a record has no time."""


def are_unpadded(texts: Sequence[str]) -> bool:
    """Whether the fractions of these timestamps are milliseconds without leading zeros: a decimal fraction of several
    lengths, whose last zeros are left out, ends with none. If no fraction tells, the order of the texts does.

    >>> are_unpadded(["07:57:36.5", "07:57:36.120"]), are_unpadded(["07:57:36.5", "07:57:36.012", "07:57:36.12"])
    (True, False)
    >>> are_unpadded(["07:57:36.98", "07:57:36.101"]), are_unpadded(["07:57:36.101", "07:57:36.98"])
    (True, False)
    """
    found = [(text[: match.start(1)], match[1]) for text in texts if (match := _FRACTION.search(text))]
    lengths = {len(fraction) for _, fraction in found}
    several = [fraction for _, fraction in found if len(fraction) > 1]
    if max(lengths, default=0) != 3 or len(lengths) < 2 or any(fraction.startswith("0") for fraction in several):
        return False
    steps = [(a, b) for (second, a), (same, b) in pairwise(found) if second == same]
    falls = sum(int(b) < int(a) for a, b in steps), sum(b.ljust(3, "0") < a.ljust(3, "0") for a, b in steps)
    return any(fraction.endswith("0") for fraction in several) or falls[0] < falls[1]


_FRACTION = re.compile(r"(?::\d\d:\d\d[.,:]|\b1\d{9}[.,])(\d{1,9})(?!\d)", re.ASCII)


def read_number(value: float) -> Time | None:
    """The time of an epoch in seconds, milli-, micro- or nanoseconds, inferred from its magnitude; None outside this
    century."""
    if not 1e9 <= value < 2e19:  # also excludes NaN
        return None
    for limit, factor in ((2e9, 1000), (2e12, 1), (2e15, 1e-3), (2e18, 1e-6)):
        if value < limit:
            whole = isinstance(value, int)
            ms = value * factor if factor >= 1 else value // round(1 / factor) if whole else value * factor
            seconds_only = limit == 2e9 and value == int(value)
            return Time(round(ms), frozenset({"milliseconds"} if seconds_only else ()))
    return None


def _read(groups: Mapping[str, str | None], clock: Clock) -> Time | None:
    found = {name: value or "" for name, value in groups.items()}
    fraction = found.get("f") or found.get("f2") or ""
    ms = int(fraction) if clock.unpadded and 0 < len(fraction) <= 3 else int((fraction + "000")[:3])
    whole_seconds = set() if fraction else {"milliseconds"}
    if "epoch" in found:
        return Time(int(found["epoch"]) * 1000 + ms, frozenset(whole_seconds))
    if "tai" in found:
        return Time((int(found["tai"], 16) - _TAI_EPOCH) * 1000 + int(found["nanos"], 16) // 1_000_000, frozenset())
    if "lead" in found:
        return Time(int(f"1{found['tail'].replace(',', '')}".ljust(13, "0")[:13]), frozenset())
    hour = int(found["h"])
    if found.get("pm"):
        hour = hour % 12 + (12 if found["pm"][0] in "Pp" or found["pm"] in _AFTERNOON else 0)
    named = found.get("z", "")
    zone = parse_zone(named) if named else clock.zone
    if zone is None:
        return None
    lost = whole_seconds if named else whole_seconds | {"zone"}
    clock_time, seconds = (hour, int(found["mi"])), int(found["s"]) * 1000 + ms
    if "d" not in found and "yd" not in found:
        start = _complete_date(clock_time, seconds, clock, zone)
        return None if start is None else Time(start, frozenset({*lost, "date"}))
    if "yd" in found:
        start = _compute_minute((int(found["y"]), 1, 1), clock_time, zone)
        return None if start is None else Time(start + (int(found["yd"]) - 1) * DAY_MS + seconds, frozenset(lost))
    month, day = _parse_month(found["mo"]), int(found["d"])
    if "y" in found or "y2" in found:
        year = int(found.get("y") or f"20{found['y2']}")
        minute = _compute_minute((year, month, day), clock_time, zone)
        return None if minute is None else Time(minute + seconds, frozenset(lost))
    now_year = datetime.fromtimestamp(clock.now_ms / 1000, UTC).year
    for year in range(now_year + 1, now_year - 8, -1):  # a 29th of February may be years away
        minute = _compute_minute((year, month, day), clock_time, zone)
        if minute is not None and minute <= clock.now_ms + DAY_MS:
            return Time(minute + seconds, frozenset({*lost, "year"}))
    return None


_AFTERNOON = ("下午", "午後", "오후")
_TAI_EPOCH = (1 << 62) + 10
"""The label of 1970-01-01 in TAI64, as written by daemontools, runit and s6: includes the ten leap seconds before it,
but ignores later ones."""


def _parse_month(text: str) -> int:
    name = text.lower()
    return int(text) if text.isdigit() else MONTHS.index(name) + 1 if name in MONTHS else _OTHER_MONTHS.get(name, 0)


def _complete_date(clock_time: tuple[int, int], seconds: int, clock: Clock, zone: tzinfo) -> int | None:
    """The time of a timestamp without a date: on the day on which the file ended, or, before a midnight, on the
    previous day."""
    today = datetime.fromtimestamp(clock.now_ms / 1000, zone)
    minute = _compute_minute((today.year, today.month, today.day), clock_time, zone)
    if minute is None:
        return None
    at, of_day = minute + seconds, (clock_time[0] * 60 + clock_time[1]) * 60_000 + seconds
    if clock.first_ms is None or clock.last_ms is None:
        return at - DAY_MS if at > clock.now_ms else at
    ended = minute - (clock_time[0] * 60 + clock_time[1]) * 60_000 + clock.last_ms
    if ended > clock.now_ms + DAY_MS // 24:  # the last line is from before midnight, the modification from after it
        at -= DAY_MS
    wrapped = clock.last_ms < clock.first_ms
    return at - DAY_MS if wrapped and of_day > clock.last_ms + DAY_MS // 24 else at


@lru_cache(maxsize=4096)
def _compute_minute(date: tuple[int, int, int], clock_time: tuple[int, int], zone: tzinfo) -> int | None:
    try:
        return int(datetime(*date, *clock_time, tzinfo=zone).timestamp()) * 1000
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=256)
def parse_zone(text: str) -> tzinfo | None:
    """The zone of a name or an offset; None if invalid."""
    if text in ZONES:
        return timezone(timedelta(hours=ZONES[text])) if ZONES[text] else UTC
    text = text.removeprefix("GMT").removeprefix("UTC")
    first, colon, last = text[1:].partition(":")
    hours, minutes = (int(first), int(last)) if colon else (int(first[:2]), int(first[2:] or 0))
    if hours > 23 or minutes > 59:
        return None
    return timezone(timedelta(hours=hours, minutes=minutes) * (-1 if text[0] == "-" else 1))
