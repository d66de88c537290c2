"""Logs of aiokafka's consumer: classic protocol, eager. Message texts of 0.14.0; everything relevant is logged at INFO.

The line of a callback names its partitions and is printed when it begins. `stop()` logs only that the member left, and
calls no callback. A poll timeout logs the same, but the revoked callback follows immediately. A static member does not
leave, so that its close looks like a kill. There is no lost callback: a regular revocation and one after the member was
fenced log the same line.
"""

from __future__ import annotations

from functools import partial

from fsm.logs import Client
from fsm.logs.programs.client_facts import ClientFacts
from fsm.logs.programs.client_words import EPOCH, GROUP, LAST_GROUP, Words
from fsm.logs.programs.python_messages import (
    ERROR_CODE,
    HEARTBEAT_MARKS,
    MEMBER_ID,
    SHARED,
    on_fenced,
    read_known,
    read_refused_commit,
    read_subscribed,
)
from fsm.trace import Kind

FACTS = ClientFacts(
    name="aiokafka",
    supported_protocols="classic, eager",
    ownership_lines="each callback, by name",
    not_logged="the close of a static member; losses look like revocations, and `stop()` calls nothing back",
    begins_with=Kind.SUBSCRIBED,
    close_is_unlogged=True,
    close_calls_nothing=True,
    identifies_members=False,
    has_lost_callback=False,
)
_NAME = FACTS.name

# fmt: off
_WORDS = Words(_NAME, (
    (r"Updating subscribed topics to: (?P<topics>frozenset.*)",                          read_subscribed),
    (rf"Discovered coordinator \d{{1,10}} for group {LAST_GROUP}\Z",                     Kind.COORDINATOR_FOUND),
    (r"Marking the coordinator dead \(node [^)]{1,60}\) ?for group (?P<group>(?:(?!: ).){1,300})\.\Z",
                                                                                         Kind.COORDINATOR_LOST),
    (rf"Revoking previously assigned partitions (?P<partitions>(?:frozen)?set\((?!\[).*) for group {LAST_GROUP}\Z",
                                                                                         Kind.REVOKE_BEGIN),
    (rf"Joined group '{GROUP}' \(generation {EPOCH}\) with member_id {MEMBER_ID}\Z",     Kind.JOINED),
    (rf"Successfully synced group {GROUP} with generation {EPOCH}\Z",                    Kind.SYNCED),
    (r"Heartbeat failed: local member_id was not recognized",                 on_fenced("UNKNOWN_MEMBER_ID")),
    (rf"Heartbeat failed for group {GROUP} because it is rebalancing",                   None),
    (r"Heartbeat send request failed: (?P<detail>.*)",                                   Kind.COORDINATOR_LOST),
    (r"Heartbeat failed: (?P<detail>.*)",                                                Kind.ERROR),
    (rf"OffsetCommit failed for group {GROUP} due to .{{0,100}}?{ERROR_CODE}",           read_refused_commit),
    (r"OffsetCommit failed before join, ignoring: (?P<detail>.*)",                       Kind.COMMIT_FAILED),
    (rf"OffsetCommit failed for group {GROUP}: (?P<detail>.*)",                          Kind.COMMIT_FAILED),
    (r"Attempt to join group failed due to fatal error: (?P<detail>.*)",                 Kind.FATAL),
    (r"Unexpected (?P<detail>error in coordinator routine)",                             Kind.ERROR),
    (r"LeaveGroup request succeeded",                                                    Kind.LEFT),
    (r"LeaveGroup request failed: (?P<detail>.*)",                                       Kind.ERROR),
    (r"Auto offset commit failed",                                                       None),
    (r"Metadata for topic has changed",                                                  None),
    (r"Group Coordinator Request failed: (?P<detail>.*)",                                Kind.COORDINATOR_LOST),
    (r"Failed to commit on finallization: (?P<detail>.*)",                               Kind.COMMIT_FAILED),
    *SHARED,
))
# fmt: on


understand = partial(read_known, _WORDS, "aiokafka", ("aiokafka.consumer.group_coordinator",))
CLIENT = Client(
    _NAME,
    (
        b"Updating subscribed topics to: frozenset",
        b"previously assigned partitions",
        b"newly assigned partitions",
        b"the coordinator dead",
        b"Discovered coordinator",
        b"local member_id was not recognized",
        b"generation id is not ",
        b"OffsetCommit failed for group",
        b"OffsetCommit failed before join",
        b"failed on_partitions_revoked",
        b"failed on partition assignment",
        b"LeaveGroup request succeeded",
    ),
    understand,
    everyday_marks=(b"joining group", b" with member_id ", b"synced group", b"Heartbeat s", *HEARTBEAT_MARKS),
)
