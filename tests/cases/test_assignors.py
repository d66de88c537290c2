"""The server-side assignors: Kafka's own test cases and derived ones, in every dialect; and its recorded answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import Any

import pytest
from case_file import each, listed
from known_keys import ANY, Of, refuse_unknown

from fsm.coordinator.assignors import GroupSpec, MemberSpec, Order, PartitionAssignorError, make_assignors
from fsm.coordinator.model.dialect import Choice, Dialect, dialect, presets
from fsm.coordinator.model.hash_order import HASHED
from fsm.protocol.assignment import TopicPartitions, topic_partitions

ONE_TEST_A_FILE = True

Document = Mapping[str, Any]
Assigned = dict[str, TopicPartitions]


@dataclass(frozen=True)
class Case:
    """A group, the assignor that is called, and what it shall answer."""

    group: GroupSpec
    expected: Document
    assignor: str
    dialect: Dialect
    order: Order
    orders: tuple[tuple[str, ...], ...]
    """Orders of the members in which the assignor runs again on its own result."""

    def run(self, group: GroupSpec) -> Assigned:
        assigned = make_assignors(self.dialect, self.order)[self.assignor](group)
        return {member_id: tuple(sorted(partitions)) for member_id, partitions in assigned.items()}

    def again(self, assigned: Assigned, order: tuple[str, ...]) -> GroupSpec:
        """The group with the result as its last target, members in another order."""
        specs = self.group.members
        members = {m: MemberSpec(specs[m].subscribed, assigned[m], specs[m].instance_id) for m in order}
        return GroupSpec(members, self.group.topics, self.group.homogeneous)


def reads(head: Any) -> bool:
    """YAML documents whose cases name an assignor, and lines with its calls."""
    if not isinstance(head, dict):
        return False
    found = [*head.get("cases", ()), *head.get("derived", ()), head]
    return any(isinstance(case, dict) and {"assignor", "topics", "members", "expect"} <= case.keys() for case in found)


EXPECT = {"assignment": ANY, "sizes": ANY, "properties": ANY, "error": ANY}
COMPARED = Of({"expect": EXPECT, "differs": [Of({"expect": EXPECT})]})


def cases(file: Any) -> Iterator[tuple[str, Case]]:
    """Recorded calls as they are; each case of a document in each preset."""
    if file.kind == "json lines":
        return each(file.raw_lines(), recorded_line)
    return each(listed(file.head, "cases", "derived"), lambda found: in_presets(file, *found))


def in_presets(file: Any, at: tuple[Any, ...], stated: Document) -> Iterator[tuple[str, Case]]:
    refuse_unknown(file, at, stated, COMPARED)
    yield from ((f"{stated['id']}-{preset.name}", documented(stated, preset)) for preset in presets())


def recorded_line(raw: bytes) -> Iterator[tuple[str, Case]]:
    line = json.loads(raw)
    yield line["case"], recorded(line)


def documented(stated: Document, preset: Dialect) -> Case:
    members = {
        member_id: MemberSpec(
            tuple(stated_member["subscribed"]),
            as_listed(stated_member.get("previous", {})),
            stated_member.get("instance_id"),
        )
        for member_id, stated_member in stated["members"].items()
    }
    order = stated.get("order", {})
    members = {member_id: members[member_id] for member_id in order.get("members", sorted(members))}
    topics = order.get("topics")
    again = stated.get("rerun_orders")
    return Case(
        GroupSpec(members, stated["topics"], stated["subscription_type"] == "homogeneous"),
        as_in(stated, preset)["expect"],
        stated["assignor"],
        preset,
        Order(topics=partial(sorted, key=topics.index)) if topics else Order(),
        tuple(permutations(members)) if again == "all permutations" else (tuple(members),),
    )


def as_in(stated: Document, preset: Dialect) -> Document:
    """The case itself, or the exception that names a dialect with the same rule for extra slots (F25)."""
    for exception in stated.get("differs", ()):
        for name in exception["dialects"]:
            if (Choice.EXTRA_SLOT_STAYS in dialect(name)) == (Choice.EXTRA_SLOT_STAYS in preset):
                return dict(exception)
    return stated


def as_listed(previous: Mapping[str, list[int]]) -> TopicPartitions:
    return tuple((topic, tuple(numbers)) for topic, numbers in previous.items() if numbers)


def recorded(line: Document) -> Case:
    """A call of Kafka's code: members in its order, and topics as its hash maps walk them."""
    members = {
        stated_member["id"]: MemberSpec(
            tuple(map(uuid, stated_member["subscribed"])),
            by_uuid(stated_member["previous"]),
            stated_member.get("instance_id"),
        )
        for stated_member in line["members"]
    }
    topics = {uuid(topic): count for topic, count in line["topics"].items()}
    group = GroupSpec(members, topics, line["subscription_type"].lower() == "homogeneous")
    expected = {
        "assignment": {
            m: {uuid(t): ps for t, ps in stated_member.items()} for m, stated_member in line["expect"].items()
        }
    }
    return Case(group, expected, line["assignor"], dialect("4.4"), HASHED, ())


def uuid(topic: str) -> str:
    """The id of topic `Ti` in the recordings: 1 in the upper half, i + 1 in the lower one."""
    raw = (1).to_bytes(8, "big") + (int(topic[1:]) + 1).to_bytes(8, "big")
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def by_uuid(previous: Mapping[str, list[int]]) -> TopicPartitions:
    return topic_partitions({uuid(topic): numbers for topic, numbers in previous.items()})


def test_the_assignment_is_the_stated_one(case: Case) -> None:
    """Every member gets exactly the partitions that Kafka gives it, or Kafka's error is raised."""
    if "error" in case.expected:
        with pytest.raises(PartitionAssignorError, match="does not exist"):
            case.run(case.group)
        return
    assigned = case.run(case.group)
    if "assignment" in case.expected:
        assert assigned == {
            m: topic_partitions(stated_member) for m, stated_member in case.expected["assignment"].items()
        }
    for member_id, size in case.expected.get("sizes", {}).items():
        assert sum(len(numbers) for _, numbers in assigned[member_id]) == size


def test_the_stated_properties_hold(case: Case) -> None:
    """Valid, complete, balanced, stable when run again in any order, the same objects given back: where stated."""
    if "error" in case.expected:
        return
    assigned = case.run(case.group)
    for name in case.expected.get("properties", ()):
        PROPERTIES[name](case, assigned)


def valid(case: Case, assigned: Assigned) -> None:
    """Nobody has a topic that it does not subscribe to, and no partition has two owners."""
    for member_id, partitions in assigned.items():
        assert {topic for topic, _ in partitions} <= set(case.group.members[member_id].subscribed)
    everything = flat(assigned)
    assert len(everything) == len(set(everything))


def complete(case: Case, assigned: Assigned) -> None:
    """Every partition of every subscribed topic has an owner."""
    topics = {topic for member in case.group.members.values() for topic in member.subscribed}
    assert set(flat(assigned)) == {(topic, p) for topic in topics for p in range(case.group.topics[topic])}


def balanced(_case: Case, assigned: Assigned) -> None:
    """Sizes differ by one at most."""
    sizes = [sum(len(numbers) for _, numbers in partitions) for partitions in assigned.values()]
    assert max(sizes) - min(sizes) <= 1


def stable_on_rerun(case: Case, assigned: Assigned) -> None:
    """The result as last target gives the same result, in whatever order the members come."""
    for order in case.orders:
        assert case.run(case.again(assigned, order)) == assigned


def reuses_input(case: Case, assigned: Assigned) -> None:
    """A member whose partitions do not change gets the very object back."""
    group = case.again(assigned, tuple(case.group.members))
    again = make_assignors(case.dialect, case.order)[case.assignor](group)
    assert all(again[member_id] is spec.previous for member_id, spec in group.members.items())


def flat(assigned: Assigned) -> list[tuple[str, int]]:
    return [(topic, p) for partitions in assigned.values() for topic, numbers in partitions for p in numbers]


PROPERTIES = {f.__name__: f for f in (valid, complete, balanced, stable_on_rerun, reuses_input)}


@pytest.mark.our_copies
def test_our_copies_hold_39_cases_in_12_dialects_and_1292_calls(files: Any) -> None:
    """Nothing of the files is left out."""
    assert sorted(sum(1 for _ in cases(file)) for file in files if reads(file.head)) == [39 * 12, 1292]
