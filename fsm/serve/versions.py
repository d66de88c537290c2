"""The versions of each API that brokers of a release advertise, as far as they differ from what is known here.

Source: `ApiKeys.apisForListener(BROKER)` of kafka-clients 4.0.0, 4.0.1, 4.1.0, 4.1.1, 4.2.0, 4.3.0, 4.3.1 and 4.4.0,
without versions that are not stable.
"""

from __future__ import annotations

from collections.abc import Mapping

from fsm.protocol.messages import APIS
from fsm.protocol.releases import RELEASES

NEWEST: Mapping[str, Mapping[str, int]] = {
    "ApiVersions": {"4.0.0": 4, "4.4.0": 5},
    "DeleteGroups": {"4.0.0": 2, "4.4.0": 3},
    "Fetch": {"4.0.0": 17, "4.1.0": 18},
    "InitProducerId": {"4.0.0": 5},
    "ListConfigResources": {"4.0.0": 0, "4.1.0": 1},
    "ListOffsets": {"4.0.0": 10, "4.2.0": 11},
    "OffsetCommit": {"4.0.0": 9, "4.2.0": 10},
    "OffsetFetch": {"4.0.0": 9, "4.2.0": 10},
    "Produce": {"4.0.0": 12, "4.1.0": 13},
}
"""The newest version, from a release on."""
OLDEST: Mapping[str, Mapping[str, int]] = {"JoinGroup": {"4.0.0": 2, "4.0.1": 0}, "Produce": {"4.0.0": 0}}
"""The oldest one. Versions 0 to 2 of Produce are advertised, as brokers of 4.4.0 do, and not spoken."""
NOT_SPOKEN = frozenset({"TxnOffsetCommit", "AddOffsetsToTxn", "EndTxn"})
"""Requests of transactions, which are known to the codec and not to these brokers."""


def list_versions(release: str) -> dict[int, tuple[int, int]]:
    """The oldest and the newest version of each API by its key; a release that is not known is the latest."""
    till = RELEASES[: RELEASES.index(release) + 1] if release in RELEASES else RELEASES

    def pick(since: Mapping[str, int], otherwise: int) -> int:
        return next((since[one] for one in reversed(till) if one in since), otherwise)

    return {
        api.key: (pick(OLDEST.get(name, {}), api.oldest), pick(NEWEST.get(name, {}), api.newest))
        for name, api in sorted(APIS.items())
        if name not in NOT_SPOKEN
    }
