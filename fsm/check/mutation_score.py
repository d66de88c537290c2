"""The mutation score: which mutants of a model its properties kill.

The model is explored once unchanged, to find the rows, rules and choices that are ever met. Then each mutant is
explored: it is killed by the first property that it breaks; it is the same if no step of any component differs from the
model's own; else it survives, and a property may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any, NamedTuple

from fsm.check.model import Component, Model
from fsm.check.mutation_operators import OPERATORS, Flips, Met, Mutant, of_choices, of_rules, of_tables
from fsm.check.search import USUAL, Limits
from fsm.check.verdict import Verdict, check
from fsm.errors import FsmError, InputError

ROOM = 10
"""The factor of the model's states, plus `SOME`, at which the search of a mutant is stopped."""
SOME = 100_000


@dataclass(frozen=True)
class Subject:
    """The subject of mutation: a function that makes the model, and the rules it depends on besides its tables."""

    make: Callable[[], Model]
    rules: Sequence[FunctionType] = ()
    computing: Collection[str] = ()
    """Modules of rules whose results are mutated, too."""
    flips: Sequence[Flips] = ()
    asked: Callable[[dict[str, set[Any]]], ExitStack] = lambda _asked: ExitStack()
    """Records, until the `with` ends, the choices that each side reads."""


class Outcome(NamedTuple):
    """The result of a mutant."""

    mutant: Mutant
    word: str
    """`killed`, `survived`, `stopped`, `same` or `not met`."""
    property: str = ""
    disturbances: int = 0
    steps: int = 0
    states: int = 0

    def document(self) -> dict[str, Any]:
        """As a dict."""
        document = {"mutant": self.mutant.name, "operator": self.mutant.operator, "outcome": self.word}
        if self.word != "killed":
            return {**document, "states": self.states}
        killer = {"property": self.property, "disturbances": self.disturbances, "steps": self.steps}
        return {**document, **killer, "states": self.states}


@dataclass(frozen=True)
class Score:
    """All mutants of a model."""

    model: Verdict
    """The verdict on the unchanged model."""
    outcomes: tuple[Outcome, ...]

    def count(self, word: str) -> int:
        """The count of mutants with this result."""
        return sum(one.word == word for one in self.outcomes)

    @property
    def tried(self) -> int:
        """Mutants that behave differently from the model."""
        return self.count("killed") + self.count("survived") + self.count("stopped")

    @property
    def share(self) -> float:
        """The share of killed mutants among those that behave differently; 1 if there are none."""
        return self.count("killed") / self.tried if self.tried else 1.0

    def document(self) -> dict[str, Any]:
        """As lists and dicts."""
        words = ("killed", "survived", "stopped", "same", "not met")
        return {
            "model": self.model.model,
            "states": self.model.states,
            "disturbed": list(self.model.disturbed),
            "disturbances": self.model.disturbances,
            "score": round(self.share, 4),
            **{word.replace(" ", "_"): self.count(word) for word in words},
            "mutants": [one.document() for one in self.outcomes],
        }


@dataclass
class _Steps:
    """The steps of the original components, and whether those of a mutant differ."""

    known: dict[Hashable, Any] = field(default_factory=dict)
    differs: bool = False

    def watch(self, model: Model, *, learns: bool) -> Model:
        """The model with its steps and choices recorded, or compared. Counterexamples are not replayed: nobody reads
        them."""
        components = [self._component(one, learns=learns) for one in model.components]
        return replace(model, components=components, replay=None)

    def _component(self, one: Component, *, learns: bool) -> Component:
        def note(key: Hashable, found: Any) -> Any:
            if learns:
                self.known[key] = found
            elif not self.differs and self.known.get(key, self) != found:
                self.differs = True
            return found

        def choices(state: Any) -> Any:
            return note((one.name, state), tuple(one.choices(state)))

        def step(state: Any, given: Any) -> Any:
            try:
                return note((one.name, state, given), one.step(state, given))
            except Exception:
                self.differs = True
                raise

        if learns:
            self.known[one.name] = one.start
        self.differs = self.differs or self.known.get(one.name, one.start) != one.start
        return replace(one, choices=choices, step=step)


def score(
    subject: Subject,
    which: Sequence[str] = (),
    *,
    disturb: Sequence[str] = (),
    disturbances: int = 0,
    known: Sequence[str] = (),
    properties: Sequence[str] = (),
    limits: Limits = USUAL,
    progress: Callable[[int, int, str], None] = lambda _done, _all, _name: None,
) -> Score:
    """Tries the mutants of a model, or those that `which` names: an operator, `OPERATOR:PLACE`, or a whole name.

    Raises `InputError` if the model itself does not hold, and for a name of no mutant.
    """
    met, steps = Met(), _Steps()
    asked: dict[str, set[Any]] = {}

    def explore(limits: Limits, *, learns: bool) -> Verdict:
        model = steps.watch(subject.make(), learns=learns)
        return check(
            model, disturb=disturb, disturbances=disturbances, known=known, properties=properties, limits=limits
        )

    progress(0, 0, "the model as it is")
    with met.watching(subject.rules), subject.asked(asked):
        explore(limits, learns=False)
    model = explore(limits, learns=True)  # watched dialects are different objects: their states compare as different
    if model.violations:
        broken = model.violations[0].property
        raise InputError(
            f"the model itself breaks {broken!r}: no mutant can be distinguished from it",
            model.model,
            "choose --property, --disturb or --known so that it holds",
        )
    rules = of_rules(subject.rules, met, subject.computing)
    mutants = choose([*of_tables(met), *rules, *of_choices(subject.flips, asked)], which, model.model)
    room = min(limits.max_states, ROOM * model.states + SOME)
    outcomes = []
    for number, mutant in enumerate(mutants, 1):
        progress(number, len(mutants), mutant.name)
        outcomes.append(_try(mutant, steps, lambda: explore(replace(limits, max_states=room), learns=False)))
    return Score(model, tuple(outcomes))


def _try(mutant: Mutant, steps: _Steps, explore: Callable[[], Verdict]) -> Outcome:
    if not mutant.is_met:
        return Outcome(mutant, "not met")
    steps.differs = False
    try:
        with mutant.patch():
            found = explore()
    except FsmError as problem:  # no model any more: a step that is not pure, a table that contradicts itself
        return Outcome(mutant, "killed", f"cannot be explored: {problem}".splitlines()[0])
    if found.violations:
        one = found.violations[0]
        taken = len(one.path) if one.doomed_at is None else one.doomed_at
        return Outcome(mutant, "killed", one.property, one.disturbances, taken, found.states)
    word = "stopped" if found.stopped else "survived" if steps.differs else "same"
    return Outcome(mutant, word, states=found.states)


def choose(mutants: Sequence[Mutant], which: Sequence[str], model: str) -> list[Mutant]:
    """The mutants of these names. Raises `InputError` for a name of no mutant."""
    if not mutants:
        raise InputError("uses no table: there is nothing to mutate", model)
    found: list[Mutant] = []
    for name in which:
        operator, _, place = name.partition(":")
        if operator not in OPERATORS:
            raise InputError(f"unknown operator {operator!r}", "--mutate", f"choose from {', '.join(OPERATORS)}")
        place, _, detail = place.partition(":")
        there = [one for one in mutants if not place or place in one.places]
        if not there:
            raise InputError(f"unknown row, rule or choice {place!r}", "--mutate", f"write one as {mutants[0].place}")
        meant = [one for one in there if one.operator == operator and detail in ("", one.detail)]
        if not meant:
            others = ", ".join(dict.fromkeys(one.operator for one in there)) if place else "another one"
            raise InputError(f"{name!r} changes nothing", "--mutate", f"mutants that change something there: {others}")
        found += [one for one in meant if one not in found]
    return found or list(mutants)


def lines(found: Score) -> Iterator[str]:
    """The score as text: survivors first, then killed mutants."""
    model = found.model
    killed, tried = found.count("killed"), found.tried
    yield f"{model.model}: {killed} of {tried} mutants are killed, a score of {100 * found.share:.0f}%"
    yield f"  {model.states:,} states of the model as it is" + (
        f", at most {model.disturbances} of {', '.join(model.disturbed)}" if model.disturbances else ", undisturbed"
    )
    if model.stopped:
        yield f"  which was stopped at {model.stopped}: states beyond were not explored"
    yield f"  beside them {found.count('same')} of which no step differs, {found.count('not met')} of what is never met"
    for word in ("survived", "stopped", "killed", "same", "not met"):
        yield from _list_outcomes(word, [one for one in found.outcomes if one.word == word])


def _list_outcomes(word: str, outcomes: Iterable[Outcome]) -> Iterator[str]:
    for one in outcomes:
        how = f" by {one.property!r}" if one.property else ""
        path = f", disturbances {one.disturbances}, steps {one.steps}" if one.property else ""
        yield f"{word:<9} {one.mutant.name}{how}{path}"
