"""One client's connection through the proxy to one broker, without the sockets: bytes in, bytes out, and exchanges.

Frames that are not rewritten are forwarded byte for byte, when complete, or at once if they are too large to be held. A
connection whose bytes are known not to be frames of Kafka's protocol (the client's own TLS, SASL's first version with
tokens outside frames) is opaque to its end. Time is given in epoch milliseconds.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from fsm.capture.addresses import READABLE, SHARING, Place, read_sharing, with_places, write_sharing
from fsm.capture.conversation import LEAST_ANSWER, LEAST_REQUEST, Conversation, DecodedResponse, PendingRequest
from fsm.capture.frames import HELD, Frame, Frames
from fsm.errors import InputError
from fsm.protocol.codec import API_BY_KEY, encode_response
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import ApiVersion, ApiVersionsResponse
from fsm.wire.exchange import Exchange

TLS_HANDSHAKE = b"\x16\x03"
TLS, OLD_SASL = "the client speaks TLS", "SASL with tokens outside frames"
"""Why a connection is opaque."""
API_VERSIONS, SASL_HANDSHAKE = 18, 17


class Passed(NamedTuple):
    """The bytes to pass on."""

    to_broker: bytes = b""
    to_client: bytes = b""


class Link:
    """The connection of a client to a broker."""

    def __init__(self, connection: int, place: Place, broker: int = 0, held: int = HELD) -> None:
        """`held` is the maximum number of bytes of a frame that are held to be read."""
        self.connection = connection
        self._place = place
        self._requests, self._answers = Frames(LEAST_REQUEST, held), Frames(LEAST_ANSWER, held)
        self._conversation = Conversation(connection, broker)
        self._refused: dict[int | None, Frame] = {}
        self._has_begun = False
        self.opaque = ""
        """Why the connection cannot be read; empty if it can."""
        self.paused_until_ms = 0.0
        """The time until which no bytes of the client are read."""
        self.wait_s = 0.0
        """How long the passed bytes, and those after them, are held back."""
        self.unread: list[str] = []
        """Responses that were passed on unchanged although they may name brokers; readers empty it."""

    def from_client(self, data: bytes, now_ms: float) -> Passed:
        """Takes bytes of the client. Raises `RemoteProtocolError` where the connection cannot continue."""
        if not self._has_begun and data.startswith(TLS_HANDSHAKE):
            self.opaque = TLS
        self._has_begun = True
        if self.opaque:
            return Passed(to_broker=self._requests.rest() + data)
        out = bytearray()
        for piece in self._requests.feed(data):
            if isinstance(piece, bytes):
                out += piece
            else:
                out += self._ask(piece, now_ms)
        return Passed(bytes(out), self._refuse(now_ms))

    def from_broker(self, data: bytes, now_ms: float) -> Passed:
        """Takes bytes of the broker. Raises `RemoteProtocolError` where the connection cannot continue."""
        if self.opaque:
            return Passed(to_client=self._answers.rest() + data)
        out = bytearray()
        for piece in self._answers.feed(data):
            if isinstance(piece, Frame):
                out += self._rewrite(piece, self._conversation.take_response(piece, now_ms))
                out += self._refuse(now_ms)
            else:
                out += piece
        return Passed(to_client=bytes(out))

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is due."""
        return self._conversation.oldest is not None

    def end(self) -> None:
        """Closes the connection."""
        self._conversation.end()

    def take_exchanges(self) -> list[Exchange]:
        """Takes the exchanges that have ended since the last call."""
        return self._conversation.take_exchanges()

    def _ask(self, frame: Frame, now_ms: float) -> bytes:
        """Notes a request; returns the bytes for the broker."""
        if self.opaque:
            return frame.raw
        asked = self._conversation.take_request(frame, now_ms)
        key, version, correlation_id, _ = asked.header
        if key == API_VERSIONS and asked.api is None:
            self._refused[correlation_id] = _refusal(correlation_id)
            return b""
        if key == SASL_HANDSHAKE and version == 0:
            self.opaque = OLD_SASL
        return self._forward(frame, asked, now_ms)

    def _forward(self, frame: Frame, _asked: PendingRequest, _now_ms: float) -> bytes:
        """The bytes to pass on for a request that was read."""
        return frame.raw

    def _refuse(self, now_ms: float) -> bytes:
        """Our own answers that are next in order."""
        out = bytearray()
        while (refused := self._refused.pop(self._conversation.oldest, None)) is not None:
            self._conversation.take_response(refused, now_ms)
            out += refused.raw
        return bytes(out)

    def _rewrite(self, frame: Frame, answered: DecodedResponse) -> bytes:
        key, version, correlation_id, _ = answered.asked.header
        response = answered.response
        if key in SHARING and frame.is_whole:
            with suppress(InputError):
                response = read_sharing(key, version, frame.data)
        if response is None and key in READABLE:
            self.unread.append(f"an answer to API {key} in version {version}, which may name brokers")
        rewritten = with_places(response, self._place)
        if rewritten is response:
            return frame.raw
        if key in SHARING:
            data = write_sharing(rewritten, version, correlation_id)
        else:
            data = encode_response(rewritten, answered.version, correlation_id)
        return Frame.of(data).raw


def _refusal(correlation_id: int) -> Frame:
    """The response of a broker that does not know this version of ApiVersions, so that the client retries (KIP-511)."""
    api = API_BY_KEY[API_VERSIONS]
    known = ApiVersion(api.key, api.oldest, api.newest)
    refused = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, (known,))
    return Frame.of(encode_response(refused, 0, correlation_id))
