"""The table of rules and clients in `tests/README.md`: runs every client in every scenario and writes it anew.

`python -m tests.kit.table --broker HOST:PORT` takes two hours of waiting; with folders of traces that were kept
(`fsm kit run --keep`) it only judges: `python -m tests.kit.table NAME=FOLDER... --on-kafka NAME=FOLDER...`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fsm.kit import documents
from fsm.kit.checks import CHECKS
from fsm.kit.judge import judge, merge, verdicts
from fsm.kit.processes import Result
from fsm.kit.scenarios import SCENARIOS
from fsm.wire import read_lines
from tests.kit.clients import BUILT, PYTHON

README = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- clients: begin -->", "<!-- clients: end -->"
MARKS = {"passed": "+", "failed": "FAIL", "not seen": ""}
REMARKS = {
    (
        "E2",
        "librdkafka",
    ): "after a heartbeat that timed out it sends a keepalive, and never learns what it has to revoke",
    ("H3", "librdkafka"): "while it closes it sends no heartbeats, however long its revoked callback takes",
    ("E5", "platformatic"): "it keeps sending its old epoch",
    ("L5", "franz-go"): "the temporary leave of a static member has no instance id and is refused",
}
"""What it means that these fail."""


class Judged(NamedTuple):
    """What came of one client."""

    title: str
    scenarios: int
    verdicts: Mapping[str, str]


def judge_folder(folder: Path, title: str) -> Judged:
    """What the traces of a client say."""
    results = []
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            trace = list(read_lines(lines, str(path)))
        results.append(Result(SCENARIOS[path.stem], judge(trace), trace))
    checks = verdicts(merge(result.report for result in results))
    return Judged(documents.software(results, title), len(results), checks)


def table(clients: Mapping[str, Judged], on_kafka: Mapping[str, Judged]) -> str:
    """The clients with their versions, and each rule with what came of it; `on_kafka` is what a real one showed."""
    lines = []
    for name, judged in clients.items():
        real = f", {on_kafka[name].scenarios} of them on Apache Kafka too" if name in on_kafka else ""
        lines.append(f"* {name}: {judged.title}, {judged.scenarios} scenarios{real}")
    lines += ["", f"| rule | | {' | '.join(clients)} |", f"|---|---|{'---|' * len(clients)}"]
    for check in CHECKS.values():
        cells = [_cell(check.id, judged, on_kafka.get(name)) for name, judged in clients.items()]
        lines.append(f"| {check.id} {check.rule} | {check.grade.value} | {' | '.join(cells)} |")
    lines += ["", *(f"* {check}, {name}: {what}." for (check, name), what in REMARKS.items())]
    return "\n".join(lines)


def _cell(check: str, judged: Judged, real: Judged | None) -> str:
    """What came of it on our brokers, marked where the real ones showed the same; else both."""
    mark, seen = MARKS[judged.verdicts[check]], MARKS[real.verdicts[check]] if real else ""
    if not seen:
        return mark
    return f"{seen} [K]" if mark in ("", seen) else f"{mark}, {seen} [K]"


def rewrite(text: str, made: str) -> str:
    """The page with this table."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{made}\n{END}{tail}"


def run_clients(folder: Path, *broker: str) -> dict[str, Path]:
    """Keeps the traces of all clients in all scenarios, or in those that this broker allows."""
    kept = {client.name: folder / "kept" / client.name for client in (*PYTHON, *BUILT)}
    for client in (*PYTHON, *BUILT):
        command = [sys.executable, "-m", "fsm", "kit", "run", client.prepare(folder), "--keep", str(kept[client.name])]
        protocol = ["--protocol", client.protocols[0]] if len(client.protocols) == 1 else []
        subprocess.run([*command, *protocol, *broker], stdout=subprocess.DEVNULL, check=False)
    return kept


def main() -> None:
    """Writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=_folder, metavar="NAME=FOLDER")
    parser.add_argument("--on-kafka", nargs="*", type=_folder, default=[], metavar="NAME=FOLDER")
    parser.add_argument("--broker", metavar="HOST:PORT")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
        folders, real = dict(args.folders), dict(args.on_kafka)
        if not folders:
            folders = run_clients(Path(ours))
        if args.broker:
            real = run_clients(Path(theirs), "--broker", args.broker)
        made = table(_judge(folders), _judge(real))
    README.write_text(rewrite(README.read_text(encoding="utf-8"), made), encoding="utf-8")


def _folder(argument: str) -> tuple[str, Path]:
    name, _, path = argument.partition("=")
    return name, Path(path)


def _judge(folders: Mapping[str, Path]) -> dict[str, Judged]:
    titles = {client.name: client.title for client in (*PYTHON, *BUILT)}
    return {name: judge_folder(folder, titles[name]) for name, folder in folders.items()}


if __name__ == "__main__":
    main()
