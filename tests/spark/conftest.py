"""One Spark session for all tests of the pipeline, and the audits that several of them look at."""

from __future__ import annotations

import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import recordings as recorded
from pyspark.sql import SparkSession

from fsm import cli
from fsm.audit.findings import ID_DIGITS, Finding, FindingKind, with_ids
from fsm.spark.audit import audit_logs
from fsm.spark.options import Options
from fsm.spark.result import MARK
from fsm.spark.session import session

sys.path.extend(str(Path(__file__).parents[1] / folder) for folder in ("audit", "check"))

import faults
from scene import NoPlace, Scene

Told = dict[str, Any]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that `fsm.spark` makes for a small input, on two cores: every audit of these tests finds it.

    All tests that use it are in one group, so that one worker of xdist holds the only one.
    """
    with session("local[2]", scratch=tmp_path_factory.mktemp("scratch")) as made:
        yield made


# fmt: off
SCENARIOS = (
    "i_j04_slow_revoke", "i_j09_kill9", "i_j13_dup_instance", "i_m_range_upgrade_down", "j05_throw_revoke",
    "j07_maxpoll", "j14_regex", "j18_topic_deleted", "j42_close_while_stale", "json_j36_stall_loop", "m_coop_static",
    "r01_java_rdk",
    "s01_share", "spring_j07_maxpoll", "x05_range_fenced_static", "x09_coop_sigstop",
    "c05_kill9", "c06_maxpoll", "c10_sigstop", "c14_regex", "f06_unsupported_assignor", "f08_unreleased_instance",
    "k_p03_aiokafka", "k_x03_range_maxpoll", "x03_range_maxpoll",
)
"""Both clients and protocols, every layout, and every kind of finding that the recordings hold."""
# fmt: on


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded scenarios that these tests read, a folder each, with the members' logs."""
    folder = tmp_path_factory.mktemp("recordings")
    logs = recorded.logs("java") | recorded.logs("librdkafka")
    for scenario in SCENARIOS:
        write(folder / scenario, logs[scenario])
    return folder


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    """A folder of files."""
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)


# -- audits -------------------------------------------------------------------------------------------------


def run(paths: Iterable[Path], out: Path, **options: Any) -> Told:
    """The document of an audit."""
    audit_logs(list(paths), out, Options(**options))
    return document(out)


def document(out: Path) -> Told:
    """The JSON document of a result."""
    found: Told = json.loads((out / MARK).read_text(encoding="utf-8"))
    return found


class Command(NamedTuple):
    """A run of `fsm audit` in which something is found."""

    logs: list[Path]
    out: Path
    said: str
    """What it printed."""


@pytest.fixture(scope="session")
def command(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Five scenarios through the command, findings among them, and one of a client that is hardly understood."""
    chosen = ("c06_maxpoll", "i_j04_slow_revoke", "i_j13_dup_instance", "spring_j07_maxpoll", "s01_share")
    logs = [recordings / name for name in chosen]
    out = tmp_path_factory.mktemp("command") / "out"
    with redirect_stdout(StringIO()) as said:
        assert cli.main(["audit", *map(str, logs), "-o", str(out)]) == 2
    return Command(logs, out, said.getvalue())


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, faults.Fault]]:
    """A folder of scenarios, one for each kind of fault, in a base that has a place for it; what is wrong in each.

    Beside them what collectors do to logs: a rotated file is lost, one is shipped twice, a host has another time zone.
    """
    bases = ("j02_second_joins", "x01_coop_second", "c02_two")  # each client and protocol; the kinds take turns
    logs = recorded.logs("java") | recorded.logs("librdkafka")
    root = tmp_path_factory.mktemp("planted")
    for name, files in _collected(logs["c02_two"], logs["x01_coop_second"]).items():
        write(root / name, files)
    wrong = {}
    for turn, kind in enumerate(faults.KINDS):
        for base in bases[turn % 3 :] + bases[: turn % 3]:
            try:
                case = faults.plant(kind, logs[base], 0)
            except NoPlace:
                continue
            wrong[f"{kind}-{base}"] = case.fault
            write(root / f"{kind}-{base}", case.logs)
            break
    return root, wrong


def _collected(one: dict[str, bytes], other: dict[str, bytes]) -> dict[str, dict[str, bytes]]:
    lines = one["A.log"].splitlines(keepends=True)
    thirds = [b"".join(lines[i * len(lines) // 3 : (i + 1) * len(lines) // 3]) for i in range(3)]
    scene = Scene(other, random.Random(0))  # noqa: S311
    scene.shift("B.log", 0, 3_600_000)
    return {
        "hole": {"A.log.2": thirds[0], "A.log": thirds[2], "B.log": one["B.log"]},
        "copied": {**one, "A-again.log": one["A.log"]},
        "zones": scene.logs(),
    }


@pytest.fixture(scope="session")
def by_cluster(
    recordings: Path, planted: tuple[Path, dict[str, faults.Fault]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Told]]:
    """What one audit of all recordings and all planted faults, each a cluster of its own, finds in each."""
    found: dict[str, list[Told]] = defaultdict(list)
    out = tmp_path_factory.mktemp("by-cluster") / "out"
    for one in without_unparsed(run([recordings, planted[0]], out, by_folder=True)["findings"]):
        found[one["group"].partition(":")[0]].append(one)
    return found


def complaints(stderr: str) -> str:
    """What a command said on stderr, but for how far it is, which slow machines are told."""
    return "".join(line for line in stderr.splitlines(keepends=True) if not line.startswith("fsm audit: "))


def without_unparsed(found: Iterable[Told]) -> list[Told]:
    """The findings that an audit in one process has too: not those about whole files, which name no member."""
    return [one for one in found if one["kind"] != FindingKind.UNPARSED_LINES.value or one["member"]]


def as_told(found: Finding, cluster: str = "") -> Told:
    """A finding of the audit in one process as the document tells it."""
    if cluster:
        (there,) = with_ids([replace(found, group=f"{cluster}:{found.group}")])
        found = replace(there, id=there.id + found.id[ID_DIGITS:])
    return found.to_json()
