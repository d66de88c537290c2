"""Fleets of seeds on Spark: groups of Kafka, and machines of one's own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fsm.simulate import Deployment, read_file
from fsm.simulate.fleet import Fleet, run_seeds
from fsm.simulate.machines.deployment import Machines
from fsm.spark.simulate import run_on_spark

sys.path.append(str(Path(__file__).parents[1] / "simulate"))

from simulate_scene import deployment

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]
SIMULATE = Path(__file__).parents[2] / "fsm" / "simulate"


@pytest.mark.deep
@pytest.mark.parametrize(
    "given",
    [deployment("consumer", lasts="9m"), read_file(SIMULATE / "tutorial" / "crossing.yaml")],
    ids=lambda one: one.name,
)
def test_spark_adds_up_to_what_a_loop_does(given: Deployment | Machines) -> None:
    """A seed a row; sums, hazards and failures are the same."""
    assert run_on_spark(given, 1, 3, "local[2]").as_document() == Fleet.of(run_seeds(given, range(1, 4))).as_document()
