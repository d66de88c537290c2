"""Admin clients and kcat against `fsm serve`: what operators use beside consumers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)
from live_broker import Served, served
from patience import PATIENCE_S, wait_until

from fsm.cli import main
from fsm.conformance.families import FAMILIES

SETTINGS = ("group.initial.rebalance.delay.ms=0", "group.consumer.assignment.interval.ms=0")


@pytest.fixture(scope="module")
def broker() -> Iterator[Served]:
    with served("--records", "0") as one:
        yield one


@pytest.fixture(scope="module")
def admin(broker: Served) -> AdminClient:
    return AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}"})


def settle(futures: dict[Any, Any]) -> list[Any]:
    """What each future gives, or the error code that it fails with."""
    found = []
    for future in futures.values():
        try:
            found.append(future.result(PATIENCE_S))
        except KafkaException as problem:
            found.append(problem.args[0].code())
    return found


def test_topics_of_confluent_kafka(admin: AdminClient) -> None:
    made = admin.create_topics([NewTopic("made", 3, 1), NewTopic("foo", 3, 1)])
    assert settle(made) == [None, KafkaError.TOPIC_ALREADY_EXISTS]
    assert settle(admin.create_partitions([NewPartitions("made", 5)])) == [None]
    assert len(admin.list_topics(timeout=PATIENCE_S).topics["made"].partitions) == 5
    offsets = admin.list_offsets({TopicPartition("made", 4): OffsetSpec.latest()})
    assert [one.offset for one in settle(offsets)] == [0]
    assert settle(admin.delete_topics(["made", "none"])) == [None, KafkaError.UNKNOWN_TOPIC_OR_PART]
    assert "made" not in admin.list_topics(timeout=PATIENCE_S).topics


def test_groups_of_confluent_kafka(broker: Served, admin: AdminClient) -> None:
    address = f"127.0.0.1:{broker.port}"
    commits = Consumer({"bootstrap.servers": address, "group.id": "commits", "enable.auto.commit": False})
    commits.commit(offsets=[TopicPartition("foo", 0, 5)], asynchronous=False)
    commits.close()
    consumers = [
        Consumer({"bootstrap.servers": address, "group.id": group, "group.protocol": protocol, "client.id": "c"})
        for group, protocol in (("new", "consumer"), ("old", "classic"))
    ]
    try:
        for consumer in consumers:
            consumer.subscribe(["foo"])
            wait_until(consumer.assignment, lambda one=consumer: one.poll(0.1))
        found = {one.group_id: one for one in admin.list_consumer_groups().result(PATIENCE_S).valid}
        assert {name: one.type for name, one in found.items()} == {
            "commits": ConsumerGroupType.CLASSIC,
            "new": ConsumerGroupType.CONSUMER,
            "old": ConsumerGroupType.CLASSIC,
        }
        assert found["commits"].state is ConsumerGroupState.EMPTY
        new, old = settle(admin.describe_consumer_groups(["new", "old"]))
        for described in (new, old):
            assert described.state is ConsumerGroupState.STABLE
            (member,) = described.members
            assert (member.client_id, member.host) == ("c", "/127.0.0.1")
            assert [one.partition for one in member.assignment.topic_partitions] == [0, 1, 2, 3]
        assert settle(admin.delete_consumer_groups(["new"])) == [KafkaError.NON_EMPTY_GROUP]
    finally:
        for consumer in consumers:
            consumer.close()
    (fetched,) = settle(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("commits")]))
    assert [(one.topic, one.partition, one.offset) for one in fetched.topic_partitions] == [("foo", 0, 5)]
    wanted = ConsumerGroupTopicPartitions("commits", [TopicPartition("foo", 1, 7)])
    (altered,) = settle(admin.alter_consumer_group_offsets([wanted]))
    assert [one.error for one in altered.topic_partitions] == [None]
    assert settle(admin.delete_consumer_groups(["commits", "new", "none"])) == [None, None, 69]


def test_configs_and_cluster_of_confluent_kafka(broker: Served, admin: AdminClient) -> None:
    entry = ConfigEntry("consumer.session.timeout.ms", "50000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.GROUP, "g", incremental_configs=[entry])
    assert settle(admin.incremental_alter_configs([resource])) == [None]
    (found,) = settle(admin.describe_configs([ConfigResource(ConfigResource.Type.GROUP, "g")]))
    assert found["consumer.session.timeout.ms"].value == "50000"
    assert found["consumer.heartbeat.interval.ms"].value == "300"
    cluster = admin.describe_cluster().result(PATIENCE_S)
    assert [(node.id, node.port) for node in cluster.nodes] == [(1, broker.port)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_admin_client_of_kafka_python(broker: Served) -> None:
    from kafka import KafkaAdminClient  # noqa: PLC0415

    client = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{broker.port}")
    try:
        assert "foo" in client.list_topics()
        assert client.list_groups() is not None
        (described,) = client.describe_topics(["foo"])
        assert len(described["partitions"]) == 4
    finally:
        client.close()


def kcat(broker: Served, *arguments: str, message: str = "") -> str:
    command = ["kcat", "-b", f"127.0.0.1:{broker.port}", "-q", *arguments]
    return subprocess.run(command, input=message, text=True, capture_output=True, timeout=PATIENCE_S, check=True).stdout


@pytest.mark.clients
def test_kcat_lists_produces_consumes_and_joins(broker: Served) -> None:
    assert 'topic "foo" with 4 partitions' in kcat(broker, "-L")
    kcat(broker, "-P", "-t", "foo", "-p", "2", message="one\ntwo\nthree\n")
    kcat(broker, "-P", "-t", "foo", "-p", "3", "-z", "gzip", message="four\n")
    assert kcat(broker, "-C", "-t", "foo", "-p", "2", "-o", "1", "-e") == "two\nthree\n"
    assert kcat(broker, "-Q", "-t", "foo:2:-1") == "foo [2] offset 3\n"
    read = kcat(broker, "-G", "kcat", "-o", "beginning", "-c", "4", "foo")
    assert sorted(read.split()) == ["four", "one", "three", "two"]


@pytest.mark.parametrize(
    ("families", "steps"),
    [
        pytest.param("plain,commit,classic-static,migrate", 40, id="few"),
        pytest.param(
            "plain,static,commit,regex,classic,classic-static,mixed,migrate", 200, id="some", marks=pytest.mark.deep
        ),
        pytest.param(",".join(FAMILIES), 500, id="all", marks=pytest.mark.slow),
    ],
)
def test_what_is_served_conforms(families: str, steps: int, capsys: pytest.CaptureFixture[str]) -> None:
    """`fsm conform --broker` walks beside it: answers, records read from `__consumer_offsets`, descriptions."""
    given = [part for one in SETTINGS for part in ("--set", one)]
    with served("--records", "0", topics="bar=3", settings=given) as ours:
        address = f"127.0.0.1:{ours.port}"
        code = main(["conform", "--broker", address, "--steps", str(steps), "--family", families])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert printed.count(f" {steps} steps equal") == len(families.split(","))
