"""A model: components, the wires between them, properties, and disturbances.

A component is an initial state, its choices, and a pure step function; all else is optional. Its states, inputs and
messages are hashable values.

    light = Component("light", "red", lambda state: [Choice("turns")], lambda state, given: Step(NEXT[state]))
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from fsm.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from fsm.table import Table

    Mask = npt.NDArray[np.bool_]
    Integers = npt.NDArray[np.int64]

State = Any
"""A state of a component: a hashable value."""


class Choice(NamedTuple):
    """A step that a component may take without receiving a message."""

    label: str
    given: Hashable = None
    """The input of the step; the label if it is None."""
    disturbance: str = ""
    """The kind of disturbance, if it is one: it happens only if that kind is enabled, and costs one."""
    free_when: str = ""
    """A condition of the model under which it costs nothing, and happens even if its kind is disabled."""


class Action(NamedTuple):
    """A step of a path, for reports."""

    actor: str
    """The component that takes it; empty if a message is lost without notice."""
    what: str
    disturbance: str = ""
    sender: str = ""
    receiver: str = ""
    message: Any = None
    """The message that it is about, with the ends of its wire; both are empty if it is about none."""


class Received(NamedTuple):
    """The input of a component that a message reaches."""

    sender: str
    message: Any
    late: bool = False
    """Whether its sender has given up on it."""


class Undelivered(NamedTuple):
    """The input of a component that gives up on a message it sent."""

    receiver: str
    message: Any


class Missed(NamedTuple):
    """The input of a component that gives up on a message it was to receive."""

    sender: str
    message: Any


class Step(NamedTuple):
    """The result of a component's step."""

    state: State
    sends: Sequence[tuple[str, Any]] = ()
    """(receiver, message), in order."""
    broken: Sequence[str] = ()
    """Names of the local properties that this step breaks."""
    hangs_up: bool = False
    """Whether its wires break: sent messages become late if the wire allows that; all others are lost."""


class InState(NamedTuple):
    """A state of a table, by name, in which a machine is."""

    table: str
    state: str
    of: str = ""
    """The name of the machine, if the component has several."""


class Look(NamedTuple):
    """A state in detail."""

    states: Sequence[InState] = ()
    fields: Sequence[tuple[str, str]] = ()
    """(name, value)"""
    queues: Sequence[tuple[str, Sequence[str]]] = ()
    """(name, items), the first to be taken first."""


@dataclass(frozen=True, slots=True)
class Component:
    """A participant that takes steps."""

    name: str
    start: State
    choices: Callable[[State], Iterable[Choice]]
    step: Callable[[State, Any], Step]
    """The step on an input: a choice's `given`, `Received`, `Undelivered` or `Missed`. A pure function."""
    features: Mapping[str, Callable[[State], int]] = field(default_factory=dict)
    """Numbers for properties; each is computed once per distinct state."""
    key: Callable[[State], Hashable] | None = None
    """The identity of a state; the state itself by default. Different states with one key are refused."""
    sort: Callable[[State], State] | None = None
    """Restores the order of what a state keeps sorted by names, after `Symmetry` has exchanged the names."""
    describe: Callable[[State], str] = str
    """A state on one line."""
    look: Callable[[State], Look] | None = None
    """A state in detail."""
    role: str = "component"
    """Its role: `member`, `coordinator`, `worker`, `topics`, `table`."""
    tables: Sequence[Table] = ()
    """The tables that it runs."""


class Fault(Enum):
    """What can happen to a message."""

    LOSE = "lost"
    """It never arrives."""
    LATE = "late"
    """It is abandoned, and may arrive at any later time."""
    DUPLICATE = "duplicated"
    """It arrives, and once more at any later time."""


class Notification(Enum):
    """The components that learn that a message is lost or late."""

    SENDER = "sender"
    RECEIVER = "receiver"
    NOBODY = "nobody"


class Disturbance(NamedTuple):
    """A kind of disturbance of a wire."""

    kind: str
    """Its name, by which it is enabled."""
    fault: Fault
    notification: Notification = Notification.NOBODY


class Queue(NamedTuple):
    """The messages in flight on a wire."""

    line: tuple[Any, ...] = ()
    late: tuple[Any, ...] = ()


EMPTY = Queue()


@dataclass(frozen=True, slots=True)
class Wire:
    """A connection in one direction: first in, first out, unless it reorders."""

    sender: str
    receiver: str
    disturbances: Sequence[Disturbance] = ()
    reorders: bool = False
    at_most: int = 16
    """The capacity. A step that would exceed it is not taken, and its results remain unknown."""
    features: Mapping[str, Callable[[Queue], int]] = field(default_factory=dict)
    describe: Callable[[Any], str] = str
    """A message on one line."""
    waits: bool = False
    """Whether a step that would exceed the capacity waits for room; then nothing remains unknown."""
    start: Queue = EMPTY
    """The messages in flight initially."""
    outdates: Callable[[Any, Any], bool] | None = None
    """Whether the receiver of a message refuses a late one that was sent before it."""


class View(Protocol):
    """Global states as columns of numbers."""

    def of(self, component: str, feature: str) -> Integers:
        """A feature of a component in each state."""

    def on(self, sender: str, receiver: str, feature: str = "") -> Integers:
        """A feature of a wire in each state; by default the number of messages in flight, including late ones."""

    def __len__(self) -> int: ...


Condition = Callable[[View], "Mask"]


@dataclass(frozen=True, slots=True)
class Property:
    """A property of every state, evaluated over columns."""

    name: str
    holds: Condition
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class PairProperty:
    """A property of two components, evaluated once for each distinct pair of their states."""

    name: str
    first: str
    second: str
    holds: Callable[[State, State], bool]
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Goal:
    """A condition that is reachable from every state without a further disturbance (strong fairness)."""

    name: str
    reached: Condition
    by: tuple[str, ...] = ()
    """Kinds of choices that happen eventually, such as the expiry of a timer: liveness may rely on them."""
    meaning: str = ""


Path = Sequence[tuple[Action, Mapping[str, State]]]
"""Each action, with the state of every component after it."""


class Replayed(NamedTuple):
    """The result of a replay with live objects."""

    differs: str = ""
    """The first difference from the model; empty if there is none."""
    times_ms: tuple[int, ...] = ()
    """When each step can happen; empty if none of the tried timeouts allow the path."""
    settings: Mapping[str, int] = MappingProxyType({})
    """The timeouts with which it can happen."""
    trace: tuple[str, ...] = ()
    """Their trace at those times: one JSON document a line, in the format of `fsm.trace`."""
    untimed: str = ""
    """Why there are no times: the timers that contradict each other, with the last tried timeouts."""
    stopped: str = ""
    """Why it was not replayed to the end, and the model is neither confirmed nor refuted."""
    idle: tuple[tuple[int, int, str], ...] = ()
    """Idle steps that restart timers without changing anything: the number of the following step, the time, and the
    text.
    """


@dataclass(frozen=True, slots=True)
class Model:
    """Components, wires and properties. Raises `InputError` if they contradict each other."""

    name: str
    components: Sequence[Component]
    wires: Sequence[Wire] = ()
    properties: Sequence[Property | PairProperty] = ()
    goal: Goal | None = None
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    """Conditions of `Choice.free_when`."""
    hazards: Mapping[str, Condition] = field(default_factory=dict)
    """Known weak spots: states that have one are counted, and not continued if the caller names it."""
    disturbances: Sequence[str] = ()
    """The kinds of disturbance that components and wires know; those of the wires need no mention."""
    replay: Callable[[Path], Replayed] | None = None
    """Replays a path with live objects."""
    asked_of_steps: Sequence[str] = ()
    """The names of local properties of steps: `Step.broken` names those that a step breaks."""
    not_asked: Sequence[str] = ()
    """Properties that are not checked because they are known not to hold."""
    not_modelled: Sequence[str] = ()
    """Behaviour of the real system that this model leaves out."""
    made_by: Mapping[str, Any] = field(default_factory=dict)
    """The name and options of `fsm check` that make it; empty for a model that it cannot name."""
    ignored_of_steps: frozenset[str] = frozenset()
    """Those of `asked_of_steps` that are not checked now."""

    def __post_init__(self) -> None:
        names = [one.name for one in self.components]
        if not names:
            raise InputError("has no component", self.name)
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"has two components {name!r}", self.name)
        ends = [(wire.sender, wire.receiver) for wire in self.wires]
        for wire in ends:
            if missing := [end for end in wire if end not in names]:
                raise InputError(f"has a wire to an unknown component: {missing[0]!r}", self.name)
            if ends.count(wire) > 1:
                raise InputError(f"has two wires from {wire[0]!r} to {wire[1]!r}", self.name)
        self._check_questions(names)

    def _check_questions(self, components: Sequence[str]) -> None:
        properties = [one.name for one in self.properties]
        for name in properties:
            if properties.count(name) > 1:
                raise InputError(f"has two properties {name!r}", self.name)
        for kind in self.goal.by if self.goal is not None else ():
            if kind not in self.kinds:
                raise InputError(f"its goal names an unknown kind of disturbance: {kind!r}", self.name)
        for one in self.properties:
            for end in (one.first, one.second) if isinstance(one, PairProperty) else ():
                if end not in components:
                    raise InputError(f"property {one.name!r} names an unknown component: {end!r}", self.name)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every kind of disturbance, sorted."""
        of_wires = (one.kind for wire in self.wires for one in wire.disturbances)
        return tuple(sorted({*self.disturbances, *of_wires}))
