"""Encodes and decodes messages in every version of Kafka 4: bodies, and frames with their headers.

A frame is the bytes behind the length prefix. Its header is flexible if its body is, except for ApiVersions responses,
whose header a client with newer versions must be able to read. A decoded frame takes at most 48 times its bytes in
memory, whatever its lengths claim, so a limit on the frame size bounds both.

Source: `RequestHeader.json`, `ResponseHeader.json`; KIP-482 (flexible versions), KIP-511 (ApiVersions).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from fsm.errors import InputError, LocalProtocolError
from fsm.protocol.encoding import decode_all, decode_as, encode_as
from fsm.protocol.messages import APIS, Api
from fsm.protocol.messages.cluster import ApiVersionsResponse
from fsm.protocol.schema import Int16

T = TypeVar("T")


class _Apis(dict[type[Any], Api]):
    def __missing__(self, given: object) -> Api:
        name = given.__name__ if isinstance(given, type) else f"a value of type {type(given).__name__}"
        raise LocalProtocolError(f"{name} is no type of messages; fsm.protocol.messages has them")


API_OF: Mapping[type[Any], Api] = _Apis(
    (message, api) for api in APIS.values() for message in (api.request, api.response)
)
"""API by request and response class."""
API_BY_KEY: Mapping[int, Api] = {api.key: api for api in APIS.values()}


def encode(message: Any, version: int) -> bytes:
    """The bytes of a message. Raises `InputError` for an unknown version or a field that does not fit."""
    return encode_as(message, version, _flexible(API_OF[type(message)], version))


def decode(cls: type[T], data: bytes, version: int) -> T:
    """The message in these bytes. Raises `InputError` for an unknown version or invalid bytes."""
    return decode_all(cls, data, version, _flexible(API_OF[cls], version))


def _flexible(api: Api, version: int) -> bool:
    if not api.oldest <= version <= api.newest:
        raise InputError(f"no version {version}", api.name, f"known versions are {api.oldest} to {api.newest}")
    return version >= api.flexible_since


NO_TAGS = b"\0"
"""The tag section of a flexible header without tagged fields."""
_pack_id = struct.Struct(">i").pack


class RequestHeader(NamedTuple):
    api_key: Int16
    api_version: Int16
    correlation_id: int
    client_id: str | None
    """Never compact."""


class Tags(NamedTuple):
    """A tag section without known tagged fields."""


class ResponseHeader(NamedTuple):
    correlation_id: int


def encode_request(message: Any, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The frame of a request. Raises `InputError` as `encode` does."""
    api = API_OF[type(message)]
    flexible = _flexible(api, version)
    head = encode_as(RequestHeader(api.key, version, correlation_id, client_id), 0, False)
    return encode_as(message, version, flexible, head + NO_TAGS if flexible else head)


def decode_header(frame: bytes) -> RequestHeader:
    """The header of a request of any API and version. Raises `InputError` for a frame that is too short."""
    return decode_as(RequestHeader, frame, 0, False)[0]


def decode_request(frame: bytes) -> tuple[RequestHeader, Any]:
    """Header and request of a frame. Raises `InputError` for an unknown request or version, or invalid bytes.

    Bytes behind the request are ignored, as by brokers: librdkafka 2.16 sends three bytes behind a Metadata request.
    """
    header, at = decode_as(RequestHeader, frame, 0, False)
    if header.api_key not in API_BY_KEY:
        raise InputError(f"no request with the key {header.api_key} is known here", "RequestHeader.api_key")
    api = API_BY_KEY[header.api_key]
    flexible = _flexible(api, header.api_version)
    if flexible:
        at = at + 1 if frame[at : at + 1] == NO_TAGS else decode_as(Tags, frame, 0, True, at)[1]
    return header, decode_as(api.request, frame, header.api_version, flexible, at)[0]


def encode_response(message: Any, version: int, correlation_id: int) -> bytes:
    """The frame of a response. Raises `InputError` as `encode` does."""
    flexible = _flexible(API_OF[type(message)], version)
    try:
        head = _pack_id(correlation_id)
    except struct.error as problem:
        raise InputError(f"this cannot be written: {problem}", "ResponseHeader.correlation_id") from None
    if flexible and type(message) is not ApiVersionsResponse:
        head += NO_TAGS
    return encode_as(message, version, flexible, head)


def decode_response(cls: type[T], frame: bytes, version: int) -> tuple[int, T]:
    """Correlation id and response of a frame. Raises `InputError` as `decode` does."""
    flexible = _flexible(API_OF[cls], version)
    header, at = decode_as(ResponseHeader, frame, 0, flexible and cls is not ApiVersionsResponse)
    return header.correlation_id, decode_all(cls, frame, version, flexible, at)
