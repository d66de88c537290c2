"""Several processes of one client id in one file: whose record is it?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fsm.audit.rows import Seen


def separate(member: str, records: Iterable[Seen]) -> Iterator[tuple[str, Seen]]:
    for seen in records:
        yield (f"{member} [{seen.record.member_id}]", seen)
