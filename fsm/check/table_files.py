"""Files with the tables of a model, kept in a folder between runs.

A file holds only numbers and texts: no object of the model is stored, so nothing is unpickled, and a foreign file can
at worst be wrong. The value of a number is stored as the step that first led to it, which is executed again when the
value is needed: to describe a path, or for a step that no run has executed.

The name of a file is a digest of everything that its numbers depend on: the code of this package and of the model's own
modules, the versions of Python and NumPy, the model with its arguments, and the enabled disturbances. A damaged file,
or one with another digest inside, is ignored.
"""

from __future__ import annotations

import io
import json
import os
import platform
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from fsm.check.ahead import Done
from fsm.check.memo import Growing
from fsm.check.space import STATE_BYTES, Space
from fsm.errors import refuse_os_errors

Arrays = dict[str, npt.NDArray[Any]]
_ROOT = Path(__file__).parents[1]


class Memo(NamedTuple):
    """The folder of tables, and the identity of the model: its name and arguments, and its source texts."""

    folder: Path
    identity: str

    def path(self, space: Space) -> tuple[Path, str]:
        """The file of a space, and its digest."""
        settings = sorted(space.kinds), sorted(space.by), space.model.name, [one.name for one in space.model.components]
        versions = sys.version, np.__version__, platform.machine()
        identity = json.dumps([self.identity, settings, versions, _code(self.identity)])
        digest = sha256(identity.encode()).hexdigest()
        return self.folder / f"{digest[:32]}.npz", digest

    def prepare(self) -> None:
        """Creates the folder. Raises `InputError` if it cannot be written to."""
        with refuse_os_errors("cannot be written to", self.folder, "name a folder that can be written to"):
            self.folder.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=self.folder).close()

    def load(self, space: Space, path: Path | None = None) -> bool:
        """Fills an empty space from the file of an earlier run; returns whether there was one."""
        usual, digest = self.path(space)
        path = path or usual
        try:
            saved, arrays = read(path)
            if saved["digest"] != digest:
                return False
        except (OSError, ValueError, KeyError, EOFError, BadZipFile, NotImplementedError):
            return False
        restore(space, saved, arrays)
        return True

    def save(self, space: Space, path: Path | None = None) -> None:
        """Saves the tables of a space. Raises `InputError` if the folder cannot be written to."""
        usual, digest = self.path(space)
        path = path or usual
        for cell in space.cells:  # so that a new question about features needs no step
            for name in cell.measures:
                cell.feature(name)
        with refuse_os_errors("cannot be written", path, "name a folder that can be written to"):
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, _pack(space, digest))


def read(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Reads a file. Raises various errors for a file of another kind."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(arrays.pop("texts").tobytes()), arrays


def _pack(space: Space, digest: str) -> bytes:
    texts, arrays = take_apart(space)
    arrays["texts"] = np.frombuffer(json.dumps({"digest": digest} | texts).encode(), np.uint8)
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def write(path: Path, content: bytes) -> None:
    """Writes a file atomically, by a rename."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def take_apart(space: Space) -> tuple[dict[str, Any], Arrays]:
    """Takes a space apart into texts and small lists, and arrays by name."""
    texts = {
        "parts": [
            {
                "origins": part.states.origins,
                "steps": [(*asked, done.state, done.broken, done.orders) for asked, done in part.steps.items()],
            }
            for part in space.parts
        ],
        "inputs": space.inputs.origins,
        "messages": space.messages.origins,
        "queues": [queue.keys for queue in space.queues],
        "conditions": space.conditions.keys,
        "actions": space.actions.keys,
        "broken": space.broken.keys,
        "orders": space.orders.keys,
        "bundles": space.bundles.keys,
        "measured": [[name for name, (each, _) in cell.measured.items() if each.size] for cell in space.cells],
    }
    arrays: Arrays = {}
    for i, cell in enumerate(space.cells):
        arrays[f"{i}"] = np.array(cell.ids.keys, np.int32).reshape(len(cell.ids), 1 + len(cell.wires))
        for name, table in _tables(cell):
            arrays |= {f"{i} {name} {k}": array for k, array in enumerate(table.arrays)}
        for k, name in enumerate(texts["measured"][i]):
            arrays[f"{i} feature {k}"] = cell.measured[name][0].view
    return texts, arrays


def restore(space: Space, saved: dict[str, Any], arrays: Arrays) -> None:
    """Fills an empty space from the result of `take_apart`."""
    for part, known in zip(space.parts, saved["parts"], strict=True):
        part.states.restore(None, _tuples(known["origins"]))
        part.nbytes = STATE_BYTES * len(part.states)
        part.steps = {(a, b): Done(state, broken, _tuples(orders)) for a, b, state, broken, orders in known["steps"]}
    space.inputs.restore(None, _tuples(saved["inputs"]))
    space.messages.restore(None, _tuples(saved["messages"]))
    for queue, keys in zip(space.queues, saved["queues"], strict=True):
        queue.restore(_tuples(keys), keys)
    for name in ("conditions", "actions", "broken", "orders", "bundles"):
        keys = _tuples(saved[name])
        getattr(space, name).restore(keys, keys)
    for i, cell in enumerate(space.cells):
        keys = tuple(map(tuple, arrays[f"{i}"].tolist()))
        cell.ids.restore(keys, keys)
        for name, table in _tables(cell):
            table.arrays = tuple(arrays[f"{i} {name} {k}"] for k in range(len(table.arrays)))
        for k, name in enumerate(saved["measured"][i]):
            each = Growing(np.int64)
            each.extend(arrays[f"{i} feature {k}"], len(arrays[f"{i} feature {k}"]))
            cell.measured[name] = each, Growing(np.int64)


def _tables(cell: Any) -> Iterator[tuple[str, Any]]:
    yield "receive", cell.receive
    yield "notified", cell.notified
    yield from ((f"local {paid}", table) for paid, table in cell.local.items())
    yield from ((f"outgoing {there} {paid}", table) for (there, paid), table in cell.outgoing.items())


def _tuples(found: Any) -> Any:
    return tuple([_tuples(one) if type(one) is list else one for one in found])


@lru_cache(maxsize=64)
def _code(_identity: str) -> str:
    """A digest of the code that a model can depend on: this package, and modules that are neither Python's nor
    installed.

    It is computed once per model, before the first step, and does not cover later imports.
    """
    foreign = tuple(str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "purelib", "platlib"))
    loaded = {str(module.__file__) for module in list(sys.modules.values()) if _has_file(module)}
    others = {os.path.realpath(name) for name in loaded if not name.startswith((*foreign, f"{_ROOT}{os.sep}"))}
    files = {name for name in others if not name.startswith(foreign)} | set(map(str, _ROOT.rglob("*.py")))
    digest = sha256()
    for name in sorted(files):
        digest.update(sha256(Path(name).read_bytes()).digest())
    return digest.hexdigest()


def _has_file(module: Any) -> bool:
    return str(getattr(module, "__file__", None)).endswith(".py")
