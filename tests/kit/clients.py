"""Clients and the commands of their adapters: those in Python run as they are, others are built first.

Maven, Go and npm get what the adapters need; versions are fixed in `adapters/`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import fsm
from fsm.kit.client_history import CLASSIC, CONSUMER

ADAPTERS = Path(__file__).parent / "adapters"
BOTH = (CONSUMER, CLASSIC)
PATIENCE_S = 600


class Client(NamedTuple):
    """A client and how its adapter is started."""

    name: str
    protocols: tuple[str, ...]
    prepare: Callable[[Path], str]
    """Builds the adapter in a folder; gives its command."""
    title: str = ""
    """What it is, where it does not tell brokers."""


def _python(name: str) -> Callable[[Path], str]:
    return lambda _: f"{sys.executable} {ADAPTERS / name}.py"


def _java(folder: Path) -> str:
    made = _copy("java", folder)
    _run(made, "mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib")
    _run(made, "javac", "-cp", "lib/*", "-d", "classes", "Adapter.java")
    return f"java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp {made}/classes:{made}/lib/* Adapter"


def _go(name: str) -> Callable[[Path], str]:
    def prepare(folder: Path) -> str:
        made = _copy("go", folder)
        _run(made, "go", "build", "-o", "bin/", f"./{name}")
        return f"{made}/bin/{name}"

    return prepare


def _node(name: str) -> Callable[[Path], str]:
    def prepare(folder: Path) -> str:
        made = _copy("node", folder)
        _run(made, "npm", "install", "--no-audit", "--no-fund", "--silent")
        return f"node {made}/{name}.mjs"

    return prepare


def _copy(name: str, folder: Path) -> Path:
    return Path(shutil.copytree(ADAPTERS / name, folder / name, dirs_exist_ok=True))


def _run(folder: Path, *command: str) -> None:
    """Raises `RuntimeError` with the end of what the command printed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {(done.stdout + done.stderr)[-2_000:]}")


PYTHON = (
    Client("librdkafka", BOTH, _python("confluent")),
    Client("kafka-python", (CLASSIC,), _python("kafka_python")),
    Client("aiokafka", (CLASSIC,), _python("aio_kafka"), f"aiokafka {version('aiokafka')}"),
    Client("fsm", BOTH, _python("fsm_member"), f"our own member {fsm.__version__}"),
)
BUILT = (
    Client("java", BOTH, _java),
    Client("franz-go", BOTH, _go("franz")),
    Client("platformatic", BOTH, _node("platformatic")),
    Client("sarama", (CLASSIC,), _go("sarama")),
    Client("kafkajs", (CLASSIC,), _node("kafkajs"), "KafkaJS 2.2.4"),
)
