"""The connectors of a simulated cluster: the users' requests, and the config topic for the workers.

A connector is in the topic from its creation on. Its tasks come later: their number is written when the instance runs
and has requested it.
"""

from __future__ import annotations

from fsm.connect.assignor.leader import ConfigSnapshot
from fsm.connect.worker.inputs import Change, ConfigChange
from fsm.errors import InputError
from fsm.nodes import nearest


class Connectors:
    """The users' requests, beside the config topic; every change of the topic increases its offset by one."""

    def __init__(self) -> None:
        self.topic = ConfigSnapshot(0)
        self.wanted: dict[str, int] = {}
        """Connectors with the number of tasks that their users request."""
        self.stopped: set[str] = set()
        """Connectors that have no tasks until they are resumed."""
        self.paused: set[str] = set()
        """Connectors that are idle until they are resumed, but keep their workers."""
        self.written_ms: dict[str, int] = {}
        """When the configs of each connector's tasks were last written."""

    def begin(self, task_counts: dict[str, int], offset: int) -> None:
        """Sets the initial content of the topic."""
        self.wanted = dict(task_counts)
        self.topic = ConfigSnapshot(offset, tuple(sorted(task_counts.items())))

    def put(self, name: str, tasks: int) -> ConfigChange:
        """Adds a connector, or changes the config of one, possibly with another number of tasks."""
        if tasks < 0:
            raise InputError(f"{name} cannot have {tasks} tasks", remedy="0 or more")
        self.wanted[name] = tasks
        return self._write({name: 0, **self._counts()}, ConfigChange(name, Change.CONFIG))

    def reconfigure(self, name: str, now_ms: int) -> ConfigChange:
        """Changes the configs of a connector's tasks, but not their number."""
        self.written_ms[self.require(name)] = now_ms
        return self._write(self._counts(), ConfigChange(name, Change.TASKS))

    def delete(self, name: str) -> ConfigChange:
        """Deletes the connector with its tasks."""
        del self.wanted[self.require(name)]
        self._goes_on(name)
        return self._write({n: c for n, c in self._counts().items() if n != name}, ConfigChange(name, Change.REMOVED))

    def stop(self, name: str) -> ConfigChange:
        """The connector keeps its instance and loses its tasks."""
        self.stopped.add(self.require(name))
        return self._write({**self._counts(), name: 0}, ConfigChange(name, Change.STOPPED))

    def pause(self, name: str) -> ConfigChange:
        """The connector and its tasks pause where they are."""
        self.paused.add(self.require(name))
        return self._write(self._counts(), ConfigChange(name, Change.PAUSED_OR_RESUMED))

    def resume(self, name: str) -> ConfigChange:
        """A paused connector resumes where it is; a stopped one will request its tasks again."""
        if self.require(name) not in self.paused | self.stopped:
            raise InputError(f"{name} is neither paused nor stopped", remedy="pause it or stop it first")
        self._goes_on(name)
        return self._write(self._counts(), ConfigChange(name, Change.PAUSED_OR_RESUMED))

    def publish(self, name: str, now_ms: int) -> ConfigChange | None:
        """Writes the number of tasks that the instance of a connector requests; None if the topic already has it."""
        tasks = self.wanted.get(name)
        if tasks is None or name in self.stopped or self._counts().get(name) == tasks:
            return None
        self.written_ms[name] = now_ms
        return self._write({**self._counts(), name: tasks}, ConfigChange(name, Change.TASKS))

    def require(self, name: str) -> str:
        """The name, if there is such a connector. Raises `InputError` otherwise."""
        if name not in self.wanted:
            raise InputError(f"there is no connector {name}", remedy=nearest(name, sorted(self.wanted)))
        return name

    def _goes_on(self, name: str) -> None:
        self.paused.discard(name)
        self.stopped.discard(name)

    def _counts(self) -> dict[str, int]:
        return dict(self.topic.task_counts)

    def _write(self, counts: dict[str, int], change: ConfigChange) -> ConfigChange:
        self.topic = ConfigSnapshot(self.topic.offset + 1, tuple(sorted(counts.items())))
        return change
