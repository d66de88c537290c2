"""The mutation score: which mutants of a model its properties kill.

The model is explored once unchanged, to find the rows, rules and choices that are ever met. Then each mutant is
explored: it is killed by the first property that it breaks; it is the same if no step that is taken differs from the
model's own; else it survives, and a property may be missing.
"""

from __future__ import annotations

from collections import ChainMap, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, NamedTuple

from fsm.check.endless import EndlessError, watching, within
from fsm.check.model import Choice, Component, Model
from fsm.check.mutation_operators import OPERATORS, Dialects, Met, Mutant, of_choices, of_rules, of_tables
from fsm.check.search import USUAL, Limits, Search
from fsm.check.verdict import Verdict, check, count_steps
from fsm.errors import FsmError, InputError

ROOM = 10
"""The factor of the model's states and of its steps at which the search of a mutant is stopped, plus `SOME`."""
SOME = 2_000
STEP_S = 1.0
"""CPU seconds of a step of a mutant: those of a model take less than a ms, or a few."""


@dataclass(frozen=True)
class Subject:
    """The subject of mutation: a function that makes the model, and the rules it depends on besides its tables."""

    make: Callable[[], Model]
    rules: Sequence[FunctionType] = ()
    computing: Collection[str] = ()
    """Modules of rules whose results are mutated, too."""
    dialects: Sequence[Dialects] = ()


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
    untried: int = 0
    """The count of mutants that were not tried because Ctrl-C ended the run."""

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
            **({"untried": self.untried} if self.untried else {}),
            "mutants": [one.document() for one in self.outcomes],
        }


class _Waiting(NamedTuple):
    """When a search takes a step."""

    condition: str
    """Under this condition it costs nothing."""
    costs: bool
    """It is a disturbance."""
    is_counted_on: bool
    """Liveness counts on it where the goal cannot be reached without."""


class _Steps:
    """The steps of the original components, the places that each of them reaches, and which of a mutant differ.

    A step that does not reach the place of a mutant is looked up.
    """

    def __init__(self, met: Met) -> None:
        self.known: dict[Hashable, Any] = {}
        self.different: set[Hashable] = set()
        self._waiting: ChainMap[Hashable, _Waiting] = ChainMap()
        """Steps of the mutant, then of the model, that not every search takes."""
        self._met = met
        self._reaching: defaultdict[str, set[Hashable]] = defaultdict(set)
        self._changed: set[Hashable] = set()
        """The steps that the mutant may change; all if it is empty, as for choices, whose places no step records."""

    def begin(self, mutant: Mutant) -> None:
        """Compares the steps of this mutant from now on."""
        self.different.clear()
        self._waiting = ChainMap({}, self._waiting.maps[-1])
        self._changed = set[Hashable]().union(*(self._reaching[place] for place in mutant.places))

    def watch(self, model: Model, disturb: Sequence[str], *, learns: bool) -> Model:
        """The model with its steps and choices recorded, or compared, those of disabled disturbances left out.

        Counterexamples are not replayed: nobody reads them.
        """
        by = () if model.goal is None else model.goal.by
        components = [self._watch(one, self._choose(one, disturb, by), learns=learns) for one in model.components]
        return replace(model, components=components, replay=None)

    def _choose(self, one: Component, disturb: Collection[str], by: Collection[str]) -> Callable[[Any], Any]:
        """The choices of a component without those that no search takes."""

        def choices(state: Any) -> tuple[Choice, ...]:
            found = []
            for c in one.choices(state):
                costs, is_counted_on = c.disturbance in disturb, c.disturbance in by
                if c.disturbance and (c.free_when or (is_counted_on and not costs)):
                    key = _key(one, state, c.label if c.given is None else c.given)
                    self._waiting[key] = _Waiting(c.free_when, costs, is_counted_on)
                if not c.disturbance or is_counted_on or c.free_when or costs:
                    found.append(c)
            return tuple(found)

        return choices

    def _watch(self, one: Component, choices: Callable[[Any], Any], *, learns: bool) -> Component:
        def take(*given: Any) -> Any:
            key = _key(one, *given)
            function = one.step if len(given) > 1 else choices
            if learns:
                self._met.now = reached = set[str]()
                found = self.known[key] = function(*given)
                for place in reached:
                    self._reaching[place].add(key)
                return found
            if self._changed and key not in self._changed and key in self.known:
                return self.known[key]
            try:
                found = function(*given)
            except Exception:
                self.different.add(key)
                raise
            if self.known.get(key, self) != found:
                self.different.add(key)
            return found

        if learns:
            self.known[one.name] = one.start
        elif self.known.get(one.name, one.start) != one.start:
            self.different.add(one.name)
        return replace(one, choices=take, step=take)

    def differ_in(self, search: Search) -> bool:
        """Whether a step that differs is taken in this search: the search computes more than it takes."""
        rows = search.rows(slice(0, search.met))
        before_last = search.layers[search.most] if len(search.layers) > search.most else search.met

        def is_taken(key: Any) -> bool:
            if key not in self._waiting:
                return True
            name, (_, state), _ = key
            waiting, who = self._waiting[key], search.space.index[name]
            if waiting.is_counted_on and search.relies_on_events:
                return True
            here = search.space.cells[who].states()[rows[:, who]] == search.space.parts[who].number(state)
            if waiting.costs and here[:before_last].any():
                return True
            name = waiting.condition
            return bool(name and (here & search.steps.ask(name, search.model.conditions[name], rows)).any())

        return any(map(is_taken, self.different))


def _key(one: Component, *given: Any) -> Hashable:
    """The key of a component's step on an input, or of its choices; 1 and True are different."""
    return (one.name, *((type(part), part) for part in given))


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
    report: Callable[[Outcome], None] = lambda _outcome: None,
) -> Score:
    """Tries the mutants of a model, or those that `which` names: an operator, `OPERATOR:PLACE`, or a whole name.

    `report` gets the result of each mutant at once. Ctrl-C ends it with the results so far, once the first mutant is
    tried. Raises `InputError` if the model itself does not hold, and for a name of no mutant.
    """
    met = Met()
    steps = _Steps(met)
    asked: dict[str, set[Any]] = {one.side: set() for one in subject.dialects}

    def explore(limits: Limits, *, learns: bool) -> tuple[Verdict, Search]:
        searches: list[Search] = []

        def make(*given: Any) -> Search:
            searches.append(Search(*given))
            return searches[-1]

        with watching():  # a model may take steps until it has settled
            model = within(USUAL.step_s, subject.make)
        verdict = check(
            steps.watch(model, disturb, learns=learns),
            disturb=disturb,
            disturbances=disturbances,
            known=known,
            properties=properties,
            limits=limits,
            engine=make,
        )
        return verdict, searches[-1]

    progress(0, 0, "the model as it is")
    if subject.dialects:
        with ExitStack() as recording:  # such dialects are different objects: states with them compare as different
            for one in subject.dialects:
                recording.enter_context(one.record(asked[one.side]))
            explore(limits, learns=False)
    with met.watching(subject.rules):
        model, _ = explore(limits, learns=True)
    if model.violations:
        broken = model.violations[0].property
        raise InputError(
            f"the model itself breaks {broken!r}: no mutant can be distinguished from it",
            model.model,
            "choose --property, --disturb or --known so that it holds",
        )
    rules = of_rules(subject.rules, met, subject.computing)
    mutants = choose([*of_tables(met), *rules, *of_choices(subject.dialects, asked)], which, model.model)
    room = replace(
        limits,
        max_states=min(limits.max_states, ROOM * model.states + SOME),
        max_steps=ROOM * model.memo_steps + SOME,
        step_s=STEP_S,
    )
    outcomes: list[Outcome] = []
    try:
        for number, mutant in enumerate(mutants, 1):
            progress(number, len(mutants), mutant.name)
            outcomes.append(_try(mutant, steps, lambda: explore(room, learns=False)))
            report(outcomes[-1])
    except KeyboardInterrupt:
        if not outcomes:
            raise
    return Score(model, tuple(outcomes), len(mutants) - len(outcomes))


def _try(mutant: Mutant, steps: _Steps, explore: Callable[[], tuple[Verdict, Search]]) -> Outcome:
    if not mutant.is_met:
        return Outcome(mutant, "not met")
    steps.begin(mutant)
    try:
        with mutant.patch():
            found, search = explore()
            differs = not found.violations and steps.differ_in(search)
    except (FsmError, EndlessError) as problem:
        # No model any more: a step that is not pure, a cluster that never settles.
        return Outcome(mutant, "killed", f"cannot be explored: {problem}".splitlines()[0])
    if found.violations:
        one = found.violations[0]
        return Outcome(mutant, "killed", one.property, one.disturbances, count_steps(one), found.states)
    word = "stopped" if found.stopped else "survived" if differs else "same"
    return Outcome(mutant, word, states=found.states)


def choose(mutants: Sequence[Mutant], which: Sequence[str], model: str) -> list[Mutant]:
    """The mutants of these names; a place may be a table or module. Raises `InputError` for a name of no mutant."""
    if not mutants:
        raise InputError("uses no table: there is nothing to mutate", model)
    found: list[Mutant] = []
    for name in which:
        operator, _, place = name.partition(":")
        if operator not in OPERATORS:
            raise InputError(f"unknown operator {operator!r}", "--mutate", f"choose from {', '.join(OPERATORS)}")
        place, _, detail = place.partition(":")
        there = [one for one in mutants if not place or any(f"{at}.".startswith(f"{place}.") for at in one.places)]
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
    if found.untried:
        yield f"  ended by Ctrl-C: {found.untried} more mutants were not tried"
    for word in ("survived", "stopped", "killed", "same", "not met"):
        yield from (describe(one) for one in found.outcomes if one.word == word)


def describe(one: Outcome) -> str:
    """The result of a mutant on one line."""
    how = f" by {one.property!r}, disturbances {one.disturbances}, steps {one.steps}" if one.property else ""
    return f"{one.word:<9} {one.mutant.name}{how}"
