"""Kafka's own tests of Connect's assignors as data, and situations that it has no test for."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from case_file import each, listed
from known_keys import ANY, EACH, Of, place, refuse_unknown

from fsm.connect.assignor import Outcome, Round, assign
from fsm.connect.config import VERSIONS, ConnectConfig
from fsm.connect.dialect import SHIPPED
from fsm.connect.eager import assign_eagerly
from fsm.connect.leader import ConfigSnapshot, Election, perform
from fsm.connect.lost_work import handle_lost
from fsm.connect.memory import Memory, Order
from fsm.connect.placement import place as dealt
from fsm.connect.protocol import (
    Assignment,
    WorkerMetadata,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)
from fsm.connect.units import Holdings, Unit, Units, configured, kinds, units_of
from fsm.errors import InputError
from fsm.nodes import nearest

Stated = Mapping[str, Any]
TASK = re.compile(r"(.+)-(\d+)")
ADVANCE = re.compile(r"(?:(?P<base>[DM])(?:/(?P<by>\d+))?)?(?P<plus>[+-]?\d+)?")


def reads(head: Any) -> bool:
    """Documents with lists of cases of the kinds below."""
    return next(stated(head), None) is not None


def stated(head: Any) -> Iterator[Stated]:
    for section in head.values() if isinstance(head, dict) else ():
        for found in section if isinstance(section, list) else ():
            if isinstance(found, dict) and found.get("kind") in KINDS:
                yield found


def cases(file: Any) -> Iterator[tuple[str, Stated]]:
    sections = (name for name, section in file.head.items() if isinstance(section, list))
    return each(listed(file.head, *sections), lambda found: documented(file, *found))


def documented(file: Any, at: tuple[Any, ...], said: Stated) -> Iterator[tuple[str, Stated]]:
    """Raises `InputError` for a kind that there is not, and for what would not be compared."""
    if said["kind"] not in KINDS:
        raise InputError(
            f"unknown kind {said['kind']!r}", place(file, (*at, "kind")), nearest(str(said["kind"]), [*KINDS])
        )
    refuse_unknown(file, at, said, COMPARED.get(said["kind"], ANY))
    yield said["id"], said


def test_the_case_comes_out(case: Stated) -> None:
    """What the case expects and, beyond it, what the shipped algorithm exactly gives is what ours gives."""
    KINDS[case["kind"]](case)


def unit(text: str) -> Unit:
    match = TASK.fullmatch(text)
    return Unit(match[1], int(match[2])) if match else Unit(text)


def units(texts: Sequence[str]) -> Units:
    return tuple(map(unit, texts))


def written(given: Mapping[str, Units]) -> dict[str, list[str]]:
    """Units by worker, each kind on its own; workers without any are left out, as in the files."""
    return {worker: [str(u) for kind in kinds(held) for u in kind] for worker, held in given.items() if held}


def loads(stated_loads: Mapping[str, Stated]) -> dict[str, Units]:
    return {worker: units_of(said["connectors"], said["tasks"]) for worker, said in stated_loads.items()}


# ------------------------------------------------------------------------------------------------------- rounds


@dataclass
class Group:
    """A group of workers whose leader's assignor is under test."""

    task_counts: dict[str, int]
    holds: dict[str, Units]
    max_delay_ms: int
    memory: Memory
    generation: int
    last_completed: int
    now_ms: int = 0
    delay_ms: int = 0
    gone: dict[str, Units] = field(default_factory=dict)

    def change(self, what: str, value: Any) -> None:
        match what:
            case "add_workers":
                self.holds |= dict.fromkeys(value, ())
            case "remove_workers":
                self.gone |= {worker: self.holds.pop(worker) for worker in value}
            case "add_worker_owning":
                self.holds[value["worker"]] = units_of(value["connectors"], value["tasks"])
            case "rejoin_with_old_holdings":
                self.holds[value] = self.gone[value]
            case "delete_connector":
                del self.task_counts[value]
            case "create_connector" | "set_task_count":
                self.task_counts |= value
            case "new_leader_without_history":
                self.memory = Memory(previous_generation=self.generation)
            case _:
                raise AssertionError(f"no stimulus {what!r}")

    def stimulate(self, stimulus: Stated) -> None:
        if "advance" in stimulus:
            self.now_ms += self.step_ms(stimulus)
            return
        for what, value in stimulus.items():
            self.change(what, value)

    def step_ms(self, stimulus: Stated) -> int:
        if "ms" in stimulus:
            return int(stimulus["ms"])
        match = ADVANCE.fullmatch(stimulus["advance"].replace(" ", ""))
        assert match, stimulus
        base = {"D": self.delay_ms, "M": self.max_delay_ms}.get(match["base"], 0)
        return base // int(match["by"] or 1) + int(match["plus"] or 0)

    def play(self, mode: str) -> Outcome:
        owned = {worker: self.holds[worker] for worker in sorted(self.holds)}
        known = Round(self.now_ms, self.generation + 1, configured(self.task_counts), owned, self.last_completed)
        outcome = assign(self.memory, known, self.max_delay_ms)
        self.memory, self.generation, self.delay_ms = outcome.memory, known.generation, outcome.delay_ms
        self.last_completed = known.generation - (mode == "mismatched_generation")
        if mode != "failed":
            self.holds = {
                worker: tuple(u for kind in kinds(held) for u in kind) for worker, held in outcome.after.items()
            }
        return outcome


def group_of(setup: Stated) -> Group:
    previous = setup.get("assignor_previous_generation", -1)
    return Group(
        dict(setup["connectors"]),
        {worker: units(held) for worker, held in setup.get("workers", {}).items()},
        setup["max_delay_ms"],
        Memory(previous_generation=previous),
        setup["generation"],
        setup.get("last_completed_generation", setup["generation"]),
    )


def run_rounds(case: Stated) -> None:
    group = group_of(case["setup"])
    for said in case["rounds"]:
        for stimulus in said["stimuli"]:
            group.stimulate(stimulus)
        owned = dict(group.holds)
        outcome = group.play(said["mode"])
        where = f"round {said['round']}"
        hold_always(owned, outcome, where)
        seen = observed(group, outcome)
        for what, value in said.get("expect", {}).items():
            assert meets(seen[what], value), (where, what, seen[what], value)
        told = derived(group, outcome)
        exact = {key: value for key, value in said.get("derived", {}).items() if key != "leader"}
        assert {key: told[key] for key in exact} == exact, where


def meets(got: Any, value: Any) -> bool:
    """Equal to the value, or within the bounds it states."""
    if not isinstance(value, dict):
        return bool(got == value)
    return all(getattr(operator, bound)(got, limit) for bound, limit in value.items())


def hold_always(owned: Holdings, outcome: Outcome, where: str) -> None:
    """What the files ask of every round."""
    new = Counter(u for held in outcome.assigned.values() for u in held)
    assert max(new.values(), default=1) == 1, where
    assert not new.keys() & {u for held in owned.values() for u in held}, where
    for worker, held in owned.items():
        after = (set(held) - set(outcome.revoked[worker])) | set(outcome.assigned[worker])
        assert after == set(outcome.after[worker]), where


def observed(group: Group, outcome: Outcome) -> dict[str, Any]:
    """What Kafka's tests look at: what the members hold once the round is over, unless it failed."""
    connectors = sorted(len(kinds(held)[0]) for held in group.holds.values())
    tasks = sorted(len(kinds(held)[1]) for held in group.holds.values())
    spread = [max(sizes, default=0) - min(sizes, default=0) for sizes in (connectors, tasks)]
    held = [u for mine in group.holds.values() for u in mine]
    return {
        "delay_ms": outcome.delay_ms,
        "workers": sorted(group.holds),
        "connector_counts_sorted": connectors,
        "task_counts_sorted": tasks,
        "balanced_and_complete": max(spread) <= 1 and sorted(held) == sorted(configured(group.task_counts)),
        "nothing_assigned_or_revoked": not any(outcome.assigned.values()) and not any(outcome.revoked.values()),
        "no_revocations": not any(outcome.revoked.values()),
    }


def derived(group: Group, outcome: Outcome) -> dict[str, Any]:
    """The exact result, and the memory that is left."""
    memory = outcome.memory
    due = None if memory.deadline_ms is None else memory.deadline_ms - group.now_ms
    return {
        "delay_ms": outcome.delay_ms,
        "next_rebalance_in_ms": due,
        "assigned": written(outcome.assigned),
        "revoked": written(outcome.revoked),
        "owned_after": {worker: [str(u) for u in held] for worker, held in group.holds.items()},
        "revoked_in_previous": memory.revoked_last,
        "successive_revoking_rounds": memory.successive,
        "candidates": list(memory.candidates),
    }


# ------------------------------------------------------------------------------------------- parts of a round


def run_placement(case: Stated) -> None:
    """Units of each kind dealt to workers that hold some already."""
    before = loads(case["existing"])
    placed: Mapping[str, Units] = before
    for said in case["place"]:
        placed = dealt(placed, units(said["units"]), SHIPPED)
    added = {worker: held[len(before[worker]) :] for worker, held in placed.items()}
    for said in (case["expect"], case.get("derived", {})):
        if "added_in_order" in said:
            assert written(added) == said["added_in_order"]


def run_lost(case: Stated) -> None:
    """What becomes of lost work, call after call."""
    setup = case["setup"]
    memory = Memory(
        candidates=tuple(setup["candidates"]),
        deadline_ms=setup["scheduled_ms"] or None,
        delay_ms=setup["delay_ms"],
        revoked_last=setup["revoked_in_previous"],
    )
    now_ms = 0
    for said in case["steps"]:
        now_ms += said.get("advance_ms", 0)
        if "set_previous_members" in said:
            memory = replace(memory, previous_members=frozenset(said["set_previous_members"]))
        before = loads(said["active_loads"])
        lost = handle_lost(
            memory, units(said["lost"]), before, now_ms=now_ms, max_delay_ms=setup["max_delay_ms"], order=Order()
        )
        memory = lost.memory
        added = {worker: lost.loads[worker][len(before[worker]) :] for worker in before}
        check_lost(said, memory, added, lost.to_place, now_ms)


def check_lost(said: Stated, memory: Memory, added: Mapping[str, Units], to_place: Units, now_ms: int) -> None:
    expect = said["expect"]
    where = f"step {said['step']}"
    assert sorted(memory.candidates) == sorted(expect["candidates"]), where
    assert (0 if memory.deadline_ms is None else memory.deadline_ms - now_ms) == expect["scheduled_in_ms"], where
    assert memory.delay_ms == expect["delay_ms"], where
    lost = sorted(units(said["lost"]))
    if "all_lost_placed_on_any_of" in expect:
        assert {worker for worker, held in added.items() if held} <= set(expect["all_lost_placed_on_any_of"]), where
        assert sorted(u for held in added.values() for u in held) == lost, where
    if expect.get("all_lost_returned_as_new"):
        assert list(to_place) == lost, where
    exact = said.get("derived", {})
    assert written(added) == exact.get("placed", written(added)), where
    assert sorted(to_place) == sorted(units(exact.get("returned_as_new", [str(u) for u in to_place]))), where


def run_eager(case: Stated) -> None:
    """Everything anew, dealt to the members in turn."""
    assert written(assign_eagerly(configured(case["connectors"]), case["workers"])) == case["expect"]


# ------------------------------------------------------------------------------------ leaders and their bytes


def run_protocol(case: Stated) -> None:
    """A round through the leader and the wire: every member gets an assignment of the elected version."""
    given = case["given"]
    version = given.get("protocol_version", case["expect"].get("assignment_version"))
    elected = given.get("elected") or next(name for name, number in VERSIONS.items() if number == version)
    metadata = {m: WorkerMetadata(given.get("url", "u"), given["config_offset"]) for m in given["members"]}
    counts = tuple((name, 0) for name in given["connectors"])
    snapshot = ConfigSnapshot(given["config_offset"], counts)
    done = perform(
        Election(given["leader"], elected, 1, metadata),
        Memory(),
        (snapshot, snapshot),
        ConnectConfig("g"),
        now_ms=0,
        last_completed_generation=-1,
    )
    sent = {member: encode_assignment(told, told.version) for member, told in done.assignments.items()}
    assert {decode_assignment(data).version for data in sent.values()} == {version}
    if case["expect"].get("leader_state_published"):
        assert done.outcome is not None
        assert done.outcome.after.keys() == metadata.keys()
        assert {told.leader_url for told in done.assignments.values()} == {given["url"]}


def run_coordinator(case: Stated) -> None:
    """Rounds through the leader and the wire, under each protocol the case names."""
    for protocol in case["protocols"]:
        coordinate(case, protocol)


def coordinate(case: Stated, protocol: str) -> None:
    setup = case["setup"]
    memory = Memory(previous_generation=setup["assignor_previous_generation"])
    generation, completed, now_ms = setup["generation"], setup["last_completed_generation"], 0
    config = ConnectConfig("g", protocol, setup["max_delay_ms"])
    snapshot = ConfigSnapshot(1, tuple(setup["connectors"].items()))
    for said in case["rounds"]:
        now_ms, generation = now_ms + said.get("advance_ms", 0), generation + 1
        members = {worker: joined(worker, held, protocol) for worker, held in sorted(said["joins_owning"].items())}
        done = perform(
            Election(setup["leader"], protocol, generation, members),
            memory,
            (snapshot, snapshot),
            config,
            now_ms=now_ms,
            last_completed_generation=completed,
        )
        memory, completed = done.memory, generation
        check_coordinated(said, done.assignments, protocol)


def joined(worker: str, held: Sequence[str], protocol: str) -> WorkerMetadata:
    """What the leader reads of a worker that holds these units, in the order of the case: bytes group by connector."""
    said = WorkerMetadata(f"http://{worker}/", 1, Assignment(VERSIONS[protocol], "", "", 1, units(held)))
    read = decode_metadata(encode_metadata(said, VERSIONS[protocol]))
    assert read.held is not None
    assert sorted(read.held.assigned) == sorted(units(held))
    return said


def check_coordinated(said: Stated, assignments: Mapping[str, Assignment], protocol: str) -> None:
    where = f"{protocol}, round {said['round']}"
    seen = {}
    for worker, told in assignments.items():
        got = decode_assignment(encode_assignment(told, told.version))
        (connectors, tasks), (gone, stopped) = kinds(got.assigned), kinds(got.revoked)
        seen[worker] = {
            "assigned_connectors": [str(u) for u in connectors],
            "assigned_task_count": len(tasks),
            "revoked_connectors": [str(u) for u in gone],
            "revoked_task_count": len(stopped),
            "delay_ms": got.delay_ms,
        }
    assert seen == said["expect"], where
    for verb in ("assigned", "revoked"):
        exact = {worker: getattr(told, verb) for worker, told in assignments.items()}
        assert written(exact) == said.get("derived", {}).get(verb, written(exact)), where


KINDS: dict[str, Callable[[Stated], None]] = {
    "rounds": run_rounds,
    "placement": run_placement,
    "lost_handler": run_lost,
    "eager_assignment": run_eager,
    "protocol": run_protocol,
    "coordinator_rounds": run_coordinator,
}

TESTED = (
    "delay_ms",
    "workers",
    "connector_counts_sorted",
    "task_counts_sorted",
    "balanced_and_complete",
    "nothing_assigned_or_revoked",
    "no_revocations",
)
EXACT = (
    "leader",
    "delay_ms",
    "next_rebalance_in_ms",
    "assigned",
    "revoked",
    "owned_after",
    "revoked_in_previous",
    "successive_revoking_rounds",
    "candidates",
)
LOST = ("candidates", "scheduled_in_ms", "delay_ms", "all_lost_placed_on_any_of", "all_lost_returned_as_new")


def only(*names: str, **shapes: Any) -> dict[str, Any]:
    return {**dict.fromkeys(names, ANY), **shapes}


COMPARED: dict[str, Any] = {
    "rounds": Of(
        {"rounds": [only("round", "stimuli", "mode", "note", "notes", expect=only(*TESTED), derived=only(*EXACT))]}
    ),
    "placement": Of(only(expect=only("added_in_order"), derived=only("added_in_order"))),
    "lost_handler": Of(
        {
            "steps": [
                only(
                    *("step", "active_loads", "lost", "set_previous_members", "advance_ms", "note", "notes"),
                    expect=only(*LOST),
                    derived=only("placed", "returned_as_new"),
                )
            ]
        }
    ),
    "protocol": Of({"expect": only("assignment_version", "leader_state_published")}),
    "coordinator_rounds": Of(
        {
            "rounds": [
                only(
                    *("round", "advance_ms", "joins_owning", "note", "notes"),
                    expect={EACH: ANY},
                    derived=only("assigned", "revoked"),
                )
            ]
        }
    ),
}
"""What can be expected of each kind; the rest is compared whole."""
