"""Layouts drawn at random: stamps, levels, threads, loggers, fields, frames, in forms and orders that people choose."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from random import Random

from logs.wrappers import Event, Writer


def _format(pattern: str, behind: str = "", hours: int = 0) -> Callable[[datetime], str]:
    """`%L` stands for milliseconds."""
    return lambda at: (
        f"{(at + timedelta(hours=hours)).strftime(pattern.replace('%L', f'{at.microsecond // 1000:03}'))}{behind}"
    )


STAMPS = (
    _format("%Y-%m-%d %H:%M:%S,%L"),
    _format("%Y-%m-%d %H:%M:%S.%L"),
    _format("%Y-%m-%dT%H:%M:%S.%LZ"),
    _format("%Y-%m-%dT%H:%M:%S.%f", "+00:00"),
    _format("%Y-%m-%dT%H:%M:%S.%f", "123Z"),
    _format("%Y%m%dT%H%M%S.%LZ"),
    _format("%Y%m%d %H:%M:%S.%L"),
    _format("%Y/%m/%d %H:%M:%S.%f"),
    _format("%d.%m.%Y %H:%M:%S.%L"),
    _format("%m/%d/%Y %I:%M:%S.%L %p"),
    _format("%d/%b/%Y:%H:%M:%S.%L +0000"),
    _format("%d %b %Y %H:%M:%S,%L"),
    _format("%a, %d %b %Y %H:%M:%S.%L GMT"),
    _format("%A, %B %d, %Y %H:%M:%S.%L"),
    _format("%m%d %H:%M:%S.%f"),
    _format("%b %d %H:%M:%S.%L"),
    _format("%H:%M:%S.%L"),
    _format("%Y-%m-%d %H:%M:%S.%L", "+0200", hours=2),
    lambda at: f"{at.timestamp() * 1000:.0f}",
    lambda at: f"{at.timestamp():.3f}",
)
AROUND_STAMPS = ("{}", "[{}]", "({})", "<{}>", '"{}"', "{} -", "{}:", "{} |", "time={}", 'ts="{}"', "@{}", "{};", "{},")
LEVELS = ("{}", "[{}]", "{:5}", "({})", "<{}>", "level={}", "{}:", "|{}|", "[{:<5}]", "{:.1}", "")
THREADS = ("[main]", "(main)", "main", "[pool-1-thread-3]", "thread=main", "tid=17", "")
LOGGERS = ("full", "abbreviated", "simple", "[full]", "{full}", "(simple)", "logger=full", "full:", "")
FIELDS = (
    "",
    "",
    "",
    "[]",
    "[traceId=, spanId=]",
    "{requestId=#}",
    "-",
    "[orders,,]",
    "orders/1.2.3",
    "host-7",
    "pid=1234",
)
SEPARATORS = (" ", "  ", " - ", " | ", "\t", " : ", " -- ", " > ", "; ", " :: ")
MESSAGES = ("{}", "{}", "{}", "- {}", ": {}", 'msg="{}"', "> {}", '"{}"', "message={}", "[{}]", "| {}")
BEHIND = ("", "", "", "", "logger", "thread", " {id=#}", " #", " (Foo.java:#)")
FRAMES: dict[str, Callable[[str, datetime, int], str]] = {
    "": lambda line, _at, _number: line,
    "docker": lambda line, at, _number: json.dumps(
        {"log": f"{line}\n", "stream": "stdout", "time": f"{at:%FT%T.%f}000Z"}
    ),
    "json": lambda line, at, _number: json.dumps(
        {"@timestamp": f"{at:%FT%T.%f}Z", "message": line, "kubernetes": {"pod": "p"}}
    ),
    "cri": lambda line, at, _number: f"{at:%FT%T.%f}000Z stdout F {line}",
    "journald": lambda line, at, _number: f"{at:%b %d %H:%M:%S} node-1 orders[123]: {line}",
    "compose": lambda line, _at, _number: f"orders-1  | {line}",
    "kubectl": lambda line, _at, _number: f"[pod/orders-7f/app] {line}",
    "syslog": lambda line, at, _number: f"<14>1 {at:%FT%T.%f}Z host app 12 - - {line}",
    "grep": lambda line, _at, number: f"app.log:{number}:{line}",
}
WHOLE = ("docker", "json")
"""Frames that hold an entry of several lines at once."""


def _logger(form: str, name: str) -> str:
    parts = name.split(".")
    short = ".".join([*(part[0] for part in parts[:-1]), parts[-1]])
    return form.replace("full", name).replace("abbreviated", short).replace("simple", parts[-1])


def draw(seed: int) -> Writer:
    """A layout; the same one for the same seed."""
    random = Random(seed)  # noqa: S311
    stamp, around = random.choice(STAMPS), random.choice(AROUND_STAMPS)
    level, thread, logger, fields = map(random.choice, (LEVELS, THREADS, LOGGERS, FIELDS))
    separator, message, behind = map(random.choice, (SEPARATORS, MESSAGES, BEHIND))
    order = ["level", "thread", "logger", "fields"]
    random.shuffle(order)
    order.insert(0 if random.random() < 0.7 else random.randrange(5), "stamp")
    frame = random.choice(["", "", "", "", *FRAMES])
    feed = "\r\n" if random.random() < 0.1 else "\n"

    def line(e: Event, number: int) -> str:
        text = json.dumps(e.text, ensure_ascii=False)[1:-1] if '"' in message else e.text
        values = {
            "stamp": around.format(stamp(e.at)),
            "level": level.format(e.level),
            "thread": thread if behind != "thread" else "",
            "logger": _logger(logger, e.logger) if behind != "logger" else "",
            "fields": re.sub("#", f"{number * 7919:x}", fields),
        }
        between = separator if separator in ("  ", "\t", "; ") else " "
        head = between.join(filter(None, (values[name] for name in order)))
        plain = re.search(r"full|abbreviated|simple|\Z", logger)
        tail = {"logger": f" ({_logger((plain and plain[0]) or 'full', e.logger)})", "thread": f" {thread or 'main'}"}
        return head + separator + message.format(text) + tail.get(behind, behind.replace("#", str(number)))

    def write(events: Sequence[Event]) -> str:
        rows: list[str] = []
        for number, e in enumerate(events):
            whole = line(e, number) + (f"\n{e.trace.rstrip()}" if e.trace else "")
            parts = [whole] if frame in WHOLE else whole.split("\n")
            rows += (FRAMES[frame](part, e.at, len(rows) + i) for i, part in enumerate(parts, 1))
        return feed.join([*rows, ""])

    return write
