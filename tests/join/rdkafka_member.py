"""A member of a group with librdkafka: reads until it is told to stop, prints what its callbacks got as JSON lines.

    python rdkafka_member.py BOOTSTRAP GROUP TOPIC CLIENT_ID

Its debug log goes to stderr.
"""

from __future__ import annotations

import json
import select
import sys
from functools import partial
from typing import Any

from confluent_kafka import Consumer


def say(event: str, _consumer: Any = None, partitions: Any = ()) -> None:
    """Prints an event."""
    sys.stdout.write(
        json.dumps({"event": event, "partitions": [[one.topic, one.partition] for one in partitions]}) + "\n"
    )
    sys.stdout.flush()


def main(bootstrap: str, group: str, topic: str, client_id: str) -> None:
    """Takes part until a line comes in."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": client_id,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
            "debug": "cgrp,consumer,topic,assignor,protocol",
        }
    )
    calls = {f"on_{method}": partial(say, event) for method, event in CALLBACKS.items()}
    consumer.subscribe([topic], **calls)
    while not select.select([sys.stdin], [], [], 0)[0]:
        consumer.poll(0.1)
    consumer.close()
    say("closed")


CALLBACKS = {"assign": "assigned", "revoke": "revoked", "lost": "lost"}

if __name__ == "__main__":
    main(*sys.argv[1:])
