"""Which server-side assignor a group uses: every member may vote, most votes win, and ties have a rule of their own.

Kafka does not promise what happens in a tie, but it always does the same. Stored votes are walked in the order of the
coordinator's state, `uniform` before `range`. A request first takes back the vote of its member and then counts the
new one; a vote that nobody else has thereby leaves and comes back at the front. So with one vote each, a request of
the member that voted `range` elects `range`, and any other request elects `uniform`.

From 4.4 on a request that elects another assignor than the stored votes do bumps the group epoch (F13). In such a tie
every single request of that member does: 224 of 224 in the recorded walks of 4.4.0, none with two votes each.

Source: section 3.9 of the coordinator reference; `ConsumerGroup.computePreferredServerAssignor` of apache/kafka; the
tie is measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fsm.coordinator.hash_order import state_order, string_hash


def stored_votes(votes: Iterable[str | None]) -> dict[str, int]:
    """The votes of a group's members, counted, in the order of the coordinator's state; None is no vote."""
    given = [vote for vote in votes if vote is not None]
    return {assignor: given.count(assignor) for assignor in state_order(given, string_hash)}


def preferred(votes: Mapping[str, int]) -> str | None:
    """The assignor with most votes; the first of them in a tie; None where nobody voted."""
    return max(votes, key=lambda assignor: votes[assignor], default=None)


def elected(votes: Mapping[str, int], old_vote: str | None, new_vote: str | None) -> str | None:
    """The assignor that a request elects whose member had `old_vote` (None as well: a new member) and has `new_vote`.

    >>> elected({"uniform": 1, "range": 1}, "range", "range"), elected({"uniform": 1, "range": 1}, None, None)
    ('range', 'uniform')
    """
    counts = dict(votes)
    if old_vote is not None:
        counts[old_vote] -= 1
        if not counts[old_vote]:
            del counts[old_vote]
    if new_vote is not None and new_vote not in counts:
        return preferred({new_vote: 1, **counts})
    if new_vote is not None:
        counts[new_vote] += 1
    return preferred(counts)
