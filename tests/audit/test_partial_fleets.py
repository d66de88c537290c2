"""Fleets of which a part is read, and clients that close in another way."""

from __future__ import annotations

from pathlib import Path

import memory
import pytest
import recordings

from fsm.audit.findings import FindingKind, Severity
from fsm.audit.local import audit_files

STAMP = "[2026-11-21 10:00:{:02d},000] INFO "
NAME = "[Consumer clientId=c, groupId=g] "
INTERNALS = "(org.apache.kafka.clients.consumer.internals."


def written(tmp_path: Path, *lines: tuple[int, str]) -> Path:
    """A log of (second, line) in Kafka's layout."""
    log = tmp_path / "c.log"
    log.write_text("".join(STAMP.format(second) + line + "\n" for second, line in lines))
    return log


CONFIG = "ConsumerConfig values: \n\tclient.id = c\n\tgroup.id = g\n{} (org.apache.kafka.common.config.AbstractConfig)"
SUBSCRIBED = NAME + "Subscribed to topic(s): t (org.apache.kafka.clients.consumer.{})"
CLOSED = "App info kafka.consumer for c unregistered (org.apache.kafka.common.utils.AppInfoParser)"


@pytest.mark.parametrize("callbacks", ["ConsumerRebalanceListenerInvoker)", "ConsumerCoordinator)"])
def test_given_up_to_somebody_unread(tmp_path: Path, callbacks: str) -> None:
    """A member that lives on gave a partition to nobody whose log was read: known, and no warning; also before 3.7."""
    log = written(
        tmp_path,
        (0, CONFIG.format("")),
        (1, SUBSCRIBED.format("KafkaConsumer")),
        (2, NAME + "Adding newly assigned partitions: t-0, t-1 " + INTERNALS + callbacks),
        (5, NAME + "Revoke previously assigned partitions t-1 " + INTERNALS + callbacks),
        (5, NAME + "Adding newly assigned partitions:  " + INTERNALS + callbacks),
        (20, NAME + "Adding newly assigned partitions: t-1 " + INTERNALS + callbacks),
    )
    gaps = [f for f in audit_files([log]).findings if f.kind is FindingKind.UNOWNED_PARTITION]
    assert [(gap.partitions, gap.severity) for gap in gaps] == [((("t", 1),), Severity.INFO)]


@pytest.mark.parametrize(
    ("archive", "scenario"),
    [
        ("java", "j03_rolling3"),
        ("java", "i_m_coop_upgrade_down"),
        ("librdkafka", "c04_eight"),
    ],
)
def test_a_member_whose_log_is_missing_is_nobody_s_fault(archive: str, scenario: str) -> None:
    """Each member's log in turn: what it owned meanwhile is told as a gap, for information; nothing else is wrong."""
    logs = recordings.logs(archive)[scenario]
    gaps = 0
    for gone in logs:
        found = memory.audit({name: data for name, data in logs.items() if name != gone}).findings
        assert [f.summary for f in found if f.severity is not Severity.INFO] == []
        gaps += sum(f.summary.endswith("unless a member had them whose log is missing") for f in found)
    assert gaps > 0


@pytest.mark.parametrize(("setting", "alarms"), [("\tinternal.leave.group.on.close = false\n", 0), ("", 1)])
def test_a_consumer_that_stays_in_its_group(tmp_path: Path, setting: str, alarms: int) -> None:
    """Kafka Streams' classic consumers close without callback or leave: that is no loss. Any other's is."""
    invoker = INTERNALS + "ConsumerRebalanceListenerInvoker)"
    log = written(
        tmp_path,
        (0, CONFIG.format(setting)),
        (1, SUBSCRIBED.format("internals.ClassicKafkaConsumer")),
        (2, NAME + "Adding newly assigned partitions: [t-0] " + invoker),
        (9, CLOSED),
    )
    found = [f for f in audit_files([log]).findings if f.kind is FindingKind.LOST_WITHOUT_CALLBACK]
    assert len(found) == alarms


def test_connect_writes_its_context_first(tmp_path: Path) -> None:
    """What a Connect worker puts before the client's own prefix does not hide it."""
    line = "[sink|task-0] " + NAME + "Adding newly assigned partitions: [t-0] "
    log = written(tmp_path, (2, line + INTERNALS + "ConsumerRebalanceListenerInvoker)"))
    (seen,) = audit_files([log]).seen
    assert (seen.record.group, seen.record.client_id, seen.record.partitions) == ("g", "c", (("t", 0),))
