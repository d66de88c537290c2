"""One group on a real Kafka, of our member, librdkafka and the Java client: processes that can be closed and killed."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from kafka_broker import Kafka
from patience import PATIENCE_S

from fsm.protocol.messages import CreatableTopic, CreateTopicsRequest, FindCoordinatorRequest
from fsm.wire.connection import Connection

T = TypeVar("T")

HERE = Path(__file__).parent
TOPIC, PARTITIONS = "foo", 8
OURS = {"ours": [], "classic": ["--protocol", "classic", "--session-ms", "4000", "--assignor", "cooperative-sticky"]}
"""Our members, each second life on asyncio, with what they are told."""
NAMES = [f"together-{i}" for i in range(20)]
LIMIT_S = PATIENCE_S
EVENTS = {"assign_begin": "assigned", "revoke_begin": "revoked", "lost_begin": "lost"}
"""Our trace records by what the others print."""
LOG4J = """<Configuration><Appenders><File name="file" fileName="${sys:logfile}" append="true">
<PatternLayout pattern="[%d{yyyy-MM-dd HH:mm:ss,SSS}{UTC}] %p %m (%c)%n"/></File></Appenders>
<Loggers><Root level="INFO"><AppenderRef ref="file"/></Root>
<Logger name="org.apache.kafka.clients.consumer" level="DEBUG"/></Loggers></Configuration>
"""


class Done(NamedTuple):
    """Something that the test did, and how long the group needed to settle."""

    what: str
    client_id: str
    owned: frozenset[int]
    """What that member had before."""
    began_ms: float
    settled_ms: float


class Cluster:
    """Two brokers; the group's coordinator is the second, as long as that is there."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        (folder / "1").mkdir()
        (folder / "2").mkdir()
        self.first = Kafka(folder / "1", settings)
        self.second = Kafka(folder / "2", settings, self.first)
        self.bootstrap = f"127.0.0.1:{self.first.port},127.0.0.1:{self.second.port}"
        self.group = ""

    def start(self) -> None:
        """Starts both, makes the topic, and chooses a group that the second one coordinates."""
        self.first.start()
        self.second.start()
        connection = Connection("127.0.0.1", self.first.port, "setup")
        topic = CreatableTopic(TOPIC, PARTITIONS, 2)
        (made,) = wait(lambda: connection.call(CreateTopicsRequest((topic,), 30_000)).topics)
        assert not made.error_code, made
        connection.close()
        self.group = wait(lambda: next((name for name in NAMES if self.coordinator(name) == self.second.port), ""))

    def coordinator(self, group: str) -> int | None:
        """The port of the group's coordinator; None where there is none now."""
        connection = Connection("127.0.0.1", self.first.port, "setup")
        (found,) = connection.call(FindCoordinatorRequest(coordinator_keys=(group,))).coordinators
        connection.close()
        port: int = found.port
        return None if found.error_code else port

    def move_away(self) -> None:
        """The second broker ends, and the first coordinates the group."""
        self.second.stop()
        wait(lambda: self.coordinator(self.group) == self.first.port)

    def move_back(self) -> None:
        """The second broker is there again, and gets the group back."""
        self.second.start()
        wait(lambda: self.coordinator(self.group) == self.second.port)

    def stop(self) -> None:
        """Stops both."""
        self.second.stop()
        self.first.stop()


def wait(condition: Callable[[], T]) -> T:
    """What the condition gives, once that is true."""
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        if found := condition():
            return found
        time.sleep(0.2)
    raise AssertionError(f"not within {LIMIT_S:g} s")


class Member:
    """A process that takes part; each life of it writes to a log of its own."""

    def __init__(self, name: str, command: Sequence[str], log: Path, *, logs_to_stderr: bool) -> None:
        self.name = name
        self.owned: set[int] = set()
        self.has_closed = False
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors if logs_to_stderr else None,
                text=True,
            )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            document = json.loads(line)
            event = document.get("event") or EVENTS.get(document.get("kind", ""), document.get("kind"))
            numbers = {number for _, number in document.get("partitions", ())} if event != "message" else set()
            if event == "assigned":
                self.owned = self.owned | numbers
            elif event in {"revoked", "lost"}:
                self.owned = self.owned - numbers
            elif event in {"closed", "close_end"}:
                self.has_closed = True

    def close(self) -> None:
        """Has it leave, and waits until it has ended."""
        assert self.process.stdin is not None
        if self.name in OURS:
            self.process.send_signal(signal.SIGTERM)
        else:
            self.process.stdin.write("close\n")
            self.process.stdin.flush()
        assert self.process.wait(LIMIT_S) == 0, self.name
        self._thread.join(LIMIT_S)
        assert self.has_closed, self.name
        assert not self.owned, self.name

    def kill(self) -> None:
        """It is gone without a word."""
        self.process.kill()
        self.process.wait(LIMIT_S)
        self._thread.join(LIMIT_S)
        self.owned = set()


class Group:
    """The members, and what was done to them."""

    def __init__(self, bootstrap: str, name: str, folder: Path, jars: Path) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.folder = folder
        self.jars = jars
        self.members: dict[str, Member] = {}
        self.lives: dict[str, int] = {}
        self.logs: list[Path] = []
        self.done: list[Done] = []
        javac = shutil.which("javac")
        assert javac, "a JDK is needed: there is no javac"
        compiled = [javac, "-cp", f"{jars}/*", "-d", str(folder), str(HERE / "Member.java")]
        subprocess.run(compiled, check=True, timeout=LIMIT_S)
        (folder / "log4j2.xml").write_text(LOG4J)

    def start(self, name: str) -> None:
        """A life of this member begins."""
        life = self.lives[name] = self.lives.get(name, 0) + 1
        client_id = f"{name}-{life}"
        log = self.folder / f"{client_id}.log"
        self.logs.append(log)
        self.members[name] = Member(name, self._command(name, client_id, log), log, logs_to_stderr=name == "rdkafka")

    def _command(self, name: str, client_id: str, log: Path) -> list[str]:
        given = [self.bootstrap, self.name, TOPIC, client_id]
        if name == "rdkafka":
            return [sys.executable, str(HERE / "rdkafka_member.py"), *given]
        if name == "java":
            options = ["-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlogfile={log}"]
            options += [f"-Dlog4j2.configurationFile={self.folder / 'log4j2.xml'}"]
            return ["java", *options, "-cp", f"{self.jars}/*:{self.folder}", "Member", *given]
        ours = ["--bootstrap", self.bootstrap, "--group", self.name, "--topics", TOPIC, "--client-id", client_id]
        ours += [*OURS[name], *(["--asyncio"] if self.lives[name] % 2 == 0 else [])]
        return [sys.executable, "-m", "fsm", "join", *ours, "--commit-ms", "500", "--json", "--trace", str(log)]

    def do(self, what: str, name: str, act: Callable[[], object], pause_s: float = 0.0) -> None:
        """Does it, and waits until the group is at rest: each partition has one owner, and each member has some."""
        owned = frozenset(self.members[name].owned if name in self.members else ())
        began_ms = time.time() * 1_000
        act()
        time.sleep(pause_s)
        self.settle(what)
        client_id = f"{name}-{self.lives.get(name, 0)}"
        self.done.append(Done(what, client_id, owned, began_ms, time.time() * 1_000))

    def settle(self, what: str) -> None:
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until:
            shares = [member.owned for member in self.members.values()]
            if all(shares) and sorted(number for share in shares for number in share) == [*range(PARTITIONS)]:
                return
            for member in self.members.values():
                assert member.process.poll() is None, f"{member.name} has ended: see {self.folder}"
            time.sleep(0.05)
        held = {name: sorted(member.owned) for name, member in self.members.items()}
        raise AssertionError(f"after {what} not at rest within {LIMIT_S:g} s: {held}")

    def close(self, name: str) -> None:
        """It leaves."""
        self.members.pop(name).close()

    def kill(self, name: str) -> None:
        """It is killed."""
        self.members.pop(name).kill()

    def end(self) -> None:
        """Whatever still runs is ended."""
        for member in self.members.values():
            member.kill()
