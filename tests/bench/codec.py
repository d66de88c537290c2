"""What reading and writing messages costs, beside kio where that is installed (`pip install kio`).

    python tests/bench/codec.py [--rounds N]

Each message is read from its bytes and written to them again, in its newest version, Fetch in version 16; then the
frames of a heartbeat, with their headers. A figure is the best of the rounds, in CPU time. kio reads in native code,
into types of its own (`timedelta`, `UUID`): what it takes to make of those the message that a coordinator handles, and
the other way round, is not in its figures.
"""

import argparse
import re
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from typing import Any

from fsm.protocol.codec import API_OF, decode, decode_request, decode_response, encode, encode_request, encode_response
from fsm.protocol.consumer_protocol import Subscription, encode_subscription
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
    PartitionData,
)

ID = "5fQzW2bJT0y3JmXG8vX1Aw"
OWNED = tuple((f"{number:020d}AA", tuple(range(10))) for number in range(10))
WANTS = encode_subscription(Subscription(("orders", "payments"), owned_partitions=(("orders", 1), ("orders", 2))))
KEEPALIVE = ConsumerGroupHeartbeatRequest("group", ID, 5)
ANSWER = ConsumerGroupHeartbeatResponse(5, 5_000, member_id=ID)
MESSAGES = {
    "heartbeat, nothing new": KEEPALIVE,
    "its answer": ANSWER,
    "heartbeat, 100 partitions": ConsumerGroupHeartbeatRequest("group", ID, 5, topic_partitions=OWNED),
    "its answer, 100 partitions": ConsumerGroupHeartbeatResponse(5, 5_000, OWNED, member_id=ID),
    "join, two protocols": JoinGroupRequest(
        "group", 45_000, 300_000, ID, protocols=tuple(JoinGroupRequestProtocol(n, WANTS) for n in ("range", "sticky"))
    ),
    "its answer, 8 members": JoinGroupResponse(
        1, "consumer", "range", ID, ID, tuple(JoinGroupResponseMember(f"{ID}-{n}", None, WANTS) for n in range(8))
    ),
    "its answer, 100 members": JoinGroupResponse(
        1, "consumer", "range", ID, ID, tuple(JoinGroupResponseMember(f"{ID}-{n}", None, WANTS) for n in range(100))
    ),
    "fetch, 8 partitions": FetchRequest(
        topics=(FetchTopic(topic_id=ID, partitions=tuple(FetchPartition(n, 3, 1_000 + n) for n in range(8))),)
    ),
    "its answer, 8 of 1 kB": FetchResponse(
        responses=(
            FetchableTopicResponse(
                topic_id=ID,
                partitions=tuple(PartitionData(n, high_watermark=9, records=bytes(1_000)) for n in range(8)),
            ),
        )
    ),
}
VERSIONS = {FetchRequest: 16, FetchResponse: 16}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=9, help="the best of so many counts (default: %(default)s)")
    rounds = parser.parse_args().rounds
    print(f"{'message':<28}{'bytes':>7}{'read us':>9}{'write us':>10}{'kio read':>10}{'kio write':>10}")
    for name, message in MESSAGES.items():
        version = VERSIONS.get(type(message), API_OF[type(message)].newest)
        data = encode(message, version)
        figures = [
            best(lambda: decode(type(message), data, version), rounds),  # noqa: B023  # called at once
            best(lambda: encode(message, version), rounds),  # noqa: B023
        ]
        if find_spec("kio"):
            read, write = kio(type(message), version)
            theirs, _ = read(data, 0)
            figures += [best(lambda: read(data, 0), rounds), best(lambda: write(BytesIO(), theirs), rounds)]  # noqa: B023
        print(f"{name:<28}{len(data):>7}{figures[0]:>9.1f}" + "".join(f"{us:>10.1f}" for us in figures[1:]))
    asked, answered = encode_request(KEEPALIVE, 1, 7, "consumer-1"), encode_response(ANSWER, 1, 7)
    read_us = best(lambda: decode_request(asked), rounds)
    write_us = best(lambda: encode_request(KEEPALIVE, 1, 7, "consumer-1"), rounds)
    print(f"{'frame of such a heartbeat':<28}{len(asked):>7}{read_us:>9.1f}{write_us:>10.1f}")
    read_us = best(lambda: decode_response(ConsumerGroupHeartbeatResponse, answered, 1), rounds)
    write_us = best(lambda: encode_response(ANSWER, 1, 7), rounds)
    print(f"{'frame of its answer':<28}{len(answered):>7}{read_us:>9.1f}{write_us:>10.1f}")


def best(call: Callable[[], Any], rounds: int) -> float:
    """Microseconds of CPU time that one call takes."""
    found = []
    for _ in range(rounds):
        begun = time.process_time()
        for _ in range(500):
            call()
        found.append((time.process_time() - begun) / 500)
    return min(found) * 1e6


def kio(cls: type[Any], version: int) -> tuple[Any, Any]:
    """How kio reads and writes such a message."""
    name, kind = cls.__name__, "request" if cls.__name__.endswith("Request") else "response"
    module = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower().removesuffix(f"_{kind}")
    entity = getattr(import_module(f"kio.schema.{module}.v{version}.{kind}"), name)
    serial = import_module("kio.serial")
    return serial.entity_reader(entity), serial.entity_writer(entity)


if __name__ == "__main__":
    main()
