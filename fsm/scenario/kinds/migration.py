"""The online migration of a group, step by step, as the design document prints it and as Kafka does it.

The kind of `seed_migration.yaml`: `steps` tell the document's story, each with its `stimulus` and what is `expected`
of group, target and members; `shipped_trace` tells the same story in requests. Without a dialect, or under `document`,
the first is run by the document's rules. Under a release of Kafka the second is run by the coordinator. Steps are
paired by their place in the document where the two are compared (`--dialect document --against 4.4`).
"""

from __future__ import annotations

from collections.abc import Iterator

from fsm.coordinator.model.dialect import dialect as release
from fsm.nodes import Node
from fsm.scenario.migration.document_story import DOCUMENT, document_steps
from fsm.scenario.migration.head import read_head
from fsm.scenario.migration.shipped_story import shipped_steps
from fsm.scenario.steps import Replay

NAME = "migration trace"
SCHEMA = "migration-scenario/"


def reads(document: Node) -> bool:
    """Whether the document names the schema of migration scenarios."""
    meta = document.value.get("meta") if isinstance(document.value, dict) else None
    schema = meta[1].value.get("schema") if meta is not None and isinstance(meta[1].value, dict) else None
    return schema is not None and isinstance(schema[1].value, str) and schema[1].value.startswith(SCHEMA)


def replay(document: Node, file: str, dialect: str | None) -> Iterator[Replay]:
    """Runs the story. Raises `InputError` with the line for what is no part of one."""
    head = read_head(document)
    title = f"Online migration of a group of {head.topic}"
    if dialect in (None, DOCUMENT):
        yield Replay(file, NAME, title, DOCUMENT, tuple(document_steps(document, head)))
        return
    spoken = release(dialect)
    yield Replay(file, NAME, title, spoken.name, tuple(shipped_steps(document, head, spoken)))
