"""Whole Connect clusters from YAML: stimuli in, rounds and what really runs out, under both profiles."""

from __future__ import annotations

from importlib.resources import files
from inspect import getdoc
from pathlib import Path
from textwrap import dedent

import pytest

from fsm.cli import main
from fsm.errors import InputError
from fsm.nodes import yaml_node
from fsm.scenario.files import replay, replay_document
from fsm.scenario.kinds import connect_cluster
from fsm.scenario.story import Replay

SHIPPED = str(files("fsm.scenario") / "connect-bounced-worker.yaml")
BEGIN = """\
cluster: a story
connectors: {A: 2, B: 1}
workers: {W1: [A, A-0], W2: [A-1, B], W3: [B-0]}
"""


def run(steps: str, dialect: str | None = None, begin: str = BEGIN) -> Replay:
    """The only run of a scenario."""
    (found,) = replay_document(yaml_node(f"{begin}steps:\n{steps}", "s.yaml", "scenario"), "s.yaml", dialect)
    return found


def rounds(found: Replay, field: str) -> list[str]:
    """A field of all rounds of a run."""
    return [
        v for step in found.steps for n, v in step.seen.items() if n.startswith("round ") and n.endswith(f" {field}")
    ]


def test_the_bounce_that_comes_with_the_package_goes_as_it_says() -> None:
    """Departure, delay, return, and the lost work back where it was."""
    (found,) = replay(Path(SHIPPED))
    assert (found.differences(), found.expectations > 20) == ((), True)


def test_a_bounce_goes_the_same_way_under_both_profiles() -> None:
    """The document's third scenario is what Kafka does: not one field of one step differs."""
    (ours,), (theirs,) = replay(Path(SHIPPED), "document"), replay(Path(SHIPPED), "shipped")
    assert (ours.dialect, theirs.dialect) == ("document", "shipped")
    assert ours.differences_from(theirs) == ()


def test_the_example_of_the_syntax_runs() -> None:
    """What `--kinds` shows is a scenario, and its expectations are met."""
    _, block, _ = getdoc(connect_cluster).split("\n\n", 2)  # type: ignore[union-attr]
    (found,) = replay_document(yaml_node(dedent(block), "kinds", "scenario"), "kinds")
    assert (found.differences(), found.expectations, len(found.steps)) == ((), 9, 3)


LEADER_BOUNCES = """\
- bounce: {worker: W2, away_ms: 50000}
- wait: 100000
- bounce: {worker: W1, away_ms: 50000}
- wait: 60000
- settle
"""


def test_a_bounced_leader_shows_where_the_profiles_part() -> None:
    """Scenario 5: in the document the delay outlives the leader, as shipped the new one forgets it."""
    ours, theirs = run(LEADER_BOUNCES, "document"), run(LEADER_BOUNCES, "shipped")
    assert [delay != "0" for delay in rounds(ours, "delay_ms")] == [True, True, True, True, False]
    assert [delay != "0" for delay in rounds(theirs, "delay_ms")] == [True, True, False, False, False]
    first = ours.differences_from(theirs)[0]
    assert (first.step, first.title) == (4, "100000 ms  wait 60000")


def test_a_step_prints_rounds_and_what_moves_by_the_clock() -> None:
    """As the document prints rounds, with the instants of rounds, stops and starts."""
    found = run("- stop: W2\n- wait: 4000\n")
    assert [step.lines for step in found.steps] == [
        ("     0 ms  W2 stops A-1, B",),
        (
            "  2009 ms  generation 2: W1 leads, version 2",
            "           W1(delay: 300000, assigned: [A, A-0], revoked: [])",
            "           W3(delay: 300000, assigned: [B-0], revoked: [])",
        ),
    ]


def test_a_dead_thread_is_told_and_does_not_keep_its_cluster_from_rest() -> None:
    """Row 33: the process goes on with its units, the others settle without it and take the work over as well."""
    found = run("- fail: W2\n- settle\n")
    assert found.steps[0].lines == ("     0 ms  W2's herder ends: an exception in its thread",)
    last = found.steps[1].seen
    assert (last["W2 state"], last["W2 runs"], last["at_rest"]) == ("DOWN", "[A-1, B]", "[]")
    assert sorted((last["W1 runs"] + last["W3 runs"]).replace("][", ", ").strip("[]").split(", ")) == [
        "A",
        "A-0",
        "A-1",
        "B",
        "B-0",
    ]


def test_a_worker_that_the_group_refuses_is_told_and_does_not_keep_it_from_rest() -> None:
    """The document's mode cooperative: an eager worker has no protocol in common, and its thread ends."""
    begin = BEGIN.replace("cluster", "config: {connect_protocol: cooperative}\ncluster")
    found = run("- start: {worker: W4, protocol: eager}\n- settle\n", "document", begin)
    lines = [line for step in found.steps for line in step.lines]
    assert lines == ["     3 ms  W4's herder ends: JoinGroup answered INCONSISTENT_GROUP_PROTOCOL"]
    last = found.steps[1].seen
    assert (last["W4 state"], last["rounds"], last["at_rest"]) == ("DOWN", "0", "[]")


def test_a_cluster_settles_only_when_a_bounced_worker_is_back() -> None:
    """W2 stays away for longer than the delay: what waits for it moves, and moves again when it returns."""
    begin = f"config: {{scheduled_rebalance_max_delay_ms: 5000}}\n{BEGIN}"
    found = run("- bounce: {worker: W2, away_ms: 60000}\n- wait: 40000\n- settle\n", begin=begin)
    away, last = found.steps[1].seen, found.steps[2].seen
    assert (away["W2 state"], away["at_rest"]) == ("GONE", "none")
    assert (last["W2 state"], last["at_rest"]) == ("ASSIGNED", "[]")
    assert last["W2 holds"] != "[]"


def test_what_differs_is_said_with_its_line() -> None:
    """A wrong delay, a wrong holding, a round too few: each is a difference of its own, where it stands."""
    found = run(
        "- stop: W2\n"
        "- wait: 4000\n"
        "  expect:\n"
        "    rounds: [{leader: W1, delay_ms: 1}, {leader: W1}]\n"
        "    W3: {runs: [B]}\n"
    )
    assert [(d.where, d.field, d.expected, d.got) for d in found.differences()] == [
        ("s.yaml:8", "rounds", "2", "1"),
        ("s.yaml:8", "round 1 delay_ms", "1", "300000"),
        ("s.yaml:8", "round 2 leader", "W1", "none"),
        ("s.yaml:9", "W3 runs", "[B]", "[B-0]"),
    ]


def twice(found: Replay) -> set[str]:
    """Units that run on two workers at the end."""
    running = [v.strip("[]").split(", ") for n, v in found.steps[-1].seen.items() if n.endswith(" runs")]
    units = [unit for each in running for unit in each]
    return {unit for unit in units if units.count(unit) > 1}


def test_an_invariant_that_breaks_is_a_difference_unless_it_is_expected() -> None:
    """KAFKA-13816: a step down to eager doubles units for good as shipped. The document's profile stops them, each
    worker at its own sync; until the last one has synced another may have started them."""
    down = "- start: {worker: W4, protocol: eager}\n- settle\n"
    begin = BEGIN.replace("cluster", "config: {connect_protocol: compatible}\ncluster")
    shipped = run(down, "shipped", begin)
    (broken,) = shipped.differences()
    assert (broken.field, broken.expected) == ("broken", "[]")
    assert "W6 A-1 runs on two workers" in broken.got
    assert "A-1" in twice(shipped)
    assert twice(run(down, "document", begin)) == set()


def test_a_worker_that_cannot_stop_in_time_or_hears_nothing_is_led_too() -> None:
    """Freeze, thaw, cut and heal: a frozen worker goes on running what others got, until it is back."""
    begin = f"config: {{scheduled_rebalance_max_delay_ms: 2000}}\n{BEGIN}"
    found = run(
        "- freeze: W2\n- wait: 30000\n- thaw: W2\n- settle\n- cut: W3\n- wait: 5000\n- heal: W3\n- settle\n",
        begin=begin,
    )
    frozen, cut = found.steps[1].seen, found.steps[5].seen
    held = frozen["W1 holds"].strip("[]").split(", ") + frozen["W3 holds"].strip("[]").split(", ")
    assert sorted(held) == ["A", "A-0", "A-1", "B", "B-0"]
    assert frozen["W2 runs"] == "[A-1, B]"
    assert (cut["W3 state"], cut["W3 runs"]) == ("DISCONNECTED", "[]")
    assert found.steps[-1].seen["at_rest"] == "[]"
    assert found.differences() == ()


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        ("- stopp: W2\n", "s.yaml:5: unknown step 'stopp'; did you mean stop?"),
        ("- stop: W9\n", "s.yaml:5: no worker W9 is running; start it first"),
        ("- start: W1\n", "s.yaml:5: W1 is running; stop it or let it crash first"),
        ("- start: {worker: W4, protocol: lazy}\n", "s.yaml:5: connect.protocol: cannot be 'lazy'; choose from eager,"),
        (
            "- start: {worker: W4, protocol: cooperative}\n",
            "s.yaml:5: connect.protocol: cooperative was never released",
        ),
        ("- scale: {C: 2}\n", "s.yaml:5: there is no connector C; choose from A, B"),
        ("- create: {C: -1}\n", "s.yaml:5: -1 tasks; 0 to 10000"),
        ("- create: {C: 9999}\n", "s.yaml:5: more than 10000 connectors and tasks"),
        ("- create: C\n", "s.yaml:5: must be a mapping"),
        ("- wait: 5\n  expect: {rounds: [5]}\n", "s.yaml:6: must be a mapping"),
        ("- wait: 5\n  expect: {W1: {holds: A}}\n", "s.yaml:6: must be a list"),
        ("- delete: C\n", "s.yaml:5: there is no connector C"),
        ("- wait: -5\n", "s.yaml:5: -5 ms; 0 to 3600000"),
        ("- wait: soon\n", "s.yaml:5: 'soon' is not a whole number"),
        ("- thaw: W2\n", "s.yaml:5: W2 is not frozen; freeze it first"),
        ("- freeze: W2\n- thaw: W2\n- thaw: W2\n", "s.yaml:7: W2 is not frozen; freeze it first"),
        ("- heal: W2\n", "s.yaml:5: W2 is not cut; cut it first"),
        ("- resume: A\n", "s.yaml:5: A is neither paused nor stopped; pause it or stop it first"),
        ("- pause: A\n- resume: A\n- resume: A\n", "s.yaml:7: A is neither paused nor stopped; pause it"),
        ("- pause: A\n- delete: A\n- create: {A: 1}\n- resume: A\n", "s.yaml:8: A is neither paused nor stopped"),
        ("- broker: up\n", "s.yaml:5: the broker is up; take it down first"),
        ("- broker: away\n", "s.yaml:5: 'away' is neither down nor up"),
        ("- bounce: W2\n", "s.yaml:5: must be a mapping"),
        ("- bounce: {worker: W2}\n", "s.yaml:5: the key 'away_ms' is missing"),
        ("- bounce: {worker: W2, for_ms: 5}\n", "s.yaml:5: unknown key 'for_ms'"),
        ("- {stop: W1, start: W4}\n", "s.yaml:5: a step does one thing, not 2; one of start, stop, crash"),
        ("- bounce: {worker: W2, away_ms: 9}\n- start: W2\n- wait: 9\n", "s.yaml:7: W2 is running; stop it or let it"),
        ("- settle: {most_ms: 0}\n", "s.yaml:5: the cluster does not settle; wait instead"),
        (
            "- wait: 5\n  expect: {W8: {}}\n",
            "s.yaml:6: no worker is called 'W8'; choose from W1, W2, W3, rounds, configured, at_rest",
        ),
        ("- wait: 5\n  expect: {W1: {state: UP, hold: []}}\n", "s.yaml:6: unknown key 'hold'; did you mean holds?"),
        (
            "- wait: 5\n  expect: {W1: {state: UP}}\n",
            "s.yaml:6: 'UP' is not a known state of a worker; choose from DOWN",
        ),
        ("- wait: 5\n  expect: {rounds: [{W1: {owns: []}}]}\n", "s.yaml:6: unknown key 'owns'"),
        ("  []\n", "s.yaml:5: 0 steps; 1 to 1000"),
    ],
)
def test_what_cannot_be_led_is_said_with_line_and_remedy(steps: str, error: str) -> None:
    """Wrong words, stimuli that make no sense now, times that do not go forward."""
    with pytest.raises(InputError) as raised:
        run(steps)
    assert str(raised.value).startswith(error)


@pytest.mark.parametrize(
    ("begin", "error"),
    [
        ("cluster: x\nworker: {}\n", "s.yaml:2: unknown key 'worker'; did you mean workers?"),
        ("cluster: x\nworkers: {W1: [A]}\n", "s.yaml:2: no unit 'A' is configured; there are none"),
        ("cluster: x\nconnectors: {A: 1}\nworkers: {W1: [A, A]}\n", "s.yaml:3: A is held twice; give it to one worker"),
        (
            "cluster: x\nconnectors: {A: 1}\nworkers: {W1: [A]}\n",
            "s.yaml:3: nobody holds [A-0]; list all that is configured, or leave connectors out and `create` them in",
        ),
        ("cluster: x\nconnectors: {A: 1}\nworkers: {W1: []}\n", "s.yaml:3: nobody holds [A, A-0]; list all that"),
        (
            "cluster: x\nconnectors: {A: 2}\nworkers: {W1: [A, A-0, A-1], W2: []}\n",
            "s.yaml:3: W1 comes to hold [A, A-1]; balance the workers",
        ),
        ("cluster: x\nconfig: {session_timeout: 1}\n", "s.yaml:2: unknown key 'session_timeout'; did you mean"),
        ("cluster: x\nconfig: {heartbeat_interval_ms: 99999}\n", "s.yaml:2: heartbeat.interval.ms: cannot be 99999"),
        ("cluster: x\nlatencies: {read_ms: 0}\n", "s.yaml:2: read_ms: must not be 0; give at least 1 ms"),
        ("cluster: x\nlatencies: {read_ms: no}\n", "s.yaml:2: read_ms: 'no' is not a whole number"),
        (
            "cluster: x\nconfig:\n  connect_protocol: eager\n  session_timeout_ms: abc\n",
            "s.yaml:4: session_timeout_ms: 'abc' is not a whole number",
        ),
        ("cluster: x\ndialect: 4.4\n", "s.yaml:2: unknown profile '4.4' of Connect; choose from shipped, document"),
        ("cluster: x\nworkers: [W1]\n", "s.yaml:2: must be a mapping"),
        ("cluster: [x]\n", "s.yaml:1: must be text"),
        ("cluster: x\nconnectors: {A: many}\n", "s.yaml:2: 'many' is not a whole number"),
    ],
)
def test_a_cluster_that_cannot_be_is_said_with_line_and_remedy(begin: str, error: str) -> None:
    """Unknown settings, units nobody configured, units held twice, assignments that no stable group has."""
    with pytest.raises(InputError) as raised:
        run("- wait: 1\n", begin=begin)
    assert str(raised.value).startswith(error)


def test_a_cluster_is_drawn_as_a_timeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--picture` writes the SVG that comes with the package; as Mermaid there is none."""
    target = tmp_path / "bounce.svg"
    assert main(["replay", SHIPPED, "--quiet", "--picture", str(target)]) == 0
    shipped = Path(__file__).parents[2] / "diagrams" / "connect-bounced-worker.svg"
    assert target.read_bytes() == shipped.read_bytes()
    assert main(["replay", SHIPPED, "--quiet", "--picture", str(tmp_path / "bounce.mmd")]) == 2
    assert "a timeline cannot be drawn as '.mmd'; name it FILE.svg" in capsys.readouterr().err
