"""The records of one member as consecutive streams of its processes."""

from __future__ import annotations

from collections.abc import Iterable

from fsm.audit.hygiene.duplicate_lines import DuplicateLines
from fsm.audit.hygiene.identity import ASSIGNS_ITSELF
from fsm.audit.hygiene.instances import ACTIVE, ConsumerInstances, Stream, WorkerProcesses
from fsm.audit.hygiene.rotation import Missing
from fsm.audit.rows import Place, Seen
from fsm.logs.programs.connect_worker import MACHINE as WORKER
from fsm.trace import Kind


class ProcessStreams:
    """Takes one member's records by time, file and offset, and returns the streams of its processes.

    Consumers of Connect's internal topics print a group but are no members: they have no stream.
    """

    def __init__(self, group: str, member: str, gone: Missing) -> None:
        self.duplicates = DuplicateLines(group, member)
        self.processes: ConsumerInstances | WorkerProcesses = ConsumerInstances(group, member, gone)
        self.idle: list[Seen] | None = None
        """The records of a consumer of Connect's internal topics, until one shows that it is a member."""
        self.begun = False
        self.doubtful_since: tuple[int, Place] | None = None

    def see(self, seen: Seen, *, doubtful: bool = False) -> Stream:
        if doubtful and self.doubtful_since is None:
            self.doubtful_since = seen.record.ts_ms, seen.place
        if not self.begun:
            self.begun = True
            self.idle = [] if ASSIGNS_ITSELF.search(seen.record.client_id) else None
        if self.idle is None:
            given = self.duplicates.see(seen)
            return self._see(given[0]) if len(given) == 1 else self._cut(given)
        self.idle.append(seen)
        if seen.record.kind not in ACTIVE or seen.record.kind is Kind.TRANSITION:
            return ()
        idle, self.idle = self.idle, None
        return [item for one in idle for item in self._cut(self.duplicates.see(one))]

    def finish(self) -> Stream:
        if self.idle is None:
            yield from self._cut(self.duplicates.finish())
            yield from self.processes.finish()
            yield from self.duplicates.findings()

    def _cut(self, given: Iterable[Seen]) -> Stream:
        return [item for seen in given for item in self._see(seen)]

    def _see(self, seen: Seen) -> Stream:
        if seen.record.machine == WORKER and isinstance(self.processes, ConsumerInstances):  # VERSION lines come before
            self.processes = WorkerProcesses()
        since = self.doubtful_since
        return self.processes.see(seen, since is not None and (seen.record.ts_ms, seen.place) >= since)
