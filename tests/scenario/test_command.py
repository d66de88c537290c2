"""`fsm replay` and `fsm dialects` as commands: what they print, their exit status, their JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsm.cli import main
from fsm.protocol.releases import RELEASES

FOLDER = Path(__file__).parents[1] / "scenarios"
CONVERSATION = FOLDER / "conversation.yaml"
MIGRATION = Path(__file__).parents[1] / "cases" / "seed_migration.yaml"
ROUNDS = Path(__file__).parents[1] / "cases" / "seed_connect.yaml"


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of one command."""
    status = main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_replay_prints_every_step_and_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    """Each step with its time, what happened in it, and at the end whether all was as expected."""
    status, out, err = run(capsys, "replay", FOLDER / "revoke_step.yaml")
    assert (status, err) == (0, "")
    assert out.splitlines()[-9:] == [
        "   9    5000 ms  poll {timeout_ms: 0}",
        "                # The next poll takes it out, runs the listener, and tells the background so.",
        "                application event queue + AsyncPollEvent",
        "                callback on_partitions_revoked [orders-1]",
        "                application event queue + ConsumerRebalanceListenerCallbackCompletedEvent",
        "                poll() returns",
        "                background event queue + PartitionsAssignedEvent(full [orders-0], [])",
        "9 steps, 7 expectations, all met",
        "",
    ]


def test_replay_shows_the_first_difference(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A difference is marked at its step, told with file and line, expected and got, and makes the status 1."""
    file = tmp_path / "talk.yaml"
    file.write_text(CONVERSATION.read_text().replace("{epoch: 2}", "{epoch: 5}", 1))
    status, out, _ = run(capsys, "replay", file, "--quiet")
    assert status == 1
    assert out.splitlines()[1] == (
        f"{file}:53: step 10 (5000 ms  answer {{member_epoch: 2}}): epoch: expected 5, got 2"
    )
    _, out, _ = run(capsys, "replay", file)
    assert "                ! epoch: expected 5, got 2\n  11    5000 ms  wait 5000\n" in out


def test_replay_sets_two_releases_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    """With --against each step shows what both did where they part, and the status is 1."""
    status, out, _ = run(capsys, "replay", FOLDER / "late_metadata.yaml", "--dialect", "4.3", "--against", "4.4")
    assert status == 1
    assert "RECONCILING to ACKNOWLEDGING (REC_PARTIAL_ACK)              |\n" in out
    assert "                ! state: 4.3.1 ACKNOWLEDGING, 4.4.0 RECONCILING\n" in out
    assert out.splitlines()[-2].startswith(f"{FOLDER / 'late_metadata.yaml'}:9: step 4 (0 ms  poll): state: 4.3.1 ")


def test_replay_of_one_release_against_itself_is_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    """4.4 is 4.4.0."""
    status, out, _ = run(capsys, "replay", CONVERSATION, "--against", "4.4", "--quiet")
    assert (status, out.splitlines()[1]) == (0, "18 steps, no difference")


def test_replay_prints_json_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    """One document: scenarios with their steps, fields and differences."""
    status, out, err = run(capsys, "replay", CONVERSATION, ROUNDS, "--json")
    document = json.loads(out)
    assert (status, err, document["differences"]) == (0, "", 0)
    assert [s["kind"] for s in document["scenarios"]] == ["conversation"] + ["Connect rounds"] * 5
    first = document["scenarios"][0]
    assert (first["dialect"], first["expectations"], len(first["steps"])) == ("4.4.0", 57, 18)
    assert first["steps"][1]["seen"]["state"] == "JOINING"


def test_replay_json_has_the_differences(capsys: pytest.CaptureFixture[str]) -> None:
    """A difference has step, place, field, expected and got; `against` names the other dialect."""
    status, out, _ = run(
        capsys, "replay", FOLDER / "late_metadata.yaml", "--dialect", "4.3", "--against", "4", "--json"
    )
    assert status == 2
    status, out, _ = run(
        capsys, "replay", FOLDER / "late_metadata.yaml", "--dialect", "4.3", "--against", "4.4", "--json"
    )
    (scenario,) = json.loads(out)["scenarios"]
    assert (status, scenario["dialect"], scenario["against"]) == (1, "4.3.1", "4.4.0")
    assert scenario["differences"][0] == {
        "step": 4,
        "title": "     0 ms  poll",
        "where": f"{FOLDER / 'late_metadata.yaml'}:9",
        "field": "state",
        "expected": "ACKNOWLEDGING",
        "got": "RECONCILING",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.yaml"], "gone.yaml: cannot be read: No such file or directory; give a scenario file"),
        ([str(FOLDER)], "cannot be read: Is a directory; give a scenario file"),
        ([str(CONVERSATION), "--dialect", "3.9"], "unknown dialect '3.9'; one of 4.0.0, "),
        ([str(CONVERSATION), "--against", "shipped"], "unknown dialect 'shipped'; one of 4.0.0, "),
        (
            [str(ROUNDS), "--dialect", "4.4"],
            f"{ROUNDS}: unknown profile '4.4' of Connect; choose from shipped, document",
        ),
        ([str(ROUNDS), "--picture", "x.svg"], "x.svg: --picture draws one scenario, not 5"),
        (
            [str(CONVERSATION), "--picture", "x.gif"],
            "unknown picture format '.gif'; name it FILE.svg, FILE.mmd or FILE.puml",
        ),
        ([], "the following arguments are required: SCENARIO; see fsm replay --help"),
    ],
)
def test_replay_refuses_on_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    """What cannot be used is one line on stderr with what to do, and status 2."""
    status, out, err = run(capsys, "replay", *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_replay_refuses_what_is_no_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are refused; a byte order mark is none of the text."""
    file = tmp_path / "talk.yaml"
    file.write_bytes(b"\xff\xfe")
    assert run(capsys, "replay", file) == (2, "", f"fsm: {file}: not UTF-8 text; save the scenario as UTF-8\n")
    file.write_bytes(b"\xef\xbb\xbf" + CONVERSATION.read_bytes())
    assert run(capsys, "replay", file, "--quiet")[0] == 0


@pytest.mark.parametrize(("name", "begins"), [("talk.svg", "<svg xmlns="), ("talk.mmd", "---\ntitle: ")])
def test_replay_draws_a_conversation(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, begins: str
) -> None:
    """--picture writes who told whom what, in the form of the file's suffix."""
    assert run(capsys, "replay", CONVERSATION, "--quiet", "--picture", tmp_path / name)[0] == 0
    text = (tmp_path / name).read_text()
    assert text.startswith(begins)
    for lane in ("application thread", "application event queue", "background event queue", "coordinator"):
        assert lane in text


def test_kinds_say_how_they_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    """--kinds prints the syntax of every kind, and needs no file."""
    with pytest.raises(SystemExit) as left:
        main(["replay", "--kinds"])
    out = capsys.readouterr().out
    assert left.value.code == 0
    headings = [line for line in out.splitlines() if line.startswith("== ")]
    assert headings == [
        "== Connect rounds ==",
        "== Connect cases ==",
        "== Connect cluster ==",
        "== consumer group ==",
        "== conversation ==",
        "== deployment ==",
        "== migration trace ==",
        "== path ==",
        "== requests ==",
    ]
    assert "\n    - wait: 5000\n" in out


def test_replay_draws_requests(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A lane for each member by its name, the coordinator last; answers are dashed, the group's states are told."""
    assert run(capsys, "replay", FOLDER / "classic_group.yaml", "--quiet", "--picture", tmp_path / "a.mmd")[0] == 0
    lines = (tmp_path / "a.mmd").read_text().splitlines()
    assert lines[4:7] == ["    participant L0 as A", "    participant L1 as B", "    participant L2 as coordinator"]
    assert "    Note over L2: state CompletingRebalance 2" in lines
    assert "    L2-->>L1: member_id=B, generation_id=2, protocol_name=range, leader=A, members=[]" in lines


def test_rounds_have_no_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What tells of nobody who tells anybody anything cannot be drawn, and says so."""
    status, _, err = run(capsys, "replay", MIGRATION, "--picture", tmp_path / "a.svg")
    assert (status, "nothing to draw; pictures are drawn of conversations and requests" in err) == (2, True)


# fsm dialects


def test_dialects_lists_parts_and_flags(capsys: pytest.CaptureFixture[str]) -> None:
    """Each part with its dialects, each flag with its releases, its ticket and what it changes."""
    status, out, _ = run(capsys, "dialects")
    lines = out.splitlines()
    assert status == 0
    assert lines[0].startswith("consumer member: 4.0.0, 4.0.1, 4.0.2, 4.1.0, ")
    assert "  F6 OWN_PENDING_NEVER_BLOCKS  (since 4.0.2 and 4.1.2 and 4.2.0, KAFKA-19449)" in lines
    assert "  ONE_PARTIAL_ACK  (since 4.4.0, KAFKA-20145)" in lines
    assert "  TAIL_REVOKED  (in document)" in lines
    assert all(len(line) <= 118 for line in lines if line.startswith("      "))


def test_dialects_shows_one_release(capsys: pytest.CaptureFixture[str]) -> None:
    """A branch means its latest patch; the flags it has come first, those it has not after `without`."""
    status, out, _ = run(capsys, "dialects", "4.3")
    member, coordinator = out.split("coordinator as of 4.3.1: ")
    has, lacks = member.split("\nwithout\n")
    assert status == 0
    assert member.startswith("consumer member as of 4.3.1: ")
    assert "COLLECT_GATE" in has
    assert "ONE_PARTIAL_ACK" in lacks
    assert "F24 DESCRIBE_SHOWS_PENDING" in coordinator.split("\nwithout\n")[0]


def test_dialects_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """One document, in the order of the data; a named dialect says of each flag whether it has it."""
    _, out, _ = run(capsys, "dialects", "--json")
    parts = {part["part"]: part for part in json.loads(out)["parts"]}
    assert list(parts) == ["consumer member", "coordinator", "Connect's assignor"]
    flags = {flag["name"]: flag for flag in parts["coordinator"]["flags"]}
    assert flags["F1 FRESH_EPOCH_IS_ONE"] == {
        "name": "F1 FRESH_EPOCH_IS_ONE",
        "rule": "a fresh group has group epoch and target epoch 1, so its first subscriber gets epoch 2",
        "older": "both are 0, and the first member gets 1",
        "since": ["4.3.0"],
        "until": None,
        "ticket": "KAFKA-20268",
        "dialects": [*(release for release in RELEASES if release >= "4.3.0"), "fixed"],
    }
    _, out, _ = run(capsys, "dialects", "shipped", "--json")
    (shipped,) = json.loads(out)["parts"]
    assert (shipped["dialect"], {flag["has"] for flag in shipped["flags"]}) == ("shipped", {False})


def test_dialects_refuses_an_unknown_name(capsys: pytest.CaptureFixture[str]) -> None:
    """One line with the nearest name there is."""
    assert run(capsys, "dialects", "documents") == (2, "", "fsm: unknown dialect 'documents'; did you mean document?\n")


@pytest.mark.parametrize("command", ["replay", "dialects"])
def test_help_has_examples(capsys: pytest.CaptureFixture[str], command: str) -> None:
    """Help shows how the command is used and what its exit statuses mean."""
    with pytest.raises(SystemExit) as left:
        main([command, "--help"])
    out = capsys.readouterr().out
    assert left.value.code == 0
    assert f"\n  fsm {command}" in out
    assert "exit status: 0" in out
