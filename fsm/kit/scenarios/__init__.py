"""The scenarios through which clients are driven.

* `SCENARIOS`: all of them by name
* `find_scenarios`: those that were asked for
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fsm.errors import InputError
from fsm.kit.scenario import Scenario
from fsm.kit.scenarios.classic import CLASSIC_SCENARIOS
from fsm.kit.scenarios.consumer import CONSUMER_SCENARIOS
from fsm.nodes import nearest, short

SCENARIOS: Mapping[str, Scenario] = {one.name: one for one in (*CONSUMER_SCENARIOS, *CLASSIC_SCENARIOS)}
"""All scenarios by name."""


def find_scenarios(names: Sequence[str], protocol: str = "") -> list[Scenario]:
    """The scenarios of these names, or all; only those of a protocol, if one is given.

    Raises `InputError` with the nearest name for an unknown one.
    """
    for name in names:
        if name not in SCENARIOS:
            raise InputError(f"no scenario {short(name)}", "--scenario", nearest(name, list(SCENARIOS)))
    chosen = names or list(SCENARIOS)
    return [SCENARIOS[name] for name in chosen if protocol in ("", SCENARIOS[name].protocol)]


__all__ = ["SCENARIOS", "find_scenarios"]
