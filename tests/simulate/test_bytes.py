"""The same seed gives the same bytes: on every machine, under every version of Python, from one release to the next.

Whoever changes what a seed draws, or what comes of it, changes these digests; where a deployment that was shrunk before
would now be another run, raise `CHANCE` as well.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from simulate_scene import deployment

from fsm.simulate import Truth, read_file, simulate
from fsm.simulate.deployment import Deployment
from fsm.simulate.machines.deployment import Machines

SIMULATE = Path(__file__).parents[2] / "fsm" / "simulate"
FILES = {"upgrade": SIMULATE / "upgrade.yaml", "crossing": SIMULATE / "tutorial" / "crossing.yaml"}
DIGESTS = {
    "consumer": "1315a55dc5dfb720",
    "static": "77244d8fb344555f",
    "cooperative": "1fc7c3c63a77dca1",
    "mixed": "f67d83db6c8c801f",
    "upgrade": "48757caf43124a78",
    "crossing": "4962f83ac96381ba",
}


def made(name: str) -> Deployment | Machines:
    """A deployment of the tests, or one that comes along, under a release that stays as others come."""
    found = read_file(FILES[name]) if name in FILES else deployment(name)
    if isinstance(found, Machines):
        return found
    services = {name: replace(service, release="4.4.0") for name, service in found.services.items()}
    brokers = {name: replace(broker, release="4.4.0") for name, broker in found.brokers.items()}
    return replace(found, services=services, brokers=brokers)


def digest(name: str) -> str:
    """Of what a run leaves: measures and what was violated, and its trace."""
    truth = Truth()
    outcome = simulate(made(name), 7, truth=truth)
    trace = "".join(record.to_json() for record in truth.records)
    return hashlib.sha256((json.dumps(outcome.as_document()) + trace).encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.deep] if name in ("static", "cooperative", "upgrade", "mixed") else [])
        for name in DIGESTS
    ],
)
def test_a_seed_means_the_same_run_everywhere(name: str) -> None:
    """Kafka's groups of most kinds, and machines of one's own."""
    assert digest(name) == DIGESTS[name]


@pytest.mark.deep
def test_hashes_of_texts_do_not_matter(tmp_path: Path) -> None:
    """Nor does the order of sets: processes with other seeds of hashes tell the same."""
    command = [
        sys.executable,
        "-m",
        "fsm",
        "simulate",
        str(FILES["crossing"]),
        "-o",
        str(tmp_path),
        "--trace",
        "--json",
    ]
    outputs = set()
    for seed in ("0", "1"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(SIMULATE.parents[1])}
        ran = subprocess.run(command, env=environment, capture_output=True, check=False)
        outputs.add(ran.stdout + b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir())))
    assert len(outputs) == 1
