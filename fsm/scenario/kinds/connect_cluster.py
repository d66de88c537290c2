"""A whole Kafka Connect cluster: workers on a coordinator under a virtual clock, led by stimuli alone.

    cluster: a worker bounces, and its work waits for it     # what it shows; marks this kind of scenario
    dialect: shipped               # or document; --dialect overrides it
    config: {scheduled_rebalance_max_delay_ms: 60000, connect_protocol: compatible}  # Kafka's settings in snake case
    latencies: {start_ms: 5}       # how long things take: network_ms, start_ms, stop_ms, read_ms, task_configs_ms
    connectors: {A: 2, B: 1}       # what there is to begin with: connectors with the number of their tasks
    workers: {W1: [A, A-0], W2: [A-1, B], W3: [B-0]}         # who is there, and holds what; the first one leads
    steps:
    - bounce: {worker: W2, away_ms: 30000}
    - wait: 20000
      expect:
        rounds:                    # of this step, all of them; or how many there are
        - {leader: W1, delay_ms: 60000, W1: {holds: [A, A-0], revoked: []}, W3: {holds: [B-0]}}
        W1: {state: DELAYED, holds: [A, A-0], runs: [A, A-0]}
    - settle

`A` is the instance of a connector, `A-0` its first task. Stimuli: `start`, `stop`, `crash`, `fail` (of its thread),
`bounce` (`{worker, away_ms}`), `freeze`, `thaw`, `cut` and `heal` (its connection) of a worker; `create` and `scale`
(`{A: 2}`), `delete`, `stop_connector`, `pause`, `resume`, `reconfigure`, `restart` of a connector; `broker` (`down`,
`up`); `wait` (ms); `settle` (until no round is to come, `{most_ms}` at most). `start: {worker: W4, protocol: eager}`
starts one of another mode. A step may carry a `note`.

Expectations: `rounds` (`leader`, `delay_ms`, `version` 0 to 2, `error`, workers with `holds` after it and `revoked`),
workers by their names (`state`, `holds`, what really `runs`), `configured`, `at_rest` (what a settled cluster breaks)
and `broken`: invariants that did not hold. What a step does not name is not compared, but for `broken`: none is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from fsm.connect import dialect as dialects
from fsm.connect.dialect import Profile
from fsm.connect.simulation.cluster import Cluster
from fsm.connect.simulation.picture import of_cluster
from fsm.connect.simulation.process import Latencies
from fsm.connect.units import Unit, Units
from fsm.connect.worker.config import ConnectConfig
from fsm.errors import InputError
from fsm.nodes import Node, nearest
from fsm.scenario.connect_rounds import unit
from fsm.scenario.connect_stimuli import placed, start, task_counts
from fsm.scenario.connect_story import Story, shown
from fsm.scenario.steps import Replay
from fsm.scenario.story import play
from fsm.scenario.words import of_setting, texts

NAME = "Connect cluster"
_KEYS = ("cluster", "dialect", "config", "latencies", "connectors", "workers", "steps")
_GROUP = "connect"
STEPS_LIMIT = 1_000


def reads(document: Node) -> bool:
    """Whether the document leads a cluster."""
    return isinstance(document.value, dict) and "cluster" in document.value


def replay(document: Node, file: str, dialect: str | None) -> Iterator[Replay]:
    """Leads the cluster through its steps. Raises `InputError` with the line for what is no part of a scenario."""
    given = document.fields(_KEYS, ("cluster", "steps"))
    profile = _profile(given, dialect)
    cluster = _cluster(given, profile)
    story = Story(cluster)
    steps = play(story, given["steps"], STEPS_LIMIT)
    yield Replay(file, NAME, given["cluster"].text(), profile.name, steps, of_cluster(cluster, story.origin_ms))


# How it begins


def _profile(given: Mapping[str, Node], dialect: str | None) -> Profile:
    if dialect is not None or "dialect" not in given:
        return dialects.SHIPPED if dialect is None else dialects.profile(dialect)
    try:
        return dialects.profile(given["dialect"].text())
    except InputError as problem:
        raise placed(problem, given["dialect"].where) from None


def _cluster(given: Mapping[str, Node], profile: Profile) -> Cluster:
    cluster = Cluster(_config(given.get("config"), profile), _latencies(given.get("latencies")))
    if "connectors" in given:
        cluster.begin(task_counts(given["connectors"], cluster), offset=1)
    if "workers" in given:
        _begin(cluster, given["workers"])
    return cluster


def _config(node: Node | None, profile: Profile) -> ConnectConfig:
    known = {f.name: str(f.type) for f in fields(ConnectConfig) if f.type in ("int", "str") and f.name != "group_id"}
    said = node.fields(tuple(known)) if node is not None else {}
    values: dict[str, Any] = {}
    for name, value in said.items():
        with of_setting(name):
            values[name] = value.number() if known[name] == "int" else value.text()
    try:
        return ConnectConfig(_GROUP, profile=profile, **values)
    except InputError as problem:
        raise placed(problem, node.where if node is not None else "") from None


def _latencies(node: Node | None) -> Latencies:
    said = node.fields(tuple(f.name for f in fields(Latencies))) if node is not None else {}
    for name, value in said.items():
        with of_setting(name):
            if value.number() < 1:
                raise InputError("everything takes its time", value.where, "at least 1 ms")
    return Latencies(**{name: value.number() for name, value in said.items()})


def _begin(cluster: Cluster, node: Node) -> None:
    """The workers as they are when the story begins: at rest with what they hold, the first one leading."""
    holdings = {name: (key, value, _units(cluster, value)) for name, (key, value) in node.mapping().items()}
    _refuse_doubles([(value, units) for _, value, units in holdings.values()])
    idle = cluster.topic.units.difference(*(units for _, _, units in holdings.values()))
    if holdings and idle:
        remedy = "list all that is configured, or leave connectors out and `create` them in a step"
        raise InputError(f"nobody holds {shown(sorted(idle))}", node.where, remedy)
    for key, _, units in holdings.values():
        start(cluster, key, "", units)
    if holdings and not cluster.settle():
        raise InputError("these workers do not come to rest", node.where)
    for name, (_, value, units) in holdings.items():
        kept = cluster.holdings()[name]
        if set(kept) != set(units):
            raise InputError(f"{name} comes to hold {shown(sorted(kept))}", value.where, "balance the workers")


def _refuse_doubles(holdings: list[tuple[Node, Units]]) -> None:
    held: set[Unit] = set()
    for value, units in holdings:
        for each in units:
            if each in held:
                raise InputError(f"{each} is held twice", value.where, "give it to one worker")
            held.add(each)


def _units(cluster: Cluster, node: Node) -> Units:
    found = tuple(map(unit, texts(node)))
    for item, each in zip(node.items(), found, strict=True):
        if each not in cluster.topic.units:
            known = tuple(map(str, sorted(cluster.topic.units)))
            raise InputError(f"no unit {item.text()[:60]!r} is configured", item.where, nearest(item.text(), known))
    return found
