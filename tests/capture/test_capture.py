"""`fsm capture` as a command: its first line, its trace, its summary, and what it refuses on one line."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest
from patience import PATIENCE_S

from fsm.cli import main
from fsm.protocol.codec import decode_request, encode_response
from fsm.protocol.messages import ApiVersion, ApiVersionsRequest, ApiVersionsResponse, HeartbeatRequest
from fsm.wire import Connection, Exchange, Note, read_lines

OWN = ApiVersionsResponse(api_keys=(ApiVersion(18, 0, 9), ApiVersion(12, 0, 4)))


@contextmanager
def broker() -> Iterator[int]:
    """Somebody on loopback who tells versions, to any number of clients, and answers nothing else."""

    def serve(client: socket.socket) -> None:
        with suppress(OSError), client, client.makefile("rb") as sent:
            while head := sent.read(4):
                header, request = decode_request(sent.read(int.from_bytes(head, "big")))
                if isinstance(request, ApiVersionsRequest):
                    frame = encode_response(OWN, header.api_version, header.correlation_id)
                    client.sendall(len(frame).to_bytes(4, "big") + frame)

    def accept() -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            Thread(target=serve, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        accepting = Thread(target=accept, daemon=True)
        accepting.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
    accepting.join(PATIENCE_S)


def capturing(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fsm", "capture", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("sign", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.deep)])
def test_a_capture_tells_where_it_listens_and_ends_with_a_summary(tmp_path: Path, sign: signal.Signals) -> None:
    trace = tmp_path / "trace.jsonl"
    with broker() as port, capturing("--broker", f"127.0.0.1:{port}", "-o", str(trace)) as capture:
        assert capture.stdout
        first = capture.stdout.readline()
        assert first.startswith("listening on 127.0.0.1:")
        client = Connection("127.0.0.1", int(first.rpartition(":")[2]), "me")
        assert {one.api_key: one.max_version for one in client.call(ApiVersionsRequest()).api_keys} == {18: 5, 12: 4}
        client.send(HeartbeatRequest("g", 1, "m"))
        client.send(HeartbeatRequest("g", 1, "m"))
        client.close()
        capture.send_signal(sign)
        output, problems = capture.communicate(timeout=PATIENCE_S)
    assert (capture.returncode, problems) == (0, "")
    assert output.splitlines()[:5] == [
        "3 exchanges on 1 connection, 2 without an answer",
        "         2  Heartbeat",
        "         1  ApiVersions",
        "0 error responses in 0 groups",
        "passed: none",
    ]
    seen = list(read_lines(trace.read_text().splitlines(), str(trace)))
    assert [one.event if isinstance(one, Note) else one.api for one in seen] == [
        "connected", "ApiVersions", "Heartbeat", "Heartbeat", "disconnected",
    ]  # fmt: skip
    asked = [one for one in seen if isinstance(one, Exchange)]
    assert [(one.client_id, one.is_answered) for one in asked] == [("me", True), ("me", False), ("me", False)]


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (["--broker", "nobody"], "--broker: must be HOST:PORT, not 'nobody'"),
        (["--broker", "127.0.0.1:1"], "127.0.0.1:1: cannot connect: nothing listens there; start the broker, or "),
        (
            ["--broker", "127.0.0.1:{broker}", "--port", "{taken}"],
            "127.0.0.1:{taken}: cannot listen: Address already in use; choose another --port",
        ),
        (["--broker", "127.0.0.1:{broker}", "--port", "70000"], "--port: 70000 is not a port"),
        (
            ["--broker", "127.0.0.1:{broker}", "-o", "{folder}/no/where.jsonl"],
            "{folder}/no/where.jsonl: cannot be written: ",
        ),
        (["--broker", "127.0.0.1:1", "--tls", "--cafile", "{folder}/no.pem"], "{folder}/no.pem: cannot be read: "),
        (["--broker", "127.0.0.1:1", "--tls", "--cafile", __file__], f"{__file__}: holds no certificates: "),
        (["--broker", "127.0.0.1:1", "--cafile", __file__], "--cafile: needs --tls"),
        (["--broker", "127.0.0.1:1", "--tls", "--pass-tls"], "--pass-tls: does not go with --tls"),
        ([], "give either --broker or --read"),
        (["--broker", "127.0.0.1:1", "--read", "-"], "give either --broker or --read"),
        (["--read", "{folder}/no.pcap"], "{folder}/no.pcap: cannot be read: "),
        (["--read", "{folder}"], "{folder}: cannot be read: "),
    ],
)
def test_what_cannot_be_captured_is_refused_on_one_line(
    arguments: list[str], refusal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with broker() as port, socket.create_server(("127.0.0.1", 0)) as taken:
        places = {"broker": port, "taken": taken.getsockname()[1], "folder": tmp_path}
        assert main(["capture", *(one.format_map(places) for one in arguments)]) == 2
    printed = capsys.readouterr()
    assert refusal.format_map(places) in printed.err
    assert (printed.err.count("\n"), printed.out) == (1, "")


def test_a_trace_is_left_alone_where_the_broker_cannot_be_watched(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text("earlier\n")
    assert main(["capture", "--broker", "127.0.0.1:1", "-o", str(trace)]) == 2
    assert trace.read_text() == "earlier\n"
