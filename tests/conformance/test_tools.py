"""Kafka's own tools print the same of `fsm serve` as of a real Apache Kafka of the latest release."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka_broker import broker, tools
from patience import PATIENCE_S, wait_until

from fsm.protocol.messages import DeleteTopicsRequest, DeleteTopicState
from tests.serve.live_broker import served

pytestmark = pytest.mark.kafka

TOPICS = "org.apache.kafka.tools.TopicCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
ALL_GROUPS = "org.apache.kafka.tools.GroupsCommand"
CONFIGS = "kafka.admin.ConfigCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"

BEFORE = f"""
{TOPICS} --create --topic foo --partitions 4
{TOPICS} --create --topic bar --partitions 2
{TOPICS} --create --topic foo --partitions 4
{TOPICS} --create --topic bar/foo --partitions 4
{TOPICS} --create --topic none --partitions 0
{TOPICS} --list
{TOPICS} --describe --topic foo
{TOPICS} --alter --topic bar --partitions 3
{TOPICS} --alter --topic bar --partitions 2
{TOPICS} --describe --topic none
{GROUPS} --list
{VERSIONS}
"""
"""Before there are groups."""
WITH_A_MEMBER = f"""
{GROUPS} --list
{GROUPS} --list --state
{GROUPS} --list --type
{GROUPS} --list --state Stable,Empty
{GROUPS} --list --state Empty
{GROUPS} --list --type consumer
{GROUPS} --describe --group g
{GROUPS} --describe --group g --verbose
{GROUPS} --describe --group g --members
{GROUPS} --describe --group g --members --verbose
{GROUPS} --describe --group g --state
{GROUPS} --describe --group g --state --verbose
{GROUPS} --describe --group c
{GROUPS} --describe --group c --members --verbose
{GROUPS} --describe --group c --state
{GROUPS} --describe --all-groups
{GROUPS} --describe --all-groups --members
{GROUPS} --describe --all-groups --state
{GROUPS} --describe --group none
{GROUPS} --reset-offsets --group e --topic foo --to-earliest --dry-run
{GROUPS} --reset-offsets --group e --topic foo --to-latest --execute
{GROUPS} --reset-offsets --group e --topic foo:1 --to-offset 2 --execute
{GROUPS} --reset-offsets --group e --all-topics --shift-by -1 --execute
{GROUPS} --reset-offsets --group e --all-topics --to-datetime 2020-01-01T00:00:00.000 --dry-run
{GROUPS} --reset-offsets --group e --all-topics --to-datetime 2090-01-01T00:00:00.000 --dry-run
{GROUPS} --reset-offsets --group g --topic foo --to-earliest --execute
{GROUPS} --reset-offsets --group new --topic foo --to-earliest --execute
{GROUPS} --reset-offsets --group new --topic none --to-earliest --execute
{GROUPS} --describe --group e
{GROUPS} --describe --group new
{GROUPS} --delete-offsets --group e --topic foo:1
{GROUPS} --delete-offsets --group g --topic foo
{GROUPS} --delete-offsets --group g --topic bar
{GROUPS} --delete-offsets --group none --topic foo
{GROUPS} --describe --group e
{GROUPS} --delete --group e
{GROUPS} --delete --group g
{GROUPS} --delete --group none
{GROUPS} --list
{CONFIGS} --entity-type groups --entity-name g --alter --add-config consumer.heartbeat.interval.ms=6000
{CONFIGS} --entity-type groups --entity-name g --describe
{CONFIGS} --entity-type groups --entity-name g --describe --all
{CONFIGS} --entity-type groups --entity-name g --alter --add-config consumer.heartbeat.interval.ms=1
{CONFIGS} --entity-type groups --entity-name g --alter --add-config consumer.heartbeat.interval.ms=x
{CONFIGS} --entity-type groups --entity-name g --alter --add-config none=1
{CONFIGS} --entity-type groups --entity-name g --alter --delete-config consumer.heartbeat.interval.ms
{CONFIGS} --entity-type groups --entity-name g --describe
{CONFIGS} --entity-type groups --entity-name fresh --describe
{CONFIGS} --entity-type groups --describe
{CONFIGS} --entity-type topics --entity-name foo --describe
{CONFIGS} --entity-type topics --entity-name none --describe
{ALL_GROUPS} --list
{OFFSETS} --topic foo
"""
"""While a member of the group `g` and a classic one of `c` poll, and `e` has but commits."""
AFTERWARDS = f"""
{GROUPS} --describe --group g --state
{GROUPS} --delete --group g
{TOPICS} --delete --topic bar
{TOPICS} --delete --topic none
{TOPICS} --list
"""
ID = re.compile(r"(?<![\w.])[A-Za-z0-9+/_-]{22}(?![\w.])|\brdkafka-[0-9a-f-]+|\bc2-[0-9a-f-]+")
NOT_HERE = re.compile(
    r"\s+at |\s+\.\.\. |  (share|streams|errors)\.|\t\w+\(\d+\): UNSUPPORTED|.*\((7[1-2]|88|89|9[34])\): "
)
"""Lines of stack traces, of settings of other kinds of groups, and of APIs that we do not speak."""
WORDS = re.compile(r"(Exception: |topic command : ).*(?=\n)")
Ask = Callable[[str], list[str]]


@contextmanager
def shell(address: str) -> Iterator[Ask]:
    """The tools in a JVM: a command, and the lines that it prints, sorted."""
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{tools()}/*", str(Path(__file__).with_name("Tools.java"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as java:
        assert java.stdin is not None
        assert java.stdout is not None

        def ask(line: str) -> list[str]:
            name, _, arguments = line.partition(" ")
            java.stdin.write(f"{name} --bootstrap-server {address} {arguments}".strip() + "\n")  # type: ignore[union-attr]
            java.stdin.flush()  # type: ignore[union-attr]
            printed = iter(java.stdout.readline, "done\n")  # type: ignore[union-attr]
            return sorted(normalize(one, address) for one in printed if not NOT_HERE.match(one))

        try:
            yield ask
        finally:
            java.kill()


def normalize(line: str, address: str) -> str:
    """Without what is another one in each run, and without the words of an error."""
    line = WORDS.sub(r"\1", line)
    line = line.replace(address, "ADDRESS").replace("min.insync.replicas=1", "")
    return re.sub(r"\s+", " ", ID.sub("ID", line)).strip()


@contextmanager
def groups_at_work(address: str) -> Iterator[None]:
    """Records, a group with commits alone, and two groups with a member that polls until the block ends."""
    common = {"bootstrap.servers": address, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    producer = Producer({"bootstrap.servers": address})
    for number in range(8):
        producer.produce("foo", f"value {number}".encode(), partition=number % 4)
    producer.flush(PATIENCE_S)
    commits = Consumer({**common, "group.id": "e"})
    commits.commit(offsets=[TopicPartition("foo", 0, 1), TopicPartition("foo", 1, 1)], asynchronous=False)
    commits.close()
    consumers = [
        Consumer({**common, "group.id": "g", "client.id": "c1", "group.protocol": "consumer"}),
        Consumer({**common, "group.id": "c", "client.id": "c2"}),
    ]
    done = threading.Event()
    for consumer in consumers:
        consumer.subscribe(["foo"])
        read: list[bytes] = []
        wait_until(lambda read=read: len(read) >= 8, lambda one=consumer, read=read: read.extend(poll_one(one)))  # type: ignore[misc]
        consumer.commit(asynchronous=False)

    def poll() -> None:
        while not done.wait(0.05):
            for consumer in consumers:
                consumer.poll(0)

    polling = threading.Thread(target=poll)
    polling.start()
    try:
        yield
    finally:
        done.set()
        polling.join()
        for consumer in consumers:
            consumer.close()


def poll_one(consumer: Consumer) -> list[bytes]:
    """The value of the next record, if one comes."""
    message = consumer.poll(0.2)
    return [] if message is None or message.error() else [message.value() or b""]


def all_that_is_printed(address: str) -> dict[str, list[str]]:
    """By command."""
    found = {}
    with shell(address) as ask:
        found |= {f"before: {line}": ask(line) for line in BEFORE.strip().splitlines()}
        with groups_at_work(address):
            for number, line in enumerate(WITH_A_MEMBER.strip().splitlines()):
                found[f"{number}: {line}"] = ask(line)
        found |= {f"afterwards: {line}": ask(line) for line in AFTERWARDS.strip().splitlines()}
    return found


def test_the_tools_print_the_same(tmp_path: Path) -> None:
    with broker(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as (host, port):
        expected = all_that_is_printed(f"{host}:{port}")
    settings = ("--set", "group.initial.rebalance.delay.ms=0")
    with served("--records", "0", topics="scratch=1", settings=settings) as ours:
        ours.connect().ask(DeleteTopicsRequest((DeleteTopicState("scratch"),)))
        found = all_that_is_printed(f"127.0.0.1:{ours.port}")
    advertised = f"before: {VERSIONS}"
    assert len(found[advertised]) > 25
    assert set(found.pop(advertised)) <= set(expected.pop(advertised))
    differing = {command: (lines, found[command]) for command, lines in expected.items() if lines != found[command]}
    assert differing == {}
