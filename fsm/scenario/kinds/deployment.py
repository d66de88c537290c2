"""A whole deployment in virtual time, as in `fsm simulate`, such as its output of `--shrink`.

    deployment: shop               # marks this kind of scenario
    lasts: 10m
    seed: 7
    topics: {orders: 2}
    services: {checkout: {topics: [orders], processes: 2}}
    faults:
    - {at: 2m, pause: checkout-0, for: 1m}

Machines of your own tables are replayed too (`machines` instead of `services`). fsm/simulate/README.md has all keys.
Each fault is a step, and so is the end: a violation there is a difference. `--dialect` is the release of all brokers
and clients.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fsm.errors import InputError
from fsm.nodes import Node
from fsm.scenario.reading import has_key
from fsm.scenario.story import Expected, Replay, Step
from fsm.scenario.texts import show_list
from fsm.simulate.deployment import Deployment
from fsm.simulate.machines.deployment import Machines
from fsm.simulate.outcome import Outcome, name_all, show
from fsm.simulate.reading import read_node
from fsm.simulate.run import simulate
from fsm.simulate.values import show_ms
from fsm.simulate.variants import vary

NAME, VIOLATED = "deployment", "violated"
reads = has_key("deployment")


def replay(document: Node, file: str, dialect: str | None) -> Iterator[Replay]:
    """Runs the deployment under its seed. Raises `InputError` with the line for an invalid one."""
    deployment = read_node(document, Path(file).parent)
    if dialect is not None and isinstance(deployment, Machines):
        raise InputError("machines of your own have no dialect", file, "leave --dialect out")
    if dialect is not None:
        deployment = vary(deployment, dialect)
    outcome = simulate(deployment, deployment.seed)
    steps = tuple(_steps(outcome, document.where))
    yield Replay(file, NAME, deployment.name, _list_rules(deployment), steps)


def _list_rules(deployment: Deployment | Machines) -> str:
    if isinstance(deployment, Machines):
        return ",".join(part.table.name for part in deployment.parts)
    return ",".join(sorted({broker.release for broker in deployment.brokers.values()}))


def _steps(outcome: Outcome, where: str) -> Iterator[Step]:
    for deed in outcome.deeds:
        lasts = f" for {show_ms(deed.for_ms)}" if deed.for_ms else ""
        yield Step(f"{show_ms(deed.at_ms)} {deed.what.replace('_', ' ')} {deed.target}{lasts}", where, {})
    violated = [
        f"{group} at {show_ms(one.at_ms)}: {one.what} {one.detail}".strip() for group, one in outcome.violations
    ]
    seen = {VIOLATED: show_list(violated), "hazards": show_list(outcome.hazards())}
    totals = outcome.totals()
    names = name_all(totals)
    lines = tuple(f"{show(name, totals[name])} {names[name]}" for name in totals if name in names)
    seen |= {name: str(totals[name]) for name in totals if name in names}
    nothing = Expected(VIOLATED, show_list(()), where, implied=True)
    yield Step(f"{show_ms(outcome.lasts_ms)} the end", where, seen, (nothing,), lines)
