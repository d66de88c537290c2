"""Kafka's vocabulary: settings are checked, assignments have one form, error codes their numbers."""

from __future__ import annotations

import pytest

from fsm.errors import InputError
from fsm.protocol.assignment import (
    NONE,
    LocalAssignment,
    TopicNames,
    among,
    partitions,
    topic_partitions,
    without,
)
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.error_codes import ErrorCode


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group_id": ""}, "group_id: must not be empty or blank"),
        ({"group_id": " \t"}, "group_id: must not be empty or blank"),
        ({"group_id": "g", "group_instance_id": ""}, "group_instance_id: must be 1 to 249 ASCII letters.*, not ''$"),
        ({"group_id": "g", "group_instance_id": "a b"}, "group_instance_id: must be .*, not 'a b'$"),
        ({"group_id": "g", "group_instance_id": ".."}, "group_instance_id: must be .* neither '.' nor '..', not '..'$"),
        ({"group_id": "g", "group_remote_assignor": ""}, "group_remote_assignor: must not be empty"),
        ({"group_id": "g", "max_poll_interval_ms": 0}, "max_poll_interval_ms: must be at least 1 ms, not 0"),
        ({"group_id": "g", "retry_backoff_ms": -1}, "retry_backoff_ms: must be at least 0 ms, not -1"),
        ({"group_id": "g", "retry_backoff_max_ms": -1}, "retry_backoff_max_ms: must be at least 0 ms, not -1"),
        ({"group_id": "g", "auto_commit_interval_ms": -1}, "auto_commit_interval_ms: must be at least 0 ms, not -1"),
        ({"group_id": "g", "request_timeout_ms": -1}, "request_timeout_ms: must be at least 0 ms, not -1"),
        ({"group_id": "g", "default_api_timeout_ms": -1}, "default_api_timeout_ms: must be at least 0 ms, not -1"),
        (
            {"group_id": "g", "max_poll_interval_ms": 2_147_483_648},
            "max_poll_interval_ms: must be at most 2147483647 ms, not 2147483648",
        ),
        ({"group_id": 5}, "^group_id: must be text, not 5$"),
        ({"group_id": None}, "^group_id: must be text, not None$"),
        ({"group_id": "g", "client_id": b"c"}, "^client_id: must be text, not b'c'$"),
        ({"group_id": "g", "group_instance_id": 7}, "^group_instance_id: must be text, not 7$"),
        ({"group_id": "g", "max_poll_interval_ms": "5"}, "^max_poll_interval_ms: must be a whole number, not '5'$"),
        ({"group_id": "g", "max_poll_interval_ms": True}, "^max_poll_interval_ms: must be a whole number, not True$"),
        ({"group_id": "g", "retry_backoff_ms": 0.5}, "^retry_backoff_ms: must be a whole number, not 0.5$"),
        ({"group_id": "g", "enable_auto_commit": "yes"}, "^enable_auto_commit: must be True or False, not 'yes'$"),
    ],
)
def test_unusable_setting_is_named(settings: dict[str, object], message: str) -> None:
    """A setting that cannot be used is refused with its name."""
    with pytest.raises(InputError, match=message):
        ConsumerConfig(**settings)  # type: ignore[arg-type]


def test_least_values_are_kafkas() -> None:
    """What Kafka's consumer takes is taken: no waiting at all, no rack, the longest instance id."""
    config = ConsumerConfig(
        "g",
        group_instance_id="i" * 249,
        client_rack="",
        max_poll_interval_ms=1,
        auto_commit_interval_ms=0,
        retry_backoff_ms=0,
        retry_backoff_max_ms=0,
        request_timeout_ms=0,
        default_api_timeout_ms=0,
    )
    assert config.client_rack is None


def test_settings_are_read_under_their_keys() -> None:
    """Kafka's own keys become settings; keys that rule no membership are passed over."""
    keys = {"group.id": "g", "max.poll.interval.ms": "4000", "enable.auto.commit": "False", "fetch.min.bytes": "1"}
    config = ConsumerConfig.of(keys)
    assert (config.group_id, config.max_poll_interval_ms, config.enable_auto_commit) == ("g", 4000, False)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "group.id: missing"),
        ({"group.id": "g", "max.poll.interval.ms": "soon"}, "max.poll.interval.ms: must be a whole number, not 'soon'"),
        ({"group.id": "g", "enable.auto.commit": "yes"}, "enable.auto.commit: must be true or false, not 'yes'"),
    ],
)
def test_unreadable_value_is_named(keys: dict[str, str], message: str) -> None:
    """A value that cannot be read is refused with its key."""
    with pytest.raises(InputError, match=message):
        ConsumerConfig.of(keys)


def test_partitions_have_one_form() -> None:
    """Partitions are sorted and without repeats, topics without partitions are left out."""
    assert topic_partitions({"B": [2, 0, 2], "A": []}) == (("B", (0, 2)),)
    assert partitions([("b", 1), ("a", 0), ("b", 1)]) == (("a", 0), ("b", 1))
    assert without((("a", 0), ("b", 1)), [("b", 1)]) == (("a", 0),)
    assert among((("a", 0), ("b", 1)), [("b", 1)]) == (("b", 1),)


def test_local_epoch_counts_changes() -> None:
    """The first target has local epoch 0, even if empty; equal partitions keep it, others raise it."""
    first = NONE.update(())
    assert (first.local_epoch, first.is_none, NONE.is_none) == (0, False, True)
    assert first.update(()) is first
    assert first.update((("A", (0,)),)) == LocalAssignment(1, (("A", (0,)),))


def test_same_partitions_under_another_local_epoch_are_another_assignment() -> None:
    """What was taken away and given back has to be acknowledged again."""
    first = LocalAssignment(0, (("A", (0,)),))
    again = first.update(()).update((("A", (0,)),))
    assert again.partitions == first.partitions
    assert again != first


def test_topic_names_are_a_value() -> None:
    """Names compare and hash by content, whatever order they came in, and cannot be changed."""
    one, other = TopicNames({"B": "b", "A": "a"}), TopicNames([("A", "a"), ("B", "b")])
    assert one == other
    assert hash(one) == hash(other)
    assert one.only(["A"]) == TopicNames({"A": "a"})
    assert one.only(["A", "B", "C"]) is one
    assert one.name((("B", (1, 0)),)) == (("b", 0), ("b", 1))
    with pytest.raises(KeyError):
        one.name((("C", (0,)),))
    with pytest.raises(TypeError):
        one["C"] = "c"  # type: ignore[index]


@pytest.mark.parametrize(
    ("code", "number", "passes"),
    [
        (ErrorCode.FENCED_MEMBER_EPOCH, 110, False),
        (ErrorCode.UNRELEASED_INSTANCE_ID, 111, False),
        (ErrorCode.STALE_MEMBER_EPOCH, 113, False),
        (ErrorCode.NOT_COORDINATOR, 16, True),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 14, True),
        (ErrorCode.INVALID_REGULAR_EXPRESSION, 128, False),
    ],
)
def test_error_codes_have_their_numbers(code: ErrorCode, number: int, passes: bool) -> None:
    """A code is its number on the wire, and knows whether the same request may succeed later."""
    assert (int(code), code.passes) == (number, passes)
