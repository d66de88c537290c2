"""The folder of a Kubernetes node, as README shows it being audited."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import recordings

from fsm import cli

ROOT = Path(__file__).parents[2]
STAMP = re.compile(rb"\[(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d),(\d{3})\]")


def in_pods(logs: dict[str, bytes], pods: Path) -> None:
    """Each member's log as the runtime of a node keeps it: every line with a time and its stream before it."""
    for name, data in logs.items():
        folder = pods / f"shop_orders-{Path(name).stem.lower()}_0c9e" / "app"
        folder.mkdir(parents=True)
        time, out = b"2026-11-21T07:54:00.000", []
        for line in data.splitlines():
            told = STAMP.match(line)
            time = b"T".join(told.groups()[:2]) + b"." + told[3] if told else time
            out.append(time + b"000000Z stdout F " + line + b"\n")
        (folder / "0.log").write_bytes(b"".join(out))


def test_the_pods_of_a_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """README shows what the command prints: the layout is learned, and the findings are those of plain logs."""
    pods = tmp_path / "var" / "log" / "pods"
    in_pods(recordings.logs("java")["j07_maxpoll"], pods)
    assert cli.main(["audit", str(pods), "-o", str(tmp_path / "out"), "--master", "none"]) == 1
    said = capsys.readouterr().out.replace(f"{tmp_path}/out", "out").replace(str(tmp_path), "")
    shown = (ROOT / "README.md").read_text(encoding="utf-8")
    block = shown.split("$ fsm audit /var/log/pods -o out --master none\n")[1].split("```")[0]
    assert said == block
