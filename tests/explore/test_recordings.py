"""What was recorded: scenarios, traces and captures, with everybody in a lane."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from strolls import check_whole

from fsm.check import check, make_model, scenario
from fsm.errors import InputError
from fsm.explore import ModelSession
from fsm.explore.documents import all_steps
from fsm.explore.logs import open_log
from fsm.explore.recording import MOST_LANES, Moment, Part, Recording
from fsm.explore.scenarios import is_scenario, open_scenario
from fsm.scenario.files import read
from fsm.trace import Kind, TraceRecord

ROOT = Path(__file__).parents[1]
SCENARIOS = sorted(path for path in (ROOT / "scenarios").glob("*.yaml") if "members" not in path.name)
CASES = [ROOT / "cases" / "seed_connect.yaml", ROOT / "cases" / "seed_migration.yaml"]


def components_after(session: Any, steps: int) -> dict[str, Any]:
    """The components after so many steps."""
    return dict(session.steps(steps, 0)["position"]["components"])


def find(session: Any, text: str) -> int:
    """The number of the first step that is told so."""
    return next(number for number, step in enumerate(all_steps(session), 1) if text in step["text"])


# Scenarios


@pytest.mark.parametrize("path", [*SCENARIOS, *CASES], ids=lambda path: path.stem)
@pytest.mark.loop(9)
def test_every_scenario_is_told_step_by_step(path: Path) -> None:
    """Whatever its kind: deltas come to positions, and states are of the tables of their components."""
    assert is_scenario(read(path))
    session = open_scenario(path)
    check_whole(session)
    assert session.opening()["kind"] == "recording"


def test_a_conversation_fills_and_empties_both_queues() -> None:
    """The member has two queues; between its thread and the coordinator there are messages."""
    session = open_scenario(ROOT / "scenarios" / "conversation.yaml")
    opening = session.opening()
    assert [(one["name"], one["role"]) for one in opening["components"]] == [
        ("member", "member"),
        ("coordinator", "coordinator"),
    ]
    at = find(session, "application event queue: TopicSubscriptionChangeEvent")
    application, background = components_after(session, at)["member"]["queues"]
    assert (application["name"], background["name"]) == ("application event queue", "background event queue")
    assert [text.partition("(")[0] for text in application["items"]] == ["TopicSubscriptionChangeEvent"]
    steps = list(all_steps(session))
    taken = next(step for step in steps if step["text"].startswith("application event queue to background thread"))
    assert taken["delta"]["components"]["member"]["queues"][0]["items"] == []
    sent = next(step for step in steps if step["receiver"] == "coordinator")
    assert sent["sender"] == "member"
    assert sent["message"].startswith("ConsumerGroupHeartbeat(")
    states = [step["delta"]["components"].get("member", {}).get("cells") for step in steps]
    lit = [cells[0]["state"] for cells in states if cells]
    assert {"UNSUBSCRIBED", "JOINING", "RECONCILING", "STABLE", "FENCED"} <= set(lit)


def test_a_group_in_virtual_time_is_told_as_it_goes() -> None:
    """What happens while time passes is a step at its own time."""
    session = open_scenario(ROOT / "scenarios" / "consumer_group.yaml")
    starts = next(step for step in all_steps(session) if "starts using" in step["text"])
    assert starts["at_ms"] is not None
    last = components_after(session, session.opening()["length"])
    assert last["coordinator"]["cells"][0]["table"] == "consumer-group"


def test_a_difference_is_what_is_broken(tmp_path: Path) -> None:
    """What a scenario expects and does not get."""
    text = (ROOT / "scenarios" / "conversation.yaml").read_text(encoding="utf-8")
    path = tmp_path / "wrong.yaml"
    path.write_text(text.replace("state: FENCED", "state: STALE", 1), encoding="utf-8")
    broken = [step["delta"]["broken"] for step in all_steps(open_scenario(path)) if step["delta"]["broken"]]
    assert broken == [["state: FENCED"]]


def test_one_of_several_scenarios(tmp_path: Path) -> None:
    """By its number."""
    cases = CASES[0]
    titles = [open_scenario(cases, number).opening()["title"] for number in (1, 2)]
    assert titles[0] != titles[1]
    with pytest.raises(InputError, match=r"no scenario 99; it holds \d+"):
        open_scenario(cases, 99)
    assert tmp_path.is_dir()


def test_the_coordinator_of_a_deployment_is_shown_beside_its_members(tmp_path: Path) -> None:
    """Its group, and what it knows of each member, whenever that is news; of each group there is one."""
    path = tmp_path / "shop.yaml"
    path.write_text(
        "deployment: shop\nlasts: 2m\nseed: 3\ntopics: {orders: 2}\n"
        "services: {checkout: {topics: [orders], processes: 2}, old: {topics: [orders], protocol: classic}}\n"
        "faults: [{at: 1m, pause: checkout-0, for: 50s}]\n"
    )
    session = open_scenario(path)
    check_whole(session)
    hubs = [one["name"] for one in session.opening()["components"] if one["role"] == "coordinator"]
    assert hubs == ["checkout: coordinator", "old: coordinator"]
    at = find(session, "checkout: coordinator acts as a timer runs out")  # the session of the one that is paused
    before, after = (components_after(session, steps)["checkout: coordinator"] for steps in (at - 1, at))
    assert [(cell["of"], cell["state"]) for cell in before["cells"]] == [
        ("", "STABLE"),
        ("checkout-0", "STABLE"),
        ("checkout-1", "STABLE"),
    ]
    assert (before["said"], after["said"]) == ("STABLE, group epoch 3", "ASSIGNING, group epoch 4")
    assert [(cell["of"], cell["state"]) for cell in after["cells"]] == [("", "ASSIGNING"), ("checkout-1", "STABLE")]
    fields = dict(map(tuple, before["fields"]))
    assert (fields["group epoch"], fields["target epoch"], fields["checkout-0 epoch"]) == ("3", "3", "3, before that 3")
    assert (fields["checkout-0 assigned"], fields["checkout-1 target"]) == ("orders-1", "orders-0")
    old = dict(map(tuple, components_after(session, at)["old: coordinator"]["fields"]))
    assert (old["generation"], old["old-0 assigned"]) == ("1", "orders-0, orders-1")
    alone = open_scenario(path, group="old")
    assert [one["name"] for one in alone.opening()["components"]] == ["old-0", "coordinator"]


def test_a_deployment_is_told_by_what_its_members_write(tmp_path: Path) -> None:
    """In virtual time, under its seed; of machines of one's own the model is walked."""
    path = tmp_path / "shop.yaml"
    path.write_text(
        "deployment: shop\nlasts: 2m\nseed: 3\ntopics: {orders: 2}\n"
        "services: {checkout: {topics: [orders], processes: 2}}\nfaults: [{at: 1m, pause: checkout-0, for: 50s}]\n"
    )
    session = open_scenario(path)
    check_whole(session)
    assert session.opening()["source"] == f"{path}, seed 3"
    assert [one["name"] for one in session.opening()["components"]] == ["checkout-0", "checkout-1", "coordinator"]
    texts = [step["text"] for step in all_steps(session)]
    assert any("fenced" in text for text in texts)
    with pytest.raises(InputError, match="holds nothing of a group 'other'"):
        open_scenario(path, group="other")
    large = tmp_path / "large.yaml"  # its run would take minutes
    large.write_text(
        path.read_text().replace("processes: 2}", "processes: 2}, b: {topics: [orders], processes: 10000}")
    )
    with pytest.raises(InputError, match="holds 10002 members; give at most 100: choose a --group"):
        open_scenario(large)
    with pytest.raises(InputError, match="holds 10000 members"):
        open_scenario(large, group="b")
    (tmp_path / "door.yaml").write_text(
        "fsm: 1\nname: door\nstates: {OPEN: one can pass, SHUT: nobody can}\nevents: {PUSHED: somebody pushed}\n"
        "initial: SHUT\nrows:\n- {states: [SHUT], events: [PUSHED], steps: [OPEN]}\n"
        "- {states: [OPEN], events: [PUSHED], steps: [SHUT]}\n"
    )
    path.write_text(
        "deployment: house\nlasts: 1m\nmachines:\n  door: {table: door.yaml, count: 2, happens: {PUSHED: 10s}}\n"
    )
    walked = open_scenario(path)
    assert isinstance(walked, ModelSession)
    assert [one["text"] for one in walked.at([])["options"]] == ["door-0 PUSHED", "door-1 PUSHED"]


# Counterexamples


@pytest.fixture(scope="module")
def counterexample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `fsm check -o` writes it."""
    model = make_model("lock")
    (found,) = check(model, disturb=["expire"], disturbances=1).violations
    path = tmp_path_factory.mktemp("found") / "lock.yaml"
    path.write_text(scenario(found, model.made_by), encoding="utf-8")
    return path


def test_a_counterexample_is_a_walk_that_one_may_leave(counterexample: Path) -> None:
    """Its steps are a path in the model, whose end breaks the property."""
    session = open_scenario(counterexample)
    assert isinstance(session, ModelSession)
    check_whole(session)
    opening = session.opening()
    assert (opening["title"], opening["can_branch"]) == ("writes come in the order of the lock", True)
    path = session.describe_path()["path"]
    assert len(path) == opening["length"] > 5
    assert session.at(path[:3], 3)["options"]
    assert session.steps(len(path), 0)["position"]["broken"] == ["writes come in the order of the lock"]


def test_a_counterexample_of_another_version_is_refused_with_its_line(counterexample: Path, tmp_path: Path) -> None:
    """The step that there is not."""
    path = tmp_path / "old.yaml"
    path.write_text(counterexample.read_text(encoding="utf-8").replace("do: ann asks", "do: ann begs", 1))
    with pytest.raises(InputError) as refused:
        open_scenario(path)
    message = str(refused.value)
    assert "old.yaml:" in message
    assert "no such step here; possible: " in message
    assert "it may be of another version" in message


# Traces and logs


def record(ts_ms: int, kind: Kind, **about: Any) -> str:
    """A line of a trace."""
    return TraceRecord(ts_ms, kind, **{"group": "g", **about}).to_json() + "\n"


def test_a_trace_has_a_lane_for_each_member(tmp_path: Path) -> None:
    """States, epochs and what is owned, in the order of time; the coordinator has a lane of its own."""
    a, b = {"client_id": "a", "member_id": "a-0"}, {"client_id": "b", "member_id": "b-0"}
    moved = {"machine": "consumer-member/4.0.2", "state": "JOINING", "next_state": "RECONCILING"}
    lines = [
        record(3, Kind.ASSIGN_BEGIN, partitions=(("foo", 0), ("foo", 1)), **a),
        record(1, Kind.STARTED, **a),
        record(2, Kind.TRANSITION, epoch=1, **moved, **a),
        record(4, Kind.ASSIGN_END, **a),
        record(5, Kind.STARTED, **b),
        record(6, Kind.REVOKE_BEGIN, partitions=(("foo", 1),), **a),
        record(7, Kind.REVOKE_END, **a),
        record(8, Kind.FENCED, detail="FENCED_MEMBER_EPOCH", **a),
        record(9, Kind.MEMBER_STATE, thread="coordinator", next_state="STABLE", epoch=2, full=(("foo", 1),), **b),
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(lines))
    session = open_log(path)
    check_whole(session)
    opening = session.opening()
    assert [(one["name"], one["role"], one["tables"]) for one in opening["components"]] == [
        ("a", "member", ["consumer-member"]),
        ("b", "member", []),
        ("coordinator", "coordinator", ["consumer-group-member"]),
    ]
    assert [step["at_ms"] for step in all_steps(session)] == list(range(1, 10))
    there = components_after(session, 3)["a"]
    assert there["cells"] == [{"table": "consumer-member", "state": "RECONCILING", "of": ""}]
    assert ["callback", "assign foo-0, foo-1"] in there["fields"]
    assert ["owns", "foo-0, foo-1"] in there["fields"]
    last = components_after(session, 9)
    assert ["owns", "foo-0"] in last["a"]["fields"]
    assert ["last error", "fenced: FENCED_MEMBER_EPOCH"] in last["a"]["fields"]
    assert last["coordinator"]["cells"] == [{"table": "consumer-group-member", "state": "STABLE", "of": "b"}]


def test_processes_under_one_client_id_have_lanes_of_their_own(tmp_path: Path) -> None:
    """Where they speak at the same time; one after the other they are one."""

    def lanes(members: Sequence[str]) -> list[str]:
        path = tmp_path / "trace.jsonl"
        beats = (record(at, Kind.HEARTBEAT_SENT, client_id="c", member_id=who) for at, who in enumerate(members))
        path.write_text("".join(beats))
        return [one["name"] for one in open_log(path).opening()["components"]]

    assert lanes("xxyy") == ["c"]
    assert lanes("xyxy") == ["c (x)", "c (y)"]
    assert lanes(["2TX1YJdKR0-Jm4fZFZW6GQ", "c-0f3c2d11-7b"] * 2) == ["c (2TX1YJdK)", "c (0f3c2d11)"]
    assert lanes(["c-12345678-a", "c-12345678-b"] * 2) == ["c (c-12345678-a)", "c (c-12345678-b)"]


def test_groups_are_told_apart(tmp_path: Path) -> None:
    """All of them with their names, or one that is chosen."""
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(record(at, Kind.STARTED, group=group, client_id="a") for at, group in enumerate("gh")))
    assert [one["name"] for one in open_log(path).opening()["components"]] == ["g: a", "h: a"]
    assert [one["name"] for one in open_log(path, "h").opening()["components"]] == ["a"]
    with pytest.raises(InputError, match="holds nothing of a group 'i'"):
        open_log(path, "i")


def test_what_an_audit_says_is_broken_while_it_lasts(tmp_path: Path) -> None:
    """Two members own one partition, from the second one's callback to the first one's."""
    a, b = {"client_id": "a", "member_id": "a-0"}, {"client_id": "b", "member_id": "b-0"}
    lines = [
        record(1_000, Kind.STARTED, thread="app", settings={"group.protocol": "consumer", "version": "4.4.0"}, **one)
        for one in (a, b)
    ]
    lines += [
        record(2_000, Kind.ASSIGN_BEGIN, thread="app", partitions=(("foo", 0),), **a),
        record(2_001, Kind.ASSIGN_END, thread="app", **a),
        record(3_000, Kind.ASSIGN_BEGIN, thread="app", partitions=(("foo", 0),), **b),
        record(3_001, Kind.ASSIGN_END, thread="app", **b),
        record(5_000, Kind.REVOKE_BEGIN, thread="app", partitions=(("foo", 0),), **a),
        record(5_001, Kind.REVOKE_END, thread="app", partitions=(("foo", 0),), **a),
        record(9_000, Kind.HEARTBEAT_OK, thread="background", epoch=3, **b),
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(lines))
    broken = [step["delta"]["broken"] for step in all_steps(open_log(path))]
    assert [bool(one) for one in broken] == [False] * 4 + [True] * 4 + [False]
    assert "both owned foo-[0]" in broken[5][0]


@pytest.mark.deep
def test_a_large_trace_is_read_once_and_asked_anywhere(tmp_path: Path) -> None:
    """Of 12,000 records any part is told alone."""
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(record(at, Kind.HEARTBEAT_OK, client_id=f"c{at % 7}", epoch=at) for at in range(12_000)))
    session = open_log(path)
    found = session.steps(11_990, 100)
    assert len(found["steps"]) == 10
    assert ["epoch", "11989"] in found["position"]["components"]["c5"]["fields"]


@pytest.mark.parametrize("content", [b"", b"hello\n", b"\x00\xff" * 4_000, b'{"v": 99}\n', b"{}\n"])
def test_what_is_none_of_these_is_refused(tmp_path: Path, content: bytes) -> None:
    """On one line."""
    path = tmp_path / "other.bin"
    path.write_bytes(content)
    with pytest.raises(InputError, match="holds no model, scenario, trace, capture or log"):
        open_log(path)


def test_more_than_can_be_shown_is_refused() -> None:
    """Too many lanes, and none."""
    parts = [Part(f"m{number}") for number in range(MOST_LANES + 1)]
    with pytest.raises(InputError, match=rf"holds {MOST_LANES + 1} members; give at most {MOST_LANES}"):
        Recording("many", "", parts, [Moment("x")])
    with pytest.raises(InputError, match="holds no step"):
        Recording("none", "", parts, [])


# Captures


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two consumers of either protocol, as `fsm capture` saw them."""
    path = tmp_path_factory.mktemp("captured") / "session.jsonl"
    path.write_bytes(lzma.decompress((ROOT / "capture" / "session.jsonl.xz").read_bytes()))
    return path


def test_a_capture_has_messages_under_way(capture: Path) -> None:
    """A request is on its wire until it is answered; both are steps."""
    session = open_log(capture, "g-consumer")
    check_whole(session)
    assert [(one["name"], one["role"]) for one in session.opening()["components"]] == [
        ("consumer0", "member"),
        ("consumer1", "member"),
        ("coordinator", "coordinator"),
    ]
    first, second, *_ = all_steps(session)
    assert (first["sender"], first["receiver"], second["receiver"]) == ("consumer0", "coordinator", "consumer0")
    assert first["message"].startswith("ConsumerGroupHeartbeat(member_epoch=0")
    assert [one["text"] for one in first["delta"]["wires"]["consumer0>coordinator"]] == [first["message"]]
    assert second["delta"]["wires"] == {"consumer0>coordinator": []}
    assert "assignment=[foo-0, foo-1, foo-2, foo-3]" in second["message"]
    components = components_after(session, 2)
    assert ["target", "foo-0, foo-1, foo-2, foo-3"] in components["consumer0"]["fields"]
    assert ["consumer0 assigned", "foo-0, foo-1, foo-2, foo-3"] in components["coordinator"]["fields"]
    assert [step["at_ms"] for step in all_steps(session)] == sorted(step["at_ms"] for step in all_steps(session))


def test_all_groups_of_a_capture(capture: Path) -> None:
    """Each has its own coordinator."""
    session = open_log(capture)
    check_whole(session)
    names = [one["name"] for one in session.opening()["components"]]
    assert {"g-consumer: coordinator", "g-kpy: coordinator", "g-kpy: k0"} <= set(names)
    with pytest.raises(InputError, match="holds nothing of a group 'g'"):
        open_log(capture, "g")


def test_a_request_that_nobody_answered_is_told_so(capture: Path, tmp_path: Path) -> None:
    """It is not under way for ever; a line that is damaged is named."""
    lines = capture.read_text(encoding="utf-8").splitlines()
    at, beat = next((at, line) for at, line in enumerate(lines) if "ConsumerGroupHeartbeat" in line)
    lost = json.loads(beat)
    del lost["answered_ms"]
    lost["response"] = None
    path = tmp_path / "lost.jsonl"
    path.write_text("\n".join([*lines[:at], json.dumps(lost)]))
    (step,) = all_steps(open_log(path, "g-consumer"))
    assert step["text"].endswith("; it is not answered")
    assert (step["disturbance"], step["delta"]["wires"]) == ("disturbance", {})
    for wrong in ("soon", float("nan"), 1e999):
        path.write_text("\n".join([*lines[:at], json.dumps({**lost, "answered_ms": wrong})]))
        with pytest.raises(InputError, match=rf"lost.jsonl:{at + 1}: has no time of an exchange"):
            open_log(path)
    path.write_text("\n".join([*lines[: at + 1], beat[:-30], beat]))
    with pytest.raises(InputError, match=rf"lost.jsonl:{at + 2}: not JSON"):
        open_log(path)


def test_what_a_capture_lacks_is_counted(capture: Path, tmp_path: Path) -> None:
    """A last line that was cut is left out; what was not captured of its packets stands in the trace."""
    lines = capture.read_text(encoding="utf-8").splitlines()
    assert open_log(capture).opening()["missing"] == []
    beats = [line for line in lines if "ConsumerGroupHeartbeat" in line]
    why = "771 bytes were not captured or read, 1 answers have no request"
    lost = [json.dumps({"event": "lost", "at_ms": 1.5, "connection": n, "why": why}) for n in (1, 2)]
    damaged = json.dumps({"event": "damaged", "at_ms": 1.5, "packets": 1})
    path = tmp_path / "cut.jsonl"
    path.write_text("\n".join([lines[0], beats[0], *lost, damaged, beats[1][:-30]]))
    session = open_log(path)
    assert session.opening()["length"] == 2
    assert session.opening()["missing"] == [
        "1 packet damaged or cut",
        "1,542 bytes of 2 connections not captured or not read",
        "2 answers of 2 connections without a request",
        "1 line left out: it is the last one, and was cut",
    ]


def test_a_trace_that_was_cut_says_so(tmp_path: Path) -> None:
    """In the middle of a line, or of what compressed it; the rest is told."""
    records = [TraceRecord(at, Kind.JOINING, "g", "a", "m") for at in range(1, 4_000)]
    whole = "".join(f"{one.to_json()}\n" for one in records)
    path = tmp_path / "run.jsonl"
    path.write_text(whole)
    assert open_log(path).opening()["missing"] == []
    path.write_text(whole[:-9])
    assert open_log(path).opening()["missing"] == ["1 line left out: it is the last one, and was cut"]
    path = tmp_path / "run.jsonl.gz"
    path.write_bytes(gzip.compress(whole.encode())[:-4_000])
    opening = open_log(path).opening()
    (line,) = opening["missing"]
    assert line.startswith(f"it cannot be read on after {opening['length']:,} records: ")
    assert 0 < opening["length"] < len(records)
    path.write_bytes(gzip.compress(whole.encode())[:30])
    with pytest.raises(InputError, match=r"run\.jsonl\.gz: cannot be read: "):
        open_log(path)
