"""The step kernel: carries out a table's rows on the state of a machine.

A state is an immutable value, a class decorated with `@frozen`. A step opens it as a `Draft`, which has the same
fields, mutable, and one method per effect of the table; takes the rows for its events; and closes the draft:

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

An effect may return an event to be taken before the row's next step, or a `Pause`, which ends the row early and returns
its remaining steps to be performed later. This module is independent of Kafka.
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
    """Class decorator: an immutable, slotted, hashable dataclass. Equality compares identity first, then fields.

    It takes `dataclasses.field` (without `init=False`). An instance is made four times as fast as a frozen dataclass's.
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
    """Class decorator: a `value` that can be opened as a `Draft`.

    Type checkers see its fields as assignable, because those of its drafts are. An instance of the class itself raises
    `dataclasses.FrozenInstanceError`.
    """
    return value(cls)


class Pause(Enum):
    """Return value of an effect that ends its row early."""

    BEFORE = "The effect did nothing yet: it is the first of the steps that are left."
    AFTER = "The effect is done: the steps behind it are left."


class Draft(Generic[S]):
    """A state opened for one step: its fields, mutable, and a method for each effect of its tables.

    A subclass also inherits from the state's class and names the enums of its effects: `class DoorDraft(Draft[Door],
    Door, effects=Effect)`. The method of an effect has its name in lower case. Defining a subclass without a method for
    some effect raises `TableError`. A subclass may add attributes for what a step needs beside the state.
    """

    if not TYPE_CHECKING:  # a type checker that saw them would allow assignment to any attribute

        def __new__(cls, *_: object, **__: object) -> Any:
            return object.__new__(cls)  # not `__new__` of the value class, which is a base as well

        __setattr__ = object.__setattr__
        __delattr__ = object.__delattr__
        __hash__ = None

    stored: S
    """The opened state."""
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
        """A draft opened without the cost of `__init__`."""
        raise NotImplementedError(stored)  # generated for each subclass

    def close(self) -> S:
        """The new state; the stored object itself if nothing changed."""
        raise NotImplementedError  # generated for each subclass

    def take(self, cells: Compiled, event: Symbol, *subject: object) -> tuple[Symbol, ...]:
        """Performs the row of `event` in the draft's state; returns the steps that a `Pause` left.

        Raises `IllegalTransition`, with nothing changed, if the table has no such cell.
        """
        return self.perform(cells, cells.by_state[self.state][event].steps, *subject)

    def perform(self, cells: Compiled, steps: tuple[Symbol, ...], *subject: object) -> tuple[Symbol, ...]:
        """Performs steps of a row in order: enters states, calls the methods of effects with the `subject`.

        An event that a method returns is taken before the next step. Returns the steps that a `Pause` left.
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
        """Sets the state; subclasses may do more."""
        self.state = state


def _maker(state: type[Any]) -> Callable[..., Any]:
    """A `__new__` for a state's class.

    `dataclass` sets each field of a frozen instance by one call of `object.__setattr__`. This one fills a plain object
    of the same layout and then assigns its `__class__`.
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
    maker.__qualname__ = state.__qualname__  # shown in errors about arguments
    return maker


def _blank(state: type[Any]) -> type[Any]:
    """A class of the same layout whose instances are mutable."""
    return type(
        state.__name__, (state.__base__ or object,), {"__slots__": state.__slots__, "__setattr__": object.__setattr__}
    )


def _reduce(self: Any) -> tuple[object, ...]:
    """`__reduce__` of values, for `pickle` and `copy`."""
    return _restore, (type(self), tuple(getattr(self, f.name) for f in fields(self)))


def _restore(state: type[Any], values: tuple[object, ...]) -> object:
    made = object.__new__(state)
    for f, value in zip(fields(state), values, strict=True):
        object.__setattr__(made, f.name, value)
    return made


def _copiers(draft: type[Any], state: type[Any]) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """The functions `of(stored)`, `open(draft, stored)` and `close(draft)` for a draft class and its state's class.

    They are generated without loops, as `dataclass` does: a loop over the fields would cost more than most steps.
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
    """Compiles a function from its head and body lines, with `names` as globals. The source must be trusted."""
    exec(compile("\n    ".join([f"def {head}:", *lines]), "<fsm>", "exec"), names)  # noqa: S102  # names of fields, which are identifiers
    made: Callable[..., Any] = names[head.partition("(")[0]]
    return made
