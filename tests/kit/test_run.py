"""`fsm kit run`: clients as processes, against brokers on sockets, in real time."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from fsm.cli import main
from fsm.kit.processes import run_all
from fsm.kit.scenarios import SCENARIOS

ADAPTERS = Path(__file__).parent / "adapters"
SHORT = ("fenced", "lost_keepalive", "lost_leave")
CLASSIC = ("classic_plain", "classic_static_leader")
SOON = {"E15", "H3", "K4", "K8", "K10", "K24"}
"""Checks of how soon a client does something: a slow machine breaks them, and in virtual time they are held."""


def adapter(name: str) -> str:
    """The command of an adapter in Python."""
    return f"{sys.executable} {ADAPTERS / name}.py"


def chosen(*names: str) -> list[str]:
    """Arguments for these scenarios."""
    return [word for name in names for word in ("--scenario", name)]


@pytest.fixture(autouse=True)
def sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """The adapter of our member imports what is tested here."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")]))


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Status and output."""
    status = main(["kit", "run", *arguments])
    return status, capsys.readouterr().out


def broken(scenario: dict[str, Any]) -> set[str]:
    """The checks of a scenario that failed, but for those that a slow machine breaks."""
    return {one["check"] for one in scenario["findings"] if one["grade"] == "MUST"} - SOON


def test_librdkafka(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The document has the client, each scenario, and each check; traces are kept and judged alike."""
    names = ("fenced", "lost_leave", "mute_keepalive")
    status, text = run(adapter("confluent"), "--json", "--keep", str(tmp_path), *chosen(*names), capsys=capsys)
    document = json.loads(text)
    assert document["client"].startswith("confluent-kafka-python")
    assert [one["name"] for one in document["scenarios"]] == list(names)
    assert [broken(one) for one in document["scenarios"]] == [set(), set(), {"E2"}]
    assert document["scenarios"][2]["passed"] is False
    assert document["checks"]["E2"] == "failed"  # nothing is said after a heartbeat that timed out
    assert document["checks"]["E4"] == "passed"
    assert document["checks"]["K1"] == "not seen"
    (finding,) = [one for one in document["scenarios"][2]["findings"] if one["check"] == "E2"]
    assert finding["grade"] == "MUST"
    assert finding["t_ms"] > 1_000
    assert "owned partitions" in finding["detail"]
    assert status == 1
    assert main(["kit", "judge", "--json", str(tmp_path / "mute_keepalive.jsonl")]) == 1
    assert json.loads(capsys.readouterr().out)["traces"][0]["checks"]["E2"] == "failed"


@pytest.mark.deep
def test_our_member(capsys: pytest.CaptureFixture[str]) -> None:
    """On threads and sockets it passes as in virtual time."""
    status, text = run(adapter("fsm_member"), "--json", *chosen(*SHORT, "classic_cooperative"), capsys=capsys)
    document = json.loads(text)
    assert [broken(one) for one in document["scenarios"]] == [set()] * 4
    assert document["checks"]["E4"] == document["checks"]["E1"] == "passed"
    assert document["checks"]["K24"] != "not seen"
    assert status == (not all(one["passed"] for one in document["scenarios"]))


@pytest.mark.parametrize("name", [pytest.param("kafka_python", marks=pytest.mark.deep), "aio_kafka"])
def test_clients_in_python(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Members of classic groups, alone and with others; restarted as static members."""
    _, text = run(adapter(name), "--json", *chosen(*CLASSIC), capsys=capsys)
    document = json.loads(text)
    seen = {check for check, verdict in document["checks"].items() if verdict != "not seen"}
    assert {"K1", "K2", "K3", "K4", "K5", "K6", "K7", "K17", "K18", "K19", "K20", "K22", "K27"} <= seen
    failed = {check for check, verdict in document["checks"].items() if verdict == "failed"}
    # The heartbeats of aiokafka are too old to name an instance.
    assert failed & {"K1", "K3", "K7", "K19", "K20", "K27"} == ({"K19"} if name == "aio_kafka" else set())


HOSTILE = """
import json, sys
print(json.dumps({"ev": "assign", "partitions": [["<script>alert(1)</script>", 0], "x", [1]]}), flush=True)
print(json.dumps({"ev": "error", "error": "]]></failure><b>&\\u0000\\ud800"}), flush=True)
print("x" * 2_000_000, flush=True)
print("[1]", flush=True)
for line in sys.stdin:
    if line.strip() == "close":
        break
print(json.dumps({"ev": "close_end"}), flush=True)
"""


@pytest.fixture
def stranger(tmp_path: Path) -> str:
    """An adapter of nothing that prints what it should not."""
    path = tmp_path / "stranger.py"
    path.write_text(HOSTILE)
    return f"{sys.executable} {path}"


def test_pages_and_xml_are_well_formed(stranger: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever a client says."""
    _, page = run(stranger, "--html", *chosen("unsupported_assignor"), capsys=capsys)
    assert "<script" not in page
    assert "unsupported_assignor" in page
    _, text = run(stranger, "--junit", *chosen("unsupported_assignor"), capsys=capsys)
    suite = ElementTree.fromstring(text)  # noqa: S314
    assert [case.get("name") for case in suite] == ["unsupported_assignor"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no-such-program", "cannot be started"),
        ("echo hello", "which is not a JSON object"),
        ("false", "ended with status 1 and printed nothing; "),
        ("'", "quote"),
        ("", "empty"),
    ],
)
def test_commands_that_are_no_adapters(command: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that says why."""
    assert main(["kit", "run", command, "--scenario", "fenced"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_folder_that_cannot_be_written_to_is_refused_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine")
    assert main(["kit", "run", "no-such-program", "--keep", str(tmp_path / "file")]) == 2
    assert "file: is not a folder; give --keep a folder that can be written to" in capsys.readouterr().err


def test_ctrl_c_ends_every_client_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a scenario that plays, while others wait for their turn; else the loop would end before their ends."""
    clients: list[asyncio.subprocess.Process] = []
    begin = asyncio.create_subprocess_exec

    async def begin_and_note(*arguments: Any, **named: Any) -> asyncio.subprocess.Process:
        clients.append(await begin(*arguments, **named))
        return clients[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", begin_and_note)

    async def stop() -> None:
        command = [sys.executable, "-c", 'import time; print(\'{"ev": "assign"}\', flush=True); time.sleep(60)']
        running = asyncio.ensure_future(run_all(command, [SCENARIOS[name] for name in SHORT], 1, lambda _: None))
        while not clients:
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert [client.returncode for client in clients] == [-9] * len(clients)

    asyncio.run(stop())


def test_an_unknown_scenario_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With the nearest name."""
    assert main(["kit", "run", "true", "--scenario", "plain", "fence"]) == 2
    assert "did you mean fenced" in capsys.readouterr().err


def test_scenarios_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Every one, with what happens in it."""
    assert main(["kit", "scenarios"]) == 0
    text = capsys.readouterr().out
    assert all(one.name in text and one.about in text for one in SCENARIOS.values())
    assert main(["kit", "scenarios", "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)["scenarios"]] == list(SCENARIOS)
