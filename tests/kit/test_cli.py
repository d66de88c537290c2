"""`fsm kit`: the list of checks, and traces that are judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsm.cli import main
from fsm.kit import CHECKS
from fsm.wire import to_line
from tests.kit.recorded import TRACES, load, traces


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some recordings as traces."""
    made = tmp_path_factory.mktemp("traces")
    for scenario, client, lines in traces(TRACES):
        if scenario in ("unknown_member", "plain"):
            text = "".join(f"{to_line(one)}\n" for one in load(lines))
            (made / f"{scenario}-{client}.jsonl").write_text(text, encoding="utf-8")
    return made


def test_checks_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """As text and as JSON, every one."""
    assert main(["kit", "checks"]) == 0
    text = capsys.readouterr().out
    assert all(check.rule in text and check.clause in text for check in CHECKS.values())
    assert main(["kit", "checks", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["checks"]
    assert [one["id"] for one in listed] == list(CHECKS)


def test_a_trace_is_judged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """1 where a MUST failed, with time, member, expected and got; 0 where none did."""
    assert main(["kit", "judge", str(folder / "plain-java.jsonl")]) == 0
    assert "MUST" not in capsys.readouterr().out
    assert main(["kit", "judge", str(folder / "unknown_member-plat.jsonl")]) == 1
    lines = capsys.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("  MUST E5"))
    assert "A: expected epoch 0 after UNKNOWN_MEMBER_ID" in lines[at + 1]
    assert "got epoch 2 with rebalance timeout" in lines[at + 2]


def test_traces_are_judged_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One document, whatever the number of traces; times from the begin of each."""
    names = [str(folder / name) for name in ("plain-java.jsonl", "unknown_member-plat.jsonl")]
    assert main(["kit", "judge", "--json", *names]) == 1
    first, second = json.loads(capsys.readouterr().out)["traces"]
    assert first["trace"] == names[0]
    assert first["checks"]["J1"] == "passed"
    assert second["checks"]["E5"] == "failed"
    (finding,) = [one for one in second["findings"] if one["check"] == "E5"]
    assert finding["grade"] == "MUST"
    assert 0 < finding["t_ms"] < 10_000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no exchanges"),
        ("{", "not JSON"),
        ('{"event": "exchange"}', "not a line of a trace"),
        ("[1]", "not a line"),
    ],
)
def test_what_is_no_trace_is_refused(
    content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that names the file."""
    path = tmp_path / "trace.jsonl"
    path.write_text(content)
    assert main(["kit", "judge", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert str(path) in line


def test_a_trace_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, too."""
    assert main(["kit", "judge", str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl" in capsys.readouterr().err
