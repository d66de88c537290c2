"""A step that does not end is a counterexample: of a model of one's own, and of the background of a member."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from threading import Lock, Thread

import pytest

from fsm.check import Choice, Component, Limits, Model, Property, Replayed, Step, Verdict, check, endless, tell
from fsm.check.catalog import make_model
from fsm.check.endless import EndlessError, within
from fsm.member.runtime.consumer_shell import ConsumerMember

SOON = Limits(step_s=0.05)
MESSAGE = "takes more than 0.05 s of CPU time: it may never end"


WAITED = "takes more than 1.5 s: it may never end"


def sleeps(sleep: Callable[[], object]) -> Model:
    """One that sleeps, or waits, in its third step."""

    def step(state: int, _given: object) -> Step:
        if state == 2:
            sleep()
        return Step(state + 1)

    return Model("sleeps", [Component("one", 0, lambda state: [Choice("goes on")] if state < 4 else [], step)])


def loops(*, passes_over: bool = False) -> Model:
    """One that loops for ever in its third step."""

    def choices(state: int) -> Iterable[Choice]:
        return [Choice("goes on")] if state < 4 else []

    def step(state: int, _given: object) -> Step:
        while state == 2:
            try:
                sum(range(1_000))
            except Exception:
                if not passes_over:
                    raise
        return Step(state + 1)

    return Model("loops", [Component("one", 0, choices, step)])


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("passes_over", [False, True])
def test_an_endless_step_is_the_last_of_a_counterexample(*, passes_over: bool, jobs: int) -> None:
    """Even one that passes over all exceptions."""
    before = signal.getsignal(signal.SIGVTALRM)
    verdict = check(loops(passes_over=passes_over), limits=SOON, jobs=jobs)
    (found,) = verdict.violations
    assert (found.property, len(found.path)) == (MESSAGE, 3)
    assert next(iter(tell(found))).startswith(f"broken: {MESSAGE}")
    assert signal.getsignal(signal.SIGVTALRM) == before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)


def wait_for_a_lock() -> None:
    lock = Lock()
    with lock, lock:
        pass


@pytest.mark.parametrize(
    ("sleep", "jobs"),
    [
        (lambda: time.sleep(3_600), 1),
        *(
            pytest.param(lambda: time.sleep(3_600), 2, marks=pytest.mark.deep),
            pytest.param(wait_for_a_lock, 1, marks=pytest.mark.deep),
        ),
    ],
    ids=["sleeps", "sleeps in a worker", "waits"],
)
def test_a_step_that_sleeps_for_ever_is_the_last_of_a_counterexample(sleep: Callable[[], object], jobs: int) -> None:
    """It takes no CPU time: the limit on real time is 30 times as long."""
    before = signal.getsignal(signal.SIGALRM)
    (found,) = check(sleeps(sleep), limits=SOON, jobs=jobs).violations
    assert (found.property, len(found.path)) == (WAITED, 3)
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


@pytest.mark.parametrize(
    ("left_s", "sleeps"),
    [((995,), (True,)), ((500,), (False,)), ((500, 300), (False, False)), ((500, 495), (False, True))],
)
def test_a_step_that_computes_slowly_is_left_to_the_limit_on_cpu_time(
    left_s: tuple[int, ...], sleeps: tuple[bool, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a busy machine: half of its CPU time is used when its real time is over. It may wait for ever then."""
    monkeypatch.setitem(endless._left_s, signal.ITIMER_VIRTUAL, 1_000)
    try:
        signal.setitimer(signal.ITIMER_REAL, 30_000, 30_000)
        for left, waits in zip(left_s, sleeps, strict=True):
            signal.setitimer(signal.ITIMER_VIRTUAL, left, 1_000)
            with pytest.raises(EndlessError, match="takes more than 30000 s:") if waits else nullcontext():
                endless._give_up(signal.SIGALRM, None)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_a_step_that_sleeps_less_is_none() -> None:
    """Longer than it may compute."""
    assert check(sleeps(lambda: time.sleep(0.1)), limits=SOON).word == "holds"


def test_an_alarm_of_somebody_else_is_left_alone() -> None:
    """The limit on CPU time holds all the same."""
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: rung.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        (found,) = check(loops(), limits=SOON).violations
    finally:
        signal.signal(signal.SIGALRM, before)
    assert rung == [signal.SIGALRM]
    assert found.property == MESSAGE


def test_live_objects_have_to_loop_too() -> None:
    def forever(_path: object) -> Replayed:
        while True:
            pass

    def end(_path: object) -> Replayed:
        return Replayed()

    for replay, differs in ((forever, ""), (end, "live objects complete the step")):
        model = Model("loops", loops().components, replay=replay)
        (found,) = check(model, limits=SOON).violations
        assert found.replayed == Replayed(differs)


def test_a_replay_that_does_not_end_confirms_and_refutes_nothing() -> None:
    """Live objects loop on a path whose steps end in the model."""

    def forever(_path: object) -> Replayed:
        while True:
            pass

    def choices(state: int) -> Iterable[Choice]:
        return [Choice("goes on")] if state < 2 else []

    one = Component("one", 0, choices, lambda state, _: Step(state + 1), {"at": lambda state: state})
    below = Property("below two", lambda view: view.of("one", "at") < 2)
    verdict = check(Model("ends", [one], (), [below], replay=forever), limits=SOON)
    (found,) = verdict.violations
    assert found.replayed == Replayed(stopped="takes more than 0.1 s of CPU time: it may never end")
    assert "it was not replayed to its end: that takes more than 0.1 s of CPU time" in "\n".join(tell(found))
    assert verdict.document()["violations"][0]["replayed"] is None


def test_a_step_that_ends_in_time_is_none() -> None:
    assert check(make_model("lock"), limits=SOON).word == "holds"


def test_a_step_that_ends_when_it_is_repeated_is_none() -> None:
    """The first time counted CPU time that was none of its own, as after the machine was suspended."""
    calls: list[int] = []

    def step(state: int, _given: object) -> Step:
        calls.append(state)
        while len(calls) == 1:
            pass
        return Step(state + 1)

    one = Component("one", 0, lambda state: [Choice("goes on")] if state < 2 else [], step)
    assert check(Model("suspended", [one]), limits=SOON).word == "holds"
    assert calls[:2] == [0, 0]


def test_nothing_is_stopped_outside_of_a_check() -> None:
    """Nor in another thread, where no signal can be heard."""
    assert within(0.0, lambda: sum(range(100_000))) == 4_999_950_000
    found: list[Verdict] = []
    thread = Thread(target=lambda: found.append(check(make_model("lock"), limits=SOON)))
    thread.start()
    thread.join()
    assert found[0].word == "holds"
    assert not issubclass(EndlessError, Exception)


def test_a_background_that_never_waits_is_a_counterexample(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that has something to do in each turn, for ever, breaks what each of its steps is asked for."""
    poll = ConsumerMember.poll
    monkeypatch.setattr(ConsumerMember, "poll", lambda *given: poll(*given)._replace(time_until_next_poll_ms=0))
    (found,) = check(make_model("consumer-group", members=1)).violations
    assert (found.property, len(found.path)) == ("the background waits for something", 1)
