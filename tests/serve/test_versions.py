"""Brokers that serve as an older release advertise what its brokers advertise, and speak nothing else."""

from __future__ import annotations

import pytest
from serve_scene import Scene

from fsm.protocol import messages as m

WANTED = ("ApiVersions", "DeleteGroups", "Fetch", "JoinGroup", "ListOffsets", "OffsetCommit", "OffsetFetch", "Produce")
ADVERTISED = {
    "4.0.0": ((0, 4), (0, 2), (4, 17), (2, 9), (1, 10), (2, 9), (1, 9), (0, 12)),
    "4.0.1": ((0, 4), (0, 2), (4, 17), (0, 9), (1, 10), (2, 9), (1, 9), (0, 12)),
    "4.1.2": ((0, 4), (0, 2), (4, 18), (0, 9), (1, 10), (2, 9), (1, 9), (0, 13)),
    "4.2.0": ((0, 4), (0, 2), (4, 18), (0, 9), (1, 11), (2, 10), (1, 10), (0, 13)),
    "4.3.1": ((0, 4), (0, 2), (4, 18), (0, 9), (1, 11), (2, 10), (1, 10), (0, 13)),
    "4.4.0": ((0, 5), (0, 3), (4, 18), (0, 9), (1, 11), (2, 10), (1, 10), (0, 13)),
    "fixed": ((0, 5), (0, 3), (4, 18), (0, 9), (1, 11), (2, 10), (1, 10), (0, 13)),
}
"""What `ApiKeys` of each release says."""


@pytest.mark.parametrize("release", ADVERTISED)
def test_what_a_release_advertises(release: str) -> None:
    response = Scene(release=release).client().ask(m.ApiVersionsRequest("x", "1"), 4)
    found = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
    assert tuple(found[m.APIS[name].key] for name in WANTED) == ADVERTISED[release]
    assert found[m.APIS["InitProducerId"].key] == (0, 5)
    assert not {m.APIS[name].key for name in ("AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit")} & set(found)


def test_a_version_that_the_release_has_not_ends_the_connection() -> None:
    client = Scene(release="4.0.0").client()
    client.send(m.DeleteGroupsRequest(("g",)), 3)
    assert client.is_closed


def test_a_version_that_is_advertised_for_others_only_ends_the_connection() -> None:
    client = Scene().client()
    client.send_frame(b"\0\0\0\0\0\0\0\1\xff\xff" + bytes(10))
    assert client.is_closed


def test_a_newer_client_falls_back() -> None:
    client = Scene(release="4.3.1").client()
    client.send(m.ApiVersionsRequest("x", "1"), 5)
    client.waiting[0] = (m.APIS["ApiVersions"], 0)
    response = client.take()
    assert response.error_code == 35
    assert client.ask(m.ApiVersionsRequest("x", "1"), response.api_keys[0].max_version).error_code == 0
