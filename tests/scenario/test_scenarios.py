"""The scenarios that come with the project: everything they expect happens, and whatever else they said would not."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsm.nodes import yaml_node
from fsm.scenario.files import compare, replay, replay_document
from fsm.scenario.story import Replay

FOLDER = Path(__file__).parents[1] / "scenarios"
FILES = sorted(FOLDER.glob("*.yaml"))


def run_text(text: str, dialect: str | None = None) -> Replay:
    """The one scenario of a text."""
    (run,) = replay_document(yaml_node(text, "talk.yaml", "scenario"), "talk.yaml", dialect)
    return run


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_scenario_goes_as_it_says(file: Path) -> None:
    """Every expectation of every scenario is met in the dialect that it names."""
    for run in replay(file):
        assert run.differences() == ()
        assert run.expectations > 5


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_scenario_gives_the_same_every_time(file: Path) -> None:
    """Two runs of one scenario are equal, so that a difference between two dialects is one of the dialects."""
    assert replay(file) == replay(file)


@pytest.mark.parametrize(
    ("file", "message", "instead", "expected", "got"),
    [
        ("conversation", "state: FENCED", "state: STABLE", "STABLE", "FENCED"),
        ("conversation", "fetchable: [orders-0]", "fetchable: [orders-1]", "[orders-1]", "[orders-0]"),
        ("conversation", "member_epoch: 2, topic_partitions: null", "member_epoch: 3", "3", "2"),
        ("conversation", "topic_partitions: null}", "topic_partitions: []}", "[]", "none"),
        ("conversation", "closed: yes", "closed: no", "no", "yes"),
        ("conversation", "- on_partitions_assigned: []", "- on_partitions_assigned: [orders-0]",
         "[on_partitions_assigned [orders-0]]", "[on_partitions_assigned []]"),
        ("raising_listener", "raised: null", "raised: boom", "boom", "none"),
        ("raising_listener", "sent: []", "sent: [OffsetCommit]", "[OffsetCommit]", "[]"),
        ("revoke_step", "- background: PartitionsRemovedEvent", "- background: ErrorEvent",
         "[application: AsyncPollEvent, background: ErrorEvent]",
         "[application: AsyncPollEvent, background: PartitionsRemovedEvent]"),
        ("slow_callback", "inside: null", "inside: close", "close", "none"),
        ("classic_member", "generation: 2", "generation: 7", "7", "2"),
        ("classic_member", 'member_id: ""', "member_id: m-9", "m-9", ""),
        ("classic_member", "members: [m-1]", "members: [m-2]", "[m-2]", "[m-1]"),
    ],
)  # fmt: skip
def test_wrong_expectation_is_found(file: str, message: str, instead: str, expected: str, got: str) -> None:
    """One changed word is the first difference, with its line, what was expected and what came."""
    text = (FOLDER / f"{file}.yaml").read_text()
    assert message in text
    first = run_text(text.replace(message, instead, 1)).differences()[0]
    line = text[: text.index(message)].count("\n") + 1
    assert (first.expected, first.got) == (expected, got)
    assert int(first.where.removeprefix("talk.yaml:")) in (line, line - 1)


def test_releases_part_where_one_applies_in_the_background() -> None:
    """Before 4.3 an assignment is applied before the application polls: the first step and field in which they part."""
    (found,) = compare(FOLDER / "conversation.yaml", "4.0", "4.4")
    first = found.differences[0]
    assert (found.ours.dialect, found.theirs and found.theirs.dialect) == ("4.0.2", "4.4.0")
    assert (first.step, first.field, first.expected, first.got) == (3, "owned", "[orders-0, orders-1]", "[]")


def test_releases_part_in_a_hazard() -> None:
    """A topic without a name is acknowledged around in every loop by 4.3, once by 4.4."""
    (found,) = compare(FOLDER / "late_metadata.yaml", "4.3", "4.4")
    first = found.differences[0]
    assert (first.step, first.field, first.expected, first.got) == (4, "state", "ACKNOWLEDGING", "RECONCILING")
    sent = [(d.step, d.expected, d.got) for d in found.differences if d.field == "sent"]
    assert sent[0] == (5, "[ConsumerGroupHeartbeat]", "[]")


def test_dialect_does_not_part_from_itself() -> None:
    """The same release twice has nothing to show, nor the same profile of Connect."""
    for file in FILES:
        same = ("shipped", "shipped") if file.stem.startswith("connect") else ("4.2", "4.2.1")
        for found in compare(file, *same):
            assert found.differences == ()


def test_details_of_a_field_that_differs_are_left_out() -> None:
    """Where one release sends a request and the other none, the fields of that request are no differences too."""
    (found,) = compare(FOLDER / "late_metadata.yaml", "4.3", "4.4")
    assert [d.field for d in found.differences if d.step == 5] == ["state", "transitions", "sent"]
