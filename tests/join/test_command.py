"""`fsm join`: what it prints, how it ends, and one clear line for whatever cannot be joined."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from join_scene import LIMIT_S, Stranger, produce, read_request

from fsm.audit.local import audit_files
from fsm.cli import PIPE_CLOSED, main
from fsm.protocol.codec import decode_request, encode_response
from fsm.protocol.messages import APIS, ApiVersion, ApiVersionsResponse
from fsm.testing import LiveBroker

FSM = (sys.executable, "-m", "fsm", "join")

KINDS = {"threads": (), "asyncio": ("--asyncio",), "classic": ("--protocol", "classic")}
IN_THE_LOOP = (("threads", signal.SIGINT), ("asyncio", signal.SIGTERM))
SIGNALS = pytest.mark.parametrize(
    ("number", "more"),
    [
        pytest.param(
            number, more, id=f"{name}-{number.name}", marks=[] if (name, number) in IN_THE_LOOP else [pytest.mark.deep]
        )
        for name, more in KINDS.items()
        for number in (signal.SIGINT, signal.SIGTERM)
    ],
)
"""Either signal, however the member is embedded and whichever protocol it speaks."""


def arguments(bootstrap: str, *more: str) -> list[str]:
    return ["join", "--bootstrap", bootstrap, "--group", "g", "--topics", "foo", *more]


@pytest.mark.parametrize("more", [(), ("--asyncio",), ("--protocol", "classic", "--session-ms", "6000")])
def test_messages_are_printed_and_committed(
    broker: LiveBroker, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    """So many and no more; the next run goes on behind them."""
    produce(broker, 1, b"a", b"\xff\n", b"c")
    assert main(arguments(broker.bootstrap, "-n", "2", "--quiet", *more)) == 0
    first = capsys.readouterr().out.splitlines()
    assert main(arguments(broker.bootstrap, "-n", "1", "--quiet", "--json", *more)) == 0
    second = json.loads(capsys.readouterr().out)
    assert [line.split("  ")[1:] for line in first] == [["foo-1 @0", "a"], ["foo-1 @1", r"\\xff\n"]]
    assert second == {
        "event": "message",
        "topic": "foo",
        "partition": 1,
        "offset": 2,
        "timestamp_ms": 1_002,
        "key": None,
        "value": "c",
        "headers": [],
    }
    assert broker.get_assignment("g") == {}


def test_it_can_be_watched_thinking(broker: LiveBroker, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Steps of the member's table and what the callbacks got; with --json as trace records, and so in the file."""
    produce(broker, 0, b"a")
    file = tmp_path / "run.jsonl"
    assert main(arguments(broker.bootstrap, "-n", "1", "--trace", str(file))) == 0
    output = [line[14:] for line in capsys.readouterr().out.splitlines()]
    steps = [line.split("  ")[0] for line in output if "->" in line]
    assert steps[:3] == ["UNSUBSCRIBED -> JOINING", "JOINING -> RECONCILING", "RECONCILING -> ACKNOWLEDGING"]
    assert steps[-2:] == ["PREPARE_LEAVING -> LEAVING", "LEAVING -> UNSUBSCRIBED"]
    assert [line for line in output if line.startswith(("assigned: ", "revoked: "))] == [
        "assigned: foo-[0, 1, 2, 3]",
        "revoked: foo-[0, 1, 2, 3]",
    ]
    assert [*audit_files([file]).findings] == []
    file.unlink()
    produce(broker, 0, b"b")
    assert main(arguments(broker.bootstrap, "-n", "1", "--json", "--trace", str(file))) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["value"] for one in printed if one.get("event") == "message"] == ["b"]
    written = [json.loads(line) for line in file.read_text().splitlines()]
    assert [one for one in printed if one.get("event") != "message"] == written


@SIGNALS
@pytest.mark.loop(1)
def test_a_signal_makes_it_leave(broker: LiveBroker, number: signal.Signals, more: tuple[str, ...]) -> None:
    """It commits, leaves the group at once, and ends with status 0."""
    command = [*FSM, *arguments(broker.bootstrap, *more)[1:]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "assigned: foo-[0, 1, 2, 3]" in line:
                break
        process.send_signal(number)
        out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[-1].endswith("is closed")
    broker.wait_until(lambda: not broker.describe("g") or not broker.describe("g").members)  # type: ignore[union-attr]


@SIGNALS
def test_a_signal_ends_it_before_it_has_joined(number: signal.Signals, more: tuple[str, ...]) -> None:
    """A peer that says nothing is not waited for: no line tells of one that was given up."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        command = [*FSM, *arguments(f"127.0.0.1:{silent.getsockname()[1]}", "--quiet", *more)[1:]]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with process, silent.accept()[0] as client:
            read_request(client)
            process.send_signal(number)
            output = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, *output) == (0, "", "")


@pytest.mark.parametrize("more", [(), ("--asyncio",)], ids=["threads", "asyncio"])
@pytest.mark.loop(1)
def test_it_leaves_when_nobody_reads_any_more(broker: LiveBroker, more: tuple[str, ...]) -> None:
    """As `fsm join ... | head -3` does: it leaves the group and says nothing."""
    command = [*FSM, *arguments(broker.bootstrap, *more)[1:]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if "assigned: foo-[0, 1, 2, 3]" in line:
                break
        process.stdout.close()
        assert process.wait(LIMIT_S) == PIPE_CLOSED
        assert process.stderr.read() == ""
    broker.wait_until(lambda: not broker.get_assignment("g"))


# What cannot be joined


def refused(capsys: pytest.CaptureFixture[str], *given: str) -> str:
    """The one line on stderr."""
    assert main(["join", *given]) == 2
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert not [shown for shown in printed.out.splitlines() if "Traceback" in shown]
    return line


def greet(*left_out: str, newest: dict[str, int] | None = None) -> Callable[[socket.socket], None]:
    """A broker that tells what it speaks, without these, and hangs up at the next request."""

    def serve(client: socket.socket) -> None:
        header, _ = decode_request(read_request(client))
        apis = [api for name, api in APIS.items() if name not in left_out]
        keys = tuple(ApiVersion(api.key, api.oldest, (newest or {}).get(api.name, api.newest)) for api in apis)
        frame = encode_response(ApiVersionsResponse(api_keys=keys), 0, header.correlation_id)
        client.sendall(len(frame).to_bytes(4, "big") + frame)
        read_request(client)

    return serve


@pytest.mark.parametrize(
    ("serve", "more", "message"),
    [
        (
            lambda client: client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            (),
            "it speaks HTTP, not Kafka's protocol",
        ),
        (
            lambda client: client.sendall(b"\x15\x03\x03\x00\x02\x02\x50"),
            (),
            "it speaks TLS, not Kafka's protocol; choose a",
        ),
        (
            read_request,
            (),
            "the peer closed the connection; choose a listener without TLS",
        ),
        (lambda client: client.sendall(b"\0\0\0\4nope"), (), "no answer to ApiVersions"),
        (
            greet("ConsumerGroupHeartbeat"),
            (),
            "the broker is too old: it does not support ConsumerGroupHeartbeat; Kafka has it",
        ),
        (greet(newest={"Metadata": 3}), (), "it does not support Metadata in versions 4 to 13"),
        (greet("JoinGroup"), ("--protocol", "classic"), "it does not support JoinGroup in versions 0 to 9"),
        (greet(), (), "the peer closed the connection when it was asked for topics; if it requires SASL"),
    ],
    ids=["HTTP", "TLS", "hangs up", "nonsense", "too old", "much too old", "no classic groups", "SASL"],
)
def test_who_is_no_broker_to_join(
    capsys: pytest.CaptureFixture[str], serve: Callable[[socket.socket], Any], more: tuple[str, ...], message: str
) -> None:
    """The line names the address, what is wrong, and what to do."""
    with Stranger(serve) as peer:
        line = refused(capsys, *arguments(peer.bootstrap, *more)[1:])
    assert line.startswith(f"fsm: 127.0.0.1:{peer.port}: ")
    assert message in line


@pytest.mark.parametrize("more", [(), ("--asyncio",)])
def test_nobody_is_there(capsys: pytest.CaptureFixture[str], more: tuple[str, ...]) -> None:
    """Told at once, of the first address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    line = refused(capsys, *arguments(f"127.0.0.1:{port},127.0.0.1:1", *more)[1:])
    assert line.startswith(f"fsm: 127.0.0.1:{port}: cannot connect: nothing listens there; start the broker, or ")


def test_one_of_several_addresses_is_enough(broker: LiveBroker, capsys: pytest.CaptureFixture[str]) -> None:
    """The others are passed over."""
    produce(broker, 0, b"a")
    assert main(arguments(f"127.0.0.1:1,{broker.bootstrap}", "-n", "1", "--quiet")) == 0
    assert capsys.readouterr().out.endswith("foo-0 @0  a\n")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--topics", "foo,nope"), "topic nope: unknown_topic_or_partition; create it first"),
        (("--topics", "foo", "--pattern", "x"), "--topics: give either --topics or --pattern"),
        ((), "--topics: give either --topics or --pattern"),
        (("--topics", "foo", "--dialect", "9.9"), "unknown dialect '9.9'"),
        (("--topics", "foo", "--protocol", "classic", "--dialect", "4.2"), "--dialect: is for --protocol consumer"),
        (("--topics", "foo", "--session-ms", "6000"), "--session-ms: is for --protocol classic"),
        (("--topics", "foo", "--protocol", "classic", "--assignor", "rang"), "--assignor: no assignor 'rang'"),
        (("--pattern", "[", "--protocol", "classic"), "--pattern: is not a regular expression"),
        (("--topics", "foo", "--instance", "a b"), "group_instance_id: must be 1 to 249"),
        (("--topics", "foo", "--trace", "/nowhere/run.jsonl"), "/nowhere/run.jsonl: cannot be written"),
        (("--topics", "foo", "-n", "0"), "'0' is not a whole number of at least 1"),
    ],
)
def test_what_cannot_be_asked_for(
    broker: LiveBroker, capsys: pytest.CaptureFixture[str], given: tuple[str, ...], message: str
) -> None:
    """Whatever is wrong with the arguments, and topics that do not exist."""
    assert message in refused(capsys, "--bootstrap", broker.bootstrap, "--group", "g", *given)


def test_an_error_for_good_ends_it(broker: LiveBroker, capsys: pytest.CaptureFixture[str]) -> None:
    """The membership ended with it: status 2, after the callbacks and the close."""
    broker.refuse("UNSUPPORTED_ASSIGNOR", api="ConsumerGroupHeartbeat", times=9)
    assert "UNSUPPORTED_ASSIGNOR" in refused(capsys, *arguments(broker.bootstrap, "--assignor", "mine", "--quiet")[1:])
