"""Reconciliation of one member: the cases of Kafka's own test and derived ones, in every dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest
from case_file import each, listed
from known_keys import ANY, Of, refuse_unknown

from fsm.coordinator.consumer.reconciliation import Decision, Reconciliation, freeze, reconcile
from fsm.coordinator.model.consumer_group import CurrentAssignment, Partition
from fsm.coordinator.model.dialect import Choice, Dialect, dialect, presets
from fsm.protocol.assignment import TopicPartitions, flatten, topic_partitions
from fsm.tables.consumer_group_member import TABLE, Effect, Event, State

ONE_TEST_A_FILE = True

Document = Mapping[str, Any]

LOOKED_AT = frozenset(
    {
        Choice.REVOKES_AGAIN_AT_OWN_EPOCH,
        Choice.OWN_PENDING_NEVER_BLOCKS,
        Choice.SUBSCRIPTION_FILTERS_TARGET,
        Choice.TRIM_MOVES_PREVIOUS_EPOCH,
    }
)
"""Choices that decide about state, epochs and partitions here: dialects that agree on them share a case's results."""


@dataclass(frozen=True)
class Case:
    """One case in one dialect, with the defaults of its file filled in."""

    given: Document
    expected: Document
    row: str
    dialect: Dialect

    @cached_property
    def member(self) -> CurrentAssignment:
        given = self.given["member"]
        epochs = given.get("assigned_epochs", given["epoch"])
        return CurrentAssignment(
            State[given["state"]],
            given["epoch"],
            given["previous_epoch"],
            freeze(with_epochs(given["assigned"], epochs)),
            freeze(with_epochs(given["pending_revocation"], given.get("pending_epochs", given["epoch"]))),
        )

    @property
    def named(self) -> set[str]:
        member, resolved = self.given["member"], self.given.get("resolved_regex", {})
        return {*member["subscribed"], *resolved.get(member.get("regex"), ())}

    def partition_epoch(self, topic: str, partition: int) -> int:
        epochs: Document = self.given["partition_epoch"]
        one = epochs.get("partitions", {}).get(topic, {}).get(partition)
        return int(one if one is not None else epochs.get("topics", {}).get(topic, epochs["default"]))

    @cached_property
    def decision(self) -> Decision:
        target, owned = self.given["target"], self.given["owned"]
        given = Reconciliation(
            target_epoch=target["epoch"],
            target=topic_partitions(target["assigned"]),
            owned=None if owned is None else topic_partitions(owned),
            partition_epoch=self.partition_epoch,
            subscribed=self.named - {*self.given.get("missing_topics", ())},
            names_topics=bool(self.named),
            subscription_changed=self.given["subscription_changed"],
            dialect=self.dialect,
        )
        return reconcile(self.member, given)


def with_epochs(partitions: Mapping[str, list[int]], epochs: int | Document) -> dict[Partition, int]:
    """Partitions with the epochs a case states: one for all, or a default with exceptions."""
    if isinstance(epochs, int):
        return dict.fromkeys(flatten(topic_partitions(partitions)), epochs)
    other = epochs.get("partitions", {})
    return {(t, p): other.get(t, {}).get(p, epochs["default"]) for t, numbers in partitions.items() for p in numbers}


def grouped(partitions: Any) -> TopicPartitions:
    """Partitions with epochs as topics with their partitions."""
    found: dict[str, list[int]] = {}
    for (topic, partition), _ in partitions:
        found.setdefault(topic, []).append(partition)
    return topic_partitions(found)


def reads(head: Any) -> bool:
    """YAML documents whose cases have a member, a target and what is owned."""
    found = [*head.get("cases", ()), *head.get("derived", ())] if isinstance(head, dict) else ()
    return any(isinstance(case, dict) and {"member", "target", "owned"} <= case.keys() for case in found)


EPOCHS = {"default": ANY, "partitions": ANY}
EXPECT = {
    "state": ANY,
    "epoch": ANY,
    "previous_epoch": ANY,
    "assigned": ANY,
    "assigned_epochs": EPOCHS,
    "pending_revocation": ANY,
    "pending_epochs": EPOCHS,
    "unchanged": ANY,
    "error": ANY,
}
COMPARED = Of({"expect": EXPECT, "differs": [Of({"expect": EXPECT})]})


def cases(file: Any) -> Iterator[tuple[str, Case]]:
    """Each case in each preset: as the file states it for a dialect that agrees with it on every choice looked at."""
    return each(listed(file.head, "cases", "derived"), lambda found: documented(file, *found))


def documented(file: Any, at: tuple[Any, ...], stated: Document) -> Iterator[tuple[str, Case]]:
    refuse_unknown(file, at, stated, COMPARED)
    defaults = file.head.get("defaults", {})
    given = {**defaults, **stated, "member": {**defaults.get("member", {}), **stated["member"]}}
    given["member"].setdefault("pending_revocation", {})
    for preset in presets():
        epochs = as_in(stated, preset)
        yield f"{stated['id']}-{preset.name}", Case(given, epochs["expect"], epochs["row"], preset)


def as_in(stated: Document, preset: Dialect) -> Document:
    """The case itself, or the exception that names a dialect like this one."""
    for exception in stated.get("differs", ()):
        if any(dialect(name).choices & LOOKED_AT == preset.choices & LOOKED_AT for name in exception["dialects"]):
            return dict(exception)
    return stated


def test_the_member_becomes_what_the_case_says(case: Case) -> None:
    """State, epochs and partitions afterwards are those that Kafka's assertion states."""
    expected, (event, member) = case.expected, case.decision
    if "error" in expected or expected.get("unchanged"):
        assert member is case.member
        assert (event is Event.UNKNOWN_STATE_FENCED) == (expected.get("error") == "FENCED_MEMBER_EPOCH")
        return
    assert (member.state.name, member.epoch) == (expected["state"], expected["epoch"])
    assert member.previous_epoch == expected["previous_epoch"]
    assert grouped(member.assigned) == topic_partitions(expected["assigned"])
    assert grouped(member.pending) == topic_partitions(expected.get("pending_revocation", {}))


@pytest.mark.parametrize("which", ["assigned", "pending"])
def test_partitions_remember_their_epochs(case: Case, which: str) -> None:
    """Where the dialect keeps assignment epochs, every partition has the one that the case states."""
    epochs = case.expected.get(f"{which}_epochs")
    if epochs is not None and Choice.ASSIGNMENT_EPOCHS in case.dialect:
        partitions = case.expected["pending_revocation" if which == "pending" else which]
        assert getattr(case.decision.member, which) == freeze(with_epochs(partitions, epochs))


def test_the_decision_is_the_row_of_the_table(case: Case) -> None:
    """The decision is a cell of the member's table: its clause is the case's row, its target the new state."""
    event, member = case.decision
    cell = TABLE.compiled[case.member.state, event]
    entry, _, outcome = case.row.partition("/")
    if entry.endswith("c") and Choice.SUBSCRIPTION_FILTERS_TARGET not in case.dialect:
        entry, outcome = entry[:-1], ""  # nobody looks whether the subscription changed
    assert entry in {name.strip() for name in cell.source.clause.partition("/")[0].split(",")}
    assert cell.source.clause.partition("/")[2] == outcome
    assert cell.target is member.state
    assert (Effect.WRITE_CURRENT_ASSIGNMENT in cell.effects) == (member != case.member)


@pytest.mark.our_copies
def test_our_copy_holds_49_cases_in_12_dialects(files: Any) -> None:
    """Nothing of the file is left out."""
    found = [name for file in files if reads(file.head) for name, _ in cases(file)]
    assert len(found) == len(set(found)) == 49 * 12
