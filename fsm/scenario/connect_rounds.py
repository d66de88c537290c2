"""A group of Connect workers between rounds, as cases describe what happens to it: who comes, who goes, time, work.

Stimuli of a round, in their order: `add_workers`, `remove_workers` (lists of names), `add_worker_owning`
(`{worker, connectors, tasks}`), `rejoin_with_old_holdings` (a worker that was removed comes back with what it held),
`create_connector` and `set_task_count` (`{name: number of tasks}`), `delete_connector`, `new_leader_without_history`,
and `advance`: an expression of D, the delay of the round before, and M, the longest one: `D/2`, `M`, `D-1`, `40`.

After a round the workers hold what they were given, unless its `mode` is `failed`. In a round whose `mode` is
`mismatched_generation` the leader's worker has completed the last round but one only, so that the assignor forgets what
it had assigned (`performRebalance` of Kafka's `IncrementalCooperativeAssignorTest`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fsm.connect.assignor.incremental import Outcome, Round, assign
from fsm.connect.assignor.memory import Memory
from fsm.connect.dialect import Profile
from fsm.connect.units import Unit, Units, configured, kinds, units_of
from fsm.errors import InputError
from fsm.nodes import Node, nearest
from fsm.scenario.shape import EACH, read
from fsm.scenario.words import texts

MODES = ("standard", "failed", "mismatched_generation")
UNITS_LIMIT = 100_000
"""More work than that is no case."""
_TASK = re.compile(r"(.+)-(\d{1,9})")
_ADVANCE = re.compile(r"(?:([DM])(?:/(\d{1,9}))?)?([+-]?\d{1,15})?")


def unit(text: str) -> Unit:
    """`name` is a connector, `name-0` its first task."""
    match = _TASK.fullmatch(text)
    return Unit(match[1], int(match[2])) if match else Unit(text)


def units(texts_: list[str]) -> Units:
    """Several of them."""
    return tuple(map(unit, texts_))


@dataclass
class Group:
    """The workers, their work, and the memory of the leader's assignor."""

    task_counts: dict[str, int]
    holds: dict[str, Units]
    max_delay_ms: int
    memory: Memory
    generation: int
    last_completed: int
    now_ms: int = 0
    delay_ms: int = 0
    gone: dict[str, Units] = field(default_factory=dict)

    def stimulate(self, node: Node) -> None:
        """Something happens before the next round. Raises `InputError` with the line for what cannot."""
        for name, (key, value) in node.mapping().items():
            if name == "ms":  # what `advance` comes to, said again
                continue
            if name not in STIMULI:
                raise InputError(f"unknown stimulus {name[:60]!r}", key.where, nearest(name, tuple(STIMULI)))
            STIMULI[name](self, value)
        self.check_size(node.where)

    def check_size(self, where: str) -> None:
        """Raises `InputError` where there is more to do than a case may ask for."""
        if len(self.task_counts) + sum(self.task_counts.values()) > UNITS_LIMIT:
            raise InputError(f"more than {UNITS_LIMIT} connectors and tasks", where)
        if min(self.task_counts.values(), default=0) < 0:
            raise InputError("a connector has no fewer than 0 tasks", where)

    def play(self, mode: str, profile: Profile) -> Outcome:
        """The round."""
        owned = {worker: self.holds[worker] for worker in sorted(self.holds)}
        known = Round(
            now_ms=self.now_ms,
            generation=self.generation + 1,
            configured=configured(self.task_counts),
            owned=owned,
            last_completed_generation=self.last_completed - (mode == "mismatched_generation"),
            remaining_delay_ms=max(0, (self.memory.deadline_ms or 0) - self.now_ms),
        )
        outcome = assign(self.memory, known, self.max_delay_ms, profile)
        self.memory, self.generation, self.delay_ms = outcome.memory, known.generation, outcome.delay_ms
        self.last_completed = known.generation
        if mode != "failed":
            self.holds = {worker: in_kinds(held) for worker, held in outcome.after.items()}
        return outcome


def in_kinds(held: Units) -> Units:
    """Connectors before tasks, each in their order."""
    return tuple(u for kind in kinds(held) for u in kind)


def _add_workers(group: Group, node: Node) -> None:
    group.holds |= dict.fromkeys(texts(node), ())


def _remove_workers(group: Group, node: Node) -> None:
    for item in node.items():
        group.gone[item.text()] = group.holds.pop(_known(item, group.holds))


def _add_worker_owning(group: Group, node: Node) -> None:
    given = read(node, {"worker": str, "connectors": [str], "tasks": [str]})
    group.holds[given["worker"]] = units_of(given["connectors"], given["tasks"])


def _rejoin(group: Group, node: Node) -> None:
    group.holds[node.text()] = group.gone[_known(node, group.gone)]


def _set_task_counts(group: Group, node: Node) -> None:
    group.task_counts |= read(node, {EACH: int})


def _delete_connector(group: Group, node: Node) -> None:
    del group.task_counts[_known(node, group.task_counts)]


def _new_leader(group: Group, _: Node) -> None:
    group.memory = Memory(previous_generation=group.generation)


def _advance(group: Group, node: Node) -> None:
    match = _ADVANCE.fullmatch(node.text().replace(" ", ""))
    if match is None or not match[0] or int(match[2] or 1) == 0:
        raise InputError(f"{node.text()[:60]!r} is no time", node.where, "write D, D/2, M, D-1, or milliseconds")
    base = {"D": group.delay_ms, "M": group.max_delay_ms}.get(match[1], 0)
    group.now_ms += base // int(match[2] or 1) + int(match[3] or 0)


def _known(node: Node, names: Mapping[str, object]) -> str:
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
"""What can happen between two rounds."""
