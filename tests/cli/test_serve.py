"""`fsm serve` as a user runs it: its first line, its end, its trace, and one clear line for what cannot be served."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from patience import PATIENCE_S

from fsm.cli import main

RULES = "- lose: yes\n  apii: Heartbeat\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "the following arguments are required: --topics"),
        (["--topics", "foo=x"], "--topics: 'x' is not a whole number of at least 1"),
        (["--topics", "foo:0"], "--topics: '0' is not a whole number of at least 1"),
        (["--topics", "foo=1,foo=2"], "--topics: 'foo=1,foo=2' names foo twice"),
        (["--topics", "foo=1", "--topics", "bar=1, foo=2"], "--topics: names foo twice"),
        (
            ["--topics", "f/o=1"],
            "'f/o' is no name of at most 249 letters, digits, '.', '_' and '-'; write for example foo:2",
        ),
        (["--topics", "foo=99999"], "foo: a topic has 1 to 10000 partitions, not 99999"),
        (["--topics", "foo=1", "--port", "65536"], "'65536' is not a whole number from 0 to 65535"),
        (["--topics", "foo=1", "--brokers", "0"], "'0' is not a whole number from 1 to 100"),
        (["--topics", "foo=1", "--dialect", "3.9"], "unknown coordinator dialect '3.9'"),
        (["--topics", "foo=1", "--dialect", "4.2+F0"], "unknown rule 'F0' of a dialect"),
        (["--topics", "foo=1", "--dialect", "4.2+F29", "--port", "{taken}"], "cannot listen: Address already in use"),
        (["--topics", "foo=1", "--dialect", "fixed-F29"], "fixed-F29 is not a release"),
        (["--topics", "foo=1", "--set", "group.consumer.sesion.timeout.ms=1"], "did you mean group.consumer.session"),
        (["--topics", "foo=1", "--set", "group.consumer.session.timeout.ms=9"], "lower that one too"),
        (
            ["--topics", "foo=1", "--set", "group.consumer.migration.policy=no"],
            "cannot be 'no'; choose from bidirectional",
        ),
        (
            ["--topics", "foo=1", "--faults", "{folder}/rules.yaml"],
            "rules.yaml:2: unknown key 'apii'; did you mean api?",
        ),
        (["--topics", "foo=1", "--faults", "{folder}/none.yaml"], "none.yaml: cannot be read: No such file"),
        (["--topics", "foo=1", "--trace", "{folder}/no/t"], "no/t: cannot be written: No such file"),
        (["--topics", "foo=1", "--data", "{folder}/rules.yaml"], "rules.yaml: cannot be used: File exists"),
        (["--topics", "foo=1", "--port", "{taken}"], "cannot listen: Address already in use"),
        (["--topics", "foo=1", "--page", "{taken}"], "cannot listen: Address already in use; choose another --page"),
        (["--topics", "foo=1", "--host", "203.0.113.7"], "203.0.113.7:0: cannot listen"),
    ],
)
def test_what_cannot_be_served_is_one_line(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rules.yaml").write_text(RULES)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = {"folder": tmp_path, "taken": taken.getsockname()[1]}
        assert main(["serve", *(one.format(**given) for one in arguments)]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert printed.err.startswith("fsm: ")
    assert words in printed.err


def test_a_client_is_served_and_everything_is_written_down(tmp_path: Path) -> None:
    trace = tmp_path / "run.jsonl"
    command = [sys.executable, "-m", "fsm", "serve", "--topics", "foo=4", "--records", "100", "--trace", str(trace)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("listening on 127.0.0.1:")
    settings = {"group.id": "g", "group.protocol": "consumer", "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer({"bootstrap.servers": line.split()[-1], **settings})
    consumer.subscribe(["foo"])
    values = [message.value() for message in consumer.consume(8, timeout=PATIENCE_S)]
    assert len(values) == 8
    assert {value.split(b"-")[0] for value in values} == {b"foo"}
    consumer.close()
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=PATIENCE_S) == ("", "")
    assert process.returncode == 0
    seen = [json.loads(line) for line in trace.read_text().splitlines()]
    assert seen[0] == {"event": "topics", "at_ms": seen[0]["at_ms"], "topics": [["foo", seen[0]["topics"][0][1], 4]]}
    heartbeats = [one for one in seen if one.get("api") == "ConsumerGroupHeartbeat"]
    assert heartbeats[0]["request"]["member_epoch"] == 0
    assert heartbeats[-1]["request"]["member_epoch"] == -1
    assert seen[-1]["event"] == "disconnected"
