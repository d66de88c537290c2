"""The effects of the consumer member's table: on its epoch and its releases, its heartbeats, its reconciliation.

Each method carries out the effect of its name, defined in `fsm.tables.consumer_member.Effect`. A method that has
nothing to wait for returns the event that is then due within the row.

A heartbeat is full while joining; otherwise it has only the changes since the last one. After a failure the next one is
full again. A reconciliation resolves names, commits, revokes, assigns and acknowledges. There is one run at a time, and
a new target does not change it.

Source: `AbstractMembershipManager`, `SubscriptionState`, `ConsumerHeartbeatRequestManager.HeartbeatState`,
`AbstractHeartbeatRequestManager`, `CommitRequestManager`; KIP-848, section ConsumerGroupHeartbeat.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from fsm.member import effects, events
from fsm.member.consumer import decisions
from fsm.member.consumer.state import (
    DOUBT,
    DOUBT_OF_JOIN,
    RUN_STEPS,
    AutoCommit,
    Awaited,
    Commit,
    Forgets,
    Member,
    MemberStep,
    Origin,
    Run,
    SentFields,
    StaleRelease,
)
from fsm.member.consumer.subscription import OWNS_NOTHING, Subscription, SubscriptionType
from fsm.member.dialect.choices import Choice
from fsm.member.timers import IDLE, backoff_ms
from fsm.protocol import messages as m
from fsm.protocol.assignment import (
    NO_NAMES,
    NO_TOPIC_ID,
    NONE,
    LocalAssignment,
    Partitions,
    TopicId,
    TopicNames,
    TopicPartitions,
    among,
    topic_partitions,
    without,
)
from fsm.protocol.error_codes import ErrorCode
from fsm.tables.consumer_member import Event, State

# Needed by every heartbeat: in Python 3.11 access to a member of an enum costs ten times that to a global.
_JOINING, _NUMBERED = State.JOINING, Choice.ANSWERS_NUMBERED


def build_heartbeat(member: Member) -> m.ConsumerGroupHeartbeatRequest:
    """The next heartbeat."""
    config, sent, subscription = member.settings.config, member.sent, member.subscription
    joining = member.state is State.JOINING
    if sent is None or joining:
        return m.ConsumerGroupHeartbeatRequest(
            config.group_id,
            member.member_id,
            member.epoch,
            config.group_instance_id,
            config.client_rack if joining and Choice.RACK in member.settings.choices else None,
            config.max_poll_interval_ms,
            subscription.topics,
            regex_of(subscription),
            config.group_remote_assignor,
            () if joining else report_owned(member),
        )
    plain = m.ConsumerGroupHeartbeatRequest(config.group_id, member.member_id, member.epoch, config.group_instance_id)
    if sent.subscription is subscription and sent.assignment is member.current:
        return plain
    regex = regex_of(subscription)
    return replace(
        plain,
        subscribed_topic_names=subscription.topics if subscription.topics != sent.subscription.topics else None,
        # An empty text withdraws the pattern.
        subscribed_topic_regex=(regex or "") if regex != regex_of(sent.subscription) else None,
        topic_partitions=report_owned(member) if member.current != sent.assignment else None,
    )


def report_owned(member: Member) -> TopicPartitions:
    """The partitions that a heartbeat reports as owned: the current assignment, and in `fixed` also partitions that are
    being assigned. The coordinator may give any unreported partition to another member at once. A run cannot be
    cancelled, and its target remains if the answer with another one is lost.
    """
    current = member.current.partitions
    if Choice.REPORTS_WHAT_IS_ASSIGNED not in member.settings.choices or member.epoch <= 0:
        return current
    coming = member.target.partitions
    run = member.run.resolved.partitions if member.run is not None else ()
    if current == coming and not run:
        return current
    owned: dict[TopicId, tuple[int, ...]] = {}
    for topic_id, numbers in (*current, *coming, *run):
        owned[topic_id] = (*owned.get(topic_id, ()), *numbers)
    return topic_partitions(owned)


def regex_of(subscription: Subscription) -> str | None:
    """The pattern that the coordinator matches; None for one that only stays registered."""
    return subscription.regex if subscription.kind is SubscriptionType.AUTO_PATTERN_RE2J else None


CommitAnswer = m.OffsetCommitResponse | m.TransportFailure


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
FATAL_WITH_IDS = AT_ONCE_FATAL | {ErrorCode.UNKNOWN_TOPIC_ID}
"""Errors of commits that are retriable elsewhere; here a deleted topic would hold up the rebalance. The second is for
members that commit under topic ids."""


def error_of(answer: CommitAnswer) -> events.KafkaError | None:
    """The first error of an answer."""
    if isinstance(answer, m.TransportFailure):
        return events.KafkaError(answer.name)
    return next((events.KafkaError(code.name) for _, code in answer.errors), None)


class Effects(MemberStep):
    """The methods of the effects, and the answers to commits."""

    # Epoch

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch and notifies listeners of a change; they get None for an epoch that is not positive."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.effects.append(effects.EpochUpdated(epoch if epoch > 0 else None))

    def adopt_epoch(self) -> None:
        if self.response.member_epoch != self.epoch:
            if self.doubt and self.doubt != DOUBT_OF_JOIN:
                self.doubt -= 1
            self.set_epoch(self.response.member_epoch)

    def reset_epoch(self) -> None:
        self.set_epoch(0)

    def set_leave_epoch(self) -> None:
        self.set_epoch(decisions.leave_epoch(self))

    def notify_no_epoch(self) -> None:
        self.effects.append(effects.EpochUpdated(None))

    # Subscription and assignment

    def store_subscription(self) -> None:
        self.subscription = self.subscription_asked
        self.complete_call()

    def flag_subscription(self) -> None:
        self.updated = True

    def unsubscribe_all(self) -> None:
        self.ownership = OWNS_NOTHING
        if not (self.updated and Choice.LAST_SUBSCRIPTION_COUNTS in self.settings.choices):
            self.subscription = self.subscription.clear()
        if Choice.CLOSE_ASKS_MEMBER in self.settings.choices:
            self.notify_empty_assignment()

    def clear_assignment(self) -> None:
        if self.subscription.kind.is_auto:
            self.ownership = OWNS_NOTHING
            self.notify_empty_assignment()
        self.current = self.target = NONE
        self.names = NO_NAMES

    def notify_empty_assignment(self) -> None:
        self.effects.append(effects.AssignmentUpdated(()))

    def bump_target(self) -> None:
        received = self.response.assignment
        updated = self.target if received is None else self.target.update(received)
        if updated is not self.target:
            self.effects.append(effects.TargetUpdated(self.target, updated))
            self.target = updated

    def drop_target(self) -> None:
        self.target, self.names = NONE, NO_NAMES

    def drop_current(self) -> None:
        self.current = NONE

    def mark_rejoined(self) -> None:
        if self.run is not None:
            self.run = replace(self.run, rejoined=True)

    # Releases

    def await_callback(self, origin: Origin) -> int:
        """Awaits a callback of that origin; returns its ticket, the lowest free one."""
        taken = {a.ticket for a in self.awaited}
        ticket = next(n for n in range(1, len(taken) + 2) if n not in taken)
        self.awaited = (*self.awaited, Awaited(ticket, origin))
        return ticket

    def enqueue_removed(self, method: events.ListenerMethod, origin: Origin, removed: Partitions) -> None:
        """Requests the revoked or the lost callback."""
        ticket = self.await_callback(origin)
        self.effects.append(
            effects.Enqueued(events.PartitionsRemovedEvent(ticket, method, removed, call_back=bool(removed)))
        )

    def mark(self, revoked: Partitions) -> None:
        """Flags partitions as pending revocation; emits `Marked` even for an empty set."""
        self.ownership = self.ownership.mark_revoked(revoked)
        self.effects.append(effects.Marked(revoked))

    def mark_owned(self) -> None:
        if self.epoch > 0 and self.ownership.owned:
            self.mark(self.ownership.owned)

    def enqueue_removed_leave(self) -> None:
        method = events.ListenerMethod.REVOKED if self.epoch > 0 else events.ListenerMethod.LOST
        self.enqueue_removed(method, Origin.LEAVE, decisions.list_removed(self))

    def _release_lost(self, origin: Origin) -> bool:
        """Requests the lost callback; returns whether there is a listener and something to lose."""
        if Choice.MARK_LOST in self.settings.choices:
            self.mark(self.ownership.owned)
        if not decisions.needs_callback(self):
            return False
        self.enqueue_removed(events.ListenerMethod.LOST, origin, decisions.list_removed(self))
        return True

    def release_lost_fence(self) -> Event | None:
        return None if self._release_lost(Origin.FENCE) else Event.LOST_DONE_FENCE

    def release_lost_fatal(self) -> Event | None:
        return None if self._release_lost(Origin.FATAL) else Event.LOST_DONE_FATAL

    def release_lost_stale(self) -> Event | None:
        self._set_stale_release(StaleRelease.OPEN)
        return None if self._release_lost(Origin.STALE) else decisions.decide_stale_done(self)

    def register_rejoin(self) -> None:
        self._set_stale_release(StaleRelease.REJOIN)

    def complete_stale_release(self) -> None:
        self._set_stale_release(StaleRelease.DONE)

    def _set_stale_release(self, reached: StaleRelease) -> None:
        self.leaving = replace(self.leaving, stale_release=reached)

    # Leaving and calls

    def store_operation(self) -> None:
        if Choice.OPERATION in self.settings.choices:
            self.leaving = replace(self.leaving, operation=self.operation_asked)

    def create_leave(self) -> None:
        self._set_calls((self.call,) if self.call else ())

    def await_leave(self) -> None:
        if self.leaving.calls is None:
            self.effects.append(
                effects.CallCompleted(self.call, events.KafkaError("NoSuchElementException", "no leave is open"))
            )
        elif self.call:
            self._set_calls((*self.leaving.calls, self.call))

    def complete_leave(self) -> None:
        if self.leaving.calls is not None:
            self.effects.extend(effects.CallCompleted(call) for call in self.leaving.calls)
            self._set_calls(None)

    def _set_calls(self, calls: tuple[int, ...] | None) -> None:
        self.leaving = replace(self.leaving, calls=calls)

    def complete_call(self) -> None:
        if self.call:
            self.effects.append(effects.CallCompleted(self.call))

    def note_poll_expired(self) -> None:
        self.effects.append(effects.PollTimerExpired())

    def enqueue_error(self) -> None:
        self.effects.append(effects.Enqueued(events.ErrorEvent(self.failure.error)))

    # Heartbeats

    def send_delta_heartbeat(self, purpose: effects.Purpose = effects.Purpose.HEARTBEAT) -> None:
        number = 0
        if _NUMBERED in self.settings.choices:
            self.abandon_heartbeat()
            number = self.heartbeat_number = self.free_number() if purpose is effects.Purpose.HEARTBEAT else 0
        if self.doubt:
            self.wipe_sent()
        sent, assignment = self.sent, NONE if self.state is _JOINING else self.current
        if sent is None or sent.subscription is not self.subscription or sent.assignment is not assignment:
            request = effects.UnsentRequest(build_heartbeat(self), purpose, 0, number)
            self.sent = SentFields(self.subscription, assignment)
        elif self.state is _JOINING:
            request = effects.UnsentRequest(build_heartbeat(self), purpose, 0, number)
        elif (
            sent.repeat is not None
            and sent.repeat.body.member_epoch == self.epoch  # type: ignore[union-attr]  # a heartbeat
            and sent.repeat.purpose is purpose
            and sent.repeat.number == number
        ):
            request = sent.repeat
        else:
            request = effects.UnsentRequest(build_heartbeat(self), purpose, 0, number)
            self.sent = SentFields(sent.subscription, assignment, request)
        self.effects.append(request)
        self.heartbeat_in_flight = True
        self.heartbeat_due_ms = self.now_ms + self.heartbeat_interval_ms

    send_full_heartbeat = send_ack_heartbeat = send_leave_heartbeat = send_delta_heartbeat

    def send_heartbeat_unwatched(self) -> None:
        self.send_delta_heartbeat(effects.Purpose.UNWATCHED)

    send_leave_heartbeat_unwatched = send_heartbeat_unwatched

    def free_number(self) -> int:
        """The lowest number that no request in flight has."""
        taken = {self.heartbeat_number, *self.unanswered}
        if self.commit is not None:
            taken.add(self.commit.number)
        return next(number for number in count(1) if number not in taken)

    def abandon_heartbeat(self) -> None:
        """Ignores the answer to the heartbeat in flight, if there is one."""
        if self.heartbeat_number:
            self.unanswered = (*self.unanswered, self.heartbeat_number)
            self.heartbeat_number = 0

    def pass_over(self, number: int) -> None:
        """Frees the number of an ignored answer."""
        if self.heartbeat_number == number:
            self.heartbeat_number = 0
        elif number in self.unanswered:
            self.unanswered = tuple(n for n in self.unanswered if n != number)

    def end_request(self, response: m.ConsumerGroupHeartbeatResponse) -> None:
        """Notes a successful response before its event is taken; a changed interval restarts the timer."""
        self.heartbeat_in_flight, self.heartbeat_number, self.heartbeat_attempts = False, 0, 0
        self.heartbeat_ready_ms = self.now_ms + backoff_ms(self.settings.config, self.settings.choices, 0, self.jitter)
        if response.heartbeat_interval_ms != self.heartbeat_interval_ms:
            self.heartbeat_interval_ms = response.heartbeat_interval_ms
            self.heartbeat_due_ms = self.now_ms + response.heartbeat_interval_ms

    def wipe_sent(self) -> None:
        self.sent = None

    def give_up(self, epoch: int) -> None:
        """Notes a heartbeat without an answer: the coordinator may still handle it and send an assignment."""
        if Choice.FULL_WHILE_IN_DOUBT in self.settings.choices and epoch >= 0:
            self.doubt = max(self.doubt, DOUBT if epoch else DOUBT_OF_JOIN)

    def fail_request(self) -> None:
        wait = backoff_ms(self.settings.config, self.settings.choices, self.heartbeat_attempts, self.jitter)
        self.heartbeat_in_flight, self.heartbeat_number, self.heartbeat_ready_ms = False, 0, self.now_ms + wait
        self.heartbeat_attempts += 1
        self.heartbeat_due_ms = self.now_ms
        self.effects.append(effects.HeartbeatFailed(self.failure.error))

    def reset_request(self) -> None:
        self.abandon_heartbeat()
        self.heartbeat_in_flight, self.heartbeat_attempts, self.heartbeat_ready_ms = False, 0, 0

    def forget_coordinator(self) -> None:
        if self.failure.forgets is Forgets.NOTHING:
            return
        self.learn(coordinator_known=False)
        self.effects.append(effects.CoordinatorForgotten())
        if self.failure.forgets is Forgets.COORDINATOR:
            self.reset_request()

    def run_failure_hook(self) -> None:
        if self.state is State.UNSUBSCRIBED:
            self.complete_leave()

    # Reconciliation

    # A run

    def reconcile(self, *, can_commit: bool) -> Event:
        """The event of an attempt to reconcile; the learnt names and the resolved run are kept."""
        if self.target == self.current or self.run is not None:
            return decisions.decide_reconciliation(self, None, can_commit=can_commit)
        resolved, self.names, missing = resolve(self.target, self.client.metadata, self.names)
        if missing:
            self.effects.append(effects.MetadataNeeded(missing))
        full, owned = self.names.name(resolved.partitions), self.ownership.owned
        self.run_in_hand = Run(resolved, full, without(full, owned), without(owned, full))
        return decisions.decide_reconciliation(self, self.run_in_hand, can_commit=can_commit)

    def _run(self) -> Run:
        run = self.run_in_hand or self.run
        if run is None:
            raise LookupError("no run is open")
        return run

    def open_run(self) -> None:
        self.run = run = self._run()
        self.effects.append(effects.RunStarted(run.resolved, run.added, run.revoked))

    def mark_revoked(self) -> None:
        run = self._run()
        if run.revoked or self.event is Event.REC_START:  # Kafka logs an empty set, too, when the run begins
            self.mark(run.revoked)

    def end_run(self) -> None:
        if self.event in (Event.RUN_FAILED, Event.RUN_STEP_STALE):
            self.effects.append(effects.RunEnded(self.callback_error))
        self.run = None

    def cancel_run(self) -> None:
        """Ends the open run; its pending callback or commit has no effect any more."""
        if self.run is None:
            return
        if any(a.origin is Origin.RUN_REVOKED for a in self.awaited):
            self.give_up_revoked(self.run)
        self.awaited = tuple(replace(a, origin=Origin.CANCELLED) if a.origin in RUN_STEPS else a for a in self.awaited)
        if self.commit is not None and self.commit.number and self.commit.request.in_flight:
            self.unanswered = (*self.unanswered, self.commit.number)
        self.run = self.commit = None
        self.effects.append(effects.RunEnded(None))

    def enqueue_revoked(self) -> None:
        revoked = among(self._run().revoked, self.ownership.owned)
        self.enqueue_removed(events.ListenerMethod.REVOKED, Origin.RUN_REVOKED, revoked)

    def enqueue_assigned(self) -> Event | None:
        self.run_in_hand = run = self._run()
        in_application = Choice.APPLY_IN_APPLICATION in self.settings.choices
        if not in_application:
            self.ownership = self.ownership.own(run.full).mark_added(run.added)
            self._report_assignment(run.full)
            if not self.subscription.listener:
                return decisions.decide_run_step(self, run, Event.ASSIGNED_OK, None)
        ticket = self.await_callback(Origin.RUN_ASSIGNED)
        self.effects.append(
            effects.Enqueued(events.PartitionsAssignedEvent(ticket, run.full, run.added, apply=in_application))
        )
        return None

    def prune_names(self) -> None:
        self.names = self.names.only(topic_id for topic_id, _ in self._run().resolved.partitions)

    def give_up_revoked(self, run: Run) -> None:
        """Removes the partitions of the run's revoked callback from those owned."""
        self.ownership = self.ownership.own(without(self.ownership.owned, run.revoked))
        self.effects.append(effects.AssignmentUpdated(self.ownership.owned))

    def set_owned(self) -> None:
        self.ownership = self.ownership.own(self.applied.full)

    def mark_added(self) -> None:
        self.ownership = self.ownership.mark_added(self.applied.added)

    def notify_assignment(self) -> None:
        self._report_assignment(self.applied.full)

    def _report_assignment(self, full: Partitions) -> None:
        self.effects.append(effects.AssignmentUpdated(full))
        self.complete_call()

    def reject_assignment(self) -> None:
        text = "partitions are not assigned by the group under this subscription"
        error = events.OUTDATED if decisions.is_outdated(self) else events.KafkaError("IllegalStateException", text)
        self.effects.append(effects.CallCompleted(self.call, error))

    def adopt_current(self) -> None:
        self.current = self._run().resolved
        if Choice.KEPT_IS_UNMARKED in self.settings.choices:
            self.ownership = self.ownership.keep(self._run().full)

    def enable_assigned(self) -> None:
        self.ownership = self.ownership.enable(self._run().full)

    # The commit before a run changes anything

    def offsets(self) -> m.Offsets:
        """The consumed positions of owned partitions."""
        owned, recreated = set(self.ownership.owned), decisions.list_recreated(self)
        return tuple((p, offset) for p, offset in self.auto_commit.consumed if p in owned and p[0] not in recreated)

    def commit_consumed(self) -> Event | None:
        offsets = self.offsets()
        if not offsets:
            return self._commit_ended(None)
        number = self.free_number() if Choice.ANSWERS_NUMBERED in self.settings.choices else 0
        self.commit = Commit(self.now_ms + self.settings.config.max_poll_interval_ms, IDLE.send(), number)
        self._send_commit(offsets, effects.Purpose.RUN_COMMIT, number=number)
        return None

    def _send_commit(self, offsets: m.Offsets, purpose: effects.Purpose, call: int = 0, number: int = 0) -> None:
        config, epoch = self.settings.config, self.epoch if self.epoch > 0 else -1
        ids = decisions.list_ids(self)
        topics = tuple(one._replace(topic_id=ids.get(one.name, NO_TOPIC_ID)) for one in m.commit_topics(offsets))
        request = m.OffsetCommitRequest(config.group_id, epoch, self.member_id, config.group_instance_id, topics=topics)
        self.effects.append(effects.UnsentRequest(request, purpose, call, number))

    def _commit_ended(self, error: events.KafkaError | None) -> Event:
        self.commit = None
        self.effects.append(effects.CommitEnded(error))
        self.run_in_hand = run = self._run()
        return decisions.decide_commit_done(self, run)

    def commit_tick(self) -> Event | None:
        """Sends the commit again after its backoff; abandons it at its deadline."""
        commit = self.commit
        if commit is None or commit.request.in_flight:
            return None
        if self.now_ms >= commit.deadline_ms:
            return self._commit_ended(events.KafkaError("TimeoutException", "commit before the rebalance timed out"))
        if self.client.coordinator_known and commit.request.may_send(self.now_ms):
            self.commit = replace(commit, request=commit.request.send())
            self._send_commit(self.offsets(), effects.Purpose.RUN_COMMIT, number=commit.number)
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
            return self._commit_ended(events.KafkaError("TimeoutException", error.name))
        wait = backoff_ms(self.settings.config, self.settings.choices, commit.request.attempts, self.jitter)
        self.commit = replace(commit, request=commit.request.fail(self.now_ms, wait))
        return None

    # Other commits

    def commit_interval(self) -> None:
        """In a poll and in assign(): the automatic commit, if its interval is over and none is in flight."""
        commits = self.auto_commit
        if commits.in_flight or self.leaving.closing or self.now_ms < commits.due_ms:
            return
        self.reset_auto_commit()
        offsets = self.offsets()
        if offsets:
            self.auto_commit = replace(self.auto_commit, in_flight=True)
            self._send_commit(offsets, effects.Purpose.INTERVAL_COMMIT)

    def interval_commit_answered(self, answer: CommitAnswer) -> None:
        """Ends the automatic commit; one that may succeed later is due again after a backoff."""
        self._note_coordinator(answer)
        due_ms = self.auto_commit.due_ms
        if error_of(answer) is not None and self._may_retry(answer):
            due_ms = self.now_ms + self.settings.config.retry_backoff_ms
        self.auto_commit = AutoCommit(due_ms, False, self.auto_commit.consumed)

    def commit_before_leave(self) -> None:
        """Commits the consumed positions. The coordinator gets the commit before the leave, on the same connection;
        nothing waits for its answer.
        """
        offsets = self.offsets()
        if offsets and self.client.coordinator_known:
            self._send_commit(offsets, effects.Purpose.INTERVAL_COMMIT)

    def commit_called(self, offsets: m.Offsets) -> None:
        """The application's own commit; an empty one is complete at once."""
        if offsets:
            self._send_commit(offsets, effects.Purpose.CALL_COMMIT, self.call)
        else:
            self.complete_call()

    def call_commit_answered(self, answer: CommitAnswer) -> None:
        """Ends the application's commit."""
        self._note_coordinator(answer)
        self.effects.append(effects.CallCompleted(self.call, error_of(answer)))

    def reset_auto_commit(self) -> None:
        config = self.settings.config
        if config.enable_auto_commit:
            self.auto_commit = replace(self.auto_commit, due_ms=self.now_ms + config.auto_commit_interval_ms)

    def _may_retry(self, answer: CommitAnswer) -> bool:
        """Whether a failed commit may succeed later: by Kafka's classes, or with a stale epoch while in the group."""
        if isinstance(answer, m.TransportFailure):
            return answer.retriable
        code = next(code for _, code in answer.errors)
        if code is ErrorCode.STALE_MEMBER_EPOCH:
            return self.epoch > 0
        names_ids = Choice.ANOTHER_ID_IS_ANOTHER_TOPIC in self.settings.choices
        return code.passes and code not in (FATAL_WITH_IDS if names_ids else AT_ONCE_FATAL)

    def _note_coordinator(self, answer: CommitAnswer) -> None:
        error = error_of(answer)
        lost = isinstance(answer, m.TransportFailure) and answer.disconnected
        if lost or (error is not None and error.name in ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE")):
            self.learn(coordinator_known=False)
            self.effects.append(effects.CoordinatorForgotten())
