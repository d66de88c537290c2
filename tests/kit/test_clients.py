"""Clients of other languages in some scenarios, in real time. What a client needs is got and built, or this fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsm.cli import main
from fsm.kit.client_history import CONSUMER
from tests.kit.clients import BUILT, Client

pytestmark = pytest.mark.clients

CONSUMERS = ("plain", "fenced", "unknown_member", "lost_keepalive", "static")
CLASSICS = ("classic_plain", "classic_rebalance", "classic_restart")
KNOWN = {"franz-go": {"L5"}, "platformatic": {"E5"}}
"""The MUST checks that a client is known to fail."""
SURE = {"J1", "J2", "J3", "J4", "H4", "R1", "R3", "R4", "E1", "E4", "L1", "L2"}
"""Those that every client of consumer groups passes, or does not come to."""
SURE_CLASSIC = {"K1", "K2", "K3", "K5", "K7", "K8", "K10", "K27", "K35"}


@pytest.mark.parametrize("client", BUILT, ids=lambda client: client.name)
def test_a_client(client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It starts, joins, and breaks what it is known to break."""
    names = [*(CONSUMERS if CONSUMER in client.protocols else ()), *CLASSICS]
    chosen = [word for name in names for word in ("--scenario", name)]
    main(["kit", "run", client.prepare(tmp_path), "--json", "--jobs", "3", *chosen])
    document = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in document["scenarios"]] == names
    checks = document["checks"]
    failed = {check for check, verdict in checks.items() if verdict == "failed"}
    assert KNOWN.get(client.name, set()) <= failed
    assert not failed & (SURE | SURE_CLASSIC)
    assert all(checks[check] == "passed" for check in SURE_CLASSIC - {"K10"})
    if CONSUMER in client.protocols:
        assert all(checks[check] == "passed" for check in ("J1", "J4", "H5", "R1", "E1", "E4"))
