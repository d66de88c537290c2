"""Unpacks the archives among the inputs into a private folder, in which their members are found as in any folder.

Only regular files are written, each below the folder of its archive. Names are those in the archive, behind
`ARCHIVE!/`.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fsm.errors import InputError
from fsm.logs.reading.archives import Member, read_members
from fsm.logs.reading.opening import READ_ERRORS, describe_problem
from fsm.logs.reading.pieces import Unreadable
from fsm.render.wording import many
from fsm.spark.sources import SNIFF, Inputs, Source, is_binary, look, make_inputs, show

MOST_FILES = 500_000
"""Most files and folders of archives."""
_DEEPEST = 100
"""Most folders around a file."""
_LATEST_S = 1 << 33
_CHUNK = 1 << 16
_OF_NAME = {
    errno.ENAMETOOLONG: "its name is too long",
    errno.ENOTDIR: "its folder is a file of the archive, too",
    errno.EEXIST: "its folder is a file of the archive, too",
    errno.EISDIR: "it is a folder of the archive, too",
}
"""Errors of names of which there can be no file."""


def unpack(inputs: Inputs, folder: Path, *, by_folder: bool) -> Inputs:
    """The inputs with the members of archives, written below `folder`, instead of the archives.

    Raises `InputError` if there is nothing to read, or if the members take too much space.
    """
    archives = [source for source in inputs.sources if source.archive]
    if not archives:
        return inputs
    folder.mkdir()
    space = _Space(shutil.disk_usage(folder).free // 2, MOST_FILES)
    sources = [source for source in inputs.sources if not source.archive]
    unreadable, results = [*inputs.unreadable], [*inputs.results]
    for number, archive in enumerate(archives):
        root = folder / str(number) / archive.path.name
        root.mkdir(parents=True)
        unreadable += _unpack_archive(archive, root, space)
        members, refused, older = look([root], by_folder=by_folder and not archive.cluster)

        def rename(path: str, before: str = show(root), now: str = f"{archive.name}!") -> str:
            return now + path.removeprefix(before)

        sources += (
            replace(one, name=rename(one.name), cluster=archive.cluster or one.cluster, archive=False)
            for one in members
        )
        unreadable += (one._replace(file=rename(one.file)) for one in refused.values())
        results += map(rename, older)
    return make_inputs(sources, unreadable, results, ", ".join(archive.name for archive in archives))


class _Space:
    """The space that is left for members."""

    def __init__(self, size: int, files: int) -> None:
        self.size = size
        self.files = files

    def take(self, archive: str, *, size: int = 0, files: int = 0) -> None:
        """Raises `InputError` if nothing is left."""
        self.size -= size
        self.files -= files
        if self.size < 0:
            problem = "its files take more than half of the free space beside the result"
        elif self.files < 0:
            problem = f"it holds more than {MOST_FILES} files and folders"
        else:
            return
        raise InputError(problem, archive, "unpack what is needed of it, and give that")


def _unpack_archive(archive: Source, root: Path, space: _Space) -> Iterator[Unreadable]:
    """Writes the members that may be logs; returns the others, one for each reason, and what is damaged."""
    refused: dict[str, tuple[str, int]] = {}
    folders: set[Path] = set()
    members, begun = read_members(str(archive.path)), False
    while (member := _read_next(members)) is not None:
        if isinstance(member, Exception):
            yield Unreadable(archive.name, describe_problem(member), begun, packed=not begun)
            break
        begun = True
        if member.other_name and _is_written(root, member.other_name):
            continue
        parts = _split(member.name)
        name = f"{archive.name}!/{show(Path(*parts)) if parts else ''}"
        reason = member.refusal or _explain_name(parts)
        if not reason:
            path = root.joinpath(*parts)
            space.take(archive.name, files=1 if path.parent in folders else len(parts))
            folders.add(path.parent)
            reason = _write(member, path, archive.name, space)
        if reason:
            first, count = refused.get(reason, (name, 0))
            refused[reason] = first, count + 1
        elif member.content.problem is not None:
            yield Unreadable(name, describe_problem(member.content.problem), begun=True)
    else:
        if not begun:
            yield Unreadable(archive.name, "an archive without files")
    for reason, (name, count) in refused.items():
        others = f"; {many(count - 1, 'other')} in the archive as well" if count > 1 else ""
        yield Unreadable(name, reason + others)


def _read_next(members: Iterator[Member]) -> Member | Exception | None:
    """The next member; the damage, if there is no further one because of it; None at the end."""
    try:
        return next(members, None)
    except READ_ERRORS as problem:
        return problem


def _split(name: str) -> list[str]:
    return [part for part in name.split("/") if part not in ("", ".")]


def _is_written(root: Path, name: str) -> bool:
    """Whether the content of a member of this name is there, to be read once."""
    parts = _split(name)
    return not _explain_name(parts) and os.path.isfile(root.joinpath(*parts))  # noqa: PTH113  False for any name


def _explain_name(parts: list[str]) -> str:
    """Why no file of this name is written; empty if one may be."""
    if not parts or ".." in parts:
        return "a name that leads out of the archive"
    if len(parts) > _DEEPEST:
        return f"below more than {_DEEPEST} folders"
    return "a name with a NUL" if any("\0" in part for part in parts) else ""


def _write(member: Member, path: Path, archive: str, space: _Space) -> str:
    """Writes a member; of a binary file only the beginning, by which it is refused later.

    Returns why no such file can exist; empty if it can.
    """
    start = b""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as out:
            while len(start) < SNIFF and (part := member.content.read(SNIFF)):
                start += part
            part = start
            while part:
                space.take(archive, size=len(part))
                out.write(part)
                part = b"" if is_binary(start[:SNIFF]) else member.content.read(_CHUNK)
        modified_s = member.modified_s if 0 <= member.modified_s < _LATEST_S else 0
        os.utime(path, (modified_s, modified_s))
    except OSError as problem:
        if problem.errno in _OF_NAME:
            return _OF_NAME[problem.errno]
        raise InputError(f"cannot be unpacked: {problem.strerror}", archive, "give a result on another disk") from None
    return ""
