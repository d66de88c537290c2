"""Pods of one deployment whose clients have the same id, in one stream: a collector names the pod beside each line."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import memory
import pytest
import recordings
from followed import Live, cut, found_at_once
from transform import entries, when_ms

from fsm.audit import audit_files
from fsm.audit.findings import FindingKind, Severity
from fsm.cli import main

CLIENT_ID = re.compile(rb"(?<=clientId=)[^,\]\s]+|(?<=client\.id = )\S+|(?<=[|\[])\w+(?=#consumer-\d)")
PODS = ("orders-5d8f7c9b6d-x2k4z", "orders-5d8f7c9b6d-q8hjm", "orders-5d8f7c9b6d-7tw2p", "orders-5d8f7c9b6d-bbc9d")


class Line(NamedTuple):
    ts_ms: int
    pod: str
    text: str

    @property
    def iso(self) -> str:
        return f"{datetime.fromtimestamp(self.ts_ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}.{self.ts_ms % 1000:03}000000Z"

    @property
    def syslog(self) -> str:
        return f"{datetime.fromtimestamp(self.ts_ms // 1000, UTC):%b %d %H:%M:%S}"


def each(line: Callable[[Line], str]) -> Callable[[list[Line]], str]:
    return lambda given: "".join(line(one) + "\n" for one in given)


def loki(given: list[Line]) -> str:
    """The newest lines first, stream by stream."""
    streams: dict[str, list[list[str]]] = {}
    for one in reversed(given):
        streams.setdefault(one.pod, []).append([f"{one.ts_ms}000000", one.text])
    result = [{"stream": {"app": "orders", "pod": pod}, "values": values} for pod, values in streams.items()]
    return json.dumps({"status": "success", "data": {"resultType": "streams", "result": result}})


WRITERS: dict[str, Callable[[list[Line]], str]] = {
    "json": each(lambda e: json.dumps({"@timestamp": e.iso, "kubernetes": {"pod": {"name": e.pod}}, "log": e.text})),
    "loki": loki,
    "stern": each(lambda e: f"{e.pod} orders {e.text}"),
    "kubectl": each(lambda e: f"[pod/{e.pod}/orders] {e.text}"),
    "compose": each(lambda e: f"orders-{PODS.index(e.pod) + 1}  | {e.text}"),
    "grep": each(lambda e: f"logs/{e.pod}.log:{e.text}"),
    "journald": each(
        lambda e: json.dumps(
            {
                "__REALTIME_TIMESTAMP": f"{e.ts_ms}000",
                "_HOSTNAME": "node-1",
                "_PID": str(4000 + PODS.index(e.pod)),
                "SYSLOG_IDENTIFIER": "orders",
                "MESSAGE": e.text,
            }
        )
    ),
    "logcli": each(lambda e: f'{e.iso[:19]}Z {{app="orders", pod="{e.pod}", stream="stderr"}} {e.text}'),
    "syslog": each(lambda e: f"<14>{e.syslog} {e.pod} orders[1]: {e.text}"),
}


def csv_table(given: list[Line]) -> str:
    rows = ['"@timestamp","kubernetes.pod.name","message"']
    rows += [f'"{e.iso}","{e.pod}","' + e.text.replace('"', '""') + '"' for e in given]
    return "\n".join(rows) + "\n"


def otlp(e: Line) -> str:
    name = {"key": "k8s.pod.name", "value": {"stringValue": e.pod}}
    record = {"timeUnixNano": f"{e.ts_ms}000000", "body": {"stringValue": e.text}}
    scope = {"logRecords": [record]}
    return json.dumps({"resourceLogs": [{"resource": {"attributes": [name]}, "scopeLogs": [scope]}]})


def csv_cells(*cells: str) -> str:
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells) + "\n"


def titled(title: str) -> Callable[[list[Line]], str]:
    """A title above what is from another pod than the line before."""

    def write(given: list[Line]) -> str:
        out: list[str] = []
        for before, one in pairwise([Line(0, "", ""), *given]):
            out += [title.format(one.pod)] if before.pod != one.pod else []
            out.append(one.text + "\n")
        return "".join(out).lstrip("\n")

    return write


MORE: dict[str, Callable[[list[Line]], str]] = {
    "csv": csv_table,
    "otlp": each(otlp),
    "tags": each(lambda e: json.dumps({"date": e.iso, "tags": ["env:prod", f"pod_name:{e.pod}"], "message": e.text})),
    "gcp": each(
        lambda e: json.dumps({"resource": {"labels": {"pod_name": e.pod}}, "timestamp": e.iso, "textPayload": e.text})
    ),
    "a file and a tab": each(lambda e: f"{e.pod}.log\t{e.text}"),
    "swarm": each(lambda e: f"{e.iso} orders.{PODS.index(e.pod)}.{e.pod[-5:] * 5}@node-1    | {e.text[24:]}"),
    "datadog": lambda given: (
        csv_cells("Date", "Host", "Pod Name", "Message")
        + "".join(csv_cells(e.iso, "node-1", e.pod, e.text) for e in given)
    ),
    "gcp csv": lambda given: (
        'labels."k8s-pod/app",resource.labels.pod_name,textPayload\n'
        + "".join(csv_cells("orders", e.pod, e.text) for e in given)
    ),
    "grafana csv": lambda given: (
        csv_cells("labels", "Time", "Line")
        + "".join(csv_cells(json.dumps({"app": "orders", "pod": e.pod}), e.iso, e.text) for e in given)
    ),
    "graylog csv": lambda given: (
        csv_cells("timestamp", "source", "message") + "".join(csv_cells(e.iso, e.pod, e.text) for e in given)
    ),
    "dyno": each(lambda e: json.dumps({"dyno": f"worker.{PODS.index(e.pod)}", "ts": e.iso, "message": e.text})),
    "rfc 5424": each(lambda e: f"<134>1 {e.iso[:23]}Z {e.pod} orders 1 - - {e.text}"),
    "time first": each(lambda e: f"{e.iso} {e.pod} orders {e.text}"),
    "pssh": each(lambda e: f"[{e.pod}] {e.text}"),
    "gelf": each(lambda e: json.dumps({"host": e.pod, "short_message": e.text, "timestamp": e.ts_ms / 1000})),
    "heroku": each(lambda e: f"{e.iso[:26]}+00:00 app[worker.{PODS.index(e.pod)}]: {e.text}"),
    "foreman": each(lambda e: f"{e.iso[11:19]} orders.{PODS.index(e.pod)} | {e.iso[:23]} {e.text}"),
}
ELSEWHERE: dict[str, Callable[[list[Line]], str]] = {
    "kail": each(lambda e: f"default/{e.pod}[orders]: {e.text}"),
    "pm2": each(lambda e: f"{PODS.index(e.pod)}|orders   | {e.text}"),
    "behind an object": each(lambda e: json.dumps({"t": e.iso, "message": e.text}) + f" from {e.pod}"),
}
"""Layouts with the name in a place of their own."""
"""Layouts in which one recording is read."""


def turn(write: Callable[[list[Line]], str]) -> Callable[[list[Line]], str]:
    """The newest lines first, those of an entry, too."""
    return lambda given: write(given[::-1])


def sort(write: Callable[[list[Line]], str]) -> Callable[[list[Line]], str]:
    """The newest lines first, those of one millisecond in their order."""
    return lambda given: write(sorted(given, key=lambda line: -line.ts_ms))


NEWEST_FIRST = {
    "json": turn(WRITERS["json"]),
    "logcli": turn(WRITERS["logcli"]),
    "csv": turn(MORE["csv"]),
    "json in their order": sort(WRITERS["json"]),
}


UNCERTAIN: dict[str, Callable[[list[Line]], str]] = {
    "gelf": each(
        lambda e: json.dumps(
            {"host": f"node-{PODS.index(e.pod)}", "short_message": e.text, "timestamp": e.ts_ms / 1000}
        )
    ),
    "pids": each(lambda e: f"{e.syslog} node-1 orders[{4000 + PODS.index(e.pod)}]: {e.text}"),
    "statefulset": each(lambda e: f"orders-{PODS.index(e.pod)} orders {e.text}"),
    "stream of a task": each(lambda e: f"{e.iso[:26]}+00:00 orders/app/{PODS.index(e.pod)}f0e1d2c3b4a5968 {e.text}"),
    "id of a container": each(lambda e: f"{PODS.index(e.pod)}f0e1d2c3b4a {e.text}"),
}
"""Layouts in which a host, a process id or a word may be that of the process or something else."""


def alike(logs: Mapping[str, bytes]) -> dict[str, bytes]:
    """The logs of clients that all have one id."""
    return {
        f"{pod}.log": CLIENT_ID.sub(b"consumer-orders-1", log)
        for pod, (_, log) in zip(PODS, sorted(logs.items()), strict=False)
    }


def put_in_one_stream(logs: Mapping[str, bytes]) -> list[Line]:
    """The lines of all logs by time."""
    every: list[Line] = []
    for file, log in sorted(logs.items()):
        at_ms = 0
        for entry in entries(log):
            at_ms = when_ms(entry) or at_ms
            every += [Line(at_ms, file.removesuffix(".log"), text) for text in entry.decode().split("\n")]
    return sorted(every, key=lambda line: line.ts_ms)


def judge(files: Mapping[str, bytes]) -> tuple[Counter[tuple[object, ...]], int, int]:
    """What was found, without the names of members; how many members and records there are."""
    audit = memory.audit(files)
    found = Counter((one.kind, one.severity, one.start_ms, one.end_ms, one.partitions) for one in audit.findings)
    return found, len({key.member for key in audit.members.values()}), len(audit.seen)


def check(logs: Mapping[str, bytes], writers: Mapping[str, Callable[[list[Line]], str]] = WRITERS) -> None:
    """That all writers' streams are judged like the files."""
    same = alike(logs)
    expected, lines = judge(same), put_in_one_stream(same)
    found = {how: judge({"all.log": write(lines).encode()}) for how, write in writers.items()}
    assert found == dict.fromkeys(writers, expected)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("java", "i_j07_maxpoll"),
        pytest.param("librdkafka", "c02_two", marks=pytest.mark.deep),
        pytest.param("client", "aiokafka.sigstop", marks=pytest.mark.deep),
    ],
)
def test_pods_in_one_stream_are_judged_as_if_each_had_a_file(kind: str, name: str) -> None:
    check(recordings.logs(kind)[name])


@pytest.mark.parametrize("name", [pytest.param("aiokafka.sigstop", marks=pytest.mark.deep), "aiokafka.bounce"])
def test_so_are_they_in_other_layouts(name: str) -> None:
    """Also if the ids of members, which each of them prints only when it joins, confirm no name."""
    check(recordings.logs("client")[name], MORE)


@pytest.mark.parametrize(
    "part", [pytest.param(0, marks=pytest.mark.deep), *(pytest.param(i, marks=pytest.mark.slow) for i in (1, 2))]
)
@pytest.mark.parametrize("kind", ["java", "librdkafka", "old", "weak-spot"])
def test_so_are_those_of_every_recording(kind: str, part: int) -> None:
    for logs in list(recordings.logs(kind).values())[part::3]:
        if 2 <= len(logs) <= len(PODS):
            check(logs)


def test_messages_of_one_program_may_end_like_loggers_of_another() -> None:
    """As librdkafka's do: (join-state init)."""
    check(recordings.logs("java")["r01_java_rdk"], {"compose": WRITERS["compose"]})


def test_so_are_they_with_the_newest_line_first() -> None:
    """As a query of a log store answers: the first line of an entry is below the others, or above them."""
    check(recordings.logs("java")["i_j07_maxpoll"], NEWEST_FIRST)


def test_known_layouts_may_have_the_newest_entry_first() -> None:
    """Several entries are of one millisecond."""
    logs = recordings.logs("librdkafka")["c06_maxpoll"]
    turned = {file: b"\n".join([*list(entries(log))[::-1], b""]) for file, log in logs.items()}
    assert judge(turned) == judge(logs)


@pytest.mark.parametrize(("archive", "scenario"), [("librdkafka", "c01_single"), ("java", "x05_coop_fenced_static")])
@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.loop(2)
def test_entries_sorted_by_time_alone_keep_the_order_of_one_millisecond(
    archive: str, scenario: str, *, framed: bool
) -> None:
    """The newest first, but those of one millisecond as they were printed."""
    logs = recordings.logs(archive)[scenario]

    def sort(log: bytes) -> bytes:
        found = sorted(entries(log), key=when_ms, reverse=True)
        if not framed:
            return b"\n".join([*found, b""])
        lines = [Line(when_ms(one), "", part.decode()) for one in found for part in one.split(b"\n")]
        return each(lambda e: json.dumps({"@timestamp": e.iso, "message": e.text}))(lines).encode()

    assert judge({file: sort(log) for file, log in logs.items()}) == judge(logs)


def test_so_are_they_where_few_collectors_put_a_name() -> None:
    check(recordings.logs("java")["i_j07_maxpoll"], ELSEWHERE)


def test_names_that_are_not_certain_count_if_ids_confirm_them() -> None:
    check(recordings.logs("java")["i_j07_maxpoll"], UNCERTAIN)


def test_a_logger_behind_the_time_is_no_host() -> None:
    """As .NET prints it for systemd."""
    logs = recordings.logs("client")["kafkapython_range.handler_join"]
    rows = {file: [json.loads(row) for row in log.splitlines()] for file, log in logs.items()}
    line = "<6>{timestamp} {name}[0] {message}\n".format_map
    assert judge({f: "".join(map(line, its)).encode() for f, its in rows.items()}) == judge(logs)


@pytest.mark.parametrize("title", ["\n==> logs/{}.log <==\n", "{} | CHANGED | rc=0 >>\n"])
def test_names_may_stand_above_lines(title: str, tmp_path: Path) -> None:
    """As `tail -f` and Ansible print them."""
    same = alike(recordings.logs("client")["aiokafka.bounce"])
    (tmp_path / "all.log").write_text(titled(title)(put_in_one_stream(same)))
    audit = audit_files([tmp_path / "all.log"])
    found = Counter((one.kind, one.severity, one.start_ms, one.end_ms, one.partitions) for one in audit.findings)
    assert (found, len({key.member for key in audit.members.values()}), len(audit.seen)) == judge(same)


RELAYS: dict[str, Callable[[Line, str], str]] = {
    "host": lambda e, n: json.dumps({"timestamp": e.iso, "host": f"relay-{n}", "message": e.text}),
    "beside a container": lambda e, n: json.dumps({"t": e.iso, "host": n, "container_id": "0a1b2c", "log": e.text}),
    "field of the application": lambda e, n: json.dumps({"t": e.iso, "db_host": f"db-{n}", "message": e.text}),
    "syslog": lambda e, n: f"<14>{e.syslog} relay-{n} orders[1]: {e.text}",
    "thread": lambda e, n: f"[asyncio_{n}] {e.text}",
    "region": lambda e, n: f"eu-west-{n} {e.text}",
    "line number": lambda e, n: f"{e.syslog} member[{n}0]: {e.text}",
}
"""What takes turns, though one process printed the lines."""


@pytest.mark.parametrize("how", RELAYS)
@pytest.mark.parametrize(
    ("kind", "name"),
    [("client", "kafkapython_range.join"), pytest.param("java", "m_range_direct", marks=pytest.mark.deep)],
)
@pytest.mark.loop(2)
def test_what_is_no_process_splits_none(kind: str, name: str, how: str) -> None:
    """No error is made of one: not in a file of its own, and not where two have the names in common."""
    logs = alike(recordings.logs(kind)[name])
    expected = judge(logs)
    files = {}
    for file, log in logs.items():
        given = put_in_one_stream({file: log})
        files[file] = "".join(RELAYS[how](e, "12"[i % 2]) + "\n" for i, e in enumerate(given)).encode()
    found, members, records = judge(files)
    worse = {one for one in found if one[1] is not Severity.INFO} - set(expected[0])
    assert (worse, members) == (set(), expected[1])
    assert records >= expected[2] / 2  # continuation lines may have another name than the first one


@pytest.mark.parametrize("name", ["m_range_direct", "m_coop_direct"])
def test_names_are_those_of_one_file(name: str) -> None:
    """Two hosts run a container of one name each."""
    logs = alike(recordings.logs("java")[name])
    halves = [dict(list(logs.items())[i::2]) for i in (0, 1)]
    streams = {f"h{i}/compose.log": WRITERS["compose"](rename(put_in_one_stream(one))) for i, one in enumerate(halves)}
    found, members, _ = judge({file: text.encode() for file, text in streams.items()})
    assert ({one for one in found if one[1] is not Severity.INFO}, members) == (set(), judge(logs)[1])


def rename(lines: list[Line]) -> list[Line]:
    """The lines of pods of the first names."""
    pods = sorted({line.pod for line in lines}, key=PODS.index)
    return [line._replace(pod=PODS[pods.index(line.pod)]) for line in lines]


def test_if_nothing_names_them_it_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Findings are for information only, which must not be mistaken for a clean result."""
    lines = put_in_one_stream(alike(recordings.logs("java")["hang00_x05"]))
    log, out = tmp_path / "all.log", tmp_path / "out"
    log.write_text("".join(f"{line.text}\n" for line in lines), encoding="utf-8")
    assert main(["audit", str(log), "-o", str(out), "--master", "none"]) == 0
    said = "Several consumers share a client id in one file: consumer-orders-1 of g-hang00-x05. Not every line names"
    assert said in capsys.readouterr().out
    read = json.loads((out / "audit.json").read_bytes())["inputs"]
    assert (read["shared_client_ids"], read["shared"]) == (1, [["g-hang00-x05", "consumer-orders-1"]])
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "No error is certain: consumers share a client id in one file" in page
    assert "Nothing is wrong" not in page


def test_workers_of_connect_in_one_stream_keep_the_lines_without_a_name() -> None:
    logs = dict(zip((f"{pod}.log" for pod in PODS), recordings.logs("connect")["s14_failing"].values(), strict=False))
    lines = put_in_one_stream(logs)
    assert judge({"all.log": WRITERS["stern"](lines).encode()}) == judge(logs)


@pytest.mark.parametrize("how", ["json", "stern"])
@pytest.mark.loop(1)
def test_a_stream_that_is_followed_is_judged_as_at_once(how: str, tmp_path: Path) -> None:
    """Pods appear while it grows: the first one's records were taken under the client id alone."""
    log = tmp_path / "all.log"
    text = WRITERS[how](put_in_one_stream(alike(recordings.logs("java")["i_j07_maxpoll"])))
    log.write_text(text, encoding="utf-8")
    live = Live()
    for batch in cut([log], how):
        live.read(*batch)
    assert live.found == found_at_once([log])
    assert {found.kind for found in live.found} >= {FindingKind.DOUBLE_OWNERSHIP}
