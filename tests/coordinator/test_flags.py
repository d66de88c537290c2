"""Every flag of the coordinator's dialects from both sides: 4.4.0 as it is, and 4.4.0 without that one choice.

What is compared is what a client, an administrator or the log shows. Releases are held against recordings elsewhere;
here stands what each flag alone changes.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from classic_scene import ClassicScene, assignment, subscribed
from consumer_scene import IDS, START_MS, Scene, assigned

from fsm.coordinator.assignors import GroupSpec, MemberSpec, make_assignors
from fsm.coordinator.consumer.reconciliation import Reconciliation, reconcile
from fsm.coordinator.coordinator import clean_up, refuse_while_loading
from fsm.coordinator.model.consumer_group import CurrentAssignment
from fsm.coordinator.model.context import Topic
from fsm.coordinator.model.dialect import Choice, Dialect, dialect
from fsm.coordinator.model.step import Request
from fsm.coordinator.storage.load import load
from fsm.coordinator.storage.replay import replay
from fsm.protocol.consumer_protocol import decode_subscription
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import DISCONNECTED, ConsumerGroupHeartbeatRequest, SyncGroupRequest
from fsm.protocol.records import Current, HeldTopic, Member, MemberKey, Record, RecordType
from fsm.tables.consumer_group_member import State

FOO, BAR = IDS["foo"], IDS["bar"]


def scene(rules: Dialect, topics: dict[str, int] | None = None, **settings: Any) -> Scene:
    """A scene under these rules."""
    made = Scene("4.4.0", topics, **settings)
    made.context = replace(made.context, dialect=rules)
    return made


def mixed(rules: Dialect, **settings: Any) -> ClassicScene:
    """A scene of both protocols under these rules."""
    made = ClassicScene("4.4.0", **settings)
    made.context = replace(made.context, dialect=rules)
    return made


def fresh_epoch(rules: Dialect) -> Any:
    return scene(rules).join("m1", "foo")["member_epoch"]


def fresh_without_names(rules: Dialect) -> Any:
    found = scene(rules.without_choices(Choice.FRESH_EPOCH_IS_ONE))
    found.join("m1")
    return found.group.epoch


def second_joiner_within_the_interval(rules: Dialect) -> Any:
    found = scene(rules, group_consumer_assignment_interval_ms=1_000)
    found.join("m1", "foo")
    found.join("m2", "foo")
    return found.described["state"]


def emptied(rules: Dialect) -> Any:
    found = scene(rules)
    found.join("m1", "foo")
    found.beat("m1", -1)
    return (found.group.epoch, found.group.target_epoch)


def decided(rules: Dialect, member: CurrentAssignment, target: tuple[int, ...], **fields: Any) -> CurrentAssignment:
    """What becomes of a member of foo that owns what it was handed."""
    known = {
        "target_epoch": 7,
        "owned": ((FOO, (0,)),),
        "partition_epoch": lambda _topic_id, _partition: 5,
        "subscribed": {FOO},
        "names_topics": True,
        "subscription_changed": False,
    }
    given = Reconciliation(target=((FOO, target),), dialect=rules, **{**known, **fields})
    return reconcile(member, given).member


def revokes_again(rules: Dialect) -> Any:
    member = CurrentAssignment(State.UNREVOKED_PARTITIONS, 5, 4, (((FOO, 0), 5),), (((FOO, 1), 5),))
    return decided(rules, member, (2,)).epoch


def own_pending(rules: Dialect) -> Any:
    member = CurrentAssignment(State.UNREVOKED_PARTITIONS, 5, 4, (((FOO, 0), 5),), (((FOO, 1), 5),))
    return decided(rules, member, (0, 1)).state.name


def gives_up_a_topic(rules: Dialect) -> Any:
    found = scene(rules, group_consumer_assignment_interval_ms=1_000)
    found.join("m1", "foo", "bar")
    return assigned(found.beat("m1", 2, subscribed_topic_names=["foo"]))


def trimmed_previous_epoch(rules: Dialect) -> Any:
    member = CurrentAssignment(State.STABLE, 7, 3, (((BAR, 0), 7),))
    return decided(rules, member, (), subscription_changed=True, owned=((BAR, (0,)),)).previous_epoch


def commits_at_an_older_epoch(rules: Dialect) -> Any:
    found = scene(rules)
    found.join("m1", "foo")
    found.join("m2", "bar")
    found.settle()
    return committed(found, {"generation_id_or_member_epoch": 2, "member_id": "m1"})


def committed(found: Scene, body: dict[str, Any]) -> Any:
    """The error of a commit for foo 0."""
    topics = [{"name": "foo", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    return found.send("OffsetCommit", 9, {**body, "topics": topics})["topics"][0]["partitions"][0]["error_code"]


def rejoins_under_its_id(rules: Dialect) -> Any:
    found = scene(rules)
    found.join("m1", "foo")
    found.join("m2", "foo")
    found.settle()
    return found.join("m1", "foo")["error_code"]


def static_member_joins_again(rules: Dialect) -> Any:
    found = scene(rules)
    found.join("m1", "foo", instance_id="i1")
    return found.join("m1", "foo", instance_id="i1")["error_code"]


def heartbeat_to_a_group_that_became_a_classic_one(rules: Dialect) -> Any:
    found = mixed(rules)
    epoch = found.join("m1", "foo")["member_epoch"]
    found.mixed_in("c")
    found.beat("m1", -1)
    return found.beat("m1", epoch)["error_code"]


def joins_by_regex(rules: Dialect) -> Any:
    return scene(rules).join("m1", "foo", subscribed_topic_regex="ba.")["error_code"]


def regex_after_its_refresh_interval(rules: Dialect) -> Any:
    found = scene(rules, group_consumer_regex_refresh_interval_ms=20_000)
    found.join("m1", "foo", subscribed_topic_regex="ba.")
    found.resolve()
    found.wait(21_000)
    found.beat("m1", found.group.members["m1"].epoch)
    return found.group.resolution is not None


def clears_its_regex(rules: Dialect) -> Any:
    found = scene(rules)
    found.join("m1", "foo", subscribed_topic_regex="nothing")
    found.resolve()
    epoch = found.group.epoch
    found.beat("m1", found.group.members["m1"].epoch, subscribed_topic_regex="")
    return found.group.epoch - epoch


def classic_takes_the_place_of_a_regex(rules: Dialect) -> Any:
    found = mixed(rules)
    found.join("s1", "foo", instance_id="i1", subscribed_topic_regex="ba.")
    found.join("m2", "foo")
    found.beat("s1", -2, instance_id="i1")
    found.mix("", fresh_id="c", group_instance_id="i1")
    return [member["regex"] for member in found.described["members"].values() if member["instance"] == "i1"]


def joins_without_an_id(rules: Dialect) -> Any:
    return scene(rules).join("", "foo")["error_code"]


def types_of_the_first_records(rules: Dialect) -> Any:
    found = scene(rules)
    found.join("m1", "foo")
    return [int(record.key[0]) for record in found.last.records]


def votes_for_range(rules: Dialect) -> Any:
    found = scene(rules)
    found.join("m1", "foo")
    found.beat("m1", 2, server_assignor="range")
    return found.group.epoch


def static_joiner_of_a_full_group(rules: Dialect) -> Any:
    found = scene(rules, group_consumer_max_size=1)
    found.join("s1", "foo", instance_id="i1")
    found.beat("s1", -2, instance_id="i1")
    return found.join("s2", "foo", instance_id="i1")["error_code"]


def old_instance_id(rules: Dialect) -> Any:
    """Who asks for the instance id that m1 gave up as it joined with another one."""
    found = scene(rules)
    found.join("m1", "foo", instance_id="i1")
    found.join("m1", "foo", instance_id="i2")
    return found.join("m3", "foo", instance_id="i1")["error_code"]


def classic_joins_though_disabled(rules: Dialect) -> Any:
    found = mixed(rules, group_consumer_migration_policy="disabled")
    found.join("m1", "foo")
    return found.mix("", fresh_id="c", version=3)["error_code"]


def joins_with_garbage(rules: Dialect) -> Any:
    found = mixed(rules)
    found.join("m1", "foo")
    protocols = [{"name": "range", "metadata": "AAE="}]
    return found.come("", name="c", fresh_id="c", version=3, protocols=protocols)["error_code"]


def classic_heartbeat_within_the_interval(rules: Dialect) -> Any:
    found = mixed(rules, group_consumer_assignment_interval_ms=1_000)
    found.join("m1", "foo")
    found.wait(1_000)
    member_id = found.mixed_in("c")
    found.join("m2", "foo")
    return found.beat_of(member_id)


def leave_group_of_a_consumer_member(rules: Dialect) -> Any:
    found = mixed(rules)
    found.join("m1", "foo")
    found.join("m2", "foo")
    return found.go("m2")


def join_on_an_older_connection(rules: Dialect) -> Any:
    """The answer to a join that its member has sent again on a later connection."""
    host = scene(rules).host
    join = ConsumerGroupHeartbeatRequest(
        "g", "m1", 0, rebalance_timeout_ms=1_000, subscribed_topic_names=("foo",), topic_partitions=()
    )
    host.send("m", join, connection=2)
    (answer,) = host.send("m", join, connection=1).answers
    return answer.body if answer.body is DISCONNECTED else answer.body.error_code.name


def left_to_classic_members(rules: Dialect) -> Any:
    found = mixed(rules, group_consumer_migration_policy="upgrade")
    found.join("m1", "foo")
    member_id = found.mixed_in("c")
    found.ack("m1")
    found.ack("m1")
    found.mix(member_id)
    found.fetch(member_id)
    found.beat("m1", -1)
    return found.beat_of(member_id)


def replaced_with_another_subscription(rules: Dialect) -> Any:
    """The last member of the consumer protocol is replaced by a classic one that subscribes to more."""
    found = mixed(rules)
    found.join("s1", "foo", instance_id="i1")
    found.mixed_in("c")
    found.ack("s1")
    protocols = [{"name": "range", "metadata": subscribed("foo", "bar")}]
    found.come(name="s2", fresh_id="s2", group_instance_id="i1", protocols=protocols)
    return found.states


def replaced_while_the_target_waits(rules: Dialect) -> Any:
    """The same with the same subscription, where another member left and no target was computed since."""
    found = mixed(rules, group_consumer_assignment_interval_ms=1_000)
    found.join("s1", "foo", instance_id="i1")
    found.wait(1_000)
    gone = found.mixed_in("d")
    found.wait(1_000)
    found.mixed_in("c")
    found.go(gone)
    found.come(name="s2", fresh_id="s2", group_instance_id="i1")
    return found.states


def upgrade_of_an_empty_assignment(rules: Dialect) -> Any:
    found = mixed(rules)
    (member_id,) = found.enter("c")
    found.share(member_id, 1, assigns={})
    found.join("m1", "foo")
    return found.described["type"]


def upgrade_by_a_known_instance(rules: Dialect) -> Any:
    """The static member of a classic group takes its own place, with the subscription that it had."""
    found = mixed(rules)
    found.come(name="s", fresh_id="s", group_instance_id="i1", version=9)
    found.wait(3_000)
    leader = found.answered["s"]["member_id"]
    body = {"assignments": [{"member_id": leader, "assignment": assignment(foo=[0, 1])}], "group_instance_id": "i1"}
    found.share(leader, 1, body)
    found.join("m1", "foo", instance_id="i1")
    return found.group.epoch


def two_holders_in_a_compacted_log(rules: Dialect) -> Any:
    log = []
    for member_id, epoch in (("a", 5), ("b", 6)):
        value = Member(None, None, "c", "/127.0.0.1", ("foo",), "", 9_000, None, None)
        log.append(Record(MemberKey(RecordType.CONSUMER_GROUP_MEMBER_METADATA, "g", member_id), value))
        key = MemberKey(RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, "g", member_id)
        log.append(Record(key, Current(epoch, epoch - 1, 0, (HeldTopic(FOO, (0,), (epoch,)),))))
    return [remark.text for remark in replay(log, rules).remarks]


def version_of_an_offset(rules: Dialect) -> Any:
    found = scene(rules)
    committed(found, {})
    (record,) = found.last.records
    return (record.version, record.value.topic_id == FOO)


def shown_while_it_revokes(rules: Dialect) -> Any:
    found = scene(rules)
    found.join("m1", "foo")
    found.join("m2", "foo")
    found.beat("m1", 2)
    return found.described["members"]["m1"]["assigned"]


def extra_slot(rules: Dialect) -> Any:
    """Three partitions of two members; the second has two of them."""
    members = {"a": MemberSpec(("t",), (("t", (0,)),)), "b": MemberSpec(("t",), (("t", (1, 2)),))}
    return make_assignors(rules)["uniform"](GroupSpec(members, {"t": 3}, homogeneous=True))["b"]


def pending(found: Scene, **fields: Any) -> Any:
    """The error of a TxnOffsetCommit for foo 0."""
    topics = [{"topic_id": IDS["foo"], "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    body = {"transactional_id": "t", "producer_id": 5, "topics": topics, **fields}
    return found.send("TxnOffsetCommit", 6, body)["topics"][0]["partitions"][0]["error_code"]


def cleaned_under_a_transaction(rules: Dialect) -> Any:
    found = scene(rules)
    pending(found)
    return "g" in clean_up(found.state, replace(found.context, now_ms=START_MS + 10**9)).state.groups


def transaction_of_no_group(rules: Dialect) -> Any:
    return pending(scene(rules), generation_id=3, member_id="m")


def moved_target(rules: Dialect) -> Any:
    """Records of a static member's entry in the target, where its replacement subscribes to another topic."""
    found = scene(rules)
    found.join("s1", "foo", instance_id="i1")
    found.join("m2", "bar")
    found.settle("s1", "m2")
    found.beat("s1", -2, instance_id="i1")
    found.join("s2", "foo", "baz", instance_id="i1")
    return [record for record in found.records if record.startswith("7 s2")]


def static_member(found: ClassicScene, name: str, **fields: Any) -> str:
    """The first member of a classic group, in its first generation, with an instance id; its member id."""
    found.come(name=name, fresh_id=name, group_instance_id="i1", **fields)
    found.wait(3_000)
    return str(found.answered[name]["member_id"])


def with_static_member(rules: Dialect, owns: list[int], is_assigned: list[int], **fields: Any) -> ClassicScene:
    """A classic group of one static member, which says what of foo it owns, and what that was assigned."""
    found = mixed(rules)
    protocols = [{"name": "range", "metadata": subscribed("foo", owned={"foo": owns})}]
    leader = static_member(found, "s1", protocols=protocols, **fields)
    found.share(leader, 1, group_instance_id="i1", assigns={leader: {"foo": is_assigned}})
    return found


def replaced_while_it_owes_a_join(rules: Dialect) -> Any:
    """Of foo 0 and 1 it was told to keep the first: it would give the other up, and join again, here alone."""
    found = with_static_member(rules, [0, 1], [0])
    found.come(name="s2", fresh_id="s2", group_instance_id="i1")
    return found.states


def replaced_when_it_has_joined_again(rules: Dialect) -> Any:
    """It owns foo 0, and is assigned that and another one."""
    found = with_static_member(rules, [0], [0, 1])
    found.come(name="s2", fresh_id="s2", group_instance_id="i1")
    return found.states


def returned_in_a_round_that_is_lost(rules: Dialect) -> Any:
    """The error of a heartbeat to the broker that takes over before the round in which it returned is stored."""
    found = with_static_member(rules, [0, 1], [0, 1])
    found.come(found.come(fresh_id="b")["member_id"])
    found.come(name="s2", fresh_id="s2", group_instance_id="i1")
    found.host.fail_over()
    return found.pulse("i1-s2", 2, group_instance_id="i1")


def late_for_a_round(rules: Dialect) -> Any:
    """What the leader of a round is told that a static member owns, which was assigned foo 0 and 1 and has not joined
    since.
    """
    found = with_static_member(rules, [], [0, 1], session_timeout=100_000)
    found.come(found.come(fresh_id="b")["member_id"], name="b")
    found.wait(60_000)
    (told,) = [one["metadata"] for one in found.answered["b"]["members"] if one["group_instance_id"]]
    return decode_subscription(b64decode(told)).owned_partitions


def returned_after_its_topic_has_grown(rules: Dialect) -> Any:
    """The group as a topic has 6 partitions, of which the leader assigned 2, and as its next process joins; a topic of
    nobody here changes nothing.
    """
    found = with_static_member(rules, [], [0, 1])
    foo = found.context.image.topics["foo"]
    found.host.change_topics({"foo": foo, "nobodys": Topic("n" * 22, 1)})
    assert found.states == "Stable"
    found.host.change_topics({"foo": Topic(foo.topic_id, 6)})
    at_once = found.states
    found.come(name="s2", fresh_id="s2", group_instance_id="i1")
    return at_once, found.states


def returned_with_another_topic(rules: Dialect) -> Any:
    return came_back_subscribed(rules, "foo", "bar")


def came_back_subscribed(rules: Dialect, *topics: str, **fields: Any) -> str:
    """The state of a group of two as the next process of a static member that does not lead joins it."""
    found = mixed(rules)
    for name in ("i1", "i2"):
        found.come(name=name, fresh_id=name, group_instance_id=name)
    found.wait(6_000)
    leader, follower = (str(found.answered[i]["member_id"]) for i in ("i1", "i2"))
    found.share(leader, 1, group_instance_id="i1", assigns={leader: {"foo": [0]}, follower: {"foo": [1]}})
    protocols = [{"name": "range", "metadata": subscribed(*topics)}]
    found.come(name="s2", fresh_id="s2", group_instance_id="i2", **{"protocols": protocols, **fields})
    return found.states


def synced_while_it_loads(rules: Dialect) -> Any:
    body = SyncGroupRequest("g", 1, "m1")
    answer: Any = refuse_while_loading(Request(0, "m1", "/127.0.0.1", 5, body), mixed(rules).context)
    return answer.error_code


def converted_before_its_assignment(rules: Dialect) -> Any:
    found = mixed(rules)
    static_member(found, "s1")
    return assigned(found.join("s2", "foo", instance_id="i1"))


def converted_while_it_owes_a_join(rules: Dialect) -> Any:
    """It was to give foo 1 up, and comes back with the consumer protocol."""
    found = with_static_member(rules, [0, 1], [0])
    return assigned(found.join("s2", "foo", instance_id="i1"))


def converted_before_it_gave_up(rules: Dialect) -> Any:
    """What another one is assigned that joins while it uses foo 0 and 1 still, and is to keep the first."""
    found = with_static_member(rules, [0, 1], [0])
    return assigned(found.join("m2", "foo"))


def replaced_while_another_one_waits(rules: Dialect) -> Any:
    """The last member of the consumer protocol has what a classic one is to get."""
    found = mixed(rules)
    found.join("s1", "foo", instance_id="i1")
    found.mixed_in("c")
    found.come(name="s2", fresh_id="s2", group_instance_id="i1")
    return found.states


def joins_after_its_removal(rules: Dialect) -> Any:
    """The error of a classic member that was removed meanwhile, and goes on from its generation."""
    found = mixed(rules)
    found.join("m1", "foo")
    member_id = found.mixed_in("c")
    generation = found.group.members[member_id].epoch
    found.go(member_id)
    return found.mix(member_id, owned={"foo": [0]}, generation=generation)["error_code"]


def stranger_joins_an_empty_group(rules: Dialect) -> Any:
    """The groups that are there after a classic member of another group came to an empty consumer group."""
    found = mixed(rules)
    found.join("m1", "foo")
    found.beat("m1", -1)
    found.come("nobody")
    return [group.group_id for group in found.host.state.groups.values()]


def refused_while_another_one_waits(rules: Dialect) -> Any:
    """What becomes of the join of a member as the other one, which has an id, is refused by the full group."""
    found = mixed(rules, group_max_size=1)
    first, second = (found.come(fresh_id=name)["member_id"] for name in "ab")
    found.come(first)
    found.wait(3_000)
    found.share(first, 1, assigns={first: {"foo": [0]}})
    found.come(first)
    found.come(second)
    return found.states


def joins_before_the_first_generation(rules: Dialect) -> Any:
    found = mixed(rules)
    member_id = found.come(fresh_id="c")["member_id"]
    found.come(member_id)
    return found.join("m1", "foo")["error_code"]


def loaded_after_a_downgrade(rules: Dialect) -> Any:
    """What another broker loads after the last member of the consumer protocol has left."""
    found = mixed(rules)
    found.join("m1", "foo")
    found.mixed_in("c")
    found.beat("m1", -1)
    return load(found.state, found.context).state.groups["g"].state.name


Both = tuple[Callable[[Dialect], Any], Any, Any]
"""What is done, and what comes of it with the choice and without."""

SIDES: dict[Choice, Both] = {
    Choice.FRESH_EPOCH_IS_ONE: (fresh_epoch, 2, 1),
    Choice.EMPTY_SUBSCRIPTION_NOT_BUMPED: (fresh_without_names, 0, 1),
    Choice.ASSIGNMENT_INTERVAL: (second_joiner_within_the_interval, "Assigning", "Reconciling"),
    Choice.EMPTIED_GROUP_SETS_TARGET_EPOCH: (emptied, (3, 3), (3, 2)),
    Choice.REVOKES_AGAIN_AT_OWN_EPOCH: (revokes_again, 5, 6),
    Choice.OWN_PENDING_NEVER_BLOCKS: (own_pending, "STABLE", "UNRELEASED_PARTITIONS"),
    Choice.SUBSCRIPTION_FILTERS_TARGET: (gives_up_a_topic, {"foo": [0, 1]}, None),
    Choice.TRIM_MOVES_PREVIOUS_EPOCH: (trimmed_previous_epoch, 7, 3),
    Choice.ASSIGNMENT_EPOCHS: (commits_at_an_older_epoch, None, "stale_member_epoch"),
    Choice.EPOCH_ZERO_ALWAYS_PASSES: (rejoins_under_its_id, None, "fenced_member_epoch"),
    Choice.REGEX_SUBSCRIPTIONS: (joins_by_regex, None, "invalid_request"),
    Choice.REGEX_REFRESHED_BY_AGE: (regex_after_its_refresh_interval, True, False),
    Choice.CLEARED_REGEX_BUMPS: (clears_its_regex, 1, 0),
    Choice.CLASSIC_REPLACEMENT_CLEARS_REGEX: (classic_takes_the_place_of_a_regex, [None], ["ba."]),
    Choice.CLIENT_MAKES_MEMBER_ID: (joins_without_an_id, "invalid_request", None),
    Choice.METADATA_HASH: (types_of_the_first_records, [5, 3, 7, 6, 8], [5, 4, 3, 7, 6, 8]),
    Choice.ELECTED_ASSIGNOR_BUMPS: (votes_for_range, 3, 2),
    Choice.KNOWN_INSTANCE_EXEMPT_FROM_SIZE: (static_joiner_of_a_full_group, None, "group_max_size_reached"),
    Choice.INSTANCE_CHANGE_DROPS_MAPPING: (old_instance_id, None, "unreleased_instance_id"),
    Choice.DISABLED_REFUSES_CLASSIC_JOIN: (classic_joins_though_disabled, "inconsistent_group_protocol", None),
    Choice.MALFORMED_SUBSCRIPTION_IS_INCONSISTENT: (
        joins_with_garbage,
        "inconsistent_group_protocol",
        "unknown_server_error",
    ),
    Choice.CLASSIC_REJOINS_BEHIND_TARGET: (classic_heartbeat_within_the_interval, None, "rebalance_in_progress"),
    Choice.LEAVE_GROUP_REMOVES_ANY: (leave_group_of_a_consumer_member, [None], ["unknown_member_id"]),
    Choice.REPLACEMENT_REBALANCES_IF_BUMPED: (replaced_with_another_subscription, "PreparingRebalance", "Stable"),
    Choice.REPLACEMENT_REBALANCES_IF_STALE: (replaced_while_the_target_waits, "PreparingRebalance", "Stable"),
    Choice.UPGRADE_ACCEPTS_EMPTY_ASSIGNMENT: (upgrade_of_an_empty_assignment, "consumer", "classic"),
    Choice.UPGRADE_FILLS_METADATA: (upgrade_by_a_known_instance, 1, 2),
    Choice.MISMATCHED_RELEASE_IGNORED: (
        two_holders_in_a_compacted_log,
        [],
        [f"b and {FOO}-0, held at epoch 5: this release fails to load it"],
    ),
    Choice.OFFSET_COMMIT_HAS_TOPIC_ID: (version_of_an_offset, (4, True), (3, False)),
    Choice.DESCRIBE_SHOWS_PENDING: (shown_while_it_revokes, {"foo": [0, 1]}, {"foo": [0]}),
    Choice.EXTRA_SLOT_STAYS: (extra_slot, (("t", (1, 2)),), (("t", (1,)),)),
    Choice.PENDING_OFFSETS_KEEP_GROUP: (cleaned_under_a_transaction, True, False),
    Choice.TXN_COMMIT_ERRORS: (transaction_of_no_group, "group_id_not_found", "illegal_generation"),
    Choice.OLDER_CONNECTION_IS_CLOSED: (join_on_an_older_connection, DISCONNECTED, "NONE"),
    Choice.CLASSIC_COMPUTES_TARGET: (left_to_classic_members, "rebalance_in_progress", None),
    Choice.OWED_JOIN_REBALANCES: (replaced_while_it_owes_a_join, "CompletingRebalance", "Stable"),
    Choice.CONVERSION_IN_REBALANCE_BUMPS: (converted_before_its_assignment, {"foo": [0, 1]}, {}),
    Choice.CONVERSION_KEEPS_HELD: (converted_before_it_gave_up, {}, {"foo": [1]}),
    Choice.STATIC_MEMBER_JOINS_AGAIN: (static_member_joins_again, None, "unreleased_instance_id"),
    Choice.MEMBER_OF_NO_GROUP_IS_UNKNOWN: (
        heartbeat_to_a_group_that_became_a_classic_one,
        "unknown_member_id",
        "group_id_not_found",
    ),
    Choice.REMOVED_MEMBER_IS_UNKNOWN: (joins_after_its_removal, "unknown_member_id", None),
    Choice.FIRST_CONVERSION_ELECTS_PROTOCOL: (joins_before_the_first_generation, None, "unknown_server_error"),
    Choice.OUTDATED_REBALANCES_ON_LOAD: (loaded_after_a_downgrade, "PREPARING_REBALANCE", "STABLE"),
    Choice.REPLACED_ID_IS_STORED: (returned_in_a_round_that_is_lost, "illegal_generation", "fenced_instance_id"),
    Choice.LATE_MEMBER_KEEPS_OWNED: (late_for_a_round, (("foo", 0), ("foo", 1)), ()),
    Choice.OUTDATED_REBALANCES: (
        returned_after_its_topic_has_grown,
        ("PreparingRebalance", "CompletingRebalance"),
        ("Stable", "Stable"),
    ),
    Choice.NEW_SUBSCRIPTION_REBALANCES: (returned_with_another_topic, "PreparingRebalance", "Stable"),
    Choice.LOADING_SYNC_JOINS_AGAIN: (
        synced_while_it_loads,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ),
    Choice.REFUSED_JOIN_KEEPS_GROUP: (stranger_joins_an_empty_group, ["g"], []),
    Choice.FULL_REFUSAL_ENDS_PHASE: (refused_while_another_one_waits, "CompletingRebalance", "PreparingRebalance"),
    Choice.REPLACEMENT_REBALANCES_IF_WAITING: (replaced_while_another_one_waits, "PreparingRebalance", "Stable"),
    Choice.MOVED_TARGET_COUNTS_AS_STORED: (moved_target, ["7 s2 foo[0, 1]"], ["7 s2 foo[0, 1]", "7 s2 foo[0, 1]"]),
}


@pytest.mark.parametrize("choice", Choice, ids=lambda choice: f"{choice.flag}-{choice.name.lower()}")
def test_a_flag_changes_what_it_says(choice: Choice) -> None:
    """With the choice it is as its rule says, without it as it was before; nothing else is different."""
    act, now, before = SIDES[choice]
    rules = (
        dialect("4.4.0").without_choices(Choice.REPLACEMENT_REBALANCES_IF_STALE) if choice in F20 else dialect("4.4.0")
    )
    assert (act(rules.with_choices(choice)), act(rules.without_choices(choice))) == (now, before)


F20 = (Choice.REPLACEMENT_REBALANCES_IF_BUMPED, Choice.REPLACEMENT_REBALANCES_IF_STALE)


@pytest.mark.parametrize(
    ("topics", "fields", "state"),
    [
        (("foo",), {}, "Stable"),
        (("bar",), {}, "PreparingRebalance"),
        (("foo", "bar"), {}, "PreparingRebalance"),
        ((), {"protocols": [{"name": "range", "metadata": ""}]}, "Stable"),
    ],
    ids=["the same", "another", "one more", "unreadable"],
)
def test_a_static_member_returns_with_a_subscription(topics: tuple[str, ...], fields: dict, state: str) -> None:
    """F48: only other topics rebalance the group."""
    assert came_back_subscribed(dialect("fixed"), *topics, **fields) == state


def test_a_conversion_bumps_while_a_member_has_something_to_give_up() -> None:
    rules = dialect("4.4.0")
    bumps = rules.with_choices(Choice.CONVERSION_IN_REBALANCE_BUMPS)
    assert converted_while_it_owes_a_join(bumps) == {"foo": [0, 1]}
    assert converted_while_it_owes_a_join(rules) == {"foo": [0]}


def test_who_was_assigned_all_that_it_owned_owes_no_join() -> None:
    assert replaced_when_it_has_joined_again(dialect("fixed")) == "Stable"


def test_a_classic_member_that_names_no_generation_gives_up_what_it_leaves_out() -> None:
    """Subscriptions before version 2 have none: what they say is believed, or the member would never give it up."""
    found = mixed(dialect("fixed"), topics={"foo": 2})
    (member_id,) = found.enter("c")
    found.share(member_id, 1, assigns={member_id: {"foo": [0, 1]}})
    found.join("m1", "foo")
    found.mix(member_id, owned={"foo": [0]})
    assert assigned(found.beat("m1", 2, topic_partitions=[])) == {"foo": [1]}


def test_whoever_has_no_id_yet_is_not_one_that_was_removed() -> None:
    """Before version 4 of JoinGroup a member is given its id with the answer."""
    found = mixed(dialect("fixed"))
    found.join("m1", "foo")
    assert found.mix("", fresh_id="c", generation=5, version=3)["error_code"] is None
