"""Rounds of Kafka Connect from Kafka's own tests: a group, stimuli, and the result of each round.

The cases of kind `rounds` in a document of lists of cases (`connect.yaml`); its other kinds are not scenarios and
are ignored. The exact results of Kafka's code (`derived`) and the assertions of its tests (`expect`) are compared, and
the invariants of every round are checked. It runs under the profiles of `fsm.connect.dialect`, by default under
`shipped`, which the cases are about.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fsm.connect import dialect as dialects
from fsm.connect.assignor.incremental import Memory, Outcome, Round, assign
from fsm.connect.dialect import Profile
from fsm.connect.units import Unit, Units, UnitsByWorker, kinds, list_configured, units_of
from fsm.errors import InputError
from fsm.nodes import Node, nearest
from fsm.scenario.reading import EACH, Checked, Maybe, Only, read
from fsm.scenario.story import Act, Expected, Replay, RoundStage, Seen, play
from fsm.scenario.texts import NOTHING, read_texts, read_units, show_list, show_node

NAME = "Connect cases"
MODES = ("standard", "failed", "mismatched_generation")
UNITS_LIMIT = 100_000
"""The maximum number of units."""
_ADVANCE = re.compile(r"(?:([DM])(?:/(\d{1,9}))?)?([+-]?\d{1,15})?")


def _check_mode(text: str) -> None:
    if text not in MODES:
        raise InputError(f"{text[:60]!r} is not a mode", remedy=f"one of {', '.join(MODES)}")


_HELD = {EACH: [str]}
_SETUP = {
    "max_delay_ms": int,
    "connectors": {EACH: int},
    "workers?": _HELD,
    "generation": int,
    "assignor_previous_generation?": int,
    "last_completed_generation?": int,
}
_ROUND = {
    "round": int,
    "mode": Checked(_check_mode),
    "derived?": Only(
        {
            "delay_ms?": int,
            "next_rebalance_in_ms?": Maybe(int),
            "assigned?": _HELD,
            "revoked?": _HELD,
            "owned_after?": _HELD,
            "candidates?": [str],
            "revoked_in_previous?": str,
            "successive_revoking_rounds?": int,
        },
        unread=("leader", "note"),
    ),
}
SHAPE: Mapping[str, Any] = {"id": str, "summary?": str, "setup": _SETUP, "rounds": [_ROUND]}
"""The keys of a case that are needed to run its rounds."""
_TESTED: Mapping[str, Any] = {
    "delay_ms": int,
    "workers": [str],
    "connector_counts_sorted": [int],
    "task_counts_sorted": [int],
}
"""Assertions of tests on fields of a step, or bounds of them (`{gt: 0}`)."""
_TESTED_BESIDE = ("balanced_and_complete", "nothing_assigned_or_revoked", "no_revocations")
"""Assertions of tests that are no fields of a step, because they follow from others."""
_MEMORY = {"revoked_in_previous": "revoked_last", "successive_revoking_rounds": "successive"}
"""State of the assignor that is no field of a step."""
_PER_WORKER = {"assigned": "assigned", "revoked": "revoked", "owned_after": "owned"}


def reads(document: Node) -> bool:
    """Whether one of the document's lists has a case of kind `rounds`."""
    return next(_cases(document), None) is not None


def _cases(document: Node) -> Iterator[Node]:
    sections = document.value.values() if isinstance(document.value, dict) else ()
    for _, section in sections:
        for case in section.value if isinstance(section.value, list) else ():
            kind = case.value.get("kind") if isinstance(case.value, dict) else None
            if kind is not None and kind[1].value == "rounds":
                yield case


def replay(document: Node, file: str, dialect: str | None) -> Iterator[Replay]:
    """Runs every case of kind `rounds`. Raises `InputError` with the line for a value of another shape."""
    profile = dialects.SHIPPED if dialect is None else dialects.profile(dialect)
    for node in _cases(document):
        case = read(node, SHAPE)
        group = Group(case["setup"], profile)
        group.check_size(node.where)
        steps = play(group, node.mapping()["rounds"][1].items())
        yield Replay(file, NAME, case.get("summary", case["id"]), profile.name, steps)


class Group(RoundStage):
    """The stage: the workers between rounds, their work, and the memory of the leader's assignor.

    Stimuli of a round, in their order: `add_workers`, `remove_workers` (lists of names), `add_worker_owning` (`{worker,
    connectors, tasks}`), `rejoin_with_old_holdings` (a removed worker returns with its old units), `create_connector`
    and `set_task_count` (`{name: number of tasks}`), `delete_connector`, `new_leader_without_history`, and `advance`:
    an expression of D, the delay of the last round, and M, the longest one: `D/2`, `M`, `D-1`, `40`. After a round the
    workers hold their assignments, unless its `mode` is `failed`. In a round whose `mode` is `mismatched_generation`
    the leader has completed only the last round but one, so that the assignor drops its previous assignment
    (`performRebalance` of Kafka's `IncrementalCooperativeAssignorTest`).
    """

    def __init__(self, setup: Mapping[str, Any], profile: Profile) -> None:
        self.profile = profile
        self.task_counts: dict[str, int] = dict(setup["connectors"])
        self.holds: dict[str, Units] = {worker: read_units(held) for worker, held in setup.get("workers", {}).items()}
        self.max_delay_ms: int = setup["max_delay_ms"]
        self.memory = Memory(previous_generation=setup.get("assignor_previous_generation", -1))
        self.generation: int = setup["generation"]
        self.last_completed: int = setup.get("last_completed_generation", self.generation)
        self.gone: dict[str, Units] = {}
        """The units of removed workers."""
        self.delay_ms = 0
        self._stimuli: tuple[str, ...] = ()

    def do(self, act: Act) -> None:
        stated = act.value.mapping()
        stimuli = stated["stimuli"][1].items() if "stimuli" in stated else []
        for stimulus in stimuli:
            self._stimulate(stimulus)
        self._stimuli = tuple(map(_show_stimulus, stimuli))
        self.before = dict(self.holds)
        self.outcome = self._compute(stated["mode"][1].text())

    def check_size(self, where: str) -> None:
        """Raises `InputError` if a case is too large."""
        if len(self.task_counts) + sum(self.task_counts.values()) > UNITS_LIMIT:
            raise InputError(f"more than {UNITS_LIMIT} connectors and tasks", where)
        if min(self.task_counts.values(), default=0) < 0:
            raise InputError("a connector cannot have fewer than 0 tasks", where)

    def _stimulate(self, node: Node) -> None:
        for name, (key, value) in node.mapping().items():
            if name == "ms":  # the value of `advance`
                continue
            if name not in STIMULI:
                raise InputError(f"unknown stimulus {name[:60]!r}", key.where, nearest(name, tuple(STIMULI)))
            STIMULI[name](self, value)
        self.check_size(node.where)

    def _compute(self, mode: str) -> Outcome:
        known = Round(
            now_ms=self.now_ms,
            generation=self.generation + 1,
            configured=list_configured(self.task_counts),
            owned={worker: self.holds[worker] for worker in sorted(self.holds)},
            last_completed_generation=self.last_completed - (mode == "mismatched_generation"),
            remaining_delay_ms=max(0, (self.memory.deadline_ms or 0) - self.now_ms),
        )
        outcome = assign(self.memory, known, self.max_delay_ms, self.profile)
        self.memory, self.delay_ms = outcome.memory, outcome.delay_ms
        self.generation = self.last_completed = known.generation
        if mode != "failed":
            self.holds = {worker: _in_kinds(held) for worker, held in outcome.after.items()}
        return outcome

    def see(self) -> Seen:
        return Seen(dict(self._fields()), (*self._stimuli, *self._lines()))

    def _lines(self) -> Iterator[str]:
        """The round in the format of the design document."""
        for worker, after in self.outcome.after.items():
            revoked = _show(self.outcome.revoked[worker])
            yield f"{worker}(delay: {self.outcome.delay_ms}, assigned: {_show(after)}, revoked: {revoked})"

    def _fields(self) -> Iterator[tuple[str, str]]:
        outcome, held = self.outcome, [kinds(units) for units in self.holds.values()]
        due = None if self.memory.deadline_ms is None else self.memory.deadline_ms - self.now_ms
        yield "delay_ms", str(outcome.delay_ms)
        yield "next_rebalance_in_ms", _value(due)
        yield "workers", show_list(sorted(self.holds))
        yield "connector_counts_sorted", show_list(map(str, sorted(len(connectors) for connectors, _ in held)))
        yield "task_counts_sorted", show_list(map(str, sorted(len(tasks) for _, tasks in held)))
        yield "candidates", show_list(self.memory.candidates)
        for worker in outcome.after:
            yield f"{worker} assigned", _show(outcome.assigned[worker])
            yield f"{worker} revoked", _show(outcome.revoked[worker])
            yield f"{worker} owned", _show(self.holds.get(worker, ()))

    # Expectations

    def expect(self, node: Node, _seen: Mapping[str, str]) -> Iterator[Expected]:
        """The assertions of Kafka's tests, the results of its code, and the invariants of every round."""
        yield from self._expect_tested(node)
        yield from self._expect_derived(read(node, _ROUND).get("derived", {}), node.where)
        broken = ", ".join(_find_broken(self.before, self.outcome)) or NOTHING
        yield Expected("broken", NOTHING, node.where, implied=True, got=broken)

    def _expect_tested(self, node: Node) -> Iterator[Expected]:
        tests = node.mapping().get("expect")
        known = (*_TESTED, *_TESTED_BESIDE, "note")
        for name, value in tests[1].fields(known).items() if tests is not None else ():
            if name in _TESTED_BESIDE:
                got = _value(self._has_property(name))
                yield Expected(name, _value(value.flag()), value.where, implied=True, got=got)
            elif name == "delay_ms" and isinstance(value.value, dict):
                for bound, limit in value.fields(tuple(_BOUNDS)).items():
                    got = _value(_BOUNDS[bound](self.outcome.delay_ms, limit.number()))
                    yield Expected(f"delay_ms {bound} {limit.number()}", "true", value.where, implied=True, got=got)
            elif name in _TESTED:
                yield Expected(name, _value(read(value, _TESTED[name])), value.where)

    def _expect_derived(self, derived: Mapping[str, Any], where: str) -> Iterator[Expected]:
        for name, value in derived.items():
            if name in _MEMORY:
                got = _value(getattr(self.memory, _MEMORY[name]))
                yield Expected(name, _value(value).lower(), where, implied=True, got=got)
            elif name not in _PER_WORKER:
                yield Expected(name, _value(value), where)
        for key, field in _PER_WORKER.items():
            if key in derived:
                for worker in dict.fromkeys((*derived[key], *self.holds)):
                    yield Expected(f"{worker} {field}", _show(read_units(derived[key].get(worker, []))), where)

    def _has_property(self, name: str) -> bool:
        held = [kinds(units) for units in self.holds.values()]
        revoked = any(self.outcome.revoked.values())
        if name == "no_revocations":
            return not revoked
        if name == "nothing_assigned_or_revoked":
            return not revoked and not any(self.outcome.assigned.values())
        sizes = zip(*(map(len, each) for each in held), strict=True)
        placed = sorted(unit for of_kind in held for units in of_kind for unit in units)
        balanced = all(max(each, default=0) - min(each, default=0) <= 1 for each in sizes)
        return balanced and placed == sorted(list_configured(self.task_counts))


_BOUNDS = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}


def _show_stimulus(stimulus: Node) -> str:
    return ", ".join(f"{name}: {show_node(value)}" for name, (_, value) in stimulus.mapping().items() if name != "ms")


def _find_broken(before: UnitsByWorker, outcome: Outcome) -> Iterator[str]:
    """The violated invariants of this round."""
    new = [u for held in outcome.assigned.values() for u in held]
    if len({*new}) < len(new):
        yield "a unit is newly assigned twice"
    if {*new} & {u for held in before.values() for u in held}:
        yield "a unit is newly assigned that somebody holds"
    for worker, held in before.items():
        if {*held} - {*outcome.revoked[worker]} | {*outcome.assigned[worker]} != {*outcome.after[worker]}:
            yield f"{worker} does not hold what follows from what it held"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return show_list(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return NOTHING if value is None else str(value)


def _in_kinds(units: Iterable[Unit]) -> Units:
    return tuple(unit for of_kind in kinds(units) for unit in of_kind)


def _show(units: Iterable[Unit]) -> str:
    return show_list(map(str, _in_kinds(units)))


# Stimuli between two rounds


def _add_workers(group: Group, node: Node) -> None:
    group.holds |= dict.fromkeys(read_texts(node), ())


def _remove_workers(group: Group, node: Node) -> None:
    for item in node.items():
        group.gone[item.text()] = group.holds.pop(_require(item, group.holds))


def _add_worker_owning(group: Group, node: Node) -> None:
    given = read(node, {"worker": str, "connectors": [str], "tasks": [str]})
    group.holds[given["worker"]] = units_of(given["connectors"], given["tasks"])


def _rejoin(group: Group, node: Node) -> None:
    group.holds[node.text()] = group.gone[_require(node, group.gone)]


def _set_task_counts(group: Group, node: Node) -> None:
    group.task_counts |= read(node, {EACH: int})


def _delete_connector(group: Group, node: Node) -> None:
    del group.task_counts[_require(node, group.task_counts)]


def _new_leader(group: Group, _: Node) -> None:
    group.memory = Memory(previous_generation=group.generation)


def _advance(group: Group, node: Node) -> None:
    match = _ADVANCE.fullmatch(node.text().replace(" ", ""))
    if match is None or not match[0] or int(match[2] or 1) == 0:
        raise InputError(f"{node.text()[:60]!r} is not a time", node.where, "write D, D/2, M, D-1, or milliseconds")
    base = {"D": group.delay_ms, "M": group.max_delay_ms}.get(match[1], 0)
    group.now_ms += base // int(match[2] or 1) + int(match[3] or 0)


def _require(node: Node, names: Mapping[str, object]) -> str:
    if node.text() not in names:
        raise InputError(f"{node.text()[:60]!r} is not there", node.where, nearest(node.text(), tuple(names)))
    return node.text()


STIMULI: Mapping[str, Callable[[Group, Node], None]] = {
    "add_workers": _add_workers,
    "remove_workers": _remove_workers,
    "add_worker_owning": _add_worker_owning,
    "rejoin_with_old_holdings": _rejoin,
    "create_connector": _set_task_counts,
    "set_task_count": _set_task_counts,
    "delete_connector": _delete_connector,
    "new_leader_without_history": _new_leader,
    "advance": _advance,
}
