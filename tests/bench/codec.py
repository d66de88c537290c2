"""What reading and writing messages costs, beside kio where that is installed (`pip install kio`).

    python tests/bench/codec.py [--rounds N]

Each message is read from its bytes and written to them again, in its newest version. A figure is the best of the
rounds, in CPU time. kio reads in native code, into types of its own (`timedelta`, `UUID`): what it takes to make of
those the message that a coordinator handles, and the other way round, is not in its figures.
"""

import argparse
import re
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from typing import Any

from fsm.protocol.codec import API_OF, decode, encode
from fsm.protocol.consumer_protocol import Subscription, encode_subscription
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

ID = "5fQzW2bJT0y3JmXG8vX1Aw"
OWNED = tuple((f"{number:020d}AA", tuple(range(10))) for number in range(10))
WANTS = encode_subscription(Subscription(("orders", "payments"), owned_partitions=(("orders", 1), ("orders", 2))))
MESSAGES = {
    "heartbeat, nothing new": ConsumerGroupHeartbeatRequest("group", ID, 5),
    "its answer": ConsumerGroupHeartbeatResponse(5, 5_000, member_id=ID),
    "heartbeat, 100 partitions": ConsumerGroupHeartbeatRequest("group", ID, 5, topic_partitions=OWNED),
    "its answer, 100 partitions": ConsumerGroupHeartbeatResponse(5, 5_000, OWNED, member_id=ID),
    "join, two protocols": JoinGroupRequest(
        "group", 45_000, 300_000, ID, protocols=tuple(JoinGroupRequestProtocol(n, WANTS) for n in ("range", "sticky"))
    ),
    "its answer, 100 members": JoinGroupResponse(
        1, "consumer", "range", ID, ID, tuple(JoinGroupResponseMember(f"{ID}-{n}", None, WANTS) for n in range(100))
    ),
}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=9, help="the best of so many counts (default: %(default)s)")
    rounds = parser.parse_args().rounds
    print(f"{'message':<28}{'bytes':>7}{'read us':>9}{'write us':>10}{'kio read':>10}{'kio write':>10}")
    for name, message in MESSAGES.items():
        version = API_OF[type(message)].newest
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
