"""Machines that exchange messages: an effect of one that is an event of another one is a message to it.

A *role* is a table under a name, for one machine of that name or for several: `client-0`, `client-1`. The checker and
the simulator share these definitions, which follow from the tables alone:

* the receivers of an effect: every machine of each role that has such an event, except the one that orders it. If the
  step was caused by a message, the role of its sender is answered: of that role only the sender receives the effect;
* external events: those that no other machine orders;
* places: `door.OPEN`, `door.OPEN|AJAR`, and `client-1.HOLDING` for one machine among several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from fsm.errors import InputError
from fsm.nodes import nearest, short
from fsm.table import Symbol, Table


@dataclass(frozen=True, slots=True)
class Role:
    """A table under a name."""

    name: str
    table: Table
    count: int = 1
    """Number of its machines."""

    @property
    def machines(self) -> tuple[str, ...]:
        """Names of the machines: the role's own name if there is only one."""
        return (self.name,) if self.count == 1 else tuple(f"{self.name}-{i}" for i in range(self.count))


@dataclass(frozen=True, slots=True)
class Place:
    """At least `least` of `machines` in one of the states."""

    text: str
    machines: tuple[str, ...]
    leaves: frozenset[Symbol]
    """The states, nested ones included."""
    names: tuple[str, ...]
    least: int
    """Number of machines that must be there at the same time."""


@dataclass(frozen=True)
class Exchange:
    """Roles that exchange messages. Raises `InputError` for two machines of one name."""

    roles: tuple[Role, ...]

    def __post_init__(self) -> None:
        names = [name for role in self.roles for name in role.machines]
        if len(set(names)) < len(names):
            raise InputError(
                "two machines have the same name", ", ".join(role.name for role in self.roles), "rename one"
            )

    @cached_property
    def named(self) -> dict[str, Role]:
        """Roles by name."""
        return {role.name: role for role in self.roles}

    @cached_property
    def role_of(self) -> dict[str, Role]:
        """Role of each machine, by the machine's name."""
        return {name: role for role in self.roles for name in role.machines}

    @cached_property
    def listeners(self) -> dict[tuple[str, Symbol], tuple[Role, ...]]:
        """(role, effect) -> the roles whose machines receive that effect, in the order of the roles."""
        alphabets = {role.name: {event.name for event in role.table.alphabet} for role in self.roles}
        return {
            (role.name, effect): tuple(
                other
                for other in self.roles
                if effect.name in alphabets[other.name] and (other is not role or role.count > 1)
            )
            for role in self.roles
            for effect in role.table.all_effects
        }

    def address(self, machine: str, effects: Iterable[Symbol], sender: str = "") -> Iterator[tuple[str, str]]:
        """(receiver, message) for each effect of a machine, in order; `sender` sent the message behind the step."""
        role = self.role_of[machine]
        asked = self.role_of.get(sender)
        for effect in effects:
            for listener in self.listeners[role.name, effect]:
                if listener is asked:
                    yield sender, effect.name
                else:
                    yield from ((name, effect.name) for name in listener.machines if name != machine)

    def list_messages(self, role: Role) -> dict[str, set[str]]:
        """Role name -> messages that its machines may send to a machine of this role."""
        found: dict[str, set[str]] = {}
        for (sender, effect), listeners in self.listeners.items():
            if role in listeners:
                found.setdefault(sender, set()).add(effect.name)
        return found

    def outside(self, role: Role) -> tuple[Symbol, ...]:
        """External events of a role: those that no machine sends it."""
        received = set().union(*self.list_messages(role).values())
        return tuple(event for event in role.table.alphabet if event.name not in received)

    def wires(self) -> Iterator[tuple[str, str]]:
        """(sender, receiver) of all machines between which messages may pass, in the order of the roles."""
        for role in self.roles:
            for other in self.roles:
                if role.name in self.list_messages(other):
                    yield from ((a, b) for a in role.machines for b in other.machines if a != b)

    def places(self, text: str, *, every: bool = False) -> tuple[Place, ...]:
        """The places in a text such as `door.OPEN|AJAR,lift.MOVING`. A repeated place means that many machines.

        A place that names a role is taken by any of its machines, or with `every` by all of them. Raises `InputError`
        for an unknown place.
        """
        given = [part.strip() for part in text.split(",")]
        return tuple(self._place(one, given.count(one), every) for one in dict.fromkeys(given))

    def _place(self, text: str, times: int, every: bool) -> Place:
        owner, _, states = text.rpartition(".")
        role = self.named.get(owner) or self.role_of.get(owner)
        if role is None:
            raise InputError(
                f"no such place: {short(text)}", "", f"write TABLE.STATE; {nearest(owner, list(self.named))}"
            )
        known = {state.name: state for state in role.table.all_states()}
        names = tuple(states.split("|"))
        for name in names:
            if name not in known:
                raise InputError(f"no such place: {short(text)}", "", nearest(name, list(known)))
        machines = role.machines if owner in self.named else (owner,)
        least = len(machines) if every else times
        if least > len(machines):
            raise InputError(f"no such place: {short(text)} {times} times", "", f"there are {len(machines)} machines")
        return Place(text, machines, leaves_in(role.table, [known[name] for name in names]), names, least)


def leaves_in(table: Table, states: Sequence[Symbol]) -> frozenset[Symbol]:
    """The leaf states that are among these states or nested in them."""
    found: set[Symbol] = set()
    for state in states:
        nested = _find_nested(table, state)
        found.update(nested.leaves() if nested is not None else [state])
    return frozenset(found)


def _find_nested(table: Table, state: Symbol) -> Table | None:
    if state in table.nested:
        return table.nested[state]
    return next((found for inner in table.nested.values() if (found := _find_nested(inner, state)) is not None), None)


def exchange_of(given: Iterable[Table | Role]) -> Exchange:
    """The exchange of these roles, and of tables as roles of one machine. Raises `InputError` for a repeated name."""
    roles = tuple(one if isinstance(one, Role) else Role(one.name, one) for one in given)
    names = [role.name for role in roles]
    if len(set(names)) < len(names):
        raise InputError("two tables have the same name", ", ".join(names), "rename one")
    return Exchange(roles)
