"""The step kernel: what a row of a table does to the state of a machine.

A state is a value: a class under `@frozen`. One step of the machine opens it as a `Draft`, which has the same fields to
be changed and one method for each effect of the table, takes the rows that its decisions name, and closes:

    @frozen
    class Door:
        state: State = State.SHUT
        knocks: int = 0

    class DoorDraft(Draft[Door], Door, effects=Effect):
        def count_knock(self) -> None:              # Effect.COUNT_KNOCK
            self.knocks += 1

    draft = DoorDraft(door)
    draft.take(TABLE.compiled, Event.KNOCKED)
    door = draft.close()

An effect may return the event that falls due before the row's next step, or a `Pause`, which ends the row early and
leaves the rest of its steps to be performed later. This module knows no Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, dataclass_transform

from fsm.errors import TableError
from fsm.table import Compiled, Symbol

S = TypeVar("S")
Effect = Callable[..., "Symbol | Pause | None"]


@dataclass_transform(field_specifiers=(field,), frozen_default=True)
def value(cls: type[S]) -> type[S]:
    """Makes a class of annotated fields a value: immutable, slotted, hashable, equal by its fields, identity first.

    It is a `dataclass` and takes `dataclasses.field` (without `init=False`), but one that is made four times as fast.
    """
    made = dataclass(frozen=True, slots=True, init=False)(cls)
    same_fields = made.__eq__

    def equal(self: object, other: object) -> bool:
        return self is other or same_fields(self, other)

    for name, method in {"__eq__": equal, "__new__": _maker(made), "__init__": object.__init__}.items():
        setattr(made, name, method)
    made.__reduce__ = _reduce  # type: ignore[method-assign]
    return made


@dataclass_transform(field_specifiers=(field,))
def frozen(cls: type[S]) -> type[S]:
    """Makes a class a `value` that has drafts.

    Type checkers are told that its fields can be assigned, because those of its drafts can; an instance of the class
    itself refuses with `dataclasses.FrozenInstanceError`.
    """
    return value(cls)


class Pause(Enum):
    """What an effect returns to end its row early."""

    BEFORE = "The effect did nothing yet: it is the first of the steps that are left."
    AFTER = "The effect is done: the steps behind it are left."


class Draft(Generic[S]):
    """A state opened for one step: its fields, to be changed, and a method for each effect of its tables.

    A subclass also inherits from the state's class and names the enums of its effects: `class DoorDraft(Draft[Door],
    Door, effects=Effect)`. The method of an effect has its name in lower case. Raises `TableError` when the subclass is
    made and an effect has no method. What a step needs beside the state are attributes that the subclass adds.
    """

    if not TYPE_CHECKING:  # a checker that saw them would let any attribute be assigned

        def __new__(cls, *_: object, **__: object) -> Any:
            return object.__new__(cls)  # not as the value that it also is

        __setattr__ = object.__setattr__
        __delattr__ = object.__delattr__
        __hash__ = None

    stored: S
    """The state that was opened."""
    state: Any
    methods: ClassVar[dict[Symbol, Effect]] = {}
    _open: ClassVar[Callable[[Any, Any], None]]

    def __init_subclass__(cls, effects: type[Symbol] | Iterable[type[Symbol]] = (), **rest: Any) -> None:
        super().__init_subclass__(**rest)
        enums = (effects,) if isinstance(effects, type) else tuple(effects)
        known = {*cls.methods, *(effect for enum in enums for effect in enum)}
        names = (effect.name for enum in enums for effect in enum)
        missing = [name for name in names if not callable(getattr(cls, name.lower(), None))]
        if missing:
            raise TableError(cls.__name__, tuple(f"effect {name} has no method {name.lower()}" for name in missing))
        cls.methods = {effect: getattr(cls, effect.name.lower()) for effect in known}
        state = next((base for base in cls.__mro__ if "__dataclass_fields__" in vars(base)), None)
        if state is None:
            raise TypeError(f"{cls.__name__} has to inherit from the @frozen class of its state, too")
        cls.of, cls._open, cls.close = _copiers(cls, state)  # type: ignore[method-assign]

    def __init__(self, stored: S) -> None:
        self.stored = stored
        self._open(stored)

    @staticmethod
    def of(stored: Any) -> Any:
        """A draft that is opened without `__init__`, for steps that have no time for it."""
        raise NotImplementedError(stored)  # written for each class

    def close(self) -> S:
        """The state as the step leaves it: the stored one itself where nothing changed."""
        raise NotImplementedError  # written for each class

    def take(self, cells: Compiled, event: Symbol, *subject: object) -> tuple[Symbol, ...]:
        """Performs the row of `event` in the draft's state; gives the steps that a `Pause` left.

        Raises `IllegalTransition` before anything is done where the table has no such cell.
        """
        return self.perform(cells, cells.by_state[self.state][event].steps, *subject)

    def perform(self, cells: Compiled, steps: tuple[Symbol, ...], *subject: object) -> tuple[Symbol, ...]:
        """Performs steps of a row in order: a state is entered, an effect's method is called with the `subject`.

        An event that a method returns is taken before the next step. Gives the steps that a `Pause` left.
        """
        methods = self.methods
        for position, step in enumerate(steps):
            method = methods.get(step)
            if method is None:
                self.enter(step)
            elif (due := method(self, *subject) if subject else method(self)) is not None:
                if isinstance(due, Pause):
                    return steps[position + (due is Pause.AFTER) :]
                self.take(cells, due, *subject)
        return ()

    def enter(self, state: Symbol) -> None:
        """Goes to a state of the table."""
        self.state = state


def _maker(state: type[Any]) -> Callable[..., Any]:
    """`__new__` of a state's class.

    `dataclass` sets each field of a frozen instance through `object.__setattr__`, a call a field. Here a plain object
    of the same layout is filled, and then becomes an instance of the class.
    """
    made: dict[str, Any] = {"blank": _blank(state), "new": object.__new__, "missing": MISSING}
    signature, lines = ["cls"], []
    for f in sorted(fields(state), key=lambda f: f.kw_only is True):
        if f.kw_only and "*" not in signature:
            signature.append("*")
        given = f.name
        if f.default is not MISSING:
            made[f"default_{f.name}"] = f.default
            signature.append(f"{f.name}=default_{f.name}")
        elif f.default_factory is not MISSING:
            made[f"make_{f.name}"] = f.default_factory
            signature.append(f"{f.name}=missing")
            given = f"make_{f.name}() if {f.name} is missing else {f.name}"
        else:
            signature.append(f.name)
        lines.append(f"self.{f.name} = {given}")
    lines = ["self = new(blank)", *lines, "self.__class__ = cls"]
    if hasattr(state, "__post_init__"):
        lines.append("self.__post_init__()")
    maker = compile_function(f"__new__({', '.join(signature)})", [*lines, "return self"], made)
    maker.__qualname__ = state.__qualname__  # as an error about an argument names it
    return maker


def _blank(state: type[Any]) -> type[Any]:
    """A class of the same layout, without a rule about assignment."""
    return type(
        state.__name__, (state.__base__ or object,), {"__slots__": state.__slots__, "__setattr__": object.__setattr__}
    )


def _reduce(self: Any) -> tuple[object, ...]:
    """For `pickle` and `copy`."""
    return _restore, (type(self), tuple(getattr(self, f.name) for f in fields(self)))


def _restore(state: type[Any], values: tuple[object, ...]) -> object:
    made = object.__new__(state)
    for f, value in zip(fields(state), values, strict=True):
        object.__setattr__(made, f.name, value)
    return made


def _copiers(draft: type[Any], state: type[Any]) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """`of(stored)`, `open(draft, stored)` and `close(draft)` for a class of drafts and the class of their states.

    Straight code, as `dataclass` writes its own: a loop over the fields would cost more than most steps do.
    """
    names = [f.name for f in fields(state)]
    made: dict[str, Any] = {"cls": draft, "frozen": state, "blank": _blank(state), "new": object.__new__}
    opening = [f"draft.{name} = stored.{name}" for name in names]
    close = [
        "stored = draft.stored",
        f"if {' and '.join(f'draft.{name} is stored.{name}' for name in names)}: return stored",
        "state = new(blank)",
        *(f"state.{name} = draft.{name}" for name in names),
        "state.__class__ = frozen",
        "return state",
    ]
    of = compile_function("of(stored)", ["draft = new(cls)", "draft.stored = stored", *opening, "return draft"], made)
    return (
        staticmethod(of),
        compile_function("open(draft, stored)", opening, made),
        compile_function("close(draft)", close, made),
    )


def compile_function(head: str, lines: list[str], names: dict[str, Any]) -> Callable[..., Any]:
    """The function of this head and these lines, which sees the names; all of it is written by the caller."""
    exec(compile("\n    ".join([f"def {head}:", *lines]), "<fsm>", "exec"), names)  # noqa: S102  # names of fields, which are identifiers
    made: Callable[..., Any] = names[head.partition("(")[0]]
    return made
