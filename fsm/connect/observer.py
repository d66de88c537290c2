"""What an observer beside a cluster makes of a leader's messages: the round that was computed, the round that was sent.

Both are read from outside, from the answer that elected the leader and the sync that it sent, so that the invariants
judge what the workers really said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fsm.connect.assignor import Round, assign
from fsm.connect.config import version_of
from fsm.connect.invariants import Computation
from fsm.connect.process import SeenRound
from fsm.connect.protocol import decode_assignment, decode_metadata
from fsm.connect.state import Worker
from fsm.connect.units import Units
from fsm.kafka.classic_messages import JoinGroupResponse, SyncGroupRequest


def computation(leader: Worker, answer: JoinGroupResponse, now_ms: int) -> Computation | None:
    """What a worker that this answer elects has to compute; None where it does not lead or the round is eager.

    `leader` is the worker as it was before the answer.
    """
    if answer.leader != answer.member_id or not answer.protocol_name or version_of(answer.protocol_name) == 0:
        return None
    members = {m.member_id: decode_metadata(m.metadata) for m in answer.members}
    highest = max(m.offset for m in members.values())
    snapshot = leader.joined_with if leader.joined_with.offset >= highest else leader.store
    held = {m: said.held for m, said in members.items()}
    round_ = Round(
        now_ms,
        answer.generation_id,
        snapshot.units,
        {m: () if mine is None else mine.assigned for m, mine in held.items()},
        leader.last_completed_generation,
        max((mine.delay_ms for mine in held.values() if mine is not None), default=0),
    )
    max_delay_ms, profile = leader.config.scheduled_rebalance_max_delay_ms, leader.config.profile
    outcome = assign(leader.memory, round_, max_delay_ms, profile)
    return Computation(leader.memory, round_, outcome, max_delay_ms, profile)


def sent(
    leader: str, body: SyncGroupRequest, now_ms: int, name: Callable[[str], str], held: Mapping[str, Units]
) -> SeenRound:
    """The round that a leader's sync tells, by the names of the workers; `held` is what they held before it."""
    told = {name(a.member_id): decode_assignment(a.assignment) for a in body.assignments}
    one = next(iter(told.values()))
    names = sorted(told)
    return SeenRound(
        now_ms,
        body.generation_id,
        leader,
        one.version,
        one.delay_ms,
        one.error,
        {each: held.get(each, ()) for each in names},
        {each: told[each].assigned for each in names},
        {each: told[each].revoked for each in names},
    )
