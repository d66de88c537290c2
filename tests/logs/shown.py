"""Writers of what people show of logs: panes of terminals, jobs of builds, tables of psql, what `grep` found, messages
in a chat; and of loggers that put something behind each message."""

from __future__ import annotations

import json
import quopri
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from textwrap import TextWrapper
from xml.sax.saxutils import escape

import yaml
from logs.wrappers import Event, Writer, csv_cell, iso, kafka_line, lines, logback_line, per_line, spring_line

Line = Callable[[Event], str]


def printed(events: Sequence[Event], line: Line) -> list[tuple[Event, str]]:
    """Each line that an application prints, tabs as terminals show them."""
    return [(e, part.replace("\t", "        ")) for e in events for part in line(e).split("\n")]


def pane(width: int, line: Line) -> Writer:
    """What `tmux capture-pane` and copies from a terminal hold: blanks at the right edge are left out."""

    def write(events: Sequence[Event]) -> str:
        parts = (p[i : i + width].rstrip() for _, p in printed(events, line) for i in range(0, max(1, len(p)), width))
        return "\n".join(parts) + "\n"

    return write


def gitlab(size: int, line: Line) -> Writer:
    """A job with `FF_TIMESTAMPS`, long lines in parts."""

    def write(events: Sequence[Event]) -> str:
        out = [f"{iso(events[0], digits=6)} 00O section_start:1:step\r\x1b[0K", f"{iso(events[0], digits=6)} 00O+Run"]
        for e in events:
            for part in line(e).split("\n"):
                cuts = [part[i : i + size] for i in range(0, len(part), size)] or [""]
                out += [f"{iso(e, digits=6)} 01O{'+' if i else ' '}{cut}" for i, cut in enumerate(cuts)]
        return "\n".join(out) + "\n"

    return write


def psql(events: Sequence[Event]) -> str:
    """A table as psql aligns it; cells of several lines have a plus sign behind all but the last."""
    wide, logger = max(len(p) for _, p in printed(events, lambda e: e.body)), max(len(e.logger) for e in events)
    out = [f" {'ts':^26} | level | {'logger':^{logger}} | {'message':^{wide}} "]
    out.append("+".join("-" * (width + 2) for width in (26, 5, logger, wide)))
    for e in events:
        parts = [part for _, part in printed([e], lambda e: e.body)]
        for i, part in enumerate(parts):
            cells = ("", "", "") if i else (iso(e, " ", ".", "+00"), e.level, e.logger)
            end = f"{part:<{wide}}+" if i < len(parts) - 1 else part
            out.append(f" {cells[0]:<26} | {cells[1]:<5} | {cells[2]:<{logger}} | {end}")
    return "\n".join([*out, f"({len(events)} rows)", ""])


def grep(line: Line, numbered: bool) -> Writer:
    """`grep -C1 -r`, with and without `-n`: what was found and the lines around it, of two files."""

    def write(events: Sequence[Event]) -> str:
        out: list[str] = []
        half = len(events) // 2
        for name, some in (("logs/a-1.log", events[:half]), ("logs/a-1.log.1", events[half:])):
            for i, e in enumerate(some):
                for n, part in enumerate(line(e).split("\n")):
                    mark = ":" if not n and ("artition" in part or "roup" in part) else "-"
                    out.append(f"{name}{mark}{f'{1000 * i + n}{mark}' if numbered else ''}{part}")
                if i % 5 == 0:
                    out.append("--")
        return "\n".join(out) + "\n"

    return write


def steps(events: Sequence[Event]) -> str:
    """What CircleCI answers: all that a step printed is one text."""
    text = "".join(part + "\r\n" for e in events for part in logback_line(e).split("\n"))
    return json.dumps([{"message": text, "time": iso(events[0]), "type": "out"}])


def chat(events: Sequence[Event]) -> str:
    """An export of Slack's, with some of the log in each message."""
    told = (events[i : i + 30] for i in range(0, len(events), 30))
    texts = ("```" + "\n".join(map(kafka_line, some)) + "```" for some in told)
    return json.dumps([{"type": "message", "user": "U1", "text": text, "ts": "1795300000.000200"} for text in texts])


def recorded(events: Sequence[Event]) -> str:
    """A terminal as asciinema records it."""
    first = events[0].ts_ms
    lines = (((e.ts_ms - first) / 1000, "o", kafka_line(e).replace("\n", "\r\n") + "\r\n") for e in events)
    return "\n".join([json.dumps({"version": 2, "width": 80}), *map(json.dumps, lines)]) + "\n"


def bulk(events: Sequence[Event]) -> str:
    """As Elasticsearch takes documents."""
    return "".join(
        json.dumps({"index": {"_index": "logs"}})
        + "\n"
        + json.dumps({"@timestamp": iso(e), "message": e.body, "thread": e.thread, "logger": e.logger})
        + "\n"
        for e in events
    )


def event_viewer(events: Sequence[Event]) -> str:
    """Text of Windows' event viewer, newest first, whose head has no name for the last column."""
    rows = (
        f"Information\t{e.at:%m/%d/%Y %I:%M:%S %p}\tA\t0\tNone\t{csv_cell(kafka_line(e))}\n" for e in reversed(events)
    )
    return "Level\tDate and Time\tSource\tEvent ID\tTask Category\n" + "".join(rows)


def kept_blanks(events: Sequence[Event]) -> str:
    """As pages and chats copy it: some blanks are such as cannot be broken."""
    return re.sub(r"(?m)(?<= ) |^[ \t]", "\xa0", "".join(f"{spring_line(e)}\n" for e in events))


def pushed(events: Sequence[Event]) -> str:
    """What is sent to Loki, a few lines at a time."""
    told = [[str(e.ts_ms * 10**6), part] for e in events for part in kafka_line(e).split("\n")]
    batches = (told[i : i + 3] for i in range(0, len(told), 3))
    return "".join(json.dumps({"streams": [{"stream": {"app": "x"}, "values": some}]}) + "\n" for some in batches)


def mail(events: Sequence[Event]) -> str:
    """A log in a mail that was saved."""
    head = "Subject: A\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n"
    return head + quopri.encodestring("".join(f"{logback_line(e)}\n" for e in events).encode()).decode()


def flowed(events: Sequence[Event]) -> str:
    """A mail whose text flows (RFC 3676): a line that goes on ends with a blank, one that begins with a blank has
    another before it."""
    out = ["Subject: A", "Content-Type: text/plain; charset=utf-8; format=flowed", ""]
    for _, part in printed(events, logback_line):
        line = ""
        for word in re.findall(r"\s*\S+ ?", f" {part}".rstrip() if part.startswith(" ") else part.rstrip()):
            if line and len(line) + len(word) > 72:
                out.append(line)
                line = word
            else:
                line += word
        out.append(line)
    return "\n".join(out) + "\n"


def folded(width: int, line: Line, quote: str = "", indent: str = "") -> Writer:
    """Broken between words, as mailers and `fmt` do."""

    def write(events: Sequence[Event]) -> str:
        fold = TextWrapper(width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        return "".join(f"{quote}{one}\n" for _, part in printed(events, line) for one in fold.wrap(part) or [""])

    return write


def in_teamcity(frame: str, line: Line) -> Writer:
    """Service messages of TeamCity's, with its escapes."""
    marks = {"|": "||", "'": "|'", "[": "|[", "]": "|]", "\n": "|n"}
    return lines(lambda e: frame.format("".join(marks.get(c, c) for c in line(e)), at=iso(e, zone="+0000")))


def aws_table(events: Sequence[Event]) -> str:
    """`aws logs filter-log-events --output table`: texts of several lines go on in raw lines."""
    wide = max(len(kafka_line(e)) for e in events)
    border = f"+{'-' * 28}+{'-' * (wide + 4)}+{'-' * 6}+"
    head = f"{'-' * len(border)}\n|{'FilterLogEvents':^{wide + 40}}|\n{border}\n"
    head += f"|{'timestamp':^28}|{'message':^{wide + 4}}|{'id':^6}|\n{border}\n"
    rows = "".join(f"|  {iso(e)}  |  {kafka_line(e):<{wide}}  |  37  |\n" for e in events)
    return f"{head}{rows}{border}\n"


def boxed(bar: str, above: str, between: str, lined: bool) -> Writer:
    """A table whose cells go on in the next line, perhaps with a line between rows."""

    def write(events: Sequence[Event]) -> str:
        wide = max(len(part) for _, part in printed(events, lambda e: e.body))
        border = above.join(["", *(between * n for n in (25, wide + 2)), ""])
        out = [border, f"{bar} {'time':<24}{bar} {'message':<{wide + 1}}{bar}", border]
        for e in events:
            for i, (_, part) in enumerate(printed([e], lambda e: e.body)):
                out.append(f"{bar} {'' if i else iso(e, ' ', '.', ''):<23} {bar} {part:<{wide}} {bar}")
            out += [border] if lined else []
        return "\n".join([*out, border, ""])

    return write


def node_debug(events: Sequence[Event]) -> str:
    """Node's package `debug`: the time since the line before."""
    texts = (e.body.replace("\n", "\n  ") for e in events)
    waits = [0, *(b.ts_ms - a.ts_ms for a, b in pairwise(events))]
    return "".join(
        f"  kafka:consumer {text} +{f'{ms}ms' if ms < 1000 else f'{ms // 1000}s'}\n"
        for text, ms in zip(texts, waits, strict=True)
    )


def numbered_lines(column: str, line: Line) -> Writer:
    """As `cat -n`, `less -N`, `bat` and editors show a file."""
    return lambda events: "".join(f"{column.format(i)}{part}\n" for i, (_, part) in enumerate(printed(events, line), 1))


def template(e: Event) -> dict[str, object]:
    """A message before its arguments are put in."""
    found = re.match(r"(.*?partitions?\W* )(.+?)( from .*)?\Z", e.text)
    text, arguments = (f"{found[1]}{{}}{found[3] or ''}", [found[2]]) if found else (e.text, [])
    return {"timestamp": e.ts_ms, "threadName": e.thread, "loggerName": e.logger, "message": text} | {
        "arguments": arguments,
        "throwable": {"message": e.trace} if e.trace else None,
    }


SHOWN: dict[str, Writer] = {
    "logback json": lines(lambda e: json.dumps({"sequenceNumber": 1, "context": {"name": "default"}} | template(e))),
    "formatted messages": lines(lambda e: json.dumps(template(e) | {"arguments": None, "formattedMessage": e.text})),
    "cat -v": per_line(
        lambda e: f"^[[2m{iso(e)}^[[0m ^[[32m{e.level:>5}^[[0m ^[[36m{e.logger}^[[0m : {e.body}".replace("\t", "^I"),
        lambda _, p: p,
    ),
    "cat -n": numbered_lines("{:6d}\t", kafka_line),
    "less -N": numbered_lines("{:7d} ", logback_line),
    "bat": numbered_lines("{:4d} │ ", kafka_line),
    "flowed mail": flowed,
    "folded mail": folded(76, kafka_line),
    "folded mail that is quoted": folded(74, logback_line, quote="> "),
    "folded and indented": folded(78, logback_line, indent="  "),
    "teamcity": in_teamcity("##teamcity[message text='{}' status='NORMAL' timestamp='{at}']", kafka_line),
    "teamcity output": in_teamcity("##teamcity[testStdOut name='a.B' out='{}|n' flowId='1']", logback_line),
    "tac": lambda events: "\n".join(lines(kafka_line)(events).rstrip("\n").split("\n")[::-1]) + "\n",
    "aws table": aws_table,
    "box": boxed("│", "┼", "─", lined=False),
    "box with lines": boxed("|", "+", "-", lined=True),
    "node debug": node_debug,
    "node debug without a terminal": lines(lambda e: f"{iso(e)} kafka:consumer {e.body}"),
    "tmux": pane(80, kafka_line),
    "tmux logback": pane(132, logback_line),
    "gitlab": gitlab(120, kafka_line),
    "gitlab logback": gitlab(100, logback_line),
    "psql": psql,
    "grep -rC": grep(kafka_line, numbered=False),
    "grep -rnC": grep(logback_line, numbered=True),
    "circle": steps,
    "slack": chat,
    "asciinema": recorded,
    "bulk": bulk,
    "blanks that are kept": kept_blanks,
    "loki push": pushed,
    "aws yaml": lambda events: yaml.safe_dump(
        {"events": [{"eventId": f"{i}", "message": kafka_line(e), "timestamp": e.ts_ms} for i, e in enumerate(events)]}
    ),
    "mail": mail,
    "event viewer": event_viewer,
    "links of terminals": lines(lambda e: f"\x1b]8;;file:///a\x1b\\{logback_line(e)}\x1b]8;;\x1b\\"),
    "buildkite": per_line(lambda e: e.body, lambda e, p: f"\x1b_bk;t={e.ts_ms}\x07{p}"),
    "directions of writing": lines(
        lambda e: (
            f"\u200e{e.at.month}/\u200e{e.at.day}/\u200e{e.at:%Y} \u200f\u200e{e.at:%I:%M:%S %p} "
            f"\u202a{e.logger}\u202c {e.body}"
        )
    ),
    "dotnet on systemd": lines(lambda e: f"<6>{iso(e)} {e.logger}[0] {e.body}"),
    "byte order marks": lines(lambda e: f"\ufeff{kafka_line(e)}"),
    "foreman": per_line(lambda e: e.body, lambda e, p: f"\x1b[36m{e.at:%H:%M:%S} worker.1         | \x1b[0m{p}"),
    "rancher": per_line(
        lambda e: e.body,
        lambda e, p: f"{e.at:%a, %b %d %Y} {int(e.at.strftime('%I'))}:{e.at:%M:%S} {e.at.strftime('%p').lower()} {p}",
    ),
    "serilog": lines(lambda e: f"[{e.at:%H:%M:%S} DBG] {e.body} <s:{e.logger}>"),
    "mongo shell": lines(
        lambda e: (
            f"{{\n  _id: ObjectId('6a1b'),\n  ts: ISODate('{iso(e)}'),\n  logger: '{e.logger}',\n"
            f"  message: {json.dumps(e.body)}\n}}"
        )
    ),
    "attributes": lines(
        lambda e: (
            f'  <entry time="{iso(e)}" logger="{e.logger}" message="'
            + escape(e.body, {'"': "&quot;", "\n": "&#10;"})
            + '"/>'
        )
    ),
    "splunk with numbers": lambda events: (
        '"_serial","_time",source,"_raw"\n'
        + "".join(f'{i},"{iso(e)}",a.log,{csv_cell(kafka_line(e))}\n' for i, e in enumerate(events))
    ),
    "hclog": lines(lambda e: f"{iso(e)} [DEBUG] kafka: {e.body}: app=billing"),
    "class and method in parentheses": lines(
        lambda e: (
            f"[{iso(e, ' ', '.', '')}] [{e.level:<7}] {e.text} ({e.logger} run)" + (f"\n{e.trace}" if e.trace else "")
        )
    ),
    "glassfish": lines(
        lambda e: (
            f"[#|{iso(e, zone='+0000')}|{e.level}|x 5|{e.logger}|_ThreadID=1;_ThreadName={e.thread};|{e.body}|#]\n"
        )
    ),
    "payara": lines(
        lambda e: (
            f"[{iso(e, zone='+0000')}] [Payara 6] [{e.level}] [] [{e.logger}] [tid: _ThreadName={e.thread}] [[\n"
            f"  {e.body}]]\n"
        )
    ),
}
