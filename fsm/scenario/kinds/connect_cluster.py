"""A whole Kafka Connect cluster: workers and a coordinator under a virtual clock, driven only by stimuli.

    cluster: a worker bounces, and its work waits for it     # what it shows; marks this kind of scenario
    dialect: shipped               # or document; --dialect overrides it
    config: {scheduled_rebalance_max_delay_ms: 60000, connect_protocol: compatible}  # Kafka's settings in snake case
    latencies: {start_ms: 5}       # durations: network_ms, start_ms, stop_ms, read_ms, task_configs_ms
    connectors: {A: 2, B: 1}       # initially: connectors with their numbers of tasks
    workers: {W1: [A, A-0], W2: [A-1, B], W3: [B-0]}         # initial workers with their units; the first one leads
    steps:
    - bounce: {worker: W2, away_ms: 30000}
    - wait: 20000
      expect:
        rounds:                    # all rounds of this step; or their number
        - {leader: W1, delay_ms: 60000, W1: {holds: [A, A-0], revoked: []}, W3: {holds: [B-0]}}
        W1: {state: DELAYED, holds: [A, A-0], runs: [A, A-0]}
    - settle

`A` is the instance of a connector, `A-0` its first task. Stimuli: `start`, `stop`, `crash`, `fail` (of its thread),
`bounce` (`{worker, away_ms}`), `freeze`, `thaw`, `cut` and `heal` (its connection) of a worker; `create` and `scale`
(`{A: 2}`), `delete`, `stop_connector`, `pause`, `resume`, `reconfigure`, `restart` of a connector; `broker` (`down`,
`up`); `wait` (ms); `settle` (until no round is due, at most `{most_ms}`). `start: {worker: W4, protocol: eager}` starts
one of another mode. A step may carry a `note`.

Expectations: `rounds` (`leader`, `delay_ms`, `version` 0 to 2, `error`, workers with `holds` after it and `revoked`),
workers by their names (`state`, `holds`, what really `runs`), `configured`, `at_rest` (violations in a settled cluster)
and `broken`: violated invariants. Fields that a step does not name are not compared, except `broken`: it must be empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from fsm.connect import dialect as dialects
from fsm.connect.dialect import Profile
from fsm.connect.simulation.cluster import Cluster
from fsm.connect.simulation.process import Ended, Latencies, Ran, SeenRound
from fsm.connect.units import Unit, Units
from fsm.connect.worker.config import ConnectConfig
from fsm.errors import InputError
from fsm.nodes import Node, nearest
from fsm.scenario.reading import has_key, name_setting, place, read_dialect
from fsm.scenario.story import Act, Expected, Replay, Seen, Stage, play, read_steps
from fsm.scenario.texts import NOTHING, read_known, read_ms, read_texts, read_units, show_list, show_units
from fsm.tables.connect_worker import State

NAME = "Connect cluster"
_KEYS = ("cluster", "dialect", "config", "latencies", "connectors", "workers", "steps")
_GROUP = "connect"
STEPS_LIMIT = 1_000
WAIT_LIMIT_MS = 3_600_000
"""The maximum length of a step, an hour: every worker sends a heartbeat every three seconds of it."""
UNITS_LIMIT = 10_000
WORKERS_LIMIT = 50
STATES = (*State.__members__, "GONE")
"""The states of a worker, and that of a process that has ended."""
_ROUND = ("leader", "delay_ms", "version", "error")
reads = has_key("cluster")


def replay(document: Node, file: str, dialect: str | None) -> Iterator[Replay]:
    """Drives the cluster through its steps. Raises `InputError` with the line for an invalid part of the scenario."""
    given = document.fields(_KEYS, ("cluster", "steps"))
    profile = read_dialect(given, dialect, dialects.profile)
    stage = ConnectCluster(_make_cluster(given, profile))
    steps = play(stage, read_steps(given["steps"], STEPS_LIMIT))
    picture = stage.cluster.picture(stage.started_ms)
    yield Replay(file, NAME, given["cluster"].text(), profile.name, steps, picture)


# The initial state


def _make_cluster(given: Mapping[str, Node], profile: Profile) -> Cluster:
    cluster = Cluster(_read_config(given.get("config"), profile), _read_latencies(given.get("latencies")))
    if "connectors" in given:
        cluster.begin(read_task_counts(given["connectors"], cluster), offset=1)
    if "workers" in given:
        _start_workers(cluster, given["workers"])
    return cluster


def _read_config(node: Node | None, profile: Profile) -> ConnectConfig:
    known = {f.name: str(f.type) for f in fields(ConnectConfig) if f.type in ("int", "str") and f.name != "group_id"}
    given = node.fields(tuple(known)) if node is not None else {}
    values: dict[str, Any] = {}
    for name, value in given.items():
        with name_setting(name):
            values[name] = value.number() if known[name] == "int" else value.text()
    try:
        return ConnectConfig(_GROUP, profile=profile, **values)
    except InputError as problem:
        raise place(problem, node.where if node is not None else "") from None


def _read_latencies(node: Node | None) -> Latencies:
    given = node.fields(tuple(f.name for f in fields(Latencies))) if node is not None else {}
    for name, value in given.items():
        with name_setting(name):
            if value.number() < 1:
                raise InputError("must not be 0", value.where, "give at least 1 ms")
    return Latencies(**{name: value.number() for name, value in given.items()})


def _start_workers(cluster: Cluster, node: Node) -> None:
    """The initial workers: idle with their units, the first one leading."""
    assignments = {name: (key, value, _read_units(cluster, value)) for name, (key, value) in node.mapping().items()}
    _check_doubles([(value, units) for _, value, units in assignments.values()])
    idle = cluster.topic.units.difference(*(units for _, _, units in assignments.values()))
    if assignments and idle:
        remedy = "list all that is configured, or leave connectors out and `create` them in a step"
        raise InputError(f"nobody holds {show_units(sorted(idle))}", node.where, remedy)
    for key, _, units in assignments.values():
        _start_worker(cluster, key, "", units)
    if assignments and not cluster.settle():
        raise InputError("these workers do not settle", node.where)
    for name, (_, value, units) in assignments.items():
        kept = cluster.assignments()[name]
        if set(kept) != set(units):
            raise InputError(f"{name} comes to hold {show_units(sorted(kept))}", value.where, "balance the workers")


def _check_doubles(assignments: list[tuple[Node, Units]]) -> None:
    held: set[Unit] = set()
    for value, units in assignments:
        for each in units:
            if each in held:
                raise InputError(f"{each} is held twice", value.where, "give it to one worker")
            held.add(each)


def _read_units(cluster: Cluster, node: Node) -> Units:
    found = read_units(read_texts(node))
    for item, each in zip(node.items(), found, strict=True):
        if each not in cluster.topic.units:
            known = tuple(map(str, sorted(cluster.topic.units)))
            raise InputError(f"no unit {item.text()[:60]!r} is configured", item.where, nearest(item.text(), known))
    return found


class ConnectCluster(Stage):
    """The stage: a cluster in the middle of its steps."""

    implied: Mapping[str, str] = {"broken": show_list(())}

    def __init__(self, cluster: Cluster) -> None:
        self.verbs = tuple(STIMULI)
        self.cluster = cluster
        self.started_ms = cluster.now_ms
        self._mark()

    def _mark(self) -> None:
        """Marks the beginning of the next step."""
        cluster = self.cluster
        self._known = len(cluster.rounds), len(cluster.broken), len(cluster.ends), set(cluster.ran)

    @property
    def now_ms(self) -> int:
        return self.cluster.now_ms - self.started_ms

    def do(self, act: Act) -> None:
        try:
            STIMULI[act.verb](self.cluster, act.value)
        except InputError as problem:
            raise place(problem, act.value.where) from None

    def see(self) -> Seen:
        cluster = self.cluster
        rounds, broken, ends, ran = self._known
        self._mark()
        seen = dict(self._fields(cluster.rounds[rounds:], cluster.broken[broken:]))
        lines = self._lines(cluster.rounds[rounds:], ran, cluster.ends[ends:], cluster.broken[broken:])
        return Seen(seen, lines)

    def expect(self, node: Node, seen: Mapping[str, str]) -> Iterator[Expected]:
        for name, (key, value) in node.mapping().items():
            if name == "rounds":
                yield from _expect_rounds(value)
            elif name == "configured":
                yield Expected(name, _sort_units(value), value.where)
            elif name in {"at_rest", "broken"}:
                yield Expected(name, show_list(read_texts(value)), value.where)
            elif f"{name} state" in seen:
                for field, each in value.fields(("state", "holds", "runs")).items():
                    is_state = field == "state"
                    text = read_known(each, STATES, "state of a worker") if is_state else _sort_units(each)
                    yield Expected(f"{name} {field}", text, each.where)
            else:
                workers = tuple(field.removesuffix(" state") for field in seen if field.endswith(" state"))
                known = (*workers, "rounds", "configured", "at_rest", "broken")
                raise InputError(f"no worker is called {name[:60]!r}", key.where, nearest(name, known))

    def _fields(self, rounds: list[SeenRound], broken: list[tuple[int, str]]) -> Iterator[tuple[str, str]]:
        yield "rounds", str(len(rounds))
        for number, each in enumerate(rounds, 1):
            for field in _ROUND:
                yield f"round {number} {field}", str(getattr(each, field))
            for worker in each.assigned:
                yield f"round {number} {worker} holds", show_units(sorted(each.after(worker)))
                yield f"round {number} {worker} revoked", show_units(sorted(each.revoked[worker]))
        for name, process in sorted(self.cluster.processes.items()):
            yield f"{name} state", process.worker.state.name if process.alive else "GONE"
            yield f"{name} holds", show_units(sorted(process.worker.holds) if process.alive else ())
            yield f"{name} runs", show_units(sorted(process.running))
        yield "configured", show_units(sorted(self.cluster.topic.units))
        yield "at_rest", show_list(self.cluster.find_problems()) if self.cluster.is_settled else NOTHING
        yield "broken", show_list(dict.fromkeys(what for _, what in broken))

    def _lines(
        self, rounds: list[SeenRound], ran: set[Ran], ends: list[Ended], broken: list[tuple[int, str]]
    ) -> Iterator[str]:
        """The events by time: rounds in the document's format, starts, stops, ends and violations."""
        lines = [(r.now_ms, line) for r in rounds for line in _round_lines(r)]
        lines += self._moves(ran)
        lines += [(end.now_ms, f"{end.worker}'s herder ends: {end.reason}") for end in ends]
        lines += [(at_ms, f"broken: {what}") for at_ms, what in broken]
        last_ms = -1
        for at_ms, line in sorted(lines, key=lambda each: each[0]):
            at = f"{at_ms - self.started_ms:>6} ms" if at_ms != last_ms else " " * 9
            yield f"{at}  {line}"
            last_ms = at_ms

    def _moves(self, before: set[Ran]) -> Iterator[tuple[int, str]]:
        moves: dict[tuple[int, bool, str], list[Unit]] = {}
        known = {(r.unit, r.worker, r.start_ms) for r in before}
        for each in set(self.cluster.ran) - before:
            if (each.unit, each.worker, each.start_ms) not in known:
                moves.setdefault((each.start_ms, True, each.worker), []).append(each.unit)
            if each.end_ms is not None:
                moves.setdefault((each.end_ms, False, each.worker), []).append(each.unit)
        for (at_ms, starts, worker), units in sorted(moves.items()):
            verb = "starts" if starts else "stops"
            yield at_ms, f"{worker} {verb} {', '.join(map(str, sorted(units)))}"


def _round_lines(each: SeenRound) -> Iterator[str]:
    failed = ", failed: the leader lacks configs" if each.error else ""
    yield f"generation {each.generation}: {each.leader} leads, version {each.version}{failed}"
    for worker in each.assigned:
        held, revoked = show_units(sorted(each.after(worker))), show_units(sorted(each.revoked[worker]))
        yield f"{worker}(delay: {each.delay_ms}, assigned: {held}, revoked: {revoked})"


# Expectations


def _expect_rounds(node: Node) -> Iterator[Expected]:
    if not isinstance(node.value, list):
        yield Expected("rounds", str(node.number()), node.where)
        return
    yield Expected("rounds", str(len(node.value)), node.where)
    for number, each in enumerate(node.value, 1):
        for name, (_, value) in each.mapping().items():
            if name in _ROUND:
                yield Expected(f"round {number} {name}", value.text(), value.where)
                continue
            for field, units in value.fields(("holds", "revoked")).items():
                yield Expected(f"round {number} {name} {field}", _sort_units(units), units.where)


def _sort_units(node: Node) -> str:
    return show_units(sorted(read_units(read_texts(node))))


# Stimuli


def _start(cluster: Cluster, node: Node) -> None:
    if not isinstance(node.value, dict):
        _start_worker(cluster, node, "")
        return
    given = node.fields(("worker", "protocol"), ("worker",))
    _start_worker(cluster, given["worker"], given["protocol"].text() if "protocol" in given else "")


def _start_worker(cluster: Cluster, name: Node, protocol: str, holding: Units = ()) -> None:
    """Starts a worker, possibly with units. Raises `InputError` for an invalid name, and for too many workers."""
    if not name.text() or not name.text().isprintable() or len(name.text()) > 60:
        raise InputError(f"{name.text()[:60]!r} cannot be the name of a worker", name.where)
    if name.text() not in cluster.processes and len(cluster.processes) >= WORKERS_LIMIT:
        raise InputError(f"more than {WORKERS_LIMIT} workers", name.where)
    cluster.start(name.text(), protocol, holding)


def _bounce(cluster: Cluster, node: Node) -> None:
    given = node.fields(("worker", "away_ms"), ("worker", "away_ms"))
    cluster.bounce(given["worker"].text(), read_ms(given["away_ms"], WAIT_LIMIT_MS))


def _create(cluster: Cluster, node: Node) -> None:
    for name, tasks in read_task_counts(node, cluster).items():
        cluster.create(name, tasks)


def _scale(cluster: Cluster, node: Node) -> None:
    for name, tasks in read_task_counts(node, cluster).items():
        cluster.scale(name, tasks)


def read_task_counts(node: Node, cluster: Cluster) -> dict[str, int]:
    """Connectors with their numbers of tasks. Raises `InputError` for an invalid number, and for too many."""
    found = {}
    for name, (_, value) in node.mapping().items():
        found[name] = value.number()
        if not 0 <= found[name] <= UNITS_LIMIT:
            raise InputError(f"{found[name]} tasks", value.where, f"0 to {UNITS_LIMIT}")
    wanted = {**cluster.connectors.wanted, **found}
    if len(wanted) + sum(wanted.values()) > UNITS_LIMIT:
        raise InputError(f"more than {UNITS_LIMIT} connectors and tasks", node.where)
    return found


def _broker(cluster: Cluster, node: Node) -> None:
    if node.text() not in {"down", "up"}:
        raise InputError(f"{node.text()[:60]!r} is neither down nor up", node.where)
    if node.text() == "down":
        cluster.broker_down()
    else:
        cluster.broker_back()


def _settle(cluster: Cluster, node: Node) -> None:
    given = {} if node.is_null else node.fields(("most_ms",))
    if not cluster.settle(*(read_ms(most, WAIT_LIMIT_MS) for most in given.values())):
        raise InputError("the cluster does not settle", node.where, "wait instead, or raise most_ms")


def _with_name(do: Callable[[Cluster, str], None]) -> Callable[[Cluster, Node], None]:
    return lambda cluster, node: do(cluster, node.text())


STIMULI: Mapping[str, Callable[[Cluster, Node], None]] = {
    "start": _start,
    "stop": _with_name(Cluster.stop),
    "crash": _with_name(Cluster.crash),
    "fail": _with_name(Cluster.fail),
    "bounce": _bounce,
    "freeze": _with_name(Cluster.freeze),
    "thaw": _with_name(Cluster.thaw),
    "cut": _with_name(Cluster.cut),
    "heal": _with_name(Cluster.heal),
    "create": _create,
    "scale": _scale,
    "delete": _with_name(Cluster.delete),
    "stop_connector": _with_name(Cluster.stop_connector),
    "pause": _with_name(Cluster.pause),
    "resume": _with_name(Cluster.resume),
    "reconfigure": _with_name(Cluster.reconfigure),
    "restart": _with_name(Cluster.restart),
    "broker": _broker,
    "wait": lambda cluster, node: cluster.run_for(read_ms(node, WAIT_LIMIT_MS)),
    "settle": _settle,
}
