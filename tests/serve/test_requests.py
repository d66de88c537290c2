"""Frames as requests: what was said before is not read again, and is the same as if it were."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsm.protocol import messages as m
from fsm.protocol.codec import decode_request, encode_request
from fsm.serve import requests
from fsm.serve.requests import Requests, list_versions

BEAT = m.ConsumerGroupHeartbeatRequest("g", "m", 3)


def test_a_heartbeat_said_again_is_the_same_but_for_its_number() -> None:
    reader = Requests(list_versions("4.4"))
    for number in (1, 2, -1, (1 << 31) - 1):
        for client, beat in (("A", BEAT), ("B", BEAT), ("A", replace(BEAT, member_epoch=4))):
            frame = encode_request(beat, 1, number, client)
            assert reader.read(frame) == decode_request(frame)
    assert len(reader._known) == 3


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MOST_REMEMBERED", 10)
    reader = Requests(list_versions("4.4"))
    for number in range(25):
        assert reader.read(encode_request(replace(BEAT, member_id=f"m-{number}"), 1, 1, "A"))
    assert len(reader._known) == 5
    assert reader.read(encode_request(replace(BEAT, group_id="g" * 300), 1, 1, "A"))
    assert reader.read(encode_request(m.MetadataRequest(), 12, 1, "A"))
    assert len(reader._known) == 5


def test_what_is_no_request_is_none_each_time() -> None:
    reader = Requests(list_versions("4.4"))
    frame = encode_request(BEAT, 1, 1, "A")
    for wrong in (frame[:20], frame[:2] + b"\0\x63" + frame[4:], b"", frame[:4]):
        assert [reader.read(wrong) for _ in range(2)] == [None, None]
    assert not reader._known


def test_a_release_with_other_rules_has_its_own_versions() -> None:
    """The rules are those of groups; the APIs are the release's."""
    assert list_versions("4.0.0+F5") == list_versions("4.0.0") != list_versions("4.4.0")
