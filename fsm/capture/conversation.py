"""The conversation of two peers on one connection as exchanges: each request with its response, or without one.

A broker answers in the order of the requests. A skipped request has no answer, as a Produce that expects none. An
unreadable frame is opaque: its header identifies the request, its body is not read.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache
from typing import Any, NamedTuple

from fsm.capture.frames import Frame
from fsm.errors import InputError, RemoteProtocolError
from fsm.protocol.codec import API_BY_KEY, RequestHeader, decode_header, decode_response
from fsm.protocol.messages import APIS, Api, ApiVersionsResponse
from fsm.serve.requests import SHORT, Requests
from fsm.wire.exchange import REPEATED, Exchange, without_records

LEAST_REQUEST, LEAST_ANSWER = 8, 4
"""The bytes of the smallest request and response: their headers in every version."""
_REQUESTS = Requests({api.key: (api.oldest, api.newest) for api in APIS.values()})
MOST_WAITING = 10_000
"""The maximal number of requests in flight on one connection; older ones count as unanswered."""


class PendingRequest(NamedTuple):
    """A request that waits for its answer."""

    at_ms: float
    header: RequestHeader
    request: Any
    """None if it is opaque."""

    @property
    def api(self) -> Api | None:
        """None if the API or its version is unknown."""
        return find_api(self.header.api_key, self.header.api_version)


class DecodedResponse(NamedTuple):
    """A response with its version: a broker that does not know the version of ApiVersions uses 0."""

    asked: PendingRequest
    response: Any
    version: int


class Conversation:
    """One connection between a client and a broker."""

    def __init__(self, connection: int, broker: int = 0) -> None:
        self.connection = connection
        self.broker = broker
        """The node id, if known."""
        self._seen: list[Exchange] = []
        """The exchanges that have ended, in that order."""
        self._waiting: OrderedDict[int, PendingRequest] = OrderedDict()

    @property
    def oldest(self) -> int | None:
        """The correlation id of the next request to be answered."""
        return next(iter(self._waiting), None)

    def awaits(self, correlation_id: int) -> bool:
        """Whether the answer to this request is due."""
        return correlation_id in self._waiting

    def take_request(self, frame: Frame, at_ms: float) -> PendingRequest:
        """Takes a request. Raises `RemoteProtocolError` for one without a header."""
        read = _REQUESTS.read(frame.data) if frame.is_whole else None
        try:
            header, request = read or (decode_header(frame.data), None)
        except InputError as problem:
            raise RemoteProtocolError(f"not a request: {problem}") from None
        asked = PendingRequest(at_ms, header, request)
        if earlier := self._waiting.pop(header.correlation_id, None):
            self._end(earlier)
        if len(self._waiting) >= MOST_WAITING:
            self._end(self._waiting.popitem(last=False)[1])
        self._waiting[header.correlation_id] = asked
        return asked

    def take_response(self, frame: Frame, at_ms: float) -> DecodedResponse:
        """Takes a response. Raises `RemoteProtocolError` if no request waits for it."""
        correlation_id = int.from_bytes(frame.data[:LEAST_ANSWER], "big", signed=True)
        if correlation_id not in self._waiting:
            raise RemoteProtocolError(f"a response to request {correlation_id}, which is not pending")
        passed_over, asked = self._waiting.popitem(last=False)
        while passed_over != correlation_id:
            self._end(asked)
            passed_over, asked = self._waiting.popitem(last=False)
        response, version = _response(asked, frame)
        self._end(asked, at_ms, response)
        return DecodedResponse(asked, response, version)

    def end(self) -> None:
        """Ends the conversation: the requests in flight remain unanswered."""
        for asked in self._waiting.values():
            self._end(asked)
        self._waiting.clear()

    def take_exchanges(self) -> list[Exchange]:
        """Takes the exchanges that have ended since the last call."""
        seen, self._seen = self._seen, []
        return seen

    def _end(self, asked: PendingRequest, answered_ms: float | None = None, response: Any = None) -> None:
        key, version, correlation_id, client_id = asked.header
        api = API_BY_KEY.get(key)
        self._seen.append(
            Exchange(
                asked.at_ms,
                self.connection,
                client_id,
                api.name if api else str(key),
                version,
                without_records(asked.request),
                answered_ms,
                without_records(response),
                self.broker,
                correlation_id,
            )
        )


def find_api(key: int, version: int) -> Api | None:
    """The API, if this version of it can be read."""
    api = API_BY_KEY.get(key)
    return api if api and api.oldest <= version <= api.newest else None


def _response(asked: PendingRequest, frame: Frame) -> tuple[Any, int]:
    version = asked.header.api_version
    if asked.api is None or not frame.is_whole:
        return None, version
    versions = (version, 0) if asked.api.response is ApiVersionsResponse else (version,)
    for one in dict.fromkeys(versions):
        try:
            return _decode(asked.api, frame.data, one), one
        except InputError:
            continue
    return None, version


def _decode(api: Api, frame: bytes, version: int) -> Any:
    """The answer in a frame. Raises `InputError`."""
    if api.name not in REPEATED or len(frame) > SHORT:
        return decode_response(api.response, frame, version)[1]
    return _decode_repeated(api, frame[LEAST_ANSWER:], version)


@lru_cache(maxsize=2_048)
def _decode_repeated(api: Api, body: bytes, version: int) -> Any:
    return decode_response(api.response, bytes(LEAST_ANSWER) + body, version)[1]
