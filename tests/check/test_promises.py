"""Invariants of steps that no bug of the zoo shows by themselves, each seen broken by a small change of the code.

The zoo (`test_bugzoo.py`) shows the others.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from bugzoo.catalogue import explore
from bugzoo.classic_groups import row
from bugzoo.planting import Patches

from fsm.check.kafka.classic.promises import LEADER_JOINS, NEVER_FALLS
from fsm.check.kafka.consumer.compaction import SAYS_THE_SAME, TELLS
from fsm.check.kafka.standing import GOES, LEAVES, OUTDATED, STAYS
from fsm.check.kafka.targets import EVEN, STICKY
from fsm.check.mutation import replace_function
from fsm.coordinator import assignors as of_brokers
from fsm.coordinator.classic import requests
from fsm.coordinator.classic.draft import ClassicGroupDraft
from fsm.coordinator.consumer import heartbeat, membership, reconciliation
from fsm.coordinator.consumer.group_step import ConsumerGroupDraft
from fsm.coordinator.migration import conversion
from fsm.coordinator.model import consumer_group
from fsm.coordinator.model.step import Refused
from fsm.member.classic import assignors as of_members
from fsm.member.classic import decisions
from fsm.member.classic.heartbeat import Heartbeats
from fsm.member.consumer.effects import Effects as ConsumerEffects
from fsm.member.events import ListenerMethod
from fsm.member.timers import NEVER
from fsm.protocol.error_codes import ErrorCode
from fsm.tables.classic_member import KEEP_MEMBER_ID, Effect, Event, State

FOO = {"foo": 1}
Case = tuple[str, str, dict[str, Any], tuple[str, ...], Callable[[], Patches]]


def no_record_of_a_revocation() -> Patches:
    def write(original: Any, draft: Any, member: Any) -> None:
        if not member.current.pending:
            original(draft, member)

    return [replace_function(ConsumerGroupDraft.write_current_assignment, write)]


def the_last_record_frees_all() -> Patches:
    """A member that gives a partition up frees it, whoever has it."""

    def register(_original: Any, holders: Any, old: Any, new: Any) -> Any:
        was = frozenset() if old is None else old.current.held
        now = frozenset() if new is None else new.current.held
        return holders.without(*(was - now)).merge(dict.fromkeys(now, 0 if new is None else new.epoch))

    return [replace_function(consumer_group._register, register)]


def everybody_goes_with_one() -> Patches:
    def remove(original: Any, group: Any, _ids: Any, event: Any, context: Any) -> Any:
        return original(group, tuple(group.members), event, context)

    return [replace_function(heartbeat.remove, remove)]


def a_leave_is_heard_and_forgotten() -> Patches:
    def remove(original: Any, group: Any, _ids: Any, event: Any, context: Any) -> Any:
        return original(group, (), event, context)

    return [replace_function(heartbeat.remove, remove)]


def no_answer_may_be_lost() -> Patches:
    return [replace_function(membership._owns_only, lambda _original, _member, _owned: False)]


def a_synced_member_is_unknown() -> Patches:
    def check(original: Any, group: Any, body: Any) -> None:
        if body.member_id not in group.pending_sync_members and group.pending_sync_members:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        original(group, body)

    return [replace_function(requests._check_member, check)]


def an_absent_leader_leads() -> Patches:
    return [replace_function(ClassicGroupDraft.elect_leader, lambda _original, _draft: None)]


def a_converted_group_begins_anew() -> Patches:
    def convert(original: Any, group: Any, ids: Any, _generation: int, context: Any, *, rebalances: bool) -> Any:
        return original(group, ids, 0, context, rebalances=rebalances)

    return [replace_function(conversion.convert_to_classic_group, convert)]


def one_member_has_everything() -> Patches:
    def assign(_original: Any, group: Any, **_: Any) -> Any:
        first = next(iter(group.members))
        topics = sorted(group.members[first].subscribed)
        return {first: tuple((topic, tuple(range(group.partitions(topic)))) for topic in topics)}

    return [replace_function(of_brokers.uniform_assignor, assign)]


def nobody_keeps_what_it_claims() -> Patches:
    """The leader gives each member the share of the next one."""

    def assign(original: Any, members: Any, counts: Any) -> Any:
        given = dict(original(members, counts))
        return dict(zip(given, [*list(given.values())[1:], next(iter(given.values()))], strict=True))

    return [replace_function(of_members.assign_cooperative_sticky, assign)]


def what_is_lost_is_revoked() -> Patches:
    def remove(original: Any, member: Any, _method: Any, *what: Any) -> None:
        original(member, ListenerMethod.REVOKED, *what)

    return [replace_function(ConsumerEffects.enqueue_removed, remove)]


def a_changed_subscription_is_no_cause() -> Patches:
    return [replace_function(decisions.find_rejoin_cause, lambda _original, _member: None)]


def a_failed_heartbeat_is_the_last() -> Patches:
    def fail(original: Any, beats: Heartbeats, *given: Any) -> Heartbeats:
        return replace(original(beats, *given), heartbeat_due_ms=NEVER)

    return [replace_function(Heartbeats.fail, fail)]


def an_old_epoch_is_accepted() -> Patches:
    def check(original: Any, member: Any, received: int, *rest: Any) -> None:
        if received > member.current.epoch:
            original(member, received, *rest)

    return [replace_function(membership.check_epoch, check)]


def an_old_generation_is_accepted() -> Patches:
    def check(_original: Any, group: Any, body: Any) -> None:
        requests.refuse_stranger(group, body.member_id, body.group_instance_id)

    return [replace_function(requests._check_member, check)]


def the_previous_epoch_stays() -> Patches:
    def compute(original: Any, member: Any, *rest: Any) -> Any:
        event, found = original(member, *rest)
        return reconciliation.Decision(event, replace(found, previous_epoch=member.previous_epoch))

    return [replace_function(reconciliation._compute, compute)]


def a_static_member_leaves() -> Patches:
    return [replace_function(decisions.decide_poll_timeout, lambda _original, _member: Event.POLL_TIMEOUT)]


def a_member_keeps_its_id_as_it_leaves() -> Patches:
    return row(State.STABLE, Event.POLL_TIMEOUT, Effect.SEND_LEAVE_GROUP, State.UNJOINED, *KEEP_MEMBER_ID)


def a_heartbeat_starts_no_timer() -> Patches:
    def send(original: Any, draft: Any, *purpose: Any) -> None:
        due_ms = draft.heartbeat_due_ms
        original(draft, *purpose)
        draft.heartbeat_due_ms = due_ms

    return [replace_function(ConsumerEffects.send_delta_heartbeat, send)]


CASES: dict[str, Case] = {
    "records": (TELLS, "consumer-group", {}, (), no_record_of_a_revocation),
    "old records": (
        SAYS_THE_SAME,
        "consumer-group",
        {"compaction": True},
        ("failover_compacted",),
        the_last_record_frees_all,
    ),
    "removed with another": (GOES, "consumer-group", {"topics": FOO}, ("expire",), everybody_goes_with_one),
    "kept after its leave": (LEAVES, "consumer-group", {"topics": FOO}, ("leave",), a_leave_is_heard_and_forgotten),
    "fenced after a lost answer": (STAYS, "consumer-group", {"topics": FOO}, ("unanswered",), no_answer_may_be_lost),
    "unknown once it has synced": (STAYS, "classic-group", {"topics": FOO}, (), a_synced_member_is_unknown),
    "led by nobody": (LEADER_JOINS, "classic-group", {"static": True}, ("rebalance_timeout",), an_absent_leader_leads),
    "a generation of 0": (NEVER_FALLS, "mixed-group", {"topics": FOO}, ("leave",), a_converted_group_begins_anew),
    "all for one": (EVEN, "consumer-group", {}, (), one_member_has_everything),
    "a share of another": (STICKY, "classic-group", {"protocol": "cooperative"}, (), nobody_keeps_what_it_claims),
    "revokes as it is fenced": (
        "I38 who has its membership revokes and who has lost it loses",
        "consumer-group",
        {"topics": FOO},
        ("expire",),
        what_is_lost_is_revoked,
    ),
    "an old epoch": (
        OUTDATED,
        "consumer-group",
        {"topics": FOO, "coordinator": "4.4.0"},
        ("late",),
        an_old_epoch_is_accepted,
    ),
    "an old generation": (OUTDATED, "classic-group", {"topics": FOO}, ("late",), an_old_generation_is_accepted),
    "an older epoch before": (
        "20 a member's last epoch is its previous one",
        "consumer-group",
        {},
        (),
        the_previous_epoch_stays,
    ),
    "a static leave": (
        "a static member keeps its place unless it is asked to leave",
        "classic-group",
        {"topics": FOO, "static": True},
        ("poll_timeout",),
        a_static_member_leaves,
    ),
    "an id after a leave": (
        "who has left has no member id",
        "classic-group",
        {"topics": FOO},
        ("poll_timeout",),
        a_member_keeps_its_id_as_it_leaves,
    ),
    "heartbeats without end": (
        "a poll or a heartbeat starts its timer",
        "consumer-group",
        {"topics": FOO},
        (),
        a_heartbeat_starts_no_timer,
    ),
    "hears nothing more": (
        "no deadlock",
        "connect",
        {"settled": True},
        ("lose", "leave"),
        a_failed_heartbeat_is_the_last,
    ),
    "not its subscription": (
        "the group settles",
        "classic-group",
        {"topics": {"foo": 1, "bar": 1}},
        ("resubscribe",),
        a_changed_subscription_is_no_cause,
    ),
}
LONG = ("a generation of 0", "not its subscription")


@pytest.mark.parametrize("case", [*(pytest.param(one, marks=[pytest.mark.deep] * (one in LONG)) for one in CASES)])
@pytest.mark.loop(4)
def test_a_step_that_breaks_a_promise_is_found(case: str) -> None:
    asked, model, options, kinds, patches = CASES[case]
    client = {} if model in ("classic-group", "connect") else {"client": "fixed", "coordinator": "fixed"}
    how = {
        "model": model,
        "options": {**client, **options},
        "disturb": kinds,
        "disturbances": len(kinds),
        "known": ["early"] if model == "mixed-group" else [],
        "asked": asked,
    }
    with ExitStack() as stack:
        for one in patches():
            stack.enter_context(one)
        assert [one.property for one in explore(None, how).violations] == [asked]
