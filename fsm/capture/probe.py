"""Checks whether a broker can be captured: requests its versions once, before clients connect."""

from __future__ import annotations

import asyncio
import ssl

from fsm.capture.frames import LENGTH
from fsm.errors import InputError
from fsm.protocol.codec import decode_response, encode_request
from fsm.protocol.json_form import error_name
from fsm.protocol.messages import ApiVersionsRequest, ApiVersionsResponse
from fsm.wire.dialogue import LARGEST_GREETING, STRANGERS

ANSWERING_S = 10.0
PLAIN, ENCRYPTED = "leave --tls out if it speaks plain text", "say --tls if it speaks TLS, or --pass-tls"


async def probe(host: str, port: int, tls: ssl.SSLContext | None) -> None:
    """Requests versions. Raises `InputError` if there is no response, or one of something that is no broker."""
    place = f"{host}:{port}"
    try:
        answer = await asyncio.wait_for(_ask(host, port, tls), ANSWERING_S)
    except TimeoutError:
        raise InputError(f"no answer within {ANSWERING_S:g} s", place, "is it a broker of Kafka's?") from None
    except (asyncio.IncompleteReadError, ConnectionResetError):
        raise InputError("it closed the connection instead of an answer", place, PLAIN if tls else ENCRYPTED) from None
    except ssl.SSLCertVerificationError as problem:
        remedy = "--cafile names the authority that signed it"
        raise InputError(f"its certificate is refused: {problem.verify_message}", place, remedy) from None
    except ssl.SSLError as problem:
        raise InputError(f"no TLS: {problem.reason or problem}", place, PLAIN) from None
    except OSError as problem:
        raise InputError(f"cannot be reached: {problem.strerror or problem}", place) from None
    try:
        versions = decode_response(ApiVersionsResponse, answer, 0)[1]
    except InputError as problem:
        raise InputError(f"no broker of Kafka's: {problem}", place) from None
    if versions.error_code:
        raise InputError(f"it refuses ApiVersions: {error_name(versions.error_code)}", place)


async def _ask(host: str, port: int, tls: ssl.SSLContext | None) -> bytes:
    reader, writer = await asyncio.open_connection(host, port, ssl=tls)
    try:
        frame = encode_request(ApiVersionsRequest(), 0, 1, "fsm capture")
        writer.write(len(frame).to_bytes(LENGTH, "big") + frame)
        head = await reader.readexactly(LENGTH)
        for sign, language in STRANGERS.items():
            if head.startswith(sign):
                remedy = ENCRYPTED if language == "TLS" else ""
                raise InputError(f"it speaks {language}, not Kafka's protocol", f"{host}:{port}", remedy)
        size = int.from_bytes(head, "big", signed=True)
        if not 0 <= size <= LARGEST_GREETING:
            raise InputError(f"no broker of Kafka's: a frame of {size} bytes", f"{host}:{port}")
        return await reader.readexactly(size)
    finally:
        writer.close()
