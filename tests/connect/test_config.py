"""Settings of a Connect worker: defaults, vocabularies, and what is refused."""

from __future__ import annotations

import pytest

from fsm.connect.dialect import DOCUMENT
from fsm.connect.worker.config import ConnectConfig, Mode, version_of
from fsm.errors import InputError


def test_defaults_are_kafkas() -> None:
    """Only the group's name must be given."""
    config = ConnectConfig.of({"group.id": "connect-cluster"})
    assert (config.mode, config.scheduled_rebalance_max_delay_ms) == (Mode.SESSIONED, 300_000)
    assert (config.session_timeout_ms, config.heartbeat_interval_ms, config.rebalance_timeout_ms) == (
        10_000,
        3_000,
        60_000,
    )
    assert (config.worker_sync_timeout_ms, config.worker_unsync_backoff_ms) == (3_000, 300_000)
    assert config.max_poll_interval_ms == 60_000


def test_the_document_has_its_own_default() -> None:
    """In the document `connect.protocol` is eager unless set."""
    assert ConnectConfig.of({"group.id": "g"}, DOCUMENT).mode is Mode.EAGER
    assert ConnectConfig.of({"group.id": "g", "connect.protocol": "cooperative"}, DOCUMENT).mode is Mode.COOPERATIVE


@pytest.mark.parametrize("text", ["Eager", "COMPATIBLE", "sessioned"])
def test_the_protocol_is_case_insensitive(text: str) -> None:
    """As in Kafka, the letters' case means nothing; other properties are passed over."""
    properties = {"group.id": "g", "connect.protocol": text, "key.converter": "x"}
    assert ConnectConfig.of(properties).mode is Mode[text.upper()]


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({}, "group.id: must be given"),
        ({"connect.protocol": "cooperative"}, "connect.protocol: cooperative was never released; use compatible or"),
        ({"connect.protocol": "lazy"}, "connect.protocol: cannot be 'lazy'; choose from eager, compatible, sessioned$"),
        ({"scheduled.rebalance.max.delay.ms": "-1"}, "scheduled.rebalance.max.delay.ms: cannot be -1; it is from 0 to"),
        ({"scheduled.rebalance.max.delay.ms": "2147483648"}, "it is from 0 to 2147483647"),
        ({"rebalance.timeout.ms": "1m"}, "rebalance.timeout.ms: '1m' is not a number; give milliseconds"),
        ({"heartbeat.interval.ms": "10000"}, "heartbeat.interval.ms: cannot be 10000; it is above 0 and below"),
        ({"session.timeout.ms": "-1"}, "session.timeout.ms: cannot be -1; it is from 0 to 2147483647 ms"),
        ({"worker.sync.timeout.ms": "2147483648"}, "worker.sync.timeout.ms: cannot be 2147483648"),
        ({"retry.backoff.ms": "9223372036854775808"}, "it is from 0 to 9223372036854775807 ms"),
        ({"inter.worker.key.ttl.ms": "-5"}, "inter.worker.key.ttl.ms: cannot be -5"),
        ({"inter.worker.key.size": "many"}, "inter.worker.key.size: 'many' is not a number; give bits"),
        ({"inter.worker.key.size": "0"}, "inter.worker.key.size: cannot be 0; it is above 0"),
        (
            {"inter.worker.key.generation.algorithm": "MD5"},
            "inter.worker.key.generation.algorithm: cannot be 'MD5'; choose from HmacSHA1, HmacSHA224,",
        ),
        (
            {"inter.worker.signature.algorithm": "HmacSHA512"},
            "inter.worker.signature.algorithm: cannot be 'HmacSHA512'; it must be among inter.worker.verification",
        ),
        (
            {"inter.worker.verification.algorithms": " ,"},
            "inter.worker.verification.algorithms: must name at least one",
        ),
        (
            {"inter.worker.verification.algorithms": "HmacSHA256,X"},
            "inter.worker.verification.algorithms: cannot be 'X'",
        ),
    ],
)
def test_what_cannot_be_used_is_named(properties: dict[str, str], error: str) -> None:
    """The setting by Kafka's key, what is wrong with it, and what it may be."""
    given = properties if not properties else {"group.id": "g", **properties}
    with pytest.raises(InputError, match=error):
        ConnectConfig.of(given)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"group_id": " \t"}, "^group.id: must be given"),
        ({"group_id": 5}, "^group.id: must be text, not 5$"),
        ({"session_timeout_ms": "5"}, "^session.timeout.ms: must be a whole number, not '5'$"),
        ({"session_timeout_ms": True}, "^session.timeout.ms: must be a whole number, not True$"),
        ({"inter_worker_key_size": "64"}, "^inter.worker.key.size: must be a whole number, not '64'$"),
        ({"connect_protocol": None}, "^connect.protocol: must be text, not None$"),
        (
            {"inter_worker_verification_algorithms": "HmacSHA256"},
            "^inter.worker.verification.algorithms: must be a tup",
        ),
        ({"profile": "document"}, "^profile: must be a profile, not 'document'; SHIPPED or DOCUMENT$"),
    ],
)
def test_a_setting_of_a_wrong_type_is_named(settings: dict[str, object], error: str) -> None:
    """As in Python, where no text is read: one line with the setting, and no error of another kind."""
    with pytest.raises(InputError, match=error):
        ConnectConfig(**{"group_id": "g", **settings})  # type: ignore[arg-type]


def test_session_keys_matter_to_sessioned_workers_alone() -> None:
    """The lower modes sign nothing: what they say about keys is not looked at. Long settings take long values."""
    given = {"group.id": "g", "connect.protocol": "compatible", "inter.worker.signature.algorithm": "none"}
    assert ConnectConfig.of(given).inter_worker_signature_algorithm == "none"
    algorithms = {"inter.worker.verification.algorithms": "HmacSHA256, HmacSHA512", "retry.backoff.ms": "3000000000"}
    config = ConnectConfig.of({"group.id": "g", "inter.worker.signature.algorithm": "HmacSHA512", **algorithms})
    assert config.inter_worker_verification_algorithms == ("HmacSHA256", "HmacSHA512")
    assert (config.retry_backoff_ms, config.inter_worker_key_size) == (3_000_000_000, None)


def test_names_on_the_wire_have_versions() -> None:
    """default, compatible and sessioned are versions 0, 1 and 2; another name is none of Connect's."""
    assert [version_of(name) for name in ("default", "compatible", "sessioned")] == [0, 1, 2]
    with pytest.raises(InputError, match="'range' is not a protocol of Connect"):
        version_of("range")
