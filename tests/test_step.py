"""The step kernel: values, drafts, rows performed on them, events that fall due and rows that pause."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, field, replace

import pytest

from fsm.errors import IllegalTransition, TableError
from fsm.step import Draft, Pause, frozen
from fsm.table import Symbol, Table, row


class State(Symbol):
    SHUT = "Nobody comes in."
    OPEN = "Everybody comes in."
    LOCKED = "Nobody opens it."


class Event(Symbol):
    KNOCKED = "Somebody is at the door."
    OPENED = "The door was opened."
    ANSWERED = "The voice behind the door answered."
    LEFT_IN_PEACE = "Nobody was at the door for long."


class Effect(Symbol):
    COUNT_KNOCK = "Count one more."
    ASK = "Ask who is there."
    RING = "Ring the bell."


S, E, F = State, Event, Effect
TABLE = Table(
    name="door",
    initial=S.SHUT,
    effects=F,
    rows=(
        row(S.SHUT, E.KNOCKED, F.COUNT_KNOCK, F.ASK, S.OPEN, F.RING),
        row(S.SHUT, E.ANSWERED, F.COUNT_KNOCK),
        row((S.SHUT, S.OPEN), E.LEFT_IN_PEACE, S.LOCKED),
        row(S.OPEN, E.OPENED, S.SHUT),
        row(S.LOCKED, E.OPENED, S.OPEN),
    ),
)
CELLS = TABLE.compiled


@frozen
class Door:
    """A door between two steps."""

    state: State = State.SHUT
    count: int = 0
    name: str = "front"

    @property
    def is_busy(self) -> bool:
        """Whether somebody knocked."""
        return self.count > 0


class DoorDraft(Draft[Door], Door, effects=Effect):
    """A door within a step."""

    def __init__(self, door: Door, *, asks: Event | Pause | None = None) -> None:
        super().__init__(door)
        self.asks = asks
        self.seen: list[tuple[State, str]] = []

    def count_knock(self) -> None:
        self.count += 1

    def ask(self) -> Event | Pause | None:
        self.seen.append((self.state, "ask"))
        return self.asks

    def ring(self) -> None:
        self.seen.append((self.state, "ring"))


def test_a_state_is_a_value() -> None:
    """It is equal by its fields, hashable, and cannot be changed."""
    assert Door(count=1) == Door(count=1) != Door()
    assert len({Door(), Door(), Door(count=1)}) == 2
    with pytest.raises(FrozenInstanceError):
        Door().count = 1
    with pytest.raises((AttributeError, TypeError)):  # which one is a matter of Python's release
        Door().other = 1  # type: ignore[attr-defined]


def test_equality_looks_at_identity_first() -> None:
    """A state is equal to itself without a look at its fields, which may be large."""

    class Loud(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            raise AssertionError("a field was compared")

    door = Door(name=Loud("front"))
    assert door == door  # noqa: PLR0124


@frozen
class Guest:
    """Somebody at the door; `call` is told by name alone."""

    name: str
    gifts: tuple[str, ...] = field(default_factory=lambda: ("cake",))
    call: int = field(default=0, kw_only=True)


@frozen
class Friend(Guest):
    """A guest with a field more, who has to have a name."""

    years: int = 1

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a friend without a name")


def test_a_value_is_made_as_a_dataclass_is() -> None:
    """With defaults, factories, fields that are named, an inherited field before its own, and a last word on it."""
    ada = Friend("Ada", years=9, call=3)
    assert (ada.name, ada.gifts, ada.call, ada.years) == ("Ada", ("cake",), 3, 9)
    assert Friend("Ada", ("wine",), 9, call=3) == replace(ada, gifts=("wine",)) != Guest("Ada", ("wine",), call=3)
    assert repr(Guest("Ada")) == "Guest(name='Ada', gifts=('cake',), call=0)"
    with pytest.raises(ValueError, match="without a name"):
        Friend("")
    with pytest.raises(TypeError, match=r"Guest\(\) missing 1 required positional argument: 'name'"):
        Guest()  # type: ignore[call-arg]


def test_a_value_is_copied_and_pickled() -> None:
    """Fields that have to be named come back, too."""
    ada = Friend("Ada", ("wine",), 9, call=3)
    for again in (copy.copy(ada), copy.deepcopy(ada), pickle.loads(pickle.dumps(ada))):  # noqa: S301
        assert (type(again), again) == (Friend, ada)


def test_a_draft_of_a_value_with_a_base() -> None:
    """Its inherited fields are drawn up as well, and the value has its last word when it is made, not when closed."""

    class FriendDraft(Draft[Friend], Friend):
        pass

    draft = FriendDraft(Friend("Ada"))
    draft.years, draft.name = 2, "Grace"
    assert draft.close() == Friend("Grace", years=2)


def test_a_row_is_performed_in_order() -> None:
    """States are entered and effects called as the row has them: an effect sees the state it stands behind."""
    draft = DoorDraft(Door())
    assert draft.take(CELLS, E.KNOCKED) == ()
    assert draft.seen == [(S.SHUT, "ask"), (S.OPEN, "ring")]
    closed = draft.close()
    assert closed == Door(S.OPEN, 1)
    assert type(closed) is Door
    assert closed.is_busy


def test_a_step_that_changes_nothing_gives_the_same_state() -> None:
    """Nothing is built for it."""
    door = Door()
    draft = DoorDraft(door)
    assert draft.close() is door
    draft.count += 1
    assert draft.close() is not door
    assert door == Door()


def test_an_event_that_falls_due_is_taken_before_the_next_step() -> None:
    """The effect's event runs its own row; the first row goes on behind it."""
    draft = DoorDraft(Door(), asks=E.ANSWERED)
    draft.take(CELLS, E.KNOCKED)
    assert draft.close() == Door(S.OPEN, 2)
    assert draft.seen == [(S.SHUT, "ask"), (S.OPEN, "ring")]


@pytest.mark.parametrize(("pause", "left"), [(Pause.BEFORE, (F.ASK, S.OPEN, F.RING)), (Pause.AFTER, (S.OPEN, F.RING))])
def test_a_row_may_pause(pause: Pause, left: tuple[Symbol, ...]) -> None:
    """What is left is a tuple of members: it can be kept in a state and performed by a later step."""
    draft = DoorDraft(Door(), asks=pause)
    assert draft.take(CELLS, E.KNOCKED) == left
    waiting = draft.close()
    assert waiting == Door(S.SHUT, 1)
    later = DoorDraft(waiting)
    assert later.perform(CELLS, left) == ()
    assert later.close() == Door(S.OPEN, 1)


def test_an_illegal_event_does_nothing() -> None:
    """It is refused before the first effect."""
    draft = DoorDraft(Door(S.LOCKED))
    with pytest.raises(IllegalTransition, match="door: KNOCKED is illegal in LOCKED"):
        draft.take(CELLS, E.KNOCKED)
    assert draft.close() is draft.stored


def test_every_effect_has_a_method() -> None:
    """A draft that lacks some is refused when its class is made, and a field is no method."""
    with pytest.raises(TableError, match="effect RING has no method ring"):
        type("Silent", (Draft, Door), {"count_knock": id, "ask": id}, effects=Effect)


def test_effects_of_two_tables_and_their_subjects() -> None:
    """One draft may serve two tables; a subject goes to each method of the row."""

    class Manners(Symbol):
        GREET = "Say hello."

    class Both(DoorDraft, effects=(Effect, Manners)):
        def greet(self, name: str) -> None:
            self.name = name

    draft = Both(Door())
    draft.perform(CELLS, (Manners.GREET, S.OPEN), "Ada")
    assert draft.close() == Door(S.OPEN, 0, "Ada")


def test_an_overridden_effect_is_the_one_that_runs() -> None:
    """A draft of a draft replaces single effects."""

    class Twice(DoorDraft):
        def count_knock(self) -> None:
            self.count += 2

    draft = Twice(Door())
    draft.take(CELLS, E.ANSWERED)
    assert draft.count == 2
