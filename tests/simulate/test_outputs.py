"""What a run leaves: text, JSON, pictures, traces that the audit reads, variants side by side, smaller failing runs."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from simulate_scene import deployment

from fsm.cli import main
from fsm.errors import InputError
from fsm.simulate import GroupOutcome, Outcome, Truth, Violation, fleet, read, read_file, shrink, simulate, write
from fsm.simulate.deployment import Deployment
from fsm.simulate.fleet import Fleet, Row, run_seeds
from fsm.simulate.group import GroupRun
from fsm.simulate.invariants import Watcher
from fsm.simulate.picture import draw
from fsm.simulate.variants import vary

PAUSED = """
deployment: shop
lasts: 8m
topics: {orders: 12}
services:
  a: {topics: [orders], processes: 3}
  k: {topics: [orders], processes: 3, protocol: classic, assignor: cooperative-sticky}
faults:
- {at: 3m, pause: a-0, for: 90s}
- {at: 3m, pause: k-0, for: 90s}
- {at: 6m, crash: a-1, away: 20s}
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A deployment in a file."""
    path = tmp_path / "shop.yaml"
    path.write_text(PAUSED)
    return path


def test_the_audit_of_a_trace_finds_what_really_happened(
    shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every partition that had two users is found with both of them, and no other one."""
    assert main(["simulate", str(shop), "--trace", "-o", str(tmp_path)]) == 0
    truth = json.loads((tmp_path / "truth.json").read_text())
    assert [list(one)[1:3] for one in truth["faults"]] == [["at", "pause"], ["at", "pause"], ["at", "crash"]]
    capsys.readouterr()
    audit = ["audit", str(tmp_path / "trace.jsonl"), "--format", "trace", "--master", "none", "--json"]
    assert main([*audit, "-o", str(tmp_path / "audit")]) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    found = {
        (one["group"], tuple(partition))
        for one in findings
        if one["kind"] == "double_ownership"
        for partition in one["partitions"]
    }
    really = {(one["group"], tuple(one["partition"])) for one in truth["two_users"]}
    assert found == really
    assert len(really) == 8


@cache
def traced() -> tuple[dict[str, Any], Truth]:
    """What a run comes to whose trace is kept."""
    truth = Truth()
    return simulate(read(PAUSED, "shop.yaml"), 1, truth=truth).as_document(), truth


@pytest.mark.deep
def test_a_trace_comes_from_the_same_run() -> None:
    """Whoever keeps a trace steps every heartbeat, with the same result."""
    assert traced()[0] == simulate(read(PAUSED, "shop.yaml"), 1).as_document()


def test_a_clock_that_is_ahead_shows_in_the_trace_alone() -> None:
    """The records of that host are later; what happens is the same."""
    (document, plain), ahead = traced(), Truth()
    skewed = read(PAUSED + "skews: {a-host-0: 5s}\n", "b")
    assert simulate(skewed, 1, truth=ahead).as_document() == document
    moved = {b.client_id: b.ts_ms - a.ts_ms for a, b in zip(plain.records, ahead.records, strict=True)}
    assert moved == {"a-0": 5_000, "a-1": 0, "a-2": 0, "k-0": 0, "k-1": 0, "k-2": 0}


def test_files_and_json(shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same numbers in each; pictures are well-formed, and the same for the same run."""
    assert main(["simulate", str(shop), "--json", "-o", str(tmp_path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads((tmp_path / "metrics.json").read_text())
    assert document["totals"]["shared_ms"] > 100_000
    assert sum(document["groups"][0]["series"]["moves"]) == document["groups"][0]["totals"]["moves"]
    picture = (tmp_path / "picture.svg").read_text()
    assert ET.fromstring(picture).tag.endswith("svg")  # noqa: S314  # our own
    assert picture == draw([simulate(read_file(shop), 0)])


def test_two_variants_side_by_side(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A shorter session makes a paused member's partitions free sooner."""
    short, long = "session.timeout.ms=10000", "session.timeout.ms=45000"
    shop.write_text(PAUSED.replace("  a: {topics: [orders], processes: 3}\n", "").replace("a-", "k-"))
    assert main(["simulate", str(shop), "--compare", long, short, "--json"]) == 0
    first, second = (run["totals"] for run in json.loads(capsys.readouterr().out)["runs"])
    assert second["unowned_ms"] < first["unowned_ms"]
    assert main(["simulate", str(shop), "--compare", "4.0", "protocol=consumer", "--seeds", "1-2"]) == 0
    assert "over 2 runs" in capsys.readouterr().out


def test_a_setting_is_for_each_what_its_protocol_has() -> None:
    """Of a group on its way from one protocol to the other: a client's own, and that of the brokers for consumers."""
    services = "services: {new: {topics: [orders]}, old: {topics: [orders], protocol: classic}}\n"
    mixed = read(f"deployment: d\nlasts: 1m\ntopics: {{orders: 2}}\n{services}", "mixed.yaml")
    for variant in ("session.timeout.ms=50000", "session.timeout.ms=50000, 4.3"):
        found = vary(mixed, variant)
        assert isinstance(found, Deployment)
        assert {name: dict(one.settings) for name, one in found.services.items()} == {
            "new": {},
            "old": {"session.timeout.ms": "50000"},
        }
        assert [dict(one.settings) for one in found.brokers.values()] == [
            {"group.consumer.session.timeout.ms": "50000"}
        ]
    alike = vary(mixed, "session.timeout.ms=50000,protocol=classic")
    assert isinstance(alike, Deployment)
    assert {one.settings["session.timeout.ms"] for one in alike.services.values()} == {"50000"}
    both = vary(mixed, "max.poll.interval.ms=50000")
    assert isinstance(both, Deployment)
    assert {one.settings["max.poll.interval.ms"] for one in both.services.values()} == {"50000"}
    simulate(found, 0)
    later = "plans: [{at: 30s, restart: old, with: {protocol: consumer}}]\n"
    changing = read(f"deployment: d\nlasts: 1m\ntopics: {{orders: 2}}\n{services}{later}", "changing.yaml")
    with pytest.raises(InputError, match=r"--compare .*; set the brokers' group\.consumer\.session\.timeout\.ms"):
        vary(changing, "session.timeout.ms=50000")


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("4.9", "unknown coordinator dialect '4.9'"),
        ("protocol=connect", "consumer or classic"),
        ("sesion.timeout.ms=1", "did you mean session.timeout.ms?"),
        ("assignor=sticky", "no assignor 'sticky'"),
        ("session.timeout.ms=soon", "session.timeout.ms"),
        ("protocol=consumer,session.timeout.ms=10000", "set the brokers' group.consumer.session.timeout.ms"),
    ],
)  # fmt: skip
def test_a_variant_that_says_nothing_is_told(variant: str, message: str) -> None:
    """One line that names the variant."""
    with pytest.raises(InputError, match="--compare") as found:
        vary(deployment("eager"), variant)
    assert message in str(found.value)


def test_fleets_come_to_the_same_in_a_loop_and_in_processes() -> None:
    """Rows are added up in the order of the seeds."""
    given = read(PAUSED, "shop.yaml")
    alone = Fleet.of(run_seeds(given, range(1, 4)))
    assert Fleet.of(run_seeds(given, range(1, 4), jobs=2)).as_document() == alone.as_document()
    assert alone.runs == 3
    assert alone.measures["moves"].least <= alone.measures["moves"].total / 3 <= alone.measures["moves"].most


def test_a_fleet_in_processes_hands_out_a_few_seeds_at_a_time() -> None:
    """So a range of any length can be asked for, and left after any row."""
    given = replace(read(PAUSED, "shop.yaml"), lasts_ms=1_000, deeds=(), rates=())
    taken: list[int] = []
    rows = run_seeds(given, (taken.append(seed) or seed for seed in range(5_000)), jobs=2)
    assert next(rows).seed == 0
    assert len(taken) < 100
    rows.close()  # type: ignore[attr-defined]


@pytest.mark.deep
def test_a_run_that_fails_is_made_small_and_fails_still(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of twenty faults the one that matters is left; what is written runs again, and fails.

    A promise is added that does not hold: nobody uses a partition that another one uses.
    """

    def note_doubles(self: Watcher) -> None:
        if self._cluster.doubles:
            self.add("a partition has two users")

    monkeypatch.setattr(Watcher, "note_doubles", note_doubles)
    path, shrunk = tmp_path / "shop.yaml", tmp_path / "shrunk.yaml"
    given = deployment("consumer")
    path.write_text(write(given))
    assert main(["simulate", str(path), "--seed", "1", "--shrink", "-o", str(tmp_path)]) == 1
    assert "a partition has two users" in capsys.readouterr().out
    found = read_file(shrunk)
    assert [deed.what for deed in found.deeds] in (["cut"], ["pause"], ["crash"])
    assert (found.services["a"].processes, found.lasts_ms < given.lasts_ms, found.loses) == (2, True, 0.0)
    assert read(write(found), "shrunk.yaml") == found
    assert main(["simulate", str(shrunk)]) == 1
    assert "VIOLATED" in capsys.readouterr().out
    assert main(["replay", str(shrunk)]) == 1
    assert "violated: expected [], got [a at " in capsys.readouterr().out


def test_an_interrupt_tells_of_the_seeds_so_far(
    monkeypatch: pytest.MonkeyPatch, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """How many ran, and which failed; of two variants, the one that was running."""

    def run_seed(_: object, seed: int) -> Row:
        if seed == 4:
            raise KeyboardInterrupt
        return Row(seed, {}, {}, ("late",) if seed == 2 else ())

    monkeypatch.setattr(fleet, "run_seed", run_seed)
    assert main(["simulate", str(shop), "--seeds", "1-9"]) == 130
    assert capsys.readouterr() == ("", "fsm: stopped after 3 of 9 seeds; 1 failed: 2\n")
    assert main(["simulate", str(shop), "--seeds", "3-4", "--compare", "4.0", "4.4"]) == 130
    assert capsys.readouterr().err == "fsm: stopped after 1 of 2 seeds of 4.0; 0 failed\n"


@pytest.mark.parametrize("folder", [False, True], ids=["on stdout", "in a folder"])
def test_an_interrupt_keeps_the_smallest_deployment_so_far(
    monkeypatch: pytest.MonkeyPatch, shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], folder: bool
) -> None:
    """It is written where the smallest of all would be."""
    runs = count(1)

    def simulate(*_: object) -> Outcome:
        if next(runs) == 4:
            raise KeyboardInterrupt
        return Outcome("shop", 0, 0, 1, [GroupOutcome("a", {}, {}, violations=[Violation(0, "late")])])

    monkeypatch.setattr(shrink, "simulate", simulate)
    assert main(["simulate", str(shop), "--shrink", *(["-o", str(tmp_path)] if folder else [])]) == 130
    printed, said = capsys.readouterr()
    where = tmp_path / "shrunk.yaml" if folder else "on stdout"
    assert said == f"fsm: stopped after 3 runs; the smallest deployment so far that fails is {where}\n"
    text = (tmp_path / "shrunk.yaml").read_text() if folder else printed
    runs = count(1)
    assert main(["simulate", str(shop), "--shrink", "--json"]) == 130
    assert json.loads(capsys.readouterr().out) == {"runs": 3, "deployment": text}
    assert read(text, "shrunk.yaml").lasts_ms < read_file(shop).lasts_ms


def test_a_deployment_is_replayed_fault_by_fault(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What nothing violates meets what is expected of it; two releases part where their measures do."""
    assert main(["replay", str(shop)]) == 0
    printed = capsys.readouterr().out
    assert "3m pause a-0 for 1m30s" in printed
    assert main(["replay", str(shop), "--dialect", "4.0", "--against", "4.0"]) == 0


def test_what_cannot_be_asked_is_told(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2, one line."""
    together = (["--trace", "-o", "x", "--seeds", "1-2"], ["--shrink", "--seeds", "1-2"], ["--master", "local[1]"])
    for options in (
        *together,
        ["--trace"],
        ["--logs", "info"],
        ["--logs", "loud", "-o", "x"],
        ["--seeds", "5-1"],
        ["--seeds", "many"],
        ["--jobs", "0"],
        ["--compare", "4.0", "9"],
        ["-o", str(shop)],
    ):
        assert main(["simulate", str(shop), *options]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_members_and_coordinators_are_really_looked_at() -> None:
    """A small group's every step is; some members' every step is."""
    run = GroupRun(deployment("consumer"), "a", 1)
    run.begin(())
    run.run(30_000)
    assert run.watcher.looks > 10
    assert sum(client.member.observe is not None for client in run.clients.values()) == 6  # type: ignore[attr-defined]
