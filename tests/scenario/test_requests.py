"""Requests to a coordinator: what is sent where little is said, what is shown of the group, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsm.errors import InputError
from fsm.nodes import yaml_node
from fsm.scenario.files import compare, replay_document
from fsm.scenario.story import Replay

FOLDER = Path(__file__).parents[1] / "scenarios"
HEAD = "requests: a talk\nconfig: {group_consumer_assignment_interval_ms: 0}\ntopics: {foo: 4}\nsteps:\n"
JOINS = "- {from: A, ConsumerGroupHeartbeat: {subscribed_topic_names: [foo]}}\n"


def run_text(text: str, dialect: str | None = None) -> Replay:
    (run,) = replay_document(yaml_node(text, "talk.yaml", "scenario"), "talk.yaml", dialect)
    return run


def last(steps: str, dialect: str | None = None) -> dict[str, str]:
    """What is seen in the last step."""
    return dict(run_text(HEAD + steps, dialect).steps[-1].seen)


def test_member_sends_the_epoch_it_was_told_last() -> None:
    """A heartbeat that names no epoch joins at first and then acknowledges; one that names another is fenced."""
    assert last(JOINS)["answer member_epoch"] == "2"
    assert last(JOINS + "- {from: A, ConsumerGroupHeartbeat: }\n")["answer error_code"] == "none"
    assert last(JOINS + "- {from: A, ConsumerGroupHeartbeat: {member_epoch: 1}}\n")["answer error_code"] == (
        "fenced_member_epoch"
    )


def test_member_that_left_joins_anew() -> None:
    """After a leave the same name begins at epoch 0."""
    steps = JOINS + "- {from: A, ConsumerGroupHeartbeat: {member_epoch: -1}}\n" + JOINS
    assert last(steps)["answer member_epoch"] == "4"


def test_topics_can_change() -> None:
    """New partitions are given out with the next heartbeat."""
    steps = JOINS + "- topics: {foo: 6}\n- {from: A, ConsumerGroupHeartbeat: }\n"
    assert last(steps)["A assigned"] == "[foo-0, foo-1, foo-2, foo-3, foo-4, foo-5]"


def test_topic_with_fewer_partitions_is_another_topic() -> None:
    """No broker takes partitions away: the topic was deleted and made again, and what was held of it is gone."""
    steps = JOINS + "- topics: {foo: 2}\n- {from: A, ConsumerGroupHeartbeat: }\n"
    seen = last(steps)
    assert (seen["A target"], seen["A revoking"]) == ("[foo-0, foo-1]", "[foo-0, foo-1, foo-2, foo-3]")


def test_a_topic_that_goes_takes_its_offsets_along() -> None:
    """The step in which it goes writes their tombstones (`OffsetMetadataManager.onPartitionsDeleted`)."""
    committed = JOINS + "- {from: A, OffsetCommit: {offsets: {foo-0: 17}}}\n"
    assert last(committed + "- topics: {}\n")["records"] == "[-OFFSET_COMMIT]"
    assert last(committed + "- topics: {foo: 6}\n")["records"] == "[]"


def test_regular_expressions_are_resolved_at_once() -> None:
    """What a background task of the broker does is done when the request is over."""
    joins = "- {from: A, ConsumerGroupHeartbeat: {subscribed_topic_regex: 'fo+'}}\n"
    assert last(joins + "- {from: A, ConsumerGroupHeartbeat: }\n")["A assigned"] == "[foo-0, foo-1, foo-2, foo-3]"


def test_timers_run_out_in_their_time() -> None:
    """A session lasts its 45 seconds, and not a millisecond less."""
    assert last(JOINS + "- wait: 44999\n")["group members"] == "[A]"
    assert last(JOINS + "- wait: 45000\n")["group members"] == "[]"


def test_offsets_are_committed_at_the_member_epoch() -> None:
    """A commit at a later epoch is refused for each of its partitions."""
    good = JOINS + "- {from: A, OffsetCommit: {offsets: {foo-0: 17}}}\n"
    assert (last(good)["answer errors"], last(good)["records"]) == ("[]", "[OFFSET_COMMIT]")
    bad = JOINS + "- {from: A, OffsetCommit: {generation_id_or_member_epoch: 9, offsets: {foo-0: 17}}}\n"
    assert last(bad)["answer errors"] == "[foo-0: stale_member_epoch]"


def test_group_migrates_when_a_member_comes_with_the_other_protocol() -> None:
    """A classic group becomes a consumer group; the member that stays is classic, and shows its phase."""
    joins = "- {from: B, JoinGroup: {protocols: {range: {topics: [foo]}}}}\n"
    steps = joins * 2 + "- {from: B, SyncGroup: {assignments: {B: [foo-0, foo-1, foo-2, foo-3]}}}\n" + JOINS
    head = HEAD.replace("config: {", "config: {group_initial_rebalance_delay_ms: 0, ")
    seen = run_text(head + steps).steps[-1].seen
    assert (seen["group type"], seen["B protocol"], seen["A protocol"]) == ("consumer", "classic", "consumer")
    assert (seen["B phase"], seen["B assigned"]) == ("PreparingRebalance", "[foo-0, foo-1, foo-2, foo-3]")


def test_answers_to_earlier_requests_are_told() -> None:
    """A join that was delayed is answered in a later step."""
    (run,) = replay_document(
        yaml_node((FOLDER / "classic_group.yaml").read_text(), "talk.yaml", "scenario"), "talk.yaml"
    )
    others = [step.seen["other_answers"] for step in run.steps if step.seen["other_answers"] != "[]"]
    assert others[0].startswith("[B: JoinGroup(member_id=B, generation_id=2, ")
    assert others[1].startswith("[B: SyncGroup(")


def test_releases_part_at_a_flag() -> None:
    """F5: before 4.2 a member that must revoke once more goes to another epoch. Nothing else differs."""
    (found,) = compare(FOLDER / "revoked_again.yaml", "4.1", "4.2")
    assert [(d.step, d.field, d.expected, d.got) for d in found.differences] == [
        (5, "answer member_epoch", "2", "1"),
        (5, "A epoch", "2", "1"),
        (6, "A previous_epoch", "2", "1"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("requests: x\n", "talk.yaml:1: the key 'steps' is missing"),
        ("requests: x\nsteps: []\n", "talk.yaml:2: 0 steps; 1 to 2000"),
        (HEAD + "- {from: A}\n", "talk.yaml:5: a step does one thing, not 0; one of ConsumerGroupHeartbeat, "),
        (HEAD + "- {from: A, Heartbeat: , LeaveGroup: }\n", "talk.yaml:5: a step does one thing, not 2; "),
        (HEAD + "- {ConsumerGroupHeartbeat: }\n", "talk.yaml:5: has no sender; add from: NAME"),
        (HEAD + "- {from: A, ConsumerGroupHartbeat: }\n", "talk.yaml:5: unknown step 'ConsumerGroupHartbeat'; did "),
        (HEAD + "- {from: A, Heartbeat: {epoch: 1}}\n", "talk.yaml:5: unknown key 'epoch'; "),
        (HEAD + "- {from: A, JoinGroup: {}}\n", "talk.yaml:5: the key 'protocols' is missing"),
        (HEAD + "- {from: A, JoinGroup: }\n", "talk.yaml:5: must be a mapping"),
        (HEAD + "- {from: A, JoinGroup: {protocols: {range: {}}}}\n", "talk.yaml:5: the key 'topics' is missing"),
        (HEAD + "- {from: A, ConsumerGroupHeartbeat: {member_epoch: one}}\n", "talk.yaml:5: 'one' is not a whole "),
        (HEAD + "- {from: A, ConsumerGroupHeartbeat: {topic_partitions: [foo]}}\n", "talk.yaml:5: 'foo' is not a "),
        (HEAD + "- wait: -1\n", "talk.yaml:5: time cannot go back"),
        (HEAD + "- topics: {foo: 0}\n", "talk.yaml:5: a topic has at least one partition, "),
        (HEAD + "- topics: {foo: 999999999}\n", "talk.yaml:5: a topic has at least one partition, "),
        (HEAD + JOINS.replace("}}", "}, expect: {Z: {epoch: 1}}}"), "talk.yaml:5: 'Z' is unknown here; "),
        (HEAD + JOINS.replace("}}", "}, expect: {A: {epochs: 1}}}"), "talk.yaml:5: unknown key 'epochs'; "),
        (HEAD + JOINS.replace("}}", "}, expect: {group: {size: 1}}}"), "talk.yaml:5: unknown key 'size'; "),
        (HEAD.replace("{foo: 4}", "[foo]") + JOINS, "talk.yaml:3: must be a mapping"),
        (HEAD.replace("interval_ms: 0", "interval: 0") + JOINS, "talk.yaml:2: unknown key 'group_"),
        (HEAD.replace("steps:", "dialect: 3.9\nsteps:") + JOINS, "talk.yaml:4: unknown coordinator dialect '3.9'; one"),
    ],
)  # fmt: skip
def test_what_is_no_request_is_one_line_with_its_place(text: str, message: str) -> None:
    """Unknown words and wrong types are refused in one line that names the line of the file."""
    with pytest.raises(InputError) as refused:
        run_text(text)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)
