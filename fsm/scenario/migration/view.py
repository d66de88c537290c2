"""The observable state of a group in migration, in the terms of the design document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from fsm.scenario.texts import NOTHING, show_list

Numbers = tuple[int, ...]
"""Partitions of the one topic, sorted."""


class MemberView(NamedTuple):
    """One member of either protocol."""

    is_classic: bool
    epoch: int
    assigned: Numbers = ()
    """Assigned partitions without those to revoke."""
    revoking: Numbers = ()
    """Partitions that it still has to revoke."""
    waiting: Numbers = ()
    """Partitions of its target that another member holds."""
    phase: str = ""
    """The phase of a classic member: PreparingRebalance, CompletingRebalance or Stable."""
    state: str = ""
    previous_epoch: int | None = None
    timers: tuple[str, ...] = ()

    @property
    def owned(self) -> Numbers:
        """Partitions that it may own now."""
        return tuple(sorted((*self.assigned, *self.revoking)))


class View(NamedTuple):
    """The whole group."""

    topic: str
    is_classic: bool
    epoch: int
    """The group epoch, or the generation of a classic group."""
    members: Mapping[str, MemberView]
    target_epoch: int | None = None
    target: Mapping[str, Numbers] = {}
    state: str = ""

    def show(self, numbers: Iterable[int]) -> str:
        """Partitions as `[foo-0, foo-1]`."""
        return show_list(f"{self.topic}-{number}" for number in sorted(numbers))


def show_lines(view: View) -> Iterator[str]:
    """The group in the document's format: members, target, member assignments."""
    kind = f"Generic Group (generation={view.epoch})" if view.is_classic else f"Group (epoch={view.epoch})"
    yield f"* {kind}" + (f" {view.state}" if view.state else "")
    yield from (f"    * {name}{_label(view, member)}" for name, member in sorted(view.members.items()))
    if view.target_epoch is not None:
        yield f"* Target Assignment (epoch={view.target_epoch})"
        yield from (f"    * {name} - partitions={view.show(given)}" for name, given in sorted(view.target.items()))
    yield "* Assignment" if view.is_classic else "* Member Assignment"
    yield from (f"    * {name} - {_show_holdings(view, member)}" for name, member in sorted(view.members.items()))


def _label(view: View, member: MemberView) -> str:
    if not member.is_classic:
        return " (upgraded)"
    return f" ({member.phase})" if member.phase and not view.is_classic else ""


def _show_holdings(view: View, member: MemberView) -> str:
    epoch = "" if view.is_classic else f"epoch={member.epoch}, "
    more = [("revoking", member.revoking), ("waiting for", member.waiting)]
    rest = "".join(f", {word} {view.show(numbers)}" for word, numbers in more if numbers)
    return f"{epoch}partitions={view.show(member.owned)}{rest}"


def show_fields(view: View) -> dict[str, str]:
    """All fields for comparison, by name."""
    found = {"group": f"{'classic, generation' if view.is_classic else 'consumer, epoch'} {view.epoch}"}
    if view.state:
        found["group_state"] = view.state
    found["members"] = show_list(sorted(view.members))
    found["target_epoch"] = NOTHING if view.target_epoch is None else str(view.target_epoch)
    found["target"] = show_list(sorted(view.target))
    found |= {f"target.{name}": view.show(given) for name, given in sorted(view.target.items())}
    for name, member in sorted(view.members.items()):
        found |= {f"{name}.{key}": value for key, value in _member_fields(view, member)}
    return found


def _member_fields(view: View, member: MemberView) -> Iterator[tuple[str, str]]:
    yield "protocol", "classic" if member.is_classic else "consumer"
    yield "epoch", str(member.epoch)
    yield "assigned", view.show(member.assigned)
    yield "owned", view.show(member.owned)
    yield "revoking", view.show(member.revoking)
    yield "waiting", view.show(member.waiting)
    if member.is_classic:
        yield "phase", member.phase
    if member.state:
        yield "state", member.state
    if member.previous_epoch is not None:
        yield "previous_epoch", str(member.previous_epoch)
        yield "timers", show_list(member.timers)


def show_answer(view: View, answer: Mapping[str, object]) -> dict[str, str]:
    """The answer to a request as fields for comparison."""
    return {f"answer.{name}": show_value(view, value) for name, value in answer.items()}


def show_value(view: View, value: object) -> str:
    """A value of an answer: partitions, or anything else."""
    if isinstance(value, tuple | list):
        return view.show(value)
    return NOTHING if value is None else str(value)
