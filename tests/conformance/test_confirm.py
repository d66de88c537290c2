"""That a real Kafka does what the checker says, and that a wrong model is noticed: `make test-kafka`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from confirm import (
    PATIENCE_S,
    Spot,
    confirm,
    fail_over,
    failing_over,
    freeze,
    grow,
    hang,
    load,
    one_user,
    questions,
    recreate,
    rejoin,
    resubscribe,
    settings,
    spots,
    wake,
)
from kafka_broker import broker

from fsm.check.kafka.consumer.group import consumer_group
from fsm.conformance.broker_peer import Topics
from fsm.wire.connection import Connection

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("confirm")]

Peer = tuple[tuple[str, int], Topics]


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Peer]]:
    """A broker of each policy of migration that is asked for, and its topics."""
    started: dict[str, Peer] = {}
    with ExitStack() as stack:

        def peer_of(policy: str) -> Peer:
            if policy not in started:
                folder = tmp_path_factory.mktemp("confirm")
                address = stack.enter_context(broker(folder, settings(policy)))
                started[policy] = address, Topics(Connection(*address, "confirm", PATIENCE_S))
            return started[policy]

        yield peer_of


@pytest.fixture
def peer(peers: Callable[[str], Peer]) -> Peer:
    """The broker of most spots."""
    return peers(Spot.policy)


@pytest.mark.parametrize("number", [spot.number for spot in spots()])
def test_kafka_has_the_weak_spot(number: str, peers: Callable[[str], Peer]) -> None:
    spot = next(spot for spot in spots() if spot.number == number)
    assert confirm(spot, *peers(spot.policy))


@pytest.mark.parametrize("spot", [*failing_over()], ids=lambda spot: spot.number)
def test_kafka_has_the_weak_spot_after_a_failover(spot: Spot) -> None:
    assert fail_over(spot)


def test_kafka_takes_a_fenced_member_back_as_its_release_does(peer: Peer) -> None:
    assert rejoin(*peer)


def test_a_java_client_that_hangs_as_it_unsubscribes_keeps_its_partitions(peer: Peer) -> None:
    assert hang(*peer)


def test_a_java_client_that_is_woken_up_reads_on_what_another_one_has(peer: Peer) -> None:
    assert wake(*peer)


def test_a_java_client_whose_topic_is_made_anew_reads_what_another_one_has(peer: Peer) -> None:
    assert recreate(*peer)


def test_a_java_client_that_leads_and_returns_after_its_topic_has_grown_leaves_the_rest_unread(peer: Peer) -> None:
    assert grow(*peer)


def test_static_java_clients_that_return_with_one_topic_more_do_not_read_it(peer: Peer) -> None:
    assert resubscribe(*peer)


def test_a_connect_worker_that_stood_still_runs_what_another_one_was_given(peer: Peer) -> None:
    assert freeze(*peer)


def test_a_broker_that_loads_its_log_anew_refuses_a_sync_as_clients_do_not_expect() -> None:
    assert load()


def test_a_release_with_other_rules_is_found_out(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    """One before 4.2 would have refused the member."""
    monkeypatch.setattr("confirm.RELEASE", "4.1.2")
    assert not rejoin(*peer)


def test_a_model_of_another_release_is_found_out(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """In the rules of 4.1.0 the first member of a group has epoch 1."""
    spot = next(spot for spot in spots() if spot.number == "W9")
    old = questions(consumer_group(coordinator="4.1.0"), one_user("ab", answered=True))
    assert not confirm(replace(spot, model=old), *peer)
    assert "is answered" in capsys.readouterr().out
