"""Files of rules that were cut or changed: each is read or refused on one line, and what was read harms no broker."""

from __future__ import annotations

from random import Random

import pytest
from serve_scene import Scene

from fsm.errors import InputError
from fsm.protocol import messages as m
from fsm.protocol.messages import APIS
from fsm.serve.faults import Do, read_rules

DEEDS = (
    "refuse: FENCED_MEMBER_EPOCH", "lose: yes", "mute: yes", "swallow: yes", "close: yes", "duplicate: yes",
    "delay_ms: 5", "delay_answer_ms: 5", "throttle_ms: 5", "pause_ms: 5", "expire: yes", "move: yes",
    "rewrite: {throttle_time_ms: 9}", "rewrite: {error_message: no}", "rewrite: {error_code: REBALANCE_IN_PROGRESS}",
    "rewrite: {protocol_name: ~}", f"rewrite: {{leader: {'x' * 32_767}}}",
)  # fmt: skip
CONDITIONS = (
    "client: A", "group: g", "member: m-1", "version: 4", "epoch: 0", "nth: 2", "times: always", "after_ms: 7",
    "full: yes", "partition: foo-0", "name: x",
)  # fmt: skip
ODD = (
    "~", "yes", "always", "[", "{", "}", "- ", ": ", "&a ", "*a", "!!int ", "|", ">", "99999999999999999999", "-1",
    ".nan", "1e9", "\N{SUPERSCRIPT TWO}", "\t", "\0", "? ", "<<: ", "--- ", "%YAML 9\n", "2020-01-01", '"\\ud800"', "#",
    "x" * 32_767,
)  # fmt: skip


def draw(random: Random) -> str:
    """Some rules, more often than not with something in them that should not be."""
    rules = []
    for _ in range(random.randrange(1, 4)):
        some = random.sample(CONDITIONS, random.randrange(3))
        api = [f"api: {random.choice([*APIS])}"] if random.random() < 0.8 else []
        rules.append("- " + "\n  ".join([random.choice(DEEDS), *api, *some]) + "\n")
    text = "".join(rules)
    for _ in range(random.choice((0, 0, 1, 3))):
        at, some_more = random.randrange(len(text) + 1), random.choice(ODD)
        match random.randrange(4):
            case 0:
                text = text[:at] + some_more + text[at:]
            case 1:
                text = text[:at] + text[at + random.randrange(1, 9) :]
            case 2:
                text = text[:at] + text[max(0, at - 20) : at] + text[at:]
            case _:
                value, end = text.find(": ", at) + 2, text.find("\n", at)
                text = text[:value] + some_more + text[max(value, end) :]
    return text


def requests() -> list[tuple[object, int]]:
    """Those that rules meet, in old versions and in new ones."""
    protocols = (m.JoinGroupRequestProtocol("range", b""),)
    beat = m.ConsumerGroupHeartbeatRequest("g", "m-1", 0, None, None, 60_000, ("foo",), topic_partitions=())
    join = m.JoinGroupRequest("c", 10_000, 60_000, "", None, "consumer", protocols)
    commit = m.OffsetCommitRequest("g", 0, "m-1", topics=())
    asked = [(join, v) for v in (0, 4, 6, 9)] + [(m.MetadataRequest(), v) for v in (1, 5, 12)]
    return [(beat, 0), (beat, 1), *asked, (m.ApiVersionsRequest(), 0), (m.ApiVersionsRequest(), 3), (commit, 4)]


@pytest.mark.parametrize(
    ("count", "seed"),
    [
        pytest.param(1_000, 1, id="1k", marks=pytest.mark.deep),
        pytest.param(2_000, 1, id="2k", marks=pytest.mark.deep),
        pytest.param(100_000, 2, id="100k", marks=pytest.mark.slow),
    ],
)
def test_changed_rules_are_read_or_refused(count: int, seed: int) -> None:
    random = Random(seed)  # noqa: S311  # the same seed, the same rules
    asked, did, refused = requests(), set(), 0
    oddities: list[str] = []
    for _ in range(count):
        text = draw(random)
        try:
            rules = read_rules(text, "f.yaml")
        except InputError as problem:
            refused += 1
            line = str(problem)
            if not line.startswith("f.yaml:") or "\n" in line or len(line) > 2_000:
                oddities.append(line)
            continue
        scene = Scene(*rules)
        for request, version in random.sample(asked, 3):
            scene.client("A").send(request, version)
        scene.wait(20)
        assert scene.client("B").number not in scene.closed
        did.update(rule.do for rule in rules if rule.done)
    assert count // 10 < refused < count * 9 // 10
    assert did == set(Do)
    assert oddities == []
