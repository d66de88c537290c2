"""Reconciliation: from the target of the coordinator to what the application owns, step by step.

Resolve names, commit, revoke, assign, acknowledge. One run at a time; what it began with stays its own, whatever the
coordinator says meanwhile. Functions that carry out effects return the event that is due within the row.

Source: `AbstractMembershipManager.maybeReconcile` and what follows from it, `CommitRequestManager`.
"""

from __future__ import annotations

from fsm.kafka.assignment import LocalAssignment, TopicId, TopicNames, among, without
from fsm.kafka.error_codes import ErrorCode
from fsm.kafka.events import OUTDATED, KafkaError, ListenerMethod, PartitionsAssignedEvent
from fsm.kafka.messages import OffsetCommitRequest, OffsetCommitResponse, Offsets, TransportFailure
from fsm.member.choices import Choice
from fsm.member.decisions import decide_attempt, decide_commit_done, decide_run_step, is_outdated
from fsm.member.effects import (
    AssignmentUpdated,
    CallCompleted,
    CommitEnded,
    CoordinatorForgotten,
    Enqueued,
    MetadataNeeded,
    Purpose,
    RunEnded,
    RunStarted,
    UnsentRequest,
)
from fsm.member.membership import await_callback, complete_call, enqueue_removed, mark
from fsm.member.state import Commit, Draft, Origin, Run
from fsm.member.timers import IDLE, backoff_ms
from fsm.tables.consumer_member import Event

# An attempt


def resolve(
    target: LocalAssignment, metadata: TopicNames, names: TopicNames
) -> tuple[LocalAssignment, TopicNames, tuple[TopicId, ...]]:
    """The part of the target whose topics have names, these names, and the ids that have none.

    A name in the metadata wins over one learnt earlier.
    """
    learnt = {**names, **{i: metadata[i] for i, _ in target.partitions if i in metadata}}
    resolved = tuple((i, numbers) for i, numbers in target.partitions if i in learnt)
    missing = tuple(i for i, _ in target.partitions if i not in learnt)
    known = next((known for known in (names, metadata) if learnt == dict(known)), None)
    known = TopicNames(learnt) if known is None else known  # an empty one is shared like any other
    return target._replace(partitions=resolved) if missing else target, known, missing


def attempt(d: Draft, *, can_commit: bool) -> Event:
    """The event of an attempt to reconcile; what it learnt and resolved stays with the draft."""
    if d.target == d.current or d.run is not None:
        return decide_attempt(d, None, can_commit=can_commit)
    resolved, d.names, missing = resolve(d.target, d.metadata, d.names)
    if missing:
        d.effects.append(MetadataNeeded(missing))
    full, owned = d.names.named(resolved.partitions), d.ownership.owned
    d.run_in_hand = Run(resolved, full, without(full, owned), without(owned, full))
    return decide_attempt(d, d.run_in_hand, can_commit=can_commit)


def _run(d: Draft) -> Run:
    """The run that this step is about."""
    run = d.run_in_hand or d.run
    if run is None:
        raise LookupError("no run is open")
    return run


def open_run(d: Draft) -> None:
    """The attempt becomes a run."""
    d.run = run = _run(d)
    d.effects.append(RunStarted(run.resolved, run.added, run.revoked))


def mark_revoked(d: Draft) -> None:
    """What the run revokes stands still from here; said even if it is nothing, when the run begins."""
    run = _run(d)
    if run.revoked or d.event is Event.REC_START:
        mark(d, run.revoked)


def end_run(d: Draft) -> None:
    """No run is open. The commit of a run ends before the run does."""
    if d.event in (Event.RUN_FAILED, Event.RUN_STEP_STALE):
        d.effects.append(RunEnded(d.callback_error))
    d.run = None


# The commit before it changes anything


def offsets_of(d: Draft) -> Offsets:
    """What the application consumed of what it owns."""
    owned = set(d.ownership.owned)
    return tuple((p, offset) for p, offset in d.consumed if p in owned)


def commit_consumed(d: Draft) -> Event | None:
    """Asks for a commit of everything consumed; due at once where there is nothing to commit."""
    offsets = offsets_of(d) if d.settings.config.enable_auto_commit else ()
    if not offsets:
        return _commit_ended(d, None)
    # The number of the last heartbeat tells a run from those before it: at least a join lies between two lives.
    request = IDLE.sent()._replace(number=d.heartbeat_number)
    d.commit = Commit(d.now_ms + d.settings.config.max_poll_interval_ms, request)
    _send_commit(d, offsets, Purpose.RUN_COMMIT, number=request.number)
    return None


def _send_commit(d: Draft, offsets: Offsets, purpose: Purpose, call: int = 0, number: int = 0) -> None:
    config = d.settings.config
    request = OffsetCommitRequest(
        config.group_id,
        d.epoch if d.epoch > 0 else -1,
        d.member_id,
        offsets,
        config.group_instance_id,
    )
    d.effects.append(UnsentRequest(request, purpose, call, number))


def _commit_ended(d: Draft, error: KafkaError | None) -> Event:
    d.commit = None
    d.effects.append(CommitEnded(error))
    d.run_in_hand = run = _run(d)
    return decide_commit_done(d, run)


def commit_tick(d: Draft) -> Event | None:
    """Sends the commit again when its backoff is over; gives it up at its deadline."""
    commit = d.commit
    if commit is None or commit.request.in_flight:
        return None
    if d.now_ms >= commit.deadline_ms:
        return _commit_ended(d, KafkaError("TimeoutException", "commit before the rebalance timed out"))
    if d.coordinator_known and commit.request.may_send(d.now_ms):
        d.commit = commit._replace(request=commit.request.sent())
        _send_commit(d, offsets_of(d), Purpose.RUN_COMMIT, number=commit.request.number)
    return None


AT_ONCE_FATAL = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Retriable elsewhere; here a deleted topic would hold up the rebalance."""


def error_of(answer: OffsetCommitResponse | TransportFailure) -> KafkaError | None:
    """The first error of an answer."""
    if isinstance(answer, TransportFailure):
        return KafkaError(answer.name)
    codes = [code for _, code in answer.errors if code is not ErrorCode.NONE]
    return KafkaError(codes[0].name) if codes else None


def may_retry(d: Draft, answer: OffsetCommitResponse | TransportFailure) -> bool:
    """Whether a failed commit may succeed later: by Kafka's classes, and with a stale epoch while one is known."""
    if isinstance(answer, TransportFailure):
        return answer.retriable
    codes = [code for _, code in answer.errors if code is not ErrorCode.NONE]
    if codes[0] is ErrorCode.STALE_MEMBER_EPOCH:
        return d.epoch > 0
    return codes[0].passes and codes[0] not in AT_ONCE_FATAL


def _note_coordinator(d: Draft, answer: OffsetCommitResponse | TransportFailure) -> None:
    error = error_of(answer)
    lost = isinstance(answer, TransportFailure) and answer.disconnected
    if lost or (error is not None and error.name in ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE")):
        d.coordinator_known = False
        d.effects.append(CoordinatorForgotten())


def run_commit_answered(d: Draft, number: int, answer: OffsetCommitResponse | TransportFailure) -> Event | None:
    """The end of the commit before a run's changes, unless it is tried again; late answers change nothing."""
    if d.commit is None or d.commit.request.number != number:
        return None
    error = error_of(answer)
    _note_coordinator(d, answer)
    if error is None or not may_retry(d, answer):
        return _commit_ended(d, error)
    if d.now_ms >= d.commit.deadline_ms:
        return _commit_ended(d, KafkaError("TimeoutException", error.name))
    wait = backoff_ms(d.settings.config, d.settings.dialect, d.commit.request.attempts, d.jitter)
    d.commit = d.commit._replace(request=d.commit.request.failed(d.now_ms, wait))
    return None


def interval_commit(d: Draft) -> None:
    """In a poll and in assign(): the automatic commit, when its interval is over and none is under way."""
    config = d.settings.config
    if not config.enable_auto_commit or d.closing or d.commit_in_flight or d.now_ms < d.auto_commit_due_ms:
        return
    reset_auto_commit(d)
    offsets = offsets_of(d)
    if offsets:
        d.commit_in_flight = True
        _send_commit(d, offsets, Purpose.INTERVAL_COMMIT)


def interval_commit_answered(d: Draft, answer: OffsetCommitResponse | TransportFailure) -> None:
    """The automatic commit is over; one that may succeed later is due again after a backoff."""
    d.commit_in_flight = False
    _note_coordinator(d, answer)
    if error_of(answer) is not None and may_retry(d, answer):
        d.auto_commit_due_ms = d.now_ms + d.settings.config.retry_backoff_ms


def commit_and_forget(d: Draft) -> None:
    """Before a leave: what was consumed, on the same connection as the leave and so before it."""
    offsets = offsets_of(d)
    if offsets and d.coordinator_known:
        _send_commit(d, offsets, Purpose.INTERVAL_COMMIT)


def commit_called(d: Draft, offsets: Offsets) -> None:
    """The application's own commit; nothing to commit is done at once."""
    if offsets:
        _send_commit(d, offsets, Purpose.CALL_COMMIT, d.call)
    else:
        complete_call(d)


def call_commit_answered(d: Draft, answer: OffsetCommitResponse | TransportFailure) -> None:
    """The application's commit is over, well or not."""
    _note_coordinator(d, answer)
    d.effects.append(CallCompleted(d.call, error_of(answer)))


def reset_auto_commit(d: Draft) -> None:
    """The interval begins anew."""
    d.auto_commit_due_ms = d.now_ms + d.settings.config.auto_commit_interval_ms


# Revoke, assign, acknowledge


def enqueue_revoked(d: Draft) -> None:
    """Asks for the revoked callback over what is revoked and still owned."""
    revoked = among(_run(d).revoked, d.ownership.owned)
    enqueue_removed(d, ListenerMethod.REVOKED, Origin.RUN_REVOKED, revoked)


def enqueue_assigned(d: Draft) -> Event | None:
    """Sends the assignment to the application, or (before 4.3) applies it and asks for the callback alone."""
    d.run_in_hand = run = _run(d)
    if Choice.APPLY_IN_APPLICATION in d.settings.dialect:
        ticket = await_callback(d, Origin.RUN_ASSIGNED)
        d.effects.append(Enqueued(PartitionsAssignedEvent(ticket, run.full, run.added)))
        return None
    d.full, d.added = run.full, run.added
    set_owned(d)
    mark_added(d)
    notify_assignment(d)
    if not d.subscription.listener:
        return decide_run_step(d, run, Event.ASSIGNED_OK, None)
    ticket = await_callback(d, Origin.RUN_ASSIGNED)
    d.effects.append(Enqueued(PartitionsAssignedEvent(ticket, run.full, run.added, apply=False)))
    return None


def prune_names(d: Draft) -> None:
    """Names of what is not assigned any more are forgotten."""
    d.names = d.names.only(topic_id for topic_id, _ in _run(d).resolved.partitions)


def give_up_revoked(d: Draft, run: Run) -> None:
    """What the run's revoked callback was about is not owned any more."""
    d.ownership = d.ownership.own(without(d.ownership.owned, run.revoked))
    d.effects.append(AssignmentUpdated(d.ownership.owned))


def cancel_run(d: Draft) -> None:
    """The open run is over, and what it waits for means nothing any more."""
    if d.run is None:
        return
    if any(a.origin is Origin.RUN_REVOKED for a in d.awaited):
        give_up_revoked(d, d.run)
    steps = (Origin.RUN_REVOKED, Origin.RUN_ASSIGNED)
    d.awaited = tuple(a._replace(origin=Origin.CANCELLED) if a.origin in steps else a for a in d.awaited)
    d.run = d.commit = None
    d.effects.append(RunEnded(None))


def set_owned(d: Draft) -> None:
    """The full set is owned."""
    d.ownership = d.ownership.own(d.full)


def mark_added(d: Draft) -> None:
    """What was added is not fetchable yet."""
    d.ownership = d.ownership.mark_added(d.added)


def notify_assignment(d: Draft) -> None:
    """The application's record, and the end of its call."""
    d.effects.append(AssignmentUpdated(d.full))
    complete_call(d)


def reject_assignment(d: Draft) -> None:
    """The application's call fails; its poll() throws, unless the assignment is just one of the past."""
    if is_outdated(d):
        d.effects.append(CallCompleted(d.call, OUTDATED))
        return
    text = "partitions are not assigned by the group under this subscription"
    d.effects.append(CallCompleted(d.call, KafkaError("IllegalStateException", text)))


def adopt_current(d: Draft) -> None:
    """What was resolved is held."""
    d.current = _run(d).resolved
    if Choice.KEPT_IS_UNMARKED in d.settings.dialect:
        d.ownership = d.ownership.keep(_run(d).full)


def enable_assigned(d: Draft) -> None:
    """Everything that was resolved is fetchable, also what an earlier failed callback left behind."""
    d.ownership = d.ownership.enable(_run(d).full)
