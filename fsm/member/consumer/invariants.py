"""The invariants of a consumer member, between steps and of one step, as predicates with their status.

A status is part of the statement: some hold always; some only while no callback fails; some are violated, by a hazard
that Kafka has and the member reproduces. A dialect without the hazard has the invariant without exception, and a few
rules of the design notes break one by intent: `Invariant.status_in` says which it is. `Watch` follows a member from
its first step and names what does not hold; a caller decides by the status which of that is a bug.

Source: KIP-848 and the comments and checks of `AbstractMembershipManager`; the hazards are those of
`diagrams/hazards.md`. I29 and I30 are about the final state, so they are in `AT_REST`, for a member whose environment
has been fair for long enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from enum import Enum

from fsm.member.consumer import predicates as rules
from fsm.member.consumer.decisions import IN_GROUP, SILENT
from fsm.member.consumer.predicates import ObservedStep, changes, list_heartbeats
from fsm.member.consumer.state import Member
from fsm.member.consumer.step import Step
from fsm.member.dialect.choices import Choice
from fsm.member.dialect.dialect import FIXED, Dialect, choices_of
from fsm.member.effects import Enqueued, EpochUpdated, MemberEffect, Transition, UnsentRequest
from fsm.member.inputs import MemberInput, Tick
from fsm.tables.consumer_member import State


class Status(Enum):
    """How far an invariant holds."""

    HOLDS = "always"
    WITHOUT_FAILING_CALLBACKS = "while no callback fails"
    HAZARD = "violated through the hazards named"
    GIVEN_UP = "violated by intent: the dialect has a rule that breaks it"


@dataclass(frozen=True, slots=True)
class Invariant:
    """A statement about a member, or about one step of it."""

    name: str
    statement: str
    rule: Callable[[ObservedStep], bool] | Callable[[Member], bool]
    """The predicate: of a member between two steps if `states` is given, else of a step."""
    status: Status = Status.HOLDS
    """In the latest release."""
    hazards: str = ""
    avoidable: bool = True
    """Whether a client can satisfy it although Kafka's does not: a client cannot control coordinator and network."""
    given_up_by: Choice | None = None
    _: KW_ONLY
    states: frozenset[State] | None = None
    """The states that it is about, if it is about members and not about steps."""
    effect: type[MemberEffect] | None = None
    """The effect that it is about; the predicate is not evaluated for steps without it."""

    def holds(self, at: ObservedStep) -> bool:
        """Whether it holds of a step, or of the member after it."""
        if self.states is not None:
            return at.after.state not in self.states or self.rule(at.after)  # type: ignore[arg-type]  # see `rule`
        return self.rule(at)  # type: ignore[arg-type]

    def status_in(self, dialect: Dialect) -> Status:
        if self.given_up_by is not None and self.given_up_by in dialect:
            return Status.GIVEN_UP
        return Status.HOLDS if self.avoidable and dialect.choices >= _MENDING else self.status


EVERYWHERE = frozenset(State)
_MENDING = frozenset(c for c in choices_of(FIXED) if c.since == FIXED)

INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "I01",
        "every transition is one that MemberState allows, or that the dialect adds to it",
        lambda at: all(c.source in rules.legal(at)[c.target] or c.source is c.target for c in changes(at)),
        effect=Transition,
    ),
    Invariant(
        "I02",
        "one who is out of the group generates no heartbeat",
        lambda at: all(state not in SILENT for state, _ in list_heartbeats(at)),
        effect=UnsentRequest,
    ),
    Invariant("I03", "STABLE holds its target", lambda m: m.current == m.target, states=frozenset({State.STABLE})),
    Invariant(
        "I04",
        "RECONCILING has something to reconcile",
        lambda m: m.current != m.target,
        Status.HAZARD,
        "H2 H2b",
        states=frozenset({State.RECONCILING}),
    ),
    Invariant(
        "I05",
        "ACKNOWLEDGING has something to acknowledge",
        lambda m: not m.current.is_none,
        Status.HAZARD,
        "H2b",
        states=frozenset({State.ACKNOWLEDGING}),
    ),
    Invariant(
        "I06",
        "an active member has an epoch",
        lambda m: m.epoch > 0,
        Status.HAZARD,
        "H1 H2",
        states=rules.ACTIVE,
        given_up_by=Choice.STABLE_WHEN_SENT,
    ),
    Invariant(
        "I07",
        "one who leaves has a leave epoch and holds nothing",
        lambda m: m.epoch < 0 and m.current.is_none,
        states=frozenset({State.LEAVING, State.STALE}),
    ),
    Invariant(
        "I08a",
        "one who is out has no epoch",
        lambda m: m.epoch <= 0,
        states=frozenset({State.UNSUBSCRIBED, State.FENCED}),
    ),
    Invariant(
        "I08b", "unsubscribed, it holds nothing", lambda m: m.current.is_none, states=frozenset({State.UNSUBSCRIBED})
    ),
    Invariant(
        "I09a",
        "one who joins has no assignment",
        lambda m: m.target.is_none and m.current.is_none,
        states=frozenset({State.JOINING}),
    ),
    Invariant(
        "I09b",
        "one who joins does so with epoch 0",
        lambda m: m.epoch == 0,
        Status.HAZARD,
        "H1 H2 H12, and a coordinator that answers a join without an assignment",
        avoidable=False,
        states=frozenset({State.JOINING}),
    ),
    Invariant(
        "I09c",
        "one who joins owns nothing",
        lambda m: not m.ownership.owned,
        Status.HAZARD,
        "H2 H10 H17",
        states=frozenset({State.JOINING}),
    ),
    Invariant(
        "I10",
        "a heartbeat has a leave epoch exactly in LEAVING",
        lambda at: all((body.member_epoch < 0) == (state is State.LEAVING) for state, body in list_heartbeats(at)),
        Status.HAZARD,
        "H1 H2",
        effect=UnsentRequest,
    ),
    Invariant("I11", "at most one step of a run is open", lambda m: rules.open_steps(m) <= 1, states=EVERYWHERE),
    Invariant(
        "I12",
        "a run is open exactly while a step of it is",
        lambda m: (m.run is None) == (rules.open_steps(m) == 0),
        states=EVERYWHERE,
    ),
    Invariant(
        "I13",
        "what is held is no newer than the target",
        lambda m: m.current.is_none or m.target.is_none or m.current.local_epoch <= m.target.local_epoch,
        states=EVERYWHERE,
    ),
    Invariant(
        "I14",
        "a settled member owns what it holds",
        lambda m: rules.name_held(m) in (None, m.ownership.owned),
        Status.WITHOUT_FAILING_CALLBACKS,
        "H4 H10 H2b",
        states=rules.SETTLED,
    ),
    Invariant(
        "I15",
        "a stable member can fetch everything it owns",
        lambda m: not rules.is_flagged(m),
        Status.WITHOUT_FAILING_CALLBACKS,
        "H4 H7 H2b",
        states=frozenset({State.STABLE}),
    ),
    Invariant("I16", "listeners know the epoch, and that there is none", rules.epoch_was_notified, effect=EpochUpdated),
    Invariant(
        "I17",
        "a leave is open only for one who leaves or has left",
        lambda m: m.leaving.calls is None,
        Status.HAZARD,
        "an abandoned unsubscribe()",
        states=EVERYWHERE - rules.OUT_OR_LEAVING,
    ),
    Invariant(
        "I18",
        "FATAL is for good",
        lambda at: at.before.state is not State.FATAL or at.after.state is State.FATAL,
        given_up_by=Choice.SUBSCRIBE_ENDS_FATAL,
    ),
    Invariant("I19", "the member id is constant", lambda at: at.before.member_id == at.after.member_id),
    Invariant(
        "I20", "a member is subscribed", lambda m: m.subscription.kind.is_auto, Status.HAZARD, "H2 H10", states=IN_GROUP
    ),
    Invariant("I21", "a response changes no assignment of one who is out or leaving", rules.same_inside),
    Invariant(
        "I22a",
        "a run asks for its callbacks in their order, and for each once",
        rules.run_asks_in_order,
        effect=Enqueued,
    ),
    Invariant(
        "I22b",
        "a run is acknowledged exactly when its assignment is applied and its callback is back",
        rules.acknowledged_after_callback,
        effect=Transition,
    ),
    Invariant("I23", "what was added is not fetched before its callback has ended", rules.added_is_held_back),
    Invariant(
        "I24", "a heartbeat says what is held, if it says it", rules.reports_held_partitions, effect=UnsentRequest
    ),
    Invariant("I25", "a release is over what is owned at that moment", rules.releases_what_is_owned, effect=Enqueued),
    Invariant(
        "I26",
        "at most one heartbeat of a member in good standing is outstanding",
        lambda at: at.outstanding <= 1,
        Status.HAZARD,
        "a reset request forgets the one in flight, as it has to",
        avoidable=False,
    ),
    Invariant(
        "I27",
        "one who has left owns nothing",
        lambda m: not m.subscription.kind.is_auto or not m.ownership.owned,
        Status.HAZARD,
        "P2 until U9, H17",
        states=frozenset({State.UNSUBSCRIBED}),
    ),
    Invariant("I28a", "one who joins anew after a loss holds nothing at that moment", rules.rejoins_without_a_claim),
    Invariant(
        "I28b", "one who joins anew after a loss owns nothing at that moment", rules.rejoins_empty, Status.HAZARD, "H17"
    ),
    Invariant("I31", "a run that commits or revokes begins in a poll", rules.starts_in_poll),
    Invariant(
        "I32", "what can be resolved is acknowledged once for a local epoch", rules.acknowledged_once, effect=Transition
    ),
    Invariant("I33", "what is owned grows only by the application's word", rules.grows_by_application),
    Invariant(
        "I34",
        "one whose membership ended for good owns nothing once every callback is back",
        lambda m: bool(m.awaited) or not m.subscription.kind.is_auto or not m.ownership.owned,
        Status.HAZARD,
        "H17, and a fatal error while leaving",
        states=frozenset({State.FATAL}),
    ),
    Invariant("I35", "one who was fenced has no epoch", rules.gives_up_its_epoch),
    Invariant("I36", "a join begins in a poll", rules.joins_in_poll, given_up_by=Choice.JOIN_ON_SUBSCRIBE),
    Invariant("I37", "where a release begins, nothing is fetched any more", rules.released_is_held_back),
    Invariant(
        "I38",
        "who has its membership revokes and who has lost it loses",
        rules.loses_without_a_membership,
        effect=Enqueued,
    ),
)

AT_REST: tuple[Invariant, ...] = (
    Invariant(
        "I29",
        "in a fair world a member comes to rest: stable, out of the group, or ended for good",
        lambda m: m.state in rules.RESTING,
        states=EVERYWHERE,
    ),
    Invariant(
        "I30",
        "in a fair world every target is acknowledged at last, or another one in its place",
        lambda m: m.current == m.target,
        states=frozenset({State.STABLE}),
    ),
)
"""Invariants that hold once the application has polled, callbacks have ended, the coordinator has answered and topics
have names. I30 alone could hold of a member that never rests; the two belong together.
"""


_OF_STATE: Mapping[State, tuple[Invariant, ...]] = {
    state: tuple(i for i in INVARIANTS if i.states is not None and state in i.states) for state in State
}
_OF_EFFECT: Mapping[type, tuple[Invariant, ...]] = {
    effect: tuple(i for i in INVARIANTS if i.effect is effect)
    for effect in (Transition, UnsentRequest, EpochUpdated, Enqueued)
}
_OF_STEP = tuple(i for i in INVARIANTS if i.states is None and i.effect is None)
"""All of `INVARIANTS`, indexed by the effect or state that they are about."""


def find_broken(at: ObservedStep) -> list[Invariant]:
    """The invariants that a step breaks, or leaves broken."""
    return [*_broken_by_step(at), *_broken_by_member(at.after)]


def _broken_by_step(at: ObservedStep) -> list[Invariant]:
    asked = [*_OF_STEP]
    for effect in {*map(type, at.done.effects)}:
        asked += _OF_EFFECT.get(effect, ())
    return [i for i in asked if not i.rule(at)]  # type: ignore[arg-type]


def _broken_by_member(member: Member) -> list[Invariant]:
    return [i for i in _OF_STATE[member.state] if not i.rule(member)]  # type: ignore[arg-type]


class Watch:
    """Checks one member; it has to see every step from the first on.

    It evaluates an invariant only if its state or effect occurs, and not again for a member that a step leaves
    unchanged.
    """

    def __init__(self) -> None:
        self._outstanding = rules.Outstanding()
        self._known: Member | None = None
        self._standing: list[Invariant] = []
        """The invariants between steps that `_known` breaks."""

    def violations(self, before: Member, given: MemberInput, done: Step) -> tuple[Invariant, ...]:
        """The invariants that a step breaks, or leaves broken."""
        at = ObservedStep(before, given, done, self._outstanding.after(given, done))
        broken = [*_broken_by_step(at), *self._broken_by(done.member)]
        return tuple(sorted(broken, key=INVARIANTS.index)) if broken else ()

    def _broken_by(self, member: Member) -> list[Invariant]:
        if member is not self._known:
            self._known = member
            self._standing = _broken_by_member(member)
        return self._standing


def find_broken_at_rest(member: Member) -> tuple[Invariant, ...]:
    """The invariants of `AT_REST` that a member breaks, whose environment has been fair for long enough."""
    at = ObservedStep(member, Tick(), Step(member, ()), outstanding=0)
    return tuple(i for i in AT_REST if not i.holds(at))
