"""A member as it is embedded: conversations with a scripted coordinator, from the first poll to the end of close()."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from member_values import changed

from fsm.errors import LocalProtocolError, RemoteProtocolError
from fsm.member.consumer.decisions import maximum_time_to_wait_ms, may_collect
from fsm.member.effects import CallCompleted, Purpose, Transition, UnsentRequest
from fsm.member.events import (
    ApplicationEvent,
    AsyncPollEvent,
    GroupMembershipOperation,
    KafkaError,
    PartitionsAssignedEvent,
    TopicPatternSubscriptionChangeEvent,
    TopicRe2JPatternSubscriptionChangeEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.member.inputs import Answered, CoordinatorFound, CoordinatorLost, MetadataFailed, MetadataUpdated
from fsm.member.runtime.consumer_shell import ConsumerMember
from fsm.member.runtime.queues import KafkaException
from fsm.member.runtime.shell import PollResult
from fsm.member.timers import NEVER
from fsm.protocol.assignment import TopicNames, TopicPartition, topic_partitions
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    DISCONNECTED,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    commit_results,
    commit_topics,
)
from fsm.tables.consumer_member import State

T0, T1 = ("t", 0), ("t", 1)


class Listener:
    """An application's listener that remembers, and raises where it is told to."""

    def __init__(self, raises: str = "") -> None:
        self.raises, self.called = raises, list[tuple[str, tuple[TopicPartition, ...]]]()

    def on_partitions_assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._note("assigned", partitions)

    def on_partitions_revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._note("revoked", partitions)

    def on_partitions_lost(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._note("lost", partitions)

    def _note(self, method: str, partitions: tuple[TopicPartition, ...]) -> None:
        self.called.append((method, partitions))
        if self.raises == method:
            raise ValueError("no")


class Conversation:
    """A member, its application and a coordinator that says what the test says."""

    def __init__(self, *, listener: Listener | None = None, dialect: str = "4.4.0", **settings: object) -> None:
        config = ConsumerConfig("g", **settings)  # type: ignore[arg-type]
        self.member = ConsumerMember(config, member_id="M", now_ms=0, dialect=dialect)
        self.listener, self.now_ms = listener, 0
        self.sent: list[UnsentRequest] = []
        self.went: list[str] = []
        self.completed: list[CallCompleted] = []
        self.result: PollResult = self.turn()
        self.member.receive(CoordinatorFound(), 0)
        self.member.receive(MetadataUpdated(TopicNames({"T": "t"})), 0)

    def turn(self, after_ms: int = 0) -> PollResult:
        self.now_ms += after_ms
        self.result = self.member.poll(self.now_ms)
        self.sent += self.result.unsent_requests
        self.went += [n.target.name for n in self.result.notices if isinstance(n, Transition)]
        self.completed += self.result.completed_calls
        return self.result

    def submit(self, event: ApplicationEvent) -> int:
        call = self.member.submit(event)
        self.turn()
        return call

    def poll(self, *consumed: tuple[TopicPartition, int]) -> None:
        """The application's poll(): its event, the loop, callbacks, the loop again."""
        self.submit(AsyncPollEvent(consumed=consumed))
        self.member.run_callbacks(self.listener, self.now_ms)
        self.turn()

    def subscribe(self) -> None:
        self.submit(TopicSubscriptionChangeEvent(("t",), self.listener is not None))
        self.poll()

    def answers(self, epoch: int, *numbers: int) -> None:
        target = topic_partitions({"T": numbers})
        self.hears(ConsumerGroupHeartbeatResponse(epoch, 1_000, target))

    def hears(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self.member.receive(Answered(self.sent[-1], response), self.now_ms)
        self.turn()

    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        body = self.sent[-1].body
        assert isinstance(body, ConsumerGroupHeartbeatRequest)
        return body

    @property
    def state(self) -> State:
        return self.member.member.state

    def joined(self, *numbers: int) -> Conversation:
        self.subscribe()
        self.answers(1, *numbers)
        self.poll()
        self.turn()
        self.hears(ConsumerGroupHeartbeatResponse(1, 1_000))
        assert self.state is State.STABLE
        return self


def test_a_whole_life() -> None:
    """Joins, is given partitions, gives one back after a commit, is fenced, joins again, and leaves at close."""
    life = Conversation(listener=Listener()).joined(0, 1)
    assert life.heartbeat().topic_partitions == (("T", (0, 1)),)
    life.turn(after_ms=1_000)
    life.answers(1, 0)
    life.poll((T0, 7), (T1, 9))
    commit = life.sent[-1]
    assert commit.purpose is Purpose.RUN_COMMIT
    assert commit.body == OffsetCommitRequest("g", 1, "M", topics=commit_topics(((T0, 7), (T1, 9))))
    assert life.member.fetchable(checked=True) == (T0,)
    life.member.receive(Answered(commit, OffsetCommitResponse()), life.now_ms)
    life.poll()
    life.poll()
    assert life.heartbeat().topic_partitions == (("T", (0,)),)
    life.hears(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH))
    assert life.state is State.FENCED
    life.poll()
    assert (life.state, life.heartbeat().member_epoch) == (State.JOINING, 0)
    life.answers(5, 1)
    life.poll()
    life.turn()
    life.hears(ConsumerGroupHeartbeatResponse(5, 1_000))
    life.member.close(life.now_ms)
    life.turn()
    life.member.run_callbacks(life.listener, life.now_ms)
    life.turn()
    assert life.heartbeat().member_epoch == -1
    life.hears(ConsumerGroupHeartbeatResponse(-1, 0))
    assert life.member.closed
    assert life.listener is not None
    assert life.listener.called == [
        ("assigned", (T0, T1)), ("revoked", (T1,)), ("assigned", ()), ("lost", (T0,)), ("assigned", (T1,)),
        ("revoked", (T1,)),
    ]  # fmt: skip
    assert life.went == [
        "JOINING", "RECONCILING", "ACKNOWLEDGING", "STABLE", "RECONCILING", "ACKNOWLEDGING", "STABLE", "FENCED",
        "JOINING", "RECONCILING", "ACKNOWLEDGING", "STABLE", "PREPARE_LEAVING", "LEAVING", "UNSUBSCRIBED",
    ]  # fmt: skip


def test_commit_before_a_run_is_tried_again_with_the_newest_epoch() -> None:
    """A stale epoch is refreshed after a backoff, with the positions of then; a deleted topic ends it at once."""
    life = Conversation().joined(0, 1)
    life.turn(after_ms=1_000)
    life.answers(1, 0)
    life.poll((T0, 7))
    commit = life.sent[-1]
    stale = OffsetCommitResponse(commit_results(((T0, ErrorCode.STALE_MEMBER_EPOCH),)))
    life.turn(after_ms=1_000)
    life.hears(ConsumerGroupHeartbeatResponse(2, 1_000))
    life.member.receive(Answered(commit, stale), life.now_ms)
    life.turn(after_ms=99)
    assert life.sent[-1].purpose is Purpose.HEARTBEAT
    life.poll((T0, 8))
    life.turn(after_ms=1)
    assert life.sent[-1].body == OffsetCommitRequest("g", 2, "M", topics=commit_topics(((T0, 8),)))
    gone = OffsetCommitResponse(commit_results(((T0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),)))
    life.member.receive(Answered(life.sent[-1], gone), life.now_ms)
    assert isinstance(life.member.next_background_event(), PartitionsAssignedEvent)


def test_commit_before_a_run_ends_at_its_deadline() -> None:
    """What cannot be committed within the rebalance timeout holds the rebalance up no longer."""
    life = Conversation(max_poll_interval_ms=3_000).joined(0, 1)
    life.turn(after_ms=1_000)
    life.answers(1, 0)
    life.poll((T0, 7))
    commit = life.sent[-1]
    life.now_ms += 2_900
    life.poll((T0, 7))
    life.member.receive(Answered(commit, DISCONNECTED), life.now_ms)
    life.turn(after_ms=50)
    assert life.member.member.commit is not None
    life.poll()
    life.turn(after_ms=50)
    assert life.member.member.commit is None
    assert isinstance(life.member.next_background_event(), PartitionsAssignedEvent)


def test_interval_commit_asks_for_no_more_than_one_answer() -> None:
    """The automatic commit goes out when its interval is over, and waits for its answer."""
    life = Conversation().joined(0)
    life.now_ms = 6_000
    life.poll((T0, 3))
    assert (life.sent[-2].purpose, life.sent[-1].purpose) == (Purpose.INTERVAL_COMMIT, Purpose.HEARTBEAT)
    life.now_ms = 12_000
    life.poll((T0, 4))
    assert sum(s.purpose is Purpose.INTERVAL_COMMIT for s in life.sent) == 1


def test_deadlines_tell_when_to_come_back() -> None:
    """At once when something is due, else when the heartbeat is, else at the poll timer or never."""
    life = Conversation()
    assert life.result.time_until_next_poll_ms == NEVER
    life.joined(0)
    assert life.turn().time_until_next_poll_ms == 1_000
    life.turn(after_ms=1_000)
    assert life.turn().time_until_next_poll_ms == 300_000 - 1_000
    life.hears(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert life.result.time_until_next_poll_ms == 100


def test_application_waits_no_longer_than_the_heartbeat() -> None:
    """Half the poll timer or the next heartbeat; for ever when out of the group, an interval when nobody is known."""
    life = Conversation()
    assert maximum_time_to_wait_ms(life.member.member, 0) == NEVER
    life.joined(0)
    member = life.member.member
    assert maximum_time_to_wait_ms(member, 0) == 1_000
    assert maximum_time_to_wait_ms(member, 300_000) == 0
    assert maximum_time_to_wait_ms(changed(member, coordinator_known=False), 0) == 1_000
    assert maximum_time_to_wait_ms(changed(member, state=State.ACKNOWLEDGING), 0) == 0
    overdue = changed(member, heartbeat_in_flight=True, heartbeat_due_ms=0, heartbeat_ready_ms=40)
    assert (maximum_time_to_wait_ms(overdue, 30), maximum_time_to_wait_ms(overdue, 50)) == (10, 0)


def test_records_wait_for_the_check_of_a_reconciliation() -> None:
    """While a reconciliation may be about to revoke, nothing is handed out before its check; 4.3.0 has no such gate."""
    reconciling = changed(Conversation().joined(0).member.member, state=State.RECONCILING)
    assert not may_collect(reconciling, checked=False)
    assert may_collect(reconciling, checked=True)
    older = changed(Conversation(dialect="4.3.0").joined(0).member.member, state=State.RECONCILING)
    assert may_collect(older, checked=False)


def test_forgotten_coordinator_is_asked_for() -> None:
    """A wrong coordinator is to be found again; until then nothing is sent, then at once."""
    life = Conversation().joined(0)
    life.turn(after_ms=1_000)
    life.hears(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR))
    assert life.result.coordinator_needed
    count = len(life.sent)
    life.turn(after_ms=5_000)
    assert len(life.sent) == count
    life.member.receive(CoordinatorFound(), life.now_ms)
    life.turn()
    assert life.heartbeat().topic_partitions == (("T", (0,)),)


def test_error_of_the_search_reaches_the_application_once() -> None:
    """A fatal error of FindCoordinator is thrown from a poll and changes no state."""
    life = Conversation().joined(0)
    life.member.receive(CoordinatorLost(KafkaError("GROUP_AUTHORIZATION_FAILED")), life.now_ms)
    life.turn()
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
        life.member.run_callbacks(None, life.now_ms)
    life.turn()
    assert life.member.next_background_event() is None
    assert life.state is State.STABLE


def test_metadata_error_fails_a_poll_whole() -> None:
    """The poll does nothing but fail."""
    life = Conversation()
    life.submit(TopicSubscriptionChangeEvent(("t",)))
    life.member.receive(MetadataFailed(KafkaError("INVALID_TOPIC_EXCEPTION")), 0)
    call = life.submit(AsyncPollEvent())
    assert life.completed[-1] == CallCompleted(call, KafkaError("INVALID_TOPIC_EXCEPTION"))
    assert life.state is State.UNSUBSCRIBED


def test_pattern_follows_the_metadata() -> None:
    """The client's pattern is matched when it is given, and at a poll after the topics have changed."""
    life = Conversation()
    life.submit(TopicPatternSubscriptionChangeEvent("t.*"))
    life.poll()
    assert life.heartbeat().subscribed_topic_names == ("t",)
    life.answers(1, 0)
    life.member.receive(MetadataUpdated(TopicNames({"T": "t", "U": "t2", "V": "other"})), 0)
    life.poll()
    assert life.heartbeat().subscribed_topic_names == ("t", "t2")


def test_ways_to_subscribe_exclude_each_other() -> None:
    """A pattern beside topics fails its call and changes nothing."""
    life = Conversation().joined(0)
    call = life.submit(TopicRe2JPatternSubscriptionChangeEvent("t.*"))
    failed = life.completed[-1]
    assert (failed.call, failed.error and failed.error.name) == (call, "IllegalStateException")
    assert life.member.member.subscription.regex is None


def test_unsubscribe_returns_when_the_leave_is_answered() -> None:
    """Two callers of unsubscribe() wait for one leave."""
    life = Conversation(listener=Listener()).joined(0)
    calls = [life.submit(UnsubscribeEvent()), life.submit(UnsubscribeEvent())]
    life.member.run_callbacks(life.listener, life.now_ms, unsubscribing=True)
    life.turn()
    assert life.heartbeat().subscribed_topic_names == ()
    life.hears(ConsumerGroupHeartbeatResponse(-1, 0))
    assert [c.call for c in life.completed[-2:]] == calls
    assert life.member.generation == -1


def test_overdue_call_fails_while_the_leave_goes_on() -> None:
    """unsubscribe() that waits too long returns with an error; the answer that comes later finds nobody."""
    life = Conversation().joined(0)
    call = life.member.submit(UnsubscribeEvent(), deadline_ms=50)
    life.turn()
    life.turn(after_ms=60)
    assert life.completed[-1].call == call
    assert life.completed[-1].error is not None
    count = len(life.completed)
    life.hears(ConsumerGroupHeartbeatResponse(-1, 0))
    assert (len(life.completed), life.member.member.leaving.calls) == (count, None)


def test_close_commits_calls_back_and_leaves_in_this_order() -> None:
    """Nothing of a close() begins before the step ahead of it has ended."""
    life = Conversation(listener=Listener()).joined(0)
    life.poll((T0, 4))
    life.member.close(life.now_ms)
    life.turn()
    commit = life.sent[-1]
    assert (commit.purpose, life.member.next_background_event()) == (Purpose.CALL_COMMIT, None)
    life.member.receive(Answered(commit, OffsetCommitResponse()), life.now_ms)
    life.turn()
    assert life.state is State.STABLE
    life.member.run_callbacks(life.listener, life.now_ms)
    life.turn()
    assert life.heartbeat().member_epoch == -1
    assert not life.member.closed
    life.hears(ConsumerGroupHeartbeatResponse(-1, 0))
    assert life.member.closed


def test_close_without_time_leaves_all_the_same() -> None:
    """A timeout of 0 waits for nothing but the callback; the leave is among the requests of the last turn."""
    life = Conversation(listener=Listener()).joined(0)
    life.member.close(life.now_ms, timeout_ms=0)
    life.turn()
    assert not life.member.closed
    life.member.run_callbacks(life.listener, life.now_ms)
    life.turn()
    assert (life.member.closed, life.heartbeat().member_epoch) == (True, -1)


def test_close_in_the_middle_of_a_callback_fails_the_run() -> None:
    """A callback still awaited at the end of close() has failed, and its run with it."""
    life = Conversation(listener=Listener()).joined(0, 1)
    life.turn(after_ms=1_000)
    life.answers(1, 0)
    life.submit(AsyncPollEvent())
    assert life.member.member.run is not None
    life.member.close(life.now_ms, timeout_ms=0)
    life.turn()
    life.member.run_callbacks(life.listener, life.now_ms)
    life.turn()
    assert (life.member.member.run, life.member.member.awaited) == (None, ())


def test_close_twice_is_closing_once() -> None:
    """The second close() changes nothing; a closed consumer takes no more events."""
    life = Conversation().joined(0)
    life.member.close(life.now_ms)
    life.member.close(life.now_ms)
    life.turn()
    life.hears(ConsumerGroupHeartbeatResponse(-1, 0))
    life.turn()
    assert sum(s.purpose is Purpose.HEARTBEAT and s.body.member_epoch == -1 for s in life.sent) == 1  # type: ignore[union-attr]
    life.member.close(life.now_ms)
    with pytest.raises(LocalProtocolError, match="closed"):
        life.member.submit(AsyncPollEvent())


@pytest.mark.parametrize(
    ("operation", "epoch"),
    [
        (GroupMembershipOperation.DEFAULT, -2),
        (GroupMembershipOperation.LEAVE_GROUP, -1),
        (GroupMembershipOperation.REMAIN_IN_GROUP, -2),
    ],
)
def test_static_member_keeps_its_place_unless_told(operation: GroupMembershipOperation, epoch: int) -> None:
    """Its leave carries -2, and -1 only where it is to leave for good; its instance id is in every heartbeat."""
    life = Conversation(group_instance_id="i").joined(0)
    life.member.close(life.now_ms, operation=operation)
    life.turn()
    assert (life.heartbeat().member_epoch, life.heartbeat().instance_id) == (epoch, "i")
    assert {s.body.instance_id for s in life.sent if s.purpose is Purpose.HEARTBEAT} == {"i"}  # type: ignore[union-attr]


def test_listener_that_raises_is_told_to_the_application() -> None:
    """The first error of a pass is raised after the whole pass."""
    life = Conversation(listener=Listener(raises="assigned"))
    life.subscribe()
    life.answers(1, 0)
    with pytest.raises(KafkaException, match="the rebalance listener raised: no"):
        life.poll()
    assert life.member.assignment == (T0,)


def test_expired_member_rejoins_at_its_next_poll() -> None:
    """It leaves when the poll timer runs out, and joins when a poll has come and the lost callback has ended."""
    life = Conversation(listener=Listener(), max_poll_interval_ms=5_000).joined(0)
    life.turn(after_ms=5_000)
    assert (life.state, life.sent[-1].purpose) == (State.STALE, Purpose.UNWATCHED)
    life.hears(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert life.state is State.STALE
    life.poll()
    assert life.went[-4:] == ["PREPARE_LEAVING", "LEAVING", "STALE", "JOINING"]
    assert life.heartbeat().rebalance_timeout_ms == 5_000


def test_answer_that_answers_nothing_is_refused() -> None:
    """A commit's answer to a heartbeat is the peer's error; the member is as it was."""
    life = Conversation().joined(0)
    life.turn(after_ms=1_000)
    before = life.member.member
    with pytest.raises(RemoteProtocolError, match="OffsetCommitResponse does not answer ConsumerGroupHeartbeatRequest"):
        life.member.receive(Answered(life.sent[-1], OffsetCommitResponse()), life.now_ms)
    assert life.member.member == before


def test_two_members_of_one_kind_share_nothing() -> None:
    """What happens to one changes nothing of another."""
    one, other = Conversation(), Conversation()
    one.joined(0)
    assert (one.state, other.state) == (State.STABLE, State.UNSUBSCRIBED)
    assert hash(one.member.member) != hash(other.member.member)


def test_an_idle_heartbeat_passes_few_functions() -> None:
    """From the application's poll in the queue to the answer taken in: a reader can follow all of it."""
    path = Path(__file__).parents[1] / "bench" / "member.py"
    spec = importlib.util.spec_from_file_location("bench_member", path)
    assert spec is not None
    assert spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    assert 20 < len(bench.passed()) <= 30
