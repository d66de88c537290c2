"""Connect's bytes: metadata of a join and assignment of a sync, in every version."""

from __future__ import annotations

import pytest

from fsm.connect.protocol import (
    Assignment,
    WorkerMetadata,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
    protocols,
)
from fsm.connect.units import Unit
from fsm.connect.worker.config import Mode
from fsm.errors import RemoteProtocolError

HELD = Assignment(
    version=2,
    leader="m1",
    leader_url="http://a:1/",
    offset=7,
    assigned=(Unit("A"), Unit("B", 0), Unit("A", 1)),
    revoked=(Unit("B"),),
    delay_ms=40,
)


def test_an_assignment_is_these_bytes() -> None:
    """A literal assignment of version 1: instances are task -1, units are grouped by connector."""
    given = Assignment(1, "m", "u", 3, (Unit("A"), Unit("A", 0)), (), 5)
    assert encode_assignment(given, 1) == (
        b"\x00\x01\x00\x00\x00\x01m\x00\x01u\x00\x00\x00\x00\x00\x00\x00\x03"
        b"\x00\x00\x00\x01\x00\x01A\x00\x00\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00"
        b"\x00\x00\x00\x00\x00\x00\x00\x05"
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_cooperative_assignment_survives_the_wire(version: int) -> None:
    """Connectors come back before tasks, each kind in its order; a version above those known is read as they are."""
    found = decode_assignment(encode_assignment(HELD, version))
    assert found.assigned == (Unit("A"), Unit("A", 1), Unit("B", 0))
    assert (found.version, found.revoked, found.delay_ms, found.error) == (version, (Unit("B"),), 40, 0)
    assert (found.leader, found.leader_url, found.offset) == ("m1", "http://a:1/", 7)


def test_version_0_lacks_revocations_and_delay() -> None:
    """Bytes of the eager protocol read as an assignment that revokes nothing and has no delay."""
    found = decode_assignment(encode_assignment(HELD, 0))
    assert (found.version, found.revoked, found.delay_ms) == (0, (), 0)
    assert set(found.assigned) == set(HELD.assigned)


def test_metadata_says_what_is_held_in_cooperative_versions_only() -> None:
    """What is held travels with versions 1 and 2; none, and version 0, read as none."""
    metadata = WorkerMetadata("http://a:1/", 9, HELD)
    assert decode_metadata(encode_metadata(metadata, 0)) == WorkerMetadata("http://a:1/", 9)
    held = decode_metadata(encode_metadata(metadata, 2)).held
    assert held is not None
    assert set(held.assigned) == set(HELD.assigned)
    assert decode_metadata(encode_metadata(WorkerMetadata("u", -1), 1)) == WorkerMetadata("u", -1)


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        (Mode.EAGER, ("default",)),
        (Mode.COMPATIBLE, ("compatible", "default")),
        (Mode.SESSIONED, ("sessioned", "compatible", "default")),
        (Mode.COOPERATIVE, ("sessioned", "compatible")),
    ],
)
def test_a_join_advertises_its_mode_first(mode: Mode, names: tuple[str, ...]) -> None:
    """1, 2, 3 or, for the document's mode, 2 protocols, the mode's own first; each reads back with its version."""
    advertised = protocols(mode, WorkerMetadata("u", 1, HELD))
    assert tuple(name for name, _ in advertised) == names
    assert [decode_metadata(data).held is not None for name, data in advertised] == [n != "default" for n in names]


@pytest.mark.parametrize("cut", range(1, 30))
def test_bytes_that_end_early_are_refused(cut: int) -> None:
    """Whatever is missing before the optional fields, the error names the place."""
    with pytest.raises(RemoteProtocolError, match="assignment of a Connect worker cannot be read at byte"):
        decode_assignment(encode_assignment(HELD, 0)[:cut])


def test_negative_versions_and_absurd_lengths_are_refused() -> None:
    """A negative version, a length beyond the bytes and text that is no UTF-8 raise the same error."""
    with pytest.raises(RemoteProtocolError, match="version -1"):
        decode_metadata(b"\xff\xff\x00\x00")
    with pytest.raises(RemoteProtocolError, match="an array of 2147483647"):
        decode_assignment(encode_assignment(Assignment(0, "", "", 0), 0)[:-4] + b"\x7f\xff\xff\xff")
    with pytest.raises(RemoteProtocolError, match="not UTF-8"):
        decode_metadata(b"\x00\x00\x00\x01\xff" + bytes(8))
