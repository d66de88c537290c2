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

`A` is the instance of a connector, `A-0` its first task. Stimuli: `start`, `stop`, `crash`, `bounce` (`{worker,
away_ms}`), `freeze`, `thaw`, `cut` and `heal` (the connection) of a worker; `create` and `scale` (`{A: 2}`), `delete`,
`stop_connector`, `pause`, `resume`, `reconfigure`, `restart` of a connector; `broker` (`down`, `up`); `wait` (ms);
`settle` (until no round is to come, `{most_ms}` at most). `start: {worker: W4, protocol: eager}` starts one of another
mode. A step may carry a `note`.

Expectations: `rounds` (`leader`, `delay_ms`, `version` 0 to 2, `error`, workers with `holds` after it and `revoked`),
workers by their names (`state`, `holds`, what really `runs`), `configured`, `at_rest` (what a settled cluster breaks)
and `broken`: invariants that did not hold. What a step does not name is not compared, but for `broken`: none is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from fsm.connect import dialect as dialects
from fsm.connect.cluster import Cluster
from fsm.connect.config import ConnectConfig
from fsm.connect.dialect import Profile
from fsm.connect.picture import of_cluster
from fsm.connect.process import Latencies, SeenRound
from fsm.connect.units import Unit, Units
from fsm.errors import InputError
from fsm.nodes import Node, nearest
from fsm.scenario.connect_rounds import unit
from fsm.scenario.connect_stimuli import STIMULI, do, placed, start, task_counts
from fsm.scenario.steps import NOTHING, Expected, Replay, Step
from fsm.scenario.words import listed, one_line, texts
from fsm.tables.connect_worker import State

NAME = "Connect cluster"
_KEYS = ("cluster", "dialect", "config", "latencies", "connectors", "workers", "steps")
_BESIDE = ("expect", "note")
_ROUND = ("leader", "delay_ms", "version", "error")
_GROUP = "connect"
STATES = (*State.__members__, "GONE")
"""Of a worker, or of a process that has ended."""
STEPS_LIMIT = 1_000


def reads(document: Node) -> bool:
    """Whether the document leads a cluster."""
    return isinstance(document.value, dict) and "cluster" in document.value


def replay(document: Node, file: str, dialect: str | None) -> Iterator[Replay]:
    """Leads the cluster through its steps. Raises `InputError` with the line for what is no part of a scenario."""
    given = document.fields(_KEYS, ("cluster", "steps"))
    profile = _profile(given, dialect)
    cluster = _cluster(given, profile)
    items = given["steps"].items()
    if not 0 < len(items) <= STEPS_LIMIT:
        raise InputError(f"{len(items)} steps", given["steps"].where, f"1 to {STEPS_LIMIT}")
    story = _Story(cluster)
    steps = tuple(story.step(item) for item in items)
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
        cluster.begin(task_counts(given["connectors"]), offset=1)
    if "workers" in given:
        _begin(cluster, given["workers"])
    return cluster


def _config(node: Node | None, profile: Profile) -> ConnectConfig:
    known = {f.name: str(f.type) for f in fields(ConnectConfig) if f.name not in {"group_id", "profile"}}
    said = node.fields(tuple(known)) if node is not None else {}
    values: dict[str, Any] = {n: v.number() if known[n] == "int" else v.text() for n, v in said.items()}
    try:
        return ConnectConfig(_GROUP, profile=profile, **values)
    except InputError as problem:
        raise placed(problem, node.where if node is not None else "") from None


def _latencies(node: Node | None) -> Latencies:
    said = node.fields(tuple(f.name for f in fields(Latencies))) if node is not None else {}
    for value in said.values():
        if value.number() < 1:
            raise InputError("everything takes its time", value.where, "at least 1 ms")
    return Latencies(**{name: value.number() for name, value in said.items()})


def _begin(cluster: Cluster, node: Node) -> None:
    """The workers as they are when the story begins: at rest with what they hold, the first one leading."""
    holdings = {name: (key, value, _units(cluster, value)) for name, (key, value) in node.mapping().items()}
    _refuse_doubles([(value, units) for _, value, units in holdings.values()])
    for key, _, units in holdings.values():
        start(cluster, key, "", units)
    if holdings and not cluster.settle():
        raise InputError("these workers do not come to rest", node.where)
    for name, (_, value, units) in holdings.items():
        kept = cluster.holdings()[name]
        if set(kept) != set(units):
            raise InputError(f"{name} comes to hold {_listed(sorted(kept))}", value.where, "balance the workers")


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


# How it goes


class _Story:
    """A cluster in the middle of its steps."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.origin_ms = cluster.now_ms

    def step(self, item: Node) -> Step:
        verb, said, beside = _parts(item)
        cluster, begun_ms = self.cluster, self.cluster.now_ms
        rounds, broken, ran = len(cluster.rounds), len(cluster.broken), set(cluster.ran)
        do(cluster, verb, said)
        seen = dict(self._seen(cluster.rounds[rounds:], cluster.broken[broken:]))
        lines = tuple(self._lines(cluster.rounds[rounds:], ran, cluster.broken[broken:]))
        expected = tuple(_expected(beside["expect"], seen)) if "expect" in beside else ()
        if not any(each.field == "broken" for each in expected):
            expected = (*expected, Expected("broken", listed(()), item.where, implied=True))
        note = beside["note"].text() if "note" in beside else ""
        told = "" if said.is_null else f" {one_line(said)}"
        title = f"{begun_ms - self.origin_ms:>6} ms  {verb.text()}{told}"
        return Step(title, item.where, seen, expected, (*((f"# {note}",) if note else ()), *lines), (), note)

    def _seen(self, rounds: list[SeenRound], broken: list[tuple[int, str]]) -> Iterator[tuple[str, str]]:
        yield "rounds", str(len(rounds))
        for number, each in enumerate(rounds, 1):
            for field in _ROUND:
                yield f"round {number} {field}", str(getattr(each, field))
            for worker in each.assigned:
                yield f"round {number} {worker} holds", _listed(sorted(each.after(worker)))
                yield f"round {number} {worker} revoked", _listed(sorted(each.revoked[worker]))
        for name, process in sorted(self.cluster.processes.items()):
            yield f"{name} state", process.worker.state.name if process.alive else "GONE"
            yield f"{name} holds", _listed(sorted(process.worker.holds) if process.alive else ())
            yield f"{name} runs", _listed(sorted(process.running))
        yield "configured", _listed(sorted(self.cluster.topic.units))
        yield "at_rest", listed(self.cluster.rest()) if self.cluster.is_settled else NOTHING
        yield "broken", listed(dict.fromkeys(what for _, what in broken))

    def _lines(self, rounds: list[SeenRound], ran: set[Any], broken: list[tuple[int, str]]) -> Iterator[str]:
        """What happened, by its instants: rounds as the document prints them, what starts and stops, what breaks."""
        told = [(r.now_ms, line) for r in rounds for line in _round_lines(r)]
        told += self._moves(ran)
        told += [(at_ms, f"broken: {what}") for at_ms, what in broken]
        last_ms = -1
        for at_ms, line in sorted(told, key=lambda each: each[0]):
            at = f"{at_ms - self.origin_ms:>6} ms" if at_ms != last_ms else " " * 9
            yield f"{at}  {line}"
            last_ms = at_ms

    def _moves(self, before: set[Any]) -> Iterator[tuple[int, str]]:
        moves: dict[tuple[int, str, str], list[Unit]] = {}
        known = {(r.unit, r.worker, r.start_ms) for r in before}
        for each in set(self.cluster.ran) - before:
            if (each.unit, each.worker, each.start_ms) not in known:
                moves.setdefault((each.start_ms, each.worker, "starts"), []).append(each.unit)
            if each.end_ms is not None:
                moves.setdefault((each.end_ms, each.worker, "stops"), []).append(each.unit)
        for (at_ms, worker, verb), units in sorted(
            moves.items(), key=lambda move: (move[0][0], move[0][2] == "starts")
        ):
            yield at_ms, f"{worker} {verb} {', '.join(map(str, sorted(units)))}"


def _parts(item: Node) -> tuple[Node, Node, dict[str, Node]]:
    """The verb of a step, what is said with it, and what stands beside it."""
    if isinstance(item.value, str):
        return item, Node("", item.where, item.label, plain=True), {}
    mapping = item.mapping()
    beside = {name: value for name, (_, value) in mapping.items() if name in _BESIDE}
    verbs = [pair for name, pair in mapping.items() if name not in _BESIDE]
    if len(verbs) != 1:
        raise InputError(f"a step does one thing, not {len(verbs)}", item.where, f"one of {', '.join(STIMULI)}")
    return (*verbs[0], beside)


def _round_lines(each: SeenRound) -> Iterator[str]:
    failed = ", failed: the leader lacks configs" if each.error else ""
    yield f"generation {each.generation}: {each.leader} leads, version {each.version}{failed}"
    for worker in each.assigned:
        held, revoked = _listed(sorted(each.after(worker))), _listed(sorted(each.revoked[worker]))
        yield f"{worker}(delay: {each.delay_ms}, assigned: {held}, revoked: {revoked})"


def _listed(units: Iterable[Unit]) -> str:
    return listed(map(str, units))


# What is expected


def _expected(node: Node, seen: Mapping[str, str]) -> Iterator[Expected]:
    for name, (key, value) in node.mapping().items():
        if name == "rounds":
            yield from _expected_rounds(value)
        elif name in {"configured", "at_rest", "broken"}:
            said = texts(value)
            yield Expected(
                name, _listed(sorted(map(unit, said))) if name == "configured" else listed(said), value.where
            )
        elif f"{name} state" in seen:
            yield from _expected_worker(name, value)
        else:
            workers = tuple(field.removesuffix(" state") for field in seen if field.endswith(" state"))
            known = (*workers, "rounds", "configured", "at_rest", "broken")
            raise InputError(f"no worker is called {name[:60]!r}", key.where, nearest(name, known))


def _expected_rounds(node: Node) -> Iterator[Expected]:
    if not isinstance(node.value, list):
        yield Expected("rounds", str(node.number()), node.where)
        return
    yield Expected("rounds", str(len(node.value)), node.where)
    for number, each in enumerate(node.value, 1):
        for name, (_, value) in each.mapping().items():
            if name in _ROUND:
                yield Expected(f"round {number} {name}", value.text(), value.where)
                continue
            for field, said in value.fields(("holds", "revoked")).items():
                yield Expected(f"round {number} {name} {field}", _listed(sorted(map(unit, texts(said)))), said.where)


def _expected_worker(name: str, node: Node) -> Iterator[Expected]:
    for field, said in node.fields(("state", "holds", "runs")).items():
        value = _state(said) if field == "state" else _listed(sorted(map(unit, texts(said))))
        yield Expected(f"{name} {field}", value, said.where)


def _state(node: Node) -> str:
    if node.text() not in STATES:
        raise InputError(f"{node.text()[:60]!r} is no state of a worker", node.where, nearest(node.text(), STATES))
    return node.text()
