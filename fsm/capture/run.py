"""The proxy as a program: listens, writes what it saw, shows it, and ends on SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import signal
import ssl
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from fsm.capture.frames import HELD, LENGTH
from fsm.capture.log import Log
from fsm.capture.proxy import HERE, Proxy
from fsm.errors import InputError
from fsm.protocol.codec import decode_response, encode_request
from fsm.protocol.json_form import error_name
from fsm.protocol.messages import ApiVersionsRequest, ApiVersionsResponse
from fsm.serve.edge import event_loop, now_ms
from fsm.wire.dialogue import LARGEST_GREETING, START_BROKER, explain_failure, find_protocol
from fsm.wire.exchange import Note

TICK_S = 0.1
"""The interval of writing and showing what was captured."""
SWITCH_S = 0.000_5
"""How long connections wait for a running audit."""


class Options(NamedTuple):
    """The options of a capture."""

    host: str
    port: int
    at: int = 0
    """The port on loopback at which clients find the broker; 0: any that is free."""
    tls: ssl.SSLContext | None = None
    passes_tls: bool = False
    held: int = HELD


def check_broker(options: Options) -> None:
    """Raises `InputError` if there is no broker. Not checked with passed-through TLS."""
    if not options.passes_tls:
        asyncio.run(probe(options.host, options.port, options.tls))


def run_proxy(options: Options, log: Log, show: Callable[[str], None]) -> None:
    """Runs until SIGTERM or SIGINT. Raises `InputError` if it cannot listen."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        with asyncio.Runner(loop_factory=event_loop) as runner:
            runner.run(_run(options, log, show))
    finally:
        sys.setswitchinterval(before)


async def _run(options: Options, log: Log, show: Callable[[str], None]) -> None:
    proxy = Proxy(log.take, options.tls, passes_tls=options.passes_tls, held=options.held)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: log.take(_problem(context)))
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, stopped.set)
    judging = asyncio.ensure_future(_judge(log, stopped))
    try:
        here = proxy.listen(options.host, options.port, options.at)
        show(f"listening on {HERE}:{here}\n")
        if options.passes_tls:
            show("TLS is passed on untouched: nothing can be read, and clients learn the brokers' own addresses\n")
        while not stopped.is_set():
            log.tick(now_ms())
            await asyncio.wait([stopping := asyncio.ensure_future(stopped.wait())], timeout=TICK_S)
            stopping.cancel()
    finally:
        stopped.set()
        await judging
        await proxy.close()
        log.end(now_ms())


async def _judge(log: Log, stopped: asyncio.Event) -> None:
    """Runs the audit in a thread, in parallel with the connections."""
    while not stopped.is_set():
        await asyncio.sleep(TICK_S)
        log.show_news(await asyncio.to_thread(log.judging.news, now_ms()))


def _problem(context: dict[str, Any]) -> Note:
    return Note(now_ms(), "problem", {"why": str(context.get("exception") or context.get("message"))})


ANSWERING_S = 10.0
PLAIN, ENCRYPTED = "leave --tls out if it speaks plain text", "say --tls if it speaks TLS, or --pass-tls"


async def probe(host: str, port: int, tls: ssl.SSLContext | None) -> None:
    """Requests versions. Raises `InputError` if there is no response, or one of something that is no broker."""
    place = f"{host}:{port}"
    try:
        answer = await asyncio.wait_for(_ask(host, port, tls), ANSWERING_S)
    except TimeoutError:
        raise InputError(f"no answer within {ANSWERING_S:g} s", place, "is it a Kafka broker?") from None
    except (asyncio.IncompleteReadError, ConnectionResetError):
        raise InputError("it closed the connection without a response", place, PLAIN if tls else ENCRYPTED) from None
    except ssl.SSLCertVerificationError as problem:
        remedy = "--cafile names the authority that signed it"
        raise InputError(f"its certificate is refused: {problem.verify_message}", place, remedy) from None
    except ssl.SSLError as problem:
        raise InputError(f"it does not speak TLS: {problem.reason or problem}", place, PLAIN) from None
    except OSError as problem:
        raise InputError(explain_failure(problem), place, START_BROKER) from None
    try:
        versions = decode_response(ApiVersionsResponse, answer, 0)[1]
    except InputError as problem:
        raise InputError(f"is not a Kafka broker: {problem}", place) from None
    if versions.error_code:
        raise InputError(f"it refuses ApiVersions: {error_name(versions.error_code)}", place)


async def _ask(host: str, port: int, tls: ssl.SSLContext | None) -> bytes:
    reader, writer = await asyncio.open_connection(host, port, ssl=tls)
    try:
        frame = encode_request(ApiVersionsRequest(), 0, 1, "fsm capture")
        writer.write(len(frame).to_bytes(LENGTH, "big") + frame)
        head = await reader.readexactly(LENGTH)
        if language := find_protocol(head):
            remedy = ENCRYPTED if language == "TLS" else ""
            raise InputError(f"it speaks {language}, not Kafka's protocol", f"{host}:{port}", remedy)
        size = int.from_bytes(head, "big", signed=True)
        if not 0 <= size <= LARGEST_GREETING:
            raise InputError(f"is not a Kafka broker: a frame of {size} bytes", f"{host}:{port}")
        return await reader.readexactly(size)
    finally:
        writer.close()
