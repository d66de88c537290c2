"""Processes of one client id in one file, told apart by what they say."""

from __future__ import annotations

import pytest

from fsm.audit.hygiene.shared_client_id import SharedClientId
from fsm.audit.rows import Place, Seen
from fsm.trace import Kind

P = [("t", i) for i in range(6)]


@pytest.fixture
def two(new_log):
    """Two processes x and y of one client id in one file; x owns t-0..2, y owns t-3..5."""
    log = new_log("c", "all.log")(0, Kind.STARTED)(1, Kind.SUBSCRIBED, topics=("t",))
    log(2, Kind.STARTED)(3, Kind.SUBSCRIBED, topics=("t",))
    for at, who, own in ((10, "x", P[:3]), (12, "y", P[3:])):
        log.step(at, "UNSUBSCRIBED", "JOINING", member_id=who).step(at + 50, "JOINING", "RECONCILING", member_id=who)
        log(at + 51, Kind.RECONCILING, member_id=who, full=tuple(own), partitions=tuple(own))
    log(70, Kind.ASSIGN_BEGIN, partitions=tuple(P[3:]))(71, Kind.ASSIGN_BEGIN, partitions=tuple(P[:3]))
    return log


def separate(records):
    """(member, record, doubtful) for each."""
    apart = SharedClientId("c")
    return [*(one for seen in records for one in apart.see(seen)), *apart.finish()]


def owners(log):
    """Who each record was given to, by time and kind."""
    ordered = sorted(log.seen, key=lambda s: s.record.ts_ms)
    return {(s.record.ts_ms, s.record.kind): who for who, s, _ in separate(ordered)}


def test_callbacks_go_to_whom_the_block_told(two):
    """The callback lines carry no id; the partitions tell."""
    found = owners(two)
    assert found[70, Kind.ASSIGN_BEGIN] == "c [y]"
    assert found[71, Kind.ASSIGN_BEGIN] == "c [x]"


def test_the_first_to_start_is_the_first_to_join(two):
    """Start and subscription come before the id."""
    found = owners(two)
    assert [found[at, kind] for at, kind in ((0, "started"), (1, "subscribed"), (2, "started"), (3, "subscribed"))] == [
        "c [x]", "c [x]", "c [y]", "c [y]",
    ]  # fmt: skip


def test_a_revocation_goes_to_the_owner(two):
    """On close no block announces it: whoever owns exactly these partitions."""
    two(500, Kind.REVOKE_BEGIN, partitions=tuple(P[3:])).step(510, "STABLE", "PREPARE_LEAVING", member_id="y")
    assert owners(two)[500, Kind.REVOKE_BEGIN] == "c [y]"


def test_a_loss_goes_to_who_was_fenced(two):
    """The member that was fenced owns just these."""
    two.step(500, "STABLE", "FENCED", member_id="x")(600, Kind.LOST_BEGIN, partitions=tuple(P[:3]))
    assert owners(two)[600, Kind.LOST_BEGIN] == "c [x]"


def test_a_poll_timeout_goes_to_who_leaves_with_it(two):
    """The warning carries no id, the step that follows in the same moment does."""
    two(500, Kind.POLL_EXPIRED).step(501, "STABLE", "PREPARE_LEAVING", member_id="y")
    assert owners(two)[500, Kind.POLL_EXPIRED] == "c [y]"


def test_who_has_left_is_the_next_to_close(two):
    """The line of the closed consumer names only the client id."""
    two.step(500, "LEAVING", "UNSUBSCRIBED", member_id="y")(510, Kind.CLOSE_BEGIN)(900, Kind.CLOSE_END)
    two.step(1500, "LEAVING", "UNSUBSCRIBED", member_id="x")(1510, Kind.CLOSE_BEGIN)(1900, Kind.CLOSE_END)
    found = owners(two)
    assert (found[900, Kind.CLOSE_END], found[1900, Kind.CLOSE_END]) == ("c [y]", "c [x]")


def test_what_fits_nobody_is_left_out_and_puts_everybody_in_doubt(two):
    """Partitions that nobody owns cannot be revoked by one of the two."""
    two(500, Kind.REVOKE_BEGIN, partitions=(("u", 0),)).step(600, "STABLE", "RECONCILING", member_id="x")
    two.step(610, "STABLE", "RECONCILING", member_id="y")
    ordered = sorted(two.seen, key=lambda s: s.record.ts_ms)
    given = separate(ordered)
    assert 500 not in [s.record.ts_ms for _, s, _ in given]
    assert [(who, s.record.ts_ms) for who, s, doubtful in given if doubtful] == [("c [x]", 600), ("c [y]", 610)]


def test_files_put_behind_one_another_put_everybody_in_doubt(two):
    """What came next in time does not stand next in the file, so nobody knows who would have been next."""
    two.step(5000, "STABLE", "RECONCILING", member_id="x")
    behind, before = two.seen[-1], Place("all.log", 0)
    for place in (behind.place, before):
        ordered = sorted([*two.seen[:-1], Seen(behind.record, place)], key=lambda s: s.record.ts_ms)
        doubted = [who for who, _, doubtful in separate(ordered) if doubtful]
        assert doubted == (["c [x]"] if place == before else [])


def test_instance_ids_tell_static_members_apart(new_log):
    """A static member's lines carry its instance id."""
    log = new_log("c", "all.log")
    for at, who in ((0, "i-a"), (1, "i-b")):
        log(at, Kind.STARTED, instance_id=who)(at + 10, Kind.JOINED, instance_id=who, member_id=f"{who}-1")
    log(50, Kind.ASSIGN_BEGIN, instance_id="i-b", partitions=(P[0],))
    assert owners(log)[50, Kind.ASSIGN_BEGIN] == "c [i-b-1]"


def test_lines_that_alternate_between_files_are_in_doubt_from_the_start(two):
    """Within one moment their order is not known; a rotated file after the first one puts nobody in doubt."""
    for files, doubted in ((("a", "b", "a", "b"), True), (("a", "a", "b", "b"), False)):
        entries = [
            s._replace(place=s.place._replace(file=files[i % 4 if doubted else i // 3 % 4]))
            for i, s in enumerate(two.seen)
        ]
        assert any(doubtful for _, _, doubtful in separate(entries)) is doubted
