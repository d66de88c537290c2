"""Rounds of Kafka Connect: who joins with what, who leads, and what the leader's assignor gives to whom.

The kind of `seed_connect.yaml`, a list of `scenarios`, each with its `initial` holdings, `config_topic`,
`initial_leader` and `rounds`. Rounds are run from the start on the assignor's own results and printed as the design
document prints them. It runs under the profiles of `fsm.connect.dialect`: `document`, the default, gives the document's
five scenarios round by round; `shipped` is Kafka's code, for which the file may say something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fsm.connect import dialect as dialects
from fsm.connect.assignor.scenario import ScenarioRound, WorkerResult, rounds, unit, written
from fsm.connect.units import Units
from fsm.errors import InputError
from fsm.nodes import Node
from fsm.scenario.shape import EACH, Checked, Only, read
from fsm.scenario.steps import Expected, Replay, Step
from fsm.scenario.words import listed, texts

NAME = "Connect rounds"

_UNITS = [Checked(unit)]
_RESULT = Only({"delay": str, "assigned": _UNITS, "revoked": _UNITS}, unread=("newly_assigned",))
_SHIPPED = Only({"delay": int, "holds_after": _UNITS, "revoked": _UNITS}, unread=("newly_assigned",))
SHAPE: Mapping[str, Any] = {
    "id": str,
    "title?": str,
    "initial": {EACH: _UNITS},
    "config_topic": _UNITS,
    "initial_leader": str,
    "rounds": [
        {
            "round": int,
            "joins": [{"worker": str}],
            "leader": str,
            "expect": {EACH: _RESULT},
            "shipped_trunk?": {"per_worker": {EACH: _SHIPPED}},
            "stimuli?": [str],
            "delay_in_progress_at_start?": str,
            "sample_clock_ms?": int,
            "sample_delay_ms?": int,
        }
    ],
}
"""What a scenario holds for its rounds to be run; what else it says is not looked at."""


def reads(document: Node) -> bool:
    """Whether the document is a list of scenarios whose first one has rounds of a group of workers."""
    scenarios = document.value.get("scenarios") if isinstance(document.value, dict) else None
    items = scenarios[1].value if scenarios is not None else ()
    if not isinstance(items, list) or not items:
        return False
    return isinstance(items[0].value, dict) and {"config_topic", "initial_leader", "rounds"} <= items[0].value.keys()


def replay(document: Node, file: str, dialect: str | None) -> Iterator[Replay]:
    """Runs every scenario of the document. Raises `InputError` with the line for what has another shape."""
    profile = dialects.DOCUMENT if dialect is None else dialects.profile(dialect)
    for scenario in document.mapping()["scenarios"][1].items():
        data = read(scenario, SHAPE)
        _check_leaders(scenario)
        stated = scenario.mapping()["rounds"][1].items()
        run = tuple(rounds({"scenarios": [data]}, profile))
        steps = tuple(_step(*each) for each in zip(stated, run, _before(scenario, run), strict=True))
        title = run[0].title if run else scenario.mapping()["id"][1].text()
        yield Replay(file, NAME, str(title), profile.name, steps)


def _check_leaders(scenario: Node) -> None:
    """A leader is one of those who join, and nobody joins twice."""
    for stated in scenario.mapping()["rounds"][1].items():
        fields = stated.mapping()
        joins = [join.mapping()["worker"][1].text() for join in fields["joins"][1].items()]
        leader = fields["leader"][1]
        if leader.text() not in joins:
            raise InputError(f"{leader.text()[:60]!r} leads, but does not join", leader.where)
        if len(set(joins)) < len(joins):
            raise InputError("a worker joins twice in one round", fields["joins"][1].where)


def _before(scenario: Node, run: Sequence[ScenarioRound]) -> Iterator[_Before]:
    """What stands before each round: what workers hold; before the first also how the document begins."""
    fields = scenario.mapping()
    initial = {name: tuple(map(unit, texts(held))) for name, (_, held) in fields["initial"][1].mapping().items()}
    at_first = (
        "Initial group and assignment: " + ", ".join(f"{w}({_listed(held)})" for w, held in initial.items()),
        "Config topic contains: " + ", ".join(texts(fields["config_topic"][1])),
        f"{fields['initial_leader'][1].text()} is current leader",
    )
    holds = [initial, *({result.worker: result.assigned for result in each.computed} for each in run)]
    return (_Before(at_first if not number else (), held) for number, held in enumerate(holds[: len(run)]))


class _Before(NamedTuple):
    lines: tuple[str, ...]
    holds: Mapping[str, Units]


def _lines(stated: Node, computed: ScenarioRound, before: _Before) -> Iterator[str]:
    """The round as the document prints it."""
    yield from (*before.lines, *computed.stimuli)
    for join in stated.mapping()["joins"][1].items():
        worker = join.mapping()["worker"][1].text()
        yield f"{worker} joins with assignment: {_listed(before.holds.get(worker, ()))}"
    yield f"{computed.leader} becomes leader"
    yield f"{computed.leader} computes and sends assignments:"
    yield from map(str, computed.computed)


def _step(stated: Node, computed: ScenarioRound, before: _Before) -> Step:
    seen = {field: value for result in computed.computed for field, value in _fields(result)}
    expected = (
        Expected(field, value, stated.where) for result in computed.expected for field, value in _fields(result)
    )
    surplus = (
        Expected(f"{result.worker} delay", "no place in the group", stated.where, implied=True)
        for result in computed.computed
        if computed.expected and result.worker not in {other.worker for other in computed.expected}
    )
    title = f"round {computed.number} at {computed.now_ms} ms"
    return Step(title, stated.where, seen, (*expected, *surplus), tuple(_lines(stated, computed, before)))


def _fields(result: WorkerResult) -> Iterator[tuple[str, str]]:
    """What can be compared; the order of units is nobody's promise."""
    yield f"{result.worker} delay", f"{result.delay_ms} ms"
    yield f"{result.worker} assigned", _sorted(result.assigned)
    yield f"{result.worker} revoked", _sorted(result.revoked)


def _sorted(units: Units) -> str:
    return listed(sorted(map(written, units)))


def _listed(units: Units) -> str:
    return listed(map(written, units))
