"""A report in files: `report.html`, and for a large result a folder with a file for each group beside it.

A group is written by the task that has judged it, and again only if it has changed. The page is written at the end, or
repeatedly during a followed audit: for it only the index entry of each file is read. Files are scripts, because a page
opened from a disk may load only scripts.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from fsm.render.report.details import Packed, dump, key_of
from fsm.render.report.page import DETAILS_BUDGET, Index, compose, summary
from fsm.render.timeline.views import Report

FOLDER = "report"
PAGE = "report.html"
SHARD = 1_000_000
"""The approximate size of a part of the index, loaded when a reader searches beyond the page."""


def write_group(out: Path, packed: Packed) -> bool:
    """Writes the files of a group below the folder `out` of the result; returns whether anything has changed."""
    folder = out / FOLDER
    folder.mkdir(exist_ok=True)
    changed = False
    for name, text in packed.pieces():
        index = packed.index_entry if name == packed.key else None
        changed |= _write(folder / f"{name}.js", _call(name, text, index))
    return changed


def remove_group(out: Path, group: str, file: str = "") -> None:
    """Removes the files of a group, or of a file's findings, that is not reported any more."""
    for path in (out / FOLDER).glob(f"{key_of(group, file)}*.js"):
        path.unlink(missing_ok=True)


def write_page(out: Path, report: Report, *, top: int, refresh_s: int = 0) -> None:
    """Writes the page about the groups that were written before.

    A small result becomes one page, and the folder is removed. Otherwise the page holds the details of the `top` worst
    groups as far as there is room. With `refresh_s` it reloads the index every so many seconds, and open groups if they
    have changed.
    """
    folder = out / FOLDER
    for path in () if refresh_s else folder.glob(".*"):
        path.unlink()  # of a task that was killed
    index, size = Index(), 0
    for one, length in read_index(folder):
        index.add(one)
        size += length
    index.finish()
    if index.whole and size <= DETAILS_BUDGET and not refresh_s:
        index.names = {one["entry"]["key"]: one["names"] for one, _ in read_index(folder)}
        inline = dict(_details(folder, [entry["key"] for entry in index.entries]))
        shutil.rmtree(folder, ignore_errors=True)
    else:
        folder.mkdir(exist_ok=True)
        index.shards = _write_shards(folder)
        inline = {} if refresh_s else dict(_fit(folder, [entry["key"] for entry in index.entries[:top]]))
    if refresh_s:
        _write(folder / "now.js", _call("now", dump(summary(report, index))))
    _write(out / PAGE, compose(report, index, inline, refresh_s))


def read_index(folder: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """The index entries in the files of the groups, and the size of each group's details.

    A group may be removed meanwhile by another task.
    """
    sizes: dict[str, int] = {}
    paths = sorted(folder.glob("*.js"))
    for path in paths:
        with suppress(FileNotFoundError):
            key = path.stem.partition("-")[0]
            sizes[key] = sizes.get(key, 0) + path.stat().st_size
    for path in paths:
        line = ""
        if path.stem in sizes:
            with suppress(FileNotFoundError), path.open(encoding="utf-8") as file:
                file.readline()
                line = file.readline().rstrip().removesuffix(",")
        if line.startswith("{"):
            yield json.loads(line), sizes[path.stem]


def _details(folder: Path, keys: list[str]) -> Iterator[tuple[str, str]]:
    for key in keys:
        for path in sorted(folder.glob(f"{key}*.js")):
            yield path.stem, path.read_text(encoding="utf-8").splitlines()[2].removesuffix(");")


def _fit(folder: Path, keys: list[str]) -> Iterator[tuple[str, str]]:
    """The details of the first groups that fit in a third of the room, so that a page without its folder has them."""
    room = DETAILS_BUDGET // 3
    for key in keys:
        room -= (folder / f"{key}.js").stat().st_size
        if room < 0:
            return
        yield from _details(folder, [key])


def _write_shards(folder: Path) -> int:
    """Writes the whole index to files; returns their number."""
    held, size, count = list[str](), 0, 0
    for one, _ in read_index(folder):
        held.append(dump({name: value for name, value in one.items() if name != "trend"}))
        size += len(held[-1])
        if size > SHARD:
            count += 1
            _write_shard(folder, count, held)
            held, size = [], 0
    if held or not count:
        count += 1
        _write_shard(folder, count, held)
    return count


def _write_shard(folder: Path, number: int, held: list[str]) -> None:
    _write(folder / f"index-{number}.js", _call(f"index-{number}", f"[{','.join(held)}]"))


def _call(name: str, text: str, index: Any = None) -> str:
    return f'rebalanceReport.take("{name}",\n{dump(index)},\n{text});\n'


def _write(path: Path, text: str) -> bool:
    """Writes a file atomically if its content has changed."""
    data = text.encode()
    if path.exists() and path.read_bytes() == data:
        return False
    number, written = mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with os.fdopen(number, "wb") as file:
        os.fchmod(number, 0o644)
        file.write(data)
    Path(written).replace(path)
    return True
