"""One connection to a broker on an event loop: calls are sent at once, each waits for its own answer.

It first asks for the broker's versions. A call without an answer in time closes the connection, because later calls
would wait behind it as well; so does an invalid answer. All waiting calls then fail.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Self

from fsm.errors import InputError
from fsm.protocol.codec import API_OF
from fsm.protocol.json_form import error_name
from fsm.protocol.messages import ApiVersionsRequest
from fsm.wire.dialogue import Dialogue, PeerError, explain_failure, show_address
from fsm.wire.login import LONGEST_ANSWER, PLAINTEXT, Security, log_in


class Link(asyncio.Protocol):
    """A connection that is open until `is_closed`; made by `Link.open`, used on the loop it was made on."""

    def __init__(self, host: str, port: int, client_id: str) -> None:
        self.peer = show_address(host, port)
        self.versions: dict[int, range] = {}
        """The broker's versions, by API key."""
        self._dialogue = Dialogue(self.peer, client_id)
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._last = 0
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, host: str, port: int, client_id: str, timeout_s: float, security: Security = PLAINTEXT) -> Self:
        """Connects, logs in, and asks for versions.

        Raises `PeerError` for a missing peer, one that is no broker, or a refused login.
        """
        link = cls(host, port, client_id)
        try:
            async with asyncio.timeout(timeout_s):
                await link._connect(host, port, client_id, security)
                answer = await link._ask(ApiVersionsRequest(), 0)
        except TimeoutError:
            link.close()
            raise link._fail(f"no answer within {timeout_s:g} s") from None
        except OSError as problem:
            link.close()
            raise link._fail(explain_failure(problem, tls=security.tls is not None)) from None
        except BaseException:
            link.close()
            raise
        if answer.error_code:
            link.close()
            raise link._fail(f"ApiVersions is refused: {error_name(answer.error_code)}")
        link.versions = {api.api_key: range(api.min_version, api.max_version + 1) for api in answer.api_keys}
        return link

    async def _connect(self, host: str, port: int, client_id: str, security: Security) -> None:
        loop = asyncio.get_running_loop()
        if not security.user:
            await loop.create_connection(lambda: self, host, port, ssl=security.tls)
            return
        reader = asyncio.StreamReader()
        first = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.create_connection(lambda: first, host, port, ssl=security.tls)
        self.connection_made(transport)
        if why := await _log_in(security, client_id, reader, transport):
            raise self._fail(why)
        transport.set_protocol(self)

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._transport is None

    def version(self, message: type[Any], newest: int | None = None) -> int:
        """The newest version of a request that both sides support, up to this one. Raises `InputError` if there is
        none.
        """
        api = API_OF[message]
        supported = self.versions.get(api.key, range(0))
        newest = min(api.newest if newest is None else newest, supported.stop - 1)
        if newest < max(api.oldest, supported.start):
            raise InputError(f"it does not support the versions of {api.name} that we do", self.peer)
        return newest

    async def call(self, request: Any, timeout_s: float, newest: int | None = None) -> Any:
        """The answer to a request, which is sent in a version up to this one.

        Raises `PeerError` without an answer, `InputError` for an API or version that the broker does not support.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await self._ask(request, self.version(type(request), newest))
        except TimeoutError:
            self.close()
            raise self._fail(f"no answer to {API_OF[type(request)].name} within {timeout_s:g} s") from None

    async def _ask(self, request: Any, version: int) -> Any:
        if self._transport is None:
            raise self._fail("the connection is closed")
        self._last += 1
        data = self._dialogue.ask(request, self._last, version)
        self._calls[self._last] = answer = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return await answer

    def close(self) -> None:
        """Closes the connection; calls that wait fail."""
        if self._transport is not None:
            self._transport.abort()
        self._end(self._fail("the connection is closed"))

    def _fail(self, why: str) -> PeerError:
        return self._dialogue.fail(why)

    def _end(self, why: PeerError) -> None:
        self._transport = None
        calls, self._calls = self._calls, {}
        for call in calls.values():
            if not call.done():
                call.set_exception(why)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  # create_connection makes no other
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Bytes of the peer: passes answers to waiting calls; ignores those of cancelled ones."""
        self._dialogue.take(data)
        try:
            while self._transport is not None and (arrived := self._dialogue.next_answer()) is not None:
                call = self._calls.pop(arrived.tag, None)
                if call is not None and not call.done():
                    call.set_result(arrived.response)
        except PeerError as problem:
            if self._transport is not None:
                self._transport.abort()
            self._end(problem)

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer or we have closed the connection."""
        why = getattr(exc, "strerror", None) or exc
        self._end(self._fail(f"the connection broke: {why}" if why else "the peer closed the connection"))


async def _log_in(
    security: Security, client_id: str, reader: asyncio.StreamReader, transport: asyncio.WriteTransport
) -> str:
    """Logs in; returns the reason of a failure, or an empty text."""
    login = log_in(security, client_id)
    try:
        request = next(login)
        while True:
            transport.write(request)
            size = int.from_bytes(await reader.readexactly(4), "big")
            request = login.send(await reader.readexactly(size) if size <= LONGEST_ANSWER else b"")
    except StopIteration as done:
        return str(done.value)
    except asyncio.IncompleteReadError:
        return "the peer closed the connection at the login"
