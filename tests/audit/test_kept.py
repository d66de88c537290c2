"""Whoever follows a member can be put away and taken out again between any two records, as a live audit needs it."""

from __future__ import annotations

import pickle

import memory
import pytest
import recordings

from fsm.audit.member.member_follower import MemberFollower, SharedFollower


class Kept:
    """A follower that is put away after each record."""

    def __init__(self, follower):
        self.kept = pickle.dumps(follower)

    def see(self, seen):
        """What it says to a record."""
        follower = pickle.loads(self.kept)  # noqa: S301  its own
        rows = list(follower.see(seen))
        self.kept = pickle.dumps(follower)
        return rows

    def finish(self):
        """What it says at the end."""
        return pickle.loads(self.kept).finish()  # noqa: S301  its own


@pytest.mark.parametrize("change", [None, "merged", "dealt"])
@pytest.mark.parametrize(
    "scenario", ["java/i_j09_kill9", "librdkafka/c06_maxpoll", "client/franz_coop.static", "connect/s02_leave_info"]
)
@pytest.mark.loop(6)
def test_a_member_goes_on_from_what_was_kept(monkeypatch, transform, scenario, change):
    """Processes behind one client id, consumers and workers: the same rows and findings."""
    archive, _, name = scenario.partition("/")
    logs = recordings.logs(archive)[name]
    logs = transform.WHOLE[change](logs) if change else logs
    expected = memory.audit(logs)
    monkeypatch.setattr("fsm.audit.group_audit.MemberFollower", lambda *about: Kept(MemberFollower(*about)))
    monkeypatch.setattr("fsm.audit.group_audit.SharedFollower", lambda *about: Kept(SharedFollower(*about)))
    found = memory.audit(logs)
    assert (found.findings, found.transitions) == (expected.findings, expected.transitions)
    for group, rows in expected.rows.items():
        assert list(found.rows[group].intervals) == list(rows.intervals)
        assert found.rows[group].lives == rows.lives
