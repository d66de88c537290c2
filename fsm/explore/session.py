"""A model, walked by hand: the steps of a path, and the possible next ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, pairwise

from fsm.check import Model, PathStep, Verdict, Walk
from fsm.check.space import ask
from fsm.check.walk import Numbered, Stand
from fsm.explore.documents import MOST_STEPS, WHOLE_EVERY, Document, show_component, show_who


class ModelSession:
    """A walk through a model, and its loaded path."""

    def __init__(self, model: Model, loaded: Sequence[int] = (), title: str = "") -> None:
        """Raises `LocalProtocolError` for a path that the model does not allow."""
        self.model, self.walk, self.title = model, Walk(model), title or model.name.partition(",")[0]
        self._component, self._wire = cache(self._show_component), cache(self._show_wire)
        self.walk.go(loaded)
        self._loaded = self.walk.stands

    def opening(self) -> Document:
        """The model, the diagrams of its tables, and the first position."""
        model, first = self.model, self._loaded[:1]
        return {
            "title": self.title,
            "source": model.name,
            "kind": "model",
            **show_who(model.components, [(one.sender, one.receiver) for one in model.wires]),
            "kinds": list(model.kinds),
            "properties": {one.name: one.meaning for one in model.properties},
            "start": self._position(first[0], self.walk.broken_at(first)[0], 0),
            "can_branch": True,
            "length": len(self._loaded) - 1,
        }

    def steps(self, start: int, count: int) -> Document:
        """Steps of the loaded path, and the position before the first of them."""
        return self._steps(self._loaded, start, min(count, MOST_STEPS))

    def describe_path(self) -> Document:
        return {"path": [one.index for one in self._loaded[1:]]}

    def at(self, path: Sequence[int], known: int = 0) -> Document:
        """The steps of a path after the known ones, and the possible steps at its end.

        Raises `LocalProtocolError` with the step that the model does not allow.
        """
        self.walk.go(path)
        stands = self.walk.stands
        options = [
            {**_describe_step(step), "index": number, "changes": step.state}
            for number, step in enumerate(self.walk.options())
        ]
        return {**self._steps(stands, known, len(stands)), "options": options}

    # What could go wrong

    def model_at(self, path: Sequence[int]) -> Model:
        """The model that starts at the end of a path. Raises `LocalProtocolError` for an impossible one."""
        self.walk.go(path)
        return self.walk.from_here()

    def describe_violations(self, path: Sequence[int], verdict: Verdict | None) -> list[Document]:
        """The violations found by a check of `model_at`, each as a path from there."""
        found = []
        for one in verdict.violations if verdict is not None else ():
            self.walk.go(path)
            self.walk.follow(one.path)
            found.append(
                {
                    "property": one.property,
                    "meaning": one.meaning,
                    "disturbances": one.disturbances,
                    "hazards": list(one.hazards),
                    "doomed_at": None if one.doomed_at is None else len(path) + one.doomed_at,
                    "path": ".".join(map(str, self.walk.indices)),
                    "steps": self._steps(self.walk.stands, len(path), len(one.path))["steps"],
                }
            )
        return found

    # Display

    def _steps(self, stands: Sequence[Stand], start: int, count: int) -> Document:
        begin = max(0, min(start, len(stands) - 1))
        end = min(begin + max(count, 0), len(stands) - 1)
        shown = stands[begin : end + 1]
        costs = list(accumulate(int(bool(stand.step.disturbance)) for stand in stands[: end + 1]))[begin:]
        broken = [
            [*now, *(name for name in one.breaks if name not in now)]
            for one, now in zip(shown, self.walk.broken_at(shown), strict=True)
        ]
        position = self._position(shown[0], broken[0], costs[0])
        return {"position": position, "steps": list(self._describe_steps(begin, shown, broken, costs))}

    def _describe_steps(
        self, begin: int, stands: Sequence[Stand], broken: Sequence[list[str]], costs: Sequence[int]
    ) -> Iterator[Document]:
        """The steps between these positions; the first of them is the `begin`-th of the path."""
        for at, (before, after) in enumerate(pairwise(stands), 1):
            document = _describe_step(after.step)
            document["delta"] = self._show(after.parts, before.parts, broken[at], costs[at])
            if (begin + at) % WHOLE_EVERY == 0:
                document["position"] = self._position(after, broken[at], costs[at])
            yield document

    def _position(self, stand: Stand, broken: list[str], cost: int) -> Document:
        return self._show(stand.parts, None, broken, cost)

    def _show(self, now: Numbered, before: Numbered | None, broken: list[str], cost: int) -> Document:
        """The current position; only the changes, if a previous one is given."""
        components, wires = {}, {}
        for i, (one, number) in enumerate(zip(self.model.components, now.states, strict=True)):
            if before is None or before.states[i] != number:
                components[one.name] = self._component(i, number)
        for i, (wire, number) in enumerate(zip(self.model.wires, now.queues, strict=True)):
            if before is None or before.queues[i] != number:
                wires[f"{wire.sender}>{wire.receiver}"] = self._wire(i, number)
        return {"components": components, "wires": wires, "broken": broken, "disturbances": cost}

    def _show_component(self, i: int, number: int) -> Document:
        one, state = self.model.components[i], self.walk.value(i, number)
        look = None if one.look is None else ask(one.name, one.look, state)
        return show_component(str(ask(one.name, one.describe, state)), look)

    def _show_wire(self, i: int, number: int) -> list[Document]:
        one, queue = self.model.wires[i], self.walk.queue(i, number)
        where = f"{one.sender} to {one.receiver}"
        line, late = ([str(ask(where, one.describe, message)) for message in some] for some in queue)
        return [
            *({"text": text, "late": False} for text in (sorted(line) if one.reorders else line)),
            *({"text": text, "late": True} for text in sorted(late)),
        ]


def _describe_step(step: PathStep) -> Document:
    """The text of a step."""
    return {
        "text": str(step),
        **{name: value for name, value in step._asdict().items() if name != "state"},
        "at_ms": None,
    }
