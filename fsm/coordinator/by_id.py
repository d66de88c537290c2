"""Members of a group as a mapping from their ids, for values that carry more than the map."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from dataclasses import dataclass
from typing import Any, TypeVar

from fsm.coordinator.frozen import FrozenMap

M = TypeVar("M")


@dataclass(frozen=True, eq=False)
class ById(Mapping[str, M]):
    """Reads as its map does, and as fast: no view goes through `Mapping`'s own."""

    by_id: FrozenMap[str, M]

    def __getitem__(self, member_id: str) -> M:
        return self.by_id[member_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_id)

    def __len__(self) -> int:
        return len(self.by_id)

    def __contains__(self, member_id: object) -> bool:
        return member_id in self.by_id

    def items(self) -> ItemsView[str, M]:
        """Ids with their members."""
        return self.by_id.items()

    def values(self) -> ValuesView[M]:
        """The members."""
        return self.by_id.values()

    def keys(self) -> KeysView[str]:
        """Their ids."""
        return self.by_id.keys()

    def get(self, member_id: str, default: Any = None, /) -> Any:
        """The member, or the default where there is none."""
        return self.by_id.get(member_id, default)
