"""When the steps of a path can happen."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path as FilePath
from typing import Any, NamedTuple

import pytest
from models import classic_group, connect, consumer_group, mixed_group, replayed

from fsm.check import Choice, Model, Violation, check
from fsm.check.catalog import make_model
from fsm.check.kafka.live import timed_replay
from fsm.check.kafka.live.consumers import Abandoned
from fsm.check.kafka.live.timed_replay import find_room
from fsm.check.model import Action, Path
from fsm.check.search import Search
from fsm.check.story import tell
from fsm.check.timing import APART_MS, LATE_MS, Timing
from fsm.check.verdict import count_steps
from fsm.cli import main

pytestmark = pytest.mark.usefixtures("timed")


def test_a_timer_takes_its_time() -> None:
    timing = Timing()
    timing.step()
    timing.leaves("a", 0, {"poll": 500})
    timing.step()
    timing.meets("a", over=["poll"])
    timing.step()
    assert timing.solve() == (0, 500, 500 + APART_MS)


def test_what_starts_a_timer_waits_where_it_would_run_out_too_soon() -> None:
    """b's timer has to run still when a's is over, so it starts later, and a's before it."""
    timing = Timing()
    for owner in "ab":
        timing.step()
        timing.leaves(owner, 0, {"poll": 500 if owner == "a" else 100})
    timing.step()
    timing.meets("a", over=["poll"])
    timing.step()
    timing.meets("b")
    assert timing.solve() == (0, 500 + APART_MS - 99, 500, 500 + APART_MS)


def test_timers_that_contradict_a_path_have_no_times() -> None:
    timing = Timing()
    timing.step()
    timing.leaves("a", 0, {"poll": 500, "heartbeat": 100})
    timing.step()
    timing.meets("a", over=["poll"])
    assert timing.solve() == ()
    assert timing.contradiction() == (
        "a: heartbeat, 100 ms from step 1 on, still runs at step 2; a: poll, 500 ms from step 1 on, is over at step 2"
    )
    timing = Timing()
    timing.step()
    timing.leaves("a", 0, {"poll": 500, "heartbeat": 100})
    timing.step()
    timing.meets("a", over=["poll"], idle=["heartbeat"])
    assert timing.solve() == (0, 500)
    assert timing.contradiction() == ""


def test_a_timer_that_is_over_means_nothing_until_it_is_started_again() -> None:
    timing = Timing()
    timing.step()
    timing.leaves("a", 0, {"poll": 500})
    for due_ms in (500, 500, 1_700):
        timing.step()
        timing.meets("a", over=["poll"] if timing.solve() == (0, APART_MS) else [])
        timing.leaves("a", 1_000, {"poll": due_ms})
    timing.step()
    timing.meets("a", over=["poll"])
    assert timing.solve() == (0, 500, 502, 504, 1_204)


def test_a_timer_that_is_over_is_acted_on_soon() -> None:
    """b acts on its own after 100 ms, or a second later, so a's 5,000 cannot be over before."""
    for prompt in (True, False):
        timing = Timing()
        for owner, ms in (("a", 5_000), ("b", 100)):
            timing.step()
            timing.leaves(owner, 0, {"poll": ms})
        for owner in "ab":
            timing.step()
            timing.meets(owner, over=["poll"], prompt=prompt)
        times_ms = timing.solve()
        assert times_ms[2] >= 5_000
        assert times_ms[3] - times_ms[1] == (100 + LATE_MS if prompt else 5_000)


@pytest.mark.parametrize(
    ("options", "kinds", "properties", "over", "least_ms"),
    [
        ({}, [], [], "", 0),
        pytest.param(
            {"policy": "upgrade"},
            ["leave"],
            ["the group settles"],
            "initial rebalance delay is over",
            500,
            marks=pytest.mark.deep,
        ),
        pytest.param({}, ["expire"], ["no error ends an application"], "expires", 45_000, marks=pytest.mark.deep),
        pytest.param(
            {"protocol": "cooperative", "client": "fixed"},
            ["rebalance_timeout"],
            ["no partition has two users"],
            "time for b0 to join is over",
            10_000,
            marks=pytest.mark.deep,
        ),
    ],
    ids=["early", "leave", "expire", "rebalance_timeout"],
)
def test_a_path_of_a_mixed_group_has_times(
    options: dict[str, Any], kinds: list[str], properties: list[str], over: str, least_ms: int
) -> None:
    """By Kafka's default timeouts, or by shorter ones: a timer is over no sooner than it takes."""
    known = [] if not kinds else ["early"]
    verdict = check(
        make_model("mixed-group", **options), disturb=kinds, disturbances=len(kinds), known=known, properties=properties
    )
    (found,) = verdict.violations
    assert found.replayed is not None
    times_ms = found.replayed.times_ms
    assert len(times_ms) == count_steps(found)
    assert all(later - earlier >= APART_MS for earlier, later in pairwise(times_ms))
    assert found.replayed.settings["session.timeout.ms"] == 45_000
    if over:
        assert least_ms <= next(at_ms for at_ms, step in zip(times_ms, found.path, strict=False) if over in step.action)


@pytest.mark.parametrize(
    ("make", "options", "kinds"),
    [
        (consumer_group, {"static": True}, ("close", "restart")),
        pytest.param(consumer_group, {"commits": True}, ("commit_sync", "raising"), marks=pytest.mark.deep),
        (classic_group, {"static": True}, ("close", "restart")),
        pytest.param(
            classic_group, {"commits": True, "protocol": "cooperative"}, ("close", "raising"), marks=pytest.mark.deep
        ),
        (mixed_group, {"static": True}, ("convert",)),
    ],
)
@pytest.mark.loop(2)
def test_any_path_has_times_or_timers_that_are_against_it(
    make: Callable[..., Model], options: dict[str, Any], kinds: tuple[str, ...]
) -> None:
    search = Search(make(1, **options), frozenset(kinds), 1, every=True).run()
    assert all(bool(one.times_ms) != bool(one.untimed) for one in replayed(search, 4))


@pytest.mark.deep
def test_a_path_without_times_says_which_timers_are_against_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its poll timer, which is as long as the rebalance timeout, would run out before: it began before."""
    monkeypatch.setattr(timed_replay, "OF_ALL", 20)
    model = consumer_group()
    (found,) = check(model, disturb=["rebalance_timeout"], disturbances=1).violations
    assert found.replayed is not None
    assert found.replayed.times_ms == ()
    untimed = found.replayed.untimed
    assert "a: poll, 10000 ms from step 2 on, still runs at step 12" in untimed
    assert "broker: rebalance timeout of a is over, 10000 ms from step 9 on, is over at step 12" in untimed


def test_a_contradiction_is_the_first_one_and_counts_from_where_a_path_begins() -> None:
    timing = Timing(before=1)
    for _ in range(2):
        timing.step()
        timing.leaves("a", 0, {"poll": 500, "heartbeat": 100})
    timing.step()
    timing.meets("a", over=["poll"])
    timing.step()
    timing.meets("a", over=["heartbeat"])
    assert timing.room() == 2
    assert {one.name for one in timing.circle()} >= {"poll", "heartbeat"}
    assert "a: poll, 500 ms from step 0 on, is over at step 2" in timing.contradiction()


def test_a_timer_that_is_left_over_means_nothing() -> None:
    """A heartbeat is due at once, and its client looks for the coordinator first."""
    timing = Timing()
    timing.step()
    timing.leaves("a", 100, {"heartbeat": 100})
    timing.step()
    timing.meets("a")
    assert timing.solve() == (0, APART_MS)


@cache
def at_home(kind: str) -> Violation:
    (found,) = check(connect(settled=True), disturb=[kind], disturbances=1).violations
    assert found.replayed is not None
    return found


@pytest.mark.deep
@pytest.mark.parametrize("kind", [pytest.param("expire", marks=pytest.mark.deep), "freeze"])
def test_a_path_of_a_connect_cluster_has_times(kind: str) -> None:
    """Kafka's defaults allow it: the session that expires takes its ten seconds from the last heartbeat on."""
    found = at_home(kind)
    replayed = found.replayed
    assert replayed is not None
    assert len(replayed.times_ms) == len(found.path)
    assert all(later - earlier >= APART_MS for earlier, later in pairwise(replayed.times_ms))
    settings = ("heartbeat.interval.ms", "session.timeout.ms", "rebalance.timeout.ms")
    assert [replayed.settings[name] for name in settings] == [3_000, 10_000, 60_000]
    expired_ms = next(
        at_ms for at_ms, step in zip(replayed.times_ms, found.path, strict=True) if "expires" in step.action
    )
    assert expired_ms >= 10_000 - 3_000


def test_idle_steps_make_room_and_are_told() -> None:
    """Its worker heartbeats as ever, or the other one's session would run out, too."""
    found = at_home("expire")
    assert found.replayed is not None
    idle = found.replayed.idle
    assert [what for _, _, what in idle] == ["b and a have heartbeats answered", "b has a heartbeat answered"]
    times_ms = found.replayed.times_ms
    assert all(at_ms < times_ms[before - 1] for before, at_ms, _ in idle)
    assert any("b has a heartbeat answered, with no effect" in line for line in tell(found))


def audited(found: Violation, folder: FilePath, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What an audit finds in the trace of a counterexample."""
    assert found.replayed is not None
    (folder / "trace.jsonl").write_text("".join(f"{line}\n" for line in found.replayed.trace))
    audit = ["audit", "--format", "trace", "--master", "none", "--json", str(folder), "-o", str(folder / "audit")]
    assert main(audit) == 1
    return dict(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("kind", ["expire", "freeze"])
def test_an_audit_sees_what_ran_twice(kind: str, tmp_path: FilePath, capsys: pytest.CaptureFixture[str]) -> None:
    """The trace of the live workers, which goes on until only one of them runs the task."""
    found = audited(at_home(kind), tmp_path, capsys)
    assert [one["kind"] for one in found["findings"]] == ["ran_twice"]
    assert found["inputs"]["not_understood"] == 0


class Named(NamedTuple):
    """What the checker finds in a group, and how an audit calls it."""

    number: str
    cause: str
    make: Callable[..., Model]
    options: dict[str, Any]
    kinds: tuple[str, ...]
    asked: str
    known: tuple[str, ...] = ()


SETTLES, USERS = "the group settles", "no partition has two users"
NAMED = [
    *(
        pytest.param(one, marks=pytest.mark.deep)
        for one in (
            Named("W8", "late_request", consumer_group, {}, ("late",), SETTLES),
            Named("W5", "stranded", mixed_group, {"policy": "upgrade"}, ("leave",), SETTLES, ("early",)),
            Named("W9", "left_out", consumer_group, {}, ("lose",), USERS),
            Named("", "left_out", consumer_group, {"pattern": "fo.*"}, (), USERS),
            Named("W12", "early_join", mixed_group, {}, (), "no error ends an application"),
            Named("W14", "no_target", mixed_group, {"static": True, "members": 1}, ("convert",), SETTLES),
        )
    ),
]


@pytest.mark.parametrize("one", NAMED, ids=lambda one: one.number or "W11")
def test_an_audit_names_what_the_checker_found(
    tmp_path: FilePath, capsys: pytest.CaptureFixture[str], one: Named
) -> None:
    """From the trace of its path: what members wrote, and what the coordinator stored."""
    disturbed = {"disturb": one.kinds, "disturbances": len(one.kinds)}
    verdict = check(one.make(**one.options), **disturbed, known=one.known, properties=[one.asked])
    found = audited(verdict.violations[0], tmp_path, capsys)["findings"]
    assert [untimed["cause"] for untimed in found] == [one.cause] * len(found)
    assert all(one.number in untimed["summary"] for untimed in found)


class Polls:
    """Somebody who may poll while free."""

    def choices(self, state: str) -> list[Choice]:
        return [Choice("polls")] if state == "free" else []


def take(waits_ms: int, path: Path) -> tuple[Timing, tuple[int, ...]]:
    """a's poll timer lasts five seconds from each of its steps on, b's last step is at the end of its wait."""
    timing, polled_ms = Timing(), 0
    for action, _ in path:
        timing.step()
        timing.meets("a")
        timing.meets("b", over=["wait"] if action.what == "goes on" else [])
        polled_ms += action.actor == "a"
        timing.leaves("a", polled_ms, {"poll": polled_ms + 5_000})
        timing.leaves("b", 0, {"wait": waits_ms})
    return timing, timing.solve()


@pytest.mark.parametrize(("waits_ms", "polls"), [(4_000, 0), (8_000, 1), (23_000, 4)])
def test_idle_steps_are_as_many_as_it_takes(waits_ms: int, polls: int) -> None:
    states = {"a": "free", "b": ""}
    path = [(Action("a", "subscribes"), states), (Action("b", "looks"), states), (Action("b", "goes on"), states)]
    found = find_room(path, [waits_ms], take, {"a": Polls()})
    assert found is not None
    assert found.timeouts == waits_ms
    assert [what for _, _, what in found.woven.tell(found.times_ms)] == ["a polls"] * polls
    first_ms, _, last_ms = found.woven.list_times(found.times_ms)
    assert last_ms - first_ms >= waits_ms


@pytest.mark.deep
def test_idle_steps_are_of_the_model_alone() -> None:
    """Who is in its callback polls nothing, so that nothing helps; where no path is taken, nothing is found."""
    states = {"a": "in its callback", "b": ""}
    path = [(Action("a", "subscribes"), states), (Action("b", "goes on"), states)]
    found = find_room(path, [8_000], take, {"a": Polls()})
    assert found is not None
    assert (found.times_ms, found.woven.path) == ((), path)
    assert "a: poll" in found.timing.contradiction()
    assert find_room(path, [8_000], lambda _, __: None, {"a": Polls()}) is None


def test_only_a_late_request_that_a_live_client_has_sent_arrives() -> None:
    """Beside idle steps another one may have been abandoned than in the model: the path is not taken then."""
    late = Abandoned()
    late.add(["Heartbeat"])
    assert late.take(lambda order: order == "JoinGroup") is None
    assert late.take(lambda order: order == "Heartbeat") == (0, "Heartbeat")
    assert late.take(lambda order: order == "Heartbeat") is None
