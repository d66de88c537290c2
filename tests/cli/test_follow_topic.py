"""`fsm audit --follow` of a topic that carries logs, on a real Apache Kafka: `make test-kafka`."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import recordings
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from patience import PATIENCE_S, wait_until

from fsm import cli
from fsm.audit.live.changes import from_json, standing
from fsm.audit.local import audit_files
from fsm.cli.topic_copy import place_of

sys.path.append(str(Path(__file__).parents[1] / "conformance"))

import kafka_broker

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("follow")]
HERE = ("--follow", "--master", "none", "--trigger-ms", "100", "--stop-ms", "1500")


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker."""
    with kafka_broker.broker(tmp_path_factory.mktemp("kafka"), kafka_broker.TIME) as (host, port):
        yield f"{host}:{port}"


def make(bootstrap: str, topic: str) -> AdminClient:
    """Makes the topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(PATIENCE_S)
    return admin


def produce(bootstrap: str, topic: str, logs: Mapping[str, list[bytes]], codec: str) -> None:
    """Each line is a record whose key is the name of its file."""
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20})
    for name, lines in logs.items():
        for line in lines:
            producer.produce(topic, line.removesuffix(b"\n"), name)
            producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0


def found(out: Path) -> list[str]:
    """What stands about groups, by what was written."""
    lines = [json.loads(line) for path in sorted((out / "findings").glob("*.jsonl")) for line in path.open()]
    assert len({(one["id"], one["version"], one["batch"]) for one in lines}) == len(lines)
    changes = standing({}, map(from_json, lines)).values()
    return sorted(one.finding.summary for one in changes if one.finding.group)


def test_a_topic_that_carries_logs(bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Read in two runs, compressed or not, as the batch audit reads the files that the lines are from.

    A kill between what was copied and the note of it copies the same to the same place. When the topic is deleted,
    one line says so and what was read stands.
    """
    logs, out = recordings.logs("java")["j07_maxpoll"], tmp_path / "out"
    lines = {name: data.splitlines(keepends=True) for name, data in logs.items()}
    admin = make(bootstrap, "logs")
    command = ["audit", f"kafka://{bootstrap}/logs", "-o", str(out), *HERE]
    produce(bootstrap, "logs", {name: own[: len(own) // 2] for name, own in lines.items()}, "lz4")
    cli.main(command)
    folder_name = place_of(f"kafka://{bootstrap}/logs").folder
    marks = out / "checkpoint" / "copied" / folder_name
    kept = {path.name: path.read_bytes() for path in marks.iterdir()}
    produce(bootstrap, "logs", {name: own[len(own) // 2 :] for name, own in lines.items()}, "none")
    assert cli.main(command) == 1
    copied = {path.name: path.read_bytes() for path in (out / "checkpoint" / "topics" / folder_name).iterdir()}
    assert sorted(copied.values()) == sorted(logs.values())
    for name, data in kept.items():
        (marks / name).write_bytes(data)
    assert cli.main(command) == 1
    assert {path.name: path.read_bytes() for path in (out / "checkpoint" / "topics" / folder_name).iterdir()} == copied
    folder = tmp_path / "files"
    folder.mkdir()
    for name, data in logs.items():
        (folder / name).write_bytes(data)
    expected = sorted(one.summary for one in audit_files(folder.iterdir()).findings)
    assert found(out) == expected
    admin.delete_topics(["logs"])["logs"].result(PATIENCE_S)
    wait_until(lambda: "logs" not in admin.list_topics(timeout=PATIENCE_S).topics)  # the broker's metadata may be late
    capsys.readouterr()
    assert cli.main(command) == 2
    assert "there is no such topic" in capsys.readouterr().err
    assert found(out) == expected


def test_no_topic(bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An address that is none, a topic that is none, a broker that is none: one line each."""
    for address, message in (
        ("kafka://nowhere", "is no topic"),
        (f"kafka://{bootstrap}/never-made", "there is no such topic"),
        (f"kafka://127.0.0.1:{kafka_broker.free_port()}/logs", "cannot connect"),
    ):
        capsys.readouterr()
        assert cli.main(["audit", address, "-o", str(tmp_path / "out"), *HERE]) == 2
        last = capsys.readouterr().err.splitlines()[-1]
        assert message in last
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
