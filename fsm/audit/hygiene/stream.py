"""The records of one member as the stream of each of its processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fsm.audit.hygiene.duplicate_lines import DuplicateLines
from fsm.audit.hygiene.identity import ASSIGNS_ITSELF
from fsm.audit.hygiene.instances import ACTIVE, ConsumerInstances, Stream, WorkerProcesses, is_worker
from fsm.audit.hygiene.rotation import Missing
from fsm.audit.hygiene.shared_client_id import SharedClientId
from fsm.audit.rows import Place, Seen
from fsm.trace import Kind


class ProcessStreams:
    """Takes one member's records by time, file and offset, and gives them with what is certain about each.

    A consumer that Connect has for one of its own topics is in no group, though it prints one: it has none.
    """

    def __init__(self, group: str, member: str, gone: Missing) -> None:
        self.duplicates = DuplicateLines(group, member)
        self.processes: ConsumerInstances | WorkerProcesses = ConsumerInstances(group, member, gone)
        self.idle: list[Seen] | None = None
        """The lines of a client of Connect's own, a few of each, until one shows that it is a member."""
        self.begun = False
        self.doubtful_since: tuple[int, Place] | None = None

    def see(self, seen: Seen, *, doubtful: bool = False) -> Stream:
        if doubtful and self.doubtful_since is None:
            self.doubtful_since = seen.record.ts_ms, seen.place
        if not self.begun:
            self.begun = True
            self.idle = [] if ASSIGNS_ITSELF.search(seen.record.client_id) else None
        if self.idle is None:
            yield from self._cut(self.duplicates.see(seen))
            return
        self.idle.append(seen)
        if seen.record.kind in ACTIVE and seen.record.kind is not Kind.TRANSITION:
            given, self.idle = self.idle, None
            for one in given:
                yield from self._cut(self.duplicates.see(one))

    def finish(self) -> Stream:
        if self.idle is None:
            yield from self._cut(self.duplicates.finish())
            yield from self.processes.finish()
            yield from self.duplicates.findings()

    def _cut(self, given: Iterable[Seen]) -> Stream:
        for seen in given:
            if is_worker(seen.record) and isinstance(self.processes, ConsumerInstances):  # VERSION lines come before
                self.processes = WorkerProcesses()
            since = self.doubtful_since
            doubtful = since is not None and (seen.record.ts_ms, seen.place) >= since
            yield from self.processes.see(seen, doubtful=doubtful)


class MemberStreams:
    """The streams of the processes behind one client id, by the name of the member each of them is."""

    def __init__(self, group: str, member: str, gone: Missing, *, shared: bool) -> None:
        self.group, self.member, self.gone = group, member, gone
        self.apart = SharedClientId(member) if shared else None
        self.streams: dict[str, ProcessStreams] = {}

    def see(self, seen: Seen) -> Iterator[tuple[str, Stream]]:
        if self.apart is None:
            yield self.member, self._stream(self.member).see(seen)
            return
        for member, one, doubtful in self.apart.see(seen):
            yield member, self._stream(member).see(one, doubtful=doubtful)

    def finish(self) -> Iterator[tuple[str, Stream]]:
        for member, one, doubtful in self.apart.finish() if self.apart is not None else ():
            yield member, self._stream(member).see(one, doubtful=doubtful)
        for member, stream in sorted(self.streams.items()):
            yield member, stream.finish()

    def _stream(self, member: str) -> ProcessStreams:
        stream = self.streams.get(member)
        if stream is None:
            stream = self.streams[member] = ProcessStreams(self.group, member, self.gone)
        return stream
