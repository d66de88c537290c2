"""The coordinator of a consumer group as a component.

Like the members it has no clock: a timer is running or expired, and its expiry is a choice. Another broker may take
over: from the log, at another address, which the members have to find, or without the last request, whose response no
member has received. It may take any time to load the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from fsm.check.kafka.application import BROKER, FAR, GROUP, NOW
from fsm.check.kafka.consumer.compaction import (
    FROM_CLEANED,
    FROM_COMPACTED,
    SAYS_THE_SAME,
    TELLS,
    Log,
    append,
    list_loaded,
    say_the_same,
    tell,
    tell_offsets,
)
from fsm.check.kafka.consumer.member import FIND, FOUND, LIVES, id_of, in_its_life
from fsm.check.kafka.descriptions import list_partitions, list_present
from fsm.check.kafka.looks import OF_CONSUMERS, look_at_group
from fsm.check.kafka.standing import OF_STANDING
from fsm.check.kafka.standing import find_broken as find_outcasts
from fsm.check.kafka.targets import EVEN, STICKY, ask_target
from fsm.check.kafka.topics import CLUSTER, Topics, mask
from fsm.check.model import Choice, Component, Look, Missed, Received, Step
from fsm.coordinator import coordinator as broker
from fsm.coordinator.consumer.invariants import Moment, find_broken
from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.model.consumer_group import ConsumerGroup, CurrentAssignment
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice as Rule
from fsm.coordinator.model.groups import NO_GROUPS, Group
from fsm.coordinator.model.step import Answer, Request, ResponseBody
from fsm.coordinator.model.step import Step as CoordinatorStep
from fsm.coordinator.model.timers import Deadlines, TimerKind
from fsm.coordinator.storage.load import load
from fsm.protocol.assignment import NO_TOPIC_ID, TopicNames
from fsm.protocol.codec import API_OF
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    TIMED_OUT,
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from fsm.table import Table

OLD = NOW - 10_000_000_000
RESOLVED_BEFORE = NOW - 20_000
"""The time at which a regular expression was resolved that may be refreshed."""
BY_NAME = 9
"""The last version of OffsetCommit with topic names."""
FAILS_OVER, MOVES = "fails over", "moves"
TAKES_OVER = (FAILS_OVER, MOVES, FROM_COMPACTED, FROM_CLEANED)
"""The choices after which another broker is the coordinator."""
LOADED = "has loaded its log"
TIMERS = {
    TimerKind.SESSION: ("expire", "session of {} expires"),
    TimerKind.REBALANCE: ("rebalance_timeout", "rebalance timeout of {} is over"),
    TimerKind.JOIN: ("rebalance_timeout", "time for {} to join is over"),
    TimerKind.SYNC: ("rebalance_timeout", "time for {} to sync is over"),
}
"""The kind of disturbance of each timer when it expires, and its description."""
VALID = "requests are valid"
INVALID = frozenset({ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNKNOWN_SERVER_ERROR})
FORMER_OWNER, OWNER = "a commit of a former owner is refused", "a commit of an owner is accepted"
SUBSCRIBED = "no heartbeat assigns an unsubscribed topic"
ASKED_OF_REQUESTS = (VALID, FORMER_OWNER, OWNER, SUBSCRIBED, TELLS, EVEN, STICKY, *OF_STANDING)


class Broker(NamedTuple):
    """The coordinator between two steps."""

    state: Coordinator = Coordinator()
    elsewhere: frozenset[str] = frozenset()
    """Members that still send requests to the former coordinator's broker."""
    loading: bool = False
    """Whether it still loads its log, and handles no request; the state is what it loads."""
    topics: tuple[str, ...] = ()
    """The changes of topics that it knows."""
    records: Log = ()
    """Its compacted log; empty unless the model has compaction."""
    log: Coordinator = Coordinator()
    """What the log has of a classic group."""
    made: tuple[tuple[str, int], ...] = ()
    """How many member ids each client of the classic protocol was given."""


class CoordinatorModel:
    """Makes the component of the coordinator."""

    lost: Any = TIMED_OUT
    """The end of a request that is lost with its broker."""
    tables: Sequence[Table] = OF_CONSUMERS

    def __init__(
        self,
        names: Sequence[str],
        known: Topics,
        context: Context,
        *,
        moves: bool = False,
        compacts: bool = False,
        loads: bool = False,
    ) -> None:
        """`moves` lets it change its broker; `compacts` lets its log be compacted; if it `loads`, that takes time."""
        self.names, self.known, self.context = names, known, context
        self.moves, self.compacts, self.loads = moves, compacts, loads
        self.has_interval = context.config.assignment_interval_ms(GROUP) > 0

    def component(self) -> Component:
        return Component(
            BROKER,
            Broker(),
            self.choices,
            self.step,
            self.features(),
            sort=lambda at: at._replace(state=self.timeless(at.state, has_interval=self.has_interval)),
            describe=self.describe,
            look=self.look,
            role="coordinator",
            tables=self.tables,
        )

    def features(self) -> dict[str, Any]:
        """The membership, epochs, held and assigned partitions of each member.

        Partitions it `holds` are counted by topic id, all others by name: a recreated topic has had two ids.
        """
        features: dict[str, Any] = {"rests": rests}
        for name in self.names:
            for feature in ("member", "life", "epoch", "previous", "held", "holds", "assigned", "subscribed"):
                features[f"{feature} {name}"] = partial(self._feature, name, feature)
        return features

    def _feature(self, name: str, feature: str, at: Broker) -> int:
        """A feature of the latest process that is a member."""
        group = consumer_group_of(at.state)
        lives = [] if group is None else [life for life in range(LIVES) if id_of(name, life) in group.members]
        if group is None or not lives:
            return {"epoch": -9, "previous": -9}.get(feature, 0)
        member = group.members[id_of(name, lives[-1])]
        match feature:
            case "member":
                return 1
            case "life":
                return lives[-1]
            case "epoch" | "previous":
                return in_its_life(self.feature_of(member.current, feature), lives[-1])
            case "holds":
                return mask(member.current.held, self.known.places)
            case "subscribed":
                return self.known.mask_topics(group.names_of(member))
        return self.feature_of(member.current, feature)

    def feature_of(self, current: CurrentAssignment, feature: str) -> int:
        """An epoch of a member, or partitions of it by name."""
        match feature:
            case "epoch":
                return current.epoch
            case "previous":
                return current.previous_epoch
        found = current.held if feature in ("held", "holds") else (one for one, _ in current.assigned)
        return mask(found, self.known.ids)

    def context_of(self, at: Broker) -> Context:
        """Its context, with the topics that it knows."""
        return replace(self.context, image=self.known.image(at.topics)) if at.topics else self.context

    def choices(self, at: Broker) -> Iterable[Choice]:
        """The choices: timers expire, tasks end, and another broker takes over and loads its log."""
        yield from [Choice(LOADED)] if at.loading else self.choices_of_group(at)
        if GROUP in at.state.groups or GROUP in at.log.groups:
            yield from choices_of_failover(moves=self.moves, compacts=self.compacts)

    def choices_of_group(self, at: Broker) -> Iterable[Choice]:
        """The choices of a coordinator that has loaded its log: timers expire, and tasks end."""
        group = consumer_group_of(at.state)
        if group is not None:
            for (kind, who), _, epoch in group.timers.in_order():
                member = group.members.by_id.get(who)  # None if another one took its place
                if member is not None and (kind is not TimerKind.REBALANCE or member.epoch == epoch):
                    disturbance, text = TIMERS[kind]
                    yield Choice(text.format(self.shorten(who)), (kind, who), disturbance, self.excuse(kind, who))
            yield from choices_of_tasks(group)

    def shorten(self, who: str) -> str:
        """A member id in a text."""
        return who.removesuffix("-0")

    def excuse(self, kind: TimerKind, who: str) -> str:
        """The condition under which a member's timer expires without a disturbance."""
        return f"{who} is silent" if kind is TimerKind.SESSION else ""

    def step(self, at: Broker, given: Any) -> Step:
        """The step on an input: a request, a timer that expires, a task that ends, an update of metadata, or a
        failover.
        """
        match given:
            case Received(sender, topics) if sender == CLUSTER:
                after = at._replace(topics=topics)
                changed = broker.change_image(at.state, self.context_of(at).image, self.context_of(after))
                return self.make_step(at, CoordinatorStep(changed), after)
            case Received() if (answered := answer_for_group(at, given, self.context_of(at))) is not None:
                return answered
            case Received():
                return self.handle(at, given)
            case Missed(sender, order):  # it was handled, but is lost with its broker
                return self._take_over(at, sends=[(sender, (order, FOUND if order == FIND else self.lost))])
            case str() if given in TAKES_OVER:
                return self._take_over(at, given)
            case str() if given == LOADED:
                return Step(at._replace(loading=False))
        return self.act(at, given)

    def _take_over(self, at: Broker, how: str = FAILS_OVER, sends: Sequence[tuple[str, Any]] = ()) -> Step:
        """The step to another broker, which loads the log."""
        context = self.context_of(at)
        loaded, broken = load(self.find_stored(at), context), list[str]()
        if how in (FROM_COMPACTED, FROM_CLEANED):
            read = list_loaded(at.records, how, context)
            wanted, *found = (self.timeless(one, has_interval=False).groups.get(GROUP) for one in (loaded.state, *read))
            broken = [] if all(say_the_same(wanted, one) for one in found) else [SAYS_THE_SAME]
            loaded = CoordinatorStep(read[0])
        step = self.adopt(at, loaded, how)
        after = step.state._replace(loading=self.loads)
        after = after._replace(elsewhere=frozenset(self.names)) if how == MOVES else after
        return Step(after, [*step.sends, *sends], [*broken, *step.broken])

    def find_stored(self, at: Broker) -> Coordinator:
        """What the log has."""
        return at.state

    def adopt(self, at: Broker, loaded: CoordinatorStep[Coordinator], how: str) -> Step:
        """The step of another broker that has loaded its state."""
        step = self.make_step(at, loaded, is_told=how not in (FROM_COMPACTED, FROM_CLEANED))
        return step._replace(broken=[*step.broken, *self._ask_standing(at, loaded, None)])

    def act(self, at: Broker, given: Any) -> Step:
        """The step of a timer that expires, or of a task that ends."""
        done = self.let_pass(at, given)
        step = self.make_step(at, done)
        return step._replace(broken=[*step.broken, *self._ask_standing(at, done, given)])

    def let_pass(self, at: Broker, given: Any) -> CoordinatorStep[Coordinator]:
        """The coordinator's own step: a timer (kind and member) expires, or a task ends."""
        if isinstance(given, str):
            return end_task(at.state, given, self.context_of(at))
        due = run_out(at.state.groups.get(GROUP), given, NOW)
        return broker.handle_timer(at.state.with_group(due), self.context_of(at))

    def handle(self, at: Broker, given: Received) -> Step:
        """The step on a request to the coordinator."""
        sender, order, late = given
        context = self.context_of(at)
        done = broker.handle(at.state, request(0, sender, order, context), context)
        answers = [] if late else [(sender, (order, answer.body)) for answer in done.answers]
        answer = done.answers[0] if done.answers else None
        asked = []
        if isinstance(order.body, OffsetCommitRequest):
            asked = _ask_commit(at.state, order.body, answer, context)
        sent = order.body if isinstance(order.body, ConsumerGroupHeartbeatRequest) else None
        if sent is not None and Rule.SUBSCRIPTION_FILTERS_TARGET in context.dialect:
            asked = _ask_subscription(done.state, sent, self.known.all_names)
        step = self.make_step(at, done, sent=sent, answer=answer)
        return Step(step.state, answers, [*step.broken, *asked, *self._ask_standing(at, done, order.body)])

    def _ask_standing(self, at: Broker, done: CoordinatorStep[Coordinator], given: Any) -> Iterator[str]:
        """The invariants of the standing of members that a request or a timer breaks."""
        groups = consumer_group_of(at.state), consumer_group_of(done.state)
        return find_outcasts(*groups, given, done.answers, self.context_of(at))

    def make_step(
        self,
        before: Broker,
        done: CoordinatorStep[Coordinator],
        around: Broker | None = None,
        *,
        sent: ConsumerGroupHeartbeatRequest | None = None,
        answer: Answer | None = None,
        is_told: bool = True,
    ) -> Step:
        """Makes a step and checks the coordinator's invariants; `around` has what changes besides the coordinator.

        Another broker's state from a log is not told by records.
        """
        around, asked = around or before, list[str]()
        group, context = consumer_group_of(done.state), self.context_of(around)
        if group is not None:
            was = consumer_group_of(before.state)
            same = around.topics == before.topics
            asked = find_broken(Moment(was, group, context, sent, answer), held_before=same)
            if done.happened and is_told and not tell(before.state, done, GROUP, context.dialect):
                asked.append(TELLS)
            asked += ask_target(was, group, context)
        if is_told and not tell_offsets(done, context.dialect):
            asked.append(TELLS)
        if getattr(answer and answer.body, "error_code", None) in INVALID:
            asked = [VALID, *asked]
        return Step(self.note(around, done), broken=asked)

    def note(self, at: Broker, done: CoordinatorStep[Coordinator]) -> Broker:
        """The coordinator after a step, without time."""
        records = append(at.records, done.records) if self.compacts else ()
        return at._replace(state=self.timeless(done.state, has_interval=self.has_interval), records=records)

    def timeless(self, state: Coordinator, *, has_interval: bool) -> Coordinator:
        """The coordinator with its timers in a fixed order, and without instants."""
        group = consumer_group_of(state)
        groups = NO_GROUPS if group is None else NO_GROUPS.set(timeless(group, has_interval=has_interval))
        return Coordinator(groups, topics_added_version=state.topics_added_version)

    def look(self, at: Broker) -> Look:
        """The group and its topics in detail."""
        found = look_at_group(consumer_group_of(at.state), self.known.all_names)
        moved = ("not told that it moved", ", ".join(sorted(at.elsewhere)))
        loads = ("log", "is being loaded" if at.loading else "")
        topics = ("topics", self.known.describe(at.topics) if self.known.change else "")
        return found._replace(fields=list_present((*found.fields, moved, loads, topics)))

    def describe(self, at: Broker) -> str:
        """The group on one line."""
        group = consumer_group_of(at.state)
        if group is None:
            return "no group"
        away = f"; {', '.join(sorted(at.elsewhere))} not told that it moved" if at.elsewhere else ""
        return self.describe_group(group, group.members) + away + ("; still loads" if at.loading else "")

    def describe_group(self, group: ConsumerGroup, members: Iterable[str]) -> str:
        """A consumer group and these members of it."""
        texts = [f"{group.state.name}, epoch {group.epoch}, target {group.target_epoch}"]
        for who in members:
            current = group.members[who].current
            held, pending = (self._partitions(one for one, _ in some) for some in (current.assigned, current.pending))
            gives_up = f", to give up {pending}" if current.pending else ""
            texts.append(f"{self.shorten(who)} {current.state.name} at {current.epoch}: {held}{gives_up}")
        return "; ".join(texts)

    def _partitions(self, found: Iterable[tuple[str, int]]) -> str:
        return list_partitions((self.known.all_names[topic_id], number) for topic_id, number in sorted(found))


def choices_of_failover(*, moves: bool, compacts: bool) -> Iterable[Choice]:
    """The choices after which another broker is the coordinator."""
    yield Choice(FAILS_OVER, disturbance="failover")
    if compacts:
        yield Choice(FROM_COMPACTED, disturbance="failover_compacted")
        yield Choice(FROM_CLEANED, disturbance="failover_compacted")
    if moves:
        yield Choice(MOVES, disturbance="move")


RESOLVED, INTERVAL_OVER = "has resolved its regular expressions", "assignment interval is over"


def choices_of_tasks(group: ConsumerGroup) -> Iterable[Choice]:
    """The choices of a coordinator's background tasks."""
    if group.target_time_ms == NOW:
        yield Choice(INTERVAL_OVER)
    if group.resolution is not None:
        yield Choice(RESOLVED)
    if any(one.timestamp == NOW for one in group.regexes.values()):
        yield Choice("may resolve its regular expressions anew")


def request(token: Any, sender: str, order: Any, context: Context, fresh_id: str = "") -> Request:
    """A request as the coordinator receives it; the sender may get `fresh_id` as member id."""
    return Request(token, sender, "/127.0.0.1", version_of(order.body, context), order.body, fresh_id)


def version_of(body: Any, context: Context) -> int:
    """The newest version of a request, but of a commit that names no topic ids, or whose broker knows none."""
    if isinstance(body, OffsetCommitRequest):
        has_ids = all(topic.topic_id != NO_TOPIC_ID for topic in body.topics)
        if not has_ids or Rule.OFFSET_COMMIT_HAS_TOPIC_ID not in context.dialect:
            return BY_NAME
    return API_OF[type(body)].newest


def run_out(group: Any, timer: tuple[TimerKind, str], now_ms: int) -> Group:
    """The group after the expiry of a timer: of a member, or of its join or sync phase."""
    kind, who = timer
    due: Group
    if isinstance(group, ConsumerGroup):
        epoch = group.timers.epoch((kind, who))
        due = replace(group, timers=group.timers.set((kind, who), now_ms, epoch))
    elif kind is TimerKind.SESSION:
        due = replace(group, heartbeat_deadlines_ms=group.heartbeat_deadlines_ms.set(who, now_ms))
    elif kind is TimerKind.JOIN:
        due = replace(group, join_phase=group.join_phase._replace(deadline_ms=now_ms))
    else:
        due = replace(group, sync_phase=group.sync_phase._replace(deadline_ms=now_ms))
    return due


def end_task(state: Coordinator, what: str, context: Context) -> CoordinatorStep[Coordinator]:
    """The coordinator's step as one of `choices_of_tasks` happens."""
    group: Any = state.groups[GROUP]
    if what == RESOLVED:
        return broker.handle_resolution(state, GROUP, context)
    if what == INTERVAL_OVER:
        return CoordinatorStep(state.with_group(replace(group, target_time_ms=OLD)))
    old = {pattern: replace(one, timestamp=RESOLVED_BEFORE) for pattern, one in group.regexes.items()}
    return CoordinatorStep(state.with_group(replace(group, regexes=group.regexes.merge(old))))


def answer_for_group(at: Any, given: Received, context: Context) -> Step | None:
    """The step of a broker that has no group to ask: it is to find the coordinator, is not the coordinator, or loads.

    None for a request to a coordinator that has loaded its log.
    """
    sender, order, late = given
    if order == FIND:
        found = at.elsewhere if late else at.elsewhere - {sender}
        return Step(at._replace(elsewhere=found), [] if late else [(sender, (FIND, FOUND))])
    if sender in at.elsewhere or at.loading:
        is_other = sender in at.elsewhere
        code = ErrorCode.NOT_COORDINATOR if is_other else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return Step(at, [] if late else [(sender, (order, refuse(order, code, context)))])
    return None


def refuse(order: Any, code: ErrorCode, context: Context) -> ResponseBody:
    """The response of a broker that is not the coordinator any more, or that loads its log."""
    sent = request(0, "", order, context)
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return broker.refuse_while_loading(sent, context)
    return broker.refuse(sent, code, context, "the coordinator is another broker")


def _ask_commit(before: Coordinator, body: OffsetCommitRequest, answer: Answer | None, context: Context) -> list[str]:
    """The invariants that a commit breaks: an owner in good standing may commit, a former owner may not."""
    group = consumer_group_of(before)
    if group is None or answer is None or not isinstance(answer.body, OffsetCommitResponse):
        return []
    image, by_name = context.image, version_of(body, context) == BY_NAME
    ids = {name: topic.topic_id for name, topic in image.topics.items()}
    results = {
        (topic_id, one.partition_index): one.error_code
        for topic in answer.body.topics
        for topic_id in [ids.get(topic.name, NO_TOPIC_ID) if by_name else topic.topic_id]
        for one in topic.partitions
        if topic_id in image.names
    }
    held = {who: member.current.held for who, member in group.members.items()}
    mine = held.pop(body.member_id, frozenset())
    accepted = {place for place, code in results.items() if code is ErrorCode.NONE}
    found = [FORMER_OWNER] if any(accepted & others for others in held.values()) else []
    if not accepted and results and results.keys() <= mine:
        current, epoch = group.members[body.member_id].current, body.generation_id_or_member_epoch
        given_at = dict((*current.assigned, *current.pending))
        knows = epoch in (current.epoch, current.previous_epoch) and all(given_at[p] <= epoch for p in results)
        found += [OWNER] if knows else []
    return found


def _ask_subscription(after: Coordinator, sent: ConsumerGroupHeartbeatRequest, names: TopicNames) -> list[str]:
    """The invariants that a heartbeat breaks: the assignment has only topics of the subscription that it reports."""
    group = consumer_group_of(after)
    member = group.members.by_id.get(sent.member_id) if group is not None else None
    if member is None or member.metadata.subscribed_topic_regex:
        return []
    assigned = {names[topic_id] for (topic_id, _), _ in member.current.assigned}
    return [] if assigned <= {*member.metadata.subscribed_topic_names} else [SUBSCRIBED]


def consumer_group_of(state: Coordinator) -> ConsumerGroup | None:
    """The group, once there is one."""
    group = state.groups.get(GROUP)
    return group if isinstance(group, ConsumerGroup) else None


def rests(at: Broker) -> bool:
    """Whether its group is idle."""
    group = at.state.groups.get(GROUP)
    return not at.loading and (group is None or group.state.name in ("STABLE", "EMPTY"))


def timeless(group: ConsumerGroup, *, has_interval: bool) -> ConsumerGroup:
    """The group with its timers in a fixed order and without instants; a target counts as new if an interval begins."""
    running = sorted((kind.value, who, kind, epoch) for (kind, who), _, epoch in group.timers.in_order())
    timers = Deadlines(((kind, who), FAR, epoch) for _, who, kind, epoch in running)
    target_ms = group.target_time_ms and (max(group.target_time_ms, OLD) if has_interval else OLD)
    return replace(group, timers=timers, target_time_ms=target_ms)
