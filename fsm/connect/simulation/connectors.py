"""The connectors of a simulated cluster: what their users ask for, and the config topic that tells the workers.

A connector is in the topic from its creation on. Its tasks come later: their number is written when the instance runs
somewhere and has told what it wants.
"""

from __future__ import annotations

from fsm.connect.assignor.leader import ConfigSnapshot
from fsm.connect.worker.inputs import Change, ConfigChange
from fsm.errors import InputError
from fsm.nodes import nearest


class Connectors:
    """What users want, beside what the config topic says; every change of the topic raises its offset by one."""

    def __init__(self) -> None:
        self.topic = ConfigSnapshot(0)
        self.wanted: dict[str, int] = {}
        """Connectors with the number of tasks their users ask for."""
        self.stopped: set[str] = set()
        """Connectors that have no tasks until they are resumed."""
        self.paused: set[str] = set()
        """Connectors that do nothing until they are resumed, where they are."""
        self.written_ms: dict[str, int] = {}
        """When the configs of each connector's tasks were last written."""

    def begin(self, task_counts: dict[str, int], offset: int) -> None:
        """What the topic holds before anything happens."""
        self.wanted = dict(task_counts)
        self.topic = ConfigSnapshot(offset, tuple(sorted(task_counts.items())))

    def put(self, name: str, tasks: int) -> ConfigChange:
        """A new connector, or another config for one there is; it may want another number of tasks than before."""
        if tasks < 0:
            raise InputError(f"{name} cannot have {tasks} tasks", remedy="0 or more")
        self.wanted[name] = tasks
        return self._write({name: 0, **self._counts()}, ConfigChange(name, Change.CONFIG))

    def reconfigure(self, name: str, now_ms: int) -> ConfigChange:
        """The tasks of a connector get other configs, as many as before."""
        self.written_ms[self.require(name)] = now_ms
        return self._write(self._counts(), ConfigChange(name, Change.TASKS))

    def delete(self, name: str) -> ConfigChange:
        """The connector is gone, its tasks with it."""
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
        """A paused connector goes on where it is; one that was stopped will ask for its tasks again."""
        if self.require(name) not in self.paused | self.stopped:
            raise InputError(f"{name} is neither paused nor stopped", remedy="pause it or stop it first")
        self._goes_on(name)
        return self._write(self._counts(), ConfigChange(name, Change.PAUSED_OR_RESUMED))

    def publish(self, name: str, now_ms: int) -> ConfigChange | None:
        """The instance of a connector tells how many tasks it wants; None where the topic has that already."""
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
