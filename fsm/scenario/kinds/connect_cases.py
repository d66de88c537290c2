"""Rounds of Kafka Connect as Kafka's own tests have them: a group, what happens to it, and what each round comes to.

The cases of kind `rounds` in a document of lists of cases (`connect.yaml`); its other kinds are no scenarios and are
passed over. What Kafka's code gives exactly (`derived`), what its tests look at (`expect`), and what the files ask of
every round is compared.
It runs under the profiles of `fsm.connect.dialect`, by default under `shipped`, which the cases are about.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fsm.connect import dialect as dialects
from fsm.connect.assignor.incremental import Outcome
from fsm.connect.assignor.memory import Memory
from fsm.connect.dialect import Profile
from fsm.connect.units import Holdings, Unit, configured, kinds
from fsm.errors import InputError
from fsm.nodes import Node
from fsm.scenario.connect_rounds import MODES, Group, units
from fsm.scenario.shape import EACH, Checked, Maybe, Only, read
from fsm.scenario.steps import NOTHING, Expected, Replay, Step
from fsm.scenario.words import listed, one_line

NAME = "Connect cases"


def _check_mode(text: str) -> None:
    if text not in MODES:
        raise InputError(f"{text[:60]!r} is no mode", remedy=f"one of {', '.join(MODES)}")


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
"""What a case holds for its rounds to be run."""
_TESTED: Mapping[str, Any] = {
    "delay_ms": int,
    "workers": [str],
    "connector_counts_sorted": [int],
    "task_counts_sorted": [int],
}
"""What tests look at and a step shows, or bounds of it (`{gt: 0}`)."""
_TESTED_BESIDE = ("balanced_and_complete", "nothing_assigned_or_revoked", "no_revocations")
"""What tests look at and a step does not show, since it follows from what it does."""
_MEMORY = {"revoked_in_previous": "revoked_last", "successive_revoking_rounds": "successive"}
"""What the assignor remembers and a step does not show."""
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
    """Runs every case of kind `rounds`. Raises `InputError` with the line for what has another shape."""
    profile = dialects.SHIPPED if dialect is None else dialects.profile(dialect)
    for node in _cases(document):
        case = read(node, SHAPE)
        steps = tuple(_steps(node, case, profile))
        yield Replay(file, NAME, case.get("summary", case["id"]), profile.name, steps)


def _steps(node: Node, case: Mapping[str, Any], profile: Profile) -> Iterator[Step]:
    group = _group(case["setup"])
    group.check_size(node.where)
    for stated, place in zip(case["rounds"], node.mapping()["rounds"][1].items(), strict=True):
        stimuli = place.mapping()["stimuli"][1].items() if "stimuli" in place.mapping() else []
        for stimulus in stimuli:
            group.stimulate(stimulus)
        before = dict(group.holds)
        outcome = group.play(stated["mode"], profile)
        seen = dict(_seen(group, outcome))
        expected = (
            *_tested(place, group, outcome),
            *_derived(stated, group, place.where),
            Expected("broken", NOTHING, place.where, implied=True, got=", ".join(_broken(before, outcome)) or NOTHING),
        )
        lines = (*map(_told, stimuli), *_lines(outcome))
        yield Step(f"round {stated['round']} at {group.now_ms} ms", place.where, seen, expected, lines)


def _group(setup: Mapping[str, Any]) -> Group:
    return Group(
        dict(setup["connectors"]),
        {worker: units(held) for worker, held in setup.get("workers", {}).items()},
        setup["max_delay_ms"],
        Memory(previous_generation=setup.get("assignor_previous_generation", -1)),
        setup["generation"],
        setup.get("last_completed_generation", setup["generation"]),
    )


def _told(stimulus: Node) -> str:
    return ", ".join(f"{name}: {one_line(value)}" for name, (_, value) in stimulus.mapping().items() if name != "ms")


def _lines(outcome: Outcome) -> Iterator[str]:
    """The round in the words of the design document."""
    for worker, after in outcome.after.items():
        revoked = _written(outcome.revoked[worker])
        yield f"{worker}(delay: {outcome.delay_ms}, assigned: {_written(after)}, revoked: {revoked})"


def _seen(group: Group, outcome: Outcome) -> Iterator[tuple[str, str]]:
    memory, held = group.memory, group.holds.values()
    due = None if memory.deadline_ms is None else memory.deadline_ms - group.now_ms
    yield "delay_ms", str(outcome.delay_ms)
    yield "next_rebalance_in_ms", NOTHING if due is None else str(due)
    yield "workers", listed(sorted(group.holds))
    yield "connector_counts_sorted", listed(map(str, sorted(len(kinds(units_)[0]) for units_ in held)))
    yield "task_counts_sorted", listed(map(str, sorted(len(kinds(units_)[1]) for units_ in held)))
    yield "candidates", listed(memory.candidates)
    for worker in outcome.after:
        yield f"{worker} assigned", _written(outcome.assigned[worker])
        yield f"{worker} revoked", _written(outcome.revoked[worker])
        yield f"{worker} owned", _written(group.holds.get(worker, ()))


def _tested(place: Node, group: Group, outcome: Outcome) -> Iterator[Expected]:
    tests = place.mapping().get("expect")
    for name, value in tests[1].fields((*_TESTED, *_TESTED_BESIDE, "note")).items() if tests is not None else ():
        if name in _TESTED_BESIDE:
            yield Expected(name, _value(value.flag()), value.where, implied=True, got=_holds(name, group, outcome))
        elif name == "delay_ms" and isinstance(value.value, dict):
            for bound, limit in value.fields(tuple(_BOUNDS)).items():
                got = _value(_BOUNDS[bound](outcome.delay_ms, limit.number()))
                yield Expected(f"delay_ms {bound} {limit.number()}", "true", value.where, implied=True, got=got)
        elif name in _TESTED:
            yield Expected(name, _value(read(value, _TESTED[name])), value.where)


_BOUNDS = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}


def _holds(name: str, group: Group, outcome: Outcome) -> str:
    """Whether something that tests look at is so."""
    held = [kinds(units_) for units_ in group.holds.values()]
    spread = [max(sizes, default=0) - min(sizes, default=0) for sizes in zip(*(map(len, h) for h in held), strict=True)]
    placed = sorted(u for kind_of_units in held for units_ in kind_of_units for u in units_)
    revoked = any(outcome.revoked.values())
    return _value(
        {
            "balanced_and_complete": max(spread, default=0) <= 1 and placed == sorted(configured(group.task_counts)),
            "nothing_assigned_or_revoked": not revoked and not any(outcome.assigned.values()),
            "no_revocations": not revoked,
        }[name]
    )


def _broken(before: Holdings, outcome: Outcome) -> Iterator[str]:
    """What holds of every round and does not of this one."""
    new = [u for held in outcome.assigned.values() for u in held]
    if len({*new}) < len(new):
        yield "a unit is newly assigned twice"
    if {*new} & {u for held in before.values() for u in held}:
        yield "a unit is newly assigned that somebody holds"
    for worker, held in before.items():
        if {*held} - {*outcome.revoked[worker]} | {*outcome.assigned[worker]} != {*outcome.after[worker]}:
            yield f"{worker} does not hold what follows from what it held"


def _derived(stated: Mapping[str, Any], group: Group, where: str) -> Iterator[Expected]:
    derived = stated.get("derived", {})
    for name, value in derived.items():
        if name in _MEMORY:
            got = _value(getattr(group.memory, _MEMORY[name]))
            yield Expected(name, _value(value).lower(), where, implied=True, got=got)
        elif name not in _PER_WORKER:
            yield Expected(name, _value(value), where)
    for key, field in _PER_WORKER.items():
        if key in derived:
            workers = dict.fromkeys((*derived[key], *group.holds))
            yield from (Expected(f"{w} {field}", _written(units(derived[key].get(w, []))), where) for w in workers)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return listed(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return NOTHING if value is None else str(value)


def _written(given: Iterable[Unit]) -> str:
    """Connectors before tasks."""
    return listed(str(u) for kind in kinds(given) for u in kind)
