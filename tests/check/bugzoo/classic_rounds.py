"""Bugs of the rounds of classic groups: what is left of a membership, whom the coordinator waits for."""

from __future__ import annotations

from typing import Any

from bugzoo.classic_groups import row
from bugzoo.planting import Patches, plant
from fsm.check.mutation import replace_function
from fsm.coordinator.classic import timers
from fsm.coordinator.classic.requests import removal
from fsm.tables.classic_member import KEEP_MEMBER_ID, Event, State


@plant("librdkafka-db1cca379")
def an_unknown_member_keeps_its_id() -> Patches:
    alive = (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE, State.STABLE)
    reset = (State.UNJOINED, *KEEP_MEMBER_ID)
    return [one for state in alive for one in row(state, Event.HEARTBEAT_UNKNOWN_MEMBER_ID, *reset)]


@plant("redpanda-22749")
def who_waits_has_to_send_heartbeats() -> Patches:
    def missing(original: Any, group: Any, who: str) -> Any:
        if group.is_waiting(who):
            return removal(group, (who,), timers._SESSION, ends_initial=True)
        return original(group, who)

    return [replace_function(timers._heartbeat_missing, missing)]
