"""A seeded walker: chooses the next step of a walk from the answers so far.

The same seed and the same answers give the same walk. The next request depends on the client's state; about one in
twenty is malformed. Answers are not judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from fsm.conformance.clients import IN, OUT, PENDING, REJOINING, UNKNOWN_TOPIC_ID, Client, assign
from fsm.conformance.families import Family
from fsm.conformance.steps import TopicChange, WalkRequest, WalkStep
from fsm.protocol import messages as m
from fsm.protocol.assignment import NO_TOPIC_ID
from fsm.protocol.codec import API_OF, decode, encode
from fsm.protocol.consumer_protocol import Subscription, encode_subscription
from fsm.wire.dialogue import VERSIONS

SHORT_SESSION_MS, SHORT_TIMEOUTS_MS = 6_000, (2_500, 4_000)
LONG_TIMEOUTS_MS = (30_000, 60_000, 300_000)
WAITS_MS = (150, 300, 700, 1_200)
GROUPS_SINCE, TOPIC_IDS_SINCE = 8, 10
"""First version of OffsetFetch with several groups; first version of OffsetFetch and OffsetCommit with topic ids."""
STRANGE, OUTSIDE = "conform-no-such-topic", 77
"""A topic and a partition that do not exist."""


class Wait(NamedTuple):
    """A step without a request."""

    wait_ms: int


class Change(NamedTuple):
    """A change of the topics."""

    action: str
    topic: str
    partitions: int


Move = WalkRequest | Wait | Change


class Walker:
    """One walk of one group."""

    def __init__(
        self,
        chance: Random,
        family: Family,
        group: str,
        topics: Mapping[str, TopicChange],
        *,
        forms: Random,
        versions: Mapping[str, range],
    ) -> None:
        """`chance` draws the walk, independently of `versions`.

        `forms` draws the version of a request, and whether it has topics and partitions that do not exist.
        """
        self.chance = chance
        self.forms = forms
        self.versions = versions
        self.family = family
        self.group = group
        self.topics = {name: topic.partitions for name, topic in topics.items()}
        self.ids = {name: topic.topic_id for name, topic in topics.items()}
        self.own = self.topics if not family.changes_topics else {}
        self.clients = [self._make_client(i) for i in range(family.clients)]
        self.outsider = Client("m0", group, is_classic=True)
        """A client outside the group that removes members."""
        self.requests: dict[int, tuple[Client, WalkRequest]] = {}
        self.created = 0

    def _make_client(self, i: int) -> Client:
        client = Client(f"m{i + 1}", self.group)
        client.is_classic = self.family.classic and (not self.family.consumer or i % 2 == 1)
        if self.family.instances and self.chance.random() < 0.6:
            client.instance_id = self.chance.choice(self.family.instances)
        return client

    def next(self, n: int) -> Move:
        """Chooses step `n`."""
        if self.family.changes_topics and (not self.own or self.chance.random() < 0.05):
            return self._change_topics()
        if self.family.waits and self.chance.random() < 0.12:
            return Wait(self.chance.choice(WAITS_MS))
        free = [client for client in self.clients if client.delayed is None]
        active = self._choose_client(free) or self.outsider
        self.requests[n] = (active, self._make_request(active))
        return self.requests[n][1]

    def _make_request(self, active: Client) -> WalkRequest:
        if active is self.outsider:
            # An administrator's LeaveGroup for a member, while all clients wait for responses.
            return _send(active, _leave_group(self.chance.choice(self.clients)), "throw out")
        return self._act_as_classic(active) if active.is_classic else self._act_as_consumer(active)

    def _choose_client(self, free: list[Client]) -> Client | None:
        """A client without a request in flight, with probability 0.9 a member of the group if there is one."""
        inside = [client for client in free if client.state != OUT]
        if inside and self.chance.random() < 0.9:
            return self.chance.choice(inside)
        return self.chance.choice(free) if free else None

    def learn(self, step: WalkStep) -> None:
        """Updates the clients and topics from a step."""
        if step.admin and step.admin.action == "delete":
            self.own.pop(step.admin.topic, None)
        elif step.admin:
            self.own[step.admin.topic] = step.admin.partitions
        if step.request:
            self.requests[step.n][0].delayed = step.n
        for response in step.responses:
            client, request = self.requests.pop(response.to)
            client.delayed = None if client.delayed == response.to else client.delayed
            client.learn(request.message, response.message)

    # Topics.

    def _change_topics(self) -> Change:
        if not self.own or (len(self.own) < 4 and self.chance.random() < 0.5):
            self.created += 1
            return Change("create", f"{self.group}-t{self.created}", self.chance.randint(1, 4))
        name = self.chance.choice(sorted(self.own))
        if len(self.own) > 1 and self.chance.random() < 0.3:
            return Change("delete", name, 0)
        return Change("grow", name, self.own[name] + self.chance.randint(1, 2))

    def _choose_names(self) -> tuple[str, ...]:
        names = sorted(self.own)
        return tuple(self.chance.sample(names, self.chance.randint(1, len(names))))

    # The consumer protocol.

    def _act_as_consumer(self, client: Client) -> WalkRequest:
        if client.state == OUT:
            return self._enter(client)
        return self._choose_act(client, (*CONSUMER, *self._find_extra_acts()))

    def _find_extra_acts(self) -> Acts:
        found: Acts = ()
        if self.family.patterns:
            found += ((10, Walker._subscribe_by_pattern),)
        if self.family.commits:
            found += ((9, Walker._commit), (6, Walker._fetch))
        if self.family.classic:
            found += ((4, Walker._commit),)
        return found

    def _choose_act(self, client: Client, options: Acts) -> WalkRequest:
        point = self.chance.random() * sum(weight for weight, _ in options)
        for weight, act in options:
            point -= weight
            if point < 0:
                return act(self, client)
        return options[-1][1](self, client)

    def _enter(self, client: Client) -> WalkRequest:
        """A join of a client, possibly with the other protocol, possibly with a new member id."""
        if self.family.switches and self.chance.random() < self.family.switches:
            client.is_classic, client.member_id = not client.is_classic, ""
        client.timeout_ms = self.chance.choice(SHORT_TIMEOUTS_MS if self.family.waits else LONG_TIMEOUTS_MS)
        client.session_ms = SHORT_SESSION_MS if self.family.waits else 45_000
        client.epoch, client.assigned = 0, ()
        if client.is_classic:
            return self._join_classic_group(client)
        if not client.member_id or self.chance.random() < 0.5:
            client.lives += 1
            client.member_id = f"{self.group}-{client.name}-{client.lives}"
        client.rack_id = self.chance.choice((None, "r1", "r2"))
        return self._join_consumer_group(client, "join")

    def _join_consumer_group(self, client: Client, why: str = "join again") -> WalkRequest:
        names: tuple[str, ...] | None = self._choose_names()
        regex = None
        if self.family.patterns and self.chance.random() < 0.4:
            regex = self.chance.choice(self.family.patterns)
            names = self.chance.choice((names, (), None))
        client.names, client.regex = names, regex
        assignor = self.chance.choice((None, None, "uniform", "range"))
        return _send(client, client.full_heartbeat(member_epoch=0, topic_partitions=(), server_assignor=assignor), why)

    def _report_part(self, client: Client) -> WalkRequest:
        kept = [
            (topic_id, tuple(sorted(self.chance.sample(numbers, self.chance.randint(0, len(numbers))))))
            for topic_id, numbers in client.assigned
            if self.chance.random() < 0.8
        ]
        owned = tuple((topic_id, numbers) for topic_id, numbers in kept if numbers)
        return _send(client, client.heartbeat(topic_partitions=owned), "partial")

    def _subscribe(self, client: Client) -> WalkRequest:
        names = self._choose_names() if self.chance.random() < 0.9 else ()
        return _send(client, client.heartbeat(subscribed_topic_names=names), "subscribe")

    def _vote(self, client: Client) -> WalkRequest:
        assignor = self.chance.choice(("uniform", "range", "", "nosuch"))
        return _send(client, client.heartbeat(server_assignor=assignor), "assignor")

    def _subscribe_by_pattern(self, client: Client) -> WalkRequest:
        regex = self.chance.choice((*self.family.patterns, ""))
        names = () if self.chance.random() < 0.5 else None
        heartbeat = client.heartbeat(subscribed_topic_regex=regex, subscribed_topic_names=names)
        return _send(client, heartbeat, "regex")

    def _claim_other_epoch(self, client: Client) -> WalkRequest:
        epoch = max(1, client.epoch + self.chance.choice((-2, -1, -1, 1, 2)))
        owned = self.chance.choice((None, (), client.assigned))
        return _send(client, client.heartbeat(member_epoch=epoch, topic_partitions=owned), "other epoch")

    def _leave(self, client: Client) -> WalkRequest:
        away = client.instance_id is not None and self.chance.random() < 0.7
        client.state = OUT
        return _send(client, client.heartbeat(member_epoch=-2 if away else -1), "leave")

    def _send_malformed(self, client: Client) -> WalkRequest:
        topic_id = client.assigned[0][0] if client.assigned else UNKNOWN_TOPIC_ID
        joining = {"member_id": f"{self.group}-x", "member_epoch": 0, "rebalance_timeout_ms": 5_000}
        named = {**joining, "subscribed_topic_names": ("foo",)}
        bad: tuple[dict[str, Any], ...] = (
            {"member_id": ""},
            {"member_id": "stranger", "member_epoch": 0},
            {**joining, "topic_partitions": ()},
            named,
            {**named, "rebalance_timeout_ms": -1, "topic_partitions": ()},
            {"member_epoch": -3},
            {"instance_id": " "},
            {"rack_id": ""},
            {"member_epoch": -2},
            {"instance_id": "i9"},
            {"topic_partitions": ((UNKNOWN_TOPIC_ID, (0, 1)),)},
            {**named, "topic_partitions": ((topic_id, (0,)),)},
        )
        i = self.chance.randint(0, len(bad) - 1)
        return _send(client, client.heartbeat(**bad[i]), f"bad {i}")

    # Offsets.

    def _commit(self, client: Client) -> WalkRequest:
        version = self._choose_version(m.OffsetCommitRequest)
        epoch = max(-1, client.epoch + self.chance.choice((0, 0, 0, -1, -2, 1)))
        topic, offset = self.chance.choice(sorted(self.topics)), self.chance.randint(0, 99)
        extra = self.forms.choice(((), (), (), ((topic, OUTSIDE),), ((STRANGE, 0),)))
        topics = tuple(
            m.OffsetCommitRequestTopic(*self._name(name, version), (m.OffsetCommitRequestPartition(number, offset),))
            for name, number in ((topic, 0), *extra)
        )
        who = client.group, epoch, client.member_id, client.instance_id
        return _send(client, m.OffsetCommitRequest(*who, topics=topics), "commit", version)

    def _fetch(self, client: Client) -> WalkRequest:
        version = self._choose_version(m.OffsetFetchRequest)
        epoch = max(-1, client.epoch + self.chance.choice((0, 0, -1, 1)))
        stable = self.chance.random() < 0.5
        names = self.chance.choice(sorted(self.topics)), *self.forms.choice(((), (STRANGE,)))
        topics = tuple(m.OffsetFetchRequestTopics(*self._name(name, version), (0, 1, 2, OUTSIDE)) for name in names)
        if version < GROUPS_SINCE:
            request = m.OffsetFetchRequest(client.group, topics, require_stable=stable)
        else:
            group = m.OffsetFetchRequestGroup(client.group, client.member_id, epoch, topics)
            request = m.OffsetFetchRequest(groups=(group,), require_stable=stable)
        return _send(client, request, "fetch offsets", version)

    def _choose_version(self, message: type[Any]) -> int:
        """A random version; half of the time one of the last two, which members of the consumer protocol need."""
        versions = self.versions[API_OF[message].name]
        return self.forms.choice(versions if self.forms.random() < 0.5 else versions[-2:])

    def _name(self, topic: str, version: int) -> tuple[str, str]:
        by_id = version >= TOPIC_IDS_SINCE
        return ("", self.ids.get(topic, UNKNOWN_TOPIC_ID)) if by_id else (topic, NO_TOPIC_ID)

    # The classic protocol.

    def _act_as_classic(self, client: Client) -> WalkRequest:
        if client.state == OUT:
            return self._enter(client) if self.family.switches else self._join_classic_group(client)
        if client.state == PENDING:
            return self._join_classic_group(client) if self.chance.random() < 0.95 else self._leave_as_classic(client)
        if client.state == REJOINING and self.chance.random() < 0.8:
            return self._join_classic_group(client)
        if client.state == IN and not client.synced and self.chance.random() < 0.8:
            return self._sync(client)
        return self._choose_act(client, CLASSIC)

    def _join_classic_group(self, client: Client) -> WalkRequest:
        client.timeout_ms = self.chance.choice(SHORT_TIMEOUTS_MS) if self.family.waits else 60_000
        client.session_ms = SHORT_SESSION_MS if self.family.waits else 45_000
        if not client.member_id and self.family.instances and self.chance.random() < 0.2:
            client.instance_id = self.chance.choice((None, *self.family.instances))
        if client.names is None or self.chance.random() < 0.15:
            client.names = self._choose_names()
        return self._join_group(client, "join" if client.member_id else "first join")

    def _join_group(self, client: Client, why: str) -> WalkRequest:
        first = "cooperative-sticky" if self.family.cooperative else "range"
        listed = (first, "roundrobin") if self.chance.random() < 0.4 else (first,)
        metadata = encode_subscription(Subscription(client.names or ()), self.chance.randint(0, 3))
        protocols = tuple(m.JoinGroupRequestProtocol(name, metadata) for name in listed)
        timeouts, who = (client.session_ms, client.timeout_ms), (client.member_id, client.instance_id)
        return _send(client, m.JoinGroupRequest(client.group, *timeouts, *who, "consumer", protocols, why), why)

    def _rejoin(self, client: Client) -> WalkRequest:
        if self.chance.random() < 0.5:
            client.names = self._choose_names()
        return self._join_group(client, "join again")

    def _sync(self, client: Client) -> WalkRequest:
        leads = client.leads and client.others and self.chance.random() < 0.9
        assignments = assign(client.others, self.own or self.topics) if leads else ()
        request = m.SyncGroupRequest(*_identify(client), "consumer", client.protocol, assignments)
        return _send(client, request, "sync as leader" if leads else "sync")

    def _leave_as_classic(self, client: Client) -> WalkRequest:
        others = (m.MemberIdentity("nobody"),) if self.chance.random() < 0.4 else ()
        request = _leave_group(client, others)
        client.state, client.member_id = OUT, ""
        return _send(client, request, "leave")


Acts = tuple[tuple[float, Callable[[Walker, Client], WalkRequest]], ...]


def _send(client: Client, message: Any, why: str, version: int | None = None) -> WalkRequest:
    cls = type(message)
    if version is None:
        return WalkRequest(client.name, message, VERSIONS[API_OF[cls].name], why)
    return WalkRequest(client.name, decode(cls, encode(message, version), version), version, why)


def _identify(client: Client) -> tuple[str, int, str, str | None]:
    return client.group, client.epoch, client.member_id, client.instance_id


def _beat(client: Client, why: str = "heartbeat", **fields: Any) -> WalkRequest:
    return _send(client, replace(m.HeartbeatRequest(*_identify(client)), **fields), why)


def _leave_group(client: Client, others: tuple[m.MemberIdentity, ...] = ()) -> m.LeaveGroupRequest:
    who = m.MemberIdentity(client.member_id, client.instance_id, "bye")
    return m.LeaveGroupRequest(client.group, members=(who, *others))


CONSUMER: Acts = (
    (25, lambda _, client: _send(client, client.heartbeat(topic_partitions=client.assigned), "ack")),
    (25, lambda _, client: _send(client, client.heartbeat(), "heartbeat")),
    (7, Walker._report_part),
    (11, lambda _, client: _send(client, client.full_heartbeat(), "full")),
    (7, Walker._subscribe),
    (6, Walker._vote),
    (6, Walker._claim_other_epoch),
    (4, Walker._join_consumer_group),
    (6, Walker._leave),
    (5, Walker._send_malformed),
)
"""Weights of the actions of a consumer-protocol member."""

CLASSIC: Acts = (
    (40, lambda _, client: _beat(client)),
    (4, lambda _, client: _beat(client, generation_id=client.epoch - 1)),
    (6, lambda _, client: _beat(client, "heartbeat of a stranger", member_id="nobody")),
    (8, Walker._rejoin),
    (8, Walker._sync),
    (8, Walker._commit),
    (9, Walker._leave_as_classic),
)
"""Weights of the actions of a classic member."""
