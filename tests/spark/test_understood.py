"""How much has to be understood for a verdict: of all that clients say, of each file, and of each client in a file."""

from __future__ import annotations

import codecs
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from page_data import groups_of
from recordings import logs as logs_of

from fsm import cli
from fsm.audit.reading.certainty import Understood

from .conftest import document

STRANGE = b"~7~ [Consumer clientId=%s, groupId=g] "
"""What stands before messages in a layout that nobody knows; the words behind it are nobody's either."""
NEWER = b"[2026-11-21 07:55:%02d,%03d] INFO [Consumer clientId=%s, groupId=g] %s (org.apache.kafka.%s)\n"
COORDINATOR = b"clients.consumer.internals.ConsumerCoordinator"


def strange(log: bytes, client: bytes) -> bytes:
    """The log as a client of an unknown release would write it, in a layout of its own."""
    words = codecs.encode(log.decode("utf-8", "replace"), "rot13").encode().splitlines()
    return b"".join(STRANGE % client + re.sub(rb"[^ a-z]", b"", word)[:80] + b"\n" for word in words if word.strip())


def audit(logs: Path, out: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str, str, Any]:
    """The exit status, stdout, stderr and what the document says of its inputs."""
    capsys.readouterr()
    status = cli.main(["audit", str(logs), "-o", str(out), "--master", "none", *more])
    said = capsys.readouterr()
    return status, said.out, said.err, document(out)["inputs"]


@pytest.fixture
def fleet(recordings: Path, tmp_path: Path) -> Path:
    """Logs of which every line is understood, far more than any of the tests adds."""
    logs = tmp_path / "logs"
    logs.mkdir()
    for name in ("x03_range_maxpoll", "m_coop_static", "j07_maxpoll", "x05_range_fenced_static", "j18_topic_deleted"):
        shutil.copytree(recordings / name, logs / name)
    return logs


def test_one_member_in_an_unknown_layout(fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The other member's log is understood, and nearly all of the fleet; what only both logs tell is not known."""
    member = fleet / "x03_range_maxpoll" / "B.log"
    member.write_bytes(strange(member.read_bytes()[:4000], b"B"))
    status, said, error, read = audit(fleet, tmp_path / "out", capsys)
    assert status == 2
    assert re.match(r"read .*; understood 9\d(\.\d)? % of \d+ entries of clients, too little in 1 file\n", said)
    assert re.search(rf"\ntoo little was understood of {member} \(0 % of \d+ entries of clients\)\n", said)
    assert re.search(r"not enough was understood: 9.* % of \d+ entries of clients, too little in 1 file; see ", error)
    assert (read["enough"], read["too_little_files"]) == (False, 1)
    assert read["too_little"] == [{"file": str(member), "client": "", "entries": 0, "missed": read["suspects"]}]
    page = (tmp_path / "out" / "report.html").read_text()
    said = r">Not enough was understood: 9.* % of what clients say, too little in 1 file</h2>"
    assert re.search(said, page)
    assert "Nothing is wrong" not in page
    assert audit(fleet, tmp_path / "out", capsys, "--min-understood", "0")[0] == 1


def test_two_logs_full_of_words_of_another_release(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """668 lines of classes that tell who owns what are not understood: their group has no verdict, others have."""
    known = b"Adding newly assigned partitions: t-0"
    for client in (b"a", b"b"):
        log = NEWER % (0, 0, client, known, b"clients.consumer.internals.ConsumerRebalanceListenerInvoker")
        for number in range(334):
            log += NEWER % (number // 10, number, client, b"Words that no release has", COORDINATOR)
        (fleet / f"{client.decode()}.log").write_bytes(log)
    status, said, _, read = audit(fleet, tmp_path / "out", capsys)
    assert (status, read["not_understood"], read["too_little_files"]) == (2, 668, 2)
    assert f"too little was understood of {fleet}/a.log (0.2 % of 335 entries of clients), {fleet}/b.log" in said
    groups = {one["group"]: one["coverage"] for one in document(tmp_path / "out")["groups"]}
    assert [group for group, coverage in groups.items() if coverage == "not understood"] == ["g"]
    assert [group for group, told in groups_of(tmp_path / "out").items() if told.get("doubted")] == ["g"]


def test_one_of_many_members_in_one_file(fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A collector wrote all members into one file: lines that name their client are counted for it."""
    known = b"Adding newly assigned partitions: t-%d"
    invoker = b"clients.consumer.internals.ConsumerRebalanceListenerInvoker"
    lines = [NEWER % (n % 60, n, b"c%d" % (n % 9), known % (n % 9), invoker) for n in range(270)]
    lines += [NEWER % (n, n, b"lost", b"Words that no release has", COORDINATOR) for n in range(9)]
    (fleet / "all.log").write_bytes(b"".join(lines))
    status, said, _, read = audit(fleet, tmp_path / "out", capsys)
    assert status == 2
    assert f"\ntoo little was understood of lost in {fleet}/all.log (0 % of 9 entries of clients)\n" in said
    assert read["too_little"] == [{"file": f"{fleet}/all.log", "client": "lost", "entries": 0, "missed": 9}]


def test_words_of_other_programs_are_no_sign_of_a_client(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A client's word such as `Starting` in the log of a service manager, or of a database, takes no verdict away."""
    chosen = random.Random(7)  # noqa: S311
    said = {
        "systemd.log": "Nov 21 07:55:{s:02d} host systemd[1]: {word} Session {n} of user root.",
        "postgres.log": "2026-11-21 07:55:{s:02d}.123 UTC [{n}] LOG:  {word} background worker",
        "app.log": '{{"ts":"2026-11-21T07:55:{s:02d}Z","level":"info","msg":"{word} {n}"}}',
    }
    words = ("Starting", "Stopped", "member_id", "lock released", "joining group", "fenced", "connectors", "ready")
    for name, line in said.items():
        lines = [line.format(s=n % 60, n=n, word=chosen.choice(words)) for n in range(400)]
        (fleet / name).write_text("\n".join(lines) + "\n")
    status, _, _, read = audit(fleet, tmp_path / "out", capsys)
    assert (status, read["suspects"], read["not_understood"]) == (1, 0, 0)
    assert (read["silent_files"], read["not_learned"]) == (3, [])


def test_a_rotation_in_the_middle_of_a_line_makes_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half of a line is at the end of one file, the other half at the beginning of the next; both are told."""
    logs = tmp_path / "logs"
    logs.mkdir()
    for name, log in logs_of("java")["i_j07_maxpoll"].items():
        at = log.index(b"Adding newly assigned partitions: ", len(log) // 3) + 45
        (logs / f"{name}.1").write_bytes(log[:at])
        (logs / name).write_bytes(log[at:])
    _, _, _, read = audit(logs, tmp_path / "out", capsys)
    found = document(tmp_path / "out")["findings"]
    errors = {one["kind"] for one in found if one["severity"] == "error"}
    assert errors <= {"double_ownership"}
    told = [one["summary"] for one in found if one["kind"] == "unparsed_lines"]
    assert (len(told), read["enough"]) == (4, True)


def test_records_whose_group_no_line_tells_are_named(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """sarama prints what it owns without its group. They are not judged, which is said; alone they give no verdict."""
    log = logs_of("client")["sarama.bounce"]["A.log"]
    lines = [line for line in log.splitlines(keepends=True) if b"g-sarama-bounce" not in line]
    (fleet / "sarama.log").write_bytes(b"".join(lines))
    status, said, _, read = audit(fleet, tmp_path / "out", capsys)
    assert f"\nnot judged, as no line tells the group: {fleet}/sarama.log\n" in said
    assert (status, read["groupless_files"], read["groupless"]) == (1, 1, [f"{fleet}/sarama.log"])
    found = document(tmp_path / "out")["findings"]
    (told,) = (one["summary"] for one in found if f"of sarama in {fleet}/sarama.log" in one["summary"])
    assert " were not judged: no line tells the group they belong to" in told
    assert (
        "Not judged, since no line tells their group: records in 1 file." in (tmp_path / "out/report.html").read_text()
    )
    alone = ["audit", str(fleet / "sarama.log"), "-o", str(tmp_path / "alone"), "--master", "none"]
    assert cli.main(alone) == 2
    assert "no line tells the group of what was read" in capsys.readouterr().err


def test_logs_that_tell_no_time(recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who owned a partition at once with another is not known, which is said above what was found, and on the page."""
    logs = tmp_path / "logs"
    logs.mkdir()
    for name in ("A.log", "B.log"):
        log = (recordings / "j18_topic_deleted" / name).read_bytes()
        (logs / name).write_bytes(re.sub(rb"(?m)^\[[^\]\n]{23}\] ", b"", log))
    status, said, error, read = audit(logs, tmp_path / "out", capsys)
    untimed = f"no verdict on double ownership: {logs}/A.log, {logs}/B.log tell no time"
    assert said.splitlines()[1] == untimed
    assert (status, error, read["timeless_files"]) == (0, "", 2)
    assert (read["start_ms"], read["end_ms"]) == (None, None)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "No verdict on double ownership: 2 files tell no time" in page
    assert "in 2 files (" in page
    assert ", none of which has a time." in page
    (logs / "C.log").write_bytes((recordings / "j18_topic_deleted" / "A.log").read_bytes())
    _, _, _, read = audit(logs, tmp_path / "both", capsys)
    assert read["start_ms"] > 1_700_000_000_000  # the time of those that have one
    text = (tmp_path / "both" / "report.html").read_text()
    assert "1970-01-01" not in text
    assert int(re.findall(r'"steps":\[\[(\d+),', text)[0]) > 1_700_000_000_000


def test_a_share_is_rounded_down_and_told_in_one_way() -> None:
    """Nothing looks better than it is, and nothing at all said is nothing understood."""
    assert str(Understood(9999, 1)) == "99.9 % of 10000 entries of clients"
    assert (Understood(9999, 1).share, Understood(2, 1).share, Understood(0, 0).share) == (0.999, 0.666, 0.0)
    assert Understood(4, 1).is_enough(0.8)
    assert not Understood(79_999, 20_001).is_enough(0.8)
