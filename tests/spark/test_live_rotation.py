"""Logs that are written, rotated by name, by copy and by packing, and looked at between any two steps of all that."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from .test_live_files import Followed, expected, logs

__all__ = ["expected", "logs"]


class Rotating:
    """One log whose rotations have numbers; every step of what happens to it is seen."""

    def __init__(self, log: Path, data: bytes, chance: random.Random, how: str) -> None:
        self.log = log
        self.left = data.splitlines(keepends=True)
        self.chance = chance
        self.how = how

    def steps(self) -> Iterator[None]:
        """Writes all lines, with rotations between them."""
        while self.left:
            count = self.chance.randrange(1, 1 + max(1, len(self.left) // 2))
            data, self.left = b"".join(self.left[:count]), self.left[count:]
            at = self.chance.randrange(len(data))
            for part in (data[:at], data[at:]):
                with self.log.open("ab") as out:
                    out.write(part)
                yield
            if self.left and self.log.stat().st_size > 2000:
                yield from self._rotate()

    def _rotate(self) -> Iterator[None]:
        yield from self._shift()
        first = self._named(1)
        if self.how == "copy":
            yield from self._write(first, self.log.read_bytes())
            self.log.write_bytes(b"")
        else:
            self.log.rename(first)
            yield
            self.log.touch()
        yield
        if self.how == "pack":
            packed = first.with_name(f"{first.name}.gz")
            yield from self._write(packed, gzip.compress(first.read_bytes()))
            first.unlink()
            yield

    def _shift(self) -> Iterator[None]:
        """Makes room for the first rotation: each of the others becomes the next."""
        last = max((number for number in range(1, 50) if self._there(number)), default=0)
        for number in range(last, 0, -1):
            old = self._there(number)
            if old is not None:
                old.rename(old.with_name(old.name.replace(f".{number}", f".{number + 1}")))
                yield

    def _named(self, number: int) -> Path:
        return self.log.with_name(f"{self.log.name}.{number}")

    def _there(self, number: int) -> Path | None:
        plain = self._named(number)
        return next((one for one in (plain, plain.with_name(f"{plain.name}.gz")) if one.exists()), None)

    def _write(self, path: Path, data: bytes) -> Iterator[None]:
        """In parts, the first of which is nothing."""
        for size in (0, len(data) // 3, len(data)):
            path.write_bytes(data[:size])
            yield


def follow(seed: int, root: Path, logs: dict[str, bytes], expected: list[str]) -> None:
    """Looks now and then, and judges what stands in the end."""
    root.mkdir()
    chance = random.Random(seed)  # noqa: S311
    followed = Followed(root)
    often = chance.choice((0.2, 0.5, 0.9))
    how = chance.choice(("name", "copy", "pack"))
    writers = [Rotating(followed.logs / name, data, chance, how).steps() for name, data in sorted(logs.items())]
    while writers:
        writer = chance.choice(writers)
        if next(writer, writer) is writer:
            writers.remove(writer)
        if chance.random() < often:
            followed.look()
    followed.run()
    assert followed.found == expected, (seed, how)
    assert not followed.happened, (seed, how)


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.deep) for seed in (0, 2, 3, 4, 8)])
def test_rotation_seen_between_any_two_steps(
    seed: int, tmp_path: Path, logs: dict[str, bytes], expected: list[str]
) -> None:
    """No line is lost or there twice, and nothing is told of the files in the end."""
    follow(seed, tmp_path / "one", logs, expected)
