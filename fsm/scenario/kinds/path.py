"""A path through a model of `fsm check`: a counterexample, walked again.

    path: no partition has two users                 # what it shows; marks this kind of scenario
    model: consumer-group          # or a file relative to this one: a table, a deployment, FILE.py:NAME
    options: {members: 2, topics: {foo: 2}, client: 4.4.0} # options of fsm check; --dialect overrides the dialects
    steps:
    - do: a polls                  # the text in a counterexample
      expect: {a: "JOINING at epoch 0, uses nothing"}        # the states of components
    - do: "broker receives from a: joins, owns nothing"

`fsm check -o DIR` writes such files. A path of `FILE.py:NAME` runs that file, as the checker does. A step that cannot
be done is a difference. At the end live objects with clocks take the same path, and must not differ.

Expectations: components by their names, `broken` (properties of states that do not hold), `refused`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsm.check.catalog import SHIPPED, options_of
from fsm.errors import InputError
from fsm.nodes import Node, nearest
from fsm.render.sequence import Arrow, Look
from fsm.scenario.own_models import OPTIONS, find_maker, is_table
from fsm.scenario.reading import has_key
from fsm.scenario.story import REFUSED, Act, Expected, Replay, Seen, Stage, Step, play, read_steps
from fsm.scenario.texts import NOTHING, show_list
from fsm.tables.files import is_python

if TYPE_CHECKING:
    from fsm.check import Model, PathStep, Walk

NAME = "path"
VERBS = ("do",)
_DIALECTS = ("client", "coordinator")
_LIVE = "live objects"
_SAME = "do the same"
reads = has_key(NAME)


def replay(document: Node, file: str, dialect: str | None) -> Iterator[Replay]:
    """Walks the path. Raises `InputError` with the line for an unknown model or option."""
    from fsm.check import Walk  # noqa: PLC0415  # it needs numpy

    given, model = read_model(document, dialect, Path(file).parent)
    stage = _Path(Walk(model))
    steps = play(stage, read_steps(given["steps"]))
    dialects = {name: model.made_by[name] for name in _DIALECTS if name in model.made_by}
    shown = dialect or ", ".join(f"{name} {value}" for name, value in dialects.items()) or model.name
    yield Replay(file, NAME, given[NAME].text(), shown, (*steps, *_live(stage.walk, document.where)))


def read_model(document: Node, dialect: str | None = None, folder: Path | None = None) -> tuple[dict[str, Node], Model]:
    """The fields of a path, and its model. Raises `InputError` with the line for an unknown one."""
    given = document.fields((NAME, "model", "options", "steps"), (NAME, "model", "steps"))
    name = given["model"].text()
    if name in SHIPPED or not (is_python(name) or is_table(name)):
        return given, _make(name, given, dialect)
    if dialect is not None:
        raise InputError("a model of your own has no dialect", given["model"].where, "leave --dialect out")
    options = _read_options(given, OPTIONS)
    others = options.pop("with", ())
    return given, find_maker(name, others, **options, folder=folder)()


def _read_options(given: Mapping[str, Node], known: Mapping[str, Any]) -> dict[str, Any]:
    options = {}
    for option, (key, node) in given["options"].mapping().items() if "options" in given else ():
        if option not in known:
            raise InputError(f"unknown option {option!r}", key.where, nearest(option, tuple(known)))
        options[option] = _value(node, known[option])
    return options


def _make(name: str, given: Mapping[str, Node], dialect: str | None) -> Model:
    from fsm.check import make_model  # noqa: PLC0415

    try:
        known = options_of(name)
    except InputError as problem:
        raise InputError(problem.what, given["model"].where, problem.remedy) from None
    options = _read_options(given, known)
    candidates = [options]
    if dialect is not None:
        there = [name for name in _DIALECTS if name in known]
        candidates = [options | dict.fromkeys(those, dialect) for those in (there, *([one] for one in there))]
    problems = []
    for candidate in candidates:
        try:
            return make_model(name, **candidate)
        except InputError as problem:
            problems.append(problem)
    raise problems[0]


def _value(node: Node, default: Any) -> Any:
    """Parses an option by the type of its default: a number, a flag, numbers by names, texts, or a text."""
    match default:
        case bool():
            return node.flag()
        case int():
            return node.number()
        case Mapping():
            return {name: value.number() for name, (_, value) in node.mapping().items()}
        case tuple():
            return [one.text() for one in node.items()]
    return node.text()


class _Path(Stage):
    verbs = VERBS
    implied = {REFUSED: NOTHING}  # noqa: RUF012  # as every stage has it

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self._before = walk.state()
        self._number = 0
        self._taken: list[tuple[int, PathStep]] = []
        """The steps that were possible, with their numbers."""

    def title(self, act: Act, _begun_ms: int) -> str:
        return act.value.text()

    def do(self, act: Act) -> None:
        self._number, self._before = self._number + 1, self.walk.state()
        self._taken.append((self._number, self.walk.take(act.value.text())))

    def see(self) -> Seen:
        after = self.walk.state()
        broken = self.walk.list_broken()
        changed = {name: state for name, state in after.items() if state != self._before[name]}
        lines = [f"{name}: {state}" for name, state in changed.items()]
        lines += [f"broken: {name}" for name in broken]
        return Seen({**after, "broken": show_list(broken)}, lines, tuple(self._arrows(changed)))

    def _arrows(self, changed: Mapping[str, str]) -> Iterator[Arrow]:
        from fsm.check.story import arrow_of, late_steps  # noqa: PLC0415

        if not self._taken or self._taken[-1][0] != self._number:
            return
        number, step = self._taken[-1]
        sent_in = late_steps(self._taken).get(number) if step.action == "receives late" else None
        yield arrow_of(step, sent_in=sent_in)
        yield from (Arrow(name, name, state, Look.STATE) for name, state in changed.items())

    def expect(self, node: Node, seen: Mapping[str, str]) -> Iterable[Expected]:
        for name, (key, value) in node.mapping().items():
            if name not in seen:
                raise InputError(f"no component {name!r}", key.where, nearest(name, tuple(seen)))
            expected = show_list([one.text() for one in value.items()]) if name == "broken" else value.text()
            yield Expected(name, expected, value.where)


def _live(walk: Walk, where: str) -> Iterator[Step]:
    if walk.model.replay is None or not walk.path:
        return
    try:
        differs = walk.model.replay(walk.path).differs
    except Exception as problem:  # whatever a step of them raises
        differs = f"raises {type(problem).__name__}: {problem}".partition("\n")[0]
    seen = {_LIVE: differs or _SAME}
    yield Step(_LIVE, where, seen, (Expected(_LIVE, _SAME, where, implied=True),), (f"they {seen[_LIVE]}",))
