"""Conversations with a member: what each step does, and one line with its place for everything that is none."""

from __future__ import annotations

import pytest

from fsm.errors import InputError
from fsm.nodes import yaml_node
from fsm.scenario.files import replay_document
from fsm.scenario.story import Replay, Step

HEAD = """\
conversation: a talk
config: {group_id: shop, enable_auto_commit: no, max_poll_interval_ms: 60000}
topics: [orders]
"""
JOINED = """\
steps:
- subscribe: [orders]
- poll
- answer: {member_epoch: 1, assignment: [orders-0]}
- poll
- answer
"""


def run_text(text: str, dialect: str | None = None) -> Replay:
    (run,) = replay_document(yaml_node(text, "talk.yaml", "scenario"), "talk.yaml", dialect)
    return run


def after(steps: str, head: str = HEAD) -> Step:
    """The last step of a talk with a member that has joined."""
    return run_text(head + JOINED + steps).steps[-1]


# What steps do


def test_time_passes_in_wait_alone() -> None:
    """A heartbeat is due an interval after the answer, and not a millisecond before."""
    assert after("- wait: 4999\n").seen["sent"] == "[]"
    assert after("- wait: 5000\n").seen["sent"] == "[ConsumerGroupHeartbeat]"


def test_positions_are_committed() -> None:
    """With automatic commits, what a poll had consumed is committed at the interval, and answered by itself."""
    head = HEAD.replace("enable_auto_commit: no", "enable_auto_commit: yes")
    step = after("- poll: {consumed: {orders-0: 7}}\n- wait: 5000\n- poll: {consumed: {orders-0: 8}}\n", head)
    assert step.seen["committed"] == "[orders-0: 8]"


def test_commits_can_be_answered_by_hand() -> None:
    """`commits: by hand` leaves the commit open until the scenario answers it; else there is nothing to answer."""
    head = HEAD.replace("enable_auto_commit: no", "enable_auto_commit: yes")
    steps = "- wait: 5000\n- poll: {consumed: {orders-0: 7}}\n- answer: {to: 4, errors: {orders-0: NOT_COORDINATOR}}\n"
    assert after(steps, head + "commits: by hand\n").seen["refused"] == "none"
    assert after(steps, head).seen["refused"] == "no such request is pending"


@pytest.mark.parametrize("given", ["{orders-0: 7}", "[{orders-0: 7}]"])
def test_offsets_that_are_committed_can_be_expected(given: str) -> None:
    """As one mapping, or as a list with one for each commit; another offset is the difference."""
    head = HEAD.replace("enable_auto_commit: no", "enable_auto_commit: yes") + JOINED
    steps = f"- wait: 5000\n- poll: {{consumed: {{orders-0: 7}}}}\n  expect: {{committed: {given}}}\n"
    assert run_text(head + steps).differences() == ()
    (found,) = run_text(
        head + steps.replace(f"committed: {given}", f"committed: {given}".replace("7", "8"))
    ).differences()
    assert (found.field, found.expected, found.got) == ("committed", "[orders-0: 8]", "[orders-0: 7]")


def test_call_that_waits_stays_open() -> None:
    """unsubscribe() returns when the leave is answered; before, no other call can be made."""
    run = run_text(HEAD + JOINED + "- unsubscribe\n- poll\n- poll\n- answer\n")
    leaves, refused, *_, answered = run.steps[5:]
    assert leaves.seen["callbacks"] == "[on_partitions_revoked [orders-0]]"
    assert leaves.seen["inside"] == "unsubscribe"
    assert refused.seen["refused"] == "the application is inside unsubscribe()"
    assert (answered.seen["returned"], answered.seen["inside"]) == ("[unsubscribe]", "none")
    assert [d.got for d in run.differences()] == ["the application is inside unsubscribe()"] * 2


def test_poll_with_a_timeout_waits_for_it() -> None:
    """poll(500) is open until something happens or its time is over."""
    run = run_text(HEAD + JOINED + "- poll: {timeout_ms: 500}\n- wait: 499\n- wait: 1\n")
    assert [step.seen["inside"] for step in run.steps[-3:]] == ["poll", "poll", "none"]


def test_callback_can_be_held() -> None:
    """A held callback ends when the scenario says so, here with an exception that poll() throws."""
    head = HEAD + "listener: {on_partitions_assigned: {held: yes}}\n"
    steps = "steps:\n- subscribe: [orders]\n- poll\n- answer: {member_epoch: 1, assignment: [orders-0]}\n- poll\n"
    run = run_text(head + steps + "- wait: 1000\n- callback_returns: {raises: no space}\n")
    assert [step.seen["inside"] for step in run.steps[-3:]] == ["poll", "poll", "none"]
    assert run.steps[-1].seen["raised"] == "KafkaException: the rebalance listener raised: no space"


def test_callback_that_nobody_holds_cannot_return() -> None:
    """`callback_returns` without a callback is a difference, not a crash."""
    assert after("- callback_returns\n").seen["refused"] == "no callback is under way"


def test_request_can_be_answered_by_its_number() -> None:
    """`to` names a request of the conversation; one that is answered already cannot be answered again."""
    assert after("- wait: 5000\n- answer: {to: 3, member_epoch: 4}\n").seen["epoch"] == "4"
    assert after("- wait: 5000\n- answer: {to: 2}\n").seen["refused"] == "no such request is pending"


def test_request_can_fail() -> None:
    """A connection that is gone makes the member look for the coordinator again."""
    step = after("- coordinator: unreachable\n- wait: 5000\n- fail: disconnected\n")
    assert "CoordinatorForgotten" in step.seen["effects"]
    assert after("- wait: 5000\n- fail: {with: timed_out, to: 9}\n").seen["refused"] != "none"


def test_without_a_listener_nobody_is_called() -> None:
    """`listener: no` subscribes without one."""
    run = run_text(HEAD + "listener: no\n" + JOINED)
    assert all(step.seen["callbacks"] == "[]" for step in run.steps)
    assert run.steps[-1].seen["owned"] == "[orders-0]"


@pytest.mark.parametrize(
    ("subscribe", "field", "value"),
    [
        ("{regex: or.*}", "subscribed_topic_regex", "or.*"),
        ("{pattern: or.*}", "subscribed_topic_names", "[orders]"),
    ],
)
def test_patterns_are_matched_by_client_or_coordinator(subscribe: str, field: str, value: str) -> None:
    """A pattern is matched by the client and sent as names; a regular expression goes to the coordinator."""
    run = run_text(f"{HEAD}steps:\n- subscribe: {subscribe}\n- poll\n")
    assert run.steps[-1].seen[f"sent 1 {field}"] == value


def test_classic_member_matches_patterns_itself() -> None:
    """A classic member takes a pattern, and none that a coordinator would have to match."""
    head = "conversation: x\nprotocol: classic\ntopics: {orders: 2, other: 1}\nsteps:\n"
    run = run_text(head + "- subscribe: {pattern: or.*}\n- poll\n- subscribe: {regex: or.*}\n")
    assert run.steps[1].seen["sent 1 topics"] == "[orders]"
    assert run.steps[2].seen["refused"] == "a pattern that the coordinator matches needs the consumer protocol"


def test_static_member_keeps_its_place() -> None:
    """A static member leaves with -2, unless close() is told to leave the group for good."""
    head = HEAD.replace("group_id: shop", "group_id: shop, group_instance_id: i-1")
    assert after("- close\n", head).seen["sent 1 member_epoch"] == "-2"
    assert after("- close: {operation: leave_group}\n", head).seen["sent 1 member_epoch"] == "-1"


def test_dialect_of_the_command_goes_before_the_files() -> None:
    """The file's dialect is what it is run under unless another is asked for; 4.2 is its latest patch."""
    text = HEAD + "dialect: 4.1.0\n" + JOINED
    assert (run_text(text).dialect, run_text(text, "4.2").dialect) == ("4.1.0", "4.2.1")


# What is no conversation

BAD = [
    ("conversation: x\n", "talk.yaml:1: the key 'steps' is missing"),
    ("conversation: x\nsteps: []\n", "talk.yaml:2: 0 steps; 1 to 2000"),
    ("conversation: x\nsteps: poll\n", "talk.yaml:2: must be a list"),
    ("conversation: x\nstep: [poll]\n", "talk.yaml:2: unknown key 'step'; did you mean steps?"),
    ("conversation: x\nsteps:\n- pol\n", "talk.yaml:3: unknown step 'pol'; did you mean poll?"),
    ("conversation: x\nsteps:\n- {poll: , wait: 1}\n", "talk.yaml:3: a step does one thing, not 2; one of subscribe, "),
    ("conversation: x\nsteps:\n- expect: {state: STABLE}\n", "talk.yaml:3: a step does one thing, not 0; one of "),
    ("conversation: x\nsteps:\n- [poll]\n", "talk.yaml:3: must be a mapping"),
    ("conversation: x\nsteps:\n- poll:\n  expect: {state: STABEL}\n",
     "talk.yaml:4: 'STABEL' is not a known state; did you mean STABLE?"),
    ("conversation: x\nsteps:\n- poll:\n  expect:\n    stat: STABLE\n",
     "talk.yaml:5: unknown key 'stat'; did you mean state?"),
    ("conversation: x\nsteps:\n- poll:\n  expect: {generation: 1}\n", "talk.yaml:4: unknown key 'generation'; choose "),
    ("conversation: x\nsteps:\n- poll:\n  expect: {transitions: [STABLE]}\n",
     "talk.yaml:4: 'STABLE' is not a transition; write JOINING to STABLE"),
    ("conversation: x\nsteps:\n- poll:\n  expect: {sent: [JoinGrop]}\n",
     "talk.yaml:4: 'JoinGrop' is not a known request; did you mean JoinGroup?"),
    ("conversation: x\nsteps:\n- poll:\n  expect:\n    sent:\n    - ConsumerGroupHeartbeat: {epoch: 1}\n",
     "talk.yaml:6: unknown key 'epoch'; "),
    ("conversation: x\nsteps:\n- poll:\n  expect: {callbacks: [{on_revoked: []}]}\n",
     "talk.yaml:4: 'on_revoked' is not a known callback; "),
    ("conversation: x\nsteps:\n- poll:\n  expect: {owned: [orders]}\n",
     "talk.yaml:4: 'orders' is not a partition; write orders-0 for partition 0"),
    ("conversation: x\nsteps:\n- poll:\n  expect: {closed: maybe}\n", "talk.yaml:4: 'maybe' is neither yes nor no"),
    ("conversation: x\nsteps:\n- wait: soon\n", "talk.yaml:3: 'soon' is not a whole number"),
    ("conversation: x\nsteps:\n- wait: -1\n", "talk.yaml:3: time cannot go back"),
    ("conversation: x\nsteps:\n- wait: 99999999999999999999\n", "talk.yaml:3: '99999999999999999999' is too large"),
    ("conversation: x\nsteps:\n- wait: '5'\n", "talk.yaml:3: '5' is not a whole number"),
    ("conversation: x\nsteps:\n- subscribe: {pattern: '('}\n", "talk.yaml:3: not a regular expression: "),
    ("conversation: x\nsteps:\n- subscribe: {}\n", "talk.yaml:3: neither topics nor one pattern; "),
    ("conversation: x\nsteps:\n- close: {operation: stay}\n",
     "talk.yaml:3: unknown operation 'stay'; default, leave_group, remain_in_group"),
    ("conversation: x\nsteps:\n- coordinator: gone\n", "talk.yaml:3: 'gone' is neither reachable nor unreachable"),
    ("conversation: x\nsteps:\n- fail: badly\n",
     "talk.yaml:3: 'badly' is not a known failure; choose from disconnected, timed_out, unsupported_version"),
    ("conversation: x\ntopics: [orders]\nsteps:\n- subscribe: [orders]\n- poll\n- answer: {epoch: 1}\n",
     "talk.yaml:6: unknown key 'epoch'; choose from to, member_epoch, "),
    ("conversation: x\ntopics: [orders]\nsteps:\n- subscribe: [orders]\n- poll\n- answer: {error_code: FENCED}\n",
     "talk.yaml:6: 'FENCED' is not a known Kafka error code; "),
    ("conversation: x\nprotocol: eager\nsteps: [poll]\n", "talk.yaml:2: 'eager' is not a protocol; consumer or"),
    ("conversation: x\nconfig: {group_id: ''}\nsteps: [poll]\n", "talk.yaml:2: group_id must not be empty"),
    ("conversation: x\nconfig: {max_poll_interval_ms: 0}\nsteps: [poll]\n",
     "talk.yaml:2: max_poll_interval_ms must be at least 1 ms, not 0"),
    ("conversation: x\nconfig: {session_timeout_ms: 1}\nsteps: [poll]\n",
     "talk.yaml:2: unknown key 'session_timeout_ms'; "),
    ("conversation: x\nprotocol: classic\nconfig: {assignors: [sticky]}\nsteps: [poll]\n",
     "talk.yaml:3: 'sticky' is not a known assignor; "),
    ("conversation: x\nlistener: {on_partitions_revoked: {raise: x}}\nsteps: [poll]\n",
     "talk.yaml:2: unknown key 'raise'; did you mean raises?"),
    ("conversation: x\ndialect: 3.9\nsteps: [poll]\n", "talk.yaml:2: unknown dialect '3.9'; one of 4.0.0, "),
    ("conversation: x\nprotocol: classic\ntopics: {orders: 0}\nsteps: [poll]\n",
     "talk.yaml:3: a topic has at least one partition, "),
    ("conversation: x\nprotocol: classic\ntopics: {orders: 99999999999}\nsteps: [poll]\n",
     "talk.yaml:3: a topic has at least one partition, "),
    ("conversation: x\ncommits: never\nsteps: [poll]\n", "talk.yaml:2: 'never' is neither `answered` nor `by hand`"),
    ("steps: [poll]\n", "talk.yaml:1: is not a known kind of scenario; kinds: "),
    ("- conversation\n", "talk.yaml:1: is not a known kind of scenario; kinds: "),
    ("conversation\n", "talk.yaml:1: is not a known kind of scenario; kinds: "),
    ("", "talk.yaml: it is empty; a scenario is one document"),
    ("# nothing\n", "talk.yaml: it is empty; a scenario is one document"),
    ("conversation: x\n---\nconversation: y\n", "talk.yaml: 2 documents in one text; a scenario is one document"),
    ("conversation: !!python/object/apply:os.system [id]\nsteps: [poll]\n",
     "talk.yaml:1: the tag 'tag:yaml.org,2002:python/object/apply:os.system' is not supported; "),
    ("conversation: &a x\nsteps: [*a]\n", "talk.yaml:1: anchors and aliases are not supported: a; write the value out"),
    ("conversation: x\nconversation: y\n", "talk.yaml:2: the key 'conversation' appears twice"),
    ("conversation: [\n", "talk.yaml:2: not YAML: "),
    ("conversation: " + "[" * 60 + "\n", "talk.yaml:1: nested deeper than 40 levels"),
    ("conversation: " + "x" * 300_000, "talk.yaml: too long; a scenario has at most 262,144 characters"),
    ("conversation: x\nsteps: [" + "poll, " * 2_001 + "]\n", "talk.yaml:2: 2001 steps; 1 to 2000"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD, ids=[str(number) for number in range(len(BAD))])
def test_what_is_no_conversation_is_one_line_with_its_place(text: str, message: str) -> None:
    """Unknown words, wrong types and hostile documents are refused in one line that names the line of the file."""
    with pytest.raises(InputError) as refused:
        run_text(text)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def test_wait_that_never_ends_is_refused() -> None:
    """A heartbeat every millisecond for a thousand years is more than a scenario may ask for; the line is named."""
    text = "conversation: x\nprotocol: classic\ntopics: [orders]\nsteps:\n- subscribe: [orders]\n- poll\n"
    config = "config: {enable_auto_commit: no, heartbeat_interval_ms: 1, session_timeout_ms: 30000}\n"
    talk = "- answer: {generation_id: 1, member_id: m-1}\n- poll\n- answer\n- poll\n- wait: 31536000000000\n"
    with pytest.raises(InputError, match=r"^talk\.yaml:12: 10000 turns by 10000 ms; wait for less"):
        run_text(config + text + talk)
