"""Scenarios of the kit on brokers that are not the kit's own: here ours on sockets, and a real Apache Kafka."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from fsm.capture.real_brokers import can_be_played, isolate
from fsm.cli import main
from fsm.kit.scenario import SETTINGS, Command, Start, Topic
from fsm.kit.scenarios import SCENARIOS
from fsm.testing import LiveBroker

sys.path.append(str(Path(__file__).parents[1] / "conformance"))

import kafka_broker

MEMBER = f"{sys.executable} {Path(__file__).parents[1] / 'kit' / 'adapters' / 'fsm_member.py'}"
SOME = ("fenced", "lost_keepalive", "topic_deleted", "classic_restart")
MORE = (
    *SOME,
    "plain",
    "mute_keepalive",
    "unknown_topic_id",
    "throttled",
    "delayed",
    "stale_commit",
    "static",
    "classic_static",
)


@pytest.fixture(autouse=True)
def sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """The adapter of our member imports what is tested here."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")]))


def run(bootstrap: str, names: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> Any:
    main(["kit", "run", MEMBER, "--broker", bootstrap, "--json", "--scenario", *names])
    return json.loads(capsys.readouterr().out)


@pytest.mark.deep
def test_our_member_on_brokers_that_know_of_no_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    """Faults happen on the way, topics are made and go, records come; it keeps every rule."""
    with LiveBroker({}, settings=SETTINGS) as broker:
        printed = run(broker.bootstrap, SOME, capsys)
        assert [(one["name"], one["passed"]) for one in printed["scenarios"]] == [(name, True) for name in SOME]
        assert (
            printed["checks"]["E1"]
            == printed["checks"]["E4"]
            == printed["checks"]["F4"]
            == printed["checks"]["K17"]
            == "passed"
        )
        assert list(broker.notes("topics")[-1].about["topics"]) == []


@pytest.mark.kafka
def test_our_member_on_a_real_kafka(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same through faults of every kind that can happen on the way."""
    with kafka_broker.broker(tmp_path, {**kafka_broker.STEPS, **SETTINGS}) as (host, port):
        printed = run(f"{host}:{port}", MORE, capsys)
    assert {one["name"] for one in printed["scenarios"] if not one["passed"]} == set()
    checks = {check for check, verdict in printed["checks"].items() if verdict == "passed"}
    assert {"E1", "E2", "E4", "F4", "H9", "L4", "R8", "K17", "K18"} <= checks


def test_which_scenarios_any_broker_allows() -> None:
    """Those that ask for no session that ends at will, no move, no settings, and nothing that stands still."""
    left_out = {name for name, one in SCENARIOS.items() if not can_be_played(one)}
    assert left_out == {
        "slow_interval", "duplicate", "paused", "no_848", "expired", "expired_beside_b", "moved",
        "moved_while_revoking", "classic_expired", "classic_moved",
    }  # fmt: skip


def test_a_scenario_apart_has_its_own_names() -> None:
    """In what clients subscribe to, in topics, and in its group."""
    for name, one in SCENARIOS.items():
        moved = isolate(one, "x1")
        assert moved.group == "kit-x1"
        assert set(moved.topics) == {f"{topic}-x1" for topic in one.topics}
        assert moved.name == name
        for step in moved.steps:
            attribute = {Start: "options", Command: "line", Topic: "name"}.get(type(step))
            text = str(getattr(step, attribute)) if attribute else ""
            assert text.count("-x1") == sum(text.count(topic) for topic in ("foo", "bar", "later")), text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--broker", "nowhere"], "must be HOST:PORT"),
        (
            ["--broker", "127.0.0.1:1", "--scenario", "fenced"],
            "--broker: 127.0.0.1:1: cannot connect: nothing listens there; start the broker, or ",
        ),
        (["--broker", "127.0.0.1:1", "--scenario", "moved"], "moved needs faults that only our brokers have"),
    ],
)
def test_brokers_that_are_none(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that says why."""
    assert main(["kit", "run", "true", *arguments]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert message in line


def test_a_broker_with_long_sessions_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    """Which settings are to be lower."""
    least = {f"group.consumer.{end}session.timeout.ms": "45000" for end in ("min.", "")}
    with LiveBroker({}, settings=least) as broker:
        assert main(["kit", "run", "true", "--broker", broker.bootstrap, "--scenario", "fenced"]) == 2
    assert "lower group.consumer.min.session.timeout.ms" in capsys.readouterr().err
