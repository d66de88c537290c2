"""A search kept in files: the same verdict as in memory, however often it is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from fsm.check import Disk, Limits, Memo, Model, check, liveness, search
from fsm.check.disk import NOTE, lock_folder
from fsm.check.examples.lock import lock
from fsm.check.examples.two_phase_commit import two_phase_commit
from fsm.check.kafka.consumer.group import consumer_group
from fsm.check.search import Search
from fsm.check.store import OF_SEARCH, Packing, Visited
from fsm.cli import main
from fsm.errors import InputError

OTHERWISE = {"cpu_s", "bytes_per_state", "memo_steps", "memo_hits"}


def on_disk(folder: Path, *, at_once: bool = True) -> Disk:
    return Disk(Memo(folder, "one"), at_once)


def summarize(model: Model, kinds: list[str], most: int, disk: Disk | None = None, **options: Any) -> dict[str, Any]:
    document = check(model, disturb=kinds, disturbances=most, every=True, disk=disk, **options).document()
    return {name: value for name, value in document.items() if name not in OTHERWISE}


MODELS = [(two_phase_commit(3), ["lose"], 2), (lock(), ["expire"], 2), (consumer_group(1), ["late", "lose"], 2)]


@cache
def in_memory(number: int) -> dict[str, Any]:
    """The verdict on one of the models."""
    return summarize(*MODELS[number])


@pytest.mark.parametrize(
    "number",
    [pytest.param(i, marks=[] if i == 1 else [pytest.mark.deep], id=MODELS[i][0].name) for i in range(len(MODELS))],
)
def test_the_verdict_is_the_one_of_memory(number: int, tmp_path: Path) -> None:
    """At once, when memory would not do, and taken up again when all is done."""
    (model, kinds, most), memory = MODELS[number], in_memory(number)
    assert summarize(model, kinds, most, on_disk(tmp_path / "once")) == memory
    assert summarize(model, kinds, most, on_disk(tmp_path / "once")) == memory
    need = Search(model, frozenset(kinds), most, every=True).run()
    limits = Limits(max_memory=need.space.nbytes + 8 * need.states.size)
    assert summarize(model, kinds, most, limits=limits)["stopped"]
    later = summarize(model, kinds, most, on_disk(tmp_path / "later", at_once=False), limits=limits)
    assert later["states"] == memory["states"]


def test_liveness_needs_no_edges_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are too many, they are found again until nothing comes of it."""
    expected = [in_memory(number) for number in range(len(MODELS))]
    refused = []

    def limit(self: Search) -> str:
        per_state = liveness.BYTES * self.states.size
        refused.extend(["no room"] * (self.extra_bytes > per_state))
        return "no room" if self.extra_bytes > per_state else ""

    monkeypatch.setattr(Search, "limit", limit)
    monkeypatch.setattr(search, "CHUNK", 50)
    assert [summarize(*one) for one in MODELS] == expected
    assert refused


def test_keys_are_made_again_on_disk_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whenever a cell grows: the files are written anew."""
    (model, kinds, most), memory = MODELS[0], in_memory(0)

    def tight(_before: Packing, counts: list[int]) -> Packing:
        return Packing([count.bit_length() for count in counts])

    monkeypatch.setattr(Packing, "grow", tight)
    monkeypatch.setattr(Packing, "of", staticmethod(lambda many: Packing([0] * many)))
    assert summarize(model, kinds, most, on_disk(tmp_path)) == memory
    assert summarize(model, kinds, most, on_disk(tmp_path)) == memory


def test_runs_are_merged_block_by_block(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of very different lengths and places; every key is found again."""
    monkeypatch.setattr("fsm.check.store.BLOCK", 7)
    drawn, visited, met = Random(3), Visited(), set()  # noqa: S311
    visited.keep_in(tmp_path)
    for _ in range(60):
        new = {drawn.randrange(5_000) + drawn.choice([0, 10_000]) for _ in range(drawn.choice([1, 5, 90]))} - met
        visited.add(np.array(sorted(new), np.uint64))
        met |= new
    visited.settle()
    assert len(visited.runs) == 1
    assert visited.runs[0].tolist() == sorted(met)
    asked = np.arange(0, 16_000, dtype=np.uint64)
    assert set(asked[~visited.find_new(asked)].tolist()) == met


CHILD = """
import json, os, signal, sys
from pathlib import Path
from fsm.check import Disk, Memo, check
from fsm.check.examples.two_phase_commit import two_phase_commit

folder, left = Path(sys.argv[1]), int(sys.argv[2])

def count(event, given):
    global left
    if event in ("open", "os.rename", "os.remove", "os.truncate") and str(folder) in str(given[0]):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(count)
verdict = check(two_phase_commit(3), disturb=["lose"], disturbances=2, every=True, disk=Disk(Memo(folder, "one")))
print(json.dumps(verdict.document()))
"""


@pytest.mark.parametrize(
    ("seed", "most"), [(0, 3), *(pytest.param(seed, 6, marks=pytest.mark.deep) for seed in (1, 2))]
)
def test_a_search_that_is_killed_goes_on(seed: int, most: int, tmp_path: Path) -> None:
    """Killed without warning between any two operations on files, again and again: the same verdict at last."""
    drawn, kills = Random(seed), 0  # noqa: S311
    while True:
        left = drawn.randrange(1, 160) if kills < most else 0
        done = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path), str(left)], capture_output=True, check=False)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()
        kills += 1
    document = json.loads(done.stdout)
    expected = in_memory(0)
    assert kills > most / 2
    assert json.dumps({name: value for name, value in document.items() if name not in OTHERWISE}) == json.dumps(
        expected
    )


def test_a_folder_of_something_else_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, kinds, most = MODELS[0]
    summarize(model, kinds, most, on_disk(tmp_path / "one"))
    for other in ((two_phase_commit(2), kinds, most), (model, kinds, 1), (model, [], 0)):
        with pytest.raises(InputError, match="holds a different search"):
            summarize(*other, on_disk(tmp_path / "one"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="holds another file"):
        summarize(model, kinds, most, on_disk(tmp_path / "mine"))
    tables = tmp_path / "one" / json.loads((tmp_path / "one" / NOTE).read_bytes())["tables"]
    tables.write_bytes(tables.read_bytes()[:-50])
    with pytest.raises(InputError, match="is damaged"):
        summarize(model, kinds, most, on_disk(tmp_path / "one"))
    assert main(["check", "lock", "--engine", "disk"]) == 2
    assert "belong together" in capsys.readouterr().err


def test_the_command_keeps_a_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for options in ([], ["--engine", "disk", "--dir", str(tmp_path / "d")], ["--dir", str(tmp_path / "none")]):
        assert main(["check", "lock", "--disturb", "expire", *options]) == 1
        outputs.append([line for line in capsys.readouterr().out.splitlines() if "CPU" not in line])
    assert outputs[0] == outputs[1] == outputs[2]
    assert (tmp_path / "d" / NOTE).exists()
    assert not (tmp_path / "none" / NOTE).exists()


def test_a_note_is_of_what_was_asked(tmp_path: Path) -> None:
    """Another property, or the goal left out, is another search."""
    model = consumer_group(1)
    for properties in ((), ("no partition has two users",)):
        check(model, properties=properties, disk=on_disk(tmp_path / ("all" if not properties else "one")))
    for folder, properties in (
        ("all", ("no partition has two users",)),
        ("one", ("no partition is assigned twice",)),
        ("one", ("the group settles",)),
    ):
        with pytest.raises(InputError, match="holds a different search"):
            check(model, properties=properties, disk=on_disk(tmp_path / folder))


def test_nothing_of_others_is_touched(tmp_path: Path) -> None:
    """Files of other names stay, and the folder is refused; what a killed process left half-written goes."""
    (tmp_path / "precious.npz").write_bytes(b"x")
    with pytest.raises(InputError, match=r"holds another file: precious\.npz"):
        check(lock(), disk=on_disk(tmp_path))
    assert (tmp_path / "precious.npz").read_bytes() == b"x"
    (tmp_path / "precious.npz").unlink()
    for name in (".1.npz.4711", ".search.json.4711"):
        (tmp_path / name).write_bytes(b"half")
    assert check(lock(), disk=on_disk(tmp_path)).word == "holds"
    assert not list(tmp_path.glob(".*"))


def test_one_search_at_a_time_has_a_folder(tmp_path: Path) -> None:
    with lock_folder(tmp_path, OF_SEARCH), pytest.raises(InputError, match="is in use by another search"):
        check(lock(), disk=on_disk(tmp_path))
    assert check(lock(), disk=on_disk(tmp_path)).word == "holds"


@pytest.mark.parametrize(
    "suffix",
    [".states", ".json", *(pytest.param(one, marks=pytest.mark.deep) for one in (".parents", ".keys", ".npz"))],
)
@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda _: None], ids=["cut", "gone"])
def test_damaged_files_are_told(suffix: str, damage: Any, tmp_path: Path) -> None:
    """Cut or gone: never another verdict."""
    check(lock(), disk=on_disk(tmp_path))
    path = next(path for path in sorted(tmp_path.iterdir()) if path.suffix == suffix)
    data = damage(path.read_bytes())
    path.unlink()
    if data is not None:
        path.write_bytes(data)
    if suffix == ".json" and data is None:  # without a note it begins anew
        assert check(lock(), disk=on_disk(tmp_path)).word == "holds"
    else:
        with pytest.raises(InputError, match="is damaged"):
            check(lock(), disk=on_disk(tmp_path))
