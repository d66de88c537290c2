"""Our member beside librdkafka and the Java client in one group on a real Apache Kafka: `make test-kafka`.

They share a topic through rolling restarts, kills and a restart of the broker, which loads the group anew. Then the
audit reads the logs of all of them together: it finds what was done to the group, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka_broker import RELEASE, STEPS, Kafka, jars
from kafka_group import PARTITIONS, TOPIC, Group

from fsm.audit.findings import Cause, FindingKind, Severity
from fsm.audit.local import audit_files
from fsm.conformance.topics import Topics
from fsm.trace import Kind
from fsm.wire.connection import Connection

pytestmark = pytest.mark.kafka

KINDS = ("ours", "rdkafka", "java")
START, ROLL, KILLS = ["start"] * 3, ["close", "start"] * 3, ["kill", "start"] * 3
SESSION_S = 4
"""Who has not come back to the restarted broker by then is thrown out."""
SLACK_MS = 1_000
SETTINGS = {
    **STEPS,
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": f"{SESSION_S * 1_000}",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker with short sessions, and the topic."""
    node = Kafka(tmp_path_factory.mktemp("kafka"), SETTINGS)
    try:
        node.start()
        connection = Connection("127.0.0.1", node.port, "setup")
        Topics(connection).ensure(TOPIC, PARTITIONS)
        connection.close()
        yield node
    finally:
        node.stop()


@pytest.fixture(scope="module")
def group(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """The group, after all that is done to it."""
    made = Group(f"127.0.0.1:{kafka.port}", tmp_path_factory.mktemp("members"), jars(RELEASE))
    try:
        for name in KINDS:
            made.do("start", name, lambda name=name: made.start(name))  # type: ignore[misc]
        for name in KINDS:
            made.do("close", name, lambda name=name: made.close(name))  # type: ignore[misc]
            made.do("start", name, lambda name=name: made.start(name))  # type: ignore[misc]
        for name in KINDS:
            made.do("kill", name, lambda name=name: made.kill(name))  # type: ignore[misc]
            made.do("start", name, lambda name=name: made.start(name))  # type: ignore[misc]
        made.do("restart", "the broker", lambda: (kafka.stop(), kafka.start()), SESSION_S + 1)
        made.do("close", "rdkafka", lambda: made.close("rdkafka"))
        for name in ("java", "ours"):
            made.close(name)
        yield made
    finally:
        made.end()


def test_they_share_through_everything(group: Group) -> None:
    """After each step every partition had one owner, and every member its share; the last ones left in order."""
    assert [one.what for one in group.done] == [*START, *ROLL, *KILLS, "restart", "close"]
    assert group.members == {}


def test_the_audit_of_all_logs_finds_what_was_done(group: Group) -> None:
    """That three were killed, when, and what they had; of closes, starts and the broker's restart there is none."""
    audit = audit_files(group.logs)
    kills = {one.client_id: one for one in group.done if one.what == "kill"}
    found: dict[str, set[int]] = {}
    for one in audit.findings:
        assert (one.kind, one.cause, one.severity) == (FindingKind.UNOWNED_PARTITION, Cause.KILLED, Severity.INFO), one
        who = one.member.partition("#")[0]
        kill = kills[who]
        # The log ends with the last line before the kill, at most a heartbeat interval earlier.
        assert kill.began_ms - SLACK_MS <= one.start_ms
        assert one.end_ms <= kill.settled_ms + SLACK_MS
        found.setdefault(who, set()).update(number for _, number in one.partitions)
    assert found == {who: kill.owned for who, kill in kills.items()}


def test_every_member_noticed_that_its_coordinator_was_away(group: Group) -> None:
    """The logs of those who lived through the restart say so, and nobody lost a partition by it."""
    (restart,) = (one for one in group.done if one.what == "restart")
    records = (one.record for one in audit_files(group.logs).seen)
    during = [one for one in records if restart.began_ms <= one.ts_ms <= restart.settled_ms]
    kinds = {kind: {one.client_id.partition("#")[0] for one in during if one.kind is kind} for kind in Kind}
    assert {"ours-3", "java-3"} <= kinds[Kind.COORDINATOR_LOST]
    assert {"ours-3", "java-3"} <= kinds[Kind.COORDINATOR_FOUND]
    assert not kinds[Kind.LOST_BEGIN] | kinds[Kind.REVOKE_BEGIN] | kinds[Kind.FENCED]
