"""Bugs of clients of KIP-848: rows of the member's table, its decisions and its heartbeats."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from bugzoo.planting import Patches, plant
from fsm.check.kafka.application import NOW
from fsm.check.mutation import cell_of, replace_function, rewrite_cells
from fsm.member.consumer import decisions, effects, subscription
from fsm.member.consumer.effects import Effects
from fsm.member.consumer.state import Member, Origin, Run, StaleRelease
from fsm.member.consumer.step import MemberDraft
from fsm.member.consumer.subscription import NOT_SUBSCRIBED, Ownership
from fsm.member.dialect.choices import Choice
from fsm.member.dialect.dialect import Dialect, custom, dialect
from fsm.member.events import OUTDATED, ApplyAssignmentEvent, ListenerMethod
from fsm.member.runtime import queues
from fsm.member.runtime.consumer_shell import ConsumerMember
from fsm.protocol.assignment import LocalAssignment, without
from fsm.protocol.error_codes import ErrorCode
from fsm.table import Symbol
from fsm.tables.consumer_member import (
    BEGIN_JOIN,
    ENTER_LEAVING,
    FAILED,
    GIVE_UP,
    MEMBER,
    NEW_TARGET,
    NOT_IN_GROUP,
    Effect,
    Event,
    State,
)

DIALECTS = ("4.4.0", "fixed")
"""Of the plants below: their tables are patched."""


def row(states: State | tuple[State, ...], event: Event, *steps: Symbol) -> Patches:
    """What an event does in these states, in the tables of all dialects that are planted."""
    those = states if isinstance(states, tuple) else (states,)
    return [
        rewrite_cells(dialect(name).cells, {(state, event): cell_of(state, steps) for state in those})
        for name in DIALECTS
    ]


def no_effect(method: Any) -> AbstractContextManager[None]:
    """An effect of the table that does nothing."""
    return replace_function(method, lambda _original, *_: None)


# Heartbeats


@plant("franz-go-eca3a457")
def keeps_what_was_sent() -> Patches:
    """What was sent is not forgotten after a failure: an answer that is lost with its assignment is never repeated."""
    return [no_effect(Effects.wipe_sent)]


@plant("KAFKA-16215")
def stays_in_flight() -> Patches:
    def fail(original: Any, draft: Any) -> None:
        original(draft)
        draft.heartbeat_in_flight = True

    return [replace_function(Effects.fail_request, fail)]


@plant("KAFKA-16190")
def joins_with_changes_only() -> Patches:
    def build(original: Any, member: Member) -> Any:
        built = original(member)
        sent = member.sent
        if member.state is not State.JOINING or sent is None:
            return built
        same = sent.subscription == member.subscription
        return replace(
            built, rebalance_timeout_ms=-1, subscribed_topic_names=None if same else member.subscription.topics
        )

    return [replace_function(effects.build_heartbeat, build), no_effect(Effects.wipe_sent)]


@plant("franz-go-466a4512")
def reports_before_the_callback() -> Patches:
    def build(original: Any, member: Member) -> Any:
        run, current = member.run, member.current
        revoking = any(a.origin is Origin.RUN_REVOKED for a in member.awaited)
        if run is None or not revoking or member.state is State.JOINING:
            return original(member)
        names = {**member.client.metadata, **member.names}
        kept = ((t, tuple(n for n in numbers if (names[t], n) not in run.revoked)) for t, numbers in current.partitions)
        left = tuple((t, numbers) for t, numbers in kept if numbers)
        return replace(original(member), topic_partitions=left)

    return [replace_function(effects.build_heartbeat, build)]


@plant("franz-go-6d06afae")
def unknown_member_is_fatal() -> Patches:
    return [patch.object(decisions, "FENCING", frozenset({ErrorCode.FENCED_MEMBER_EPOCH}))]


@plant("KAFKA-16251")
def heartbeats_while_fenced() -> Patches:
    return [patch.object(decisions, "SILENT", frozenset(NOT_IN_GROUP) - {State.FENCED})]


@plant("KAFKA-16639")
def a_leave_waits_for_the_last_answer() -> Patches:
    def may_send(original: Any, member: Member, now_ms: int) -> bool:
        waits = member.state is State.LEAVING and member.heartbeat_in_flight
        return not waits and bool(original(member, now_ms))

    return [replace_function(decisions.may_send_now, may_send)]


@plant("KAFKA-17116")
def leaves_without_an_id() -> Patches:
    """The id comes with the first answer, and a leave before that has none."""

    def build(original: Any, member: Member) -> Any:
        built = original(member)
        knows_it = not member.current.is_none or not member.target.is_none
        return built if member.epoch >= 0 or knows_it else replace(built, member_id="")

    return [replace_function(effects.build_heartbeat, build)]


@plant("KAFKA-20426")
def never_waits() -> Patches:
    def next_tick_ms(original: Any, member: Member, now_ms: int) -> Any:
        return now_ms if member.state in NOT_IN_GROUP else original(member, now_ms)

    return [replace_function(decisions.next_tick_ms, next_tick_ms)]


@plant("KAFKA-16474")
def does_not_wait_for_its_answer() -> Patches:
    def tick(original: Any, member: Member, now_ms: int) -> Event:
        event: Event = original(replace(member, heartbeat_in_flight=False), now_ms)
        return event

    return [replace_function(decisions.decide_tick, tick)]


@plant("librdkafka-5488")
def a_group_that_is_gone_is_asked_again() -> Patches:
    def decide(original: Any, member: Member, code: ErrorCode) -> Event:
        return Event.ERR_RETRY if code is ErrorCode.GROUP_ID_NOT_FOUND else original(member, code)

    return [replace_function(decisions.decide_error, decide)]


@plant("franz-go-2fabc72b")
def no_error_passes() -> Patches:
    return [patch.object(decisions, "RETRIED", {})]


# Fences, polls and leaves


@plant("librdkafka-4634-fence")
def a_fence_during_a_run_is_not_finished() -> Patches:
    def release(original: Any, draft: Any) -> Event | None:
        event: Event | None = original(draft)
        return event if draft.run is None else None

    return [replace_function(Effects.release_lost_fence, release)]


@plant("librdkafka-4634-leave")
def who_owns_nothing_goes_in_silence() -> Patches:
    gone = (*GIVE_UP, *ENTER_LEAVING, State.UNSUBSCRIBED, Effect.COMPLETE_LEAVE, Effect.RESET_REQUEST)
    return row(MEMBER, Event.UNSUBSCRIBE_NOCB, State.PREPARE_LEAVING, Effect.CREATE_LEAVE, *gone)


def lacks(choice: Choice) -> Patches:
    """The rules of each dialect without a choice."""

    def without_it(original: Any, *given: Any) -> Dialect:
        found: Dialect = original(*given)
        return custom(found.name, found.choices - {choice})

    return [replace_function(dialect, without_it)]


@plant("KAFKA-19335")
def any_answer_ends_a_leave() -> Patches:
    """The answer to the leave comes to the next membership, which takes its epoch."""
    return lacks(Choice.LEAVE_ENDED_BY_NEGATIVE_EPOCH)


@plant("kafka-PR-21239")
def a_group_that_is_gone_ends_who_has_left() -> Patches:
    return lacks(Choice.LATE_GROUP_NOT_FOUND)


@plant("KAFKA-16261")
def who_owned_nothing_stays_fenced() -> Patches:
    def release(original: Any, draft: Any) -> Event | None:
        return original(draft) if draft.ownership.owned else None

    return [replace_function(Effects.release_lost_fence, release)]


@plant("KAFKA-17017")
def stays_subscribed_outside_the_group() -> Patches:
    """Who is in no group, or fenced, has nothing to leave, and the subscription stays."""
    rest = (Effect.NOTIFY_EMPTY_ASSIGNMENT, Effect.COMPLETE_CALL)
    return [
        *row((State.UNSUBSCRIBED, State.FATAL, State.STALE), Event.UNSUBSCRIBE, *rest),
        *row(State.FENCED, Event.UNSUBSCRIBE, Effect.CLEAR_ASSIGNMENT, State.UNSUBSCRIBED, *rest),
    ]


@plant("franz-go-197bf424")
def a_static_member_goes_in_silence() -> Patches:
    def tick(original: Any, member: Member, now_ms: int) -> Event:
        silent = member.state is State.LEAVING and member.settings.is_static
        return Event.LEAVE_SKIPPED if silent else original(member, now_ms)

    return [replace_function(decisions.decide_tick, tick)]


@plant("KAFKA-15818")
def keeps_what_nobody_polls() -> Patches:
    return [replace_function(decisions._expires, lambda _original, _member: False)]


@plant("KAFKA-16258")
def stale_without_a_release() -> Patches:
    def release(_original: Any, draft: Any) -> None:
        draft._set_stale_release(StaleRelease.DONE)

    return [replace_function(Effects.release_lost_stale, release)]


@plant("librdkafka-5541")
def rejoins_before_the_release() -> Patches:
    """The member joins again while it still owns, and says so."""

    def build(original: Any, member: Member) -> Any:
        built = original(member)
        return replace(built, topic_partitions=member.current.partitions) if member.state is State.JOINING else built

    return [*row(State.STALE, Event.POLL_LATE_PENDING, *BEGIN_JOIN), replace_function(effects.build_heartbeat, build)]


@plant("KAFKA-16165")
def a_timer_while_leaving() -> Patches:
    """Without the rule of `fixed` that lets the timer end such a leave, and not make it stale."""

    def expires(_original: Any, member: Member) -> bool:
        return Choice.POLL_TIMER in member.settings.choices

    return [replace_function(decisions._expires, expires), *lacks(Choice.POLL_TIMER_WHILE_LEAVING)]


@plant("kafka-PR-15004")
def a_fence_while_leaving_is_nothing() -> Patches:
    return row(State.PREPARE_LEAVING, Event.ERR_FENCE, *FAILED)


@plant("kafka-PR-15003")
def an_assignment_while_leaving() -> Patches:
    return row(State.PREPARE_LEAVING, Event.RESP_NEW, *NEW_TARGET)


# Reconciliation


@plant("kafka-PR-15033")
def an_empty_first_assignment_is_nothing() -> Patches:
    def decide(original: Any, member: Member, response: Any) -> Event:
        nothing = member.state is State.JOINING and response.assignment == ()
        return Event.RESP_EPOCH if nothing else original(member, response)

    return [replace_function(decisions.decide_response, decide)]


@plant("franz-go-0af2689c")
def an_empty_assignment_is_no_change() -> Patches:
    def decide(original: Any, member: Member, response: Any) -> Event:
        unheard = response.assignment == () and member.state is not State.JOINING
        return original(member, replace(response, assignment=None) if unheard else response)

    return [replace_function(decisions.decide_response, decide)]


@plant("KAFKA-15832")
def a_target_during_a_run_is_forgotten() -> Patches:
    return row(State.ACKNOWLEDGING, Event.ACK_SENT_TARGET_MOVED, Effect.SEND_ACK_HEARTBEAT, State.STABLE)


@plant("KAFKA-16185")
def the_same_partitions_are_the_same_assignment() -> Patches:
    def update(_original: Any, known: LocalAssignment, received: Any) -> LocalAssignment:
        return known if known.partitions == received and not known.is_none else LocalAssignment(0, received)

    return [replace_function(LocalAssignment.update, update)]


@plant("franz-go-6536e4f3")
def compares_with_what_was_owned() -> Patches:
    def decide(original: Any, member: Member, response: Any) -> Event:
        applies = member.run is not None and response.assignment == member.current.partitions
        return Event.RESP_EPOCH if applies else original(member, response)

    return [replace_function(decisions.decide_response, decide)]


@plant("platformatic-kafka-339")
def revokes_in_silence() -> Patches:
    def decide(original: Any, member: Member, run: Any) -> Event:
        event = original(member, run)
        return Event.COMMIT_DONE_ASSIGN if event is Event.COMMIT_DONE_REVOKE else event

    return [replace_function(decisions.decide_commit_done, decide)]


@plant("KAFKA-20106")
def the_background_assigns() -> Patches:
    """As up to 4.2: what is owned changes before the application takes note of it."""

    def enqueue(original: Any, draft: Any) -> Any:
        draft.ownership = draft.ownership.own(draft._run().full).mark_added(draft._run().added)
        return original(draft)

    return [replace_function(Effects.enqueue_assigned, enqueue)]


@plant("KAFKA-16375")
def another_epoch_is_another_membership() -> Patches:
    """A run ends unless the member has the epoch that it began with; that it has joined again is not noted."""

    def open_run(original: Any, draft: Any) -> None:
        original(draft)
        draft.run = replace(draft.run, rejoined=draft.epoch)

    def is_current(_original: Any, member: Member, run: Run) -> bool:
        return member.state is State.RECONCILING and run.rejoined == member.epoch

    return [
        replace_function(Effects.open_run, open_run),
        no_effect(Effects.mark_rejoined),
        replace_function(decisions.is_current, is_current),
    ]


@plant("KAFKA-20428")
def applies_while_it_unsubscribes() -> Patches:
    def process(original: Any, events: Any, *, listener: bool, unsubscribing: bool = False) -> Any:  # noqa: ARG001
        return original(events, listener=listener)

    return [replace_function(queues.process, process)]


@plant("KAFKA-17154")
def joins_without_a_poll() -> Patches:
    def subscribe(original: Any, draft: Any, asked: Any) -> None:
        original(draft, asked)
        if draft.state is State.UNSUBSCRIBED:
            draft.consume_flag()

    return [replace_function(MemberDraft.subscribe, subscribe)]


@plant("KAFKA-16107")
def fetches_before_the_callback() -> Patches:
    return [no_effect(Effects.mark_added)]


@plant("KAFKA-20321")
def lost_partitions_are_not_marked() -> Patches:
    def release(_original: Any, draft: Any, origin: Origin) -> bool:
        if not decisions.needs_callback(draft):
            return False
        draft.enqueue_removed(ListenerMethod.LOST, origin, decisions.list_removed(draft))
        return True

    return [replace_function(Effects._release_lost, release)]


# Callbacks that raise, static members


@plant("KAFKA-18160")
def an_interrupt_is_no_end() -> Patches:
    """A callback that raises reports nothing."""

    def end(original: Any, draft: Any, asked: Any) -> None:
        if asked.error is None:
            original(draft, asked)

    return [replace_function(MemberDraft.end_callback, end)]


@plant("KAFKA-16933")
def a_failed_callback_stops_the_leave() -> Patches:
    def end(original: Any, draft: Any, asked: Any) -> None:
        leaves = any(a.ticket == asked.ticket and a.origin is Origin.LEAVE for a in draft.awaited)
        if not (leaves and asked.error is not None):
            original(draft, asked)

    return [replace_function(MemberDraft.end_callback, end)]


@plant("KAFKA-16298")
def what_a_callback_raises_is_kept() -> Patches:
    def call_back(original: Any, *given: Any) -> Any:
        yield from original(*given)

    return [replace_function(queues._call_back, call_back)]


@plant("KAFKA-16152")
def leaves_without_its_instance() -> Patches:
    def build(original: Any, member: Member) -> Any:
        built = original(member)
        return built if member.epoch >= 0 else replace(built, instance_id=None)

    return [replace_function(effects.build_heartbeat, build)]


# Topics that are not known by name yet


@plant("KAFKA-16198")
def only_what_is_new_is_resolved() -> Patches:
    """Once names that were missing are there, what they resolve stands for the whole target."""

    def reconcile(original: Any, draft: Any, *, can_commit: bool) -> Event:
        event: Event = original(draft, can_commit=can_commit)
        run, current = draft.run_in_hand, draft.current
        is_partial = current.partitions and current.local_epoch == draft.target.local_epoch
        if event not in (Event.REC_START, Event.REC_DEFERRED) or not is_partial:
            return event
        new = tuple(one for one in run.resolved.partitions if one not in current.partitions)
        full, owned = draft.names.name(new), draft.ownership.owned
        draft.run_in_hand = Run(run.resolved._replace(partitions=new), full, without(full, owned), without(owned, full))
        return decisions.decide_reconciliation(draft, draft.run_in_hand, can_commit=can_commit)

    return [replace_function(Effects.reconcile, reconcile)]


@plant("KAFKA-20145")
def acknowledges_what_it_has_in_every_tick() -> Patches:
    def decide(original: Any, member: Member, resolved: Any, *, can_commit: bool) -> Event:
        event = original(member, resolved, can_commit=can_commit)
        return Event.REC_PARTIAL_ACK if event is Event.REC_WAITING else event

    return [replace_function(decisions.decide_reconciliation, decide)]


@plant("franz-go-9b92299f")
def drops_topics_that_it_does_not_know() -> Patches:
    def known(member: Any, response: Any) -> Any:
        given = response.assignment
        left = tuple((topic, numbers) for topic, numbers in given or () if topic in member.client.metadata)
        return response if given is None else replace(response, assignment=left)

    def decide(original: Any, member: Member, response: Any) -> Event:
        return original(member, known(member, response))

    def bump(original: Any, draft: Any) -> None:
        draft.response = known(draft, draft.response)
        original(draft)

    return [replace_function(decisions.decide_response, decide), replace_function(Effects.bump_target, bump)]


@plant("franz-go-8e7cfc60")
def joins_with_what_has_no_name() -> Patches:
    """What has no name yet outlives the membership, and the next join lists it."""

    def clear(original: Any, draft: Any) -> None:
        left = tuple((topic, numbers) for topic, numbers in draft.target.partitions if topic not in draft.names)
        original(draft)
        draft.current = LocalAssignment(0, left) if left else draft.current

    def build(original: Any, member: Member) -> Any:
        built = original(member)
        return replace(built, topic_partitions=member.current.partitions) if member.state is State.JOINING else built

    return [replace_function(Effects.clear_assignment, clear), replace_function(effects.build_heartbeat, build)]


# The coordinator elsewhere, commits


@plant("KAFKA-17293")
def asks_the_same_node_again() -> Patches:
    return [no_effect(Effects.forget_coordinator)]


@plant("KAFKA-16224")
def a_deleted_topic_may_come_back() -> Patches:
    """Whether its commit named it by its name or by its id."""
    gone = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}

    def may_retry(original: Any, member: Any, answer: Any) -> bool:
        return original(member, answer) or any(code in gone for _, code in getattr(answer, "errors", ()))

    return [replace_function(Effects._may_retry, may_retry)]


@plant("KAFKA-16203")
def nothing_to_commit_is_under_way_for_ever() -> Patches:
    def commit(original: Any, draft: Any) -> Any:
        if not draft.offsets():
            draft.auto_commit = replace(draft.auto_commit, in_flight=True)
        return original(draft)

    return [replace_function(Effects.commit_consumed, commit)]


@plant("KAFKA-15978")
def commits_without_an_id() -> Patches:
    def send(original: Any, draft: Any, *asked: Any, **named: Any) -> None:
        original(draft, *asked, **named)
        request = draft.effects[-1]
        draft.effects[-1] = replace(request, body=replace(request.body, member_id=""))

    return [replace_function(Effects._send_commit, send)]


# Subscriptions that change


@plant("KAFKA-19356")
def gives_records_of_what_was_dropped() -> Patches:
    def fetchable(original: Any, owned: Ownership, _subscription: Any) -> Any:
        return original(owned, NOT_SUBSCRIBED)

    return [replace_function(Ownership.fetchable, fetchable)]


@plant("librdkafka-4672")
def forgets_the_epoch_while_it_leaves() -> Patches:
    return row((State.PREPARE_LEAVING,), Event.RESP_EPOCH)


@plant("librdkafka-5015")
def a_change_during_a_heartbeat_counts_as_sent() -> Patches:
    def end(original: Any, draft: Any, response: Any) -> None:
        original(draft, response)
        if draft.sent is not None:
            draft.sent = replace(draft.sent, subscription=draft.subscription)

    return [replace_function(Effects.end_request, end)]


@plant("KAFKA-4248")
def a_pattern_waits_for_the_next_metadata() -> Patches:
    return [
        replace_function(subscription.subscribe, lambda original, before, asked, _known: original(before, asked, ()))
    ]


# What does not end as it should


@plant("KAFKA-17403")
def nothing_is_sent_as_it_closes() -> Patches:
    return [replace_function(MemberDraft.close_flush, lambda _original, _draft, _asked: None)]


@plant("KAFKA-20382")
def an_interrupt_is_thrown_and_not_reported() -> Patches:
    def assign(original: Any, event: Any, *, listener: bool) -> Any:
        if event.apply:
            failed = yield ApplyAssignmentEvent(event.ticket, event.full, event.added)
            if failed == OUTDATED:
                yield queues._complete(event.ticket, None)
                return None
            if failed is not None:
                return failed
        return (yield from original(replace(event, apply=False), listener=listener))

    return [replace_function(queues._assign, assign)]


@plant("KAFKA-16985")
def who_may_not_wait_does_not_leave() -> Patches:
    """A close without time, as of an application that was interrupted, ends before its leave."""

    def end(original: Any, shell: ConsumerMember, operation: Any) -> Any:
        if shell._close_deadline_ms > NOW:
            yield from original(shell, operation)

    return [replace_function(ConsumerMember._end_membership, end)]


# What is committed, and when a timer begins


@plant("KAFKA-15327")
def closes_without_a_commit() -> Patches:
    def close(_original: Any, shell: ConsumerMember, operation: Any, _positions: Any) -> Any:
        yield from shell._end_membership(operation)

    return [replace_function(ConsumerMember._close, close)]


@plant("KAFKA-16026")
def polls_do_not_reach_the_background() -> Patches:
    """The poll timer runs on, though the application polls."""

    def poll(original: Any, draft: Any, asked: Any) -> None:
        due_ms = draft.poll_due_ms
        original(draft, asked)
        draft.poll_due_ms = due_ms

    return [replace_function(MemberDraft.poll, poll)]


@plant("KAFKA-16984")
def a_leave_ends_as_it_is_sent() -> Patches:
    sent = (Effect.SEND_LEAVE_HEARTBEAT, State.UNSUBSCRIBED, Effect.COMPLETE_LEAVE)
    return row(State.LEAVING, Event.LEAVE_SENT, *sent)


@plant("Dekaf-3339")
def a_join_that_fails_is_fatal() -> Patches:
    def decide(original: Any, member: Member, failure: Any) -> Event:
        return Event.ERR_FATAL if member.state is State.JOINING else original(member, failure)

    return [replace_function(decisions.decide_failure, decide)]
