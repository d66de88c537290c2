"""From paths to pieces of files, packed into bins for tasks; and the files that cannot be read."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple, TypeVar

from fsm.errors import InputError
from fsm.logs import Format, formats
from fsm.logs.layouts.pattern import in_layout
from fsm.logs.reading.opening import is_archive, is_packed
from fsm.logs.reading.pieces import WHOLE, Piece, Unreadable, cut
from fsm.logs.reading.segments import begins_segment
from fsm.spark.options import Options
from fsm.spark.result import UNFINISHED

BINS_A_CORE = 4
GZIP_FACTOR = 8
"""Assumed ratio of compressed logs, for balancing only."""
BIN_BYTES = 2 << 20
"""Smallest bin for a task of its own."""
PIECE_BYTES = 8 << 20
"""Smallest size at which files are cut, because some context is read twice at the ends of a piece."""
STDIN = "-"
"""The path for stdin."""
_COPIED_AT_ONCE = 1 << 20
SNIFF = 4096
"""How many bytes at the beginning of a file decide whether it is read."""
_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\v\f\r\x1b"})
"""Control bytes that are rare in logs; escape is not, because it begins colours."""
_RESULT = ("audit.json", "report.html", "findings.parquet")
"""Files that every result of an audit has."""
FOLLOWED = Path("checkpoint") / "follow.json"
"""The file that every result of a followed audit has."""
_Identity = tuple[int, int]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Source:
    path: Path
    """Absolute, because a task may run in another folder."""
    name: str
    """As given by the user and shown in findings."""
    cluster: str
    """Name of its folder if folders are clusters; else empty."""
    size: int
    archive: bool = False
    """Its members are the logs."""


class Job(NamedTuple):
    piece: Piece
    name: str
    """Of its file, as in findings."""
    cluster: str
    weight: int
    """Estimated bytes to read."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Files to read, and files that cannot be read, each sorted by path."""

    sources: tuple[Source, ...]
    unreadable: tuple[Unreadable, ...]
    results: tuple[str, ...] = ()
    """Results of earlier audits, which are skipped."""

    @property
    def size(self) -> int:
        return sum(s.size for s in self.sources)

    @property
    def first(self) -> str:
        return self.sources[0].name


def find(
    paths: Sequence[Path], *, by_folder: bool = False, leave_out: Path | None = None, archives: bool = False
) -> Inputs:
    """Every file below the paths, except results of audits and the folder `leave_out`. A file with several names once.
    If `archives` is set, archives are marked.

    Raises `InputError` for a path that does not exist or is `leave_out`, and if there is no file at all.
    """
    for path in paths:
        if leave_out and leave_out.is_dir() and path.exists() and path.samefile(leave_out):
            raise InputError("is the folder of the result (-o) too, which is not read", show(path), "give -o another")
    sources, unreadable, results = look(paths, by_folder=by_folder, leave_out=leave_out, archives=archives)
    return make_inputs(sources, unreadable.values(), results, ", ".join(map(show, paths)))


def make_inputs(
    sources: Iterable[Source], unreadable: Iterable[Unreadable], results: Iterable[str], place: str
) -> Inputs:
    """The inputs that were found at a place. Raises `InputError` if there is no file, or only empty ones."""
    inputs = Inputs(
        tuple(sorted(sources, key=lambda s: s.path)), tuple(sorted(unreadable)), tuple(sorted(set(results)))
    )
    if inputs.size:
        return inputs
    if inputs.sources:
        nothing = Unreadable(inputs.first, "is empty")
    else:
        nothing = Unreadable(place, "nothing but the result of an audit" if inputs.results else "no file to read")
    refused = next(iter(inputs.unreadable), nothing)
    raise InputError(refused.reason, refused.file, "give log files or a folder that holds some")


def look(
    paths: Sequence[Path], *, by_folder: bool = False, leave_out: Path | None = None, archives: bool = False
) -> tuple[list[Source], dict[str, Unreadable], list[str]]:
    """(files, unreadable files, results of audits) below the paths, as in `find`, but all may be empty."""
    sources: list[Source] = []
    unreadable: dict[str, Unreadable] = {}
    results: list[str] = []
    known: set[_Identity] = set()
    for root in paths:
        if not root.exists():
            raise InputError("no such file or folder", show(root), "name log files, or folders that hold some")
        for path in _files(root, leave_out, unreadable, results):
            try:
                status = path.stat()
                if _identity(status) in known:
                    continue
                reason, start = _explain_refusal(path, status)
                archive = archives and not reason and _may_be_archive(start) and is_archive(str(path))
            except OSError as problem:
                _refuse(unreadable, path, f"cannot be read: {problem.strerror or problem}")
                continue
            known.add(_identity(status))
            if reason:
                _refuse(unreadable, path, reason)
            else:
                cluster = _cluster(root, path, folder=archive) if by_folder else ""
                sources.append(Source(path.absolute(), str(path), cluster, status.st_size, archive))
    return sources, unreadable, results


def add_stdin(inputs: Inputs | None, copy: Path, name: str) -> Inputs:
    """Copies stdin to a file and adds it to the inputs; findings show it as `name`.

    Raises `InputError` if stdin is empty or no log.
    """
    with copy.open("wb") as out:
        if sys.stdin is not None:  # it may be closed
            shutil.copyfileobj(sys.stdin.buffer, out, _COPIED_AT_ONCE)
    status = copy.stat()
    reason, start = _explain_refusal(copy, status) if status.st_size else ("is empty", b"")
    if reason:
        raise InputError(reason, "stdin", "pipe a log into the command, or give its file")
    archive = _may_be_archive(start) and is_archive(str(copy))
    source = Source(copy.absolute(), name, "", status.st_size, archive)
    return replace(inputs, sources=(*inputs.sources, source)) if inputs else Inputs((source,), ())


def _refuse(unreadable: dict[str, Unreadable], path: Path, reason: str) -> None:
    unreadable[str(path)] = Unreadable(show(path), reason)


def show(path: Path) -> str:
    """The path as valid UTF-8, whatever bytes its name has."""
    return str(path).encode("utf-8", "replace").decode()


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino


def _files(root: Path, leave_out: Path | None, unreadable: dict[str, Unreadable], results: list[str]) -> Iterator[Path]:
    """The files below a folder in a fixed order. Symlinks are followed, each folder is entered once.

    Results of audits, also unfinished ones, are not entered, but added to `results`.
    """
    if not root.is_dir():
        yield root
        return

    def refuse(problem: OSError) -> None:
        _refuse(unreadable, Path(problem.filename), f"cannot be read: {problem.strerror}")

    entered = {_identity(leave_out.stat())} if leave_out and leave_out.exists() else set()
    for folder, folders, names in os.walk(root, followlinks=True, onerror=refuse):
        identity = _identity(Path(folder).stat())
        if identity in entered:
            folders.clear()
            continue
        entered.add(identity)
        is_result = {*folders, *names}.issuperset(_RESULT) or (Path(folder) / FOLLOWED).exists()
        if is_result or UNFINISHED in Path(folder).name:
            results.append(show(Path(folder)))
            folders.clear()
            continue
        folders.sort()
        for name in sorted(names):
            if UNFINISHED not in name:
                yield Path(folder) / name


def _explain_refusal(path: Path, status: os.stat_result) -> tuple[str, bytes]:
    """(why the file is no log, by its type, name and first bytes; empty if it may be one; these bytes)."""
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file", b""
    if show(path) != str(path):
        return "its name is not in UTF-8", b""
    with path.open("rb") as handle:
        start = handle.read(SNIFF)
    return "binary file" if is_binary(start) else "", start


def _may_be_archive(start: bytes) -> bool:
    """Whether it pays to look into a file with these first bytes; an empty tar is all NUL bytes."""
    return is_packed(start) or not start.strip(b"\0")


def is_binary(start: bytes) -> bool:
    """Whether a file with these first bytes, at most `SNIFF`, is neither a text nor a packed one."""
    if is_packed(start) or begins_segment(start):
        return False
    # Logs that were rotated by truncation begin with NUL bytes, so NUL bytes are ignored.
    text = start.replace(b"\0", b"")
    return len(text.translate(None, _CONTROLS)) < 0.95 * len(text)


def _cluster(root: Path, path: Path, *, folder: bool) -> str:
    """Name of the folder directly below the given one; for a file given by itself, that of its own folder. An archive
    is a folder; for one given by itself the name is empty, because the clusters are the folders in it."""
    if not root.is_dir():
        return "" if folder else path.parent.name
    below = path.relative_to(root).parts
    return below[0] if folder or len(below) > 1 else root.name


def list_formats(options: Options) -> Sequence[Format]:
    chosen = [one for one in formats() if options.format in ("auto", one.name)]
    return in_layout(chosen, options.layout) if options.layout else chosen


def pack_bins(inputs: Inputs, split_bytes: int, cores: int, expected: Sequence[Format] = ()) -> list[list[Job]]:
    """The pieces of every source, packed into bins for tasks: the largest first, each into the emptiest bin.

    No piece is larger than `split_bytes`, or so large that the other cores would wait for it at the end. The expected
    formats decide which files cannot be cut; empty means all formats. A missing file is reported by its task.
    """
    most = min(split_bytes, max(PIECE_BYTES, inputs.size // (BINS_A_CORE * cores)))
    pieces = ((source, piece) for source in inputs.sources for piece in _cut(source, most, expected))
    jobs = [Job(piece, s.name, s.cluster, _weight(piece, s.size)) for s, piece in pieces]
    wanted = 1 + sum(job.weight for job in jobs) // BIN_BYTES
    largest_first = sorted(jobs, key=lambda job: (-job.weight, job.piece))
    packed = deal(largest_first, min(len(jobs), wanted, BINS_A_CORE * cores), lambda job: job.weight + 1)
    return [sorted(own) for own in packed]


def deal(items: Iterable[_T], bins: int, weight_of: Callable[[_T], int]) -> list[list[_T]]:
    """The items in so many bins: one after the other, each in the emptiest."""
    loads = [(0, number) for number in range(bins)]
    dealt: list[list[_T]] = [[] for _ in loads]
    for item in items:
        load, emptiest = heappop(loads)
        dealt[emptiest].append(item)
        heappush(loads, (load + weight_of(item), emptiest))
    return dealt


def _cut(source: Source, most: int, expected: Sequence[Format]) -> list[Piece]:
    try:
        return list(cut(source.path, most, expected, size=source.size))
    except OSError:
        return [Piece(str(source.path), 0, WHOLE)]


def _weight(piece: Piece, size: int) -> int:
    return size * GZIP_FACTOR if piece.gzipped else min(piece.end - piece.start, size)
