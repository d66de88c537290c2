"""Writers of what databases, clouds, collectors and terminals make of logs: files in which entries are not lines, and
lines with something before and behind each of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from textwrap import indent
from typing import Any
from xml.sax.saxutils import escape

from logs.wrappers import (
    Event,
    Writer,
    berlin,
    csv_cell,
    iso,
    kafka_line,
    lines,
    log4j2,
    logback_line,
    ms,
    objects,
    per_line,
    short,
)


def batches(events: Sequence[Event], size: int) -> Iterator[Sequence[Event]]:
    return (events[i : i + size] for i in range(0, len(events), size))


def stamp(e: Event, zone: str = "") -> str:
    return iso(e, " ", ".", zone)


def bare(e: Event) -> str:
    """What a program prints that leaves the time to others."""
    return f"{e.level} [{e.thread}] {e.logger} - {e.body}"


def numbered(line: Callable[[int, Event], str]) -> Writer:
    return lambda events: "".join(line(i, e) for i, e in enumerate(events, 1))


def each_part(line: Callable[[Event], str]) -> Callable[[Sequence[Event]], list[tuple[Event, str]]]:
    return lambda events: [(e, part) for e in events for part in line(e).split("\n")]


# -- databases ----------------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def escaped(text: str) -> str:
    for raw, mark in (("\\", "\\\\"), ("'", "\\'"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(raw, mark)
    return f"'{text}'"


def tabbed(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def columns(i: int, e: Event, quote: Callable[[str], str]) -> str:
    return ", ".join((str(i), *map(quote, (stamp(e, "+00"), e.level, e.logger, e.thread, e.body))))


MYSQL = "-- MySQL dump 10.13\n\nCREATE TABLE `logs` (\n  `id` bigint NOT NULL,\n  `ts` datetime(3) DEFAULT NULL,\n"
MYSQL += (
    "  `level` text,\n  `logger` text,\n  `thread` text,\n  `message` text,\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB;\n"
)


def mysqldump(events: Sequence[Event]) -> str:
    rows = (
        (f"({i},{escaped(stamp(e))},{','.join(map(escaped, (e.level, e.logger, e.thread, e.body)))})")
        for i, e in enumerate(events)
    )
    listed = list(rows)
    return MYSQL + "".join(
        f"INSERT INTO `logs` VALUES {','.join(listed[i : i + 50])};\n"  # noqa: S608
        for i in range(0, len(listed), 50)
    )


DATABASES: dict[str, Writer] = {
    "pg_dump copy": lambda events: (
        "COPY public.logs (id, ts, level, logger, thread, message) FROM stdin;\n"
        + "".join(
            "\t".join((stamp(e, "+00"), e.level, e.logger, e.thread or "-", tabbed(e.body))) + "\n" for e in events
        )
        + "\\.\n"
    ),
    "pg_dump inserts": numbered(
        lambda i, e: f"INSERT INTO public.logs (id, ts, level, logger, thread, m) VALUES ({columns(i, e, quoted)});\n"  # noqa: S608
    ),
    "mysqldump": mysqldump,
    "psql expanded": numbered(
        lambda i, e: (
            f"-[ RECORD {i} ]---------------\nid      | {i}\nts      | {stamp(e, '+00')}\nlevel   | {e.level}\n"
            f"logger  | {e.logger}\nthread  | {e.thread}\nmessage | " + e.body.replace("\n", "+\n        | ") + "\n"
        )
    ),
    "mysql vertical": numbered(
        lambda i, e: (
            f"*************************** {i}. row ***************************\n     id: {i}\n     ts: {stamp(e)}\n"
            f"  level: {e.level}\n logger: {e.logger}\n thread: {e.thread}\nmessage: {e.body}\n"
        )
    ),
    "sqlite lines": numbered(
        lambda i, e: (
            f"     id = {i}\n     ts = {stamp(e)}\n  level = {e.level}\n logger = {e.logger}\n thread = {e.thread}\n"
            f"message = {e.body}\n\n"
        )
    ),
    "clickhouse vertical": numbered(
        lambda i, e: f"Row {i}:\n──────\nts:      {stamp(e)}\nlogger:  {e.logger}\nmessage: {e.body}\n\n"
    ),
    "clickhouse compact": lambda events: json.dumps(
        {
            "meta": [{"name": name, "type": "String"} for name in ("timestamp", "level", "logger", "message")],
            "data": [[stamp(e), e.level, e.logger, e.body] for e in events],
        },
        indent="\t",
    ),
    "clickhouse pretty": numbered(lambda i, e: f"{i:3}. │ {stamp(e)} │ {e.level:<5} │ {tabbed(e.body):<300} │\n"),
    "mysql table": numbered(lambda i, e: f"| {i:4} | {stamp(e)} | {e.level:<5} | {e.body:<300} |\n"),
}


# -- clouds and collectors ----------------------------------------------------------------------------------


def attribute(name: str, text: str) -> dict[str, Any]:
    return {"key": name, "value": {"stringValue": text}}


def otlp(parts: Sequence[tuple[Event, str]], named: bool) -> dict[str, Any]:
    records = [
        {
            "timeUnixNano": str(e.ts_ms * 1_000_000),
            "observedTimeUnixNano": str(e.ts_ms * 1_000_000 + 5),
            "body": {"stringValue": text},
            **({"severityText": e.level, "attributes": both(e)} if named else {"attributes": []}),
        }
        for e, text in parts
    ]
    resource = {"attributes": [attribute("service.name", "billing"), attribute("k8s.pod.name", "p-1")]}
    return {"resourceLogs": [{"resource": resource, "scopeLogs": [{"scope": {}, "logRecords": records}]}]}


def both(e: Event) -> list[dict[str, Any]]:
    return [attribute("thread.name", e.thread), attribute("log.logger", e.logger)]


def otlp_lines(size: int, line: Callable[[Event], str] | None = None, step: int | None = None) -> Writer:
    def write(events: Sequence[Event]) -> str:
        parts = each_part(line)(events) if line else [(e, e.body) for e in events]
        cut = (parts[i : i + size] for i in range(0, len(parts), size))
        return "".join(json.dumps(otlp(one, line is None), indent=step) + "\n" for one in cut)

    return write


def debug_exporter(events: Sequence[Event]) -> str:
    """What OpenTelemetry's collector prints of its records."""
    out = []
    for batch in batches(events, 20):
        out.append(f"{iso(batch[-1])}\tinfo\tResourceLog #0\nResource SchemaURL: \nScopeLogs #0")
        for i, e in enumerate(batch):
            out.append(
                f"LogRecord #{i}\nObservedTimestamp: {stamp(e)}1 +0000 UTC\nTimestamp: {stamp(e)} +0000 UTC\n"
                f"SeverityText: {e.level}\nSeverityNumber: Info(9)\nBody: Str({e.body})\nAttributes:\n"
                f"     -> thread.name: Str({e.thread})\nTrace ID: \nSpan ID: \nFlags: 0"
            )
        out.append('\t{"otelcol.component.id": "debug", "otelcol.component.kind": "exporter"}')
    return "\n".join(out) + "\n"


def gcloud(events: Sequence[Event]) -> str:
    out = []
    for e in reversed(events):
        text = kafka_line(e)
        said = f"'{text.replace(chr(39), chr(39) * 2)}'" if "\n" not in text else "|-\n" + indent(text, "  ")
        out.append(
            f"---\ninsertId: a{e.ts_ms}\nlogName: projects/p/logs/stdout\n"
            f"receiveTimestamp: '{iso(e._replace(ts_ms=e.ts_ms + 1500), digits=9)}'\nresource:\n  labels:\n"
            f"    pod_name: c-1\n  type: k8s_container\nseverity: INFO\ntextPayload: {said}\n"
            f"timestamp: '{iso(e, digits=9)}'\n"
        )
    return "".join(out)


def journal(opens: str, before: str, time: Callable[[Event], str]) -> Writer:
    def write(events: Sequence[Event]) -> str:
        return "".join(
            f"{opens.format(i=i, at=time(e))}{before}_HOSTNAME=h\n{before}PRIORITY=6\n{before}_PID=812\n"
            f"{before}MESSAGE={part}\n{before}_COMM=java\n\n"
            for i, (e, part) in enumerate(each_part(bare)(events))
        )

    return write


def pairs(e: Event) -> list[dict[str, str]]:
    return [{"field": "@timestamp", "value": stamp(e)}, {"field": "@message", "value": kafka_line(e)}]


def with_columns(e: Event) -> list[str]:
    return [iso(e, digits=7), "c-1", logback_line(e)]


NAMES = [{"name": name, "type": "string"} for name in ("TimeGenerated", "PodName", "LogMessage")]

CLOUDS: dict[str, Writer] = {
    "otlp batches": otlp_lines(25),
    "otlp batches of lines": otlp_lines(25, logback_line),
    "otlp over several lines": otlp_lines(25, step=2),
    "otel debug exporter": debug_exporter,
    "gcloud yaml": gcloud,
    "journald export": journal("__CURSOR=s=a;i={i}\n__REALTIME_TIMESTAMP={at}\n", "", lambda e: str(e.ts_ms * 1000)),
    "journald verbose": journal("{at} UTC [s=a;i={i};b=0]\n", "    ", lambda e: f"{e.at:%a} {stamp(e)}000"),
    "journald json over several lines": per_line(
        bare,
        lambda e, p: json.dumps({"__REALTIME_TIMESTAMP": str(e.ts_ms * 1000), "_PID": "8", "MESSAGE": p}, indent="\t"),
    ),
    "cloudwatch insights": lambda events: json.dumps({"results": [pairs(e) for e in reversed(events)]}),
    "cloudwatch insights over several lines": lambda events: json.dumps(
        {"results": list(map(pairs, events))}, indent=4
    ),
    "firehose": lambda events: "".join(
        json.dumps(
            {
                "messageType": "DATA_MESSAGE",
                "logStream": "app/c/1",
                "logEvents": [{"id": "3", "timestamp": e.ts_ms, "message": logback_line(e)} for e in batch],
            }
        )
        for batch in batches(events, 20)
    ),
    "objects of a known layout on one line": lambda events: "".join(
        json.dumps(
            {"@timestamp": iso(e), "log.level": e.level, "message": e.body, "log.logger": e.logger},
            separators=(",", ":"),
        )
        for e in events
    ),
    "aws logs tail json": lines(
        lambda e: (
            f"{iso(e, zone='+00:00', digits=6)} app/c/1 " + json.dumps({"logger": e.logger, "msg": e.body}, indent=4)
        )
    ),
    "aws logs text": per_line(logback_line, lambda e, p: f"EVENTS\t17\t{e.ts_ms + 800}\tapp/c/1\t{p}\t{e.ts_ms}"),
    "aws logs tail short": per_line(logback_line, lambda e, p: f"{iso(e, zone='', digits=0)} {p}"),
    "azure tables": lambda events: json.dumps(
        {"tables": [{"columns": NAMES, "rows": list(map(with_columns, events))}]}
    ),
    "azure tables over several lines": lambda events: json.dumps(
        {"tables": [{"columns": NAMES, "rows": list(map(with_columns, events))}]}, indent=2
    ),
    "azure app service": per_line(logback_line, lambda e, p: f"{iso(e, digits=9)}  {p}"),
    "new relic": lambda events: json.dumps(
        {"results": [{"events": [{"timestamp": e.ts_ms, "message": logback_line(e)} for e in events]}]}
    ),
    "log insight": lambda events: json.dumps(
        {
            "complete": True,
            "events": [
                {
                    "text": kafka_line(e),
                    "timestamp": e.ts_ms,
                    "fields": [
                        {"name": name, "content": "h-1", "startPosition": -1, "length": -1}
                        for name in ("hostname", "appname", "source")
                    ],
                }
                for e in reversed(events)
            ],
        }
    ),
    "grafana frames": lambda events: json.dumps(
        {
            "schema": {"fields": [{"name": "labels"}, {"name": "Time"}, {"name": "Line"}]},
            "data": {"values": [[{} for _ in events], [e.ts_ms for e in events], [logback_line(e) for e in events]]},
        }
    ),
    "log4j2 json in an array": lambda events: (
        "[\n" + ", ".join(json.dumps(log4j2(e), indent=2) + "\n" for e in events) + "]"
    ),
    "fluent bit": per_line(
        kafka_line, lambda e, p: f'[0] kube.c-1: [[{e.ts_ms / 1000:.9f}, {{}}], {{"log"=>"{p}", "stream"=>"stdout"}}]'
    ),
    "rsyslog json": per_line(logback_line, lambda e, p: json.dumps({"timestamp": berlin(e), "message": f" {p}"})),
    "svlogd": per_line(bare, lambda e, p: f"@{(1 << 62) + 10 + e.ts_ms // 1000:x}{e.ts_ms % 1000 * 1000000:08x} {p}"),
    "sap list": lines(
        lambda e: (
            f"{e.at:%Y %m %d %H:%M:%S}#+00#{e.level}#{e.logger}##anonymous#{e.thread}#na#a1b2#app#web#na#{e.body}|"
        )
    ),
    "windows events": numbered(
        lambda i, e: (
            f"Event[{i}]:\n  Log Name: Application\n  Date: {iso(e, zone='')}\n  Event ID: 0\n  Level: Information\n"
            f"  Description: \n{kafka_line(e)}\n\n"
        )
    ),
    "powershell list": lines(
        lambda e: (
            f"\nTimeCreated  : {e.at:%m/%d/%Y %I:%M:%S %p}\nProviderName : Billing\nId           : 0\nMessage      : "
            + kafka_line(e).replace("\n", "\n               ")
        )
    ),
}


# -- terminals, pages, loggers ------------------------------------------------------------------------------

SECURITY: dict[str, Writer] = {
    "cef": lines(
        lambda e: (
            f"CEF:0|Acme|orders|4.2|7|Log|3|rt={e.ts_ms} logger={e.logger} thread={e.thread} level={e.level} msg="
            + folded(e.body).replace("=", r"\=")
        )
    ),
    "cef behind syslog": per_line(
        kafka_line, lambda e, p: f"<134>{e.at:%b %d %H:%M:%S} h CEF:0|Acme|x|1|7|Log|3|rt={e.ts_ms} msg={p} dvchost=h"
    ),
    "leef": lines(
        lambda e: (
            f"{e.at:%b %d %H:%M:%S} h LEEF:2.0|Acme|x|1|7|^|devTime={iso(e)}^sev=3^logger={e.logger}"
            f"^thread={e.thread}^msg={folded(e.body)}^level={e.level}"
        )
    ),
    "leef with tabs": per_line(logback_line, lambda e, p: f"LEEF:1.0|Acme|x|1|7|devTime={iso(e)}\tmsg={p}\tsev=3"),
}


def folded(text: str) -> str:
    return text.rstrip("\n").replace("\n", r"\n")


PAGES: dict[str, Writer] = {
    "console consumer": lambda events: "".join(
        f"CreateTime:{e.ts_ms}\tPartition:0\tOffset:{i}\tnull\t{part}\n"
        for i, (e, part) in enumerate(each_part(kafka_line)(events))
    ),
    "markdown": lambda events: (
        "The log of A:\n\n" + per_line(kafka_line, lambda _, p: f"    {p}")(events) + "\nThanks\n"
    ),
    "html lines": per_line(logback_line, lambda _, p: f"{escape(p)}<br/>"),
    "html blocks": per_line(logback_line, lambda e, p: f'<div class="l"><b>{iso(e)}</b> {escape(p)}</div>'),
    "html table": lines(lambda e: f"<tr><td>{iso(e)}</td><td>{e.level}</td><td>{escape(bare(e))}</td></tr>"),
    "yaml list": per_line(logback_line, lambda _, p: f"- {quoted(p)}"),
    "yaml list in double quotes": per_line(kafka_line, lambda _, p: f"  - {json.dumps(p)}"),
    "yaml records": lines(
        lambda e: (
            f"- time: {iso(e)}\n  logger: {e.logger}\n  message: "
            + (quoted(e.body) if "\n" not in e.body else "|-\n" + indent(e.body, "    "))
        )
    ),
    "ansible": lambda events: (
        "TASK [read] ***\nchanged: [host1] => "
        + json.dumps(
            {"rc": 0, "stdout": lines(kafka_line)(events), "stdout_lines": lines(kafka_line)(events).split("\n")}
        )
    ),
    "grep -n": lambda events: "".join(
        f"logs/a.log:{i}:{part}\n" for i, (_, part) in enumerate(each_part(logback_line)(events), 1)
    ),
    "php-fpm": per_line(
        logback_line, lambda e, p: f'[{e.at:%d-%b-%Y %H:%M:%S}] WARNING: [pool www] child 7 said into stderr: "{p}"'
    ),
    "excel": lambda events: (
        "sep=;\r\nTime;Host;Message\r\n" + "".join(f"{iso(e)};h;{csv_cell(bare(e))}\r\n" for e in events)
    ),
    "splunk pairs": lines(
        lambda e: f'{iso(e)} log_level={e.level} thread="{e.thread}" logger="{e.logger}" message="{e.body}"'
    ),
    "structlog repr": lines(lambda e: f"timestamp='{iso(e)}' level='info' event={e.body!r} logger='{e.logger}'"),
    "slog-rs": lines(lambda e: f"{e.at:%b %d %H:%M:%S}.{ms(e)} DEBG {e.body}, module: kafka"),
    "log4j compact": lines(lambda e: f"{e.at:%Y%m%d%H%M%S}{ms(e)} {e.level} [{e.thread}] {short(e.logger)}: {e.body}"),
    "clickhouse server": lines(
        lambda e: f"{e.at:%Y.%m.%d %H:%M:%S}.{ms(e)}123 [ 812 ] {{}} <Debug> StorageKafka (t): {e.body}"
    ),
    "jetty": lines(lambda e: f"{stamp(e)}:{e.level}:oak.{e.logger.rpartition('.')[2]}:{e.thread}: {e.body}"),
    "liberty": lines(lambda e: f"[{e.at:%m/%d/%y}, {e.at:%H:%M:%S}:{ms(e)} GMT] 0000002a {e.logger} I {e.body}"),
    "objects before hosts": lines(
        lambda e: json.dumps({"t": iso(e), "logger": e.logger, "message": e.body}) + f" from host-{e.ts_ms % 3}"
    ),
    "toml": lines(
        lambda e: (
            f'[[event]]\ntime = {iso(e)}\nlogger = "{e.logger}"\nmessage = {json.dumps(e.body, ensure_ascii=False)}\n'
        )
    ),
    "toml records": numbered(lambda i, e: f'[event.{i}]\nts = {iso(e)}\nmessage = """{e.body}"""\n\n'),
    "a column of csv": lambda events: "content\n" + lines(lambda e: csv_cell(logback_line(e)))(events),
    "lines below times": per_line(logback_line, lambda e, part: f"{iso(e)}\n{part}"),
    "spring 3 gelf": objects(
        lambda e: (
            {
                "short_message": e.text,
                "timestamp": e.ts_ms / 1000,
                "_process_thread_name": e.thread,
                "_log_logger": e.logger,
            }
            | ({"full_message": e.body, "_error_stack_trace": e.trace} if e.trace else {})
        )
    ),
}
EXPORTS = {**DATABASES, **CLOUDS, **SECURITY, **PAGES}
