"""Plays a scenario with clients, against its own brokers: in real time with processes, or in virtual time.

A run returns a trace: exchanges, events of applications (`application`), commands to them (`command`), and the end of
each (`exited`).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from fsm.kit.scenario import (
    BEAT,
    GROUP,
    SESSION_MS,
    SETTINGS,
    A,
    Close,
    Command,
    Expire,
    Fault,
    Kill,
    Members,
    Move,
    NoFaults,
    Options,
    Scenario,
    Stable,
    Start,
    Step,
    Topic,
    UnknownTopic,
    UnstableOffsets,
    Wait,
)
from fsm.protocol import messages as m
from fsm.protocol.assignment import topic_partitions
from fsm.protocol.error_codes import ErrorCode
from fsm.serve.brokers import Brokers
from fsm.serve.cluster import Served
from fsm.serve.effects import Effect
from fsm.serve.faults import Do, Rule
from fsm.wire.exchange import Exchange, Note

LOOK_S = 0.01
"""The interval of checks while a step waits."""
CLOSE_S, BETWEEN_CLOSES_S = 12.0, 0.4
"""How long a client may take to close, before it is killed; and how long the next one waits."""
UNKNOWN_TOPIC_ID = "BBBBBBBBBBBBBBBBBBBBBQ"
OnMessage = Callable[[Mapping[str, Any]], None]


class Process(Protocol):
    """A running client."""

    def send_command(self, line: str) -> None:
        """Sends it a command."""

    def kill(self) -> None:
        """Kills it."""

    async def wait(self) -> None:
        """Waits for its end."""


Launch = Callable[[str, Options, OnMessage], Awaitable[Process]]
"""Starts a client by its name; its output is passed on, one object at a time."""


def serve(scenario: Scenario) -> Served:
    """The brokers of a scenario."""
    settings = {**SETTINGS, **scenario.settings}
    return Served(
        scenario.topics, settings=settings, brokers=scenario.brokers, records_a_second=scenario.records_a_second
    )


class Place(ABC):
    """The brokers of a scenario, and the events that it may cause.

    A scenario with an event that its place does not have, which raises `NotImplementedError`, is left out.
    """

    rules: list[Rule]
    """The rules for requests, from now on."""

    @abstractmethod
    def clock(self) -> float:
        """Epoch milliseconds."""

    @abstractmethod
    def describe(self) -> Any:
        """The group as a broker describes it; None if there is none."""

    @abstractmethod
    def topics(self) -> Iterable[Sequence[Any]]:
        """The name, id and partition count of each topic."""

    @abstractmethod
    async def change_topic(self, name: str, partitions: int) -> None:
        """Creates a topic, adds partitions to it, or deletes it (0)."""

    async def expire(self) -> None:
        """Ends the sessions of all members."""
        raise NotImplementedError

    async def move(self) -> None:
        """Moves the group to another coordinator, or reloads it."""
        raise NotImplementedError

    async def hide(self, api: str) -> None:
        """Removes an API from the brokers."""
        raise NotImplementedError


class OurBrokers(Place):
    """Our own brokers as the place of a scenario; events take effect at once."""

    def __init__(
        self, brokers: Brokers, carry_out: Callable[[Iterable[Effect]], None], clock: Callable[[], float]
    ) -> None:
        """`carry_out` carries out the effects of the brokers."""
        self._brokers, self._carry_out, self._clock = brokers, carry_out, clock
        self.rules = brokers.rules

    def clock(self) -> float:
        return self._clock()

    def describe(self) -> Any:
        return self._brokers.cluster.coordinators.describe(GROUP, self.clock())

    def topics(self) -> Iterable[Sequence[Any]]:
        return self._brokers.cluster.topics.describe()

    async def change_topic(self, name: str, partitions: int) -> None:
        self._carry_out(self._brokers.change_topic(name, partitions, self.clock()))

    async def expire(self) -> None:
        for member in getattr(self.describe(), "members", ()):
            self._carry_out(self._brokers.expire(GROUP, member.member_id, self.clock()))

    async def move(self) -> None:
        self._carry_out(self._brokers.move(GROUP, None, self.clock()))

    async def hide(self, api: str) -> None:
        self._brokers.cluster.versions.pop(m.APIS[api].key)


@dataclass
class Stage:
    """A run of a scenario: its place and its clients."""

    scenario: Scenario
    place: Place
    launch: Launch
    trace: list[Exchange | Note]
    """The trace; observers of exchanges write to it as well."""
    running: dict[str, Process] = field(default_factory=dict)
    watching: set[asyncio.Task[None]] = field(default_factory=set)

    def note(self, event: str, **about: Any) -> None:
        """Adds a note to the trace."""
        self.trace.append(Note(self.place.clock(), event, about))

    # The group

    def count(self) -> int:
        """Its members."""
        group = self.place.describe()
        return 0 if group is None else len(group.members)

    def is_stable(self, members: int) -> bool:
        """Whether the group has so many members, and each has its target assignment."""
        group = self.place.describe()
        if group is None or len(group.members) != members or group.group_state != "Stable":
            return False
        return all(getattr(one, "assignment", None) or getattr(one, "member_assignment", None) for one in group.members)

    # Clients

    async def start(self, client: str, options: Options) -> None:
        """Starts a client."""

        def on_message(message: Mapping[str, Any]) -> None:
            self.note("application", **{**message, "client": client})

        self.note("started", client=client)
        self.running[client] = process = await self.launch(client, options, on_message)
        watch = asyncio.ensure_future(self._watch(client, process))
        self.watching.add(watch)
        watch.add_done_callback(self.watching.discard)

    async def _watch(self, client: str, process: Process) -> None:
        await process.wait()
        self.note("exited", client=client)
        if self.running.get(client) is process:
            del self.running[client]

    def send_command(self, client: str, line: str) -> None:
        if client not in self.running:
            return
        self.note("command", client=client, line=line)
        self.running[client].send_command(line)

    async def end(self, client: str) -> None:
        """Waits for a closing client to end; kills it after a timeout."""
        process = self.running.get(client)
        try:
            if process is not None:
                await asyncio.wait_for(process.wait(), CLOSE_S)
        except TimeoutError:
            self.note("killed", client=client)
            await self.kill(client)

    async def kill(self, client: str) -> None:
        """Kills a client."""
        process = self.running.get(client)
        if process is not None:
            process.kill()
            await process.wait()
            await asyncio.sleep(0)

    # Time

    async def until(self, is_so: Callable[[], bool], within_s: float) -> None:
        """Waits for a condition, up to this time."""
        until_ms = self.place.clock() + within_s * 1000
        while not is_so() and self.place.clock() < until_ms:
            await asyncio.sleep(LOOK_S)


async def play(stage: Stage) -> list[Exchange | Note]:
    """Plays the scenario from its beginning to the last client's end; returns the trace."""
    scenario = stage.scenario
    session_ms = int(scenario.settings.get("group.consumer.session.timeout.ms", SESSION_MS))
    stage.note("settings", session_timeout_ms=session_ms, scenario=scenario.name)
    for name in scenario.hidden:
        await stage.place.hide(name)
    try:
        for step in scenario.steps:
            await _perform(step, stage)
        for client in sorted(stage.running):
            stage.send_command(client, "close")
            await asyncio.sleep(BETWEEN_CLOSES_S)
        await asyncio.gather(*(stage.end(client) for client in sorted(stage.running)))
    finally:
        for process in [*stage.running.values()]:
            process.kill()
    await asyncio.sleep(0.1)
    return stage.trace


async def _perform(step: Step, stage: Stage) -> None:  # noqa: C901, PLR0912  # one line for each kind of step
    place = stage.place
    match step:
        case Start(client, options):
            await stage.start(client, options)
        case Stable(members, within_s):
            await stage.until(lambda: stage.is_stable(members), within_s)
        case Members(members, within_s):
            await stage.until(lambda: stage.count() == members, within_s)
        case Wait(seconds):
            await asyncio.sleep(seconds)
        case Fault(rule):
            place.rules.append(replace(rule))
        case NoFaults():
            place.rules.clear()
        case Command(line, client):
            stage.send_command(client, line)
        case Topic(name, partitions):
            await place.change_topic(name, partitions)
        case Expire():
            await place.expire()
        case Move():
            await place.move()
        case Kill(client):
            await stage.kill(client)
        case Close(client):
            stage.send_command(client, "close")
            await stage.end(client)
        case UnknownTopic(without):
            place.rules.append(_assign_unknown(place, without))
        case UnstableOffsets(times):
            place.rules.append(_unstable_offsets(place, stage.scenario.group, times))


def _assign_unknown(place: Place, without: str) -> Rule:
    known = {i: range(partitions) for name, i, partitions in place.topics() if name != without}
    assignment = topic_partitions({**known, UNKNOWN_TOPIC_ID: (0,)})
    return Rule(Do.REWRITE, client=A, api=BEAT, fields={"assignment": assignment})


def _unstable_offsets(place: Place, group: str, times: int) -> Rule:
    code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    topics = tuple(
        m.OffsetFetchResponseTopics(
            name, i, tuple(m.OffsetFetchResponsePartitions(number, error_code=code) for number in range(partitions))
        )
        for name, i, partitions in place.topics()
    )
    fields = {"groups": (m.OffsetFetchResponseGroup(group, topics),)}
    return Rule(Do.REWRITE, client=A, api="OffsetFetch", fields=fields, times=times)
