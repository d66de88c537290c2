"""The config topic as a component: every worker reads it in the background, leaders write it for their users.

A leader writes only between two rounds, because its thread, which handles users' requests, is busy during a round; it
continues once it has read its own writes. Any worker may write at any time that a connector pauses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from fsm.check.model import Choice, Component, Look, Received, Step
from fsm.connect.assignor.leader import ConfigSnapshot
from fsm.connect.units import list_configured
from fsm.connect.worker.inputs import (
    Change,
    ConfigChange,
    ConfigTopicAdvanced,
    ReadToEnd,
    RestartRequested,
    Start,
)

TOPIC = "config topic"
NEW = "new"
"""The connector that a user may create."""
READ, READ_AT_START = "reads it to the end", "reads it as it starts"
PAUSED, RESUMED = "connector_paused", "connector_resumed"


class Write(Enum):
    """The writes of a leader."""

    CREATE = "creates"
    DELETE = "deletes"
    RESTART = "restarts"
    ADD_TASK = "gives another task to"
    STOP = "stops"
    PUBLISH = "writes the tasks of"
    """The leader does so without a user, for a connector that was stopped and is resumed."""

    __hash__ = object.__hash__


KIND_OF = {
    Write.CREATE: "config",
    Write.ADD_TASK: "config",
    Write.DELETE: "config",
    Write.STOP: "connector_stopped",
    Write.RESTART: "connector_restarted",
    Write.PUBLISH: "",
}
"""The kind of disturbance of each write."""


class TopicRequest(NamedTuple):
    """A request of a process to the topic."""

    life: int
    what: str | Write

    def __str__(self) -> str:
        return f"{self.what.value} a connector" if isinstance(self.what, Write) else self.what


class Reading(NamedTuple):
    """A reading of the topic by a process."""

    given: Start | ReadToEnd | ConfigTopicAdvanced | RestartRequested | None
    """The input of the worker; None if its write is done and was read back."""
    life: int = 0
    """The number of the process that it is for; 0 for any."""
    unwritten: bool = False
    """Whether a resumed connector has no task configs in the topic yet."""


class TopicState(NamedTuple):
    """The content of the topic."""

    snapshot: ConfigSnapshot
    paused: bool = False
    stopped: bool = False
    unwritten: bool = False


class ConfigTopic:
    """Makes the component; `tasks` are those of each connector at first."""

    def __init__(self, names: Sequence[str], tasks: Mapping[str, int]) -> None:
        self.names, self.tasks = names, dict(sorted(tasks.items()))
        self.start = TopicState(ConfigSnapshot(1, tuple(self.tasks.items())))
        self.first = min(self.tasks, default="")
        most = {**{name: count + (name == self.first) for name, count in self.tasks.items()}, NEW: 0}
        self.bits = {unit: bit for bit, unit in enumerate(sorted(list_configured(most)))}

    def component(self) -> Component:
        """The component; its features are the configured units, and whether a leader has something to write."""
        features = {
            "configured": lambda at: sum(1 << self.bits[unit] for unit in at.snapshot.units),
            "unwritten": lambda at: at.unwritten,
        }
        return Component(
            TOPIC, self.start, self.choices, self.step, features, describe=describe, look=look_at, role="topics"
        )

    def choices(self, at: TopicState) -> Iterable[Choice]:
        """A user pauses or resumes the first connector."""
        if self.first in dict(at.snapshot.task_counts):
            if not (at.paused or at.stopped):
                yield Choice(f"a user pauses {self.first}", PAUSED, PAUSED)
            else:
                yield Choice(f"a user resumes {self.first}", RESUMED, RESUMED)

    def writes(self, snapshot: ConfigSnapshot, *, unwritten: bool) -> Iterable[Choice]:
        """The writes of a leader with this snapshot that change anything."""
        for what in Write:
            if self._apply(TopicState(snapshot, unwritten=unwritten), what).sends:
                connector = NEW if what is Write.CREATE else self.first
                yield Choice(f"{what.value} {connector}", what, KIND_OF[what])

    def step(self, at: TopicState, given: Any) -> Step:
        """The step on a change, which is sent to all workers, or on a read to the end."""
        if not isinstance(given, Received):
            after = at._replace(paused=given == PAUSED, stopped=False)
            after = after._replace(unwritten=at.stopped and given == RESUMED)
            return self._write(after, Change.PAUSED_OR_RESUMED)
        life, what = given.message
        if what in (READ, READ_AT_START):
            read = (Start if what == READ_AT_START else ReadToEnd)(at.snapshot)
            return Step(at, [(given.sender, Reading(read, life, at.unwritten))])
        step = self._apply(at, what)
        return step._replace(sends=[*step.sends, (given.sender, Reading(None, life, step.state.unwritten))])

    def _apply(self, at: TopicState, what: Write) -> Step:
        """Applies the write of a leader; nothing changes if another one wrote the same before."""
        counts = dict(at.snapshot.task_counts)
        known, now, first = self.first in counts, counts.get(self.first, 0), self.tasks.get(self.first, 0)
        match what:
            case Write.CREATE if NEW not in counts:
                return self._write(at, Change.CONFIG, {**counts, NEW: 0}, NEW)
            case Write.ADD_TASK if known and now == first:
                return self._write(at, Change.TASKS, {**counts, self.first: now + 1})
            case Write.DELETE if known:
                del counts[self.first]
                return self._write(TopicState(at.snapshot), Change.REMOVED, counts)
            case Write.STOP if known and now:
                return self._write(at._replace(stopped=True), Change.STOPPED, {**counts, self.first: 0})
            case Write.PUBLISH if known and at.unwritten:
                return self._write(at._replace(unwritten=False), Change.TASKS, {**counts, self.first: first})
            case Write.RESTART if known:
                plan = tuple(sorted(unit for unit in at.snapshot.units if unit.connector == self.first))
                return Step(at, [(name, Reading(RestartRequested(plan))) for name in self.names])
        return Step(at)

    def _write(
        self, at: TopicState, what: Change, counts: Mapping[str, int] | None = None, connector: str = ""
    ) -> Step:
        now = dict(at.snapshot.task_counts) if counts is None else counts
        after = at._replace(snapshot=ConfigSnapshot(at.snapshot.offset + 1, tuple(sorted(now.items()))))
        advanced = ConfigTopicAdvanced(after.snapshot, (ConfigChange(connector or self.first, what),))
        return Step(after, [(name, Reading(advanced, 0, after.unwritten)) for name in self.names])


def describe(at: TopicState) -> str:
    words = [word for word, is_so in (("paused", at.paused), ("stopped", at.stopped)) if is_so]
    return ", ".join((counts(at.snapshot), *words))


def look_at(at: TopicState) -> Look:
    flags = {"paused": at.paused, "stopped": at.stopped, "tasks to be written": at.unwritten}
    tasks = ((name, f"{count} tasks") for name, count in at.snapshot.task_counts)
    return Look(
        fields=[("offset", str(at.snapshot.offset)), *tasks, *((word, "yes") for word, on in flags.items() if on)]
    )


def describe_reading(reading: Reading) -> str:
    """A reading on one line."""
    match reading.given:
        case ConfigTopicAdvanced(changes=(change, *_)):
            return f"{change.connector}: {change.what.value}"
        case RestartRequested(units=units):
            return f"restart of {', '.join(map(str, units))}"
        case Start(snapshot=snapshot) | ReadToEnd(snapshot=snapshot):
            return f"the config topic, {counts(snapshot)}"
    return "it is written"


def counts(snapshot: ConfigSnapshot) -> str:
    """Connectors and their tasks, on one line."""
    found = ", ".join(f"{name} with {count} tasks" for name, count in snapshot.task_counts)
    return f"offset {snapshot.offset}: {found or 'nothing'}"
