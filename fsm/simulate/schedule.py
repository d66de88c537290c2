"""The schedule of a deployment: its plans, and its random faults as a seed draws them.

Each draw depends on the seed and its purpose, so that removing a fault changes no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log

import xxhash

from fsm.errors import InputError
from fsm.simulate.deployment import MOST_DEEDS, Deed, Deployment, Rate
from fsm.simulate.machines.deployment import Machines


def draw(seed: int, *what: object) -> float:
    """A uniform random number in [0, 1) for this purpose."""
    return xxhash.xxh3_64_intdigest(" ".join(map(str, what)).encode(), seed) / (1 << 64)


def expand(deployment: Deployment | Machines, seed: int) -> tuple[Deed, ...]:
    """All deeds by time. Raises `InputError` if there are too many."""
    deeds = list(deployment.deeds)
    for i, rate in enumerate(deployment.rates):
        for deed in _draw(rate, i, deployment, seed):
            deeds.append(deed)
            if len(deeds) > MOST_DEEDS:
                raise InputError(f"more than {MOST_DEEDS} faults", "every", "make them rarer")
    return tuple(sorted(deeds, key=lambda deed: (deed.at_ms, deed.what, deed.target)))


def _draw(rate: Rate, number: int, deployment: Deployment | Machines, seed: int) -> Iterator[Deed]:
    targets = deployment.list_targets(rate)
    at_ms, n = float(rate.from_ms), 0
    while True:
        at_ms += -rate.every_ms * log(1 - draw(seed, number, n, "when"))
        if at_ms >= min(rate.until_ms, deployment.lasts_ms):
            return
        target = targets[int(draw(seed, number, n, "whom") * len(targets))]
        shortest, longest = rate.for_ms
        length = shortest + int((longest - shortest + 1) * draw(seed, number, n, "how long"))
        yield Deed(int(at_ms), rate.what, target, length, rate.amount)
        n += 1
