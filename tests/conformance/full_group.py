"""W34 on a real Kafka: a full group refuses the last member that a join phase waits for, and the phase goes on.

The checker's path stops as the phase goes on: how long the others wait is seen here.
"""

from __future__ import annotations

import threading
import time

from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from fsm.wire.connection import Connection

SIZE = 1
"""`group.max.size` of the broker."""
SESSION_MS, REBALANCE_MS = 45_000, 10_000
PROTOCOL = JoinGroupRequestProtocol("range", b"")


def confirm_full(first: Connection, second: Connection, group: str) -> tuple[bool, list[str]]:
    """Whether a member that rejoins waits for its rebalance timeout though the other one is refused at once."""
    ids = [join(one, group, "").member_id for one in (first, second)]
    generation = join(first, group, ids[0]).generation_id
    sync(first, group, generation, ids[0])
    answered: list[tuple[float, JoinGroupResponse]] = []
    began = time.monotonic()
    rejoins = threading.Thread(target=lambda: answered.append((time.monotonic(), join(first, group, ids[0]))))
    rejoins.start()
    time.sleep(1)
    refusal, refused_s = ErrorCode(join(second, group, ids[1]).error_code), time.monotonic() - began
    rejoins.join()
    waited_s = time.monotonic() - began
    lines = [f"the second member: {refusal.name} after {refused_s:.1f} s; the first one waits for {waited_s:.1f} s"]
    is_refused = refusal is ErrorCode.GROUP_MAX_SIZE_REACHED and refused_s < REBALANCE_MS / 2000
    return is_refused and waited_s >= REBALANCE_MS / 1000, lines


def join(connection: Connection, group: str, member_id: str) -> JoinGroupResponse:
    """The answer to a JoinGroup of a member."""
    request = JoinGroupRequest(
        group, SESSION_MS, REBALANCE_MS, member_id, protocol_type="consumer", protocols=(PROTOCOL,)
    )
    response: JoinGroupResponse = connection.call(request)
    return response


def sync(connection: Connection, group: str, generation: int, member_id: str) -> ErrorCode:
    """The answer to a SyncGroup of a leader that assigns itself nothing."""
    assigns = (SyncGroupRequestAssignment(member_id, b""),)
    request = SyncGroupRequest(
        group, generation, member_id, protocol_type="consumer", protocol_name="range", assignments=assigns
    )
    return ErrorCode(connection.call(request).error_code)
