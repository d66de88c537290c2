"""What there is to read: paths in, pieces of files out, packed for the cores. What cannot be read is said."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fsm.errors import InputError
from fsm.logs.pieces import WHOLE, Piece, Unreadable, cut

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPLIT_BYTES = 64 << 20
"""Largest piece of a plain file that one task reads at once."""
BINS_A_CORE = 4
GZIP_FACTOR = 8
"""How much a compressed log is expected to grow; only for spreading the work."""
_SNIFF = 4096


@dataclass(frozen=True, slots=True)
class Source:
    """One file to audit."""

    path: Path
    cluster: str
    """Name of the folder it came from when folders are clusters of their own; empty otherwise."""
    size: int


@dataclass(frozen=True, slots=True)
class Inputs:
    """Files to read and files that cannot be read, each in the order of their paths."""

    sources: tuple[Source, ...]
    unreadable: tuple[Unreadable, ...]

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(s.size for s in self.sources)


def find(paths: Sequence[Path], *, by_folder: bool = False) -> Inputs:
    """Every file below the paths.

    Raises `InputError` for a path that does not exist and when there is no file at all.
    """
    sources: dict[Path, Source] = {}
    unreadable: list[Unreadable] = []
    for root in paths:
        if not root.exists():
            raise InputError("no such file or folder", str(root))
        for path in _files(root):
            try:
                reason = _refused(path)
                size = path.stat().st_size
            except OSError as problem:
                reason, size = f"cannot be opened: {problem.strerror}", 0
            if reason:
                unreadable.append(Unreadable(str(path), reason))
            else:
                sources.setdefault(path, Source(path, _cluster(root, path) if by_folder else "", size))
    if not sources:
        what = unreadable[0] if unreadable else None
        where = what.file if what else ", ".join(map(str, paths))
        raise InputError(
            what.reason if what else "no file to read", where, "give log files or a folder that holds some"
        )
    return Inputs(tuple(sources[p] for p in sorted(sources)), tuple(sorted(unreadable)))


def _files(root: Path) -> Iterator[Path]:
    if not root.is_dir():
        yield root
        return
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            yield Path(folder) / name


def _refused(path: Path) -> str:
    """Why the file is no log, judged by its first bytes; empty where it may be one."""
    if not path.is_file():
        return "not a regular file"
    with path.open("rb") as handle:
        start = handle.read(_SNIFF)
    if start.startswith(b"\x1f\x8b"):
        return ""
    return "binary file" if b"\0" in start else ""


def _cluster(root: Path, path: Path) -> str:
    """Name of the folder directly under the given one; a file given by itself belongs to its own folder."""
    if not root.is_dir():
        return path.parent.name
    below = path.relative_to(root).parts
    return below[0] if len(below) > 1 else root.name


def pieces(inputs: Inputs, split_bytes: int) -> list[tuple[Piece, str]]:
    """The pieces of every source with its cluster."""
    return [(piece, s.cluster) for s in inputs.sources for piece in cut(s.path, split_bytes)]


def pack(found: Iterable[tuple[Piece, str]], sizes: dict[str, int], bins: int) -> list[tuple[int, Piece, str]]:
    """Each piece with the number of its bin; the largest go first into the emptiest bin."""
    loads = [0] * bins
    packed = []
    for piece, cluster in sorted(found, key=lambda f: (-_weight(f[0], sizes), f[0])):
        emptiest = loads.index(min(loads))
        loads[emptiest] += _weight(piece, sizes) + 1
        packed.append((emptiest, piece, cluster))
    return sorted(packed)


def _weight(piece: Piece, sizes: dict[str, int]) -> int:
    return sizes[piece.file] * GZIP_FACTOR if piece.end == WHOLE else piece.end - piece.start


def frame(spark: SparkSession, inputs: Inputs, split_bytes: int) -> DataFrame:
    """A row for each piece, one partition a bin: the input of `parse.parser`."""
    found = pieces(inputs, split_bytes)
    bins = max(1, min(len(found), BINS_A_CORE * spark.sparkContext.defaultParallelism))
    sizes = {str(s.path): s.size for s in inputs.sources}
    rows = [(n, p.file, p.start, p.end, p.gzipped, c) for n, p, c in pack(found, sizes, bins)]
    schema = "bin int, file string, start long, end long, gzipped boolean, cluster string"
    return spark.createDataFrame(rows, schema).repartitionByRange(bins, "bin")
