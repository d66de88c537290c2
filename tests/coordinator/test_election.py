"""The election of a group's assignor, ties included, as the recorded walks have it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsm.coordinator.model.consumer_group import Members, elect, new_member, prefer

TIE = {"uniform": 1, "range": 1}


@pytest.mark.parametrize(
    ("votes", "old_vote", "new_vote", "winner"),
    [
        ({}, None, None, None),
        ({}, None, "range", "range"),
        ({"range": 2, "uniform": 1}, "range", None, "uniform"),
        ({"uniform": 2}, "uniform", "range", "range"),
        ({"uniform": 1}, None, "range", "range"),
        ({"range": 1}, None, "uniform", "uniform"),
        (TIE, "range", "range", "range"),
        (TIE, "uniform", "uniform", "uniform"),
        (TIE, None, None, "uniform"),
        ({"uniform": 2, "range": 1}, None, "range", "uniform"),
        ({"uniform": 2, "range": 2}, "range", "range", "uniform"),
        ({"uniform": 3, "range": 1}, "range", "range", "uniform"),
    ],
)
def test_most_votes_win(votes: dict[str, int], old_vote: str | None, new_vote: str | None, winner: str | None) -> None:
    """In a tie the assignor whose only vote is that of the request wins, else `uniform`."""
    assert elect(dict(sorted(votes.items(), reverse=True)), old_vote, new_vote) == winner


def stored_votes(*votes: str | None) -> dict[str, int]:
    """Of a member for each."""
    blank = [new_member(f"m{i}") for i, _ in enumerate(votes)]
    metadata = (replace(m.metadata, server_assignor=vote) for m, vote in zip(blank, votes, strict=True))
    members = Members.of(replace(m, metadata=one) for m, one in zip(blank, metadata, strict=True))
    return members.votes_in_order()


def test_a_tie_makes_every_request_of_one_member_elect_anew() -> None:
    """With a vote each, the voter of `range` elects another assignor than the stored votes do; 4.4 bumps each time."""
    votes = stored_votes("range", None, "uniform")
    assert (list(votes), prefer(votes)) == (["uniform", "range"], "uniform")
    assert elect(votes, "range", "range") != prefer(votes)
    assert elect(votes, "uniform", "uniform") == prefer(votes)


def test_without_a_vote_the_first_configured_assignor_is_the_caller_s_choice() -> None:
    """Nobody voted: there is no preference."""
    assert prefer(stored_votes(None, None)) is None
