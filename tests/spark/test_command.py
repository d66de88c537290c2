"""`fsm audit`: what it prints, the JSON contract, exit status, and input of every bad kind. Never a traceback."""

from __future__ import annotations

import gzip
import json
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from page_data import data
from patience import PATIENCE_S, wait_until

from fsm import cli
from fsm.audit.findings import FindingKind, Severity
from fsm.cli.audit_summary import print_summary
from fsm.spark.audit import Result
from fsm.spark.result import MARK, create_workspace
from fsm.spark.tables import COORDINATORS, TABLES

from .conftest import Command, complaints, document, run

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]
LINE = b"[2026-11-21 07:55:%02d,123] INFO [Consumer clientId=a, groupId=g] %s (org.apache.kafka.%s)\n"


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """What a command that must refuse says: one line on stderr, nothing on stdout, exit status 2."""
    assert cli.main(["audit", *map(str, arguments)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    problem = complaints(said.err)
    assert problem.startswith("fsm: ")
    assert problem.count("\n") == 1
    assert "Traceback" not in problem
    return problem


# -- findings and contract ------------------------------------------------------------------------------------


@pytest.fixture
def result(command: Command) -> Path:
    """The folder of a result in which something is found."""
    return command.out


def test_the_summary_says_what_was_read_and_found(command: Command) -> None:
    """Lines and files, counts by kind, the worst incidents with what to try and the worst findings, the report."""
    lines = command.said.splitlines()
    files = sum(len(list(folder.iterdir())) for folder in command.logs)
    understood = r"understood \d+(\.\d)? % of \d+ entries of clients, too little in 3 files"
    assert re.fullmatch(rf"read \d+ lines of {files} files; {understood}", lines[0])
    assert any(line.startswith("  error ") and line.endswith("  double_ownership") for line in lines)
    assert any(re.fullmatch(r"\d+ incidents: \d+ errors, .*", line) for line in lines)
    (number,) = (n for n, line in enumerate(lines) if line.startswith("error: g-spring-j07-maxpoll: "))
    assert "did not poll within max.poll.interval.ms (4000): " in lines[number]
    when = r"  from 2026-11-21 \S+ to \S+ UTC; to try: Let every poll come back within .*"
    assert re.fullmatch(when, lines[number + 1])
    assert re.fullmatch(r"  .*/spring_j07_maxpoll/B\.log:\d+: error: .* both owned .*", lines[number + 2])
    (counts,) = (line for line in lines if re.fullmatch(r"\d+ incidents: .*", line))
    bad = sum(int(count) for count in re.findall(r"(\d+) (?:error|warning)", counts))
    shown = [line for line in lines if re.match(r"(error|warning): ", line)]
    more = f"and {bad - len(shown)} incidents more; " if bad > len(shown) else ""
    summary, _ = data((command.out / "report.html").read_text(encoding="utf-8"))
    assert {name: summary["severities"].get(name, 0) for name in ("error", "warning")} == {
        name: int(count) for count, name in re.findall(r"(\d+) (error|warning)", counts)
    }
    assert lines[-1] == f"{more}report: {command.out / 'report.html'}"


def test_what_was_left_out_is_said_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """An older result inside the input is not read, and its reader is told so."""
    inputs = {"lines": 7, "files": 1, "older_results": ["logs/out", "logs/out-2"], "unreadable": [["c.gz", "cut"]]}
    inputs |= {"understood": 2, "not_understood": 0, "suspects": 1, "silent": [], "silent_files": 0}
    inputs |= {"too_little": [], "too_little_files": 0, "timeless": ["d", "e"], "timeless_files": 2}
    inputs |= {"ownerless": ["g"], "ownerless_groups": 1}
    print_summary(Result(inputs | {"unreadable_files": 1}, {"findings": []}), Path("new"))
    assert capsys.readouterr().out.splitlines() == [
        "read 7 lines of 1 files; understood 66.6 % of 3 entries of clients",
        "no verdict on double ownership: d, e tell no time",
        "no verdict on ownership: no line tells who owned the partitions of g",
        "not read, or not to the end: c.gz (cut)",
        "left out what an audit wrote itself: logs/out, logs/out-2",
        "  nothing found",
        "report: new/report.html",
    ]


def test_the_document_has_the_shape_of_the_contract(result: Path) -> None:
    """Inputs, groups, findings and metrics, with every field of a finding in its type and its order."""
    document = json.loads((result / MARK).read_text())
    assert list(document) == ["inputs", "groups", "incidents", "findings", "metrics"]
    assert document["findings"]
    for found in document["findings"]:
        assert list(found) == [
            *("id", "kind", "severity", "group", "member", "others", "start_ms", "end_ms", "partitions", "cause"),
            *("summary", "piled_up", "evidence"),
        ]
        assert FindingKind(found["kind"]) and Severity(found["severity"])  # noqa: PT018
        assert type(found["start_ms"]) is type(found["end_ms"]) is int
        assert found["evidence"] and all(list(shown) == ["file", "line", "text"] for shown in found["evidence"])  # noqa: PT018
        assert all(isinstance(topic, str) and type(number) is int for topic, number in found["partitions"])
    assert ["spring-j07-maxpoll-foo", 3] in [pair for found in document["findings"] for pair in found["partitions"]]
    (group,) = (group for group in document["groups"] if group["group"] == "g-spring-j07-maxpoll")
    assert (group["members"], group["partitions"], group["coverage"]) == (2, 6, "whole")


def test_findings_stand_in_a_fixed_order(result: Path) -> None:
    """By group, begin, kind and member, as the audit in one process orders them."""
    found = json.loads((result / MARK).read_text())["findings"]
    kinds = [kind.value for kind in FindingKind]
    keys = [(one["group"], one["start_ms"], kinds.index(one["kind"]), one["member"]) for one in found]
    assert len(keys) >= 2
    assert keys == sorted(keys)


def test_every_line_shown_is_the_line_it_names(result: Path) -> None:
    """`file:line` opens at the text that the finding quotes."""
    for found in json.loads((result / MARK).read_text())["findings"]:
        for shown in found["evidence"]:
            line = Path(shown["file"]).read_text().split("\n")[shown["line"] - 1]
            assert shown["text"] == line[:400].replace("\t", "\ufffd")


def test_the_folder_holds_report_document_and_tables(result: Path) -> None:
    """What was needed on the way is gone, nothing is left beside the folder, and everybody may read it.

    No coordinator's log was given, so there is no table of what one said, nor of what it kept for its members.
    """
    assert sorted(path.name for path in result.iterdir()) == sorted(
        [MARK, "report.html", *(f"{stage}.parquet" for stage in TABLES)]
    )
    assert [path.name for path in result.parent.iterdir()] == [result.name]
    assert result.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(("severities", "bad"), [((), False), (("info",), False), (("info", "warning"), True)])
def test_a_finding_above_info_is_something_found(severities: tuple[str, ...], bad: bool) -> None:
    """What is only for information leaves the exit status 0."""
    totals = [{"kind": "late_leave", "severity": severity, "count": 1} for severity in severities]
    assert Result({}, {"findings": totals}).bad is bad


# -- refusals -------------------------------------------------------------------------------------------------


def test_no_such_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path that does not exist is named, though others do."""
    (tmp_path / "a.log").write_text("x\n")
    said = refusal(capsys, tmp_path / "a.log", tmp_path / "gone", "-o", tmp_path / "out")
    assert f"{tmp_path / 'gone'}: no such file or folder" in said


def test_an_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without files gives nothing to read, and no result."""
    (tmp_path / "logs" / "deeper").mkdir(parents=True)
    assert "no file to read" in refusal(capsys, tmp_path / "logs", "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_read_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder of the result is not read, so one that is given for both is refused, with other paths and alone."""
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a.log").write_bytes(LINE % (1, b"x", b"y"))
    (tmp_path / "b.log").write_bytes(LINE % (1, b"x", b"y"))
    for paths in ([logs], [tmp_path / "b.log", logs]):
        said = refusal(capsys, *paths, "-o", logs)
        assert said == f"fsm: {logs}: is the folder of the result (-o) too, which is not read; give -o another\n"
    assert [file.name for file in logs.iterdir()] == ["a.log"]


@pytest.mark.parametrize("address", ["s3://bucket/logs", "https://host/a.log", "abfss://c@a.example/logs"])
def test_an_address_is_no_path(address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Stores are mounted, whether or not the audit follows."""
    for more in ([], ["--follow"]):
        said = refusal(capsys, address, "-o", tmp_path / "out", *more)
        assert (
            said == f"fsm: {address}: only files are read; mount the store, or download the logs, and give the path\n"
        )


def test_a_topic_is_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The address of a topic needs --follow."""
    said = refusal(capsys, "kafka://127.0.0.1:9/t", "-o", tmp_path / "out")
    assert said == "fsm: kafka://127.0.0.1:9/t: a topic can only be followed; give --follow\n"


def test_an_unknown_time_zone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A time zone that does not exist, or that is a path, is named with its option."""
    for zone in ("Mars/Olympus", "../../etc/passwd", ""):
        assert "--timezone" in refusal(capsys, tmp_path, "-o", tmp_path / "out", "--timezone", zone)


def test_a_master_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A master that Spark would not know is refused before Spark starts."""
    (tmp_path / "a.log").write_text("x\n")
    for master in ("nonsense", "local[0]", "local[2", "spark://"):
        said = refusal(capsys, tmp_path / "a.log", "-o", tmp_path / "out", "--master", master)
        assert f"{master!r} is not a Spark master" in said
    assert [path.name for path in tmp_path.iterdir()] == ["a.log"]


def test_an_output_folder_that_holds_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of the user's is ever overwritten: a folder with other files, or a file, is refused and left alone."""
    (tmp_path / "a.log").write_text("x\n")
    assert "holds files that are not of an audit" in refusal(capsys, tmp_path / "a.log", "-o", tmp_path)
    assert "is a file" in refusal(capsys, tmp_path / "a.log", "-o", tmp_path / "a.log")
    assert (tmp_path / "a.log").read_text() == "x\n"


def test_an_output_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where no folder can be made, that is said before anything is read."""
    (tmp_path / "a.log").write_text("x\n")
    assert "cannot be written" in refusal(capsys, tmp_path / "a.log", "-o", tmp_path / "a.log" / "out")
    assert "cannot be written" in refusal(capsys, tmp_path / "a.log", "-o", "/proc/nowhere/out")


def test_only_a_binary_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with nothing but a binary file cannot be audited, and the file is named."""
    (tmp_path / "core").write_bytes(bytes(range(256)) * 100)
    assert f"{tmp_path / 'core'}: binary file" in refusal(capsys, tmp_path / "core", "-o", tmp_path / "out")


NEVER_SAID = (
    b"[2026-11-23 10:00:00,123] INFO [Consumer clientId=c, groupId=g] Never said "
    b"(org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)\n"
)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("empty.log", b"", "is empty"),
        ("nginx.log", b'10.0.0.1 - - [21/Nov/2026:07:55:00 +0000] "GET / HTTP/1.1" 200 5\n' * 50, "no known client"),
        ("cut.log.gz", gzip.compress(b"nothing to see\n" * 9000, mtime=0)[:40], "EOFError"),
        (
            "newer.log",
            NEVER_SAID,
            "1 line like those of clients, and none was understood",
        ),
        ("fake.gz", b"\x1f\x8b" + b"this is no gzip at all", "cannot be read: BadGzipFile"),
    ],
    ids=["empty", "nginx", "cut", "newer", "fake"],
)
def test_nothing_that_a_client_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes, expected: str
) -> None:
    """Empty files, logs of other programs and files that are damaged from their beginning give one line."""
    (tmp_path / name).write_bytes(content)
    said = refusal(capsys, tmp_path / name, "-o", tmp_path / "out")
    assert expected in said
    assert str(tmp_path / name) in said
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_wrong_format(recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Asked for librdkafka, the audit does not read a Java client's log."""
    logs = recordings / "i_j09_kill9"
    assert "no librdkafka log" in refusal(capsys, logs, "-o", tmp_path / "out", "--format", "librdkafka")


def test_a_failing_worker_is_one_line(
    recordings: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a worker raises arrives as its last error and the stage, without a stack, and an older result stays."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / MARK).write_text("older")

    def judge(*_: object) -> Any:
        raise ZeroDivisionError("nobody\nexpected this")

    monkeypatch.setattr("fsm.spark.pipeline.judge", judge)
    said = refusal(capfd, recordings / "i_j09_kill9", "-o", tmp_path / "out")
    assert "Spark failed while judging: ZeroDivisionError: nobody" in said
    assert (tmp_path / "out" / MARK).read_text() == "older"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# -- bad files among good ones --------------------------------------------------------------------------------


def client(number: int) -> bytes:
    """The log of a Java client that joins, is given a partition, revokes it and closes, at INFO."""
    name = b"c%d" % number
    said = (
        (b"Subscribed to topic(s): t", "clients.consumer.internals.AsyncKafkaConsumer"),
        (
            b"Adding newly assigned partitions: t-%d" % number,
            "clients.consumer.internals.ConsumerRebalanceListenerInvoker",
        ),
        (
            b"Revoke previously assigned partitions [t-%d]" % number,
            "clients.consumer.internals.ConsumerRebalanceListenerInvoker",
        ),
    )
    lines = [LINE % (number + at, text, where.encode()) for at, (text, where) in enumerate(said)]
    return b"".join(lines).replace(b"clientId=a", b"clientId=" + name)


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One audit of a folder with bad files of every kind: its document, what it says of each file, what it prints."""
    logs = tmp_path_factory.mktemp("bad") / "logs"
    logs.mkdir()
    packed = gzip.compress(b"".join(client(n) for n in (20, 21, 22)) * 400, mtime=0)
    files = {
        "good.log": client(0),
        "empty.log": b"",
        "core": bytes(range(256)) * 100,
        "other.log": b"10.0.0.1 GET /index.html 200\n" * 7,
        "cut.log.gz": packed[: len(packed) // 2],
        "packed.log": gzip.compress(client(1), mtime=0),
        "fake.gz": client(2),
        "false.gz": b"\x1f\x8b\x08 but no gzip",
        "latin.log": client(3).replace(b"topic(s): t", b"topic(s): t\xfc\xff"),
        "long.log": client(4) + b"[2026-11-21 07:55:00,123] INFO " + b"x" * 10_000_000 + b"\n" + client(5),
        "windows.log": b"\xef\xbb\xbf" + client(6).replace(b"\n", b"\r\n"),
        "nul.log": b"\0" * 5000 + b"\n" + client(7) + b"\0\0\n",
        "open.log": client(8)[:-30],
    }
    for name, content in files.items():
        (logs / name).write_bytes(content)
    (logs / "loop").symlink_to(logs, target_is_directory=True)
    (logs / "again.log").symlink_to(logs / "good.log")
    (logs / "itself").symlink_to(logs / "itself")
    (logs / "nowhere").symlink_to(logs / "gone")
    (logs / "unreadable.log").symlink_to("/proc/self/mem")
    Path(str(logs / "name-") + "\udcff.log").write_bytes(client(9))
    out = logs.parent / "out"
    (out / "old.parquet").mkdir(parents=True)
    (out / MARK).write_text("older")
    with redirect_stdout(StringIO()) as printed, redirect_stderr(StringIO()) as complained:
        status = cli.main(["audit", str(logs), "-o", str(out), "--split-bytes", "3000000", "--json"])
    document: dict[str, Any] = json.loads(printed.getvalue())
    said: dict[str, list[str]] = {}
    for one in document["findings"]:
        if one["kind"] == FindingKind.UNPARSED_LINES.value:
            said.setdefault(Path(one["evidence"][0]["file"]).name, []).append(one["summary"])
    streams = {"out": printed.getvalue(), "err": complaints(complained.getvalue()), "status": status}
    return {"document": document, "said": said, "result": out, **streams}


def test_json_is_all_that_stdout_holds(bad: dict[str, Any]) -> None:
    """The document is printed byte for byte, and the result has taken the place of an older one.

    The file whose lines stand there 400 times is for information, like the bad ones.
    """
    assert bad["out"].encode() == (bad["result"] / MARK).read_bytes()
    assert (bad["err"], bad["status"]) == ("", 0)
    assert not (bad["result"] / "old.parquet").exists()


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("core", "was not read: binary file"),
        ("other.log", ": 7 lines, "),
        ("cut.log.gz", "was not read to its end: EOFError"),
        ("false.gz", "was not read"),
        ("long.log", "too long and cut in"),
        ("nul.log", ": 2 lines, "),
        ("itself", "was not read: cannot be read"),
        ("nowhere", "was not read: cannot be read: No such file"),
        ("unreadable.log", "was not read: cannot be read: Input/output error"),
        ("name-?.log", "its name is not in UTF-8"),
    ],
)
def test_a_bad_file_is_a_finding(bad: dict[str, Any], file: str, expected: str) -> None:
    """Each file that was not read, or not understood, is said with its reason while the rest is audited."""
    assert any(expected in summary for summary in bad["said"][file])


def test_good_files_are_no_finding(bad: dict[str, Any]) -> None:
    """Empty files, gzip under another name, text named .gz, links to known files and folders need no mention."""
    for name in ("good.log", "empty.log", "packed.log", "fake.gz", "windows.log", "again.log"):
        assert name not in bad["said"]


def test_every_readable_member_is_followed(bad: dict[str, Any]) -> None:
    """Beside, behind and in spite of all that, every client is seen, those of damaged files too, and each once."""
    (group,) = [one for one in bad["document"]["groups"] if one["group"] == "g"]
    assert group["members"] == 12
    inputs = bad["document"]["inputs"]
    assert (inputs["files"], inputs["unreadable_files"], inputs["gzipped_files"]) == (12, 7, 3)
    assert inputs["cut_lines"] == 1


# -- what is chosen, and what is enough -----------------------------------------------------------------------


def test_a_group_and_a_time_are_chosen(command: Command, tmp_path: Path) -> None:
    """Only the groups that are asked for are judged, and only findings of the time that is asked for are told."""
    every = document(command.out)
    ((group, _),) = Counter(one["group"] for one in every["findings"] if one["group"]).most_common(1)
    own = [one for one in every["findings"] if one["group"] == group]
    at_ms = min(one["start_ms"] for one in own)
    found = run(command.logs, tmp_path / "out", groups=(group,), until_ms=at_ms)
    assert [one["group"] for one in found["groups"]] == [group]
    expected = [one for one in own if one["start_ms"] <= at_ms]
    assert [one for one in found["findings"] if one["group"]] == expected
    assert 0 < len(expected) < len(own)


def test_a_time_of_which_there_is_no_line(recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """That nothing was found then would look like good news; when the logs are from is told."""
    given = (recordings / "j07_maxpoll", "-o", tmp_path / "out", "--master", "none")
    early, late = "2026-11-20T07:00Z", "2026-11-22T07:00Z"
    said = refusal(capsys, *given, "--since", late)
    assert "--since 2026-11-22 07:00:00.000: these logs end before; they are from 2026-11-21 07:54:" in said
    assert "--until 2026-11-20 07:00:00.000: these logs begin after" in refusal(capsys, *given, "--until", early)
    assert f"--since {late}: is after --until" in refusal(capsys, *given, "--since", late, "--until", early)
    assert cli.main(["audit", *map(str, given), "--since", early, "--until", late]) == 1


def test_a_group_that_is_not_there(recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that are there are named."""
    said = refusal(capsys, recordings / "i_j09_kill9", "-o", tmp_path / "out", "--group", "nope", "--master", "none")
    assert "nope: no such group in these logs; there are g-i-j09-kill9" in said


def test_too_little_understood_is_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where most of what looks like a client's is not understood, nothing is said to be right: exit status 2."""
    good = LINE % (1, b"Subscribed to topic(s): t", b"clients.consumer.internals.ClassicKafkaConsumer")
    bad = LINE.replace(b"%s", b"Words that no release of the client has (%s)", 1) % (2, b"", b"x.ConsumerCoordinator")
    bad = bad.replace(b"(org.apache.kafka.x.", b"(org.apache.kafka.clients.consumer.internals.")
    (tmp_path / "a.log").write_bytes(good + 4 * bad)
    given = ["audit", str(tmp_path / "a.log"), "-o", str(tmp_path / "out"), "--master", "none"]
    assert cli.main(given) == 2
    said = capsys.readouterr()
    assert said.out.startswith(
        "read 5 lines of 1 files in this process, without Spark; understood 20 % of 5 entries of clients\n"
    )
    assert said.err == (
        f"fsm: {tmp_path / 'out'}: not enough was understood: 20 % of 5 entries of clients; "
        "see what was not understood in the report, or give --min-understood\n"
    )
    assert "Not enough was understood: 20 % of what clients say" in (tmp_path / "out" / "report.html").read_text()
    assert cli.main([*given, "--min-understood", "20%"]) == 0


def test_a_file_that_tells_nothing_is_named(recordings: Path, tmp_path: Path) -> None:
    """On the terminal, in the document and in the report."""
    logs = tmp_path / "logs"
    shutil.copytree(recordings / "i_j09_kill9", logs)
    (logs / "C.log").write_text("nothing that a client wrote\n" * 3)
    found = run([logs], tmp_path / "out", master="none")
    assert (found["inputs"]["silent_files"], found["inputs"]["silent"]) == (1, [str(logs / "C.log")])
    assert "no client was understood in 1 file" in (tmp_path / "out" / "report.html").read_text()


def test_the_readme_lists_the_tables() -> None:
    """Each table of a result, and no other, has a row."""
    shown = (Path(__file__).parents[2] / "fsm" / "audit" / "README.md").read_text(encoding="utf-8")
    rows = shown.split("| table | a row is |")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE) == [*TABLES, *COORDINATORS]


# -- stopped, or not alone ------------------------------------------------------------------------------------


def test_two_audits_into_one_folder(recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second is refused while the first writes, and may write afterwards."""
    with create_workspace(tmp_path / "out"):
        given = (recordings / "i_j09_kill9", "-o", tmp_path / "out", "--master", "none")
        assert "another audit is writing it" in refusal(capsys, *given)
    assert not list(tmp_path.iterdir())


@pytest.mark.deep
def test_a_full_disk(recordings: Path, tmp_path: Path) -> None:
    """Where no more can be written, one line says so, and nothing half-written is left beside an older result."""
    # -B: bytecode would be cut there too, and break whoever reads it next.
    audit = ["audit", str(recordings), "-o", str(tmp_path / "out"), "--master", "none"]
    command = [sys.executable, "-B", "-m", "fsm", *audit]

    def little() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=little, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"fsm: .*[Ff]ile too large.*\n", complaints(done.stderr)), done.stderr
    assert list(tmp_path.iterdir()) == []


STARTS_S, WORKS_S = 0, 3.5
"""So long after Java was started it starts, and Spark works."""


@pytest.mark.parametrize(
    ("name", "after_s"),
    [
        ("SIGINT", WORKS_S),
        pytest.param("SIGINT", STARTS_S, marks=pytest.mark.deep),
        pytest.param("SIGTERM", WORKS_S, marks=pytest.mark.deep),
        pytest.param("SIGHUP", STARTS_S, marks=pytest.mark.deep),
        # One handler has all three, so each of them at each time asks the same once more.
        pytest.param("SIGTERM", STARTS_S, marks=pytest.mark.slow),
        pytest.param("SIGHUP", WORKS_S, marks=pytest.mark.slow),
    ],
)
def test_a_signal_leaves_nothing_behind(recordings: Path, tmp_path: Path, name: str, after_s: float) -> None:
    """Whether Java is starting or Spark works: one line, no hidden folder, no process that goes on."""
    logs = tmp_path / "logs"
    for number in range(60):
        shutil.copytree(recordings / "j05_throw_revoke", logs / f"{number}")
    command = [sys.executable, "-m", "fsm", "audit", str(logs), "-o", str(tmp_path / "out")]
    heard = getattr(signal, name)
    audit = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(heard, signal.SIG_DFL),  # noqa: PLW1509  # SIGHUP is not heard under nohup
    )
    wait_until(lambda: audit.poll() is not None or any("java" in one for one in _family(audit.pid)))
    assert audit.poll() is None, audit.communicate()
    time.sleep(after_s)
    audit.send_signal(heard)
    said, told = audit.communicate(timeout=PATIENCE_S)
    assert (complaints(told), said, audit.returncode) == ("fsm: stopped; no result was written\n", "", 130)
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]
    wait_until(lambda: not _family(audit.pid))


CTRL_C_AT_THE_START = """
import os, signal, sys
from pyspark.sql import SparkSession
from fsm.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # who is started in the background may ignore it
start = SparkSession.Builder.getOrCreate
def start_and_signal(self):
    session = start(self)
    if signal.getsignal(signal.SIGINT).__module__.startswith("pyspark"):
        os._exit(3)
    os.kill(os.getpid(), signal.SIGINT)
    return session
SparkSession.Builder.getOrCreate = start_and_signal
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.deep
def test_ctrl_c_while_a_context_of_spark_starts(recordings: Path, tmp_path: Path) -> None:
    """Spark does not take SIGINT over, which it would answer with calls in the midst of its own start."""
    command = [sys.executable, "-c", CTRL_C_AT_THE_START, "audit"]
    command += [str(recordings / "j05_throw_revoke"), "-o", str(tmp_path / "out")]
    audit = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (complaints(audit.stderr), audit.stdout, audit.returncode) == (
        "fsm: stopped; no result was written\n",
        "",
        130,
    )
    assert not list(tmp_path.glob("*out*"))


def _family(session: int) -> list[str]:
    """The processes of a session that run; of one that has ended nobody may have asked how."""
    asked = ["ps", "-o", "stat=,args=", "--sid", str(session)]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    return [line for line in found.stdout.splitlines() if line.strip() and not line.startswith("Z")]


# -- what a reviewer found ------------------------------------------------------------------------------------


def test_no_code_of_a_log_reaches_a_terminal(tmp_path: Path) -> None:
    """Names are shown with the codes of what a terminal would obey, beside our own colours."""
    line = LINE % (1, b"Subscribed to topic(s): t", b"clients.consumer.internals.ClassicKafkaConsumer")
    (tmp_path / "a.log").write_bytes(line + b"binary \x1b[31m\n" * 3)
    (tmp_path / "\x1b[31mevil.log").write_bytes(b"told nothing\n")
    command = [sys.executable, "-m", "fsm", "audit", str(tmp_path), "-o", str(tmp_path / "out"), "--master", "none"]
    said = subprocess.run(command, capture_output=True, check=False).stdout
    assert b"\\x1b[31mevil.log" in said
    assert b"\x1b" not in said


def test_a_log_with_its_newest_entry_first_keeps_its_evidence(recordings: Path, tmp_path: Path) -> None:
    """Lines are shown wherever they stand."""
    logs = tmp_path / "logs"
    logs.mkdir()
    for log in sorted((recordings / "x09_coop_sigstop").glob("*.log")):
        entries = re.split(rb"\n(?=\[2026-)", log.read_bytes().rstrip(b"\n"))
        (logs / log.name).write_bytes(b"\n".join(reversed(entries)) + b"\n")
    found = run([logs], tmp_path / "out", master="none")["findings"]
    shown = [line for one in found for line in one["evidence"] if one["kind"] != "unparsed_lines"]
    assert shown
    assert all(line["text"] and line["line"] for line in shown)


def test_a_layout_that_cannot_be_learned_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a client speaks in a layout that nobody knows, what was tried stands in the error, and what to do."""
    strange = b"~~%d~~x [Consumer clientId=a, groupId=g] Words of no release\n"
    (tmp_path / "a.log").write_bytes(b"".join(strange % number for number in range(40)))
    said = refusal(capsys, tmp_path / "a.log", "-o", tmp_path / "out", "--master", "none")
    assert "no layout could be learned; tried: " in said
    assert "--layout" in said
