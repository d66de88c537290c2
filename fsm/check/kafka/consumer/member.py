"""One consumer of KIP-848 as a component: `ConsumerMember` with its queues, and an application that polls and uses.

The state has no clock: a timer is running or expired, and its expiry is a choice. Everything else is the member's own
code. A callback may take any time.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fsm.check.kafka.application import (
    BROKER,
    CLOSE_NOW,
    CLOSE_OVER,
    CLOSES_EMPTY,
    ENDED,
    FAR,
    GOES_ON_AFTER,
    GROUP,
    INTERRUPTED,
    NOW,
    OTHERWISE,
    PASSES,
    RAISES,
    SUBSCRIBED,
    App,
    Driven,
    choices_of_application,
    choices_of_process,
    positions,
)
from fsm.check.kafka.consumer.shell import COMMITS_FIRST, JOINS_EMPTY, LEAVES, LEFT_FOR_GOOD, Consumer, Shell
from fsm.check.kafka.descriptions import describe_application
from fsm.check.kafka.looks import look_at_consumer
from fsm.check.kafka.topics import ANEW, ASKS, CLUSTER, RECREATED, Topics, mask
from fsm.check.model import Choice, Component, Missed, Received, Step, Undelivered
from fsm.member.consumer.decisions import list_recreated
from fsm.member.consumer.state import Member, new_member
from fsm.member.consumer.subscription import Ownership, SubscriptionType
from fsm.member.dialect.choices import Choice as Rule
from fsm.member.dialect.dialect import Dialect
from fsm.member.events import (
    ApplicationEvent,
    AsyncPollEvent,
    BackgroundEvent,
    TopicPatternSubscriptionChangeEvent,
    TopicRe2JPatternSubscriptionChangeEvent,
    TopicSubscriptionChangeEvent,
)
from fsm.protocol.assignment import Partitions, TopicNames, partitions
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.messages import (
    TIMED_OUT,
)
from fsm.protocol.topic_patterns import matches
from fsm.tables.consumer_member import TABLE, State

LIVES = 3
"""The maximum number of processes of one consumer, one after the other."""
EPOCHS = 1_000_000
"""A bound that no member epoch reaches."""
FIND, FOUND = "finds the coordinator", "found"
SILENT = (State.STALE, State.UNSUBSCRIBED, State.FATAL)


def id_of(name: str, life: int) -> str:
    """The member id of a process."""
    return f"{name}-{life}"


def in_its_life(epoch: int, life: int) -> int:
    """The member epoch, made distinct from those of other processes of the same consumer."""
    return epoch + life * EPOCHS if epoch > 0 else epoch


@dataclass(frozen=True)
class Setting:
    """The settings of the members of a model."""

    topics: tuple[str, ...]
    pattern: str = ""
    """A regular expression to subscribe to instead of topics; the coordinator resolves it."""
    client_pattern: str = ""
    """A regular expression that each client resolves."""
    static: bool = False
    commits: bool = False
    """Whether members commit automatically, before a revocation and when they close."""
    searches: bool = False
    """Whether finding the coordinator takes a request."""
    asks: bool = False
    """Whether a new process requests the metadata of its topics."""
    fewer: tuple[str, ...] = ()
    """The topics of a changed subscription; empty if subscriptions do not change."""
    kinds: Collection[str] = frozenset({"crash", "leave", "poll_timeout", "rejoin"})
    """The kinds of disturbances."""

    def config(
        self, name: str, max_poll_interval_ms: int, request_timeout_ms: int, auto_commit_interval_ms: int = 5_000
    ) -> ConsumerConfig:
        """The settings of the consumer of this name."""
        return ConsumerConfig(
            GROUP,
            client_id=name,
            group_instance_id=f"{name}-instance" if self.static else None,
            enable_auto_commit=self.commits,
            auto_commit_interval_ms=auto_commit_interval_ms,
            request_timeout_ms=request_timeout_ms,
            max_poll_interval_ms=max_poll_interval_ms,
        )

    def subscribe(self, what: str) -> ApplicationEvent:
        """The event of an application that subscribes, or changes its subscription."""
        if what == OTHERWISE:
            return TopicSubscriptionChangeEvent(self.fewer, listener=True)
        if self.pattern:
            return TopicRe2JPatternSubscriptionChangeEvent(self.pattern, listener=True)
        if self.client_pattern:
            return TopicPatternSubscriptionChangeEvent(self.client_pattern, listener=True)
        return TopicSubscriptionChangeEvent(self.topics, listener=True)

    def polls(self, using: Partitions) -> AsyncPollEvent:
        """The event of an application that polls."""
        return AsyncPollEvent(positions(using) if self.commits else ())


class MemberModel(ABC):
    """Makes the component of one consumer of either protocol."""

    def __init__(self, name: str, setting: Setting, known: Topics) -> None:
        self.name, self.setting, self.known = name, setting, known

    @abstractmethod
    def start(self, life: int) -> Any:
        """A process before its first step."""

    @abstractmethod
    def metadata(self, changes: Sequence[str]) -> Any:
        """What its client knows about topics after these changes."""

    def choices(self, consumer: Any) -> Iterable[Choice]:
        """The choices of its application, its timers and its process."""
        alive = () if consumer.app in ENDED else self.choices_alive(consumer)
        possible = (*alive, *choices_of_process(consumer.app, again=consumer.life + 1 < LIVES))
        return [one for one in possible if not one.disturbance or one.disturbance in self.setting.kinds]

    @abstractmethod
    def choices_alive(self, consumer: Any) -> Iterable[Choice]:
        """The choices of its application and its timers."""

    def begin(self, life: int) -> Step:
        """Starts its next process."""
        return Step(self.start(life), [(CLUSTER, ASKS)] if self.setting.asks else [], hangs_up=True)

    def step(self, consumer: Any, given: Any) -> Step:
        """The step on an input: the label of a choice, a response, or a request that failed."""
        if isinstance(given, str) and "starts again" in given:
            return self.begin(consumer.life + 1)
        if consumer.app in ENDED:
            return Step(consumer)
        if given == "is killed":
            return Step(self.start(consumer.life)._replace(app=App.DEAD), hangs_up=True)
        return self.take(consumer, given)

    @abstractmethod
    def take(self, consumer: Any, given: Any) -> Step:
        """The step of a running process."""

    def hand_in(self, shell: Driven, consumer: Any, given: Any) -> tuple[App, Partitions, BackgroundEvent | None]:
        """Passes an input to the shell; returns the application's state, its partitions and the running callback."""
        doing = consumer.app, consumer.using, consumer.calling
        match given:
            case "hangs in its callback":
                return App.HUNG, *doing[1:]
            case str():
                return shell.do(given, doing, self.setting.subscribe(given), self.setting.polls(consumer.using))
            case Received(sender=sender, message=changes) if sender == CLUSTER:
                shell.learn(self.metadata(changes), NOW)
            case Received(message=(order, _)) if order == FIND:
                shell.find_coordinator(NOW)
            case Received(message=(order, answer)):
                self.end_request(shell, consumer, order, answer)
            case Missed(message=(order, _)) | Undelivered(message=order) if order != FIND:
                self.end_request(shell, consumer, order, TIMED_OUT)
        return doing

    def end_request(self, shell: Driven, _consumer: Any, order: Any, answer: Any) -> None:
        """Ends a request with its response, or abandons it."""
        shell.receive_answer(order, answer, 0.0, NOW)


class ConsumerModel(MemberModel):
    """Makes the component of one consumer."""

    def __init__(self, name: str, setting: Setting, dialect: Dialect, known: Topics) -> None:
        super().__init__(name, setting, known)
        self.dialect = dialect
        self.new = self.start(0)

    def metadata(self, changes: Sequence[str]) -> TopicNames:
        return self.known.names(changes)

    def start(self, life: int) -> Consumer:
        config = self.setting.config(self.name, max_poll_interval_ms=4_000, request_timeout_ms=1_000)
        member = new_member(config, id_of(self.name, life), self.dialect, NOW)
        client = replace(member.client, coordinator_known=True, metadata=self.metadata(()))
        return Consumer(_timeless(replace(member, client=client)), life=life)

    def component(self) -> Component:
        """The component; its features have used partitions by topic name, and by the client's topic id (`uses`)."""
        bits = self.known.bits

        def list_fetchable(c: Consumer) -> Partitions:
            recreated = list_recreated(c.member)
            return tuple(p for p in c.using if p[0] not in recreated) if recreated else c.using

        def places(c: Consumer) -> Iterable[tuple[str, int]]:
            changes = (RECREATED,) if ANEW in c.member.client.metadata else ()
            return ((self.known.id_of(name, changes), number) for name, number in list_fetchable(c))

        features = {
            "life": lambda c: c.life,
            "epoch": lambda c: in_its_life(c.member.epoch, c.life),
            "using": lambda c: mask(list_fetchable(c), bits),
            "subscribed": lambda c: self.known.mask_topics(t for t, _ in bits if self._subscribes(c.member, t)),
            "uses": lambda c: mask(places(c), self.known.places),
            "begins": lambda c: 0 if c.member.run is None else mask(c.member.run.full, bits) & ~mask(c.using, bits),
            "omitted": lambda c: (1 << len(bits)) - 1 if c.member.sent is None else 0,
            "awaits": lambda c: _count_awaited(c.member),
            "ended": lambda c: c.app in (App.CRASHED, App.DEAD),
            "crashed": lambda c: c.app is App.CRASHED,
            "silent": lambda c: c.app is App.CLOSED or _is_silent(c),
            "wants": lambda c: c.app in SUBSCRIBED,
            "rests": self._rests,
        }
        return Component(
            self.name,
            self.new,
            self.choices,
            self.step,
            features,
            describe=describe,
            look=partial(look_at_consumer, names=self.known.all_names),
            role="member",
            tables=(TABLE,),
        )

    def _subscribes(self, member: Member, topic: str) -> bool:
        """Whether it subscribes to a topic, by name or by a pattern."""
        known = member.subscription
        match known.kind:
            case SubscriptionType.AUTO_TOPICS:
                return topic in known.topics
            case SubscriptionType.AUTO_PATTERN:
                return re.fullmatch(known.pattern or "", topic) is not None
            case SubscriptionType.AUTO_PATTERN_RE2J:
                return matches(known.regex or "", topic)
        return True

    def _may_change(self, app: App, member: Member) -> bool:
        """Whether its application may change its subscription now: it has to unsubscribe from a pattern first."""
        known, fewer = member.subscription, self.setting.fewer
        is_other = known.kind is not SubscriptionType.AUTO_TOPICS or known.topics != fewer
        return bool(fewer) and is_other and (app is not App.RUNNING or known.kind is SubscriptionType.AUTO_TOPICS)

    def _rests(self, consumer: Consumer) -> bool:
        """Whether the consumer is idle as far as it knows."""
        if consumer.app in (*ENDED, App.LEFT, App.IDLE):
            return True
        member = consumer.member
        if consumer.app is App.HUNG:
            return _is_silent(consumer)
        is_busy = consumer.events or consumer.calling or member.run or member.awaited
        is_stable = consumer.app is App.RUNNING and member.state is State.STABLE
        return is_stable and not is_busy and consumer.using == member.ownership.owned

    def choices_alive(self, consumer: Consumer) -> Iterable[Choice]:
        member, app = consumer.member, consumer.app
        changes, waits = self._may_change(app, member), bool(consumer.events)
        yield from choices_of_application(app, consumer.calling, consumer.using, waits=waits, otherwise=changes)
        if member.heartbeat_due_ms > NOW or member.heartbeat_ready_ms > NOW:
            yield Choice("heartbeat interval is over")
        if app is App.CLOSING and consumer.calling is None and not consumer.overdue:
            yield Choice(CLOSE_OVER, disturbance="close_timeout")
        if member.commit is not None and member.commit.request.ready_ms > NOW:
            yield Choice("backoff of its commit is over")
        if self.setting.commits and member.auto_commit.consumed and member.auto_commit.due_ms > NOW:
            yield Choice("auto-commit interval is over")
        is_timed = member.poll_due_ms > NOW and member.state is not State.UNSUBSCRIBED
        if is_timed and app in (*SUBSCRIBED, App.LEAVING, App.HUNG):
            yield Choice("poll timer runs out", disturbance="" if app is App.HUNG else "poll_timeout")

    def take(self, consumer: Consumer, given: Any) -> Step:
        overdue = consumer.overdue or given in (CLOSE_NOW, CLOSE_OVER)
        shell = Shell(_let_pass(consumer, given)._replace(overdue=overdue), searches=self.setting.searches)
        app, using, calling = self.hand_in(shell, consumer, given)
        shell.turn()
        raised = consumer.raised or given == RAISES
        if given in PASSES:
            calling, error = shell.take_events(app, interrupted=given == INTERRUPTED)
            shell.turn()
            if error and not raised and error not in GOES_ON_AFTER:
                app, using, calling = App.CRASHED, (), None
        app = shell.after_commit(app, is_member=shell.member.epoch > 0)
        if app is App.LEAVING and shell.member.leaving.calls is None and calling is None:
            app = App.LEFT
        if given == "heartbeat interval is over" and not shell.sent:  # noted if it makes a heartbeat due
            return Step(consumer)
        sent = [(BROKER, order) for order in shell.sent]
        if shell.closed:
            shell.broken += [] if shell.has_left else [LEAVES]
            shell.broken += [CLOSES_EMPTY] if using and calling is None else []
            return Step(self.start(consumer.life)._replace(app=App.CLOSED), sent, shell.broken)
        asked = consumer.searching and not ends_search(given)
        seeks = shell.searches and shell.seeks_coordinator
        sent += [(BROKER, FIND)] if seeks and not asked else []
        if calling is None and app is App.RUNNING and given in PASSES:
            using = partitions((*using, *shell.fetchable(checked=True)))
        if self.setting.fewer:
            using = list_fetched(shell.member, using)
        broken = [*shell.broken]
        if using and calling is None and app in SUBSCRIBED and joins_empty(shell.member):
            broken.append(JOINS_EMPTY)
        broken += [] if shell.has_committed or not owes_commit(consumer.member, given) else [COMMITS_FIRST]
        broken += [LEFT_FOR_GOOD] if app is App.LEFT and stays_subscribed(shell.member) else []
        after = Consumer(
            _timeless(shell.member),
            app,
            using,
            shell.waiting_events,
            calling,
            shell.assignment,
            shell.generation,
            consumer.life,
            raised and calling is not None,
            asked or seeks,
            shell.closing,
            overdue,
        )
        return Step(after, () if app is App.CRASHED else sent, broken, hangs_up=app is App.CRASHED)


def _count_awaited(member: Member) -> int:
    """How many answers the member waits for, before it sends another heartbeat or commit by itself."""
    commits = (member.commit is not None and member.commit.request.in_flight) + member.auto_commit.in_flight
    return member.heartbeat_in_flight + commits


def _is_silent(consumer: Consumer) -> bool:
    """Whether its member sends nothing more; one that is fenced joins again only when its callback is over."""
    return consumer.member.state in SILENT or (consumer.app is App.HUNG and consumer.member.state is State.FENCED)


def _let_pass(consumer: Consumer, given: Any) -> Consumer:
    """The consumer after a timer has run out, if the input is a timer."""
    member = consumer.member
    match given:
        case "heartbeat interval is over":
            member = replace(member, heartbeat_due_ms=NOW, heartbeat_ready_ms=NOW)
        case "poll timer runs out":
            member = replace(member, poll_due_ms=NOW)
        case "auto-commit interval is over":
            member = replace(member, auto_commit=replace(member.auto_commit, due_ms=NOW))
        case "backoff of its commit is over" if member.commit is not None:
            request = member.commit.request._replace(ready_ms=NOW)
            member = replace(member, commit=replace(member.commit, request=request))
    return consumer._replace(member=member)


def joins_empty(member: Member) -> bool:
    """Whether a member is joining and waited for the callbacks of its previous membership."""
    return member.state is State.JOINING and Rule.JOIN_AFTER_RELEASES in member.settings.choices


def owes_commit(member: Member, given: Any) -> bool:
    """Whether a member of a group closes that has consumed what it commits automatically."""
    consumed = {p for p, _ in member.auto_commit.consumed}
    may_commit = member.settings.config.enable_auto_commit and member.client.coordinator_known and member.epoch > 0
    return given == "closes" and may_commit and not consumed.isdisjoint(member.ownership.owned)


def stays_subscribed(member: Member) -> bool:
    """Whether a member whose last callback has ended subscribes to something."""
    return not member.awaited and member.subscription.kind.is_auto


def ends_search(given: Any) -> bool:
    """Whether an input ends the search for the coordinator, with success or not."""
    match given:
        case Received(message=(order, _)) | Missed(message=(order, _)) | Undelivered(message=order):
            return bool(order == FIND)
    return False


def list_fetched(member: Member, using: Partitions) -> Partitions:
    """The partitions of which an application still gets records: none of topics that it has unsubscribed from."""
    return Ownership(using).fetchable(member.subscription)


def _timeless(member: Member) -> Member:
    """The member with timers reduced to running or expired; its callers are numbered from 1."""
    calls, commit = member.leaving.calls, member.commit
    matches = member.subscription.kind is SubscriptionType.AUTO_PATTERN
    if commit is not None:
        request = commit.request
        request = request._replace(attempts=min(request.attempts, 1), ready_ms=_over_or_far(request.ready_ms))
        commit = replace(commit, deadline_ms=FAR, request=request)
    return replace(
        member,
        commit=commit,
        auto_commit=replace(member.auto_commit, due_ms=_over_or_far(member.auto_commit.due_ms)),
        poll_due_ms=_over_or_far(member.poll_due_ms),
        heartbeat_due_ms=_over_or_far(member.heartbeat_due_ms),
        heartbeat_ready_ms=_over_or_far(member.heartbeat_ready_ms),
        heartbeat_attempts=min(member.heartbeat_attempts, 1),
        client=replace(member.client, metadata_moved=member.client.metadata_moved and matches),
        leaving=replace(member.leaving, calls=calls and tuple(range(1, len(calls) + 1))),
    )


def _over_or_far(at_ms: int) -> int:
    return NOW if at_ms <= NOW else FAR


def describe(consumer: Consumer) -> str:
    """A consumer on one line."""
    member = consumer.member
    text = f"{member.state.name} at epoch {member.epoch}"
    return describe_application(text, consumer.app, consumer.using, consumer.calling)
