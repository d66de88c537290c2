"""Our members of both protocols beside librdkafka and the Java client in one group on a real Kafka: `make test-kafka`.

They share a topic through rolling restarts, kills, and moves of their coordinator between two brokers. Then the
audit reads the logs of all of them together: it finds what was done to the group, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from kafka_broker import RELEASE, STEPS, jars
from kafka_group import Cluster, Group

from fsm.audit.findings import Cause, FindingKind, Severity
from fsm.audit.local import audit_files
from fsm.trace import Kind

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("join")]

KINDS = ("ours", "rdkafka", "java", "classic")
START, ROLL, KILLS = ["start"] * 4, ["close", "start"] * 4, ["kill", "start"] * 4
SESSION_S = 8
"""Who has not found the coordinator again by then is thrown out."""
SLACK_MS = 1_000
SETTINGS = {
    **STEPS,
    "group.min.session.timeout.ms": "3000",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": f"{SESSION_S * 1_000}",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "offsets.topic.replication.factor": "2",
    "leader.imbalance.check.interval.seconds": "2",
}


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """The group, after all that is done to it."""
    cluster = Cluster(tmp_path_factory.mktemp("kafka"), SETTINGS)
    made: Group | None = None
    try:
        cluster.start()
        made = Group(cluster.bootstrap, cluster.group, tmp_path_factory.mktemp("members"), jars(RELEASE))
        for name in KINDS:
            made.do("start", name, partial(made.start, name))
        for what in ("close", "kill"):
            for name in KINDS:
                made.do(what, name, partial(getattr(made, what), name))
                made.do("start", name, partial(made.start, name))
        made.do("move", "", cluster.move_away, SESSION_S + 1)
        made.do("move", "", cluster.move_back, SESSION_S + 1)
        made.do("close", "rdkafka", partial(made.close, "rdkafka"))
        for name in ("java", "classic", "ours"):
            made.close(name)
        yield made
    finally:
        if made is not None:
            made.end()
        cluster.stop()


def test_they_share_through_everything(group: Group) -> None:
    """After each step every partition had one owner, and every member its share; the last ones left in order."""
    assert [one.what for one in group.done] == [*START, *ROLL, *KILLS, "move", "move", "close"]
    assert group.members == {}


def test_the_audit_of_all_logs_finds_what_was_done(group: Group) -> None:
    """That four were killed, when, and what they had; of closes, starts and moves there is none.

    Beside it stands, as information, that the classic member did not see every epoch of the consumer group it was in.
    """
    audit = audit_files(group.logs)
    kills = {one.client_id: one for one in group.done if one.what == "kill"}
    found: dict[str, set[int]] = {}
    for one in audit.findings:
        if one.kind is FindingKind.ILLEGAL_TRANSITION and one.member.startswith("classic-"):
            assert (one.severity, "the group was upgraded" in one.summary) == (Severity.INFO, True)
            continue
        assert (one.kind, one.cause, one.severity) == (FindingKind.UNOWNED_PARTITION, Cause.KILLED, Severity.INFO), one
        who = one.member.partition("#")[0]
        kill = kills[who]
        assert one.start_ms <= kill.began_ms + SLACK_MS  # the log's last line, and a member at rest has little to say
        assert kill.began_ms <= one.end_ms <= kill.settled_ms + SLACK_MS
        found.setdefault(who, set()).update(number for _, number in one.partitions)
    assert found == {who: kill.owned for who, kill in kills.items()}


def test_every_member_follows_the_coordinator(group: Group) -> None:
    """The logs say twice that it was lost and found, and nobody lost a partition by it."""
    records = [one.record for one in audit_files(group.logs).seen]
    moves = [one for one in group.done if one.what == "move"]
    assert len(moves) == 2
    for move in moves:
        during = [one for one in records if move.began_ms <= one.ts_ms <= move.settled_ms]
        kinds = {kind: {one.client_id.partition("#")[0] for one in during if one.kind is kind} for kind in Kind}
        followed = kinds[Kind.COORDINATOR_LOST] & kinds[Kind.COORDINATOR_FOUND]
        assert {"ours-3", "java-3", "classic-3"} <= followed
        assert not kinds[Kind.LOST_BEGIN] | kinds[Kind.REVOKE_BEGIN] | kinds[Kind.FENCED]
