"""A search with its states and keys in files of a folder, which continues after a kill.

The search is the same, with the same states in the same order. At the end of a level with enough new states it writes a
note: the length of each file, the runs of keys and the tables. The note is written to a new file and renamed. A search
that finds a note truncates its files accordingly and continues from there, repeating later work. It refuses files of
another model, or of changed code, and leaves them unchanged.
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from fsm.check.search import NOTHING, Fresh, Search
from fsm.check.steps import Found
from fsm.check.store import OF_SEARCH, Packing, name_of
from fsm.check.table_files import Memo, write
from fsm.errors import InputError

NOTE, LOCK = "search.json", "lock"
_LEFT = re.compile(r"\.(search\.json|\w+\.npz)\.\d+")
WORTH = 16
"""A note is written when at least one in this many states is new since the last note."""


class Disk(NamedTuple):
    """Where a search keeps its states."""

    memo: Memo
    """The folder, and what tells the model from others."""
    at_once: bool = True
    """The search uses files from its start; otherwise only once memory does not suffice."""

    @contextmanager
    def keeping(self, search: Search) -> Iterator[None]:
        """Keeps a search's states here and resumes an earlier search; the folder is locked meanwhile.

        Raises `InputError` for a foreign folder.
        """
        folder = self.memo.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with lock_folder(folder, OF_SEARCH):
                keeper = _Keeper(search, self.memo)
                if (folder / NOTE).exists():
                    keeper.resume(read_note(folder / NOTE))
                elif self.at_once:
                    keeper.move()
                else:
                    search.spill = keeper.move
                yield
        except OSError as problem:
            remedy = "name a folder that can be written to"
            raise InputError(f"cannot be used: {problem.strerror}", str(problem.filename or folder), remedy) from None


def read_note(path: Path) -> dict[str, Any]:
    """Reads a note. Raises `InputError` if it is damaged."""
    try:
        note = json.loads(path.read_bytes())
    except ValueError:
        note = None
    if not isinstance(note, dict) or "digest" not in note:
        raise InputError("is damaged", str(path), "empty the folder")
    return note


def lock_folder(folder: Path, mine: re.Pattern[str]) -> BinaryIO:
    """Locks the folder for one search until the returned file is closed; `mine` matches the names of its files.

    Raises `InputError` if another search uses it, or it has other files.
    """
    for path in sorted(folder.iterdir()):
        if _LEFT.fullmatch(path.name):  # of a process that was killed as it wrote
            path.unlink(missing_ok=True)
        elif path.name not in (NOTE, LOCK) and not mine.fullmatch(path.name):
            raise InputError(f"holds another file: {path.name}", str(folder), "name an empty folder")
    held = (folder / LOCK).open("wb")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.close()
        raise InputError("is in use by another search", str(folder), "wait, or name another folder") from None
    return held


def digest_of(search: Search, memo: Memo) -> str:
    """The digest of everything that a note depends on: the model, the options and the code."""
    asked, goal = [one.name for one in search.model.properties], search.model.goal
    ignored = sorted(search.model.ignored_of_steps)
    settings = search.most, list(search.known), search.every, asked, ignored, None if goal is None else goal.name
    return json.dumps([memo.path(search.space)[1], settings])


def numbers(search: Search, digest: str) -> dict[str, Any]:
    """The numbers that a search keeps besides its states, for a note."""
    return {
        "digest": digest,
        "bits": search.packing.bits,
        "exact": search.packing.exact,
        "waiting_broken": [(*at, found) for at, found in search.waiting_broken.items()],
        "found": list(search.found.values()),
        **{name: getattr(search, name) for name in NUMBERS},
    }


def take_up(search: Search, note: Mapping[str, Any], memo: Memo) -> None:
    """Restores a search from a note and its tables. Raises `InputError` for the note of another search."""
    if note["digest"] != digest_of(search, memo):
        remedy = "name another folder, or empty this one"
        raise InputError("holds a different search, or one of another version", str(memo.folder), remedy)
    if not memo.load(search.space, memo.folder / note["tables"]):
        raise InputError("its tables are damaged", str(memo.folder / note["tables"]), "empty the folder")
    search.packing = Packing(note["bits"], exact=note["exact"])
    for cost, level, found in note["waiting_broken"]:
        search.waiting_broken[cost, level] = [Found(*one) for one in found]
    search.found = {one[0]: Found(*one) for one in note["found"]}
    for name in NUMBERS:
        setattr(search, name, note[name])


class _Keeper:
    """Keeps one search in a folder."""

    def __init__(self, search: Search, memo: Memo) -> None:
        self.search, self.memo, self.folder = search, memo, memo.folder
        self.noted = self.known = 0
        """The numbers of states and of table entries at the last note."""
        self.number = 0
        """The number of the last file."""
        self.tables = ""
        self.digest = digest_of(search, memo)

    def move(self) -> None:
        """Moves the states from memory into files."""
        search = self.search
        search.spill = search.ahead = None
        search.states.keep_in(self.folder / "0.states")
        search.parent.keep_in(self.folder / "0.parents")
        search.visited.keep_in(self.folder)
        search.after_level = self.note

    def note(self) -> None:
        """Writes a note at the end of a level if enough is new."""
        search = self.search
        if search.states.size - self.noted < search.states.size // WORTH:
            return
        self.noted = search.states.size
        self.number += 1
        known = sum(len(cell.ids) for cell in search.space.cells) + search.space.taken
        if known != self.known or not self.tables:
            self.known, self.tables = known, f"{self.number}.npz"
            Memo(self.folder, self.memo.identity).save(search.space, self.folder / self.tables)
        for parts in search.waiting.values():
            parts[:] = [self._put(part) for part in parts]
        search.states.flush()
        search.parent.flush()
        saved = {
            **numbers(search, self.digest),
            "tables": self.tables,
            "states": [search.states.name, search.states.size],
            "parents": [search.parent.name, search.parent.size],
            "runs": search.visited.names(),
            "waiting": [
                (*at, [Path(name_of(part.words)).stem for part in parts]) for at, parts in search.waiting.items()
            ],
        }
        kept = {self.tables, search.states.name, search.parent.name, *search.visited.names()}
        kept |= {f"{name}{end}" for *_, names in saved["waiting"] for name in names for end in (".words", ".sources")}
        saved["bytes"] = {name: (self.folder / name).stat().st_size for name in sorted(kept)}
        write(self.folder / NOTE, json.dumps(saved).encode())
        for path in self.folder.iterdir():
            if OF_SEARCH.fullmatch(path.name) and path.name not in kept:
                path.unlink(missing_ok=True)

    def _put(self, part: Fresh) -> Fresh:
        """Writes waiting states to a file."""
        if isinstance(part.words, np.memmap):
            return part
        self.number += 1
        words, sources = (self.folder / f"{self.number}{end}" for end in (".words", ".sources"))
        part.words.tofile(words)
        part.parents.astype(np.uint32).tofile(sources)
        return self._get(words.stem, part.words.shape[1])

    def _get(self, stem: str, width: int) -> Fresh:
        words = np.memmap(self.folder / f"{stem}.words", np.uint64, "r").reshape(-1, width)
        return Fresh(words, np.memmap(self.folder / f"{stem}.sources", np.uint32, "r"), np.zeros(0, np.uint64), NOTHING)

    def resume(self, note: dict[str, Any]) -> None:
        """Resumes from a note. Raises `InputError` for the note of another search."""
        search = self.search
        if note["digest"] == self.digest:
            self._check_files(note["bytes"])
        take_up(search, note, self.memo)
        self.tables = note["tables"]
        search.states.width, search.ahead = search.packing.words, None
        for column, name in ((search.states, "states"), (search.parent, "parents")):
            file, size = note[name]
            column.keep_in(self.folder / file, size)
        search.visited.keep_in(self.folder, note["runs"])
        files = [path for path in self.folder.iterdir() if OF_SEARCH.fullmatch(path.name)]
        self.number = max((int(path.stem) for path in files), default=0)
        for cost, level, names in note["waiting"]:
            search.waiting[cost, level] = [self._get(name, search.packing.words) for name in names]
        self.noted = search.states.size
        self.known = sum(len(cell.ids) for cell in search.space.cells)
        search.after_level = self.note

    def _check_files(self, sizes: Mapping[str, int]) -> None:
        for name, count in sizes.items():
            path = self.folder / name
            grows = path.suffix in (".states", ".parents")
            there = path.stat().st_size if path.is_file() else -1
            if there < count or (there > count and not grows):
                raise InputError("is damaged or missing", str(path), "empty the folder")


NUMBERS = ("layers", "cut", "cost", "level", "low", "depth", "transitions", "looked_up", "met")
"""The attributes of a search that a note saves as they are."""
