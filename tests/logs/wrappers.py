"""Writers that put recorded messages into layouts as people really collect them, each a function of events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from textwrap import indent
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from fsm.logs.layouts.java_layouts import kafka
from fsm.logs.programs.java_client import FORMATS, THREADS
from fsm.logs.programs.librdkafka import FORMATS as LIBRDKAFKA
from fsm.logs.reading.pieces import from_bytes


class Event(NamedTuple):
    """One call of a logger."""

    ts_ms: int
    level: str
    logger: str
    thread: str
    text: str
    trace: str = ""

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.ts_ms // 1000, UTC).replace(microsecond=self.ts_ms % 1000 * 1000)

    @property
    def body(self) -> str:
        return f"{self.text}\n{self.trace}" if self.trace else self.text


def java_events(data: bytes) -> Iterator[Event]:
    """The events of a log in Kafka's own layout; threads are those that the classes run on."""
    for entry in from_bytes(data, FORMATS[:1]):
        if not entry.formats:
            continue
        text = entry.data.decode()
        message = kafka(text, UTC)
        if message is None or message.cut:
            continue
        name = message.logger.rpartition(".")[2]
        thread = {"app": "main", "background": "consumer_background_thread"}.get(THREADS.get(name, "app"), "main")
        _, _, trace = text.partition(f"({message.logger})\n")
        yield Event(message.ts_ms, message.level, message.logger, thread, message.text, trace)


def librdkafka_events(data: bytes) -> Iterator[Event]:
    """The events of a log on stderr, as confluent-kafka-python hands them to a logger."""
    for entry in from_bytes(data, LIBRDKAFKA):
        if entry.formats:
            _, stamp, facility, rest = entry.data.decode().split("|", 3)
            name, _, text = rest.partition("| ")
            seconds, _, ms = stamp.partition(".")
            yield Event(int(seconds) * 1000 + int(ms), "DEBUG", "rdkafka", "", f"{facility} [{name}] {text}")


Writer = Callable[[Sequence[Event]], str]


def lines(line: Callable[[Event], str]) -> Writer:
    return lambda events: "".join(line(event) + "\n" for event in events)


def objects(fields: Callable[[Event], dict[str, Any]], **options: Any) -> Writer:
    return lines(lambda e: json.dumps(fields(e), **options))


def iso(e: Event, mark: str = "T", point: str = ".", zone: str = "Z", digits: int = 3) -> str:
    fraction = f"{e.ts_ms % 1000:03d}000000"[:digits]
    return f"{e.at:%Y-%m-%d}{mark}{e.at:%H:%M:%S}{point if digits else ''}{fraction}{zone}"


def berlin(e: Event) -> str:
    return e.at.astimezone(timezone(timedelta(hours=1))).isoformat(timespec="milliseconds")


def short(name: str) -> str:
    """As logback shortens names: `o.a.k.c.c.i.ConsumerCoordinator`."""
    *packages, last = name.split(".")
    return ".".join([*(p[0] for p in packages), last])


def three(name: str) -> str:
    """As Quarkus shortens names."""
    *packages, last = name.split(".")
    return ".".join([*(p[:3] for p in packages), last])


def kafka_line(e: Event) -> str:
    return f"[{iso(e, ' ', ',', '')}] {e.level} {e.text} ({e.logger})" + (f"\n{e.trace}" if e.trace else "")


def logback_line(e: Event) -> str:
    return f"{e.at:%H:%M:%S}.{e.ts_ms % 1000:03d} [{e.thread}] {e.level:<5} {short(e.logger)} -- {e.body}"


def spring_line(e: Event) -> str:
    return f"{iso(e)}  {e.level:>5} 1 --- [{e.thread[-15:]:>15}] {short(e.logger)[-40:]:<40} : {e.body}"


def per_line(line: Callable[[Event], str], frame: Callable[[Event, str], str]) -> Writer:
    """Each line that an application prints in a frame of its own."""
    return lambda events: "".join(frame(e, part) + "\n" for e in events for part in line(e).split("\n"))


def docker_json(e: Event, part: str) -> str:
    return json.dumps({"log": part + "\n", "stream": "stdout", "time": iso(e, digits=9)})


def docker_parts(events: Sequence[Event]) -> str:
    """Long lines come in parts, of which only the last one has a line feed."""
    out = []
    for e in events:
        for part in kafka_line(e).split("\n"):
            cuts = [part[i : i + 200] for i in range(0, len(part), 200)] or [""]
            cuts[-1] += "\n"
            out += [json.dumps({"log": cut, "stream": "stdout", "time": iso(e, digits=9)}) + "\n" for cut in cuts]
    return "".join(out)


def cri(events: Sequence[Event]) -> str:
    out = []
    for e in events:
        for part in logback_line(e).split("\n"):
            cuts = [part[i : i + 150] for i in range(0, len(part), 150)] or [""]
            out += [
                f"{iso(e, digits=9)} stdout {'F' if i == len(cuts) - 1 else 'P'} {cut}\n" for i, cut in enumerate(cuts)
            ]
    return "".join(out)


def csv_cell(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def exported(events: Sequence[Event]) -> str:
    """Newest first, cells in quotes, messages of several lines."""
    rows = [",".join(map(csv_cell, (iso(e), "host-1", e.level, e.logger, e.body))) for e in reversed(events)]
    return "\n".join(['"@timestamp","host","level","logger","message"', *rows]) + "\n"


def splunk(events: Sequence[Event]) -> str:
    rows = [",".join((csv_cell(berlin(e)), csv_cell(kafka_line(e)), "main")) for e in reversed(events)]
    return "\n".join(["_time,_raw,index", *rows]) + "\n"


def two_programs(events: Sequence[Event]) -> str:
    """Compose's output of a client and of a web server, line by line."""
    out = []
    for i, e in enumerate(events):
        for part in kafka_line(e).split("\n"):
            out.append(f"consumer-1  | {part}\n")
            if i % 3 == 0:
                out.append(f'web-1       | 10.0.0.1 - - [{e.at:%d/%b/%Y:%H:%M:%S} +0000] "GET / HTTP/1.1" 200 {i}\n')
    return "".join(out)


def bunyan(e: Event) -> dict[str, Any]:
    return {"name": "billing", "hostname": "h", "pid": 7, "level": 30, "msg": e.body, "time": iso(e), "v": 0}


def gelf(e: Event) -> dict[str, Any]:
    return {
        "version": "1.1",
        "host": "h",
        "short_message": e.text.split("\n", 1)[0],
        "full_message": e.body,
        "timestamp": e.ts_ms / 1000,
        "level": 6,
        "_thread_name": e.thread,
        "_logger_name": e.logger,
    }


def log4j2(e: Event) -> dict[str, Any]:
    return {
        "instant": {"epochSecond": e.ts_ms // 1000, "nanoOfSecond": e.ts_ms % 1000 * 1_000_000},
        "thread": e.thread,
        "level": e.level,
        "loggerName": e.logger,
        "message": e.text,
        "endOfBatch": False,
        "loggerFqcn": "org.apache.logging.slf4j.Log4jLogger",
        "threadId": 44,
        "threadPriority": 5,
        **({"thrown": {"extendedStackTrace": e.trace}} if e.trace else {}),
    }


JAVA: dict[str, Writer] = {
    "kafka": lines(kafka_line),
    "logback": lines(logback_line),
    "logback date": lines(lambda e: f"{iso(e, ' ', '.', '')} [{e.thread}] {e.level:<5} {short(e.logger)} - {e.body}"),
    "spring": lines(spring_line),
    "log4j2": lines(lambda e: f"{iso(e, ' ', ',', '')} {e.level:<5} {e.logger} [{e.thread}] {e.body}"),
    "log4j date": lines(
        lambda e: f"{e.at:%d %b %Y %H:%M:%S},{e.ts_ms % 1000:03d} {e.level:<5} [{e.thread}] {e.logger} - {e.body}"
    ),
    "quarkus": lines(lambda e: f"{iso(e, ' ', ',', '')} {e.level:<5} [{three(e.logger)}] ({e.thread}) {e.body}"),
    "akka": lines(
        lambda e: f"[{e.level}] [{e.at:%m/%d/%Y %H:%M:%S}.{e.ts_ms % 1000:03d}] [{e.thread}] [{e.logger}] {e.body}"
    ),
    "dropwizard": lines(lambda e: f"{e.level:<5} [{iso(e, ' ', ',', '')}] {e.logger}: {e.body}"),
    "flink": lines(lambda e: f"{iso(e, ' ', ',', '')} {e.level:<5} {e.logger:<60} [] - {e.body}"),
    "spark": lines(lambda e: f"{e.at:%y/%m/%d %H:%M:%S} {e.level} {e.logger.rpartition('.')[2]}: {e.body}"),
    "karaf": lines(
        lambda e: f"{iso(e, zone='')} | {e.level:<5} | {e.thread:<16} | {e.logger:<32} | 17 - b - 1 | {e.body}"
    ),
    "epoch": lines(lambda e: f"{e.ts_ms} {e.level} {e.thread} {e.logger} {e.body}"),
    "no logger": lines(lambda e: f"{iso(e)} [{e.thread}] {e.level} {e.body}"),
    "nothing but time": lines(lambda e: f"{berlin(e)} {e.body}"),
    "line numbers": lines(
        lambda e: f"{iso(e, ' ', '.', '')} {e.level:<5} {e.logger.rpartition('.')[2]}:321 - {e.text} [{e.thread}]"
    ),
    "equal signs": lines(lambda e: f"t={iso(e)} lvl={e.level} thread=({e.thread}) log=<{e.logger}> >> {e.body}"),
    "ansi": lines(
        lambda e: f"\x1b[2m{iso(e)}\x1b[0;39m \x1b[32m{e.level:>5}\x1b[0;39m \x1b[36m{e.logger}\x1b[0;39m : {e.body}"
    ),
    "cr lf": lambda events: "".join(logback_line(e) + "\n" for e in events).replace("\n", "\r\n"),
    "docker json": per_line(kafka_line, docker_json),
    "docker json parts": docker_parts,
    "docker json logback": per_line(logback_line, docker_json),
    "docker json of json": per_line(
        lambda e: json.dumps({"@timestamp": iso(e), "message": e.body, "logger_name": e.logger, "level": e.level}),
        docker_json,
    ),
    "docker logs -t": per_line(logback_line, lambda e, part: f"{iso(e, digits=9)} {part}"),
    "cri": cri,
    "compose": two_programs,
    "stern": per_line(spring_line, lambda _e, part: f"consumer-7d9f8-x2x4z app {part}"),
    "kubectl prefix": per_line(kafka_line, lambda _e, part: f"[pod/consumer-7d9f8-x2x4z/app] {part}"),
    "kubectl prefix timestamps": per_line(
        logback_line, lambda e, part: f"[pod/consumer-7d9f8-x2x4z/app] {iso(e, digits=9)} {part}"
    ),
    "journald short": per_line(
        lambda e: f"{e.level} {e.logger} {e.body}",
        lambda e, part: f"{e.at:%b %d %H:%M:%S} host-1 consumer[812]: {part}",
    ),
    "journald short-iso": per_line(
        kafka_line, lambda e, part: f"{e.at:%Y-%m-%dT%H:%M:%S}+0000 host-1 consumer[812]: {part}"
    ),
    "journald json": objects(
        lambda e: {
            "__REALTIME_TIMESTAMP": str(e.ts_ms * 1000),
            "_HOSTNAME": "h",
            "_PID": "812",
            "PRIORITY": "6",
            "MESSAGE": list(e.body.encode()) if "é" in e.body else e.body,
        }
    ),
    "syslog 5424": per_line(
        lambda e: f"{e.level} {short(e.logger)}: {e.body}",
        lambda e, part: f"<14>1 {iso(e, digits=6)} host-1 consumer 812 - - {part}",
    ),
    "syslog 3164": per_line(logback_line, lambda e, part: f"<14>{e.at:%b %d %H:%M:%S} host-1 consumer[812]: {part}"),
    "heroku": per_line(logback_line, lambda e, part: f"{iso(e, zone='+00:00', digits=6)} app[web.1]: {part}"),
    "logstash": objects(
        lambda e: {
            "@timestamp": berlin(e),
            "@version": "1",
            "message": e.text,
            "logger_name": e.logger,
            "thread_name": e.thread,
            "level": e.level,
            "level_value": 20000,
            **({"stack_trace": e.trace} if e.trace else {}),
        }
    ),
    "filebeat": per_line(
        logback_line,
        lambda e, part: json.dumps(
            {
                "@timestamp": iso(e),
                "host": {"name": "h"},
                "log": {"offset": 5},
                "message": part,
                "input": {"type": "log"},
            }
        ),
    ),
    "elastic export": objects(
        lambda e: {
            "_index": "i",
            "_source": {"ts": e.ts_ms, "msg": e.body, "log": {"logger": e.logger}, "th": e.thread},
        }
    ),
    "gelf": objects(gelf),
    "log4j2 json": objects(log4j2),
    "quarkus json": objects(
        lambda e: {
            "timestamp": iso(e, zone="+01:00") if False else berlin(e),
            "sequence": 4,
            "loggerClassName": "org.slf4j.impl.Slf4jLogger",
            "loggerName": e.logger,
            "level": e.level,
            "message": e.text,
            "threadName": e.thread,
            "mdc": {},
        }
    ),
    "google": objects(
        lambda e: {
            "severity": e.level,
            "timestamp": iso(e, digits=9),
            "jsonPayload": {"message": e.body, "logger": e.logger},
        }
    ),
    "compose of logstash": per_line(
        lambda e: json.dumps({"@timestamp": iso(e), "message": e.body, "logger_name": e.logger}),
        lambda _e, part: f"consumer-1 | {part}",
    ),
    "logfmt": lines(
        lambda e: f"time={iso(e)} level={e.level} logger={e.logger} thread={e.thread} msg={json.dumps(e.body)}"
    ),
    "csv": exported,
    "splunk csv": splunk,
    "json array": lambda events: (
        "[\n" + ",\n".join(json.dumps({"t": e.ts_ms / 1000, "m": e.body}) for e in events) + "\n]\n"
    ),
}
"""For what Kafka's Java programs say."""


def search_hits(events: Sequence[Event], *, threads: bool = True) -> dict[str, Any]:
    """What a search in Elasticsearch answers."""

    def source(e: Event) -> dict[str, Any]:
        thread = {"process": {"thread": {"name": e.thread}}} if threads else {}
        return {"@timestamp": iso(e), "message": e.body, "log": {"level": e.level, "logger": e.logger}} | thread

    hits = [{"_index": "i", "_id": "x", "_source": source(e)} for e in events]
    return {"took": 5, "hits": {"total": {"value": len(events)}, "hits": hits}}


OTHERS: dict[str, Writer] = {
    "klog quoted": lines(lambda e: f'I{e.at:%m%d %H:%M:%S}.{ms(e)}000       1 a.go:7] {json.dumps(e.body)} logger="x"'),
    "java.util.logging in German": lines(lambda e: f"{e.at:%d.%m.%Y %H:%M:%S} {e.logger} log\nINFORMATION: {e.body}"),
    "java.util.logging": lines(lambda e: f"{e.at:%b %d, %Y %I:%M:%S %p} {e.logger} doIt\n{e.level}: {e.body}"),
    "hyphen behind the logger": lines(
        lambda e: f"{e.at:%d-%m-%Y %H:%M:%S}.{ms(e)} [{e.thread}] {e.level:<5} {e.logger}-{e.body}"
    ),
    "dot net": lines(lambda e: f"{iso(e, ' ', '.', ' +00:00')} [INF] ({e.logger}) {e.body}"),
    "log4j xml": lines(
        lambda e: (
            f'<log4j:event logger="{e.logger}" timestamp="{e.ts_ms}" level="{e.level}" thread="{e.thread}">'
            f"<log4j:message><![CDATA[{e.body}]]></log4j:message></log4j:event>"
        )
    ),
    "fluentd": per_line(
        kafka_line,
        lambda e, p: f"{iso(e, zone='+00:00')}\tkube.app\t" + json.dumps({"log": p + "\n", "stream": "stdout"}),
    ),
    "loki": per_line(logback_line, lambda e, p: f'{iso(e)} {{app="consumer", pod="c-1"}} {p}'),
    "loki json": per_line(
        logback_line, lambda e, p: json.dumps({"labels": {"app": "x"}, "line": p, "timestamp": iso(e, digits=9)})
    ),
    "cloudwatch": per_line(logback_line, lambda e, p: f"{iso(e, zone='+00:00', digits=6)} app/consumer/0123abcd {p}"),
    "cloudwatch json": objects(
        lambda e: {"timestamp": e.ts_ms, "ingestionTime": e.ts_ms + 999, "message": logback_line(e), "eventId": "1"}
    ),
    "tab separated": lines(lambda e: "\t".join((iso(e), e.level, e.thread, e.logger, e.body))),
    "pipes": lines(lambda e: "|".join((iso(e, " ", ",", ""), e.level, e.thread, e.logger, e.body))),
    "semicolons": lines(lambda e: ";".join((str(e.ts_ms), e.level, e.thread, e.logger, e.body))),
    "quoted": lines(lambda e: f'{iso(e)} {e.level} "{e.logger}" "{e.thread}" "{e.body}"'),
    "thread behind": lines(lambda e: f"{iso(e, ' ', ',', '')} {e.level} {e.text} [{e.thread}] ({e.logger})"),
    "mdc": lines(
        lambda e: (
            f"{iso(e)} {e.level} [trace={'' if e.ts_ms % 2 else 'abc-12'},span=] [{e.thread}] {e.logger} : {e.body}"
        )
    ),
    "tomcat": lines(
        lambda e: f"{e.at:%d-%b-%Y %H:%M:%S}.{e.ts_ms % 1000:03d} {e.level} [{e.thread}] {e.logger}.run {e.body}"
    ),
    "strimzi": lines(lambda e: f"{iso(e, ' ', ',', '')} {e.level} {e.text} ({e.logger}) [{e.thread}]"),
    "am pm": lines(lambda e: f"{e.at:%m/%d/%Y %I:%M:%S}.{e.ts_ms % 1000:03d} {e.at:%p} {e.level} {e.logger} {e.body}"),
    "pretty json": lambda ev: "".join(
        json.dumps({"time": iso(e), "level": e.level, "logger": e.logger, "message": e.body}, indent=2) + "\n"
        for e in ev
    ),
    "pretty json array": lambda ev: json.dumps(
        [{"time": iso(e), "logger": e.logger, "message": e.body} for e in ev], indent=1
    ),
    "kibana hits": objects(lambda e: {"_source": {"message": [e.body], "@timestamp": [iso(e)], "logger": [e.logger]}}),
    "java.util.logging xml": lambda ev: (
        '<?xml version="1.0" encoding="UTF-8" standalone="no"?>\n<!DOCTYPE log SYSTEM "logger.dtd">\n<log>\n'
        + "".join(
            f"<record>\n  <date>{iso(e, digits=6)}</date>\n  <millis>{e.ts_ms}</millis>\n  <nanos>0</nanos>\n"
            f"  <sequence>1</sequence>\n  <logger>{e.logger}</logger>\n  <level>{e.level}</level>\n"
            f"  <thread>1</thread>\n  <message>{escape(e.body)}</message>\n</record>\n"
            for e in ev
        )
        + "</log>\n"
    ),
    "log4j xml over several lines": lines(
        lambda e: (
            f'<log4j:event logger="{e.logger}" timestamp="{e.ts_ms}" level="{e.level}" thread="{e.thread}">\n'
            f"<log4j:message><![CDATA[{e.body}]]></log4j:message>\n</log4j:event>\n"
        )
    ),
    "log4j2 xml": lines(
        lambda e: (
            f'<Event xmlns="http://logging.apache.org/log4j/2.0/events" timeMillis="{e.ts_ms}" thread="{e.thread}"'
            f' level="{e.level}" loggerName="{e.logger}" endOfBatch="true" threadId="1">\n'
            f'  <Instant epochSecond="{e.ts_ms // 1000}" nanoOfSecond="{e.ts_ms % 1000}000000"/>\n'
            f"  <Message>{escape(e.body)}</Message>\n</Event>\n"
        )
    ),
    "json strings": lines(lambda e: json.dumps(logback_line(e))),
    "json array of strings": lambda ev: json.dumps([logback_line(e) for e in ev], indent=1),
    "cef": lines(
        lambda e: f"<134>{e.at:%b %d %H:%M:%S} host CEF:0|acme|app|1|x|y|3|rt={e.ts_ms} cat={e.logger} msg={e.body}"
    ),
    "time before each line": per_line(lambda e: e.body, lambda e, p: f"{iso(e, digits=9)} {p}"),
    "fly": per_line(lambda e: e.body, lambda e, p: f"{iso(e)} app[148e21] ams [info]{p}"),
    "cloud foundry": per_line(lambda e: e.body, lambda e, p: f"   {iso(e, zone='+0000')} [APP/PROC/WEB/0] OUT {p}"),
    "journald of messages": per_line(
        lambda e: e.body, lambda e, p: f"{iso(e, zone='+00:00', digits=6)} host-1 consumer[812]: {p}"
    ),
    "ts": per_line(lambda e: e.body, lambda e, p: f"{e.ts_ms // 1000}.{ms(e)}000 {p}"),
    "csv of lines": lambda ev: (
        "timestamp,message\n" + "".join(f"{e.ts_ms},{csv_cell(p)}\n" for e in ev for p in e.body.split("\n"))
    ),
    "dataflow": objects(
        lambda e: {
            "timestamp": {"seconds": e.ts_ms // 1000, "nanos": e.ts_ms % 1000 * 1_000_000},
            "message": e.body,
            "logger": e.logger,
        }
    ),
    "spring on google": objects(
        lambda e: {
            "logger": e.logger,
            "message": e.body,
            "timestampNanos": e.ts_ms % 1000 * 1_000_000,
            "timestampSeconds": e.ts_ms // 1000,
        }
    ),
    "fern": lines(lambda e: f"[{e.at:%Y-%m-%d}][{e.at:%H:%M:%S}][{e.logger}][{e.level}] {e.body}"),
    "time before date": lines(lambda e: f"{e.at:%H:%M:%S}.{ms(e)} {e.at:%d/%m/%y} {e.level} {e.logger} - {e.body}"),
    "ordinal date": lines(lambda e: f"{e.at:%Y-%j %H:%M:%S}.{ms(e)} {e.level} [{e.thread}] {e.logger} - {e.body}"),
    "chinese date": lines(lambda e: f"{e.at:%Y年%m月%d日 %H:%M:%S}.{ms(e)} {e.level} {e.logger} - {e.body}"),
    "french date": lines(lambda e: f"{e.at:%d} nov. {e.at:%Y %H:%M:%S},{ms(e)} {e.level} {e.logger} - {e.body}"),
    "winston simple": lines(lambda e: f"info: {e.body} " + json.dumps({"label": "kafka", "timestamp": iso(e)})),
    "groups of digits": lines(lambda e: f"{e.ts_ms:,} {e.level} [{e.thread}] {e.logger} - {e.body}"),
    "start of a job": lines(
        lambda e: f"{iso(e)} {e.level} [{e.thread}] [start=2026-11-20 00:00:00] {e.logger} - {e.body}"
    ),
    "start of a pod": objects(
        lambda e: {"timestamp": "2026-11-20T00:00:00Z", "msg": e.body, "at": e.ts_ms / 1000, "logger": e.logger}
    ),
    "test containers": per_line(
        kafka_line,
        lambda e, p: f"{berlin(e)}  INFO 62 --- [orders] [ream--441944745] c.c.KafkaContainer : STDOUT: {p}",
    ),
    "numbers of a page": lambda ev: "".join(
        f"{i}{part}\n" for i, part in enumerate((p for e in ev for p in kafka_line(e).split("\n")), 1446)
    ),
    "brackets": lines(lambda e: f"[{iso(e)}][{e.level}][{e.thread}][{e.logger}] {e.body}"),
    "no space": lines(lambda e: f"[{iso(e)}][{e.level}][{e.logger}]{e.body}"),
    "milliseconds without zeros": lines(
        lambda e: f"{iso(e, ' ', '', '', 0)}.{e.ts_ms % 1000} {e.level} [{e.thread}] {e.logger} - {e.body}"
    ),
    "logger behind": lines(
        lambda e: (
            f"{iso(e, ' ', ',', '')} {{user=, id={e.ts_ms * 7919:x}}} {e.level:<5} - {e.text} - [{e.thread}]"
            f" {short(e.logger)}" + (f"\n{e.trace}" if e.trace else "")
        )
    ),
    "open telemetry": lines(
        lambda e: (
            f"{iso(e)} {e.level} '{e.body}' : {e.ts_ms * 7919:032x} {e.ts_ms:016x} [scopeInfo: {e.logger}:] "
            f'{{thread.name="{e.thread}"}}'
        )
    ),
    "place behind a comma": lines(lambda e: f"{iso(e)} {e.level} {e.text}, Consumer.java:{len(e.text) % 900 + 1}"),
    "duration behind": lines(lambda e: f"{iso(e)} {e.text} [took {e.ts_ms % 97} ms]"),
    "datadog csv": lambda ev: (
        "Date,Host,Service,Message\n" + "".join(",".join(map(csv_cell, (iso(e), "h", "s", e.body))) + "\n" for e in ev)
    ),
}
"""More of them, with one recording each."""


def node_text(text: str) -> str:
    """As Node's console quotes a text."""
    quote = next((quote for quote in "'\"`" if quote not in text), "'")
    inner = text.replace("\\", "\\\\").replace("\n", "\\n").replace("'", "'" if quote != "'" else "\\'")
    return f"{quote}{inner}{quote}"


def node_object(e: Event) -> str:
    """An event of node-rdkafka as the console prints it, long texts in parts."""
    facility, _, rest = e.text.partition(" ")
    name, _, text = rest[1:].partition("] ")
    parts = " +\n    ".join(node_text(text[i : i + 100]) for i in range(0, len(text), 100))
    fields = f"severity: 7,\n  fac: '{facility}',\n  name: {node_text(name)},\n  time: {iso(e)}"
    return f"{{\n  {fields},\n  message: {parts}\n}}"


def in_column(text: str, width: int) -> list[str]:
    """Wrapped between words; one that is longer than the column begins on a line of its own, and is cut."""
    out = [""]
    for word in text.split():
        if len(f"{out[-1]} {word}".strip()) <= width:
            out[-1] = f"{out[-1]} {word}".strip()
        else:
            out += [word[i : i + width] for i in range(0, len(word), width)]
    return out


def rich(events: Sequence[Event]) -> str:
    """A table without lines: only the first entry of a second has a time."""
    out, above = "", ""
    for i, e in enumerate(events):
        first, *more = in_column(e.text, 60)
        stamp = f"[{e.at:%m/%d/%y %H:%M:%S}]"
        out += f"{stamp if stamp != above else '':<19} {e.level:<8} {first:<60} client.py:{i % 90}\n"
        out += "".join(f"{'':<29}{part:<60}{'':<13}\n" for part in more)
        above = stamp
    return out


PLAIN: dict[str, Writer] = {
    "rich": rich,
    "node console": lambda events: "Server is up\n" + lines(node_object)(events),
    "python dictionaries": lines(lambda e: repr({"at": iso(e), "line": e.body, "stack": None, "new": True})),
    "node console line": lines(
        lambda e: f"{iso(e)} kafka {{ level: 7, message: {node_text(e.body)}, more: [Object] }}"
    ),
    "python": lines(lambda e: f"{iso(e, ' ', ',', '')} - rdkafka - {e.level} - {e.body}"),
    "python basic": lines(lambda e: f"{e.level}:rdkafka:{e.body}"),
    "ruby": lines(lambda e: f"D, [{iso(e, zone='', digits=6)} #4711] DEBUG -- rdkafka: {e.body}"),
    "rust": lines(lambda e: f"[{iso(e)} DEBUG rdkafka::client] librdkafka: {e.body}"),
    "tracing": lines(lambda e: f"{iso(e, digits=6)} DEBUG rdkafka::client: librdkafka: {e.body}"),
    "tracing json": objects(
        lambda e: {
            "timestamp": iso(e, digits=6),
            "level": "DEBUG",
            "fields": {"message": f"librdkafka: {e.body}", "log.target": "librdkafka"},
            "target": "log",
        }
    ),
    "go": lines(lambda e: f"{e.at:%Y/%m/%d %H:%M:%S}.{e.ts_ms % 1000:03d}000 rdkafka.go:17: {e.body}"),
    "zap": objects(lambda e: {"level": "debug", "ts": e.ts_ms / 1000, "caller": "a/b.go:7", "msg": e.body}),
    "zap console": lines(lambda e: f'{iso(e, zone="+0000")}\tDEBUG\ta/b.go:7\t{e.body}\t{{"app": "billing"}}'),
    "slog": lines(lambda e: f"time={iso(e)} level=DEBUG msg={json.dumps(e.body)} app=billing"),
    "serilog": lines(lambda e: f"[{e.at:%H:%M:%S} DBG] {e.body}"),
    "nlog": lines(lambda e: f"{iso(e, ' ', '.', '', 4)}|DEBUG|Confluent.Kafka|{e.body}"),
    "node": lines(lambda e: json.dumps({"level": 20, "time": e.ts_ms, "pid": 1, "hostname": "h", "msg": e.body})),
    "winston": lines(lambda e: f"{iso(e)} [debug]: {e.body}"),
    "markdown table": lines(lambda e: f"| {iso(e)} | {e.level} | {e.body} |"),
    "ends of objects": lines(lambda e: f"{iso(e)} {json.dumps(e.body)}}}    "),
}
"""For what any client says."""


def ms(e: Event) -> str:
    return f"{e.ts_ms % 1000:03d}"


def maybe_quoted(text: str) -> str:
    return csv_cell(text) if any(c in text for c in ',"\n') else text


def octets(e: Event, part: str) -> str:
    """A line of syslog behind the number of its characters."""
    line = f"<190>1 {iso(e, zone='+00:00', digits=6)} host app web.1 - {part}"
    return f"{len(line)} {line}"


TOOLS: dict[str, Writer] = {
    "logcli raw": per_line(logback_line, lambda e, p: f"{berlin(e)} {{}} {p}"),
    "grafana export json": lambda events: json.dumps(
        [
            {"line": p, "timestamp": str(e.ts_ms * 1000000), "date": iso(e), "fields": {"app": "x", "pod": "c1"}}
            for e in events
            for p in logback_line(e).split("\n")
        ]
    ),
    "grafana export csv": lambda events: (
        "Date,ts,Time,Line\n"
        + "".join(
            ",".join((iso(e), str(e.ts_ms), f"{e.at:%Y-%m-%d %H:%M:%S}.{ms(e)}", csv_cell(p))) + "\n"
            for e in events
            for p in [logback_line(e)]
        )
    ),
    "loki query": lambda events: json.dumps(
        {
            "status": "success",
            "data": {
                "resultType": "streams",
                "result": [
                    {
                        "stream": {"app": "x"},
                        "values": [[str(e.ts_ms * 1000000), logback_line(e)] for e in reversed(events)],
                    }
                ],
            },
        }
    ),
    "cloudwatch csv": lambda events: (
        "timestamp,message\n" + "".join(f"{e.ts_ms},{maybe_quoted(logback_line(e))}\n" for e in events)
    ),
    "cloudwatch insights csv": lambda events: (
        "@timestamp,@message,@logStream\n"
        + "".join(f"{e.at:%Y-%m-%d %H:%M:%S}.{ms(e)},{csv_cell(kafka_line(e))},app/c/1\n" for e in reversed(events))
    ),
    "aws logs tail": per_line(
        kafka_line, lambda e, p: f"{iso(e, zone='+00:00', digits=6)} ecs/app/0a1b2c3d4e5f60718293a4b5c6d7e8f9 {p}"
    ),
    "aws get-log-events": lambda events: json.dumps(
        {
            "events": [
                {"timestamp": e.ts_ms, "message": logback_line(e), "ingestionTime": e.ts_ms + 900} for e in events
            ],
            "nextForwardToken": "f/1",
        },
        indent=4,
    ),
    "gcp export array": lambda events: json.dumps(
        [
            {
                "insertId": "a1",
                "jsonPayload": {"message": e.body, "logger": e.logger, "thread": e.thread},
                "resource": {"type": "k8s_container", "labels": {"pod_name": "c-1", "cluster_name": "x"}},
                "timestamp": iso(e, digits=9),
                "severity": e.level,
                "labels": {"k": "v"},
                "logName": "projects/p/logs/stdout",
                "receiveTimestamp": iso(e._replace(ts_ms=e.ts_ms + 1500), digits=9),
            }
            for e in reversed(events)
        ],
        indent=2,
    ),
    "azure csv": lambda events: (
        "TimeGenerated [UTC],Computer,ContainerName,LogEntry,LogEntrySource\n"
        + "".join(
            f'"{e.at:%m/%d/%Y, %I:%M:%S}.{ms(e)} {e.at:%p}",aks-1,app,{csv_cell(logback_line(e))},stdout\n'
            for e in events
        )
    ),
    "splunk json export": objects(
        lambda e: {
            "preview": False,
            "offset": 1,
            "result": {
                "_time": berlin(e),
                "_raw": kafka_line(e),
                "host": "h",
                "index": "main",
                "source": "/var/log/a.log",
                "sourcetype": "log4j",
            },
        }
    ),
    "elastic search hits": lambda events: json.dumps(search_hits(events)),
    "elastic search pretty": lambda events: json.dumps(search_hits(events, threads=False), indent=2),
    "kibana csv": lambda events: (
        '"@timestamp","log.level","log.logger",message\n'
        + "".join(
            f'"{e.at:%b} {e.at.day}, {e.at.year} @ {e.at:%H:%M:%S}.{ms(e)}",{e.level},"{e.logger}",{csv_cell(e.body)}\n'
            for e in reversed(events)
        )
    ),
    "datadog json": objects(
        lambda e: {
            "id": "A1",
            "content": {
                "timestamp": iso(e),
                "tags": ["a:b"],
                "host": "h",
                "service": "s",
                "message": e.body,
                "attributes": {"level": e.level, "logger": {"name": e.logger, "thread_name": e.thread}},
            },
        }
    ),
    "fluentd tag json": lines(
        lambda e: (
            f"{e.at:%Y-%m-%d %H:%M:%S}.{ms(e)}000000 +0000 app.consumer: "
            + json.dumps({"log": kafka_line(e), "container_name": "/c"})
        )
    ),
    "vector": objects(
        lambda e: {
            "file": "/var/log/pods/x/0.log",
            "host": "h",
            "kubernetes": {"pod_name": "c", "container_name": "a"},
            "message": kafka_line(e),
            "source_type": "kubernetes_logs",
            "stream": "stdout",
            "timestamp": iso(e, digits=9),
        }
    ),
    "logplex": per_line(logback_line, octets),
    "papertrail": per_line(kafka_line, lambda e, p: f"{e.at:%b %d %H:%M:%S} app-1 consumer/worker.1: {p}"),
    "papertrail tsv": per_line(
        kafka_line,
        lambda e, p: (
            f"7711561783320576\t{iso(e, digits=0)}\t{iso(e, digits=0)}\t1\tapp-1\t10.0.0.1\tUser\tInfo\tconsumer\t{p}"
        ),
    ),
    "journald short-full": per_line(kafka_line, lambda e, p: f"{e.at:%a %Y-%m-%d %H:%M:%S} UTC host-1 java[812]: {p}"),
    "journald short-unix": per_line(kafka_line, lambda e, p: f"{e.ts_ms / 1000:.6f} host-1 java[812]: {p}"),
    "journald export": lambda events: "".join(
        f"__CURSOR=s=a;i={i}\n__REALTIME_TIMESTAMP={e.ts_ms * 1000}\n"
        f"__MONOTONIC_TIMESTAMP=1\n_HOSTNAME=h\nPRIORITY=6\n_PID=812\nMESSAGE={p}\n\n"
        for i, e in enumerate(events)
        for p in kafka_line(e).split("\n")
    ),
    "journald verbose": lambda events: "".join(
        f"{e.at:%a %Y-%m-%d %H:%M:%S}.{ms(e)}000 UTC [s=a;i={i}]\n    _HOSTNAME=h\n    _PID=812\n    MESSAGE={p}\n"
        for i, e in enumerate(events)
        for p in kafka_line(e).split("\n")
    ),
    "rfc5424 sd": per_line(
        logback_line,
        lambda e, p: (
            f'<134>1 {iso(e, digits=3)} host-1 consumer 812 ID47 [origin@32473 iut="3" source="App"][meta seq="1"] {p}'
        ),
    ),
    "rsyslog #011": lines(
        lambda e: f"{iso(e, zone='+00:00', digits=6)} host-1 consumer[812]: {logback_line(e)}".replace(
            "\n", "#012"
        ).replace("\t", "#011")
    ),
    "windows event csv": lambda events: (
        "Level,Date and Time,Source,Event ID,Task Category,Message\n"
        + "".join(
            f"Information,{e.at:%m/%d/%Y %I:%M:%S} {e.at:%p},App,0,None,{csv_cell(kafka_line(e))}\n" for e in events
        )
    ),
    "serilog compact": objects(
        lambda e: {
            "@t": iso(e, digits=7),
            "@mt": "{Message}",
            "@m": e.body,
            "@l": "Information",
            "SourceContext": e.logger,
            "ThreadId": 7,
        }
    ),
    "nlog all": lines(lambda e: f"{e.at:%Y-%m-%d %H:%M:%S}.{ms(e)}0|7|INFO|{e.logger}|{e.body} |url: |action: "),
    "log4net": lines(
        lambda e: f"{iso(e, ' ', ',', '')} [{e.thread}] {e.level:<5} {e.logger} [(null)] <(null)> - {e.body}"
    ),
    "dotnet": lines(lambda e: f"{e.level.lower()}: {e.logger}[0]\n{indent(e.body, ' ' * 6)}"),
    "class and method behind": lines(lambda e: f"[{iso(e, ' ', '.', '')}] [{e.level}] {e.body} [{e.logger} run]"),
    "html page": lines(lambda e: escape(logback_line(e))),
    "quoted mail": per_line(logback_line, lambda _, p: f"> {p}"),
    "quoted mail of columns": per_line(
        lambda e: f"<{iso(e)}> <{e.level}> <{e.logger}> <{e.body}>", lambda _, p: f"> {p}"
    ),
    "numbered lines": per_line(logback_line, lambda e, p: f"  {e.ts_ms % 10_000}\t{p}"),
    "columns of pipes": lines(lambda e: f"|{iso(e, ' ', ',', '')}|{e.level}|{e.thread}|{e.logger}|{e.body}|"),
    "dotnet simple": lines(lambda e: f"{iso(e, ' ', '.', '')} info: {e.logger}[0] {e.body}"),
    "dotnet json": objects(
        lambda e: {
            "Timestamp": iso(e),
            "EventId": 0,
            "LogLevel": "Information",
            "Category": e.logger,
            "Message": e.body,
            "State": {"Message": e.body, "{OriginalFormat}": "{x}"},
        }
    ),
    "monolog": lines(lambda e: f'[{iso(e, zone="+00:00", digits=6)}] app.INFO: {e.body} {{"x":1}} []'),
    "pino pretty": lines(lambda e: f"[{e.at:%H:%M:%S}.{ms(e)}] \x1b[32mINFO\x1b[39m (1): \x1b[36m{e.body}\x1b[39m"),
    "zerolog console": lines(
        lambda e: f"\x1b[90m{e.at:%I:%M:%S}{e.at:%p}\x1b[0m \x1b[32mINF\x1b[0m {e.body} \x1b[36mmodule=\x1b[0mx"
    ),
    "logrus": lines(lambda e: f'time="{iso(e, digits=0)}" level=info msg={json.dumps(e.body)} app=billing'),
    "slog json": objects(
        lambda e: {
            "time": iso(e, digits=9),
            "level": "INFO",
            "source": {"function": "main.f", "file": "/a.go", "line": 7},
            "msg": e.body,
        }
    ),
    "tracing": lines(
        lambda e: (
            "\x1b[2m" + iso(e, digits=6) + "\x1b[0m \x1b[32m INFO\x1b[0m \x1b[1mconsume\x1b[0m\x1b[1m{\x1b[0m"
            '\x1b[3mtopic\x1b[0m\x1b[2m=\x1b[0m"t"\x1b[1m}\x1b[0m\x1b[2m:\x1b[0m \x1b[2mapp::x\x1b[0m\x1b[2m:\x1b[0m '
            + e.body
        )
    ),
    "rails tagged": lines(lambda e: f"I, [{iso(e, zone='', digits=6)} #812]  INFO -- : [3f1c-77] [web] {e.body}"),
    "airflow": lines(lambda e: f"[{iso(e, zone='+0000', digits=3)}] {{base.py:73}} INFO - {e.body}"),
    "yarn": lambda events: (
        "Container: container_1_2_3 on h_45454\nLogAggregationType: AGGREGATED\n"
        "==================\nLogType:stderr\nLogLength:100\nLog Contents:\n"
        + lines(lambda e: f"{e.at:%y/%m/%d %H:%M:%S} {e.level} {e.logger.rpartition('.')[2]}: {e.body}")(events)
        + "\nEnd of LogType:stderr\n"
    ),
    "helidon": lines(
        lambda e: f"{e.at:%Y.%m.%d %H:%M:%S}.{ms(e)} {e.level} {e.logger} Thread[#{7},{e.thread},5,main]: {e.body}"
    ),
    "wildfly": lines(lambda e: f"{e.at:%H:%M:%S},{ms(e)} {e.level:<5} [{e.logger}] ({e.thread}) {e.body}"),
    "weblogic": lines(
        lambda e: (
            f"<{e.at:%b} {e.at.day}, {e.at.year}, {e.at:%I:%M:%S},{ms(e)} {e.at:%p} UTC> <Info> <{e.logger}> <host> "
            f"<AdminServer> <[ACTIVE] ExecuteThread: '1' for queue: 'x'> <<anonymous>> <> <> "
            f"<{e.ts_ms}> <BEA-000000> <{e.body}> "
        )
    ),
    "websphere": lines(
        lambda e: (
            f"[{e.at.month}/{e.at.day}/{e.at:%y} {e.at.hour}:{e.at:%M:%S}:{ms(e)} UTC] 00000073 "
            f"{e.logger.rpartition('.')[2][:13]:<13} I   {e.body}"
        )
    ),
    "glassfish": lines(
        lambda e: (
            f"[{iso(e, zone='+0000')}] [Payara 5.2] [{e.level}] [] [{e.logger}] "
            f"[tid: _ThreadID=44 _ThreadName={e.thread}] [timeMillis: {e.ts_ms}] [levelValue: 800] [[\n  {e.body}]]\n"
        )
    ),
    "play": lines(
        lambda e: f"{iso(e, ' ', '.', '')} [{e.level.lower()}] {e.logger.rpartition('.')[2]} in {e.thread} - {e.body}"
    ),
    "vertx": lines(
        lambda e: f"{iso(e, ' ', ',', '')} {e.level} [{e.thread}] {e.logger.rpartition('.')[2]}:77 - {e.body}"
    ),
    "structlog console": lines(lambda e: f"{iso(e, digits=6)} [info     ] {e.body:<30} [{e.logger}] app=x"),
    "loguru": lines(lambda e: f"{iso(e, ' ', '.', '')} | {e.level:<8} | {e.logger}:run:77 - {e.body}"),
    "celery": lines(lambda e: f"[{iso(e, ' ', ',', '')}: {e.level}/MainProcess] {e.body}"),
    "uk date": lines(lambda e: f"{e.at:%d/%m/%Y %H:%M:%S}.{ms(e)} {e.level} {e.logger} {e.body}"),
    "compose v2 ts": per_line(logback_line, lambda e, p: f"consumer-1  | {iso(e, digits=9)} {p}"),
    "openshift": per_line(
        kafka_line,
        lambda e, p: json.dumps(
            {
                "@timestamp": iso(e, digits=6, zone="+00:00"),
                "message": p,
                "level": "info",
                "hostname": "n",
                "kubernetes": {"container_name": "a", "namespace_name": "x", "pod_name": "c-1"},
                "log_type": "application",
            }
        ),
    ),
    "sumo csv": lambda events: (
        '"_messagetime","_raw","_sourcehost"\n'
        + "".join(f'"{e.ts_ms}",{csv_cell(kafka_line(e))},"h"\n' for e in events)
    ),
    "otel": objects(
        lambda e: {
            "resourceLogs": [
                {
                    "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "x"}}]},
                    "scopeLogs": [
                        {
                            "scope": {"name": e.logger},
                            "logRecords": [
                                {
                                    "timeUnixNano": str(e.ts_ms * 1000000),
                                    "severityText": e.level,
                                    "body": {"stringValue": e.body},
                                }
                            ],
                        }
                    ],
                }
            ]
        }
    ),
    "github actions": per_line(kafka_line, lambda e, p: f"consumer\tRun tests\t{iso(e, digits=7)} {p}"),
    "gitlab ci": per_line(kafka_line, lambda e, p: f"{iso(e, digits=6)} 01O {p}"),
    "date in its own brackets": lines(
        lambda e: f"[{e.at:%Y-%m-%d}] [{e.at:%H:%M:%S}.{ms(e)}] [{e.level}] [{e.logger}] {e.body}"
    ),
    "offset named": lines(lambda e: f"{e.at:%Y-%m-%d %H:%M:%S}.{ms(e)} UTC {e.level} {e.logger} {e.body}"),
    "php": lines(lambda e: f"[{e.at:%d-%b-%Y %H:%M:%S} UTC] {e.body}"),
    "rubydebug": lines(
        lambda e: (
            f'{{\n       "message" => {json.dumps(logback_line(e))},\n    "@timestamp" => {iso(e)},\n'
            '          "tags" => [\n        [0] "beats"\n    ],\n         "event" => nil\n}'
        )
    ),
}
"""As exports, collectors, servers and loggers of several languages write."""
