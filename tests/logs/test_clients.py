"""What all clients have in common: their facts, and that no message can hurt them."""

from __future__ import annotations

import json
import time

import pytest

from fsm.logs import Client, Message, all_facts, clients, facts_of
from fsm.reference import pages
from fsm.trace import from_json

WORDS = (
    "new group session begun; group: {}, added: {}, lost: {}",
    "Revoking previously assigned partitions {} for group {}",
    "Cooperative rebalance complete for group {}: owned={}, revoked={}, added={}",
    "User provided listener {} for group {} failed on partition assignment: {}",
    "[ConsumerGroup] Consumer has joined the group {}",
    "consumergroup/session/{}/1 released",
    "[thrd:main]: Group {} changed join state {}",
)
FILLERS = (
    "foo[0 1 ",
    "TopicPartition(",
    ", added=",
    ", revoked=",
    " for group ",
    "; group: ",
    "{",
    "map[",
    "\x00",
    "\ud800",
    "9" * 50 + " ",
    "a",
)


@pytest.mark.parametrize("client", clients(), ids=lambda client: client.name)
def test_no_message_hurts(client: Client) -> None:
    """Long, nested, half and huge values are understood or not, in time; records can be written."""
    for words in WORDS:
        for filler in FILLERS:
            text = words.replace("{}", filler * (60_000 // len(filler)))
            fields = {
                "group": filler,
                "groupId": filler,
                "memberAssignment": {filler: [1 << 70]},
                "added": {filler: [[]]},
            }
            began = time.process_time()
            for message in (Message(0, text), Message(0, text.split(";")[0], fields=fields)):
                for record in client.understand(message) or ():
                    assert from_json(json.dumps(json.loads(record.to_json()))) == record
            assert time.process_time() - began < 2, (words, filler)


def test_a_client_is_known_by_its_client_ids() -> None:
    """By its name, where its lines name none; by what it appends to them; Java's tell nothing."""
    assert facts_of("franz-go").name == "franz-go"
    assert facts_of("shop#consumer-2").name == "librdkafka"
    assert facts_of("shop").name == facts_of("").name == "java"
    names = [facts.name for facts in all_facts()]
    assert len(set(names)) == len(names) >= 8
    assert {*names} == {client.name for client in clients()} - {"broker", "connect"} | {"wire"}
    assert all(facts.supported_protocols and facts.ownership_lines and facts.not_logged for facts in all_facts())


def test_each_client_has_a_row_of_the_page() -> None:
    """It follows from the client's own module."""
    page = pages()["clients.md"].decode()
    for facts in all_facts():
        name = facts.title or facts.name
        row = f"| {name} | {facts.supported_protocols} | {facts.ownership_lines} | {facts.not_logged} |"
        assert row in page
