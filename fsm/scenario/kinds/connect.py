"""Rounds of Kafka Connect: joining workers with their holdings, the leader, and the assignment by its assignor.

The kind of `seed_connect.yaml`, a list of `scenarios`, each with its `initial` holdings, `config_topic`,
`initial_leader` and `rounds`. Each round starts from the assignor's last result, and is printed as in the design
document. It runs under the profiles of `fsm.connect.dialect`: `document`, the default, reproduces the document's five
scenarios round by round; `shipped` is Kafka's code, for which the file may have other expectations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fsm.connect import dialect as dialects
from fsm.connect.assignor.incremental import Memory, Outcome, Round, assign
from fsm.connect.dialect import DOCUMENT, Profile
from fsm.connect.units import Unit, Units
from fsm.errors import InputError
from fsm.nodes import Node
from fsm.scenario.reading import EACH, Checked, Only, read
from fsm.scenario.story import Act, Expected, Replay, RoundStage, Seen, play
from fsm.scenario.texts import show_list

NAME = "Connect rounds"
MAX_DELAY_MS = 300_000
"""The document's default of scheduled.rebalance.max.delay.ms, which its scenarios use."""
_WRITTEN = re.compile(r"(?P<connector>.+)(?:C0|T(?P<number>\d+))")


def read_unit(text: str) -> Unit:
    """Parses the document's notation of a unit, `AC0` or `AT1`. Raises `InputError` for any other text."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise InputError(
            f"{text!r} is not a unit", remedy="write AC0 for the instance of connector A, AT1 for its task 1"
        )
    return Unit(match["connector"], int(match["number"])) if match["number"] else Unit(match["connector"])


def show_units(units: Iterable[Unit]) -> str:
    """Units in the document's notation."""
    return show_list(_write(unit) for unit in units)


def _write(unit: Unit) -> str:
    return f"{unit.connector}C0" if unit.is_connector else f"{unit.connector}T{unit.number}"


_UNITS = [Checked(read_unit)]
_RESULT = Only({"delay": str, "assigned": _UNITS, "revoked": _UNITS}, unread=("newly_assigned",))
_SHIPPED = Only({"delay": int, "holds_after": _UNITS, "revoked": _UNITS}, unread=("newly_assigned",))
_ROUND: Mapping[str, Any] = {
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
SHAPE: Mapping[str, Any] = {
    "id": str,
    "title?": str,
    "initial": {EACH: _UNITS},
    "config_topic": _UNITS,
    "initial_leader": str,
    "rounds": [_ROUND],
}
"""The keys of a scenario that are needed to run its rounds; other keys are ignored."""


def reads(document: Node) -> bool:
    """Whether the document is a list of scenarios whose first one has rounds of a group of workers."""
    scenarios = document.value.get("scenarios") if isinstance(document.value, dict) else None
    items = scenarios[1].value if scenarios is not None else ()
    if not isinstance(items, list) or not items:
        return False
    return isinstance(items[0].value, dict) and {"config_topic", "initial_leader", "rounds"} <= items[0].value.keys()


def replay(document: Node, file: str, dialect: str | None) -> Iterator[Replay]:
    """Runs all scenarios of the document. Raises `InputError` with the line for a value of another shape."""
    profile = dialects.DOCUMENT if dialect is None else dialects.profile(dialect)
    for scenario in document.mapping()["scenarios"][1].items():
        data = read(scenario, SHAPE)
        rounds = scenario.mapping()["rounds"][1].items()
        _check_leaders(rounds)
        title = data.get("title", data["id"]) if rounds else data["id"]
        yield Replay(file, NAME, title, profile.name, play(Rounds(data, profile), rounds))


def _check_leaders(rounds: Iterable[Node]) -> None:
    """Checks that the leader is one of the joining workers, and that none joins twice."""
    for stated in rounds:
        fields = stated.mapping()
        joins = [join.mapping()["worker"][1].text() for join in fields["joins"][1].items()]
        leader = fields["leader"][1]
        if leader.text() not in joins:
            raise InputError(f"{leader.text()[:60]!r} leads, but does not join", leader.where)
        if len(set(joins)) < len(joins):
            raise InputError("a worker joins twice in one round", fields["joins"][1].where)


class Rounds(RoundStage):
    """The stage: the workers of one scenario between rounds.

    Source: KIP-415, "Rebalance scenarios"; `tests/cases/seed_connect.yaml` has them as data.
    """

    def __init__(self, scenario: Mapping[str, Any], profile: Profile) -> None:
        self.scenario = scenario
        self.profile = profile
        self.configured = frozenset(map(read_unit, scenario["config_topic"]))
        self.holds: dict[str, Units] = {worker: _read_units(held) for worker, held in scenario["initial"].items()}
        memory = Memory(previous=self.configured, previous_members=frozenset(self.holds), previous_generation=0)
        self.memories = {scenario["initial_leader"]: memory}
        """The memory of each present worker; a worker that returns is a new process."""
        self.deadline_ms: int | None = None
        self.delays: list[int] = []
        """The remaining delay after each round."""
        self.generation = 0
        self._seen = Seen({}, ())

    def do(self, act: Act) -> None:
        stated = read(act.value, _ROUND)
        leader = stated["leader"]
        self.now_ms = now_ms = self._clock(stated)
        joins = [join["worker"] for join in stated["joins"]]
        owned = {worker: self.holds.get(worker, ()) for worker in sorted(joins)}
        known = Round(
            now_ms=now_ms,
            generation=self.generation + 1,
            configured=self.configured,
            owned=owned,
            last_completed_generation=self.generation if leader in self.holds else -1,
            remaining_delay_ms=max(0, self.deadline_ms - now_ms) if self.deadline_ms is not None else 0,
        )
        memories = {worker: memory for worker, memory in self.memories.items() if worker in owned}
        outcome = assign(memories.get(leader, Memory()), known, MAX_DELAY_MS, self.profile)
        before = (*self._begin(), *stated.get("stimuli", ()))
        before += tuple(f"{worker} joins with assignment: {show_units(owned[worker])}" for worker in joins)
        self.memories = {**memories, leader: outcome.memory}
        self.holds, self.generation = dict(outcome.after), known.generation
        self.deadline_ms = outcome.memory.deadline_ms
        self.delays = [*self.delays, outcome.delay_ms] if outcome.delay_ms else []
        self._seen = Seen(dict(_show_round(outcome)), (*before, *self._lines(leader, outcome)))

    def _clock(self, stated: Mapping[str, Any]) -> int:
        """The instant in the document, else one that fits its text: half of a running delay, or its end."""
        if "sample_clock_ms" in stated:
            return int(stated["sample_clock_ms"])
        if self.deadline_ms is None:
            return 0
        return self.deadline_ms if stated.get("delay_in_progress_at_start") == "expired" else self.deadline_ms // 2

    def _begin(self) -> Iterator[str]:
        if not self.generation:
            held = (f"{worker}({show_units(units)})" for worker, units in self.holds.items())
            yield "Initial group and assignment: " + ", ".join(held)
            yield "Config topic contains: " + ", ".join(self.scenario["config_topic"])
            yield f"{self.scenario['initial_leader']} is current leader"

    def _lines(self, leader: str, outcome: Outcome) -> Iterator[str]:
        """The round in the document's format: `d` is a delay, `d'` and `d''` its remainders."""
        delay = "d" + "'" * (len(self.delays) - 1) if outcome.delay_ms else "0"
        yield f"{leader} becomes leader"
        yield f"{leader} computes and sends assignments:"
        for worker, units in outcome.after.items():
            revoked = show_units(outcome.revoked[worker])
            yield f"{worker}(delay: {delay}, assigned: {show_units(units)}, revoked: {revoked})"

    def see(self) -> Seen:
        return self._seen

    def expect(self, node: Node, _seen: Mapping[str, str]) -> Iterator[Expected]:
        """The expectations of the document, or its expectations for Kafka; only workers that it names."""
        stated = read(node, _ROUND)
        of_document = self.profile == DOCUMENT
        results = stated["expect"] if of_document else stated.get("shipped_trunk", {}).get("per_worker", {})
        for worker, result in results.items():
            delay_ms = self._read_delay(result["delay"], stated) if of_document else result["delay"]
            holds = result["assigned" if of_document else "holds_after"]
            for field, value in _fields(worker, delay_ms, _read_units(holds), _read_units(result["revoked"])):
                yield Expected(field, value, node.where)
        for worker in self.holds:
            if results and worker not in results:
                yield Expected(f"{worker} delay", "no place in the group", node.where, implied=True)

    def _read_delay(self, symbol: str, stated: Mapping[str, Any]) -> int:
        """The value of a symbol: the stated sample, else the delay in that round."""
        if symbol == "0":
            return 0
        if "sample_delay_ms" in stated:
            return int(stated["sample_delay_ms"])
        return self.delays[symbol.count("'")] if symbol.count("'") < len(self.delays) else -1


def _show_round(outcome: Outcome) -> Iterator[tuple[str, str]]:
    for worker, units in outcome.after.items():
        yield from _fields(worker, outcome.delay_ms, units, outcome.revoked[worker])


def _fields(worker: str, delay_ms: int, assigned: Units, revoked: Units) -> Iterator[tuple[str, str]]:
    """The fields for comparison; the order of units is unspecified."""
    yield f"{worker} delay", f"{delay_ms} ms"
    yield f"{worker} assigned", show_list(sorted(map(_write, assigned)))
    yield f"{worker} revoked", show_list(sorted(map(_write, revoked)))


def _read_units(texts: Sequence[str]) -> Units:
    return tuple(map(read_unit, texts))
