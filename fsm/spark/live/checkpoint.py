"""The checkpoint of a followed audit: its folder, lock, and a mark with the options that must not change."""

from __future__ import annotations

import fcntl
import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import fsm
from fsm.errors import InputError
from fsm.spark.live.follow_options import Followed
from fsm.spark.options import IN_PROCESS
from fsm.spark.sources import FOLLOWED

MARK, HALF, LOCK = FOLLOWED.name, f".{FOLLOWED.name}", "lock"
SCHEMA = 7
"""Version of the content of a checkpoint."""


@contextmanager
def open_checkpoint(followed: Followed) -> Iterator[None]:
    """Creates the folder of the checkpoint if it is new, and locks it.

    Raises `InputError` if the result's folder has other content, or a checkpoint of another version or of other
    options, or if another process follows into it.
    """
    out, folder = followed.out, followed.checkpoint
    mine = _mark(followed)
    try:
        own = {folder, folder / LOCK, folder / HALF}  # of an audit that was killed at its start
        if not (folder / MARK).exists() and any(path not in own for path in out.rglob("*")):
            raise InputError(
                "the folder holds files that --follow did not write", str(out), "give a new or empty folder"
            )
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("w")
    except OSError as problem:
        raise InputError(f"cannot be written: {problem.strerror}", str(out), "give another folder") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                "another audit is following into it", str(out), "stop that or give another folder"
            ) from None
        mark = folder / MARK
        if mark.exists():
            _compare(mark, mine)
        else:
            (folder / HALF).write_text(json.dumps(mine, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            (folder / HALF).rename(mark)
        yield


def _mark(followed: Followed) -> dict[str, Any]:
    options = followed.options
    chosen = asdict(options) | {"known": sorted(options.known), "expire_ms": followed.follow.expire_ms}
    for free in ("master", "split_bytes", "top", "lag"):
        del chosen[free]
    engine = "this process" if options.master == IN_PROCESS else "Spark"
    python = ".".join(platform.python_version_tuple()[:2])
    version = {"schema": SCHEMA, "version": fsm.__version__, "python": python}
    mine = {"version": version, "paths": list(followed.paths), "engine": engine, "options": chosen}
    plain: dict[str, Any] = json.loads(json.dumps(mine))
    return plain


def _compare(mark: Path, mine: dict[str, Any]) -> None:
    try:
        known = json.loads(mark.read_bytes())
        known_options, version = known["options"], known["version"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError("is not a checkpoint", str(mark), "give a new folder") from None
    if version != mine["version"]:
        was = ", ".join(f"{name} {value}" for name, value in version.items())
        raise InputError(f"was begun by another version ({was})", str(mark.parent), "give a new folder")
    for name in ("paths", "engine"):
        if known[name] != mine[name]:
            raise InputError(f"was begun with other {name}: {known[name]}", str(mark.parent), "give a new folder")
    differ = [name for name, value in mine["options"].items() if known_options.get(name) != value]
    if differ:
        was = "; ".join(f"{name} was {json.dumps(known_options.get(name))}" for name in differ)
        raise InputError(f"was begun with other options: {was}", str(mark.parent), "give those, or a new folder")
