"""Where the recorded logs are, packed or not, and how to lay them out for an audit.

A set of recordings is a folder, or a `.tar.xz` archive, of scenarios: a folder each, with `<member>.log` files and
`truth.jsonl`. Verdicts are JSON files (`*findings.json`) inside the set or beside it.
"""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

DATA = Path(__file__).parent / "data"
BROKER = "broker.log"
"""The coordinator's side."""


def unpacked(data: Path, work: Path) -> list[Path]:
    """The folders below which scenarios lie; archives are unpacked below `work`."""
    if data.is_file():
        return [_unpack(data, work)]
    archives = sorted(data.glob("*.tar.xz"))
    return [data, *(_unpack(archive, work) for archive in archives)] if archives else [data]


def opened(archive: Path) -> tarfile.TarFile:
    """An archive to unpack. What leads out of the folder is refused by every Python that can (3.11.4, PEP 706).

    It is decompressed at once: who looks into it in another order than it was written in would do so for each file.
    """
    packed = tarfile.open(fileobj=io.BytesIO(lzma.decompress(archive.read_bytes())))  # noqa: SIM115  the caller closes it
    packed.extraction_filter = getattr(tarfile, "data_filter", None)
    return packed


def _unpack(archive: Path, work: Path) -> Path:
    target = work / archive.name.removesuffix(".tar.xz")
    if not target.exists():
        with opened(archive) as packed:
            packed.extractall(target)  # noqa: S202  our own archives
    return target


@cache
def logs(archive: str) -> dict[str, dict[str, bytes]]:
    """The members' logs of every scenario in an archive of `DATA`, without those of brokers."""
    found: dict[str, dict[str, bytes]] = {}
    with opened(DATA / f"{archive}-logs.tar.xz") as packed:
        for item in packed:
            path = PurePosixPath(item.name)
            if path.suffix == ".log" and path.name != BROKER and (read := packed.extractfile(item)):
                found.setdefault(path.parent.name, {})[path.name] = read.read()
    return found


@dataclass(frozen=True, slots=True)
class Scenario:
    """One recorded scenario."""

    folder: Path
    name: str
    """Its set and its own name: two sets may have scenarios of one name."""

    @property
    def logs(self) -> list[Path]:
        """The logs of the members."""
        return sorted(p for p in self.folder.iterdir() if p.suffix == ".log" and p.name != BROKER)

    @property
    def broker(self) -> Path | None:
        """The coordinator's side, beside the members' logs or in a set of its own; None where there is none."""
        name = self.folder.name
        found = (self.folder / BROKER, self.folder.parent.parent / "broker-logs" / name / BROKER)
        return next((path for path in found if path.exists()), None)

    @property
    def start_s(self) -> float:
        """When it began, in epoch seconds."""
        with (self.folder / "truth.jsonl").open(encoding="utf-8") as truth:
            first = json.loads(truth.readline())
        return float(first["ts"] if "ts" in first else first["t"])


def scenarios(roots: Iterable[Path]) -> Iterator[Scenario]:
    """Every folder that says what really happened, by path."""
    for root in roots:
        for truth in sorted(root.rglob("truth.jsonl")):
            yield Scenario(truth.parent, f"{root.name.removesuffix('-logs')}.{truth.parent.name}")


def verdict_files(roots: Iterable[Path]) -> list[Path]:
    """Every file of verdicts, by path."""
    return sorted(found for root in roots for found in root.rglob("*findings.json"))


def lay_out(chosen: Iterable[Scenario], target: Path, *, brokers: bool = False) -> None:
    """The members' logs of each scenario in a folder of the scenario's name, as links; with the broker's if wanted."""
    for scenario in chosen:
        folder = target / scenario.name
        folder.mkdir(parents=True)
        for log in [*scenario.logs, *filter(None, [scenario.broker if brokers else None])]:
            (folder / log.name).symlink_to(log.resolve())
