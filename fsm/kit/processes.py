"""Clients as processes: a command that is started as adapters are, and brokers on sockets for each scenario.

The one place of this package with processes. An adapter takes the options of `fsm.kit.scenario.Options`, obeys lines on
stdin (`close`, `pause`, `resume`, `subscribe T`, `unsubscribe`, `commit`) and prints one JSON object a line.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple, Protocol, Self

from fsm.errors import InputError
from fsm.kit import play
from fsm.kit.client_addresses import HOST, NamedBrokers, NamedEdge
from fsm.kit.judge import Report, judge
from fsm.kit.play import Hear
from fsm.kit.scenario import Options, Scenario
from fsm.serve.edge import now_ms
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

    def __init__(self, process: asyncio.subprocess.Process, hear: Hear) -> None:
        self._process = process
        self._hear = hear
        self.spoke = False
        """Whether it printed an object."""
        self.strange = ""
        """The first line that was no object."""
        self.errors: deque[str] = deque(maxlen=REMEMBERED)
        self._reading = asyncio.gather(self._listen(), self._read_errors())

    def tell(self, line: str) -> None:
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
                self.spoke = True
                self._hear(message)
            elif line.strip():
                self.strange = self.strange or line.strip()

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


class Place(play.Place, Protocol):
    """A context in which brokers listen on sockets."""

    async def __aenter__(self) -> Self:
        """Starts the brokers."""
        raise NotImplementedError

    async def __aexit__(self, *_: object) -> None:
        """Stops the brokers."""

    def open_door(self, client: str) -> str:
        """Opens an address of the brokers for this client alone."""
        raise NotImplementedError


Record = Callable[[Exchange | Note], None]


class OurPlace(play.OurBrokers):
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
        """More listeners."""
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
        async with room:
            result = await run_one(command, scenario, make_place)
        on_result(result)
        return result

    tasks = [asyncio.ensure_future(one(scenario)) for scenario in scenarios]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def run_one(command: Sequence[str], scenario: Scenario, make_place: MakePlace = OurPlace) -> Result:
    """Plays one scenario with clients of this command."""
    trace: list[Exchange | Note] = []
    async with make_place(scenario, trace.append) as place:
        await _play(command, scenario, place, trace)
    return Result(scenario, judge(trace), trace)


async def _play(command: Sequence[str], scenario: Scenario, place: Place, trace: list[Exchange | Note]) -> None:
    guards: list[asyncio.Future[None]] = []

    async def launch(name: str, options: Options, hear: Hear) -> Program:
        arguments = options.arguments(place.open_door(name), scenario.protocol, scenario.group)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                *arguments,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                limit=LONGEST_LINE,
                start_new_session=True,
            )
        except OSError as problem:
            raise InputError(f"cannot be started: {problem.strerror}", command[0], REMEDY) from None
        program = Program(process, hear)
        guards.append(asyncio.ensure_future(guard(program, name)))
        return program

    async def guard(program: Program, name: str) -> None:
        await program.wait()
        has_asked = any(isinstance(one, Exchange) and one.client_id == name for one in trace)
        if not program.spoke and (program.strange or not has_asked):
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
    """Says why a program is no adapter."""
    what = " ".join(command)
    if program.strange:
        raise InputError(f"prints {program.strange[:80]!r}, which is no JSON object with ev", what, REMEDY)
    why = program.errors[-1][:200] if program.errors else "and printed nothing"
    raise InputError(f"ended with status {program.status}: {why}", what, REMEDY)
