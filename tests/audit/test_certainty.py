"""Findings that may come from lines that were not understood are less severe, and say so."""

from datetime import UTC
from pathlib import Path

import pytest
from recordings import logs

from fsm.audit import audit_files
from fsm.audit.findings import Finding, FindingKind, Severity, finding
from fsm.audit.hygiene.identity import Key
from fsm.audit.reading.certainty import FileFacts, lower_uncertain
from fsm.audit.reading.piece import read_piece
from fsm.audit.reading.unparsed import report_file
from fsm.audit.rows import Place
from fsm.logs import formats
from fsm.logs.reading.pieces import WHOLE, Piece

SAID = "(not every line of a was understood)"


def found(kind: FindingKind, member: str = "a", others: tuple[str, ...] = ()) -> Finding:
    return finding(kind, "g", member, 1, 9_000, summary="what", places=[Place("A.log", 0)], others=others)


@pytest.mark.parametrize(
    ("missed", "one", "is_doubted"),
    [
        ({"client-a": 5}, found(FindingKind.ILLEGAL_TRANSITION), True),
        ({"client-a": 9_001}, found(FindingKind.ILLEGAL_TRANSITION), False),
        ({"": 0}, found(FindingKind.ILLEGAL_TRANSITION), True),
        ({"client-b": 5}, found(FindingKind.ILLEGAL_TRANSITION), False),
        ({}, found(FindingKind.ILLEGAL_TRANSITION), False),
        ({"client-a": 5}, found(FindingKind.DOUBLE_OWNERSHIP, "c", ("a",)), True),
        ({"client-a": 5}, found(FindingKind.DOUBLE_OWNERSHIP, "c", ("d",)), False),
        ({"client-a": 5}, found(FindingKind.UNOWNED_PARTITION, "c"), True),
        ({"client-a": 5}, found(FindingKind.FENCING_LOOP), False),
        ({"client-a": 5}, found(FindingKind.MEMBER_OUT_FOR_GOOD), False),
        ({"client-a": 5}, found(FindingKind.ILLEGAL_TRANSITION, "a [process 2]"), True),
        ({"client-a": 5}, found(FindingKind.ILLEGAL_TRANSITION, "b [process 2]"), False),
    ],
)
def test_a_line_that_was_not_understood_counts_for_whom_it_concerns(
    missed: dict[str, int], one: Finding, is_doubted: bool
) -> None:
    """Lines without a client id count for every client of the file, any member may own a partition, and what comes
    after a finding did not cause it. A warning stays one."""
    files = {"A.log": FileFacts(1, (), (), tuple(missed.items()))}
    (weighed,) = lower_uncertain([one], files, {("g", "client-a", "A.log", ""): Key("g", "a")})
    assert (weighed.severity is not one.severity) == (is_doubted and one.severity is Severity.ERROR)
    assert weighed.severity is not Severity.INFO
    assert weighed.summary == (f"{one.summary} {SAID}" if is_doubted else one.summary)


def test_facts_for_a_group_leave_out_other_clients() -> None:
    facts = FileFacts(3, (), (), (("", 1), ("a", 2), ("b", 3)))
    assert facts.for_clients(["b", "c"]).missed_since == (("", 1), ("b", 3))


@pytest.mark.parametrize("scenario", ["j02_second_joins", "j07_maxpoll", "x02_coop_rolling"])
@pytest.mark.loop(2)
def test_no_error_is_made_of_lines_that_were_not_understood(scenario: str, tmp_path: Path) -> None:
    """Every third line of the clients ends with what no client prints; the kinds of errors stay those of the whole."""
    audits = []
    for folder, behind in (("whole", ""), ("broken", ", by bob")):
        for name, data in logs("java")[scenario].items():
            lines = data.decode().splitlines()
            text = "\n".join(
                line + behind if i % 3 == 0 and "clientId" in line else line for i, line in enumerate(lines)
            )
            path = tmp_path / folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text + "\n")
        audits.append(audit_files(sorted((tmp_path / folder).iterdir())))
    whole, broken = ({(f.kind, f.member) for f in one.findings if f.severity is Severity.ERROR} for one in audits)
    assert broken <= whole
    assert all(one.missed for group in audits[1].groups for one in group.files.values())
    illegal = [f.summary for f in audits[1].findings if f.kind is FindingKind.ILLEGAL_TRANSITION]
    assert bool(illegal) == (scenario != "j07_maxpoll")
    assert all("not every line of" in summary for summary in illegal)


def test_no_error_is_made_of_half_a_step(tmp_path: Path) -> None:
    """What was folded between two states is not put together everywhere."""
    path = tmp_path / "A.log"
    path.write_bytes(
        logs("librdkafka")["c06_maxpoll"]["A.log"].replace(b"init -> wait-assign-call ", b"init ->\nwait", 1)
    )
    broken = [one for one in audit_files([path]).findings if one.kind is FindingKind.ILLEGAL_TRANSITION]
    assert {one.severity for one in broken} == {Severity.WARNING}
    assert all(one.summary.endswith("(not every line of A#consumer-1 was understood)") for one in broken)


def tell(path: Path) -> str:
    """What the audit finds of a file, not of its group."""
    summary = read_piece(Piece(str(path), 0, WHOLE), formats(), UTC).summary
    return "; ".join(one.summary for one in report_file([summary]))


@pytest.mark.parametrize(
    ("archive", "scenario"),
    [("java", "json_j02_second_joins"), ("java", "x03_coop_maxpoll"), ("librdkafka", "c02_two")],
)
def test_no_error_is_made_of_sorted_lines(archive: str, scenario: str, tmp_path: Path) -> None:
    """`sort -u` leaves the lines of a millisecond in another order: what depends on it is for information."""
    for name, data in logs(archive)[scenario].items():
        (tmp_path / name).write_bytes(b"".join(sorted(set(data.splitlines(keepends=True)))))
        assert "are sorted" in tell(tmp_path / name)
    found = audit_files(sorted(tmp_path.iterdir())).findings
    assert not [one for one in found if one.severity is Severity.ERROR]
    steps = [one for one in found if one.kind is FindingKind.ILLEGAL_TRANSITION]
    assert {one.severity for one in steps} == {Severity.INFO}
    assert all("(a log does not tell the order of lines of one time" in one.summary for one in steps)


def test_lines_of_different_times_are_not_sorted(tmp_path: Path) -> None:
    """A log whose times rise is in the order of its texts; a few lines of one time are so by chance."""
    lines = logs("client")["kafkajs.sigstop"]["B.log"].splitlines(keepends=True)
    assert lines == sorted(lines)
    path = tmp_path / "B.log"
    path.write_bytes(b"".join(lines))
    assert "sorted" not in tell(path)


def test_no_error_is_made_of_lines_that_two_processes_tore(tmp_path: Path) -> None:
    """One wrote into the other's line: both are doubted, in whatever part of a line it was."""
    files = logs("librdkafka")["k_x03_coop_maxpoll"]
    of = [(name, line) for name in ("A.log", "B.log") for line in files[name].split(b"\n")[:-1]]
    rows = sorted(of, key=lambda row: (row[1].split(b"|")[1], row[0]))
    for seed in (1, 5, 14):
        lines = [row[-1] for row in rows]
        for i in range(seed, len(rows) - 1, 17):
            if rows[i][0] != rows[i + 1][0]:
                at = i * 7 % len(lines[i])
                lines[i : i + 2] = lines[i][:at] + lines[i + 1], lines[i][at:]
        (tmp_path / "all.log").write_bytes(b"\n".join(lines) + b"\n")
        found = audit_files([tmp_path / "all.log"]).findings
        assert found
        certain = [one for one in found if one.severity is Severity.ERROR and "not every line" not in one.summary]
        assert {one.kind for one in certain} <= {FindingKind.DOUBLE_OWNERSHIP}
