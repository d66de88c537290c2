"""A dialogue without a socket: frames out, answers in, whatever the peer sends."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from random import Random

import pytest

from fsm.errors import InputError
from fsm.protocol.codec import API_OF, decode, encode_response
from fsm.protocol.messages import APIS, HeartbeatRequest, HeartbeatResponse, MetadataRequest, MetadataResponse
from fsm.wire.dialogue import LARGEST_FRAME, Dialogue, PeerError
from tests.protocol.hostile_bytes import read_vectors, smallest_message

Pair = tuple[object, int, bytes]
"""A request, its version, and the bytes of an answer to it."""


def pairs() -> list[Pair]:
    """A request and an answer of each API and version that is known."""
    recorded = {(one.cls, one.version): one.data for one in read_vectors()}  # the last one of each
    return [
        (
            smallest_message(api.request, version),
            version,
            encode_response(decode(api.response, recorded[api.response, version], version), version, 1),
        )
        for api in APIS.values()
        for version in range(api.oldest, api.newest + 1)
    ]


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def change(random: Random, data: bytes) -> bytes:
    """The bytes with some of them changed, cut, or said again."""
    changed, draw = bytearray(data), random.random  # whose other methods take most of the time
    for _ in range(1 + int(4 * draw())):
        at, some = int((len(changed) + 1) * draw()), 1 + int(8 * draw())
        match int(4 * draw()):
            case 0 if at < len(changed):
                changed[at] = (0, 1, 0x7F, 0x80, 0xFF, int(256 * draw()))[int(6 * draw())]
            case 1:
                del changed[at : at + some]
            case 2:
                changed[at:at] = random.randbytes(some)
            case _:
                changed[at:at] = changed[max(0, at - 8) : at]
    return bytes(changed)


@pytest.mark.parametrize(
    ("count", "seed"), [pytest.param(4_000, 1, id="4k"), pytest.param(1_000_000, 2, id="1M", marks=pytest.mark.slow)]
)
def test_changed_answers_are_read_or_refused(count: int, seed: int) -> None:
    """A peer is to blame for whatever is no answer; nothing else is raised, and no more is kept than came."""
    random, known = Random(seed), pairs()  # noqa: S311  # the same seed, the same answers
    assert len(known) > 100
    ends = {"read": 0, "waits": 0}
    for _ in range(count):
        request, version, answer = known[int(len(known) * random.random())]
        dialogue = Dialogue("peer", "c")
        dialogue.ask(request, 7, version)
        changed = change(random, answer)
        dialogue.take(framed(changed) if random.random() < 0.8 else change(random, framed(answer)))
        with suppress(PeerError):
            arrived = dialogue.next_answer()
            ends["read" if arrived else "waits"] += 1
            assert arrived is None or type(arrived.response) is API_OF[type(request)].response
    ends["refused"] = count - ends["read"] - ends["waits"]
    assert min(ends.values()) > count // 100, ends


def test_an_announced_size_allocates_nothing() -> None:
    """Eight megabytes that never come cost nothing; more than that is refused at once."""
    tracemalloc.start()
    dialogue = Dialogue("peer", "c")
    dialogue.ask(HeartbeatRequest("g", 1, "m"))
    dialogue.take(LARGEST_FRAME.to_bytes(4, "big") + b"\0\0\0\1")
    assert dialogue.next_answer() is None
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    greedy = Dialogue("peer", "c")
    greedy.take((LARGEST_FRAME + 1).to_bytes(4, "big"))
    with pytest.raises(PeerError, match="a frame of 8388609 bytes; 8388608 are allowed"):
        greedy.next_answer()


def test_answers_come_in_their_order_out_of_any_pieces() -> None:
    """Two requests, their answers byte by byte."""
    dialogue = Dialogue("peer", "c")
    dialogue.ask(HeartbeatRequest("g", 1, "m"), tag=1)
    dialogue.ask(MetadataRequest(), tag=2)
    response = framed(encode_response(HeartbeatResponse(), 4, 1)) + framed(encode_response(MetadataResponse(), 12, 2))
    found = []
    for byte in response:
        dialogue.take(bytes([byte]))
        while arrived := dialogue.next_answer():
            found.append((arrived.tag, arrived.response))
    assert found == [(1, HeartbeatResponse()), (2, MetadataResponse())]
    assert not dialogue.is_waiting


def test_what_cannot_be_written_is_not_asked() -> None:
    """A request that is refused leaves nothing to wait for, and the next has the next number."""
    dialogue = Dialogue("peer", "c")
    with pytest.raises(InputError, match="no version 99"):
        dialogue.ask(HeartbeatRequest("g", 1, "m"), version=99)
    assert not dialogue.is_waiting
    assert dialogue.ask(HeartbeatRequest("g", 1, "m"))[8:12] == b"\0\0\0\1"
