"""A real Apache Kafka on loopback for one test session: its jars from Maven Central, one node, a folder of its own.

The jars are kept below `.venv/kafka/<release>` (or `$KAFKA_CACHE`); as a program this fetches them. Nothing is skipped:
a broker that cannot be had or does not start is a failure that says why.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

RELEASE = os.environ.get("KAFKA_RELEASE", "4.4.0")
CACHE = Path(os.environ.get("KAFKA_CACHE", Path(__file__).parents[2] / ".venv" / "kafka"))
FETCHING_S, FORMATTING_S, STARTING_S, STOPPING_S = 900, 120, 180, 30
STARTED = "Kafka Server started"
UNPUBLISHED = {"4.4.0": "4.3.1"}
"""Releases whose `kafka-tools-api` is not published, and the one that is taken instead."""

STEPS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.assignment.interval.ms": "0",
    "group.coordinator.append.linger.ms": "0",
}
"""Settings of the recorded walks: nothing waits for a clock."""
TIME = {
    "group.initial.rebalance.delay.ms": "300",
    "group.coordinator.append.linger.ms": "0",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.min.session.timeout.ms": "3000",
}
"""The same for walks in which time passes."""

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>x</groupId><artifactId>kafka-run</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{release}</version>
  <exclusions><exclusion><groupId>org.apache.kafka</groupId><artifactId>kafka-tools-api</artifactId></exclusion></exclusions>
</dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools-api</artifactId><version>{tools}</version></dependency>
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.1</version></dependency>
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId><version>2.25.1</version></dependency>
</dependencies></project>
"""
TOOLS = "4.3.1"
"""The latest release whose tools are published."""
TOOLS_POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>x</groupId><artifactId>kafka-tools-run</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{release}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{release}</version></dependency>
</dependencies></project>
"""
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
auto.create.topics.enable=false
log.cleaner.enable=false
"""
SECOND = {"process.roles": "broker", "node.id": "2", "listeners": "PLAINTEXT://127.0.0.1:{port}"}
"""What differs for a second broker."""
LOG4J = """<Configuration><Appenders><File name="file" fileName="${sys:logfile}">
<PatternLayout pattern="[%d] %p %m (%c)%n"/></File></Appenders>
<Loggers><Root level="INFO"><AppenderRef ref="file"/></Root></Loggers></Configuration>
"""
JAVA = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class NoBrokerError(Exception):
    """Apache Kafka cannot be run here."""


class Kafka:
    """One node on loopback, its files in a folder; it can be started again where it was."""

    def __init__(self, folder: Path, settings: Mapping[str, str], joins: Kafka | None = None) -> None:
        """Formats its disk; with `joins` it is the second broker of that one's cluster.

        Raises `NoBrokerError` where Kafka cannot be had.
        """
        self.folder = folder
        self.port = free_port()
        self.controller: int = joins.controller if joins else free_port()
        config = folder / "server.properties"
        properties = {**settings, **(SECOND if joins else {})}
        lines = "".join(f"{key}={value}\n" for key, value in properties.items()).replace("{port}", str(self.port))
        config.write_text(PROPERTIES.format(port=self.port, controller=self.controller, folder=folder) + lines)
        (folder / "log4j2.xml").write_text(LOG4J)
        java = ["java", *JAVA, f"-Dlogfile={folder / 'broker.log'}"]
        java += [f"-Dlog4j2.configurationFile={folder / 'log4j2.xml'}", "-cp", f"{jars(RELEASE)}/*"]
        formatted = [*java, "kafka.tools.StorageTool", "format", "-t", "AAAAAAAAQACAAAAAAAAAAQ", "-c", str(config)]
        subprocess.run(formatted, check=True, timeout=FORMATTING_S, stdout=subprocess.DEVNULL)
        self._command = [*java, "kafka.Kafka", str(config)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it with a new log, and waits until it serves."""
        (self.folder / "broker.log").unlink(missing_ok=True)
        with (self.folder / "out.txt").open("wb") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=subprocess.STDOUT)
        wait_until_started(self._process, self.folder)

    def stand_still(self, seconds: float) -> None:
        """Stops its process for so long; its connections stay."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Stops it, if it runs."""
        if self._process is not None:
            stop(self._process)
            self._process = None


@contextmanager
def broker(folder: Path, settings: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """A broker with these settings, its files in the folder; gives where it listens, and stops it in the end."""
    kafka = Kafka(folder, settings)
    try:
        kafka.start()
        yield "127.0.0.1", kafka.port
    finally:
        kafka.stop()


def jars(release: str) -> Path:
    """The folder with the jars of a release. Raises `NoBrokerError` where they cannot be had."""
    return _fetch(release, POM.format(release=release, tools=UNPUBLISHED.get(release, release)))


def java_client(source: str, *arguments: str) -> list[str]:
    """The command of a program beside this one that uses Kafka's Java client."""
    return java(jars(RELEASE), str(Path(__file__).with_name(source)), *arguments)


def java(libs: Path, *arguments: str) -> list[str]:
    """The command of a small Java program with the jars in a folder."""
    return ["java", "-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", *arguments]


def tools() -> Path:
    """The folder with the jars of Kafka's command line tools. Raises `NoBrokerError` where they cannot be had."""
    return _fetch(f"tools-{TOOLS}", TOOLS_POM.format(release=TOOLS))


def _fetch(name: str, pom: str) -> Path:
    """The jars of a project, fetched through Maven where they are not there yet."""
    libs = CACHE / name / "libs"
    if libs.is_dir():
        return libs
    for program in ("java", "mvn"):
        if not shutil.which(program):
            raise NoBrokerError(f"{program} is needed to run Apache Kafka: install a JRE (17 or later) and Maven")
    work = CACHE / name / "fetching"
    work.mkdir(parents=True, exist_ok=True)
    (work / "pom.xml").write_text(pom)
    fetch = ["mvn", "-q", "-B", f"{PLUGIN}:copy-dependencies", f"-DoutputDirectory={work / 'libs'}"]
    try:
        subprocess.run(fetch, cwd=work, check=True, timeout=FETCHING_S, capture_output=True, text=True)
    except subprocess.CalledProcessError as problem:
        raise NoBrokerError(f"Kafka {name} cannot be fetched: {_reason(problem.stdout)}") from None
    except subprocess.TimeoutExpired:
        raise NoBrokerError(f"Kafka {name} is not there after {FETCHING_S} s") from None
    (work / "libs").rename(libs)
    return libs


def _reason(message: str) -> str:
    """Maven's error, without its advice."""
    errors = (line.partition("[ERROR] ")[2].removesuffix(" -> [Help 1]") for line in message.splitlines())
    return next((error for error in errors if error), "mvn failed and said nothing")


def free_port() -> int:
    """A free port on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_started(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Returns when the broker's log says that it serves."""
    log = folder / "broker.log"
    until = time.monotonic() + STARTING_S
    while time.monotonic() < until:
        if log.exists() and STARTED in log.read_text(errors="replace"):
            return
        assert process.poll() is None, f"the broker ended:\n{(folder / 'out.txt').read_text(errors='replace')[-2000:]}"
        time.sleep(0.2)
    raise AssertionError(f"the broker did not start within {STARTING_S} s; see {log}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends the broker that was started here."""
    process.terminate()
    try:
        process.wait(STOPPING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOPPING_S)


if __name__ == "__main__":
    try:
        jars(RELEASE)
        tools()
    except NoBrokerError as problem:
        sys.exit(f"test-kafka: {problem}")
