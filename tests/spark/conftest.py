"""One Spark session for all tests of the pipeline, recordings of real clients, and what both audits say in one form."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from fsm.audit.findings import Finding, FindingKind
from fsm.spark.audit import MARK, audit
from fsm.spark.options import Options
from fsm.spark.session import session

DATA = Path(__file__).parent.parent / "data"
Told = dict[str, Any]


@pytest.fixture(scope="session", autouse=True)
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that `fsm.spark` makes for a small input, on two cores: every audit of these tests finds it."""
    with session("local[2]", scratch=tmp_path_factory.mktemp("scratch")) as made:
        yield made


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded scenarios that these tests read, a folder each, with the members' logs."""
    folder = tmp_path_factory.mktemp("recordings")
    for archive in ("java-logs.tar.xz", "librdkafka-logs.tar.xz"):
        with tarfile.open(DATA / archive) as packed:
            for item in packed:
                scenario, _, name = item.name.partition("/")
                if scenario in SCENARIOS and name.endswith(".log") and name != "broker.log":
                    packed.extract(item, folder, filter="data")
    return folder


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


def run(paths: Iterable[Path], out: Path, **options: Any) -> dict[str, Any]:
    """The document of an audit."""
    audit(list(paths), out, Options(**options))
    return document(out)


def document(out: Path) -> dict[str, Any]:
    """The JSON document of a result."""
    found: dict[str, Any] = json.loads((out / MARK).read_text(encoding="utf-8"))
    return found


def without_unparsed(found: Iterable[Told]) -> list[Told]:
    """The findings that an audit in one process has too: not those about whole files, which name no member."""
    return [one for one in found if one["kind"] != FindingKind.UNPARSED_LINES.value or one["member"]]


def as_told(found: Finding, cluster: str = "") -> Told:
    """A finding of the audit in one process as the document tells it."""
    told = found.to_json()
    return told | {"group": f"{cluster}:{found.group}"} if cluster else told
