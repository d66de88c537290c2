"""Fleets of seeds on Spark."""

from __future__ import annotations

import pytest
from simulate_scene import deployment

from fsm.simulate.fleet import Fleet, run_seeds
from fsm.spark.simulate import run_on_spark


@pytest.mark.spark
def test_spark_adds_up_to_what_a_loop_does() -> None:
    """A seed a row; sums, hazards and failures are the same."""
    given = deployment("consumer", lasts="9m")
    assert run_on_spark(given, 1, 6, "local[2]").as_document() == Fleet.of(run_seeds(given, range(1, 7))).as_document()
