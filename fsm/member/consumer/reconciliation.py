"""Effects of the consumer member's reconciliation, from the target of the coordinator to what the application owns.

Resolve names, commit, revoke, assign, acknowledge. One run at a time; what it began with stays its own, whatever the
coordinator says meanwhile.

Source: `AbstractMembershipManager.maybeReconcile` and what follows from it, `CommitRequestManager`.
"""

from __future__ import annotations

from dataclasses import replace

from fsm.member.consumer.decisions import decide_commit_done, decide_reconciliation, decide_run_step, is_outdated
from fsm.member.consumer.heartbeat import Heartbeats
from fsm.member.consumer.state import RUN_STEPS, AutoCommit, Commit, Origin, Run
from fsm.member.dialect.choices import Choice
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
from fsm.member.events import OUTDATED, KafkaError, ListenerMethod, PartitionsAssignedEvent
from fsm.member.timers import IDLE, backoff_ms
from fsm.protocol.assignment import LocalAssignment, Partitions, TopicId, TopicNames, among, without
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import OffsetCommitRequest, OffsetCommitResponse, Offsets, TransportFailure, commit_topics
from fsm.tables.consumer_member import Event

CommitAnswer = OffsetCommitResponse | TransportFailure


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


AT_ONCE_FATAL = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Retriable elsewhere; here a deleted topic would hold up the rebalance."""


def error_of(answer: CommitAnswer) -> KafkaError | None:
    """The first error of an answer."""
    if isinstance(answer, TransportFailure):
        return KafkaError(answer.name)
    return next((KafkaError(code.name) for _, code in answer.errors), None)


class Reconciliation(Heartbeats):
    """The effects of this module."""

    # A run

    def reconcile(self, *, can_commit: bool) -> Event:
        """The event of an attempt to reconcile; what it learnt and resolved stays with the step."""
        if self.target == self.current or self.run is not None:
            return decide_reconciliation(self, None, can_commit=can_commit)
        resolved, self.names, missing = resolve(self.target, self.client.metadata, self.names)
        if missing:
            self.effects.append(MetadataNeeded(missing))
        full, owned = self.names.named(resolved.partitions), self.ownership.owned
        self.run_in_hand = Run(resolved, full, without(full, owned), without(owned, full))
        return decide_reconciliation(self, self.run_in_hand, can_commit=can_commit)

    def _run(self) -> Run:
        """The run that this step is about."""
        run = self.run_in_hand or self.run
        if run is None:
            raise LookupError("no run is open")
        return run

    def open_run(self) -> None:
        self.run = run = self._run()
        self.effects.append(RunStarted(run.resolved, run.added, run.revoked))

    def mark_revoked(self) -> None:
        run = self._run()
        if run.revoked or self.event is Event.REC_START:  # Kafka's log tells of nothing too, when the run begins
            self.mark(run.revoked)

    def end_run(self) -> None:
        if self.event in (Event.RUN_FAILED, Event.RUN_STEP_STALE):
            self.effects.append(RunEnded(self.callback_error))
        self.run = None

    def cancel_run(self) -> None:
        """The open run is over, and what it waits for means nothing any more."""
        if self.run is None:
            return
        if any(a.origin is Origin.RUN_REVOKED for a in self.awaited):
            self.give_up_revoked(self.run)
        self.awaited = tuple(replace(a, origin=Origin.CANCELLED) if a.origin in RUN_STEPS else a for a in self.awaited)
        if self.commit is not None and self.commit.number and self.commit.request.in_flight:
            self.unanswered = (*self.unanswered, self.commit.number)
        self.run = self.commit = None
        self.effects.append(RunEnded(None))

    def enqueue_revoked(self) -> None:
        revoked = among(self._run().revoked, self.ownership.owned)
        self.enqueue_removed(ListenerMethod.REVOKED, Origin.RUN_REVOKED, revoked)

    def enqueue_assigned(self) -> Event | None:
        self.run_in_hand = run = self._run()
        in_application = Choice.APPLY_IN_APPLICATION in self.settings.choices
        if not in_application:
            self.ownership = self.ownership.own(run.full).mark_added(run.added)
            self._tell_assignment(run.full)
            if not self.subscription.listener:
                return decide_run_step(self, run, Event.ASSIGNED_OK, None)
        ticket = self.await_callback(Origin.RUN_ASSIGNED)
        self.effects.append(Enqueued(PartitionsAssignedEvent(ticket, run.full, run.added, apply=in_application)))
        return None

    def prune_names(self) -> None:
        self.names = self.names.only(topic_id for topic_id, _ in self._run().resolved.partitions)

    def give_up_revoked(self, run: Run) -> None:
        """What the run's revoked callback was about is not owned any more."""
        self.ownership = self.ownership.own(without(self.ownership.owned, run.revoked))
        self.effects.append(AssignmentUpdated(self.ownership.owned))

    def set_owned(self) -> None:
        self.ownership = self.ownership.own(self.applied.full)

    def mark_added(self) -> None:
        self.ownership = self.ownership.mark_added(self.applied.added)

    def notify_assignment(self) -> None:
        self._tell_assignment(self.applied.full)

    def _tell_assignment(self, full: Partitions) -> None:
        self.effects.append(AssignmentUpdated(full))
        self.complete_call()

    def reject_assignment(self) -> None:
        text = "partitions are not assigned by the group under this subscription"
        error = OUTDATED if is_outdated(self) else KafkaError("IllegalStateException", text)
        self.effects.append(CallCompleted(self.call, error))

    def adopt_current(self) -> None:
        self.current = self._run().resolved
        if Choice.KEPT_IS_UNMARKED in self.settings.choices:
            self.ownership = self.ownership.keep(self._run().full)

    def enable_assigned(self) -> None:
        self.ownership = self.ownership.enable(self._run().full)

    # The commit before a run changes anything

    def offsets(self) -> Offsets:
        """What the application consumed of what it owns."""
        owned = set(self.ownership.owned)
        return tuple((p, offset) for p, offset in self.auto_commit.consumed if p in owned)

    def commit_consumed(self) -> Event | None:
        offsets = self.offsets()
        if not offsets:
            return self._commit_ended(None)
        number = self.free_number() if Choice.ANSWERS_NUMBERED in self.settings.choices else 0
        self.commit = Commit(self.now_ms + self.settings.config.max_poll_interval_ms, IDLE.send(), number)
        self._send_commit(offsets, Purpose.RUN_COMMIT, number=number)
        return None

    def _send_commit(self, offsets: Offsets, purpose: Purpose, call: int = 0, number: int = 0) -> None:
        config, epoch = self.settings.config, self.epoch if self.epoch > 0 else -1
        topics = commit_topics(offsets)
        request = OffsetCommitRequest(config.group_id, epoch, self.member_id, config.group_instance_id, topics=topics)
        self.effects.append(UnsentRequest(request, purpose, call, number))

    def _commit_ended(self, error: KafkaError | None) -> Event:
        self.commit = None
        self.effects.append(CommitEnded(error))
        self.run_in_hand = run = self._run()
        return decide_commit_done(self, run)

    def commit_tick(self) -> Event | None:
        """Sends the commit again when its backoff is over; gives it up at its deadline."""
        commit = self.commit
        if commit is None or commit.request.in_flight:
            return None
        if self.now_ms >= commit.deadline_ms:
            return self._commit_ended(KafkaError("TimeoutException", "commit before the rebalance timed out"))
        if self.client.coordinator_known and commit.request.may_send(self.now_ms):
            self.commit = replace(commit, request=commit.request.send())
            self._send_commit(self.offsets(), Purpose.RUN_COMMIT, number=commit.number)
        return None

    def run_commit_answered(self, number: int, answer: CommitAnswer) -> Event | None:
        """The end of the commit before a run's changes, unless it is tried again; late answers change nothing."""
        commit = self.commit
        if commit is None or commit.number != number:
            self.pass_over(number)
            return None
        error = error_of(answer)
        self._note_coordinator(answer)
        if error is None or not self._may_retry(answer):
            return self._commit_ended(error)
        if self.now_ms >= commit.deadline_ms:
            return self._commit_ended(KafkaError("TimeoutException", error.name))
        wait = backoff_ms(self.settings.config, self.settings.choices, commit.request.attempts, self.jitter)
        self.commit = replace(commit, request=commit.request.fail(self.now_ms, wait))
        return None

    # Other commits

    def commit_interval(self) -> None:
        """In a poll and in assign(): the automatic commit, when its interval is over and none is under way."""
        commits = self.auto_commit
        if commits.in_flight or self.leaving.closing or self.now_ms < commits.due_ms:
            return
        self.reset_auto_commit()
        offsets = self.offsets()
        if offsets:
            self.auto_commit = replace(self.auto_commit, in_flight=True)
            self._send_commit(offsets, Purpose.INTERVAL_COMMIT)

    def interval_commit_answered(self, answer: CommitAnswer) -> None:
        """The automatic commit is over; one that may succeed later is due again after a backoff."""
        self._note_coordinator(answer)
        due_ms = self.auto_commit.due_ms
        if error_of(answer) is not None and self._may_retry(answer):
            due_ms = self.now_ms + self.settings.config.retry_backoff_ms
        self.auto_commit = AutoCommit(due_ms, False, self.auto_commit.consumed)

    def commit_before_leave(self) -> None:
        """What was consumed, on the same connection as the leave and so before it; nobody waits for the answer."""
        offsets = self.offsets()
        if offsets and self.client.coordinator_known:
            self._send_commit(offsets, Purpose.INTERVAL_COMMIT)

    def commit_called(self, offsets: Offsets) -> None:
        """The application's own commit; nothing to commit is done at once."""
        if offsets:
            self._send_commit(offsets, Purpose.CALL_COMMIT, self.call)
        else:
            self.complete_call()

    def call_commit_answered(self, answer: CommitAnswer) -> None:
        """The application's commit is over, well or not."""
        self._note_coordinator(answer)
        self.effects.append(CallCompleted(self.call, error_of(answer)))

    def reset_auto_commit(self) -> None:
        config = self.settings.config
        if config.enable_auto_commit:
            self.auto_commit = replace(self.auto_commit, due_ms=self.now_ms + config.auto_commit_interval_ms)

    def _may_retry(self, answer: CommitAnswer) -> bool:
        """Whether a failed commit may succeed later: by Kafka's classes, and with a stale epoch while one is known."""
        if isinstance(answer, TransportFailure):
            return answer.retriable
        code = next(code for _, code in answer.errors)
        if code is ErrorCode.STALE_MEMBER_EPOCH:
            return self.epoch > 0
        return code.passes and code not in AT_ONCE_FATAL

    def _note_coordinator(self, answer: CommitAnswer) -> None:
        error = error_of(answer)
        lost = isinstance(answer, TransportFailure) and answer.disconnected
        if lost or (error is not None and error.name in ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE")):
            self.learn(coordinator_known=False)
            self.effects.append(CoordinatorForgotten())
