"""Writers of texts that somebody coded as a whole: mails, streams of clouds, syslog over TCP, copies from pages."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from urllib.parse import quote
from xml.sax.saxutils import escape

from logs.exports import bare
from logs.wrappers import JAVA, Event, Writer, iso, kafka_line, lines, logback_line, per_line

Line = Callable[[Event], str]


def octet_counted(line: Line) -> Writer:
    """RFC 6587, section 3.4.1: no line feed stands between messages."""

    def write(events: Sequence[Event]) -> str:
        parts = [f"<14>1 {iso(e, digits=6)} host-1 app 812 - - {part}" for e in events for part in line(e).split("\n")]
        return "".join(f"{len(part.encode())} {part}" for part in parts)

    return write


def ended(line: Line, end: str) -> Writer:
    """Lines that end in another way."""
    return lambda events: lines(line)(events).replace("\n", end)


def kept(blank: str, line: Line) -> Writer:
    """No blank can be broken."""
    return lambda events: lines(line)(events).replace("\t", "    ").replace(" ", blank)


def mail(events: Sequence[Event]) -> str:
    """Python's `email` puts texts with letters beyond ASCII into base64."""
    head = "Subject: A\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n"
    return head + base64.encodebytes(lines(logback_line)(events).encode()).decode()


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def rich_text(events: Sequence[Event]) -> str:
    r"""What WordPad makes of a log; braces and backslashes are escaped."""
    text = lines(kafka_line)(events)
    for raw, mark in (("\\", r"\\"), ("{", r"\{"), ("}", r"\}"), ("\t", r"\tab "), ("\n", "\\par\n")):
        text = text.replace(raw, mark)
    head = r"{\rtf1\ansi\deff0{\fonttbl{\f0\fnil\fcharset0 Courier New;}}{\colortbl;\red255\green0\blue0;}"
    return f"{head}\n\\viewkind4\\uc1\\pard\\lang1031\\f0\\fs20 {text}}}\n"


def page(line: Callable[[Event], str]) -> Writer:
    """A whole page, as a browser saves it."""
    head = "<!DOCTYPE html>\n<html><head><title>Build 7</title></head><body>\n<p>What A said:</p>\n"
    return lambda events: head + "".join(line(e) for e in events) + "</body></html>\n"


def spans(e: Event) -> str:
    """Every part of a line in its own colour."""
    parts = (f"[{iso(e, ' ', ',', '')}]", e.level, escape(e.text), f"({e.logger})")
    row = "&nbsp;".join(f'<span class="a b">{part}</span>' for part in parts)
    return f'<div class="line">{row}</div>' + (f"<pre>{escape(e.trace)}</pre>" if e.trace else "\n")


def supervised(line: Line, size: int) -> Writer:
    """supervisord's own log at its level `debug`: what was read of a pipe at once stands below a heading."""

    def write(events: Sequence[Event]) -> str:
        text = lines(line)(events)
        cuts = [text[i : i + size] for i in range(0, len(text), size)]
        at = f"{events[0].at:%Y-%m-%d %H:%M:%S},000"
        return "".join(f"{at} DEBG 'consumer' stdout output:\n{cut}\n" for cut in cuts)

    return write


def journald_bytes(e: Event) -> str:
    """`journalctl -o json` of a line with colours: the message as a list of its bytes."""
    text = f"\x1b[2m{e.at:%H:%M:%S}\x1b[0;39m \x1b[32m{e.level:>5}\x1b[0;39m {e.text}" + (
        f"\n{e.trace}" if e.trace else ""
    )
    fields = {
        "__REALTIME_TIMESTAMP": str(e.ts_ms * 1000),
        "PRIORITY": "6",
        "MESSAGE": [*f"{text.rstrip()}\x1b[0m".encode()],
    }
    return json.dumps(fields, separators=(",", ":"))


def recorded(events: Sequence[Event]) -> str:
    """asciinema's version 3, whose events are what a terminal was given at once."""
    text = ended(kafka_line, "\r\n")(events)
    cuts = (text[i : i + 300] for i in range(0, len(text), 300))
    return "".join(f"{json.dumps(one)}\n" for one in ({"version": 3}, *([0.1, "o", cut] for cut in cuts)))


def html_layout(events: Sequence[Event]) -> str:
    """log4j's `HTMLLayout`: a cell a line."""
    head = "<html><body><table>\n"
    rows = (
        f'\n<tr>\n<td>{iso(e)}</td>\n<td title="{e.thread} thread">{e.thread}</td>\n<td title="Level">{e.level}</td>\n'
        f'<td title="{e.logger} logger">{e.logger}</td>\n<td title="Message">{escape(e.body)}</td>\n</tr>\n'
        for e in events
    )
    return head + "".join(rows) + "</table></body></html>\n"


def gson(e: Event) -> str:
    text = json.dumps({"time": iso(e), "logger": e.logger, "message": e.body})
    return "".join(f"\\u{ord(one):04x}" if one in "=<>&'" else one for one in text)


def report(events: Sequence[Event]) -> str:
    """JUnit's, as Surefire writes it."""
    said = f"<system-out><![CDATA[{lines(logback_line)(events)}]]></system-out>"
    return f'<?xml version="1.0"?>\n<testsuite name="a.B">\n  <testcase name="c"/>\n  {said}\n</testsuite>\n'


CODED: dict[str, Writer] = {
    "octet counting": octet_counted(kafka_line),
    "octet counting of bare lines": octet_counted(bare),
    "carriage returns": ended(logback_line, "\r"),
    "carriage returns in a known layout": ended(kafka_line, "\r"),
    "carriage returns between objects": lambda events: JAVA["logstash"](events).replace("\n", "\r"),
    "nul": lambda events: "".join(f"{kafka_line(e)}\0" for e in events),
    "line separators": ended(logback_line, "\u2028"),
    "no blank but firm ones": kept("\xa0", kafka_line),
    "entities for blanks": kept("&nbsp;", logback_line),
    "escaped": lambda events: lines(kafka_line)(events).replace("\n", "\\n").replace("\t", "\\t"),
    "one string": lambda events: json.dumps(lines(kafka_line)(events)),
    "base64": lambda events: encoded(lines(kafka_line)(events)),
    "base64 in a mail": mail,
    "base64 of each line": lambda events: "".join(
        f"{encoded(part)}\n" for e in events for part in logback_line(e).split("\n")
    ),
    "kinesis": lines(lambda e: json.dumps({"data": encoded(logback_line(e)), "approximateArrivalTimestamp": e.ts_ms})),
    "coloured lines of journald": lines(journald_bytes),
    "rich text": rich_text,
    "page of paragraphs": page(lambda e: f"<p>{escape(logback_line(e))}</p>\n"),
    "page of text": lambda events: page(lambda e: f"{escape(kafka_line(e))}\n")(events).replace("</p>", "</p><pre>"),
    "page of spans": page(spans),
    "page of log4j": html_layout,
    "signs escaped by Gson": lines(gson),
    "asciinema in parts": recorded,
    "test report": report,
    "line feeds of a terminal": ended(kafka_line, "\r\r\n"),
    "padding": ended(kafka_line, "   \n"),
    "percents": lambda events: quote(lines(kafka_line)(events)),
    "tabs of rsyslog": per_line(
        lambda e: f"{iso(e)}\t{e.level}\t{e.logger}\t{e.body}",
        lambda e, part: f"{e.at:%b %d %H:%M:%S} host-1 consumer[812]: " + part.replace("\t", "#011"),
    ),
    "supervisord": supervised(kafka_line, 700),
    "supervisord without empty lines": lines(
        lambda e: f"{iso(e, ' ', ',', '')} DEBG 'consumer' stdout output:\n{logback_line(e).rstrip()}"
    ),
    "supervisord, line by line": lines(
        lambda e: f"{iso(e, ' ', ',', '')} DEBG 'consumer' stdout output:\n{logback_line(e)}\n"
    ),
}
