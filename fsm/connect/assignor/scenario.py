"""The scenarios of the design document: rounds of a group of workers, as the document prints them.

A scenario document has an initial assignment, a config topic, and rounds with who joins and who leads. `rounds` runs
them from the start on the assignor's own results and says beside each what the document expects. Units are written as
the document writes them: `AC0` is the instance of connector A, `AT1` its task 1.

Source: KIP-415, "Rebalance scenarios"; the schema of `cases/seed_connect.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fsm.connect.assignor.incremental import Outcome, Round, assign
from fsm.connect.assignor.memory import Memory
from fsm.connect.dialect import DOCUMENT, Profile
from fsm.connect.units import Holdings, Unit, Units
from fsm.errors import InputError

MAX_DELAY_MS = 300_000
"""The document's default of scheduled.rebalance.max.delay.ms, which its scenarios use."""

WRITTEN = re.compile(r"(?P<connector>.+)(?:C0|T(?P<number>\d+))")


class WorkerResult(NamedTuple):
    """What one worker gets in one round."""

    worker: str
    delay: str
    """`0`, or the document's symbol: `d`, then `d'`, `d''` for what is left of the same delay."""
    delay_ms: int
    assigned: Units
    """Everything it holds after the round, what it kept first."""
    revoked: Units

    def __str__(self) -> str:
        return (
            f"{self.worker}(delay: {self.delay}, assigned: {_listed(self.assigned)}, revoked: {_listed(self.revoked)})"
        )

    def same(self, other: WorkerResult) -> bool:
        """Whether both say the same; the order of units is nobody's promise, and an instant may have no symbol."""
        return (self.worker, self.delay_ms, set(self.assigned), set(self.revoked)) == (
            other.worker,
            other.delay_ms,
            set(other.assigned),
            set(other.revoked),
        )


@dataclass(frozen=True)
class ScenarioRound:
    """One round of one scenario: what was computed, and what the document says."""

    scenario: str
    title: str
    number: int
    now_ms: int
    stimuli: tuple[str, ...]
    leader: str
    computed: tuple[WorkerResult, ...]
    expected: tuple[WorkerResult, ...]
    """In the order of the document; empty where it says nothing for this profile."""

    @property
    def agrees(self) -> bool:
        """Whether every worker gets what the document says, and nobody else anything."""
        theirs = {result.worker: result for result in self.expected}
        return not theirs or (
            theirs.keys() == {result.worker for result in self.computed}
            and all(result.same(theirs[result.worker]) for result in self.computed)
        )

    def lines(self) -> Iterator[str]:
        """The round as the document prints it."""
        yield from self.stimuli
        yield f"{self.leader} becomes leader"
        yield f"{self.leader} computes and sends assignments:"
        yield from map(str, self.computed)


def reads(document: Any) -> bool:
    """Whether this is a document of Connect scenarios; one of them may lack something, which `rounds` tells."""
    scenarios = document.get("scenarios") if isinstance(document, dict) else None
    if not scenarios or not isinstance(scenarios, list):
        return False
    return any(isinstance(s, dict) and {"config_topic", "initial_leader", "rounds"} <= s.keys() for s in scenarios)


def rounds(document: Mapping[str, Any], profile: Profile) -> Iterator[ScenarioRound]:
    """Every round of every scenario of the document, under the profile.

    Raises:
        InputError: a scenario lacks a field, or writes a unit in a way that is not the document's.
    """
    for scenario in document["scenarios"]:
        try:
            yield from _scenario(scenario, profile)
        except KeyError as absent:
            raise InputError(f"scenario {scenario.get('id', '?')}: no field {absent}") from absent


def unit(text: str) -> Unit:
    """The unit that the document writes as `AC0` or `AT1`.

    Raises:
        InputError: it is written in another way.
    """
    match = WRITTEN.fullmatch(text)
    if match is None:
        raise InputError(f"{text!r} is no unit", remedy="write AC0 for the instance of connector A, AT1 for its task 1")
    return Unit(match["connector"], int(match["number"])) if match["number"] else Unit(match["connector"])


def written(given: Unit) -> str:
    """The unit as the document writes it."""
    return f"{given.connector}C0" if given.is_connector else f"{given.connector}T{given.number}"


def _listed(units: Units) -> str:
    return "[" + ", ".join(map(written, units)) + "]"


@dataclass
class _Group:
    """The workers of one scenario between rounds."""

    holds: dict[str, Units]
    leader: str
    memories: dict[str, Memory]
    """Of the workers that are there; a worker that returns is a new process."""
    deadline_ms: int | None = None
    symbols: list[int] = field(default_factory=list)
    """Delays of the running deadline so far."""
    generation: int = 0

    def plays(self, owned: Holdings, stated: Round, leader: str, profile: Profile) -> Outcome:
        known = {worker: memory for worker, memory in self.memories.items() if worker in owned}
        outcome = assign(known.get(leader, Memory()), stated, MAX_DELAY_MS, profile)
        self.memories = {**known, leader: outcome.memory}
        self.holds, self.leader, self.generation = dict(outcome.after), leader, stated.generation
        self.deadline_ms = outcome.memory.deadline_ms
        self.symbols = [*self.symbols, outcome.delay_ms] if outcome.delay_ms else []
        return outcome


def _scenario(scenario: Mapping[str, Any], profile: Profile) -> Iterator[ScenarioRound]:
    configured = frozenset(map(unit, scenario["config_topic"]))
    holds = {worker: tuple(map(unit, units)) for worker, units in scenario["initial"].items()}
    leader = scenario["initial_leader"]
    memory = Memory(previous=configured, previous_members=frozenset(holds), previous_generation=0)
    group = _Group(holds, leader, {leader: memory})
    for stated in scenario["rounds"]:
        yield _round(scenario, stated, group, configured, profile)


def _round(
    scenario: Mapping[str, Any], stated: Mapping[str, Any], group: _Group, configured: frozenset[Unit], profile: Profile
) -> ScenarioRound:
    now_ms = _clock(stated, group)
    owned = {join["worker"]: group.holds.get(join["worker"], ()) for join in stated["joins"]}
    owned = {worker: owned[worker] for worker in sorted(owned)}
    leader = stated["leader"]
    known = Round(
        now_ms=now_ms,
        generation=group.generation + 1,
        configured=configured,
        owned=owned,
        last_completed_generation=group.generation if leader in group.holds else -1,
        remaining_delay_ms=max(0, group.deadline_ms - now_ms) if group.deadline_ms is not None else 0,
    )
    outcome = group.plays(owned, known, leader, profile)
    symbol = "d" + "'" * (len(group.symbols) - 1) if outcome.delay_ms else "0"
    computed = tuple(
        WorkerResult(worker, symbol, outcome.delay_ms, outcome.after[worker], outcome.revoked[worker])
        for worker in outcome.after
    )
    expected = tuple(_expected(stated, profile, group.symbols))
    stimuli = tuple(stated.get("stimuli", ()))
    title = scenario.get("title", scenario["id"])
    return ScenarioRound(scenario["id"], title, stated["round"], now_ms, stimuli, leader, computed, expected)


def _clock(stated: Mapping[str, Any], group: _Group) -> int:
    """The instant the document gives, else one that its words allow: half of a running delay, or its end."""
    if "sample_clock_ms" in stated:
        return int(stated["sample_clock_ms"])
    if group.deadline_ms is None:
        return 0
    return group.deadline_ms if stated.get("delay_in_progress_at_start") == "expired" else group.deadline_ms // 2


def _expected(stated: Mapping[str, Any], profile: Profile, delays: Sequence[int]) -> Iterator[WorkerResult]:
    if profile == DOCUMENT:
        for worker, said in stated["expect"].items():
            delay_ms = _instant(said["delay"], stated, delays)
            yield WorkerResult(worker, said["delay"], delay_ms, _units(said["assigned"]), _units(said["revoked"]))
        return
    for worker, said in stated.get("shipped_trunk", {}).get("per_worker", {}).items():
        delay_ms = said["delay"]
        yield WorkerResult(worker, str(delay_ms), delay_ms, _units(said["holds_after"]), _units(said["revoked"]))


def _instant(symbol: str, stated: Mapping[str, Any], delays: Sequence[int]) -> int:
    """What a symbol stands for: the stated sample, else the delay that was given that many rounds into it."""
    if symbol == "0":
        return 0
    if "sample_delay_ms" in stated:
        return int(stated["sample_delay_ms"])
    return delays[symbol.count("'")] if symbol.count("'") < len(delays) else -1


def _units(texts: Sequence[str]) -> Units:
    return tuple(map(unit, texts))
