"""The models of groups and clusters, of which a process takes each step once, whatever their tests ask.

Half of what these tests cost were steps that another one had taken: of the same members under another disturbance, or
cut off at other hazards. A test that changes rules (it asks for `monkeypatch`) is given models that remember nothing,
and leaves nothing to be remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from functools import wraps
from random import Random
from typing import Any

from fsm.check import Component, Model, Replayed, Step
from fsm.check.kafka.classic import group as classic
from fsm.check.kafka.connect import cluster as clusters
from fsm.check.kafka.consumer import group as consumers
from fsm.check.kafka.mixed import group as mixed
from fsm.check.search import Search
from fsm.check.verdict import states_on

MESSAGES_AND_TIMERS = (
    *("crash", "expire", "failover", "late", "leave"),
    *("lose", "poll_timeout", "rebalance_timeout", "rejoin", "unanswered"),
)
"""Kinds of disturbance of consumer groups."""
AGAIN = 16
"""One step of so many is taken twice, to see that it is pure: the engine's second time is only looked up here."""
_known: dict[Hashable, Model] = {}
_is_remembered = True


def remember(*, is_wanted: bool) -> None:
    """Whether models made from now on share their steps."""
    global _is_remembered  # noqa: PLW0603  # set for each test, by conftest.py
    _is_remembered = is_wanted


def forget() -> None:
    """Lets go of all steps."""
    _known.clear()


def replayed(search: Search, paths: int) -> Iterator[Replayed]:
    """What live objects do along so many paths, to any of the states that were met."""
    chance = Random(1)  # noqa: S311
    for _ in range(paths):
        assert search.model.replay is not None
        yield search.model.replay(states_on(search, chance.randrange(search.states.size)))


def list_disturbances(search: Search, paths: int) -> set[str]:
    """What disturbs so many paths, to any of the states that were met."""
    chance = Random(1)  # noqa: S311
    some = (
        range(search.states.size) if search.states.size <= paths else chance.choices(range(search.states.size), k=paths)
    )
    return {action.what for number in some for action, _ in states_on(search, number) if action.disturbance}


def _shared(make: Callable[..., Model]) -> Callable[..., Model]:
    @wraps(make)
    def made(*given: Any, **options: Any) -> Model:
        if not _is_remembered:
            return make(*given, **options)
        key = make, repr((given, sorted(options.items())))
        if key not in _known:
            model = make(*given, **options)
            _known[key] = replace(model, components=[_taken_once(one) for one in model.components])
        return _known[key]

    return made


def _taken_once(component: Component) -> Component:
    taken: dict[Hashable, Step] = {}

    def step(state: Any, given: Any) -> Step:
        done = taken.get((state, given))
        if done is None:
            done = taken[state, given] = component.step(state, given)
            assert len(taken) % AGAIN or component.step(state, given) == done, (component.name, given)
        return done

    return replace(component, step=step)


classic_group = _shared(classic.classic_group)
connect = _shared(clusters.connect)
consumer_group = _shared(consumers.consumer_group)
mixed_group = _shared(mixed.mixed_group)
