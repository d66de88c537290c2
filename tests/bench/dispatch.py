"""What one event costs: a dict, the compiled table, `transitions` by hand, and `bind` in all its kinds.

    python tests/bench/dispatch.py [--events N] [--rounds N]

One process, one table (the consumer member), one walk of legal events, drawn once with a fixed seed. Every variant
takes the same walk and must end in the same state. The variants take turns in every round, so what disturbs the
machine disturbs all; a figure is the median of the rounds, the ratio the median of the ratios to the plain dict
of the same round. Nobody passes or fails here: the figures are for reading.
"""

import argparse
import asyncio
import logging
import random
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import structlog
from transitions import Machine

from fsm.machine import bind
from fsm.table import Symbol, Table
from fsm.tables import consumer_member

Run = Callable[[], Symbol]


class Model:
    """Obeys every effect by doing nothing."""

    state: Symbol

    def on_effect(self, effect: Symbol) -> None:
        """The least a model can do."""


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--events", type=int, default=20_000, help="length of the walk (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of all variants (default: %(default)s)")
    options = parser.parse_args()
    table = consumer_member.TABLE
    walk = legal_walk(table, options.events)
    variants = {**bare(table, walk), **by_hand(table, walk), **bound(table, walk)}
    print(f"{table.name}: {options.events} events, {options.rounds} rounds")
    report(measure(variants, options.rounds), options.events)


def legal_walk(table: Table, length: int) -> list[Symbol]:
    """Events that are handled, from the initial state on; never into a state that has no way out."""
    chance, state, walk = random.Random(1), table.compiled.initial, []  # noqa: S311
    for _ in range(length):
        cells = table.compiled.by_state[state]
        event = chance.choice([e for e, c in cells.items() if c.target not in table.terminal and not c.ignored])
        state = cells[event].target
        walk.append(event)
    return walk


def bare(table: Table, walk: Sequence[Symbol]) -> dict[str, Run]:
    """Look-ups without a machine: state in, state out."""
    compiled, initial = table.compiled, table.compiled.initial
    plain = {pair: cell.target for pair, cell in compiled.items()}

    def dict_look_up() -> Symbol:
        state = initial
        for event in walk:
            state = plain[state, event]
        return state

    def compiled_cell() -> Symbol:
        state = initial
        for event in walk:
            state = compiled[state, event].target
        return state

    def compiled_by_state() -> Symbol:
        state, by_state = initial, compiled.by_state
        for event in walk:
            state = by_state[state][event].target
        return state

    def compiled_with_effects() -> Symbol:
        state, by_state, obey = initial, compiled.by_state, Model().on_effect
        for event in walk:
            cell = by_state[state][event]
            for effect in cell.effects:
                obey(effect)
            state = cell.target
        return state

    return {
        "plain dict: table[state, event]": dict_look_up,
        "compiled[state, event].target": compiled_cell,
        "compiled.by_state[state][event].target": compiled_by_state,
        "the same, obeying its effects": compiled_with_effects,
    }


def by_hand(table: Table, walk: Sequence[Symbol]) -> dict[str, Run]:
    """The library as one would use it: a transition for each cell, `to_STATE` triggers off; bare, then with effects."""
    runs = {}
    for name, obeys in (("transitions by hand, no effects", False), ("transitions by hand, with effects", True)):
        model = Model()
        machine = Machine(model, list(table.leaves()), initial=table.compiled.initial, auto_transitions=False)
        for (state, event), cell in table.compiled.items():
            after = [partial(model.on_effect, effect) for effect in cell.effects] if obeys else None
            machine.add_transition(event.name.lower(), state, cell.target if cell.path else None, after=after)
        runs[name] = triggers(machine, model, table, walk)
    return runs


def bound(table: Table, walk: Sequence[Symbol]) -> dict[str, Run]:
    """`bind`, obeying effects, with a logger that filters and one that writes to nowhere."""
    quiet = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    loud = structlog.wrap_logger(structlog.ReturnLogger(), processors=[structlog.processors.JSONRenderer()])
    runs = {}
    for name, logger, kind in (
        ("bind, records filtered", quiet, {}),
        ("bind, records as JSON", loud, {}),
        ("bind(locked=True), filtered", quiet, {"locked": True}),
    ):
        model = Model()
        runs[name] = triggers(bind(table, model, logger=logger, **kind), model, table, walk)
    model = Model()
    machine = bind(table, model, logger=quiet, asynchronous=True)

    async def tasks() -> None:
        for event in names:
            await getattr(model, event)()

    def asynchronous() -> Symbol:
        machine.set_state(table.compiled.initial, model)
        asyncio.run(tasks())
        return model.state

    names = [event.name.lower() for event in walk]
    return {**runs, "bind(asynchronous=True), filtered": asynchronous}


def triggers(machine: Machine, model: Model, table: Table, walk: Sequence[Symbol]) -> Run:
    """The walk as calls of the methods that the machine gave its model."""
    calls = [getattr(model, event.name.lower()) for event in walk]

    def run() -> Symbol:
        machine.set_state(table.compiled.initial, model)
        for call in calls:
            call()
        return model.state

    return run


def measure(variants: dict[str, Run], rounds: int) -> dict[str, list[float]]:
    """Seconds per variant and round. Raises if two variants do not end in the same state."""
    ends = {run() for run in variants.values()}
    if len(ends) != 1:
        raise SystemExit(f"the variants disagree: {ends}")
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, run in variants.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def report(seconds: dict[str, list[float]], events: int) -> None:
    """One line per variant; the first one is what the others are compared with."""
    reference = next(iter(seconds.values()))
    print(f"{'':40} {'events/s':>12} {'us/event':>9} {'x dict':>7}")
    for name, times in seconds.items():
        middle = statistics.median(times)
        ratio = statistics.median(mine / theirs for mine, theirs in zip(times, reference, strict=True))
        print(f"{name:40} {events / middle:12,.0f} {middle / events * 1e6:9.3f} {ratio:7.1f}")


if __name__ == "__main__":
    main()
