"""Logs of sarama's consumer group: classic protocol. Message texts of 1.19 to 1.61.1; its default logger discards them.

The log is sparse: the consumer of a partition begins (after Setup) and ends (before Cleanup has ended), without group
or member; the member id and generation of a session are logged when it is over, after Cleanup. Until then the
application owns the partitions that were added. Before 1.31.1 nothing is logged at the end of a session: there, the end
of a partition's consumer has to do. Joins, rebalances, their causes and errors are not logged.
"""

from __future__ import annotations

import re

from fsm.logs import Client, Message
from fsm.logs.programs.client_facts import ClientFacts
from fsm.logs.programs.client_words import NOTHING_OWNED, Records, go_partitions, record
from fsm.trace import Kind

FACTS = ClientFacts(
    name="sarama",
    supported_protocols="classic",
    ownership_lines="each partition added, the end of a session",
    not_logged="joins, causes, errors, subscriptions; nothing at all without a logger",
    close_is_unlogged=True,
    identifies_members=False,
    has_lost_callback=False,
    logs_subscription=False,
    early_end="closed",
)

_WORDS = re.compile(
    r"(?P<started>Initializing new client)\Z"
    r"|client/coordinator coordinator for (?:consumergroup )?(?P<group>\S{1,300}) is #"
    r"|consumer/broker/-?\d{1,10} (?P<change>added|closed dead) subscription to "
    r"(?P<topic>[\w.-]{1,249})/(?P<partition>\d{1,9})\Z"
    r"|consumergroup/(?P<claims>\S{1,300}) lost ownership of (?P<dropped>map\[.*?\]\]|map\[\]) due to (?P<detail>.*)"
    r"|consumergroup/session/(?P<member_id>\S{1,500})/(?P<epoch>-?\d{1,9}) released\Z"
    r"|(?P<closing>Closing Client)\Z",
    re.ASCII,
)
_BEGINNINGS = re.compile(
    r"(?:DEBUG )?consumer(?:/broker/-?\d{1,10} (?:added|closed dead) subscription to \S"
    r"|group/session/\S{1,500}/-?\d{1,9} released\b)",
    re.ASCII,
)
"""Texts that no other client logs: a message that ends differently was not understood."""


def understand(message: Message) -> Records | None:
    """The records of a message of sarama's consumer group."""
    line = message.text.partition("\n")[0]
    found = _WORDS.match(line.removeprefix("DEBUG "))
    if found is None:
        return None if _BEGINNINGS.match(line) else ()
    if found["started"]:
        settings = {"client": FACTS.name, "group.protocol": "classic"}
        return (record(FACTS.name, message, Kind.STARTED, settings=settings),)
    if found["group"]:
        return (record(FACTS.name, message, Kind.COORDINATOR_FOUND, group=found["group"]),)
    if found["topic"]:
        partition = found["topic"], int(found["partition"])
        if found["change"] == "added":
            return (record(FACTS.name, message, Kind.ADDED, partitions=(partition,)),)
        return tuple(
            record(FACTS.name, message, kind, event=FACTS.early_end, partitions=(partition,))
            for kind in (Kind.REVOKE_BEGIN, Kind.REVOKE_END)
        )
    if found["dropped"]:
        partitions = go_partitions(found["dropped"])
        if partitions is None:
            return None
        fields = {"group": found["claims"], "partitions": partitions, "detail": found["detail"]}
        return (record(FACTS.name, message, Kind.DROPPED, **fields),)
    if found["member_id"]:
        fields = {"member_id": found["member_id"], "epoch": int(found["epoch"])}
        return (record(FACTS.name, message, Kind.OWNED, full=NOTHING_OWNED, **fields),)
    return (record(FACTS.name, message, Kind.LEFT),)


CLIENT = Client(
    FACTS.name,
    (
        b" added subscription to ",
        b" closed dead subscription to ",
        b" lost ownership of ",
    ),
    understand,
    everyday_marks=(b"Initializing new client", b"coordinator for ", b" released", b"Closing Client"),
)
