"""The coordinator of a group that may be classic, a consumer group, or one after the other, as a component.

It has no clock. Delayed requests wait with their tokens, which are the requests themselves. Beside its state it has the
logged state of a classic group, which is written only at the end of a rebalance, and the number of ids created for each
client. Another broker may take over, as from the coordinator of a consumer group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from fsm.check.kafka.application import FAR, GROUP
from fsm.check.kafka.classic.member import IDS_OF_A_LIFE, number_of
from fsm.check.kafka.classic.promises import find_broken, find_lost, is_all_classic, read_partitions, waiting
from fsm.check.kafka.consumer.compaction import TELLS, tell, tell_offsets
from fsm.check.kafka.consumer.coordinator import MOVES, Broker, CoordinatorModel, request, rests
from fsm.check.kafka.consumer.member import LIVES
from fsm.check.kafka.descriptions import list_partitions
from fsm.check.kafka.looks import OF_CLASSIC, OF_CONSUMERS, look_at_group
from fsm.check.kafka.standing import STAYS
from fsm.check.kafka.topics import Topics, mask
from fsm.check.model import Choice, Look, Received, Step
from fsm.coordinator import coordinator as broker
from fsm.coordinator.classic.timers import unload
from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.model.classic_group import ClassicGroup, SyncPhase
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.groups import NO_GROUPS, Group
from fsm.coordinator.model.step import Answer
from fsm.coordinator.model.step import Step as CoordinatorStep
from fsm.coordinator.model.timers import Deadlines, TimerKind
from fsm.coordinator.storage.load import keep_stored
from fsm.coordinator.storage.replay import replay
from fsm.member.classic.invariants import OUTCAST
from fsm.protocol.consumer_protocol import decode_subscription
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    DISCONNECTED,
    TIMED_OUT,
    JoinGroupRequest,
    JoinGroupResponse,
)
from fsm.tables.classic_group import State as ClassicState
from fsm.tables.consumer_group_member import State as Settled

MANY_IDS = IDS_OF_A_LIFE * LIVES
"""The number of member ids of a client for which the model has a condition that they are gone."""
NOT_JOINED, NOT_SYNCED = "who has not joined is gone", "who has not synced is gone"
NOBODYS = Coordinator()


class PendingRequest(NamedTuple):
    """A request, which is its own token."""

    sender: str
    order: Any
    late: bool


class AnyCoordinator(CoordinatorModel):
    """Makes the component of a coordinator whose group may be of either type."""

    lost = DISCONNECTED
    of_members: Sequence[str] = (
        *("member", "id", "speaks KIP-848", "waits", "epoch", "previous", "held", "holds", "assigned", "subscribed"),
        *("unjoined", "unsynced"),
    )
    """The features of the newest member of each client."""

    def __init__(
        self,
        names: Sequence[str],
        known: Topics,
        context: Context,
        *,
        converts: bool = False,
        **options: bool,
    ) -> None:
        """A client that `converts` may use either protocol; its ids are then numbered by process."""
        super().__init__(names, known, context, **options)
        self.converts, self.tables = converts, (*OF_CLASSIC, *(OF_CONSUMERS if converts else ()))

    def features(self) -> dict[str, Any]:
        """The membership, epochs and partitions of each client's newest member."""
        features: dict[str, Any] = {
            "rests": rests,
            "loads": lambda at: at.loading,
            "forgotten": lambda at: _group(at) is None and at.log.groups.get(GROUP) is not None,
            "consumer": lambda at: isinstance(_group(at), ConsumerGroup),
            "all classic": lambda at: is_all_classic(_group(at)),
            "has members": lambda at: bool(getattr(_group(at), "members", ())),
            "has a protocol": lambda at: getattr(_group(at), "protocol_name", None) is not None,
        }
        for name in self.names:
            for feature in self.of_members:
                features[f"{feature} {name}"] = partial(self._feature, name, feature)
            for life in range(LIVES):
                features[f"delays {name} {life}"] = partial(_count_delayed, name, life)
        return features

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
                return isinstance(group, ConsumerGroup) and not group.members[who].is_classic
            case "waits":
                return isinstance(group, ConsumerGroup) and group.members[who].current.state is not Settled.STABLE
            case "subscribed":
                return self.known.mask_topics(_topics_of(group, who))
        if isinstance(group, ClassicGroup):
            if feature in ("epoch", "previous"):
                return group.generation if feature == "epoch" else -9
            return mask(read_partitions(group.members[who].assignment), self.known.bits)
        return self.feature_of(group.members[who].current, feature)

    def tell_assignment(self, assignment: bytes) -> str:
        """The assignment in a SyncGroup response, as text."""
        return list_partitions(read_partitions(assignment))

    def choices_of_group(self, at: Broker) -> Iterable[Choice]:
        group = _group(at)
        return _classic_timers(group) if isinstance(group, ClassicGroup) else super().choices_of_group(at)

    def shorten(self, who: str) -> str:
        return _short(who)

    def excuse(self, _kind: TimerKind, who: str) -> str:
        return _excuse(who)

    def handle(self, at: Broker, given: Received) -> Step:
        sender, order, _ = given
        made, context = dict(at.made), self.context_of(at)
        number = next_number(made.get(sender, 0), order, converts=self.converts)
        fresh = f"{sender}{number}"
        done = broker.handle(at.state, request(PendingRequest(*given), sender, order, context, fresh), context)
        if is_used(fresh, order.body, done.answers, done.state.groups.get(GROUP)):
            made[sender] = number + 1
        return self._after(at._replace(made=tuple(sorted(made.items()))), done, order.body)

    def act(self, at: Broker, given: Any) -> Step:
        done = self.let_pass(at, given)
        return self.make_step(at, done) if isinstance(given, str) else self._after(at, done, given)

    def find_stored(self, at: Broker) -> Coordinator:
        return at.state if isinstance(_group(at), ConsumerGroup) else at.log

    def adopt(self, at: Broker, loaded: CoordinatorStep[Coordinator], how: str) -> Step:
        """The step of another broker that has loaded its state; delayed requests end."""
        context, after = self.context_of(at), self.note(at, loaded)
        stored, read, logged = (one.groups.get(GROUP) for one in (self.find_stored(at), loaded.state, after.log))
        ended = [(one.sender, (one.order, body)) for one, body in end_delayed(_group(at), how, context) if not one.late]
        broken = [*find_lost(stored, read, logged, context)]
        if not OUTCAST.isdisjoint(getattr(body, "error_code", ErrorCode.NONE) for _, (_, body) in ended):
            broken.append(STAYS)
        return Step(after, ended, broken)

    def make_step(
        self, before: Broker, done: CoordinatorStep[Coordinator], around: Broker | None = None, **_: Any
    ) -> Step:
        """Makes a step without a request or a timer, which breaks nothing."""
        return Step(self.note(around or before, done))

    def _after(self, at: Broker, done: CoordinatorStep[Coordinator], request: Any) -> Step:
        """The step of the model after a request or a timer, with the invariants that it breaks."""
        before, after = _group(at), done.state.groups.get(GROUP)
        given_up = find_unanswered(before, after, done.answers)
        answers: Iterable[tuple[Any, Any]] = (*done.answers, *((token, TIMED_OUT) for token in given_up))
        sends = [(token.sender, (token.order, body)) for token, body in answers if not token.late]
        noted = self.note(at, done)
        stored = noted.log.groups.get(GROUP)
        asked = [*find_broken((before, after, stored), request, done.answers, self.context_of(at))]
        if isinstance(after, ConsumerGroup):
            asked += [] if tell(self.find_stored(at), done, GROUP, self.context.dialect) else [TELLS]
        asked += [] if tell_offsets(done, self.context.dialect) else [TELLS]
        return Step(noted, sends, asked)

    def note(self, at: Broker, done: CoordinatorStep[Coordinator]) -> Broker:
        """The coordinator after a step, without time; beside it what the log has of a classic group."""
        log = NOBODYS
        if not isinstance(done.state.groups.get(GROUP), ConsumerGroup):
            stored = keep_stored(at.state) if isinstance(_group(at), ConsumerGroup) else at.log
            log = self.timeless(replay(done.records, self.context.dialect, stored).state, has_interval=False)
        return super().note(at, done)._replace(log=log)

    def look(self, at: Broker) -> Look:
        return look_at_group(_group(at), self.context.image.names, self.tell_assignment)

    def describe(self, at: Broker) -> str:
        group = _group(at)
        if group is None:
            return "no group"
        loads = "; still loads" if at.loading else ""
        if isinstance(group, ConsumerGroup):
            return self.describe_group(group, sorted(group.members)) + loads
        texts = (
            f"{_short(who)} {'waits' if who in {*group.delayed_joins, *group.delayed_syncs} else 'has'}"
            f"{'' if who in group.delayed_joins else ' ' + self.tell_assignment(group.members[who].assignment)}"
            for who in sorted(group.members)
        )
        return "; ".join((f"{group.state.name}, generation {group.generation}", *texts)) + loads

    def timeless(self, state: Coordinator, *, has_interval: bool) -> Coordinator:
        """The coordinator with its timers in a fixed order, and without instants."""
        group = state.groups.get(GROUP)
        if not isinstance(group, ClassicGroup):
            return replace(super().timeless(state, has_interval=has_interval), topics_added_version=-1)
        preparing, last = group.state is ClassicState.PREPARING_REBALANCE, group.stored_generation
        join, sync = group.join_phase, group.sync_phase
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
