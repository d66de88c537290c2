"""Clients as processes: a command that is started as adapters are, and brokers on sockets for each scenario.

The one place of this package with processes. An adapter takes the options of `fsm.kit.scenario.Options`, obeys lines on
stdin (`close`, `pause`, `resume`, `subscribe T`, `unsubscribe`, `commit`) and prints one JSON object a line.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from abc import abstractmethod
from asyncio.subprocess import PIPE
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple, Self

from fsm.errors import InputError, refuse_os_errors
from fsm.kit import play
from fsm.kit.judge import Report, judge
from fsm.kit.play import OnMessage
from fsm.kit.scenario import Options, Scenario
from fsm.serve.brokers import Brokers
from fsm.serve.edge import Edge, now_ms
from fsm.serve.effects import Effect
from fsm.wire.exchange import Exchange, Note

LONGEST_LINE = 1 << 20
REMEMBERED = 20
"""Lines of stderr."""
REMEDY = "give a command that starts an adapter; fsm kit run --help has its contract"


class Result(NamedTuple):
    """The result of a scenario."""

    scenario: Scenario
    report: Report
    trace: list[Exchange | Note]

    @property
    def passed(self) -> bool:
        """Whether no MUST failed."""
        return not self.report.list_failed()


class Program:
    """A process that runs an adapter."""

    def __init__(self, process: asyncio.subprocess.Process, on_message: OnMessage) -> None:
        self._process = process
        self._on_message = on_message
        self.has_output = False
        """Whether it printed an object."""
        self.unparsed = ""
        """The first line that was no object."""
        self.errors: deque[str] = deque(maxlen=REMEMBERED)
        self._reading = asyncio.gather(self._listen(), self._read_errors())

    def send_command(self, line: str) -> None:
        """Writes a line to its stdin."""
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(f"{line}\n".encode())

    def kill(self) -> None:
        """Kills it and the processes that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def wait(self) -> None:
        """Waits for its end and for the rest of its output."""
        await self._process.wait()
        await asyncio.shield(self._reading)

    @property
    def status(self) -> int | None:
        """Its exit status."""
        return self._process.returncode

    async def _listen(self) -> None:
        async for line in _lines(self._process.stdout):
            message = _object(line)
            if message is not None:
                self.has_output = True
                self._on_message(message)
            elif line.strip():
                self.unparsed = self.unparsed or line.strip()

    async def _read_errors(self) -> None:
        async for line in _lines(self._process.stderr):
            if line.strip():
                self.errors.append(line.strip())


async def _lines(stream: asyncio.StreamReader | None) -> Any:
    while stream is not None:
        try:
            line = await stream.readline()
        except ValueError:  # too long a line is passed over
            continue
        if not line:
            return
        yield line.decode("utf-8", "replace")


def _object(line: str) -> Mapping[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("ev"), str) else None


class Place(play.Place):
    """A context in which brokers listen on sockets."""

    @abstractmethod
    async def __aenter__(self) -> Self:
        """Starts the brokers."""

    @abstractmethod
    async def __aexit__(self, *_: object) -> None:
        """Stops the brokers."""

    @abstractmethod
    def open_door(self, client: str) -> str:
        """Opens an address of the brokers for this client alone."""


Record = Callable[[Exchange | Note], None]


class OurPlace(play.OurBrokers, Place):
    """Brokers of ours on loopback."""

    def __init__(self, scenario: Scenario, record: Record) -> None:
        """`record` is called with every exchange."""
        brokers = NamedBrokers(play.serve(scenario), now_ms(), Random(1), on_event=record)  # noqa: S311
        self._edge = NamedEdge(brokers)
        super().__init__(brokers, self._edge.carry_out, self._edge.clock)

    async def __aenter__(self) -> Self:
        await self._edge.start(HOST)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._edge.stop()

    def open_door(self, client: str) -> str:
        return f"{HOST}:{self._edge.open_door(client)}"


MakePlace = Callable[[Scenario, Record], Place]


async def run_all(
    command: Sequence[str],
    scenarios: Sequence[Scenario],
    jobs: int,
    on_result: Callable[[Result], None],
    make_place: MakePlace = OurPlace,
) -> list[Result]:
    """Plays the scenarios, several at once, each at its own place; returns results in the order of the scenarios.

    Raises `InputError` for a command that does not start, or does not answer as an adapter.
    """
    room = asyncio.Semaphore(jobs)

    async def one(scenario: Scenario) -> Result:
        trace: list[Exchange | Note] = []
        async with room:
            async with make_place(scenario, trace.append) as place:
                await _play(command, scenario, place, trace)
            result = Result(scenario, judge(trace), trace)
        on_result(result)
        return result

    tasks = [asyncio.ensure_future(one(scenario)) for scenario in scenarios]
    try:  # not `gather`: the tasks are cancelled once, and then have time to end their clients
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in ended:
            task.result()
        return [task.result() for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _play(command: Sequence[str], scenario: Scenario, place: Place, trace: list[Exchange | Note]) -> None:
    guards: list[asyncio.Future[None]] = []

    async def launch(name: str, options: Options, on_message: OnMessage) -> Program:
        arguments = options.arguments(place.open_door(name), scenario.protocol, scenario.group)
        with refuse_os_errors("cannot be started", command[0], REMEDY):
            process = await asyncio.create_subprocess_exec(
                *command, *arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=LONGEST_LINE, start_new_session=True
            )
        program = Program(process, on_message)
        guards.append(asyncio.ensure_future(guard(program, name)))
        return program

    async def guard(program: Program, name: str) -> None:
        await program.wait()
        has_requests = any(isinstance(one, Exchange) and one.client_id == name for one in trace)
        if not program.has_output and (program.unparsed or not has_requests):
            playing.cancel()
            _refuse(program, command)

    playing = asyncio.ensure_future(play.play(play.Stage(scenario, place, launch, trace)))
    try:
        await playing
    except asyncio.CancelledError:
        for ended in guards:
            if ended.done() and not ended.cancelled():
                ended.result()
        raise
    finally:
        playing.cancel()
        await asyncio.wait([playing])
        ends = await asyncio.gather(*guards, return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException):
            raise end


def _refuse(program: Program, command: Sequence[str]) -> None:
    """Raises `InputError` with the reason why a program is no adapter."""
    what = " ".join(command)
    if program.unparsed:
        raise InputError(f"prints {program.unparsed[:80]!r}, which is not a JSON object with ev", what, REMEDY)
    why = f": {program.errors[-1][:200]}" if program.errors else " and printed nothing"
    raise InputError(f"ended with status {program.status}{why}", what, REMEDY)


HOST = "127.0.0.1"
DOOR = 1 << 16
"""The factor of a client's number in a number that combines it with a broker's."""
CLIENT_ID_AT = 8
"""The position of the client id in a request: after API, version and correlation id."""


class NamedBrokers(Brokers):
    """Brokers that know the client of each connection."""

    def __init__(self, *given: Any, **named: Any) -> None:
        """The arguments are those of `Brokers`."""
        super().__init__(*given, **named)
        self.clients: dict[int, tuple[str, dict[int, tuple[str, int]]]] = {}
        """The client's name and its addresses of brokers, by connection."""
        self.doors: list[tuple[str, dict[int, tuple[str, int]]]] = [("", self.cluster.endpoints)]
        """The client's name and its addresses, by the number of its listeners."""

    def connect(self, number: int, broker: int, peer: str, now_ms: float) -> None:
        """Notes the client of a new connection by its listener."""
        door, broker = divmod(broker, DOOR)
        super().connect(number, broker, peer, now_ms)
        self.clients[number] = self.doors[door]

    def receive(self, number: int, frame: bytes, now_ms: float) -> tuple[Effect, ...]:
        """Takes a frame, with the client's name as client id."""
        return super().receive(number, rename(frame, self.clients[number][0]), now_ms)

    def _serve(self, asked: Any, now_ms: float) -> None:
        before = self.cluster.endpoints
        self.cluster.endpoints = self.clients[asked.connection.number][1]
        try:
            super()._serve(asked, now_ms)
        finally:
            self.cluster.endpoints = before


class NamedEdge(Edge):
    """Listens at separate addresses for each client."""

    brokers: NamedBrokers

    def open_door(self, client: str) -> int:
        """Opens addresses for one client; returns the first broker's port."""
        endpoints: dict[int, tuple[str, int]] = {}
        self.brokers.doors.append((client, endpoints))
        for broker in sorted(self.brokers.cluster.endpoints):
            door = (len(self.brokers.doors) - 1) * DOOR + broker
            endpoints[broker] = (HOST, self.listen(door, HOST))
        return endpoints[1][1]


def rename(frame: bytes, client_id: str) -> bytes:
    """The frame of a request with another client id in its header.

    >>> rename(bytes(8) + b"\\0\\2me" + b"rest", "A")[8:]
    b'\\x00\\x01Arest'
    """
    begin = CLIENT_ID_AT + 2
    size = max(int.from_bytes(frame[CLIENT_ID_AT:begin], "big", signed=True), 0)
    if len(frame) < begin + size:
        return frame
    name = client_id.encode()
    return frame[:CLIENT_ID_AT] + len(name).to_bytes(2, "big") + name + frame[begin + size :]
