"""Stories of an online migration: the design document's, and the same one as shipped Kafka tells it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from case_file import each

from fsm.nodes import Node, yaml_node
from fsm.scenario.files import replay_document
from fsm.scenario.story import Replay, Step


def reads(head: Any) -> bool:
    """Documents whose schema is that of migration scenarios."""
    meta = head.get("meta") if isinstance(head, dict) else None
    return isinstance(meta, dict) and str(meta.get("schema", "")).startswith("migration-scenario/")


def cases(file: Any) -> Iterator[tuple[str, tuple[Replay, int]]]:
    """Every step of both stories, run from their beginnings."""
    dialects = ("document", *(("s24",) if "shipped_trace" in file.head else ()))
    document = yaml_node(file.content.decode(), file.name, "scenario")
    return each(((dialect, dialect) for dialect in dialects), lambda dialect: story(document, file.name, dialect))


def story(document: Node, where: str, dialect: str) -> Iterator[tuple[str, tuple[Replay, int]]]:
    (run,) = replay_document(document, where, dialect)
    yield from ((f"{dialect}-{name(step)}", (run, number)) for number, step in enumerate(run.steps, 1))


def name(step: Step) -> str:
    return step.title.partition(".")[0]


def test_step_comes_out_as_stated(case: tuple[Replay, int]) -> None:
    """Group, target, members, classic states and the answer are those of the file."""
    run, number = case
    found = [f"{d.where}: {d.field}: expected {d.expected}, got {d.got}" for d in run.differences() if d.step == number]
    if found:
        pytest.fail("\n".join(found), pytrace=False)
