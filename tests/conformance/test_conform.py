"""A peer compared with Kafka's rules: what is equal, what is the first difference, what cannot be asked at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from late_metadata import Late

from fsm.cli import main
from fsm.conformance.comparison import FieldDifference
from fsm.conformance.families import FAMILIES, choose
from fsm.conformance.follower import IMAGE_KNOWN_MS, SLACK_MS, Expectation
from fsm.conformance.peer import Observed, OwnCoordinator
from fsm.conformance.steps import Response, WalkRequest
from fsm.conformance.walk import WalkResult, _Walk, compare, document, lines
from fsm.coordinator.model.dialect import dialect
from fsm.coordinator.storage.load import keep_stored
from fsm.coordinator.storage.replay import replay_segment
from fsm.errors import InputError
from fsm.protocol.error_codes import ErrorCode
from fsm.wire.dialogue import PeerError

STEPS = 100


class Broken(OwnCoordinator):
    """Our coordinator with a fault: what it shows in step `at` is changed."""

    def __init__(self, at: int, change: Mapping[str, Any]) -> None:
        super().__init__("4.4.0", {})
        self.at = at
        self.change = change

    def ask(self, n: int, request: WalkRequest, expected: Expectation) -> Observed:
        observed = super().ask(n, request, expected)
        if n != self.at:
            return observed
        (own,) = (response for response in observed.responses if response.to == n)
        changed = own._replace(message=replace(own.message, **self.change))
        return observed._replace(responses=tuple(changed if one is own else one for one in observed.responses))


class Leaving(OwnCoordinator):
    """Our coordinator, which closes the connection in step 4."""

    def ask(self, n: int, request: WalkRequest, expected: Expectation) -> Observed:
        if n == 4:
            raise PeerError("127.0.0.1:1: the peer closed the connection")
        return super().ask(n, request, expected)


class Lagging(OwnCoordinator):
    """Our coordinator; answers to earlier requests are read a moment after everything else, or never."""

    def __init__(self, *, gives: bool) -> None:
        super().__init__("4.4.0", {})
        self.gives = gives
        self.kept: tuple[Response, ...] = ()

    def ask(self, n: int, request: WalkRequest, expected: Expectation) -> Observed:
        observed = super().ask(n, request, expected)
        self.kept = tuple(response for response in observed.responses if response.to != n)
        return observed._replace(responses=tuple(one for one in observed.responses if one.to == n))

    def wait(self, wait_ms: int) -> Observed:
        observed = super().wait(wait_ms)
        return observed._replace(responses=(*self.kept, *observed.responses)) if self.gives else observed


class Unsteady(OwnCoordinator):
    """Our coordinator on a clock that is up to 70 ms ahead or behind, never the same way twice running."""

    AHEAD_MS = (-70, 40, 0, 70, -20)

    def ask(self, n: int, request: WalkRequest, expected: Expectation) -> Observed:
        self._now_ms += 37
        return super().ask(n, request, expected)

    def _clock_ms(self) -> int:
        return super()._clock_ms() + self.AHEAD_MS[self._made % len(self.AHEAD_MS)]


class Busy(OwnCoordinator):
    """Our coordinator on a busy machine: timers fire up to 140 ms late, some answers are read a step later."""

    LATE_MS = (0, 140, 60, 0, 100)

    def __init__(self) -> None:
        super().__init__("4.4.0", {"group.initial.rebalance.delay.ms": "300"})
        self.unread: tuple[Response, ...] = ()

    def ask(self, n: int, request: WalkRequest, expected: Expectation) -> Observed:
        self._now_ms += 20
        observed = super().ask(n, request, expected)
        own = tuple(response for response in observed.responses if response.to == n)
        others = tuple(response for response in observed.responses if response.to != n)
        read = (*self.unread, *own)
        self.unread = () if self._made % 3 else others
        return observed._replace(responses=(*read, *others) if self._made % 3 else read)

    def wait(self, wait_ms: int) -> Observed:
        observed = super().wait(wait_ms)
        read, self.unread = (*self.unread, *observed.responses), ()
        return observed._replace(responses=read)

    def _run_background(self) -> None:
        until_ms = self._clock_ms() - self.LATE_MS[self._made % len(self.LATE_MS)]
        while (deadline_ms := self.host.next_deadline_ms()) is not None and deadline_ms <= until_ms:
            self.host.expire(deadline_ms)
        self.host.resolve(self._clock_ms())


def only(results: list[WalkResult]) -> WalkResult:
    (one,) = results
    return one


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.loop(8)
def test_our_coordinator_is_held_through_wire_and_log(family: str) -> None:
    """Every family of walks on our own coordinator, whose bytes on the wire and in the log change nothing."""
    peer = OwnCoordinator("4.4.0", {})
    result = only(compare(peer, (family,), 3, STEPS))
    assert result.difference is None, "\n".join(lines(peer, [result], 3))
    assert result.equal == STEPS
    assert result.requests.keys() >= set(FAMILIES[family].needs()) - {
        "CreateTopics",
        "CreatePartitions",
        "DeleteTopics",
    }
    replayed = replay_segment(peer.host.segment(), dialect("4.4.0"))
    assert replayed.remarks == ()
    assert keep_stored(replayed.state).groups.keys() <= peer.host.state.groups.keys()


class Recording(OwnCoordinator):
    """Our coordinator of a release, which notes what it is asked."""

    def __init__(self, release: str = "4.4.0") -> None:
        super().__init__(release, {})
        self.requests: list[WalkRequest] = []

    def ask(self, n: int, request: WalkRequest, expected: Expectation) -> Observed:
        self.requests.append(request)
        return super().ask(n, request, expected)

    def versions_of(self, api: str) -> set[int]:
        return {request.version for request in self.requests if request.api == api}


@pytest.mark.parametrize(
    ("family", "release", "commits", "fetches"),
    [
        ("classic", "4.4.0", range(2, 11), range(0)),
        pytest.param("commit", "4.4.0", range(2, 11), range(1, 11), marks=pytest.mark.deep),
        pytest.param("commit", "4.0.0", range(2, 10), range(1, 10), marks=pytest.mark.deep),
    ],
)
def test_offsets_are_walked_in_every_version(family: str, release: str, commits: range, fetches: range) -> None:
    """Whatever the peer speaks, also with topics and partitions that there are not, by name and by id."""
    peer = Recording(release)
    result = only(compare(peer, (family,), 1, 600))
    assert result.difference is None, "\n".join(lines(peer, [result], 1))
    for api, versions in (("OffsetCommit", commits), ("OffsetFetch", fetches)):
        assert set(versions[-2:]) <= peer.versions_of(api) <= set(versions)
        assert len(peer.versions_of(api)) >= len(versions) - 2
    assert {len(request.message.topics) for request in peer.requests if request.api == "OffsetCommit"} == {1, 2}


def test_the_versions_of_a_peer_change_nothing_else_of_a_walk() -> None:
    """One that speaks fewer is walked in these, along the same way."""

    def walk(peer: Recording) -> list[tuple[str, str]]:
        assert only(compare(peer, ("commit",), 1, STEPS)).difference is None
        return [(request.client, request.why) for request in peer.requests]

    old = Recording()
    old.versions = {"OffsetCommit": range(3, 6), "OffsetFetch": range(2, 8)}
    assert walk(old) == walk(Recording())
    assert old.versions_of("OffsetCommit") <= {3, 4, 5}
    assert old.versions_of("OffsetFetch") <= set(range(2, 8))


def test_a_refusal_that_is_wrong_in_one_version_is_found() -> None:
    """A broker that answers a refused commit by id as if the topic were unknown differs there."""

    class Muddled(Recording):
        def ask(self, n: int, request: WalkRequest, expected: Expectation) -> Observed:
            observed = super().ask(n, request, expected)
            (answer,) = (one for one in observed.responses if one.to == n)
            if request.api != "OffsetCommit" or request.version < 10:
                return observed
            topics = tuple(
                topic._replace(
                    partitions=tuple(
                        one._replace(error_code=one.error_code and ErrorCode.UNKNOWN_TOPIC_ID)
                        for one in topic.partitions
                    )
                )
                for topic in answer.message.topics
            )
            return observed._replace(responses=(answer._replace(message=replace(answer.message, topics=topics)),))

    result = only(compare(Muddled(), ("commit",), 1, 600))
    assert result.difference is not None
    assert result.difference.step.request is not None
    assert result.difference.step.request.version == 10
    assert {one.got for one in result.difference.fields} == {"unknown_topic_id"}


def test_the_same_seed_walks_the_same_way() -> None:
    """Two walks of one seed append the same bytes to the log; another seed, others."""

    def log(seed: int) -> bytes:
        peer = OwnCoordinator("4.4.0", {})
        compare(peer, ("mixed",), seed, 60)
        return peer.host.segment()

    assert log(1) == log(1)
    assert log(1) != log(2)


@pytest.mark.parametrize("seed", [3, *(pytest.param(seed, marks=pytest.mark.deep) for seed in (12, 23))])
def test_clocks_that_go_a_little_apart_do_not_differ(seed: int) -> None:
    """A group rests 10 s once its patterns are resolved; where clocks disagree whether it does, later steps tell.

    Each of these walks gives a member another pattern at such an instant.
    """
    peer = Unsteady("4.4.0", {})
    result = only(compare(peer, ("regex",), seed, 290))
    assert result.difference is None, "\n".join(lines(peer, [result], seed))
    assert result.freedoms.early_or_late == 1


@pytest.mark.parametrize("family", ["admin", "regex-admin"])
def test_metadata_may_reach_the_coordinator_late(family: str) -> None:
    """A request after each change of topics is still answered from the metadata before it: equal, and counted."""
    result = only(compare(Late(after_requests=1), (family,), 1, STEPS))
    assert result.difference is None, "\n".join(lines(Late(), [result], 1))
    assert result.freedoms.old_images > 0
    assert f"old metadata {result.freedoms.old_images}" in next(iter(lines(Late(), [result], 1)))
    assert document(Late(), [result], 1)["families"][0]["old_images"] == result.freedoms.old_images
    assert only(compare(OwnCoordinator("4.4.0", {}), (family,), 1, STEPS)).freedoms.old_images == 0


def test_metadata_that_comes_too_late_is_a_difference() -> None:
    """One request after the bound is answered from the metadata before the change: the group's epoch is wrong."""
    result = only(compare(Late(after_requests=2, pause_ms=IMAGE_KNOWN_MS + 10), ("admin",), 2, STEPS))
    assert (result.equal, result.freedoms.old_images) == (2, 1)
    assert result.difference is not None
    assert FieldDifference("group.epoch", 3, 2) in result.difference.fields


@pytest.mark.parametrize("seed", [2, *(pytest.param(seed, marks=pytest.mark.deep) for seed in (3, 9))])
def test_all_that_a_coordinator_may_have_done_is_kept_until_a_step_tells(seed: int) -> None:
    """In each of these walks a timer is due in a step that looks the same whether it has fired or not.

    What the next steps show is right for one of the two; whoever decides too soon for the other one finds a difference.
    """
    peer = Busy()
    result = only(compare(peer, ("classic-timers",), seed, 250))
    assert result.difference is None, "\n".join(lines(peer, [result], seed))
    assert result.freedoms.early_or_late > 0


def test_what_differs_is_looked_at_again() -> None:
    """An answer that is read after the description that it goes with is no difference; one that never comes is."""
    assert only(compare(Lagging(gives=True), ("classic",), 1, 60)).equal == 60
    missing = only(compare(Lagging(gives=False), ("classic",), 1, 60)).difference
    assert missing is not None
    assert {(one.field[:10], one.got) for one in missing.fields} == {("answer to ", "(absent)")}


def test_the_first_difference_names_step_field_and_both_sides() -> None:
    """One wrong number in one answer is found in its step; what came before is equal."""
    result = only(compare(Broken(6, {"heartbeat_interval_ms": 4_999}), ("plain",), 1, STEPS))
    assert result.difference is not None
    assert (result.equal, result.difference.step.n) == (5, 6)
    assert [tuple(one) for one in result.difference.fields] == [("answer to 6.heartbeat_interval", 5_000, 4_999)]
    assert [step.n for step in result.difference.before] == [1, 2, 3, 4, 5]


def test_a_story_tells_request_decision_and_field() -> None:
    """The text of a difference: the steps before, the group, the request, what Kafka decides, expected and got."""
    peer = Broken(7, {"member_epoch": 99})
    text = "\n".join(lines(peer, compare(peer, ("plain",), 1, STEPS), 1))
    assert "plain                6 steps equal: differs at step 7; 6 ConsumerGroupHeartbeat" in text
    assert "plain, seed 1: first difference at step 7 ConsumerGroupHeartbeat of" in text
    assert text.count("  before        ") == 6
    assert "  group before  consumer " in text
    assert "member_epoch = " in text
    assert "  Kafka         conform-plain-1-m" in text
    assert "  answer to 7.member_epoch\n    Kafka 4.4.0" in text
    assert "    got           99" in text


def test_long_values_are_told_from_where_they_part() -> None:
    """Of a text that is too long for a line, the part around the first difference is shown, on both sides alike."""
    long = "".join(chr(97 + i % 26) for i in range(300))
    field = FieldDifference("records", f"{long}KAFKA{long}", f"{long}BROKER{long}")
    found = only(compare(Broken(7, {"member_epoch": 99}), ("plain",), 1, STEPS))
    assert found.difference is not None
    changed = replace(found, difference=replace(found.difference, fields=(field,)))
    shown = list(lines(OwnCoordinator("4.4.0", {}), [changed], 1))[-2:]
    assert [line.split("...")[0] for line in shown] == ["    Kafka 4.4.0   ", "    got           "]
    assert [line.split("...")[1][:46] for line in shown] == [f"{long[260:]}KAFKAa", f"{long[260:]}BROKER"]


def test_a_peer_that_goes_away_differs_there() -> None:
    """A closed connection is a difference of that step, not the end of the program."""
    result = only(compare(Leaving("4.4.0", {}), ("plain",), 1, STEPS))
    assert result.difference is not None
    (field,) = result.difference.fields
    assert (result.difference.step.n, field.field, field.expected) == (4, "connection", "an answer")
    assert "closed the connection" in field.got


def test_what_cannot_be_asked_is_said() -> None:
    """A family whose requests the peer does not speak is not walked; the others are."""
    peer = OwnCoordinator("4.4.0", {})
    lacks = {"OffsetFetch": "is spoken in versions 1 to 6, not in 9", "DescribeConfigs": "is not spoken"}
    peer.unsupported = lacks
    result = compare(peer, ("commit", "plain"), 1, 20)
    assert [(one.family, one.equal, dict(one.unsupported)) for one in result] == [
        ("commit", 0, {"OffsetFetch": lacks["OffsetFetch"]}),
        ("plain", 20, {}),
    ]
    text = list(lines(peer, result, 1))
    assert text[:4] == [
        "not spoken: DescribeConfigs is not spoken",
        "not spoken: OffsetFetch is spoken in versions 1 to 6, not in 9",
        "settings are not told: those of --set count, else Kafka's defaults",
        "commit          not walked: OffsetFetch not spoken",
    ]


def test_without_a_log_records_are_not_compared() -> None:
    """A peer that keeps no log is compared by its answers and descriptions, and the report says so."""

    class Forgetful(OwnCoordinator):
        keeps_log = False

        def ask(self, n: int, request: WalkRequest, expected: Expectation) -> Observed:
            return super().ask(n, request, expected)._replace(records=())

    peer = Forgetful("4.4.0", {})
    result = compare(peer, ("plain",), 1, 60)
    assert only(result).difference is None
    assert next(lines(peer, result, 1)) == "records are not compared: __consumer_offsets is not read"
    assert document(peer, result, 1)["records_compared"] is False


def test_every_setting_of_the_peer_that_rules_a_group_counts() -> None:
    """Our coordinator is set up with those of groups, of offsets and of their retention; others are passed over."""
    settings = {
        "group.max.size": "3",
        "offset.metadata.max.bytes": "9",
        "offsets.retention.minutes": "7",
        "node.id": "1",
    }
    config = _Walk(OwnCoordinator("4.4.0", settings), "plain", 1, SLACK_MS)._make_follower().host.context.config
    assert (config.group_max_size, config.offset_metadata_max_bytes, config.offsets_retention_minutes) == (3, 9, 7)


def test_releases_part_where_their_flags_say() -> None:
    """Ours of 4.2 against the rules of 4.4: the first difference of a fresh group is its first epoch (F1)."""
    result = only(compare(OwnCoordinator("4.4.0", {}, "4.2.1"), ("plain",), 1, STEPS))
    assert result.difference is not None
    assert result.difference.fields[0][1:] == (2, 1)
    assert result.difference.fields[0].field.endswith("member_epoch")


def test_families_are_chosen_by_name() -> None:
    """A list with commas; nothing is everything; an unknown name is an error with the known ones."""
    assert choose("static, plain") == ("static", "plain")
    assert choose("") == tuple(FAMILIES)
    with pytest.raises(InputError, match="unknown family of walks 'plan'; one of plain, many"):
        choose("plan")


def test_the_command_exits_0_and_prints_a_line_for_each_family(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a broker our own coordinator is compared."""
    assert main(["conform", "--family", "plain,classic", "--steps", "40"]) == 0
    found = capsys.readouterr()
    assert [line.split(":")[0] for line in found.out.splitlines()] == [
        "plain               40 steps equal",
        "classic             40 steps equal",
    ]
    assert found.err == ""


def test_the_command_exits_1_with_a_difference(capsys: pytest.CaptureFixture[str]) -> None:
    """Another release differs; the JSON holds step, request and fields."""
    assert main(["conform", "--family", "plain", "--steps", "40", "--against", "4.2", "--json"]) == 1
    (family,) = json.loads(capsys.readouterr().out)["families"]
    assert (family["equal"], family["difference"]["step"]) == (0, 1)
    assert family["difference"]["request"]["api"] == "ConsumerGroupHeartbeat"
    assert family["difference"]["fields"][0]["expected"] == 2
    assert family["difference"]["decided"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--broker", "nowhere"], "--broker: must be HOST:PORT, not 'nowhere'"),
        (["--broker", "127.0.0.1:0"], "--broker: must be HOST:PORT, not '127.0.0.1:0'"),
        (["--broker", "127.0.0.1:99999"], "--broker: must be HOST:PORT, not '127.0.0.1:99999'"),
        (
            ["--broker", "127.0.0.1:1", "--against", "4.2"],
            "--against: does not go with --broker; use --dialect",
        ),
        (["--no-records"], "--no-records: is only for brokers; add --broker"),
        (["--dialect", "3.9"], "unknown coordinator dialect '3.9'"),
        (["--family", "plan"], "unknown family of walks 'plan'"),
        (["--set", "group"], "--set: must be KEY=VALUE, not 'group'"),
        (["--set", "a=b"], "--set: unknown group setting 'a'; choose from group.consumer.session.timeout.ms, "),
        (
            ["--set", "group.consumer.sesion.timeout.ms=6000"],
            "'group.consumer.sesion.timeout.ms'; did you mean group.consumer.session.timeout.ms?",
        ),
        (["--set", "group.consumer.max.size=many"], "group.consumer.max.size: must be a whole number, not 'many'"),
        (["--steps", "0"], "argument --steps: '0' is not a whole number of at least 1"),
        (
            ["--broker", "127.0.0.1:1"],
            "--broker: 127.0.0.1:1: cannot connect: nothing listens there; start the broker, or give the address of ",
        ),
    ],
)
def test_unusable_arguments_are_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    """Exit status 2 and one line on stderr that says what to do."""
    assert main(["conform", *arguments]) == 2
    found = capsys.readouterr()
    assert message in found.err
    assert (found.err.count("\n"), found.out) == (1, "")
