"""The coordinator of a group that may be classic, a consumer group, or one after the other, as a component.

It has no clock. Delayed requests wait with their tokens, which are the requests themselves. Beside its state it has the
logged state of a classic group, which is written only at the end of a rebalance, and the number of ids created for each
client. Another broker may take over, as from the coordinator of a consumer group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from fsm.check.kafka.application import BROKER, FAR, GROUP, NOW
from fsm.check.kafka.classic.member import IDS_OF_A_LIFE, number_of
from fsm.check.kafka.classic.promises import find_broken, find_lost, is_all_classic, read_partitions, waiting
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
from fsm.check.kafka.consumer.coordinator import (
    FAILS_OVER,
    MOVES,
    TAKES_OVER,
    answer_search,
    choices_of_failover,
    choices_of_tasks,
    let_pass,
    request,
)
from fsm.check.kafka.consumer.coordinator import timeless as timeless_group
from fsm.check.kafka.consumer.member import FIND, FOUND, LIVES
from fsm.check.kafka.descriptions import list_partitions
from fsm.check.kafka.looks import OF_CLASSIC, OF_CONSUMERS, look_at_group
from fsm.check.kafka.topics import CLUSTER, Topics
from fsm.check.model import Choice, Component, Missed, Received, Step
from fsm.coordinator import coordinator as broker
from fsm.coordinator.classic.timers import unload
from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.model.classic_group import ClassicGroup, SyncPhase
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.coordinator.model.context import Context, Image
from fsm.coordinator.model.groups import NO_GROUPS, Group
from fsm.coordinator.model.step import Answer
from fsm.coordinator.model.step import Step as CoordinatorStep
from fsm.coordinator.model.timers import Deadlines, TimerKind
from fsm.coordinator.storage.load import keep_stored, load
from fsm.coordinator.storage.replay import replay
from fsm.protocol.assignment import TopicPartition
from fsm.protocol.consumer_protocol import decode_subscription
from fsm.protocol.messages import (
    DISCONNECTED,
    TIMED_OUT,
    JoinGroupRequest,
    JoinGroupResponse,
)
from fsm.tables.classic_group import State as ClassicState
from fsm.tables.consumer_group import State
from fsm.tables.consumer_group_member import State as Settled

MANY_IDS = IDS_OF_A_LIFE * LIVES
"""The number of member ids of a client for which the model has a condition that they are gone."""
NOT_JOINED, NOT_SYNCED = "who has not joined is gone", "who has not synced is gone"
NOBODYS = Coordinator()
OF_MEMBERS = (
    *(
        "member",
        "id",
        "speaks KIP-848",
        "waits",
        "epoch",
        "previous",
        "held",
        "holds",
        "assigned",
        "subscribed",
        "unjoined",
        "unsynced",
    ),
)
"""The features of the newest member of each client."""
TIMER_CHOICES = {
    TimerKind.SESSION: ("expire", "session of {} expires"),
    TimerKind.REBALANCE: ("rebalance_timeout", "rebalance timeout of {} is over"),
    TimerKind.JOIN: ("rebalance_timeout", "time for {} to join is over"),
    TimerKind.SYNC: ("rebalance_timeout", "time for {} to sync is over"),
}


class PendingRequest(NamedTuple):
    """A request, which is its own token."""

    sender: str
    order: Any
    late: bool


class Broker(NamedTuple):
    """The coordinator between two steps."""

    state: Coordinator = NOBODYS
    log: Coordinator = NOBODYS
    """What the log has, unless there is a consumer group: of that it has the present state."""
    made: tuple[tuple[str, int], ...] = ()
    """How many member ids each client was given."""
    elsewhere: frozenset[str] = frozenset()
    """Members that still send requests to the former coordinator's broker."""
    records: Log = ()
    """Its compacted log; empty unless the model has compaction."""
    topics: tuple[str, ...] = ()
    """The changes of topics that it knows."""


class AnyCoordinator:
    """The component of a coordinator."""

    lost = DISCONNECTED
    """The end of a request that is lost with its broker."""

    def __init__(
        self,
        names: Sequence[str],
        known: Topics | None,
        context: Context,
        *,
        converts: bool = False,
        moves: bool = False,
        compacts: bool = False,
    ) -> None:
        """Its groups are of consumers if topics are `known`.

        A client that `converts` may use either protocol; its ids are then numbered by process. `moves` lets the
        coordinator change its broker; `compacts` lets its log be compacted.
        """
        self.names, self.context, self.converts, self.known = names, context, converts, known
        self.moves, self.compacts = moves, compacts
        self.ids: Mapping[tuple[str, int], int] = {} if known is None else known.ids
        self.has_interval = context.config.assignment_interval_ms(GROUP) > 0
        self.bits: Mapping[TopicPartition, int] = {} if known is None else known.bits

    def component(self) -> Component:
        """The component; its features are the membership, epochs and partitions of each client's newest member."""
        features: dict[str, Any] = {
            "rests": _rests,
            "forgotten": lambda at: int(_group(at) is None and at.log.groups.get(GROUP) is not None),
            "consumer": lambda at: int(isinstance(_group(at), ConsumerGroup)),
            "all classic": lambda at: int(is_all_classic(_group(at))),
            "has members": lambda at: int(bool(getattr(_group(at), "members", ()))),
            "has a protocol": lambda at: int(getattr(_group(at), "protocol_name", None) is not None),
        }
        for name in self.names:
            for feature in OF_MEMBERS:
                features[f"{feature} {name}"] = partial(self._feature, name, feature)
            for life in range(LIVES):
                features[f"delays {name} {life}"] = partial(_count_delayed, name, life)
        return Component(
            BROKER,
            Broker(),
            self.choices,
            self.step,
            features,
            describe=self.describe,
            look=lambda at: look_at_group(_group(at), self.context.image.names, self.tell_assignment),
            role="coordinator",
            tables=(*OF_CLASSIC, *(OF_CONSUMERS if self.converts else ())),
        )

    def _context_of(self, at: Broker) -> Context:
        return replace(self.context, image=self.known.image(at.topics)) if at.topics and self.known else self.context

    def _feature(self, name: str, feature: str, at: Broker) -> int:
        group = _group(at)
        if feature in ("unjoined", "unsynced"):
            return _missing(group, name, feature)
        mine = [who for who in group.members if who[0] == name] if group is not None else []
        if group is None or not mine:
            return {"epoch": -9, "previous": -9, "id": -9}.get(feature, 0)
        who = max(mine, key=number_of)
        match feature:
            case "member":
                return 1
            case "id":
                return number_of(who)
            case "speaks KIP-848":
                return int(isinstance(group, ConsumerGroup) and not group.members[who].is_classic)
            case "waits":
                return int(isinstance(group, ConsumerGroup) and group.members[who].current.state is not Settled.STABLE)
        if feature == "subscribed" and self.known is not None:
            return self.known.mask_topics(_topics_of(group, who))
        if isinstance(group, ClassicGroup):
            return self._of_classic(group, who, feature)
        current = group.members[who].current
        match feature:
            case "epoch":
                return current.epoch
            case "previous":
                return current.previous_epoch
        found = current.held if feature in ("held", "holds") else (one for one, _ in current.assigned)
        return sum(1 << self.ids[one] for one in found)

    def _of_classic(self, group: ClassicGroup, who: str, feature: str) -> int:
        match feature:
            case "epoch":
                return group.generation
            case "previous":
                return -9
        return sum(1 << self.bits[one] for one in read_partitions(group.members[who].assignment))

    def tell_assignment(self, assignment: bytes) -> str:
        """The assignment in a SyncGroup response, as text."""
        return list_partitions(read_partitions(assignment))

    def choices(self, at: Broker) -> Iterable[Choice]:
        """The choices: timers expire, and another broker takes over."""
        group = _group(at)
        if isinstance(group, ClassicGroup):
            yield from _classic_timers(group)
        elif group is not None:
            for (kind, who), _, epoch in group.timers.in_order():
                member = group.members.by_id.get(who)  # None if another one took its place
                if member is not None and (kind is not TimerKind.REBALANCE or member.epoch == epoch):
                    kind_of, text = TIMER_CHOICES[kind]
                    yield Choice(text.format(_short(who)), (kind, who), kind_of, _excuse(who))
            yield from choices_of_tasks(group)
        if group is not None or at.log.groups.get(GROUP) is not None:
            yield from choices_of_failover(moves=self.moves, compacts=self.compacts)

    def step(self, at: Broker, given: Any) -> Step:
        """The step on an input: a request, a timer that expires, an update of metadata, or a failover."""
        context = self._context_of(at)
        match given:
            case Received(sender, topics) if sender == CLUSTER:
                after = at._replace(topics=topics)
                changed = broker.change_image(at.state, context.image, self._context_of(after))
                return Step(self._note(after, CoordinatorStep(changed)))
            case Received() if (searched := answer_search(at, given, context)) is not None:
                return searched
            case Received(sender, order, late):
                made = dict(at.made)
                number = next_number(made.get(sender, 0), order, converts=self.converts)
                fresh = f"{sender}{number}"
                token: Any = PendingRequest(sender, order, late)
                done = broker.handle(at.state, request(token, sender, order, context, fresh), context)
                if is_used(fresh, order.body, done.answers, done.state.groups.get(GROUP)):
                    made[sender] = number + 1
                return self._after(at._replace(made=tuple(sorted(made.items()))), done, order.body)
            case (TimerKind(), str()):
                due = run_out(_group(at), given, NOW)
                return self._after(at, broker.handle_timer(at.state.with_group(due), context), given)
            case Missed(sender, order):  # it was handled, but is lost with its broker
                return self._fail_over(at, sends=[(sender, (order, FOUND if order == FIND else self.lost))])
            case str() if given not in TAKES_OVER:
                return Step(self._note(at, let_pass(at.state, given, context)))
        return self._fail_over(at, given)

    def _fail_over(self, at: Broker, how: str = FAILS_OVER, sends: Sequence[tuple[str, Any]] = ()) -> Step:
        """The step to another broker, which reads the log; delayed requests end."""
        context = self._context_of(at)
        stored = at.state if isinstance(_group(at), ConsumerGroup) else at.log
        loaded, broken = load(stored, context), []
        if how in (FROM_COMPACTED, FROM_CLEANED):
            read = list_loaded(at.records, how, context)
            wanted, *found = (timeless(one).groups.get(GROUP) for one in (loaded.state, *read))
            broken = [] if all(say_the_same(wanted, one) for one in found) else [SAYS_THE_SAME]
            loaded = CoordinatorStep(read[0])
        after = self._note(at, loaded)
        read, logged = stored.groups.get(GROUP), after.log.groups.get(GROUP)
        broken += find_lost(read, loaded.state.groups.get(GROUP), logged, context)
        ended = [(one.sender, (one.order, body)) for one, body in end_delayed(_group(at), how, context) if not one.late]
        return Step(
            after._replace(elsewhere=frozenset(self.names)) if how == MOVES else after, [*ended, *sends], broken
        )

    def _after(self, at: Broker, done: CoordinatorStep[Coordinator], request: Any) -> Step:
        """The step of the model after a request or a timer, with the invariants that it breaks."""
        before, after = _group(at), done.state.groups.get(GROUP)
        given_up = find_unanswered(before, after, done.answers)
        answers: Iterable[tuple[Any, Any]] = (*done.answers, *((token, TIMED_OUT) for token in given_up))
        sends = [(token.sender, (token.order, body)) for token, body in answers if not token.late]
        noted = self._note(at, done)
        stored = noted.log.groups.get(GROUP)
        asked = [*find_broken((before, after, stored), request, done.answers, self._context_of(at))]
        if isinstance(after, ConsumerGroup):
            logged = at.state if isinstance(before, ConsumerGroup) else at.log
            asked += [] if tell(logged, done, GROUP, self.context.dialect) else [TELLS]
        asked += [] if tell_offsets(done, self.context.dialect) else [TELLS]
        return Step(noted, sends, asked)

    def _note(self, at: Broker, done: CoordinatorStep[Coordinator]) -> Broker:
        state, log = timeless(done.state, has_interval=self.has_interval), NOBODYS
        if not isinstance(done.state.groups.get(GROUP), ConsumerGroup):
            stored = keep_stored(at.state) if isinstance(_group(at), ConsumerGroup) else at.log
            log = timeless(replay(done.records, self.context.dialect, stored).state)
        return at._replace(state=state, log=log, records=append(at.records, done.records) if self.compacts else ())

    def describe(self, at: Broker) -> str:
        """The group on one line."""
        group = _group(at)
        if group is None:
            return "no group"
        if isinstance(group, ClassicGroup):
            texts = (
                f"{_short(who)} {'waits' if who in {*group.delayed_joins, *group.delayed_syncs} else 'has'}"
                f"{'' if who in group.delayed_joins else ' ' + self.tell_assignment(group.members[who].assignment)}"
                for who in sorted(group.members)
            )
            return "; ".join((f"{group.state.name}, generation {group.generation}", *texts))
        texts = (
            f"{_short(who)} {member.current.state.name} at {member.epoch}: "
            + _partitions(self.context.image, (one for one, _ in member.current.assigned))
            + (
                f", to give up {_partitions(self.context.image, (one for one, _ in member.current.pending))}"
                if member.current.pending
                else ""
            )
            for who, member in sorted(group.members.items())
        )
        return "; ".join((f"{group.state.name}, epoch {group.epoch}, target {group.target_epoch}", *texts))


def next_number(made: int, order: Any, *, converts: bool) -> int:
    """The number of the member id that the sender of a request may get."""
    return max(made, IDS_OF_A_LIFE * getattr(order, "life", 0)) if converts else made


def is_used(fresh: str, body: Any, answers: Iterable[Answer], group: Group | None) -> bool:
    """Whether the fresh member id was used: for a join without an id, whether it has been answered or not."""
    if not isinstance(body, JoinGroupRequest) or body.member_id:
        return False
    answered_ids = (one.body.member_id for one in answers if isinstance(one.body, JoinGroupResponse))
    return any(who.endswith(fresh) for who in (*answered_ids, *(group.members if group is not None else ())))


def end_delayed(group: Group | None, how: str, context: Context) -> list[tuple[Any, Any]]:
    """The end of each delayed request when another broker takes over: its token, and how its client learns of that.

    A broker that lives on says that it is not the coordinator.
    """
    if how == MOVES:
        answers = unload(group, context).answers if isinstance(group, ClassicGroup) else ()
        return [(one.token, one.body) for one in answers]
    return [(token, DISCONNECTED) for token in waiting(group)]


def find_unanswered(before: Group | None, after: Group | None, answers: Iterable[tuple[Any, Any]]) -> list[Any]:
    """The tokens of delayed requests that will never be answered: their clients give up on them."""
    kept = [*waiting(after), *(token for token, _ in answers)]
    return [token for token in waiting(before) if token not in kept]


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


def _classic_timers(group: ClassicGroup) -> Iterator[Choice]:
    for who in sorted(group.heartbeat_deadlines_ms):
        yield Choice(f"session of {_short(who)} expires", (TimerKind.SESSION, who), "expire", _excuse(who))
    if group.join_phase is not None and group.join_phase.is_initial:
        yield Choice("initial rebalance delay is over", (TimerKind.JOIN, ""))
    elif group.join_phase is not None:
        yield Choice("join phase is over", (TimerKind.JOIN, ""), "rebalance_timeout", NOT_JOINED)
    if group.sync_phase is not None:
        yield Choice("sync phase is over", (TimerKind.SYNC, ""), "rebalance_timeout", NOT_SYNCED)


def _excuse(who: str) -> str:
    """The condition under which no client sends requests for a member any more, so that its timers must expire."""
    return describe_gone(who[0], number_of(who)) if number_of(who) < MANY_IDS else ""


def describe_gone(name: str, number: int) -> str:
    """The name of that condition."""
    return f"nobody speaks as {name}{number}"


def _count_delayed(name: str, life: int, at: Broker) -> int:
    """The ids, as bits, of members whose request waits here, sent by that process of the client."""
    group, found = _group(at), 0
    if isinstance(group, ClassicGroup):
        for delayed in (group.delayed_joins, group.delayed_syncs):
            for who in delayed:
                token: Any = delayed[who].token
                mine = token.sender == name and getattr(token.order, "life", 0) == life
                found |= 1 << number_of(who) if mine and not token.late else 0
    return found


def _topics_of(group: Group, who: str) -> Iterable[str]:
    """The topics that a consumer subscribes to, as the coordinator was told last."""
    if isinstance(group, ClassicGroup):
        return decode_subscription(group.members[who].protocols[0].metadata).topics
    return group.names_of(group.members[who])


def _missing(group: Group | None, name: str, feature: str) -> int:
    """The ids, as bits, for which the join phase waits, or the sync phase."""
    if not isinstance(group, ClassicGroup):
        return 0
    if feature == "unsynced":
        found = {*group.pending_sync_members}
    else:
        found = {*group.pending_join_members, *(i for i in group.members if i not in group.delayed_joins)}
    return sum(1 << number_of(who) for who in found if who[0] == name)


def _group(at: Broker) -> Group | None:
    found: Group | None = at.state.groups.get(GROUP)
    return found


def _short(who: str) -> str:
    """The client and the number of its id."""
    life = who.removeprefix(f"{who[0]}-")
    return who if life.isdigit() and life != "0" else f"{who[0]}{number_of(who)}"


def _partitions(image: Image, found: Iterable[tuple[str, int]]) -> str:
    return list_partitions(sorted((image.names[topic_id], number) for topic_id, number in found))


def _rests(at: Broker) -> int:
    group = _group(at)
    return int(group is None or group.state in (State.STABLE, State.EMPTY, ClassicState.STABLE, ClassicState.EMPTY))


def timeless(state: Coordinator, *, has_interval: bool = False) -> Coordinator:
    """The coordinator with its timers in a fixed order, and without instants."""
    group = state.groups.get(GROUP)
    if group is None:
        return NOBODYS
    if isinstance(group, ConsumerGroup):
        return Coordinator(NO_GROUPS.set(timeless_group(group, has_interval=has_interval)))
    join, sync = group.join_phase, group.sync_phase
    preparing = group.state is ClassicState.PREPARING_REBALANCE
    last = group.stored_generation
    group = replace(
        group,
        state_since_ms=0,
        previous_state=group.previous_state if preparing else ClassicState.DEAD,
        heartbeat_deadlines_ms=Deadlines((who, FAR, 0) for who in sorted(group.heartbeat_deadlines_ms)),
        join_phase=join and join._replace(deadline_ms=FAR),
        sync_phase=sync and SyncPhase(FAR, sync.generation),
        stored_generation=last and replace(last, current_state_timestamp=0),
    )
    return Coordinator(NO_GROUPS.set(group))
