"""A Connect cluster in the middle of a scenario: what a step does to it, what is seen afterwards, what was expected.

Seen and expected meet by the names of their fields: `round 1 W2 holds`, `W2 runs`, `broken`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from fsm.connect.simulation.cluster import Cluster
from fsm.connect.simulation.process import Ended, Ran, SeenRound
from fsm.connect.units import Unit
from fsm.errors import InputError
from fsm.nodes import Node, nearest
from fsm.scenario.connect_rounds import unit
from fsm.scenario.connect_stimuli import STIMULI, do
from fsm.scenario.steps import NOTHING, Expected
from fsm.scenario.story import Act, Seen
from fsm.scenario.words import listed, texts
from fsm.tables.connect_worker import State

STATES = (*State.__members__, "GONE")
"""Of a worker, or of a process that has ended."""
_ROUND = ("leader", "delay_ms", "version", "error")


class Story:
    """The stage: a cluster in the middle of its steps."""

    verbs = tuple(STIMULI)
    beside = ()
    implied: Mapping[str, str] = {"broken": listed(())}

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.origin_ms = cluster.now_ms
        self._mark()

    def _mark(self) -> None:
        """What comes from here on belongs to the next step."""
        cluster = self.cluster
        self._known = len(cluster.rounds), len(cluster.broken), len(cluster.ends), set(cluster.ran)

    @property
    def now_ms(self) -> int:
        """The cluster's time, from the beginning of the story."""
        return self.cluster.now_ms - self.origin_ms

    def do(self, act: Act) -> None:
        """A stimulus."""
        do(self.cluster, act.verb, act.value)

    def see(self) -> Seen:
        """The rounds of the step, the workers, and what broke."""
        cluster = self.cluster
        rounds, broken, ends, ran = self._known
        self._mark()
        fields = dict(self._seen(cluster.rounds[rounds:], cluster.broken[broken:]))
        lines = self._lines(cluster.rounds[rounds:], ran, cluster.ends[ends:], cluster.broken[broken:])
        return Seen(fields, tuple(lines))

    def expected(self, node: Node, seen: Mapping[str, str]) -> Iterator[Expected]:
        """What a step expects."""
        return _expected(node, seen)

    def _seen(self, rounds: list[SeenRound], broken: list[tuple[int, str]]) -> Iterator[tuple[str, str]]:
        yield "rounds", str(len(rounds))
        for number, each in enumerate(rounds, 1):
            for field in _ROUND:
                yield f"round {number} {field}", str(getattr(each, field))
            for worker in each.assigned:
                yield f"round {number} {worker} holds", shown(sorted(each.after(worker)))
                yield f"round {number} {worker} revoked", shown(sorted(each.revoked[worker]))
        for name, process in sorted(self.cluster.processes.items()):
            yield f"{name} state", process.worker.state.name if process.alive else "GONE"
            yield f"{name} holds", shown(sorted(process.worker.holds) if process.alive else ())
            yield f"{name} runs", shown(sorted(process.running))
        yield "configured", shown(sorted(self.cluster.topic.units))
        yield "at_rest", listed(self.cluster.find_problems()) if self.cluster.is_settled else NOTHING
        yield "broken", listed(dict.fromkeys(what for _, what in broken))

    def _lines(
        self, rounds: list[SeenRound], ran: set[Ran], ends: list[Ended], broken: list[tuple[int, str]]
    ) -> Iterator[str]:
        """What happened by its instants: rounds as the document prints them, what starts, stops, ends and breaks."""
        told = [(r.now_ms, line) for r in rounds for line in _round_lines(r)]
        told += self._moves(ran)
        told += [(end.now_ms, f"{end.worker}'s herder ends: {end.reason}") for end in ends]
        told += [(at_ms, f"broken: {what}") for at_ms, what in broken]
        last_ms = -1
        for at_ms, line in sorted(told, key=lambda each: each[0]):
            at = f"{at_ms - self.origin_ms:>6} ms" if at_ms != last_ms else " " * 9
            yield f"{at}  {line}"
            last_ms = at_ms

    def _moves(self, before: set[Ran]) -> Iterator[tuple[int, str]]:
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


def _round_lines(each: SeenRound) -> Iterator[str]:
    failed = ", failed: the leader lacks configs" if each.error else ""
    yield f"generation {each.generation}: {each.leader} leads, version {each.version}{failed}"
    for worker in each.assigned:
        held, revoked = shown(sorted(each.after(worker))), shown(sorted(each.revoked[worker]))
        yield f"{worker}(delay: {each.delay_ms}, assigned: {held}, revoked: {revoked})"


def shown(units: Iterable[Unit]) -> str:
    """Units as a text."""
    return listed(map(str, units))


# What is expected


def _expected(node: Node, seen: Mapping[str, str]) -> Iterator[Expected]:
    for name, (key, value) in node.mapping().items():
        if name == "rounds":
            yield from _expected_rounds(value)
        elif name in {"configured", "at_rest", "broken"}:
            said = texts(value)
            yield Expected(name, shown(sorted(map(unit, said))) if name == "configured" else listed(said), value.where)
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
                yield Expected(f"round {number} {name} {field}", shown(sorted(map(unit, texts(said)))), said.where)


def _expected_worker(name: str, node: Node) -> Iterator[Expected]:
    for field, said in node.fields(("state", "holds", "runs")).items():
        value = _state(said) if field == "state" else shown(sorted(map(unit, texts(said))))
        yield Expected(f"{name} {field}", value, said.where)


def _state(node: Node) -> str:
    if node.text() not in STATES:
        raise InputError(f"{node.text()[:60]!r} is no state of a worker", node.where, nearest(node.text(), STATES))
    return node.text()
