"""Kafka's own tests of Connect's assignors as data, and situations that it has no test for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml
from case_file import each, listed
from known_keys import ANY, EACH, Of, place, refuse_unknown

from fsm.connect.assignor.incremental import Memory, Order, handle_lost
from fsm.connect.assignor.incremental import place as dealt
from fsm.connect.assignor.leader import ConfigSnapshot, Election, assign_eagerly, perform
from fsm.connect.dialect import SHIPPED
from fsm.connect.protocol import (
    Assignment,
    WorkerMetadata,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)
from fsm.connect.units import Units, kinds, list_configured, units_of
from fsm.connect.worker.config import VERSIONS, ConnectConfig
from fsm.errors import InputError
from fsm.nodes import nearest, yaml_node
from fsm.scenario.files import replay_document
from fsm.scenario.texts import read_units

Stated = Mapping[str, Any]


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


def documented(file: Any, at: tuple[Any, ...], stated: Stated) -> Iterator[tuple[str, Stated]]:
    """Raises `InputError` for a kind that there is not, and for what would not be compared."""
    if stated["kind"] not in KINDS:
        raise InputError(
            f"unknown kind {stated['kind']!r}", place(file, (*at, "kind")), nearest(str(stated["kind"]), [*KINDS])
        )
    refuse_unknown(file, at, stated, COMPARED.get(stated["kind"], ANY))
    yield stated["id"], stated


def test_the_case_comes_out(case: Stated) -> None:
    """What the case expects and, beyond it, what the shipped algorithm exactly gives is what ours gives."""
    KINDS[case["kind"]](case)


def written(given: Mapping[str, Units]) -> dict[str, list[str]]:
    """Units by worker, each kind on its own; workers without any are left out, as in the files."""
    return {worker: [str(u) for kind in kinds(held) for u in kind] for worker, held in given.items() if held}


def loads(stated_loads: Mapping[str, Stated]) -> dict[str, Units]:
    return {worker: units_of(load["connectors"], load["tasks"]) for worker, load in stated_loads.items()}


def run_rounds(case: Stated) -> None:
    """As `fsm replay` runs them, every round with all that is asked of it."""
    (run,) = replay_document(yaml_node(yaml.safe_dump({"cases": [case]}), case["id"], "scenario"), case["id"])
    assert [round_.title.split()[1] for round_ in run.steps] == [str(stated["round"]) for stated in case["rounds"]]
    assert run.differences() == ()


# ------------------------------------------------------------------------------------------- parts of a round


def run_placement(case: Stated) -> None:
    """Units of each kind dealt to workers that hold some already."""
    before = loads(case["existing"])
    placed: Mapping[str, Units] = before
    for stated in case["place"]:
        placed = dealt(placed, read_units(stated["units"]), SHIPPED)
    added = {worker: held[len(before[worker]) :] for worker, held in placed.items()}
    for stated in (case["expect"], case.get("derived", {})):
        if "added_in_order" in stated:
            assert written(added) == stated["added_in_order"]


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
    for stated in case["steps"]:
        now_ms += stated.get("advance_ms", 0)
        if "set_previous_members" in stated:
            memory = replace(memory, previous_members=frozenset(stated["set_previous_members"]))
        before = loads(stated["active_loads"])
        lost = handle_lost(
            memory, read_units(stated["lost"]), before, now_ms=now_ms, max_delay_ms=setup["max_delay_ms"], order=Order()
        )
        memory = lost.memory
        added = {worker: lost.loads[worker][len(before[worker]) :] for worker in before}
        check_lost(stated, memory, added, lost.to_place, now_ms)


def check_lost(stated: Stated, memory: Memory, added: Mapping[str, Units], to_place: Units, now_ms: int) -> None:
    expect = stated["expect"]
    where = f"step {stated['step']}"
    assert sorted(memory.candidates) == sorted(expect["candidates"]), where
    assert (0 if memory.deadline_ms is None else memory.deadline_ms - now_ms) == expect["scheduled_in_ms"], where
    assert memory.delay_ms == expect["delay_ms"], where
    lost = sorted(read_units(stated["lost"]))
    if "all_lost_placed_on_any_of" in expect:
        assert {worker for worker, held in added.items() if held} <= set(expect["all_lost_placed_on_any_of"]), where
        assert sorted(u for held in added.values() for u in held) == lost, where
    if expect.get("all_lost_returned_as_new"):
        assert list(to_place) == lost, where
    exact = stated.get("derived", {})
    assert written(added) == exact.get("placed", written(added)), where
    assert sorted(to_place) == sorted(read_units(exact.get("returned_as_new", [str(u) for u in to_place]))), where


def run_eager(case: Stated) -> None:
    """Everything anew, dealt to the members in turn."""
    assert written(assign_eagerly(list_configured(case["connectors"]), case["workers"])) == case["expect"]


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
    sent = {
        member: encode_assignment(assignment, assignment.version) for member, assignment in done.assignments.items()
    }
    assert {decode_assignment(data).version for data in sent.values()} == {version}
    if case["expect"].get("leader_state_published"):
        assert done.outcome is not None
        assert done.outcome.after.keys() == metadata.keys()
        assert {assignment.leader_url for assignment in done.assignments.values()} == {given["url"]}


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
    for stated in case["rounds"]:
        now_ms, generation = now_ms + stated.get("advance_ms", 0), generation + 1
        members = {worker: joined(worker, held, protocol) for worker, held in sorted(stated["joins_owning"].items())}
        done = perform(
            Election(setup["leader"], protocol, generation, members),
            memory,
            (snapshot, snapshot),
            config,
            now_ms=now_ms,
            last_completed_generation=completed,
        )
        memory, completed = done.memory, generation
        check_coordinated(stated, done.assignments, protocol)


def joined(worker: str, held: Sequence[str], protocol: str) -> WorkerMetadata:
    """What the leader reads of a worker that holds these units, in the order of the case: bytes group by connector."""
    metadata = WorkerMetadata(f"http://{worker}/", 1, Assignment(VERSIONS[protocol], "", "", 1, read_units(held)))
    read = decode_metadata(encode_metadata(metadata, VERSIONS[protocol]))
    assert read.held is not None
    assert sorted(read.held.assigned) == sorted(read_units(held))
    return metadata


def check_coordinated(stated: Stated, assignments: Mapping[str, Assignment], protocol: str) -> None:
    where = f"{protocol}, round {stated['round']}"
    seen = {}
    for worker, assignment in assignments.items():
        got = decode_assignment(encode_assignment(assignment, assignment.version))
        (connectors, tasks), (gone, stopped) = kinds(got.assigned), kinds(got.revoked)
        seen[worker] = {
            "assigned_connectors": [str(u) for u in connectors],
            "assigned_task_count": len(tasks),
            "revoked_connectors": [str(u) for u in gone],
            "revoked_task_count": len(stopped),
            "delay_ms": got.delay_ms,
        }
    assert seen == stated["expect"], where
    for verb in ("assigned", "revoked"):
        exact = {worker: getattr(assignment, verb) for worker, assignment in assignments.items()}
        assert written(exact) == stated.get("derived", {}).get(verb, written(exact)), where


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
