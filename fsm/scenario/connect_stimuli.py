"""What a scenario can do to a whole Connect cluster: a verb, and what is said with it.

start: W4                        # a process starts; {worker: W4, protocol: eager} for one of another mode
stop: W2                         # it stops its units, leaves the group, and ends
crash: W2                        # it dies without a word
bounce: {worker: W2, away_ms: 30000}
freeze: W2, thaw: W2             # it stands still with what runs in it, and goes on
cut: W2, heal: W2                # its connection to the broker
create: {A: 2}, scale: {A: 4}    # connectors with the number of their tasks
delete: A, stop_connector: A, pause: A, resume: A
reconfigure: A                   # new configs for its tasks, as many as before
restart: A                       # the instance and its tasks, where they are
broker: down, broker: up
wait: 60000                      # time passes
settle                           # until there is no round to come; {most_ms: 600000} bounds it, an hour by itself
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fsm.connect.simulation.cluster import Cluster
from fsm.connect.units import Units
from fsm.errors import InputError
from fsm.nodes import Node

WAIT_LIMIT_MS = 3_600_000
"""More than an hour is no step: every worker has a heartbeat every three seconds of it."""
UNITS_LIMIT = 10_000
WORKERS_LIMIT = 50
Stimulus = Callable[[Cluster, Node], None]


def _start(cluster: Cluster, node: Node) -> None:
    if not isinstance(node.value, dict):
        start(cluster, node, "")
        return
    given = node.fields(("worker", "protocol"), ("worker",))
    start(cluster, given["worker"], given["protocol"].text() if "protocol" in given else "")


def start(cluster: Cluster, name: Node, protocol: str, holding: Units = ()) -> None:
    """A worker starts, with what it may hold. Raises `InputError` for a name that is none, and for one too many."""
    if not name.text() or not name.text().isprintable() or len(name.text()) > 60:
        raise InputError(f"{name.text()[:60]!r} is no name of a worker", name.where)
    if name.text() not in cluster.processes and len(cluster.processes) >= WORKERS_LIMIT:
        raise InputError(f"more than {WORKERS_LIMIT} workers", name.where)
    cluster.start(name.text(), protocol, holding)


def _bounce(cluster: Cluster, node: Node) -> None:
    given = node.fields(("worker", "away_ms"), ("worker", "away_ms"))
    cluster.bounce(given["worker"].text(), _ms(given["away_ms"]))


def _create(cluster: Cluster, node: Node) -> None:
    for name, tasks in task_counts(node, cluster).items():
        cluster.create(name, tasks)


def _scale(cluster: Cluster, node: Node) -> None:
    for name, tasks in task_counts(node, cluster).items():
        cluster.scale(name, tasks)


def task_counts(node: Node, cluster: Cluster) -> dict[str, int]:
    """Connectors with the number of their tasks. Raises `InputError` for a number that cannot be, and for too many."""
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


def _wait(cluster: Cluster, node: Node) -> None:
    cluster.run_for(_ms(node))


def _settle(cluster: Cluster, node: Node) -> None:
    given = {} if node.is_null else node.fields(("most_ms",))
    if not cluster.settle(*map(_ms, given.values())):
        raise InputError("the cluster does not come to rest", node.where, "wait instead, or say most_ms: more")


def _ms(node: Node) -> int:
    if not 0 <= node.number() <= WAIT_LIMIT_MS:
        raise InputError(f"{node.number()} ms", node.where, f"0 to {WAIT_LIMIT_MS}")
    return node.number()


def _named(do: Callable[[Cluster, str], None]) -> Stimulus:
    return lambda cluster, node: do(cluster, node.text())


STIMULI: Mapping[str, Stimulus] = {
    "start": _start,
    "stop": _named(Cluster.stop),
    "crash": _named(Cluster.crash),
    "fail": _named(Cluster.fail),
    "bounce": _bounce,
    "freeze": _named(Cluster.freeze),
    "thaw": _named(Cluster.thaw),
    "cut": _named(Cluster.cut),
    "heal": _named(Cluster.heal),
    "create": _create,
    "scale": _scale,
    "delete": _named(Cluster.delete),
    "stop_connector": _named(Cluster.stop_connector),
    "pause": _named(Cluster.pause),
    "resume": _named(Cluster.resume),
    "reconfigure": _named(Cluster.reconfigure),
    "restart": _named(Cluster.restart),
    "broker": _broker,
    "wait": _wait,
    "settle": _settle,
}


def do(cluster: Cluster, verb: str, said: Node) -> None:
    """Does it. Raises `InputError` with the line for a stimulus that makes no sense now."""
    try:
        STIMULI[verb](cluster, said)
    except InputError as problem:
        raise placed(problem, said.where) from None


def placed(problem: InputError, where: str) -> InputError:
    """The error with a line of the file: its own, or this one, what it named instead of a line going into its words."""
    if problem.where.rpartition(":")[2].isdigit():
        return problem
    what = f"{problem.where}: {problem.what}" if problem.where else problem.what
    return InputError(what, where, problem.remedy)
