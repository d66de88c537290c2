"""Reconciliation of one member: what must hold whatever the inputs, and the consequences of the reference (2.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm.coordinator.consumer.reconciliation import Decision, Reconciliation, freeze, reconcile
from fsm.coordinator.model.consumer_group import CurrentAssignment, Partition
from fsm.coordinator.model.dialect import Choice, Dialect, dialect, presets
from fsm.protocol.assignment import TopicPartitions, flatten, topic_partitions
from fsm.tables.consumer_group_member import TABLE, Effect, Event, State

STATES = (State.STABLE, State.UNREVOKED_PARTITIONS, State.UNRELEASED_PARTITIONS, State.UNKNOWN)
PARTITIONS = [(topic, p) for topic in ("bar", "foo") for p in range(3)]

subsets = st.sets(st.sampled_from(PARTITIONS))
epochs = st.integers(min_value=0, max_value=4)


def grouped(partitions: set[Partition] | frozenset[Partition]) -> TopicPartitions:
    return topic_partitions({t: [p for topic, p in partitions if topic == t] for t in ("bar", "foo")})


@st.composite
def members(draw: st.DrawFn) -> CurrentAssignment:
    """Any member whose assigned and pending partitions are apart, as they are in every group."""
    state = draw(st.sampled_from(STATES))
    assigned = draw(subsets)
    pending = draw(subsets) - assigned if state is State.UNREVOKED_PARTITIONS else set()
    with_epochs = {p: draw(epochs) for p in sorted(assigned | pending)}
    return CurrentAssignment(
        state,
        draw(epochs),
        draw(epochs),
        freeze({p: with_epochs[p] for p in assigned}),
        freeze({p: with_epochs[p] for p in pending}),
    )


@dataclass(frozen=True)
class Request:
    """One request to a member in a group where others hold some of the partitions."""

    member: CurrentAssignment
    target: set[Partition]
    owned: set[Partition] | None
    elsewhere: set[Partition]
    subscribed: set[str]
    changed: bool
    dialect: Dialect
    ahead: int
    """How far the target epoch is ahead of the member."""

    @property
    def others(self) -> set[Partition]:
        """What other members hold."""
        return self.elsewhere - self.member.held

    @property
    def target_epoch(self) -> int:
        return self.member.epoch + self.ahead

    def holders(self) -> Mapping[Partition, int]:
        return {**dict.fromkeys(self.others, 2), **dict.fromkeys(self.member.held, self.member.epoch)}

    def decide(self) -> Decision:
        holders = self.holders()
        given = Reconciliation(
            target_epoch=self.target_epoch,
            target=grouped(self.target),
            owned=None if self.owned is None else grouped(self.owned),
            partition_epoch=lambda topic, partition: holders.get((topic, partition), -1),
            subscribed=self.subscribed,
            names_topics=bool(self.subscribed),
            subscription_changed=self.changed,
            dialect=self.dialect,
        )
        return reconcile(self.member, given)


requests = st.builds(
    Request,
    members(),
    subsets,
    st.none() | subsets,
    subsets,
    st.sets(st.sampled_from(("bar", "foo"))),
    st.booleans(),
    st.sampled_from(presets()),
    st.integers(min_value=0, max_value=3),
)


@given(requests)
def test_every_decision_is_a_cell_that_leads_to_the_new_state(request: Request) -> None:
    """The table has the decision in the member's state, leads to the state reached, and writes exactly what changed."""
    event, after = request.decide()
    cell = TABLE.compiled[request.member.state, event]
    assert cell.target is after.state
    assert (Effect.WRITE_CURRENT_ASSIGNMENT in cell.effects) == (after != request.member)


@given(requests)
def test_nobody_else_s_partition_is_ever_held(request: Request) -> None:
    """What another member holds is not granted: single ownership survives every request."""
    assert request.decide().member.held & request.others == set()


@given(requests)
def test_what_is_held_comes_from_before_or_from_the_target(request: Request) -> None:
    """A member never holds a partition that it did not hold and that its target does not give it."""
    after = request.decide().member.held
    assert after - request.member.held <= request.target


@given(requests)
def test_a_partition_is_released_only_when_it_was_reported_given_up(request: Request) -> None:
    """What a member stops holding was absent from an owned list it sent."""
    released = request.member.held - request.decide().member.held
    if request.owned is None:
        assert not released - dict(request.member.pending).keys()
        assert request.member.state is not State.UNREVOKED_PARTITIONS or not released
    else:
        assert not released & request.owned


@given(requests)
def test_pending_and_assigned_stay_apart(request: Request) -> None:
    """No partition is assigned and pending at once; only UNREVOKED_PARTITIONS has pending ones."""
    after = request.decide().member
    assert not dict(after.assigned).keys() & dict(after.pending).keys()
    assert not after.pending or after.state is State.UNREVOKED_PARTITIONS


@given(requests)
def test_epochs_never_fall_and_never_pass_the_target(request: Request) -> None:
    """The member epoch stays or rises to the target epoch; before 4.2 it may take a step of one on the way (F5)."""
    event, after = request.decide()
    allowed = {request.member.epoch, request.target_epoch}
    if Choice.REVOKES_AGAIN_AT_OWN_EPOCH not in request.dialect and event is Event.REVOKE_NEEDED:
        allowed.add(request.member.epoch + 1)
    assert after.epoch in allowed
    assert after.previous_epoch in {request.member.previous_epoch, request.member.epoch}


@given(requests)
def test_a_kept_partition_keeps_its_assignment_epoch(request: Request) -> None:
    """Only a partition granted in this request gets a new epoch: that of the target, or none before 4.3 (F8)."""
    before = {**dict(request.member.assigned), **dict(request.member.pending)}
    after = request.decide().member
    granted = request.target_epoch if Choice.ASSIGNMENT_EPOCHS in request.dialect else 0
    for partition, epoch in (*after.assigned, *after.pending):
        assert epoch in {before.get(partition, granted), granted}
        if partition in dict(request.member.assigned):
            assert epoch == before[partition]


@given(requests)
def test_a_settled_member_is_a_fixed_point(request: Request) -> None:
    """A member that settled STABLE and changed nothing more is left as it is by the next request."""
    after = request.decide().member
    if after.state is State.STABLE and after.epoch == request.target_epoch:
        again = replace(request, member=after, changed=False, ahead=0)
        assert again.decide() == (Event.SAME, after)


@given(requests)
def test_a_member_that_reports_what_it_has_settles(request: Request) -> None:
    """With nobody in its way, acknowledging what it was handed brings a member to its target within four requests."""
    event, member = request.decide()
    if event is Event.UNKNOWN_STATE_FENCED:
        return
    for _ in range(4):
        member = quiet(request, member).decide().member
    assert (member.state, member.epoch) == (State.STABLE, request.target_epoch)


def quiet(request: Request, member: CurrentAssignment) -> Request:
    """The next heartbeat of a member that reports what it was handed, towards the same target, nobody in its way."""
    owned = set(dict(member.assigned))
    ahead = request.target_epoch - member.epoch
    return replace(request, member=member, owned=owned, elsewhere=set(), changed=False, ahead=ahead)


LATEST = dialect()
FOO = (("foo", 0), ("foo", 1), ("foo", 2))


def ask(member: CurrentAssignment, dialect: Dialect = LATEST, **fields: object) -> Decision:
    """A request towards foo-1 and foo-2 at epoch 11, nobody else holding anything."""
    inputs: dict[str, object] = {
        "target_epoch": 11,
        "target": (("foo", (1, 2)),),
        "owned": None,
        "partition_epoch": lambda _topic, _partition: -1,
        "subscribed": {"foo"},
        "names_topics": True,
        "subscription_changed": False,
        "dialect": dialect,
    }
    return reconcile(member, Reconciliation(**{**inputs, **fields}))  # type: ignore[arg-type]


def stable(*partitions: Partition, epoch: int = 10, previous: int = 9) -> CurrentAssignment:
    return CurrentAssignment(State.STABLE, epoch, previous, freeze(dict.fromkeys(partitions, epoch)))


def test_revocation_beats_granting() -> None:
    """While foo-0 must be revoked, the free foo-2 is withheld (2.5-1)."""
    event, member = ask(stable(*FOO[:2]))
    assert (event, dict(member.assigned), dict(member.pending)) == (Event.REVOKE_NEEDED, {FOO[1]: 10}, {FOO[0]: 10})


def test_an_eager_rejoin_needs_no_revocation_round() -> None:
    """Reporting nothing as owned gives up foo-0 and receives foo-2 in one step (2.5-2)."""
    event, member = ask(stable(*FOO[:2]), owned=())
    assert (event, dict(member.assigned)) == (Event.GRANTED_ALL, {FOO[1]: 10, FOO[2]: 11})


def test_waves_of_revocation_at_one_epoch() -> None:
    """A member that acknowledged and must revoke again stays at its epoch; before 4.2 it moved by one (2.5-4, F5)."""
    first = ask(stable(*FOO), target=(("foo", (1, 2)),)).member
    second = ask(first, target=(("foo", (2,)),), target_epoch=12, owned=(("foo", (1, 2)),))
    older = ask(first, dialect("4.1"), target=(("foo", (2,)),), target_epoch=12, owned=(("foo", (1, 2)),))
    assert [second.member.epoch, older.member.epoch] == [10, 11]
    assert second.event is older.event is Event.REVOKE_NEEDED


def test_waiting_writes_one_record_then_none() -> None:
    """UNRELEASED repeated: the first repeat lets the previous epoch catch up, then nothing changes (2.5-7)."""
    joined = ask(CurrentAssignment(epoch=0), partition_epoch=lambda _topic, _partition: 5).member
    repeated = ask(joined, partition_epoch=lambda _topic, _partition: 5)
    again = ask(repeated.member, partition_epoch=lambda _topic, _partition: 5)
    assert [repeated.event, again.event] == [Event.ALL_BLOCKED, Event.STILL_BLOCKED]
    assert (joined.previous_epoch, repeated.member.previous_epoch) == (0, 11)


def test_a_joiner_inside_the_interval_has_nothing_at_the_old_epoch() -> None:
    """Without an entry in the old target a joiner is STABLE there, with no partition (2.5-10)."""
    event, member = ask(CurrentAssignment(), target=(), target_epoch=10)
    assert (event, member) == (Event.NOTHING_TO_GRANT, CurrentAssignment(State.STABLE, 10, 0))


@pytest.mark.parametrize(("name", "event"), [("4.4", Event.TRIM_NOTHING_REWRITTEN), ("4.2", Event.TRIM_NOTHING)])
def test_a_member_without_anything_is_rewritten(name: str, event: Event) -> None:
    """Nothing subscribed, assigned or pending: a changed subscription still moves the previous epoch (U0, F7b)."""
    changed = {"target_epoch": 10, "subscribed": set(), "subscription_changed": True}
    decision = ask(stable(), dialect(name), **changed, names_topics=False)
    assert decision.event is event
    assert decision.member.previous_epoch == (10 if name == "4.4" else 9)


def test_a_topic_that_does_not_exist_counts_as_named() -> None:
    """A subscription is empty only where it names no topic: a deleted one leaves the member as it is (U0)."""
    changed = {"target_epoch": 10, "subscribed": set(), "subscription_changed": True}
    member = stable()
    assert ask(member, dialect("4.4.0"), **changed, names_topics=True) == Decision(Event.TRIM_NOTHING, member)


def test_unsubscribed_partitions_are_taken_back_at_once() -> None:
    """At the target epoch, a topic no longer subscribed is revoked; once given up, the member settles (2.5-9)."""
    both = stable(("bar", 0), FOO[1], epoch=11)
    trimmed = ask(both, subscription_changed=True)
    settled = ask(trimmed.member, owned=(("foo", (1,)),), target=(("bar", (0,)), ("foo", (1,))))
    assert (trimmed.event, dict(trimmed.member.pending)) == (Event.TRIM_REVOKE_NEEDED, {("bar", 0): 11})
    assert (settled.event, dict(settled.member.assigned)) == (Event.NOTHING_TO_GRANT, {FOO[1]: 11})


def test_flat_and_held_are_each_other_s_form() -> None:
    """Partitions one by one come in the order of their topics."""
    assert [*flatten((("bar", (0,)), ("foo", (1, 2))))] == [("bar", 0), ("foo", 1), ("foo", 2)]
