"""How an implementation is judged: what counts as a difference, what an adapter may leave out, how reports shrink."""

import pickle

import pytest

from fsm.errors import FsmError, IllegalTransition
from fsm.machine import bind
from fsm.table import Symbol, Table, ignore, row
from fsm.tables import ALL
from fsm.testing.tours import all_refusals, all_transitions, each_transition
from fsm.testing.trial import Action, Adapter, Mismatch, Trial, follow, shorten


class State(Symbol):
    OUT = "Outside."
    IN = "Inside."
    OVER = "Over."


class Event(Symbol):
    JOIN = "Asks to come in."
    WORK = "Has something to do."
    LEAVE = "Goes."
    KILL = "Ends."


class Effect(Symbol):
    SEND = "Sends."
    STORE = "Stores."


S, E, F = State, Event, Effect
TABLE = Table(
    name="door",
    initial=S.OUT,
    terminal=(S.OVER,),
    effects=Effect,
    rows=(
        row(S.OUT, E.JOIN, S.IN, F.SEND, clause="1.1"),
        row(S.IN, E.WORK, F.STORE, F.SEND, clause="1.2"),
        row(S.IN, E.LEAVE, S.OUT),
        row((S.OUT, S.IN), E.KILL, S.OVER),
        ignore(S.OUT, E.LEAVE, why="out already", clause="1.3"),
    ),
)
CLOSED = []


class Door(Adapter):
    """Does what the table says, in names of its own spelling."""

    refuses = (KeyError,)
    injects = (OSError,)

    def __init__(self):
        self.now = "out"
        self.work = 0

    def send(self, event):
        target, effects = {
            ("out", "JOIN"): ("in", ["send"]),
            ("in", "WORK"): ("in", ["store", "send"]),
            ("in", "LEAVE"): ("out", []),
            ("out", "KILL"): ("over", []),
            ("in", "KILL"): ("over", []),
            ("out", "LEAVE"): ("out", []),
        }[self.now, event.name]
        self.now = target
        return effects

    def send_failing(self, event):
        raise OSError(event.name)

    def state(self):
        return self.now

    def close(self):
        CLOSED.append(self)


def run(adapter, *events):
    """Sends the events; `(event,)` means with a failing effect."""
    trial = Trial(TABLE, adapter)
    for event in events:
        trial.do(Action(*event, failing=True) if isinstance(event, tuple) else Action(event))
    return trial


def difference(adapter, *events):
    with pytest.raises(Mismatch) as caught:
        run(adapter, *events)
    return caught.value.expected, caught.value.got


def test_names_in_any_case_stand_for_members():
    """An implementation that does as the table says passes, whatever way it spells states and effects."""
    trial = run(Door, E.LEAVE, E.JOIN, (E.WORK,), E.WORK, E.JOIN, E.LEAVE, E.KILL)
    assert trial.state is S.OVER


def test_a_wrong_target_is_a_difference():
    """The state afterwards is compared."""

    class Wrong(Door):
        def state(self):
            return "over" if self.now == "in" else self.now

    assert difference(Wrong, E.JOIN) == ("state IN; effects SEND", "state OVER; effects SEND")


@pytest.mark.parametrize(
    ("effects", "expected"),
    [
        (["send", "store"], "SEND, STORE"),
        (["store"], "STORE"),
        (["store", "send", "send"], "STORE, SEND, SEND"),
        ((), "none"),
    ],
    ids=["order", "lost", "twice", "none"],
)
def test_effects_are_compared_in_their_order(effects, expected):
    """Another order, one too few, one too many, none at all."""

    class Other(Door):
        def send(self, event):
            return super().send(event) and (effects if event is E.WORK else ["send"])

    assert difference(Other, E.JOIN, E.WORK) == ("state IN; effects STORE, SEND", f"state IN; effects {expected}")


def test_what_cannot_be_seen_is_not_judged():
    """No state, no effects, or only some of them: the rest is still compared."""

    class Blind(Door):
        def send(self, event):
            super().send(event)

        def state(self):
            return None

    class HalfBlind(Door):
        observes = (F.SEND,)

        def send(self, event):
            return ["send", "store"] if super().send(event) else []

    assert run(Blind, E.JOIN, E.WORK, E.KILL).state is S.OVER
    assert run(HalfBlind, E.JOIN, E.WORK).state is S.IN


def test_an_exception_is_a_difference_and_its_cause():
    """What the implementation raised is in the report, and in the traceback."""

    class Broken(Door):
        def send(self, event):
            if event is E.WORK:
                raise ZeroDivisionError("no partitions")
            return super().send(event)

    with pytest.raises(Mismatch) as caught:
        run(Broken, E.JOIN, E.WORK)
    assert caught.value.got == "ZeroDivisionError: no partitions, state IN"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_illegal_event_must_be_refused_and_change_nothing():
    """Accepting it, raising something else, and raising too late are three differences."""

    class Accepting(Door):
        def send(self, event):
            return [] if self.now == "out" and event is E.WORK else super().send(event)

    class Late(Door):
        def send(self, event):
            if event is E.WORK:
                self.now = "in"
                raise KeyError(event)
            return super().send(event)

    class Otherwise(Door):
        refuses = (LookupError, ArithmeticError)

        def send(self, event):
            if event is E.WORK:
                raise TypeError("what?")
            return super().send(event)

    expected = "refused: KeyError raised, state OUT as before"
    assert difference(Accepting, E.WORK) == (expected, "state OUT; effects none")
    assert difference(Late, E.WORK) == (expected, "KeyError: Event.WORK, state IN")
    assert difference(Otherwise, E.WORK)[1] == "TypeError: what?, state OUT"


def test_an_adapter_that_names_no_refusal_is_sent_no_illegal_event():
    """The trial says what is missing, and has changed nothing."""

    class Silent(Door):
        refuses = ()

    trial = Trial(TABLE, Silent)
    assert not trial.may(Action(E.WORK))
    with pytest.raises(FsmError, match=r"WORK is illegal in OUT; say in Silent\.refuses what is raised"):
        trial.do(Action(E.WORK))


def test_a_failed_step_must_say_so_and_change_nothing():
    """Swallowing the failure and keeping the new state are differences."""

    class Swallowing(Door):
        def send_failing(self, event):
            """Logs it, say."""

    class Moved(Door):
        def send_failing(self, event):
            self.send(event)
            raise OSError

    expected = "the failure, and nothing else: OSError raised, state OUT as before"
    assert difference(Swallowing, (E.JOIN,)) == (expected, "state OUT")
    assert difference(Moved, (E.JOIN,)) == (expected, "OSError: , state IN")


def test_only_effects_that_can_fail_are_made_to_fail():
    """A row without effects, and one whose effects are not fallible, is no failing step."""

    class Partly(Door):
        fallible = (F.STORE,)

    trial = run(Partly, E.JOIN)
    assert trial.may(Action(E.WORK, failing=True))
    assert not trial.may(Action(E.LEAVE, failing=True))
    assert not Trial(TABLE, Partly).may(Action(E.JOIN, failing=True))
    assert Trial(TABLE, Door).may(Action(E.JOIN, failing=True))


def test_a_wrong_beginning_is_found_before_any_event():
    """The report says so, and the adapter is closed."""

    class Inside(Door):
        def __init__(self):
            super().__init__()
            self.now = "in"

    CLOSED.clear()
    with pytest.raises(Mismatch, match="door: a fresh implementation is not where the table begins") as caught:
        Trial(TABLE, Inside)
    assert (caught.value.actions, caught.value.expected, caught.value.got) == ((), "state OUT", "state IN")
    assert len(CLOSED) == 1


class Forgetful(Door):
    """Does nothing for the third piece of work after having been outside twice."""

    been = 0

    def send(self, event):
        done = super().send(event)
        self.been += event is E.LEAVE
        self.work += event is E.WORK
        return done[:1] if event is E.WORK and self.work >= 3 and self.been >= 2 else done


def test_a_sequence_is_shortened_to_what_the_difference_needs():
    """Of 11 events those 8 remain without which there is none; the first attempt is kept where nothing helps."""
    events = (E.JOIN, E.WORK, E.WORK, E.LEAVE, E.JOIN, E.WORK, E.LEAVE, E.JOIN, E.LEAVE, E.JOIN, E.WORK)
    with pytest.raises(Mismatch) as caught:
        run(Forgetful, *events)
    shortest = shorten(caught.value, Forgetful)
    assert [action.event for action in shortest.actions] == [
        E.JOIN, E.WORK, E.WORK, E.LEAVE, E.JOIN, E.LEAVE, E.JOIN, E.WORK,
    ]  # fmt: skip
    assert shorten(shortest, Forgetful) is shortest
    assert shorten(caught.value, Forgetful, tries=0) is caught.value


def test_a_case_reports_the_shortest_sequence_and_where_it_was_found():
    """`follow` raises with a note that names its case; every implementation it made is closed."""

    class Wrong(Door):
        def send(self, event):
            return super().send(event) and ["store"]

    CLOSED.clear()
    case = each_transition(TABLE).cases[-1]
    with pytest.raises(Mismatch) as caught:
        follow(all_transitions(TABLE).cases[0], Wrong)
    assert [action.event for action in caught.value.actions] == [E.JOIN]
    assert caught.value.__notes__ == ["found by the case 1of2-5steps-to-OVER with event 1 of it"]
    assert case.id == "IN-KILL"
    assert CLOSED
    assert len({id(adapter) for adapter in CLOSED}) == len(CLOSED)


def test_a_mismatch_is_both_a_failed_assertion_and_an_error_of_this_package():
    """Test runners show it as a failure; it survives pickling whole."""
    with pytest.raises(Mismatch) as caught:
        run(type("Silent", (Door,), {"send": lambda *_: ()}), E.JOIN)
    assert isinstance(caught.value, AssertionError)
    assert isinstance(caught.value, FsmError)
    again = pickle.loads(pickle.dumps(Mismatch(ALL[0], (), "a", "b")))  # noqa: S301
    assert (str(again), again.expected, again.got) == (str(Mismatch(ALL[0], (), "a", "b")), "a", "b")


def test_the_story_tells_lines_of_all_kinds():
    """Rows with their clause, ignored events with the reason, illegal ones, effects that fail."""

    class Acting(Door):
        def send(self, event):
            return ["send"] if (self.now, event) in (("out", E.LEAVE), ("out", E.WORK)) else super().send(event)

    with pytest.raises(Mismatch, match=r"LEAVE is ignored in OUT: out already \[1\.3\]"):
        run(Acting, E.LEAVE)
    with pytest.raises(Mismatch, match="WORK is illegal in OUT"):
        run(Acting, E.WORK)
    with pytest.raises(
        Mismatch, match=r"  1  in OUT  JOIN \(its first effect fails\)\n  table     OUT on JOIN: IN, SEND \[1\.1\]"
    ):
        run(type("Swallowing", (Door,), {"send_failing": lambda *_: None}), (E.JOIN,))


class Model:
    """Notes effects; fails at the first when told to."""

    def __init__(self):
        self.seen = []
        self.fails = False

    def on_effect(self, effect):
        if self.fails:
            raise ConnectionError(effect.name)
        self.seen.append(effect)


def bound(table):
    """The adapter of a `transitions` machine under `table`."""

    class Bound(Adapter):
        refuses = (IllegalTransition,)
        injects = (ConnectionError,)

        def __init__(self):
            self.model = Model()
            bind(table, self.model)

        def send(self, event):
            self.model.seen.clear()
            getattr(self.model, event.name.lower())()
            return self.model.seen

        def send_failing(self, event):
            self.model.fails = True
            try:
                self.send(event)
            finally:
                self.model.fails = False

        def state(self):
            return self.model.state

    return Bound


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
@pytest.mark.loop(6)
def test_bound_machines_follow_the_tours_of_every_table(table):
    """All cells, each first with a failing effect, and all refusals: `bind` agrees with the table from start to end."""
    adapter = bound(table)
    tours = ((all_transitions(table, ignored=True), True), (all_refusals(table), False))
    for tour, failures in tours:
        sent = [follow(case, adapter, failures=failures) for case in tour.cases]
        assert sum(sent) >= tour.steps
